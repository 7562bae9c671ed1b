"""MQTT by hand, for tests that must send what no library would: 3.1, 3.1.1 and 5.0.

Knows the form of packets and nothing of their rules: whatever is asked for is sent. What comes
back is taken apart strictly, so that a server that writes nonsense fails the test.
"""

import socket
import struct
import time
from dataclasses import dataclass, field

from miop import DEADLINE_S

(CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, SUBACK, UNSUBSCRIBE,
 UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH) = range(1, 16)
NAMES = ("type0 connect connack publish puback pubrec pubrel pubcomp subscribe suback unsubscribe "
         "unsuback pingreq pingresp disconnect auth").split()
V31, V311, V5 = 3, 4, 5

# Number, name and form of each property (MQTT5 2.2.2.2).
PROPERTIES = {
    1: ("payload_format", "B"), 2: ("expiry", "I"), 3: ("content_type", "text"),
    8: ("response_topic", "text"), 9: ("correlation", "bytes"), 11: ("subscription_id", "varint"),
    17: ("session_expiry", "I"), 18: ("assigned_id", "text"), 19: ("server_keep_alive", "H"),
    21: ("method", "text"), 22: ("data", "bytes"), 23: ("problem_information", "B"),
    24: ("will_delay", "I"), 25: ("response_information_wanted", "B"),
    26: ("response_information", "text"), 28: ("server_reference", "text"),
    31: ("reason", "text"), 33: ("receive_max", "H"), 34: ("alias_max", "H"), 35: ("alias", "H"),
    36: ("qos_max", "B"), 37: ("retain_available", "B"), 38: ("user", "pair"),
    39: ("packet_max", "I"), 40: ("wildcards_available", "B"),
    41: ("subscription_ids_available", "B"), 42: ("shared_available", "B"),
}
NUMBERS = {name: (number, form) for number, (name, form) in PROPERTIES.items()}
MANY = ("user", "subscription_id")


class Closed(Exception):
    """The server ended the connection."""


def varint(number):
    out = bytearray()
    while True:
        number, low = number >> 7, number & 0x7F
        out.append(low | (0x80 if number else 0))
        if not number:
            return bytes(out)


def text(words):
    data = words.encode() if isinstance(words, str) else words
    return struct.pack(">H", len(data)) + data


def properties(wanted):
    """{name: value}, a list as value for a property that stands several times; with length."""
    out = b""
    for name, value in (wanted or {}).items():
        number, form = NUMBERS[name]
        values = value if isinstance(value, list) else [value]
        for each in values:
            out += bytes([number])
            if form in ("B", "H", "I"):
                out += struct.pack(">" + form, each)
            elif form == "varint":
                out += varint(each)
            elif form == "pair":
                out += text(each[0]) + text(each[1])
            else:
                out += text(each)
    return varint(len(out)) + out


def packet(kind, flags, body):
    return bytes([kind << 4 | flags]) + varint(len(body)) + body


@dataclass
class Will:
    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    properties: dict = field(default_factory=dict)


def connect(version, client_id="", clean=True, keep_alive=60, will=None, user=None,
            password=None, props=None, level=None):
    """A CONNECT. `level`: another byte than the version's."""
    name = "MQIsdp" if version == V31 else "MQTT"
    flags = (2 if clean else 0) | (0x80 if user is not None else 0)
    flags |= 0x40 if password is not None else 0
    if will:
        flags |= 4 | will.qos << 3 | (0x20 if will.retain else 0)
    body = text(name) + bytes([level or version, flags]) + struct.pack(">H", keep_alive)
    if version == V5:
        body += properties(props)
    body += text(client_id)
    if will:
        if version == V5:
            body += properties(will.properties)
        body += text(will.topic) + text(will.payload)
    if user is not None:
        body += text(user)
    if password is not None:
        body += text(password)
    return packet(CONNECT, 0, body)


def publish(version, topic, payload=b"", qos=0, retain=False, dup=False, id=None, props=None):
    payload = payload.encode() if isinstance(payload, str) else payload
    body = text(topic)
    if qos:
        body += struct.pack(">H", 1 if id is None else id)
    if version == V5:
        body += properties(props)
    flags = (8 if dup else 0) | qos << 1 | (1 if retain else 0)
    return packet(PUBLISH, flags, body + payload)


def subscribe(version, filters, id=1, props=None):
    """`filters`: a filter, or a list of filters or of (filter, options)."""
    if isinstance(filters, str):
        filters = [filters]
    body = struct.pack(">H", id) + (properties(props) if version == V5 else b"")
    for each in filters:
        name, options = each if isinstance(each, tuple) else (each, 0)
        body += text(name) + bytes([options])
    return packet(SUBSCRIBE, 2, body)


def unsubscribe(version, filters, id=1, props=None):
    body = struct.pack(">H", id) + (properties(props) if version == V5 else b"")
    return packet(UNSUBSCRIBE, 2, body + b"".join(text(name) for name in filters))


def acknowledge(kind, id, version=V311, reason=0, props=None):
    body = struct.pack(">H", id)
    if version == V5 and (reason or props):
        body += bytes([reason]) + (properties(props) if props else b"")
    return packet(kind, 2 if kind == PUBREL else 0, body)


def disconnect(version, reason=0, props=None):
    if version != V5 or not (reason or props):
        return packet(DISCONNECT, 0, b"")
    return packet(DISCONNECT, 0, bytes([reason]) + (properties(props) if props else b""))


class Reader:
    """Takes fields from the front of bytes; a field that is not there is an assertion."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        assert self.at + count <= len(self.data), f"cut: {self.data.hex()}"
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self, form):
        return struct.unpack(">" + form, self.take(struct.calcsize(form)))[0]

    def varint(self):
        number = 0
        for shift in (0, 7, 14, 21):
            byte = self.number("B")
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise AssertionError(f"varint: {self.data.hex()}")

    def bytes(self):
        return self.take(self.number("H"))

    def text(self):
        return self.bytes().decode()

    def properties(self):
        found, end = {}, self.varint() + self.at
        while self.at < end:
            name, form = PROPERTIES[self.number("B")]
            if form in ("B", "H", "I"):
                value = self.number(form)
            elif form == "varint":
                value = self.varint()
            elif form == "pair":
                value = (self.text(), self.text())
            else:
                value = self.text() if form == "text" else self.bytes()
            if name in MANY:
                found.setdefault(name, []).append(value)
            else:
                assert name not in found, f"{name} twice"
                found[name] = value
        assert self.at == end, f"properties run over: {self.data.hex()}"
        return found

    def rest(self):
        return self.take(len(self.data) - self.at)

    def is_done(self):
        return self.at == len(self.data)


class Packet:
    """A packet of the server: `kind`, `flags` and, by its kind, the fields it has."""

    def __init__(self, version, first, body):
        self.kind, self.flags, self.props = first >> 4, first & 15, {}
        self.id = self.code = None
        self.bytes = len(body) + 1 + len(varint(len(body)))
        reader = Reader(body)
        if self.kind == PUBLISH:
            self.qos, self.retain = self.flags >> 1 & 3, bool(self.flags & 1)
            self.dup, self.topic = bool(self.flags & 8), reader.text()
            assert self.qos < 3, "QoS 3 from the server"
            if self.qos:
                self.id = reader.number("H")
                assert self.id, "packet identifier 0 from the server"
            if version == V5:
                self.props = reader.properties()
            self.payload = reader.rest()
            return
        assert self.flags == (2 if self.kind == PUBREL else 0), f"flags {self.flags}"
        if self.kind == CONNACK:
            self.present, self.code = bool(reader.number("B") & 1), reader.number("B")
            if version == V5:
                self.props = reader.properties()
        elif self.kind in (PUBACK, PUBREC, PUBREL, PUBCOMP):
            self.id, self.code = reader.number("H"), 0
            if version == V5 and not reader.is_done():
                self.code = reader.number("B")
                if not reader.is_done():
                    self.props = reader.properties()
        elif self.kind in (SUBACK, UNSUBACK):
            self.id = reader.number("H")
            if version == V5:
                self.props = reader.properties()
            self.codes = list(reader.rest())
        elif self.kind in (DISCONNECT, AUTH):
            assert version == V5, f"{NAMES[self.kind]} to a client of version {version}"
            self.code = 0
            if not reader.is_done():
                self.code = reader.number("B")
                if not reader.is_done():
                    self.props = reader.properties()
        else:
            assert self.kind == PINGRESP, f"a server does not send {NAMES[self.kind]}"
        assert reader.is_done(), f"{NAMES[self.kind]} goes on: {body.hex()}"

    def __repr__(self):
        fields = {name: value for name, value in vars(self).items()
                  if value not in (None, {}) and name not in ("kind", "flags", "bytes")}
        return f"{NAMES[self.kind]} {fields}"


class Wire:
    """A connection of a client that sends what it is told."""

    def __init__(self, address, version=V311, receive_buffer=None):
        """`address`: where to connect to, or a socket that is connected."""
        self.version, self.buffer, self.next_id, self.kept = version, bytearray(), 1, []
        if isinstance(address, socket.socket):
            self.socket = address
        else:
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            if receive_buffer:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            self.socket.settimeout(DEADLINE_S)
            self.socket.connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, *packets):
        """Bytes as they are."""
        try:
            self.socket.sendall(b"".join(packets))
        except (BrokenPipeError, ConnectionResetError):
            raise Closed from None

    def close(self):
        """Ends the connection without a word."""
        self.socket.close()

    def reset(self):
        """Ends the connection by a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    # -- reading

    def whole(self):
        """A packet that has come, or nothing."""
        buffer = self.buffer
        length, shift, at = 0, 0, 1
        while True:
            if at >= len(buffer) or at > 4:
                assert at <= 4 or not buffer, "a length of more than four bytes"
                return None
            length |= (buffer[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if buffer[at - 1] < 0x80:
                break
        if len(buffer) < at + length:
            return None
        first, body = buffer[0], bytes(buffer[at:at + length])
        del buffer[:at + length]
        return Packet(self.version, first, body)

    def read(self, deadline_s=DEADLINE_S):
        """The next packet; `Closed` at the end, `TimeoutError` if none comes."""
        return self.kept.pop(0) if self.kept else self.arrived(deadline_s)

    def arrived(self, deadline_s=DEADLINE_S):
        """The next packet of the socket, past those that `take` kept for later."""
        end = time.monotonic() + deadline_s
        while True:
            found = self.whole()
            if found:
                return found
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no packet in {deadline_s} s")
            self.socket.settimeout(left)
            try:
                more = self.socket.recv(65536)
            except TimeoutError:
                continue
            except ConnectionError:
                more = b""
            if not more:
                assert not self.buffer, f"ended inside a packet: {bytes(self.buffer).hex()}"
                raise Closed
            self.buffer += more

    def expect(self, kind, deadline_s=DEADLINE_S):
        found = self.read(deadline_s)
        assert found.kind == kind, f"{found} instead of {NAMES[kind]}"
        return found

    def until_closed(self, deadline_s=DEADLINE_S):
        """Everything until the end, which must come."""
        found, end = [], time.monotonic() + deadline_s
        while True:
            try:
                found.append(self.read(max(0.001, end - time.monotonic())))
            except Closed:
                return found

    def is_idle(self):
        """Whether neither a packet nor the end is there to be read."""
        self.socket.settimeout(0)
        try:
            self.socket.recv(1)
        except BlockingIOError:
            return not self.buffer and not self.kept
        except ConnectionError:
            pass
        return False

    def told(self):
        """What the server had written before it answered a ping."""
        found, self.kept = self.kept, []
        self.send(packet(PINGREQ, 0, b""))
        while (next := self.arrived()).kind != PINGRESP:
            found.append(next)
        return found

    # -- what a client does

    def open(self, client_id="", **how):
        """CONNECT, and a CONNACK that lets it in."""
        self.send(connect(self.version, client_id, **how))
        answer = self.expect(CONNACK)
        assert answer.code == 0, f"{answer}"
        return answer

    def fresh_id(self):
        self.next_id = self.next_id % 65535 + 1
        return self.next_id

    def subscribe(self, *filters, props=None, ok=True):
        """Subscribes to filters or (filter, options); the codes."""
        id = self.fresh_id()
        self.send(subscribe(self.version, list(filters), id, props))
        answer = self.expect(SUBACK)
        assert answer.id == id and len(answer.codes) == len(filters), f"{answer}"
        assert not ok or all(code < 3 for code in answer.codes), f"{answer}"
        return answer.codes

    def publish(self, topic, payload=b"", qos=0, **how):
        """Publishes, to the end of its exchange; the last answer."""
        id = self.fresh_id()
        self.send(publish(self.version, topic, payload, qos, id=id, **how))
        if qos == 0:
            return None
        answer = self.expect(PUBACK if qos == 1 else PUBREC)
        assert answer.id == id, f"{answer} instead of {id}"
        if qos == 1 or answer.code >= 0x80:
            return answer
        self.send(acknowledge(PUBREL, id))
        done = self.expect(PUBCOMP)
        assert done.id == id, f"{done} instead of {id}"
        return done

    def take(self, deadline_s=DEADLINE_S):
        """The next message, acknowledged to the end."""
        found = self.expect(PUBLISH, deadline_s)
        if found.qos == 1:
            self.send(acknowledge(PUBACK, found.id))
        elif found.qos == 2:
            self.send(acknowledge(PUBREC, found.id))
            while (next := self.arrived(deadline_s)).kind != PUBREL or next.id != found.id:
                assert next.kind == PUBLISH, f"{next} instead of a release of {found.id}"
                self.kept.append(next)
            self.send(acknowledge(PUBCOMP, found.id))
        return found

    def ping(self, deadline_s=DEADLINE_S):
        """The server has dealt with everything that was sent before."""
        self.send(packet(PINGREQ, 0, b""))
        return self.expect(PINGRESP, deadline_s)

    def leave(self, **how):
        """DISCONNECT, and the end."""
        self.send(disconnect(self.version, **how))
        self.socket.shutdown(socket.SHUT_WR)
        rest = self.until_closed()
        self.close()
        return rest

"""Some thousands of clients on one thread, who come back whenever they are let go.

Each says who it is, waits to be let in, and waits. What a protocol says first, how it says that one
is in, and how it takes leave stands in a `Speech`; what lies below it, TLS or a WebSocket, in
`crowd_layers`. A connect that is refused, or reset before it was let in, is counted: nobody is to
be.
"""

import errno
import selectors
import socket
import struct
import threading
import time

import crowd_layers
import miop
from fixture import poll
from im import wire
from xmpp.people import HEADER


class Speech:
    """What a client of a protocol says first, and what it hears."""

    def __init__(self, protocol, hello, is_in, leave, layer=crowd_layers.Plain):
        self.protocol, self.hello, self.is_in, self.leave = protocol, hello, is_in, leave
        self.layer = layer

    def over(self, layer):
        """The same over such a layer."""
        return Speech(self.protocol, self.hello, self.is_in, self.leave, layer)


def websocket(path, subprotocol, opcode=0x2):
    return lambda: crowd_layers.WebSocket(path, subprotocol, opcode)


def within_tls(layer):
    return lambda: crowd_layers.Both(layer(), crowd_layers.Tls())


def _connect(number):
    """CONNECT of MQTT 5: no clean start, a session of an hour, a keep-alive of ten minutes."""
    name = f"crowd-{number}".encode()
    body = b"\0\4MQTT\5\0" + struct.pack(">H", 600) + b"\5\x11" + struct.pack(">I", 3600)
    body += struct.pack(">H", len(name)) + name
    return bytes([0x10, len(body)]) + body


def _bind(number):
    properties = [("device_id", f"crowd-{number}"), ("product_key", "demo"),
                  ("client_ts", miop.now_ms())]
    return miop.frame7(miop.BIND, properties)


def _login(number):
    frame = wire.schema()["ClientFrame"](login={"name": f"crowd-{number}", "device": "phone"})
    return wire.PREFACE + wire.framed(frame)


def _im_says(kind):
    def says(data):
        while data:
            length, head = 0, 0
            for at, byte in enumerate(data[:5]):
                length |= (byte & 0x7f) << 7 * at
                if byte < 0x80:
                    head = at + 1
                    break
            if not head or len(data) < head + length:
                return False
            frame = wire.schema()["ServerFrame"].FromString(data[head:head + length])
            if frame.WhichOneof("answer") == kind:
                return True
            data = data[head + length:]
        return False
    return says


def _miop_says(opcode):
    return lambda data: len(data) >= 4 and data[3] == opcode


MQTT = Speech("mqtt", _connect, lambda data: data[:1] == b"\x20" and data[3:4] == b"\0",
              lambda data: data[:1] == b"\xe0" and data[2:3] == b"\x8b")
MIOP = Speech("miop", _bind, _miop_says(miop.BIND_ACK), _miop_says(miop.GO_AWAY))
IM = Speech("im", _login, _im_says("logged_in"), _im_says("end"))
XMPP = Speech("xmpp", lambda _: HEADER.encode(), lambda data: b"</stream:features>" in data,
              lambda data: b"<system-shutdown " in data)
# RFC 7395: a stream in a WebSocket opens by an element of its own.
XMPP_WEB = Speech("xmpp",
                  lambda _: b'<open xmlns="urn:ietf:params:xml:ns:xmpp-framing" to="localhost" '
                            b'version="1.0"/>',
                  lambda data: b"features>" in data, lambda data: b"system-shutdown" in data,
                  websocket("/xmpp-websocket", "xmpp", 0x1))
MQTT_WEB = MQTT.over(websocket("/mqtt", "mqtt"))
MIOP_WEB = MIOP.over(websocket("/miop", "miop"))
IM_WEB = IM.over(websocket("/im", "holdline-im.1"))

# A source of loopback has as many ports as one of any other address: a large crowd has several.
SOURCES, BIND_ADDRESS_NO_PORT = 8, 24


class Client:
    """One of them. It has been let in so many times, and was told of so many leaves."""

    def __init__(self, speech, place, number):
        self.speech, self.place, self.number = speech, place, number
        self.times_in, self.leaves, self.is_in, self.data = 0, 0, False, b""
        self.socket, self.lost_s, self.away_s = None, None, 0.0

    def call(self):
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_IP, BIND_ADDRESS_NO_PORT, 1)
        self.socket.bind((f"127.0.0.{1 + self.number % SOURCES}", 0))
        self.is_in, self.data, self.has_said = False, b"", False
        self.layer, self.is_there = self.speech.layer(), False
        return self.socket.connect_ex(self.place)


class Crowd:
    """All of them, served by one thread until it is closed."""

    def __init__(self):
        self.clients, self.refused, self.over = [], [], threading.Event()
        self.selector, self.lock = selectors.EpollSelector(), threading.Lock()
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def call(self, speech, place, count):
        """So many of this protocol come and are let in, a part at a time."""
        first = len(self.clients)
        for start in range(0, count, 500):
            part = [Client(speech, place, first + start + number)
                    for number in range(min(500, count - start))]
            with self.lock:
                self.clients += part
                for client in part:
                    self._call(client)
            if not self.thread.is_alive():
                self.thread.start()
            poll(lambda: all(client.is_in for client in part), "they are let in")

    def back(self):
        """How many are in."""
        return sum(client.is_in for client in self.clients)

    def all_in_again(self, times):
        poll(lambda: all(client.is_in and client.times_in >= times for client in self.clients),
             f"all are in for the {times}th time: {self.back()} of {len(self.clients)}")

    def leaves(self, protocol):
        """How many clients of a protocol were told that the server goes."""
        return sum(client.leaves for client in self.clients if client.speech.protocol == protocol)

    def absences(self):
        """How long each was away the longest time, seconds, in order."""
        return sorted(client.away_s for client in self.clients)

    def close(self):
        self.over.set()
        if self.thread.ident:
            self.thread.join()
        for client in self.clients:
            client.socket.close()
        self.selector.close()

    def _call(self, client):
        code = client.call()
        if code not in (0, errno.EINPROGRESS):
            self._ended(client, code)
        self.selector.register(client.socket, selectors.EVENT_WRITE, client)

    def _serve(self):
        while not self.over.is_set():
            with self.lock:
                for key, _ in self.selector.select(0.05):
                    self._step(key.data)

    def _step(self, client):
        if not client.is_there:
            code = client.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                return self._again(client, code)
            client.is_there = True
            self.selector.modify(client.socket, selectors.EVENT_READ, client)
            self._say(client, client.layer.begin())
            return
        try:
            data = client.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError as error:
            return self._again(client, error.errno)
        if not data:
            return self._again(client, 0)
        data, goes = client.layer.heard(data)
        if not self._say(client, goes):
            return
        if client.is_in:
            client.leaves += client.speech.leave(data)
            return
        client.data += data
        if client.speech.is_in(client.data):
            client.is_in = True
            client.times_in += 1
            if client.lost_s is not None:
                client.away_s = max(client.away_s, time.monotonic() - client.lost_s)
                client.lost_s = None

    def _say(self, client, goes):
        """What its layer wants to say, and its first word once it may. Whether it is still there."""
        if client.layer.is_open and not client.has_said:
            client.has_said = True
            goes += client.layer.say(client.speech.hello(client.number))
        try:
            if goes:
                client.socket.send(goes)
        except OSError as error:
            self._again(client, error.errno)
            return False
        return True

    def _ended(self, client, code):
        """A connection ended. Whoever was not in was refused."""
        if client.lost_s is None:
            client.lost_s = time.monotonic()
        if not client.is_in:
            self.refused.append((client.speech.protocol, client.number,
                                 errno.errorcode.get(code, "an end"), client.data))

    def _again(self, client, code):
        self._ended(client, code)
        self.selector.unregister(client.socket)
        client.socket.close()
        self._call(client)

"""A MIOP device for versions 5, 6 and 7, written from docs/wire/miop.md alone.

It is the second reading of that document: nothing here was taken from the server. It is strict
about what the server sends (widths, shortest varints, opcodes a classic device knows) and lax about
what it is told to send, because tests send nonsense on purpose. Blocking sockets, every wait has a
deadline; no threads of its own.
"""

import base64
import hashlib
import hmac
import os
import socket
import ssl
import struct
import time

PING, PONG, BIND, MSG, MSG_ACK, UNBIND, BIND_ACK, UNBIND_ACK = range(8)
REPORT, REPORT_ACK, KICK, REDIRECT, CHALLENGE, AUTH, CONFIG, PULL, GO_AWAY, ERROR = range(8, 18)

BODY, SEQ, ACK_REQ, COMPRESSED, MORE, DUP = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20

# name: (key, width in bytes; 0 is any)
KEYS = {
    "device_id": (1, 0), "product_key": (2, 0), "client_ts": (3, 8), "heartbeat_wish": (4, 6),
    "heartbeat": (5, 2), "client_nonce": (6, 16), "server_nonce": (7, 16), "auth_type": (8, 1),
    "key_id": (9, 4), "mac": (10, 32), "token": (11, 0), "resume_token": (12, 32),
    "last_msg_id": (13, 8), "session_epoch": (14, 8), "result": (15, 1), "reason": (16, 0),
    "retry_after_ms": (17, 4), "addr": (19, 0), "caps": (20, 4), "max_frame": (21, 4),
    "max_inflight": (22, 2), "ack_timeout_ms": (23, 4), "offline_count": (27, 4),
    "server_time": (28, 8), "tag": (30, 0), "count": (31, 2), "report_seq": (33, 4),
}
NAMES = {key: (name, width) for name, (key, width) in KEYS.items()}
TEXTS = {"device_id", "product_key", "reason", "addr", "tag"}
BYTES = {"client_nonce", "server_nonce", "mac", "token", "resume_token", "heartbeat_wish"}

# Whatever is waited for comes within a moment, or on a machine that is busy otherwise later: only a
# test that fails waits so long.
DEADLINE_S = 120.0
RESUMED = 1
CAPS_PULLS = 2


class Closed(Exception):
    """The server ended the connection, orderly or by a reset."""


class Silence(Exception):
    """Nothing came before the deadline."""


class ServerFault(Exception):
    """The server sent what the document forbids."""


def now_ms():
    return int(time.time() * 1000)


# ---- bytes of version 7 --------------------------------------------------------------------------


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data, at):
    """The number and the place after it; shortest form, five bytes, as the document demands."""
    number, shift, start = 0, 0, at
    while True:
        if at >= len(data) or at - start == 5:
            raise ServerFault("a varint is cut off or too long")
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            break
    if number > 0xFFFFFFFF or (at - start > 1 and data[at - 1] == 0):
        raise ServerFault("a varint is too large or not in its shortest form")
    return number, at


def encode_props(props):
    """From a dict or a list of (name or number, value)."""
    out = b""
    for name, value in props.items() if isinstance(props, dict) else props:
        key, width = KEYS[name] if isinstance(name, str) else (name, 0)
        if isinstance(value, str):
            value = value.encode()
        elif isinstance(value, int):
            value = value.to_bytes(width, "big")
        out += bytes([key]) + varint(len(value)) + value
    return out


def decode_props(block):
    props, at = {}, 0
    while at < len(block):
        key = block[at]
        length, at = read_varint(block, at + 1)
        value, at = block[at:at + length], at + length
        if at > len(block) or length > 512:
            raise ServerFault("a property is cut off or too long")
        if key not in NAMES:
            raise ServerFault(f"property {key} is not in the document")
        name, width = NAMES[key]
        if width and len(value) != width:
            raise ServerFault(f"{name} has {len(value)} bytes")
        if name in TEXTS:
            value = value.decode()
        elif name not in BYTES:
            value = int.from_bytes(value, "big")
        if name in ("addr", "tag"):
            props.setdefault(name, []).append(value)
        elif name in props:
            raise ServerFault(f"{name} stands twice")
        else:
            props[name] = value
    return props


def frame7(opcode, props=(), payload=b"", flags=0, seq=None):
    """A frame as a good device writes it: no body when there is nothing in it."""
    block = encode_props(props)
    if not block and not payload and seq is None:
        return struct.pack(">HBB", 7, flags, opcode)
    body = (b"" if seq is None else struct.pack(">I", seq)) + varint(len(block)) + block + payload
    flags |= BODY | (0 if seq is None else SEQ)
    return struct.pack(">HBBI", 7, flags, opcode, len(body)) + body


def mac7(secret, product, device, client_ts, client_nonce, caps=0, server_nonce=b""):
    parts = [b"MIOP7-BIND", product.encode(), device.encode(), struct.pack(">Q", client_ts),
             client_nonce, struct.pack(">I", caps), b"", server_nonce]
    text = b"".join(struct.pack(">H", len(part)) + part for part in parts)
    return hmac.new(secret, text, hashlib.sha256).digest()


class Record:
    """One push in a MSG of version 7, or in a classic Msg."""

    def __init__(self, ident, app_id, body, rflags=0, expire_at=0, collapse=b""):
        self.id, self.app_id, self.body = ident, app_id, body
        self.rflags, self.expire_at, self.collapse = rflags, expire_at, collapse

    silent = property(lambda self: bool(self.rflags & 2))
    high = property(lambda self: bool(self.rflags & 4))


def decode_records7(payload):
    records, at = [], 0
    while at < len(payload):
        if len(payload) - at < 17:
            raise ServerFault("a record is cut off")
        ident, app_id, rflags, expire_at = struct.unpack_from(">QIBI", payload, at)
        length, at = read_varint(payload, at + 17)
        collapse, at = payload[at:at + length], at + length
        length, at = read_varint(payload, at)
        body, at = payload[at:at + length], at + length
        if at > len(payload) or rflags & ~6:
            raise ServerFault("a record is cut off or has unknown flags")
        records.append(Record(ident, app_id, body, rflags, expire_at, collapse))
    if not records:
        raise ServerFault("a MSG without a record")
    return records


# ---- bytes of versions 5 and 6 -------------------------------------------------------------------


def classic(version, opcode, props=None, tail=b""):
    """A classic frame; props is a list of (key, value) or a dict."""
    if props is None:
        return struct.pack(">HH", version, opcode)
    pairs = props.items() if isinstance(props, dict) else props
    block = "\n".join(f"{key}:{value}" for key, value in pairs).encode()
    return struct.pack(">HHH", version, opcode, len(block)) + block + tail


def classic_sign(secret, u, ts, t=""):
    text = f"u={u}&ts={ts}&t={t}".encode()
    return hmac.new(secret, text, hashlib.sha256).hexdigest()[:32]


def decode_props_classic(block):
    props = {}
    if not block or len(block) > 32767:
        raise ServerFault("classic properties are empty or too long for a Java reader")
    for line in block.decode().split("\n"):
        key, colon, value = line.partition(":")
        if not key or not colon:
            raise ServerFault(f"not a property: {line!r}")
        if ":" in value and not key.startswith("addr"):
            continue
        props.setdefault(key, value)
    return props


def decode_records_classic(data):
    records, at = [], 0
    while at < len(data):
        if len(data) - at <= 16:
            raise ServerFault("the reader of version 5 would misread this record")
        ident, app_id, length = struct.unpack_from(">QII", data, at)
        body, at = data[at + 16:at + 16 + length], at + 16 + length
        if at > len(data) or not body:
            raise ServerFault("a classic record is cut off or empty")
        records.append(Record(ident, app_id, body))
    return records


class Frame:
    """What came: version, opcode, flags, properties by name, records if it is a push."""

    def __init__(self, version, opcode, flags=0, seq=None, props=None, payload=b"", records=()):
        self.version, self.opcode, self.flags, self.seq = version, opcode, flags, seq
        self.props, self.payload, self.records = props or {}, payload, list(records)

    dup = property(lambda self: bool(self.flags & DUP))
    bodies = property(lambda self: [record.body for record in self.records])

    def __getitem__(self, name):
        return self.props.get(name)

    def __repr__(self):
        return f"<v{self.version} op {self.opcode} {self.flags:#x} {self.props} {self.bodies}>"


# ---- streams: TCP, TLS, WebSocket, PROXY ---------------------------------------------------------


def proxy_v1(source, port=40000, target="192.0.2.1"):
    family = "TCP6" if ":" in source else "TCP4"
    return f"PROXY {family} {source} {target} {port} 7001\r\n".encode()


def proxy_v2(source, port=40000, local=False):
    addresses = socket.inet_aton(source) + socket.inet_aton("192.0.2.1")
    addresses += struct.pack(">HH", port, 7001)
    head = b"\r\n\r\n\0\r\nQUIT\n" + bytes([0x20 if local else 0x21, 0x11])
    return head + struct.pack(">H", len(addresses)) + addresses


def tls_context(ca=None, certificate=None, version=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca:
        context.load_verify_locations(ca)
    if certificate:
        context.load_cert_chain(*certificate)
    if version:
        context.minimum_version = context.maximum_version = version
    return context


class Stream:
    """Bytes in order, over a socket that may have TLS."""

    def __init__(self, address, tls=None, name="localhost", before=b"", receive_bytes=None):
        """`address`: where to connect to, or a socket that is connected."""
        is_connected = isinstance(address, socket.socket)
        raw = address if is_connected else socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_bytes:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        raw.settimeout(DEADLINE_S)
        try:
            if not is_connected:
                raw.connect(address)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if before:
                raw.sendall(before)
            self.socket = tls.wrap_socket(raw, server_hostname=name) if tls else raw
        except BaseException:
            raw.close()
            raise

    def send(self, data):
        self.socket.settimeout(DEADLINE_S)
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError) as error:
            raise Closed(str(error)) from error

    def receive(self, deadline):
        """Some bytes; Closed or Silence otherwise."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise Silence()
        self.socket.settimeout(left)
        try:
            data = self.socket.recv(65536)
        except (TimeoutError, ssl.SSLWantReadError):
            raise Silence() from None
        except (ConnectionResetError, ssl.SSLError) as error:
            raise Closed(str(error)) from error
        if not data:
            raise Closed("end")
        return data

    def close(self):
        self.socket.close()

    def reset(self):
        """Ends with a RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class WebSocket:
    """RFC 6455, calling side: binary messages out, binary messages in."""

    def __init__(self, stream, path="/miop", protocol="miop", host="localhost"):
        self.stream, self.buffer, self.messages = stream, b"", 0
        key = base64.b64encode(os.urandom(16)).decode()
        offer = f"Sec-WebSocket-Protocol: {protocol}\r\n" if protocol else ""
        stream.send((f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n"
                     f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
                     f"Sec-WebSocket-Version: 13\r\n{offer}\r\n").encode())
        deadline = time.monotonic() + DEADLINE_S
        while b"\r\n\r\n" not in self.buffer:
            self.buffer += stream.receive(deadline)
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        lines = head.decode().split("\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = {name.strip().lower(): value.strip()
                        for name, _, value in (line.partition(":") for line in lines[1:])}
        if self.status != 101:
            raise Closed(f"refused: {lines[0]}")
        magic = (key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()
        expected = base64.b64encode(hashlib.sha1(magic).digest()).decode()
        if self.headers.get("sec-websocket-accept") != expected:
            raise ServerFault("Sec-WebSocket-Accept is wrong")

    def send_frame(self, first, payload, mask=None):
        mask = os.urandom(4) if mask is None else mask
        size = len(payload)
        head = bytes([first])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 65536:
            head += bytes([0x80 | 126]) + struct.pack(">H", size)
        else:
            head += bytes([0x80 | 127]) + struct.pack(">Q", size)
        masked = bytes(byte ^ mask[at & 3] for at, byte in enumerate(payload))
        self.stream.send(head + mask + masked)

    def send(self, data):
        self.send_frame(0x82, data)

    def receive(self, deadline):
        while True:
            found = self.take()
            if found is None:
                self.buffer += self.stream.receive(deadline)
                continue
            opcode, payload = found
            if opcode in (0, 2):
                self.messages += 1
                return payload
            if opcode == 9:
                self.send_frame(0x8A, payload)
            elif opcode == 8:
                self.close_code = struct.unpack(">H", payload[:2])[0] if payload else None
                raise Closed(f"WebSocket close {self.close_code}")
            elif opcode == 10:
                self.pong = payload
            else:
                raise ServerFault(f"WebSocket opcode {opcode}")

    def take(self):
        """One frame out of the buffer, if it is whole."""
        data = self.buffer
        if len(data) < 2:
            return None
        if data[1] & 0x80 or data[0] & 0x70:
            raise ServerFault("a server neither masks nor sets reserved bits")
        size, at = data[1] & 0x7F, 2
        if size == 126:
            if len(data) < 4:
                return None
            size, at = struct.unpack_from(">H", data, 2)[0], 4
        elif size == 127:
            if len(data) < 10:
                return None
            size, at = struct.unpack_from(">Q", data, 2)[0], 10
        if len(data) < at + size:
            return None
        self.buffer = data[at + size:]
        return data[0] & 0x0F, data[at:at + size]

    def close(self):
        self.stream.close()

    def reset(self):
        self.stream.reset()


# ---- the device ----------------------------------------------------------------------------------


class Device:
    """One connection that speaks one version of MIOP."""

    def __init__(self, address, version=7, tls=None, ws=None, before=b"", receive_bytes=None):
        self.version, self.buffer, self.waiting = version, b"", []
        self.stream = Stream(address, tls=tls, before=before, receive_bytes=receive_bytes)
        if ws:
            try:
                self.stream = WebSocket(self.stream, path=ws)
            except BaseException:
                self.stream.close()
                raise
        self.bound = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.stream.close()

    def send(self, data):
        self.stream.send(data)

    # -- frames

    def next(self, timeout=DEADLINE_S):
        """The next frame; Closed or Silence if there is none."""
        if self.waiting:
            return self.waiting.pop(0)
        return self._read(time.monotonic() + timeout)

    def expect(self, opcode, timeout=DEADLINE_S):
        """The next frame with this opcode; others are kept for later, in order."""
        for at, frame in enumerate(self.waiting):
            if frame.opcode == opcode:
                return self.waiting.pop(at)
        deadline = time.monotonic() + timeout
        while True:
            frame = self._read(deadline)
            if frame.opcode == opcode:
                return frame
            self.waiting.append(frame)

    def messages(self, count, timeout=DEADLINE_S):
        """So many pushes, unacknowledged."""
        return [self.expect(MSG, timeout) for _ in range(count)]

    def until_closed(self, timeout=DEADLINE_S):
        """All frames up to the end, which must come."""
        frames, self.waiting = self.waiting, []
        deadline = time.monotonic() + timeout
        while True:
            try:
                frames.append(self._read(deadline))
            except Closed:
                if self.buffer:
                    raise ServerFault(f"the server ended inside a frame: {self.buffer!r}")
                return frames

    def told(self):
        """What the server had written before it answered a heartbeat."""
        found, self.waiting = self.waiting, []
        self.send_ping()
        deadline = time.monotonic() + DEADLINE_S
        while (frame := self._read(deadline)).opcode != PONG:
            found.append(frame)
        return found

    def _read(self, deadline):
        while True:
            frame = self._take()
            if frame is not None:
                return frame
            self.buffer += self.stream.receive(deadline)

    def _take(self):
        data = self.buffer
        if len(data) < 4:
            return None
        version, = struct.unpack_from(">H", data)
        if version == 7:
            return self._take7()
        if version != self.version:
            raise ServerFault(f"version {version} on a connection of version {self.version}")
        return self._take_classic()

    def _take7(self):
        data = self.buffer
        _, flags, opcode = struct.unpack_from(">HBB", data)
        if flags & (COMPRESSED | MORE | 0x40 | 0x80) or (flags & SEQ and not flags & BODY):
            raise ServerFault(f"flags {flags:#x}")
        if not flags & BODY:
            self.buffer = data[4:]
            return Frame(7, opcode, flags)
        if len(data) < 8:
            return None
        length, = struct.unpack_from(">I", data, 4)
        if len(data) < 8 + length:
            return None
        body, self.buffer = data[8:8 + length], data[8 + length:]
        seq, at = None, 0
        if flags & SEQ:
            seq, at = struct.unpack_from(">I", body)[0], 4
        size, at = read_varint(body, at)
        if at + size > len(body):
            raise ServerFault("properties are longer than the body")
        props, payload = decode_props(body[at:at + size]), body[at + size:]
        records = decode_records7(payload) if opcode == MSG else []
        if opcode == MSG and not flags & ACK_REQ:
            raise ServerFault("a MSG without ACK_REQ")
        return Frame(7, opcode, flags, seq, props, payload, records)

    def _take_classic(self):
        data = self.buffer
        version, opcode = struct.unpack_from(">HH", data)
        if opcode not in (PONG, MSG, BIND_ACK, UNBIND_ACK):
            raise ServerFault(f"opcode {opcode} to a classic device")
        if opcode == PONG or (opcode == UNBIND_ACK and version == 6):
            self.buffer = data[4:]
            return Frame(version, opcode)
        if len(data) < 6:
            return None
        at = 6 + struct.unpack_from(">H", data, 4)[0]
        if len(data) < at + (4 if opcode == MSG else 0):
            return None
        props = decode_props_classic(data[6:at])
        if opcode != MSG:
            self.buffer = data[at:]
            return Frame(version, opcode, props=props)
        size, = struct.unpack_from(">I", data, at)
        if len(data) < at + 4 + size:
            return None
        records = decode_records_classic(data[at + 4:at + 4 + size])
        self.buffer = data[at + 4 + size:]
        if not size or int(props["ack"]) != records[0].id:
            raise ServerFault("data is empty, or its id is not the one in ack")
        return Frame(version, opcode, props=props, records=records)

    # -- a device's acts

    def bind(self, device, product="demo", **more):
        """Binds in the version of this connection; the BIND_ACK."""
        if self.version == 7:
            self.send(self.bind_frame(device, product, **more))
            answer = self.next()
            if answer.opcode == CHALLENGE:
                self.answer_challenge(answer)
                answer = self.next()
        else:
            self.send(self.bind_frame_classic(device, product, **more))
            answer = self.expect(BIND_ACK)
        if answer.opcode != BIND_ACK:
            raise ServerFault(f"instead of a BIND_ACK: {answer!r}")
        self.bound = answer
        return answer

    def bind_frame(self, device, product="demo", secret=None, key_id=1, token=None, resume=None,
                   certificate=False, ts=None, nonce=None, caps=0, wish=None, tags=None,
                   inflight=None, last=None):
        """A BIND of version 7 and what is needed to answer a challenge to it."""
        ts = now_ms() if ts is None else ts
        nonce = nonce or os.urandom(16)
        props = [("device_id", device), ("product_key", product), ("client_ts", ts)]
        if wish:
            props.append(("heartbeat_wish", struct.pack(">HHH", *wish)))
        if secret:
            self.claim = (secret, product, device, ts, nonce, caps)
            props += [("client_nonce", nonce), ("auth_type", 1), ("key_id", key_id),
                      ("mac", mac7(*self.claim))]
        elif token:
            props += [("auth_type", 2), ("token", token)]
        elif certificate:
            props.append(("auth_type", 3))
        if resume:
            props += [("resume_token", resume["resume_token"]),
                      ("session_epoch", resume["session_epoch"])]
        if last is not None:
            props.append(("last_msg_id", last))
        if caps:
            props.append(("caps", caps))
        if inflight:
            props.append(("max_inflight", inflight))
        props += [("tag", tag) for tag in tags or []]
        return frame7(BIND, props)

    def answer_challenge(self, challenge):
        mac = mac7(*self.claim, server_nonce=challenge["server_nonce"])
        self.send(frame7(AUTH, {"mac": mac}))

    def bind_frame_classic(self, device, product="demo", secret=None, t=300, ts=None, more=()):
        u, ts = f"{device}@{product}", now_ms() if ts is None else ts
        props = [("u", u)]
        if self.version == 6:
            props.append(("k", 1))
        props += [("t", t), ("ts", ts)]
        if secret:
            props += [("authtype", 7), ("sign", classic_sign(secret, u, ts, t))]
        elif self.version == 6:
            props += [("authtype", 3), ("sign", "0123456789abcdef0123456789abcdef")]
        return classic(self.version, BIND, props + list(more))

    def ack(self, *ids, last=None):
        if self.version == 7:
            props = {} if last is None else {"last_msg_id": last}
            self.send(frame7(MSG_ACK, props, b"".join(struct.pack(">Q", i) for i in ids)))
        else:
            for ident in ids:
                self.send(classic(self.version, MSG_ACK, {"ack": ident}))

    def receive(self, count=1, timeout=DEADLINE_S):
        """So many pushes, each acknowledged as it comes; their bodies."""
        bodies = []
        for _ in range(count):
            frame = self.expect(MSG, timeout)
            self.ack(*[record.id for record in frame.records])
            bodies += frame.bodies
        return bodies

    def ping(self):
        """A heartbeat and its answer: also a barrier, for frames are handled in order."""
        self.send_ping()
        return self.expect(PONG)

    def send_ping(self):
        self.send(frame7(PING) if self.version == 7 else classic(self.version, PING))

    def unbind(self, device=None, product="demo"):
        if self.version == 7:
            self.send(frame7(UNBIND))
        else:
            self.send(classic(self.version, UNBIND, {"u": f"{device}@{product}"}))
        return self.expect(UNBIND_ACK)

    def report(self, seq, payload):
        self.send(frame7(REPORT, payload=payload, seq=seq))

    def pull(self, after=None, count=None):
        """The pushes and how many remain."""
        props = {} if after is None else {"last_msg_id": after}
        if count is not None:
            props["count"] = count
        self.send(frame7(PULL, props))
        frames = []
        while True:
            frame = self.next()
            if frame.opcode == PULL:
                return frames, frame["offline_count"]
            frames.append(frame)

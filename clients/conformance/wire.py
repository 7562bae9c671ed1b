"""Frames of MIOP 7 as the suite reads and writes them, from docs/wire/miop.md alone.

Strict about what a library sends: widths, shortest varints, the order of keys.
"""

import hashlib
import hmac
import struct

PING, PONG, BIND, MSG, MSG_ACK, UNBIND, BIND_ACK, UNBIND_ACK = range(8)
REPORT, REPORT_ACK, KICK, REDIRECT, CHALLENGE, AUTH, CONFIG, PULL, GO_AWAY, ERROR = range(8, 18)
BODY, SEQ, ACK_REQ, DUP = 0x01, 0x02, 0x04, 0x20

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
BYTES = {"client_nonce", "server_nonce", "mac", "token", "resume_token"}
FROM_DEVICE = {PING, BIND, MSG_ACK, UNBIND, REPORT, AUTH, PULL}


class Fault(Exception):
    """A library sent what the specification forbids."""


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def read_varint(data, at):
    number, start = 0, at
    while True:
        if at >= len(data) or at - start == 5:
            raise Fault("a varint is cut off or too long")
        number |= (data[at] & 0x7F) << 7 * (at - start)
        at += 1
        if not data[at - 1] & 0x80:
            break
    if at - start > 1 and data[at - 1] == 0:
        raise Fault("a varint is not in its shortest form")
    return number, at


def frame(opcode, properties=None, payload=b"", dup=False):
    """A frame of a server, from {name: value}; `addr` may be a list."""
    block = b""
    for name, value in (properties or {}).items():
        key, width = KEYS[name]
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, int):
                one = one.to_bytes(width, "big")
            elif isinstance(one, str):
                one = one.encode()
            block += bytes([key]) + varint(len(one)) + one
    flags = (ACK_REQ if opcode == MSG else 0) | (DUP if dup else 0)
    if not block and not payload:
        return bytes([0, 7, flags, opcode])
    body = varint(len(block)) + block + payload
    return bytes([0, 7, flags | BODY, opcode]) + struct.pack(">I", len(body)) + body


def record(ident, body=b"", app_id=1, flags=0, expire_at=0, collapse=b""):
    head = struct.pack(">QIBI", ident, app_id, flags, expire_at)
    return head + varint(len(collapse)) + collapse + varint(len(body)) + body


class Frame:
    """A frame of a device."""

    def __init__(self, opcode, flags, seq, properties, payload):
        self.opcode, self.flags, self.seq = opcode, flags, seq
        self.properties, self.payload = properties, payload

    def __getitem__(self, name):
        return self.properties.get(name)

    def __repr__(self):
        return f"<opcode {self.opcode} seq {self.seq} {self.properties} {self.payload!r}>"

    @property
    def ids(self):
        """The ids of a MSG_ACK."""
        if self.opcode != MSG_ACK or len(self.payload) % 8 or not self.payload:
            raise Fault(f"not an acknowledgement by ids: {self!r}")
        return list(struct.unpack(f">{len(self.payload) // 8}Q", self.payload))


def read(data):
    """The first frame of a device and its length, or None if it is not whole."""
    if len(data) < 4:
        return None
    version, flags, opcode = struct.unpack_from(">HBB", data)
    if version != 7 or opcode not in FROM_DEVICE or flags & ~(BODY | SEQ):
        raise Fault(f"no header of a device: {data[:4].hex()}")
    if not flags & BODY:
        if flags:
            raise Fault("SEQ without BODY")
        return Frame(opcode, flags, None, {}, b""), 4
    if len(data) < 8 or len(data) < 8 + struct.unpack_from(">I", data, 4)[0]:
        return None
    end = 8 + struct.unpack_from(">I", data, 4)[0]
    body, seq = data[8:end], None
    if flags & SEQ:
        seq, body = struct.unpack_from(">I", body)[0], body[4:]
    size, at = read_varint(body, 0)
    if at + size > len(body):
        raise Fault("properties are longer than the body")
    if seq is None and len(body) == 1:
        raise Fault("an empty body must be omitted")
    properties = read_properties(body[at:at + size])
    return Frame(opcode, flags, seq, properties, body[at + size:]), end


def read_properties(block):
    properties, at, before = {}, 0, 0
    while at < len(block):
        key = block[at]
        length, at = read_varint(block, at + 1)
        value, at = block[at:at + length], at + length
        if at > len(block) or length > 512 or key not in NAMES:
            raise Fault(f"property {key} is cut off, too long or unknown")
        name, width = NAMES[key]
        if width and len(value) != width:
            raise Fault(f"{name} has {len(value)} bytes")
        if key < before or key == before and name != "tag":
            raise Fault(f"{name} stands twice or not in the order of keys")
        before = key
        if name == "tag":
            properties.setdefault("tags", []).append(value.decode())
        elif name == "heartbeat_wish":
            properties[name] = list(struct.unpack(">HHH", value))
        elif name in TEXTS:
            properties[name] = value.decode()
        else:
            properties[name] = value if name in BYTES else int.from_bytes(value, "big")
    return properties


def mac(secret, bind, server_nonce=b""):
    """The signature of a device with its BIND, or in answer to a challenge."""
    parts = [b"MIOP7-BIND", bind["product_key"].encode(), bind["device_id"].encode(),
             struct.pack(">Q", bind["client_ts"]), bind["client_nonce"],
             struct.pack(">I", bind["caps"] or 0), b"", server_nonce]
    text = b"".join(struct.pack(">H", len(part)) + part for part in parts)
    return hmac.new(secret, text, hashlib.sha256).digest()

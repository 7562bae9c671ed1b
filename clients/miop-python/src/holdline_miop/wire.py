"""Frames of MIOP 7 (docs/wire/miop.md): bytes to values and back.

It knows no state: which frame is allowed when, the machine decides. A fault has its name of MIOP 9.
"""

import hashlib
import hmac
import struct
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple, Union

PING, PONG, BIND, MSG, MSG_ACK, UNBIND, BIND_ACK, UNBIND_ACK = range(8)
REPORT, REPORT_ACK, KICK, REDIRECT, CHALLENGE, AUTH, CONFIG, PULL, GO_AWAY, ERROR = range(8, 18)

BODY, SEQ, ACK_REQ, COMPRESSED, MORE, DUP, MUST_UNDERSTAND = 1, 2, 4, 8, 0x10, 0x20, 0x80

#: The device fetches stored pushes with PULL.
CAP_PULLS = 2

PROPERTIES_BYTES_MAX = 8192
VALUE_BYTES_MAX = 512
ADDRESSES_MAX, ADDRESS_BYTES_MAX = 4, 64
TAGS_MAX = 64

_NUMBER, _TEXT, _BYTES, _WISH = range(4)
# key: (name, kind, width in bytes; 0: any), in the order in which they are written (MIOP 5.4).
_PROPERTIES = {
    1: ("device_id", _TEXT, 0), 2: ("product_key", _TEXT, 0), 3: ("client_ts", _NUMBER, 8),
    4: ("heartbeat_wish", _WISH, 6), 5: ("heartbeat", _NUMBER, 2), 6: ("client_nonce", _BYTES, 16),
    7: ("server_nonce", _BYTES, 16), 8: ("auth_type", _NUMBER, 1), 9: ("key_id", _NUMBER, 4),
    10: ("mac", _BYTES, 32), 11: ("token", _BYTES, 0), 12: ("resume_token", _BYTES, 32),
    13: ("last_msg_id", _NUMBER, 8), 14: ("session_epoch", _NUMBER, 8), 15: ("result", _NUMBER, 1),
    16: ("reason", _TEXT, 0), 17: ("retry_after_ms", _NUMBER, 4), 19: ("addrs", _TEXT, 0),
    20: ("caps", _NUMBER, 4), 21: ("max_frame", _NUMBER, 4), 22: ("max_inflight", _NUMBER, 2),
    23: ("ack_timeout_ms", _NUMBER, 4), 27: ("offline_count", _NUMBER, 4),
    28: ("server_time", _NUMBER, 8), 30: ("tags", _TEXT, 0), 31: ("count", _NUMBER, 2),
    33: ("report_seq", _NUMBER, 4),
}
_LISTS = {"addrs", "tags"}
_WORDS = {
    0: "bound", 1: "resumed", 10: "malformed", 11: "version", 12: "too_large", 20: "auth_failed",
    21: "clock_skew", 22: "replay", 23: "unknown_product", 24: "device_blocked", 30: "busy",
    31: "quota", 32: "draining", 33: "redirect", 40: "replaced", 41: "kicked",
    42: "heartbeat_timeout", 43: "slow_consumer", 44: "bind_timeout", 50: "internal",
}


def word(result: int) -> str:
    """The word of a result (MIOP 9)."""
    return _WORDS.get(result, f"result_{result}")


class Fault(Exception):
    """The server sent what it must not; the name is one of MIOP 9."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass
class Record:
    """A push in a MSG (MIOP 5.5)."""

    id: int
    app_id: int
    silent: bool
    high: bool
    expire_at: int
    collapse: bytes
    body: bytes


@dataclass
class Frame:
    """A frame. Of a MSG the payload is in `records`; an unknown opcode is `skipped` unread."""

    opcode: int
    properties: Dict[str, Any] = field(default_factory=dict)
    payload: bytes = b""
    seq: Optional[int] = None
    ack_req: bool = False
    dup: bool = False
    records: Optional[List[Record]] = None
    skipped: bool = False

    def __repr__(self) -> str:
        # Values may be signatures, tokens or messages.
        return f"<Frame {self.opcode} {sorted(self.properties)} {len(self.payload)} bytes>"


# ---- writing -------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode(frame: Frame) -> bytes:
    """A frame of a device."""
    block = b"".join(_encode_property(key, frame.properties[spec[0]], spec)
                     for key, spec in _PROPERTIES.items() if spec[0] in frame.properties)
    if frame.seq is None and not block and not frame.payload:
        return bytes((0, 7, 0, frame.opcode))
    flags, number = BODY, b""
    if frame.seq is not None:
        flags, number = BODY | SEQ, struct.pack(">I", frame.seq)
    body = number + varint(len(block)) + block + frame.payload
    return struct.pack(">HBBI", 7, flags, frame.opcode, len(body)) + body


def _encode_property(key: int, value: Any, spec: Tuple[str, int, int]) -> bytes:
    name, kind, width = spec
    out = b""
    for one in value if name in _LISTS else [value]:
        if kind == _NUMBER:
            one = one.to_bytes(width, "big")
        elif kind == _TEXT:
            one = one.encode()
        elif kind == _WISH:
            one = struct.pack(">HHH", *one)
        if len(one) > VALUE_BYTES_MAX:
            raise ValueError(f"{name} has more than {VALUE_BYTES_MAX} bytes")
        out += bytes((key,)) + varint(len(one)) + one
    return out


def sign(secret: bytes, product: str, device: str, client_ts: int, client_nonce: bytes,
         caps: int = 0, server_nonce: bytes = b"") -> bytes:
    """The signature of a BIND, or of the answer to a challenge (MIOP 6.1)."""
    parts = (b"MIOP7-BIND", product.encode(), device.encode(), struct.pack(">Q", client_ts),
             client_nonce, struct.pack(">I", caps), b"", server_nonce)
    text = b"".join(struct.pack(">H", len(part)) + part for part in parts)
    return hmac.new(secret, text, hashlib.sha256).digest()


# ---- reading -------------------------------------------------------------------------------------


def decode(data: Union[bytes, bytearray], frame_bytes_max: int) -> Optional[Tuple[Frame, int]]:
    """The frame at the front and its length; `None` if more bytes are needed."""
    _check_version(data[:2])
    if len(data) < 4:
        return None
    flags, opcode = data[2], data[3]
    if flags & MUST_UNDERSTAND:
        raise Fault("must_understand")
    if flags & (COMPRESSED | MORE) or flags & (SEQ | BODY) == SEQ:
        raise Fault("bad_flags")
    frame = Frame(opcode, ack_req=bool(flags & ACK_REQ), dup=bool(flags & DUP))
    frame.skipped = opcode > ERROR
    end = 4
    if flags & BODY:
        if len(data) < 8:
            return None
        end = 8 + struct.unpack_from(">I", data, 4)[0]
        if end > frame_bytes_max:
            raise Fault("too_large")
        if len(data) < end:
            return None
        if not frame.skipped:
            _decode_body(frame, bytes(data[8:end]), bool(flags & SEQ))
    if not frame.skipped:
        _check_content(frame)
    return frame, end


def _check_version(front: Union[bytes, bytearray]) -> None:
    if front[:1] not in (b"", b"\0"):
        raise Fault("unknown_version")
    if len(front) < 2 or front[1] == 7:
        return
    version = front[1]
    raise Fault("newer_version" if version > 7 else
                "version_changed" if version in (5, 6) else "unknown_version")


def _decode_body(frame: Frame, body: bytes, has_seq: bool) -> None:
    at = 0
    if has_seq:
        if len(body) < 4:
            raise Fault("bad_length")
        frame.seq, at = struct.unpack_from(">I", body)[0], 4
    block, at = _block(body, at)
    if len(block) > PROPERTIES_BYTES_MAX:
        raise Fault("too_large")
    frame.properties = _decode_properties(block)
    frame.payload = body[at:]


def _varint(data: bytes, at: int) -> Tuple[int, int]:
    number = 0
    for width in range(5):
        if at >= len(data):
            raise Fault("bad_length")
        byte, at = data[at], at + 1
        if width and not byte or width == 4 and byte > 0x0F:
            raise Fault("bad_length")
        number |= (byte & 0x7F) << 7 * width
        if byte < 0x80:
            return number, at
    raise Fault("bad_length")


def _block(data: bytes, at: int) -> Tuple[bytes, int]:
    length, at = _varint(data, at)
    if at + length > len(data):
        raise Fault("bad_length")
    return data[at:at + length], at + length


def _decode_properties(block: bytes) -> Dict[str, Any]:
    properties: Dict[str, Any] = {}
    at = 0
    while at < len(block):
        key = block[at]
        value, at = _block(block, at + 1)
        if len(value) > VALUE_BYTES_MAX:
            raise Fault("bad_property")
        spec = _PROPERTIES.get(key)
        if spec is None:
            if key >= 128:
                raise Fault("critical_property")
            continue
        name, kind, width = spec
        if name in _LISTS:
            texts = properties.setdefault(name, [])
            texts.append(_decode_text(name, value, len(texts)))
        elif name in properties or width and len(value) != width:
            raise Fault("bad_property")
        elif kind == _NUMBER:
            properties[name] = int.from_bytes(value, "big")
        elif kind == _WISH:
            properties[name] = list(struct.unpack(">HHH", value))
        else:
            properties[name] = value.decode(errors="replace") if kind == _TEXT else value
    return properties


def _decode_text(name: str, value: bytes, count: int) -> str:
    if name == "tags" and count == TAGS_MAX:
        raise Fault("too_large")
    if name == "addrs" and (count == ADDRESSES_MAX or not 1 <= len(value) <= ADDRESS_BYTES_MAX):
        raise Fault("bad_property")
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Fault("bad_property") from None


def _check_content(frame: Frame) -> None:
    """Checks of the specification on frames that a device reads."""
    properties = frame.properties
    if frame.opcode == MSG:
        frame.records, frame.payload = _decode_records(frame.payload), b""
    elif frame.opcode == BIND_ACK:
        # What else a BIND_ACK that lets in must have, the machine checks.
        if "result" not in properties:
            raise Fault("missing_property")
    elif frame.opcode == CHALLENGE and "server_nonce" not in properties:
        raise Fault("missing_property")
    elif frame.opcode == REPORT_ACK and "report_seq" not in properties:
        raise Fault("missing_property")


def _decode_records(payload: bytes) -> List[Record]:
    records, at = [], 0
    try:
        while at < len(payload):
            id_, app_id, flags, expire_at = struct.unpack_from(">QIBI", payload, at)
            collapse, at = _block(payload, at + 17)
            body, at = _block(payload, at)
            if flags & 8:
                raise Fault("bad_record")
            records.append(Record(id_, app_id, bool(flags & 2), bool(flags & 4), expire_at,
                                  collapse, body))
    except (struct.error, Fault):
        raise Fault("bad_record") from None
    if not records:
        raise Fault("empty_block")
    return records

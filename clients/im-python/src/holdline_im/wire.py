"""Frames: a length, and as many bytes of protobuf (IM 2)."""

from typing import Any, Optional, Tuple

from google.protobuf.message import DecodeError

from . import im_pb2 as pb

PREFACE = b"\xc4IM\x01"
#: The largest frame of a server whose limits are the usual ones (IM 2.2).
FRAME_BYTES_MAX = 397_312
#: What a frame of a server has beside the text and the extra of a message.
BESIDE_CONTENT_BYTES = 4_096
_LENGTH_BYTES_MAX = 5


class Fault(Exception):
    """The server sent what it must not: `name` is a word of IM 2.3."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def encode(frame: Any) -> bytes:
    """A frame with its length."""
    body = frame.SerializeToString()
    return _varint(len(body)) + body


def decode(data: bytes, bytes_max: int = FRAME_BYTES_MAX) -> Optional[Tuple[Any, int]]:
    """The ServerFrame at the beginning of `data` and its length; None if it is not whole."""
    size = 0
    for at, byte in enumerate(data[:_LENGTH_BYTES_MAX]):
        size |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            break
    else:
        if len(data) >= _LENGTH_BYTES_MAX:
            raise Fault("length")
        return None
    end = at + 1 + size
    if end > bytes_max:
        raise Fault("too_large")
    if len(data) < end:
        return None
    try:
        return pb.ServerFrame.FromString(bytes(data[at + 1:end])), end
    except DecodeError:
        raise Fault("malformed") from None


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)

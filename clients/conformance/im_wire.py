"""The suite's own codec of IM frames, made from the text of im.proto and from no library.

A message is a dict by the names of its fields; what is absent has the default of proto3.
"""

import os
import re

PREFACE = b"\xc4IM\x01"
SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "crates", "proto-im",
                      "schema", "im.proto")
NUMBERS = {"uint32", "uint64", "bool"}


class Field:
    def __init__(self, name, kind, number, is_repeated):
        self.name, self.kind, self.number, self.is_repeated = name, kind, number, is_repeated


def schema(path=SCHEMA):
    """The fields of each message, and the words of each enumeration by their numbers."""
    messages, enums, inside = {}, {}, None
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.partition("//")[0].strip()
            begin = re.match(r"(message|enum) (\w+) \{", line)
            field = re.match(r"(repeated )?(\w+) (\w+) = (\d+);", line)
            word = re.match(r"(\w+) = (\d+);", line)
            if begin:
                inside = (messages if begin[1] == "message" else enums).setdefault(begin[2], {})
            elif field:
                made = Field(field[3], field[2], int(field[4]), bool(field[1]))
                inside[made.name] = made
            elif word:
                inside[word[1]] = int(word[2])
    return messages, enums


MESSAGES, ENUMS = schema()


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def read_varint(data, at):
    """A number and what follows it; None where it is not whole."""
    number = shift = 0
    while at < len(data):
        number |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 0x80:
            return number, at
    return None


def encode(kind, value):
    """The bytes of a message, its fields in the order of their numbers."""
    out = b""
    for field in sorted(MESSAGES[kind].values(), key=lambda field: field.number):
        if field.name in value:
            all_values = value[field.name] if field.is_repeated else [value[field.name]]
            out += b"".join(_field(field, each) for each in all_values)
    return out


def _field(field, value):
    if field.kind in NUMBERS or field.kind in ENUMS:
        return varint(field.number << 3) + varint(int(value))
    if field.kind == "fixed64":
        return varint(field.number << 3 | 1) + value.to_bytes(8, "little")
    data = encode(field.kind, value) if field.kind in MESSAGES else \
        value.encode() if field.kind == "string" else value
    return varint(field.number << 3 | 2) + varint(len(data)) + data


def decode(kind, data):
    """A message as a dict. Raises ValueError."""
    by_number = {field.number: field for field in MESSAGES[kind].values()}
    value, at = {field.name: _default(field) for field in by_number.values()}, 0
    while at < len(data):
        key, at = read_varint(data, at)
        wire_type, field = key & 7, by_number.get(key >> 3)
        if wire_type == 0:
            found, at = read_varint(data, at)
        else:
            size, at = (8, at) if wire_type == 1 else read_varint(data, at)
            found, at = data[at:at + size], at + size
        if field is None:
            continue
        if wire_type == 1:
            found = int.from_bytes(found, "little")
        elif field.kind in MESSAGES:
            found = decode(field.kind, found)
        elif field.kind == "string":
            found = found.decode()
        elif field.kind == "bool":
            found = bool(found)
        if field.is_repeated:
            value[field.name].append(found)
        else:
            value[field.name] = found
    return value


def _default(field):
    if field.is_repeated:
        return []
    if field.kind in MESSAGES:
        return None
    return {"string": "", "bytes": b"", "bool": False}.get(field.kind, 0)


def frame(answer, **fields):
    """A frame of a server."""
    body = encode("ServerFrame", {answer: {name.rstrip("_"): it for name, it in fields.items()}})
    return varint(len(body)) + body


class Request(dict):
    """A frame of a client: its `name`, and its fields."""

    def __init__(self, name, fields):
        super().__init__(fields)
        self.name = name

    def __repr__(self):
        return f"{self.name} {dict(self)}"


def request(name, /, **fields):
    """A frame of a client."""
    body = encode("ClientFrame", {name: {key.rstrip("_"): it for key, it in fields.items()}})
    return varint(len(body)) + body


def read_frame(kind, data):
    """A frame of this message type at the beginning of `data` (name, fields) and its length; None
    if it is not whole."""
    found = read_varint(data, 0)
    if found is None or len(data) < found[0] + found[1]:
        return None
    size, at = found
    value = decode(kind, data[at:at + size])
    name, = [name for name, it in value.items() if it is not None]
    return (name, value[name]), at + size


def read_answer(data):
    """A server's frame, as `read_frame` returns it."""
    return read_frame("ServerFrame", data)


def read(data):
    """A client's frame at the beginning of `data` and its length; None if it is not whole."""
    found = read_frame("ClientFrame", data)
    return found and (Request(*found[0]), found[1])

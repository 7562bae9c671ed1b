"""A device of instant messaging whose frames Google's protobuf library reads and writes.

The schema is compiled from crates/proto-im/schema/im.proto as anybody would who writes a client.
Nothing of Holdline's own codec is used: what both agree on is the format.
"""

import os
import socket
import sys
import tempfile
import unittest
import uuid

import fixture
from fixture import DEADLINE_S, poll

SCHEMA = os.path.join(fixture.ROOT, "crates", "proto-im", "schema")
VECTORS = os.path.join(fixture.ROOT, "crates", "proto-im", "vectors", "2-frames.txt")
BUILT = os.environ.get("HOLDLINE_E2E_CLIENTS") or os.path.join(fixture.TARGET, "e2e-clients")
PREFACE = b"\xc4IM\x01"
_compiled = {}


def schema():
    """The classes of the schema by their names; skips the test where there is no compiler."""
    if not _compiled:
        sys.path.insert(0, os.path.join(BUILT, "protobuf"))
        try:
            from google.protobuf import descriptor_pb2, message_factory
            from grpc_tools import protoc
        except ImportError as error:
            raise unittest.SkipTest(f"Google's protobuf is not installed: {error}") from None
        with tempfile.TemporaryDirectory() as folder:
            made = os.path.join(folder, "im.bin")
            words = ["protoc", f"-I{SCHEMA}", f"--descriptor_set_out={made}", "im.proto"]
            assert protoc.main(words) == 0, "the schema does not compile"
            with open(made, "rb") as file:
                files = descriptor_pb2.FileDescriptorSet.FromString(file.read()).file
        classes = message_factory.GetMessages(files)
        _compiled.update({name.rsplit(".", 1)[-1]: made for name, made in classes.items()})
    return _compiled


def varint(number):
    """A number as protobuf writes it."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7f | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def framed(message):
    body = message.SerializeToString()
    return varint(len(body)) + body


class Ended(Exception):
    """The server has closed the connection."""


class Device:
    """A connection to a server."""

    def __init__(self, place, preface=PREFACE):
        """`place`: where to connect to, or a socket that is connected."""
        is_connected = isinstance(place, socket.socket)
        self.socket = place if is_connected else socket.create_connection(place, DEADLINE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.number = 0
        self.ahead = []
        self.raw(preface)

    def close(self):
        self.socket.close()

    def raw(self, data):
        """Bytes as they are."""
        self.socket.sendall(data)

    def ask(self, **request):
        """One frame with this request: ask(pull={"after": 1, "count": 2})."""
        self.raw(framed(schema()["ClientFrame"](**request)))

    def frame(self):
        """The next frame of the server: its kind, and its message."""
        while True:
            length, head = self._length()
            if length is not None and len(self.buffer) >= head + length:
                break
            data = self.socket.recv(65536)
            if not data:
                raise Ended(f"the server closed, with {len(self.buffer)} bytes of a frame")
            self.buffer += data
        body = self.buffer[head:head + length]
        self.buffer = self.buffer[head + length:]
        frame = schema()["ServerFrame"].FromString(body)
        kind = frame.WhichOneof("answer")
        return kind, getattr(frame, kind)

    def _length(self):
        length = 0
        for at, byte in enumerate(self.buffer[:5]):
            length |= (byte & 0x7f) << 7 * at
            if byte < 0x80:
                return length, at + 1
        return None, 0

    def next(self, *kinds):
        """The next frame of one of these kinds; others are kept for later."""
        for at, (kind, message) in enumerate(self.ahead):
            if kind in kinds:
                del self.ahead[at]
                return message
        while True:
            kind, message = self.frame()
            if kind in kinds:
                return message
            assert kind not in ("end", "refused"), f"{kind}: {message}"
            self.ahead.append((kind, message))

    def ends(self):
        """Nothing more comes but the end of the connection."""
        try:
            kind, message = self.frame()
        except (Ended, ConnectionResetError):
            return
        raise AssertionError(f"{kind} instead of the end: {message}")

    # -- what a device does

    def login(self, name, device="phone", **more):
        self.ask(login={"name": name, "device": device, **more})
        return self.next("logged_in")

    def take_number(self):
        self.number += 1
        return self.number

    def asks(self, kind, *answers, **request):
        """A request and its answer, or Failed. `with_` and `from_` are fields that Python has
        other words for."""
        number = self.take_number()
        fields = {name.rstrip("_"): value for name, value in request.items()}
        self.ask(**{kind: {"number": number, **fields}})
        answer = self.next(*answers, "failed")
        assert answer.number == number, answer
        return answer

    def send(self, to, text, client_id=None, **content):
        """Sends a text and waits: what the server says, Sent or Failed."""
        return self.asks("send", "sent", to=to, client_id=client_id or uuid.uuid4().bytes,
                         content={"kind": 1, "text": text, **content})

    def pull(self, after=0, count=100):
        return self.asks("pull", "page", after=after, count=count)

    def pull_all(self, after=0, count=100):
        """Everything behind a place, page by page: (place, text)."""
        seen = []
        while True:
            page = self.pull(after, count)
            seen += [(entry.seq, entry.message.content.text) for entry in page.entries]
            after = page.upto
            if page.upto >= page.head:
                return seen

    def pull_until(self, count):
        """All that the inbox has, as soon as it has so many: (place, text)."""
        return poll(lambda: (seen := self.pull_all())[count - 1:] and seen, f"{count} messages")

    def texts_until(self, count):
        """All texts of the inbox, as soon as it has so many."""
        def texts():
            return [text for _, text in self.pull_all() if text]
        return poll(lambda: (seen := texts())[count - 1:] and seen, f"{count} texts")

    def history(self, with_, count=100, start=0, backwards=False):
        return self.asks("history", "history", with_=with_, from_=start, backwards=backwards,
                         count=count)

    def recall(self, with_, seq):
        return self.asks("recall", "sent", with_=with_, seq=seq)

"""A real `redis-server` for a test: started on a free port, stopped, killed, emptied, and asked.

It keeps nothing on disk, so that one that was killed comes back empty. What is asked goes over a
connection of its own in RESP, by hand; every wait has a limit.
"""

import contextlib
import queue
import socket
import threading
import time

from mqtt.broker import free_port
from program import Program

ANSWER_S = 5.0
BUCKETS = 16384
PREFIX = "holdline:"


def bucket(key):
    """The bucket of a principal's key: model/src/presence.rs."""
    value = 0xcbf29ce484222325
    for byte in key.encode():
        value = ((value ^ byte) * 0x00000100000001b3) & 0xffffffffffffffff
    return (value ^ (value >> 32)) % BUCKETS


class Redis(Program):
    """A running redis-server."""

    COMMANDS = ("redis-server",)

    def __init__(self):
        super().__init__()
        self.port = free_port()
        self.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def words(self):
        return ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                "--appendonly", "no", "--dir", self.folder]

    def answers(self):
        try:
            return self.ask("PING") == "PONG"
        except OSError:
            return False

    # -- questions

    def ask(self, *words):
        """One command; its answer. An error of Redis is an AssertionError."""
        out = b"*%d\r\n" % len(words)
        for word in words:
            word = word if isinstance(word, bytes) else str(word).encode()
            out += b"$%d\r\n%s\r\n" % (len(word), word)
        with socket.create_connection(("127.0.0.1", self.port), ANSWER_S) as link:
            link.sendall(out)
            with link.makefile("rb") as lines:
                return self._read(lines)

    def _read(self, lines):
        line = lines.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("Redis ended")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise AssertionError(f"Redis: {rest.decode()}")
        if kind == b":":
            return int(rest)
        if kind == b"+":
            return rest.decode()
        count = int(rest)
        if count < 0:
            return None
        if kind == b"$":
            return lines.read(count + 2)[:-2].decode()
        return [self._read(lines) for _ in range(count)]

    def record(self, key):
        """What is kept of a principal: {version, online, node, boot, detail}; None: nothing."""
        text = self.ask("HGET", f"{PREFIX}b:{bucket(key)}", key)
        if text is None:
            return None
        version, state, node, boot, detail = text.split(" ", 5)[:5]
        return {"version": version, "online": state == "o", "node": node, "boot": boot,
                "detail": detail, "text": text}

    def write(self, key, text):
        """A lie."""
        self.ask("HSET", f"{PREFIX}b:{bucket(key)}", key, text)

    def drop(self, key):
        self.ask("HDEL", f"{PREFIX}b:{bucket(key)}", key)


def quietly(what):
    """The same, where it is no matter that the other end has gone."""
    def tried(*arguments):
        with contextlib.suppress(OSError):
            what(*arguments)
    return tried


class Slow:
    """A way to Redis on which everything is so much later."""

    def __init__(self, port, delay_s):
        self.to, self.delay_s, self.over = port, delay_s, threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.to), ANSWER_S)
            except OSError:
                return
            far.settimeout(None)
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one, other):
        """What comes at a moment goes on so much later, however much there is of it."""
        under_way = queue.Queue()

        def deliver():
            while (waiting := under_way.get()) is not None:
                due, data = waiting
                self.over.wait(max(0.0, due - time.monotonic()))
                other.sendall(data)
        threading.Thread(target=quietly(deliver), daemon=True).start()

        def take():
            while data := one.recv(65536):
                under_way.put((time.monotonic() + self.delay_s, data))
        quietly(take)()
        under_way.put(None)
        for end in (one, other):
            quietly(end.shutdown)(socket.SHUT_RDWR)

    def close(self):
        self.over.set()
        self.listener.close()

"""What hostile input may cost in memory: a multiple of the limits that have names, and no more.

The process stays below 1.25 times the sum of the limits that have names and 32 MB: what each
connection may leave unread is such a limit too. What is measured is what the server holds: the
allocator gives pages back as soon as they are free, where it does so within a second otherwise.
"""

import os
import re
import socket
import struct

from fixture import DEADLINE_S, Case, poll

MIB = 1024 * 1024
UPGRADE = (b"GET /miop HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
PING = b"\x89\xfd\0\0\0\0" + b"p" * 125


def counted(first, body):
    """A packet of this body."""
    rest, field = len(body), b""
    while True:
        rest, digit = divmod(rest, 128)
        field += bytes([digit | (0x80 if rest else 0)])
        if not rest:
            return bytes([first]) + field + body


def text(words):
    return struct.pack(">H", len(words)) + words.encode()


def connect(number, flags=2):
    """A CONNECT of MQTT 3.1.1 without a keep-alive; its session is clean unless flags say not."""
    head = b"\x00\x04MQTT\x04" + bytes([flags]) + b"\x00\x00"
    return counted(0x10, head + text(f"hostile{number}"))


def subscribe(filters, qos):
    body = b"\x00\x01" + b"".join(text(one) + bytes([qos]) for one in filters)
    return counted(0x82, body)


def message(topic, body, first=0x30):
    """A PUBLISH, of one and the same identifier where its QoS wants one."""
    return counted(first, text(topic) + (b"\x00\x07" if first & 6 else b"") + body)


def begun(length):
    """A PUBLISH of so many bytes, and all of them but the last."""
    return message("t", b"x" * (length - 3))[:-1]


class Bounded(Case):
    """A server of small limits, each of which is passed many times over where it is not held."""

    LIMITS, TOPICS, MORE = {}, {}, {}
    # What the log keeps in memory has limits with names as well.
    STORE = {"hot_bytes": 2 * MIB, "cache_bytes": 2 * MIB, "index_changes_bytes": 2 * MIB}
    ENV = {"MIMALLOC_PURGE_DELAY": "0"}
    # What one connection of it may leave unread.
    OUT = 128 * 1024

    @classmethod
    def setUpClass(cls):
        cls.CHANGES = {"limits": {"out_bytes_max": cls.OUT, **cls.LIMITS}, "mqtt": cls.TOPICS,
                       "store": cls.STORE, **cls.MORE}
        super().setUpClass()

    def dial(self, number=None, receive_buffer=None):
        """A connection; of a number: a client's, that is let in."""
        link = socket.socket()
        self.addCleanup(link.close)
        if receive_buffer:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        link.settimeout(DEADLINE_S)
        link.connect(self.server.ports["any"])
        if number is not None:
            link.sendall(connect(number))
            self.assertEqual(link.recv(4), b"\x20\x02\x00\x00")
        return link

    def memory(self):
        """Resident bytes of the process that are no file's: pages of code come as they run."""
        with open(f"/proc/{self.server.pid}/status", encoding="utf-8") as file:
            return int(re.search(r"RssAnon:\s+(\d+) kB", file.read()).group(1)) * 1024

    def bounded(self, limits):
        """The whole process has no more than the limits that have names, a quarter of that, and
        32 MB."""
        took, limits = self.memory(), limits + sum(self.STORE.values())
        self.assertLess(took, limits * 1.25 + 32 * MIB, f"{took / MIB:.0f} MiB")


class Pings(Bounded):
    def test_pings_of_those_who_do_not_read_cost_nothing(self):
        pings = PING * 8_000
        for _ in range(60):
            link = self.dial()
            link.sendall(UPGRADE)
            link.recv(4096)
            link.sendall(pings * 4)
            self.bounded(0)


class Frames(Bounded):
    LIMITS = {"partial_bytes_max": 8 * MIB}

    def test_frames_that_are_never_whole_are_bounded_in_all(self):
        limits = self.LIMITS["partial_bytes_max"]
        part, before, count = begun(MIB - 100), self.ended(), limits // MIB + 60
        for number in range(count):
            link = self.dial()
            try:
                link.sendall(connect(number))
                link.recv(4)
                link.sendall(part)
            except OSError:
                pass  # it held too much for too long
            self.bounded(limits)
        poll(lambda: self.ended() - before >= 40, "most of those beyond the bound have ended")
        self.bounded(limits)
        # And others are served.
        self.dial("good")

    def ended(self):
        return self.server.status()["closed"]["partial_full"]


class Wide(Frames):
    """The same with a limit four times as wide: what is beyond it does not grow with it."""

    LIMITS = {"partial_bytes_max": 32 * MIB}


class Topics(Bounded):
    TOPICS = {"queues_bytes_max": 4 * MIB, "peer_messages_bytes_max": 4 * MIB,
              "retained_bytes_max": 4 * MIB, "retained_walks_bytes_max": 4 * MIB,
              "subscribes_bytes_max": 4 * MIB, "fan_outs_bytes_max": 4 * MIB,
              "qos0_backlog_bytes_max": 64 * 1024}
    NAMED = 24 * MIB
    READERS = 40

    def answered(self, link):
        """All that was sent before has been read by the server. Some may be acknowledged later:
        no PUBACK of these tests has a PINGRESP's bytes in it."""
        link.sendall(b"\xc0\x00")
        kept = b""
        while b"\xd0\x00" not in kept:
            more = link.recv(65536)
            self.assertTrue(more, "it was ended")
            kept = kept[-1:] + more

    def readers(self, filters, qos=0):
        """Clients that subscribe to these and never read again."""
        for number in range(self.READERS):
            link = self.dial(f"{self.name}{number}", receive_buffer=4096)
            for _ in range(3):
                link.sendall(subscribe(filters, qos))
            self.assertEqual(link.recv(1), b"\x90")

    def flood(self, topic, count, size, flags=0x30):
        """So many messages of this size, each looked for in the memory that they may take."""
        link, limits = self.dial(f"{self.name}-flood"), self.NAMED + self.READERS * self.OUT
        packet, batch = message(topic, b"x" * size, flags), max(1, MIB // max(size, 64))
        for sent in range(0, count, batch):
            link.sendall(packet * min(batch, count - sent))
            self.answered(link)
            self.bounded(limits)

    def test_retained_messages_that_nobody_reads_are_walked_page_by_page(self):
        link = self.dial(f"{self.name}-keeps")
        for number in range(2_000):
            link.sendall(message(f"r/{number}/a", b"x" * 1_000, 0x31))
        self.answered(link)
        self.readers([f"r/+/{rest}" for rest in ("a", "#", "+")] + ["r/#", "+/+/a", "#"] * 20)
        self.flood("r/1/a", 20_000, 64)

    def test_a_fan_out_that_nobody_reads_is_dropped_beyond_its_bound(self):
        self.readers(["f/#"])
        self.flood("f/a", 20_000, 1_000)

    def test_acknowledged_messages_that_nobody_reads_wait_in_bounded_queues(self):
        self.readers(["q/#"], qos=1)
        self.flood("q/a", 10_000, 1_000, 0x32)

    def test_messages_of_a_byte_for_those_who_are_away_count_with_their_places(self):
        for number in range(100):
            link = self.dial()
            link.sendall(connect(f"{self.name}{number}", flags=0))
            self.assertEqual(link.recv(4), b"\x20\x02\x00\x00")
            link.sendall(subscribe(["a/#"], 1))
            self.assertEqual(link.recv(5)[-1], 1)
            link.sendall(b"\xe0\x00")
            link.close()
        self.flood("a/a", 10_000, 1, 0x32)


class Short(Case):
    CHANGES = {"limits": {"memory_max": 1}}

    def test_when_memory_is_short_newcomers_are_told_and_nothing_more_is_stored(self):
        poll(lambda: self.server.status()["memory_pressure"] == "stores", "memory is short")
        self.server.logged("memory is short")
        with socket.create_connection(self.server.ports["any"], 20) as link:
            link.sendall(connect(1))
            self.assertEqual(link.recv(4), b"\x20\x02\x00\x03")  # server unavailable
        self.assertGreater(self.server.count("pressed_connections_total"), 0)
        self.assertIn("store_full", str(self.server.push(f"away-{os.getpid()}")))
        self.assertIn("holdline_memory_pressure 3", self.server.metrics())

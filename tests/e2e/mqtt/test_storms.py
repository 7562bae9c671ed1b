"""Clients that flood, clients that never read, and crowds: who else feels it, and for how long.

The server's memory is bounded by its own limits, not by what a peer sends; a bystander's message
goes through within a time that a person would not notice much. Sizes fit a small machine;
HOLDLINE_E2E_RETAINED and HOLDLINE_E2E_CROWD make them larger.
"""

import os
import select
import socket
import threading
import time

import mqtt.wire as wire
from fixture import poll
from mqtt.broker import Case, descriptors, holdline_only
from mqtt.test_sessions import lasting
from mqtt.wire import CONNACK, PUBACK, PUBLISH, V31, V311, V5, Closed, Will

RETAINED = int(os.environ.get("HOLDLINE_E2E_RETAINED", "100000"))
CROWD = int(os.environ.get("HOLDLINE_E2E_CROWD", "2000"))
MIB = 1024 * 1024


class Bystander(threading.Thread):
    """A pair of clients that pass a message on, again and again, and note the longest way."""

    def __init__(self, case, name):
        super().__init__(daemon=True)
        self.reader = case.opened(f"{name}-by-reader", broker=case.broker)
        self.writer = case.opened(f"{name}-by-writer", broker=case.broker)
        self.topic = f"bystander/{name}"
        self.reader.subscribe((self.topic, 1))
        self.over, self.worst_s, self.count, self.failure = threading.Event(), 0.0, 0, None
        self.start()

    def run(self):
        try:
            while not self.over.wait(0.01):
                began = time.monotonic()
                self.writer.publish(self.topic, str(self.count), 1)
                assert self.reader.take(20).payload == str(self.count).encode()
                self.worst_s = max(self.worst_s, time.monotonic() - began)
                self.count += 1
        except BaseException as failure:
            self.failure = failure

    def end(self):
        """The longest time that a message took, seconds."""
        poll(lambda: self.count >= 10 or self.failure, "the bystander passes messages on", 30)
        self.over.set()
        self.join(30)
        assert self.failure is None, f"the bystander ended: {self.failure!r}"
        return self.worst_s


class Storm(Case):
    PLAN = {"changes": {"limits": {"connections_max": 8000}}, "is_storm": True}

    def setUp(self):
        super().setUp()
        self.before = self.broker.memory()
        self.bystander = Bystander(self, self.name)

    def calm(self, grown_mib=64):
        """Nobody else lost a message or waited for one too long, and the memory is bounded."""
        worst = self.bystander.end()
        grown = (self.broker.memory() - self.before) / MIB
        print(f"  {self.name}: worst {worst * 1000:.0f} ms over {self.bystander.count} messages, "
              f"grown by {grown:.1f} MiB")
        self.assertLess(grown, grown_mib)


class Floods(Storm):
    def flood(self, topic, qos, megabytes, payload=b"x" * 1000):
        """Publishes so much as fast as it is taken; acknowledgements are read and counted."""
        writer = self.opened(f"{self.name}-flood")
        count = megabytes * MIB // len(payload)
        block = 200
        for _ in range(0, count, block):
            writer.send(*[wire.publish(V311, topic, payload, qos, id=at + 1)
                          for at in range(block)])
            if qos:
                for at in range(block):
                    self.assertEqual(writer.expect(PUBACK, 30).id, at + 1)
        writer.ping(30)
        return count

    def test_a_reader_that_never_reads_at_qos_0_loses_messages_and_harms_nobody(self):
        lazy = self.opened(f"{self.name}-lazy", buffer=4096)
        lazy.subscribe(f"{self.name}/#")
        self.flood(f"{self.name}/a", 0, 100)
        self.calm(grown_mib=48)

    def test_a_reader_that_never_reads_at_qos_1_is_held_to_its_window(self):
        lazy = self.opened(f"{self.name}-lazy", buffer=4096, **lasting(V311))
        lazy.subscribe((f"{self.name}/#", 1))
        self.flood(f"{self.name}/a", 1, 30)
        self.calm(grown_mib=64)

    def test_a_crowd_that_never_reads_harms_nobody(self):
        lazy = [self.opened(f"{self.name}-{at}", buffer=4096) for at in range(50)]
        for each in lazy:
            each.subscribe(f"{self.name}/#")
        self.flood(f"{self.name}/a", 0, 20)
        self.calm(grown_mib=96)

    def test_a_reader_that_comes_back_to_its_senses_gets_what_waited(self):
        lazy = self.opened(f"{self.name}-lazy", buffer=4096, **lasting(V311))
        lazy.subscribe((f"{self.name}/#", 1))
        writer = self.opened(f"{self.name}-w")
        for number in range(900):
            writer.send(wire.publish(V311, f"{self.name}/a", str(number).encode() * 100, 1, id=7))
            writer.expect(PUBACK)
        found = [lazy.take().payload for _ in range(900)]
        self.assertEqual(found, [str(number).encode() * 100 for number in range(900)])
        self.calm()

    def test_a_publisher_that_never_reads_its_acknowledgements_is_bounded(self):
        deaf = self.opened(f"{self.name}-deaf", buffer=4096)
        deaf.socket.settimeout(3)
        packet = wire.publish(V311, f"{self.name}/a", b"x" * 20, 1, id=9)
        try:
            for _ in range(1000):
                deaf.socket.sendall(packet * 2000)
        except (TimeoutError, ConnectionError):
            pass  # held back, or ended
        self.calm()

    def test_a_publisher_that_floods_a_group_that_is_away_is_bounded(self):
        for number in range(2):
            member = self.opened(f"{self.name}-{number}", **lasting(V311))
            member.subscribe((f"$share/g/{self.name}/#", 1))
            member.leave()
        self.flood(f"{self.name}/a", 1, 20)
        self.calm()

    def test_subscribing_and_unsubscribing_without_end_leaves_nothing(self):
        client = self.opened(f"{self.name}-s")
        for turn in range(20):
            filters = [f"{self.name}/{turn}/{at}/+/#" for at in range(500)]
            client.subscribe(*filters)
            client.send(wire.unsubscribe(V311, filters, 3))
            client.expect(wire.UNSUBACK)
        self.calm(grown_mib=24)


class Takeovers(Storm):
    PLAN = {"changes": {"limits": {"connections_max": 8000}},
            "limits": {"flaps_max": 65535}, "is_storm": True}

    def test_ten_thousand_takeovers_of_one_identifier(self):
        last = None
        for number in range(10_000):
            version = (V31, V311, V5)[number % 3]
            client = self.broker.wire(version)
            client.open(self.name, **lasting(version))
            if last:
                last.close()
            last = client
        last.subscribe(f"{self.name}/a")
        last.publish(f"{self.name}/a", b"alive")
        self.assertEqual(last.take().payload, b"alive")
        last.close()
        self.calm()

    def test_takeovers_at_once_leave_one(self):
        descriptors(4000)
        clients = [self.wire(V5) for _ in range(1000)]
        for client in clients:
            client.send(wire.connect(V5, self.name, **lasting(V5)))
        ends = {"let in": 0, "taken over": 0, "silent": 0}
        left = []
        for client in clients:
            try:
                answer = client.read(20)
                if answer.kind == CONNACK and answer.code == 0:
                    ends["let in"] += 1
                    left.append(client)
            except (Closed, TimeoutError):
                ends["silent"] += 1
        alive = []
        for client in left:
            try:
                client.send(wire.packet(wire.PINGREQ, 0, b""))
                if client.read(20).kind == wire.PINGRESP:
                    alive.append(client)
            except Closed:
                pass
        self.assertLessEqual(len(alive), 1, ends)
        again = self.opened(self.name, V5, **lasting(V5))
        self.assertTrue(again.connack.present)
        self.calm()


class Delayed(Case):
    PLAN = {"limits": {"flaps_max": 5, "flap_delay_ms": 3000}}

    @holdline_only("mosquitto does not slow them down")
    def test_a_client_that_flaps_is_answered_late_and_not_refused(self):
        def time_to_come(leaves):
            began = time.monotonic()
            client = self.opened(self.name)
            if leaves:
                client.leave()
            return time.monotonic() - began

        # Who says farewell may come as often as it likes.
        times = [time_to_come(leaves=True) for _ in range(12)]
        self.assertLess(min(times[5:]), 3)
        # Each takes over the connection before it, but the first.
        times = [time_to_come(leaves=False) for _ in range(7)]
        self.assertLess(min(times[:6]), 3)
        self.assertGreater(times[6], 3)


class Crowds(Storm):
    def test_a_connect_storm(self):
        descriptors(2 * CROWD + 200)
        clients, began = [], time.monotonic()
        for number in range(CROWD):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(self.broker.address())
            clients.append(client)
            self.addCleanup(client.close)
        waiting = {client.fileno(): (client, number) for number, client in enumerate(clients)}
        poller, let_in = select.epoll(), 0
        for number in waiting:
            poller.register(number, select.EPOLLOUT)
        while waiting and time.monotonic() - began < 60:
            for number, _ in poller.poll(1):
                client, at = waiting[number]
                if at is not None:
                    client.send(wire.connect(V311, f"{self.name}-{at}"))
                    waiting[number] = (client, None)
                    poller.modify(number, select.EPOLLIN)
                else:
                    if client.recv(100)[:4] == b"\x20\x02\x00\x00":
                        let_in += 1
                    poller.unregister(number)
                    del waiting[number]
        took = time.monotonic() - began
        self.assertEqual(let_in, CROWD)
        print(f"  {CROWD} connected in {took:.2f} s")
        self.calm()

    def test_a_will_storm(self):
        descriptors(4000)
        reader = self.opened(f"{self.name}-reader", V5)
        reader.subscribe((f"{self.name}/will/#", 1))
        clients = []
        for number in range(1000):
            client = self.broker.wire(V311)
            client.open(f"{self.name}-{number}",
                        will=Will(f"{self.name}/will/{number}", b"gone", 1, True))
            clients.append(client)
        for client in clients:
            client.reset()
        topics = {reader.take().topic for _ in range(1000)}
        self.assertEqual(len(topics), 1000)
        self.calm()

    def test_half_open_clients_are_noticed_by_their_keep_alive(self):
        reader = self.opened(f"{self.name}-reader")
        reader.subscribe((f"{self.name}/will/#", 1))
        began = time.monotonic()
        for number in range(50):
            self.opened(f"{self.name}-{number}", keep_alive=1,
                        will=Will(f"{self.name}/will/{number}", b"gone", 1))
        for _ in range(50):
            reader.take(15)
        self.assertGreater(time.monotonic() - began, 1.3)
        self.calm()

    def test_connections_that_say_nothing_harm_nobody(self):
        descriptors(4000)
        for number in range(500):
            client = self.wire()
            client.send((b"", b"\x10", b"\x10\xff", b"\x16\x03")[number % 4])
        self.calm()


class Retained(Storm):
    PLAN = {"limits": {"retained_max": 2_000_000}, "is_storm": True}

    def fill(self, count, payload=b"0123456789" * 2):
        writer = self.opened(f"{self.name}-w")
        block = 500
        for start in range(0, count, block):
            writer.send(*[wire.publish(V311, f"{self.name}/{number % 100}/{number}", payload, 1,
                                       True, id=number - start + 1)
                          for number in range(start, start + block)])
            for _ in range(block):
                writer.expect(PUBACK, 30)

    def test_a_subscriber_of_everything_gets_every_retained_message(self):
        began = time.monotonic()
        self.fill(RETAINED)
        stored = time.monotonic()
        reader = self.opened(f"{self.name}-r", V5)
        reader.subscribe((f"{self.name}/#", 0))
        topics = set()
        while len(topics) < RETAINED:
            topics.add(reader.expect(PUBLISH, 20).topic)
        walked = time.monotonic()
        print(f"  {RETAINED} retained in {stored - began:.1f} s, read in {walked - stored:.1f} s")
        self.quiet(reader)
        for number in range(3):  # some that are read at QoS 1, one that is cut off in the middle
            one = self.opened(f"{self.name}-q{number}", V5, props={"receive_max": 20})
            one.subscribe((f"{self.name}/{number}/#", 1))
            found = {one.take(20).topic for _ in range(RETAINED // 100)}
            self.assertEqual(len(found), RETAINED // 100)
        cut = self.opened(f"{self.name}-cut", buffer=4096)
        cut.subscribe(f"{self.name}/#")
        cut.expect(PUBLISH)
        cut.reset()
        self.calm(grown_mib=64 + RETAINED * 600 / MIB)

    def test_readers_of_everything_that_never_read_harm_nobody(self):
        self.fill(20_000)
        for number in range(30):
            lazy = self.opened(f"{self.name}-{number}", V5, buffer=4096)
            lazy.subscribe((f"{self.name}/#", number % 2))
        time.sleep(1)
        self.calm(grown_mib=64)

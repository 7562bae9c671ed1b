"""A bridge between this server and a real mosquitto, both ways, while either of them goes away."""

import collections
import unittest

import mqtt.wire as wire
from fixture import poll
from mqtt.broker import IS_HOLDLINE, Case
from mqtt.wire import PUBACK, V5

TOPICS = ["out/# out 2", "in/# in 2", "both/# both 1", "map/# out 1 here/ there/",
          "cmd/# in 1 from/ to/", "plain out 0"]

# Messages that are under way while brokers are killed.
KILLED_OVER = 300


def crossed(writer, reader):
    """Waits until a message goes over the bridge, and leaves none of its own behind."""
    def answered():
        writer.publish("both/up", b"", 1)
        try:
            return reader.take(0.5)
        except TimeoutError:
            return None
    poll(answered, "the bridge is up", 30)
    writer.publish("both/up", b"over", 1)
    while reader.take().payload != b"over":
        pass


@unittest.skipUnless(IS_HOLDLINE, "only Holdline: it is its bridge")
class Bridges(Case):
    SHARED = False

    def setUp(self):
        super().setUp()
        self.remote = self.start(mosquitto=True)
        self.local = self.start(changes=self.bridge())
        self.far = self.opened("far", V5, self.remote)
        self.near = self.opened("near", V5, self.local)
        self.far_writer = self.opened("far-writer", V5, self.remote)
        self.near_writer = self.opened("near-writer", V5, self.local)
        self.far.subscribe(("#", 2))
        self.near.subscribe(("in/#", 2), ("both/#", 2), ("from/#", 2))
        self.is_up()

    def bridge(self, **more):
        return {"bridge.up": {"addresses": [f"localhost:{self.remote.port()}"], "topics": TOPICS,
                              "restart_s_min": 1, "restart_s_max": 1, **more}}

    def is_up(self):
        """A message goes both ways."""
        crossed(self.far_writer, self.near)
        self.until(self.far, b"over")

    def until(self, client, payload):
        """The payloads up to this one, which is sent behind all others on the same way."""
        found = [self.next(client).payload]
        while found[-1] != payload:
            found.append(self.next(client).payload)
        return found

    def next(self, client, deadline_s=15):
        """The next message that is not one of the servers' own."""
        while True:
            found = client.take(deadline_s)
            if not found.topic.startswith("$SYS"):
                return found

    def test_messages_go_where_they_should_and_come_back_never(self):
        for qos in range(3):
            self.near_writer.publish("out/a", f"o{qos}", qos)
            found = self.next(self.far)
            self.assertEqual((found.topic, found.payload, found.qos),
                             ("out/a", f"o{qos}".encode(), qos))
        self.near_writer.publish("here/map/x", b"mapped", 1)
        self.assertEqual(self.next(self.far).topic, "there/map/x")
        for qos in range(3):
            self.far_writer.publish("in/a", f"i{qos}", qos)
            self.assertEqual(self.next(self.far).topic, "in/a")
            found = self.next(self.near)
            self.assertEqual((found.topic, found.payload, found.qos),
                             ("in/a", f"i{qos}".encode(), qos))
        self.far_writer.publish("to/cmd/x", b"command", 1)
        self.assertEqual(self.next(self.near).topic, "from/cmd/x")
        self.far_writer.publish("both/x", b"before", 1)
        self.until(self.far, b"before")
        self.assertEqual(self.until(self.near, b"before"), [b"before"])
        self.near_writer.publish("both/x", b"once", 1)
        self.near_writer.publish("elsewhere", b"stays", 1)
        self.near_writer.publish("in/b", b"not out", 1)
        self.near_writer.publish("both/x", b"there", 1)
        # What came back would lie in front of a message that takes the same way behind it.
        self.assertEqual(self.until(self.far, b"there"), [b"once", b"there"])
        self.far_writer.publish("both/x", b"back", 1)
        self.assertEqual(self.until(self.near, b"back"), [b"once", b"not out", b"there", b"back"])
        self.near_writer.publish("both/x", b"end", 1)
        self.assertEqual(self.until(self.far, b"end"), [b"back", b"end"])

    def test_retained_messages_go_along(self):
        self.near_writer.publish("out/kept", b"here", 1, retain=True)
        self.next(self.far)
        self.far_writer.publish("in/kept", b"there", 1, retain=True)
        self.next(self.near)
        self.near.subscribe(("in/kept", 0))
        found = self.next(self.near)
        self.assertEqual((found.payload, found.retain), (b"there", True))
        later = self.opened("later", V5, self.remote)
        later.subscribe(("out/kept", 0))
        found = self.next(later)
        self.assertEqual((found.payload, found.retain), (b"here", True))

    def publish_all(self, client, topic, count):
        for number in range(count):
            client.send(wire.publish(V5, topic, str(number), 1, id=number + 1))
        for _ in range(count):
            client.expect(PUBACK)

    def take_all(self, client, topic, count):
        found = []
        while len(set(found)) < count:
            message = self.next(client, 30)
            if message.topic == topic:
                found.append(int(message.payload))
        self.assertEqual(list(dict.fromkeys(found)), list(range(count)))

    def remote_goes(self, kill):
        (self.remote.kill if kill else self.remote.stop)()
        self.publish_all(self.near_writer, "out/q", 200)
        self.remote.start()
        self.far = self.opened("far2", V5, self.remote, clean=False,
                               props={"session_expiry": 100})
        self.far.subscribe(("out/#", 1))
        self.take_all(self.far, "out/q", 200)

    def test_messages_wait_while_the_remote_is_stopped(self):
        self.remote_goes(False)

    def test_messages_wait_while_the_remote_is_killed(self):
        self.remote_goes(True)

    def test_messages_wait_while_this_server_is_killed(self):
        self.far.subscribe(("x", 0))
        self.remote.kill()
        self.publish_all(self.near_writer, "out/q", 200)
        self.local.restart(kill=True)
        self.remote.start()
        self.far = self.opened("far2", V5, self.remote)
        self.far.subscribe(("out/#", 1))
        self.take_all(self.far, "out/q", 200)

    def test_messages_of_the_remote_wait_for_this_server(self):
        self.near.leave()
        self.near = self.opened("keeper", V5, self.local, clean=False,
                                props={"session_expiry": 1000})
        self.near.subscribe(("in/#", 1))
        self.local.stop()
        self.publish_all(self.far_writer, "in/q", 100)
        self.local.start()
        self.near = self.opened("keeper", V5, self.local, clean=False,
                                props={"session_expiry": 1000})
        self.take_all(self.near, "in/q", 100)

    def cross_over_kills(self, source, target, topic):
        """What waits for the bridge at one broker comes once to the other, though this server is
        killed, and the other one stopped, again and again while it crosses."""
        keeps = {"clean": False, "props": {"session_expiry": 1000}}
        keeper = self.opened("keeper", V5, target, **keeps)
        keeper.subscribe((topic, 2))
        keeper.leave()
        (target.kill if target is self.local else target.stop)()
        writer = self.opened("writer", V5, source)
        for number in range(KILLED_OVER):
            writer.publish(topic, str(number), 2)
        target.start()
        for victim in (self.local, self.remote, self.local, self.remote):
            watcher = self.opened("watcher", V5, target)
            watcher.subscribe((topic, 0))
            try:
                for _ in range(10):
                    self.next(watcher, 5)
            except TimeoutError:
                pass  # they have all crossed
            # A mosquitto that is killed loses what it has answered and not yet saved.
            (victim.kill if victim is self.local else victim.stop)()
            victim.start()
        self.opened("writer", V5, source).publish(topic, b"end", 2)
        keeper = self.opened("keeper", V5, target, **keeps)
        found = self.until(keeper, b"end")[:-1]
        counts = collections.Counter(int(payload) for payload in found)
        self.assertEqual(counts, collections.Counter(range(KILLED_OVER)))

    def test_messages_of_qos_2_go_out_once_over_kills(self):
        self.cross_over_kills(self.local, self.remote, "out/q")

    def test_messages_of_qos_2_come_in_once_over_kills(self):
        self.cross_over_kills(self.remote, self.local, "in/q")

    def test_the_state_of_the_bridge_is_told(self):
        watcher = self.opened("watcher", V5, self.remote)
        watcher.subscribe(("$SYS/broker/connection/#", 1))
        states = {}

        def told(value):
            while True:
                found = watcher.take(20)
                states[found.topic] = found.payload
                if found.payload == value:
                    return found
        topic = told(b"1").topic
        self.local.kill()
        while told(b"0").topic != topic:
            pass
        self.local.start()
        while told(b"1").topic != topic:
            pass


@unittest.skipUnless(IS_HOLDLINE, "only Holdline: it is what the other bridges to")
class MosquittoBridges(Case):
    """mosquitto's own bridge, pointed at this server. In 3.1.1 it marks itself by a bit that the
    standard does not know."""

    def test_a_mosquitto_can_be_bridged_to_this_server(self):
        for version in ("mqttv311", "mqttv50"):
            with self.subTest(version):
                conf = (f"connection {version}\naddress 127.0.0.1:{self.broker.port()}\n"
                        f"bridge_protocol_version {version}\nrestart_timeout 1\n"
                        "topic out/# out 2\ntopic in/# in 2\ntopic both/# both 1\n")
                remote = self.start(mosquitto=True, conf=conf)
                far = self.opened("far", V5, remote)
                near = self.opened("near", V5)
                far_writer = self.opened("far-writer", V5, remote)
                near_writer = self.opened("near-writer", V5)
                far.subscribe(("in/#", 2), ("both/#", 2))
                near.subscribe(("out/#", 2), ("both/#", 2))

                crossed(near_writer, far)
                while near.take().payload != b"over":
                    pass
                for qos in range(3):
                    far_writer.publish("out/x", str(qos), qos)
                    self.assertEqual(near.take().payload, str(qos).encode())
                    near_writer.publish("in/x", str(qos), qos)
                    self.assertEqual(far.take().payload, str(qos).encode())
                far_writer.publish("both/x", b"once", 1)
                self.assertEqual(far.take().payload, b"once")
                self.assertEqual(near.take().payload, b"once")
                near_writer.publish("both/x", b"end", 1)
                self.assertEqual(far.take().payload, b"end")
                self.assertEqual(near.take().payload, b"end")
                far_writer.publish("both/x", b"end of all", 1)
                self.assertEqual(near.take().payload, b"end of all")
                remote.close()

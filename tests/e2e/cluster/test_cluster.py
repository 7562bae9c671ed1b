"""Two nodes over three NATS servers: a follower takes over with everything that was acknowledged, a
planned change of the lead refuses nobody for long, and clients find the leader.
"""

import contextlib
import subprocess
import threading
import unittest

import fixture
import im.wire
import miop
from cluster import nats
from cluster.nats import Nats, Node, PATIENT_S
from fixture import Case, poll
from mqtt import wire
from mqtt.broker import free_port
from mqtt.wire import V5, Wire
from xmpp.people import Stream

SENT = 200


class Publisher(threading.Thread):
    """Publishes numbers at QoS 1, each until it is acknowledged, to whichever node takes it."""

    def __init__(self, ports):
        super().__init__(daemon=True)
        self.ports, self.acknowledged, self.over = ports, [], threading.Event()

    def run(self):
        while not self.over.is_set():
            for port in self.ports:
                with contextlib.suppress(OSError, wire.Closed):
                    self.publish(port)
            self.over.wait(0.05)

    def publish(self, port):
        """As many as one node acknowledges."""
        with contextlib.closing(Wire(("127.0.0.1", port), V5)) as link:
            link.send(wire.connect(V5, "publisher"))
            if link.read().code != 0:
                return
            while not self.over.is_set():
                number = len(self.acknowledged)
                id = number % 65535 + 1
                link.send(wire.publish(V5, "news", str(number), qos=1, id=id))
                answer = link.read()
                if answer.kind != wire.PUBACK or answer.code >= 0x80:
                    return
                self.acknowledged.append(number)


@nats.needed
class Cluster(Case):
    SHARED = False

    def setUp(self):
        super().setUp()
        self.nats = Nats()
        self.addCleanup(self.nats.close)
        self.north, self.south = (Node(self, name, self.nats.addresses())
                                  for name in ("north", "south"))

    def cluster(self):
        """North leads, south follows."""
        self.assertIn("done", self.north.command("create", "--logs", "2", "--yes"))
        secret = self.north.secret()
        self.north.start()
        poll(self.north.leads, "north leads", PATIENT_S)
        self.south.command("join", "--secret", "-", "--yes", stdin=secret)
        self.south.start()
        poll(self.south.follows, "south follows", PATIENT_S)
        poll(lambda: self.north.cluster()["followers"] == 1, "south is close", PATIENT_S)

    def mosquitto(self, node, *words, listener="mqtt"):
        return subprocess.run([words[0], "-h", "127.0.0.1", "-p", str(node.ports[listener]),
                               *words[1:]], capture_output=True, text=True, timeout=60,
                              check=False)

    def hears(self, node):
        """What a kept session is given, up to a last message."""
        told = self.mosquitto(node, "mosquitto_pub", "-q", "1", "-t", "news", "-m", "last")
        self.assertEqual(told.returncode, 0, told.stderr)
        heard = []
        with contextlib.closing(Wire(("127.0.0.1", node.ports["mqtt"]))) as link:
            link.open("hearer", clean=False)
            while (message := link.take()).payload != b"last":
                heard.append(int(message.payload))
        return heard

    def test_a_follower_takes_over(self):
        self.cluster()
        # The session is there before anything is said.
        self.mosquitto(self.north, "mosquitto_sub", "-i", "hearer", "-c", "-q", "1", "-t", "news",
                       "-E")
        publisher = Publisher([self.north.ports["mqtt"], self.south.ports["mqtt"]])
        publisher.start()
        poll(lambda: len(publisher.acknowledged) >= SENT, "messages are acknowledged", PATIENT_S)
        self.north.server.kill()
        poll(self.south.leads, "south leads", PATIENT_S)
        before = len(publisher.acknowledged)
        poll(lambda: len(publisher.acknowledged) >= before + SENT, "it goes on", PATIENT_S)
        publisher.over.set()
        publisher.join()
        heard = self.hears(self.south)
        self.assertEqual(sorted(set(publisher.acknowledged) - set(heard)), [],
                         "acknowledged and lost")
        # The old leader is back: it follows, and sends clients to the new one.
        self.north.start()
        poll(self.north.follows, "north follows", PATIENT_S)
        self.refused_and_redirected(self.north, self.south)
        # And it takes over again, asked.
        poll(lambda: self.south.cluster()["followers"] == 1, "north is close", PATIENT_S)
        self.south.command("promote", "1", "--yes")
        poll(self.north.leads, "north leads again", PATIENT_S)
        poll(self.south.follows, "south follows again", PATIENT_S)
        told = self.mosquitto(self.north, "mosquitto_pub", "-q", "1", "-t", "news", "-m", "1")
        self.assertEqual(told.returncode, 0, told.stderr)

    def refused_and_redirected(self, follower, leader):
        """What MQTT clients hear at a node that follows."""
        told = self.mosquitto(follower, "mosquitto_pub", "-q", "1", "-t", "news", "-m", "1")
        self.assertNotEqual(told.returncode, 0)
        def asked():
            with contextlib.closing(Wire(("127.0.0.1", follower.ports["moved"]), V5)) as link:
                link.send(wire.connect(V5, "a"))
                return link.read()
        # Until it has heard the leader it knows no address: then it is 0x88.
        poll(lambda: asked().code == 0x9D, "the follower has heard the leader", PATIENT_S)
        answer = asked()
        self.assertEqual((answer.kind, answer.code), (wire.CONNACK, 0x9D))
        self.assertEqual(answer.props["server_reference"],
                         f"127.0.0.1:{leader.ports['moved']}")
        self.assertEqual(follower.code("/v1/clients"), 503)

    def test_clients_of_a_leader_that_leaves_are_told_where_to_go(self):
        listen = {name: free_port() for name in ("miop", "im", "xmpp")}
        other = {name: free_port() for name in listen}
        for node, ports in ((self.north, listen), (self.south, other)):
            node.ports.update(ports)
            for name, port in ports.items():
                node.changes[f"listen.{name}"] = {
                    "address": f"127.0.0.1:{port}", "protocol": name, "redirect": "use-another"}
            node.configure()
        self.cluster()
        self.north.server.ask("PUT", "/v1/users/ann", {"password": "secret of ann"})
        moved, mqtt = (self.enterContext(contextlib.closing(Wire(
            ("127.0.0.1", self.north.ports[name]), V5))) for name in ("moved", "mqtt"))
        moved.open("moved")
        mqtt.open("mqtt")
        device, classic = (self.device(version, self.north.server, listener="miop")
                           for version in (7, 5))
        device.bind("d7")
        classic.bind("d5")
        person = im.wire.Device(("127.0.0.1", listen["im"]))
        self.addCleanup(person.close)
        person.login("ann", password=b"secret of ann")
        stream = Stream(("127.0.0.1", listen["xmpp"]))
        self.addCleanup(stream.close)
        stream.log_in("ann")
        self.north.command("promote", "2", "--yes")
        told = moved.expect(wire.DISCONNECT)
        self.assertEqual((told.code, told.props["server_reference"]),
                         (0x9D, f"127.0.0.1:{self.south.ports['moved']}"))
        told = mqtt.expect(wire.DISCONNECT)
        self.assertEqual((told.code, told.props.get("server_reference")), (0x8B, None),
                         "its listener does not say so")
        away = device.expect(miop.GO_AWAY)
        self.assertEqual(away["addr"], [f"127.0.0.1:{other['miop']}"])
        no = classic.expect(miop.BIND_ACK)
        self.assertEqual((no["r"], no["addr0"]), ("32", f"127.0.0.1:{other['miop']}"))
        kind, end = person.frame()
        self.assertEqual((kind, end.word, end.server),
                         ("end", "use_another", f"127.0.0.1:{other['im']}"))
        self.assertIn(f"<see-other-host xmlns='urn:ietf:params:xml:ns:xmpp-streams'>"
                      f"127.0.0.1:{other['xmpp']}</see-other-host>", stream.rest())
        poll(self.south.leads, "south leads", PATIENT_S)
        again = self.device(7, self.south.server, listener="miop")
        self.assertIn(again.bind("d7")["result"], (0, miop.RESUMED))

    def test_a_leader_that_is_stopped_hands_over_first(self):
        self.cluster()
        self.assertEqual(self.north.server.stop(timeout=60), 0)
        poll(self.south.leads, "south leads", PATIENT_S)
        listed = self.south.command("list")
        self.assertRegex(listed, r"(?m)^\* +2 +south +leads")
        place = ("--url", f"http://127.0.0.1:{self.south.ports['api']}", "--token", nats.TOKEN)
        poll(lambda: "leads, 0 of 1 followers" in fixture.run(
            "top", "--plain", "--count", "1", *place).stdout, "top shows it", PATIENT_S)


class Alone(Case):
    SHARED = False

    def test_a_node_without_nats_follows_and_says_so(self):
        node = nats.follower(self)
        status, told = node.api("GET", "/readyz")
        self.assertEqual(status, 503)
        self.assertIn("NATS is not connected", told["reasons"])
        self.assertEqual(node.api("GET", "/readyz?lead")[0], 503)
        status, told = node.api("GET", "/v1/devices")
        self.assertEqual((status, told["error"]["code"]), (503, "follows"))
        self.assertIn("holdline_cluster_connected 0", node.metrics())
        told = fixture.run("status", "--url", "http://%s:%d" % node.ports["api"],
                           "--token", node.token)
        self.assertEqual(told.returncode, 1)
        self.assertIn("warning nats_down: NATS is disconnected", told.stdout)
        self.assertEqual(node.stop(), 0)

    def test_a_folder_of_a_node_is_not_served_alone(self):
        node = nats.follower(self)
        node.stop()
        told = fixture.run("serve", "--data", node.data)
        self.assertEqual(told.returncode, 1)
        self.assertIn("belongs to node 1 of a cluster", told.stderr)
        plan = fixture.run("cluster", "remove", "1", "--alone", "--yes", "--data", node.data)
        self.assertEqual(plan.returncode, 0, plan.stderr)
        alone = self.start(data=node.data)
        self.assertEqual(alone.api("GET", "/readyz?lead")[0], 200)

    def test_a_node_of_no_cluster_says_which_command_is_missing(self):
        folder = self.enterContext(fixture.tempfile.TemporaryDirectory())
        told = fixture.run("serve", "--data", f"{folder}/data", env={
            "HOLDLINE_CLUSTER_NATS": "nats://127.0.0.1:1", "HOLDLINE_CLUSTER_ADVERTISE": "a"})
        self.assertEqual(told.returncode, 1)
        self.assertIn("run `holdline cluster create`", told.stderr)


if __name__ == "__main__":
    unittest.main()

"""What an operator sees of a cluster that is not as it should be, and what commands do about it."""

import contextlib
import json
import os
import socket
import struct
import time
import unittest

import fixture
from cluster import nats
from cluster.nats import PATIENT_S, Node
from cluster.test_nats import OnNats
from fixture import poll
from mqtt import wire
from mqtt.wire import V5, Wire

TABLE = "$KV.HL-holdline-TABLE"
STREAM = "HL-holdline-LOG-00-1"
# The server looks every ten seconds.
ALARM_S = 30


def say(place, subject, body):
    """Publishes to core NATS, and waits until the server has it."""
    with socket.create_connection((place.host, place.port), 5) as link:
        link.sendall(b'CONNECT {"verbose":false}\r\n'
                     + f"PUB {subject} {len(body)}\r\n".encode() + body + b"\r\nPING\r\n")
        seen = b""
        while b"PONG" not in seen:
            seen += link.recv(65536)


class Operator(OnNats):
    def alarms(self, node):
        told = node.server.ask("GET", "/v1/alarms?state=active")
        return {alarm["kind"]: alarm["text"] for alarm in told["alarms"]}

    def alarmed(self, node, kind):
        """The text of an alarm, once it is raised."""
        poll(lambda: kind in self.alarms(node), f"the alarm {kind}", ALARM_S)
        return self.alarms(node)[kind]

    def two(self, servers, **cluster):
        """North leads, south follows."""
        north = self.node(servers)
        north.command("create", "--logs", "1", "--yes")
        secret = north.secret()
        north.start()
        poll(north.leads, "it leads", PATIENT_S)
        south = self.node(servers, "south", **cluster)
        south.command("join", "--secret", "-", "--yes", stdin=secret)
        south.start()
        poll(lambda: north.cluster()["followers"] == 1, "south is close", PATIENT_S)
        return north, south

    def status(self, node):
        return fixture.run("status", "--url", f"http://127.0.0.1:{node.ports['api']}",
                           "--token", nats.TOKEN).stdout


@nats.needed
class Commands(Operator):
    def test_recover_and_remove_beside_a_live_server_are_refused(self):
        node = self.leading(self.node(self.nats()))
        for command in (("recover",), ("remove", "1", "--alone")):
            told = self.refused(node, *command)
            self.assertIn("stop it first", told)
            self.assertIn(f"process {node.server.process.pid}", told)
        self.assertTrue(node.leads())

    def test_a_folder_of_one_cluster_is_not_served_under_another_name(self):
        servers = self.nats()
        node = self.leading(self.node(servers))
        self.assertEqual(node.server.stop(timeout=60), 0)
        node.changes["cluster"]["name"] = "other"
        node.configure()
        for command in ("create", "recover"):
            self.assertIn('belongs to the cluster "holdline"', self.refused(node, command))
        told = fixture.run("serve", "--config", node.file, "--data", node.data)
        self.assertEqual(told.returncode, 1)
        self.assertIn('belongs to the cluster "holdline"', told.stderr)

    def test_a_node_that_is_away_is_shown_as_such_and_a_promotion_waits_for_it(self):
        north, south = self.two(self.nats())
        self.assertRegex(north.command("list"), r"(?m)^ +2 +south +follows")
        south.server.kill()
        poll(lambda: "away: south" in self.status(north), "status shows it", PATIENT_S)
        self.assertIn("leads, 0 of 1 followers", self.status(north))
        self.assertRegex(north.command("list"), r"(?m)^ +2 +south +away")
        self.assertRegex(self.alarmed(north, "followers"),
                         r"0 of 1 followers are close behind; away: south \(2\), silent for \d+ s")
        self.assertIn("holdline_cluster_followers_missing 1", north.server.metrics())
        told = north.told("promote", "2", "--yes")
        self.assertEqual(told.returncode, 4, told.stdout + told.stderr)
        self.assertIn("WARNING: node 2 is away", told.stdout)
        self.assertIn("it takes over when it is back", told.stdout)
        self.assertTrue(north.leads())
        south.again()
        poll(south.leads, "it leads when it is back", PATIENT_S)

    def test_a_cluster_that_is_made_at_a_folder_with_data_begins_one_stream_a_log(self):
        servers = self.nats()
        node = self.node(servers)
        addresses = node.changes["cluster"].pop("nats")
        node.start()
        self.stored(node, "before")
        self.assertEqual(node.server.stop(timeout=60), 0)
        node.changes["cluster"]["nats"] = addresses
        node.configure()
        node.command("create", "--yes")
        node.start()
        poll(node.leads, "it leads", PATIENT_S)
        self.assertTrue(self.has(node, "before"))
        self.assertEqual([it for it in servers.streams() if not it.endswith(("-1", "TABLE"))], [])
        self.assertNotIn("stream_forgot", node.server.log)


@nats.needed
class Conditions(Operator):
    def room(self, servers, max_bytes):
        """How much the stream of the log may have."""
        told = servers.ask(f"$JS.API.STREAM.INFO.{STREAM}")
        config = {**told["config"], "max_bytes": max_bytes}
        told = servers.ask(f"$JS.API.STREAM.UPDATE.{STREAM}", json.dumps(config).encode())
        self.assertNotIn("error", told)

    def test_a_nats_without_room_is_told_of_everywhere_and_goes_on_when_there_is_room(self):
        servers = self.nats()
        node = self.leading(self.node(servers))
        self.stored(node, "before")
        # The log's own count says nothing of it: NATS does.
        self.room(servers, 1)
        link = self.enterContext(contextlib.closing(Wire(("127.0.0.1", node.ports["mqtt"]), V5)))
        link.open("waits")
        link.send(wire.publish(V5, "kept/waits", "waits", qos=1, retain=True, id=1))
        node.server.logged("stream_full", PATIENT_S)
        poll(lambda: node.code("/readyz") == 503, "it is not ready", PATIENT_S)
        other = self.enterContext(contextlib.closing(Wire(("127.0.0.1", node.ports["mqtt"]), V5)))
        other.open("other")
        for retain in (True, False):
            answer = other.publish("kept/refused", "refused", qos=1, retain=retain)
            self.assertEqual(answer.code, 0x97 if retain else 0x10, "nobody subscribes")
        lasts = self.enterContext(contextlib.closing(Wire(("127.0.0.1", node.ports["mqtt"]), V5)))
        lasts.send(wire.connect(V5, "lasts", props={"session_expiry": 3600}))
        self.assertEqual(lasts.expect(wire.CONNACK).code, 0x97, "its session cannot be stored")
        warns = self.enterContext(contextlib.closing(Wire(("127.0.0.1", node.ports["mqtt"]), V5)))
        warns.send(wire.connect(V5, "warns", will=wire.Will("kept/will", b"gone")))
        self.assertEqual(warns.expect(wire.CONNACK).code, 0x97, "its will cannot be stored")
        _, told = node.server.api("GET", "/readyz")
        self.assertIn("NATS has no room", " ".join(told["reasons"]))
        self.assertIn("holdline_cluster_stream_full 1", node.server.metrics())
        self.assertIn("NATS has no room", self.alarmed(node, "stream_full"))
        self.assertIn("a stream is full", self.status(node))
        self.room(servers, 1 << 30)
        node.server.logged("stream_has_room", PATIENT_S)
        self.stored(node, "after")
        self.assertTrue(self.has(node, "waits"), "what waited is stored")
        poll(lambda: node.code("/readyz") == 200, "it is ready", PATIENT_S)

    def test_a_damaged_value_of_the_table_is_named_and_written_anew(self):
        servers = self.nats()
        node = self.leading(self.node(servers))
        self.assertIn("seq", servers.ask(f"{TABLE}.log.00", b"noise"))
        node.server.logged("table_value_repaired", PATIENT_S)
        self.stored(node, "before")
        self.assertNotIn("DAMAGED", node.command("list"))
        # Nobody runs that knows it.
        self.assertEqual(node.server.stop(timeout=60), 0)
        for key in ("log.00", "node.1"):
            servers.ask(f"{TABLE}.{key}", b"noise")
        self.assertIn("DAMAGED values of the table: log.00, node.1", node.command("list"))
        self.assertIn("damaged or missing: log.00, node.1", self.refused(node, "promote", "1"))
        node.again()
        node.server.logged("table_value_damaged", PATIENT_S)
        self.assertEqual(node.server.stop(timeout=60), 0)
        self.assertIn("write the value log.00 of the table anew", node.command("recover", "--yes"))
        node.again()
        poll(node.leads, "it leads again", PATIENT_S)
        self.assertTrue(self.has(node, "before"))
        node.server.turn_page()
        servers.ask(f"{TABLE}.cluster", b"noise")
        node.server.logged("table_value_repaired", PATIENT_S)
        self.stored(node, "after")

    def test_losses_are_remembered_until_an_operator_has_seen_them(self):
        node = self.node(self.nats())
        node.command("create", "--logs", "1", "--yes")
        with open(os.path.join(node.data, "acknowledged.lost"), "w", encoding="utf-8") as file:
            file.write("1800000000 0 10 19 10\n")
        self.assertIn("LOST: 10 acknowledged records", node.command("list"))
        node.start()
        poll(node.leads, "it leads", PATIENT_S)
        self.assertIn("holdline_cluster_acknowledged_lost_total 10", node.server.metrics())
        self.assertIn("holdline cluster lost", self.alarmed(node, "acknowledged_lost"))
        self.assertIn("10 acknowledged records LOST", self.status(node))
        self.assertRegex(node.command("lost"), r"2027-01-15T08:00:00Z +0 +10 +10-19")
        self.assertIn("10 of them seen now", node.command("lost", "--seen"))
        poll(lambda: "acknowledged_lost" not in self.alarms(node), "the alarm ends", ALARM_S)
        told = node.server.metrics()
        self.assertIn("holdline_cluster_acknowledged_lost_total 10", told, "the sum stays")
        self.assertIn("holdline_cluster_acknowledged_lost_unseen 0", told)

    def test_an_address_that_the_other_node_cannot_reach_is_told_of(self):
        wrong = "127.0.0.1:9"
        north, south = self.two(self.nats(), advertise=["127.0.0.1", f"mqtt={wrong}"])
        north.server.logged("node_unreachable", PATIENT_S)
        self.assertEqual(self.alarmed(north, "node_unreachable"),
                         f"node 1 cannot connect to south at mqtt={wrong}")
        south.server.logged("advertise_unusual", PATIENT_S)
        self.assertNotIn("node_unreachable", south.server.log, "north is reached")

    def test_clocks_that_differ_are_told_of(self):
        servers = self.nats()
        node = self.leading(self.node(servers))
        fingerprint = int(node.command("list").split()[2].rstrip(","), 16)

        def beat(skew_s):
            clock = int(time.time() + skew_s) & 0xFFFF or 1
            say(servers.places[0], "hl.holdline.beat.7", b"HB\x01\0"
                + struct.pack("<QHQHH", fingerprint, 7, 1, clock, 0))

        def beats_until_logged(skew_s, event):
            """A node that just hung compares no clocks for some seconds: one beat may not do."""
            def logs():
                beat(skew_s)
                return event in node.server.page()
            poll(logs, f"the log says {event}", PATIENT_S)

        beats_until_logged(-300, "clock_differs")
        poll(lambda: "\nholdline_cluster_clock_skew_seconds 30" in node.server.metrics()
             or "\nholdline_cluster_clock_skew_seconds 29" in node.server.metrics(),
             "the metric says so", PATIENT_S)
        beats_until_logged(0, "clock_agrees")


if __name__ == "__main__":
    unittest.main()

"""NATS that is not as a cluster needs it, and clusters that are not as they were: each has a clear
answer.
"""

import contextlib
import os
import shutil
import tempfile
import unittest

from certificates import Authority
from cluster import nats
from cluster.nats import PATIENT_S, Nats, Node
from cluster.nkeys import NKey, Operator
from fixture import Case, poll
from mqtt import wire
from mqtt.wire import V5, Wire


class OnNats(Case):
    SHARED = False

    def nats(self, **how):
        servers = Nats(**{"count": 1, **how})
        self.addCleanup(servers.close)
        return servers

    def node(self, servers, name="north", **cluster):
        return Node(self, name, servers.addresses(), changes={"cluster": cluster})

    def folder(self):
        return self.enterContext(tempfile.TemporaryDirectory(prefix="holdline-keys-"))

    def refused(self, node, *words, stdin=None):
        """What a command says that does nothing."""
        told = node.told(*words, "--yes", stdin=stdin)
        self.assertNotEqual(told.returncode, 0, told.stdout)
        return told.stdout + told.stderr

    def leading(self, node):
        node.command("create", "--logs", "1", "--yes")
        node.start()
        poll(node.leads, "it leads", PATIENT_S)
        return node

    def stored(self, node, text):
        """A retained message that the node acknowledges."""
        with contextlib.closing(Wire(("127.0.0.1", node.ports["mqtt"]), V5)) as client:
            client.open("writer")
            self.assertLess(client.publish(f"kept/{text}", text, qos=1, retain=True).code, 0x80)

    def has(self, node, text):
        with contextlib.closing(Wire(("127.0.0.1", node.ports["mqtt"]), V5)) as client:
            client.open("reader")
            client.subscribe(f"kept/{text}")
            return client.expect(wire.PUBLISH).payload.decode() == text


@nats.needed
class Servers(OnNats):
    def test_without_jetstream_there_is_no_cluster(self):
        node = self.node(self.nats(jetstream=False))
        for command in ("create", "list"):
            self.assertIn("has no JetStream", self.refused(node, command))

    def test_one_server_and_a_sync_that_is_not_told_are_warned_of(self):
        told = self.node(self.nats(sync="2m")).command("create", "--yes")
        self.assertIn("WARNING: one NATS server", told)
        self.assertIn("sync_interval: always", told)

    def test_a_nats_that_has_no_room_for_the_streams_says_so(self):
        node = self.node(self.nats(store_max="100Mb"))
        self.assertIn("storage of NATS is full", self.refused(node, "create"))

    def test_no_server_at_all(self):
        servers = self.nats()
        node = self.node(servers)
        servers.kill(0)
        self.assertRegex(self.refused(node, "create"), "NATS: ")


@nats.needed
class Logins(OnNats):
    def test_an_nkey_of_the_account_serves_and_another_is_refused(self):
        folder = self.folder()
        right, wrong = NKey(folder), NKey(folder)
        servers = self.nats(more=f"accounts {{ holdline {{ jetstream: enabled, "
                                 f"users: [ {{ nkey: {right.public} }} ] }} }}")
        files = []
        for key in (right, wrong):
            files.append(os.path.join(folder, f"{key.public}.nk"))
            with open(files[-1], "w", encoding="utf-8") as file:
                file.write(key.seed)
        self.leading(self.node(servers, nkey=files[0]))
        self.assertIn("authorization violation",
                      self.refused(self.node(servers, "south", nkey=files[1]), "list").lower())
        self.assertIn("authorization violation",
                      self.refused(self.node(servers, "south"), "list").lower())

    def test_credentials_serve_until_they_expire(self):
        operator = Operator(self.folder())
        servers = self.nats(more=operator.configuration)
        self.leading(self.node(servers, credentials=operator.credentials()))
        late = self.node(servers, "south", credentials=operator.credentials(lasts_s=-10))
        self.assertIn("authorization violation", self.refused(late, "list").lower())

    def test_a_node_whose_credentials_expire_says_so_and_acknowledges_nothing(self):
        operator = Operator(self.folder())
        servers = self.nats(more=operator.configuration)
        lasting = self.node(servers, credentials=operator.credentials(lasts_s=20))
        node = self.leading(lasting)
        node.server.logged("nats_lost", PATIENT_S)
        poll(lambda: node.code("/readyz?lead") == 503, "it is isolated", PATIENT_S)
        self.assertIn("xpired", node.server.log)

    def test_tls_with_certificates_of_both_sides(self):
        folder = self.folder()
        authority, other = Authority(folder), Authority(folder, "other")
        certificate, key = authority.issue("nats", "IP:127.0.0.1")
        own = dict(zip(("certificate", "key"), authority.issue("node")))
        servers = self.nats(scheme="tls", more=f"""
tls {{ cert_file: "{certificate}", key_file: "{key}", ca_file: "{authority.certificate}",
       verify: true }}""")
        self.leading(self.node(servers, ca=authority.certificate, **own))
        told = self.refused(self.node(servers, "south", ca=other.certificate, **own), "list")
        self.assertRegex(told.lower(), "certificate|tls")
        told = self.refused(self.node(servers, "south", ca=authority.certificate), "list")
        self.assertRegex(told.lower(), "certificate|tls|io error")


@nats.needed
class Clusters(OnNats):
    def test_a_second_cluster_of_one_name_and_a_node_of_another_secret_are_refused(self):
        servers = self.nats()
        self.leading(self.node(servers))
        self.assertIn("another cluster has this name",
                      self.refused(self.node(servers, "other"), "create", "--logs", "1"))
        told = self.refused(self.node(servers, "south"), "join", "--secret", "-",
                            stdin="ab" * 32)
        self.assertIn("fingerprint", told)

    def test_what_another_one_writes_into_the_stream_does_not_count(self):
        servers = self.nats(count=3)
        north = self.node(servers)
        north.command("create", "--logs", "1", "--yes")
        secret = north.secret()
        north.start()
        poll(north.leads, "it leads", PATIENT_S)
        south = self.node(servers, "south")
        south.command("join", "--secret", "-", "--yes", stdin=secret)
        south.start()
        poll(lambda: north.cluster()["followers"] == 1, "south is close", PATIENT_S)
        for text in ("a", "b", "c"):
            answer = servers.ask("hl.holdline.log.00.1", b"noise")
            self.assertIn("seq", answer)
            self.stored(north, text)
        north.server.kill()
        poll(south.leads, "south leads", PATIENT_S)
        for text in ("a", "b", "c"):
            self.assertTrue(self.has(south, text))

    def test_a_stream_that_is_purged_goes_on_behind_the_leader_s_disk(self):
        servers = self.nats()
        node = self.leading(self.node(servers))
        self.stored(node, "before")
        servers.ask("$JS.API.STREAM.PURGE.HL-holdline-LOG-00-1")
        self.stored(node, "after")
        node.server.kill()
        node.again()
        poll(node.leads, "it leads again", PATIENT_S)
        self.assertTrue(self.has(node, "before") and self.has(node, "after"))

    def test_a_join_while_nats_is_away_is_refused_and_one_while_a_server_is_away_goes_on(self):
        servers = self.nats(count=3)
        north = self.leading(self.node(servers))
        south = self.node(servers, "south")
        for number in range(3):
            servers.kill(number)
        self.assertIn("NATS", self.refused(south, "join", "--secret", "-",
                                           stdin=north.secret()))
        for number in range(2):
            servers.start(number)
        poll(lambda: south.told("join", "--secret", "-", "--yes",
                                stdin=north.secret()).returncode == 0, "it joins", PATIENT_S)
        south.start()
        poll(lambda: north.cluster()["followers"] == 1, "south is close", PATIENT_S)

    def test_after_nats_lost_everything_recover_goes_on_with_the_leader_s_folder(self):
        servers = self.nats()
        node = self.leading(self.node(servers))
        self.stored(node, "before")
        servers.kill(0)
        shutil.rmtree(servers.store(0))
        servers.start(0)
        node.server.logged("waits_for_recover", PATIENT_S)
        poll(lambda: not node.leads(), "it acknowledges nothing", PATIENT_S)
        self.assertEqual(node.server.stop(timeout=60), 0)
        self.assertIn("anew", node.command("recover", "--yes"))
        node.server.start()
        poll(node.leads, "it leads again", PATIENT_S)
        self.assertTrue(self.has(node, "before"))
        self.stored(node, "after")


if __name__ == "__main__":
    unittest.main()

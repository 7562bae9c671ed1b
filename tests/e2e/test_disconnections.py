"""Ended connections and slow clients: what an operator finds out afterwards, with real clients."""

import json
import shutil
import signal
import socket
import subprocess
import unittest

from fixture import BINARY, DEADLINE_S, Case, environment, poll
from xmpp.people import HEADER

PASSWORD = "correct-horse-battery-staple"
# Twenty of these are more than the kernel takes in at once for a client that does not read.
BLOCK = "x" * 50_000


class Disconnections(Case):
    CHANGES = {"listen.page": {"address": "127.0.0.1:0", "protocol": "im", "websocket": "/im"}}

    def setUp(self):
        super().setUp()
        if not shutil.which("mosquitto_sub"):
            raise unittest.SkipTest("mosquitto_sub is not installed")
        self.server.ask("PUT", "/v1/users/tills", {"password": PASSWORD})

    def mosquitto(self, program, *words):
        host, port = self.server.ports["any"]
        return [program, "-h", host, "-p", str(port), "-V", "5", "-u", "tills", *words]

    def ended(self, query):
        return self.server.ask("GET", f"/v1/disconnections?{query}")["disconnections"]

    def test_an_end_tells_who_when_why_for_how_long_and_how_many_bytes(self):
        words = self.mosquitto("mosquitto_pub", "-P", PASSWORD, "-i", "till-7", "-t", "a", "-m",
                               "hello")
        subprocess.run(words, check=True, timeout=DEADLINE_S)
        poll(lambda: self.ended("client_id=till-7"), "it is in the list")
        it, = self.ended("client_id=till-7&user=tills&protocol=mqtt&address=127.0.0.0/8")
        self.assertEqual((it["reason"], it["listener"], it["detail"]), ("unbound", "any", None))
        self.assertGreater(it["bytes_in"], len("hello"))
        self.assertGreater(it["bytes_out"], 0)
        self.assertGreaterEqual(it["connected_ms"], 0)
        self.assertEqual(self.ended("client_id=till-7&reason=peer_reset"), [])
        url = "http://{}:{}".format(*self.server.ports["api"])
        told = subprocess.run(
            [BINARY, "clients", "--url", url, "--data", self.server.data, "disconnections",
             "till-7", "--since", "1h"],
            env=environment(), capture_output=True, text=True, check=True,
            timeout=DEADLINE_S).stdout
        self.assertIn("till-7", told)
        self.assertIn("unbound", told)

    def test_a_refused_login_and_a_failed_handshake_are_in_the_list(self):
        words = self.mosquitto("mosquitto_pub", "-P", "wrong", "-i", "till-8", "-t", "a", "-m", "x")
        subprocess.run(words, timeout=DEADLINE_S, capture_output=True)
        poll(lambda: self.ended("client_id=till-8"), "it is in the list")
        it, = self.ended("client_id=till-8")
        self.assertEqual((it["reason"], it["detail"], it["connected_ms"]),
                         ("auth_failed", "bad_credentials", None))

    def test_a_browser_that_got_a_file_of_the_page_is_no_disconnection(self):
        at = self.server.ports["page"]

        def ask(path):
            with socket.create_connection(at, DEADLINE_S) as peer:
                peer.sendall(f"HEAD {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
                return peer.recv(65_536)

        self.assertTrue(ask("/chat").startswith(b"HTTP/1.1 200 "))
        # A refused request is in the list, and comes behind the file.
        self.assertTrue(ask("/nowhere").startswith(b"HTTP/1.1 404 "))
        poll(lambda: self.ended("protocol=http"), "it is in the list")
        found = [it for it in self.ended("limit=1000") if it["listener"] == "page"]
        self.assertEqual([(it["protocol"], it["reason"]) for it in found],
                         [("http", "web_socket_failed")])

    def test_pages_go_on_where_the_last_one_ended(self):
        for n in range(5):
            with socket.create_connection(self.server.ports["any"], DEADLINE_S) as peer:
                peer.sendall(HEADER.encode())
                peer.recv(4096)
        poll(lambda: len(self.ended("protocol=xmpp")) >= 5, "all are in the list")
        first = self.server.ask("GET", "/v1/disconnections?protocol=xmpp&limit=3")
        second = self.server.ask(
            "GET", f"/v1/disconnections?protocol=xmpp&limit=3&after={first['next']}")
        both = first["disconnections"] + second["disconnections"]
        self.assertEqual(len({json.dumps(it, sort_keys=True) for it in both}), len(both))
        self.assertGreaterEqual(len(both), 5)


class SlowClients(Case):
    CHANGES = {"limits": {"tcp_user_timeout_ms": 4_000}}

    def test_a_reader_that_stops_is_listed_warned_of_and_ends_as_a_slow_consumer(self):
        if not shutil.which("mosquitto_sub"):
            raise unittest.SkipTest("mosquitto_sub is not installed")
        host, port = self.server.ports["any"]
        words = ["mosquitto_sub", "-h", host, "-p", str(port), "-i", "slow", "-t", "big"]
        reader = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        self.addCleanup(reader.wait)
        self.addCleanup(reader.kill)

        def subscribed():
            clients = self.server.ask("GET", "/v1/clients?prefix=slow")["clients"]
            return any(it["subscriptions"] for it in clients)

        poll(subscribed, "it has subscribed")
        reader.send_signal(signal.SIGSTOP)

        def slow():
            # What comes goes on: a stopped reader is found by what waits for it.
            for _ in range(20):
                self.server.ask("POST", "/v1/publish", {"topic": "big", "payload": BLOCK})
            rows = self.server.ask("GET", "/v1/slow_clients")["clients"]
            return [it for it in rows if it["client_id"] == "slow" and it["socket_bytes"]]

        poll(slow, "it is in the list of slow clients")
        self.server.logged("client_slow")
        poll(lambda: self.server.ask(
            "GET", "/v1/disconnections?client_id=slow")["disconnections"], "it has ended")
        it, = self.server.ask("GET", "/v1/disconnections?client_id=slow")["disconnections"]
        self.assertEqual(it["reason"], "slow_consumer")


if __name__ == "__main__":
    unittest.main()

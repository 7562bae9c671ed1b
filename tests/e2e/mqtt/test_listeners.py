"""Listeners that a reload adds, changes and removes, with mosquitto's clients and TLS."""

import shutil
import subprocess
import tempfile
import unittest

from certificates import Authority
from fixture import run
from mqtt.broker import IS_HOLDLINE, Case, free_port, holdline_changes
from mqtt.wire import V5


@unittest.skipUnless(IS_HOLDLINE and shutil.which("mosquitto_pub"), "Holdline and mosquitto_pub")
class Listeners(Case):
    SHARED = False

    def setUp(self):
        super().setUp()
        self.broker = self.start()
        self.reader = self.opened("reader", V5, self.broker)
        self.reader.subscribe(("#", 1))

    def reload(self, changes, code=0):
        """What `holdline reload` says."""
        server = self.broker.server
        server.configure({**holdline_changes(self.broker.plan), **changes})
        url = "http://%s:%d" % server.ports["api"]
        answer = run("reload", "--url", url, "--data", server.data)
        self.assertEqual(answer.returncode, code, answer.stdout + answer.stderr)
        return answer.stdout + answer.stderr

    def publishes(self, port, payload, *options, topic="a/b"):
        """Whether mosquitto_pub gets a message through."""
        done = subprocess.run(
            ["mosquitto_pub", "-h", "127.0.0.1", "-p", str(port), "-q", "1", "-t", topic,
             "-m", payload, *options], capture_output=True, text=True, timeout=60)
        if done.returncode == 0:
            self.assertEqual(self.reader.take().payload, payload.encode())
        return done.returncode == 0

    def test_a_listener_with_tls_comes_and_goes_and_a_connection_stays(self):
        folder = tempfile.mkdtemp(prefix="holdline-listeners-")
        self.addCleanup(shutil.rmtree, folder)
        authority = Authority(folder)
        certificate, key = authority.issue("localhost", "DNS:localhost,IP:127.0.0.1")
        port, options = free_port(), ("--cafile", authority.certificate)
        self.assertFalse(self.publishes(port, "too early", *options))
        tls = {"tls": {"certificate": certificate, "key": key},
               "listen.mqtts": {"address": f"127.0.0.1:{port}", "protocol": "mqtt", "tls": True}}
        self.assertIn("[listen.mqtts]: absent -> present", self.reload(tls))
        self.assertTrue(self.publishes(port, "by TLS", *options))
        self.assertFalse(self.publishes(port, "in the clear"))
        self.publishes(self.broker.port(), "first", "-r", topic="last")
        lasting = subprocess.Popen(
            ["mosquitto_sub", "-h", "127.0.0.1", "-p", str(port), *options, "-t", "last",
             "-C", "2"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(lasting.stdout.close)
        self.addCleanup(lasting.kill)
        self.assertEqual(lasting.stdout.readline(), "first\n", "it is connected")
        self.assertIn("[listen.mqtts]: present -> absent", self.reload({"tls": tls["tls"]}))
        self.assertFalse(self.publishes(port, "too late", *options))
        self.publishes(self.broker.port(), "it stays", topic="last")
        self.assertEqual(lasting.communicate(timeout=60)[0], "it stays\n")

    def test_a_port_in_use_refuses_the_reload(self):
        theirs = self.start(mosquitto=True)
        at = f"127.0.0.1:{theirs.port()}"
        told = self.reload({"listen.more": {"address": at}, "limits": {"drain_ms": 1}}, code=1)
        self.assertIn(f"[listen.more] address = {at}", told)
        self.assertIn("in use by another program", told)
        told = self.reload({"limits": {"drain_ms": 1}})
        self.assertIn("[limits] drain_ms", told)

"""XMPP in WebSockets (RFC 7395), as @xmpp/client speaks it."""

import json
import os
import shutil
import subprocess
import tempfile
import threading
import unittest

from certificates import Authority
from fixture import Server, environment, poll
from xmpp.people import BUILT, People, together

DRIVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "web_driver.mjs")
FOLDER = os.path.join(BUILT, "xmpp-js")


class Web(People):
    SHARED = False

    @classmethod
    def setUpClass(cls):
        if not os.path.isdir(os.path.join(FOLDER, "node_modules", "@xmpp", "client")):
            raise unittest.SkipTest("@xmpp/client is not installed")
        cls.folder = tempfile.mkdtemp(prefix="holdline-e2e-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        authority = Authority(cls.folder)
        certificate, key = authority.issue("localhost", "DNS:localhost")
        cls.authority = authority.certificate
        cls.server = Server({
            "tls": {"certificate": certificate, "key": key},
            "listen.any": {"websocket": True},
            "listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"},
            "listen.web": {"address": "127.0.0.1:0", "protocol": "xmpp", "tls": True,
                           "websocket": "/xmpp-websocket"}})
        cls.addClassCleanup(cls.server.close)

    def open(self, name, peer, listener="web", password=None):
        """A person whose words are lines; what it was told."""
        url = f"wss://localhost:{self.server.ports[listener][1]}/xmpp-websocket"
        words = ["node", DRIVER, FOLDER, url, name, password or f"secret of {name}", peer]
        process = subprocess.Popen(
            words, env=environment({"NODE_EXTRA_CA_CERTS": self.authority}), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        told = []
        threading.Thread(target=self.read, args=(process.stdout, told), daemon=True).start()
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, told

    @staticmethod
    def read(pipe, told):
        for line in pipe:
            told.append(json.loads(line))
        pipe.close()

    @staticmethod
    def say(process, line):
        process.stdin.write(line + "\n")
        process.stdin.flush()

    @together
    async def test_people_in_web_sockets_and_over_tcp_talk(self):
        for listener in ("web", "any"):
            ann, told = self.open(self.ann, self.bob, listener)
            poll(lambda: told, "Ann is there")
            self.assertTrue(told[0].get("online", "").startswith(f"{self.ann}@localhost/"), told)
            bob = await self.person(self.bob, authority=self.authority).start()
            self.say(ann, "hello <&> 世界")
            heard = await bob.next()
            self.assertEqual(heard["body"], "hello <&> 世界")
            for number in range(50):
                bob.say(f"{self.ann}@localhost", f"{number} > &")
            await bob.ping()
            poll(lambda: len(told) == 51, "fifty messages came")
            self.assertEqual([it["body"] for it in told[1:]], [f"{n} > &" for n in range(50)])
            self.assertFalse(any(it["waited"] for it in told[1:]))
            with self.server.closes(unbound=1):
                self.say(ann, "/quit")
            await bob.leave()

    @together
    async def test_what_waits_comes_in_messages_of_its_own(self):
        bob = await self.person(self.bob, authority=self.authority).start()
        ann, told = self.open(self.ann, self.bob)
        poll(lambda: told, "Ann is there")
        self.say(ann, "/quit")
        ann.wait()
        placed = self.server.count("chat_distributed_total") + 200
        for number in range(100):
            bob.say(f"{self.ann}@localhost", str(number))
        await bob.ping()
        poll(lambda: self.server.count("chat_distributed_total") >= placed, "all are placed")
        _, told = self.open(self.ann, self.bob)
        poll(lambda: len(told) == 101, "what waited came")
        told.sort(key=lambda it: "online" not in it)
        self.assertEqual([it["body"] for it in told[1:]], [str(number) for number in range(100)])
        self.assertTrue(all(it["waited"] for it in told[1:]))

    def test_a_wrong_password_is_told(self):
        _, told = self.open(self.ann, self.bob, password="wrong one")
        poll(lambda: told, "an answer")
        self.assertIn("not-authorized", told[0].get("error", ""), told)


if __name__ == "__main__":
    unittest.main()

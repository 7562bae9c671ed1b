"""A log that a foreign domain has filled (a component's): nobody is shut out by it, and it says so,
also after a start."""

import http.client
import json
import socket

from fixture import DEADLINE_S
from im.page import PAGE
from xmpp.people import together
from xmpp.test_components import DOMAIN, ComponentCase

WINDOW = 40


class FullLog(ComponentCase):
    CHANGES = {**ComponentCase.CHANGES,
               "listen.mqtt": {"address": "127.0.0.1:0", "protocol": "mqtt",
                               "anonymous": "loopback"},
               "listen.im-ws": {**PAGE["listen.im-ws"]},
               "limits": {"connections_max": 200, "bind_ms_max": 5_000},
               # What keeps one domain from filling a log, and a log from being filled, is off.
               "chat": {"sends_an_account_per_s": 0, "bytes_a_domain_per_s": 0,
                        "share_a_domain_percent": 0},
               "store": {"log_bytes_max": 8 << 20, "segment_bytes": 1 << 20,
                         "gives_way_percent": 0, "check_bytes": 0}}

    def floods(self, whom, first=0):
        """Messages from made-up names until nothing more is taken, large ones and then small;
        their numbers begin behind `first`."""
        stream, name = self.by_hand(), first
        stream.until("<handshake/>")
        for size in (60_000, 50):
            refused = 0
            while refused < WINDOW:
                for _ in range(WINDOW):
                    name += 1
                    stream.say(f"<message from='n{name}@{DOMAIN}' to='{whom}@localhost' "
                               f"type='chat' id='{name}'><body>{'x' * size}</body></message>")
                stream.say(f"<iq type='get' id='ping{name}' from='n@{DOMAIN}' to='localhost'>"
                           "<ping xmlns='urn:xmpp:ping'/></iq>")
                refused = stream.until(f"ping{name}").count("type='error'")
                self.assertLess(name, first + 100_000)
        stream.close()

    def connects_by_mqtt(self):
        with socket.create_connection(self.server.ports["mqtt"], timeout=DEADLINE_S) as client:
            client.sendall(bytes([0x10, 15, 0, 4]) + b"MQTT" + bytes([4, 2, 0, 60, 0, 3]) + b"new")
            self.assertEqual(client.recv(4), bytes([0x20, 2, 0, 0]))

    def answers(self, path, listener="api"):
        link = http.client.HTTPConnection(*self.server.ports[listener], timeout=DEADLINE_S)
        self.addCleanup(link.close)
        link.request("GET", path)
        answer = link.getresponse()
        return answer.status, answer.read()

    async def comes_in(self):
        self.connects_by_mqtt()
        bob = await self.person(self.bob, "desk").start()
        # What was stored for her is read from the archive: it leaves no room behind.
        ann = await self.person(self.ann, "desk", plugins=("0313",)).start(there=False)
        page = ann.client["xep_0313"].iterate(rsm={"max": 1}, total=1)
        read = [it["mam_result"]["forwarded"]["stanza"]["body"] async for it in page]
        self.assertEqual([set(body) for body in read], [{"x"}])
        bob.client.make_message(f"{self.ann}@localhost", mtype="chat").send()
        await bob.ping()
        await ann.leave()
        await bob.leave()
        self.assertEqual(self.answers("/chat", "im-ws")[0], 200)
        status, told = self.answers("/readyz")
        told = json.loads(told)
        self.assertEqual((status, told["ready"], "full" in told["logs"]), (503, False, True), told)
        self.assertIn("is full", told["reasons"][0])
        self.assertEqual(self.answers("/readyz/connections")[0], 200)

    @together
    async def test_everybody_comes_in_and_reads_while_a_log_is_full_and_after_a_start(self):
        self.floods(self.ann)
        self.server.logged("the log or its disk is full")
        self.server.logged("a log is 70 % full")
        await self.comes_in()
        self.assertEqual(self.server.stop(), 0)
        self.server.start()
        self.floods(self.ann, 1_000_000)  # what the stop and the start have left room for
        await self.comes_in()

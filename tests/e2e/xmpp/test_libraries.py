"""Libraries of XMPP that others have written, each a person that is told by lines what to do:
stanza.js over a WebSocket, Smack (Java) over TCP with STARTTLS. The other is slixmpp.
"""

import asyncio
import os
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

from certificates import Authority
from fixture import DEADLINE_S, Server, environment
from xmpp.people import BUILT, own_name, together
from xmpp.test_people import Friend, Friends

HERE = os.path.dirname(os.path.abspath(__file__))


class Driven:
    """A person whose words are lines; what it told, in order, each line as a tuple."""

    def __init__(self, test, words, more=None):
        self.process = subprocess.Popen(words, env=environment(more), text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.told, self.seen = [], 0
        threading.Thread(target=self.read, daemon=True).start()
        for close in (self.process.wait, self.process.kill, self.process.stdin.close):
            test.addCleanup(close)

    def read(self):
        for line in self.process.stdout:
            self.told.append(tuple(line.rstrip("\n").split("\t")))
        self.process.stdout.close()

    def do(self, *words):
        self.process.stdin.write("\t".join(words) + "\n")
        self.process.stdin.flush()

    async def next(self, *kinds):
        """What it tells next of these kinds; what stands before it is passed over."""
        def found():
            while self.seen < len(self.told):
                told = self.told[self.seen]
                self.seen += 1
                assert "failed" in kinds or told[0] != "failed", told
                if told[0] in kinds:
                    return told
            assert self.process.poll() is None, self.told
            return None
        return await self.polled(found, kinds)

    async def until(self, *words):
        """Waits until it tells just this, whatever it tells before."""
        return await self.polled(lambda: words in self.told, words)

    async def polled(self, question, what):
        """Waits, and lets others of this loop go on."""
        until = time.monotonic() + DEADLINE_S
        while not (answer := question()):
            assert time.monotonic() < until, f"{what} in {self.told[-8:]}"
            await asyncio.sleep(0.02)
        return answer


class Libraries(Friends):
    SHARED = False

    @classmethod
    def setUpClass(cls):
        if not os.path.exists(os.path.join(BUILT, cls.NEEDS)):
            raise unittest.SkipTest(f"{cls.NEEDS} is not installed: IT WAS NOT TRIED")
        cls.folder = tempfile.mkdtemp(prefix="holdline-e2e-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        authority = Authority(cls.folder)
        certificate, key = authority.issue("localhost", "DNS:localhost")
        cls.authority = authority.certificate
        cls.server = Server({
            "tls": {"certificate": certificate, "key": key},
            "listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"},
            "listen.web": {"address": "127.0.0.1:0", "protocol": "xmpp", "tls": True,
                           "websocket": "/xmpp-websocket"}})
        cls.addClassCleanup(cls.server.close)

    def driven(self, name, password=None):
        raise NotImplementedError

    def two(self):
        """The jids of both: ann is driven, bob is slixmpp."""
        return f"{self.ann}@localhost", f"{self.bob}@localhost"

    async def both(self):
        ann = self.driven(self.ann)
        self.assertEqual((await ann.next("online"))[1], f"{self.ann}@localhost/desk")
        bob = Friend(self.server.ports["xmpp"][1], f"{self.bob}@localhost/desk",
                     f"secret of {self.bob}", authority=self.authority)
        self.people.append(bob)
        bob.client.register_plugin("xep_0045")
        bob.hear("groupchat_message")
        await bob.here()
        return ann, bob


class Conversations:
    """What people do with any of them."""

    @together
    async def test_people_become_contacts_see_each_other_and_talk(self):
        ann, bob = await self.both()
        ann_jid, bob_jid = self.two()
        ann.do("add", bob_jid, "Bob B.")
        await bob.until("presence_subscribe", ann_jid)
        bob.client.send_presence(pto=ann_jid, ptype="subscribed")
        bob.client.send_presence(pto=ann_jid, ptype="subscribe")
        there = await ann.next("presence")
        while not there[1].startswith(bob_jid):
            there = await ann.next("presence")
        await bob.until("presence_available", f"{ann_jid}/desk")
        ann.do("show", "away")
        await bob.until("presence_away", f"{ann_jid}/desk")
        bob.client.send_presence(pshow="dnd")
        await ann.until("presence", str(bob.client.boundjid.full), "dnd")
        ann.do("roster")
        self.assertEqual(await ann.next("contact"), ("contact", bob_jid, "Bob B.", "both"))
        self.assertEqual(await ann.next("roster"), ("roster", "1"))
        for number in range(5):
            ann.do("say", bob_jid, f"{number} <&> 世界")
            heard = await bob.next()
            self.assertEqual((heard["body"], heard["from"].bare), (f"{number} <&> 世界", ann_jid))
            bob.say(ann_jid, f"heard {number}")
            told = await ann.next("message")
            self.assertEqual(told[2], f"heard {number}")
            self.assertTrue(told[1].startswith(bob_jid))
        ann.do("archive", bob_jid)
        expected = []
        for number in range(5):
            expected += [f"{number} <&> 世界", f"heard {number}"]
        self.assertEqual([(await ann.next("archived"))[2] for _ in expected], expected)
        self.assertEqual(await ann.next("archive"), ("archive", "10"))
        ann.do("quit")
        await bob.until("presence_unavailable", f"{ann_jid}/desk")
        self.assertEqual(ann.process.wait(20), 0)

    @together
    async def test_people_talk_in_a_room(self):
        ann, bob = await self.both()
        room = f"{own_name(self, 'room')}@conference.localhost"
        self.server.ask("POST", "/v1/chat/groups",
                        {"owner": self.ann, "group": room, "members": [self.bob]})
        ann.do("join", room, self.ann)
        self.assertEqual(await ann.next("joined"), ("joined", room))
        await bob.client.plugin["xep_0045"].join_muc_wait(room, self.bob, maxstanzas=0, timeout=20)
        ann.do("tell", room, "hello, room")
        while not (heard := await bob.next("groupchat_message"))["body"]:
            pass
        self.assertEqual((heard["body"], str(heard["from"])), ("hello, room", f"{room}/{self.ann}"))
        self.assertEqual(await ann.next("room"), ("room", f"{room}/{self.ann}", "hello, room"))
        bob.client.send_message(room, "hello, ann", mtype="groupchat")
        self.assertEqual(await ann.next("room"), ("room", f"{room}/{self.bob}", "hello, ann"))

    @together
    async def test_a_wrong_password_is_told(self):
        ann = self.driven(self.ann, "wrong one")
        self.assertIn("not-authorized", str(await ann.next("failed")))


class StanzaJs(Conversations, Libraries):
    NEEDS = "xmpp-js/node_modules/stanza"

    def driven(self, name, password=None):
        port = self.server.ports["web"][1]
        words = ["node", os.path.join(HERE, "stanza_driver.mjs"), os.path.join(BUILT, "xmpp-js"),
                 f"wss://localhost:{port}/xmpp-websocket", name, password or f"secret of {name}"]
        return Driven(self, words, {"NODE_EXTRA_CA_CERTS": self.authority})


class Smack(Conversations, Libraries):
    NEEDS = "smack/classes/SmackPerson.class"

    def driven(self, name, password=None):
        path = os.pathsep.join([os.path.join(BUILT, "smack", "classes"),
                                os.path.join(BUILT, "smack", "jars", "*")])
        flags = ["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        return Driven(self, ["java", *flags, "-cp", path, "SmackPerson", self.authority,
                             str(self.server.ports["xmpp"][1]), name,
                             password or f"secret of {name}"])


if __name__ == "__main__":
    unittest.main()

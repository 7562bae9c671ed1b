"""Streams that go on after their connection (XEP-0198), with slixmpp and by hand."""

import asyncio
import base64
import hashlib
import hmac
import re
import shutil
import tempfile

from certificates import Authority
from fixture import DEADLINE_S, Server, poll
from xmpp.people import HEADER, People, together

SM = "urn:xmpp:sm:3"
BIND = "urn:ietf:params:xml:ns:xmpp-bind"


class Friends(People):
    CHANGES = {"listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"}}

    async def friends(self):
        """Two who see each other; the second may go on."""
        ann = await self.person(self.ann, "desk").start()
        bob = self.person(self.bob, "phone", plugins=["0198"])
        for kind in ("session_resumed", "sm_enabled", "sm_failed"):
            queue = bob.queues[kind] = asyncio.Queue()
            bob.client.add_event_handler(kind, queue.put_nowait)
        await bob.start()
        await bob.next("sm_enabled")
        for one, other in ((ann, self.bob), (bob, self.ann)):
            one.client.auto_authorize = True
            one.client.send_presence_subscription(f"{other}@localhost", ptype="subscribe")
        ann.queues["changed_status"] = queue = asyncio.Queue()
        ann.client.add_event_handler("changed_status", queue.put_nowait)
        seen = await ann.next("changed_status")
        while seen["from"].bare != f"{self.bob}@localhost":
            seen = await ann.next("changed_status")
        for person in (ann, bob):
            await person.ping()
        return ann, bob

    @staticmethod
    async def cut(person):
        person.client.abort()
        await person.next("disconnected")

    async def back(self, person):
        person.client.connect("127.0.0.1", person.port)
        await person.next("session_resumed")


class Resume(Friends):
    @together
    async def test_nothing_is_lost_and_none_comes_twice_when_the_connection_breaks(self):
        ann, bob = await self.friends()
        gone = asyncio.Queue()
        ann.client.add_event_handler("presence_unavailable", gone.put_nowait)
        said, heard = [], []
        for round in range(4):
            for number in range(25):
                said.append(f"{round} {number}")
                ann.say(f"{self.bob}@localhost", said[-1])
                if number == 10:
                    # Whatever is on the way then is on the way.
                    await self.cut(bob)
            await ann.ping()
            bob.say(f"{self.ann}@localhost", f"back {round}")
            await self.back(bob)
            heard += await bob.hears(len(said) - len(heard))
            self.assertEqual(heard, said)
            self.assertEqual(await ann.hears(1), [f"back {round}"])
        ann.say(f"{self.bob}@localhost", "live")
        self.assertEqual(await bob.hears(1), ["live"])
        await bob.ping()
        self.assertTrue(bob.queues["message"].empty(), "none twice")
        self.assertTrue(bob.queues["session_start"].empty(), "it was not bound anew")
        await ann.ping()
        self.assertTrue(gone.empty(), "nobody saw it go")
        self.assertEqual(self.server.count("chat_resumed_total"), 4)
        # A stream that is closed is over, at once.
        await bob.leave()
        away = await asyncio.wait_for(gone.get(), DEADLINE_S)
        self.assertEqual(away["from"].bare, f"{self.bob}@localhost")

    @together
    async def test_a_changed_password_ends_a_session_that_is_away(self):
        ann, bob = await self.friends()
        gone = asyncio.Queue()
        ann.client.add_event_handler("presence_unavailable", gone.put_nowait)
        await self.cut(bob)
        self.server.ask("PUT", f"/v1/users/{self.bob}", {"password": "another"})
        away = await asyncio.wait_for(gone.get(), DEADLINE_S)
        self.assertEqual(away["from"].full, f"{self.bob}@localhost/phone")

    def bound(self, name):
        """The same with a resource; its stream may go on under this id."""
        stream = self.logged_in(name)
        stream.say(f"<iq type='set' id='b'><bind xmlns='{BIND}'/></iq>"
                   f"<enable xmlns='{SM}' resume='true'/>")
        enabled = stream.until("max='300'/>")
        return stream, re.search("id='([0-9a-f]{48})'", enabled)[1]

    def test_a_stolen_id_is_no_use_and_the_last_who_comes_has_the_session(self):
        first, known = self.bound(self.ann)
        thief = self.logged_in(self.bob)
        refused = self.server.count("chat_resumes_refused_total")
        thief.say(f"<resume xmlns='{SM}' previd='{known}' h='0'/>")
        self.assertIn("<item-not-found", thief.until("</failed>"))
        self.assertEqual(self.server.count("chat_resumes_refused_total"), refused + 1)
        thief.say(f"<iq type='set' id='b'><bind xmlns='{BIND}'/></iq>")
        thief.until("</iq>")
        second = self.logged_in(self.ann)
        second.say(f"<resume xmlns='{SM}' previd='{known}' h='0'/>"
                   "<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>")
        self.assertIn("<conflict", first.rest())
        self.assertIn(f"previd='{known}' h='0'", second.until("<resumed ") + second.until("/>"))
        self.assertIn("id='p'", second.until("<iq ") + second.until(">"))

    def test_after_the_server_s_death_no_id_is_known_and_nothing_acknowledged_is_lost(self):
        stream, known = self.bound(self.ann)
        for number in range(20):
            stream.say(f"<message to='{self.bob}@localhost' type='chat' id='{number}'>"
                       f"<body>{number}</body></message>")
        stream.say(f"<r xmlns='{SM}'/>")
        handled = 0
        while handled < 20:
            handled = int(re.search("h='([0-9]+)'", stream.until("/>").rsplit("<", 1)[1])[1])
        self.server.kill()
        self.server.start()
        stream = self.logged_in(self.ann)
        stream.say(f"<resume xmlns='{SM}' previd='{known}' h='0'/>")
        self.assertIn(f"<failed xmlns='{SM}'><item-not-found", stream.until("</failed>"))
        bob, _ = self.bound(self.bob)
        bob.say("<presence/>")
        poll(lambda: self.server.count("chat_pulled_total") >= 20, "it is given what waited")
        told = bob.until("<body>19</body>")
        self.assertEqual(re.findall("<body>([0-9]+)</body>", told), [str(n) for n in range(20)])


class Over(Friends):
    CHANGES = {**Friends.CHANGES, "chat": {"resume_s_max": 2}}

    @together
    async def test_who_does_not_come_back_goes_and_what_it_had_not_waits(self):
        ann, bob = await self.friends()
        gone = asyncio.Queue()
        ann.client.add_event_handler("presence_unavailable", gone.put_nowait)
        await self.cut(bob)
        ann.say(f"{self.bob}@localhost", "waits")
        await ann.ping()
        away = await asyncio.wait_for(gone.get(), 2 * DEADLINE_S)
        self.assertEqual(away["from"].full, f"{self.bob}@localhost/phone")
        bob.client.connect("127.0.0.1", bob.port)
        await bob.next("sm_failed")
        await bob.next("session_start")
        bob.client.send_presence()
        self.assertEqual(await bob.hears(1), ["waits"])


class OneRoundTrip(People):
    """A client that knows how it logs in says everything at once."""

    SHARED = False

    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="holdline-e2e-tls-")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        authority = Authority(folder)
        certificate, key = authority.issue("localhost", "DNS:localhost,IP:127.0.0.1")
        cls.authority = authority.certificate
        cls.server = Server({
            "tls": {"certificate": certificate, "key": key},
            "listen.xmpps": {"address": "127.0.0.1:0", "protocol": "xmpp", "tls": True}})
        cls.addClassCleanup(cls.server.close)

    def come(self, mechanism, first, inner="", bind=True):
        """Everything in one write; the stream, and what it is told up to the end of the login."""
        stream = self.stream("xmpps", self.authority)
        agent = "<user-agent id='d4565fa7-4d72-4749-b3d3-740edbf87770'/>"
        wish = ("<bind xmlns='urn:xmpp:bind:0'><tag>test</tag><enable xmlns='urn:xmpp:carbons:2'/>"
                f"<enable xmlns='{SM}' resume='true'/></bind>") if bind else ""
        stream.say(f"{HEADER}<authenticate xmlns='urn:xmpp:sasl:2' mechanism='{mechanism}'>"
                   f"<initial-response>{base64.b64encode(first(stream)).decode()}"
                   f"</initial-response>{agent}{inner}{wish}</authenticate>"
                   "<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>")
        return stream

    def token(self, told):
        return re.search("<token [^>]* token='([0-9a-f]{64})'", told)[1]

    def shown(self, token, label=b"Initiator"):
        def first(stream):
            end_point = hashlib.sha256(stream.socket.getpeercert(True)).digest()
            mac = hmac.digest(token.encode(), label + end_point, "sha256")
            return mac if label != b"Initiator" else self.ann.encode() + b"\0" + mac
        return first

    def test_a_client_with_a_token_is_online_in_one_round_trip_and_goes_on_in_one(self):
        ask = "<request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-ENDP'/>"
        fast = "<fast xmlns='urn:xmpp:fast:0' count='1'/>"
        password = f"\0{self.ann}\0secret of {self.ann}".encode()
        stream = self.come("PLAIN", lambda _: password, ask)
        told = stream.until("id='p'")
        self.assertIn("HT-SHA-256-ENDP</mechanism>", told)
        self.assertIn(f"<authorization-identifier>{self.ann}@localhost/test~", told)
        token = self.token(told)
        # By the token, and a new one with it.
        stream = self.come("HT-SHA-256-ENDP", self.shown(token), ask + fast)
        told = stream.until("id='p'")
        known = re.search("<bound[^>]*><enabled [^>]*id='([0-9a-f]{48})'", told)[1]
        data = base64.b64decode(re.search("<additional-data>([^<]*)<", told)[1])
        self.assertEqual(data, self.shown(token, b"Responder")(stream), "the server has it, too")
        newer = self.token(told)
        # The connection breaks; it goes on with its session, by the older token.
        stream.close()
        poll(lambda: self.server.count("chat_detached_total") >= 1, "it is kept")
        resume = f"<resume xmlns='{SM}' previd='{known}' h='1'/>"
        stream = self.come("HT-SHA-256-ENDP", self.shown(token), fast + resume)
        told = stream.until("id='p'")
        self.assertIn(f"<resumed xmlns='{SM}' previd='{known}' h='1'/></success>", told)
        self.assertNotIn("<bound", told)
        # Once the newer one was used the older one is good for nothing.
        self.come("HT-SHA-256-ENDP", self.shown(newer), fast).until("id='p'")
        told = self.come("HT-SHA-256-ENDP", self.shown(token), fast).until("</failure>")
        self.assertIn("<not-authorized ", told)
        # After a start it is good, after another password not.
        self.server.kill()
        self.server.start()
        self.come("HT-SHA-256-ENDP", self.shown(newer), fast).until("id='p'")
        self.server.ask("PUT", f"/v1/users/{self.ann}", {"password": "another"})
        told = self.come("HT-SHA-256-ENDP", self.shown(newer), fast).until("</failure>")
        self.assertIn("<not-authorized ", told)

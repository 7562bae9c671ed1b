"""Streams that go on after their connection (XEP-0198), with slixmpp and by hand."""

import asyncio
import re

from fixture import DEADLINE_S, poll
from xmpp.people import HEADER, SASL, People, encoded, together

SM = "urn:xmpp:sm:3"
BIND = "urn:ietf:params:xml:ns:xmpp-bind"


class Resume(People):
    CHANGES = {"listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"},
               "chat": {"resume_s_max": 20}}

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
    async def test_who_does_not_come_back_goes_and_what_it_had_not_waits(self):
        ann, bob = await self.friends()
        gone = asyncio.Queue()
        ann.client.add_event_handler("presence_unavailable", gone.put_nowait)
        await self.cut(bob)
        ann.say(f"{self.bob}@localhost", "waits")
        await ann.ping()
        self.server.ask("POST", f"/v1/users/{self.bob}/kick", {}) if False else None
        away = await asyncio.wait_for(gone.get(), 2 * DEADLINE_S)
        self.assertEqual(away["from"].full, f"{self.bob}@localhost/phone")
        bob.client.connect("127.0.0.1", bob.port)
        await bob.next("sm_failed")
        await bob.next("session_start")
        bob.client.send_presence()
        self.assertEqual(await bob.hears(1), ["waits"])

    @together
    async def test_a_changed_password_ends_a_session_that_is_away(self):
        ann, bob = await self.friends()
        gone = asyncio.Queue()
        ann.client.add_event_handler("presence_unavailable", gone.put_nowait)
        await self.cut(bob)
        self.server.ask("PUT", f"/v1/users/{self.bob}", {"password": "another"})
        away = await asyncio.wait_for(gone.get(), DEADLINE_S)
        self.assertEqual(away["from"].full, f"{self.bob}@localhost/phone")

    def logged_in(self, name):
        """A stream by hand behind a login."""
        stream = self.stream()
        stream.say(HEADER)
        stream.until("</stream:features>")
        from xmpp.people import Scram
        scram = Scram(name, f"secret of {name}")
        stream.say(f"<auth xmlns='{SASL}' mechanism='SCRAM-SHA-256'>{scram.first}</auth>")
        challenge = re.search("<challenge[^>]*>([^<]*)", stream.until("</challenge>"))[1]
        last, _ = scram.last(challenge)
        stream.say(f"<response xmlns='{SASL}'>{last}</response>")
        stream.until("</success>")
        stream.say(HEADER)
        stream.until("</stream:features>")
        return stream

    def bound(self, name):
        """The same with a resource; its stream may go on under this id."""
        stream = self.logged_in(name)
        stream.say(f"<iq type='set' id='b'><bind xmlns='{BIND}'/></iq>"
                   f"<enable xmlns='{SM}' resume='true'/>")
        enabled = stream.until("max='20'/>")
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
        self.assertTrue(encoded("x"))

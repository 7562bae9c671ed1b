"""People who talk by XMPP, with each other and with people of IM."""

import datetime
import json
import subprocess
import threading
import unittest

from fixture import BINARY, environment, poll
from xmpp.people import People, together

NOW = datetime.timezone.utc


class Talk(People):
    CHANGES = {"listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"}}

    async def both(self):
        return await self.person(self.ann, "desk").start(), await self.person(self.bob).start()

    @together
    async def test_two_people_talk(self):
        ann, bob = await self.both()
        ann.say(f"{self.bob}@localhost", "hello <&> 世界")
        heard = await bob.next()
        self.assertEqual((heard["body"], heard["type"]), ("hello <&> 世界", "chat"))
        self.assertEqual(heard["from"].full, f"{self.ann}@localhost/desk")
        self.assertEqual(heard["to"].full, f"{self.bob}@localhost")
        self.assertEqual(str(heard["stanza_id"]["by"]), f"{self.bob}@localhost")
        self.assertEqual(len(heard["stanza_id"]["id"]), 22)
        self.assertFalse(heard["delay"]["stamp"], "it did not wait")
        bob.say(heard["from"], "hi")
        self.assertEqual(await ann.hears(1), ["hi"])
        for number in range(100):
            ann.say(f"{self.bob}@localhost", str(number))
        self.assertEqual(await bob.hears(100), [str(number) for number in range(100)])

    @together
    async def test_people_of_xmpp_and_of_im_talk(self):
        ann, _ = await self.both()
        listener = subprocess.Popen(
            [BINARY, "im", "listen", *self.flags(self.bob), "--count", "2"], env=environment(),
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(listener.wait)
        self.addCleanup(listener.kill)
        lines, notes = [], []
        for pipe, kept in ((listener.stdout, lines), (listener.stderr, notes)):
            threading.Thread(target=lambda p=pipe, k=kept: k.extend(p), daemon=True).start()
        ann.say(f"{self.bob}@localhost", "by XMPP")
        await ann.ping()
        ann.say(f"{self.bob}@localhost", "again")
        await ann.ping()
        poll(lambda: listener.poll() is not None and len(lines) == 2, "two messages arrived")
        told = [json.loads(line) for line in lines]
        self.assertEqual([(it["from"], it["text"]) for it in told],
                         [(f"{self.ann}@localhost", "by XMPP"), (f"{self.ann}@localhost", "again")])
        self.im("send", self.bob, self.ann, "by IM & back")
        heard = await ann.next()
        self.assertEqual((heard["body"], heard["type"]), ("by IM & back", "chat"))
        self.assertEqual(heard["from"].bare, f"{self.bob}@localhost")

    @together
    async def test_who_was_away_is_given_what_waits_in_order_with_its_time(self):
        ann, bob = await self.both()
        await bob.leave()
        placed = self.server.count("chat_distributed_total") + 300
        before = datetime.datetime.now(NOW) - datetime.timedelta(seconds=1)
        for number in range(150):
            ann.say(f"{self.bob}@localhost", str(number))
        await ann.ping()
        poll(lambda: self.server.count("chat_distributed_total") >= placed, "all are placed")
        after = datetime.datetime.now(NOW) + datetime.timedelta(seconds=1)
        bob = await self.person(self.bob).start()
        heard = [await bob.next() for _ in range(150)]
        self.assertEqual([it["body"] for it in heard], [str(number) for number in range(150)])
        for message in heard:
            self.assertTrue(before <= message["delay"]["stamp"] <= after, message)
            self.assertEqual(str(message["delay"]["from"]), "localhost")
        await bob.leave()
        self.server.settle()
        bob = await self.person(self.bob).start()
        ann.say(f"{self.bob}@localhost", "new")
        self.assertEqual(await bob.hears(1), ["new"], "what was given is not given again")

    @together
    async def test_people_who_acknowledge_talk_and_are_given_nothing_twice(self):
        ann, bob = [await self.person(name, plugins=["0198"]).start()
                    for name in (self.ann, self.bob)]
        for person in (ann, bob):
            self.assertIn("stream_management", person.client.features)
        for number in range(100):
            ann.say(f"{self.bob}@localhost", str(number))
            bob.say(f"{self.ann}@localhost", str(number))
        expected = [str(number) for number in range(100)]
        self.assertEqual((await ann.hears(100), await bob.hears(100)), (expected, expected))
        await bob.ping()
        await bob.leave()
        self.server.settle()
        bob = await self.person(self.bob).start()
        ann.say(f"{self.bob}@localhost", "new")
        self.assertEqual(await bob.hears(1), ["new"])
        self.assertTrue(ann.queues["stream_error"].empty())

    @together
    async def test_nothing_comes_before_presence_nor_with_a_negative_priority(self):
        ann = await self.person(self.ann).start()
        bob = await self.person(self.bob).start(there=False)
        ann.say(f"{self.bob}@localhost", "one")
        await ann.ping()
        await bob.ping()
        self.assertTrue(bob.queues["message"].empty())
        bob.client.send_presence(ppriority=-1)
        await bob.ping()
        self.assertTrue(bob.queues["message"].empty())
        bob.client.send_presence()
        self.assertEqual(await bob.hears(1), ["one"])

    @together
    async def test_all_devices_of_both_see_what_is_said(self):
        ann = await self.person(self.ann, "desk").start()
        phone = await self.person(self.ann, "phone").start()
        bobs = [await self.person(self.bob, name).start() for name in ("one", "two")]
        await phone.client.plugin["xep_0280"].enable()
        ann.say(f"{self.bob}@localhost", "to both")
        for bob in bobs:
            self.assertEqual(await bob.hears(1), ["to both"])
        carbon = (await phone.next("carbon_sent"))["carbon_sent"]
        self.assertEqual((carbon["body"], carbon["from"].full),
                         ("to both", f"{self.ann}@localhost/desk"))
        bobs[0].say(f"{self.ann}@localhost/desk", "back")
        self.assertEqual((await ann.hears(1), await phone.hears(1)), (["back"], ["back"]))

    @together
    async def test_a_newer_stream_has_the_resource(self):
        first = await self.person(self.ann, "desk").start()
        second = await self.person(self.ann, "desk").start()
        error = await first.next("stream_error")
        self.assertEqual(error["condition"], "conflict")
        await first.next("disconnected")
        await second.ping()

    @together
    async def test_who_is_not_there_is_told_by_an_error(self):
        ann = await self.person(self.ann).start()
        for to, condition in (("nobody.at.all@localhost", "service-unavailable"),
                              ("bob@b.example", "remote-server-not-found")):
            identity = ann.say(to, "hello")
            error = await ann.next("message_error")
            self.assertEqual((error["id"], error["error"]["condition"], error["from"].bare),
                             (identity, condition, to))

    @together
    async def test_a_stanza_that_is_too_long_ends_the_stream_and_a_long_one_not(self):
        ann, bob = await self.both()
        ann.say(f"{self.bob}@localhost", "x" * 250_000)
        self.assertEqual(await bob.hears(1), ["x" * 250_000])
        self.assertIn("x" * 250_000, self.im("history", self.bob, self.ann))
        ann.say(f"{self.bob}@localhost", "x" * 300_000)
        error = await ann.next("stream_error")
        self.assertEqual(error["condition"], "policy-violation")
        await ann.next("disconnected")

    @together
    async def test_who_speaks_for_another_is_let_go(self):
        ann, _ = await self.both()
        ann.say(f"{self.bob}@localhost", "x", mfrom=f"{self.bob}@localhost")
        error = await ann.next("stream_error")
        self.assertEqual(error["condition"], "invalid-from")

    @together
    async def test_the_server_says_what_it_is_and_does(self):
        ann = await self.person(self.ann).start()
        plugin = ann.client.plugin
        info = await plugin["xep_0030"].get_info("localhost")
        self.assertIn(("server", "im", None, "Holdline"), info["disco_info"]["identities"])
        self.assertIn("urn:xmpp:carbons:2", info["disco_info"]["features"])
        items = await plugin["xep_0030"].get_items("localhost")
        self.assertEqual(sorted(str(jid) for jid, *_ in items["disco_items"]["items"]),
                         ["channel.localhost", "conference.localhost", "live.localhost"])
        info = await plugin["xep_0030"].get_info(f"{self.ann}@localhost")
        self.assertIn(("account", "registered", None, None), info["disco_info"]["identities"])
        version = await plugin["xep_0092"].get_version("localhost")
        self.assertEqual(version["software_version"]["name"], "Holdline")
        told = await plugin["xep_0202"].get_entity_time("localhost")
        utc = told["entity_time"].xml.find("{urn:xmpp:time}utc").text
        away = abs(datetime.datetime.now(NOW) - datetime.datetime.fromisoformat(utc))
        self.assertLess(away, datetime.timedelta(minutes=5))
        roster = await ann.client.get_roster()
        self.assertEqual(len(roster["roster"]["items"]), 0)

    @together
    async def test_what_was_said_outlives_the_server_s_death(self):
        ann, bob = await self.both()
        await bob.leave()
        sent = self.server.count("chat_sent_total")
        ann.say(f"{self.bob}@localhost", "kept")
        await ann.ping()
        poll(lambda: self.server.count("chat_sent_total") > sent, "it is stored")
        self.server.kill()
        self.server.start()
        bob = await self.person(self.bob).start()
        self.assertEqual(await bob.hears(1), ["kept"])


if __name__ == "__main__":
    unittest.main()

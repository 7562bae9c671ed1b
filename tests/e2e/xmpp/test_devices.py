"""Devices of people who are no contacts reach each other by XMPP with slixmpp: questions and their
answers, headlines, and presence for somebody in particular."""

from xmpp.people import DEADLINE_S, slixmpp, together
from xmpp.test_people import Friends


class Devices(Friends):
    def refused(self):
        return self.assertRaises(slixmpp().exceptions.IqError)

    @together
    async def test_a_device_is_asked_what_it_is_and_answers_itself(self):
        ann = await self.friend(self.ann, "desk").here()
        bob = await self.friend(self.bob, "phone").here()
        whom = bob.client.boundjid.full
        info = await ann.client.plugin["xep_0030"].get_info(
            jid=whom, local=False, timeout=DEADLINE_S)
        identities = {(it[0], it[1]) for it in info["disco_info"]["identities"]}
        self.assertIn(("client", "bot"), identities, "the library's own")
        await ann.client.plugin["xep_0199"].send_ping(whom, timeout=DEADLINE_S)
        for nobody in (f"{bob.client.boundjid.bare}/gone", f"{self.ann}@localhost/gone",
                       "nobody.at.all@localhost/desk"):
            with self.refused() as refused:
                await ann.client.plugin["xep_0199"].send_ping(nobody, timeout=DEADLINE_S)
            self.assertEqual(refused.exception.condition, "service-unavailable", nobody)

    @together
    async def test_a_headline_is_for_whoever_is_there_and_waits_for_nobody(self):
        ann = await self.friend(self.ann).here()
        bob = await self.friend(self.bob).here()
        jid = bob.client.boundjid.bare
        ann.client.make_message(jid, "it rains", mtype="headline").send()
        told = await bob.next()
        self.assertEqual((told["type"], told["body"]), ("headline", "it rains"))
        await bob.leave()
        ann.client.make_message(jid, "it rains still", mtype="headline").send()
        ann.say(jid, "a message")
        await ann.ping()
        bob = await self.friend(self.bob).here()
        self.assertEqual((await bob.next())["body"], "a message")
        self.assertTrue(ann.queues["message_error"].empty(), "nobody is told")

    @together
    async def test_whoever_was_told_that_a_device_is_there_is_told_that_it_is_gone(self):
        ann = await self.friend(self.ann, "desk").here()
        bob = await self.friend(self.bob, "phone").here()
        own = ann.client.boundjid.full
        ann.client.send_presence(pto=bob.client.boundjid.full, pstatus="for you")
        here = await bob.comes(own)
        self.assertEqual(here["status"], "for you")
        ann.client.abort()
        await bob.until("presence_unavailable", own)

    @together
    async def test_what_is_private_reaches_the_device_that_it_is_for_and_no_other(self):
        from xml.etree import ElementTree
        ann = await self.friend(self.ann, "desk").here()
        phone = await self.friend(self.bob, "phone").here()
        desk = await self.friend(self.bob, "desk").here()
        jid = phone.client.boundjid.bare

        def say(to, text, hint):
            message = ann.client.make_message(to, text, mtype="chat")
            message.xml.append(ElementTree.fromstring(hint))
            message.send()
        private = "<private xmlns='urn:xmpp:carbons:2'/>"
        no_copy = "<no-copy xmlns='urn:xmpp:hints'/>"
        say(f"{jid}/phone", "for the phone", private)
        say(f"{jid}/desk", "for the desk", no_copy)
        await ann.ping()
        heard = await phone.next()
        self.assertEqual((heard["body"], str(heard["to"])), ("for the phone", f"{jid}/phone"))
        self.assertEqual((await desk.next())["body"], "for the desk")
        say(f"{jid}/gone", "for nobody in particular", private)
        say(jid, "for all", private)
        for device in (phone, desk):
            said = {(await device.next())["body"] for _ in range(2)}
            self.assertEqual(said, {"for nobody in particular", "for all"})
        phone.client.register_plugin("xep_0313")
        archive = phone.client["xep_0313"].iterate(with_jid=ann.client.boundjid.bare)
        kept = {it["mam_result"]["forwarded"]["stanza"]["body"] async for it in archive}
        self.assertLessEqual({"for the phone", "for the desk"}, kept, "the archive has all")

    @together
    async def test_nobody_who_is_blocked_asks_a_device(self):
        ann = await self.friend(self.ann, "desk").here()
        bob = await self.friend(self.bob, "phone").here()
        await bob.client.plugin["xep_0191"].block(ann.client.boundjid.bare, timeout=DEADLINE_S)
        ping = ann.client.plugin["xep_0199"].send_ping
        with self.refused() as refused:
            await ping(bob.client.boundjid.full, timeout=DEADLINE_S)
        self.assertEqual(refused.exception.condition, "service-unavailable")
        ping = bob.client.plugin["xep_0199"].send_ping
        with self.refused() as refused:
            await ping(ann.client.boundjid.full, timeout=DEADLINE_S)
        self.assertEqual(refused.exception.condition, "not-acceptable")

"""Push by XMPP (XEP-0357), enabled with slixmpp, for a gateway and for a device of MIOP."""

import json

from fixture import poll
from gateway import Gateway
from miop import MSG
from xmpp.people import People, slixmpp, together

PUSH = "urn:xmpp:push:0"


class Push(People):
    SHARED = False

    def setUp(self):
        self.gateway = Gateway()
        self.addCleanup(self.gateway.close)
        self.server = None
        self.server = self.own()
        super().setUp()

    def own(self):
        from fixture import Server
        server = Server({"push": self.gateway.changes(),
                         "listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"}})
        self.addCleanup(server.close)
        return server

    async def asks(self, person, verb, jid, node=None, **options):
        """A question of XEP-0357; the condition of the error, or nothing."""
        library = slixmpp()
        from slixmpp.xmlstream import ET
        iq = person.client.make_iq_set()
        asked = ET.SubElement(iq.xml, f"{{{PUSH}}}{verb}", {"jid": jid})
        if node is not None:
            asked.set("node", node)
        if options:
            form = person.client.plugin["xep_0004"].make_form(ftype="submit")
            form.add_field(var="FORM_TYPE", ftype="hidden",
                           value="http://jabber.org/protocol/pubsub#publish-options")
            for name, value in options.items():
                form.add_field(var=name, value=value)
            asked.append(form.xml)
        try:
            await iq.send(timeout=20)
        except library.exceptions.IqError as error:
            return error.condition
        return None

    @together
    async def test_a_phone_that_is_away_is_told_by_its_gateway(self):
        bob = await self.person(self.bob, plugins=("0004",)).start()
        info = await bob.client.plugin["xep_0030"].get_info(jid=f"{self.bob}@localhost")
        self.assertIn(PUSH, info["disco_info"]["features"])
        self.assertEqual(await self.asks(bob, "enable", "push.elsewhere.example", "n", app="a"),
                         "remote-server-not-found")
        self.assertEqual(await self.asks(bob, "enable", "push.localhost", "n"), "not-acceptable")
        self.assertIsNone(await self.asks(bob, "enable", "push.localhost", "bobs token",
                                          app="chat"))
        await bob.leave()
        ann = await self.person(self.ann, "desk").start()
        ann.say(f"{self.bob}@localhost", "hello <&> by XMPP")
        await ann.ping()
        told = await self.later(self.gateway.next)
        self.assertEqual((told["tokens"], told["body"], told["title"]),
                         (["bobs token"], "hello <&> by XMPP", self.ann))
        bob = await self.person(self.bob, plugins=("0004",)).start()
        self.assertIsNone(await self.asks(bob, "disable", "push.localhost"))
        await bob.leave()
        ann.say(f"{self.bob}@localhost", "nobody is told")
        await ann.ping()
        self.server.settle()
        self.assertEqual(self.server.status()["chat_pushes_owing"], 0)
        self.assertEqual(self.gateway.bodies, [])

    @together
    async def test_a_device_of_miop_is_woken_by_a_message_of_xmpp(self):
        phone = self.bound("bobs-phone")
        bob = await self.person(self.bob, plugins=("0004",)).start()
        way = {"product": "demo", "device": "bobs-phone"}
        self.assertEqual(await self.asks(bob, "enable", "push.localhost", "n", **way),
                         "not-acceptable", "the code is wanted")
        frame = phone.expect(MSG)
        code = json.loads(frame.bodies[0])["code"]
        phone.ack(frame.records[0].id)
        self.assertIsNone(await self.asks(bob, "enable", "push.localhost", "n", code=code, **way))
        await bob.leave()
        ann = await self.person(self.ann, "desk").start()
        ann.say(f"{self.bob}@localhost", "wake up")
        await ann.ping()
        told = json.loads(phone.expect(MSG).bodies[0])
        self.assertEqual((told["body"], told["sender"]), ("wake up", f"{self.ann}@localhost"))
        poll(lambda: self.server.status()["chat_pushes_owing"] == 0, "it was told")

    async def later(self, question):
        """An answer that other threads give."""
        import asyncio
        return await asyncio.get_running_loop().run_in_executor(None, question)

"""Push by XMPP (XEP-0357), enabled with slixmpp, for a gateway, for a device of MIOP, and at
services elsewhere."""

import asyncio
import json

from fixture import DEADLINE_S, poll
from gateway import Gateway
from miop import MSG
from xmpp.people import People, slixmpp, together
from xmpp.test_components import SECRET, TAIL

PUSH = "urn:xmpp:push:0"
PUBSUB = "http://jabber.org/protocol/pubsub"
OPTIONS = f"{PUBSUB}#publish-options"
FORMS = "jabber:x:data"
STANZAS = "urn:ietf:params:xml:ns:xmpp-stanzas"
SERVICE = "echo.localhost"


def fields(form):
    """The fields of a form, each with its first value."""
    all_of = form.findall(f"{{{FORMS}}}field")
    return {field.get("var"): field.find(f"{{{FORMS}}}value").text for field in all_of}


class PushService:
    """What a client has on its stream, be it a component, as a push service: what it is published
    waits in a queue; `refusal` is the condition of its error, and its type."""

    def __init__(self, client):
        slixmpp()
        from slixmpp.xmlstream.handler import Callback
        from slixmpp.xmlstream.matcher import MatchXPath
        self.client, self.told, self.refusal = client, asyncio.Queue(), None
        path = f"{{{client.default_ns}}}iq/{{{PUBSUB}}}pubsub"
        client.register_handler(Callback("push", MatchXPath(path), self.published))

    def published(self, iq):
        published = iq.xml.find(f"{{{PUBSUB}}}pubsub")
        publish = published.find(f"{{{PUBSUB}}}publish")
        form = publish.find(f".//{{{PUSH}}}notification/{{{FORMS}}}x")
        options = published.find(f"{{{PUBSUB}}}publish-options/{{{FORMS}}}x")
        self.told.put_nowait({"from": str(iq["from"]), "type": iq["type"],
                              "node": publish.get("node"), "summary": fields(form),
                              "options": None if options is None else fields(options)})
        reply = iq.reply(clear=True)
        if self.refusal:
            from slixmpp.xmlstream import ET
            condition, kind = self.refusal
            reply["type"] = "error"
            error = ET.SubElement(reply.xml, f"{{{self.client.default_ns}}}error", {"type": kind})
            ET.SubElement(error, f"{{{STANZAS}}}{condition}")
        reply.send()

    async def next(self):
        return await asyncio.wait_for(self.told.get(), DEADLINE_S)


async def asks(person, verb, jid, node=None, **options):
    """A question of XEP-0357; the condition of the error, or nothing."""
    library = slixmpp()
    from slixmpp.xmlstream import ET
    iq = person.client.make_iq_set()
    asked = ET.SubElement(iq.xml, f"{{{PUSH}}}{verb}", {"jid": jid})
    if node is not None:
        asked.set("node", node)
    if options:
        form = ET.SubElement(asked, f"{{{FORMS}}}x", {"type": "submit"})
        for name, value in {"FORM_TYPE": OPTIONS, **options}.items():
            field = ET.SubElement(form, f"{{{FORMS}}}field", {"var": name})
            ET.SubElement(field, f"{{{FORMS}}}value").text = value
    try:
        await iq.send(timeout=DEADLINE_S)
    except library.exceptions.IqError as error:
        return error.condition
    return None


async def nothing_owed(server):
    """All is told, or is given up; clients go on meanwhile."""
    loop = asyncio.get_running_loop()
    owes = lambda: server.status()["chat_pushes_owing"] > 0  # noqa: E731
    await loop.run_in_executor(None, poll, lambda: not owes(), "nobody is to be told")


class PushElsewhere(People):
    """A component beside the server is the push service of somebody's app."""

    CHANGES = {"listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"},
               "push": {"window_ms": 50, "retry_ms_min": 50, "retry_ms_max": 100,
                        "attended_ms_max": 200}}
    TAIL = TAIL
    ENV = {"HOLDLINE_COMPONENT_OTHER_SECRET": "another-secret"}

    async def service(self):
        port = self.server.ports["component"][1]
        client = slixmpp().ComponentXMPP(SERVICE, SECRET, "127.0.0.1", port)
        begun = asyncio.Queue()
        client.add_event_handler("session_start", begun.put_nowait)
        service = PushService(client)
        self.people.append(service)
        client.connect()
        await asyncio.wait_for(begun.get(), DEADLINE_S)
        return service

    @together
    async def test_a_phone_that_is_away_is_told_by_its_own_apps_service_and_of_nothing_more(self):
        service = await self.service()
        bob = await self.person(self.bob, "phone").start()
        self.assertEqual(await asks(bob, "enable", "push.elsewhere.example", "n"),
                         "remote-server-not-found")
        self.assertIsNone(await asks(bob, "enable", SERVICE, "n <1>", secret="s & t"))
        ann = await self.person(self.ann, "desk").start()
        ann.say(f"{self.bob}@localhost", "he is here")
        self.assertEqual((await bob.next())["body"], "he is here")
        await bob.ping()
        await bob.leave()
        ann.say(f"{self.bob}@localhost", "wake up, it is a secret")
        told = await service.next()
        self.assertEqual((told["from"], told["type"], told["node"]), ("localhost", "set", "n <1>"))
        self.assertEqual(told["options"], {"FORM_TYPE": OPTIONS, "secret": "s & t"})
        self.assertEqual(set(told["summary"]), {"FORM_TYPE", "message-count"})
        self.assertEqual(told["summary"]["FORM_TYPE"], "urn:xmpp:push:summary")
        await nothing_owed(self.server)
        self.assertTrue(service.told.empty(), "once")
        bob = await self.person(self.bob, "phone").start()
        self.assertIsNone(await asks(bob, "disable", SERVICE))
        await bob.leave()
        ann.say(f"{self.bob}@localhost", "nobody is told")
        await ann.ping()
        self.server.settle()
        self.assertEqual(self.server.status()["chat_pushes_owing"], 0)
        self.assertTrue(service.told.empty())

    @together
    async def test_a_session_that_waits_for_its_phone_is_told_of_and_a_lost_device_is_not(self):
        service = await self.service()
        bob = await self.person(self.bob, "phone", plugins=("0198",)).start()
        self.assertIsNone(await asks(bob, "enable", SERVICE, "n"))
        self.assertIsNone(await asks(bob, "enable", SERVICE, "other"))
        service.refusal = ("service-unavailable", "cancel")
        bob.client.abort()  # the network is gone: its session waits for it
        ann = await self.person(self.ann, "desk").start()
        ann.say(f"{self.bob}@localhost", "anybody?")
        again = [(await service.next())["node"] for _ in range(6)]
        self.assertEqual(set(again), {"n", "other"}, "it may pass: it is tried again")
        service.refusal = ("item-not-found", "cancel")
        await nothing_owed(self.server)
        while not service.told.empty():
            service.told.get_nowait()
        ann.say(f"{self.bob}@localhost", "again?")
        await ann.ping()
        self.server.settle()
        self.assertTrue(service.told.empty(), "the service does not know the device")

    @together
    async def test_it_is_told_after_a_restart_when_the_service_is_back(self):
        bob = await self.person(self.bob, "phone").start()
        self.assertIsNone(await asks(bob, "enable", SERVICE, "n"))
        await bob.leave()
        ann = await self.person(self.ann, "desk").start()
        ann.say(f"{self.bob}@localhost", "the service is away")
        loop = asyncio.get_running_loop()
        owes = lambda: self.server.status()["chat_pushes_owing"] > 0  # noqa: E731
        await loop.run_in_executor(None, poll, owes, "it is stored")
        await ann.leave()
        self.server.kill()
        self.server.start()
        service = await self.service()
        self.assertEqual((await service.next())["node"], "n")


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

    @together
    async def test_a_phone_that_is_away_is_told_by_its_gateway(self):
        bob = await self.person(self.bob, plugins=("0004",)).start()
        info = await bob.client.plugin["xep_0030"].get_info(jid=f"{self.bob}@localhost")
        self.assertIn(PUSH, info["disco_info"]["features"])
        self.assertEqual(await asks(bob, "enable", "push.elsewhere.example", "n", app="a"),
                         "remote-server-not-found")
        self.assertEqual(await asks(bob, "enable", "push.localhost", "n"), "not-acceptable")
        self.assertIsNone(await asks(bob, "enable", "push.localhost", "bobs token",
                                          app="chat"))
        await bob.leave()
        ann = await self.person(self.ann, "desk").start()
        ann.say(f"{self.bob}@localhost", "hello <&> by XMPP")
        await ann.ping()
        told = await self.later(self.gateway.next)
        self.assertEqual((told["tokens"], told["body"], told["title"]),
                         (["bobs token"], "hello <&> by XMPP", self.ann))
        bob = await self.person(self.bob, plugins=("0004",)).start()
        self.assertIsNone(await asks(bob, "disable", "push.localhost"))
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
        self.assertEqual(await asks(bob, "enable", "push.localhost", "n", **way),
                         "not-acceptable", "the code is wanted")
        frame = phone.expect(MSG)
        code = json.loads(frame.bodies[0])["code"]
        phone.ack(frame.records[0].id)
        self.assertIsNone(await asks(bob, "enable", "push.localhost", "n", code=code, **way))
        await bob.leave()
        ann = await self.person(self.ann, "desk").start()
        ann.say(f"{self.bob}@localhost", "wake up")
        await ann.ping()
        told = json.loads(phone.expect(MSG).bodies[0])
        self.assertEqual((told["body"], told["sender"]), ("wake up", f"{self.ann}@localhost"))
        poll(lambda: self.server.status()["chat_pushes_owing"] == 0, "it was told")

    async def later(self, question):
        """An answer that other threads give."""
        return await asyncio.get_running_loop().run_in_executor(None, question)

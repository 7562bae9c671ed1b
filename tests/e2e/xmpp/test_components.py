"""Components (XEP-0114): slixmpp's own speak with people of the server; and streams by hand."""

import asyncio
import hashlib

from fixture import DEADLINE_S
from xmpp.people import People, slixmpp, together
from xmpp.test_people import Friend

SECRET = "secret-of-the-echo"
OTHER_SECRET = "another-secret"
DOMAIN = "echo.localhost"
TAIL = f'''
[listen.component]
address = "127.0.0.1:0"
protocol = "xmpp-component"

[component.echo]
domain = "{DOMAIN}"
secret = "{SECRET}"

[component.other]
domain = "other.localhost"
'''
HEADER = ("<?xml version='1.0'?><stream:stream xmlns='jabber:component:accept' "
          "xmlns:stream='http://etherx.jabber.org/streams' to='{}'>")


class ComponentCase(People):
    CHANGES = {"listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"}}
    TAIL = TAIL
    ENV = {"HOLDLINE_COMPONENT_OTHER_SECRET": OTHER_SECRET}

    def by_hand(self, domain=DOMAIN, secret=SECRET):
        """A component's stream, as far as its handshake."""
        stream = self.stream("component")
        stream.say(HEADER.format(domain))
        header = stream.until(">").split("<stream:stream", 1)
        header = header[-1] if len(header) > 1 else stream.until(">")
        stream_id = header.split("id='", 1)[1].split("'", 1)[0]
        digest = hashlib.sha1((stream_id + secret).encode()).hexdigest()
        stream.say(f"<handshake>{digest}</handshake>")
        return stream

    async def echo(self):
        echo = Echo(self.server.ports["component"][1])
        self.people.append(echo)
        return await echo.start()


class Echo:
    """A component that says what it is told, and answers questions of what it is."""

    def __init__(self, port):
        self.client = client = slixmpp().ComponentXMPP(DOMAIN, SECRET, "127.0.0.1", port)
        for plugin in ("0030", "0199"):
            client.register_plugin(f"xep_{plugin}")
        client["xep_0030"].add_identity("client", "bot", "Echo")
        self.begun, self.heard, self.refused = (asyncio.Queue() for _ in range(3))
        self.queues = {}
        client.add_event_handler("session_start", self.begun.put_nowait)
        client.add_event_handler("message", self.echo)
        client.add_event_handler("message_error", self.refused.put_nowait)

    def echo(self, message):
        if message["type"] == "error":
            return  # it has the body of what it answers
        self.heard.put_nowait(message)
        if message["body"]:
            reply = self.client.make_message(
                message["from"], f"echo: {message['body']}", mtype="chat",
                mfrom=f"bot@{DOMAIN}/one")
            reply.send()

    def listens(self):
        """What it is told of presence waits for the test, and it says nothing of it by itself."""
        self.client.auto_authorize = self.client.auto_subscribe = None
        self.client.del_event_handler("presence_probe", self.client._handle_probe)
        for kind in ("presence_subscribe", "presence_available", "presence_unavailable",
                     "disconnected"):
            self.queues[kind] = queue = asyncio.Queue()
            self.client.add_event_handler(kind, queue.put_nowait)

    async def until(self, kind, whom):
        while True:
            stanza = await asyncio.wait_for(self.queues[kind].get(), DEADLINE_S)
            if str(stanza["to"]).startswith(whom):
                return stanza

    async def start(self):
        self.client.connect()
        await asyncio.wait_for(self.begun.get(), DEADLINE_S)
        return self


class Components(ComponentCase):
    @together
    async def test_people_speak_with_a_component_and_it_with_them(self):
        echo = await self.echo()
        ann = await self.person(self.ann, "desk").start()
        ann.say(f"bot@{DOMAIN}", "hello")
        heard = await asyncio.wait_for(echo.heard.get(), DEADLINE_S)
        self.assertEqual((heard["body"], str(heard["from"])),
                         ("hello", f"{self.ann}@localhost/desk"))
        answer = await ann.next()
        self.assertEqual((answer["body"], str(answer["from"])),
                         ("echo: hello", f"bot@{DOMAIN}/one"))
        await ann.leave()
        # What is said while she is away waits for her, as anybody's would.
        echo.client.send_message(f"{self.ann}@localhost", "later", mtype="chat",
                                 mfrom=f"bot@{DOMAIN}/one")
        ann = await self.person(self.ann, "desk").start()
        self.assertEqual(await ann.hears(1), ["later"])

    @together
    async def test_questions_pass_both_ways_and_the_domain_lists_its_components(self):
        echo = await self.echo()
        ann = await self.person(self.ann, "desk").start()
        disco = ann.client.plugin["xep_0030"]
        items = await disco.get_items("localhost", timeout=DEADLINE_S)
        listed = {item[0] for item in items["disco_items"]["items"]}
        self.assertLessEqual({DOMAIN, "other.localhost", "conference.localhost"}, listed)
        info = await disco.get_info(DOMAIN, timeout=DEADLINE_S)
        self.assertIn(("client", "bot", None, "Echo"), info["disco_info"]["identities"])
        jid = str(ann.client.boundjid)
        info = await echo.client["xep_0030"].get_info(jid, ifrom=f"bot@{DOMAIN}",
                                                      timeout=DEADLINE_S)
        self.assertIn("urn:xmpp:ping", info["disco_info"]["features"])
        # The library does not find the conditions of errors in the namespace of components.
        with self.assertRaises(slixmpp().exceptions.IqError) as refused:
            await echo.client["xep_0030"].get_info(f"{self.ann}@localhost/nowhere",
                                                   ifrom=f"bot@{DOMAIN}", timeout=DEADLINE_S)
        error = refused.exception.iq.xml.find(
            ".//{urn:ietf:params:xml:ns:xmpp-stanzas}service-unavailable")
        self.assertIsNotNone(error)
        pong = await echo.client["xep_0199"].ping("localhost", ifrom=f"bot@{DOMAIN}",
                                                  timeout=DEADLINE_S)
        self.assertGreaterEqual(pong, 0)

    @together
    async def test_the_domain_of_a_component_is_a_contact_and_shows_that_it_is_there(self):
        echo = await self.echo()
        asked = asyncio.Queue()
        echo.client.auto_authorize = echo.client.auto_subscribe = None
        # A component of this library forgets whom it lets see it, and would say so when it is asked.
        echo.client.del_event_handler("presence_probe", echo.client._handle_probe)
        echo.client.add_event_handler("presence_subscribe", asked.put_nowait)
        ann = Friend(self.server.ports["xmpp"][1], f"{self.ann}@localhost/desk",
                     f"secret of {self.ann}")
        self.people.append(ann)
        await ann.here()
        await ann.client.update_roster(DOMAIN, name="Echo", groups=["gateways"],
                                       timeout=DEADLINE_S)
        ann.presence(DOMAIN, "subscribe")
        wish = await asyncio.wait_for(asked.get(), DEADLINE_S)
        self.assertEqual((str(wish["from"]), str(wish["to"])), (f"{self.ann}@localhost", DOMAIN))
        echo.client.send_presence(pto=f"{self.ann}@localhost", pfrom=DOMAIN, ptype="subscribed")
        await ann.until("presence_subscribed", DOMAIN)
        echo.client.send_presence(pto=f"{self.ann}@localhost", pfrom=DOMAIN, pshow="away",
                                  pstatus="logged in")
        seen = await ann.until("presence_away", DOMAIN)
        self.assertEqual((str(seen["from"]), seen["status"]), (DOMAIN, "logged in"))
        echo.client.send_presence(pto=f"{self.ann}@localhost", pfrom=DOMAIN, ptype="unavailable")
        await ann.until("presence_unavailable", DOMAIN)
        await ann.client.get_roster(timeout=DEADLINE_S)
        item = ann.client.client_roster[DOMAIN]
        self.assertEqual((item["name"], item["groups"], item["subscription"]),
                         ("Echo", ["gateways"], "to"))

    @together
    async def test_who_speaks_to_a_component_that_is_away_is_told_so(self):
        ann = await self.person(self.ann, "desk").start()
        ann.say("bot@other.localhost", "anybody?")
        error = await ann.next("message_error")
        self.assertEqual(error["error"]["condition"], "service-unavailable")
        with self.assertRaises(slixmpp().exceptions.IqError) as refused:
            await ann.client.plugin["xep_0030"].get_info("other.localhost", timeout=DEADLINE_S)
        self.assertEqual(refused.exception.condition, "service-unavailable")
        ann.say("bob@nowhere.example", "anybody?")
        error = await ann.next("message_error")
        self.assertEqual(error["error"]["condition"], "remote-server-not-found")


class BlockedDomain(ComponentCase):
    async def friends(self):
        """Ann and the bot of a component that does nothing by itself see each other."""
        echo, ann = await self.echo(), await self.friend()
        echo.listens()
        bot, hers = f"bot@{DOMAIN}", f"{self.ann}@localhost"
        ann.presence(bot, "subscribe")
        await echo.until("presence_subscribe", bot)
        echo.client.send_presence(pto=hers, pfrom=bot, ptype="subscribed")
        await ann.until("presence_subscribed", bot)
        echo.client.send_presence(pto=hers, pfrom=bot, ptype="subscribe")
        await ann.until("presence_subscribe", bot)
        ann.presence(bot, "subscribed")
        await echo.until("presence_available", bot)
        echo.client.send_presence(pto=hers, pfrom=f"{bot}/one")
        await ann.comes(bot)
        return echo, ann

    async def friend(self):
        ann = Friend(self.server.ports["xmpp"][1], f"{self.ann}@localhost/desk",
                     f"secret of {self.ann}")
        self.people.append(ann)
        return await ann.here()

    async def passes_nothing(self, echo, ann):
        """Whoever is of the blocked domain is nobody to her, and she says nothing to it."""
        for whose in (f"bot@{DOMAIN}/one", f"x@{DOMAIN}", DOMAIN):
            to = f"{self.ann}@localhost" + ("/desk" if whose == DOMAIN else "")
            echo.client.send_message(to, "spam", mtype="chat", mfrom=whose)
            error = await asyncio.wait_for(echo.refused.get(), DEADLINE_S)
            self.assertIsNotNone(error.xml.find(
                ".//{urn:ietf:params:xml:ns:xmpp-stanzas}service-unavailable"), whose)
        ann.say(f"bot@{DOMAIN}", "hello")
        error = await ann.next("message_error")
        self.assertEqual(error["error"]["condition"], "not-acceptable")
        self.assertIsNotNone(error.xml.find(".//{urn:xmpp:blocking:errors}blocked"))
        with self.assertRaises(slixmpp().exceptions.IqError) as refused:
            await ann.client.plugin["xep_0030"].get_info(DOMAIN, timeout=DEADLINE_S)
        self.assertEqual(refused.exception.condition, "not-acceptable")
        await ann.ping()
        self.assertTrue(ann.queues["message"].empty() and echo.heard.empty())

    @together
    async def test_a_whole_domain_is_blocked_over_a_restart_until_it_is_so_no_longer(self):
        echo, ann = await self.friends()
        bot = f"bot@{DOMAIN}"
        await ann.client.plugin["xep_0191"].block(DOMAIN, timeout=DEADLINE_S)
        await ann.until("presence_unavailable", bot)
        await echo.until("presence_unavailable", bot)
        await self.passes_nothing(echo, ann)
        self.server.kill()
        for one in (ann, echo):
            await asyncio.wait_for(one.queues["disconnected"].get(), DEADLINE_S)
            one.client.abort()
        self.server.start()
        # Before anybody of her account is here.
        echo = await self.echo()
        echo.listens()
        echo.client.send_message(f"{self.ann}@localhost", "spam", mtype="chat", mfrom=bot)
        await asyncio.wait_for(echo.refused.get(), DEADLINE_S)
        ann = await self.friend()
        blocked = await ann.client.plugin["xep_0191"].get_blocked(timeout=DEADLINE_S)
        items = blocked.xml.iter("{urn:xmpp:blocking}item")
        self.assertEqual([item.get("jid") for item in items], [DOMAIN])
        await self.passes_nothing(echo, ann)
        self.assertTrue(echo.queues["presence_available"].empty(), "she came unseen")
        # All who are blocked.
        unblock = ann.client.make_iq_set()
        unblock.enable("unblock")
        await unblock.send(timeout=DEADLINE_S)
        await echo.until("presence_available", bot)
        ann.say(bot, "and now?")
        self.assertEqual((await ann.next())["body"], "echo: and now?")


class ComponentStreams(ComponentCase):
    def test_a_component_shows_its_secret_which_may_come_by_the_environment(self):
        stream = self.by_hand("other.localhost", OTHER_SECRET)
        self.assertIn("<handshake/>", stream.until("<handshake/>"))

    def test_a_wrong_secret_and_an_unknown_domain_end_the_stream(self):
        self.assertIn("not-authorized", self.by_hand(secret="wrong").rest())
        stream = self.stream("component")
        stream.say(HEADER.format("unknown.localhost"))
        self.assertIn("host-unknown", stream.rest())

    def test_nothing_is_heard_of_who_has_shown_nothing(self):
        stream = self.stream("component")
        stream.say(HEADER.format(DOMAIN) + f"<message from='x@{DOMAIN}' to='a@localhost'/>")
        self.assertIn("not-authorized", stream.rest())

    def test_a_component_speaks_in_the_name_of_its_own_domain_alone(self):
        for name in ("x@localhost", "x@other.localhost", "localhost"):
            stream = self.by_hand()
            stream.until("<handshake/>")
            stream.say(f"<message from='{name}' to='{self.ann}@localhost'><body>forged</body>"
                       "</message>")
            self.assertIn("invalid-from", stream.rest(), name)

    def test_a_newer_stream_of_a_component_takes_the_place_of_the_older(self):
        older = self.by_hand()
        older.until("<handshake/>")
        newer = self.by_hand()
        newer.until("<handshake/>")
        self.assertIn("</stream:stream>", older.rest())
        newer.say(f"<iq type='get' id='1' from='{DOMAIN}' to='localhost'>"
                  "<ping xmlns='urn:xmpp:ping'/></iq>")
        self.assertIn("type='result'", newer.until("</iq>"))

"""Two servers speak with each other (RFC 6120, XEP-0220): people of both, by slixmpp."""

import asyncio
import re
import shutil
import signal
import socket
import ssl
import tempfile
import threading

from certificates import Authority
from fixture import DEADLINE_S, Case, Server, poll
from mqtt.broker import free_port
from xmpp.people import Stream, own_name, slixmpp, together
from xmpp.test_people import Friend

HEADER = ("<?xml version='1.0'?><stream:stream xmlns='jabber:server' version='1.0' "
          "xmlns:db='jabber:server:dialback' xmlns:stream='http://etherx.jabber.org/streams' "
          "from='{}' to='{}' id='1'>")


def changes(domain, port, hosts, **federation):
    """The configuration of the server of a domain, which finds others at these places."""
    return {
        "chat": {"domain": domain},
        "listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"},
        "listen.servers": {"address": f"127.0.0.1:{port}", "protocol": "xmpp-server"},
        "federation": {"enabled": True, "hosts": hosts, "require_tls": False,
                       "deny": ["denied.example"], **federation},
    }


def certified(how, authority, certificate, key):
    """The same server shows its certificate, and asks for those of others."""
    own = {"certificate": certificate, "key": key}
    how["federation"] |= {"ca": authority.certificate, **own}
    how["listen.servers"] |= {"client_ca": authority.certificate,
                              "client_certificates": "optional", **own}


class Neighbour(Friend):
    """A device at one of two servers."""

    def __init__(self, port, jid, password):
        super().__init__(port, jid, password)
        self.hear("groupchat_message")

    async def ping(self):
        await self.client.plugin["xep_0199"].send_ping(self.client.boundjid.domain,
                                                       timeout=DEADLINE_S)


class Pair(Case):
    """Two servers, of a.example and b.example."""

    FEDERATION, SHARED = {}, False

    @classmethod
    def setUpClass(cls):
        slixmpp()
        ports = cls.ports = {"a.example": free_port(), "b.example": free_port()}
        hosts = [f"{domain}=127.0.0.1:{port}" for domain, port in ports.items()]
        hosts.append(f"silent.example=127.0.0.1:{cls.silent()}")
        hosts.append(f"closed.example=127.0.0.1:{free_port()}")
        cls.server = None
        cls.pair = {}
        for domain, port in ports.items():
            server = Server(cls.of(domain, port, hosts))
            cls.pair[domain] = server
            cls.addClassCleanup(server.close)

    @classmethod
    def of(cls, domain, port, hosts):
        return changes(domain, port, hosts, **cls.FEDERATION)

    @classmethod
    def silent(cls):
        """The port of a server that takes calls and says nothing."""
        server = socket.create_server(("127.0.0.1", 0))
        cls.addClassCleanup(server.close)
        return server.getsockname()[1]

    def setUp(self):
        super().setUp()
        self.servers = list(self.pair.values())
        self.people = []

    def friend(self, name, domain, resource="desk"):
        server = self.pair[domain]
        name = own_name(self, name)
        server.ask("PUT", f"/v1/users/{name}", {"password": f"secret of {name}"})
        friend = Neighbour(server.ports["xmpp"][1], f"{name}@{domain}/{resource}", f"secret of {name}")
        friend.jid = f"{name}@{domain}"
        self.people.append(friend)
        return friend

    def stream(self, address):
        stream = Stream(address)
        self.addCleanup(stream.close)
        return stream

    def stranger(self, by, to="b.example"):
        """A stream of who says that it is a domain, and what it was offered."""
        stream = self.stream(("127.0.0.1", self.ports[to]))
        stream.say(HEADER.format(by, to))
        return stream, stream.until("</stream:features>")

    async def two(self):
        ann, bob = self.friend("ann", "a.example"), self.friend("bob", "b.example")
        return await ann.here(), await bob.here()


class Federation(Pair):
    @together
    async def test_people_of_two_servers_speak_and_it_stays_with_both(self):
        ann, bob = await self.two()
        ann.say(bob.jid, "hello")
        heard = await bob.next()
        self.assertEqual((heard["body"], str(heard["from"])), ("hello", f"{ann.jid}/desk"))
        bob.say(ann.jid, "hello yourself")
        self.assertEqual((await ann.next())["body"], "hello yourself")
        for one, other in ((ann, bob), (bob, ann)):
            one.client.register_plugin("xep_0313")
            archive = one.client["xep_0313"].iterate(with_jid=other.jid)
            said = [it["mam_result"]["forwarded"]["stanza"]["body"] async for it in archive]
            self.assertEqual(said, ["hello", "hello yourself"])

    @together
    async def test_what_is_said_to_somebody_who_is_away_waits_there(self):
        ann, bob = await self.two()
        await bob.leave()
        for number in range(20):
            ann.say(bob.jid, f"{number}")
        await ann.ping()
        bob = await self.friend("bob", "b.example").here()
        self.assertEqual(await bob.hears(20), [str(number) for number in range(20)])

    @together
    async def test_people_of_two_servers_become_contacts_and_part(self):
        ann, bob = await self.two()
        ann.presence(bob.jid, "subscribe", "it is me")
        wish = await bob.until("presence_subscribe", ann.jid)
        self.assertEqual(wish["status"], "it is me")
        bob.presence(ann.jid, "subscribed")
        await ann.until("presence_subscribed", bob.jid)
        await ann.comes(f"{bob.jid}/desk")
        bob.presence(ann.jid, "subscribe")
        await ann.until("presence_subscribe", bob.jid)
        ann.presence(bob.jid, "subscribed")
        await bob.comes(f"{ann.jid}/desk")
        bob.client.send_presence(pshow="away", pstatus="soon back")
        away = await ann.until("presence_away", bob.jid)
        self.assertEqual(away["status"], "soon back")
        await bob.leave()
        await ann.until("presence_unavailable", f"{bob.jid}/desk")
        # Who comes back is told who is there, by the other's server.
        bob = await self.friend("bob", "b.example").here()
        await bob.comes(f"{ann.jid}/desk")
        await ann.comes(f"{bob.jid}/desk")
        bob.presence(ann.jid, "unsubscribed")
        await ann.until("presence_unsubscribed", bob.jid)
        ann.presence(bob.jid, "unsubscribed")
        await bob.until("presence_unsubscribed", ann.jid)

    @together
    async def test_questions_reach_devices_and_domains_elsewhere(self):
        ann, bob = await self.two()
        disco, pings = (ann.client.plugin[f"xep_{number}"] for number in ("0030", "0199"))
        jid = f"{bob.jid}/desk"
        info = await disco.get_info(jid, timeout=DEADLINE_S)
        self.assertIn("urn:xmpp:ping", info["disco_info"]["features"])
        await pings.send_ping(jid, timeout=DEADLINE_S)
        await pings.send_ping("b.example", timeout=DEADLINE_S)
        items = await disco.get_items("b.example", timeout=DEADLINE_S)
        listed = {item[0] for item in items["disco_items"]["items"]}
        self.assertIn("conference.b.example", listed)
        for whom in (f"{bob.jid}/nowhere", f"nobody.{bob.jid}", bob.jid):
            with self.assertRaises(slixmpp().exceptions.IqError, msg=whom) as refused:
                await pings.send_ping(whom, timeout=DEADLINE_S)
            self.assertEqual(refused.exception.condition, "service-unavailable")

    @together
    async def test_what_cannot_be_delivered_elsewhere_comes_back(self):
        ann, bob = await self.two()
        for whom, condition in ((f"nobody.{bob.jid}", "service-unavailable"),
                                ("x@closed.example", "remote-server-timeout"),
                                ("x@denied.example", "remote-server-not-found")):
            said = ann.say(whom, "anybody?")
            error = await ann.next("message_error")
            self.assertEqual((error["error"]["condition"], error["id"]), (condition, said), whom)

    @together
    async def test_who_is_blocked_is_not_heard(self):
        ann, bob = await self.two()
        await bob.client.plugin["xep_0191"].block(ann.jid, timeout=DEADLINE_S)
        ann.say(bob.jid, "can you hear me?")
        error = await ann.next("message_error")
        self.assertEqual(error["error"]["condition"], "service-unavailable")
        await bob.client.plugin["xep_0191"].unblock(ann.jid, timeout=DEADLINE_S)
        ann.say(bob.jid, "and now?")
        self.assertEqual(await bob.hears(1), ["and now?"])

    async def sees_each_other(self, ann, bob):
        for one, other in ((ann, bob), (bob, ann)):
            one.presence(other.jid, "subscribe")
            await other.until("presence_subscribe", one.jid)
            other.presence(one.jid, "subscribed")
            await one.until("presence_subscribed", other.jid)
            await one.comes(f"{other.jid}/desk")

    @together
    async def test_nobody_of_a_blocked_domain_is_heard_or_told_until_it_is_so_no_longer(self):
        ann, bob = await self.two()
        carol = await self.friend("carol", "a.example").here()
        await self.sees_each_other(ann, bob)
        blocking = bob.client.plugin["xep_0191"]
        await blocking.block("a.example", timeout=DEADLINE_S)
        await ann.until("presence_unavailable", bob.jid)
        blocked = await blocking.get_blocked(timeout=DEADLINE_S)
        items = blocked.xml.iter("{urn:xmpp:blocking}item")
        self.assertEqual([item.get("jid") for item in items], ["a.example"])
        # A contact and a stranger: what they say and ask is as of somebody whom there is not.
        ann.client.send_presence(pshow="away")
        carol.presence(bob.jid, "subscribe", "let me in")
        for one in (ann, carol):
            said = one.say(bob.jid, "can you hear me?")
            error = await one.next("message_error")
            self.assertEqual((error["error"]["condition"], error["id"]),
                             ("service-unavailable", said))
            with self.assertRaises(slixmpp().exceptions.IqError) as refused:
                await one.client.plugin["xep_0199"].send_ping(f"{bob.jid}/desk",
                                                              timeout=DEADLINE_S)
            self.assertEqual(refused.exception.condition, "service-unavailable")
        # What he says goes to nobody there.
        for jid in (ann.jid, carol.jid, "a.example"):
            bob.say(jid, "hello")
            error = await bob.next("message_error")
            self.assertEqual(error["error"]["condition"], "not-acceptable", jid)
            self.assertIsNotNone(error.xml.find(".//{urn:xmpp:blocking:errors}blocked"), jid)
        await bob.ping()
        for kind in ("message", "presence_away", "presence_subscribe"):
            self.assertTrue(bob.queues[kind].empty(), kind)
        for kind in ("presence_xa", "presence_dnd"):
            ann.hear(kind)
        bob.client.send_presence(pshow="xa")
        bob.client.send_presence(pshow="dnd")
        await bob.ping()
        await blocking.unblock("a.example", timeout=DEADLINE_S)
        # Both are told how the other is there by now.
        await bob.until("presence_away", f"{ann.jid}/desk")
        await ann.until("presence_dnd", f"{bob.jid}/desk")
        self.assertTrue(ann.queues["presence_xa"].empty(), "he was seen while she was blocked")
        for one in (ann, carol):
            one.say(bob.jid, "and now?")
            heard = await bob.next()
            self.assertEqual((heard["body"], heard["from"].bare), ("and now?", one.jid))
            bob.say(one.jid, "now I can")
            self.assertEqual(await one.hears(1), ["now I can"])
        for one in (ann, carol):
            self.assertTrue(one.queues["message"].empty(), "nothing of before")

    @together
    async def test_what_somebody_does_who_types_passes_and_stays_nowhere(self):
        ann, bob = await self.two()
        state = ann.client.make_message(f"{bob.jid}/desk", mtype="chat")
        state.xml.append(slixmpp().xmlstream.ET.Element(
            "{http://jabber.org/protocol/chatstates}composing"))
        told = asyncio.Queue()
        bob.client.register_handler(slixmpp().xmlstream.handler.Callback(
            "all", slixmpp().xmlstream.matcher.MatchXPath("{jabber:client}message"),
            told.put_nowait))
        state.send()
        message = await asyncio.wait_for(told.get(), DEADLINE_S)
        self.assertIsNotNone(message.xml.find(
            "{http://jabber.org/protocol/chatstates}composing"))
        self.assertEqual(str(message["from"]), f"{ann.jid}/desk")

    @together
    async def test_a_server_that_is_started_again_is_found_again(self):
        ann, bob = await self.two()
        ann.say(bob.jid, "before")
        self.assertEqual(await bob.hears(1), ["before"])
        other = self.pair["b.example"]
        other.stop()
        other.start()
        bob = await self.friend("bob", "b.example").here()
        ann.say(bob.jid, "after")
        self.assertEqual(await bob.hears(1), ["after"])


class Patience(Pair):
    """What becomes of what is said to servers that do not answer."""

    FEDERATION = {"begin_ms_max": 1_000, "waiting_ms_max": 20_000, "waiting_max": 3}

    @together
    async def test_a_server_that_takes_calls_and_says_nothing_is_given_up(self):
        ann = await self.friend("ann", "a.example").here()
        sent = [ann.say("x@silent.example", f"{number}") for number in range(5)]
        told = [await ann.next("message_error") for _ in sent]
        conditions = [error["error"]["condition"] for error in told]
        self.assertEqual(sorted(error["id"] for error in told), sorted(sent))
        self.assertEqual((conditions.count("resource-constraint"),
                          conditions.count("remote-server-timeout")), (2, 3), conditions)
        # For a while nobody calls there again.
        ann.say("x@silent.example", "still?")
        error = await ann.next("message_error")
        self.assertEqual(error["error"]["condition"], "remote-server-timeout")
        self.assertEqual(self.pair["a.example"].count("chat_foreign_dropped_total"), 2)


class Dying(Pair):
    """What a server had under way when it died; of another it hears nothing meanwhile."""

    FEDERATION = {"begin_ms_max": 300_000, "waiting_ms_max": 300_000, "pause_ms": 500}
    TELLS = {"server": {"log": "debug"}}

    @classmethod
    def silent(cls):
        cls.silence = socket.create_server(("127.0.0.1", 0))
        return cls.silence.getsockname()[1]

    @classmethod
    def of(cls, domain, port, hosts):
        cls.hosts = hosts
        return super().of(domain, port, hosts) | cls.TELLS

    def has_queued(self, count):
        """So many messages stand in the queue of a.example."""
        own = self.pair["a.example"]
        said = f"\nholdline_chat_queued_out {count}\n"
        poll(lambda: said in own.metrics(), f"{count} are queued")
        return own

    def dies_with(self, count, **federation):
        """The server of a.example dies with so many messages in its queue, to start so."""
        own = self.has_queued(count)
        own.kill()
        federation = {**self.FEDERATION, **federation}
        own.configure(changes("a.example", self.ports["a.example"], self.hosts, **federation)
                      | self.TELLS)
        own.turn_page()
        return own

    @together
    async def test_the_sender_hears_when_what_a_start_has_found_is_refused(self):
        ann = await self.friend("ann", "a.example").here()
        said = [ann.say("x@silent.example", f"{number}") for number in range(2)]
        await ann.ping()
        own = self.dies_with(2, waiting_ms_max=10_000)
        # Who was being called is there no more.
        self.silence.close()
        own.start()
        own.logged("another server was not reached")
        # Her client names itself anew.
        ann = await self.friend("ann", "a.example", "phone").here()
        for sent in said:
            error = await ann.next("message_error")
            self.assertEqual((error["error"]["condition"], error["id"], str(error["from"])),
                             ("remote-server-timeout", sent, "x@silent.example"))
        self.has_queued(0)

    @together
    async def test_what_a_start_has_found_goes_out_once_its_server_is_reached_again(self):
        ann, bob = await self.two()
        ann.say(bob.jid, "there?")
        self.assertEqual(await bob.hears(1), ["there?"])
        self.has_queued(0)
        carol, other = self.friend("carol", "b.example"), self.pair["b.example"]
        other.signal(signal.SIGSTOP)
        said = [f"{number}" for number in range(5)]
        for text in said:
            ann.say(carol.jid, text)
        await ann.ping()
        own = self.dies_with(len(said))
        other.kill()
        own.start()
        own.logged("another server was not reached")
        other.start()
        carol = await self.friend("carol", "b.example").here()
        self.assertEqual(await carol.hears(len(said)), said)
        self.has_queued(0)


class Authoritative:
    """The server of a domain, as far as it says that keys are right."""

    def __init__(self, domain):
        self.domain = domain
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                link, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(link,), daemon=True).start()

    def answer(self, link):
        seen = ""
        while piece := link.recv(65536):
            seen += piece.decode()
            if "<stream:stream" in seen and seen.rstrip().endswith(">"):
                if "version='1.0'>" in seen:
                    link.sendall((HEADER.format(self.domain, "b.example")
                                  + "<stream:features/>").encode())
                    seen = seen.split("version='1.0'>", 1)[1]
            for asked in re.findall(r"<db:verify [^>]*id='([^']*)'", seen):
                link.sendall(f"<db:verify from='{self.domain}' to='b.example' id='{asked}' "
                             "type='valid'/>".encode())
                seen = ""

    def close(self):
        self.server.close()


class Strange(Pair):
    """Somebody else beside the two, by hand, is evil.example."""

    @classmethod
    def of(cls, domain, port, hosts):
        cls.evil = Authoritative("evil.example")
        cls.addClassCleanup(cls.evil.close)
        return super().of(domain, port, [*hosts, f"evil.example=127.0.0.1:{cls.evil.port}"])

    def shown(self):
        """A stream of evil.example to b.example, which believes it."""
        stream, _ = self.stranger("evil.example")
        stream.say("<db:result from='evil.example' to='b.example'>right</db:result>")
        self.assertIn("type='valid'", stream.until("</db:result>"))
        return stream


class Stops(Strange):
    def test_a_server_that_stops_tells_others_last_what_it_has_taken_of_them(self):
        server, stream = self.pair["b.example"], self.shown()
        bob = own_name(self, "bob")
        server.ask("PUT", f"/v1/users/{bob}", {"password": "secret"})
        stream.say("<enable xmlns='urn:xmpp:sm:3'/>")
        stream.until("<enabled xmlns='urn:xmpp:sm:3'/>")
        for number in range(3):
            stream.say(f"<message from='x@evil.example' to='{bob}@b.example' type='chat'>"
                       f"<body>{number}</body></message>")
        poll(lambda: server.count("chat_foreign_received_total") == 3, "they have come")
        self.assertEqual(server.stop(), 0)
        told = stream.rest()
        self.assertRegex(told, "^<a xmlns='urn:xmpp:sm:3' h='3'/><stream:error><system-shutdown")
        self.assertTrue(told.endswith("</stream:stream>"), told)


class Forgeries(Strange):
    """What strangers say to b.example, by hand."""

    def test_a_key_that_the_domain_did_not_make_shows_nothing(self):
        stream, _ = self.stranger("a.example")
        stream.say("<db:result from='a.example' to='b.example'>forged</db:result>")
        self.assertIn("type='invalid'", stream.until("</db:result>"))
        stream.say("<message from='ann@a.example' to='bob@b.example'><body>x</body></message>")
        self.assertIn("not-authorized", stream.rest())

    def test_a_key_of_another_stream_shows_nothing(self):
        # That of the stream with id 1, made by a.example itself for whoever asks it.
        asked, _ = self.stranger("b.example", "a.example")
        for key in ("0" * 64, "", "x"):
            asked.say(f"<db:verify from='b.example' to='a.example' id='1'>{key}</db:verify>")
            self.assertIn("type='invalid'", asked.until("</db:verify>"), key)

    def test_who_has_shown_one_domain_does_not_speak_for_another(self):
        for name in ("ann@a.example", "bob@b.example", "a.example"):
            stream = self.shown()
            stream.say(f"<message from='{name}' to='bob@b.example'><body>x</body></message>")
            self.assertIn("invalid-from", stream.rest(), name)

    def test_a_domain_that_nobody_reaches_shows_nothing(self):
        stream, _ = self.stranger("closed.example")
        stream.say("<db:result from='closed.example' to='b.example'>key</db:result>")
        self.assertIn("remote-server-timeout", stream.until("</db:result>"))
        stream, _ = self.stranger("denied.example")
        stream.say("<db:result from='denied.example' to='b.example'>key</db:result>")
        self.assertIn("type='error'", stream.until("</db:result>"))

    def test_a_stream_for_a_domain_that_is_not_served_ends(self):
        stream = self.stream(("127.0.0.1", self.ports["b.example"]))
        stream.say(HEADER.format("a.example", "c.example"))
        self.assertIn("host-unknown", stream.rest())


class Certified(Pair):
    """Two servers that show each other certificates (SASL EXTERNAL, XEP-0178), and TLS alone."""

    FEDERATION = {"require_tls": True, "require_certificates": True}

    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="holdline-ca-")
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.authority = Authority(folder)
        super().setUpClass()

    @classmethod
    def of(cls, domain, port, hosts):
        how = super().of(domain, port, hosts)
        certificate, key = cls.authority.issue(domain, f"DNS:{domain}")
        certified(how, cls.authority, certificate, key)
        how["listen.direct"] = {"address": "127.0.0.1:0", "protocol": "xmpp-server", "tls": True,
                                "certificate": certificate, "key": key}
        return how

    def test_tls_may_be_there_from_the_first_byte_on(self):
        context = ssl.create_default_context(cafile=self.authority.certificate)
        context.set_alpn_protocols(["xmpp-server"])
        stream = self.stream(self.pair["b.example"].ports["direct"])
        stream.socket = context.wrap_socket(stream.socket, server_hostname="b.example")
        self.assertEqual(stream.socket.selected_alpn_protocol(), "xmpp-server")
        stream.say(HEADER.format("a.example", "b.example"))
        self.assertNotIn("starttls", stream.until("</stream:features>"))

    @together
    async def test_people_speak_where_certificates_alone_are_believed(self):
        ann, bob = await self.two()
        for one, other in ((ann, bob), (bob, ann)):
            one.say(other.jid, "hello")
            self.assertEqual((await other.next())["body"], "hello")

    def test_who_shows_no_certificate_may_show_no_key_either(self):
        stream, features = self.stranger("a.example")
        self.assertNotIn("features:dialback", features)
        stream.say("<db:result from='a.example' to='b.example'>key</db:result>")
        self.assertIn("policy-violation", stream.rest())

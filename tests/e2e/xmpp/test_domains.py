"""Several domains on one server, and logins by certificates: people with slixmpp."""

import re
import shutil
import ssl
import tempfile
import urllib.parse

from certificates import Authority
from fixture import DEADLINE_S, Server, poll, run
from im.terminal import CommandLine
from mqtt.broker import free_port
from xmpp.people import SASL, People, Person, Stream, own_name, slixmpp, together
from xmpp.test_federation import HEADER, Neighbour, changes
from xmpp.test_people import Friend

STREAM = ("<?xml version='1.0'?><stream:stream xmlns='jabber:client' version='1.0' "
          "xmlns:stream='http://etherx.jabber.org/streams' to='{}'>")


PUBSUB = "http://jabber.org/protocol/pubsub"
PUBLISH = (f"<pubsub xmlns='{PUBSUB}'><publish node='{{0}}'><item id='1'><note xmlns='urn:x'>{{2}}"
           "</note></item></publish><publish-options><x xmlns='jabber:x:data' type='submit'>"
           f"<field var='FORM_TYPE'><value>{PUBSUB}#publish-options</value></field>"
           "<field var='pubsub#access_model'><value>{1}</value></field></x></publish-options>"
           "</pubsub>")


async def ask(friend, kind, to, inner):
    """The answer to a question, or its error, as text."""
    library = slixmpp()
    iq = friend.client.make_iq(ito=to, itype=kind)
    iq.xml.append(library.xmlstream.ET.fromstring(inner))
    try:
        return str(await iq.send(timeout=DEADLINE_S))
    except library.exceptions.IqError as error:
        return str(error.iq)


def outcome(stream):
    """The end of a login, whole."""
    told = stream.until(">")
    return told + stream.until("</success>" if "<success" in told else "</failure>")


class Domains(CommandLine):
    """Accounts of two domains, a password each."""

    def user(self, server, name, domain):
        user = name if domain == self.FIRST else f"{name}@{domain}"
        quoted = urllib.parse.quote(user, safe="")
        server.ask("PUT", f"/v1/users/{quoted}", {"password": f"secret of {user}"})
        return user

    def friend(self, name, domain, server=None, listener="xmpp", kind=Neighbour):
        server, name = server or self.server, own_name(self, name)
        user = self.user(server, name, domain)
        friend = kind(server.ports[listener][1], f"{name}@{domain}/desk", f"secret of {user}")
        friend.jid = f"{name}@{domain}"
        self.people.append(friend)
        return friend


class OneServer(Domains, People):
    SHARED, FIRST = False, "localhost"

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="holdline-e2e-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        authority = Authority(cls.folder)
        files = [authority.issue(name, f"DNS:{name}") for name in ("localhost", "b.example")]
        cls.authority = authority.certificate
        (usual, usual_key), (other, other_key) = files
        cls.server = Server({
            "tls": {"certificate": usual, "key": usual_key},
            "domain.b": {"domain": "b.example", "certificate": other, "key": other_key},
            "domain.c": {"domain": "c.example"},
            "chat": {"page": False},
            "listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"},
            "listen.plain": {"address": "127.0.0.1:0", "protocol": "im"}})
        cls.addClassCleanup(cls.server.close)

    def friend(self, name, domain, server=None, listener="xmpp", kind=Neighbour):
        friend = super().friend(name, domain, server, listener, kind)
        friend.client.enable_starttls, friend.client.enable_plaintext = True, False
        friend.client.ca_certs = None
        friend.client.ssl_context.check_hostname = False
        friend.client.ssl_context.verify_mode = ssl.CERT_NONE
        return friend

    def test_each_domain_has_its_certificate(self):
        for domain, name in (("localhost", "localhost"), ("b.example", "b.example"),
                             ("c.example", "localhost"), ("unknown.example", "localhost")):
            link = Stream(self.server.ports["xmpp"])
            self.addCleanup(link.close)
            link.say(STREAM.format(domain if domain != "unknown.example" else "localhost"))
            link.until("</stream:features>")
            link.say("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>")
            link.until("<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>")
            context = ssl.create_default_context(cafile=self.authority)
            context.check_hostname = False
            shown = context.wrap_socket(link.socket, server_hostname=domain).getpeercert()
            self.assertIn(("DNS", name), shown["subjectAltName"], domain)

    def test_a_stream_is_for_a_domain_that_is_served(self):
        for domain, answer in (("B.Example.", "from='b.example'"), ("c.example", "from='c.example'"),
                               ("d.example", "<host-unknown "), ("", "<host-unknown "),
                               ("conference.b.example", "<host-unknown ")):
            link = Stream(self.server.ports["xmpp"])
            self.addCleanup(link.close)
            link.say(STREAM.format(domain))
            self.assertIn(answer, link.until("</stream:"), domain)

    @together
    async def test_accounts_of_one_name_are_two_and_talk(self):
        first, other = self.friend("ann", "localhost"), self.friend("ann", "b.example")
        third = self.friend("bob", "c.example")
        for friend in (first, other, third):
            await friend.here()
        first.say(other.jid, "from the first")
        heard = await other.next()
        self.assertEqual((heard["body"], heard["from"].bare), ("from the first", first.jid))
        other.say(third.jid, "from the other")
        self.assertEqual((await third.next())["from"].bare, other.jid)
        third.say(first.jid, "from the third")
        self.assertEqual((await first.next())["from"].bare, third.jid)
        said = first.say(f"nobody@{other.client.boundjid.domain}", "anybody?")
        error = await first.next("message_error")
        self.assertEqual((error["error"]["condition"], error["id"]), ("service-unavailable", said))
        first.say("x@d.example", "anybody?")
        error = await first.next("message_error")
        self.assertEqual(error["error"]["condition"], "remote-server-not-found")

    @together
    async def test_a_password_is_that_of_its_domain(self):
        first = self.friend("ann", "localhost")
        wrong = self.friend("ann", "b.example")
        wrong.client.password = f"secret of {first.client.boundjid.user}"
        wrong.client.credentials["password"] = wrong.client.password
        with self.assertRaises(AssertionError):
            await wrong.start()
        await first.here()

    @together
    async def test_contacts_and_presence_cross_domains(self):
        ann, bob = self.friend("ann", "localhost"), self.friend("bob", "b.example")
        await ann.here()
        await bob.here()
        ann.presence(bob.jid, "subscribe")
        await bob.until("presence_subscribe", ann.jid)
        bob.presence(ann.jid, "subscribed")
        await ann.until("presence_subscribed", bob.jid)
        await ann.comes(f"{bob.jid}/desk")
        bob.client.send_presence(pshow="away", pstatus="soon back")
        self.assertEqual((await ann.until("presence_away", bob.jid))["status"], "soon back")
        await bob.leave()
        await ann.until("presence_unavailable", f"{bob.jid}/desk")

    @together
    async def test_rooms_are_shared_and_belong_to_a_domain(self):
        ann, bob = self.friend("ann", "localhost"), self.friend("ann", "b.example")
        for friend in (ann, bob):
            friend.client.register_plugin("xep_0045")
            await friend.here()
        room = f"{own_name(self, 'r').lower()[-20:].strip('.-_')}@conference.b.example"
        rooms = bob.client.plugin["xep_0045"]
        await rooms.join_muc_wait(room, bob.client.boundjid.user, timeout=DEADLINE_S)
        await rooms.set_affiliation(room, "member", jid=ann.jid)
        theirs = ann.client.plugin["xep_0045"]
        await theirs.join_muc_wait(room, ann.jid, timeout=DEADLINE_S)
        ann.client.send_message(room, "hello room", mtype="groupchat")
        heard = await bob.next("groupchat_message")
        while heard["body"] != "hello room":
            heard = await bob.next("groupchat_message")
        self.assertEqual(heard["from"].resource, ann.jid, "a nick of another domain is whole")
        bob.client.send_message(room, "hello both", mtype="groupchat")
        heard = await ann.next("groupchat_message")
        while heard["body"] != "hello both":
            heard = await ann.next("groupchat_message")
        self.assertEqual(heard["from"].resource, bob.client.boundjid.user)
        with self.assertRaises(slixmpp().exceptions.PresenceError):
            # A room is made in the domain of whoever makes it.
            await theirs.join_muc_wait(f"new.{room}", ann.jid, timeout=DEADLINE_S)

    @together
    async def test_disco_answers_for_each_domain(self):
        ann = await self.friend("ann", "localhost").here()
        disco = ann.client.plugin["xep_0030"]
        for domain in ("localhost", "b.example", "c.example"):
            items = await disco.get_items(domain, timeout=DEADLINE_S)
            listed = {item[0] for item in items["disco_items"]["items"]}
            self.assertEqual(listed, {f"{service}.{domain}"
                                      for service in ("conference", "channel", "live")})
            info = await disco.get_info(domain, timeout=DEADLINE_S)
            self.assertIn("urn:xmpp:ping", info["disco_info"]["features"])
            await ann.client.plugin["xep_0199"].send_ping(domain, timeout=DEADLINE_S)
        for whom in (f"x@{domain}", "conference.d.example"):
            with self.assertRaises(slixmpp().exceptions.IqError):
                await ann.client.plugin["xep_0199"].send_ping(whom, timeout=DEADLINE_S)

    @together
    async def test_im_reaches_every_domain(self):
        bob = await self.friend("bob", "b.example").here()
        ann = self.account("im")
        self.im("send", ann, bob.jid, "from IM")
        self.assertEqual((await bob.next())["body"], "from IM")


class TwoServers(Domains, People):
    """Of which one serves two domains."""

    SHARED, FIRST = False, "a.example"

    @classmethod
    def setUpClass(cls):
        slixmpp()
        here, there = free_port(), free_port()
        hosts = [f"a.example=127.0.0.1:{here}", f"b.example=127.0.0.1:{here}",
                 f"z.example=127.0.0.1:{there}"]
        cls.port = here
        cls.server = Server({**changes("a.example", here, hosts),
                             "domain.b": {"domain": "b.example"}})
        cls.addClassCleanup(cls.server.close)
        cls.far = Server(changes("z.example", there, hosts))
        cls.addClassCleanup(cls.far.close)

    def setUp(self):
        super().setUp()
        self.servers = [self.server, self.far]

    def stranger(self, name):
        self.far.ask("PUT", f"/v1/users/{own_name(self, name)}",
                     {"password": f"secret of {own_name(self, name)}"})
        name = own_name(self, name)
        friend = Neighbour(self.far.ports["xmpp"][1], f"{name}@z.example/desk", f"secret of {name}")
        friend.jid = f"{name}@z.example"
        self.people.append(friend)
        return friend

    @together
    async def test_another_server_reaches_each_domain_and_is_reached_by_each(self):
        zoe = await self.stranger("zoe").here()
        for domain in ("a.example", "b.example"):
            ann = await self.friend("ann", domain).here()
            ann.say(zoe.jid, f"from {domain}")
            heard = await zoe.next()
            self.assertEqual((heard["body"], heard["from"].bare), (f"from {domain}", ann.jid))
            zoe.say(ann.jid, "and back")
            self.assertEqual((await ann.next())["body"], "and back")
            items = await zoe.client.plugin["xep_0030"].get_items(domain, timeout=DEADLINE_S)
            listed = {item[0] for item in items["disco_items"]["items"]}
            self.assertIn(f"conference.{domain}", listed)
            ann.presence(zoe.jid, "subscribe")
            await zoe.until("presence_subscribe", ann.jid)
            zoe.presence(ann.jid, "subscribed")
            await ann.comes(f"{zoe.jid}/desk")

    @together
    async def test_domains_of_one_server_do_without_the_other(self):
        ann, bob = self.friend("ann", "a.example"), self.friend("bob", "b.example")
        await ann.here()
        await bob.here()
        ann.say(bob.jid, "next door")
        self.assertEqual((await bob.next())["body"], "next door")
        items = await ann.client.plugin["xep_0030"].get_items("b.example", timeout=DEADLINE_S)
        listed = {item[0] for item in items["disco_items"]["items"]}
        self.assertIn("conference.b.example", listed)

    @together
    async def test_cards_and_nodes_are_read_across_servers_as_far_as_they_are_open(self):
        zoe, ann = self.stranger("zoe"), self.friend("ann", "b.example")
        await zoe.here()
        await ann.here()
        for reader, writer in ((zoe, ann), (ann, zoe)):
            name = f"Card of {writer.jid}"
            await ask(writer, "set", None, f"<vCard xmlns='vcard-temp'><FN>{name}</FN></vCard>")
            card = await ask(reader, "get", writer.jid, "<vCard xmlns='vcard-temp'/>")
            self.assertIn(name, card)
            for node, model in (("open", "open"), ("shy", "presence")):
                await ask(writer, "set", None, PUBLISH.format(node, model, name))
            items = "<pubsub xmlns='{}'><items node='{}'/></pubsub>"
            told = await ask(reader, "get", writer.jid, items.format(PUBSUB, "open"))
            self.assertIn(name, told)
            told = await ask(reader, "get", writer.jid, items.format(PUBSUB, "shy"))
            self.assertIn("presence-subscription-required", told)
            listed = await ask(reader, "get", writer.jid,
                               "<query xmlns='http://jabber.org/protocol/disco#items'/>")
            self.assertIn("node=\"open\"", listed)
            self.assertNotIn("node=\"shy\"", listed)
            told = await ask(reader, "set", writer.jid, PUBLISH.format("open", "open", "forged"))
            self.assertIn("type=\"error\"", told)
            reader.presence(writer.jid, "subscribe")
            await writer.until("presence_subscribe", reader.jid)
            writer.presence(reader.jid, "subscribed")
            await reader.until("presence_subscribed", writer.jid)
            await reader.comes(f"{writer.jid}/desk")
            told = await ask(reader, "get", writer.jid, items.format(PUBSUB, "shy"))
            self.assertIn(name, told)
            await writer.client.plugin["xep_0191"].block(reader.jid, timeout=DEADLINE_S)
            told = await ask(reader, "get", writer.jid, items.format(PUBSUB, "open"))
            self.assertIn("type=\"error\"", told)
            await writer.client.plugin["xep_0191"].unblock(reader.jid, timeout=DEADLINE_S)
        nobody = await ask(zoe, "get", f"nobody.{ann.jid}", "<vCard xmlns='vcard-temp'/>")
        self.assertIn("item-not-found", nobody)

    def test_nobody_shows_a_domain_of_ours(self):
        for own in ("a.example", "b.example"):
            stream = Stream(("127.0.0.1", self.port))
            self.addCleanup(stream.close)
            stream.say(HEADER.format(own, "a.example"))
            stream.until("</stream:features>")
            stream.say(f"<db:result from='{own}' to='a.example'>key</db:result>")
            self.assertIn("type='error'", stream.until("</db:result>"))
            stream.say(f"<message from='x@{own}' to='y@b.example'><body>z</body></message>")
            self.assertIn("<not-authorized", stream.until("</stream:stream>"))
        stream = Stream(("127.0.0.1", self.port))
        self.addCleanup(stream.close)
        stream.say(HEADER.format("z.example", "c.example"))
        self.assertIn("<host-unknown", stream.until("</stream:stream>"))


class Certified(People):
    """Whoever shows a certificate."""

    SHARED = False

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="holdline-e2e-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.trusted = Authority(cls.folder)
        certificate, key = cls.trusted.issue("localhost", "DNS:localhost")
        cls.authority = cls.trusted.certificate
        both = ["scram", "certificate", "passwords"]
        asks = {"address": "127.0.0.1:0", "protocol": "xmpp", "tls": True,
                "client_ca": cls.authority}
        cls.server = Server({
            "tls": {"certificate": certificate, "key": key},
            "listen.optional": {**asks, "client_certificates": "optional", "methods": both},
            "listen.required": {**asks, "client_certificates": "required",
                                "methods": ["certificate"], "identity": "common_name"},
            "listen.within": {"address": "127.0.0.1:0", "protocol": "xmpp",
                              "client_ca": cls.authority, "client_certificates": "optional",
                              "methods": both},
            "listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"}})
        cls.addClassCleanup(cls.server.close)

    @staticmethod
    def address(jid):
        return f"otherName:1.3.6.1.5.5.7.8.5;UTF8:{jid}"

    def certified(self, name, listener, files, direct=True):
        person = Person(self.server.ports[listener][1], f"{name}@localhost", "no password",
                        authority=self.authority, direct=direct, mechanism="EXTERNAL")
        person.client.certfile, person.client.keyfile = files
        self.people.append(person)
        return person

    def offered(self, listener, files=None):
        """What a stream of such a client is offered."""
        context = ssl.create_default_context(cafile=self.authority)
        if files:
            context.load_cert_chain(*files)
        stream = Stream(self.server.ports[listener])
        self.addCleanup(stream.close)
        stream.socket = context.wrap_socket(stream.socket, server_hostname="localhost")
        stream.say(STREAM.format("localhost"))
        return stream, stream.until("</stream:features>")

    @together
    async def test_who_a_certificate_names_comes_without_a_password(self):
        files = self.trusted.issue("whoever", self.address(f"{self.ann}@localhost"), "ann")
        bob = await self.person(self.bob, authority=self.authority).start()
        for listener, direct in (("optional", True), ("within", False)):
            ann = await self.certified(self.ann, listener, files, direct).start()
            ann.say(f"{self.bob}@localhost", f"by {listener}")
            heard = await bob.next()
            self.assertEqual((heard["body"], heard["from"].bare),
                             (f"by {listener}", f"{self.ann}@localhost"))
            await ann.leave()
        named = self.trusted.issue(self.ann, None, "named")
        ann = await self.certified(self.ann, "required", named).start()
        ann.say(f"{self.bob}@localhost", "by a name")
        self.assertEqual((await bob.next())["body"], "by a name")

    def test_external_is_offered_to_whom_it_is_good_for(self):
        ann = self.trusted.issue("x", self.address(f"{self.ann}@localhost"), "one")
        elsewhere = self.trusted.issue("x", self.address("ann@elsewhere.example"), "elsewhere")
        for listener, files, is_offered in (("optional", ann, True), ("optional", None, False),
                                            ("optional", elsewhere, False)):
            _, told = self.offered(listener, files)
            self.assertEqual("<mechanism>EXTERNAL</mechanism>" in told, is_offered)
            self.assertIn("SCRAM-SHA-256", told)
        named = self.trusted.issue(self.ann, None, "again")
        _, told = self.offered("required", named)
        self.assertEqual(set(re.findall("<mechanism>(.*?)</mechanism>", told)) -
                         {"HT-SHA-256-NONE", "HT-SHA-256-EXPR", "HT-SHA-256-ENDP"}, {"EXTERNAL"})
        with self.assertRaises((ssl.SSLError, ConnectionError, AssertionError)):
            self.offered("required")

    def external(self, stream, wanted):
        stream.say(f"<auth xmlns='{SASL}' mechanism='EXTERNAL'>{wanted}</auth>")
        return outcome(stream)

    def test_nobody_is_whom_the_certificate_does_not_name(self):
        import base64
        both = [self.address(f"{name}@localhost") for name in (self.ann, self.bob)]
        one = self.trusted.issue("x", both[0], "just-one")
        two = self.trusted.issue("x", ",".join(both), "two")
        said = lambda text: base64.b64encode(text.encode()).decode()  # noqa: E731
        for files, wanted, answer in (
                (one, said(f"{self.bob}@localhost"), "<invalid-authzid"),
                (two, "=", "<invalid-authzid"), (one, "!", "<incorrect-encoding"),
                (one, said(f"{self.ann}@elsewhere.example"), "<invalid-authzid"),
                (two, said(f"{self.bob}@localhost"), "<success"), (one, "=", "<success")):
            stream, _ = self.offered("optional", files)
            self.assertIn(answer, self.external(stream, wanted), wanted)
        stranger = Authority(tempfile.mkdtemp(dir=self.folder))
        forged = stranger.issue("x", both[0], "forged")
        with self.assertRaises((ssl.SSLError, ConnectionError, AssertionError)):
            self.offered("optional", forged)

    def test_an_account_that_is_gone_takes_its_certificate_along(self):
        files = self.trusted.issue("x", self.address(f"{self.ann}@localhost"), "gone")
        stream, _ = self.offered("optional", files)
        self.assertIn("<success", self.external(stream, "="))
        stream.say(STREAM.format("localhost"))
        stream.until("</stream:features>")
        stream.say("<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>")
        stream.until("</iq>")
        self.server.ask("PUT", f"/v1/users/{self.ann}", {"disabled": True})
        self.assertIn("</stream:stream>", stream.until("</stream:stream>"))
        stream, _ = self.offered("optional", files)
        self.assertIn("<not-authorized", self.external(stream, "="))
        self.server.ask("DELETE", f"/v1/users/{self.ann}")
        stream, _ = self.offered("optional", files)
        self.assertIn("<not-authorized", self.external(stream, "="))


class Guests(People):
    """Whoever is nobody."""

    CHANGES = {"listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"},
               "listen.open": {"address": "127.0.0.1:0", "protocol": "xmpp",
                               "methods": ["scram", "anonymous"]},
               "chat": {"guests_max": 4}}

    def guest(self, listener="open"):
        """A guest with its address."""
        stream = self.stream(listener)
        stream.say(STREAM.format("localhost"))
        self.assertIn("<mechanism>ANONYMOUS</mechanism>", stream.until("</stream:features>"))
        stream.say(f"<auth xmlns='{SASL}' mechanism='ANONYMOUS'>c29tZWJvZHk=</auth>")
        told = outcome(stream)
        if "<success" not in told:
            return stream, told
        stream.say(STREAM.format("localhost"))
        stream.until("</stream:features>")
        stream.say("<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>")
        jid = re.search("<jid>(.*?)</jid>", stream.until("</iq>")).group(1)
        stream.say("<presence/>")
        stream.until("<presence ")
        return stream, jid

    def is_there(self, jid):
        status, _ = self.server.api("GET", f"/v1/chat/accounts/{jid.split('/')[0]}")
        return status == 200

    def gone(self, *jids):
        poll(lambda: not any(self.is_there(jid) for jid in jids), "they are erased")

    @together
    async def test_a_guest_talks_and_is_gone_with_its_stream(self):
        bob = await self.person(self.bob).start()
        (ann, ann_jid), (zoe, zoe_jid) = self.guest(), self.guest()
        self.assertNotEqual(ann_jid.split("/")[0], zoe_jid.split("/")[0])
        ann.say(f"<message type='chat' to='{self.bob}@localhost'><body>hello</body></message>")
        heard = await bob.next()
        self.assertEqual((heard["body"], str(heard["from"])), ("hello", ann_jid))
        bob.say(ann_jid.split("/")[0], "and you are?")
        await bob.ping()
        ann.until("and you are?")
        zoe.say(f"<message type='chat' to='{ann_jid}'><body>next door</body></message>")
        ann.until("next door")
        self.assertTrue(self.is_there(ann_jid))
        ann.say("</stream:stream>")
        self.gone(ann_jid)
        self.assertTrue(self.is_there(zoe_jid))
        zoe.close()
        self.gone(zoe_jid)

    def test_there_are_as_many_guests_as_there_may_be(self):
        came = [self.guest() for _ in range(12)]
        inside = [jid for _, jid in came if "@" in jid]
        self.assertIn(len(inside), range(1, 5))
        self.assertTrue(all("temporary-auth-failure" in told or "@" in told for _, told in came))
        for stream, _ in came:
            stream.close()
        self.gone(*inside)
        stream, jid = self.guest()
        self.assertIn("@", jid, "there is room again")
        stream.close()
        self.gone(jid)

    def test_a_kill_leaves_no_guest_behind(self):
        _, jid = self.guest()
        self.assertTrue(self.is_there(jid))
        self.server.kill()
        self.server.start()
        self.gone(jid)

    def test_it_is_offered_where_it_is_wanted(self):
        stream = self.stream()
        stream.say(STREAM.format("localhost"))
        self.assertNotIn("ANONYMOUS", stream.until("</stream:features>"))
        stream.say(f"<auth xmlns='{SASL}' mechanism='ANONYMOUS'/>")
        self.assertIn("<invalid-mechanism", stream.until("</failure>"))

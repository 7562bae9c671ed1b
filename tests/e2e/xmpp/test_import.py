"""What people have on a real Prosody comes over: contacts, vCards, what they publish and keep,
blocks, messages, what waits, rooms. And what is exported here is the same when it has come back.
"""

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
import time
from xml.etree.ElementTree import canonicalize

from fixture import DEADLINE_S, Case, Server, run
from mqtt.broker import free_port
from program import Program
from xmpp.people import slixmpp, together
from xmpp.test_people import Friend
from xmpp.test_prosody import Prosody as Neighbour

PASSWORD = "correct horse"
NAMES = ("ann", "bob", "carl", "mallory")
ROOM = "lunch@conference.b.example"
CONFIGURATION = '''
run_as_root = true
prosody_user = "root"
prosody_group = "root"
daemonize = false
pidfile = "FOLDER/pid"
data_path = "FOLDER/data"
interfaces = { "127.0.0.1" }
c2s_ports = { CLIENTS }
s2s_ports = {}
http_ports = {}
https_ports = {}
modules_enabled = { "roster", "saslauth", "disco", "ping", "pep", "carbons", "mam", "vcard",
    "private", "blocklist", "offline" }
modules_disabled = { "s2s" }
c2s_require_encryption = false
authentication = "internal_hashed"
default_archive_policy = true
log = { info = "FOLDER/log" }
VirtualHost "b.example"
Component "conference.b.example" "muc"
'''
VCARD = "<vCard xmlns='vcard-temp'><FN>Ann B.</FN><NICKNAME>annie</NICKNAME></vCard>"
NOTES = "<notes xmlns='urn:example:notes'><note>milk &amp; bread</note></notes>"
NICK = "http://jabber.org/protocol/nick"


class Prosody(Program):
    """One that serves b.example, whose people log in without TLS."""

    COMMANDS, START_S = ("prosody", "prosodyctl"), 3 * DEADLINE_S

    def __init__(self):
        super().__init__()
        self.clients = free_port()
        os.mkdir(self.path("data"))
        self.write_file("prosody.cfg.lua", CONFIGURATION, FOLDER=self.folder, CLIENTS=self.clients)

    def register(self, name):
        subprocess.run(["prosodyctl", "--config", self.path("prosody.cfg.lua"), "register", name,
                        "b.example", PASSWORD], check=True, capture_output=True, timeout=30)

    def words(self):
        return ["prosody", "--config", self.path("prosody.cfg.lua")]

    def answers(self):
        return Neighbour.listens(self.clients)


class Somebody(Friend):
    """A person of a domain, of this server or the other."""

    def __init__(self, port, name, domain):
        super().__init__(port, f"{name}@{domain}", PASSWORD, mechanism="SCRAM-SHA-1")
        self.client.register_plugin("xep_0313")
        self.domain = domain

    async def ping(self):
        await self.client.plugin["xep_0199"].send_ping(self.domain, timeout=DEADLINE_S)

    async def asks(self, kind, xml, to=None):
        """An IQ with this in it; what stands in the answer."""
        make = self.client.make_iq_set if kind == "set" else self.client.make_iq_get
        question = make(ito=to)
        question.append(slixmpp().xmlstream.ET.fromstring(xml))
        return (await question.send(timeout=DEADLINE_S)).xml

    async def archive(self, **what):
        found = self.client.plugin["xep_0313"].iterate(**what)
        bodies = []
        async for message in found:
            forwarded = message["mam_result"]["forwarded"]
            bodies.append((str(forwarded["stanza"]["from"].bare).split("@")[0],
                           forwarded["stanza"]["body"], forwarded["delay"]["stamp"]))
        return bodies


class Importing(Case):
    SHARED = False
    PROSODY, NAMES = Prosody, NAMES

    @classmethod
    def setUpClass(cls):
        slixmpp()
        cls.prosody = cls.PROSODY()
        cls.addClassCleanup(cls.prosody.close)
        for name in cls.NAMES:
            cls.prosody.register(name)
        cls.said = cls.talks(cls.lives)
        cls.server = cls.serve()
        cls.told = cls.imported(cls.server)

    @classmethod
    def talks(cls, what):
        """Prosody runs while people do something; what came of it."""
        cls.prosody.start()
        said = asyncio.run(asyncio.wait_for(what(), 6 * DEADLINE_S))
        cls.prosody.process.terminate()
        cls.prosody.process.wait(DEADLINE_S)
        return said

    @classmethod
    def serve(cls, more=None):
        server = Server({
            "listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"},
            "access": {"scram_hashes": ["sha-1"]},
            **(more or {}),
        })
        cls.addClassCleanup(server.close)
        return server

    @classmethod
    def ordered(cls, server, *words):
        host, port = server.ports["api"]
        return run("user", *words, "--url", f"http://{host}:{port}", "--token", server.token)

    @classmethod
    def imported(cls, server, *words):
        folder = cls.prosody.path("data/b%2eexample")
        return cls.ordered(server, "import", *(words or ("--prosody", folder)))

    @classmethod
    async def lives(cls):
        """What people do there; what ann and bob said to each other, in order."""
        ann, bob = [Somebody(cls.prosody.clients, name, "b.example") for name in ("ann", "bob")]
        people = [ann, bob]
        try:
            for person in people:
                await person.here()
            for one, other in ((ann, bob), (bob, ann)):
                one.client.send_presence(pto=other.client.boundjid.bare, ptype="subscribe")
                await other.next("presence_subscribe")
                other.client.send_presence(pto=one.client.boundjid.bare, ptype="subscribed")
                await one.next("presence_subscribed")
            await ann.client.update_roster("bob@b.example", name="Bob", groups=["Friends"])
            said = []
            for number in range(12):
                one, other = (ann, bob) if number % 3 else (bob, ann)
                text = f"number {number} <&>"
                one.say(other.client.boundjid.bare, text)
                said.append((one.client.boundjid.user, text))
                assert (await other.next())["body"] == text
            await ann.asks("set", VCARD)
            await ann.asks("set", f"<query xmlns='jabber:iq:private'>{NOTES}</query>")
            await ann.asks("set", "<block xmlns='urn:xmpp:blocking'>"
                                  "<item jid='mallory@b.example'/></block>")
            await ann.asks("set", "<pubsub xmlns='http://jabber.org/protocol/pubsub'>"
                                  f"<publish node='{NICK}'><item id='current'>"
                                  f"<nick xmlns='{NICK}'>Annie</nick></item></publish></pubsub>")
            ann.say("carl@b.example", "wake up")
            await ann.makes_room()
            await ann.ping()
            return said
        finally:
            for person in people:
                person.client.abort()
            await asyncio.sleep(0)

    def setUp(self):
        super().setUp()
        self.people = []

    async def comes(self, name, server=None):
        port = (server or self.server).ports["xmpp"][1]
        person = Somebody(port, name, "localhost")
        self.people.append(person)
        return await person.here()


async def makes_room(self):
    joined = self.client.make_presence(pto=f"{ROOM}/ann")
    joined.append(slixmpp().xmlstream.ET.fromstring(
        "<x xmlns='http://jabber.org/protocol/muc'/>"))
    joined.send()
    form = ("<query xmlns='http://jabber.org/protocol/muc#owner'>"
            "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>"
            "<value>http://jabber.org/protocol/muc#roomconfig</value></field>"
            "<field var='muc#roomconfig_roomname'><value>Lunch at noon</value></field>"
            "<field var='muc#roomconfig_roomdesc'><value>What there is</value></field>"
            "<field var='muc#roomconfig_persistentroom'><value>1</value></field></x></query>")
    await self.asks("set", form, to=ROOM)
    member = ("<query xmlns='http://jabber.org/protocol/muc#admin'>"
              "<item affiliation='{}' jid='{}@b.example'/></query>")
    await self.asks("set", member.format("member", "bob"), to=ROOM)
    await self.asks("set", member.format("admin", "carl"), to=ROOM)
    await self.asks("set", member.format("outcast", "mallory"), to=ROOM)


Somebody.makes_room = makes_room


class FromProsody(Importing):
    def test_what_came_over_is_counted(self):
        self.assertEqual(self.told.returncode, 0, self.told)
        self.assertIn("4 created, 0 changed, 0 unchanged, 0 left out", self.told.stdout)
        for count, what in ((2, "contacts"), (1, "blocks"), (1, "vCards"), (1, "nodes"),
                            (1, "private storage items"), (12, "messages"),
                            (1, "queued messages"), (1, "rooms")):
            self.assertRegex(self.told.stdout, rf"(?m)^ +{count} {what}$")
        self.assertNotIn("not imported", self.told.stdout)

    @together
    async def test_contacts_see_each_other_under_their_names(self):
        ann, bob = await self.comes("ann"), await self.comes("bob")
        roster = await ann.asks("get", "<query xmlns='jabber:iq:roster'/>")
        item = roster.find(".//{jabber:iq:roster}item")
        self.assertEqual((item.get("jid"), item.get("name"), item.get("subscription")),
                         ("bob@localhost", "Bob", "both"))
        self.assertEqual([group.text for group in item], ["Friends"])
        ann.client.send_presence(pshow="away")
        self.assertEqual((await bob.next("presence_away"))["from"].bare, "ann@localhost")
        blocked = await ann.asks("get", "<blocklist xmlns='urn:xmpp:blocking'/>")
        self.assertEqual([item.get("jid") for item in blocked[0]], ["mallory@localhost"])

    @together
    async def test_archives_have_what_was_said_once_and_in_its_order(self):
        ann, bob = await self.comes("ann"), await self.comes("bob")
        for one, other in ((ann, "bob"), (bob, "ann")):
            found = await one.archive(with_jid=f"{other}@localhost")
            self.assertEqual([it[:2] for it in found], self.said)
            self.assertEqual(sorted(it[2] for it in found), [it[2] for it in found])
        whole = [it[:2] for it in await ann.archive()]
        self.assertEqual(sorted(whole), sorted([*self.said, ("ann", "wake up")]))

    @together
    async def test_only_what_waited_comes_when_somebody_comes(self):
        carl = await self.comes("carl")
        waited = await carl.next()
        self.assertEqual((waited["body"], waited["from"].bare), ("wake up", "ann@localhost"))
        self.assertTrue(waited.xml.find("{urn:xmpp:delay}delay") is not None)
        bob = await self.comes("bob")
        await bob.ping()
        self.assertTrue(bob.queues["message"].empty(), "nothing is given to bob again")

    @together
    async def test_vcards_nodes_and_what_clients_keep_are_there(self):
        ann, bob = await self.comes("ann"), await self.comes("bob")
        vcard = await bob.asks("get", "<vCard xmlns='vcard-temp'/>", to="ann@localhost")
        self.assertEqual(vcard.find(".//{vcard-temp}FN").text, "Ann B.")
        kept = await ann.asks("get", "<query xmlns='jabber:iq:private'>"
                                     "<notes xmlns='urn:example:notes'/></query>")
        self.assertEqual(kept.find(".//{urn:example:notes}note").text, "milk & bread")
        items = await bob.asks("get", "<pubsub xmlns='http://jabber.org/protocol/pubsub'>"
                                      f"<items node='{NICK}'/></pubsub>", to="ann@localhost")
        self.assertEqual(items.find(f".//{{{NICK}}}nick").text, "Annie")

    @together
    async def test_rooms_have_their_people_in_their_places(self):
        ann = await self.comes("ann")
        room = "lunch@conference.localhost"
        for affiliation, name in (("owner", "ann"), ("admin", "carl"), ("member", "bob"),
                                  ("outcast", "mallory")):
            query = ("<query xmlns='http://jabber.org/protocol/muc#admin'>"
                     f"<item affiliation='{affiliation}'/></query>")
            listed = await ann.asks("get", query, to=room)
            self.assertEqual([item.get("jid") for item in listed[0]], [f"{name}@localhost"])
        info = await ann.client.plugin["xep_0030"].get_info(room, timeout=DEADLINE_S)
        names = [identity[3] for identity in info["disco_info"]["identities"]]
        self.assertIn("Lunch at noon", names)
        self.assertIn("muc_open", info["disco_info"]["features"], "as it was")
        self.assertIn("What there is", str(info))

    def test_once_more_changes_nothing(self):
        once_more = self.imported(self.server)
        self.assertIn("0 created, 0 changed, 4 unchanged", once_more.stdout)
        self.assertRegex(once_more.stdout,
                         r"(?m)^ +13 messages unchanged, or older than the conversation here$")
        self.assertNotIn("rooms", once_more.stdout)
        self.assertNotIn("not imported", once_more.stdout)

    def test_a_dry_run_counts_and_asks_no_server(self):
        folder = self.prosody.path("data/b%2eexample")
        told = run("user", "import", "--prosody", folder, "--dry-run")
        self.assertIn("4 can be imported, 0 cannot", told.stdout)
        self.assertRegex(told.stdout, r"(?m)^ +1 rooms$")


class Exporting(Importing):
    def exported(self, server, name, *names):
        file = os.path.join(self.folder, name)
        told = self.ordered(server, "export", file, *names)
        self.assertEqual(told.returncode, 0, told)
        with open(file, encoding="utf-8") as text:
            return file, text.read()

    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="holdline-e2e-")
        self.addCleanup(shutil.rmtree, self.folder)

    @together
    async def test_an_export_that_is_imported_elsewhere_gives_the_same_export(self):
        ann = await self.comes("ann")
        ann.say("bob@localhost", "said here")
        # Two of one conversation and one millisecond come over a millisecond apart.
        said_at = time.time()
        while time.time() < said_at + 0.005:
            await ann.ping()
        message = ann.client.make_message("bob@localhost", "with more", mtype="chat")
        message.append(slixmpp().xmlstream.ET.fromstring("<more xmlns='urn:example:more'/>"))
        message.send()
        await ann.ping()
        await ann.leave()
        file, first = self.exported(self.server, "first.xml")
        for part in ("mechanism='SCRAM-SHA-1'", "<FN>Ann B.</FN>", "milk &amp; bread", "Annie",
                     "jid='bob@localhost' subscription='both' name='Bob'", "number 11 &lt;&amp;&gt;",
                     "said here", "urn:example:more",
                     "<item jid='mallory@localhost'/>"):
            self.assertIn(part, first)
        other = self.serve()
        told = self.imported(other, "--xep-0227", file, "--strict")
        self.assertEqual(told.returncode, 0, told)
        _, second = self.exported(other, "second.xml")
        self.assertEqual(self.plain(first), self.plain(second))
        _, one = self.exported(other, "one.xml", "ann")
        self.assertEqual(len(re.findall("<user ", one)), 1)
        self.people.append(Somebody(other.ports["xmpp"][1], "ann", "localhost"))
        await self.people[-1].here()

    def plain(self, text):
        """An export, a line for each element, however it is quoted, those of one user in any order:
        contacts stand in the order of their changes."""
        return sorted(canonicalize(text).replace("><", ">\n<").splitlines())

    def test_a_file_that_is_there_stays(self):
        file = os.path.join(self.folder, "there.xml")
        with open(file, "w", encoding="utf-8") as there:
            there.write("mine")
        told = self.ordered(self.server, "export", file)
        self.assertEqual(told.returncode, 1, told)
        with open(file, encoding="utf-8") as there:
            self.assertEqual(there.read(), "mine")

"""Federation with Prosody, a server that others have written: over TLS, by dialback.

Where a name is that no resolver knows, Prosody is told by a module of ours.
"""

import os
import shutil
import socket
import subprocess
import tempfile

from certificates import Authority
from fixture import DEADLINE_S, Case, Server, poll
from mqtt.broker import free_port
from program import Program
from xmpp.people import own_name, slixmpp, together
from xmpp.test_federation import Neighbour, certified, changes
from xmpp.test_push import PushService, asks, nothing_owed

PLACES = '''
local service, manual = require "net.resolvers.service", require "net.resolvers.manual";
local usual = service.new;
function service.new(host, name, kind, extra)
    if host == "a.example" or host == "conference.a.example" then
        return manual.new({ { "tcp4", "127.0.0.1", HOLDLINE } }, kind, extra);
    end
    return usual(host, name, kind, extra);
end
'''
CONFIGURATION = '''
run_as_root = true
prosody_user = "root"
prosody_group = "root"
daemonize = false
pidfile = "FOLDER/pid"
data_path = "FOLDER/data"
plugin_paths = { "FOLDER" }
interfaces = { "127.0.0.1" }
c2s_ports = { CLIENTS }
s2s_ports = { SERVERS }
http_ports = {}
https_ports = {}
modules_enabled = { "roster", "saslauth", "tls", "dialback", "disco", "ping", "pep", "carbons",
    "smacks", "places" }
c2s_require_encryption = false
allow_unencrypted_plain_auth = true
s2s_require_encryption = true
s2s_secure_auth = SECURE
authentication = "internal_plain"
log = { debug = "FOLDER/log" }
ssl = { certificate = "CERTIFICATE", key = "KEY", cafile = "AUTHORITY" }
VirtualHost "b.example"
Component "conference.b.example" "muc"
'''


class Prosody(Program):
    """One that serves b.example, and knows a.example at a port."""

    COMMANDS, START_S, SECURE = ("prosody", "prosodyctl"), 3 * DEADLINE_S, "false"

    def __init__(self, holdline, authority):
        super().__init__()
        self.clients, self.servers = free_port(), free_port()
        os.mkdir(self.path("data"))
        certificate, key = authority.issue("b.example", "DNS:b.example,DNS:conference.b.example")
        self.write_file("prosody.cfg.lua", CONFIGURATION, FOLDER=self.folder, CLIENTS=self.clients,
                        KEY=key, SERVERS=self.servers, CERTIFICATE=certificate,
                        AUTHORITY=authority.certificate, SECURE=self.SECURE)
        self.write_file("mod_places.lua", PLACES, HOLDLINE=holdline)

    def register(self, name, password):
        subprocess.run(["prosodyctl", "--config", self.path("prosody.cfg.lua"), "register", name,
                        "b.example", password], check=True, capture_output=True, timeout=30)

    def words(self):
        return ["prosody", "--config", self.path("prosody.cfg.lua")]

    def answers(self):
        return self.listens(self.clients) and self.listens(self.servers)

    @staticmethod
    def listens(port):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0


class WithNeighbour(Case):
    """Holdline has a.example, another server b.example."""

    SHARED, NEIGHBOUR, CERTIFIED = False, Prosody, False

    @classmethod
    def setUpClass(cls):
        slixmpp()
        folder = tempfile.mkdtemp(prefix="holdline-ca-")
        cls.addClassCleanup(shutil.rmtree, folder)
        authority = Authority(folder)
        certificate, key = authority.issue("a.example", "DNS:a.example")
        port = free_port()
        cls.neighbour = cls.NEIGHBOUR(port, authority)
        cls.addClassCleanup(cls.neighbour.close)
        cls.neighbour.register("bob", "secret")
        cls.neighbour.start()
        hosts = [f"{domain}=127.0.0.1:{cls.neighbour.servers}"
                 for domain in ("b.example", "conference.b.example")]
        how = changes("a.example", port, hosts, require_tls=True)
        how["listen.servers"] |= {"certificate": certificate, "key": key}
        if cls.CERTIFIED:
            how["federation"]["require_certificates"] = True
            certified(how, authority, certificate, key)
        cls.server = None
        cls.holdline = Server(how)
        cls.addClassCleanup(cls.holdline.close)

    def setUp(self):
        super().setUp()
        self.people = []

    async def two(self):
        name = own_name(self, "ann")
        self.holdline.ask("PUT", f"/v1/users/{name}", {"password": "secret"})
        ann = Neighbour(self.holdline.ports["xmpp"][1], f"{name}@a.example/desk", "secret")
        bob = Neighbour(self.neighbour.clients, "bob@b.example/phone", "secret")
        ann.jid, bob.jid = f"{name}@a.example", "bob@b.example"
        self.people += [ann, bob]
        return await ann.here(), await bob.here()


class Federated:
    """What people of both servers do, whoever has written the other one."""

    @together
    async def test_a_push_service_beyond_the_other_server_is_told(self):
        ann, bob = await self.two()
        jid = str(bob.client.boundjid)
        service = PushService(bob.client)
        self.assertIsNone(await asks(ann, "enable", jid, "ann's phone", secret="s"))
        await ann.leave()
        bob.say(ann.jid, "wake up")
        told = await service.next()
        self.assertEqual((told["from"], told["node"]), ("a.example", "ann's phone"))
        self.assertEqual(told["options"]["secret"], "s")
        self.assertNotIn("last-message-body", told["summary"])
        await nothing_owed(self.holdline)

    @together
    async def test_messages_pass_both_ways(self):
        ann, bob = await self.two()
        ann.say(bob.jid, "hello")
        heard = await bob.next()
        self.assertEqual((heard["body"], str(heard["from"])), ("hello", f"{ann.jid}/desk"))
        bob.say(ann.jid, "hello yourself")
        self.assertEqual((await ann.next())["body"], "hello yourself")
        bob.say(f"nobody.{ann.jid}", "anybody?")
        error = await bob.next("message_error")
        self.assertEqual(error["error"]["condition"], "service-unavailable")

    @together
    async def test_they_become_contacts_and_see_each_other(self):
        ann, bob = await self.two()
        ann.presence(bob.jid, "subscribe")
        await bob.until("presence_subscribe", ann.jid)
        bob.presence(ann.jid, "subscribed")
        await ann.until("presence_subscribed", bob.jid)
        await ann.comes(f"{bob.jid}/phone")
        bob.presence(ann.jid, "subscribe")
        await ann.until("presence_subscribe", bob.jid)
        ann.presence(bob.jid, "subscribed")
        await bob.comes(f"{ann.jid}/desk")
        ann.client.send_presence(pshow="away")
        await bob.until("presence_away", ann.jid)
        await ann.leave()
        await bob.until("presence_unavailable", f"{ann.jid}/desk")

    @together
    async def test_questions_pass_both_ways(self):
        ann, bob = await self.two()
        for one, other in ((ann, f"{bob.jid}/phone"), (bob, f"{ann.jid}/desk"),
                           (ann, "b.example"), (bob, "a.example")):
            await one.client.plugin["xep_0199"].send_ping(other, timeout=DEADLINE_S)
        info = await bob.client.plugin["xep_0030"].get_info("a.example", timeout=DEADLINE_S)
        self.assertIn(("server", "im", None, "Holdline"), info["disco_info"]["identities"])

    @together
    async def test_somebody_of_ours_is_in_a_room_of_theirs(self):
        ann, bob = await self.two()
        room = f"{self.name}@conference.b.example".lower()
        for person, nick in ((bob, "bob"), (ann, "ann")):
            person.client.register_plugin("xep_0045")
            person.hear("presence_available")
            joined = person.client.make_presence(pto=f"{room}/{nick}")
            joined.append(slixmpp().xmlstream.ET.Element("{http://jabber.org/protocol/muc}x"))
            joined.send()
            await person.until("presence_available", f"{room}/{nick}")
            if person is bob:
                form = bob.client.make_iq_set(ito=room)
                query = slixmpp().xmlstream.ET.SubElement(
                    form.xml, "{http://jabber.org/protocol/muc#owner}query")
                slixmpp().xmlstream.ET.SubElement(query, "{jabber:x:data}x", type="submit")
                await form.send(timeout=DEADLINE_S)
        ann.client.send_message(room, "hello, room", mtype="groupchat")
        for person in (ann, bob):
            while True:
                said = await person.next("groupchat_message")
                if said["body"]:
                    break
            self.assertEqual((said["body"], str(said["from"])), ("hello, room", f"{room}/ann"))
        bob.client.send_message(f"{room}/ann", "between us", mtype="chat")
        while (heard := await ann.next())["type"] != "chat":
            pass
        self.assertEqual((heard["body"], str(heard["from"])), ("between us", f"{room}/bob"))
        await ann.leave()
        await bob.until("presence_unavailable", f"{room}/ann")


class Prosodies(Federated, WithNeighbour):
    """With Prosody."""


class ProsodyThatCounts(Prosody):
    """One that believes certificates alone; behind them it says that it counts (XEP-0198)."""

    SECURE = "true"

    def logged(self, text):
        with open(self.path("log"), encoding="utf-8") as log:
            return text in log.read()


class Counting(WithNeighbour):
    """What passes is acknowledged, both ways."""

    NEIGHBOUR, CERTIFIED = ProsodyThatCounts, True

    @together
    async def test_both_servers_say_what_they_have(self):
        ann, bob = await self.two()
        for number in range(3):
            ann.say(bob.jid, f"{number}")
            self.assertEqual((await bob.next())["body"], f"{number}")
            bob.say(ann.jid, f"{number}, too")
            self.assertEqual((await ann.next())["body"], f"{number}, too")
        for text in ("Received ack request, acking for", "#queue = 0 (acked: "):
            poll(lambda text=text: self.neighbour.logged(text), text)

"""Other servers by their names: SRV of both kinds (RFC 6120 3.2, XEP-0368), IPv6, and none."""

import shutil
import socket
import ssl
import tempfile

import names
from certificates import Authority
from fixture import DEADLINE_S, Case, Server
from mqtt.broker import free_port
from xmpp.people import own_name, slixmpp, together
from xmpp.test_federation import HEADER, Neighbour


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as one:
            one.bind(("::1", 0))
        return True
    except OSError:
        return False


class Names(Case):
    """Two servers that find each other by a server of names; TLS must be, by valid certificates."""

    SHARED = False

    @classmethod
    def setUpClass(cls):
        slixmpp()
        cls.server = None
        cls.zone = names.Zone()
        cls.addClassCleanup(cls.zone.close)
        cls.folder = tempfile.mkdtemp(prefix="holdline-e2e-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        authority = Authority(cls.folder)
        cls.authority = authority.certificate
        host = "::1" if has_ipv6() else "127.0.0.1"
        shown = f"[{host}]" if ":" in host else host
        cls.pair, cls.ports = {}, {}
        for domain in ("a.example", "b.example"):
            certificate, key = authority.issue(domain, f"DNS:{domain}")
            direct, within = free_port(), free_port()
            cls.ports[domain] = (direct, within)
            listener = {"protocol": "xmpp-server", "client_certificates": "optional",
                        "client_ca": cls.authority}
            server = Server({
                "chat": {"domain": domain},
                "tls": {"certificate": certificate, "key": key},
                "names": {"servers": [cls.zone.at], "absence_s_max": 0, "answer_s_max": 0},
                "federation": {"enabled": True, "ca": cls.authority, "require_certificates": True,
                               "pause_ms": 0, "public_only": False},
                "listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"},
                "listen.direct": {**listener, "address": f"{shown}:{direct}", "tls": True},
                "listen.within": {**listener, "address": f"127.0.0.1:{within}"}})
            cls.pair[domain] = server
            cls.addClassCleanup(server.close)
        kind = names.AAAA if ":" in host else names.A
        cls.hosts = {("direct.example", kind): [names.address(host)],
                     ("within.example", names.A): [names.address("127.0.0.1")]}

    def setUp(self):
        super().setUp()
        self.servers = list(self.pair.values())
        self.people = []
        self.zone.records, self.zone.asked = dict(self.hosts), []

    def knows(self, domain, direct=True, within=True, first="direct"):
        """What is told of a domain: which of its services there are, and which comes first."""
        ports = dict(zip(("direct", "within"), self.ports[domain]))
        for kind, service, is_told in (("direct", "_xmpps-server", direct),
                                       ("within", "_xmpp-server", within)):
            if is_told:
                data = names.place(0 if kind == first else 10, 5, ports[kind], f"{kind}.example")
                self.zone.records[f"{service}._tcp.{domain}", names.SRV] = [data]

    def friend(self, name, domain):
        server, name = self.pair[domain], own_name(self, name)
        server.ask("PUT", f"/v1/users/{name}", {"password": f"secret of {name}"})
        friend = Neighbour(server.ports["xmpp"][1], f"{name}@{domain}/desk", f"secret of {name}")
        friend.jid = f"{name}@{domain}"
        context = friend.client.ssl_context
        friend.client.enable_starttls, friend.client.enable_plaintext = True, False
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.people.append(friend)
        return friend

    async def two(self):
        ann, bob = self.friend("ann", "a.example"), self.friend("bob", "b.example")
        return await ann.here(), await bob.here()

    async def talks(self):
        ann, bob = await self.two()
        ann.say(bob.jid, "hello")
        self.assertEqual((await bob.next())["body"], "hello")
        bob.say(ann.jid, "and back")
        self.assertEqual((await ann.next())["body"], "and back")

    @together
    async def test_a_domain_is_called_where_its_records_say_in_tls_from_the_first_byte(self):
        self.knows("a.example", within=False)
        self.knows("b.example", within=False)
        await self.talks()
        asked = {name for name, _ in self.zone.asked}
        self.assertIn("_xmpps-server._tcp.b.example", asked)
        self.assertIn(("direct.example", names.AAAA), self.zone.asked)

    @together
    async def test_without_a_service_of_tls_it_is_begun_within(self):
        self.knows("a.example", direct=False)
        self.knows("b.example", direct=False)
        await self.talks()

    @together
    async def test_what_comes_first_and_is_not_there_is_passed_over(self):
        for domain in ("a.example", "b.example"):
            self.knows(domain, first="direct")
            nobody = names.place(0, 5, free_port(), "within.example")
            self.zone.records[f"_xmpps-server._tcp.{domain}", names.SRV] = [nobody]
        await self.talks()

    @together
    async def test_a_domain_that_is_nowhere_is_said_to_be(self):
        ann, _ = await self.two()
        for records in ({}, {("_xmpp-server._tcp.c.example", names.SRV):
                             [names.place(0, 0, 0, ".")]}):
            self.zone.records = {**self.hosts, **records}
            said = ann.say("x@c.example", "anybody?")
            error = await ann.next("message_error")
            self.assertEqual((error["error"]["condition"], error["id"]),
                             ("remote-server-not-found", said))

    @together
    async def test_whoever_has_no_certificate_of_the_domain_is_not_spoken_with(self):
        ann, _ = await self.two()
        # The records of c.example lead to b.example's server.
        direct, _ = self.ports["b.example"]
        self.zone.records["_xmpps-server._tcp.c.example", names.SRV] = [
            names.place(0, 0, direct, "direct.example")]
        said = ann.say("x@c.example", "anybody?")
        error = await ann.next("message_error")
        self.assertEqual((error["error"]["condition"], error["id"]),
                         ("remote-server-timeout", said))

    def test_a_direct_stream_is_told_by_its_alpn(self):
        port = self.ports["b.example"][0]
        host = "::1" if has_ipv6() else "127.0.0.1"
        context = ssl.create_default_context(cafile=self.authority)
        context.set_alpn_protocols(["xmpp-server"])
        plain = socket.create_connection((host, port), timeout=DEADLINE_S)
        with context.wrap_socket(plain, server_hostname="b.example") as link:
            self.assertEqual(link.selected_alpn_protocol(), "xmpp-server")
            link.sendall(HEADER.format("z.example", "b.example").encode())
            heard = b""
            while b"</stream:features>" not in heard:
                piece = link.recv(65536)
                self.assertTrue(piece, heard)
                heard += piece
            self.assertNotIn(b"starttls", heard)

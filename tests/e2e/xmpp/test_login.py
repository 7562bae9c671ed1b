"""Logins by XMPP: plain, STARTTLS, direct TLS; and streams that are wrong."""

import base64
import hashlib
import shutil
import tempfile
import unittest

from certificates import Authority
from fixture import Server
from xmpp.people import HEADER, SASL, People, Scram, together

PORTS = {"listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"}}


def plain(name, password):
    data = base64.b64encode(f"\0{name}\0{password}".encode()).decode()
    return f"<auth xmlns='{SASL}' mechanism='PLAIN'>{data}</auth>"


class WithoutCertificate(People):
    CHANGES = PORTS

    @together
    async def test_a_password_is_proved_without_tls(self):
        ann = await self.person(self.ann, "desk").start()
        self.assertEqual(ann.client.boundjid.full, f"{self.ann}@localhost/desk")
        await ann.leave()

    @together
    async def test_the_listener_of_all_protocols_tells_xmpp_by_its_first_bytes(self):
        ann = await self.person(self.ann, listener="any").start()
        self.assertRegex(ann.client.boundjid.resource, "^[0-9a-f]{16}$", "one is made up")

    @together
    async def test_a_wrong_password_is_told_and_the_right_one_lets_in(self):
        other = self.person(self.ann, password="wrong one")
        other.client.connect("127.0.0.1", other.port)
        self.assertEqual((await other.next("failed_auth"))["condition"], "not-authorized")
        await other.next("disconnected")
        await self.person(self.ann).start()

    def test_logins_that_fail_are_tried_again_and_not_for_ever(self):
        link = self.stream()
        link.say(HEADER)
        link.until("</stream:features>")
        first, last = (base64.b64encode(text.encode()).decode()
                       for text in (f"n,,n={self.ann},r=abc", "c=biws,r=abc,p=AAAA"))
        with self.server.closes(auth_failed=1):
            for _ in range(3):
                link.say(f"<auth xmlns='{SASL}' mechanism='SCRAM-SHA-256'>{first}</auth>")
                link.until("</challenge>")
                link.say(f"<response xmlns='{SASL}'>{last}</response>")
                link.until("<not-authorized/></failure>")
            self.assertIn("<policy-violation ", link.rest())

    def test_a_password_itself_is_not_asked_for_nor_taken(self):
        link = self.stream()
        link.say(HEADER)
        features = link.until("</stream:features>")
        self.assertIn("<mechanism>SCRAM-SHA-256</mechanism>", features)
        self.assertNotIn("PLAIN", features)
        link.say(plain(self.ann, f"secret of {self.ann}"))
        link.until("<invalid-mechanism/></failure>")

    def test_what_is_no_stream_is_answered_by_an_error_within_one(self):
        laughs = ("<?xml version='1.0'?><!DOCTYPE lolz [<!ENTITY lol 'lol'>"
                  "<!ENTITY lol2 '&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;'>]>" + HEADER)
        for said, fault, reason in (
                (laughs, "restricted-xml", "malformed"),
                (HEADER.replace("to='localhost'", "to='b.example'"), "host-unknown", "auth_failed"),
                (HEADER + "<message to='a@localhost'><body>x</body></message>", "not-authorized",
                 "out_of_order"),
                (HEADER + "<a" + "b" * 5000, "policy-violation", "too_large"),
                (HEADER + "<a></b>", "not-well-formed", "malformed")):
            with self.subTest(fault=fault), self.server.closes(**{reason: 1}):
                link = self.stream()
                link.say(said)
                told = link.rest()
                self.assertTrue(told.startswith("<?xml version='1.0'?><stream:stream "), told)
                self.assertIn(f"<stream:error><{fault} ", told)
                self.assertTrue(told.endswith("</stream:stream>"), told)


class WithCertificate(People):
    SHARED = False

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="holdline-e2e-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        authority = Authority(cls.folder)
        certificate, key = authority.issue("localhost", "DNS:localhost")
        cls.authority = authority.certificate
        cls.server = Server({
            **PORTS, "tls": {"certificate": certificate, "key": key},
            "listen.xmpps": {"address": "127.0.0.1:0", "protocol": "xmpp", "tls": True}})
        cls.addClassCleanup(cls.server.close)

    @together
    async def test_tls_begins_within_the_stream(self):
        for mechanism in ("SCRAM-SHA-256", "PLAIN"):
            for listener in ("xmpp", "any"):
                ann = self.person(self.ann, listener=listener, authority=self.authority,
                                  mechanism=mechanism)
                await ann.start()
                self.assertIn("starttls", ann.client.features)
                await ann.leave()

    @together
    async def test_tls_stands_before_the_stream(self):
        ann = self.person(self.ann, listener="xmpps", authority=self.authority, direct=True)
        await ann.start()
        self.assertNotIn("starttls", ann.client.features)

    def test_direct_tls_is_agreed_by_its_name_in_alpn(self):
        link = self.stream("xmpps", self.authority)
        self.assertEqual(link.socket.selected_alpn_protocol(), "xmpp-client")
        link.say(HEADER)
        self.assertIn("PLAIN", link.until("</stream:features>"))

    def bound(self, name):
        """A stream by hand, in TLS, that is bound and acknowledges."""
        link = self.stream("xmpps", self.authority)
        link.say(HEADER)
        link.until("</stream:features>")
        link.say(plain(name, f"secret of {name}"))
        link.until("</success>")
        link.say(HEADER)
        self.assertIn("<sm xmlns='urn:xmpp:sm:3'/>", link.until("</stream:features>"))
        link.say("<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>"
                 "<enable xmlns='urn:xmpp:sm:3'/>")
        link.until("<enabled xmlns='urn:xmpp:sm:3'/>")
        return link

    def test_what_is_acknowledged_is_stored_and_what_is_not_comes_again(self):
        ask, bob = "<r xmlns='urn:xmpp:sm:3'/>", self.bound(self.bob)
        bob.say("<presence/>")
        bob.until("</presence>")
        ann = self.bound(self.ann)
        ann.say(f"<message to='{self.bob}@localhost' type='chat'><body>kept</body></message>{ask}")
        ann.until("h='1'/>")
        self.assertNotIn("<delay", bob.until(ask))
        self.server.kill()
        self.server.start()
        bob = self.bound(self.bob)
        bob.say("<presence/>")
        told = bob.until(ask)
        self.assertEqual((told.count("<body>kept</body>"), told.count("<delay ")), (1, 1))
        # Its presence is a stanza, too.
        bob.say("<a xmlns='urn:xmpp:sm:3' h='2'/><iq type='get' id='p'>"
                "<ping xmlns='urn:xmpp:ping'/></iq></stream:stream>")
        bob.rest()
        self.server.settle()
        bob = self.bound(self.bob)
        bob.say("<presence/><iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>")
        self.assertNotIn("<body>", bob.until("id='p'"))

    def log_in(self, flag, bound, plus=True):
        """Logs in by SCRAM on a connection in TLS; what the server says in the end."""
        link = self.stream("xmpps", self.authority)
        certificate = hashlib.sha256(link.socket.getpeercert(True)).digest()
        link.say(HEADER)
        features = link.until("</stream:features>")
        self.assertIn("<mechanism>SCRAM-SHA-256-PLUS</mechanism>", features)
        self.assertIn("<channel-binding type='tls-server-end-point'/>", features)
        scram = Scram(self.ann, f"secret of {self.ann}", flag, bound(certificate))
        mechanism = "SCRAM-SHA-256" + ("-PLUS" if plus else "")
        link.say(f"<auth xmlns='{SASL}' mechanism='{mechanism}'>{scram.first}</auth>")
        told = link.until("</")
        if "challenge" not in told:
            return told + link.until(">"), ""
        challenge = told.split(">", 1)[1][:-2]
        last, expected = scram.last(challenge)
        link.say(f"<response xmlns='{SASL}'>{last}</response>")
        told = link.until("</success>" if link.peek("success") else "</failure>")
        return told, expected

    def test_a_login_is_bound_to_its_connection(self):
        end_point = "p=tls-server-end-point"
        told, expected = self.log_in(end_point, lambda certificate: certificate)
        self.assertIn(f"<success xmlns='{SASL}'>{expected}</success>", told)
        told, expected = self.log_in("n", lambda _: b"", plus=False)
        self.assertIn(f"<success xmlns='{SASL}'>{expected}</success>", told)
        told, _ = self.log_in(end_point, lambda certificate: certificate[::-1])
        self.assertIn("<not-authorized/>", told, "somebody in between has another certificate")
        for flag, plus in (("y", False), (end_point, False), ("n", True), ("p=tls-unique", True)):
            told, _ = self.log_in(flag, lambda certificate: certificate, plus)
            self.assertIn("<not-authorized/>", told, f"{flag} {plus}")

    def test_nothing_is_offered_before_tls_and_no_login_taken(self):
        link = self.stream()
        link.say(HEADER)
        features = link.until("</stream:features>")
        self.assertIn("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/></starttls>",
                      features)
        self.assertNotIn("mechanism", features)
        link.say(plain(self.ann, f"secret of {self.ann}"))
        link.until("<encryption-required/></failure>")

    def test_plain_text_behind_starttls_is_no_stanza(self):
        link = self.stream()
        link.say(HEADER)
        link.until("</stream:features>")
        with self.server.closes(tls_failed=1):
            link.say("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"
                     + plain(self.ann, f"secret of {self.ann}"))
            self.assertNotIn("success", link.rest())


if __name__ == "__main__":
    unittest.main()

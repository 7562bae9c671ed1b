"""Hostile streams of XMPP, by hand: each ends by its own error and one counted reason, costs no
more than limits with names, and whoever else is there is served meanwhile."""

import socket

from test_memory import MIB, Bounded
from xmpp.people import HEADER, People
from xmpp.test_resume import BIND, SM

PING = "<iq type='get' id='{}' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>"
PORTS = {"listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"}}


class Hostile(People):
    """Whoever is bound sends what no client may."""

    CHANGES = {**PORTS, "chat": {"contacts_an_account_max": 100}}

    def here(self, name):
        """A bound stream that asks for no acknowledgements."""
        stream = self.logged_in(name)
        stream.say(f"<iq type='set' id='b'><bind xmlns='{BIND}'/></iq>")
        stream.until("</iq>")
        return stream

    def is_served(self, stream, number):
        stream.say(PING.format(number))
        stream.until(f"id='{number}'")

    def test_what_is_no_xml_ends_the_stream_by_its_own_error_and_nobody_else_s(self):
        bob = self.here(self.bob)
        deep = "<a>" * 65 + "</a>" * 65
        wide = "<a>" + "<b/>" * 4_100 + "</a>"
        attributes = "".join(f" a{at}=''" for at in range(65))
        for number, (said, fault, reason) in enumerate((
                ("<message><body>&lol;</body></message>", "not-well-formed", "malformed"),
                ("<message><!-- x --></message>", "restricted-xml", "malformed"),
                ("<message><?x y?></message>", "restricted-xml", "malformed"),
                ("<!DOCTYPE x [<!ENTITY a 'b'>]>", "restricted-xml", "malformed"),
                (f"<message>{deep}</message>", "policy-violation", "too_large"),
                (f"<message>{wide}</message>", "policy-violation", "too_large"),
                (f"<message{attributes}/>", "policy-violation", "too_large"),
                (f"<{'a' * 300}/>", "policy-violation", "too_large"),
                ("<message><p:x/></message>", "bad-namespace-prefix", "malformed"),
                ("<message xmlns='jabber:server'/>", "unsupported-stanza-type", "unknown_opcode"),
                ("<message from='bob@localhost/x'/>", "invalid-from", "auth_failed"),
        )):
            with self.subTest(said=said[:40]):
                ann = self.here(self.ann)
                with self.server.closes(**{reason: 1}):
                    ann.say(said)
                    told = ann.rest()
                self.assertIn(f"<stream:error><{fault} ", told)
                self.assertTrue(told.endswith("</stream:stream>"), told)
                self.is_served(bob, f"p{number}")

    def test_bytes_of_a_letter_may_come_apart_and_bytes_of_none_end_the_stream(self):
        ann = self.here(self.ann)
        text = PING.format("ü€😀").encode()
        for byte in text:
            ann.socket.sendall(bytes([byte]))
        ann.until("id='ü€😀'")
        ann.socket.sendall(b"<message><body>\xff\xfe</body></message>")
        self.assertIn("<not-well-formed ", ann.rest())

    def test_a_roster_has_so_many_and_one_more_is_refused(self):
        ann = self.here(self.ann)
        item = ("<iq type='set' id='r{0}'><query xmlns='jabber:iq:roster'>"
                "<item jid='x{0}@localhost' name='x'/></query></iq>")
        for at in range(101):
            ann.say(item.format(at))
        ann.until("id='r99'")
        self.assertIn("<policy-violation ", ann.until("id='r100'") + ann.until("</iq>"))
        self.is_served(ann, "after")


class Unread(Bounded, People):
    """What is for somebody who never reads."""

    MORE, TEXT = PORTS, "x" * 16_000

    def test_what_comes_for_a_client_that_acknowledges_nothing_is_bounded(self):
        bob = self.logged_in(self.bob)
        bob.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        bob.say(f"<iq type='set' id='b'><bind xmlns='{BIND}'><resource>desk</resource></bind></iq>"
                f"<enable xmlns='{SM}' resume='true'/><presence/>")
        bob.until("max='300'/>")
        ann = self.logged_in(self.ann)
        ann.say(f"<iq type='set' id='b'><bind xmlns='{BIND}'/></iq>")
        ann.until("</iq>")
        headline = (f"<message type='headline' to='{self.bob}@localhost/desk'>"
                    f"<body>{self.TEXT}</body></message>")
        before, said = self.memory(), 0
        for at in range(50):
            ann.say(headline * 20 + PING.format(f"p{at}"))
            ann.until(f"id='p{at}'")
            said += 20 * len(headline)
        # A connection has what it may leave unread, a session that is away `resume_bytes_max`.
        took = self.memory() - before
        self.assertLess(took, 2 * (self.OUT + MIB) + 4 * MIB, f"of {said / MIB:.0f} MiB")
        self.assertGreater(said, 12 * MIB)

    def test_streams_that_never_log_in_cost_what_a_header_may_have(self):
        count = 200
        for _ in range(count):
            link = self.stream()
            link.say(HEADER + "<auth " + "x" * 3_500)
        ann = self.logged_in(self.ann)
        ann.say(PING.format("p"))
        self.bounded(count * 3 * 4_096)

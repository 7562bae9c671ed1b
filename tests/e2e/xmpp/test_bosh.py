"""XMPP in requests of HTTP (BOSH, XEP-0124 and 0206), as strophe.js speaks it, and by hand."""

import functools
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import tempfile
import unittest

from certificates import Authority
from fixture import DEADLINE_S, Server, poll
from im.page import Chromium
from xmpp.people import BUILT, SASL, People, Scram, together
from xmpp.site import site

FOLDER = os.path.dirname(os.path.abspath(__file__))
STROPHE = os.path.join(BUILT, "xmpp-js", "node_modules", "strophe.js", "dist", "strophe.umd.cjs")
BODY = "http://jabber.org/protocol/httpbind"
XML = "text/xml; charset=utf-8"


def message(to, text):
    return (f"<message xmlns='jabber:client' type='chat' to='{to}@localhost'>"
            f"<body>{text}</body></message>")


def ended(condition):
    return f"<body xmlns='{BODY}' type='terminate' condition='{condition}'/>"


class Session:
    """A session by hand: each request over a connection of its own, or over one that is given."""

    def __init__(self, address, rid=100, tls=None, wait="30", **attributes):
        self.address, self.rid, self.tls, self.sid = address, rid, tls, None
        told = self.ask("", to="localhost", wait=wait, hold="1", **attributes)
        self.begun = told
        self.sid = re.search(r" sid='([0-9a-f]{32})'", told).group(1)

    def connect(self):
        if self.tls:
            return http.client.HTTPSConnection("localhost", self.address[1], timeout=DEADLINE_S,
                                               context=self.tls)
        return http.client.HTTPConnection(*self.address, timeout=DEADLINE_S)

    def text(self, inner, rid=None, **attributes):
        if rid is None:
            rid, self.rid = self.rid, self.rid + 1
        attributes = {**attributes, "rid": str(rid), **({"sid": self.sid} if self.sid else {})}
        told = "".join(f" {name.replace('_', ':')}='{value}'"
                       for name, value in attributes.items())
        return f"<body xmlns='{BODY}' xmlns:xmpp='urn:xmpp:xbosh'{told}>{inner}</body>"

    def post(self, connection, text):
        connection.request("POST", "/http-bind", text, {"Content-Type": XML})

    @staticmethod
    def told(connection):
        response = connection.getresponse()
        told = response.read().decode()
        connection.close()
        if response.status != 200:
            raise AssertionError(f"{response.status} {told}")
        return told

    def ask(self, inner, rid=None, **attributes):
        connection = self.connect()
        self.post(connection, self.text(inner, rid, **attributes))
        return self.told(connection)

    def until(self, text, inner="", **attributes):
        """Asks until this comes; all that came."""
        told = self.ask(inner, **attributes)
        while text not in told:
            told += self.ask("")
        return told

    def log_in(self, name, resource="b"):
        scram = Scram(name, f"secret of {name}")
        told = self.until("</challenge>",
                          f"<auth xmlns='{SASL}' mechanism='SCRAM-SHA-256'>{scram.first}</auth>")
        last, verifier = scram.last(re.search(r">([^<>]*)</challenge>", told).group(1))
        told = self.until("<success ", f"<response xmlns='{SASL}'>{last}</response>")
        if verifier not in told:
            raise AssertionError(told)
        self.until("<bind ", xmpp_restart="true", to="localhost")
        self.until("</jid>", "<iq xmlns='jabber:client' type='set' id='1'><bind "
                   "xmlns='urn:ietf:params:xml:ns:xmpp-bind'>"
                   f"<resource>{resource}</resource></bind></iq>")
        self.until("<presence ", "<presence xmlns='jabber:client'/>")
        return self



class Bosh(People):
    SHARED = False

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="holdline-e2e-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        authority = Authority(cls.folder)
        certificate, key = authority.issue("localhost", "DNS:localhost")
        cls.authority = authority.certificate
        cls.origin = site(cls, {"/": os.path.join(FOLDER, "bosh_page.html"),
                                "/strophe.js": STROPHE})
        cls.server = Server({
            "tls": {"certificate": certificate, "key": key},
            "limits": {"frame_ms_max": 1000},
            "bosh": {"sessions_max": 40, "inactivity_s": 5},
            "listen.any": {"websocket": True, "bosh": "/http-bind",
                           "websocket_origins": [cls.origin]},
            "listen.alone": {"address": "127.0.0.1:0", "protocol": "http", "bosh": "/http-bind"},
            "listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"},
            "listen.web": {"address": "127.0.0.1:0", "protocol": "xmpp", "tls": True,
                           "bosh": "/http-bind", "websocket_origins": [cls.origin]}})
        cls.addClassCleanup(cls.server.close)

    def session(self, listener="any", **how):
        return Session(self.server.ports[listener], **how)

    def request(self, method, path, body=None, headers=None, listener="any"):
        connection = http.client.HTTPConnection(*self.server.ports[listener], timeout=DEADLINE_S)
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        told = response.read().decode()
        connection.close()
        return response, told

    @together
    async def test_a_page_of_another_site_talks_with_strophe(self):
        if not Chromium.path() or not os.path.exists(STROPHE):
            self.skipTest("Chromium or strophe.js is not installed: NO BROWSER WAS TRIED")
        chromium = Chromium()
        self.addCleanup(chromium.close)
        bob = await self.person(self.bob, authority=self.authority).start()
        page = chromium.page()
        page.open(f"{self.origin}/")
        for keys in (False, True):
            url = f"http://127.0.0.1:{self.server.ports['any'][1]}/http-bind"
            word = json.dumps([url, f"{self.ann}@localhost", f"secret of {self.ann}", keys])
            page.run(f"come(...{word}); true")
            page.until("states.at(-1) === 'CONNECTED'", "Ann is there")
            page.run(f"say({json.dumps(self.bob + '@localhost')}, 'hello <&> 世界'); true")
            self.assertEqual((await bob.next())["body"], "hello <&> 世界")
            for number in range(50):
                bob.say(f"{self.ann}@localhost", f"{number} > &")
            await bob.ping()
            page.until("heard.length === 50", "fifty messages came")
            self.assertEqual(page.run("heard.splice(0)"), [f"{n} > &" for n in range(50)])
            page.run("connection.disconnect(); true")
            page.until("states.at(-1) === 'DISCONNECTED'", "Ann is gone")
        poll(lambda: self.server.reading("bosh_sessions") == 0, "her sessions are over")
        own = f"it asked for {url}"
        self.assertEqual([it for it in page.errors if "favicon" not in it and it != own], [])

    def test_a_session_goes_on_over_many_connections_at_once(self):
        ann, bob = self.session().log_in(self.ann), self.session(wait="0").log_in(self.bob)
        heard = ""
        for number in range(40):
            waiting = ann.connect()
            ann.post(waiting, ann.text(""))
            bob.ask(message(self.ann, f"n{number}"))
            heard += ann.told(waiting)
        while "n39<" not in heard:
            heard += ann.ask("")
        self.assertEqual(re.findall(r"<body>n(\d+)</body>", heard), [str(n) for n in range(40)])
        for session in (ann, bob):
            self.assertIn("type='terminate'", session.ask("", type="terminate"))
            self.assertEqual(session.ask(""), ended("item-not-found"))

    def test_what_was_lost_on_the_way_is_given_again_and_said_once(self):
        ann, bob = self.session().log_in(self.ann), self.session(wait="0").log_in(self.bob)
        for number in range(5):
            text = bob.text(message(self.ann, f"n{number}"))
            lost = bob.connect()
            bob.post(lost, text)
            lost.close()
            # Whether the first has come or not, it is said once.
            again = bob.connect()
            bob.post(again, text)
            answers = [ann.until(f"n{number}<")]
            self.assertEqual("".join(answers).count(f"n{number}<"), 1)
            bob.ask("")
            told = bob.told(again)
            self.assertTrue(told.startswith("<body "), told)
            kept = bob.connect()
            bob.post(kept, text)
            self.assertEqual(bob.told(kept), told)
        held = ann.connect()
        waiting = ann.text("")
        ann.post(held, waiting)
        held.close()
        bob.ask("<presence xmlns='jabber:client'/>" + message(self.ann, "while away"))
        again = ann.connect()
        ann.post(again, waiting)
        self.assertIn("while away", ann.told(again))

    def test_overtaken_requests_wait_for_their_turn(self):
        ann, bob = self.session().log_in(self.ann), self.session().log_in(self.bob)
        rid = bob.rid
        bob.rid += 2
        second = bob.connect()
        bob.post(second, bob.text(message(self.ann, "two"), rid + 1))
        first = bob.connect()
        bob.post(first, bob.text(message(self.ann, "one"), rid))
        heard = ann.until("two<")
        self.assertLess(heard.index("one<"), heard.index("two<"))
        self.assertTrue(bob.told(first).startswith("<body "))
        third = bob.ask("", rid + 9)
        self.assertEqual(third, ended("item-not-found"))
        self.assertIn("item-not-found", bob.told(second))

    def test_who_takes_the_resource_ends_the_session_with_an_error(self):
        ann = self.session().log_in(self.ann)
        waiting = ann.connect()
        ann.post(waiting, ann.text(""))
        self.session().log_in(self.ann)
        told = ann.told(waiting)
        self.assertIn("condition='remote-stream-error'", told)
        self.assertIn("<conflict ", told)
        self.assertEqual(ann.ask(""), ended("item-not-found"))

    def test_what_is_announced_and_never_sent_takes_no_room_from_others(self):
        head = b"POST /http-bind HTTP/1.1\r\nHost: localhost\r\nContent-Length: 262144\r\n\r\n"
        for _ in range(300):
            link = socket.create_connection(self.server.ports["any"])
            self.addCleanup(link.close)
            link.sendall(head)
        self.session().log_in(self.ann)

    def test_whoever_falls_silent_is_gone(self):
        before = self.server.reading("bosh_sessions")
        sessions = [self.session() for _ in range(3)]
        sessions[0].log_in(self.ann)
        self.assertEqual(self.server.reading("bosh_sessions"), before + 3)
        poll(lambda: self.server.reading("bosh_sessions") == 0, "they are gone")
        self.assertEqual(sessions[0].ask(""), ended("item-not-found"))

    def test_what_begins_in_tls_stays_in_it(self):
        context = ssl.create_default_context(cafile=self.authority)
        ann = self.session("web", tls=context)
        self.assertIn("<mechanism>PLAIN</mechanism>", ann.begun)
        self.assertNotIn("-PLUS", ann.begun)
        self.assertNotIn("starttls", ann.begun)
        plain = self.session()
        self.assertNotIn("PLAIN", plain.begun)
        self.assertNotIn("starttls", plain.begun)
        _, told = self.request("POST", "/http-bind", ann.text("", 101))
        self.assertEqual(told, ended("item-not-found"))
        ann.log_in(self.ann)

    def test_a_site_is_let_in_by_its_name(self):
        headers = {"Content-Type": XML, "Origin": self.origin}
        begin = f"<body xmlns='{BODY}' rid='1' to='localhost'/>"
        response, told = self.request("POST", "/http-bind", begin, headers)
        self.assertEqual(response.status, 200, told)
        self.assertEqual(response.getheader("Access-Control-Allow-Origin"), self.origin)
        response, _ = self.request("OPTIONS", "/http-bind", headers=headers)
        self.assertEqual((response.status, response.getheader("Access-Control-Allow-Headers")),
                         (204, "Content-Type"))
        self.assertIn("POST", response.getheader("Access-Control-Allow-Methods"))
        for origin in ("http://elsewhere.example", "null"):
            refused = self.server.reading("bosh_origin_total")
            for method in ("POST", "OPTIONS"):
                response, told = self.request(method, "/http-bind", begin, {"Origin": origin})
                self.assertEqual(response.status, 403)
                self.assertIsNone(response.getheader("Access-Control-Allow-Origin"))
            self.assertEqual(self.server.reading("bosh_origin_total"), refused + 2)

    def test_host_meta_says_where_xmpp_is(self):
        port = self.server.ports["any"][1]
        response, told = self.request("GET", "/.well-known/host-meta.json")
        self.assertEqual(response.getheader("Access-Control-Allow-Origin"), "*")
        self.assertEqual(json.loads(told)["links"], [
            {"rel": "urn:xmpp:alt-connections:xbosh", "href": f"http://127.0.0.1:{port}/http-bind"},
            {"rel": "urn:xmpp:alt-connections:websocket",
             "href": f"ws://127.0.0.1:{port}/xmpp-websocket"}])
        response, told = self.request("GET", "/.well-known/host-meta", listener="alone")
        self.assertEqual(response.getheader("Content-Type"), "application/xrd+xml")
        self.assertIn("/http-bind'/></XRD>", told)
        for method, path, status in (("POST", "/.well-known/host-meta", 405),
                                     ("GET", "/.well-known/host-meta.txt", 404),
                                     ("GET", "/http-bind", 405), ("POST", "/http-bindx", 404)):
            self.assertEqual(self.request(method, path)[0].status, status, path)

    def test_a_connection_is_kept_where_nothing_else_is_served(self):
        for listener, kept in (("alone", None), ("any", "close")):
            begin = f"<body xmlns='{BODY}' rid='1' to='localhost'/>"
            response, _ = self.request("POST", "/http-bind", begin, listener=listener)
            self.assertEqual(response.getheader("Connection"), kept, listener)

    def test_what_is_no_request_is_answered_in_words(self):
        ask = functools.partial(self.request, "POST", "/http-bind")
        for text, condition in (
                ("", "bad-request"), ("<body/>", "bad-request"), ("x" * 5000, "bad-request"),
                (f"<body xmlns='{BODY}' rid='1'/>", "improper-addressing"),
                (f"<body xmlns='{BODY}' rid='x' to='localhost'/>", "bad-request"),
                (f"<body xmlns='{BODY}' rid='1' sid='{'0' * 32}'/>", "item-not-found"),
                (f"<!DOCTYPE a [<!ENTITY b 'c'>]><body xmlns='{BODY}' rid='1'/>", "bad-request"),
                (f"<body xmlns='{BODY}' rid='1' to='localhost'>{'<a>' * 99}{'</a>' * 99}</body>",
                 "policy-violation"),
                (f"<body xmlns='{BODY}' rid='1' to='localhost'><a>", "bad-request")):
            response, told = ask(text)
            self.assertEqual((response.status, told), (200, ended(condition)), text[:99])
        for host in ("elsewhere.example", "localhost/x", "&lt;"):
            _, told = ask(f"<body xmlns='{BODY}' rid='1' to='{host}'/>")
            self.assertIn("condition='host-unknown'", told)
        _, told = ask(f"<body xmlns='{BODY}' rid='1' to='localhost'><message/></body>")
        self.assertIn("<not-authorized ", told)
        response, _ = ask("x" * (300 * 1024))
        self.assertEqual(response.status, 413)
        slow = http.client.HTTPConnection(*self.server.ports["any"], timeout=DEADLINE_S)
        slow.putrequest("POST", "/http-bind")
        slow.putheader("Content-Length", "100")
        slow.endheaders(b"<body ")
        self.assertEqual(slow.getresponse().status, 413)
        slow.close()

    def test_there_are_as_many_sessions_as_there_may_be(self):
        begin = f"<body xmlns='{BODY}' rid='1' to='localhost'/>"
        statuses = [self.request("POST", "/http-bind", begin)[0].status for _ in range(45)]
        self.assertEqual(statuses[-1], 503)
        self.assertEqual(set(statuses), {200, 503})
        self.assertLessEqual(self.server.reading("bosh_sessions"), 40)
        poll(lambda: self.server.reading("bosh_sessions") == 0, "they are gone")


if __name__ == "__main__":
    unittest.main()

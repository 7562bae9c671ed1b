"""People with slixmpp, a client of XMPP that others have written; and a stream by hand.

A test is a coroutine under `together`, which ends whoever is left.
"""

import asyncio
import base64
import functools
import hashlib
import hmac
import os
import re
import socket
import ssl
import sys
import unittest

import fixture
from fixture import DEADLINE_S, Case
from im.terminal import CommandLine

BUILT = os.environ.get("HOLDLINE_E2E_CLIENTS") or os.path.join(fixture.TARGET, "e2e-clients")
HEADER = ("<?xml version='1.0'?><stream:stream xmlns='jabber:client' version='1.0' "
          "xmlns:stream='http://etherx.jabber.org/streams' to='localhost'>")
SASL = "urn:ietf:params:xml:ns:xmpp-sasl"


def add_users(server, lines):
    """Makes accounts, a line NAME,PASSWORD each."""
    while lines:
        # It takes a few passwords at a time.
        done = server.ask("POST", "/v1/users", {"form": "csv", "lines": lines[:1_000]})
        del lines[:done["done"]]


def encoded(data):
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


class Scram:
    """A client's side of SCRAM (RFC 5802), by a hash, bound to `bound` if that has a name."""

    def __init__(self, name, password, flag="n", bound=b"", kind="sha256"):
        self.password, self.header, self.bound = password, f"{flag},,", bound
        self.kind = kind
        self.bare = f"n={name},r=0123456789"
        self.first = encoded(self.header + self.bare)

    def last(self, challenge):
        """The last message of the client, and what the server's is."""
        answer = base64.b64decode(challenge).decode()
        fields = dict(field.split("=", 1) for field in answer.split(","))
        salt, rounds = base64.b64decode(fields["s"]), int(fields["i"])
        mac = lambda key, text: hmac.digest(key, text.encode(), self.kind)  # noqa: E731
        salted = hashlib.pbkdf2_hmac(self.kind, self.password.encode(), salt, rounds)
        key = mac(salted, "Client Key")
        without_proof = f"c={encoded(self.header.encode() + self.bound)},r={fields['r']}"
        signed = f"{self.bare},{answer},{without_proof}"
        signature = mac(hashlib.new(self.kind, key).digest(), signed)
        proof = encoded(bytes(one ^ other for one, other in zip(key, signature)))
        verifier = encoded(mac(mac(salted, "Server Key"), signed))
        return encoded(f"{without_proof},p={proof}"), encoded(f"v={verifier}")


def slixmpp():
    folder = os.path.join(BUILT, "slixmpp")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        import slixmpp as library
    except ImportError as error:
        raise unittest.SkipTest(f"slixmpp is not installed: {error}") from None
    return library


def together(test):
    """Runs a test that is a coroutine, in time, and lets everybody go whom it has called."""
    @functools.wraps(test)
    def run(self):
        async def whole():
            try:
                await asyncio.wait_for(test(self), 3 * DEADLINE_S)
            finally:
                for person in self.people:
                    person.client.abort()
                await asyncio.sleep(0)
        asyncio.run(whole())
    return run


class Person:
    """One device of somebody: what it was told waits in queues, by kind."""

    def __init__(self, port, jid, password, authority=None, direct=False, mechanism=None,
                 plugins=()):
        library = slixmpp()
        self.client = client = library.ClientXMPP(jid, password, sasl_mech=mechanism)
        client.enable_plaintext = authority is None
        client.enable_direct_tls = direct
        client.enable_starttls = authority is not None and not direct
        client.ca_certs = authority
        # Over loopback without a certificate there is nobody in between.
        client.plugin["feature_mechanisms"].config["unencrypted_scram"] = True
        for plugin in ("0030", "0092", "0199", "0202", "0203", "0280", "0359", *plugins):
            client.register_plugin(f"xep_{plugin}")
        self.host, self.port, self.queues = "127.0.0.1", port, {}
        # A message without a body is none to slixmpp; what it has of it is an event of its own.
        for kind in ("session_start", "message", "chatstate", "reactions", "message_error",
                     "carbon_sent", "stream_error", "failed_auth", "disconnected"):
            self.hear(kind)

    def hear(self, kind):
        """What the library tells of this kind waits from here on."""
        self.queues[kind] = queue = asyncio.Queue()

        def put(told):
            # An error has the body of what it answers, and is an event of its own.
            if kind != "message" or told["type"] != "error":
                queue.put_nowait(told)

        self.client.add_event_handler(kind, put)

    async def next(self, kind="message"):
        return await asyncio.wait_for(self.queues[kind].get(), DEADLINE_S)

    async def start(self, there=True):
        """Logs in, and says that it is there."""
        self.client.connect(self.host, self.port)
        began, failed = (asyncio.ensure_future(self.queues[kind].get())
                         for kind in ("session_start", "disconnected"))
        await asyncio.wait([began, failed], timeout=DEADLINE_S,
                           return_when=asyncio.FIRST_COMPLETED)
        failed.cancel()
        if not began.done():
            began.cancel()
            raise AssertionError("not logged in")
        if there:
            await self.shows_itself()
        return self

    async def shows_itself(self):
        """Says that it is there, and waits until it is for everybody: one's own presence comes back
        (RFC 6121 4.2.2) before the account's home has it, so a ping of oneself goes behind it."""
        comes, own = asyncio.Event(), self.client.boundjid.full

        def told(stanza):
            if stanza["from"] == own:
                comes.set()
        self.client.add_event_handler("presence_available", told)
        self.client.send_presence()
        await asyncio.wait_for(comes.wait(), DEADLINE_S)
        self.client.del_event_handler("presence_available", told)
        await self.client.plugin["xep_0199"].send_ping(own, timeout=DEADLINE_S)

    async def ping(self):
        """What was said before has been taken."""
        await self.client.plugin["xep_0199"].send_ping("localhost", timeout=DEADLINE_S)

    def say(self, to, text, **more):
        message = self.client.make_message(to, text, mtype="chat", **more)
        message.send()
        return message["id"]

    async def hears(self, count):
        """The bodies of so many messages."""
        return [(await self.next())["body"] for _ in range(count)]

    async def leave(self):
        self.client.disconnect()
        await self.next("disconnected")


def own_name(test, name):
    """A name of somebody in this test alone."""
    return f"{test.name}.{name}"[-60:].lstrip(".-_")


class People(CommandLine, Case):
    """Accounts of the test's own, with a password each."""

    def setUp(self):
        super().setUp()
        slixmpp()
        self.people = []
        self.ann, self.bob = (self.account(name) for name in ("ann", "bob"))

    def account(self, name):
        name = own_name(self, name)
        self.server.ask("PUT", f"/v1/users/{name}", {"password": f"secret of {name}"})
        return name

    def flags(self, user):
        return [*super().flags(user), "--password", f"secret of {user}"]

    def person(self, name, resource="", listener="xmpp", password=None, **how):
        jid = f"{name}@localhost" + (f"/{resource}" if resource else "")
        password = password or f"secret of {name}"
        person = Person(self.server.ports[listener][1], jid, password, **how)
        self.people.append(person)
        return person

    def stream(self, listener="xmpp", authority=None):
        link = Stream(self.server.ports[listener], authority)
        self.addCleanup(link.close)
        return link

    def logged_in(self, name):
        """A stream by hand behind a login."""
        return self.stream().log_in(name)


class Stream:
    """A stream by hand: what is sent and what comes is text."""

    def __init__(self, address, authority=None):
        """`address`: where to connect to, or a socket that is connected."""
        is_connected = isinstance(address, socket.socket)
        self.socket = address if is_connected else socket.create_connection(address, DEADLINE_S)
        self.seen = ""
        if authority:
            self.encrypt(authority)

    def encrypt(self, authority):
        context = ssl.create_default_context(cafile=authority)
        context.set_alpn_protocols(["xmpp-client"])
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost")

    def log_in(self, name, password=None):
        """A login, up to the features behind it; itself. The password is `secret of NAME`, or the
        one that is given."""
        self.say(HEADER)
        self.until("</stream:features>")
        scram = Scram(name, password or f"secret of {name}")
        self.say(f"<auth xmlns='{SASL}' mechanism='SCRAM-SHA-256'>{scram.first}</auth>")
        challenge = re.search("<challenge[^>]*>([^<]*)", self.until("</challenge>"))[1]
        last, _ = scram.last(challenge)
        self.say(f"<response xmlns='{SASL}'>{last}</response>")
        self.until("</success>")
        self.say(HEADER)
        self.until("</stream:features>")
        return self

    def say(self, text):
        self.socket.sendall(text.encode())

    def until(self, text):
        """What comes up to and with this."""
        while text not in self.seen:
            piece = self.socket.recv(65536)
            if not piece:
                raise AssertionError(f"no {text!r} in {self.seen!r}")
            self.seen += piece.decode()
        at = self.seen.index(text) + len(text)
        told, self.seen = self.seen[:at], self.seen[at:]
        return told

    def peek(self, word):
        """Whether the next element is of this name."""
        while "<" not in self.seen or ">" not in self.seen:
            self.seen += self.socket.recv(65536).decode()
        return f"<{word} " in self.seen

    def rest(self):
        """What comes until the end."""
        while True:
            try:
                piece = self.socket.recv(65536)
            except ConnectionResetError:
                piece = b""
            if not piece:
                told, self.seen = self.seen, ""
                return told
            self.seen += piece.decode()

    def close(self):
        self.socket.close()

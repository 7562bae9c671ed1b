"""What the server says of itself and of what is beside it, to people with slixmpp."""

import asyncio
import base64
import hmac
import time
from xml.etree import ElementTree

from xmpp.people import together
from xmpp.test_domains import ask
from xmpp.test_people import Friends

FORMS = "jabber:x:data"
EXTDISCO = "urn:xmpp:extdisco:2"
LAST = "<query xmlns='jabber:iq:last'/>"
INFO = "<query xmlns='http://jabber.org/protocol/disco#info'/>"
SECRET = "north"
TAIL = f'''
[contacts]
abuse = ["mailto:abuse@example.org", "xmpp:abuse@example.org"]
status = ["https://status.example.org"]

[service.stun]
type = "stun"
host = "stun.example.org"

[service.relay]
type = "turn"
host = "turn.example.org"
port = 3479
with_account = true
ttl_s = 3600

[service.files]
type = "ftp"
host = "192.0.2.1"
transport = "tcp"
username = "guest"
password = "<guest>"
'''


class Served(Friends):
    CHANGES = {"listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"}}
    TAIL = TAIL
    ENV = {"HOLDLINE_SERVICE_RELAY_SECRET": SECRET}

    @together
    async def test_services_beside_it_are_told_with_what_lets_one_in(self):
        ann = await self.person(self.ann).start()
        self.assertIn(f"var=\"{EXTDISCO}\"", await ask(ann, "get", "localhost", INFO))
        said = await ask(ann, "get", "localhost", f"<services xmlns='{EXTDISCO}'/>")
        for part in ("stun.example.org", "3478", "password=\"&lt;guest&gt;\""):
            self.assertIn(part, said)
        said = await ask(ann, "get", "localhost", (
            f"<credentials xmlns='{EXTDISCO}'><service type='turn' host='turn.example.org'/>"
            "</credentials>"))
        told = ElementTree.fromstring(said).find(f".//{{{EXTDISCO}}}service")
        until, account = told.get("username").split(":", 1)
        self.assertEqual(account, f"{self.ann}@localhost")
        self.assertTrue(3500 < int(until) - time.time() < 3700)
        digest = hmac.digest(SECRET.encode(), told.get("username").encode(), "sha1")
        self.assertEqual(told.get("password"), base64.b64encode(digest).decode())
        self.assertEqual(told.get("port"), "3479")
        unknown = f"<credentials xmlns='{EXTDISCO}'><service type='turn' host='x'/></credentials>"
        self.assertIn("item-not-found", await ask(ann, "get", "localhost", unknown))
        for whom in (f"{self.ann}@localhost", f"{self.bob}@localhost"):
            said = await ask(ann, "get", whom, f"<services xmlns='{EXTDISCO}'/>")
            self.assertIn("service-unavailable", said)

    @together
    async def test_it_says_how_its_operator_is_reached(self):
        ann = await self.person(self.ann).start()
        told = ElementTree.fromstring(await ask(ann, "get", "localhost", INFO))
        fields = {field.get("var"): [value.text for value in field]
                  for field in told.iter(f"{{{FORMS}}}field")}
        self.assertEqual(fields, {
            "FORM_TYPE": ["http://jabber.org/network/serverinfo"],
            "abuse-addresses": ["mailto:abuse@example.org", "xmpp:abuse@example.org"],
            "status-addresses": ["https://status.example.org"]})

    async def seconds(self, person, to):
        """What somebody hears of how long ago something was."""
        said = await ask(person, "get", to, LAST)
        told = ElementTree.fromstring(said).find("{jabber:iq:last}query")
        self.assertIsNotNone(told, said)
        return int(told.get("seconds"))

    @together
    async def test_who_sees_somebody_hears_when_that_was_last_there(self):
        ann, bob = await self.friend(self.ann).here(), await self.friend(self.bob).here()
        eve = await self.friend(self.account("eve")).here()
        self.assertLess(await self.seconds(ann, "localhost"), 24 * 3600)
        his = f"{self.bob}@localhost"
        self.assertIn("forbidden", await ask(ann, "get", his, LAST))
        await self.befriend(ann, bob)
        self.assertEqual(await self.seconds(ann, his), 0)
        await bob.leave()
        await ann.until("presence_unavailable", his)
        began = time.monotonic()
        await asyncio.sleep(1.1)
        ago = await self.seconds(ann, his)
        self.assertTrue(1 <= ago <= time.monotonic() - began + 2, ago)
        both = [await ask(eve, "get", f"{name}@localhost", LAST) for name in (self.bob, "nobody")]
        for said in both:
            self.assertIn("forbidden", said)

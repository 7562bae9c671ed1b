"""Reports of spam and abuse (XEP-0377) with slixmpp: the operator gets them by a webhook."""

import xml.etree.ElementTree as ElementTree

from fixture import DEADLINE_S, poll
from im.hook import Hook
from xmpp.people import together
from xmpp.test_components import DOMAIN, ComponentCase

REPORTING = "urn:xmpp:reporting:1"


class Reports(ComponentCase):
    CHANGES = {**ComponentCase.CHANGES, "chat": {"abuse_reports_an_hour_max": 2}}

    @classmethod
    def setUpClass(cls):
        cls.hook = Hook()
        cls.TAIL = ComponentCase.TAIL + (
            f'[[webhook]]\nurl = "{cls.hook.url}/after"\nsecret = "0123456789abcdef"\n'
            'events = ["chat_abuse_reported"]\n')
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.hook.close()

    async def reporter(self):
        return await self.person(self.ann, "desk", plugins=("0191", "0377")).start()

    async def report(self, by, whom, messages=(), text="", reason="spam"):
        """Blocks somebody by slixmpp's report, with ids of messages and a text beside."""
        plugin = by.client.plugin["xep_0377"]
        iq = by.client.make_iq_set()
        from slixmpp.plugins.xep_0191 import BlockItem
        item = BlockItem(parent=iq["block"])
        item["jid"] = whom
        item["report"]["reason"] = plugin.SPAM if reason == "spam" else plugin.ABUSE
        for message in messages:
            named = ElementTree.SubElement(item["report"].xml, "{urn:xmpp:sid:0}stanza-id")
            named.set("by", str(message["stanza_id"]["by"]))
            named.set("id", message["stanza_id"]["id"])
        if text:
            ElementTree.SubElement(item["report"].xml, f"{{{REPORTING}}}text").text = text
        await iq.send(timeout=DEADLINE_S)

    def events(self):
        mine = f"{self.ann}@localhost"
        return [event for event in self.hook.events if event["reporter"] == mine]

    @together
    async def test_a_report_reaches_the_operator_with_its_messages(self):
        ann, bob = await self.reporter(), await self.person(self.bob, "desk").start()
        info = await ann.client.plugin["xep_0030"].get_info("localhost", timeout=DEADLINE_S)
        self.assertIn(REPORTING, info["disco_info"]["features"])
        for text in ("cheap watches", "hello", "cheaper watches"):
            bob.say(f"{self.ann}@localhost", text)
        heard = [await ann.next() for _ in range(3)]
        await self.report(ann, f"{self.bob}@localhost", [heard[0], heard[2]], "every day")
        event = poll(self.events, "it was posted")[0]
        self.assertEqual(event["type"], "chat_abuse_reported")
        self.assertEqual((event["reported"], event["reason"], event["text"], event["left_out"]),
                         (f"{self.bob}@localhost", "spam", "every day", 0))
        shown = [(message["from"], message["text"]) for message in event["messages"]]
        self.assertEqual(shown, [(f"{self.bob}@localhost", text)
                                 for text in ("cheap watches", "cheaper watches")])
        blocked = await ann.client.plugin["xep_0191"].get_blocked(timeout=DEADLINE_S)
        items = blocked.xml.iter("{urn:xmpp:blocking}item")
        self.assertEqual([item.get("jid") for item in items], [f"{self.bob}@localhost"])

    @together
    async def test_an_account_of_another_domain_is_reported_with_what_it_sent(self):
        await self.echo()
        ann = await self.reporter()
        ann.say(f"bot@{DOMAIN}", "hello")
        heard = await ann.next()
        await self.report(ann, f"bot@{DOMAIN}", [heard], reason="abuse")
        event = poll(self.events, "it was posted")[0]
        self.assertEqual((event["reported"], event["reason"], event["text"], event["left_out"]),
                         (f"bot@{DOMAIN}", "abuse", "", 0))
        self.assertEqual([message["text"] for message in event["messages"]], ["echo: hello"])

    @together
    async def test_slixmpps_own_report_blocks_and_more_than_the_limit_are_dropped(self):
        ann = await self.reporter()
        before = [self.server.count(f"chat_abuse_reports_{which}total")
                  for which in ("", "refused_")]
        plugin = ann.client.plugin["xep_0377"]
        for n in range(3):
            await plugin.report(f"spammer{n}@localhost", reason="spam", timeout=DEADLINE_S)
        blocked = await ann.client.plugin["xep_0191"].get_blocked(timeout=DEADLINE_S)
        self.assertEqual(len(list(blocked.xml.iter("{urn:xmpp:blocking}item"))), 3)
        poll(lambda: len(self.events()) == 2, "two were posted")
        after = [self.server.count(f"chat_abuse_reports_{which}total")
                 for which in ("", "refused_")]
        self.assertEqual([b - a for a, b in zip(before, after)], [2, 1])

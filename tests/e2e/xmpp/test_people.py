"""People by XMPP with slixmpp: they become contacts, see each other come and go, and part."""

import asyncio

from xmpp import people
from xmpp.people import DEADLINE_S, together


class Friend(people.Person):
    """A device that follows its roster; what it asks is answered by the test alone."""

    def __init__(self, port, jid, password, **how):
        super().__init__(port, jid, password, plugins=("0191",), **how)
        client = self.client
        client.auto_authorize = None
        client.auto_subscribe = False
        # The roster of the library answers nothing by itself.
        client.roster.auto_authorize = None
        client.roster.auto_subscribe = False
        for kind in ("presence_subscribe", "presence_subscribed", "presence_unsubscribe",
                     "presence_unsubscribed", "presence_available", "presence_unavailable",
                     "presence_away", "presence_error", "roster_update"):
            self.hear(kind)

    async def here(self):
        await self.start(there=False)
        await self.client.get_roster()
        await self.shows_itself()
        return self

    def presence(self, to, kind, status=""):
        self.client.send_presence(pto=to, ptype=kind, pstatus=status)

    async def comes(self, jid):
        """Somebody is there: waits for that one, whatever else is told."""
        return await self.until("presence_available", jid)

    async def until(self, kind, jid):
        while True:
            stanza = await self.next(kind)
            if str(stanza["from"]).startswith(jid):
                return stanza

    async def item(self, jid, subscription):
        """An item of the roster comes to be so."""
        while True:
            update = await self.next("roster_update")
            items = update["roster"]["items"]
            found = items.get(jid)
            if found is not None and found["subscription"] == subscription:
                return found


class Friends(people.People):
    CHANGES = {"listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"}}

    def friend(self, name, resource=""):
        jid = f"{name}@localhost" + (f"/{resource}" if resource else "")
        friend = Friend(self.server.ports["xmpp"][1], jid, f"secret of {name}")
        self.people.append(friend)
        return friend

    async def befriend(self, ann, bob):
        """Both see each other in the end."""
        for one, other in ((ann, bob), (bob, ann)):
            me, you = one.client.boundjid.bare, other.client.boundjid.bare
            one.presence(you, "subscribe", "it is me")
            asked = await other.until("presence_subscribe", me)
            self.assertEqual(asked["status"], "it is me")
            other.presence(me, "subscribed")
            await one.until("presence_subscribed", you)
            await one.comes(you)
        return ann.client.boundjid.bare, bob.client.boundjid.bare


class Contacts(Friends):
    @together
    async def test_an_account_that_is_removed_leaves_the_list_of_its_contact(self):
        ann, bob = await self.friend(self.ann).here(), await self.friend(self.bob).here()
        hers, _ = await self.befriend(ann, bob)
        status, answer = self.server.api("DELETE", f"/v1/users/{self.ann}")
        self.assertIn(status, (200, 204), answer)
        await bob.until("presence_unavailable", hers)
        await bob.until("presence_unsubscribed", hers)
        await bob.item(hers, "none")

    @together
    async def test_two_subscribe_and_see_each_other_come_and_go(self):
        ann, bob = await self.friend(self.ann).here(), await self.friend(self.bob).here()
        _, his = await self.befriend(ann, bob)
        await ann.item(his, "both")
        bob.client.send_presence(pshow="away", pstatus="tea & cake", ppriority=3)
        seen = await ann.until("presence_away", his)
        self.assertEqual((seen["status"], seen["priority"]), ("tea & cake", 3))
        await bob.leave()
        gone = await ann.until("presence_unavailable", his)
        self.assertEqual(gone["from"].bare, his)
        await self.friend(self.bob).here()
        await ann.comes(his)

    @together
    async def test_a_change_is_pushed_to_each_resource_and_versions_say_what_is_new(self):
        desk = await self.friend(self.ann, "desk").here()
        phone = await self.friend(self.ann, "phone").here()
        jid = f"{self.bob}@localhost"
        await desk.client.update_roster(jid, name="Bob", groups=["work"], block=False)
        for device in (desk, phone):
            item = await device.item(jid, "none")
            self.assertEqual((item["name"], item["groups"]), ("Bob", ["work"]))
        raw = self.client_query(desk, "")
        whole = await raw
        version = whole.xml.find("{jabber:iq:roster}query").get("ver")
        self.assertTrue(int(version) > 0)
        same = await self.client_query(desk, version)
        self.assertIsNone(same.xml.find("{jabber:iq:roster}query"), "nothing is newer")
        await desk.client.del_roster_item(jid)
        await phone.item(jid, "remove")

    def client_query(self, person, version):
        iq = person.client.make_iq_get()
        iq.append(people.slixmpp().xmlstream.ET.fromstring(
            f"<query xmlns='jabber:iq:roster' ver='{version}'/>"))
        return asyncio.wait_for(iq.send(), DEADLINE_S)

    @together
    async def test_who_removes_a_contact_is_seen_no_more(self):
        ann, bob = await self.friend(self.ann).here(), await self.friend(self.bob).here()
        hers, his = await self.befriend(ann, bob)
        await bob.client.del_roster_item(hers)
        await ann.until("presence_unsubscribed", his)
        await ann.until("presence_unavailable", his)
        await ann.item(his, "none")

    @together
    async def test_nothing_passes_to_or_from_who_is_blocked(self):
        ann, bob = await self.friend(self.ann).here(), await self.friend(self.bob).here()
        hers, his = await self.befriend(ann, bob)
        blocking = bob.client.plugin["xep_0191"]
        await blocking.block(hers)
        await ann.until("presence_unavailable", his)
        blocked = await blocking.get_blocked(timeout=DEADLINE_S)
        items = blocked.xml.iter("{urn:xmpp:blocking}item")
        self.assertEqual([item.get("jid") for item in items], [hers])
        ann.say(his, "are you there?")
        refused = await ann.next("message_error")
        self.assertEqual(refused["error"]["condition"], "service-unavailable")
        bob.say(hers, "no")
        refused = await bob.next("message_error")
        self.assertEqual(refused["error"]["condition"], "not-acceptable")
        await blocking.unblock(hers)
        await ann.comes(his)
        ann.say(his, "and now?")
        self.assertEqual(await bob.hears(1), ["and now?"])

    @together
    async def test_a_wish_waits_for_who_is_away(self):
        ann = await self.friend(self.ann).here()
        his, hers = f"{self.bob}@localhost", f"{self.ann}@localhost"
        ann.presence(his, "subscribe", "hello")
        await ann.ping()
        bob = await self.friend(self.bob).here()
        self.assertEqual((await bob.until("presence_subscribe", hers))["status"], "hello")
        bob.presence(hers, "unsubscribed")
        await ann.until("presence_unsubscribed", his)


class Restarted(Friends):
    @together
    async def test_contacts_and_blocks_outlive_the_server(self):
        ann, bob = await self.friend(self.ann).here(), await self.friend(self.bob).here()
        hers, his = await self.befriend(ann, bob)
        await bob.client.plugin["xep_0191"].block(hers)
        await ann.until("presence_unavailable", his)
        self.server.kill()
        for person in (ann, bob):
            await person.next("disconnected")
            person.client.abort()
        self.server.start()
        ann, bob = await self.friend(self.ann).here(), await self.friend(self.bob).here()
        for person, other in ((ann, his), (bob, hers)):
            item = person.client.client_roster[other]
            self.assertEqual(item["subscription"], "both")
        ann.say(his, "are you there?")
        refused = await ann.next("message_error")
        self.assertEqual(refused["error"]["condition"], "service-unavailable")
        await bob.client.plugin["xep_0191"].unblock(hers)
        await ann.comes(his)
        await bob.comes(hers)

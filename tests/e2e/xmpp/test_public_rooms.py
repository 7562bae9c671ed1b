"""Lists of public rooms: a room is found by whoever looks for one until it is hidden or ends."""

from fixture import DEADLINE_S
from xmpp.people import slixmpp, together
from xmpp.test_rooms import SERVICE, Guests

ITEMS = "http://jabber.org/protocol/disco#items"
RSM = "http://jabber.org/protocol/rsm"


class Finders(Guests):
    async def guest(self, name, resource="", there=True, plugins=()):
        return await super().guest(name, resource, there, ("0004", *plugins))

    def address(self, name):
        return f"{self.bob[-40:].lstrip('.-_')}.{name}@{SERVICE}"

    async def configure(self, person, room, **wanted):
        plugin = person.client.plugin["xep_0045"]
        form = await plugin.get_room_config(room)
        form["type"] = "submit"
        for name, value in wanted.items():
            form.get_fields()[f"muc#roomconfig_{name}"]["value"] = value
        await plugin.set_room_config(room, form)

    async def page(self, person, **paging):
        """A page of the list of rooms: addresses and titles, and where it begins and ends."""
        element = slixmpp().xmlstream.ET.SubElement
        iq = person.client.make_iq_get(queryxmlns=ITEMS, ito=SERVICE)
        if paging:
            part = element(iq.xml.find(f"{{{ITEMS}}}query"), f"{{{RSM}}}set")
            for name, value in paging.items():
                element(part, f"{{{RSM}}}{name}").text = str(value)
        told = (await iq.send(timeout=DEADLINE_S)).xml.find(f"{{{ITEMS}}}query")
        ends = [told.findtext(f"{{{RSM}}}set/{{{RSM}}}{end}") for end in ("first", "last")]
        return [(it.get("jid"), it.get("name")) for it in told.findall(f"{{{ITEMS}}}item")], ends

    async def fails(self, awaited, condition):
        with self.assertRaises(slixmpp().exceptions.IqError) as refused:
            await awaited
        self.assertEqual(refused.exception.condition, condition)


class PublicRooms(Finders):
    @together
    async def test_public_rooms_are_listed_by_pages_until_they_are_hidden_or_end(self):
        bob, carol = await self.guest(self.bob), await self.guest(self.carol)
        expected = [(self.address(name), f"Room {name}") for name in "abcde"]
        for address, title in sorted(expected, key=lambda it: it[0][::-1]):
            await self.enter(bob, address)
            self.assertEqual((await self.page(carol))[0], [], "it is hidden")
            await self.configure(bob, address, roomname=title)
        for address, _ in expected:
            await self.configure(bob, address, publicroom=True)
            await bob.next("groupchat_config_status")
        hidden = self.address("hidden")
        await self.enter(bob, hidden)
        self.server.kill()
        self.server.start()
        bob, carol = await self.guest(self.bob), await self.guest(self.carol)
        self.assertEqual(await self.page(carol), (expected, [None, None]))
        own = sorted([*expected, (hidden, hidden.split("@")[0])])
        self.assertEqual((await self.page(bob))[0], own, "and what he is in")
        found, paging = [], {"max": 2}
        while page := (await self.page(carol, **paging))[0]:
            found += page
            paging = {"max": 2, "after": page[-1][0]}
        self.assertEqual((found, len(page)), (expected, 0))
        last = await self.page(carol, max=2, before="")
        self.assertEqual(last, (expected[3:], [expected[3][0], expected[4][0]]))
        before = await self.page(carol, max=2, before=expected[3][0])
        self.assertEqual(before[0], expected[1:3])
        await self.fails(self.page(carol, max=2, after="nowhere"), "item-not-found")
        # It is found, and nevertheless of its members alone.
        disco = carol.client.plugin["xep_0030"]
        info = (await disco.get_info(expected[0][0]))["disco_info"]
        self.assertLessEqual({"muc_public", "muc_membersonly"}, info["features"])
        self.assertNotIn("muc_hidden", info["features"])
        await self.refused(carol, expected[0][0], "registration-required")
        plugin = bob.client.plugin["xep_0045"]
        await self.configure(bob, expected[0][0], publicroom=False)
        await plugin.destroy(expected[1][0])
        self.im("groups hide", self.bob, expected[2][0])
        self.im("groups reveal", self.bob, hidden)
        await self.configure(bob, expected[3][0], roomname="Yard")
        left = [(expected[3][0], "Yard"), expected[4], own[-1]]
        for _ in range(2):
            self.assertEqual((await self.page(carol))[0], left)
            for gone, _ in expected[:3]:
                await self.fails(carol.client.plugin["xep_0030"].get_info(gone), "item-not-found")
            self.server.kill()
            self.server.start()
            carol = await self.guest(self.carol)


class NoPublicRooms(Finders):
    CHANGES = {**Finders.CHANGES, "chat": {"public_groups_max": 0}}

    @together
    async def test_where_no_more_may_be_public_it_is_told(self):
        bob = await self.guest(self.bob)
        room = self.address("room")
        await self.enter(bob, room)
        await self.fails(self.configure(bob, room, publicroom=True), "resource-constraint")
        info = (await bob.client.plugin["xep_0030"].get_info(room))["disco_info"]
        self.assertIn("muc_hidden", info["features"])

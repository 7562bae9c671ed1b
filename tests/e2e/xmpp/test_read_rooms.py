"""Rooms over groups that are read: whatever holds of rooms holds of them, where each group of two
is large."""

from xmpp import test_rooms
from xmpp.people import together


class ReadRooms(test_rooms.Rooms):
    CHANGES = {**test_rooms.Rooms.CHANGES,
               "chat": {**test_rooms.Rooms.CHANGES["chat"], "group_written_members_max": 1}}

    @together
    async def test_who_was_away_has_everything_in_the_room_and_by_mam(self):
        bob, carol = await self.guest(self.bob), await self.guest(self.carol)
        turned = self.server.count("chat_groups_turned_total")
        phone, group = await self.lunch(self.bob, self.carol)
        room = await self.enter(bob, group)
        for number in range(3):
            room.say(f"here {number}")
        await room.hears(3)
        self.assertEqual(self.server.count("chat_groups_turned_total"), turned + 1)
        await carol.leave()
        for number in range(30):
            room.say(f"away {number}")
        await room.hears(30)
        carol = await self.guest(self.carol)
        entered = await self.enter(carol, group, maxstanzas=50)
        texts = ["before", *(f"here {n}" for n in range(3)), *(f"away {n}" for n in range(30))]
        self.assertEqual(entered.texts(), texts)
        room.say("welcome")
        self.assertEqual(await entered.hears(), [(self.bob, "welcome")])
        phone.send(group, "by IM")
        for one in (room, entered):
            self.assertEqual((await one.hears(2 if one is room else 1))[-1], (self.ann, "by IM"))

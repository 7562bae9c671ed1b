"""Chatrooms as rooms of XMPP: slixmpp and Google's protobuf library in one of them."""

import uuid

from im.test_chatrooms import Guest
from im.wire import schema
from xmpp import test_rooms
from xmpp.people import slixmpp, together


class Live(test_rooms.Rooms):
    """Only what is here: the tests of groups' rooms are run there."""

    CHANGES = {**test_rooms.Rooms.CHANGES, "chat": {"chatroom_pause_ms": 50}}

    def phone(self, name):
        link = Guest(self.server.ports["any"])
        self.addCleanup(link.close)
        link.login(name, "phone", password=f"secret of {name}".encode())
        return link

    def lobby(self):
        """Ann has made a chatroom on her phone, is in it, and has said something."""
        phone, name = self.phone(self.ann), f"lobby{uuid.uuid4().hex[:8]}"
        self.assertEqual(phone.order(name, "create", text="The lobby", keeps=5), "done")
        room = phone.join(name).state.room
        phone.send(room, "before")
        phone.hears()
        return phone, room

    @together
    async def test_people_of_both_protocols_talk_in_a_chatroom(self):
        phone, address = self.lobby()
        bob, carol = await self.guest(self.bob), await self.guest(self.carol)
        await self.refused(bob, "nowhere@live.localhost", "item-not-found")
        rooms = [await self.enter(one, address) for one in (bob, carol)]
        for room, name in zip(rooms, (self.bob, self.carol)):
            self.assertEqual((room.subject, room.texts()), ("The lobby", ["before"]))
            self.assertEqual(room.names(), {name: ("none", "participant")}, "and nobody else")
        rooms[0].say("from bob")
        phone.send(address, "from ann")
        for room in rooms:
            self.assertEqual(sorted(await room.hears(2)),
                             sorted([(self.bob, "from bob"), (self.ann, "from ann")]))
        self.assertEqual({phone.hears()[1] for _ in range(2)}, {"from bob", "from ann"})
        rooms[1].person.client.plugin["xep_0045"].leave_muc(address, self.carol)
        gone = await rooms[1].sees(self.carol, role="none")
        self.assertEqual(gone["type"], "unavailable")
        rooms[0].say("still here")
        self.assertEqual(await rooms[0].hears(), [(self.bob, "still here")])
        self.assertEqual(phone.pull_all(), [], "nothing of it is in an inbox")

    @together
    async def test_moderators_of_im_and_xmpp_say_who_stays(self):
        phone, address = self.lobby()
        bob, carol = await self.guest(self.bob), await self.guest(self.carol)
        rooms = [await self.enter(one, address) for one in (bob, carol)]
        plugin = bob.client.plugin["xep_0045"]
        jid = slixmpp().JID(address)
        with self.assertRaises(slixmpp().exceptions.IqError) as refused:
            await plugin.set_role(jid, self.carol, "none")
        self.assertEqual(refused.exception.condition, "forbidden")
        self.assertEqual(phone.order(address, "promote", self.bob), "done")
        await plugin.set_role(jid, self.carol, "none")
        gone = await rooms[1].sees(self.carol, role="none")
        self.assertIn(307, gone["muc"]["status_codes"])
        await self.enter(carol, address)
        await plugin.set_affiliation(jid, "outcast", jid=slixmpp().JID(f"{self.carol}@localhost"))
        gone = await rooms[1].sees(self.carol, affiliation="outcast")
        self.assertIn(301, gone["muc"]["status_codes"])
        await self.refused(carol, address, "forbidden")
        plugin.set_subject(jid, "Be kind.")
        told = await bob.next("groupchat_subject")
        self.assertEqual(told["subject"], "Be kind.")
        while phone.next("chatroom_news").state.announcement != "Be kind.":
            pass


# What is inherited is run by its own class.
for _name in [name for name in dir(test_rooms.Rooms) if name.startswith("test_")]:
    setattr(Live, _name, None)

"""Temporary rooms: they end with the last who is in them, however that one goes, and not before."""

from fixture import DEADLINE_S, poll
from xmpp.people import together
from xmpp.test_public_rooms import Finders

REASON = "The room was temporary, and nobody is in it any more."


class Occupants(Finders):
    async def temporary(self, person, name="room", **wanted):
        """A room of somebody who is in it, and a phone of IM of the same account."""
        room = await self.enter(person, self.address(name))
        await self.configure(person, room.address, persistentroom=False, **wanted)
        return room, self.phone(person.client.boundjid.local)

    async def features(self, person, room):
        disco = person.client.plugin["xep_0030"]
        return (await disco.get_info(room, timeout=DEADLINE_S))["disco_info"]["features"]

    async def exit(self, person, room):
        own = person.client.boundjid.local
        person.client.plugin["xep_0045"].leave_muc(room.address, own)
        await person.ping()

    def ends(self, phone):
        """The account is told that its room has ended."""
        poll(lambda: REASON in [text for _, text in phone.pull_all()], "the end of the room")


class TemporaryRooms(Occupants):
    @together
    async def test_it_ends_with_its_last_occupant_and_is_made_anew_as_one_that_stays(self):
        bob, carol = await self.guest(self.bob), await self.guest(self.carol)
        room, phone = await self.temporary(bob, membersonly=False)
        self.assertEqual((await bob.next("groupchat_config_status"))["from"].bare, room.address)
        told = await self.features(bob, room.address)
        self.assertIn("muc_temporary", told)
        self.assertNotIn("muc_persistent", told)
        there = await self.enter(carol, room.address)
        await self.exit(bob, room)
        there.say("alone")
        self.assertEqual(await there.hears(), [(self.carol, "alone")])
        self.assertTrue(phone.members(room.address).temporary)
        await self.exit(carol, there)
        self.ends(phone)
        for one in (bob, carol):
            await self.fails(self.features(one, room.address), "item-not-found")
        again = await self.enter(carol, room.address)
        self.assertIn(201, again.codes)
        self.assertIn("muc_persistent", await self.features(carol, room.address))
        await self.exit(carol, again)
        again = await self.enter(carol, room.address)
        self.assertNotIn(201, again.codes)
        self.assertEqual((again.texts(), list(again.names())), ([], [self.carol]))

    @together
    async def test_who_stays_is_who_may_come_back_and_who_goes_is_whose_connection_breaks(self):
        bob = self.person(self.bob, plugins=("0004", "0045", "0198"))
        for kind in ("session_resumed", "sm_enabled", "groupchat_message", "groupchat_subject",
                     "groupchat_presence", "groupchat_config_status"):
            bob.hear(kind)
        await bob.start()
        await bob.next("sm_enabled")
        carol = await self.guest(self.carol)
        room, phone = await self.temporary(bob, membersonly=False)
        bob.client.abort()
        await bob.next("disconnected")
        # Whoever else comes and goes makes it look who is there.
        there = await self.enter(carol, room.address)
        await self.exit(carol, there)
        bob.client.connect("127.0.0.1", bob.port)
        await bob.next("session_resumed")
        await bob.client.plugin["xep_0199"].send_ping(f"{room.address}/{self.bob}",
                                                      timeout=DEADLINE_S)
        there = await self.enter(carol, room.address)
        await self.exit(bob, room)
        carol.client.abort()
        await carol.next("disconnected")
        self.ends(phone)

    @together
    async def test_a_server_that_is_stopped_and_started_has_it_still(self):
        bob = await self.guest(self.bob)
        room, _ = await self.temporary(bob)
        room.say("before")
        await room.hears()
        self.server.stop()
        self.server.start()
        bob = await self.guest(self.bob)
        again = await self.enter(bob, room.address)
        self.assertEqual((201 in again.codes, again.texts()), (False, ["before"]))

    @together
    async def test_it_is_its_owners_to_say_by_im_the_command_line_and_the_api_too(self):
        bob = await self.guest(self.bob)
        room = await self.enter(bob, self.address("room"))
        phone, carol = self.phone(self.bob), self.phone(self.carol)
        phone.order("add", room.address, [self.carol])
        phone.order("promote", room.address, [self.carol])
        self.assertEqual(carol.order("unpersist", room.address).word, "forbidden")
        self.im("groups unpersist", self.bob, room.address)
        self.assertEqual(phone.order("unpersist", room.address).word, "unchanged")
        group = self.server.ask("GET", f"/v1/chat/groups/{room.address}")
        self.assertTrue(group["temporary"])
        changes = f"/v1/chat/groups/{room.address}/changes"
        self.server.ask("POST", changes, {"verb": "persist"})
        await self.exit(bob, room)
        self.assertFalse(carol.members(room.address).temporary)


class Forgotten(Occupants):
    CHANGES = {**Finders.CHANGES, "chat": {"temporary_group_grace_s": 1}}

    @together
    async def test_one_into_which_nobody_comes_back_after_a_start_ends(self):
        bob = await self.guest(self.bob)
        room, _ = await self.temporary(bob)
        self.server.kill()
        self.server.start()
        phone = self.phone(self.bob)
        self.ends(phone)
        bob = await self.guest(self.bob)
        await self.fails(self.features(bob, room.address), "item-not-found")


class NoTemporaryRooms(Occupants):
    CHANGES = {**Finders.CHANGES, "chat": {"temporary_groups_max": 0}}

    @together
    async def test_where_no_more_may_be_temporary_it_is_told(self):
        bob = await self.guest(self.bob)
        room = await self.enter(bob, self.address("room"))
        await self.fails(self.configure(bob, room.address, persistentroom=False),
                         "resource-constraint")
        self.assertIn("muc_persistent", await self.features(bob, room.address))



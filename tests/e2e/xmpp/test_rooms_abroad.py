"""Rooms with people of another server in them: of a second Holdline, and of Prosody, by slixmpp.

People of IM have them in the group.
"""

from fixture import DEADLINE_S, poll
from im.test_groups import Person as Phone
from im.wire import schema
from xmpp.people import own_name, slixmpp, together
from xmpp.test_asides import answers, hears_decline, overhears
from xmpp.test_authority import USER
from xmpp.test_federation import Neighbour, Pair
from xmpp.test_prosody import WithNeighbour
from xmpp.test_rooms import KINDS, Room

SERVICE = "conference.a.example"


class Visitor(Neighbour):
    """A device that enters rooms, at whichever server."""

    def __init__(self, port, jid, password):
        super().__init__(port, jid, password)
        for plugin in ("0004", "0045", "0249", "0313"):
            self.client.register_plugin(f"xep_{plugin}")
        overhears(self)
        for kind in KINDS:
            self.hear(kind)

    async def enter(self, room, nick=None):
        plugin = self.client.plugin["xep_0045"]
        own = self.client.boundjid
        nick = nick or (own.local if own.domain in room else own.bare)
        told = await plugin.join_muc_wait(slixmpp().JID(room), nick, timeout=DEADLINE_S)
        for kind in ("groupchat_message", "groupchat_subject", "groupchat_presence"):
            while not self.queues[kind].empty():
                self.queues[kind].get_nowait()
        return Room(self, room, told)

    async def configures(self, room, **wanted):
        plugin = self.client.plugin["xep_0045"]
        form = await plugin.get_room_config(room)
        form["type"] = "submit"
        for name, value in {"membersonly": False, **wanted}.items():
            form.get_fields()[f"muc#roomconfig_{name}"]["value"] = value
        await plugin.set_room_config(room, form)

    async def refused(self, room, condition):
        with self.assertion.assertRaises(slixmpp().exceptions.PresenceError) as refused:
            await self.enter(room)
        self.assertion.assertEqual(refused.exception.condition, condition)


class Visits:
    """What holds whichever server the other one is."""

    def phone(self, name):
        schema()
        link = Phone(self.ours.ports["any"])
        self.addCleanup(link.close)
        link.login(f"{name}@a.example", "phone", password=f"secret of {name}".encode())
        return link

    def address(self):
        return f"{own_name(self, 'room')}@{SERVICE}"

    async def another(self, name):
        """One more of ours."""
        name = own_name(self, name)
        self.ours.ask("PUT", f"/v1/users/{name}", {"password": f"secret of {name}"})
        one = Visitor(self.ours.ports["xmpp"][1], f"{name}@a.example/desk", f"secret of {name}")
        one.jid, one.assertion = f"{name}@a.example", self
        self.people.append(one)
        return await one.here()

    async def unlocked(self):
        """Ann, of ours, has a room that anybody enters; and Eve, of the other server."""
        ann, eve = await self.both()
        room = await ann.enter(self.address())
        await ann.configures(room.address)
        return ann, eve, room

    @together
    async def test_a_visitor_enters_speaks_hears_and_leaves_and_im_sees_it(self):
        ann, eve, room = await self.unlocked()
        phone = self.phone(ann.client.boundjid.local)
        room.say("before")
        await room.hears()
        there = await eve.enter(room.address)
        self.assertEqual(there.texts(), ["before"])
        self.assertLessEqual({100, 110}, there.codes)
        self.assertEqual(there.names(), {ann.client.boundjid.local: ("owner", "moderator"),
                                         eve.jid: ("none", "participant")})
        seen = await room.sees(eve.jid, affiliation="none", role="participant")
        self.assertEqual(seen["muc"]["jid"].bare, eve.jid)
        there.say("hello from elsewhere")
        for one in (room, there):
            self.assertEqual(await one.hears(), [(eve.jid, "hello from elsewhere")])
        room.say("welcome")
        self.assertEqual(await there.hears(), [(ann.client.boundjid.local, "welcome")])
        self.assertIn("hello from elsewhere", phone.texts_until(3))
        eve.client.send_presence(pto=f"{room.address}/{eve.jid}", pshow="dnd", pstatus="far away")
        for one in (room, there):
            shown = await one.sees(eve.jid, role="participant")
            self.assertEqual((shown["type"], shown["status"]), ("dnd", "far away"))
        own = ann.client.boundjid.local
        ann.client.send_presence(pto=f"{room.address}/{own}", pshow="away", pstatus="near")
        shown = await there.sees(own, role="moderator")
        self.assertEqual((shown["type"], shown["status"]), ("away", "near"))
        members = [it.address for it in phone.members(room.address).members]
        self.assertEqual(members, [ann.jid], "who visits is no member")
        await eve.client.plugin["xep_0199"].send_ping(f"{room.address}/{eve.jid}",
                                                      timeout=DEADLINE_S)
        eve.client.plugin["xep_0045"].leave_muc(room.address, eve.client.boundjid.local)
        gone = await room.sees(eve.jid, affiliation="none")
        self.assertEqual(gone["type"], "unavailable")
        members = [it.address for it in phone.members(room.address).members]
        self.assertEqual(members, [ann.jid])
        with self.assertRaises(slixmpp().exceptions.IqError) as refused:
            await eve.client.plugin["xep_0199"].send_ping(f"{room.address}/{eve.jid}",
                                                          timeout=DEADLINE_S)
        self.assertEqual(refused.exception.condition, "not-acceptable")

    @together
    async def test_a_public_room_is_found_by_people_of_the_other_server(self):
        ann, eve = await self.both()
        room = await ann.enter(self.address())
        disco = eve.client.plugin["xep_0030"]
        for is_public in (True, False):
            await ann.configures(room.address, membersonly=True, publicroom=is_public)
            items = (await disco.get_items(SERVICE, timeout=DEADLINE_S))["disco_items"]["items"]
            self.assertEqual(room.address in [str(jid) for jid, *_ in items], is_public)

    @together
    async def test_a_temporary_room_ends_with_the_last_who_visits_it(self):
        ann, eve, room = await self.unlocked()
        await ann.configures(room.address, persistentroom=False)
        there = await eve.enter(room.address)
        phone = self.phone(ann.client.boundjid.local)
        ann.client.plugin["xep_0045"].leave_muc(room.address, ann.client.boundjid.local)
        await ann.ping()
        there.say("alone")
        self.assertEqual(await there.hears(), [(eve.jid, "alone")])
        self.assertTrue(phone.members(room.address).temporary)
        eve.client.plugin["xep_0045"].leave_muc(room.address, eve.client.boundjid.local)
        await eve.ping()
        poll(lambda: getattr(phone.members(room.address), "word", "") == "not_member", "its end")

    @together
    async def test_a_visitor_is_kicked_muted_and_banned(self):
        ann, eve, room = await self.unlocked()
        there = await eve.enter(room.address)
        await room.sees(eve.jid, affiliation="none")
        plugin = ann.client.plugin["xep_0045"]
        await plugin.set_role(room.address, eve.jid, "visitor")
        await there.sees(eve.jid, role="visitor")
        there.say("may I?")
        error = await eve.next("groupchat_message_error")
        self.assertEqual(error["error"]["condition"], "forbidden")
        await plugin.set_role(room.address, eve.jid, "none", reason="noise")
        gone = await there.sees(eve.jid, role="none")
        self.assertLessEqual({110, 307}, gone["muc"]["status_codes"])
        self.assertEqual(gone["muc"].xml.findtext(f"{{{USER}}}item/{{{USER}}}reason"), "noise")
        there.say("am I?")
        error = await eve.next("groupchat_message_error")
        self.assertEqual(error["error"]["condition"], "not-acceptable")
        there = await eve.enter(room.address)
        await plugin.set_affiliation(room.address, "outcast", jid=eve.jid)
        gone = await there.sees(eve.jid, affiliation="outcast")
        self.assertLessEqual({110, 301}, gone["muc"]["status_codes"])
        await eve.refused(room.address, "forbidden")

    @together
    async def test_who_declines_is_told_to_who_had_invited_at_either_server(self):
        ann, eve = await self.both()
        room = await ann.enter(self.address())
        ann.client.plugin["xep_0045"].invite(room.address, eve.jid, "come in")
        await eve.next("groupchat_direct_invite")
        eve.client.plugin["xep_0045"].decline(room.address, ann.jid, "no time")
        self.assertEqual(await hears_decline(ann), (room.address, eve.jid, "no time"))
        # And the other way round: she is an admin, and invites one of ours.
        plugin = ann.client.plugin["xep_0045"]
        await plugin.set_affiliation(room.address, "admin", jid=eve.jid)
        there = await eve.enter(room.address)
        dan = await self.another("dan")
        eve.client.plugin["xep_0045"].invite(room.address, dan.jid, "come in")
        invited = (await dan.next("groupchat_invite"))["muc"]["invite"]
        self.assertEqual(str(invited["from"]), eve.jid)
        dan.client.plugin["xep_0045"].decline(room.address, eve.jid, "not me")
        self.assertEqual(await hears_decline(eve), (room.address, dan.jid, "not me"))

    @together
    async def test_a_visitor_asks_for_voice_and_a_visiting_admin_gives_it(self):
        ann, eve, room = await self.unlocked()
        there = await eve.enter(room.address)
        plugin = ann.client.plugin["xep_0045"]
        await plugin.set_role(room.address, eve.jid, "visitor")
        await there.sees(eve.jid, role="visitor")
        eve.client.plugin["xep_0045"].request_voice(room.address, "participant")
        wish = await ann.next("aside_voice")
        self.assertEqual(wish["form"].get_fields()["muc#jid"]["value"], eve.jid)
        answers(ann, wish, request_allow=True)
        await there.sees(eve.jid, role="participant")
        await plugin.set_affiliation(room.address, "admin", jid=eve.jid)
        await there.sees(eve.jid, affiliation="admin")
        dan = await self.another("dan")
        of_dan = await dan.enter(room.address)
        own = dan.client.boundjid.local
        await plugin.set_role(room.address, own, "visitor")
        await of_dan.sees(own, role="visitor")
        dan.client.plugin["xep_0045"].request_voice(room.address, "participant")
        wishes = [await one.next("aside_voice") for one in (ann, eve)]
        answers(eve, wishes[1], request_allow=True)
        await of_dan.sees(own, role="participant")

    @together
    async def test_a_room_for_members_alone_is_entered_by_who_is_invited(self):
        ann, eve = await self.both()
        room = await ann.enter(self.address())
        await ann.configures(room.address, membersonly=True)
        await eve.refused(room.address, "registration-required")
        ann.client.plugin["xep_0045"].invite(room.address, eve.jid, "come in")
        invited = await eve.next("groupchat_direct_invite")
        self.assertEqual(invited["from"].bare, room.address)
        self.assertEqual(invited["groupchat_invite"]["reason"], "come in")
        there = await eve.enter(room.address)
        room.say("welcome")
        self.assertEqual(await there.hears(), [(ann.client.boundjid.local, "welcome")])
        found = eve.client["xep_0313"].iterate(slixmpp().JID(room.address))
        said = [it["mam_result"]["forwarded"]["stanza"]["body"] async for it in found]
        self.assertEqual(said, ["welcome"])
        await eve.leave()
        phone = self.phone(ann.client.boundjid.local)
        members = [it.address for it in phone.members(room.address).members]
        self.assertEqual(sorted(members), sorted([ann.jid, eve.jid]), "she stays a member")


class Neighbours(Visits, Pair):
    """Of a second Holdline."""

    @classmethod
    def of(cls, domain, port, hosts):
        rooms = [f"conference.{name}=127.0.0.1:{place}" for name, place in cls.ports.items()]
        return super().of(domain, port, hosts + rooms)

    @property
    def ours(self):
        return self.pair["a.example"]

    async def both(self):
        people = []
        for name, domain in (("ann", "a.example"), ("eve", "b.example")):
            server, name = self.pair[domain], own_name(self, name)
            server.ask("PUT", f"/v1/users/{name}", {"password": f"secret of {name}"})
            one = Visitor(server.ports["xmpp"][1], f"{name}@{domain}/desk", f"secret of {name}")
            one.jid, one.assertion = f"{name}@{domain}", self
            self.people.append(one)
            people.append(await one.here())
        return people


class Vanishing(Neighbours):
    """The other server goes."""

    test_a_visitor_enters_speaks_hears_and_leaves_and_im_sees_it = None
    test_a_temporary_room_ends_with_the_last_who_visits_it = None
    test_a_visitor_is_kicked_muted_and_banned = None
    test_who_declines_is_told_to_who_had_invited_at_either_server = None
    test_a_visitor_asks_for_voice_and_a_visiting_admin_gives_it = None
    test_a_room_for_members_alone_is_entered_by_who_is_invited = None

    @together
    async def test_a_server_that_vanishes_takes_its_people_out(self):
        ann, eve, room = await self.unlocked()
        await eve.enter(room.address)
        await room.sees(eve.jid, affiliation="none")
        self.pair["b.example"].kill()
        room.say("anybody?")
        gone = await room.sees(eve.jid, role="none")
        self.assertEqual(gone["type"], "unavailable")
        phone = self.phone(ann.client.boundjid.local)
        self.assertEqual([it.address for it in phone.members(room.address).members], [ann.jid])


class Prosodies(Visits, WithNeighbour):
    """Of Prosody."""

    @property
    def ours(self):
        return self.holdline

    async def both(self):
        name = own_name(self, "ann")
        self.holdline.ask("PUT", f"/v1/users/{name}", {"password": f"secret of {name}"})
        ann = Visitor(self.holdline.ports["xmpp"][1], f"{name}@a.example/desk",
                      f"secret of {name}")
        eve = Visitor(self.neighbour.clients, "bob@b.example/phone", "secret")
        ann.jid, eve.jid = f"{name}@a.example", "bob@b.example"
        for one in (ann, eve):
            one.assertion = self
            self.people.append(one)
        return await ann.here(), await eve.here()

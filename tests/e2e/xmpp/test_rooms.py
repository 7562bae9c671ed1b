"""Rooms over groups: people of XMPP and of IM in one conversation, over the server's death."""

import unittest
import uuid
from xml.etree import ElementTree as ET

from fixture import DEADLINE_S
from im.test_groups import Person as Phone
from im.wire import schema
from xmpp.people import People, slixmpp, together

KINDS = ("groupchat_message", "groupchat_subject", "groupchat_invite", "groupchat_direct_invite",
         "groupchat_presence", "groupchat_message_error", "groupchat_config_status")
SERVICE = "conference.localhost"


class Room:
    """A room as somebody sees it who has entered it."""

    def __init__(self, person, address, told):
        self.person, self.address = person, address
        self.presence, subject, self.occupants, self.history = told
        self.subject = subject["subject"]
        self.codes = self.presence["muc"]["status_codes"]

    def texts(self):
        return [message["body"] for message in self.history]

    def names(self):
        """Names of all that are shown, oneself too, with affiliation and role."""
        return {it["from"].resource: (it["muc"]["affiliation"], it["muc"]["role"])
                for it in [*self.occupants, self.presence]}

    def say(self, text, replace=None):
        message = self.person.client.make_message(self.address, text, mtype="groupchat")
        message["id"] = str(uuid.uuid4())
        if replace:
            message["replace"]["id"] = replace
        message.send()
        return message["id"]

    async def hears(self, count=1):
        heard = [await self.person.next("groupchat_message") for _ in range(count)]
        return [(it["from"].resource, it["body"]) for it in heard]

    async def sees(self, nick, **wanted):
        """The next presence of somebody that is like this."""
        while True:
            shown = await self.person.next("groupchat_presence")
            is_like = all(shown["muc"][key] == value for key, value in wanted.items())
            if shown["from"].resource == nick and is_like:
                return shown


class Guests(People):
    """People of XMPP who enter rooms, and people of IM in the same groups. New rooms are for members
    alone."""

    CHANGES = {"listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"},
               "chat": {"rooms_open": False, "rooms_public": False}}

    def setUp(self):
        super().setUp()
        schema()
        self.carol, self.dave = (self.account(name) for name in ("carol", "dave"))

    def phone(self, name):
        """A device of IM, by Google's protobuf library."""
        link = Phone(self.server.ports["any"])
        self.addCleanup(link.close)
        link.login(name, "phone", password=f"secret of {name}".encode())
        return link

    async def guest(self, name, resource="", there=True, plugins=()):
        person = self.person(name, resource, plugins=("0045", "0249", *plugins))
        for kind in KINDS:
            person.hear(kind)
        return await person.start(there)

    async def enter(self, person, room, nick=None, **history):
        plugin = person.client.plugin["xep_0045"]
        nick = nick or person.client.boundjid.local
        told = await plugin.join_muc_wait(slixmpp().JID(room), nick, timeout=DEADLINE_S, **history)
        # What came while it was entered has been seen.
        for kind in ("message", "groupchat_message", "groupchat_subject", "groupchat_presence"):
            while not person.queues[kind].empty():
                person.queues[kind].get_nowait()
        return Room(person, room, told)

    async def instant(self, person, room):
        """Takes a new room as it is (XEP-0045 10.1.2)."""
        iq = person.client.make_iq_set(ito=room)
        owner = ET.SubElement(iq.xml, "{http://jabber.org/protocol/muc#owner}query")
        ET.SubElement(owner, "{jabber:x:data}x", type="submit")
        await iq.send(timeout=DEADLINE_S)

    async def refused(self, person, room, condition, nick=None):
        with self.assertRaises(slixmpp().exceptions.PresenceError) as refused:
            await self.enter(person, room, nick)
        self.assertEqual(refused.exception.condition, condition)

    async def lunch(self, *names):
        """Ann has made a group on her phone with these, and has said something."""
        phone = self.phone(self.ann)
        made = phone.order("create", members=names, title="lunch")
        phone.send(made.group, "before")
        return phone, made.group


class NewRooms(Guests):
    """Rooms as clients make them where nothing is configured."""

    CHANGES = {"listen.xmpp": Guests.CHANGES["listen.xmpp"]}

    @together
    async def test_a_new_room_is_open_and_public_and_gone_when_its_first_form_is_cancelled(self):
        bob, carol = await self.guest(self.bob, plugins=("0030",)), await self.guest(self.carol)
        address = f"new.{self.bob[-40:].lstrip('.-_')}@{SERVICE}"
        room = await self.enter(bob, address)
        self.assertIn(201, room.codes)
        await self.refused(carol, address, "item-not-found")
        muc = bob.client.plugin["xep_0045"]
        await self.instant(bob, address)
        there = await self.enter(carol, address)
        self.assertEqual(there.names()[self.carol], ("none", "participant"))
        disco = bob.client.plugin["xep_0030"]
        items = await disco.get_items(jid=SERVICE, timeout=DEADLINE_S)
        self.assertIn(address, [item[0] for item in items["disco_items"]["items"]])
        # Several own it, and one of them stays.
        await muc.set_affiliation(address, "owner", jid=f"{self.carol}@localhost")
        await room.sees(self.carol, affiliation="owner", role="moderator")
        of_carol = carol.client.plugin["xep_0045"]
        await of_carol.set_affiliation(address, "none", jid=f"{self.bob}@localhost")
        with self.assertRaises(slixmpp().exceptions.IqError) as refused:
            await of_carol.set_affiliation(address, "member", jid=f"{self.carol}@localhost")
        self.assertEqual(refused.exception.condition, "conflict")
        # A correction is its sender's, whoever has the name of its account as nick (XEP-0308 4).
        hatter = await self.guest(self.ann, plugins=("0308",))
        as_hatter = await self.enter(hatter, address, nick="Hatter")
        await self.enter(await self.guest(self.dave), address, nick=self.ann)
        first = as_hatter.say("tee")
        as_hatter.say("tea", replace=first)
        for text in ("tee", "tea"):
            self.assertEqual(await as_hatter.hears(), [("Hatter", text)])
        history = (await self.enter(bob, address, maxstanzas=2)).history
        self.assertEqual({it["from"].resource for it in history}, {"Hatter"})
        other = f"other.{self.bob[-40:].lstrip('.-_')}@{SERVICE}"
        await self.enter(bob, other)
        await muc.cancel_config(other)
        with self.assertRaises(slixmpp().exceptions.IqError) as refused:
            await disco.get_info(jid=other, timeout=DEADLINE_S)
        self.assertEqual(refused.exception.condition, "item-not-found")


class Rooms(Guests):
    @together
    async def test_people_of_a_group_of_im_enter_its_room_and_all_talk(self):
        bob, carol = await self.guest(self.bob), await self.guest(self.carol)
        phone, group = await self.lunch(self.bob, self.carol)
        for person in (bob, carol):
            invited = await person.next("groupchat_invite")
            self.assertEqual(invited["from"].full, group)
            self.assertEqual(str(invited["muc"]["invite"]["from"]), f"{self.ann}@localhost")
            invited = await person.next("groupchat_direct_invite")
            self.assertEqual(str(invited["groupchat_invite"]["jid"]), group)
        rooms = [await self.enter(person, group) for person in (bob, carol)]
        here = {}
        for room, name in zip(rooms, (self.bob, self.carol)):
            here[name] = ("member", "participant")
            self.assertEqual((room.subject, room.texts()), ("lunch", ["before"]))
            self.assertEqual(room.names(), here, "who is in the room, not who is a member")
            self.assertLessEqual({100, 110}, room.codes)
            self.assertFalse({201, 210} & room.codes)
        identity = rooms[0].say("hello <&> 世界")
        for room in rooms:
            heard = await room.person.next("groupchat_message")
            self.assertEqual((heard["body"], heard["type"], heard["id"]),
                             ("hello <&> 世界", "groupchat", identity))
            self.assertEqual(heard["from"].full, f"{group}/{self.bob}")
            self.assertEqual((str(heard["stanza_id"]["by"]), len(heard["stanza_id"]["id"])),
                             (group, 22))
            self.assertFalse(heard["delay"]["stamp"], "it did not wait")
        phone.hears("create")
        self.assertEqual(phone.hears("hello").text, "hello <&> 世界")
        phone.send(group, "by IM")
        for room in rooms:
            self.assertEqual(await room.hears(), [(self.ann, "by IM")])
        for number in range(50):
            rooms[number % 2].say(str(number))
        orders = [[text for _, text in await room.hears(50)] for room in rooms]
        self.assertEqual(orders[0], orders[1], "all see one order")
        told = [phone.next("message").message.content.text for _ in range(50)]
        self.assertEqual(told, orders[0], "those of IM too")
        self.assertEqual(sorted(told, key=int), [str(number) for number in range(50)])

    @together
    async def test_who_is_removed_is_out_and_who_is_added_is_in(self):
        bob, carol, dave = [await self.guest(name) for name in (self.bob, self.carol, self.dave)]
        phone, group = await self.lunch(self.bob, self.carol)
        of_bob, of_carol = await self.enter(bob, group), await self.enter(carol, group)
        await self.refused(dave, group, "registration-required")
        phone.order("remove", group, [self.carol])
        for room in (of_bob, of_carol):
            gone = await room.sees(self.carol, affiliation="none")
            self.assertEqual(gone["type"], "unavailable")
            self.assertIn(321, gone["muc"]["status_codes"])
            self.assertEqual(110 in gone["muc"]["status_codes"], room is of_carol)
        of_carol.say("am I?")
        error = await carol.next("message_error")
        self.assertEqual(error["error"]["condition"], "not-acceptable")
        await self.refused(carol, group, "registration-required")
        phone.send(group, "she is gone")
        self.assertEqual(await of_bob.hears(), [(self.ann, "she is gone")])
        await carol.ping()
        self.assertTrue(carol.queues["groupchat_message"].empty())
        phone.order("add", group, [self.dave])
        await dave.next("groupchat_direct_invite")
        of_dave = await self.enter(dave, group)
        await of_bob.sees(self.dave, affiliation="member", role="participant")
        self.assertEqual(of_dave.texts(), [], "what was before it does not read")
        phone.order("rename", group, title="dinner")
        phone.order("promote", group, [self.dave])
        phone.order("mute", group, [self.bob])
        for room in (of_bob, of_dave):
            subject = await room.person.next("groupchat_subject")
            self.assertEqual((subject["subject"], subject["from"].resource), ("dinner", self.ann))
            await room.sees(self.dave, affiliation="admin", role="moderator")
            await room.sees(self.bob, affiliation="member", role="visitor")
        of_bob.say("may I?")
        error = await bob.next("message_error")
        self.assertEqual(error["error"]["condition"], "forbidden")
        phone.order("hand-over", group, [self.dave])
        await of_bob.sees(self.dave, affiliation="owner")
        phone.order("leave", group)
        of_dave.say("she was not in the room")
        self.assertEqual(await of_bob.hears(), [(self.dave, "she was not in the room")])
        self.assertTrue(bob.queues["groupchat_presence"].empty())

    @together
    async def test_how_one_is_there_is_shown_to_the_room_and_to_whoever_enters(self):
        bob, carol, dave = [await self.guest(name) for name in (self.bob, self.carol, self.dave)]
        _, group = await self.lunch(self.bob, self.carol, self.dave)
        of_bob, of_carol = await self.enter(bob, group), await self.enter(carol, group)

        def shows(room, nick, **how):
            room.person.client.send_presence(pto=f"{group}/{nick}", **how)

        shows(of_bob, self.bob, pshow="away", pstatus="lunch <1>")
        for room in (of_bob, of_carol):
            shown = await room.sees(self.bob, role="participant")
            self.assertEqual((shown["type"], shown["status"]), ("away", "lunch <1>"))
            self.assertEqual(110 in shown["muc"]["status_codes"], room is of_bob)
        of_dave = await self.enter(dave, group)
        shown = {it["from"].resource: (it["type"], it["status"]) for it in of_dave.occupants}
        here = ("available", "")
        self.assertEqual(shown, {self.carol: here, self.dave: here,
                                 self.bob: ("away", "lunch <1>")})
        bob.client.disconnect()
        for room in (of_carol, of_dave):
            shown = await room.sees(self.bob, role="none")
            self.assertEqual((shown["type"], shown["muc"]["affiliation"]),
                             ("unavailable", "member"))

    @together
    async def test_visitors_of_an_open_room_come_and_go_and_become_no_members(self):
        phone, group = await self.lunch(self.bob)
        bob, carol = await self.guest(self.bob), await self.guest(self.carol)
        await self.refused(carol, group, "registration-required")
        phone.order("unlock", group)
        of_bob = await self.enter(bob, group)
        of_carol = await self.enter(carol, group, nick="Mad Hatter")
        self.assertEqual(of_carol.names(), {"Mad Hatter": ("none", "participant"),
                                            self.bob: ("member", "participant")})
        self.assertEqual(of_carol.texts(), [], "what was before it was opened")
        await of_bob.sees("Mad Hatter", affiliation="none", role="participant")
        of_carol.say("tea?")
        for room in (of_bob, of_carol):
            self.assertEqual(await room.hears(), [("Mad Hatter", "tea?")])
        for told in ("create", "unlock", "tea?"):
            phone.hears(told)
        phone.send(group, "by IM")
        for room in (of_bob, of_carol):
            self.assertEqual(await room.hears(), [(self.ann, "by IM")])
        second = await self.enter(await self.guest(self.carol, "second"), group, nick="Mad Hatter")
        self.assertEqual(second.texts(), ["tea?", "by IM"])
        told = self.im("groups members", self.ann, group).splitlines()
        self.assertEqual(sorted(told), sorted([f"{self.ann}@localhost owner",
                                               f"{self.bob}@localhost member"]))
        carol.client.abort()
        await second.person.ping()
        self.assertTrue(bob.queues["groupchat_presence"].empty(), "one device is there still")
        second.person.client.abort()
        gone = await of_bob.sees("Mad Hatter", role="none")
        self.assertEqual(gone["type"], "unavailable")
        carol = await self.guest(self.carol)
        of_carol = await self.enter(carol, group)
        self.assertEqual(of_carol.texts(), ["tea?", "by IM"])
        phone.order("lock", group)
        for room in (of_bob, of_carol):
            gone = await room.sees(self.carol, role="none")
            self.assertIn(322, gone["muc"]["status_codes"])
        await self.refused(carol, group, "registration-required")

    @together
    async def test_nicks_are_chosen_changed_and_in_conflict(self):
        phone, group = await self.lunch(self.bob, self.carol)
        bob, carol = await self.guest(self.bob), await self.guest(self.carol)
        of_bob = await self.enter(bob, group, nick="Hatter")
        await self.refused(carol, group, "conflict", nick="HATTER")
        await self.refused(carol, group, "conflict", nick=self.ann)
        of_carol = await self.enter(carol, group, nick="Hare")
        of_bob.person.client.send_presence(pto=f"{group}/Dormouse")
        for room in (of_bob, of_carol):
            former = await room.sees("Hatter", role="participant")
            self.assertEqual(former["type"], "unavailable")
            self.assertIn(303, former["muc"]["status_codes"])
            self.assertEqual(former["muc"]["item"]["nick"], "Dormouse")
            now = await room.sees("Dormouse")
            self.assertEqual(110 in now["muc"]["status_codes"], room is of_bob)
        of_bob.say("squeak")
        for room in (of_bob, of_carol):
            self.assertEqual(await room.hears(), [("Dormouse", "squeak")])
        error = f"muc::{group}::presence-error"
        bob.hear(error)
        bob.client.send_presence(pto=f"{group}/hare")
        refused = await bob.next(error)
        self.assertEqual(refused["error"]["condition"], "conflict")
        carol.client.send_message(mto=f"{group}/dormouse", mbody="psst", mtype="chat")
        heard = await bob.next("message")
        while heard["body"] != "psst":
            heard = await bob.next("message")
        self.assertEqual(heard["from"].full, f"{group}/Hare")
        with self.assertRaises(slixmpp().exceptions.IqError) as refused:
            await bob.client.plugin["xep_0045"].set_role(group, "Hare", "none")
        self.assertEqual(refused.exception.condition, "forbidden")
        again = await self.enter(await self.guest(self.carol, "again"), group, nick="Hare")
        self.assertIn("Dormouse", again.names())
        self.assertEqual([it["from"].resource for it in again.history][-1], "Dormouse")

    @together
    async def test_a_room_is_made_administered_and_destroyed_by_xmpp(self):
        phone = self.phone(self.ann)
        bob, carol = await self.guest(self.bob), await self.guest(self.carol)
        address = f"{self.bob[-40:].lstrip('.-_')}.room@{SERVICE}"
        room = await self.enter(bob, address, nick="Bobby")
        self.assertLessEqual({100, 110, 201}, room.codes)
        self.assertEqual(room.names(), {"Bobby": ("owner", "moderator")})
        await self.refused(carol, address, "item-not-found")
        plugin = bob.client.plugin["xep_0045"]
        form = await plugin.get_room_config(address)
        form["type"] = "submit"
        form.get_fields()["muc#roomconfig_roomname"]["value"] = "Lunch & co"
        await plugin.set_room_config(address, form)
        self.assertEqual((await bob.next("groupchat_subject"))["subject"], "Lunch & co")
        plugin.invite(address, f"{self.ann}@localhost", "hungry?")
        await bob.ping()
        self.assertIn(self.ann, phone.hears("add").extra.decode())
        room.say("to the phone")
        self.assertEqual(await room.hears(), [("Bobby", "to the phone")])
        phone.hears("to the phone")
        await plugin.set_affiliation(address, "admin", jid=f"{self.carol}@localhost")
        await carol.next("groupchat_direct_invite")
        of_carol = await self.enter(carol, address)
        self.assertEqual(of_carol.subject, "Lunch & co")
        await room.sees(self.carol, affiliation="admin", role="moderator")
        for affiliation, names in (("owner", [self.bob]), ("admin", [self.carol]),
                                   ("member", [self.ann]), ("outcast", [])):
            listed = await plugin.get_affiliation_list(address, affiliation)
            self.assertEqual([str(jid) for jid in listed], [f"{it}@localhost" for it in names])
        told = self.im("groups members", self.ann, address).splitlines()
        self.assertEqual(sorted(told), sorted([f"{self.bob}@localhost owner",
                                               f"{self.carol}@localhost admin",
                                               f"{self.ann}@localhost member"]))
        theirs = carol.client.plugin["xep_0045"]
        await theirs.set_affiliation(address, "none", jid=f"{self.ann}@localhost")
        for nick, condition in (("Bobby", "not-allowed"), (self.ann, "item-not-found")):
            with self.assertRaises(slixmpp().exceptions.IqError) as refused:
                await theirs.set_role(address, nick, "none")
            self.assertEqual(refused.exception.condition, condition)
        await plugin.destroy(address)
        for seen, nick in ((room, "Bobby"), (of_carol, self.carol)):
            gone = await seen.sees(nick, affiliation="none")
            self.assertIsNotNone(gone["muc"].xml.find(
                "{http://jabber.org/protocol/muc#user}destroy"))
        again = await self.enter(bob, address)
        self.assertIn(201, again.codes, "the name was free")

    @together
    async def test_a_name_is_free_again_and_nothing_of_the_room_before_is_seen(self):
        address = f"{self.bob[-40:].lstrip('.-_')}.again@{SERVICE}"
        bob, carol = await self.guest(self.bob), await self.guest(self.carol)
        room = await self.enter(bob, address)
        plugin = bob.client.plugin["xep_0045"]
        await plugin.set_affiliation(address, "member", jid=f"{self.ann}@localhost")
        await plugin.set_affiliation(address, "outcast", jid=f"{self.carol}@localhost")
        await self.refused(carol, address, "forbidden")
        room.say("of then")
        self.assertEqual(await room.hears(), [(self.bob, "of then")])
        await plugin.destroy(address)
        for start in range(2):
            made = await self.enter(carol, address)
            self.assertEqual((201 in made.codes, made.names()),
                             (start == 0, {self.carol: ("owner", "moderator")}))
            self.assertNotIn("of then", made.texts())
            # It is being made; after the server's death it is a room for members.
            locked = ("item-not-found", "registration-required")[start]
            await self.refused(bob, address, locked)
            for affiliation in ("member", "outcast"):
                plugin = carol.client.plugin["xep_0045"]
                self.assertEqual(await plugin.get_affiliation_list(address, affiliation), [])
            if start == 0:
                made.say("of now")
                self.assertEqual(await made.hears(), [(self.carol, "of now")])
                self.server.kill()
                self.server.start()
                bob, carol = await self.guest(self.bob), await self.guest(self.carol)
        self.assertEqual(made.texts(), ["of now"])
        await plugin.set_affiliation(address, "member", jid=f"{self.bob}@localhost")
        back = await self.enter(bob, address)
        self.assertEqual((back.texts(), back.subject), ([], address.split("@")[0]))

    @together
    async def test_the_history_is_that_of_the_group_over_the_server_s_death(self):
        phone, group = await self.lunch(self.bob)
        bob = await self.guest(self.bob)
        room = await self.enter(bob, group)
        for number in range(30):
            room.say(str(number))
        await room.hears(30)
        phone.send(group, "last")
        await room.hears()
        self.server.kill()
        self.server.start()
        bob = await self.guest(self.bob)
        room = await self.enter(bob, group)
        self.assertEqual(room.texts(), [*(str(number) for number in range(11, 30)), "last"])
        for message in room.history:
            self.assertEqual(str(message["delay"]["from"]), group)
        self.assertEqual(room.subject, "lunch")
        phone = self.phone(self.ann)
        phone.send(group, "after")
        self.assertEqual(await room.hears(), [(self.ann, "after")], "nothing is there twice")
        self.im("send", self.ann, group, "by command")
        self.assertEqual(await room.hears(), [(self.ann, "by command")])
        few = await self.enter(await self.guest(self.bob, "other"), group, maxstanzas=2)
        self.assertEqual(few.texts(), ["after", "by command"])
        none = await self.enter(await self.guest(self.bob, "third"), group, maxstanzas=0)
        self.assertEqual(none.texts(), [])
        room.say("to all three")
        for seen in (room, few, none):
            self.assertEqual(await seen.hears(), [(self.bob, "to all three")])

    @together
    async def test_who_has_not_entered_sees_nothing_and_nothing_is_lost(self):
        phone, group = await self.lunch(self.bob)
        away = self.phone(self.bob)
        desk = await self.guest(self.bob, "desk")
        self.im("send", self.ann, group, "in the group")
        self.im("send", self.ann, f"{self.bob}@localhost", "to him alone")
        self.im("send", self.ann, group, "in the group again")
        self.assertEqual(await desk.hears(1), ["to him alone"])
        await desk.ping()
        self.assertTrue(desk.queues["groupchat_message"].empty())
        texts = away.texts_until(5)
        self.assertIn("to him alone", texts)
        texts.remove("to him alone")
        self.assertEqual(texts, ["lunch", "before", "in the group", "in the group again"])
        room = await self.enter(desk, group)
        self.assertEqual(room.texts(), ["before", "in the group", "in the group again"])
        phone.send(group, "now")
        self.assertEqual(await room.hears(), [(self.ann, "now")])
        desk.client.plugin["xep_0045"].leave_muc(slixmpp().JID(group), self.bob)
        gone = await room.sees(self.bob, role="none")
        self.assertEqual((gone["type"], gone["muc"]["affiliation"]), ("unavailable", "member"))
        phone.send(group, "unseen")
        self.im("send", self.ann, f"{self.bob}@localhost", "seen")
        self.assertEqual(await desk.hears(2), ["now", "seen"], "bodies of all kinds")
        again = await self.enter(desk, group, maxstanzas=2)
        self.assertEqual(again.texts(), ["now", "unseen"])

    @together
    async def test_rooms_are_found_and_say_what_they_are(self):
        _, group = await self.lunch(self.bob)
        bob, dave = await self.guest(self.bob), await self.guest(self.dave)
        disco = bob.client.plugin["xep_0030"]
        items = (await disco.get_items("localhost"))["disco_items"]["items"]
        self.assertEqual(sorted(str(jid) for jid, *_ in items),
                         ["channel.localhost", SERVICE, "live.localhost"])
        info = (await disco.get_info(SERVICE))["disco_info"]
        self.assertIn(("conference", "text", None, "Rooms"), info["identities"])
        self.assertIn("http://jabber.org/protocol/muc", info["features"])
        items = (await disco.get_items(SERVICE))["disco_items"]["items"]
        self.assertEqual([(str(jid), name) for jid, _, name in items], [(group, "lunch")])
        info = (await disco.get_info(group))["disco_info"]
        self.assertIn(("conference", "text", None, "lunch"), info["identities"])
        self.assertLessEqual({"muc_membersonly", "muc_persistent", "muc_nonanonymous"},
                             info["features"])
        disco = dave.client.plugin["xep_0030"]
        items = (await disco.get_items(SERVICE))["disco_items"]["items"]
        self.assertEqual(len(items), 0, "it is in none")
        with self.assertRaises(slixmpp().exceptions.IqError) as refused:
            await disco.get_info(group)
        self.assertEqual(refused.exception.condition, "item-not-found")
        ping = bob.client.plugin["xep_0199"].send_ping
        own = f"{group}/{self.bob}"
        with self.assertRaises(slixmpp().exceptions.IqError) as refused:
            await ping(own, timeout=DEADLINE_S)
        self.assertEqual(refused.exception.condition, "not-acceptable")
        await self.enter(bob, group)
        await ping(own, timeout=DEADLINE_S)
        dave.client.plugin["xep_0249"].send_invitation(f"{self.bob}@localhost", group)
        invited = await bob.next("groupchat_direct_invite")
        while invited["from"].bare != f"{self.dave}@localhost":
            invited = await bob.next("groupchat_direct_invite")
        self.assertEqual(str(invited["groupchat_invite"]["jid"]), group)

    @together
    async def test_people_who_acknowledge_are_given_a_room_once(self):
        phone, group = await self.lunch(self.bob)
        bob = await self.guest(self.bob, plugins=["0198"])
        room = await self.enter(bob, group)
        for number in range(100):
            phone.send(group, str(number))
        self.assertEqual(await room.hears(100), [(self.ann, str(n)) for n in range(100)])
        await bob.ping()
        await bob.leave()
        self.server.settle()
        bob = await self.guest(self.bob, plugins=["0198"])
        room = await self.enter(bob, group, maxstanzas=1)
        self.assertEqual(room.texts(), ["99"])
        phone.send(group, "new")
        self.assertEqual(await room.hears(), [(self.ann, "new")])
        self.assertTrue(bob.queues["stream_error"].empty())


if __name__ == "__main__":
    unittest.main()

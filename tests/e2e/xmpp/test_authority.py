"""Rooms as their admins have them: archive, bans, rooms that anybody enters, moderation, by slixmpp.

People of IM are in the same groups, and see the same.
"""

from fixture import DEADLINE_S
from xmpp.people import slixmpp, together
from xmpp.test_rooms import SERVICE, Guests

MODERATE = "urn:xmpp:message-moderate:1"
RETRACT = "urn:xmpp:message-retract:1"
OCCUPANT = "urn:xmpp:occupant-id:0"
CONFIG = "muc#roomconfig_"
USER = "http://jabber.org/protocol/muc#user"
ADMIN = "http://jabber.org/protocol/muc#admin"


class Authority(Guests):
    async def guest(self, name, resource="", there=True, plugins=()):
        return await super().guest(name, resource, there, ("0313", "0421", "0004", *plugins))

    def address(self, name):
        return f"{name[-40:].lstrip('.-_')}.{self.id().rsplit('_', 1)[-1]}@{SERVICE}"

    async def made(self, *plugins):
        """Bob has made a room by entering it."""
        bob = await self.guest(self.bob, plugins=plugins)
        room = await self.enter(bob, self.address(self.bob))
        self.assertIn(201, room.codes)
        return bob, room

    async def configure(self, person, room, **wanted):
        plugin = person.client.plugin["xep_0045"]
        form = await plugin.get_room_config(room)
        form["type"] = "submit"
        for name, value in wanted.items():
            form.get_fields()[CONFIG + name]["value"] = value
        await plugin.set_room_config(room, form)

    async def archived(self, person, room, **how):
        """What the archive of a room has: by whom, and what."""
        found = person.client["xep_0313"].iterate(slixmpp().JID(room), **how)
        said = [it["mam_result"]["forwarded"]["stanza"] async for it in found]
        return [(it["from"].resource, it["body"]) for it in said]

    def why(self, presence):
        """Who did that to an occupant, and why."""
        item = presence["muc"].xml.find(f"{{{USER}}}item")
        return (item.find(f"{{{USER}}}actor").get("nick"), item.findtext(f"{{{USER}}}reason"))

    async def bans(self, person, room):
        """Who is banned, and why."""
        iq = person.client.make_iq_get(ito=room)
        iq["mucadmin_query"]["item"]["affiliation"] = "outcast"
        items = (await iq.send(timeout=DEADLINE_S)).xml.iter(f"{{{ADMIN}}}item")
        return [(it.get("jid"), it.findtext(f"{{{ADMIN}}}reason")) for it in items]

    async def fails(self, awaited, condition):
        with self.assertRaises(slixmpp().exceptions.IqError) as refused:
            await awaited
        self.assertEqual(refused.exception.condition, condition)

    @together
    async def test_the_archive_of_a_room_is_read_by_pages_by_its_members_alone(self):
        phone, group = await self.lunch(self.bob)
        bob, carol = await self.guest(self.bob), await self.guest(self.carol)
        room = await self.enter(bob, group)
        for number in range(30):
            room.say(f"number {number}")
        await room.hears(30)
        phone.order("add", group, [self.carol])
        phone.send(group, "welcome")
        await room.hears(1)
        said = await self.archived(bob, group, rsm={"max": 7})
        numbers = [(self.bob, f"number {number}") for number in range(30)]
        self.assertEqual(said, [(self.ann, "before"), *numbers, (self.ann, "welcome")])
        self.assertEqual(await self.archived(carol, group), [(self.ann, "welcome")])
        of_ann = await self.archived(bob, group, with_jid=slixmpp().JID(f"{group}/{self.ann}"))
        self.assertEqual(of_ann, [(self.ann, "before"), (self.ann, "welcome")])
        dave = await self.guest(self.dave)
        for other in (group, f"nowhere@{SERVICE}"):
            asked = dave.client["xep_0313"].retrieve(slixmpp().JID(other), timeout=DEADLINE_S)
            await self.fails(asked, "forbidden")
        info = (await bob.client.plugin["xep_0030"].get_info(group))["disco_info"]
        self.assertIn("urn:xmpp:mam:2#extended", info["features"])
        own = bob.client["xep_0313"].iterate(with_jid=slixmpp().JID(group))
        self.assertEqual([it async for it in own], [], "that of the account has no rooms")

    @together
    async def test_who_is_banned_is_out_for_both_and_stays_out_over_the_server_s_death(self):
        phone, group = await self.lunch(self.bob, self.carol)
        bob, carol = await self.guest(self.bob), await self.guest(self.carol)
        of_bob, of_carol = await self.enter(bob, group), await self.enter(carol, group)
        phone.order("promote", group, [self.bob])
        await of_bob.sees(self.bob, affiliation="admin")
        plugin = bob.client.plugin["xep_0045"]
        victim = f"{self.carol}@localhost"
        await plugin.set_affiliation(group, "outcast", jid=victim, reason="spam & more")
        for room in (of_bob, of_carol):
            gone = await room.sees(self.carol, affiliation="outcast")
            self.assertEqual(gone["type"], "unavailable")
            self.assertIn(301, gone["muc"]["status_codes"])
            self.assertEqual(self.why(gone), (self.bob, "spam & more"))
        while not (told := phone.next("message").message.content).extra.startswith(b"ban "):
            pass
        self.assertEqual(told.text, "spam & more")
        listed = await plugin.get_affiliation_list(group, "outcast")
        self.assertEqual([str(jid) for jid in listed], [victim])
        self.assertEqual(self.im("groups banned", self.ann, group).split(), [victim])
        self.assertEqual(phone.order("add", group, [self.carol]).word, "group_banned")
        await self.refused(carol, group, "forbidden")
        self.server.kill()
        self.server.start()
        bob, carol = await self.guest(self.bob), await self.guest(self.carol)
        of_bob, plugin = await self.enter(bob, group), bob.client.plugin["xep_0045"]
        self.assertEqual(await self.bans(bob, group), [(victim, "spam & more")])
        await self.fails(plugin.set_affiliation(group, "outcast", jid=f"{self.ann}@localhost"),
                         "not-allowed")
        await self.fails(plugin.set_affiliation(group, "outcast", jid=f"{self.bob}@localhost"),
                         "conflict")
        await self.fails(
            carol.client.plugin["xep_0045"].get_affiliation_list(group, "outcast"), "forbidden")
        await plugin.set_affiliation(group, "member", jid=victim)
        await self.enter(carol, group)
        self.assertEqual(len(await plugin.get_affiliation_list(group, "outcast")), 0)

    @together
    async def test_a_reason_reaches_whoever_it_is_about_and_everybody_else(self):
        bob, room = await self.made()
        carol, dave = await self.guest(self.carol), await self.guest(self.dave)
        plugin = bob.client.plugin["xep_0045"]
        for person, name in ((carol, self.carol), (dave, self.dave)):
            plugin.invite(room.address, f"{name}@localhost", "hungry?")
            invited = await person.next("groupchat_invite")
            self.assertEqual(invited["muc"]["invite"]["reason"], "hungry?")
            invited = await person.next("groupchat_direct_invite")
            self.assertEqual(invited["groupchat_invite"]["reason"], "hungry?")
        rooms = [room, *[await self.enter(person, room.address) for person in (carol, dave)]]
        await plugin.set_role(room.address, self.dave, "visitor", reason="not so loud")
        for seen in rooms:
            shown = await seen.sees(self.dave, role="visitor")
            self.assertEqual(self.why(shown), (self.bob, "not so loud"))
        await plugin.set_role(room.address, self.dave, "none", reason="<too> loud")
        for seen in rooms:
            gone = await seen.sees(self.dave, role="none")
            self.assertEqual(self.why(gone), (self.bob, "<too> loud"))
        await plugin.destroy(room.address, "closed for good", f"tea@{SERVICE}")
        for seen in rooms[:2]:
            own = seen.person.client.boundjid.local
            gone = await seen.sees(own, affiliation="none")
            told = gone["muc"].xml.find(f"{{{USER}}}destroy")
            self.assertEqual((told.get("jid"), told.findtext(f"{{{USER}}}reason")),
                             (f"tea@{SERVICE}", "closed for good"))

    @together
    async def test_a_room_is_described_and_unlocked_and_whoever_wants_enters(self):
        bob, room = await self.made()
        carol = await self.guest(self.carol)
        await self.refused(carol, room.address, "item-not-found")
        await self.configure(bob, room.address, membersonly=False, roomdesc="Soup, mostly")
        await bob.next("groupchat_config_status")
        info = (await carol.client.plugin["xep_0030"].get_info(room.address))["disco_info"]
        self.assertIn("muc_open", info["features"])
        self.assertNotIn("muc_membersonly", info["features"])
        room.say("come in")
        self.assertEqual(await room.hears(), [(self.bob, "come in")])
        of_carol = await self.enter(carol, room.address)
        self.assertEqual(of_carol.texts(), ["come in"])
        await room.sees(self.carol, affiliation="none", role="participant")
        told = self.im("groups members", self.bob, room.address)
        self.assertNotIn(self.carol, told)
        plugin = bob.client.plugin["xep_0045"]
        await plugin.set_role(room.address, self.carol, "none")
        gone = await of_carol.sees(self.carol, role="none")
        self.assertIn(307, gone["muc"]["status_codes"])
        of_carol = await self.enter(carol, room.address)
        await plugin.set_affiliation(room.address, "outcast", jid=f"{self.carol}@localhost")
        await of_carol.sees(self.carol, affiliation="outcast")
        await self.refused(carol, room.address, "forbidden")
        await self.fails(self.configure(bob, room.address, enablearchiving=False),
                         "not-acceptable")

    @together
    async def test_a_room_has_a_password_and_whoever_is_in_it_asks_the_others(self):
        bob, room = await self.made("0092")
        carol = await self.guest(self.carol, plugins=("0092",))
        await self.configure(bob, room.address, membersonly=False, passwordprotectedroom=True,
                             roomsecret="sesame")
        info = (await carol.client.plugin["xep_0030"].get_info(room.address))["disco_info"]
        self.assertIn("muc_passwordprotected", info["features"])
        await self.refused(carol, room.address, "not-authorized")
        await self.enter(carol, room.address, nick="Hare", password="sesame")
        await room.sees("Hare", role="participant")
        version = bob.client.plugin["xep_0092"].get_version
        told = await version(f"{room.address}/Hare", timeout=DEADLINE_S)
        self.assertEqual((told["from"], told["software_version"]["name"]),
                         (f"{room.address}/Hare", "Slixmpp"))

    @together
    async def test_a_moderator_calls_a_message_back_for_everybody(self):
        phone, group = await self.lunch(self.bob, self.carol)
        bob, carol = await self.guest(self.bob), await self.guest(self.carol)
        of_bob, of_carol = await self.enter(bob, group), await self.enter(carol, group)
        of_carol.say("spam")
        heard = await bob.next("groupchat_message")
        identity = heard["stanza_id"]["id"]
        await of_carol.hears()

        def moderates(person):
            iq = person.client.make_iq_set(ito=group)
            builder = slixmpp().xmlstream.ET
            moderate = builder.SubElement(iq.xml, f"{{{MODERATE}}}moderate", id=identity)
            builder.SubElement(moderate, f"{{{RETRACT}}}retract")
            builder.SubElement(moderate, f"{{{MODERATE}}}reason").text = "this is <spam>"
            return iq.send(timeout=DEADLINE_S)

        def by_whom(retraction):
            """By whom, and why; with its id as an occupant."""
            moderated = retraction.find(f"{{{MODERATE}}}moderated")
            return (moderated.get("by"), moderated.find(f"{{{OCCUPANT}}}occupant-id").get("id"),
                    retraction.findtext(f"{{{RETRACT}}}reason"))
        by_bob = (f"{group}/{self.bob}", f"{self.bob}@localhost", "this is <spam>")
        await self.fails(moderates(bob), "forbidden")
        phone.order("promote", group, [self.bob])
        await of_bob.sees(self.bob, affiliation="admin")
        await moderates(bob)
        for person in (bob, carol):
            told = await person.next("groupchat_message")
            retract = told.xml.find(f"{{{RETRACT}}}retract")
            self.assertEqual(retract.get("id"), identity)
            self.assertEqual((told["from"].full, by_whom(retract)), (group, by_bob))
        while (recall := phone.next("message").message.content).kind != 4:
            pass
        _, _, moderated = recall.extra.decode().partition("\n")
        by, _, reason = moderated.split(" ", 2)
        self.assertEqual((by, reason), (f"{self.bob}@localhost", "this is <spam>"))
        self.server.kill()
        self.server.start()
        carol = await self.guest(self.carol)
        self.assertNotIn((self.carol, "spam"), await self.archived(carol, group))
        found = carol.client["xep_0313"].iterate(slixmpp().JID(group))
        all_of_it = [it["mam_result"]["forwarded"]["stanza"] async for it in found]
        for name, sender in (("retracted", f"{group}/{self.carol}"), ("retract", group)):
            kept = [(it, it.xml.find(f"{{{RETRACT}}}{name}")) for it in all_of_it]
            kept = [(it["from"].full, by_whom(what)) for it, what in kept if what is not None]
            self.assertEqual(kept, [(sender, by_bob)], name)

    @together
    async def test_what_is_said_to_one_occupant_is_between_the_two(self):
        _, group = await self.lunch(self.bob, self.carol)
        bob, carol = await self.guest(self.bob), await self.guest(self.carol)
        await self.enter(bob, group)
        await self.enter(carol, group)
        bob.client.send_message(f"{group}/{self.carol}", "between us", mtype="chat")
        while (heard := await carol.next())["type"] != "chat":
            pass
        self.assertEqual((heard["body"], heard["from"].full),
                         ("between us", f"{group}/{self.bob}"))
        bob.client.send_message(f"{group}/nobody at all", "psst", mtype="chat")
        error = await bob.next("message_error")
        self.assertEqual(error["error"]["condition"], "item-not-found")


"""What a room tells some alone: who declined an invitation, and who asks for voice, by slixmpp."""

from xmpp.people import slixmpp, together
from xmpp.test_rooms import Guests

USER = "http://jabber.org/protocol/muc#user"
REQUEST = "http://jabber.org/protocol/muc#request"


def overhears(person):
    """What rooms tell this one alone waits in queues: `decline`, and `voice`, a form."""
    library = slixmpp()
    for kind, path in (("decline", "message/muc/decline"), ("voice", "message/form@type=form")):
        person.hear(f"aside_{kind}")
        tell = person.queues[f"aside_{kind}"].put_nowait
        person.client.register_handler(library.xmlstream.handler.Callback(
            f"aside {kind}", library.xmlstream.matcher.StanzaPath(path), tell))
    return person


async def hears_decline(person):
    """By which room, by whom, and why."""
    told = await person.next("aside_decline")
    decline = told.xml.find(f"{{{USER}}}x/{{{USER}}}decline")
    return told["from"].full, decline.get("from"), decline.findtext(f"{{{USER}}}reason")


def answers(person, message, **wanted):
    """Sends a form about voice back, as it came but for this."""
    form = message["form"]
    for name, value in wanted.items():
        form.get_fields()[f"muc#{name}"]["value"] = value
    reply = person.client.make_message(message["from"])
    reply["form"]["type"] = "submit"
    for name, field in form.get_fields().items():
        reply["form"].add_field(var=name, ftype=field["type"], value=field["value"])
    reply.send()


class Asides(Guests):
    async def guest(self, name, resource="", there=True, plugins=()):
        return overhears(await super().guest(name, resource, there, ("0004", *plugins)))

    @together
    async def test_whoever_had_invited_is_told_who_declined_and_nobody_else(self):
        phone, group = await self.lunch(self.bob, self.carol)
        phone.order("promote", group, [self.bob])
        bob, carol = await self.guest(self.bob), await self.guest(self.carol)
        other = await self.guest(self.bob, "other")
        dave = await self.guest(self.dave)
        room = await self.enter(bob, group)
        bob.client.plugin["xep_0045"].invite(group, f"{self.dave}@localhost", "hungry?")
        invited = (await dave.next("groupchat_invite"))["muc"]["invite"]
        dave.client.plugin["xep_0045"].decline(group, str(invited["from"]), "no <time>")
        # Both devices of who had invited, whether they are in the room or not.
        for one in (bob, other):
            told = await hears_decline(one)
            self.assertEqual(told, (group, f"{self.dave}@localhost", "no <time>"))
        await bob.ping()
        self.assertTrue(room.person.queues["groupchat_presence"].empty(), "he was never in")
        dave.client.plugin["xep_0045"].decline(group, f"{self.carol}@localhost", "and you?")
        error = await dave.next("message_error")
        self.assertEqual(error["error"]["condition"], "forbidden", "once it is no member")
        await carol.ping()
        self.assertTrue(carol.queues["aside_decline"].empty())
        self.assertNotIn(self.dave, self.im("groups members", self.bob, group))

    @together
    async def test_a_visitor_asks_moderators_for_voice_and_is_given_it(self):
        phone, group = await self.lunch(self.bob, self.carol, self.dave)
        phone.order("promote", group, [self.bob])
        phone.order("mute", group, [self.carol])
        bob, carol, dave = [await self.guest(name) for name in (self.bob, self.carol, self.dave)]
        other = await self.guest(self.bob, "other")
        of_bob, of_carol, of_dave = [await self.enter(it, group) for it in (bob, carol, dave)]
        info = (await bob.client.plugin["xep_0030"].get_info(group))["disco_info"]
        self.assertIn(REQUEST, info["features"])
        ask = carol.client.plugin["xep_0045"].request_voice
        ask(group, "participant")
        wish = await bob.next("aside_voice")
        self.assertEqual(wish["from"].full, group)
        fields = {name: it["value"] for name, it in wish["form"].get_fields().items()}
        self.assertEqual(fields, {"FORM_TYPE": [REQUEST], "muc#role": "participant",
                                  "muc#jid": f"{self.carol}@localhost",
                                  "muc#roomnick": self.carol, "muc#request_allow": False})
        answers(dave, wish, request_allow=True)
        error = await dave.next("message_error")
        self.assertEqual(error["error"]["condition"], "forbidden", "no moderator")
        answers(bob, wish, request_allow=False)
        answers(bob, wish, request_allow=True)
        for room in (of_bob, of_carol, of_dave):
            shown = await room.sees(self.carol, affiliation="member", role="participant")
            self.assertEqual(shown["type"], "available")
        of_carol.say("thank you")
        self.assertEqual(await of_bob.hears(), [(self.carol, "thank you")])
        ask(group, "participant")
        error = await carol.next("message_error")
        self.assertEqual(error["error"]["condition"], "not-allowed", "she has one")
        # Nobody is asked once more within the minute; nor who is no moderator, or not in the room.
        phone.order("mute", group, [self.carol])
        await of_carol.sees(self.carol, role="visitor")
        ask(group, "participant")
        for one in (carol, bob, dave, other):
            await one.ping()
            self.assertTrue(one.queues["aside_voice"].empty())
        other.client.plugin["xep_0045"].request_voice(group, "participant")
        error = await other.next("message_error")
        self.assertEqual(error["error"]["condition"], "not-acceptable", "not in the room")

"""What was said in rooms of a real Prosody comes over: by whom, at its times, once.

In one room everybody saw addresses, in the other nicks alone, and somebody has the name of another
one as his nick.
"""

import asyncio

from fixture import run
from xmpp.people import slixmpp, together
from xmpp.test_import import PASSWORD, Importing, Prosody, Somebody

NAMES = ("ann", "bob", "carl", "mallory")
SERVICE = "conference.b.example"
NAMED, NICKS = f"named@{SERVICE}", f"nicks@{SERVICE}"
FORM = ("<query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' "
        "type='submit'><field var='FORM_TYPE'><value>http://jabber.org/protocol/muc#roomconfig"
        "</value></field><field var='muc#roomconfig_persistentroom'><value>1</value></field>"
        "<field var='muc#roomconfig_whois'><value>{}</value></field></x></query>")
FORGED = ("<x xmlns='http://jabber.org/protocol/muc#user'>"
          "<item jid='ann@b.example' affiliation='owner'/></x>")
RETRACT = "<retract xmlns='urn:xmpp:message-retract:1' id='{}'/>"


class WithArchives(Prosody):
    def __init__(self):
        super().__init__()
        with open(self.path("prosody.cfg.lua"), "a", encoding="utf-8") as file:
            file.write('    modules_enabled = { "muc_mam" }\n')


class Talker(Somebody):
    """Somebody who talks in rooms, and hears himself before he goes on."""

    async def enters(self, room, nick):
        join = self.client.make_presence(pto=f"{room}/{nick}")
        join.append(slixmpp().xmlstream.ET.fromstring(
            "<x xmlns='http://jabber.org/protocol/muc'/>"))
        join.send()
        while (await self.next("presence_available"))["from"] != f"{room}/{nick}":
            pass

    async def speaks(self, room, text, *beside, name=None):
        message = self.client.make_message(room, text, mtype="groupchat")
        if name:
            message["id"] = name
        for xml in beside:
            message.append(slixmpp().xmlstream.ET.fromstring(xml))
        message.send()
        while (await self.next("message"))["body"] != text:
            pass

    async def is_made(self, whom, affiliation, room):
        await self.asks("set", "<query xmlns='http://jabber.org/protocol/muc#admin'>"
                               f"<item affiliation='{affiliation}' jid='{whom}@b.example'/>"
                               "</query>", to=room)


class RoomsFromProsody(Importing):
    PROSODY, NAMES = WithArchives, NAMES

    @classmethod
    async def lives(cls):
        people = [Talker(cls.prosody.clients, name, "b.example") for name in NAMES]
        ann, bob, carl, mallory = people
        try:
            for person in people:
                await person.here()
            for room, whois in ((NAMED, "anyone"), (NICKS, "moderators")):
                await ann.enters(room, "Annie")
                await ann.asks("set", FORM.format(whois), to=room)
                await ann.is_made("bob", "member", room)
                await ann.is_made("carl", "member", room)
                for person, nick in ((bob, "Bobby"), (carl, "Carl"), (mallory, "ann")):
                    await person.enters(room, nick)
                await ann.speaks(room, "lunch?")
                await bob.speaks(room, "at noon <&>")
                await carl.speaks(room, "I go")
                await mallory.speaks(room, "without me", FORGED)
                await bob.speaks(room, "never mind", name="said-and-taken-back")
                await bob.speaks(room, "taken back", RETRACT.format("said-and-taken-back"))
                await ann.is_made("carl", "none", room)
                await ann.is_made("mallory", "outcast", room)
        finally:
            for person in people:
                person.client.abort()
            await asyncio.sleep(0)

    @classmethod
    async def goes_on(cls):
        bob = Talker(cls.prosody.clients, "bob", "b.example")
        try:
            await bob.here()
            await bob.enters(NAMED, "Robert")
            await bob.speaks(NAMED, "one more")
        finally:
            bob.client.abort()
            await asyncio.sleep(0)

    async def arrives(self, name, server=None):
        port = (server or self.server).ports["xmpp"][1]
        person = Talker(port, name, "localhost")
        self.people.append(person)
        return await person.here()

    async def read(self, name, room, server=None):
        """Who said what, as the room's archive tells a member."""
        person = await self.arrives(name, server)
        at = room.replace(SERVICE, "conference.localhost")
        bodies = []
        async for message in person.client.plugin["xep_0313"].iterate(jid=at):
            forwarded = message["mam_result"]["forwarded"]
            if forwarded["stanza"]["body"]:
                bodies.append((str(forwarded["stanza"]["from"].resource),
                               forwarded["stanza"]["body"], forwarded["delay"]["stamp"]))
        await person.leave()
        return bodies

    SAID = [("ann", "lunch?"), ("bob", "at noon <&>"), ("carl", "I go"),
            ("mallory", "without me")]

    def test_what_came_over_is_counted(self):
        self.assertEqual(self.told.returncode, 0, self.told)
        for count, what in ((2, "rooms"), (8, "messages in rooms"),
                            (2, "  a room message retracted by its sender"),
                            (2, "  a retraction of a room message")):
            self.assertRegex(self.told.stdout, rf"(?m)^ +{count} {what}$")

    @together
    async def test_members_read_who_said_what_in_either_room(self):
        for room in (NAMED, NICKS):
            for name in ("ann", "bob"):
                found = await self.read(name, room)
                self.assertEqual([it[:2] for it in found], self.SAID, room)
                self.assertEqual(sorted(it[2] for it in found), [it[2] for it in found])

    @together
    async def test_nothing_of_it_is_new(self):
        bob = await self.arrives("bob")
        await bob.ping()
        self.assertTrue(bob.queues["message"].empty(), "nothing is given to bob")
        page = self.server.ask("GET", "/v1/chat/accounts/bob/conversations")
        self.assertEqual([it["unread"] for it in page["conversations"]], [0, 0])

    def test_it_is_there_by_im_and_once_more_doubles_nothing(self):
        server = self.serve({"listen.im": {"address": "127.0.0.1:0", "protocol": "im",
                                          "anonymous": "no"}})
        host, port = server.ports["im"]
        told = self.imported(server)
        self.assertEqual(told.returncode, 0, told)

        def history():
            told = run("im", "history", NAMED.replace(SERVICE, "conference.localhost"),
                       "--user", "bob", "--password", PASSWORD, "--host", host,
                       "--port", str(port), "--count", "100")
            self.assertEqual(told.returncode, 0, told)
            return [line.split(" ", 2)[2] for line in told.stdout.splitlines()
                    if any(text in line for _, text in [*self.SAID, (0, "one more")])]
        said = [f"{name}: {text}" for name, text in self.SAID]
        self.assertEqual(history(), said)
        once_more = self.imported(server)
        self.assertRegex(once_more.stdout,
                         r"(?m)^ +8 messages unchanged, or older than the conversation here$")
        self.assertNotRegex(once_more.stdout, r"(?m) (rooms|messages in rooms)$")
        self.assertEqual(history(), said)
        # Prosody went on.
        self.talks(self.goes_on)
        self.assertRegex(self.imported(server).stdout, r"(?m)^ +1 messages in rooms$")
        self.assertEqual(history(), [*said, "bob: one more"])

    def test_without_the_archives_rooms_come_alone(self):
        server = self.serve()
        folder = self.prosody.path("data/b%2eexample")
        told = self.imported(server, "--prosody", folder, "--no-room-archives")
        self.assertRegex(told.stdout, r"(?m)^ +2 rooms$")
        self.assertNotIn("messages in rooms", told.stdout)

    @together
    async def test_who_is_not_known_is_quoted_by_the_server(self):
        folder = self.prosody.path("data/b%2eexample")
        accounts = f"{folder}/accounts/mallory.dat"
        with open(accounts, "rb") as file:
            kept = file.read()
        self.prosody.write_file("data/b%2eexample/accounts/mallory.dat", "return nil")
        config = "data/conference%2eb%2eexample/config/nicks.dat"
        with open(self.prosody.path(config), encoding="utf-8") as file:
            before = file.read()
        server = self.serve()
        try:
            self.prosody.write_file(config, before.replace("mallory@b.example", "eve@b.example"))
            told = self.imported(server)
        finally:
            self.prosody.write_file(config, before)
            with open(accounts, "wb") as file:
                file.write(kept)
        self.assertRegex(told.stdout,
                         r"(?m)^ +1 messages in rooms, with only the nickname known$")
        found = await self.read("bob", NICKS, server)
        self.assertEqual([it[:2] for it in found],
                         [*self.SAID[:3], ("system", "[ann] without me")])


if __name__ == "__main__":
    import unittest
    unittest.main()

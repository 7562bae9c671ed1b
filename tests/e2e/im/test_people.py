"""Contacts, requests, presence and blocking: by Google's protobuf library, by `holdline im`, and
between IM and XMPP, whose devices are slixmpp's."""

import asyncio
import json
import os
import shutil
import subprocess

import fixture
from fixture import DEADLINE_S, Case, poll, run
from im.terminal import Terminal
from im.wire import Device, schema
from xmpp.people import together
from xmpp.test_people import Friends

VERBS = ("set", "remove", "befriend", "request", "cancel", "accept", "refuse", "block", "unblock")
LIBRARY = os.path.join(fixture.ROOT, "clients", "chat-page", "public", "chat", "im")
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "people.mjs")
NONE, PENDING, SUBSCRIBED = 0, 1, 2
ONLINE, TALKATIVE, AWAY, LONG_AWAY, BUSY, OFFLINE = range(1, 7)


class Person(Device):
    """A device that has contacts."""

    def order(self, contact, verb, **more):
        """The word of what was wanted of a contact: why it was not done, or that it was."""
        verb = VERBS.index(verb) + 1 if isinstance(verb, str) else verb
        answer = self.asks("contact", "done", contact=contact, verb=verb, **more)
        return getattr(answer, "word", "done")

    def present(self, show, status=""):
        answer = self.asks("presence", "done", show=show, status=status)
        return getattr(answer, "word", "done")

    def page(self, after=0, since=0, count=256):
        return self.asks("contacts", "contacts", after=after, since=since, count=count)

    def contacts(self, count=256):
        """All contacts by their names, page by page, and the version of the list."""
        seen, after, since = {}, 0, 0
        while True:
            page = self.page(after, since, count)
            if page.anew:
                seen = {}
            assert len(page.contacts) <= count, page
            seen.update({one.address.split("@")[0]: one for one in page.contacts})
            after, since = page.upto, page.since
            if not page.more:
                return seen, after

    def hears(self, address, said=None, **expected):
        """Waits until a contact has changed to be so."""
        while True:
            change = self.next("contact")
            contact = change.contact
            is_so = all(getattr(contact, name) == value for name, value in expected.items())
            is_said = said is None or change.said == VERBS.index(said) + 1
            if contact.address == address and is_so and is_said:
                return change

    def sees(self, address, show, device="phone"):
        """Waits until somebody is there so, and says in which words."""
        while True:
            told = self.next("presence")
            if (getattr(told, "from"), told.device, told.show) == (address, device, show):
                return told.status

    def quiet(self):
        """Nothing of people has come, and nothing of what was told to others comes."""
        self.ask(ping={})
        self.next("pong")
        kinds = [kind for kind, _ in self.ahead]
        assert not {"contact", "presence"} & set(kinds), kinds


class People(Case):
    SHARED = False

    def setUp(self):
        super().setUp()
        schema()
        self.server = self.start({"chat": {"contacts_an_account_max": 4,
                                           "contacts_removed_max": 1}})

    def tearDown(self):
        self.server = None

    def person(self, name, device="phone"):
        link = Person(self.server.ports["any"])
        self.addCleanup(link.close)
        link.login(name, device)
        return link

    def friends(self):
        """Ann and Bob, who see each other."""
        ann, bob = self.person("ann"), self.person("bob")
        for one in (ann, bob):
            one.contacts()
        self.assertEqual(ann.order("bob", "befriend", greeting="it is ann"), "done")
        asked = bob.hears("ann@localhost", "request").contact
        self.assertEqual((asked.seen, asked.greeting, asked.listed), (PENDING, "it is ann", False))
        self.assertEqual(bob.order("ann@localhost", "befriend"), "done")
        for one, other in ((ann, "bob@localhost"), (bob, "ann@localhost")):
            one.hears(other, sees=SUBSCRIBED, seen=SUBSCRIBED)
            one.sees(other, ONLINE)
        return ann, bob

    # -- what is right

    def test_two_become_friends_and_see_each_other_over_a_power_cut(self):
        ann, bob = self.friends()
        self.assertEqual(bob.present(AWAY, "back at two"), "done")
        self.assertEqual(ann.sees("bob@localhost", AWAY), "back at two")
        bob.order("ann", "set", name="Annie", groups=["work", "chess", "work"])
        before, version = bob.contacts()
        self.server.kill()
        self.server.start()
        ann, bob = self.person("ann"), self.person("bob")
        same = bob.page(version)
        self.assertEqual((same.anew, list(same.contacts), same.upto), (False, [], version))
        after, again = bob.contacts()
        self.assertEqual((after, again), (before, version))
        annie = after["ann"]
        self.assertEqual((annie.name, list(annie.groups)), ("Annie", ["chess", "work"]))
        ann.contacts()
        ann.sees("bob@localhost", ONLINE)
        bob.sees("ann@localhost", ONLINE)
        bob.ask(goodbye={})
        ann.sees("bob@localhost", OFFLINE)

    def test_all_devices_that_look_are_told_and_no_other_one_is(self):
        ann, bob = self.friends()
        tablet, tv = self.person("bob", "tablet"), self.person("bob", "tv")
        tablet.contacts()
        self.assertEqual(ann.sees("bob@localhost", ONLINE, "tablet"), "")
        tablet.sees("bob@localhost", ONLINE, "phone")
        self.assertEqual(bob.order("ann", "set", name="Annie"), "done")
        for device in (bob, tablet):
            self.assertTrue(device.hears("ann@localhost", name="Annie").contact.version)
        self.assertEqual(bob.present(BUSY), "done")
        ann.sees("bob@localhost", BUSY)
        told = [message.device for kind, message in ann.ahead if kind == "presence"]
        self.assertNotIn("tv", told, "it asked nothing, and is shown to nobody")
        tv.quiet()

    def test_who_says_offline_is_seen_by_nobody_and_sees_nobody(self):
        ann, bob = self.friends()
        tablet = self.person("bob", "tablet")
        tablet.contacts()
        self.assertEqual(bob.present(OFFLINE), "done")
        ann.sees("bob@localhost", OFFLINE)
        bob.ahead.clear()
        self.assertEqual(ann.present(AWAY), "done")
        tablet.sees("ann@localhost", AWAY)
        bob.quiet()
        self.assertEqual(bob.present(ONLINE, "here again"), "done")
        self.assertEqual(ann.sees("bob@localhost", ONLINE), "here again")
        bob.sees("ann@localhost", AWAY)

    def test_a_wish_is_refused_cancelled_and_withdrawn(self):
        ann, bob = self.person("ann"), self.person("bob")
        for one in (ann, bob):
            one.contacts()
        self.assertEqual(ann.order("bob", "request"), "done")
        bob.hears("ann@localhost", "request")
        self.assertEqual(bob.order("ann", "refuse"), "done")
        ann.hears("bob@localhost", "refuse", sees=NONE)
        self.assertEqual(ann.order("bob", "request"), "done")
        bob.hears("ann@localhost", "request")
        self.assertEqual(ann.order("bob", "cancel"), "done")
        bob.hears("ann@localhost", "cancel", seen=NONE)
        self.assertEqual(ann.order("bob", "request"), "done")
        bob.hears("ann@localhost", "request")
        self.assertEqual(bob.order("ann", "accept"), "done")
        ann.hears("bob@localhost", "accept", sees=SUBSCRIBED)
        ann.sees("bob@localhost", ONLINE)
        self.assertEqual(bob.order("ann", "refuse"), "done")
        ann.hears("bob@localhost", "refuse", sees=NONE)
        ann.sees("bob@localhost", OFFLINE, "")

    def test_nothing_passes_to_or_from_who_is_blocked(self):
        ann, bob = self.friends()
        self.assertEqual(bob.order("ann", "block"), "done")
        ann.sees("bob@localhost", OFFLINE, "")
        self.assertTrue(bob.contacts()[0]["ann"].blocked)
        self.assertEqual(ann.send("bob", "are you there?").word, "unknown_account")
        self.assertEqual(bob.send("ann", "no").word, "blocked")
        self.assertEqual(bob.order("ann", "befriend"), "blocked")
        self.server.kill()
        self.server.start()
        ann, bob = self.person("ann"), self.person("bob")
        ann.contacts()
        self.assertEqual(ann.send("bob", "are you there?").word, "unknown_account")
        self.assertEqual(bob.order("ann", "unblock"), "done")
        bob.contacts()
        ann.sees("bob@localhost", ONLINE)
        self.assertEqual(ann.send("bob", "and now?").seq, 1)

    def test_a_list_comes_in_pages_and_begins_anew_where_too_much_is_forgotten(self):
        ann = self.person("ann")
        names = ["bob", "carol", "dave", "eve"]
        for name in names:
            self.assertEqual(ann.order(name, "set", name=name.title()), "done")
        self.assertEqual(ann.order("frank", "set"), "contacts_full")
        first = ann.page(count=3)
        self.assertTrue(first.anew and first.more)
        self.assertEqual([one.name for one in first.contacts], ["Bob", "Carol", "Dave"])
        self.assertEqual(ann.order("bob", "remove"), "done")
        last = ann.page(first.upto, first.since, 3)
        self.assertFalse(last.anew or last.more)
        self.assertEqual([(one.name, one.listed) for one in last.contacts],
                         [("Eve", True), ("", False)], "Bob is gone since")
        self.assertEqual(set(ann.contacts(1)[0]), {"carol", "dave", "eve"})
        version = ann.page(last.upto).upto
        for name in names[1:3]:
            self.assertEqual(ann.order(name, "remove"), "done")
        anew = ann.page(version)
        self.assertTrue(anew.anew, "of two that were removed one is remembered")
        self.assertEqual([one.name for one in anew.contacts], ["Eve"])

    def test_groups_are_listed_alone(self):
        ann = self.person("ann")
        self.person("bob")
        ann.send("bob", "hello")
        number = ann.take_number()
        ann.ask(group={"number": number, "verb": 1, "title": "lunch", "members": ["bob"],
                       "client_id": b"0123456789abcdef"})
        group = ann.next("changed").group
        def listed(**which):
            page = ann.asks("conversations", "conversations", count=100, **which)
            return {getattr(one, "with") for one in page.conversations}
        poll(lambda: listed() == {"bob@localhost", group}, "both are there")
        self.assertEqual(listed(groups=True), {group})

    # -- what is not

    def test_what_makes_no_sense_fails_and_the_session_goes_on(self):
        ann = self.person("ann")
        self.person("bob")
        before = self.server.count("chat_invalid_total")
        for contact, verb, more in [("bob", 0, {}), ("bob", 10, {}), ("", "block", {}),
                                    ("Bob", "request", {}),
                                    ("bob", "set", {"groups": ["work", ""]})]:
            self.assertEqual(ann.order(contact, verb, **more), "invalid", (contact, verb))
        for show in (0, 7, 99):
            self.assertEqual(ann.present(show), "invalid")
        self.assertEqual(self.server.count("chat_invalid_total") - before, 8)
        group = "a" * 13 + "@conference.localhost"
        for contact, verb, more, word in [
            ("ann", "befriend", {}, "invalid"),
            (group, "block", {}, "invalid"),
            ("nobody", "request", {}, "unknown_account"),
            ("bob", "set", {"name": "x" * 257}, "too_large"),
            ("bob", "set", {"groups": ["x" * 129]}, "too_large"),
            ("bob", "set", {"groups": [str(n) for n in range(5_000)]}, "too_large"),
            ("bob", "request", {"greeting": "x" * 257}, "too_large"),
        ]:
            self.assertEqual(ann.order(contact, verb, **more), word, (contact, verb))
        self.assertEqual(ann.present(AWAY, "x" * 513), "too_large")
        self.assertEqual(ann.page(count=0).word, "invalid")
        self.assertEqual(ann.order("nobody", "block"), "done", "whom there is not yet")
        self.assertEqual(set(ann.contacts()[0]), {"nobody"})


class BetweenProtocols(Friends):
    """Bob has a device of IM, Ann one of XMPP."""

    def setUp(self):
        super().setUp()
        schema()
        self.hers, self.his = f"{self.ann}@localhost", f"{self.bob}@localhost"

    async def im(self, call, *words, **more):
        """What a device of IM does, while those of XMPP go on."""
        return await asyncio.wait_for(asyncio.to_thread(call, *words, **more), DEADLINE_S)

    async def device(self):
        link = Person(self.server.ports["any"])
        self.addCleanup(link.close)
        await self.im(link.login, self.bob, password=f"secret of {self.bob}".encode())
        await self.im(link.contacts)
        return link

    async def both(self):
        """Ann and Bob, who see each other."""
        ann, bob = await self.friend(self.ann, "desk").here(), await self.device()
        ann.presence(self.his, "subscribe", "it is ann")
        asked = await self.im(bob.hears, self.hers, "request")
        self.assertEqual(asked.contact.greeting, "it is ann")
        self.assertEqual(await self.im(bob.order, self.hers, "befriend", greeting="me"), "done")
        await ann.until("presence_subscribed", self.his)
        self.assertEqual((await ann.until("presence_subscribe", self.his))["status"], "me")
        ann.presence(self.his, "subscribed")
        await self.im(bob.hears, self.hers, "accept", sees=SUBSCRIBED, seen=SUBSCRIBED)
        await ann.item(self.his, "both")
        await ann.comes(f"{self.his}/phone")
        await self.im(bob.sees, self.hers, ONLINE, "desk")
        return ann, bob

    @together
    async def test_they_become_friends_and_see_each_other_over_a_power_cut(self):
        ann, bob = await self.both()
        self.assertEqual(await self.im(bob.present, AWAY, "back at <two>"), "done")
        seen = await ann.until("presence_away", f"{self.his}/phone")
        self.assertEqual(seen["status"], "back at <two>")
        ann.client.send_presence(pshow="dnd", pstatus="tea & cake")
        self.assertEqual(await self.im(bob.sees, self.hers, BUSY, "desk"), "tea & cake")
        self.server.kill()
        await ann.next("disconnected")
        ann.client.abort()
        self.server.start()
        ann, bob = await self.friend(self.ann, "desk").here(), await self.device()
        self.assertEqual(ann.client.client_roster[self.his]["subscription"], "both")
        await ann.comes(f"{self.his}/phone")
        await self.im(bob.sees, self.hers, ONLINE, "desk")
        await ann.leave()
        await self.im(bob.sees, self.hers, OFFLINE, "desk")

    @together
    async def test_they_block_each_other(self):
        ann, bob = await self.both()
        self.assertEqual(await self.im(bob.order, self.hers, "block"), "done")
        await ann.until("presence_unavailable", self.his)
        ann.say(self.his, "are you there?")
        refused = await ann.next("message_error")
        self.assertEqual(refused["error"]["condition"], "service-unavailable")
        self.assertEqual(await self.im(bob.order, self.hers, "unblock"), "done")
        await ann.comes(f"{self.his}/phone")
        blocking = ann.client.plugin["xep_0191"]
        await blocking.block(self.his)
        await self.im(bob.sees, self.hers, OFFLINE, "")
        sent = await self.im(bob.send, self.hers, "and you?")
        self.assertEqual(sent.word, "unknown_account")
        await blocking.unblock(self.his)
        await self.im(bob.sees, self.hers, ONLINE, "desk")
        sent = await self.im(bob.send, self.hers, "at last")
        self.assertEqual((sent.seq, await ann.hears(1)), (1, ["at last"]))

    @together
    async def test_one_list_is_that_of_both(self):
        ann = await self.friend(self.ann, "desk").here()
        phone = Person(self.server.ports["any"])
        self.addCleanup(phone.close)
        await self.im(phone.login, self.ann, password=f"secret of {self.ann}".encode())
        await self.im(phone.contacts)
        await ann.client.update_roster(self.his, name="Bob", groups=["work"], block=False)
        change = await self.im(phone.hears, self.his, listed=True)
        self.assertEqual((change.contact.name, list(change.contact.groups)), ("Bob", ["work"]))
        await self.im(phone.order, self.his, "set", name="Bobby", groups=["chess"])
        item = await ann.item(self.his, "none")
        while item["name"] != "Bobby":
            item = await ann.item(self.his, "none")
        self.assertEqual(item["groups"], ["chess"])
        await self.im(phone.order, self.his, "remove")
        await ann.item(self.his, "remove")


class Library(Case):
    CHANGES = {"listen.im-ws": {"address": "127.0.0.1:0", "protocol": "im", "websocket": "/im"}}

    def test_two_people_with_the_browsers_library_become_friends_and_see_each_other(self):
        node = shutil.which("node")
        if not node:
            self.skipTest("node could not be installed: THE LIBRARY WAS NOT TRIED")
        host, port = self.server.ports["im-ws"]
        done = subprocess.run([node, SCRIPT, LIBRARY, f"ws://{host}:{port}/im"],
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout), {
            "friend": "bob@localhost", "greeting": "it is ann", "device": "web",
            "status": "back at two", "name": "Annie", "groups": ["work"],
            "full": "unknown_account"})


class Tools(Terminal):
    def contacts(self, verb, user, *words):
        answer = run("im", "contacts", verb, *self.flags(user), *words)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    def fails(self, verb, user, *words):
        answer = run("im", "contacts", verb, *self.flags(user), *words)
        self.assertEqual(answer.returncode, 1, answer.stdout)
        return answer.stderr.strip()

    def state(self, user, other):
        """What the list says of somebody: state, and name with what stands beside."""
        lines = self.contacts("list", user).splitlines()
        self.assertEqual(lines[0].split(), ["CONTACT", "STATE", "NAME"])
        rows = {line.split()[0]: line.split(None, 2)[1:] for line in lines[1:]}
        return rows.get(f"{other}@localhost")

    def test_friends_are_made_named_blocked_and_removed(self):
        for user in (self.ann, self.bob):
            self.im("login", user)
        self.contacts("add", self.ann, self.bob, "--greeting", "- it is\x1bann")
        asks = ["asks", '"- it is\\u001bann"']
        poll(lambda: self.state(self.bob, self.ann) == asks, "he is asked")
        self.assertEqual(self.state(self.ann, self.bob), ["asked"])
        self.contacts("befriend", self.bob, self.ann)
        poll(lambda: self.state(self.ann, self.bob) == ["friends"], "they are friends")
        self.contacts("set", self.ann, self.bob, "--name", "Bobby", "--group", "work", "--group",
                      "chess")
        self.assertEqual(self.state(self.ann, self.bob), ["friends", "Bobby [chess] [work]"])
        self.contacts("block", self.bob, self.ann)
        row = json.loads(self.contacts("list", self.bob, "--json"))
        self.assertEqual((row["address"], row["blocked"], row["sees"], row["seen"]),
                         (f"{self.ann}@localhost", True, "subscribed", "subscribed"))
        self.assertIn("failed: blocked", self.fails("request", self.bob, self.ann))
        self.contacts("unblock", self.bob, self.ann)
        self.contacts("refuse", self.bob, self.ann)
        poll(lambda: self.state(self.ann, self.bob)[0] == "seen", "she sees him no more")
        self.contacts("remove", self.bob, self.ann)
        self.assertIsNone(self.state(self.bob, self.ann))
        self.assertIn("failed: unknown_account",
                      self.fails("request", self.ann, self.name + ".nobody"))

    def test_who_is_there_prints_who_else_comes_and_goes(self):
        for user in (self.ann, self.bob):
            self.im("login", user)
        self.contacts("befriend", self.ann, self.bob)
        self.contacts("befriend", self.bob, self.ann)
        poll(lambda: self.state(self.ann, self.bob) == ["friends"], "they are friends")
        _, lines = self.open("presence", self.ann)
        bob, _ = self.open("presence", self.bob, "long-away", "--status", "in Rome")
        def told(show):
            rows = [json.loads(line) for line in list(lines)]
            return [row for row in rows if row["event"] == "presence" and row["show"] == show
                    and row["from"] == f"{self.bob}@localhost"]
        poll(lambda: told("long_away"), "he is there")
        self.assertEqual((told("long_away")[0]["status"], told("long_away")[0]["device"]),
                         ("in Rome", "holdline-presence"))
        bob.kill()
        poll(lambda: told("offline"), "he went")

    def test_groups_are_listed_alone(self):
        self.im("login", self.bob)
        self.im("send", self.ann, self.bob, "hello")
        made = run("im", "groups", "make", *self.flags(self.ann), self.bob)
        group = made.stdout.strip()
        def listed():
            lines = self.im("conversations", self.ann, "--groups", "--json").splitlines()
            return [json.loads(line)["with"] for line in lines]
        poll(lambda: listed() == [group], "the group alone")

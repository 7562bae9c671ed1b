"""Groups: three people, by Google's protobuf library and by `holdline im`, over a power cut."""

import uuid

from fixture import DEADLINE_S, Case, poll, run
from im.terminal import CommandLine, Terminal
from im.wire import Device, schema

VERBS = ("create", "add", "remove", "leave", "hand-over", "promote", "demote", "mute", "unmute",
         "close", "open", "rename", "dissolve", "join", "ban", "unban", "describe", "lock", "unlock",
         "reveal", "hide", "persist", "unpersist", "invite", "add-owner", "remove-owner")


class Person(Device):
    """A device that gives orders to groups."""

    def order(self, verb, group="", members=(), title="", client_id=None):
        """Gives an order and waits: GroupChanged, or Failed."""
        verb = VERBS.index(verb) + 1 if isinstance(verb, str) else verb
        return self.asks("group", "changed", group=group, verb=verb, title=title,
                         members=list(members), client_id=client_id or uuid.uuid4().bytes)

    def members(self, group, count=100, version=0, start=0):
        return self.asks("members", "members", group=group, version=version, count=count,
                         from_=start)

    def hears(self, text):
        """The next message that is told, which has this text or, of a change, this extra."""
        content = self.next("message").message.content
        while content.kind == 3 and content.extra.startswith(b"fan-out-on-"):
            content = self.next("message").message.content  # how it is stored: nothing happened
        told = content.extra.decode() if content.kind == 3 else content.text
        assert told.startswith(text), f"{told} instead of {text}"
        return content


class Groups(CommandLine, Case):
    SHARED = False

    def setUp(self):
        super().setUp()
        schema()
        self.server = self.start({"chat": {"group_members_max": 4}})

    def tearDown(self):
        self.server = None

    def person(self, name, device="phone"):
        link = Person(self.server.ports["any"])
        self.addCleanup(link.close)
        link.login(name, device)
        return link

    def four(self):
        """Ann has made a group with Bob and Carol; Dave is not in it."""
        people = [self.person(name) for name in ("ann", "bob", "carol", "dave")]
        made = people[0].order("create", members=["bob", "carol@localhost"], title="lunch")
        for one in people[:3]:
            content = one.hears("create ann@localhost#")
            self.assertEqual((content.text, content.extra.count(b" ")), ("lunch", 3))
        return people, made

    def word(self, answer):
        return getattr(answer, "word", "done")

    def test_a_group_is_locked_unless_it_is_unlocked_and_bans_hold(self):
        (ann, bob, carol, dave), made = self.four()
        group = made.group
        self.assertEqual(dave.order("join", group).word, "not_member")
        self.assertEqual(bob.order("unlock", group).word, "forbidden")
        ann.order("describe", group, title="Soup, mostly")
        ann.order("unlock", group)
        page = dave.members(group)
        self.assertEqual((page.description, page.unlocked, len(page.members)),
                         ("Soup, mostly", True, 0))
        self.assertEqual(self.word(dave.order("join", group)), "done")
        ann.order("ban", group, ["dave"])
        self.assertEqual(dave.order("join", group).word, "group_banned")
        banned = ann.asks("members", "members", group=group, count=9, banned=True)
        self.assertEqual([it.address for it in banned.members], ["dave@localhost"])
        asked = carol.asks("members", "failed", group=group, count=9, banned=True)
        self.assertEqual(asked.word, "forbidden")
        ann.order("unban", group, ["dave"])
        self.assertEqual(self.word(dave.order("join", group)), "done")
        ann.order("lock", group)
        dave.order("leave", group)
        self.assertEqual(dave.order("join", group).word, "not_member")

    def test_a_public_group_is_told_to_whoever_asks_and_its_members_are_not(self):
        (ann, bob, _, dave), made = self.four()
        group = made.group
        self.assertEqual(bob.order("reveal", group).word, "forbidden")
        ann.order("reveal", group)
        page = dave.members(group)
        self.assertEqual((page.title, page.public, page.unlocked, page.total, len(page.members)),
                         ("lunch", True, False, 3, 0))
        self.assertEqual(dave.order("join", group).word, "not_member")
        self.assertEqual(ann.order("reveal", group).word, "unchanged")
        ann.order("hide", group)
        self.assertEqual(dave.members(group).word, "not_member")

    def test_what_is_said_to_a_group_is_for_its_members(self):
        (ann, bob, carol, dave), made = self.four()
        self.assertEqual((made.seq, made.again), (1, False))
        self.assertRegex(made.group, r"^[a-z2-7]{13}@conference\.localhost$")
        sent = bob.send(made.group, "who is hungry?")
        self.assertEqual(sent.seq, 2)
        for one in (ann, carol):
            entry = one.next("message")
            said = entry.message
            self.assertEqual((said.id, said.seq, said.to, said.content.text),
                             (sent.id, 2, made.group, "who is hungry?"))
            self.assertEqual(getattr(said, "from"), "bob@localhost")
        texts = [said.content.text for said in carol.history(made.group).messages]
        self.assertEqual(texts, ["lunch", "who is hungry?"])
        self.assertEqual(dave.send(made.group, "me").word, "not_member", "a stranger")
        self.assertEqual(dave.history(made.group).word, "not_member")
        self.assertEqual(dave.members(made.group).word, "not_member")
        self.assertEqual(dave.order("add", made.group, ["dave"]).word, "not_member")
        nowhere = "a" * 13 + "@conference.localhost"
        self.assertEqual(ann.send(nowhere, "hello?").word, "not_member", "there is no such group")

    def test_all_devices_of_whoever_gives_an_order_hear_of_it(self):
        (ann, _, _, _), made = self.four()
        tablet = self.person("ann", "tablet")
        self.assertEqual([text for _, text in tablet.pull_all()], ["lunch"])
        changed = ann.order("rename", made.group, title="dinner")
        for link in (ann, tablet):
            entry = link.next("message")
            self.assertEqual((entry.seq, entry.message.id, entry.message.content.text),
                             (2, changed.id, "dinner"))

    def test_members_are_listed_in_pages_of_one_version(self):
        (ann, bob, _, _), made = self.four()
        self.assertEqual(self.word(ann.order("promote", made.group, ["bob"])), "done")
        self.assertEqual(self.word(ann.order("mute", made.group, ["carol"])), "done")
        changed = ann.order("close", made.group)
        page, seen = bob.members(made.group, 2), {}
        self.assertEqual((page.version, page.title, page.closed, page.total, len(page.members)),
                         (changed.id, "lunch", True, 3, 2))
        last = bob.members(made.group, 2, page.version, 2)
        self.assertEqual((last.version, getattr(last, "from"), len(last.members)),
                         (page.version, 2, 1))
        for one in [*page.members, *last.members]:
            self.assertGreater(one.account, 0)
            seen[one.address] = (one.role, one.muted)
        self.assertEqual(seen, {"ann@localhost": (3, False), "bob@localhost": (2, False),
                                "carol@localhost": (1, True)})
        ann.order("open", made.group)
        anew = bob.members(made.group, 2, page.version, 2)
        self.assertGreater(anew.version, page.version)
        self.assertEqual((getattr(anew, "from"), len(anew.members), anew.closed), (0, 2, False))
        self.assertEqual(bob.members(made.group, 0).word, "invalid")
        self.assertEqual(bob.members("bob").word, "invalid", "no group")

    def test_roles_mutes_and_a_closed_group(self):
        (ann, bob, carol, _), made = self.four()
        group = made.group
        self.assertEqual(bob.order("remove", group, ["carol"]).word, "forbidden")
        self.assertEqual(ann.order("leave", group).word, "forbidden", "the owner")
        self.assertEqual(self.word(ann.order("mute", group, ["bob"])), "done")
        self.assertEqual(bob.send(group, "why?").word, "muted")
        self.assertEqual(self.word(ann.order("unmute", group, ["bob"])), "done")
        self.assertEqual(self.word(bob.send(group, "thanks")), "done")
        self.assertEqual(self.word(ann.order("close", group)), "done")
        self.assertEqual(carol.send(group, "and now?").word, "muted", "a closed group")
        self.assertEqual(self.word(ann.send(group, "quiet, please")), "done")
        self.assertEqual(self.word(ann.order("hand-over", group, ["bob"])), "done")
        self.assertEqual(ann.order("dissolve", group).word, "forbidden", "not hers any more")
        self.assertEqual(self.word(ann.order("leave", group)), "done")
        self.assertEqual(self.word(bob.order("dissolve", group)), "done")
        self.assertEqual(bob.send(group, "anybody?").word, "not_member")

    def test_a_group_is_full_at_its_limit(self):
        (ann, _, _, _), made = self.four()
        self.person("eve")
        self.assertEqual(ann.order("add", made.group, ["dave", "eve"]).word, "group_full")
        self.assertEqual(self.word(ann.order("add", made.group, ["dave"])), "done")
        self.assertEqual(ann.order("add", made.group, ["eve"]).word, "group_full")
        people = ["bob", "carol", "dave", "eve"]
        self.assertEqual(ann.order("create", members=people).word, "group_full")

    def test_an_order_that_is_given_twice_changes_nothing_twice(self):
        ann, bob = self.person("ann"), self.person("bob")
        client_id = uuid.uuid4().bytes
        made = ann.order("create", members=["bob"], title="us", client_id=client_id)
        again = ann.order("create", members=["bob"], title="us", client_id=client_id)
        self.assertEqual((again.group, again.id, again.seq, again.again),
                         (made.group, made.id, made.seq, True))
        other = ann.order("create", members=["bob"], title="we", client_id=client_id)
        self.assertEqual(other.word, "conflict")
        self.assertEqual(ann.order("add", made.group, ["bob"]).word, "unchanged")
        self.assertEqual(ann.order("open", made.group).word, "unchanged")
        order = uuid.uuid4().bytes
        first = ann.order("rename", made.group, title="them", client_id=order)
        again = ann.order("rename", made.group, title="them", client_id=order)
        self.assertEqual((again.id, again.again), (first.id, True))
        self.assertEqual([text for _, text in bob.pull_all()], ["us", "them"])

    def test_orders_that_make_no_sense_fail_and_are_counted_once(self):
        (ann, _, _, _), made = self.four()
        before = self.server.count("chat_invalid_total")
        bad = ({"verb": 0}, {"verb": 27}, {"verb": "add", "group": ""},
               {"verb": "create", "group": made.group}, {"verb": "add", "members": ["bob", ""]},
               {"verb": "add", "members": ["Bob"]}, {"verb": "add", "client_id": b"short"})
        for wrong in bad:
            order = {"group": made.group, "members": ["dave"], **wrong}
            self.assertEqual(ann.order(**order).word, "invalid", wrong)
        self.assertEqual(self.server.count("chat_invalid_total") - before, len(bad))
        before = self.server.count("chat_sends_failed_total")
        failing = (({"verb": "add"}, "invalid"), ({"verb": "hand-over"}, "invalid"),
                   ({"verb": "add", "members": ["nobody"]}, "unknown_account"),
                   ({"verb": "add", "members": ["dave"] * 129}, "too_large"),
                   ({"verb": "add", "members": ["dave"] * 10_000}, "too_large"),
                   ({"verb": "rename", "title": "x" * 257}, "too_large"),
                   ({"verb": "add", "group": "bob", "members": ["dave"]}, "invalid"))
        for wrong, word in failing:
            self.assertEqual(ann.order(**{"group": made.group, **wrong}).word, word, wrong)
        self.assertEqual(self.server.count("chat_sends_failed_total") - before, len(failing))
        self.assertEqual(self.word(ann.order("rename", made.group, title="x" * 256)), "done")

    def test_a_group_and_what_was_said_in_it_outlive_a_power_cut(self):
        (ann, bob, carol, _), made = self.four()
        group, order = made.group, uuid.uuid4().bytes
        ann.send(group, "before")
        self.assertEqual(self.word(ann.order("promote", group, ["bob"])), "done")
        ann.order("remove", group, ["carol"], client_id=order)
        self.im("groups rename", "ann", group, "dinner")
        self.server.kill()
        self.server.start()
        ann, bob, carol = (self.person(name) for name in ("ann", "bob", "carol"))
        told = carol.history(group)
        self.assertEqual(told.word, "not_member", "she was removed before it")
        poll(lambda: carol.pull().entries[-1].message.content.extra.decode().split("#")[0]
             == "remove carol@localhost", "which she is told")
        self.assertEqual(carol.send(group, "hello?").word, "not_member")
        again = ann.order("remove", group, ["carol"], client_id=order)
        self.assertEqual((self.word(again), again.number > 0), ("unchanged", True))
        roles = {one.address: one.role for one in bob.members(group).members}
        self.assertEqual(roles, {"ann@localhost": 3, "bob@localhost": 2})
        told = self.im("groups members", "bob", group).splitlines()
        self.assertEqual(sorted(told), ["ann@localhost owner", "bob@localhost admin"])
        told = self.im("history", "ann", group).splitlines()
        self.assertEqual([line.split(" ", 2)[2] for line in told],
                         ["ann created the group \"lunch\" with bob, carol", "ann: before",
                          "ann promoted bob to admin", "ann removed carol",
                          "ann renamed the group to \"dinner\""])
        self.im("send", "ann", group, "by command")
        self.assertEqual(self.word(bob.send(group, "after")), "done")
        self.assertEqual([text for _, text in ann.pull_all()],
                         ["lunch", "before", "", "", "dinner", "by command", "after"])
        self.assertEqual(self.word(bob.order("add", group, ["carol"])), "done", "an admin may")
        since = [said.content.text for said in carol.history(group).messages]
        self.assertEqual(since, [""], "what was before she does not read")


class Commands(Terminal):
    """The same by the command line."""

    def groups(self, user, *words, code=0):
        command, *more = words
        answer = run("im", "groups", command, *self.flags(user), *more)
        self.assertEqual(answer.returncode, code, answer.stderr)
        return answer.stdout if code == 0 else answer.stderr

    def people(self):
        carol = f"{self.name}.carol"
        for name in (self.ann, self.bob, carol):
            self.im("login", name)
        group = self.groups(self.ann, "make", "--title", "lu\x1bnch", self.bob, carol).strip()
        return carol, group

    def listed(self, user, group):
        return sorted(line.replace("@localhost", "").replace(f"{self.name}.", "")
                      for line in self.groups(user, "members", group).splitlines())

    def test_every_order_has_a_command_and_history_tells_what_happened(self):
        carol, group = self.people()
        dave = f"{self.name}.dave"
        self.im("login", dave)
        self.assertEqual(self.listed(self.bob, group), ["ann owner", "bob member", "carol member"])
        for words in (["add", group, dave], ["promote", group, self.bob], ["mute", group, dave],
                      ["close", group]):
            self.assertGreater(int(self.groups(self.ann, *words)), 0)
        self.assertEqual(self.listed(carol, group),
                         ["ann owner", "bob admin", "carol member", "dave member muted"])
        answer = run("im", "send", *self.flags(dave), group, "may I?")
        self.assertEqual((answer.returncode, answer.stderr), (1, f"not sent to {group}: muted\n"))
        for words in (["open", group], ["unmute", group, dave], ["demote", group, self.bob],
                      ["rename", group, "--id", "0" * 31 + "1", "dinner"], ["remove", group, dave],
                      ["hand-over", group, self.bob]):
            self.groups(self.ann, *words)
        self.assertEqual(self.groups(self.ann, "leave", group).strip().isdigit(), True)
        self.im("send", carol, group, "where is everybody?")
        told = self.im("history", self.bob, group, "--count", "100").splitlines()
        told = [line.split(" ", 2)[2].replace(f"{self.name}.", "") for line in told]
        self.assertEqual(told, [
            "ann created the group \"lu\\u001bnch\" with bob, carol", "ann added dave",
            "ann promoted bob to admin", "ann muted dave",
            "ann closed the group: only its owner and admins can write",
            "ann opened the group: everybody can write", "ann unmuted dave",
            "ann demoted bob to member", "ann renamed the group to \"dinner\"", "ann removed dave",
            "ann transferred the ownership to bob", "ann left", "carol: where is everybody?"])
        self.groups(self.bob, "dissolve", group)
        answer = run("im", "history", *self.flags(self.bob), group)
        self.assertEqual(answer.stderr, "unknown group, or you are not a member of it\n")

    def test_what_is_so_already_is_done_and_what_may_not_be_is_told(self):
        carol, group = self.people()
        self.assertEqual(self.groups(self.ann, "add", group, carol), "")
        self.assertEqual(self.groups(self.bob, "remove", group, carol, code=1),
                         "failed: forbidden\n")
        self.assertEqual(self.groups(f"{self.name}.eve", "members", group, code=1),
                         "list not available: not_member\n")
        word = "00112233445566778899aabbccddeeff"
        first = self.groups(self.ann, "make", "--id", word, self.bob)
        self.assertEqual(self.groups(self.ann, "make", "--id", word, self.bob), first)
        self.assertIn("required", self.groups(self.ann, "add", group, code=2))
        self.assertIn("32 hex digits", self.groups(self.ann, "close", group, "--id", "7", code=1))

    def test_a_group_talks(self):
        carol, group = self.people()
        talks = [self.open("chat", name, group) for name in (self.ann, self.bob)]
        poll(lambda: all(lines for _, lines in talks), "the history is there")
        (ann, to_ann), (bob, to_bob) = talks
        self.say(ann, "hello all")
        poll(lambda: len(to_bob) == 2, "it comes")
        self.groups(self.ann, "remove", group, carol)
        poll(lambda: len(to_bob) == 3 and len(to_ann) == 2, "both see who is removed")
        bob.stdin.close()
        ann.stdin.close()
        self.assertEqual((ann.wait(DEADLINE_S), bob.wait(DEADLINE_S)), (0, 0))
        texts = [line.split(" ", 2)[2].replace(f"{self.name}.", "") for line in to_bob]
        self.assertEqual(texts[1:], ["ann: hello all", "ann removed carol"])
        self.assertTrue(to_ann[1].endswith(f"removed {carol}"))

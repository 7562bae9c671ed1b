"""Cursors, lists of conversations and recall: by Google's protobuf library and by `holdline im`."""

import json
import re

from fixture import DEADLINE_S, Case, poll, run
from im.terminal import Terminal
from im.wire import Device, schema

PIN, MUTE, HIDE, DRAFT = 1, 2, 3, 4


class Reader(Device):
    """A device that reads its list, and says what it has read."""

    def mark_read(self, with_, upto):
        return self.asks("mark_read", "marked_read", with_=with_, upto=upto)

    def set(self, with_, setting, on=False, draft=""):
        change = {"setting": setting, "on": on, "draft": draft}
        return self.asks("set", "set", with_=with_, change=change)

    def list(self, count=100, before=0):
        return self.asks("conversations", "conversations", count=count, before=before)

    def one(self, with_):
        """One conversation."""
        page = self.asks("conversations", "conversations", with_=with_)
        assert len(page.conversations) == 1, page
        return page.conversations[0]

    def unread(self, with_):
        return self.one(with_).unread


class Conversations(Case):
    SHARED = False

    def setUp(self):
        super().setUp()
        schema()
        self.server = self.start({"chat": {"draft_bytes_max": 64}})

    def tearDown(self):
        self.server = None

    def person(self, name, device="phone"):
        link = Reader(self.server.ports["any"])
        self.addCleanup(link.close)
        link.login(name, device)
        return link

    def has(self, person, with_, **expected):
        """Waits until a conversation is so."""
        def seen():
            one = person.one(with_)
            return all(getattr(one, name) == value for name, value in expected.items())
        poll(seen, f"{expected} of {with_}")

    def power_cut(self):
        self.server.kill()
        self.server.start()

    # -- what is right

    def test_unread_counts_cursors_and_settings_outlive_a_power_cut(self):
        bob, ann = self.person("bob"), self.person("ann")
        for number in range(5):
            ann.send("bob", f"text {number}", uncounted=number == 3)
        self.has(bob, "ann", unread=4, last_seq=5)
        self.assertEqual(bob.mark_read("ann", 2).upto, 2)
        self.assertEqual(bob.unread("ann"), 2)
        for setting in (PIN, MUTE):
            self.assertNotIn("fault", str(bob.set("ann", setting, on=True)))
        bob.set("ann", DRAFT, draft="Dear A")
        self.power_cut()
        bob = self.person("bob")
        one = bob.one("ann")
        self.assertEqual((one.read, one.unread, one.pinned, one.muted, one.hidden, one.draft),
                         (2, 2, True, True, False, "Dear A"))
        self.assertEqual((one.last.text, getattr(one.last, "from"), one.last.whole),
                         ("text 4", "ann@localhost", True))
        self.assertEqual(bob.mark_read("ann", 1).upto, 2, "it never falls")
        self.assertEqual(bob.mark_read("ann", 5).upto, 5)
        self.assertEqual(bob.unread("ann"), 0)
        self.has(self.person("ann"), "bob", peer_read=5, unread=0)

    def test_a_receipt_reaches_the_other_and_a_second_device_hears_of_the_cursor(self):
        tablet, bob, ann = self.person("bob", "tablet"), self.person("bob"), self.person("ann")
        ann.send("bob", "hello")
        for device in (tablet, bob):
            self.assertEqual(device.next("message").message.content.text, "hello")
        self.assertEqual(bob.mark_read("ann", 1).upto, 1)
        for device in (tablet, bob):
            event = device.next("event")
            self.assertEqual((event.seq, getattr(event, "with"), event.read, event.peer_read),
                             (2, "ann@localhost", 1, 0))
        receipt = ann.next("event")
        self.assertEqual((receipt.seq, getattr(receipt, "with"), receipt.read, receipt.peer_read),
                         (2, "bob@localhost", 0, 1))
        tablet.set("ann", HIDE, on=True)
        change = bob.next("event")
        self.assertEqual((change.seq, change.change.setting, change.change.on), (3, HIDE, True))
        self.assertEqual(len(bob.list().conversations), 0)
        self.assertTrue(bob.one("ann").hidden)
        # Who was away has the same in a page, at the same places.
        page = self.person("bob", "watch").pull()
        self.assertEqual([entry.seq for entry in page.entries], [1])
        self.assertEqual([(event.seq, event.read) for event in page.events], [(2, 1), (3, 0)])
        self.assertEqual((page.upto, page.head), (3, 3))
        ann.send("bob", "again")
        self.assertEqual(bob.next("message").seq, 4, "behind the events")
        self.assertEqual(len(bob.list().conversations), 1, "it is shown again")

    def test_the_list_is_in_order_and_in_pages(self):
        bob = self.person("bob")
        names = [f"p{number}" for number in range(5)]
        for name in names:
            self.person(name).send("bob", f"from {name}")
        poll(lambda: len(bob.list().conversations) == 5, "all are there")
        seen, before = [], 0
        while True:
            page = bob.list(2, before)
            seen += [getattr(one, "with") for one in page.conversations]
            before = page.conversations[-1].place
            if not page.more:
                break
        self.assertEqual(seen, [f"{name}@localhost" for name in reversed(names)])

    def test_a_recalled_message_is_in_no_later_history_page_or_list(self):
        bob, ann = self.person("bob"), self.person("ann")
        ann.send("bob", "before")
        first = ann.send("bob", "my secret")
        self.has(bob, "ann", unread=2)
        done = ann.recall("bob", first.seq)
        self.assertEqual(done.seq, 3)
        told = [bob.next("message").message for _ in range(3)][-1]
        # Behind place and number stands the name by which XMPP knows it.
        self.assertEqual((told.content.kind, told.content.extra.decode().split()[:2]),
                         (4, [str(first.seq), str(first.id)]))
        again = ann.recall("bob", first.seq)
        self.assertEqual((again.id, again.seq), (done.id, 3), "it is there once")
        for _ in range(2):
            for reader, other in ((ann, "bob"), (bob, "ann")):
                history, page = reader.history(other), reader.pull()
                self.assertNotIn("my secret", f"{history} {page} {reader.list()}")
                self.assertEqual([it.content.kind for it in history.messages], [1, 5, 4])
                self.assertEqual(history.messages[1].id, first.id, "place and number stay")
            self.has(bob, "ann", unread=1)
            self.power_cut()
            bob, ann = self.person("bob"), self.person("ann")

    # -- what is not

    def test_what_makes_no_sense_fails_and_the_session_goes_on(self):
        bob, ann = self.person("bob"), self.person("ann")
        ann.send("bob", "mine")
        self.has(bob, "ann", unread=1)
        invalid = self.count("invalid")
        for answer, word in [
            (bob.mark_read("ann", 0), "invalid"),
            (bob.mark_read("ann", 2), "invalid"),
            (bob.mark_read("no body", 1), "invalid"),
            (bob.mark_read("nobody", 1), "unknown_account"),
            (bob.set("ann", 0, on=True), "invalid"),
            (bob.set("ann", 9, on=True), "invalid"),
            (bob.set("ann", DRAFT, draft="x" * 65), "too_large"),
            (bob.list(0), "invalid"),
            (bob.recall("ann", 0), "invalid"),
            (bob.recall("ann", 9), "unknown_message"),
            (bob.recall("ann", 1), "forbidden"),
        ]:
            self.assertEqual(getattr(answer, "word", ""), word, answer)
        self.assertEqual(self.count("invalid") - invalid, 5, "what the machine refuses")
        self.assertEqual(bob.unread("ann"), 1)
        self.assertEqual(bob.history("ann").messages[0].content.text, "mine")

    def count(self, name):
        """A counter of chat."""
        found = re.search(rf"^holdline_chat_{name}_total (\d+)$", self.server.metrics(), re.M)
        return int(found[1])


class Tools(Terminal):
    def fails(self, command, user, *words):
        answer = run("im", command, *self.flags(user), *words)
        self.assertEqual(answer.returncode, 1, answer.stdout)
        return answer.stderr.strip()

    def rows(self, user):
        """The list as JSON, by names."""
        lines = self.im("conversations", user, "--json").splitlines()
        return {row["with"].split("@")[0]: row for row in map(json.loads, lines)}

    def test_a_list_is_read_kept_and_called_back(self):
        self.im("login", self.bob)
        self.im("send", self.ann, self.bob, "one")
        self.im("send", self.ann, self.bob, "two\x1b[2J\nthree")
        poll(lambda: self.rows(self.bob)[self.ann]["unread"] == 2, "both are unread")
        table = self.im("conversations", self.bob).splitlines()
        self.assertEqual(table[0].split(), ["WITH", "UNREAD", "FLAGS", "LAST"])
        self.assertEqual(table[1].split(None, 2),
                         [f"{self.ann}@localhost", "2", f"{self.ann}: two\\u001b[2J\\u000athree"])
        self.assertEqual(self.im("read", self.bob, self.ann), "2\n")
        self.im("keep", self.bob, self.ann, "--pinned", "true")
        row = self.rows(self.bob)[self.ann]
        self.assertEqual((row["read"], row["unread"], row["pinned"]), (2, 0, True))
        self.assertIn(" pin ", self.im("conversations", self.bob))
        poll(lambda: self.rows(self.ann)[self.bob]["peer_read"] == 2, "the receipt is there")
        self.assertGreater(int(self.im("recall", self.ann, self.bob, "1")), 0)
        told = self.im("history", self.bob, self.ann)
        self.assertNotIn("one", told)
        self.assertIn(f"{self.ann} recalled this message", told)
        self.assertIn(f"{self.ann} recalled message 1", told)
        self.assertEqual(self.fails("recall", self.bob, self.ann, "2"),
                         "not recalled: forbidden")
        self.assertEqual(self.fails("read", self.bob, self.ann, "--upto", "99"),
                         "failed: invalid")
        self.im("keep", self.bob, self.ann, "--muted", "true")
        self.im("keep", self.bob, self.ann, "--pinned", "false")
        self.im("keep", self.bob, self.ann, "--draft", "- Dear A")
        row = self.rows(self.bob)[self.ann]
        self.assertEqual((row["pinned"], row["muted"], row["draft"]), (False, True, "- Dear A"))
        answer = run("im", "keep", *self.flags(self.bob), self.ann)
        self.assertEqual(answer.returncode, 2, "how it is to be kept must be said")
        self.im("keep", self.bob, self.ann, "--hidden", "true")
        self.assertNotIn(self.ann, self.rows(self.bob))

    def test_a_group_is_in_the_list_and_is_read_as_others_are(self):
        self.im("login", self.bob)
        group = self.im("groups make", self.ann, self.bob).strip()
        self.im("send", self.ann, group, "to all")
        name = group.split("@", 1)[0]
        poll(lambda: self.rows(self.bob).get(name, {}).get("last_seq") == 2, "it is there")
        unread = self.rows(self.bob)[name]["unread"]
        self.assertGreaterEqual(unread, 1)
        self.assertEqual(self.im("read", self.bob, group), "2\n")
        row = self.rows(self.bob)[name]
        self.assertEqual((row["unread"], row["read"], row["peer_read"]), (0, 2, 0))
        self.assertEqual(self.fails("read", self.name + ".carol", group, "--upto", "1"),
                         "failed: not_member")

    def test_who_talks_is_told_of_receipts_and_of_what_is_called_back(self):
        self.im("login", self.bob)
        ann, to_ann, notes = self.talk(self.ann, self.bob)
        self.say(ann, "hello")
        listener, lines = self.open("listen", self.bob)
        poll(lambda: lines, "it comes")
        bob, _, _ = self.talk(self.bob, self.ann)
        receipt = f"read by {self.bob}: 1"
        poll(lambda: receipt in notes, "what Bob is shown, he has read")
        poll(lambda: len(lines) == 2, "the listener hears of it")
        event = json.loads(lines[1])
        self.assertEqual((event["event"], event["with"], event["upto"]),
                         ("read", f"{self.ann}@localhost", 1))
        self.im("send", self.bob, self.ann, "oops")
        self.im("recall", self.bob, self.ann, "2")
        poll(lambda: len(to_ann) == 2, "both come")
        self.assertTrue(to_ann[1].endswith(f" {self.bob} recalled message 2"), to_ann)
        for process in (ann, bob):
            process.stdin.close()
            self.assertEqual(process.wait(DEADLINE_S), 0)
        listener.kill()

    def talk(self, user, other):
        """A chat: its process, what it prints, and its notes."""
        return self.open_with_notes("chat", user, other)

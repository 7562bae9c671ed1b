"""Groups that are read: what is said in them comes to every member, by Google's protobuf library,
over a power cut and while they turn."""

from fixture import Case, poll
from im.test_groups import Person
from im.wire import schema

#: Groups of more members are read.
BORDER = 2


class ReadGroups(Case):
    SHARED = False

    def setUp(self):
        super().setUp()
        schema()
        limits = {"group_members_max": 20, "group_written_members_max": BORDER}
        self.server = self.start({"chat": limits})

    def tearDown(self):
        self.server = None

    def person(self, name, device="phone"):
        link = Person(self.server.ports["any"])
        self.addCleanup(link.close)
        link.login(name, device)
        return link

    def group_of(self, *names):
        """The first has made a group with the others, who were here."""
        people = [self.person(name) for name in names]
        made = people[0].order("create", members=names[1:], title="crowd")
        for one in people:
            one.hears(f"create {names[0]}@localhost#")
        return people, made.group

    def texts(self, link):
        """All texts of an inbox, what turned groups left out."""
        return [text for _, text in link.pull_all() if text]

    def test_the_first_word_turns_it_and_who_is_here_hears_all(self):
        (ann, bob, carol), group = self.group_of("ann", "bob", "carol")
        sent = bob.send(group, "hello")
        self.assertEqual(sent.seq, 3, "what tells of the turn is before it")
        for one in (ann, carol):
            turn = one.next("message").message
            self.assertEqual((turn.seq, turn.content.kind, turn.content.extra, turn.content.text,
                              turn.content.uncounted), (2, 3, b"fan-out-on-read", "", True))
            said = one.next("message").message
            self.assertEqual((said.id, said.seq, said.content.text), (sent.id, 3, "hello"))
        self.assertEqual(self.server.count("chat_groups_turned_total"), 1)
        tablet = self.person("carol", "tablet")
        self.assertEqual(self.texts(tablet), ["crowd", "hello"], "each device has one inbox")

    def test_who_was_away_pulls_what_was_said_and_the_list_counts_it(self):
        (ann, bob, carol), group = self.group_of("ann", "bob", "carol")
        carol.close()
        poll(lambda: "holdline_chat_sessions 2\n" in self.server.metrics(), "she is away")
        said = [f"message {n}" for n in range(150)]
        for text in said:
            ann.send(group, text)
        before = self.server.count("chat_distributed_total")
        bob.pull_all()
        carol = self.person("carol")
        self.assertEqual(self.texts(carol), ["crowd", *said])
        self.assertEqual(self.server.count("chat_distributed_total"), before, "it was drawn")
        row, = carol.asks("conversations", "conversations", with_=group).conversations
        self.assertEqual((row.unread, row.last_seq, row.last.text), (150, 152, "message 149"))
        carol.asks("mark_read", "marked_read", with_=group, upto=100)
        row, = carol.asks("conversations", "conversations", with_=group).conversations
        self.assertEqual(row.unread, 52)

    def test_members_come_and_go_while_others_are_away(self):
        (ann, bob, carol, dave), group = self.group_of("ann", "bob", "carol", "dave")
        ann.send(group, "all four")
        for one in (carol, dave):
            self.texts(one)
            one.close()
        ann.send(group, "two are away")
        self.assertEqual(getattr(ann.order("remove", group, ["carol"]), "word", "done"), "done")
        ann.send(group, "without carol")
        self.assertEqual(getattr(ann.order("add", group, ["carol"]), "word", "done"), "done")
        ann.send(group, "with carol")
        self.server.kill()
        self.server.start()
        carol, dave = self.person("carol"), self.person("dave")
        everything = ["crowd", "all four", "two are away", "without carol", "with carol"]
        self.assertEqual(self.texts(dave), everything)
        everything.remove("without carol")
        self.assertEqual(self.texts(carol), everything)

    def test_it_turns_back_when_it_is_small_and_nothing_is_lost_or_told_twice(self):
        (ann, bob, carol, dave), group = self.group_of("ann", "bob", "carol", "dave")
        ann.send(group, "large")
        bob.close()
        ann.send(group, "he is away")
        ann.order("remove", group, ["carol", "dave"])
        ann.send(group, "two are left")
        ann.order("add", group, ["carol"])
        ann.send(group, "three again")
        bob = self.person("bob")
        texts = ["crowd", "large", "he is away", "two are left", "three again"]
        self.assertEqual(self.texts(bob), texts)
        self.assertEqual(self.texts(ann), texts)
        self.assertEqual(self.texts(carol), ["crowd", "large", "he is away", "three again"])
        history = [said.content.text for said in ann.history(group).messages]
        self.assertEqual([text for text in history if text], texts)

"""Chatrooms: by Google's protobuf library, at terminals, by operators, over a restart."""

import json
import uuid

from fixture import Case, poll, run
from im.page import PageCase
from im.terminal import Terminal
from im.wire import Device, schema

VERBS = ("create", "rename", "announce", "promote", "demote", "mute", "unmute", "kick", "ban",
         "unban", "quiet", "open", "close")
SHORT_PAUSE = {"chat": {"chatroom_pause_ms": 50}}


class Guest(Device):
    """A device that is in chatrooms."""

    def order(self, room, verb, *accounts, text="", **more):
        answer = self.asks("chatroom_order", "done", room=room, verb=VERBS.index(verb) + 1,
                           text=text, accounts=accounts, **more)
        return getattr(answer, "word", "done")

    def join(self, room, history=20):
        return self.asks("join_chatroom", "chatroom_joined", room=room, history=history)

    def leave(self, room):
        answer = self.asks("leave_chatroom", "done", room=room)
        return getattr(answer, "word", "done")

    def hears(self):
        """The next that is said: who, what, and its number."""
        message = self.next("chatroom_message").message
        return getattr(message, "from").split("@")[0], message.content.text, message.seq


class Chatrooms(Case):
    SHARED = False

    def setUp(self):
        super().setUp()
        schema()
        self.server = self.start(SHORT_PAUSE)

    def tearDown(self):
        self.server = None

    def guest(self, name, device="phone"):
        link = Guest(self.server.ports["any"])
        self.addCleanup(link.close)
        link.login(name, device)
        return link

    def test_who_is_there_hears_what_is_said_and_who_comes_has_the_last_of_it(self):
        ann, bob = self.guest("ann"), self.guest("bob")
        self.assertEqual(bob.join("lobby").word, "no_chatroom")
        self.assertEqual(ann.order("lobby", "create", text="The lobby", keeps=2), "done")
        room = ann.join("lobby").state.room
        self.assertEqual(room, "lobby@live.localhost")
        self.assertEqual(bob.send(room, "hello?").word, "not_in_chatroom")
        for number, text in enumerate(("one", "two", "three"), 1):
            self.assertEqual(ann.send(room, text).seq, number)
            self.assertEqual(ann.hears(), ("ann", text, number))
        joined = bob.join(room)
        self.assertEqual([it.content.text for it in joined.history], ["two", "three"])
        self.assertEqual((joined.state.title, joined.state.head), ("The lobby", 3))
        id_ = uuid.uuid4().bytes
        for _ in range(2):
            self.assertEqual(bob.send(room, "four", id_).seq, 4)
        bob.send(room, "five")
        for one in (ann, bob):
            self.assertEqual([one.hears(), one.hears()], [("bob", "four", 4), ("bob", "five", 5)])
        self.assertEqual(bob.pull_all(), [], "nothing of it is in an inbox")
        bob.close()
        poll(lambda: ann.next("chatroom_news").state.here == 1, "it is told that one has gone")

    def test_moderators_say_who_speaks_and_stays(self):
        ann, bob = self.guest("ann"), self.guest("bob")
        ann.order("lobby", "create")
        for one in (ann, bob):
            one.join("lobby")
        room = "lobby@live.localhost"
        self.assertEqual(bob.order("lobby", "kick", "ann"), "forbidden")
        self.assertEqual(ann.order("lobby", "announce", text="Be kind."), "done")
        while (news := bob.next("chatroom_news").state).announcement != "Be kind.":
            pass
        self.assertEqual(news.room, room)
        ann.order("lobby", "mute", "bob")
        self.assertEqual(bob.send(room, "?").word, "muted")
        ann.order("lobby", "unmute", "bob")
        self.assertEqual(bob.send(room, "!").seq, 1)
        for verb, out, comes in (("kick", 1, "chatroom_joined"), ("ban", 2, "failed")):
            self.assertEqual(ann.order("lobby", verb, "bob"), "done")
            while bob.next("chatroom_news").out != out:
                pass
            self.assertEqual(getattr(bob.join("lobby"), "word", "chatroom_joined"),
                             "chatroom_banned" if comes == "failed" else comes)
        self.assertEqual(ann.leave("lobby"), "done")
        self.assertEqual(ann.leave("lobby"), "not_in_chatroom")

    def test_a_durable_room_outlives_the_server_with_its_last_messages(self):
        ann = self.guest("ann")
        for name, durable in (("kept", True), ("light", False)):
            ann.order(name, "create", keeps=3, durable=durable)
            room = ann.join(name).state.room
            for number in range(1, 8):
                self.assertEqual(ann.send(room, f"m{number}").seq, number)
        ann.order("kept", "ban", "bob")
        self.server.kill()
        self.server.start()
        ann, bob = self.guest("ann"), self.guest("bob")
        kept = ann.join("kept")
        self.assertEqual([it.content.text for it in kept.history], ["m5", "m6", "m7"])
        self.assertEqual(ann.send(kept.state.room, "m8").seq, 8)
        self.assertEqual(list(ann.join("light").history), [])
        self.assertEqual(bob.join("kept").word, "chatroom_banned")

    def test_operators_list_rooms_change_them_and_speak_there(self):
        ann = self.guest("ann")
        for name in ("attic", "lobby"):
            ann.order(name, "create", text=name.title())
        ann.join("lobby")
        status, page = self.server.api("GET", "/v1/chat/chatrooms?limit=1")
        self.assertEqual((status, page["next"]), (200, "attic@live.localhost"))
        status, page = self.server.api("GET", f"/v1/chat/chatrooms?after={page['next']}")
        self.assertEqual([it["room"] for it in page["chatrooms"]], ["lobby@live.localhost"])
        self.assertEqual((page["chatrooms"][0]["owner"], page["chatrooms"][0]["title"]),
                         ("ann@localhost", "Lobby"))
        status = self.server.status()
        self.assertEqual((status["chatrooms"], status["chatroom_sessions"]), (2, 1))
        self.assertIn("\nholdline_chatroom_sessions 1\n", self.server.metrics())
        say = {"to": "lobby@live.localhost", "message": {"text": "closing time"}}
        status, answer = self.server.api("POST", "/v1/chat/accounts/system/messages", say)
        self.assertEqual(status, 200, answer)
        said = ann.next("chatroom_message")
        self.assertEqual((said.message.content.text, said.important), ("closing time", True))
        change = "/v1/chat/chatrooms/lobby/changes"
        for order, expected in (({"verb": "close"}, 200), ({"verb": "close"}, 404),
                                ({"verb": "ban"}, 400), ({"verb": "shout"}, 400)):
            status, answer = self.server.api("POST", change, order)
            self.assertEqual(status, expected, answer)
        while ann.next("chatroom_news").out != 3:
            pass

    def test_who_does_not_read_is_told_how_much_it_missed_and_holds_nobody_up(self):
        self.server = self.start({"chat": {"chatroom_pause_ms": 50,
                                           "chatroom_messages_per_s": 100_000,
                                           "chatroom_messages_burst": 100_000}})
        ann, deaf = self.guest("ann"), self.guest("deaf")
        ann.order("lobby", "create")
        room = "lobby@live.localhost"
        for one in (ann, deaf):
            one.join(room)
        text, count = "x" * 4_000, 3_000
        for number in range(1, count + 1):
            self.assertEqual(ann.send(room, text).seq, number)
            self.assertEqual(ann.hears()[2], number)
        heard = missed = last = 0
        while heard + missed < count:
            kind, message = deaf.frame()
            if kind == "chatroom_message":
                self.assertGreater(message.message.seq, last)
                last, heard = message.message.seq, heard + 1
            elif kind == "chatroom_missed":
                missed += message.missed
        self.assertEqual(heard + missed, count)
        self.assertGreater(missed, 0)


class Terminals(Terminal):
    def chatrooms(self, command, user, *words):
        return run("im", "chatrooms", command, *self.flags(user), *words)

    def test_people_talk_in_a_room_at_terminals(self):
        room = f"{self.name[:40]}.lobby"
        made = self.chatrooms("make", self.ann, room, "--title", "The lobby")
        self.assertEqual(made.returncode, 0, made.stderr)
        again = self.chatrooms("make", self.bob, room)
        self.assertIn("conflict", again.stderr)
        ann, lines, notes = self.open_with_notes("chatrooms talk", self.ann, room)
        bob, heard, _ = self.open_with_notes("chatrooms talk", self.bob, room)
        poll(lambda: any("title: The lobby" in note for note in notes), "the title is shown")
        self.say(ann, "hello")
        poll(lambda: any(line.endswith(": hello") for line in heard), "it is heard")
        self.say(bob, "\x1b[2J")
        poll(lambda: any("\\u001b[2J" in line for line in lines), "and shown with nothing obeyed")
        listed = self.chatrooms("members", self.ann, room)
        names = sorted(line.split("@")[0] for line in listed.stdout.splitlines())
        self.assertEqual(sorted(set(names)), sorted({self.ann, self.bob}))
        answer = self.chatrooms("change", self.ann, room, "kick", self.bob)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        poll(lambda: bob.poll() == 1, "it is shown out")
        host, port = self.server.ports["api"]
        answer = run("chat", "chatrooms", "--json", "--url", f"http://{host}:{port}",
                     env={"HOLDLINE_TOKEN": self.server.token})
        self.assertIn(f"{room}@live.localhost",
                      [it["room"] for it in json.loads(answer.stdout)["chatrooms"]])
        self.say(ann, "/quit")
        self.assertEqual(ann.wait(), 0)


class Pages(PageCase):
    def test_people_join_a_room_by_its_name_and_talk(self):
        maker = Guest(self.server.ports["any"])
        self.addCleanup(maker.close)
        maker.login("maker")
        maker.order("lobby", "create", text="The lobby", keeps=5)
        room = maker.join("lobby").state.room
        maker.send(room, "welcome")
        ann, bob = self.person("ann"), self.person("bob")
        for page in (ann, bob):
            page.write_to(room)
            page.shows(["theirs: welcome"])
            page.until("/The lobby · \\d+ online/.test(document.getElementById('with').textContent)",
                       "what it is and how many are there")
        ann.say("hello, all")
        for page, kind in ((ann, "own"), (bob, "theirs")):
            page.shows(["theirs: welcome", f"{kind}: hello, all"])
        self.assertTrue(bob.run("/^ann/.test(document.querySelector('#rows li:last-child small')"
                                ".textContent)"), "who says it is told")
        self.assertEqual([maker.hears()[1] for _ in range(2)], ["welcome", "hello, all"])
        maker.order("lobby", "close")
        ann.until("/closed/.test(document.getElementById('say-fault').textContent)",
                  "that it is closed is told")
        self.calm(ann, bob)

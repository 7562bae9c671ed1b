"""Moderation over the API and by hooks, with people of IM and of XMPP (slixmpp)."""

import json
import os
import tempfile
import uuid

import fixture
from fixture import Case, poll
from im.hook import Hook
from im.wire import Device, schema
from xmpp.people import People, together

SECRET = "0123456789abcdef"


class Moderated(Case):
    """A server whose operator's hook is this test's."""

    CHAT = {}

    @classmethod
    def setUpClass(cls):
        cls.hook = Hook()
        cls.CHANGES = {"chat": {
            "before_send_url": f"{cls.hook.url}/before", "before_send_secret": SECRET,
            "before_send_ms_max": 1000, **cls.CHAT}}
        cls.TAIL = (f'[[webhook]]\nurl = "{cls.hook.url}/after"\nsecret = "{SECRET}"\n'
                    'events = ["chat_message", "chat_recalled", "chat_group_changed", '
                    '"chat_account_made", "chat_flagged"]\n')
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.hook.close()

    def setUp(self):
        super().setUp()
        schema()
        self.ann, self.bob = f"{self.name}.ann", f"{self.name}.bob"

    def online(self, name):
        link = Device(self.server.ports["any"])
        self.addCleanup(link.close)
        link.login(name)
        return link

    def both(self):
        return self.online(self.ann), self.online(self.bob)

    def heard(self, device):
        return device.next("message").message.content.text


class Before(Moderated):
    def test_a_hook_allows_changes_and_refuses(self):
        ann, bob = self.both()
        self.assertEqual(ann.send(self.bob, "hello").seq, 1)
        self.assertEqual(self.heard(bob), "hello")
        asked = self.hook.asked[-1]
        self.assertEqual((asked["from"], asked["to"], asked["device"], asked["group"]),
                         (f"{self.ann}@localhost", f"{self.bob}@localhost", "phone", False))
        self.assertRegex(self.hook.headers[-1]["Holdline-Signature"], r"^t=\d+,v1=[0-9a-f]{64}$")
        self.assertEqual(ann.send(self.bob, "change:nicer").seq, 2)
        self.assertEqual((self.heard(bob), self.heard(ann)), ("nicer", "nicer"))
        failed = ann.send(self.bob, "refuse:not here")
        self.assertEqual((failed.word, failed.reason), ("rejected", "not here"))
        self.assertEqual([text for _, text in bob.pull_all()], ["hello", "nicer"])

    def test_what_a_hook_ought_not_to_say_is_no_verdict_and_holds_up_no_other(self):
        ann, bob = self.both()
        carol = self.online(f"{self.name}.carol")
        for text in ("nonsense:1", "large:2", "error:3"):
            self.assertGreater(ann.send(self.bob, text).seq, 0)
            self.assertEqual(self.heard(bob), text)
        first, second = ann.take_number(), ann.take_number()
        for number, text in ((first, "hang:4"), (second, "behind it")):
            ann.ask(send={"number": number, "to": self.bob, "client_id": uuid.uuid4().bytes,
                          "content": {"kind": 1, "text": text}})
        # Others, and other conversations, do not wait.
        self.assertGreater(carol.send(self.bob, "in between").seq, 0)
        self.assertEqual(self.heard(bob), "in between")
        answers = [ann.next("sent", "failed") for _ in range(2)]
        self.assertEqual([answer.number for answer in answers], [first, second])
        self.assertEqual([self.heard(bob), self.heard(bob)], ["hang:4", "behind it"])
        self.assertGreater(self.server.count("chat_reviews_missed_total"), 3)

    def test_what_waits_for_a_hook_when_the_server_is_killed_was_not_promised(self):
        data = self.server.data + ".killed"
        chat = {"before_send_url": f"{self.hook.url}/before", "before_send_ms_max": 30000}
        server = self.start({"chat": chat}, data=data)
        ann = Device(server.ports["any"])
        self.addCleanup(ann.close)
        ann.login(self.ann)
        Device(server.ports["any"]).login(self.bob)
        number, client_id = ann.take_number(), uuid.uuid4().bytes
        ann.ask(send={"number": number, "to": self.bob, "client_id": client_id,
                      "content": {"kind": 1, "text": "hang:on"}})
        poll(lambda: any(asked["text"] == "hang:on" for asked in self.hook.asked), "it was asked")
        server.kill()
        again = self.start({}, data=data)
        ann = Device(again.ports["any"])
        self.addCleanup(ann.close)
        ann.login(self.ann)
        sent = ann.send(self.bob, "hang:on", client_id)
        self.assertEqual((sent.seq, sent.again), (1, False))


class After(Moderated):
    def test_what_happens_is_posted_signed(self):
        ann, bob = self.both()
        sent = ann.send(self.bob, "to be called back")
        status, told = self.server.api("POST", f"/v1/chat/accounts/{self.ann}/recall",
                                       {"with": self.bob, "seq": sent.seq})
        self.assertEqual(status, 200, told)
        self.server.ask("POST", "/v1/chat/groups", {"owner": self.ann, "members": [self.bob]})

        def events():
            mine = [event for event in self.hook.events if self.name in json.dumps(event)]
            return [event["type"] for event in mine]
        expected = ["chat_account_made", "chat_account_made", "chat_message", "chat_recalled",
                    "chat_group_changed"]
        poll(lambda: sorted(events()) == sorted(expected), "all were posted")
        self.assertEqual(events()[2:], expected[2:], "in order")
        self.assertEqual(self.hook.events[-1]["verb"], "create")
        self.assertEqual(bob.pull_all()[0][1], "", "nothing is left of it")


class Api(Case):
    def setUp(self):
        super().setUp()
        schema()
        self.ann, self.bob = f"{self.name}.ann", f"{self.name}.bob"

    def online(self, name):
        link = Device(self.server.ports["any"])
        self.addCleanup(link.close)
        link.login(name)
        return link

    def path(self, name, what=""):
        return f"/v1/chat/accounts/{name}{what}"

    def test_a_robot_speaks_and_hears_by_the_api_and_cannot_log_in(self):
        robot = f"{self.name}.robot"
        self.server.ask("PUT", f"/v1/users/{robot}", {})
        ann = self.online(self.ann)
        order = {"to": self.ann, "client_id": str(uuid.uuid4()), "message": {"text": "hello"}}
        sent = self.server.ask("POST", self.path(robot, "/messages"), order)
        again = self.server.ask("POST", self.path(robot, "/messages"), order)
        self.assertEqual((again["id"], sent["again"], again["again"]), (sent["id"], False, True))
        self.assertEqual(ann.next("message").message.content.text, "hello")
        ann.send(robot, "hi")
        told = self.server.ask("GET", self.path(robot, "/conversations"))
        conversation, = told["conversations"]
        self.assertEqual((conversation["with"], conversation["unread"]),
                         (f"{self.ann}@localhost", 1))
        history = self.server.ask("GET", self.path(robot, f"/history?with={self.ann}&after=0"))
        self.assertEqual([it["text"] for it in history["messages"]], ["hello", "hi"])
        link = Device(self.server.ports["any"])
        self.addCleanup(link.close)
        link.ask(login={"name": robot, "device": "phone", "password": b"guess"})
        self.assertEqual(link.frame()[0], "refused")

    def test_a_muted_account_is_told_until_when_over_a_restart_too(self):
        server = self.start()
        ann = Device(server.ports["any"])
        ann.login(self.ann)
        Device(server.ports["any"]).login(self.bob)
        server.ask("PUT", self.path(self.ann, "/mute"), {"seconds": 3600})
        server.kill()
        server.start()
        ann = Device(server.ports["any"])
        self.addCleanup(ann.close)
        ann.login(self.ann)
        failed = ann.send(self.bob, "hello")
        self.assertEqual(failed.word, "silenced")
        self.assertGreater(failed.retry_after_ms, 3_500_000)
        told = server.ask("DELETE", self.path(self.ann, "/mute"))
        self.assertIsNone(told["muted_until"])
        self.assertEqual(ann.send(self.bob, "hello").seq, 1)

    def test_an_operator_governs_a_group_by_the_command_line(self):
        ann, bob = self.online(self.ann), self.online(self.bob)
        group = self.server.ask("POST", "/v1/chat/groups",
                                {"owner": self.ann, "title": "Lunch", "members": [self.bob]})
        group = group["group"]

        def chat(*words):
            host, port = self.server.ports["api"]
            done = fixture.run("chat", *words, "--url", f"http://{host}:{port}",
                               env={"HOLDLINE_TOKEN": self.server.token})
            return done.returncode, done.stdout + done.stderr
        self.assertEqual(chat("change", group, "close")[0], 0)
        bob.pull_all()
        self.assertEqual(bob.send(group, "hello?").word, "muted")
        self.assertEqual(chat("send", group, "closed for today")[0], 0)
        texts = poll(lambda: (seen := [text for _, text in ann.pull_all()])[-1:] ==
                     ["closed for today"] and seen, "the members hear it")
        self.assertEqual(texts[0], "Lunch")
        code, told = chat("group", group)
        self.assertEqual(code, 0, told)
        self.assertIn("2 members, closed", told)
        code, told = chat("history", group)
        self.assertIn("closed for today", told)
        self.assertEqual(chat("recall", "3", group)[0], 0)
        self.assertNotIn("closed for today", chat("history", group)[1])
        code, told = chat("change", group, "remove", self.ann)
        self.assertEqual(code, 1)
        self.assertIn("forbidden", told)
        self.assertIn("muted", chat("mute", self.bob)[1])

    def test_a_broadcast_reaches_everybody_of_the_book_once(self):
        names = [f"{self.name}.p{number}" for number in range(100)]
        for name in names:
            self.server.ask("PUT", f"/v1/users/{name}", {"password": f"secret of {name}"})
        order = {"all": True, "client_id": uuid.uuid4().hex, "message": {"text": "we are back"}}
        for again in (0, 100):
            begun = self.server.ask("POST", "/v1/chat/broadcasts", order)
            told = poll(lambda: (it := self.server.ask(
                "GET", f"/v1/chat/broadcasts/{begun['id']}"))["state"] != "running" and it,
                "it is over")
            self.assertEqual(told["state"], "done")
            self.assertGreaterEqual(told["sent"], 100)
            self.assertGreaterEqual(told["again"], again)
        link = Device(self.server.ports["any"])
        self.addCleanup(link.close)
        link.login(names[7], password=f"secret of {names[7]}".encode())
        self.assertEqual([text for _, text in link.pull_all()], ["we are back"])

    def test_what_operators_do_is_in_the_audit_log_without_what_was_said(self):
        self.online(self.ann)
        self.server.ask("POST", self.path("system", "/messages"),
                        {"to": self.ann, "message": {"text": "a private word"}})
        self.server.ask("PUT", self.path(self.ann, "/mute"), {"seconds": 60})
        self.server.ask("GET", self.path(self.ann, "/history?with=system"))
        entries = self.server.ask("GET", "/v1/audit_log?limit=50")["entries"]
        told = json.dumps(entries)
        for action in ("PUT /v1/chat/accounts/{account}/mute",
                       "GET /v1/chat/accounts/{account}/history",
                       "POST /v1/chat/accounts/{account}/messages"):
            self.assertIn(action, told)
        self.assertNotIn("a private word", told)


class Words(Case):
    def setUp(self):
        super().setUp()
        schema()

    def test_words_are_refused_replaced_and_read_again(self):
        server = self.started("refuse casino\nreplace |darn|\n")
        ann = Device(server.ports["any"])
        self.addCleanup(ann.close)
        ann.login(f"{self.name}.a")
        bob = Device(server.ports["any"])
        self.addCleanup(bob.close)
        bob.login(f"{self.name}.b")
        self.assertEqual(ann.send(f"{self.name}.b", "the CASINO").word, "rejected")
        ann.send(f"{self.name}.b", "Darn it")
        self.assertEqual(bob.next("message").message.content.text, "**** it")
        self.write("ban x\n")
        server.signal(1)
        server.logged("line 1: a line must start with `refuse`, `replace` or `flag`")
        self.assertEqual(ann.send(f"{self.name}.b", "the casino").word, "rejected")
        self.write("flag casino\n")
        server.signal(1)
        server.logged("list of forbidden words reloaded")
        self.assertGreater(ann.send(f"{self.name}.b", "the casino").seq, 0)

    def started(self, words):
        self.file = os.path.join(self.folder(), "words.txt")
        self.write(words)
        return self.start({"chat": {"words_file": self.file}})

    def write(self, words):
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(words)

    def folder(self):
        folder = tempfile.TemporaryDirectory(prefix="holdline-words-")
        self.addCleanup(folder.cleanup)
        return folder.name


class Xmpp(People):
    """The same hook, and the same rules, by another protocol."""

    @classmethod
    def setUpClass(cls):
        cls.hook = Hook()
        cls.CHANGES = {
            "listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"},
            "chat": {"before_send_url": f"{cls.hook.url}/before", "sends_an_account_per_s": 1,
                     "sends_an_account_burst": 6}}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.hook.close()

    @together
    async def test_a_refusal_is_an_error_with_its_reason(self):
        ann, bob = await self.person(self.ann).start(), await self.person(self.bob).start()
        to = f"{self.bob}@localhost"
        ann.say(to, "refuse:not here")
        error = await ann.next("message_error")
        self.assertEqual((error["error"]["condition"], error["error"]["text"]),
                         ("not-acceptable", "not here"))
        ann.say(to, "change:nicer")
        self.assertEqual(await bob.hears(1), ["nicer"])
        self.server.ask("PUT", f"/v1/chat/accounts/{self.ann}/mute", {"seconds": 60})
        ann.say(to, "hello")
        error = await ann.next("message_error")
        self.assertEqual(error["error"]["condition"], "forbidden")
        self.assertIn("muted", error["error"]["text"])

    @together
    async def test_too_much_at_once_is_a_resource_constraint_with_a_time(self):
        ann, bob = await self.person(self.ann).start(), await self.person(self.bob).start()
        for number in range(7):
            ann.say(f"{self.bob}@localhost", str(number))
        error = await ann.next("message_error")
        self.assertEqual((error["error"]["condition"], error["error"]["type"]),
                         ("resource-constraint", "wait"))
        self.assertIn("send it again in 1 s", error["error"]["text"])
        self.assertEqual(await bob.hears(6), [str(number) for number in range(6)])

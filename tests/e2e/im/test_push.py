"""Push of those who are away: a gateway of the operator's, and Holdline's own pushes."""

import json

from fixture import Case, poll
from gateway import Gateway
from im.terminal import CommandLine
from im.wire import Device, schema
from miop import MSG


class Push(CommandLine, Case):
    SHARED = False

    def setUp(self):
        super().setUp()
        schema()
        self.gateway = Gateway()
        self.addCleanup(self.gateway.close)
        self.server = self.start({"push": self.gateway.changes(), "server": {"shards": 2}})

    def tearDown(self):
        self.server = None
        super().tearDown()

    def online(self, name, device="phone"):
        link = Device(self.server.ports["any"])
        self.addCleanup(link.close)
        link.login(name, device)
        return link

    def leaves(self, link):
        link.ask(goodbye={})
        link.ends()

    def wish(self, link, kind="push", **fields):
        """What the server says to a wish about pushes."""
        return link.asks(kind, "done", "push_code", "push_status", **fields)

    def registered(self, name, token):
        link = self.online(name)
        answer = self.wish(link, registration={"app": "chat", "token": token})
        self.assertEqual(type(answer).__name__, "Done", answer)
        self.leaves(link)

    def test_who_is_away_is_told_by_the_gateway(self):
        self.registered("bob", "bobs token")
        ann = self.online("ann")
        sent = ann.send("bob", "are you there")
        told = self.gateway.next()
        collapse = told.pop("collapse")
        self.assertEqual(len(collapse), 32)
        self.assertEqual(told, {
            "version": 1, "type": "message", "app": "chat", "tokens": ["bobs token"],
            "account": "bob@localhost", "priority": "high", "badge": 1, "title": "ann",
            "body": "are you there", "sender": "ann@localhost", "conversation": "ann@localhost",
            "id": str(sent.id), "seq": 1, "count": 1})
        bob = self.online("bob", "tablet")
        bob.pull_all()
        bob.ask(mark_read={"number": bob.take_number(), "with": "ann", "upto": 1})
        bob.next("marked_read")
        bob.ask(acknowledge={"upto": 2})
        told = self.gateway.next()
        self.assertEqual((told["type"], told["badge"], told["priority"]), ("badge", 0, "low"))
        ann.send("bob", "seen")
        entry = bob.next("message")
        self.assertEqual(entry.message.content.text, "seen")
        bob.ask(acknowledge={"upto": entry.seq})
        bob.ask(ping={})
        bob.next("pong")
        poll(lambda: self.server.status()["chat_pushes_owing"] == 0, "nothing is owed")
        self.assertEqual(self.gateway.bodies, [], "somebody is there")
        self.assertEqual(self.server.count("chat_push_attended_total"), 1)

    def test_a_gateway_that_fails_is_told_again_and_after_a_kill(self):
        self.registered("bob", "bobs token")
        self.gateway.answers = [500, 429, 503]
        ann = self.online("ann")
        ann.send("bob", "first")
        self.assertEqual(self.gateway.next()["body"], "first")
        self.gateway.answers = [500] * 10_000
        ann.send("bob", "before the kill")
        poll(lambda: len(self.gateway.answers) < 10_000, "it was tried")
        self.server.kill()
        self.gateway.answers = []
        self.server.start()
        told = self.gateway.next()
        self.assertEqual((told["body"], told["badge"]), ("before the kill", 2))
        metrics = self.server.metrics()
        self.assertIn("holdline_push_gateway_up 1", metrics)

    def test_a_token_that_is_gone_is_forgotten(self):
        self.registered("bob", "bobs token")
        self.gateway.gone = ["bobs token"]
        self.online("ann").send("bob", "to nobody")
        self.gateway.next()
        poll(lambda: self.server.count("chat_push_gone_total") == 1, "it is forgotten")
        status = self.wish(self.online("bob"), "push_settings")
        self.assertEqual(len(status.registrations), 0)

    def test_a_device_of_miop_is_bound_by_a_code_and_woken(self):
        phone = self.bound("bobs-phone", server=self.server)
        bob = self.online("bob")
        way = {"product": "demo", "miop_device": "bobs-phone"}
        self.assertEqual(type(self.wish(bob, registration=way)).__name__, "PushCode")
        frame = phone.expect(MSG)
        told = json.loads(frame.bodies[0])
        self.assertEqual((told["version"], told["type"]), (1, "code"))
        phone.ack(frame.records[0].id)
        wrong = self.wish(bob, registration=way, code="aaaaaaaa")
        self.assertEqual(wrong.word, "bad_code")
        answer = self.wish(bob, registration=way, code=told["code"])
        self.assertEqual(type(answer).__name__, "Done", answer)
        self.leaves(bob)
        self.online("ann").send("bob", "wake up")
        frame = phone.expect(MSG)
        told = json.loads(frame.bodies[0])
        self.assertEqual((told["body"], told["badge"], told["sender"]),
                         ("wake up", 1, "ann@localhost"))
        self.assertNotIn("tokens", told)
        self.assertEqual(self.gateway.bodies, [])

    def test_the_command_line_registers_shows_and_is_quiet(self):
        def im(command, *words):
            return self.im(f"push {command}", "bob", "--device", "phone", *words)
        im("on", "--app", "chat", "--token", "bobs token")
        im("quiet", "00:00", "23:59", "--offset", "-01:00")
        told = json.loads(im("show", "--json"))
        self.assertEqual(told, {
            "registrations": [{"name": "phone", "device": "phone", "way": "gateway chat"}],
            "quiet": {"from": "00:00", "to": "23:59", "offset": "-01:00"}})
        self.online("ann").send("bob", "softly")
        self.assertEqual(self.gateway.next()["priority"], "low")
        im("quiet", "--never")
        im("off")
        self.assertEqual(json.loads(im("show", "--json")), {"registrations": [], "quiet": None})

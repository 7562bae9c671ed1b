"""Instant messaging by clients of MQTT: requests under $im/req/, answers, events (IM 19).

One of two people comes by MQTT: by hand, with Google's protobuf, or with the libraries and tools
of others, with JSON; the other by a connection of IM, or by slixmpp.
"""

import asyncio
import base64
import json
import shutil
import subprocess
import unittest
import uuid

from fixture import Case, DEADLINE_S, poll
from im.wire import Device, schema
from mqtt import wire
from mqtt.drivers import Client, Driver
from mqtt.wire import PUBACK, PUBLISH, V311, V5, Wire
from xmpp.people import Person, together

PASSWORD = "correct horse battery"
TAKEN, NOT_AUTHORIZED, TOPIC_INVALID, QUOTA, PAYLOAD = 0, 0x87, 0x90, 0x97, 0x99


class Link(Wire):
    """A client of MQTT that is a device of an account, by hand."""

    def events(self):
        self.subscribe("$im/evt")
        return self.event("logged_in")

    def request(self, op, qos=1, props=None, **fields):
        """Publishes a request; its packet identifier."""
        line = next(it for it in schema()["ClientFrame"].DESCRIPTOR.fields if it.name == op)
        payload = schema()[line.message_type.name](**fields).SerializeToString()
        return self.raw(op, payload, qos, props)

    def raw(self, op, payload, qos=1, props=None):
        id = self.fresh_id()
        self.send(wire.publish(self.version, f"$im/req/{op}", payload, qos, id=id, props=props))
        return id

    def of_kind(self, wanted):
        """The next packet of which this is true; others stay for later."""
        for at, found in enumerate(self.kept):
            if wanted(found):
                return self.kept.pop(at)
        while not wanted(found := self.arrived()):
            self.kept.append(found)
        return found

    def acknowledged(self, id):
        """The reason with which a request's message was acknowledged."""
        return self.of_kind(lambda it: it.kind == PUBACK and it.id == id).code

    def frame(self, topic, *kinds):
        """The next frame of these kinds on a topic: the packet, the kind and the message."""
        def of(packet):
            frame = schema()["ServerFrame"].FromString(packet.payload)
            return frame.WhichOneof("answer"), frame

        found = self.of_kind(lambda it: it.kind == PUBLISH and it.topic == topic
                             and (not kinds or of(it)[0] in kinds))
        kind, frame = of(found)
        return found, kind, getattr(frame, kind)

    def event(self, *kinds):
        return self.frame("$im/evt", *kinds)[2]

    def ask(self, op, topic, reason=TAKEN, **fields):
        """A request at QoS 1 and its answer: kind and message."""
        id = self.request(op, **fields)
        _, kind, answer = self.frame(topic)
        assert self.acknowledged(id) == reason, answer
        return kind, answer


class People(Case):
    CHANGES = {"listen.any": {"anonymous": "loopback"}}

    def setUp(self):
        super().setUp()
        schema()
        self.people = []
        self.ann, self.bob = (self.account(who) for who in ("ann", "bob"))

    def account(self, who, server=None):
        # Short, for an identifier is the name of a device.
        name = f"{who}-{self.name.replace('_', '')[:36]}"
        (server or self.server).ask("PUT", f"/v1/users/{name}", {"password": PASSWORD})
        return name

    def mqtt(self, name, device="mqtt", version=V5, server=None, **how):
        link = Link((server or self.server).ports["any"], version)
        self.addCleanup(link.close)
        link.id = f"{name}-{device}"
        link.answers = f"$im/res/{link.id}"
        link.told_at_connect = link.open(link.id, user=name, password=PASSWORD, **how)
        return link

    def im(self, name, device="phone", server=None):
        link = Device((server or self.server).ports["any"])
        self.addCleanup(link.close)
        link.told_at_login = link.login(name, device, password=PASSWORD.encode())
        return link

    def send(self, link, to, text, client_id=None, reason=TAKEN, **more):
        content = {"kind": 1, "text": text, **more}
        return link.ask("send", link.answers, reason, number=7, to=to, content=content,
                        client_id=client_id or uuid.uuid4().bytes)


class Talk(People):
    # -- what is right

    def test_two_people_talk_one_of_them_by_mqtt(self):
        ann, bob = self.mqtt(self.ann), self.im(self.bob)
        told = ann.events()
        self.assertEqual((told.account, told.head), (f"{self.ann}@localhost", 0))
        self.assertEqual((told.requests_max, told.text_bytes_max), (256, 262144))
        kind, sent = self.send(ann, self.bob, "hello", extra=b"\0\xff")
        self.assertEqual((kind, sent.number, sent.seq, sent.again), ("sent", 7, 1, False))
        said = bob.next("message").message
        self.assertEqual((said.id, said.device, said.content.extra), (sent.id, ann.id, b"\0\xff"))
        bob.send(self.ann, "hi")
        entry = ann.event("message")
        self.assertEqual((entry.seq, entry.message.content.text), (2, "hi"))
        kind, page = ann.ask("pull", ann.answers, number=8, after=0, count=10)
        texts = [each.message.content.text for each in page.entries]
        self.assertEqual((kind, page.number, page.head, texts), ("page", 8, 2, ["hello", "hi"]))
        kind, page = ann.ask("history", ann.answers, count=10, **{"with": self.bob})
        self.assertEqual(len(page.messages), 2)

    def test_an_answer_goes_to_the_topic_that_is_named_with_what_belongs_to_it(self):
        ann = self.mqtt(self.ann)
        for qos in (0, 1):
            props = {"response_topic": "answers/of ann", "correlation": b"\0one\xff"}
            id = ann.request("conversations", qos, props, number=qos, count=5)
            packet, kind, page = ann.frame("answers/of ann", "conversations")
            self.assertEqual((kind, page.number), ("conversations", qos))
            self.assertEqual((packet.qos, packet.retain), (0, False))
            self.assertEqual(packet.props, {"correlation": b"\0one\xff"})
            if qos:
                self.assertEqual(ann.acknowledged(id), TAKEN)

    def test_every_request_that_a_connection_has_is_answered(self):
        ann = self.mqtt(self.ann)
        kind, changed = ann.ask("group", ann.answers, verb=1, title="lunch", members=[self.bob],
                                client_id=uuid.uuid4().bytes)
        self.assertEqual(kind, "changed")
        kind, members = ann.ask("members", ann.answers, group=changed.group, count=10)
        self.assertEqual((kind, len(members.members)), ("members", 2))
        place = {"with": self.bob}
        sent = self.send(ann, self.bob, "to be called back")[1]
        for op, fields, expected in [
                ("mark_read", {**place, "upto": 1}, "marked_read"),
                ("set", {**place, "change": {"setting": 1, "on": True}}, "set"),
                ("recall", {**place, "seq": sent.seq}, "sent"),
                ("contacts", {"count": 10}, "contacts"),
                ("contact", {"contact": self.bob, "verb": 3}, "done"),
                ("presence", {"show": 2, "status": "here"}, "done"),
                ("push_settings", {}, "push_status"),
        ]:
            with self.subTest(op):
                self.assertEqual(ann.ask(op, ann.answers, **fields)[0], expected)
        kind, failed = ann.ask("upload", ann.answers, 0x80, name="a.png", bytes=10)
        self.assertEqual((kind, failed.word), ("failed", "media_off"))
        id = ann.request("acknowledge", upto=2)
        self.assertEqual(ann.acknowledged(id), TAKEN, "it has no answer but this")

    def test_the_same_client_id_makes_no_second_message(self):
        ann, bob = self.mqtt(self.ann), self.im(self.bob)
        client_id = uuid.uuid4().bytes
        first = self.send(ann, self.bob, "once", client_id)[1]
        again = self.send(ann, self.bob, "once", client_id)[1]
        self.assertEqual((again.id, again.again), (first.id, True))
        kind, other = self.send(ann, self.bob, "twice", client_id, 0x80)
        self.assertEqual((kind, other.word), ("failed", "conflict"))
        by_im = self.im(self.ann, ann.id).send(self.bob, "once", client_id)
        self.assertEqual((by_im.id, by_im.again), (first.id, True), "whichever way it comes")
        self.assertEqual([text for _, text in bob.pull_until(1)], ["once"])

    def test_all_devices_of_an_account_hear_what_one_says(self):
        phone, other = self.mqtt(self.ann), self.mqtt(self.ann, "other")
        for link in (phone, other):
            link.events()
        self.send(phone, self.bob, "from the phone")
        self.assertEqual(other.event("message").message.content.text, "from the phone")
        laptop = self.im(self.ann, "laptop")
        laptop.ask(mark_read={"number": 1, "with": self.bob, "upto": 1})
        for link in (phone, other):
            self.assertEqual(getattr(link.event("event"), "with"), f"{self.bob}@localhost")

    def test_presence_and_contacts_are_told(self):
        ann, bob = self.mqtt(self.ann), self.im(self.bob)
        ann.events()
        ann.ask("contacts", ann.answers, count=10)
        bob.ask(contact={"number": 1, "contact": self.ann, "verb": 3, "greeting": "it is me"})
        change = ann.event("contact")
        self.assertEqual(change.contact.address, f"{self.bob}@localhost")
        self.assertEqual(change.contact.greeting, "it is me")

    def test_a_device_may_have_another_name_than_its_identifier(self):
        ann = self.mqtt(self.ann, props={"user": [("im-device", "watch")]})
        bob = self.im(self.bob)
        self.send(ann, self.bob, "from the wrist")
        self.assertEqual(bob.next("message").message.device, "watch")

    def test_version_311_is_answered_at_its_own_topic(self):
        ann, bob = self.mqtt(self.ann, version=V311), self.im(self.bob)
        ann.events()
        kind, sent = self.send(ann, self.bob, "old")
        self.assertEqual((kind, sent.number), ("sent", 7))
        bob.send(self.ann, "new")
        self.assertEqual(ann.event("message").message.content.text, "new")
        id = ann.raw("send/json", json.dumps({"to": "nobody@", "number": 9}))
        packet = ann.of_kind(lambda it: it.kind == PUBLISH and it.topic == ann.answers)
        self.assertEqual(json.loads(packet.payload)["failed"]["number"], 9)
        ann.acknowledged(id)

    # -- away and back

    def test_what_was_acknowledged_outlives_a_kill(self):
        server = self.start(self.CHANGES)
        ann, bob = self.account("ann", server), self.account("bob", server)
        link = self.mqtt(ann, server=server)
        id = link.request("send", to=bob, client_id=uuid.uuid4().bytes,
                          content={"kind": 1, "text": "kept"})
        self.assertEqual(link.acknowledged(id), TAKEN)
        server.kill()
        server.start()
        self.assertEqual(self.im(bob, server=server).pull_until(1), [(1, "kept")])

    def test_a_session_that_was_away_is_told_once_and_pulls(self):
        keep = {"clean": False, "props": {"session_expiry": 600}}
        ann = self.mqtt(self.ann, **keep)
        ann.events()
        ann.leave()
        bob = self.im(self.bob)
        for number in range(20):
            bob.send(self.ann, f"text {number}")
        poll(lambda: self.im(self.ann, "laptop").told_at_login.head == 20, "all is there")
        ann = self.mqtt(self.ann, **keep)
        self.assertTrue(ann.told_at_connect.present)
        told = ann.event("logged_in")
        self.assertEqual((told.head, told.cursor), (20, 0))
        self.assertEqual(ann.event("notify").head, 20)
        self.assertEqual([it for it in ann.told() if it.kind == PUBLISH], [], "no body waited")
        _, page = ann.ask("pull", ann.answers, after=0, count=100)
        self.assertEqual(len(page.entries), 20)
        ann.acknowledged(ann.request("acknowledge", upto=20))
        bob.send(self.ann, "in step again")
        self.assertEqual(ann.event("message").message.content.text, "in step again")

    def test_a_newer_connection_takes_over(self):
        older = self.mqtt(self.ann)
        older.events()
        newer = self.mqtt(self.ann)
        newer.events()
        self.assertEqual(older.until_closed()[-1].code, 0x8e)
        self.send(newer, self.bob, "it goes on")

    def test_a_device_of_im_takes_over_that_has_its_name(self):
        ann = self.mqtt(self.ann)
        ann.events()
        self.im(self.ann, ann.id)
        self.assertEqual(ann.until_closed()[-1].code, 0x8e)

    def test_whose_password_changes_goes(self):
        ann = self.mqtt(self.ann)
        ann.events()
        self.server.ask("PUT", f"/v1/users/{self.ann}", {"password": "another horse battery"})
        self.assertEqual(ann.until_closed()[-1].code, NOT_AUTHORIZED)

    # -- what is wrong

    def test_what_is_no_request_is_refused_and_told(self):
        ann = self.mqtt(self.ann)
        for op, payload, reason, word in [
                ("nothing", b"", TOPIC_INVALID, "invalid"),
                ("login", b"", TOPIC_INVALID, "invalid"),
                ("", b"", TOPIC_INVALID, "invalid"),
                ("send/more", b"", TOPIC_INVALID, "invalid"),
                ("send", b"\xff", PAYLOAD, "invalid"),
                ("send", b"", PAYLOAD, "invalid"),
                ("send/json", b"{", PAYLOAD, "invalid"),
                ("send/json", b'{"two": 1}', PAYLOAD, "invalid"),
                ("send", b"x" * 340_000, PAYLOAD, "too_large"),
        ]:
            with self.subTest(op=op, payload=payload[:9]):
                id = ann.raw(op, payload)
                packet = ann.of_kind(lambda it: it.kind == PUBLISH)
                if op.endswith("/json"):
                    told = json.loads(packet.payload)["failed"]["word"]
                else:
                    told = schema()["ServerFrame"].FromString(packet.payload).failed.word
                self.assertEqual((told, ann.acknowledged(id)), (word, reason))
        kind, failed = self.send(ann, "no-such-group@conference.localhost", "x",
                                 reason=NOT_AUTHORIZED)
        self.assertEqual((kind, failed.word), ("failed", "not_member"))
        self.send(ann, self.bob, "and it goes on")

    def test_a_request_at_qos_2_is_refused_and_the_exchange_is_over(self):
        ann = self.mqtt(self.ann)
        id = ann.raw("send", b"", qos=2)
        refused = ann.of_kind(lambda it: it.kind == wire.PUBREC)
        self.assertEqual((refused.id, refused.code), (id, PAYLOAD))
        self.assertEqual(ann.frame(ann.answers, "failed")[2].word, "invalid")

    def test_nobody_has_what_is_another_s(self):
        ann, bob = self.mqtt(self.ann), self.mqtt(self.bob)
        ann.events()
        filters = ["$im/#", "$im/+", "$im", f"$im/res/{ann.id}", "$im/res/+", "$im/req/send",
                   "$share/g/$im/evt", "$exclusive/$im/evt", "$im/evt/#"]
        self.assertEqual(bob.subscribe(*filters, ok=False), [NOT_AUTHORIZED] * len(filters))
        for topic in ("$im/evt", f"$im/res/{ann.id}", "$im/forged", "$im/req"):
            forged = schema()["ServerFrame"](notify={"head": 9}).SerializeToString()
            self.assertEqual(bob.publish(topic, forged, 1).code, NOT_AUTHORIZED, topic)
        own = ["$im/evt", "$im/evt/json", "$im/res", bob.answers]
        self.assertEqual(bob.subscribe(*((it, 2) for it in own)), [0] * len(own))
        # Not by an answer either: it comes back to whoever asked.
        bob.request("conversations", 1, {"response_topic": "$im/evt"}, count=1)
        bob.frame("$im/evt", "conversations")
        self.send(ann, self.bob, "for bob alone")
        self.assertEqual([it for it in ann.told() if it.kind == PUBLISH], [])

    def test_who_has_no_account_is_told_so(self):
        link = Link(self.server.ports["any"], V5)
        self.addCleanup(link.close)
        link.open("nobody")
        self.assertEqual(link.subscribe("$im/evt", ok=False), [NOT_AUTHORIZED])
        id = link.request("conversations", count=1)
        failed = link.frame("$im/res/nobody", "failed")[2]
        self.assertEqual((failed.fault, failed.word), (60, "no_session"))
        self.assertEqual(link.acknowledged(id), NOT_AUTHORIZED)

    def test_an_identifier_that_is_no_device_is_told_so(self):
        ann = self.mqtt(self.ann, "x" * 65)
        kind, failed = self.send(ann, self.bob, "x", reason=NOT_AUTHORIZED)
        self.assertEqual((kind, failed.word), ("failed", "no_session"))

    def test_it_can_be_switched_off(self):
        server = self.start({**self.CHANGES, "chat": {"mqtt": False}})
        ann = self.mqtt(self.account("ann", server), server=server)
        self.assertEqual(ann.subscribe("$im/evt", ok=False), [NOT_AUTHORIZED])
        kind, failed = self.send(ann, "bob", "x", reason=NOT_AUTHORIZED)
        self.assertEqual((kind, failed.word), ("failed", "no_session"))
        self.assertIn("no chat over MQTT", failed.reason)

    def test_more_requests_than_may_be_are_refused_and_no_more(self):
        server = self.start({**self.CHANGES, "chat": {"requests_a_session_max": 2}})
        ann = self.mqtt(self.account("ann", server), server=server)
        many = [wire.publish(V5, "$im/req/conversations",
                             schema()["Conversations"](number=number, count=9)
                             .SerializeToString()) for number in range(50)]
        ann.send(*many)
        answers = [ann.frame(ann.answers) for _ in many]
        self.assertEqual(sorted(answer.number for _, _, answer in answers), list(range(50)))
        words = {answer.word for _, kind, answer in answers if kind == "failed"}
        self.assertLessEqual(words, {"busy"})
        self.assertEqual(ann.ask("conversations", ann.answers, count=9)[0], "conversations")


class Others(People):
    """Clients that others have written."""

    def said(self, to, text):
        client_id = base64.b64encode(uuid.uuid4().bytes).decode()
        return json.dumps({"number": 1, "to": to, "clientId": client_id,
                           "content": {"kind": 1, "text": text}})

    def talk(self, library):
        driver = Driver(library)
        self.addCleanup(driver.kill)
        client = Client(driver, V5, self.server.ports["any"], id=f"{self.ann}-lib",
                        user=self.ann, password=PASSWORD)
        client.connect()
        self.assertEqual(client.subscribe("$im/evt/json")["codes"], ["0"])
        told = json.loads(client.message()["payload"])["loggedIn"]
        self.assertEqual(told["account"], f"{self.ann}@localhost")
        bob = self.im(self.bob)
        client.publish("$im/req/send", self.said(self.bob, "grüß dich"), 1,
                       type="application/json", response_topic="for/me", correlation="one")
        answer = client.message()
        self.assertEqual((answer["topic"], answer["correlation"], answer["content_type"]),
                         ("for/me", "one", "application/json"))
        self.assertEqual(json.loads(answer["payload"])["sent"]["seq"], "1")
        self.assertEqual(bob.next("message").message.content.text, "grüß dich")
        bob.send(self.ann, "hi")
        event = client.message()
        said = json.loads(event["payload"])["message"]["message"]
        self.assertEqual((event["topic"], said["content"]["text"]), ("$im/evt/json", "hi"))
        client.disconnect()

    def test_paho_of_python(self):
        self.talk("paho-python")

    def test_mqtt_js(self):
        self.talk("mqtt-js")

    @together
    async def test_slixmpp_and_a_client_of_mqtt(self):
        ann = self.mqtt(self.ann)
        ann.events()
        bob = Person(self.server.ports["any"][1], f"{self.bob}@localhost/x", PASSWORD)
        self.people.append(bob)
        await bob.start()
        # What is read of a socket is read beside slixmpp's loop.
        await asyncio.to_thread(self.send, ann, self.bob, "from mqtt")
        self.assertEqual(await bob.hears(1), ["from mqtt"])
        bob.say(f"{self.ann}@localhost", "from xmpp")
        entry = await asyncio.to_thread(ann.event, "message")
        self.assertEqual(entry.message.content.text, "from xmpp")

    def tool(self, *arguments):
        at = ["-h", "127.0.0.1", "-p", str(self.server.ports["any"][1]), "-u", self.ann,
              "-P", PASSWORD]
        done = subprocess.run([arguments[0], *at, *arguments[1:]], capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    @unittest.skipUnless(shutil.which("mosquitto_rr"), "mosquitto_rr is not installed")
    def test_mosquitto_rr_and_mosquitto_pub(self):
        bob = self.im(self.bob)
        told = self.tool("mosquitto_rr", "-V", "5", "-i", "shell", "-q", "1",
                         "-t", "$im/req/send/json", "-e", "$im/res/shell",
                         "-m", self.said(self.bob, "from a shell"))
        self.assertEqual(json.loads(told)["sent"]["seq"], "1")
        self.assertEqual(bob.next("message").message.content.text, "from a shell")
        self.tool("mosquitto_pub", "-i", "shell", "-q", "1", "-t", "$im/req/send/json",
                  "-m", self.said(self.bob, "once more"))
        self.assertEqual(bob.next("message").message.content.text, "once more")


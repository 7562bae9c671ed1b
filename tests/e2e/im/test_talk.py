"""Instant messaging, as Google's protobuf library speaks it to a running server."""

import socket
import uuid

from fixture import Case
from im.wire import Device, framed, schema, varint


class Talk(Case):
    def setUp(self):
        super().setUp()
        schema()
        self.ann, self.bob = f"{self.name}.ann", f"{self.name}.bob"

    def connection(self, server=None, **how):
        link = Device((server or self.server).ports["any"], **how)
        self.addCleanup(link.close)
        return link

    def online(self, name, device="phone", **more):
        """A device that is logged in, and what it was told."""
        link = self.connection()
        return link, link.login(name, device, **more)

    def both(self):
        """Ann and Bob, logged in."""
        return self.online(self.ann)[0], self.online(self.bob)[0]

    # -- what is right

    def test_a_login_says_who_one_is_and_the_terms(self):
        _, told = self.online(self.ann, silence_s=60)
        self.assertEqual(told.account, f"{self.ann}@localhost")
        self.assertEqual((told.head, told.cursor, told.silence_s), (0, 0, 60))
        self.assertEqual((told.text_bytes_max, told.extra_bytes_max), (262144, 65536))
        self.assertGreater(told.server_ms, 1_700_000_000_000)

    def test_what_is_said_is_stored_and_comes_at_once(self):
        ann, bob = self.both()
        sent = ann.send(self.bob, "hello", extra=b"\0\xff")
        self.assertEqual((sent.seq, sent.again), (1, False))
        entry = bob.next("message")
        said = entry.message
        self.assertEqual((entry.seq, said.id, said.seq, said.at_ms),
                         (1, sent.id, sent.seq, sent.at_ms))
        self.assertEqual((getattr(said, "from"), said.device, said.to),
                         (f"{self.ann}@localhost", "phone", f"{self.bob}@localhost"))
        self.assertEqual((said.content.kind, said.content.text, said.content.extra),
                         (1, "hello", b"\0\xff"))
        answered = bob.send(self.ann, "hi")
        self.assertEqual(answered.seq, 2)
        entry = ann.next("message")
        self.assertEqual((entry.seq, entry.message.content.text), (2, "hi"))
        self.assertEqual(ann.pull_all(), [(1, "hello"), (2, "hi")], "one's own has its place")

    def test_who_is_away_pulls_what_was_said(self):
        self.online(self.bob)[0].close()
        ann, _ = self.online(self.ann)
        for number in range(25):
            ann.send(self.bob, f"text {number}")
        bob, told = self.online(self.bob)
        self.assertEqual((told.head, told.cursor), (25, 0))
        expected = [(number + 1, f"text {number}") for number in range(25)]
        self.assertEqual(bob.pull_all(count=7), expected)
        self.assertEqual(bob.pull_all(after=20), expected[20:])
        bob.ask(acknowledge={"upto": 25})
        bob.ask(ping={})
        bob.next("pong")
        bob.close()
        self.server.settle()
        self.assertEqual(self.online(self.bob)[1].cursor, 25)
        self.assertEqual(self.online(self.bob, "tablet")[1].cursor, 0, "another device")

    def test_the_same_client_id_makes_no_second_message(self):
        ann, bob = self.both()
        client_id = uuid.uuid4().bytes
        first = ann.send(self.bob, "once", client_id)
        again = ann.send(self.bob, "once", client_id)
        self.assertEqual((again.id, again.seq, again.at_ms), (first.id, first.seq, first.at_ms))
        self.assertTrue(again.again and not first.again)
        other = ann.send(self.bob, "twice", client_id)
        self.assertEqual(other.word, "conflict")
        ann.send(self.bob, "end")
        texts = [bob.next("message").message.content.text for _ in range(2)]
        self.assertEqual(texts, ["once", "end"])

    def test_the_same_client_id_over_a_new_connection_makes_none_either(self):
        ann, _ = self.both()
        client_id = uuid.uuid4().bytes
        first = ann.send(self.bob, "once", client_id)
        ann.close()
        again = self.online(self.ann)[0].send(self.bob, "once", client_id)
        self.assertEqual((again.id, again.again), (first.id, True))

    def test_a_history_is_read_forwards_and_backwards(self):
        ann, bob = self.both()
        for number in range(10):
            (ann, bob)[number % 2].send((self.bob, self.ann)[number % 2], str(number))
        for reader, other in ((ann, self.bob), (bob, self.ann), (bob, f"{self.ann}@localhost")):
            seen, start = [], 0
            while True:
                page = reader.history(other, 4, start)
                seen += [said.content.text for said in page.messages]
                if not page.more:
                    break
                start = page.messages[-1].seq
            self.assertEqual(seen, [str(number) for number in range(10)])
            page = reader.history(other, 3, backwards=True)
            self.assertEqual([said.seq for said in page.messages], [10, 9, 8])
            self.assertTrue(page.more)
            page = reader.history(other, 100, 8, backwards=True)
            self.assertEqual([said.seq for said in page.messages], list(range(7, 0, -1)))
            self.assertFalse(page.more)

    def test_all_devices_of_both_see_what_is_said(self):
        phone, tablet = self.online(self.ann)[0], self.online(self.ann, "tablet")[0]
        bob, _ = self.online(self.bob)
        sent = phone.send(self.bob, "to all")
        for link in (tablet, bob):
            entry = link.next("message")
            self.assertEqual((entry.message.id, entry.message.device), (sent.id, "phone"))
        self.assertEqual(phone.pull_all(), [(1, "to all")])

    def test_a_newer_connection_of_a_device_takes_over(self):
        first, _ = self.online(self.ann)
        second, _ = self.online(self.ann)
        kind, said = first.frame()
        self.assertEqual((kind, said.word), ("end", "taken_over"))
        first.ends()
        second.ask(ping={})
        second.next("pong")

    def test_a_goodbye_is_the_end(self):
        ann, _ = self.online(self.ann)
        ann.ask(goodbye={})
        ann.ends()

    def test_requests_may_be_sent_behind_the_login_and_in_any_pieces(self):
        link = self.connection()
        made = schema()["ClientFrame"]
        frames = [made(login={"name": self.ann, "device": "phone"}),
                  made(send={"number": 9, "to": self.bob, "client_id": bytes(16),
                             "content": {"text": "early"}}),
                  made(ping={})]
        for byte in b"".join(map(framed, frames)):
            link.raw(bytes([byte]))
        link.next("logged_in")
        self.assertEqual(link.next("failed", "sent").number, 9)
        link.next("pong")

    # -- what is wrong

    def test_requests_that_make_no_sense_fail_and_the_session_goes_on(self):
        ann, _ = self.both()
        for to, client_id, content in (
                ("Bob", bytes(16), {}), ("", bytes(16), {}), (self.bob, b"short", {}),
                (self.bob, b"", {}), (self.bob, bytes(17), {}), (self.bob, bytes(16),
                                                                 {"kind": 65536})):
            ann.ask(send={"number": 5, "to": to, "client_id": client_id,
                          "content": {"text": "x", **content}})
            self.assertEqual(ann.next("failed", "sent").word, "invalid", (to, client_id))
        self.assertEqual(ann.send(self.bob, "").word, "invalid", "neither text nor extra")
        self.assertEqual(ann.pull(count=0).word, "invalid")
        self.assertEqual(ann.history(self.bob, count=0).word, "invalid")
        self.assertEqual(ann.history("B").word, "invalid")
        self.assertEqual(ann.send(self.bob, "x" * 262145).word, "too_large")
        self.assertEqual(ann.send(self.bob, "x" * 262144).seq, 1)

    def test_bad_frames_are_told_what_is_wrong_with_them(self):
        login = framed(schema()["ClientFrame"](login={"name": self.ann, "device": "phone"}))
        for data, word in (
                (b"\x00", "no_request"), (b"\x03\xa2\x06\x00", "no_request"),
                (b"\x80\x80\x80\x80\x80", "length"), (b"\xff\xff\xff\xff\x0f", "too_large"),
                (varint(4097), "too_large"), (b"\x02\x0a\x01", "truncated"),
                (b"\x04\x0a\x02\x08\x05", "wire_type"), (b"\x06\x0a\x04\x0a\x02\xc3\x28", "text"),
                (b"\x02\x3a\x00", "out_of_order"), (login + login, "out_of_order")):
            link = self.connection()
            link.raw(data)
            self.assertEqual(link.next("end").word, word, data)
            link.ends()

    def test_bad_prefaces_are_told(self):
        for preface, word in ((b"\xc4IM\x02", "unknown_version"), (b"\xc4XX", "preface")):
            link = self.connection(preface=preface)
            self.assertEqual(link.next("end").word, word)
            link.ends()

    def test_names_that_are_none_are_refused(self):
        for name, device in (("Ann", "phone"), ("", "phone"), ("ann", ""), ("ann", "d" * 65),
                             ("a@B", "phone")):
            link = self.connection()
            link.ask(login={"name": name, "device": device})
            self.assertEqual(link.next("refused").word, "name_invalid", (name, device))
            link.ends()

    def test_a_peer_that_half_closes_leaves_nothing_behind(self):
        link, _ = self.online(self.ann)
        link.socket.shutdown(socket.SHUT_WR)
        link.ends()


class Restart(Case):
    SHARED = False

    def test_what_was_said_outlives_a_power_cut(self):
        schema()
        server = self.start({})
        links = [Device(server.ports["any"]) for _ in range(2)]
        [self.addCleanup(link.close) for link in links]
        links[0].login("ann")
        links[1].login("bob")
        client_id = uuid.uuid4().bytes
        sent = [links[0].send("bob", str(number)) for number in range(20)]
        last = links[0].send("bob", "last", client_id)
        server.kill()
        server.start()
        link = Device(server.ports["any"])
        self.addCleanup(link.close)
        link.login("bob")
        # What was on its way to his inbox goes on.
        self.assertEqual([text for _, text in link.pull_until(21)],
                         [str(number) for number in range(20)] + ["last"])
        self.assertEqual([said.id for said in link.history("ann").messages],
                         [said.id for said in sent] + [last.id])
        again = Device(server.ports["any"])
        self.addCleanup(again.close)
        again.login("ann")
        answer = again.send("bob", "last", client_id)
        self.assertEqual((answer.id, answer.again), (last.id, True))

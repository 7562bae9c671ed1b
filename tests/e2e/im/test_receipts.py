"""Receipts: what is delivered and read, between IM, XMPP (slixmpp), the command line and the page."""

import asyncio
import json

from fixture import Case, poll
from im.page import PageCase
from im.terminal import CommandLine
from im.wire import Device, schema
from xmpp.people import People, together


class Positions(CommandLine, Case):
    def setUp(self):
        super().setUp()
        schema()
        self.ann, self.bob = f"{self.name}.ann", f"{self.name}.bob"

    def online(self, name, device="phone"):
        link = Device(self.server.ports["any"])
        self.addCleanup(link.close)
        link.login(name, device)
        return link

    def readers(self, device, with_, seq=0, count=10, start=0):
        return device.asks("readers", "readers", with_=with_, seq=seq, from_=start, count=count)

    def test_what_a_device_acknowledges_is_delivered_and_what_it_reads_is_read(self):
        ann, bob = self.online(self.ann), self.online(self.bob)
        for text in ("one", "two"):
            ann.send(self.bob, text)
        places = [bob.next("message").seq for _ in range(2)]
        bob.ask(acknowledge={"upto": places[-1]})
        told = ann.next("delivered")
        self.assertEqual((getattr(told, "with"), told.upto), (f"{self.bob}@localhost", 2))
        bob.ask(mark_read={"number": 99, "with": self.ann, "upto": 1})
        self.assertEqual(bob.next("marked_read").upto, 1)
        self.assertEqual(ann.next("event").peer_read, 1)
        told = self.readers(ann, self.bob, seq=1)
        reader, = told.readers
        self.assertEqual((reader.account, reader.read, reader.delivered, told.total, told.read),
                         (f"{self.bob}@localhost", 1, 2, 1, 1))
        self.assertIn(": delivered 2, read 1\n", self.im("readers", self.ann, self.bob))

    def test_positions_outlive_a_kill(self):
        data = self.server.data + ".receipts"
        server = self.start({}, data=data)
        ann, bob = Device(server.ports["any"]), Device(server.ports["any"])
        for link, name in ((ann, self.ann), (bob, self.bob)):
            self.addCleanup(link.close)
            link.login(name)
        for text in ("one", "two"):
            ann.send(self.bob, text)
        places = [bob.next("message").seq for _ in range(2)]
        bob.ask(acknowledge={"upto": places[-1]})
        self.assertEqual(ann.next("delivered").upto, 2)
        bob.ask(mark_read={"number": 99, "with": self.ann, "upto": 1})
        ann.next("event")
        server.kill()
        again = self.start({}, data=data)
        ann = Device(again.ports["any"])
        self.addCleanup(ann.close)
        ann.login(self.ann)
        reader, = self.readers(ann, self.bob).readers
        self.assertEqual((reader.read, reader.delivered), (1, 2))

    def test_members_of_a_group_ask_who_has_read_a_message(self):
        ann, bob = self.online(self.ann), self.online(self.bob)
        self.online(f"{self.name}.cid")
        ann.ask(group={"number": 1, "client_id": b"1" * 16, "verb": 1, "title": "lunch",
                       "members": [self.bob, f"{self.name}.cid"]})
        group = ann.next("changed").group
        seq = ann.send(group, "to all").seq
        poll(lambda: [text for _, text in bob.pull_all()][-1:] == ["to all"], "bob has it")
        bob.ask(mark_read={"number": 99, "with": group, "upto": seq})
        self.assertEqual(bob.next("marked_read", "failed").upto, seq)
        told = self.readers(ann, group, seq=seq)
        self.assertEqual([(it.account.split("@")[0], it.read, it.delivered) for it in told.readers],
                         [(self.bob, seq, 0), (f"{self.name}.cid", 0, 0)])
        self.assertEqual((told.total, told.read), (2, 1))
        self.assertEqual([it.account for it in self.readers(ann, group, 0, 1, 1).readers],
                         [f"{self.name}.cid@localhost"])
        self.assertEqual(self.readers(self.online(f"{self.name}.eve"), group).word, "not_member")
        lines = self.im("readers", self.ann, group, str(seq), "--json").splitlines()
        self.assertEqual(json.loads(lines[0]),
                         {"account": f"{self.bob}@localhost", "read": seq, "delivered": 0})

    def test_who_keeps_what_it_reads_private_tells_nobody_and_is_told_nothing(self):
        ann, bob = self.online(self.ann), self.online(self.bob)
        added = "added to groups directly by everybody\n"
        self.assertEqual(self.im("privacy", self.bob), "read receipts are shared\n" + added)
        self.assertEqual(self.im("privacy", self.bob, "--share-reads", "false"),
                         "read receipts are private\n" + added)
        ann.send(self.bob, "one")
        bob.next("message")
        bob.ask(mark_read={"number": 99, "with": self.ann, "upto": 1})
        self.assertEqual(bob.next("marked_read").upto, 1)
        reader, = self.readers(ann, self.bob).readers
        self.assertEqual(reader.read, 0)
        self.assertEqual(bob.send(self.ann, "two").seq, 2)
        self.assertEqual(ann.next("message").message.seq, 2, "no event came before it")
        ann.ask(mark_read={"number": 98, "with": self.bob, "upto": 2})
        self.assertEqual(ann.next("marked_read").upto, 2)
        reader, = self.readers(bob, self.ann).readers
        self.assertEqual(reader.read, 0, "nor is bob told of her")
        self.assertEqual(self.im("privacy", self.bob, "--share-reads", "true"),
                         "read receipts are shared\n" + added)
        reader, = self.readers(bob, self.ann).readers
        self.assertEqual(reader.read, 2)


class Markers(People):
    CHANGES = {"listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"}}
    PLUGINS = ("0184", "0333")

    async def both(self):
        """Ann, who waits for receipts and markers, and Bob."""
        ann, bob = [await self.person(name, "desk", plugins=self.PLUGINS).start()
                    for name in (self.ann, self.bob)]
        for kind in ("receipt_received", "marker_displayed"):
            ann.hear(kind)
        return ann, bob

    def device(self, name):
        schema()
        link = Device(self.server.ports["any"])
        self.addCleanup(link.close)
        link.login(name, password=f"secret of {name}".encode())
        return link

    def marked(self, person, to, text):
        message = person.client.make_message(f"{to}@localhost", text, mtype="chat")
        message["request_receipt"] = True
        message.enable("markable")
        message.send()
        return message["id"]

    @together
    async def test_two_clients_of_xmpp_hear_of_receipts_and_markers(self):
        ann, bob = await self.both()
        ids = [self.marked(ann, self.bob, text) for text in ("one", "two")]
        heard = [await bob.next() for _ in range(2)]
        self.assertEqual([it["id"] for it in heard], ids)
        self.assertEqual([(await ann.next("receipt_received"))["receipt"] for _ in ids], ids)
        bob.client.plugin["xep_0333"].send_marker(heard[1]["from"].bare, ids[1], "displayed")
        told = await ann.next("marker_displayed")
        self.assertEqual((told["displayed"]["id"], told["from"].bare),
                         (ids[1], f"{self.bob}@localhost"))
        self.assertTrue(ann.queues["stream_error"].empty())

    @together
    async def test_people_of_xmpp_and_im_hear_of_each_other(self):
        ann, _ = await self.both()
        bob = self.device(self.bob)
        one = self.marked(ann, self.bob, "one")
        await ann.ping()
        place = (await asyncio.to_thread(bob.next, "message")).seq
        bob.ask(acknowledge={"upto": place})
        self.assertEqual((await ann.next("receipt_received"))["receipt"], one)
        bob.ask(mark_read={"number": 99, "with": self.ann, "upto": 1})
        await asyncio.to_thread(bob.next, "marked_read")
        self.assertEqual((await ann.next("marker_displayed"))["displayed"]["id"], one)
        # The other way round: what IM sends asks for both.
        sent = await asyncio.to_thread(bob.send, self.ann, "two")
        heard = await ann.next()
        self.assertTrue(heard["request_receipt"])
        told = await asyncio.to_thread(bob.next, "delivered")
        self.assertEqual(told.upto, sent.seq)
        ann.client.plugin["xep_0333"].send_marker(heard["from"].bare, heard["id"], "displayed")
        event = await asyncio.to_thread(bob.next, "event")
        while not event.peer_read:
            event = await asyncio.to_thread(bob.next, "event")
        self.assertEqual(event.peer_read, sent.seq)


class Ticks(PageCase):
    """Ticks on the page, in Chromium."""

    def last(self, page, pattern, what):
        page.until(f"/{pattern}$/.test([...document.querySelectorAll('#rows li.own small')]"
                   ".at(-1)?.textContent)", what)

    def test_a_message_is_sent_delivered_and_read(self):
        ann = self.person("ann")
        self.im("login", "bob")
        ann.write_to("bob")
        ann.say("hello")
        self.last(ann, "✓ sent", "nobody has it")
        bob = self.person("bob")
        self.last(ann, "✓✓ delivered", "his page has it, and does not show it")
        ann.open()
        ann.until("!document.getElementById('room').hidden", "in again")
        ann.choose("bob")
        self.last(ann, "✓✓ delivered", "it is asked for")
        bob.choose("ann")
        self.last(ann, "✓✓ read", "he has read it")
        self.calm(ann, bob)

    def test_a_group_tells_who_has_read_a_message(self):
        ann, bob, cid = (self.person(name) for name in ("ann", "bob", "cid"))
        self.im("groups make", "ann", "--title", "lunch", "bob", "cid")
        for page in (ann, bob, cid):
            page.until("[...document.querySelectorAll('#people button')].some("
                       "it => it.firstChild.textContent === 'lunch')", "the group is there")
        ann.choose("lunch")
        ann.say("to all")
        bob.choose("lunch")
        bob.until("document.querySelector('#rows').textContent.includes('to all')", "he sees it")

        def is_told():
            self.chooses(ann, "to all", "Read by")
            return ann.run("[...document.querySelectorAll('#rows li.own small')].at(-1).textContent"
                           ".endsWith('read by 1 of 2: bob')")
        poll(is_told, "bob has read it")
        self.calm(ann, bob, cid)

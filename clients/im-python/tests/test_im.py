"""Behaviour that the conformance suite cannot see: order of actions, files, iteration."""

import asyncio
import contextlib
import os
import random
import stat
import sys
import tempfile
import unittest

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(HERE, "src"), os.path.join(HERE, "build", "python")]

import holdline_im as im  # noqa: E402
from holdline_im import machine as m  # noqa: E402
from holdline_im import pb, wire  # noqa: E402

NAME = "0123456789abcdef" * 2


def answer(**fields):
    return wire.encode(pb.ServerFrame(**fields))


def logged_in(**more):
    limits = {"silence_s": 60, "page_messages_max": 8, "text_bytes_max": 1000,
              "extra_bytes_max": 100, "requests_max": 8}
    return answer(logged_in=pb.LoggedIn(account="ann@a.example", **{**limits, **more}))


def message(place):
    said = pb.ChatMessage(id=place, seq=place, to="ann@a.example", content=pb.Content(text="hi"),
                          client_id=place.to_bytes(16, "big"), **{"from": "bob@a.example"})
    return answer(message=pb.InboxEntry(seq=place, message=said))


def online_machine():
    it = m.Machine(m.Options(["127.0.0.1:1"], "ann", "phone", lambda: 0.5, lambda: "nonce"))
    it.start(0)
    it.connected(0, m.Credentials(), True)
    it.received(0, logged_in())
    it.take(0)
    return it


class Order(unittest.TestCase):
    def test_a_message_is_saved_before_it_is_sent(self):
        it = online_machine()
        it.send(NAME, "bob", pb.Content(text="hi"))
        first, second = it.take(0)
        self.assertEqual(first.state["queue"][0][0], NAME)
        self.assertIsInstance(second, m.Send)

    def test_a_place_is_saved_before_the_server_hears_of_it(self):
        it = online_machine()
        it.received(0, message(1))
        it.take(0)
        it.acknowledge(0, 1)
        first, = it.take(0)
        self.assertEqual(first.state["last"], 1)
        acknowledgement, = it.take(1_000)
        self.assertIsInstance(acknowledgement, m.Send)

    def test_the_state_of_another_account_is_not_used(self):
        it = online_machine()
        it.send(NAME, "bob", pb.Content(text="hi"))
        it.take(0)
        other, same = m.Machine(it._options._replace(account="carol")), m.Machine(it._options)
        other.restore(it.state())
        same.restore(it.state())
        self.assertEqual((len(other.outbox.queue), len(same.outbox.queue)), (0, 1))

    def test_nothing_secret_is_shown(self):
        self.assertNotIn("hush", repr(im.Credentials(password="hush")))


class Codec(unittest.TestCase):
    def test_a_damaged_frame_is_a_frame_a_fault_or_incomplete(self):
        source, good = random.Random(1), [logged_in(), message(7)]
        faults = set()
        for _ in range(20_000):
            data = bytearray(source.choice(good))
            for _ in range(source.randrange(1, 4)):
                data[source.randrange(len(data))] = source.randrange(256)
            try:
                wire.decode(data)
            except wire.Fault as fault:
                faults.add(fault.name)
        self.assertEqual(faults, {"too_large", "length", "malformed"} & faults)
        self.assertIn("malformed", faults)

    def test_a_server_with_larger_limits_sends_larger_frames(self):
        it = m.Machine(m.Options(["127.0.0.1:1"], "ann", "phone", lambda: 0.5, lambda: "nonce"))
        it.start(0)
        it.connected(0, m.Credentials(), True)
        it.received(0, logged_in(text_bytes_max=1 << 20))
        page = answer(page=pb.InboxPage(entries=[pb.InboxEntry(seq=1, message=pb.ChatMessage(
            content=pb.Content(text="x" * 600_000)))]))
        it.received(0, page)
        self.assertEqual(it.phase, "online")


class Files(unittest.TestCase):
    def test_a_file_store_keeps_the_last_state_for_its_owner(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "state")
            store = im.FileStore(path)
            self.assertIsNone(store.load())
            store.save("one")
            store.save("two")
            self.assertEqual(im.FileStore(path).load(), "two")
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
            self.assertEqual(os.listdir(folder), ["state"])

    def test_a_damaged_state_is_a_new_beginning(self):
        for text in ("{", "[]", '{"v": 9}', '{"v": 1, "of": ["ann", "x"], "last": 1, "queue": [["zz"]]}'):
            with self.assertLogs("holdline_im", "WARNING"):
                im.Client("127.0.0.1:1", "ann", device="x", store=im.MemoryStore(text))


class Arguments(unittest.TestCase):
    def test_nonsense_is_refused_when_the_client_is_made(self):
        good = {"address": "127.0.0.1:1", "account": "ann", "device": "x"}
        im.Client(**good)
        for bad in ({"device": ""}, {"account": ""}, {"address": []}, {"address": "nowhere"},
                    {"device": "d" * 65}, {"password": "a", "token": "b"}, {"proxy": "ftp://x"},
                    {"tls": True, "pins": ["sha256/AAAA"]}, {"pins": ["sha256/" + "A" * 43 + "="]}):
            with self.assertRaises(ValueError, msg=str(bad)):
                im.Client(**{**good, **bad})
        with self.assertRaises(ValueError):
            im.Client(**good).send("bob", "hi", client_id="beef")


class Iteration(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.links, self.acknowledged = [], asyncio.Queue()
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        self.answer = logged_in() + message(1) + message(2) + message(3)

    async def asyncTearDown(self):
        for link in self.links:
            link.close()
        self.server.close()

    async def serve(self, reader, writer):
        self.links.append(writer)
        with contextlib.suppress(asyncio.CancelledError):
            await self.answer_to(reader, writer)

    async def answer_to(self, reader, writer):
        await reader.readexactly(4)
        while head := await reader.read(1):
            frame = pb.ClientFrame.FromString(await reader.readexactly(head[0]))
            if frame.HasField("login"):
                writer.write(self.answer)
            elif frame.HasField("acknowledge"):
                self.acknowledged.put_nowait(frame.acknowledge.upto)

    def client(self, **options):
        return im.Client(f"127.0.0.1:{self.port}", "ann", device="phone",
                         clock=im.ManualClock(), **options)

    async def test_asking_for_the_next_message_acknowledges_the_one_before(self):
        async with self.client() as client:
            seen = []
            async for each in client:
                seen.append(each.place)
                if len(seen) == 3:
                    break
            client._clock.advance(1_000)
            self.assertEqual(await self.acknowledged.get(), 2, "the loop that ended holds the third")

    async def test_a_handler_that_raises_keeps_its_message(self):
        def handler(each):
            if each.place == 2:
                raise RuntimeError("disk full")
        store = im.MemoryStore()
        with self.assertLogs("holdline_im", "ERROR"):
            async with self.client(on_message=handler, store=store) as client:
                await client.online()
                client._clock.advance(1_000)
                self.assertEqual(await self.acknowledged.get(), 1)

    async def test_a_refusal_is_raised(self):
        self.answer = answer(refused=pb.Refused(reason=1))
        client = self.client(password="wrong")
        await client.start()
        with self.assertRaises(im.Ended) as raised:
            await client.online()
        self.assertEqual(raised.exception.why, "bad_credentials")
        with self.assertRaises(im.Ended):
            async for _ in client:
                self.fail("no message comes")

    async def test_credentials_are_asked_for_again_when_they_have_expired(self):
        asked = []

        async def credentials():
            asked.append(len(asked))
            await asyncio.sleep(0)
            return im.Credentials(token="fresh")

        self.answer = answer(refused=pb.Refused(reason=16))
        client = self.client(credentials=credentials)
        await client.start()
        while client.state.name != "waiting":
            await client._wait()
        self.assertEqual(client.state.why, "expired")
        self.answer = logged_in()
        client._clock.advance(client.state.until)
        await client.online()
        self.assertEqual(asked, [0, 1])
        await client.close()

    async def test_closing_ends_the_iteration(self):
        client = self.client()
        await client.start()
        async for _ in client:
            await client.close()
            client._messages.clear()
        self.assertEqual(client.state.why, "closed")


if __name__ == "__main__":
    unittest.main()

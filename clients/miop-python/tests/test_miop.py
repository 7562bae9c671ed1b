"""Behaviour that the conformance suite cannot see: order of actions, files, iteration."""

import asyncio
import os
import random
import stat
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src"))

import holdline_miop as miop  # noqa: E402
from holdline_miop import machine as m  # noqa: E402
from holdline_miop import wire  # noqa: E402
from holdline_miop.heartbeat import Heartbeat  # noqa: E402


def bind_ack(**more):
    properties = {"result": 0, "heartbeat": 300, "resume_token": bytes(32), "session_epoch": 1}
    return wire.encode(wire.Frame(wire.BIND_ACK, {**properties, **more}))


def msg(*ids):
    records = b"".join(id_.to_bytes(8, "big") + bytes(4 + 1 + 4) + b"\0\2hi" for id_ in ids)
    return wire.encode(wire.Frame(wire.MSG, {}, records))


def machine(**options):
    return m.Machine(m.Options(["127.0.0.1:1"], "demo", "dev", lambda: 0.5,
                               lambda count: bytes(count), **options))


def bound_machine():
    it = machine()
    it.start(0)
    it.connected(0, 0, m.Credentials())
    it.received(0, bind_ack())
    it.take(0)
    return it


class Order(unittest.TestCase):
    def test_an_id_is_saved_before_the_server_hears_of_it(self):
        it = bound_machine()
        it.received(0, msg(7))
        it.take(0)
        it.acknowledge(7)
        first, second = it.take(0)
        self.assertIsInstance(first, m.Save)
        self.assertEqual(first.state["seen"], [7])
        self.assertEqual(second.data[-8:], (7).to_bytes(8, "big"))

    def test_a_report_is_saved_before_it_is_sent(self):
        it = bound_machine()
        it.report(0, b"x", "one")
        first, second = it.take(0)
        self.assertEqual(first.state["reports"]["queue"], [[1, "one", "78"]])
        self.assertIsInstance(second, m.Send)

    def test_a_push_cannot_be_acknowledged_twice_or_unseen(self):
        it = bound_machine()
        with self.assertRaises(KeyError):
            it.acknowledge(7)

    def test_the_state_of_another_device_is_not_used(self):
        it = bound_machine()
        saved = {**it.saved(), "of": ["demo", "other"]}
        other = m.Machine(it._options, saved)
        self.assertIsNone(other.saved()["session"])
        self.assertIsNotNone(m.Machine(it._options, it.saved()).saved()["session"])

    def test_nothing_secret_is_shown(self):
        frame = wire.Frame(wire.BIND, {"token": b"hush"}, b"body")
        shown = repr(frame) + repr(miop.Credentials(b"hush", token=b"hush"))
        self.assertNotIn("hush", shown)
        self.assertNotIn("body'", shown)


class Heartbeats(unittest.TestCase):
    def test_a_wish_is_sent(self):
        it = machine(heartbeat_wish=900)
        it.start(0)
        it.connected(0, 0, m.Credentials())
        sent, = [action.data for action in it.take(0) if isinstance(action, m.Send)]
        frame, _ = wire.decode(sent, 65536)
        self.assertEqual(frame.properties["heartbeat_wish"], [900, 30, 1800])

    def test_any_network_is_found_and_few_connections_are_lost(self):
        for nat_s in range(31, 2_000, 7):
            heartbeat, lost = Heartbeat(), 0
            for _ in range(60):
                interval = heartbeat.interval(1800)
                self.assertTrue(30 <= interval <= 1800)
                if interval < nat_s:
                    heartbeat.survived(interval, 1800)
                else:
                    heartbeat.failed(interval, 1800)
                    lost += 1
            best = min(nat_s, 1800)
            self.assertGreaterEqual(heartbeat.interval(1800) + max(10, best // 8) + 1, best,
                                    f"NAT of {nat_s} s")
            self.assertLessEqual(lost, 8, f"NAT of {nat_s} s")

    def test_a_network_that_becomes_worse_is_found_again(self):
        heartbeat = Heartbeat()
        for _ in range(20):
            heartbeat.survived(heartbeat.interval(600), 600)
        self.assertEqual(heartbeat.interval(600), 600)
        for _ in range(40):
            interval = heartbeat.interval(600)
            (heartbeat.survived if interval < 100 else heartbeat.failed)(interval, 600)
        self.assertTrue(80 <= heartbeat.interval(600) < 100)

    def test_sixteen_networks_are_remembered(self):
        heartbeat = Heartbeat()
        for at in range(20):
            heartbeat.use(str(at))
            heartbeat.interval(300)
        self.assertEqual(list(heartbeat.save()), [str(at) for at in range(4, 20)])


class Codec(unittest.TestCase):
    def test_a_damaged_frame_is_a_frame_a_fault_or_incomplete(self):
        source, faults = random.Random(1), set()
        good = [bind_ack(server_time=5), msg(1, 2),
                wire.encode(wire.Frame(wire.CHALLENGE, {"server_nonce": bytes(16)}))]
        for _ in range(20_000):
            data = bytearray(source.choice(good))
            for _ in range(source.randrange(1, 4)):
                data[source.randrange(2, len(data))] = source.randrange(256)
            try:
                wire.decode(data, 65536)
            except wire.Fault as fault:
                faults.add(fault.name)
        self.assertLessEqual({"bad_length", "bad_property", "bad_record", "bad_flags", "too_large",
                              "critical_property", "missing_property"}, faults)


class Files(unittest.TestCase):
    def test_a_file_store_keeps_the_last_state_for_its_owner(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "state")
            store = miop.FileStore(path)
            self.assertIsNone(store.load())
            store.save("one")
            store.save("two")
            self.assertEqual(miop.FileStore(path).load(), "two")
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
            self.assertEqual(os.listdir(folder), ["state"])

    def test_a_damaged_state_is_a_new_beginning(self):
        for text in ("{", "[]", '{"v": 9}'):
            with self.assertLogs("holdline_miop", "WARNING"):
                miop.Client("127.0.0.1:1", product="demo", device="dev",
                            store=miop.MemoryStore(text))


class Arguments(unittest.TestCase):
    def test_nonsense_is_refused_when_the_client_is_made(self):
        good = {"address": "127.0.0.1:1", "product": "demo", "device": "dev"}
        miop.Client(**good)
        for bad in ({"device": "a b"}, {"device": ""}, {"product": "p" * 33}, {"address": []},
                    {"tags": ["a b"]}, {"token": "t" * 513}, {"token": ""},
                    {"pins": ["sha256/AAAA"]}, {"proxy": "ftp://x"}, {"heartbeat": (60, 30, 90)},
                    {"tls": True, "pins": ["sha256/AAAA"]}):
            with self.assertRaises(ValueError, msg=str(bad)):
                miop.Client(**{**good, **bad})


class Iteration(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.received, self.links = asyncio.Queue(), []
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        self.answer = bind_ack() + msg(1, 2, 3)

    async def asyncTearDown(self):
        for link in self.links:
            link.close()
        self.server.close()
        await self.server.wait_closed()

    async def serve(self, reader, writer):
        self.links.append(writer)
        while head := await reader.read(4):
            body = b""
            if head[2] & 1:
                size = int.from_bytes(await reader.readexactly(4), "big")
                body = await reader.readexactly(size)
            if head[3] == wire.BIND:
                writer.write(self.answer)
            elif head[3] == wire.UNBIND:
                writer.write(wire.encode(wire.Frame(wire.UNBIND_ACK)))
            elif head[3] == wire.MSG_ACK:
                for at in range(1, len(body), 8):
                    self.received.put_nowait(int.from_bytes(body[at:at + 8], "big"))

    def client(self, **options):
        return miop.Client(f"127.0.0.1:{self.port}", product="demo", device="dev", **options)

    async def test_asking_for_the_next_push_acknowledges_the_one_before(self):
        async with self.client() as client:
            seen = []
            async for push in client:
                if seen:
                    self.assertEqual(await self.received.get(), seen[-1])
                seen.append(push.id)
                if len(seen) == 3:
                    break
        self.assertTrue(self.received.empty(), "the third one is held by the loop that ended")

    async def test_manual_acknowledges_nothing_by_itself(self):
        async with self.client(manual=True) as client:
            pushes = [await client.__anext__() for _ in range(3)]
            for push in reversed(pushes):
                push.acknowledge()
                push.acknowledge()
            self.assertEqual([await self.received.get() for _ in range(3)], [3, 2, 1])

    async def test_a_handler_that_raises_keeps_its_push(self):
        def handler(push):
            if push.id == 2:
                raise RuntimeError("disk full")
        with self.assertLogs("holdline_miop", "ERROR"):
            async with self.client(on_push=handler) as client:
                await client.bound()
                self.assertEqual([await self.received.get() for _ in range(2)], [1, 3])

    async def test_credentials_are_asked_before_each_connection(self):
        asked = []

        async def credentials():
            asked.append(len(asked))
            if len(asked) == 1:
                raise OSError("no token today")
            await asyncio.sleep(0)
            return miop.Credentials(token=b"fresh")

        clock, states = miop.ManualClock(), []
        client = self.client(credentials=credentials, clock=clock, on_state=states.append)
        with self.assertLogs("holdline_miop", "ERROR"):
            await client.start()
            while client.state.name != "waiting":
                await client._wait()
        self.assertEqual(client.state.why, "credentials_failed")
        clock.advance(client.state.until)
        await client.bound()
        self.assertEqual(asked, [0, 1])
        client.nudge()
        await client.close()

    async def test_a_refusal_is_raised(self):
        self.answer = bind_ack(result=20)
        client = self.client()
        await client.start()
        with self.assertRaises(miop.Ended) as raised:
            await client.bound()
        self.assertEqual((raised.exception.why, raised.exception.result), ("auth_failed", 20))
        with self.assertRaises(miop.Ended):
            async for _ in client:
                self.fail("no push comes")

    async def test_what_comes_before_the_connection_is_announced_is_not_lost(self):
        class Stream:
            def write(self, data):
                pass

            def close(self):
                pass

            def get_write_buffer_size(self):
                return 0

        async def connect(_, protocol):
            link = protocol()
            link.data_received(bind_ack(result=30, retry_after_ms=2_500))
            link.connection_lost(None)
            return Stream()

        client = self.client(clock=miop.ManualClock())
        client._transport.connect = connect
        await client.start()
        while client.state.name in ("connecting", "binding"):
            await client._wait()
        self.assertEqual((client.state.why, client.state.until), ("busy", 2_500))

    async def test_closing_ends_the_iteration(self):
        client = self.client()
        await client.start()
        await client.bound()
        async for _ in client:
            await client.close()
            client._pushes.clear()
        self.assertEqual(client.state.why, "closed")


if __name__ == "__main__":
    unittest.main()

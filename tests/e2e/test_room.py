"""No more room: connections, Binds a second, devices. The answer is BUSY, then a reset."""

import socket
import time

from fixture import Case, poll
from miop import BIND_ACK, Closed


class Connections(Case):
    CHANGES = {"server": {"shards": 1}, "limits": {"connections_max": 4, "crowd_max": 2}}
    SHARED = False

    def full(self):
        server = self.start(self.CHANGES)
        holders = [self.bound(f"holder-{at}", server=server) for at in range(4)]
        return server, holders

    def test_one_connection_too_many_is_told_busy_in_version_7(self):
        server, holders = self.full()
        with server.closes(full=1):
            device = self.device(server=server)
            answer = device.bind("late")
            self.assertEqual(answer["result"], 30)
            self.assertGreaterEqual(answer["retry_after_ms"], 1000)
            self.assertEqual(device.until_closed(), [])
        holders[0].ping()

    def test_one_connection_too_many_is_told_busy_in_version_5_and_ended_in_version_6(self):
        server, _ = self.full()
        with server.closes(full=2):
            five, six = self.device(5, server=server), self.device(6, server=server)
            self.assertEqual(five.bind("late")["r"], "30")
            self.assertEqual(five.until_closed(), [])
            six.send(six.bind_frame_classic("late"))
            self.assertEqual(six.until_closed(), [])

    def test_beyond_the_crowd_connections_are_reset(self):
        server, holders = self.full()
        crowd = [self.device(server=server) for _ in range(2)]
        poll(lambda: server.status()["connections"] == 6, "the crowd is in")
        with server.closes(full=5):
            for _ in range(5):
                # The reset may already be seen by connect.
                try:
                    beyond = self.device(server=server)
                    with self.assertRaises(Closed):
                        beyond.bind("beyond")
                        self.fail("it was answered")
                except ConnectionResetError:
                    pass
        self.assertEqual(crowd[0].bind("crowd")["result"], 30)
        holders[0].ping()

    def test_when_one_leaves_there_is_room_for_one(self):
        server, holders = self.full()
        holders[0].close()
        server.offline("holder-0")
        poll(lambda: server.status()["connections"] == 3, "one has left")
        self.bound("next", server=server).ping()

    def test_a_storm_at_the_limit_leaks_nothing(self):
        server, holders = self.full()
        server.status()  # opens the connection to the API
        before = server.descriptors()
        for _ in range(100):
            try:
                with socket.create_connection(server.ports["any"], timeout=5) as link:
                    link.sendall(b"\0\7")
            except ConnectionError:
                pass
        poll(lambda: server.status()["connections"] == 4, "the storm is over")
        poll(lambda: server.descriptors() <= before, "its descriptors are closed")
        for holder in holders:
            holder.ping()
            holder.close()
        server.all_gone()


class Listeners(Case):
    """A listener's own bound leaves the others open."""

    CHANGES = {"server": {"shards": 2}, "limits": {"crowd_max": 2},
               "listen.any": {"connections_max": 2},
               "listen.other": {"address": "127.0.0.1:0", "protocol": "miop"}}
    SHARED = False

    def test_a_full_listener_says_busy_while_another_lets_in(self):
        server = self.start(self.CHANGES)
        holders = [self.bound(f"holder-{at}", server=server) for at in range(2)]
        with server.closes(full=1):
            late = self.device(server=server)
            self.assertEqual(late.bind("late")["result"], 30)
            self.assertEqual(late.until_closed(), [])
        self.bound("elsewhere", server=server, connect={"listener": "other"}).ping()
        holders[0].close()
        server.offline("holder-0")
        poll(lambda: server.status()["connections"] == 2, "one has left")
        self.bound("next", server=server).ping()


class Binds(Case):
    CHANGES = {"server": {"shards": 1}, "limits": {"binds_per_s": 5, "retry_jitter_ms": 0}}
    SHARED = False

    def paced(self):
        """A server that is up for a second, so that it has a second's worth to give."""
        server, up = self.start(self.CHANGES), time.monotonic() + 1.1
        poll(lambda: time.monotonic() > up, "a second is over")
        return server

    def test_binds_beyond_the_pace_are_told_when_to_come_back(self):
        server = self.paced()
        admitted, waits = 0, []
        for at in range(15):
            device = self.device(server=server)
            answer = device.bind(f"pace-{at}")
            if answer["result"] == 0:
                admitted += 1
            else:
                self.assertEqual(answer["result"], 30)
                waits.append(answer["retry_after_ms"])
                self.assertEqual(device.until_closed(), [])
        self.assertTrue(1 <= admitted <= 8, admitted)
        self.assertTrue(all(wait > 0 for wait in waits), waits)
        self.assertEqual(waits, sorted(waits), "each is sent to the end of the line")
        self.assertEqual(server.status()["closed"].get("busy"), len(waits))

    def test_whoever_comes_back_as_told_is_admitted(self):
        server = self.start(self.CHANGES)
        for at in range(20):
            device = self.device(server=server)
            answer = device.bind(f"back-{at}")
            device.close()
            if answer["result"] == 30:
                break
        due = time.monotonic() + answer["retry_after_ms"] / 1000
        poll(lambda: time.monotonic() >= due, "the time to come back")
        poll(lambda: self.device(server=server).bind("back")["result"] == 0, "it is admitted", 2)

    def test_classic_devices_beyond_the_pace_are_told_or_ended(self):
        server = self.paced()
        told = {5: set(), 6: set()}
        for at in range(24):
            version = 5 + at % 2
            device = self.device(version, server=server)
            device.send(device.bind_frame_classic(f"classic-{at}"))
            try:
                told[version].add(device.expect(BIND_ACK)["r"])
            except Closed:
                told[version].add("ended")
        self.assertEqual(told, {5: {"0", "30"}, 6: {"0", "ended"}})


class Devices(Case):
    def test_more_devices_than_the_limit_are_told_busy_and_their_pushes_rejected(self):
        server = self.start({"server": {"shards": 1}, "limits": {"devices_max": 3}})
        links = [self.bound(f"d{at}", server=server) for at in range(3)]
        answer = self.device(server=server).bind("one-more")
        self.assertEqual(answer["result"], 30)
        pushed = server.push("one-more", "x")
        self.assertEqual((pushed["outcome"], pushed["reason"]), ("rejected", "store_full"))
        for link in links:
            link.ping()

    def test_stored_pushes_of_all_devices_together_are_bounded(self):
        server = self.start({"server": {"shards": 1}, "limits": {"offline_bytes_max": 20000}})
        outcomes = [server.push(f"away-{at}", "x" * 1000) for at in range(40)]
        reasons = [answer.get("reason") for answer in outcomes]
        self.assertIn(None, reasons)
        self.assertEqual(reasons[-1], "store_full")
        self.assertLessEqual(server.status()["waiting_bytes"], 20000)

    def test_more_tags_than_the_limit_are_refused(self):
        server = self.start({"limits": {"tags_a_device_max": 2}})
        self.bound("two", server=server, tags=["a", "b"])
        frames = self.device(server=server)
        frames.send(frames.bind_frame("three", tags=["a", "b", "c"]))
        answer = frames.next()
        self.assertIn(answer["result"], (12, 31))
        status, _ = server.api("PUT", "/v1/products/demo/devices/two/tags",
                               {"tags": ["a", "b", "c"]})
        self.assertIn(status, (400, 413))

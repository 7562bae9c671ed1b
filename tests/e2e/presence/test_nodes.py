"""Two servers over one Redis: who has whom, when one moves, and when a server dies."""

import time

from fixture import poll
from presence.house import Case


class Nodes(Case):
    def pair(self):
        return self.node("node-1"), self.node("node-2")

    def compare(self, server):
        """Has a server look at once, which it does slowly for ever: a claim that it has not
        written again tells it nothing of a newer one elsewhere."""
        return self.audit(server, 50, repair=True)["persistent"]

    def test_a_client_that_moves_is_the_newer_ones_and_the_older_connection_ends(self):
        one, two = self.pair()
        older = self.client(one, self.name)
        key = f"#{self.name}"
        first = self.online(key, "node-1")
        newer = self.client(two, self.name)
        last = self.online(key, "node-2")
        self.assertGreater(last["version"], first["version"])
        with one.closes(replaced=1):
            self.compare(one)
        older.until_closed()
        newer.ping()
        self.assertEqual(self.known(two, key)["record"]["node"], "node-2")
        for server in (one, two):
            self.assert_agrees(server)
        self.online(key, "node-2")
        newer.ping()

    def test_a_device_that_moves_and_moves_back_is_where_it_was_last(self):
        one, two = self.pair()
        key = f"demo#{self.name}"
        for _ in range(3):
            for server, node, other in ((one, "node-1", two), (two, "node-2", one)):
                device = self.bound(self.name, server=server)
                self.online(key, node)
                self.compare(other)
                poll(lambda: not (other.state(self.name) or {}).get("online"), "it was let go")
                device.ping()
        for server in (one, two):
            self.assert_agrees(server)

    def test_the_late_end_of_an_older_connection_marks_nobody_offline(self):
        one, two = self.pair()
        key = f"#{self.name}"
        older = self.client(one, self.name)
        self.online(key, "node-1")
        newer = self.client(two, self.name)
        self.online(key, "node-2")
        older.reset()

        def is_gone():
            # Offline, or forgotten with its session.
            status, answer = one.api("GET", f"/v1/presence?client={self.name}")
            return status == 404 or not answer["online"]
        poll(is_gone, "node-1 knows that it is gone")
        self.settled(one)
        self.online(key, "node-2")
        newer.ping()

    def test_claims_made_while_redis_was_away_leave_one_of_them(self):
        one, two = self.pair()
        key = f"#{self.name}"
        self.redis.pause()
        older = self.client(one, self.name)
        # Two clocks know the order of what happens in different milliseconds.
        came_ms = time.time_ns() // 1_000_000
        poll(lambda: time.time_ns() // 1_000_000 > came_ms, "the next millisecond")
        newer = self.client(two, self.name)
        self.redis.go_on()
        for server in (one, two):
            self.settled(server)
            self.compare(server)
        self.online(key, "node-2")
        older.until_closed()
        newer.ping()
        for server in (one, two):
            self.assert_agrees(server)

    def test_a_push_at_the_wrong_server_is_refused_with_the_address_of_the_right_one(self):
        address = "http://two.example:7080"
        one, two = self.node("node-1"), self.node("node-2", presence={"address": address})
        device = self.bound(self.name, server=two)
        self.online(f"demo#{self.name}", "node-2")
        order = {"product": "demo", "device": self.name, "body": "hello"}
        status, answer = one.api("POST", "/v1/pushes", order)
        self.assertEqual((status, answer["error"]["code"]), (409, "elsewhere"), answer)
        place = {"device": self.name, "node": "node-2", "address": address}
        self.assertEqual(answer["error"]["elsewhere"], [place])
        self.assertIsNone(one.state(self.name), "nothing was stored")
        self.assertNotEqual(two.push(self.name)["outcome"], "rejected")
        # Without Redis nobody knows: it is stored, and counted.
        self.redis.pause()
        self.assertEqual(one.push(self.name)["outcome"], "stored")
        self.assertEqual(one.reading("pushes_unchecked_total"), 1)
        self.redis.go_on()
        self.settled(one)
        # It comes to the first server: what is stored there is its.
        moved = self.bound(self.name, server=one)
        self.online(f"demo#{self.name}", "node-1")
        self.assertNotEqual(one.push(self.name)["outcome"], "rejected")
        self.assertEqual(one.reading("pushes_elsewhere_total"), 1)
        moved.ping()
        device.close()

    def test_a_server_that_was_killed_has_nobody_after_its_lease(self):
        one, two = self.pair()
        self.client(one, self.name)
        self.bound(self.name, server=one)
        for key in (f"#{self.name}", f"demo#{self.name}"):
            self.online(key, "node-1")
        self.assertTrue(self.known(two, f"#{self.name}")["online"])
        one.kill()
        for key in (f"#{self.name}", f"demo#{self.name}"):
            poll(lambda: not self.known(two, key)["online"], f"{key} counts as offline")
        taken = self.client(two, self.name)
        self.online(f"#{self.name}", "node-2")
        self.assertTrue(self.known(two, f"#{self.name}")["online"])
        one.start()
        self.settled(one)
        self.assert_agrees(one)
        self.online(f"#{self.name}", "node-2")
        taken.ping()

    def test_a_server_that_starts_again_takes_its_own_back_and_no_more(self):
        server = self.node()
        self.client(server, "back")
        self.client(server, "away")
        before = self.online("#back")
        self.online("#away")
        server.kill()
        server.start()
        self.settled(server)
        for name in ("back", "away"):
            poll(lambda: not self.known(server, f"#{name}")["online"], "of an older boot")
        self.client(server, "back")
        after = self.stored("#back", lambda it: it["boot"] != before["boot"])
        self.assertTrue(after["online"] and after["version"] > before["version"])
        self.assertEqual(self.assert_agrees(server)["online"], 1)

    def test_a_server_that_stops_politely_gives_its_lease_up_at_once(self):
        one, two = self.pair()
        self.client(one, self.name)
        self.online(f"#{self.name}", "node-1")
        self.assertEqual(one.stop(), 0)
        # Well before a lease of three seconds could have run out.
        poll(lambda: not self.known(two, f"#{self.name}")["online"], "it counts as offline", 2.0)

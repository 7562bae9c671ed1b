"""One server and one Redis: what lands there, and what clients feel when it is broken (nothing)."""

import unittest

from fixture import poll
from mqtt.drivers import Driver, Client
from mqtt.wire import V5
from presence.house import Case
from presence.redis import Slow


class Copy(Case):
    """What Redis has of who comes and goes."""

    def test_comings_and_goings_land_with_rising_versions(self):
        server = self.node()
        device = self.bound(self.name, server=server)
        wire = self.client(server, self.name)
        here = self.online(f"demo#{self.name}")
        self.assertEqual(here["detail"], "miop7")
        self.assertTrue(self.online(f"#{self.name}")["detail"].startswith("mqtt5"))
        self.assertEqual(self.known(server, f"demo#{self.name}")["online"], True)
        device.unbind(self.name)
        wire.leave()
        gone = self.offline(f"demo#{self.name}")
        self.assertEqual(gone["detail"], "unbound")
        self.assertGreater(gone["version"], here["version"])
        self.assertFalse(self.offline(f"#{self.name}")["online"])
        self.bound(self.name, server=server)
        self.assertGreater(self.online(f"demo#{self.name}")["version"], gone["version"])
        memory = server.ask("GET", f"/v1/presence?product=demo&device={self.name}")
        self.assertEqual(memory["version"], self.redis.record(f"demo#{self.name}")["version"])
        self.assertEqual(self.assert_agrees(server)["online"], 1)

    def test_a_take_over_is_never_an_offline_of_the_newer(self):
        server = self.node()
        older = self.bound(self.name, server=server)
        first = self.online(f"demo#{self.name}")
        newer = self.bound(self.name, server=server)
        older.until_closed()
        newer.ping()
        self.settled(server)
        last = self.online(f"demo#{self.name}")
        self.assertGreater(last["version"], first["version"])
        self.assert_agrees(server)

    def test_a_directory_in_the_process_agrees_too(self):
        server = self.node(url="process")
        self.bound(self.name, server=server)
        self.client(server, self.name)
        poll(lambda: (self.known(server, f"demo#{self.name}") or {}).get("online"), "it is there")
        self.assertEqual(self.assert_agrees(server)["online"], 2)

    def test_without_a_directory_memory_is_asked_and_the_rest_is_refused(self):
        server = self.start()
        self.bound(self.name, server=server)
        self.assertEqual(self.standing(server)["directory"], "none")
        memory = server.ask("GET", f"/v1/presence?product=demo&device={self.name}")
        self.assertTrue(memory["online"])
        for path, body in (("/v1/presence/audit", {}), ("/v1/presence/stored", {"keys": ["#x"]})):
            status, answer = server.api("POST", path, body)
            self.assertEqual((status, answer["error"]["code"]), (409, "no_directory"))


class Broken(Case):
    """Redis stands still, dies, forgets, is slow: nobody is disconnected, and both agree again."""

    def setUp(self):
        super().setUp()
        self.server = self.node()
        self.stays = self.bound("stays", server=self.server)
        self.sub = self.client(self.server, "ear")
        self.sub.subscribe("talk/#")
        self.pub = self.client(self.server, "mouth")
        self.online("demo#stays")
        self.online("#ear")
        self.settled(self.server)

    def talk(self, words):
        """A message goes through, a device's heartbeat is answered."""
        self.pub.publish("talk/now", words, qos=1)
        self.assertEqual(self.sub.take().payload, words)
        self.stays.ping()

    def flap(self, count=20):
        """So many come and go; as many come and stay, and one of those that were there goes."""
        stay = []
        for at in range(count):
            self.client(self.server, f"flap-{at}").leave()
            stay.append(self.client(self.server, f"new-{at}"))
        return stay

    def test_paused_lag_is_shown_and_everything_else_goes_on(self):
        self.redis.pause()
        with self.server.closes(unbound=20):
            self.flap()
            for at in range(5):
                self.talk(b"%d" % at)

            def shown():
                standing = self.standing(self.server)
                return standing["unwritten"] > 0 and standing["lag_ms"] >= 1000 \
                    and standing["circuit"] != "closed" and standing
            standing = poll(shown, "the lag is shown")
            self.assertIsNotNone(standing["fault"])
            metrics = self.server.metrics()
            self.assertRegex(metrics, r"holdline_presence_lag_seconds [1-9]")
            self.assertRegex(metrics, r"holdline_presence_unwritten [1-9]")
            status, _ = self.server.api("POST", "/v1/presence/stored", {"keys": ["#ear"]})
            self.assertEqual(status, 503)
            self.talk(b"still")
        self.redis.go_on()
        self.talk(b"again")
        self.assertEqual(self.assert_agrees(self.server)["online"], 23)
        self.assertFalse(self.redis.record("#flap-3")["online"])
        self.online("#new-3")

    def test_killed_and_back_empty_it_is_written_anew(self):
        with self.server.closes(unbound=20):
            self.redis.kill()
            self.flap()
            self.talk(b"without")
            poll(lambda: self.standing(self.server)["circuit"] != "closed", "it is noticed")
            self.redis.start()
            self.online("demo#stays")
            self.online("#new-19")
            self.talk(b"with")
        self.assertEqual(self.assert_agrees(self.server)["online"], 23)

    def test_emptied_it_is_written_anew_though_nobody_moves(self):
        with self.server.closes():
            self.redis.ask("FLUSHALL")
            self.online("demo#stays")
            self.online("#ear")
            self.talk(b"here")
        self.assertEqual(self.assert_agrees(self.server)["online"], 3)

    def test_scripts_that_were_forgotten_are_sent_again(self):
        self.redis.ask("SCRIPT", "FLUSH")
        self.client(self.server, "late")
        self.online("#late")
        self.assert_agrees(self.server)

    def test_read_only_or_full_it_is_no_reason_to_end_anybody(self):
        with self.server.closes(unbound=3):
            self.redis.ask("CONFIG", "SET", "maxmemory", "1")
            self.flap(3)
            self.talk(b"full")
            poll(lambda: self.standing(self.server)["fault"], "it is told")
            self.redis.ask("CONFIG", "SET", "maxmemory", "0")
            self.online("#new-2")
        self.assert_agrees(self.server)

    def test_flapping_through_all_of_it_leaves_no_difference(self):
        def rounds(at):
            for number in range(10):
                device = self.bound(f"round-{number}", server=self.server)
                if (number + at) % 2:
                    device.unbind()
                device.close()
            self.talk(b"round %d" % at)
        rounds(0)
        self.redis.pause()
        rounds(1)
        self.redis.go_on()
        rounds(2)
        self.redis.kill()
        rounds(3)
        self.redis.start()
        rounds(4)
        self.redis.ask("FLUSHALL")
        rounds(5)
        for number in range(10):
            self.server.offline(f"round-{number}")
        self.assertEqual(self.assert_agrees(self.server)["online"], 3)


class SlowWay(Case):
    """Everything to and from Redis is later, within the limit and beyond it."""

    def slow(self, delay_s):
        way = Slow(self.redis.port, delay_s)
        self.addCleanup(way.close)
        return way

    def test_a_slow_way_is_used(self):
        server = self.node(url=self.slow(0.02).url)
        self.bound(self.name, server=server)
        self.online(f"demo#{self.name}")
        self.assert_agrees(server)

    def test_a_way_slower_than_the_limit_is_none_and_clients_do_not_feel_it(self):
        way = self.slow(0)
        server = self.node(url=way.url)
        device = self.bound(self.name, server=server)
        self.online(f"demo#{self.name}")
        way.delay_s = 1.0
        wire = self.client(server, self.name)
        wire.ping(1.0)
        device.ping()
        poll(lambda: self.standing(server)["circuit"] != "closed", "it is noticed")
        way.delay_s = 0
        self.online(f"#{self.name}")
        self.assert_agrees(server)


class Libraries(Case):
    """Real client libraries hear nothing of a Redis that is gone."""

    def test_paho_publishes_on_while_redis_is_away(self):
        driver = Driver("paho-python")
        self.addCleanup(driver.kill)
        server = self.node()
        one, other = (Client(driver, V5, server.ports["mqtt"], id=name) for name in "ab")
        one.connect()
        other.connect()
        other.subscribe("t/#", qos=1)
        self.online("#a")
        self.redis.pause()
        one.publish("t/1", "%", qos=1, count=50)
        self.assertEqual(len(other.take(50)), 50)
        self.redis.kill()
        one.publish("t/1", "%", qos=1, count=50)
        self.assertEqual(len(other.take(50)), 50)
        self.redis.start()
        self.online("#a")
        self.assert_agrees(server)
        lost = [said for said in one.answers + other.answers if said.kind == "lost"]
        self.assertEqual(lost, [])


if __name__ == "__main__":
    unittest.main()

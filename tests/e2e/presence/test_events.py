"""Comings and goings told: as a stream of events, in Redis' stream, on a topic, and over time."""

import json

from fixture import Sse, poll
from presence.house import Case


class Told(Case):
    def fields(self, entry):
        """An entry of a Redis stream: id, fields."""
        _, words = entry
        return dict(zip(words[::2], words[1::2]))

    def test_events_have_versions_that_rise_and_are_those_of_the_records(self):
        server = self.node()
        stream = Sse(server, "?type=online,offline")
        self.addCleanup(stream.close)
        for _ in range(3):
            device = self.bound(self.name, server=server)
            device.unbind()
            device.close()
        self.bound(self.name, server=server)
        events = stream.wait(7)
        self.assertEqual([kind for kind, _, _ in events], ["online", "offline"] * 3 + ["online"])
        versions = [data["version"] for _, data, _ in events]
        self.assertEqual(versions, sorted(set(versions)))
        self.assertTrue(all(len(version) == 16 for version in versions))
        self.settled(server)
        self.assertEqual(self.online(f"demo#{self.name}")["version"], versions[-1])

    def test_redis_stream_has_them_in_order_also_those_of_its_absence(self):
        server = self.node(presence={"events_stream": "who"})
        first = self.bound(self.name, server=server)
        poll(lambda: self.redis.ask("XLEN", "who") >= 1, "the stream has the first")
        self.redis.pause()
        first.unbind()
        self.bound(self.name, server=server)
        self.redis.go_on()

        def mine():
            entries = [self.fields(entry) for entry in self.redis.ask("XRANGE", "who", "-", "+")]
            mine = [it for it in entries if it.get("device") == self.name]
            once = {it["version"]: it for it in mine}
            return list(once.values()) if len(once) >= 3 else None
        told = poll(mine, "the stream has all", 20)
        self.assertEqual([it["type"] for it in told], ["online", "offline", "online"])
        versions = [it["version"] for it in told]
        self.assertEqual(versions, sorted(versions))

    def test_the_topic_has_the_last_word_of_each(self):
        server = self.node(presence={"events_topic": "presence/%p/%d"})
        ear = self.client(server, "ear")
        ear.subscribe("presence/demo/+")
        device = self.bound(self.name, server=server)
        here = ear.take()
        device.unbind()
        gone = ear.take()
        self.assertEqual(here.topic, f"presence/demo/{self.name}")
        here, gone = json.loads(here.payload), json.loads(gone.payload)
        self.assertEqual((here["type"], gone["type"]), ("online", "offline"))
        self.assertEqual((here["protocol"], gone["reason"]), ("miop7", "unbound"))
        self.assertGreater(gone["version"], here["version"])
        late = self.client(server, "late")
        late.subscribe("presence/demo/+")
        kept = late.take()
        self.assertTrue(kept.retain)
        self.assertEqual(json.loads(kept.payload)["version"], gone["version"])

    def test_statistics_count_who_came_and_went(self):
        server = self.node()
        for at in range(4):
            self.client(server, f"c{at}")
        device = self.bound(self.name, server=server)
        device.ping()
        device.unbind()

        def counted():
            answer = server.ask("GET", "/v1/presence/statistics?step=second")
            moments = answer["moments"]
            sums = {name: sum(it[name] for it in moments)
                    for name in ("arrivals", "departures", "heartbeats")}
            last = moments[-1]["online"] if moments else None
            return (last, sums) if sums["departures"] >= 1 and last == 4 else None
        _, sums = poll(counted, "a second has passed")
        self.assertEqual((sums["arrivals"], sums["departures"]), (5, 1))
        self.assertGreaterEqual(sums["heartbeats"], 1)
        counts = server.ask("GET", "/v1/presence/counts")
        self.assertEqual((counts["online"], counts["arrivals"], counts["departures"]), (4, 5, 1))
        protocols = {it["protocol"] for it in counts["by"]}
        self.assertIn("miop7", protocols)

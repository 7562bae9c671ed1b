"""Pushes by the clocks of devices, schedules, and batches with a key, over shards and kills."""

import time

import fixture
from fixture import Case, poll


def shards(count):
    return {"server": {"shards": count, "pin": False}}


def minute(ahead_s=0):
    return time.strftime("%Y-%m-%dT%H:%M", time.gmtime(time.time() + ahead_s))


class Zones(Case):
    SHARED = False

    def zone(self, server, device, name):
        path = f"/v1/products/demo/devices/{device}/zone"
        return server.ask("PUT", path, {"zone": name})

    def waiting(self, server, names):
        return [server.state(name)["waiting"] for name in names]

    def test_each_zone_gets_the_push_at_its_time_over_kills_and_moves(self):
        server = self.start(shards(3))
        names = ["tokyo", "utc", "york", "mover"]
        for name, zone in zip(names, ("asia/tokyo", "UTC", "America/New_York", "America/Lima")):
            self.zone(server, name, zone)
        self.assertEqual(server.state("tokyo")["zone"], "Asia/Tokyo")
        server.ask("PUT", "/v1/products/demo/devices/plain/tags", {"tags": []})
        names.append("plain")
        # Of UTC and all zones east of it, the time is over.
        order = {"body": "b", "all": True, "at_local": minute(), "ttl_s": 86400}
        push = server.push(**order)
        poll(lambda: self.waiting(server, names) == [1, 1, 0, 0, 1], "zones of the past have it")
        listed, = server.ask("GET", "/v1/pushes?state=running")["pushes"]
        self.assertEqual((listed["id"], listed["counts"]["matched"]), (push["id"], 3))
        self.assertGreater(listed["send_at_ms"], time.time() * 1000 + 3_600_000)
        for count in (2, 3):
            server.kill()
            server.configure(shards(count))
            server.start()
            self.assertEqual(self.waiting(server, names), [1, 1, 0, 0, 1])
        self.zone(server, "mover", "Asia/Tokyo")
        self.zone(server, "tokyo", "America/New_York")
        poll(lambda: self.waiting(server, names) == [1, 1, 0, 1, 1], "the one that moved has it")
        skipped = server.push(**order, passed="skip")
        answer = server.ask("DELETE", f"/v1/pushes/{push['id']}")
        self.assertEqual(answer["counts"]["cancelled"], 4)
        self.assertEqual(self.waiting(server, names), [0] * 5)
        self.assertEqual(server.ask("GET", f"/v1/pushes/{skipped['id']}")["counts"]["matched"], 0)
        server.ask("DELETE", "/v1/products/demo/devices/tokyo/zone")
        self.assertIsNone(server.state("tokyo")["zone"])

    def test_what_makes_no_sense_is_refused(self):
        server = self.start()
        order = {"product": "demo", "all": True, "body": "b"}
        for more, why in (({"at_local": minute(-86400)}, "has passed in every zone"),
                          ({"at_local": minute(40 * 86400)}, "schedule_s_max"),
                          ({"at_local": minute(), "zone": "Mars/Olympus"}, '"Mars/Olympus"'),
                          ({"zone": "UTC"}, "need `at_local`")):
            status, answer = server.api("POST", "/v1/pushes", {**order, **more})
            self.assertEqual(status, 400)
            self.assertIn(why, answer["error"]["message"])

    def test_a_schedule_sends_each_time_once_also_after_a_kill(self):
        server = self.start(shards(2))
        for name in ("a", "b"):
            server.ask("PUT", f"/v1/products/demo/devices/{name}/tags", {"tags": ["t"]})
        server.ask("PUT", "/v1/products/demo/segments/calm", {"tags": {"not": "x"}})
        push = {"product": "demo", "body": "again", "audience": {"tags": {"segment": "calm"}}}
        saved = server.ask("POST", "/v1/schedules", {
            "name": "often", "cron": "* * * * *", "count": 1, "push": push})
        self.assertEqual((saved["sent"], len(saved["next_ms"])), (0, 1))
        self.assertLess(saved["next_ms"][0] - time.time() * 1000, 60_500)
        server.kill()
        server.start()

        def often():
            return server.ask("GET", "/v1/schedules/demo/often")

        poll(lambda: often()["sent"] == 1, "its time has come", deadline_s=70)
        told = often()
        self.assertEqual((told["next_ms"], len(told["last_ids"])), ([], 1))
        path = f"/v1/pushes/{told['last_ids'][0]}"
        poll(lambda: server.ask("GET", path)["counts"]["stored"] == 2, "both have it")
        server.kill()
        server.start()
        self.assertEqual((often(), self.waiting(server, ["a", "b"])), (told, [1, 1]))
        self.assertEqual(server.ask("DELETE", "/v1/schedules/demo/often"), {"removed": True})
        self.assertEqual(server.ask("GET", "/v1/schedules")["schedules"], [])

    def test_a_batch_with_a_key_is_sent_once(self):
        server = self.start(shards(3))
        for name in ("a", "b"):
            server.ask("PUT", f"/v1/products/demo/devices/{name}/tags", {"tags": []})
        server.ask("PUT", "/v1/products/demo/devices/gone/block")
        batch = {"product": "demo", "messages": [
            {"device": name, "body": body} for name, body in
            (("a", "1"), ("gone", "2"), ("b", "3"), ("a", "4"))]}

        def send(batch):
            return server.api("POST", "/v1/pushes/batch", batch,
                              headers={"Idempotency-Key": "k"})

        status, first = send(batch)
        self.assertEqual(status, 200)
        told = [it["outcome"] for it in first["outcomes"]]
        self.assertEqual(told, ["stored", "rejected", "stored", "stored"])
        server.kill()
        server.start()
        status, again = send(batch)
        self.assertEqual(status, 200)
        ids = [[it["id"] for it in answer["outcomes"] if it["outcome"] == "stored"]
               for answer in (first, again)]
        self.assertEqual(ids[0], ids[1])
        self.assertEqual(self.waiting(server, ["a", "b"]), [2, 1])
        status, answer = send({**batch, "ttl_s": 7})
        self.assertEqual((status, answer["error"]["code"]), (409, "idempotency_conflict"))
        self.assertEqual(self.waiting(server, ["a", "b"]), [2, 1])
        later = {**batch, "send_at_ms": int(time.time() * 1000) + 600_000}
        status, answer = server.api("POST", "/v1/pushes/batch", later)
        self.assertEqual({it["outcome"] for it in answer["outcomes"]}, {"stored"})
        scheduled = server.ask("GET", "/v1/pushes?state=scheduled")["pushes"]
        self.assertEqual({it["id"] for it in scheduled}, {it["id"] for it in answer["outcomes"]})

    def test_the_command_line_sets_zones_and_saves_schedules(self):
        server = self.start()
        host, port = server.ports["api"]
        where = ["--url", f"http://{host}:{port}", "--data", server.data]

        def cli(*words, fails=False):
            done = fixture.run(*words, *where)
            self.assertEqual(done.returncode, int(fails), done.stderr)
            return done.stderr if fails else done.stdout

        self.assertIn("is in", cli("device", "zone", "demo", "d", "Europe/Berlin"))
        self.assertEqual(server.state("d")["zone"], "Europe/Berlin")
        self.assertIn("has no", cli("device", "zone", "demo", "d", "--none"))
        told = cli("push", "--product", "demo", "--device", "d", "--at-local", minute(86400),
                   "--zone", "Europe/Berlin", "hello")
        self.assertIn("scheduled", told)
        self.assertIn("Mars", cli("device", "zone", "demo", "d", "Mars", fails=True))
        rule = ("--weekly", "mon,thu@09:00", "--zone", "Europe/Berlin")
        told = cli("schedule", "save", "--product", "demo", "morning", *rule, "--all", "open")
        self.assertRegex(told, "^demo +morning +0 9 \\* \\* 1,4 +Europe/Berlin +.+Z +0 sent")
        self.assertIn("paused", cli("schedule", "pause", "--product", "demo", "morning"))
        self.assertIn("paused", cli("schedule", "list"))
        cli("schedule", "resume", "--product", "demo", "morning")
        self.assertIn("removed", cli("schedule", "remove", "--product", "demo", "morning"))
        self.assertEqual(cli("schedule", "list", "--product", "demo"), "")

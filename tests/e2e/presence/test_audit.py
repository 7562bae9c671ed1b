"""`holdline audit`: what it says and how it ends, of lies told by redis-cli's own words."""

import json

from fixture import poll, run
from presence.house import Case


class Audit(Case):
    def setUp(self):
        super().setUp()
        # The server compares a share of the buckets a second and mends what it finds: not here.
        self.server = self.node(presence={"compare_s": 3600})
        self.devices = [self.bound(f"d{at}", server=self.server) for at in range(5)]
        for at in range(5):
            self.online(f"demo#d{at}")
        self.settled(self.server)

    def command(self, *words, server=None):
        server = server or self.server
        host, port = server.ports["api"]
        return run("audit", "--url", f"http://{host}:{port}", "--token", server.token,
                   "--settle", "300", *words)

    def told(self, *words, code):
        """The audit as JSON, which must end with this code."""
        answer = self.command("--json", *words)
        self.assertEqual(answer.returncode, code, answer.stdout + answer.stderr)
        return json.loads(answer.stdout)

    def test_what_agrees_ends_with_0(self):
        answer = self.command()
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn("5", answer.stdout)
        self.assertEqual(self.told(code=0)["online"], 5)

    def lies(self):
        """Four lies, and the kinds that they are."""
        record = self.redis.record("demo#d0")
        self.redis.drop("demo#d0")
        older = "0000000000000001"
        stale = self.redis.record("demo#d1")["text"].replace(" o ", " f ", 1)
        self.redis.write("demo#d1", older + stale[16:])
        self.redis.write("demo#ghost", record["text"])
        return {"demo#d0": "missing", "demo#d1": "stale", "demo#ghost": "extra"}

    def test_lies_are_found_with_kind_and_history_and_end_with_1(self):
        lies = self.lies()
        found = self.told(code=1)
        self.assertEqual({each["key"]: each["kind"] for each in found["differences"]}, lies)
        self.assertEqual(found["persistent"],
                         {"missing": 1, "stale": 1, "extra": 1, "wrong_node": 0})
        of_d1, = [each for each in found["differences"] if each["key"] == "demo#d1"]
        self.assertTrue(of_d1["memory"]["online"] and not of_d1["stored"]["online"])
        self.assertTrue(of_d1["history"][-1]["online"])
        shown = self.command()
        self.assertEqual(shown.returncode, 1)
        for key, kind in lies.items():
            self.assertRegex(shown.stdout, rf"(?s){key}.*{kind}|{kind}.*{key}")

    def test_lies_are_written_over_when_that_is_asked_for(self):
        self.lies()
        repaired = self.told("--repair", code=1)
        self.assertEqual(repaired["repaired"], 3)
        self.online("demo#d0")
        self.online("demo#d1")
        poll(lambda: not (self.redis.record("demo#ghost") or {}).get("online"), "no ghost")
        self.settled(self.server)
        self.assertEqual(self.told(code=0)["differing"], 0)
        for device in self.devices:
            device.ping()

    def test_what_settles_meanwhile_is_no_difference(self):
        for at in range(30):
            device = self.bound(f"moving-{at}", server=self.server)
            if at % 2:
                device.unbind()
        self.assertEqual(sum(self.told(code=0)["persistent"].values()), 0)

    def test_what_cannot_be_compared_ends_with_2(self):
        alone = self.start()
        answer = self.command(server=alone)
        self.assertEqual(answer.returncode, 2, answer.stdout + answer.stderr)
        self.assertIn("directory", answer.stderr)
        self.redis.kill()
        answer = self.command()
        self.assertEqual(answer.returncode, 2, answer.stdout + answer.stderr)
        answer = run("audit", "--url", "http://127.0.0.1:1", "--token", "0123456789abcdef")
        self.assertEqual(answer.returncode, 2, answer.stdout + answer.stderr)
        self.assertNotIn("0123456789abcdef", answer.stdout + answer.stderr)

"""Runs of `holdline load`, whole, and the rules of their plans."""

import glob
import json
import os
import tempfile

from fixture import Case, run

#: How fast this machine is, is no matter here.
OF_THE_MACHINE = ("cpu_limited == 1", "target.process.cpu.last < 0.1", "messages.tail_ms <= 1000",
                  "delivery.mean <= 25ms", "delivery.p99 <= 100ms")


class Runs(Case):
    def run_plan(self, plan, url, *words):
        """A run, whole."""
        folder = tempfile.TemporaryDirectory(prefix="holdline-load-")
        self.addCleanup(folder.cleanup)
        made = run("load", "run", plan, url, "--quiet", "--out", folder.name, *words, timeout=300)
        files = glob.glob(os.path.join(folder.name, "*", "run.json"))
        self.assertEqual(len(files), 1, made.stdout + made.stderr)
        with open(files[0], encoding="utf-8") as file:
            return json.load(file)

    def held(self, made, but=OF_THE_MACHINE):
        """All rules of a run but for these held: what it counted."""
        stages = [rule for stage in made["stages"] for rule in stage["checks"]]
        rules = [rule for rule in stages + made["checks"] if rule["rule"] not in but]
        self.assertTrue(rules)
        self.assertTrue(made["finished"], made["notes"])
        wrong = [rule for rule in rules if rule["held"] is not True]
        self.assertEqual(wrong, [], made["notes"])
        return made["total"]["figures"]

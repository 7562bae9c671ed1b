"""The measurements of chat at their quick sizes: each runs, finds what was acknowledged, and says
what it was to say. How much it measured is not looked at: a machine with other work says nothing.

`bench` and `sim` are looked for beside the binary that is tried. Names in `bench/README.md`.
"""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

import fixture

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
BENCH, SIM = (os.path.join(os.path.dirname(fixture.BINARY), name) for name in ("bench", "sim"))
WHOLE_S = 600.0


@unittest.skipUnless(os.path.exists(BENCH), "bench is not built: NO MEASUREMENT WAS TRIED")
class Quick(unittest.TestCase):
    def measured(self, name):
        """What a scenario of this name stored: its figures by their names."""
        folder = tempfile.TemporaryDirectory(prefix="holdline-bench-")
        self.addCleanup(folder.cleanup)
        # Results go below the nearest ARCHITECTURE.md.
        open(os.path.join(folder.name, "ARCHITECTURE.md"), "w", encoding="utf-8").close()
        env = {**os.environ, "HOLDLINE_BIN": fixture.BINARY, "HOLDLINE_SIM": SIM}
        made = subprocess.run([BENCH, "run", name, "--quick"], cwd=folder.name, env=env,
                              capture_output=True, text=True, timeout=WHOLE_S, check=False)
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        stored = os.path.join(folder.name, "target", "bench-quick")
        found = [file for file in os.listdir(stored) if file[11:] == f"{name}.json"]
        self.assertEqual(len(found), 1, os.listdir(stored))
        with open(os.path.join(stored, found[0]), encoding="utf-8") as file:
            result = json.load(file)
        self.assertEqual(result["scenario"], name)
        for part in ("plan", "commit", "machine", "load"):
            self.assertTrue(result[part], part)
        figures = {figure["name"]: figure["value"] for figure in result["figures"]}
        wrong = [name for name, value in figures.items() if value is None]
        self.assertEqual(wrong, [], "each figure is a number")
        return figures

    def has(self, figures, *names):
        """These figures are there, and above nothing."""
        for name in names:
            self.assertGreater(figures.get(name, 0), 0, (name, figures))


class Talk(Quick):
    def test_latency_at_modest_rates_and_near_the_highest(self):
        figures = self.measured("im-latency")
        for rate in ("as fast as may be", "200 a second", "near the highest"):
            self.has(figures, f"{rate}: acknowledged, p50", f"{rate}: acknowledged, p99",
                     f"{rate}: delivered, p50", f"{rate}: delivered, p99", f"{rate}: CPU")


class Sizes(Quick):
    def test_cost_and_rate_by_size(self):
        figures = self.measured("im-sizes")
        for size in (36, 256, 1024, 4096, 16384, 65536):
            self.has(figures, f"{size} bytes: CPU", f"{size} bytes: sends")


class Others(Quick):
    def test_wukongims_groups_are_audited_whole(self):
        figures = self.measured("im-wukongim-100")
        self.has(figures, "sends a second a core", "distributions a second a core")

    def test_wukongims_large_group(self):
        self.has(self.measured("im-wukongim-large"), "deliveries a second a core")

    def test_an_applications_messages_to_groups(self):
        self.has(self.measured("im-wukongim-api"), "Holdline: CPU", "Holdline: sends")

    def test_goims_room(self):
        self.has(self.measured("im-goim"), "deliveries a second a core")


class Inboxes(Quick):
    def test_pulls_from_memory_and_from_disk(self):
        figures = self.measured("im-pull")
        for place in ("memory", "disk", "page cache"):
            self.has(figures, f"from {place}: CPU", f"from {place}: a page, p99")

    def test_a_login_with_many_conversations(self):
        figures = self.measured("im-login-sync")
        for who in ("a new device", "a new device, from disk", "a device that comes back"):
            self.has(figures, f"{who}: time", f"{who}: CPU", f"{who}: sent to it")

    def test_memory_of_people_and_their_conversations(self):
        figures = self.measured("im-memory")
        self.has(figures, "all known: a person", "by default: all of them, whole process")


class Calls(Quick):
    def test_pushes_by_a_gateway_are_counted_at_both_ends(self):
        self.has(self.measured("im-push"), "8 at once: notifications", "8 at once: CPU")

    def test_the_two_calls_of_a_file(self):
        figures = self.measured("im-media")
        self.has(figures, "leave to upload: CPU", "the message of a file: CPU",
                 "put 64 KiB: CPU", "get 64 KiB: CPU")

    def test_accounts_are_imported(self):
        self.has(self.measured("im-accounts-embedded"), "imported, embedded", "again")

    @unittest.skipUnless(os.path.exists(SIM), "sim is not built: NO SESSIONS WERE HELD")
    def test_sessions_are_held_in_simulated_time(self):
        self.has(self.measured("sim-im-1m"), "server bytes a client")


@unittest.skipUnless(shutil.which("mariadbd") or os.path.exists("/usr/sbin/mariadbd"),
                     "MariaDB is not installed: NOTHING WAS STORED IN IT")
class Database(Quick):
    def test_accounts_are_imported_into_mariadb(self):
        self.has(self.measured("im-accounts-mariadb"), "imported, MariaDB", "rows there")

    def test_rows_are_what_was_acknowledged_though_the_database_is_killed(self):
        figures = self.measured("im-archive")
        self.assertEqual(figures["rows there"], figures["acknowledged"])
        self.has(figures, "rows there", "calls to the database that failed")


if __name__ == "__main__":
    unittest.main()

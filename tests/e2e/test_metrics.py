"""Pages of metrics are what Prometheus takes: `promtool check metrics` has no word to say of them;
and docs/metrics.md has each, with its kind, unit and meaning.

`HOLDLINE_METRICS_WRITE=1` writes that page anew after a change.
"""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

import fixture
from cluster import nats
from fixture import Case
from mqtt.drivers import BUILT

TOOL = shutil.which("promtool") or os.path.join(BUILT, "promtool", "usr", "bin", "promtool")


@unittest.skipUnless(os.access(TOOL, os.X_OK), "promtool could not be had: IT WAS NOT TRIED")
class Metrics(Case):
    SHARED = False
    maxDiff = None

    def test_every_name_type_and_sample_is_right(self):
        # Nobody is behind the two: what is told of a directory and of a webhook is there all the same.
        server = self.start({"presence": {"directory": "redis://127.0.0.1:1"},
                             "listen.mqtt": {"address": "127.0.0.1:0", "protocol": "mqtt"}},
                            '[[webhook]]\nurl = "http://127.0.0.1:1/"\n')
        with server.device() as device:
            device.bind("till-1")
            page = server.metrics()
        for family in ("holdline_presence_circuit", "holdline_webhook_events_total",
                       "holdline_presence_online", "holdline_store_log_bytes"):
            self.assertIn(f"# TYPE {family} ", page)
        told = subprocess.run([TOOL, "check", "metrics"], input=page, text=True,
                              capture_output=True, check=False)
        self.assertEqual((told.returncode, told.stdout + told.stderr), (0, ""))


PAGE = os.path.join(fixture.ROOT, "docs", "metrics.md")
EVENTS = os.path.join(fixture.ROOT, "docs", "events.md")

HEAD = """# Metrics

Every metric of `GET /metrics`, with its `HELP` and `TYPE`. The page is generated from servers with all services that need nothing external; a test keeps the two identical. The metrics of `[accounts] store` and `[chat] archive` in MySQL, which begin with `holdline_accounts_database_` and `holdline_archive_`, exist only if these are configured, and are described in [their chapter](database.md). Those that begin with `holdline_cluster_` exist only at nodes of a [cluster](cluster.md). Totals count from the start of the process. `GET /v1/meanings` and the console explain the values of `reason`; the values of `event` are [the events of the log](events.md).

| metric | kind | unit | labels | meaning |
| --- | --- | --- | --- | --- |
"""

ALL = {
    "presence": {"directory": "redis://127.0.0.1:1", "events_stream": "events"},
    "listen.mqtt": {"address": "127.0.0.1:0", "protocol": "mqtt"},
    "api": {"address": "127.0.0.1:0", "otlp_url": "http://127.0.0.1:1/v1/metrics"},
}
TAIL = """
[[webhook]]
url = "http://127.0.0.1:1/"

[bridge.north]
addresses = ["127.0.0.1:1"]
topics = ["# out 0 a/ b/"]
"""
UNITS = (("_seconds", "s"), ("_bytes", "bytes"), ("_ms", "ms"))


def unit(name):
    whole = re.sub(r"(_total|_max)$", "", name)
    return next((unit for end, unit in UNITS if whole.endswith(end)), "count")


def rows(page):
    """What a page of metrics says of each: a row by its name."""
    told = {}
    for name, text in re.findall(r"^# HELP (\S+) (.*)$", page, re.M):
        kind = re.search(rf"^# TYPE {name} (\S+)$", page, re.M).group(1)
        samples = re.findall(rf"^{name}(?:_bucket)?{{(.*)}} \S+$", page, re.M)
        labels = sorted({label for sample in samples for label in re.findall(r'(\w+)="', sample)})
        shown = " ".join(f"`{label}`" for label in labels)
        told[name] = f"| `{name}` | {kind} | {unit(name)} | {shown} | {text} |\n"
    return told


class Page(Case):
    SHARED = False
    maxDiff = None

    def test_it_has_every_metric_and_no_other(self):
        copies = tempfile.TemporaryDirectory(prefix="holdline-copies-")
        self.addCleanup(copies.cleanup)
        backup = {"backup": {"folder": os.path.join(copies.name, "new")}}
        secret = os.path.join(copies.name, "secret")
        with open(secret, "w", encoding="utf-8") as file:
            file.write("s")
        phones = {"kind": "xiaomi", "app": "org.example", "secret_file": secret}
        server = self.start({**ALL, **backup, "platform.phones": phones}, TAIL)
        with server.device() as device:
            device.bind("till-1")
            told = {**rows(nats.follower(self).metrics()), **rows(server.metrics())}
        written = HEAD + "".join(row for _, row in sorted(told.items()))
        if os.environ.get("HOLDLINE_METRICS_WRITE"):
            with open(PAGE, "w", encoding="utf-8") as file:
                file.write(written)
        with open(PAGE, encoding="utf-8") as file:
            self.assertEqual(file.read(), written, "docs/metrics.md is old: HOLDLINE_METRICS_WRITE=1")

    def test_a_metric_that_an_event_names_is_one(self):
        with open(EVENTS, encoding="utf-8") as file:
            named = set(re.findall(r"\| `(holdline_\w+)` \|$", file.read(), re.M))
        with open(PAGE, encoding="utf-8") as file:
            there = set(re.findall(r"^\| `(\w+)`", file.read(), re.M))
        self.assertGreater(len(named), 20)
        self.assertLessEqual({name for name in named if "archive_" not in name}, there)

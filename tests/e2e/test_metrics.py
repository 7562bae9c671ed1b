"""Pages of metrics are what Prometheus takes: `promtool check metrics` has no word to say of them."""

import os
import shutil
import subprocess
import unittest

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

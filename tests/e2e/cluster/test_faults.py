"""The short form of `make cluster`: a fault of each kind under load, in about two minutes."""

import os
import subprocess
import sys
import tempfile
import unittest

import fixture
from cluster import nats
from machines import possible

FAULTS = ("leader-killed", "leader-hangs", "nats-leader-killed", "leader-cut-from-machines",
          "stream-deleted", "follower-wiped")
DEADLINE_S = 600


@nats.needed
class Faults(unittest.TestCase):
    def test_nothing_acknowledged_is_lost_whatever_fails(self):
        why = possible()
        if why:
            self.skipTest(f"{why}: NO CLUSTER WAS TRIED UNDER FAULTS")
        with tempfile.TemporaryDirectory(prefix="holdline-faults-") as folder:
            words = [word for name in FAULTS for word in ("--only", name)]
            # A process of its own, for its mounts and its namespaces.
            told = subprocess.run(
                [sys.executable, os.path.join("cluster", "faults.py"), *words, "--each",
                 "--faults", str(len(FAULTS)), "--rate", "200", "--nodes", "2", "--lasts", "1",
                 "3", "--binary", fixture.BINARY, "--keep", folder],
                cwd=os.path.dirname(os.path.abspath(fixture.__file__)), capture_output=True,
                text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(told.returncode, 0, told.stdout + told.stderr)


if __name__ == "__main__":
    unittest.main()

"""How the scripts install packages while somebody else holds apt's locks."""

import os
import subprocess
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

# Refuses as often as the file says, as apt-get does, and then does what it is told.
FAKE = r"""#!/bin/sh
left=$(cat "$TIMES")
echo "$@" >> "$TOLD"
if [ "$left" -gt 0 ]; then
    echo $((left - 1)) > "$TIMES"
    echo "E: $SAYS" >&2
    exit 100
fi
"""


class Locks(unittest.TestCase):
    def apt(self, times, says, **environment):
        """Installs something where apt-get fails so often with these words; status and calls."""
        with tempfile.TemporaryDirectory() as folder:
            path = lambda name: os.path.join(folder, name)
            with open(path("apt-get"), "w", encoding="utf-8") as file:
                file.write(FAKE)
            os.chmod(path("apt-get"), 0o755)
            with open(path("times"), "w", encoding="utf-8") as file:
                file.write(str(times))
            done = subprocess.run(
                ["bash", "-c", ". scripts/apt.sh; apt_get update -qq"], cwd=ROOT, check=False,
                capture_output=True, text=True,
                env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "SAYS": says,
                     "TIMES": path("times"), "TOLD": path("told"), "APT_PAUSE_S": "0",
                     **environment})
            with open(path("told"), encoding="utf-8") as file:
                return done.returncode, file.read().splitlines(), done.stderr

    def test_a_lock_is_waited_for(self):
        for says in ("Could not get lock /var/lib/apt/lists/lock. It is held by process 7",
                     "Unable to lock directory /var/lib/apt/lists/",
                     "Unable to acquire the dpkg frontend lock"):
            status, told, _ = self.apt(3, says)
            self.assertEqual((status, len(told)), (0, 4), says)
            self.assertTrue(told[0].endswith(" update -qq") and "DPkg::Lock::Timeout=" in told[0])

    def test_another_fault_is_told_at_once_and_a_lock_not_for_ever(self):
        status, told, error = self.apt(3, "Unable to locate package nonsense")
        self.assertEqual((status, len(told)), (100, 1))
        self.assertIn("nonsense", error)
        status, told, _ = self.apt(3, "Could not get lock /var/lib/dpkg/lock", APT_WAIT_S="0")
        self.assertEqual((status, len(told)), (100, 1))

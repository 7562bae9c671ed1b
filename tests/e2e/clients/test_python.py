"""The Python library of MIOP 7: its quick start, against a server that is killed."""

import importlib.util
import unittest

from clients.device import QuickStart


@unittest.skipUnless(importlib.util.find_spec("ensurepip"), "python3-venv is not installed")
class Python(QuickStart):
    LIBRARY, LANGUAGE = "miop-python", "python"

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()

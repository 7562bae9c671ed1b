"""The Python library of IM: its quick start, against a server that is killed."""

import importlib.util
import unittest

from clients.im_device import ImQuickStart


@unittest.skipUnless(importlib.util.find_spec("ensurepip"), "python3-venv is not installed")
class ImPython(ImQuickStart):
    LIBRARY, LANGUAGE = "im-python", "python"

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()

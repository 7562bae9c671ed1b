"""The Python library of MIOP 7: its quick start, against a server that is killed."""

import os
import sys

from clients.device import CLIENTS, QuickStart


class Python(QuickStart):
    LIBRARY, LANGUAGE = "miop-python", "python"

    def command(self, folder, source):
        path = os.path.join(folder, "quick_start.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        return [sys.executable, path], {"PYTHONPATH": os.path.join(CLIENTS, self.LIBRARY, "src")}

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()

"""The Python library of IM: its quick start, against a server that is killed."""

import os
import sys

from clients.device import CLIENTS
from clients.im_device import ImQuickStart
from im.wire import BUILT


class ImPython(ImQuickStart):
    LIBRARY, LANGUAGE = "im-python", "python"

    def command(self, folder, source):
        path = os.path.join(folder, "quick_start.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        library = os.path.join(CLIENTS, self.LIBRARY, "src")
        paths = os.pathsep.join([library, os.path.join(BUILT, "protobuf")])
        return [sys.executable, path], {"PYTHONPATH": paths}

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()

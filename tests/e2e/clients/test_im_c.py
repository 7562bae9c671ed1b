"""The C library of IM: its quick start, against a server that is killed."""

import glob
import os
import shutil
import subprocess
import unittest

from clients.device import CLIENTS
from clients.im_device import ImQuickStart


@unittest.skipUnless(shutil.which("cc"), "a C compiler is not installed")
class ImC(ImQuickStart):
    LIBRARY, LANGUAGE, STATE = "im-c", "c", "ann.state"

    def command(self, folder, source):
        path, library = os.path.join(folder, "quickstart.c"), os.path.join(CLIENTS, self.LIBRARY)
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        sources = [path, *(os.path.join(library, "posix", name)
                           for name in ("im_posix.c", "im_proxy.c")),
                   *glob.glob(os.path.join(library, "src/*.c"))]
        subprocess.run(["cc", "-std=c99", "-I", os.path.join(library, "include"), "-I",
                        os.path.join(library, "posix"), *sources, "-o", "quickstart"],
                       cwd=folder, check=True)
        return [os.path.join(folder, "quickstart")], {}

    def place(self, state):
        """Behind the name of the device, and one byte (src/state.c)."""
        at = 5 + int.from_bytes(state[3:5], "big") + 1
        return int.from_bytes(state[at:at + 8], "big")

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()

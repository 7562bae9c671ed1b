"""The C library of MIOP 7: its quick start, against a server that is killed."""

import glob
import os
import shutil
import subprocess
import unittest

from clients.device import CLIENTS, QuickStart


@unittest.skipUnless(shutil.which("cc"), "a C compiler is not installed")
class C(QuickStart):
    LIBRARY, LANGUAGE = "miop-c", "c"

    def command(self, folder, source):
        path, library = os.path.join(folder, "quickstart.c"), os.path.join(CLIENTS, self.LIBRARY)
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        sources = [path, *(os.path.join(library, "posix", name)
                           for name in ("miop_posix.c", "miop_proxy.c")),
                   *glob.glob(os.path.join(library, "src/*.c"))]
        subprocess.run(["cc", "-std=c99", "-I", os.path.join(library, "include"), "-I",
                        os.path.join(library, "posix"), *sources, "-o", "quickstart"],
                       cwd=folder, check=True)
        return [os.path.join(folder, "quickstart")], {}

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()

"""The Go library of MIOP 7: its quick start, against a server that is killed."""

import os
import shutil
import subprocess
import unittest

from clients.device import CLIENTS, QuickStart


@unittest.skipUnless(shutil.which("go"), "go is not installed")
class Go(QuickStart):
    LIBRARY, LANGUAGE = "miop-go", "go"

    def command(self, folder, source):
        library = os.path.join(CLIENTS, self.LIBRARY)
        with open(os.path.join(folder, "main.go"), "w", encoding="utf-8") as file:
            file.write(source)
        with open(os.path.join(folder, "go.mod"), "w", encoding="utf-8") as file:
            file.write("module quickstart\n\ngo 1.21\n\n"
                       "require holdline.example/miop v0.1.0\n\n"
                       f"replace holdline.example/miop => {library}\n")
        # No module is fetched: the library has no dependencies.
        env = {**os.environ, "GOFLAGS": "-mod=mod", "GOPROXY": "off"}
        subprocess.run(["go", "build", "-o", "quickstart", "."], cwd=folder, env=env, check=True)
        return [os.path.join(folder, "quickstart")], {}

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()

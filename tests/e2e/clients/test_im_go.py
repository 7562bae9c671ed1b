"""The Go library of IM: its quick start, against a server that is killed."""

import os
import shutil
import subprocess
import unittest

from clients.device import CLIENTS
from clients.im_device import ImQuickStart


@unittest.skipUnless(shutil.which("go"), "go is not installed")
class ImGo(ImQuickStart):
    LIBRARY, LANGUAGE = "im-go", "go"

    def command(self, folder, source):
        library = os.path.join(CLIENTS, self.LIBRARY)
        with open(os.path.join(folder, "main.go"), "w", encoding="utf-8") as file:
            file.write(source)
        with open(os.path.join(library, "go.mod"), encoding="utf-8") as file:
            needs = file.read().partition("\nrequire ")[2]
        with open(os.path.join(folder, "go.mod"), "w", encoding="utf-8") as file:
            file.write("module quickstart\n\ngo 1.21\n\n"
                       f"require holdline.example/im v0.1.0\n\nrequire {needs}\n"
                       f"replace holdline.example/im => {library}\n")
        shutil.copy(os.path.join(library, "go.sum"), folder)
        env = {**os.environ, "GOFLAGS": "-mod=mod"}
        subprocess.run(["go", "build", "-o", "quickstart", "."], cwd=folder, env=env, check=True)
        return [os.path.join(folder, "quickstart")], {}

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()

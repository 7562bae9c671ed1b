"""The JavaScript library of IM: its quick start in Node, against a server that is killed."""

import json
import os
import shutil
import subprocess
import unittest

from clients.device import CLIENTS
from clients.im_device import ImQuickStart
from clients.test_js import TSC


@unittest.skipUnless(shutil.which("node"), "node is not installed")
@unittest.skipUnless(os.path.exists(TSC), "no compiler of TypeScript: scripts/clients.sh")
class ImJs(ImQuickStart):
    LIBRARY, LANGUAGE = "im-js", "js"

    def command(self, folder, source):
        package = os.path.join(folder, "node_modules", "holdline-im")
        os.makedirs(package)
        library = os.path.join(CLIENTS, self.LIBRARY)
        shutil.copy(os.path.join(library, "package.json"), package)
        subprocess.run([TSC, "-p", library, "--outDir", os.path.join(package, "dist")],
                       check=True)
        path = os.path.join(folder, "quick_start.mjs")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        return ["node", path], {}

    def last(self):
        try:
            with open(os.path.join(self.folder, "ann.json"), encoding="utf-8") as file:
                items = json.load(file)
        except (FileNotFoundError, ValueError):
            return 0
        return max((int(value) for key, value in items.items() if key.endswith(":last")), default=0)

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()

"""The JavaScript library of MIOP 7 in Node: its quick start, against a server that is killed."""

import os
import shutil
import subprocess
import tempfile
import unittest

import fixture
from clients.device import ADDRESS, CLIENTS, QuickStart

PACKAGE = os.path.join(CLIENTS, "miop-js")
TSC = os.environ.get("TSC") or os.path.join(fixture.TARGET, "npm", "node_modules", ".bin", "tsc")
FLAG = "--experimental-websocket"


def has_websocket():
    return subprocess.run(["node", FLAG, "-e", "0"], capture_output=True).returncode == 0


class JavaScript(QuickStart):
    LIBRARY, LANGUAGE = "miop-js", "js"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not os.path.exists(TSC):
            raise unittest.SkipTest("the compiler of TypeScript is not here: scripts/clients.sh")
        # Compiled into a folder of its own: other tests may be compiling the package, too.
        cls.package = tempfile.mkdtemp(prefix="holdline-miop-js-")
        cls.addClassCleanup(shutil.rmtree, cls.package)
        shutil.copy(os.path.join(PACKAGE, "package.json"), cls.package)
        subprocess.run([TSC, "-p", PACKAGE, "--outDir", os.path.join(cls.package, "dist")],
                       check=True)

    def command(self, folder, source):
        modules = os.path.join(folder, "node_modules")
        os.makedirs(modules, exist_ok=True)
        link = os.path.join(modules, "holdline-miop")
        if not os.path.islink(link):
            os.symlink(self.package, link)
        path = os.path.join(folder, "quick-start.mjs")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        return ["node", *([FLAG] if "ws://" in source else []), path], None

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()

    @unittest.skipUnless(has_websocket(), "this Node has no WebSocket")
    def test_the_quick_start_loses_and_doubles_nothing_over_kills_with_websocket(self):
        self.nothing_is_lost_or_doubled(lambda source: source.replace(
            f'"{ADDRESS}"', f'"ws://{ADDRESS}/miop"'))

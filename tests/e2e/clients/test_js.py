"""The JavaScript library of MIOP 7, against a server that is killed: its quick start in Node, over
TCP and over WebSocket, and a page in Chromium."""

import http.server
import os
import re
import shutil
import subprocess
import tempfile
import threading
import unittest

import fixture
from clients.device import CLIENTS, Printed, QuickStart, restart
from fixture import Case, poll
from test_browser import FLAGS

PACKAGE = os.path.join(CLIENTS, "miop-js")
TSC = os.environ.get("TSC") or os.path.join(fixture.TARGET, "npm", "node_modules", ".bin", "tsc")
WEBSOCKET = "--experimental-websocket"


def compiled(case, source=PACKAGE):
    """A library, compiled into a folder of its own: others may be compiling the package, too."""
    if not os.path.exists(TSC):
        raise unittest.SkipTest("the compiler of TypeScript is not here: scripts/clients.sh")
    folder = tempfile.mkdtemp(prefix="holdline-miop-js-")
    case.addClassCleanup(shutil.rmtree, folder)
    shutil.copy(os.path.join(source, "package.json"), folder)
    subprocess.run([TSC, "-p", source, "--outDir", os.path.join(folder, "dist")], check=True)
    return folder


def has_websocket():
    return subprocess.run(["node", WEBSOCKET, "-e", "0"], capture_output=True).returncode == 0


class JavaScript(QuickStart):
    LIBRARY, LANGUAGE = "miop-js", "js"
    NEEDS = ("node", "npm")

    def test_the_quick_start_loses_and_doubles_nothing_over_kills(self):
        self.nothing_is_lost_or_doubled()

    def test_the_quick_starts_are_typescript_too(self):
        for library in ("miop-js", "im-js"):
            printed = Printed(library, "js")
            modules = os.path.join(self.folder, "node_modules")
            os.makedirs(modules, exist_ok=True)
            package = compiled(type(self), os.path.join(CLIENTS, library))
            name = f"holdline-{library.removesuffix('-js')}"
            os.symlink(package, os.path.join(modules, name))
            path = os.path.join(self.folder, f"{library}.mts")
            with open(path, "w", encoding="utf-8") as file:
                file.write(printed.source)
            subprocess.run([TSC, "--noEmit", "--strict", "--target", "es2022", "--module",
                            "nodenext", path], cwd=self.folder, check=True)

    @unittest.skipUnless(has_websocket(), "this Node has no WebSocket")
    def test_the_quick_start_loses_and_doubles_nothing_over_kills_with_websocket(self):
        self.nothing_is_lost_or_doubled(
            lambda source: re.sub(r'address: "(.*)"', r'address: "ws://\1/miop"', source),
            [f"NODE_OPTIONS={WEBSOCKET}"])


PAGE = """<!doctype html><meta charset="utf-8"><script type="module">
import { Client, LocalStore } from "./dist/index.js";
const say = (text) => fetch("/", { method: "POST", body: text });
const client = new Client({
  address: "%s", product: "demo", device: "page", store: new LocalStore(),
  onPush: async (push) => {
    await say(push.text);
    if (push.text === "reload") setTimeout(() => location.reload());
  },
});
client.start();
await say("# loaded");
</script>"""


class Page(Case):
    SHARED = False

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.package = compiled(cls)

    def serve(self, address):
        """Serves the page and the library; the port, and what the page says."""
        seen, package = [], self.package

        class Files(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *how):
                super().__init__(*how, directory=package)

            def do_POST(self):
                seen.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        with open(os.path.join(package, "index.html"), "w", encoding="utf-8") as file:
            file.write(PAGE % address)
        pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
        pages.handle_error = lambda *_: None  # connections that the browser lets go
        self.addCleanup(pages.server_close)
        self.addCleanup(pages.shutdown)
        threading.Thread(target=pages.serve_forever, args=(0.05,), daemon=True).start()
        return pages.server_port, seen

    def test_a_page_in_chromium_loses_and_doubles_nothing_over_kills_and_reloads(self):
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        if not chromium:
            self.skipTest("Chromium could not be installed: NO BROWSER WAS TRIED")
        # Pages are served at another port, which is another site.
        changes = {"listen.any": {"websocket_origins": ["*"]}}
        server = self.start(changes)
        port, seen = self.serve("ws://%s:%d/miop" % server.ports["any"])
        profile = tempfile.mkdtemp(prefix="holdline-chromium-")
        self.addCleanup(shutil.rmtree, profile, ignore_errors=True)
        browser = subprocess.Popen(
            [chromium, *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0",
             f"http://127.0.0.1:{port}/"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            server.online("page")
            server.push("page", "one")
            restart(server, changes)
            server.push("page", "reload")
            # A push that the old page handles while it goes comes again, as after a kill.
            poll(lambda: seen.count("# loaded") == 2, "the page is loaded again")
            server.push("page", "two")
            poll(lambda: server.state("page")["waiting"] == 0, "all is acknowledged")
            pushes = sorted(text for text in seen if not text.startswith("#"))
            self.assertEqual(pushes, ["one", "reload", "two"])
        finally:
            browser.terminate()
            browser.wait(20)

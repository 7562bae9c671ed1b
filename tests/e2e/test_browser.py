"""Devices that were not written in Python: a page in headless Chromium, and Node."""

import http.server
import os
import shutil
import subprocess
import tempfile
import threading

from fixture import Case, poll

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         # Nothing is looked for elsewhere.
         "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"]
FOLDER = os.path.dirname(os.path.abspath(__file__))


class Pages(http.server.BaseHTTPRequestHandler):
    """Serves the page and keeps what it says that it shows."""

    seen = []

    def do_GET(self):
        with open(os.path.join(FOLDER, "browser.html"), "rb") as file:
            page = file.read()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def do_POST(self):
        self.seen.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Browser(Case):
    # Pages are served at another port, which is another site.
    CHANGES = {"listen.any": {"websocket_origins": ["*"]}}

    def test_a_page_in_chromium_binds_by_websocket_and_shows_a_push(self):
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        if not chromium:
            self.skipTest("Chromium could not be installed: NO BROWSER WAS TRIED")
        pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
        pages.handle_error = lambda *_: None  # connections that the browser lets go
        self.addCleanup(pages.server_close)
        self.addCleanup(pages.shutdown)
        threading.Thread(target=pages.serve_forever, args=(0.05,), daemon=True).start()
        profile = tempfile.mkdtemp(prefix="holdline-chromium-")
        self.addCleanup(shutil.rmtree, profile, ignore_errors=True)
        port = self.server.ports["any"][1]
        browser = subprocess.Popen(
            [chromium, *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0",
             f"http://127.0.0.1:{pages.server_port}/#{port}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.server.online("browser", deadline_s=60)
            answer = self.server.push("browser", "Hello, page ✓", wait_ms=10000)
            self.assertEqual(answer["outcome"], "delivered")
            shown = poll(lambda: Pages.seen, "the page shows it")[0]
            self.assertIn("Hello, page ✓", shown)
            self.assertIn("bound", shown)
        finally:
            browser.terminate()
            browser.wait(20)
        self.server.offline("browser")


class Node(Case):
    def test_a_device_in_node_binds_and_receives_a_push(self):
        node = shutil.which("node")
        if not node:
            self.skipTest("node could not be installed: NO NODE WAS TRIED")
        port = str(self.server.ports["any"][1])
        device = subprocess.Popen([node, os.path.join(FOLDER, "node_device.js"), port, "node"],
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(device.kill)
        self.server.online("node")
        self.assertEqual(self.server.push("node", "Hello, Node", wait_ms=5000)["outcome"],
                         "delivered")
        output, _ = device.communicate(timeout=10)
        self.assertEqual(output.split("\n")[:3], ["bound", "push Hello, Node", "unbound"])
        self.assertEqual(device.returncode, 0)

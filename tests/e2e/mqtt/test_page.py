"""MQTT.js over a WebSocket in a page of headless Chromium."""

import http.server
import os
import shutil
import subprocess
import tempfile
import threading
import unittest

from fixture import poll
from mqtt.broker import Case
from mqtt.drivers import BUILT
from test_browser import FLAGS

FOLDER = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.join(BUILT, "node", "node_modules", "mqtt", "dist", "mqtt.min.js")


class Pages(http.server.BaseHTTPRequestHandler):
    """Serves the page and the library, and keeps what the page says that it shows."""

    seen = []

    def do_GET(self):
        path = LIBRARY if self.path == "/mqtt.min.js" else os.path.join(FOLDER, "browser.html")
        with open(path, "rb") as file:
            body = file.read()
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript" if path == LIBRARY else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.seen.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Page(Case):
    def test_a_page_subscribes_and_shows_what_comes(self):
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        if not chromium or not os.path.exists(LIBRARY):
            raise unittest.SkipTest("Chromium or MQTT.js is not installed: NO PAGE WAS TRIED")
        pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
        pages.handle_error = lambda *_: None  # connections that the browser lets go
        self.addCleanup(pages.server_close)
        self.addCleanup(pages.shutdown)
        threading.Thread(target=pages.serve_forever, args=(0.05,), daemon=True).start()
        profile = tempfile.mkdtemp(prefix="holdline-chromium-")
        self.addCleanup(shutil.rmtree, profile, ignore_errors=True)
        watcher = self.opened("watcher")
        watcher.subscribe(("page/will", 1))
        browser = subprocess.Popen(
            [chromium, *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0",
             f"http://127.0.0.1:{pages.server_port}/#{self.broker.port('ws')}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            def shows(words):
                return lambda: any(words in text for text in Pages.seen)
            poll(shows("page/in: from itself ✓"), f"it shows its own: {Pages.seen}", 60)
            watcher.publish("page/in", "from outside ✓", 2)
            poll(shows("page/in: from outside ✓"), f"it shows another's: {Pages.seen}")
        finally:
            browser.terminate()
            browser.wait(20)
        self.assertEqual(watcher.take().payload, b"closed")

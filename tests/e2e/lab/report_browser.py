"""A headless Chromium that is told what to do over a pipe (the DevTools protocol, no library)."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
         "--disable-background-networking", "--disable-component-update", "--disable-sync"]


def chromium():
    """Where it is; None: it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One page of it, and what its console said."""

    def __init__(self, width=1300, height=900):
        self.profile = tempfile.mkdtemp(prefix="holdline-chromium-")
        to_read, self.write = os.pipe()
        self.read, to_write = os.pipe()
        command = [chromium(), *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={self.profile}",
                   f"--window-size={width},{height}", "about:blank"]
        # Chromium reads descriptor 3 and writes 4.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}', *command],
            pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.number, self.rest = 0, b""
        self.errors, self.events = [], []
        pages = [each for each in self.call("Target.getTargets")["targetInfos"]
                 if each["type"] == "page"]
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=pages[0]["targetId"],
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    session = None

    def call(self, method, deadline_s=60, **parameters):
        """Does one thing and returns its answer."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + deadline_s
        while time.monotonic() < until:
            answer = self.next()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self.hear(answer)
        raise AssertionError(f"{method}: no answer")

    def next(self):
        while b"\0" not in self.rest:
            some = os.read(self.read, 1 << 20)
            if not some:
                raise AssertionError("Chromium is gone")
            self.rest += some
        line, self.rest = self.rest.split(b"\0", 1)
        return json.loads(line)

    def hear(self, event):
        method, told = event.get("method"), event.get("params", {})
        self.events.append(method)
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(told["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning"):
            self.errors.append(str(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.errors.append(told["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            url = told["request"]["url"]
            if not url.startswith(("file:", "blob:")):
                self.errors.append(f"it asked for {url[:100]}")

    def open(self, path):
        """Opens a file and waits until it stands."""
        self.events.clear()
        self.call("Page.navigate", url=f"file://{path}")
        while "Page.loadEventFired" not in self.events:
            self.hear(self.next())

    def run(self, script):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, x, y, to_x):
        """Presses at one place and lets go at another."""
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        for step in range(1, 6):
            self.mouse("mouseMoved", x + (to_x - x) * step / 5, y, button="left", buttons=1)
        self.mouse("mouseReleased", to_x, y, button="left", clickCount=1)

    def key(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=key if len(key) == 1 else "")

    def scheme(self, value):
        """Light or dark, as the machine would ask for it."""
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": value}])

    def picture(self, path, clip=None):
        more = {"clip": {**clip, "scale": 1}} if clip else {}
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=bool(clip), **more)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def paper(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"]))

    def close(self):
        self.process.terminate()
        self.process.wait(20)
        os.close(self.read)
        os.close(self.write)
        shutil.rmtree(self.profile, ignore_errors=True)

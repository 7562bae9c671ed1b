"""A headless Chromium with several people in it: each has a context, a page and a console.

It is told what to do over a pipe (the DevTools protocol, no library).
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

from fixture import TARGET, Case, poll
from im.terminal import CommandLine
from test_browser import FLAGS

CLIENTS = os.environ.get("HOLDLINE_E2E_CLIENTS") or os.path.join(TARGET, "e2e-clients")
AXE = os.path.join(CLIENTS, "axe", "node_modules", "axe-core", "axe.min.js")

# Pages that are not in front run as those that are.
FLAGS = [*FLAGS, "--hide-scrollbars", "--disable-renderer-backgrounding", "--lang=en-US",
         "--disable-backgrounding-occluded-windows", "--disable-background-timer-throttling"]


# The rows of a conversation, but for the line above what is new.
ROWS = ("[...document.querySelectorAll('#rows li')]"
        ".filter(it => it.querySelector('.text').textContent !== 'New messages')")


class Chromium:
    """The browser."""

    @staticmethod
    def path():
        """Where it is; None: it is not installed."""
        return shutil.which("chromium") or shutil.which("chromium-browser")

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="holdline-chromium-")
        to_read, self.write = os.pipe()
        self.read, to_write = os.pipe()
        # Chromium reads descriptor 3 and writes 4.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}', self.path(), *FLAGS,
             "--remote-debugging-pipe", f"--user-data-dir={self.profile}", "about:blank"],
            pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.number, self.rest, self.pages = 0, b"", {}

    def call(self, method, session=None, deadline_s=60, **parameters):
        """Does one thing and returns its answer; what pages tell meanwhile they are told."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + deadline_s
        while time.monotonic() < until:
            answer = self.next()
            if answer.get("id") == self.number:
                if "error" in answer:
                    fault = Navigated if "navigated" in str(answer["error"]) else AssertionError
                    raise fault(f"{method}: {answer['error']}")
                return answer["result"]
            page = self.pages.get(answer.get("sessionId"))
            if page:
                page.hear(answer)
        raise AssertionError(f"{method}: no answer")

    def next(self):
        while b"\0" not in self.rest:
            some = os.read(self.read, 1 << 20)
            if not some:
                raise AssertionError("Chromium is gone")
            self.rest += some
        line, self.rest = self.rest.split(b"\0", 1)
        return json.loads(line)

    def page(self, width=1000, height=700, context=None):
        """A page, of somebody else unless a context is named."""
        context = context or self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank",
                           browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, context)
        self.pages[session] = page
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            page.call(f"{domain}.enable")
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        return page

    def close(self):
        self.process.terminate()
        self.process.wait(20)
        os.close(self.read)
        os.close(self.write)
        shutil.rmtree(self.profile, ignore_errors=True)


class Navigated(AssertionError):
    """The page went on to another document while it was asked."""


class Page:
    """A tab, and what its console said."""

    def __init__(self, chromium, session, context):
        self.chromium, self.session, self.context = chromium, session, context
        self.errors, self.loaded, self.url = [], 0, None

    def call(self, method, **parameters):
        return self.chromium.call(method, self.session, **parameters)

    def hear(self, event):
        method, told = event.get("method"), event.get("params", {})
        if method == "Page.loadEventFired":
            self.loaded += 1
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(told["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning"):
            self.errors.append(str(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            url = told["request"]["url"]
            if not url.startswith(self.url.rsplit("/", 1)[0]):
                self.errors.append(f"it asked for {url[:100]}")

    def open(self, url=None):
        """Opens a page, or this one again, and waits until it stands."""
        self.url = url or self.url
        before = self.loaded
        self.call("Page.navigate", url=self.url)
        poll(lambda: self.holds("true") and self.loaded > before, f"{self.url} stands", 60)

    def run(self, script):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def picture(self, file):
        """Stores what is seen as a PNG."""
        told = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=False)
        with open(file, "wb") as out:
            out.write(base64.b64decode(told["data"]))

    def holds(self, condition):
        """Whether an expression is true; it is not while the page goes on to another document."""
        try:
            return self.run(f"!!({condition})")
        except Navigated:
            return False

    def until(self, condition, what, deadline_s=30):
        """Waits until an expression holds."""
        try:
            return poll(lambda: self.holds(condition), what, deadline_s)
        except AssertionError as error:
            text = self.run("document.body.innerText")
            raise AssertionError(f"{error}\n{text}\n{self.errors}") from None

    def offline(self, is_offline):
        self.call("Network.emulateNetworkConditions", offline=is_offline, latency=0,
                  downloadThroughput=-1, uploadThroughput=-1)

    def type(self, selector, text):
        """Types into a field, as a person or an input method would."""
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)

    def key(self, key, selector):
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        more = {"text": "\r", "windowsVirtualKeyCode": 13} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)

    def findings(self):
        """What axe-core finds that is serious."""
        if not self.run("!!window.axe"):
            with open(AXE, encoding="utf-8") as file:
                # By the debugger's protocol: the page itself lets no such script in.
                self.run(file.read() + "; 1")
        told = self.run(
            "axe.run(document, { resultTypes: ['violations'] }).then(it => JSON.stringify("
            "it.violations.filter(it => ['serious', 'critical'].includes(it.impact)).map(it => "
            "[it.id, it.help, it.nodes.slice(0, 3).map(node => node.html.slice(0, 160))])))")
        return json.loads(told)

    # -- what people do

    def enter(self, name, password):
        for field, text in (("account", name), ("password", password)):
            if text:
                self.run(f"document.getElementById('{field}').value = ''")
                self.type(f"#{field}", text)
        self.key("Enter", "#account")

    def write_to(self, name):
        self.type("#peer", name)
        self.key("Enter", "#peer")
        self.until("!document.getElementById('conversation').hidden", "a conversation is open")

    def choose(self, name):
        """Opens the conversation with somebody who is there."""
        wanted = json.dumps(name)
        button = ("[...document.querySelectorAll('#people button')].find("
                  f"it => it.firstChild.textContent === {wanted})")
        self.until(button, f"{name} is there")
        self.run(f"{button}.click()")

    def say(self, text):
        self.type("#text", text)
        self.key("Enter", "#text")

    def shows(self, rows, deadline_s=30):
        """The conversation has these rows and no others, but for the line above what is new."""
        found = (f"JSON.stringify({ROWS}.map(it => "
                 "it.classList[0] + ': ' + it.querySelector('.text').textContent))")
        wanted = json.dumps(json.dumps(rows, separators=(",", ":"), ensure_ascii=False))
        self.until(f"{found} === {wanted}", f"it shows {rows}", deadline_s)


PAGE = {"listen.im-ws": {"address": "127.0.0.1:0", "protocol": "im", "websocket": "/im"}}


def offer(choice, text=None):
    """The button by which a message's menu offers this: of the message with this text, or of the
    first one that has it. Undefined: it is not offered."""
    of = "true" if text is None else f"it.querySelector('.text').textContent === '{text}'"
    return (f"[...document.querySelectorAll('#rows li')].filter(it => {of})"
            ".flatMap(it => [...it.querySelectorAll('.menu button')])"
            f".find(it => it.textContent === '{choice}')")


class PageCase(CommandLine, Case):
    """Tests with a browser; each person has a context of their own: storage, sockets, tabs."""

    SHARED = False
    CHANGES = PAGE

    def setUp(self):
        super().setUp()
        if not Chromium.path():
            raise unittest.SkipTest("Chromium could not be installed: NO PAGE WAS TRIED")
        self.server = self.start(self.CHANGES)
        self.chromium = Chromium()
        self.addCleanup(self.chromium.close)

    def tearDown(self):
        self.server = None

    def person(self, name, password="", width=1000):
        page = self.page(width)
        page.enter(name, password)
        page.until("!document.getElementById('room').hidden", f"{name} is in")
        return page

    def page(self, width=1000):
        page = self.chromium.page(width)
        page.open("http://{}:{}/chat".format(*self.server.ports["im-ws"]))
        page.until("!document.getElementById('door').hidden", "the page stands")
        return page

    def chooses(self, page, text, choice):
        """A choice of the menu of the message with this text."""
        button = offer(choice, text)
        page.until(button, f"{text} has {choice} in its menu")
        page.run(f"{button}.click()")

    def calm(self, *pages):
        for page in pages:
            self.assertEqual(page.errors, [], "the console")

    def narrow(self, page):
        wide = page.run("[document.documentElement.scrollWidth, innerWidth]")
        self.assertLessEqual(wide[0], wide[1], "nothing is to be scrolled sideways")
        self.assertEqual(wide[1], 375)


# The contrast of every text with what is behind it (WCAG 2.2, 1.4.3).
CONTRAST = """(() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (color) => {
    const [r, g, b] = color.map((it) => it / 255)
      .map((it) => it <= 0.03928 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = (it) => {
    for (; it; it = it.parentElement) {
      const color = rgb(getComputedStyle(it).backgroundColor);
      if (color.length < 4 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll('body *')]
    .filter((it) => it.checkVisibility() && [...it.childNodes].some((node) =>
      node.nodeType === 3 && node.textContent.trim()))
    .map((it) => {
      const pair = [light(rgb(getComputedStyle(it).color).slice(0, 3)),
        light(paper(it).slice(0, 3))].sort((a, b) => b - a);
      return [it.tagName + '#' + it.id + '.' + it.className, (pair[0] + 0.05) / (pair[1] + 0.05)];
    });
})()"""

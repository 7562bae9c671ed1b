"""Somebody at the console in headless Chromium, and clients of MQTT to look at.

The browser is that of the chat page's tests (im/page.py).
"""

import json
import socket
import struct
import unittest

from fixture import DEADLINE_S, Case, poll
from im.page import AXE, Chromium, Page

TABS_MAX = 200


class Mqtt:
    """A client of MQTT 3.1.1 with a session that stays."""

    def __init__(self, address, client_id, user=None, password=None):
        self.socket = socket.create_connection(address, timeout=DEADLINE_S)
        flags = (0x80 if user else 0) | (0x40 if password else 0)
        fields = [client_id] + [field for field in (user, password) if field]
        body = b"\x00\x04MQTT\x04" + bytes([flags]) + struct.pack(">H", 0)
        body += b"".join(self.text(field) for field in fields)
        self.send(0x10, body)
        self.code = self.read()[1][1]

    @staticmethod
    def text(value):
        value = value.encode()
        return struct.pack(">H", len(value)) + value

    def send(self, kind, body):
        length, head = len(body), b""
        while True:
            length, low = divmod(length, 128)
            head += bytes([low | (0x80 if length else 0)])
            if not length:
                break
        self.socket.sendall(bytes([kind]) + head + body)

    def some(self, count):
        got = b""
        while len(got) < count:
            more = self.socket.recv(count - len(got))
            if not more:
                raise ConnectionError("closed")
            got += more
        return got

    def read(self):
        kind, length, shift = self.some(1)[0], 0, 0
        while True:
            byte = self.some(1)[0]
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return kind, self.some(length)

    def subscribe(self, topic, qos=1):
        self.send(0x82, b"\x00\x01" + self.text(topic) + bytes([qos]))
        assert self.read()[0] == 0x90

    def publish(self, topic, payload, retain=False):
        """At QoS 1: it is taken when this returns."""
        self.send(0x32 | retain, self.text(topic) + b"\x00\x02" + payload.encode())
        kind, _ = self.read()
        while kind != 0x40:
            kind, _ = self.read()

    def close(self):
        self.socket.close()

    def is_closed(self):
        """The server ended it."""
        try:
            return self.socket.recv(1 << 16) == b""
        except ConnectionError:
            return True


class Operator:
    """A page of the console with somebody who is logged in."""

    def __init__(self, chromium, server, width=1280, height=800):
        self.page = chromium.page(width, height)
        self.server = server
        self.base = "http://{}:{}/".format(*server.ports["api"])

    def open(self, route=""):
        self.page.open(self.base + (f"#/{route}" if route else ""))
        self.page.until("document.body.querySelector('#door, #frame')", "the console stands")
        return self

    def log_in(self, token=None):
        self.page.type("#token", token or self.server.token)
        self.page.key("Enter", "#token")
        self.page.until("document.getElementById('frame')", "somebody is logged in")
        return self

    def go(self, route, title):
        self.page.run(f"location.hash = {json.dumps('#/' + route)}")
        self.page.until(f"document.getElementById('title')?.textContent === {json.dumps(title)} "
                        f"&& !document.querySelector('#page [aria-busy]')", f"{title} stands")
        return self

    def labels(self):
        """The pages in the navigation, a line each."""
        return self.page.run("[...document.querySelectorAll('#pages a')]"
                             ".map(it => it.textContent.trim()).join('\\n')") + "\n"

    def text(self):
        return self.page.run("document.getElementById('page').innerText")

    def says(self, text, deadline_s=30):
        wanted = json.dumps(text)
        self.page.until(f"document.body.innerText.includes({wanted})", f"it says {text!r}", deadline_s)

    def click(self, text, of="button, a"):
        wanted, of = json.dumps(text), json.dumps(of)
        found = (f"[...document.querySelectorAll({of})].find(it => it.offsetParent !== null && "
                 f"it.textContent.trim() === {wanted})")
        self.page.until(found, f"{text} can be clicked")
        self.page.run(f"{found}.click()")

    def fill(self, selector, text):
        self.page.run(f"document.querySelector({json.dumps(selector)}).value = ''")
        self.page.type(selector, text)

    def submit(self, selector):
        self.page.run(f"document.querySelector({json.dumps(selector)}).closest('form').requestSubmit()")

    def pair(self, term):
        """The value beside a name."""
        return self.page.run(
            "[...document.querySelectorAll('#page dt')].find(it => it.textContent === "
            f"{json.dumps(term)})?.nextElementSibling.textContent")

    def column(self, number=0):
        """The texts of a column of the first table."""
        return self.page.run("[...document.querySelectorAll('#page table:first-of-type tbody tr')]"
                             f".map(it => it.cells[{number}].textContent)")

    def figure(self, title):
        """A key figure of the overview."""
        return self.page.run(
            "[...document.querySelectorAll('#page .figures > *')].find(it => it.firstChild.textContent "
            f"=== {json.dumps(title)})?.children[1].textContent")

    def scheme(self, scheme):
        self.page.call("Emulation.setEmulatedMedia",
                       features=[{"name": "prefers-color-scheme", "value": scheme}])

    def findings(self):
        """What axe-core finds that is serious."""
        return self.page.findings()

    def tab(self):
        for kind in ("keyDown", "keyUp"):
            self.page.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab",
                           windowsVirtualKeyCode=9)

    def reached(self):
        """What the keyboard reaches by Tab, in order, until it begins again."""
        self.page.run(
            "document.activeElement.blur(); window.tabbed = new Set(); window.stood = new Set("
            "document.querySelectorAll('a, button, input, select, textarea, summary, [tabindex=\"0\"]')); 1")
        seen = []
        for _ in range(TABS_MAX):
            self.tab()
            told = self.page.run(
                "(() => { const it = document.activeElement; if (!it || it === document.body) return ''; "
                "if (tabbed.has(it)) return null; tabbed.add(it); "
                "return it.getAttribute('aria-label') || it.textContent.trim() || it.name || it.tagName; })()")
            if told is None:
                return seen
            seen.append(told)
        return seen


class Consoles(Case):
    """Tests with a browser at the console."""

    SHARED = False
    CHANGES = {}

    def setUp(self):
        super().setUp()
        if not Chromium.path():
            raise unittest.SkipTest("Chromium could not be installed: NO CONSOLE WAS TRIED")
        self.server = self.start(self.CHANGES)
        self.chromium = Chromium()
        self.addCleanup(self.chromium.close)

    def tearDown(self):
        self.server = None

    def operator(self, token=None, width=1280, route=""):
        return Operator(self.chromium, self.server, width).open(route).log_in(token)

    def mqtt(self, client_id, **how):
        client = Mqtt(self.server.ports["any"], client_id, **how)
        self.addCleanup(client.close)
        return client

    def device(self, name):
        """A device of MIOP that is bound."""
        device = self.server.device()
        self.addCleanup(device.close)
        device.bind(name)
        self.server.online(name)
        return device

    def token(self, name, *scopes):
        return self.server.ask("POST", "/v1/tokens", {"name": name, "scopes": list(scopes)})["token"]

    def calm(self, *operators, but=()):
        for operator in operators:
            errors = [it for it in operator.page.errors if not any(ok in it for ok in but)]
            self.assertEqual(errors, [], "the browser's console")

    def narrow(self, operator, what):
        wide = operator.page.run("[document.documentElement.scrollWidth, innerWidth]")
        self.assertLessEqual(wide[0], wide[1], f"{what} is to be scrolled sideways")


__all__ = ["AXE", "Consoles", "Mqtt", "Operator", "Page", "poll"]

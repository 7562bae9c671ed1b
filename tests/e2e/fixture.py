"""Starts `holdline serve` for a test, asks its API, and takes it down again by its process id.

Every address is port 0 on loopback, read back from the welcome that the server prints; the data
folder is temporary. Waiting is polling an endpoint with a deadline, never a bare sleep. The log of
a server whose test failed is printed with the failure.
"""

import contextlib
import ctypes
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import miop
from miop import DEADLINE_S

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target")
BINARY = os.environ.get("HOLDLINE_E2E_BINARY") or os.path.join(TARGET, "debug", "holdline")
SECRET = bytes(range(32))

DEFAULTS = {
    "server": {"shards": 2, "pin": False},
    "listen.any": {"address": "127.0.0.1:0", "websocket": "/miop"},
    "api": {"address": "127.0.0.1:0"},
    "limits": {"connections_max": 2000, "drain_ms": 200, "retry_jitter_ms": 0},
    "products.demo": {"app_id": 1, "anonymous": "loopback",
                      "secrets": [{"key_id": 1, "hex": SECRET.hex()}]},
}


def toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)


def configuration(changes=None, tail=""):
    """The defaults of these tests with `changes`, {section: {key: value} or None to leave out}."""
    sections = {name: dict(keys) for name, keys in DEFAULTS.items()}
    for name, keys in (changes or {}).items():
        if keys is None:
            sections.pop(name, None)
        else:
            sections.setdefault(name, {}).update(keys)
    text = ""
    for name, keys in sections.items():
        lines = [f"{key} = {toml(value)}" for key, value in keys.items() if value is not None]
        text += f"[{name}]\n" + "\n".join(lines) + "\n\n"
    return text + tail


def environment(more=None):
    """This process's, without what would configure the server."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HOLDLINE_")}
    return {**kept, **(more or {})}


def end_with_parent():
    """In a child: it is killed when this process is, so that no server outlives its tests."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def mounts_are_permitted():
    """Whether this machine lets us make mount namespaces: then disks can be full or read-only."""
    script = 'mount -t tmpfs -o size=64k none /mnt'
    words = ["unshare", "-m", "sh", "-c", script]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def poll(question, what, deadline_s=DEADLINE_S):
    """Asks until the answer is true; the answer."""
    end = time.monotonic() + deadline_s
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        time.sleep(0.01)


def run(*arguments, env=None, timeout=DEADLINE_S, prefix=(), cwd=None):
    """Runs the binary to its end."""
    return subprocess.run([*prefix, BINARY, *arguments], env=environment(env), timeout=timeout,
                          capture_output=True, text=True, cwd=cwd, check=False)


class Server:
    """A running `holdline serve`."""

    def __init__(self, changes=None, tail="", data=None, env=None, prefix=(), arguments=(),
                 handed=()):
        self.folder = tempfile.mkdtemp(prefix="holdline-e2e-")
        self.data = data or os.path.join(self.folder, "data")
        self.file = os.path.join(self.folder, "holdline.toml")
        self.env, self.prefix, self.arguments = env, prefix, arguments
        self.handed = handed
        self.configure(changes, tail)
        self.log, self.turned = "", 0
        self.start()

    def configure(self, changes=None, tail=""):
        """Writes the file, in one piece: the server may be reading it."""
        with open(self.file + ".new", "w", encoding="utf-8") as file:
            file.write(configuration(changes, tail))
        os.replace(self.file + ".new", self.file)

    def start(self):
        """Starts it. Over a restart its ports may have gone to outgoing connections of other
        tests, which soon end: then it is tried again."""
        deadline = time.monotonic() + 3 * DEADLINE_S
        while not self._starts():
            if " is in use by another program" not in self.log_of_start \
                    or time.monotonic() > deadline:
                raise AssertionError(
                    f"the server did not start:\n{self.welcome}{self.log_of_start}")
            time.sleep(0.2)

    def _starts(self):
        before = len(self.log)
        words = [*self.prefix, BINARY, "serve", "--config", self.file, "--data", self.data]
        self.process = subprocess.Popen(
            [*words, *self.arguments], env=environment(self.env), cwd=self.folder,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=end_with_parent,
            pass_fds=self.handed)
        self.pid = self.process.pid
        self.welcome, self._api = "", None
        threading.Thread(target=self._read_log, args=(self.process,), daemon=True).start()
        guard = threading.Timer(DEADLINE_S, self.process.kill)
        guard.start()
        for line in self.process.stdout:
            self.welcome += line
            if line.startswith("Stop with"):
                break
        guard.cancel()
        if "Stop with" not in self.welcome:
            self.process.wait()
            poll(lambda: self.process.stderr.closed, "the end of the log")
            self.log_of_start = self.log[before:]
            return False
        found = re.findall(r"^  (\S+) +(?:http://)?(\d+\.\d+\.\d+\.\d+):(\d+)$", self.welcome, re.M)
        self.ports = {name: (host, int(port)) for name, host, port in found}
        with contextlib.suppress(OSError):
            with open(os.path.join(self.data, "api.token"), encoding="utf-8") as file:
                self.token = file.read().strip()
        return True

    def _read_log(self, process):
        for line in process.stderr:
            self.log += re.sub(r"\x1b\[[0-9;]*m", "", line)
        process.stderr.close()

    def settle(self):
        """Every shard has looked at its sockets and mailbox several times since, so that what had
        been sent has gone as far as it goes: a message passes three shards at most."""
        for _ in range(8):
            self.status()

    # -- ends

    def signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        """As a power cut of the process: SIGKILL."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self, timeout=15):
        """SIGTERM; the exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.wait(timeout)

    def wait(self, timeout=15):
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server did not end in {timeout} s:\n{self.log}") from None
        finally:
            self.process.stdout.close()

    def close(self):
        if self._api:
            self._api.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if not self.process.stdout.closed:
            self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- devices

    def device(self, version=7, listener="any", **how):
        """A connection to a listener."""
        return miop.Device(self.ports[listener], version, **how)

    # -- the API

    def api(self, method, path, body=None, token=None, raw=None, headers=None):
        """Status and JSON (or text) of one request, over a connection that is kept."""
        head = {"Authorization": f"Bearer {self.token if token is None else token}",
                **(headers or {})}
        content = raw if raw is not None else json.dumps(body) if body is not None else None
        for attempt in range(2):
            if self._api is None:
                self._api = http.client.HTTPConnection(*self.ports["api"], timeout=DEADLINE_S)
            try:
                self._api.request(method, path, content, head)
                answer = self._api.getresponse()
                text = answer.read()
                break
            except (http.client.RemoteDisconnected, ConnectionError):
                self._api.close()
                self._api = None
                if attempt:
                    raise
        self.headers = dict(answer.getheaders())
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text.decode()

    def ask(self, method, path, body=None):
        """The answer of a request that must succeed."""
        status, answer = self.api(method, path, body)
        if status not in (200, 201):
            raise AssertionError(f"{method} {path} {body}: {status} {answer}")
        return answer

    def push(self, device=None, body="hello", product="demo", **more):
        """One push; to a device its outcome, otherwise the whole answer."""
        order = {"product": product, "body": body, **more}
        if device is not None:
            order["device"] = device
        answer = self.ask("POST", "/v1/pushes", order)
        if device is None:
            return answer
        outcome, = answer["outcomes"]
        return {"id": int(answer["id"]), **outcome}

    def state(self, device, product="demo"):
        """What the API says of a device; None if it is not known."""
        status, answer = self.api("GET", f"/v1/products/{product}/devices/{device}")
        return answer if status == 200 else None

    def status(self):
        return self.ask("GET", "/v1/status")

    def count(self, name):
        return self.status()["counters"][name]

    def reading(self, name):
        """What a part of the server says that is no counter of a shard; None if there is none."""
        return self.ask("GET", "/v1/overview")["readings"].get(name)

    def metrics(self):
        status, text = self.api("GET", "/metrics")
        assert status == 200, text
        return text

    def online(self, device, product="demo", deadline_s=DEADLINE_S):
        return poll(lambda: (self.state(device, product) or {}).get("online"),
                    f"{device} is online", deadline_s)

    def offline(self, device, product="demo", deadline_s=DEADLINE_S):
        """Waits until a device that was there is not; what the API says then."""
        def gone():
            state = self.state(device, product)
            return state if state and not state["online"] else None
        return poll(gone, f"{device} is offline", deadline_s)

    @contextlib.contextmanager
    def closes(self, deadline_s=DEADLINE_S, **reasons):
        """Within, exactly so many connections end, for these reasons and no others."""
        before = self.status()["closed"]

        def ended():
            after = self.status()["closed"]
            return {reason: count - before.get(reason, 0) for reason, count in after.items()
                    if count != before.get(reason, 0)}
        yield
        end = time.monotonic() + deadline_s
        while ended() != reasons:
            if time.monotonic() > end:
                raise AssertionError(f"ended for {ended()} instead of {reasons}")
            time.sleep(0.01)

    def all_gone(self):
        """Every connection accepted was counted as ended, once."""
        poll(lambda: self.status()["connections"] == 0, "no connection is left")
        status = self.status()
        accepted = status["counters"]["connections_accepted_total"]
        closed = sum(status["closed"].values())
        assert accepted == closed, f"{accepted} accepted, {closed} closed: {status['closed']}"

    def logged(self, text, deadline_s=DEADLINE_S):
        """Waits until the log says so, behind the page that was turned last."""
        return poll(lambda: text in self.page(), f"the log says {text!r}:\n{self.log}", deadline_s)

    def turn_page(self):
        """What the log says from here on is a page of its own."""
        self.turned = len(self.log)

    def page(self):
        return self.log[self.turned:]

    def memory(self):
        """Resident bytes of the process."""
        with open(f"/proc/{self.pid}/status", encoding="utf-8") as file:
            return int(re.search(r"VmRSS:\s+(\d+) kB", file.read()).group(1)) * 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))


class Case(unittest.TestCase):
    """A test; `CHANGES` configures the one server that the tests of a class share, whose environment
    has `ENV` more."""

    CHANGES, TAIL, SHARED, ENV = {}, "", True, None

    @classmethod
    def setUpClass(cls):
        cls.server = Server(cls.CHANGES, cls.TAIL, env=cls.ENV) if cls.SHARED else None

    @classmethod
    def tearDownClass(cls):
        if cls.server:
            cls.server.close()

    def setUp(self):
        self.servers = []
        self.log_from = len(self.server.log) if self.server else 0
        if self.server:
            self.server.all_gone()  # what the test before has closed is not counted in this one
        # A name of its own for each test, so that tests of one server do not meet.
        self.name = self.id().rsplit(".", 1)[-1].replace("test_", "")[:50]

    def start(self, *arguments, **how):
        """A server for this test alone."""
        server = Server(*arguments, **how)
        self.servers.append(server)
        self.addCleanup(server.close)
        return server

    def device(self, version=7, server=None, **how):
        device = (server or self.server).device(version, **how)
        self.addCleanup(device.close)
        return device

    def bound(self, device, version=7, server=None, connect=None, **how):
        """A device that is bound, or the test fails."""
        link = self.device(version, server, **(connect or {}))
        answer = link.bind(device, **how)
        result = answer["result"] if version == 7 else int(answer["r"])
        self.assertIn(result, (0, miop.RESUMED))
        return link

    def quiet(self, device, server=None, why=None):
        """Nothing is on its way to a device: the server has looked everywhere and has nothing."""
        (server or self.server).settle()
        self.assertEqual(device.told(), [], why)

    def run(self, result=None):
        before = len(result.failures) + len(result.errors) if result is not None else 0
        super().run(result)
        if result is not None and len(result.failures) + len(result.errors) > before:
            logs = [server.log for server in self.servers]
            if self.server:
                logs.append(self.server.log[self.log_from:])
            for log in filter(None, logs):
                sys.stderr.write(f"-- log of the server\n{log[-3000:]}\n")
        return result


class Sse:
    """Server-sent events, read by a thread of its own into a list."""

    def __init__(self, server, query="", last=None, path="/v1/events", source=None):
        self.events, self.changed = [], threading.Condition()
        self.link = http.client.HTTPConnection(*server.ports["api"], timeout=DEADLINE_S,
                                               source_address=source and (source, 0))
        headers = {"Authorization": f"Bearer {server.token}"}
        if last:
            headers["Last-Event-ID"] = last
        self.link.request("GET", path + query, headers=headers)
        self.answer = self.link.getresponse()
        self.status, self.type = self.answer.status, self.answer.getheader("content-type")
        self.socket = self.link.sock
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        event = {}
        with contextlib.suppress(Exception):
            for line in self.answer:
                name, _, value = line.decode().rstrip("\n").partition(":")
                if name:
                    event[name] = value.removeprefix(" ")
                elif event.get("data"):
                    with self.changed:
                        self.events.append((event.get("event"), json.loads(event["data"]), event))
                        self.changed.notify_all()
                    event = {}

    def wait(self, count, deadline_s=DEADLINE_S):
        """The first so many events, as (type, data, fields)."""
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.events) >= count, deadline_s):
                raise AssertionError(f"{len(self.events)} of {count} events: {self.events}")
            return self.events[:count]

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(2)
        self.link.close()

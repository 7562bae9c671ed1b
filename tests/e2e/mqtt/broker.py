"""Starts the broker that a test talks to: Holdline, or mosquitto as a second opinion.

HOLDLINE_E2E_MQTT=mosquitto runs the same tests against mosquitto, which shows whether a failure
is the server's or the test's. Ports are chosen here, not by the server, so that they stay the
same over its restarts. Waiting is polling with a deadline.
"""

import fcntl
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest
import zlib

import fixture
from fixture import poll
from mqtt.wire import V311, V5, Wire

KIND = os.environ.get("HOLDLINE_E2E_MQTT", "holdline")
IS_HOLDLINE = KIND == "holdline"
PORTS = range(20000, 30000)  # below what the kernel gives to clients
BLOCK_PORTS = 50


def holdline_only(why):
    """Marks a test that mosquitto cannot pass, and says why."""
    return unittest.skipUnless(IS_HOLDLINE, f"only Holdline: {why}")


def descriptors(count):
    """Raises this process's limit, or skips the test that needs so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        if hard != resource.RLIM_INFINITY and hard < count:
            raise unittest.SkipTest(f"needs {count} descriptors, the system grants {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def _ports():
    """Each port of loopback that is this process's own and that nobody listens on, once.

    Ports come in blocks, a block belongs to who holds the lock on its file until he ends. So a port
    that was chosen and is not listened on yet, or not during a restart, is nobody else's either.
    """
    folder = os.path.join(tempfile.gettempdir(), f"holdline-ports-{os.getuid()}")
    os.makedirs(folder, exist_ok=True)
    blocks = [PORTS[start:start + BLOCK_PORTS] for start in range(0, len(PORTS), BLOCK_PORTS)]
    random.Random(os.getpid()).shuffle(blocks)
    locks = []
    for block in blocks:
        locks.append(open(os.path.join(folder, str(block.start)), "w", encoding="utf-8"))
        try:
            fcntl.flock(locks[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        for port in block:
            with socket.socket() as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    trial.bind(("127.0.0.1", port))
                except OSError:
                    continue
            yield port


_free_ports = _ports()


def free_port():
    """A port of loopback that nobody listens on, and that no other test is given."""
    return next(_free_ports)


def passwords(path, users):
    """A password file as mosquitto_passwd makes it."""
    for number, (user, word) in enumerate(users.items()):
        subprocess.run(["mosquitto_passwd", "-b", *([] if number else ["-c"]), path, user, word],
                       check=True, capture_output=True, timeout=fixture.DEADLINE_S)


class Plan:
    """What a test wants of its broker."""

    def __init__(self, folder, tls=None, users=None, acl=None, anonymous=None, limits=None,
                 changes=None, tail="", conf="", is_storm=False):
        """`limits`: by their names in Holdline; `changes`, `tail`: more of holdline.toml, `conf`:
        more of mosquitto.conf. `anonymous`: by default, unless there are users. `is_storm`: too
        much for a mosquitto that saves each change."""
        self.folder, self.tls, self.limits = folder, tls, limits or {}
        self.is_storm = is_storm
        self.changes, self.tail, self.conf = changes or {}, tail, conf
        self.anonymous = not users if anonymous is None else anonymous
        self.users_file = self.acl_file = None
        if users:
            self.users_file = os.path.join(folder, "passwords")
            passwords(self.users_file, users)
        if acl is not None:
            self.acl_file = os.path.join(folder, "acl")
            with open(self.acl_file, "w", encoding="utf-8") as file:
                file.write(acl)
        doors = ["mqtt", "ws"] + (["mqtts", "mutual", "wss"] if tls else [])
        self.ports = {door: free_port() for door in doors}
        self.certificate = self.key = None
        if tls:
            self.certificate, self.key = tls.issue("localhost", "DNS:localhost,IP:127.0.0.1",
                                                   f"server-{os.path.basename(folder)}")


def holdline_changes(plan):
    """The sections of holdline.toml that a plan means."""
    at = {door: f"127.0.0.1:{port}" for door, port in plan.ports.items()}
    doors = {"anonymous": "loopback" if plan.anonymous else "no"}
    changes = {
        "listen.any": None,
        "listen.mqtt": {"address": at["mqtt"], "protocol": "mqtt", **doors},
        "listen.ws": {"address": at["ws"], "protocol": "http", "websocket": "/mqtt",
                      "websocket_origins": ["*"], **doors},
        "access": {"password_file": plan.users_file, "acl_file": plan.acl_file},
        "mqtt": dict(plan.limits),
    }
    if plan.tls:
        tls = {"protocol": "mqtt", "tls": True, **doors}
        changes["tls"] = {"certificate": plan.certificate, "key": plan.key,
                          "client_ca": plan.tls.certificate}
        changes["listen.mqtts"] = {"address": at["mqtts"], **tls}
        changes["listen.mutual"] = {"address": at["mutual"], **tls,
                                    "client_certificates": "required",
                                    "methods": ["certificate", "passwords"]}
        changes["listen.wss"] = {"address": at["wss"], "protocol": "http", "tls": True,
                                 "websocket": "/mqtt", **doors}
    for name, keys in plan.changes.items():
        changes[name] = {**changes.get(name, {}), **keys} if keys is not None else None
    return changes


class Holdline:
    """A running `holdline serve`, with MQTT on its listeners."""

    def __init__(self, plan):
        self.plan = plan
        self.server = fixture.Server(holdline_changes(plan), plan.tail)

    def start(self):
        self.server.start()

    def stop(self):
        return self.server.stop()

    def kill(self):
        self.server.kill()

    def close(self):
        self.server.close()

    @property
    def pid(self):
        return self.server.pid

    @property
    def log(self):
        return self.server.log

    def memory(self):
        return self.server.memory()

    def settle(self):
        self.server.settle()


class Mosquitto:
    """A running mosquitto that keeps what it has on disk at once."""

    def __init__(self, plan):
        self.plan = plan
        self.file, self.told = os.path.join(plan.folder, "mosquitto.conf"), None
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(self.conf())
        self.start()

    def conf(self):
        plan = self.plan
        lines = ["per_listener_settings false", "user root", "persistence true",
                 f"persistence_location {plan.folder}/", "autosave_interval 1",
                 f"autosave_on_changes {'false' if plan.is_storm else 'true'}",
                 "max_queued_messages 100000", "sys_interval 1",
                 "max_inflight_messages 60000",
                 f"allow_anonymous {'true' if plan.anonymous else 'false'}"]
        if plan.users_file:
            lines.append(f"password_file {plan.users_file}")
        if plan.acl_file:
            lines.append(f"acl_file {plan.acl_file}")
        lines.append(plan.conf)
        for door, port in plan.ports.items():
            lines.append(f"listener {port} 127.0.0.1")
            if door in ("ws", "wss"):
                lines.append("protocol websockets")
            if door in ("mqtts", "mutual", "wss"):
                lines += [f"certfile {plan.certificate}", f"keyfile {plan.key}",
                          f"cafile {plan.tls.certificate}"]
            if door == "mutual":
                lines += ["require_certificate true", "use_identity_as_username true"]
        return "\n".join(lines) + "\n"

    def start(self):
        self.output = open(os.path.join(self.plan.folder, "mosquitto.log"), "ab")
        self.process = subprocess.Popen(
            ["mosquitto", "-c", self.file], stdout=self.output, stderr=self.output,
            preexec_fn=fixture.end_with_parent)
        self.pid = self.process.pid

        def listens():
            assert self.process.poll() is None, self.log
            with socket.socket() as trial:
                return trial.connect_ex(("127.0.0.1", self.plan.ports["mqtt"])) == 0
        poll(listens, "mosquitto listens")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(15)
        self.output.close()
        return code

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.output.close()

    def close(self):
        if self.process.poll() is None:
            self.kill()
        self.told = self.log

    @property
    def log(self):
        if self.told is not None:
            return self.told
        with open(os.path.join(self.plan.folder, "mosquitto.log"), encoding="utf-8") as file:
            return file.read()

    def settle(self):
        """One thread: the answer to a ping is enough."""

    def memory(self):
        with open(f"/proc/{self.pid}/status", encoding="utf-8") as file:
            line = next(line for line in file if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024


class Broker:
    """A broker of the kind that is tried; `mosquitto=True`: mosquitto in any case."""

    def __init__(self, mosquitto=False, **wishes):
        self.folder = tempfile.mkdtemp(prefix="holdline-mqtt-")
        try:
            self.plan = Plan(self.folder, **wishes)
            kind = Mosquitto if mosquitto or not IS_HOLDLINE else Holdline
            self.inner = kind(self.plan)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self.start, self.stop, self.kill = self.inner.start, self.inner.stop, self.inner.kill
        self.memory, self.settle = self.inner.memory, self.inner.settle

    @property
    def server(self):
        """The `fixture.Server` below, for its API."""
        return self.inner.server

    @property
    def pid(self):
        return self.inner.pid

    @property
    def log(self):
        return self.inner.log

    def port(self, door="mqtt"):
        return self.plan.ports[door]

    def address(self, door="mqtt"):
        return "127.0.0.1", self.port(door)

    def close(self):
        self.inner.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def restart(self, kill=False):
        """Down and up again, by SIGTERM or by SIGKILL."""
        if kill:
            self.kill()
        else:
            self.stop()
        self.start()

    def wire(self, version=V311, door="mqtt", **how):
        return Wire(self.address(door), version, **how)


class Case(unittest.TestCase):
    """A test of the broker; `PLAN` is what the one broker wants that the tests of a class share."""

    PLAN, SHARED = {}, True
    broker = None

    @classmethod
    def setUpClass(cls):
        cls.broker = Broker(**cls.PLAN) if cls.SHARED else None

    @classmethod
    def tearDownClass(cls):
        if cls.broker:
            cls.broker.close()

    def setUp(self):
        self.brokers = []
        self.log_from = len(self.broker.log) if self.broker else 0
        # A name of its own for each test, so that tests of one broker do not meet; short, for the
        # identifiers of 3.1 end at 23 bytes.
        words = self.id().rsplit(".", 1)[-1].replace("test_", "")
        self.name = f"{words.replace('_', '')[:9]}{zlib.crc32(words.encode()) % 10000:04}"

    def start(self, **wishes):
        """A broker for this test alone."""
        broker = Broker(**wishes)
        self.brokers.append(broker)
        self.addCleanup(broker.close)
        return broker

    def wire(self, version=V311, broker=None, door="mqtt", **how):
        wire = (broker or self.broker).wire(version, door, **how)
        self.addCleanup(wire.close)
        return wire

    def opened(self, client_id="", version=V311, broker=None, buffer=None, door="mqtt", **how):
        """A raw client that is let in."""
        wire = self.wire(version, broker, door, receive_buffer=buffer)
        wire.connack = wire.open(client_id, **how)
        return wire

    def opened5(self, client_id="", **how):
        return self.opened(client_id, V5, **how)

    def quiet(self, client, broker=None):
        """Nothing is on its way to a client: the server has looked everywhere and has nothing."""
        (broker or self.broker).settle()
        self.assertEqual(client.told(), [])

    def drained(self, client, broker=None):
        """All messages that are on their way to a client, acknowledged to the end. What a session
        finds in the log when it comes back is read by another thread, and may come later."""
        found = []
        while True:
            (broker or self.broker).settle()
            client.kept = client.told()
            if not client.kept:
                return found
            while client.kept:
                found.append(client.take())

    def run(self, result=None):
        before = len(result.failures) + len(result.errors) if result is not None else 0
        super().run(result)
        if result is not None and len(result.failures) + len(result.errors) > before:
            logs = [broker.log for broker in self.brokers]
            if self.broker:
                logs.append(self.broker.log[self.log_from:])
            for log in filter(None, logs):
                fixture.sys.stderr.write(f"-- log of the broker\n{log[-3000:]}\n")
        return result

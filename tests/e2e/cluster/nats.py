"""NATS servers, and nodes of a cluster over them, on loopback or on machines of their own.

Servers have fixed ports and folders of their own, so that one that is killed comes back as itself.
Waiting is polling with a deadline.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request
from dataclasses import dataclass, field

import fixture
from fixture import Server, poll
from mqtt.broker import free_port

CLIENTS = os.environ.get("HOLDLINE_E2E_CLIENTS") or os.path.join(fixture.TARGET, "e2e-clients")
TOOL = os.environ.get("HOLDLINE_NATS_SERVER") or os.path.join(CLIENTS, "nats", "bin", "nats-server")
# An election of NATS, on a busy machine.
PATIENT_S = 60
# Attempts to find ports that nobody takes before the servers do.
ATTEMPTS = 5
TOKEN = "0123456789abcdef"


def needed(of):
    """Marks tests that need NATS servers."""
    return unittest.skipUnless(os.access(TOOL, os.X_OK),
                               "nats-server could not be had: NO CLUSTER WAS TRIED")(of)


@dataclass
class Place:
    """Where a NATS server runs: its address and ports, the folder of its streams, and the words
    before a command that is to run there."""

    host: str = "127.0.0.1"
    port: int = field(default_factory=free_port)
    route: int = field(default_factory=free_port)
    page: int = field(default_factory=free_port)
    store: str | None = None
    words: list = field(default_factory=list)


class Nats:
    """Servers with JetStream, three of them unless told otherwise.

    `sync`: its sync_interval. `jetstream`: whether they have it. `more`: lines of configuration,
    such as TLS and accounts. `scheme`: of the addresses."""

    def __init__(self, places=None, count=3, sync="always", jetstream=True, more="",
                 scheme="nats", store_max="8Gb"):
        self.folder = tempfile.mkdtemp(prefix="holdline-nats-")
        self.sync, self.jetstream, self.more, self.scheme = sync, jetstream, more, scheme
        self.store_max, self.places, self.processes = store_max, places, []
        for attempt in range(ATTEMPTS):
            if places is None:
                self.places = [Place() for _ in range(count)]
            if self.start_all():
                return
            self.kill_all()
            if places is not None or not self.told("address already in use"):
                break
        shown = "".join(self.log(number)[-2000:] for number in range(len(self.places)))
        self.close()
        raise AssertionError(f"NATS did not start:\n{shown}")

    def start_all(self):
        """Whether all are well; false as soon as one ends."""
        self.processes = [None] * len(self.places)
        numbers = range(len(self.places))
        for number in numbers:
            self.start(number)
        ended = lambda: any(it.poll() is not None for it in self.processes)  # noqa: E731
        poll(lambda: ended() or all(self.is_well(number) for number in numbers),
             "NATS is well", PATIENT_S)
        return not ended()

    def start(self, number):
        place = self.places[number]
        path = os.path.join(self.folder, f"{number}.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.configuration(number))
        with open(f"{path}.log", "a", encoding="utf-8") as log:
            self.processes[number] = subprocess.Popen(
                [*place.words, TOOL, "-c", path], stdout=log, stderr=log,
                preexec_fn=fixture.end_with_parent)

    def configuration(self, number):
        place = self.places[number]
        routes = ", ".join(f'"nats://{it.host}:{it.route}"' for it in self.places)
        text = f"""
server_name: n{number}
listen: "{place.host}:{place.port}"
http: "{place.host}:{place.page}"
{self.more}
"""
        if self.jetstream:
            text += (f'jetstream {{ store_dir: "{self.store(number)}", '
                     f"sync_interval: {self.sync}, max_file_store: {self.store_max}, "
                     "max_memory_store: 256Mb }\n")
        if len(self.places) > 1:
            text += (f'cluster {{ name: test, listen: "{place.host}:{place.route}", '
                     f"routes: [{routes}] }}\n")
        return text

    def store(self, number):
        """The folder with its streams."""
        return self.places[number].store or os.path.join(self.folder, str(number))

    def log(self, number):
        with contextlib.suppress(OSError):
            with open(os.path.join(self.folder, f"{number}.conf.log"), encoding="utf-8") as file:
                return file.read()
        return ""

    def told(self, text):
        return any(text in self.log(number) for number in range(len(self.places)))

    def page(self, number, path):
        """What a server tells of itself; nothing if it does not answer."""
        place = self.places[number]
        with contextlib.suppress(OSError, ValueError):
            url = f"http://{place.host}:{place.page}{path}"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.load(answer)
        return {}

    def is_well(self, number):
        return self.page(number, "/healthz").get("status") == "ok"

    def leader_of(self, stream):
        """The number of the server that leads a stream; none if nobody does."""
        for number in range(len(self.places)):
            told = self.page(number, "/jsz?accounts=true&streams=true")
            for account in told.get("account_details") or []:
                for it in account.get("stream_detail") or []:
                    if it["name"] == stream and it.get("cluster", {}).get("leader"):
                        return int(it["cluster"]["leader"].removeprefix("n"))
        return None

    def streams(self):
        """The names of all streams."""
        answer = self.ask("$JS.API.STREAM.NAMES")
        return answer.get("streams") or []

    def ask(self, subject, body=b""):
        """A request of core NATS to the first server that answers; its answer, which is JSON."""
        for place in self.places:
            with contextlib.suppress(OSError, ValueError):
                return ask(place, subject, body)
        raise AssertionError(f"no answer to {subject}")

    def kill(self, number):
        self.processes[number].kill()
        self.processes[number].wait()

    def kill_all(self):
        for process in filter(None, self.processes):
            process.kill()
            process.wait()

    def addresses(self):
        return [f"{self.scheme}://{it.host}:{it.port}" for it in self.places]

    def close(self):
        self.kill_all()
        shutil.rmtree(self.folder, ignore_errors=True)


def ask(place, subject, body):
    """A request by hand, over a connection of its own."""
    with socket.create_connection((place.host, place.port), 5) as link:
        inbox = f"_INBOX.{os.urandom(8).hex()}"
        link.sendall(b'CONNECT {"verbose":false}\r\n' + f"SUB {inbox} 1\r\n".encode()
                     + f"PUB {subject} {inbox} {len(body)}\r\n".encode() + body + b"\r\n")
        seen = b""
        while not re.search(rb"MSG \S+ 1 (\d+)\r\n", seen):
            piece = link.recv(65536)
            if not piece:
                raise OSError("ended")
            seen += piece
        found = re.search(rb"MSG \S+ 1 (\d+)\r\n", seen)
        while len(seen) < found.end() + int(found[1]):
            seen += link.recv(65536)
        return json.loads(seen[found.end():found.end() + int(found[1])])


class Node:
    """A node of a cluster: its folder and its ports stay the same over its restarts.

    `host`, `ports`, `folder`, `words`: where it runs; `changes`: more of its configuration."""

    def __init__(self, case, name, addresses, host="127.0.0.1", ports=None, folder=None, words=(),
                 changes=None):
        self.case, self.name, self.host, self.words = case, name, host, list(words)
        self.folder = folder or tempfile.mkdtemp(prefix=f"holdline-{name}-")
        case.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.data = os.path.join(self.folder, "data")
        self.ports = ports or {listener: free_port() for listener in ("api", "mqtt", "moved")}
        at = {name: f"{host}:{port}" for name, port in self.ports.items()}
        self.changes = {
            "server": {"shards": 0, "pin": False},
            "listen.any": None,
            "listen.mqtt": {"address": at["mqtt"], "protocol": "mqtt"},
            "listen.moved": {"address": at["moved"], "protocol": "mqtt", "redirect": "moved"},
            "api": {"address": at["api"], "token": TOKEN},
            "limits": {"connections_max": 2000, "drain_ms": 200, "take_over_ms": 200,
                       "retry_jitter_ms": 0},
            "cluster": {"nats": addresses, "node": name, "advertise": [host]},
        }
        for section, keys in (changes or {}).items():
            self.changes[section] = None if keys is None else {
                **(self.changes.get(section) or {}), **keys}
        self.file = os.path.join(self.folder, "commands.toml")
        self.configure()
        self.server = None

    def configure(self):
        """The file of its commands."""
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(fixture.configuration(self.changes))

    def told(self, *words, stdin=None):
        """`holdline cluster`, ended: status, and what it prints."""
        return subprocess.run(
            [*self.words, fixture.BINARY, "cluster", *words, "--config", self.file, "--data",
             self.data], env=fixture.environment(), capture_output=True, text=True, input=stdin,
            timeout=PATIENT_S, check=False)

    def command(self, *words, stdin=None):
        """`holdline cluster`; what it prints."""
        told = self.told(*words, stdin=stdin)
        self.case.assertEqual(told.returncode, 0, told.stdout + told.stderr)
        return told.stdout

    def secret(self):
        told = subprocess.run([fixture.BINARY, "store", "secret", "--reveal", "--data", self.data],
                              env=fixture.environment(), capture_output=True, text=True,
                              timeout=PATIENT_S, check=False)
        self.case.assertEqual(told.returncode, 0, told.stderr)
        found, = re.findall(r"\b[0-9a-f]{64}\b", told.stdout)
        return found

    def start(self):
        self.server = self.case.start(self.changes, data=self.data, prefix=self.words)
        self.server.token = TOKEN
        return self.server

    def again(self, env=None):
        """Starts it as it was, perhaps in another environment."""
        self.server.env = env
        self.server.start()
        self.server.token = TOKEN

    def runs(self):
        return self.server is not None and self.server.process.poll() is None

    def code(self, path):
        """The status of a call, 0 without an answer."""
        url = f"http://{self.host}:{self.ports['api']}{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status
        except urllib.error.HTTPError as refused:
            return refused.code
        except OSError:
            return 0

    def leads(self):
        return self.code("/readyz?lead") == 200

    def follows(self):
        return self.code("/readyz") == 200 and self.code("/readyz?lead") == 503

    def cluster(self):
        return self.server.ask("GET", "/v1/cluster")["cluster"]


def follower(case):
    """A node whose NATS is nowhere, for tests of what every node has: it follows nobody."""
    folder = case.enterContext(tempfile.TemporaryDirectory(prefix="holdline-alone-"))
    data = os.path.join(folder, "data")
    made = Server({"cluster": None}, data=data)
    made.stop()
    made.close()
    # What `cluster create` does to the folder, without NATS.
    path = os.path.join(data, "FORMAT")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("\nnode 0\n", "\nnode 1\n"))
    return case.start({"cluster": {"nats": ["nats://127.0.0.1:1"], "advertise": ["127.0.0.1"]}},
                      data=data)

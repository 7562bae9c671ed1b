"""NATS servers on loopback, and nodes of a cluster over them.

Servers have fixed ports and folders of their own, so that one that is killed comes back as itself.
Waiting is polling with a deadline.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

import fixture
from fixture import BINARY, Server, poll
from mqtt.broker import free_port

CLIENTS = os.environ.get("HOLDLINE_E2E_CLIENTS") or os.path.join(fixture.TARGET, "e2e-clients")
TOOL = os.environ.get("HOLDLINE_NATS_SERVER") or os.path.join(CLIENTS, "nats", "bin", "nats-server")
# An election of NATS, on a busy machine.
PATIENT_S = 60


def needed(of):
    """Marks tests that need NATS servers."""
    return unittest.skipUnless(os.access(TOOL, os.X_OK),
                               "nats-server could not be had: NO CLUSTER WAS TRIED")(of)


class Nats:
    """Three servers with JetStream."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="holdline-nats-")
        self.ports = [free_port() for _ in range(3)]
        self.routes = [free_port() for _ in range(3)]
        self.pages = [free_port() for _ in range(3)]
        self.processes = [None] * 3
        for number in range(3):
            self.start(number)
        for number in range(3):
            poll(lambda number=number: self.is_well(number), f"NATS {number} is well", PATIENT_S)

    def start(self, number):
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self.routes)
        path = os.path.join(self.folder, f"{number}.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"""
server_name: n{number}
listen: "127.0.0.1:{self.ports[number]}"
http: "127.0.0.1:{self.pages[number]}"
jetstream {{ store_dir: "{self.folder}/{number}", sync_interval: always,
             max_file_store: 8Gb, max_memory_store: 256Mb }}
cluster {{ name: test, listen: "127.0.0.1:{self.routes[number]}", routes: [{routes}] }}
""")
        with open(f"{path}.log", "a", encoding="utf-8") as log:
            self.processes[number] = subprocess.Popen(
                [TOOL, "-c", path], stdout=log, stderr=log, preexec_fn=fixture.end_with_parent)

    def is_well(self, number):
        url = f"http://127.0.0.1:{self.pages[number]}/healthz"
        with contextlib.suppress(OSError, ValueError):
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.load(answer).get("status") == "ok"
        return False

    def kill(self, number):
        self.processes[number].kill()
        self.processes[number].wait()

    def addresses(self):
        return [f"nats://127.0.0.1:{port}" for port in self.ports]

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Node:
    """A node of a cluster: its folder and its ports stay the same over its restarts."""

    def __init__(self, case, name, addresses):
        self.case, self.name = case, name
        self.folder = tempfile.mkdtemp(prefix=f"holdline-{name}-")
        case.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.data = os.path.join(self.folder, "data")
        self.ports = {listener: free_port() for listener in ("api", "mqtt", "moved")}
        at = {name: f"127.0.0.1:{port}" for name, port in self.ports.items()}
        self.changes = {
            "server": {"shards": 0, "pin": False},
            "listen.any": None,
            "listen.mqtt": {"address": at["mqtt"], "protocol": "mqtt"},
            "listen.moved": {"address": at["moved"], "protocol": "mqtt", "redirect": "moved"},
            "api": {"address": at["api"], "token": "0123456789abcdef"},
            "limits": {"connections_max": 2000, "drain_ms": 200, "take_over_ms": 200,
                       "retry_jitter_ms": 0},
            "cluster": {"nats": addresses, "node": name, "advertise": ["127.0.0.1"]},
        }
        self.file = os.path.join(self.folder, "commands.toml")
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(fixture.configuration(self.changes))
        self.server = None

    def command(self, *words, stdin=None):
        """`holdline cluster`; what it prints."""
        told = subprocess.run(
            [BINARY, "cluster", *words, "--config", self.file, "--data", self.data],
            env=fixture.environment(), capture_output=True, text=True, input=stdin, timeout=60,
            check=False)
        self.case.assertEqual(told.returncode, 0, told.stdout + told.stderr)
        return told.stdout

    def secret(self):
        told = subprocess.run([BINARY, "store", "secret", "--reveal", "--data", self.data],
                              env=fixture.environment(), capture_output=True, text=True,
                              timeout=60, check=False)
        self.case.assertEqual(told.returncode, 0, told.stderr)
        found, = re.findall(r"\b[0-9a-f]{64}\b", told.stdout)
        return found

    def start(self):
        self.server = self.case.start(self.changes, data=self.data)
        self.server.token = "0123456789abcdef"
        return self.server

    def code(self, path):
        """The status of a call, 0 without an answer."""
        url = f"http://127.0.0.1:{self.ports['api']}{path}"
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

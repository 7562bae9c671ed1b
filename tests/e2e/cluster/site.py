"""A cluster on three machines of its own, each with a NATS server and perhaps a node: network
namespaces on a bridge, and a small disk in memory for each program.

Whoever makes it stands at the bridge. Everything is removed at the end.
"""

import contextlib
import ctypes
import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import fixture
from cluster.load import password
from cluster.nats import PATIENT_S, Nats, Node, Place
from fixture import poll
from machines import Net

MACHINES = ("north", "south", "east")
PORTS = {"api": 7080, "mqtt": 1883, "moved": 1884, "miop": 7001, "im": 7002, "xmpp": 5222}
DISK_MIB = 1024
CLONE_NEWNS = 0x20000
# A node is to be close behind, and NATS to have elected, after whatever happened.
HEALED_S = 150
# Copies are compared when nothing is written; upkeep may write a little meanwhile.
COMPARISONS = 10


def own_mounts():
    """Mounts of this process are its own from now on, and end with it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True, capture_output=True)


class Site:
    """`nodes`: how many of the machines have a node. `case`: whose clean-ups end it. `changes`: of
    the nodes' configuration."""

    def __init__(self, case, nodes, logs=2, changes=None):
        self.case, self.logs, self.changes = case, logs, changes or {}
        self.folder = tempfile.mkdtemp(prefix="holdline-site-")
        case.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.net = Net(MACHINES)
        case.addCleanup(self.net.close)
        case.enterContext(self.net.at_bridge())
        self.hosts = [self.net.addresses[name] for name in MACHINES]
        self.nats = Nats([Place(host, 4222, 6222, 8222, self.disk(f"nats-{name}"),
                                self.net.words(name))
                          for name, host in zip(MACHINES, self.hosts)], store_max="256Gb")
        case.addCleanup(self.nats.close)
        self.nodes = [self.node(name, host)
                      for name, host in list(zip(MACHINES, self.hosts))[:nodes]]

    def disk(self, name):
        """A disk in memory; its folder."""
        place = os.path.join(self.folder, name)
        os.mkdir(place)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "disk", place],
                       check=True, capture_output=True)
        self.case.addCleanup(subprocess.run, ["umount", "-l", place], capture_output=True,
                             check=False)
        return place

    def node(self, name, host):
        listen = lambda kind: {"address": f"{host}:{PORTS[kind]}", "protocol": kind,  # noqa: E731
                               "anonymous": "yes"}
        changes = {"listen.miop": listen("miop"), "listen.im": listen("im"),
                   "listen.xmpp": listen("xmpp"), "listen.mqtt": listen("mqtt"),
                   # A device that is away for a while has all pushes when it is back.
                   "products.demo": {"anonymous": "everywhere", "offline_count_max": 10_000,
                                     "offline_bytes_max": 1 << 26},
                   "access": {"hash_cost": "light"},
                   "store": {"segment_bytes": 8 << 20, "checkpoint_bytes": 8 << 20},
                   "cluster": {"followers": 1}, **self.changes}
        return Node(self.case, name, self.nats.addresses(), host, PORTS, self.disk(name),
                    self.net.words(name), changes)

    def form(self):
        """Makes the cluster: the first node leads, the others follow."""
        first, *others = self.nodes
        first.command("create", "--logs", str(self.logs), "--yes")
        self.secret = first.secret()
        first.start()
        poll(first.leads, "the first node leads", PATIENT_S)
        for node in others:
            node.command("join", "--secret", "-", "--yes", stdin=self.secret)
            node.start()
        self.heal()

    def accounts(self, names):
        for name in names:
            self.leader().server.ask("PUT", f"/v1/users/{name}", {"password": password(name)})

    # -- how it stands

    def leader(self):
        """The node that leads; none if none does, or several say so."""
        led = [node for node in self.nodes if node.runs() and node.leads()]
        return led[0] if len(led) == 1 else None

    def followers(self):
        leader = self.leader()
        return [node for node in self.nodes if node is not leader]

    def number(self, node):
        return self.nodes.index(node) + 1

    def is_whole(self):
        """Everything runs, one node leads, all others follow it closely."""
        if not all(self.nats.is_well(number) for number in range(len(MACHINES))):
            return False
        leader = self.leader()
        if leader is None or not all(node.runs() for node in self.nodes):
            return False
        with contextlib.suppress(AssertionError, OSError, KeyError):
            told = leader.cluster()
            return (told["followers"] == len(self.nodes) - 1 and not told["isolated"]
                    and all(node.follows() for node in self.nodes if node is not leader))
        return False

    def heal(self):
        poll(self.is_whole, "the cluster is whole", HEALED_S)

    def state(self):
        """For whoever reads of a failure."""
        told = {}
        for number, place in enumerate(self.nats.places):
            told[f"NATS {place.host}"] = self.nats.page(number, "/healthz") or "no answer"
        for node in self.nodes:
            told[node.name] = {"runs": node.runs(), "leads": node.leads()}
            with contextlib.suppress(Exception):
                told[node.name]["cluster"] = node.cluster()
                told[node.name]["device"] = node.server.state("push")
        return told

    def keep(self, folder):
        """Keeps logs and state, of a failure."""
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "state.json"), "w", encoding="utf-8") as file:
            json.dump(self.state(), file, indent=1, default=str)
        for node in self.nodes:
            if node.server:
                with open(os.path.join(folder, f"{node.name}.log"), "w", encoding="utf-8") as file:
                    file.write(node.server.log)
            if node.runs():
                with contextlib.suppress(AssertionError, OSError):
                    with open(os.path.join(folder, f"{node.name}.jsonl"), "wb") as file:
                        file.write(b"\n".join(self.export(node)[1]))
                with contextlib.suppress(Exception):
                    with open(os.path.join(folder, f"{node.name}.metrics"), "w",
                              encoding="utf-8") as file:
                        file.write(node.server.metrics())
        for number in range(len(MACHINES)):
            with open(os.path.join(folder, f"nats-{number}.log"), "w", encoding="utf-8") as file:
                file.write(self.nats.log(number))

    # -- copies

    def compare(self, keep=None):
        """Whether the copies of all nodes have the same records, while nobody writes. What differs,
        or nothing. `keep`: a folder for the exports that differ."""
        for attempt in range(COMPARISONS):
            poll(self.is_even, "all nodes have all records", HEALED_S)
            exports = {node.name: self.export(node) for node in self.nodes}
            sums = {name: digest for name, (digest, _) in exports.items()}
            if len(set(sums.values())) == 1:
                return None
            time.sleep(0.5)
        if keep:
            os.makedirs(keep, exist_ok=True)
            for name, (_, lines) in exports.items():
                with open(os.path.join(keep, f"{name}.jsonl"), "wb") as file:
                    file.write(b"\n".join(lines))
        return difference({name: lines for name, (_, lines) in exports.items()})

    def is_even(self):
        with contextlib.suppress(AssertionError, OSError, KeyError):
            indexes = [[(it["log"], it["acknowledged"]) for it in node.cluster()["logs"]]
                       for node in self.nodes]
            return all(it == indexes[0] for it in indexes)
        return False

    def export(self, node):
        """All records of a node as lines, of a copy of its folder as a crash would leave it: a
        digest, and the lines."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            copy = os.path.join(folder, "data")
            node.server.signal(signal.SIGSTOP)
            try:
                shutil.copytree(node.data, copy, ignore=shutil.ignore_patterns("*.sock"))
            finally:
                node.server.signal(signal.SIGCONT)
            told = subprocess.run([fixture.BINARY, "store", "export", "--data", copy],
                                  env=fixture.environment(), capture_output=True, timeout=PATIENT_S,
                                  check=False)
        if told.returncode != 0:
            raise AssertionError(f"export of {node.name}: {told.stderr.decode()[-500:]}")
        lines = sorted(told.stdout.splitlines())
        return hashlib.sha256(b"\n".join(lines)).hexdigest(), lines

    # -- what is done to it

    def fill(self, disk):
        """A disk has no room any more; the file that takes it."""
        place = os.path.join(self.folder, disk, "filler")
        with open(place, "wb", buffering=0) as file:
            for size in (1 << 20, 4096):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"\0" * size)
        return place

    def wipe(self, node):
        """The folder of a node that does not run is lost; it joins anew."""
        shutil.rmtree(node.data, ignore_errors=True)
        node.command("join", "--secret", "-", "--node", str(self.number(node)), "--yes",
                     stdin=self.secret)


def difference(exports):
    """The first lines that not all have."""
    names = list(exports)
    told = []
    for name in names[1:]:
        ours, theirs = set(exports[names[0]]), set(exports[name])
        for whose, lines in ((names[0], ours - theirs), (name, theirs - ours)):
            shown = b"; ".join(sorted(lines)[:3]).decode(errors="replace")[:600]
            told.append(f"{len(lines)} lines of {whose} alone: {shown}")
    return "; ".join(told)

"""What many logs cost, on this machine: a node alone, and a cluster, by their number.

`alone`: servers with 1 to 96 shards, each of which has its log. They are idle beside each other, so
that all have the same noise; then, one after the other, they take 1,000 messages a second of MQTT
at QoS 1 and of chat; then their writes to the disk are counted, and they start on a folder of so
many megabytes. The data is in the temporary folder.

`load`: a server takes messages of MQTT at QoS 1 for sessions that are away, as many as it can from
one connection with 512 in flight.

`cluster`: two nodes over three NATS servers on machines of network namespaces, disks in memory.
What the nodes and NATS use while nothing happens and at 1,000 messages a second, and how long a
follower takes to lead all logs after the leader was killed.

CPU time is what the scheduler counts for all threads of a process. Rounds take the numbers in
another order each; figures are medians of the rounds, with the least beside the CPU times.
"""

import argparse
import collections
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import fixture  # noqa: E402
from cluster.faults import environment, loadavg, plan  # noqa: E402
from cluster.load import socket_to  # noqa: E402
from cluster.measure import QUEUES, WINDOW  # noqa: E402
from cluster.nats import PATIENT_S  # noqa: E402
from cluster.site import PORTS, Site, own_mounts  # noqa: E402
from fixture import Server, poll  # noqa: E402
from mqtt import wire  # noqa: E402
from mqtt.wire import V5, Wire  # noqa: E402

ALONE, CLUSTER = (1, 2, 4, 12, 24, 48, 96), (2, 12, 24, 48, 96)
# Clients that are there and say nothing.
MIXED = {"mqtt": 5_000, "miop": 5_000, "im": 4_000, "xmpp": 1_000}
RATE, PAIRS, BYTES = 1_000, 200, 64
# What a start, a login deadline or an election leaves to do is over by then.
SETTLE_S = 15
# Sessions that have the messages of a folder, whatever the number of logs; bytes of each message.
AWAY, BODY, LOADED_BYTES = 192, 1_000, 200
START_S = 180
DISK_GB = 16
# Where clients keep what they found.
ELSEWHERE = tempfile.gettempdir()


# ---- what is read of processes -------------------------------------------------------------------


def tasks(pid, name):
    """A file of each thread of a process; a thread that ended meanwhile has none."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/task/{task}/{name}", encoding="utf-8") as file:
                yield file.read()


def cpu_s(pid):
    """Processor time of a process, seconds."""
    return sum(int(text.split()[0]) for text in tasks(pid, "schedstat")) / 1e9


def field(path, name):
    with open(path, encoding="utf-8") as file:
        return int(next(line for line in file if line.startswith(f"{name}:")).split()[1])


def switches(pid):
    """How often threads of a process went to sleep, so far."""
    return sum(int(line.split()[1]) for text in tasks(pid, "status") for line in text.splitlines()
               if line.startswith("voluntary_ctxt_switches:"))


def standing(pid):
    """Memory, threads and descriptors of a process."""
    return {"resident_mb": field(f"/proc/{pid}/status", "VmRSS") / 1024,
            "private_mb": field(f"/proc/{pid}/smaps_rollup", "Private_Dirty") / 1024,
            "threads": len(os.listdir(f"/proc/{pid}/task")),
            "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}


def machine_s():
    """Processor time that all programs of the machine have used, seconds."""
    with open("/proc/stat", encoding="utf-8") as file:
        user, nice, system, _, _, irq, soft, *_ = map(int, file.readline().split()[1:])
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def by_command():
    """Ticks of each process that is neither ours nor the kernel's, and its command."""
    used, ours = {}, os.getpgid(0)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError):
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                head, _, tail = file.read().rpartition(")")
            fields = tail.split()
            if int(fields[2]) not in (ours, 0):
                used[pid, head.partition("(")[2]] = int(fields[11]) + int(fields[12])
    return used


class Beside:
    """What other programs did meanwhile, as far as looks at intervals show it."""

    def __init__(self):
        self.used, self.began = collections.Counter(), time.monotonic()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def _look(self):
        before = by_command()
        while not self.over.wait(2):
            now = by_command()
            for (pid, name), ticks in now.items():
                self.used[name] += ticks - before.get((pid, name), 0)
            before = now

    def told(self):
        """Cores that commands used, of those that used most."""
        self.over.set()
        self.thread.join()
        took = (time.monotonic() - self.began) * os.sysconf("SC_CLK_TCK")
        return {name: round(ticks / took, 3) for name, ticks in self.used.most_common(8)}


class Disk:
    """A file system of its own, in a file of the machine's disk: the writes to its device are those
    of one server alone. What the kernel counts for a process counts whole folios."""

    def __init__(self, case):
        folder = case.enter_context(tempfile.TemporaryDirectory(prefix="holdline-disk-"))
        image, self.place = os.path.join(folder, "image"), os.path.join(folder, "disk")
        os.mkdir(self.place)
        with open(image, "wb") as file:
            file.truncate(DISK_GB << 30)
        run = lambda *words: subprocess.run(words, check=True, capture_output=True)  # noqa: E731
        run("mkfs.ext4", "-q", "-T", "largefile", "-E",
            "lazy_itable_init=0,lazy_journal_init=0,nodiscard", image)
        run("mount", "-o", "loop,nodiscard", image, self.place)
        case.callback(subprocess.run, ["umount", self.place], check=False)
        device = os.stat(self.place).st_dev
        self.stat = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat"

    def counts(self):
        """Bytes that were written to it, and how often it was flushed, so far."""
        with open(self.stat, encoding="utf-8") as file:
            fields = [int(it) for it in file.read().split()]
        return fields[6] * 512, fields[15]


def folder_mb(path):
    """What a folder takes of its disk."""
    blocks = sum(os.lstat(os.path.join(at, name)).st_blocks
                 for at, _, names in os.walk(path) for name in names)
    return blocks * 512 / 1e6


# ---- the laboratory's clients --------------------------------------------------------------------


class Fleet:
    """`holdline load run` of a plan."""

    def __init__(self, text, case):
        self.folder = case.enter_context(
            tempfile.TemporaryDirectory(prefix="holdline-fleet-", dir=ELSEWHERE))
        path = os.path.join(self.folder, "plan.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self.lines, self.arrived = [], threading.Event()
        self.process = subprocess.Popen(
            [fixture.BINARY, "load", "run", path, "--plain", "--out", self.folder],
            env=fixture.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            preexec_fn=fixture.end_with_parent)
        case.callback(self.close)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            if " holding " in line:
                self.arrived.set()
        self.arrived.set()

    def arrive(self):
        """Waits until all its clients are in."""
        if not self.arrived.wait(START_S) or self.process.poll() is not None:
            raise AssertionError(f"clients did not arrive: {''.join(self.lines[-20:])}")

    def run(self):
        """What it found, once it has ended by itself."""
        self.process.wait(START_S)
        for at, _, names in os.walk(self.folder):
            if "run.json" in names:
                with open(os.path.join(at, "run.json"), encoding="utf-8") as file:
                    return json.load(file)
        raise AssertionError(f"no result: {''.join(self.lines[-20:])}")

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def group(name, url, **more):
    lines = "".join(f"{key} = {fixture.toml(value)}\n" for key, value in more.items())
    return f'[[group]]\nname = "{name}"\nurl = ["{url}"]\n{lines}\n'


def stage(clients, hold_s, more=""):
    return (f'[[stage]]\nname = "all"\nclients = {fixture.toml(clients)}\n'
            f'arrive = {{ shape = "window", open = 32 }}\nhold = "{hold_s}s"\n{more}')


def idle_plan(at):
    """`at`: addresses by protocol."""
    silent = {"keep_alive": "0s", "beats": False}
    return ('name = "idle"\n\n' + group("mqtt", f"mqtt://{at['mqtt']}", **silent)
            + group("miop", f"miop://x:demo@{at['miop']}/", product="demo", **silent)
            + group("im", f"im://{at['im']}", **silent)
            + group("xmpp", f"xmpp://{at['xmpp']}", user="xmpp-%i@localhost", password="secret",
                    scram=True, **silent)
            + stage(MIXED, 3600))


def rate_plan(kind, at, seconds):
    """So many messages a second between pairs: of MQTT with kept sessions, or of chat."""
    traffic = (f'[[stage.traffic.out]]\nwhat = "publish"\ntopic = "{{}}"\nqos = 1\n'
               f"bytes = {BYTES}\npace = {{{{ per_s = {RATE} }}}}\n")
    hears, clients = {"out": 1}, {"in": PAIRS, "out": PAIRS}
    if kind == "qos1":
        groups = (group("in", f"mqtt://{at['mqtt']}", keep_session=True, subscribe=["p/%i"],
                        subscribe_qos=1, hears=hears)
                  + group("out", f"mqtt://{at['mqtt']}", keep_session=True))
        return f'name = "{kind}"\n\n{groups}' + stage(clients, seconds, traffic.format("p/%i"))
    groups = group("in", f"im://{at['im']}", hears=hears) + group("out", f"im://{at['im']}")
    return f'name = "{kind}"\n\n{groups}' + stage(clients, seconds, traffic.format("in-%i"))


def percentile(classes, share):
    """Of a distribution as pairs of microseconds and how often; milliseconds."""
    left = share * sum(count for _, count in classes)
    for us, count in classes:
        left -= count
        if left <= 0:
            return us / 1000
    return 0.0


def at_rate(kind, at, seconds, pids, disk=lambda: (0, 0)):
    """CPU of processes (by name) and writes to their disk, a message, at the rate; and times."""
    with contextlib.ExitStack() as case:
        fleet = Fleet(rate_plan(kind, at, round(seconds + 4)), case)
        fleet.arrive()
        time.sleep(2)
        used, took, cores, wrote = window(pids, seconds, disk)
        run = fleet.run()
    found = {"machine_cores": cores, "disk_bytes": wrote[0] / (RATE * took),
             "disk_flushes": wrote[1] / (RATE * took)}
    for name, (cpu, slept) in used.items():
        found[f"{name}_cpu_us"] = cpu / (RATE * took) * 1e6
        found[f"{name}_sleeps"] = slept / (RATE * took)
    counts = run["stages"][0]["counts"]
    for timing in ("publish", "delivery"):
        classes = counts["timings"][timing]["corrected"]
        found[f"{timing}_p50_ms"] = percentile(classes, 0.5)
        found[f"{timing}_p99_ms"] = percentile(classes, 0.99)
    figures = counts["figures"]
    found["sent"], found["taken"] = figures["messages.sent"], figures["messages.taken"]
    found["missing"] = figures["messages.missing"]
    found["saturated"] = len(run.get("saturation") or [])
    return found


def window(pids, seconds, disk=lambda: (0, 0)):
    """What groups of processes use from now on: of each name seconds of CPU, and how often threads
    went to sleep; the time; cores that the whole machine used; what `disk` counts."""
    def read():
        used = {name: (sum(cpu_s(pid) for pid in of), sum(switches(pid) for pid in of))
                for name, of in pids.items()}
        return time.monotonic(), machine_s(), used, disk()
    less = lambda after, before: tuple(now - then for now, then in zip(after, before))  # noqa: E731
    began, machine, before, wrote = read()
    time.sleep(seconds)
    ended, machine_then, after, wrote_then = read()
    took = ended - began
    used = {name: less(after[name], before[name]) for name in pids}
    return used, took, (machine_then - machine) / took, less(wrote_then, wrote)


# ---- figures -------------------------------------------------------------------------------------


# Kept among the samples, and shown in no table.
ASIDE = ("waits of threads", "delivery", "descriptors of", "descriptors with", "threads of",
         "resident memory with")


class Figures:
    """Samples by number of logs and by what was measured."""

    def __init__(self, what):
        self.what, self.samples = what, {}

    def note(self, logs, name, unit, value):
        self.samples.setdefault((name, unit), {}).setdefault(logs, []).append(value)

    def rows(self):
        rows = []
        shown = ((it, by_logs) for it, by_logs in self.samples.items()
                 if not any(word in it[0] for word in ASIDE))
        for (name, unit), by_logs in shown:
            for logs, values in sorted(by_logs.items()):
                where = f"{name}, {logs} {self.what}"
                row = lambda more, value: rows.append(  # noqa: E731
                    {"name": where + more, "unit": unit, "value": round(value, 3)})
                row("", statistics.median(values))
                if "CPU" in name and len(values) > 1:
                    row(", least", min(values))
        return rows

    def all(self):
        return {f"{name} ({unit})" if unit else name:
                {str(logs): [round(it, 4) for it in values] for logs, values in by_logs.items()}
                for (name, unit), by_logs in self.samples.items()}


RATES = (("cpu_us", "CPU a message", "µs"), ("sleeps", "waits of threads a message", ""))
WRITES = (("disk_bytes", "written to the disk a message", "bytes"),
          ("disk_flushes", "flushes of the disk a message", ""))
TIMES = (("publish", "answer"), ("delivery", "delivery"))
KINDS = {"qos1": "QoS 1", "chat": "chat"}


def note_rate(figures, logs, kind, found, names):
    for name, words in names.items():
        for key, what, unit in RATES:
            figures.note(logs, f"{KINDS[kind]}: {what}{words}", unit, found[f"{name}_{key}"])
    for timing, words in TIMES:
        for share in ("p50", "p99"):
            figures.note(logs, f"{KINDS[kind]}: {words}, {share}", "ms",
                         found[f"{timing}_{share}_ms"])


# ---- a node alone --------------------------------------------------------------------------------


class Alone:
    def __init__(self, options):
        self.options = options
        self.figures, self.rounds = Figures("shards"), []

    def started(self, logs, case, changes=None):
        """A server with so many shards on an empty folder, and the seconds that its start took."""
        listen = lambda kind: {"address": "127.0.0.1:0", "protocol": kind,  # noqa: E731
                               "anonymous": "yes"}
        all_changes = {
            "server": {"shards": logs, "pin": False, "log": "warn"}, "listen.any": None,
            **{f"listen.{kind}": listen(kind) for kind in ("mqtt", "miop", "im")},
            "listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"},
            "limits": {"connections_max": 18_000, "binds_per_s": 1_000_000,
                       "drain_ms": 200},
            "access": {"hash_cost": "light"}, **(changes or {})}
        began = time.monotonic()
        server = Server(all_changes)
        case.callback(server.close)
        return server, time.monotonic() - began

    @staticmethod
    def places(server):
        return {name: "{}:{}".format(*at) for name, at in server.ports.items()}

    def idle(self, servers, words):
        used, took, cores, _ = window({logs: [it.pid] for logs, it in servers.items()},
                                      self.options.idle_s)
        for logs, server in servers.items():
            cpu, slept = used[logs]
            self.figures.note(logs, f"idle CPU{words}", "% of a core", cpu / took * 100)
            self.figures.note(logs, f"waits of threads{words}", "1/s", slept / took)
            now = standing(server.pid)
            self.figures.note(logs, f"resident memory{words}", "MB", now["resident_mb"])
            self.figures.note(logs, f"private memory{words}", "MB", now["private_mb"])
            if not words:
                self.figures.note(logs, "threads", "", now["threads"])
            self.figures.note(logs, f"descriptors{words}", "", now["descriptors"])
        return cores

    def users(self, server):
        """The accounts of the clients of XMPP."""
        lines = "".join(f"xmpp-{number},secret\n" for number in range(MIXED["xmpp"]))
        told = subprocess.run(
            [fixture.BINARY, "user", "import", "--csv", "-", "--url",
             f"http://{self.places(server)['api']}", "--token", server.token], input=lines,
            env=fixture.environment(), capture_output=True, text=True, timeout=START_S,
            check=False)
        assert told.returncode == 0, told.stdout + told.stderr

    def round(self, number):
        order = list(self.options.logs)
        random.Random(number).shuffle(order)
        beside, told = Beside(), {"order": order}
        with contextlib.ExitStack() as case:
            servers = {}
            for logs in order:
                servers[logs], took = self.started(logs, case)
                self.figures.note(logs, "start on an empty folder", "s", took)
                self.figures.note(logs, "empty folder", "MB on disk",
                                  folder_mb(servers[logs].data))
            time.sleep(SETTLE_S)
            told["idle_machine_cores"] = self.idle(servers, "")
            if number < self.options.crowds:
                with contextlib.ExitStack() as crowds:
                    for logs in order:
                        self.users(servers[logs])
                        Fleet(idle_plan(self.places(servers[logs])), crowds).arrive()
                    time.sleep(SETTLE_S)
                    for logs, server in servers.items():
                        there = server.status()["connections"]
                        assert there == sum(MIXED.values()), (logs, there)
                    told["crowd_machine_cores"] = self.idle(
                        servers, f" with {sum(MIXED.values())} connections")
                time.sleep(SETTLE_S)
            for logs in order:
                for kind in KINDS:
                    found = at_rate(kind, self.places(servers[logs]), self.options.seconds,
                                    {"node": [servers[logs].pid]})
                    note_rate(self.figures, logs, kind, found, {"node": ""})
                    told[f"{kind} {logs}"] = found
                    print(f"  round {number} {kind} {logs}: "
                          f"{found['node_cpu_us']:.0f} us, p50 {found['publish_p50_ms']:.2f} "
                          f"p99 {found['publish_p99_ms']:.1f} ms", flush=True)
        told["beside"] = beside.told()
        self.rounds.append(told)

    def writes(self, number):
        """What reaches a disk. Its flushes are slower than the machine's: no times are taken."""
        order = list(self.options.logs)
        random.Random(200 + number).shuffle(order)
        with contextlib.ExitStack() as disks:
            disk = Disk(disks)
            tempfile.tempdir = disk.place
            disks.callback(setattr, tempfile, "tempdir", None)
            for logs in order:
                with contextlib.ExitStack() as case:
                    server, _ = self.started(logs, case)
                    for kind in KINDS:
                        found = at_rate(kind, self.places(server), self.options.seconds,
                                        {"node": [server.pid]}, disk.counts)
                        for key, what, unit in WRITES:
                            self.figures.note(logs, f"{KINDS[kind]}: {what}", unit, found[key])

    def full(self, number):
        """Starts on a folder with data: after a kill, and after a stop."""
        order = list(self.options.logs)
        random.Random(100 + number).shuffle(order)
        for logs in order:
            with contextlib.ExitStack() as case:
                server, _ = self.started(logs, case, QUEUES)
                self.fill(server)
                self.figures.note(logs, f"folder of {self.options.base_mb} MB", "MB on disk",
                                  folder_mb(server.data))
                server.kill()
                for what in ("a kill", "a stop"):
                    began = time.monotonic()
                    server.start()
                    took = time.monotonic() - began
                    name = f"start on {self.options.base_mb} MB after {what}"
                    self.figures.note(logs, name, "s", took)
                    print(f"  {name}, {logs}: {took:.2f} s", flush=True)
                    if what == "a kill":
                        self.figures.note(
                            logs, f"resident memory with {self.options.base_mb} MB", "MB",
                            field(f"/proc/{server.pid}/status", "VmRSS") / 1024)
                        server.stop(START_S)

    def fill(self, server, body=BODY, seconds=None):
        """Messages at QoS 1 to sessions that are away, with many in flight: so many megabytes, or
        for so long. How many."""
        host, port = server.ports["mqtt"]
        for number in range(AWAY):
            with contextlib.closing(Wire(socket_to(host, port), V5)) as hearer:
                hearer.send(wire.connect(V5, f"away-{number}", clean=False,
                                         props={"session_expiry": 86400}))
                assert hearer.read(START_S).code == 0
                hearer.subscribe((f"base/{number}", 1))
        with contextlib.closing(Wire(socket_to(host, port), V5)) as link:
            link.send(wire.connect(V5, "fill"))
            assert link.read(START_S).code == 0
            until = time.monotonic() + (seconds or START_S)
            count, sent, open = self.options.base_mb * 1_000_000 // body, 0, 0
            is_over = lambda: sent >= count or time.monotonic() > until  # noqa: E731
            while not is_over() or open:
                if open <= WINDOW // 2 and not is_over():
                    more = min(WINDOW - open, count - sent)
                    link.send(*(wire.publish(V5, f"base/{(sent + n) % AWAY}", b"." * body, 1,
                                             id=1 + (sent + n) % 60_000) for n in range(more)))
                    sent, open = sent + more, open + more
                answer = link.read(START_S)
                assert answer.code < 0x80, answer
                open -= 1
        dropped = sum(server.status()["dropped"].values())
        assert not dropped, f"{dropped} were not stored"
        return sent

    def whole(self):
        for number in range(self.options.rounds):
            self.round(number)
        for number in range(self.options.bases):
            self.writes(number)
            self.full(number)


class Loaded(Alone):
    """Servers that store as much as one connection gives them."""

    def whole(self):
        for number in range(self.options.rounds):
            order = list(self.options.logs)
            random.Random(300 + number).shuffle(order)
            beside = Beside()
            for logs in order:
                with contextlib.ExitStack() as case:
                    server, _ = self.started(logs, case, QUEUES)
                    cpu, began = cpu_s(server.pid), time.monotonic()
                    sent = self.fill(server, LOADED_BYTES, self.options.seconds)
                    took, cpu = time.monotonic() - began, cpu_s(server.pid) - cpu
                self.figures.note(logs, "stored messages", "1/s", sent / took)
                self.figures.note(logs, "CPU a stored message", "µs", cpu / sent * 1e6)
                print(f"  {logs}: {sent / took:.0f}/s, {cpu / sent * 1e6:.2f} us", flush=True)
            self.rounds.append({"order": order, "beside": beside.told()})


# ---- a cluster -----------------------------------------------------------------------------------


class InCluster:
    def __init__(self, options):
        self.options = options
        self.figures, self.rounds = Figures("logs"), []

    @staticmethod
    def traffic():
        """Bytes that all machines have sent into the bridge."""
        with open("/proc/thread-self/net/dev", encoding="utf-8") as file:
            return sum(int(line.split(":")[1].split()[0]) for line in file
                       if line.strip().startswith("p"))

    def one(self, logs):
        note = lambda *what: self.figures.note(logs, *what)  # noqa: E731
        case = fixture.Case()
        case.servers, case.log_from = [], 0
        told, beside = {"logs": logs}, Beside()
        try:
            site = Site(case, 2, logs=logs)
            began = time.monotonic()
            site.form()
            note("create, start, join, follow", "s", time.monotonic() - began)
            time.sleep(SETTLE_S)
            leader, (follower,) = site.leader(), site.followers()
            pids = {"node": [leader.server.pid], "follower": [follower.server.pid],
                    "nats": [it.pid for it in site.nats.processes]}
            words = {"node": "the leader", "follower": "the follower", "nats": "three NATS"}
            used, took, told["idle_machine_cores"], (sent,) = window(
                pids, self.options.idle_s, lambda: (self.traffic(),))
            note("traffic at idle", "kB/s", sent / took / 1000)
            for name, of in words.items():
                note(f"idle CPU of {of}", "% of a core", used[name][0] / took * 100)
                note(f"waits of threads of {of}", "1/s", used[name][1] / took)
                now = [standing(pid) for pid in pids[name]]
                for key, what, unit in (("resident_mb", "resident memory", "MB"),
                                        ("threads", "threads", ""),
                                        ("descriptors", "descriptors", "")):
                    note(f"{what} of {of}", unit, sum(it[key] for it in now))
            at = {kind: f"{leader.host}:{PORTS[kind]}" for kind in ("mqtt", "im")}
            names = {"node": " of the leader", "nats": " of three NATS"}
            for kind in KINDS:
                found = told[kind] = at_rate(kind, at, self.options.seconds, pids)
                note_rate(self.figures, logs, kind, found, names)
                print(f"  {logs} logs, {kind}: node {found['node_cpu_us']:.0f} NATS "
                      f"{found['nats_cpu_us']:.0f} us, p50 {found['publish_p50_ms']:.1f} p99 "
                      f"{found['publish_p99_ms']:.1f} ms", flush=True)
            for _ in range(self.options.moves):
                site.heal()
                leader, (follower,) = site.leader(), site.followers()
                began = time.monotonic()
                leader.server.kill()
                poll(follower.leads, "it leads", START_S)
                took = time.monotonic() - began
                note("takeover after a kill", "s", took)
                print(f"  {logs} logs, takeover: {took:.1f} s", flush=True)
                leader.again()
            for _ in range(self.options.moves):
                site.heal()
                leader, (follower,) = site.leader(), site.followers()
                began = time.monotonic()
                leader.command("promote", str(site.number(follower)), "--yes")
                poll(follower.leads, "it leads", START_S)
                note("planned change of the lead", "s", time.monotonic() - began)
        finally:
            case.doCleanups()
            told["beside"] = beside.told()
            self.rounds.append(told)

    def whole(self):
        for number in range(self.options.rounds):
            order = list(self.options.logs)
            random.Random(number).shuffle(order)
            for logs in order:
                self.one(logs)


WHAT = {"alone": ("many-logs", Alone, ALONE), "load": ("many-logs-load", Loaded, ALONE),
        "cluster": ("many-logs-cluster", InCluster, CLUSTER)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=list(WHAT))
    parser.add_argument("--logs", type=int, nargs="+", help="numbers of logs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--crowds", type=int, default=2, help="rounds with idle connections")
    parser.add_argument("--idle-s", type=float, default=60, help="each look at idle processes")
    parser.add_argument("--seconds", type=float, default=15, help="each look at messages")
    parser.add_argument("--bases", type=int, default=2,
                        help="rounds of writes, and of starts on data")
    parser.add_argument("--base-mb", type=int, default=1000, help="data of these starts")
    parser.add_argument("--moves", type=int, default=2, help="changes of the lead a cluster")
    parser.add_argument("--binary", help="the server, instead of HOLDLINE_E2E_BINARY")
    parser.add_argument("--commit", help="of the binary, if it is not that of this worktree")
    parser.add_argument("--out", help="where the result is written, as JSON")
    options = parser.parse_args()
    name, kind, logs = WHAT[options.what]
    options.logs = options.logs or logs
    if options.binary:
        fixture.BINARY = os.path.abspath(options.binary)
    fixture.DEADLINE_S = START_S
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    own_mounts()
    measure = kind(options)
    began, load = time.time(), loadavg()
    try:
        measure.whole()
    finally:
        result = {"scenario": name, "seconds": round(time.time() - began), **environment(began),
                  "load": {"before": load, "after": loadavg()},
                  "details": {"samples": measure.figures.all(), "rounds": measure.rounds},
                  "figures": measure.figures.rows(), "plan": plan(name, options)}
        if options.commit:
            result["commit"] = options.commit
        if options.out:
            with open(options.out, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=1, sort_keys=True)


if __name__ == "__main__":
    sys.exit(main())

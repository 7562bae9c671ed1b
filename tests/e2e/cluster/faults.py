"""Faults of a cluster under load: `make cluster`.

Makes three machines with a NATS server each, two or three nodes, and clients of all protocols that
remember what was acknowledged (load.py). Then, again and again, a fault that a seed chooses, until
all is healed and everybody is served again; an audit: nothing that was acknowledged is lost,
nothing arrived twice that must arrive once; and the exports of all copies are equal. It prints a
line for each fault and exits with 1 if anything did not hold.

Each round has a cluster of its own. Needs root, iproute2 and `nats-server`; traffic stays in
namespaces that are removed at the end.
"""

import argparse
import collections
import contextlib
import json
import os
import platform
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import fixture  # noqa: E402
from cluster.load import Load  # noqa: E402
from cluster.site import HEALED_S, MACHINES, PORTS, Site, own_mounts  # noqa: E402
from fixture import poll  # noqa: E402

FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
# After a round so long the next cluster begins anew.
ROUND = 20
# So many clusters that do not begin, one after the other, end the run.
BEGINNINGS = 3
SERVED_S = 120
AUDIT_S = 90

FAULTS = {}


def fault(serves=True, weight=2):
    """A fault: a context that is open while it lasts. `serves`: clients are to be served again
    while it lasts, not only after it. `weight`: how often it is chosen."""
    def register(made):
        context = contextlib.contextmanager(made)
        context.serves, context.weight = serves, weight
        FAULTS[made.__name__.replace("_", "-")] = context
        return made
    return register


# ---- nodes ---------------------------------------------------------------------------------------


def killed(node):
    node.server.kill()
    yield node.name
    node.again()


def stopped(node):
    node.server.signal(signal.SIGSTOP)
    yield node.name
    node.server.signal(signal.SIGCONT)


@fault(weight=6)
def leader_killed(site, _):
    yield from killed(site.leader())


@fault()
def leader_killed_and_back_at_once(site, _):
    node = site.leader()
    node.server.kill()
    node.again()
    yield node.name


@fault()
def follower_killed(site, chance):
    yield from killed(chance.choice(site.followers()))


@fault(serves=False, weight=1)
def all_nodes_killed(site, _):
    for node in site.nodes:
        node.server.kill()
    yield "all"
    for node in site.nodes:
        node.again()


@fault(weight=4)
def leader_hangs(site, _):
    yield from stopped(site.leader())


@fault(weight=1)
def follower_hangs(site, chance):
    yield from stopped(chance.choice(site.followers()))


@fault(weight=1)
def lead_moved(site, chance):
    node = chance.choice(site.followers())
    site.leader().command("promote", str(site.number(node)), "--yes")
    yield f"to {node.name}"


@fault(weight=1)
def leader_stopped(site, _):
    node = site.leader()
    node.server.stop(timeout=60)
    yield node.name
    node.again()


@fault()
def follower_wiped(site, chance):
    node = chance.choice(site.followers())
    node.server.kill()
    site.wipe(node)
    node.again()
    yield node.name


@fault(weight=1)
def leader_wiped(site, _):
    node = site.leader()
    node.server.kill()
    poll(site.leader, "another node leads", SERVED_S)
    site.wipe(node)
    node.again()
    yield node.name


@fault(serves=False, weight=1)
def leader_disk_full(site, _):
    yield from full(site, site.leader().name)


@fault(weight=1)
def follower_disk_full(site, chance):
    yield from full(site, chance.choice(site.followers()).name)


def full(site, disk):
    filler = site.fill(disk)
    yield disk
    os.remove(filler)


@fault(weight=1)
def clock_of_a_node_back(site, chance):
    """An hour. It comes back with the clock of the machine."""
    node, env = chance.choice(site.nodes), {
        "LD_PRELOAD": FAKETIME, "FAKETIME": "-3600", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    if not os.path.exists(FAKETIME):
        yield "libfaketime is not installed: not done"
        return
    node.server.kill()
    node.again(env)
    yield node.name
    node.server.kill()
    node.again()


# ---- the network ---------------------------------------------------------------------------------


@fault(weight=3)
def leader_cut_off(site, _):
    """Clients do not reach it either."""
    name = site.leader().name
    site.net.cut(name)
    yield name
    site.net.join(name)


@fault(weight=2)
def leader_cut_from_machines(site, _):
    """Clients reach it still."""
    yield from blinded(site, both_ways(site.leader().name))


@fault(weight=1)
def follower_cut_off(site, chance):
    name = chance.choice(site.followers()).name
    site.net.cut(name)
    yield name
    site.net.join(name)


@fault(weight=2)
def cut_one_way(site, chance):
    one, other = chance.sample(MACHINES, 2)
    yield from blinded(site, [(one, other)])


@fault(weight=1)
def leader_is_not_heard(site, _):
    name = site.leader().name
    yield from blinded(site, [(name, other) for other in MACHINES if other != name])


@fault(weight=1)
def leader_hears_nobody(site, _):
    name = site.leader().name
    yield from blinded(site, [(other, name) for other in MACHINES if other != name])


def both_ways(name):
    others = [other for other in MACHINES if other != name]
    return [(name, other) for other in others] + [(other, name) for other in others]


def blinded(site, pairs):
    for one, other in pairs:
        site.net.blind(one, other)
    yield ", ".join(f"{one} to {other}" for one, other in pairs)
    for one, other in pairs:
        site.net.see(one, other)


@fault(weight=2)
def slow_network(site, chance):
    names = chance.sample(MACHINES, chance.randint(1, 3))
    how = [site.net.slow(name) for name in names]
    yield f"{', '.join(names)}: {how[0]}"
    for name in names:
        site.net.fast(name)


# ---- NATS ----------------------------------------------------------------------------------------


@fault(weight=3)
def nats_leader_killed(site, chance):
    number = site.nats.leader_of(stream(site, chance.randrange(site.logs))) or 0
    site.nats.kill(number)
    yield f"n{number}"
    site.nats.start(number)


@fault(weight=1)
def nats_hangs(site, chance):
    number = chance.randrange(len(MACHINES))
    process = site.nats.processes[number]
    process.send_signal(signal.SIGSTOP)
    yield f"n{number}"
    process.send_signal(signal.SIGCONT)


@fault(serves=False, weight=1)
def two_nats_killed(site, chance):
    yield from nats_killed(site, chance.sample(range(len(MACHINES)), 2))


@fault(serves=False, weight=2)
def all_nats_killed(site, _):
    yield from nats_killed(site, range(len(MACHINES)))


def nats_killed(site, numbers):
    for number in numbers:
        site.nats.kill(number)
    yield ", ".join(f"n{number}" for number in numbers)
    for number in numbers:
        site.nats.start(number)


@fault(weight=2)
def stream_deleted(site, chance):
    name = stream(site, chance.randrange(site.logs))
    site.nats.ask(f"$JS.API.STREAM.DELETE.{name}")
    yield name


@fault(weight=1)
def stream_purged(site, chance):
    name = stream(site, chance.randrange(site.logs))
    site.nats.ask(f"$JS.API.STREAM.PURGE.{name}")
    yield name


def stream(site, log):
    """The newest stream of a log."""
    prefix = f"HL-holdline-LOG-{log:02}-"
    found = [name for name in site.nats.streams() if name.startswith(prefix)]
    return max(found, key=lambda name: int(name.removeprefix(prefix)))


@fault(serves=False, weight=2)
def nats_with_an_older_disk(site, chance):
    """A server comes back with its disk of before while another one is away."""
    old, away = chance.sample(range(len(MACHINES)), 2)
    site.nats.kill(old)
    store, saved = site.nats.store(old), os.path.join(site.folder, "saved")
    shutil.copytree(store, saved)
    site.nats.start(old)
    poll(lambda: site.nats.is_well(old), "NATS is well again", HEALED_S)
    time.sleep(chance.uniform(1, 5))
    site.nats.kill(old)
    for entry in os.listdir(store):
        shutil.rmtree(os.path.join(store, entry))
    shutil.copytree(saved, store, dirs_exist_ok=True)
    shutil.rmtree(saved)
    site.nats.kill(away)
    site.nats.start(old)
    yield f"n{old}, without n{away}"
    site.nats.start(away)


@fault(weight=1)
def nats_disk_full(site, chance):
    """JetStream of that server is off until it starts again."""
    number = chance.randrange(len(MACHINES))
    filler = site.fill(f"nats-{MACHINES[number]}")
    yield f"n{number}"
    os.remove(filler)
    site.nats.kill(number)
    site.nats.start(number)


# ---- the run -------------------------------------------------------------------------------------


class Round:
    """A cluster, its load, and faults until one of them is not survived."""

    def __init__(self, run, number):
        self.run, self.number = run, number
        self.chance = random.Random(f"{run.options.seed} {number}")
        self.case = fixture.Case()
        self.case.servers = []
        self.case.log_from = 0
        nodes = run.options.nodes or self.chance.choice((2, 2, 3))
        try:
            self.site = Site(self.case, nodes)
            self.site.form()
            self.load = Load([node.host for node in self.site.nodes], PORTS, run.options.rate)
            self.case.addCleanup(self.load.close)
            self.site.accounts(self.load.accounts())
            self.load.start(lambda question, what: poll(question, what, SERVED_S))
            poll(lambda: self.load.served_since(0), "everybody is served", SERVED_S)
        except BaseException:
            self.case.doCleanups()
            raise

    def choose(self):
        names = self.run.options.only or list(FAULTS)
        if self.run.options.each:
            return names[len(self.run.faults) % len(names)]
        return self.chance.choices(names, [FAULTS[name].weight for name in names])[0]

    def one(self):
        """One fault; what came of it."""
        name = self.choose()
        done = {"fault": name, "round": self.number, "nodes": len(self.site.nodes)}
        began = time.monotonic()
        lasts, sent = self.chance.uniform(*self.run.options.lasts), self.load.sent()
        self.load.watch()
        try:
            with FAULTS[name](self.site, self.chance) as done["where"]:
                time.sleep(lasts)
            over = time.monotonic()
            poll(lambda: self.load.served_since(over), "everybody is served again", SERVED_S)
            done["served_s"] = round(self.load.longest_gap() if FAULTS[name].serves
                                     else time.monotonic() - over, 2)
            done["lasted_s"] = round(lasts, 1)
            self.site.heal()
            done["whole_s"] = round(time.monotonic() - began, 1)
            done["sent"] = self.load.sent() - sent
            done["found"] = self.load.audit(lambda question, what: poll(question, what, AUDIT_S))
            differs = self.site.compare(self.folder())
            if differs:
                done["found"]["copies"] = differs
            self.load.go_on()
        except (AssertionError, OSError, subprocess.SubprocessError, KeyError) as error:
            done.setdefault("found", {})["failed"] = f"{type(error).__name__}: {error}"[:2000]
            done["found"]["not served"] = self.load.behind(began)
        done["took_s"] = round(time.monotonic() - began, 1)
        if done["found"]:
            self.site.keep(self.folder())
            done["refusals"] = self.load.refusals()
        return done

    def folder(self):
        return os.path.join(self.run.options.keep, f"round-{self.number}")

    def latencies(self):
        return {sender.name: sender.latencies for sender in self.load.senders}

    def close(self):
        if self.run.options.keep_all:
            self.site.keep(self.folder())
        self.case.doCleanups()


class Run:
    def __init__(self, options):
        self.options, self.faults, self.latencies = options, [], collections.defaultdict(list)
        self.refusals = collections.Counter()

    def whole(self):
        began, number = time.monotonic(), 0
        is_over = lambda: len(self.faults) >= self.options.faults or (  # noqa: E731
            self.options.minutes and time.monotonic() - began > self.options.minutes * 60)
        while not is_over():
            number += 1
            try:
                round = Round(self, number)
            except AssertionError as error:
                done = {"fault": "none", "where": "a cluster begins", "round": number, "took_s": 0,
                        "found": {"failed": str(error)[-2000:]}}
                self.faults.append(done)
                self.tell(done)
                if all(it["fault"] == "none" for it in self.faults[-BEGINNINGS:]):
                    return
                continue
            try:
                for _ in range(self.options.round):
                    if is_over():
                        break
                    done = round.one()
                    self.faults.append(done)
                    self.tell(done)
                    if done["found"]:
                        break
            finally:
                for name, found in round.latencies().items():
                    self.latencies[name] += found
                round.close()

    def tell(self, done):
        served = f"served after {done['served_s']:.1f} s" if "served_s" in done else "NOT SERVED"
        print(f"{len(self.faults):4} {done['fault']} ({done.get('where', 'not done')}): {served}, "
              f"{done.get('sent', 0)} acknowledged, took {done['took_s']:.0f} s"
              + (f": {json.dumps(done['found'])}" if done["found"] else ""), flush=True)

    def figures(self):
        row = lambda name, unit, value: {  # noqa: E731
            "name": name, "unit": unit, "value": round(value, 2)}
        times = sorted(done["served_s"] for done in self.faults if "served_s" in done)
        count = lambda word: sum(  # noqa: E731
            any(word in key for key in done["found"]) for done in self.faults)
        rows = [row("faults", "", len(self.faults)),
                row("acknowledged", "", sum(done.get("sent", 0) for done in self.faults)),
                row("faults with a loss", "", count("lost")),
                row("faults with a double", "", count("doubled")),
                row("faults after which copies differed", "", count("copies")),
                row("faults after which it was not whole", "", count("failed"))]
        if times:
            rows += [row("served again, p50", "s", at(times, 0.5)),
                     row("served again, p95", "s", at(times, 0.95)),
                     row("served again, longest", "s", times[-1])]
        for name, found in self.latencies.items():
            if found:
                found.sort()
                rows += [row(f"{name}, answer, p50", "ms", 1000 * statistics.median(found)),
                         row(f"{name}, answer, p99", "ms", 1000 * at(found, 0.99))]
        return rows

    def result(self, began, load):
        return {
            "scenario": "cluster-faults", "seconds": round(time.time() - began),
            **environment(began),
            "details": {"faults": self.faults, "kinds": self.kinds()},
            "figures": self.figures(), "load": {"before": load, "after": loadavg()},
            "plan": plan("cluster-faults", self.options),
        }

    def kinds(self):
        found = {}
        for done in self.faults:
            it = found.setdefault(done["fault"], {"faults": 0, "failed": 0, "served_s": []})
            it["faults"] += 1
            it["failed"] += bool(done["found"])
            it["served_s"] += [done["served_s"]] if "served_s" in done else []
        return found


def at(sorted_values, share):
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]


def loadavg():
    return f"{os.getloadavg()[0]:.2f}"


def plan(name, options):
    """What was asked for, without the places of files."""
    return {"plan": name, **{key: value for key, value in vars(options).items()
                             if key not in ("binary", "out", "keep", "keep_all")}}


def environment(began):
    """Of which commit and machine a result is."""
    with open("/proc/meminfo", encoding="utf-8") as file:
        memory = int(re.search(r"MemTotal:\s+(\d+)", file.read())[1]) // 1024
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = re.search(r"model name\s*: (.*)|$", file.read())[1]
    version = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"],
                             cwd=fixture.ROOT, capture_output=True, text=True, check=False)
    built = subprocess.run([fixture.BINARY, "--version"], capture_output=True, text=True,
                           check=False)
    return {"began": time.strftime("%H:%M", time.gmtime(began)),
            "date": time.strftime("%Y-%m-%d", time.gmtime(began)),
            "commit": version.stdout.strip(), "version": built.stdout.strip(),
            "machine": {"cores": os.cpu_count(), "cpu": cpu, "kernel": platform.release(),
                        "memory_mb": memory}}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=300, help="how many")
    parser.add_argument("--minutes", type=float, help="no fault begins after so long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=2000, help="messages a second together")
    parser.add_argument("--nodes", type=int, choices=(2, 3), help="of each round; else by chance")
    parser.add_argument("--round", type=int, default=ROUND, help="faults of one cluster")
    parser.add_argument("--lasts", type=float, nargs=2, default=(3, 20), metavar="S",
                        help="shortest and longest time that a fault lasts, seconds")
    parser.add_argument("--only", action="append", choices=list(FAULTS), help="this fault alone")
    parser.add_argument("--each", action="store_true", help="one after the other, not by chance")
    parser.add_argument("--keep", default=os.path.join(fixture.TARGET, "cluster-faults"),
                        help="folder for logs and exports of what did not hold")
    parser.add_argument("--keep-all", action="store_true", help="also of what held")
    parser.add_argument("--binary", help="the server, instead of HOLDLINE_E2E_BINARY")
    parser.add_argument("--out", help="where the result is written, as JSON")
    return parser.parse_args()


def main():
    options = arguments()
    if options.binary:
        fixture.BINARY = os.path.abspath(options.binary)
    # Whoever ends it has everything removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    own_mounts()
    run, began, load = Run(options), time.time(), loadavg()
    try:
        run.whole()
    finally:
        if options.out and run.faults:
            with open(options.out, "w", encoding="utf-8") as file:
                json.dump(run.result(began, load), file, indent=2, sort_keys=True)
    for figure in run.figures():
        print(f"  {figure['name']}: {figure['value']:g} {figure['unit']}")
    return 1 if any(done["found"] for done in run.faults) else 0


if __name__ == "__main__":
    sys.exit(main())

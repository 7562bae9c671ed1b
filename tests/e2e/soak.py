"""A server under many floods at once, while other clients are measured: `make soak`.

Starts a server with its default limits, clients that do too much of everything (soak_floods.py),
each from an address of its own, and clients that measure (soak_probes.py). It prints a line for
each minute and a verdict, and exits with 1 if the server did not hold:

- each probe's latency stays below 50 ms at p99 over the whole run, and no probe is lost;
- the memory, without files as `memory_max` has it, stays below `memory_max`, and falls to half of it within a minute after the floods;
- the server lives, and `/readyz` says so within that minute.

A calm before the floods is measured, too, and during the floods how late the probes' own timers
are, how long the disk takes to sync a page, and for how much of their time the server's shards wait
for a core: where these are bad, the machine is too busy to say anything of the server.
"""

import argparse
import collections
import contextlib
import http.client
import json
import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

import fixture
import im.wire
from soak_floods import DOMAIN, FLOODS, SECRET
from soak_floods import ACCOUNTS as FLOODED
from soak_probes import ACCOUNTS as PROBED
from soak_probes import PROBES, Histogram
from xmpp.people import add_users

FOLDER = os.path.dirname(os.path.abspath(__file__))
MIB = 1024 * 1024
P99_MS_MAX = 50.0
RECOVERY_S = 60
MACHINE = ("lateness", "disk sync")
LOOPBACK = "127.0.0.1:0"


def configuration(memory_max):
    """Limits are the defaults, but for the memory. The doors of the floods believe a PROXY header:
    the server counts no connection against its source that comes from this machine."""
    flood = {"proxy": "v1v2", "anonymous": "yes"}
    everything = {"address": LOOPBACK, "websocket": True, "bosh": "/http-bind"}
    web = {"address": LOOPBACK, "protocol": "im", "websocket": "/im"}
    return {
        "server": {"shards": None, "pin": False, "log": "warn"},
        "limits": {"connections_max": None, "drain_ms": None, "retry_jitter_ms": None,
                   "memory_max": memory_max},
        "listen.any": everything,
        "listen.flood": {**everything, **flood},
        "listen.web": web,
        "listen.flood-web": {**web, **flood},
        "listen.component": {"address": LOOPBACK, "protocol": "xmpp-component"},
        "component.soak": {"domain": DOMAIN, "secret": SECRET},
        "media": {"folder": "media"},
    }


# ---- processes -----------------------------------------------------------------------------------


class Child:
    """A process of Python that is told its world by a line, and answers by lines of JSON."""

    def __init__(self, script, arguments, world, niceness=0):
        def before():
            fixture.end_with_parent()
            os.nice(niceness)
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(FOLDER, script), *arguments], text=True, cwd=FOLDER,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=before)
        self.changed, self.last, self.told = threading.Condition(), {}, 0
        self.cpu_s = 0.0
        self.say(json.dumps(world))
        threading.Thread(target=self._reads, daemon=True).start()

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def _reads(self):
        for line in self.process.stdout:
            with self.changed:
                self.last, self.told = json.loads(line), self.told + 1
                self.changed.notify_all()

    def ask(self):
        """The next line, after one that asks for it."""
        with self.changed:
            before = self.told
            self.say("")
            if not self.changed.wait_for(lambda: self.told > before, 60):
                raise AssertionError(f"process {self.process.pid} answers nothing")
            return self.last

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(3)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def cpu_s(pid):
    """Seconds of processor time of a process; 0 of one that is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def threads_s(pid):
    """Seconds of processor time by the names of a process's threads."""
    found = collections.Counter()
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/task/{thread}/comm", encoding="utf-8") as file:
                    name = file.read().strip()
                found[name] += cpu_s(f"{pid}/task/{thread}")
    return found


def waits(pid):
    """Seconds that the threads of the shards ran, and that they waited for a core."""
    ran, waited = 0, 0
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/task/{thread}/comm", encoding="utf-8") as file:
                    if not file.read().startswith("shard-"):
                        continue
                with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="utf-8") as file:
                    fields = file.read().split()
                ran, waited = ran + int(fields[0]), waited + int(fields[1])
    return ran / 1e9, waited / 1e9


class Watch(threading.Thread):
    """Looks at the server five times a second: its memory, and each second what it says of it."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.over = server, threading.Event()
        self.peaks = {"VmRSS": 0, "RssAnon": 0}
        self.now = dict(self.peaks)
        self.states, self.turn_us = collections.Counter(), 0
        self.start()

    def run(self):
        for turn in range(1 << 62):
            if self.over.wait(0.2):
                return
            with contextlib.suppress(OSError):
                with open(f"/proc/{self.server.pid}/status", encoding="utf-8") as file:
                    text = file.read()
                for name in self.peaks:
                    found = re.search(rf"{name}:\s+(\d+) kB", text)
                    self.now[name] = int(found[1]) * 1024 if found else 0
                    self.peaks[name] = max(self.peaks[name], self.now[name])
            if turn % 5 == 0:
                status, told = self.asks("/v1/status")
                self.states[told["memory_pressure"] if status == 200 else "no answer"] += 1
                if status == 200:
                    self.turn_us = max(self.turn_us, told["turn_us_max"])

    def asks(self, path):
        """Status and answer of a question, over a connection of its own; 0 without an answer."""
        link = http.client.HTTPConnection(*self.server.ports["api"], timeout=5)
        try:
            link.request("GET", path, headers={"Authorization": f"Bearer {self.server.token}"})
            answer = link.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            return 0, repr(error)
        finally:
            link.close()

    def holds(self):
        """What the server says that it holds, MiB by gauge, the largest first."""
        link = http.client.HTTPConnection(*self.server.ports["api"], timeout=5)
        try:
            link.request("GET", "/metrics",
                         headers={"Authorization": f"Bearer {self.server.token}"})
            text = link.getresponse().read().decode()
        except (OSError, http.client.HTTPException) as error:
            return {"error": repr(error)}
        finally:
            link.close()
        held = collections.Counter()
        for name, value in re.findall(r"^(holdline_\w+_bytes)(?:{[^}]*})? (\S+)$", text, re.M):
            held[name] += float(value)
        return {name: round(value / MIB, 1) for name, value in held.most_common()
                if value >= MIB}

    def since(self):
        """States and the longest turn since the last question."""
        (states, turn_us), self.states, self.turn_us = (
            (self.states, self.turn_us), collections.Counter(), 0)
        return states, turn_us / 1000


# ---- the run -------------------------------------------------------------------------------------


class Soak:
    """A run: a server, probes, floods, and what was seen of them."""

    def __init__(self, options):
        self.options, self.memory_max = options, options.memory_max * MIB
        self.floods, self.probes, self.watch = {}, None, None
        self.times = {name: Histogram() for name in PROBES}
        self.machine = {name: Histogram() for name in MACHINE}
        self.failures = {name: collections.Counter() for name in PROBES}
        self.calm, self.minutes, self.violations = {}, [], []
        self.server = fixture.Server(configuration(self.memory_max))

    def close(self):
        for child in [*self.floods.values(), *filter(None, [self.probes])]:
            child.close()
        if self.watch:
            self.watch.over.set()
            self.watch.join()
        self.server.close()

    def world(self, **more):
        return {"ports": self.server.ports, "token": self.server.token, **more}

    def begin_floods(self):
        names = self.options.only if self.options.only is not None else list(FLOODS)
        names = [name for name in names if name not in self.options.without]
        share = self.options.flood_cores / max(1, len(names))
        print(f"floods: {', '.join(names) or 'none'}; each at most {share:.2f} of a core, "
              f"nice 19", flush=True)
        for number, name in enumerate(names, 1):
            world = self.world(seconds=self.options.minutes * 60, share=share,
                               source=f"127.0.1.{number}", claims=f"10.77.0.{number}")
            self.floods[name] = Child("soak_floods.py", [name], world, niceness=19)

    def interval(self, label, seconds):
        """Lets time pass, and says what happened in it: the times by name, and figures."""
        began, before = time.monotonic(), self.used()
        while time.monotonic() < began + seconds and self.server.process.poll() is None:
            time.sleep(max(0, min(1, began + seconds - time.monotonic())))
        report, took = self.probes.ask(), time.monotonic() - began
        states, turn_ms = self.watch.since()
        told = {**report["probes"], **{name: report[name] for name in MACHINE}}
        times = {name: Histogram(it["buckets"], it["longest"]) for name, it in told.items()}
        cpu, flooded, threads, ran, waited = (
            after - earlier for after, earlier in zip(self.used(), before))
        figures = {
            "label": label,
            "ms": {name: [round(it.ms(0.5), 2), round(it.ms(0.99), 2), round(it.longest * 1000, 1)]
                   for name, it in times.items()},
            "rss_mib": round(self.watch.now["VmRSS"] / MIB),
            "anonymous_mib": round(self.watch.now["RssAnon"] / MIB),
            "pressure": dict(states), "turn_ms_max": round(turn_ms, 1),
            "cpu": round(cpu / took, 2), "cpu_floods": round(flooded / took, 2),
            "cpu_threads": {name: round(it / took, 3) for name, it in threads.most_common()},
            "held_mib": self.watch.holds(),
            "shards_wait_percent": round(100 * waited / max(ran + waited, 1e-9)),
            "failures": {name: it["failures"] for name, it in report["probes"].items()
                         if it["failures"]}}
        self.say(figures)
        return times, figures

    def used(self):
        """Processor time so far: of the server, of the floods, of the server's threads, and what
        the shards ran and waited."""
        floods = sum(cpu_s(flood.process.pid) for flood in self.floods.values())
        return (cpu_s(self.server.pid), floods, threads_s(self.server.pid),
                *waits(self.server.pid))

    @staticmethod
    def say(figures):
        shown = "  ".join(f"{name} {'/'.join(f'{it:g}' for it in three)}"
                          for name, three in figures["ms"].items())
        print(f"{figures['label']}: {shown} ms (p50/p99/max);  RSS {figures['rss_mib']} MiB, "
              f"anonymous {figures['anonymous_mib']};  {figures['pressure']};  CPU of the server "
              f"{figures['cpu']}, of the floods {figures['cpu_floods']};  shards waited for a core "
              f"{figures['shards_wait_percent']} %, longest turn {figures['turn_ms_max']} ms",
              flush=True)
        for name, reasons in figures["failures"].items():
            for reason, count in reasons.items():
                print(f"    {name}: {count} x {reason}", flush=True)

    def run(self):
        options = self.options
        accounts = dict.fromkeys([*FLOODED, *PROBED])
        add_users(self.server, [f"{name},secret of {name}" for name in accounts])
        self.watch = Watch(self.server)
        self.probes = Child("soak_probes.py", [], self.world(folder=self.server.data))
        self.interval("start", 3)  # everybody connects
        _, self.calm = self.interval("calm", options.calm_s)
        self.begin_floods()
        began, wanted = time.monotonic(), options.minutes * 60
        while (gone := time.monotonic() - began) < wanted - 0.5 \
                and self.server.process.poll() is None:
            seconds = min(options.every_s, wanted - gone)
            found, figures = self.interval(f"{(gone + seconds) / 60:.1f} min", seconds)
            self.minutes.append(figures)
            for name, times in found.items():
                {**self.times, **self.machine}[name].merge(times)
            for name in PROBES:
                self.failures[name].update(figures["failures"].get(name, {}))
            if options.counts:
                self.say_floods()
        for child in self.floods.values():
            child.close()
        self.recovers()
        self.say_floods()

    def say_floods(self):
        for name, child in self.floods.items():
            told = ", ".join(f"{what} {count}" for what, count in sorted(child.last.items()))
            print(f"  flood {name}: {told}", flush=True)

    def recovers(self):
        """After the floods: how soon it is ready, and how soon its memory has fallen."""
        began, self.ready_s, self.fallen_s = time.monotonic(), None, None
        self.ready = "not asked"
        while (gone := time.monotonic() - began) < RECOVERY_S \
                and None in (self.ready_s, self.fallen_s):
            status, told = self.watch.asks("/readyz")
            self.ready = f"{status} {told}"
            if status == 200 and self.ready_s is None:
                self.ready_s = gone
            if self.watch.now["RssAnon"] < self.memory_max / 2 and self.fallen_s is None:
                self.fallen_s = gone
            time.sleep(0.2)
        _, self.after = self.interval("after the floods", 5)
        self.after["held_mib"] = self.watch.holds()

    # -- the verdict

    def judge(self):
        """What did not hold."""
        found = self.violations
        for name, times in self.times.items():
            if not times.total():
                found.append(f"{name}: nothing was measured")
            if times.ms(0.99) >= P99_MS_MAX:
                found.append(f"{name}: p99 {times.ms(0.99):.1f} ms")
            lost = sum(self.failures[name].values())
            if lost:
                found.append(f"{name}: {lost} lost: {dict(self.failures[name])}")
        if self.watch.peaks["RssAnon"] >= self.memory_max:
            found.append(f"memory: {self.watch.peaks['RssAnon'] / MIB:.0f} MiB at its peak")
        if self.server.process.poll() is not None:
            found.append(f"the server ended with {self.server.process.returncode}")
        if self.ready_s is None:
            found.append(f"not ready {RECOVERY_S} s after the floods: {self.ready}")
        if self.fallen_s is None:
            found.append(f"memory: {self.watch.now['RssAnon'] / MIB:.0f} MiB {RECOVERY_S} s after "
                         "the floods, more than half of memory_max")
        return found

    def figures(self):
        """As the files of bench/results have them."""
        row = lambda name, unit, value: {  # noqa: E731
            "name": name, "unit": unit, "value": round(value, 2)}
        rows = []
        for name, times in {**self.times, **self.machine}.items():
            rows += [row(f"{name}, p50", "ms", times.ms(0.5)),
                     row(f"{name}, p99", "ms", times.ms(0.99)),
                     row(f"{name}, longest", "ms", times.longest * 1000)]
        lost = sum(sum(it.values()) for it in self.failures.values())
        rows += [row("probes", "", sum(it.total() for it in self.times.values())),
                 row("probes lost", "", lost),
                 row("memory, peak of all resident", "MiB", self.watch.peaks["VmRSS"] / MIB),
                 row("memory, peak without files", "MiB", self.watch.peaks["RssAnon"] / MIB),
                 row("memory after the floods, without files", "MiB",
                     self.after["anonymous_mib"])]
        if self.ready_s is not None:
            rows.append(row("ready after the floods", "s", self.ready_s))
        return rows

    def result(self, began, load):
        with open("/proc/meminfo", encoding="utf-8") as file:
            memory = int(re.search(r"MemTotal:\s+(\d+)", file.read())[1]) // 1024
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            cpu = re.search(r"model name\s*: (.*)|$", file.read())[1]
        version = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"],
                                 cwd=FOLDER, capture_output=True, text=True, check=False)
        return {
            "scenario": "soak", "seconds": round(time.time() - began),
            "began": time.strftime("%H:%M", time.gmtime(began)),
            "commit": version.stdout.strip(), "date": time.strftime("%Y-%m-%d", time.gmtime(began)),
            "details": {"violations": self.violations, "calm": self.calm, "minutes": self.minutes,
                        "after": self.after,
                        "floods": {name: child.last for name, child in self.floods.items()}},
            "figures": self.figures(), "load": {"before": load, "after": loadavg()},
            "machine": {"cores": os.cpu_count(), "cpu": cpu, "kernel": platform.release(),
                        "memory_mb": memory},
            "plan": {"plan": "soak", "minutes": self.options.minutes,
                     "floods": list(self.floods), "flood_cores": self.options.flood_cores,
                     "nice": self.options.nice,
                     "memory_max": self.memory_max, "binary": fixture.BINARY,
                     "server": fixture.configuration(configuration(self.memory_max)).splitlines()},
        }


@contextlib.contextmanager
def niceness(number):
    """Within, this process and its children have this niceness among the programs of the machine.
    Where the kernel shares the cores between sessions (autogroup), that is the session's."""
    place, before = "/proc/self/autogroup", None
    if number and os.path.exists(place):
        with open(place, encoding="utf-8") as file:
            before = file.read().split()[-1]
        with open(place, "w", encoding="utf-8") as file:
            file.write(str(number))
    elif number:
        os.nice(number)
    try:
        yield
    finally:
        if before is not None:
            with open(place, "w", encoding="utf-8") as file:
                file.write(before)


def loadavg():
    return f"{os.getloadavg()[0]:.2f}"


def arguments():
    cores = os.cpu_count() or 1
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="how long the floods last")
    parser.add_argument("--only", action="append", choices=[*FLOODS, "none"],
                        help="only this flood; several times for several")
    parser.add_argument("--without", action="append", choices=list(FLOODS), default=[],
                        help="all floods but this")
    parser.add_argument("--memory-max", type=int, default=1024, help="MiB, [limits] memory_max")
    parser.add_argument("--flood-cores", type=float, default=min(2, cores / 2),
                        help="cores that all floods together may use, %(default)s here")
    parser.add_argument("--nice", type=int, default=0,
                        help="niceness of the whole run: below 0, as root, where other programs "
                             "keep this machine busy")
    parser.add_argument("--every-s", type=float, default=60, help="seconds from line to line")
    parser.add_argument("--calm-s", type=float, default=10, help="seconds before the floods")
    parser.add_argument("--counts", action="store_true", help="the floods' counts at each line")
    parser.add_argument("--log", help="where the server's log is written at the end")
    parser.add_argument("--binary", help="the server, instead of HOLDLINE_E2E_BINARY")
    parser.add_argument("--out", help="where the result is written, as JSON")
    options = parser.parse_args()
    if options.only and "none" in options.only:
        options.only = []
    return options


def main():
    options = arguments()
    if options.binary:
        fixture.BINARY = os.path.abspath(options.binary)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        im.wire.schema()
    except unittest.SkipTest as missing:
        print(f"{missing}; `make soak` installs it", file=sys.stderr)
        return 2
    with niceness(options.nice):
        return soaks(options)


def soaks(options):
    """A run, from its start to its verdict; the exit code."""
    began, load = time.time(), loadavg()
    soak = Soak(options)
    try:
        soak.run()
        for violation in soak.judge():
            print(f"DID NOT HOLD: {violation}")
        for name, times in {**soak.times, **soak.machine}.items():
            print(f"{name}: {times.ms(0.5):.2f}, {times.ms(0.99):.2f}, "
                  f"{times.longest * 1000:.1f} ms (p50, p99, longest)")
        if options.out:
            with open(options.out, "w", encoding="utf-8") as file:
                json.dump(soak.result(began, load), file, indent=2, sort_keys=True)
                file.write("\n")
    except KeyboardInterrupt:
        print("stopped")
        return 130
    finally:
        soak.close()
        if options.log:
            with open(options.log, "w", encoding="utf-8") as file:
                file.write(soak.server.log)
    print("the server did not hold" if soak.violations else "the server held")
    return 1 if soak.violations else 0


if __name__ == "__main__":
    sys.exit(main())

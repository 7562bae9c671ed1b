"""What a cluster costs beside a node that is alone, on this machine: `make cluster` stores faults,
this stores figures.

The same clients (load.py) send to one node that is alone, and to the leader of two nodes over three
NATS servers, all on machines of network namespaces with disks in memory: latencies of one message
in flight a client, throughput of what is stored with many in flight, CPU of NATS beside that of the
leader, planned changes of the lead, and the copy of a base to a node that joins.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import fixture  # noqa: E402
from cluster.faults import at, environment, loadavg, plan  # noqa: E402
from cluster.load import Load, socket_to  # noqa: E402
from cluster.nats import PATIENT_S  # noqa: E402
from cluster.site import PORTS, Site, own_mounts  # noqa: E402
from fixture import poll  # noqa: E402
from mqtt import wire  # noqa: E402
from mqtt.wire import V5, Wire  # noqa: E402

SENDERS = ("qos1", "qos2", "push", "im", "xmpp")
BODY = b"." * 60_000
WINDOW = 512
COPY_S = 600
# Sessions that are away have room for all.
QUEUES = {"mqtt": {"queue_count_max": 100_000_000, "queue_bytes_max": 4_000_000_000}}


def cpu_s(pid):
    """Seconds of processor time of a process."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Measure:
    def __init__(self, options):
        self.options, self.rows, self.details = options, [], {}

    def row(self, name, unit, value):
        self.rows.append({"name": name, "unit": unit, "value": round(value, 3)})
        print(f"  {name}: {value:.3g} {unit}", flush=True)

    @contextlib.contextmanager
    def site(self, nodes, changes=None):
        """A cluster of so many nodes, or one node without a cluster."""
        case = fixture.Case()
        case.servers, case.log_from = [], 0
        try:
            site = Site(case, max(1, nodes), changes=changes)
            if nodes:
                site.form()
            else:
                node, = site.nodes
                node.changes["cluster"] = None
                node.start()
                poll(lambda: node.code("/readyz") == 200, "it is ready", PATIENT_S)
            yield site
        finally:
            case.doCleanups()

    @contextlib.contextmanager
    def load(self, site, rate):
        load = Load([node.host for node in site.nodes], PORTS, rate)
        try:
            for name in load.accounts():
                site.nodes[0].server.ask("PUT", f"/v1/users/{name}",
                                         {"password": f"secret of {name}"})
            load.start(lambda question, what: poll(question, what, PATIENT_S))
            poll(lambda: load.served_since(0), "everybody is served", PATIENT_S)
            yield load
        finally:
            load.close()

    def one_at_a_time(self, label, site):
        """Latencies with one message of each kind in flight; milliseconds by kind."""
        found = {}
        with self.load(site, 0) as load:
            time.sleep(1)
            for sender in load.senders:
                sender.latencies.clear()
            time.sleep(self.options.seconds)
            for sender in load.senders:
                if sender.name in SENDERS:
                    times = sorted(sender.latencies)
                    found[sender.name] = 1000 * statistics.median(times)
                    self.row(f"{sender.name}, answer {label}, p50", "ms", found[sender.name])
                    self.row(f"{sender.name}, answer {label}, p99", "ms", 1000 * at(times, 0.99))
        return found

    @staticmethod
    def away(host, topic):
        """A kept session that subscribes and goes: what is sent to it is stored."""
        with contextlib.closing(Wire(socket_to(host, PORTS["mqtt"]), V5)) as hearer:
            hearer.send(wire.connect(V5, f"away-{topic}", clean=False,
                                     props={"session_expiry": 86400}))
            assert hearer.read().code == 0
            hearer.subscribe((topic, 1))

    def throughput(self, label, site):
        """Messages at QoS 1 to a kept session that is away, as many as are answered; a second."""
        host = site.nodes[0].host
        self.away(host, "flood")
        nats, node = site.nats.processes, site.nodes[0].server
        before = sum(cpu_s(it.pid) for it in nats), cpu_s(node.pid)
        with contextlib.closing(Wire(socket_to(host, PORTS["mqtt"]), V5)) as link:
            link.send(wire.connect(V5, "flood"))
            assert link.read().code == 0
            began, count, open = time.monotonic(), 0, 0
            while time.monotonic() < began + self.options.seconds or open:
                if time.monotonic() < began + self.options.seconds and open <= WINDOW // 2:
                    link.send(*(wire.publish(V5, "flood", b"." * 200, 1, id=1 + (count + n) % 60000)
                                for n in range(WINDOW - open)))
                    count, open = count + WINDOW - open, WINDOW
                answer = link.read()
                assert answer.code < 0x80, answer
                open -= 1
        took = time.monotonic() - began
        dropped = sum(node.status()["dropped"].values())
        assert not dropped, f"{dropped} were not stored"
        used = [after - earlier for after, earlier in zip(
            (sum(cpu_s(it.pid) for it in nats), cpu_s(node.pid)), before)]
        self.row(f"stored messages {label}", "1/s", count / took)
        self.row(f"CPU of the leader {label}, a million stored messages", "s",
                 used[1] / count * 1e6)
        if label != "alone":
            self.row("CPU of three NATS servers, a million stored messages", "s",
                     used[0] / count * 1e6)
        return count / took

    def moves(self, site):
        """Planned changes of the lead under load: the longest time without an answer of each."""
        gaps = []
        with self.load(site, self.options.rate) as load:
            for _ in range(self.options.moves):
                site.heal()
                time.sleep(1)
                load.watch()
                leader = site.leader()
                follower, = site.followers()
                moved = time.monotonic()
                leader.command("promote", str(site.number(follower)), "--yes")
                poll(follower.leads, "it leads", PATIENT_S)
                poll(lambda: load.served_since(moved + 1), "everybody is served", PATIENT_S)
                gaps.append(load.longest_gap())
        gaps.sort()
        self.details["moves"] = gaps
        self.row("planned change of the lead, longest without an answer, p50", "s",
                 statistics.median(gaps))
        self.row("planned change of the lead, longest without an answer, longest", "s", gaps[-1])

    def copy(self, site):
        """A node joins a leader with so many bytes."""
        first, second = site.nodes
        second.server.stop(timeout=60)
        host = first.host
        poll(first.leads, "it leads", PATIENT_S)
        self.away(host, "base")
        with contextlib.closing(Wire(socket_to(host, PORTS["mqtt"]), V5)) as link:
            link.send(wire.connect(V5, "large"))
            assert link.read(PATIENT_S).code == 0
            left, number = self.options.base_mb * 1_000_000, 0
            while left > 0:
                number += 1
                link.send(wire.publish(V5, "base", BODY, 1, id=number % 60_000 + 1))
                answer = link.read(PATIENT_S)
                assert answer.code < 0x80, answer
                left -= len(BODY)
        site.wipe(second)
        began = time.monotonic()
        second.again()
        ends = [it["index"] for it in first.cluster()["logs"]]

        def follows():
            logs = second.cluster()["logs"]
            return logs and all(it["index"] >= end for it, end in zip(logs, ends))
        poll(follows, "it follows", COPY_S)
        self.row(f"base of {self.options.base_mb} MB copied, until the node follows", "s",
                 time.monotonic() - began)

    def whole(self):
        with self.site(0, QUEUES) as site:
            alone = self.one_at_a_time("alone", site)
            rate = self.throughput("alone", site)
        with self.site(2, QUEUES) as site:
            ours = self.one_at_a_time("in a cluster", site)
            for name in SENDERS:
                self.row(f"{name}, answer, p50 more than alone", "ms", ours[name] - alone[name])
            logs = site.leader().cluster()["logs"]
            self.row("PubAck, average of the slowest log", "ms",
                     max(it["acknowledged_after_us"] for it in logs) / 1000)
            share = self.throughput("in a cluster", site) / rate
            self.row("stored messages in a cluster, of those alone", "", share)
            self.moves(site)
        if self.options.base_mb:
            with self.site(2, QUEUES) as site:
                self.copy(site)

    def result(self, began, load):
        return {"scenario": "cluster-cost", "seconds": round(time.time() - began),
                **environment(began), "details": self.details, "figures": self.rows,
                "load": {"before": load, "after": loadavg()},
                "plan": plan("cluster-cost", self.options)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="each measurement")
    parser.add_argument("--rate", type=int, default=500, help="of the load while the lead moves")
    parser.add_argument("--moves", type=int, default=10, help="changes of the lead")
    parser.add_argument("--base-mb", type=int, default=500, help="of the copied base; 0: none")
    parser.add_argument("--binary", help="the server, instead of HOLDLINE_E2E_BINARY")
    parser.add_argument("--out", help="where the result is written, as JSON")
    options = parser.parse_args()
    if options.binary:
        fixture.BINARY = os.path.abspath(options.binary)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    own_mounts()
    measure, began, load = Measure(options), time.time(), loadavg()
    try:
        measure.whole()
    finally:
        if options.out:
            with open(options.out, "w", encoding="utf-8") as file:
                json.dump(measure.result(began, load), file, indent=2, sort_keys=True)


if __name__ == "__main__":
    sys.exit(main())

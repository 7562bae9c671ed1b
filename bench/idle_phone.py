"""What an idle phone costs: packets, bytes and wake-ups of an hour, by each library of MIOP and two
clients of MQTT, in networks of their own.

    python3 bench/idle_phone.py COMMIT=BINARY [--minutes 60] [--only python] [--out FILE]

Each phone is a process in a network namespace of its own. Nothing is pushed while the hour lasts.
The router on the other side of its link reads every packet of TCP that passes, which is what the
phone's network card sees; sizes include the headers of IP and TCP, not those of the link. Packets
less than a second apart are one wake-up.

One network forgets no connection. The other translates addresses and forgets a connection that was
silent for 300 s: whatever comes then in either direction is dropped without a word. Needs root,
`ip` and `nft`, the libraries' toolchains, and Debian's `mosquitto-clients`; a client whose tools
are missing is left out.
"""

import argparse
import ctypes
import glob
import json
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from turns import ROOT, build, loadavg, machine

HERE = os.path.join(ROOT, "bench", "idle_phone")
CLIENTS = os.path.join(ROOT, "clients")
FORGETS_S = 300
WAKE_UP_S = 1.0
DEADLINE_S = 60
PORT = 7000

CONFIGURATION = """
[server]
data = "{folder}/data"
shards = 1
pin = false
log = "warn"

[listen.any]
address = "0.0.0.0:{port}"
anonymous = "yes"

# A product as it is by default (300 s), and one whose devices may be silent for long.
[products.default]
app_id = 1
anonymous = "everywhere"

[products.long]
app_id = 2
anonymous = "everywhere"
heartbeat_default_s = 1800
"""

GO_MOD = """module example.com/phone

go 1.21

require holdline.example/miop v0.1.0

replace holdline.example/miop => {clients}/miop-go
"""

CARGO_TOML = """[package]
name = "phone"
version = "0.1.0"
edition = "2021"

[[bin]]
name = "phone"
path = "{here}/phone.rs"

[dependencies]
holdline-miop = {{ path = "{clients}/miop-rust" }}

[workspace]
"""

# How each phone is built in a folder of its own, and run; {clients}, {here}, {folder} are folders.
LIBRARIES = {
    "python": ([], "env PYTHONPATH={clients}/miop-python/src python3 {here}/phone.py"),
    "js": (["(cd {clients}/miop-js && npm install --silent && npm run --silent build)",
            "cp {here}/phone.mjs . && npm install --silent {clients}/miop-js"],
           "node {folder}/phone.mjs"),
    "go": (["cp {here}/phone.go main.go && go mod tidy && go build -o phone ."], "{folder}/phone"),
    "rust": (["cargo build --quiet --release --target-dir ."], "{folder}/release/phone"),
    "c": (["make -s -C {clients}/miop-c",
           "cc -std=c99 -O2 -I{clients}/miop-c/include -I{clients}/miop-c/posix {here}/phone.c "
           "{clients}/miop-c/posix/miop_p*.c {clients}/miop-c/build/libmiop.a -o phone"],
          "{folder}/phone"),
    "java": (["sh {clients}/miop-java/build.sh",
              "javac -cp {clients}/miop-java/build/classes -d . {here}/Phone.java"],
             "java -XX:+UseSerialGC -Xmx64m -cp {folder}:{clients}/miop-java/build/classes Phone"),
    "kotlin": (["sh {clients}/miop-kotlin/build.sh",
                "sh {clients}/miop-kotlin/compiler.sh {clients}/miop-kotlin/build/classes . "
                "{here}/Phone.kt"],
               "java -XX:+UseSerialGC -Xmx64m -cp {folder}:{clients}/miop-kotlin/build/classes:"
               "{clients}/miop-kotlin/build/compiler/* PhoneKt"),
    "swift": (["sh {clients}/miop-swift/build.sh", "cp {here}/phone.swift main.swift",
               "sh {clients}/miop-swift/compiler.sh -swift-version 5 -I {clients}/miop-swift/build "
               "main.swift {clients}/miop-swift/build/libHoldlineMiop.a -o phone"],
              "{folder}/phone"),
}
NEEDS = {"python": "python3", "js": "npm", "go": "go", "rust": "cargo", "c": "cc", "java": "javac",
         "kotlin": "mvn", "swift": "apt-get", "paho": "pip", "mosquitto_sub": "mosquitto_sub"}
MQTT = {
    "paho": (["python3 -m pip install --quiet --target {folder} paho-mqtt"],
             "env PYTHONPATH={folder} python3 {here}/subscriber.py"),
    "mosquitto_sub": ([], "mosquitto_sub"),
}
# Cases of the libraries: network, product, and where the search for an interval begins. `found` is
# a phone that knows its network already.
CASES = {
    "default": ("open", "default", 120),
    "long": ("open", "long", 120),
    "found": ("open", "long", 1800),
    "forgets": ("forgets", "long", 120),
}
KEEP_ALIVES = {"keep-alive 60 s": ("open", 60), "keep-alive 1200 s": ("open", 1200),
               "keep-alive 1200 s, forgets": ("forgets", 1200)}


class Phone:
    """A process in a network namespace, and the packets of its link."""

    def __init__(self, client, case, network, words):
        self.client, self.case, self.network, self.words = client, case, network, words
        # When, whether it came from the phone, bytes, whether it begins a connection, and the
        # phone's port, which tells connections apart.
        self.packets = []
        self.lines, self.process = [], None

    @property
    def name(self):
        return f"{self.client}, {self.case}"


def sh(command, **options):
    done = subprocess.run(["sh", "-e", "-c", command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode:
        raise SystemExit(f"{command}: {done.stdout}")
    return done.stdout


class Networks:
    """A server's namespace, a router for each network, and a namespace for each phone."""

    ROUTERS = {"open": 1, "forgets": 2}

    def __init__(self):
        self.prefix, self.made = f"idle{os.getpid()}", []

    def name(self, of):
        return f"{self.prefix}-{of}"

    def make(self, of):
        name = self.name(of)
        sh(f"ip netns add {name}")
        self.made.append(name)
        for setting in ("net.ipv6.conf.all.disable_ipv6=1", "net.ipv4.ip_forward=1"):
            self.run(of, f"sysctl -q -w {setting}")
        self.run(of, "ip link set lo up")

    def run(self, of, command):
        return sh(f"ip netns exec {self.name(of)} {command}")

    def link(self, one, here, other, there, net):
        """Connects two namespaces: `here` has the first address of the net, `there` the second."""
        sh(f"ip link add {here} netns {self.name(one)} type veth "
           f"peer name {there} netns {self.name(other)}")
        for of, device, host in ((one, here, 1), (other, there, 2)):
            self.run(of, f"ip addr add {net}.{host}/30 dev {device}")
            self.run(of, f"ip link set {device} up")

    def build(self, phones):
        self.make("server")
        for router, number in self.ROUTERS.items():
            self.make(router)
            self.link("server", router, router, "wan", f"10.77.{number}")
            self.run(router, f"ip route add default via 10.77.{number}.1")
        self.run("server", "ip route add 10.78.0.0/16 via 10.77.1.2")
        self.forget()
        for number, phone in enumerate(phones):
            self.make(number)
            self.link(phone.network, f"p{number}", number, "eth0", f"10.78.{number}")
            self.run(number, f"ip route add default via 10.78.{number}.1")

    def forget(self):
        """The second router translates addresses, and drops what belongs to no connection that it
        knows."""
        for setting in ("loose=0", *(f"timeout_{it}={FORGETS_S}" for it in (
                "established", "unacknowledged", "max_retrans"))):
            self.run("forgets", f"sysctl -q -w net.netfilter.nf_conntrack_tcp_{setting}")
        rules = ('table ip phones { '
                 'chain out { type nat hook postrouting priority 100; oifname "wan" masquerade; }; '
                 'chain through { type filter hook forward priority 0; ct state invalid drop; }; '
                 'chain here { type filter hook input priority 0; ct state invalid drop; }; }')
        self.run("forgets", f"nft '{rules}'")

    def remove(self):
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], check=False)


def enter(file):
    """This thread's sockets are of this namespace from now on."""
    if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0x40000000):  # CLONE_NEWNET
        raise OSError(ctypes.get_errno(), "setns")


class Reader(threading.Thread):
    """Reads the packets of all links at the routers."""

    STAMP = 35  # SO_TIMESTAMPNS: when the kernel saw the packet

    def __init__(self, networks, phones):
        super().__init__(daemon=True)
        self.phones, self.sockets = phones, []
        with open("/proc/self/ns/net", "rb") as own:
            for router in Networks.ROUTERS:
                with open(f"/var/run/netns/{networks.name(router)}", "rb") as file:
                    enter(file)
                one = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
                one.setsockopt(socket.SOL_SOCKET, self.STAMP, 1)
                self.sockets.append(one)
            enter(own)

    def run(self):
        while True:
            for one in select.select(self.sockets, [], [])[0]:
                data, extra, _, (device, kind, passage, *_) = one.recvmsg(128, 64, socket.MSG_TRUNC)
                if kind == 0x0800 and device[0] == "p" and data[9] == socket.IPPROTO_TCP:
                    seconds, nanos = struct.unpack("ll", extra[0][2])
                    flags = data[(data[0] & 15) * 4 + 13]
                    phone = self.phones[int(device[1:])]
                    is_up = passage != socket.PACKET_OUTGOING
                    size = struct.unpack_from("!H", data, 2)[0]
                    ports = struct.unpack_from("!HH", data, (data[0] & 15) * 4)
                    phone.packets.append((seconds + nanos / 1e9, is_up, size, flags & 18 == 2,
                                          ports[not is_up]))


def wake_ups(packets):
    """Groups of packets that are less than a second apart."""
    groups = []
    for packet in packets:
        if groups and packet[0] - groups[-1][-1][0] < WAKE_UP_S:
            groups[-1].append(packet)
        else:
            groups.append([packet])
    return groups


def measured(phone, seconds):
    """What the hour of a phone cost, from its first packet."""
    begin = phone.packets[0][0]
    packets = [it for it in phone.packets if it[0] < begin + seconds]
    groups = wake_ups(packets)
    silences = [after[0][0] - before[-1][0] for before, after in zip(groups, groups[1:])]
    sides = {"sent": [it for it in packets if it[1]],
             "received": [it for it in packets if not it[1]]}
    found = {"client": phone.client, "case": phone.case, "network": phone.network,
             "wake_ups": len(groups), "connections": sum(it[3] and it[1] for it in packets),
             "wakes_s": [round(group[0][0] - begin, 1) for group in groups],
             "silences_s": [round(it, 1) for it in silences]}
    for side, of in sides.items():
        found[f"packets_{side}"], found[f"bytes_{side}"] = len(of), sum(it[2] for it in of)
    if phone.network == "forgets":
        found["unreachable_s"] = round(unreachable(packets, begin + seconds))
    return found


def unreachable(packets, end):
    """Seconds from the moment in which the network forgot a connection to the next one. What is
    still sent on the connection before does not count."""
    begins = [(it[0], it[4]) for it in packets if it[1] and it[3]]
    total = 0.0
    for (begin, port), next_begin in zip(begins, [it[0] for it in begins[1:]] + [end]):
        times = [it[0] for it in packets if it[4] == port and begin <= it[0] < next_begin]
        for last, when in zip(times, [*times[1:], next_begin]):
            if when - last >= FORGETS_S:
                total += next_begin - last - FORGETS_S
                break
    return total


def figures(results):
    rows = []
    for it in results:
        name = f"{it['client']}, {it['case']}"
        row = lambda what, unit, value: rows.append(  # noqa: E731
            {"name": f"{name}: {what}", "unit": unit, "value": value})  # noqa: B023
        row("wake-ups", "", it["wake_ups"])
        row("packets", "", it["packets_sent"] + it["packets_received"])
        row("bytes", "", it["bytes_sent"] + it["bytes_received"])
        if it["silences_s"]:
            row("longest silence of the last three", "s", max(it["silences_s"][-3:]))
        if "unreachable_s" in it:
            row("not reachable", "s", it["unreachable_s"])
    return rows


class Run:
    """Server and phones, from their builds to their end."""

    def __init__(self, options):
        self.options, self.processes = options, []
        self.folder = os.path.abspath(options.folder)
        self.networks = Networks()
        self.phones = []

    def places(self, client):
        return {"clients": CLIENTS, "here": HERE, "folder": os.path.join(self.folder, client)}

    def build(self):
        """Builds every client whose tools are installed, and lists the phones."""
        for client, (commands, runs) in {**LIBRARIES, **MQTT}.items():
            if self.options.only and client not in self.options.only:
                continue
            if not shutil.which(NEEDS[client]):
                print(f"{client}: {NEEDS[client]} is not installed", flush=True)
                continue
            places = self.places(client)
            os.makedirs(places["folder"], exist_ok=True)
            for file, text in {"go": {"go.mod": GO_MOD}, "rust": {"Cargo.toml": CARGO_TOML}}.get(
                    client, {}).items():
                with open(os.path.join(places["folder"], file), "w", encoding="utf-8") as out:
                    out.write(text.format(**places))
            for command in commands:
                sh(command.format(**places), cwd=places["folder"])
            self.list_phones(client, runs.format(**places).split())
            print(f"{client} is built", flush=True)

    def list_phones(self, client, command):
        if client in LIBRARIES:
            for case, (network, product, first) in CASES.items():
                words = [*command, "{address}", product, f"{client}-{case}", str(first)]
                self.phones.append(Phone(client, case, network, words))
            return
        for case, (network, keep_alive) in KEEP_ALIVES.items():
            name = f"{client}-{len(self.phones)}"
            words = [*command, "{address}", name, str(keep_alive)]
            if client == "mosquitto_sub":
                words = [*command, "-h", "{host}", "-p", str(PORT), "-i", name, "-q", "1",
                         "-t", f"to/{name}", "-k", str(keep_alive)]
            self.phones.append(Phone(client, case, network, words))

    def spawn(self, of, words):
        process = subprocess.Popen(["ip", "netns", "exec", self.networks.name(of), *words],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.processes.append(process)
        return process

    def start(self):
        self.networks.build(self.phones)
        data = os.path.join(self.folder, "data")
        shutil.rmtree(data, ignore_errors=True)
        configuration = os.path.join(self.folder, "holdline.toml")
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(folder=self.folder, port=PORT))
        server = self.spawn("server", [self.options.build[1], "serve", "--config", configuration])
        threading.Thread(target=server.stdout.read, daemon=True).start()
        ends = time.monotonic() + DEADLINE_S
        while subprocess.run(
                ["ip", "netns", "exec", self.networks.name("server"), "bash", "-c",
                 f"</dev/tcp/127.0.0.1/{PORT}"], stderr=subprocess.DEVNULL, check=False).returncode:
            if time.monotonic() > ends or server.poll() is not None:
                raise SystemExit("the server does not start")
            time.sleep(0.1)
        Reader(self.networks, self.phones).start()
        for number, phone in enumerate(self.phones):
            host = f"10.77.{Networks.ROUTERS[phone.network]}.1"
            words = [it.format(address=f"{host}:{PORT}", host=host) for it in phone.words]
            phone.process = self.spawn(number, words)
            threading.Thread(target=lambda it=phone: it.lines.extend(it.process.stdout),
                             daemon=True).start()

    def wait(self):
        """An hour of each phone, counted from its first packet."""
        seconds = self.options.minutes * 60
        ends = time.monotonic() + DEADLINE_S
        while not all(phone.packets for phone in self.phones):
            if time.monotonic() > ends:
                silent = [(phone.name, phone.lines) for phone in self.phones if not phone.packets]
                raise SystemExit(f"these phones do not connect: {silent}")
            time.sleep(0.1)
        last = max(phone.packets[0][0] for phone in self.phones) + seconds
        while (left := last - time.time()) > 0:
            print(f"{left / 60:.0f} minutes are left", flush=True)
            time.sleep(min(left + 0.1, 300))
        return [{**measured(phone, seconds), **self.reached(phone)} for phone in self.phones]

    def reached(self, phone):
        """Whether a device of MIOP still has what is pushed to it, after its hour."""
        if phone.client not in LIBRARIES:
            return {}
        done = subprocess.run(
            ["ip", "netns", "exec", self.networks.name("server"), self.options.build[1], "push",
             "--data", os.path.join(self.folder, "data"), "--product", CASES[phone.case][1],
             "--device", f"{phone.client}-{phone.case}", "--wait", "10s", "hello"],
            capture_output=True, text=True, check=False)
        return {"reached": "delivered" in done.stdout}

    def versions(self):
        """Of the clients of MQTT."""
        found = {}
        if any(phone.client == "mosquitto_sub" for phone in self.phones):
            said = subprocess.run(["mosquitto_sub", "--help"], capture_output=True, text=True,
                                  check=False).stdout
            found["mosquitto_sub"] = re.search(r"version (\S+)", said)[1]
        for folder in glob.glob(os.path.join(self.folder, "paho", "paho_mqtt-*")):
            found["paho"] = re.search(r"mqtt-([0-9.]+)\.", folder)[1]
        return found

    def stop(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.networks.remove()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=build, help="the server: COMMIT=BINARY")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--only", action="append", choices=[*LIBRARIES, *MQTT])
    parser.add_argument("--folder", default=os.path.join(ROOT, "target", "idle-phone"),
                        help="where the phones are built and the server keeps its data")
    parser.add_argument("--out", help="where the result is stored, as JSON")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    run = Run(options)
    run.build()
    commit = sh("git describe --always --dirty --abbrev=12", cwd=ROOT).strip()
    began, load = time.time(), loadavg()
    try:
        run.start()
        results = run.wait()
    finally:
        run.stop()
    for it in results:
        print(f"{it['client']}, {it['case']}: {it['wake_ups']} wake-ups, "
              f"{it['packets_sent']}+{it['packets_received']} packets, "
              f"{it['bytes_sent']}+{it['bytes_received']} bytes, {it['connections']} connections, "
              f"silences {it['silences_s']}, reached: {it.get('reached')}", flush=True)
    if not options.out:
        return
    result = {"scenario": "idle-phone", "seconds": round(time.time() - began),
              "began": time.strftime("%H:%M", time.gmtime(began)),
              "date": time.strftime("%Y-%m-%d", time.gmtime(began)), "commit": commit,
              "machine": machine(),
              "load": {"before": f"{load:.2f}", "after": f"{loadavg():.2f}"},
              "plan": {"plan": "idle-phone", "server": options.build[0],
                       "minutes": options.minutes, "forgets_s": FORGETS_S, "cases": CASES,
                       "keep_alives": KEEP_ALIVES, "configuration": CONFIGURATION},
              "details": {"phones": results, "versions": run.versions()}, "figures": figures(results)}
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()

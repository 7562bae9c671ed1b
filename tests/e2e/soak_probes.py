"""Probes for `soak.py`: small clients that measure how long a server takes, ten times a second.

    python3 soak_probes.py     with a JSON object on the standard input, and a line for each report

A report is a JSON object a line: of each probe the latencies since the last report, in buckets, and
the failures by their reason. So that a busy machine is not blamed on the server, a report also says
how late the probes' own timers were, and how long the server's disk took to sync a page. What is
lost is counted: a probe without an answer in ten seconds, and one that could not be sent because
its connection had ended.
"""

import collections
import json
import math
import os
import re
import socket
import sys
import threading
import time
import uuid

import fixture
import im.wire
import miop
import mqtt.wire as wire
from mqtt.wire import V5, V311
from xmpp.people import Stream

EVERY_S = 0.1
ANSWER_S = 10
GROWTH = 1.02  # of a bucket to the one before it


class Histogram:
    """Times in buckets of two percent."""

    def __init__(self, buckets=None, longest=0.0):
        self.buckets = collections.Counter({int(at): more for at, more in (buckets or {}).items()})
        self.longest = longest

    def add(self, seconds):
        self.buckets[math.ceil(math.log(max(seconds, 1e-6) * 1e6, GROWTH))] += 1
        self.longest = max(self.longest, seconds)

    def merge(self, other):
        self.buckets.update(other.buckets)
        self.longest = max(self.longest, other.longest)

    def total(self):
        return sum(self.buckets.values())

    def ms(self, share):
        """So large a share of the times is below this, in milliseconds."""
        wanted, seen = share * self.total(), 0
        for at in sorted(self.buckets):
            seen += self.buckets[at]
            if seen >= wanted:
                return min(GROWTH ** at / 1000, self.longest * 1000)
        return 0.0

    def told(self):
        return {"buckets": dict(self.buckets), "longest": self.longest}


class Probe:
    """Something that is sent and comes, each with a number. Of what is derived: `open` connects,
    `send` sends a number, each of `listens` is run by a thread of its own and calls `came` and
    `refused`."""

    every_s = EVERY_S

    def __init__(self, world, lateness):
        self.world, self.lateness, self.lock = world, lateness, threading.Lock()
        self.links, self.life, self.down = [], 0, "not connected yet"
        self.waiting, self.number = collections.OrderedDict(), 0
        self.told = (Histogram(), collections.Counter())

    def place(self, door):
        return tuple(self.world["ports"][door])

    def link(self, link):
        self.links.append(link)
        return link

    # -- what comes of it

    def came(self, number):
        now = time.monotonic()
        with self.lock:
            sent = self.waiting.pop(number, None)
            if sent is not None:
                self.told[0].add(now - sent)

    def refused(self, number, why):
        with self.lock:
            if self.waiting.pop(number, None) is not None:
                self.told[1][f"refused: {why}"] += 1

    def report(self):
        with self.lock:
            (times, failures), self.told = self.told, (Histogram(), collections.Counter())
        return {**times.told(), "failures": failures}

    # -- threads

    def begin(self, life):
        """Connects, and has threads listen."""
        self.open()
        for listen in self.listens():
            threading.Thread(target=self.guarded, args=(listen, life), daemon=True).start()
        self.down = None

    def guarded(self, listen, life):
        try:
            while True:
                listen()
        except Exception as error:
            self.broken(life, error)

    def broken(self, life, error):
        """A connection has ended: what was on its way is lost."""
        with self.lock:
            if life != self.life:
                return
            self.life += 1
            self.down = f"{type(error).__name__} {error}"[:120]
            self.told[1][f"on the way when the connection ended: {self.down}"] += len(self.waiting)
            self.told[1]["connections ended"] += 1
            self.waiting.clear()
            links, self.links = self.links, []
        for link in links:
            link.close()

    def run(self, after_s):
        due = time.monotonic() + after_s
        while True:
            time.sleep(max(0, due - time.monotonic()))
            self.lateness(max(0, time.monotonic() - due))
            self.tick()
            due += self.every_s
            missed = int((time.monotonic() - due) / self.every_s)
            if missed > 10:  # connecting or sending took so long: no burst afterwards
                due += missed * self.every_s
                with self.lock:
                    self.told[1]["not sent, as connecting or sending took long"] += missed

    def tick(self):
        if self.down is not None:
            try:
                self.begin(self.life)
            except Exception as error:
                with self.lock:
                    self.told[1][f"not connected: {type(error).__name__} {error}"[:120]] += 1
                    self.life += 1
                    links, self.links = self.links, []
                for link in links:
                    link.close()
                time.sleep(0.2)
                return
        self.number += 1
        with self.lock:
            now = time.monotonic()
            while self.waiting and now - next(iter(self.waiting.values())) > ANSWER_S:
                self.waiting.popitem(last=False)
                self.told[1][f"no answer in {ANSWER_S} s"] += 1
            self.waiting[self.number] = now
        life = self.life
        try:
            self.send(self.number)
        except Exception as error:
            self.broken(life, error)


class Pair(Probe):
    """A message of MQTT from one client to another."""

    qos = 0

    def open(self):
        self.topic = f"probe/{self.qos}"
        self.reader, self.writer = (
            self.link(wire.Wire(self.place("any"), V5)) for _ in range(2))
        for link, name in ((self.reader, "reads"), (self.writer, "writes")):
            link.open(f"probe-{self.qos}-{name}", user="probe-mqtt",
                      password="secret of probe-mqtt", keep_alive=0)
        self.reader.subscribe((self.topic, self.qos))

    def listens(self):
        return [self.reads, self.answers]

    def send(self, number):
        self.writer.send(wire.publish(V5, self.topic, str(number), self.qos,
                                      id=number % 65_535 + 1))

    def reads(self):
        found = self.reader.read()
        if found.kind == wire.PUBLISH:
            self.came(int(found.payload))
            if found.qos:
                self.reader.send(wire.acknowledge(wire.PUBACK, found.id))
        elif found.kind == wire.DISCONNECT:
            raise EOFError(f"DISCONNECT {found.code:#04x}")

    def answers(self):
        found = self.writer.read(86_400)
        if found.kind == wire.PUBACK and found.code >= 0x80:
            with self.lock:
                numbers = [it for it in self.waiting if it % 65_535 + 1 == found.id]
            for number in numbers:
                self.refused(number, f"PUBACK {found.code:#04x}")
        elif found.kind == wire.DISCONNECT:
            raise EOFError(f"DISCONNECT {found.code:#04x}")


class PairOfQos1(Pair):
    qos = 1


class InOrder(Probe):
    """Questions of one connection that are answered in their order."""

    def answered(self, why=None):
        with self.lock:
            number = next(iter(self.waiting), None)
        if why:
            self.refused(number, why)
        else:
            self.came(number)


class Ping(InOrder):
    """PINGREQ to PINGRESP."""

    def open(self):
        self.wire = self.link(wire.Wire(self.place("any"), V311))
        self.wire.open("probe-pings", user="probe-mqtt", password="secret of probe-mqtt")

    def listens(self):
        return [self.reads]

    def send(self, _):
        self.wire.send(wire.packet(wire.PINGREQ, 0, b""))

    def reads(self):
        self.wire.expect(wire.PINGRESP)
        self.answered()


class Ready(InOrder):
    """GET /readyz, over a connection that is kept."""

    def open(self):
        self.socket = self.link(socket.create_connection(self.place("api"), timeout=60))
        self.seen = b""

    def listens(self):
        return [self.reads]

    def send(self, _):
        self.socket.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n"
                            b"Authorization: Bearer " + self.world["token"].encode() + b"\r\n\r\n")

    def more(self):
        more = self.socket.recv(65_536)
        if not more:
            raise EOFError("the server closed")
        self.seen += more

    def reads(self):
        """One answer."""
        while b"\r\n\r\n" not in self.seen:
            self.more()
        head, _, rest = self.seen.partition(b"\r\n\r\n")
        length = int(re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)[1])
        self.seen = rest
        while len(self.seen) < length:
            self.more()
        body, self.seen = self.seen[:length], self.seen[length:]
        self.judges(int(head.split(None, 2)[1]), body)

    def judges(self, status, body):
        self.answered(None if status == 200 else f"{status} {body[:90].decode()}")


class Push(Ready):
    """A push by the API to a device of MIOP."""

    def open(self):
        super().open()
        self.device = self.link(miop.Device(self.place("any")))
        if self.device.bind("probe")["result"] not in (0, miop.RESUMED):
            raise EOFError("not bound")

    def listens(self):
        return [self.reads, self.receives]

    def send(self, number):
        body = json.dumps({"product": "demo", "device": "probe", "body": f"{number}", "ttl_s": 60})
        self.socket.sendall((f"POST /v1/pushes HTTP/1.1\r\nHost: localhost\r\nAuthorization: "
                             f"Bearer {self.world['token']}\r\nContent-Length: {len(body)}\r\n\r\n"
                             f"{body}").encode())

    def judges(self, status, body):
        word = str(status) if status != 200 else json.loads(body)["outcomes"][0].get("reason")
        if word:
            self.answered(f"push {word}")

    def receives(self):
        frame = self.device.next()
        for record in frame.records:
            self.device.ack(record.id)
            self.came(int(record.body))


class Im(Probe):
    """A message of instant messaging from one person to another."""

    def open(self):
        self.reader, self.writer = (
            self.link(im.wire.Device(self.place("any"))) for _ in range(2))
        for link, name in ((self.reader, "bob"), (self.writer, "ann")):
            told = link.login(f"probe-{name}", password=f"secret of probe-{name}".encode())
            link.ask(acknowledge={"upto": told.head})
            link.upto = told.head

    def listens(self):
        return [lambda: self.hears(self.reader), lambda: self.hears(self.writer)]

    def send(self, number):
        self.writer.ask(send={"number": number, "to": "probe-bob", "client_id": uuid.uuid4().bytes,
                              "content": {"kind": 1, "text": f"probe {number}"}})

    def hears(self, link):
        kind, told = link.frame()
        if kind == "message":
            self.entry(link, told)
        elif kind == "page":
            for entry in told.entries:
                self.entry(link, entry)
            link.ask(acknowledge={"upto": told.upto})
            if told.upto < told.head:
                link.ask(pull={"after": told.upto, "count": 100})
        elif kind == "notify":
            link.ask(pull={"after": link.upto, "count": 100})
        elif kind == "failed":
            self.refused(told.number, told.word)
        elif kind == "end":
            raise EOFError(told.word)

    def entry(self, link, entry):
        link.upto = max(link.upto, entry.seq)
        link.ask(acknowledge={"upto": entry.seq})
        text = entry.message.content.text
        if link is self.reader and text.startswith("probe "):
            self.came(int(text[6:]))


class Xmpp(Probe):
    """A message of XMPP from one person to another."""

    def open(self):
        self.reader, self.writer = (self.link(Stream(self.place("any"))) for _ in range(2))
        for stream, name in ((self.reader, "probe-dave"), (self.writer, "probe-carol")):
            stream.log_in(name)
            stream.say("<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>"
                       "<resource>probe</resource></bind></iq><presence/>")
            stream.until("</jid>")
            stream.socket.settimeout(60)

    def listens(self):
        return [self.reads, self.answers]

    def send(self, number):
        self.writer.say(f"<message to='probe-dave@localhost/probe' type='chat' id='{number}'>"
                        f"<body>probe {number}</body></message>")

    def reads(self):
        told = self.reader.until("</message>")
        found = re.search("<body>probe ([0-9]+)</body>", told)
        if found:
            self.came(int(found[1]))
            if int(found[1]) % 100 == 0:
                self.reader.say(" ")  # whoever is silent for five minutes is disconnected

    def answers(self):
        """Errors that come back; whatever else comes is thrown away."""
        self.writer.socket.settimeout(86_400)
        more = self.writer.socket.recv(65_536)
        if not more:
            raise EOFError("the server closed")
        self.writer.seen = (self.writer.seen + more.decode())[-65_536:]
        while "</message>" in self.writer.seen:
            told = self.writer.until("</message>")
            found = re.search("<message [^>]*type='error'[^>]*>", told)
            number = found and re.search(" id='([0-9]+)'", found[0])
            if number:
                self.refused(int(number[1]), re.search("<error.*?<([a-z-]+)", told)[1])


class Connect(Probe):
    """A new connection of MQTT, from its SYN to its CONNACK, by a thread of its own."""

    every_s = 1

    def open(self):
        pass

    def listens(self):
        return []

    def send(self, number):
        threading.Thread(target=self.connects, args=(number,), daemon=True).start()

    def connects(self, number):
        link = None
        try:
            link = wire.Wire(self.place("any"), V5)
            link.send(wire.connect(V5, f"probe-new-{number % 10}", user="probe-mqtt",
                                   password="secret of probe-mqtt"))
            answer = link.expect(wire.CONNACK, ANSWER_S)
            if answer.code:
                self.refused(number, f"CONNACK {answer.code:#04x}")
            else:
                self.came(number)
                link.send(wire.disconnect(V5))
        except Exception as error:
            self.refused(number, f"{type(error).__name__} {error}"[:100])
        finally:
            if link:
                link.close()


PROBES = {"MQTT QoS 0": Pair, "MQTT QoS 1": PairOfQos1, "MQTT ping": Ping, "MQTT connect": Connect,
          "IM": Im, "XMPP": Xmpp, "push": Push, "readyz": Ready}
ACCOUNTS = ["probe-ann", "probe-bob", "probe-carol", "probe-dave", "probe-mqtt"]


class Times:
    """A histogram that several threads fill."""

    def __init__(self):
        self.lock, self.times = threading.Lock(), Histogram()

    def add(self, seconds):
        with self.lock:
            self.times.add(seconds)

    def report(self):
        with self.lock:
            times, self.times = self.times, Histogram()
        return times.told()


def syncs(folder, times):
    """Writes a page and syncs it, again and again: what storing costs at least on this disk now."""
    with open(os.path.join(folder, "soak-sync"), "wb") as file:
        while True:
            time.sleep(EVERY_S)
            began = time.monotonic()
            os.pwrite(file.fileno(), bytes(4_096), 0)
            os.fdatasync(file.fileno())
            times.add(time.monotonic() - began)


def main():
    world = json.loads(sys.stdin.readline())
    sys.setswitchinterval(0.0005)
    im.wire.schema()
    lateness, sync = Times(), Times()
    threading.Thread(target=syncs, args=(world["folder"], sync), daemon=True).start()
    probes = {name: kind(world, lateness.add) for name, kind in PROBES.items()}
    for at, probe in enumerate(probes.values()):
        # One after the other, for all of them together would wait for each other here.
        after_s = at * EVERY_S / len(probes)
        threading.Thread(target=probe.run, args=(after_s,), daemon=True).start()
    for _ in sys.stdin:
        print(json.dumps({"lateness": lateness.report(), "disk sync": sync.report(),
                          "probes": {name: probe.report() for name, probe in probes.items()}}),
              flush=True)
    os._exit(0)


if __name__ == "__main__":
    for module in (fixture, miop, wire, im.wire):
        module.DEADLINE_S = 60
    main()

"""Real client libraries behind one face: each runs in a process of its own and is told by lines.

A line is a form (`do=publish&as=c1&topic=a%2Fb`), both ways. One process may hold many clients,
told apart by `as`; a client whose end has to be abrupt gets a process of its own, which is killed.
What every driver understands: connect, subscribe, unsubscribe, publish, disconnect. What it says:
connected, refused, subscribed, unsubscribed, published, disconnected, message, lost, failed.
"""

import itertools
import os
import shutil
import subprocess
import sys
import threading
import time
import unittest
from urllib.parse import parse_qsl, urlencode

import fixture
from fixture import DEADLINE_S
from mqtt.wire import V31, V311, V5

HERE = os.path.dirname(os.path.abspath(__file__))
BUILT = os.environ.get("HOLDLINE_E2E_CLIENTS") or os.path.join(fixture.TARGET, "e2e-clients")
_numbers = itertools.count(1)


def source(name):
    return os.path.join(HERE, "clients", name)


def java(library):
    jars = os.path.join(BUILT, "java", "jars", "*")
    path = os.pathsep.join([os.path.join(BUILT, "java", "classes"), jars])
    flags = ["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return ["java", *flags, "-cp", path, "Driver", library]


# Name: what starts it, what must be there, the versions it speaks.
LIBRARIES = {
    "paho-python": ([sys.executable, source("paho_driver.py")], "python/paho", (V31, V311, V5)),
    "mqtt-js": (["node", source("mqtt_driver.js")], "node/node_modules/mqtt", (V31, V311, V5)),
    "paho-go": ([os.path.join(BUILT, "go", "driver")], "go/driver", (V31, V311, V5)),
    "paho-java": (java("paho"), "java/classes/Driver.class", (V31, V311, V5)),
    "hivemq": (java("hivemq"), "java/classes/Driver.class", (V311, V5)),
    "rumqttc": ([os.path.join(BUILT, "rumqttc", "debug", "driver")], "rumqttc/debug/driver",
                (V311, V5)),
}


def form(fields):
    """A line: a list as value is a key that stands several times; bytes are text."""
    pairs = []
    for key, value in fields.items():
        for each in value if isinstance(value, list) else [value]:
            if each is None:
                continue
            if isinstance(each, bool):
                each = int(each)
            if isinstance(each, tuple):
                each = ":".join(each)
            pairs.append((key, each))
    return urlencode(pairs)


class Event(dict):
    """What a client said. A key that stands several times is a list under its name and `s`."""

    @property
    def kind(self):
        return self["event"]

    def __str__(self):
        fields = [f"{key}={value}" for key, value in self.items()
                  if isinstance(value, str) and key not in ("as", "event")]
        return " ".join([self.kind, *fields])[:300]


def event(line):
    found = Event()
    for key, value in parse_qsl(line, keep_blank_values=True):
        found.setdefault(key, value)
        found.setdefault(key + "s", []).append(value)
    return found


class Driver:
    """A process with clients of one library."""

    def __init__(self, library):
        command, needed, self.versions = LIBRARIES[library]
        if not os.path.exists(os.path.join(BUILT, needed)):
            raise unittest.SkipTest(f"{library} could not be installed: IT WAS NOT TRIED")
        if not shutil.which(command[0]):
            raise unittest.SkipTest(f"{command[0]} is not installed: {library} WAS NOT TRIED")
        self.library, self.clients, self.noise = library, {}, ""
        more = {"PYTHONPATH": os.path.join(BUILT, "python"),
                "NODE_PATH": os.path.join(BUILT, "node", "node_modules")}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={**os.environ, **more}, preexec_fn=fixture.end_with_parent)
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._read_noise, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            said = event(line.strip())
            client = self.clients.get(said.get("as"))
            if client:
                client.hear(said)
        for client in list(self.clients.values()):
            client.hear(Event(event="ended"))

    def _read_noise(self):
        for line in self.process.stderr:
            self.noise += line
        self.process.stderr.close()

    def tell(self, fields):
        self.process.stdin.write(form(fields) + "\n")
        self.process.stdin.flush()

    def kill(self):
        """Ends the process and with it every connection of its clients, without a word."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            try:
                stream.close()
            except OSError:
                pass


class Client:
    """A client of a driver's library."""

    def __init__(self, driver, version, address, **how):
        """`how`: what every `connect` says unless it is said otherwise there."""
        self.driver, self.name = driver, f"c{next(_numbers)}"
        self.how = {"host": address[0], "port": address[1], "version": version, **how}
        self.version, self.changed = version, threading.Condition()
        self.answers, self.messages, self.seen = [], [], 0
        driver.clients[self.name] = self

    def hear(self, said):
        with self.changed:
            (self.messages if said.kind == "message" else self.answers).append(said)
            self.changed.notify_all()

    def tell(self, do, **fields):
        self.driver.tell({"do": do, "as": self.name, **fields})

    def expect(self, *kinds, deadline_s=DEADLINE_S):
        """The first of these kinds that was said and not yet asked for; others stay."""
        end = time.monotonic() + deadline_s
        with self.changed:
            while True:
                for said in self.answers:
                    if said.kind in kinds:
                        self.answers.remove(said)
                        return said
                left = end - time.monotonic()
                if left <= 0 or any(said.kind in ("ended", "failed") for said in self.answers):
                    raise AssertionError(
                        f"{self.driver.library}: no {' or '.join(kinds)} but "
                        f"{[str(said) for said in self.answers]}; {len(self.messages)} messages; "
                        f"{self.driver.noise[-2000:]}")
                self.changed.wait(left)

    def connect(self, **how):
        """Connects and is let in."""
        self.tell("connect", **{**self.how, **how})
        return self.expect("connected")

    def refused(self, **how):
        """Connects and is not let in; what it was told."""
        self.tell("connect", **{**self.how, **how})
        return self.expect("refused")

    def subscribe(self, filter, qos=0, **how):
        self.tell("subscribe", filter=filter, qos=qos, **how)
        return self.expect("subscribed")

    def unsubscribe(self, filter):
        self.tell("unsubscribe", filter=filter)
        return self.expect("unsubscribed")

    def publish(self, topic, payload="", qos=0, **how):
        """`count`: so many, one after another, with its number in place of `%` in the payload."""
        self.tell("publish", topic=topic, payload=payload, qos=qos, **how)
        return self.expect("published")

    def disconnect(self, **how):
        self.tell("disconnect", **how)
        return self.expect("disconnected")

    def take(self, count=1, deadline_s=DEADLINE_S):
        """The next so many messages."""
        end = time.monotonic() + deadline_s
        with self.changed:
            while len(self.messages) < self.seen + count:
                left = end - time.monotonic()
                if left <= 0 or any(said.kind == "ended" for said in self.answers):
                    came = [said["payload"][:20] for said in self.messages[self.seen:]]
                    raise AssertionError(
                        f"{self.driver.library}: {len(came)} messages of {count}: {came} "
                        f"{[str(said) for said in self.answers]} {self.driver.noise[-2000:]}")
                self.changed.wait(left)
            self.seen += count
            return self.messages[self.seen - count:self.seen]

    def message(self, deadline_s=DEADLINE_S):
        found, = self.take(1, deadline_s)
        return found

    def waiting(self):
        """Messages that have come and were not taken."""
        with self.changed:
            return self.messages[self.seen:]

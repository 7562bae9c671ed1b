"""What a scenario plays on: a driver's process, and listeners on loopback that scripts answer.

Every wait is for an event, with a deadline that only a failure reaches. The clock of the library
is set by `Stage.time`, and only there.
"""

import base64
import collections
import contextlib
import json
import os
import queue
import socket
import ssl
import struct
import subprocess
import threading

import wire

# A library that does its work answers within milliseconds, on a busy machine within seconds.
DEADLINE_S = 60.0
WALL_MS = 1_700_000_000_000
SECRET = b"sixteen byte key"
FIRST_S = 120


class Failure(AssertionError):
    """The library did not do what the scenario says."""


class Driver:
    """The process of a library. One is used for many scenarios."""

    def __init__(self, command, folder):
        self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.lines, self.events, self.number = queue.Queue(), collections.deque(), 0
        threading.Thread(target=self._read, daemon=True).start()
        self.features = self.ask("hello")["features"]

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def _next(self, what):
        try:
            line = self.lines.get(timeout=DEADLINE_S)
        except queue.Empty:
            raise Failure(f"no {what}; events: {list(self.events)}") from None
        if line is None:
            self.lines.put(None)
            raise Failure(f"the driver ended instead of {what}")
        return json.loads(line)

    def ask(self, do, **fields):
        """The answer to a command; an error is a failure."""
        answer = self.attempt(do, **fields)
        if "error" in answer:
            raise Failure(f"{do}: {answer['error']}")
        return answer

    def attempt(self, do, **fields):
        """The answer to a command, which may be an error."""
        self.number += 1
        try:
            self.process.stdin.write(json.dumps({"n": self.number, "do": do, **fields}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failure(f"the driver ended before {do}") from None
        while True:
            line = self._next(f"answer to {do}")
            if "event" not in line:
                if line.get("n") != self.number:
                    raise Failure(f"an answer to another command: {line}")
                return line
            self.events.append(line)

    def event(self, kind, **fields):
        """The next event of a kind; earlier ones of other kinds stay. It must have `fields`."""
        while True:
            for event in self.events:
                if event["event"] == kind:
                    self.events.remove(event)
                    for name, value in fields.items():
                        if event.get(name) != value:
                            raise Failure(f"{name} is not {value!r}: {event}")
                    return event
            line = self._next(f"event {kind} {fields or ''}")
            if "event" not in line:
                raise Failure(f"an answer without a question: {line}")
            self.events.append(line)

    def state(self, name, **fields):
        """Waits for a state, past others; its event."""
        while True:
            event = self.event("state")
            if event["state"] == name:
                for key, value in fields.items():
                    if event.get(key) != value:
                        raise Failure(f"{key} is not {value!r}: {event}")
                return event
            if event["state"] == "ended":
                raise Failure(f"not {name} but {event}")

    def frame(self, opcode):
        """Waits until a frame of this opcode was handled, past others."""
        while self.event("frame")["opcode"] != opcode:
            pass

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Link:
    """A connection that a library has opened, at the server's side."""

    def __init__(self, stream):
        self.stream, self.buffer = stream, b""
        stream.settimeout(DEADLINE_S)

    def send(self, *frames):
        self.stream.sendall(b"".join(frames))

    def _receive(self):
        """Some bytes; none at the end."""
        try:
            data = self.stream.recv(65536)
        except (ConnectionResetError, BrokenPipeError):
            return b""
        except TimeoutError:
            raise Failure("nothing came") from None
        self.buffer += data
        return data

    def take(self):
        """A frame that has arrived whole, or None."""
        found = wire.read(self.buffer)
        if found is None:
            return None
        self.buffer = self.buffer[found[1]:]
        return found[0]

    def expect(self, opcode):
        """The next frame, which must be of this opcode."""
        while True:
            frame = self.take()
            if frame is not None:
                if frame.opcode != opcode:
                    raise Failure(f"not opcode {opcode} but {frame!r}")
                return frame
            if not self._receive():
                raise Failure(f"closed before opcode {opcode}: {self.buffer!r}")

    def arrived(self):
        """Frames that have arrived on a connection that lives. A frame that must come is awaited by
        `expect`: what the driver has sent before it answers may arrive after its answer."""
        self.stream.settimeout(0)
        try:
            while self._receive():
                pass
            raise Failure(f"the library has closed the connection; left: {self.buffer!r}")
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        self.stream.settimeout(DEADLINE_S)
        return list(iter(self.take, None))

    def until_closed(self):
        """The frames up to the end, which must come."""
        while self._receive():
            pass
        return list(iter(self.take, None))

    def at_least(self, count):
        """So many raw bytes, or what came before the end."""
        while len(self.buffer) < count and self._receive():
            pass
        return self.buffer[:count]

    def is_kept_alive(self):
        """Whether the library's kernel probes this connection by itself (TCP keep-alive)."""
        ours, theirs = (":%04X" % name[1] for name in
                        (self.stream.getsockname(), self.stream.getpeername()))
        rows = []
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with contextlib.suppress(OSError), open(table, encoding="ascii") as file:
                rows += [line.split() for line in file]
        return any(row[1].endswith(theirs) and row[2].endswith(ours) and row[5].startswith("02:")
                   for row in rows)

    def end(self):
        """Closes this direction: the library reads all that was sent, then an end."""
        with contextlib.suppress(OSError):
            self.stream.shutdown(socket.SHUT_WR)

    def close(self):
        self.stream.close()

    def reset(self):
        """Ends with a RST; what is on its way may be lost."""
        with contextlib.suppress(OSError):
            self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.stream.close()


class Listener:
    """A port of loopback. `wrap` makes a stream of an accepted socket: TLS, WebSocket."""

    link = Link

    def __init__(self, wrap=None):
        self.socket, self.wrap = socket.create_server(("127.0.0.1", 0)), wrap
        self.socket.settimeout(DEADLINE_S)
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.links = []

    def accept(self):
        """A connection; None if its handshake failed."""
        try:
            stream, _ = self.socket.accept()
        except TimeoutError:
            raise Failure("no connection came") from None
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.settimeout(DEADLINE_S)
        try:
            link = self.link(self.wrap(stream) if self.wrap else stream)
        except OSError:
            return None  # the library went no further than the handshake
        self.links.append(link)
        return link

    def is_quiet(self):
        """No connection waits to be accepted."""
        self.socket.settimeout(0)
        try:
            self.socket.accept()[0].close()
            return False
        except BlockingIOError:
            return True
        finally:
            self.socket.settimeout(DEADLINE_S)

    def close(self):
        for link in self.links:
            link.close()
        self.socket.close()


class Stage:
    """One scenario's server and its client, device `dev-1` of the product `demo`."""

    listener = Listener
    #: Reasons of a wait: nothing answers at the address, and the connection ended.
    unreachable, lost = "connect_failed", "lost"

    def __init__(self, driver, certificates):
        self.driver, self.certificates = driver, certificates
        self.exits = contextlib.ExitStack()
        self.server = self.listen()
        self.now, self.next, self.epoch = 0, None, 16
        self.is_open = False

    def close(self):
        if self.is_open and self.driver.process.poll() is None:
            with contextlib.suppress(Failure):
                self.kill()
        self.exits.close()

    def listen(self, wrap=None):
        listener = self.listener(wrap)
        self.exits.callback(listener.close)
        return listener

    def closed_port(self):
        """An address at which nobody listens: bound, and not listening."""
        holder = socket.socket()
        holder.bind(("127.0.0.1", 0))
        self.exits.callback(holder.close)
        return "127.0.0.1:%d" % holder.getsockname()[1]

    # -- the client

    def open(self, **options):
        """Opens a client; what is not said is the driver's default."""
        self.driver.events.clear()
        options.setdefault("addresses", [self.server.address])
        options.setdefault("wall_ms", WALL_MS)
        self.now, self.is_open = 0, True
        self.driver.ask("open", **{"product": "demo", "device": "dev-1", **options})

    def time(self, ms):
        """Sets the client's clock. Returns when its next timer is due."""
        if ms < self.now:
            raise Failure(f"the clock would go back from {self.now} to {ms}")
        self.now = ms
        self.next = self.driver.ask("time", ms=ms)["next"]
        return self.next

    def pass_(self, ms):
        """Lets so much time go by."""
        return self.time(self.now + ms)

    def settle(self):
        """The client has done what it had to do, and nothing more follows."""
        return self.pass_(0)

    def kill(self):
        """As a killed process; what it had stored."""
        self.is_open = False
        return self.driver.ask("kill")["state"]

    def pushes(self):
        """Ids of the pushes that were handed out since the last look."""
        found = [event for event in self.driver.events if event["event"] == "push"]
        for event in found:
            self.driver.events.remove(event)
        return [int(event["id"]) for event in found]

    # -- the server

    def bind_ack(self, resumed=False, heartbeat=300, **more):
        """A BIND_ACK that lets in, as this server writes it."""
        self.epoch += 1
        properties = {
            "heartbeat": heartbeat, "resume_token": bytes([self.epoch % 256]) * 32,
            "session_epoch": self.epoch, "result": 1 if resumed else 0, "max_frame": 65536,
            "max_inflight": 32, "ack_timeout_ms": 10000, "offline_count": 0,
            "server_time": WALL_MS + self.now,
        }
        return wire.frame(wire.BIND_ACK, {**properties, **more})

    def bind(self, server=None, **more):
        """Accepts a connection and lets the client in; the link, whose `bind` is the BIND."""
        link = (server or self.server).accept()
        link.bind = link.expect(wire.BIND)
        link.send(self.bind_ack(**more))
        self.driver.state("bound")
        self.driver.frame(wire.BIND_ACK)
        return link

    def msg(self, *ids, dup=False, body=b"hi", **more):
        return wire.frame(wire.MSG, payload=b"".join(wire.record(i, body, **more) for i in ids),
                          dup=dup)

    def come_in(self, server=None):
        """Accepts a connection and lets the client in; the link."""
        return self.bind(server)

    def idle_hours(self, link, ping, answer):
        """How often the client's timer wakes it in each hour of a day in which nothing happens.
        Each time it sends a Ping, which `answer` answers, and nothing else; nor does its kernel
        (on Linux, where that can be seen)."""
        if link.is_kept_alive():
            raise Failure("TCP keep-alive is on: it wakes the device and hides what is found")
        begin, hours = self.now, [0] * 24
        link.arrived()
        while (due := self.settle()) is not None and due < begin + 24 * 3_600_000:
            if due <= self.now:
                raise Failure(f"a timer is due at {due}, and it is {self.now}")
            self.time(due)
            said = link.at_least(len(ping))
            if said != ping or len(link.arrived()) != 1:
                raise Failure(f"at {due} it does not send a Ping, but {said.hex()}")
            answer()
            hours[(due - begin) // 3_600_000] += 1
        return hours

    def come_back(self, ms=None):
        """The client waits to connect again, and its time comes. The event of its wait."""
        event = self.driver.state("waiting")
        self.time(max(event["until"], self.now) if ms is None else ms)
        return event


class Certificates:
    """An authority and servers' certificates, made by openssl once and on demand."""

    def __init__(self, folder):
        self.folder, self.made = folder, {}

    def path(self, name):
        return os.path.join(self.folder, name)

    def _openssl(self, *arguments):
        return subprocess.run(["openssl", *arguments], check=True, capture_output=True,
                              timeout=DEADLINE_S).stdout

    def authority(self, name="ca"):
        if name not in self.made:
            certificate, key = self.path(f"{name}.pem"), self.path(f"{name}.key")
            self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt",
                          "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                          f"/CN={name}", "-keyout", key, "-out", certificate,
                          "-addext", "basicConstraints=critical,CA:TRUE",
                          "-addext", "keyUsage=critical,keyCertSign")
            self.made[name] = certificate, key
        return self.made[name]

    def server(self, name="push.example"):
        """Certificate and key of a server."""
        if name not in self.made:
            authority, authority_key = self.authority()
            certificate, key, request = (self.path(f"{name}.{end}")
                                         for end in ("pem", "key", "csr"))
            self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                          "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
            with open(self.path("extensions"), "w", encoding="ascii") as file:
                file.write(f"subjectAltName=DNS:{name}\nbasicConstraints=CA:FALSE\n")
            self._openssl("x509", "-req", "-in", request, "-CA", authority, "-CAkey",
                          authority_key, "-CAcreateserial", "-days", "2", "-extfile",
                          self.path("extensions"), "-out", certificate)
            self.made[name] = certificate, key
        return self.made[name]

    def together(self, *names):
        """A file with the certificates of several servers."""
        path = self.path("+".join(names))
        with open(path, "w", encoding="ascii") as file:
            for name in names:
                with open(self.server(name)[0], encoding="ascii") as certificate:
                    file.write(certificate.read())
        return path

    def public_key(self, certificate):
        """SubjectPublicKeyInfo of a certificate, DER."""
        pem = self._openssl("x509", "-in", certificate, "-noout", "-pubkey")
        text = b"".join(line for line in pem.splitlines() if b"-----" not in line)
        return base64.b64decode(text)

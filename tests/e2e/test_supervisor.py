"""The server under a supervisor that this file plays: a socket of datagrams as systemd's, which
keeps descriptors and hands them over to the next start. Nobody who calls meanwhile is refused.
"""

import contextlib
import fcntl
import http.client
import os
import re
import shutil
import signal
import socket
import tempfile
import threading

from fixture import Case, poll
from miop import DEADLINE_S, Device

# Sockets are handed over from here, out of the way of what a shell has open.
FIRST = 200


class Supervisor:
    """Hears what a server says, and keeps what it is given."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="holdline-supervisor-")
        self.place = os.path.join(self.folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.place)
        self.told, self.store, self.changed = [], {}, threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        with contextlib.suppress(OSError):
            while True:
                text, descriptors, _, _ = socket.recv_fds(self.socket, 4096, 4)
                if not text:
                    return  # it is shut down
                words = dict(line.split("=", 1) for line in text.decode().split("\n"))
                with self.changed:
                    self.told.append(words)
                    if "FDSTORE" in words:
                        self.store[words["FDNAME"]], = descriptors
                    if "FDSTOREREMOVE" in words:
                        os.close(self.store.pop(words["FDNAME"]))
                    self.changed.notify_all()

    def wait(self, word, since=0):
        """Waits until it is told this; where in the list the word is."""
        def found():
            return next((at for at, words in enumerate(self.told)
                         if at >= since and word in words), None)
        with self.changed:
            if not self.changed.wait_for(lambda: found() is not None, DEADLINE_S):
                raise AssertionError(f"it was not told {word}: {self.told}")
            return found()

    def environment(self, **more):
        return {"NOTIFY_SOCKET": self.place, **more}

    def hand_over(self):
        """What a start is given: how it is called, its descriptors, its environment. The order is
        not that in which they were kept, as it is not systemd's either."""
        store = list(reversed(self.store.items()))
        high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, FIRST) for _, descriptor in store]
        places = " ".join(f"{3 + at}<&{descriptor}" for at, descriptor in enumerate(high))
        shut = " ".join(f"{descriptor}<&-" for descriptor in high)
        prefix = ["bash", "-c", f'export LISTEN_PID=$$; exec "$@" {places} {shut}', "-"]
        names = ":".join(name for name, _ in store)
        env = self.environment(LISTEN_FDS=str(len(store)), LISTEN_FDNAMES=names)
        return prefix, high, env

    def close(self):
        # A read that waits is not ended by closing alone.
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for descriptor in self.store.values():
            os.close(descriptor)
        shutil.rmtree(self.folder, ignore_errors=True)


class UnderSupervisor(Case):
    SHARED = False

    def setUp(self):
        super().setUp()
        self.supervisor = Supervisor()
        self.addCleanup(self.supervisor.close)
        self.file = os.path.join(self.supervisor.folder, "mqtt.sock")

    def changes(self, **more):
        local = {"address": f"unix:{self.file}", "protocol": "mqtt"}
        return {"listen.local": local, "limits": {"connections_max": 2000, "drain_ms": 100}, **more}

    def run_first(self, **more):
        server = self.start(self.changes(), env=self.supervisor.environment(**more))
        self.supervisor.wait("READY")
        return server

    def start_again(self, server, changes):
        """Starts a server that has ended, as its supervisor does."""
        since = len(self.supervisor.told)
        server.prefix, server.handed, server.env = self.supervisor.hand_over()
        server.configure(changes)
        try:
            server.start()
        finally:
            for descriptor in server.handed:
                os.close(descriptor)
        return self.supervisor.wait("READY", since), since

    def call(self, server):
        """One caller of each kind, none of whom is refused: what each is waiting for."""
        device = Device(server.ports["any"])
        self.addCleanup(device.close)
        local = socket.socket(socket.AF_UNIX)
        self.addCleanup(local.close)
        local.settimeout(DEADLINE_S)
        local.connect(self.file)
        local.sendall(bytes.fromhex("101000044d5154540402003c0004") + b"late")
        api = http.client.HTTPConnection(*server.ports["api"], timeout=DEADLINE_S)
        self.addCleanup(api.close)
        api.request("GET", "/readyz")
        return device, local, api

    def served(self, device, local, api):
        self.assertEqual(device.bind("late")["result"], 0)
        self.assertEqual(local.recv(4), bytes.fromhex("20020000"), "CONNACK")
        self.assertEqual(api.getresponse().status, 200)


class Restart(UnderSupervisor):
    def test_who_calls_while_no_server_is_there_is_served_by_the_next(self):
        server = self.run_first()
        ports = dict(server.ports)
        self.assertEqual(sorted(self.supervisor.store),
                         ["any.0", "any.1", "api.0", "local.0"], "two shards, and what they share")
        self.assertEqual(server.stop(), 0)
        self.supervisor.wait("STOPPING")
        callers = self.call(server)
        # The kernel spreads callers over the sockets of a port: of so many, each has some.
        crowd = [Device(ports["any"]) for _ in range(20)]
        for each in crowd:
            self.addCleanup(each.close)
        # With fewer shards than sockets those that are too many are served as well.
        ready, since = self.start_again(server, self.changes(server={"shards": 1, "pin": False}))
        self.assertEqual(server.ports, ports)
        self.served(*callers)
        for number, each in enumerate(crowd):
            self.assertEqual(each.bind(f"crowd-{number}")["result"], 0)
        again = self.supervisor.told[since:ready]
        self.assertEqual([words for words in again if "FDSTORE" in words], [])

    def test_a_server_that_was_killed_leaves_its_callers_to_the_next(self):
        server = self.run_first()
        server.kill()
        callers = self.call(server)
        self.start_again(server, self.changes(server={"shards": 3, "pin": False}))
        self.served(*callers)

    def test_connects_all_through_a_restart_are_never_refused(self):
        server = self.run_first()
        ports, over, refused, served = dict(server.ports), threading.Event(), [], []

        def knock():
            while not over.is_set():
                try:
                    link = Device(ports["any"])
                    served.append(link.bind(f"knock-{len(served) % 50}")["result"])
                    link.close()
                except (ConnectionRefusedError, ConnectionResetError) as error:
                    refused.append(error)
                except Exception:  # pylint: disable=broad-except
                    pass  # it was served, and let go by the server that ends
        callers = [threading.Thread(target=knock) for _ in range(2)]
        for caller in callers:
            caller.start()
        poll(lambda: len(served) > 5, "some are served")
        self.assertEqual(server.stop(), 0)
        self.start_again(server, self.changes())
        before = len(served)
        poll(lambda: len(served) > before + 5, "some are served by the next")
        over.set()
        for caller in callers:
            caller.join(DEADLINE_S)
        self.assertEqual(refused, [])

    def test_a_listener_that_goes_is_forgotten(self):
        server = self.run_first()
        old = server.ports["any"]
        self.assertEqual(server.stop(), 0)
        other = {"listen.any": None, "listen.other": {"address": "127.0.0.1:0"}}
        self.start_again(server, self.changes(**other))
        self.assertEqual(sorted(self.supervisor.store), ["api.0", "local.0", "other.0", "other.1"])
        self.assertIn("belongs to no listener any more", server.log)
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(old, DEADLINE_S)

    def test_a_socket_that_the_supervisor_opened_is_a_listeners_by_its_name(self):
        theirs = socket.create_server(("127.0.0.1", 0))
        self.supervisor.store["any"] = os.dup(theirs.fileno())
        address = theirs.getsockname()
        theirs.close()
        prefix, descriptors, env = self.supervisor.hand_over()
        server = self.start(self.changes(), prefix=prefix, handed=descriptors, env=env)
        for descriptor in descriptors:
            os.close(descriptor)
        self.supervisor.wait("READY")
        self.assertEqual(server.ports["any"], address)
        self.assertEqual(sorted(self.supervisor.store), ["any", "api.0", "local.0"])
        for name in ("one", "two", "three"):
            self.bound(name, server=server)


class Told(UnderSupervisor):
    def test_a_reload_begins_and_ends(self):
        server = self.run_first()
        server.signal(signal.SIGHUP)
        at = self.supervisor.wait("RELOADING")
        self.assertRegex(self.supervisor.told[at]["MONOTONIC_USEC"], r"^[1-9]\d*$")
        self.supervisor.wait("READY", at)
        server.configure(self.changes(), tail="[limits.wrong]\n")
        server.signal(signal.SIGHUP)
        self.supervisor.wait("READY", self.supervisor.wait("RELOADING", at + 1))
        server.logged("the new configuration is invalid")

    def test_signs_of_life_end_with_the_process_standing_still(self):
        server = self.run_first(WATCHDOG_USEC="200000")
        self.bound("somebody", server=server)
        poll(lambda: any(re.match("1 connection$", words.get("STATUS", ""))
                         for words in self.supervisor.told if "WATCHDOG" in words), "a sign")
        server.signal(signal.SIGSTOP)
        # What it had said before it stood still is here when nothing new comes.
        with self.supervisor.changed:
            while self.supervisor.changed.wait(1):
                pass
            before = len(self.supervisor.told)
        server.signal(signal.SIGCONT)
        self.supervisor.wait("WATCHDOG", before)

    def test_a_watchdog_of_another_process_is_not_answered(self):
        server = self.run_first(WATCHDOG_USEC="40000", WATCHDOG_PID="1")
        server.settle()
        self.assertEqual(server.stop(), 0)
        self.supervisor.wait("STOPPING")
        self.assertEqual([words for words in self.supervisor.told if "WATCHDOG" in words], [])

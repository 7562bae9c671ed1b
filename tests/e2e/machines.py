"""Machines that exist only for a test: network namespaces on one bridge.

Each machine has an interface and an address in 10.77.0.0/24 and can be cut off and joined again.
The test itself may stand at the bridge, and reach all of them. Everything is removed when the test
ends, whatever became of it. Needs root and iproute2.
"""

import contextlib
import ctypes
import os
import shutil
import subprocess
import threading

CLONE_NEWNET = 0x40000000
# A hardware address that nobody has.
NOWHERE = "02:00:00:00:00:01"
SLOW = "netem delay 40ms 10ms loss 2%"
NARROW = "tbf rate 4mbit burst 16kb latency 200ms"


def possible():
    """Whether namespaces can be made here; else why not."""
    if os.geteuid() != 0:
        return "needs root"
    if shutil.which("ip") is None:
        return "needs iproute2"
    name = f"hl{os.getpid()}x"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if made.returncode != 0:
        return "network namespaces are not permitted"
    ip("netns", "del", name)
    return ""


def ip(*words, check=True):
    """One command of iproute2."""
    subprocess.run(["ip", *words], check=check, capture_output=True, timeout=20)


def enter(path):
    """This thread, and what it starts, is in a network namespace from now on."""
    with open(path, "rb") as namespace:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")


class Net:
    """A bridge and the machines on it."""

    BRIDGE = "10.77.0.254"

    def __init__(self, names):
        self.mark = f"hl{os.getpid()}"
        self.namespaces, self.processes = [], []
        try:
            self.hub = self._namespace("hub")
            ip("-n", self.hub, "link", "add", "name", "hub0", "type", "bridge")
            ip("-n", self.hub, "link", "set", "dev", "hub0", "up")
            self.addresses = {}
            for number, name in enumerate(names, 1):
                self._machine(name, number)
        except BaseException:
            self.close()
            raise

    def _namespace(self, name):
        namespace = f"{self.mark}{name}"
        ip("netns", "add", namespace)
        self.namespaces.append(namespace)
        ip("-n", namespace, "link", "set", "lo", "up")
        return namespace

    def _machine(self, name, number):
        namespace, port = self._namespace(name), f"p{number}"
        ip("link", "add", "name", port, "netns", self.hub, "type", "veth",
           "peer", "name", "eth", "netns", namespace)
        ip("-n", self.hub, "link", "set", "dev", port, "master", "hub0", "up")
        self.addresses[name] = f"10.77.0.{number}"
        ip("-n", namespace, "addr", "add", f"10.77.0.{number}/24", "dev", "eth")
        ip("-n", namespace, "link", "set", "dev", "eth", "up")

    def words(self, name):
        """What to put in front of a command that is to run on a machine."""
        return ["ip", "netns", "exec", f"{self.mark}{name}"]

    def start(self, name, *words, **more):
        """Starts a process on a machine; it is ended with the test."""
        process = subprocess.Popen([*self.words(name), *words], **more)
        self.processes.append(process)
        return process

    def cut(self, name):
        """Takes a machine off the net: nothing passes, and nobody is told."""
        ip("-n", f"{self.mark}{name}", "link", "set", "dev", "eth", "down")

    def join(self, name):
        """A machine that was cut off is on the net again."""
        ip("-n", f"{self.mark}{name}", "link", "set", "dev", "eth", "up")

    def blind(self, name, other):
        """One direction alone: what a machine sends to another one arrives nowhere."""
        ip("-n", f"{self.mark}{name}", "neigh", "replace", self.addresses[other],
           "lladdr", NOWHERE, "dev", "eth", "nud", "permanent")

    def see(self, name, other):
        """What a machine sends to another one arrives again."""
        ip("-n", f"{self.mark}{name}", "neigh", "del", self.addresses[other], "dev", "eth",
           check=False)

    def slow(self, name):
        """What a machine sends is delayed, and some of it lost: how, as `tc` has it. A kernel
        without netem has a narrow link with a queue that overflows."""
        for kind in (SLOW, NARROW):
            set = subprocess.run([*self.words(name), "tc", "qdisc", "replace", "dev", "eth",
                                  "root", *kind.split()], capture_output=True, check=False)
            if set.returncode == 0:
                return kind
        raise OSError(set.stderr.decode())

    def fast(self, name):
        """A machine that was made slow is as before."""
        subprocess.run([*self.words(name), "tc", "qdisc", "del", "dev", "eth", "root"],
                       capture_output=True, check=False)

    @contextlib.contextmanager
    def at_bridge(self):
        """This thread is at the bridge, with an address of its own."""
        ip("-n", self.hub, "addr", "add", f"{self.BRIDGE}/24", "dev", "hub0")
        own = f"/proc/{os.getpid()}/task/{threading.get_native_id()}/ns/net"
        before = os.open(own, os.O_RDONLY)
        try:
            enter(f"/run/netns/{self.hub}")
            yield
        finally:
            enter(f"/proc/self/fd/{before}")
            os.close(before)

    def close(self):
        """Ends the processes that this net has started and takes everything away."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream:
                    stream.close()
        for namespace in self.namespaces:
            ip("netns", "del", namespace, check=False)
        self.namespaces, self.processes = [], []

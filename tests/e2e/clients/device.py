"""What the tests of client libraries share: the quick start of a README as a process, against a
real server that is killed in between.

The quick start prints the text of each push on a line of its own; lines that begin with `#` are
about states.
"""

import os
import queue
import re
import shutil
import subprocess
import tempfile
import threading

import fixture
from fixture import Case, poll
from miop import DEADLINE_S

CLIENTS = os.path.join(fixture.ROOT, "clients")
ADDRESS, DEVICE = "127.0.0.1:7000", "tom-500"


def quick_start(library, language, names=(ADDRESS, DEVICE)):
    """The first block of this language in a library's README, which has these names in it; thirty
    lines at most."""
    with open(os.path.join(CLIENTS, library, "README.md"), encoding="utf-8") as file:
        block = re.search(rf"```{language}\n(.*?)```", file.read(), re.S).group(1)
    lines = block.count("\n")
    if lines > 30:
        raise AssertionError(f"the quick start of {library} has {lines} lines")
    for name in names:
        if name not in block:
            raise AssertionError(f"the quick start of {library} does not use {name}")
    return block


class Program:
    """A running quick start. Its lines are read by a thread of their own."""

    def __init__(self, command, folder, env=None):
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True,
                                        env={**os.environ, **(env or {})})
        self.lines, self.all = queue.Queue(), []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.all.append(line)
            if not line.startswith("#"):
                self.lines.put(line.rstrip("\n"))

    def next(self):
        """The next push."""
        try:
            return self.lines.get(timeout=DEADLINE_S)
        except queue.Empty:
            raise AssertionError(f"no push came: {self.all}") from None

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def restart(server, changes=None):
    """Kills the server and starts it again at the same port for devices."""
    host, port = server.ports["any"]
    listener = {**(changes or {}).get("listen.any", {}), "address": f"{host}:{port}"}
    server.kill()
    server.configure({**(changes or {}), "listen.any": listener})
    server.start()


class QuickStart(Case):
    """Runs the `command` of a library; `LIBRARY` and `LANGUAGE` name the block of its README."""

    SHARED = False
    LIBRARY = LANGUAGE = None

    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="holdline-client-")
        self.addCleanup(shutil.rmtree, self.folder)

    def command(self, folder, source):
        """The command that runs this source, and its environment."""
        raise NotImplementedError

    def nothing_is_lost_or_doubled(self, change=lambda source: source):
        """Runs the quick start, as `change` changes it."""
        server = self.start()
        source = change(quick_start(self.LIBRARY, self.LANGUAGE))
        source = source.replace(ADDRESS, "%s:%d" % server.ports["any"])
        command, env = self.command(self.folder, source)
        program = Program(command, self.folder, env)
        self.addCleanup(lambda: program.kill())
        server.online(DEVICE)
        expected, got = [], []

        def push(text):
            expected.append(text)
            server.push(DEVICE, text)

        for at in range(3):
            push(f"before {at}")
            restart(server)
            push(f"while away {at}")
            got += [program.next(), program.next()]
        # The program is killed, too: what it acknowledged does not come again.
        poll(lambda: server.state(DEVICE)["waiting"] == 0, "all is acknowledged")
        program.kill()
        push("for a new process")
        program = Program(command, self.folder, env)
        got.append(program.next())
        push("the last")
        got.append(program.next())
        poll(lambda: server.state(DEVICE)["waiting"] == 0, "all is acknowledged")
        self.assertEqual(sorted(got), sorted(expected))
        self.assertTrue(program.lines.empty(), program.all)
        resumed = server.count("binds_resumed_total")
        self.assertGreater(resumed, 0, "sessions are resumed")

"""What the tests of client libraries share: the quick start of a README as a process, against a
real server that is killed in between.

A README says under which name its program is saved, and which commands build and run it in a new
folder beside a checkout, `../holdline`. The tests do the same, as it is printed. The program prints
the text of each push on a line of its own; lines that begin with `#` are about states.
"""

import os
import queue
import re
import shutil
import subprocess
import tempfile
import threading
import unittest

import fixture
from fixture import Case, poll
from miop import DEADLINE_S

CLIENTS = os.path.join(fixture.ROOT, "clients")
ADDRESS, DEVICE = "127.0.0.1:7000", "tom-500"


# What builds leave in the folder of a library, and what no library needs.
NOT_SOURCE = ("build", "target", "dist", "node_modules", "*.egg-info", "__pycache__", "console",
              "chat-page")


class Printed:
    """The quick start of a library: a program, the file to save it in, the commands that build it
    and the one that runs it."""

    def __init__(self, library, language):
        with open(os.path.join(CLIENTS, library, "README.md"), encoding="utf-8") as file:
            text = file.read()
        found = re.search(rf"Save this as `([^`]+)`.*?```{language}\n(.*?)```.*?```sh\n(.*?)```",
                          text, re.S)
        if not found:
            raise AssertionError(f"{library}: no program to save, or no commands to run it")
        self.path, self.source = found[1], found[2]
        *self.builds, self.runs = found[3].strip().splitlines()
        if self.source.count("\n") > 30:
            raise AssertionError(f"the quick start of {library} is longer than thirty lines")

    def make(self, folder):
        """Does what the README says in a new folder; the command that runs the program there."""
        checkout = os.path.join(os.path.dirname(folder), "holdline")
        schema = os.path.join("crates", "proto-im", "schema")
        shutil.copytree(CLIENTS, os.path.join(checkout, "clients"),
                        ignore=shutil.ignore_patterns(*NOT_SOURCE))
        shutil.copytree(os.path.join(fixture.ROOT, schema), os.path.join(checkout, schema))
        path = os.path.join(folder, self.path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.source)
        for _ in range(2):  # a registry may not answer at first
            made = subprocess.run(["sh", "-e", "-c", "\n".join(self.builds)], cwd=folder,
                                  env={**os.environ, **OWN}, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
            if made.returncode == 0:
                break
        else:
            raise AssertionError(f"{self.builds}: {made.stdout}")
        return ["sh", "-c", f"exec {self.runs}"]


# Builds of a quick start are its own, whatever the tests were started with.
OWN = {"CARGO_TARGET_DIR": "target"}


class Program:
    """A running quick start. Its lines are read by a thread of their own."""

    def __init__(self, command, folder):
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True,
                                        env={**os.environ, **OWN})
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
    """`LIBRARY` and `LANGUAGE` name the README and the language of its program; `NEEDS` are the
    commands without which the test is skipped."""

    SHARED = False
    LIBRARY = LANGUAGE = None
    NEEDS = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        missing = [name for name in cls.NEEDS if not shutil.which(name)]
        if missing:
            raise unittest.SkipTest(f"not installed: {', '.join(missing)}")

    def setUp(self):
        super().setUp()
        folder = tempfile.mkdtemp(prefix="holdline-client-")
        self.addCleanup(shutil.rmtree, folder)
        self.folder = os.path.join(folder, "app")
        os.mkdir(self.folder)

    def printed(self, server, names):
        """The quick start, which has these names in it, with this server's address."""
        printed = Printed(self.LIBRARY, self.LANGUAGE)
        for name in (ADDRESS, *names):
            self.assertIn(name, printed.source)
        printed.source = printed.source.replace(ADDRESS, "%s:%d" % server.ports["any"])
        return printed

    def nothing_is_lost_or_doubled(self, change=lambda source: source, environment=()):
        """Runs the quick start, as `change` changes it."""
        server = self.start()
        printed = self.printed(server, (DEVICE,))
        printed.source = change(printed.source)
        command = ["env", *environment, *printed.make(self.folder)]
        program = Program(command, self.folder)
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
        program = Program(command, self.folder)
        got.append(program.next())
        push("the last")
        got.append(program.next())
        poll(lambda: server.state(DEVICE)["waiting"] == 0, "all is acknowledged")
        self.assertEqual(sorted(got), sorted(expected))
        self.assertTrue(program.lines.empty(), program.all)
        resumed = server.count("binds_resumed_total")
        self.assertGreater(resumed, 0, "sessions are resumed")

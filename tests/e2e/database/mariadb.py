"""A real `mariadbd` for a test: made in a temporary folder, started on a free port, paused, killed
and asked by its own client over its socket file.

What it says it has stored is on its disk: one that was killed comes back with it.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import unittest

import fixture
from fixture import poll
from mqtt.broker import free_port

START_S = 60.0
USER, PASSWORD, DATABASE = "holdline", "a pass/word", "holdline"


class MariaDb:
    """A running server with one database, and a user who may do everything in it."""

    def __init__(self):
        for command in ("mariadbd", "mariadb-install-db", "mariadb"):
            if not shutil.which(command):
                raise unittest.SkipTest(f"{command} is not installed: IT WAS NOT TRIED")
        self.folder, self.port = tempfile.mkdtemp(prefix="holdline-mariadb-"), free_port()
        self.socket = os.path.join(self.folder, "socket")
        data = os.path.join(self.folder, "data")
        self.user = ["--user=root"] if os.getuid() == 0 else []
        made = subprocess.run(
            ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--skip-test-db",
             "--auth-root-authentication-method=normal", *self.user],
            env={**os.environ, "TMPDIR": self.folder}, capture_output=True, text=True,
            timeout=2 * START_S, check=False)
        assert made.returncode == 0, made.stdout + made.stderr
        self.words = [
            "mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={self.socket}",
            f"--port={self.port}", "--bind-address=127.0.0.1", "--skip-name-resolve",
            f"--tmpdir={self.folder}", "--performance-schema=OFF", "--innodb-buffer-pool-size=64M",
            f"--pid-file={self.folder}/pid", *self.user]
        self.start()
        self.ask(f"CREATE DATABASE {DATABASE};"
                 f"CREATE USER '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';"
                 f"GRANT ALL ON {DATABASE}.* TO '{USER}'@'127.0.0.1'", database="mysql")

    @property
    def url(self):
        return f"mysql://{USER}@127.0.0.1:{self.port}/{DATABASE}"

    def start(self):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(self.words, stdout=log, stderr=log,
                                            preexec_fn=fixture.end_with_parent)

        def answers():
            assert self.process.poll() is None, self.log()
            return self.run("SELECT 1", "mysql").returncode == 0
        poll(answers, "MariaDB answers", START_S)

    def log(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
            return file.read()[-3000:]

    def pause(self):
        """It stands still, and its kernel goes on taking connections."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        if self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- questions

    def run(self, text, database=DATABASE):
        return subprocess.run(
            ["mariadb", "--no-defaults", f"--socket={self.socket}", "--user=root", "--batch",
             "--skip-column-names", "--default-character-set=utf8mb4", database],
            input=text, capture_output=True, text=True, timeout=START_S, check=False)

    def ask(self, text, database=DATABASE):
        """Rows of what was asked last, as texts. An error is an AssertionError."""
        done = self.run(text, database)
        assert done.returncode == 0, f"{text[:200]}: {done.stderr}"
        return [tuple(line.split("\t")) for line in done.stdout.splitlines()]

    def one(self, text):
        """The one value of the one row."""
        (value,), = self.ask(text)
        return value

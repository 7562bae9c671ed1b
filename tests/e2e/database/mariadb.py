"""A real `mariadbd` for a test: made in a temporary folder, started on a free port, paused, killed
and asked by its own client over its socket file.

What it says it has stored is on its disk: one that was killed comes back with it.
"""

import os
import subprocess

from mqtt.broker import free_port
from program import Program

USER, PASSWORD, DATABASE = "holdline", "a pass/word", "holdline"


class MariaDb(Program):
    """A running server with one database, and a user who may do everything in it. `more` is what
    it is started with besides."""

    COMMANDS, START_S = ("mariadbd", "mariadb-install-db", "mariadb"), 60.0

    def __init__(self):
        super().__init__()
        self.port, self.more = free_port(), []
        self.socket, data = self.path("socket"), self.path("data")
        self.user = ["--user=root"] if os.getuid() == 0 else []
        made = subprocess.run(
            ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--skip-test-db",
             "--auth-root-authentication-method=normal", *self.user],
            env={**os.environ, "TMPDIR": self.folder}, capture_output=True, text=True,
            timeout=2 * self.START_S, check=False)
        assert made.returncode == 0, made.stdout + made.stderr
        self.start()
        self.ask(f"CREATE DATABASE {DATABASE};"
                 f"CREATE USER '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';"
                 f"GRANT ALL ON {DATABASE}.* TO '{USER}'@'127.0.0.1'", database="mysql")

    @property
    def url(self):
        return f"mysql://{USER}@127.0.0.1:{self.port}/{DATABASE}"

    def words(self):
        return ["mariadbd", "--no-defaults", f"--datadir={self.path('data')}",
                f"--socket={self.socket}", f"--port={self.port}", "--bind-address=127.0.0.1",
                "--skip-name-resolve", f"--tmpdir={self.folder}", "--performance-schema=OFF",
                "--innodb-buffer-pool-size=64M", f"--pid-file={self.path('pid')}", *self.user,
                *self.more]

    def answers(self):
        return self.run("SELECT 1", "mysql").returncode == 0

    # -- questions

    def run(self, text, database=DATABASE):
        return subprocess.run(
            ["mariadb", "--no-defaults", f"--socket={self.socket}", "--user=root", "--batch",
             "--skip-column-names", "--default-character-set=utf8mb4", database],
            input=text, capture_output=True, text=True, timeout=self.START_S,
            check=False)

    def ask(self, text, database=DATABASE):
        """Rows of what was asked last, as texts. An error is an AssertionError."""
        done = self.run(text, database)
        assert done.returncode == 0, f"{text[:200]}: {done.stderr}"
        return [tuple(line.split("\t")) for line in done.stdout.splitlines()]

    def one(self, text):
        """The one value of the one row."""
        (value,), = self.ask(text)
        return value

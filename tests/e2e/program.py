"""A program that others have written, in a folder of its own: started for a test, paused, killed,
and gone with it.

What it is, what it is started with and when it answers its class says.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import unittest

import fixture
from fixture import DEADLINE_S, poll


class Program:
    """A program that is running, or was. `COMMANDS` must be installed, or the test is skipped;
    `START_S` is how long it may take until it answers."""

    COMMANDS, START_S = (), DEADLINE_S

    def __init__(self):
        for command in self.COMMANDS:
            if not shutil.which(command):
                raise unittest.SkipTest(f"{command} is not installed: IT WAS NOT TRIED")
        self.folder = tempfile.mkdtemp(prefix=f"holdline-{self.COMMANDS[0]}-")
        self.process = None

    def words(self):
        """What starts it."""
        raise NotImplementedError

    def answers(self):
        """Whether it does by now."""
        raise NotImplementedError

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_file(self, name, text, **values):
        """A file in its folder, in which words stand for values."""
        for word, value in values.items():
            text = text.replace(word, str(value))
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def start(self):
        with open(self.path("output"), "ab") as output:
            self.process = subprocess.Popen(self.words(), stdout=output, stderr=output,
                                            preexec_fn=fixture.end_with_parent)

        def there():
            assert self.process.poll() is None, self.output()
            return self.answers()
        poll(there, f"{self.COMMANDS[0]} answers", self.START_S)

    def output(self):
        with open(self.path("output"), encoding="utf-8", errors="replace") as file:
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
        if self.process and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

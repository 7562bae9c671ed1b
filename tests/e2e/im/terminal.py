"""People at terminals: `holdline im` with its flags, to its end or as it goes on."""

import subprocess
import threading

from fixture import BINARY, Case, environment, poll, run


class CommandLine:
    """What a test does by `holdline im` beside what it is about."""

    def flags(self, user):
        host, port = self.server.ports["any"]
        return ["--host", host, "--port", str(port), "--user", user]

    def im(self, command, user, *words, **how):
        """What a command prints to somebody, which must succeed."""
        answer = run("im", *command.split(), *self.flags(user), *words, **how)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout


class Terminal(CommandLine, Case):
    """A test of commands that people give."""

    def setUp(self):
        super().setUp()
        self.ann, self.bob = f"{self.name}.ann", f"{self.name}.bob"

    def open(self, command, user, *words):
        """A command that goes on: its process, and the lines it has printed so far."""
        return self.open_with_notes(command, user, *words)[:2]

    def open_with_notes(self, command, user, *words):
        """Likewise, with what it says beside."""
        process = subprocess.Popen(
            [BINARY, "im", *command.split(), *self.flags(user), *words], env=environment(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lines, notes = [], []
        for pipe, kept in ((process.stdout, lines), (process.stderr, notes)):
            threading.Thread(target=self.read, args=(pipe, kept), daemon=True).start()
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        poll(lambda: notes, f"{command} is logged in")
        return process, lines, notes

    @staticmethod
    def read(pipe, kept):
        for line in pipe:
            kept.append(line.rstrip("\n"))
        pipe.close()

    def say(self, process, line):
        process.stdin.write(line + "\n")
        process.stdin.flush()

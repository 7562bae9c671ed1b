"""A page of the book as somebody reads it: its commands one after another in a terminal.

Knows Markdown's fences and what holds a terminal; not what any page says. The terminal is a shell
in a network and process space of its own, so the usual ports are free, and nothing outlives it.
"""

import os
import re
import shutil
import subprocess
import tempfile
import threading
import time

import fixture

DOCS = os.path.join(fixture.ROOT, "docs")
DEADLINE_S = 120
# The reader has a second terminal for these: they go on until they are ended, or end by themselves
# while the page goes on. Each with the question that tells that it is ready; $OUT is its output,
# $C what it was given by -c.
HOLDS = [
    ("holdline serve", "grep -q '^Stop with' $OUT"),
    ("holdline wrk", "test \"$(holdline devices --online --json --limit 1000 | wc -l)\" -ge $C"),
    ("holdline sub -v", "holdline status | grep -Eq 'subscriptions +[1-9]'"),
    ("holdline im chat", "grep -q 'chats with' $OUT"),
    ("redis-server", "redis-cli ping | grep -q PONG"),
    ("mosquitto ", "grep -q running $OUT"),
]
SPACES = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]


def spaces():
    """The words that open spaces of one's own here, None where that is not allowed."""
    for more in ([], ["--map-current-user", "--keep-caps"]):
        words = [SPACES[0], *more, *SPACES[1:]]
        tried = subprocess.run([*words, "ip", "link", "set", "lo", "up"], capture_output=True,
                               check=False)
        if tried.returncode == 0:
            return words
    return None


def blocks(text):
    """The fenced blocks of a page: (first line's number, language, text)."""
    found, inside = [], None
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.fullmatch(r"( *)(`{3,})(\S*).*", line)
        if inside is None and fence:
            inside = (number + 1, fence[3], fence[2], [])
        elif inside and fence and fence[2] == inside[2] and not fence[3]:
            found.append((inside[0], inside[1], "\n".join(inside[3])))
            inside = None
        elif inside:
            inside[3].append(line)
    assert inside is None, f"a fence in line {inside and inside[0] - 1} has no end"
    return found


def commands(text):
    """The commands of a block, each with its lines: a here-document, a line that goes on with a
    backslash and an open bracket or quote belong to one."""
    found, lines, end = [], [], None
    for line in text.splitlines():
        lines.append(line)
        if end is not None:
            end = None if line == end else end
        elif re.search(r"<<'?(\w+)'?", line):
            end = re.search(r"<<'?(\w+)'?", line)[1]
        whole = "\n".join(lines)
        if end is None and not line.endswith("\\") and parses(whole):
            if re.sub(r"^\s*(#.*)?$", "", whole, flags=re.M).strip():
                found.append(whole.strip())
            lines = []
    assert not lines, f"a command has no end: {lines}"
    return found


def parses(text):
    told = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    return told.returncode == 0


def bare(command):
    """A command without the comment behind it."""
    return re.sub(r"\s+# [^'\"]*$", "", command.split("\n")[0]) if "\n" not in command else command


def matches(wanted, output):
    """Whether lines of the output are as the page has them: `…` in a line is anything, a line
    of `…` alone any number of lines."""
    parts = []
    for line in wanted.strip("\n").splitlines():
        if line.strip() == "…":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            inner = r"[^\n]*".join(re.escape(part) for part in line.rstrip().split("…"))
            parts.append(inner + r"[ ]*\n")
    return re.search("^" + "".join(parts), output + "\n", re.M) is not None


class Terminal:
    """A shell in a fresh folder, with the binary as `holdline`, and what it holds in others."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="holdline-book-")
        programs = os.path.join(self.folder, "bin")
        self.work = os.path.join(self.folder, "work")
        os.mkdir(programs)
        os.mkdir(self.work)
        os.symlink(fixture.BINARY, os.path.join(programs, "holdline"))
        path = f"{programs}:{os.environ['PATH']}:/usr/sbin:/sbin"
        env = {**fixture.environment(), "PATH": path, "HOME": self.folder, "LC_ALL": "C.UTF-8"}
        self.shell = subprocess.Popen(
            [*spaces(), "bash", "--norc", "--noprofile"], cwd=self.work, env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            preexec_fn=fixture.end_with_parent)
        self.held, self.number = [], 0
        self.run("set -m; ip link set lo up")

    def run(self, command, deadline_s=DEADLINE_S):
        """Runs a command to its end: its exit code and what it printed."""
        self.number += 1
        mark = f"-- end of {self.number}:"
        # A brace of its own, so that variables and folders stay, and no input of the shell's.
        self.shell.stdin.write(f"{{ {command}\n}} </dev/null\nprintf '\\n%s %d\\n' '{mark}' $?\n")
        self.shell.stdin.flush()
        guard = threading.Timer(deadline_s, self.shell.kill)
        guard.start()
        lines = []
        for line in self.shell.stdout:
            if line.startswith(mark):
                break
            lines.append(line)
        else:
            raise AssertionError(f"{command!r} did not end:\n{''.join(lines)}")
        guard.cancel()
        return int(line.split()[-1]), "".join(lines)[:-1]

    def hold(self, command, question):
        """Runs a command in another terminal, until it is ready."""
        if command.startswith("holdline serve") and "--take-over" not in command:
            self.leave("holdline serve")
        out = os.path.join(self.folder, f"held-{self.number}.out")
        line = f"tail -f /dev/null | {command} >{out} 2>&1 &"
        code, text = self.run(line)
        assert code == 0, text
        pid = self.run("echo $!")[1].strip()
        self.held.append((command, pid, out))
        end = time.monotonic() + DEADLINE_S
        count = re.search(r" -c (\d+)", command)
        while self.run(f"OUT={out}; C={count and count[1]}; {question}")[0] != 0:
            gone = self.run(f"kill -0 {pid}")[0] != 0
            if time.monotonic() > end or gone:
                raise AssertionError(f"{command!r} is not ready (gone: {gone}):\n{read(out)}")
            time.sleep(0.1)

    def leave(self, beginning):
        """Ctrl-C in the terminals of these commands."""
        for each in [each for each in self.held if each[0].startswith(beginning)]:
            self.run(f"kill -INT {each[1]}; "
                     f"while kill -0 {each[1]}; do sleep 0.1; done 2>/dev/null")
            self.held.remove(each)

    def printed(self):
        """What the commands in other terminals have printed so far."""
        return [read(out) for _, _, out in self.held]

    def close(self):
        self.shell.kill()
        self.shell.wait()
        self.shell.stdin.close()
        self.shell.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return re.sub(r"\x1b\[[0-9;]*m", "", file.read())

"""Profanity, a client for terminals, in tmux: two people at it."""

import os
import shutil
import subprocess
import tempfile
import unittest

from fixture import DEADLINE_S, Case, environment, poll
from xmpp.people import own_name

SETTINGS = """[connection]
autoping=0
[notifications]
[chatstates]
enabled=false
[plugins]
[ui]
beep=false
[logging]
chlog=false
"""


class Terminal:
    """A terminal with profanity in it."""

    def __init__(self, test, name):
        self.name, self.folder = name, tempfile.mkdtemp(prefix="holdline-profanity-")
        test.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.socket = os.path.join(self.folder, "tmux")
        for kind in ("config", "data"):
            os.makedirs(os.path.join(self.folder, kind, "profanity"))
        with open(os.path.join(self.folder, "config", "profanity", "profrc"), "w",
                  encoding="utf-8") as file:
            file.write(SETTINGS)
        self.environment = environment({
            "XDG_CONFIG_HOME": os.path.join(self.folder, "config"), "LC_ALL": "C.UTF-8",
            "XDG_DATA_HOME": os.path.join(self.folder, "data"), "TERM": "screen"})
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "150", "-y", "50", "profanity")
        test.addCleanup(self.tmux, "kill-server", check=False)
        self.shows("Profanity. Type /help")

    def tmux(self, *words, check=True):
        done = subprocess.run(["tmux", "-S", self.socket, *words], env=self.environment, text=True,
                              capture_output=True, check=check, timeout=DEADLINE_S)
        return done.stdout

    def says(self, line):
        self.tmux("send-keys", "-l", line)
        self.tmux("send-keys", "Enter")

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def shows(self, text):
        """Waits until the screen has this."""
        try:
            poll(lambda: text in self.screen(), f"{text!r}")
        except AssertionError as error:
            raise AssertionError(f"{self.name}: {error}\n{self.screen()}") from None


class Profanity(Case):
    CHANGES = {"listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"}}

    def setUp(self):
        super().setUp()
        for command in ("profanity", "tmux"):
            if not shutil.which(command):
                raise unittest.SkipTest(f"{command} is not installed: IT WAS NOT TRIED")
        self.ann, self.bob = (own_name(self, name)[-20:].lstrip("._-") for name in ("ann", "bob"))
        for name in (self.ann, self.bob):
            self.server.ask("PUT", f"/v1/users/{name}", {"password": "secret"})

    def person(self, name):
        terminal = Terminal(self, name)
        port = self.server.ports["xmpp"][1]
        terminal.says(f"/connect {name}@localhost server 127.0.0.1 port {port} tls disable")
        terminal.shows("Enter password:")
        terminal.says("secret")
        terminal.shows(f"{name}@localhost/profanity")
        terminal.shows("logged in successfully")
        return terminal

    def test_two_at_terminals_talk_in_a_room(self):
        room = f"{own_name(self, 'r')[-20:].lstrip('._-')}@conference.localhost"
        self.server.ask("POST", "/v1/chat/groups",
                        {"owner": self.ann, "group": room, "members": [self.bob]})
        ann, bob = self.person(self.ann), self.person(self.bob)
        for person in (ann, bob):
            person.says(f"/join {room} nick {person.name}")
            person.shows("You have joined the room")
        ann.says("hello, room")
        bob.shows("hello, room")
        bob.says("hello, ann")
        ann.shows("hello, ann")


if __name__ == "__main__":
    unittest.main()

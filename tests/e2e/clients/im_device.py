"""What the tests of IM's client libraries share: the quick start of a README as a process, against
a real server that is killed in between.

The quick start is the device of `ann`: it sends `Hello` to `bob` once, and prints the text of each
message on a line of its own; lines that begin with `#` are about states. Its store is a file; in
most libraries JSON in `ann.json`, whose `last` is the place up to which it has the inbox.
"""

import json
import os
import re

from clients.device import Program, QuickStart, restart
from fixture import poll
from im.wire import Device, schema


def last_of_lines(state):
    """The place in a store that is lines of text."""
    found = re.search(r"^last (\d+)$", state.decode(), re.M)
    return int(found[1]) if found else 0


class ImQuickStart(QuickStart):
    """The same for IM: the program writes its state into `STATE`."""

    STATE = "ann.json"

    def setUp(self):
        super().setUp()
        schema()

    def run_program(self, command):
        program = Program(command, self.folder)
        self.addCleanup(program.kill)
        return program

    def last(self):
        """The place up to which the program has the inbox."""
        try:
            with open(os.path.join(self.folder, self.STATE), "rb") as file:
                return self.place(file.read())
        except (FileNotFoundError, ValueError):
            return 0

    def place(self, state):
        """The same, of the content of its file; 0 if that is not known yet."""
        return json.loads(state)["last"] or 0

    def bob(self, server):
        link = Device(server.ports["any"])
        self.addCleanup(link.close)
        link.login("bob", "desk")
        return link

    def hellos(self, server):
        """How many times Hello has come to bob."""
        entries = self.bob(server).pull().entries
        return [entry.message.content.text for entry in entries
                if getattr(entry.message, "from") == "ann@localhost"].count("Hello")

    def nothing_is_lost_or_doubled(self):
        server = self.start()
        command = self.printed(server, (self.STATE, "Hello")).make(self.folder)
        self.bob(server)  # whose first login creates the account
        # Begins at the end of the inbox, which must be there.
        program = self.run_program(command)
        poll(lambda: self.hellos(server) == 1, "Hello has come")
        expected, got = [], []

        def say(text):
            expected.append(text)
            self.bob(server).send("ann", text)

        for at in range(3):
            say(f"before {at}")
            restart(server)
            say(f"while away {at}")
            got += [program.next(), program.next()]
        # The program is killed, too: what it acknowledged does not come again.
        place = 1 + len(expected)
        poll(lambda: self.last() >= place, "all is acknowledged")
        program.kill()
        say("for a new process")
        program = self.run_program(command)
        got.append(program.next())
        say("the last")
        got.append(program.next())
        self.assertEqual(got, expected, program.all)
        poll(lambda: self.hellos(server) == 2, "each process says Hello once")
        self.assertTrue(program.lines.empty(), program.all)

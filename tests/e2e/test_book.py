"""The book holds: its guides' commands run as they stand, its links lead somewhere, its metrics are
those of a server.

A guide's commands run in order, in a fresh folder, in a network of their own, on the usual ports. A
`text` block is what the command above it prints, or one that still runs. What cannot be run is in
NOT_RUN with the reason; its flags are looked at all the same, by `--help` behind them.
"""

import glob
import os
import re
import shlex
import time
import unittest

import book
import fixture

GUIDES = ["start", "operate", "security", "from-mosquitto"]
TRANSLATED = {}

# By guide: commands that are not run, and why. One that its guide does not have is an error.
NOT_RUN = {
    "start": {
        "make run": "builds the release binary; the tests have one",
        "install -m 755 target/release/holdline /usr/local/bin/holdline": "wants root and a build",
    },
    "operate": {
        "holdline doctor --connections 200000 --apply": "wants root, and changes the machine",
    },
}
# Commands that may end otherwise than with 0, and why.
ENDS = {
    "start": {
        "holdline doctor --connections 200000 --role client": ((0, 1), "1 where it is not fit"),
    },
    "operate": {
        "holdline doctor --connections 200000": ((0, 1), "1 where it is not fit"),
        'holdline doctor --connections 200000 --pid "$(cat data/LOCK)"': ((0, 1), "likewise"),
    },
    "security": {
        "holdline pub --cafile chain.pem -p 8883 -V 5 -u ann -P wrong -i ann"
        " -t home/ann/lamp -m on": ((0x86,), "a wrong password"),
        "holdline pub --cafile chain.pem -p 8883 -V 5 -t home/ann/lamp -m on":
            ((0x87,), "nobody's name"),
        "holdline pub --cafile chain.pem -p 8883 -V 5 -u ann -P 'correct horse battery' -i bob"
        " -t home/ann/lamp -m on": ((0x85,), "another's identifier"),
        "holdline pub --cafile chain.pem -p 8883 -V 5 -u ann -P 'correct horse battery' -i ann"
        " -q 1 -t home/bob/lamp -m on": ((1,), "another's topic"),
        'holdline check --config holdline.toml | grep -c "$SECRET"': ((1,), "it is not there"),
    },
    "from-mosquitto": {
        "holdline pub -u ann -P wrong -t home/lamp -m off": ((4,), "a wrong password"),
        "holdline sub -u ann -P secret -v -t 'home/#' --retained-only -W 2":
            ((27,), "its time was over, as mosquitto_sub's"),
    },
}


def page(name):
    with open(os.path.join(book.DOCS, f"{name}.md"), encoding="utf-8") as file:
        return file.read()


def shell(name):
    """The commands of a guide, each with its line."""
    return [(line, command) for line, language, text in book.blocks(page(name))
            if language == "sh" for command in book.commands(text)]


@unittest.skipUnless(book.spaces(), "no network of one's own may be opened here: IT WAS NOT TRIED")
class Guides(unittest.TestCase):
    maxDiff = None
    patience_s = book.DEADLINE_S

    def read(self, name, text=None):
        """Does what a reader of the page does."""
        terminal = book.Terminal()
        self.addCleanup(terminal.close)
        output = ""
        for line, language, text in book.blocks(text or page(name)):
            where = f"docs/{name}.md:{line}"
            if language == "sh":
                for command in book.commands(text):
                    output = self.command(terminal, name, where, command)
            elif language == "text":
                self.shows(terminal, where, text, output)

    def command(self, terminal, name, where, command):
        plain = book.bare(command)
        if plain in NOT_RUN.get(name, {}):
            if plain.startswith("holdline "):
                code, output = terminal.run(f"{plain} --help")
                self.assertEqual(code, 0, f"{where}: {command}: {output}")
            return ""
        for beginning, question in book.HOLDS:
            if plain.startswith(beginning):
                terminal.hold(plain, question)
                return ""
        code, output = terminal.run(command)
        allowed, _ = ENDS.get(name, {}).get(plain, ((0,), ""))
        self.assertIn(code, allowed, f"{where}: {command}: ended with {code}:\n{output}\n"
                      + "\n--\n".join(terminal.printed()))
        return output

    def shows(self, terminal, where, wanted, output):
        end = time.monotonic() + self.patience_s
        while True:
            printed = [output, *terminal.printed()]
            if any(book.matches(wanted, each) for each in printed):
                return
            if time.monotonic() > end or not terminal.held:
                self.fail(f"{where}: nobody printed\n{wanted}\nbut\n" + "\n--\n".join(printed))
            time.sleep(0.1)

    def test_what_does_not_hold_is_noticed(self):
        serve = "```sh\nholdline serve\n```\n"
        self.patience_s = 1
        self.read("good", serve + "```sh\nholdline status\n```\n```text\n… ready\n```\n")
        for wrong in ("```sh\nholdline status --jsno\n```", "```sh\nholdline serve --dta x\n```",
                      "```sh\nholdline status\n```\n```text\n… ready to go\n```"):
            with self.subTest(wrong), self.assertRaises(AssertionError):
                self.read("wrong", (serve if "serve" not in wrong else "") + wrong)

    def test_exceptions_are_of_commands_that_there_are(self):
        for table in (NOT_RUN, ENDS):
            for name, entries in table.items():
                there = {book.bare(command) for _, command in shell(name)}
                self.assertEqual(set(entries) - there, set(), f"docs/{name}.md")

    def test_translations_have_the_same_commands(self):
        for name, original in TRANSLATED.items():
            self.assertEqual([book.bare(command) for _, command in shell(name)],
                             [book.bare(command) for _, command in shell(original)])


def reads(name):
    def test(self):
        self.read(name)
    return test


for guide in GUIDES:
    setattr(Guides, f"test_the_commands_of_{guide.replace('-', '_')}_do_what_it_says",
            reads(guide))

"""The book holds: its guides' commands run as they stand, its links lead somewhere, its metrics are
those of a server.

A guide's commands run in order, in a fresh folder, in a network of their own, on the usual ports. A
`text` block is what the command above it prints, or one that still runs. What cannot be run is in
NOT_RUN with the reason; its flags are looked at all the same, by `--help` behind them.
"""

import glob
import json
import os
import re
import subprocess
import sys
import time
import unittest

import fixture
import terminal

SCRIPT = os.path.join(fixture.ROOT, "scripts", "book.py")
sys.path.insert(0, os.path.dirname(SCRIPT))
import book  # noqa: E402

GUIDES = ["start", "operate", "security", "chat-over-mqtt", "from-mosquitto", "from-emqx",
          "from-prosody", "from-ejabberd"]
TRANSLATED = {"start.zh": "start", "console.zh": "console", "operate.zh": "operate"}

# By guide: commands that are not run, and why. One that its guide does not have is an error.
NOT_RUN = {
    "start": {
        "make run": "builds a binary; the tests have one",
        "cargo build --release -p holdline": "likewise",
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
        "holdline store check --data broken": ((1,), "it is damaged"),
        "holdline status": ((0, 1), "1 while it drains"),
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
    "from-emqx": {
        "holdline pub -u bob -P 'battery staple' -V 5 -q 1 -t home/lamp -m off":
            ((1,), "bob may not"),
    },
    "from-prosody": {
        "holdline im login --user bob --password 'correct horse'": ((1,), "a wrong password"),
    },
    "from-ejabberd": {
        "holdline im login --user bob --password 'correct horse'": ((1,), "a wrong password"),
    },
    "from-mosquitto": {
        "holdline pub -u ann -P wrong -t home/lamp -m off": ((4,), "a wrong password"),
        "holdline sub -u ann -P secret -v -t 'home/#' --retained-only -W 2":
            ((27,), "its time was over, as mosquitto_sub's"),
    },
}


def page(name):
    with open(os.path.join(terminal.DOCS, f"{name}.md"), encoding="utf-8") as file:
        return file.read()


def shell(name):
    """The commands of a guide, each with its line."""
    return [(line, command) for line, language, text in terminal.blocks(page(name))
            if language == "sh" for command in terminal.commands(text)]


@unittest.skipUnless(terminal.spaces(), "no network of one's own may be had: IT WAS NOT TRIED")
class Guides(unittest.TestCase):
    maxDiff = None
    patience_s = terminal.DEADLINE_S

    def read(self, name, text=None):
        """Does what a reader of the page does."""
        window = terminal.Terminal()
        self.addCleanup(window.close)
        output = ""
        for line, language, text in terminal.blocks(text or page(name)):
            where = f"docs/{name}.md:{line}"
            if language == "sh":
                for command in terminal.commands(text):
                    output = self.command(window, name, where, command)
            elif language == "text":
                self.shows(window, where, text, output)

    def command(self, window, name, where, command):
        plain = terminal.bare(command)
        if plain in NOT_RUN.get(name, {}):
            if plain.startswith("holdline "):
                code, output = window.run(f"{plain} --help")
                self.assertEqual(code, 0, f"{where}: {command}: {output}")
            return ""
        for beginning, question in terminal.HOLDS:
            if plain.startswith(beginning):
                window.hold(plain, question)
                return ""
        code, output = window.run(command)
        allowed, _ = ENDS.get(name, {}).get(plain, ((0,), ""))
        self.assertIn(code, allowed, f"{where}: {command}: ended with {code}:\n{output}\n"
                      + "\n--\n".join(window.printed()))
        return output

    def shows(self, window, where, wanted, output):
        end = time.monotonic() + self.patience_s
        while True:
            printed = [output, *window.printed()]
            if any(terminal.matches(wanted, each) for each in printed):
                return
            if time.monotonic() > end or not window.held:
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
                there = {terminal.bare(command) for _, command in shell(name)}
                self.assertEqual(set(entries) - there, set(), f"docs/{name}.md")

    def test_translations_have_the_same_commands(self):
        for name, original in TRANSLATED.items():
            self.assertEqual([terminal.bare(command) for _, command in shell(name)],
                             [terminal.bare(command) for _, command in shell(original)])


def reads(name):
    def test(self):
        self.read(name)
    return test


for guide in GUIDES:
    setattr(Guides, f"test_the_commands_of_{guide.replace('-', '_')}_do_what_it_says",
            reads(guide))


def shown(text):
    """The `holdline` commands that a page shows, indented or in fences, without what they pipe."""
    for line in text.splitlines():
        found = re.match(r"(?:    )?(?:\$ )?(?:target/\w+/)?(holdline [a-z][^`]*)$", line)
        if found:
            yield re.split(r"\s[|>#]|\s&&", found[1])[0]


def pages():
    """Every page of docs/ and both READMEs, by paths from the root."""
    found = glob.glob(os.path.join(terminal.DOCS, "**", "*.md"), recursive=True)
    docs = sorted(os.path.relpath(path, fixture.ROOT) for path in found)
    return ["README.md", "README.zh.md", *docs]


def content(path):
    with open(os.path.join(fixture.ROOT, path), encoding="utf-8") as file:
        return file.read()


def anchors(text):
    """What a link may name behind #: headings as the repository's pages have them, and ids."""
    found = []

    def line(each):
        heading = re.match(r"#{1,6} +(.*?) *#*$", each)
        if heading:
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            again = sum(1 for one in found if re.fullmatch(rf"{re.escape(slug)}(-\d+)?", one))
            found.append(f"{slug}-{again}" if again else slug)
        found.extend(re.findall(r'<a id="([^"]+)"', each))
        return each
    book.outside_code(text, line)
    return found


class Reference(unittest.TestCase):
    """Pages that are looked up in, not read in order: what they show is looked at, not run."""

    def refused(self, path, text):
        for command in shown(text):
            told = subprocess.run(["bash", "-c", f"holdline() {{ '{fixture.BINARY}' \"$@\"; }}\n"
                                   f"{command} --help"], env=fixture.environment(),
                                  capture_output=True, text=True, check=False)
            if told.returncode != 0:
                yield f"{path}: {command}: {told.stderr.strip()}"

    def test_commands_have_flags_that_there_are(self):
        guides = {f"docs/{name}.md" for name in [*GUIDES, *TRANSLATED]}
        looked_at = sorted(set(pages()) - guides)
        for path in looked_at:
            self.assertEqual(list(self.refused(path, content(path))), [])
        count = sum(len(list(shown(content(path)))) for path in looked_at)
        self.assertGreater(count, 40, "commands are no longer found")

    def test_a_shorter_translation_shows_no_command_that_its_original_has_not(self):
        own = {terminal.bare(command) for command in shown(page("laboratory.zh"))}
        original = {terminal.bare(command) for command in shown(page("laboratory"))}
        self.assertGreater(len(own), 6)
        self.assertEqual(own - original, set())

    def test_the_readme_and_its_translation_show_the_same_code_and_links(self):
        def shows(path):
            text = content(path)
            code = re.findall(r"`([^`\n]+)`|^    (.+)$", text, re.M)
            links = {target.replace(".zh.md", ".md") for target in book.targets(text)}
            return sorted(code), sorted(links)
        self.assertGreater(len(shows("README.md")[0]), 30)
        self.assertEqual(shows("README.zh.md"), shows("README.md"))

    def test_a_flag_that_there_is_not_is_noticed(self):
        text = "    holdline status\n    $ holdline status --jsno | cat\nholdline stauts\n"
        self.assertEqual(len(list(self.refused("x", text))), 2)


class Links(unittest.TestCase):
    maxDiff = None

    def broken(self, page, text):
        """Links of a page that lead nowhere."""
        for target in book.targets(text):
            file, anchor = book.resolve(page, target)
            if file is None:
                continue
            if not os.path.exists(os.path.join(fixture.ROOT, file)):
                yield target
            elif anchor and (not file.endswith(".md") or anchor not in anchors(
                    text if file == page else content(file))):
                yield target

    def test_every_link_and_anchor_leads_somewhere(self):
        for page_of in pages():
            self.assertEqual(list(self.broken(page_of, content(page_of))), [], page_of)

    def test_a_link_that_leads_nowhere_is_noticed(self):
        text = ("# One\n# One\n[a](start.md) [b](no.md) [c](#one-1) [d](#two)\n"
                "[f](../README.md#install) [g](../README.md#no)\n```\n[h](no.md)\n```\n")
        self.assertEqual(list(self.broken("docs/start.md", text)),
                         ["no.md", "#two", "../README.md#no"])

    def test_the_summary_names_every_page_but_the_decisions_once(self):
        named = [book.resolve("docs/SUMMARY.md", target)[0]
                 for target in book.targets(content("docs/SUMMARY.md"))]
        there = [path for path in pages()
                 if path.startswith("docs/") and not path.startswith("docs/adr/")]
        self.assertEqual(sorted(named), sorted(set(there) - {"docs/SUMMARY.md"}))

    def test_links_hold_in_the_book_too(self):
        """What the preprocessor makes of the pages, as mdBook would hand them over."""
        named = book.targets(content("docs/SUMMARY.md"))
        items = [{"Chapter": {"name": path, "content": content(f"docs/{path}"), "number": None,
                              "sub_items": [], "path": path, "source_path": path,
                              "parent_names": []}} for path in named]
        told = subprocess.run([sys.executable, SCRIPT], input=json.dumps([{}, {"items": items}]),
                              capture_output=True, text=True, check=True, cwd=fixture.ROOT)
        made = {item["Chapter"]["path"]: item["Chapter"]["content"]
                for item in json.loads(told.stdout)["items"] if "Chapter" in item}
        self.assertIn("repository/holdline.toml.md", made)
        for path, text in made.items():
            for target in book.targets(text):
                where, anchor = book.resolve(path, target)
                if where is None or not where.endswith(".md"):
                    self.assertTrue(where is None
                                    or os.path.isfile(os.path.join(terminal.DOCS, where)),
                                    f"{path}: {target}")
                    continue
                self.assertIn(where, made, f"{path}: {target}")
                if anchor:
                    self.assertIn(anchor, anchors(made[where]), f"{path}: {target}")

    def test_settings_that_guides_name_are_settings(self):
        known, section = set(), ""
        for line in content("docs/holdline.toml").splitlines():
            section = (re.match(r"\[([\w.-]+)\]", line) or [None, section])[1]
            key = re.match(r"#? *([a-z_0-9]+) = ", line)
            if key:
                known.add(f"{section}.{key[1]}")
        sections = {name.split(".")[0] for name in known}
        for name in [*GUIDES, *TRANSLATED]:
            text = page(name)
            if name == "from-emqx":  # its first columns have EMQX's names
                text = "\n".join(re.findall(r"^\|[^|]*(\|.*)", text, re.M))
            named = {f"{one}.{key}" for one, key in re.findall(r"`\[(\w+)\] (\w+)`", text)}
            named |= {whole for whole in re.findall(r"`(\w+\.\w+)(?: = [^`]*)?`", text)
                      if whole.split(".")[0] in sections}
            self.assertEqual(named - known, set(), name)

    def figures(self, target):
        return json.loads(content(book.resolve("docs/operate.md", target)[0]))["figures"]

    def test_figures_are_those_of_the_runs_that_they_name(self):
        rows = re.findall(r"^\|[^|]*\|([^|]*)\|([^|]*bench/results/[^|]*)\|$",
                          content("docs/operate.md"), re.M)
        self.assertGreater(len(rows), 10)
        for told, runs in rows:
            measured = [figure["value"] for target in book.targets(runs)
                        for figure in self.figures(target)]
            for number in re.findall(r"[\d,]*\d(?:\.\d+)?", told):
                value = float(number.replace(",", ""))
                step = 10 ** -len(number.partition(".")[2]) / 2 + 1e-9
                self.assertTrue(any(abs(each - value) <= step for each in measured),
                                f"{number} of {told!r} is not in {runs}")

    def test_the_guide_has_each_alert_and_each_alert_its_place_there(self):
        alerts, text = content("docs/alerts.yml"), content("docs/operate.md")
        rows = re.findall(r"^\| `(Holdline\w+)` \|", text, re.M)
        self.assertEqual(rows, re.findall(r"- alert: (\w+)", alerts))
        for anchor in re.findall(r"guide: operate\.html#(\S+)", alerts):
            self.assertIn(anchor, anchors(text))

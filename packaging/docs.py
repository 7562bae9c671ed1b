#!/usr/bin/env python3
"""The pages of a package, with links that work there: packaging/docs.py FOLDER

Copies README, docs/ and what belongs to them into FOLDER: the pages themselves beside each other,
`adr/`, `wire/`, `images/` and `grafana/` below. A link to a file that is in the package points to
it; one to another file of the repository becomes its text. Knows nothing of what pages say; links
are found as scripts/book.py finds them.
"""

import glob
import os
import re
import shutil
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import book  # noqa: E402

# Files that packaging/package.sh and packaging/tarball.sh put there themselves.
BESIDE = {"CHANGELOG.md": "changelog.gz",
          "packaging/examples": "examples"}
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^()\s]+)\)")
SOURCE = re.compile(r'src="([^"]+)"')


def shipped():
    """Places in the package, by path in the repository."""
    places = dict(BESIDE)
    for file in glob.glob(os.path.join(ROOT, "packaging", "examples", "*")):
        places[os.path.relpath(file, ROOT)] = f"examples/{os.path.basename(file)}"
    for name in ("README.md", "README.zh.md"):
        places[name] = name
    places["crates/proto-im/schema/im.proto"] = "im.proto"
    for folder, _, names in os.walk(os.path.join(ROOT, "docs")):
        for name in names:
            file = os.path.relpath(os.path.join(folder, name), ROOT)
            places[file] = file.removeprefix("docs/")
    for folder in {os.path.dirname(file) for file in places if file.startswith("docs/")}:
        places.setdefault(folder, os.path.relpath(folder, "docs"))
    return places


def rewrite(file, text, places):
    """The text of a page, with links of its place in the package."""
    def moved(target):
        there, anchor = book.resolve(file, target)
        if there is None or (there == file and not target.partition("#")[0]):
            return target
        if there not in places:
            return None
        path = os.path.relpath(places[there], os.path.dirname(places[file]) or ".")
        return path + (anchor and "#" + anchor)

    def link(match):
        to = moved(match[2])
        return match[1] if to is None else f"[{match[1]}]({to})"

    def picture(match):
        to = moved(match[2])
        return match[1] if to is None else f"![{match[1]}]({to})"

    def source(match):
        return f'src="{moved(match[1]) or match[1]}"'

    def line(text):
        # Pictures first: one may be the text of a link.
        return book.LINK.sub(link, SOURCE.sub(source, PICTURE.sub(picture, text)))
    return book.outside_code(text, line)


def main(folder):
    places = shipped()
    own = {file for file in places if file not in BESIDE and not file.startswith("packaging/")}
    for file in sorted(own):
        source, to = os.path.join(ROOT, file), os.path.join(folder, places[file])
        if not os.path.isfile(source):
            continue
        os.makedirs(os.path.dirname(to), exist_ok=True)
        if file.endswith(".md"):
            with open(source, encoding="utf-8") as opened:
                text = rewrite(file, opened.read(), places)
            with open(to, "w", encoding="utf-8") as written:
                written.write(text)
        else:
            shutil.copyfile(source, to)
        os.chmod(to, 0o644)


if __name__ == "__main__":
    main(sys.argv[1])

#!/usr/bin/env python3
"""mdBook's preprocessor: files beside docs/ that pages link to become chapters at the end.

Reads [context, book] and writes the book, as mdBook's manual has it. Knows links and paths, nothing
of what pages say. A link of such a file to what is not in the book, and one to a folder, becomes
its text. `make book` runs it; tests/e2e/test_book.py looks at what it makes.
"""

import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCS = "docs"
BESIDE = "repository"
BYTES_MAX = 512 * 1024
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.I)


def outside_code(text, change):
    """Applies `change` to what stands neither in a fence nor, in a line, between backticks."""
    out, fence = [], None
    for line in text.split("\n"):
        mark = re.match(r" *(`{3,})", line)
        if mark and fence is None:
            fence = mark[1]
        elif mark and fence is not None and len(mark[1]) >= len(fence):
            fence = None
        elif fence is None:
            line = change(line)
        out.append(line)
    return "\n".join(out)


def targets(text):
    """The links of a page, as they stand."""
    found = []
    outside_code(text, lambda line: found.extend(m[2] for m in LINK.finditer(line)) or line)
    return found


def resolve(page, target):
    """(file, anchor) in the repository of a link on a page, both by paths from its root; None
    as the file for what is elsewhere."""
    if SCHEME.match(target):
        return None, ""
    path, _, anchor = target.partition("#")
    where = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
    return where, anchor


def chapter_path(file):
    """Where a file of the repository is in the book's source."""
    if file.startswith(DOCS + "/"):
        path = file.removeprefix(DOCS + "/")
    else:
        path = f"{BESIDE}/{file}"
    return path if path.endswith(".md") else path + ".md"


class Book:
    def __init__(self, items):
        self.items = items
        self.pages = [item["Chapter"] for item in walk(items) if item["Chapter"].get("path")]
        self.there = {f"{DOCS}/{page['path']}": page["path"] for page in self.pages}
        self.beside = {}

    def gather(self):
        """Files that pages link to and that are no part of the book yet."""
        for page in self.pages:
            source = f"{DOCS}/{page['path']}"
            for target in targets(page["content"]):
                file, _ = resolve(source, target)
                if file and file not in self.there and self.is_file(file):
                    self.beside.setdefault(file, chapter_path(file))

    def is_file(self, file):
        path = os.path.join(ROOT, file)
        copied = file.startswith(DOCS + "/") and not file.endswith(".md")
        return not copied and os.path.isfile(path) and os.path.getsize(path) <= BYTES_MAX

    def rewrite(self, source, here, text):
        """The page's text with links that hold in the book."""
        def one(match):
            words, target = match[1], match[2]
            file, anchor = resolve(source, target)
            to = self.there.get(file) or self.beside.get(file)
            if file is None or file == source and not target.partition("#")[0]:
                return match[0]
            if to is None and file.startswith(DOCS + "/") and not file.endswith(".md") \
                    and os.path.isfile(os.path.join(ROOT, file)):
                to = file.removeprefix(DOCS + "/")
            if to is None:
                return words
            path = os.path.relpath(to, os.path.dirname(here) or ".")
            return f"[{words}]({path}{anchor and '#' + anchor})"
        return outside_code(text, lambda line: LINK.sub(one, line))

    def finish(self):
        self.gather()
        for page in self.pages:
            page["content"] = self.rewrite(f"{DOCS}/{page['path']}", page["path"], page["content"])
        if self.beside:
            self.items.append({"PartTitle": "Files of the repository"})
        for file, path in sorted(self.beside.items()):
            with open(os.path.join(ROOT, file), encoding="utf-8") as opened:
                text = opened.read()
            if file.endswith(".md"):
                text = self.rewrite(file, path, text)
            else:
                text = f"# {file}\n\n````{file.rpartition('.')[2]}\n{text}\n````\n"
            self.items.append({"Chapter": {
                "name": file, "content": text, "number": None, "sub_items": [], "path": path,
                "source_path": None, "parent_names": []}})


def walk(items):
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            yield item
            yield from walk(item["Chapter"]["sub_items"])


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    _, book = json.load(sys.stdin)
    Book(book["items" if "items" in book else "sections"]).finish()
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()

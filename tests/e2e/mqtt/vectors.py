"""Reads the golden vectors of crates/proto-mqtt: the one table of what is wrong and its answer."""

import os

import fixture

FOLDER = os.path.join(fixture.ROOT, "crates", "proto-mqtt", "vectors")


def read(file):
    """Each vector as a dict of its fields, with its `name`; a line that cannot be read raises."""
    vectors = []
    with open(os.path.join(FOLDER, file), encoding="utf-8") as lines:
        for line in lines:
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            if line.startswith("[") and line.endswith("]"):
                vectors.append({"name": line[1:-1]})
                continue
            key, _, text = line.partition("=")
            fields, key = vectors[-1], key.strip()
            fields[key] = f"{fields[key]} {text.strip()}" if key in fields else text.strip()
    return vectors


def data(words):
    """The bytes that a text like `00 07 "ab" 61*3` means."""
    out, words = b"", words.strip()
    while words:
        if words.startswith('"'):
            quoted, _, words = words[1:].partition('"')
            out += quoted.replace("\\n", "\n").encode()
        else:
            word, _, words = words.partition(" ")
            pair, _, count = word.partition("*")
            assert len(pair) == 2, word
            out += bytes.fromhex(pair) * int(count or 1)
        words = words.strip()
    return out


def reasons():
    """Numbers of the reason codes by their names, as 4-reasons.txt has them."""
    return {fields["name"]: fields for fields in read("4-reasons.txt")}

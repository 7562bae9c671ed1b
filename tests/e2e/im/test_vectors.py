"""The golden vectors of crates/proto-im, read and written by Google's library."""

import re
import unittest

from im.wire import VECTORS, framed, schema


def read(path):
    """The vectors of a file, {key: text} each: a key that is repeated is joined by a space."""
    vectors = []
    with open(path, encoding="utf-8") as file:
        for line in map(str.strip, file):
            if line.startswith("["):
                vectors.append({"name": line[1:-1]})
            elif line and not line.startswith("#"):
                key, text = (part.strip() for part in line.split("=", 1))
                vector = vectors[-1]
                vector[key] = f"{vector[key]} {text}" if key in vector else text
    return vectors


def octets(text):
    """Bytes that stand as pairs of hex digits and quoted text."""
    words = re.findall(r'"([^"]*)"|([0-9a-f]{2})', text)
    return b"".join(quoted.encode() if quoted else bytes.fromhex(pair) for quoted, pair in words)


class Vectors(unittest.TestCase):
    def test_googles_library_means_the_same_by_the_same_bytes(self):
        made = schema()
        from google.protobuf import text_format
        vectors = read(VECTORS)
        self.assertGreater(len(vectors), 30)
        for vector in vectors:
            with self.subTest(vector["name"]):
                kind = made["ClientFrame" if vector["side"] == "client" else "ServerFrame"]
                message = text_format.Parse(vector["text"], kind())
                self.assertEqual(framed(message), octets(vector["bytes"]))
                body = octets(vector["bytes"])[-message.ByteSize():]
                again = kind.FromString(body)
                self.assertEqual(again, message)

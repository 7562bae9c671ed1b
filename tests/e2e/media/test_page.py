"""Files and pictures on the chat page, in headless Chromium."""

import base64
import json
import os
import shutil
import struct
import tempfile
import unittest
import zlib

from fixture import Case
from im.page import CONTRAST, PAGE, Chromium, PageCase


def picture(width=30, height=20):
    """A PNG in one colour."""
    def chunk(kind, body):
        whole = kind + body
        return struct.pack(">I", len(body)) + whole + struct.pack(">I", zlib.crc32(whole))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\xc0\x30\x30" * width) * height
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b""))


PICTURE = "document.querySelector('#rows img')"
LOADED = f"{PICTURE} && {PICTURE}.complete && {PICTURE}.naturalWidth === 30"


class Pictures(PageCase):
    def setUp(self):
        Case.setUp(self)
        if not Chromium.path():
            raise unittest.SkipTest("Chromium could not be installed: NO PAGE WAS TRIED")
        self.folder = tempfile.mkdtemp(prefix="holdline-e2e-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        media = {"folder": os.path.join(self.folder, "media"), "file_bytes_max": 100_000}
        self.server = self.start({**PAGE, "media": media})
        self.chromium = Chromium()
        self.addCleanup(self.chromium.close)

    def both(self):
        ann, bob = self.person("ann"), self.person("bob", width=375)
        ann.write_to("bob")
        bob.write_to("ann")
        ann.until("!document.getElementById('attach').hidden", "files are offered")
        return ann, bob

    def file(self, name, body):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as into:
            into.write(body)
        return path

    def choose(self, page, *paths):
        field = page.call("Runtime.evaluate", expression="document.getElementById('file')")
        page.call("DOM.setFileInputFiles", files=list(paths),
                  objectId=field["result"]["objectId"])

    def test_a_picture_is_chosen_seen_sent_with_a_caption_and_shown_to_both(self):
        ann, bob = self.both()
        self.choose(ann, self.file("cat.png", picture()))
        ann.until("document.querySelector('#files canvas')?.width === 30", "a preview")
        self.assertEqual(ann.run("document.activeElement.id"), "text")
        self.assertEqual(ann.run("document.getElementById('text').placeholder"), "Add a caption")
        self.assertEqual(ann.findings(), [])
        ann.say("a red cat")
        for page in (ann, bob):
            page.until(LOADED, "the picture is shown")
            self.assertEqual(page.run(f"[{PICTURE}.alt, {PICTURE}.width, {PICTURE}.height]"),
                             ["a red cat", 30, 20])
            self.assertEqual(page.run("document.querySelector('#rows a').rel"),
                             "noopener noreferrer")
            self.assertEqual(page.findings(), [])
            self.assertTrue(all(ratio >= 4.5 for _, ratio in page.run(CONTRAST)))
        self.assertEqual(ann.run("document.getElementById('files').childElementCount"), 0)
        self.assertEqual(ann.run("document.activeElement.id"), "text")
        self.narrow(bob)
        bob.open()
        bob.until("!document.getElementById('room').hidden", "bob is back")
        bob.choose("ann")
        bob.until(LOADED, "it is read from the server")
        self.calm(ann, bob)

    def test_a_pasted_and_a_dropped_file_are_sent_and_what_is_no_picture_is_a_link(self):
        ann, bob = self.both()
        for kind, event, name, type_ in (
                ("paste", "new ClipboardEvent('paste', {clipboardData: it, bubbles: true, "
                          "cancelable: true})", "p.png", "image/png"),
                ("drop", "new DragEvent('drop', {dataTransfer: it, bubbles: true, "
                         "cancelable: true})", "note.txt", "text/plain")):
            body = picture() if type_ == "image/png" else b"hello"
            ann.run(f"""(() => {{
                const bytes = Uint8Array.from(atob({json.dumps(base64.b64encode(body).decode())}),
                    (it) => it.charCodeAt(0));
                const it = new DataTransfer();
                it.items.add(new File([bytes], '{name}', {{type: '{type_}'}}));
                document.getElementById('text').dispatchEvent({event});
            }})()""")
            ann.until("document.querySelector('#files li')", f"the file of the {kind} stands")
            ann.key("Enter", "#text")
            ann.until("document.getElementById('files').childElementCount === 0", "it is sent")
        bob.until(LOADED, "the picture is shown")
        link = "[...document.querySelectorAll('#rows a')].at(-1)"
        bob.until(f"{link}.textContent.startsWith('note.txt')", "the file is a link")
        self.assertEqual(bob.run(f"fetch({link}.href).then(it => it.text())"), "hello")
        self.calm(ann, bob)

    def test_what_is_refused_is_told_and_may_be_removed_by_the_keyboard(self):
        ann, _ = self.both()
        self.choose(ann, self.file("large.png", picture() + bytes(100_001)))
        ann.until("document.querySelector('#files li')", "it stands")
        ann.say("my caption")
        ann.until("document.querySelector('#files .fault').textContent"
                  " === 'The file is too large for this server.'", "it is told")
        self.assertEqual(ann.run("document.getElementById('text').value"), "my caption")
        ann.key("Enter", "#files button.plain")
        ann.until("document.getElementById('files').childElementCount === 0", "it is gone")
        self.calm(ann)

    def test_a_picture_from_elsewhere_is_a_link_and_asks_nobody(self):
        ann, bob = self.both()
        note = "url: http://192.0.2.1/x.png\\nname: x.png\\ntype: image/png\\n"
        ann.run(f"""import('/chat/im/index.js').then(async ({{ Client }}) => {{
            const client = new Client({{ url: location.href.replace('http', 'ws')
                .replace('/chat', '/im'), account: 'mallory' }});
            await client.connect();
            await client.send('bob', {{ kind: 20, text: 'look',
                extra: new TextEncoder().encode('{note}') }});
            client.close();
        }})""")
        bob.run("document.getElementById('back').click()")
        bob.choose("mallory")
        bob.until("document.querySelector('#rows a')"
                  " && !document.querySelector('#rows img')", "it is a link")
        self.assertEqual(bob.run("document.querySelector('#rows a').href"),
                         "http://192.0.2.1/x.png")
        blocked = [it for it in bob.errors if "Content Security Policy" in it]
        self.assertEqual(len(blocked), 1, bob.errors)

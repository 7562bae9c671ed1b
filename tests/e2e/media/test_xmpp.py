"""Uploads by slixmpp, and files between people of XMPP and of IM."""

import json
import os
import shutil
import sys
import tempfile
import unittest
import urllib.request

from fixture import DEADLINE_S
from xmpp.people import BUILT, People, together

OOB = "jabber:x:oob"
UPLOAD = "urn:xmpp:http:upload:0"


class Uploads(People):
    CHANGES = {
        "listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"},
        "listen.im-ws": {"address": "127.0.0.1:0", "protocol": "im", "websocket": "/im"},
        "media": {"file_bytes_max": 100_000, "types": ["image/*"], "files_a_day_max": 3}}

    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="holdline-e2e-")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.ENV = {"HOLDLINE_MEDIA_FOLDER": os.path.join(folder, "media")}
        super().setUpClass()

    def setUp(self):
        super().setUp()
        try:
            import aiohttp  # noqa: F401
        except ImportError as error:
            raise unittest.SkipTest(f"aiohttp is not installed: {error}") from None

    async def uploader(self):
        return await self.person(self.ann, "desk", plugins=("0066", "0363")).start()

    @together
    async def test_slixmpp_finds_the_service_uploads_and_a_person_of_im_has_a_picture(self):
        ann = await self.uploader()
        plugin = ann.client["xep_0363"]
        found = await plugin.find_upload_service(domain="localhost", timeout=DEADLINE_S)
        self.assertEqual(str(found["from"]), "upload.localhost")
        form = found["disco_info"]["form"]
        self.assertEqual(form.get_values()["max-file-size"], "100000")
        import io
        body = os.urandom(50_000)
        url = await plugin.upload_file("my cat.png", size=len(body), content_type="image/png",
                                       input_file=io.BytesIO(body), domain="localhost")
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as got:
            self.assertEqual((got.read(), got.headers["Content-Type"]), (body, "image/png"))
        message = ann.client.make_message(f"{self.bob}@localhost", url, mtype="chat")
        message["oob"]["url"] = url
        message.send()
        await ann.ping()
        heard = json.loads(self.im("listen", self.bob, "--count", "1"))
        self.assertEqual((heard["kind"], heard["text"]), (20, "my cat.png"))
        self.assertEqual((heard["file"]["url"], heard["file"]["type"]), (url, "image/png"))

    @together
    async def test_a_file_of_im_and_one_of_xmpp_come_to_xmpp_as_out_of_band_data(self):
        ann = await self.uploader()
        folder = tempfile.mkdtemp(prefix="holdline-e2e-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        file = os.path.join(folder, "cat.png")
        with open(file, "wb") as into:
            into.write(b"picture")
        self.im("send", self.bob, self.ann, "My cat", "--file", file)
        heard = await ann.next()
        self.assertEqual(heard["body"], heard["oob"]["url"])
        self.assertEqual(heard["oob"]["desc"], "My cat")
        with urllib.request.urlopen(heard["body"], timeout=DEADLINE_S) as got:
            self.assertEqual(got.read(), b"picture")
        bob = await self.person(self.bob, plugins=("0066",)).start()
        message = bob.client.make_message(f"{self.ann}@localhost", "https://x.example/a.png",
                                          mtype="chat")
        message["oob"]["url"] = "https://x.example/a.png"
        message.send()
        heard = await ann.next()
        self.assertEqual((heard["body"], heard["oob"]["url"], heard["oob"]["desc"]),
                         ("https://x.example/a.png", "https://x.example/a.png", ""))

    @together
    async def test_what_is_refused_is_told_as_the_standard_has_it(self):
        from slixmpp.exceptions import IqError
        ann = await self.uploader()
        plugin = ann.client["xep_0363"]

        async def asks(name="x.png", size=1, type_="image/png"):
            try:
                return await plugin.request_slot("upload.localhost", name, size, type_,
                                                 timeout=DEADLINE_S)
            except IqError as error:
                return error.iq
        large = await asks(size=100_001)
        self.assertEqual(large["error"]["condition"], "not-acceptable")
        most = large.xml.find(f".//{{{UPLOAD}}}file-too-large/{{{UPLOAD}}}max-file-size")
        self.assertEqual(most.text, "100000")
        self.assertEqual((await asks(type_="text/html"))["error"]["condition"], "not-acceptable")
        self.assertEqual((await asks(name="../x"))["error"]["condition"], "bad-request")
        self.assertEqual((await asks(size=0))["error"]["condition"], "bad-request")
        for _ in range(3):
            self.assertTrue((await asks())["http_upload_slot"]["put"]["url"])
        enough = await asks()
        self.assertEqual((enough["error"]["condition"], enough["error"]["type"]),
                         ("resource-constraint", "wait"))
        self.assertIsNotNone(enough.xml.find(f".//{{{UPLOAD}}}retry"))


sys.path.insert(0, os.path.join(BUILT, "slixmpp"))

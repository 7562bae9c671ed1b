"""Files of instant messaging, in a folder and in a bucket that somebody else's server keeps."""

import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

import fixture
from certificates import Authority
from fixture import DEADLINE_S, Case, poll, run
from im.wire import BUILT, Device

IM = {"address": "127.0.0.1:0", "protocol": "im", "websocket": "/im"}
HERE = os.path.dirname(os.path.abspath(__file__))


def temporary(case):
    folder = tempfile.mkdtemp(prefix="holdline-e2e-")
    case.addCleanup(shutil.rmtree, folder, ignore_errors=True)
    return folder


def with_folder(**media):
    return {"listen.im-ws": IM, "media": {"folder": "media", **media}}


class Files(Case):
    """A person with a device, and HTTP by hand."""

    def person(self, name="ann", server=None):
        device = Device((server or self.server).ports["any"])
        self.addCleanup(device.close)
        return device, device.login(name)

    def asks(self, device, name="cat.png", type="image/png", bytes=5):
        return device.asks("upload", "upload", name=name, type=type, bytes=bytes)

    def http(self, method, url, body=None, context=None, **headers):
        to = urllib.parse.urlsplit(url)
        if to.scheme == "https":
            link = http.client.HTTPSConnection(to.netloc, timeout=DEADLINE_S, context=context)
        else:
            link = http.client.HTTPConnection(to.netloc, timeout=DEADLINE_S)
        self.addCleanup(link.close)
        path = to.path + (f"?{to.query}" if to.query else "")
        link.request(method, path, body, {it.replace("_", "-"): headers[it] for it in headers})
        answer = link.getresponse()
        return answer.status, answer.headers, answer.read()

    def put(self, slot, body, **how):
        headers = {header.name: header.value for header in slot.headers}
        return self.http("PUT", slot.put_url, body, **headers, **how)[0]


class Folder(Files):
    SHARED = False

    def setUp(self):
        super().setUp()
        self.media = os.path.join(temporary(self), "media")

    def serve(self, **media):
        server = self.start({"listen.im-ws": IM, "media": {"folder": self.media, **media}})
        return server

    def test_a_file_is_uploaded_sent_and_got_and_outlives_the_server(self):
        server = self.serve()
        ann, welcome = self.person(server=server)
        self.assertEqual(welcome.file_bytes_max, 32 << 20)
        body = os.urandom(3_000_000)
        slot = self.asks(ann, bytes=len(body))
        self.assertEqual(self.http("GET", slot.get_url)[0], 404)
        self.assertEqual(self.put(slot, body), 201)
        self.assertEqual(self.put(slot, body), 409)
        status, headers, got = self.http("GET", slot.get_url)
        self.assertEqual((status, got == body), (200, True))
        self.assertEqual(headers["Content-Type"], "image/png")
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
        self.assertIn("sandbox", headers["Content-Security-Policy"])
        self.assertTrue(headers["Content-Disposition"].startswith("inline"))
        status, headers, got = self.http("GET", slot.get_url, Range="bytes=10-19")
        self.assertEqual((status, got), (206, body[10:20]))
        server.stop()
        server.start()
        self.assertEqual(self.http("GET", slot.get_url.replace(
            urllib.parse.urlsplit(slot.get_url).netloc,
            "%s:%d" % server.ports["im-ws"]))[2], body)
        self.assertEqual(os.stat(self.media).st_mode & 0o777, 0o700)

    def test_what_is_refused_is_told_and_counted(self):
        server = self.serve(types=["image/*"], file_bytes_max=1000, files_a_day_max=2)
        ann, _ = self.person(server=server)
        for wish, word in (({"name": "../x"}, "invalid"), ({"bytes": 1001}, "too_large"),
                           ({"type": "text/html"}, "type_refused")):
            self.assertEqual(self.asks(ann, **wish).word, word)
        slots = [self.asks(ann) for _ in range(2)]
        self.assertEqual(self.asks(ann).word, "upload_quota")
        server.kill()
        server.start()
        ann, _ = self.person(server=server)
        self.assertEqual(self.asks(ann).word, "upload_quota", "a crash gives no day anew")
        self.assertEqual(server.count("media_uploads_quota_total"), 1)
        self.assertTrue(all(slot.put_url for slot in slots))

    def test_without_a_storage_there_is_nothing(self):
        server = self.start({"listen.im-ws": IM})
        ann, welcome = self.person(server=server)
        self.assertEqual(welcome.file_bytes_max, 0)
        self.assertEqual(self.asks(ann).word, "media_off")
        base = "http://%s:%d" % server.ports["im-ws"]
        self.assertEqual(self.http("GET", f"{base}/media/x/y")[0], 404)

    def test_bad_requests_are_answered_and_leave_nothing(self):
        server = self.serve(silence_ms_max=1_500)
        ann, _ = self.person(server=server)
        slot = self.asks(ann)
        base = "http://%s:%d" % server.ports["im-ws"]
        for path in ("/media/", "/media/x", "/media/../im", "/media/..%2f..%2fetc/passwd"):
            self.assertEqual(self.http("GET", base + path)[0], 403, path)
            self.assertEqual(self.http("PUT", base + path, b"x")[0], 403, path)
        self.assertEqual(self.put(slot, b"toolong"), 413)
        self.assertEqual(self.put(slot, b"x"), 400)
        self.assertEqual(self.http("PUT", slot.put_url, b"hello", Content_Type="text/html")[0], 415)
        self.assertEqual(self.http("DELETE", slot.put_url)[0], 405)
        self.assertEqual(self.http("PUT", slot.get_url, b"hello")[0], 403)
        path = urllib.parse.urlsplit(slot.put_url).path
        with socket.create_connection(server.ports["im-ws"], timeout=DEADLINE_S) as slow:
            slow.sendall(f"PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe".encode())
            while slow.recv(4096):  # it is let go for its silence
                pass
        left = [name for _, _, names in os.walk(self.media) for name in names]
        self.assertEqual(left, [])
        self.assertEqual(self.put(slot, b"hello"), 201, "and may begin again")

    def test_a_kill_in_the_middle_leaves_nothing_and_the_same_leave_holds(self):
        server = self.serve()
        ann, _ = self.person(server=server)
        slot = self.asks(ann)
        path = urllib.parse.urlsplit(slot.put_url).path
        link = socket.create_connection(server.ports["im-ws"], timeout=DEADLINE_S)
        self.addCleanup(link.close)
        link.sendall(f"PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe".encode())
        names = lambda: [it for _, _, found in os.walk(self.media) for it in found]  # noqa: E731
        poll(lambda: names(), "it is being written")
        server.kill()
        server.start()
        self.assertEqual(names(), [])
        base = "http://%s:%d" % server.ports["im-ws"]
        self.assertEqual(self.http("PUT", base + path, b"hello")[0], 201)

    def test_files_go_through_tls_with_the_listeners_certificate(self):
        authority = Authority(temporary(self))
        certificate, key = authority.issue("localhost", "IP:127.0.0.1")
        server = self.start({
            "listen.im-ws": {**IM, "tls": True}, "media": {"folder": self.media},
            "tls": {"certificate": certificate, "key": key}})
        context = ssl.create_default_context(cafile=authority.certificate)
        ann, _ = self.person(server=server)
        body = os.urandom(2_000_000)
        slot = self.asks(ann, bytes=len(body))
        self.assertTrue(slot.put_url.startswith("https://"), slot.put_url)
        self.assertEqual(self.put(slot, body, context=context), 201)
        status, _, got = self.http("GET", slot.get_url, context=context)
        self.assertEqual((status, got == body), (200, True))

    def test_a_connection_that_was_handed_over_is_counted_once_and_let_go(self):
        server = self.serve()
        ann, _ = self.person(server=server)
        slot = self.asks(ann)
        with server.closes(handed_over=2):
            self.assertEqual(self.put(slot, b"hello"), 201)
            self.assertEqual(self.http("GET", slot.get_url)[2], b"hello")

    def test_the_command_line_sends_a_file(self):
        server = self.serve()
        host, port = server.ports["any"]
        flags = ["--host", host, "--port", str(port)]
        for name in ("ann", "bob"):
            self.assertEqual(run("im", "login", *flags, "--user", name).returncode, 0)
        file = os.path.join(temporary(self), "my cat.png")
        with open(file, "wb") as into:
            into.write(b"not a picture")
        sent = run("im", "send", *flags, "--user", "ann", "bob", "My cat", "--file", file)
        self.assertEqual(sent.returncode, 0, sent.stderr)
        told = run("im", "listen", *flags, "--user", "bob", "--count", "1")
        message = json.loads(told.stdout)
        self.assertEqual((message["kind"], message["text"]), (20, "My cat"))
        self.assertEqual((message["file"]["name"], message["file"]["type"],
                          message["file"]["bytes"]), ("my cat.png", "image/png", 13))
        self.assertEqual(self.http("GET", message["file"]["url"])[2], b"not a picture")
        shown = run("im", "history", *flags, "--user", "bob", "ann").stdout
        self.assertIn(f"ann: [image/png] My cat {message['file']['url']}", shown)
        big = run("im", "send", *flags, "--user", "ann", "bob", "--file", file, "--type", "a/b")
        self.assertIn("type_refused", big.stderr)


class Bucket(Files):
    """A bucket of s3rver, which takes and gives by signed addresses. It does not compute
    signatures of version 4 again: that they are right is held against botocore."""
    SHARED = False

    def setUp(self):
        super().setUp()
        built = os.path.join(BUILT, "s3")
        if not os.path.isdir(os.path.join(built, "node_modules", "s3rver")):
            raise unittest.SkipTest("s3rver is not installed")
        self.bucket = subprocess.Popen(
            ["node", os.path.join(HERE, "bucket.mjs"), built, temporary(self), "files"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.bucket.wait)
        self.addCleanup(self.bucket.kill)
        self.addCleanup(self.bucket.stdin.close)
        self.addCleanup(self.bucket.stdout.close)
        self.endpoint = f"http://127.0.0.1:{int(self.bucket.stdout.readline())}"

    def serve(self, **media):
        return self.start({"listen.im-ws": IM, "media": {
            "s3_endpoint": self.endpoint, "s3_bucket": "files", "s3_access_key": "S3RVER",
            **media}})

    def test_a_bucket_takes_what_was_signed_and_gives_it(self):
        server = self.serve(s3_secret_key="S3RVER")
        ann, _ = self.person(server=server)
        body = os.urandom(300_000)
        slot = self.asks(ann, name="my cat (2).png", bytes=len(body))
        self.assertTrue(slot.put_url.startswith(f"{self.endpoint}/files/"), slot.put_url)
        self.assertEqual(self.put(slot, body), 200)
        status, headers, got = self.http("GET", slot.get_url)
        self.assertEqual((status, got == body), (200, True))
        self.assertEqual((headers["Content-Type"], headers["Content-Disposition"]),
                         ("image/png", "inline"))
        slot = self.asks(ann, name="page.txt", type="text/plain")
        self.assertEqual(self.put(slot, b"hello"), 200)
        self.assertEqual(self.http("GET", slot.get_url)[1]["Content-Disposition"], "attachment")
        nameless = self.asks(ann, name="x", type="")
        self.assertEqual(self.http("PUT", nameless.put_url, b"hello")[0], 200)

    def test_botocore_signs_the_same_and_nothing_else_has_that_signature(self):
        sys.path.insert(0, os.path.join(BUILT, "botocore"))
        try:
            from botocore.auth import S3SigV4QueryAuth
            from botocore.awsrequest import AWSRequest
            from botocore.credentials import Credentials
        except ImportError as error:
            raise unittest.SkipTest(f"botocore is not installed: {error}") from None

        def signature(method, url, headers, secret):
            """What the clients of AWS would sign this request with, at the time that it says."""
            bare, signed = url.split("&X-Amz-Signature=")
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)
            request = AWSRequest(method, bare, headers)
            request.context["timestamp"] = query["X-Amz-Date"][0]
            auth = S3SigV4QueryAuth(Credentials("AKID", secret), "s3", "eu-west-7")
            self.assertEqual(auth.credential_scope(request),
                             query["X-Amz-Credential"][0].split("/", 1)[1])
            said = auth.string_to_sign(request, auth.canonical_request(request))
            return signed, auth.signature(said, request)
        for path_style in (True, False):
            server = self.serve(s3_access_key="AKID", s3_secret_key="a-secret/+=",
                                s3_region="eu-west-7", s3_path_style=path_style)
            ann, _ = self.person(server=server)
            for name, type_ in (("cat.png", "image/png"), ("a b+c~(2)&=猫.txt", "text/plain")):
                slot = self.asks(ann, name=name, type=type_)
                length = {"Content-Length": "5", "Content-Type": type_}
                for method, url, headers in (("PUT", slot.put_url, length),
                                             ("GET", slot.get_url, {})):
                    made, expected = signature(method, url, headers, "a-secret/+=")
                    self.assertEqual(made, expected, url)
                    self.assertNotEqual(made, signature(method, url, headers, "other")[1])
                made, other = signature("PUT", slot.put_url, {**length, "Content-Length": "6"},
                                        "a-secret/+=")
                self.assertNotEqual(made, other, "another length")

    def test_its_secret_may_be_in_a_file_or_the_environment_and_is_never_shown(self):
        file = os.path.join(temporary(self), "secret")
        with open(file, "w", encoding="utf-8") as into:
            into.write("S3RVER\n")
        ann, _ = self.person(server=self.serve(s3_secret_key_file=file))
        self.assertEqual(self.put(self.asks(ann), b"hello"), 200)
        with open(file, "w", encoding="utf-8") as into:
            into.write("")
        config = os.path.join(temporary(self), "holdline.toml")
        with open(config, "w", encoding="utf-8") as into:
            into.write(fixture.configuration({"listen.im-ws": IM, "media": {
                "s3_endpoint": self.endpoint, "s3_bucket": "files", "s3_access_key": "S3RVER",
                "s3_secret_key_file": file}}))
        told = run("check", "--config", config)
        self.assertNotEqual(told.returncode, 0)
        self.assertIn("s3_secret_key_file", told.stdout + told.stderr)
        env = {"HOLDLINE_MEDIA_S3_SECRET_KEY": "a-secret-of-the-bucket",
               "HOLDLINE_MEDIA_S3_SECRET_KEY_FILE": ""}
        told = run("check", "--config", config, env=env)
        self.assertEqual(told.returncode, 0, told.stdout + told.stderr)
        self.assertNotIn("a-secret-of-the-bucket", told.stdout + told.stderr)

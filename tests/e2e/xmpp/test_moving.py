"""Accounts of other servers, taken over with their passwords: Prosody's folder, as Debian's
prosodyctl writes it, and what ejabberd exported (xmpp/ejabberd, whose README tells how).
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import unittest

from certificates import Authority
from fixture import DEADLINE_S, Server, run
from xmpp.people import HEADER, SASL, People, Person, Scram, together

EXPORTS = os.path.join(os.path.dirname(__file__), "ejabberd")
TLS = "urn:ietf:params:xml:ns:xmpp-tls"
PASSWORD = 'correct "horse", b\u00e4ttery'
CONFIGURATION = """
data_path = "{folder}/data"
certificates = "{folder}"
pidfile = "{folder}/prosody.pid"
log = {{ error = "{folder}/prosody.log" }}
run_as_root = true
VirtualHost "old.example"
    authentication = "internal_hashed"
    password_hash = "SHA-1"
VirtualHost "new.example"
    authentication = "internal_hashed"
    password_hash = "SHA-256"
VirtualHost "plain.example"
    authentication = "internal_plain"
"""
# By host, who is there: names of three kinds.
HOSTS = {"old.example": "ann.b", "new.example": "carl_d", "plain.example": "eve+f"}


def export(host):
    """What ejabberd exported of a host."""
    return os.path.join(EXPORTS, f"{host.replace('.', '_')}.xml")


def prosody(folder):
    """A data folder of Prosody's with an account on each host."""
    if shutil.which("prosodyctl") is None:
        raise unittest.SkipTest("prosody is not installed")
    file = os.path.join(folder, "prosody.cfg.lua")
    with open(file, "w", encoding="utf-8") as configuration:
        configuration.write(CONFIGURATION.format(folder=folder))
    os.mkdir(os.path.join(folder, "data"))
    for host, name in HOSTS.items():
        subprocess.run(["prosodyctl", "--config", file, "register", name, host, PASSWORD],
                       check=True, capture_output=True, timeout=DEADLINE_S)


class Moving(People):
    SHARED = False

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="holdline-e2e-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        authority = Authority(cls.folder)
        cls.certificate, cls.key = authority.issue("localhost", "DNS:localhost")
        cls.authority = authority.certificate
        cls.server = cls.serve(["sha-1"])

    @classmethod
    def serve(cls, hashes):
        server = Server({
            "listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp"},
            "tls": {"certificate": cls.certificate, "key": cls.key},
            "access": {"scram_hashes": hashes},
        })
        cls.addClassCleanup(server.close)
        return server

    def imported(self, *words, server=None):
        server = server or self.server
        host, port = server.ports["api"]
        return run("user", "import", *words, "--url", f"http://{host}:{port}",
                   "--token", server.token)

    def folder_of(self, host):
        return os.path.join(self.folder, "data", host.replace(".", "%2e"))

    async def comes(self, name, mechanism, password=PASSWORD, server=None):
        """Whether somebody gets in over TLS, by this mechanism."""
        port = (server or self.server).ports["xmpp"][1]
        person = Person(port, f"{name}@localhost", password, authority=self.authority,
                        mechanism=mechanism)
        self.people.append(person)
        try:
            await person.start()
        except AssertionError:
            return False
        self.assertEqual(person.client.boundjid.user, name)
        await person.leave()
        return True

    def comes_bound(self, name, password=PASSWORD):
        """Whether somebody gets in by SCRAM-SHA-1-PLUS, by hand: slixmpp has no binding of TLS
        1.3."""
        link = self.stream("xmpp")
        link.say(HEADER)
        self.assertNotIn("SCRAM", link.until("</stream:features>"), "not before TLS")
        link.say(f"<starttls xmlns='{TLS}'/>")
        link.until("<proceed ")
        link.until(">")
        link.encrypt(self.authority)
        certificate = hashlib.sha256(link.socket.getpeercert(True)).digest()
        link.say(HEADER)
        features = link.until("</stream:features>")
        self.assertIn("<mechanism>SCRAM-SHA-1-PLUS</mechanism><mechanism>SCRAM-SHA-1<", features)
        self.assertNotIn("SCRAM-SHA-256", features)
        self.assertIn("<channel-binding type='tls-server-end-point'/>", features)
        scram = Scram(name, password, "p=tls-server-end-point", certificate, "sha1")
        link.say(f"<auth xmlns='{SASL}' mechanism='SCRAM-SHA-1-PLUS'>{scram.first}</auth>")
        last, expected = scram.last(link.until("</challenge>").split(">", 1)[1].split("<")[0])
        link.say(f"<response xmlns='{SASL}'>{last}</response>")
        if link.peek("failure"):
            return False
        self.assertIn(f">{expected}<", link.until("</success>"))
        return True


class FromProsody(Moving):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        prosody(cls.folder)

    @together
    async def test_users_come_in_with_the_passwords_that_they_had(self):
        for host, name in HOSTS.items():
            told = self.imported("--prosody", self.folder_of(host), "--strict")
            self.assertEqual((told.returncode, told.stderr), (0, ""), told)
            self.assertIn("1 created, 0 changed, 0 unchanged, 0 left out", told.stdout)
            told = self.imported("--prosody", self.folder_of(host))
            self.assertIn("0 created, 0 changed, 1 unchanged", told.stdout)
            self.assertTrue(await self.comes(name, "PLAIN"), host)
            self.assertFalse(await self.comes(name, "PLAIN", "correct horse"), host)
        for host, is_in in (("old.example", True), ("plain.example", True),
                            ("new.example", False)):
            self.assertEqual(await self.comes(HOSTS[host], "SCRAM-SHA-1"), is_in, host)
            self.assertEqual(self.comes_bound(HOSTS[host]), is_in, f"{host}, bound")
        self.assertFalse(await self.comes("ann.b", "SCRAM-SHA-1", "correct horse"))
        self.assertFalse(await self.comes("ann.b", "SCRAM-SHA-256"), "it is not offered")

    @together
    async def test_keys_of_sha_256_are_good_where_that_is_offered(self):
        server = self.serve(["sha-256"])
        for host in HOSTS:
            told = self.imported("--prosody", self.folder_of(host), server=server)
            self.assertEqual(told.returncode, 0, told)
        for host, is_in in (("old.example", False), ("plain.example", True),
                            ("new.example", True)):
            comes = await self.comes(HOSTS[host], "SCRAM-SHA-256", server=server)
            self.assertEqual(comes, is_in, host)
            self.assertTrue(await self.comes(HOSTS[host], "PLAIN", server=server), host)

    def test_what_cannot_come_is_told_with_its_file_and_strict_does_not_begin(self):
        folder = os.path.join(self.folder, "bent")
        shutil.copytree(self.folder_of("plain.example"), folder)
        accounts = os.path.join(folder, "accounts")
        with open(os.path.join(accounts, "gus.dat"), "w", encoding="utf-8") as file:
            file.write('return os.execute("true")')
        os.rename(os.path.join(accounts, "eve%2bf.dat"), os.path.join(accounts, "ida.dat"))
        shutil.copy(os.path.join(accounts, "ida.dat"), os.path.join(accounts, "%c3%a4.dat"))
        reasons = ("gus.dat: line 1: ", "%c3%a4.dat: the name has the byte 0xc3")
        told = self.imported("--prosody", folder, "--strict")
        self.assertEqual((told.returncode, told.stdout), (1, ""), told)
        for reason in (*reasons, "2 of these would be left out (--strict)"):
            self.assertIn(reason, told.stderr)
        self.assertEqual(self.server.api("GET", "/v1/users/ida")[0], 404, "nothing was imported")
        told = self.imported("--prosody", folder, "--dry-run")
        self.assertEqual((told.returncode, told.stdout), (0, "1 can be imported, 2 cannot\n"), told)
        self.assertEqual(self.server.api("GET", "/v1/users/ida")[0], 404, "nor now")
        told = self.imported("--prosody", folder)
        self.assertIn("1 created, 0 changed, 0 unchanged, 2 left out", told.stdout)
        for reason in reasons:
            self.assertIn(reason, told.stderr)
        self.assertEqual(self.server.api("GET", "/v1/users/ida")[0], 200)
        told = self.imported("--prosody", self.folder)
        self.assertEqual(told.returncode, 1, told)
        self.assertIn("has no folder `accounts`", told.stderr)


class FromEjabberd(Moving):
    @together
    async def test_users_come_in_with_the_passwords_that_they_had(self):
        for host in HOSTS:
            told = self.imported("--xep-0227", export(host), "--strict", "--host", host)
            self.assertEqual((told.returncode, told.stderr), (0, ""), told)
            self.assertIn("1 created, 0 changed, 0 unchanged, 0 left out", told.stdout)
            self.assertTrue(await self.comes(HOSTS[host], "PLAIN"), host)
            self.assertFalse(await self.comes(HOSTS[host], "PLAIN", "correct horse"), host)
        for host, is_in in (("old.example", True), ("plain.example", True),
                            ("new.example", False)):
            self.assertEqual(await self.comes(HOSTS[host], "SCRAM-SHA-1"), is_in, host)

    @together
    async def test_keys_of_sha_256_are_good_where_that_is_offered(self):
        server = self.serve(["sha-256"])
        told = self.imported("--xep-0227", export("new.example"), server=server)
        self.assertEqual(told.returncode, 0, told)
        self.assertTrue(await self.comes("carl_d", "SCRAM-SHA-256", server=server))

    def test_what_cannot_come_is_told(self):
        told = self.imported("--xep-0227", export("longer.example"))
        self.assertIn("0 created, 0 changed, 0 unchanged, 1 left out", told.stdout)
        self.assertIn("longer_example.xml: gus-h: its keys are SCRAM-SHA-512", told.stderr)
        both = [export("old.example"), export("new.example")]
        told = self.imported("--xep-0227", *both)
        self.assertEqual(told.returncode, 1, told)
        self.assertIn("choose one with --host", told.stderr)
        told = self.imported("--xep-0227", *both, "--host", "other.example")
        self.assertIn("`other.example` not found; the file has old.example, new.example",
                      told.stderr)
        told = self.imported("--xep-0227", os.path.join(EXPORTS, "server.xml"))
        self.assertEqual(told.returncode, 1, told)
        self.assertIn("import that one", told.stderr)


if __name__ == "__main__":
    unittest.main()

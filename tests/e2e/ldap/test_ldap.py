"""Logins that OpenLDAP checks: by MQTT, IM and XMPP, its groups, its TLS, its death and return."""

import shutil
import subprocess
import tempfile
import unittest

import fixture
from certificates import Authority
from im.wire import Device, schema
from ldap.slapd import BASE, PEOPLE, READER, READS, Slapd
from mqtt.wire import CONNACK, V5, Wire, connect
from xmpp.people import Person, slixmpp, together

RULE = {"allow": True, "action": "all", "filter": "of/%u/#"}
BAD_CREDENTIALS, NOT_AUTHORIZED, UNAVAILABLE = 0x86, 0x87, 0x88


class Case(fixture.Case):
    SHARED, REQUIRES = False, ""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        schema()
        cls.slapd = Slapd(cls.REQUIRES)
        cls.addClassCleanup(cls.slapd.close)
        folder = tempfile.mkdtemp(prefix="holdline-e2e-")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        authority = Authority(folder)
        cls.certificate, cls.key = authority.issue("localhost", "DNS:localhost")
        cls.authority = authority.certificate

    def setUp(self):
        super().setUp()
        if self.slapd.process.poll() is not None:
            self.slapd.start()

    def settings(self, **ldap):
        """Of a server that asks slapd; `ldap` changes the section."""
        methods = {"methods": ["passwords", "ldap"], "anonymous": "no"}
        return {
            "tls": {"certificate": self.certificate, "key": self.key},
            "listen.any": {"address": "127.0.0.1:0", **methods},
            "listen.xmpp": {"address": "127.0.0.1:0", "protocol": "xmpp", **methods},
            "access.ldap": {"urls": [self.slapd.url], "bind_dn": READER, "password": READS,
                            "base": BASE, "timeout_ms": 3000, **ldap}}

    def node(self, **ldap):
        return self.start(self.settings(**ldap))

    def code(self, server, name, password):
        """The code of the CONNACK, and the connection."""
        wire = Wire(server.ports["any"], V5)
        self.addCleanup(wire.close)
        wire.send(connect(V5, name.replace(":", "_"), user=name, password=password))
        return wire.expect(CONNACK).code

    def subscribed(self, server, name, password, *topics):
        """The codes of subscriptions."""
        client = Wire(server.ports["any"], V5)
        self.addCleanup(client.close)
        client.send(connect(V5, f"c-{name}", user=name, password=password))
        self.assertEqual(client.expect(CONNACK).code, 0, name)
        return client.subscribe(*topics, ok=False)

    def im(self, server, name, password):
        link = Device(server.ports["any"])
        self.addCleanup(link.close)
        link.ask(login={"name": name, "device": "phone", "password": password.encode()})
        kind, answer = link.frame()
        return kind, getattr(answer, "reason", None)

    def reads(self, server, name):
        return server.reading(f"access_ldap_{name}")


class Logins(Case):
    def test_names_and_passwords_are_the_directorys_by_every_protocol(self):
        slixmpp()
        server = self.node()
        for name, password in PEOPLE.items():
            self.assertEqual(self.code(server, name, password), 0, name)
            self.assertEqual(self.code(server, name, "wrong"), BAD_CREDENTIALS, name)
            self.assertEqual(self.code(server, name, ""), BAD_CREDENTIALS, name)
        self.assertEqual(self.code(server, "nobody", "secret"), BAD_CREDENTIALS)
        self.assertEqual(self.im(server, "ann", "secret")[0], "logged_in")
        self.assertEqual(self.im(server, "ann", "wrong")[0], "refused")

        @together
        async def by_xmpp(test):
            def person(name, password):
                person = Person(server.ports["xmpp"][1], f"{name}@localhost", password,
                                authority=test.authority, mechanism="PLAIN")
                test.people.append(person)
                return person
            ann = await person("ann", "secret").start()
            ann.say("eve@localhost", "too early")
            await ann.next("message_error")  # whoever never logged in has no account
            await (await person("eve", PEOPLE["eve"]).start()).leave()
            ann.say("eve@localhost", "hello")
            await ann.ping()
            eve = await person("eve", PEOPLE["eve"]).start()
            test.assertEqual((await eve.next())["body"], "hello")
            wrong = person("ann", "wrong")
            wrong.client.connect("127.0.0.1", wrong.port)
            test.assertEqual((await wrong.next("failed_auth"))["condition"], "not-authorized")
        self.people = []
        by_xmpp(self)
        self.assertEqual((self.reads(server, "up"), self.reads(server, "unreachable_total")),
                         (1, 0))

    def test_no_name_changes_the_filter(self):
        server = self.node()
        for name in ("*", "*)(uid=*", "ann)(objectClass=*", "a*", "ann\\", "\\61nn", "(", ""):
            self.assertEqual(self.code(server, name, "secret"), BAD_CREDENTIALS, name)
        self.assertEqual(self.reads(server, "up"), 1)

    def test_a_name_is_the_entrys_and_takes_no_account_that_is_here(self):
        server = self.node(filter="(|(uid=%u)(mail=%u))")
        server.ask("PUT", "/v1/users/*", {"rules": [RULE]})
        for name in ("ANN", "ann@corp.example", "Ann"):
            codes = self.subscribed(server, name, "secret", "of/ann/x", f"of/{name}/x")
            self.assertEqual(codes, [0, 0x87], name)
        server.ask("PUT", "/v1/users/eve", {"password": "local", "superuser": True})
        self.assertEqual(self.code(server, "eve", "local"), 0)
        for name in ("eve", "EVE", "eve@corp.example"):
            self.assertEqual(self.code(server, name, PEOPLE["eve"]), BAD_CREDENTIALS, name)

    def test_tools_of_others_log_in(self):
        server = self.node()
        if not shutil.which("mosquitto_pub"):
            raise unittest.SkipTest("mosquitto_pub is not installed: IT WAS NOT TRIED")

        def publish(password):
            host, port = server.ports["any"]
            words = ["mosquitto_pub", "-h", host, "-p", str(port), "-u", "jürgen", "-P", password,
                     "-t", "a", "-m", "x", "-q", "1"]
            return subprocess.run(words, capture_output=True, timeout=20, check=False).returncode
        self.assertEqual(publish(PEOPLE["jürgen"]), 0)
        self.assertNotEqual(publish("wrong"), 0)

    def test_a_group_says_who_may_log_in(self):
        by_filter = self.node(filter=f"(&(uid=%u)(memberOf=cn=mqtt,ou=groups,{BASE}))")
        by_group = self.node(group_filter="(&(cn=mqtt)(member=%d))", group_base=f"ou=groups,{BASE}")
        for server, other in ((by_filter, BAD_CREDENTIALS), (by_group, NOT_AUTHORIZED)):
            self.assertEqual(self.code(server, "ann", "secret"), 0)
            self.assertEqual(self.code(server, "jürgen", PEOPLE["jürgen"]), 0)
            self.assertEqual(self.code(server, "eve", PEOPLE["eve"]), other)
            self.assertEqual(self.code(server, "eve", "wrong"), BAD_CREDENTIALS)

    def test_a_group_says_who_may_do_everything(self):
        server = self.node(superuser_filter="(&(cn=admins)(member=%d))")
        server.ask("PUT", "/v1/users/*", {"rules": [RULE]})
        for name, codes in (("ann", [0]), ("jürgen", [0x87])):
            self.assertEqual(self.subscribed(server, name, PEOPLE[name], "x/y"), codes, name)

    def test_users_bind_by_a_pattern(self):
        by_dn = {"bind_dn": "", "password": "", "user_dn": f"uid=%u,ou=people,{BASE}"}
        for server in (self.node(**by_dn, base=""), self.node(**by_dn)):
            self.assertEqual(self.code(server, "ann", "secret"), 0)
            self.assertEqual(self.code(server, "jürgen", PEOPLE["jürgen"]), 0)
            self.assertEqual(self.code(server, "ann", "wrong"), BAD_CREDENTIALS)
            self.assertEqual(self.code(server, f"reader,{BASE}", READS), BAD_CREDENTIALS)
            self.assertEqual(self.code(server, "nobody", "x"), BAD_CREDENTIALS)


class Faults(Case):
    def is_asked_again(self, server, user, password):
        """After two calls without an answer the server is asked once a second."""
        fixture.poll(lambda: self.code(server, user, password) == 0, f"{user} logs in")

    def test_two_entries_are_nobody_and_others_go_on(self):
        server = self.node()
        for _ in range(2):
            self.assertEqual(self.code(server, "twin", "one"), UNAVAILABLE)
        server.logged("an LDAP entry cannot be used")
        self.assertEqual(server.log.count("an LDAP entry cannot be used"), 1)
        self.assertEqual(self.reads(server, "ambiguous_total"), 2)
        self.assertEqual(self.code(server, "ann", "secret"), 0)
        self.assertEqual(self.reads(server, "up"), 1)

    def test_its_death_is_told_and_it_comes_back(self):
        server = self.node(cache_s=60)
        self.assertEqual(self.code(server, "ann", "secret"), 0)
        self.slapd.kill()
        self.assertEqual(self.code(server, "eve", PEOPLE["eve"]), UNAVAILABLE)
        self.assertEqual(self.code(server, "ann", "secret"), 0, "her password is cached")
        self.assertEqual(self.im(server, "eve", PEOPLE["eve"])[0], "refused")
        server.logged("the LDAP server is unavailable")
        self.assertEqual(self.reads(server, "up"), 0)
        self.assertIn("holdline_access_ldap_up 0", server.metrics())
        self.slapd.start()
        self.is_asked_again(server, "eve", PEOPLE["eve"])
        self.assertEqual(self.reads(server, "up"), 1)

    def test_a_start_without_it_is_told_and_logins_wait_for_it(self):
        self.slapd.kill()
        server = self.node()
        server.logged("the LDAP server is unavailable")
        self.assertEqual(self.code(server, "ann", "secret"), UNAVAILABLE)
        self.slapd.start()
        self.is_asked_again(server, "ann", "secret")

    def test_one_that_stands_still_costs_the_time_of_a_login(self):
        server = self.node(timeout_ms=500)
        server.ask("PUT", "/v1/users/tom", {"password": "local"})
        self.assertEqual(self.code(server, "ann", "secret"), 0)
        self.slapd.pause()
        self.addCleanup(self.slapd.go_on)
        self.assertEqual(self.code(server, "ann", "secret"), UNAVAILABLE)
        self.assertEqual(self.code(server, "tom", "local"), 0, "whose password is here")
        self.assertGreaterEqual(self.reads(server, "timeout_total"), 1)
        self.slapd.go_on()
        self.assertEqual(self.code(server, "ann", "secret"), 0)

    def test_a_wrong_password_of_the_server_itself_is_told_and_mended_by_a_reload(self):
        server = self.node(password="stale")
        server.logged("bind_dn or its password was refused")
        self.assertEqual(self.code(server, "ann", "secret"), UNAVAILABLE)
        self.assertGreaterEqual(self.reads(server, "credentials_total"), 1)
        server.configure(self.settings())
        told = server.ask("POST", "/v1/configuration/reload")
        self.assertNotIn("access.ldap", str(told.get("restart", "")))
        self.assertEqual(self.code(server, "ann", "secret"), 0)
        server.logged("the LDAP server is available again")


class Encrypted(Case):
    REQUIRES = "security simple_bind=128"

    def test_connections_are_encrypted_and_the_certificate_is_verified(self):
        ca = self.slapd.authority
        for ldap in ({"start_tls": True}, {"urls": [self.slapd.tls_url]}):
            server = self.node(ca=ca, **ldap)
            self.assertEqual(self.code(server, "ann", "secret"), 0, ldap)
            self.assertEqual(self.code(server, "ann", "wrong"), BAD_CREDENTIALS, ldap)
            strict = self.node(ca=self.authority, **ldap)
            self.assertEqual(self.code(strict, "ann", "secret"), UNAVAILABLE, ldap)
            strict.logged("invalid peer certificate")
            self.assertGreaterEqual(self.reads(strict, "tls_total"), 1)
        other = self.slapd.tls_url.replace("127.0.0.1", "localhost")
        strict = self.node(ca=ca, urls=[other])
        self.assertEqual(self.code(strict, "ann", "secret"), UNAVAILABLE, "another name")
        self.assertGreaterEqual(self.reads(strict, "tls_total"), 1)

    def test_a_server_that_requires_tls_is_told_of_without(self):
        server = self.node()
        server.logged("ConfidentialityRequired")
        self.assertEqual(self.code(server, "ann", "secret"), UNAVAILABLE)
        self.assertGreaterEqual(self.reads(server, "refused_total"), 1)


class Check(fixture.Case):
    SHARED = False

    def test_check_names_what_is_wrong(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('[access.ldap]\nurls = ["ldaps://dc1"]\nbase = "dc=x"\nca = "/nowhere"\n')
            file.flush()
            done = fixture.run("check", "--config", file.name)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("/nowhere", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()

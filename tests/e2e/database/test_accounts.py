"""Accounts in a real MariaDB: logins by every protocol, two servers, its death and its return."""

import json
import os
import unittest

import fixture
from certificates import Authority
from database.house import Case
from database.mariadb import PASSWORD, USER
from fixture import poll
from xmpp.people import Person, slixmpp, together

BAD_CREDENTIALS, UNAVAILABLE = 0x86, 0x88


class Accounts(Case):
    def test_an_account_of_the_database_logs_in_by_every_protocol(self):
        server = self.node()
        slixmpp()
        made = self.account(server, "ann", "secret")
        row, = self.database.ask("SELECT uid, domain, name, epoch, is_super, is_disabled, "
                                 "LEFT(password, 3), scram_sha_256 <> '', scram_sha_1 <> '' "
                                 "FROM accounts")
        self.assertEqual(row, (str(made["uid"]), "localhost", "ann", "1", "0", "0", "$7$", "1",
                               "1"))
        self.assertEqual(self.mqtt(server, "ann", "secret")[0], 0)
        self.assertEqual(self.mqtt(server, "ann", "wrong")[0], BAD_CREDENTIALS)
        self.assertEqual(self.im(server, "ann", "secret")[0][0], "logged_in")

        @together
        async def by_xmpp(test):
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-1"):
                person = Person(server.ports["xmpp"][1], "ann@localhost", "secret",
                                mechanism=mechanism)
                test.people.append(person)
                await person.start()
        self.people = []
        by_xmpp(self)

    def test_a_password_that_changes_ends_sessions_of_every_server(self):
        one, other = self.node(), self.node()
        self.account(one, "ann", "secret")
        poll(lambda: self.mqtt(other, "ann", "secret")[0] == 0, "the other has her")
        wire, link = self.mqtt(other, "ann", "secret")[1], self.im(other, "ann", "secret")[1]
        near = self.mqtt(one, "ann", "secret")[1]
        self.assertEqual(self.account(one, "ann", "changed")["epoch"], "2")
        for session in (near, wire):
            session.until_closed()
        kind, end = link.frame()
        self.assertEqual(kind, "end", end)
        self.assertEqual(self.mqtt(other, "ann", "secret")[0], BAD_CREDENTIALS)
        self.assertEqual(self.mqtt(other, "ann", "changed")[0], 0)
        # Numbers are the table's: no two servers give one.
        uids = [int(self.account(server, name, "x")["uid"])
                for server, name in ((one, "bob"), (other, "cem"), (one, "dan"))]
        self.assertEqual(len(set(uids)), 3)
        one.ask("DELETE", "/v1/users/dan")
        poll(lambda: other.api("GET", "/v1/users/dan")[0] == 404, "he is gone there")
        self.assertGreater(int(self.account(other, "dan", "x")["uid"]), max(uids))

    def test_another_program_writes_accounts_and_says_so(self):
        server = self.node()
        self.database.ask(
            "INSERT INTO accounts (name, password) VALUES ('eve', '$plain$first');"
            "INSERT INTO changes (name) VALUES ('eve')")
        poll(lambda: self.mqtt(server, "eve", "first")[0] == 0, "she is let in")
        wire = self.mqtt(server, "eve", "first")[1]
        # It forgets the epoch: the server raises it, and her sessions end.
        self.database.ask("UPDATE accounts SET password = '$plain$second' WHERE name = 'eve';"
                          "INSERT INTO changes (name) VALUES ('eve')")
        wire.until_closed()
        self.assertEqual(self.database.one("SELECT epoch FROM accounts"), "2")
        self.assertEqual(self.mqtt(server, "eve", "second")[0], 0)
        self.database.ask("UPDATE accounts SET password = 'nonsense' WHERE name = 'eve';"
                          "INSERT INTO changes (name) VALUES ('eve')")
        server.logged("is invalid and ignored")
        poll(lambda: self.mqtt(server, "eve", "second")[0] == BAD_CREDENTIALS, "nobody is she")
        self.assertEqual(server.reading("accounts_database_rows_wrong_total"), 1)

    def test_a_change_that_is_committed_late_is_seen(self):
        """A number that was drawn earlier comes into sight later."""
        server = self.node()
        self.database.ask("INSERT INTO changes (seq, name) VALUES (50, 'nobody')")
        seen = server.reading("accounts_database_changes_total")
        poll(lambda: server.reading("accounts_database_changes_total") > seen, "50 is seen")
        self.database.ask("INSERT INTO accounts (name, password) VALUES ('eve', '$plain$x');"
                          "INSERT INTO changes (seq, name) VALUES (49, 'eve')")
        poll(lambda: self.mqtt(server, "eve", "x")[0] == 0, "she is let in")

    def test_its_death_changes_nothing_for_who_logs_in_and_it_comes_back_alone(self):
        server = self.node()
        self.account(server, "ann", "secret")
        self.database.kill()
        status, answer = server.api("PUT", "/v1/users/ann", {"password": "changed"})
        self.assertEqual((status, answer["error"]["code"]), (503, "database_failed"), answer)
        self.assertIn("the database is unreachable", answer["error"]["message"])
        self.assertEqual(self.mqtt(server, "ann", "secret")[0], 0)
        self.assertEqual(self.mqtt(server, "zoe", "x")[0], BAD_CREDENTIALS, "all are known")
        self.assertEqual(server.reading("accounts_database_up"), 0)
        self.assertIn("holdline_accounts_database_up 0", server.metrics())
        self.assertEqual(server.ask("GET", "/v1/users/ann")["epoch"], "1")
        self.database.start()
        self.there(server)
        self.assertEqual(self.account(server, "ann", "changed")["epoch"], "2")
        self.assertEqual(self.database.one("SELECT epoch FROM accounts"), "2")
        self.assertEqual(self.mqtt(server, "ann", "changed")[0], 0)

    def test_one_that_stands_still_is_given_up_within_its_time(self):
        server = self.node()
        self.account(server, "ann", "secret")
        self.database.pause()
        self.addCleanup(self.database.go_on)
        status, answer = server.api("PUT", "/v1/users/ann", {"password": "changed"})
        self.assertEqual((status, answer["error"]["code"]), (503, "database_failed"), answer)
        self.assertEqual(self.mqtt(server, "ann", "secret")[0], 0)
        self.database.go_on()
        self.there(server)
        # Whether the first was carried out nobody knew; the epoch says it by now.
        epoch = int(self.database.one("SELECT epoch FROM accounts"))
        self.assertEqual(int(self.account(server, "ann", "third")["epoch"]), epoch + 1)

    def test_a_start_without_it_goes_on_with_the_copy_or_puts_logins_off(self):
        server = self.node()
        self.account(server, "ann", "secret")
        server.stop()
        self.database.kill()
        server.start()
        server.logged("accounts cannot be changed")
        self.assertEqual(self.mqtt(server, "ann", "secret")[0], 0)
        self.assertEqual(self.mqtt(server, "zoe", "x")[0], BAD_CREDENTIALS)
        bare = self.node(wait=False)
        self.assertEqual(self.mqtt(bare, "ann", "secret")[0], UNAVAILABLE)
        (kind, reason), _ = self.im(bare, "ann", "secret")
        self.assertEqual((kind, reason), ("refused", 5))

        @together
        async def by_xmpp(test):
            person = Person(bare.ports["xmpp"][1], "ann@localhost", "secret")
            test.people.append(person)
            person.client.connect("127.0.0.1", person.port)
            failed = await person.next("failed_auth")
            test.assertEqual(failed["condition"], "temporary-auth-failure")
        self.people = []
        slixmpp()
        by_xmpp(self)
        self.database.start()
        self.there(bare)
        self.assertEqual(self.mqtt(bare, "ann", "secret")[0], 0)

    def test_a_killed_server_has_what_it_answered_for(self):
        server = self.node()
        uid = self.account(server, "ann", "secret")["uid"]
        server.kill()
        server.start()
        self.assertEqual(self.mqtt(server, "ann", "secret")[0], 0)
        self.there(server)
        self.assertEqual(server.ask("GET", "/v1/users/ann")["uid"], uid)


class Tables(Case):
    def test_an_older_schema_is_brought_up_and_a_newer_one_is_not_touched(self):
        self.node().stop()
        steps = self.database.ask("SELECT step, name FROM holdline_steps WHERE part = 'accounts'")
        self.assertEqual(steps, [("1", "accounts"), ("2", "changes")])
        # As the first step left it, with an account.
        self.database.ask(
            "DROP TABLE changes; DELETE FROM holdline_steps WHERE step = 2;"
            "INSERT INTO accounts (name, password) VALUES ('eve', '$plain$x')")
        server = self.node()
        self.assertEqual(self.mqtt(server, "eve", "x")[0], 0)
        self.assertEqual(self.database.one("SELECT MAX(step) FROM holdline_steps"), "2")
        server.stop()
        self.database.ask("INSERT INTO holdline_steps (part, step, name) "
                          "VALUES ('accounts', 3, 'to come')")
        server.start()
        server.logged("are from a newer build (step 3, this one supports 2)")
        self.assertEqual(self.mqtt(server, "eve", "x")[0], 0, "by the copy")
        status, answer = server.api("PUT", "/v1/users/eve", {"password": "y"})
        self.assertEqual((status, answer["error"]["code"]), (503, "database_failed"), answer)

    def test_an_empty_database_is_filled_from_the_folder(self):
        alone = self.start(self.configuration(accounts=None))
        uid = self.account(alone, "ann", "secret")["uid"]
        alone.ask("PUT", "/v1/users/*", {"rules": [{"filter": "a/#", "action": "all",
                                                    "allow": True}]})
        alone.stop()
        server = self.node(data=alone.data)
        self.assertEqual(self.database.ask("SELECT uid, name FROM accounts WHERE name = 'ann'"),
                         [(str(uid), "ann")])
        self.assertEqual(self.database.one("SELECT COUNT(*) FROM accounts"), "2")
        self.assertEqual(self.mqtt(server, "ann", "secret")[0], 0)
        # Another folder with accounts is no copy of it.
        other = self.start(self.configuration(accounts=None))
        self.account(other, "bob", "secret")
        other.stop()
        wrong = self.start(self.configuration(), data=other.data)
        wrong.logged("is no copy of it")
        self.assertEqual(self.mqtt(wrong, "bob", "secret")[0], 0)
        self.assertEqual(wrong.api("PUT", "/v1/users/cem", {"password": "x"})[0], 503)
        self.assertEqual(self.database.one("SELECT COUNT(*) FROM accounts"), "2")

    def test_an_import_fills_it_and_a_second_server_reads_it_in_pages(self):
        server = self.node()
        lines = os.path.join(server.folder, "users")
        with open(lines, "w", encoding="utf-8") as file:
            file.writelines(f"u{number}:$plain$p{number}\n" for number in range(63))
            # Hashed elsewhere: nothing is derived.
            hashed = self.database_hash(server)
            file.writelines(f"h{number}:{hashed}\n" for number in range(5_000))
        host, port = server.ports["api"]
        done = fixture.run("user", "import", "--url", f"http://{host}:{port}", "--token",
                           server.token, lines, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.database.one("SELECT COUNT(*) FROM accounts"), "5064")
        other = self.node()
        self.assertEqual(other.reading("accounts_database_loaded"), 5064)
        for name, password in (("u62", "p62"), ("h4999", "secret")):
            self.assertEqual(self.mqtt(other, name, password)[0], 0)

    def database_hash(self, server):
        """What is kept of the password `secret`."""
        self.account(server, "somebody", "secret")
        return self.database.one("SELECT password FROM accounts WHERE name = 'somebody'")

    def test_a_password_comes_from_a_file_or_the_environment(self):
        path = os.path.join(self.database.folder, "password")
        with open(path, "w", encoding="utf-8") as file:
            file.write(PASSWORD + "\n")
        self.there(self.start(self.configuration(mysql={"password_file": path})))
        self.there(self.start(self.configuration(mysql={}),
                              env={"HOLDLINE_MYSQL_PASSWORD": PASSWORD}))
        wrong = self.start(self.configuration(mysql={"password": "guess"}))
        wrong.logged("Access denied")
        self.assertNotIn("guess", wrong.log)
        shown = json.dumps(wrong.ask("GET", "/v1/configuration"))
        self.assertFalse(PASSWORD in shown or "guess" in shown or "holdline@127" in shown)

    def test_connections_are_encrypted_and_the_certificate_is_checked(self):
        folder = self.database.folder
        authority, other = Authority(folder), Authority(folder, "other")
        certificate, key = authority.issue("localhost", "DNS:localhost")
        self.database.kill()
        self.database.more += [f"--ssl-cert={certificate}", f"--ssl-key={key}"]
        self.database.start()
        self.database.ask(f"ALTER USER '{USER}'@'127.0.0.1' REQUIRE SSL", "mysql")
        self.addCleanup(self.database.ask, f"ALTER USER '{USER}'@'127.0.0.1' REQUIRE NONE",
                        "mysql")
        store = {"store": self.database.url.replace("127.0.0.1", "localhost")}

        def server(**mysql):
            return self.start(self.configuration(
                accounts=store, mysql={"password": PASSWORD, **mysql}))
        self.there(server(tls=True, ca=authority.certificate))
        for wrong in (server(tls=True, ca=other.certificate), server()):
            wrong.logged("accounts cannot be changed")
            self.assertEqual(wrong.reading("accounts_database_up"), 0)


if __name__ == "__main__":
    unittest.main()

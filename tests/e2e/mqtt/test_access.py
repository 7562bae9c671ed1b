"""Who may do what: password files, rules, the book of users, certificates, tokens, SCRAM."""

import base64
import hashlib
import hmac
import http.server
import json
import secrets
import signal
import tempfile
import threading
import time

import certificates
import mqtt.wire as wire
from fixture import poll, run
from mqtt import drivers
from mqtt.broker import Broker, Case, holdline_only, passwords
from mqtt.test_sessions import ALL, at, lasting
from mqtt.wire import CONNACK, DISCONNECT, SUBACK, V31, V311, V5

USERS = {"ada": "engine", "bob": "pass:word", "eve": "apple"}
RULES = """# Rules of everybody without a name
topic read public/#

user ada
topic readwrite ada/#
topic deny ada/secret
topic read shared/+
topic write inbox/#

user bob
topic #

pattern readwrite dev/%c/#
pattern read users/%u/in
"""


class Doors(Case):
    PLAN = {"users": USERS}

    @at(*ALL)
    def test_users_of_a_mosquitto_file_come_in(self, version, name):
        for user, word in USERS.items():
            self.opened(f"{name}{user}", version, user=user, password=word).ping()

    @at(*ALL)
    def test_others_do_not(self, version, name):
        wrong = [("ada", "Engine"), ("ada", ""), ("Ada", "engine"), ("nobody", "x"), ("", ""),
                 (None, None)]
        if version == V5:
            wrong.append((None, "engine"))
        for user, word in wrong:
            with self.subTest(user=user, word=word, version=version):
                client = self.wire(version)
                client.send(wire.connect(version, name, user=user, password=word))
                code = client.expect(CONNACK).code
                self.assertIn(code, (0x86, 0x87) if version == V5 else (4, 5))
                self.assertEqual(client.until_closed(), [])

    @holdline_only("mosquitto hands it over")
    def test_a_session_is_not_handed_to_another_user(self):
        for version in (V311, V5):
            name = f"{self.name}{version}"
            client = self.opened(name, version, user="ada", password="engine", **lasting(version))
            client.subscribe((f"{name}/#", 1))
            client.leave()
            self.opened("w", version, user="bob", password="pass:word").publish(
                f"{name}/a", b"for ada", 1)
            other = self.wire(version)
            other.send(wire.connect(version, name, user="eve", password="apple",
                                    **lasting(version)))
            answer = other.expect(CONNACK)
            self.assertFalse(answer.code == 0 and answer.present, answer)

    @holdline_only("the file is read by our own names")
    def test_a_changed_file_holds_after_a_reload(self):
        path = self.broker.plan.users_file
        with open(path, encoding="utf-8") as file:
            before = file.read()
        try:
            passwords(path, {"ada": "difference"})
            self.broker.server.signal(signal.SIGHUP)

            def new_one_holds():
                client = self.wire(V311)
                client.send(wire.connect(V311, self.name, user="ada", password="difference"))
                return client.expect(CONNACK).code == 0
            poll(new_one_holds, "the new password holds")
            client = self.wire(V311)
            client.send(wire.connect(V311, self.name, user="ada", password="engine"))
            self.assertIn(client.expect(CONNACK).code, (4, 5))
        finally:
            with open(path, "w", encoding="utf-8") as file:
                file.write(before)
            self.broker.server.signal(signal.SIGHUP)

            def old_one_holds():
                client = self.wire(V311)
                client.send(wire.connect(V311, self.name, user="ada", password="engine"))
                return client.expect(CONNACK).code == 0
            poll(old_one_holds, "the old password holds again")

    def test_a_storm_of_users_with_slow_hashes_lets_everybody_in(self):
        clients = []
        for number in range(200):
            client = self.wire(V311)
            client.send(wire.connect(V311, f"{self.name}{number}", user="ada", password="engine"))
            clients.append(client)
        for client in clients:
            self.assertEqual(client.expect(CONNACK, 20).code, 0)


class Rules(Case):
    PLAN = {"users": USERS, "acl": RULES, "anonymous": True}

    def user(self, user, version=V5, id=None):
        how = {"user": user, "password": USERS[user]} if user else {}
        return self.opened(id or f"{self.name}-{user}", version, **how)

    def reads(self, client, filter, topic):
        """Whether a message on a topic reaches a client's filter."""
        code, = client.subscribe((filter, 1), ok=False)
        if code >= 0x80:
            return False
        self.user("bob", id=f"{self.name}-boss").publish(topic, b"x", 1)
        found = self.drained(client)
        return bool(found) and found[0].topic == topic

    def writes(self, client, topic):
        """Whether a message of a client reaches those who may read everything."""
        boss = self.user("bob", id=f"{self.name}-boss")
        boss.subscribe((topic, 1))
        client.publish(topic, b"mine", 1)
        return bool(self.drained(boss))

    def test_who_may_read_what(self):
        table = [("ada", "ada/#", "ada/x", True), ("ada", "ada/secret", "ada/secret", False),
                 ("ada", "ada/#", "ada/secret", False), ("ada", "shared/a", "shared/a", True),
                 ("ada", "#", "other/x", False), ("ada", "#", "ada/y", True),
                 ("ada", "inbox/#", "inbox/x", False), ("bob", "anything/#", "anything/1", True),
                 (None, "public/#", "public/x", True), (None, "ada/#", "ada/x", False),
                 ("eve", "public/#", "public/x", False), 
                 ("ada", "users/ada/in", "users/ada/in", True),
                 ("ada", "users/+/in", "users/bob/in", False)]
        for user, filter, topic, may in table:
            with self.subTest(user=user, filter=filter, topic=topic):
                client = self.user(user)
                self.assertEqual(self.reads(client, filter, topic), may)
                client.leave()

    def test_who_may_write_what(self):
        table = [("ada", "ada/x", True), ("ada", "ada/secret", False), ("ada", "inbox/1", True),
                 ("ada", "shared/a", False), ("bob", "other", True), (None, "public/x", False)]
        for user, topic, may in table:
            with self.subTest(user=user, topic=topic):
                client = self.user(user)
                self.assertEqual(self.writes(client, topic), may)
                client.leave()

    def test_patterns_hold_for_the_identifier(self):
        one, other = self.user("eve", id="unit-1"), self.user("eve", id="unit-2")
        self.assertTrue(self.writes(one, "dev/unit-1/a"))
        self.assertFalse(self.writes(one, "dev/unit-2/a"))
        self.assertTrue(self.reads(other, "dev/unit-2/#", "dev/unit-2/b"))
        self.assertFalse(self.reads(other, "dev/unit-1/#", "dev/unit-1/b"))

    @holdline_only("the codes are ours")
    def test_what_is_forbidden_is_said_to_a_client_of_5(self):
        ada = self.user("ada")
        self.assertEqual(ada.subscribe("inbox/#", "ada/#", ok=False), [0x87, 0])
        for qos in (1, 2):
            self.assertEqual(ada.publish("shared/a", b"x", qos).code, 0x87)
        ada.publish("shared/a", b"x", 0)
        ada.ping()
        old = self.user("ada", V311, "old")
        self.assertEqual(old.subscribe("inbox/#", ok=False), [0x80])
        older = self.user("ada", V31, "older")
        older.send(wire.subscribe(V31, ["inbox/#"], 3))
        self.assertEqual(older.expect(SUBACK).id, 3)  # it has no code for a failure

    @holdline_only("mosquitto keeps it")
    def test_a_will_that_is_not_allowed_is_not_published(self):
        boss = self.user("bob")
        boss.subscribe("shared/#", "ada/#")
        for topic in ("shared/will", "ada/will"):
            client = self.wire(V5)
            client.send(wire.connect(V5, f"{self.name}w", user="ada", password="engine",
                                     will=wire.Will(topic, b"gone")))
            if client.expect(CONNACK).code == 0:
                client.close()
        self.assertEqual(boss.take().topic, "ada/will")

    def test_forbidden_retained_messages_are_not_shown(self):
        boss = self.user("bob")
        for topic in ("ada/kept", "ada/secret", "eve/kept"):
            boss.publish(topic, b"x", 1, retain=True)
        ada = self.user("ada")
        ada.subscribe("#")
        self.assertEqual(ada.take().topic, "ada/kept")
        ada.ping()
        for topic in ("ada/kept", "ada/secret", "eve/kept"):
            boss.publish(topic, b"", 1, retain=True)


class Certificates(Case):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="holdline-mqtt-tls-")
        cls.addClassCleanup(folder.cleanup)
        cls.authority = certificates.Authority(folder.name)
        rules = "user device-7\ntopic readwrite seven/#\n"
        cls.broker = Broker(tls=cls.authority, acl=rules)
        cls.addClassCleanup(cls.broker.close)

    @classmethod
    def tearDownClass(cls):
        pass

    @holdline_only("mosquitto grants what it will not deliver")
    def test_a_certificate_says_who_a_client_is(self):
        driver = drivers.Driver("paho-python")
        self.addCleanup(driver.kill)
        for name, may in (("device-7", True), ("device-8", False)):
            cert, key = self.authority.issue(name)
            client = drivers.Client(driver, V5, self.broker.address("mutual"), id=name, cert=cert,
                                    key=key, ca=self.authority.certificate)
            client.connect(user="ignored")
            code = client.subscribe("seven/#", 1)["code"]
            self.assertEqual(code == "1", may)


class Book(Case):
    """Users and rules at run time, by the API."""

    PLAN = {"anonymous": False}

    def put(self, name, **fields):
        status, answer = self.broker.server.api("PUT", f"/v1/users/{name}", fields)
        self.assertIn(status, (200, 201, 204), answer)

    def drop(self, name):
        status, answer = self.broker.server.api("DELETE", f"/v1/users/{name}")
        self.assertIn(status, (200, 204), answer)

    def refused(self, user, word, version=V5):
        client = self.wire(version)
        client.send(wire.connect(version, self.name, user=user, password=word))
        self.assertIn(client.expect(CONNACK).code, (0x86, 0x87))

    @holdline_only("it is ours")
    def test_a_user_is_made_changed_and_removed(self):
        self.refused("zoe", "one")
        self.put("zoe", password="one")
        self.opened5(self.name, user="zoe", password="one").leave()
        self.put("zoe", password="two")
        self.refused("zoe", "one")
        client = self.opened5(self.name, user="zoe", password="two")
        self.broker.restart(kill=True)
        client = self.opened5(self.name, user="zoe", password="two")
        self.drop("zoe")
        found = client.until_closed()
        self.assertEqual([each.kind for each in found], [DISCONNECT], found)
        self.refused("zoe", "two")

    def account(self, name):
        status, answer = self.broker.server.api("GET", f"/v1/users/{name}")
        self.assertEqual(status, 200, answer)
        return answer

    def ended(self, client):
        self.assertEqual(client.until_closed()[-1].kind, DISCONNECT)

    @holdline_only("it is ours")
    def test_an_account_is_who_it_was_after_a_restart_and_never_who_another_was(self):
        self.put("uma", password="one", rules=[{"action": "all", "filter": "uma/#"}])
        self.put("uma", password="two")
        first = self.account("uma")
        self.assertEqual(first["epoch"], "2")
        self.broker.restart(kill=True)
        self.assertEqual(self.account("uma"), first)
        client = self.opened5(self.name, user="uma", password="two")
        self.assertEqual(client.subscribe("uma/#", "other", ok=False), [0, 0x87])
        self.drop("uma")
        self.ended(client)
        self.put("uma", password="two")
        again = self.account("uma")
        self.assertNotEqual(again["uid"], first["uid"])
        self.assertEqual(again["epoch"], "1")
        self.opened5(self.name, user="uma", password="two").ping()

    @holdline_only("it is ours")
    def test_a_changed_password_ends_the_sessions_that_were_begun_before(self):
        """With their wills, on every shard; what waits for a client that is away stays."""
        self.put("vic", password="one")
        self.put("wil", password="w")
        watch = self.opened5(f"{self.name}w", user="wil", password="w")
        watch.subscribe(f"{self.name}/will")
        away = self.opened5(f"{self.name}a", user="vic", password="one", **lasting(V5))
        away.subscribe((f"{self.name}/kept", 1))
        away.leave()
        will = wire.Will(f"{self.name}/will", b"gone")
        clients = [self.opened5(f"{self.name}{number}", user="vic", password="one", will=will)
                   for number in range(8)]
        other = self.opened5(f"{self.name}o", user="wil", password="w")
        self.put("vic", password="two")
        for client in clients:
            self.ended(client)
        for _ in clients:
            self.assertEqual(watch.take().payload, b"gone")
        self.refused("vic", "one")
        other.publish(f"{self.name}/kept", b"for vic", 1)
        away = self.opened5(f"{self.name}a", user="vic", password="two", **lasting(V5))
        self.assertEqual(away.take().payload, b"for vic")
        other.ping()

    @holdline_only("it is ours")
    def test_a_kick_ends_all_sessions_of_a_user_and_lets_it_come_again(self):
        self.put("kim", password="k")
        clients = [self.opened5(f"{self.name}{number}", user="kim", password="k")
                   for number in range(3)]
        before = self.account("kim")
        status, answer = self.broker.server.api("POST", "/v1/users/kim/kick")
        self.assertEqual((status, int(answer["epoch"])), (200, int(before["epoch"]) + 1), answer)
        for client in clients:
            self.ended(client)
        self.opened5(self.name, user="kim", password="k").ping()
        self.assertEqual(self.broker.server.api("POST", "/v1/users/nobody/kick")[0], 404)

    @holdline_only("it is ours")
    def test_rules_change_under_a_subscription(self):
        self.put("yan", password="y", rules=[{"action": "all", "filter": "yan/#"}])
        self.put("root", password="r", superuser=True)
        yan = self.opened5(self.name, user="yan", password="y")
        root = self.opened5("root", user="root", password="r")
        self.assertEqual(yan.subscribe("yan/#", "other/#", ok=False), [0, 0x87])
        root.publish("yan/a", b"one", 1)
        self.assertEqual(yan.take().payload, b"one")
        self.put("yan", rules=[{"action": "publish", "filter": "yan/#"}])

        def reads_no_more():
            root.publish("yan/a", b"two", 1)
            yan.send(wire.packet(wire.PINGREQ, 0, b""))
            return yan.read().kind == wire.PINGRESP or not yan.expect(wire.PINGRESP)
        poll(reads_no_more, "the rule holds")

    @holdline_only("it is ours")
    def test_a_disabled_user_is_ended_and_kept_out(self):
        self.put("dis", password="d")
        client = self.opened5(self.name, user="dis", password="d")
        self.put("dis", disabled=True)
        self.assertEqual(client.until_closed()[-1].kind, DISCONNECT)
        self.refused("dis", "d")
        self.put("dis", disabled=False)
        self.opened5(self.name, user="dis", password="d").ping()

    def imported(self, text, *words):
        with tempfile.NamedTemporaryFile("w", suffix=".users") as file:
            file.write(text)
            file.flush()
            server = self.broker.server
            host, port = server.ports["api"]
            return run("user", "import", file.name, *words, "--url", f"http://{host}:{port}",
                       "--token", server.token)

    @holdline_only("it is ours")
    def test_a_file_becomes_accounts(self):
        lines = "ida:$plain$one\nivo:$plain$two disabled\n"
        made = self.imported(lines)
        self.assertEqual(made.returncode, 0, made)
        self.assertIn("2 created, 0 changed, 0 unchanged", made.stdout)
        self.opened5(self.name, user="ida", password="one").leave()
        self.refused("ivo", "two")
        again = self.imported(lines)
        self.assertIn("0 created, 0 changed, 2 unchanged", again.stdout)
        broken = self.imported("ina,three\nida,changed\nbroken\nivy,four\n", "--csv")
        self.assertEqual(broken.returncode, 1, broken)
        self.assertIn(":3: a line must be a name, a comma and a password", broken.stderr)
        self.opened5(self.name, user="ina", password="three").leave()
        self.refused("ida", "one")
        self.refused("ivy", "four")

    # -- SCRAM-SHA-256 (RFC 5802), by hand: no library here has it

    def scram(self, client, user, word, connect=True):
        """The exchange; the packet that ends it."""
        nonce = base64.b64encode(secrets.token_bytes(18)).decode()
        first = f"n={user},r={nonce}"
        props = {"method": "SCRAM-SHA-256", "data": f"n,,{first}".encode()}
        if connect:
            client.send(wire.connect(V5, self.name, props=props))
        else:
            client.send(wire.packet(wire.AUTH, 0, b"\x19" + wire.properties(props)))
        asked = client.read()
        if asked.kind != wire.AUTH:
            return asked
        self.assertEqual(asked.code, 0x18)
        said = asked.props["data"].decode()
        fields = dict(part.split("=", 1) for part in said.split(","))
        self.assertTrue(fields["r"].startswith(nonce))
        salted = hashlib.pbkdf2_hmac("sha256", word.encode(), base64.b64decode(fields["s"]),
                                     int(fields["i"]))

        def mac(key, text):
            return hmac.new(key, text, hashlib.sha256).digest()
        client_key = mac(salted, b"Client Key")
        bare = f"c=biws,r={fields['r']}"
        all_said = f"{first},{said},{bare}".encode()
        signature = mac(hashlib.sha256(client_key).digest(), all_said)
        proof = bytes(a ^ b for a, b in zip(client_key, signature))
        last = f"{bare},p={base64.b64encode(proof).decode()}".encode()
        answer = {"method": "SCRAM-SHA-256", "data": last}
        client.send(wire.packet(wire.AUTH, 0, b"\x18" + wire.properties(answer)))
        end = client.read()
        if end.code == 0:
            server = base64.b64encode(mac(mac(salted, b"Server Key"), all_said)).decode()
            self.assertEqual(end.props["data"].decode(), f"v={server}")
        return end

    @holdline_only("mosquitto has no SCRAM")
    def test_scram_proves_a_password_without_showing_it(self):
        self.put("scr", password="pencil")
        client = self.wire(V5)
        end = self.scram(client, "scr", "pencil")
        self.assertEqual((end.kind, end.code), (CONNACK, 0), end)
        client.ping()
        end = self.scram(client, "scr", "pencil", connect=False)
        self.assertEqual((end.kind, end.code), (wire.AUTH, 0), end)
        client.ping()

    @holdline_only("mosquitto has no SCRAM")
    def test_scram_with_a_wrong_password_or_user_is_refused_alike(self):
        self.put("scr", password="pencil")
        for user, word in (("scr", "pen"), ("nobody", "pencil")):
            client = self.wire(V5)
            end = self.scram(client, user, word)
            self.assertEqual((end.kind, end.code), (CONNACK, 0x87 if end.code == 0x87 else 0x86))
            self.assertEqual(client.until_closed(), [])

    @holdline_only("mosquitto ends without a word")
    def test_an_unknown_method_is_refused(self):
        client = self.wire(V5)
        client.send(wire.connect(V5, self.name, props={"method": "MAGIC", "data": b"x"}))
        self.assertEqual(client.expect(CONNACK).code, 0x8C)
        client = self.opened5(self.name, user=None) if self.broker.plan.anonymous else None
        self.assertIsNone(client)


def token(claims, secret=b"s" * 40):
    """A JSON Web Token by HS256."""
    def part(fields):
        return base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=")
    text = part({"alg": "HS256", "typ": "JWT"}) + b"." + part(claims)
    mac = hmac.new(secret, text, hashlib.sha256).digest()
    return (text + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")).decode()


class Tokens(Case):
    PLAN = {"anonymous": False, "changes": {
        "access.token": {"secret": "s" * 40, "equal": ["client_id=%c"]}}}

    @holdline_only("mosquitto has none")
    def test_a_token_lets_in_and_says_what_one_may_do(self):
        now = int(time.time())
        good = {"sub": "jon", "client_id": self.name, "exp": now + 60,
                "acl": {"publish": ["jon/out"], "subscribe": ["jon/%c/#"]}}
        client = self.opened5(self.name, user="", password=token(good))
        self.assertEqual(client.subscribe(f"jon/{self.name}/#", "#", ok=False)[0], 0)
        self.assertEqual(client.publish("jon/in", b"x", 1).code, 0x87)
        bad = [{**good, "exp": now - 100}, {**good, "client_id": "other"}]
        words = [token(claims) for claims in bad] + [token(good, b"t" * 40), token(good)[:-2]]
        for word in words:
            other = self.wire(V5)
            other.send(wire.connect(V5, self.name, user="", password=word))
            self.assertIn(other.expect(CONNACK).code, (0x86, 0x87))

    @holdline_only("mosquitto has none")
    def test_a_connection_ends_when_its_token_is_over(self):
        claims = {"sub": "jon", "client_id": self.name, "exp": int(time.time()) - 28}
        client = self.opened5(self.name, user="", password=token(claims))  # within the leeway
        self.assertEqual([each.kind for each in client.until_closed(10)], [DISCONNECT])


class Service(http.server.BaseHTTPRequestHandler):
    """Decides about clients, by their user's name, and keeps what it was asked."""

    asked = []

    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((question, self.headers.get("X-Key")))
        answers = {
            "yes": {"result": "allow"}, "no": {"result": "deny"},
            "some": {"result": "allow", "acl": [
                {"permission": "allow", "action": "all", "topic": "some/%c/#"}]},
            "short": {"result": "allow", "expires_s": 1}, "pass": {"result": "ignore"},
        }
        body = json.dumps(answers.get(question["user"], {})).encode()
        self.send_response(200 if question["user"] in answers else 500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Asked(Case):
    """An HTTP service that decides."""

    SHARED = False

    @holdline_only("mosquitto has none")
    def test_a_service_decides(self):
        service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
        self.addCleanup(service.server_close)
        self.addCleanup(service.shutdown)
        threading.Thread(target=service.serve_forever, args=(0.05,), daemon=True).start()
        broker = self.start(anonymous=False, users={"pass": "word"}, changes={
            "access.http": {"url": f"http://127.0.0.1:{service.server_port}/mqtt",
                            "headers": ["X-Key: secret"], "timeout_ms": 2000},
            "listen.mqtt": {"methods": ["http", "passwords"]}})
        for user, code in (("yes", 0), ("no", 0x86), ("broken", 0x88), ("some", 0), ("pass", 0)):
            client = self.wire(V5, broker)
            client.send(wire.connect(V5, self.name, user=user, password="word"))
            self.assertEqual(client.expect(CONNACK).code, code, user)
            if user == "some":
                codes = client.subscribe(f"some/{self.name}/#", "other", ok=False)
                self.assertEqual(codes, [0, 0x87])
            client.close()
        question, key = Service.asked[0]
        self.assertEqual((question["client_id"], question["password"], key),
                         (self.name, "word", "secret"))
        client = self.opened5(f"{self.name}s", broker=broker, user="short", password="x")
        self.assertEqual([each.kind for each in client.until_closed(8)], [DISCONNECT])
        service.shutdown()
        service.server_close()
        client = self.wire(V5, broker)
        client.send(wire.connect(V5, self.name, user="yes", password="word"))
        self.assertEqual(client.expect(CONNACK).code, 0x88)

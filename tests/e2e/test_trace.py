"""Traces: what a client of any protocol says, live, decoded and without secrets."""

import base64
import json
import shutil
import signal
import subprocess
import unittest

from console.desk import Mqtt
from fixture import BINARY, DEADLINE_S, SECRET, Case, Sse, environment, poll, run
from im.wire import Device, schema
from xmpp.people import HEADER, SASL, Stream
from xmpp.test_login import Scram

PASSWORD = "correct-horse-battery-staple"
# As it stands in a message of PLAIN, wherever in that it begins.
HIDDEN = [PASSWORD, PASSWORD.encode().hex(), SECRET.hex()] + [
    base64.b64encode(b"x" * front + PASSWORD.encode()).decode()[4:-4] for front in range(3)]


class Trace(Sse):
    """A trace by the API."""

    def __init__(self, server, query):
        super().__init__(server, query, path="/v1/trace")

    def told(self, kind="trace"):
        """What was told so far of one kind."""
        return [told for name, told, _ in list(self.events) if name == kind]

    def kinds(self):
        return [told["kind"] for told in self.told()]

    def until(self, *kinds):
        """All events, when each of these was among them."""
        poll(lambda: set(kinds) <= set(self.kinds()), f"{kinds} in {self.kinds()}")
        return self.told()


class Traced(Case):
    CHANGES = {"api": {"traces_max": 3}}

    def setUp(self):
        super().setUp()
        poll(lambda: self.running() == 0, "no trace is left of another test")
        self.server.ask("PUT", "/v1/users/tills", {"password": PASSWORD})
        self.server.ask("PUT", "/v1/users/ann", {"password": PASSWORD})

    def running(self):
        return self.server.reading("traces")

    def trace(self, query):
        trace = Trace(self.server, query)
        self.addCleanup(trace.close)
        self.assertEqual((trace.status, trace.type), (200, "text/event-stream"))
        return trace

    def mqtt(self, client_id, **how):
        client = Mqtt(self.server.ports["any"], client_id, **how)
        self.addCleanup(client.close)
        return client

    def quiet_of_secrets(self, trace):
        """Nothing that was told has a secret in it, however it is written."""
        told = json.dumps([told for _, told, _ in list(trace.events)])
        for secret in HIDDEN:
            self.assertNotIn(secret, told)


class Traces(Traced):
    def test_a_client_is_followed_from_its_first_packet_to_its_last(self):
        if not shutil.which("mosquitto_pub"):
            raise unittest.SkipTest("mosquitto_pub is not installed")
        trace = self.trace("?client=till-9&payload=whole")
        host, port = self.server.ports["any"]
        words = ["mosquitto_pub", "-h", host, "-p", str(port), "-i", "till-9", "-V", "5", "-q", "1",
                 "-u", "tills", "-P", PASSWORD, "-t", "tills/9", "-m", "it is open"]
        subprocess.run(words, check=True, timeout=DEADLINE_S)
        events = trace.until("closed")
        self.assertEqual([(it["direction"], it["kind"]) for it in events], [
            (None, "opened"), ("in", "CONNECT"), ("out", "CONNACK"), ("in", "PUBLISH"),
            ("out", "PUBACK"), ("in", "DISCONNECT"), (None, "closed")])
        connect, publish = events[1], events[3]
        self.assertEqual((connect["client_id"], connect["protocol"]), ("till-9", "mqtt5"))
        self.assertEqual(connect["fields"]["password"], {"redacted": len(PASSWORD)})
        self.assertEqual(publish["fields"]["topic"], "tills/9")
        self.assertEqual(publish["payload"]["shown"], "it is open")
        self.assertEqual(publish["user"], "tills")
        self.assertEqual(len({it["connection"] for it in events}), 1)
        self.quiet_of_secrets(trace)

    def test_a_login_that_fails_can_be_looked_at(self):
        trace = self.trace("?user=tills")
        with self.server.closes(auth_failed=1):
            refused = self.mqtt("till-1", user="tills", password=PASSWORD + "!")
            self.assertNotEqual(refused.code, 0)
            events = trace.until("closed")
        refusal = next(it for it in events if it["kind"] == "refused")
        self.assertEqual(refusal["fields"], {"what": "login", "reason": "bad_credentials"})
        self.assertEqual(events[-1]["fields"]["reason"], "auth_failed")
        self.assertEqual([it["kind"] for it in events][:2], ["opened", "CONNECT"])
        self.quiet_of_secrets(trace)

    def test_one_who_is_there_is_followed_from_now_on_and_nobody_else(self):
        client, other = self.mqtt("till-8"), self.mqtt("till-80")
        trace = self.trace("?client=till-8")
        other.publish("b", "other")
        client.publish("a", "first")
        events = trace.until("PUBACK")
        self.assertEqual([it["kind"] for it in events], ["followed", "PUBLISH", "PUBACK"])
        self.assertRegex(events[0]["address"], r"^127\.0\.0\.1:\d+$")
        self.assertEqual(events[1]["payload"]["shown"], "first")

    def test_of_a_payload_as_much_is_shown_as_was_asked_for(self):
        client = self.mqtt("till-8")
        traces = {wish: self.trace(f"?client=till-8&payload={wish}")
                  for wish in ("none", "head", "whole")}
        client.publish("a", "x" * 100)
        for wish, shown in (("none", 0), ("head", 64), ("whole", 100)):
            event = next(it for it in traces[wish].until("PUBACK") if it["kind"] == "PUBLISH")
            self.assertEqual(event["payload"]["bytes"], 100)
            self.assertEqual(len(event["payload"].get("shown", "")), shown, wish)

    def test_of_a_topic_it_is_told_who_publishes_and_who_is_sent_it(self):
        trace = self.trace("?topic=prices/%2B")
        reader, writer = self.mqtt("reader"), self.mqtt("writer")
        reader.subscribe("#")
        writer.publish("prices/1", "9")
        writer.publish("other/1", "9")
        events = trace.until("published", "delivered")
        self.assertEqual({(it["kind"], it["client_id"]) for it in events},
                         {("published", "writer"), ("delivered", "reader")})
        self.assertEqual({it["fields"]["topic"] for it in events}, {"prices/1"})

    def test_an_address_is_followed_whatever_is_spoken_there(self):
        trace = self.trace("?address=127.0.0.1")
        lamp = self.bound(self.name, secret=SECRET)
        lamp.ping()
        told = self.mqtt("till-1", user="tills", password=PASSWORD)
        self.assertEqual(told.code, 0)
        events = trace.until("BindAck", "Pong", "CONNACK")
        bind = next(it for it in events if it["kind"] == "Bind")
        self.assertEqual((bind["protocol"], bind["fields"]["device"]), ("miop7", self.name))
        self.assertEqual(bind["fields"]["mac"], {"redacted": 32})
        self.quiet_of_secrets(trace)

    def test_a_device_of_miop_is_followed_by_its_name(self):
        trace = self.trace(f"?client={self.name}&payload=whole")
        lamp = self.bound(self.name, secret=SECRET)
        self.server.push(self.name, "wake up", wait_ms=0)
        poll(lamp.told, "the push")
        events = trace.until("Msg")
        message = next(it for it in events if it["kind"] == "Msg")
        self.assertEqual((message["direction"], message["payload"]["shown"]), ("out", "wake up"))
        self.quiet_of_secrets(trace)

    def test_a_device_of_im_is_followed_by_its_account(self):
        schema()
        trace = self.trace("?user=ann&payload=whole")
        phone = Device(self.server.ports["any"])
        self.addCleanup(phone.close)
        phone.login("ann", password=PASSWORD.encode())
        phone.send("ann", "to myself")
        events = trace.until("Login", "LoggedIn", "Send", "Sent")
        login = next(it for it in events if it["kind"] == "Login")
        self.assertEqual(login["fields"]["password"], {"redacted": len(PASSWORD)})
        said = next(it for it in events if it["kind"] == "Send")
        self.assertEqual((said["payload"]["shown"], said["user"]), ("to myself", "ann@localhost"))
        self.quiet_of_secrets(trace)

    def test_a_stream_of_xmpp_is_followed_by_its_account(self):
        trace = self.trace("?user=ann@localhost&payload=whole")
        link = Stream(self.server.ports["any"])
        self.addCleanup(link.close)
        link.say(HEADER)
        link.until("</stream:features>")
        # Without TLS a password is not taken; it was said all the same.
        data = base64.b64encode(f"\0ann\0{PASSWORD}".encode()).decode()
        link.say(f"<auth xmlns='{SASL}' mechanism='PLAIN'>{data}</auth>")
        link.until("</failure>")
        scram = Scram("ann", PASSWORD)
        link.say(f"<auth xmlns='{SASL}' mechanism='SCRAM-SHA-256'>{scram.first}</auth>")
        challenge = link.until("</challenge>").split(">")[-2].split("<")[0]
        last, _ = scram.last(challenge)
        link.say(f"<response xmlns='{SASL}'>{last}</response>")
        link.until("</success>")
        link.say(HEADER)
        link.until("</stream:features>")
        link.say("<iq type='set' id='b1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>"
                 "<resource>desk</resource></bind></iq>")
        link.until("</iq>")
        link.say("<message to='ann@localhost' type='chat' id='m1'><body>hi &amp; ho</body></message>")
        events = trace.until("message")
        kinds = [it["kind"] for it in events]
        for kind in ("opened", "stream", "features", "auth", "success", "iq", "message"):
            self.assertIn(kind, kinds)
        self.assertIn("redacted", next(it for it in events if it["kind"] == "auth")["fields"]["data"])
        said = next(it for it in events if it["kind"] == "message")
        self.assertEqual((said["payload"]["shown"], said["client_id"]),
                         ("hi & ho", "ann@localhost/desk"))
        self.quiet_of_secrets(trace)

    def test_so_many_at_once_each_for_its_time_and_who_asked_is_kept(self):
        for at in range(3):
            self.trace(f"?client=till-{at}")
        status, told = self.server.api("GET", "/v1/trace?client=till-4")
        self.assertEqual((status, told["error"]["code"]), (503, "busy"))
        entries = self.server.ask("GET", "/v1/audit_log")["entries"]
        self.assertIn("/v1/trace?client=till-0", [entry["on"] for entry in entries])
        self.doCleanups()
        poll(lambda: self.running() == 0, "their places are free")
        short = self.trace("?client=till-5&duration_s=1")
        poll(lambda: short.told("over") == [{"reason": "time"}], "its time is over")
        # Who may look, and no more, may not look at what people say.
        token = self.server.ask("POST", "/v1/tokens", {"name": "looker", "scopes": ["read"]})["token"]
        self.addCleanup(self.server.ask, "DELETE", "/v1/tokens/looker")
        self.assertEqual(self.server.api("GET", "/v1/trace?client=a", token=token)[0], 403)


class Commands(Traced):
    """`holdline trace`."""

    def follow(self, *words):
        """The command at work, when it follows."""
        url = "http://{}:{}".format(*self.server.ports["api"])
        process = subprocess.Popen(
            [BINARY, "trace", "--url", url, "--data", self.server.data, *words],
            env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        poll(lambda: self.running() == 1, "it follows")
        return process

    def test_it_prints_a_line_for_each_event_and_ends_quietly(self):
        process = self.follow("evil\x1b[2J")
        client = self.mqtt("evil\x1b[2J", user="tills", password=PASSWORD)
        client.publish("a/b", "one\x1b[2J\ntwo")
        said = ""
        for line in process.stdout:
            said += line
            if "PUBACK" in line:
                break
        self.assertNotIn("\x1b", said)
        self.assertNotIn(PASSWORD, said)
        self.assertIn("evil\\u001b[2J mqtt311 in  CONNECT", said)
        self.assertIn('topic=a/b', said)
        self.assertIn('payload 11 bytes: "one\\u001b[2J\\u000atwo"', said)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(DEADLINE_S), 0)
        self.assertEqual(process.stderr.read(), "")

    def test_it_prints_objects_until_its_time_is_over(self):
        process = self.follow("--topic", "a/#", "--json", "--payload", "none", "--for", "2s")
        self.mqtt("till-1").publish("a/b", "hello")
        told = [json.loads(line) for line in process.stdout]
        self.assertEqual(told[0]["kind"], "published")
        self.assertEqual(told[0]["payload"], {"bytes": 5, "shown_base64": "", "shown": ""})
        self.assertEqual(told[-1], {"over": "time"})
        self.assertEqual(process.wait(DEADLINE_S), 0)

    def test_a_reader_that_leaves_ends_it_and_a_refusal_is_told(self):
        process = self.follow("--address", "127.0.0.1")
        process.stdout.close()
        self.mqtt("till-1").publish("a/b", "hello")
        self.mqtt("till-2").publish("a/b", "hello")
        self.assertEqual(process.wait(DEADLINE_S), 0)
        url = "http://{}:{}".format(*self.server.ports["api"])
        refused = run("trace", "till-1", "--url", url, "--token", "wrong")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("401", refused.stderr)
        for words in (["trace"], ["trace", "a", "--user", "b"], ["trace", "a", "--for", "soon"]):
            self.assertEqual(run(*words).returncode, 2, words)

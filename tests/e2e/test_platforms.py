"""Pushes for devices that are away go through the push services of their platforms."""

import json
import os
import subprocess
import tempfile
import threading

import fixture
from certificates import Authority
from fixture import Case, Sse, poll
from miop import MSG

HERE = os.path.dirname(os.path.abspath(__file__))


class StandIn:
    """Push services of platforms (platforms.js): what they were sent, and how they answer."""

    def __init__(self):
        self.process = subprocess.Popen(
            ["node", os.path.join(HERE, "platforms.js")], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, preexec_fn=fixture.end_with_parent)
        self.got, self.faults, self.told, self.changed = [], [], [], threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()
        self.ports = self._told()
        self.url = f"http://127.0.0.1:{self.ports['port']}"

    def _read(self):
        for line in self.process.stdout:
            what = json.loads(line)
            lane = self.got if "kind" in what else self.faults if "fault" in what else self.told
            with self.changed:
                lane.append(what)
                self.changed.notify_all()

    def _told(self):
        with self.changed:
            assert self.changed.wait_for(lambda: self.told, fixture.DEADLINE_S)
            return self.told.pop(0)

    def order(self, **order):
        """What the services answer to an order, when they have carried it out."""
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return self._told()

    def subscribe(self, name):
        return self.order(subscribe=name)

    def account(self):
        """The file of a service account of FCM."""
        return self.order(account=True)

    def apple(self, **files):
        """The URL of Apple's service."""
        return f"https://localhost:{self.order(apns=files)['apns']}"

    def answer(self, *answers, to="answers"):
        self.order(**{to: list(answers)})

    def wait(self, count=1):
        """So many requests, when they have come; they are taken."""
        with self.changed:
            came = self.changed.wait_for(lambda: len(self.got) >= count or self.faults,
                                         fixture.DEADLINE_S)
            assert came and not self.faults, (self.got, self.faults)
            taken, self.got[:count] = self.got[:count], []
            return taken if count > 1 else taken[0]

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


def outcomes(server, name="web"):
    platform, = (it for it in server.ask("GET", "/v1/platforms")["platforms"]
                 if it["name"] == name)
    return platform


class Platforms(Case):
    SHARED = False
    SETTINGS = {"away_s": 0, "retry_ms_min": 50, "retry_ms_max": 2000}

    def setUp(self):
        super().setUp()
        self.service = StandIn()
        self.addCleanup(self.service.close)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def web(self, **more):
        """A server that sends to the stand-in of Web Push."""
        key = self.path("vapid.pem")
        subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-out", key], check=True, capture_output=True)
        section = {"kind": "webpush", "key_file": key, "subject": "mailto:push@example.org",
                   "endpoints": [self.service.url], **self.SETTINGS, **more}
        return self.start({"platform.web": section, "server": {"shards": 2, "pin": False}})

    def platform(self, **section):
        """A server with a platform `p`, and a device that is away and has a token of it."""
        server = self.start({"platform.p": {**self.SETTINGS, **section}})
        self.bound("phone", server=server).close()
        server.offline("phone")
        return server

    def token(self, server, token):
        server.ask("PUT", "/v1/products/demo/devices/phone/platform",
                   {"platform": "p", "token": token})

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def notification(self, server, **more):
        shown = {"title": "News", "body": "Two words", "badge": 3, "sound": "default",
                 "category": "news", **more}
        order = {"product": "demo", "device": "phone", "body": "data", "ttl_s": 600,
                 "collapse_key": "k", "notification": shown}
        return server.ask("POST", "/v1/pushes", order)["id"]

    def registered(self, server, *names):
        """Devices that were bound once, are away, and have a subscription."""
        for name in names:
            device = self.bound(name, server=server)
            device.close()
            server.offline(name)
            order = {"platform": "web", "subscription": self.service.subscribe(name)}
            answer = server.ask("PUT", f"/v1/products/demo/devices/{name}/platform", order)
            self.assertEqual(answer, {"platform": "web"})

    def test_a_push_reaches_a_browser_that_is_away_and_its_device_takes_the_same_id(self):
        server = self.web()
        self.registered(server, "tab")
        self.assertEqual(server.state("tab")["platform"], "web")
        push = server.push("tab", "hello", ttl_s=600, priority="high")
        self.assertEqual(push["outcome"], "stored")
        got = self.service.wait()
        self.assertEqual(got["text"], {"id": str(push["id"]), "product": "demo", "device": "tab",
                                       "data": "hello"})
        self.assertEqual((got["to"], got["urgency"]), ("tab", "high"))
        self.assertTrue(590 <= got["ttl"] <= 600, got)
        self.assertEqual(got["key"], outcomes(server)["public_key"])
        order = {"product": "demo", "device": "tab", "body_base64": "AP8=", "collapse_key": "k",
                 "notification": {"title": "News", "body": "Two words", "badge": 3}}
        second = server.ask("POST", "/v1/pushes", order)["id"]
        shown = {"notification": {"title": "News", "body": "Two words", "badge": 3},
                 "data_base64": "AP8="}
        got = self.service.wait()
        self.assertEqual(got["text"],
                         {"id": second, "product": "demo", "device": "tab", **shown})
        # A push that fits into no message of the web is fetched by the device.
        large = server.push("tab", "x" * 4090)
        self.assertEqual(self.service.wait()["text"], {
            "id": str(large["id"]), "product": "demo", "device": "tab", "fetch": True})
        poll(lambda: outcomes(server)["outcomes"]["accepted"] == 3, "three are accepted")
        tab = self.bound("tab", server=server)
        records = [tab.expect(MSG).records[0] for _ in range(3)]
        self.assertEqual([record.id for record in records],
                         [push["id"], int(second), large["id"]])
        self.assertEqual(json.loads(records[1].body), shown)
        self.assertIn('holdline_platform_pushes_total{platform="web",outcome="accepted"} 3',
                      server.metrics())
        for record in records:
            tab.ack(record.id)
        poll(lambda: server.state("tab")["waiting"] == 0, "they are over")
        server.push("tab", "here")
        tab.expect(MSG)
        server.settle()
        self.assertEqual(self.service.got, [], "a device that is here is not reached elsewhere")

    def test_a_dead_subscription_is_removed_and_told_and_the_push_waits_for_the_next(self):
        server = self.web()
        self.registered(server, "tab")
        events = Sse(server)
        self.addCleanup(events.close)
        self.service.answer({"status": 410})
        push = server.push("tab", "hello")
        self.assertEqual(self.service.wait()["status"], 410)
        (kind, event, _), = events.wait(1)
        self.assertEqual((kind, event["device"], event["platform"]),
                         ("device_token_dead", "tab", "web"))
        self.assertIsNone(server.state("tab")["platform"])
        server.kill()
        server.start()
        self.assertIsNone(server.state("tab")["platform"])
        self.registered_again(server, "tab")
        self.assertEqual(self.service.wait()["text"]["id"], str(push["id"]))

    def registered_again(self, server, name):
        order = {"platform": "web", "subscription": self.service.subscribe(name)}
        server.ask("PUT", f"/v1/products/demo/devices/{name}/platform", order)

    def test_a_service_that_is_busy_is_left_alone_for_as_long_as_it_says(self):
        server = self.web()
        self.registered(server, "tab")
        self.service.answer({"status": 503}, {"status": 429, "headers": {"Retry-After": "1"}})
        push = server.push("tab", "hello")
        got = self.service.wait(3)
        self.assertEqual([it["status"] for it in got], [503, 429, 201])
        self.assertEqual({it["text"]["id"] for it in got}, {str(push["id"])})
        self.assertEqual(len({it["topic"] for it in got}), 1, "a copy replaces the one before")
        poll(lambda: outcomes(server)["outcomes"]["accepted"] == 1, "it is accepted")
        counts = outcomes(server)["outcomes"]
        self.assertEqual((counts["failed"], counts["refused"]), (2, 0))
        self.assertIn("platform_away", server.log)

    def test_a_kill_loses_no_push_and_an_answered_one_is_not_sent_again(self):
        server = self.web()
        self.registered(server, "a", "b")
        first = server.push("a", "first")
        self.service.wait()
        poll(lambda: outcomes(server)["outcomes"]["accepted"] == 1, "it is accepted")
        self.service.answer({"hang": True})
        second = server.push("b", "second")
        self.assertEqual(self.service.wait()["text"]["id"], str(second["id"]))
        server.kill()
        server.start()
        self.assertEqual(self.service.wait()["text"]["id"], str(second["id"]))
        third = server.push("a", "third")
        self.assertEqual(self.service.wait()["text"]["id"], str(third["id"]))
        self.assertEqual(server.state("a")["waiting"], 2, f"{first} waits for the device, too")

    def test_a_request_that_hangs_leaves_the_other_thread_to_the_service(self):
        server = self.web(requests_max=2)
        self.registered(server, "a", "b")
        self.service.answer({"hang": True})
        stuck = server.push("a", "stuck")
        self.assertEqual(self.service.wait()["status"], "hangs")
        other = server.push("b", "other")
        self.assertEqual(self.service.wait()["text"]["id"], str(other["id"]))
        self.service.order(release=503)
        self.assertEqual(self.service.wait()["text"]["id"], str(stuck["id"]), "it is sent again")

    def test_refused_credentials_raise_an_alarm_that_says_what_to_do(self):
        server = self.web(retry_ms_max=200)
        self.registered(server, "tab", "two", "three")
        self.service.answer({"status": 403, "body": "key unknown"})
        push = server.push("tab", "hello")
        self.assertEqual(self.service.wait()["status"], 403)
        poll(lambda: outcomes(server)["outcomes"]["accepted"] == 1, "it is sent again")
        self.assertEqual(self.service.wait()["text"]["id"], str(push["id"]))
        self.assertNotIn("platform_denied", server.log, "the fault of one device")
        self.service.answer(*[{"status": 401, "body": "no key"}] * 60)
        for name in ("tab", "two", "three"):
            server.push(name, "again")
        server.logged("platform_denied")

        def denied():
            alarms = server.ask("GET", "/v1/alarms?state=active")["alarms"]
            return [alarm for alarm in alarms if alarm["kind"] == "platform_denied"]

        alarm, = poll(denied, "the alarm is raised at the next look")
        self.assertEqual((alarm["level"], alarm["subject"]), ("critical", "web"))
        self.assertIn("401: \"no key\"; replace the key", alarm["text"])

    def test_wrong_tokens_and_wrong_settings_say_what_is_wrong(self):
        server = self.web()
        path = "/v1/products/demo/devices/tab/platform"
        good = self.service.subscribe("tab")
        for order, words in (
                ({"platform": "none", "token": "t"}, "must be one of: web"),
                ({"platform": "web", "token": "t"}, "subscription"),
                ({"platform": "web"}, "either `token` or `subscription`"),
                ({"platform": "web", "subscription": {**good, "endpoint": "http://127.0.0.1:1/x"}},
                 "not among `endpoints`"),
                ({"platform": "web", "subscription": {**good, "keys": {"p256dh": "AA", "auth": "AA"}}},
                 "p256dh")):
            status, answer = server.api("PUT", path, order)
            self.assertEqual(status, 404 if order["platform"] == "none" else 400, answer)
            self.assertIn(words, answer["error"]["message"])
        self.assertIsNone(server.state("tab"))
        server.ask("PUT", path, {"platform": "web", "subscription": good})
        self.assertEqual(server.ask("DELETE", path), {"platform": None})
        server.stop()
        with open(self.path("vapid.pem"), "w") as file:
            file.write("no key")
        run = fixture.run("check", "--config", server.file)
        self.assertIn("platform.web: key_file", run.stdout + run.stderr)

    def test_fcm_gets_messages_by_an_access_token_that_is_asked_for_once(self):
        account = self.write("account.json", json.dumps(self.service.account()))
        server = self.platform(kind="fcm", key_file=account, url=self.service.url)
        self.token(server, "fcm-token:1")
        push = self.notification(server, link="https://a.example/1")
        self.assertEqual(self.service.wait(), {"kind": "token", "status": 200})
        got = self.service.wait()
        self.assertEqual(got["data"], {"id": push, "product": "demo", "device": "phone",
                                       "data": "data", "link": "https://a.example/1"})
        self.assertEqual(got["notification"], {"title": "News", "body": "Two words"})
        android = got["android"]
        tag = android["notification"].pop("tag")
        self.assertEqual(android["notification"], {"sound": "default", "channel_id": "news",
                                                   "notification_count": 3})
        self.assertEqual((android["priority"], android["collapse_key"], len(tag)),
                         ("NORMAL", "k", 32))
        plain = server.push("phone", "plain", priority="high")
        got = self.service.wait()
        self.assertEqual((got["data"]["id"], got["data"]["data"], got.get("notification")),
                         (str(plain["id"]), "plain", None))
        self.assertEqual((got["android"]["priority"], got["to"]), ("HIGH", "fcm-token:1"))
        large = server.push("phone", "x" * 4000)
        self.assertEqual(self.service.wait()["data"], {
            "id": str(large["id"]), "product": "demo", "device": "phone", "fetch": "true"})
        # A refused access token is asked for anew.
        self.service.answer({"status": 401, "body": "{}", "forget": True})
        again = server.push("phone", "again")
        got = self.service.wait(3)
        self.assertEqual([(it["kind"], it["status"]) for it in got],
                         [("fcm", 401), ("token", 200), ("fcm", 200)])
        self.assertEqual(got[2]["data"]["id"], str(again["id"]))
        dead = {"error": {"code": 404, "status": "NOT_FOUND", "details": [{
            "@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError",
            "errorCode": "UNREGISTERED"}]}}
        self.service.answer({"status": 404, "body": json.dumps(dead)})
        server.push("phone", "dead")
        self.service.wait()
        poll(lambda: server.state("phone")["platform"] is None, "the token is removed")
        self.assertEqual(outcomes(server, "p")["outcomes"], {
            "accepted": 4, "dead": 1, "refused": 0, "failed": 0, "denied": 1, "postponed": 0})

    def test_an_account_that_fcm_refuses_is_an_alarm_and_costs_no_push(self):
        account = self.write("account.json", json.dumps(self.service.account()))
        server = self.platform(kind="fcm", key_file=account, url=self.service.url)
        self.token(server, "t")
        self.service.answer({"status": 400, "body": '{"error": "invalid_grant"}'},
                            to="token_answers")
        push = server.push("phone", "hello")
        got = self.service.wait(3)
        self.assertEqual([(it["kind"], it["status"]) for it in got],
                         [("token", 400), ("token", 200), ("fcm", 200)])
        self.assertEqual(got[2]["data"]["id"], str(push["id"]))
        self.assertIn("invalid_grant", server.log)

    def test_huawei_gets_messages_by_the_apps_secret(self):
        secret = self.write("secret", "huawei-secret\n")
        server = self.platform(kind="huawei", app="10001", secret_file=secret,
                               url=self.service.url, token_url=f"{self.service.url}/oauth2/v3/token")
        self.token(server, "hw-token")
        push = self.notification(server, link="https://a.example/1")
        self.assertEqual(self.service.wait()["kind"], "token")
        got = self.service.wait()
        self.assertEqual((got["to"], got["text"]["id"], got["text"]["data"]),
                         ("hw-token", push, "data"))
        shown = got["android"]["notification"]
        self.assertEqual((shown["title"], shown["click_action"], shown["badge"]),
                         ("News", {"type": 2, "url": "https://a.example/1"}, {"set_num": 3}))
        busy = {"status": 200, "body": '{"code": "81000001", "msg": "internal"}'}
        ended = {"status": 200, "body": '{"code": "80200003", "msg": "expired"}'}
        self.service.answer(busy, ended)
        plain = server.push("phone", "plain")
        got = self.service.wait(4)
        self.assertEqual([it["kind"] for it in got], ["huawei", "huawei", "token", "huawei"])
        self.assertEqual({it["text"]["id"] for it in got if "text" in it}, {str(plain["id"])})
        self.service.answer({"status": 200, "body": '{"code": "80300007", "msg": "all invalid"}'})
        server.push("phone", "dead")
        poll(lambda: server.state("phone")["platform"] is None, "the token is removed")

    def test_xiaomi_gets_messages_by_the_apps_secret(self):
        secret = self.write("secret", "xiaomi-secret\n")
        server = self.platform(kind="xiaomi", app="org.example.shop", secret_file=secret,
                               url=self.service.url)
        self.token(server, "mi-token")
        push = self.notification(server)
        got = self.service.wait()
        form = got["form"]
        self.assertEqual((got["to"], got["text"]["id"], form["pass_through"]),
                         ("mi-token", push, "0"))
        self.assertEqual((form["title"], form["description"]), ("News", "Two words"))
        self.assertTrue(580_000 <= int(form["time_to_live"]) <= 600_000)
        plain = server.push("phone", "plain")
        got = self.service.wait()
        self.assertEqual((got["text"]["id"], got["form"]["pass_through"]), (str(plain["id"]), "1"))
        self.service.answer({"status": 200, "body": '{"result": "error", "code": 10009}'})
        server.push("phone", "busy")
        self.assertEqual(len({it["text"]["id"] for it in self.service.wait(2)}), 1)
        self.service.answer({"status": 200, "body": '{"result": "error", "code": 20301}'})
        server.push("phone", "dead")
        poll(lambda: server.state("phone")["platform"] is None, "the token is removed")

    def apple(self, **more):
        """A server that sends to the stand-in of Apple's service, over HTTP/2 and TLS."""
        authority = Authority(self.folder.name)
        certificate, key = authority.issue("localhost", "DNS:localhost")
        signer = self.path("AuthKey_KEY1.p8")
        subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-out", signer], check=True,
                       capture_output=True)
        public = self.path("signer.pub")
        subprocess.run(["openssl", "pkey", "-in", signer, "-pubout", "-out", public], check=True,
                       capture_output=True)
        url = self.service.apple(certificate=certificate, key=key, signer=public,
                                 authority=authority.certificate)
        by_token = {"key_file": signer, "key_id": "KEY1", "team_id": "TEAM1"}
        app, app_key = authority.issue("push")
        by_certificate = {"certificate_file": app, "key_file": app_key}
        identity = by_certificate if more.pop("certificate", False) else by_token
        server = self.platform(kind="apns", app="org.example.shop", url=url,
                               ca_file=authority.certificate, **identity, **more)
        self.token(server, "ab12")
        return server

    def test_apple_gets_notifications_over_one_connection_by_a_signed_token(self):
        server = self.apple(requests_max=1)
        push = self.notification(server, image="https://a.example/i.png")
        got = self.service.wait()
        self.assertEqual((got["to"], got["type"], got["priority"], got.get("by")),
                         ("ab12", "alert", "5", None))
        self.assertEqual(got["payload"], {
            "aps": {"alert": {"title": "News", "body": "Two words"}, "badge": 3,
                    "sound": "default", "category": "news", "mutable-content": 1},
            "id": push, "product": "demo", "device": "phone", "data": "data",
            "image": "https://a.example/i.png"})
        # Data alone wakes the app; the connection that has ended meanwhile is made anew.
        self.service.answer({"status": 200, "ends": True})
        first = server.push("phone", "first", priority="high")
        got = [got, self.service.wait()]
        self.assertEqual((got[1]["payload"]["aps"], got[1]["payload"]["id"], got[1]["type"]),
                         ({"content-available": 1}, str(first["id"]), "background"))
        second = server.push("phone", "second")
        got.append(self.service.wait())
        self.assertEqual(got[2]["payload"]["id"], str(second["id"]))
        sessions = [it["session"] for it in got]
        self.assertEqual((sessions[0] == sessions[1], sessions[1] == sessions[2]), (True, False))
        self.service.answer({"status": 410, "body": '{"reason": "Unregistered"}'})
        server.push("phone", "dead")
        poll(lambda: server.state("phone")["platform"] is None, "the token is removed")

    def test_apple_takes_a_certificate_and_its_refusals_are_obeyed(self):
        server = self.apple(certificate=True, request_ms_max=1500)
        self.service.answer(
            {"status": 503, "headers": {"retry-after": "1"}, "body": '{"reason": "ServiceUnavailable"}'},
            {"status": 403, "body": '{"reason": "BadCertificate"}'}, {"hang": True})
        push = self.notification(server)
        got = self.service.wait(4)
        self.assertEqual([it["status"] for it in got], [503, 403, "hangs", 200])
        self.assertEqual({it["payload"]["id"] for it in got}, {push})
        self.assertEqual({it["by"] for it in got}, {"push"})
        server.logged("platform_denied")
        self.service.answer({"status": 400, "body": '{"reason": "BadDeviceToken"}'})
        server.push("phone", "of the other environment")
        poll(lambda: outcomes(server, "p")["outcomes"]["accepted"] == 2, "it is sent again")
        self.assertEqual(server.state("phone")["platform"], "p", "the token stays")


class Batches(Case):
    def batch(self, **order):
        return self.server.api("POST", "/v1/pushes/batch", {"product": "demo", **order})

    def test_a_batch_has_its_own_message_for_each_device(self):
        names = [f"batch-{at}" for at in range(1000)]
        here = self.bound(names[7])
        messages = [{"device": name, "variables": {"name": f"N{at}"}}
                    for at, name in enumerate(names[:999])]
        messages.append({"device": names[999], "body": "of its own"})
        template = {"notification": {"title": "Hello {name}"}, "body": "{{{name}}}"}
        status, answer = self.batch(messages=messages, template=template, ttl_s=600)
        self.assertEqual(status, 200, answer)
        outcomes = answer["outcomes"]
        self.assertEqual([it["device"] for it in outcomes], names)
        self.assertEqual(len({it["id"] for it in outcomes}), 1000)
        self.assertEqual({it["outcome"] for it in outcomes}, {"stored"})
        record, = here.expect(MSG).records
        self.assertEqual((str(record.id), json.loads(record.body)), (outcomes[7]["id"], {
            "notification": {"title": "Hello N7"}, "data": "{N7}"}))
        last = self.bound(names[999])
        record, = last.expect(MSG).records
        self.assertEqual((str(record.id), record.body), (outcomes[999]["id"], b"of its own"))

    def test_a_fault_in_one_message_sends_none(self):
        good, template = {"device": "none-1", "body": "b"}, {"body": "{name}"}
        for order, words in (
                ({"messages": []}, "a batch has 1 to 1000"),
                ({"messages": [good] * 1001}, "a batch has 1 to 1000"),
                ({"messages": [good, {"device": "none-2"}]}, "in messages[1]: give"),
                ({"messages": [good, {"device": "none-2", "variables": {"nam": "x"}}],
                  "template": template},
                 "in messages[1]: the template's variable \"name\" is missing"),
                ({"messages": [good, {"device": "none-2"}], "template": {"body": "{"}},
                 "in messages[1]: the template has a single {"),
                ({"messages": [good, {"device": "", "body": "b"}]}, "in messages[1]:")):
            status, answer = self.batch(**order)
            self.assertEqual(status, 400, answer)
            self.assertIn(words, answer["error"]["message"])
        status, answer = self.batch(product="other", messages=[good])
        self.assertEqual((status, answer["error"]["code"]), (404, "unknown_product"))
        self.assertIsNone(self.server.state("none-1"))

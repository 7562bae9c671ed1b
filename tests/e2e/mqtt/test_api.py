"""The HTTP API of the broker, its events and webhooks, and `$SYS`, beside connected clients."""

import http.server
import json
import threading
from urllib.parse import quote

from fixture import Sse, poll, run
from mqtt.broker import Case, holdline_only
from mqtt.test_sessions import lasting
from mqtt.wire import DISCONNECT, V31, V311, V5, Will


@holdline_only("it is its API")
class Api(Case):
    PLAN = {"changes": {"mqtt": {"sys_interval_s": 1}}}

    @property
    def server(self):
        return self.broker.server

    def test_a_message_is_published_to_whoever_reads(self):
        reader = self.opened5(self.name)
        reader.subscribe((f"{self.name}/#", 2))
        answer = self.server.ask("POST", "/v1/publish", {
            "topic": f"{self.name}/a", "payload": "hello ö", "qos": 2, "content_type": "text",
            "response_topic": "back", "correlation_data": "c", "expiry_s": 60,
            "user_properties": [["a", "b"], ["a", "c"]], "payload_is_utf8": True})
        self.assertTrue(answer["matched"])
        found = reader.take()
        self.assertEqual((found.payload.decode(), found.qos, found.retain), ("hello ö", 2, False))
        self.assertIn(found.props.pop("expiry"), (59, 60))
        self.assertEqual(found.props, {
            "content_type": "text", "response_topic": "back", "correlation": b"c",
            "payload_format": 1, "user": [("a", "b"), ("a", "c")]})
        answer = self.server.ask("POST", "/v1/publish", {"topic": f"{self.name}2"})
        self.assertFalse(answer["matched"])

    def test_a_list_of_messages(self):
        reader = self.opened5(self.name)
        reader.subscribe((f"{self.name}/#", 1))
        orders = [{"topic": f"{self.name}/{at}", "payload_base64": "AAEC", "qos": 1}
                  for at in range(100)]
        answer = self.server.ask("POST", "/v1/publish", orders)
        self.assertEqual([each["matched"] for each in answer["results"]], [True] * 100)
        found = [reader.take() for _ in range(100)]
        self.assertEqual([each.topic for each in found], [each["topic"] for each in orders])
        self.assertEqual(found[0].payload, b"\0\1\2")

    def test_orders_that_are_wrong_are_refused(self):
        for order in ({"topic": "a/#"}, {"topic": ""}, {"topic": "a", "qos": 3}, {},
                      {"topic": "a", "payload": "x", "payload_base64": "AA=="},
                      {"topic": "a\0"}, {"topic": "x" * 70000}, {"topic": "a", "delay_s": -1}):
            status, answer = self.server.api("POST", "/v1/publish", order)
            self.assertIn(status, (400, 409, 422), (order, answer))

    def test_a_delayed_message_comes_late(self):
        reader = self.opened5(self.name)
        reader.subscribe((f"{self.name}/#", 1))
        for topic, delay_s in (("later", 3600), ("late", 1)):
            self.server.ask("POST", "/v1/publish", {
                "topic": f"{self.name}/{topic}", "payload": topic, "delay_s": delay_s, "qos": 1})
        reader.publish(f"{self.name}/soon", b"s", 0)
        self.assertEqual(reader.take().payload, b"s")
        self.assertEqual(reader.take().payload, b"late")
        self.quiet(reader)

    def test_a_stored_message_outlives_a_kill(self):
        self.opened(self.name, V311, **lasting(V311)).subscribe((f"{self.name}/a", 1))
        self.opened(self.name, V311, **lasting(V311)).leave()
        self.server.ask("POST", "/v1/publish",
                        {"topic": f"{self.name}/a", "payload": "kept", "qos": 1})
        self.broker.restart(kill=True)
        again = self.opened(self.name, V311, **lasting(V311))
        self.assertEqual(again.take().payload, b"kept")

    def test_clients_are_shown(self):
        self.opened("shown/5", V5, keep_alive=30, user=None, will=Will("w"), **{
            "props": {"session_expiry": 100}}).subscribe("a", "b/#")
        client = self.server.ask("GET", f"/v1/clients/{quote('shown/5', safe='')}")
        wanted = {"client_id": "shown/5", "online": True, "protocol": "mqtt5",
                  "keep_alive_s": 30, "session_expiry_s": 100, "subscriptions": 2, "has_will": True}
        self.assertEqual({key: client.get(key) for key in wanted}, wanted)
        self.opened("shown/3", V31)
        self.opened("shown/4", V311, **lasting(V311)).leave()

        def found():
            page = self.server.ask("GET", "/v1/clients?prefix=shown%2F")
            return {each["client_id"]: each["online"] for each in page["clients"]}
        poll(lambda: found() == {"shown/5": True, "shown/3": True, "shown/4": False}, "they are")
        page = self.server.ask("GET", "/v1/clients?prefix=shown%2F&online=false")
        self.assertEqual([each["client_id"] for each in page["clients"]], ["shown/4"])
        status, _ = self.server.api("GET", "/v1/clients/nobody")
        self.assertEqual(status, 404)

    def test_pages_of_clients_hold_everybody_once(self):
        for number in range(250):
            self.opened(f"{self.name}-{number}")
        seen, after = [], None
        while True:
            more = f"&after={quote(str(after))}" if after else ""
            page = self.server.ask(
                "GET", f"/v1/clients?prefix={self.name}-&limit=60{more}")
            seen += [each["client_id"] for each in page["clients"]]
            after = page.get("next")
            if not after:
                break
        self.assertEqual(sorted(seen), sorted(f"{self.name}-{at}" for at in range(250)))

    def test_a_client_is_kicked_and_its_session_forgotten(self):
        for version in (V31, V311, V5):
            name = f"{self.name}{version}"
            client = self.opened(name, version, will=Will("w"), **lasting(version))
            status, _ = self.server.api("DELETE", f"/v1/clients/{name}")
            self.assertIn(status, (200, 204))
            found = client.until_closed()
            self.assertEqual([each.kind for each in found], [DISCONNECT] if version == V5 else [])
            client = self.opened(name, version, **lasting(version))
            self.assertEqual(client.connack.present, version != V31)
            self.server.api("DELETE", f"/v1/clients/{name}?session=true")
            client.until_closed()
            client = self.opened(name, version, **lasting(version))
            self.assertFalse(client.connack.present)
            client.leave()
        status, _ = self.server.api("DELETE", "/v1/clients/nobody")
        self.assertIn(status, (200, 404))

    def test_subscriptions_are_shown_made_and_ended(self):
        client = self.opened5(self.name)
        client.subscribe(("a/+", 1), (f"$share/g/{self.name}", 2), props={"subscription_id": 5})
        path = f"/v1/clients/{self.name}/subscriptions"
        shown = self.server.ask("GET", path)["subscriptions"]
        self.assertEqual(sorted(each["filter"] for each in shown), [f"$share/g/{self.name}", "a/+"])
        status, answer = self.server.api("POST", path, {"filter": f"{self.name}/x", "qos": 1})
        self.assertIn(status, (200, 201, 204), answer)
        self.opened5("w").publish(f"{self.name}/x", b"x", 1)
        self.assertEqual(client.take().qos, 1)
        status, answer = self.server.api(
            "DELETE", f"{path}?filter={quote(f'{self.name}/x', safe='')}")
        self.assertIn(status, (200, 204), answer)
        self.assertEqual(self.opened5("w").publish(f"{self.name}/x", b"x", 1).code, 0x10)

    def test_retained_messages_are_shown_and_forgotten(self):
        writer = self.opened5("w")
        for at in range(120):
            writer.publish(f"{self.name}/{at:03}", f"{at}", 1, retain=True)
        seen, after = [], None
        while True:
            more = f"&after={quote(after, safe='')}" if after else ""
            filter = quote(f"{self.name}/+", safe="")
            page = self.server.ask("GET", f"/v1/retained?filter={filter}&limit=50{more}")
            seen += [(each["topic"], each["payload"]) for each in page["messages"]]
            after = page.get("next")
            if not after:
                break
        self.assertEqual(seen, [(f"{self.name}/{at:03}", f"{at}") for at in range(120)])
        one = f"/v1/retained/{quote(f'{self.name}/007', safe='')}"
        self.assertEqual(self.server.ask("GET", one)["payload"], "7")
        status, _ = self.server.api("DELETE", one)
        self.assertIn(status, (200, 204))
        self.assertEqual(self.server.api("GET", one)[0], 404)
        reader = self.opened5(self.name)
        reader.subscribe(f"{self.name}/007")
        reader.ping()

    def test_the_status_counts(self):
        # Clients of earlier tests may be on their way out.
        poll(lambda: self.server.status()["sessions_online"] == 0, "nobody is online")
        before = self.server.status()
        client = self.opened5(self.name)
        client.subscribe(f"{self.name}/#")
        self.server.ask("POST", "/v1/publish", {"topic": f"{self.name}/a", "payload": "x" * 10,
                                                "retain": True})
        client.take()
        after = self.server.status()
        for key in ("sessions", "sessions_online", "subscriptions", "retained"):
            self.assertEqual(after[key], before[key] + 1, key)
        self.assertGreater(after["retained_bytes"], before["retained_bytes"])
        self.assertIn("sessions", self.server.metrics())

    def test_sys_topics_tell_the_same(self):
        reader = self.opened5(self.name)
        reader.subscribe("$SYS/broker/clients/connected", "$SYS/broker/version",
                         "$SYS/broker/uptime")
        topics = {}
        while len(topics) < 3:
            found = reader.take(15)
            topics[found.topic] = found.payload.decode()
        self.assertIn("oldline", topics["$SYS/broker/version"])
        self.assertTrue(topics["$SYS/broker/clients/connected"].isdigit())

    def test_events_of_clients_are_streamed(self):
        events = Sse(self.server, "?type=client_connected,client_disconnected,client_subscribed,"
                     "client_unsubscribed,session_ended,client_refused")
        self.addCleanup(events.close)
        self.assertEqual(events.status, 200)
        client = self.opened5(f"{self.name}")
        client.subscribe((f"{self.name}/a", 1))
        client.leave()

        def kinds():
            return [kind for kind, data, _ in events.events if data.get("client_id") == self.name]
        poll(lambda: "session_ended" in kinds(), f"the end is told: {events.events}")
        self.assertEqual(kinds()[:3], ["client_connected", "client_subscribed",
                                       "client_disconnected"])

    def test_a_keep_alive_that_ran_out_and_a_take_over_are_named_and_versions_rise(self):
        events = Sse(self.server, "?type=client_connected,client_disconnected")
        self.addCleanup(events.close)
        older = self.opened5(f"{self.name}", keep_alive=1)
        newer = self.opened5(f"{self.name}", keep_alive=1)
        for client in (older, newer):
            client.until_closed(8)

        def told():
            return [(kind, data.get("reason"), data["version"]) for kind, data, _ in events.events
                    if data.get("client_id") == self.name]
        poll(lambda: len(told()) >= 4, f"both ends are told: {events.events}")
        self.assertEqual([(kind, reason) for kind, reason, _ in told()], [
            ("client_connected", None), ("client_disconnected", "replaced"),
            ("client_connected", None), ("client_disconnected", "keep_alive_timeout")])
        versions = [version for _, _, version in told()]
        self.assertEqual(versions, sorted(set(versions)))

    def test_messages_are_streamed(self):
        events = Sse(self.server, f"?type=message_published&topic={self.name}%2F%2B")
        self.assertEqual(events.status, 200)
        client = self.opened5(self.name)

        def told():
            client.publish(f"{self.name}/a", b"hello", 1)
            client.publish("elsewhere", b"no", 1)
            return [data for kind, data, _ in events.events if kind == "message_published"]
        found = poll(told, "a message is told")
        self.assertEqual(found[0]["message"]["topic"], f"{self.name}/a")
        self.assertEqual(found[0]["message"]["payload"], "hello")

    def test_the_command_line_shows_the_same(self):
        self.opened5(self.name, **lasting(V5)).publish(f"{self.name}/r", b"kept", 1, retain=True)
        env = {"HOLDLINE_URL": f"http://127.0.0.1:{self.server.ports['api'][1]}",
               "HOLDLINE_TOKEN": self.server.token}
        for words, wanted in ((("clients", "list"), self.name),
                              (("clients", "show", self.name), "mqtt5"),
                              (("retained", "list", f"{self.name}/#"), f"{self.name}/r")):
            done = run(*words, env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(wanted, done.stdout)


    def test_names_that_paths_and_terminals_take_ill_are_shown_kicked_and_cleared(self):
        env = {"HOLDLINE_URL": f"http://127.0.0.1:{self.server.ports['api'][1]}",
               "HOLDLINE_TOKEN": self.server.token}
        names = ("\x01", "\x1b]0;x\x07", f"{self.name}/", "%2F", "..", "a//b", "\U0001f980")
        for name in names:
            client = self.opened5(name, **lasting(V5))
            client.publish(name, b"kept", 1, retain=True)
            asked = quote(name, safe="")
            shown = self.server.ask("GET", f"/v1/client?client_id={asked}")
            self.assertEqual(shown["client_id"], name)
            self.assertEqual(self.server.ask("GET", f"/v1/clients/{asked}")["client_id"], name)
            kept = self.server.ask("GET", f"/v1/retained_message?topic={asked}")
            self.assertEqual((kept["topic"], kept["payload"]), (name, "kept"))
            for words in (("clients", "show", name), ("retained", "get", name),
                          ("retained", "clear", name), ("clients", "kick", "--session", name)):
                done = run(*words, env=env)
                self.assertEqual(done.returncode, 0, (words, done.stderr))
            client.until_closed()
            for path in (f"/v1/client?client_id={asked}", f"/v1/retained_message?topic={asked}"):
                self.assertEqual(self.server.api("GET", path)[0], 404, path)


class Hook(http.server.BaseHTTPRequestHandler):
    """Takes what is posted."""

    posted = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.posted.append(json.loads(body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


@holdline_only("they are its webhooks")
class Webhooks(Case):
    SHARED = False

    def test_events_and_messages_are_posted(self):
        hook = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
        self.addCleanup(hook.server_close)
        self.addCleanup(hook.shutdown)
        threading.Thread(target=hook.serve_forever, args=(0.05,), daemon=True).start()
        tail = (f'[[webhook]]\nurl = "http://127.0.0.1:{hook.server_port}/"\n'
                'events = ["client_connected", "message_published"]\ntopics = ["in/+"]\n')
        broker = self.start(tail=tail)
        client = self.opened("hooked", V5, broker)
        client.publish("in/a", b"hello", 1)
        client.publish("out/a", b"no", 1)

        def posted():
            text = json.dumps(Hook.posted)
            return "client_connected" in text and "hello" in text and "hooked" in text
        poll(posted, f"they are posted: {Hook.posted}", 15)
        self.assertNotIn("out/a", json.dumps(Hook.posted))

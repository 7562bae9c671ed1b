"""What applications hear: Reports and comings and goings, as a stream and by webhook."""

import hashlib
import hmac
import http.server
import json
import re
import socket
import threading
import time

from fixture import Case, Sse, poll
from miop import ERROR, REPORT_ACK

HOOK_SECRET = "0123456789abcdef"


class Receiver:
    """An application's HTTP server: answers with the given codes, then 200, and keeps all posts."""

    def __init__(self, codes=()):
        codes, self.posts = list(codes), []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(handler):
                body = handler.rfile.read(int(handler.headers["Content-Length"]))
                code = codes.pop(0) if codes else 200
                self.posts.append((code, handler.headers, body, time.time()))
                handler.send_response(code)
                handler.send_header("Content-Length", "0")
                handler.end_headers()

            def log_message(handler, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # a connection that the server let go
        self.url = f"http://127.0.0.1:{self.server.server_port}/events"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def taken(self):
        """Events of the posts that were answered with 200, in order."""
        return [event for code, _, body, _ in list(self.posts) if code == 200
                for event in json.loads(body)["events"]]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Stream(Case):
    def stream(self, query="", last=None):
        stream = Sse(self.server, query, last)
        self.addCleanup(stream.close)
        self.assertEqual((stream.status, stream.type), (200, "text/event-stream"))
        return stream

    def test_a_report_is_acknowledged_and_streamed(self):
        stream = self.stream("?type=report")
        device = self.bound(self.name)
        device.report(1, b"21.5")
        self.assertEqual(device.expect(REPORT_ACK)["report_seq"], 1)
        device.report(2, b"\xff\x00")
        self.assertEqual(device.expect(REPORT_ACK)["report_seq"], 2)
        (kind, first, fields), (_, second, _) = stream.wait(2)
        self.assertEqual((kind, first["type"], first["product"], first["device"], first["seq"]),
                         ("report", "report", "demo", self.name, 1))
        self.assertEqual((first["body"], first["body_base64"]), ("21.5", "MjEuNQ=="))
        self.assertEqual((second["seq"], second.get("body"), second["body_base64"]),
                         (2, None, "/wA="))
        self.assertEqual(first["epoch"], str(device.bound["session_epoch"]))
        self.assertEqual(fields["id"], first["id"])

    def test_the_first_events_after_a_stream_began_are_told(self):
        for at in range(5):
            stream = self.stream("?type=online")
            self.bound(f"{self.name}-{at}")
            stream.wait(1)
            stream.close()

    def test_online_and_offline_are_streamed_for_every_version(self):
        stream = self.stream("?type=online,offline")
        for version in (5, 6, 7):
            device = self.bound(f"{self.name}-{version}", version)
            device.unbind(f"{self.name}-{version}")
        events = stream.wait(6)
        self.assertEqual(
            [(kind, data["device"][-1], data.get("protocol") or data["reason"])
             for kind, data, _ in events],
            [each for v in "567"
             for each in (("online", v, f"miop{v}"), ("offline", v, "unbound"))])
        self.assertEqual([data["epoch"] for _, data, _ in events[::2]],
                         [data["epoch"] for _, data, _ in events[1::2]])

    def test_a_take_over_never_ends_in_an_offline_of_the_newer_session(self):
        stream = self.stream("?type=online,offline")
        older = self.bound(self.name)
        newer = self.bound(self.name, resume=None)
        older.until_closed()
        newer.ping()
        newer.unbind()
        events = stream.wait(4)
        last = {}
        for kind, data, _ in events:
            last.setdefault(int(data["epoch"]), []).append((kind, data.get("reason")))
        self.assertEqual(last[older.bound["session_epoch"]],
                         [("online", None), ("offline", "replaced")])
        self.assertEqual(last[newer.bound["session_epoch"]],
                         [("online", None), ("offline", "unbound")])

    def test_a_heartbeat_time_out_and_a_take_over_are_named_and_versions_rise(self):
        self.server.ask("PUT", "/v1/products/quick", {
            "app_id": 77, "anonymous": "loopback",
            "heartbeat_min_s": 1, "heartbeat_default_s": 1, "heartbeat_max_s": 1})
        stream = self.stream("?type=online,offline&product=quick")
        older = self.bound(self.name, product="quick")
        self.bound(self.name, product="quick", resume=None)
        older.until_closed()
        told = [(kind, data.get("reason"), data["version"]) for kind, data, _ in stream.wait(4)]
        self.assertEqual([(kind, reason) for kind, reason, _ in told], [
            ("online", None), ("offline", "replaced"),
            ("online", None), ("offline", "keep_alive_timeout")])
        versions = [version for _, _, version in told]
        self.assertEqual(versions, sorted(set(versions)))
        self.assertEqual({len(version) for version in versions}, {16})

    def test_a_resumed_session_is_told_as_such(self):
        first = self.bound(self.name)
        first.close()
        self.server.offline(self.name)
        stream = self.stream("?type=online")
        self.bound(self.name, resume=first.bound)
        (_, data, _), = stream.wait(1)
        self.assertTrue(data["resumed"])

    def test_receipts_tell_the_end_of_a_push_at_a_device(self):
        stream = self.stream("?type=pushed")
        device = self.bound(self.name)
        pushed = self.server.push(self.name, "receipt", receipts=True)
        device.receive()
        (_, data, _), = stream.wait(1)
        self.assertEqual((data["push"], data["outcome"]), (str(pushed["id"]), "delivered"))

    def test_a_stream_goes_on_after_the_last_event_it_had(self):
        stream = self.stream("?type=report")
        device = self.bound(self.name)
        for seq in (1, 2, 3):
            device.report(seq, b"r%d" % seq)
            device.expect(REPORT_ACK)
        first = stream.wait(3)[0][1]["id"]
        again = self.stream("?type=report", last=first)
        self.assertEqual([data["seq"] for _, data, _ in again.wait(2)], [2, 3])

    def test_reports_over_the_quota_are_refused_and_the_connection_stays(self):
        self.server.ask("PUT", "/v1/products/quiet", {
            "app_id": 3, "anonymous": "loopback", "reports_per_s": 1})
        device = self.bound(self.name, product="quiet")
        for seq in range(1, 21):
            device.report(seq, b"x")
        answers = [device.next()]
        while answers[-1]["report_seq"] < 20:
            answers.append(device.next())
        acked = [frame["report_seq"] for frame in answers if frame.opcode == REPORT_ACK]
        refused = [frame for frame in answers if frame.opcode == ERROR]
        self.assertIn(max(acked), (10, 11, 12))
        self.assertEqual(refused[0]["report_seq"], max(acked) + 1)
        device.ping()
        self.assertTrue(all(frame["result"] == 31 for frame in refused))
        self.assertEqual(self.server.count("reports_refused_total"), len(refused))

    def test_a_stream_that_comes_back_after_a_restart_is_told_of_a_gap(self):
        stream = self.stream("?type=online", last="1-1")
        kind, data, _ = stream.wait(1)[0]
        self.assertEqual((kind, data), ("gap", {"lost": None}))

    def test_one_stream_more_than_a_source_or_all_may_have_is_answered_busy(self):
        server = self.start()

        def streams(count, source):
            made = [Sse(server, source=source) for _ in range(count)]
            for stream in made:
                self.addCleanup(stream.close)
            return made

        first = streams(32, "127.0.0.1")
        self.assertEqual({stream.status for stream in first}, {200})
        status, answer = server.api("GET", "/v1/events")
        self.assertEqual((status, answer["error"]["code"]), (503, "busy"))
        self.assertEqual(server.headers["retry-after"], "1")
        # Another source still has half of all, which are 64.
        self.assertEqual({stream.status for stream in streams(32, "127.0.0.2")}, {200})
        self.assertEqual(streams(1, "127.0.0.3")[0].status, 503)
        first[0].close()
        poll(lambda: streams(1, "127.0.0.3")[0].status == 200, "there is room for one")

    def test_a_filter_of_an_unknown_type_is_an_error(self):
        status, answer = self.server.api("GET", "/v1/events?type=onlin")
        self.assertEqual((status, answer["error"]["code"]), (400, "bad_request"))
        self.assertIn("onlin", answer["error"]["message"])


class Webhooks(Case):
    SHARED = False

    def hooked(self, receiver, **more):
        self.addCleanup(receiver.close)
        hook = {"url": receiver.url, "secret": HOOK_SECRET, **more}
        lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in hook.items())
        return self.start(tail=f"[[webhook]]\n{lines}\n")

    def test_events_are_posted_signed_and_again_in_order_after_a_500(self):
        receiver = Receiver([500, 503])
        server = self.hooked(receiver)
        device = self.bound("hook", server=server)
        for seq in range(1, 6):
            device.report(seq, b"report %d" % seq)
            device.expect(REPORT_ACK)
        device.unbind()
        poll(lambda: len(receiver.taken()) >= 7, "all seven events are taken")
        events = receiver.taken()
        # Reports wait on stable storage and come by a way of their own.
        others = [e["type"] for e in events if e["type"] != "report"]
        self.assertEqual(others, ["online", "offline"])
        self.assertEqual([e["seq"] for e in events if e["type"] == "report"], [1, 2, 3, 4, 5])
        self.assertEqual([code for code, *_ in receiver.posts][:2], [500, 503])
        posted = [[e["id"] for e in json.loads(body)["events"]] for _, _, body, _ in receiver.posts]
        for refused in posted[:2]:
            again = [ids for ids in posted[2:] if ids[:len(refused)] == refused]
            self.assertTrue(again, "a batch that was refused comes again")
        for _, headers, body, _ in receiver.posts:
            fields = dict(part.split("=") for part in headers["Holdline-Signature"].split(","))
            signed = fields["t"].encode() + b"." + body
            mac = hmac.new(HOOK_SECRET.encode(), signed, hashlib.sha256).hexdigest()
            self.assertEqual(fields["v1"], mac)
            self.assertLess(abs(int(fields["t"]) - time.time()), 10)

    def test_the_first_event_on_each_shard_after_the_start_is_told(self):
        receiver = Receiver()
        self.addCleanup(receiver.close)
        server = self.start({"server": {"shards": 16}}, f'[[webhook]]\nurl = "{receiver.url}"\n')
        links = [self.bound(f"first-{at}", server=server) for at in range(64)]
        poll(lambda: len(receiver.taken()) >= len(links), "all of them are told")

    def test_a_webhook_hears_of_its_events_alone(self):
        receiver = Receiver()
        server = self.hooked(receiver, events=["report"], products=["demo"])
        server.ask("PUT", "/v1/products/other", {
            "app_id": 3, "anonymous": "loopback"})
        for product in ("other", "demo"):
            device = self.bound("filtered", server=server, product=product)
            device.report(1, product.encode())
            device.expect(REPORT_ACK)
        poll(receiver.taken, "an event is taken")
        self.assertEqual([(e["type"], e["body"]) for e in receiver.taken()], [("report", "demo")])

    def test_a_webhook_without_a_secret_is_not_signed(self):
        receiver = Receiver()
        server = self.hooked(receiver, secret="")
        device = self.bound("unsigned", server=server)
        device.unbind()
        poll(receiver.taken, "an event is taken")
        self.assertNotIn("Holdline-Signature", receiver.posts[0][1])

    def test_a_webhook_that_is_down_for_a_while_loses_nothing(self):
        receiver = Receiver()
        server = self.hooked(receiver)
        receiver.server.shutdown()
        receiver.server.socket.close()
        device = self.bound("down", server=server)
        device.report(1, b"while away")
        self.assertEqual(device.expect(REPORT_ACK)["report_seq"], 1)
        receiver.server.socket = socket.create_server(
            receiver.server.server_address, reuse_port=False)
        threading.Thread(target=receiver.server.serve_forever, args=(0.05,), daemon=True).start()
        poll(lambda: len(receiver.taken()) == 2, "both events are taken")
        self.assertEqual({e["type"] for e in receiver.taken()}, {"online", "report"})

    def test_what_was_not_taken_when_the_server_stopped_is_kept_and_posted_when_told(self):
        receiver = Receiver()
        server = self.hooked(receiver, events=["online", "offline"])
        receiver.server.shutdown()
        receiver.server.socket.close()
        self.bound("dead", server=server).unbind("dead")
        server.stop()
        receiver.server.socket = socket.create_server(
            receiver.server.server_address, reuse_port=False)
        threading.Thread(target=receiver.server.serve_forever, args=(0.05,), daemon=True).start()
        server.start()
        path = "/v1/webhooks/0/dead_letters"
        letters = server.ask("GET", path)["dead_letters"]
        self.assertEqual([(letter["why"], letter["event"]["type"]) for letter in letters],
                         [("server_stopped", "online"), ("server_stopped", "offline")])
        self.assertEqual(receiver.posts, [])
        answer = server.ask("POST", path + "/redeliver")
        self.assertEqual(answer, {"taken": 2, "left": 0, "failure": None})
        body = json.loads(receiver.posts[0][2])
        self.assertEqual((body["redelivered"], body["events"]),
                         (True, [letter["event"] for letter in letters]))
        hook, = server.ask("GET", "/v1/webhooks")["webhooks"]
        place = receiver.url.removesuffix("/events")
        self.assertRegex(hook["url"], f"^{re.escape(place)}/…[0-9a-f]{{6}}$")
        self.assertEqual(hook["dead_letters"]["count"], 0)

    def test_a_report_survives_a_webhook_that_is_away_and_a_killed_server(self):
        receiver = Receiver()
        server = self.hooked(receiver, events=["report"])
        receiver.server.shutdown()
        receiver.server.socket.close()
        device = self.bound("durable", server=server)
        for seq in range(1, 4):
            device.report(seq, b"kept %d" % seq)
            self.assertEqual(device.expect(REPORT_ACK)["report_seq"], seq)
        server.kill()
        receiver.server.socket = socket.create_server(
            receiver.server.server_address, reuse_port=False)
        threading.Thread(target=receiver.server.serve_forever, args=(0.05,), daemon=True).start()
        server.start()
        poll(lambda: len({e["id"] for e in receiver.taken()}) == 3, "all Reports are taken")
        self.assertEqual([e["body"] for e in receiver.taken()][:3], ["kept 1", "kept 2", "kept 3"])

    def test_reports_for_a_webhook_that_is_configured_no_more_are_dropped_and_told(self):
        server = self.start(tail='[[webhook]]\nurl = "http://127.0.0.1:1/"\n')
        device = self.bound("orphan", server=server)
        device.report(1, b"nobody takes it")
        device.expect(REPORT_ACK)
        server.stop()
        server.configure()
        server.start()
        server.logged("no longer configured")

    def test_a_reload_adds_and_removes_a_webhook_with_its_reports(self):
        receiver = Receiver()
        self.addCleanup(receiver.close)
        hook = f'[[webhook]]\nurl = "{receiver.url}"\nevents = ["report"]\n'
        # Reports for this one wait, and nobody takes them.
        gone = hook.replace(receiver.url, "http://127.0.0.1:1/")
        server = self.start(tail=gone)
        device = self.bound("live", server=server)

        def report(seq):
            device.report(seq, b"number %d" % seq)
            self.assertEqual(device.expect(REPORT_ACK)["report_seq"], seq)

        def reload(tail):
            server.configure(tail=tail)
            told = server.ask("POST", "/v1/configuration/reload")
            self.assertEqual((told["failed"], told["needs_restart"]), ([], []))

        report(1)
        reload(gone + hook)
        report(2)
        poll(lambda: receiver.taken(), "the new one gets it")
        reload(hook)
        self.assertEqual(len(server.ask("GET", "/v1/webhooks")["webhooks"]), 1)
        report(3)
        poll(lambda: len(receiver.taken()) == 2, "it goes on")
        reload("")
        report(4)
        self.assertEqual([e["seq"] for e in receiver.taken()], [2, 3])
        server.stop()
        log = server.log
        server.start()
        self.assertNotIn("no longer configured", server.log[len(log):], "nothing is left to drop")

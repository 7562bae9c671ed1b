"""Pushes that are cancelled or scheduled, over several shards, kills and other numbers of shards."""

import random
import threading
import time

import fixture
from fixture import Case, Sse, poll
from miop import MSG, REPORT_ACK


def shards(count):
    return {"server": {"shards": count, "pin": False}}


class Cancels(Case):
    SHARED = False

    def cancel(self, server, ident, **query):
        path = f"/v1/pushes/{ident}" + "".join(f"?{name}={value}" for name, value in query.items())
        return server.api("DELETE", path)

    def test_a_cancel_recalls_a_push_for_good_whatever_it_was_ordered_for(self):
        server = self.start(shards(3))
        names = [f"away-{at}" for at in range(30)]
        for name in names:
            server.ask("PUT", f"/v1/products/demo/devices/{name}/tags", {"tags": ["t"]})
        here = self.bound("here", server=server, tags=["t"])
        tagged = server.push(body="tagged", tag="t")["id"]
        here.ack(here.expect(MSG).records[0].id)
        poll(lambda: server.ask("GET", f"/v1/pushes/{tagged}")["counts"]["delivered"] == 1,
             "one device has it")
        listed = server.push(body="listed", devices=names)["id"]
        wanted = {tagged: (31, 1, 30), listed: (30, 0, 30)}
        for ident, of in wanted.items():
            status, answer = self.cancel(server, ident)
            self.assertEqual((status, answer["id"], answer["state"]), (200, ident, "cancelled"))
            self.assertEqual(self.counts(answer), of)
        self.assertEqual(server.count("pushes_cancelled_total"), 60)
        for count in (3, 2):
            server.kill()
            server.configure(shards(count))
            server.start()
            self.assertEqual({server.state(name)["waiting"] for name in names}, {0})
            for ident, of in wanted.items():
                for method in ("GET", "DELETE"):
                    answer = server.ask(method, f"/v1/pushes/{ident}")
                    self.assertEqual((answer["state"], self.counts(answer)), ("cancelled", of))
        self.quiet(self.bound(names[0], server=server), server)

    def counts(self, answer):
        counts = answer["counts"]
        self.assertEqual((counts["pending"], counts["stored"], counts["running"]), (0, 0, False))
        return tuple(counts[name] for name in ("matched", "delivered", "cancelled"))

    def test_a_kill_at_any_moment_leaves_each_cancel_whole_or_undone_and_those_answered_done(self):
        server = self.start(shards(3))
        names = [f"away-{at}" for at in range(12)]
        for name in names:
            server.ask("PUT", f"/v1/products/demo/devices/{name}/tags", {"tags": ["t"]})
        dice, queued, done = random.Random(48), 0, 0
        for _ in range(6):
            pushes = [server.push(body="b", devices=names) for _ in range(4)]
            pushes += [server.push(body="b", tag="t", wait_ms=5000) for _ in range(4)]
            idents, answered = [push["id"] for push in pushes], []
            dice.shuffle(idents)

            def cancels():
                for ident in idents:
                    try:
                        answered.append((ident, self.cancel(server, ident)[0]))
                    except OSError:
                        return  # it was killed

            thread = threading.Thread(target=cancels)
            thread.start()
            time.sleep(dice.random() * 0.08)
            server.kill()
            thread.join()
            server.start()
            self.assertEqual({status for _, status in answered} - {200}, set())

            def left():
                """Those that are not cancelled; nothing of the others waits anywhere."""
                states = {ident: server.api("GET", f"/v1/pushes/{ident}") for ident in idents}
                whole = [ident for ident, (status, told) in states.items()
                         if status == 404 or told["state"] != "cancelled"]
                waiting = sum(server.state(name)["waiting"] for name in names)
                return whole if waiting == queued + len(whole) * len(names) else None

            whole = poll(lambda: (left(),) if left() is not None else None, "whole or undone")[0]
            self.assertEqual(set(whole) & {ident for ident, _ in answered}, set())
            queued, done = queued + len(whole) * len(names), done + len(answered)
        self.assertGreater(done, 0)

    def test_a_cancel_of_an_unknown_push_or_one_of_another_product_changes_nothing(self):
        server = self.start({**shards(2), "products.two": {"app_id": 2}})
        kept = server.push("d", "kept")
        for ident, query in ((kept["id"], {"product": "two"}), (77, {}), (kept["id"] + 1, {})):
            status, answer = self.cancel(server, ident, **query)
            self.assertEqual((status, answer["error"]["code"]), (404, "unknown_push"))
        self.assertEqual(self.cancel(server, "x")[0], 400)
        self.assertEqual(server.state("d")["waiting"], 1)
        self.assertEqual(self.cancel(server, kept["id"], product="demo")[0], 200)
        self.assertEqual(server.state("d")["waiting"], 0)


class Pauses(Case):
    SHARED = False

    def test_a_slow_push_is_paused_over_a_kill_and_resumed(self):
        server = self.start(shards(2))
        names = [f"away-{at}" for at in range(20)]
        for name in names:
            server.ask("PUT", f"/v1/products/demo/devices/{name}/tags", {"tags": ["t"]})
        push = server.push(body="slow", tag="t", devices_per_s=4)["id"]

        def now():
            answer = server.ask("GET", f"/v1/pushes/{push}")
            return answer["state"], answer["counts"]["matched"]

        poll(lambda: now()[1] >= 4, "some have it")
        answer = server.ask("POST", f"/v1/pushes/{push}/pause")
        self.assertEqual(answer["state"], "paused")
        matched = answer["counts"]["matched"]
        self.assertLess(matched, 20)
        server.kill()
        server.configure(shards(3))
        server.start()
        time.sleep(1)
        self.assertEqual(now(), ("paused", matched))
        self.assertEqual(server.push(names[0], "single")["outcome"], "stored")
        answer = server.ask("POST", f"/v1/pushes/{push}/resume?product=demo")
        self.assertEqual(answer["state"], "running")
        poll(lambda: now() == ("finished", 20), "all have it")
        waiting = sum(server.state(name)["waiting"] for name in names)
        self.assertEqual(waiting, 21)
        status, answer = server.api("POST", "/v1/pushes/77/pause")
        self.assertEqual((status, answer["error"]["code"]), (404, "unknown_push"))
        status, answer = server.api("POST", "/v1/pushes", {
            "product": "demo", "device": "d", "body": "b", "devices_per_s": 5})
        self.assertEqual(status, 400)


class Schedules(Case):
    SHARED = False

    def test_a_scheduled_push_is_sent_at_its_time_over_kills_and_not_once_it_is_cancelled(self):
        server = self.start(shards(3))
        names = [f"away-{at}" for at in range(12)]
        for name in names:
            server.ask("PUT", f"/v1/products/demo/devices/{name}/tags", {"tags": ["t"]})
        at_ms = int(time.time() * 1000) + 6000
        listed = server.push(body="listed", devices=names, send_at_ms=at_ms)
        tagged = server.push(body="tagged", tag="t", send_at_ms=at_ms)
        stopped = server.push(body="stopped", all=True, send_at_ms=at_ms)
        self.assertEqual({it["state"] for it in (listed, tagged, stopped)}, {"scheduled"})
        server.kill()
        server.configure(shards(2))
        server.start()
        server.ask("DELETE", f"/v1/pushes/{stopped['id']}")
        page = server.ask("GET", "/v1/pushes?state=scheduled")
        self.assertEqual({(it["id"], it["send_at_ms"]) for it in page["pushes"]},
                         {(listed["id"], at_ms), (tagged["id"], at_ms)})
        if time.time() * 1000 < at_ms - 500:
            self.assertEqual({server.state(name)["waiting"] for name in names}, {0})
        here = self.bound("here", server=server, tags=["t"])
        frame = here.expect(MSG, timeout=15)
        self.assertLess(abs(time.time() * 1000 - at_ms), 2000)
        self.assertEqual(frame.bodies, [b"tagged"])
        here.ack(frame.records[0].id)
        poll(lambda: {server.state(name)["waiting"] for name in names} == {2}, "each has both")
        poll(lambda: self.counts(server, tagged) == (13, 1, 12), "all are counted")
        self.assertEqual(self.counts(server, listed), (12, 0, 12))
        self.assertEqual(self.counts(server, stopped), (0, 0, 0))
        self.quiet(here, server)

    def counts(self, server, push):
        counts = server.ask("GET", f"/v1/pushes/{push['id']}")["counts"]
        return tuple(counts[name] for name in ("matched", "delivered", "stored"))

    def test_a_push_whose_time_came_while_the_server_was_down_is_sent_at_the_start(self):
        server = self.start(shards(2))
        at_ms = int(time.time() * 1000) + 1500
        for body, ttl_s in (("late", 3600), ("over", 1)):
            server.push(body=body, devices=["d"], send_at_ms=at_ms, ttl_s=ttl_s)
        server.kill()
        time.sleep(max(0, at_ms / 1000 + 2.5 - time.time()))
        server.start()
        self.assertEqual(self.bound("d", server=server).receive(), [b"late"])

    def test_a_time_that_makes_no_sense_is_refused_and_so_is_one_push_too_many(self):
        server = self.start({"limits": {"scheduled_max": 1, "schedule_s_max": 60}})
        now_ms = int(time.time() * 1000)
        order = {"product": "demo", "all": True, "body": "b"}
        for at_ms, why in ((now_ms - 1000, "has passed"), (now_ms + 90_000, "schedule_s_max")):
            status, answer = server.api("POST", "/v1/pushes", {**order, "send_at_ms": at_ms})
            self.assertEqual(status, 400)
            self.assertIn(why, answer["error"]["message"])
        later = {**order, "send_at_ms": now_ms + 50_000}
        server.ask("POST", "/v1/pushes", later)
        status, answer = server.api("POST", "/v1/pushes", later)
        self.assertEqual((status, answer["error"]["code"]), (409, "too_many_scheduled"))

    def test_the_command_line_schedules_lists_and_cancels(self):
        server = self.start()
        host, port = server.ports["api"]
        where = ["--url", f"http://{host}:{port}", "--data", server.data]

        def cli(*words):
            done = fixture.run("push", *words, *where)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        told = cli("--product", "demo", "--device", "d", "--at", at, "hello")
        ident = told.split()[1]
        self.assertIn("scheduled", told)
        listed = cli("list", "--state", "scheduled", "--product", "demo")
        self.assertRegex(listed, f"^{ident} scheduled +{at} +demo ")
        for action in ("cancel", "status"):
            self.assertIn("cancelled", cli(action, ident))
        self.assertEqual(cli("list", "--state", "scheduled"), "")
        done = fixture.run("push", "cancel", "77", *where)
        self.assertEqual((done.returncode, "unknown" in done.stderr), (1, True), done.stderr)


class Audiences(Case):
    SHARED = False

    def segment(self, server, name, tags):
        return server.ask("PUT", f"/v1/products/demo/segments/{name}", {"tags": tags})

    def tag(self, server, count):
        """Devices away-0, away-1, ...: even ones in berlin, every third one muted."""
        for at in range(count):
            tags = ["berlin"] * (at % 2 == 0) + ["muted"] * (at % 3 == 0)
            server.ask("PUT", f"/v1/products/demo/devices/away-{at}/tags", {"tags": tags})

    def waiting(self, server, count):
        return [at for at in range(count) if server.state(f"away-{at}")["waiting"] > 0]

    def test_an_audience_is_counted_and_then_reached_over_kills_and_other_numbers_of_shards(self):
        server = self.start(shards(3))
        self.tag(server, 24)
        self.segment(server, "loud", {"not": "muted"})
        server.kill()
        server.configure(shards(2))
        server.start()
        audience = {"tags": {"and": ["berlin", {"segment": "loud"}]}, "except": ["away-2"]}
        expected = [at for at in range(24) if at % 2 == 0 and at % 3 and at != 2]
        counted = server.push(audience=audience, dry_run=True)
        self.assertEqual((counted["matched"], counted["online"]), (len(expected), 0))
        self.assertEqual(self.waiting(server, 24), [])
        push = server.push(body="b", audience=audience)["id"]
        # The push keeps the segment as it was.
        self.segment(server, "loud", "muted")
        server.kill()
        server.start()

        def finished():
            answer = server.ask("GET", f"/v1/pushes/{push}")
            return answer["state"] == "finished" and answer["counts"]["stored"] == len(expected)

        poll(finished, "all have it")
        self.assertEqual(self.waiting(server, 24), expected)
        status, answer = server.api("POST", "/v1/pushes", {
            "product": "demo", "body": "b", "audience": {"tags": {"segment": "other"}}})
        self.assertEqual((status, answer["error"]["code"]), (404, "unknown_segment"))

    def test_a_long_list_is_uploaded_and_each_named_device_has_its_outcome(self):
        server = self.start(shards(3))
        here = self.bound("here", server=server)
        names = ["here"] + [f"listed-{at:05}" for at in range(20_000)]
        order = {"body": "b", "audience": {"devices": names + names[:5], "except": names[1:11]}}
        counted = server.push(dry_run=True, **order)
        self.assertEqual((counted["matched"], counted["online"]), (19_991, 1))
        self.assertEqual(counted["unknown"], 19_990)
        push = server.push(**order)["id"]
        here.ack(here.expect(MSG).records[0].id)

        def counts():
            return server.ask("GET", f"/v1/pushes/{push}")["counts"]

        poll(lambda: not counts()["running"] and counts()["pending"] == 0, "all are visited")
        self.assertEqual((counts()["matched"], counts()["delivered"]), (19_991, 1))
        self.assertEqual(counts()["stored"] + counts()["rejected"], 19_990)
        before = counts()
        server.kill()
        server.start()
        self.assertEqual(counts(), before)

    def test_a_repeated_order_outlives_its_segment_and_limits_are_refused(self):
        limits = {"lists_bytes_max": 60, "segments_a_product_max": 3}
        server = self.start({**shards(3), "limits": limits})
        self.tag(server, 4)
        self.segment(server, "loud", {"not": "muted"})

        def order(audience, key=None, **more):
            headers = {"Idempotency-Key": key} if key else {}
            body = {"product": "demo", "body": "b", "audience": audience, **more}
            status, answer = server.api("POST", "/v1/pushes", body, headers=headers)
            return status, answer["error"]["code"] if status >= 400 else answer["id"]

        loud = {"tags": {"and": ["berlin", {"segment": "loud"}]}}
        status, push = order(loud, "k")
        self.assertEqual(status, 200)
        poll(lambda: self.waiting(server, 4) == [2], "the one that is not muted has it")
        server.ask("DELETE", "/v1/products/demo/segments/loud")
        self.assertEqual(order(loud, "k"), (200, push))
        self.assertEqual(order({"tags": {"segment": "loud"}}, "k"), (409, "idempotency_conflict"))
        self.assertEqual(order(loud, "other"), (404, "unknown_segment"))
        server.kill()
        server.start()
        self.assertEqual(order(loud, "k"), (200, push))
        self.assertEqual(self.waiting(server, 4), [2])
        # 64 tags in a segment, and four such segments in an expression with one tag more.
        for name in ("s1", "s2", "s3"):
            self.segment(server, name, {"or": ["berlin"] * 64})
        status, answer = server.api("PUT", "/v1/products/demo/segments/s4", {"tags": "berlin"})
        self.assertEqual((status, answer["error"]["code"]), (409, "too_many_segments"))
        of = [{"segment": name} for name in ("s1", "s2", "s3")]
        self.assertEqual(order({"tags": {"and": of + ["berlin"] * 61}})[0], 200)
        status, answer = server.api("POST", "/v1/pushes", {
            "product": "demo", "body": "b", "audience": {"tags": {"and": of + of[:1] + ["x"]}}})
        self.assertEqual((status, answer["error"]["code"]), (400, "bad_request"))
        self.assertIn("257 tags", answer["error"]["message"])
        # 26 bytes a push with these two names.
        listed = {"devices": ["listed-11", "listed-12"]}
        later = {"send_at_ms": int(time.time() * 1000) + 600_000}
        first, second = (order(listed, **later) for _ in range(2))
        self.assertEqual((first[0], second[0]), (200, 200))
        self.assertEqual(order(listed), (409, "lists_full"))
        server.kill()
        server.start()
        self.assertEqual(order(listed), (409, "lists_full"))
        server.ask("DELETE", f"/v1/pushes/{first[1]}")
        poll(lambda: order(listed)[0] == 200, "each shard has closed the cancelled push")

    def test_the_command_line_saves_segments_counts_and_pushes_to_them(self):
        server = self.start(shards(2))
        self.tag(server, 6)

        host, port = server.ports["api"]
        where = ["--url", f"http://{host}:{port}", "--data", server.data]

        def cli(*words):
            answer = fixture.run(*words, *where)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            return answer.stdout

        product = ("--product", "demo")
        told = cli("segment", "save", *product, "calm", "not (muted or loud)")
        self.assertEqual(told.split(), ["calm", "not", "(muted", "or", "loud)"])
        self.assertIn("calm", cli("segment", "list", *product))
        told = cli("push", *product, "--tags", "@calm and berlin", "--dry-run", "x")
        self.assertTrue(told.startswith("2 devices, 0 online, 0 unknown; counted in"), told)
        self.assertIn('"matched":2', cli("push", *product, "--tags", "@calm and berlin", "x"))
        self.assertEqual(self.waiting(server, 6), [2, 4])
        self.assertIn("removed", cli("segment", "remove", *product, "calm"))
        answer = fixture.run("push", *product, "--tags", "@calm", "x", *where)
        self.assertEqual(answer.returncode, 1)
        self.assertIn("unknown segment calm", answer.stderr)


class Users(Case):
    SHARED = False

    def give(self, server, device, user):
        path = f"/v1/products/demo/devices/{device}/user"
        if user is None:
            return server.ask("DELETE", path)["user"]
        return server.ask("PUT", path, {"user": user})["user"]

    def test_connected_devices_get_what_is_for_their_tags_and_for_their_user(self):
        server = self.start(shards(3))
        names = ["phone", "tablet", "watch", "other"]
        seats = {name: self.bound(name, server=server) for name in names}
        for name in names:
            path = f"/v1/products/demo/devices/{name}/tags"
            server.ask("PUT", path, {"tags": ["berlin"] + ["small"] * (name == "watch")})
            self.give(server, name, "bob" if name == "other" else "ann")

        def delivered(**order):
            """Who gets a push, whose id is compared with that of every device's next message."""
            push = int(server.push(**order)["id"])
            done = server.push(body="all", all=True)["id"]
            got = []
            for name, seat in seats.items():
                ids = []
                while int(done) not in ids:
                    ids += [record.id for record in seat.expect(MSG).records]
                seat.ack(*ids)
                got += [name] * ids.count(push)
            return got

        expression = {"and": ["berlin", {"not": "small"}]}
        anns = ["phone", "tablet", "watch"]
        self.assertEqual(delivered(user="ann"), anns)
        self.assertEqual(delivered(user="ann", user_tags={"not": "small"}), anns[:2])
        self.assertEqual(delivered(audience={"user": "ann", "tags": expression}), anns[:2])
        self.assertEqual(delivered(audience={"tags": expression, "except": ["phone"]}),
                         ["tablet", "other"])
        self.assertEqual(delivered(audience={"devices": names, "tags": "small"}), ["watch"])
        self.give(server, "tablet", "bob")
        self.assertEqual(delivered(user="ann"), ["phone", "watch"])
        self.assertEqual(delivered(user="bob"), ["tablet", "other"])

    def test_a_push_goes_to_the_devices_of_a_user_until_they_change_hands(self):
        server = self.start(shards(3))
        names = [f"phone-{at}" for at in range(6)]
        for at, name in enumerate(names):
            self.give(server, name, "ann" if at < 4 else "bob")
        server.ask("PUT", f"/v1/products/demo/devices/{names[1]}/tags", {"tags": ["ios"]})

        def outcomes(**more):
            answer = server.push(user="ann", **more)
            return {it["device"]: it["outcome"] for it in answer["outcomes"]}

        self.assertEqual(outcomes(), dict.fromkeys(names[:4], "stored"))
        self.assertEqual(outcomes(user_tags="ios"), {names[1]: "stored"})
        here = self.bound(names[2], server=server)
        self.assertEqual(list(outcomes(last_active=True)), [names[2]])
        self.assertEqual(len(here.expect(MSG).records), 1)
        status, answer = server.api("POST", "/v1/pushes", {
            "product": "demo", "user": "nobody", "body": "b"})
        self.assertEqual((status, answer["outcomes"]), (200, []))
        # It changes hands: what is queued for the old user is gone, also after a kill.
        self.assertEqual(server.state(names[1])["waiting"], 2)
        self.assertEqual(self.give(server, names[1], "bob"), "bob")
        self.assertEqual(server.state(names[1])["waiting"], 0)
        self.assertEqual(self.give(server, names[0], None), None)
        server.kill()
        server.configure(shards(2))
        server.start()
        self.assertEqual([server.state(name)["waiting"] for name in names[:2]], [0, 0])
        owned = server.ask("GET", "/v1/products/demo/owners/bob/devices")["devices"]
        self.assertEqual({it["device"] for it in owned}, {names[1], *names[4:]})
        push = server.push(body="keyed", audience={"user": "bob"})["id"]
        poll(lambda: server.ask("GET", f"/v1/pushes/{push}")["counts"]["stored"] == 3, "stored")
        host, port = server.ports["api"]
        where = ["--url", f"http://{host}:{port}", "--data", server.data]
        told = fixture.run("device", "give", "demo", names[0], "bob", *where)
        self.assertIn("belongs to the user", told.stdout, told.stderr)
        told = fixture.run("push", "--product", "demo", "--user", "bob", "--wait", "0", "x", *where)
        self.assertEqual(told.stdout.count("stored"), 4, told.stderr)


class Tracked(Case):
    """Outcomes of a push at each device, over kills and other numbers of shards."""

    SHARED = False

    def lines(self, server, push, **query):
        """All lines, a few at a time."""
        lines, query = [], {"limit": 7, **query}
        while True:
            asked = "&".join(f"{name}={value}" for name, value in query.items())
            page = server.ask("GET", f"/v1/pushes/{push}/devices?{asked}")
            lines += [(line["device"], line["outcome"]) for line in page["devices"]]
            query["after"] = page["next"]
            if not page["more"]:
                return lines, page["next"]

    def test_each_device_has_its_lines_over_kills_and_another_number_of_shards(self):
        server = self.start(shards(3))
        names = [f"away-{at}" for at in range(30)]
        here = self.bound("here", server=server)
        push = server.push(body="hello", devices=[*names, "here"], track=True)["id"]
        here.ack(here.expect(MSG).records[0].id)
        poll(lambda: self.counts(server, push) == (31, 30, 1, 0), "all are stored or delivered")
        wanted = sorted([(name, "stored") for name in names] + [("here", "delivered")])
        poll(lambda: sorted(self.lines(server, push)[0]) == wanted, "each has a line")
        self.assertEqual(self.lines(server, push, outcome="delivered")[0], [("here", "delivered")])
        for count in (3, 2, 3):
            server.kill()
            server.configure(shards(count))
            server.start()
            self.assertEqual(self.counts(server, push), (31, 30, 1, 0))
            self.assertEqual(sorted(self.lines(server, push)[0]), wanted)
        _, after = self.lines(server, push)
        device = self.bound(names[0], server=server)
        device.ack(device.expect(MSG).records[0].id)
        poll(lambda: self.lines(server, push, after=after)[0] == [(names[0], "delivered")],
             "a reader that goes on gets what is new, and nothing else")
        minutes = server.ask("GET", f"/v1/pushes/{push}/minutes")["minutes"]
        self.assertEqual(sum(minute["stored"] for minute in minutes), 30)
        self.assertEqual(sum(minute["delivered"] for minute in minutes), 2)

    def counts(self, server, push):
        counts = server.ask("GET", f"/v1/pushes/{push}")["counts"]
        return tuple(counts[name] for name in ("matched", "stored", "delivered", "opened"))

    def test_devices_report_what_was_opened_over_both_ways(self):
        server = self.start(shards(2))
        stream = Sse(server, "?type=push_opened,push_dismissed")
        self.addCleanup(stream.close)
        device = self.bound("phone", server=server)
        push = server.push(body="hello", devices=["phone"], track=True)["id"]
        device.ack(device.expect(MSG).records[0].id)
        poll(lambda: self.lines(server, push)[0] == [("phone", "delivered")], "it is stored")
        body = b"\0miop\0\x01" + int(push).to_bytes(8, "big")
        device.report(1, body)
        self.assertEqual(device.expect(REPORT_ACK)["report_seq"], 1)
        token = server.ask("POST", "/v1/products/demo/devices/phone/token", {"ttl_s": 60})["token"]
        order = {"product": "demo", "device": "phone", "token": token, "push": push}
        for report in ("opened", "dismissed", "dismissed"):
            answer = server.api("POST", "/v1/reports", {**order, "report": report}, token="none")
            self.assertEqual(answer[0], 200, answer)
        wrong = {**order, "token": token[:-1] + "x", "report": "opened"}
        self.assertEqual(server.api("POST", "/v1/reports", wrong, token="none")[0], 401)
        told = [(kind, event["push"]) for kind, event, _ in stream.wait(2)]
        self.assertEqual(told, [("push_opened", push), ("push_dismissed", push)])
        server.kill()
        server.start()
        counts = server.ask("GET", f"/v1/pushes/{push}")["counts"]
        self.assertEqual((counts["delivered"], counts["opened"], counts["dismissed"]), (1, 1, 1))
        self.assertEqual(sorted(outcome for _, outcome in self.lines(server, push)[0]),
                         ["delivered", "dismissed", "opened"])

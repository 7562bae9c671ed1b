"""Devices of versions 5, 6 and 7 on plain TCP: bind, ping, push, acknowledge, and how it ends.

One server with two shards for all of them. Each test has devices of its own.
"""

import base64
import threading
import time

import miop
from fixture import SECRET, Case, poll
from miop import BIND_ACK, KICK, MSG, REDIRECT, RESUMED


class Basics(Case):
    def bind_ping_push_ack(self, version):
        name = f"basic-{version}"
        device = self.bound(name, version)
        device.ping()
        outcomes = []
        for at in range(3):
            pushed = self.server.push(name, f"hello {at}")
            outcomes.append(pushed["outcome"])
            frame = device.expect(MSG)
            self.assertEqual(frame.bodies, [f"hello {at}".encode()])
            record = frame.records[0]
            self.assertEqual((record.id, record.app_id), (pushed["id"], 1))
            device.ack(record.id)
            poll(lambda: self.server.state(name)["waiting"] == 0, "it is acknowledged")
        self.assertEqual(self.server.state(name)["protocol"], f"miop{version}")
        with self.server.closes(unbound=1):
            device.unbind(name)
            self.assertEqual(device.until_closed(), [])
        self.assertFalse(self.server.state(name)["online"])

    def test_version_5_binds_pings_and_acknowledges_a_push(self):
        self.bind_ping_push_ack(5)

    def test_version_6_binds_pings_and_acknowledges_a_push(self):
        self.bind_ping_push_ack(6)

    def test_version_7_binds_pings_and_acknowledges_a_push(self):
        self.bind_ping_push_ack(7)

    def test_a_push_waited_for_is_told_as_delivered(self):
        for version in (5, 6, 7):
            name = f"waited-{version}"
            device = self.bound(name, version)
            device.send(b"")
            answer = self.push_and_receive(device, name, "hello", wait_ms=5000)
            self.assertEqual(answer["outcome"], "delivered")

    def push_and_receive(self, device, name, body, **more):
        """Acknowledges from a thread of its own while the order waits."""
        thread = threading.Thread(target=device.receive)
        thread.start()
        answer = self.server.push(name, body, **more)
        thread.join()
        return answer

    def test_version_7_is_told_its_terms(self):
        ack = self.bound("terms").bound
        self.assertTrue(300 <= ack["heartbeat"] <= 330, ack)
        self.assertEqual((ack["max_frame"], ack["max_inflight"], ack["ack_timeout_ms"],
                          ack["offline_count"]), (65536, 32, 10000, 0))
        self.assertEqual(len(ack["resume_token"]), 32)
        self.assertGreater(ack["session_epoch"], 0)
        self.assertLess(abs(ack["server_time"] - miop.now_ms()), 5000)

    def test_a_wish_for_the_heartbeat_is_agreed_within_the_products_range(self):
        ack = self.bound("wish", wish=(60, 0, 62)).bound
        self.assertTrue(60 <= ack["heartbeat"] <= 62, ack)
        ack = self.bound("wish-short", wish=(1, 0, 0)).bound
        self.assertTrue(30 <= ack["heartbeat"] <= 33, ack)

    def test_a_classic_bind_ack_carries_the_app_id_of_the_bind(self):
        for version in (5, 6):
            answer = self.bound(f"app-{version}", version).bound
            self.assertEqual(answer.props, {"id": "demo", "r": "0"})

    def test_a_bind_may_end_with_an_empty_data_length(self):
        device = self.device(5)
        device.send(device.bind_frame_classic("trailing"))
        self.assertEqual(device.expect(BIND_ACK)["r"], "0")
        device.send(b"\0\0")
        device.send(b"\0\0")
        self.quiet(device)

    def test_frames_may_come_one_byte_at_a_time(self):
        device = self.device()
        for byte in device.bind_frame("bytewise"):
            device.send(bytes([byte]))
        self.assertEqual(device.expect(BIND_ACK)["result"], 0)

    def test_frames_may_come_merged(self):
        device = self.device()
        device.send(device.bind_frame("merged") + miop.frame7(miop.PING) * 3)
        device.expect(BIND_ACK)
        for _ in range(3):
            device.expect(miop.PONG)

    def test_version_7_unbinds_without_a_name(self):
        device = self.bound("unbind-7")
        device.unbind()
        self.assertEqual(device.until_closed(), [])
        self.assertEqual(self.server.offline("unbind-7")["reason"], "unbound")


class SeveralBinds(Case):
    CHANGES = {"server": {"shards": 4}, "limits": {"binds_a_connection_max": 8}}

    def test_devices_of_one_version_5_connection_live_on_several_shards_and_get_their_pushes(self):
        device = self.device(5)
        names = [f"several-{at}" for at in range(8)]
        for name in names:
            self.assertEqual(device.bind(name)["r"], "0")
        status = self.server.status()
        self.assertEqual((status["connections"], status["online"], status["shards"]), (1, 8, 4))
        ids = {self.server.push(name, f"to {name}")["id"]: f"to {name}" for name in names}
        got = {}
        for _ in names:
            frame = device.expect(MSG)
            got[frame.records[0].id] = frame.bodies[0].decode()
            device.ack(frame.records[0].id)
        self.assertEqual(got, ids)
        for name in names:
            poll(lambda name=name: self.server.state(name)["waiting"] == 0, f"{name} has it")
        device.close()
        for name in names:
            self.server.offline(name)

    def test_one_bind_more_than_the_limit_is_refused_and_the_others_stay(self):
        device = self.device(5)
        for at in range(8):
            self.assertEqual(device.bind(f"limit-{at}")["r"], "0")
        self.assertEqual(device.bind("limit-8")["r"], "31")
        device.ping()
        self.server.push("limit-0", "still here")
        self.assertEqual(device.receive(), [b"still here"])

    def test_one_of_several_unbinds_and_the_last_one_ends_the_connection(self):
        device = self.device(5)
        for name in ("one", "two"):
            device.bind(name)
        self.assertEqual(device.unbind("one")["r"], "0")
        self.server.offline("one")
        self.assertTrue(self.server.state("two")["online"])
        device.ping()
        device.unbind("two")
        self.assertEqual(device.until_closed(), [])

    def test_a_device_bound_again_over_the_same_connection_replaces_itself_in_silence(self):
        device = self.device(5)
        device.bind("again")
        first = int(self.server.state("again")["epoch"])
        device.bind("again")
        self.assertGreater(int(self.server.state("again")["epoch"]), first)
        device.ping()
        self.server.push("again", "once")
        self.assertEqual(device.receive(), [b"once"])
        device.ping()
        self.assertEqual(device.waiting, [])

    def test_one_of_several_that_is_taken_over_leaves_the_others_where_they_are(self):
        device = self.device(5)
        for name in ("moves", "stays"):
            device.bind(name)
        newer = self.bound("moves")
        self.assertEqual(device.expect(BIND_ACK)["r"], "40")
        device.ping()
        self.server.push("stays", "for the one that stayed")
        self.server.push("moves", "for the one that moved")
        self.assertEqual(device.receive(), [b"for the one that stayed"])
        self.assertEqual(newer.receive(), [b"for the one that moved"])
        device.ping()
        self.assertEqual(device.waiting, [])
        device.close()
        self.server.offline("stays")
        self.assertTrue(self.server.state("moves")["online"])

    def test_an_acknowledgement_counts_for_the_device_that_was_sent_the_push(self):
        device = self.device(5)
        for name in ("left", "right"):
            device.bind(name)
        answer = self.server.push(devices=["left", "right"], body="both")
        first, second = device.messages(2)
        self.assertEqual(first.records[0].id, second.records[0].id)
        self.assertEqual(first.records[0].id, int(answer["id"]))
        device.ack(first.records[0].id)
        for name in ("left", "right"):
            poll(lambda name=name: self.server.state(name)["waiting"] == 0, f"{name} has it")

    def test_a_second_bind_of_version_6_ends_the_connection(self):
        device = self.bound("six", 6)
        with self.server.closes(out_of_order=1):
            device.send(device.bind_frame_classic("six-b"))
            self.assertEqual(device.until_closed(), [])


class TakeOver(Case):
    def take_over(self, version):
        name = f"taken-{version}"
        older = self.bound(name, version)
        with self.server.closes(replaced=1):
            newer = self.bound(name)
            last = older.until_closed()
        state = self.server.state(name)
        self.assertTrue(state["online"])
        self.assertEqual(int(state["epoch"]), newer.bound["session_epoch"])
        newer.ping()
        self.server.push(name, "for the newer")
        self.assertEqual(newer.receive(), [b"for the newer"])
        return last, newer

    def test_a_newer_connection_kicks_an_older_one_of_version_7_and_stays_online(self):
        last, newer = self.take_over(7)
        self.assertEqual([frame.opcode for frame in last], [KICK])
        self.assertEqual(last[0]["result"], 40)
        self.assertEqual(last[0]["session_epoch"], newer.bound["session_epoch"])

    def test_a_newer_connection_kicks_an_older_one_of_version_5(self):
        last, _ = self.take_over(5)
        self.assertEqual([(frame.opcode, frame["r"]) for frame in last], [(BIND_ACK, "40")])

    def test_a_newer_connection_kicks_an_older_one_of_version_6(self):
        last, _ = self.take_over(6)
        self.assertEqual([(frame.opcode, frame["r"]) for frame in last], [(BIND_ACK, "40")])

    def test_what_the_older_connection_did_not_acknowledge_goes_to_the_newer_one_at_once(self):
        older = self.bound("moving")
        self.server.push("moving", "unacknowledged")
        older.expect(MSG)
        newer = self.bound("moving")
        frame = newer.expect(MSG)
        self.assertEqual(frame.bodies, [b"unacknowledged"])
        self.assertTrue(frame.dup)


class Sessions(Case):
    CHANGES = {"products.demo": {"offline_count_max": 5}}

    def test_a_session_is_resumed_and_what_was_unacknowledged_is_sent_again_with_dup(self):
        first = self.bound("resumed")
        one, two = (self.server.push("resumed", body)["id"] for body in ("one", "two"))
        first.messages(2)
        first.ack(one)
        first.ping()
        first.stream.reset()
        self.server.offline("resumed")
        second = self.device()
        answer = second.bind("resumed", resume=first.bound)
        self.assertEqual((answer["result"], answer["offline_count"]), (RESUMED, 1))
        frame = second.expect(MSG)
        self.assertEqual(([r.id for r in frame.records], frame.dup), ([two], True))
        second.ack(two)
        second.ping()
        self.assertEqual(self.server.state("resumed")["waiting"], 0)

    def test_a_resuming_bind_acknowledges_what_it_names(self):
        first = self.bound("named")
        ids = [self.server.push("named", f"{at}")["id"] for at in range(3)]
        first.messages(3)
        first.close()
        self.server.offline("named")
        second = self.device()
        answer = second.bind("named", resume=first.bound, last=ids[1])
        self.assertEqual(answer["offline_count"], 1)
        self.assertEqual(second.receive(), [b"2"])
        self.quiet(second)

    def test_a_wrong_resume_token_falls_back_to_the_main_proof(self):
        first = self.bound("fallback")
        forged = {**first.bound.props, "resume_token": bytes(32)}
        second = self.device()
        self.assertEqual(second.bind("fallback", resume=forged)["result"], 0)

    def test_no_more_than_the_window_is_unacknowledged(self):
        device = self.device()
        self.assertEqual(device.bind("window", inflight=2)["max_inflight"], 2)
        ids = [self.server.push("window", f"{at}")["id"] for at in range(5)]
        device.messages(2)
        device.ping()
        self.assertEqual(device.waiting, [], "a third one within a window of two")
        device.ack(ids[0])
        self.assertEqual(device.expect(MSG).records[0].id, ids[2])
        device.ack(last=ids[2])
        self.assertEqual([f.records[0].id for f in device.messages(2)], ids[3:])
        device.ack(*ids[3:])
        device.ping()
        self.assertEqual(self.server.state("window")["waiting"], 0)

    def test_a_ping_may_acknowledge(self):
        device = self.bound("ping-ack")
        self.server.push("ping-ack", "one")
        frame = device.expect(MSG)
        device.send(miop.frame7(miop.PING, {"last_msg_id": frame.records[0].id}))
        device.expect(miop.PONG)
        self.assertEqual(self.server.state("ping-ack")["waiting"], 0)

    def test_a_newer_push_with_the_same_collapse_key_replaces_the_older_one(self):
        before = self.server.count("pushes_collapsed_total")
        self.bound("collapse").close()
        self.server.offline("collapse")
        for body in ("old", "new"):
            answer = self.server.push("collapse", body, collapse_key="score")
            self.assertEqual(answer["outcome"], "stored")
        self.server.push("collapse", "other", collapse_key="weather")
        device = self.bound("collapse")
        self.assertEqual(device.bound["offline_count"], 2)
        frames = device.messages(2)
        self.assertEqual([frame.bodies[0] for frame in frames], [b"new", b"other"])
        self.assertEqual(frames[0].records[0].collapse, b"score")
        self.assertEqual(self.server.count("pushes_collapsed_total"), before + 1)

    def test_a_push_whose_time_is_over_is_not_delivered(self):
        before = self.server.count("pushes_expired_total")
        self.bound("expiry").close()
        self.server.offline("expiry")
        self.assertEqual(self.server.push("expiry", "short", ttl_s=1)["outcome"], "stored")
        self.server.push("expiry", "long", ttl_s=100)
        end = time.time() + 2
        poll(lambda: time.time() > end, "two seconds are over")
        device = self.bound("expiry")
        self.assertEqual(device.receive(), [b"long"])
        self.quiet(device)
        self.assertEqual(self.server.count("pushes_expired_total"), before + 1)

    def test_a_push_for_now_expires_when_the_device_is_away(self):
        self.bound("now").close()
        self.server.offline("now")
        self.assertEqual(self.server.push("now", "now or never", ttl_s=0)["outcome"], "expired")

    def test_a_record_tells_its_expiry_and_its_flags(self):
        device = self.bound("flags")
        self.server.push("flags", "x", ttl_s=1000, priority="high", silent=True, collapse_key="k")
        record = device.expect(MSG).records[0]
        self.assertTrue(record.high and record.silent)
        self.assertEqual(record.collapse, b"k")
        self.assertLess(abs(record.expire_at - (time.time() + 1000)), 5)

    def test_a_device_that_pulls_fetches_what_waits_page_by_page(self):
        self.bound("pull").close()
        self.server.offline("pull")
        ids = [self.server.push("pull", f"{at}")["id"] for at in range(5)]
        device = self.device()
        answer = device.bind("pull", caps=miop.CAPS_PULLS)
        self.assertEqual(answer["offline_count"], 5)
        self.quiet(device, why="stored pushes came by themselves")
        frames, remain = device.pull(count=2)
        self.assertEqual([f.records[0].id for f in frames], ids[:2])
        self.assertEqual(remain, 3)
        device.ack(*ids[:2])
        frames, remain = device.pull(after=ids[1], count=10)
        self.assertEqual([f.records[0].id for f in frames], ids[2:])
        self.assertEqual(remain, 0)
        device.ack(*ids[2:])
        device.ping()
        self.assertEqual(self.server.state("pull")["waiting"], 0)

    def test_a_push_without_a_byte_is_refused(self):
        for version in (5, 6, 7):
            device = self.bound(f"empty-{version}", version)
            order = {"product": "demo", "device": f"empty-{version}", "body": ""}
            status, answer = self.server.api("POST", "/v1/pushes", order)
            self.assertEqual((status, answer["error"]["code"]), (400, "bad_request"))
            self.server.push(f"empty-{version}", "full")
            self.assertEqual(device.receive(), [b"full"])

    def test_a_high_push_overtakes_normal_ones_that_wait(self):
        self.bound("high").close()
        self.server.offline("high")
        for body, priority in (("a", "normal"), ("b", "normal"), ("c", "high")):
            self.server.push("high", body, priority=priority)
        self.assertEqual(self.bound("high").receive(3), [b"c", b"a", b"b"])

    def test_every_byte_comes_as_it_was_pushed(self):
        device = self.bound("bytes")
        body = bytes(range(256)) * 16
        self.server.ask("POST", "/v1/pushes", {
            "product": "demo", "device": "bytes", "body_base64": base64.b64encode(body).decode()})
        self.assertEqual(device.receive(), [body])

    def test_a_full_queue_evicts_its_oldest_push_and_counts_it(self):
        before = self.server.count("pushes_evicted_total")
        self.bound("evict").close()
        self.server.offline("evict")
        for at in range(7):
            self.assertEqual(self.server.push("evict", f"{at}")["outcome"], "stored")
        device = self.bound("evict")
        self.assertEqual(device.receive(5), [b"2", b"3", b"4", b"5", b"6"])
        self.assertEqual(self.server.count("pushes_evicted_total"), before + 2)

    def test_an_unacknowledged_push_is_sent_again_with_dup_on_a_living_connection(self):
        device = self.bound("resend")
        self.server.push("resend", "again")
        first = device.expect(MSG)
        began = time.monotonic()
        second = device.expect(MSG)
        self.assertEqual((first.dup, second.dup), (False, True))
        self.assertEqual(first.records[0].id, second.records[0].id)
        self.assertGreater(time.monotonic() - began, 9)
        device.ack(first.records[0].id)
        device.ping()
        self.assertEqual(self.server.state("resend")["waiting"], 0)


class Many(Case):
    def test_a_push_to_a_tag_reaches_the_devices_that_carry_it(self):
        berlin = [self.bound(f"tag-{v}", v, **({"tags": ["berlin", "x"]} if v == 7 else {}))
                  for v in (5, 6, 7)]
        for version in (5, 6):
            self.server.ask("PUT", f"/v1/products/demo/devices/tag-{version}/tags",
                            {"tags": ["berlin"]})
        paris = self.bound("tag-paris", tags=["paris"])
        answer = self.server.push(body="closing", tag="berlin", wait_ms=2000)
        for device in berlin:
            self.assertEqual(device.receive(), [b"closing"])
        counts = poll(lambda: self.counts(answer["id"], delivered=3), "all three have it")
        self.assertEqual((counts["matched"], counts["pending"], counts["running"]), (3, 0, False))
        self.quiet(paris)
        self.assertEqual(self.server.state("tag-7")["tags"], ["berlin", "x"])

    def counts(self, ident, **wanted):
        counts = self.server.ask("GET", f"/v1/pushes/{ident}")["counts"]
        fits = all(counts[name] == value for name, value in wanted.items())
        return counts if fits else None

    def test_tags_of_a_later_bind_replace_those_of_an_earlier_one(self):
        self.bound("retag", tags=["a", "b"]).close()
        self.bound("retag").close()
        self.assertEqual(self.server.state("retag")["tags"], ["a", "b"])
        self.bound("retag", tags=[""]).close()
        self.assertEqual(self.server.state("retag")["tags"], [])

    def test_a_push_to_a_product_reaches_all_of_its_devices_and_is_stored_for_those_away(self):
        self.server.ask("PUT", "/v1/products/wide", {
            "app_id": 77, "anonymous": "loopback"})
        devices = [self.bound(f"wide-{at}", (5, 6, 7)[at % 3], product="wide")
                   for at in range(30)]
        self.bound("wide-away", product="wide").close()
        self.server.offline("wide-away", "wide")
        answer = self.server.push(product="wide", body="all of you", all=True)
        for device in devices:
            frame = device.expect(MSG)
            self.assertEqual((frame.bodies, frame.records[0].app_id), ([b"all of you"], 77))
            device.ack(frame.records[0].id)
        counts = poll(lambda: self.counts(answer["id"], delivered=30, stored=1), "all have it")
        self.assertEqual((counts["matched"], counts["pending"], counts["running"]), (31, 0, False))
        away = self.bound("wide-away", product="wide")
        self.assertEqual(away.receive(), [b"all of you"])

    def test_the_list_of_devices_is_filtered_and_paged(self):
        links = [self.bound(f"page-{at}", tags=["paged"]) for at in range(7)]
        links[0].close()
        self.server.offline("page-0")
        found, after = [], None
        while True:
            path = "/v1/devices?product=demo&tag=paged&online=true&limit=3"
            page = self.server.ask("GET", path + (f"&after={after}" if after else ""))
            self.assertLessEqual(len(page["devices"]), 3)
            found += [device["device"] for device in page["devices"]]
            after = page["next"]
            if not after:
                break
        self.assertEqual(sorted(found), [f"page-{at}" for at in range(1, 7)])

    def test_a_push_to_a_tag_nobody_carries_is_for_nobody(self):
        answer = self.server.push(body="x", tag="nobody", wait_ms=100)
        counts = poll(lambda: self.counts(answer["id"], running=False), "it has come to its end")
        self.assertEqual(counts["matched"], 0)

    def test_a_list_of_devices_has_an_outcome_for_each(self):
        self.server.ask("PUT", "/v1/products/list", {
            "app_id": 5, "anonymous": "loopback", "store_for_unknown": False})
        self.bound("here", product="list").close()
        self.server.offline("here", "list")
        answer = self.server.push(product="list", devices=["here", "never"])
        outcomes = {o["device"]: (o["outcome"], o.get("reason")) for o in answer["outcomes"]}
        self.assertEqual(outcomes, {
            "here": ("stored", None), "never": ("rejected", "unknown_device")})

    def test_a_change_of_the_products_heartbeat_is_told_to_devices_that_are_online(self):
        self.server.ask("PUT", "/v1/products/beat", {
            "app_id": 6, "anonymous": "loopback"})
        device = self.bound("beating", product="beat")
        classic = self.bound("beating-6", 6, product="beat")
        self.server.ask("PUT", "/v1/products/beat", {
            "heartbeat_min_s": 600, "heartbeat_default_s": 900, "heartbeat_max_s": 1000,
            "inflight_max": 7})
        frame = device.expect(miop.CONFIG)
        self.assertTrue(600 <= frame["heartbeat"] <= 1100, frame)
        self.assertEqual(frame["max_inflight"], 7)
        classic.ping()
        self.assertEqual(classic.waiting, [])


class Operator(Case):
    def test_a_kick_ends_the_connection_with_its_reason(self):
        expected = {5: (BIND_ACK, "41"), 6: (BIND_ACK, "41"), 7: (KICK, 41)}
        for version in (5, 6, 7):
            name = f"kick-{version}"
            device = self.bound(name, version)
            with self.server.closes(admin_kick=1):
                answer = self.server.ask("POST", f"/v1/products/demo/devices/{name}/kick")
                self.assertEqual(answer, {"was_online": True})
                last, = device.until_closed()
            self.assertEqual((last.opcode, last["r"] or last["result"]), expected[version])
            self.assertEqual(self.server.state(name)["reason"], "admin_kick")

    def test_nobody_goes_on_with_the_session_of_a_kicked_device(self):
        server = self.start({"products.strict": {
            "app_id": 2, "anonymous": "nowhere", "secrets": [{"key_id": 1, "hex": SECRET.hex()}]}})
        first = self.bound("kicked", product="strict", secret=SECRET, server=server)
        kick = "/v1/products/strict/devices/kicked/kick"
        self.assertEqual(server.ask("POST", kick), {"was_online": True})
        for restart in (False, True):
            if restart:
                server.kill()
                server.start()
            device = self.device(server=server)
            answer = device.bind("kicked", product="strict", resume=first.bound)
            self.assertEqual(answer["result"], 20)

    def test_a_kick_with_addresses_redirects(self):
        device = self.bound("redirect-7")
        classic = self.bound("redirect-5", 5)
        six = self.bound("redirect-6", 6)
        with self.server.closes(redirected=3):
            for name in ("redirect-7", "redirect-5", "redirect-6"):
                self.server.ask("POST", f"/v1/products/demo/devices/{name}/kick",
                                {"addrs": ["192.0.2.7:7001"]})
            last, = device.until_closed()
            told, = classic.until_closed()
            self.assertEqual(six.until_closed(), [], "version 6 would never come back")
        self.assertEqual((last.opcode, last["result"], last["addr"]),
                         (REDIRECT, 33, ["192.0.2.7:7001"]))
        self.assertEqual((told["r"], told["addr0"]), ("33", "192.0.2.7:7001"))

    def test_a_blocked_device_is_kicked_and_refused_until_it_is_unblocked(self):
        device = self.bound("blocked")
        self.server.ask("PUT", "/v1/products/demo/devices/blocked/block")
        last, = device.until_closed()
        self.assertEqual((last.opcode, last["result"]), (KICK, 24))
        with self.server.closes(device_blocked=2):
            self.assertEqual(self.device().bind("blocked")["result"], 24)
            self.assertEqual(self.device(6).bind("blocked")["r"], "24")
        answer = self.server.push("blocked", "no")
        self.assertEqual((answer["outcome"], answer["reason"]), ("rejected", "device_blocked"))
        self.server.ask("DELETE", "/v1/products/demo/devices/blocked/block")
        self.bound("blocked")

    def test_a_removed_product_kicks_its_devices_and_is_unknown_from_then_on(self):
        self.server.ask("PUT", "/v1/products/gone", {
            "app_id": 9, "anonymous": "loopback"})
        device = self.bound("guest", product="gone")
        self.server.ask("DELETE", "/v1/products/gone")
        last, = device.until_closed()
        self.assertEqual(last.opcode, KICK)
        self.assertEqual(self.device().bind("guest", product="gone")["result"], 23)

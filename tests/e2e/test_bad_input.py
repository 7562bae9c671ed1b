"""Frames that break the rules, peers that fall silent, floods: each with the answer it gets.

Every connection ends for one reason, which is counted once; what the server says before is what
docs/wire/miop.md says it says.
"""

import contextlib
import http.client
import json
import socket
import struct
import threading
import time

import miop
from fixture import Case
from miop import BIND, BIND_ACK, ERROR, KICK, PING, PONG, REPORT, classic, frame7


class Frames(Case):
    CHANGES = {"limits": {"bind_ms_max": 1000}}

    def ends(self, reason, data, said=(), version=7, bound=False):
        """These bytes end a connection for this reason; `said` is (result, reason) of an ERROR."""
        device = self.bound(self.name, version) if bound else self.device(version)
        with self.server.closes(**{reason: 1}):
            device.send(data)
            frames = device.until_closed()
        told = [(frame["result"], frame["reason"]) for frame in frames if frame.opcode == ERROR]
        self.assertEqual([frame.opcode for frame in frames], [ERROR] * len(said), frames)
        self.assertEqual(told, list(said))

    # -- truncated

    def test_a_frame_that_is_cut_off_by_the_end_is_counted_as_such(self):
        for version in (5, 6, 7):
            device = self.device(version)
            whole = device.bind_frame("cut") if version == 7 else device.bind_frame_classic("cut")
            with self.server.closes(peer_closed_mid_frame=1):
                device.send(whole[:-3])
                device.stream.socket.shutdown(socket.SHUT_WR)
                device.until_closed()

    def test_a_bound_device_that_ends_inside_a_frame_is_counted_and_goes_offline(self):
        for version, part in ((5, b"\0\5\0"), (6, b"\0\6\0\4\0\x17ack:"), (7, b"\0\7\1\4\0\0")):
            device = self.bound(self.name, version)
            with self.server.closes(peer_closed_mid_frame=1):
                device.send(part)
                device.close()
            self.assertEqual(self.server.offline(self.name)["reason"], "peer_closed_mid_frame")

    def test_lengths_that_do_not_fit_into_each_other_are_malformed(self):
        said = [(10, "bad_length")]
        self.ends("malformed", b"\0\7\1\2\0\0\0\0", said)  # a body without prop_len
        self.ends("malformed", b"\0\7\1\2\0\0\0\2\5\1", said)  # properties beyond the body
        self.ends("malformed", b"\0\7\1\2\0\0\0\3\2\1\5", said)  # a value beyond the properties
        self.ends("malformed", b"\0\7\1\2\0\0\0\3\x81\0\0", said)  # a varint that is too long
        self.ends("malformed", b"\0\7\1\2\0\0\0\6" + b"\xff" * 6, said)
        self.ends("malformed", b"\0\5\0\2\0\0", version=5)  # classic: an empty block

    # -- oversized: refused by the header, before the bytes have come

    def test_a_frame_too_large_before_the_bind_is_refused_by_its_header(self):
        self.ends("too_large", struct.pack(">HBBI", 7, 1, BIND, 4089), [(12, "too_large")])
        self.ends("too_large", struct.pack(">HBBI", 7, 1, BIND, 0xFFFFFFFF), [(12, "too_large")])
        self.ends("too_large", struct.pack(">HHH", 5, BIND, 4097), version=5)
        self.ends("too_large", struct.pack(">HHH", 6, BIND, 65535), version=6)

    def test_a_frame_too_large_after_the_bind_is_refused_by_its_header(self):
        self.ends("too_large", struct.pack(">HBBI", 7, 3, REPORT, 65529), [(12, "too_large")],
                  bound=True)
        self.ends("too_large", struct.pack(">HHH", 6, miop.MSG_ACK, 8193), version=6, bound=True)

    def test_the_largest_frame_allowed_is_taken(self):
        device = self.bound(self.name)
        seq = 1
        device.report(seq, b"x" * (65536 - 8 - 4 - 1))
        self.assertEqual(device.expect(miop.REPORT_ACK)["report_seq"], seq)

    # -- unknown version

    def test_versions_2_3_and_4_are_ended_without_a_word(self):
        for version in (2, 3, 4):
            self.ends("unknown_version", struct.pack(">HHH", version, BIND, 9), version=version)

    def test_a_newer_version_is_told_in_version_7_that_it_is_not_served(self):
        for version in (8, 9, 255):
            self.ends("unknown_version", struct.pack(">HBB", version, 0, BIND),
                      [(11, "newer_version")])

    def test_a_later_frame_of_another_version_ends_the_connection(self):
        self.ends("malformed", classic(6, PING), [(11, "version_changed")], bound=True)
        self.ends("malformed", frame7(PING), version=6, bound=True)
        self.ends("malformed", classic(6, PING), version=5, bound=True)

    # -- unknown opcode

    def test_an_unknown_opcode_ends_a_classic_connection_without_a_word(self):
        for version in (5, 6):
            for opcode in (8, 20, 21, 300):
                self.ends("unknown_opcode", struct.pack(">HH", version, opcode), version=version)
                self.ends("unknown_opcode", struct.pack(">HH", version, opcode), version=version,
                          bound=True)

    def test_an_unknown_opcode_of_version_7_is_told_and_the_connection_goes_on(self):
        device = self.device()
        for opcode in (18, 99, 255):
            device.send(frame7(opcode) + frame7(opcode, [(99, b"x")], b"payload"))
            for _ in range(2):
                frame = device.expect(ERROR)
                self.assertEqual((frame["result"], frame["reason"]), (10, "unknown_opcode"))
        self.assertEqual(device.bind(self.name)["result"], 0)
        device.send(frame7(200, payload=b"more"))
        self.assertEqual(device.expect(ERROR)["result"], 10)
        device.ping()

    # -- the rest of the table of faults

    def test_flags_that_are_kept_or_must_be_understood_end_the_connection(self):
        for flags, reason in ((0x80, "must_understand"), (0x08, "bad_flags"), (0x10, "bad_flags"),
                              (0x02, "bad_flags")):
            self.ends("malformed", struct.pack(">HBB", 7, flags, PING), [(10, reason)])
            self.ends("malformed", struct.pack(">HBB", 7, flags, 99), [(10, reason)])

    def test_a_flag_without_a_meaning_is_ignored(self):
        device = self.bound(self.name)
        device.send(struct.pack(">HBB", 7, 0x40 | 0x20 | 0x04, PING))
        device.expect(PONG)

    def test_properties_that_break_their_form_end_the_connection(self):
        name = [("device_id", "d"), ("product_key", "demo")]
        for props in ([(1, b"d"), (1, b"d")], name + [(3, b"short")], name + [(20, b"")],
                      name + [(122, b"x" * 513)]):
            self.ends("malformed", frame7(BIND, props), [(10, "bad_property")])
        self.ends("malformed", frame7(BIND, name + [(128, b"")]), [(10, "critical_property")])
        self.ends("malformed", frame7(BIND, name[:1]), [(10, "missing_property")])
        self.ends("malformed", frame7(BIND), [(10, "missing_property")])
        for bad in ("two words", "", "x" * 65, "ü"):
            self.ends("malformed", frame7(BIND, [("device_id", bad), name[1]]), [(10, "bad_name")])

    def test_unknown_properties_below_128_are_skipped(self):
        device = self.device()
        device.send(frame7(BIND, [(127, b"?" * 512), ("device_id", self.name), (100, b""),
                                  ("product_key", "demo")]))
        self.assertEqual(device.expect(BIND_ACK)["result"], 0)

    def test_classic_properties_that_break_their_form_end_the_connection(self):
        for block in (b"u", b":x", b"u:a@demo\n", b"u:\xff@demo"):
            data = struct.pack(">HHH", 6, BIND, len(block)) + block
            self.ends("malformed", data, version=6)
        for props in ({"t": 5}, {"u": "no at sign"}, {"u": "@demo"}, {"u": "a@demo", "t": "x"}):
            self.ends("malformed", classic(5, BIND, props), version=5)

    def test_frames_out_of_their_order_end_the_connection(self):
        said = [(10, "out_of_order")]
        for frame in (frame7(PING), frame7(miop.UNBIND), frame7(PONG), frame7(miop.AUTH)):
            self.ends("out_of_order", frame, said)
        self.ends("out_of_order", classic(6, PING), version=6)
        for frame in (frame7(BIND_ACK), frame7(KICK)):
            self.ends("out_of_order", frame, said, bound=True)
        device = self.device()
        second = device.bind_frame("again")
        self.ends("out_of_order", second, said, bound=True)
        self.ends("out_of_order", classic(5, PONG), version=5, bound=True)

    def test_a_report_without_a_number_and_an_empty_ack_end_the_connection(self):
        self.ends("malformed", frame7(REPORT, payload=b"x"), [(10, "missing_seq")], bound=True)
        self.ends("malformed", frame7(miop.MSG_ACK), [(10, "empty_block")], bound=True)
        self.ends("malformed", frame7(miop.MSG_ACK, payload=b"1234567"), [(10, "bad_record")],
                  bound=True)
        self.ends("malformed", frame7(miop.PULL, {"count": 0}), [(10, "bad_property")], bound=True)

    def test_bytes_between_classic_frames_that_are_not_four_zeros_end_the_connection(self):
        self.ends("malformed", b"\0\0\0\1", version=5, bound=True)

    def test_acknowledgements_of_nothing_are_harmless(self):
        for version in (5, 6, 7):
            device = self.bound(self.name, version)
            device.ack(1, 2**63, 2**64 - 1)
            device.ping()

    # -- a Bind that never comes

    def test_a_bind_that_never_comes_ends_the_connection_in_time(self):
        with self.server.closes(bind_timeout=1):  # nothing said: not even a protocol
            self.assertEqual(self.device().until_closed(), [])
        with self.server.closes(bind_timeout=1):
            device = self.device()
            device.send(b"\0\7")
            frames = device.until_closed()
            self.assertEqual([frame["result"] for frame in frames], [44])
        with self.server.closes(bind_timeout=2):
            for version in (5, 6):
                device = self.device(version)
                device.send(struct.pack(">H", version))
                self.assertEqual(device.until_closed(), [])

    def test_a_challenge_that_is_never_answered_ends_the_connection_in_time(self):
        self.server.ask("PUT", "/v1/products/strict", {
            "app_id": 4, "challenge": True,
            "secrets": [{"key_id": 1, "hex": "00" * 32}]})
        device = self.device()
        with self.server.closes(bind_timeout=1):
            device.send(device.bind_frame("x", "strict", secret=bytes(32)))
            device.expect(miop.CHALLENGE)
            self.assertEqual([frame["result"] for frame in device.until_closed()], [44])

    def test_a_dripping_bind_does_not_extend_its_time(self):
        device = self.device()
        frame, sent = device.bind_frame("dripping" * 6), 0
        with self.server.closes(bind_timeout=1):
            with contextlib.suppress(miop.Closed):
                for byte in frame:
                    device.send(bytes([byte]))
                    sent += 1
                    with contextlib.suppress(miop.Silence):
                        device.next(0.1)
                        break
                device.until_closed()
        self.assertLess(sent, len(frame))


class Silence(Case):
    """A heartbeat of one second, so that one and a half of it are soon over."""

    CHANGES = {"products.demo": {"heartbeat_min_s": 1, "heartbeat_default_s": 1,
                                 "heartbeat_max_s": 10}}

    def test_a_link_that_went_silent_is_ended_after_one_and_a_half_heartbeats(self):
        for version in (7, 6, 5):
            how = {"wish": (2, 0, 2)} if version == 7 else {"t": 2}
            device = self.bound(self.name, version, **how)
            began = time.monotonic()
            with self.server.closes(keep_alive_timeout=1):
                frames = device.until_closed()
            self.assertGreater(time.monotonic() - began, 2.5)
            if version == 7:
                self.assertEqual([(f.opcode, f["result"]) for f in frames], [(KICK, 42)])
            self.assertEqual(self.server.state(self.name)["reason"], "keep_alive_timeout")

    def test_a_device_that_pings_stays(self):
        device = self.bound(self.name, wish=(2, 2, 2))
        for _ in range(8):
            time.sleep(0.5)
            self.assertEqual(device.told(), [])
        self.assertTrue(self.server.state(self.name)["online"])

    def test_a_peer_that_vanished_behind_a_half_open_link_goes_offline(self):
        device = self.bound(self.name, wish=(1, 1, 1))
        # The client's kernel forgets the connection without a FIN or RST: repair mode.
        raw = device.stream.socket
        try:
            raw.setsockopt(socket.IPPROTO_TCP, 19, 1)  # TCP_REPAIR
        except OSError:
            self.skipTest("TCP_REPAIR is not permitted here; silence is tested above")
        raw.close()
        state = self.server.offline(self.name)
        self.assertEqual(state["reason"], "keep_alive_timeout")


class SlowConsumer(Case):
    CHANGES = {
        "limits": {"out_bytes_max": 131072},
        "mqtt": {"packet_bytes_max": 131072, "connect_bytes_max": 131072},
        "products.demo": {"inflight_max": 1024, "offline_count_max": 5000,
                          "offline_bytes_max": 100000000},
    }

    def test_a_device_that_reads_nothing_is_ended_and_memory_stays_bounded(self):
        memory = self.server.memory()
        device = self.device(receive_bytes=4096)
        device.bind(self.name)
        body = "x" * 4000
        with self.server.closes(slow_consumer=1):
            for _ in range(3000):
                self.server.push(self.name, body)
                if not self.server.state(self.name)["online"]:
                    break
        self.assertEqual(self.server.state(self.name)["reason"], "slow_consumer")
        waiting = self.server.state(self.name)["waiting"]
        self.assertGreater(waiting, 0)
        grown = self.server.memory() - memory
        self.assertLess(grown, 64 * 1024 * 1024, f"{waiting} pushes of 4 KB wait")
        device.close()

        reader = self.bound(self.name, inflight=100)
        self.assertEqual(reader.bound["offline_count"], waiting)
        self.assertEqual(set(reader.receive(waiting)), {body.encode()})


class Flood(Case):
    CHANGES = {"products.demo": {"offline_count_max": 100}, "store": {"fsync": "never"}}
    PUSHES, LINKS = 100_000, 16

    def test_100000_pushes_to_one_offline_device_stay_bounded_and_are_all_accounted_for(self):
        """Single orders, pipelined over sixteen connections that are kept."""
        self.bound("victim").close()
        self.server.offline("victim")
        before = self.server.status()["counters"]
        body = json.dumps({"product": "demo", "device": "victim", "body": "x" * 100}).encode()
        request = (b"POST /v1/pushes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                   b"Content-Length: %d\r\n\r\n%s" % (self.server.token.encode(), len(body), body))
        tally, failures, lock = {}, [], threading.Lock()

        def flood(count):
            try:
                order(count)
            except (OSError, IndexError, AssertionError) as error:
                failures.append(repr(error))

        def order(count):
            link = socket.create_connection(self.server.ports["api"], timeout=miop.DEADLINE_S)
            answers = link.makefile("rb")
            mine, left = {}, count
            while left:
                batch = min(left, 50)
                link.sendall(request * batch)
                for _ in range(batch):
                    status = int(answers.readline().split()[1])
                    length = 0
                    while (line := answers.readline()) not in (b"\r\n", b""):
                        if line.lower().startswith(b"content-length:"):
                            length = int(line.split(b":")[1])
                    answer = json.loads(answers.read(length))
                    if status not in (200, 503):
                        raise AssertionError(f"{status} {answer}")
                    key = answer["outcomes"][0]["outcome"] if status == 200 else status
                    mine[key] = mine.get(key, 0) + 1
                left -= batch
            link.close()
            with lock:
                for key, value in mine.items():
                    tally[key] = tally.get(key, 0) + value

        threads = [threading.Thread(target=flood, args=(self.PUSHES // self.LINKS,))
                   for _ in range(self.LINKS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(sum(tally.values()), self.PUSHES, tally)
        self.assertLessEqual(set(tally), {"stored", "rejected", 503}, tally)
        self.assertGreater(tally["stored"], 100)

        waiting = self.server.state("victim")["waiting"]
        self.assertEqual(waiting, 100)
        after = self.server.status()["counters"]
        grown = {name: after[name] - before[name] for name in after}
        ended = sum(grown[f"pushes_{how}_total"] for how in ("evicted", "rejected", "expired"))
        taken = self.PUSHES - tally.get(503, 0)
        self.assertEqual(ended + waiting, taken, (tally, grown))
        self.assertLess(self.server.memory(), 300 * 1024 * 1024)
        device = self.bound("victim")
        self.assertEqual(len(device.receive(100)), 100)
        device.ping()
        self.assertEqual(self.server.count("pushes_delivered_total")
                         - before["pushes_delivered_total"], 100)


class Api(Case):
    CHANGES = {"limits": {"push_bytes_max": 1000, "push_devices_max": 3},
               "api": {"body_ms_max": 2000}}

    def refused(self, status, code, *words, method="POST", path="/v1/pushes", **how):
        got, answer = self.server.api(method, path, **how)
        self.assertEqual(got, status, answer)
        self.assertEqual(answer["error"]["code"], code)
        for word in words:
            self.assertIn(word, answer["error"]["message"])

    def order(self, **more):
        return {"product": "demo", "device": "d", "body": "x", **more}

    def test_a_wrong_token_and_a_missing_one_are_told_apart(self):
        for path in ("/v1/status", "/metrics", "/v1/devices", "/v1/events", "/v1/products"):
            self.refused(401, "unauthorized", method="GET", path=path, token="")
            for token in ("wrong", self.server.token[:-1], self.server.token + "0"):
                self.refused(401, "wrong_token", method="GET", path=path, token=token)
        self.refused(401, "wrong_token", body=self.order(), token="wrong")

    def test_what_needs_no_token_needs_none(self):
        for path in ("/", "/healthz", "/openapi.json"):
            self.assertEqual(self.server.api("GET", path, token="")[0], 200)
        description = self.server.api("GET", "/openapi.json", token="")[1]
        self.assertTrue(description["openapi"].startswith("3.1"))

    def test_an_unknown_field_is_an_error_that_names_it(self):
        self.refused(400, "bad_request", "colapse_key", body=self.order(colapse_key="x"))
        self.refused(400, "bad_request", "nonsense", method="GET", path="/v1/devices?nonsense=1")
        self.refused(400, "bad_request", "nonsense", method="PUT", path="/v1/products/x",
                     body={"app_id": 1, "nonsense": True})

    def test_values_of_the_wrong_type_or_range_are_errors_that_name_the_field(self):
        self.refused(400, "bad_request", "ttl_s", body=self.order(ttl_s="long"))
        self.refused(400, "bad_request", "wait_ms", body=self.order(wait_ms=30001))
        self.refused(400, "bad_request", "priority", body=self.order(priority="urgent"))
        self.refused(400, "bad_request", "device", body=self.order(device="two words"))
        self.refused(400, "bad_request", "body_base64",
                     body={"product": "demo", "device": "d", "body_base64": "***"})

    def test_exactly_one_target_and_one_body_are_wanted(self):
        self.refused(400, "bad_request", body=self.order(tag="t"))
        self.refused(400, "bad_request", body={"product": "demo", "body": "x"})
        self.refused(400, "bad_request", body={"product": "demo", "device": "d"})

    def test_what_is_no_json_is_an_error(self):
        for raw in ("", "{", "[]", '{"product": "demo"', "\x00"):
            self.refused(400, "bad_request", raw=raw)

    def test_a_push_that_is_too_large_is_refused(self):
        self.refused(413, "too_large", "1000", body=self.order(body="x" * 1001))
        self.assertEqual(self.server.push("d", "x" * 1000)["outcome"], "stored")

    def test_a_request_that_is_too_large_is_refused_before_it_was_read(self):
        link = http.client.HTTPConnection(*self.server.ports["api"], timeout=miop.DEADLINE_S)
        self.addCleanup(link.close)
        link.putrequest("POST", "/v1/pushes")
        link.putheader("Authorization", f"Bearer {self.server.token}")
        link.putheader("Content-Length", str(1 << 40))
        link.endheaders()
        answer = link.getresponse()
        self.assertEqual(answer.status, 413)
        self.assertEqual(json.loads(answer.read())["error"]["code"], "too_large")

    def test_a_list_that_is_too_long_is_refused(self):
        self.refused(400, "bad_request", "devices", "3", body={
            "product": "demo", "devices": ["a", "b", "c", "d"], "body": "x"})

    def test_what_is_unknown_is_told_apart(self):
        self.refused(404, "unknown_product", body=self.order(product="none"))
        self.refused(404, "unknown_device", method="GET", path="/v1/products/demo/devices/none")
        self.refused(404, "unknown_push", method="GET", path="/v1/pushes/1")
        self.refused(404, "unknown_path", method="GET", path="/v1/nothing")
        self.refused(405, "method_not_allowed", method="DELETE", path="/v1/pushes")

    def test_a_name_with_a_slash_is_percent_encoded_in_a_path(self):
        self.bound("a/b").ping()
        self.assertTrue(self.server.state("a%2Fb")["online"])

    def test_a_body_that_does_not_come_is_not_waited_for_without_end(self):
        link = socket.create_connection(self.server.ports["api"], timeout=miop.DEADLINE_S)
        self.addCleanup(link.close)
        link.sendall(b"POST /v1/pushes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                     b"Content-Length: 10\r\n\r\n{" % self.server.token.encode())
        self.assertIn(b" 408 ", link.recv(4096).split(b"\r\n")[0])

"""What the data folder keeps: over kills, other numbers of shards, copies and missing products."""

import json
import os
import tempfile
import unittest

import fixture
from fixture import SECRET, Case, poll
from miop import BIND_ACK, CHALLENGE

KEPT = {"limits": {"push_bytes_max": 60000},
        "products.demo": {"offline_count_max": 5000, "offline_bytes_max": 100000000}}


def tool(*words, **how):
    done = fixture.run("store", *words, **how)
    return done.returncode, done.stdout + done.stderr


def shards(count, **more):
    return {**KEPT, "server": {"shards": count, "pin": False}, **more}


class Store(Case):
    SHARED = False

    def order(self, server, key, **order):
        order = {"product": "demo", "body": "b", **order}
        return server.api("POST", "/v1/pushes", order, headers={"Idempotency-Key": key})

    def test_a_list_over_several_shards_repeated_after_a_kill_is_stored_once(self):
        server = self.start(shards(3))
        names = [f"list-{at}" for at in range(30)]
        status, first = self.order(server, "once", devices=names)
        self.assertEqual((status, {o["outcome"] for o in first["outcomes"]}), (200, {"stored"}))
        for end in (server.kill, server.stop):
            end()
            server.start()
            status, again = self.order(server, "once", devices=names[::-1])
            self.assertEqual((status, again["id"]), (200, first["id"]))
            self.assertEqual(self.order(server, "once", devices=names, body="c")[0], 409)
            self.assertEqual(self.order(server, "once", devices=names[1:])[0], 409)
            self.assertEqual({server.state(name)["waiting"] for name in names}, {1})

    def test_everything_moves_over_changes_of_the_number_of_shards_and_kills(self):
        server = self.start(shards(2))
        names = [f"move-{at}" for at in range(20)]
        ids = {name: [server.push(name, f"{at} " + "x" * 9000)["id"] for at in range(3)]
               for name in names}
        server.ask("PUT", "/v1/products/demo/devices/move-1/tags", {"tags": ["berlin"]})
        server.ask("PUT", "/v1/products/demo/devices/bad/block")
        for count in (5, 1, 3):
            server.kill()
            server.configure(shards(count))
            server.start()
        self.assertEqual(server.state("move-1")["tags"], ["berlin"])
        self.assertTrue(server.state("bad")["blocked"])
        for name in names:
            device = self.bound(name, server=server)
            came = [record.id for frame in device.messages(3) for record in frame.records]
            self.assertEqual(came, ids[name])

    def test_what_belongs_to_a_product_that_one_start_lacks_is_kept(self):
        with_it = {"products.two": {"app_id": 2, "anonymous": "loopback"}}
        server = self.start(with_it)
        server.push("d", "kept", product="two")
        server.ask("PUT", "/v1/products/two/devices/bad/block")
        for changes in ({}, shards(3), with_it):
            server.stop()
            server.configure(changes)
            server.start()
        self.assertEqual(self.bound("d", server=server, product="two").receive(), [b"kept"])
        self.assertTrue(server.state("bad", "two")["blocked"])

    def test_products_put_and_dropped_are_so_after_a_kill(self):
        server = self.start()
        for at in range(4):
            server.ask("PUT", f"/v1/products/p{at}", {"app_id": 100 + at})
            server.push("d", "x", product=f"p{at}")
            if at % 2:
                server.ask("DELETE", f"/v1/products/p{at}")
            server.kill()
            server.start()
        keys = {each["key"] for each in server.ask("GET", "/v1/products")["products"]}
        self.assertEqual(keys, {"demo", "p0", "p2"})
        server.ask("PUT", "/v1/products/p1", {"app_id": 101})
        self.assertIsNone(server.state("d", "p1"), "nothing of the dropped one is left")
        self.assertEqual(server.state("d", "p2")["waiting"], 1)

    def test_a_secret_that_the_api_rotated_is_so_after_a_restart_until_the_file_is_changed(self):
        def file(secret):
            return shards(2, **{"products.strict": {
                "app_id": 2, "anonymous": "nowhere", "secrets": [{"key_id": 1, "hex": secret}]}})
        leaked, rotated, changed = (bytes([at] * 32) for at in (1, 2, 3))
        server = self.start(file(leaked.hex()))

        def good(case, secret):
            device = case.device(server=server)
            device.send(device.bind_frame("d", "strict", secret=secret))
            answer = device.next()
            if answer.opcode == CHALLENGE:  # it may have been signed before the start
                device.answer_challenge(answer)
                answer = device.next()
            return answer["result"] == 0

        self.assertTrue(good(self, leaked))
        server.ask("PUT", "/v1/products/strict",
                   {"secrets": [{"key_id": 1, "hex": rotated.hex()}]})
        for end in (None, server.kill, server.stop):
            if end:
                end()
                server.start()
            self.assertEqual((good(self, leaked), good(self, rotated)), (False, True))
        server.stop()
        server.configure(file(changed.hex()))
        server.start()
        self.assertEqual([good(self, each) for each in (leaked, rotated, changed)],
                         [False, False, True])

    def test_a_signed_bind_is_not_taken_again_after_a_restart(self):
        server = self.start({"products.strict": {
            "app_id": 2, "anonymous": "nowhere", "secrets": [{"key_id": 1, "hex": SECRET.hex()}]}})
        first = self.device(server=server)
        frame = first.bind_frame("d", "strict", secret=SECRET)
        first.send(frame)
        self.assertEqual(first.expect(BIND_ACK)["result"], 0)
        server.kill()
        server.start()
        again = self.device(server=server)
        again.send(frame)
        self.assertEqual(again.next().opcode, CHALLENGE)

    def test_a_copy_of_a_running_server_serves_and_is_independent(self):
        server = self.start(shards(2, store={"segment_bytes": 1048576}))
        for at in range(400):
            server.push(f"copy-{at % 10}", "x" * 5000)
        copy = os.path.join(server.folder, "copy")
        server.ask("POST", "/v1/backup", {"to": copy})
        server.push("copy-1", "after")
        other = self.start(shards(2), data=copy)
        self.assertEqual(other.status()["waiting"], 400)
        self.bound("copy-0", server=other).receive(40)
        other.stop()
        server.kill()
        self.assertEqual(tool("check", "--data", server.data)[0], 0)
        server.start()
        self.assertEqual(server.status()["waiting"], 401)

    def test_a_damaged_message_costs_itself_and_a_salvaged_folder_serves(self):
        server = self.start(shards(1, store={"segment_bytes": 1048576}))
        for at in range(400):
            server.push(f"salvage-{at % 10}", f"{at:04} " + "x" * 5000)
        server.stop()
        segment = os.path.join(server.data, "log-00", "0000000001.log")
        with open(segment, "r+b") as file:
            at = file.read().index(b"0007 xxx")
            file.seek(at)
            file.write(b"!")
        export, made = (os.path.join(server.folder, name) for name in ("export", "salvaged"))
        code, said = tool("export", export, "--data", server.data)
        self.assertEqual((code, "1 messages are unreadable" in said), (1, True), said)
        self.assertIn(f"{segment} byte ", said)
        with open(export, encoding="utf-8") as file:
            self.assertEqual(json.loads(file.readlines()[-1])["entries"], 399)
        code, said = tool("salvage", made, "--data", server.data)
        self.assertEqual((code, "1 messages lost" in said), (1, True), said)
        self.assertEqual(tool("check", "--data", made)[0], 0)
        code, said = tool("salvage", os.path.join(server.folder, "again"), "--data", made)
        self.assertEqual((code, "nothing is missing" in said), (0, True), said)
        other = self.start(shards(1), data=made)
        self.assertEqual(other.status()["waiting"], 399)

    def test_an_export_that_is_cut_is_not_imported(self):
        server = self.start()
        server.push("d", "x")
        server.stop()
        path = os.path.join(server.folder, "export")
        self.assertEqual(tool("export", path, "--data", server.data)[0], 0)
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
        self.assertEqual(json.loads(lines[-1])["entries"], 1)
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(lines[:-1])
        made = os.path.join(server.folder, "made")
        code, said = tool("import", path, "--data", made)
        self.assertEqual((code, "ends before its last line" in said), (2, True), said)
        self.assertFalse(os.path.exists(os.path.join(made, "FORMAT")))

    def test_what_belongs_to_a_product_that_a_sighup_takes_away_is_kept(self):
        with_it = {"products.two": {"app_id": 2, "anonymous": "loopback"}}
        server = self.start(with_it)
        server.ask("PUT", "/v1/products/two/devices/bad/block")
        server.turn_page()
        server.configure({})
        server.signal(1)
        server.logged("this product is no longer configured")
        self.assertTrue((server.state("bad", "two") or {}).get("blocked"))
        server.stop()
        server.start()
        self.assertIsNone(server.state("bad", "two"))
        server.stop()
        server.configure(with_it)
        server.start()
        self.assertTrue((server.state("bad", "two") or {}).get("blocked"))

    @unittest.skipUnless(fixture.mounts_are_permitted(), "no mount namespaces: NOT TRIED")
    def test_a_full_disk_with_one_large_segment_has_room_again(self):
        folder = tempfile.mkdtemp(prefix="holdline-full-")
        self.addCleanup(os.rmdir, folder)
        script = 'mount -t tmpfs -o size=5m none "$0" && exec "$@"'
        server = self.start(KEPT, data=os.path.join(folder, "data"),
                            prefix=("unshare", "-m", "sh", "-c", script, folder))
        token = f"/proc/{server.pid}/root{folder}/data/api.token"
        with open(token, encoding="utf-8") as file:
            server.token = file.read().strip()
        stored = 0
        while stored < 3000 and server.push("away", "x" * 4000)["outcome"] == "stored":
            stored += 1
        self.bound("away", server=server).receive(stored)
        poll(lambda: server.state("away")["waiting"] == 0, "nothing waits any more")
        poll(lambda: all(server.push(f"later-{at}", "x" * 4000)["outcome"] == "stored"
                         for at in range(6)), "there is room")

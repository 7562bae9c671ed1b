"""The server as a process: configuration, signals, the data folder, addresses, descriptors."""

import glob
import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

import fixture
import miop
from certificates import Authority
from fixture import SECRET, Case, configuration, poll, run
from miop import BIND_ACK, GO_AWAY, Closed
from test_events import Receiver


class Check(Case):
    SHARED = False

    def check(self, text, env=None):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(text)
            file.flush()
            answer = run("check", "--config", file.name, env=env)
            return answer.returncode, answer.stdout, answer.stderr, file.name

    def wrong(self, text, *words, env=None):
        code, _, error, name = self.check(text, env)
        self.assertNotEqual(code, 0, "it was accepted")
        for word in words:
            self.assertIn(word.replace("FILE", name), error)
        return error

    def test_the_default_tree_is_printed_and_accepted_again(self):
        code, tree, _, _ = self.check("")
        self.assertEqual(code, 0)
        self.assertIn("connections_max", tree)
        code, again, error, _ = self.check(tree)
        self.assertEqual((code, again), (0, tree), error)

    def test_the_documented_file_is_accepted_and_means_the_same_as_no_file(self):
        file = os.path.join(fixture.ROOT, "holdline.toml")
        answer = run("check", "--config", file)
        self.assertEqual((answer.returncode, answer.stdout), (0, self.check("")[1]), answer.stderr)

    def test_a_bad_value_is_told_with_file_line_key_value_and_what_is_allowed(self):
        self.wrong('\n[limits]\nconnections_max = "5000"\n', "FILE:3:", "[limits] connections_max",
                   '"5000"', "must be a whole number from ", " to 100000000 (connections)")
        self.wrong('[store]\nfsync = "intervall"\n', "FILE:2:", "[store] fsync", '"intervall"',
                   '"always", "interval", "never"', 'did you mean "interval"?')
        self.wrong("[limits]\nbinds_per_s = 0\n", "FILE:2:", "binds_per_s", "= 0", "from 1 to")

    def test_an_unknown_key_and_an_unknown_section_are_errors(self):
        self.wrong("[limits]\nconections_max = 5\n", "FILE:2:", "[limits] conections_max",
                   "did you mean connections_max?")
        self.wrong("[limit]\nconnections_max = 5\n", "FILE:1:", "limit")

    def test_all_problems_are_told_at_once(self):
        error = self.wrong('[limits]\nbind_ms_max = -1\n[api]\naddress = "nowhere"\n', "FILE:2:",
                           "FILE:4:")
        self.assertEqual(len(error.strip().splitlines()), 2, error)

    def test_values_that_do_not_go_together_are_told(self):
        self.wrong("[limits]\nframe_bytes_max = 4096\npush_bytes_max = 4000\n",
                   "push_bytes_max", "frame_bytes_max")

    def test_a_file_that_is_no_toml_is_told_with_its_line(self):
        self.wrong("[limits]\nconnections_max 5\n", "FILE:2")

    def test_a_file_that_is_not_there_is_told(self):
        answer = run("check", "--config", "/nowhere/holdline.toml")
        self.assertNotEqual(answer.returncode, 0)
        self.assertIn("/nowhere/holdline.toml", answer.stderr)

    def test_secrets_are_never_printed(self):
        secret = "5ec7e75ec7e75ec7e75ec7e75ec7e75ec7e75ec7e75ec7e75ec7e75ec7e75ec7"
        token = "this-is-the-api-token"
        code, tree, _, _ = self.check(
            f'[api]\ntoken = "{token}"\n[products.x]\napp_id = 1\n'
            f'secrets = [{{ key_id = 1, hex = "{secret}" }}]\n')
        self.assertEqual(code, 0)
        self.assertNotIn(secret, tree)
        self.assertNotIn(token, tree)
        error = self.wrong('[products.x]\napp_id = 1\n'
                           f'secrets = [{{ key_id = 1, hex = "{secret}z" }}]\n', "hex")
        self.assertNotIn(secret, error)

    def test_the_environment_overrides_the_file(self):
        env = {"HOLDLINE_LIMITS_DRAIN_MS": "4321", "HOLDLINE_PRODUCTS_DEMO_ANONYMOUS": "nowhere"}
        code, tree, error, _ = self.check("[limits]\ndrain_ms = 1\n", env)
        self.assertEqual(code, 0, error)
        self.assertIn("drain_ms = 4321", tree)
        self.assertIn('anonymous = "nowhere"', tree)

    def test_a_variable_that_names_no_key_is_an_error(self):
        self.wrong("", "environment", "HOLDLINE_LIMITS_DRAIN:", "HOLDLINE_LIMITS_DRAIN_MS",
                   env={"HOLDLINE_LIMITS_DRAIN": "5"})

    def test_serve_refuses_what_check_refuses(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write("[limits]\nnonsense = 1\n")
            file.flush()
            answer = run("serve", "--config", file.name)
        self.assertNotEqual(answer.returncode, 0)
        self.assertIn(f"{file.name}:2:", answer.stderr)


class Start(Case):
    SHARED = False

    def refused(self, *words, changes=None, data=None, prefix=(), arguments=()):
        """A start that must fail quickly and say these words."""
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "holdline.toml")
            with open(file, "w", encoding="utf-8") as out:
                out.write(configuration(changes))
            data = data or os.path.join(folder, "data")
            answer = run("serve", "--config", file, "--data", data, *arguments, prefix=prefix)
        self.assertNotEqual(answer.returncode, 0)
        self.assertGreater(answer.returncode, 0, "it died of a signal")
        self.assertNotIn("panicked", answer.stderr)
        for word in words:
            self.assertIn(word, answer.stderr)
        return answer.stderr

    def test_the_environment_configures_a_server(self):
        server = self.start(env={"HOLDLINE_API_TOKEN": "token-from-environment"})
        server.token = "token-from-environment"
        self.assertEqual(server.api("GET", "/v1/status")[0], 200)

    def test_memory_is_in_small_pages_unless_the_kernel_is_let_choose(self):
        for changes, enabled in [(None, "0"), ({"server": {"huge_pages": True}}, "1")]:
            server = self.start(changes)
            with open(f"/proc/{server.pid}/status", encoding="utf-8") as file:
                lines = [line.split() for line in file if line.startswith("THP_enabled:")]
            # A kernel without huge pages says nothing of them.
            self.assertIn(lines, [[["THP_enabled:", enabled]], []])

    def test_a_port_in_use_is_told_with_the_address(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            self.refused(address, changes={"listen.any": {"address": address}})
            self.refused(address, changes={"api": {"address": address}})

    def test_a_port_of_another_holdline_is_told_with_the_address(self):
        server = self.start()
        address = "127.0.0.1:%d" % server.ports["any"][1]
        self.refused(address, changes={"listen.any": {"address": address}})

    def test_a_second_server_on_a_data_folder_is_refused_and_names_the_first_ones_pid(self):
        server = self.start()
        self.refused(server.data, str(server.pid), "--data", data=server.data)
        server.kill()
        server.start()  # the lock went with the process
        self.assertEqual(server.api("GET", "/v1/status")[0], 200)

    def test_too_low_a_descriptor_limit_is_refused_with_the_remedy(self):
        error = self.refused("may open 200 descriptors", "limits.crowd_max", "ulimit -n",
                             "LimitNOFILE", prefix=("prlimit", "--nofile=200:200"))
        need = int(error.split("Raise the limit to ")[1].split()[0])
        self.assertGreater(need, 2000)
        fits = {"limits": {"connections_max": 50, "crowd_max": 2},
                "server": {"descriptors_spare": 8}}
        server = self.start(fits, prefix=("prlimit", "--nofile=200:200"))
        self.bound("fits", server=server)

    @unittest.skipUnless(fixture.mounts_are_permitted(), "no mount namespaces: NOT TRIED")
    def test_a_data_folder_that_may_not_be_written_is_told_with_the_remedy(self):
        with tempfile.TemporaryDirectory() as folder:
            script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
            self.refused(folder, "--data", data=folder, prefix=(
                "unshare", "-m", "sh", "-c", script, folder))
            data = os.path.join(folder, "below")
            self.refused(data, "--data", data=data, prefix=(
                "unshare", "-m", "sh", "-c", script, folder))

    def test_a_file_in_the_data_folders_way_is_told(self):
        with tempfile.NamedTemporaryFile() as file:
            self.refused(file.name, "is not a folder", "--data", data=file.name)

    def test_a_folder_of_somebody_else_is_refused_and_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "thesis.doc"), "w", encoding="utf-8") as file:
                file.write("mine")
            self.refused("thesis.doc", data=folder)
            self.assertEqual(os.listdir(folder), ["thesis.doc"])

    @unittest.skipUnless(fixture.mounts_are_permitted(), "no mount namespaces: NOT TRIED")
    def test_a_disk_that_is_full_from_the_start_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            script = ('mount -t tmpfs -o size=64k none "$0" && mkdir "$0/data" && '
                      '{ dd if=/dev/zero of="$0/fill" bs=4k 2>/dev/null; exec "$@"; }')
            data = os.path.join(folder, "data")
            self.refused("no space left", data=data, prefix=(
                "unshare", "-m", "sh", "-c", script, folder))

    def test_damage_in_the_middle_of_a_log_is_told_with_the_byte(self):
        server = self.start()
        for at in range(3):
            server.push("away", f"{at}" * 100)
        server.kill()
        damaged = []
        for path in glob.glob(os.path.join(server.data, "log-*", "*.log")):
            with open(path, "r+b") as file:
                place = file.read().find(b"0" * 100)
                if place >= 0:
                    file.seek(place)
                    file.write(b"X")
                    damaged.append(path)
        self.assertEqual(len(damaged), 1)
        self.refused(damaged[0], "byte", data=server.data)
        check = subprocess.run([fixture.BINARY, "store", "check", "--data", server.data],
                               capture_output=True, text=True, check=False)
        self.assertEqual(check.returncode, 1, check)
        self.assertIn(damaged[0], check.stdout)

    def test_the_token_is_kept_in_the_data_folder_for_its_owner_alone(self):
        server = self.start()
        path = os.path.join(server.data, "api.token")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertEqual(os.stat(server.data).st_mode & 0o777, 0o700)
        first = server.token
        self.assertNotIn(first, server.welcome + server.log)
        server.stop()
        server.start()
        self.assertEqual(server.token, first)


class Durable(Case):
    SHARED = False

    def test_what_is_known_of_a_device_survives_a_stop(self):
        server = self.start()
        self.bound("leaving", version=6, server=server).close()
        poll(lambda: not server.state("leaving")["online"], "it is offline")
        self.bound("staying", server=server)
        before = server.state("leaving")
        server.stop()
        server.start()
        self.assertEqual(server.state("leaving"), before)
        self.assertFalse(server.state("staying")["online"])

    def test_the_tools_copy_a_folder_whole(self):
        server = self.start()
        for at in range(20):
            server.push(f"tool-{at}", "kept")
        def tool(*words):
            done = subprocess.run([fixture.BINARY, "store", *words], capture_output=True,
                                  text=True, check=False, env={"HOLDLINE_URL": "http://%s:%d" % server.ports["api"]})
            return done.returncode, done.stdout + done.stderr
        copies = [os.path.join(server.folder, name) for name in ("running", "stopped", "made")]
        self.assertEqual(tool("backup", copies[0], "--data", server.data)[0], 0)
        self.assertEqual(tool("check", "--data", server.data)[0], 2, "a server uses it")
        server.stop()
        self.assertEqual(tool("backup", copies[1], "--data", server.data)[0], 0)
        self.assertIn("is not empty", tool("restore", copies[0], "--data", server.data)[1])
        restored = os.path.join(server.folder, "restored")
        code, told = tool("restore", copies[0], "--data", restored)
        self.assertEqual((code, f"restored to {restored}" in told), (0, True), told)
        copies.append(restored)
        export = os.path.join(server.folder, "export.jsonl")
        self.assertEqual(tool("export", export, "--data", server.data)[0], 0)
        self.assertEqual(tool("import", export, "--data", copies[2], "--shards", "3")[0], 0)
        self.assertEqual(tool("compact", "--data", copies[1])[0], 0)
        for copy in copies:
            code, told = tool("check", "--data", copy)
            self.assertEqual((code, "20 messages" in told), (0, True), told)
        server.data = copies[2]
        server.start()
        self.assertEqual([server.state(f"tool-{at}")["waiting"] for at in range(20)], [1] * 20)

    def test_a_stored_push_survives_a_kill_and_is_delivered_once(self):
        server = self.start()
        ids = [server.push("away", f"kept {at}") for at in range(10)]
        self.assertEqual({push["outcome"] for push in ids}, {"stored"})
        server.kill()
        server.start()
        device = self.bound("away", server=server)
        self.assertEqual(device.bound["offline_count"], 10)
        frames = [device.expect(miop.MSG) for _ in range(10)]
        self.assertEqual([f.records[0].id for f in frames], [push["id"] for push in ids])
        self.assertEqual([f.bodies[0].decode() for f in frames], [f"kept {n}" for n in range(10)])
        device.ack(*[f.records[0].id for f in frames])
        device.ping()
        poll(lambda: server.state("away")["waiting"] == 0, "all are acknowledged")
        server.stop()
        server.start()
        again = self.device(server=server)
        self.assertEqual(again.bind("away")["offline_count"], 0)
        self.quiet(again, server, "a push was delivered twice")

    def test_what_was_sent_but_not_acknowledged_survives_a_kill(self):
        server = self.start()
        device = self.bound("busy", server=server)
        answer = server.push("busy", "in flight")
        self.assertEqual(answer["outcome"], "stored")
        device.expect(miop.MSG)
        server.kill()
        server.start()
        self.assertEqual(self.bound("busy", server=server).receive(), [b"in flight"])

    def test_ids_and_epochs_rise_over_a_kill(self):
        server = self.start()
        first = self.bound("rising", server=server).bound["session_epoch"]
        before = server.push("rising", "a")["id"]
        server.kill()
        server.start()
        self.assertGreater(server.push("rising", "b")["id"], before)
        self.assertGreater(self.bound("rising", server=server).bound["session_epoch"], first)

    def test_products_and_blocks_made_by_the_api_survive_a_kill(self):
        server = self.start()
        secret = server.ask("PUT", "/v1/products/made", {
            "app_id": 12, "generate_secret": True})["generated_secret"]
        server.ask("PUT", "/v1/products/demo/devices/bad/block")
        server.kill()
        server.start()
        self.assertEqual(self.device(server=server).bind("bad")["result"], 24)
        self.bound("good", server=server, product="made", key_id=secret["key_id"],
                   secret=bytes.fromhex(secret["hex"]))

    def test_a_session_is_resumed_after_a_restart_by_its_main_proof(self):
        server = self.start()
        first = self.bound("back", server=server)
        server.stop()
        server.start()
        self.assertIn(self.device(server=server).bind("back", resume=first.bound)["result"], (0, 1))


@unittest.skipUnless(fixture.mounts_are_permitted(), "no mount namespaces: NOT TRIED")
class DiskFull(Case):
    """A data folder on a small tmpfs in a mount namespace, reached through /proc/PID/root."""

    SHARED = False

    def full(self, ballast):
        """A server whose disk is full of `ballast` bytes and of pushes to the device "away"."""
        folder = tempfile.mkdtemp(prefix="holdline-full-")
        self.addCleanup(os.rmdir, folder)
        script = 'mount -t tmpfs -o size=4m none "$0" && exec "$@"'
        server = self.start(
            {"store": {"segment_bytes": 1048576, "log_bytes_max": 4194304},
             "products.demo": {"offline_count_max": 5000, "offline_bytes_max": 100000000}},
            data=os.path.join(folder, "data"), prefix=("unshare", "-m", "sh", "-c", script, folder))
        inside = f"/proc/{server.pid}/root{folder}"
        with open(os.path.join(inside, "data", "api.token"), encoding="utf-8") as file:
            server.token = file.read().strip()
        with open(os.path.join(inside, "ballast"), "wb") as file:
            file.write(bytes(ballast))
        stored, answer = 0, server.push("away", "x" * 4000)
        while answer["outcome"] == "stored" and stored < 2000:
            stored += 1
            answer = server.push("away", "x" * 4000)
        self.assertEqual((answer["outcome"], answer.get("reason")), ("rejected", "store_full"))
        self.assertGreater(stored, 50, "many, before there was no room")
        self.assertGreater(server.count("store_failures_total"), 0)
        return server, stored, os.path.join(inside, "ballast")

    def test_a_full_disk_rejects_what_needs_storing_and_recovers_when_space_is_back(self):
        server, stored, ballast = self.full(1 << 20)
        # It lives on: devices bind, and what need not be stored is delivered.
        device = self.bound("online", server=server)
        results = []
        thread = threading.Thread(target=lambda: results.append(
            server.push("online", "direct", wait_ms=5000)["outcome"]))
        thread.start()
        self.assertEqual(device.receive(), [b"direct"])
        thread.join()
        self.assertEqual(results, ["delivered"])

        os.remove(ballast)
        poll(lambda: server.push("later", "room again")["outcome"] == "stored", "there is room")
        away = self.bound("away", server=server)
        self.assertEqual(len(away.receive(stored)), stored)
        self.assertEqual(self.bound("later", server=server).receive(), [b"room again"])
        self.assertEqual(server.stop(), 0)

    def test_a_disk_that_is_full_of_pushes_has_room_again_when_they_are_acknowledged(self):
        server, stored, _ = self.full(0)
        away = self.bound("away", server=server)
        self.assertEqual(len(away.receive(stored)), stored)
        poll(lambda: server.state("away")["waiting"] == 0, "nothing waits any more")
        poll(lambda: server.push("later", "room again")["outcome"] == "stored", "there is room")
        self.assertEqual(server.stop(), 0)


class Reload(Case):
    SHARED = False

    def reload(self, server, changes=None, tail="", says=()):
        server.turn_page()
        server.configure(changes, tail)
        server.signal(signal.SIGHUP)
        for words in says:
            server.logged(words)

    def test_a_sighup_that_comes_with_the_welcome_does_not_end_the_server(self):
        for _ in range(5):
            server = self.start()
            server.signal(signal.SIGHUP)
            self.bound("after", server=server).ping()

    def test_sighup_changes_a_products_secret(self):
        nowhere = {"products.demo": {"anonymous": "nowhere"}}
        server = self.start(nowhere)
        older = self.bound("older", server=server, secret=SECRET)
        fresh = os.urandom(32)
        changed = {"products.demo": {"anonymous": "nowhere",
                                     "secrets": [{"key_id": 2, "hex": fresh.hex()}]}}
        self.reload(server, changed, says=["secrets"])
        poll(lambda: self.device(server=server).bind(
            "newer", secret=fresh, key_id=2)["result"] == 0, "the new secret is good")
        self.assertEqual(self.device(server=server).bind("x", secret=SECRET)["result"], 20)
        older.ping()
        self.assertNotIn(fresh.hex(), server.log)

    def test_sighup_says_what_needs_a_restart_and_keeps_it(self):
        server = self.start()
        self.reload(server, {"limits": {"mailbox_messages_max": 64}}, says=[
            "limits", "mailbox_messages_max", "restart"])
        first, second = self.bound("a", server=server), self.bound("b", server=server)
        first.ping()
        second.ping()

    def test_the_command_line_reloads_drains_and_replaces_a_lost_token(self):
        server = self.start()
        self.bound("a", server=server)
        where = ["--url", "http://%s:%d" % server.ports["api"], "--data", server.data]

        def told(*words):
            answer = run(*words, *where)
            self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
            return answer.stdout
        server.configure({"limits": {"drain_ms": 1, "connections_max": 1990}})
        changed = told("reload")
        self.assertIn("Changed now:", changed)
        self.assertIn("[limits] drain_ms: 200 -> 1", changed)
        self.assertNotIn("restart", changed)
        self.assertIn("no connection is left", told("drain", "--wait"))
        self.assertEqual(self.device(server=server).bind("b")["result"], 32, "it drains")
        self.assertIn("accepted again", told("undrain"))
        self.bound("b", server=server).ping()
        lost = server.token
        self.assertIn("A new first token", told("token", "reset"))
        self.assertEqual(run("token", "list", *where).returncode, 1, "it is not in force yet")
        server.signal(signal.SIGHUP)
        server.logged("the first token of the API was replaced")
        told("token", "list")
        self.assertEqual(run("token", "list", *where, "--token", lost).returncode, 1)

    def test_a_dry_run_names_taken_ports_unusable_files_and_warnings_and_changes_nothing(self):
        server = self.start()
        where = ["--url", "http://%s:%d" % server.ports["api"], "--data", server.data]
        with socket.create_server(("127.0.0.1", 0)) as theirs:
            port = theirs.getsockname()[1]
            server.configure({
                "listen.more": {"address": f"127.0.0.1:{port}", "protocol": "mqtt"},
                "listen.sure": {"address": "127.0.0.1:0", "protocol": "mqtt", "tls": True,
                                "certificate": "/nowhere/a.pem", "key": "/nowhere/a.key"},
                "access": {"password_file": "/nowhere/users"},
                "products.open": {"app_id": 9, "anonymous": "everywhere"}})
            answer = run("reload", "--dry-run", *where)
            self.assertEqual(answer.returncode, 1, answer.stderr)
            for words in (f"127.0.0.1:{port} is in use by another program", "/nowhere/a.pem",
                          "/nowhere/users", "[listen.more]: absent -> present",
                          'warning: [products.open] anonymous = "everywhere"'):
                self.assertIn(words, answer.stdout)
        answer = run("reload", "--dry-run", *where)
        self.assertNotIn("in use", answer.stdout)
        self.assertEqual(self.device(server=server).bind("x", "open")["result"], 23, "unchanged")
        server.configure()
        answer = run("reload", "--dry-run", *where)
        self.assertEqual((answer.returncode, answer.stdout),
                         (0, f"No setting in {server.file} differs from those in force.\n"))
        os.rename(server.file, server.file + ".gone")
        answer = run("reload", "--dry-run", *where)
        os.rename(server.file + ".gone", server.file)
        self.assertEqual((answer.returncode, answer.stdout), (1, ""))
        self.assertIn(f"{server.file}: cannot be read: No such file", answer.stderr)

    def test_a_reload_warns_of_a_certificate_that_expires(self):
        server = self.start()
        where = ["--url", "http://%s:%d" % server.ports["api"], "--data", server.data]
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = Authority(folder).issue("localhost")
            server.configure({"listen.sure": {"address": "127.0.0.1:0", "tls": True,
                                              "certificate": certificate, "key": key}})
            for words in (["reload", "--dry-run"], ["reload"]):
                answer = run(*words, *where)
                self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
                self.assertRegex(answer.stdout, f"(?m)^warning: {certificate}: the certificate of "
                                                r"CN=localhost expires in \d days: renew it")
            server.logged("a certificate expires soon")

    def test_sighup_with_an_error_keeps_everything_and_says_why(self):
        server = self.start()
        device = self.bound("stays", server=server)
        self.reload(server, {"limits": {"nonsense": 1}, "products.demo": {"anonymous": "nowhere"}},
                    says=["nonsense", server.file, "old one stays"])
        device.ping()
        self.bound("still-anonymous", server=server)

    def test_sighup_adds_a_product_and_keeps_one_that_is_gone_until_the_restart(self):
        server = self.start({"products.old": {"app_id": 2, "anonymous": "loopback"}})
        self.bound("guest", server=server, product="old")
        new = {"products.new": {"app_id": 3, "anonymous": "loopback"}}
        self.reload(server, new, says=["old", "no longer configured"])
        self.bound("guest", server=server, product="new")
        self.assertEqual(self.device(server=server).bind("guest", "old")["result"], 0)
        server.stop()
        server.start()
        self.assertEqual(self.device(server=server).bind("guest", "old")["result"], 23)

    def test_sighup_changes_the_level_of_the_log(self):
        server = self.start()
        self.reload(server, {"server": {"log": "error"}, "products.demo": {"inflight_max": 9}})
        poll(lambda: self.device(server=server).bind("w")["max_inflight"] == 9, "it is changed")
        self.assertEqual(server.stop(), 0)
        poll(lambda: server.process.stderr.closed, "the end of the log")
        self.assertNotIn("INFO stopped", server.log)

    def test_a_stop_is_in_the_log_at_its_usual_level(self):
        server = self.start()
        self.assertEqual(server.stop(), 0)
        server.logged("INFO stopped")

    def test_sighup_says_that_a_changed_store_needs_a_restart(self):
        server = self.start()
        self.reload(server, {"store": {"checkpoint_s": 61}}, says=["checkpoint_s", "restart"])

    def test_sighup_without_a_change_says_nothing_of_restarts(self):
        server = self.start()
        self.reload(server)
        self.reload(server, {"server": {"log": "debug"}}, says=["log"])
        self.assertNotIn("restart", server.page())


def listens(address):
    """Whether somebody takes calls there."""
    try:
        socket.create_connection(address, timeout=2).close()
    except OSError:
        return False
    return True


class Drain(Case):
    SHARED = False

    def test_sigterm_lets_everybody_go_and_exits_with_0(self):
        server = self.start({"limits": {"drain_ms": 1000}})
        devices = [self.bound(f"leaving-{at}", version=(5, 6, 7)[at % 3], server=server)
                   for at in range(30)]
        address = server.ports["any"]
        server.signal(signal.SIGTERM)
        for at, device in enumerate(devices):
            frames = device.until_closed()
            version = (5, 6, 7)[at % 3]
            if version == 7:
                self.assertEqual([(f.opcode, f["result"]) for f in frames], [(GO_AWAY, 32)])
                self.assertGreater(frames[0]["retry_after_ms"] or 0, 0)
            elif version == 5:
                self.assertEqual([(f.opcode, f["r"]) for f in frames], [(BIND_ACK, "32")])
            else:
                self.assertEqual(frames, [])
        self.assertEqual(server.wait(), 0)
        with self.assertRaises(OSError):
            socket.create_connection(address, timeout=2)
        self.assertIn("stopped", server.log)

    def test_sigterm_without_connections_ends_at_once(self):
        server = self.start({"limits": {"drain_ms": 60000}})
        self.assertEqual(server.stop(), 0)  # in less than a drain takes

    def test_a_bind_during_the_drain_is_told_that_the_server_is_going(self):
        server = self.start({"limits": {"drain_ms": 3000}})
        bound = self.bound("here", server=server)
        waiting = [self.device(server=server) for _ in range(4)]
        server.signal(signal.SIGTERM)
        # Its shards have heard of it when none of them listens.
        poll(lambda: not listens(server.ports["any"]), "it listens no more")
        try:
            self.assertEqual(waiting[0].bind("late")["result"], 32)
        except Closed:
            pass  # let go before it spoke
        for device in [bound, *waiting]:
            device.close()
        self.assertEqual(server.wait(), 0)

    def test_a_call_that_waits_when_the_drain_begins_is_answered(self):
        server = self.start({"limits": {"drain_ms": 1000}})
        device = self.bound("slow", server=server)
        order = json.dumps({"product": "demo", "device": "slow", "body": "x", "wait_ms": 30000})
        busy = socket.create_connection(server.ports["api"], timeout=60)
        self.addCleanup(busy.close)
        busy.sendall(b"POST /v1/pushes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                     b"Content-Length: %d\r\n\r\n%s"
                     % (server.token.encode(), len(order), order.encode()))
        push = device.expect(miop.MSG)
        idle = http.client.HTTPConnection(*server.ports["api"], timeout=60)
        self.addCleanup(idle.close)
        idle.request("GET", "/healthz")
        self.assertEqual(idle.getresponse().read()[:2], b"ok")  # it was let in
        server.signal(signal.SIGTERM)
        self.assertEqual(idle.sock.recv(1), b"")  # it asked nothing more
        device.ack(*[record.id for record in push.records])
        answer = b""
        while piece := busy.recv(4096):
            answer += piece
        head, _, body = answer.partition(b"\r\n\r\n")
        self.assertIn(b" 200 ", head.split(b"\r\n")[0])
        self.assertIn(b"connection: close", head.lower())
        self.assertEqual(json.loads(body)["outcomes"][0]["outcome"], "delivered")
        device.until_closed()
        self.assertEqual(server.wait(), 0)
        self.assertNotIn("aborted", server.log)

    def test_a_second_sigterm_ends_at_once(self):
        server = self.start({"limits": {"drain_ms": 60000}})
        device = self.bound("stubborn", server=server)
        server.signal(signal.SIGTERM)
        server.logged("draining")
        server.signal(signal.SIGTERM)
        server.wait()  # in less than a drain takes
        device.close()

    def test_the_last_events_are_told_before_the_end(self):
        receiver = Receiver()
        self.addCleanup(receiver.close)
        server = self.start(tail=f'[[webhook]]\nurl = "{receiver.url}"\n')
        device = self.bound("last", server=server)
        self.assertEqual(server.stop(), 0)
        device.until_closed()
        self.assertEqual([e["type"] for e in receiver.taken()], ["online", "offline"])

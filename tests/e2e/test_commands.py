"""The commands, tried as a new user would: what `serve` prints is run as it is printed."""

import errno
import fcntl
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
import threading
import unittest

from fixture import BINARY, Case, environment, mounts_are_permitted, run


def shell(line, timeout=30):
    return subprocess.run(shlex.split(line), env=environment(), capture_output=True, text=True,
                          timeout=timeout, check=False)


class Printed(Case):
    """Of the default configuration but for the addresses."""

    CHANGES = {"server": None}

    def line(self, word):
        found = [line.strip() for line in self.server.welcome.splitlines()
                 if line.startswith("  ") and f" {word} " in line and BINARY in line]
        self.assertEqual(len(found), 1, self.server.welcome)
        return found[0]

    def test_1_wrk_as_printed_opens_devices_and_prints_wrks_layout(self):
        line = self.line("wrk")
        shorter = re.sub(r"-d 30s", "-d 2s", re.sub(r"-c 1000\b", "-c 100", line))
        self.assertNotEqual(line, shorter)
        answer = shell(shorter)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertRegex(answer.stdout, r"Running 2s test @ miop://")
        self.assertRegex(answer.stdout, r"2 threads and 100 connections")
        self.assertRegex(answer.stdout, r"Thread Stats +Avg +Stdev +Max")
        self.assertRegex(answer.stdout, r"Latency Distribution")
        self.assertRegex(answer.stdout, r"Requests/sec: +\d")
        self.assertRegex(answer.stdout, r"Transfer/sec: +\d")
        self.assertGreaterEqual(self.server.count("binds_total"), 100)
        self.server.all_gone()

    def test_2_devices_as_printed_shows_who_is_online(self):
        self.bound("tom-1")
        answer = shell(self.line("devices"))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertRegex(answer.stdout, r"demo +tom-1 +online +miop7")

    def test_3_push_as_printed_is_delivered_to_a_device(self):
        device, got = self.bound("tom-1"), []
        thread = threading.Thread(target=lambda: got.extend(device.receive()))
        thread.start()
        answer = shell(self.line("push"))
        thread.join()
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(got, [b"Hello"])
        self.assertRegex(answer.stdout, r"(?m)^tom-1 +delivered$")

    def test_4_push_as_printed_does_something_sensible_for_a_device_that_never_came(self):
        answer = shell(self.line("push").replace("tom-1", "tom-never"))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertRegex(answer.stdout, r"(?m)^tom-never +stored$")


    def test_5_while_wrk_runs_the_other_two_see_and_reach_its_devices(self):
        line = self.line("wrk").replace("-d 30s", "-d 4s").replace("-c 1000 ", "-c 20 ")
        wrk = subprocess.Popen(shlex.split(line), env=environment(), stdout=subprocess.PIPE,
                               text=True)
        self.addCleanup(wrk.stdout.close)
        self.addCleanup(wrk.kill)
        self.server.online("tom-1")
        self.assertRegex(shell(self.line("devices")).stdout, r"demo +tom-1 +online +miop7")
        answer = shell(self.line("push"))
        self.assertRegex(answer.stdout, r"(?m)^tom-1 +delivered$")
        self.assertEqual(wrk.wait(20), 0)
        self.server.all_gone()


class Fresh(Case):
    SHARED = False

    @unittest.skipUnless(mounts_are_permitted(), "no namespaces: NOT TRIED")
    def test_serve_with_nothing_at_all_serves_and_its_commands_work(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fresh_machine.py")
        answer = subprocess.run(["unshare", "-n", sys.executable, script, BINARY], timeout=90,
                                env=environment(), capture_output=True, text=True, check=False)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        told = json.loads(answer.stdout)
        for address in ("127.0.0.1:7000", "127.0.0.1:7001", "127.0.0.1:7003",
                        "http://127.0.0.1:7080"):
            self.assertIn(f" {address}\n", told["welcome"])
        wrk, devices, push, ann, bob = told["commands"]
        for line, status, output in told["commands"]:
            self.assertEqual(status, 0, f"{line}\n{output}")
        self.assertRegex(wrk[2], r"Requests/sec: +\d")
        self.assertIn("PRODUCT", devices[2])
        self.assertRegex(push[2], r"(?m)^tom-1 +stored$")
        self.assertIn("im chat bob --user ann", ann[0])
        self.assertIn("im chat ann --user bob", bob[0])
        self.assertEqual(told["end"], 0)


class Shell(Case):
    def cli(self, *words, token=None):
        host, port = self.server.ports["api"]
        where = ["--url", f"http://{host}:{port}", "--data", self.server.data]
        return run(words[0], *where, *words[1:], *(["--token", token] if token else []))

    def test_push_to_a_rejected_device_fails_and_says_why(self):
        self.server.ask("PUT", "/v1/products/demo/devices/bad/block")
        answer = self.cli("push", "--product", "demo", "--device", "bad", "x")
        self.assertNotEqual(answer.returncode, 0)
        self.assertIn("bad", answer.stdout)
        self.assertIn("device_blocked", answer.stdout)

    def test_a_push_that_is_too_large_shows_the_answer_of_the_server(self):
        host, port = self.server.ports["api"]
        words = [BINARY, "push", "--product", "demo", "--device", "x", "-",
                 "--url", f"{host}:{port}", "--token", self.server.token]
        answer = subprocess.run(words, input="x" * 6_000_000, capture_output=True, text=True,
                                timeout=60, check=False)
        self.assertEqual(answer.returncode, 1)
        self.assertRegex(answer.stderr, r"the server answered 413 .*; the maximum is \d+")

    def test_an_api_without_tls_is_told_in_words(self):
        host, port = self.server.ports["api"]
        answer = run("status", "--url", f"https://{host}:{port}")
        self.assertEqual(answer.returncode, 2)
        self.assertIn("The API speaks plain http", answer.stderr)
        self.assertNotRegex(answer.stderr, r"[A-Z][a-z]+[A-Z]\w+\(|\w+::")

    def test_an_unknown_product_is_named(self):
        answer = self.cli("push", "--product", "shoop", "--device", "x", "hello")
        self.assertIn("unknown product shoop", answer.stderr)

    def test_a_device_is_blocked_unblocked_and_kicked(self):
        for verb, told in (("block", "blocked"), ("unblock", "unblocked"),
                           ("kick", "was not connected")):
            answer = run("device", verb, "demo", "till/9", *self.where())
            self.assertEqual((answer.returncode, answer.stdout), (0, f"till/9: {told}\n"),
                             answer.stderr)

    def test_a_product_is_created_gets_a_new_secret_and_is_removed_only_if_confirmed(self):
        def product(*words):
            return run("product", *words, *self.where())
        first = product("create", "kiosk", "--app-id", "77").stdout.strip()
        second = product("rotate", "kiosk").stdout.strip()
        self.assertRegex(first + second, r"^[0-9a-f]{128}$")
        self.assertIn("exists", product("create", "kiosk", "--app-id", "78").stderr)
        self.assertRegex(product("list").stdout, r"kiosk +77 +2 +nowhere")
        product("rotate", "kiosk", "--revoke-old")
        self.assertRegex(product("list").stdout, r"kiosk +77 +1 +nowhere")
        declined = product("remove", "kiosk")
        self.assertEqual((declined.returncode, declined.stdout), (3, ""))
        self.assertIn("--yes", declined.stderr)
        self.assertEqual(product("show", "kiosk").returncode, 0)
        self.assertEqual(product("remove", "kiosk", "--yes").stdout, "kiosk: removed\n")
        self.assertIn("unknown product kiosk", product("rotate", "kiosk").stderr)

    def test_an_account_is_erased_only_if_confirmed(self):
        declined = run("chat", "erase", "ann", *self.where())
        self.assertEqual(declined.returncode, 3)
        self.assertIn("Erase the account ann", declined.stderr)
        self.assertIn("--yes", declined.stderr)

    def test_webhooks_and_bridges_are_listed(self):
        self.assertEqual(run("webhook", "list", *self.where()).stdout, "no webhooks configured\n")
        self.assertEqual(run("bridge", "status", *self.where()).stdout, "no bridges configured\n")

    def test_options_of_the_command_come_before_those_of_the_server_in_the_help(self):
        for command in ("push", "devices", "clients list", "chat mute", "token make"):
            told = run(*command.split(), "--help").stdout
            self.assertLess(told.index("\nOptions:"), told.index("\nServer:"), command)
        told = run("pub", "--help").stdout
        self.assertLess(told.index("--topic"), told.index("--host"))

    def where(self):
        host, port = self.server.ports["api"]
        return ["--url", f"{host}:{port}", "--token", self.server.token]

    def test_devices_looks_devices_up_and_lists_them_page_by_page(self):
        links = [self.bound(f"listed-{at:03}") for at in range(30)]
        answer = self.cli("devices", "--product", "demo", "--limit", "100", "--online")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        listed = re.findall(r"listed-\d+", answer.stdout)
        self.assertEqual(sorted(listed), [f"listed-{at:03}" for at in range(30)])
        answer = self.cli("devices", "--product", "demo", "--json", "listed-007")
        self.assertIn('"online":true', answer.stdout.replace(" ", ""))
        self.assertEqual(len(links), 30)

    def test_a_wrong_token_is_told_as_such(self):
        answer = self.cli("devices", token="wrong-token-wrong-token")
        self.assertNotEqual(answer.returncode, 0)
        self.assertIn("401", answer.stderr)

    def test_what_is_observed_is_not_asked_through_a_proxy_of_the_environment(self):
        page = "http://%s:%d/metrics" % self.server.ports["api"]
        answer = run("observe", "--metrics", page, "--token", self.server.token, "--json",
                     "--every", "100ms", "--for", "300ms",
                     env={"HTTP_PROXY": "http://127.0.0.1:1"})
        self.assertIn("holdline_connections", answer.stdout)

    def test_a_server_that_is_not_there_is_told_with_a_hint(self):
        answer = run("devices", "--url", "http://127.0.0.1:1", "--token", "0123456789abcdef")
        self.assertNotEqual(answer.returncode, 0)
        self.assertIn("http://127.0.0.1:1", answer.stderr)
        self.assertIn("Is the server running?", answer.stderr)


class Watching(Case):
    """Status and top say what the API says."""

    SHARED = False

    def where(self, server):
        host, port = server.ports["api"]
        return ["--url", f"http://{host}:{port}", "--data", server.data]

    def test_status_says_how_a_server_is_and_ends_as_it_says(self):
        server = self.start()
        with server.device() as device:
            device.bind("till-1")
            answer = run("status", *self.where(server))
            self.assertEqual((answer.returncode, answer.stderr), (0, ""))
            self.assertRegex(answer.stdout, r"^holdline [0-9.]+ at http://127\.0\.0\.1:\d+: ready\n")
            self.assertRegex(answer.stdout, r"(?m)^  devices +1 online, 1 known$")
            told = json.loads(run("status", "--json", *self.where(server)).stdout)
            self.assertEqual((told["readiness"]["ready"], told["status"]["online"]), (True, 1))
            self.assertRegex(answer.stdout, r"(?m)^  alarms +none$")
            self.assertEqual(told["alarms"], [])
        answer = run("status", "--token", "wrong-token-of-somebody", *self.where(server))
        self.assertEqual((answer.returncode, answer.stdout), (2, ""))
        self.assertIn("invalid or revoked token", answer.stderr)
        # Readiness is everybody's: without a token it is all that is shown.
        answer = run("status", "--url", "http://%s:%d" % server.ports["api"], "--data", "/nowhere")
        self.assertEqual(answer.returncode, 0)
        self.assertIn(": ready\n", answer.stdout)
        server.kill()
        answer = run("status", *self.where(server))
        self.assertEqual((answer.returncode, answer.stdout), (2, ""))
        self.assertIn("Is the server running?", answer.stderr)

    def test_top_prints_a_line_a_look_where_there_is_no_terminal(self):
        server = self.start()
        with server.device() as device:
            device.bind("till-1")
            answer = run("top", "--count", "2", *self.where(server))
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        lines = answer.stdout.splitlines()
        self.assertEqual(len(lines), 2)
        for line in lines:
            self.assertRegex(line, r"^ready +connections +1 .* devices +1 ")

    def test_top_draws_on_a_terminal_until_it_is_told_to_end(self):
        server = self.start()
        with server.device() as device:
            device.bind("till-1")
            pid, terminal = pty.fork()
            if pid == 0:
                env = {**environment(), "TERM": "xterm"}
                os.execve(BINARY, [BINARY, "top", *self.where(server)], env)
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
            shown = b""
            try:
                while b"q end" not in shown or b"devices online" not in shown:
                    shown += os.read(terminal, 65536)
                os.write(terminal, b"q")
                while True:
                    more = os.read(terminal, 65536)
                    if not more:
                        break
                    shown += more
            except OSError as error:
                # Linux: the other end has been closed.
                self.assertEqual(error.errno, errno.EIO)
            finally:
                _, status = os.waitpid(pid, 0)
                os.close(terminal)
        self.assertEqual(status, 0, shown)
        self.assertIn(b"\x1b[?1049l", shown, "the terminal is given back")

"""Bans: who is refused and ended, by command line and API; and the line of the log for fail2ban."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

import fixture
from fixture import Case, poll

SECURITY = os.path.join(fixture.ROOT, "docs", "security.md")

#: What fail2ban replaces in a filter, as far as ours uses it.
PARTS = {"%(__prefix_line)s": r"(?:\w+ \d+ \S+ \S+ holdline\[\d+\]: )",
         "<ADDR>": r"(?P<host>[0-9a-fA-F.:]+)"}


def holdline(server, *words):
    host, port = server.ports["api"]
    command = [fixture.BINARY, *words, "--url", f"http://{host}:{port}", "--token", server.token]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def connect(server, client, user=None, password=None):
    """The output of a mosquitto client that publishes once; empty: it was let in."""
    host, port = server.ports["mqtt"]
    words = ["mosquitto_pub", "-h", host, "-p", str(port), "-i", client, "-t", "t", "-m", "x"]
    words += ["-V", "mqttv5", *(["-u", user, "-P", password] if user else [])]
    return subprocess.run(words, capture_output=True, text=True, timeout=60).stderr


@unittest.skipUnless(shutil.which("mosquitto_pub"), "mosquitto_pub is not there: IT WAS NOT TRIED")
class Bans(Case):
    SHARED = False

    def serve(self):
        return self.start({"listen.mqtt": {"address": "127.0.0.1:0", "protocol": "mqtt"}})

    def test_a_client_is_refused_until_its_ban_is_lifted(self):
        server = self.serve()
        self.assertEqual(connect(server, "till-7"), "")
        added = holdline(server, "ban", "add", "client", "till-7", "--for", "1h", "--note", "loud")
        self.assertRegex(added.stdout, r"^banned client till-7 until [-0-9]+T[0-9:]+Z; 0 connections ended\n$")
        self.assertIn("Banned", connect(server, "till-7"))
        self.assertEqual(connect(server, "till-8"), "")
        listed = holdline(server, "ban", "list").stdout
        self.assertRegex(listed, r"client +till-7 +operator .* 1 +0 .* loud")
        server.kill()
        server.start()
        self.assertIn("Banned", connect(server, "till-7"), "it survives a kill")
        removed = holdline(server, "ban", "remove", "client", "till-7")
        self.assertEqual(removed.stdout, "till-7: ban lifted\n")
        self.assertEqual(connect(server, "till-7"), "")

    def test_a_user_is_refused_before_its_password_is_looked_at(self):
        server = self.serve()
        server.ask("PUT", "/v1/users/ann", {"password": "pencil"})
        self.assertEqual(connect(server, "c", "ann", "pencil"), "")
        server.ask("POST", "/v1/bans", {"kind": "user", "subject": "ann"})
        for password in ("pencil", "wrong"):
            self.assertIn("Banned", connect(server, "c", "ann", password))

    def test_a_ban_of_the_address_that_it_is_ordered_from_is_refused(self):
        server = self.serve()
        ban = {"kind": "address", "subject": "127.0.0.0/8"}
        status, refused = server.api("POST", "/v1/bans", ban)
        self.assertEqual((status, refused["error"]["code"]),
                         (409, "refused"))
        everybody = server.ask("POST", "/v1/bans", {"kind": "address", "subject": "0.0.0.0/0"})
        self.assertEqual(everybody["ended"], 0)
        self.assertEqual(connect(server, "near"), "", "this machine is not in it")


class Fail2ban(Case):
    SHARED = False

    def test_the_filter_of_the_docs_finds_the_address_of_a_failed_login(self):
        line = self.line()
        with open(SECURITY, encoding="utf-8") as file:
            text = re.search(r"```ini\n(\[INCLUDES\].*?)```", file.read(), re.S).group(1)
        rule = re.search(r"^failregex = (.*)$", text, re.M).group(1)
        for part, meaning in PARTS.items():
            rule = rule.replace(part, meaning)
        forged = line.replace("INFO login failed", 'WARN x client="INFO login failed')
        under_systemd = f"Nov 29 02:12:18 host holdline[123]: {line}"
        self.assertEqual(re.search(rule, line)["host"], "192.0.2.7", line)
        self.assertEqual(re.search(rule, under_systemd)["host"], "192.0.2.7", line)
        self.assertIsNone(re.search(rule, forged), "what a stranger is called is no address")
        if shutil.which("fail2ban-regex"):
            self.by_fail2ban(text, [line, under_systemd, forged])

    def by_fail2ban(self, text, lines):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree("/etc/fail2ban", folder, dirs_exist_ok=True)
            with open(os.path.join(folder, "filter.d", "holdline.conf"), "w") as file:
                file.write(text)
            with open(os.path.join(folder, "log"), "w") as file:
                file.write("\n".join(lines) + "\n")
            told = subprocess.run(["fail2ban-regex", "-c", folder, os.path.join(folder, "log"),
                                   os.path.join(folder, "filter.d", "holdline.conf")],
                                  capture_output=True, text=True, timeout=60).stdout
        self.assertIn(" 2 matched, 1 missed", told)

    def line(self):
        """That of a login through a proxy, so that it is from elsewhere."""
        server = self.start({"listen.mqtt": {
            "address": "127.0.0.1:0", "protocol": "mqtt", "proxy": "v1v2"}})
        connect = b"\x10\x16\x00\x04MQTT\x05\xc2\x00\x3c\x00" \
                  b"\x00\x01c\x00\x03ann\x00\x01x"
        with socket.create_connection(server.ports["mqtt"], timeout=30) as raw:
            raw.sendall(b"PROXY TCP4 192.0.2.7 127.0.0.1 1 1883\r\n" + connect)
            raw.recv(64)
        poll(lambda: "login failed" in server.log, "the line is logged")
        return next(line for line in server.log.splitlines() if "login failed" in line)

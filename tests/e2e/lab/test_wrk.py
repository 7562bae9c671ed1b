"""`holdline wrk`: beside the real wrk where that is installed, and against servers of each protocol.

The HTTP server of these tests knows what it was asked; scripts are those of laboratory/wrk. What the
real wrk prints is compared in its layout, every digit blanked out, and in what its scripts do.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import certificates
from fixture import BINARY, DEADLINE_S, Case, environment, run
from lab.wrk_server import Server
from mqtt.broker import Broker

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(HERE, *[".."] * 3, "laboratory", "wrk", "scripts")
REAL = shutil.which("wrk", path="/usr/bin:/usr/local/bin")
MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/bin")
#: What of our output is wrk's: up to the empty line.
OURS = "\n\nConnections\n"


def script(name):
    return os.path.normpath(os.path.join(SCRIPTS, name + ".lua"))


def blank(text):
    """A text without its figures and their units: what is left is the layout."""
    text = re.sub(r"-?nan%|[\d.]+%", "#%", text)
    text = re.sub(r"\d+(\.\d+)?(us|ms|s|m|h|k|M|[KMG]?B|[KMG])?\b", "#", text)
    return [re.sub(r" +", " ", line) for line in text.splitlines()]


def ends(text):
    """Where the figures of each line of a table end: the columns."""
    lines = [line for line in text.splitlines() if re.match(r" +(Latency|Req/Sec) ", line)]
    return [[match.end(1) for match in re.finditer(r"(\d)[a-z]{0,2}M?%? *", line)][-1:]
            for line in lines]


class Http(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.close)

    def ours(self, *words, path="/", code=0, timeout=DEADLINE_S):
        answer = run("wrk", self.server.url(path), *words, timeout=timeout)
        self.assertEqual(answer.returncode, code, answer.stdout + answer.stderr)
        return answer

    def figure(self, text, pattern):
        found = re.search(pattern, text)
        self.assertTrue(found, f"{pattern} is not in:\n{text}")
        return float(found.group(1))

    def test_requests_and_bytes_are_those_that_the_server_saw(self):
        text = self.ours("-t", "2", "-c", "4", "-d", "1s", "--latency").stdout
        requests = self.figure(text, r"(\d+) requests in ")
        self.assertAlmostEqual(requests, len(self.server.requests), delta=4)
        self.assertEqual(self.server.connections, 4 + 1)  # one asks whether anybody is there
        self.assertNotIn("DOES NOT AGREE", text)
        self.assertEqual({request[:2] for request in self.server.requests}, {("GET", "/")})
        self.assertEqual(self.server.requests[0][2]["Host"], f"127.0.0.1:{self.server.port}")

    def test_answers_of_any_framing_are_read(self):
        for path, closes in [("/chunked", False), ("/endless", True), ("/close", True)]:
            text = self.ours("-t1", "-c2", "-d1s", path=path).stdout
            self.assertGreater(self.figure(text, r"(\d+) requests in "), 50, text)
            self.assertNotIn("Socket errors", text)
            self.assertEqual("farewell (plan)" in text, closes, text)

    def test_no_is_counted_and_a_dropped_connection_is_a_read_error_with_its_cause(self):
        text = self.ours("-t1", "-c1", "-d1s", path="/no").stdout
        refused = self.figure(text, r"Non-2xx or 3xx responses: (\d+)")
        self.assertEqual(refused, self.figure(text, r"(\d+) requests in "))
        text = self.ours("-t1", "-c1", "-d1s", path="/drop").stdout
        read = self.figure(text, r"Socket errors: connect 0, read (\d+), write 0, timeout 0")
        self.assertEqual(read, self.figure(text, r"(\d+) in online: closed_clean \(target\)"))

    def test_a_late_answer_is_a_timeout_and_its_time_is_not_forgotten(self):
        text = self.ours("-t1", "-c2", "-d3s", "--timeout", "1", path="/slow?1300").stdout
        self.assertGreaterEqual(self.figure(text, r"write 0, timeout (\d+)"), 2)
        self.assertGreaterEqual(self.figure(text, r"Latency +[\d.]+s +\S+ +([\d.]+)s"), 1.3)

    def test_a_planned_rate_counts_from_the_planned_time(self):
        # 100 ms an answer on one connection: 20 a second cannot be kept, and it is said.
        text = self.ours("-t1", "-c1", "-d3s", "-R", "20", "-L", "-U", path="/slow?100").stdout
        corrected, raw = [float(value) * {"s": 1_000, "ms": 1}[unit]
                          for value, unit in re.findall(r" 50% +([\d.]+)(m?s)", text)]
        self.assertGreater(corrected, 500)
        self.assertLess(raw, 200)
        self.assertGreater(self.figure(text, r"(\d+) requests of the planned rate were not sent"), 20)

    def test_auth(self):
        self.ours("-t1", "-c1", "-d1s", "-s", script("auth"))
        paths = [request[1] for request in self.server.requests]
        self.assertEqual(paths[:2], ["/login", "/members"])
        self.assertEqual({request[2]["X-Token"] for request in self.server.requests[1:]}, {"abc"})

    def test_counter(self):
        self.ours("-t1", "-c1", "-d1s", "-s", script("counter"))
        numbers = [int(request[2]["X-Number"]) for request in self.server.requests]
        # The first one was asked for to see what it is, and not sent: so it is with wrk.
        self.assertEqual(numbers, list(range(2, len(numbers) + 2)))

    def test_delay(self):
        text = self.ours("-t2", "-c10", "-d2s", "-s", script("delay")).stdout
        # 30 ms of thinking, on average, between two requests of ten connections.
        self.assertTrue(100 < self.figure(text, r"Requests/sec: +([\d.]+)") < 420, text)

    def test_pipeline(self):
        text = self.ours("-t1", "-c1", "-d1s", "-s", script("pipeline")).stdout
        paths = [request[1] for request in self.server.requests]
        self.assertEqual(paths[:6], ["/a", "/b", "/c"] * 2)
        self.assertAlmostEqual(self.figure(text, r"(\d+) requests in "), len(paths), delta=3)

    def test_post_and_headers_of_the_command_line(self):
        self.ours("-t1", "-c1", "-d1s", "-s", script("post"), "-H", "X-A: b", "-H", "Bad:c")
        method, path, headers, body = self.server.requests[0]
        self.assertEqual((method, path, body), ("POST", "/", b"name=tom&city=bonn"))
        self.assertEqual((headers["Content-Length"], headers["X-A"]), ("18", "b"))
        self.assertNotIn("Bad", headers)

    def test_report(self):
        text = self.ours("-t1", "-c1", "-d1s", "-s", script("report")).stdout
        requests = self.figure(text, r"(\d+) requests in ")
        self.assertEqual(self.figure(text, r"report\t(\d+)\t"), requests)
        self.assertIn("errors\t0\t0\t0\t0\t0\n", text)
        self.assertLess(text.index("Transfer/sec"), text.index("report\t"))
        self.assertLess(text.index("report\t"), text.index(OURS))

    def test_setup(self):
        text = self.ours("-t2", "-c2", "-d1s", "-s", script("setup"), "--", "hey").stdout
        self.assertIn("thread 1 of limit 10 hears hey\nthread 2 of limit 20 hears hey\n", text)
        got = sum(int(count) for count in re.findall(r"made \d+ and got (\d+)", text))
        self.assertIn(f"sum\t{got}\t{got}\they\tnil", text)

    def test_stop(self):
        text = self.ours("-t2", "-c2", "-d600s", "-s", script("stop")).stdout
        self.assertEqual(self.figure(text, r"(\d+) requests in "), 200)

    def test_addr(self):
        text = self.ours("-t2", "-c2", "-d1s", "-s", script("addr")).stdout
        self.assertEqual(text.count(f"thread addr: 127.0.0.1:{self.server.port}\n"), 2)

    def test_a_script_that_fails_or_does_not_end_is_named_with_its_line(self):
        cases = [("\nfunction request() return x.y end", r"bad\.lua:2: attempt to index global 'x'"),
                 ("function request()\nwhile true do end end", r"bad\.lua:2: .* did not come to an end"),
                 ("x = = 1", r"bad\.lua:1: unexpected symbol")]
        with tempfile.TemporaryDirectory() as folder:
            for text, message in cases:
                name = os.path.join(folder, "bad.lua")
                with open(name, "w", encoding="utf-8") as file:
                    file.write(text)
                answer = self.ours("-t1", "-c1", "-d1s", "-s", name, code=1)
                self.assertRegex(answer.stderr, message)

    def test_control_c_prints_what_there_is(self):
        tester = subprocess.Popen([BINARY, "wrk", self.server.url(), "-d", "60s"], text=True,
                                  env=environment(), stdout=subprocess.PIPE)
        time.sleep(1)
        tester.send_signal(signal.SIGINT)
        text, _ = tester.communicate(timeout=DEADLINE_S)
        self.assertEqual(tester.returncode, 0)
        self.assertRegex(text, r"\d+ requests in \d")

    def test_nobody_there(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            answer = run("wrk", f"http://127.0.0.1:{free.getsockname()[1]}/", "-d", "1s")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("unable to connect to 127.0.0.1:", answer.stderr)

    def test_more_connections_than_descriptors_are_refused_with_the_remedy(self):
        answer = run("wrk", self.server.url(), "-c", "60000", prefix=("prlimit", "--nofile=20000"))
        self.assertEqual(answer.returncode, 1)
        self.assertRegex(answer.stderr, r"60000 connections need \d+ descriptors, but .* 20000")


@unittest.skipUnless(REAL, "the package wrk is not installed")
class BesideTheRealOne(unittest.TestCase):
    def both(self, *words, path="/"):
        texts, seen = [], []
        for program in ([REAL], [BINARY, "wrk"]):
            server = Server()
            done = subprocess.run([*program, "-t2", "-c4", "-d1s", *words, server.url(path)],
                                  capture_output=True, text=True, timeout=30, env=environment(),
                                  check=False)
            server.close()
            self.assertEqual(done.returncode, 0, done.stderr)
            text = done.stdout.replace(str(server.port), "9")
            texts.append(text)
            seen.append(server.requests)
        theirs, ours = texts[0], texts[1].split(OURS)[0] + "\n"
        self.assertEqual(blank(theirs), blank(ours))
        if "-nan%" not in theirs:
            self.assertEqual(ends(theirs), ends(ours))
        return seen

    def test_the_layout_is_the_same_without_a_script(self):
        self.both()
        self.both("--latency")

    def test_the_layout_is_the_same_with_errors(self):
        self.both(path="/no")
        self.both("--timeout", "1", "-d3s", path="/slow?1300")

    def test_scripts_do_the_same(self):
        for name in ["auth", "counter", "delay", "pipeline", "post", "setup", "addr"]:
            with self.subTest(name):
                theirs, ours = self.both("-s", script(name))
                # The same kinds of requests, with the same headers.
                def kinds(seen):
                    return {(method, re.sub(r"\d+", "#", path), body,
                             tuple(sorted((key, re.sub(r"\d+", "#", value))
                                          for key, value in headers.items())))
                            for method, path, headers, body in seen}
                self.assertEqual(kinds(theirs), kinds(ours))


class Miop(Case):
    """The line of the reports, scaled down, against our own server."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.program = os.path.join(folder.name, "wrk")
        os.symlink(BINARY, self.program)

    def url(self, prefix, listener="any"):
        host, port = self.server.ports[listener]
        return f"miop://{prefix}:demo@{host}:{port}/"

    def wrk(self, line, **how):
        """A line of a shell, in which the binary is called `wrk`."""
        line = line.replace("./wrk", self.program)
        return subprocess.run(["bash", "-c", "export HOSTNAME=box7; " + line], text=True,
                              capture_output=True, timeout=60, env=environment(), check=False, **how)

    def test_the_reports_line(self):
        url = self.url("$HOSTNAME")
        line = f"./wrk {url} -t 12 -c 600 --latency -d 3s --timeout 15 -s {script('delay')}"
        answer = self.wrk(line)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        text = answer.stdout
        self.assertIn("Running 3s test @ miop://box7:demo@", text)
        self.assertIn("12 threads and 600 connections\n", text)
        self.assertRegex(text, r"Latency Distribution\n +50% ")
        self.assertRegex(text, r"bound 600, online at the end 600\n")
        self.assertRegex(text, r"[1-9]\d* heartbeats = .* \(agrees\)")
        self.assertNotIn("DOES NOT AGREE", text)
        self.assertNotIn("WARNING: sessions were taken", text)

    def test_two_testers_with_one_prefix_are_warned(self):
        line = f"./wrk {self.url('twin')} -t 1 -c 5 -d 4s"
        first = subprocess.Popen([self.program, *line.split()[1:]], text=True, env=environment(),
                                 stdout=subprocess.PIPE)
        time.sleep(1)
        second = self.wrk(line)
        self.assertIn("another wrk on this machine has clients twin-0", second.stderr)
        text, _ = first.communicate(timeout=DEADLINE_S)
        self.assertIn("WARNING: sessions were taken away", text)
        self.assertRegex(text, r"\d+ in online: kicked \(target\)")

    def test_events_of_clients_reach_the_script(self):
        answer = self.wrk(f"./wrk {self.url('ev')} -t 1 -c 20 -d 2s -s {script('events')}")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertRegex(answer.stdout, r"events\t20\t[1-9]\d*\t0\n")
        self.assertIn("stages\tconnect steady end\n", answer.stdout)

    def test_in_a_web_socket_and_with_a_rate(self):
        url = self.url("w").replace("miop://", "ws://") + "miop"
        answer = self.wrk(f"./wrk {url} -t 1 -c 20 -d 3s -R 100 -L -U")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        text = answer.stdout
        self.assertRegex(text, r"bound 20, online at the end 20\n")
        self.assertRegex(text, r"\n    layers +\S+")
        self.assertIn("Latency Distribution, uncorrected", text)
        rate = float(re.search(r"Requests/sec: +([\d.]+)", text).group(1))
        self.assertAlmostEqual(rate, 100 + 20 / 3, delta=15)

    def test_a_refusal_has_its_code_and_is_a_status(self):
        url = self.url("ref").replace(":demo@", ":nobody@")
        text = self.wrk(f"./wrk {url} -t 1 -c 5 -d 2s").stdout
        self.assertRegex(text, r"Non-2xx or 3xx responses: 5\n")
        self.assertRegex(text, r"refused \d+: 5 \(no such product\)\n")
        self.assertRegex(text, r"5 in bind: bind_refused \(target\)")

    def test_a_server_that_says_nothing_is_a_bind_that_timed_out(self):
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen(64)
            url = f"miop://s:demo@127.0.0.1:{silent.getsockname()[1]}/"
            text = self.wrk(f"./wrk {url} -t 1 -c 5 -d 3s --timeout 1").stdout
        self.assertRegex(text, r"Socket errors: connect 0, read 0, write 0, timeout \d+")
        self.assertRegex(text, r"\d+ in bind: bind_timed_out \(target\)")
        self.assertNotIn("DOES NOT AGREE", text)


class Mqtt(unittest.TestCase):
    """Messages, heartbeats and subscriptions, against our own broker and mosquitto."""

    def brokers(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        authority = certificates.Authority(folder.name)
        yield Broker(tls=authority)
        if MOSQUITTO:
            yield Broker(mosquitto=True, tls=authority)

    def test_messages_heartbeats_and_subscriptions(self):
        for broker in self.brokers():
            for door, scheme, path in [("mqtt", "mqtt", ""), ("mqtts", "mqtts", ""),
                                       ("ws", "ws", "mqtt")]:
                url = f"{scheme}://m@127.0.0.1:{broker.port(door)}/{path}?subscribe=wrk/%i&qos=1"
                with self.subTest(url):
                    answer = run("wrk", url, "-t1", "-c10", "-d2s", "-s", script("mqtt"))
                    self.assertEqual(answer.returncode, 0, answer.stderr)
                    text = answer.stdout
                    self.assertIn("bound 10, online at the end 10\n", text)
                    self.assertRegex(text, r"publish +\S+")
                    self.assertRegex(text, r"[1-9]\d* heartbeats = .*agrees")
                    self.assertRegex(text, r"[1-9]\d* messages came unasked")
                    self.assertNotIn("DOES NOT AGREE", text)
                    self.assertNotIn("Socket errors", text)
            broker.close()


if __name__ == "__main__":
    unittest.main()

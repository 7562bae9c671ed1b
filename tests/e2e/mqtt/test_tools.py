"""mosquitto_pub and mosquitto_sub, and `holdline pub` and `holdline sub`, which take their flags.

The same calls are made of both pairs, in every mixture, so that whoever has scripts for one can
use the other.
"""

import shutil
import subprocess
import tempfile
import unittest

import certificates
import fixture
from fixture import poll
from mqtt.broker import IS_HOLDLINE, Broker, Case, holdline_only

PUBS = {"mosquitto": ["mosquitto_pub"], "holdline": [fixture.BINARY, "pub"]}
SUBS = {"mosquitto": ["mosquitto_sub"], "holdline": [fixture.BINARY, "sub"]}
KINDS = ["mosquitto", "holdline"] if IS_HOLDLINE else ["mosquitto"]
VERSIONS = ("31", "311", "5")


class Tools(Case):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("mosquitto_pub"):
            raise unittest.SkipTest("mosquitto_pub could not be installed: IT WAS NOT TRIED")
        folder = tempfile.TemporaryDirectory(prefix="holdline-mqtt-tls-")
        cls.addClassCleanup(folder.cleanup)
        cls.authority = certificates.Authority(folder.name)
        cls.client_pair = cls.authority.issue("device-7", file="client")
        cls.broker = Broker(tls=cls.authority, users={"ada": "engine"}, anonymous=True)
        cls.addClassCleanup(cls.broker.close)

    @classmethod
    def tearDownClass(cls):
        pass

    def words(self, tool, *arguments, door="mqtt", version="311"):
        at = ["-h", "127.0.0.1", "-p", str(self.broker.port(door)), "-V", version]
        return [*tool, *at, *map(str, arguments)]

    def pub(self, kind, *arguments, input=None, ok=True, **how):
        done = subprocess.run(self.words(PUBS[kind], *arguments, **how), input=input, timeout=fixture.DEADLINE_S,
                              capture_output=True, text=True, check=False)
        if ok:
            self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def sub(self, kind, *arguments, **how):
        """A subscriber that runs; whoever needs it subscribed asks `subscribed`."""
        process = subprocess.Popen(self.words(SUBS[kind], *arguments, **how), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        def end():
            process.kill()
            process.communicate()
        self.addCleanup(end)
        return process

    def printed(self, process, timeout=fixture.DEADLINE_S):
        output, noise = process.communicate(timeout=timeout)
        self.assertEqual(process.returncode, 0, noise)
        return output

    def settled(self, process, kind, topic, **how):
        """Publishes markers until the subscriber (begun with -C and -v) has begun to print."""
        poll(lambda: (self.pub(kind, "-t", topic, "-m", "marker", **how),
                      process.poll() is not None)[1], "the subscriber has had its message")

    def test_a_message_in_every_mixture(self):
        for pub in KINDS:
            for sub in KINDS:
                for version in VERSIONS:
                    for qos in range(3):
                        with self.subTest(pub=pub, sub=sub, version=version, qos=qos):
                            topic = f"{self.name}/{pub}{sub}{version}{qos}"
                            reader = self.sub(sub, "-t", topic, "-q", qos, "-C", 1, "-v",
                                              version=version)
                            self.settled(reader, pub, topic, version=version)
                            self.assertEqual(self.printed(reader), f"{topic} marker\n")

    def test_retained_messages_are_set_printed_and_removed(self):
        for pub in KINDS:
            for sub in KINDS:
                with self.subTest(pub=pub, sub=sub):
                    topic = f"{self.name}/{pub}{sub}"
                    self.pub(pub, "-t", topic, "-m", "kept", "-r", "-q", 1)
                    reader = self.sub(sub, "-t", topic, "-C", 1, "--retained-only")
                    self.assertEqual(self.printed(reader), "kept\n")
                    self.pub(pub, "-t", topic, "-n", "-r", "-q", 1)
                    reader = self.sub(sub, "-t", topic, "-W", 1)
                    output, _ = reader.communicate(timeout=fixture.DEADLINE_S)
                    self.assertEqual(output, "")
                    self.assertEqual(reader.returncode, 27)

    def test_a_session_that_is_kept_collects_messages(self):
        for kind in KINDS:
            with self.subTest(kind):
                topic, id = f"{self.name}/{kind}", f"{self.name}-{kind}"
                keep = ("-i", id, "-c", "-q", 1, "-t", topic)
                self.printed(self.sub(kind, *keep, "-E"))
                self.pub(kind, "-t", topic, "-l", "-q", 1, input="one\ntwo\nthree\n")
                found = self.printed(self.sub(kind, *keep, "-C", 3))
                self.assertEqual(found, "one\ntwo\nthree\n")

    def test_input_from_a_file_and_from_standard_input(self):
        for kind in KINDS:
            with self.subTest(kind), tempfile.NamedTemporaryFile() as file:
                topic, payload = f"{self.name}/{kind}", "line\n" * 1000
                file.write(payload.encode())
                file.flush()
                self.pub(kind, "-t", topic, "-f", file.name, "-r")
                self.assertEqual(self.printed(self.sub(kind, "-t", topic, "-C", 1, "-N")), payload)
                self.pub(kind, "-t", topic, "-s", "-r", input="all of it")
                self.assertEqual(self.printed(self.sub(kind, "-t", topic, "-C", 1)), "all of it\n")

    def test_users_and_wrong_passwords(self):
        for kind in KINDS:
            for version in VERSIONS:
                with self.subTest(kind, version=version):
                    user = ("-t", self.name, "-m", "x", "-u", "ada")
                    self.pub(kind, *user, "-P", "engine", version=version)
                    done = self.pub(kind, *user, "-P", "wrong", ok=False, version=version)
                    self.assertIn(done.returncode, (4, 5, 134, 135), done.stderr)
                    self.assertTrue(done.stderr.strip())

    def test_tls_and_mutual_tls(self):
        cert, key = self.client_pair
        for kind in KINDS:
            with self.subTest(kind):
                tls = ("--cafile", self.authority.certificate, "-q", 1, "-t", self.name, "-m", "x")
                self.pub(kind, *tls, door="mqtts")
                self.pub(kind, *tls, "--cert", cert, "--key", key, door="mutual")
                done = self.pub(kind, *tls, door="mutual", ok=False)
                self.assertNotEqual(done.returncode, 0)
                plain = self.pub(kind, "-t", self.name, "-m", "x", "-q", 1, door="mqtts", ok=False)
                self.assertNotEqual(plain.returncode, 0)

    @holdline_only("they are ours")
    def test_websockets_by_our_own(self):
        topic = f"{self.name}/ws"
        self.pub("holdline", "--ws", "/mqtt", "-t", topic, "-m", "kept", "-r", "-q", 1, door="ws")
        reader = self.sub("holdline", "--ws", "/mqtt", "--cafile", self.authority.certificate,
                          "-t", topic, "-C", 1, door="wss")
        self.assertEqual(self.printed(reader), "kept\n")

    def test_a_will_of_a_tool_that_was_killed(self):
        for kind in KINDS:
            with self.subTest(kind):
                will, id = f"{self.name}/{kind}/will", f"{self.name}{kind}"
                self.pub(kind, "-t", f"{self.name}/{kind}/ready", "-m", "yes", "-r", "-q", 1)
                mortal = self.sub(kind, "-i", id, "-v", "-t", f"{self.name}/{kind}/ready",
                                  "--will-topic", will, "--will-payload", "gone", "--will-retain",
                                  "--will-qos", 1)
                self.assertIn("ready", mortal.stdout.readline())
                mortal.kill()
                reader = self.sub(kind, "-t", will, "-C", 1)
                self.assertEqual(self.printed(reader), "gone\n")

    def test_properties_of_5(self):
        for pub in KINDS:
            for sub in KINDS:
                with self.subTest(pub=pub, sub=sub):
                    topic = f"{self.name}/{pub}{sub}"
                    self.pub(pub, "-t", topic, "-m", "x", "-r", "-q", 1, "-D", "publish",
                             "content-type", "text/plain", "-D", "publish", "response-topic",
                             "back", "-D", "publish", "user-property", "a", "b", version="5")
                    reader = self.sub(sub, "-t", topic, "-C", 1, "-F", "%t %q %r %p %C %R %P",
                                      version="5")
                    self.assertEqual(self.printed(reader), f"{topic} 0 1 x text/plain back a:b\n")

    @holdline_only("mosquitto takes it")
    def test_a_message_larger_than_the_server_takes_is_refused_and_said(self):
        for version in VERSIONS:
            done = self.pub("holdline", "-t", self.name, "-s", "-q", 1, version=version, ok=False,
                            input="x" * (2 * 1024 * 1024))
            self.assertNotEqual(done.returncode, 0)
            self.assertTrue(done.stderr.strip())

    def test_nobody_there(self):
        for kind in KINDS:
            with self.subTest(kind):
                words = [*PUBS[kind], "-h", "127.0.0.1", "-p", "1", "-t", "a", "-m", "b"]
                done = subprocess.run(words, timeout=30, capture_output=True, text=True,
                                      check=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertTrue(done.stderr.strip())

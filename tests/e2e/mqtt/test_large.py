"""Messages of a hundred megabytes, by mosquitto's own tools: live, retained, for one who is away,
and over a kill of the server.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import unittest

from fixture import poll
from mqtt.broker import Case, holdline_only

BYTES = 100 * 1024 * 1024
LIMITS = {"packet_bytes_max": 268_435_455}


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@holdline_only("mosquitto has no limit to be told")
class Large(Case):
    PLAN = {"limits": LIMITS}

    @classmethod
    def setUpClass(cls):
        if not shutil.which("mosquitto_pub"):
            raise unittest.SkipTest("mosquitto_pub could not be installed: IT WAS NOT TRIED")
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="holdline-mqtt-large-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.file = os.path.join(folder.name, "sent")
        with open(cls.file, "wb") as file:
            block = os.urandom(1 << 20)
            for number in range(BYTES >> 20):
                file.write(number.to_bytes(4, "big") + block[4:])
        cls.digest = digest(cls.file)

    def at(self, *more):
        return ["-h", "127.0.0.1", "-p", str(self.broker.port()), *more]

    def publish(self, topic, *more, file=None):
        words = self.at("-t", topic, "-f", file or self.file, *more)
        done = subprocess.run(["mosquitto_pub", *words],
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def hear(self, topic, *more, ready=None):
        """A subscriber of one message; returns what it got, when `ready` is over."""
        path = os.path.join(self.folder, f"got-{self.name}")
        with open(path, "wb") as got:
            process = subprocess.Popen(
                ["mosquitto_sub", *self.at("-t", topic, "-N", "-C", "1", "-W", "300", *more)],
                stdout=got)
            self.addCleanup(lambda: process.poll() is None and process.kill())
            if ready:
                ready()
            self.assertEqual(process.wait(310), 0)
        self.addCleanup(lambda: os.path.exists(path) and os.remove(path))
        return digest(path)

    def listens(self, client_id):
        def is_subscribed():
            status, answer = self.broker.server.api("GET", f"/v1/clients/{client_id}")
            return status == 200 and answer["online"] and answer["subscriptions"] == 1
        poll(is_subscribed, "it is subscribed")

    def test_live_at_every_qos(self):
        for qos in "0", "1", "2":
            with self.subTest(qos=qos):
                name = f"{self.name}{qos}"

                def send():
                    self.listens(name)
                    self.publish(name, "-q", qos)
                got = self.hear(name, "-q", qos, "-i", name, ready=send)
                self.assertEqual(got, self.digest)

    def test_retained_over_a_kill(self):
        self.publish(self.name, "-r", "-q", "1")
        self.assertEqual(self.hear(self.name), self.digest)
        self.broker.restart(kill=True)
        self.assertEqual(self.hear(self.name, "-q", "1"), self.digest)
        self.publish(self.name, "-r", "-q", "1", file="/dev/null")

    def test_for_one_who_is_away_over_a_kill(self):
        lasting = ["-i", self.name, "-c", "-q", "1"]
        subprocess.run(["mosquitto_sub", *self.at("-t", self.name, "-E", *lasting)],
                       check=True, timeout=60)
        self.publish(self.name, "-q", "1")
        self.broker.restart(kill=True)
        self.assertEqual(self.hear(self.name, *lasting), self.digest)

    def test_one_byte_too_many_ends_the_connection(self):
        name = f"{self.name}m"
        limited = self.start(limits={"packet_bytes_max": 2_000_000})
        publish = ["mosquitto_pub", "-h", "127.0.0.1", "-p", str(limited.port()), "-V", "311",
                   "-q", "1", "-t", name, "-f", self.file]
        done = subprocess.run(publish, capture_output=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)

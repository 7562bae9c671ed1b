"""A server whose log and banner nobody takes: a full disk, a reader that left or stopped reading.

Its connections must not notice. What is lost is counted.
"""

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import unittest

import fixture
from fixture import Case, poll
from mqtt.broker import free_port


class Unheard(fixture.Server):
    """A server whose standard output and error are this file, so that its ports are chosen."""

    def __init__(self, lane, prefix=()):
        self.lane = lane
        self.ports = {name: ("127.0.0.1", free_port()) for name in ("any", "api")}
        changes = {"listen.any": {"address": f"127.0.0.1:{self.ports['any'][1]}"},
                   "api": {"address": f"127.0.0.1:{self.ports['api'][1]}"},
                   "server": {"log": "debug"}}
        super().__init__(changes, prefix=prefix)

    def start(self):
        words = [*self.prefix, fixture.BINARY, "serve", "--config", self.file, "--data", self.data]
        self.process = subprocess.Popen(
            words, env=fixture.environment(self.env), cwd=self.folder, stdin=subprocess.DEVNULL,
            stdout=self.lane, stderr=self.lane, preexec_fn=fixture.end_with_parent)
        self.pid, self._api = self.process.pid, None
        poll(self._is_up, "the API answers")
        with open(os.path.join(self.data, "api.token"), encoding="utf-8") as file:
            self.token = file.read().strip()

    def _is_up(self):
        if self.process.poll() is not None:
            raise AssertionError(f"it ended with {self.process.returncode}")
        with contextlib.suppress(OSError):
            socket.create_connection(self.ports["api"]).close()
            return True
        return False

    def close(self):
        if self._api:
            self._api.close()
        self.process.kill()
        self.process.wait()


class Output(Case):
    SHARED = False

    def lives_on(self, server):
        """Everything that is logged is lost, and nobody notices."""
        self.addCleanup(server.close)
        links = [server.device() for _ in range(4)]
        for at, link in enumerate(links):
            self.addCleanup(link.close)
            link.bind(f"d-{at}")
        server.signal(signal.SIGHUP)
        other = server.device()
        other.bind("e")
        other.close()
        server.offline("e")
        for at in range(4):
            self.assertTrue(server.online(f"d-{at}"))
        self.assertGreater(self.lost(server), 0)
        server.process.terminate()
        self.assertEqual(server.process.wait(15), 0)

    def lost(self, server):
        return server.reading("log_lines_lost_total")

    def test_a_log_on_a_full_disk_ends_no_connection(self):
        with open("/dev/full", "wb") as lane:
            self.lives_on(Unheard(lane))

    def test_a_log_whose_reader_left_ends_no_connection(self):
        reader, writer = os.pipe()
        os.close(reader)
        with open(writer, "wb") as lane:
            self.lives_on(Unheard(lane))

    def test_a_log_whose_reader_does_not_read_stops_nobody(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, bytes(4096))
        os.set_blocking(writer, True)
        with open(writer, "wb") as lane:
            self.lives_on(Unheard(lane))

    def test_a_log_that_may_not_grow_is_lost_without_a_signal(self):
        with tempfile.NamedTemporaryFile("ab") as lane:
            lane.truncate(1 << 30)
            os.lseek(lane.fileno(), 0, os.SEEK_END)
            words = ["bash", "-c", 'ulimit -f 1048576; exec "$@"', "bash"]
            self.lives_on(Unheard(lane, prefix=words))

    def test_what_could_be_written_is_not_counted(self):
        with tempfile.NamedTemporaryFile("ab") as lane:
            server = Unheard(lane)
            self.addCleanup(server.close)
            self.assertEqual(self.lost(server), 0)
            with open(lane.name, encoding="utf-8") as log:
                self.assertIn("is running", log.read())


if __name__ == "__main__":
    unittest.main()

"""A server takes another one's place, without a supervisor: nobody who calls is refused, everybody
comes back, nothing that was acknowledged is lost, whichever of the two is killed in the middle.

`HOLDLINE_E2E_CROWD` is how many clients of each protocol there are in the large test, and
`HOLDLINE_E2E_CROWD_ONE` how many of one protocol where one follows the other: 15,000 are the
promise, as many as a process may have descriptors for. Given it, the times are told, and held to
the 30 seconds of the promise:

    HOLDLINE_E2E_CROWD_ONE=15000 python3 tests/e2e/run.py test_takeover.AtSize
"""

import http.client
import json
import os
import socket
import struct
import subprocess
import threading
import uuid

import crowd
import crowd_layers
import fixture
from certificates import Authority
from fixture import BINARY, Case, Server, poll
from miop import DEADLINE_S
from im import wire

EACH = int(os.environ.get("HOLDLINE_E2E_CROWD", "1000"))
ONE = int(os.environ.get("HOLDLINE_E2E_CROWD_ONE", "0"))
PROMISED_S = 30
PORT = {"address": "127.0.0.1:0", "backlog": 65536}


def mqtt_frame(first, body):
    size, left = bytearray(), len(body)
    while True:
        left, byte = divmod(left, 128)
        size.append(byte | (0x80 if left else 0))
        if not left:
            return bytes([first]) + bytes(size) + body


class Teller(threading.Thread):
    """Publishes at QoS 1 to a session that is kept, and says the same to somebody in chat, one
    after the other; `told` are the numbers that were acknowledged."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.mqtt, self.im = server.ports["mqtt"], server.ports["im"]
        self.told, self.said, self.refused = [], [], []
        self.over, self.number = threading.Event(), 0

    def run(self):
        while not self.over.is_set():
            try:
                self._tell()
            except ConnectionRefusedError as error:
                self.refused.append(error)
            except (OSError, wire.Ended, AssertionError, EOFError):
                pass  # the server lets it go: it comes back

    def _tell(self):
        link = socket.create_connection(self.mqtt, DEADLINE_S)
        stream = link.makefile("rwb")
        people = wire.Device(self.im)
        try:
            stream.write(mqtt_frame(0x10, b"\0\4MQTT\4\2\0\0\0\6teller"))
            stream.flush()
            self._exactly(stream, 4)
            people.login("teller", "phone")
            while not self.over.is_set():
                self.number += 1
                number = self.number % 65535 + 1
                text = str(self.number).encode()
                body = b"\0\4news" + struct.pack(">H", number) + text
                stream.write(mqtt_frame(0x32, body))
                stream.flush()
                assert self._exactly(stream, 4)[0] == 0x40
                self.told.append(self.number)
                people.send("hearer", str(self.number), uuid.uuid4().bytes)
                self.said.append(self.number)
        finally:
            link.close()
            people.close()

    @staticmethod
    def _exactly(stream, count):
        data = stream.read(count)
        if len(data) < count:
            raise EOFError
        return data


class TakeOver(Case):
    SHARED = False

    def setUp(self):
        super().setUp()
        wire.schema()
        self.folder = self.enterContext(fixture.tempfile.TemporaryDirectory())
        self.file = os.path.join(self.folder, "local.sock")

    def changes(self, **more):
        ports = {f"listen.{name}": {**PORT, "protocol": name, **extra} for name, extra in {
            "mqtt": {}, "miop": {}, "im": {}, "xmpp": {}}.items()}
        return {**ports, "listen.any": {"address": f"unix:{self.file}"},
                "server": {"shards": 2, "pin": False},
                "limits": {"connections_max": 18000, "take_over_ms": 500, "bind_ms_max": 600000,
                           "binds_per_s": 1000000, "drain_ms": 200, "retry_jitter_ms": 0}, **more}

    def successor(self, old, changes=None, **how):
        """A server that takes the place of this one, which says who it is before it offers that."""
        poll(lambda: os.path.exists(os.path.join(old.data, "take-over.sock")), "its place is offered")
        return self.start(changes or self.changes(), data=old.data, arguments=("--take-over",),
                          **how)

    def attempt(self, old, changes=None, tail=""):
        """A successor as a process alone, which need not come to serve."""
        path = os.path.join(self.folder, "attempt.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(fixture.configuration(changes or self.changes(), tail))
        process = subprocess.Popen(
            [BINARY, "serve", "--take-over", "--config", path, "--data", old.data],
            env=fixture.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=fixture.end_with_parent)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def crowd(self, server, each):
        people = crowd.Crowd()
        self.addCleanup(people.close)
        for speech in (crowd.MQTT, crowd.MIOP, crowd.IM, crowd.XMPP):
            people.call(speech, server.ports[speech.protocol], each)
        return people

    def keeper(self, server):
        """A session that is kept, for what is told; it stays away."""
        link = socket.create_connection(server.ports["mqtt"], DEADLINE_S)
        link.sendall(mqtt_frame(0x10, b"\0\4MQTT\4\0\0\0\0\6keeper"))
        link.sendall(mqtt_frame(0x82, b"\0\1\0\4news\1"))
        with link, link.makefile("rb") as stream:
            self.assertEqual(len(stream.read(9)), 9)
        hearer = wire.Device(server.ports["im"])
        hearer.login("hearer", "phone")
        hearer.close()

    def kept(self, server, teller):
        """Everything that was acknowledged is there."""
        link = socket.create_connection(server.ports["mqtt"], DEADLINE_S)
        self.addCleanup(link.close)
        link.sendall(mqtt_frame(0x10, b"\0\4MQTT\4\0\0\0\0\6keeper"))
        missing, stream = set(teller.told), link.makefile("rb")
        stream.read(4)
        while missing:
            first = stream.read(1)[0]
            size = stream.read(1)[0]
            body = stream.read(size)
            if first & 0xf0 == 0x30:
                missing.discard(int(body[8:]))
                link.sendall(b"\x40\2" + body[6:8])
        hearer = wire.Device(server.ports["im"])
        self.addCleanup(hearer.close)
        hearer.login("hearer", "phone")
        heard = {int(text) for _, text in hearer.pull_all()}
        self.assertLessEqual(set(teller.said), heard)
        self.assertEqual(teller.refused, [])

    def told(self, server):
        teller = Teller(server)
        self.addCleanup(teller.over.set)
        teller.start()
        poll(lambda: len(teller.said) > 20, "some is acknowledged")
        return teller

    def ends(self, teller, count):
        """Some more is told, by whoever serves now; then nothing."""
        poll(lambda: len(teller.said) > count + 20, "more is acknowledged")
        teller.over.set()
        teller.join(DEADLINE_S)


class Place(TakeOver):
    def test_nobody_is_refused_everybody_is_back_and_nothing_acknowledged_is_lost(self):
        old = self.start(self.changes())
        self.keeper(old)
        people = self.crowd(old, EACH)
        teller = self.told(old)
        new = self.successor(old)
        self.assertEqual(old.wait(DEADLINE_S), 0)
        self.assertEqual(new.ports, old.ports)
        people.all_in_again(2)
        self.ends(teller, len(teller.said))
        self.assertEqual(people.refused, [])
        for protocol in ("mqtt", "miop", "im", "xmpp"):
            self.assertEqual(people.leaves(protocol), EACH, f"{protocol} was told that it goes")
        people.close()
        self.kept(new, teller)
        self.assertIn("the new server serves: stopped", old.log)

    def test_who_calls_meanwhile_waits_at_each_listener(self):
        slow = {"limits": {**self.changes()["limits"], "take_over_ms": 3000}}
        old = self.start(self.changes(**slow))
        stays = crowd.Crowd()
        self.addCleanup(stays.close)
        stays.call(crowd.MQTT, old.ports["mqtt"], 50)
        api = http.client.HTTPConnection(*old.ports["api"], timeout=DEADLINE_S)
        self.addCleanup(api.close)
        local = socket.socket(socket.AF_UNIX)
        self.addCleanup(local.close)
        local.settimeout(DEADLINE_S)

        def call():
            old.logged("a new server takes over")
            # So many are let go by both shards alone: neither takes anybody in any more.
            poll(lambda: stays.leaves("mqtt") > 40, "most are let go")
            api.request("GET", "/readyz")
            local.connect(self.file)
            local.sendall(bytes.fromhex("101000044d5154540402003c0004") + b"late")
        calling = threading.Thread(target=call)
        calling.start()
        self.addCleanup(calling.join)
        # A process ends with the thread that started it: that is this one.
        new = self.successor(old)
        calling.join(DEADLINE_S)
        self.assertEqual(local.recv(4), bytes.fromhex("20020000"), "CONNACK")
        self.assertEqual(api.getresponse().status, 200)
        stays.all_in_again(2)
        self.assertEqual(stays.refused, [])
        self.assertEqual(new.stop(), 0)
        self.assertFalse(os.path.exists(self.file), "whoever serves last takes it away")

    def test_one_follows_the_other_with_other_shards_and_listeners(self):
        server = self.start(self.changes())
        first = server
        for shards in (1, 3):
            more = self.changes(server={"shards": shards, "pin": False},
                                **{f"listen.new{shards}": {**PORT, "protocol": "mqtt"}})
            following = self.successor(server, more)
            self.assertEqual(server.wait(DEADLINE_S), 0)
            server = following
            self.assertEqual(server.ports["mqtt"], first.ports["mqtt"])
            self.bound("somebody", server=server, connect={"listener": "miop"})
        self.assertEqual(server.stop(), 0)
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(first.ports["mqtt"], DEADLINE_S)

    def test_without_a_server_it_is_an_ordinary_start(self):
        server = self.start(self.changes(), arguments=("--take-over",))
        self.assertIn("no server runs on this data folder", server.log)
        server.kill()
        again = self.start(self.changes(), data=server.data, arguments=("--take-over",))
        self.assertEqual(again.stop(), 0)


class Layers(TakeOver):
    """Clients of each protocol in TLS, in a WebSocket, and in a WebSocket in TLS."""

    EACH = 50

    def changes(self, **more):
        authority = Authority(self.folder)
        certificate, key = authority.issue("localhost", "DNS:localhost")
        paths = {"mqtt": "/mqtt", "miop": "/miop", "im": "/im", "xmpp": "/xmpp-websocket"}
        ports = {}
        for protocol, path in paths.items():
            # Where there is a WebSocket, MIOP is one of those that the first bytes tell apart.
            spoken = "any" if protocol == "miop" else protocol
            for tls in (False, True):
                ports[f"listen.{protocol}-{'tls' if tls else 'web'}"] = {
                    **PORT, "protocol": spoken, "websocket": path, "tls": tls}
        return super().changes(tls={"certificate": certificate, "key": key}, **ports, **more)

    def test_whatever_lies_between_they_are_told_and_come_back(self):
        changes = self.changes()
        old = self.start(changes)
        people = crowd.Crowd()
        self.addCleanup(people.close)
        for plain, web in ((crowd.MQTT, crowd.MQTT_WEB), (crowd.MIOP, crowd.MIOP_WEB),
                           (crowd.IM, crowd.IM_WEB), (crowd.XMPP, crowd.XMPP_WEB)):
            of = old.ports[f"{plain.protocol}-tls"]
            people.call(plain.over(crowd_layers.Tls), of, self.EACH)
            people.call(web, old.ports[f"{plain.protocol}-web"], self.EACH)
            people.call(web.over(crowd.within_tls(web.layer)), of, self.EACH)
        new = self.successor(old, changes)
        self.assertEqual(old.wait(DEADLINE_S), 0)
        people.all_in_again(2)
        self.assertEqual(people.refused, [])
        for protocol in ("mqtt", "miop", "im", "xmpp"):
            self.assertEqual(people.leaves(protocol), 3 * self.EACH, f"{protocol}: told of it")
        # Sessions go on: nobody is new.
        self.assertEqual(new.status()["counters"]["sessions_resumed_total"], 3 * self.EACH)
        people.close()


class AtSize(TakeOver):
    """Of one protocol as many as a process may have."""

    def test_one_protocol_after_the_other(self):
        told = []
        for speech in (crowd.MQTT, crowd.MIOP, crowd.IM, crowd.XMPP):
            with self.subTest(speech.protocol):
                told.append(self.exchange(speech, ONE or 500))
        if ONE:
            print(json.dumps(told))

    def exchange(self, speech, count):
        old = self.start(self.changes(limits={**self.changes()["limits"], "take_over_ms": 3000}))
        self.keeper(old)
        people = crowd.Crowd()
        self.addCleanup(people.close)
        people.call(speech, old.ports[speech.protocol], count)
        teller = self.told(old)
        new = self.successor(old)
        self.assertEqual(old.wait(DEADLINE_S), 0)
        people.all_in_again(2)
        self.ends(teller, len(teller.said))
        self.assertEqual(people.refused, [])
        self.assertEqual(people.leaves(speech.protocol), count, "all were told that it goes")
        if speech.protocol == "mqtt":
            self.assertGreaterEqual(new.status()["counters"]["sessions_resumed_total"], count)
        people.close()
        self.kept(new, teller)
        new.kill()
        times = people.absences()
        told = {"protocol": speech.protocol, "clients": count, "acknowledged": len(teller.told),
                "away_median_s": round(times[len(times) // 2], 2), "away_most_s": round(times[-1], 2)}
        if ONE:
            self.assertLess(times[-1], PROMISED_S, told)
        return told


class Failed(TakeOver):
    def refused(self, old, why, **how):
        """An attempt that ends, says why, and changes nothing."""
        attempt = self.attempt(old, **how)
        _, told = attempt.communicate(timeout=DEADLINE_S)
        self.assertEqual(attempt.returncode, 1)
        self.assertIn(why, told)
        self.assertIn("continues to serve", told)
        old.status()
        self.assertNotIn("takes over", old.log)

    def test_a_new_one_that_cannot_serve_leaves_the_old_one_serving(self):
        old = self.start(self.changes())
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        place = "127.0.0.1:%d" % taken.getsockname()[1]
        other = self.changes(**{"listen.more": {"address": place, "protocol": "mqtt"}})
        self.refused(old, "is in use", changes=other)
        nowhere = self.changes(tls={"certificate": "/nowhere.pem", "key": "/nowhere.pem"})
        self.refused(old, "/nowhere.pem", changes=nowhere)
        new = self.successor(old)
        self.assertEqual(old.wait(DEADLINE_S), 0)
        new.status()

    def test_an_old_one_under_a_supervisor_is_not_taken_over(self):
        place = os.path.join(self.folder, "notify")
        theirs = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(theirs.close)
        theirs.bind(place)
        old = self.start(self.changes(), env={"NOTIFY_SOCKET": place})
        self.assertFalse(os.path.exists(os.path.join(old.data, "take-over.sock")))

    def test_a_new_one_killed_in_the_middle_has_the_old_one_serve_again(self):
        old = self.start(self.changes())
        self.keeper(old)
        people = self.crowd(old, 50)
        teller = self.told(old)
        attempt = self.attempt(old)
        old.logged("a new server takes over")
        attempt.kill()
        old.logged("serving again")
        people.all_in_again(2)
        self.ends(teller, len(teller.said))
        self.assertEqual(people.refused, [])
        self.kept(old, teller)
        people.close()
        new = self.successor(old)
        self.assertEqual(old.wait(DEADLINE_S), 0)
        self.assertEqual(new.stop(), 0)

    def test_an_old_one_killed_in_the_middle_is_followed_by_the_new_one(self):
        old = self.start(self.changes(
            limits={**self.changes()["limits"], "take_over_ms": 86_400_000}))
        self.keeper(old)
        people = self.crowd(old, 50)
        teller = self.told(old)

        def kill():
            old.logged("a new server takes over")
            old.kill()
        killing = threading.Thread(target=kill)
        killing.start()
        self.addCleanup(killing.join)
        new = self.successor(old)
        people.all_in_again(2)
        self.ends(teller, len(teller.said))
        # Who was let in by the kernel and not by the server that was killed hears a reset.
        self.assertEqual([it for it in people.refused if it[2] == "ECONNREFUSED"], [])
        self.kept(new, teller)

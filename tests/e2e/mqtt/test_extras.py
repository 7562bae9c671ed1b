"""What operators expect beside the standard, and the doors that MQTT shares with others."""

import os
import socket
import ssl
import subprocess
import tempfile

import certificates
import mqtt.wire as wire
from fixture import (BINARY, DEADLINE_S, SECRET, Server, end_with_parent, environment, poll,
                     run)
from mqtt.broker import Case, free_port, holdline_only, passwords
from mqtt.test_sessions import lasting
from mqtt.wire import CONNACK, PUBLISH, V31, V311, V5, Wire

REWRITES = """
[[mqtt.rewrite]]
filter = "old/+/#"
to = "new/$1/$2"

[[mqtt.auto_subscribe]]
filter = "inbox/%c/#"
qos = 1
"""


@holdline_only("they are its own")
class Extras(Case):
    PLAN = {"tail": REWRITES}

    def test_topics_are_rewritten(self):
        reader = self.opened5(self.name)
        reader.subscribe((f"new/{self.name}/#", 1))
        self.opened5("w").publish(f"old/{self.name}/b/c", b"x", 1)
        self.assertEqual(reader.take().topic, f"new/{self.name}/b/c")
        other = self.opened5(f"{self.name}2")
        other.subscribe((f"old/{self.name}/#", 1))
        self.opened5("w").publish(f"new/{self.name}/d", b"x", 1)
        self.assertEqual(other.take().topic, f"new/{self.name}/d")

    def test_a_client_is_subscribed_by_itself(self):
        for version in (V31, V311, V5):
            client = self.opened(f"{self.name}{version}", version, **lasting(version))
            writer = self.opened5("w")
            writer.publish(f"inbox/{self.name}{version}/a", b"x", 2)
            found = client.take()
            self.assertEqual((found.payload, found.qos), (b"x", 1))
            client.leave()
            writer.publish(f"inbox/{self.name}{version}/a", b"y", 2)
            client = self.opened(f"{self.name}{version}", version, **lasting(version))
            self.assertEqual(client.take().payload, b"y")

    def test_a_delayed_publish_comes_late_even_after_a_kill(self):
        reader = self.opened5(self.name, **lasting(V5))
        reader.subscribe((f"{self.name}/#", 1))
        writer = self.opened5("w")
        writer.publish(f"$delayed/3600/{self.name}/later", b"later", 1)
        writer.publish(f"$delayed/2/{self.name}/late", b"late", 1)
        writer.publish(f"{self.name}/soon", b"soon", 1)
        self.assertEqual(reader.take().payload, b"soon")
        self.assertEqual(reader.take().topic, f"{self.name}/late")
        self.quiet(reader)
        writer.publish(f"$delayed/3/{self.name}/kept", b"kept", 1)
        self.broker.restart(kill=True)
        reader = self.opened5(self.name, **lasting(V5))
        self.assertEqual(reader.take(15).payload, b"kept")

    def test_an_exclusive_subscription_has_one_holder(self):
        one, two = self.opened5(f"{self.name}1"), self.opened5(f"{self.name}2")
        self.assertEqual(one.subscribe((f"$exclusive/{self.name}", 1)), [1])
        code, = two.subscribe((f"$exclusive/{self.name}", 1), ok=False)
        self.assertGreaterEqual(code, 0x80)
        two.publish(self.name, b"x", 1)
        self.assertEqual(one.take().payload, b"x")
        one.leave()
        poll(lambda: two.subscribe((f"$exclusive/{self.name}", 1), ok=False) == [1], "it is free")
        two.publish(self.name, b"y", 0)
        self.assertEqual(two.take().payload, b"y")


@holdline_only("they are its limits")
class Limits(Case):
    PLAN = {"limits": {"queue_count_max": 10, "subscriptions_a_session_max": 5,
                       "retained_max": 100, "session_expiry_s_max": 100, "keep_alive_s_max": 50,
                       "client_id_bytes_max": 100, "topic_alias_max": 0, "receive_max": 7,
                       "inflight_max": 3, "sys_interval_s": 0}}

    def test_a_client_of_5_is_told_what_was_cut(self):
        props = self.opened5(self.name, keep_alive=0, props={"session_expiry": 0xFFFFFFFF,
                                                             }).connack.props
        self.assertEqual(props["session_expiry"], 100)
        self.assertEqual(props["server_keep_alive"], 50)
        self.assertEqual(props["receive_max"], 7)
        self.assertEqual(props.get("alias_max", 0), 0)

    def test_a_full_queue_drops_and_counts(self):
        client = self.opened5(self.name, **lasting(V5))
        client.subscribe((f"{self.name}/#", 1))
        client.leave()
        writer = self.opened5("w")
        for number in range(50):
            writer.publish(f"{self.name}/a", str(number), 1)
        state = self.broker.server.ask("GET", f"/v1/clients/{self.name}")
        self.assertEqual((state["queued"], state["dropped"]), (10, 40))
        client = self.opened5(self.name, **lasting(V5))
        found = [client.take().payload for _ in range(10)]
        self.assertEqual(found, [str(number).encode() for number in range(10)])
        self.quiet(client)

    def test_one_subscription_too_many_is_refused(self):
        client = self.opened5(self.name)
        codes = client.subscribe(*[f"{self.name}/{at}" for at in range(7)], ok=False)
        self.assertEqual(codes, [0] * 5 + [0x97] * 2)
        old = self.opened(f"{self.name}3", V311)
        codes = old.subscribe(*[f"{self.name}/{at}" for at in range(7)], ok=False)
        self.assertEqual(codes, [0] * 5 + [0x80] * 2)

    def test_retained_messages_above_the_limit_are_not_kept(self):
        writer = self.opened5("w")
        codes = [writer.publish(f"{self.name}/{at}", b"x", 1, retain=True).code
                 for at in range(250)]
        refused = codes.count(0x97)
        self.assertIn(refused, range(100, 151))  # shards take the last of it in small batches
        reader = self.opened5(self.name)
        reader.subscribe(f"{self.name}/#")
        for _ in range(250 - refused):
            reader.take()
        self.quiet(reader)

    def test_no_more_than_the_servers_own_window_is_on_the_way(self):
        client = self.opened5(self.name)
        client.subscribe((f"{self.name}/#", 1))
        writer = self.opened5("w")
        for number in range(6):
            writer.publish(f"{self.name}/a", str(number), 1)
        for _ in range(3):
            client.expect(PUBLISH)
        self.quiet(client)

    def test_an_identifier_that_is_too_long_is_refused(self):
        for version, code in ((V311, 2), (V5, 0x85)):
            client = self.wire(version)
            client.send(wire.connect(version, "x" * 101))
            self.assertEqual(client.expect(CONNACK).code, code)


@holdline_only("they are its limits")
class Rates(Case):
    PLAN = {"limits": {"publishes_per_s": 50, "queue_count_max": 10, "queue_drops_oldest": True,
                       "queue_qos0": True}}

    def test_a_client_that_publishes_too_fast_is_read_more_slowly(self):
        fast, slow = self.opened5(f"{self.name}f"), self.opened5(f"{self.name}s")
        fast.subscribe((f"{self.name}/#", 0))
        slow.send(*[wire.publish(V5, f"{self.name}/a", str(at)) for at in range(200)])
        began = wire.time.monotonic()
        found = [int(fast.take(20).payload) for _ in range(200)]
        self.assertEqual(found, list(range(200)))  # later, and none of them lost
        self.assertGreater(wire.time.monotonic() - began, 1.5)
        slow.ping()

    def test_a_full_queue_that_drops_its_oldest_keeps_the_newest(self):
        client = self.opened5(self.name, **lasting(V5))
        client.subscribe((f"{self.name}/#", 1))
        client.leave()
        writer = self.opened5("w")
        for number in range(30):
            writer.publish(f"{self.name}/a", str(number), 1)
        client = self.opened5(self.name, **lasting(V5))
        found = [int(client.take().payload) for _ in range(10)]
        self.assertEqual(found, list(range(20, 30)))
        self.quiet(client)

    def test_messages_of_qos_0_wait_where_they_are_told_to(self):
        client = self.opened5(self.name, **lasting(V5))
        client.subscribe((f"{self.name}/#", 1))
        client.leave()
        writer = self.opened5("w")
        for number in range(5):
            writer.publish(f"{self.name}/a", str(number), 0)
        writer.ping()
        client = self.opened5(self.name, **lasting(V5))
        self.assertEqual([int(client.take().payload) for _ in range(5)], list(range(5)))


@holdline_only("it is its profile")
class Lenient(Case):
    """What old devices get wrong, let pass on a listener that was told to."""

    PLAN = {"changes": {"listen.mqtt": {"lenient": True}}}

    # What the device does wrong, the bytes, and the packet that must answer.
    def test_faults_of_old_devices_pass_and_are_counted(self):
        cases = {
            "a long identifier in 3.1": (V31, wire.connect(V31, "x" * 40), CONNACK),
            "the reserved flag of CONNECT": (V311, bytes.fromhex(
                "100d00044d5154540403003c000164"), CONNACK),
            "no identifier and a session": (V311, wire.connect(V311, "", clean=False), CONNACK),
            "a password alone": (V311, wire.connect(V311, "alone", password="x"), CONNACK),
        }
        for name, (version, data, kind) in cases.items():
            with self.subTest(name):
                client = self.wire(version)
                client.send(data)
                found = client.expect(kind)
                self.assertEqual(found.code, 0, found)
                client.ping()
        client = self.opened("flags", V311)
        client.send(b"\x80" + wire.subscribe(V311, ["a"])[1:])
        self.assertEqual(client.expect(wire.SUBACK).codes, [0])
        client.send(wire.publish(V311, "a", b"dup", dup=True))
        self.assertEqual(client.expect(PUBLISH).payload, b"dup")
        self.assertIn("tolerated", self.broker.server.metrics())

    def test_what_would_harm_others_does_not_pass(self):
        for data in (wire.publish(V311, "a/#", b"x"), b"\x36\x06\x00\x01a\x00\x01x",
                     wire.publish(V311, b"\xff", b"x")):
            client = self.opened("harm", V311)
            client.send(data)
            self.assertEqual(client.until_closed(), [])

    def test_more_than_the_receive_maximum_is_read_slowly(self):
        client = self.opened5("greedy")
        client.send(*[wire.publish(V5, "greedy", b"x", 2, id=number) for number in range(1, 2001)])
        for number in range(1, 500):
            self.assertEqual(client.expect(wire.PUBREC).id, number)
            client.send(wire.acknowledge(wire.PUBREL, number))
            while client.kept:
                client.kept.pop()


@holdline_only("they are its doors")
class Doors(Case):
    """The same port for all, a socket file, a PROXY header, WebSockets by hand."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="holdline-doors-")
        cls.addClassCleanup(folder.cleanup)
        authority = certificates.Authority(folder.name)
        certificate, key = authority.issue("localhost", "DNS:localhost,IP:127.0.0.1")
        cls.path = os.path.join(folder.name, "mqtt.sock")
        cls.authority = authority
        cls.proxy_port, cls.near_port = free_port(), free_port()
        cls.server = Server({
            "tls": {"certificate": certificate, "key": key},
            "listen.any": {"websocket": True},
            "listen.file": {"address": f"unix:{cls.path}", "protocol": "mqtt"},
            "listen.proxy": {"address": f"127.0.0.1:{cls.proxy_port}", "protocol": "mqtt",
                             "proxy": "v1v2", "anonymous": "yes"},
            "listen.told": {"address": f"127.0.0.1:{cls.near_port}", "protocol": "mqtt",
                            "proxy": "v1v2"},
            "products.demo": {"topic": "push/%p/%d"},
        })
        cls.addClassCleanup(cls.server.close)

    @classmethod
    def tearDownClass(cls):
        pass

    def setUp(self):
        super().setUp()
        self.broker = None

    def at(self, version=V311):
        return Wire(self.server.ports["any"], version)

    def test_one_port_tells_mqtt_miop_and_tls_apart(self):
        client = self.at()
        client.open("any")
        client.subscribe("any/#")
        context = ssl.create_default_context(cafile=self.authority.certificate)
        secure = self.at(V5)
        secure.socket = context.wrap_socket(secure.socket, server_hostname="localhost")
        secure.open("any-tls")
        secure.publish("any/x", b"over TLS", 1)
        self.assertEqual(client.take().payload, b"over TLS")
        device = self.server.device()
        self.assertEqual(device.bind("beside")["result"], 0)
        device.close()

    def test_a_client_sees_the_pushes_of_a_device(self):
        client = self.at()
        client.open("cross")
        client.subscribe(("push/demo/+", 1))
        device = self.server.device()
        self.assertEqual(device.bind("dev-1", secret=SECRET)["result"], 0)
        self.server.online("dev-1")
        answer = self.server.push("dev-1", "for both", wait_ms=0)
        found = client.take()
        self.assertEqual((found.topic, found.payload), ("push/demo/dev-1", b"for both"))
        self.assertIn(answer["outcome"], ("delivered", "pending", "sent", "stored"))
        device.close()

    def test_a_socket_file(self):
        client = self.at()
        client.socket.close()
        client.socket = socket.socket(socket.AF_UNIX)
        client.socket.settimeout(10)
        client.socket.connect(self.path)
        client.open("file")
        client.subscribe("file")
        client.publish("file", b"x")
        self.assertEqual(client.take().payload, b"x")

    def test_a_proxy_header_names_the_client(self):
        client = Wire(("127.0.0.1", self.proxy_port), V5)
        client.send(b"PROXY TCP4 127.0.0.9 127.0.0.1 4711 1883\r\n")
        client.open("proxied")
        shown = self.server.ask("GET", "/v1/clients/proxied")
        self.assertIn("127.0.0.9", str(shown["peer"]))
        far = Wire(("127.0.0.1", self.near_port), V5)
        far.send(b"PROXY TCP4 127.0.0.1 127.0.0.1 4711 1883\r\n")
        far.send(wire.connect(V5, "far"))  # whatever it is told to be, it needs a name
        self.assertIn(far.expect(CONNACK).code, (0x86, 0x87))

    def upgrade(self, path, protocols):
        """A WebSocket by hand: status and subprotocol of the answer, and the socket."""
        link = socket.create_connection(self.server.ports["any"], 10)
        self.addCleanup(link.close)
        offer = f"Sec-WebSocket-Protocol: {protocols}\r\n" if protocols else ""
        link.sendall((f"GET {path} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
                      "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                      f"{offer}\r\n").encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            more = link.recv(4096)
            if not more:
                break
            answer += more
        head = answer.decode(errors="replace").lower()
        chosen = [line.split(":", 1)[1].strip() for line in head.split("\r\n")
                  if line.startswith("sec-websocket-protocol:")]
        return int(head.split()[1]) if head else 0, chosen, link

    @staticmethod
    def frame(data, opcode=2, final=True):
        mask = b"\1\2\3\4"
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
        assert len(data) < 126
        return bytes([(0x80 if final else 0) | opcode, 0x80 | len(data)]) + mask + masked

    def test_subprotocols(self):
        for offered, chosen in (("mqtt", ["mqtt"]), ("mqttv3.1", ["mqttv3.1"]),
                                ("other, mqtt", ["mqtt"])):
            with self.subTest(offered):
                status, found, _ = self.upgrade("/mqtt", offered)
                self.assertEqual((status, found), (101, chosen))

    def test_packets_that_are_spread_over_frames(self):
        whole = wire.connect(V311, "spread") + wire.subscribe(V311, ["spread"]) \
            + wire.publish(V311, "spread", b"x" * 10)
        for size in (1, 7, 100):
            _, _, link = self.upgrade("/mqtt", "mqtt")
            parts = [whole[at:at + size] for at in range(0, len(whole), size)]
            link.sendall(b"".join(self.frame(part) for part in parts))
            answer = b""
            while b"spread" + b"x" * 10 not in answer:
                more = link.recv(4096)
                self.assertTrue(more, answer)
                answer += more
            self.assertIn(b"\x20\x02\x00\x00", answer)

    def test_a_text_frame_ends_the_connection(self):
        _, _, link = self.upgrade("/mqtt", "mqtt")
        link.sendall(self.frame(wire.connect(V311, "text"), opcode=1))
        link.settimeout(5)
        answer = b""
        while more := link.recv(4096):
            answer += more
        self.assertNotIn(b"\x20\x02\x00\x00", answer)


CONF = """# As somebody has it
per_listener_settings false
listener {port} 127.0.0.1
allow_anonymous false
password_file {folder}/passwords
acl_file {folder}/acl
persistence true
persistence_location {folder}/
max_queued_messages 5
max_keepalive 60
log_type all
include_dir {folder}/conf.d
"""


@holdline_only("it is its reader")
class MosquittoConf(Case):
    SHARED = False

    def folder(self):
        folder = tempfile.TemporaryDirectory(prefix="holdline-conf-")
        self.addCleanup(folder.cleanup)
        passwords(os.path.join(folder.name, "passwords"), {"ada": "engine"})
        os.mkdir(os.path.join(folder.name, "conf.d"))
        self.port, self.second = free_port(), free_port()
        files = {"mosquitto.conf": CONF.format(port=self.port, folder=folder.name),
                 "acl": "user ada\ntopic readwrite ada/#\n",
                 "conf.d/second.conf": f"listener {self.second} 127.0.0.1\n"}
        for name, text in files.items():
            with open(os.path.join(folder.name, name), "w", encoding="utf-8") as file:
                file.write(text)
        return folder.name

    def check(self):
        for port in (self.port, self.second):
            client = Wire(("127.0.0.1", port), V5)
            client.open("ada-1", user="ada", password="engine")
            self.assertEqual(client.subscribe("ada/#", "other/#", ok=False), [0, 0x87])
            client.publish("ada/x", b"x")
            self.assertEqual(client.take().payload, b"x")
            other = Wire(("127.0.0.1", port), V311)
            other.send(wire.connect(V311, "nobody"))
            self.assertIn(other.expect(CONNACK).code, (4, 5))

    def test_the_server_starts_from_it(self):
        folder = self.folder()
        process = subprocess.Popen(
            [BINARY, "serve", "--mosquitto-conf", os.path.join(folder, "mosquitto.conf"),
             "--data", os.path.join(folder, "data")], env=environment({"HOLDLINE_API_ENABLED":
                                                                       "false"}),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            preexec_fn=end_with_parent, cwd=folder)
        try:
            def listens():
                with socket.socket() as trial:
                    return trial.connect_ex(("127.0.0.1", self.port)) == 0 or process.poll()
            poll(listens, "it listens", 15)
            self.assertIsNone(process.poll())
            self.check()
        finally:
            process.terminate()
            output, _ = process.communicate(timeout=DEADLINE_S)
        self.assertEqual(process.returncode, 0, output)

    def test_it_is_written_as_our_own(self):
        folder = self.folder()
        out = os.path.join(folder, "holdline.toml")
        done = run("config", "import", os.path.join(folder, "mosquitto.conf"), "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out, encoding="utf-8") as file:
            text = file.read()
        for word in (str(self.port), str(self.second), "queue_count_max = 5", "passwords"):
            self.assertIn(word, text)
        self.assertEqual(run("check", "--config", out).returncode, 0)

    def test_what_is_wrong_is_named_with_its_line(self):
        folder = self.folder()
        path = os.path.join(folder, "mosquitto.conf")
        with open(path, "a", encoding="utf-8") as file:
            file.write("no_such_option true\n")
        done = run("config", "import", path, "--out", os.path.join(folder, "x.toml"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no_such_option", done.stderr)
        self.assertIn("mosquitto.conf:13", done.stderr.replace("line ", ":").replace("::", ":"))

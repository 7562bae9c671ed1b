"""What may come through a listener: every protocol by its first bytes, TLS, WebSocket, PROXY.

Whatever ends is counted once, under its reason, and nothing else is.
"""

import os
import signal
import socket
import ssl
import struct
import tempfile
import time

import miop
from certificates import Authority
from fixture import Case, poll
from miop import BIND_ACK, Closed

MQTT_CONNECT = b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00"
XMPP = b"<?xml version='1.0'?><stream:stream to='example'>"


class Doors(Case):
    def raw(self, data, listener="any"):
        """What the server answers to these bytes until it closes."""
        stream = miop.Stream(self.server.ports[listener])
        self.addCleanup(stream.close)
        stream.send(data)
        deadline, answer = time.monotonic() + miop.DEADLINE_S, b""
        while True:
            try:
                answer += stream.receive(deadline)
            except Closed:
                return answer


class Plain(Doors):
    CHANGES = {
        "listen.miop": {"address": "127.0.0.1:0", "protocol": "miop"},
        "listen.ws": {"address": "127.0.0.1:0", "protocol": "http", "websocket": "/miop"},
        "listen.proxied": {"address": "127.0.0.1:0", "proxy": "v1v2", "websocket": "/miop"},
        "listen.unknown": {"address": "127.0.0.1:0", "proxy": "v1v2", "proxy_from": ["192.0.2.1"]},
        "limits": {"bind_ms_max": 2000},
    }

    def test_mqtt_is_told_apart_and_answered(self):
        with socket.create_connection(self.server.ports["any"], 10) as link:
            link.sendall(MQTT_CONNECT)
            self.assertEqual(link.recv(100), b"\x20\x02\x00\x00")

    def test_xmpp_is_told_apart_and_answered(self):
        with self.server.closes(malformed=1):
            answer = self.raw(XMPP)
        self.assertTrue(answer.startswith(b"<?xml version='1.0'?><stream:stream "), answer)
        self.assertIn(b"<stream:error><bad-namespace-prefix ", answer)

    def test_tls_without_a_certificate_is_closed_as_not_served(self):
        with self.server.closes(protocol_not_served=1):
            self.assertEqual(self.raw(b"\x16\x03\x01\x00\x05hello"), b"")

    def test_garbage_is_closed_as_an_unknown_protocol(self):
        for garbage in (b"\xff\xfe\xfd", b"hello\r\n", b"\x16\x99\x00"):
            with self.server.closes(unknown_protocol=1):
                self.assertEqual(self.raw(garbage), b"")

    def test_the_metrics_count_what_the_status_counts(self):
        def counted():
            lines = self.server.metrics().splitlines()
            line, = [line for line in lines if "unknown_protocol" in line and line[0] != "#"]
            return float(line.split()[-1])
        before = counted()
        self.raw(b"\xff\xff")
        poll(lambda: counted() == before + 1, "the metric moved by one")

    def test_plain_http_to_the_websockets_path_is_answered_426(self):
        with self.server.closes(web_socket_failed=1):
            answer = self.raw(b"GET /miop HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 426 "), answer)
        self.assertIn(b"pgrade: websocket", answer)

    def test_plain_http_to_another_path_is_answered_404(self):
        with self.server.closes(web_socket_failed=1):
            answer = self.raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 404 "), answer)

    def test_a_websocket_of_another_subprotocol_is_refused(self):
        with self.server.closes(web_socket_failed=1):
            with self.assertRaisesRegex(Closed, "400"):
                miop.WebSocket(miop.Stream(self.server.ports["any"]), protocol="soap")

    def test_every_version_works_in_a_websocket(self):
        for listener in ("any", "ws"):
            for version in (5, 6, 7):
                name = f"ws-{version}"
                device = self.bound(name, version, connect={"listener": listener, "ws": "/miop"})
                self.assertEqual(device.stream.headers["sec-websocket-protocol"], "miop")
                device.ping()
                self.server.push(name, "over the web")
                self.assertEqual(device.receive(), [b"over the web"])
                device.ping()

    def test_the_borders_of_websocket_messages_mean_nothing(self):
        device = self.device(ws="/miop")
        frames = device.bind_frame("borders") + miop.frame7(miop.PING)
        for at in range(0, len(frames), 3):
            device.stream.send(frames[at:at + 3])
        self.assertEqual(device.expect(BIND_ACK)["result"], 0)
        device.expect(miop.PONG)

    def test_a_websocket_ping_is_answered_and_a_close_is_answered_by_a_close(self):
        device = self.bound("ws-ping", connect={"ws": "/miop"})
        device.stream.send_frame(0x89, b"are you there")
        device.ping()
        self.assertEqual(device.stream.pong, b"are you there")
        with self.server.closes(peer_closed=1):
            device.stream.send_frame(0x88, struct.pack(">H", 1000))
            self.assertEqual(device.until_closed(), [])
        self.assertEqual(device.stream.close_code, 1000)

    def test_a_text_message_or_an_unmasked_frame_breaks_the_websocket(self):
        device = self.bound("ws-text", connect={"ws": "/miop"})
        with self.server.closes(web_socket_failed=1):
            device.stream.send_frame(0x81, b"text")
            device.until_closed()
        device = self.bound("ws-bare", connect={"ws": "/miop"})
        with self.server.closes(web_socket_failed=1):
            device.stream.stream.send(b"\x82\x04\x00\x07\x00\x00")
            device.until_closed()

    def test_a_listener_of_one_protocol_takes_no_other(self):
        for listener, data in (("miop", b"GET /miop HTTP/1.1\r\n\r\n"), ("miop", MQTT_CONNECT),
                               ("ws", miop.frame7(miop.PING)), ("ws", XMPP)):
            with self.server.closes(protocol_not_served=1):
                self.assertEqual(self.raw(data, listener), b"")

    def test_a_proxy_header_is_required_where_it_is_configured(self):
        with self.server.closes(proxy_header_failed=1):
            self.raw(miop.frame7(miop.PING), "proxied")
        with self.server.closes(proxy_header_failed=1):
            self.raw(b"PROXY TCP4 not an address\r\n", "proxied")

    def test_nobody_behind_a_proxy_is_local_whatever_the_header_says(self):
        headers = [header(address) for header in (miop.proxy_v1, miop.proxy_v2)
                   for address in ("203.0.113.9", "127.0.0.1")]
        headers += [miop.proxy_v2("203.0.113.9", local=True), b"PROXY UNKNOWN\r\n"]
        for before in headers:
            with self.server.closes(auth_failed=1):
                far = self.device(listener="proxied", before=before)
                self.assertEqual(far.bind("far")["result"], 20)  # anonymous from loopback alone
                far.until_closed()

    def test_a_proxy_header_from_elsewhere_ends_the_connection(self):
        with self.server.closes(proxy_refused=1):
            self.assertEqual(self.raw(miop.proxy_v1("203.0.113.9"), "unknown"), b"")

    def test_a_websocket_may_follow_a_proxy_header(self):
        with self.server.closes(auth_failed=1):
            far = self.device(listener="proxied", before=miop.proxy_v1("127.0.0.1"), ws="/miop")
            self.assertEqual(far.bind("proxied-ws")["result"], 20)
            far.until_closed()

    def test_a_page_of_another_site_is_refused(self):
        upgrade = (b"GET /miop HTTP/1.1\r\nHost: 127.0.0.1:7000\r\nUpgrade: websocket\r\n"
                   b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                   b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                   b"Origin: https://evil.example\r\n\r\n")
        with self.server.closes(origin_refused=1):
            self.assertTrue(self.raw(upgrade).startswith(b"HTTP/1.1 403 "))

    def test_a_proxy_header_that_never_ends_is_not_waited_for(self):
        with self.server.closes(handshake_timeout=1):
            self.assertEqual(self.raw(b"PROXY TCP4 ", "proxied"), b"")

    def test_an_upgrade_that_never_ends_is_not_waited_for(self):
        with self.server.closes(handshake_timeout=1):
            self.assertEqual(self.raw(b"GET /miop HTTP/1.1\r\nHost:"), b"")

    def test_an_upgrade_that_is_too_long_is_ended(self):
        with self.server.closes(web_socket_failed=1):
            self.raw(b"GET /miop HTTP/1.1\r\n" + b"X-Long: " + b"x" * 9000)


class Tls(Doors):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.authority = Authority(folder.name)
        cls.pair = cls.authority.issue("localhost", "DNS:localhost", file="server")
        cls.CHANGES = {
            "tls": {"certificate": cls.pair[0], "key": cls.pair[1],
                    "others": [cls.other("shop.example", "shop"), cls.other("*.iot.example", "iot")]},
            "listen.miops": {"address": "127.0.0.1:0", "protocol": "miop", "tls": True},
            "listen.wss": {"address": "127.0.0.1:0", "protocol": "http", "tls": True,
                           "websocket": "/miop"},
            "limits": {"bind_ms_max": 2000},
        }
        super().setUpClass()

    @classmethod
    def other(cls, name, file):
        """A file with the certificate of a name, and its key."""
        both = os.path.join(os.path.dirname(cls.pair[0]), f"{file}-both.pem")
        with open(both, "w", encoding="utf-8") as out:
            for path in cls.authority.issue(name.replace("*", "any"), f"DNS:{name}", file=file):
                with open(path, encoding="utf-8") as part:
                    out.write(part.read())
        return both

    def tls(self, version=None):
        return miop.tls_context(self.authority.certificate, version=version)

    def test_a_client_is_shown_the_certificate_of_the_name_it_asks_for(self):
        context = ssl.create_default_context(cafile=self.authority.certificate)
        context.check_hostname = False
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context.maximum_version = version
            for listener in ("any", "miops"):
                for name, shown in (("shop.example", "shop.example"), ("SHOP.example", "shop.example"),
                                    ("a.iot.example", "*.iot.example"), ("b.c.iot.example", "localhost"),
                                    ("unknown.example", "localhost"), (None, "localhost")):
                    link = socket.create_connection(self.server.ports[listener], 10)
                    with link, context.wrap_socket(link, server_hostname=name) as secured:
                        names = [name for _, name in secured.getpeercert()["subjectAltName"]]
                        self.assertEqual(names, [shown], name)

    def works(self, name, **connect):
        device = self.bound(name, connect=connect)
        device.ping()
        self.server.push(name, "x" * 4000)
        self.assertEqual(device.receive(), [b"x" * 4000])
        device.ping()
        return device

    def test_one_listener_takes_miop_tls_and_websockets_together(self):
        self.works("plain")
        self.works("tls", tls=self.tls())
        self.works("ws", ws="/miop")
        self.works("wss", tls=self.tls(), ws="/miop")

    def test_tls_1_2_and_1_3_are_spoken(self):
        for version, name in ((ssl.TLSVersion.TLSv1_2, "TLSv1.2"),
                              (ssl.TLSVersion.TLSv1_3, "TLSv1.3")):
            for listener, ws in (("any", None), ("miops", None), ("wss", "/miop")):
                device = self.works(f"{name}-{listener}", listener=listener, ws=ws,
                                    tls=self.tls(version))
                stream = device.stream.stream if ws else device.stream
                self.assertEqual(stream.socket.version(), name)

    def test_a_device_may_ask_for_miop_by_alpn(self):
        context = self.tls()
        context.set_alpn_protocols(["miop/7"])
        device = self.works("alpn", tls=context)
        self.assertEqual(device.stream.socket.selected_alpn_protocol(), "miop/7")

    def test_plain_bytes_on_a_listener_of_tls_are_refused(self):
        with self.server.closes(tls_failed=1):
            self.raw(miop.frame7(miop.PING), "miops")

    def test_a_broken_handshake_is_counted(self):
        with self.server.closes(tls_failed=1):
            self.raw(b"\x16\x03\x01\x00\x05hello")

    def test_a_handshake_that_never_ends_is_not_waited_for(self):
        with self.server.closes(handshake_timeout=1):
            self.raw(b"\x16\x03\x01\x02\x00\x01")

    def test_protocols_inside_tls_are_told_apart_and_counted_as_outside(self):
        for data, reason in ((XMPP, "malformed"), (b"\xff", "unknown_protocol")):
            with self.server.closes(**{reason: 1}):
                stream = miop.Stream(self.server.ports["any"], tls=self.tls())
                self.addCleanup(stream.close)
                stream.send(data)
                with self.assertRaises(Closed):
                    while True:
                        stream.receive(time.monotonic() + 5)

    def test_many_handshakes_at_once_all_come_through(self):
        contexts = [self.tls() for _ in range(50)]
        devices = [self.device(tls=context) for context in contexts]
        for at, device in enumerate(devices):
            device.send(device.bind_frame(f"crowd-{at}"))
        for device in devices:
            self.assertEqual(device.expect(BIND_ACK)["result"], 0)

    def test_a_certificate_is_reloaded_by_sighup_without_dropping_connections(self):
        older = self.bound("older", connect={"tls": self.tls()})
        shown = older.stream.socket.getpeercert(binary_form=True)
        self.authority.issue("localhost", "DNS:localhost", file="server")
        self.server.signal(signal.SIGHUP)
        self.server.logged("certificates reloaded")

        def fresh():
            with miop.Stream(self.server.ports["any"], tls=self.tls()).socket as link:
                return link.getpeercert(binary_form=True) != shown
        poll(fresh, "new connections see the new certificate")
        older.ping()
        self.server.push("older", "still here")
        self.assertEqual(older.receive(), [b"still here"])

    def test_a_certificate_that_cannot_be_read_leaves_the_old_one_in_use(self):
        with open(self.pair[0], encoding="utf-8") as file:
            good = file.read()
        try:
            with open(self.pair[0], "w", encoding="utf-8") as file:
                file.write("no certificate")
            self.server.signal(signal.SIGHUP)
            self.server.logged("certificates not reloaded")
            self.works("after", tls=self.tls())
        finally:
            with open(self.pair[0], "w", encoding="utf-8") as file:
                file.write(good)

    def test_a_session_is_resumed_by_a_ticket(self):
        context = self.tls(ssl.TLSVersion.TLSv1_2)
        first = miop.Stream(self.server.ports["any"], tls=context)
        session = first.socket.session
        first.close()
        raw = socket.create_connection(self.server.ports["any"])
        with context.wrap_socket(raw, server_hostname="localhost", session=session) as again:
            self.assertTrue(again.session_reused)

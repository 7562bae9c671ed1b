"""The device of these tests writes and reads the dumps of docs/wire/miop.md, byte for byte."""

import os
import re
import unittest

import fixture
import miop

KEY = b"sixteen byte key"


def dumps():
    """{title: bytes} of the document's ```dump blocks."""
    path = os.path.join(fixture.ROOT, "docs", "wire", "miop.md")
    with open(path, encoding="utf-8") as file:
        blocks = re.findall(r"```dump ([^\n]*)\n(.*?)```", file.read(), re.S)
    out = {}
    for title, text in blocks:
        data = b""
        for line in text.splitlines():
            line = line.strip()
            if line.startswith('"'):
                data += line[1:line.rindex('"')].replace("\\n", "\n").encode()
            else:
                data += bytes.fromhex(line.split("|")[0])
        out[title] = data
    return out


class Document(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dumps = dumps()

    def writes(self, title, data):
        self.assertEqual(data.hex(" "), self.dumps[title].hex(" "))

    def reads(self, title, version=7):
        device = miop.Device.__new__(miop.Device)
        device.version, device.buffer = version, self.dumps[title]
        frame = device._take()
        self.assertEqual(device.buffer, b"", "bytes are left")
        return frame

    def test_classic_frames_of_the_device_are_those_of_the_document(self):
        ts = 1700000000000
        self.writes("ping of version 6", miop.classic(6, miop.PING))
        self.writes("bind of version 5", miop.classic(
            5, miop.BIND, {"u": "dev-1@1", "ts": ts, "t": 300}))
        sign = miop.classic_sign(KEY, "dev-1@1", ts, 300)
        self.writes('bind of version 6 signed with the secret "sixteen byte key"', miop.classic(
            6, miop.BIND,
            {"u": "dev-1@1", "k": 1, "t": 300, "ts": ts, "authtype": 7, "sign": sign}))
        self.writes("msg_ack of version 6", miop.classic(6, miop.MSG_ACK, {"ack": 1 << 60}))
        self.writes("unbind of version 5", miop.classic(5, miop.UNBIND, {"u": "dev-1@1"}))

    def test_classic_frames_of_the_server_are_understood(self):
        self.assertEqual(self.reads("pong of version 6", 6).opcode, miop.PONG)
        self.assertEqual(self.reads("bind_ack of version 6", 6).props, {"id": "1", "r": "0"})
        message = self.reads("msg of version 6", 6)
        self.assertEqual((message.records[0].id, message.bodies), (1 << 60, [b"hi"]))
        self.assertEqual(self.reads("unbind_ack of version 5", 5)["r"], "0")
        self.assertEqual(self.reads("unbind_ack of version 6", 6).props, {})
        away = self.reads("bind_ack of version 5 that redirects", 5)
        self.assertEqual((away["r"], away["addr0"]), ("33", "10.0.0.2:7070"))

    def test_frames_of_version_7_of_the_device_are_those_of_the_document(self):
        nonce, ts, device = bytes(range(16, 32)), 1700000000000, "dev-000000000001"
        claim = (KEY, "demo", device, ts, nonce)
        self.writes('bind signed with the secret "sixteen byte key"', miop.frame7(miop.BIND, {
            "device_id": device, "product_key": "demo", "client_ts": ts, "client_nonce": nonce,
            "auth_type": 1, "key_id": 1, "mac": miop.mac7(*claim)}))
        challenge = self.reads("challenge")
        mac = miop.mac7(*claim, server_nonce=challenge["server_nonce"])
        self.writes("auth answering it", miop.frame7(miop.AUTH, {"mac": mac}))
        self.writes("ping", miop.frame7(miop.PING))
        self.writes("ping with an acknowledgement", miop.frame7(
            miop.PING, {"last_msg_id": 1 << 60}))
        self.writes("msg_ack", miop.frame7(
            miop.MSG_ACK, {"last_msg_id": 1 << 60}, ((1 << 60) + 5).to_bytes(8, "big")))
        self.writes("pull of ten", miop.frame7(
            miop.PULL, {"last_msg_id": 1 << 60, "count": 10}))
        self.writes("report", miop.frame7(miop.REPORT, payload=b"hi", seq=1))
        self.writes("unbind", miop.frame7(miop.UNBIND))

    def test_frames_of_version_7_of_the_server_are_understood(self):
        ack = self.reads("bind_ack")
        self.assertEqual((ack["result"], ack["heartbeat"], ack["offline_count"]), (0, 310, 2))
        self.assertEqual(self.reads("bind_ack that refuses")["retry_after_ms"], 2500)
        message = self.reads("msg").records[0]
        self.assertEqual((message.high, message.collapse, message.body), (True, b"key", b"hi"))
        self.assertTrue(self.reads("msg sent again").dup)
        self.assertEqual(self.reads("pull answered")["offline_count"], 0)
        self.assertEqual(self.reads("report_ack")["report_seq"], 1)
        self.assertEqual(self.reads("error to a Report over quota")["result"], 31)
        self.assertEqual(self.reads("kick")["session_epoch"], 18)
        self.assertEqual(self.reads("redirect")["addr"], ["10.0.0.2:7070"])
        self.assertEqual(self.reads("go_away")["retry_after_ms"], 4000)
        self.assertEqual(self.reads("config")["max_inflight"], 64)
        self.assertEqual(self.reads("error to an unknown opcode")["reason"], "unknown_opcode")

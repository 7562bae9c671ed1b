"""What a device brings to show that it is the device: every proof, accepted and refused."""

import os
import tempfile

import miop
from certificates import Authority
from fixture import SECRET, Case
from miop import BIND_ACK, CHALLENGE, RESUMED

OTHER = bytes(range(100, 132))
CLOSED = {20: "auth_failed", 21: "clock_skew", 22: "replayed", 23: "unknown_product"}


class Proofs(Case):
    CHANGES = {
        "products.demo": {"anonymous": "nowhere", "secrets": [
            {"key_id": 2, "hex": OTHER.hex()}, {"key_id": 1, "hex": SECRET.hex()}]},
        "products.strict": {"app_id": 2, "anonymous": "loopback", "challenge": True,
                            "secrets": [{"key_id": 1, "hex": SECRET.hex()}]},
    }

    def refused(self, result, version=7, **how):
        """A Bind that is refused with this result, told, counted once, and the end."""
        with self.server.closes(**{CLOSED[result]: 1}):
            device = self.device(version)
            answer = device.bind(how.pop("device", self.name), **how)
            told = answer["result"] if version == 7 else int(answer["r"])
            self.assertEqual(told, result)
            self.assertEqual(device.until_closed(), [])

    def test_a_bind_without_a_proof_is_refused_where_nobody_is_anonymous(self):
        for version in (5, 6, 7):
            self.refused(20, version)

    def test_a_bind_signed_with_the_products_secret_is_accepted(self):
        self.bound(self.name, secret=SECRET, key_id=1).ping()

    def test_the_key_id_names_one_of_several_secrets(self):
        self.bound(self.name, secret=OTHER, key_id=2)
        self.refused(20, secret=OTHER, key_id=1)
        self.refused(20, secret=SECRET, key_id=3)

    def test_a_wrong_mac_is_refused(self):
        self.refused(20, secret=OTHER, key_id=1)

    def test_a_mac_over_another_device_is_refused(self):
        device = self.device()
        frame = device.bind_frame("device-aa", secret=SECRET).replace(b"device-aa", b"device-bb")
        device.send(frame)
        self.assertEqual(device.expect(BIND_ACK)["result"], 20)

    def test_the_capabilities_are_part_of_what_is_signed(self):
        self.bound(self.name, secret=SECRET, caps=miop.CAPS_PULLS)

    def test_a_clock_that_is_too_far_off_is_refused(self):
        for off_ms in (-600_000, 600_000):
            self.refused(21, secret=SECRET, ts=miop.now_ms() + off_ms)
            self.refused(21, version=6, secret=SECRET, ts=miop.now_ms() + off_ms)
        self.bound(self.name, secret=SECRET, ts=miop.now_ms() - 60_000)

    def test_a_bind_that_is_replayed_is_refused(self):
        first = self.device()
        frame = first.bind_frame(self.name, secret=SECRET)
        first.send(frame)
        self.assertEqual(first.expect(BIND_ACK)["result"], 0)
        second = self.device()
        with self.server.closes(replayed=1):
            second.send(frame)
            self.assertEqual(second.expect(BIND_ACK)["result"], 22)
            second.until_closed()
        first.ping()

    def test_a_classic_bind_that_is_replayed_is_refused(self):
        for version in (5, 6):
            first, second = self.device(version), self.device(version)
            frame = first.bind_frame_classic(f"{self.name}-{version}", secret=SECRET)
            first.send(frame)
            self.assertEqual(first.expect(BIND_ACK)["r"], "0")
            second.send(frame)
            self.assertEqual(second.expect(BIND_ACK)["r"], "22")

    def test_a_classic_sign_is_accepted(self):
        for version in (5, 6):
            for secret in (SECRET, OTHER):
                self.bound(f"{self.name}-{version}", version, secret=secret).ping()

    def test_a_wrong_classic_sign_is_refused(self):
        for version in (5, 6):
            self.refused(20, version, secret=b"nobody's secret.")

    def test_an_unknown_product_is_refused(self):
        for version in (5, 6, 7):
            self.refused(23, version, product="nothing")

    def test_a_token_made_by_the_api_is_accepted_for_its_device_alone(self):
        path = f"/v1/products/demo/devices/{self.name}/token"
        token = self.server.ask("POST", path, {"ttl_s": 600})["token"]
        self.bound(self.name, token=token)
        self.refused(20, device="somebody-else", token=token)
        self.refused(20, token=token[:-1] + ("0" if token[-1] != "0" else "1"))

    def test_a_session_is_resumed_without_the_main_proof(self):
        first = self.bound(self.name, secret=SECRET)
        second = self.device()
        self.assertEqual(second.bind(self.name, resume=first.bound)["result"], RESUMED)
        self.refused(20, resume=first.bound)  # an earlier session's

    def test_a_resume_token_is_good_for_its_device_alone(self):
        first = self.bound(self.name, secret=SECRET)
        self.refused(20, device="another", resume=first.bound)

    def test_a_strict_product_demands_a_challenge(self):
        device = self.device()
        device.send(device.bind_frame(self.name, "strict", secret=SECRET))
        challenge = device.next()
        self.assertEqual(challenge.opcode, CHALLENGE)
        device.answer_challenge(challenge)
        self.assertEqual(device.next()["result"], 0)

    def test_a_strict_product_does_not_look_at_the_devices_clock(self):
        for off_ms in (-31_536_000_000, 31_536_000_000):
            device = self.device()
            ts = miop.now_ms() + off_ms
            device.send(device.bind_frame(self.name, "strict", secret=SECRET, ts=ts))
            device.answer_challenge(device.next())
            self.assertEqual(device.next()["result"], 0)

    def test_a_strict_product_refuses_a_wrong_answer_and_the_old_mac(self):
        for nonce in (b"", bytes(16)):
            device = self.device()
            device.send(device.bind_frame(self.name, "strict", secret=SECRET))
            device.expect(CHALLENGE)
            mac = miop.mac7(*device.claim, server_nonce=nonce)
            with self.server.closes(auth_failed=1):
                device.send(miop.frame7(miop.AUTH, {"mac": mac}))
                self.assertEqual(device.expect(BIND_ACK)["result"], 20)
                device.until_closed()

    def test_a_strict_product_refuses_every_proof_that_cannot_be_challenged(self):
        for version in (5, 6, 7):
            self.refused(20, version, product="strict")
        self.refused(20, 6, product="strict", secret=SECRET)

    def test_something_else_than_the_answer_to_a_challenge_ends_the_connection(self):
        device = self.device()
        device.send(device.bind_frame(self.name, "strict", secret=SECRET))
        device.expect(CHALLENGE)
        with self.server.closes(out_of_order=1):
            device.send(miop.frame7(miop.PING))
            self.assertEqual(device.until_closed()[-1]["reason"], "out_of_order")

    def test_each_challenge_is_another(self):
        nonces = set()
        for _ in range(5):
            device = self.device()
            device.send(device.bind_frame(self.name, "strict", secret=SECRET))
            nonces.add(device.expect(CHALLENGE)["server_nonce"])
        self.assertEqual(len(nonces), 5)


class Certificates(Case):
    """Mutual TLS: the identity in the certificate is the device id."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.authority = Authority(folder.name)
        certificate, key = cls.authority.issue("localhost", "DNS:localhost")
        cls.CHANGES = {
            "tls": {"certificate": certificate, "key": key,
                    "client_ca": cls.authority.certificate},
            "listen.any": {"client_certificates": "optional"},
            "listen.mutual": {"address": "127.0.0.1:0", "protocol": "miop", "tls": True,
                              "client_certificates": "required"},
            "products.demo": {"anonymous": "nowhere"},
        }
        super().setUpClass()

    def tls(self, *client, **how):
        pair = self.authority.issue(*client, **how) if client else None
        return miop.tls_context(self.authority.certificate, pair)

    def test_a_certificate_whose_identity_is_the_device_id_is_accepted(self):
        tls = self.tls("meter-1")
        for listener in ("any", "mutual"):
            for version in (5, 6, 7):
                self.bound("meter-1", version, connect={"listener": listener, "tls": tls}).ping()
        self.bound("meter-1", connect={"listener": "mutual", "tls": tls}, certificate=True).ping()

    def test_a_certificate_may_name_the_device_as_alternative_name(self):
        tls = self.tls("some product", "DNS:meter-2", file="alternative")
        self.bound("meter-2", connect={"listener": "mutual", "tls": tls})

    def test_a_certificate_of_another_device_is_refused(self):
        tls = self.tls("meter-3")
        with self.server.closes(auth_failed=1):
            device = self.device(listener="mutual", tls=tls)
            self.assertEqual(device.bind("meter-4")["result"], 20)
            device.until_closed()

    def test_without_a_certificate_the_handshake_fails_where_one_is_required(self):
        with self.server.closes(tls_failed=1):
            with self.assertRaises((miop.Closed, OSError)):
                self.device(listener="mutual", tls=self.tls()).bind("meter-5")

    def test_a_certificate_of_an_unknown_authority_fails_the_handshake(self):
        os.mkdir(self.authority.path("other"))
        stranger = Authority(self.authority.path("other")).issue("meter-6")
        tls = miop.tls_context(self.authority.certificate, stranger)
        with self.server.closes(tls_failed=1):
            with self.assertRaises((miop.Closed, OSError)):
                self.device(listener="mutual", tls=tls).bind("meter-6")

    def test_without_a_certificate_another_proof_does_where_it_is_optional(self):
        device = self.bound("meter-7", connect={"tls": self.tls()}, secret=SECRET)
        device.ping()

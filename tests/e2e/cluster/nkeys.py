"""NKeys and the tokens that they sign, as NATS has them: ed25519 by openssl, base32 by hand."""

import base64
import hashlib
import json
import os
import subprocess
import time
import uuid

ACCOUNT, OPERATOR, USER, SEED = 0, 14 << 3, 20 << 3, 18 << 3


def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc


def encoded(data):
    return base64.b32encode(data + crc16(data).to_bytes(2, "little")).decode().rstrip("=")


def openssl(*words, stdin=None):
    return subprocess.run(["openssl", *words], input=stdin, check=True, capture_output=True,
                          timeout=20).stdout


class NKey:
    """A key of a user, an account or an operator, kept in a folder."""

    def __init__(self, folder, role=USER):
        self.path = os.path.join(folder, f"{uuid.uuid4()}.pem")
        openssl("genpkey", "-algorithm", "ed25519", "-out", self.path)
        raw = openssl("pkey", "-in", self.path, "-outform", "DER")[-32:]
        public = openssl("pkey", "-in", self.path, "-pubout", "-outform", "DER")[-32:]
        self.public = encoded(bytes([role]) + public)
        self.seed = encoded(bytes([SEED | role >> 5, (role & 31) << 3]) + raw)

    def sign(self, data):
        place = f"{self.path}.data"
        with open(place, "wb") as file:
            file.write(data)
        return openssl("pkeyutl", "-sign", "-rawin", "-inkey", self.path, "-in", place)

    def token(self, of, name, nats, lasts_s=None):
        """A token that this key signs for another one."""
        url = lambda data: base64.urlsafe_b64encode(data).decode().rstrip("=")  # noqa: E731
        claims = {"iat": int(time.time()), "iss": self.public, "name": name, "sub": of.public,
                  "nats": {"version": 2, **nats}}
        if lasts_s is not None:
            claims["exp"] = int(time.time()) + lasts_s
        digest = hashlib.new("sha512_256", json.dumps(claims).encode()).digest()
        claims["jti"] = base64.b32encode(digest).decode().rstrip("=")
        text = ".".join(url(json.dumps(it).encode())
                        for it in ({"typ": "JWT", "alg": "ed25519-nkey"}, claims))
        return f"{text}.{url(self.sign(text.encode()))}"


class Operator:
    """An operator with a system account and one with JetStream: `configuration` of a server, and
    credentials of users."""

    def __init__(self, folder):
        self.folder = folder
        own, system, self.account = (NKey(folder, role) for role in (OPERATOR, ACCOUNT, ACCOUNT))
        limits = {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1,
                  "wildcards": True, "conn": -1, "leaf": -1}
        stores = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
        operator = own.token(own, "operator", {"type": "operator",
                                               "system_account": system.public})
        of = lambda key, name, limits: own.token(  # noqa: E731
            key, name, {"type": "account", "limits": limits})
        self.configuration = (
            f"operator: {operator}\nsystem_account: {system.public}\nresolver: MEMORY\n"
            f"resolver_preload {{ {system.public}: {of(system, 'system', limits)}\n"
            f"{self.account.public}: {of(self.account, 'holdline', {**limits, **stores})} }}\n")

    def credentials(self, lasts_s=None):
        """A file for a user; its token lasts so long."""
        user = NKey(self.folder)
        token = self.account.token(user, "node", {"type": "user", "subs": -1, "data": -1,
                                                  "payload": -1}, lasts_s)
        place = os.path.join(self.folder, f"{user.public}.creds")
        with open(place, "w", encoding="utf-8") as file:
            file.write(f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
                       f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n"
                       "------END USER NKEY SEED------\n")
        return place

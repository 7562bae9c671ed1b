"""How a client proves who it is: SCRAM-SHA-256 (RFC 5802, RFC 7677) and login tokens (IM 3.5)."""

import base64
import binascii
import hashlib
import hmac
from typing import Optional, Tuple

SCRAM = "SCRAM-SHA-256"
HASHED_TOKEN = "HT-SHA-256-NONE"
#: Most iterations that are computed for a server: a hostile one shall not keep us busy.
ITERATIONS_MAX = 1_000_000


class Scram:
    """One exchange. Names and passwords are taken as they are, without SASLprep."""

    def __init__(self, name: str, password: str, nonce: str) -> None:
        quoted = name.replace("=", "=3D").replace(",", "=2C")
        self._password, self._nonce = password.encode(), nonce
        self._bare = f"n={quoted},r={nonce}"

    @property
    def first(self) -> bytes:
        """The data of Login."""
        return f"n,,{self._bare}".encode()

    def answer(self, challenge: bytes) -> Optional[Tuple[bytes, bytes]]:
        """The data of Proceed, and what the server must say then; None: this is no challenge to
        this exchange."""
        try:
            text = challenge.decode()
            fields = dict(part.split("=", 1) for part in text.split(","))
            nonce, iterations = fields["r"], int(fields["i"])
            salt = base64.b64decode(fields["s"], validate=True)
        except (ValueError, KeyError, binascii.Error):
            return None
        is_ours = nonce.startswith(self._nonce) and len(nonce) > len(self._nonce)
        if not is_ours or not 1 <= iterations <= ITERATIONS_MAX:
            return None
        salted = hashlib.pbkdf2_hmac("sha256", self._password, salt, iterations)
        key = _mac(salted, b"Client Key")
        last = f"c=biws,r={nonce}"
        said = f"{self._bare},{text},{last}".encode()
        signature = _mac(hashlib.sha256(key).digest(), said)
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature))).decode()
        expected = b"v=" + base64.b64encode(_mac(_mac(salted, b"Server Key"), said))
        return f"{last},p={proof}".encode(), expected


def hashed_token(name: str, token: str) -> Tuple[bytes, bytes]:
    """The data of Login, and what the server must say then."""
    key = token.encode()
    return name.encode() + b"\0" + _mac(key, b"Initiator"), _mac(key, b"Responder")


def _mac(key: bytes, said: bytes) -> bytes:
    return hmac.new(key, said, hashlib.sha256).digest()

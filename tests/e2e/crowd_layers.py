"""What lies between a client of a crowd and its socket: nothing, TLS, a WebSocket, or both.

A layer knows no socket: it is given bytes that came and says which bytes are plain and which are to
be sent. `begin` is what it says first, `is_open` whether whoever is above may speak. Names and
certificates are not looked at: other tests do that.
"""

import os
import ssl
import struct

TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE


class Plain:
    is_open = True

    def begin(self):
        return b""

    def say(self, data):
        return data

    def heard(self, data):
        return data, b""


class Tls:
    """TLS over memory."""

    def __init__(self):
        self.came, self.goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.session = TLS.wrap_bio(self.came, self.goes, server_hostname="localhost")
        self.is_open = False

    def begin(self):
        self._shake_hands()
        return self.goes.read()

    def say(self, data):
        self.session.write(data)
        return self.goes.read()

    def heard(self, data):
        self.came.write(data)
        plain = b""
        if not self.is_open:
            self._shake_hands()
        while self.is_open:
            try:
                more = self.session.read(65536)
            except (ssl.SSLWantReadError, ssl.SSLZeroReturnError, ssl.SSLEOFError):
                break
            if not more:
                break
            plain += more
        return plain, self.goes.read()

    def _shake_hands(self):
        try:
            self.session.do_handshake()
            self.is_open = True
        except ssl.SSLWantReadError:
            pass


class WebSocket:
    """RFC 6455 as far as servers here speak it: an upgrade, then binary or text messages."""

    def __init__(self, path, subprotocol, opcode=0x2):
        self.first = (f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
                      "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                      "Sec-WebSocket-Version: 13\r\n"
                      f"Sec-WebSocket-Protocol: {subprotocol}\r\n\r\n").encode()
        self.opcode, self.data, self.is_open = opcode, b"", False

    def begin(self):
        return self.first

    def say(self, data):
        mask, size = os.urandom(4), len(data)
        if size < 126:
            head = struct.pack(">BB", 0x80 | self.opcode, 0x80 | size)
        else:
            head = struct.pack(">BBH", 0x80 | self.opcode, 0x80 | 126, size)
        return head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))

    def heard(self, data):
        self.data += data
        if not self.is_open:
            if b"\r\n\r\n" not in self.data:
                return b"", b""
            head, self.data = self.data.split(b"\r\n\r\n", 1)
            if b" 101 " not in head.split(b"\r\n")[0]:
                return head, b""
            self.is_open = True
        plain = b""
        while len(self.data) >= 2:
            size, at = self.data[1] & 0x7f, 2
            if size == 126:
                if len(self.data) < 4:
                    break
                size, at = struct.unpack(">H", self.data[2:4])[0], 4
            if len(self.data) < at + size:
                break
            if self.data[0] & 0x0f in (0x0, 0x1, 0x2):
                plain += self.data[at:at + size]
            self.data = self.data[at + size:]
        return plain, b""


class Both:
    """One over the other."""

    def __init__(self, upper, lower):
        self.upper, self.lower, self.has_begun = upper, lower, False

    @property
    def is_open(self):
        return self.lower.is_open and self.upper.is_open

    def begin(self):
        return self.lower.begin()

    def say(self, data):
        return self.lower.say(self.upper.say(data))

    def heard(self, data):
        middle, goes = self.lower.heard(data)
        if self.lower.is_open and not self.has_begun:
            self.has_begun = True
            goes += self.lower.say(self.upper.begin())
        plain, more = self.upper.heard(middle) if middle else (b"", b"")
        return plain, goes + (self.lower.say(more) if more else b"")

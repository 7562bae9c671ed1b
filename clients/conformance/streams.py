"""Ways to a server: proxies (SOCKS5, HTTP CONNECT) and the server's side of WebSocket."""

import base64
import contextlib
import hashlib
import socket
import struct
import threading
import urllib.parse

TIMEOUT_S = 60.0


def exactly(stream, count):
    data = b""
    while len(data) < count:
        more = stream.recv(count - len(data))
        if not more:
            raise ConnectionError("the other side has closed")
        data += more
    return data


def head(stream):
    """The head of an HTTP request: its first line, and its headers in lower case."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        data += exactly(stream, 1)
    first, *lines = data.decode().strip().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return first, {name.strip().lower(): value.strip() for name, _, value in pairs}


class Proxy:
    """A proxy on loopback that asks for this user and password, if any."""

    def __init__(self, kind, user=None, accepts=True):
        self.kind, self.user, self.accepts, self.targets = kind, user, accepts, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        login = ":".join(map(urllib.parse.quote, user)) + "@" if user else ""
        self.url = f"{kind}://{login}127.0.0.1:{self.socket.getsockname()[1]}"
        self.open = [self.socket]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._one, args=self.socket.accept(), daemon=True).start()

    def _one(self, stream, _):
        self.open.append(stream)
        stream.settimeout(TIMEOUT_S)
        with contextlib.suppress(OSError, ConnectionError):
            host, port = self._socks(stream) if self.kind == "socks5" else self._http(stream)
            if host is None:
                return stream.close()
            self.targets.append(f"{host}:{port}")
            onward = socket.create_connection((host, port))
            self.open.append(onward)
            stream.sendall(b"\5\0\0\1\0\0\0\0\0\0" if self.kind == "socks5"
                           else b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
            stream.settimeout(None)
            threading.Thread(target=_relay, args=(stream, onward), daemon=True).start()
            _relay(onward, stream)

    def _socks(self, stream):
        version, count = exactly(stream, 2)
        methods = exactly(stream, count)
        wanted = 2 if self.user else 0
        if version != 5 or wanted not in methods:
            stream.sendall(b"\5\xff")
            return None, None
        stream.sendall(bytes([5, wanted]))
        if self.user:
            exactly(stream, 1)
            shown = tuple(exactly(stream, exactly(stream, 1)[0]).decode() for _ in range(2))
            good = shown == self.user and self.accepts
            stream.sendall(b"\1\0" if good else b"\1\1")
            if not good:
                return None, None
        _, command, _, kind = exactly(stream, 4)
        host = socket.inet_ntoa(exactly(stream, 4)) if kind == 1 else \
            exactly(stream, exactly(stream, 1)[0]).decode()
        port, = struct.unpack(">H", exactly(stream, 2))
        return (host, port) if command == 1 else (None, None)

    def _http(self, stream):
        first, headers = head(stream)
        login = base64.b64encode(":".join(self.user).encode()).decode() if self.user else None
        good = self.accepts and headers.get("proxy-authorization") == (login and f"Basic {login}")
        if not good or not first.startswith("CONNECT "):
            stream.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return None, None
        host, _, port = first.split()[1].rpartition(":")
        return host, int(port)

    def close(self):
        for one in self.open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def _relay(one, other):
    with contextlib.suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
    with contextlib.suppress(OSError):
        other.shutdown(socket.SHUT_WR)


class websocket:
    """The server's side of a WebSocket (RFC 6455), with the calls of a socket."""

    def __init__(self, stream):
        self.stream, self.buffer, self.has_closed = stream, b"", False
        _, headers = head(stream)
        key = headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        offers = headers.get("sec-websocket-protocol", "")
        chosen = f"Sec-WebSocket-Protocol: {offers.split(',')[0].strip()}\r\n" if offers else ""
        stream.sendall(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                        f"Connection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n{chosen}"
                        "\r\n").encode())

    def _message(self, opcode, data):
        size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + struct.pack(">H", len(data))
        self.stream.sendall(bytes([0x80 | opcode]) + size + data)

    def sendall(self, data):
        self._message(2, data)

    def recv(self, _):
        """The content of the next binary message; nothing at the end."""
        while True:
            found = self._take()
            if found is None:
                data = self.stream.recv(65536)
                if not data:
                    return b""
                self.buffer += data
            elif found[0] == 8:
                self._close()
                return b""
            elif found[0] in (0, 2) and found[1]:
                return found[1]

    def _take(self):
        data = self.buffer
        if len(data) < 2:
            return None
        size, at = data[1] & 0x7F, 2
        if size >= 126:
            width = 2 if size == 126 else 8
            size, at = int.from_bytes(data[2:2 + width], "big"), 2 + width
        if len(data) < at + 4 + size:
            return None
        mask, self.buffer = data[at:at + 4], data[at + 4 + size:]
        content = data[at + 4:at + 4 + size]
        return data[0] & 0x0F, bytes(byte ^ mask[i % 4] for i, byte in enumerate(content))

    def _close(self):
        """The first Close is answered, then the server ends the connection (RFC 6455 7.1.1)."""
        if not self.has_closed:
            self.has_closed = True
            with contextlib.suppress(OSError):
                self._message(8, b"\x03\xe8")

    def shutdown(self, how):
        self._close()
        with contextlib.suppress(OSError):
            while self.recv(0):
                pass
        self.stream.shutdown(how)

    def settimeout(self, seconds):
        self.stream.settimeout(seconds)

    def setsockopt(self, *what):
        self.stream.setsockopt(*what)

    def close(self):
        self.stream.close()

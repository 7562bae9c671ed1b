"""Connections: TCP, TLS with pins, through a SOCKS5 or HTTP proxy."""

import asyncio
import base64
import hashlib
import socket
import ssl
import struct
from typing import Callable, Optional, Sequence, Tuple
from urllib.parse import unquote, urlsplit


class PinMismatch(Exception):
    """The server's key is none of the pinned ones."""


def split(address: str) -> Tuple[str, int]:
    """Host and port of `host:port` or `[v6]:port`."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise ValueError(f"an address is host:port, not {address!r}")
    return host.strip("[]"), int(port)


class Transport:
    """How this client reaches servers."""

    def __init__(self, tls: Optional[ssl.SSLContext] = None, server_name: Optional[str] = None,
                 pins: Sequence[str] = (), proxy: Optional[str] = None) -> None:
        if pins and tls is None:
            raise ValueError("pins need TLS")
        self._tls, self._name, self._proxy = tls, server_name, proxy
        self._pins = {_digest(pin) for pin in pins}
        if proxy and urlsplit(proxy).scheme not in ("socks5", "http"):
            raise ValueError("a proxy is socks5://… or http://…")

    async def connect(self, address: str,
                      protocol: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        """Opens a connection. Raises OSError, or PinMismatch."""
        loop = asyncio.get_running_loop()
        host, port = split(address)
        name = (self._name or host) if self._tls else None
        if self._proxy:
            sock = await _through(self._proxy, host, port)
            try:
                transport, _ = await loop.create_connection(
                    protocol, sock=sock, ssl=self._tls, server_hostname=name)
            except BaseException:
                sock.close()
                raise
        else:
            transport, _ = await loop.create_connection(
                protocol, host, port, ssl=self._tls, server_hostname=name)
        if self._pins:
            certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
            if hashlib.sha256(public_key(certificate)).digest() not in self._pins:
                transport.abort()
                raise PinMismatch()
        return transport


def _digest(pin: str) -> bytes:
    kind, _, text = pin.partition("/")
    digest = base64.b64decode(text, validate=True)
    if kind != "sha256" or len(digest) != 32:
        raise ValueError(f"a pin is sha256/BASE64 of SubjectPublicKeyInfo, not {pin!r}")
    return digest


def public_key(certificate: bytes) -> bytes:
    """SubjectPublicKeyInfo of a certificate (RFC 5280 4.1), DER."""
    start, _, _ = _der(certificate, 0)  # Certificate
    at, end, _ = _der(certificate, start)  # TBSCertificate
    if certificate[at] == 0xA0:
        at = _der(certificate, at)[1]  # version
    for _ in range(5):  # serial number, algorithm, issuer, validity, subject
        at = _der(certificate, at)[1]
    key_end = _der(certificate, at)[1]
    if key_end > end:
        raise ValueError("not a certificate")
    return certificate[at:key_end]


def _der(data: bytes, at: int) -> Tuple[int, int, int]:
    """Begin and end of the content of an element, and its tag."""
    tag, length, at = data[at], data[at + 1], at + 2
    if length & 0x80:
        width = length & 0x7F
        length, at = int.from_bytes(data[at:at + width], "big"), at + width
    if at + length > len(data):
        raise ValueError("not a certificate")
    return at, at + length, tag


# ---- proxies -------------------------------------------------------------------------------------


async def _through(proxy: str, host: str, port: int) -> socket.socket:
    loop, url = asyncio.get_running_loop(), urlsplit(proxy)
    default = 1080 if url.scheme == "socks5" else 8080
    infos = await loop.getaddrinfo(url.hostname, url.port or default, type=socket.SOCK_STREAM)
    sock, failure = None, OSError(f"{url.hostname} has no address")
    for family, kind, number, _, address in infos:
        sock = socket.socket(family, kind, number)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, address)
            break
        except OSError as error:
            sock.close()
            sock, failure = None, error
    if sock is None:
        raise failure
    user = None
    if url.username is not None:
        user = unquote(url.username).encode(), unquote(url.password or "").encode()
    try:
        ask = _socks5 if url.scheme == "socks5" else _http_connect
        await ask(sock, host, port, user)
    except BaseException:
        sock.close()
        raise
    return sock


async def _read(sock: socket.socket, count: int) -> bytes:
    loop, data = asyncio.get_running_loop(), b""
    while len(data) < count:
        more = await loop.sock_recv(sock, count - len(data))
        if not more:
            raise OSError("the proxy has closed")
        data += more
    return data


async def _socks5(sock: socket.socket, host: str, port: int,
                  user: Optional[Tuple[bytes, bytes]]) -> None:
    """RFC 1928 and 1929. The proxy resolves the name."""
    loop, method = asyncio.get_running_loop(), 2 if user else 0
    await loop.sock_sendall(sock, bytes((5, 1, method)))
    if await _read(sock, 2) != bytes((5, method)):
        raise OSError("the proxy wants another login")
    if user:
        name, password = user
        await loop.sock_sendall(sock, bytes((1, len(name))) + name + bytes((len(password),))
                                + password)
        if (await _read(sock, 2))[1]:
            raise OSError("the proxy refused the login")
    name = host.encode("idna")
    await loop.sock_sendall(sock, bytes((5, 1, 0, 3, len(name))) + name + struct.pack(">H", port))
    _, result, _, kind = await _read(sock, 4)
    if result:
        raise OSError(f"the proxy refused the connection ({result})")
    size = {1: 4, 4: 16}.get(kind)
    await _read(sock, (size if size else (await _read(sock, 1))[0]) + 2)


async def _http_connect(sock: socket.socket, host: str, port: int,
                        user: Optional[Tuple[bytes, bytes]]) -> None:
    """RFC 9110 9.3.6."""
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    request = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n".encode()
    if user:
        request += b"Proxy-Authorization: Basic " + base64.b64encode(b":".join(user)) + b"\r\n"
    await asyncio.get_running_loop().sock_sendall(sock, request + b"\r\n")
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        # Byte by byte: what follows the head belongs to the server.
        head += await _read(sock, 1)
        if len(head) > 16_384:
            raise OSError("the proxy's answer is too long")
    status = head.split(b" ", 2)
    if len(status) < 2 or not status[1].startswith(b"2"):
        raise OSError(f"the proxy refused the connection ({status[1:2]})")

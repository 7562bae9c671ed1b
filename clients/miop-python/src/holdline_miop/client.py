"""The client: the machine of one device, with asyncio's sockets and timers, a clock and a store."""

import asyncio
import collections
import contextlib
import inspect
import ipaddress
import json
import logging
import os
import random
import ssl
from typing import Any, AsyncIterator, Callable, Deque, Dict, List, Optional, Sequence, Tuple, Union

from . import machine as m
from . import wire
from .clock import Clock
from .heartbeat import Heartbeat
from .machine import Credentials, Machine, State
from .store import MemoryStore
from .transport import PinMismatch, Transport

log = logging.getLogger("holdline_miop")

#: Seconds in which a closed connection may still send what it has.
_LINGER_S = 5.0


class Ended(Exception):
    """The client will not come back by itself: `why` is a word, `result` the server's number."""

    def __init__(self, why: str, result: Optional[int]) -> None:
        super().__init__(why if result is None else f"{why} ({result})")
        self.why, self.result = why, result


class Push:
    """A push. Acknowledge it when you have it; until then the server keeps it."""

    def __init__(self, client: "Client", record: Any) -> None:
        self._client = client
        self.id: int = record.id
        self.app_id: int = record.app_id
        self.body: bytes = record.body
        self.collapse: bytes = record.collapse
        #: Unix second after which the push means nothing; 0: deliver now or never.
        self.expire_at: int = record.expire_at
        #: Show nothing.
        self.silent: bool = record.silent
        #: It may have overtaken others.
        self.high: bool = record.high
        self._is_open = True

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)

    def acknowledge(self) -> None:
        """You have it. A second call does nothing."""
        if self._is_open:
            self._is_open = False
            self._client._acknowledge(self.id)

    def reject(self) -> None:
        """You could not handle it: the server sends it again later."""
        if self._is_open:
            self._is_open = False
            self._client._reject(self.id)

    def __repr__(self) -> str:
        return f"<Push {self.id} of {len(self.body)} bytes>"


class Client:
    """A device. Use it from one event loop.

    `address` is `host:port`, or a list of them. The proof is `secret` (with `key_id`), `token`, or
    `certificate=True` (with a certificate in `tls`); or `credentials`, a function or a coroutine
    function that returns Credentials, is asked before each connection. A token is sent only over
    TLS or to this machine. `tls` is an `ssl.SSLContext`, or True for the system's authorities.
    """

    def __init__(
        self, address: Union[str, Sequence[str]], *, product: str, device: str,
        secret: Optional[bytes] = None, key_id: int = 0, token: Union[str, bytes, None] = None,
        certificate: bool = False, credentials: Optional[Callable[[], Any]] = None,
        tls: Union[ssl.SSLContext, bool, None] = None, server_name: Optional[str] = None,
        pins: Sequence[str] = (), proxy: Optional[str] = None,
        store: Any = None, manual: bool = False, tags: Optional[Sequence[str]] = None,
        max_inflight: Optional[int] = None, pulls: bool = False,
        heartbeat: Tuple[int, int, int] = (30, 120, 1800), heartbeat_wish: int = 0,
        on_push: Optional[Callable[[Push], None]] = None,
        on_state: Optional[Callable[[State], None]] = None,
        on_stored: Optional[Callable[[str], None]] = None,
        on_pulled: Optional[Callable[[int], None]] = None,
        on_frame: Optional[Callable[[int], None]] = None,
        clock: Any = None, random_: Callable[[], float] = random.random,
        random_bytes: Callable[[int], bytes] = os.urandom, **options: Any,
    ) -> None:
        addresses = [address] if isinstance(address, str) else list(address)
        if not addresses:
            raise ValueError("a client needs an address")
        _check_name("product", product, 32)
        _check_name("device", device, 64)
        for tag in tags or ():
            _check_name("a tag", tag, 64)
        if isinstance(token, str):
            token = token.encode()
        proof = Credentials(secret, key_id, token, certificate)
        self._credentials = credentials or (lambda: proof)
        self._is_encrypted, self._is_relayed = bool(tls), bool(proxy)
        self._transport = Transport(_context(tls), server_name, pins, proxy)
        self._store = store or MemoryStore()
        self._manual = manual
        self._clock = clock or Clock()
        self._machine = Machine(m.Options(
            addresses, product, device, random_, random_bytes, tags=tags,
            max_inflight=max_inflight, pulls=pulls, heartbeat=Heartbeat(*heartbeat),
            heartbeat_wish=heartbeat_wish, **options), _load(self._store))
        self.on_push, self.on_state, self.on_stored = on_push, on_state, on_stored
        self.on_pulled, self.on_frame = on_pulled, on_frame
        #: The state it is in.
        self.state = State("idle")
        self._pushes: Deque[Push] = collections.deque()
        self._iterated: Optional[Push] = None
        self._changed: Optional[asyncio.Event] = None
        self._running = False
        self._is_unsaved = False
        self._link: Optional[_Link] = None
        self._fault = ""  # of the last connection
        self._timer: Tuple[Optional[int], Any] = (None, None)
        self._handled: List[int] = []
        self._soon = False

    # -- life

    async def start(self) -> None:
        """Begins to connect, and stays connected until `close`. Returns at once."""
        self._event()
        self._machine.start(self._clock.now())
        self._run()

    async def bound(self) -> State:
        """Waits for a session. Raises Ended if the server refuses the device for good."""
        while self.state.name != "bound":
            self._raise_if_ended()
            await self._wait()
        return self.state

    async def close(self) -> None:
        """Says goodbye to the server and ends. The session, the pushes that the server holds and
        the Reports stay for the next start."""
        self._machine.close(self._clock.now())
        self._run()
        while self.state.name not in ("ended", "idle"):
            await self._wait()

    async def __aenter__(self) -> "Client":
        await self.start()
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    def nudge(self) -> None:
        """Call it when the network changed or the machine woke up: the client finds out at once
        whether it is connected, or connects without waiting."""
        self._machine.nudge(self._clock.now())
        self._run()

    def network(self, name: str) -> None:
        """The device is in this network now, say `wifi:home`: its heartbeat is remembered by it."""
        self._machine.network(self._clock.now(), name)
        self._run()

    # -- pushes

    def __aiter__(self) -> AsyncIterator[Push]:
        return self

    async def __anext__(self) -> Push:
        """The next push. Unless `manual`, asking for it acknowledges the one before: the body of
        the loop is done with it."""
        if self._iterated is not None and not self._manual:
            self._iterated.acknowledge()
        self._iterated = None
        while not self._pushes:
            if self.state.name == "ended" and self.state.why == "closed":
                raise StopAsyncIteration
            self._raise_if_ended()
            await self._wait()
        self._iterated = self._pushes.popleft()
        return self._iterated

    def pull(self, count: int = 32) -> bool:
        """With `pulls`: asks for stored pushes; false without a session. `on_pulled` is called with
        the number that remain when they have come."""
        asked = self._machine.pull(self._clock.now(), count)
        self._run()
        return asked

    def _acknowledge(self, id_: int) -> None:
        self._machine.acknowledge(id_)
        self._run_soon()

    def _reject(self, id_: int) -> None:
        self._machine.reject(id_)

    # -- reports

    def report(self, payload: bytes, client_id: Optional[str] = None) -> str:
        """Queues a Report and returns its client id; `on_stored` is called with that when the
        server has taken it. Raises QueueFull. Connections and restarts do not matter, if the store
        outlives them; a client id that is still queued is not queued twice."""
        client_id = self._machine.report(self._clock.now(), payload, client_id)
        self._run()
        return client_id

    def opened(self, id_: int) -> str:
        """Reports that the user opened a push: a Report with a client id of its own, so that it is
        queued once. Raises QueueFull."""
        return self._report_push(1, "opened", id_)

    def dismissed(self, id_: int) -> str:
        """Reports that the user dismissed a push, likewise."""
        return self._report_push(2, "dismissed", id_)

    def _report_push(self, what: int, word: str, id_: int) -> str:
        # The form of MIOP 5.10.
        body = b"\0miop\0" + bytes([what]) + id_.to_bytes(8, "big")
        return self.report(body, f"{word}-{id_}")

    @property
    def reports_waiting(self) -> int:
        return len(self._machine.reports)

    # -- the machine's actions

    def _run_soon(self) -> None:
        """At the end of this turn of the loop, so that acknowledgements share a frame."""
        if self._running or self._soon:
            return
        self._soon = True
        asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        """Does what the machine says, until it says nothing more."""
        if self._running:
            return  # called by a handler: the loop below sees what it did
        self._running, self._soon = True, False
        try:
            while True:
                now = self._clock.now()
                actions = self._machine.take(now)
                for action in actions:
                    self._do(action)
                if not actions:
                    due = self._machine.due()
                    if due is None or due > now:
                        break
                    self._machine.tick(now)
            handled, self._handled = self._handled, []
            if self.on_frame:
                for opcode in handled:
                    self.on_frame(opcode)
        finally:
            self._running = False
            if self._is_unsaved:
                self._machine.not_saved()
        self._arm(due)

    def _do(self, action: m.Action) -> None:
        if isinstance(action, m.Send):
            # An acknowledgement says that the id was stored.
            if self._link and not (self._is_unsaved and action.data[3] == wire.MSG_ACK):
                self._link.send(action.data)
        elif isinstance(action, m.Save):
            self._save(action.state)
        elif isinstance(action, m.Pushed):
            self._hand_out(Push(self, action.record))
        elif isinstance(action, m.Connect):
            self._fault = ""
            self._link = _Link(self, action.address)
        elif isinstance(action, m.Disconnect):
            if self._link:
                self._link.close()
                self._link = None
        elif isinstance(action, State):
            if action.name == "waiting" and self._fault:
                action.detail = self._fault
            self.state = action
            log.debug("%s %s %s", action.name, action.why or action.address, action.detail)
            self._tell(self.on_state, action)
            self._event().set()
        elif isinstance(action, m.Stored):
            self._tell(self.on_stored, action.client_id)
        elif isinstance(action, m.Pulled):
            self._tell(self.on_pulled, action.remaining)
        else:
            self._handled.append(action.opcode)

    def _hand_out(self, push: Push) -> None:
        if self.on_push is None:
            self._pushes.append(push)
            self._event().set()
            return
        try:
            self.on_push(push)
            if not self._manual:
                push.acknowledge()
        except Exception:
            log.exception("on_push failed: push %d comes again", push.id)
            push.reject()

    def _tell(self, handler: Optional[Callable[[Any], None]], what: Any) -> None:
        if handler:
            try:
                handler(what)
            except Exception:
                log.exception("a handler failed")

    def _save(self, state: Dict[str, Any]) -> None:
        try:
            self._store.save(json.dumps(state, separators=(",", ":")))
            self._is_unsaved = False
        except Exception as error:  # of any kind: a store may be a database
            self._is_unsaved = True
            log.error("the state cannot be stored: %s", error)

    def _arm(self, due: Optional[int]) -> None:
        before, timer = self._timer
        if due == before and timer is not None:
            return
        if timer is not None:
            timer.cancel()
        self._timer = (due, None if due is None else self._clock.call_at(due, self._ring))

    def _ring(self) -> None:
        self._timer = (None, None)
        self._machine.tick(self._clock.now())
        self._run()

    # -- waiting

    def _event(self) -> asyncio.Event:
        if self._changed is None:
            self._changed = asyncio.Event()
        return self._changed

    async def _wait(self) -> None:
        """Until a state or a push has come."""
        event = self._event()
        event.clear()
        await event.wait()
        # Others may wait for the same.
        await asyncio.sleep(0)

    def _raise_if_ended(self) -> None:
        if self.state.name == "ended":
            raise Ended(self.state.why, self.state.result)

    # -- the connection's events

    def _opened(self, link: "_Link", proof: Credentials) -> None:
        if link is self._link:
            self._machine.connected(self._clock.now(), self._clock.wall(), proof)
            self._run()

    def _received(self, link: "_Link", data: bytes) -> None:
        if link is self._link:
            self._machine.received(self._clock.now(), data)
            self._run()

    def _is_safe(self, stream: asyncio.Transport) -> bool:
        """Others cannot read along. Behind a proxy every address is of another machine."""
        is_local = not self._is_relayed and _is_local(stream.get_extra_info("peername"))
        return self._is_encrypted or is_local

    def _lost(self, link: "_Link", why: str, fault: str = "") -> None:
        if link is self._link:
            self._link, self._fault = None, fault
            self._machine.lost(self._clock.now(), why)
            self._run()


class _Link(asyncio.Protocol):
    """One connection, from the attempt to its end."""

    def __init__(self, client: Client, address: str) -> None:
        self._client = client
        self._stream: Optional[asyncio.Transport] = None
        # What happens before the connection is verified and announced: a full server refuses a
        # device before it has said a word.
        self._early: List[bytes] = []
        self._is_lost = False
        self._task = asyncio.ensure_future(self._open(address))

    async def _open(self, address: str) -> None:
        client = self._client
        try:
            proof = client._credentials()
            if inspect.isawaitable(proof):
                proof = await proof
        except Exception as error:
            log.exception("the credentials are not to be had")
            return client._lost(self, "credentials_failed", repr(error))
        try:
            self._stream = await client._transport.connect(address, lambda: self)
        except PinMismatch:
            return client._lost(self, "pin_mismatch", "the server's key is not pinned")
        except (OSError, ValueError) as error:  # of TLS, proxies and addresses, too
            return client._lost(self, "connect_failed", str(error) or repr(error))
        if client._link is not self:
            return self._stream.abort()
        if proof.token is not None and not client._is_safe(self._stream):
            # A server that names another one cannot make the client show its token to a network.
            self._stream.abort()
            return client._lost(self, "insecure", "a token is sent only over TLS")
        client._opened(self, proof)
        for data in self._early:
            client._received(self, data)
        self._early.clear()
        if self._is_lost:
            client._lost(self, "lost")

    def send(self, data: bytes) -> None:
        if self._stream is not None:
            self._stream.write(data)

    def close(self) -> None:
        if self._stream is None:
            self._task.cancel()
            return
        self._stream.close()
        if self._stream.get_write_buffer_size():
            asyncio.get_running_loop().call_later(_LINGER_S, self._stream.abort)

    def data_received(self, data: bytes) -> None:
        if self._stream is None:
            self._early.append(data)
        else:
            self._client._received(self, data)

    def connection_lost(self, error: Optional[Exception]) -> None:
        self._is_lost = True
        if self._stream is not None:
            self._client._lost(self, "lost")


def _is_local(peer: Any) -> bool:
    return bool(peer) and ipaddress.ip_address(peer[0].partition("%")[0]).is_loopback


def _context(tls: Union[ssl.SSLContext, bool, None]) -> Optional[ssl.SSLContext]:
    if tls is True:
        context = ssl.create_default_context()
        context.set_alpn_protocols(["miop/7"])
        return context
    return tls or None


def _load(store: Any) -> Optional[Dict[str, Any]]:
    text = store.load()
    if not text:
        return None
    with contextlib.suppress(ValueError):
        state = json.loads(text)
        if isinstance(state, dict) and state.get("v") == 1:
            return state
    log.warning("the stored state cannot be read: beginning anew")
    return None


def _check_name(what: str, name: str, bytes_max: int) -> None:
    good = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+:/="
    if not 1 <= len(name) <= bytes_max or any(letter not in good for letter in name):
        raise ValueError(
            f"{what} is 1 to {bytes_max} letters, digits and . _ - + : / =, not {name!r}")

"""The client: the machine of one device, with asyncio's sockets and timers, a clock and a store."""

import asyncio
import collections
import contextlib
import inspect
import ipaddress
import json
import logging
import random
import secrets
import ssl
import uuid
from typing import Any, AsyncIterator, Callable, Deque, Dict, List, Optional, Sequence, Tuple, Union

from google.protobuf.message import DecodeError

from . import im_pb2 as pb
from . import machine as m
from .clock import Clock
from .machine import Credentials, Machine, State
from .store import MemoryStore
from .transport import PinMismatch, Transport, split
from .words import Ended, ImError

log = logging.getLogger("holdline_im")

#: Seconds in which a closed connection may still send what it has.
_LINGER_S = 5.0


class Message:
    """A message of the inbox. Acknowledge it when you have it."""

    def __init__(self, client: "Client", entry: Any, account: str) -> None:
        self._client = client
        #: The protocol's own ChatMessage, with everything that is not here.
        self.raw: Any = entry.message
        #: Its place in the inbox.
        self.place: int = entry.seq
        self.id: int = self.raw.id
        #: Its place in its conversation.
        self.seq: int = self.raw.seq
        self.at_ms: int = self.raw.at_ms
        self.sender: str = getattr(self.raw, "from")
        self.text: str = self.raw.content.text
        #: The conversation: the other account, or the group.
        self.peer: str = self.raw.to if self.sender == account or _is_many(self.raw.to) \
            else self.sender

    def acknowledge(self) -> None:
        """You have it. A second call does nothing."""
        self._client._acknowledge(self.place)

    def __repr__(self) -> str:
        return f"<Message {self.place} of {self.sender}>"


class Event:
    """Something else at a place of the inbox: a read cursor or a setting (IM 11.1)."""

    def __init__(self, client: "Client", raw: Any) -> None:
        self._client = client
        #: The protocol's own InboxEvent.
        self.raw: Any = raw
        self.place: int = raw.seq
        self.peer: str = getattr(raw, "with")

    def acknowledge(self) -> None:
        """You have it. A second call does nothing."""
        self._client._acknowledge(self.place)


class Client:
    """A device of an account. Use it from one event loop.

    `address` is `host:port`, or a list of them. The proof is `password`, `token` or `login_token`;
    or `credentials`, a function or a coroutine function that returns Credentials and is asked
    before each connection. `tls` is an `ssl.SSLContext`, or True for the system's authorities.
    """

    def __init__(
        self, address: Union[str, Sequence[str]], account: str, *, device: str,
        password: Optional[str] = None, token: Optional[str] = None,
        login_token: Optional[str] = None, credentials: Optional[Callable[[], Any]] = None,
        tls: Union[ssl.SSLContext, bool, None] = None, server_name: Optional[str] = None,
        pins: Sequence[str] = (), proxy: Optional[str] = None, store: Any = None,
        manual: bool = False, silence_s: int = 0,
        heartbeat: Tuple[int, int, int] = (30, 120, 1800),
        on_message: Optional[Callable[[Message], None]] = None,
        on_event: Optional[Callable[[Event], None]] = None,
        on_sent: Optional[Callable[[m.Sent], None]] = None,
        on_failed: Optional[Callable[[m.Failed], None]] = None,
        on_told: Optional[Callable[[str, Any], None]] = None,
        on_state: Optional[Callable[[State], None]] = None,
        on_frame: Optional[Callable[[str], None]] = None,
        clock: Any = None, random_: Callable[[], float] = random.random,
    ) -> None:
        addresses = [address] if isinstance(address, str) else list(address)
        if not addresses:
            raise ValueError("a client needs an address")
        for each in addresses:
            split(each)
        _check_name("account", account, 320)
        _check_name("device", device, 64)
        proof = Credentials(password, token, login_token)
        if sum(one is not None for one in proof) > 1:
            raise ValueError("a client needs one of password, token and login_token")
        self._credentials = credentials or (lambda: proof)
        self._is_encrypted, self._is_relayed = bool(tls), bool(proxy)
        self._transport = Transport(_context(tls), server_name, pins, proxy)
        self._store = store or MemoryStore()
        self._manual = manual
        self._clock = clock or Clock()
        self._machine = Machine(m.Options(
            addresses, account, device, random_, secrets.token_urlsafe, silence_s,
            credentials is not None, heartbeat))
        saved = _load(self._store)
        try:
            self._machine.restore(saved)
        except (ValueError, TypeError, DecodeError):
            log.warning("the stored state cannot be read: beginning anew")
        self.on_message, self.on_event = on_message, on_event
        self.on_sent, self.on_failed, self.on_told = on_sent, on_failed, on_told
        self.on_state, self.on_frame = on_state, on_frame
        #: The state it is in.
        self.state = State("idle")
        #: The whole address of the account, after the first login.
        self.account = ""
        self._messages: Deque[Message] = collections.deque()
        self._iterated: Optional[Message] = None
        self._changed: Optional[asyncio.Event] = None
        self._running = self._soon = False
        self._link: Optional[_Link] = None
        self._fault = ""  # of the last connection
        self._timer: Tuple[Optional[int], Any] = (None, None)
        self._asked: Dict[int, "asyncio.Future[Any]"] = {}
        self._handled: List[str] = []

    # -- life

    async def start(self) -> None:
        """Begins to connect, and stays connected until `close`. Returns at once."""
        self._machine.start(self._clock.now())
        self._run()

    async def online(self) -> State:
        """Waits for a session. Raises Ended if the server refuses the device for good."""
        while self.state.name != "online":
            self._raise_if_ended()
            await self._wait()
        return self.state

    async def close(self) -> None:
        """Says goodbye and ends. Messages that are not sent yet stay for the next start."""
        self._machine.close(self._clock.now())
        self._run()

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

    # -- messages

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        """The next message. Unless `manual`, asking for it acknowledges the one before: the body of
        the loop is done with it."""
        if self._iterated is not None and not self._manual:
            self._iterated.acknowledge()
        self._iterated = None
        while not self._messages:
            if self.state.name == "ended" and self.state.why == "closed":
                raise StopAsyncIteration
            self._raise_if_ended()
            await self._wait()
        self._iterated = self._messages.popleft()
        return self._iterated

    def send(self, to: str, text: str = "", *, content: Any = None,
             client_id: Optional[str] = None) -> str:
        """Queues a message to an account or a group and returns its client id (32 hex digits).
        `on_sent` or `on_failed` is called with that. Connections and restarts do not matter, if
        the store outlives them; a client id that is still queued is not queued twice. `content` is
        a Content of the protocol, for all that is more than a text. Raises ImError `queue_full`."""
        client_id = client_id or uuid.uuid4().hex
        if len(bytes.fromhex(client_id)) != 16:
            raise ValueError("a client id has 32 hexadecimal digits")
        self._machine.send(client_id, to, content or pb.Content(kind=1, text=text))
        self._run()
        return client_id

    @property
    def waiting(self) -> List[str]:
        """Client ids of the messages that the server has not stored yet, oldest first."""
        return [it.client_id for it in self._machine.outbox.queue]

    def _acknowledge(self, place: int) -> None:
        self._machine.acknowledge(self._clock.now(), place)
        self._run_soon()

    # -- requests

    async def request(self, **request: Any) -> Any:
        """Asks the server something, by the name of a field of ClientFrame:
        `await client.request(members=pb.Members(group=group, count=100))`. Returns the answer (say,
        a MembersPage). Raises ImError with the server's word, or `disconnected`: requests are not
        queued."""
        number = self._machine.request(self._clock.now(), pb.ClientFrame(**request))
        future = self._asked[number] = asyncio.get_running_loop().create_future()
        self._run()
        try:
            return await future
        finally:
            self._asked.pop(number, None)

    def tell(self, **request: Any) -> None:
        """Says something that has no answer, such as a Transient; nothing without a connection."""
        self._machine.tell(self._clock.now(), pb.ClientFrame(**request))
        self._run()

    async def history(self, peer: str, count: int = 50, before: int = 0) -> Tuple[List[Any], bool]:
        """At most `count` ChatMessages of a conversation before this place (0: the end), oldest
        first, and whether there are more."""
        ask = pb.History(count=count, backwards=True, **{"with": peer, "from": before})
        page = await self.request(history=ask)
        return list(reversed(page.messages)), page.more

    async def mark_read(self, peer: str, upto: int) -> None:
        """The account has read this conversation up to this place."""
        await self.request(mark_read=pb.MarkRead(upto=upto, **{"with": peer}))

    async def request_token(self) -> Any:
        """A LoginToken, with which this device logs in without the password."""
        return await self.request(token=pb.TokenRequest())

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
                for name in handled:
                    self.on_frame(name)
        finally:
            self._running = False
        self._arm(due)

    def _do(self, action: m.Action) -> None:
        if isinstance(action, m.Send):
            if self._link:
                self._link.send(action.data)
        elif isinstance(action, m.Save):
            self._save(action.state)
        elif isinstance(action, m.Entry):
            self._hand_out(action)
        elif isinstance(action, m.Sent):
            self._tell(self.on_sent, action)
        elif isinstance(action, m.Failed):
            self._tell(self.on_failed, action)
        elif isinstance(action, m.Answer):
            self._answer(action)
        elif isinstance(action, m.Told):
            self._tell(self.on_told, action.name, action.frame)
        elif isinstance(action, m.Connect):
            self._fault = ""
            self._link = _Link(self, action.address)
        elif isinstance(action, m.Disconnect):
            if self._link:
                self._link.close()
                self._link = None
        elif isinstance(action, State):
            if action.name == "waiting" and self._fault:
                action = action._replace(detail=self._fault)
            self.state = action
            self.account = action.account or self.account
            log.debug("%s %s %s", action.name, action.why or action.address, action.detail)
            self._tell(self.on_state, action)
            self._event().set()
        else:
            self._handled.append(action.name)

    def _answer(self, action: m.Answer) -> None:
        future = self._asked.get(action.number)
        if future is None or future.done():
            return
        if isinstance(action.result, ImError):
            future.set_exception(action.result)
        else:
            future.set_result(action.result)

    def _hand_out(self, action: m.Entry) -> None:
        if isinstance(action.frame, pb.InboxEvent):
            what: Any = Event(self, action.frame)
            handler: Any = self.on_event
        else:
            what, handler = Message(self, action.frame, self.account), self.on_message
            if handler is None:
                self._messages.append(what)
                return self._event().set()
        try:
            if handler:
                handler(what)
        except Exception:
            # The others must not wait for it: it comes again in a new process.
            log.exception("a handler failed at place %d", action.place)
            if isinstance(what, Message):
                return
        if not self._manual or not handler:
            self._machine.acknowledge(self._clock.now(), action.place)

    def _tell(self, handler: Optional[Callable[..., None]], *what: Any) -> None:
        if handler:
            try:
                handler(*what)
            except Exception:
                log.exception("a handler failed")

    def _save(self, state: Dict[str, Any]) -> None:
        try:
            self._store.save(json.dumps(state, separators=(",", ":")))
        except OSError as error:
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
        """Until a state or a message has come."""
        event = self._event()
        event.clear()
        await event.wait()
        # Others may wait for the same.
        await asyncio.sleep(0)

    def _raise_if_ended(self) -> None:
        if self.state.name == "ended":
            raise Ended(self.state.why)

    # -- the connection's events

    def _opened(self, link: "_Link", proof: Credentials, is_safe: bool) -> None:
        if link is self._link:
            self._machine.connected(self._clock.now(), proof, is_safe)
            self._run()

    def _received(self, link: "_Link", data: bytes) -> None:
        if link is self._link:
            self._machine.received(self._clock.now(), data)
            self._run()

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
            return client._lost(self, "unreachable", str(error) or repr(error))
        if client._link is not self:
            return self._stream.abort()
        # Behind a proxy every address is of another machine.
        is_local = not client._is_relayed and _is_local(self._stream.get_extra_info("peername"))
        is_safe = client._is_encrypted or is_local
        if (proof.token or proof.login_token) and not is_safe:
            # A server that names another one cannot make the client show its token to a network.
            self._stream.abort()
            return client._lost(self, "insecure", "a token is sent only over TLS")
        client._opened(self, proof, is_safe)
        for data in self._early:
            client._received(self, data)
        self._early.clear()
        if self._is_lost:
            client._lost(self, "disconnected")

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
            self._client._lost(self, "disconnected")


def _context(tls: Union[ssl.SSLContext, bool, None]) -> Optional[ssl.SSLContext]:
    if tls is True:
        context = ssl.create_default_context()
        context.set_alpn_protocols(["holdline-im/1"])
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


def _is_local(peer: Any) -> bool:
    return bool(peer) and ipaddress.ip_address(peer[0].partition("%")[0]).is_loopback


def _is_many(address: str) -> bool:
    """A group or a chatroom."""
    return address.partition("@")[2].startswith(("conference.", "live."))


def _check_name(what: str, name: str, bytes_max: int) -> None:
    if not 1 <= len(name.encode()) <= bytes_max:
        raise ValueError(f"{what} has 1 to {bytes_max} bytes, not {name!r}")

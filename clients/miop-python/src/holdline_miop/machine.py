"""All decisions of one device: a machine that knows no socket, clock, random source or disk.

    IDLE ─start─► CONNECTING ─► BINDING ─► BOUND ─close─► CLOSING ─► ENDED
                   ▲    │ fails    │ no      │ lost                    ▲
                   │    ▼          ▼         ▼        permanent no     │
                   └─ WAITING ◄────┴─────────┴─────────────────────────┘

It is told what happens (`connected`, `received`, `lost`, `tick`, and what the application wants),
and `take()` gives what to do, in order. A push is handed out once: its id is held until the application
acknowledges it, then remembered. The rules are numbered in clients/conformance/README.md.
"""

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import wire
from .backoff import Backoff
from .heartbeat import Heartbeat
from .reports import Reports
from .wire import Fault, Frame

CONNECT_MS, BIND_MS, PONG_MS, NUDGE_MS, CLOSE_MS = 15_000, 15_000, 30_000, 10_000, 5_000
#: A PING that is later than this tests no interval: the device slept.
LATE_MS = 30_000
#: Acknowledged ids that are remembered.
SEEN_MAX = 256
#: Pushes that the application may hold; no server sends so many.
HELD_MAX = 4_096
#: Ends with addresses that are followed without a wait, between two sessions.
FOLLOWS_MAX = 3

#: Results after which a device does not come back by itself.
_PERMANENT = {11, 20, 21, 22, 23, 24, 40, 41}


@dataclass
class Credentials:
    """A device's proof (MIOP 6): an HMAC secret, a token, a certificate, or nothing."""

    secret: Optional[bytes] = None
    key_id: int = 0
    token: Optional[bytes] = None
    certificate: bool = False

    def __post_init__(self) -> None:
        if self.token is not None and not 1 <= len(self.token) <= wire.VALUE_BYTES_MAX:
            raise ValueError(f"a token has 1 to {wire.VALUE_BYTES_MAX} bytes")

    def __repr__(self) -> str:
        return "<Credentials>"


@dataclass
class Options:
    """Parts of a new machine."""

    addresses: Sequence[str]
    product: str
    device: str
    random: Callable[[], float]
    random_bytes: Callable[[int], bytes]
    tags: Optional[Sequence[str]] = None
    max_inflight: Optional[int] = None
    pulls: bool = False
    heartbeat: Heartbeat = field(default_factory=Heartbeat)
    #: Seconds; 0: the product's default. The PINGs' interval never exceeds what is agreed.
    heartbeat_wish: int = 0
    backoff_first_ms: int = 1_000
    backoff_longest_ms: int = 60_000
    frame_bytes_max: int = 1 << 20


# ---- what to do ----------------------------------------------------------------------------------


@dataclass
class Connect:
    address: str


@dataclass
class Send:
    data: bytes


class Disconnect:
    pass


@dataclass
class Save:
    state: Dict[str, Any]


@dataclass
class State:
    """Where the client is. `name` is one of connecting, binding, bound, waiting, closing, ended."""

    name: str
    address: str = ""
    resumed: bool = False
    heartbeat: int = 0
    offline_count: int = 0
    until: int = 0
    why: str = ""
    result: Optional[int] = None
    #: Of waiting: the fault of the connection in the system's words, for people.
    detail: str = ""


@dataclass
class Pushed:
    record: wire.Record


@dataclass
class Stored:
    """The server has taken a Report."""

    client_id: str


@dataclass
class Pulled:
    remaining: int


@dataclass
class Handled:
    """A received frame has been handled."""

    opcode: int


Action = Union[Connect, Send, Disconnect, Save, State, Pushed, Stored, Pulled, Handled]


@dataclass
class _End:
    """How a connection ended, as the server said it."""

    why: str
    result: Optional[int] = None
    hint_ms: int = 0
    addrs: Sequence[str] = ()
    server_time: Optional[int] = None


class Machine:
    """One device. Times are milliseconds of a clock that never goes back."""

    def __init__(self, options: Options, saved: Optional[Dict[str, Any]] = None) -> None:
        saved = saved or {}
        if saved.get("of") != [options.product, options.device]:
            # Of another device only what was learned about networks is of use.
            saved = {"heartbeat": saved.get("heartbeat")}
        self._options = options
        self._backoff = Backoff(options.random, options.backoff_first_ms,
                                options.backoff_longest_ms)
        self._heartbeat = options.heartbeat
        self._heartbeat.load(saved.get("heartbeat"))
        self.reports = Reports(options.random)
        self.reports.load(saved.get("reports"))
        self._session: Optional[List[Any]] = saved.get("session")
        self._seen: Dict[int, None] = dict.fromkeys(saved.get("seen", ()))
        self._held: Dict[int, wire.Record] = {}
        self._acks: List[int] = []
        self._actions: List[Action] = []
        self._dirty = False
        self.state = "idle"
        self._due: Optional[int] = None
        self._buffer = bytearray()
        # Addresses: those that the server named, where it was bound last, those configured.
        self._named: List[str] = []
        self._last_bound: Optional[str] = None
        self._turn = 0
        self._address = ""
        self._follows = 0
        # Of one connection.
        self._claim: Dict[str, Any] = {}
        self._challenged = False
        self._error: Optional[_End] = None
        self._bound_at = 0
        self._agreed = 0
        self._sent_at = 0
        self._heard_at = 0
        self._pong_due: Optional[int] = None
        self._pong_silence = 0.0
        # A silence that may have killed the connection before: the next Bind decides.
        self._suspect: Optional[Tuple[float, int]] = None
        # The server is about to go: leave when the pushes of this turn are acknowledged.
        self._away: Optional[_End] = None
        self._wall_ms = 0
        self._clock_offset = 0
        self._clock_corrected = False

    # -- what the application wants

    def start(self, now: int) -> None:
        """Connects, unless it does already."""
        if self.state in ("idle", "ended"):
            self._clock_corrected = False
            self._connect(now)

    def close(self, now: int) -> None:
        """Says goodbye if it can, and ends."""
        if self.state == "bound":
            self._flush_acks(now)
            self._send(now, Frame(wire.UNBIND))
            self._become("closing", now + CLOSE_MS)
            self._actions.append(State("closing"))
        elif self.state in ("connecting", "binding"):
            self._close("closed")
        elif self.state in ("idle", "waiting"):
            self._end("closed")

    def nudge(self, now: int) -> None:
        """The network changed or the device woke up: finds out at once whether it is connected."""
        if self.state == "waiting":
            self._connect(now)
        elif self.state == "bound":
            if self._pong_due is None:
                self._ping(now)
                self._pong_due = now + NUDGE_MS
            else:
                self._pong_due = min(self._pong_due, now + NUDGE_MS)

    def network(self, now: int, name: str) -> None:
        """The device is in this network now; its heartbeat is what was learned there."""
        self._heartbeat.use(name)
        self._suspect, self._pong_silence = None, 0.0
        self.nudge(now)

    def acknowledge(self, id_: int) -> None:
        """The application has this push. Its id is stored before the server hears of it."""
        if self._held.pop(id_, None) is None:
            raise KeyError(f"push {id_} is not held")
        self._remember(id_)
        self._acks.append(id_)

    def reject(self, id_: int) -> None:
        """The application could not handle it: it may come again."""
        if self._held.pop(id_, None) is None:
            raise KeyError(f"push {id_} is not held")

    def report(self, now: int, payload: bytes, client_id: Optional[str] = None) -> str:
        """Queues a Report; its client id."""
        client_id = client_id or self._options.random_bytes(16).hex()
        if self.reports.add(client_id, payload):
            self._dirty = True
            self._send_reports(now)
        return client_id

    def pull(self, now: int, count: int) -> bool:
        """Asks for stored pushes; false without a session."""
        if not 1 <= count <= 65535:
            raise ValueError("a count is 1 to 65535")
        if self.state != "bound":
            return False
        self._send(now, Frame(wire.PULL, {"count": count}))
        return True

    # -- what happens

    def connected(self, now: int, wall_ms: int, proof: Credentials) -> None:
        """The connection that was asked for is open; `proof` is what the device shows."""
        if self.state != "connecting":
            return
        self._buffer.clear()
        self._challenged, self._error, self._away = False, None, None
        self._become("binding", now + BIND_MS)
        self._actions.append(State("binding"))
        self._send(now, Frame(wire.BIND, self._bind(wall_ms, proof)))

    def received(self, now: int, data: bytes) -> None:
        """Bytes of the server."""
        if self.state not in ("binding", "bound", "closing"):
            return
        self._heard(now)
        self._buffer += data
        try:
            while self.state in ("binding", "bound", "closing") and self._away is None:
                found = wire.decode(self._buffer, self._options.frame_bytes_max)
                if found is None:
                    break
                frame, length = found
                del self._buffer[:length]
                self._handle(now, frame)
                self._actions.append(Handled(frame.opcode))
        except Fault as fault:
            self._leave(now, _End(fault.name))

    def lost(self, now: int, why: str = "lost") -> None:
        """The connection could not be opened, or was closed by the other side."""
        if self.state in ("connecting", "binding", "bound"):
            if self._pong_due is not None:
                self._suspect = (self._pong_silence, self._agreed)
            self._after(now, self._away or self._error or _End(why))
        elif self.state == "closing":
            self._end("closed")

    def tick(self, now: int) -> None:
        """Time has gone by."""
        if self.state == "bound" and self._away is None:
            self._tick_bound(now)
        elif self._due is None or now < self._due:
            return
        elif self.state == "waiting":
            self._connect(now)
        elif self.state == "connecting":
            self._leave(now, _End("connect_timeout"))
        elif self.state == "binding":
            self._leave(now, _End("bind_timeout"))
        elif self.state == "closing":
            self._close("closed")
        elif self._away is not None:
            self._leave(now, self._away)

    def due(self) -> Optional[int]:
        """When `tick` is needed next."""
        if self.state != "bound" or self._away is not None:
            return self._due
        times = [self._ping_due() if self._pong_due is None else self._pong_due]
        if self.reports.paused_until is not None:
            times.append(self.reports.paused_until)
        return min(times)

    def take(self, now: int) -> List[Action]:
        """What to do, in order. Acknowledgements of one turn share a frame; what was learned and
        promised is stored before it is said."""
        if self.state == "bound":
            self._flush_acks(now)
        self._acks.clear()  # without a connection: they follow when the pushes come again
        actions, self._actions = self._actions, []
        if self._dirty:
            self._dirty = False
            actions.insert(0, Save(self.saved()))
        return actions

    def not_saved(self) -> None:
        """The last Save failed: the next turn says it again."""
        self._dirty = True

    def saved(self) -> Dict[str, Any]:
        """The state to be stored: JSON values."""
        return {"v": 1, "of": [self._options.product, self._options.device],
                "session": self._session, "seen": list(self._seen),
                "reports": self.reports.save(), "heartbeat": self._heartbeat.save()}

    # -- connecting

    def _become(self, state: str, due: Optional[int]) -> None:
        self.state, self._due = state, due
        if state != "bound":
            self._pong_due = None

    def _connect(self, now: int) -> None:
        if self._named:
            self._address = self._named.pop(0)
        elif self._last_bound is not None:
            self._address, self._last_bound = self._last_bound, None
        else:
            addresses = self._options.addresses
            self._address = addresses[self._turn % len(addresses)]
            self._turn += 1
        self._become("connecting", now + CONNECT_MS)
        self._actions.append(State("connecting", address=self._address))
        self._actions.append(Connect(self._address))

    def _bind(self, wall_ms: int, proof: Credentials) -> Dict[str, Any]:
        options = self._options
        caps = wire.CAP_PULLS if options.pulls else 0
        heartbeat = self._heartbeat
        bind: Dict[str, Any] = {
            "device_id": options.device, "product_key": options.product,
            "heartbeat_wish": [options.heartbeat_wish, heartbeat.shortest, heartbeat.longest],
        }
        if caps:
            bind["caps"] = caps
        if options.max_inflight:
            bind["max_inflight"] = options.max_inflight
        if options.tags is not None:
            bind["tags"] = list(options.tags) or [""]
        if self._session:
            bind["resume_token"] = bytes.fromhex(self._session[0])
            bind["session_epoch"] = self._session[1]
        if proof.secret is not None:
            claim: Dict[str, Any] = {
                "secret": proof.secret, "product": options.product, "device": options.device,
                "client_ts": max(0, wall_ms + self._clock_offset),
                "client_nonce": options.random_bytes(16), "caps": caps,
            }
            self._claim = claim
            bind.update(auth_type=1, key_id=proof.key_id, client_ts=claim["client_ts"],
                        client_nonce=claim["client_nonce"], mac=wire.sign(**claim))
        elif proof.token is not None:
            bind.update(auth_type=2, token=proof.token)
        elif proof.certificate:
            bind.update(auth_type=3)
        self._wall_ms = wall_ms
        return bind

    # -- frames

    def _handle(self, now: int, frame: Frame) -> None:
        opcode = frame.opcode
        if frame.skipped:
            return
        if opcode == wire.ERROR:
            self._take_error(now, frame)
        elif opcode in (wire.KICK, wire.REDIRECT):
            self._leave(now, _end_of(frame, 33 if opcode == wire.REDIRECT else 0))
        elif opcode == wire.GO_AWAY:
            self._go_away(now, _end_of(frame, 32))
        elif self.state == "binding" and opcode == wire.BIND_ACK:
            self._take_bind_ack(now, frame)
        elif self.state == "binding" and opcode == wire.CHALLENGE:
            self._take_challenge(now, frame)
        elif self.state == "closing":
            if opcode == wire.UNBIND_ACK:
                self._close("closed")
        elif self.state == "bound" and opcode in _BOUND:
            _BOUND[opcode](self, now, frame)
        else:
            raise Fault("out_of_order")

    def _go_away(self, now: int, end: _End) -> None:
        if self.state != "bound":
            return self._leave(now, end)
        # What the server sent before may be acknowledged yet, in this turn.
        self._away, self._due = end, now

    def _take_bind_ack(self, now: int, frame: Frame) -> None:
        properties = frame.properties
        if properties["result"] > 1:
            return self._leave(now, _end_of(frame, 0))
        if "heartbeat" not in properties:
            raise Fault("missing_property")
        if "resume_token" in properties and "session_epoch" in properties:
            self._session = [properties["resume_token"].hex(), properties["session_epoch"]]
            self._dirty = True
        self._named.clear()
        self._follows, self._clock_corrected = 0, False
        self._last_bound = self._address
        self._agreed = max(1, properties["heartbeat"])
        self._become("bound", None)
        self._bound_at = now
        if self._suspect is not None:
            # The network was there: it had forgotten the silent connection.
            self._dirty |= self._heartbeat.failed(*self._suspect)
            self._suspect = None
        self.reports.bound()
        self._actions.append(State("bound", resumed=properties["result"] == 1,
                                   heartbeat=self._agreed,
                                   offline_count=properties.get("offline_count", 0)))
        self._send_reports(now)

    def _take_challenge(self, now: int, frame: Frame) -> None:
        if self._challenged or not self._claim:
            raise Fault("out_of_order")
        self._challenged = True
        mac = wire.sign(**self._claim, server_nonce=frame.properties["server_nonce"])
        self._send(now, Frame(wire.AUTH, {"mac": mac}))

    def _take_error(self, now: int, frame: Frame) -> None:
        seq = frame.properties.get("report_seq")
        if seq is not None:
            self.reports.refused(now, seq)
        elif frame.properties.get("reason") != "unknown_opcode":
            self._error = _end_of(frame, 50)

    def _take_msg(self, now: int, frame: Frame) -> None:
        for record in frame.records or ():
            if record.id in self._held:
                continue
            if record.id in self._seen:
                if record.id not in self._acks:
                    self._acks.append(record.id)
                continue
            if len(self._held) >= HELD_MAX:
                raise Fault("too_large")
            self._held[record.id] = record
            self._actions.append(Pushed(record))

    def _take_report_ack(self, now: int, frame: Frame) -> None:
        for report in self.reports.taken(frame.properties["report_seq"]):
            self._dirty = True
            self._actions.append(Stored(report.client_id))
        self._send_reports(now)

    def _take_config(self, now: int, frame: Frame) -> None:
        self._agreed = max(1, frame.properties.get("heartbeat", self._agreed))

    def _take_pulled(self, now: int, frame: Frame) -> None:
        self._actions.append(Pulled(frame.properties.get("offline_count", 0)))

    def _take_pong(self, now: int, frame: Frame) -> None:
        """All bytes answer a PING: see `_heard`."""

    # -- sending

    def _send(self, now: int, frame: Frame) -> None:
        self._sent_at = now
        self._actions.append(Send(wire.encode(frame)))

    def _flush_acks(self, now: int) -> None:
        if self._acks:
            payload = b"".join(id_.to_bytes(8, "big") for id_ in self._acks)
            self._acks.clear()
            self._send(now, Frame(wire.MSG_ACK, {}, payload))

    def _remember(self, id_: int) -> None:
        self._seen[id_] = None
        while len(self._seen) > SEEN_MAX:
            del self._seen[next(iter(self._seen))]
        self._dirty = True

    def _send_reports(self, now: int) -> None:
        if self.state == "bound":
            for report in self.reports.to_send(now):
                self._send(now, Frame(wire.REPORT, {}, report.payload, report.seq))

    # -- heartbeat

    def _ping_due(self) -> int:
        interval = self._heartbeat.interval(self._agreed) * 1000
        silent_since = max(self._sent_at, self._heard_at)
        return min(silent_since + interval, self._sent_at + self._agreed * 1000)

    def _ping(self, now: int) -> None:
        is_late = now >= self._ping_due() + LATE_MS
        self._pong_silence = 0.0 if is_late else (now - max(self._sent_at, self._heard_at)) / 1000
        self._send(now, Frame(wire.PING))
        self._pong_due = now + PONG_MS

    def _heard(self, now: int) -> None:
        self._heard_at = now
        if self._pong_due is not None:
            self._pong_due = None
            self._dirty |= self._heartbeat.survived(self._pong_silence, self._agreed)

    def _tick_bound(self, now: int) -> None:
        if self._pong_due is not None and now >= self._pong_due:
            self._suspect = (self._pong_silence, self._agreed)
            return self._leave(now, _End("no_pong"))
        if self._pong_due is None and now >= self._ping_due():
            self._ping(now)
        self._send_reports(now)

    # -- ends

    def _leave(self, now: int, end: _End) -> None:
        """Closes the connection, and goes on as `end` says."""
        self._actions.append(Disconnect())
        self._after(now, end)

    def _after(self, now: int, end: _End) -> None:
        if self.state == "closing":
            return self._end("closed")
        if self.state == "bound":
            self._backoff.lasted(now - self._bound_at)
        else:
            self._suspect = None  # the network or the server was away
        if end.addrs:
            self._named = list(end.addrs)
        if self._corrects_clock(end):
            return self._connect(now)
        if end.result in _PERMANENT and not end.hint_ms:
            return self._end(end.why, end.result)
        if end.addrs and not end.hint_ms and self._follows < FOLLOWS_MAX:
            self._follows += 1
            return self._connect(now)
        until = now + self._backoff.next(end.hint_ms)
        self._become("waiting", until)
        self._actions.append(State("waiting", until=until, why=end.why, result=end.result))

    def _corrects_clock(self, end: _End) -> bool:
        if end.result != 21 or end.server_time is None or self._clock_corrected:
            return False
        self._clock_corrected = True
        self._clock_offset = end.server_time - self._wall_ms
        return True

    def _close(self, why: str) -> None:
        self._actions.append(Disconnect())
        self._end(why)

    def _end(self, why: str, result: Optional[int] = None) -> None:
        self._become("ended", None)
        self._actions.append(State("ended", why=why, result=result))


def _end_of(frame: Frame, default: int) -> _End:
    properties = frame.properties
    result = properties.get("result", default)
    return _End(wire.word(result), result, properties.get("retry_after_ms", 0),
                properties.get("addrs", ()), properties.get("server_time"))


_BOUND = {
    wire.MSG: Machine._take_msg, wire.PONG: Machine._take_pong, wire.PULL: Machine._take_pulled,
    wire.REPORT_ACK: Machine._take_report_ack, wire.CONFIG: Machine._take_config,
}

"""One device of an account: what happens and the time go in, actions come out.

Knows no socket, timer, disk or randomness.

    idle -> opening -> login -> online -> waiting -> opening ...
                                        -> ended
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import im_pb2 as pb
from . import wire, words
from .backoff import HINT_MS_MAX, Backoff
from .heartbeat import Heartbeat
from .inbox import Inbox
from .outbox import Outbox, Queued
from .proof import HASHED_TOKEN, SCRAM, Scram, hashed_token
from .words import ImError

#: For a connection and the login, milliseconds.
CONNECT_MS = 20_000
#: How long a server may take to say anything when it was asked, milliseconds.
ANSWER_MS = 30_000
#: The same after a nudge: the connection is likely to be dead.
PROBE_MS = 10_000
#: A Ping that is later than this tests no interval: the device slept.
LATE_MS = 30_000
#: Requests under way at once, if the server allows as many.
WINDOW_MAX = 64
#: Ends with the name of another server that are followed without a wait between two sessions.
FOLLOWED_MAX = 3
#: Client ids of own messages that were told, and may still be pulled.
OWN_TOLD_MAX = 1_024
#: The number of pulls; no other request has it.
PULL_NUMBER = 0xFFFF_FFFF


class Credentials(NamedTuple):
    """How the device proves its account: one of these, or nothing."""

    password: Optional[str] = None
    #: A token of your identity provider, which is sent as it is.
    token: Optional[str] = None
    #: A token that `request_token` gave to this device.
    login_token: Optional[str] = None

    def __repr__(self) -> str:
        return "Credentials(…)"


class State(NamedTuple):
    """What the client does: `connecting` (`address`), `online` (`account`), `waiting` (`until`,
    `why`; `detail`: the fault of the connection in the system's words), `ended` (`why`)."""

    name: str
    address: str = ""
    account: str = ""
    until: int = 0
    why: str = ""
    detail: str = ""


class Connect(NamedTuple):
    address: str


class Disconnect(NamedTuple):
    pass


class Send(NamedTuple):
    data: bytes


class Save(NamedTuple):
    state: Dict[str, Any]


class Entry(NamedTuple):
    """An InboxEntry or an InboxEvent, to be handed out."""

    place: int
    frame: Any


class Sent(NamedTuple):
    """A message is stored."""

    client_id: str
    to: str
    id: int
    seq: int
    at_ms: int


class Failed(NamedTuple):
    """A message is given up."""

    client_id: str
    to: str
    error: ImError


class Answer(NamedTuple):
    """Of a request: a message of the protocol, or an ImError."""

    number: int
    result: Any


class Told(NamedTuple):
    """Something without a place in the inbox: the name of the frame, and its content."""

    name: str
    frame: Any


class Handled(NamedTuple):
    name: str


Action = Union[Connect, Disconnect, Send, Save, Entry, Sent, Failed, Answer, Told, Handled, State]


class Options(NamedTuple):
    addresses: Sequence[str]
    account: str
    device: str
    random: Callable[[], float]
    nonce: Callable[[], str]
    silence_s: int = 0
    #: Credentials are asked for before each connection, so a new token may come.
    renews: bool = False
    #: Shortest, first and longest interval between signs of life, seconds.
    heartbeat: Tuple[int, int, int] = (30, 120, 1800)


class Machine:
    def __init__(self, options: Options) -> None:
        self._options = options
        self.inbox, self.outbox = Inbox(None), Outbox([])
        self.heartbeat = Heartbeat(*options.heartbeat)
        self._backoff = Backoff(options.random)
        self._actions: List[Action] = []
        self._asked: Dict[int, None] = {}
        self._own_told: Dict[bytes, None] = {}
        self.phase = "idle"
        self._data = bytearray()
        self._credentials = Credentials()
        self._shows_password = False
        self._scram: Optional[Scram] = None
        self._expected: Optional[bytes] = None
        self._is_safe = False
        self._limits: Any = None
        self._domain = ""
        self._since = self._said = self._heard = self._attempts = 0
        # The silence before the Ping that is not answered yet; 0: it tests nothing.
        self._tested_s = 0
        self._due: Optional[int] = None
        self._dead: Optional[int] = None
        self._not_before = 0
        self._number = self._turn = self._followed = 0
        self._first: List[str] = []
        self._address = ""
        self._saved = self._version

    def restore(self, saved: Optional[Dict[str, Any]]) -> None:
        """Goes on from a stored state, if it is of this device. Before `start`."""
        if saved and saved.get("of") == self._identity:
            self.outbox = Outbox(saved["queue"])
            self.inbox = Inbox(saved["last"])
            self.heartbeat.load(saved.get("heartbeats"))
            self._saved = self._version

    @property
    def _version(self) -> Tuple[Optional[int], int, int]:
        """Of what is to be stored."""
        return self.inbox.done, self.outbox.version, self.heartbeat.version

    @property
    def _identity(self) -> List[str]:
        return [self._options.account, self._options.device]

    def state(self) -> Dict[str, Any]:
        """What is to be stored."""
        return {"v": 1, "of": self._identity, "last": self.inbox.done,
                "queue": self.outbox.saved(), "heartbeats": self.heartbeat.save()}

    # -- orders

    def start(self, now: int) -> None:
        if self.phase in ("idle", "ended"):
            self._backoff = Backoff(self._options.random)
            self._shows_password = False
            self._open(now)

    def close(self, now: int) -> None:
        if self.phase == "online":
            self._say(now, pb.ClientFrame(goodbye=pb.Goodbye()))
        self._end("closed")

    def nudge(self, now: int) -> None:
        if self.phase == "waiting" and now >= self._not_before:
            self._open(now)
        elif self.phase == "online":
            self._ping(now)
            self._dead = min(self._dead or now + PROBE_MS, now + PROBE_MS)

    def network(self, now: int, name: str) -> None:
        """The device is in another network now."""
        self.heartbeat.use(name)
        self._tested_s = 0
        self.nudge(now)

    def send(self, client_id: str, to: str, content: Any) -> None:
        self.outbox.add(Queued(client_id, to, content))
        if self._limits is not None:
            self._give_up_large()

    def request(self, now: int, request: Any) -> int:
        """Asks something (a ClientFrame); the Answer has the number that is returned."""
        self._number = self._number % 0x7FFF_FFFF + 1
        if self.phase != "online":
            self._actions.append(Answer(self._number, ImError("disconnected")))
        elif len(self._asked) >= self._window:
            self._actions.append(Answer(self._number, ImError("queue_full")))
        else:
            self._asked[self._number] = None
            getattr(request, request.WhichOneof("request")).number = self._number
            self._say(now, request, asks=True)
        return self._number

    def tell(self, now: int, request: Any) -> None:
        """Says something that has no answer; nothing without a connection."""
        if self.phase == "online":
            self._say(now, request)

    def acknowledge(self, now: int, place: int) -> bool:
        return self.inbox.release(now, place)

    # -- the connection

    def connected(self, now: int, credentials: Credentials, is_safe: bool) -> None:
        self.phase, self._credentials, self._is_safe = "login", credentials, is_safe
        self._scram, self._expected = None, None
        name = self._options.account
        login = pb.Login(name=name, device=self._options.device,
                         silence_s=self._options.silence_s)
        local = name.partition("@")[0]
        if credentials.login_token is not None:
            login.method = HASHED_TOKEN
            login.data, self._expected = hashed_token(local, credentials.login_token)
        elif credentials.token is not None:
            login.password = credentials.token.encode()
        elif credentials.password is not None and self._shows_password:
            login.password = credentials.password.encode()
        elif credentials.password is not None:
            self._scram = Scram(local, credentials.password, self._options.nonce())
            login.method, login.data = SCRAM, self._scram.first
        self._actions.append(Send(wire.PREFACE))
        self._say(now, pb.ClientFrame(login=login))

    def received(self, now: int, data: bytes) -> None:
        self._data += data
        self._heard, self._dead = now, None
        if self._tested_s:
            self.heartbeat.lived(self._tested_s)
            self._tested_s = 0
        bytes_max = wire.FRAME_BYTES_MAX
        if self._limits is not None:
            content = self._limits.text_bytes_max + self._limits.extra_bytes_max
            bytes_max = max(bytes_max, content + wire.BESIDE_CONTENT_BYTES)
        at = 0
        try:
            while self.phase in ("login", "online"):
                found = wire.decode(memoryview(self._data)[at:], bytes_max)
                if found is None:
                    break
                frame, length = found
                at += length
                name = frame.WhichOneof("answer")
                if name is not None:
                    self._take(now, name, getattr(frame, name))
                    self._actions.append(Handled(name))
        except wire.Fault:
            return self._lose(now, "server_malformed")
        self._data = self._data[at:]

    def lost(self, now: int, why: str) -> None:
        if self.phase in ("opening", "login", "online"):
            self._lose(now, why)

    # -- time

    def due(self) -> Optional[int]:
        if self.phase != "online":
            return self._due
        times = [self._dead, self._ping_at, self.inbox.due(), self.outbox.due()]
        return min(time for time in times if time is not None)

    def tick(self, now: int) -> None:
        if self.phase != "online":
            if self._due is None or now < self._due:
                return
            if self.phase == "waiting":
                self._open(now)
            else:
                self._lose(now, "timed_out")
        elif self._dead is not None and now >= self._dead:
            self._lose(now, "timed_out")
        elif now >= self._ping_at:
            silence_s = (now - max(self._said, self._heard)) // 1_000
            is_test = silence_s >= self.heartbeat.interval(self._limits.silence_s) \
                and now < self._ping_at + LATE_MS
            self._ping(now)
            self._tested_s = silence_s if is_test else 0

    @property
    def _ping_at(self) -> int:
        """After silence, and in any case before the server has heard nothing for its time."""
        agreed = self._limits.silence_s
        silent = max(self._said, self._heard) + self.heartbeat.interval(agreed) * 1_000
        return min(silent, self._said + agreed * 1_000)

    def take(self, now: int) -> List[Action]:
        """What is to be done: first what happened, then what is to be stored, then what is said
        because of both."""
        if self.phase == "online":
            self._pump(now)
        actions, self._actions = self._actions, []
        if self._version != self._saved:
            self._saved = self._version
            first = next((at for at, it in enumerate(actions) if isinstance(it, Send)),
                         len(actions))
            actions.insert(first, Save(self.state()))
        return actions

    # -- frames

    def _take(self, now: int, name: str, frame: Any) -> None:
        if name == "end":
            return self._farewell(now, frame)
        if self.phase == "login":
            return self._take_in_login(now, name, frame)
        if name in ("logged_in", "challenge", "refused"):
            raise wire.Fault("out_of_order")
        if name in ("message", "event"):
            if self.inbox.comes(frame.seq):
                self._hand_out(now, frame.seq, frame)
        elif name == "notify":
            self.inbox.notify(frame.head)
        elif name == "page" and frame.number == PULL_NUMBER:
            entries = [(it.seq, it) for it in (*frame.entries, *frame.events)]
            for place, entry in self.inbox.page(sorted(entries, key=lambda it: it[0]), frame.upto,
                                                frame.head):
                self._hand_out(now, place, entry)
        elif name == "sent" and frame.number not in self._asked:
            self._stored(frame)
        elif name == "failed" and frame.number not in self._asked:
            self._failed(now, frame)
        elif name != "pong":
            self._answered(name, frame)
        self.inbox.advance(now)

    def _take_in_login(self, now: int, name: str, frame: Any) -> None:
        if name == "logged_in":
            self._logged_in(now, frame)
        elif name == "challenge":
            answer = self._scram and self._scram.answer(frame.data)
            if not answer:
                return self._end("server_not_proved")
            data, self._expected = answer
            self._say(now, pb.ClientFrame(proceed=pb.Proceed(data=data)))
        elif name == "refused":
            self._farewell(now, frame)
        else:
            raise wire.Fault("out_of_order")

    def _logged_in(self, now: int, frame: Any) -> None:
        is_proved = self._scram is None and self._expected is None or frame.data == self._expected
        if not is_proved:
            return self._end("server_not_proved")
        self.phase, self._since, self._limits, self._due = "online", now, frame, None
        self._limits.silence_s = frame.silence_s or 60
        self._followed, self._first = 0, []
        self._heard = now
        self.heartbeat.bound(self._attempts == 1)
        self._attempts = 0
        self._domain = frame.account.partition("@")[2]
        self.inbox.begin(frame.cursor, frame.head)
        self._actions.append(State("online", account=frame.account))
        self._give_up_large()

    def _hand_out(self, now: int, place: int, entry: Any) -> None:
        if isinstance(entry, pb.InboxEntry) and self._is_own(entry.message):
            return
        self.inbox.hold(place)
        self._actions.append(Entry(place, entry))

    def _is_own(self, message: Any) -> bool:
        """This device sent it, and it was told when it was stored, or is now."""
        if getattr(message, "from") != self._limits.account:
            return False
        if message.client_id in self._own_told:
            return True
        queued = self.outbox.take(message.client_id.hex())
        if queued is None:
            return False
        self._tell_sent(queued, message)
        return True

    def _stored(self, frame: Any) -> None:
        queued = self.outbox.answered(frame.number)
        if queued is not None:
            # A chatroom's messages are in no inbox.
            if not frame.again and not queued.to.partition("@")[2].startswith("live."):
                self.inbox.sent_own()
            self._tell_sent(queued, frame)

    def _tell_sent(self, queued: Queued, frame: Any) -> None:
        self._own_told[bytes.fromhex(queued.client_id)] = None
        while len(self._own_told) > OWN_TOLD_MAX:
            del self._own_told[next(iter(self._own_told))]
        self._actions.append(Sent(queued.client_id, queued.to, frame.id, frame.seq, frame.at_ms))

    def _failed(self, now: int, frame: Any) -> None:
        code = words.fault(frame.fault)
        if frame.number == PULL_NUMBER:
            self.inbox.pull_failed(now)
        elif code in words.PASSING:
            self.outbox.refused(now, frame.number, frame.retry_after_ms)
        else:
            self._give_up(self.outbox.answered(frame.number), ImError(code, frame.reason))

    def _give_up(self, queued: Optional[Queued], error: ImError) -> None:
        if queued is not None:
            self._actions.append(Failed(queued.client_id, queued.to, error))

    def _give_up_large(self) -> None:
        for queued in self.outbox.too_large(self._limits.text_bytes_max,
                                            self._limits.extra_bytes_max):
            self._give_up(self.outbox.take(queued.client_id), ImError("too_large"))

    def _answered(self, name: str, frame: Any) -> None:
        number = getattr(frame, "number", 0)
        if number not in self._asked:
            self._actions.append(Told(name, frame))
            return
        del self._asked[number]
        failed = name == "failed"
        result = ImError(words.fault(frame.fault), frame.reason) if failed else frame
        self._actions.append(Answer(number, result))

    # -- what is to be said

    @property
    def _window(self) -> int:
        # A pull needs no room of its own.
        return max(1, min(WINDOW_MAX, self._limits.requests_max - 1))

    def _pump(self, now: int) -> None:
        upto = self.inbox.acknowledgement(now)
        if upto is not None:
            self._say(now, pb.ClientFrame(acknowledge=pb.Acknowledge(upto=upto)))
        after = self.inbox.pull(now)
        if after is not None:
            pull = pb.Pull(number=PULL_NUMBER, after=after,
                           count=max(1, self._limits.page_messages_max))
            self._say(now, pb.ClientFrame(pull=pull), asks=True)
        window = max(1, self._window - len(self._asked))
        while (queued := self.outbox.next(now, self._domain, window)) is not None:
            self._number = self._number % 0x7FFF_FFFF + 1
            self.outbox.sent(self._number, queued)
            send = pb.Send(number=self._number, to=queued.to, content=queued.content,
                           client_id=bytes.fromhex(queued.client_id))
            self._say(now, pb.ClientFrame(send=send), asks=True)

    def _ping(self, now: int) -> None:
        self._say(now, pb.ClientFrame(ping=pb.Ping()), asks=True)

    def _say(self, now: int, frame: Any, asks: bool = False) -> None:
        self._said = now
        if asks and self._dead is None:
            self._dead = now + ANSWER_MS
        self._actions.append(Send(wire.encode(frame)))

    # -- connections

    def _open(self, now: int) -> None:
        if self._first:
            self._address = self._first.pop(0)
        else:
            self._address = self._options.addresses[self._turn % len(self._options.addresses)]
            self._turn += 1
        self._attempts += 1
        self.phase, self._due, self._data = "opening", now + CONNECT_MS, bytearray()
        self._actions += [State("connecting", address=self._address), Connect(self._address)]

    def _farewell(self, now: int, frame: Any) -> None:
        why = words.reason(frame.reason)
        if why == "bad_method" and self._scram and self._is_safe:
            # The server knows no SCRAM: the password is shown over TLS, or to this machine.
            self._shows_password = True
            self._leave("waiting")
            self._first.insert(0, self._address)
            return self._open(now)
        if why == "expired" and self._options.renews:
            return self._lose(now, why, frame.retry_after_ms)
        if why in words.LASTING:
            return self._end(why)
        if why in ("use_another", "moved") and frame.server:
            self._first.append(frame.server)
            if not frame.retry_after_ms and self._followed < FOLLOWED_MAX:
                self._followed += 1
                self._leave("waiting")
                return self._open(now)
        self._lose(now, why, frame.retry_after_ms)

    def _lose(self, now: int, why: str, hint_ms: int = 0) -> None:
        if self.phase == "online":
            self._backoff.lasted(now - self._since)
            self.heartbeat.suspect, self._tested_s = self._tested_s, 0
        hint_ms = min(hint_ms, HINT_MS_MAX)
        self._leave("waiting")
        self._due = now + self._backoff.next(hint_ms)
        self._not_before = now + hint_ms
        self._actions.append(State("waiting", until=self._due, why=why))

    def _end(self, why: str) -> None:
        self._leave("ended")
        self._actions.append(State("ended", why=why))

    def _leave(self, phase: str) -> None:
        if self.phase == "online":
            self.outbox.lost()
            for number in self._asked:
                self._actions.append(Answer(number, ImError("disconnected")))
            self._asked.clear()
        if self.phase in ("opening", "login", "online"):
            self._actions.append(Disconnect())
        self.phase, self._due, self._dead, self._limits = phase, None, None, None

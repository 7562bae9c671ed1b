"""The stage of IM: its connections carry frames of im.proto, its server has an inbox."""

import base64
import hashlib
import hmac

import im_wire as wire
from stage import Failure, Link, Listener, Stage, WALL_MS

ACCOUNT, DEVICE, PASSWORD = "ann@a.example", "phone", "pencil"
TOKEN = "00112233445566778899aabbccddeeff" * 2
#: Sent in LoggedIn unless a scenario says otherwise.
LIMITS = {"silence_s": 60, "page_messages_max": 8, "text_bytes_max": 1000, "extra_bytes_max": 100,
          "requests_max": 32, "file_bytes_max": 0}


class ImLink(Link):
    """A connection of a device. The preface is read with the first frame."""

    has_preface = False

    def take(self):
        if not self.has_preface:
            if len(self.buffer) < len(wire.PREFACE):
                return None
            if not self.buffer.startswith(wire.PREFACE):
                raise Failure(f"not the preface but {self.buffer[:8].hex()}")
            self.has_preface, self.buffer = True, self.buffer[len(wire.PREFACE):]
        found = wire.read(self.buffer)
        if found is None:
            return None
        self.buffer = self.buffer[found[1]:]
        return found[0]

    def expect(self, name):
        """The next request, which must be this one."""
        while True:
            request = self.take()
            if request is not None:
                if request.name != name:
                    raise Failure(f"not {name} but {request!r}")
                return request
            if not self._receive():
                raise Failure(f"closed before {name}: {self.buffer!r}")


class ImListener(Listener):
    link = ImLink


class ImStage(Stage):
    """One scenario's server and its client, the device `phone` of `ann@a.example`."""

    listener = ImListener
    unreachable, lost = "unreachable", "disconnected"
    #: The running server, of im_server.py.
    real = None

    def open(self, **options):
        self.driver.events.clear()
        options.setdefault("addresses", [self.server.address])
        options.setdefault("wall_ms", WALL_MS)
        self.now, self.is_open = 0, True
        self.driver.ask("open", **{"account": "ann", "device": DEVICE, **options})

    def handled(self, answer, count=1):
        """Waits until so many frames of this answer were handled, past others."""
        while count:
            count -= self.driver.event("frame")["answer"] == answer

    def told(self, kind):
        """All events of a kind since the last look."""
        found = [event for event in self.driver.events if event["event"] == kind]
        for event in found:
            self.driver.events.remove(event)
        return found

    def places(self):
        """Places of the inbox that were handed out since the last look: messages and events."""
        found = [event for event in self.driver.events if event["event"] in ("message", "event")]
        for event in found:
            self.driver.events.remove(event)
        return [event["seq"] for event in found]

    # -- the server

    def logged_in(self, head=0, cursor=None, **more):
        return wire.frame("logged_in", **{
            "account": ACCOUNT, "head": head, "cursor": head if cursor is None else cursor,
            "server_ms": WALL_MS + self.now, **LIMITS, **more})

    def come_in(self, server=None):
        return self.login(server)

    def login(self, server=None, head=0, cursor=None, **more):
        """Accepts a connection and lets the client in; the link, whose `login` is the Login."""
        link = (server or self.server).accept()
        link.login = link.expect("login")
        link.send(self.logged_in(head, cursor, **more))
        self.driver.state("online")
        self.handled("logged_in")
        return link

    def refuse(self, reason, server=None, **more):
        link = (server or self.server).accept()
        login = link.expect("login")
        link.send(wire.frame("refused", reason=number("Reason", reason), word=reason, **more))
        link.end()
        return login


def number(enumeration, word):
    prefix = {"Reason": "REASON_", "Fault": "FAULT_"}[enumeration]
    return wire.ENUMS[enumeration][prefix + word.upper()]


def message(seq, to=ACCOUNT, from_="bob@a.example", text=None, device="desk", client_id=None):
    return {"id": 1_000 + seq, "seq": seq, "at_ms": WALL_MS + seq, "from": from_, "device": device,
            "to": to, "client_id": client_id or seq.to_bytes(16, "big"),
            "content": {"kind": 1, "text": f"text {seq}" if text is None else text}}


def entry(place, **how):
    """A message at a place of the inbox."""
    return {"seq": place, "message": message(place, **how)}


def live(*places):
    """Message frames for these places."""
    return b"".join(wire.frame("message", **entry(place)) for place in places)


def page(pull, entries, upto, head, events=()):
    return wire.frame("page", number=pull["number"], entries=list(entries), upto=upto, head=head,
                      events=list(events))


def sent(send, seq=1, again=False):
    return wire.frame("sent", number=send["number"], id=7_000 + seq, seq=seq, at_ms=WALL_MS,
                      again=again)


def failed(request, fault, **more):
    return wire.frame("failed", number=request["number"], fault=number("Fault", fault), word=fault,
                      **more)


class Scram:
    """The server's side of SCRAM-SHA-256 (RFC 5802) for one password."""

    salt, iterations, more = b"salt of sixteen!", 4096, "server nonce"

    def __init__(self, first, password=PASSWORD):
        header, comma, self.bare = first.decode().partition("n,,")
        if header or not comma:
            raise Failure(f"not a first message of SCRAM: {first!r}")
        self.name, self.nonce = (part.partition("=")[2] for part in self.bare.split(",", 1))
        self.password = password.encode()

    @property
    def challenge(self):
        salt = base64.b64encode(self.salt).decode()
        return f"r={self.nonce}{self.more},s={salt},i={self.iterations}"

    def signature(self, last):
        """What the server says to the client's proof; raises Failure if that is wrong."""
        bare, _, proof = last.decode().rpartition(",p=")
        salted = hashlib.pbkdf2_hmac("sha256", self.password, self.salt, self.iterations)
        key = _mac(salted, b"Client Key")
        said = f"{self.bare},{self.challenge},{bare}".encode()
        signed = _mac(hashlib.sha256(key).digest(), said)
        if bytes(a ^ b for a, b in zip(key, signed)) != base64.b64decode(proof):
            raise Failure("the proof is wrong")
        return "v=" + base64.b64encode(_mac(_mac(salted, b"Server Key"), said)).decode()


def token_mac(word):
    """What proves a login token (IM 3.5)."""
    return _mac(TOKEN.encode(), word)


def _mac(key, said):
    return hmac.new(key, said, hashlib.sha256).digest()

"""Floods for `soak.py`: each is a process of its own that asks too much of a server, to the end.

    python3 soak_floods.py NAME     with a JSON object on the standard input

However it is answered, a flood goes on: after an error it connects again. It prints what it did
and how it was answered, as a JSON object a line, every second and at the end.
"""

import collections
import hashlib
import http.client
import itertools
import json
import os
import re
import signal
import socket
import struct
import sys
import threading
import time
import urllib.parse
import uuid

import fixture
import im.wire
import mqtt.wire as wire
from mqtt.wire import V5, V311
from xmpp.people import Stream

PAUSE_S = 0.01  # between an error and the next connection
PATIENCE_S = 10  # for an answer
LARGE = "x" * 60_000
PAGE = b"x" * 7_000
RETAINED = 1_000
ABSENT = 100
TOPICS = [f"absent/{at}" for at in range(ABSENT)]
IP_BIND_ADDRESS_NO_PORT = 24
FAULTS = (OSError, EOFError, wire.Closed, im.wire.Ended, AssertionError, ValueError, IndexError,
          http.client.HTTPException)


class Flood:
    """What floods have in common: their time, their share of the processor, their counts."""

    def __init__(self, world):
        self.world, self.counts, self.lock = world, collections.Counter(), threading.Lock()
        self.over = threading.Event()
        self.began, self.used = time.monotonic(), time.process_time()
        self.end = self.began + world["seconds"]

    def count(self, what, more=1):
        with self.lock:
            self.counts[what] += more

    def goes_on(self):
        """Whether to go on; sleeps where this process has used more than its share of a core."""
        share = self.world["share"]
        with self.lock:
            now, used = time.monotonic(), time.process_time()
            credit = (now - self.began) * share - (used - self.used)
            if credit > share:  # what it left unused more than a second ago is gone
                self.began, self.used, credit = now - 1, used, share
        if credit < 0:
            self.over.wait(min(-credit / share, 1))
        return now < self.end and not self.over.is_set()

    def again(self, act):
        """Does this to the end, whatever comes of it."""
        while self.goes_on():
            try:
                act()
            except FAULTS as error:
                self.count(f"ended: {type(error).__name__}")
                self.over.wait(PAUSE_S)

    def together(self, *acts):
        threads = [threading.Thread(target=self.again, args=(act,), daemon=True) for act in acts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    # -- connections

    def dial(self, door="flood", buffer=None):
        """A connection from this flood's own address, by `door`."""
        place = self.world["ports"][door]
        link = socket.socket()
        try:
            link.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            # Its end is a reset: ports of this machine are not used up by those that are over.
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if buffer:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            link.settimeout(PATIENCE_S)
            link.bind((self.world["source"], 0))
            link.connect(tuple(place))
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if door.startswith("flood"):
                port = link.getsockname()[1]
                told = f"PROXY TCP4 {self.world['claims']} 127.0.0.1 {port} {place[1]}\r\n"
                link.sendall(told.encode())
        except BaseException:
            link.close()
            raise
        self.count("connections")
        return link

    def client(self, client_id, version=V311, buffer=None, **how):
        """A client of MQTT that is let in."""
        client = wire.Wire(self.dial(buffer=buffer), version)
        try:
            client.send(wire.connect(version, client_id, **how))
            answer = client.expect(wire.CONNACK, PATIENCE_S)
            if answer.code:
                raise ValueError(f"CONNACK {answer.code}")
        except BaseException:
            client.close()
            raise
        return client

    def device(self, name, device="flood"):
        """A device of IM that is logged in."""
        link = im.wire.Device(self.dial())
        try:
            link.login(name, device, password=f"secret of {name}".encode())
        except BaseException:
            link.close()
            raise
        return link

    def stream(self, name, resource="flood", buffer=None):
        """A stream of XMPP with a resource, which shows itself."""
        stream = Stream(self.dial(buffer=buffer))
        try:
            stream.log_in(name)
            stream.say("<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>"
                       f"<resource>{resource}</resource></bind></iq><presence/>")
            stream.until("</jid>")
        except BaseException:
            stream.close()
            raise
        return stream

    def api(self, door="api"):
        """A connection of HTTP."""
        link = http.client.HTTPConnection(*self.world["ports"][door], timeout=PATIENCE_S)
        link.sock = self.dial(door)
        link.auto_open = 0
        return link

    # -- many connections of one thread

    def crowd(self, count, opens, says, reads):
        """So many connections: each of them says `says(turn)` as often as it is taken, and of what
        comes at most `reads` bytes a turn are read and thrown away."""
        links = {}
        for turn in itertools.count():
            if not self.goes_on():
                return
            moved = 0
            for at in range(count):
                try:
                    if at not in links:
                        links[at] = opens(at)
                        links[at].setblocking(False)
                    moved += self._turn(links[at], says(turn), reads)
                except FAULTS as error:
                    self.count(f"ended: {type(error).__name__}")
                    if at in links:
                        links.pop(at).close()
                    self.over.wait(PAUSE_S)
                if self.over.is_set():
                    return
            self.over.wait(0.001 if moved else 0.05)

    def _turn(self, link, said, reads):
        moved = 0
        if said:
            try:
                moved += link.send(said)
                self.count("asked")
            except BlockingIOError:
                self.count("not taken yet")
        if reads:
            try:
                got = link.recv(reads)
                if not got:
                    raise EOFError
                self.count("bytes read", len(got))
                moved += len(got)
            except BlockingIOError:
                pass
        return moved


# ---- the floods: each takes a Flood and goes on to its end ---------------------------------------


def subscribe(flood):
    """200 connections that subscribe to 7 MB of retained messages again and again."""
    def fill():
        writer = flood.client("flood-retains")
        for start in range(0, RETAINED, 50):
            writer.send(*[wire.publish(V311, f"big/{at}", PAGE, 1, True, id=at + 1)
                          for at in range(start, start + 50)])
            for _ in range(50):
                writer.expect(wire.PUBACK, PATIENCE_S)
        writer.leave()
        filled.set()

    filled, request = threading.Event(), wire.subscribe(V311, "big/#")
    while flood.goes_on() and not filled.is_set():
        try:
            fill()
        except FAULTS:
            flood.over.wait(1)

    def opens(at):
        client = flood.client(f"flood-subscribes-{at}", keep_alive=0)
        flood.count("let in")
        return client.socket
    flood.crowd(200, opens, lambda turn: request, 1 << 18)


def absents(flood, name, topics):
    """Makes sessions that are subscribed to a topic each, and away."""
    made = 0
    while flood.goes_on() and made < len(topics):
        try:
            client = flood.client(f"{name}-{made}", V5, clean=False,
                                  props={"session_expiry": 86_400})
            client.subscribe((topics[made], 1))
            client.leave()
            made += 1
        except FAULTS:
            flood.over.wait(0.2)


def publishes(flood, client_id, topics, payload, props=None, window=16):
    """Publishes at QoS 1 as fast as it is acknowledged; counts the answers by their codes."""
    def act():
        client = flood.client(client_id, V5)
        try:
            while flood.goes_on():
                client.send(*[wire.publish(V5, next(topic), payload, 1, id=at + 1, props=props)
                              for at in range(window)])
                flood.count("messages of MQTT", window)
                for _ in range(window):
                    code = client.expect(wire.PUBACK, PATIENCE_S).code
                    flood.count(f"PUBACK {code:#04x}")
        finally:
            client.close()
    topic = itertools.cycle(topics)
    return act


def store(flood):
    """One who stores as fast as it can: in queues of MQTT, as pushes, in a conversation."""
    def pushes():
        link = flood.api()
        try:
            for turn in itertools.count():
                names = [f"absent-{(turn * 100 + at) % 200}" for at in range(100)]
                order = {"product": "demo", "devices": names, "body": LARGE[:4_000]}
                link.request("POST", "/v1/pushes", json.dumps(order),
                             {"Authorization": f"Bearer {flood.world['token']}"})
                answer = link.getresponse()
                told = answer.read()
                flood.count(f"pushes: {answer.status}")
                if answer.status == 200:
                    for outcome in json.loads(told)["outcomes"]:
                        flood.count(f"push {outcome.get('reason') or outcome['outcome']}")
                if not flood.goes_on():
                    return
        finally:
            link.close()

    def says():
        device = flood.device("flood-store")
        try:
            while flood.goes_on():
                for number in range(16):
                    device.ask(send={"number": number, "to": "flood-absent",
                                     "client_id": uuid.uuid4().bytes,
                                     "content": {"kind": 1, "text": LARGE}})
                flood.count("messages of IM", 16)
                answered = 0
                while answered < 16:
                    kind, told = device.frame()
                    if kind in ("sent", "failed"):
                        flood.count(f"IM {told.word if kind == 'failed' else kind}")
                        answered += 1
                    elif kind == "end":
                        raise EOFError
        finally:
            device.close()

    absents(flood, "flood-away", TOPICS)
    flood.together(publishes(flood, "flood-stores", TOPICS, LARGE), pushes, says)


def expired(flood):
    """Messages that are over after two seconds, to a session that is away."""
    absents(flood, "flood-late", ["late/1"])
    flood.together(publishes(flood, "flood-expires", ["late/1"], PAGE[:500], {"expiry": 2}, 100))


def asked(flood, link, request, what):
    """Asks by HTTP over a connection that is kept; the answer's body."""
    link.sendall(request)
    head = b""
    while b"\r\n\r\n" not in head:
        more = link.recv(65_536)
        if not more:
            raise EOFError
        head += more
    head, _, body = head.partition(b"\r\n\r\n")
    flood.count(f"{what} {head.split(None, 2)[1].decode()}")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    while length and len(body) < int(length[1]):
        more = link.recv(65_536)
        if not more:
            raise EOFError
        body += more
    if b"connection: close" in head.lower():
        raise EOFError
    return body


def bosh(flood):
    """Sessions of BOSH, begun and left."""
    body = ("<body xmlns='http://jabber.org/protocol/httpbind' rid='1' to='localhost' wait='60' "
            "hold='1' ver='1.6' xml:lang='en'/>")
    request = (f"POST /http-bind HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml\r\n"
               f"Content-Length: {len(body)}\r\n\r\n{body}").encode()

    def act():
        link = flood.dial()
        try:
            while flood.goes_on():
                told = asked(flood, link, request, "begun:")
                flood.count("sessions", told.count(b" sid='"))
        finally:
            link.close()
    flood.together(*[act] * 4)


def slow_gets(flood):
    """260 who take a file at a kilobyte in a turn."""
    upload = None
    while flood.goes_on() and upload is None:
        try:
            device = flood.device("flood-uploads")
            upload = device.asks("upload", "upload", name="big.png", type="image/png",
                                 bytes=8 << 20)
            place = urllib.parse.urlsplit(upload.put_url)
            link = flood.api("web")
            headers = {header.name: header.value for header in upload.headers}
            link.request("PUT", f"{place.path}?{place.query}", b"x" * (8 << 20), headers)
            flood.count(f"uploaded {link.getresponse().status}")
        except FAULTS:
            upload = None
            flood.over.wait(1)
    place = urllib.parse.urlsplit(upload.get_url)
    path = place.path + (f"?{place.query}" if place.query else "")
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()

    def opens(_):
        link = flood.dial("flood-web", buffer=4_096)
        link.sendall(request)
        flood.count(f"told {link.recv(64).split(None, 2)[1].decode()}")
        return link
    flood.crowd(260, opens, lambda turn: None, 256)


def groups(flood):
    """Makes groups with a stranger, takes her out and adds her again."""
    def order(device, verb, group=""):
        answer = device.asks("group", "changed", group=group, verb=verb, title="join us",
                             members=["probe-bob"], client_id=uuid.uuid4().bytes)
        flood.count(f"verb {verb}: {getattr(answer, 'word', '') or 'done'}")
        return getattr(answer, "group", "")

    def act():
        device = flood.device("flood-groups")
        try:
            while flood.goes_on():
                group = order(device, 1)
                for verb in (3, 2, 3, 2) if group else ():
                    order(device, verb, group)
        finally:
            device.close()
    flood.together(act)


def logins(flood):
    """Wrong passwords, by every way in."""
    numbers = itertools.count()

    def by_mqtt():
        client = wire.Wire(flood.dial())
        try:
            client.send(wire.connect(V311, "flood-guesses", user="probe-ann",
                                     password=f"wrong {next(numbers)}"))
            flood.count(f"MQTT {client.expect(wire.CONNACK, PATIENCE_S).code}")
        finally:
            client.close()

    def by_im():
        device = im.wire.Device(flood.dial())
        try:
            device.ask(login={"name": "probe-ann", "device": "guess",
                              "password": f"wrong {next(numbers)}".encode()})
            kind, told = device.frame()
            flood.count(f"IM {kind} {getattr(told, 'word', '')}")
        finally:
            device.close()

    def by_xmpp():
        stream = Stream(flood.dial())
        try:
            stream.log_in("probe-ann", f"wrong {next(numbers)}")
        except AssertionError as error:
            flood.count(f"XMPP {re.search('<failure[^>]*><([a-z-]*)|$', str(error))[1]}")
        finally:
            stream.close()

    def by_api():
        link = flood.api()
        try:
            link.request("GET", "/v1/status", headers={"Authorization": f"Bearer {uuid.uuid4()}"})
            flood.count(f"API {link.getresponse().status}")
        finally:
            link.close()
    flood.together(by_mqtt, by_im, by_xmpp, by_api)


def same_id(flood):
    """Connects with one client identifier again and again, each of which ends the one before."""
    last = []

    def act():
        last.append(flood.client("flood-same"))
        flood.count("let in")
        if len(last) > 1:
            last.pop(0).close()
    flood.again(act)


def stanzas(flood):
    """Large messages, and messages without a body, to one contact who is there."""
    large = f"<message to='flood-contact@localhost' type='chat'><body>{LARGE}</body></message>"
    small = ("<message to='flood-contact@localhost' type='chat'>"
             "<composing xmlns='http://jabber.org/protocol/chatstates'/></message>")
    ping = "<iq type='get' id='ping' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>"

    def sends():
        stream = flood.stream("flood-stanzas")
        try:
            while flood.goes_on():
                stream.say(large * 4 + small * 50 + ping)
                flood.count("large", 4)
                flood.count("without a body", 50)
                told = stream.until("id='ping'")
                flood.count("answered by an error", told.count("type='error'"))
        finally:
            stream.close()

    def reads():
        stream = flood.stream("flood-contact")
        try:
            while flood.goes_on():
                got = stream.socket.recv(1 << 18)
                if not got:
                    raise EOFError
                flood.count("bytes read", len(got))
                flood.count("received", got.count(b"</message>"))
        finally:
            stream.close()
    flood.together(sends, reads)


def queries(flood):
    """vCards, disco and pages of the archive, asked for as fast as they are answered."""
    inner = ("<vCard xmlns='vcard-temp'/>",
             "<query xmlns='http://jabber.org/protocol/disco#info'/>")
    asks = [f"<iq type='get' id='q' to='{to}'>{what}</iq>" for what, to in zip(
        inner * 2, ("probe-ann@localhost", "localhost", "flood-contact@localhost",
                    "flood-contact@localhost"))]
    asks.append("<iq type='set' id='q'><query xmlns='urn:xmpp:mam:2'/></iq>")

    def act():
        stream = flood.stream("flood-queries")
        try:
            while flood.goes_on():
                stream.say("".join(asks) * 10)
                flood.count("questions", 10 * len(asks))
                told = 0
                while told < 10 * len(asks):
                    answer = stream.until("</iq>") if "</iq>" in stream.seen else ""
                    if not answer:
                        more = stream.socket.recv(65_536)
                        if not more:
                            raise EOFError
                        stream.seen += more.decode(errors="replace")
                        told += len(re.findall("<iq [^>]*/>", stream.seen))
                        continue
                    told += 1
                    flood.count("refused" if "<error" in answer else "answered")
        finally:
            stream.close()
    flood.together(act)


def never_read(flood):
    """Clients of MQTT and XMPP that want everything and read nothing."""
    def mqtt_clients():
        def opens(at):
            client = flood.client(f"flood-deaf-{at}", V5, buffer=4_096, keep_alive=0,
                                  clean=at % 2 == 0, props={"session_expiry": 600})
            client.send(wire.subscribe(V5, [("#", at % 3)]))
            flood.count("let in by MQTT")
            return client.socket
        ping = wire.packet(wire.PINGREQ, 0, b"")
        flood.crowd(100, opens, lambda turn: ping if turn % 100 == 0 else None, 0)

    def xmpp_clients():
        def opens(at):
            stream = flood.stream("flood-deaf", f"deaf-{at}", buffer=4_096)
            stream.say(f"<presence to='flood-{at % 4}@conference.localhost/{at}'>"
                       "<x xmlns='http://jabber.org/protocol/muc'/></presence>")
            flood.count("let in by XMPP")
            return stream.socket
        ask = ("<iq type='get' id='q' to='localhost'>"
               "<query xmlns='http://jabber.org/protocol/disco#info'/></iq>").encode()
        flood.crowd(12, opens, lambda turn: ask, 0)

    def writer():
        client = flood.client("flood-tells", V311)
        try:
            while flood.goes_on():
                client.send(*[wire.publish(V311, "never/read", PAGE, 0) for _ in range(4)])
                flood.count("published", 4)
                client.ping(PATIENCE_S)
        finally:
            client.close()
    flood.together(mqtt_clients, xmpp_clients, writer)


def domain(flood):
    """A component that stores large messages from made-up names."""
    numbers = itertools.count()

    def act():
        stream = Stream(flood.dial("component"))
        try:
            stream.say("<?xml version='1.0'?><stream:stream xmlns='jabber:component:accept' "
                       f"xmlns:stream='http://etherx.jabber.org/streams' to='{DOMAIN}'>")
            key = re.search(" id='([^']*)'", stream.until("id='") + stream.until("'"))[1]
            digest = hashlib.sha1((key + SECRET).encode()).hexdigest()
            stream.say(f"<handshake>{digest}</handshake>")
            stream.until("<handshake/>")
            while flood.goes_on():
                for _ in range(8):
                    stream.say(f"<message from='n{next(numbers)}@{DOMAIN}' type='chat' "
                               f"to='flood-absent@localhost'><body>{LARGE}</body></message>")
                stream.say(f"<iq type='get' id='ping' from='n@{DOMAIN}' to='localhost'>"
                           "<ping xmlns='urn:xmpp:ping'/></iq>")
                flood.count("messages", 8)
                told = stream.until("id='ping'")
                flood.count("answered by an error", told.count("type='error'"))
        finally:
            stream.close()
    flood.together(act)


DOMAIN, SECRET = "soak.localhost", "secret-of-the-soak"
FLOODS = {"subscribe": subscribe, "store": store, "expired": expired, "bosh": bosh,
          "slow-gets": slow_gets, "groups": groups, "logins": logins, "same-id": same_id,
          "stanzas": stanzas, "queries": queries, "never-read": never_read, "domain": domain}
ACCOUNTS = ["flood-store", "flood-absent", "flood-uploads", "flood-groups", "flood-stanzas",
            "flood-contact", "flood-queries", "flood-deaf", "probe-ann", "probe-bob"]


def tells(flood):
    """Prints the counts so far."""
    with flood.lock:
        print(json.dumps(flood.counts), flush=True)


def main():
    flood = Flood(json.loads(sys.stdin.readline()))
    signal.signal(signal.SIGTERM, lambda *_: flood.over.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    im.wire.schema()
    work = threading.Thread(target=FLOODS[sys.argv[1]], args=(flood,), daemon=True)
    work.start()
    while work.is_alive() and not flood.over.is_set():
        work.join(1)
        tells(flood)
    work.join(1)
    tells(flood)
    os._exit(0)  # connections are reset, threads that wait for an answer are not waited for


if __name__ == "__main__":
    fixture.DEADLINE_S = PATIENCE_S
    main()

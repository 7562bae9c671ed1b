"""Clients of a cluster that remember what was acknowledged: MQTT at QoS 0, 1 and 2, MIOP pushes,
messages of IM and of XMPP.

A sender says each number until it is acknowledged, at whichever node takes it. Each has a receiver.
An audit stops the senders, waits for what is on its way, and compares: a number that was
acknowledged and did not arrive is lost; one that arrived twice where the protocol promises once is
doubled. What a client does after a lost connection is what its protocol asks of it.
"""

import collections
import contextlib
import http.client
import json
import re
import socket
import threading
import time
import traceback
import uuid

import im.wire
import miop
from mqtt import wire
from mqtt.wire import V5
from xmpp.people import Stream

# A client takes a node for dead that does not answer for so long.
PATIENCE_S = 6
# A node that does not answer a login for so long is left for the next one.
LOGIN_S = 3
# A node that refuses is asked again after so long, beside the others.
AGAIN_S = 0.1
# Turns of a sender a second; each says its share and waits for the answers.
TURNS = 10
PRODUCT, TOKEN = "demo", "0123456789abcdef"
SM, BIND = "urn:xmpp:sm:3", "urn:ietf:params:xml:ns:xmpp-bind"
PADDING = "." * 60
BROKEN = (OSError, wire.Closed, miop.Closed, miop.Silence, im.wire.Ended, AssertionError,
          http.client.HTTPException, ValueError)


class NotHere(Exception):
    """The node follows, or is busy."""


class Client(threading.Thread):
    """Somebody who has a list of addresses and never gives up."""

    def __init__(self, load, name):
        super().__init__(daemon=True, name=name)
        self.load, self.refusals = load, collections.Counter()

    def run(self):
        while not self.load.over.is_set():
            for host in self.load.hosts:
                if self.load.over.is_set():
                    return
                try:
                    self.visit(host)
                except NotHere as why:
                    self.refusals[str(why)] += 1
                except BROKEN as error:
                    self.refusals[type(error).__name__] += 1
                except Exception:
                    self.load.complaints.append(traceback.format_exc())
                    raise
            self.load.over.wait(AGAIN_S)

    def visit(self, host):
        """One connection, as long as it is of use."""
        raise NotImplementedError


class Sender(Client):
    """Says numbers. All below `upto` are acknowledged, and those of `beyond`."""

    def __init__(self, load, name, rate):
        super().__init__(load, name)
        self.share = max(1, rate // TURNS)
        self.upto, self.beyond = 0, set()
        # The last answer, and the longest time without one since it was last looked at.
        self.served_s, self.waits_s, self.gap_s = 0.0, time.monotonic(), 0.0
        self.is_idle = False
        self.latencies = []

    def turns(self):
        """Numbers that are to be said now, again and again."""
        next_s = time.monotonic()
        while not self.load.over.is_set():
            if not self.load.runs.is_set() and not self.beyond and not self.unsettled():
                self.is_idle = True
                self.load.runs.wait(0.2)
                next_s = self.waits_s = time.monotonic()
                continue
            self.is_idle = False
            self.load.over.wait(max(0, next_s - time.monotonic()))
            next_s = max(next_s + 1 / TURNS, time.monotonic() - 1)
            yield [number for number in range(self.upto, self.upto + self.share)
                   if number not in self.beyond]

    def unsettled(self):
        """Whether something was begun that must be ended."""
        return False

    def acknowledged(self, number, since_s=None):
        self.beyond.add(number)
        while self.upto in self.beyond:
            self.beyond.remove(self.upto)
            self.upto += 1
        self.served_s = time.monotonic()
        self.gap_s = max(self.gap_s, self.served_s - self.waits_s)
        self.waits_s = self.served_s
        if since_s is not None:
            self.latencies.append(self.served_s - since_s)

    def text(self, number):
        return f"{self.name} {number} {PADDING}"


class Receiver(Client):
    """Counts numbers of a sender: `heard` since the last audit, all below `judged` before."""

    def __init__(self, load, sender, once):
        super().__init__(load, f"to {sender.name}")
        self.sender, self.once = sender, once
        self.heard, self.judged, self.lock = collections.Counter(), 0, threading.Lock()

    def hears(self, text):
        name, number, *_ = text.split(" ")
        if name == self.sender.name:
            with self.lock:
                self.heard[int(number)] += 1

    def collect(self):
        """At an audit: what is to be asked for."""

    def missing(self):
        with self.lock:
            return [number for number in range(self.judged, self.sender.upto)
                    if number not in self.heard]

    def judge(self):
        """Lost and doubled since the last audit."""
        lost = self.missing()
        with self.lock:
            doubled = [number for number, count in self.heard.items()
                       if self.once and (count > 1 or number < self.judged)]
            self.judged = self.sender.upto
            self.heard = collections.Counter(
                {number: count for number, count in self.heard.items() if number >= self.judged})
        return lost, doubled


# ---- MQTT ----------------------------------------------------------------------------------------

KEPT = {"session_expiry": 86400}


class MqttSender(Sender):
    """At QoS 0 a number is said once; at QoS 1 until PUBACK; at QoS 2 its session is kept, and what
    was begun in it is ended in it."""

    def __init__(self, load, name, rate, qos):
        super().__init__(load, name, rate)
        self.qos, self.has_session, self.next_id, self.ids = qos, False, 0, {}

    def unsettled(self):
        return bool(self.ids)

    def visit(self, host):
        with contextlib.closing(connected(host, self.load.ports["mqtt"])) as link:
            enter(link, self.name, self.qos == 2, self)
            for id, (number, is_received) in list(self.ids.items()):
                link.send(wire.acknowledge(wire.PUBREL, id, V5) if is_received else
                          self.publication(number, id, dup=True))
            self.settle(link)
            for numbers in self.turns():
                self.say(link, numbers)

    def publication(self, number, id, dup=False):
        return wire.publish(V5, f"load/{self.name}", self.text(number), self.qos, id=id, dup=dup)

    def say(self, link, numbers):
        began, packets = time.monotonic(), []
        for number in numbers:
            self.next_id = self.next_id % 60000 + 1
            if self.qos:
                self.ids[self.next_id] = (number, False)
            packets.append(self.publication(number, self.next_id))
        link.send(*packets)
        if self.qos:
            self.settle(link, began)
        else:
            for number in numbers:
                self.acknowledged(number)

    def settle(self, link, began=None):
        """Until nothing is begun that is not ended. At QoS 1 what a connection leaves open is a
        new message of the next."""
        try:
            while self.ids:
                answer = link.read(PATIENCE_S)
                if answer.kind == wire.DISCONNECT:
                    raise NotHere(f"DISCONNECT {answer.code:#x}")
                if answer.id not in self.ids:
                    continue
                number, _ = self.ids[answer.id]
                if answer.kind == wire.PUBCOMP:
                    del self.ids[answer.id]
                elif answer.code >= 0x80:
                    del self.ids[answer.id]
                    self.refusals[f"{answer.code:#x}"] += 1
                elif answer.kind == wire.PUBREC:
                    self.ids[answer.id] = (number, True)
                    self.acknowledged(number, began)
                    link.send(wire.acknowledge(wire.PUBREL, answer.id, V5))
                else:
                    del self.ids[answer.id]
                    self.acknowledged(number, began)
        finally:
            if self.qos < 2:
                self.ids.clear()


class MqttReceiver(Receiver):
    """A kept session that subscribes once."""

    def __init__(self, load, sender):
        super().__init__(load, sender, once=sender.qos == 2)
        self.qos, self.has_session, self.held = sender.qos, False, set()
        self.is_there = threading.Event()

    def visit(self, host):
        with contextlib.closing(connected(host, self.load.ports["mqtt"])) as link:
            enter(link, self.name.replace(" ", "-"), True, self)
            if not self.is_there.is_set():
                link.send(wire.subscribe(V5, [(f"load/{self.sender.name}", self.qos)]))
            said_s, visits = time.monotonic(), self.load.visits
            while not self.load.over.is_set() and visits == self.load.visits:
                try:
                    self.take(link, link.read(1))
                    said_s = time.monotonic()
                except TimeoutError:
                    if time.monotonic() - said_s > PATIENCE_S:
                        raise
                    link.send(wire.packet(wire.PINGREQ, 0, b""))

    def take(self, link, told):
        if told.kind == wire.DISCONNECT:
            raise NotHere(f"DISCONNECT {told.code:#x}")
        if told.kind == wire.SUBACK:
            self.is_there.set()
        elif told.kind == wire.PUBREL:
            self.held.discard(told.id)
            link.send(wire.acknowledge(wire.PUBCOMP, told.id, V5))
        elif told.kind == wire.PUBLISH:
            if told.qos < 2 or told.id not in self.held:
                self.hears(told.payload.decode())
            if told.qos == 2:
                self.held.add(told.id)
                link.send(wire.acknowledge(wire.PUBREC, told.id, V5))
            elif told.qos == 1:
                link.send(wire.acknowledge(wire.PUBACK, told.id, V5))


def connected(host, port):
    """A connection of MQTT."""
    return wire.Wire(socket_to(host, port), V5)


def socket_to(host, port):
    """A connection to a node that must accept it soon."""
    link = socket.create_connection((host, port), LOGIN_S)
    link.settimeout(LOGIN_S)
    return link


def enter(link, name, is_kept, client):
    """CONNECT. A session that is kept must be there again."""
    link.send(wire.connect(V5, name, clean=not is_kept, props=KEPT if is_kept else None))
    answer = link.read(LOGIN_S)
    if answer.kind != wire.CONNACK or answer.code:
        raise NotHere(f"CONNACK {answer.code:#x}")
    if is_kept and client.has_session and not answer.present:
        client.load.complaints.append(f"the session of {name} is gone")
    client.has_session = is_kept


# ---- MIOP ----------------------------------------------------------------------------------------


class PushSender(Sender):
    """Pushes by the API with a key each, so that asking again makes no second push."""

    # Answers that are remembered, to say more of a push that is lost.
    ANSWERS = 20_000

    def __init__(self, load, name, rate):
        super().__init__(load, name, rate)
        self.answers = collections.OrderedDict()

    def visit(self, host):
        link = http.client.HTTPConnection(host, self.load.ports["api"], timeout=LOGIN_S)
        with contextlib.closing(link):
            link.connect()
            link.request("GET", "/readyz?lead")
            answer = link.getresponse()
            answer.read()
            if answer.status != 200 or link.sock is None:
                raise NotHere(f"/readyz?lead {answer.status}")
            link.sock.settimeout(PATIENCE_S)
            for numbers in self.turns():
                for number in numbers:
                    self.push(link, number)

    def push(self, link, number):
        began = time.monotonic()
        order = {"product": PRODUCT, "device": self.name, "body": self.text(number)}
        link.request("POST", "/v1/pushes", json.dumps(order), {
            "Authorization": f"Bearer {TOKEN}", "Idempotency-Key": f"{self.name}-{number}"})
        answer = link.getresponse()
        told = json.loads(answer.read())
        if answer.status != 200:
            raise NotHere(f"push {answer.status} {told['error']['code']}")
        outcome, = told["outcomes"]
        if outcome["outcome"] not in ("stored", "delivered"):
            raise NotHere(f"push {outcome}")
        self.answers[number] = (int(told["id"]), outcome["outcome"], link.host, time.time())
        if len(self.answers) > self.ANSWERS:
            self.answers.popitem(last=False)
        self.acknowledged(number, began)


class Device(Receiver):
    """A MIOP device; it drops what has an id that it knows."""

    def __init__(self, load, sender):
        super().__init__(load, sender, once=True)
        self.known, self.is_there = collections.OrderedDict(), threading.Event()

    def visit(self, host):
        with contextlib.closing(miop.Device(socket_to(host, self.load.ports["miop"]))) as link:
            link.send(link.bind_frame(self.sender.name, PRODUCT))
            answer = link.next(LOGIN_S)
            if answer.opcode != miop.BIND_ACK or answer["result"] not in (0, miop.RESUMED):
                raise NotHere(f"BIND {answer.opcode} {answer['result']}")
            self.is_there.set()
            said_s, visits = time.monotonic(), self.load.visits
            while not self.load.over.is_set() and visits == self.load.visits:
                try:
                    self.take(link, link.next(1))
                    said_s = time.monotonic()
                except miop.Silence:
                    if time.monotonic() - said_s > PATIENCE_S:
                        raise
                    link.send_ping()

    def of_lost(self, numbers):
        """More of pushes that were lost, for whoever looks for the cause."""
        answers = [(number, self.sender.answers.get(number)) for number in numbers]
        return [(number, answer, answer is not None and self.known.get(answer[0]))
                for number, answer in answers[:3] + answers[-3:]]

    def take(self, link, frame):
        if frame.opcode in (miop.GO_AWAY, miop.REDIRECT, miop.KICK):
            raise NotHere(f"opcode {frame.opcode}")
        if frame.opcode != miop.MSG:
            return
        for record in frame.records:
            if record.id not in self.known:
                self.known[record.id] = (record.body.decode()[:20], time.time())
                if len(self.known) > 100_000:
                    self.known.popitem(last=False)
                self.hears(record.body.decode())
        link.ack(*[record.id for record in frame.records])


# ---- chat ----------------------------------------------------------------------------------------


def password(name):
    return f"secret of {name}"


def client_id(text):
    """The same for the same text."""
    return uuid.uuid5(uuid.NAMESPACE_OID, text)


class ImSender(Sender):
    """IM: with a client id, so that saying it again makes no second message."""

    def visit(self, host):
        with contextlib.closing(logged_in(host, self.load, self.name)) as link:
            for numbers in self.turns():
                self.say(link, numbers)

    def say(self, link, numbers):
        began, asked = time.monotonic(), {}
        for number in numbers:
            text, call = self.text(number), link.take_number()
            asked[call] = number
            link.ask(send={"number": call, "to": f"{self.name}.friend",
                           "client_id": client_id(text).bytes,
                           "content": {"kind": 1, "text": text}})
        while asked:
            kind, answer = link.frame()
            if kind == "sent":
                self.acknowledged(asked.pop(answer.number), began)
            elif kind == "failed":
                asked.pop(answer.number)
                self.refusals[f"failed {answer.word}"] += 1
            elif kind == "end":
                raise NotHere(f"end {answer.word}")


class XmppSender(Sender):
    """XMPP: acknowledged is what the server says it has handled (XEP-0198)."""

    def visit(self, host):
        with contextlib.closing(Stream(socket_to(host, self.load.ports["xmpp"]))) as link:
            link.log_in(self.name)
            link.socket.settimeout(PATIENCE_S)
            link.say(f"<iq type='set' id='b'><bind xmlns='{BIND}'/></iq><enable xmlns='{SM}'/>")
            link.until("<enabled ")
            handled = 0
            for numbers in self.turns():
                handled = self.say(link, numbers, handled)

    def say(self, link, numbers, handled):
        began = time.monotonic()
        link.say("".join(
            f"<message to='{self.name}.friend@localhost' type='chat' "
            f"id='{client_id(self.text(number))}'><body>{self.text(number)}</body></message>"
            for number in numbers) + f"<r xmlns='{SM}'/>")
        told, wanted = "", handled + len(numbers)
        while handled < wanted:
            told += link.until("/>")
            found = re.findall("<a [^>]*h='([0-9]+)'", told)
            if "type='error'" in told:
                raise NotHere(f"XMPP {told[-200:]}")
            for number in numbers[:max(0, int(found[-1]) - handled)] if found else ():
                self.acknowledged(number, began)
            if found:
                numbers = numbers[max(0, int(found[-1]) - handled):]
                handled, told = max(handled, int(found[-1])), ""
            elif len(numbers) and time.monotonic() - began > PATIENCE_S:
                raise TimeoutError
            else:
                link.say(f"<r xmlns='{SM}'/>")
        return handled


class Friend(Receiver):
    """Whom messages are for: pulls the inbox at an audit."""

    def __init__(self, load, sender):
        super().__init__(load, sender, once=True)
        self.after = 0

    def run(self):
        pass

    def collect(self):
        for host in self.load.hosts:
            with contextlib.suppress(NotHere, *BROKEN):
                with contextlib.closing(logged_in(host, self.load, self.name_of())) as link:
                    return self.pull(link)

    def name_of(self):
        return f"{self.sender.name}.friend"

    def pull(self, link):
        while True:
            page = link.pull(self.after, 100)
            for entry in page.entries:
                self.hears(entry.message.content.text)
            self.after = page.upto
            if page.upto >= page.head:
                return


def logged_in(host, load, name):
    """A device of IM; a node that follows refuses it."""
    with contextlib.ExitStack() as stack:
        link = im.wire.Device(socket_to(host, load.ports["im"]))
        stack.callback(link.close)
        link.ask(login={"name": name, "device": "load", "password": password(name).encode()})
        kind, answer = link.frame()
        if kind != "logged_in":
            raise NotHere(f"login {answer.word}")
        link.socket.settimeout(PATIENCE_S)
        stack.pop_all()
        return link


# ---- all of them ---------------------------------------------------------------------------------


class Load:
    """All clients. `rate`: messages a second together."""

    # Shares of the rate, in hundredths.
    SHARES = {"qos0": 30, "qos1": 25, "qos2": 15, "push": 8, "im": 14, "xmpp": 8}

    def __init__(self, hosts, ports, rate):
        self.hosts, self.ports = hosts, ports
        self.over, self.runs = threading.Event(), threading.Event()
        self.complaints, self.visits = [], 0
        each = {kind: max(TURNS, rate * share // 100) for kind, share in self.SHARES.items()}
        self.senders = [
            *(MqttSender(self, f"qos{qos}", each[f"qos{qos}"], qos) for qos in range(3)),
            PushSender(self, "push", each["push"]), ImSender(self, "im", each["im"]),
            XmppSender(self, "xmpp", each["xmpp"])]
        kinds = {PushSender: Device, ImSender: Friend, XmppSender: Friend}
        self.receivers = [kinds.get(type(sender), MqttReceiver)(self, sender)
                          for sender in self.senders]

    def accounts(self):
        """Names that need a password."""
        return [name for kind in ("im", "xmpp") for name in (kind, f"{kind}.friend")]

    def start(self, wait):
        """`wait`: polls a question. Receivers are there before the first word."""
        im.wire.schema()
        for receiver in self.receivers:
            receiver.start()
        there = [it.is_there for it in self.receivers if hasattr(it, "is_there")]
        wait(lambda: all(it.is_set() for it in there), "all receivers are there")
        self.runs.set()
        for sender in self.senders:
            sender.start()

    def served_since(self, at_s):
        """Whether every sender has had an answer since."""
        return all(sender.served_s > at_s for sender in self.senders if sender.name != "qos0")

    def watch(self):
        """The longest time without an answer is looked for from now on."""
        for sender in self.senders:
            sender.gap_s = 0.0

    def longest_gap(self):
        """The longest time that a sender waited for an answer since `watch`."""
        return max(sender.gap_s for sender in self.senders if sender.name != "qos0")

    def behind(self, at_s):
        return [sender.name for sender in self.senders
                if sender.name != "qos0" and sender.served_s <= at_s]

    def sent(self):
        return sum(sender.upto for sender in self.senders)

    def audit(self, wait):
        """Lost and doubled since the last audit: {name: numbers}, nothing if all is well."""
        self.runs.clear()
        wait(lambda: all(sender.is_idle for sender in self.senders if sender.name != "qos0"),
             "all that was begun is acknowledged")

        def arrived():
            for receiver in self.receivers:
                if receiver.sender.name != "qos0" and receiver.missing():
                    receiver.collect()
            return not any(receiver.missing() for receiver in self.receivers
                           if receiver.sender.name != "qos0")
        found = {}
        try:
            wait(arrived, "all that was acknowledged arrives")
        except AssertionError:
            late = {receiver.sender.name: receiver.missing() for receiver in self.receivers
                    if receiver.sender.name != "qos0"}
            # What waits for a receiver, and is not sent, comes with its next connection.
            self.visits += 1
            with contextlib.suppress(AssertionError):
                wait(arrived, "all that was acknowledged arrives at new connections")
            found.update({f"{name} late": ranges(numbers) for name, numbers in late.items()
                          if numbers})
        for receiver in self.receivers:
            if receiver.sender.name == "qos0":
                receiver.judge()
                continue
            lost, doubled = receiver.judge()
            if lost:
                found[f"{receiver.sender.name} lost"] = ranges(lost)
                if isinstance(receiver, Device):
                    found[f"{receiver.sender.name} answers"] = receiver.of_lost(lost)
            if doubled:
                found[f"{receiver.sender.name} doubled"] = ranges(doubled)
        if self.complaints:
            found["complaints"], self.complaints = self.complaints, []
        return found

    def go_on(self):
        self.runs.set()

    def refusals(self):
        return {client.name: dict(client.refusals)
                for client in [*self.senders, *self.receivers] if client.refusals}

    def close(self):
        self.over.set()
        self.runs.set()
        for client in [*self.senders, *self.receivers]:
            if client.is_alive():
                client.join(20)


def ranges(numbers):
    """Numbers as text: `3-5, 9`."""
    told, numbers = [], sorted(numbers)
    while numbers:
        first = last = numbers.pop(0)
        while numbers and numbers[0] == last + 1:
            last = numbers.pop(0)
        told.append(f"{first}-{last}" if last > first else f"{first}")
    return ", ".join(told[:20]) + (f" and {len(told) - 20} more" if len(told) > 20 else "")

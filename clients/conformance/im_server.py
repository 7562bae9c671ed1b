"""Scenarios of IM against a running server: what a script may have got wrong.

The server is started as the end-to-end tests start theirs (tests/e2e/fixture.py).
"""

import contextlib
import os
import socket
import sys

import im_wire as wire
import scenarios
from im_stage import number
from scenarios import check, equal
from stage import DEADLINE_S, Failure

E2E = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "e2e")
NAME = "chat.example"


class Real:
    """The server, with a TLS listener."""

    def __init__(self, server, pair):
        self.server, self.pair, self.count = server, pair, 0

    def account(self, name):
        """A new account with a password: its name."""
        self.count += 1
        name = f"{name}-{self.count}"
        self.server.ask("PUT", f"/v1/users/{name}", {"password": f"secret of {name}"})
        return name

    def address(self, listener="any"):
        return "%s:%d" % self.server.ports[listener]


@contextlib.contextmanager
def running(binary, certificates):
    """A server of this binary; None without one."""
    if not binary:
        yield None
        return
    os.environ["HOLDLINE_E2E_BINARY"] = os.path.abspath(binary)
    sys.path.insert(0, E2E)
    import fixture
    pair = certificates.server(NAME)
    server = fixture.Server({
        "tls": {"certificate": pair[0], "key": pair[1]},
        "listen.ims": {"address": "127.0.0.1:0", "protocol": "im", "tls": True},
    })
    try:
        yield Real(server, pair)
    finally:
        server.close()


class Peer:
    """Somebody else, who speaks IM by the suite's codec."""

    def __init__(self, stage, name, device="desk"):
        address = stage.real.address().rsplit(":", 1)
        self.stream = socket.create_connection((address[0], int(address[1])), DEADLINE_S)
        stage.exits.callback(self.stream.close)
        self.buffer, self.number = b"", 0
        self.stream.sendall(wire.PREFACE + wire.request(
            "login", name=name, device=device, password=f"secret of {name}".encode()))
        self.next("logged_in")

    def next(self, name):
        """The next answer of this name, past others."""
        while True:
            found = wire.read_answer(self.buffer)
            if found is None:
                data = self.stream.recv(65536)
                if not data:
                    raise Failure(f"the server closed before {name}")
                self.buffer += data
                continue
            (kind, fields), length = found
            self.buffer = self.buffer[length:]
            if kind == name:
                return fields

    def ask(self, name, answer, /, **fields):
        self.number += 1
        self.stream.sendall(wire.request(name, number=self.number, **fields))
        return self.next(answer)

    def send(self, to, text):
        return self.ask("send", "sent", to=to, client_id=os.urandom(16),
                        content={"kind": 1, "text": text})

    def texts(self):
        page = self.ask("pull", "page", after=0, count=100)
        return [entry["message"]["content"]["text"] for entry in page["entries"]]


def _open(stage, account, **options):
    stage.open(addresses=[stage.real.address()], account=account,
               **{"password": f"secret of {account}", **options})


def a_password_is_accepted_and_a_wrong_one_refused(stage):
    account = stage.real.account("ann")
    _open(stage, account)
    stage.driver.state("online", account=f"{account}@localhost")
    stage.kill()
    _open(stage, account, password="wrong")
    stage.driver.state("ended", why="bad_credentials")


def a_login_token_is_accepted(stage):
    account = stage.real.account("ann")
    token = Peer(stage, account, "phone").ask("token", "token")["token"]
    _open(stage, account, password=None, login_token=token)
    stage.driver.state("online")


def messages_are_stored_and_come_back_in_order(stage):
    ann, bob = stage.real.account("ann"), stage.real.account("bob")
    peer = Peer(stage, bob)
    _open(stage, ann)
    stage.driver.state("online")
    for at in range(5):
        stage.driver.ask("send", to=bob, text=f"to bob {at}")
    for _ in range(5):
        stage.driver.event("sent")
    equal(peer.texts(), [f"to bob {at}" for at in range(5)], "bob has them")
    expected = [f"to ann {at}" for at in range(150)]
    for text in expected:
        peer.send(ann, text)
    got = [stage.driver.event("message")["text"] for _ in expected]
    equal(got, expected, "each once, in order")
    # In a new process what comes next is what was not acknowledged.
    state = stage.kill()
    peer.send(ann, "later")
    _open(stage, ann, state=state)
    equal(stage.driver.event("message")["text"], "later", "and no other")


def history_is_read_and_refused(stage):
    ann, bob = stage.real.account("ann"), stage.real.account("bob")
    peer = Peer(stage, bob)
    for at in range(3):
        peer.send(ann, f"text {at}")
    _open(stage, ann)
    stage.driver.state("online")
    stage.driver.ask("history", count=2, **{"with": bob})
    stage.driver.event("history", texts=["text 1", "text 2"], more=True)
    stage.driver.ask("history", count=2, **{"with": "nobody@conference.localhost"})
    check("error" in stage.driver.event("history"), "no such group")


def a_message_to_nobody_is_given_up(stage):
    account = stage.real.account("ann")
    _open(stage, account)
    stage.driver.state("online")
    client_id = stage.driver.ask("send", to="nobody@conference.localhost", text="hi")["client_id"]
    event = stage.driver.event("failed", client_id=client_id)
    check(number("Fault", event["why"]) > 0, "a fault of the protocol")


def a_newer_connection_takes_over(stage):
    account = stage.real.account("ann")
    _open(stage, account)
    stage.driver.state("online")
    Peer(stage, account, "phone")
    stage.driver.state("ended", why="taken_over")


def a_session_is_closed_and_begun_again(stage):
    account = stage.real.account("ann")
    _open(stage, account)
    stage.driver.state("online")
    stage.driver.ask("close")
    stage.driver.state("ended", why="closed")
    state = stage.kill()
    _open(stage, account, state=state)
    stage.driver.state("online")


def tls_with_a_pinned_key(stage):
    account = stage.real.account("ann")
    tls = {"ca": stage.certificates.authority()[0], "name": NAME}
    pin = scenarios._pin(stage, stage.real.pair[0])
    for pins, state in (([pin], "online"), (["sha256/" + "A" * 43 + "="], "waiting")):
        stage.open(addresses=[stage.real.address("ims")], account=account,
                   password=f"secret of {account}", tls={**tls, "pins": pins})
        stage.driver.state(state)
        stage.kill()


NEEDS = {"pins": [tls_with_a_pinned_key]}

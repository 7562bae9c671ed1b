"""The scenarios of IM: each plays a server against a library and says by its name what it proves.

`random()` of the client is 0.5 throughout, so that the back-off is 500, 1000, 2000 ms and so on.
"""

import im_wire as wire
import scenarios
import streams
from im_stage import (LIMITS, PASSWORD, TOKEN, Scram, entry, failed, live, message, page, sent,
                      token_mac)
from scenarios import (a_failed_connection_says_why_in_the_systems_words,
                       a_failed_verification_says_why_in_the_librarys_words,
                       a_good_session_resets_the_back_off, addresses_are_tried_in_turn,
                       back_off_doubles_up_to_a_minute, check, equal,
                       http_connect_that_refuses_is_a_failed_connection,
                       socks5_that_refuses_is_a_failed_connection)
from stage import Failure

MANUAL = {"acknowledge": "manual"}


# ---- login ---------------------------------------------------------------------------------------


def the_preface_and_a_login_are_sent_at_once(stage):
    stage.open(silence_s=45)
    login = stage.login().login
    equal((login["name"], login["device"], login["silence_s"]), ("ann", "phone", 45), "the login")
    equal((login["password"], login["method"], login["data"]), (b"", "", b""), "no proof")


def online_tells_the_account(stage):
    stage.open()
    link = stage.server.accept()
    link.expect("login")
    link.send(stage.logged_in())
    stage.driver.state("online", account="ann@a.example")


def _scram(stage, link, password=PASSWORD):
    """The server's side up to its last word."""
    login = link.expect("login")
    equal((login["method"], login["password"]), ("SCRAM-SHA-256", b""), "the method")
    scram = Scram(login["data"], password)
    equal(scram.name, "ann", "the name")
    link.send(wire.frame("challenge", data=scram.challenge.encode()))
    return scram.signature(link.expect("proceed")["data"])


def a_password_is_proved_and_not_shown(stage):
    stage.open(password=PASSWORD)
    link = stage.server.accept()
    link.send(stage.logged_in(data=_scram(stage, link).encode()))
    stage.driver.state("online")


def each_proof_has_a_new_nonce(stage):
    stage.open(password=PASSWORD)
    nonces = set()
    for _ in range(3):
        link = stage.server.accept()
        nonces.add(Scram(link.expect("login")["data"]).nonce)
        link.end()
        stage.come_back()
    equal(len(nonces), 3, "different nonces")


def a_server_that_does_not_know_the_password_is_left(stage):
    for proof in (b"v=AAAA", b""):
        stage.open(password=PASSWORD)
        link = stage.server.accept()
        _scram(stage, link)
        link.send(stage.logged_in(data=proof))
        stage.driver.state("ended", why="server_not_proved")
        stage.kill()


def a_challenge_to_another_nonce_is_not_answered(stage):
    stage.open(password=PASSWORD)
    link = stage.server.accept()
    link.expect("login")
    link.send(wire.frame("challenge", data=b"r=other,s=c2FsdA==,i=4096"))
    equal(link.until_closed(), [], "no answer")
    stage.driver.state("ended", why="server_not_proved")


def a_server_without_the_method_gets_the_password_of_this_machine(stage):
    stage.open(password=PASSWORD)
    stage.refuse("bad_method")
    login = stage.login().login
    equal((login["method"], login["password"]), ("", PASSWORD.encode()), "the password")
    equal(stage.now, 0, "at once")


def a_token_is_sent_as_the_password(stage):
    stage.open(token="open sesame")
    equal(stage.login().login["password"], b"open sesame", "the token")


def a_login_token_is_proved_and_not_shown(stage):
    stage.open(login_token=TOKEN)
    link = stage.server.accept()
    login = link.expect("login")
    equal((login["method"], login["data"]),
          ("HT-SHA-256-NONE", b"ann\0" + token_mac(b"Initiator")), "the proof")
    link.send(stage.logged_in(data=token_mac(b"Responder")))
    stage.driver.state("online")
    link.end()
    stage.come_back()
    link = stage.server.accept()
    link.expect("login")
    link.send(stage.logged_in(data=token_mac(b"Initiator")))
    stage.driver.state("ended", why="server_not_proved")


def _is_left_at(stage, link, ms):
    """The client waits for an answer until this time, and leaves the connection then."""
    stage.time(ms - 1)
    equal(link.arrived(), [], "it waits")
    stage.time(ms)
    link.until_closed()
    stage.driver.state("waiting", why="timed_out")


def a_server_that_does_not_answer_the_login_is_left(stage):
    stage.open()
    link = stage.server.accept()
    link.expect("login")
    equal(stage.settle(), 20_000, "the time of the answer")
    _is_left_at(stage, link, 20_000)


# ---- ends, back-off, addresses -------------------------------------------------------------------


def a_lasting_refusal_ends_the_client(stage):
    for reason in ("bad_credentials", "not_authorized", "name_invalid", "bad_method", "malformed",
                   "too_large", "out_of_order", "unknown_version", "expired"):
        stage.open()
        stage.refuse(reason)
        stage.driver.state("ended", why=reason)
        equal(stage.settle(), None, "no timer is left")
        check(stage.server.is_quiet(), "it does not come back")
        stage.kill()


def other_refusals_are_come_back_from(stage):
    for reason in ("unspecified", "unavailable", "busy", "full", "quota", "rate", "banned",
                   "shutting_down", "store_full", "store_failed", "login_timeout"):
        stage.open()
        stage.refuse(reason)
        equal(stage.driver.state("waiting", why=reason)["until"], 500, "the back-off")
        stage.kill()


def an_unknown_reason_is_come_back_from(stage):
    stage.open()
    link = stage.server.accept()
    link.expect("login")
    link.send(wire.frame("refused", reason=99, word="of a later version"))
    stage.driver.state("waiting", why="unspecified")


def a_newer_connection_or_an_operator_ends_the_client(stage):
    for reason in ("taken_over", "admin_kick"):
        stage.open()
        link = stage.login()
        link.send(wire.frame("end", reason=wire.ENUMS["Reason"][f"REASON_{reason.upper()}"]))
        stage.driver.state("ended", why=reason)
        link.until_closed()
        stage.kill()


def a_full_server_refuses_before_the_login(stage):
    for _ in range(20):
        stage.open()
        link = stage.server.accept()
        link.send(wire.frame("refused", reason=7, retry_after_ms=2_500))
        link.end()
        equal(stage.driver.state("waiting", why="full")["until"], 3_000, "the server's time")
        stage.kill()


def the_servers_time_is_waited_out_and_spread(stage):
    stage.open()
    stage.refuse("busy", retry_after_ms=2_500)
    equal(stage.driver.state("waiting")["until"], 3_000, "the hint, and half a second of a second")
    stage.time(2_999)
    check(stage.server.is_quiet(), "not before its time")
    stage.time(3_000)
    link = stage.login()
    link.send(wire.frame("end", reason=13, retry_after_ms=4_000))
    equal(stage.driver.state("waiting", why="shutting_down")["until"], 8_000, "an End's, too")


def a_hint_above_an_hour_is_an_hour(stage):
    stage.open()
    stage.refuse("busy", retry_after_ms=2**32 - 1)
    equal(stage.driver.state("waiting")["until"], 3_600_500, "the wait")


def another_server_is_used_at_once(stage):
    other = stage.listen()
    stage.open()
    stage.refuse("use_another", server_=other.address)
    link = stage.login(other)
    equal(stage.now, 0, "without a wait")
    link.send(wire.frame("end", reason=12, server=stage.server.address))
    stage.login()
    equal(stage.now, 0, "by an End, too")


def a_server_that_names_no_other_gets_the_back_off(stage):
    other = stage.listen()
    stage.open(addresses=[stage.server.address, other.address])
    stage.refuse("use_another")
    equal(stage.come_back()["until"], 500, "the back-off")
    stage.login(other)


def after_the_named_server_the_configured_one_is_tried(stage):
    stage.open()
    stage.refuse("moved", server_=stage.closed_port())
    stage.come_back()
    stage.login()


def two_servers_that_name_each_other_get_the_back_off(stage):
    other = stage.listen()
    stage.open()
    servers = [stage.server, other] * 2
    for at, server in enumerate(servers):
        stage.refuse("use_another", server, server_=servers[(at + 1) % 4].address)
    equal(stage.driver.state("waiting", why="use_another")["until"], 500, "after three")


def a_nudge_ends_the_wait_but_not_the_servers(stage):
    stage.open()
    stage.login().end()
    stage.driver.state("waiting")
    stage.driver.ask("nudge")
    link = stage.login()
    equal(stage.now, 0, "at once")
    link.send(wire.frame("end", reason=6, retry_after_ms=9_000))
    stage.driver.state("waiting")
    stage.driver.ask("nudge")
    stage.settle()
    check(stage.server.is_quiet(), "not before the server's time")
    stage.time(9_000)
    stage.driver.ask("nudge")
    stage.login()


# ---- the inbox -----------------------------------------------------------------------------------


def a_message_is_handed_out_and_acknowledged(stage):
    stage.open()
    link = stage.login(head=4)
    link.send(wire.frame("message", **entry(5, text="hello")))
    stage.driver.event("message", seq=5, id="1005", to="ann@a.example", text="hello",
                       client_id=(5).to_bytes(16, "big").hex(), **{"from": "bob@a.example"})
    stage.handled("message")
    stage.time(999)
    equal(link.arrived(), [], "others may follow")
    stage.time(1_000)
    equal(link.expect("acknowledge")["upto"], 5, "acknowledged")


def thirty_two_entries_are_acknowledged_at_once(stage):
    stage.open()
    link = stage.login()
    link.send(live(*range(1, 33)))
    equal(link.expect("acknowledge")["upto"], 32, "without waiting for the second")
    stage.handled("message", 32)
    equal(stage.places(), list(range(1, 33)), "in order")


def the_inbox_is_pulled_from_the_cursor_to_the_head(stage):
    stage.open()
    link = stage.login(head=20, cursor=10)
    pull = link.expect("pull")
    equal((pull["after"], pull["count"]), (10, LIMITS["page_messages_max"]), "the first page")
    link.send(page(pull, [entry(11), entry(12)], upto=14, head=20))
    pull = link.expect("pull")
    equal(pull["after"], 14, "where the page ends")
    link.send(page(pull, [entry(15), entry(20)], upto=20, head=20))
    stage.handled("page", 2)
    equal(stage.places(), [11, 12, 15, 20], "handed out")
    stage.pass_(1_000)
    equal(link.expect("acknowledge")["upto"], 20, "all of it")
    link.send(live(21))
    stage.handled("message")
    equal(stage.places(), [21], "from now on they come by themselves")
    equal(link.arrived(), [], "no further pull")


def messages_and_events_are_handed_out_in_the_order_of_the_inbox(stage):
    stage.open()
    link = stage.login(head=3, cursor=0)
    link.send(page(link.expect("pull"), [entry(1), entry(3)], upto=3, head=3,
                   events=[{"seq": 2, "with": "bob@a.example", "read": 1}]))
    stage.handled("page")
    link.send(wire.frame("event", seq=4, peer_read=2, **{"with": "bob@a.example"}))
    stage.handled("event")
    equal(stage.places(), [1, 2, 3, 4], "in order")


def a_gap_is_pulled(stage):
    stage.open()
    link = stage.login()
    link.send(live(1, 3))
    pull = link.expect("pull")
    equal(pull["after"], 1, "from the last place")
    stage.handled("message", 2)
    equal(stage.places(), [1], "not out of order")
    link.send(page(pull, [entry(2), entry(3)], upto=3, head=3))
    stage.handled("page")
    equal(stage.places(), [2, 3], "each once")


def a_notify_is_pulled(stage):
    stage.open()
    link = stage.login()
    link.send(wire.frame("notify", head=2))
    pull = link.expect("pull")
    equal(pull["after"], 0, "from the last place")
    link.send(page(pull, [entry(1), entry(2)], upto=2, head=2))
    stage.handled("page")
    equal(stage.places(), [1, 2], "handed out")


def a_repeated_message_is_handed_out_once(stage):
    stage.open()
    link = stage.login()
    link.send(live(1, 2), live(2), live(1), live(3))
    stage.handled("message", 5)
    equal(stage.places(), [1, 2, 3], "each once")
    equal(link.arrived(), [], "and nothing is pulled")


def a_failed_pull_is_repeated(stage):
    stage.open()
    link = stage.login(head=1, cursor=0)
    link.send(failed(link.expect("pull"), "busy"))
    stage.handled("failed")
    equal(stage.settle(), 1_000, "a second later")
    stage.time(1_000)
    equal(link.expect("pull")["after"], 0, "again")


def what_was_acknowledged_does_not_come_again_in_a_new_process(stage):
    stage.open()
    link = stage.login()
    link.send(live(1, 2))
    stage.handled("message", 2)
    stage.open(state=stage.kill())
    # The server has not heard of it.
    link = stage.login(head=3, cursor=0)
    equal(link.expect("acknowledge")["upto"], 2, "told at once")
    equal(link.expect("pull")["after"], 2, "from there on")


def an_inbox_that_ends_before_the_known_place_is_another_one(stage):
    stage.open()
    link = stage.login()
    link.send(live(1, 2, 3))
    stage.handled("message", 3)
    stage.open(state=stage.kill())
    link = stage.login(head=2, cursor=1)
    equal(link.expect("pull")["after"], 1, "from the server's cursor")


def the_application_acknowledges_when_it_has_stored(stage):
    stage.open(**MANUAL)
    link = stage.login()
    link.send(live(1, 2, 3))
    stage.handled("message", 3)
    stage.pass_(2_000)
    equal(link.arrived(), [], "the application has not said so")
    stage.driver.ask("acknowledge", seq=2)
    stage.pass_(2_000)
    equal(link.arrived(), [], "1 is missing")
    stage.driver.ask("acknowledge", seq=1)
    stage.pass_(2_000)
    equal(link.expect("acknowledge")["upto"], 2, "up to the first that is missing")
    equal(stage.places(), [1, 2, 3], "handed out")
    stage.open(state=stage.kill(), **MANUAL)
    link = stage.login(head=3, cursor=2)
    link.send(page(link.expect("pull"), [entry(3)], upto=3, head=3))
    stage.handled("page")
    equal(stage.places(), [3], "the others come again in a new process")


def what_the_application_holds_is_not_handed_out_again(stage):
    stage.open(**MANUAL)
    link = stage.login()
    link.send(live(1))
    stage.handled("message")
    link.end()
    stage.come_back()
    link = stage.login(head=2, cursor=0)
    link.send(page(link.expect("pull"), [entry(2)], upto=2, head=2))
    stage.handled("page")
    equal(stage.places(), [1, 2], "each once")
    stage.driver.ask("acknowledge", seq=1)
    stage.driver.ask("acknowledge", seq=2)
    stage.pass_(1_000)
    equal(link.expect("acknowledge")["upto"], 2, "both")


def an_application_that_holds_much_gets_no_more(stage):
    stage.open(**MANUAL)
    link = stage.login()
    link.send(live(*range(1, 259)))
    stage.handled("message", 258)
    equal(stage.places(), list(range(1, 257)), "256 at most")
    stage.pass_(2_000)
    equal(link.arrived(), [], "and does not pull the others yet")
    stage.driver.ask("acknowledge", seq=1)
    equal(link.expect("pull")["after"], 256, "now it does")


def an_unknown_answer_is_skipped(stage):
    stage.open()
    link = stage.login()
    link.send(bytes.fromhex("05fa06020801"), live(1))
    stage.driver.event("message", seq=1)
    equal(link.arrived(), [], "without an answer")


# ---- sending -------------------------------------------------------------------------------------


def a_message_is_sent_and_stored(stage):
    stage.open()
    link = stage.login()
    client_id = stage.driver.ask("send", to="bob", text="hello")["client_id"]
    send = link.expect("send")
    equal((send["to"], send["client_id"].hex()), ("bob", client_id), "to whom, and its id")
    equal(send["content"]["text"], "hello", "the text")
    check(send["content"]["kind"] in (0, 1), "a text")
    link.send(sent(send, seq=3))
    stage.driver.event("sent", client_id=client_id, id="7003", seq=3)


def messages_wait_for_a_connection_and_outlive_the_process(stage):
    stage.open(addresses=[stage.closed_port()])
    client_id = stage.driver.ask("send", to="bob", text="hello")["client_id"]
    stage.open(state=stage.kill())
    link = stage.login()
    send = link.expect("send")
    equal((send["client_id"].hex(), send["content"]["text"]), (client_id, "hello"), "the same")
    link.send(sent(send))
    stage.driver.event("sent", client_id=client_id)
    stage.settle()
    stage.open(state=stage.kill())
    link = stage.login()
    stage.settle()
    equal(link.arrived(), [], "once it is stored it is not sent again")


def a_message_without_an_answer_is_sent_again_with_its_id(stage):
    stage.open()
    link = stage.login()
    client_id = stage.driver.ask("send", to="bob", text="hello")["client_id"]
    link.expect("send")
    link.end()
    stage.come_back()
    link = stage.login()
    send = link.expect("send")
    equal(send["client_id"].hex(), client_id, "the same id")
    link.send(sent(send, again=True))
    stage.handled("sent")
    equal(len(stage.told("sent")), 1, "told once")


def a_page_with_the_own_message_is_an_answer_to_it(stage):
    stage.open()
    link = stage.login()
    client_id = stage.driver.ask("send", to="bob", text="hello")["client_id"]
    link.expect("send")
    link.end()
    stage.come_back()
    link = stage.login(head=1, cursor=0)
    own = {"from_": "ann@a.example", "to": "bob@a.example", "device": "phone"}
    pull = link.expect("pull")
    link.expect("send")
    link.send(page(pull, [entry(1, client_id=bytes.fromhex(client_id), **own)], 1, 1))
    stage.driver.event("sent", client_id=client_id, seq=1)
    stage.handled("page")
    equal(stage.places(), [], "it is no news")
    link.end()
    stage.come_back()
    link = stage.login(head=1, cursor=1)
    stage.settle()
    equal(link.arrived(), [], "it waits no more")


def own_messages_leave_no_gap(stage):
    stage.open()
    link = stage.login()
    stage.driver.ask("send", to="bob", text="hello")
    link.send(sent(link.expect("send")), live(2))
    stage.driver.event("message", seq=2)
    stage.handled("message")
    equal(link.arrived(), [], "place 1 is the own message, and nothing is pulled")


def messages_of_one_conversation_keep_their_order(stage):
    stage.open()
    link = stage.login()
    for to in ("bob", "bob@a.example", "carol", "bob"):
        stage.driver.ask("send", to=to, text=to)
    first, other = link.expect("send"), link.expect("send")
    equal((first["to"], other["to"]), ("bob", "carol"), "one of a conversation at a time")
    stage.settle()
    equal(link.arrived(), [], "the others wait")
    link.send(sent(first, 1))
    second = link.expect("send")
    equal(second["to"], "bob@a.example", "the next of the same conversation")
    link.send(failed(second, "blocked"))
    equal(link.expect("send")["to"], "bob", "the next, when that one is given up")


def a_message_that_the_server_cannot_take_now_is_sent_again(stage):
    stage.open()
    link = stage.login()
    stage.driver.ask("send", to="bob", text="hello")
    for fault, wait, hint in (("busy", 1_000, 0), ("store_full", 2_000, 0),
                              ("rate_limited", 10_000, 10_000), ("store_failed", 8_000, 0)):
        send = link.expect("send")
        link.send(failed(send, fault, retry_after_ms=hint))
        stage.handled("failed")
        stage.pass_(wait - 1)
        equal(link.arrived(), [], "not before its time")
        stage.pass_(1)
    equal(link.expect("send")["client_id"], send["client_id"], "the same")


def a_message_that_is_refused_is_given_up(stage):
    stage.open()
    link = stage.login()
    client_id = stage.driver.ask("send", to="bob", text="hello")["client_id"]
    link.send(failed(link.expect("send"), "rejected", reason="no spam"))
    stage.driver.event("failed", client_id=client_id, why="rejected")
    link.end()
    stage.come_back()
    link = stage.login()
    stage.settle()
    equal(link.arrived(), [], "it is not sent again")


def a_message_that_is_too_large_for_the_server_is_given_up(stage):
    stage.open()
    large = stage.driver.ask("send", to="bob", text="x" * 1_001)["client_id"]
    link = stage.login()
    stage.driver.event("failed", client_id=large, why="too_large")
    small = stage.driver.ask("send", to="bob", text="x" * 1_000)["client_id"]
    equal(link.expect("send")["client_id"].hex(), small, "the other one is sent")


def the_queue_is_bounded(stage):
    stage.open(addresses=[stage.closed_port()])
    for _ in range(256):
        stage.driver.ask("send", to="bob", text="x")
    equal(stage.driver.attempt("send", to="bob", text="x").get("error"), "queue_full", "257")
    stage.kill()
    stage.open(addresses=[stage.closed_port()])
    stage.driver.ask("send", to="bob", text="x" * 2**20)
    equal(stage.driver.attempt("send", to="bob", text="x").get("error"), "queue_full", "1 MiB")


def a_device_that_the_server_would_refuse_makes_no_client(stage):
    scenarios._is_refused(stage, "x" * 65, device="x" * 65)
    stage.open(device="x" * 64)
    stage.login()


def the_state_of_another_account_is_not_used(stage):
    stage.open()
    link = stage.login(head=3)
    stage.driver.ask("send", to="bob", text="of ann")
    link.expect("send")
    stage.open(state=stage.kill(), account="carol")
    link = stage.login(account="carol@example.org", head=3, cursor=3)
    stage.driver.ask("send", to="bob", text="of carol")
    equal(link.expect("send")["content"]["text"], "of carol", "nothing of ann's is sent")


def a_client_id_is_queued_once(stage):
    stage.open(addresses=[stage.closed_port()])
    name = "0123456789abcdef" * 2
    for _ in range(2):
        stage.driver.ask("send", to="bob", text="hello", client_id=name)
    stage.open(state=stage.kill())
    link = stage.login()
    link.send(sent(link.expect("send")))
    stage.driver.event("sent", client_id=name)
    stage.settle()
    equal(link.arrived(), [], "once")


def the_servers_window_is_kept(stage):
    stage.open(addresses=[stage.closed_port()])
    for at in range(20):
        stage.driver.ask("send", to=f"friend-{at}", text="hello")
    stage.open(state=stage.kill())
    link = stage.login(requests_max=8)
    first = link.expect("send")
    stage.settle()
    check(len(link.arrived()) < 8, "no more than the server allows")
    link.send(sent(first))
    link.expect("send")


# ---- requests ------------------------------------------------------------------------------------


def history_is_answered(stage):
    stage.open()
    link = stage.login()
    ask = stage.driver.ask("history", count=2, **{"with": "bob"})["ask"]
    history = link.expect("history")
    equal((history["with"], history["count"], history["backwards"]), ("bob", 2, True), "the ask")
    link.send(wire.frame("history", number=history["number"], more=True,
                         messages=[message(9), message(8)]))
    stage.driver.event("history", ask=ask, texts=["text 8", "text 9"], more=True)


def a_refused_request_fails_with_the_servers_word(stage):
    stage.open()
    link = stage.login()
    ask = stage.driver.ask("history", count=2, **{"with": "group"})["ask"]
    link.send(failed(link.expect("history"), "not_member"))
    stage.driver.event("history", ask=ask, error="not_member")


def a_request_fails_with_its_connection(stage):
    stage.open()
    link = stage.login()
    ask = stage.driver.ask("history", count=2, **{"with": "bob"})["ask"]
    link.expect("history")
    link.end()
    stage.driver.event("history", ask=ask, error="disconnected")
    ask = stage.driver.ask("history", count=2, **{"with": "bob"})["ask"]
    stage.driver.event("history", ask=ask, error="disconnected")


# ---- the connection ------------------------------------------------------------------------------


def a_silent_client_pings(stage):
    stage.open()
    link = stage.login(silence_s=60)
    stage.time(59_999)
    equal(link.arrived(), [], "not before")
    stage.time(60_000)
    link.expect("ping")
    link.send(wire.frame("pong"))
    stage.handled("pong")
    equal(stage.settle(), 120_000, "the next one")


def what_the_client_says_puts_the_ping_off(stage):
    stage.open()
    link = stage.login(silence_s=60)
    stage.time(30_000)
    stage.driver.ask("send", to="bob", text="hello")
    link.send(sent(link.expect("send")))
    stage.handled("sent")
    stage.time(89_999)
    equal(link.arrived(), [], "sixty seconds after that")
    stage.time(90_000)
    link.expect("ping")


def a_dead_connection_is_left(stage):
    stage.open()
    link = stage.login(silence_s=60)
    stage.time(60_000)
    link.expect("ping")
    _is_left_at(stage, link, 90_000)


def any_frame_shows_that_the_server_is_there(stage):
    stage.open()
    link = stage.login(silence_s=60)
    stage.time(60_000)
    link.expect("ping")
    link.send(live(1))
    stage.handled("message")
    stage.time(90_000)
    stage.time(119_000)
    check(all(one.name == "acknowledge" for one in link.arrived()), "it stays")


def a_nudge_asks_whether_the_connection_lives(stage):
    stage.open()
    link = stage.login()
    stage.driver.ask("nudge")
    link.expect("ping")
    stage.time(9_999)
    equal(link.arrived(), [], "it waits")
    stage.time(10_000)
    link.until_closed()
    stage.driver.state("waiting", why="timed_out")


def _answer_pings(stage, link, count):
    """The intervals between Pings, each answered at once."""
    intervals = []
    for _ in range(count):
        before = stage.now
        stage.time(stage.settle())
        link.expect("ping")
        intervals.append((stage.now - before) // 1000)
        link.send(wire.frame("pong"))
        stage.handled("pong")
    return intervals


def an_idle_client_wakes_for_its_ping_alone(stage):
    for silence_s, pings in ((300, 12), (1800, 2)):
        stage.open()
        link = stage.login(silence_s=silence_s)

        def answer(link=link):
            link.send(wire.frame("pong"))
            stage.handled("pong")

        hours = stage.idle_hours(link, wire.request("ping"), answer)
        equal(hours[2:], [pings] * 22, f"Pings an hour, with a silence of {silence_s} s")
        stage.kill()


def _die(stage, link):
    """The next Ping is not answered."""
    stage.time(stage.settle())
    link.expect("ping")
    stage.pass_(30_000)
    link.until_closed()
    stage.come_back()


def the_heartbeat_grows_while_the_network_allows(stage):
    stage.open()
    link = stage.login(silence_s=600)
    equal(_answer_pings(stage, link, 10),
          [120, 120, 180, 180, 270, 270, 405, 405, 600, 600], "the intervals")


def the_longest_interval_that_a_network_allows_is_found_and_remembered(stage):
    stage.open()
    link, intervals = stage.login(silence_s=1800), []
    nat_s = 300  # this network forgets connections that are silent for so long
    for _ in range(40):
        before = stage.now
        stage.time(stage.settle())
        link.expect("ping")
        intervals.append((stage.now - before) // 1000)
        if intervals[-1] < nat_s:
            link.send(wire.frame("pong"))
            stage.handled("pong")
            continue
        stage.pass_(30_000)
        link.until_closed()
        stage.come_back()
        link = stage.login(silence_s=1800)
    settled = intervals[-1]
    check(nat_s * 7 // 8 <= settled < nat_s, f"it settles below {nat_s}: {intervals}")
    lost = sum(interval >= nat_s for interval in intervals)
    check(lost <= 4, f"{lost} connections were lost to find it: {intervals}")
    stage.open(state=stage.kill())
    stage.login(silence_s=1800)
    equal(stage.settle(), settled * 1000, "remembered")


def an_outage_teaches_nothing(stage):
    stage.open()
    _die(stage, stage.login(silence_s=600))
    stage.server.accept().end()  # the next connection fails: the network was away
    stage.come_back()
    stage.login(silence_s=600)
    equal(stage.settle() - stage.now, 120_000, "the same interval")


def a_ping_after_the_devices_sleep_teaches_nothing(stage):
    stage.open()
    link = stage.login(silence_s=600)
    stage.time(120_000 + 3_600_000)
    link.expect("ping")
    stage.pass_(30_000)
    link.until_closed()
    stage.come_back()
    stage.login(silence_s=600)
    equal(stage.settle() - stage.now, 120_000, "the same interval")


def each_network_has_its_own_heartbeat(stage):
    stage.open()
    stage.driver.ask("network", name="cell")
    _die(stage, stage.login(silence_s=600))
    link = stage.login(silence_s=600)
    for name, interval in (("home", 120_000), ("cell", 60_000)):
        stage.driver.ask("network", name=name)
        link.expect("ping")
        equal(link.arrived(), [], "a new network is a nudge, and nothing else")
        link.send(wire.frame("pong"))
        stage.handled("pong")
        equal(stage.settle() - stage.now, interval, "the interval of this network")


def close_says_goodbye_and_keeps_the_queue(stage):
    stage.open()
    link = stage.login()
    client_id = stage.driver.ask("send", to="bob", text="hello")["client_id"]
    link.expect("send")
    stage.driver.ask("close")
    link.expect("goodbye")
    equal(link.until_closed(), [], "the end")
    stage.driver.state("ended", why="closed")
    equal(stage.settle(), None, "no timer is left")
    stage.open(state=stage.kill())
    equal(stage.login().expect("send")["client_id"].hex(), client_id, "it is still there")


def close_while_waiting_ends_at_once(stage):
    stage.open(addresses=[stage.closed_port()])
    stage.driver.state("waiting")
    stage.driver.ask("close")
    stage.driver.state("ended", why="closed")
    equal(stage.settle(), None, "no timer is left")


def a_malformed_frame_closes_the_connection(stage):
    for vector in stage.vectors["bad"]:
        stage.open()
        link = stage.login()
        link.send(bytes.fromhex(vector["bytes"]))
        equal(link.until_closed(), [], "nothing more is said")
        stage.driver.state("waiting", why="server_malformed")
        stage.kill()


def a_message_before_the_login_is_out_of_order(stage):
    stage.open()
    link = stage.server.accept()
    link.expect("login")
    link.send(live(1))
    equal(link.until_closed(), [], "the connection ends")
    stage.driver.state("waiting", why="server_malformed")
    equal(stage.places(), [], "and nothing is handed out")


def frames_come_byte_by_byte(stage):
    stage.open()
    link = stage.server.accept()
    link.expect("login")
    for byte in stage.logged_in() + live(1, 2):
        link.send(bytes([byte]))
    stage.driver.state("online")
    stage.handled("message", 2)
    equal(stage.places(), [1, 2], "whole")


class _Inbox:
    """A server that remembers the inbox and the device's cursor, as the real one does."""

    def __init__(self, stage):
        self.stage, self.head, self.cursor, self.handed = stage, 0, 0, []

    def logged_in(self):
        """Two more are in the inbox when the device comes."""
        self.head += 2
        return self.stage.logged_in(self.head, self.cursor)

    def page(self, link, count):
        """The answer to the next Pull, and where it ends."""
        while (request := link.take()) is None or request.name != "pull":
            if request is None:
                check(link._receive(), "closed before it has pulled")
            else:
                self.takes([request])
        upto = min(request["after"] + count, self.head)
        entries = [entry(place) for place in range(request["after"] + 1, upto + 1)]
        return page(request, entries, upto, self.head), upto

    def takes(self, requests):
        for request in requests:
            if request.name == "acknowledge":
                self.cursor = max(self.cursor, request["upto"])


def a_session_broken_behind_every_byte_loses_and_doubles_nothing(stage):
    stage.open()
    inbox, at, length = _Inbox(stage), 0, 1
    while at < length:
        link = stage.server.accept()
        link.expect("login")
        data = inbox.logged_in()
        link.send(data[:at])
        length = len(data) + 1
        if at >= len(data):
            more, _ = inbox.page(link, 2)
            link.send(more[:at - len(data)])
            length += len(more)
        if at % 2:
            link.end()
            inbox.takes(link.until_closed())
        else:
            stage.settle()
            link.reset()
        stage.come_back()
        inbox.handed += stage.places()
        at += 1
    link, upto = stage.login(head=inbox.head, cursor=inbox.cursor), 0
    while upto < inbox.head:
        data, upto = inbox.page(link, 8)
        link.send(data)
    while inbox.head not in inbox.handed:
        stage.handled("page")
        inbox.handed += stage.places()
    equal(inbox.handed, list(range(1, inbox.head + 1)), "each entry, once and in order")


def sending_broken_behind_every_byte_loses_and_doubles_nothing(stage):
    stage.open()
    stored, names = {}, []
    for at in range(46):
        names.append(stage.driver.ask("send", to="bob", text=f"text {at}")["client_id"])
        link = stage.server.accept()
        link.expect("login")
        link.send(stage.logged_in())
        # So much of the Send is read when the connection breaks; 40 bytes are all of it.
        if at < 40:
            link.at_least(at)
        else:
            _store(stored, link.expect("send"))
        link.reset()
        stage.come_back()
    link = stage.login()
    while len(stored) < len(names):
        send = link.expect("send")
        again = _store(stored, send)
        link.send(sent(send, stored[send["client_id"].hex()], again))
        stage.handled("sent")
    equal(list(stored), names, "each message, once and in order")
    equal([event["client_id"] for event in stage.told("sent")], names, "and told once")


def _store(stored, send):
    """As the server: one that is known is not stored again."""
    again = send["client_id"].hex() in stored
    stored.setdefault(send["client_id"].hex(), len(stored) + 1)
    return again


# ---- TLS, proxies, WebSocket ---------------------------------------------------------------------


def _used(stage):
    link = stage.login()
    link.send(live(1))
    stage.driver.event("message", seq=1)


def tls_connects_to_a_server_that_it_trusts(stage):
    _, tls = scenarios._tls(stage)
    stage.open(tls=tls)
    _used(stage)


def tls_refuses_another_authority_and_another_name(stage):
    _, tls = scenarios._tls(stage)
    for wrong in ({**tls, "ca": stage.certificates.authority("other")[0]},
                  {**tls, "name": "other.example"}):
        stage.open(tls=wrong)
        stage.server.accept()
        stage.driver.state("waiting", why="unreachable")
        stage.kill()


def pins_refuse_a_certificate_that_the_authority_has_issued(stage):
    certificate, tls = scenarios._tls(stage)
    other = scenarios._pin(stage, stage.certificates.server("other.example")[0])
    stage.open(tls={**tls, "pins": [other]})
    link = stage.server.accept()  # none if the library breaks off the handshake
    check(link is None or link.until_closed() == [], "nothing is sent")
    stage.driver.state("waiting", why="pin_mismatch")
    stage.kill()
    stage.open(tls={**tls, "pins": [other, scenarios._pin(stage, certificate)]})
    _used(stage)


def pins_ignore_certificates_whose_keys_the_server_does_not_prove(stage):
    other = stage.certificates.server("other.example")[0]
    sent = stage.certificates.together("push.example", "other.example")
    _, tls = scenarios._tls(stage, sent=sent)
    stage.open(tls={**tls, "pins": [scenarios._pin(stage, other)]})
    link = stage.server.accept()
    check(link is None or link.until_closed() == [], "nothing is sent")
    stage.driver.state("waiting", why="pin_mismatch")


def _a_proxy_is_used(stage, kind, user):
    proxy = scenarios._proxy(stage, kind, user)
    stage.open(proxy=proxy.url)
    _used(stage)
    equal(proxy.targets, [stage.server.address], "through the proxy")


def socks5_with_and_without_a_password(stage):
    _a_proxy_is_used(stage, "socks5", None)
    stage.kill()
    _a_proxy_is_used(stage, "socks5", ("ann", "pass word"))


def http_connect_with_and_without_a_password(stage):
    _a_proxy_is_used(stage, "http", None)
    stage.kill()
    _a_proxy_is_used(stage, "http", ("ann", "pass word"))


def a_secret_is_not_shown_through_a_proxy_without_tls(stage):
    # The address is one of the proxy's machine, whatever it looks like.
    proxy = scenarios._proxy(stage, "socks5", None).url
    for secret in ({"token": "open sesame"}, {"login_token": TOKEN}):
        try:
            stage.open(proxy=proxy, **secret)
        except Failure as refused:
            check("insecure" in str(refused), "refused when the client is made")
        else:
            stage.driver.state("waiting", why="insecure")
            stage.kill()
    stage.open(proxy=proxy, password=PASSWORD)
    while not (link := stage.server.accept()).at_least(1):
        pass  # connections of before, on which nothing was said
    equal(link.expect("login")["password"], b"", "the password is proved")
    link.send(wire.frame("refused", reason=4, word="bad_method"))
    stage.driver.state("ended", why="bad_method")


def websocket_carries_the_same_bytes(stage):
    stage.server = stage.listen(streams.websocket)
    stage.open(addresses=[f"ws://{stage.server.address}/im"])
    link = stage.server.accept()
    link.expect("login")
    for byte in stage.logged_in() + live(1):
        link.send(bytes([byte]))
    stage.driver.event("message", seq=1)


NEEDS = {
    "heartbeat": [the_heartbeat_grows_while_the_network_allows,
                  the_longest_interval_that_a_network_allows_is_found_and_remembered,
                  an_outage_teaches_nothing, a_ping_after_the_devices_sleep_teaches_nothing,
                  each_network_has_its_own_heartbeat],
    "manual": [the_application_acknowledges_when_it_has_stored,
               what_the_application_holds_is_not_handed_out_again,
               an_application_that_holds_much_gets_no_more],
    "tls": [tls_connects_to_a_server_that_it_trusts,
            tls_refuses_another_authority_and_another_name],
    "pins": [pins_refuse_a_certificate_that_the_authority_has_issued,
             pins_ignore_certificates_whose_keys_the_server_does_not_prove],
    "detail": [a_failed_connection_says_why_in_the_systems_words,
               a_failed_verification_says_why_in_the_librarys_words],
    "socks5": [a_secret_is_not_shown_through_a_proxy_without_tls,
               socks5_with_and_without_a_password, socks5_that_refuses_is_a_failed_connection],
    "http_connect": [http_connect_with_and_without_a_password,
                     http_connect_that_refuses_is_a_failed_connection],
    "websocket": [websocket_carries_the_same_bytes],
}

"""The scenarios: each plays a server against a library and says by its name what it proves.

`random()` of the client is 0.5 throughout, so that the back-off is 500, 1000, 2000 ms and so on.
"""

import base64
import hashlib
import ssl

import streams
import wire
from stage import FIRST_S, SECRET, WALL_MS, Failure
from wire import (AUTH, BIND, BIND_ACK, CHALLENGE, CONFIG, ERROR, GO_AWAY, KICK, MSG, MSG_ACK, PING,
                  PONG, PULL, REDIRECT, REPORT, REPORT_ACK, UNBIND, UNBIND_ACK)

HMAC = {"secret": SECRET.hex(), "key_id": 7}
MANUAL = {"acknowledge": "manual"}


def check(condition, what):
    if not condition:
        raise Failure(what)


def equal(one, other, what):
    check(one == other, f"{what}: {one!r} is not {other!r}")


def ids(frames):
    """The ids of acknowledgements, which must be all that came."""
    return [ident for frame in frames for ident in frame.ids]


# ---- binding -------------------------------------------------------------------------------------


def bind_is_signed_with_the_secret(stage):
    stage.open(**HMAC)
    bind = stage.bind().bind
    equal((bind["device_id"], bind["product_key"]), ("dev-1", "demo"), "names")
    equal((bind["auth_type"], bind["key_id"]), (1, 7), "the kind of proof")
    equal(bind["client_ts"], WALL_MS, "the device's clock")
    equal(bind["mac"], wire.mac(SECRET, bind), "the signature")
    equal(bind["heartbeat_wish"], [0, 30, 1800], "the wish")


def bind_says_the_heartbeat_that_the_application_wishes(stage):
    stage.open(heartbeat_wish=900)
    equal(stage.bind().bind["heartbeat_wish"], [900, 30, 1800], "the wish")


def bind_with_a_token_or_nothing(stage):
    stage.open(token="open sesame")
    bind = stage.bind().bind
    equal((bind["auth_type"], bind["token"]), (2, b"open sesame"), "the proof")
    check(bind["mac"] is None, "a token is no signature")
    stage.kill()
    stage.open()
    bind = stage.bind().bind
    check(bind["auth_type"] in (None, 0) and bind["token"] is None, "no proof")


def bind_says_tags_window_and_pulls(stage):
    stage.open(tags=["red", "blue"], max_inflight=4, pulls=True, **HMAC)
    bind = stage.bind().bind
    equal((bind["tags"], bind["max_inflight"], bind["caps"]), (["red", "blue"], 4, 2), "the wishes")
    equal(bind["mac"], wire.mac(SECRET, bind), "the signature covers the capabilities")


def each_bind_has_a_new_nonce(stage):
    stage.open(**HMAC)
    nonces = set()
    for _ in range(3):
        link = stage.bind()
        nonces.add(link.bind["client_nonce"])
        link.end()
        stage.come_back()
    equal(len(nonces), 3, "different nonces")


def bound_tells_the_terms(stage):
    stage.open()
    link = stage.server.accept()
    link.expect(BIND)
    link.send(stage.bind_ack(heartbeat=310, offline_count=2))
    stage.driver.state("bound", resumed=False, heartbeat=310, offline_count=2)


def a_challenge_is_answered(stage):
    stage.open(**HMAC)
    link = stage.server.accept()
    bind, nonce = link.expect(BIND), bytes(range(16))
    link.send(wire.frame(CHALLENGE, {"server_nonce": nonce}))
    equal(link.expect(AUTH)["mac"], wire.mac(SECRET, bind, nonce), "the signature")
    link.send(stage.bind_ack())
    stage.driver.state("bound")


def a_second_challenge_is_out_of_order(stage):
    stage.open(**HMAC)
    link = stage.server.accept()
    link.expect(BIND)
    link.send(wire.frame(CHALLENGE, {"server_nonce": bytes(16)}))
    link.expect(AUTH)
    link.send(wire.frame(CHALLENGE, {"server_nonce": bytes(16)}))
    equal(link.until_closed(), [], "no second answer")
    stage.driver.state("waiting", why="out_of_order")


def a_session_is_resumed(stage):
    stage.open(**HMAC)
    first = stage.bind()
    check(first.bind["resume_token"] is None, "there is no session yet")
    token, epoch = bytes([stage.epoch % 256]) * 32, stage.epoch
    first.end()
    stage.come_back()
    link = stage.server.accept()
    bind = link.expect(BIND)
    equal((bind["resume_token"], bind["session_epoch"]), (token, epoch), "the session")
    equal(bind["mac"], wire.mac(SECRET, bind), "the proof comes along")
    link.send(stage.bind_ack(resumed=True))
    stage.driver.state("bound", resumed=True)


def a_session_outlives_the_process(stage):
    stage.open(**HMAC)
    stage.bind()
    epoch, state = stage.epoch, stage.kill()
    stage.open(state=state, **HMAC)
    equal(stage.bind().bind["session_epoch"], epoch, "the session")


def a_server_that_does_not_answer_the_bind_is_left(stage):
    stage.open()
    link = stage.server.accept()
    link.expect(BIND)
    stage.settle()
    equal(stage.next, 15_000, "the time of the answer")
    stage.time(14_999)
    equal(link.arrived(), [], "it waits")
    stage.time(15_000)
    link.until_closed()
    stage.driver.state("waiting", why="bind_timeout")


# ---- refusals, back-off, addresses ---------------------------------------------------------------


def _refuse(stage, result, server=None, **more):
    link = (server or stage.server).accept()
    bind = link.expect(BIND)
    link.send(wire.frame(BIND_ACK, {"result": result, **more}))
    link.end()
    return bind


def a_permanent_refusal_ends_the_client(stage):
    words = {20: "auth_failed", 21: "clock_skew", 22: "replay", 23: "unknown_product",
             24: "device_blocked"}
    for result, why in words.items():
        stage.open(**HMAC)
        _refuse(stage, result)
        stage.driver.state("ended", result=result, why=why)
        stage.settle()
        equal(stage.next, None, "no timer is left")
        check(stage.server.is_quiet(), "it does not come back")
        stage.kill()


def a_full_server_refuses_before_the_bind(stage):
    for _ in range(20):
        stage.open()
        link = stage.server.accept()
        link.send(wire.frame(BIND_ACK, {"result": 30, "retry_after_ms": 2_500}))
        link.end()
        equal(stage.driver.state("waiting", why="busy")["until"], 2_500, "the server's time")
        stage.kill()


def a_server_that_closes_at_once_is_noticed(stage):
    for _ in range(20):
        stage.open()
        stage.server.accept().end()
        stage.driver.state("waiting")
        stage.kill()


def a_ban_with_a_time_is_waited_out(stage):
    stage.open(**HMAC)
    _refuse(stage, 24, retry_after_ms=90_000)
    equal(stage.driver.state("waiting", why="device_blocked")["until"], 90_000, "the wait")


def a_refusal_is_retried_after_the_servers_time(stage):
    stage.open()
    _refuse(stage, 30, retry_after_ms=2_500)
    equal(stage.driver.state("waiting", why="busy")["until"], 2_500, "the wait")
    equal(stage.time(2_499), 2_500, "the timer")
    check(stage.server.is_quiet(), "not before its time")
    stage.time(2_500)
    stage.bind()


def a_short_hint_does_not_shorten_the_back_off(stage):
    stage.open()
    for until in (500, 1_500, 3_500):
        _refuse(stage, 30, retry_after_ms=1)
        equal(stage.come_back()["until"], until, "the end of the wait")


def a_hint_above_an_hour_is_an_hour(stage):
    stage.open()
    _refuse(stage, 30, retry_after_ms=2**32 - 1)
    equal(stage.driver.state("waiting")["until"], 3_600_000, "the wait")


def back_off_doubles_up_to_a_minute(stage):
    stage.open(addresses=[stage.closed_port()])
    waits = []
    for _ in range(9):
        event = stage.driver.state("waiting", why=stage.unreachable)
        waits.append(event["until"] - stage.now)
        stage.time(event["until"])
    equal(waits, [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000], "the waits")


def a_good_session_resets_the_back_off(stage):
    stage.open()
    waits = []
    for seconds in (0, 9, 10, 0):
        link = stage.come_in()
        stage.pass_(seconds * 1000)
        link.end()
        event = stage.driver.state("waiting", why=stage.lost)
        waits.append(event["until"] - stage.now)
        stage.time(event["until"])
    equal(waits, [500, 1000, 500, 1000], "the waits")


def addresses_are_tried_in_turn(stage):
    other = stage.listen()
    stage.open(addresses=[stage.server.address, other.address])
    for server in (stage.server, other, stage.server, other):
        server.accept().end()
        stage.come_back()


def a_redirect_is_followed_at_once(stage):
    other = stage.listen()
    stage.open()
    link = stage.bind()
    link.send(wire.frame(REDIRECT, {"result": 33, "addr": [other.address]}))
    link.until_closed()
    stage.bind(other)
    equal(stage.now, 0, "without a wait")


def a_refusal_names_another_server(stage):
    other = stage.listen()
    stage.open()
    _refuse(stage, 33, addr=[stage.closed_port(), other.address, stage.closed_port()])
    stage.come_back()  # the first of the two does not answer
    link = stage.bind(other)
    link.end()
    stage.come_back()
    stage.bind(other).end()  # where it was bound last
    stage.come_back()
    stage.bind(other)


def after_the_named_server_the_configured_one_is_tried(stage):
    stage.open()
    link = stage.bind()
    link.send(wire.frame(REDIRECT, {"result": 33, "addr": [stage.closed_port()]}))
    link.until_closed()
    stage.come_back()
    stage.bind()


def two_servers_that_name_each_other_get_the_back_off(stage):
    other = stage.listen()
    stage.open()
    for server, to in ((stage.server, other), (other, stage.server), (stage.server, other)):
        _refuse(stage, 33, server=server, addr=[to.address])
    equal(stage.now, 0, "three times without a wait")
    _refuse(stage, 33, server=other, addr=[stage.server.address])
    equal(stage.driver.state("waiting", why="redirect")["until"], 500, "then the back-off")


def go_away_is_obeyed_after_the_servers_time(stage):
    other = stage.listen()
    stage.open(**MANUAL)
    link = stage.bind()
    link.send(stage.msg(5), wire.frame(GO_AWAY, {"result": 32, "retry_after_ms": 4_000,
                                                 "addr": [other.address]}))
    equal(link.until_closed(), [], "no word is needed")
    equal(stage.driver.state("waiting", why="draining")["until"], 4_000, "the wait")
    stage.time(4_000)
    equal(stage.bind(other).bind["session_epoch"], stage.epoch - 1, "with its session")


def go_away_waits_for_owed_acknowledgements(stage):
    stage.open()
    link = stage.bind()
    link.send(stage.msg(5), stage.msg(6), wire.frame(GO_AWAY, {"result": 32}))
    equal(sorted(ids(link.until_closed())), [5, 6], "acknowledged before the end")


def a_kick_by_a_newer_connection_or_an_operator_ends_the_client(stage):
    for result, why in ((40, "replaced"), (41, "kicked")):
        stage.open()
        link = stage.bind()
        link.send(wire.frame(KICK, {"result": result, "session_epoch": stage.epoch + 1}))
        link.until_closed()
        stage.driver.state("ended", result=result, why=why)
        check(stage.server.is_quiet(), "it does not fight")
        stage.kill()


def other_kicks_are_come_back_from(stage):
    for result, why in ((42, "heartbeat_timeout"), (32, "draining"), (50, "internal"),
                        (99, "result_99")):
        stage.open()
        link = stage.bind()
        link.send(wire.frame(KICK, {"result": result}))
        link.until_closed()
        stage.driver.state("waiting", why=why)
        stage.kill()


def a_wrong_clock_is_corrected_once_if_the_server_says_the_time(stage):
    stage.open(wall_ms=WALL_MS - 31_536_000_000, **HMAC)
    server_time = WALL_MS + 5
    bind = _refuse(stage, 21, server_time=server_time)
    equal(bind["client_ts"], WALL_MS - 31_536_000_000, "a year off")
    bind = _refuse(stage, 21, server_time=server_time)
    equal(bind["client_ts"], server_time, "corrected")
    equal(bind["mac"], wire.mac(SECRET, bind), "and signed")
    stage.driver.state("ended", why="clock_skew")


def a_corrected_clock_that_is_set_right_later_is_corrected_again(stage):
    stage.open(wall_ms=WALL_MS - 31_536_000_000, **HMAC)
    for server_time in (WALL_MS, WALL_MS + 31_536_000_000):
        _refuse(stage, 21, server_time=server_time)
        link = stage.bind()
        equal(link.bind["client_ts"], server_time, "corrected")
        link.end()
        stage.come_back()


def an_error_names_why_the_server_closed(stage):
    stage.open()
    link = stage.server.accept()
    link.expect(BIND)
    link.send(wire.frame(ERROR, {"result": 44, "reason": "no_bind"}))
    link.end()
    stage.driver.state("waiting", why="bind_timeout")


def an_unsupported_version_ends_the_client(stage):
    stage.open()
    link = stage.server.accept()
    link.expect(BIND)
    link.send(wire.frame(ERROR, {"result": 11, "reason": "newer_version"}))
    link.end()
    stage.driver.state("ended", result=11)


def a_nudge_ends_the_wait(stage):
    stage.open()
    stage.bind().end()
    stage.driver.state("waiting")
    stage.driver.ask("nudge")
    stage.bind()
    equal(stage.now, 0, "at once")


# ---- pushes --------------------------------------------------------------------------------------


def a_push_is_handed_out_and_acknowledged(stage):
    stage.open()
    link = stage.bind()
    link.send(stage.msg(2**63 + 1, body=b"hello", app_id=9, flags=6, expire_at=77,
                        collapse=b"key"))
    equal(link.expect(MSG_ACK).ids, [2**63 + 1], "acknowledged")
    stage.driver.event("push", id=str(2**63 + 1), app_id=9, silent=True, high=True, expire_at=77,
                       collapse=b"key".hex(), body=b"hello".hex())


def a_frame_of_many_pushes_gets_one_acknowledgement(stage):
    stage.open()
    link = stage.bind()
    link.send(stage.msg(*range(1, 33)))
    equal(link.expect(MSG_ACK).ids, list(range(1, 33)), "one frame")
    stage.driver.frame(MSG)
    equal(stage.pushes(), list(range(1, 33)), "in order")
    equal(link.arrived(), [], "nothing else")


def the_application_acknowledges_when_it_has_stored(stage):
    stage.open(**MANUAL)
    link = stage.bind()
    link.send(stage.msg(1), stage.msg(2), stage.msg(3))
    for _ in range(3):
        stage.driver.frame(MSG)
    stage.settle()
    equal(link.arrived(), [], "the application has not said so")
    stage.driver.ask("acknowledge", id="2")
    equal(link.expect(MSG_ACK).ids, [2], "this one alone")
    stage.driver.ask("acknowledge", id="1")
    equal(link.expect(MSG_ACK).ids, [1], "in any order")


def a_push_that_the_application_holds_is_not_handed_out_again(stage):
    stage.open(**MANUAL)
    link = stage.bind()
    link.send(stage.msg(1), stage.msg(1, dup=True))
    stage.driver.frame(MSG)
    stage.driver.frame(MSG)
    equal(stage.pushes(), [1], "once")
    stage.settle()
    equal(link.arrived(), [], "and not acknowledged")
    link.end()
    stage.come_back()
    link = stage.bind(resumed=True)
    link.send(stage.msg(1, dup=True))
    stage.driver.frame(MSG)
    equal((stage.pushes(), link.arrived()), ([], []), "nor on the next connection")
    stage.driver.ask("acknowledge", id="1")
    equal(link.expect(MSG_ACK).ids, [1], "acknowledged there")


def an_acknowledged_push_is_acknowledged_again(stage):
    stage.open()
    link = stage.bind()
    link.send(stage.msg(1))
    equal(link.expect(MSG_ACK).ids, [1], "the first time")
    link.send(stage.msg(1, dup=True))
    equal(link.expect(MSG_ACK).ids, [1], "again")
    link.send(stage.msg(1))
    equal(link.expect(MSG_ACK).ids, [1], "without the flag, too")
    stage.settle()
    equal(stage.pushes(), [1], "handed out once")


def an_acknowledgement_without_a_connection_is_kept(stage):
    stage.open(**MANUAL)
    link = stage.bind()
    link.send(stage.msg(1))
    stage.driver.frame(MSG)
    link.end()
    stage.driver.state("waiting")
    stage.driver.ask("acknowledge", id="1")
    state = stage.kill()
    stage.open(state=state, **MANUAL)
    link = stage.bind()
    link.send(stage.msg(1, dup=True))
    equal(link.expect(MSG_ACK).ids, [1], "sent when it is asked again")
    equal(stage.pushes(), [], "not handed out again")


def a_kill_before_the_acknowledgement_hands_out_again(stage):
    stage.open(**MANUAL)
    link = stage.bind()
    link.send(stage.msg(1), stage.msg(2))
    stage.driver.frame(MSG)
    stage.driver.frame(MSG)
    stage.driver.ask("acknowledge", id="2")
    stage.open(state=stage.kill(), **MANUAL)
    link = stage.bind()
    link.send(stage.msg(1, dup=True), stage.msg(2, dup=True))
    equal(link.expect(MSG_ACK).ids, [2], "the acknowledged one is dropped")
    stage.driver.frame(MSG)
    equal(stage.pushes(), [1], "the other one is handed out")


def a_rejected_push_is_handed_out_again(stage):
    stage.open(**MANUAL)
    link = stage.bind()
    link.send(stage.msg(1))
    stage.driver.frame(MSG)
    stage.driver.ask("reject", id="1")
    equal(link.arrived(), [], "not acknowledged")
    link.send(stage.msg(1, dup=True))
    stage.driver.frame(MSG)
    equal(stage.pushes(), [1, 1], "twice, for its handler failed")


def the_last_256_acknowledged_ids_are_remembered(stage):
    stage.open()
    link = stage.bind()
    for at in range(0, 256, 32):
        link.send(stage.msg(*range(at + 1, at + 33)))
        link.expect(MSG_ACK)
    link.send(stage.msg(1, dup=True))
    equal(link.expect(MSG_ACK).ids, [1], "the oldest")
    for _ in range(9):
        stage.driver.frame(MSG)
    equal(stage.pushes(), list(range(1, 257)), "each once")


def a_large_push_arrives(stage):
    stage.open()
    link = stage.bind()
    body = bytes(range(256)) * 240
    link.send(stage.msg(1, body=body))
    link.expect(MSG_ACK)
    stage.driver.event("push", body=body.hex())


def stored_pushes_are_pulled(stage):
    stage.open(pulls=True, **HMAC)
    link = stage.bind(offline_count=3)
    stage.driver.ask("pull", count=2)
    equal(link.expect(PULL)["count"], 2, "the count")
    link.send(stage.msg(1), stage.msg(2), wire.frame(PULL, {"offline_count": 1}))
    stage.driver.event("pulled", remaining=1)
    equal(stage.pushes(), [1, 2], "before the answer")


# ---- heartbeat -----------------------------------------------------------------------------------


def a_silent_connection_is_pinged(stage):
    stage.open()
    link = stage.bind()
    equal(stage.settle(), FIRST_S * 1000, "the first interval")
    stage.time(FIRST_S * 1000 - 1)
    equal(link.arrived(), [], "not before")
    stage.time(FIRST_S * 1000)
    link.expect(PING)
    link.send(wire.frame(PONG))
    stage.driver.frame(PONG)
    equal(stage.settle(), 2 * FIRST_S * 1000, "the next one")


def traffic_puts_the_ping_off(stage):
    stage.open(**MANUAL)
    link = stage.bind()
    stage.time(100_000)
    link.send(stage.msg(1))
    stage.driver.frame(MSG)
    equal(stage.settle(), 220_000, "a push counts")
    stage.time(200_000)
    link.send(stage.msg(2))
    stage.driver.frame(MSG)
    equal(stage.settle(), 300_000, "but the device must speak within the heartbeat of 300 s")


def a_dead_connection_is_left(stage):
    stage.open()
    link = stage.bind()
    stage.time(FIRST_S * 1000)
    link.expect(PING)
    equal(stage.next, FIRST_S * 1000 + 30_000, "the answer is due")
    stage.time(FIRST_S * 1000 + 29_999)
    equal(link.arrived(), [], "it waits")
    stage.time(FIRST_S * 1000 + 30_000)
    link.until_closed()
    stage.driver.state("waiting", why="no_pong")


def any_frame_answers_a_ping(stage):
    stage.open()
    link = stage.bind()
    stage.time(FIRST_S * 1000)
    link.expect(PING)
    link.send(stage.msg(1))
    link.expect(MSG_ACK)
    stage.driver.frame(MSG)
    stage.time(FIRST_S * 1000 + 30_000)
    link.send(stage.msg(2))
    equal(link.expect(MSG_ACK).ids, [2], "the connection lives")


def a_nudge_asks_a_bound_connection(stage):
    stage.open()
    link = stage.bind()
    stage.time(5_000)
    stage.driver.ask("nudge")
    link.expect(PING)
    equal(stage.settle(), 15_000, "and gives it ten seconds")
    stage.time(15_000)
    link.until_closed()
    stage.driver.state("waiting", why="no_pong")


def nudges_do_not_put_off_the_end_of_a_dead_connection(stage):
    stage.open()
    link = stage.bind()
    stage.time(5_000)
    stage.driver.ask("nudge")
    stage.time(14_000)
    stage.driver.ask("nudge")
    equal(stage.settle(), 15_000, "ten seconds after the first one")
    stage.time(15_000)
    link.until_closed()
    stage.driver.state("waiting", why="no_pong")


def config_changes_the_heartbeat(stage):
    stage.open()
    link = stage.bind(heartbeat=300)
    link.send(wire.frame(CONFIG, {"heartbeat": 60, "max_inflight": 8}))
    stage.driver.frame(CONFIG)
    equal(stage.settle(), 60_000, "the server's limit is shorter")


def _answer_pings(stage, link, count):
    """Answers so many heartbeats; the intervals between them, seconds."""
    intervals = []
    for _ in range(count):
        before = stage.now
        stage.time(stage.settle())
        link.expect(PING)
        intervals.append((stage.now - before) // 1000)
        link.send(wire.frame(PONG))
        stage.driver.frame(PONG)
    return intervals


def the_heartbeat_grows_while_the_network_allows(stage):
    stage.open()
    link = stage.bind(heartbeat=600)
    equal(_answer_pings(stage, link, 10),
          [120, 120, 180, 180, 270, 270, 405, 405, 600, 600], "the intervals")


def an_idle_client_wakes_for_its_heartbeat_alone(stage):
    for agreed, pings in ((300, 12), (1800, 2)):
        stage.open()
        link = stage.bind(heartbeat=agreed)

        def answer(link=link):
            link.send(wire.frame(PONG))
            stage.driver.frame(PONG)

        hours = stage.idle_hours(link, wire.frame(PING), answer)
        equal(hours[2:], [pings] * 22, f"Pings an hour, when {agreed} s are agreed")
        stage.kill()


def _die(stage, link):
    """The next heartbeat is not answered."""
    before = stage.now
    stage.time(stage.settle())
    link.expect(PING)
    interval = (stage.now - before) // 1000
    stage.pass_(30_000)
    link.until_closed()
    stage.come_back()
    return interval


def the_longest_interval_that_a_network_allows_is_found_and_remembered(stage):
    stage.open()
    link, intervals = stage.bind(heartbeat=1800), []
    nat_s = 300  # this network forgets connections that are silent for so long
    for _ in range(40):
        before = stage.now
        stage.time(stage.settle())
        link.expect(PING)
        intervals.append((stage.now - before) // 1000)
        if intervals[-1] < nat_s:
            link.send(wire.frame(PONG))
            stage.driver.frame(PONG)
            continue
        stage.pass_(30_000)
        link.until_closed()
        stage.come_back()
        link = stage.bind(resumed=True, heartbeat=1800)
    settled = intervals[-1]
    check(nat_s * 7 // 8 <= settled < nat_s, f"it settles below {nat_s}: {intervals}")
    lost = sum(interval >= nat_s for interval in intervals)
    check(lost <= 4, f"{lost} connections were lost to find it: {intervals}")
    state = stage.kill()
    stage.open(state=state)
    stage.bind(heartbeat=1800)
    equal(stage.settle(), settled * 1000, "remembered")


def an_outage_teaches_nothing(stage):
    stage.open()
    link = stage.bind()
    equal(_die(stage, link), FIRST_S, "the first interval")
    stage.server.accept().end()  # the next connection fails: the network was away
    stage.come_back()
    stage.bind()
    equal(stage.settle() - stage.now, FIRST_S * 1000, "the same interval")


def a_failed_first_interval_is_halved(stage):
    stage.open()
    link = stage.bind()
    _die(stage, link)
    stage.bind()
    equal(stage.settle() - stage.now, FIRST_S * 500, "half of it")


def a_ping_after_the_devices_sleep_teaches_nothing(stage):
    stage.open()
    link = stage.bind()
    stage.time(FIRST_S * 1000 + 3_600_000)
    link.expect(PING)
    stage.pass_(30_000)
    link.until_closed()
    stage.come_back()
    stage.bind()
    equal(stage.settle() - stage.now, FIRST_S * 1000, "the same interval")


def a_ping_that_another_network_leaves_unanswered_teaches_nothing(stage):
    stage.open()
    link = stage.bind()
    stage.time(FIRST_S * 1000)
    link.expect(PING)
    stage.driver.ask("network", name="cell")
    stage.pass_(10_000)
    link.until_closed()
    stage.come_back()
    stage.bind()
    equal(stage.settle() - stage.now, FIRST_S * 1000, "the first interval")


def a_break_while_the_answer_is_awaited_counts_as_failed(stage):
    stage.open()
    link = stage.bind()
    stage.time(FIRST_S * 1000)
    link.expect(PING)
    link.end()
    stage.come_back()
    stage.bind()
    equal(stage.settle() - stage.now, FIRST_S * 500, "half of the interval")


def each_network_has_its_own_heartbeat(stage):
    stage.open()
    stage.driver.ask("network", name="cell")
    link = stage.bind()
    _die(stage, link)
    link = stage.bind()
    stage.driver.ask("network", name="home")
    link.expect(PING)
    equal(link.arrived(), [], "a new network is a nudge, and nothing else")
    link.send(wire.frame(PONG))
    stage.driver.frame(PONG)
    equal(stage.settle() - stage.now, FIRST_S * 1000, "the interval of the other network")
    stage.driver.ask("network", name="cell")
    link.expect(PING)
    link.send(wire.frame(PONG))
    stage.driver.frame(PONG)
    equal(stage.settle() - stage.now, FIRST_S * 500, "that of the first one")


def an_idle_hour_costs_few_bytes(stage):
    stage.open()
    link, wakes, sent, hour = stage.bind(), 0, 0, 3_600_000
    while stage.settle() <= hour:
        stage.time(stage.next)
        wakes += 1
        link.expect(PING)
        equal(link.arrived(), [], "a heartbeat for each wake-up, and nothing else")
        sent += 4
        link.send(wire.frame(PONG))
        stage.driver.frame(PONG)
    check(wakes > 0 and sent <= 60, f"{sent} bytes are sent in an hour")


# ---- reports -------------------------------------------------------------------------------------


def _reports(frames):
    frames = list(frames)
    check(all(frame.opcode == REPORT for frame in frames), f"only Reports: {frames}")
    return [(frame.seq, frame.payload) for frame in frames]


def reports_are_numbered_and_taken(stage):
    stage.open()
    link = stage.bind()
    names = [stage.driver.ask("report", payload=text.encode().hex())["client_id"]
             for text in ("a", "b", "c")]
    equal([_reports([link.expect(REPORT)])[0] for _ in names], [(1, b"a"), (2, b"b"), (3, b"c")],
          "numbers")
    link.send(wire.frame(REPORT_ACK, {"report_seq": 2}))
    for name in names[:2]:
        stage.driver.event("stored", client_id=name)
    link.send(wire.frame(REPORT_ACK, {"report_seq": 3}))
    stage.driver.event("stored", client_id=names[2])


def opened_and_dismissed_are_reports_of_one_form_and_are_queued_once(stage):
    stage.open()
    link = stage.bind()
    push = (1 << 63) + 258
    for word, what in (("opened", b"\x01"), ("dismissed", b"\x02"), ("opened", None)):
        name = stage.driver.ask(word, id=str(push))["client_id"]
        equal(name, f"{word}-{push}", "the client id")
        if what is not None:
            body = b"\0miop\0" + what + push.to_bytes(8, "big")
            equal(_reports([link.expect(REPORT)])[0][1], body, word)
    stage.settle()
    equal(link.arrived(), [], "not once more")
    link.send(wire.frame(REPORT_ACK, {"report_seq": 2}))
    for word in ("opened", "dismissed"):
        stage.driver.event("stored", client_id=f"{word}-{push}")


def reports_wait_for_a_connection(stage):
    stage.open(addresses=[stage.server.address])
    first = stage.server.accept()
    first.expect(BIND)
    stage.driver.ask("report", payload=b"early".hex(), client_id="first")
    stage.settle()
    equal(first.arrived(), [], "not before the session")
    first.send(stage.bind_ack())
    equal(_reports([first.expect(REPORT)]), [(1, b"early")], "then it is sent")


def reports_outlive_connections(stage):
    stage.open()
    link = stage.bind()
    for text in (b"a", b"b"):
        stage.driver.ask("report", payload=text.hex(), client_id=text.decode())
        link.expect(REPORT)
    link.send(wire.frame(REPORT_ACK, {"report_seq": 1}))
    stage.driver.event("stored", client_id="a")
    link.end()
    stage.come_back()
    equal(_reports([stage.bind().expect(REPORT)]), [(2, b"b")], "the same number")


def _is_refused(stage, name, **options):
    """The client is not made, and the reason names what is wrong."""
    try:
        stage.open(**options)
    except Failure as refused:
        stage.is_open = False
        names = name in str(refused) or "detail" not in stage.driver.features
        check(names, f"the reason does not name {name}: {refused}")
    else:
        check(False, f"a client is made with {options}")


def a_name_that_the_server_would_refuse_makes_no_client(stage):
    _is_refused(stage, "my phone", device="my phone")
    _is_refused(stage, "x" * 33, product="x" * 33)
    stage.open(device="x" * 64, product="x" * 32)
    stage.bind()


def the_state_of_another_device_is_not_used(stage):
    stage.open(**MANUAL)
    link = stage.bind()
    stage.driver.ask("report", payload=b"mine".hex())
    link.expect(REPORT)
    stage.open(state=stage.kill(), device="dev-2")
    link = stage.bind()
    check(link.bind["resume_token"] is None, "its session is not resumed")
    stage.driver.ask("report", payload=b"yours".hex())
    equal(_reports([link.expect(REPORT)]), [(1, b"yours")], "its Reports are not sent")


def reports_outlive_the_process(stage):
    stage.open()
    link = stage.bind()
    for text in (b"a", b"b"):
        stage.driver.ask("report", payload=text.hex())
        link.expect(REPORT)
    stage.open(state=stage.kill())
    link = stage.bind()
    equal(_reports([link.expect(REPORT) for _ in "ab"]), [(1, b"a"), (2, b"b")], "both")
    link.send(wire.frame(REPORT_ACK, {"report_seq": 1}))
    stage.driver.event("stored")
    stage.driver.frame(REPORT_ACK)
    stage.open(state=stage.kill())
    link = stage.bind()
    equal(_reports([link.expect(REPORT)]), [(2, b"b")], "the one that was not taken")
    stage.driver.ask("report", payload=b"c".hex())
    equal(_reports([link.expect(REPORT)]), [(3, b"c")], "numbers go on")


def a_client_id_is_queued_once(stage):
    stage.open()
    link = stage.bind()
    stage.driver.ask("report", payload=b"a".hex(), client_id="x")
    stage.driver.ask("report", payload=b"a".hex(), client_id="x")
    equal(_reports([link.expect(REPORT)]), [(1, b"a")], "the first")
    equal(link.arrived(), [], "no second one")


def a_refused_report_is_sent_again_later(stage):
    stage.open()
    link = stage.bind()
    stage.driver.ask("report", payload=b"a".hex(), client_id="a")
    stage.driver.ask("report", payload=b"b".hex(), client_id="b")
    link.expect(REPORT)
    link.expect(REPORT)
    link.send(wire.frame(ERROR, {"result": 31, "report_seq": 1}),
              wire.frame(REPORT_ACK, {"report_seq": 2}))
    stage.driver.event("stored", client_id="b")
    equal(stage.settle(), 3_750, "after a pause of 5 s, a quarter off")
    stage.driver.ask("report", payload=b"c".hex(), client_id="c")
    equal(link.arrived(), [], "the pause holds for all")
    stage.time(3_750)
    equal(_reports([link.expect(REPORT), link.expect(REPORT)]), [(1, b"a"), (3, b"c")],
          "with the same number")
    link.send(wire.frame(REPORT_ACK, {"report_seq": 1}))
    stage.driver.event("stored", client_id="a")
    link.send(wire.frame(ERROR, {"result": 31, "report_seq": 3}))
    stage.driver.frame(ERROR)
    stage.driver.frame(ERROR)
    equal(stage.settle(), 7_500, "the pause is short again")


def at_most_sixteen_reports_are_in_flight(stage):
    stage.open()
    link = stage.bind()
    for at in range(20):
        stage.driver.ask("report", payload=bytes([at]).hex())
    numbers = [seq for seq, _ in _reports(link.expect(REPORT) for _ in range(16))]
    equal((numbers, link.arrived()), (list(range(1, 17)), []), "in flight")
    link.send(wire.frame(REPORT_ACK, {"report_seq": 3}))
    stage.driver.frame(REPORT_ACK)
    numbers = [seq for seq, _ in _reports(link.expect(REPORT) for _ in range(3))]
    equal((numbers, link.arrived()), ([17, 18, 19], []), "as room is made")


def the_queue_of_reports_is_bounded(stage):
    stage.open()
    link = stage.server.accept()
    link.expect(BIND)
    for at in range(256):
        stage.driver.ask("report", payload=bytes([at]).hex())
    answer = stage.driver.attempt("report", payload="00")
    equal(answer.get("error"), "queue_full", "the answer")


# ---- closing -------------------------------------------------------------------------------------


def close_unbinds(stage):
    stage.open()
    link = stage.bind()
    stage.driver.ask("close")
    link.expect(UNBIND)
    link.send(wire.frame(UNBIND_ACK))
    stage.driver.state("ended", why="closed")
    equal(link.until_closed(), [], "nothing else")
    equal(stage.settle(), None, "no timer is left")


def close_does_not_wait_for_ever(stage):
    stage.open()
    link = stage.bind()
    stage.driver.ask("close")
    link.expect(UNBIND)
    equal(stage.settle(), 5_000, "the wait")
    stage.time(5_000)
    link.until_closed()
    stage.driver.state("ended", why="closed")


def close_while_waiting_ends_at_once(stage):
    stage.open()
    stage.server.accept().end()
    stage.driver.state("waiting")
    stage.driver.ask("close")
    stage.driver.state("ended", why="closed")
    equal(stage.settle(), None, "no timer is left")


# ---- bytes that are wrong, missing or broken off -------------------------------------------------


def an_unknown_opcode_is_skipped(stage):
    stage.open()
    link = stage.bind()
    link.send(bytes([0, 7, 0, 99]), bytes.fromhex("000701120000000403ff0100"), stage.msg(1))
    equal(link.expect(MSG_ACK).ids, [1], "the connection goes on, without an answer")


def a_malformed_frame_closes_the_connection(stage):
    for vector in stage.vectors["bad"]:
        if "frame_bytes_max" in vector:
            continue
        stage.open()
        link = stage.server.accept()
        link.expect(BIND)
        if vector.get("when") != "bind":
            link.send(stage.bind_ack())
            stage.driver.state("bound")
        link.send(bytes.fromhex(vector["bytes"]))
        equal(link.until_closed(), [], f"{vector['name']}: nothing more is sent")
        event = stage.driver.state("waiting")
        equal(event["why"], vector["fault"], vector["name"])
        stage.kill()


def a_push_before_the_bind_is_answered_is_out_of_order(stage):
    stage.open()
    link = stage.server.accept()
    link.expect(BIND)
    link.send(stage.msg(1))
    link.until_closed()
    stage.driver.state("waiting", why="out_of_order")
    equal(stage.pushes(), [], "it is not handed out")


def frames_come_byte_by_byte(stage):
    stage.open()
    link = stage.server.accept()
    link.expect(BIND)
    for byte in stage.bind_ack() + stage.msg(1) + stage.msg(2, 3):
        link.send(bytes([byte]))
    stage.driver.state("bound")
    got = link.expect(MSG_ACK).ids
    while len(got) < 3:
        got += link.expect(MSG_ACK).ids
    equal(got, [1, 2, 3], "acknowledged")


class _Server:
    """A server that remembers what was acknowledged, as the real one does."""

    def __init__(self, stage):
        self.stage, self.waiting, self.taken, self.handed = stage, {}, set(), []
        self.count = 0

    def push(self):
        self.count += 1
        self.waiting[self.count] = False

    def session(self):
        """The messages for a device that binds: everything unacknowledged."""
        frames = self.stage.bind_ack(resumed=self.count > 1)
        for ident, sent in self.waiting.items():
            frames += self.stage.msg(ident, dup=sent, body=b"body %d" % ident)
            self.waiting[ident] = True
        return frames

    def acknowledged(self, frames):
        for frame in frames:
            if frame.opcode == MSG_ACK:
                for ident in frame.ids:
                    self.waiting.pop(ident, None)

    def finish(self):
        """A session that is not broken; each push must have come once by then."""
        link = self.stage.server.accept()
        link.expect(BIND)
        link.send(self.session())
        while self.waiting:
            self.acknowledged([link.expect(MSG_ACK)])
        self.stage.settle()
        self.handed += self.stage.pushes()
        equal(sorted(self.handed), list(range(1, self.count + 1)), "each push, once")


def a_session_broken_behind_every_byte_loses_and_doubles_nothing(stage):
    stage.open(**HMAC)
    server, at, length = _Server(stage), 0, 1
    while at <= length:
        server.push()
        link = stage.server.accept()
        link.expect(BIND)
        data = server.session()
        length = min(len(data), 400)
        link.send(data[:at])
        if at % 2:
            stage.settle()
            server.acknowledged(link.arrived())
            link.reset()
        else:
            link.end()
            server.acknowledged(link.until_closed())
        stage.come_back()
        server.handed += stage.pushes()
        at += 1
    server.finish()


def acknowledgements_broken_behind_every_byte_lose_and_double_nothing(stage):
    stage.open(**HMAC)
    server = _Server(stage)
    for at in range(60):
        server.push()
        link = stage.server.accept()
        link.expect(BIND)
        link.send(server.session())
        # What the server has read when the connection breaks; the rest never arrives.
        link.buffer = link.at_least(min(at, 17))[:at]
        server.acknowledged(iter(link.take, None))
        link.reset()
        stage.come_back()
        server.handed += stage.pushes()
    server.finish()


# ---- TLS, proxies, WebSocket ---------------------------------------------------------------------


def _pin(stage, certificate):
    digest = hashlib.sha256(stage.certificates.public_key(certificate)).digest()
    return "sha256/" + base64.b64encode(digest).decode()


def _tls(stage, name="push.example", sent=None):
    """A TLS listener, and the options of a client that trusts it. `sent`: a file of certificates
    that the server sends in place of its own alone."""
    certificate, key = stage.certificates.server(name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sent or certificate, key)
    stage.server = stage.listen(lambda stream: context.wrap_socket(stream, server_side=True))
    return certificate, {"ca": stage.certificates.authority()[0], "name": "push.example"}


def tls_connects_to_a_server_that_it_trusts(stage):
    _, tls = _tls(stage)
    stage.open(tls=tls)
    link = stage.bind()
    link.send(stage.msg(1))
    equal(link.expect(MSG_ACK).ids, [1], "acknowledged")


def tls_refuses_another_authority_and_another_name(stage):
    _, tls = _tls(stage)
    for wrong in ({**tls, "ca": stage.certificates.authority("other")[0]},
                  {**tls, "name": "other.example"}):
        stage.open(tls=wrong)
        stage.server.accept()
        stage.driver.state("waiting", why="connect_failed")
        stage.kill()


def tls_keeps_the_name_at_another_address(stage):
    _, tls = _tls(stage)
    first, _ = stage.server, _tls(stage)
    stage.open(addresses=[first.address], tls=tls)
    link = stage.bind(first)
    link.send(wire.frame(REDIRECT, {"result": 33, "addr": [stage.server.address]}))
    stage.bind()


def pins_refuse_a_certificate_that_the_authority_has_issued(stage):
    certificate, tls = _tls(stage)
    stage.open(tls={**tls, "pins": [_pin(stage, stage.certificates.server("other.example")[0])]})
    link = stage.server.accept()  # none if the library breaks off the handshake
    check(link is None or link.until_closed() == [], "nothing is sent")
    stage.driver.state("waiting", why="pin_mismatch")
    stage.kill()
    other = _pin(stage, stage.certificates.server("other.example")[0])
    stage.open(tls={**tls, "pins": [other, _pin(stage, certificate)]})
    stage.bind()


def pins_ignore_certificates_whose_keys_the_server_does_not_prove(stage):
    other = stage.certificates.server("other.example")[0]
    _, tls = _tls(stage, sent=stage.certificates.together("push.example", "other.example"))
    stage.open(tls={**tls, "pins": [_pin(stage, other)]})
    link = stage.server.accept()
    check(link is None or link.until_closed() == [], "nothing is sent")
    stage.driver.state("waiting", why="pin_mismatch")


def _proxy(stage, kind, user, accepts=True):
    proxy = streams.Proxy(kind, user, accepts)
    stage.exits.callback(proxy.close)
    return proxy


def _a_proxy_is_used(stage, kind, user):
    proxy = _proxy(stage, kind, user)
    stage.open(proxy=proxy.url, **HMAC)
    link = stage.bind()
    link.send(stage.msg(1))
    equal(link.expect(MSG_ACK).ids, [1], "acknowledged")
    equal(proxy.targets, [stage.server.address], "through the proxy")


def socks5_without_a_password(stage):
    _a_proxy_is_used(stage, "socks5", None)


def socks5_with_a_password(stage):
    _a_proxy_is_used(stage, "socks5", ("ann", "pass word"))


def http_connect_without_a_password(stage):
    _a_proxy_is_used(stage, "http", None)


def http_connect_with_a_password(stage):
    _a_proxy_is_used(stage, "http", ("ann", "pass word"))


def _a_refusing_proxy(stage, kind):
    proxy = _proxy(stage, kind, ("ann", "pass word"), accepts=False)
    stage.open(proxy=proxy.url)
    stage.driver.state("waiting", why=stage.unreachable)
    check(stage.server.is_quiet(), "it does not go around the proxy")


def socks5_that_refuses_is_a_failed_connection(stage):
    _a_refusing_proxy(stage, "socks5")


def http_connect_that_refuses_is_a_failed_connection(stage):
    _a_refusing_proxy(stage, "http")


def a_token_is_not_shown_through_a_proxy_without_tls(stage):
    # The address is one of the proxy's machine, whatever it looks like.
    try:
        stage.open(proxy=_proxy(stage, "socks5", None).url, token="open sesame")
    except Failure as refused:
        check("TLS" in str(refused), "refused when the client is made")
    else:
        stage.driver.state("waiting", why="insecure")
        link = stage.server.accept()
        check(link is None or link.until_closed() == [], "nothing is sent")


def a_failed_connection_says_why_in_the_systems_words(stage):
    stage.server.close()
    stage.open()
    check(stage.driver.state("waiting", why=stage.unreachable)["detail"], "nobody listens")


def a_failed_verification_says_why_in_the_librarys_words(stage):
    _, tls = _tls(stage)
    stage.open(tls={**tls, "ca": stage.certificates.authority("other")[0]})
    stage.server.accept()
    detail = stage.driver.state("waiting", why=stage.unreachable)["detail"].lower()
    check("certificate" in detail or "certification" in detail, f"not of certificates: {detail}")


def websocket_carries_the_same_bytes(stage):
    stage.server = stage.listen(streams.websocket)
    stage.open(addresses=[f"ws://{stage.server.address}/miop"], **HMAC)
    link = stage.bind()
    link.send(stage.msg(1))
    equal(link.expect(MSG_ACK).ids, [1], "acknowledged")
    link.end()
    stage.come_back()
    link = stage.server.accept()
    link.expect(BIND)
    for byte in stage.bind_ack(resumed=True) + stage.msg(2):
        link.send(bytes([byte]))
    equal(link.expect(MSG_ACK).ids, [2], "the boundaries of messages mean nothing")


def nothing_is_acknowledged_that_is_not_stored(stage):
    stage.open()
    link = stage.bind()
    stage.driver.ask("break_store", broken=True)
    link.send(stage.msg(1))
    stage.driver.frame(MSG)
    stage.settle()
    equal(link.arrived(), [], "no acknowledgement")
    stage.driver.ask("break_store", broken=False)
    link.send(stage.msg(1, dup=True))
    equal(link.expect(MSG_ACK).ids, [1], "when it is stored")
    stage.driver.frame(MSG)
    equal(stage.pushes(), [1], "and it was handed out once")
    stage.open(state=stage.kill())
    link = stage.bind(resumed=True)
    link.send(stage.msg(1, dup=True))
    equal(link.expect(MSG_ACK).ids, [1], "acknowledged again")
    equal(stage.pushes(), [], "and not handed out again")


NEEDS = {
    "break_store": [nothing_is_acknowledged_that_is_not_stored],
    "tls": [tls_connects_to_a_server_that_it_trusts, tls_refuses_another_authority_and_another_name,
            tls_keeps_the_name_at_another_address],
    "pins": [pins_refuse_a_certificate_that_the_authority_has_issued,
             pins_ignore_certificates_whose_keys_the_server_does_not_prove],
    "detail": [a_failed_connection_says_why_in_the_systems_words],
    "detail+tls": [a_failed_verification_says_why_in_the_librarys_words],
    "socks5": [a_token_is_not_shown_through_a_proxy_without_tls,
               socks5_without_a_password, socks5_with_a_password,
               socks5_that_refuses_is_a_failed_connection],
    "http_connect": [http_connect_without_a_password, http_connect_with_a_password,
                     http_connect_that_refuses_is_a_failed_connection],
    "websocket": [websocket_carries_the_same_bytes],
}

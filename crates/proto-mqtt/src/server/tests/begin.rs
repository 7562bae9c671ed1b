//! CONNECT, what the broker is asked, and CONNACK in the words of each version.

use super::harness::{BIND_MS, SESSION, ServerHarness, connected, denied};
use crate::codec::block::Block;
use crate::codec::connect::{Connect, WillFields};
use crate::codec::property::Property;
use crate::codec::{Qos, Terms, Version};
use crate::server::{ListenerProfile, Server};
use base::hash::HashKey;
use base::time::Now;
use model::close::CloseReason;
use model::counters::TopicCounter;
use model::limits::Limits;
use model::link::{Link, Protocol, TlsFacts};
use model::machine::{Input, Machine, OtherServer, Outbox, TurnAway};
use model::request::Refusal;
use model::session::{Connected, Denial, Denied, SessionDelivery as Down, SessionRequest as Up};
use std::time::Duration;

fn asked(harness: &mut ServerHarness) -> model::session::ConnectRequest {
    match harness.word() {
        Up::Connect(connect) => *connect,
        other => panic!("{other:?}"),
    }
}

fn yes() -> Down {
    Down::Connected(Box::new(connected()))
}

#[test]
fn a_plain_connect_is_asked_at_home_and_answered() {
    for version in Version::ALL {
        let mut harness = ServerHarness::strict();
        harness.connect(&Connect { keep_alive_s: 60, ..Connect::of(version, "d") });
        assert_eq!(harness.homes.len(), 1, "it asks for its home once");
        let words = asked(&mut harness);
        assert_eq!((words.protocol, &*words.client_id), (version.name(), "d"));
        assert_eq!((words.clean_start, words.expiry_s), (true, 0));
        assert_eq!((words.keep_alive_s, words.receive_max), (60, 65_535));
        assert_eq!((words.will, words.user, words.password), (None, None, None));
        assert!(harness.sent.is_empty(), "nothing is said before the broker has answered");
        harness.tell(Down::Connected(Box::new(Connected { keep_alive_s: 60, ..connected() })));
        let line = match version {
            Version::V5 => {
                "connack reason=success {receive_maximum=1000, maximum_packet_size=1048576, \
                 topic_alias_maximum=16}"
            }
            _ => "connack reason=success",
        };
        assert_eq!(harness.sent, [line]);
        assert_eq!(harness.silence_ms, Some(90_000), "one and a half keep-alives");
        harness.close(CloseReason::PeerReset);
        let reason = CloseReason::PeerReset;
        assert_eq!(harness.word(), Up::Closed { session: SESSION, reason });
        assert_eq!(harness.packets, (1, 1));
    }
}

#[test]
fn a_session_that_is_kept_before_5_lasts_for_ever() {
    let mut harness = ServerHarness::strict();
    harness.connect(&Connect { clean_start: false, ..Connect::of(Version::V311, "d") });
    let words = asked(&mut harness);
    assert_eq!((words.clean_start, words.expiry_s), (false, u32::MAX));
    harness.tell(Down::Connected(Box::new(Connected { present: true, ..connected() })));
    assert_eq!(harness.sent, ["connack session_present reason=success"]);
    let mut old = ServerHarness::strict();
    old.connect(&Connect { clean_start: false, ..Connect::of(Version::V31, "d") });
    old.tell(Down::Connected(Box::new(Connected { present: true, ..connected() })));
    assert_eq!(old.sent, ["connack reason=success"], "3.1 has no Session Present");
}

#[test]
fn a_session_of_5_lasts_as_long_as_is_said() {
    for (said, expiry_s) in [(None, 0), (Some(0), 0), (Some(30), 30), (Some(u32::MAX), u32::MAX)] {
        let said: Vec<_> = said.map(Property::SessionExpiry).into_iter().collect();
        let block = Block::of(&said).expect("short");
        let mut harness = ServerHarness::strict();
        let properties = block.properties();
        let connect = Connect { clean_start: false, properties, ..Connect::of(Version::V5, "d") };
        harness.connect(&connect);
        assert_eq!(asked(&mut harness).expiry_s, expiry_s);
    }
}

#[test]
fn everything_in_a_connect_reaches_the_broker() {
    let will = Block::of(&[
        Property::WillDelay(7),
        Property::PayloadFormat(1),
        Property::MessageExpiry(9),
        Property::UserProperty(("a", "b")),
        Property::UserProperty(("a", "a")),
    ]);
    let block = Block::of(&[
        Property::ReceiveMaximum(20),
        Property::AuthMethod("m"),
        Property::AuthData(b"first"),
        Property::RequestResponse(1),
    ]);
    let (will, block) = (will.expect("short"), block.expect("short"));
    let mut harness = ServerHarness::strict();
    harness.link.tls = Some(TlsFacts { identity: Some("cn".into()), ..TlsFacts::default() });
    harness.link.door = 3;
    harness.link.crowded = true;
    harness.connect(&Connect {
        user_name: Some("u"),
        password: Some(b"p"),
        properties: block.properties(),
        will: Some(WillFields {
            qos: Qos::ExactlyOnce,
            retain: true,
            properties: will.properties(),
            topic: "w",
            payload: b"gone",
        }),
        ..Connect::of(Version::V5, "d")
    });
    let words = asked(&mut harness);
    assert_eq!((words.user.as_deref(), words.password.as_deref()), (Some("u"), Some(&b"p"[..])));
    assert_eq!((words.receive_max, words.wants_response_information), (20, true));
    assert_eq!(words.method, Some(("m".into(), b"first"[..].into())));
    assert_eq!((words.certificate.as_deref(), words.tls), (Some("cn"), true));
    assert_eq!((words.door, words.crowded), (3, true));
    let will = words.will.expect("it has one");
    assert_eq!((will.delay_s, will.expiry_s), (7, 9));
    let message = &*will.message;
    assert_eq!((message.topic(), message.payload()), ("w", &b"gone"[..]));
    assert_eq!((message.qos, message.retain, message.expire_at), (Qos::ExactlyOnce, true, 0));
    let passed = b"\x01\x01\x26\x00\x01a\x00\x01b\x26\x00\x01a\x00\x01a";
    assert_eq!(message.properties(), passed, "in order, without delay and expiry");
}

#[test]
fn a_connack_tells_what_differs_from_what_was_asked() {
    let block = Block::of(&[Property::SessionExpiry(100), Property::RequestResponse(1)]);
    let block = block.expect("short");
    let properties = block.properties();
    let mut harness = ServerHarness::strict();
    harness.limits.topics.topic_alias_max = 0;
    harness.limits.topics.packet_bytes_max = 5_000;
    harness.connect(&Connect { keep_alive_s: 600, properties, ..Connect::of(Version::V5, "") });
    assert!(harness.homes.is_empty(), "one without a name has its home where it is");
    assert!(asked(&mut harness).clean_start);
    harness.tell(Down::Connected(Box::new(Connected {
        assigned: Some("given".into()),
        keep_alive_s: 60,
        expiry_s: 50,
        receive_max: 65_535,
        response_information: Some("answers/".into()),
        ..connected()
    })));
    let line = "connack reason=success {session_expiry=50, maximum_packet_size=5000, \
                assigned_client_id=\"given\", server_keep_alive=60, \
                response_information=\"answers/\"}";
    assert_eq!(harness.sent, [line]);
    assert_eq!(harness.silence_ms, Some(90_000), "the server's keep-alive holds");
}

#[test]
fn nobody_is_told_of_responses_who_did_not_ask() {
    let mut harness = ServerHarness::strict();
    harness.connect(&Connect::of(Version::V5, "d"));
    let response_information = Some("answers/".into());
    harness.tell(Down::Connected(Box::new(Connected { response_information, ..connected() })));
    assert!(!harness.sent[0].contains("response_information"), "{:?}", harness.sent);
}

#[test]
fn a_keep_alive_of_zero_means_any_silence() {
    let mut harness = ServerHarness::strict();
    harness.connect(&Connect::of(Version::V311, "d"));
    harness.tell(yes());
    assert_eq!(harness.silence_ms, Some(0));
    for (keep_alive_s, silence_ms) in [(1, 1_500), (3, 4_500), (65_535, 98_302_500)] {
        let mut harness = ServerHarness::strict();
        harness.connect(&Connect { keep_alive_s, ..Connect::of(Version::V311, "d") });
        harness.tell(Down::Connected(Box::new(Connected { keep_alive_s, ..connected() })));
        assert_eq!(harness.silence_ms, Some(silence_ms));
    }
}

#[test]
fn what_is_sent_behind_a_connect_waits_for_its_answer() {
    let mut harness = ServerHarness::strict();
    harness.connect(&Connect::of(Version::V311, "d"));
    harness.hear(b"\x30\x05\x00\x01axy\xc0\x00\x82\x06\x00\x01\x00\x01a");
    assert_eq!(harness.take_words().len(), 1, "nothing but Connect is said");
    assert!(harness.held && harness.sent.is_empty());
    harness.hear(b"\x01");
    harness.tell(yes());
    assert!(!harness.held);
    let words = harness.take_words();
    assert!(matches!(words[..], [Up::Publish { .. }, Up::Subscribe(_)]), "{words:?}");
    assert_eq!(harness.sent, ["connack reason=success", "pingresp"]);
    assert_eq!((harness.untaken(), harness.packets), (0, (4, 2)));
}

#[test]
fn what_is_sent_behind_a_refused_connect_is_not_processed() {
    for version in Version::ALL {
        let mut harness = ServerHarness::strict();
        harness.connect(&Connect::of(version, "d"));
        harness.hear(b"\xc0\x00\x30\x05\x00\x01axy\xe0\x00");
        harness.take_words();
        harness.tell(Down::Refused(denied(Denial::NotAuthorized)));
        assert_eq!(harness.sent, ["connack reason=not_authorized"]);
        assert!(harness.words.is_empty() && harness.ended.is_some());
    }
}

#[test]
fn a_refusal_is_told_in_the_words_of_the_version() {
    let table = [
        (Denial::BadCredentials, 4, "bad_user_name_or_password"),
        (Denial::NotAuthorized, 5, "not_authorized"),
        (Denial::ClientIdInvalid, 2, "client_identifier_not_valid"),
        (Denial::Unavailable, 3, "server_unavailable"),
        (Denial::Busy, 3, "server_busy"),
        (Denial::Full, 3, "quota_exceeded"),
        (Denial::Banned, 5, "banned"),
        (Denial::BadMethod, 5, "bad_authentication_method"),
        (Denial::ShuttingDown, 3, "server_unavailable"),
        (Denial::UseAnother, 3, "use_another_server"),
    ];
    for (why, code, name) in table {
        let mut harness = ServerHarness::strict();
        harness.connect(&Connect::of(Version::V311, "d"));
        harness.tell(Down::Refused(denied(why)));
        assert_eq!(harness.wire, [0x20, 2, 0, code], "{why:?}");
        assert_eq!(harness.ended, Some(CloseReason::AuthFailed));
        assert_eq!(harness.take_words().len(), 1, "the broker knows how it ended");
        let mut harness = ServerHarness::strict();
        harness.connect(&Connect::of(Version::V5, "d"));
        harness.tell(Down::Refused(denied(why)));
        assert_eq!(harness.sent, [format!("connack reason={name}")], "{why:?}");
    }
    let mut harness = ServerHarness::strict();
    harness.connect(&Connect::of(Version::V311, "d"));
    harness.tell(Down::Refused(denied(Denial::Unspecified)));
    assert!(harness.wire.is_empty(), "3.1.1 has no code for it: the connection just ends");
}

#[test]
fn a_refusal_may_have_words_and_another_server() {
    let mut harness = ServerHarness::strict();
    harness.connect(&Connect::of(Version::V5, "d"));
    harness.tell(Down::Refused(Box::new(Denied {
        text: Some("not here".into()),
        server: Some("b:1883".into()),
        ..Denied::of(Denial::Moved, CloseReason::Redirected)
    })));
    let line = "connack reason=server_moved {server_reference=\"b:1883\", \
                reason_string=\"not here\"}";
    assert_eq!(harness.sent, [line]);
    assert_eq!(harness.ended, Some(CloseReason::Redirected));
}

#[test]
fn one_who_says_nothing_ends_and_hears_nothing() {
    let mut harness = ServerHarness::strict();
    harness.pass(Duration::from_millis(u64::from(BIND_MS) - 1));
    assert_eq!(harness.ended, None);
    harness.hear(b"\x10");
    harness.pass(Duration::from_millis(1));
    assert_eq!((harness.ended, harness.wire.len()), (Some(CloseReason::BindTimeout), 0));
    assert!(harness.words.is_empty());
}

#[test]
fn a_wake_after_a_move_asks_again() {
    let mut harness = ServerHarness::strict();
    assert_eq!(harness.wakes().len(), 1);
    harness.wake();
    assert_eq!((harness.ended, harness.wakes().len()), (None, 2));
    let mut harness = ServerHarness::strict().bound(Version::V5);
    let before = harness.wakes().len();
    harness.wake();
    assert_eq!(
        (harness.ended, harness.wakes().len()),
        (None, before),
        "one who is bound waits for none"
    );
}

#[test]
fn a_broker_that_does_not_answer_is_not_waited_for_for_ever() {
    for (version, wire) in
        [(Version::V5, &[0x20, 3, 0, 0x88, 0][..]), (Version::V311, &[0x20, 2, 0, 3])]
    {
        let mut harness = ServerHarness::strict();
        harness.connect(&Connect::of(version, "d"));
        harness.take_words();
        harness.pass(Duration::from_secs(3_600));
        assert_eq!((harness.ended, &*harness.wire), (Some(CloseReason::BindTimeout), wire));
        assert_eq!(harness.word(), Up::Gone);
    }
}

#[test]
fn one_who_goes_while_the_broker_thinks_is_gone() {
    let mut harness = ServerHarness::strict();
    harness.connect(&Connect::of(Version::V5, "d"));
    harness.take_words();
    harness.close(CloseReason::PeerClosed);
    assert_eq!(harness.word(), Up::Gone);
}

#[test]
fn one_who_is_turned_away_is_told_so() {
    let away = |why| TurnAway::of(why, 1_000);
    let mut harness = ServerHarness::strict();
    harness.turn_away(away(Refusal::Busy), CloseReason::Busy);
    assert!(harness.wire.is_empty(), "before CONNECT nothing is said");
    let mut harness = ServerHarness::strict();
    harness.connect(&Connect::of(Version::V311, "d"));
    harness.turn_away(away(Refusal::Draining), CloseReason::Draining);
    assert_eq!(harness.wire, [0x20, 2, 0, 3]);
    let mut harness = ServerHarness::strict().bound(Version::V5);
    harness.turn_away(away(Refusal::Draining), CloseReason::Draining);
    assert_eq!(harness.sent, ["disconnect reason=server_shutting_down"]);
    let mut harness = ServerHarness::strict().bound(Version::V5);
    harness.turn_away(away(Refusal::Busy), CloseReason::Busy);
    assert_eq!(harness.sent, ["disconnect reason=server_busy"]);
    let mut harness = ServerHarness::strict().bound(Version::V311);
    harness.turn_away(away(Refusal::Draining), CloseReason::Draining);
    assert!(harness.wire.is_empty(), "before 5.0 a server has no such packet");
}

#[test]
fn one_who_is_turned_away_to_another_server_is_told_which_if_the_listener_says_so() {
    let away = |denial| {
        let server = Some(OtherServer { address: "b:1883", denial });
        TurnAway { server, ..TurnAway::of(Refusal::Draining, 1_000) }
    };
    let mut harness = ServerHarness::strict().bound(Version::V5);
    harness.turn_away(away(Some(Denial::UseAnother)), CloseReason::Draining);
    let end = b"\xe0\x0b\x9c\x09\x1c\x00\x06b:1883";
    assert_eq!(harness.wire, end);
    let mut harness = ServerHarness::strict().bound(Version::V5);
    harness.turn_away(away(None), CloseReason::Draining);
    assert_eq!(harness.sent, ["disconnect reason=server_shutting_down"]);
    let mut harness = ServerHarness::strict();
    harness.connect(&Connect::of(Version::V311, "d"));
    harness.turn_away(away(Some(Denial::Moved)), CloseReason::Draining);
    assert_eq!(harness.wire, [0x20, 2, 0, 3]);
}

#[test]
fn one_whose_shard_has_no_room_is_told_in_its_own_words() {
    for (version, wire) in
        [(Version::V5, &[0x20, 3, 0, 0x89, 0][..]), (Version::V31, &[0x20, 2, 0, 3])]
    {
        let mut bytes = Vec::new();
        Connect::of(version, "d").write(&Terms::of(version), &mut bytes).expect("it fits");
        let (now, link, limits) =
            (Now::default(), Link::loopback(Protocol::Mqtt), Limits::default());
        let mut machine = Server::new(ListenerProfile::strict(BIND_MS));
        let mut out = Outbox::new(HashKey::new(1, 2), [0; 32]);
        machine.opened(now, &link, &mut out).expect("it waits");
        let mut input = Input::new(&bytes, &link, &limits);
        machine.receive(now, &mut input, &mut out).expect("it asks for its home");
        assert_eq!((input.taken(), out.take_home().is_some()), (0, true));
        let away = TurnAway::of(Refusal::Busy, 1_000);
        machine.turn_away(now, away, &mut out);
        machine.closed(now, CloseReason::Busy, &mut out);
        assert_eq!(out.bytes(), wire);
        assert!(!out.has_words(), "the broker never heard of it");
    }
}

#[test]
fn an_old_device_is_let_pass_and_counted() {
    let mut harness = ServerHarness::lenient();
    let connect = Connect { clean_start: false, ..Connect::of(Version::V311, "") };
    harness.connect(&connect);
    let words = asked(&mut harness);
    assert_eq!((words.clean_start, words.expiry_s), (true, 0), "nobody can come back to it");
    assert_eq!(harness.counts, [TopicCounter::TolerateClientId]);
    let mut harness = ServerHarness::lenient();
    harness.connect(&Connect::of(Version::V31, "a-client-identifier-of-27-b"));
    harness.tell(yes());
    assert_eq!(
        harness.counts,
        [TopicCounter::TolerateClientId],
        "counted once, though decoded twice"
    );
    let mut harness = ServerHarness::lenient();
    harness.connect(&Connect { is_bridge: true, ..Connect::of(Version::V311, "b") });
    assert!(asked(&mut harness).is_bridge);
    assert_eq!(harness.counts, [TopicCounter::TolerateBridgeBit]);
    let mut harness = ServerHarness::strict();
    harness.connect(&connect);
    assert_eq!(harness.wire, [0x20, 2, 0, 2]);
    assert_eq!(harness.ended, Some(CloseReason::AuthFailed));
}

#[test]
fn a_will_that_is_not_what_it_says_is_refused_unless_lenient() {
    let block = Block::of(&[Property::PayloadFormat(1)]).expect("short");
    let (qos, properties) = (Qos::AtMostOnce, block.properties());
    let will = WillFields { qos, retain: false, properties, topic: "w", payload: b"\xff" };
    let connect = Connect { will: Some(will), ..Connect::of(Version::V5, "") };
    let mut harness = ServerHarness::strict();
    harness.connect(&connect);
    assert_eq!(harness.sent, ["connack reason=payload_format_invalid"]);
    let mut harness = ServerHarness::lenient();
    harness.connect(&connect);
    assert!(asked(&mut harness).will.is_some());
}

#[test]
fn a_connect_has_a_size_of_its_own() {
    let password = vec![7; 40_000];
    let connect = Connect {
        user_name: Some("u"),
        password: Some(&password),
        ..Connect::of(Version::V5, "d")
    };
    let mut harness = ServerHarness::strict();
    harness.limits.topics.connect_bytes_max = 32 * 1024;
    harness.connect(&connect);
    assert_eq!((harness.ended, harness.untaken()), (Some(CloseReason::TooLarge), 40_023));
    assert_eq!(harness.sent, ["connack reason=packet_too_large"]);
    let mut harness = ServerHarness::strict();
    harness.limits.topics.connect_bytes_max = 50_000;
    harness.connect(&connect);
    assert_eq!(asked(&mut harness).password.map(|p| p.len()), Some(40_000));
    for (connect_bytes_max, ended) in [(40_023, None), (40_022, Some(CloseReason::TooLarge))] {
        let mut harness = ServerHarness::strict();
        harness.limits.topics.connect_bytes_max = connect_bytes_max;
        // What a bound client may send is another limit.
        harness.limits.topics.packet_bytes_max = 1_000;
        harness.connect(&connect);
        assert_eq!((harness.ended, harness.words.len()), (ended, usize::from(ended.is_none())));
    }
}

#[test]
fn a_client_that_does_not_take_its_own_connack_cannot_be_served() {
    let block = Block::of(&[Property::MaximumPacketSize(8)]).expect("short");
    let properties = block.properties();
    let mut harness = ServerHarness::strict();
    harness.connect(&Connect { properties, ..Connect::of(Version::V5, "d") });
    harness.tell(yes());
    assert_eq!((harness.ended, harness.wire.len()), (Some(CloseReason::TooLarge), 0));
    let session = Some(Up::Closed { session: SESSION, reason: CloseReason::TooLarge });
    assert_eq!(harness.take_words().pop(), session, "the broker thinks that it is bound");
}

#[test]
fn strict_text_is_a_listeners_choice() {
    let mut harness = ServerHarness::open(ListenerProfile {
        strict_text: true,
        ..ListenerProfile::strict(BIND_MS)
    });
    harness.connect(&Connect { user_name: Some("a\u{7}"), ..Connect::of(Version::V5, "d") });
    assert_eq!(harness.sent, ["connack reason=malformed_packet"]);
    let mut harness = ServerHarness::strict();
    harness.connect(&Connect { user_name: Some("a\u{7}"), ..Connect::of(Version::V5, "d") });
    assert_eq!(asked(&mut harness).user.as_deref(), Some("a\u{7}"));
}

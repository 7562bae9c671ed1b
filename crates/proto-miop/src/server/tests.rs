//! The server machine alone: vectors, order, several Binds, what classic devices are told.

use super::*;
use crate::codec::property::cap;
use base::time::Instant;
use model::id::{DeviceId, MessageId, ShardId};
use model::link::{Protocol, TlsFacts};
use model::machine::{OtherServer, TurnAway};
use model::push::Priority;
use model::request::Proof;
use testkit::pair::{PairSide, WALL_MS};
use testkit::vector;

const BAD: &str = include_str!("../../vectors/1-malformed.txt");
const GOOD: &str = include_str!("../../vectors/2-frames.txt");
const BIND_MS_MAX: u32 = 10_000;

fn now() -> Now {
    Now::new(Instant::from_nanos(1_000_000_000), WALL_MS)
}

fn device(n: u32) -> DeviceRef {
    DeviceRef::new(ShardId(n as u16), base::slab::Key { slot: n, generation: 1 })
}

fn fresh() -> PairSide<Server> {
    let mut side = PairSide::new(Server::new(BIND_MS_MAX), Link::loopback(Protocol::Miop));
    assert!(side.open(now()).is_empty(), "the device speaks first");
    side
}

fn yes(term: u16) -> PushDelivery {
    PushDelivery::Bound(Box::new(Bound {
        term,
        device: device(u32::from(term) + 1),
        epoch: 9,
        resumed: false,
        token: [3; 32],
        heartbeat_s: 300,
        inflight_max: 32,
        ack_ms: 10_000,
        offline_count: 0,
        server_ms: WALL_MS,
        frame_bytes_max: 65_536,
        app_id: 1,
    }))
}

fn no(term: u16, why: Refusal) -> PushDelivery {
    let addrs = vec!["10.0.0.2:7070".to_owned()];
    PushDelivery::Refused(Box::new(Refused { term, why, retry_after_ms: 500, addrs, who: None }))
}

fn kick(term: u16, why: Refusal) -> PushDelivery {
    let addrs = vec!["10.0.0.2:7070".to_owned()];
    PushDelivery::Kick(Box::new(Kick { term, why, epoch: 10, retry_after_ms: 0, addrs }))
}

fn bind_bytes(version: u8) -> Vec<u8> {
    match version {
        7 => vector::bytes(r#"00 07 01 02 00 00 00 07 06 01 01 "d" 02 01 "p""#),
        _ => {
            let mut bytes = vec![0, version, 0, 2, 0, 5];
            bytes.extend_from_slice(b"u:a@1");
            Some(bytes)
        }
    }
    .expect("bytes")
}

/// A side whose only device is bound.
fn bound(version: u8) -> PairSide<Server> {
    let mut side = fresh();
    side.hear(now(), &bind_bytes(version));
    assert!(matches!(side.take_words_as::<PushRequest>().as_slice(), [PushRequest::Bind(_)]));
    side.tell(now(), yes(0));
    assert_eq!(side.silence_ms, 450_000);
    side
}

fn in_state(state: Option<&str>) -> PairSide<Server> {
    match state {
        Some("bound5") => bound(5),
        Some("bound6") => bound(6),
        Some("bound7") => bound(7),
        None | Some("fresh") => fresh(),
        Some(other) => panic!("no state {other}"),
    }
}

/// A version 5 frame with properties.
fn five(opcode: u8, props: &str) -> Vec<u8> {
    let mut frame = vec![0, 5, 0, opcode, 0, props.len() as u8];
    frame.extend_from_slice(props.as_bytes());
    frame
}

fn push(id: u64, body: &[u8]) -> Arc<Push> {
    Arc::new(Push {
        id: MessageId(id),
        product: ProductKey::parse("1").expect("a name"),
        app_id: 1,
        body: body.into(),
        collapse: Some("key".into()),
        expire_at: 77,
        priority: Priority::High,
        silent: true,
        notifies: false,
    })
}

/// Result code and word of the ERROR that `bytes` are, whole.
fn error_said(bytes: &[u8]) -> (u8, String) {
    let (frame, length) = frame::parse(bytes, 65_536).expect("ours").expect("whole");
    assert_eq!((frame.opcode, length), (Opcode::Error, bytes.len()));
    let word = frame.props.reason.expect("an ERROR has a reason").to_vec();
    let word = String::from_utf8(word).expect("a word");
    (frame.props.result.expect("an ERROR has a result"), word)
}

#[test]
fn every_malformed_vector_ends_as_it_says() {
    let ours = |v: &vector::Vector| v.text("side") != Some("device");
    for vector in vector::read(BAD).into_iter().filter(ours) {
        let name = &vector.name;
        for whole in [true, false] {
            let mut side = in_state(vector.text("state"));
            let bytes = vector.bytes("bytes");
            let step = if whole { bytes.len() } else { 1 };
            let sent: Vec<u8> = bytes.chunks(step).flat_map(|b| side.hear(now(), b)).collect();
            assert_eq!(side.ended.map(CloseReason::name), vector.text("close"), "{name}");
            match vector.text("error") {
                Some(code) => {
                    let expect = vector.need("expect");
                    let fault = vector.text("fault").or(expect.strip_prefix("error "));
                    let said = error_said(&sent);
                    assert_eq!(said.0.to_string(), code, "{name}");
                    assert_eq!(Some(said.1.as_str()), fault, "{name}");
                }
                None => assert!(sent.is_empty(), "{name}: {sent:02x?}"),
            }
            let words = side.take_words_as::<PushRequest>();
            let was_bound = vector.text("state").is_some_and(|state| state != "fresh");
            let told = matches!(words.as_slice(), [PushRequest::Closed { .. }]);
            assert_eq!(told, was_bound && side.ended.is_some(), "{name}: {words:?}");
        }
    }
}

#[test]
fn every_good_vector_is_answered_as_it_says() {
    let ours = |v: &vector::Vector| v.text("side") != Some("device");
    for vector in vector::read(GOOD).into_iter().filter(ours) {
        let name = &vector.name;
        let mut side = in_state(vector.text("state"));
        let bytes = vector.bytes("bytes");
        let sent: Vec<u8> = bytes.chunks(1).flat_map(|b| side.hear(now(), b)).collect();
        assert_eq!(side.ended, None, "{name}");
        let answer = vector.text("answer").map_or(Vec::new(), |_| vector.bytes("answer"));
        assert_eq!(sent, answer, "{name}");
        let said = side.take_words_as::<PushRequest>();
        let said = said.iter().map(|word| match word {
            PushRequest::Bind(_) => "bind",
            PushRequest::Unbind { .. } => "unbind",
            PushRequest::Ack { .. } => "ack",
            PushRequest::Pull { .. } => "pull",
            PushRequest::Report { .. } => "report",
            _ => "other",
        });
        let said: Vec<_> = said.collect();
        match vector.text("asks") {
            Some(word) => assert_eq!(said, [word], "{name}"),
            None => assert!(said.is_empty() || said == ["ack"], "{name}: {said:?}"),
        }
    }
}

#[test]
fn a_bind_says_all_it_says_and_asks_for_its_home_once() {
    let props = Props {
        device_id: Some(b"dev"),
        product_key: Some(b"pk"),
        client_ts: Some(5),
        heartbeat_wish: Some((300, 60, 900)),
        client_nonce: Some([6; 16]),
        auth_type: Some(1),
        key_id: Some(2),
        mac: Some([7; 32]),
        resume_token: Some([8; 32]),
        last_msg_id: Some(99),
        session_epoch: Some(4),
        caps: Some(cap::PULLS),
        max_inflight: Some(16),
        tags: vec![b"red", b"blue"],
        ..Props::default()
    };
    let mut bytes = Vec::new();
    Frame::new(Opcode::Bind, props).write(&mut bytes);
    let mut side = fresh();
    side.link.crowded = true;
    bytes.iter().for_each(|byte| assert!(side.hear(now(), &[*byte]).is_empty()));
    let key = base::hash::HashKey::new(1, 2);
    assert_eq!(side.homes, [key.of(&[b"pk", b"dev"])]);
    let words = side.take_words_as::<PushRequest>();
    let [PushRequest::Bind(bind)] = words.as_slice() else { panic!("{words:?}") };
    assert_eq!((bind.term, bind.device.as_str(), bind.product.as_str()), (0, "dev", "pk"));
    assert_eq!((bind.protocol, bind.from_loopback, bind.crowded), ("miop7", true, true));
    assert_eq!((bind.heartbeat.want_s, bind.heartbeat.min_s, bind.heartbeat.max_s), (300, 60, 900));
    assert_eq!((bind.inflight_max, bind.last_id, bind.pulls), (16, Some(MessageId(99)), true));
    assert_eq!(bind.resume.as_ref().map(|r| (r.token, r.epoch)), Some(([8; 32], 4)));
    assert_eq!(bind.tags.as_ref().map(Vec::len), Some(2));
    let Proof::Hmac { key_id, signed, mac, nonce, device_ms, challenged } = &bind.proof else {
        panic!("{:?}", bind.proof)
    };
    assert_eq!((*key_id, *mac, *nonce, *device_ms), (2, [7; 32], [6; 16], 5));
    assert!(!challenged);
    let claim = crate::sign::Claim {
        product: b"pk",
        device: b"dev",
        client_ts: 5,
        client_nonce: &[6; 16],
        caps: cap::PULLS,
    };
    assert_eq!(**signed, *claim.bytes());
}

#[test]
fn a_newest_bind_brings_the_proof_it_names() {
    let bind = |auth_type, token: Option<&'static [u8]>| {
        let (device_id, product_key) = (Some(&b"dev"[..]), Some(&b"pk"[..]));
        let props = Props { device_id, product_key, auth_type, token, ..Props::default() };
        let mut bytes = Vec::new();
        Frame::new(Opcode::Bind, props).write(&mut bytes);
        let mut side = fresh();
        side.hear(now(), &bytes);
        match side.take_words_as::<PushRequest>().as_slice() {
            [PushRequest::Bind(bind)] => Some(bind.proof.clone()),
            _ => None,
        }
    };
    assert_eq!(bind(None, None), Some(Proof::None));
    assert_eq!(bind(Some(0), Some(b"jwt")), Some(Proof::None));
    assert_eq!(bind(Some(2), Some(b"jwt")), Some(Proof::Token(b"jwt".as_slice().into())));
    assert_eq!(bind(Some(3), None), Some(Proof::None), "there is no certificate");
    for (kind, token) in [(Some(1), None), (Some(2), None), (Some(4), Some(&b"jwt"[..]))] {
        assert_eq!(bind(kind, token), None, "{kind:?}");
    }
}

#[test]
fn a_classic_bind_brings_its_sign_or_none_and_the_certificate_counts() {
    let sign = "0123456789abcdef0123456789ABCDEF";
    let props = format!("u:a@1\nt:70000\nts:5\nauthtype:7\nsign:{sign}");
    let mut side = fresh();
    side.hear(now(), &five(2, &props));
    let words = side.take_words_as::<PushRequest>();
    let [PushRequest::Bind(bind)] = words.as_slice() else { panic!("{words:?}") };
    let heartbeat = bind.heartbeat;
    assert_eq!((heartbeat.want_s, heartbeat.min_s, heartbeat.max_s), (65_535, 65_535, 65_535));
    let Proof::Classic { signed, device_ms: 5, .. } = &bind.proof else { panic!("{bind:?}") };
    assert_eq!(**signed, *b"u=a@1&ts=5&t=70000");

    let mut side = fresh();
    side.link.tls = Some(TlsFacts { identity: Some("a".into()), ..TlsFacts::default() });
    side.hear(now(), &five(2, "u:a@1"));
    let words = side.take_words_as::<PushRequest>();
    let [PushRequest::Bind(bind)] = words.as_slice() else { panic!("{words:?}") };
    assert_eq!(bind.proof, Proof::Certificate("a".into()));
}

#[test]
fn input_waits_while_a_bind_is_with_the_hub() {
    for version in [5, 6, 7] {
        let mut side = fresh();
        let mut bytes = bind_bytes(version);
        bytes.extend_from_slice(&[0, version, 0, 0]);
        assert!(side.hear(now(), &bytes).is_empty());
        assert_eq!(side.untaken(), [0, version, 0, 0]);
        let sent = side.tell(now(), yes(0));
        assert!(sent.ends_with(&[0, version, 0, 1]), "the heartbeat is answered after the Bind");
        assert!(side.untaken().is_empty());
    }
}

#[test]
fn input_waits_while_an_unbind_is_with_the_hub() {
    for (version, unbind) in [(5, five(5, "u:a@1")), (7, vec![0, 7, 0, 5])] {
        let mut side = bound(version);
        let ping = [0, version, 0, 0];
        side.hear(now(), &[unbind, ping.to_vec()].concat());
        assert_eq!((side.ended, side.untaken()), (None, ping.as_slice()));
        side.tell(now(), PushDelivery::Unbound { term: 0 });
        assert_eq!(side.ended, Some(CloseReason::Unbound));
    }
}

#[test]
fn who_is_of_this_machine_is_told_by_the_link_and_not_by_an_address() {
    for (peer, expected) in [("10.0.0.1:1", true), ("[::1]:1", false), ("127.0.0.1:1", false)] {
        let mut side = fresh();
        side.link.peer = peer.parse().expect("an address");
        side.link.near = expected;
        side.hear(now(), &bind_bytes(7));
        let words = side.take_words_as::<PushRequest>();
        let [PushRequest::Bind(bind)] = words.as_slice() else { panic!("{words:?}") };
        assert_eq!(bind.from_loopback, expected, "{peer}");
    }
}

#[test]
fn a_bind_has_the_address_of_its_connection_though_that_forgets_it() {
    for version in [5, 7] {
        let mut link = Link::loopback(Protocol::Miop);
        let opened = "192.0.2.7:4711".parse().expect("an address");
        link.peer = opened;
        let mut side = PairSide::new(Server::new(BIND_MS_MAX), link);
        assert!(side.open(now()).is_empty(), "the device speaks first");
        side.link.peer = "0.0.0.0:0".parse().expect("an address");
        side.hear(now(), &bind_bytes(version));
        let words = side.take_words_as::<PushRequest>();
        let [PushRequest::Bind(bind)] = words.as_slice() else { panic!("{words:?}") };
        assert_eq!(bind.peer, Some(opened), "version {version}");
    }
}

#[test]
fn a_bind_that_does_not_come_ends_the_connection() {
    let late = Now::new(now().after(Duration::from_secs(11)), WALL_MS);
    for (bytes, told) in [(vec![], false), (vec![0, 6, 0], false), (vec![0, 7, 1], true)] {
        let mut machine = Server::new(BIND_MS_MAX);
        let link = Link::loopback(Protocol::Miop);
        let limits = model::limits::Limits::default();
        let mut out = Outbox::new(base::hash::HashKey::new(1, 2), [0; 32]);
        machine.opened(now(), &link, &mut out).expect("opens");
        let due = now().after(Duration::from_secs(10));
        assert_eq!(out.take_wake(), Some(due));
        let mut input = Input::new(&bytes, &link, &limits);
        machine.receive(now(), &mut input, &mut out).expect("waits");
        machine.wake(now(), &mut out).expect("too early means nothing");
        assert_eq!(out.take_wake(), Some(due), "and is asked for again");
        assert_eq!(machine.wake(late, &mut out), Err(CloseReason::BindTimeout));
        let mut sent = Vec::new();
        std::mem::swap(out.bytes(), &mut sent);
        assert_eq!(!sent.is_empty(), told);
        assert!(!told || error_said(&sent).0 == 44);
    }
    let mut side = bound(7);
    let mut out = Outbox::new(base::hash::HashKey::new(1, 2), [0; 32]);
    assert_eq!(side.machine.wake(late, &mut out), Ok(()), "a bound device need not bind");
    assert!(out.is_empty());
}

#[test]
fn a_silent_device_is_told_in_version_7() {
    for version in [5, 6, 7] {
        let mut side = bound(version);
        let mut out = Outbox::new(base::hash::HashKey::new(1, 2), [0; 32]);
        let end = side.machine.silent(now(), &mut out);
        assert_eq!(end, Err(CloseReason::KeepAliveTimeout));
        assert_eq!(out.bytes().is_empty(), version != 7);
    }
}

#[test]
fn a_refusal_is_said_where_it_does_no_harm() {
    let cases = [
        (5, Refusal::Busy, "id:1\nr:30\naddr0:10.0.0.2:7070"),
        (5, Refusal::AuthFailed, "id:1\nr:20\naddr0:10.0.0.2:7070"),
        (6, Refusal::Busy, ""),
        (6, Refusal::DeviceBlocked, "id:1\nr:24\naddr0:10.0.0.2:7070"),
    ];
    for (version, why, props) in cases {
        let mut side = fresh();
        side.hear(now(), &bind_bytes(version));
        let sent = side.tell(now(), no(0, why));
        assert_eq!(side.ended, Some(why.close_reason()));
        assert_eq!(sent.get(6..).unwrap_or_default(), props.as_bytes(), "{version} {why:?}");
        let words = side.take_words_as::<PushRequest>();
        assert!(matches!(words.as_slice(), [PushRequest::Bind(_)]), "it never was bound");
    }
    let mut side = fresh();
    side.hear(now(), &bind_bytes(7));
    let sent = side.tell(now(), no(0, Refusal::Full));
    let (frame, _) = frame::parse(&sent, 4_096).expect("ours").expect("whole");
    assert_eq!((frame.opcode, frame.props.result), (Opcode::BindAck, Some(30)));
    assert_eq!(frame.props.retry_after_ms, Some(500));
    assert_eq!(frame.props.addrs, ["10.0.0.2:7070"]);
    assert_eq!(side.ended, Some(CloseReason::Full));
}

#[test]
fn a_kick_ends_the_connection_and_is_not_also_a_close() {
    let cases = [
        (5, Refusal::Redirect, true),
        (6, Refusal::Redirect, false),
        (6, Refusal::Replaced, true),
        (7, Refusal::Replaced, true),
        (7, Refusal::Redirect, true),
    ];
    for (version, why, told) in cases {
        let mut side = bound(version);
        let sent = side.tell(now(), kick(0, why));
        assert_eq!(!sent.is_empty(), told, "{version} {why:?}");
        assert_eq!(side.ended, Some(why.close_reason()));
        assert!(side.take_words_as::<PushRequest>().is_empty());
        if version == 7 {
            let (frame, _) = frame::parse(&sent, 4_096).expect("ours").expect("whole");
            let redirect = why == Refusal::Redirect;
            assert_eq!(frame.opcode == Opcode::Redirect, redirect);
            assert_eq!(frame.props.session_epoch, Some(10));
        }
    }
    let mut side = bound(7);
    assert!(side.tell(now(), kick(3, Refusal::Replaced)).is_empty(), "no such term");
    assert_eq!(side.ended, None);
}

#[test]
fn a_push_is_encoded_for_its_version_and_shared_when_many_have_it() {
    let mut side = bound(6);
    let sent = side.tell(now(), PushDelivery::Push { term: 0, push: push(5, b"hi"), again: false });
    let expected = vector::bytes(
        r#"00 06 00 03 00 05 "ack:5" 00 00 00 12 00*7 05 00 00 00 01 00 00 00 02 "hi""#,
    );
    assert_eq!(Some(sent), expected);

    let empty = push(6, b"");
    assert!(side.tell(now(), PushDelivery::Push { term: 0, push: empty, again: false }).is_empty());
    let why = Rejection::TooLarge;
    let word = PushRequest::Unsendable { device: device(1), id: MessageId(6), why };
    assert_eq!(side.take_words_as::<PushRequest>(), [word]);

    let mut out = Outbox::new(base::hash::HashKey::new(1, 2), [0; 32]);
    for again in [false, true] {
        let mut machine = bound(7).machine;
        let push = push(7, b"hi");
        let _others = [push.clone(), push.clone()];
        machine
            .command(now(), PushDelivery::Push { term: 0, push, again }.into(), &mut out)
            .expect("goes on");
        let mut shared = 0;
        let mut sent = Vec::new();
        out.drain_wire(|piece| match piece {
            model::machine::Piece::Own(bytes) => sent.extend_from_slice(bytes),
            model::machine::Piece::Shared(frame) => {
                shared += 1;
                sent.extend_from_slice(&frame);
            }
        });
        assert_eq!(shared, if again { 0 } else { 1 }, "a resend is for one device");
        let (frame, _) = frame::parse(&sent, 4_096).expect("ours").expect("whole");
        assert_eq!(frame.flags & frame::flag::DUP != 0, again);
        let record = PushRecord::read(&mut { frame.payload }).expect("a record");
        assert_eq!((record.id, record.expire_at, record.collapse), (7, 77, b"key".as_slice()));
        assert_eq!(record.flags, PushRecord::SILENT | PushRecord::HIGH);
    }
}

#[test]
fn acknowledgements_reach_the_hub_in_both_forms() {
    let mut side = bound(7);
    let ack = r#"00 07 01 04 00 00 00 13 0a 0d 08 00*7 05 00*7 09"#;
    side.hear(now(), &vector::bytes(ack).expect("bytes"));
    let (upto, ids) = (Some(MessageId(5)), vec![MessageId(9)]);
    assert_eq!(
        side.take_words_as::<PushRequest>(),
        [PushRequest::Ack { device: device(1), upto, ids }]
    );
    side.hear(now(), &[0, 7, 1, 0, 0, 0, 0, 11, 10, 13, 8, 0, 0, 0, 0, 0, 0, 0, 6]);
    let word = PushRequest::Ack { device: device(1), upto: Some(MessageId(6)), ids: vec![] };
    assert_eq!(side.take_words_as::<PushRequest>(), [word]);
}

#[test]
fn several_devices_share_a_version_5_connection() {
    let mut side = bound(5);
    side.limits.pushes.binds_a_connection_max = 2;
    side.hear(now(), &five(2, "u:b@2"));
    let words = side.take_words_as::<PushRequest>();
    assert!(matches!(words.as_slice(), [PushRequest::Bind(bind)] if bind.term == 1));
    assert_eq!(side.homes.len(), 1, "only the first Bind moves the connection");
    assert!(side.hear(now(), &[0, 5, 0, 0]).is_empty(), "input waits");
    let sent = side.tell(now(), yes(1));
    assert_eq!(sent, [five(6, "id:2\nr:0"), vec![0, 5, 0, 1]].concat());

    let sent = side.hear(now(), &five(2, "u:c@3"));
    assert_eq!(sent, five(6, "id:3\nr:31"), "one more than the limit");
    assert_eq!(side.ended, None);

    side.hear(now(), &five(4, "ack:8"));
    assert_eq!(side.take_words_as::<PushRequest>().len(), 2, "the ack may be of either");

    side.hear(now(), &five(5, "u:a@1"));
    assert_eq!(
        side.take_words_as::<PushRequest>(),
        [PushRequest::Unbind { term: 0, device: device(1) }]
    );
    assert_eq!(side.tell(now(), PushDelivery::Unbound { term: 0 }), five(7, "id:1\nr:0"));
    assert_eq!(side.ended, None, "one is left");

    let sent = side.tell(now(), kick(1, Refusal::AdminKick));
    assert_eq!(sent, five(6, "id:1\nr:41\naddr0:10.0.0.2:7070"));
    assert_eq!(side.ended, Some(CloseReason::AdminKick), "the last one has gone");
    assert!(side.take_words_as::<PushRequest>().is_empty());
}

#[test]
fn a_further_bind_may_be_refused_and_the_others_stay() {
    let mut side = bound(5);
    side.hear(now(), &five(2, "u:b@2"));
    let words = side.take_words_as::<PushRequest>();
    let [PushRequest::Bind(bind)] = words.as_slice() else { panic!("{words:?}") };
    assert_eq!(bind.peer, None, "an open connection has forgotten it: no address, not 0.0.0.0");
    let sent = side.tell(now(), no(1, Refusal::UnknownProduct));
    assert_eq!(sent, five(6, "id:2\nr:23\naddr0:10.0.0.2:7070"));
    assert_eq!(side.ended, None);
    side.close(now(), CloseReason::PeerReset);
    let reason = CloseReason::PeerReset;
    assert_eq!(
        side.take_words_as::<PushRequest>(),
        [PushRequest::Closed { device: device(1), reason }]
    );
}

#[test]
fn a_device_that_binds_again_over_its_connection_is_not_told_of_its_own_kick() {
    let mut side = bound(5);
    side.hear(now(), &five(2, "u:a@1"));
    side.take_words_as::<PushRequest>();
    assert!(side.tell(now(), kick(0, Refusal::Replaced)).is_empty());
    assert_eq!(side.ended, None, "the new Bind decides");
    assert_eq!(side.tell(now(), yes(1)), five(6, "id:1\nr:0"));
    side.hear(now(), &five(5, "u:a@1"));
    assert_eq!(
        side.take_words_as::<PushRequest>(),
        [PushRequest::Unbind { term: 1, device: device(2) }]
    );
    side.tell(now(), PushDelivery::Unbound { term: 1 });
    assert_eq!(side.ended, Some(CloseReason::Unbound));

    // A hub that knows the connection does not kick: the record is the same one.
    let mut side = bound(5);
    side.hear(now(), &five(2, "u:a@1"));
    side.take_words_as::<PushRequest>();
    let PushDelivery::Bound(mut again) = yes(1) else { unreachable!("it is a yes") };
    again.device = device(1);
    side.tell(now(), PushDelivery::Bound(again));
    side.close(now(), CloseReason::PeerClosed);
    let reason = CloseReason::PeerClosed;
    assert_eq!(
        side.take_words_as::<PushRequest>(),
        [PushRequest::Closed { device: device(1), reason }],
        "once"
    );

    // Refused, the first one goes on, and is told of a later kick.
    let mut side = bound(5);
    side.hear(now(), &five(2, "u:a@1"));
    side.tell(now(), no(1, Refusal::ClockSkew));
    let sent = side.tell(now(), kick(0, Refusal::Replaced));
    assert_eq!(sent, five(6, "id:1\nr:40\naddr0:10.0.0.2:7070"));
}

#[test]
fn a_challenge_is_answered_by_auth_or_refused() {
    let mut side = fresh();
    side.hear(now(), &bind_bytes(7));
    side.take_words_as::<PushRequest>();
    let sent = side.tell(now(), PushDelivery::Challenge { term: 0, nonce: [1; 16] });
    let (frame, _) = frame::parse(&sent, 4_096).expect("ours").expect("whole");
    assert_eq!((frame.opcode, frame.props.result), (Opcode::BindAck, Some(20)), "no signature");
    assert_eq!(side.ended, Some(CloseReason::AuthFailed));

    let mut side = fresh();
    side.hear(now(), &bind_bytes(6));
    side.tell(now(), PushDelivery::Challenge { term: 0, nonce: [1; 16] });
    assert_eq!(side.ended, Some(CloseReason::AuthFailed), "classic devices cannot answer one");
}

#[test]
fn going_away_and_being_turned_away_are_said_in_each_version() {
    let go = || PushDelivery::GoAway { retry_after_ms: 7, addrs: vec!["10.0.0.2:7070".to_owned()] };
    let mut side = bound(7);
    let sent = side.tell(now(), go());
    let (frame, _) = frame::parse(&sent, 4_096).expect("ours").expect("whole");
    assert_eq!((frame.opcode, frame.props.retry_after_ms), (Opcode::GoAway, Some(7)));
    assert_eq!(side.ended, None, "the device leaves by itself");
    let mut side = bound(5);
    assert_eq!(side.tell(now(), go()), five(6, "r:32\naddr0:10.0.0.2:7070"));
    assert_eq!(side.ended, Some(CloseReason::Draining));
    let mut side = bound(6);
    assert!(side.tell(now(), go()).is_empty());
    assert_eq!(side.ended, Some(CloseReason::Draining));

    let away = TurnAway::of(Refusal::Draining, 100);
    for (version, told) in [(7, true), (6, false), (5, true)] {
        let mut machine = fresh().machine;
        let mut out = Outbox::new(base::hash::HashKey::new(1, 2), [0; 32]);
        machine.turn_away(now(), away, &mut out);
        assert!(out.is_empty(), "nothing is known of the peer");
        let (link, limits) = (Link::loopback(Protocol::Miop), model::limits::Limits::default());
        let bytes = bind_bytes(version);
        let mut input = Input::new(&bytes, &link, &limits);
        machine.opened(now(), &link, &mut out).expect("opens");
        machine.receive(now(), &mut input, &mut out).expect("asks for its home");
        assert_eq!(input.taken(), 0);
        machine.turn_away(now(), away, &mut out);
        assert_eq!(!out.bytes().is_empty(), told, "{version}");
    }
    let server = Some(OtherServer { address: "10.0.0.2:7070", denial: None });
    let away = TurnAway { server, ..away };
    let mut out = Outbox::new(base::hash::HashKey::new(1, 2), [0; 32]);
    bound(7).machine.turn_away(now(), away, &mut out);
    let (frame, _) = frame::parse(out.bytes(), 4_096).expect("ours").expect("whole");
    assert_eq!((frame.opcode, frame.props.retry_after_ms), (Opcode::GoAway, Some(100)));
    assert!(out.bytes().ends_with(b"10.0.0.2:7070"), "{:?}", out.bytes());
    let mut out = Outbox::new(base::hash::HashKey::new(1, 2), [0; 32]);
    bound(5).machine.turn_away(now(), away, &mut out);
    assert_eq!(*out.bytes(), five(6, "r:32\naddr0:10.0.0.2:7070"));
}

#[test]
fn reports_pulls_and_terms_are_answered_in_version_7() {
    let answers = [
        (PushDelivery::ReportTaken { term: 0, seq: 4 }, Opcode::ReportAck),
        (PushDelivery::ReportRefused { term: 0, seq: 4, why: Refusal::Quota }, Opcode::Error),
        (PushDelivery::Pulled { term: 0, remaining: 4 }, Opcode::Pull),
        (PushDelivery::Configure { term: 0, heartbeat_s: 600, inflight_max: 4 }, Opcode::Config),
    ];
    for (delivery, opcode) in answers {
        let mut side = bound(7);
        let sent = side.tell(now(), delivery.clone());
        let (frame, _) = frame::parse(&sent, 4_096).expect("ours").expect("whole");
        assert_eq!(frame.opcode, opcode);
        let configured = opcode == Opcode::Config;
        assert_eq!(side.silence_ms, if configured { 900_000 } else { 450_000 });
        assert!(bound(6).tell(now(), delivery).is_empty(), "classic devices do not know it");
    }
}

#[test]
fn names_are_what_the_model_says_they_are() {
    assert_eq!((DeviceId::BYTES_MAX, ProductKey::BYTES_MAX), (64, 32), "the document says so");
}

#[test]
fn a_heartbeat_after_too_long_a_silence_is_answered_and_counted_as_late() {
    for (version, ping) in [(7, &[0, 7, 0, 0][..]), (6, &[0, 6, 0, 0]), (5, &[0, 5, 0, 0])] {
        let PairSide { mut machine, link, .. } = bound(version);
        for (silent_ms, late) in [(300_000, 0), (330_000, 0), (330_001, 1), (0, 0)] {
            let mut out = Outbox::new(base::hash::HashKey::new(1, 2), [0; 32]);
            let limits = model::limits::Limits::default();
            out.set_silent(silent_ms, 450_000);
            let mut input = Input::new(ping, &link, &limits);
            assert_eq!(machine.receive(now(), &mut input, &mut out), Ok(()));
            let mut counters = model::counters::Counters::default();
            out.count_into(&mut counters);
            let counted = counters.of(model::counters::ProcessCounter::HeartbeatsLate);
            assert_eq!((counted, out.take_beats(), input.taken()), (late, 1, 4), "{version}");
        }
    }
}

#[test]
fn a_classic_device_is_sent_what_its_data_length_can_say_and_no_more() {
    use crate::codec::classic::DATA_BYTES_MAX;
    for (length, fits) in
        [(0, false), (1, true), (DATA_BYTES_MAX - 16, true), (DATA_BYTES_MAX - 15, false)]
    {
        let mut side = bound(5);
        let sent = side.tell(
            now(),
            PushDelivery::Push { term: 0, push: push(9, &vec![1; length]), again: false },
        );
        assert_eq!(sent.len() > length, fits, "{length}");
        let (id, why) = (MessageId(9), Rejection::TooLarge);
        let unsendable = PushRequest::Unsendable { device: device(1), id, why };
        assert_eq!(side.take_words_as::<PushRequest>().contains(&unsendable), !fits);
    }
}

#[test]
fn what_is_written_is_told_for_each_device() {
    let mut side = bound(5);
    side.hear(now(), &five(2, "u:b@2"));
    side.take_words_as::<PushRequest>();
    side.tell(now(), yes(1));
    let mut out = Outbox::new(base::hash::HashKey::new(0, 0), [0; 32]);
    for (term, is_here) in [(7, false), (1, true), (0, true)] {
        let told = side.machine.command(now(), PushDelivery::TellWritten { term }.into(), &mut out);
        assert_eq!((told, out.take_tell_drained()), (Ok(()), is_here), "{term}");
    }
    assert_eq!(side.machine.drained(now(), &mut out), Ok(()));
    let written = out.words().collect::<Vec<_>>();
    assert_eq!(written.len(), 2);
    assert!(written.contains(&PushRequest::Written { device: device(1) }.into()));
}

#[test]
fn frames_are_counted_by_kind_in_both_directions() {
    use model::counters::frames::{FrameKind, FrameLane};
    for version in [5, 6, 7] {
        let mut side = fresh();
        side.hear(now(), &bind_bytes(version));
        side.tell(now(), yes(0));
        let ping = [0, version, 0, 0].repeat(3);
        ping.iter().for_each(|byte| _ = side.hear(now(), &[*byte]));
        let counters = side.take_counters();
        let of = |lane, opcode: Opcode| {
            counters.frames_of(FrameKind::of(lane, u32::from(opcode.number()) + 1))
        };
        let taken = [Opcode::Bind, Opcode::Ping].map(|opcode| of(FrameLane::MiopIn, opcode));
        let sent = [Opcode::BindAck, Opcode::Pong].map(|opcode| of(FrameLane::MiopOut, opcode));
        assert_eq!((taken, sent), ([1, 3], [1, 3]), "{version}");
        let lanes = [FrameLane::MiopIn, FrameLane::MiopOut].into_iter();
        let all: u64 = lanes.flat_map(FrameKind::of_lane).map(|it| counters.frames_of(it)).sum();
        assert_eq!(all, 8, "{version}: and nothing else");
    }
}

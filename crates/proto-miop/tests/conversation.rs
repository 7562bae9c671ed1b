//! A device and a server talk, over a link that splits and merges as the seed says.

mod hub;

use hub::{Conversation, Hub, conversation, message, profile, push, reconnect, talk};
use model::close::CloseReason;
use model::ports::virtual_client::{Action, Observation};
use model::request::{Kick, Proof, PushDelivery, Refusal};
use proto_miop::client::{Prove, PushAckMode};
use proto_miop::codec::Version;
use std::time::Duration;

const VERSIONS: [Version; 3] = [Version::V5, Version::V6, Version::V7];
const SEEDS: u64 = 20;

fn bound(heartbeat_s: u16, offline_count: u32) -> Observation {
    Observation::Bound { resumed: false, heartbeat_s, offline_count }
}

/// A conversation whose device is bound; the observation of that is taken.
fn begin(version: Version, seed: u64, hub: &mut Hub) -> Conversation {
    let mut pair = conversation(profile(version), seed);
    pair.open();
    talk(&mut pair, hub);
    assert_eq!(pair.a.take_words(), [bound(300, 0)], "{version:?}");
    pair
}

#[test]
fn a_signed_device_binds_is_pushed_to_acknowledges_and_leaves() {
    for (version, seed) in VERSIONS.into_iter().flat_map(|v| (0..SEEDS).map(move |s| (v, s))) {
        let mut hub = Hub::default();
        let mut pair = begin(version, seed, &mut hub);
        assert_eq!(hub.binds[0].device.as_str(), "dev-7");
        assert!(!matches!(hub.binds[0].proof, Proof::None));
        for id in [100, 101, 102] {
            hub.waiting.push(push(id, b"hello"));
            let push = hub.waiting.last().expect("just pushed").clone();
            pair.tell_b(PushDelivery::Push { term: 0, push, again: false });
        }
        talk(&mut pair, &mut hub);
        let seen: Vec<_> = [100, 101, 102].map(|id| message(id, b"hello", false)).into();
        assert_eq!(pair.a.take_words(), seen);
        assert_eq!(hub.acked, [100, 101, 102]);
        pair.tell_a(Action::Ping);
        talk(&mut pair, &mut hub);
        assert_eq!(pair.a.take_words(), [Observation::Pong]);
        pair.tell_a(Action::Unbind);
        talk(&mut pair, &mut hub);
        assert_eq!(pair.b.ended, Some(CloseReason::Unbound), "{version:?}");
        assert_eq!(pair.a.ended, Some(CloseReason::OwnStop));
        assert_eq!(hub.closed, 0, "a farewell is not also a close");
    }
}

#[test]
fn a_wrong_secret_is_refused() {
    for version in VERSIONS {
        let mut hub = Hub::default();
        let mut wrong = profile(version);
        wrong.prove = Prove::Secret { key_id: 1, bytes: b"another secret...".as_slice().into() };
        let mut pair = conversation(wrong, 1);
        pair.open();
        talk(&mut pair, &mut hub);
        assert_eq!(pair.b.ended, Some(CloseReason::AuthFailed));
        let retry_after_ms = if version == Version::V7 { 250 } else { 0 };
        let refused = Observation::Refused { code: 20, retry_after_ms };
        assert_eq!(pair.a.take_words(), [refused], "{version:?}");
    }
}

#[test]
fn a_challenge_is_answered_and_both_nonces_are_signed() {
    for seed in 0..SEEDS {
        let mut hub = Hub { challenge: true, ..Hub::default() };
        begin(Version::V7, seed, &mut hub);
        let proofs = hub.binds.iter().map(|bind| match &bind.proof {
            Proof::Hmac { signed, challenged, .. } => (*challenged, signed.clone()),
            other => panic!("{other:?}"),
        });
        let proofs: Vec<_> = proofs.collect();
        assert_eq!(proofs.iter().map(|proof| proof.0).collect::<Vec<_>>(), [false, true]);
        assert_ne!(proofs[0].1, proofs[1].1);
    }
}

#[test]
fn what_was_not_acknowledged_is_sent_again_and_flagged() {
    let mut hub = Hub::default();
    let mut deaf = profile(Version::V7);
    deaf.acks = PushAckMode::Never;
    deaf.resumes = true;
    let mut pair = conversation(deaf, 3);
    hub.waiting.push(push(50, b"x"));
    pair.open();
    talk(&mut pair, &mut hub);
    assert_eq!(pair.a.take_words(), [bound(300, 1), message(50, b"x", false)]);
    pair.tell_b(PushDelivery::Push { term: 0, push: hub.waiting[0].clone(), again: true });
    talk(&mut pair, &mut hub);
    assert_eq!(pair.a.take_words(), [message(50, b"x", true)]);
    assert!(hub.acked.is_empty());

    reconnect(&mut pair, &mut hub);
    assert_eq!(hub.closed, 1);
    let resume = hub.binds[1].resume.clone().expect("it goes on with its session");
    assert_eq!((resume.token, resume.epoch), (hub::TOKEN, 1));
    let resumed = Observation::Bound { resumed: true, heartbeat_s: 300, offline_count: 1 };
    assert_eq!(pair.a.take_words(), [resumed, message(50, b"x", true)]);
}

#[test]
fn a_classic_device_tells_by_the_id_that_it_has_a_push() {
    for version in [Version::V5, Version::V6] {
        let mut hub = Hub::default();
        let mut pair = begin(version, 4, &mut hub);
        for again in [false, true] {
            pair.tell_b(PushDelivery::Push { term: 0, push: push(50, b"x"), again });
            talk(&mut pair, &mut hub);
            assert_eq!(pair.a.take_words(), [message(50, b"x", again)]);
        }
    }
}

#[test]
fn acknowledgements_come_each_cumulative_or_with_the_heartbeat() {
    for (acks, after_ping) in
        [(PushAckMode::Each, false), (PushAckMode::UpTo, false), (PushAckMode::OnPing, true)]
    {
        let mut hub = Hub::default();
        let mut profile = profile(Version::V7);
        profile.acks = acks;
        let mut pair = conversation(profile, 5);
        hub.waiting = vec![push(1, b"a"), push(2, b"b")];
        pair.open();
        talk(&mut pair, &mut hub);
        assert_eq!(hub.acked.is_empty(), after_ping, "{acks:?}");
        pair.tell_a(Action::Ping);
        talk(&mut pair, &mut hub);
        assert_eq!(hub.acked, [1, 2], "{acks:?}");
    }
}

#[test]
fn stored_pushes_are_pulled_in_pages() {
    let mut hub = Hub::default();
    let mut pulls = profile(Version::V7);
    pulls.pulls = true;
    let mut pair = conversation(pulls, 6);
    hub.waiting = (1..=3).map(|id| push(id, b"p")).collect();
    pair.open();
    talk(&mut pair, &mut hub);
    assert_eq!(pair.a.take_words(), [bound(300, 3)], "nothing is sent unasked");
    pair.tell_a(Action::Pull(2));
    talk(&mut pair, &mut hub);
    let pulled = Observation::Pulled { remaining: 1 };
    let page = [message(1, b"p", false), message(2, b"p", false), pulled];
    assert_eq!(pair.a.take_words(), page);
    assert_eq!(hub.acked, [1, 2]);
    pair.tell_a(Action::Pull(2));
    talk(&mut pair, &mut hub);
    let page = [message(3, b"p", false), Observation::Pulled { remaining: 0 }];
    assert_eq!(pair.a.take_words(), page);
}

#[test]
fn reports_are_numbered_and_taken_or_not() {
    let mut hub = Hub::default();
    let mut pair = begin(Version::V7, 7, &mut hub);
    for body in [b"yes".as_slice(), b"no", b""] {
        pair.tell_a(Action::Report(body.into()));
    }
    talk(&mut pair, &mut hub);
    let expected = [
        Observation::Taken { seq: 1 },
        Observation::NotTaken { seq: 2, code: 31 },
        Observation::Taken { seq: 3 },
    ];
    assert_eq!(pair.a.take_words(), expected);
    assert_eq!(hub.reports, [b"yes".to_vec(), Vec::new()]);
}

#[test]
fn a_kick_is_told_where_the_version_has_a_word_for_it() {
    let seen = |version, why| {
        let mut pair = begin(version, 8, &mut Hub::default());
        let addrs = vec!["10.0.0.2:7070".to_owned()];
        let kick = Kick { term: 0, why, epoch: 2, retry_after_ms: 9, addrs };
        pair.tell_b(PushDelivery::Kick(Box::new(kick)));
        talk(&mut pair, &mut Hub::default());
        assert_eq!(pair.b.ended, Some(why.close_reason()));
        pair.a.take_words()
    };
    let addrs = || vec!["10.0.0.2:7070".to_owned()];
    let go = |retry_after_ms| Observation::GoAway { retry_after_ms, addrs: addrs() };
    let kicked = |code| Observation::Kicked { code };
    assert_eq!(seen(Version::V7, Refusal::Replaced), [kicked(40)]);
    assert_eq!(seen(Version::V7, Refusal::Redirect), [go(9)]);
    assert_eq!(seen(Version::V5, Refusal::Redirect), [kicked(33), go(0)]);
    assert_eq!(seen(Version::V6, Refusal::Redirect), [], "it would never come back");
    assert_eq!(seen(Version::V6, Refusal::AdminKick), [kicked(41), go(0)]);
}

#[test]
fn a_server_on_its_way_out_asks_to_come_back() {
    let mut pair = begin(Version::V7, 9, &mut Hub::default());
    pair.tell_b(PushDelivery::GoAway { retry_after_ms: 70, addrs: Vec::new() });
    talk(&mut pair, &mut Hub::default());
    let go = Observation::GoAway { retry_after_ms: 70, addrs: Vec::new() };
    assert_eq!(pair.a.take_words(), [go]);
    assert_eq!((pair.a.ended, pair.b.ended), (None, None));
}

#[test]
fn a_busy_hub_is_heard_as_a_time_to_come_back() {
    let mut hub = Hub { refuse: Some(Refusal::Busy), ..Hub::default() };
    let mut pair = conversation(profile(Version::V7), 10);
    pair.open();
    talk(&mut pair, &mut hub);
    let refused = Observation::Refused { code: 30, retry_after_ms: 250 };
    assert_eq!(pair.a.take_words(), [refused]);
    assert_eq!(pair.b.ended, Some(CloseReason::Busy));
}

#[test]
fn heartbeats_keep_a_connection_and_silence_ends_it() {
    for version in VERSIONS {
        let mut hub = Hub::default();
        let mut beating = profile(version);
        beating.beats = true;
        let mut pair = conversation(beating, 11);
        pair.open();
        talk(&mut pair, &mut hub);
        for _ in 0..20 {
            pair.pass(Duration::from_secs(100));
        }
        let pongs = pair.a.take_words().iter().filter(|w| **w == Observation::Pong).count();
        assert_eq!((pongs, pair.b.ended), (6, None), "{version:?}");

        let mut silent = begin(version, 12, &mut Hub::default());
        silent.pass(Duration::from_secs(449));
        assert_eq!(silent.b.ended, None);
        silent.pass(Duration::from_secs(3));
        assert_eq!(silent.b.ended, Some(CloseReason::KeepAliveTimeout));
        let told = [Observation::Kicked { code: 42 }];
        let told = if version == Version::V7 { told.as_slice() } else { &[] };
        assert_eq!(silent.a.take_words(), told);
    }
}

#[test]
fn a_device_that_never_binds_is_let_go() {
    let mut pair = conversation(profile(Version::V7), 13);
    let now = pair.now;
    pair.b.open(now);
    pair.pass(Duration::from_secs(9));
    assert_eq!(pair.b.ended, None);
    pair.pass(Duration::from_secs(2));
    assert_eq!(pair.b.ended, Some(CloseReason::BindTimeout));
}

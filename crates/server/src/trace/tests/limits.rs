//! Limits of a trace: what waits, what is told in a second, and how much of a payload.

use super::follow::active;
use crate::trace::desk::{Place, TraceTally};
use crate::trace::follower::Follower;
use crate::trace::seen::{ActiveTrace, LinkFacts, Seen, SeenWhat, WireKind};
use model::limits::ApiLimits;
use model::ports::trace::{PayloadShown, TraceDirection, TraceScope, TraceTold};
use proto_mqtt::codec::publish::Publish;
use proto_mqtt::codec::{Packet, Qos, Sender, Terms, Version};
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, mpsc};

const WIRE: WireKind = WireKind::Mqtt(Some(Version::V5));

fn seen(at_ms: u64, bytes: &[u8]) -> Arc<Seen> {
    let what = SeenWhat::Bytes(TraceDirection::In, bytes.into());
    Arc::new(Seen { connection: 1, at_ms, wire: WIRE, what })
}

fn scope() -> TraceScope {
    TraceScope::Client("till-7".into())
}

#[test]
fn what_does_not_fit_before_the_thread_is_left_out_and_counted() {
    let limits = ApiLimits { trace_waiting_bytes_max: 65_536, ..ApiLimits::default() };
    let (trace, batches) = active(1, scope(), limits);
    let batch = |entry: Arc<Seen>| {
        let weight = entry.weight();
        (vec![entry], weight)
    };
    let large = || batch(seen(0, &[0; 40_000]));
    trace.hand_over(large());
    trace.hand_over(large());
    assert_eq!(trace.take_left_out(), 1, "two of them are too many");
    let mut got = batches.try_iter().filter(|batch| !batch.is_empty());
    let first = got.next().expect("the first fits");
    assert!(got.next().is_none());
    drop(got);
    trace.taken(&first);
    trace.hand_over(large());
    assert_eq!((trace.take_left_out(), batches.try_iter().count()), (0, 1), "there is room again");
    // Batches are bounded, too, however little they weigh.
    for _ in 0..6 {
        trace.hand_over(batch(seen(0, b"")));
    }
    assert_eq!(trace.take_left_out(), 2, "the channel of this test has four places");
}

/// A follower that tells into a list.
fn follower(
    limits: ApiLimits,
    payload: PayloadShown,
) -> (Follower, Arc<ActiveTrace>, mpsc::Receiver<TraceTold>) {
    let (trace, _) = active(1, scope(), limits);
    let (tell, told) = mpsc::sync_channel(4_096);
    let sink = Box::new(move |what| tell.send(what).is_ok());
    let tally = Arc::<TraceTally>::default();
    (Follower::new(trace.clone(), payload, sink, tally), trace, told)
}

/// Has a follower tell of these and of nothing else.
fn run(follower: Follower, batches: Vec<Vec<Arc<Seen>>>) {
    let (sender, receiver) = sync_channel(batches.len());
    batches.into_iter().for_each(|batch| sender.try_send(batch).expect("room"));
    drop(sender);
    follower.run(&receiver);
}

#[test]
fn more_events_than_may_be_in_a_second_are_left_out_and_told_before_the_next() {
    let limits = ApiLimits { trace_events_per_s_max: 2, ..ApiLimits::default() };
    let (follower, trace, told) = follower(limits, PayloadShown::Head);
    let tally = follower.tally.clone();
    let ping = [0xc0, 0];
    trace.leave_out(7);
    run(
        follower,
        vec![
            vec![seen(1_000, &ping), seen(1_500, &ping), seen(1_999, &ping), seen(1_999, &ping)],
            vec![seen(2_000, &ping)],
        ],
    );
    let told: Vec<String> = told
        .try_iter()
        .map(|what| match what {
            TraceTold::Event(event) => format!("{} {}", event.at_ms, event.kind),
            TraceTold::LeftOut(count) => format!("left out {count}"),
        })
        .collect();
    assert_eq!(told, ["1000 PINGREQ", "1500 PINGREQ", "left out 9", "2000 PINGREQ"]);
    assert_eq!(tally.events.load(Ordering::Relaxed), 3);
    assert_eq!(tally.left_out.load(Ordering::Relaxed), 9);
}

#[test]
fn a_follower_ends_with_its_reader_and_with_its_trace() {
    let (follower, trace, told) = follower(ApiLimits::default(), PayloadShown::Head);
    drop(told);
    run(follower, vec![vec![seen(0, &[0xc0, 0])]]);
    assert!(trace.is_over(), "shards need not look any more");
    let (follower, trace, told) = self::follower(ApiLimits::default(), PayloadShown::Head);
    trace.end();
    run(follower, vec![vec![seen(0, &[0xc0, 0])]]);
    assert_eq!(told.try_iter().count(), 0);
}

#[test]
fn of_a_payload_as_much_is_shown_as_was_asked_for() {
    let publish = Publish {
        dup: false,
        qos: Qos::AtMostOnce,
        retain: false,
        topic: "t",
        id: 0,
        properties: Default::default(),
        payload: &[b'p'; 1_000],
    };
    let mut bytes = Vec::new();
    let packet = Packet::Publish(publish);
    packet.write(Sender::Client, &Terms::of(Version::V5), &mut bytes).expect("it can be written");
    for (wish, expected) in
        [(PayloadShown::Nothing, 0), (PayloadShown::Head, 64), (PayloadShown::Whole, 100)]
    {
        let limits = ApiLimits { trace_payload_bytes_max: 100, ..ApiLimits::default() };
        let (follower, _, told) = follower(limits, wish);
        run(follower, vec![vec![seen(0, &bytes)]]);
        let Ok(TraceTold::Event(event)) = told.try_recv() else { panic!("an event") };
        let payload = event.payload.expect("it has one");
        assert_eq!((payload.bytes, payload.shown.len()), (1_000, expected), "{wish:?}");
    }
}

#[test]
fn who_a_connection_is_shows_in_every_event_of_it() {
    let (follower, _, told) = follower(ApiLimits::default(), PayloadShown::Head);
    let peer = "192.0.2.7:1".parse().ok();
    let facts = LinkFacts { peer, tls: Some("TLSv1.3"), web_socket: true };
    let names = crate::trace::seen::Names {
        client: Some("till-7".into()),
        user: Some("tills".into()),
        peer: None,
    };
    let entry = |what| Arc::new(Seen { connection: 1, at_ms: 5, wire: WIRE, what });
    run(
        follower,
        vec![vec![
            entry(SeenWhat::Opened { facts, was_there: false }),
            entry(SeenWhat::Is(names)),
            seen(5, &[0xc0, 0]),
            entry(SeenWhat::TooMany(TraceDirection::Out, 9_999)),
            entry(SeenWhat::Closed(model::close::CloseReason::PeerClosed)),
            seen(6, &[0xc0, 0]),
        ]],
    );
    let told: Vec<String> = told
        .try_iter()
        .map(|what| match what {
            TraceTold::Event(event) => format!(
                "{} {} {} {}",
                event.kind,
                event.client.unwrap_or("?".into()),
                event.peer.map_or("?".into(), |peer| peer.to_string()),
                event.bytes,
            ),
            TraceTold::LeftOut(count) => format!("left out {count}"),
        })
        .collect();
    assert_eq!(
        told,
        [
            "opened ? 192.0.2.7:1 0",
            "PINGREQ till-7 192.0.2.7:1 2",
            "undecoded till-7 192.0.2.7:1 9999",
            "closed till-7 192.0.2.7:1 0",
            "PINGREQ ? ? 2",
        ],
        "what is remembered goes with the connection"
    );
}

#[test]
fn a_place_is_free_again_when_its_trace_is_let_go_of() {
    let tally = Arc::<TraceTally>::default();
    let first = Place::take(&tally, 2).expect("room");
    let second = Place::take(&tally, 2).expect("room");
    assert!(Place::take(&tally, 2).is_none(), "the third is one too many");
    drop(first);
    let third = Place::take(&tally, 2);
    assert!(third.is_some() && Place::take(&tally, 2).is_none());
    drop((second, third));
    assert_eq!(tally.running.load(Ordering::Relaxed), 0);
    assert!(Place::take(&tally, 0).is_none());
}

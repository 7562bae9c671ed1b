//! The leader's way from its disk to its answers, answer by answer.

use super::*;
use crate::batch::LogEnd;
use crate::batch::tests::batch;
use crate::port::StreamPage;
use model::id::NodeId;

const NAME: LogName = LogName { cluster: 1, log: 0 };

fn by(node: u16) -> LogLeader {
    LogLeader { node: NodeId::new(node).expect("a node"), boot: 1 }
}

fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1_000)
}

/// A stream that has a Lead at sequence 1, its reader, and the Lead.
fn begun() -> (Shipper, StreamBatch) {
    let lead = StreamBatch::lead(LogEnd::default(), 1, by(1));
    let message = messages_of(NAME, by(1), std::slice::from_ref(&lead)).remove(0);
    let mut counting = Counting::new(NAME, 1);
    counting.read(1, &message).expect("no gap");
    let route = ShipRoute { name: NAME, by: by(1), generation: 1 };
    (Shipper::new(route, &counting, Held::default(), 0), lead)
}

fn small(behind: &StreamBatch, count: usize) -> Vec<StreamBatch> {
    let mut all = vec![behind.clone()];
    for _ in 0..count {
        let end = all[all.len() - 1].end();
        all.push(batch(end, 1, &[b"x"]));
    }
    all.split_off(1)
}

fn published(out: &mut Vec<LogCommand>) -> Vec<(PublishNumber, u64)> {
    let of = |command| match command {
        LogCommand::Publish { number, expected, .. } => Some((number, expected)),
        _ => None,
    };
    out.drain(..).filter_map(of).collect()
}

fn released(out: &[LogCommand]) -> Vec<u64> {
    let of = |command: &LogCommand| match command {
        LogCommand::Release { index } => Some(*index),
        _ => None,
    };
    out.iter().filter_map(of).collect()
}

#[test]
fn a_lone_batch_goes_at_once_and_others_gather_meanwhile() {
    let ((mut ship, lead), mut out) = (begun(), Vec::new());
    let batches = small(&lead, 12);
    ship.push(at(0), batches[0].clone(), &mut out);
    assert_eq!(published(&mut out).len(), 1);
    batches[1..].iter().for_each(|batch| ship.push(at(100), batch.clone(), &mut out));
    assert!(published(&mut out).is_empty());
    assert_eq!(ship.deadline(), Some(at(2_100)));
    ship.tick(at(2_100), &mut out);
    let [(number, 2)] = published(&mut out)[..] else { panic!("one message behind the first") };
    ship.published(at(2_200), number, Ok(3), &mut out);
    assert!(released(&out).is_empty(), "the one before it is not acknowledged");
    let first = PublishNumber { number: 0, ..number };
    ship.published(at(2_300), first, Ok(2), &mut out);
    assert_eq!(released(&out), [2, 13]);
    assert!(ship.is_idle() && ship.deadline().is_none());
}

#[test]
fn at_most_eight_messages_are_on_their_way() {
    let ((mut ship, lead), mut out) = (begun(), Vec::new());
    for (number, batch) in small(&lead, 20).into_iter().enumerate() {
        ship.push(at(10_000 * number as u64), batch, &mut out);
        ship.tick(at(10_000 * number as u64 + 5_000), &mut out);
    }
    let sent = published(&mut out);
    assert_eq!(
        sent.iter().map(|(_, expected)| *expected).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6, 7, 8]
    );
    ship.published(at(300_000), sent[0].0, Ok(2), &mut out);
    assert_eq!(published(&mut out).len(), 1, "the others travel together");
}

/// A ship with two messages on their way, the second refused; the question that it asks.
fn refused() -> (Shipper, StreamBatch, Vec<StreamBatch>, Ask) {
    let ((mut ship, lead), mut out) = (begun(), Vec::new());
    let batches = small(&lead, 2);
    ship.push(at(0), batches[0].clone(), &mut out);
    ship.push(at(0), batches[1].clone(), &mut out);
    ship.tick(at(5_000), &mut out);
    let sent = published(&mut out);
    ship.published(at(6_000), sent[1].0, Err(StreamError::Refused), &mut out);
    let Some(LogCommand::Read { ask, from: 1, .. }) = out.pop() else { panic!("it reads") };
    ship.published(at(6_000), sent[0].0, Ok(2), &mut out);
    assert!(out.is_empty(), "answers of that round are void");
    (ship, lead, batches, ask)
}

fn page(first: u64, by_node: u16, batches: &[&StreamBatch]) -> StreamPage {
    let message = |batch: &&StreamBatch| {
        messages_of(NAME, by(by_node), std::slice::from_ref(*batch)).remove(0)
    };
    let messages: Vec<_> = (first..).zip(batches.iter().map(message)).collect();
    StreamPage { first, last: first + messages.len() as u64 - 1, messages }
}

#[test]
fn what_counts_is_acknowledged_after_a_refusal_and_the_rest_is_published_again() {
    let (mut ship, lead, batches, ask) = refused();
    let mut out = Vec::new();
    ship.read(at(7_000), ask, Ok(page(1, 1, &[&lead, &batches[0]])), &mut out);
    assert_eq!(released(&out), [2]);
    let [(number, 2)] = published(&mut out)[..] else { panic!("the second") };
    ship.published(at(8_000), number, Ok(3), &mut out);
    assert_eq!(released(&out), [3]);
}

#[test]
fn a_later_lead_deposes() {
    let (mut ship, lead, batches, ask) = refused();
    let mut out = Vec::new();
    let later = StreamBatch::lead(batches[0].end(), 2, by(2));
    ship.read(at(7_000), ask, Ok(page(1, 1, &[&lead, &batches[0], &later])), &mut out);
    assert_eq!((released(&out), ship.stopped()), (vec![2], Some(ShipEnd::Deposed)));
}

#[test]
fn a_stream_without_the_last_acknowledged_batch_forgot() {
    let other = StreamBatch::lead(LogEnd::default(), 1, by(2));
    for page in [page(1, 1, &[]), page(1, 2, &[&other]), page(2, 2, &[&other])] {
        let (mut ship, _, _, ask) = refused();
        let mut out = Vec::new();
        let mut ask = ask;
        while ship.stopped().is_none() {
            ship.read(at(7_000), ask, Ok(page.clone()), &mut out);
            ship.tick(at(600_000), &mut out);
            if let Some(LogCommand::Read { ask: again, .. }) = out.pop() {
                ask = again; // a stream that is too short is read more than once
            }
        }
        assert_eq!((out, ship.stopped()), (vec![], Some(ShipEnd::Forgot)));
    }
    let (mut ship, _, _, ask) = refused();
    ship.read(at(7_000), ask, Err(StreamError::Gone), &mut Vec::new());
    assert_eq!(ship.stopped(), Some(ShipEnd::Forgot));
}

#[test]
fn silence_is_settled_too() {
    let ((mut ship, lead), mut out) = (begun(), Vec::new());
    ship.push(at(0), small(&lead, 1).remove(0), &mut out);
    out.clear();
    ship.tick(at(1_999_999), &mut out);
    assert!(out.is_empty());
    ship.tick(at(2_000_000), &mut out);
    assert!(matches!(out[..], [LogCommand::Read { from: 1, wait: false, .. }]));
}

#[test]
fn a_full_stream_is_asked_again_after_a_while() {
    let ((mut ship, lead), mut out) = (begun(), Vec::new());
    ship.push(at(0), small(&lead, 1).remove(0), &mut out);
    let [(number, 1)] = published(&mut out)[..] else { panic!("one message") };
    ship.published(at(1_000), number, Err(StreamError::Full), &mut out);
    assert!(out.is_empty() && ship.deadline() == Some(at(501_000)));
    ship.tick(at(501_000), &mut out);
    let [LogCommand::Read { ask, from: 1, wait: false, .. }] = out[..] else { panic!("it reads") };
    out.clear();
    ship.read(at(502_000), ask, Ok(page(1, 1, &[&lead])), &mut out);
    let [(number, 1)] = published(&mut out)[..] else { panic!("it is offered again") };
    ship.published(at(503_000), number, Ok(2), &mut out);
    assert_eq!(released(&out), [2], "there is room again");
}

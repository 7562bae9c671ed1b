//! Queues: identifiers, order, and what they cost.

use super::*;
use std::collections::BTreeMap;

fn entry(seq: u64) -> Entry {
    let message = Arc::new(Publication::new("t", &[], b""));
    Entry { seq, ..Entry::of(&message, Qos::AtLeastOnce, false, None) }
}

/// A message that waits in the log, at this place.
fn kept(seq: u64, qos: Qos) -> Entry {
    Entry { qos, bytes: WEIGHT, ..entry(seq) }
}

const WEIGHT: u32 = 100;

/// A queue of a client that is away, whose messages have these places.
fn away(seqs: impl IntoIterator<Item = u64>, qos: Qos, totals: &mut Totals) -> Queue {
    let mut queue = Queue::default();
    for seq in seqs {
        assert!(queue.keep(kept(seq, qos), 0, totals));
    }
    queue
}

/// Messages in the log alone.
fn stored(queue: &Queue) -> u64 {
    queue.stored.as_ref().map_or(0, |stored| stored.count)
}

/// Reads what the log has behind a place.
fn read(queue: &mut Queue, log: &BTreeMap<u64, Qos>, totals: &mut Totals) -> u64 {
    let Some(from) = queue.upto() else { return 0 };
    for (&seq, &qos) in log.range(from + 1..) {
        if queue.read(from, (seq, WEIGHT), totals) == ReadAs::Waiting {
            queue.arrive(kept(seq, qos), totals);
        }
    }
    queue.page_read((from, u64::MAX), totals)
}

#[test]
fn identifiers_come_round_and_pass_those_in_use_by() {
    let (mut queue, mut totals) = (Queue::default(), Totals::default());
    queue.push(entry(0), &mut totals);
    assert_eq!(queue.send_next().map(|entry| entry.id), Some(1));
    for round in 0..70_000u32 {
        queue.push(entry(0), &mut totals);
        let id = queue.send_next().expect("there is room").id;
        assert_ne!(id, 1, "round {round}");
        assert!(queue.acknowledge(id, Qos::AtLeastOnce, &mut totals).is_some());
    }
    assert!(queue.acknowledge(1, Qos::AtLeastOnce, &mut totals).is_some());
    assert_eq!(totals, Totals::default());
}

#[test]
fn a_place_of_the_log_has_its_identifier_or_waits() {
    let (mut queue, mut totals) = (Queue::default(), Totals::default());
    queue.push(entry(0), &mut totals);
    assert_eq!(queue.send_next().map(|entry| entry.id), Some(1));
    queue.push(entry(65_536), &mut totals);
    assert!(queue.send_next().is_none(), "65,536 is identifier 1, and that is in use");
    assert!(queue.acknowledge(1, Qos::AtLeastOnce, &mut totals).is_some());
    assert_eq!(queue.send_next().map(|entry| entry.id), Some(1));
    queue.push(entry(65_535), &mut totals);
    assert_eq!(queue.send_next().map(|entry| entry.id), Some(65_535));
    queue.audit(&mut Totals::default());
}

#[test]
fn what_was_on_the_way_before_a_restart_has_an_identifier_of_its_own() {
    let (mut queue, mut totals) = (Queue::default(), Totals::default());
    let log: BTreeMap<_, _> = [1, 2, 65_537, 65_539].map(|seq| (seq, Qos::AtLeastOnce)).into();
    let (count, bytes) = (4, 4 * u64::from(WEIGHT));
    let head = RestoredHead { last: 65_539, count, bytes, sent_upto: 1, window: 8 };
    queue.restore(head, &mut totals);
    assert_eq!((queue.count(), queue.bytes(), totals.count()), (4, bytes, 4));
    assert_eq!(read(&mut queue, &log, &mut totals), 0);
    assert!(!queue.is_free(1) && queue.is_free(3));
    let ids: Vec<u16> = queue.ids().collect();
    assert_eq!(ids, [1, 2], "65,537 would be identifier 1 again, and what follows stays behind it");
    assert_eq!((queue.waiting(), stored(&queue)), (2, 0));
    queue.audit(&mut Totals::default());
}

#[test]
fn what_was_sent_is_sent_again_in_its_order() {
    let (mut queue, mut totals) = (Queue::default(), Totals::default());
    (0..4).for_each(|_| queue.push(entry(0), &mut totals));
    let ids = |queue: &mut Queue| (0..3).map(|_| queue.send_next().unwrap().id).collect();
    let first: Vec<u16> = ids(&mut queue);
    queue.rewind();
    let second: Vec<u16> = ids(&mut queue);
    assert_eq!((first, queue.on_way()), (second, 3));
    assert!(queue.entries().take(3).all(Entry::again));
    assert!(!queue.next().expect("one more").again());
}

#[test]
fn what_is_lent_and_put_back_is_where_it_was_among_what_is_in_memory_alone() {
    let mut totals = Totals::default();
    let mut rng = base::prng::Prng::new(5);
    for here in [true, false] {
        let (mut queue, mut log) = (Queue::default(), BTreeMap::new());
        let mut order = Vec::new();
        for seq in 1..=100 {
            let beside = rng.below(3) as usize;
            for _ in 0..beside {
                let message = Arc::new(Publication::new("t", &[], b"x"));
                queue.push(Entry::of(&message, Qos::AtMostOnce, false, None), &mut totals);
            }
            order.extend(std::iter::repeat_n(0, beside));
            if !rng.one_in(3) {
                let near = if here { usize::MAX } else { 0 };
                let entry = Entry { share: 7, ..kept(seq, Qos::AtLeastOnce) };
                assert_ne!(queue.keep(entry, near, &mut totals), here);
                log.insert(seq, Qos::AtLeastOnce);
                order.push(seq);
            }
        }
        let lent: Vec<_> = log.keys().copied().step_by(3).collect();
        let lent = lent.into_iter().map(|seq| {
            let stub = || Entry { message: None, ..kept(seq, Qos::AtLeastOnce) };
            let entry = queue.lend(stub(), &mut totals).expect("it is there");
            assert!(queue.lend(stub(), &mut totals).is_none());
            entry
        });
        let lent: Vec<_> = lent.collect();
        queue.audit(&mut Totals::default());
        if !here {
            assert_eq!(queue.entries().filter(|entry| entry.seq != 0).count(), 0);
        }
        lent.into_iter().for_each(|entry| queue.put_back(entry, &mut totals));
        assert_eq!(read(&mut queue, &log, &mut totals), 0);
        // What came beside it while all was in memory has no place of its own.
        let all = queue.entries().map(|entry| entry.seq).filter(|&seq| !here || seq != 0);
        assert!(all.eq(order.into_iter().filter(|&seq| !here || seq != 0)), "{here}");
        while queue.drop_some(usize::MAX, &mut totals) == usize::MAX {}
        assert_eq!(totals, Totals::default());
    }
}

#[test]
fn after_a_restart_so_many_windows_are_taken_for_sent() {
    let of = |qos: Qos, window: usize| {
        let (mut queue, mut totals) = (Queue::default(), Totals::default());
        let log: BTreeMap<_, _> = (1..=100).map(|seq| (seq, qos)).collect();
        let (count, bytes) = (100, 100 * u64::from(WEIGHT));
        queue.restore(RestoredHead { last: 100, count, bytes, sent_upto: 0, window }, &mut totals);
        read(&mut queue, &log, &mut totals);
        assert!(queue.inflight.iter().all(Entry::again));
        (queue.inflight.len(), queue.waiting.len())
    };
    assert_eq!(of(Qos::AtLeastOnce, 5), (40, 60));
    assert_eq!(of(Qos::ExactlyOnce, 5), (5, 95), "of the others all have left");
    assert_eq!((of(Qos::AtLeastOnce, 0), of(Qos::AtLeastOnce, 20)), ((0, 100), (100, 0)));
}

#[test]
fn what_waits_for_a_client_that_is_away_is_a_head() {
    let mut totals = Totals::default();
    let mut bytes = 0;
    for count in [1, 10, 100_000] {
        let queue = away(1..=count, Qos::AtLeastOnce, &mut totals);
        assert_eq!((queue.count() as u64, queue.bytes()), (count, count * u64::from(WEIGHT)));
        bytes += QUEUE_BYTES;
        assert_eq!(totals.bytes(), bytes, "{count}");
    }
    assert_eq!(totals.count(), 100_011);
}

#[test]
fn what_was_sent_goes_back_to_the_log_and_comes_with_its_identifier() {
    let mut totals = Totals::default();
    let mut queue = Queue::default();
    for seq in 1..=6 {
        assert!(!queue.keep(kept(seq, Qos::ExactlyOnce), 128, &mut totals));
    }
    (0..3).for_each(|_| assert!(queue.send_next().is_some()));
    // The second is answered, and the log has it still when the client goes.
    assert!(queue.acknowledge(2, Qos::ExactlyOnce, &mut totals).is_some());
    let log: BTreeMap<_, _> = (1..=6).map(|seq| (seq, Qos::ExactlyOnce)).collect();
    for _ in 0..2 {
        queue.rewind();
        queue.stow(&mut totals);
        assert_eq!((queue.count(), queue.entries().count(), queue.sent_upto()), (5, 0, 3));
        assert_eq!(totals.bytes(), QUEUE_BYTES);
        assert_eq!(read(&mut queue, &log, &mut totals), 0);
        let all: Vec<_> = queue.entries().map(|it| (it.seq, it.id, it.again())).collect();
        let sent = [(1, 1, true), (3, 3, true)];
        let others = [4, 5, 6].map(|seq| (seq, 0, false));
        assert_eq!(all, [&sent[..], &others].concat());
        queue.audit(&mut Totals::default());
    }
}

#[test]
fn what_is_over_does_not_come_again_though_the_log_has_it_still() {
    let mut totals = Totals::default();
    let log: BTreeMap<_, _> = (1..=6).map(|seq| (seq, Qos::ExactlyOnce)).collect();
    let left = |queue: &mut Queue, totals: &mut Totals| {
        assert_eq!(read(queue, &log, totals), 0);
        queue.audit(&mut Totals::default());
        queue.entries().map(|entry| entry.seq).collect::<Vec<_>>()
    };
    // The last but one is over, and stands behind all that goes back.
    let mut queue = Queue::default();
    for seq in 1..=5 {
        assert!(!queue.keep(kept(seq, Qos::ExactlyOnce), 128, &mut totals));
        assert!(queue.send_next().is_some());
    }
    for id in [2, 4, 5] {
        assert!(queue.acknowledge(id, Qos::ExactlyOnce, &mut totals).is_some());
    }
    queue.rewind();
    queue.stow(&mut totals);
    assert!(queue.keep(kept(6, Qos::ExactlyOnce), 0, &mut totals));
    assert_eq!(left(&mut queue, &mut totals), [1, 3, 6]);
    // All is over, and the queue was forgotten in between.
    let mut queue = Queue::default();
    assert!(queue.keep(kept(6, Qos::ExactlyOnce), 0, &mut totals));
    assert_eq!(left(&mut queue, &mut totals), [6]);
}

#[test]
fn what_may_have_been_sent_before_a_kill_is_known_to_who_asks_before_it_is_read() {
    let mut totals = Totals::default();
    let log: BTreeMap<_, _> = (1..=6).map(|seq| (seq, Qos::ExactlyOnce)).collect();
    let mut queue = Queue::default();
    let (count, bytes) = (6, 6 * u64::from(WEIGHT));
    let head = RestoredHead { last: 6, count, bytes, sent_upto: 0, window: 3 };
    queue.restore(head, &mut totals);
    for _ in 0..2 {
        let sent: Vec<_> = (1..=6).filter(|&seq| queue.was_sent(seq, Qos::ExactlyOnce)).collect();
        assert_eq!(sent, [1, 2, 3], "a window of QoS 2");
    }
    assert_eq!(read(&mut queue, &log, &mut totals), 0);
    assert!(queue.inflight.iter().map(|entry| entry.seq).eq([1, 2, 3]));
    assert_eq!(queue.waiting.len(), 3);
}

#[test]
fn what_is_in_memory_alone_and_sent_holds_the_order_of_what_was_sent() {
    let mut totals = Totals::default();
    let mut queue = Queue::default();
    for seq in [1, 0, 3, 4] {
        match seq {
            0 => queue.push(entry(0), &mut totals),
            _ => assert!(!queue.keep(kept(seq, Qos::AtLeastOnce), 128, &mut totals)),
        }
    }
    (0..3).for_each(|_| assert!(queue.send_next().is_some()));
    let sent: Vec<_> = queue.inflight.iter().map(|entry| (entry.seq, entry.id)).collect();
    queue.rewind();
    queue.stow(&mut totals);
    assert_eq!((queue.entries().count(), stored(&queue)), (3, 1), "so many were on the way");
    let log = [1, 3, 4].map(|seq| (seq, Qos::AtLeastOnce)).into();
    assert_eq!(read(&mut queue, &log, &mut totals), 0);
    assert!(queue.inflight.iter().map(|entry| (entry.seq, entry.id)).eq(sent));
    assert_eq!(queue.waiting.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [4]);
}

#[test]
fn the_oldest_of_what_is_in_the_log_alone_go_when_they_are_read() {
    let mut totals = Totals::default();
    let mut queue = away(1..=5, Qos::AtLeastOnce, &mut totals);
    for left in [4, 3] {
        assert!(matches!(queue.drop_oldest(&mut totals), Some(Oldest::Owed)));
        assert_eq!((queue.count(), totals.count()), (left, left as u64));
        queue.audit(&mut Totals::default());
    }
    assert!(queue.owes());
    let reads: Vec<_> = (1..=3).map(|seq| queue.read(0, (seq, WEIGHT), &mut totals)).collect();
    assert_eq!(reads, [ReadAs::Oldest, ReadAs::Oldest, ReadAs::Waiting]);
    queue.arrive(Entry { message: None, ..kept(3, Qos::AtLeastOnce) }, &mut totals);
    assert_eq!((queue.count(), queue.owes(), stored(&queue)), (3, false, 2));
    assert!(matches!(queue.drop_oldest(&mut totals), Some(Oldest::Entry(it)) if it.seq == 3));
    queue.audit(&mut Totals::default());
    let mut all = away(1..=2_000, Qos::AtLeastOnce, &mut totals);
    let most = (0..).take_while(|_| all.drop_oldest(&mut totals).is_some()).count();
    assert_eq!(most, 1_024, "a log that does not answer");
}

#[test]
fn a_doubtful_place_is_not_sent_and_counts_until_the_log_has_said() {
    for (is_there, reads_first) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut totals = Totals::default();
        let mut queue = away([1, 2, 4], Qos::ExactlyOnce, &mut totals);
        let seq = if is_there { 2 } else { 3 };
        assert!(queue.doubt(seq) && !queue.doubt(seq) && !queue.doubt(9));
        let log = [1, 2, 4].map(|seq| (seq, Qos::ExactlyOnce)).into();
        let found = is_there.then_some(WEIGHT);
        if reads_first {
            assert_eq!(read(&mut queue, &log, &mut totals), 0);
            assert_eq!(queue.settle(found, &mut totals), 0);
        } else {
            assert_eq!(queue.settle(found, &mut totals), 0);
            assert_eq!(read(&mut queue, &log, &mut totals), 0);
        }
        let left: Vec<_> = queue.entries().map(|entry| entry.seq).collect();
        assert_eq!(left, if is_there { vec![1, 4] } else { vec![1, 2, 4] });
        assert_eq!((stored(&queue), totals.count()), (0, left.len() as u64));
        queue.audit(&mut Totals::default());
    }
}

#[test]
fn what_left_the_log_by_itself_is_counted() {
    let mut totals = Totals::default();
    let mut queue = away(1..=5, Qos::AtLeastOnce, &mut totals);
    let log = [3, 5].map(|seq| (seq, Qos::AtLeastOnce)).into();
    assert_eq!(read(&mut queue, &log, &mut totals), 3);
    assert_eq!((queue.count(), queue.bytes(), totals.count()), (2, 200, 2));
    queue.audit(&mut Totals::default());
}

#[test]
fn a_page_that_was_asked_for_before_is_no_reason_to_pass_anything_over() {
    let mut totals = Totals::default();
    let mut queue = away(1..=9, Qos::AtLeastOnce, &mut totals);
    let log: BTreeMap<_, _> = (1..=9).map(|seq| (seq, Qos::AtLeastOnce)).collect();
    read(&mut queue, &log, &mut totals);
    queue.stow(&mut totals);
    // It begins behind the fourth; meanwhile the client went, and is back.
    assert_eq!(queue.read(4, (5, WEIGHT), &mut totals), ReadAs::Known);
    assert_eq!((queue.page_read((4, 9), &mut totals), queue.upto()), (0, Some(0)));
    // What came after it was asked for, and is not told yet, is not taken either.
    assert_eq!(queue.read(0, (10, WEIGHT), &mut totals), ReadAs::Known);
    assert_eq!(queue.count(), 9);
}

//! Queues: identifiers, order, and what they cost.

use super::*;

fn entry(seq: u64) -> Entry {
    let message = Arc::new(Publication::new("t", &[], b""));
    Entry { seq, ..Entry::of(&message, Qos::AtLeastOnce, false, None) }
}

/// One whose body of a byte is in the log.
fn stub(seq: u64, qos: Qos) -> Entry {
    Entry { message: None, bytes: 1, qos, ..entry(seq) }
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
    queue.push_sent(Entry { id: 1, ..entry(1) }, &mut totals);
    assert!(!queue.is_free(1) && queue.is_free(2));
    queue.push(entry(2), &mut totals);
    queue.push(entry(65_537), &mut totals);
    queue.push(entry(65_539), &mut totals);
    queue.sent_before(8);
    let ids: Vec<u16> = queue.ids().collect();
    assert_eq!(ids, [1, 2], "65,537 would be identifier 1 again, and what follows stays behind it");
    assert_eq!(queue.waiting(), 2);
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
fn places_are_found_between_what_is_in_memory_alone() {
    let (mut queue, mut totals) = (Queue::default(), Totals::default());
    let mut rng = base::prng::Prng::new(5);
    let mut seqs = Vec::new();
    for seq in 1..=500 {
        for _ in 0..rng.below(4) {
            let message = Arc::new(Publication::new("t", &[], b"x"));
            queue.push(Entry::of(&message, Qos::AtMostOnce, false, None), &mut totals);
        }
        if !rng.one_in(3) {
            let stub = stub(seq, Qos::AtLeastOnce);
            queue.push(Entry { share: 7, ..stub }, &mut totals);
            seqs.push(seq);
        }
    }
    for from in 0..=501 {
        let wanted = seqs.iter().copied().filter(|&seq| seq >= from);
        assert!(queue.givable_from(from).map(|entry| entry.seq).eq(wanted), "{from}");
    }
    // What is taken out and put back is where it was.
    for &seq in seqs.iter().step_by(3) {
        let entry = queue.lose(seq, &mut totals).expect("it is there");
        assert!(queue.lose(seq, &mut totals).is_none());
        queue.put_back(entry, &mut totals);
    }
    assert!(queue.givable_from(0).map(|entry| entry.seq).eq(seqs));
}

#[test]
fn after_a_restart_so_many_windows_are_taken_for_sent() {
    let of = |qos: Qos, window: usize| {
        let (mut queue, mut totals) = (Queue::default(), Totals::default());
        for seq in 1..=100 {
            queue.push(stub(seq, qos), &mut totals);
        }
        queue.sent_before(window);
        assert!(queue.inflight.iter().all(Entry::again));
        (queue.inflight.len(), queue.waiting.len())
    };
    assert_eq!(of(Qos::AtLeastOnce, 5), (40, 60));
    assert_eq!(of(Qos::ExactlyOnce, 5), (5, 95), "of the others all have left");
    assert_eq!((of(Qos::AtLeastOnce, 0), of(Qos::AtLeastOnce, 20)), ((0, 100), (100, 0)));
}

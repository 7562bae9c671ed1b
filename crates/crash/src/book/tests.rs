//! Made-up histories: those that are right pass, and each that is wrong is found.

use super::*;
use crate::body;

const SEED: u64 = 5;

/// A history that is being made up.
struct Story {
    book: Book,
    now: u64,
}

impl Story {
    fn new() -> Story {
        Story { book: Book::new(SEED), now: 1 }
    }

    fn tick(&mut self) -> u64 {
        self.now += 1_000;
        self.now
    }

    fn order(&mut self, number: u64, change: impl FnOnce(&mut Order)) {
        let asked_at = self.tick();
        let mut order = Order {
            number,
            devices: vec![1],
            high: false,
            collapse: None,
            short_s: None,
            length: 20,
            group: None,
            keyed: false,
            asked_at,
        };
        change(&mut order);
        self.book.take(&[Fact::Asked(order)]);
    }

    fn answer(&mut self, number: u64, fate: Fate) {
        self.answer_as(number, number * 100, fate);
    }

    fn answer_as(&mut self, number: u64, id: u64, fate: Fate) {
        let at = self.tick();
        let fates = vec![(1, fate)];
        self.book.take(&[Fact::Answered { number, id, at, fates }]);
    }

    /// An order that is answered `stored`.
    fn stored(&mut self, number: u64) {
        self.order(number, |_| {});
        self.answer(number, Fate::Stored);
    }

    fn came(&mut self, number: u64) -> Came {
        let body = body::of(SEED, number, 20);
        let at = self.tick();
        Came { at, id: number * 100, high: Some(false), collapse: Some(Vec::new()), body }
    }

    fn visit(&mut self, full: bool, numbers: &[u64], acked: &[u64], read: bool) {
        let began_at = self.tick();
        let came = numbers.iter().map(|number| self.came(*number)).collect();
        let read_at = read.then(|| self.tick());
        let acks = acked.iter().map(|number| Ack { id: number * 100, read_at }).collect();
        self.book.take(&[Fact::Visited(Visit {
            device: 1,
            began_at,
            epoch: None,
            full,
            came,
            acks,
        })]);
    }

    /// A full visit in which these come and none is acknowledged.
    fn shows(&mut self, numbers: &[u64]) {
        self.visit(true, numbers, &[], false);
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.book.violations.iter().map(|found| found.kind).collect()
    }
}

#[test]
fn what_was_stored_comes_until_it_is_acknowledged_and_then_stays_away() {
    let mut story = Story::new();
    story.stored(1);
    story.stored(2);
    story.book.end_life(false);
    story.shows(&[1, 2]);
    story.visit(true, &[1, 2], &[1], true);
    story.stored(3);
    story.book.end_life(false);
    story.visit(true, &[2, 3], &[2, 3], true);
    story.book.end_life(true);
    story.shows(&[]);
    assert_eq!(story.kinds(), [""; 0]);
    assert_eq!(story.book.promised(), 0);
}

#[test]
fn a_loss_is_found_and_told_once() {
    let mut story = Story::new();
    story.stored(1);
    story.stored(2);
    story.book.end_life(false);
    story.shows(&[2]);
    story.shows(&[2]);
    assert_eq!(story.kinds(), ["lost"]);
    assert!(story.book.violations[0].text.contains("order 1"));
}

#[test]
fn what_a_full_visit_showed_is_promised_from_then_on() {
    let mut story = Story::new();
    story.order(1, |_| {}); // never answered
    story.book.end_life(false);
    story.shows(&[1]);
    story.book.end_life(false);
    story.shows(&[]);
    assert_eq!(story.kinds(), ["lost"]);
}

#[test]
fn an_order_without_an_answer_is_there_or_not_but_does_not_come_and_go() {
    for shown in [&[][..], &[1]] {
        let mut story = Story::new();
        story.order(1, |_| {});
        story.book.end_life(false);
        story.shows(shown);
        assert_eq!(story.kinds(), [""; 0]);
    }
    let mut story = Story::new();
    story.order(1, |_| {});
    story.book.end_life(false);
    story.shows(&[]);
    story.shows(&[1]);
    assert_eq!(story.kinds(), ["came after it was gone"]);
}

#[test]
fn a_doubling_in_one_life_is_found() {
    let mut story = Story::new();
    story.stored(1);
    story.visit(false, &[1], &[1], true);
    story.visit(false, &[1], &[], false);
    assert_eq!(story.kinds(), ["doubled"]);
}

#[test]
fn an_acknowledgement_that_was_not_read_may_be_in_vain() {
    let mut story = Story::new();
    story.stored(1);
    story.visit(false, &[1], &[1], false);
    story.visit(false, &[1], &[], false);
    story.book.end_life(false);
    story.shows(&[1]);
    assert_eq!(story.kinds(), [""; 0]);
    // It came back, so it is owed again.
    story.book.end_life(false);
    story.shows(&[]);
    assert_eq!(story.kinds(), ["lost"]);
}

#[test]
fn a_crash_may_repeat_what_was_read_but_not_what_a_later_write_stored() {
    let mut story = Story::new();
    story.stored(1);
    story.visit(false, &[1], &[1], true);
    story.book.end_life(false);
    story.shows(&[1]);
    assert_eq!(story.kinds(), [""; 0], "nothing says that the acknowledgement was stored");

    let mut story = Story::new();
    story.stored(1);
    story.visit(false, &[1], &[1], true);
    story.stored(2);
    story.book.end_life(false);
    story.shows(&[1, 2]);
    assert_eq!(story.kinds(), ["doubled"], "the answer to 2 says so");

    let mut story = Story::new();
    story.stored(1);
    story.visit(false, &[1], &[1], true);
    story.book.end_life(true);
    story.shows(&[1]);
    assert_eq!(story.kinds(), ["doubled"], "a clean stop says so");
}

#[test]
fn an_order_to_a_group_may_come_again_after_a_kill_and_not_after_a_clean_stop() {
    for (clean, kinds) in [(false, &[][..]), (true, &["doubled"])] {
        let mut story = Story::new();
        story.order(1, |order| order.group = Some(0));
        story.answer(1, Fate::Stored);
        story.visit(false, &[1], &[1], true);
        story.stored(2);
        story.book.end_life(clean);
        story.shows(&[2, 1]);
        assert_eq!(story.kinds(), kinds, "clean: {clean}");
    }
}

#[test]
fn a_push_that_comes_after_its_acknowledgement_was_read_is_doubled_in_the_same_visit() {
    let mut story = Story::new();
    story.stored(1);
    let began_at = story.tick();
    let (first, read_at, second) = (story.came(1), story.tick(), story.came(1));
    let acks = vec![Ack { id: 100, read_at: Some(read_at) }];
    let visit =
        Visit { device: 1, began_at, epoch: None, full: false, came: vec![first, second], acks };
    story.book.take(&[Fact::Visited(visit)]);
    assert_eq!(story.kinds(), ["doubled"]);
}

#[test]
fn a_wrong_body_flag_or_addressee_is_found() {
    type Change = fn(&mut Came);
    let changes: [(Change, &str); 5] = [
        (|came| came.body[18] ^= 1, "a body is not what was sent"),
        (|came| came.body.truncate(19), "a body is not what was sent"),
        (|came| came.body[2] ^= 1, "a body is not what was sent"),
        (|came| came.high = Some(true), "a body is not what was sent"),
        (|came| came.collapse = Some(b"k1".to_vec()), "a body is not what was sent"),
    ];
    for (change, kind) in changes {
        let mut story = Story::new();
        story.stored(1);
        let (began_at, mut came) = (story.tick(), story.came(1));
        change(&mut came);
        let (came, acks) = (vec![came], Vec::new());
        let visit = Visit { device: 1, began_at, epoch: None, full: false, came, acks };
        story.book.take(&[Fact::Visited(visit)]);
        assert_eq!(story.kinds(), [kind]);
    }
    let mut story = Story::new();
    story.order(1, |order| order.devices = vec![2]);
    story.visit(false, &[1], &[], false);
    assert_eq!(story.kinds(), ["a push came to a device it was not for"]);
}

#[test]
fn what_was_never_sent_is_found() {
    let mut story = Story::new();
    story.visit(false, &[9], &[], false);
    assert_eq!(story.kinds(), ["a push came that was never sent"]);
}

#[test]
fn wrong_order_is_found_and_only_where_there_is_one() {
    let mut story = Story::new();
    story.stored(1);
    story.stored(2);
    story.shows(&[2, 1]);
    assert_eq!(story.kinds(), ["wrong order"]);

    let mut story = Story::new();
    story.order(1, |_| {});
    story.order(2, |_| {}); // asked before 1 was answered
    story.answer(1, Fate::Stored);
    story.answer(2, Fate::Stored);
    story.shows(&[2, 1]);
    assert_eq!(story.kinds(), [""; 0]);
}

#[test]
fn an_id_stands_for_one_order_and_an_order_for_one_id() {
    let mut story = Story::new();
    story.order(1, |order| order.keyed = true);
    story.answer(1, Fate::Stored);
    story.book.end_life(false);
    story.book.take(&[Fact::Again(1)]);
    story.answer(1, Fate::Stored);
    assert_eq!(story.kinds(), [""; 0]);
    story.answer_as(1, 777, Fate::Stored);
    assert_eq!(story.kinds(), ["an order made two messages"]);
    story.order(2, |_| {});
    story.answer_as(2, 100, Fate::Stored);
    assert_eq!(story.kinds()[1..], ["two orders have one id"]);
}

#[test]
fn a_keyed_order_that_was_lost_may_come_when_it_is_asked_again_and_only_once() {
    let mut story = Story::new();
    story.order(1, |order| order.keyed = true);
    story.book.end_life(false);
    story.shows(&[]);
    story.book.take(&[Fact::Again(1)]);
    story.answer(1, Fate::Stored);
    story.visit(true, &[1], &[1], true);
    assert_eq!(story.kinds(), [""; 0]);
    story.book.take(&[Fact::Again(1)]);
    story.answer(1, Fate::Stored);
    story.shows(&[1]);
    assert_eq!(story.kinds(), ["doubled"], "its second asking made it come again");
}

#[test]
fn a_device_that_refused_a_push_may_accept_it_when_it_is_ordered_again() {
    for again in [true, false] {
        let mut story = Story::new();
        story.order(1, |order| order.keyed = true);
        story.answer(1, Fate::Not);
        story.book.end_life(false);
        story.shows(&[]);
        if again {
            story.book.take(&[Fact::Again(1)]);
            story.answer(1, Fate::Stored);
        }
        story.shows(&[1]);
        let expected = if again { &[][..] } else { &["came after it was gone"] };
        assert_eq!(story.kinds(), expected);
    }
}

#[test]
fn a_replaced_push_may_be_missing_if_what_replaced_it_came() {
    let key = |order: &mut Order| order.collapse = Some(1);
    let mut story = Story::new();
    story.order(1, key);
    story.answer(1, Fate::Stored);
    story.order(2, key); // its answer is lost, and so may it be
    story.book.end_life(false);
    story.shows(&[]);
    assert_eq!(story.kinds(), ["lost"], "neither came");

    let mut story = Story::new();
    story.order(1, key);
    story.answer(1, Fate::Stored);
    story.order(2, key);
    story.answer(2, Fate::Stored);
    let (began_at, mut came) = (story.tick(), story.came(2));
    came.collapse = Some(b"k1".to_vec());
    let visit =
        Visit { device: 1, began_at, epoch: None, full: true, came: vec![came], acks: Vec::new() };
    story.book.take(&[Fact::Visited(visit)]);
    assert_eq!(story.kinds(), [""; 0]);
}

#[test]
fn a_replaced_push_that_comes_is_found() {
    let key = |order: &mut Order| order.collapse = Some(1);
    let mut story = Story::new();
    for number in [1, 2] {
        story.order(number, key);
        story.answer(number, Fate::Stored);
    }
    let (began_at, mut came) = (story.tick(), story.came(1));
    came.collapse = Some(b"k1".to_vec());
    let (came, acks) = (vec![came], Vec::new());
    let visit = Visit { device: 1, began_at, epoch: None, full: false, came, acks };
    story.book.take(&[Fact::Visited(visit)]);
    assert_eq!(story.kinds(), ["a replaced push came"]);
}

#[test]
fn a_dropped_product_takes_its_pushes_with_it_for_good() {
    let mut story = Story::new();
    story.stored(1);
    let (device, asked_at) = (1, story.tick());
    let answered_at = story.tick();
    story.book.take(&[Fact::Dropped { device, asked_at, answered_at }]);
    story.book.end_life(false);
    story.shows(&[]);
    assert_eq!(story.kinds(), [""; 0]);

    let mut story = Story::new();
    story.stored(1);
    let asked_at = story.tick();
    let answered_at = story.tick();
    story.book.take(&[Fact::Dropped { device, asked_at, answered_at }]);
    story.shows(&[1]);
    assert_eq!(story.kinds(), ["a push came back after its product was dropped"]);
}

#[test]
fn an_answer_that_says_delivered_wants_a_device_that_said_so() {
    let mut story = Story::new();
    story.order(1, |_| {});
    story.visit(false, &[1], &[1], false);
    story.answer(1, Fate::Delivered);
    assert_eq!(story.kinds(), [""; 0]);
    story.order(2, |_| {});
    story.answer(2, Fate::Delivered);
    assert_eq!(story.kinds(), ["delivered, says the answer, but the device never said so"]);
}

#[test]
fn a_push_whose_time_is_short_may_vanish_and_may_not_be_late() {
    let mut story = Story::new();
    story.order(1, |order| order.short_s = Some(1));
    story.answer(1, Fate::Stored);
    story.now += 10_000_000;
    story.book.end_life(false);
    let mut gone = Story { book: story.book, now: story.now };
    gone.shows(&[1]);
    assert_eq!(gone.kinds(), ["a push came after its time"]);
    let mut story = Story::new();
    story.order(1, |order| order.short_s = Some(1));
    story.answer(1, Fate::Stored);
    story.shows(&[]);
    assert_eq!(story.kinds(), [""; 0]);
}

#[test]
fn a_refused_order_must_not_come() {
    let mut story = Story::new();
    story.order(1, |_| {});
    story.book.take(&[Fact::Refused(1)]);
    story.shows(&[1]);
    assert_eq!(story.kinds(), ["a refused order came"]);
}

#[test]
fn what_is_long_over_is_forgotten_and_still_must_not_come() {
    let mut story = Story::new();
    story.stored(1);
    story.stored(2);
    story.visit(true, &[1, 2], &[1], true);
    story.book.end_life(true);
    for _ in 0..3 * FORGET_LIVES {
        story.book.end_life(false);
    }
    assert_eq!(story.book.orders.len(), 1, "2 still waits");
    story.shows(&[1, 2]);
    assert_eq!(story.kinds(), ["a push came that was never sent"]);
}

#[test]
fn an_epoch_that_does_not_rise_is_found() {
    let mut story = Story::new();
    for epoch in [5, 6, 6] {
        let (began_at, epoch, came) = (story.tick(), Some(epoch), Vec::new());
        let visit = Visit { device: 1, began_at, epoch, full: false, came, acks: Vec::new() };
        story.book.take(&[Fact::Visited(visit)]);
    }
    assert_eq!(story.kinds(), ["an epoch did not rise"]);
}

#[test]
fn a_keyed_list_may_have_an_id_a_shard_but_one_at_a_device() {
    let mut story = Story::new();
    story.order(1, |order| (order.keyed, order.devices) = (true, vec![1, 2]));
    story.answer_as(1, 777, Fate::Stored);
    story.shows(&[1]); // as 100
    story.shows(&[1]);
    assert_eq!(story.kinds(), [""; 0]);
    let (began_at, mut came) = (story.tick(), story.came(1));
    came.id = 777;
    let (came, acks) = (vec![came], Vec::new());
    let visit = Visit { device: 1, began_at, epoch: None, full: false, came, acks };
    story.book.take(&[Fact::Visited(visit)]);
    assert_eq!(story.kinds(), ["doubled"]);
}

#[test]
fn a_fan_out_that_was_answered_is_on_its_way_until_its_counts_are_seen_and_is_one_message() {
    let mut story = Story::new();
    story.order(1, |order| (order.group, order.keyed) = (Some(0), true));
    let at = story.tick();
    story.book.take(&[Fact::Answered { number: 1, id: 100, at, fates: Vec::new() }]);
    story.stored(2);
    story.visit(true, &[2], &[2], true);
    story.book.end_life(false);
    story.shows(&[1]); // behind one that was asked later
    assert_eq!(story.kinds(), [""; 0]);
    story.answer_as(1, 100, Fate::Stored);
    story.shows(&[]);
    assert_eq!(story.kinds(), ["lost"]);
    story.answer_as(1, 101, Fate::Stored);
    assert_eq!(story.kinds(), ["lost", "an order made two messages"]);
}

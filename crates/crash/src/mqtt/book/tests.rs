//! Made-up histories: those that are right pass, and each that is wrong is found.

use super::*;

/// A reader with QoS 2 of `t/#` and `w/#`, one with QoS 1, and two of one group.
const READER: usize = 0;
const SIMPLE: usize = 1;
const PAIR: [usize; 2] = [7, 8];

/// A history that is being made up.
struct Story {
    book: Book,
    now: u64,
}

impl Story {
    /// All are subscribed.
    fn new() -> Story {
        let mut story = Story { book: Book::default(), now: 1 };
        for reader in [READER, SIMPLE, PAIR[0], PAIR[1]] {
            for filter in READERS[reader].filters {
                story.subscribe(reader, filter);
            }
        }
        story
    }

    fn tick(&mut self) -> u64 {
        self.now += 1_000;
        self.now
    }

    fn subscribe(&mut self, reader: usize, filter: &str) {
        let (wished, granted) = (self.tick(), self.tick());
        let filter = filter.to_owned();
        let wish = Fact::Wished(reader, filter.clone(), wished);
        self.book.take(&[wish, Fact::Granted(reader, filter, granted)]);
    }

    fn unsubscribe(&mut self, reader: usize, filter: &str) {
        let (unwished, ended) = (self.tick(), self.tick());
        let filter = filter.to_owned();
        let wish = Fact::Unwished(reader, filter.clone(), unwished);
        self.book.take(&[wish, Fact::Ended(reader, filter, ended)]);
    }

    fn ask(&mut self, number: u64, topic: &str, (retain, clear): (bool, bool)) {
        let at = self.tick();
        let (client, topic, qos) =
            ("a".to_owned(), topic.to_owned(), super::super::cast::qos_of(topic));
        self.book.take(&[Fact::Asked(Asked { number, client, topic, qos, retain, clear, at })]);
    }

    fn ack(&mut self, number: u64) {
        let at = self.tick();
        self.book.take(&[Fact::Acked(number, at)]);
    }

    /// A message that is answered.
    fn publish(&mut self, number: u64, topic: &str) {
        self.ask(number, topic, (false, false));
        self.ack(number);
    }

    fn sees(&mut self, reader: usize, topic: &str, numbers: &[u64]) {
        for &number in numbers {
            let (at, topic) = (self.tick(), topic.to_owned());
            let qos = super::super::cast::qos_of(&topic).min(READERS[reader].qos);
            let (dup, retain, id) = (false, false, 1);
            let sight = Sight { reader, number, topic, qos, dup, retain, id, at };
            self.book.take(&[Fact::Seen(sight)]);
        }
    }

    /// Everybody has seen these.
    fn all_see(&mut self, topic: &str, numbers: &[u64]) {
        self.sees(READER, topic, numbers);
        self.sees(SIMPLE, topic, numbers);
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.book.wrongs.iter().map(|(kind, _)| *kind).collect()
    }
}

#[test]
fn what_was_answered_comes_to_all_in_order_and_repeats_at_qos_1_alone_are_no_fault() {
    let mut story = Story::new();
    story.publish(1, "t/q1/0");
    story.publish(2, "t/q2/0");
    story.book.end_life();
    story.publish(3, "t/q1/0");
    story.all_see("t/q1/0", &[1, 3, 1]);
    story.all_see("t/q2/0", &[2]);
    story.sees(SIMPLE, "t/q2/0", &[2]);
    story.book.drained();
    assert_eq!(story.kinds(), [""; 0]);
    assert_eq!(story.book.tally.0.get("mqtt repeats"), Some(&3));
}

#[test]
fn a_loss_is_found_and_told_once() {
    let mut story = Story::new();
    story.publish(1, "t/q1/0");
    story.publish(2, "t/q1/0");
    story.sees(READER, "t/q1/0", &[1, 2]);
    story.sees(SIMPLE, "t/q1/0", &[2]);
    story.book.end_life();
    story.book.drained();
    story.book.drained();
    assert_eq!(story.kinds(), ["lost"]);
    assert!(story.book.wrongs[0].1.contains("number: 1"));
}

#[test]
fn what_was_not_answered_may_be_missing_and_may_come() {
    let mut story = Story::new();
    story.ask(1, "t/q2/0", (false, false));
    story.ask(2, "t/q2/0", (false, false));
    story.sees(READER, "t/q2/0", &[2]);
    story.book.drained();
    assert_eq!(story.kinds(), [""; 0]);
}

#[test]
fn a_second_delivery_at_qos_2_is_found_for_a_session_and_for_a_group() {
    let mut story = Story::new();
    story.publish(1, "t/q2/0");
    story.all_see("t/q2/0", &[1]);
    story.sees(READER, "t/q2/0", &[1]);
    story.publish(2, "s/q2/0");
    story.sees(PAIR[0], "s/q2/0", &[2]);
    story.sees(PAIR[1], "s/q2/0", &[2]);
    assert_eq!(story.kinds(), ["doubled", "doubled in a shared group"]);
}

#[test]
fn one_member_of_a_group_is_enough_and_none_is_a_loss() {
    let mut story = Story::new();
    story.publish(1, "s/q2/0");
    story.publish(2, "s/q2/0");
    story.sees(PAIR[1], "s/q2/0", &[1]);
    story.book.drained();
    assert_eq!(story.kinds(), ["lost"]);
}

#[test]
fn wrong_order_is_found_within_one_publisher_and_topic() {
    let mut story = Story::new();
    (1..=3).for_each(|number| story.publish(number, "t/q1/0"));
    story.publish(4, "t/q1/1");
    story.sees(READER, "t/q1/1", &[4]);
    story.sees(READER, "t/q1/0", &[1, 3, 2]);
    assert_eq!(story.kinds(), ["out of order"]);
}

#[test]
fn a_message_that_was_asked_before_the_subscription_may_come_late() {
    let mut story = Story::new();
    story.ask(1, "x/q1/0", (false, false));
    story.subscribe(READER, "x/#");
    story.publish(2, "x/q1/0");
    story.sees(READER, "x/q1/0", &[2, 1]);
    assert_eq!(story.kinds(), [""; 0]);
}

#[test]
fn what_nobody_asked_for_or_not_so_is_found() {
    let mut story = Story::new();
    story.sees(READER, "t/q1/0", &[9]);
    story.publish(1, "t/q1/0");
    story.sees(READER, "t/q1/1", &[1]);
    story.publish(2, "x/q1/0");
    story.sees(READER, "x/q1/0", &[2]);
    let kinds = [
        "a message came that was never sent, or long after",
        "a message came under another topic",
        "a message came without a subscription",
    ];
    assert_eq!(story.kinds(), kinds);
}

#[test]
fn a_subscription_that_ended_brings_what_was_asked_before_its_end_alone() {
    let mut story = Story::new();
    story.publish(1, "x/q1/0");
    story.subscribe(READER, "x/#");
    story.publish(2, "x/q1/0");
    story.publish(3, "x/q1/0");
    story.unsubscribe(READER, "x/#");
    story.publish(4, "x/q1/0");
    story.sees(READER, "x/q1/0", &[3]);
    story.book.drained();
    assert_eq!(story.kinds(), [""; 0], "message 2 was in the queue and may be dropped");
    story.sees(READER, "x/q1/0", &[4]);
    assert_eq!(story.kinds(), ["a message came without a subscription"]);
}

#[test]
fn a_retained_message_is_the_last_answered_one_or_a_later_one() {
    let mut story = Story::new();
    let topic = "r/q1/a/0";
    let values = |number: u64| Fact::Retained(BTreeMap::from([(topic.to_owned(), number)]));
    let none = Fact::Retained(BTreeMap::new());
    story.ask(1, topic, (true, false));
    story.book.take(&[none.clone(), values(1)]);
    story.ack(1);
    story.ask(2, topic, (true, false));
    story.book.take(&[values(1), values(2)]);
    assert_eq!((story.kinds(), story.book.retained_count()), (vec![], 0));
    story.ack(2);
    assert_eq!(story.book.retained_count(), 1);
    story.book.take(&[values(1), none.clone()]);
    story.ask(3, topic, (true, true));
    story.book.take(&[none.clone(), values(2)]);
    story.ack(3);
    story.book.take(std::slice::from_ref(&none));
    story.book.take(&[values(2)]);
    assert_eq!(story.kinds(), ["a retained message is not right"; 3]);
}

#[test]
fn a_will_comes_once_and_not_after_a_farewell() {
    let mut story = Story::new();
    (1..=3).for_each(|number| story.ask(number, "w/q2/0", (false, false)));
    story.book.take(&[Fact::Due(1), Fact::Due(2), Fact::Gone(3)]);
    story.sees(READER, "w/q2/0", &[1, 3]);
    story.sees(SIMPLE, "w/q2/0", &[1, 2]);
    story.book.drained();
    assert_eq!(story.kinds(), ["a will came after a farewell", "lost"]);
}

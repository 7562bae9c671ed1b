//! How far a device is in its account's inbox, and what it does to go on (IM 5).
//!
//! Invariant: what it hands out it hands out once, in the inbox's order, without a gap.

use client::im::{ImEvent, ImOrder};
use model::chat::{ChatMessage, InboxEvent};
use model::timeline::Seq;
use std::sync::Arc;

/// Messages that are handed out before they are acknowledged, if more come at once.
const UNACKNOWLEDGED_MAX: u64 = 32;
/// The most that is pulled at once.
const PAGE: u16 = 100;
/// Number of a follower's own requests.
pub const NUMBER: u32 = u32::MAX;

/// Entry of an inbox.
#[derive(Clone)]
pub enum Came {
    /// A message.
    Message(Arc<ChatMessage>),
    /// An event that is no message.
    Event(Arc<InboxEvent>),
}

/// A device on its way through its inbox.
pub struct Follower {
    /// The last place that was handed out.
    last: Seq,
    /// The last place there is, as far as is known.
    head: Seq,
    acknowledged: Seq,
    is_pulling: bool,
    /// Whether it has not pulled yet: until it has, the server does not know its place.
    is_new: bool,
    /// Messages that it sent itself and whose places it has not passed: they do not come back.
    own: u64,
}

impl Follower {
    /// A device that has everything up to `last`, of an inbox that goes up to `head`.
    pub fn new(last: Seq, head: Seq) -> Follower {
        Follower { last, head, acknowledged: last, is_pulling: false, is_new: true, own: 0 }
    }

    /// Entries that are handed out because of an event.
    pub fn hear(&mut self, event: &ImEvent) -> Vec<(Seq, Came)> {
        match event {
            ImEvent::Message { seq, message } if self.is_next(*seq) => {
                self.pass(*seq);
                return vec![(*seq, Came::Message(message.clone()))];
            }
            ImEvent::Event { seq, event } if self.is_next(*seq) => {
                self.pass(*seq);
                let known = event.clone().map(|event| (*seq, Came::Event(event)));
                return known.into_iter().collect();
            }
            ImEvent::Sent { again: false, .. } => self.own += 1,
            ImEvent::Message { seq, .. } | ImEvent::Event { seq, .. } => {
                self.head = self.head.max(*seq);
            }
            ImEvent::Notify(head) => self.head = self.head.max(*head),
            ImEvent::Page { number: NUMBER, messages, events, upto, head } => {
                (self.is_pulling, self.own) = (false, 0);
                let said = messages.iter().map(|(seq, it)| (*seq, Came::Message(it.clone())));
                let happened = events.iter().map(|(seq, it)| (*seq, Came::Event(it.clone())));
                let mut handed: Vec<_> = said.chain(happened).collect();
                handed.retain(|(seq, _)| *seq > self.last);
                handed.sort_unstable_by_key(|(seq, _)| *seq);
                self.last = self.last.max(*upto);
                self.head = self.head.max(*head);
                return handed;
            }
            ImEvent::Failed { number: NUMBER, .. } => self.is_pulling = false,
            _ => {}
        }
        Vec::new()
    }

    /// A place is the next one.
    fn pass(&mut self, seq: Seq) {
        self.own -= seq - self.last - 1;
        self.last = seq;
        self.head = self.head.max(seq);
    }

    /// Orders that are due. `is_quiet`: nothing has come for a while.
    pub fn orders(&mut self, is_quiet: bool) -> Vec<ImOrder> {
        let mut orders = Vec::new();
        let unacknowledged = self.last - self.acknowledged;
        if unacknowledged >= UNACKNOWLEDGED_MAX || is_quiet && unacknowledged > 0 {
            self.acknowledged = self.last;
            orders.push(ImOrder::Acknowledge(self.last));
        }
        if (self.is_new || self.last < self.head) && !self.is_pulling {
            (self.is_pulling, self.is_new) = (true, false);
            orders.push(ImOrder::Pull { number: NUMBER, after: self.last, count: PAGE });
        }
        orders
    }

    /// Whether this is the next place, but for what the device has sent itself (IM 5.2).
    fn is_next(&self, seq: Seq) -> bool {
        let is_missed = self.is_pulling || self.head > self.last;
        let between = seq.checked_sub(self.last + 1);
        between.is_some_and(|between| between == 0 || !is_missed && between <= self.own)
    }

    /// Whether everything that is known of has been handed out.
    pub fn is_there(&self) -> bool {
        self.last >= self.head
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::account::AccountAddress;
    use model::chat::{ChatFault, ClientMessageId, Content, InboxChange};

    fn message(seq: Seq) -> (Seq, Arc<ChatMessage>) {
        let ann = AccountAddress::parse("ann", "a.example").expect("right");
        let message = ChatMessage {
            id: seq,
            seq,
            at_ms: 0,
            from: ann.clone(),
            device: "d".into(),
            to: ann,
            client_id: ClientMessageId([0; 16]),
            content: Content::text("x"),
            amended: None,
        };
        (seq, Arc::new(message))
    }

    fn live(seq: Seq) -> ImEvent {
        ImEvent::Message { seq, message: message(seq).1 }
    }

    fn page(seqs: std::ops::RangeInclusive<Seq>, head: Seq) -> ImEvent {
        let upto = *seqs.end();
        let (messages, events) = (seqs.map(message).collect(), Vec::new());
        ImEvent::Page { number: NUMBER, messages, events, upto, head }
    }

    fn seqs(handed: &[(Seq, Came)]) -> Vec<Seq> {
        handed.iter().map(|(seq, _)| *seq).collect()
    }

    fn pull(after: Seq) -> ImOrder {
        ImOrder::Pull { number: NUMBER, after, count: PAGE }
    }

    /// One that has pulled, and has everything up to `last`.
    fn begun(last: Seq) -> Follower {
        let mut follower = Follower::new(last, last);
        assert_eq!(follower.orders(true), [pull(last)], "so that the server knows where it is");
        let (messages, events) = (Vec::new(), Vec::new());
        let (upto, head) = (last, last);
        follower.hear(&ImEvent::Page { number: NUMBER, messages, events, upto, head });
        follower
    }

    #[test]
    fn what_the_device_sent_itself_is_no_gap() {
        let sent = ImEvent::Sent { number: 1, id: 1, seq: 1, at_ms: 1, again: false };
        let mut follower = begun(0);
        follower.hear(&sent);
        assert_eq!(seqs(&follower.hear(&live(2))), [2], "1 is its own");
        assert!(follower.hear(&live(4)).is_empty(), "3 is not");
        assert_eq!(follower.orders(false), [pull(2)]);
        follower.hear(&sent);
        assert!(follower.hear(&live(6)).is_empty(), "while it pulls, the page is what counts");
        assert_eq!(seqs(&follower.hear(&page(3..=6, 6))), [3, 4, 5, 6]);
        assert!(follower.hear(&live(8)).is_empty(), "the page had what it sent");
    }

    #[test]
    fn what_comes_in_order_is_handed_out_and_acknowledged_when_it_is_quiet() {
        let mut follower = begun(4);
        assert!(follower.orders(true).is_empty() && follower.is_there());
        assert_eq!(seqs(&follower.hear(&live(5))), [5]);
        assert!(follower.orders(false).is_empty());
        assert_eq!(follower.orders(true), [ImOrder::Acknowledge(5)]);
        assert!(follower.orders(true).is_empty(), "once");
        let handed: Vec<_> = (6..40).flat_map(|seq| follower.hear(&live(seq))).collect();
        assert_eq!(handed.len(), 34);
        assert_eq!(follower.orders(false), [ImOrder::Acknowledge(39)], "many at once");
    }

    #[test]
    fn a_gap_is_pulled_and_nothing_comes_twice() {
        let mut follower = begun(0);
        assert!(follower.hear(&live(3)).is_empty(), "1 and 2 are missing");
        assert_eq!(follower.orders(false), [pull(0)]);
        assert!(follower.hear(&live(4)).is_empty() && follower.orders(false).is_empty());
        assert_eq!(seqs(&follower.hear(&page(1..=3, 4))), [1, 2, 3]);
        assert!(follower.hear(&live(2)).is_empty(), "it is here");
        assert_eq!(follower.orders(false), [pull(3)]);
        assert_eq!(seqs(&follower.hear(&live(4))), [4], "it comes by itself meanwhile");
        assert!(follower.hear(&page(4..=4, 4)).is_empty() && follower.is_there());
    }

    fn event() -> Arc<InboxEvent> {
        let with = AccountAddress::parse("ann", "a.example").expect("right");
        Arc::new(InboxEvent { with, what: InboxChange::Read(1) })
    }

    #[test]
    fn events_have_places_among_the_messages_and_a_later_versions_are_passed() {
        let mut follower = begun(0);
        let live_event = |seq, event| ImEvent::Event { seq, event };
        assert_eq!(seqs(&follower.hear(&live_event(1, Some(event())))), [1]);
        assert!(follower.hear(&live_event(2, None)).is_empty());
        assert_eq!(seqs(&follower.hear(&live(3))), [3]);
        assert!(follower.hear(&live_event(5, Some(event()))).is_empty(), "4 is missing");
        assert_eq!(follower.orders(false), [pull(3)]);
        let (messages, events) = (vec![message(4), message(6)], vec![(5, event())]);
        let page = ImEvent::Page { number: NUMBER, messages, events, upto: 7, head: 7 };
        assert_eq!(seqs(&follower.hear(&page)), [4, 5, 6]);
        assert_eq!(seqs(&follower.hear(&live(8))), [8], "7 was of a later version");
    }

    #[test]
    fn a_notify_is_pulled_and_a_pull_that_failed_is_asked_again() {
        let mut follower = Follower::new(7, 9);
        assert_eq!(follower.orders(false), [pull(7)]);
        let why = Some(ChatFault::Busy);
        follower.hear(&ImEvent::Failed { number: NUMBER, why, word: "busy".into() });
        assert_eq!(follower.orders(false), [pull(7)]);
        follower.hear(&ImEvent::Failed { number: 1, why, word: "busy".into() });
        assert!(follower.orders(false).is_empty(), "another request's");
        assert_eq!(seqs(&follower.hear(&page(8..=9, 9))), [8, 9]);
        follower.hear(&ImEvent::Notify(11));
        assert_eq!(follower.orders(true), [ImOrder::Acknowledge(9), pull(9)]);
    }
}

//! How far a device is in its account's inbox, and what it does to go on (IM 5).
//!
//! Invariant: what it hands out it hands out once, in the inbox's order, without a gap.

use client::im::{ImEvent, ImOrder};
use model::chat::ChatMessage;
use model::timeline::Seq;
use std::sync::Arc;

/// Messages that are handed out before they are acknowledged, if more come at once.
const UNACKNOWLEDGED_MAX: u64 = 32;
/// The most that is pulled at once.
const PAGE: u16 = 100;
/// Number of a follower's own requests.
pub const NUMBER: u32 = u32::MAX;

/// A device on its way through its inbox.
pub struct Follower {
    /// The last place that was handed out.
    last: Seq,
    /// The last place there is, as far as is known.
    head: Seq,
    acknowledged: Seq,
    is_pulling: bool,
}

impl Follower {
    /// A device that has everything up to `last`, of an inbox that goes up to `head`.
    pub fn new(last: Seq, head: Seq) -> Follower {
        Follower { last, head, acknowledged: last, is_pulling: false }
    }

    /// What is handed out because of an event.
    pub fn hear(&mut self, event: &ImEvent) -> Vec<(Seq, Arc<ChatMessage>)> {
        match event {
            ImEvent::Message { seq, message } if *seq == self.last + 1 => {
                self.last = *seq;
                self.head = self.head.max(*seq);
                return vec![(*seq, message.clone())];
            }
            ImEvent::Message { seq, .. } => self.head = self.head.max(*seq),
            ImEvent::Notify(head) => self.head = self.head.max(*head),
            ImEvent::Page { number: NUMBER, messages, upto, head } => {
                self.is_pulling = false;
                let behind = messages.iter().filter(|(seq, _)| *seq > self.last);
                let handed = behind.cloned().collect();
                self.last = self.last.max(*upto);
                self.head = self.head.max(*head);
                return handed;
            }
            ImEvent::Failed { number: NUMBER, .. } => self.is_pulling = false,
            _ => {}
        }
        Vec::new()
    }

    /// What it wants to ask or say now. `is_quiet`: nothing has come for a while.
    pub fn orders(&mut self, is_quiet: bool) -> Vec<ImOrder> {
        let mut orders = Vec::new();
        let unacknowledged = self.last - self.acknowledged;
        if unacknowledged >= UNACKNOWLEDGED_MAX || is_quiet && unacknowledged > 0 {
            self.acknowledged = self.last;
            orders.push(ImOrder::Acknowledge(self.last));
        }
        if self.last < self.head && !self.is_pulling {
            self.is_pulling = true;
            orders.push(ImOrder::Pull { number: NUMBER, after: self.last, count: PAGE });
        }
        orders
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
    use model::chat::{ChatFault, ClientMessageId, Content};

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
        };
        (seq, Arc::new(message))
    }

    fn live(seq: Seq) -> ImEvent {
        ImEvent::Message { seq, message: message(seq).1 }
    }

    fn page(seqs: std::ops::RangeInclusive<Seq>, head: Seq) -> ImEvent {
        let upto = *seqs.end();
        ImEvent::Page { number: NUMBER, messages: seqs.map(message).collect(), upto, head }
    }

    fn seqs(handed: &[(Seq, Arc<ChatMessage>)]) -> Vec<Seq> {
        handed.iter().map(|(seq, _)| *seq).collect()
    }

    fn pull(after: Seq) -> ImOrder {
        ImOrder::Pull { number: NUMBER, after, count: PAGE }
    }

    #[test]
    fn what_comes_in_order_is_handed_out_and_acknowledged_when_it_is_quiet() {
        let mut follower = Follower::new(4, 4);
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
        let mut follower = Follower::new(0, 0);
        assert!(follower.hear(&live(3)).is_empty(), "1 and 2 are missing");
        assert_eq!(follower.orders(false), [pull(0)]);
        assert!(follower.hear(&live(4)).is_empty() && follower.orders(false).is_empty());
        assert_eq!(seqs(&follower.hear(&page(1..=3, 4))), [1, 2, 3]);
        assert!(follower.hear(&live(2)).is_empty(), "it is here");
        assert_eq!(follower.orders(false), [pull(3)]);
        assert_eq!(seqs(&follower.hear(&live(4))), [4], "it comes by itself meanwhile");
        assert!(follower.hear(&page(4..=4, 4)).is_empty() && follower.is_there());
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

//! Messages of QoS 1 and 2 that one session's client publishes, until both sides are through.
//!
//! ```text
//!  QoS 1   PUBLISH ── waits for logs ── PUBACK
//!  QoS 2   PUBLISH ── waits for logs ── PUBREC ── identifier taken ── PUBREL ── PUBCOMP
//! ```
//! Answers are given in the order in which the messages came. An identifier of QoS 2 is taken until
//! its message is released: whatever comes under it meanwhile is the same message (MQTT5 4.3.3-10).
//! Nothing here knows a log, a message or another session.

use base::slab::Key;
use model::session::{Denial, Routed};
use model::timeline::Seq;
use model::topic::Qos;
use std::collections::VecDeque;

/// A message whose answer waits.
#[derive(Clone, Copy)]
struct Pending {
    id: u16,
    qos: Qos,
    stage: Stage,
}

/// Stage of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Logs have to say so.
    Waits(Key),
    /// The answer is known, and waits for those before it.
    Ready(Result<Routed, Denial>),
}

/// An answer that is to be given now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReadyAnswer {
    pub id: u16,
    pub qos: Qos,
    pub result: Result<Routed, Denial>,
}

/// A packet identifier of QoS 2 that the client has not released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Inbound {
    pub id: u16,
    pub marker: Marker,
    /// A mark that says more is being written: until the log has answered, nobody can remove it.
    pub is_marking: bool,
    pub state: InboundState,
}

/// Mark in a timeline that a packet identifier is taken.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Marker {
    /// Its place; 0: there is none.
    pub seq: Seq,
    /// The place of the mark before it, which goes with it; 0: there is none.
    pub older: Seq,
    /// Whether the mark stands alone: the sessions of this shard did not get the message with it.
    pub alone: bool,
    /// Whether every log that must store the message has it.
    pub taken: bool,
}

impl Marker {
    /// The places of its marks, the older one first.
    pub fn places(self) -> impl Iterator<Item = Seq> {
        [self.older, self.seq].into_iter().filter(|seq| *seq != 0)
    }
}

/// State of a message of QoS 2 on its way in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InboundState {
    /// Logs are asked.
    Storing(Key),
    /// The message is taken.
    Taken(Routed),
    /// The message came before a restart, or a log refused a part of it: not all receivers may have
    /// it.
    Halfway,
    /// Its release is being written; whether this connection asked for it and gets the answer. A
    /// client that gets the answer to another's release may have a new message under the
    /// identifier.
    Releasing { asked: bool },
}

/// Messages of one session.
#[derive(Default)]
pub(crate) struct InboundMessages {
    /// Messages that the client waits to hear of, in order.
    pending: VecDeque<Pending>,
    /// Identifiers that it has not released.
    taken: Vec<Inbound>,
}

impl InboundMessages {
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.taken.is_empty()
    }

    /// A new message of QoS 2 is taken under an identifier that is free.
    pub fn begin(&mut self, id: u16) {
        let state = InboundState::Taken(Routed::NoSubscriber);
        self.taken.push(Inbound { id, marker: Marker::default(), is_marking: false, state });
    }

    /// One that the log gives back. Of two marks of an identifier the former goes with the latter;
    /// the place of one that stands before both.
    pub fn restore(&mut self, id: u16, mut marker: Marker) -> Option<Seq> {
        let before = self.end(id).map(|before| before.marker).unwrap_or_default();
        marker.older = before.seq;
        let state = match marker.taken {
            true => InboundState::Taken(Routed::Matched),
            false => InboundState::Halfway,
        };
        self.taken.push(Inbound { id, marker, is_marking: false, state });
        Some(before.older).filter(|older| *older != 0)
    }

    /// Takes identifiers whose messages are taken, which the log does not know: a mark that says so
    /// is being written from now on.
    pub fn take_untold(&mut self) -> Vec<u16> {
        let is_untold = |it: &&mut Inbound| {
            let is_taken = matches!(it.state, InboundState::Taken(_));
            is_taken && it.marker.seq != 0 && !it.marker.taken && !it.is_marking
        };
        let untold = self.taken.iter_mut().filter(is_untold);
        let begin = |it: &mut Inbound| {
            it.is_marking = true;
            it.id
        };
        untold.map(begin).collect()
    }

    /// The mark that says more was written here, or was refused. False: the identifier does not
    /// wait for it.
    pub fn marked(&mut self, id: u16, seq: Option<Seq>) -> bool {
        let is_it = |inbound: &&mut Inbound| inbound.id == id && inbound.is_marking;
        let Some(inbound) = self.taken.iter_mut().find(is_it) else { return false };
        inbound.is_marking = false;
        if let Some(seq) = seq {
            let older = inbound.marker.seq;
            inbound.marker = Marker { seq, older, alone: true, taken: true };
        }
        true
    }

    /// State of an identifier that is taken.
    pub fn at(&self, id: u16) -> Option<Inbound> {
        self.taken.iter().find(|inbound| inbound.id == id).copied()
    }

    /// A message is as far as this from now on.
    pub fn set_state(&mut self, id: u16, state: InboundState) {
        if let Some(inbound) = self.taken.iter_mut().find(|inbound| inbound.id == id) {
            inbound.state = state;
        }
    }

    /// The mark of an identifier stands here. False: it is free, or has one.
    pub fn set_marker(&mut self, id: u16, marker: Marker) -> bool {
        let is_it = |inbound: &&mut Inbound| inbound.id == id && inbound.marker.seq == 0;
        let inbound = self.taken.iter_mut().find(is_it);
        inbound.is_some_and(|inbound| {
            inbound.marker = marker;
            true
        })
    }

    /// An identifier is free from now on.
    pub fn end(&mut self, id: u16) -> Option<Inbound> {
        let at = self.taken.iter().position(|inbound| inbound.id == id)?;
        Some(self.taken.swap_remove(at))
    }

    /// The first message that not all may have, if there are more of them than this: it is over.
    pub fn end_halfway(&mut self, most: usize) -> Option<Inbound> {
        let is_halfway = |it: &Inbound| it.state == InboundState::Halfway;
        let count = self.taken.iter().filter(|it| is_halfway(it)).count();
        let first = self.taken.iter().position(is_halfway).filter(|_| count > most)?;
        Some(self.taken.remove(first))
    }

    /// The client waits for the answer of this message, which logs have to say.
    pub fn wait(&mut self, id: u16, qos: Qos, wait: Key) {
        self.pending.push_back(Pending { id, qos, stage: Stage::Waits(wait) });
        if qos == Qos::ExactlyOnce {
            self.set_state(id, InboundState::Storing(wait));
        }
    }

    /// A message of QoS 2 came again while logs are asked: the client waits for the same answer.
    pub fn wait_again(&mut self, id: u16, wait: Key) {
        let stage = Stage::Waits(wait);
        if !self.pending.iter().any(|pending| pending.stage == stage) {
            self.pending.push_back(Pending { id, qos: Qos::ExactlyOnce, stage });
        }
    }

    /// Whether a message of QoS 1 under this identifier waits for its answer.
    pub fn awaits_puback(&self, id: u16) -> bool {
        self.pending.iter().any(|it| it.id == id && it.qos == Qos::AtLeastOnce)
    }

    /// Whether the client waits for this answer over its present connection.
    pub fn awaits(&self, wait: Key) -> bool {
        self.pending.iter().any(|pending| pending.stage == Stage::Waits(wait))
    }

    /// Stores the result that a message waited for. At most one message waits for it, mostly one of
    /// the first.
    pub fn answered(&mut self, wait: Key, result: Result<Routed, Denial>) {
        let stage = Stage::Waits(wait);
        if let Some(pending) = self.pending.iter_mut().find(|pending| pending.stage == stage) {
            pending.stage = Stage::Ready(result);
        }
    }

    /// An answer that did not wait is given behind those that do. False: none does.
    pub fn give_behind(&mut self, answer: ReadyAnswer) -> bool {
        let ReadyAnswer { id, qos, result } = answer;
        if !self.pending.is_empty() {
            self.pending.push_back(Pending { id, qos, stage: Stage::Ready(result) });
        }
        !self.pending.is_empty()
    }

    /// The next answer that is to be given.
    pub fn next_ready(&mut self) -> Option<ReadyAnswer> {
        let &Pending { id, qos, stage: Stage::Ready(result) } = self.pending.front()? else {
            return None;
        };
        self.pending.pop_front();
        Some(ReadyAnswer { id, qos, result })
    }

    /// The connection is gone: who comes next waits for no answer of this one.
    pub fn disconnect(&mut self) {
        self.pending.clear();
        for inbound in &mut self.taken {
            if let InboundState::Releasing { asked } = &mut inbound.state {
                *asked = false;
            }
        }
    }

    /// Panics when an invariant does not hold. `is_away`: the session has no connection; `is_open`:
    /// whether somebody still waits.
    pub fn audit(&self, is_away: bool, is_open: impl Fn(Key) -> bool) {
        assert!(!is_away || self.pending.is_empty(), "nobody waits for an answer");
        for pending in &self.pending {
            if let Stage::Waits(wait) = pending.stage {
                assert!(is_open(wait), "an answer waits for something");
            }
        }
        let front = self.pending.front().map(|pending| pending.stage);
        assert!(!matches!(front, Some(Stage::Ready(_))), "what is ready is given");
        let stages = || self.pending.iter().map(|pending| pending.stage);
        for (at, stage) in stages().enumerate() {
            let is_wait = matches!(stage, Stage::Waits(_));
            assert!(!is_wait || !stages().skip(at + 1).any(|it| it == stage), "a wait is one's");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(slot: u32) -> Key {
        Key { slot, generation: 0 }
    }

    #[test]
    fn answers_are_given_in_the_order_of_their_messages() {
        let mut inbound = InboundMessages::default();
        let now = |id| ReadyAnswer { id, qos: Qos::AtLeastOnce, result: Ok(Routed::Matched) };
        assert!(!inbound.give_behind(now(1)) && inbound.is_empty(), "it need not wait");
        inbound.wait(1, Qos::AtLeastOnce, wait(1));
        inbound.wait(2, Qos::AtLeastOnce, wait(2));
        assert!(inbound.awaits_puback(2) && inbound.give_behind(now(3)));
        inbound.answered(wait(2), Err(Denial::Busy));
        assert_eq!(inbound.next_ready(), None, "the first is not known");
        inbound.answered(wait(1), Ok(Routed::Matched));
        let all: Vec<_> = std::iter::from_fn(|| inbound.next_ready()).collect();
        let given = |at: usize| (all[at].id, all[at].result.is_ok());
        assert_eq!([0, 1, 2].map(given), [(1, true), (2, false), (3, true)]);
        assert!(all.len() == 3 && inbound.is_empty());
    }

    #[test]
    fn an_identifier_is_taken_until_it_is_released() {
        let mut inbound = InboundMessages::default();
        inbound.begin(7);
        inbound.wait(7, Qos::ExactlyOnce, wait(1));
        inbound.wait_again(7, wait(1));
        assert_eq!(inbound.at(7).map(|it| it.state), Some(InboundState::Storing(wait(1))));
        let marker = Marker { seq: 3, alone: true, ..Marker::default() };
        assert!(inbound.set_marker(7, marker) && !inbound.set_marker(7, marker));
        inbound.answered(wait(1), Ok(Routed::Matched));
        let answer = inbound.next_ready().expect("it is ready");
        assert_eq!((answer.id, inbound.next_ready()), (7, None), "once, however often it came");
        inbound.set_state(7, InboundState::Releasing { asked: true });
        inbound.disconnect();
        assert_eq!(
            inbound.at(7).map(|it| it.state),
            Some(InboundState::Releasing { asked: false })
        );
        let both = Marker { seq: 9, alone: true, ..Marker::default() };
        assert_eq!(inbound.restore(7, both), None);
        assert_eq!(inbound.at(7).map(|it| (it.marker.seq, it.marker.older)), Some((9, 3)));
        assert_eq!(inbound.restore(7, Marker { seq: 11, ..both }), Some(3), "no more than two");
        assert_eq!(
            inbound.end(7).map(|it| (it.marker.seq, it.state)),
            Some((11, InboundState::Halfway))
        );
        assert!(inbound.end(7).is_none() && inbound.is_empty());
    }

    #[test]
    fn so_many_are_halfway_and_one_more_ends_the_first() {
        let mut inbound = InboundMessages::default();
        for id in 1..=3 {
            assert_eq!(inbound.restore(id, Marker { seq: id.into(), ..Marker::default() }), None);
        }
        assert_eq!(inbound.end_halfway(3), None);
        assert_eq!(inbound.end_halfway(2).map(|it| it.marker.seq), Some(1));
        assert_eq!(inbound.end_halfway(2), None);
    }
}

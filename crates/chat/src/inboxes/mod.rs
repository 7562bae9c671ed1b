//! What arrives for inboxes of this shard takes its place there, and is delivered.
//!
//! Each shard's parcels are taken by their numbers, without a gap: what comes out of order, because
//! something before it was lost or refused, is passed over and will come again. What the log has
//! already when it refuses one it refuses, too ([`LogCalls::heard`]). Invariants: up to `done`
//! everything of a shard is in its inbox; a parcel is handed to the log once, unless that has
//! refused it; nothing is put into an inbox before what came before it.
//!
//! [`LogCalls::heard`]: crate::log::LogCalls::heard

pub(crate) mod entry;

use crate::envelope::time_of;
use crate::inboxes::entry::Entry;
use crate::log::{Answered, PendingCall};
use crate::outbox::receivers::Carriage;
use crate::word::{Cargo, ChatWord, Parcel};
use crate::{Chat, Effects};
use base::time::Now;
use model::chat::InboxEvent;
use model::counters::ChatCounter;
use model::id::ShardId;
use model::ports::log::{Append, Call, Done, Write};
use model::timeline::{Message, Space, TimelineId};
use std::collections::VecDeque;
use std::sync::Arc;

/// A parcel that is being put into inboxes.
pub(crate) struct Placing {
    from: ShardId,
    number: u64,
    inboxes: Arc<[TimelineId]>,
    entry: Entry,
    cargo: Cargo,
    /// Those of them, in their order, whose accounts owe it to devices that are away.
    owed: Vec<TimelineId>,
}

/// How far the parcels of one shard have come.
#[derive(Clone, Default)]
struct Arrivals {
    /// The last that was taken.
    taken: u64,
    /// Everything up to here is in its inbox.
    done: u64,
    /// What became of those behind `done`.
    handed: VecDeque<Handed>,
    /// The shard is to be told so.
    untold: bool,
    /// It is to be told that one was refused.
    refused: bool,
}

/// What became of a parcel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Handed {
    /// It has not come, or was refused.
    Not,
    /// The log has not answered.
    Over,
    Placed,
}

impl Arrivals {
    fn at_mut(&mut self, number: u64) -> Option<&mut Handed> {
        let at = number.checked_sub(self.done + 1)?;
        self.handed.get_mut(usize::try_from(at).ok()?)
    }

    /// The next parcel is taken. True: it is to be handed to the log.
    fn takes(&mut self, number: u64) -> bool {
        self.taken = number;
        if let Some(handed) = self.at_mut(number) {
            return *handed == Handed::Not && {
                *handed = Handed::Over;
                true
            };
        }
        self.handed.push_back(Handed::Over);
        true
    }

    /// The log has placed a parcel.
    fn placed(&mut self, number: u64) {
        if let Some(handed) = self.at_mut(number) {
            *handed = Handed::Placed;
        }
        while self.handed.front() == Some(&Handed::Placed) {
            self.handed.pop_front();
            (self.done, self.untold) = (self.done + 1, true);
        }
        self.taken = self.taken.max(self.done);
    }

    /// The log has refused it: it comes again, and so does what was taken behind it.
    fn refused(&mut self, number: u64) {
        if let Some(handed) = self.at_mut(number) {
            *handed = Handed::Not;
        }
        self.taken = self.taken.min(number - 1);
        self.refused = true;
    }
}

/// What has arrived from each shard.
pub(crate) struct Inboxes(Vec<Arrivals>);

impl Inboxes {
    pub(crate) fn new(shards: u16) -> Inboxes {
        Inboxes(vec![Arrivals::default(); usize::from(shards.max(1))])
    }

    /// Whether everything before a parcel is in its inbox.
    pub(crate) fn is_next(&self, from: ShardId, number: u64) -> bool {
        self.0.get(usize::from(from.0)).is_some_and(|arrivals| arrivals.done + 1 == number)
    }

    /// Whether a shard is still to be told what has arrived.
    pub(crate) fn is_untold(&self) -> bool {
        self.0.iter().any(|arrivals| arrivals.untold || arrivals.refused)
    }
}

impl Chat {
    /// A parcel has arrived for an inbox of this shard.
    pub(crate) fn place(&mut self, now: Now, from: ShardId, parcel: Parcel, fx: &mut Effects) {
        let may_place = self.log.may_place();
        let Some(arrivals) = self.inboxes.0.get_mut(usize::from(from.0)) else { return };
        if parcel.number <= arrivals.done {
            arrivals.untold = true; // its receipt was lost
            return;
        }
        if parcel.number != arrivals.taken + 1 {
            return;
        }
        if !may_place {
            arrivals.refused = true;
            return;
        }
        if !arrivals.takes(parcel.number) {
            return;
        }
        let parcel = match &parcel.carriage {
            Carriage::Write => parcel,
            Carriage::Begin => return self.begins(from, parcel),
            Carriage::Read { members, at_once } => {
                let (of, number) = (parcel.conversation, (from, parcel.number));
                let told = (&**members, *at_once);
                if !self.nudged(now, number, (of, &parcel.cargo), told, fx) {
                    self.parcel_done(number, true);
                }
                return;
            }
        };
        let Parcel { number, inboxes, conversation, relation, cargo, .. } = parcel;
        let is_out = |inbox: &TimelineId| inbox.space() == Space::Foreign;
        if inboxes.iter().all(is_out) {
            return match self.goes_out(relation.own, &cargo) {
                Some(message) => {
                    self.queue_up(now, ((from, number), conversation), message, fx);
                }
                None => self.parcel_done((from, number), true),
            };
        }
        // By the time of its place an inbox is gone through after a start (`outbox/left.rs`).
        let at_s = now.unix_s().max((time_of(cargo.id()) / 1_000) as u32);
        let entry = match &cargo {
            Cargo::Message(message) => Entry::of_message(conversation, relation, message),
            Cargo::Event(_, event) => Entry::Event(conversation, InboxEvent::clone(event)),
        };
        let owed = self.owe(now, (&inboxes, at_s), &entry, fx);
        let (label, body) = entry.encode();
        let message = Arc::new(Message { id: cargo.id(), at_s, label, body });
        let append = Append {
            message,
            to: inboxes.to_vec(),
            once: None,
            heard: self.log.heard(),
            ends: true,
        };
        let placing = Box::new(Placing { from, number, inboxes, entry, cargo, owed });
        self.log.ask(PendingCall::Placed(placing), Call::Write(Write::Append(append)), fx);
    }

    /// What a parcel was for that is put into no inbox is done, or cannot be now. The turn's end
    /// confirms it.
    pub(crate) fn parcel_done(&mut self, (from, number): (ShardId, u64), is_done: bool) {
        let Some(arrivals) = self.inboxes.0.get_mut(usize::from(from.0)) else { return };
        match is_done {
            true => arrivals.placed(number),
            false => arrivals.refused(number),
        }
    }

    /// The log has put a parcel into its inbox, or not.
    pub(crate) fn placed_here(
        &mut self,
        now: Now,
        placing: Placing,
        result: Answered,
        fx: &mut Effects,
    ) {
        let Placing { from, number, inboxes, entry, cargo, owed } = placing;
        let Some(arrivals) = self.inboxes.0.get_mut(usize::from(from.0)) else { return };
        let Ok(Done::Appended(done)) = result else {
            arrivals.refused(number);
            return owed.into_iter().for_each(|inbox| self.owes(now, (inbox, None), fx));
        };
        arrivals.placed(number);
        fx.counters.count_by(ChatCounter::Distributed, done.seqs.len() as u64);
        let mut owed = owed.into_iter().peekable();
        for (&inbox, &seq) in inboxes.iter().zip(&done.seqs) {
            self.has_entry(now, (inbox, seq), &entry, fx);
            if let (Some(pointer), Cargo::Message(message)) = (entry.pointer(), &cargo) {
                self.is_to_reach((inbox, seq), pointer, message);
            }
            self.deliver(now, (inbox, seq), &cargo, fx);
            if owed.next_if_eq(&inbox).is_some() {
                self.owes(now, (inbox, Some(seq)), fx);
            }
        }
        self.confirm_here(now, from, fx);
    }

    /// This shard's own parcels are confirmed at once.
    fn confirm_here(&mut self, now: Now, from: ShardId, fx: &mut Effects) {
        if from == self.settings.shard {
            let upto = self.inboxes.0[usize::from(from.0)].done;
            self.confirmed(now, from, upto, fx);
        }
    }

    /// Tells the shards what has arrived.
    pub(crate) fn turn_inboxes(&mut self, now: Now, fx: &mut Effects) {
        for at in 0..self.inboxes.0.len() {
            let arrivals = &mut self.inboxes.0[at];
            let (shard, upto) = (ShardId(at as u16), arrivals.done);
            if std::mem::take(&mut arrivals.refused) {
                match shard == self.settings.shard {
                    true => self.refused(now, shard),
                    false => fx.peer_messages.push((shard, ChatWord::NotPlaced)),
                }
            }
            if !std::mem::take(&mut self.inboxes.0[at].untold) {
                continue;
            }
            if shard == self.settings.shard {
                self.confirmed(now, shard, upto, fx);
            } else {
                fx.peer_messages.push((shard, ChatWord::Placed { upto }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_comes_again_and_what_was_placed_behind_it_is_not_taken_twice() {
        let mut arrivals = Arrivals::default();
        assert!((1..=4).all(|number| arrivals.takes(number)));
        arrivals.refused(2);
        arrivals.placed(1);
        arrivals.placed(3);
        assert_eq!((arrivals.done, arrivals.taken), (1, 1));
        assert!(arrivals.takes(2), "it was refused");
        assert!(!arrivals.takes(3) && !arrivals.takes(4), "placed, and on its way");
        assert!(arrivals.takes(5));
        arrivals.placed(2);
        assert_eq!((arrivals.done, arrivals.taken), (3, 5));
        arrivals.placed(4);
        arrivals.placed(5);
        assert_eq!((arrivals.done, arrivals.handed.len()), (5, 0));
    }
}

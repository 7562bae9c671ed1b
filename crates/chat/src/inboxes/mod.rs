//! Parcels that arrive for inboxes of this shard are appended to them and delivered to devices.
//!
//! Each shard's parcels are accepted by number, without a gap: a parcel that is out of order,
//! because one before it was lost or refused, is ignored, and its sender repeats it. When the log
//! refuses a parcel, it also refuses those that it already has behind it ([`LogCalls::heard`]).
//! Invariants: all parcels of a shard up to `done` are in their inboxes; a parcel is handed to the
//! log once, unless the log has refused it; nothing is put into an inbox before its predecessors.
//!
//! [`LogCalls::heard`]: crate::log::LogCalls::heard

pub(crate) mod entry;

use crate::envelope::time_of;
use crate::inboxes::entry::Entry;
use crate::log::{Answered, PendingCall};
use crate::outbox::receivers::Carriage;
use crate::service::flow::Flow;
use crate::word::{Cargo, ChatWord, Parcel};
use crate::{Chat, Effects};
use base::time::Now;
use model::chat::InboxEvent;
use model::counters::ChatCounter;
use model::id::ShardId;
use model::ports::log::{Append, Call, Done, Write};
use model::timeline::{Message, Seq, Space, TimelineId};
use std::collections::VecDeque;
use std::sync::Arc;

/// A parcel that is being put into inboxes: a record and no flow, since each message has several.
pub(crate) struct Placing {
    from: ShardId,
    number: u64,
    inboxes: Arc<[TimelineId]>,
    entry: Entry,
    cargo: Cargo,
    owed: Vec<TimelineId>,
}

/// Progress of the parcels of one shard.
#[derive(Clone, Default)]
struct Arrivals {
    /// Number of the last parcel that was accepted.
    taken: u64,
    /// All parcels up to this number are in their inboxes.
    done: u64,
    /// States of the parcels behind `done`, in order.
    handed: VecDeque<Handed>,
    /// A receipt for `done` is to be sent to the shard.
    untold: bool,
    /// A notice that a parcel was refused is to be sent to the shard.
    refused: bool,
}

/// State of a parcel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Handed {
    /// Not received, or refused by the log.
    Not,
    /// Handed to the log, which has not answered.
    Over,
    Placed,
}

impl Arrivals {
    fn at_mut(&mut self, number: u64) -> Option<&mut Handed> {
        let at = number.checked_sub(self.done + 1)?;
        self.handed.get_mut(usize::try_from(at).ok()?)
    }

    /// Accepts the next parcel. True: the parcel is to be handed to the log.
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

    /// The log has refused a parcel: its sender repeats this parcel and those accepted behind it.
    fn refused(&mut self, number: u64) {
        if let Some(handed) = self.at_mut(number) {
            *handed = Handed::Not;
        }
        self.taken = self.taken.min(number - 1);
        self.refused = true;
    }
}

/// Progress of the parcels of each shard, by shard number.
pub(crate) struct Inboxes(Vec<Arrivals>);

impl Inboxes {
    pub(crate) fn new(shards: u16) -> Inboxes {
        Inboxes(vec![Arrivals::default(); usize::from(shards.max(1))])
    }

    /// Whether all parcels before this one are in their inboxes.
    pub(crate) fn is_next(&self, from: ShardId, number: u64) -> bool {
        self.0.get(usize::from(from.0)).is_some_and(|arrivals| arrivals.done + 1 == number)
    }

    /// Whether a receipt, or a notice of a refusal, is still to be sent to some shard.
    pub(crate) fn is_untold(&self) -> bool {
        self.0.iter().any(|arrivals| arrivals.untold || arrivals.refused)
    }
}

impl Chat {
    /// Accepts a parcel for inboxes of this shard.
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
        match &parcel.carriage {
            Carriage::Write => self.put_parcel_in(now, from, parcel, fx),
            Carriage::Begin => self.begins(from, parcel),
            Carriage::Read { members, at_once } => {
                let (of, number) = (parcel.conversation, (from, parcel.number));
                self.nudged(now, number, (of, &parcel.cargo), (members, *at_once), fx);
            }
        }
    }

    /// Puts a parcel into inboxes, or into the queue to other servers.
    fn put_parcel_in(&mut self, now: Now, from: ShardId, parcel: Parcel, fx: &mut Effects) {
        let Parcel { number, inboxes, conversation, relation, cargo, .. } = parcel;
        let is_out = |inbox: &TimelineId| inbox.space() == Space::Foreign;
        if inboxes.iter().all(is_out) {
            return match self.goes_out(relation.own, &cargo).cloned() {
                Some(message) => self.queue_up((from, number), conversation, message),
                None => self.parcel_done((from, number), true),
            };
        }
        let entry = match &cargo {
            Cargo::Message(message) => Entry::of_message(conversation, relation, message),
            Cargo::Event(_, event) => Entry::Event(conversation, InboxEvent::clone(event)),
        };
        let (message, owed) = self.entry_to_put(now, (&inboxes, &entry), &cargo, fx);
        let (message, to, heard) = (Arc::new(message), inboxes.to_vec(), self.log.heard());
        let append = Append { message, to, once: None, heard, ends: true };
        let placing = Box::new(Placing { from, number, inboxes, entry, cargo, owed });
        self.log.ask(PendingCall::Placed(placing), Call::Write(Write::Append(append)), fx);
    }

    /// Handles the log's answer to the append of a parcel to its inboxes.
    pub(crate) fn placed_here(
        &mut self,
        now: Now,
        placing: Placing,
        result: Answered,
        fx: &mut Effects,
    ) {
        let Placing { from, number, inboxes, entry, cargo, owed } = placing;
        let places = match result {
            Ok(Done::Appended(done)) => Some(done.seqs),
            _ => None,
        };
        self.parcel_done((from, number), places.is_some());
        self.entry_is_put(now, (&inboxes, places.as_deref()), (&entry, &cargo), owed, fx);
        if let Some(places) = places {
            fx.counters.count_by(ChatCounter::Distributed, places.len() as u64);
            self.confirm_here(now, from, fx);
        }
    }

    /// The message that puts an entry into inboxes, and those of the inboxes, in the same order,
    /// whose accounts owe the entry as a push to offline devices.
    fn entry_to_put(
        &mut self,
        now: Now,
        (inboxes, entry): (&[TimelineId], &Entry),
        cargo: &Cargo,
        fx: &mut Effects,
    ) -> (Message, Vec<TimelineId>) {
        // After a start an inbox is searched by the times of its entries (`outbox/left.rs`).
        let at_s = now.unix_s().max((time_of(cargo.id()) / 1_000) as u32);
        let owed = self.owe(now, (inboxes, at_s), entry, fx);
        let (label, body) = entry.encode();
        (Message { id: cargo.id(), at_s, label, body }, owed)
    }

    /// Delivers an entry to the devices of the accounts in whose inboxes it was put, at these
    /// places; `None`: the log has refused it.
    fn entry_is_put(
        &mut self,
        now: Now,
        (inboxes, places): (&[TimelineId], Option<&[Seq]>),
        (entry, cargo): (&Entry, &Cargo),
        owed: Vec<TimelineId>,
        fx: &mut Effects,
    ) {
        let mut owed = owed.into_iter().peekable();
        for (at, &inbox) in inboxes.iter().enumerate() {
            let place = places.and_then(|places| places.get(at).copied());
            if let Some(place) = place {
                self.has_entry(now, (inbox, place), entry, fx);
                if let (Some(pointer), Cargo::Message(message)) = (entry.pointer(), cargo) {
                    self.is_to_reach((inbox, place), pointer, message);
                }
                self.deliver(now, (inbox, place), cargo, fx);
            }
            if owed.next_if_eq(&inbox).is_some() {
                self.owes(now, (inbox, place), fx);
            }
        }
    }

    /// Records that a parcel has been carried out, or cannot be now. The end of the turn confirms
    /// it.
    pub(crate) fn parcel_done(&mut self, (from, number): (ShardId, u64), is_done: bool) {
        let Some(arrivals) = self.inboxes.0.get_mut(usize::from(from.0)) else { return };
        match is_done {
            true => arrivals.placed(number),
            false => arrivals.refused(number),
        }
    }

    /// Confirms parcels of this shard itself at once.
    fn confirm_here(&mut self, now: Now, from: ShardId, fx: &mut Effects) {
        if from == self.settings.shard {
            let upto = self.inboxes.0[usize::from(from.0)].done;
            self.confirmed(now, from, upto, fx);
        }
    }

    /// Sends each shard its receipts and notices of refusals.
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

/// Puts an entry into inboxes and delivers it to the devices of their accounts; returns its place
/// in each. `None`: the log has refused the entry.
pub(crate) async fn put_entry(
    flow: &mut Flow,
    inboxes: &[TimelineId],
    entry: &Entry,
    cargo: &Cargo,
) -> Option<Vec<Seq>> {
    let (chat, now, fx) = flow.state();
    let (message, owed) = chat.entry_to_put(now, (inboxes, entry), cargo, fx);
    let places = flow.append_entry(message, inboxes.to_vec()).await;
    let (chat, now, fx) = flow.state();
    chat.entry_is_put(now, (inboxes, places.as_deref()), (entry, cargo), owed, fx);
    places
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

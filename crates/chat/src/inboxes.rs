//! What arrives for inboxes of this shard takes its place there, and is delivered.
//!
//! Each shard's parcels are taken by their numbers, without a gap: what comes out of order, because
//! something before it was lost or refused, is passed over and will come again. Invariant: up to
//! `done` everything of a shard is in its inbox; a parcel that comes again takes no second place.

use crate::log::{Answered, PendingCall};
use crate::word::{ChatWord, Parcel};
use crate::{Chat, Effects};
use base::time::Now;
use model::chat::ChatMessage;
use model::counters::ChatCounter;
use model::id::ShardId;
use model::ports::log::{Append, Call, Done, OnceKey, Write};
use model::timeline::{Message, TimelineId};
use std::sync::Arc;

/// A parcel that is being put into an inbox.
pub(crate) struct Placing {
    from: ShardId,
    number: u64,
    inbox: TimelineId,
    message: Arc<ChatMessage>,
}

/// How far the parcels of one shard have come.
#[derive(Clone, Copy, Default)]
struct Arrivals {
    /// The last that was handed to the log.
    taken: u64,
    /// Everything up to here is in its inbox.
    done: u64,
    /// The shard is to be told so.
    untold: bool,
}

/// What has arrived from each shard.
pub(crate) struct Inboxes(Vec<Arrivals>);

impl Inboxes {
    pub(crate) fn new(shards: u16) -> Inboxes {
        Inboxes(vec![Arrivals::default(); usize::from(shards.max(1))])
    }

    /// Whether a shard is still to be told what has arrived.
    pub(crate) fn is_untold(&self) -> bool {
        self.0.iter().any(|arrivals| arrivals.untold)
    }
}

impl Chat {
    /// A parcel has arrived for an inbox of this shard.
    pub(crate) fn place(&mut self, from: ShardId, parcel: Parcel, fx: &mut Effects) {
        let may_ask = self.log.may_ask();
        let Some(arrivals) = self.inboxes.0.get_mut(usize::from(from.0)) else { return };
        if parcel.number <= arrivals.done {
            arrivals.untold = true; // its receipt was lost
            return;
        }
        if parcel.number != arrivals.taken + 1 || !may_ask {
            return;
        }
        arrivals.taken = parcel.number;
        let Parcel { number, inbox, pointer, message } = parcel;
        let (seq, conversation) = (pointer.seq.to_be_bytes(), pointer.conversation.to_bytes());
        let once = self.settings.home.of(&[&inbox.to_bytes(), &conversation, &seq]);
        let append = Append {
            message: Arc::new(Message {
                id: message.id,
                at_s: (message.at_ms / 1_000) as u32,
                label: pointer.encode(),
                body: Box::default(),
            }),
            to: vec![inbox],
            once: Some(OnceKey::at_home(inbox.home_hash(), once)),
        };
        let placing = Box::new(Placing { from, number, inbox, message });
        self.log.ask(PendingCall::Placed(placing), Call::Write(Write::Append(append)), fx);
    }

    /// The log has put a parcel into its inbox, or not.
    pub(crate) fn placed_here(
        &mut self,
        now: Now,
        placing: Placing,
        result: Answered,
        fx: &mut Effects,
    ) {
        let Placing { from, number, inbox, message } = placing;
        let Some(arrivals) = self.inboxes.0.get_mut(usize::from(from.0)) else { return };
        let Ok(Done::Appended(done)) = result else {
            // It comes again, and what was taken behind it too.
            arrivals.taken = arrivals.taken.min(number - 1);
            return;
        };
        if number == arrivals.done + 1 {
            (arrivals.done, arrivals.untold) = (number, true);
            arrivals.taken = arrivals.taken.max(number);
        }
        if let (true, Some(&seq)) = (done.new, done.seqs.first()) {
            fx.counters.count(ChatCounter::Distributed);
            self.deliver(inbox, seq, &message, fx);
        }
        if from == self.settings.shard {
            let upto = self.inboxes.0[usize::from(from.0)].done;
            self.confirmed(now, from, upto);
        }
    }

    /// Tells the shards what has arrived.
    pub(crate) fn turn_inboxes(&mut self, now: Now, fx: &mut Effects) {
        for at in 0..self.inboxes.0.len() {
            let arrivals = &mut self.inboxes.0[at];
            if !std::mem::take(&mut arrivals.untold) {
                continue;
            }
            let (shard, upto) = (ShardId(at as u16), arrivals.done);
            if shard == self.settings.shard {
                self.confirmed(now, shard, upto);
            } else {
                fx.peer_messages.push((shard, ChatWord::Placed { upto }));
            }
        }
    }
}

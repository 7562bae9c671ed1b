//! What was delivered: senders are told, once a second at most, while somebody is there to hear it.
//!
//! An account whose devices are here remembers of the last messages of others at which places of
//! its inbox they stand. When a device has acknowledged a place, the newest of each conversation up
//! to there is told to its sender's home, which tells the sender's devices that are here. Nothing
//! is repeated: who missed it asks ([`readers`](super::readers)). Invariant: what is remembered of
//! an account is bounded, and goes with its last session.

use crate::label::Pointer;
use crate::people::Task;
use crate::send::conversation_of;
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::thin_queue::ThinQueue;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ChatMessage, DeliveredNews};
use model::counters::ChatCounter;
use model::ports::log::Write;
use model::timeline::{Seq, TimelineId};
use std::sync::Arc;

/// A message of somebody else that no device of an account has acknowledged.
pub(crate) struct Undelivered {
    /// Its place in the inbox.
    place: Seq,
    conversation: TimelineId,
    seq: Seq,
    from: AccountAddress,
}

/// Those of one account, in the order of their places, and how far its devices have come.
#[derive(Default)]
pub(crate) struct Reach {
    waiting: ThinQueue<Undelivered>,
    /// Some device has all up to here, as it was stored.
    upto: Seq,
}

/// Some device of an account has what another one said.
#[derive(Debug)]
pub struct DeliveredTold {
    /// Who said it.
    to: AccountAddress,
    /// Who has it, by address and inbox.
    by: AccountAddress,
    inbox: TimelineId,
    conversation: TimelineId,
    upto: Seq,
}

impl DeliveredTold {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<DeliveredTold>() + self.to.as_str().len() + self.by.as_str().len()
    }
}

impl Reach {
    /// A message stands at a place; of those that are remembered the oldest is forgotten with one
    /// more than `most`.
    fn waits(&mut self, one: Undelivered, most: usize) {
        if one.place <= self.upto {
            return;
        }
        if self.waiting.put_by(one, |it| it.place).is_some_and(|count| count > most) {
            self.waiting.pop_front();
        }
    }

    /// A device has all up to a place: the newest of each conversation up to there. `None`: some
    /// device had that before.
    fn reaches(&mut self, upto: Seq) -> Option<Vec<Undelivered>> {
        if upto <= self.upto {
            return None;
        }
        self.upto = upto;
        let mut newest: Vec<Undelivered> = Vec::new();
        while let Some(one) = self.waiting.pop_front_if(|it| it.place <= upto) {
            match newest.iter_mut().find(|it| it.conversation == one.conversation) {
                Some(of) => *of = one,
                None => newest.push(one),
            }
        }
        Some(newest)
    }

    /// How far some device has come.
    pub(crate) fn upto(&self) -> Seq {
        self.upto
    }
}

impl Chat {
    /// A message has its place in the inbox of an account whose devices are here.
    pub(crate) fn is_to_reach(
        &mut self,
        (inbox, place): (TimelineId, Seq),
        pointer: Pointer,
        message: &Arc<ChatMessage>,
    ) {
        if pointer.relation.own || message.to.is_group() || message.from == message.to {
            return;
        }
        let most = usize::from(self.settings.limits.chat.undelivered_an_account_max);
        let Some(online) = self.sessions.online.get_mut(&inbox) else { return };
        let Pointer { conversation, seq, .. } = pointer;
        let from = message.from.clone();
        online.reach.waits(Undelivered { place, conversation, seq, from }, most);
    }

    /// A device of an account has all of its inbox up to a place, which is stored.
    pub(crate) fn reaches(&mut self, inbox: TimelineId, upto: Seq, fx: &mut Effects) {
        let Some(online) = self.sessions.online.get_mut(&inbox) else { return };
        let Some(newest) = online.reach.reaches(upto) else { return };
        let by = online.address.clone();
        let told = |it: Undelivered| DeliveredTold {
            to: it.from,
            by: by.clone(),
            inbox,
            conversation: it.conversation,
            upto: it.seq,
        };
        self.receipts.untold.extend(newest.into_iter().map(told));
        let reader = self.settings.any_reader();
        self.log.write(Write::Acknowledge { timeline: inbox, reader, upto }, fx);
    }

    /// Tells the homes of senders.
    pub(super) fn tell_delivered(&mut self, now: Now, fx: &mut Effects) {
        for told in std::mem::take(&mut self.receipts.untold) {
            fx.counters.count(ChatCounter::DeliveriesTold);
            let home = self.settings.owner(&told.to);
            if home == self.settings.shard {
                self.was_delivered(now, told, fx);
            } else {
                fx.peer_messages.push((home, ChatWord::Delivered(Box::new(told))));
            }
        }
    }

    /// Somebody has what an account of this shard said: its devices that are here are told.
    pub(crate) fn was_delivered(&mut self, now: Now, told: DeliveredTold, fx: &mut Effects) {
        // An account that is here was asked for when it came.
        let home = self.settings.home;
        let Some(id) = self.accounts.number_of(&told.to) else { return };
        let inbox = told.to.inbox(home, id);
        if conversation_of(home, inbox, told.inbox) != told.conversation {
            return; // it was said by somebody who had the name before
        }
        if !self.sessions.online.contains_key(&inbox) {
            return;
        }
        let address = told.to.clone();
        self.for_person(now, (inbox, &address), Task::Delivered(Box::new(told)), fx);
    }

    /// What the account has of who has it is known: of whom one has blocked the other it does not
    /// hear.
    pub(crate) fn delivery_goes(
        &mut self,
        inbox: TimelineId,
        told: &DeliveredTold,
        fx: &mut Effects,
    ) {
        if self.is_barred(inbox, (&told.by, told.inbox)).is_some() {
            return;
        }
        let Some(online) = self.sessions.online.get(&inbox) else { return };
        for &key in &online.sessions {
            let Some(session) = self.sessions.slab.at(key) else { continue };
            let news = DeliveredNews { with: told.by.clone(), upto: told.upto };
            fx.deliveries.push((session.conn, ChatDelivery::Delivered(Box::new(news))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::timeline::Space;

    fn one(place: Seq, of: u8) -> Undelivered {
        let conversation = TimelineId::of(Space::Conversation, HashKey::new(1, 2), &[&[of]]);
        let from = AccountAddress::parse("ann", "a.example").expect("right");
        Undelivered { place, conversation, seq: place * 10, from }
    }

    #[test]
    fn the_newest_of_each_conversation_up_to_a_place_is_told_once() {
        let mut reach = Reach::default();
        for (place, of) in [(1, 1), (2, 2), (5, 1), (3, 1), (3, 1), (7, 2)] {
            reach.waits(one(place, of), 64);
        }
        let told = |reach: &mut Reach, upto| {
            let all = reach.reaches(upto);
            all.map(|all| all.iter().map(|it| it.seq).collect::<Vec<_>>())
        };
        assert_eq!(told(&mut reach, 4), Some(vec![30, 20]));
        assert_eq!(told(&mut reach, 4), None, "another device, later");
        reach.waits(one(4, 1), 64);
        assert_eq!(told(&mut reach, 9), Some(vec![50, 70]), "nothing of before");
        assert_eq!(reach.upto(), 9);
    }

    #[test]
    fn of_too_many_the_oldest_are_forgotten() {
        let mut reach = Reach::default();
        (1..=10).for_each(|place| reach.waits(one(place, place as u8), 3));
        let told = reach.reaches(10).expect("further");
        assert_eq!(told.iter().map(|it| it.place).collect::<Vec<_>>(), [8, 9, 10]);
    }
}

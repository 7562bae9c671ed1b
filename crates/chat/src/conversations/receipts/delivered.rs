//! Delivered messages: senders get notices, once a second at most, while they have devices online.
//!
//! An account with devices online remembers the places in its inbox of the last messages of others.
//! When a device has acknowledged a place, the home of each sender gets the newest message of its
//! conversation up to there, and notifies the sender's devices that are online. Notices are not
//! repeated: a device that missed one asks ([`readers`](super::readers)). Invariant: the memory for
//! an account is bounded, and is freed with its last session.

use crate::label::Pointer;
use crate::people::Task;
use crate::send::conversation_of;
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::encoding::Encoding;
use base::thin_queue::ThinQueue;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ChatMessage, DeliveredNews};
use model::counters::ChatCounter;
use model::ports::log::Write;
use model::timeline::{Seq, TimelineId};
use std::sync::Arc;

/// A message of another account that no device of this account has acknowledged.
pub(crate) struct Undelivered {
    /// The message's place in the inbox.
    place: Seq,
    conversation: TimelineId,
    seq: Seq,
    from: AccountAddress,
}

/// The undelivered messages of one account, in the order of their places, and how far its devices
/// are.
#[derive(Default)]
pub(crate) struct Reach {
    waiting: ThinQueue<Undelivered>,
    /// The place up to which some device has the inbox, as it was stored.
    upto: Seq,
}

/// The notice that some device of an account has a message of another one.
#[derive(Debug, Encoding)]
pub struct DeliveredTold {
    /// The sender of the message.
    to: AccountAddress,
    /// The receiver of the message, by address and inbox.
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
    /// Remembers a message at a place; beyond `most` messages, the oldest is forgotten.
    fn waits(&mut self, one: Undelivered, most: usize) {
        if one.place <= self.upto {
            return;
        }
        if self.waiting.put_by(one, |it| it.place).is_some_and(|count| count > most) {
            self.waiting.pop_front();
        }
    }

    /// Records that a device has all up to a place; returns the newest message of each conversation
    /// up to there. `None`: some device had that before.
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

    /// The place up to which some device has the inbox.
    pub(crate) fn upto(&self) -> Seq {
        self.upto
    }
}

impl Chat {
    /// Remembers a message that was stored in the inbox of an account with devices online.
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

    /// Records that a device of an account has its inbox up to a place, which is stored.
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

    /// Sends notices to the homes of senders.
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

    /// Notifies the devices that an account of this shard has online: its message was delivered.
    pub(crate) fn was_delivered(&mut self, now: Now, told: DeliveredTold, fx: &mut Effects) {
        // The number of an account with devices online was looked up at their login.
        let home = self.settings.home;
        let Some(id) = self.accounts.number_of(&told.to) else { return };
        let inbox = told.to.inbox(home, id);
        if conversation_of(home, inbox, told.inbox) != told.conversation {
            return; // an earlier account of this name sent it
        }
        if !self.sessions.online.contains_key(&inbox) {
            return;
        }
        let address = told.to.clone();
        self.for_person(now, (inbox, &address), Task::Delivered(Box::new(told)), fx);
    }

    /// Delivers the notice when the sender's contacts are in memory, unless one of the two accounts
    /// has blocked the other.
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

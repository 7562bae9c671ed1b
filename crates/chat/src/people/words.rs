//! Words between the homes of two accounts, which are repeated until they are confirmed.
//!
//! A home sends the words that it owes; the other one stores their effect, and sends a receipt.
//! Words and receipts may be lost: a word is repeated after a while, and after a start. Invariant:
//! a receipt is sent when the effect of its word is on stable storage, or the word changes nothing.

use super::store::{Change, Then};
use super::tie::{OWES_BLOCK, Tie, TieVerb, TieWord};
use super::{Blocking, Task};
use crate::sessions::Requester;
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::encoding::Encoding;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{Availability, ChatFault, Half, SubscriptionVerb};
use model::counters::ChatCounter;
use model::id::ShardId;
use model::timeline::TimelineId;
use std::sync::Arc;

/// A word of one account's home to another's.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct TieTold {
    /// The account that the word is from.
    pub(crate) from: AccountAddress,
    pub(crate) by: TimelineId,
    /// The account that the word is for.
    pub(crate) to: AccountAddress,
    pub(crate) inbox: TimelineId,
    pub(crate) word: TieWord,
    /// The sender's account was removed: a tie with a newer account of the same name stays.
    pub(crate) is_gone: bool,
}

/// A receipt: the word was taken, or refused.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct TieReceipt {
    pub(crate) told: TieTold,
    pub(crate) is_refused: bool,
}

/// A device and its presence; none: it has gone offline.
pub(crate) type DeviceState = (Box<str>, Option<Arc<Availability>>);

/// Presence of an account, for accounts of a shard that see it.
#[derive(Clone, Debug, Encoding)]
pub struct PresenceTold {
    /// Number for the receipt.
    pub(crate) number: u64,
    pub(crate) from: AccountAddress,
    pub(crate) by: TimelineId,
    pub(crate) states: Arc<[DeviceState]>,
    /// Inboxes of the accounts that see it.
    pub(crate) to: Box<[TimelineId]>,
}

/// A request for the presence of accounts of a shard.
#[derive(Clone, Debug, Encoding)]
pub struct ProbeAsked {
    /// Number for the answer.
    pub(crate) number: u64,
    pub(crate) from: AccountAddress,
    pub(crate) by: TimelineId,
    /// Inboxes of the accounts that are asked about.
    pub(crate) to: Box<[TimelineId]>,
}

/// The answer: accounts that are online and may be seen.
#[derive(Clone, Debug, Encoding)]
pub struct Probed {
    /// Number of the request.
    pub(crate) number: u64,
    pub(crate) found: Vec<(AccountAddress, TimelineId, Arc<[DeviceState]>)>,
}

impl TieTold {
    /// Approximate memory of the word beside itself, bytes.
    pub(crate) fn weight(&self) -> usize {
        let addresses = self.from.as_str().len() + self.to.as_str().len();
        size_of::<TieTold>() + addresses + self.word.greeting.len()
    }
}

/// Approximate memory of presences of devices, bytes.
pub(crate) fn weight_of(states: &[DeviceState]) -> usize {
    let of = |(device, state): &DeviceState| {
        64 + device.len() + state.as_ref().map_or(0, |state| state.weight())
    };
    states.iter().map(of).sum()
}

impl Chat {
    /// Sends the words that an account's home owes a contact's, and has them repeated until
    /// confirmed.
    pub(super) fn say_again(
        &mut self,
        now: Now,
        inbox: TimelineId,
        contact: &AccountAddress,
        fx: &mut Effects,
    ) {
        let Some(person) = self.people.known.get(&inbox) else { return };
        let Some(tie) = person.ties.get(contact) else { return };
        let Some(peer) = tie.peer.filter(|_| tie.owes != 0) else { return };
        let (from, words) = (person.address.clone(), tie.words().collect::<Vec<_>>());
        self.people.said.put((inbox, contact.clone()));
        let owner = self.settings.shard_at(peer);
        let is_gone = self.people.partings.has(inbox);
        for word in words {
            fx.counters.count(ChatCounter::ContactsTold);
            let (from, to) = (from.clone(), contact.clone());
            let told = Box::new(TieTold { from, by: inbox, to, inbox: peer, word, is_gone });
            if owner == self.settings.shard {
                self.tie_arrives(now, owner, told, fx);
            } else {
                fx.peer_messages.push((owner, ChatWord::Tie(told)));
            }
        }
    }

    /// Handles a word of another account's home.
    pub(crate) fn tie_arrives(
        &mut self,
        now: Now,
        from: ShardId,
        told: Box<TieTold>,
        fx: &mut Effects,
    ) {
        let (inbox, address) = (told.inbox, told.to.clone());
        self.for_person(now, (inbox, &address), Task::Word(from, told), fx);
    }

    /// Handles a receipt of another account's home.
    pub(crate) fn receipt_arrives(&mut self, now: Now, receipt: Box<TieReceipt>, fx: &mut Effects) {
        let (inbox, address) = (receipt.told.by, receipt.told.from.clone());
        self.for_person(now, (inbox, &address), Task::Receipt(receipt), fx);
    }

    pub(super) fn confirm(
        &mut self,
        now: Now,
        to: ShardId,
        (told, is_refused): (TieTold, bool),
        fx: &mut Effects,
    ) {
        let receipt = Box::new(TieReceipt { told, is_refused });
        if to == self.settings.shard {
            self.receipt_arrives(now, receipt, fx);
        } else {
            fx.peer_messages.push((to, ChatWord::TieHeard(receipt)));
        }
    }

    /// Applies a word of a contact's home to an account of this shard.
    pub(super) fn tie_told(
        &mut self,
        now: Now,
        inbox: TimelineId,
        (from, told): (ShardId, TieTold),
        fx: &mut Effects,
    ) {
        let limits = &self.settings.limits.chat;
        let Some(person) = self.people.known.get(&inbox) else { return };
        let known = person.ties.get(&told.from);
        let is_others = |tie: &Tie| tie.peer.is_some_and(|peer| peer != told.by);
        if told.is_gone && known.is_some_and(is_others) {
            return self.confirm(now, from, (told, false), fx);
        }
        let mut tie = known.cloned().unwrap_or_else(|| Tie::new(told.from.clone()));
        tie.is_now(told.by);
        let mut said = None;
        match told.word.verb {
            TieVerb::Block => tie.is_barred = true,
            TieVerb::Unblock => tie.is_barred = false,
            TieVerb::Subscription(verb) => {
                let is_blocked = person.blocks(&told.from);
                said = tie.hears(verb, &told.word, is_blocked).then_some(verb);
            }
        }
        let waits = |tie: &&Tie| !tie.counts() && tie.subscription().from == Half::Pending;
        let is_barred = |tie: &&Tie| !tie.counts() && tie.is_barred;
        let new = |is: &dyn Fn(&&Tie) -> bool| is(&&tie) && !known.as_ref().is_some_and(is);
        let is_full = |is: &dyn Fn(&&Tie) -> bool, most: u32| {
            new(is) && person.ties.values().filter(is).count() >= most as usize
        };
        if is_full(&waits, limits.contact_requests_an_account_max)
            || is_full(&is_barred, limits.contacts_an_account_max)
        {
            fx.counters.count(ChatCounter::RequestsRefused);
            return self.confirm(now, from, (told, true), fx);
        }
        let then = Then::Confirm(from, Box::new(told));
        self.change_tie(now, inbox, Box::new(Change { tie, said, then }), fx);
    }

    /// Applies a receipt of a contact's home: the word was taken, or refused.
    pub(super) fn tie_heard(
        &mut self,
        now: Now,
        inbox: TimelineId,
        receipt: &TieReceipt,
        fx: &mut Effects,
    ) {
        let TieReceipt { told: TieTold { to, inbox: peer, word, .. }, is_refused } = receipt;
        let Some(person) = self.people.known.get(&inbox) else { return };
        let (tie, is_blocked) = (person.ties.get(to), person.blocks(to));
        let Some(mut tie) = tie.filter(|tie| tie.peer == Some(*peer)).cloned() else { return };
        tie.is_heard(word.verb, word.number);
        let mut said = None;
        if *is_refused && word.verb == TieVerb::Subscription(SubscriptionVerb::Subscribe) {
            let verb = SubscriptionVerb::Unsubscribed;
            said = tie.hears(verb, word, is_blocked).then_some(verb);
        }
        if tie.owes & OWES_BLOCK == 0 {
            let fault = is_refused.then_some(ChatFault::ContactsFull);
            self.blocking_over(inbox, to, fault, fx);
        }
        let change = Change { tie, said, then: Then::Nobody };
        self.change_tie(now, inbox, Box::new(change), fx);
    }

    /// Answers a block order when the contact's home knows of it.
    pub(super) fn answer_when_told(
        &mut self,
        inbox: TimelineId,
        contact: &AccountAddress,
        wait: Requester,
        fx: &mut Effects,
    ) {
        let tie = self.people.known.get(&inbox).and_then(|person| person.ties.get(contact));
        if tie.is_none_or(|tie| tie.owes & OWES_BLOCK == 0) {
            return self.answer_people(wait, Ok(()), fx);
        }
        self.people.blocking.put(Blocking { wait, inbox, contact: contact.clone() });
    }

    fn blocking_over(
        &mut self,
        inbox: TimelineId,
        contact: &AccountAddress,
        fault: Option<ChatFault>,
        fx: &mut Effects,
    ) {
        let is_it = |it: &Blocking| it.inbox == inbox && it.contact == *contact;
        for Blocking { wait, .. } in self.people.blocking.take_all(is_it) {
            self.answer_people(wait, fault.map_or(Ok(()), Err), fx);
        }
    }

    /// Whether an account whose ties are here may send something to another: not if one has blocked
    /// the other. A blocked account gets the answer for an account that does not exist.
    pub(crate) fn may_reach(
        &self,
        inbox: TimelineId,
        other: (&AccountAddress, TimelineId),
        fx: &mut Effects,
    ) -> Result<(), ChatFault> {
        let fault = self.is_barred(inbox, other);
        fault.iter().for_each(|_| fx.counters.count(ChatCounter::BlockedSends));
        fault.map_or(Ok(()), Err)
    }

    /// The fault if an account whose ties are here, or the other one, has blocked the other.
    pub(crate) fn is_barred(
        &self,
        inbox: TimelineId,
        (address, to): (&AccountAddress, TimelineId),
    ) -> Option<ChatFault> {
        let person = self.people.known.get(&inbox)?;
        if person.blocks(address) {
            return Some(ChatFault::Blocked);
        }
        let tie = person.ties.get(address)?;
        (tie.is_barred && tie.peer == Some(to)).then_some(ChatFault::UnknownAccount)
    }
}

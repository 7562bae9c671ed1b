//! Who adds whom: before somebody is made a member of a group, or invited, its home is asked.
//!
//! ```text
//! Create, Add, Invite ─► each who is named is found ─► its home: blocked? by whom is it added?
//!                                       ▲                     │
//!   added, invited, or refused ◄────────┴─────────────────────┘
//! Create ─► how many has it made? (what it knows of its conversations) ─► is it in pace? ─┘
//! ```
//! It knows no group. Invariant: nobody is made a member, or invited, by whom it blocks; by whom it
//! is added without being asked, it says itself.

use crate::conversations::changes::{Subject, Task, Wish};
use crate::people::Task as PersonTask;
use crate::sessions::Requester;
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::time::Now;
use model::account::{AccountAddress, AccountId};
use model::chat::{Adding, ChatFault, Half};
use model::counters::ChatCounter;
use model::id::ShardId;
use model::timeline::TimelineId;

/// Whether somebody is added, as its home is asked.
#[derive(Debug)]
pub struct AddingAsked {
    /// The asker's own.
    number: u64,
    /// Whom it concerns.
    account: AccountAddress,
    inbox: TimelineId,
    /// Who wants to add it.
    by: AccountAddress,
}

impl AddingAsked {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<AddingAsked>() + self.account.as_str().len() + self.by.as_str().len()
    }
}

impl Chat {
    /// Somebody who is named in an order is asked, at its home.
    pub(super) fn ask_adding(
        &mut self,
        now: Now,
        key: u64,
        (address, id): (&AccountAddress, AccountId),
        fx: &mut Effects,
    ) {
        let Some(by) = self.orders.at(key).map(|it| it.asker().clone()) else { return };
        let inbox = address.inbox(self.settings.home, id);
        let number = self.adding.put((key, address.clone()));
        let asked = Box::new(AddingAsked { number, account: address.clone(), inbox, by });
        let owner = self.settings.shard_at(inbox);
        if owner == self.settings.shard {
            self.adding_asked(now, owner, asked, fx);
        } else {
            fx.peer_messages.push((owner, ChatWord::AddingAsked(asked)));
        }
    }

    /// Is an account of this shard added by somebody?
    pub(crate) fn adding_asked(
        &mut self,
        now: Now,
        from: ShardId,
        asked: Box<AddingAsked>,
        fx: &mut Effects,
    ) {
        let (inbox, account) = (asked.inbox, asked.account.clone());
        self.for_person(now, (inbox, &account), PersonTask::Adding(from, asked), fx);
    }

    /// What it has of those who want to add it is known, or is not now.
    pub(crate) fn adding_known(
        &mut self,
        (from, asked): (ShardId, Box<AddingAsked>),
        fault: Option<ChatFault>,
        fx: &mut Effects,
    ) {
        let AddingAsked { number, inbox, by, .. } = *asked;
        let is_contact = || {
            let tie = self.people.tie(inbox, &by);
            tie.is_some_and(|tie| {
                let (it, state) = (&tie.contact, tie.subscription());
                let sees = |half: Half| half == Half::Subscribed;
                it.is_listed || sees(state.to) || sees(state.from)
            })
        };
        let is_added = match (fault, self.adding_of(inbox)) {
            (Some(fault), _) => Err(fault),
            (None, _) if self.people.blocks(inbox, &by) => Err(ChatFault::UnknownAccount),
            (None, Adding::Everybody) => Ok(true),
            (None, Adding::Contacts) => Ok(is_contact()),
            (None, Adding::Nobody) => Ok(false),
        };
        if is_added == Err(ChatFault::UnknownAccount) {
            fx.counters.count(ChatCounter::BlockedSends);
        }
        if from == self.settings.shard {
            return self.adding_told(number, is_added, fx);
        }
        fx.peer_messages.push((from, ChatWord::AddingTold { number, is_added }));
    }

    /// The home of somebody who is named has answered.
    pub(crate) fn adding_told(
        &mut self,
        number: u64,
        is_added: Result<bool, ChatFault>,
        fx: &mut Effects,
    ) {
        if let Some(of) = self.adding.take(number) {
            self.adding_answered(of, is_added, fx);
        }
    }

    /// Somebody makes a group: is it in pace, and how many has it?
    pub(super) fn may_make(
        &mut self,
        now: Now,
        (inbox, wait): (TimelineId, Requester),
        key: u64,
        fx: &mut Effects,
    ) {
        if let Err(retry_after_ms) = self.making_rates.take(now, inbox, 1) {
            fx.counters.count(ChatCounter::RateLimited);
            self.orders.take(key);
            return self.reject_send(wait, crate::send::too_fast(retry_after_ms), fx);
        }
        let (wish, what) = (Wish::Make(key), Subject::All);
        self.for_account(now, inbox, Task { wait, wish, what }, fx);
    }

    /// It has made so many, or that cannot be known now.
    pub(crate) fn made_known(
        &mut self,
        now: Now,
        key: u64,
        made: Result<usize, ChatFault>,
        fx: &mut Effects,
    ) {
        let most = self.settings.limits.chat.groups_an_account_max as usize;
        match made {
            Err(fault) => self.refuse_order(key, fault, fx),
            Ok(made) if made >= most => self.refuse_order(key, ChatFault::GroupsFull, fx),
            Ok(_) => self.finds_members(now, key, fx),
        }
    }
}

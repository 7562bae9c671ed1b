//! Permission to add: before an account is made a member of a group, or invited, its home is asked.
//!
//! ```text
//! Create, Add, Invite ─► named accounts are found ─► their homes: blocked? may they be added?
//!   added, invited, or refused ◄───────────────────────────────┘
//! ```
//! This file knows no group. Invariant: an account is not made a member, or invited, by one that it
//! blocks; each account decides itself who may add it without asking.

use crate::service::flow::Flow;
use crate::word::{PeerReply, ReplyTo};
use crate::{Chat, Effects};
use base::encoding::Encoding;
use model::account::AccountAddress;
use model::chat::{Adding, ChatFault, Half};
use model::counters::ChatCounter;
use model::timeline::TimelineId;

/// The question which accounts of one shard may be added by another account.
#[derive(Debug, Encoding)]
pub struct AddingAsked {
    /// The accounts to be added, and their inboxes.
    pub(crate) accounts: Vec<(AccountAddress, TimelineId)>,
    /// The account that wants to add them.
    pub(crate) by: AccountAddress,
}

impl AddingAsked {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        let of = |(account, _): &(AccountAddress, TimelineId)| 40 + account.as_str().len();
        let accounts: usize = self.accounts.iter().map(of).sum();
        size_of::<AddingAsked>() + accounts + self.by.as_str().len()
    }
}

/// Accounts that may not be added: those that are to be invited, and those that have blocked the
/// one that wants to add them.
#[derive(Clone, Default, Debug, Encoding)]
pub struct NotAdded {
    pub(crate) invited: Vec<AccountAddress>,
    pub(crate) refused: Vec<AccountAddress>,
}

impl NotAdded {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        let all = self.invited.iter().chain(&self.refused);
        all.map(|it| 24 + it.as_str().len()).sum()
    }
}

/// Replies to a shard with those of these accounts that may not be added.
pub(crate) async fn adding(mut flow: Flow, to: ReplyTo, asked: Box<AddingAsked>) {
    let result = not_added(&mut flow, *asked).await;
    let (chat, _, fx) = flow.state();
    chat.reply(to, result.map(PeerReply::NotAdded), fx);
}

async fn not_added(flow: &mut Flow, asked: AddingAsked) -> Result<NotAdded, ChatFault> {
    let bytes = asked.weight();
    let mut left = NotAdded::default();
    for (account, inbox) in asked.accounts {
        flow.contacts((inbox, &account), bytes).await?;
        let (chat, _, fx) = flow.state();
        match chat.is_added(inbox, &asked.by, fx) {
            Some(true) => {}
            Some(false) => left.invited.push(account),
            None => left.refused.push(account),
        }
    }
    Ok(left)
}

impl Chat {
    /// Whether an account of this shard, whose contacts are in memory, lets another one add it;
    /// none: it has blocked that one.
    fn is_added(&self, inbox: TimelineId, by: &AccountAddress, fx: &mut Effects) -> Option<bool> {
        if self.people.blocks(inbox, by) {
            fx.counters.count(ChatCounter::BlockedSends);
            return None;
        }
        Some(match self.adding_of(inbox) {
            Adding::Everybody => true,
            Adding::Nobody => false,
            Adding::Contacts => self.people.tie(inbox, by).is_some_and(|tie| {
                let (it, state) = (&tie.contact, tie.subscription());
                it.is_listed || [state.to, state.from].contains(&Half::Subscribed)
            }),
        })
    }
}

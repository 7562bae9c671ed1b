//! Chores: work on one conversation of an account after it has changed, by errands in the account's
//! name, one chore at a time for each conversation.
//!
//! Invariant: a chore has one errand under way, or several that do not affect each other.

use crate::operators::errands::{Owed, request_of};
use crate::sessions::{Asker, Requester};
use crate::waits::Waits;
use crate::{Chat, Effects};
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ChatRequest};
use model::id::SessionRef;
use model::ports::chat::ErrandWhat;
use model::timeline::TimelineId;
use std::collections::HashMap;

/// Maximum of chores of one kind under way, per shard. A further one is not begun: the next change
/// of that conversation begins it.
pub(super) const OPEN_MAX: usize = 1_024;

/// A conversation, by the account whose state has it and by its partner.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Whose {
    pub(crate) inbox: TimelineId,
    pub(crate) by: AccountAddress,
    pub(crate) with: AccountAddress,
}

impl Whose {
    /// The account as the one that makes a request.
    pub(super) fn asker(&self) -> Asker {
        let (inbox, address, device) = (self.inbox, self.by.clone(), Box::default());
        Asker { inbox, address, device, source: None, is_operator: false }
    }
}

/// Chores of one kind.
pub(crate) struct Chores<T> {
    open: Waits<(Whose, T)>,
    by_name: HashMap<Whose, u64>,
    /// Answers for the next turn.
    heard: Vec<(u64, ChatDelivery)>,
}

impl<T> Default for Chores<T> {
    fn default() -> Self {
        Chores { open: Waits::default(), by_name: HashMap::new(), heard: Vec::new() }
    }
}

impl<T> Chores<T> {
    /// Takes the answer to an errand of a chore.
    pub(crate) fn hears(&mut self, number: u64, told: ChatDelivery) {
        self.heard.push((number, told));
    }

    pub(super) fn take_heard(&mut self) -> Vec<(u64, ChatDelivery)> {
        std::mem::take(&mut self.heard)
    }

    pub(super) fn has_heard(&self) -> bool {
        !self.heard.is_empty()
    }

    /// The number of the chore that is under way for a conversation.
    pub(super) fn number_of(&self, whose: &Whose) -> Option<u64> {
        self.by_name.get(whose).copied()
    }

    /// The chore that is under way for a conversation.
    pub(super) fn of(&mut self, whose: &Whose) -> Option<&mut T> {
        let number = self.number_of(whose)?;
        self.open.at_mut(number).map(|(_, it)| it)
    }

    pub(super) fn at(&mut self, number: u64) -> Option<(&Whose, &mut T)> {
        self.open.at_mut(number).map(|(whose, it)| (&*whose, it))
    }

    /// Begins a chore for a conversation that has none; `None`: too many are under way.
    pub(super) fn begins(&mut self, whose: Whose, it: T) -> Option<u64> {
        if self.open.len() >= OPEN_MAX {
            return None;
        }
        let number = self.open.put((whose.clone(), it));
        self.by_name.insert(whose, number);
        Some(number)
    }

    pub(super) fn ends(&mut self, number: u64) -> Option<(Whose, T)> {
        let (whose, it) = self.open.take(number)?;
        self.by_name.remove(&whose);
        Some((whose, it))
    }
}

impl Chat {
    /// Sends an errand of a chore.
    pub(super) fn chore_asks(
        &mut self,
        now: Now,
        (owed, whose): (Owed, &Whose),
        what: ErrandWhat,
        fx: &mut Effects,
    ) {
        self.chore_requests(now, (owed, whose), |session| request_of(session, what), fx);
    }

    /// Sends a request of a chore, as a device of the account would.
    pub(super) fn chore_requests(
        &mut self,
        now: Now,
        (owed, whose): (Owed, &Whose),
        request: impl FnOnce(SessionRef) -> ChatRequest,
        fx: &mut Effects,
    ) {
        let Requester { conn, session, .. } = self.puts_errand(owed, whose.asker());
        self.request(now, conn, request(session), fx);
    }
}

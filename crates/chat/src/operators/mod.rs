//! What operators want: to look at an account, make it, end its sessions, mute it, and do something
//! in its name; and what they have looked at before a message is stored.
//!
//! Here are the commands of the API; [`errands`] are in the names of accounts. [`mutes`], [`rates`]
//! and [`words`] are looked at where a message comes in, then [`reviews`] asks whoever is to be
//! asked, and where it is stored [`shares`] are. Invariant: a command is answered once.

pub(crate) mod announcements;
pub(crate) mod erasures;
pub(crate) mod errands;
pub(crate) mod moving;
pub(crate) mod mutes;
pub(crate) mod rates;
pub(crate) mod reading;
pub(crate) mod reviews;
pub(crate) mod shares;
pub mod words;

use crate::accounts::{AccountRow, Owner, Waiter};
use crate::log::{Answered, PendingCall};
use crate::{Chat, Effects};
use base::time::Now;
use model::account::{AccountAddress, AccountId};
use model::chat::foreign::ForeignArrival;
use model::chat::{ChatFault, MovedChange, MovedMessage};
use model::ports::chat::{ChatAccountStatus, ChatAnswer, ChatCommand, Errand};
use model::ports::log::{Call, Done, Read};
use model::timeline::{Seq, TimelineId};
use std::collections::HashMap;

/// An account that is looked at, whose inbox is being asked.
pub(crate) struct Look {
    ask: u64,
    address: AccountAddress,
    id: AccountId,
    made_s: u32,
    inbox: TimelineId,
}

/// Commands that wait for an account.
#[derive(Default)]
pub(crate) struct Commands(HashMap<u64, What>);

/// What becomes of the account of a command.
enum What {
    Look,
    Kick,
    Mute(u32),
    Erase,
    Errand(Box<Errand>),
    Foreign(Box<ForeignArrival>),
    MoveIn(Box<MovedMessage>),
    ChangeMoved(Box<MovedChange>),
    MovedUpTo(Seq),
}

impl Chat {
    /// The API asks.
    pub(crate) fn command(&mut self, now: Now, ask: u64, command: ChatCommand, fx: &mut Effects) {
        if let Some(status) = self.erasures.keeps_from(&command) {
            return fx.answers.push((ask, ChatAnswer::Erasing(Some(status))));
        }
        let (address, make, what) = match command {
            ChatCommand::Groups { after, count, .. } => {
                return self.list_groups(ask, (after, count), fx);
            }
            ChatCommand::Account(address) => (address, None, What::Look),
            ChatCommand::Open(address) => (address, Some(Owner::Nobody), What::Look),
            ChatCommand::Kick(address) => (address, None, What::Kick),
            ChatCommand::Erase(address) if self.is_erasing(ask, &address, fx) => return,
            ChatCommand::Erase(address) => (address, None, What::Erase),
            ChatCommand::Mute(address, until_s) => (address, None, What::Mute(until_s)),
            ChatCommand::Chatrooms { after, count } => {
                let found = self.chatrooms_here(after.as_ref(), count.into());
                return fx.answers.push((ask, ChatAnswer::Chatrooms(found)));
            }
            ChatCommand::Online(count) => {
                let (total, some) = self.accounts_here(count.into());
                return fx.answers.push((ask, ChatAnswer::Online(total, some)));
            }
            ChatCommand::Announce(announcement) => return self.announce(ask, announcement, fx),
            ChatCommand::LeftQueue { queue, seqs } => {
                return self.left_queue(ask, (queue, &seqs), fx);
            }
            ChatCommand::Attendance(told) => {
                self.attendance_told(now, &told);
                return fx.answers.push((ask, ChatAnswer::Reached(true)));
            }
            ChatCommand::Errand(errand) => {
                (errand.by.clone(), Chat::errand_makes(&errand), What::Errand(errand))
            }
            ChatCommand::Foreign(arrival) => (arrival.concerns(), None, What::Foreign(arrival)),
            ChatCommand::MoveIn(address, moved) => (address, None, What::MoveIn(moved)),
            ChatCommand::ChangeMoved(address, moved) => (address, None, What::ChangeMoved(moved)),
            ChatCommand::MovedUpTo(address, upto) => (address, None, What::MovedUpTo(upto)),
        };
        self.commands.0.insert(ask, what);
        self.find_account(now, &address, make, Waiter::Command(ask), fx);
    }

    /// The account of a command is found, or not.
    pub(crate) fn account_of_command(
        &mut self,
        now: Now,
        address: &AccountAddress,
        (ask, row): (u64, Result<AccountRow, ChatFault>),
        fx: &mut Effects,
    ) {
        let Some(what) = self.commands.0.remove(&ask) else { return };
        let answer = match (row, what) {
            (Ok(AccountRow { id, made_s, .. }), What::Look) => {
                return self.look_at_account(ask, address, (id, made_s), fx);
            }
            (Ok(AccountRow { id, .. }), What::Kick) => {
                let inbox = address.inbox(self.settings.home, id);
                ChatAnswer::Ended(self.end_all(inbox, fx))
            }
            (Ok(AccountRow { id, made_s, .. }), What::Mute(until_s)) => {
                return self.mute(now, (ask, until_s), (address, (id, made_s)), fx);
            }
            (Ok(row), What::Erase) => return self.erase(ask, address, row, fx),
            (Ok(AccountRow { id, .. }), What::Errand(errand)) => {
                return self.run_errand(now, ask, (*errand, id), fx);
            }
            (Ok(AccountRow { id, .. }), What::Foreign(arrival)) => {
                return self.foreign_arrives(now, ask, (*arrival, Some(id)), fx);
            }
            (Err(ChatFault::UnknownAccount), What::Foreign(arrival)) => {
                return self.foreign_arrives(now, ask, (*arrival, None), fx);
            }
            (Ok(AccountRow { id, .. }), What::MoveIn(moved)) => {
                return self.moves_in(ask, (address, id), *moved, fx);
            }
            (Err(ChatFault::UnknownAccount), What::MoveIn(moved)) if moved.is_in_group(address) => {
                // Whoever said it there is not known here.
                return self.moves_in(ask, (address, AccountId::FOREIGN), *moved, fx);
            }
            (Ok(AccountRow { id, .. }), What::ChangeMoved(moved)) => {
                return self.changes_moved(now, ask, (address, id), *moved, fx);
            }
            (Ok(AccountRow { id, .. }), What::MovedUpTo(upto)) => {
                return self.has_moved(ask, (address, id), upto, fx);
            }
            (Err(ChatFault::UnknownAccount), What::Look | What::Mute(_)) => {
                ChatAnswer::Account(None)
            }
            (Err(ChatFault::UnknownAccount), What::Erase) => ChatAnswer::Erasing(None),
            (Err(ChatFault::UnknownAccount), What::Kick) => ChatAnswer::Ended(0),
            (
                Err(ChatFault::UnknownAccount),
                What::Errand(_) | What::MoveIn(_) | What::ChangeMoved(_) | What::MovedUpTo(_),
            ) => ChatAnswer::Told(None),
            (Err(ChatFault::StoreFailed | ChatFault::StoreFull), _) => ChatAnswer::StoreFailed,
            (Err(_), _) => ChatAnswer::Busy,
        };
        fx.answers.push((ask, answer));
    }

    /// Asks where the inbox of an account stands, for whoever looks at it.
    pub(crate) fn look_at_account(
        &mut self,
        ask: u64,
        address: &AccountAddress,
        (id, made_s): (AccountId, u32),
        fx: &mut Effects,
    ) {
        let inbox = address.inbox(self.settings.home, id);
        let look = Box::new(Look { ask, address: address.clone(), id, made_s, inbox });
        let read = Read::Standing { timeline: inbox, reader: self.settings.reader("") };
        self.log.ask(PendingCall::Looked(look), Call::Read(read), fx);
    }

    /// Where the inbox of an account stands.
    pub(crate) fn looked(&mut self, now: Now, look: Look, result: Answered, fx: &mut Effects) {
        let Look { ask, address, id, made_s, inbox } = look;
        let answer = match result {
            Ok(Done::Standing(status)) => {
                let (devices, head) = (self.sessions.devices(inbox), status.last);
                let muted_until_s = self.mutes.until(now, &address);
                let status = ChatAccountStatus { id, made_s, devices, head, muted_until_s };
                ChatAnswer::Account(Some(status))
            }
            _ => ChatAnswer::StoreFailed,
        };
        fx.answers.push((ask, answer));
    }
}

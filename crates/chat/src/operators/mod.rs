//! Operators' commands and rules: inspecting, creating, muting and disconnecting accounts, calls on
//! their behalf, and checks of messages before they are stored.
//!
//! This module has the commands of the API; [`errands`] are calls on behalf of accounts. A message
//! is checked by [`mutes`], [`rates`] and [`words`] when it arrives, then by [`reviews`] with the
//! external hook, and by [`shares`] when it is stored. Invariant: a command is answered once.

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

use crate::accounts::{AccountRow, FOUND_BYTES, Owner};
use crate::service::flow::Flow;
use crate::{Chat, Effects};
use model::account::{AccountAddress, AccountId};
use model::chat::foreign::ForeignArrival;
use model::chat::{ChatFault, MovedChange, MovedMessage};
use model::ports::chat::{ChatAccountStatus, ChatAnswer, ChatCommand, Errand};
use model::ports::log::{Call, Done, Read};
use model::timeline::Seq;

/// The operation of a command on its account.
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

/// Finds the account of a command, and carries out the operation on it.
async fn act(
    mut flow: Flow,
    ask: u64,
    (address, make): (AccountAddress, Option<Owner>),
    what: What,
) {
    let row = flow.account_row((&address, make), FOUND_BYTES).await;
    let (chat, now, fx) = flow.state();
    let answer = match (row, what) {
        (Ok(row), What::Look) => look_at(&mut flow, &address, row).await,
        (Ok(row), What::Mute(until_s)) => mutes::mute(&mut flow, until_s, (&address, row)).await,
        (Ok(row), What::Kick) => {
            let inbox = address.inbox(chat.settings.home, row.id);
            ChatAnswer::Ended(chat.end_all(inbox, fx))
        }
        (Ok(row), What::Erase) => erasures::begin(&mut flow, &address, row).await,
        (Ok(row), What::Errand(errand)) => {
            return chat.run_errand(now, ask, (*errand, row.id), fx);
        }
        (Ok(row), What::Foreign(arrival)) => {
            return chat.foreign_arrives(now, ask, (*arrival, Some(row.id)), fx);
        }
        (Err(ChatFault::UnknownAccount), What::Foreign(arrival)) => {
            return chat.foreign_arrives(now, ask, (*arrival, None), fx);
        }
        (Ok(row), What::MoveIn(moved)) => {
            return chat.moves_in(ask, (&address, row.id), *moved, fx);
        }
        (Err(ChatFault::UnknownAccount), What::MoveIn(moved)) if moved.is_in_group(&address) => {
            // The sender on the other server is not an account here.
            return chat.moves_in(ask, (&address, AccountId::FOREIGN), *moved, fx);
        }
        (Ok(row), What::ChangeMoved(moved)) => {
            return chat.changes_moved(now, ask, (&address, row.id), *moved, fx);
        }
        (Ok(row), What::MovedUpTo(upto)) => {
            return chat.has_moved(ask, (&address, row.id), upto, fx);
        }
        (Err(ChatFault::UnknownAccount), What::Look | What::Mute(_)) => ChatAnswer::Account(None),
        (Err(ChatFault::UnknownAccount), What::Erase) => ChatAnswer::Erasing(None),
        (Err(ChatFault::UnknownAccount), What::Kick) => ChatAnswer::Ended(0),
        (
            Err(ChatFault::UnknownAccount),
            What::Errand(_) | What::MoveIn(_) | What::ChangeMoved(_) | What::MovedUpTo(_),
        ) => ChatAnswer::Told(None),
        (Err(ChatFault::StoreFailed | ChatFault::StoreFull), _) => ChatAnswer::StoreFailed,
        (Err(_), _) => ChatAnswer::Busy,
    };
    flow.state().2.answers.push((ask, answer));
}

/// Describes an account, and the state of its inbox.
async fn look_at(flow: &mut Flow, address: &AccountAddress, row: AccountRow) -> ChatAnswer {
    let AccountRow { id, made_s, .. } = row;
    let (chat, _, _) = flow.state();
    let (inbox, reader) = (address.inbox(chat.settings.home, id), chat.settings.reader(""));
    let read = Read::Standing { timeline: inbox, reader };
    let Ok(Done::Standing(status)) = flow.log(Call::Read(read)).await else {
        return ChatAnswer::StoreFailed;
    };
    let (chat, now, _) = flow.state();
    let (devices, head) = (chat.sessions.devices(inbox), status.last);
    let muted_until_s = chat.mutes.until(now, address);
    ChatAnswer::Account(Some(ChatAccountStatus { id, made_s, devices, head, muted_until_s }))
}

impl Chat {
    /// Carries out a command of the API.
    pub(crate) fn command(&mut self, ask: u64, command: ChatCommand, fx: &mut Effects) {
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
            ChatCommand::Errand(errand) => {
                (errand.by.clone(), Chat::errand_makes(&errand), What::Errand(errand))
            }
            ChatCommand::Foreign(arrival) => (arrival.concerns(), None, What::Foreign(arrival)),
            ChatCommand::MoveIn(address, moved) => (address, None, What::MoveIn(moved)),
            ChatCommand::ChangeMoved(address, moved) => (address, None, What::ChangeMoved(moved)),
            ChatCommand::MovedUpTo(address, upto) => (address, None, What::MovedUpTo(upto)),
        };
        if !self.begin(|flow| act(flow, ask, (address, make), what)) {
            fx.answers.push((ask, ChatAnswer::Busy));
        }
    }
}

//! What operators want of an account: look at it, make it, end its sessions.

use crate::accounts::{AccountRow, Owner, Waiter};
use crate::log::{Answered, PendingCall};
use crate::{Chat, Effects};
use base::time::Now;
use model::account::{AccountAddress, AccountId};
use model::chat::ChatFault;
use model::ports::chat::{ChatAccountStatus, ChatAnswer, ChatCommand};
use model::ports::log::{Call, Done, Read};
use model::timeline::TimelineId;
use std::collections::HashMap;

/// An account that is looked at, whose inbox is being asked.
pub(crate) struct Look {
    ask: u64,
    id: AccountId,
    made_s: u32,
    inbox: TimelineId,
}

/// Commands that wait for an account.
#[derive(Default)]
pub(crate) struct Commands(HashMap<u64, What>);

/// What becomes of the account of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Look,
    Kick,
}

impl Chat {
    /// The API asks.
    pub(crate) fn command(&mut self, now: Now, ask: u64, command: ChatCommand, fx: &mut Effects) {
        let (make, what) = match &command {
            ChatCommand::Account(_) => (None, What::Look),
            ChatCommand::Open(_) => (Some(Owner::Nobody), What::Look),
            ChatCommand::Kick(_) => (None, What::Kick),
        };
        self.commands.0.insert(ask, what);
        self.find_account(now, command.account(), make, Waiter::Command(ask), fx);
    }

    /// The account of a command is found, or not.
    pub(crate) fn account_of_command(
        &mut self,
        address: &AccountAddress,
        ask: u64,
        row: Result<AccountRow, ChatFault>,
        fx: &mut Effects,
    ) {
        let Some(what) = self.commands.0.remove(&ask) else { return };
        let answer = match (row, what) {
            (Ok(AccountRow { id, made_s, .. }), What::Look) => {
                let inbox = address.inbox(self.settings.home, id);
                let look = Box::new(Look { ask, id, made_s, inbox });
                let reader = self.settings.reader("");
                let read = Read::Standing { timeline: inbox, reader };
                return self.log.ask(PendingCall::Looked(look), Call::Read(read), fx);
            }
            (Ok(AccountRow { id, .. }), What::Kick) => {
                let inbox = address.inbox(self.settings.home, id);
                ChatAnswer::Ended(self.end_all(inbox, fx))
            }
            (Err(ChatFault::UnknownAccount), What::Look) => ChatAnswer::Account(None),
            (Err(ChatFault::UnknownAccount), What::Kick) => ChatAnswer::Ended(0),
            (Err(ChatFault::StoreFailed | ChatFault::StoreFull), _) => ChatAnswer::StoreFailed,
            (Err(_), _) => ChatAnswer::Busy,
        };
        fx.answers.push((ask, answer));
    }

    /// Where the inbox of an account stands.
    pub(crate) fn looked(&mut self, look: Look, result: Answered, fx: &mut Effects) {
        let Look { ask, id, made_s, inbox } = look;
        let answer = match result {
            Ok(Done::Standing(status)) => {
                let devices = self.sessions.devices(inbox);
                let head = status.last;
                ChatAnswer::Account(Some(ChatAccountStatus { id, made_s, devices, head }))
            }
            _ => ChatAnswer::StoreFailed,
        };
        fx.answers.push((ask, answer));
    }
}

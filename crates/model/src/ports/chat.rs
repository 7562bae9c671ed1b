//! What the API asks of the chat service. Each command is about one account, and goes to the shard
//! where that is at home.

use crate::account::{AccountAddress, AccountId};

/// A question or an order about an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChatCommand {
    /// Look at it. Answer: `Account`.
    Account(AccountAddress),
    /// Make it, if it is not there: it may be written to before it logs in. Answer: `Account`.
    Open(AccountAddress),
    /// End its sessions. Answer: `Ended`.
    Kick(AccountAddress),
}

impl ChatCommand {
    /// Which account it is about.
    pub const fn account(&self) -> &AccountAddress {
        match self {
            ChatCommand::Account(account)
            | ChatCommand::Open(account)
            | ChatCommand::Kick(account) => account,
        }
    }
}

/// The answer to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChatAnswer {
    /// The account, if there is one.
    Account(Option<ChatAccountStatus>),
    /// So many sessions were ended.
    Ended(u32),
    /// Too much at once, or no answer in time: nothing was promised, try again.
    Busy,
    /// The log does not take it.
    StoreFailed,
}

/// Status of an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChatAccountStatus {
    /// Its number.
    pub id: AccountId,
    /// When it was made, Unix seconds.
    pub made_s: u32,
    /// Names of the devices that are here.
    pub devices: Vec<Box<str>>,
    /// The last place of its inbox.
    pub head: u64,
}

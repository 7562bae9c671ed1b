//! Receipts: how far others have got what an account said, and read it.
//!
//! A reader has two positions in a conversation, which only rise, and no state for each message:
//! one up to which messages are **delivered** (on some device of the reader), and one up to which
//! they are **read**. A change of a position is announced once and lost if nobody listens; a client
//! that wants to know it asks.

use crate::account::{AccountAddress, Addressee};
use crate::timeline::Seq;
use base::encoding::Encoding;
use base::words;

/// Most readers in one answer.
pub const READERS_PAGE_MAX: u16 = 256;

/// Most members of a group whose readers may be asked for.
pub const READERS_HARD_MAX: u64 = 1_000;

/// Readers of a conversation whose positions are requested.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadersRange {
    /// Other side of the conversation: an account, or a group, of which all other members are
    /// readers.
    pub with: Addressee,
    /// The message of which it is counted who has read it; 0: of none.
    pub seq: Seq,
    /// How many of them to pass over.
    pub from: u32,
    /// The most that is wanted, 1 to [`READERS_PAGE_MAX`].
    pub count: u16,
}

/// Positions of the readers of a conversation.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct ReadersPage {
    /// Number of the request.
    pub number: u32,
    /// Other side of the conversation.
    pub with: AccountAddress,
    /// The message that was asked for.
    pub seq: Seq,
    /// All others of the conversation.
    pub total: u32,
    /// Number of readers who have read up to the message, of those who show it to others.
    pub read: u32,
    /// How many are passed over.
    pub from: u32,
    /// The others, in the order of their addresses.
    pub readers: Vec<Reader>,
}

/// How far one of them is.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct Reader {
    /// The other account of the conversation.
    pub account: AccountAddress,
    /// Place up to which the account has read; 0: nothing, or it does not share its reads.
    pub read: Seq,
    /// Some device of it has everything up to here; 0 in a group.
    pub delivered: Seq,
}

/// The other of a conversation has, on some device, what the account said.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct DeliveredNews {
    /// The account that received it.
    pub with: AccountAddress,
    /// Place in their conversation up to which messages are delivered.
    pub upto: Seq,
}

impl ReadersPage {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let named = self.readers.iter().map(|it| size_of::<Reader>() + it.account.as_str().len());
        size_of::<ReadersPage>() + named.sum::<usize>()
    }
}

words! {
    /// Accounts that may add this account to a group without asking it. All others may invite it.
    /// An account that it has blocked may do neither.
    #[derive(Default)]
    pub enum Adding {
        /// All accounts.
        #[default]
        Everybody = "everybody",
        /// Its contacts: those in its list, and those of whom one sees the other's presence.
        Contacts = "contacts",
        /// No account: this one is always invited.
        Nobody = "nobody",
    }
}

impl Adding {
    /// Value of a word; `None`: it is none.
    pub fn of(word: &str) -> Option<Adding> {
        Adding::ALL.into_iter().find(|one| one.name() == word)
    }
}

/// How an account wants its privacy to be; what is absent stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PrivacyWish {
    /// Whether the account shares its reads with others, and gets theirs.
    pub shares_reads: Option<bool>,
    /// Accounts that may add it to groups.
    pub adding: Option<Adding>,
}

/// State of an account's privacy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encoding)]
pub struct PrivacyState {
    /// Whether the account shares its reads with others, and gets theirs.
    pub shares_reads: bool,
    /// Accounts that may add it to groups.
    pub adding: Adding,
}

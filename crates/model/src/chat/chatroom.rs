//! Chatrooms: requests to one, and notifications to its members.
//!
//! A chatroom has an address as an account has, `id@live.domain`. Its members are sessions that are
//! in it now; what is said there is for them, and for nobody later but as far as the room keeps its
//! last messages. Of a message nothing is promised: a room that is too loud refuses some, a member
//! that does not read is skipped, and told how many it missed. Invariant: the messages that a
//! member was sent and the count of those it missed make up all messages while it was there.

use super::{ChatFault, ChatMessage, GroupRole};
use crate::account::{AccountAddress, Addressee};
use crate::id::SessionRef;
use crate::timeline::{Seq, TimelineId};
use base::encoding::Encoding;
use std::sync::Arc;

/// Prefix of the domain of chatrooms, before the domain of their makers.
pub const CHATROOM_SERVICE: &str = "live.";

/// Longest title and longest announcement of a chatroom, bytes.
pub const CHATROOM_TEXT_BYTES_MAX: usize = 1_024;

/// Most accounts that one order names.
pub const CHATROOM_NAMED_MAX: usize = 64;

/// Moderators that a chatroom may have.
pub const CHATROOM_MODERATORS_MAX: usize = 64;

/// Messages that a chatroom keeps for those who join, whatever the configuration says.
pub const CHATROOM_KEEPS_MAX: u16 = 200;

/// Declares the verbs once: variant, word, meaning.
macro_rules! verbs {
    ($($variant:ident $word:literal $meaning:literal;)+) => {
        /// Action on a chatroom.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum ChatroomVerb { $(#[doc = $meaning] $variant,)+ }

        impl ChatroomVerb {
            /// All verbs.
            pub const ALL: &'static [ChatroomVerb] = &[$(ChatroomVerb::$variant,)+];

            /// The word of commands and the log.
            pub const fn word(self) -> &'static str {
                match self { $(ChatroomVerb::$variant => $word,)+ }
            }
        }
    };
}

verbs! {
    Create "create" "It is made, with this title. Whoever makes it owns it.";
    Rename "rename" "It has another title.";
    Announce "announce" "It has another announcement, which whoever joins is told.";
    Promote "promote" "This account is a moderator from now on.";
    Demote "demote" "These moderators are members like others from now on.";
    Mute "mute" "These accounts may not say anything there.";
    Unmute "unmute" "They may again.";
    Kick "kick" "These accounts' sessions leave it, and may join again.";
    Ban "ban" "Likewise, and may not.";
    Unban "unban" "They may again.";
    Quiet "quiet" "Only owner and moderators may say something.";
    Open "open" "All may again.";
    Close "close" "It is no more.";
}

impl ChatroomVerb {
    /// Whether the verb is about accounts, of which the order must name at least one.
    pub const fn names_accounts(self) -> bool {
        use ChatroomVerb::{Ban, Demote, Kick, Mute, Promote, Unban, Unmute};
        matches!(self, Promote | Demote | Mute | Unmute | Kick | Ban | Unban)
    }

    /// The verb with this word.
    pub fn of_word(word: &str) -> Option<ChatroomVerb> {
        Self::ALL.iter().copied().find(|verb| verb.word() == word)
    }
}

/// Request to a chatroom.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct ChatroomOrder {
    /// Address of the chatroom; without a domain, one of the asker's own.
    pub room: Addressee,
    /// Operation to carry out.
    pub verb: ChatroomVerb,
    /// Title or announcement, of those that have one, at most [`CHATROOM_TEXT_BYTES_MAX`] bytes.
    pub text: Box<str>,
    /// Accounts that the request is about, at most [`CHATROOM_NAMED_MAX`].
    pub accounts: Vec<Addressee>,
    /// For a new chatroom: number of messages that it keeps for those who join.
    pub keeps: u16,
    /// For a new chatroom: whether it keeps them over a restart, too.
    pub durable: bool,
}

/// Request about a chatroom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChatroomRequest {
    /// Session that asks.
    pub session: SessionRef,
    /// Number that the answer repeats.
    pub number: u32,
    /// The request itself.
    pub ask: ChatroomAsk,
}

/// Requested action on a chatroom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChatroomAsk {
    /// Joins a chatroom. Answered by [`ChatroomJoined`].
    Join {
        /// Address of the chatroom.
        room: Addressee,
        /// The most of its last messages that are wanted.
        history: u16,
    },
    /// Leaves a chatroom. Answered by `Done`.
    Leave(Addressee),
    /// A change. Answered by `Done`.
    Order(ChatroomOrder),
}

/// State of a chatroom, for its participants.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encoding)]
pub struct ChatroomState {
    /// Its title.
    pub title: Box<str>,
    /// Announcement of its owner; may be empty.
    pub announcement: Box<str>,
    /// Only owner and moderators may say something.
    pub quiet: bool,
    /// How many sessions are there, as of a while ago.
    pub here: u32,
    /// The number of the last message.
    pub head: Seq,
}

/// A session is in a chatroom.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct ChatroomJoined {
    /// Number of the request.
    pub number: u32,
    /// The room's whole address.
    pub room: AccountAddress,
    /// Names it in what the machine says of skipped messages.
    pub timeline: TimelineId,
    /// Role of the account there.
    pub role: GroupRole,
    /// The account may say nothing there.
    pub muted: bool,
    /// State of the chatroom.
    pub state: Arc<ChatroomState>,
    /// The last messages, the oldest first.
    pub history: Vec<Arc<ChatroomMessage>>,
}

/// A message in a chatroom: made once, and shared by all its members.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct ChatroomMessage {
    /// Names the room.
    pub timeline: TimelineId,
    /// Names the message among all that connections of a process are sent.
    pub frame: u64,
    /// Whether the message is among the last to be skipped for a slow reader: true for those of
    /// moderators and operators.
    pub important: bool,
    /// The message; its place is its number in the room.
    pub message: ChatMessage,
}

/// Messages that a member was not sent.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct ChatroomMissed {
    /// The room's whole address.
    pub room: AccountAddress,
    /// Names it.
    pub timeline: TimelineId,
    /// Number of messages missed since the last notice.
    pub missed: u32,
}

/// Event of a chatroom, for its members.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct ChatroomNews {
    /// The room's whole address.
    pub room: AccountAddress,
    /// Names it.
    pub timeline: TimelineId,
    /// The notification itself.
    pub what: ChatroomWhat,
}

/// Notification to participants of a chatroom.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding(State = 0, Out = 1)]
pub enum ChatroomWhat {
    /// The chatroom's new state.
    State(Arc<ChatroomState>),
    /// The session is in it no more.
    Out(ChatroomOut),
}

/// Why a session is in a chatroom no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encoding)]
#[encoding(Kicked = 0, Banned = 1, Closed = 2)]
pub enum ChatroomOut {
    /// A moderator removed it; it may join again.
    Kicked,
    /// A moderator removed it and banned its account.
    Banned,
    /// The chatroom was closed.
    Closed,
}

impl ChatroomOut {
    /// All reasons.
    pub const ALL: [ChatroomOut; 3] =
        [ChatroomOut::Kicked, ChatroomOut::Banned, ChatroomOut::Closed];

    /// The word for people and the log.
    pub const fn word(self) -> &'static str {
        match self {
            ChatroomOut::Kicked => "kicked",
            ChatroomOut::Banned => "banned",
            ChatroomOut::Closed => "closed",
        }
    }
}

/// A chatroom as an operator sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChatroomStatus {
    /// Its address.
    pub room: AccountAddress,
    /// Owner of the chatroom.
    pub owner: AccountAddress,
    /// State of the chatroom.
    pub state: Arc<ChatroomState>,
    /// Accounts that are banned there.
    pub banned: u32,
}

impl ChatroomOrder {
    /// Why it makes no sense by itself, whatever the room is.
    pub fn fault(&self) -> Option<ChatFault> {
        let named = self.accounts.len();
        if self.text.len() > CHATROOM_TEXT_BYTES_MAX || named > CHATROOM_NAMED_MAX {
            return Some(ChatFault::TooLarge);
        }
        // Who gets rights is looked up, one at a time.
        let is_one = self.verb != ChatroomVerb::Promote || named == 1;
        let is_right = self.verb.names_accounts() != self.accounts.is_empty() && is_one;
        (!is_right).then_some(ChatFault::Invalid)
    }
}

impl ChatroomMessage {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        size_of::<ChatroomMessage>() + self.message.weight()
    }
}

impl ChatroomJoined {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        size_of::<ChatroomJoined>() + self.history.iter().map(|it| it.weight()).sum::<usize>()
    }
}

impl AccountAddress {
    /// Whether it is a chatroom's; an account never has such a one.
    pub fn is_chatroom(&self) -> bool {
        self.domain().starts_with(CHATROOM_SERVICE)
    }

    /// Whether it is that of a chatroom which accounts of this domain make.
    pub fn is_chatroom_of(&self, domain: &str) -> bool {
        self.domain().strip_prefix(CHATROOM_SERVICE) == Some(domain)
    }
}

impl Addressee {
    /// The chatroom that an account of `domain` means by it.
    pub fn chatroom_within(&self, domain: &str) -> Option<AccountAddress> {
        let room = match self.as_str().contains('@') {
            true => self.within(domain),
            false => {
                AccountAddress::parse(self.as_str(), &format!("{CHATROOM_SERVICE}{domain}")).ok()?
            }
        };
        room.is_chatroom().then_some(room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chatroom_is_meant_by_its_name_or_by_its_address() {
        let of = |text: &str| {
            let meant = Addressee::parse(text).expect("right").chatroom_within("a.example");
            meant.map(|room| room.to_string())
        };
        assert_eq!(of("lobby").as_deref(), Some("lobby@live.a.example"));
        assert_eq!(of("lobby@live.b.example").as_deref(), Some("lobby@live.b.example"));
        assert_eq!(of("lobby@a.example"), None);
        let long = "x.".repeat(120);
        assert_eq!(Addressee::parse("l").expect("right").chatroom_within(&long), None);
    }

    #[test]
    fn an_order_names_accounts_where_it_is_about_some_and_one_that_gets_rights() {
        let order = |verb, count: usize| ChatroomOrder {
            room: Addressee::parse("lobby").expect("right"),
            verb,
            text: "".into(),
            accounts: vec![Addressee::parse("ann").expect("right"); count],
            keeps: 0,
            durable: false,
        };
        for &verb in ChatroomVerb::ALL {
            let named = usize::from(verb.names_accounts());
            assert_eq!(order(verb, named).fault(), None, "{verb:?}");
            assert_eq!(order(verb, 1 - named).fault(), Some(ChatFault::Invalid), "{verb:?}");
            assert_eq!(ChatroomVerb::of_word(verb.word()), Some(verb));
        }
        assert_eq!(order(ChatroomVerb::Promote, 2).fault(), Some(ChatFault::Invalid));
        assert_eq!(order(ChatroomVerb::Ban, 65).fault(), Some(ChatFault::TooLarge));
        let long =
            ChatroomOrder { text: "x".repeat(1_025).into(), ..order(ChatroomVerb::Rename, 0) };
        assert_eq!(long.fault(), Some(ChatFault::TooLarge));
    }
}

//! Rooms of groups: who is in one now, under which name, and what happens there (XEP-0045).
//!
//! An **occupant** is a name in a room with the devices of one account that are in it under that
//! name. Members are stored with their group; occupants are in the memory of the group's home, and
//! end with their sessions. Values only. Invariant: within a room no two occupants have names that
//! differ in case or blanks alone.

use super::{ChatMessage, ClientMessageId, Content, GroupRole, RoomChange, STATUS_BYTES_MAX, Show};
use crate::account::{AccountAddress, Addressee};
use crate::id::SessionRef;
use crate::timeline::Seq;
use base::encoding::Encoding;
use std::sync::Arc;

/// Longest name of an occupant, bytes.
pub const NICK_BYTES_MAX: usize = 128;

/// Most bytes that an occupant's presence carries beside its text.
pub const OCCUPANT_EXTRA_BYTES_MAX: usize = 1_024;

/// How an occupant is there, as its device says (XEP-0045 7.7).
#[derive(Clone, PartialEq, Eq, Default, Debug, Encoding)]
pub struct OccupantShow {
    /// Kind of availability.
    pub show: Show,
    /// Status text, at most [`STATUS_BYTES_MAX`](super::STATUS_BYTES_MAX) bytes.
    pub status: Box<str>,
    /// Further elements, as XML that means the same wherever it is written; at most
    /// [`OCCUPANT_EXTRA_BYTES_MAX`] bytes. The device and its occupant share one copy.
    pub extra: Option<Arc<Box<str>>>,
}

impl OccupantShow {
    /// The same without words, for an occupant that may not say anything.
    pub fn silenced(self) -> OccupantShow {
        OccupantShow { show: self.show, ..OccupantShow::default() }
    }

    /// Whether it is too long.
    pub fn is_long(&self) -> bool {
        let extra = self.extra.as_ref().map_or(0, |it| it.len());
        self.status.len() > STATUS_BYTES_MAX || extra > OCCUPANT_EXTRA_BYTES_MAX
    }

    /// Approximate memory beside itself, bytes.
    pub fn weight(&self) -> usize {
        self.status.len() + self.extra.as_ref().map_or(0, |it| size_of::<Box<str>>() + it.len())
    }
}

/// An occupant of a room.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct Occupant {
    /// Its name in the room.
    pub nick: Box<str>,
    /// Its account.
    pub account: AccountAddress,
    /// One of its devices that are in the room.
    pub device: Box<str>,
    /// Its role as a member of the group; none: it is no member.
    pub role: Option<GroupRole>,
    /// Whether it may not say anything.
    pub silent: bool,
    /// Whether an admin has made it a moderator of the room, until it leaves.
    pub moderates: bool,
    /// How it is there.
    pub show: OccupantShow,
}

/// Rights of an occupant in a room while it is there (XEP-0045 5.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Encoding)]
#[encoding(None = 0, Visitor = 1, Participant = 2, Moderator = 3)]
pub enum RoomRole {
    /// Not be in it: who gets this role is shown out, and may come back.
    None,
    /// Hear.
    Visitor,
    /// Speak, too.
    Participant,
    /// Moderate, too: kick others, give and take a voice, set the subject.
    Moderator,
}

impl RoomRole {
    /// All roles.
    pub const ALL: [RoomRole; 4] =
        [RoomRole::None, RoomRole::Visitor, RoomRole::Participant, RoomRole::Moderator];

    /// The word in stanzas.
    pub const fn word(self) -> &'static str {
        match self {
            RoomRole::None => "none",
            RoomRole::Visitor => "visitor",
            RoomRole::Participant => "participant",
            RoomRole::Moderator => "moderator",
        }
    }
}

/// An occupant that a request names.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding(Nick = 0, Account = 1)]
pub enum OccupantName {
    /// By its name in the room.
    Nick(Box<str>),
    /// By its account.
    Account(AccountAddress),
}

/// The role that an occupant is to have.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct RoleItem {
    /// The occupant.
    pub whom: OccupantName,
    /// Its role.
    pub role: RoomRole,
    /// Why, for people; at most [`REASON_BYTES_MAX`](super::REASON_BYTES_MAX) bytes, may be empty.
    pub reason: Box<str>,
}

/// Most occupants that one request gives a role.
pub const ROLES_SET_MAX: usize = 64;

/// Most occupants that are listed by a role.
pub const ROLES_LISTED_MAX: usize = 1_024;

impl Occupant {
    /// Its role in the room.
    pub fn room_role(&self) -> RoomRole {
        match self.role {
            Some(GroupRole::Owner | GroupRole::Admin) => RoomRole::Moderator,
            _ if self.moderates => RoomRole::Moderator,
            _ if self.silent => RoomRole::Visitor,
            _ => RoomRole::Participant,
        }
    }

    /// Whether it is a moderator of the room.
    pub fn is_moderator(&self) -> bool {
        self.room_role() == RoomRole::Moderator
    }

    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let texts = self.nick.len() + self.device.len() + self.show.weight();
        size_of::<Occupant>() + self.account.as_str().len() + texts
    }
}

/// The form of a name by which names are compared; none: it is no name. Two names that differ only
/// in case, or in blanks, are one (RFC 8266 2.1).
pub fn nick_key(nick: &str) -> Option<Box<str>> {
    let is_odd = nick.len() > NICK_BYTES_MAX || nick.chars().any(char::is_control);
    let words: Vec<String> = nick.split_whitespace().map(str::to_lowercase).collect();
    (!is_odd && !words.is_empty()).then(|| words.join(" ").into())
}

/// The name that an account has in a room unless it chooses another: that of the account, whole if
/// it is of another domain.
pub fn nick_of<'a>(room: &AccountAddress, account: &'a AccountAddress) -> &'a str {
    let domain = account.domain();
    match room.is_group_of(domain) || room.is_chatroom_of(domain) {
        true => account.name(),
        false => account.as_str(),
    }
}

/// Request of a device about a room.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OccupancyRequest {
    /// Session that asks.
    pub session: SessionRef,
    /// Number that the answer repeats; of what is not answered 0.
    pub number: u32,
    /// The room's group.
    pub group: Addressee,
    /// The request itself.
    pub ask: OccupancyAsk,
}

/// How a device enters a room.
#[derive(Clone, PartialEq, Eq, Default, Debug, Encoding)]
pub struct Entry {
    /// The wanted name.
    pub nick: Box<str>,
    /// How the occupant is there.
    pub show: OccupantShow,
    /// The password that it gives, if any.
    pub password: Option<Box<str>>,
    /// The device has just made the room: until its first settings nobody else finds it (XEP-0045
    /// 10.1.1).
    pub makes: bool,
}

/// Most bytes of a question to an occupant, or of an answer.
pub const RELAYED_BYTES_MAX: usize = 64 * 1024;

/// Kind of what a room relays between two occupants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encoding)]
#[encoding(Get = 0, Set = 1, Result = 2, Error = 3)]
pub enum RelayedKind {
    /// A question that changes nothing.
    Get,
    /// A question that may change something.
    Set,
    /// The answer.
    Result,
    /// A refusal.
    Error,
}

impl RelayedKind {
    /// All kinds.
    pub const ALL: [RelayedKind; 4] =
        [RelayedKind::Get, RelayedKind::Set, RelayedKind::Result, RelayedKind::Error];

    /// The word in stanzas.
    pub const fn word(self) -> &'static str {
        match self {
            RelayedKind::Get => "get",
            RelayedKind::Set => "set",
            RelayedKind::Result => "result",
            RelayedKind::Error => "error",
        }
    }

    /// Whether an answer is due to it.
    pub const fn is_question(self) -> bool {
        matches!(self, RelayedKind::Get | RelayedKind::Set)
    }
}

/// A question of an occupant to another one, or the answer (XEP-0045 17.4), kept nowhere.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct Relayed {
    /// Its kind.
    pub kind: RelayedKind,
    /// Id of the stanza.
    pub id: Box<str>,
    /// Content, as XML; at most [`RELAYED_BYTES_MAX`] bytes.
    pub xml: Box<str>,
}

impl Relayed {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        size_of::<Relayed>() + self.id.len() + self.xml.len()
    }
}

/// Kind of a request about a room.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding[
    Enter = 0, Rename = 1, SetRoles = 2, List = 3, Change = 4, Whisper = 5, Find = 6, Show = 7,
    Leave = 8, Relay = 9, Answer = 10
]]
pub enum OccupancyAsk {
    /// Enter it; or, in it already, enter it anew. Answered by `RoomEntered` or `Failed`.
    Enter(Box<Entry>),
    /// Take another name. Answered by `Done` or `Failed`.
    Rename(Box<str>),
    /// Give occupants a role until they leave: all of them, or none. Answered by `Done`, by
    /// `Occupant` if one, whom the group has muted, is to have a voice, or by `Failed`.
    SetRoles(Vec<RoleItem>),
    /// The occupants with this role, at most [`ROLES_LISTED_MAX`]. Answered by `Occupants` or
    /// `Failed`.
    List(RoomRole),
    /// Change the group as a whole, or not at all. Answered by `Changed` or `Failed`.
    Change {
        /// The asker's id of the request: a repetition with the same id changes nothing.
        client_id: ClientMessageId,
        /// The change.
        change: RoomChange,
    },
    /// Say something to one occupant, in the name of one's own (XEP-0045 7.5). Answered by `Done`
    /// or `Failed`.
    Whisper {
        /// The other's name.
        nick: Box<str>,
        /// Content of the message: it is not stored.
        content: Box<Content>,
    },
    /// Relay a question to the device of an occupant that has said last how it is there. Answered
    /// by `Done` or `Failed`.
    Relay {
        /// The other's name.
        nick: Box<str>,
        /// The question, with its asker's id; it is relayed under another one.
        relayed: Arc<Relayed>,
    },
    /// Relay the answer to a question, with the id under which that came. Answered by `Done`, or by
    /// `Failed` if no such question waits.
    Answer(Arc<Relayed>),
    /// The occupant with this name. Answered by `Occupant` or `Failed`.
    Find(Box<str>),
    /// Be there otherwise. Not answered.
    Show(OccupantShow),
    /// Leave it. Not answered.
    Leave,
}

/// A device is in a room.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct RoomEntered {
    /// Number of the request.
    pub number: u32,
    /// The room's group.
    pub group: AccountAddress,
    /// Number of the last news that this has.
    pub last: u64,
    /// The occupant that the device is.
    pub own: Arc<Occupant>,
    /// The others, at most as many as are shown.
    pub others: Vec<Arc<Occupant>>,
    /// The group's title.
    pub title: Box<str>,
    /// The nick of the occupant who gave the title; none: the group was made with it.
    pub titled_by: Option<Box<str>>,
}

impl RoomEntered {
    /// Approximate memory, bytes: occupants are shared.
    pub fn weight(&self) -> usize {
        size_of::<RoomEntered>() + self.title.len() + size_of_val(&*self.others)
    }
}

/// News of a room for devices that are in it.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct RoomNews {
    /// The room's group.
    pub group: AccountAddress,
    /// Its number in the room, from 1 without gaps; 0: not everybody is told.
    pub number: u64,
    /// The event.
    pub event: RoomEvent,
}

/// Event in a room.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding(Is = 0, Renamed = 1, Gone = 2, Said = 3, Whispered = 4, Relayed = 5)]
pub enum RoomEvent {
    /// An occupant has come, or is otherwise now.
    Is(Arc<Occupant>, Option<Box<RoomActor>>),
    /// An occupant has another name: the former one, and the occupant as it is now.
    Renamed(Box<str>, Arc<Occupant>),
    /// An occupant is there no more.
    Gone(Arc<Occupant>, RoomExit),
    /// Something was said, or the group has changed: for those who have no inbox with it.
    Said(Arc<ChatMessage>),
    /// An occupant has said something to the reader alone.
    Whispered(Arc<Occupant>, Box<Content>),
    /// An occupant asks the reader's device something, or answers it.
    Relayed(Arc<Occupant>, Arc<Relayed>),
}

/// Account that did something to an occupant, and the reason.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct RoomActor {
    /// Account that did it.
    pub by: AccountAddress,
    /// Its name in the room.
    pub nick: Box<str>,
    /// Why, in words for people; may be empty.
    pub reason: Box<str>,
}

/// How an occupant went.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding(Left = 0, Kicked = 1, Removed = 2, Locked = 3, Banned = 4, Dissolved = 5)]
pub enum RoomExit {
    /// By itself, or its last device did.
    Left,
    /// Shown out; it may come back.
    Kicked(Box<RoomActor>),
    /// A former member, of a room for members.
    Removed(Box<RoomActor>),
    /// The room is for members from now on.
    Locked(Box<RoomActor>),
    /// Banned.
    Banned(Box<RoomActor>),
    /// The group has ended: why, and where to go instead.
    Dissolved(Box<str>, Option<AccountAddress>),
}

impl RoomNews {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let event = match &self.event {
            RoomEvent::Is(it, _) | RoomEvent::Renamed(_, it) | RoomEvent::Gone(it, _) => {
                it.weight() + 256
            }
            RoomEvent::Said(message) => message.weight(),
            RoomEvent::Relayed(it, relayed) => it.weight() + relayed.weight(),
            RoomEvent::Whispered(it, content) => {
                it.weight() + size_of::<Content>() + content.text.len() + content.extra.len()
            }
        };
        size_of::<RoomNews>() + self.group.as_str().len() + event
    }

    /// The place of the message that it has, if it has one.
    pub fn place(&self) -> Option<Seq> {
        match &self.event {
            RoomEvent::Said(message) => Some(message.seq),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_case_and_blanks_at_their_ends() {
        assert_eq!(nick_key(" Mad   Hatter "), nick_key("mad hatter"));
        assert_eq!(nick_key("ÄNN").as_deref(), Some("änn"));
        assert_ne!(nick_key("ann"), nick_key("anne"));
        for none in ["", "  ", "a\tb", "a\0", &"x".repeat(NICK_BYTES_MAX + 1)] {
            assert_eq!(nick_key(none), None, "{none:?}");
        }
        assert!(nick_key(&"x".repeat(NICK_BYTES_MAX)).is_some());
    }
}

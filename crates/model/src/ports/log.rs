//! Port of the durable log: append, notify, pull, acknowledge; and rows of state.
//!
//! A caller hands over calls with tickets and goes on; each ticket is completed once. Writes of one
//! party are carried out and completed in the order in which they were handed over; a read sees
//! every write before it, may be completed later than writes after it, and may see those too. A
//! write is completed with `Ok` only when it is on stable storage (as the operator's choice of
//! `fsync` means it). A write is all or nothing, also across a crash.

use crate::id::ShardId;
use crate::service::ServiceKind;
use crate::timeline::{Message, Placed, ReaderId, Seq, TimelineId};
use base::hash::Slot;
use std::sync::Arc;

/// Timelines that one [`Append`] may name. A caller splits longer lists.
pub const APPEND_TIMELINES_MAX: usize = 1 << 18;

/// Timelines that a service names in one [`Append`] which it puts together itself, so that none of
/// its turns is long.
pub const APPEND_SLICE: usize = 4_096;

/// Members that one roster may have. A change that would make it longer is refused.
pub const ROSTER_MEMBERS_MAX: usize = 1 << 18;

/// Timelines that one [`RosterChange`] may name. A longer roster is made by several.
pub const ROSTER_CHANGE_MAX: usize = 4_096;

/// Timelines that the message of one [`AppendWith`] may name.
pub const REPLACE_TIMELINES_MAX: usize = 16;

/// Sequence numbers that one [`Write::Remove`] may name.
pub const REMOVE_SEQS_MAX: usize = 4_096;

/// Longest key of a row, bytes.
pub const ROW_KEY_BYTES_MAX: usize = 512;

/// Longest value of a row, bytes: a retained message of the largest packet, with its topic.
pub const ROW_VALUE_BYTES_MAX: usize = crate::limits::PACKET_BYTES_HARD_MAX as usize + 128 * 1024;

/// Rows in one answer to [`Read::Rows`].
pub const ROWS_MAX: usize = 1_024;

/// Messages in one [`Page`]; their bytes are limited by [`Pull::bytes_max`] too.
pub const PAGE_MESSAGES_MAX: usize = 1_024;

/// Names a call until its completion. Rises by one within a party.
pub type Ticket = u64;

/// Party that gets a completion.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Party {
    /// A service of a shard, by the shard's mailbox.
    Service(ServiceKind, ShardId),
    /// The webhooks' couriers.
    Hooks,
    /// The book of users.
    Users,
    /// The writer of an external archive.
    Archive,
}

/// One call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// Changes something.
    Write(Write),
    /// Asks something.
    Read(Read),
}

/// A change. Answered by [`Done::Written`] unless it says otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    /// A message takes its place at the end of timelines. Answered by [`Done::Appended`].
    Append(Append),
    /// A message takes its place at the end of the timelines of a roster. Answered by
    /// [`Done::Appended`].
    Post(Post),
    /// A roster is made, or has other members from now on.
    Roster(RosterChange),
    /// A roster is gone, and its version with it; messages in its members' timelines stay.
    Disband(RosterId),
    /// Removes messages from a timeline; those that do not exist count as removed.
    Remove {
        /// The timeline.
        timeline: TimelineId,
        /// Places of the messages, at most [`REMOVE_SEQS_MAX`].
        seqs: Vec<Seq>,
    },
    /// A reader has everything up to `upto`. A cursor never goes back.
    Acknowledge {
        /// The timeline.
        timeline: TimelineId,
        /// The reader.
        reader: ReaderId,
        /// Its place.
        upto: Seq,
    },
    /// All messages and cursors of a timeline go; its numbers go on from where they were.
    Forget(TimelineId),
    /// A row is so from now on.
    Put {
        /// Its table.
        table: Table,
        /// Its key, at most [`ROW_KEY_BYTES_MAX`].
        key: Box<[u8]>,
        /// Its value, at most [`ROW_VALUE_BYTES_MAX`].
        value: Box<[u8]>,
    },
    /// A row is gone.
    Delete {
        /// Its table.
        table: Table,
        /// Its key.
        key: Box<[u8]>,
    },
    /// A message takes its place at the end of timelines, and a row perhaps that of another one.
    /// Answered by [`Done::Appended`].
    AppendWith(Box<AppendWith>),
}

/// A message whose owner says what a retry must be like, and what becomes of another one: all of
/// that or nothing, whatever dies meanwhile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppendWith {
    /// The message, for at most [`REPLACE_TIMELINES_MAX`] timelines. If it is known by its once
    /// key already nothing is replaced either.
    pub append: Append,
    /// A checksum of the fields that must be equal in a retry with the same once key. Without it,
    /// label and body are compared; they still are for messages stored before it existed.
    pub check: u32,
    /// Change to another message, in the same write.
    pub replaces: Option<Replaced>,
}

/// A row takes the place of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replaced {
    /// The timeline that the message leaves.
    pub timeline: TimelineId,
    /// Offset of the entry. If it is no longer there, it has left already.
    pub seq: Seq,
    /// The row's table.
    pub table: Table,
    /// Its key, at most [`ROW_KEY_BYTES_MAX`].
    pub key: Box<[u8]>,
    /// Its value, at most [`ROW_VALUE_BYTES_MAX`].
    pub value: Box<[u8]>,
}

/// A message for timelines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Append {
    /// The message; stored once for all its timelines, and once for all appends of the same `Arc`
    /// that come close together.
    pub message: Arc<Message>,
    /// Where, at most [`APPEND_TIMELINES_MAX`], each once. None at all is allowed: with `once` it
    /// is a claim.
    pub to: Vec<TimelineId>,
    /// Makes a retry harmless.
    pub once: Option<OnceKey>,
    /// Lets nothing overtake what was refused: the party's next ticket when it had last heard of
    /// every such append that was refused. If one with this ticket or a later one was refused
    /// since, this one is, as [`StoreError::Busy`]: its party cannot know that yet. `None`: order
    /// does not matter, and it keeps none.
    pub heard: Option<Ticket>,
    /// Whether the message finishes or ends an earlier one: an inbox entry for a stored message, a
    /// recall. A full log stores it from its reserve.
    pub ends: bool,
}

/// Names a roster: a hash of its owner's names. Every log has its own under one name, with those
/// members that are at home there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RosterId(pub u128);

impl RosterId {
    /// The key of its row in [`Table::Rosters`].
    pub fn row_key(self) -> Box<[u8]> {
        RowHome::Everywhere.key(&[&self.0.to_be_bytes()])
    }

    /// The roster whose row has this key.
    pub fn of_row(key: &[u8]) -> Option<RosterId> {
        let name = RowHome::rest(key).filter(|_| RowHome::of(key) == RowHome::Everywhere)?;
        name.try_into().ok().map(u128::from_be_bytes).map(RosterId)
    }
}

/// A change of a roster: a stored list of timelines of one log, with a version that rises.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RosterChange {
    /// The roster.
    pub roster: RosterId,
    /// The version that the roster must have; 0: it must not exist. Otherwise the answer is
    /// [`StoreError::Stale`].
    pub after: u64,
    /// The new version, above `after`. A roster that has it already stays as it is.
    pub version: u64,
    /// Timelines that leave; those that are no members have left already.
    pub leave: Vec<TimelineId>,
    /// Timelines that join after `leave` was applied; members stay members. Both lists together
    /// have at most [`ROSTER_CHANGE_MAX`], and the result at most [`ROSTER_MEMBERS_MAX`] members.
    pub join: Vec<TimelineId>,
}

/// A message for the members of a roster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Post {
    /// The message; stored once, and once for all posts of the same `Arc` that come close together.
    pub message: Arc<Message>,
    /// Roster whose members get the message.
    pub roster: RosterId,
    /// The roster's version as the caller knows it. With another one the answer is
    /// [`StoreError::Stale`], and nothing is written.
    pub version: u64,
    /// Only to the members with these places in the roster, which rise; counted from 0, in the
    /// order of the members' ids. `None`: to all. One beyond the end: [`StoreError::Stale`].
    pub only: Option<Box<[u32]>>,
    /// Makes a retry harmless. A retry is answered whatever the roster has become.
    pub once: Option<OnceKey>,
}

/// Names an append among all of a log: a hash of the producer and its own id for the message.
/// Remembered within the limits of the log's settings (count and age).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct OnceKey(pub u128);

impl OnceKey {
    /// The key of an append whose home is chosen by `home`; `own` distinguishes it from others
    /// there. Its bytes sort by slot, as those of timelines do.
    pub const fn at_home(home: u64, own: u64) -> OnceKey {
        OnceKey((home as u128) << 64 | own as u128)
    }

    /// The hash of where it is at home.
    pub const fn home_hash(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

/// Home of a row: the first two bytes of its key, big endian. So rows of a table sort by slot, and
/// a slot can be moved without knowing the owners of its rows.
///
/// ```text
/// | slot u16 | what names the row there |      0xffff in place of a slot: every log has it
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RowHome {
    /// In the log that stores this slot.
    Slot(Slot),
    /// In every log, whether its content is the same in all or each log's own. Rows whose key names
    /// no slot live so.
    Everywhere,
}

impl RowHome {
    /// Where everything lives that is of the process and of no identity.
    pub const PROCESS: RowHome = RowHome::at(0);

    /// The home of rows that belong to the identity with this hash.
    pub const fn at(hash: u64) -> RowHome {
        RowHome::Slot(Slot::of(hash))
    }

    /// Which of `count` logs has it on a node that has all slots: the first one, if all have it.
    pub const fn of_log(self, count: u16) -> u16 {
        match self {
            RowHome::Slot(slot) => slot.home(count),
            RowHome::Everywhere => 0,
        }
    }

    /// The key of the row that these bytes name there.
    pub fn key(self, rest: &[&[u8]]) -> Box<[u8]> {
        self.key_behind(&[], rest)
    }

    /// The key of the row that a timeline and these bytes name where the timeline is at home.
    pub fn key_of(timeline: TimelineId, rest: &[&[u8]]) -> Box<[u8]> {
        RowHome::at(timeline.home_hash()).key_behind(&timeline.to_bytes(), rest)
    }

    fn key_behind(self, first: &[u8], rest: &[&[u8]]) -> Box<[u8]> {
        let home = match self {
            RowHome::Slot(slot) => slot.number(),
            RowHome::Everywhere => u16::MAX,
        };
        let bytes = first.len() + rest.iter().map(|part| part.len()).sum::<usize>();
        let mut key = Vec::with_capacity(2 + bytes);
        key.extend_from_slice(&home.to_be_bytes());
        key.extend_from_slice(first);
        rest.iter().for_each(|part| key.extend_from_slice(part));
        key.into()
    }

    /// Where the row with this key lives.
    pub fn of(key: &[u8]) -> RowHome {
        let home = key.first_chunk().and_then(|home| Slot::new(u16::from_be_bytes(*home)));
        home.map_or(RowHome::Everywhere, RowHome::Slot)
    }

    /// Key of a row there.
    pub fn rest(key: &[u8]) -> Option<&[u8]> {
        key.split_first_chunk::<2>().map(|(_, rest)| rest)
    }

    /// The arguments of [`RowHome::key_of`]: the timeline, and the bytes behind it.
    pub fn parts_of(key: &[u8]) -> Option<(TimelineId, &[u8])> {
        let (timeline, rest) = RowHome::rest(key)?.split_first_chunk()?;
        Some((TimelineId::from_bytes(*timeline)?, rest))
    }
}

/// Tables of rows. The service that writes a table defines its keys (which begin with their
/// [`RowHome`]) and values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Table {
    /// Products, by key. Every log has all of them.
    Products = 1,
    /// Devices with stored state, by product and device.
    Devices = 2,
    /// Single values of a shard: the upper limits of its numbers.
    Marks = 3,
    /// Sessions that outlive their connections, by client identifier.
    Sessions = 4,
    /// Subscriptions of these sessions, by client identifier and filter.
    Subscriptions = 5,
    /// Retained messages, by a hash of their topic.
    Retained = 6,
    /// Will messages of sessions, by client identifier, published if a crash ends the connection.
    Wills = 7,
    /// Delayed publications, by time and number.
    Delayed = 8,
    /// Users and their rules, by domain and name; and, in every log, the highest number assigned to
    /// a user.
    Users = 9,
    /// Push orders to tags and products, by number: the order and its progress.
    Orders = 10,
    /// API tokens, by name. The first log has all of them.
    ApiTokens = 11,
    /// Rosters, by id. Only their own calls write them, and each log stores its part of each.
    Rosters = 12,
    /// Chat accounts, by address.
    ChatAccounts = 13,
    /// State of an account's conversations up to a place in its inbox, by that inbox.
    ChatStates = 14,
    /// Remainders of recalled messages, by conversation and place.
    ChatRecalled = 15,
    /// Contacts of a chat account, by its inbox and their addresses.
    ChatContacts = 16,
    /// Chat accounts with notifications that other shards have not yet received, by their inboxes.
    ChatOwing = 17,
    /// Tokens for fast reconnection (FAST), by the addresses of the account and the device.
    ChatTokens = 18,
    /// Nodes of chat accounts, by inbox and name: their configuration and item ids.
    ChatNodes = 19,
    /// Items of these nodes, by inbox, node and number.
    ChatItems = 20,
    /// Push registrations of a chat account's devices, and pushes still to send, by its inbox.
    ChatPushes = 21,
    /// Uploads granted to accounts on their last day, by their inboxes.
    MediaUse = 22,
    /// Muted chat accounts and until when, by address.
    ChatMutes = 23,
    /// Channels that an account follows, by its inbox and their conversations.
    ChatFollows = 24,
    /// Special states of chat accounts, by their inboxes: read receipts are private, or the account
    /// is being erased.
    ChatApart = 26,
    /// Chat groups, by their conversations.
    ChatGroups = 27,
    /// Chatrooms, with their settings and roles, by address.
    Chatrooms = 28,
    /// Public chat groups, by their conversations: address and title.
    ChatPublic = 29,
    /// Temporary chat groups, by their conversations: address.
    ChatTemporary = 30,
    /// Removed accounts whose contacts have not all been notified, by address and number.
    ChatPartings = 31,
    /// Bans, by kind and subject. The first log has all of them.
    Bans = 32,
    /// Saved segments of products' devices, by product and name. The first log has all of them.
    Segments = 33,
    /// Schedules of products' pushes, by product and name. The first log has all of them.
    Schedules = 34,
    /// Anything else: tests, and future protocols.
    Other = 255,
}

impl Table {
    /// Every table.
    pub const ALL: [Table; 34] = [
        Table::Products,
        Table::Devices,
        Table::Marks,
        Table::Sessions,
        Table::Subscriptions,
        Table::Retained,
        Table::Wills,
        Table::Delayed,
        Table::Users,
        Table::Orders,
        Table::ApiTokens,
        Table::Rosters,
        Table::ChatAccounts,
        Table::ChatStates,
        Table::ChatRecalled,
        Table::ChatContacts,
        Table::ChatOwing,
        Table::ChatTokens,
        Table::ChatNodes,
        Table::ChatItems,
        Table::ChatPushes,
        Table::MediaUse,
        Table::ChatMutes,
        Table::ChatFollows,
        Table::ChatApart,
        Table::ChatGroups,
        Table::Chatrooms,
        Table::ChatPublic,
        Table::ChatTemporary,
        Table::ChatPartings,
        Table::Bans,
        Table::Segments,
        Table::Schedules,
        Table::Other,
    ];

    /// The table with this number.
    pub fn from_byte(byte: u8) -> Option<Table> {
        Table::ALL.into_iter().find(|&table| table as u8 == byte)
    }

    /// Whether a log gives its rows back at the start. Those of others are read when they are
    /// wanted.
    pub const fn is_restored(self) -> bool {
        !matches!(
            self,
            Table::Rosters
                | Table::ChatAccounts
                | Table::ChatStates
                | Table::ChatRecalled
                | Table::ChatContacts
                | Table::ChatTokens
                | Table::ChatNodes
                | Table::ChatItems
                | Table::ChatGroups
                | Table::ChatFollows
                | Table::MediaUse
                | Table::ChatPartings
        )
    }

    /// The service whose rows are here; absent: the process's own.
    pub const fn service(self) -> Option<ServiceKind> {
        match self {
            Table::Products
            | Table::Devices
            | Table::Marks
            | Table::Orders
            | Table::Segments
            | Table::Schedules => Some(ServiceKind::Push),
            Table::Sessions
            | Table::Subscriptions
            | Table::Retained
            | Table::Wills
            | Table::Delayed => Some(ServiceKind::Topics),
            Table::ChatAccounts
            | Table::ChatStates
            | Table::ChatRecalled
            | Table::ChatContacts
            | Table::ChatOwing
            | Table::ChatTokens
            | Table::ChatMutes
            | Table::ChatFollows
            | Table::ChatApart
            | Table::ChatGroups
            | Table::Chatrooms
            | Table::ChatPublic
            | Table::ChatTemporary
            | Table::ChatPartings
            | Table::ChatPushes
            | Table::ChatNodes
            | Table::ChatItems
            | Table::MediaUse => Some(ServiceKind::Chat),
            Table::Other => Some(ServiceKind::Echo),
            Table::Users | Table::ApiTokens | Table::Rosters | Table::Bans => None,
        }
    }
}

/// A question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Read {
    /// Messages of a timeline. Answered by [`Done::Page`].
    Pull(Pull),
    /// Where a timeline and a reader of it stand. Answered by [`Done::Standing`].
    Standing {
        /// The timeline.
        timeline: TimelineId,
        /// The reader.
        reader: ReaderId,
    },
    /// A roster. Answered by [`Done::Roster`].
    Roster(RosterId),
    /// One row. Answered by [`Done::Row`].
    Row {
        /// Its table.
        table: Table,
        /// Its key.
        key: Box<[u8]>,
    },
    /// Rows whose keys begin with `prefix` and come after `after`, in the order of their keys.
    /// Answered by [`Done::Rows`].
    Rows {
        /// The table.
        table: Table,
        /// How the keys begin.
        prefix: Box<[u8]>,
        /// The last key of the answer before.
        after: Option<Box<[u8]>>,
        /// How many, at most [`ROWS_MAX`].
        count: usize,
    },
}

/// Range of a timeline's messages to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pull {
    /// The timeline.
    pub timeline: TimelineId,
    /// Where to begin: forwards, messages after this place; backwards, before it
    /// ([`Seq::MAX`] for the end).
    pub from: Seq,
    /// The direction.
    pub backwards: bool,
    /// The most messages, never more than [`PAGE_MESSAGES_MAX`].
    pub count_max: usize,
    /// Most bytes of bodies together, but always one message.
    pub bytes_max: usize,
}

/// The answer to a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Done {
    /// The write is on stable storage.
    Written,
    /// The message is on stable storage, at this place.
    Appended(Appended),
    /// Messages.
    Page(Page),
    /// A standing.
    Standing(TimelineStatus),
    /// The roster, if there is one.
    Roster(Option<Roster>),
    /// The row's value, if there is one.
    Row(Option<Box<[u8]>>),
    /// Rows, keys and values.
    Rows(Vec<Row>),
}

/// Places that an append went to, now or the first time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Appended {
    /// The message was new. False for a retry: the rest is the first answer.
    pub new: bool,
    /// The message's id; of a retry, the first one's.
    pub id: u64,
    /// Offset in each timeline, in the order in which they were named; for a post, in the order of
    /// the members' ids.
    pub seqs: Vec<Seq>,
}

/// A roster as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Roster {
    /// Its version, above 0.
    pub version: u64,
    /// Its members, in the order of their ids.
    pub members: Arc<[TimelineId]>,
}

/// Part of a timeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// Messages, in the direction of the pull.
    pub messages: Vec<Placed>,
    /// Places between them whose messages are damaged on the disk, in that direction. They count
    /// as messages of the page do.
    pub damaged: Vec<Seq>,
    /// Whether more follow in this direction.
    pub more: bool,
}

/// Status of a timeline and one of its readers: where both stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TimelineStatus {
    /// The last number given, zero if none.
    pub last: Seq,
    /// Messages in the timeline.
    pub count: u64,
    /// The reader's cursor, zero if it never acknowledged.
    pub cursor: Seq,
    /// Messages in the timeline after the cursor.
    pub unread: u64,
}

/// Reason why a call to the log was not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// The disk, or the limit for it, is full. Space may come back.
    Full,
    /// The disk failed, or is read-only. The store refuses everything until a restart, and it is
    /// unknown whether this write was stored.
    Failed,
    /// Too much waits for the disk. Try again.
    Busy,
    /// The once key was used before for a message with another body.
    Conflict,
    /// The roster has another version than the call says.
    Stale,
    /// A limit of this file is exceeded.
    TooLarge,
    /// The data to read is damaged on the disk. The log says where.
    Damaged,
}

/// A key and its value.
pub type Row = (Box<[u8]>, Box<[u8]>);

/// The answer to a ticket.
pub type Completion = (Ticket, Result<Done, StoreError>);

/// An item that a log returns at the start, in this order: rows table by table; then non-empty
/// timelines, some at a time, each batch followed by the wanted entries of its timelines, timeline
/// by timeline, in the order of their places. Tables and spaces that are not
/// [restored](Table::is_restored) are left out: they grow with the number of accounts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Restored<'a> {
    /// A row.
    Row {
        /// Its table.
        table: Table,
        /// Its key.
        key: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// A timeline, as its head says. The receiver answers whether its entries are wanted: messages
    /// that wait in the log need not be read for it.
    Timeline {
        /// The timeline.
        timeline: TimelineId,
        /// The last number given.
        last: Seq,
        /// Messages, at least one.
        count: u64,
        /// Their weight together, as [`Message::weight`] counts it.
        bytes: u64,
    },
    /// A message that is in a timeline, without its body.
    Entry {
        /// The timeline.
        timeline: TimelineId,
        /// Its place.
        seq: Seq,
        /// The owner's number.
        id: u64,
        /// The owner's label.
        label: &'a [u8],
    },
}

impl Restored<'_> {
    /// The service that kept it; absent: the process's own.
    pub fn service(&self) -> Option<ServiceKind> {
        match self {
            Restored::Row { table, .. } => table.service(),
            Restored::Timeline { timeline, .. } | Restored::Entry { timeline, .. } => {
                Some(timeline.space().service())
            }
        }
    }

    /// Home of the row or timeline.
    pub fn home(&self) -> RowHome {
        match self {
            Restored::Row { key, .. } => RowHome::of(key),
            Restored::Timeline { timeline, .. } | Restored::Entry { timeline, .. } => {
                RowHome::at(timeline.home_hash())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Space;

    #[test]
    fn a_table_is_its_byte() {
        for table in Table::ALL {
            assert_eq!(Table::from_byte(table as u8), Some(table));
        }
        let known = (0..=255).filter_map(Table::from_byte).count();
        assert_eq!((known, Table::from_byte(0)), (Table::ALL.len(), None));
    }

    #[test]
    fn a_key_says_where_its_row_lives_and_sorts_by_it() {
        let last = RowHome::Slot(Slot::LAST);
        for home in [RowHome::PROCESS, RowHome::at(0x8000 << 48), last, RowHome::Everywhere] {
            let key = home.key(&[b"ab", b"", b"c"]);
            assert_eq!((RowHome::of(&key), RowHome::rest(&key)), (home, Some(&b"abc"[..])));
        }
        let timeline = TimelineId::at_home(Space::Inbox, 0x8000 << 48, 7);
        let key = RowHome::key_of(timeline, &[b"a", b"b"]);
        assert_eq!(key, RowHome::at(timeline.home_hash()).key(&[&timeline.to_bytes(), b"ab"]));
        assert_eq!(RowHome::parts_of(&key), Some((timeline, &b"ab"[..])));
        assert_eq!(RowHome::parts_of(&key[..17]), None);
        let keys = [RowHome::at(1 << 63).key(&[b"a"]), RowHome::at(u64::MAX).key(&[])];
        assert!(keys[0] < keys[1] && keys[1] < RowHome::Everywhere.key(&[]));
        for none in [&b""[..], b"a", &[0x40, 0], b"\xff\xfe"] {
            assert_eq!(RowHome::of(none), RowHome::Everywhere);
        }
        assert_eq!((RowHome::rest(b"a"), RowHome::rest(b"ab")), (None, Some(&b""[..])));
    }
}

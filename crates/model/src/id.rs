//! Newtypes for whatever is named: shards, connections, devices, products, messages.
//!
//! A [`ConnRef`] or [`DeviceRef`] names a tenancy of a slot on a shard in eight bytes; a stale one
//! finds nothing. Names that come from outside ([`DeviceId`], [`ProductKey`], [`Tag`]) are checked
//! once, where they enter, and carried as checked values from there on.

use base::encoding::Encoding;
use base::slab::Key;
use std::fmt;

/// Number of a shard of this process, below 1,024.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Default, Encoding)]
pub struct ShardId(pub u16);

impl ShardId {
    /// The most shards a process may have: what ten bits of a reference can name.
    pub const MAX: u16 = 1 << 10;
}

macro_rules! reference {
    ($(#[$doc:meta])+ $name:ident) => {
        $(#[$doc])+
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u64);

        impl $name {
            /// The reference to what lives at `key` on `shard`.
            pub fn new(shard: ShardId, key: Key) -> Self {
                debug_assert!(shard.0 < ShardId::MAX);
                $name((u64::from(shard.0) << 54) | key.pack())
            }

            /// Shard of the reference.
            pub const fn shard(self) -> ShardId {
                ShardId((self.0 >> 54) as u16)
            }

            /// Its slot and tenancy there.
            pub const fn key(self) -> Key {
                Key::unpack(self.0 & ((1 << 54) - 1))
            }

            /// The reference as one number, for logs and poller tokens.
            pub const fn bits(self) -> u64 {
                self.0
            }

            /// The reference that has these [`bits`](Self::bits).
            pub const fn from_bits(bits: u64) -> Self {
                $name(bits)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let key = self.key();
                write!(f, "{}-{}.{}", self.shard().0, key.slot, key.generation)
            }
        }
    };
}

reference!(
    /// One connection, from accept to close, on the shard where it lives now.
    ConnRef
);
reference!(
    /// One device's record on the shard that owns the device.
    DeviceRef
);
reference!(
    /// One session's record on the shard that owns the session.
    SessionRef
);

/// Number of a node in its cluster, 1 to [`NodeId::MAX`]. One that is alone is 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Default)]
pub struct NodeId(u16);

impl NodeId {
    /// A node that is alone.
    pub const ALONE: NodeId = NodeId(0);

    /// The highest: what ten bits of a [`MessageId`] can name.
    pub const MAX: u16 = (1 << 10) - 1;

    /// The node with this number; `None` above [`MAX`](Self::MAX).
    pub const fn new(number: u16) -> Option<NodeId> {
        if number <= Self::MAX { Some(NodeId(number)) } else { None }
    }

    /// Its number.
    pub const fn number(self) -> u16 {
        self.0
    }
}

/// Id of a push, unique in the cluster and ordered by time: 42 bits of milliseconds since
/// 2020-01-01 UTC, 10 bits of node, 12 bits of counter. Never zero. A node has one clock for them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Encoding)]
pub struct MessageId(pub u64);

impl MessageId {
    /// 2020-01-01 00:00:00 UTC in Unix milliseconds.
    pub const EPOCH_MS: u64 = 1_577_836_800_000;

    /// The id that follows `last`, whichever node gave that, at this wall-clock time: never lower,
    /// even if the clock stepped back, and always with the bits of `node`.
    pub fn after(last: u64, wall_ms: u64, node: NodeId) -> MessageId {
        MessageId(number_after(last, wall_ms, node.0))
    }

    /// As [`after`](Self::after), for one of several generators of a node, each with ids of its
    /// own: `giver` is its index, `givers` their number. No two of them ever generate one id.
    pub fn after_of(
        last: u64,
        wall_ms: u64,
        node: NodeId,
        (giver, givers): (u16, u16),
    ) -> MessageId {
        let (giver, givers) = (u64::from(giver), u64::from(givers.max(1)));
        let next = |last: u64| {
            let MessageId(first) = MessageId::after(last, wall_ms, node);
            let counter = first & 0xfff;
            // Each has every so-manieth value of the counter.
            let own = counter + (giver + givers - counter % givers) % givers;
            (first - counter + own.min(0xfff), own <= 0xfff)
        };
        match next(last) {
            (id, true) => MessageId(id),
            // Nothing is left for it of this millisecond.
            (id, false) => MessageId(next(id | 0xfff).0),
        }
    }

    /// Candidate ids for a push that is sent at a future time, to be tried in order until one is
    /// free. They contain that time; ids given at that time count from zero, and these from the
    /// middle. `own` is an id that was given for the order, and `giver` the giver's index and the
    /// number of givers of such ids.
    pub fn ahead(
        own: MessageId,
        at_ms: u64,
        (giver, givers): (u16, u16),
    ) -> impl Iterator<Item = MessageId> {
        let (giver, givers) = (u64::from(giver), u64::from(givers.max(1)));
        let (node, at_ms) = (own.0 & 0x3ff << 12, at_ms.saturating_sub(MessageId::EPOCH_MS));
        let places = (0x800 / givers).max(1);
        let first = (own.0 ^ own.0 >> 22) % places;
        (0..).map(move |tried: u64| {
            let place = (first + tried) % places;
            let counter = (0x800 + place * givers + giver).min(0xfff);
            MessageId((at_ms + tried / places) << 22 | node | counter)
        })
    }

    /// The Unix millisecond in the id.
    pub fn at_ms(self) -> u64 {
        MessageId::EPOCH_MS + (self.0 >> 22)
    }

    /// The node that gave it.
    pub fn node(self) -> NodeId {
        NodeId(giver_of(self.0))
    }
}

/// The number that follows `last`, whichever giver made that: 42 bits of milliseconds since
/// [`MessageId::EPOCH_MS`], 10 of giver, 12 of counter.
pub(crate) fn number_after(last: u64, wall_ms: u64, giver: u16) -> u64 {
    let first_of = |ms: u64| (ms << 22) | (u64::from(giver) << 12);
    let fresh = first_of(wall_ms.saturating_sub(MessageId::EPOCH_MS)).max(first_of(last >> 22));
    if fresh > last {
        return fresh;
    }
    // The counter of this millisecond may be used up, or `last` is from a higher giver.
    let is_left = last - fresh < 0xfff;
    if is_left { last + 1 } else { first_of((last >> 22) + 1) }
}

/// Giver of a number.
pub(crate) const fn giver_of(number: u64) -> u16 {
    (number >> 12 & 0x3ff) as u16
}

/// Reason why a name from outside was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameError {
    /// The name is empty.
    Empty,
    /// The name has more bytes than this limit.
    TooLong(usize),
    /// The name has a byte that is not allowed.
    BadByte(u8),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Empty => write!(f, "is empty"),
            NameError::TooLong(max) => write!(f, "is longer than {max} bytes"),
            NameError::BadByte(byte) => write!(
                f,
                "has the byte 0x{byte:02x}, allowed are letters, digits and . _ - + : / ="
            ),
        }
    }
}

macro_rules! name {
    ($(#[$doc:meta])+ $name:ident $max:expr) => {
        $(#[$doc])+
        #[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        pub struct $name(Box<str>);

        impl $name {
            /// Longest name, in bytes.
            pub const BYTES_MAX: usize = $max;

            /// Checks a name from outside: 1 to [`BYTES_MAX`](Self::BYTES_MAX) bytes of letters,
            /// digits and `. _ - + : / =`.
            pub fn parse(text: &str) -> Result<Self, NameError> {
                check(text.as_bytes(), Self::BYTES_MAX)?;
                Ok($name(text.into()))
            }

            /// Whether a name is one, as [`parse`](Self::parse) checks it.
            pub fn check(text: &str) -> Result<(), NameError> {
                check(text.as_bytes(), Self::BYTES_MAX)
            }

            /// As [`parse`](Self::parse), for bytes that a peer sent.
            pub fn from_bytes(bytes: &[u8]) -> Result<Self, NameError> {
                check(bytes, Self::BYTES_MAX)?;
                let text = std::str::from_utf8(bytes).expect("checked names are ASCII");
                Ok($name(text.into()))
            }

            /// The name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// A device's id within its product: MIOP's registerId, up to 64 bytes.
    DeviceId 64
);
name!(
    /// A product's key: MIOP's appId as text, up to 32 bytes.
    ProductKey 32
);
name!(
    /// A tag that devices share, up to 64 bytes.
    Tag 64
);
name!(
    /// Name of a saved segment of a product's devices, up to 64 bytes.
    SegmentName 64
);
name!(
    /// Name of a schedule of a product's pushes, up to 64 bytes.
    ScheduleName 64
);

/// The user to whom a device belongs: the app's own name for a person, or an account of chat.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct DeviceUser(Box<str>);

impl DeviceUser {
    /// Longest name, in bytes.
    pub const BYTES_MAX: usize = 128;

    /// Checks a name from outside: 1 to [`BYTES_MAX`](Self::BYTES_MAX) bytes of text without
    /// control characters.
    pub fn parse(text: &str) -> Option<DeviceUser> {
        let is_one = (1..=Self::BYTES_MAX).contains(&text.len());
        (is_one && !text.contains(char::is_control)).then(|| DeviceUser(text.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check(bytes: &[u8], max: usize) -> Result<(), NameError> {
    if bytes.is_empty() {
        return Err(NameError::Empty);
    }
    if bytes.len() > max {
        return Err(NameError::TooLong(max));
    }
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || b"._-+:/=".contains(b);
    match bytes.iter().find(|b| !allowed(b)) {
        Some(&byte) => Err(NameError::BadByte(byte)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_keep_their_parts() {
        let key = Key { slot: 0xdead_beef, generation: 0x3f_ffff };
        let conn = ConnRef::new(ShardId(1023), key);
        assert_eq!((conn.shard(), conn.key()), (ShardId(1023), key));
        assert_eq!(ConnRef::from_bits(conn.bits()), conn);
    }

    #[test]
    fn message_ids_only_rise() {
        let mut last = 0;
        for step in 0..20_000u64 {
            let wall = 1_700_000_000_000 + step / 3_000 - if step > 10_000 { 5_000 } else { 0 };
            let id = MessageId::after(last, wall, NodeId(3)).0;
            assert!(id > last);
            assert_eq!((id >> 12) & 0x3ff, 3);
            last = id;
        }
    }

    #[test]
    fn ids_ahead_tell_their_time_and_are_different() {
        let at_ms = 1_900_000_000_000;
        let mut all = std::collections::HashSet::new();
        for giver in 0..3 {
            let own = MessageId(1 << 40 | 7 << 12 | 5);
            let ids: Vec<_> = MessageId::ahead(own, at_ms, (giver, 3)).take(1_000).collect();
            assert!(ids.iter().all(|id| id.node() == NodeId(7) && id.0 & 0xfff >= 0x800));
            let told = [0, 681, 682].map(|at: usize| ids[at].at_ms() - at_ms);
            assert_eq!(told, [0, 0, 1], "when all of one are in use, the next millisecond");
            all.extend(ids);
        }
        assert_eq!(all.len(), 3_000);
    }

    #[test]
    fn several_of_a_node_give_no_id_twice() {
        for givers in [1, 2, 3, 64] {
            let mut all = std::collections::HashSet::new();
            let mut last = vec![0; usize::from(givers)];
            for step in 0..9_000_u64 {
                for giver in 0..givers {
                    let wall = 1_700_000_000_000 + step / 3_000;
                    let of = (giver, givers);
                    let last = &mut last[usize::from(giver)];
                    let id = MessageId::after_of(*last, wall, NodeId(3), of);
                    assert!(id.0 > *last && id.node() == NodeId(3) && all.insert(id), "{id:?}");
                    *last = id.0;
                }
            }
        }
    }

    #[test]
    fn what_follows_another_nodes_id_is_ones_own() {
        for (last, node) in [(5, 0), (5, 1), (0x3ff_fff, 2), ((9 << 22) | (7 << 12) | 5, 3)] {
            let id = MessageId::after(last, 0, NodeId(node)).0;
            assert!(id > last && (id >> 22) - (last >> 22) <= 1, "{last:x} {id:x}");
            assert_eq!((id >> 12) & 0x3ff, u64::from(node));
        }
    }

    #[test]
    fn no_two_nodes_give_one_id_and_nobody_gives_one_twice_over_a_start() {
        let mut given = std::collections::BTreeSet::new();
        for node in [0, 1, 2, NodeId::MAX].map(|number| NodeId::new(number).expect("allowed")) {
            let mut last = 0;
            for step in 0..10_000_u64 {
                // A start goes on from the highest that the log knows, the clock may be behind.
                let wall =
                    MessageId::EPOCH_MS + 9 + step / 4_000 - if step > 5_000 { 2 } else { 0 };
                let id = MessageId::after(last, wall, node);
                assert!(id.0 > last && id.node() == node && given.insert(id), "{id:?}");
                last = id.0;
            }
        }
        assert_eq!((NodeId::new(NodeId::MAX + 1), NodeId::default()), (None, NodeId::ALONE));
        assert_eq!(NodeId::new(7).map(NodeId::number), Some(7));
    }

    #[test]
    fn names_are_checked_once() {
        assert_eq!(DeviceId::parse("host-1.a:b").expect("allowed").as_str(), "host-1.a:b");
        assert_eq!(DeviceId::parse(""), Err(NameError::Empty));
        assert_eq!(DeviceId::parse(&"x".repeat(65)), Err(NameError::TooLong(64)));
        assert_eq!(ProductKey::from_bytes(b"p k"), Err(NameError::BadByte(b' ')));
        assert_eq!(Tag::from_bytes(&[0xc3]), Err(NameError::BadByte(0xc3)));
    }

    #[test]
    fn a_name_is_taken_up_to_its_longest_and_shown_as_it_is() {
        let longest = "x".repeat(ProductKey::BYTES_MAX);
        assert_eq!(ProductKey::parse(&longest).expect("its length").to_string(), longest);
        assert_eq!(ProductKey::from_bytes(longest.as_bytes()).expect("likewise").as_str(), longest);
        let more = longest + "x";
        assert_eq!(ProductKey::from_bytes(more.as_bytes()), Err(NameError::TooLong(32)));
        for (wrong, why) in [
            ("", "is empty"),
            (more.as_str(), "is longer than 32 bytes"),
            ("a\nb", "has the byte 0x0a, allowed are letters, digits and . _ - + : / ="),
        ] {
            let told = ProductKey::parse(wrong).map_err(|why| why.to_string());
            assert_eq!(told, Err(why.to_string()), "{wrong:?}");
        }
        let all: String =
            (0..=127).map(char::from).filter(|c| Tag::parse(&c.to_string()).is_ok()).collect();
        assert_eq!(all.len(), 26 + 26 + 10 + "._-+:/=".len(), "{all}");
    }

    #[test]
    fn a_reference_is_shown_by_its_parts() {
        let session = SessionRef::new(ShardId(5), Key { slot: 7, generation: 9 });
        assert_eq!(format!("{session:?}"), "5-7.9");
        assert_eq!((session.bits() >> 54, session.key().slot), (5, 7));
    }

    #[test]
    fn an_id_has_its_time_its_node_and_its_place() {
        let wall = MessageId::EPOCH_MS + 1_000;
        let first = MessageId::after(0, wall, NodeId(1_023));
        assert_eq!(first.0, 1_000 << 22 | 1_023 << 12);
        assert_eq!(first.node(), NodeId(1_023));
        let next = MessageId::after(first.0, wall, NodeId(1_023));
        assert_eq!(next.0, first.0 + 1);
        let full = MessageId::after(first.0 + 0xffe, wall, NodeId(1_023));
        assert_eq!(full.0, first.0 + 0xfff, "the last of its millisecond");
        let later = MessageId::after(full.0, wall, NodeId(1_023));
        assert_eq!(later.0, 1_001 << 22 | 1_023 << 12, "the first of the next");
        assert_eq!(MessageId::after(later.0, wall, NodeId(2)).0, 1_002 << 22 | 2 << 12);
        assert_eq!(MessageId::after(5, wall, NodeId(2)).0, 1_000 << 22 | 2 << 12);
    }
}

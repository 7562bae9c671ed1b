//! Types of presence, shared by all protocols: which devices and clients are online.
//!
//! A [`Principal`] is a device or a client; each of its [`Transition`]s has a [`PresenceVersion`]
//! that is higher than the one before, so that a late transition is recognised as late wherever it
//! arrives. Memory is authoritative; a [`PresenceRecord`] is the copy in an external directory.
//! Records are text, so that an operator can read them, and sort by their versions as text.

use crate::close::CloseReason;
use crate::id::{DeviceId, MessageId, ProductKey, number_after};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Principal of the presence.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Principal {
    /// A device of a product.
    Device(ProductKey, DeviceId),
    /// A client of a publish-and-subscribe protocol, by its identifier.
    Client(Box<str>),
}

impl Principal {
    /// Its name in directories, histories and queries: `product#device`, or `#client`.
    pub fn key(&self) -> Box<str> {
        match self {
            Principal::Device(product, device) => format!("{product}#{device}").into(),
            Principal::Client(id) => format!("#{id}").into(),
        }
    }

    /// The principal with this [`key`](Principal::key): products and devices have no `#`.
    pub fn parse(key: &str) -> Option<Principal> {
        let (product, id) = key.split_once('#')?;
        if product.is_empty() {
            return (!id.is_empty()).then(|| Principal::Client(id.into()));
        }
        let product = ProductKey::parse(product).ok()?;
        Some(Principal::Device(product, DeviceId::parse(id).ok()?))
    }
}

/// Value of a hybrid logical clock: 42 bits of milliseconds since 2020-01-01 UTC, 22 bits of
/// counter of which clocks use twelve. It contains the time, but no node: each next version of a
/// principal continues from its last one. Zero is before every other value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Default)]
pub struct PresenceVersion(pub u64);

impl PresenceVersion {
    /// No clock of ours gets so far (the year 2089): anything above it is made up.
    pub const LAST: PresenceVersion = PresenceVersion(u64::MAX / 2);

    /// The version that follows `last`, at this wall-clock time: above it though the clock stepped
    /// back, or stands.
    pub fn after(last: u64, wall_ms: u64) -> PresenceVersion {
        PresenceVersion(number_after(last, wall_ms, 0))
    }

    /// Unix millisecond of the clock, which is that of the wall unless the wall stepped back.
    pub const fn unix_ms(self) -> u64 {
        MessageId::EPOCH_MS + (self.0 >> 22)
    }
}

/// Sixteen hexadecimal digits, so that the order of texts is that of versions.
impl fmt::Display for PresenceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The hybrid logical clock of one shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VersionClock {
    last: u64,
}

impl VersionClock {
    /// A version above all that were given and [seen](VersionClock::observe), by the wall clock
    /// where that is ahead.
    pub fn next(&mut self, wall_ms: u64) -> PresenceVersion {
        self.last = PresenceVersion::after(self.last, wall_ms).0;
        PresenceVersion(self.last)
    }

    /// A version of another clock was seen: what is given from now on is above it. One that no
    /// clock can have is passed over.
    pub fn observe(&mut self, seen: PresenceVersion) {
        if seen <= PresenceVersion::LAST {
            self.last = self.last.max(seen.0);
        }
    }

    /// The last version that was given or seen.
    pub fn last(&self) -> PresenceVersion {
        PresenceVersion(self.last)
    }
}

/// The latest moment at which an online principal was certainly connected, Unix milliseconds: a
/// connection that is silent for more than one and a half of the agreed heartbeats ends a few
/// seconds later. With a heartbeat of zero any silence is allowed, and only the time of the login
/// is certain.
pub fn seen_ms(now_ms: u64, since_ms: u64, heartbeat_s: u16) -> u64 {
    /// Duration of a scan of all connections, plus the second to which silence is measured,
    /// milliseconds.
    const LOOK_MS: u64 = 5_000;
    let since_ms = since_ms.min(now_ms);
    match heartbeat_s {
        0 => since_ms,
        _ => since_ms.max(now_ms.saturating_sub(u64::from(heartbeat_s) * 1_500 + LOOK_MS)),
    }
}

/// Online or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OnlineState {
    /// The principal has a connection, over this protocol.
    Online(&'static str),
    /// The principal has no connection, since its last one ended for this reason.
    Offline(CloseReason),
}

impl OnlineState {
    /// Whether it has a connection.
    pub const fn is_online(self) -> bool {
        matches!(self, OnlineState::Online(_))
    }

    /// The protocol, or how the connection ended.
    pub const fn detail(self) -> &'static str {
        match self {
            OnlineState::Online(protocol) => protocol,
            OnlineState::Offline(reason) => reason.name(),
        }
    }
}

/// A principal came or went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transition {
    /// Principal that came or went.
    pub who: Principal,
    /// Its user, where it has one.
    pub user: Option<Arc<str>>,
    /// State after the transition.
    pub state: OnlineState,
    /// The protocol over which it came, or was connected until now: what it is counted under.
    pub protocol: &'static str,
    /// Address of the connection, if the principal came online.
    pub peer: Option<SocketAddr>,
    /// Version above that of every earlier transition of this principal.
    pub version: PresenceVersion,
}

/// A server, by name: 1 to 32 bytes as in [`ProductKey`].
pub type NodeName = ProductKey;

/// Record of a principal in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PresenceRecord {
    /// Version of its last transition.
    pub version: PresenceVersion,
    /// Whether that made it online.
    pub online: bool,
    /// The server that says so.
    pub node: NodeName,
    /// Random number of the server's start.
    pub boot: u64,
    /// The protocol of one that is online, the reason's name of one that is not.
    pub detail: Box<str>,
    /// Its user.
    pub user: Option<Box<str>>,
}

impl PresenceRecord {
    /// `version o|f node boot detail[ user]`: version and boot in hexadecimal, `o` online, `f` not.
    pub fn encode(&self) -> String {
        let PresenceRecord { version, node, boot, detail, .. } = self;
        let state = if self.online { 'o' } else { 'f' };
        let mut text = format!("{version} {state} {node} {boot:x} {detail}");
        if let Some(user) = &self.user {
            text.push(' ');
            text.push_str(user);
        }
        text
    }

    /// The record that has this text.
    pub fn decode(text: &str) -> Option<PresenceRecord> {
        let mut words = text.splitn(6, ' ');
        let version = words.next().filter(|word| word.len() == 16)?;
        let version = PresenceVersion(u64::from_str_radix(version, 16).ok()?);
        let online = match words.next()? {
            "o" => true,
            "f" => false,
            _ => return None,
        };
        let node = NodeName::parse(words.next()?).ok()?;
        let boot = u64::from_str_radix(words.next()?, 16).ok()?;
        let detail = words.next().filter(|word| !word.is_empty())?.into();
        Some(PresenceRecord {
            version,
            online,
            node,
            boot,
            detail,
            user: words.next().map(Box::from),
        })
    }
}

/// Buckets of a directory. A bucket's records lie together, so that one script handles them.
pub const BUCKETS: u16 = 16_384;

/// The bucket of a [`Principal::key`]: FNV-1a, the same on every server and for good.
pub fn bucket(key: &str) -> u16 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    ((hash ^ (hash >> 32)) % u64::from(BUCKETS)) as u16
}

/// Digest of a set of records: it differs where the sets do, but for one chance in 2^64.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Digest {
    /// Records.
    pub count: u64,
    /// The first eight bytes, big endian, of the SHA-1 of `key`, a zero byte and the record's
    /// text, of all records by exclusive or.
    pub sum: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> PresenceRecord {
        PresenceRecord {
            version: PresenceVersion(0x1234_5678_9abc),
            online: true,
            node: NodeName::parse("node-1").expect("allowed"),
            boot: 0xfeed,
            detail: "mqtt5".into(),
            user: Some("a user with spaces".into()),
        }
    }

    #[test]
    fn a_record_is_its_text() {
        let text = record().encode();
        assert_eq!(text, "0000123456789abc o node-1 feed mqtt5 a user with spaces");
        assert_eq!(PresenceRecord::decode(&text), Some(record()));
        let other =
            PresenceRecord { user: None, online: false, detail: "replaced".into(), ..record() };
        assert_eq!(PresenceRecord::decode(&other.encode()), Some(other));
        for wrong in ["", "12 o n 1 x", "0000123456789abc x n 1 d", "0000123456789abc o n g d"] {
            assert_eq!(PresenceRecord::decode(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn texts_sort_as_versions_do() {
        let versions = [1, 0xff, 0x100, u64::from(u32::MAX), u64::MAX].map(PresenceVersion);
        assert!(versions.windows(2).all(|pair| pair[0].to_string() < pair[1].to_string()));
    }

    #[test]
    fn a_key_is_its_principal() {
        let device = Principal::parse("demo#phone-1").expect("a device");
        assert!(matches!(device, Principal::Device(..)));
        assert_eq!(Principal::parse(&device.key()), Some(device));
        let client = Principal::Client("odd#name with ü".into());
        assert_eq!(Principal::parse(&client.key()), Some(client));
        assert_eq!((Principal::parse("none"), Principal::parse("#")), (None, None));
    }

    #[test]
    fn versions_rise_though_the_wall_steps_back_and_others_are_ahead() {
        let mut clock = VersionClock::default();
        let first = clock.next(1_800_000_000_000);
        let second = clock.next(1_700_000_000_000);
        assert!(second > first && second.unix_ms() >= first.unix_ms());
        let ahead = PresenceVersion(second.0 + (5_000 << 22));
        clock.observe(ahead);
        assert!(clock.next(1_800_000_000_000) > ahead);
        clock.observe(PresenceVersion(u64::MAX));
        assert!(clock.next(1_800_000_000_000) < PresenceVersion::LAST);
    }

    #[test]
    fn moves_within_a_millisecond_are_in_order() {
        let (wall_ms, mut last) = (MessageId::EPOCH_MS + 5_000, PresenceVersion(0));
        let mut clocks = [VersionClock::default(); 3];
        for round in 0..12_000 {
            // Each owner goes on from where the one before it was.
            let clock = &mut clocks[round % 3];
            clock.observe(last);
            let version = clock.next(wall_ms);
            assert!(version > last && version.unix_ms() < wall_ms + 4, "{round}");
            last = version;
        }
    }

    #[test]
    fn whoever_is_online_was_seen_as_its_heartbeat_vouches_for() {
        assert_eq!(seen_ms(100_000, 7_000, 30), 50_000);
        assert_eq!(seen_ms(100_000, 99_000, 30), 99_000, "it came later");
        assert_eq!(seen_ms(100_000, 7_000, 0), 7_000, "any silence is allowed");
        assert_eq!(seen_ms(100_000, 200_000, 30), 100_000, "its clock is ahead");
    }

    #[test]
    fn buckets_are_the_same_for_good_and_even() {
        assert_eq!(bucket("demo#phone-1"), bucket("demo#phone-1"));
        let mut held = vec![0_u32; usize::from(BUCKETS)];
        (0..160_000).for_each(|n| held[usize::from(bucket(&format!("demo#{n}")))] += 1);
        assert!(held.iter().all(|&count| count < 40), "{:?}", held.iter().max());
    }

    #[test]
    fn a_version_is_its_time_and_its_text() {
        let version = PresenceVersion(1_000 << 22 | 0x3005);
        assert_eq!(version.unix_ms(), MessageId::EPOCH_MS + 1_000);
        assert_eq!(version.to_string(), "00000000fa003005");
        let mut clock = VersionClock::default();
        assert_eq!(clock.last(), PresenceVersion(0));
        let given = clock.next(MessageId::EPOCH_MS + 1_000);
        assert_eq!((given, clock.last()), (PresenceVersion(1_000 << 22), given));
        clock.observe(PresenceVersion(7));
        assert_eq!(clock.last(), given, "an older one changes nothing");
        clock.observe(PresenceVersion::LAST);
        assert_eq!(clock.last(), PresenceVersion::LAST, "the last that is believed");
        clock = VersionClock::default();
        clock.observe(PresenceVersion(PresenceVersion::LAST.0 + 1));
        assert_eq!(clock.last(), PresenceVersion(0), "made up");
        assert!(PresenceVersion::LAST.unix_ms() / 1_000 > 3_700_000_000, "the year 2089");
    }

    #[test]
    fn a_state_is_told_by_its_protocol_or_its_reason() {
        let (online, offline) =
            (OnlineState::Online("mqtt5"), OnlineState::Offline(CloseReason::Replaced));
        assert_eq!((online.is_online(), online.detail()), (true, "mqtt5"));
        assert_eq!((offline.is_online(), offline.detail()), (false, "replaced"));
    }

    #[test]
    fn a_record_that_is_cut_or_not_its_own_is_nothing() {
        let text = record().encode();
        let whole = text.find(" a user").expect("it has a user");
        for cut in 0..whole - "mqtt5".len() {
            assert_eq!(PresenceRecord::decode(&text[..cut]), None, "{:?}", &text[..cut]);
        }
        for wrong in [
            "0000123456789abg o n 1 d",
            "00000123456789abc o n 1 d",
            "0000123456789abc o a,b 1 d",
            "0000123456789abc o n 1 ",
        ] {
            assert_eq!(PresenceRecord::decode(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_key_without_a_name_is_nobodys() {
        for wrong in ["", "#", "demo#", "de mo#phone-1", "demo#pho ne"] {
            assert_eq!(Principal::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_bucket_is_the_one_that_other_servers_compute() {
        // FNV-1a of 64 bits (its test suite: "" and "a"), folded once.
        let fold = |hash: u64| ((hash ^ (hash >> 32)) % 16_384) as u16;
        assert_eq!(bucket(""), fold(0xcbf2_9ce4_8422_2325));
        assert_eq!(bucket("a"), fold(0xaf63_dc4c_8601_ec8c));
        assert_eq!(bucket("foobar"), fold(0x8594_4171_f739_67e8));
    }
}

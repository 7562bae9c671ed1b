//! Every limit that is not a product's own: name, unit, range, default, and behaviour at the limit.
//!
//! Each is a key of the configuration, declared here once ([`base::section!`]); [`Limits::check`]
//! checks the relations between them. Limits that are constants of a format stand with the format.

mod api;
mod bosh;
mod chat;
mod dial;
mod federation;
mod media;
mod notifications;
mod platforms;
pub mod pressure;
mod pushes;
pub mod seats;
mod topics;

pub use api::ApiLimits;
pub use bosh::BoshLimits;
pub use chat::ChatLimits;
pub use dial::DialLimits;
pub use federation::FederationLimits;
pub use media::MediaLimits;
pub use notifications::NotificationLimits;
pub use platforms::PlatformLimits;
pub use pushes::PushLimits;
pub use topics::TopicLimits;

use base::section;
use base::setting::whole;

const MS: u64 = MS_HARD_MAX as u64;
const FRAME: u64 = FRAME_BYTES_HARD_MAX as u64;

section! {
    /// The limits of one process: its own, and a group for each service. Counts are for the whole
    /// process unless they say "a shard".
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Limits {
        /// Concurrent connections. One more gets BUSY and is closed. 0: limited by file
        /// descriptors, and at most a million.
        @live connections_max: u32 = 1_000_000, whole(0..=100_000_000, "connections");
        /// Connections beyond connections_max that are accepted in order to answer BUSY. One more
        /// is reset.
        @live crowd_max: u32 = 256, whole(0..=65_536, "connections");
        /// Binds admitted in a second, all shards together. One more gets BUSY with a retry time.
        @live binds_per_s: u32 = 20_000, whole(1..=10_000_000, "Binds a second");
        /// Connections that a shard accepts from a listener in one turn. The rest wait in its
        /// backlog.
        @live accepts_per_turn: u32 = 64, whole(1..=65_536, "connections");
        /// Time from accept to a Bind. After it, what the socket already holds is still read, and
        /// then the connection is closed.
        @live bind_ms_max: u32 = 10_000, whole(100..=MS, "milliseconds");
        /// Largest frame before the connection is bound. A larger one closes the connection.
        @live frame_bytes_unbound_max: u32 = 4 * 1024, whole(256..=FRAME, "bytes");
        /// Largest frame of a bound connection. A larger one closes the connection.
        @live frame_bytes_max: u32 = 64 * 1024, whole(2_048..=FRAME, "bytes");
        /// Concurrent connections of one source: an IPv4 address, or an IPv6 /64. One more gets
        /// BUSY and is closed. 0: half of connections_max. Connections from this machine are not
        /// counted; behind a proxy, the address in its PROXY header counts.
        @live connections_a_source_max: u32 = 0, whole(0..=100_000_000, "connections");
        /// Bytes of incomplete frames, all connections together; never less than two packets of
        /// [mqtt] packet_bytes_max. Beyond, connections that have held many bytes for a long time
        /// are closed.
        @live partial_bytes_max: u64 = 256 * 1024 * 1024, whole(65_536..=1 << 40, "bytes");
        /// Time in which an incomplete frame must end, or grow by 4096 bytes. After it, the
        /// connection is closed.
        @live frame_ms_max: u32 = 30_000, whole(1_000..=MS, "milliseconds");
        /// Bytes queued for writing to one connection. Beyond, the reader is too slow: the
        /// connection is closed.
        @live out_bytes_max: u32 = 1024 * 1024, whole(2_048..=1 << 30, "bytes");
        /// Frames queued for writing to one connection. Beyond, the connection is closed, too.
        @live out_frames_max: u32 = 4_096, whole(1..=1_000_000, "frames");
        /// How long sent bytes may stay unacknowledged by the peer's kernel. After it, the
        /// connection is closed.
        tcp_user_timeout_ms: u32 = 30_000, whole(1_000..=MS, "milliseconds");
        /// Ended connections that are kept in memory for /v1/disconnections, at most 456 bytes
        /// each; every shard keeps its share. The oldest make room. 0: none.
        @live disconnections_max: u32 = 10_000, whole(0..=1_000_000, "connections");
        /// Clients in the list of those that do not keep up. Those beyond are not listed; their
        /// losses are counted as always.
        @live slow_clients_max: u32 = 1_024, whole(0..=65_536, "clients a shard");
        /// Messages from other shards in the mailbox of one shard. Beyond, the sender is slowed
        /// down.
        mailbox_messages_max: u32 = 65_536, whole(64..=1 << 24, "messages");
        /// Timeout of an answer that needs logs and other shards, and at most half as long again.
        /// After it, a publisher's connection ends (its message may be stored or not), other
        /// answers are busy (a subscription to a shared group, a command), or the request is
        /// repeated once (a page of retained messages, an order to many).
        @live answer_ms_max: u32 = 30_000, whole(1_000..=MS, "milliseconds");
        /// Limits of pushes and devices, whose keys stand among these.
        @part pushes: PushLimits;
        /// Events queued for a subscriber. Beyond, they are dropped, and the gap is reported and
        /// counted.
        events_waiting_max: u32 = 65_536, whole(1..=1 << 24, "events");
        /// Up to this much is added at random to retry times, so that clients do not return all at
        /// once.
        @live retry_jitter_ms: u32 = 5_000, whole(0..=MS, "milliseconds");
        /// Memory of the process (resident, without files). At 85 % of it new connections get BUSY,
        /// at 92 % messages of QoS 0 are dropped too, at 97 % nothing more is queued for offline
        /// clients or retained, and pushes are rejected. 0: three quarters of the memory of the
        /// machine or its control group.
        @live memory_max: u64 = 0, whole(0..=1 << 50, "bytes");
        /// Time over which a drain closes connections. Those that remain are closed at its end.
        @live drain_ms: u32 = 10_000, whole(0..=MS, "milliseconds");
        /// The same if another server takes over (`holdline serve --take-over`): returning clients
        /// wait for it all that time.
        @live take_over_ms: u32 = 3_000, whole(0..=MS, "milliseconds");
        /// Limits of topics and sessions, which have a section of their own.
        @aside topics: TopicLimits;
        /// Limits of accounts and conversations, likewise.
        @aside chat: ChatLimits;
        /// Limits of push notifications, likewise.
        @aside notifications: NotificationLimits;
        /// Limits of sent files, likewise.
        @aside media: MediaLimits;
    }
}

/// Longest client identifier in any configuration: it is part of a row's key.
pub const CLIENT_ID_BYTES_HARD_MAX: u16 = 480;

/// The largest frame in any configuration. Classic clients can hold more (version 5 has a static
/// buffer of 5 MiB); this is what one read of a shard should carry.
pub const FRAME_BYTES_HARD_MAX: u32 = 1024 * 1024;

/// The largest MQTT packet in any configuration: the longest length that the format can encode.
pub const PACKET_BYTES_HARD_MAX: u32 = 268_435_455;

/// Maximum of any limit in milliseconds: one day.
pub const MS_HARD_MAX: u32 = 24 * 3_600 * 1000;

impl Limits {
    /// Maximum connections of one source.
    pub fn source_max(&self) -> u32 {
        match self.connections_a_source_max {
            0 => (self.connections_max / 2).max(1),
            most => most,
        }
    }

    /// Bytes of incomplete frames: room for at least two packets.
    pub fn partial_max(&self) -> u64 {
        self.partial_bytes_max.max(2 * u64::from(self.topics.packet_bytes_max))
    }

    /// The first relation that does not hold, in words. Each key checks its own range.
    pub fn check(&self) -> Result<(), &'static str> {
        let rules = [
            (
                self.frame_bytes_unbound_max <= self.frame_bytes_max,
                "frame_bytes_unbound_max must not be above frame_bytes_max",
            ),
            (
                self.pushes.push_bytes_max + 1_024 <= self.frame_bytes_max,
                "push_bytes_max must leave 1024 bytes of frame_bytes_max for the frame itself",
            ),
            (
                self.out_bytes_max >= self.frame_bytes_max,
                "out_bytes_max must hold at least one frame of frame_bytes_max",
            ),
            (
                self.topics.connect_bytes_max <= self.topics.packet_bytes_max,
                "connect_bytes_max must not be above packet_bytes_max",
            ),
            (
                self.topics.keep_alive_s_max == 0
                    || self.topics.keep_alive_s_min <= self.topics.keep_alive_s_max,
                "keep_alive_s_min must not be above keep_alive_s_max",
            ),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, rule)| Err(rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_agree_with_each_other() {
        assert_eq!(Limits::default().check(), Ok(()));
    }

    #[test]
    fn a_broken_relation_is_named() {
        let limits = Limits { out_bytes_max: 100, ..Limits::default() };
        assert!(limits.check().is_err_and(|rule| rule.starts_with("out_bytes_max")));
    }

    /// Tests every relation with one edit that still holds it and one just beyond.
    #[test]
    fn every_relation_holds_up_to_its_limit() {
        type Edit = fn(&mut Limits, bool);
        let relations: &[(&str, Edit)] = &[
            ("frame_bytes_unbound_max", |l, beyond| {
                l.frame_bytes_unbound_max = l.frame_bytes_max + u32::from(beyond);
            }),
            ("push_bytes_max", |l, beyond| {
                l.pushes.push_bytes_max = l.frame_bytes_max - 1_024 + u32::from(beyond);
            }),
            ("out_bytes_max", |l, beyond| {
                l.out_bytes_max = l.frame_bytes_max - u32::from(beyond);
            }),
            ("connect_bytes_max", |l, beyond| {
                l.topics.connect_bytes_max = l.topics.packet_bytes_max + u32::from(beyond);
            }),
            ("keep_alive_s_min", |l, beyond| {
                l.topics.keep_alive_s_max = 60;
                l.topics.keep_alive_s_min = 60 + u16::from(beyond);
            }),
        ];
        for (name, edit) in relations {
            let (mut at, mut beyond) = (Limits::default(), Limits::default());
            edit(&mut at, false);
            edit(&mut beyond, true);
            assert_eq!(at.check(), Ok(()), "{name} at its limit");
            assert!(beyond.check().is_err_and(|rule| rule.starts_with(name)), "{name} beyond");
        }
        let mut limits = Limits::default();
        limits.topics.keep_alive_s_min = 60;
        assert_eq!(limits.check(), Ok(()), "no longest silence, so none is too short for it");
    }

    #[test]
    fn what_is_derived_has_room_for_something() {
        let of = |connections_max, connections_a_source_max| {
            let limits = Limits { connections_max, connections_a_source_max, ..Limits::default() };
            limits.source_max()
        };
        assert_eq!([of(100, 0), of(1, 0), of(100, 7), of(100, 100)], [50, 1, 7, 100]);
        let mut limits = Limits { partial_bytes_max: 1_000, ..Limits::default() };
        limits.topics.packet_bytes_max = 500;
        assert_eq!(limits.partial_max(), 1_000);
        limits.topics.packet_bytes_max = 501;
        assert_eq!(limits.partial_max(), 1_002);
    }
}

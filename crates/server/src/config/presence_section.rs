//! `[presence]`: the external directory of online devices, and where its events go.
//!
//! `directory` parses Redis addresses in full; this module only tells them apart from words and
//! other addresses. User and password in them are never shown.

use std::path::PathBuf;

use super::sections::is_url;
use crate::shard_logic::EventTopic;
use base::section;
use base::setting::{Hidden, text, whole};
use model::presence::NodeName;

section! {
    /// `[presence]`: the external copy of presence, and its events.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct PresenceSection {
        /// External copy of who is online, for other programs. none: no copy. process: a table in
        /// this process, for testing. A Redis: redis://user:password@host:6379/0,
        /// redis+sentinel://host:26379,host:26379/master, redis+cluster://host:6379,host:6379;
        /// rediss instead of redis uses TLS. Redis may be unreachable or empty at any time: no
        /// connection waits for it. User and password are never printed.
        directory: Hidden = Hidden::of("none"), text(
            "\"none\", \"process\", or a URL of redis://, rediss://, redis+sentinel:// or \
             redis+cluster://",
            is_directory,
        ), url;
        /// Name of this server in the directory, unique among servers; "" is the host's name.
        node: String = String::new(), text(
            "1 to 32 letters, digits and . _ - + : / =, or empty",
            |text| text.is_empty() || NodeName::parse(text).is_ok(),
        );
        /// Address of this server's API for applications and other servers, such as
        /// "http://10.0.0.7:7080". A push that another server refuses because its device is online
        /// here names it. "" is where the API listens; on all addresses, the node's name with that
        /// port; on a loopback address, none.
        address: String = String::new(), text(
            "\"\", or an http:// or https:// address",
            |text| text.is_empty() || is_url(text),
        );
        /// Prefix of every key in the directory. Servers that share a directory use the same
        /// prefix.
        prefix: String = "holdline:".into(),
            text("at most 64 letters, digits and signs but { and }", is_prefix);
        /// How long this server counts as alive after its last renewal. After that all its devices
        /// and clients count as offline, without a write. It renews three times as often.
        lease_ms: u32 = 15_000, whole(1_000..=3_600_000, "milliseconds");
        /// How long changes are collected before they are written. A device that connects and
        /// disconnects in between costs one write.
        flush_ms: u32 = 10, whole(1..=60_000, "milliseconds");
        /// Timeout of a call. After it, the directory counts as unreachable and is retried after
        /// 0.1 seconds, then less and less often, at least every 5 seconds.
        timeout_ms: u32 = 500, whole(10..=60_000, "milliseconds");
        /// Buckets, of 16384, compared in a second after the directory may have lost data.
        resync_per_s: u32 = 2_000, whole(1..=100_000, "buckets a second");
        /// Interval in which all buckets are compared with the directory, even if nothing was lost.
        /// The comparison finds changes by other programs, and devices that moved to another server
        /// while their connection here is still open. A round costs Redis about a second of CPU for
        /// a million devices.
        compare_s: u32 = 60, whole(5..=86_400, "seconds");
        /// Bytes on disk for the history: when each device and client connected and disconnected,
        /// from which address, over which protocol, and how the connection ended, about 150 bytes
        /// each; none of it is in memory. When half of it is full, the older half is deleted. 0: no
        /// history.
        history_bytes_max: u64 = 64 << 20, whole(0..=1 << 36, "bytes");
        /// Transitions of one device or client in one answer of the history. A larger request is
        /// capped.
        history_told_max: u32 = 100, whole(1..=10_000, "transitions");
        /// Transitions kept in memory, 24 bytes each, to show beside differences from the
        /// directory. Beyond, the oldest is dropped.
        history_max: u32 = 65_536, whole(0..=100_000_000, "transitions");
        /// Topic on which the server publishes connects and disconnects, retained, at QoS 1, as
        /// JSON: presence/%p/%d, with the product for %p (- for MQTT clients) and the id for %d. ""
        /// is none. Each is stored and counts in retained_max of [mqtt].
        events_topic: String = String::new(), text(
            "a topic with %p and %d in it, without + # and not below $, or empty",
            |text| text.is_empty() || EventTopic::parse(text).is_some(),
        );
        /// Key of a Redis stream that events are appended to, exactly as given, without the prefix;
        /// "" is none. Needs a Redis in directory.
        events_stream: String = String::new(), text(
            "at most 256 letters, digits and signs, or empty",
            |text| text.len() <= 256 && text.bytes().all(|b| b.is_ascii_graphic()),
        );
        /// Approximate number of events in the stream. Beyond, Redis drops the oldest.
        events_stream_length_max: u32 = 1_000_000, whole(1..=1_000_000_000, "events");
        /// PEM file of the authorities that the Redis certificate is verified against; "" is the
        /// system's, from /etc/ssl/certs/ca-certificates.crt.
        ca: Option<PathBuf> = None;
        /// PEM file of this server's client certificate for Redis.
        certificate: Option<PathBuf> = None;
        /// PEM file of its private key.
        key: Option<PathBuf> = None;
    }
}

/// Where the directory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirectoryAt {
    /// Nowhere.
    Nowhere,
    /// In the process, for testing.
    Process,
    /// In a Redis.
    Redis,
}

impl PresenceSection {
    /// Where the directory is.
    pub fn directory_at(&self) -> DirectoryAt {
        match self.directory.reveal() {
            "none" => DirectoryAt::Nowhere,
            "process" => DirectoryAt::Process,
            _ => DirectoryAt::Redis,
        }
    }
}

/// The rules check the rest of the URL, with a precise error.
fn is_directory(text: &str) -> bool {
    let is_redis = text.starts_with("redis") && text.contains("://");
    ["none", "process"].contains(&text)
        || is_redis && text.len() <= 2_048 && text.bytes().all(|b| b.is_ascii_graphic())
}

fn is_prefix(text: &str) -> bool {
    text.len() <= 64 && text.bytes().all(|b| b.is_ascii_graphic() && !b"{}".contains(&b))
}

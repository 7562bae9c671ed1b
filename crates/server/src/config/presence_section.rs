//! `[presence]`: the directory outside that knows who is online, and where events of it go.
//!
//! What an address of Redis looks like in full is `directory`'s part; here it is only told apart
//! from words and from addresses of other things. User and password in it are never shown.

use std::path::PathBuf;

use crate::shard_logic::EventTopic;
use base::section;
use base::setting::{Hidden, text, whole};
use model::presence::NodeName;

section! {
    /// `[presence]`: the copy of presence, and its events.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct PresenceSection {
        /// A copy of who is online, for other programs. none: memory alone knows. process: a table
        /// in this process, for trying out. Or a Redis: redis://user:password@host:6379/0,
        /// redis+sentinel://host:26379,host:26379/master, redis+cluster://host:6379,host:6379;
        /// rediss instead of redis is TLS. It may be away or empty at any time: no connection waits
        /// for it. User and password are never printed.
        directory: Hidden = Hidden::of("none"), text(
            "\"none\", \"process\", or a URL of redis://, rediss://, redis+sentinel:// or \
             redis+cluster://",
            is_directory,
        ), url;
        /// This server's name in the directory, no other's; "" is the host's name.
        node: String = String::new(), text(
            "1 to 32 letters, digits and . _ - + : / =, or empty",
            |text| text.is_empty() || NodeName::parse(text).is_ok(),
        );
        /// What every key in the directory begins with: servers of one prefix share it.
        prefix: String = "holdline:".into(),
            text("at most 64 letters, digits and signs but { and }", is_prefix);
        /// How long this server counts as alive after its last word. Then all its devices and
        /// clients count as offline, without a write. It renews three times as often.
        lease_ms: u32 = 15_000, whole(1_000..=3_600_000, "milliseconds");
        /// How long changes are gathered before they are written. A device that comes and goes
        /// meanwhile costs one write.
        flush_ms: u32 = 10, whole(1..=60_000, "milliseconds");
        /// How long a call may take. Beyond, the directory counts as away: it is tried again after
        /// 0.1 seconds, then less and less often, at least every 5 seconds.
        timeout_ms: u32 = 500, whole(10..=60_000, "milliseconds");
        /// Buckets, of 16384, that are compared in a second after the directory may have lost
        /// something.
        resync_per_s: u32 = 2_000, whole(1..=100_000, "buckets a second");
        /// In how many seconds all buckets are compared with the directory, though nothing was
        /// lost. What other hands changed there is found in it, and who has moved to another server
        /// while its connection here is still open. A million devices cost Redis about a second of
        /// processor time a round.
        compare_s: u32 = 60, whole(5..=86_400, "seconds");
        /// Bytes on the disk for the history: who came and went when, from which address, over
        /// which protocol, and how each connection ended, about 150 bytes each; memory has none of
        /// it. When half of it is full the older half goes. 0: no history is kept.
        history_bytes_max: u64 = 64 << 20, whole(0..=1 << 36, "bytes");
        /// Transitions of one device or client that the history tells at once. A longer wish is
        /// cut.
        history_told_max: u32 = 100, whole(1..=10_000, "transitions");
        /// Transitions that are remembered, 24 bytes each, to be shown with what differs. Beyond,
        /// the oldest is forgotten.
        history_max: u32 = 65_536, whole(0..=100_000_000, "transitions");
        /// Topic on which the server publishes who came and went, retained, at QoS 1, as JSON:
        /// presence/%p/%d, with the product for %p (- for clients of MQTT) and the id for %d. "" is
        /// none. Each is a retained message in retained_max of [mqtt], and is stored.
        events_topic: String = String::new(), text(
            "a topic with %p and %d in it, without + # and not below $, or empty",
            |text| text.is_empty() || EventTopic::parse(text).is_some(),
        );
        /// Key of a Redis stream to which events are appended, as it stands, without prefix; "" is
        /// none. Needs a Redis in directory.
        events_stream: String = String::new(), text(
            "at most 256 letters, digits and signs, or empty",
            |text| text.len() <= 256 && text.bytes().all(|b| b.is_ascii_graphic()),
        );
        /// Events kept in the stream, about. Beyond, Redis drops the oldest.
        events_stream_length_max: u32 = 1_000_000, whole(1..=1_000_000_000, "events");
        /// PEM file of the authorities that the Redis' certificate is checked against; "" is those
        /// of the system, from /etc/ssl/certs/ca-certificates.crt.
        ca: Option<PathBuf> = None;
        /// PEM file of this server's certificate there.
        certificate: Option<PathBuf> = None;
        /// PEM file of its private key.
        key: Option<PathBuf> = None;
    }
}

/// Place of the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirectoryAt {
    /// Nowhere.
    Nowhere,
    /// In the process: for trying out.
    Process,
    /// At a Redis.
    Redis,
}

impl PresenceSection {
    /// Where the copy is.
    pub fn directory_at(&self) -> DirectoryAt {
        match self.directory.reveal() {
            "none" => DirectoryAt::Nowhere,
            "process" => DirectoryAt::Process,
            _ => DirectoryAt::Redis,
        }
    }
}

/// What follows the scheme is looked at by the rules, which say what is wrong with it.
fn is_directory(text: &str) -> bool {
    let is_redis = text.starts_with("redis") && text.contains("://");
    ["none", "process"].contains(&text)
        || is_redis && text.len() <= 2_048 && text.bytes().all(|b| b.is_ascii_graphic())
}

fn is_prefix(text: &str) -> bool {
    text.len() <= 64 && text.bytes().all(|b| b.is_ascii_graphic() && !b"{}".contains(&b))
}

//! `[presence]`: the directory outside that knows who is online, and where events of it go.
//!
//! What an address of Redis looks like in full is `directory`'s part; here it is only told apart
//! from words and from addresses of other things. User and password in it are never shown.

use std::path::PathBuf;

use super::key::{Field, Hidden, Key, Kind, Reload, Section, key};
use super::sections::PATH_OR_NONE;
use crate::shard_logic::EventTopic;
use model::presence::NodeName;

/// `[presence]`: the copy of presence, and its events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PresenceSection {
    /// `none`, `process`, or a URL of Redis.
    pub directory: Hidden,
    /// This server's name there; empty: its host's.
    pub node: String,
    /// What every key there begins with.
    pub prefix: String,
    /// Milliseconds that this server counts as alive without a word of it.
    pub lease_ms: u32,
    /// Milliseconds that transitions are gathered.
    pub flush_ms: u32,
    /// Milliseconds that a call may take.
    pub timeout_ms: u32,
    /// Buckets compared in a second after a loss.
    pub resync_per_s: u32,
    /// Seconds in which all buckets are compared though nothing was lost.
    pub compare_s: u32,
    /// Transitions remembered.
    pub history_max: u32,
    /// Topic of events; empty: none.
    pub events_topic: String,
    /// Key of the Redis stream of events; empty: none.
    pub events_stream: String,
    /// Events in it.
    pub events_stream_length_max: u32,
    /// PEM file of the authorities it trusts.
    pub ca: Option<PathBuf>,
    /// PEM file of its own certificate.
    pub certificate: Option<PathBuf>,
    /// PEM file of its key.
    pub key: Option<PathBuf>,
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

impl Section for PresenceSection {
    const KEYS: &'static [Key<Self>] = &[
        key!(
            directory,
            Kind::Text {
                what: "\"none\", \"process\", or a URL of redis://, rediss://, redis+sentinel:// \
                       or redis+cluster://",
                fits: is_directory
            },
            Restart,
            "A copy of who is online, for other programs. none: memory alone knows. process: a \
             table in this process, for trying out. Or a Redis: redis://user:password@host:6379/0, \
             redis+sentinel://host:26379,host:26379/master, redis+cluster://host:6379,host:6379; \
             rediss instead of redis is TLS. It may be away or empty at any time: no connection \
             waits for it. User and password are never printed."
        )
        .url(),
        key!(
            node,
            Kind::Text {
                what: "1 to 32 letters, digits and . _ - + : / =, or empty",
                fits: |text| text.is_empty() || NodeName::parse(text).is_ok()
            },
            Restart,
            "This server's name in the directory, no other's; \"\" is the host's name."
        ),
        key!(
            prefix,
            Kind::Text {
                what: "at most 64 letters, digits and signs but { and }",
                fits: is_prefix
            },
            Restart,
            "What every key in the directory begins with: servers of one prefix share it."
        ),
        key!(
            lease_ms,
            Kind::whole(1_000, 3_600_000, "milliseconds"),
            Restart,
            "How long this server counts as alive after its last word. Then all its devices and \
             clients count as offline, without a write. It renews three times as often."
        ),
        key!(
            flush_ms,
            Kind::whole(1, 60_000, "milliseconds"),
            Restart,
            "How long changes are gathered before they are written. A device that comes and goes \
             meanwhile costs one write."
        ),
        key!(
            timeout_ms,
            Kind::whole(10, 60_000, "milliseconds"),
            Restart,
            "How long a call may take. Beyond, the directory counts as away: it is tried again \
             after 0.1 seconds, then less and less often, at least every 5 seconds."
        ),
        key!(
            resync_per_s,
            Kind::whole(1, 100_000, "buckets a second"),
            Restart,
            "Buckets, of 16384, that are compared in a second after the directory may have lost \
             something."
        ),
        key!(
            compare_s,
            Kind::whole(5, 86_400, "seconds"),
            Restart,
            "In how many seconds all buckets are compared with the directory, though nothing was \
             lost. What other hands changed there is found in it, and who has moved to another \
             server while its connection here is still open. A million devices cost Redis about a \
             second of processor time a round."
        ),
        key!(
            history_max,
            Kind::whole(0, 100_000_000, "transitions"),
            Restart,
            "Transitions that are remembered, 24 bytes each, to be shown with what differs. \
             Beyond, the oldest is forgotten."
        ),
        key!(
            events_topic,
            Kind::Text {
                what: "a topic with %p and %d in it, without + # and not below $, or empty",
                fits: |text| text.is_empty() || EventTopic::parse(text).is_some()
            },
            Restart,
            "Topic on which the server publishes who came and went, retained, at QoS 1, as JSON: \
             presence/%p/%d, with the product for %p (- for clients of MQTT) and the id for %d. \
             \"\" is none. Each is a retained message in retained_max of [mqtt], and is stored."
        ),
        key!(
            events_stream,
            Kind::Text {
                what: "at most 256 letters, digits and signs, or empty",
                fits: |text| text.len() <= 256 && text.bytes().all(|b| b.is_ascii_graphic())
            },
            Restart,
            "Key of a Redis stream to which events are appended, as it stands, without prefix; \
             \"\" is none. Needs a Redis in directory."
        ),
        key!(
            events_stream_length_max,
            Kind::whole(1, 1_000_000_000, "events"),
            Restart,
            "Events kept in the stream, about. Beyond, Redis drops the oldest."
        ),
        key!(
            ca,
            PATH_OR_NONE,
            Restart,
            "PEM file of the authorities that the Redis' certificate is checked against; \"\" is \
             those of the system, from /etc/ssl/certs/ca-certificates.crt."
        ),
        key!(certificate, PATH_OR_NONE, Restart, "PEM file of this server's certificate there."),
        key!(key, PATH_OR_NONE, Restart, "PEM file of its private key."),
    ];

    fn blank(_: &str) -> Result<Self, String> {
        Ok(PresenceSection {
            directory: Hidden::of("none"),
            node: String::new(),
            prefix: "holdline:".into(),
            lease_ms: 15_000,
            flush_ms: 10,
            timeout_ms: 500,
            resync_per_s: 2_000,
            compare_s: 60,
            history_max: 65_536,
            events_topic: String::new(),
            events_stream: String::new(),
            events_stream_length_max: 1_000_000,
            ca: None,
            certificate: None,
            key: None,
        })
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

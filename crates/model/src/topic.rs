//! Publish and subscribe: messages on topics, and subscriptions.
//!
//! Types only; `broker` has the rules, and the protocols the encodings. A [`Publication`] is made
//! once, when it is read from the wire, and shared by all its receivers: its topic, properties and
//! payload are one allocation.

use crate::id::{ShardId, giver_of, number_after};
use base::encoding::Encoding;
use std::sync::Arc;

/// Quality of service: how often a message is delivered (MQTT5 4.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Default, Encoding)]
#[repr(u8)]
pub enum Qos {
    /// Delivered at most once.
    #[default]
    AtMostOnce = 0,
    /// At least once.
    AtLeastOnce = 1,
    /// Exactly once.
    ExactlyOnce = 2,
}

impl Qos {
    /// The level with this number; `None` for 3 and above.
    pub const fn of(number: u8) -> Option<Qos> {
        match number {
            0 => Some(Qos::AtMostOnce),
            1 => Some(Qos::AtLeastOnce),
            2 => Some(Qos::ExactlyOnce),
            _ => None,
        }
    }
}

/// A message published to a topic.
#[derive(Clone, PartialEq, Eq)]
pub struct Publication {
    /// Unique in this process; the broker gives it, by [`number_after`](Self::number_after). Frames
    /// are cached under it.
    pub id: u64,
    /// A hash of who published it, for subscriptions that want nothing of their own; 0: the server.
    pub publisher: u64,
    /// Unix second at which it came.
    pub at_s: u32,
    /// Unix second after which it must not be delivered; 0: it does not expire.
    pub expire_at: u32,
    /// QoS of the publication.
    pub qos: Qos,
    /// Retain flag of the publication: the message is kept for later subscribers. An empty payload
    /// clears it.
    pub retain: bool,
    topic_bytes: u16,
    properties_bytes: u32,
    bytes: Box<[u8]>,
}

impl Publication {
    /// The number that a shard gives after `last`, whichever shard gave that: 42 bits of
    /// milliseconds since 2020-01-01 UTC, 10 bits of shard, 12 bits of counter. A number of another
    /// node is unique only together with the node's name.
    pub fn number_after(last: u64, wall_ms: u64, shard: ShardId) -> u64 {
        number_after(last, wall_ms, shard.0)
    }

    /// The shard that gave a number.
    pub const fn shard_of(number: u64) -> ShardId {
        ShardId(giver_of(number))
    }

    /// A publication with this content, not numbered yet. `properties` are those that are passed on
    /// unchanged to every receiver, in the encoding of MQTT 5 (without their length): expiry,
    /// subscription identifiers and topic alias are not among them. `topic` must be valid.
    pub fn new(topic: &str, properties: &[u8], payload: &[u8]) -> Publication {
        let mut bytes = Vec::with_capacity(topic.len() + properties.len() + payload.len());
        bytes.extend_from_slice(topic.as_bytes());
        bytes.extend_from_slice(properties);
        bytes.extend_from_slice(payload);
        Publication {
            id: 0,
            publisher: 0,
            at_s: 0,
            expire_at: 0,
            qos: Qos::AtMostOnce,
            retain: false,
            topic_bytes: u16::try_from(topic.len()).expect("a topic has a length of 16 bits"),
            properties_bytes: u32::try_from(properties.len()).expect("so has a property block"),
            bytes: bytes.into_boxed_slice(),
        }
    }

    /// Topic of the publication.
    pub fn topic(&self) -> &str {
        let bytes = &self.bytes[..usize::from(self.topic_bytes)];
        std::str::from_utf8(bytes).expect("it was made of a str")
    }

    /// Whether the topic begins so.
    pub fn is_under(&self, prefix: &str) -> bool {
        let topic = &self.bytes[..usize::from(self.topic_bytes)];
        topic.starts_with(prefix.as_bytes())
    }

    /// Properties that go on unaltered; see [`Publication::new`].
    pub fn properties(&self) -> &[u8] {
        let from = usize::from(self.topic_bytes);
        &self.bytes[from..from + self.properties_bytes as usize]
    }

    /// Payload of the message.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[usize::from(self.topic_bytes) + self.properties_bytes as usize..]
    }

    /// Whether the message has expired at this Unix second.
    pub fn expired(&self, unix_s: u32) -> bool {
        self.expire_at != 0 && self.expire_at <= unix_s
    }

    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        self.bytes.len() + size_of::<Publication>() + 16
    }

    /// The publication under another topic.
    pub fn renamed(&self, topic: &str) -> Publication {
        let Publication { id, publisher, at_s, expire_at, qos, retain, .. } = *self;
        let same = Publication::new(topic, self.properties(), self.payload());
        Publication { id, publisher, at_s, expire_at, qos, retain, ..same }
    }
}

impl std::fmt::Debug for Publication {
    /// Without the payload.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publication")
            .field("id", &self.id)
            .field("topic", &self.topic())
            .field("qos", &self.qos)
            .field("retain", &self.retain)
            .field("payload_bytes", &self.payload().len())
            .finish()
    }
}

/// When retained messages are sent at a subscription (MQTT5 3.8.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum RetainHandling {
    /// At every one.
    #[default]
    Send = 0,
    /// When the subscription did not exist before.
    SendIfNew = 1,
    /// Never.
    DoNotSend = 2,
}

/// Options of a subscription to one topic filter. The filter was checked; one that begins with
/// `$share/` is a shared one, `$exclusive/` an exclusive one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscriptionOptions {
    /// The filter, as the client wrote it.
    pub filter: Box<str>,
    /// The highest QoS it wants.
    pub qos: Qos,
    /// Whether messages that the client published itself are left out (MQTT5 3.8.3-3).
    pub no_local: bool,
    /// Messages keep the retain flag they were published with.
    pub retain_as_published: bool,
    /// When retained messages are sent.
    pub retain_handling: RetainHandling,
}

/// Identifiers of the subscriptions that a delivery is for; `None`: none.
pub type SubscriptionIds = Option<Arc<[u32]>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_publication_has_three_parts() {
        let publication = Publication::new("a/ü", &[1, 2], b"xyz");
        assert_eq!(publication.topic(), "a/ü");
        assert_eq!(publication.properties(), [1, 2]);
        assert_eq!(publication.payload(), b"xyz");
        let other = Publication { id: 9, expire_at: 5, ..publication }.renamed("b");
        assert_eq!((other.topic(), other.payload(), other.id), ("b", &b"xyz"[..], 9));
        assert!(other.expired(5) && !other.expired(4));
    }

    #[test]
    fn a_publication_weighs_all_it_holds_and_one_without_expiry_stays() {
        let publication = Publication::new("a", &[1, 2], b"xyz");
        assert_eq!(publication.weight(), 6 + size_of::<Publication>() + 16);
        assert!(!publication.expired(0) && !publication.expired(u32::MAX));
        let shown = format!("{publication:?}");
        assert!(shown.contains("topic: \"a\"") && shown.contains("payload_bytes: 3"), "{shown}");
    }

    #[test]
    fn a_quality_of_service_is_its_number() {
        assert_eq!([0, 1, 2].map(|n| Qos::of(n).map(|qos| qos as u8)), [Some(0), Some(1), Some(2)]);
        assert_eq!((Qos::of(3), Qos::of(255)), (None, None));
    }
}

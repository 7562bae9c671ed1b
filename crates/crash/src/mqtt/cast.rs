//! Publishers and subscribers: the same in every run, so that a client's number identifies it. The
//! topic says the QoS of its messages: order is promised within one topic and one QoS.

use super::wire::{V4, V5};

/// A publisher.
pub struct Author {
    /// Its client identifier.
    pub client: &'static str,
    /// The version that it speaks.
    pub version: u8,
    /// Its session outlives its connections, and it sends again what was not answered.
    pub durable: bool,
}

/// A subscriber with a durable session.
pub struct Reader {
    /// Its client identifier.
    pub client: &'static str,
    /// The version that it speaks.
    pub version: u8,
    /// Its highest QoS.
    pub qos: u8,
    /// Filters that it is subscribed to from the first life on; no two overlap.
    pub filters: &'static [&'static str],
    /// Whether it connects while there is load.
    pub wakes: bool,
    /// The shared group it belongs to, with all its filters.
    pub group: Option<u8>,
}

/// All publishers.
pub const AUTHORS: [Author; 5] = [
    Author { client: "author-0", version: V5, durable: true },
    Author { client: "author-1", version: V4, durable: true },
    Author { client: "author-2", version: V5, durable: true },
    Author { client: "author-3", version: V5, durable: false },
    Author { client: "author-4", version: V4, durable: false },
];

const fn reader(
    client: &'static str,
    (version, qos): (u8, u8),
    filters: &'static [&'static str],
    wakes: bool,
    group: Option<u8>,
) -> Reader {
    Reader { client, version, qos, filters, wakes, group }
}

/// All subscribers.
pub const READERS: [Reader; 12] = [
    reader("away-0", (V5, 2), &["t/#", "w/#"], false, None),
    reader("away-1", (V5, 1), &["t/#", "w/#"], false, None),
    reader("away-2", (V4, 2), &["t/+/0", "t/+/1", "w/#"], false, None),
    reader("here-3", (V5, 2), &["t/#", "w/#"], true, None),
    reader("here-4", (V5, 1), &["t/q2/#"], true, None),
    reader("here-5", (V4, 2), &["t/q2/0", "t/q1/1"], true, None),
    reader("away-6", (V5, 2), &["r/#", "t/q2/3"], false, None),
    reader("group-7", (V5, 2), &["$share/g/s/#"], true, Some(0)),
    reader("group-8", (V4, 2), &["$share/g/s/#"], true, Some(0)),
    reader("group-9", (V5, 2), &["$share/g/s/#"], false, Some(0)),
    reader("group-10", (V5, 1), &["$share/h/s/#"], true, Some(1)),
    reader("group-11", (V5, 1), &["$share/h/s/#"], false, Some(1)),
];

/// Shared groups.
pub const GROUPS: u8 = 2;

/// Topics of each kind and QoS.
pub const TOPICS: u64 = 4;

/// The QoS of a topic's messages: a level of it says so.
pub fn qos_of(topic: &str) -> u8 {
    if topic.contains("/q2/") { 2 } else { 1 }
}

/// Whether a filter takes a topic (MQTT5 4.7); that of a shared group by what follows its name.
pub fn matches(filter: &str, topic: &str) -> bool {
    let filter = match filter.strip_prefix("$share/") {
        Some(rest) => rest.split_once('/').map_or("", |(_, filter)| filter),
        None => filter,
    };
    let mut levels = topic.split('/');
    for wanted in filter.split('/') {
        match (wanted, levels.next()) {
            ("#", _) => return true,
            ("+", Some(_)) => {}
            (wanted, Some(level)) if wanted == level => {}
            _ => return false,
        }
    }
    levels.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_take_what_the_standard_says() {
        for (filter, topic, takes) in [
            ("t/#", "t/q1/0", true),
            ("t/+/0", "t/q1/0", true),
            ("t/+/0", "t/q1/1", false),
            ("t/q1", "t/q1/0", false),
            ("$share/g/s/#", "s/q2/1", true),
            ("$share/g/s/#", "g/s/1", false),
        ] {
            assert_eq!(matches(filter, topic), takes, "{filter} {topic}");
        }
    }
}

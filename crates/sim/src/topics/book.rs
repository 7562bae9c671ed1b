//! Messages of the callers of a world of topics: those sent, those promised, and those heard.
//!
//! A message is known by its publisher and number. The promises: what was taken at QoS 1 or 2 is
//! heard by everybody whose subscription matches it; once exactly where both sides say QoS 2; and
//! for the first time in the order in which it was sent, of one topic and QoS, where no log
//! refuses calls.

use model::topic::Qos;
use proto_mqtt::codec::name::matches;
use std::collections::{BTreeMap, BTreeSet};

/// Publisher and number of a message.
pub type MessageName = (u32, u32);

/// Key of one caller's messages from a publisher, on one topic, at one QoS.
type Row = (u32, u32, String, u8);

/// The book of a world.
#[derive(Default)]
pub struct Book {
    /// Logs refuse calls: what was refused is sent again, behind what followed it.
    pub refuses: bool,
    sent: BTreeMap<MessageName, (String, Qos)>,
    taken: BTreeSet<MessageName>,
    refused: u64,
    heard: BTreeMap<(u32, MessageName), u32>,
    newest: BTreeMap<Row, u32>,
}

impl Book {
    /// A caller publishes.
    pub fn sent(&mut self, name: MessageName, topic: String, qos: Qos) {
        self.sent.insert(name, (topic, qos));
    }

    /// Handles the answer to a message.
    pub fn answered(&mut self, name: MessageName, took: bool) {
        let qos = self.sent[&name].1;
        if !took {
            self.refused += 1;
        } else if qos != Qos::AtMostOnce {
            self.taken.insert(name);
        }
    }

    /// A caller heard a message. Those of a shared group may hear it out of order: what one of them
    /// did not take goes to another.
    pub fn heard(&mut self, caller: u32, name: MessageName, shared: bool) {
        let (topic, qos) = self.sent.get(&name).expect("only what was sent is heard").clone();
        let times = self.heard.entry((caller, name)).or_default();
        *times += 1;
        if *times > 1 {
            return;
        }
        let row = (caller, name.0, topic, qos as u8);
        let newest = self.newest.entry(row).or_default();
        assert!(
            *newest < name.1 || shared || self.refuses || qos == Qos::AtMostOnce,
            "caller {caller} heard {name:?} at {qos:?} after {newest}"
        );
        *newest = (*newest).max(name.1);
    }

    /// Messages that were taken.
    pub fn taken(&self) -> usize {
        self.taken.len()
    }

    /// Messages that were refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Deliveries.
    pub fn deliveries(&self) -> u64 {
        self.heard.values().map(|times| u64::from(*times)).sum()
    }

    /// The promises that are not kept (yet), the first few of them.
    pub fn broken(&self, callers: &[(u32, &'static str, Qos)]) -> Vec<String> {
        let mut broken = Vec::new();
        let times =
            |caller: u32, name: MessageName| self.heard.get(&(caller, name)).copied().unwrap_or(0);
        for (&name, (topic, qos)) in &self.sent {
            let mut group = (0, 0);
            for &(caller, filter, granted) in callers {
                let heard = times(caller, name);
                let exact = *qos == Qos::ExactlyOnce && granted == Qos::ExactlyOnce;
                if let Some(filter) = filter.strip_prefix("$share/g/") {
                    group = (group.0 + heard, group.1 + u32::from(matches(filter, topic)));
                    continue;
                }
                let meant = matches(filter, topic);
                let wrong = !meant && heard > 0
                    || meant && heard == 0 && self.taken.contains(&name)
                    || exact && heard > 1;
                if wrong {
                    broken
                        .push(format!("{name:?} {topic} {qos:?}: {caller} heard it {heard} times"));
                }
            }
            if group.1 > 0 && group.0 == 0 && self.taken.contains(&name) {
                broken.push(format!("{name:?} {topic} {qos:?}: nobody of the group heard it"));
            }
        }
        broken.truncate(8);
        broken
    }
}

//! Topic aliases of both directions (MQTT5 3.3.2.3.4): numbers that stand for topic names.
//!
//! Aliases live as long as the connection (MQTT5 3.3.2-7). The client chooses its own; the server
//! gives its aliases to the topics that were sent last.

use crate::codec::PacketFault;
use crate::codec::fanout::Alias;

/// The client's aliases.
#[derive(Default)]
pub(super) struct AliasesIn(Vec<Option<Box<str>>>);

impl AliasesIn {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Has `alias` stand for `topic` from now on.
    pub(super) fn set(&mut self, alias: u16, topic: &str) {
        let at = usize::from(alias) - 1;
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        if self.0[at].as_deref() != Some(topic) {
            self.0[at] = Some(topic.into());
        }
    }

    /// The topic that `alias` stands for.
    pub(super) fn topic(&self, alias: u16) -> Result<&str, PacketFault> {
        let known = self.0.get(usize::from(alias).wrapping_sub(1));
        known.and_then(|topic| topic.as_deref()).ok_or(PacketFault::AliasUnknown)
    }
}

/// Most aliases towards one client: more cost more to look through than they save.
const ALIASES_OUT_MAX: u16 = 64;
/// A name that is not longer than its alias as a property is not given one.
const ALIAS_BYTES: usize = 3;

/// The server's aliases towards a client.
#[derive(Default)]
pub(super) struct AliasesOut {
    most: u16,
    /// Topics with the tick at which they were sent last; the place is the alias, less one.
    topics: Vec<(Box<str>, u32)>,
    tick: u32,
}

impl AliasesOut {
    /// Allows so many aliases, if the server's limit does (MQTT5 3.1.2-26, 3.1.2-27).
    pub(super) fn allow(&mut self, most: u16) {
        self.most = most.min(ALIASES_OUT_MAX);
    }

    /// Whether there may be any.
    pub(super) fn are_used(&self) -> bool {
        self.most > 0
    }

    /// The alias for `topic` in the next packet. [`AliasesOut::sent`] confirms that it went out.
    pub(super) fn look_up(&self, topic: &str) -> Alias {
        if self.most == 0 || topic.len() <= ALIAS_BYTES {
            return Alias::None;
        }
        if let Some(at) = self.topics.iter().position(|(known, _)| **known == *topic) {
            return Alias::Known(at as u16 + 1);
        }
        if self.topics.len() < usize::from(self.most) {
            return Alias::Announced(self.topics.len() as u16 + 1);
        }
        let ages = self.topics.iter().enumerate();
        let oldest = ages.max_by_key(|(_, (_, sent))| self.tick.wrapping_sub(*sent));
        oldest.map_or(Alias::None, |(at, _)| Alias::Announced(at as u16 + 1))
    }

    /// The packet with this alias was sent.
    pub(super) fn sent(&mut self, alias: Alias, topic: &str) {
        self.tick = self.tick.wrapping_add(1);
        match alias {
            Alias::None => {}
            Alias::Known(number) => self.topics[usize::from(number) - 1].1 = self.tick,
            Alias::Announced(number) => {
                let entry = (topic.into(), self.tick);
                match self.topics.get_mut(usize::from(number) - 1) {
                    Some(oldest) => *oldest = entry,
                    None => self.topics.push(entry),
                }
            }
        }
    }
}

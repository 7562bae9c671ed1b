//! The table as its watcher tells, and the node's own value in it.

use super::Driver;
use super::slot::of_tag;
use crate::names::{Key, log_key, node_key, read_key};
use crate::one_node;
use crate::turn::ClusterNotice;
use crate::wire::write_ask;
use base::time::Instant;
use cluster::port::LogEvent;
use cluster::wire::table::{ClusterEntry, LogEntry, NodeEntry};
use nats::{NatsError, TableValue, Tag};
use std::collections::BTreeMap;
use std::time::Duration;
use store::tools::{Means, member};

/// Formats that this build writes.
pub(crate) const LEVEL: u16 = 1;

/// How long another process with this node's number has to answer before this one first proves that
/// it reaches the table. The beats of a slower one reveal it later.
const NAMESAKE: Duration = Duration::from_millis(300);

/// The tag of the node's own value, which is of no log ...
const OWN: u64 = u64::MAX;

/// ... of a value that an operator changes ...
const WANTED: u64 = u64::MAX - 1;

/// ... and of the table's stream.
pub(super) const BUCKET: u64 = u64::MAX - 2;

/// The table as its watcher tells.
#[derive(Default)]
pub(crate) struct Table {
    /// Whether all entries that were there have been reported.
    is_whole: bool,
    cluster: Option<ClusterEntry>,
    pub(super) nodes: BTreeMap<u16, (u64, NodeEntry)>,
    logs: BTreeMap<u16, (u64, Option<LogEntry>)>,
    /// The own value's revision, as the last write told.
    revision: Option<u64>,
    /// The table is of this cluster.
    is_ours: bool,
    is_told_gone: bool,
    pub(super) damages: Damages,
    is_told_member: bool,
}

/// Values of the table that cannot be read, or were removed.
#[derive(Default)]
pub(super) struct Damages(BTreeMap<String, Damage>);

#[derive(Default)]
struct Damage {
    revision: u64,
    /// So often this node wrote it anew.
    tries: u32,
    is_told: bool,
}

/// Attempts to write a value anew after which the damage is reported.
const TRIES: u32 = 10;

/// Damaged values that are remembered: those of all nodes and logs, and some more.
const DAMAGES_MAX: usize = 2_048;

impl Damages {
    /// Notes a damaged value. True: the damage must be reported now. Damage of a value that this
    /// node knows is reported when the node has repaired it, or has failed to.
    fn note(&mut self, key: String, revision: u64, is_known: bool) -> bool {
        if self.0.len() >= DAMAGES_MAX && !self.0.contains_key(&key) {
            return false;
        }
        let damage = self.0.entry(key).or_default();
        damage.revision = revision;
        !is_known && !std::mem::replace(&mut damage.is_told, true)
    }

    /// A value can be read. Whether this node wrote it anew.
    fn mended(&mut self, key: &str) -> bool {
        self.0.remove(key).is_some_and(|damage| damage.tries > 0)
    }

    /// This node writes a value anew. Whether it is now to be told that it is damaged.
    fn tried(&mut self, key: &str) -> bool {
        let Some(damage) = self.0.get_mut(key) else { return false };
        damage.tries = damage.tries.saturating_add(1);
        damage.tries > TRIES && !std::mem::replace(&mut damage.is_told, true)
    }

    fn all(&self) -> Vec<(String, u64)> {
        self.0.iter().map(|(key, damage)| (key.clone(), damage.revision)).collect()
    }

    /// Whether all values can be read.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Table {
    /// Whether it is known, and of this cluster.
    pub(super) fn is_good(&self) -> bool {
        self.is_whole && self.is_ours
    }

    /// The value of a log.
    pub(super) fn log(&self, log: u16) -> Option<&LogEntry> {
        self.logs.get(&log)?.1.as_ref()
    }
}

impl Driver {
    pub(super) fn table_told(&mut self, value: TableValue) {
        let TableValue { key, revision, value } = value;
        match read_key(&key) {
            Some(Key::Cluster) => {
                let entry = value.as_deref().and_then(ClusterEntry::read);
                if entry.is_none() && (value.is_some() || self.table.cluster.is_some()) {
                    return self.damaged(key, revision);
                }
                self.undamaged(&key);
                self.table.cluster = entry;
                self.check_cluster();
            }
            Some(Key::Node(node)) => {
                let mut entry = value.as_deref().and_then(NodeEntry::read);
                if entry.is_none() && value.is_some() {
                    self.damaged(key, revision);
                    // The node is in the table, and writes its own value each 5 seconds.
                    let known = self.table.nodes.remove(&node.number()).map(|(_, entry)| entry);
                    entry = Some(known.unwrap_or_default());
                } else {
                    self.undamaged(&key);
                }
                if let Some(entry) = entry.as_ref().filter(|_| node == self.me.node) {
                    let is_proved = self.proof.is_fresh(self.clock.now());
                    self.namesake.named(self.me.boot, entry.boot, is_proved);
                }
                match entry {
                    Some(entry) => self.table.nodes.insert(node.number(), (revision, entry)),
                    None => self.table.nodes.remove(&node.number()),
                };
            }
            Some(Key::Log(log)) => {
                let mut entry = value.as_deref().and_then(LogEntry::read);
                if entry.is_none() && (value.is_some() || self.table.log(log).is_some()) {
                    entry = self.table.log(log).cloned();
                    self.damaged(key, revision);
                } else {
                    self.undamaged(&key);
                }
                self.table.logs.insert(log, (revision, entry));
                self.show_entry(log);
            }
            None => {}
        }
    }

    /// Handles a value that cannot be read, or that was removed. The node that leads writes the
    /// value that it knows, and reports the repair once it can read it. Other nodes wait.
    fn damaged(&mut self, key: String, revision: u64) {
        let is_known = self.known(&key).is_some();
        if self.table.damages.note(key.clone(), revision, is_known) {
            self.notice(ClusterNotice::TableDamaged { key, is_repaired: false });
        }
        self.repair_table();
    }

    /// A value is read, or was removed by an operator.
    fn undamaged(&mut self, key: &str) {
        if self.table.damages.mended(key) {
            let key = key.to_owned();
            self.notice(ClusterNotice::TableDamaged { key, is_repaired: true });
        }
    }

    /// The bytes of a value that this node may write anew: it leads, and it knows the value.
    fn known(&self, key: &str) -> Option<Vec<u8>> {
        if !self.leads_first() {
            return None;
        }
        match read_key(key)? {
            Key::Cluster => self.table.cluster.map(|entry| entry.write()),
            Key::Log(log) => {
                let entry = self.table.log(log)?;
                (entry.leader == Some(self.me)).then(|| entry.write())
            }
            Key::Node(_) => None,
        }
    }

    /// Writes damaged values anew, again and again until they are read.
    pub(super) fn repair_table(&mut self) {
        if !self.proof.is_fresh(self.clock.now()) {
            return;
        }
        for (key, revision) in self.table.damages.all() {
            let Some(value) = self.known(&key) else { continue };
            if self.table.damages.tried(&key) {
                self.notice(ClusterNotice::TableDamaged { key: key.clone(), is_repaired: false });
            }
            let change = TableValue { key, revision, value: Some(value) };
            self.nats.set_later([WANTED, 0, 0, 0], self.names.bucket(), change);
        }
    }

    pub(super) fn table_whole(&mut self) {
        self.note_connected(true);
        if !std::mem::replace(&mut self.table.is_whole, true) {
            // Whether another process has this node's number: such a one answers, too.
            let (ask, reply) = (write_ask(one_node::FIRST), format!("{}.0.0", self.inbox));
            self.nats.say(self.names.ask(), Some(reply), ask);
            self.proves_from = self.clock.now() + NAMESAKE;
        }
        self.table.is_told_gone = false;
        self.check_cluster();
        // New streams have as many copies as the table.
        self.nats.state_later([BUCKET, 0, 0, 0], format!("KV_{}", self.names.bucket()));
        let now = self.clock.now();
        self.begin_again(now);
    }

    /// Values that are known stay: a leader goes on, and is isolated in time.
    pub(super) fn table_gone(&mut self) {
        if !std::mem::replace(&mut self.table.is_told_gone, true) {
            self.notice(ClusterNotice::WaitsForRecover { log: one_node::FIRST });
        }
    }

    fn check_cluster(&mut self) {
        let logs = self.slots.len() as u16;
        let why = match self.table.cluster {
            None => return,
            Some(entry) if entry.fingerprint != self.fingerprint => {
                format!(
                    "its secret has the fingerprint {:016x}, this node's {:016x}",
                    entry.fingerprint, self.fingerprint
                )
            }
            Some(entry) if entry.logs != logs => {
                format!("it has {} logs, this node's folder {logs}", entry.logs)
            }
            Some(entry) if entry.level > LEVEL => {
                format!("its formats have level {}, this build knows {LEVEL}", entry.level)
            }
            Some(_) => {
                if !std::mem::replace(&mut self.table.is_ours, true) {
                    self.note_name();
                }
                return;
            }
        };
        self.table.is_ours = false;
        if self.table.is_whole {
            self.notice(ClusterNotice::OtherCluster { why });
        }
    }

    /// Remembers the cluster's name beside the data, if none is known: its table has this folder's
    /// secret.
    fn note_name(&self) {
        let (means, name) = (Means::default(), self.names.cluster());
        let noted = match member::cluster_name(&self.data, &means) {
            Ok(None) => member::note_cluster_name(&self.data, Some(name), &means),
            known => known.map(|_| ()),
        };
        if let Err(error) = noted {
            let why = format!("the cluster's name is not remembered beside the data: {error}");
            self.notice(ClusterNotice::Nats(why));
        }
    }

    /// Shows the machine of a log the table's value, if it has another one than it was shown.
    pub(super) fn show_entry(&mut self, log: u16) {
        let (me, leads_first) = (self.me.node, self.leads_first());
        let Some((revision, entry)) = self.table.logs.get(&log) else { return };
        let shown = entry.as_ref().map(|entry| one_node::shown(log, entry, me, leads_first));
        let shown = (*revision, shown);
        let Some(slot) = self.slots.get_mut(usize::from(log)) else { return };
        let is_frozen = slot.replica.is_none() || slot.copying.is_some();
        if is_frozen || slot.shown.as_ref() == Some(&shown) {
            return;
        }
        slot.shown = Some(shown.clone());
        let (revision, entry) = shown;
        self.event(log, LogEvent::Table { revision, entry });
    }

    pub(super) fn show_entries(&mut self) {
        for log in 0..self.slots.len() as u16 {
            self.show_entry(log);
        }
    }

    /// Writes the own value, if it is time: a proof that the node reaches a majority.
    pub(super) fn prove(&mut self, now: Instant) {
        if !self.table.is_good() {
            return;
        }
        let me = self.me.node.number();
        let Some((known, _)) = self.table.nodes.get(&me) else {
            if !std::mem::replace(&mut self.table.is_told_member, true) {
                self.notice(ClusterNotice::NotAMember);
            }
            return;
        };
        let is_there = self.namesake.is_there(now);
        let revision = self.table.revision.unwrap_or(*known).max(*known);
        if std::mem::replace(&mut self.has_namesake, is_there) != is_there {
            self.notice(ClusterNotice::SameNumber(is_there));
        }
        if self.namesake.goes_first(now, self.proof.is_fresh(now)) || now < self.proves_from {
            return;
        }
        let Some(ask) = self.proof.tick(now) else { return };
        let settings = &self.settings;
        let value = NodeEntry {
            boot: self.me.boot,
            level: LEVEL,
            name: settings.node_name.as_str().into(),
            addresses: settings.advertise.iter().map(|it| it.as_str().into()).collect(),
        };
        let (key, value) = (node_key(self.me.node), Some(value.write()));
        let change = TableValue { key, revision, value };
        self.nats.set_later([OWN, 0, ask, 0], self.names.bucket(), change);
    }

    /// The answer to a compare-and-set.
    pub(super) fn was_set(&mut self, tag: Tag, result: &Result<Option<u64>, NatsError>) {
        let ask = tag[2];
        if tag[0] == OWN {
            match result {
                Ok(Some(revision)) => {
                    self.table.revision = Some(*revision);
                    self.proof.proved(ask);
                }
                // Another one: the watcher tells which.
                Ok(None) => self.table.revision = None,
                Err(_) => {}
            }
            return;
        }
        // An answer that did not come leaves the outcome open: the watcher tells.
        let Ok(revision) = *result else { return };
        let (log, life) = of_tag(tag);
        if self.slots.get(usize::from(log)).is_some_and(|slot| slot.life == life) {
            self.event(log, LogEvent::Claimed { ask, revision });
        }
    }

    /// Makes a node the one that log 0 is wanted by.
    pub(super) fn want(&mut self, node: model::id::NodeId) {
        let Some((revision, Some(entry))) = self.table.logs.get(&one_node::FIRST) else { return };
        let entry = LogEntry { wanted: Some(node), ..entry.clone() };
        let (key, value) = (log_key(one_node::FIRST), Some(entry.write()));
        let change = TableValue { key, revision: *revision, value };
        self.nats.set_later([WANTED, 0, 0, 0], self.names.bucket(), change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_value_is_told_of_as_written_anew_once_it_is_read() {
        let mut damages = Damages::default();
        assert!(!damages.note("log.00".into(), 7, true), "this node writes it");
        assert!((0..TRIES).all(|_| !damages.tried("log.00")));
        assert!(damages.tried("log.00"), "in vain");
        assert!(!damages.tried("log.00"), "told once");
        assert!(!damages.note("log.00".into(), 9, false), "told already");
        assert_eq!(damages.all(), [("log.00".to_owned(), 9)], "it is tried again");
        assert!(damages.mended("log.00") && damages.is_empty());
        assert!(!damages.mended("log.00"), "told once");
    }

    #[test]
    fn a_damaged_value_that_this_node_does_not_know_is_told_of_at_once() {
        let mut damages = Damages::default();
        assert!(damages.note("cluster".into(), 7, false));
        assert!(!damages.note("cluster".into(), 8, false), "told once");
        assert!(!damages.mended("cluster"), "another one wrote it");
        assert!(damages.is_empty());
    }
}

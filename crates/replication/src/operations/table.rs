//! The table of a cluster, read by an operation: its values, those that are damaged, and how these
//! are written anew.
//!
//! A repair is a plan like any other. Invariant: a plan that repairs a table leaves every good
//! value as it is.

use super::{
    LEVEL, NO_JETSTREAM, NewNode, OperationError, OperationPlan, Operations, first_node, patiently,
    refuse,
};
use crate::names::{CLUSTER, Key, Names, log_key, read_key};
use cluster::wire::table::{ClusterEntry, FOLLOWERS_MAX, LogEntry, NodeEntry};
use model::id::NodeId;
use nats::{Nats, NatsError, TableValue};
use std::collections::BTreeMap;

/// The table, read, of which all values are good.
pub(super) struct Read {
    pub(super) cluster: ClusterEntry,
    pub(super) nodes: BTreeMap<u16, NodeEntry>,
    pub(super) logs: BTreeMap<u16, (u64, LogEntry)>,
}

/// The table, read.
#[derive(Default)]
pub(super) struct Table {
    pub(super) cluster: Option<ClusterEntry>,
    pub(super) nodes: BTreeMap<u16, NodeEntry>,
    pub(super) logs: BTreeMap<u16, (u64, LogEntry)>,
    /// Keys of values that cannot be read or are missing, with their revisions.
    pub(super) damaged: BTreeMap<String, u64>,
}

impl Table {
    /// Keys of values that are neither there nor damaged: of a table that has others, the
    /// cluster's own; and those of logs.
    fn missing(&self, logs: Option<u16>) -> Vec<String> {
        let is_there = |key: &String| self.damaged.contains_key(key);
        let has_others =
            !self.nodes.is_empty() || !self.logs.is_empty() || !self.damaged.is_empty();
        let own = Some(CLUSTER.to_owned()).filter(|_| self.cluster.is_none() && has_others);
        let logs = self.cluster.map(|it| it.logs).or(logs).filter(|_| has_others).unwrap_or(0);
        let logs = (0..logs).filter(|log| !self.logs.contains_key(log)).map(log_key);
        own.into_iter().chain(logs).filter(|key| !is_there(key)).collect()
    }

    /// Whether a node led, or may have led. If not, `create` began the table and did not finish.
    pub(super) fn was_led(&self) -> bool {
        let is_log = |key: &String| matches!(read_key(key), Some(Key::Log(_)));
        self.logs.values().any(|(_, entry)| entry.epoch > 0) || self.damaged.keys().any(is_log)
    }

    /// The epoch of a log that is written anew: never one that nobody ever led.
    fn epoch(&self) -> u32 {
        self.logs.values().map(|(_, entry)| entry.epoch).max().unwrap_or(0).max(1)
    }

    /// The cluster and the rest, if all of it is good.
    pub(super) fn whole(self, names: &Names) -> Result<Read, OperationError> {
        let Table { cluster, nodes, logs, damaged } = self;
        if !damaged.is_empty() {
            let keys: Vec<String> = damaged.into_keys().collect();
            return refuse(damaged_text(names, &keys));
        }
        match cluster {
            Some(cluster) => Ok(Read { cluster, nodes, logs }),
            None => refuse("the table is empty: `recover`".into()),
        }
    }
}

pub(super) fn damaged_text(names: &Names, keys: &[String]) -> String {
    format!(
        "values of the table {} are damaged or missing: {}. A leader that runs writes them anew by \
         itself; if they stay so, stop the server of one node and run `holdline cluster recover` \
         there",
        names.bucket(),
        keys.join(", ")
    )
}

impl Operations {
    /// Writes the damaged values of the table anew: of the cluster from the folder here, of a log
    /// from its streams and from the other logs, of a node without its addresses, which it adds
    /// when it runs.
    pub(super) fn repair(
        &self,
        there: Table,
        (fingerprint, logs): (u64, u16),
        node: &NewNode,
    ) -> Result<OperationPlan, OperationError> {
        if there.damaged.is_empty() {
            return refuse("the table is there and whole: nothing is to be recovered".into());
        }
        if let Some(found) = there.cluster.filter(|it| it.fingerprint != fingerprint) {
            return refuse(format!(
                "another cluster has this name: {:016x}, this folder's is {fingerprint:016x}",
                found.fingerprint
            ));
        }
        let mut plan = self.plan(node.node.unwrap_or(first_node()), logs);
        let mut copies: Vec<NodeId> =
            there.logs.values().flat_map(|(_, entry)| entry.copies().collect::<Vec<_>>()).collect();
        if copies.is_empty() {
            let damaged = there.damaged.keys().filter_map(|key| match read_key(key) {
                Some(Key::Node(number)) => Some(number),
                _ => None,
            });
            let known = there.nodes.keys().filter_map(|number| NodeId::new(*number));
            copies = known.chain(damaged).chain(node.node).collect();
        }
        copies.sort_unstable();
        copies.dedup();
        copies.truncate(FOLLOWERS_MAX);
        let streams = self.streams()?;
        for (key, revision) in &there.damaged {
            let (told, value) = match read_key(key) {
                Some(Key::Cluster) => {
                    let entry = ClusterEntry { fingerprint, logs, level: LEVEL };
                    (format!("this folder's secret, {logs} logs"), entry.write())
                }
                Some(Key::Node(number)) => {
                    let own = node.node == Some(number);
                    let (name, advertise) = match own {
                        true => (node.name.clone(), node.advertise.clone()),
                        false => (format!("node-{}", number.number()), Vec::new()),
                    };
                    let told = format!("node {}, named {name} until it runs", number.number());
                    let entry = NewNode { node: Some(number), name, advertise };
                    (told, OperationPlan::node_entry(&entry))
                }
                Some(Key::Log(log)) => {
                    let generation = self.generation_of(&streams, log).unwrap_or(1);
                    let (epoch, followers) = (there.epoch(), copies.clone());
                    let entry = LogEntry { generation, epoch, followers, ..LogEntry::default() };
                    let nodes: Vec<String> =
                        copies.iter().map(|node| node.number().to_string()).collect();
                    let told =
                        format!("generation {generation}, copies at nodes {}", nodes.join(", "));
                    (told, entry.write())
                }
                None => continue,
            };
            plan.line(format!("write the value {key} of the table anew: {told}"));
            plan.set(key.clone(), *revision, value);
        }
        Ok(plan)
    }
}

/// Reads the table of a cluster with this number of logs; `None`: the number in the table.
pub(super) fn read_table(
    nats: &Nats,
    names: &Names,
    logs: Option<u16>,
) -> Result<Table, OperationError> {
    let values = patiently(|| nats.all(&names.bucket())).map_err(|error| match error {
        NatsError::Gone => {
            OperationError::Refused(format!("no cluster {:?}: `create` first", names.cluster()))
        }
        // Without JetStream nobody answers either.
        NatsError::Silent if nats.facts(&[]).is_ok_and(|facts| !facts.has_jetstream) => {
            OperationError::Refused(NO_JETSTREAM.into())
        }
        other => OperationError::Nats(other),
    })?;
    let mut table = Table::default();
    for TableValue { key, revision, value } in values {
        let Some(value) = value else { continue };
        let is_good = match read_key(&key) {
            Some(Key::Cluster) => {
                table.cluster = ClusterEntry::read(&value);
                table.cluster.is_some()
            }
            Some(Key::Node(node)) => {
                let entry = NodeEntry::read(&value);
                let is_good = entry.is_some();
                table.nodes.extend(entry.map(|it| (node.number(), it)));
                is_good
            }
            Some(Key::Log(log)) => {
                let entry = LogEntry::read(&value);
                let is_good = entry.is_some();
                table.logs.extend(entry.map(|it| (log, (revision, it))));
                is_good
            }
            None => true,
        };
        if !is_good {
            table.damaged.insert(key, revision);
        }
    }
    for key in table.missing(logs) {
        let revision = revision(nats, names, &key)?;
        table.damaged.insert(key, revision);
    }
    Ok(table)
}

/// The revision of a value, also of one that was removed; 0 if it never was there.
pub(super) fn revision(nats: &Nats, names: &Names, key: &str) -> Result<u64, NatsError> {
    match patiently(|| nats.get(&names.bucket(), key)) {
        Ok(there) => Ok(there.revision),
        Err(NatsError::Gone) => Ok(0),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::node_key;

    fn table(epochs: &[u32]) -> Table {
        let entry = |epoch| LogEntry { generation: 1, epoch, ..LogEntry::default() };
        let logs = (0..).zip(epochs).map(|(log, epoch)| (log, (1, entry(*epoch)))).collect();
        Table { logs, ..Table::default() }
    }

    #[test]
    fn a_value_that_was_removed_is_missing_while_others_are_there() {
        let mut there = table(&[3, 4]);
        assert_eq!(there.missing(None), [CLUSTER.to_owned()]);
        assert_eq!(there.missing(Some(3)), [CLUSTER.to_owned(), log_key(2)]);
        there.cluster = Some(ClusterEntry { fingerprint: 1, logs: 4, level: LEVEL });
        assert_eq!(there.missing(None), [log_key(2), log_key(3)]);
        there.damaged.insert(log_key(3), 7);
        assert_eq!(there.missing(None), [log_key(2)]);
        assert!(Table::default().missing(Some(2)).is_empty(), "an empty table lacks nothing");
        let mut damaged = Table::default();
        damaged.damaged.insert(node_key(first_node()), 1);
        assert_eq!(damaged.missing(None), [CLUSTER.to_owned()]);
    }

    #[test]
    fn a_table_was_led_if_a_log_had_a_claim_or_is_damaged() {
        assert!(!table(&[0, 0]).was_led() && table(&[0, 1]).was_led());
        let mut damaged = table(&[0]);
        damaged.damaged.insert(log_key(1), 2);
        assert!(damaged.was_led(), "a damaged value may have named a leader");
    }

    #[test]
    fn a_log_that_is_written_anew_is_not_one_that_nobody_ever_led() {
        assert_eq!((table(&[]).epoch(), table(&[0]).epoch(), table(&[7, 3]).epoch()), (1, 1, 7));
    }
}

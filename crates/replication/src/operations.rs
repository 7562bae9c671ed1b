//! The operations of `holdline cluster`, from outside: each first says what it will do.
//!
//! ```text
//! let plan = Operations::connect(&settings, name)?.create(..)?;   nothing is changed yet
//! plan.lines()                                                    shown, asked
//! plan.carry_out()?
//! ```
//! Every step is a compare-and-set against what was read, or makes something that was not there.
//! Invariant: an operation that fails halfway is said again, and goes on.

mod table;

use crate::driver::LEVEL;
use crate::names::{CLUSTER, Names, log_key, node_key};
use crate::status::NodeStatus;
use cluster::wire::beat::{Beat, LOGS_MAX};
use cluster::wire::table::{ClusterEntry, FOLLOWERS_MAX, LogEntry, NodeEntry};
use model::id::NodeId;
use nats::{Nats, NatsError, NatsEvent, NatsFacts, NatsSettings, NatsSync, StreamSpec, TableValue};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use table::{Read, Table, damaged_text, read_table, revision};

/// Copies that NATS has of a stream, where it has servers enough.
const REPLICAS: u16 = 3;

const NO_JETSTREAM: &str = "this NATS has no JetStream, or this account may not use it: add a \
                            jetstream block to the configuration of each NATS server";

/// A question that is not answered is asked again so often.
const TRIES: u32 = 10;
const BETWEEN: Duration = Duration::from_millis(300);

/// Why an operation is refused.
#[derive(Debug)]
pub enum OperationError {
    /// NATS.
    Nats(NatsError),
    /// The state of the cluster or the folder does not allow it.
    Refused(String),
}

/// How long a command waits for beats: a node sends three in this time.
const BEATS: Duration = Duration::from_secs(3);
const BEATS_LOOK: Duration = Duration::from_millis(50);

/// Beats that are kept until they are looked at.
const BEATS_MAX: usize = 4_096;

/// Beats that came, as bytes.
type Beats = Arc<Mutex<Vec<Vec<u8>>>>;

/// A connection for operations.
pub struct Operations {
    nats: Arc<Nats>,
    names: Names,
    beats: Beats,
}

/// Plan of an operation.
pub struct OperationPlan {
    nats: Arc<Nats>,
    names: Names,
    lines: Vec<String>,
    steps: Vec<Step>,
    node: NodeId,
    logs: u16,
    is_away: bool,
}

enum Step {
    Bucket { replicas: u16 },
    Stream(StreamSpec),
    Set(TableValue),
}

/// A node that is to be added.
#[derive(Clone, Debug)]
pub struct NewNode {
    /// Its number; none: the next that is free.
    pub node: Option<NodeId>,
    /// Its name.
    pub name: String,
    /// Where clients reach it.
    pub advertise: Vec<String>,
}

/// Description of a cluster.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The fingerprint of its secret.
    pub fingerprint: u64,
    /// Its logs.
    pub logs: u16,
    /// Its nodes. One whose beat was not heard is away.
    pub nodes: Vec<NodeStatus>,
    /// The table's values of its logs.
    pub table: Vec<(u16, LogEntry)>,
    /// Keys of the table whose values cannot be read, or are missing.
    pub damaged: Vec<String>,
}

impl Operations {
    /// Connects to the NATS of the cluster of this name.
    pub fn connect(settings: &NatsSettings, name: &str) -> Result<Operations, OperationError> {
        let names = Names::of(name).map_err(OperationError::Refused)?;
        let beats = Beats::default();
        let heard = Arc::clone(&beats);
        let events = Arc::new(move |event| {
            if let NatsEvent::Heard { payload, .. } = event {
                let mut beats = heard.lock().unwrap_or_else(PoisonError::into_inner);
                if beats.len() < BEATS_MAX {
                    beats.push(payload);
                }
            }
        });
        let nats = Nats::connect(settings, "holdline-operator", false, events)?;
        Ok(Operations { nats: Arc::new(nats), names, beats })
    }

    /// Nodes of the cluster of this secret that beat within [`BEATS`]; it waits no longer than for
    /// these.
    fn heard(&self, fingerprint: u64, nodes: &[u16]) -> Result<BTreeSet<u16>, OperationError> {
        self.nats.listen(self.names.beats())?;
        let mut heard = BTreeSet::new();
        for _ in 0..BEATS.as_millis() / BEATS_LOOK.as_millis() {
            let beats =
                std::mem::take(&mut *self.beats.lock().unwrap_or_else(PoisonError::into_inner));
            let beats = beats.iter().filter_map(|bytes| Beat::read(fingerprint, bytes));
            heard.extend(beats.map(|beat| beat.by.node.number()));
            if nodes.iter().all(|node| heard.contains(node)) {
                break;
            }
            std::thread::sleep(BEATS_LOOK);
        }
        Ok(heard)
    }

    /// Facts about NATS and the cluster's table and streams, for `holdline doctor`.
    pub fn facts(&self) -> Result<NatsFacts, OperationError> {
        let mut streams = self.streams()?;
        streams.push(format!("KV_{}", self.names.bucket()));
        Ok(self.nats.facts(&streams)?)
    }

    fn streams(&self) -> Result<Vec<String>, NatsError> {
        self.nats.stream_names(&format!("hl.{}.log.>", self.names.cluster()))
    }

    /// A new cluster of so many logs with this node, whose folder has what becomes their content.
    pub fn create(
        &self,
        fingerprint: u64,
        logs: u16,
        node: NewNode,
    ) -> Result<OperationPlan, OperationError> {
        let number = node.node.unwrap_or(first_node());
        check_size(logs, &node)?;
        let facts = self.nats.facts(&[])?;
        let replicas = replicas_of(&facts)?;
        let there = self.table_if_made(None)?.unwrap_or_default();
        // Without the cluster's value it was not made to its end, unless somebody led.
        if there.cluster.is_none() && there.was_led() {
            return refuse(damaged_text(&self.names, &[CLUSTER.to_owned()]));
        }
        if let Some(there) = there.cluster {
            let found = there.fingerprint;
            return refuse(match found == fingerprint {
                true => "this cluster exists already; `join` adds a node".to_owned(),
                false => format!("another cluster has this name: {found:016x}"),
            });
        }
        // A table without the cluster's value: it was not made to its end.
        let is_begun = self.nats.state(&format!("KV_{}", self.names.bucket())).is_ok();
        if let Some(left) = self.streams()?.first().filter(|_| !is_begun) {
            return refuse(format!(
                "the stream {left} of an earlier cluster is there: `recover` goes on with it; or \
                 choose another name, or remove it with the tools of NATS"
            ));
        }
        let mut plan = self.plan(number, logs);
        plan.warn(&facts);
        plan.line(format!("make the table {} ({replicas} copies)", self.names.bucket()));
        plan.line(format!(
            "make {logs} streams, {} to {} ({replicas} copies, 1 GiB at most each)",
            self.names.stream(0, 1),
            self.names.stream(logs - 1, 1)
        ));
        plan.line(format!("node {} ({}) leads, with its folder", number.number(), node.name));
        plan.steps.push(Step::Bucket { replicas });
        for log in 0..logs {
            plan.steps.push(Step::Stream(self.names.spec(log, 1, replicas)));
        }
        plan.begin(fingerprint, &node, |_| 1)?;
        Ok(plan)
    }

    /// A further node. [`OperationPlan::node`] is its number, [`OperationPlan::logs`] how many logs
    /// its folder must have.
    pub fn join(&self, fingerprint: u64, node: NewNode) -> Result<OperationPlan, OperationError> {
        let there = self.read()?;
        let ClusterEntry { fingerprint: found, logs, level } = there.cluster;
        check_size(logs, &node)?;
        if found != fingerprint {
            return refuse(format!(
                "the cluster's secret has the fingerprint {found:016x}, this folder's \
                 {fingerprint:016x}: a node begins with the cluster's secret"
            ));
        }
        if level > LEVEL {
            return refuse(format!("its formats have level {level}, this build knows {LEVEL}"));
        }
        let free = || (1..=1023).find(|number| !there.nodes.contains_key(number));
        let number = node.node.or_else(|| free().and_then(NodeId::new));
        let Some(number) = number else { return refuse("no number is free".into()) };
        let known = there.nodes.get(&number.number());
        if known.is_some_and(|known| *known.name != *node.name) {
            return refuse(format!("another node has the number {}", number.number()));
        }
        let mut plan = self.plan(number, logs);
        if known.is_none() {
            plan.line(format!("add node {} ({}) to the table", number.number(), node.name));
            plan.put(node_key(number), OperationPlan::node_entry(&node))?;
        }
        plan.line(format!("let it follow {logs} logs, after the followers that are there"));
        for (log, (revision, entry)) in &there.logs {
            if entry.copies().any(|copy| copy == number) {
                continue;
            }
            let mut entry = entry.clone();
            entry.followers.push(number);
            if entry.followers.len() > FOLLOWERS_MAX {
                return refuse(format!("a log has {FOLLOWERS_MAX} followers at most"));
            }
            plan.set(log_key(*log), *revision, entry.write());
        }
        Ok(plan)
    }

    /// Content of the table.
    pub fn list(&self) -> Result<Listed, OperationError> {
        let there = read_table(&self.nats, &self.names, None)?;
        let damaged: Vec<String> = there.damaged.into_keys().collect();
        let Some(cluster) = there.cluster else {
            return refuse(match damaged.is_empty() {
                true => "the table is empty: `recover`".into(),
                false => damaged_text(&self.names, &damaged),
            });
        };
        let numbers: Vec<u16> = there.nodes.keys().copied().collect();
        let heard = self.heard(cluster.fingerprint, &numbers)?;
        let node = |(number, entry): (u16, NodeEntry)| {
            Some(NodeStatus {
                node: NodeId::new(number)?,
                name: entry.name.into(),
                boot: entry.boot,
                addresses: entry.addresses.into_iter().map(String::from).collect(),
                beat_age: heard.contains(&number).then_some(Duration::ZERO),
                unreachable: Vec::new(),
            })
        };
        Ok(Listed {
            fingerprint: cluster.fingerprint,
            logs: cluster.logs,
            nodes: there.nodes.into_iter().filter_map(node).collect(),
            table: there.logs.into_iter().map(|(log, (_, entry))| (log, entry)).collect(),
            damaged,
        })
    }

    /// Removes a node: refused while it leads, or while a log has no other copy.
    pub fn remove(&self, node: NodeId) -> Result<OperationPlan, OperationError> {
        let there = self.read()?;
        if !there.nodes.contains_key(&node.number()) {
            return refuse(format!("node {} is not in the cluster", node.number()));
        }
        let mut plan = self.plan(node, there.cluster.logs);
        plan.line(format!("take node {} out of the table: it follows no more", node.number()));
        for (log, (revision, entry)) in &there.logs {
            if entry.leader.is_some_and(|leader| leader.node == node) {
                return refuse(format!(
                    "node {} leads log {log}: `promote` another one first",
                    node.number()
                ));
            }
            if !entry.copies().any(|copy| copy != node) {
                return refuse(format!("log {log} has no other copy"));
            }
            let mut entry = entry.clone();
            entry.followers.retain(|follower| *follower != node);
            entry.wanted = entry.wanted.filter(|wanted| *wanted != node);
            plan.set(log_key(*log), *revision, entry.write());
        }
        let key = node_key(node);
        let revision = self.nats.get(&self.names.bucket(), &key)?.revision;
        plan.steps.push(Step::Set(TableValue { key, revision, value: None }));
        Ok(plan)
    }

    /// Moves the lead to a node. A node that is away takes over when it is back:
    /// [`OperationPlan::is_away`].
    pub fn promote(&self, node: NodeId) -> Result<OperationPlan, OperationError> {
        let there = self.read()?;
        let number = node.number();
        let Some((revision, entry)) = there.logs.get(&0) else {
            return refuse("the table lacks log 0: `recover`".into());
        };
        if entry.leader.is_some_and(|leader| leader.node == node) {
            return refuse(format!("node {number} leads already"));
        }
        if !entry.copies().any(|copy| copy == node) {
            return refuse(format!("node {number} has no copy of the logs: `join` first"));
        }
        let mut plan = self.plan(node, there.cluster.logs);
        plan.line(format!(
            "move all logs to node {number}: the leader leaves when that node is near, and clients \
             connect anew"
        ));
        plan.is_away = !self.heard(there.cluster.fingerprint, &[number])?.contains(&number);
        if plan.is_away {
            plan.line(format!(
                "WARNING: node {number} is away: the leader goes on until that node is back and \
                 near"
            ));
        }
        let entry = LogEntry { wanted: Some(node), ..entry.clone() };
        plan.set(log_key(0), *revision, entry.write());
        Ok(plan)
    }

    /// Makes the table anew after NATS lost it, and the streams that are missing, from the folder
    /// of this node. Other nodes join again.
    pub fn recover(
        &self,
        fingerprint: u64,
        logs: u16,
        node: NewNode,
    ) -> Result<OperationPlan, OperationError> {
        check_size(logs, &node)?;
        let facts = self.nats.facts(&[])?;
        let replicas = replicas_of(&facts)?;
        if let Some(there) = self.table_if_made(Some(logs))?
            && (there.cluster.is_some() || there.damaged.contains_key(CLUSTER))
        {
            return self.repair(there, (fingerprint, logs), &node);
        }
        let number = node.node.unwrap_or(first_node());
        let mut plan = self.plan(number, logs);
        plan.warn(&facts);
        plan.line(format!("make the table {} anew ({replicas} copies)", self.names.bucket()));
        plan.steps.push(Step::Bucket { replicas });
        let streams = self.streams()?;
        let mut generations = BTreeMap::new();
        for log in 0..logs {
            let generation = self.generation_of(&streams, log);
            match generation {
                Some(generation) => plan
                    .line(format!("go on with the stream {}", self.names.stream(log, generation))),
                None => {
                    plan.line(format!("make the stream {}", self.names.stream(log, 1)));
                    plan.steps.push(Step::Stream(self.names.spec(log, 1, replicas)));
                }
            }
            generations.insert(log, generation.unwrap_or(1));
        }
        plan.line(format!(
            "node {} leads with its folder; what other nodes have beyond it is lost when they join \
             again, and they say so",
            number.number()
        ));
        plan.begin(fingerprint, &node, |log| generations[&log])?;
        Ok(plan)
    }

    /// The generation of the newest stream of a log.
    fn generation_of(&self, streams: &[String], log: u16) -> Option<u32> {
        let prefix = format!("HL-{}-LOG-{log:02}-", self.names.cluster());
        let of = |name: &String| name.strip_prefix(&prefix)?.parse::<u32>().ok();
        streams.iter().filter_map(of).max()
    }

    fn read(&self) -> Result<Read, OperationError> {
        read_table(&self.nats, &self.names, None)?.whole(&self.names)
    }

    /// Reads the table of a cluster with this number of logs. `Ok(None)`: there is no table.
    fn table_if_made(&self, logs: Option<u16>) -> Result<Option<Table>, OperationError> {
        match read_table(&self.nats, &self.names, logs) {
            Ok(there) => Ok(Some(there)),
            Err(OperationError::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn plan(&self, node: NodeId, logs: u16) -> OperationPlan {
        OperationPlan {
            nats: Arc::clone(&self.nats),
            names: self.names.clone(),
            lines: Vec::new(),
            steps: Vec::new(),
            node,
            logs,
            is_away: false,
        }
    }
}

impl OperationPlan {
    /// The steps, a line each.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// The node's number.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// How many logs the cluster has.
    pub fn logs(&self) -> u16 {
        self.logs
    }

    /// Whether the node was not heard, so that the change waits until it is back.
    pub fn is_away(&self) -> bool {
        self.is_away
    }

    /// Carries out the plan.
    pub fn carry_out(self) -> Result<(), OperationError> {
        let OperationPlan { nats, names, steps, .. } = self;
        for step in steps {
            match step {
                Step::Bucket { replicas } => {
                    patiently(|| nats.create_table(&names.bucket(), replicas))?;
                }
                Step::Stream(spec) => patiently(|| nats.create(&spec))?,
                Step::Set(change) => {
                    if !patiently(|| set(&nats, &names, &change))? {
                        return refuse(format!(
                            "{} was changed meanwhile: say it again",
                            change.key
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    fn line(&mut self, line: String) {
        self.lines.push(line);
    }

    fn warn(&mut self, facts: &NatsFacts) {
        if facts.cluster.is_none() {
            self.line(
                "WARNING: one NATS server: what is acknowledged is on one disk of NATS".into(),
            );
        }
        match facts.sync {
            NatsSync::Always => {}
            NatsSync::Seconds(seconds) => self.line(format!(
                "WARNING: NATS puts on its disks what it acknowledged {seconds} seconds later: a \
                 power cut of all its servers may lose it; set `sync_interval: always`"
            )),
            NatsSync::Unknown => self.line(
                "NATS does not tell whether `sync_interval: always` is set: without it a power \
                 cut of all its servers may lose what was acknowledged"
                    .into(),
            ),
        }
    }

    fn set(&mut self, key: String, revision: u64, value: Vec<u8>) {
        self.steps.push(Step::Set(TableValue { key, revision, value: Some(value) }));
    }

    fn node_entry(node: &NewNode) -> Vec<u8> {
        let addresses = node.advertise.iter().map(|it| it.as_str().into()).collect();
        let name = node.name.as_str().into();
        NodeEntry { boot: 0, level: LEVEL, name, addresses }.write()
    }

    /// A value that is not there, or was removed, or is left of an operation that failed.
    fn put(&mut self, key: String, value: Vec<u8>) -> Result<(), OperationError> {
        let revision = revision(&self.nats, &self.names, &key)?;
        self.set(key, revision, value);
        Ok(())
    }

    /// A table with one node. The cluster's own value comes last: before it nothing counts.
    fn begin(
        &mut self,
        fingerprint: u64,
        node: &NewNode,
        generation: impl Fn(u16) -> u32,
    ) -> Result<(), OperationError> {
        self.put(node_key(self.node), OperationPlan::node_entry(node))?;
        for log in 0..self.logs {
            let (generation, followers) = (generation(log), vec![self.node]);
            let entry = LogEntry { generation, followers, ..LogEntry::default() };
            self.put(log_key(log), entry.write())?;
        }
        let entry = ClusterEntry { fingerprint, logs: self.logs, level: LEVEL };
        self.put(CLUSTER.to_owned(), entry.write())
    }
}

/// Changes a value; false: somebody else did. Where the answer to an attempt before was lost, the
/// value is there.
fn set(nats: &Nats, names: &Names, change: &TableValue) -> Result<bool, NatsError> {
    if nats.set(&names.bucket(), change)?.is_some() {
        return Ok(true);
    }
    Ok(nats.get(&names.bucket(), &change.key)?.value == change.value)
}

/// Asks again while NATS is silent: a stream that was just made has no leader for a moment.
fn patiently<T>(ask: impl Fn() -> Result<T, NatsError>) -> Result<T, NatsError> {
    for _ in 0..TRIES {
        match ask() {
            Err(NatsError::Silent) => std::thread::sleep(BETWEEN),
            answer => return answer,
        }
    }
    ask()
}

fn replicas_of(facts: &NatsFacts) -> Result<u16, OperationError> {
    if !facts.has_jetstream {
        return refuse(NO_JETSTREAM.into());
    }
    Ok(if facts.cluster.is_some() { REPLICAS } else { 1 })
}

fn check_size(logs: u16, node: &NewNode) -> Result<(), OperationError> {
    if logs == 0 || usize::from(logs) > LOGS_MAX {
        return refuse(format!("a cluster has 1 to {LOGS_MAX} logs, this folder {logs}"));
    }
    if node.node == Some(NodeId::ALONE) {
        return refuse("a node's number is 1 to 1023".into());
    }
    Ok(())
}

fn first_node() -> NodeId {
    NodeId::new(1).expect("1 is a node")
}

fn refuse<T>(why: String) -> Result<T, OperationError> {
    Err(OperationError::Refused(why))
}

impl From<NatsError> for OperationError {
    fn from(error: NatsError) -> OperationError {
        OperationError::Nats(error)
    }
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OperationError::Nats(error) => write!(f, "NATS: {error}"),
            OperationError::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for OperationError {}

//! An operator's changes of a cluster, from a node that need not run: create it, join it, list it,
//! move the lead, remove a node, and make its table anew.
//!
//! Each change is planned first and described in lines; nothing changes before the plan is carried
//! out. The data folder is changed before NATS, and has the node's number then: what is left half
//! done is done by the same command again. It prints nothing. Invariant: a data folder with data
//! never gets another secret, and never another number of logs.

use crate::config::Config;
use crate::start::cluster::joined::{nats_settings, node_name};
use crate::start::cluster::seat::{self, advertised};
use crate::start::shard_count;
use base::secret::ClusterSecret;
use model::id::NodeId;
use nats::{NatsError, NatsSync, StreamState};
use replication::NodeStatus;
use replication::operations::{Listed, NewNode, OperationPlan, Operations};
use std::path::Path;
use store::OpenError;
use store::data::lost::{self, Lost};
use store::data::{CLUSTER_SECRET, Secrets};
use store::files::Disk;
use store::tools::member::{self, HeldFolder, Member};
use store::tools::{self, Means};

/// Most logs of a cluster.
pub const LOGS_MAX: u16 = replication::LOGS_MAX as u16;

/// Plan of a change, to be carried out once it is agreed to.
pub struct ClusterPlan {
    lines: Vec<String>,
    /// Change of the cluster; `None`: none.
    remote: Option<OperationPlan>,
    local: Local,
    /// The name of the cluster that the folder is to belong to; none: of no cluster.
    name: Option<String>,
}

/// Change of the data folder.
enum Local {
    Nothing,
    /// The folder stays as it is, and no server may use it meanwhile.
    Hold,
    /// The folder becomes this node's.
    Take(NodeId),
    /// The folder is created, with so many logs.
    Make(Box<Secrets>, NodeId, u16),
}

impl ClusterPlan {
    /// The steps, a line each.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Whether the change waits for a node that is away.
    pub fn is_away(&self) -> bool {
        self.remote.as_ref().is_some_and(OperationPlan::is_away)
    }

    /// Carries out the plan with this data folder.
    pub fn carry_out(self, data: &Path) -> Result<(), String> {
        let means = Means::default();
        let note = |name: Option<&str>| {
            let noted = member::note_cluster_name(data, name, &means);
            noted.map_err(|error| error.to_string())
        };
        let changes_folder = !matches!(self.local, Local::Nothing);
        if self.name.is_none() && changes_folder {
            let _held = unused(data)?;
            note(None)?; // a folder that is alone again has no name, whenever this ends
        }
        let done = match self.local {
            Local::Nothing | Local::Hold => Ok(()),
            Local::Take(node) => member::set_node(data, node, &means),
            Local::Make(secrets, node, logs) => member::make(data, *secrets, (node, logs), &means),
        };
        done.map_err(|error| error.to_string())?;
        let _held = changes_folder.then(|| unused(data)).transpose()?;
        let done = self.remote.map_or(Ok(()), OperationPlan::carry_out);
        done.map_err(|error| error.to_string())?;
        // Only a cluster of this secret took it: a wrong name is not remembered.
        match self.name.filter(|_| changes_folder) {
            Some(name) => note(Some(&name)),
            None => Ok(()),
        }
    }
}

/// The folder, held while no server uses it. A command beside a live server would change the
/// cluster under it.
fn unused(data: &Path) -> Result<HeldFolder, String> {
    member::hold(data, &Means::default()).map_err(|error| match error {
        OpenError::Locked { pid, .. } => {
            let by = pid.map_or(String::new(), |pid| format!(" (process {pid})"));
            format!(
                "{} is used by a server{by}: stop it first (systemctl stop holdline), and run this \
                 command again",
                data.display()
            )
        }
        other => other.to_string(),
    })
}

/// Refuses a folder of a cluster of another name. One of a server that is alone is of none.
fn check_name(config: &Config) -> Result<(), String> {
    let (data, name) = (&config.server.data, &config.cluster.name);
    if found(data)?.is_some_and(|found| found.node == NodeId::ALONE) {
        return Ok(());
    }
    let known = member::cluster_name(data, &Means::default()).map_err(|it| it.to_string())?;
    match known.filter(|known| known != name) {
        Some(known) => Err(other_name(data, &known, name)),
        None => Ok(()),
    }
}

/// Why a folder of one cluster is not served in another one.
pub(super) fn other_name(data: &Path, known: &str, name: &str) -> String {
    format!(
        "{} belongs to the cluster {known:?}, but [cluster] name is {name:?}: under two names the \
         same data would have two leaders. Set name = {known:?}; or, to give that cluster up, run \
         `holdline cluster remove N --alone` with the number of this node first",
        data.display()
    )
}

/// A new cluster, whose first node this is. Without a number of logs it has those of the data
/// folder, or one a core.
pub fn create(
    config: &Config,
    logs: Option<u16>,
    secret: Option<ClusterSecret>,
) -> Result<ClusterPlan, String> {
    let data = &config.server.data;
    let found = found(data)?;
    let logs = match (found, logs) {
        (Some(found), Some(logs)) if found.logs != logs => {
            return Err(format!(
                "{} has {} logs, which are the logs of the cluster: leave out --logs, or start the \
                 server once alone with [server] shards = {logs}",
                data.display(),
                found.logs
            ));
        }
        (Some(found), _) => found.logs,
        (None, Some(logs)) => logs,
        (None, None) => shard_count(config.server.shards) as u16,
    };
    if found.is_some() {
        check_name(config)?;
        unused(data)?;
    }
    let (secrets, fingerprint) = secrets(data, found, secret)?;
    let again = found.filter(|found| found.node != NodeId::ALONE).map(|found| found.node);
    let remote = operations(config)?.create(fingerprint, logs, new_node(config, again));
    planned(config, found, remote, secrets)
}

/// This node joins a cluster. `secret` is that of the cluster, unless the data folder has it.
pub fn join(
    config: &Config,
    secret: Option<ClusterSecret>,
    node: Option<NodeId>,
) -> Result<ClusterPlan, String> {
    let data = &config.server.data;
    let found = found(data)?;
    if found.is_some_and(|found| found.node == NodeId::ALONE) {
        return Err(format!(
            "{} has the data of a server that is alone, which would not be in the cluster: name a \
             new folder, or move it away",
            data.display()
        ));
    }
    if found.is_none() && secret.is_none() && !data.join(CLUSTER_SECRET).exists() {
        return Err(
            "the secret of the cluster is missing: run `holdline store secret --reveal` at \
                    a node of it, and give the file with --secret"
                .into(),
        );
    }
    check_name(config)?;
    let (secrets, fingerprint) = secrets(data, found, secret)?;
    let own = found.map(|found| found.node).or(node);
    let remote = operations(config)?.join(fingerprint, new_node(config, own));
    planned(config, found, remote, secrets)
}

/// This node joins its cluster, or creates it, whichever is to be done; nothing, if the data folder
/// belongs to a node already.
pub fn join_or_create(
    config: &Config,
    secret: Option<ClusterSecret>,
) -> Result<Option<ClusterPlan>, String> {
    if found(&config.server.data)?.is_some_and(|found| found.node != NodeId::ALONE) {
        return Ok(None);
    }
    // Of two nodes that begin at one time the table takes one; the other joins.
    match create(config, None, secret) {
        Ok(plan) => Ok(Some(plan)),
        Err(refused) => match join(config, secret, None) {
            Ok(plan) => Ok(Some(plan)),
            Err(why) => Err(format!("{refused}\n{why}")),
        },
    }
}

/// The cluster as its table has it.
pub fn list(config: &Config) -> Result<Listed, String> {
    operations(config)?.list().map_err(|error| error.to_string())
}

/// Another node is to lead.
pub fn promote(config: &Config, node: NodeId) -> Result<ClusterPlan, String> {
    only_remote(operations(config)?.promote(node))
}

/// A node is a part of the cluster no longer.
pub fn remove(config: &Config, node: NodeId) -> Result<ClusterPlan, String> {
    only_remote(operations(config)?.remove(node))
}

/// The data folder here, of this node, becomes that of a server that is alone. The cluster is not
/// asked: it may be gone.
pub fn leave(config: &Config, node: NodeId) -> Result<ClusterPlan, String> {
    let (data, number) = (&config.server.data, node.number());
    if found(data)?.is_none_or(|found| found.node != node) {
        return Err(format!("{} is not of node {number}", data.display()));
    }
    unused(data)?;
    let lines = vec![format!(
        "{}: becomes the data folder of a server that is alone. A cluster that goes on keeps node \
         {number} in its table: run `holdline cluster remove {number}` at another node of it",
        data.display()
    )];
    Ok(ClusterPlan { lines, remote: None, local: Local::Take(NodeId::ALONE), name: None })
}

/// The table and the streams are made anew from this node's data folder, after NATS lost them.
pub fn recover(config: &Config) -> Result<ClusterPlan, String> {
    let data = &config.server.data;
    let Some(found) = found(data)?.filter(|found| found.node != NodeId::ALONE) else {
        return Err(format!("{} belongs to no cluster", data.display()));
    };
    check_name(config)?;
    unused(data)?;
    let Member { node, logs, fingerprint } = found;
    let remote = operations(config)?.recover(fingerprint, logs, new_node(config, Some(node)));
    let name = Some(config.cluster.name.clone());
    Ok(ClusterPlan { local: Local::Hold, name, ..only_remote(remote)? })
}

/// Acknowledged records that logs of the folder here went on without.
pub fn lost(config: &Config) -> Result<Lost, String> {
    let data = &config.server.data;
    lost::read(&Disk, data).map_err(|error| format!("{}: {error}", data.display()))
}

/// An operator has seen these losses: the alarm ends. How many records were not seen before.
pub fn see_lost(config: &Config) -> Result<u64, String> {
    let data = &config.server.data;
    lost::see(data).map_err(|error| format!("{}: {error}", data.display()))
}

/// The node of the data folder here, 0 for none.
pub fn own_node(config: &Config) -> Result<NodeId, String> {
    Ok(found(&config.server.data)?.map_or(NodeId::ALONE, |found| found.node))
}

/// A secret as `holdline store secret --reveal` prints it, or as a data folder has it.
pub fn secret_of(bytes: &[u8]) -> Option<ClusterSecret> {
    let raw = <[u8; 32]>::try_from(bytes).ok().map(ClusterSecret::new);
    let text = || ClusterSecret::parse(std::str::from_utf8(bytes).ok()?.trim());
    raw.or_else(text)
}

/// Fact about the NATS servers of a cluster, for `holdline doctor`.
pub struct NatsFact {
    /// The item.
    pub item: String,
    /// Its value.
    pub value: String,
    /// The value that is needed.
    pub need: &'static str,
    /// Whether it is that.
    pub is_good: bool,
    /// Without it nothing works, or acknowledged data can be lost.
    pub is_vital: bool,
    /// The symptom of another value.
    pub symptom: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}

/// Facts about the NATS servers of the configured cluster; none without one.
pub fn nats_facts(config: &Config) -> Result<Vec<NatsFact>, String> {
    if !config.cluster.is_on() {
        return Ok(Vec::new());
    }
    let facts = operations(config)?.facts().map_err(|error| error.to_string())?;
    let mut rows = vec![
        NatsFact {
            item: "NATS version".into(),
            value: facts.version.clone(),
            need: "2.15 or newer",
            is_good: facts.is_at_least(2, 15),
            is_vital: false,
            symptom: "faults of JetStream that were mended since",
            remedy: "upgrade the NATS servers, one after the other",
        },
        NatsFact {
            item: "NATS JetStream".into(),
            value: if facts.has_jetstream { "on" } else { "off" }.into(),
            need: "on",
            is_good: facts.has_jetstream,
            is_vital: true,
            symptom: "the cluster cannot be made or served",
            remedy: "add a jetstream block to the configuration of each NATS server",
        },
        NatsFact {
            item: "NATS cluster".into(),
            value: facts.cluster.clone().unwrap_or_else(|| "one server alone".into()),
            need: "three servers",
            is_good: facts.cluster.is_some(),
            is_vital: false,
            symptom: "what is acknowledged is lost with the disk of that server and the leader's",
            remedy: "run three NATS servers with routes to each other",
        },
        sync(&facts.sync),
    ];
    rows.extend(facts.streams.iter().map(|(name, state)| stream(name, state)));
    Ok(rows)
}

fn sync(sync: &NatsSync) -> NatsFact {
    NatsFact {
        item: "NATS sync_interval".into(),
        value: match sync {
            NatsSync::Always => "always".into(),
            NatsSync::Seconds(seconds) => format!("{seconds} s"),
            NatsSync::Unknown => "not told: only the system account may ask".into(),
        },
        need: "always",
        is_good: *sync == NatsSync::Always,
        is_vital: false,
        symptom: "a power cut of two NATS servers can lose acknowledged messages of that time",
        remedy: "set sync_interval: always in the jetstream block of each NATS server",
    }
}

fn stream(name: &str, state: &Result<StreamState, NatsError>) -> NatsFact {
    let (value, is_good) = match state {
        Ok(state) => (
            format!("{} copies, {} current", state.replicas, current(state)),
            state.replicas >= 3 && current(state) >= usize::from(state.replicas),
        ),
        Err(error) => (error.to_string(), false),
    };
    NatsFact {
        item: format!("NATS stream {name}"),
        value,
        need: "3 copies, all current",
        is_good,
        is_vital: false,
        symptom: "the loss of another NATS server stops acknowledgements, or loses data",
        remedy: "look at the NATS servers: nats server report jetstream",
    }
}

/// Copies of a stream that have everything: the leader's, and those that are current.
fn current(state: &StreamState) -> usize {
    usize::from(!state.leader.is_empty()) + state.others.iter().filter(|it| it.is_current).count()
}

/// A node's name with its number, for people.
pub fn told(nodes: &[NodeStatus], node: NodeId) -> String {
    match nodes.iter().find(|it| it.node == node) {
        Some(it) => format!("{} ({})", it.name, node.number()),
        None => node.number().to_string(),
    }
}

fn operations(config: &Config) -> Result<Operations, String> {
    if !config.cluster.is_on() {
        return Err("no cluster is configured: set nats in [cluster], and give the file with \
                    --config"
            .into());
    }
    let connected = Operations::connect(&nats_settings(config), &config.cluster.name);
    connected.map_err(|error| error.to_string())
}

fn found(data: &Path) -> Result<Option<Member>, String> {
    member::read(data, &Means::default()).map_err(|error| error.to_string())
}

fn new_node(config: &Config, node: Option<NodeId>) -> NewNode {
    NewNode { node, name: node_name(config), advertise: advertised(config) }
}

/// The secrets that a folder has or gets, and the fingerprint of the cluster's.
fn secrets(
    data: &Path,
    found: Option<Member>,
    given: Option<ClusterSecret>,
) -> Result<(Secrets, u64), String> {
    let mut random = [0; 64];
    getrandom::fill(&mut random).map_err(|error| format!("random number generator: {error}"))?;
    let mut secrets = Secrets::of(random);
    if data.join(CLUSTER_SECRET).exists() {
        let own =
            tools::secret::read(data, &Means::default()).map_err(|error| error.to_string())?;
        if given.is_some_and(|given| given != own) {
            return Err(format!("{} has the secret of another cluster", data.display()));
        }
        secrets.cluster = own;
    } else if let Some(given) = given {
        secrets.cluster = given;
    }
    let fingerprint = found.map_or_else(|| secrets.cluster.fingerprint(), |it| it.fingerprint);
    Ok((secrets, fingerprint))
}

fn planned(
    config: &Config,
    found: Option<Member>,
    remote: Result<OperationPlan, impl std::fmt::Display>,
    secrets: Secrets,
) -> Result<ClusterPlan, String> {
    let (data, name) = (&config.server.data, Some(config.cluster.name.clone()));
    let remote = remote.map_err(|error| error.to_string())?;
    let (node, logs) = (remote.node(), remote.logs());
    let (number, folder) = (node.number(), data.display());
    let mut lines = remote.lines().to_vec();
    lines.extend(seat::unusual(config).into_iter().map(|why| format!("WARNING: {why}")));
    let local = match found {
        Some(found) if found.logs != logs => {
            return Err(format!(
                "{folder} has {} logs, but the cluster has {logs}: name a new folder",
                found.logs
            ));
        }
        Some(found) if found.node == node => Local::Nothing,
        Some(_) => {
            lines.push(format!("{folder}: becomes the data folder of node {number}"));
            Local::Take(node)
        }
        None => {
            lines.push(format!(
                "{folder}: is made, as the data folder of node {number}, with {logs} \
                                logs"
            ));
            Local::Make(Box::new(secrets), node, logs)
        }
    };
    Ok(ClusterPlan { lines, remote: Some(remote), local, name })
}

fn only_remote(
    remote: Result<OperationPlan, impl std::fmt::Display>,
) -> Result<ClusterPlan, String> {
    let remote = remote.map_err(|error| error.to_string())?;
    let lines = remote.lines().to_vec();
    Ok(ClusterPlan { lines, remote: Some(remote), local: Local::Nothing, name: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_as_it_is_printed_and_as_it_is_stored() {
        let secret = ClusterSecret::new([7; 32]);
        assert!(secret_of(&[7; 32]).is_some_and(|it| it == secret));
        assert!(
            secret_of(format!("{}\n", secret.to_text()).as_bytes()).is_some_and(|it| it == secret)
        );
        assert!(secret_of(b"short").is_none());
    }

    #[test]
    fn commands_say_what_is_missing_before_they_ask_nats() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = Config::default();
        config.server.data = folder.path().join("data");
        let told = |result: Result<ClusterPlan, String>| result.err().expect("refused");
        assert!(told(create(&config, None, None)).contains("no cluster is configured"));
        assert!(told(join(&config, None, None)).contains("the secret of the cluster is missing"));
        assert!(told(recover(&config)).contains("belongs to no cluster"));
        let secrets = Secrets::of([1; 64]);
        let alone = (NodeId::ALONE, 2);
        member::make(&config.server.data, secrets, alone, &Means::default()).expect("made");
        assert!(told(join(&config, None, None)).contains("a server that is alone"));
        assert!(told(create(&config, Some(3), None)).contains("has 2 logs"));
    }

    #[test]
    fn a_node_that_leaves_has_the_folder_of_a_server_that_is_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = Config::default();
        config.server.data = folder.path().join("data");
        let (data, node) = (config.server.data.clone(), NodeId::new(3).expect("a node"));
        member::make(&data, Secrets::of([1; 64]), (node, 1), &Means::default()).expect("made");
        assert!(leave(&config, NodeId::new(2).expect("a node")).is_err());
        let plan = leave(&config, node).expect("planned");
        assert!(plan.lines()[0].contains("a server that is alone"));
        plan.carry_out(&data).expect("done");
        assert_eq!(own_node(&config), Ok(NodeId::ALONE));
    }

    /// `remove N --alone` was killed between its steps by an earlier build.
    #[test]
    fn a_folder_that_is_alone_is_of_no_cluster_whatever_name_it_has() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = Config::default();
        config.server.data = folder.path().join("data");
        let (data, alone) = (config.server.data.clone(), (NodeId::ALONE, 1));
        member::make(&data, Secrets::of([1; 64]), alone, &Means::default()).expect("made");
        member::note_cluster_name(&data, Some("east"), &Means::default()).expect("noted");
        let refused = create(&config, None, None).err().expect("refused");
        assert!(refused.contains("no cluster is configured"), "{refused}");
    }

    #[test]
    fn a_folder_that_a_server_uses_or_of_another_cluster_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = Config::default();
        config.server.data = folder.path().join("data");
        let (data, node) = (config.server.data.clone(), NodeId::new(3).expect("a node"));
        member::make(&data, Secrets::of([1; 64]), (node, 1), &Means::default()).expect("made");
        let told = |result: Result<ClusterPlan, String>| result.err().expect("refused");
        let held = unused(&data).expect("nobody uses it");
        for refused in [told(recover(&config)), told(leave(&config, node))] {
            assert!(refused.contains("stop it first"), "{refused}");
        }
        drop(held);
        member::note_cluster_name(&data, Some("east"), &Means::default()).expect("noted");
        for refused in [told(recover(&config)), told(create(&config, None, None))] {
            assert!(refused.contains("belongs to the cluster \"east\""), "{refused}");
        }
        leave(&config, node).expect("planned").carry_out(&data).expect("done");
        let name = member::cluster_name(&data, &Means::default());
        assert_eq!(name.expect("it reads"), None, "it belongs to no cluster");
    }
}

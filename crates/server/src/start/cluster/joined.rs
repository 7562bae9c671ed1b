//! A node as a member of its cluster: its folder is open, its logs follow.
//!
//! Invariant: a data folder that does not belong to a cluster is never published, and one of a
//! cluster is never served alone.

use super::elsewhere;
use super::following::FollowingView;
use super::lead::Lead;
use super::seat::{self, LeaderSeat};
use super::{tools, view};
use crate::config::{Config, ListenSection};
use crate::start::{StartError, failed, storage};
use model::id::NodeId;
use model::{event, tell};
use nats::{NatsLogin, NatsSettings, NatsTls};
use net::OtherServers;
use replication::{ClusterNotice, ClusterSettings, LeaderAddress, Replication};
use std::path::PathBuf;
use std::sync::Arc;
use store::data::OpenFolder;
use store::tools::Means;
use store::tools::member;

/// Where the kernel says the host's name.
const HOST: &str = "/proc/sys/kernel/hostname";

/// A node as a member of its cluster.
pub(super) struct Joined {
    pub(super) replication: Arc<Replication>,
    pub(super) seat: Arc<LeaderSeat>,
    pub(super) node: NodeId,
    /// Logs of the cluster, and shards of a server that leads it.
    pub(super) logs: usize,
}

impl Joined {
    /// Opens the data folder to follow.
    pub(super) fn begin(config: &Config, taken_over: bool) -> Result<Joined, StartError> {
        let folder = storage::follow(config, taken_over)?;
        check_name(config)?;
        seat::unusual(config).iter().for_each(|why| tell!(event::ADVERTISE_UNUSUAL, why));
        let (node, logs) = (folder.node(), folder.count().into());
        let settings = settings(config, node);
        let replication = Replication::begin(settings, folder).map_err(failed)?;
        let seat = Arc::new(LeaderSeat::new(config));
        Ok(Joined { replication: Arc::new(replication), seat, node, logs })
    }

    /// Tells an operator.
    pub(super) fn notice(&self, notice: &ClusterNotice) {
        view::told(self.node, notice);
    }

    /// The view of the cluster for a server that follows.
    pub(super) fn view(&self) -> FollowingView {
        let (told, read) = (Arc::downgrade(&self.replication), Arc::downgrade(&self.replication));
        FollowingView {
            seat: self.seat.clone(),
            cluster: Arc::new(move || told.upgrade().map(|it| view::view(&it.status()))),
            readings: Arc::new(move || {
                read.upgrade().map_or(Vec::new(), |it| view::readings(&it.status()))
            }),
        }
    }

    /// The parts with which a leading server starts.
    pub(super) fn lead(&self, folder: Box<OpenFolder>) -> Lead {
        let FollowingView { cluster, readings, .. } = self.view();
        let (opened, turned) =
            (Arc::downgrade(&self.replication), Arc::downgrade(&self.replication));
        Lead {
            folder: Some(folder),
            opened: Box::new(move |logs| {
                if let Some(replication) = opened.upgrade() {
                    replication.opened(logs);
                }
            }),
            turned: Some(Arc::new(move || {
                if let Some(replication) = turned.upgrade() {
                    replication.turned();
                }
            })),
            proof: self.replication.lead_proof(),
            view: cluster,
            readings,
        }
    }

    /// The listeners of a leader for clients of this node's listeners of the same names.
    pub(super) fn listeners_of(
        &self,
        leader: Option<&LeaderAddress>,
        config: &Config,
    ) -> OtherServers {
        self.seat.set(leader.cloned());
        let listener = |it: &ListenSection| {
            let denial = elsewhere::denial(it.redirect);
            Some((it.name.as_str().into(), (self.seat.address(&it.name)?.into(), denial)))
        };
        config.listen.iter().filter_map(listener).collect()
    }

    /// The logs are closed: what is not acknowledged yet has a moment, then the node has left.
    pub(super) fn closed(self) {
        self.replication.closed();
    }
}

/// Compares the name of the cluster with the one that the data folder was given to. The same logs
/// under two names would be led twice. Replication notes the name where none is known.
fn check_name(config: &Config) -> Result<(), StartError> {
    let (path, name) = (&config.server.data, &config.cluster.name);
    match member::cluster_name(path, &Means::default()).map_err(failed)? {
        Some(known) if known != *name => Err(StartError(tools::other_name(path, &known, name))),
        _ => Ok(()),
    }
}

/// The settings of replication.
fn settings(config: &Config, node: NodeId) -> ClusterSettings {
    let of = &config.cluster;
    ClusterSettings {
        name: of.name.clone(),
        nats: nats_settings(config),
        node,
        node_name: node_name(config),
        advertise: seat::advertised(config),
        followers: of.followers as u16,
        copies_min: of.copies_min as u16,
    }
}

/// How NATS is reached.
pub(super) fn nats_settings(config: &Config) -> NatsSettings {
    let of = &config.cluster;
    let is_tls = |address: &String| address.starts_with("tls://");
    let has_tls = of.ca.is_some() || of.nats.iter().any(is_tls);
    let both = of.certificate.clone().zip(of.key.clone());
    let login = match (&of.credentials, &of.nkey) {
        (Some(file), _) => NatsLogin::Credentials(file.clone()),
        (None, Some(file)) => NatsLogin::NKey(file.clone()),
        (None, None) => NatsLogin::None,
    };
    NatsSettings {
        servers: of.nats.clone(),
        tls: has_tls.then(|| NatsTls { ca: of.ca.clone(), certificate: both }),
        login,
    }
}

/// The node's name: the configured one, or the host's.
pub(super) fn node_name(config: &Config) -> String {
    if !config.cluster.node.is_empty() {
        return config.cluster.node.clone();
    }
    let host = std::fs::read_to_string(HOST).unwrap_or_default();
    match host.trim() {
        "" => "holdline".into(),
        host => host.to_owned(),
    }
}

/// Faults of the files that `[cluster]` names.
pub(in crate::start) fn unusable(config: &Config) -> Vec<String> {
    let of = &config.cluster;
    let files: [(&str, &Option<PathBuf>); 5] = [
        ("ca", &of.ca),
        ("certificate", &of.certificate),
        ("key", &of.key),
        ("credentials", &of.credentials),
        ("nkey", &of.nkey),
    ];
    let named = files.into_iter().filter(|_| of.is_on());
    let wrong = named.filter_map(|(key, file)| {
        let file = file.as_ref()?;
        let error = std::fs::read(file).err()?;
        Some(format!("[cluster] {key}: {}: {error}", file.display()))
    });
    wrong.collect()
}

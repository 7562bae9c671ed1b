//! The cluster as the API, the metrics and the log tell it.
//!
//! Pure: from the status and the notices of replication to words and figures. Invariant: the
//! metrics of a node that leads and of one that follows have the same names.

use super::seat;
use admin::{ClusterLog, ClusterNode, ClusterView, MetricReading};
use model::id::NodeId;
use model::{event, tell};
use replication::{ClusterNotice, ClusterStatus, LogRole, LogStatus, NodeStatus};

/// The cluster in the API's words.
pub(super) fn view(status: &ClusterStatus) -> ClusterView {
    let leader = status.nodes.iter().find(|node| Some(node.node) == status.leader);
    let leader_api = leader.and_then(|leader| seat::named(&leader.addresses, seat::API));
    ClusterView {
        name: status.name.clone(),
        node: status.node.number(),
        leads: status.leads,
        leader: status.leader.map(NodeId::number),
        leader_api: leader_api.map(str::to_owned),
        connected: status.is_connected,
        isolated: status.is_isolated,
        full: status.is_full,
        lost: status.lost,
        lost_unseen: status.lost_unseen,
        clock_skew_s: status.clock_skew_s,
        clocks_differ: status.clocks_differ,
        followers_wanted: status.followers_wanted,
        followers: followers(status),
        nodes: status.nodes.iter().map(node).collect(),
        logs: status.logs.iter().map(log).collect(),
    }
}

/// Followers that are close behind, of each log.
fn followers(status: &ClusterStatus) -> u16 {
    status.logs.iter().map(|log| log.copies).min().unwrap_or_default()
}

fn node(of: &NodeStatus) -> ClusterNode {
    ClusterNode {
        node: of.node.number(),
        name: of.name.clone(),
        addresses: of.addresses.clone(),
        unreachable: of.unreachable.clone(),
        heard_ms: of.beat_age.map(|age| age.as_millis() as u64),
    }
}

fn log(of: &LogStatus) -> ClusterLog {
    ClusterLog {
        log: of.log,
        role: role(of.role).into(),
        epoch: of.epoch,
        generation: of.generation,
        index: of.index,
        acknowledged: of.acknowledged,
        synced: of.synced,
        lag: of.lag,
        disk_full: of.is_disk_full,
        stream_bytes: of.stream_bytes,
        acknowledged_after_us: of.acknowledged_after.as_micros() as u64,
        copies: of.copies,
    }
}

/// The word for the role of a node in a log.
fn role(of: LogRole) -> &'static str {
    match of {
        LogRole::Absent => "absent",
        LogRole::Following | LogRole::Left => "following",
        LogRole::Claiming => "claiming",
        LogRole::Leading => "leading",
    }
}

/// The cluster in figures.
pub(super) fn readings(status: &ClusterStatus) -> Vec<MetricReading> {
    let reading = |name, help, value| MetricReading { name, help, value };
    let most = |of: fn(&LogStatus) -> u64| status.logs.iter().map(of).max().unwrap_or_default();
    let sum = |of: fn(&LogStatus) -> u64| status.logs.iter().map(of).sum::<u64>();
    let wanted = u64::from(status.followers_wanted);
    let missing = wanted.saturating_sub(followers(status).into());
    vec![
        reading("cluster_leads", "1 if this node leads the cluster.", status.leads.into()),
        reading("cluster_connected", "1 if NATS is connected.", status.is_connected.into()),
        reading(
            "cluster_isolated",
            "1 if this node leads and reaches no majority of the NATS servers.",
            status.is_isolated.into(),
        ),
        reading("cluster_has_leader", "1 if a node leads.", status.leader.is_some().into()),
        reading(
            "cluster_stream_full",
            "1 if a stream is full, or NATS has no room for it.",
            status.is_full.into(),
        ),
        reading("cluster_nodes", "Nodes of the cluster.", status.nodes.len() as u64),
        reading(
            "cluster_followers_missing",
            "Followers that are wanted and are not there, or are far behind.",
            if status.leads { missing } else { 0 },
        ),
        reading("cluster_lag", "Records that this node lacks, of the log that lacks most.", {
            most(|log| log.lag)
        }),
        reading("cluster_unsynced", "Records that are not on this node's disk yet.", {
            sum(|log| log.index.saturating_sub(log.synced))
        }),
        reading("cluster_unacknowledged", "Records that wait for the streams.", {
            sum(|log| log.index.saturating_sub(log.acknowledged))
        }),
        reading("cluster_stream_bytes", "Bytes of the streams.", sum(|log| log.stream_bytes)),
        reading("cluster_stream_bytes_max", "Bytes of the largest stream.", {
            most(|log| log.stream_bytes)
        }),
        reading("cluster_acknowledgements_total", "Acknowledgements of the streams.", {
            sum(|log| log.acknowledgements)
        }),
        reading(
            "cluster_acknowledge_latency",
            "Microseconds that the slowest stream takes to acknowledge, of the last ones.",
            most(|log| log.acknowledged_after.as_micros() as u64),
        ),
        reading(
            "cluster_acknowledged_lost_total",
            "Acknowledged records that a log went on without, which this node had.",
            status.lost,
        ),
        reading(
            "cluster_acknowledged_lost_unseen",
            "Those of them that no operator has acknowledged with holdline cluster lost --seen.",
            status.lost_unseen,
        ),
        reading(
            "cluster_clock_skew_seconds",
            "Largest difference between this node's clock and that of another node.",
            status.clock_skew_s.into(),
        ),
        reading(
            "cluster_unreachable_addresses",
            "Advertised addresses of other nodes to which this node cannot connect.",
            status.nodes.iter().map(|node| node.unreachable.len() as u64).sum(),
        ),
        reading("cluster_epoch", "Highest epoch of a log: it rises with each new leader.", {
            most(|log| log.epoch.into())
        }),
        reading(
            "cluster_generation",
            "Highest generation of a stream: it rises when one forgot.",
            most(|log| log.generation.into()),
        ),
    ]
}

/// Tells an operator.
pub(super) fn told(node: NodeId, notice: &ClusterNotice) {
    let node = node.number();
    match notice {
        ClusterNotice::Connected(true) => tell!(event::NATS_CONNECTED),
        ClusterNotice::Connected(false) => tell!(event::NATS_LOST),
        &ClusterNotice::AcknowledgedLost { log, first, last } => {
            tell!(event::ACKNOWLEDGED_LOST, log, first, last);
        }
        &ClusterNotice::PurgedBehindOneDisk { log } => tell!(event::PURGED_BEHIND_ONE_DISK, log),
        &ClusterNotice::NewGeneration { log, generation } => {
            tell!(event::STREAM_FORGOT, log, generation);
        }
        &ClusterNotice::WaitsForRecover { log } => tell!(event::WAITS_FOR_RECOVER, log),
        ClusterNotice::NotAMember => tell!(event::NOT_A_MEMBER, node),
        ClusterNotice::OtherCluster { why } => tell!(event::OTHER_CLUSTER, why),
        ClusterNotice::SameNumber(true) => tell!(event::SAME_NODE_NUMBER, node),
        ClusterNotice::SameNumber(false) => tell!(event::SAME_NODE_NUMBER_ENDED, node),
        ClusterNotice::CopiesAnew { log, why } => tell!(event::LOG_COPIES_ANEW, log, why),
        &ClusterNotice::Copied { log, bytes } => tell!(event::LOG_COPIED, log, bytes),
        ClusterNotice::Nats(error) => tell!(event::NATS_COMPLAINS, error),
        &ClusterNotice::StreamFull { log, is_full: true } => tell!(event::STREAM_FULL, log),
        &ClusterNotice::StreamFull { log, .. } => tell!(event::STREAM_HAS_ROOM, log),
        ClusterNotice::TableDamaged { key, is_repaired: true } => {
            tell!(event::TABLE_VALUE_REPAIRED, key);
        }
        ClusterNotice::TableDamaged { key, .. } => tell!(event::TABLE_VALUE_DAMAGED, key),
        &ClusterNotice::ClockDiffers { node: other, seconds: Some(seconds) } => {
            tell!(event::CLOCK_DIFFERS, node, other = other.number(), seconds);
        }
        &ClusterNotice::ClockDiffers { node: other, .. } => {
            tell!(event::CLOCK_AGREES, node, other = other.number());
        }
        ClusterNotice::Unreachable { node: other, addresses } => match addresses.is_empty() {
            true => tell!(event::NODE_REACHED, node, other = other.number()),
            false => {
                let addresses = addresses.join(" ");
                tell!(event::NODE_UNREACHABLE, node, other = other.number(), addresses);
            }
        },
        &ClusterNotice::DiskFull { log } => tell!(event::FOLLOWER_FULL, log),
        ClusterNotice::Isolated(true) => tell!(event::NODE_ISOLATED, node),
        ClusterNotice::Isolated(false) => tell!(event::ISOLATION_ENDED, node),
    }
}

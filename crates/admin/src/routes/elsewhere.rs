//! Pushes to devices that are online at another server: refused, with that server's address.
//!
//! ```text
//! devices that are named ─► not online here ─► the directory: online at another node?
//!    still not online here ◄─────────────────────┘            └─► no, or it is away: as ever
//!      └─► refused, all of the order
//! ```
//! Memory comes first: the directory may be late. A record counts only if the lease of its node is
//! in force and it is newer than what happened to the device here. Without a directory that answers
//! at once, orders are taken as if there were none, and counted.

use super::presence_routes::{find, stored};
use crate::MetricReading;
use crate::api::Shared;
use crate::fault::{ElsewhereDevice, Fault};
use model::ports::presence::queries::{Circuit, PresenceStatus};
use model::ports::pushes::{PushOrder, PushTarget};
use model::presence::{NodeName, PresenceRecord, PresenceVersion, Principal};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Results of orders whose devices were looked up at other nodes.
#[derive(Default)]
pub(crate) struct ElsewhereTally {
    refused: AtomicU64,
    unchecked: AtomicU64,
}

impl ElsewhereTally {
    /// For the metrics.
    pub(crate) fn readings(&self) -> [MetricReading; 2] {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            MetricReading {
                name: "pushes_elsewhere_total",
                help: "Push orders refused: a device is online at another server.",
                value: of(&self.refused),
            },
            MetricReading {
                name: "pushes_unchecked_total",
                help: "Push orders accepted while the directory could not say whether their \
                       devices are online at another server.",
                value: of(&self.unchecked),
            },
        ]
    }
}

/// Refuses an order that names a device that is online at another server.
pub(super) async fn refuse_elsewhere(api: &Shared, order: &PushOrder) -> Result<(), Fault> {
    let PushTarget::Devices(devices) = &order.target else { return Ok(()) };
    let standing = api.settings.presence.standing();
    if matches!(standing.kind, "none" | "process") {
        return Ok(()); // no other server has part in it
    }
    let of = |device: &_| Principal::Device(order.product.clone(), Clone::clone(device));
    let named: Vec<Principal> = devices.iter().map(of).collect();
    let here = by_name(find(api, named.clone()).await?);
    let is_away = |who: &Principal| here.get(who).is_none_or(|it| !it.state.is_online());
    let away: Vec<Principal> = named.into_iter().filter(is_away).collect();
    if away.is_empty() {
        return Ok(());
    }
    let is_open = standing.circuit == Circuit::Closed;
    let found = if is_open { stored(api, away).await.ok() } else { None };
    let Some((who, records, leases)) = found else {
        api.elsewhere.unchecked.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    };
    let is_elsewhere = |who: &Principal, it: &PresenceRecord| {
        let last = here.get(who).map_or(PresenceVersion::default(), |it| it.version);
        let is_leased = leases.iter().any(|lease| (&lease.node, lease.boot) == (&it.node, it.boot));
        it.online && is_leased && it.node != standing.node.node && it.version > last
    };
    let both = who.into_iter().zip(records).filter_map(|(who, it)| Some((who, it?)));
    let nodes: BTreeMap<Principal, NodeName> =
        both.filter(|(who, it)| is_elsewhere(who, it)).map(|(who, it)| (who, it.node)).collect();
    if nodes.is_empty() {
        return Ok(());
    }
    // A device may have connected here while the directory was queried.
    let here = by_name(find(api, nodes.keys().cloned().collect()).await?);
    let nodes: Vec<(Principal, NodeName)> = nodes
        .into_iter()
        .filter(|(who, _)| here.get(who).is_none_or(|it| !it.state.is_online()))
        .collect();
    if nodes.is_empty() {
        return Ok(());
    }
    api.elsewhere.refused.fetch_add(1, Ordering::Relaxed);
    Err(Fault::elsewhere(with_addresses(api, nodes).await))
}

fn by_name(found: Vec<PresenceStatus>) -> HashMap<Principal, PresenceStatus> {
    found.into_iter().map(|it| (it.who.clone(), it)).collect()
}

/// The devices, with what is known of their nodes' addresses.
async fn with_addresses(api: &Shared, of: Vec<(Principal, NodeName)>) -> Vec<ElsewhereDevice> {
    let mut nodes: Vec<NodeName> = of.iter().map(|(_, node)| node.clone()).collect();
    nodes.sort();
    nodes.dedup();
    let queries = Arc::clone(&api.settings.presence);
    let asked = tokio::task::spawn_blocking(move || {
        let found = queries.addresses(&nodes).unwrap_or_default();
        nodes.into_iter().zip(found).collect::<HashMap<_, _>>()
    });
    // The refusal names the nodes, with or without their addresses.
    let addresses = asked.await.unwrap_or_default();
    let one = |(who, node): (Principal, NodeName)| {
        let Principal::Device(_, device) = who else { return None };
        let address = addresses.get(&node).cloned().flatten();
        Some(ElsewhereDevice { device, node, address })
    };
    of.into_iter().filter_map(one).collect()
}

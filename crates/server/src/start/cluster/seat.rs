//! Where clients reach the nodes of a cluster: what this node tells of itself, and what it knows of
//! the leader.
//!
//! An address belongs to a listener's name, for nodes of a cluster have the same listeners. A node
//! tells `NAME=host:port` for each; a plain `host`, which another version may tell, is taken with
//! the port of one's own listener of that name. It asks nobody. Invariant: a client is never sent
//! to this node itself.

use crate::config::{Config, ListenAddress};
use replication::{ADDRESSES_MAX, LeaderAddress};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Name of the API among the addresses.
pub(super) const API: &str = "api";

/// The leader, as far as this node knows. Shared by its listeners and its API.
pub(super) struct LeaderSeat {
    /// The ports of this node's own listeners, by their names.
    ports: BTreeMap<String, u16>,
    leader: Mutex<Option<LeaderAddress>>,
}

impl LeaderSeat {
    /// Makes a seat without a known leader.
    pub(super) fn new(config: &Config) -> LeaderSeat {
        let ports = listeners(config).map(|(name, port)| (name.to_owned(), port)).collect();
        LeaderSeat { ports, leader: Mutex::default() }
    }

    /// Another node leads, or none is known to. Whether that is new.
    pub(super) fn set(&self, leader: Option<LeaderAddress>) -> bool {
        let mut seat = self.lock();
        let is_new = *seat != leader;
        *seat = leader;
        is_new
    }

    /// Where the leader's listener of this name is.
    pub(super) fn address(&self, listener: &str) -> Option<String> {
        let seat = self.lock();
        let addresses = &seat.as_ref()?.addresses;
        if let Some(address) = named(addresses, listener) {
            return Some(address.to_owned());
        }
        let host = addresses.iter().find(|it| !it.contains('='))?;
        Some(format!("{host}:{}", self.ports.get(listener)?))
    }

    fn lock(&self) -> MutexGuard<'_, Option<LeaderAddress>> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The address of the listener with this name, among those of a node.
pub(super) fn named<'a>(addresses: &'a [String], listener: &str) -> Option<&'a str> {
    let mut named = addresses.iter().filter_map(|it| it.split_once('='));
    named.find(|(name, _)| *name == listener).map(|(_, address)| address)
}

/// Where clients reach this node, `NAME=host:port` for the API and each listener that serves them.
pub(super) fn advertised(config: &Config) -> Vec<String> {
    let of = &config.cluster;
    let address = |(name, port): (&str, u16)| match (of.advertised(name), of.host()) {
        (Some(address), _) => Some(format!("{name}={address}")),
        (None, Some(host)) if port > 0 => Some(format!("{name}={host}:{port}")),
        (None, _) => None,
    };
    listeners(config).filter_map(address).take(ADDRESSES_MAX).collect()
}

/// Advertised hosts that cannot be meant for clients on other machines, each with what to do. Only
/// one node on a machine of its own is right with them.
pub(super) fn unusual(config: &Config) -> Vec<String> {
    let hosts = config.cluster.advertise.iter().map(|it| {
        let place = it.split_once('=').map_or(it.as_str(), |(_, place)| place);
        let is_named = it.contains('=');
        let host =
            if is_named { place.rsplit_once(':').map_or(place, |(host, _)| host) } else { place };
        (it, host.trim_start_matches('[').trim_end_matches(']'))
    });
    let why = |(told, host): (&String, &str)| {
        let kind = match host.parse::<std::net::IpAddr>() {
            Ok(ip) if ip.is_loopback() => "is a loopback address",
            Ok(ip) if ip.is_unspecified() => "is not the address of a host",
            Err(_) if host == "localhost" => "is a loopback address",
            _ => return None,
        };
        Some(format!(
            "[cluster] advertise: {told:?} {kind}: clients that are sent there reach another host; \
             give the address at which clients reach this node"
        ))
    };
    hosts.filter_map(why).collect()
}

/// The API and the listeners that serve clients, with their ports; socket files have none to tell.
fn listeners(config: &Config) -> impl Iterator<Item = (&str, u16)> {
    let api = config.api.enabled.then_some((API, config.api.address.port()));
    let open = config.listen.iter().filter(|it| it.enabled && it.protocol.peers().is_none());
    let open = open.filter_map(|listener| match listener.address {
        ListenAddress::Tcp(address) => Some((listener.name.as_str(), address.port())),
        ListenAddress::Unix(_) => None,
    });
    api.into_iter().chain(open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::NodeId;

    fn config(advertise: &[&str]) -> Config {
        let text = "[listen.mqtt]\naddress = \"0.0.0.0:1883\"\nprotocol = \"mqtt\"\n\
                    [listen.near]\naddress = \"unix:/tmp/x\"\n\
                    [listen.off]\naddress = \"0.0.0.0:1\"\nenabled = false\n";
        let mut config = Config::parse("t", text, std::iter::empty()).expect("right");
        config.cluster.advertise = advertise.iter().map(|it| (*it).to_owned()).collect();
        config
    }

    fn leader(addresses: &[&str]) -> Option<LeaderAddress> {
        Some(LeaderAddress {
            node: NodeId::new(2).expect("a node"),
            name: "south".into(),
            addresses: addresses.iter().map(|it| (*it).to_owned()).collect(),
        })
    }

    #[test]
    fn a_node_tells_an_address_for_each_listener_that_others_reach() {
        let told = advertised(&config(&["10.0.0.7", "api=north.example:80"]));
        assert_eq!(told, ["api=north.example:80", "mqtt=10.0.0.7:1883"]);
        assert_eq!(advertised(&config(&["mqtt=a:1"])), ["mqtt=a:1"]);
    }

    #[test]
    fn addresses_that_no_other_machine_reaches_are_told_of() {
        let told = |advertise: &str| unusual(&config(&[advertise])).len();
        for wrong in ["127.0.0.1", "mqtt=127.0.0.1:1883", "localhost", "0.0.0.0", "api=[::]:7080"] {
            assert_eq!(told(wrong), 1, "{wrong}");
        }
        for right in ["10.0.0.7", "mqtt=north.example:1883", "[2001:db8::1]"] {
            assert_eq!(told(right), 0, "{right}");
        }
    }

    #[test]
    fn a_client_is_sent_to_the_leaders_listener_of_the_same_name() {
        let seat = LeaderSeat::new(&config(&[]));
        assert_eq!(seat.address("mqtt"), None, "nobody leads");
        assert!(seat.set(leader(&["api=b:7080", "mqtt=b:1884"])));
        assert!(!seat.set(leader(&["api=b:7080", "mqtt=b:1884"])), "it is known");
        assert_eq!(seat.address("mqtt").as_deref(), Some("b:1884"));
        assert_eq!(seat.address("im"), None);
        seat.set(leader(&["10.0.0.8"]));
        assert_eq!(seat.address("mqtt").as_deref(), Some("10.0.0.8:1883"));
        assert_eq!(seat.address("near"), None);
        assert!(seat.set(None));
        assert_eq!(seat.address("mqtt"), None);
    }
}

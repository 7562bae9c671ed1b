//! `[cluster]`: several nodes with copies of the same logs, of which one serves.
//!
//! This module checks the form of addresses and connects to none. Invariant: no address has a
//! password in it.

use base::section;
use base::setting::{list, text, whole};
use replication::ADDRESSES_MAX;
use std::path::PathBuf;

/// Most addresses of NATS servers.
const SERVERS_MAX: usize = 16;

section! {
    /// `[cluster]`: nodes with copies of the same logs.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ClusterSection {
        /// Addresses of the NATS servers, such as "nats://10.0.0.1:4222", or tls:// for TLS; one
        /// suffices, and further ones are used when it is away. []: no cluster, this server is
        /// alone. `holdline cluster create` or `holdline cluster join` must come before the first
        /// start with it.
        nats: Vec<String> = Vec::new(), list(
            SERVERS_MAX,
            "addresses such as \"nats://10.0.0.1:4222\" or \"tls://10.0.0.1:4222\", without user \
             and password",
            is_nats,
        );
        /// PEM file of the authorities that the certificates of the NATS servers are verified
        /// against; "" is the system's, from /etc/ssl/certs/ca-certificates.crt.
        ca: Option<PathBuf> = None;
        /// PEM file of this node's client certificate for NATS.
        certificate: Option<PathBuf> = None;
        /// PEM file of its private key.
        key: Option<PathBuf> = None;
        /// Credentials file for NATS (.creds), as `nsc` makes it; "" is none.
        credentials: Option<PathBuf> = None;
        /// File with the seed of an NKey for NATS, instead of credentials; "" is none.
        nkey: Option<PathBuf> = None;
        /// Name of the cluster. Clusters that use the same NATS servers have different names.
        name: String = "holdline".into(), text("1 to 32 letters, digits, - and _", is_cluster_name);
        /// Name of this node, unique in the cluster, for people; "" is the host's name.
        node: String = String::new(), text(
            "1 to 64 letters, digits and . _ -, or empty",
            |text| text.is_empty() || is_name(text),
        );
        /// Where clients and operators reach this node: a host name or an IP address, which is
        /// told with the port of the listener, or NAME=host:port for the listener of this name (or
        /// "api"). Nodes that follow send clients to these addresses of the leader, each to the
        /// listener of the same name.
        advertise: Vec<String> = Vec::new(), list(
            ADDRESSES_MAX,
            "hosts, and NAME=host:port for listeners",
            is_advertised,
        );
        /// Nodes that are to follow the leader. With fewer the alarm `followers` is raised. A node
        /// beyond this number follows, too, and is the last to take over.
        followers: u32 = 1, whole(0..=8, "nodes");
        /// Disks that must have a message before it is removed from the stream, the leader's
        /// included, when nobody follows and a stream is nearly full. 1: it is removed behind the
        /// leader's disk alone, and an error is logged. 2: the log is full.
        copies_min: u32 = 1, whole(1..=2, "disks");
    }
}

impl ClusterSection {
    /// Whether this server is a node of a cluster.
    pub fn is_on(&self) -> bool {
        !self.nats.is_empty()
    }

    /// The host that it advertises, if it does.
    pub fn host(&self) -> Option<&str> {
        self.advertise.iter().find(|it| !it.contains('=')).map(String::as_str)
    }

    /// The address that it advertises for the listener of this name.
    pub fn advertised(&self, listener: &str) -> Option<&str> {
        let named = self.advertise.iter().filter_map(|it| it.split_once('='));
        named.into_iter().find(|(name, _)| *name == listener).map(|(_, address)| address)
    }
}

fn is_nats(text: &str) -> bool {
    let place = text.strip_prefix("nats://").or_else(|| text.strip_prefix("tls://"));
    place.is_some_and(|place| is_place(place) || is_host(place))
}

fn is_advertised(text: &str) -> bool {
    match text.split_once('=') {
        Some((name, place)) => is_name(name) && is_place(place),
        None => is_host(text),
    }
}

/// Whether a text is valid as a cluster's name, which becomes a part of the names of streams and
/// subjects.
fn is_cluster_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
    (1..=32).contains(&text.len()) && text.bytes().all(allowed)
}

fn is_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=64).contains(&text.len()) && text.bytes().all(allowed)
}

/// `host:port`.
fn is_place(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    is_host(host) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// A name, an IPv4 address, or an IPv6 address in brackets.
fn is_host(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    match inner {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || b".-_".contains(&b);
            (1..=180).contains(&text.len()) && text.bytes().all(allowed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_nats_have_a_scheme_and_no_password() {
        for right in ["nats://10.0.0.1:4222", "tls://nats.example", "nats://[::1]:4222"] {
            assert!(is_nats(right), "{right}");
        }
        let wrong =
            ["10.0.0.1:4222", "nats://a:b@c:4222", "http://a:4222", "nats://", "nats://a:0"];
        for wrong in wrong {
            assert!(!is_nats(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_node_advertises_a_host_and_addresses_of_listeners() {
        let advertise = ["10.0.0.7", "mqtt=mqtt.example:1883"].map(str::to_owned).into();
        let section = ClusterSection { advertise, ..ClusterSection::default() };
        assert!(section.advertise.iter().all(|it| is_advertised(it)));
        assert_eq!(section.host(), Some("10.0.0.7"));
        assert_eq!(section.advertised("mqtt"), Some("mqtt.example:1883"));
        assert_eq!(section.advertised("im"), None);
        for wrong in ["", "a:1883", "mqtt=a", "=a:1", "::1", "a b"] {
            assert!(!is_advertised(wrong), "{wrong}");
        }
    }
}

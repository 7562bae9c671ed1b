//! Source addresses of clients: which of this machine, and whether its ports are enough.
//!
//! A connection is named by both addresses and both ports, so one source address has as many ports
//! towards each address of the target as `ip_local_port_range` holds; more connections need more
//! addresses on either side. Client `i` calls target `i % targets` from source `i % sources`: the
//! pairs that occur are as many as the least common multiple of the two.
//!
//! `net` sets IP_BIND_ADDRESS_NO_PORT on a call with a source, so that binding takes no port: the
//! kernel chooses one in `connect`, where it may take again what leads elsewhere already. Without
//! it all targets of a source would share one range of ports.
//!
//! This module reads the addresses of the machine and changes nothing. The invariant: addresses
//! given are this machine's, of the target's family, and none is there twice.

mod host;

pub use host::SourceHost;

use rustix::process::{Resource, getrlimit};
use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Source addresses of one group, at most. A longer range is used so far.
pub const SOURCES_MAX: usize = 65_536;
/// The share of a port range that is counted on: others call too.
const PORTS_USED_PERCENT: u64 = 90;
/// The share of a port range in which `connect` finds a port at once. Linux tries the ports of one
/// parity first, and walks over all of them before it takes one of the other: at 14,116 of 28,232
/// a call comes to cost 5 ms of processor time instead of a hundredth of it (measured here).
const PORTS_QUICK_PERCENT: u64 = 45;

/// The source addresses that `clients` of one group call `to` from, in turn; none: the kernel
/// chooses. `sources` are addresses, ranges (`10.0.0.5-10.0.0.9`), networks (`127.0.1.0/24`) or
/// `auto`; none: `auto`. Of ranges and networks those are taken that this machine has.
pub fn spread(sources: &[String], to: &[SocketAddr], clients: u32) -> Result<Vec<IpAddr>, String> {
    spread_on(&SourceHost::read(), sources, to, clients)
}

/// As [`spread`], on a machine that was looked at before.
pub fn spread_on(
    host: &SourceHost,
    sources: &[String],
    to: &[SocketAddr],
    clients: u32,
) -> Result<Vec<IpAddr>, String> {
    let Some(first) = to.first() else { return Err("no target address".to_owned()) };
    let mixed = to.iter().any(|to| to.is_ipv4() != first.is_ipv4());
    if sources.is_empty() || sources.iter().any(|source| source == "auto") {
        if let Some(other) = sources.iter().find(|source| *source != "auto") {
            return Err(format!("`auto` cannot be combined with another source (`{other}`)"));
        }
        return Ok(if mixed { Vec::new() } else { host.choose(to, clients) });
    }
    if mixed {
        let what = "the target has addresses of IPv4 and of IPv6, so sources cannot be chosen; \
                    make two groups";
        return Err(what.to_owned());
    }
    let mut found = BTreeSet::new();
    let mut all = Vec::new();
    for source in sources {
        for address in addresses_of(source, first.is_ipv4())? {
            if all.len() < SOURCES_MAX && found.insert(address) {
                all.push(address);
            }
        }
    }
    Ok(all)
}

/// The addresses of this machine that `source` means.
fn addresses_of(source: &str, v4: bool) -> Result<Vec<IpAddr>, String> {
    let (from, until) = parse(source)?;
    if from.is_ipv4() != v4 {
        let [mine, theirs] = if v4 { ["IPv6", "IPv4"] } else { ["IPv4", "IPv6"] };
        return Err(format!("source `{source}` is {mine}, but the target is {theirs}"));
    }
    let last = bits(until).min(bits(from) + SOURCES_MAX as u128 - 1);
    let range = (bits(from)..=last).map(|bits| address(bits, v4));
    let own: Vec<IpAddr> = range.filter(|address| is_own(*address)).collect();
    if own.is_empty() {
        let add = format!("ip address add {from} dev lo");
        return Err(format!(
            "source `{source}` is not an address of this machine (it would be after `{add}`, and \
             the target must know the way back)"
        ));
    }
    Ok(own)
}

/// First and last address of a source's text.
fn parse(source: &str) -> Result<(IpAddr, IpAddr), String> {
    let wrong = || {
        format!(
            "`{source}` is not a source: give an address, 10.0.0.5-10.0.0.9, 127.0.1.0/24 or auto"
        )
    };
    if let Some((network, prefix)) = source.split_once('/') {
        let network: IpAddr = network.trim().parse().map_err(|_| wrong())?;
        let width: u32 = if network.is_ipv4() { 32 } else { 128 };
        let prefix: u32 = prefix.trim().parse().map_err(|_| wrong())?;
        let host = width_mask(width.checked_sub(prefix).ok_or_else(wrong)?);
        let (first, last) = (bits(network) & !host, bits(network) | host);
        // The first address of a network is the network, the last one of IPv4 everybody.
        let edge = u128::from(host > 1);
        let last = if network.is_ipv4() { last - edge } else { last };
        return Ok((address(first + edge, network.is_ipv4()), address(last, network.is_ipv4())));
    }
    let (from, until) = source.split_once('-').unwrap_or((source, source));
    let from: IpAddr = from.trim().parse().map_err(|_| wrong())?;
    let until: IpAddr = until.trim().parse().map_err(|_| wrong())?;
    if from.is_ipv4() != until.is_ipv4() || from > until {
        return Err(wrong());
    }
    Ok((from, until))
}

/// Mask of so many ones.
fn width_mask(ones: u32) -> u128 {
    1u128.checked_shl(ones).map_or(u128::MAX, |bit| bit - 1)
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn address(bits: u128, v4: bool) -> IpAddr {
    match v4 {
        true => Ipv4Addr::from_bits(bits as u32).into(),
        false => Ipv6Addr::from_bits(bits).into(),
    }
}

/// Whether a socket may be bound to it. Asked of the kernel: it may own whole networks by a route.
fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind(SocketAddr::new(address, 0)).is_ok()
}

/// Resources of this machine that a number of connections needs, and those that it has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Connections.
    pub connections: u64,
    /// Descriptors for them, and for what the process has besides.
    pub descriptors: u64,
    /// Descriptors this process may have.
    pub descriptors_max: u64,
    /// Source addresses; 1 where the kernel chooses.
    pub sources: u64,
    /// Addresses of the target.
    pub targets: u64,
    /// Connections of the fullest pair of a source and a target.
    pub ports: u64,
    /// Ports of such a pair.
    pub ports_max: u64,
}

/// Descriptors of the process itself: pollers, mailboxes, files of the report.
const OWN: u64 = net::descriptors::OWN;

impl Needs {
    /// Resources that so many connections between these addresses need.
    pub fn of(host: &SourceHost, connections: u64, sources: &[IpAddr], to: &[SocketAddr]) -> Needs {
        let (sources, targets) = (sources.len().max(1) as u64, to.len().max(1) as u64);
        Needs {
            connections,
            descriptors: connections + OWN,
            descriptors_max: getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX),
            sources,
            targets,
            ports: connections.div_ceil(pairs(sources, targets)),
            ports_max: host.ports,
        }
    }

    /// Shortages, each with its remedy; empty: the machine has enough.
    pub fn shortfalls(&self) -> Vec<String> {
        let mut short = Vec::new();
        let Needs { connections, descriptors, descriptors_max, ports, ports_max, .. } = self;
        if descriptors > descriptors_max {
            let fit = descriptors_max.saturating_sub(OWN);
            short.push(format!(
                "{connections} connections need {descriptors} descriptors, but this process may \
                 open {descriptors_max}: {fit} connections fit. Raise the limit (shell: ulimit -n \
                 {descriptors}; systemd: LimitNOFILE={descriptors}; container: --ulimit \
                 nofile={descriptors}), or use more processes or agents"
            ));
        }
        if ports > ports_max {
            let need = connections.div_ceil((ports_max * PORTS_USED_PERCENT / 100).max(1));
            short.push(format!(
                "{ports} connections from one source address to one address of the target need as \
                 many ports, but net.ipv4.ip_local_port_range has {ports_max}. Widen it (sysctl -w \
                 net.ipv4.ip_local_port_range=\"1024 65535\"), or give {need} source addresses, or \
                 more ports of the target"
            ));
        }
        short
    }

    /// Warning of slowness, though the machine has enough.
    pub fn slowness(&self) -> Option<String> {
        let quick = self.ports_max * PORTS_QUICK_PERCENT / 100;
        (self.ports > quick && self.ports <= self.ports_max).then(|| {
            format!(
                "{} connections from one source address to one address of the target are more \
                 than half of its {} ports: beyond {quick} each call costs milliseconds, because \
                 the kernel walks over all ports of one parity first. More source addresses, or \
                 more ports of the target, are quicker",
                self.ports, self.ports_max
            )
        })
    }
}

/// The needs and resources, in a sentence.
impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let many = |count: u64, what: &str| {
            format!("{count} {what}{}", if count == 1 { "" } else { "es" })
        };
        write!(
            f,
            "{} connections: {} of {} descriptors; from {} to {} of the target: {} of {} ports",
            self.connections,
            self.descriptors,
            self.descriptors_max,
            many(self.sources, "source address"),
            many(self.targets, "address"),
            self.ports,
            self.ports_max
        )
    }
}

/// Pairs that occur when both are taken in turn.
fn pairs(sources: u64, targets: u64) -> u64 {
    let (mut a, mut b) = (sources, targets);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    sources / a * targets
}

#[cfg(test)]
mod tests;

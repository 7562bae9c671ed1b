//! Resources of this machine for outgoing connections: ports, and its own addresses.
//!
//! Read from /proc, once; what cannot be read is what Linux has by default.

use super::{PORTS_QUICK_PERCENT, PORTS_USED_PERCENT, SOURCES_MAX, pairs};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

/// Ports of the kernel's default range.
const PORTS: RangeInclusive<u16> = 32_768..=60_999;
/// Addresses of a loopback network of 256 that are used.
const A_NETWORK: u32 = 250;

/// Resources of a machine for outgoing connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceHost {
    /// Ports that it may choose for a call, to each address of a target and from each of its own.
    pub ports: u64,
    /// Its addresses, those of the loopback excepted.
    pub addresses: Vec<IpAddr>,
}

impl SourceHost {
    /// This machine.
    pub fn read() -> SourceHost {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let range = port_range(&text("/proc/sys/net/ipv4/ip_local_port_range")).unwrap_or(PORTS);
        let reserved = reserved_in(&text("/proc/sys/net/ipv4/ip_local_reserved_ports"), &range);
        let mut addresses = addresses_v4(&text("/proc/net/fib_trie"));
        addresses.extend(addresses_v6(&text("/proc/net/if_inet6")));
        SourceHost { ports: (range.count() as u64).saturating_sub(reserved), addresses }
    }

    /// The addresses that so many clients need towards `to`, which is of one family; none: the
    /// kernel's choice will do, or there is no other.
    pub(super) fn choose(&self, to: &[SocketAddr], clients: u32) -> Vec<IpAddr> {
        let (targets, clients) = (to.len() as u64, u64::from(clients));
        let loopback = to.iter().all(|to| to.ip().is_loopback());
        // Of loopback addresses there are enough for calls to be quick.
        let percent = if loopback { PORTS_QUICK_PERCENT } else { PORTS_USED_PERCENT };
        let ports = (self.ports * percent / 100).max(1);
        let fits = |sources: &u64| pairs(*sources, targets) * ports >= clients;
        let need = (1..SOURCES_MAX as u64).find(fits).unwrap_or(SOURCES_MAX as u64);
        match to.first() {
            _ if need <= 1 => Vec::new(),
            Some(SocketAddr::V4(_)) if loopback => (0..need as u32).map(loopback_v4).collect(),
            Some(first) if !loopback => {
                let own = self.addresses.iter().filter(|own| own.is_ipv4() == first.is_ipv4());
                let own: Vec<IpAddr> = own.copied().take(SOURCES_MAX).collect();
                if own.len() > 1 { own } else { Vec::new() }
            }
            _ => Vec::new(),
        }
    }
}

/// One of the addresses of 127.0.0.0/8 that nobody else uses: 127.1.0.1 and so on.
fn loopback_v4(number: u32) -> IpAddr {
    let host = 0x0001_0000 + number / A_NETWORK * 256 + number % A_NETWORK + 1;
    Ipv4Addr::from_bits(0x7f00_0000 | host).into()
}

/// The range of `ip_local_port_range`.
fn port_range(text: &str) -> Option<RangeInclusive<u16>> {
    let mut words = text.split_whitespace().map(str::parse::<u16>);
    let (from, until) = (words.next()?.ok()?, words.next()?.ok()?);
    (from <= until).then_some(from..=until)
}

/// How many ports of `range` stand in `ip_local_reserved_ports`: `8080,9000-9100`.
fn reserved_in(text: &str, range: &RangeInclusive<u16>) -> u64 {
    let words = text.trim().split(',').filter(|word| !word.is_empty());
    let counts = words.filter_map(|word| {
        let (from, until) = word.split_once('-').unwrap_or((word, word));
        let (from, until): (u16, u16) = (from.parse().ok()?, until.parse().ok()?);
        let (from, until) = (from.max(*range.start()), until.min(*range.end()));
        Some((from..=until).count() as u64)
    });
    counts.sum()
}

/// The machine's own addresses in the routing table: leaves marked `/32 host LOCAL`.
fn addresses_v4(fib_trie: &str) -> Vec<IpAddr> {
    let (mut found, mut leaf) = (Vec::new(), None);
    for line in fib_trie.lines() {
        if let Some((_, address)) = line.split_once("|-- ") {
            leaf = address.trim().parse::<Ipv4Addr>().ok();
        } else if line.contains("/32 host LOCAL")
            && let Some(address) = leaf.filter(|address| !address.is_loopback())
            && !found.contains(&IpAddr::V4(address))
        {
            found.push(IpAddr::V4(address));
        }
    }
    found
}

/// Flags of an address that must not be used: deprecated, tentative, or in use by another.
const UNFIT: u32 = 0x20 | 0x40 | 0x08;

/// Its addresses of IPv6 with global scope: address, index, prefix, scope, flags, name.
fn addresses_v6(if_inet6: &str) -> Vec<IpAddr> {
    let lines = if_inet6.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = u128::from_str_radix(words.next()?, 16).ok()?;
        let (scope, flags) = (words.nth(2)?, u32::from_str_radix(words.next()?, 16).ok()?);
        (scope == "00" && flags & UNFIT == 0).then(|| Ipv6Addr::from_bits(address).into())
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIE: &str = "Main:
  +-- 127.0.0.0/8 2 0 2
     |-- 127.0.0.1
        /32 host LOCAL
  +-- 192.0.2.0/30 2 0 2
     |-- 192.0.2.0
        /24 link UNICAST
     |-- 192.0.2.2
        /32 host LOCAL
     |-- 192.0.2.255
        /32 link BROADCAST
Local:
     |-- 192.0.2.2
        /32 host LOCAL
     |-- 10.0.0.7
        /32 host LOCAL
";

    #[test]
    fn addresses_and_ports_are_read_as_the_kernel_writes_them() {
        let [two, seven] = [[192, 0, 2, 2], [10, 0, 0, 7]].map(IpAddr::from);
        assert_eq!(addresses_v4(TRIE), [two, seven]);
        let inet6 = "fe8000000000000000fc00fffe000001 04 40 20 80     eth0\n\
                     fd000000000000000000000000000002 04 40 00 82     eth0\n\
                     fd000000000000000000000000000003 04 40 00 c0     eth0\n\
                     00000000000000000000000000000001 01 80 10 80       lo\n";
        let own: IpAddr = "fd00::2".parse().expect("an address");
        assert_eq!(addresses_v6(inet6), [own]);
        let range = port_range("32768\t60999\n").expect("two numbers");
        assert_eq!((range.clone().count(), port_range("x")), (28_232, None));
        assert_eq!(reserved_in("8080,40000,60990-61010\n", &range), 11);
        assert_eq!(reserved_in("\n", &range), 0);
    }

    #[test]
    fn as_many_addresses_are_chosen_as_ports_need() {
        let own = ["10.0.0.7", "10.0.0.8", "fd00::2"].map(|own| own.parse().expect("an address"));
        let host = SourceHost { ports: 1_000, addresses: own.to_vec() };
        let to = |text: &str, count: u16| -> Vec<SocketAddr> {
            let ip = text.parse().expect("an address");
            (0..count).map(|port| SocketAddr::new(ip, 1_000 + port)).collect()
        };
        assert_eq!(host.choose(&to("127.0.0.1", 1), 450), [] as [IpAddr; 0]);
        let two = ["127.1.0.1", "127.1.0.2"].map(|own| own.parse::<IpAddr>().expect("one"));
        assert_eq!(host.choose(&to("127.0.0.1", 1), 900), two);
        // Two sources and two targets taken in turn are two pairs, three sources are six.
        assert_eq!(host.choose(&to("127.0.0.1", 2), 1_800).len(), 3);
        assert_eq!(host.choose(&to("127.0.0.1", 1), 400_000).len(), 889);
        assert_eq!(host.choose(&to("10.9.9.9", 1), 900), [] as [IpAddr; 0]);
        assert_eq!(host.choose(&to("10.9.9.9", 1), 1_800), own[..2]);
        assert_eq!(host.choose(&to("fd00::9", 1), 1_800), [] as [IpAddr; 0]);
        assert_eq!(host.choose(&to("::1", 1), 1_800), [] as [IpAddr; 0]);
    }
}

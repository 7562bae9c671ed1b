//! Which addresses are public: those that anybody reaches over the Internet.
//!
//! Where somebody else says whom to call, all others are not called: this machine, its networks
//! and whatever trusts them are not for strangers to reach through this server. An address of IPv6
//! that stands for one of IPv4 is what that is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Blocks of IPv4 that are not (RFC 6890, RFC 5771): address and length of the prefix.
const RESERVED_4: [(Ipv4Addr, u32); 13] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// Whether this is a public address.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_4(address),
        IpAddr::V6(address) => is_public_6(address),
    }
}

fn is_public_4(address: Ipv4Addr) -> bool {
    let bits = u32::from(address);
    RESERVED_4.iter().all(|(block, length)| (bits ^ u32::from(*block)) >> (32 - length) != 0)
}

fn is_public_6(address: Ipv6Addr) -> bool {
    let [first, second, third, ..] = address.segments();
    let (bits, four) = (u128::from(address), |bits: u128| Ipv4Addr::from(bits as u32));
    match (first, second) {
        // NAT64 (RFC 6052): the last 32 bits.
        (0x64, 0xff9b) => {
            bits >> 32 & 0xffff_ffff_ffff == 0 && third == 0 && is_public_4(four(bits))
        }
        // 6to4 (RFC 3056): those behind the prefix.
        (0x2002, _) => is_public_4(four(bits >> 80)),
        // Teredo and what else is of protocols, and addresses of documents (RFC 6890, RFC 3849).
        (0x2001, 0..=0x1ff | 0xdb8) | (0x3fff, 0..=0xfff) => false,
        // What is given to anybody is of 2000::/3 (RFC 4291 2.4).
        _ => first >> 13 == 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_a_machine_or_a_network_of_its_own_is_not_public() {
        for text in [
            "0.0.0.0",
            "10.255.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.31.0.1",
            "192.0.0.8",
            "192.168.1.1",
            "198.19.255.255",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::7f00:1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::808:808",
            "2002:7f00:1::1",
            "2002:c0a8:101::1",
            "2001::1",
            "2001:db8::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(text.parse().expect("an address")), "{text}");
        }
        for text in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.169.0.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "2606:4700::1111",
            "2a00:1450::1",
            "2001:200::1",
        ] {
            assert!(is_public(text.parse().expect("an address")), "{text}");
        }
    }
}

//! Addresses that belong together: one, or all that begin with the same bits (RFC 4632).
//!
//! An IPv4 address and the same mapped into IPv6 (`::ffff:a.b.c.d`) are one. It resolves no names.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// Bits in front of an IPv4 address that is mapped into IPv6 (RFC 4291 2.5.5.2).
pub(crate) const MAPPED_BITS: u8 = 96;

/// An address, or a network of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct IpNetwork {
    first: u128,
    bits: u8,
}

/// The text is neither an address nor a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoNetwork;

impl IpNetwork {
    /// The network of an address with this many leading bits, of 128: an IPv4 address has 96 more
    /// in front of its own.
    pub fn around(address: IpAddr, bits: u8) -> IpNetwork {
        let bits = bits.min(128);
        let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
        IpNetwork { first: mapped(address) & mask, bits }
    }

    /// An address alone.
    pub fn of(address: IpAddr) -> IpNetwork {
        IpNetwork::around(address, 128)
    }

    /// Its leading bits, of 128.
    pub const fn bits(self) -> u8 {
        self.bits
    }

    /// Whether the address is one of these. A network of IPv6 contains no address of IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let is_ipv4 = address.to_canonical().is_ipv4();
        let is_of_family = self.bits >= MAPPED_BITS || !is_ipv4;
        is_of_family && IpNetwork::around(address, self.bits) == *self
    }

    /// Whether it is all addresses of IPv4 or IPv6.
    pub fn is_any(&self) -> bool {
        self.bits == 0 || (self.bits == MAPPED_BITS && self.ipv4().is_some())
    }

    /// The first address of a network of IPv4.
    fn ipv4(self) -> Option<std::net::Ipv4Addr> {
        let first = Ipv6Addr::from_bits(self.first).to_ipv4_mapped();
        first.filter(|_| self.bits >= MAPPED_BITS)
    }
}

fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl FromStr for IpNetwork {
    type Err = NoNetwork;

    /// Reads `10.0.0.7`, `10.0.0.0/8`, `2001:db8::/32`. Bits behind the prefix are ignored.
    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NoNetwork)?;
        let (front, most) = if address.is_ipv4() { (MAPPED_BITS, 32) } else { (0, 128) };
        let bits = match bits {
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                bits.parse().map_err(|_| NoNetwork)?
            }
            Some(_) => return Err(NoNetwork),
            None => most,
        };
        if bits > most { Err(NoNetwork) } else { Ok(IpNetwork::around(address, front + bits)) }
    }
}

impl fmt::Display for IpNetwork {
    /// An address alone has no prefix length.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ipv4() {
            Some(address) if self.bits == 128 => write!(f, "{address}"),
            Some(address) => write!(f, "{address}/{}", self.bits - MAPPED_BITS),
            None if self.bits == 128 => write!(f, "{}", Ipv6Addr::from_bits(self.first)),
            None => write!(f, "{}/{}", Ipv6Addr::from_bits(self.first), self.bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(network: &str, address: &str) -> bool {
        let network: IpNetwork = network.parse().expect("a network");
        network.contains(address.parse().expect("an address"))
    }

    #[test]
    fn a_network_has_the_addresses_that_begin_with_its_bits() {
        for (network, address, is_in) in [
            ("10.0.0.7", "10.0.0.7", true),
            ("10.0.0.7", "10.0.0.6", false),
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.1.2.3/8", "10.9.9.9", true),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "2001:db9::1", true),
            ("::/0", "203.0.113.9", false),
            ("::ffff:10.0.0.0/104", "10.1.1.1", true),
            ("2001:db8::/64", "2001:db8:1::", false),
            ("::1", "::1", true),
        ] {
            assert_eq!(has(network, address), is_in, "{address} in {network}");
        }
    }

    #[test]
    fn networks_are_read_and_written() {
        for (text, written) in [
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.7/24", "192.0.2.0/24"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:db8::1/32", "2001:db8::/32"),
            ("2001:DB8::1", "2001:db8::1"),
            ("::/0", "::/0"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
        ] {
            let network: IpNetwork = text.parse().expect(text);
            assert_eq!(network.to_string(), written);
            assert_eq!(written.parse(), Ok(network));
        }
        for wrong in [
            "",
            "x",
            "192.0.2",
            "10.0.0.1/33",
            "10.0.0.0/+8",
            "10.0.0.0/-1",
            "::/129",
            "1.2.3.4/",
            "1.2.3.4/8/9",
        ] {
            assert_eq!(wrong.parse::<IpNetwork>(), Err(NoNetwork), "{wrong}");
        }
    }

    #[test]
    fn a_network_of_all_addresses_of_a_family_is_any() {
        let is_any = |text: &str| text.parse::<IpNetwork>().expect(text).is_any();
        assert!(is_any("0.0.0.0/0") && is_any("::/0") && is_any("10.1.2.3/0"));
        assert!(!is_any("0.0.0.0/1") && !is_any("::/1") && !is_any("2001:db8::/96"));
    }
}

//! Addresses that belong together: one, or all that begin with the same bits (RFC 4632).
//!
//! Mapped addresses of IPv4 (`::ffff:a.b.c.d`) are those of IPv4. It resolves no names.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address, or a network of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpNetwork {
    address: IpAddr,
    bits: u8,
}

/// The text is neither an address nor a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoNetwork;

impl IpNetwork {
    /// Whether the address is one of these.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(mine), IpAddr::V4(theirs)) => {
                let differ = u32::from(mine) ^ u32::from(theirs);
                u32::from(self.bits) <= differ.leading_zeros()
            }
            (IpAddr::V6(mine), IpAddr::V6(theirs)) => {
                let differ = u128::from(mine) ^ u128::from(theirs);
                u32::from(self.bits) <= differ.leading_zeros()
            }
            _ => false,
        }
    }
}

impl IpNetwork {
    /// Whether it is all addresses there are.
    pub fn is_any(&self) -> bool {
        self.bits == 0
    }
}

impl FromStr for IpNetwork {
    type Err = NoNetwork;

    /// `address` or `address/bits`.
    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NoNetwork)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| NoNetwork)?;
        if bits > most { Err(NoNetwork) } else { Ok(IpNetwork { address, bits }) }
    }
}

impl fmt::Display for IpNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
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
        for text in ["", "x", "10.0.0.1/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "1.2.3.4/8/9"] {
            assert_eq!(text.parse::<IpNetwork>(), Err(NoNetwork), "{text}");
        }
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
            ("::1", "::1", true),
        ] {
            assert_eq!(has(network, address), is_in, "{address} in {network}");
        }
    }
}

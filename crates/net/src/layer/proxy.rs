//! The PROXY header, versions 1 and 2: who the peer of a load balancer really is.
//!
//! Source: the PROXY protocol specification of HAProxy, sections 2.1 and 2.2. Only listeners that
//! are configured for it read one, and there it is required: a header that anyone may send is a
//! lie that anyone may tell.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Kind of the first bytes, where a PROXY header may stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxyPrefix {
    /// The header is incomplete.
    More,
    /// The bytes are no PROXY header, or a broken one.
    Bad,
    /// A whole one.
    Whole {
        /// Its bytes.
        length: usize,
        /// The peer, when it tells one (`UNKNOWN` and `LOCAL` do not).
        peer: Option<SocketAddr>,
    },
}

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Longest line of version 1, its line end included (section 2.1).
const LINE_MAX: usize = 107;
/// Longest rest of version 2 that is accepted, bytes: addresses and a few TLVs.
const REST_MAX: usize = 536;

/// Reads the header at the front of `bytes`.
pub fn parse(bytes: &[u8]) -> ProxyPrefix {
    if bytes.starts_with(b"PROXY ") {
        return version_1(bytes);
    }
    if bytes.len() < SIGNATURE.len() {
        let begins = b"PROXY ".starts_with(bytes) || SIGNATURE.starts_with(bytes);
        return if begins { ProxyPrefix::More } else { ProxyPrefix::Bad };
    }
    if bytes.starts_with(&SIGNATURE) { version_2(bytes) } else { ProxyPrefix::Bad }
}

fn version_1(bytes: &[u8]) -> ProxyPrefix {
    let window = &bytes[..bytes.len().min(LINE_MAX)];
    let Some(end) = window.windows(2).position(|pair| pair == b"\r\n") else {
        return if bytes.len() < LINE_MAX { ProxyPrefix::More } else { ProxyPrefix::Bad };
    };
    let Ok(line) = std::str::from_utf8(&bytes[..end]) else { return ProxyPrefix::Bad };
    let words: Vec<&str> = line.split(' ').collect();
    let peer = match words[..] {
        ["PROXY", "UNKNOWN", ..] => None,
        ["PROXY", family @ ("TCP4" | "TCP6"), source, destination, from, to] => {
            let parsed = (source.parse::<IpAddr>(), destination.parse::<IpAddr>());
            let (Ok(source), Ok(destination)) = parsed else { return ProxyPrefix::Bad };
            let (Ok(from), Ok(_)) = (from.parse::<u16>(), to.parse::<u16>()) else {
                return ProxyPrefix::Bad;
            };
            if source.is_ipv4() != (family == "TCP4") || destination.is_ipv4() != source.is_ipv4() {
                return ProxyPrefix::Bad;
            }
            Some(SocketAddr::new(source, from))
        }
        _ => return ProxyPrefix::Bad,
    };
    ProxyPrefix::Whole { length: end + 2, peer }
}

fn version_2(bytes: &[u8]) -> ProxyPrefix {
    let Some(head) = bytes.get(12..16) else { return ProxyPrefix::More };
    let rest = usize::from(u16::from_be_bytes([head[2], head[3]]));
    if head[0] >> 4 != 2 || rest > REST_MAX {
        return ProxyPrefix::Bad;
    }
    let Some(body) = bytes.get(16..16 + rest) else { return ProxyPrefix::More };
    let port = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
    let peer = match (head[0] & 0xf, head[1]) {
        (0, _) => None,
        (1, 0x11) if rest >= 12 => {
            let address: [u8; 4] = body[..4].try_into().expect("four of twelve bytes");
            Some(SocketAddr::new(Ipv4Addr::from(address).into(), port(8)))
        }
        (1, 0x21) if rest >= 36 => {
            let address: [u8; 16] = body[..16].try_into().expect("sixteen of 36 bytes");
            Some(SocketAddr::new(Ipv6Addr::from(address).into(), port(32)))
        }
        (1, 0x00 | 0x31) => None,
        _ => return ProxyPrefix::Bad,
    };
    ProxyPrefix::Whole { length: 16 + rest, peer }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Option<SocketAddr> {
        Some(text.parse().expect("an address"))
    }

    #[test]
    fn lines_of_version_1() {
        let line = b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\r\nrest";
        let whole = ProxyPrefix::Whole { length: line.len() - 4, peer: peer("192.0.2.7:56324") };
        assert_eq!(parse(line), whole);
        for cut in 0..line.len() - 5 {
            assert_eq!(parse(&line[..cut]), ProxyPrefix::More, "{cut}");
        }
        let unknown = b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n";
        assert_eq!(parse(unknown), ProxyPrefix::Whole { length: unknown.len(), peer: None });
        for bad in
            ["PROXY TCP4 ::1 ::2 1 2\r\n", "PROXY TCP6 ::1 ::2 1\r\n", "PROXY TCP4 a b 1 2\r\n"]
        {
            assert_eq!(parse(bad.as_bytes()), ProxyPrefix::Bad, "{bad}");
        }
        assert_eq!(parse(&[&b"PROXY TCP4 "[..], &[b'1'; 120]].concat()), ProxyPrefix::Bad);
        assert_eq!(parse(b"\x00\x07"), ProxyPrefix::Bad);
    }

    #[test]
    fn frames_of_version_2() {
        let mut frame = SIGNATURE.to_vec();
        frame.extend_from_slice(&[0x21, 0x11, 0, 12, 192, 0, 2, 9, 10, 0, 0, 1, 0x1f, 0x90, 0, 80]);
        let whole = ProxyPrefix::Whole { length: 28, peer: peer("192.0.2.9:8080") };
        assert_eq!(parse(&frame), whole);
        for cut in 0..frame.len() {
            assert_eq!(parse(&frame[..cut]), ProxyPrefix::More, "{cut}");
        }
        let mut local = SIGNATURE.to_vec();
        local.extend_from_slice(&[0x20, 0, 0, 0]);
        assert_eq!(parse(&local), ProxyPrefix::Whole { length: 16, peer: None });
        let mut version_3 = frame.clone();
        version_3[12] = 0x31;
        assert_eq!(parse(&version_3), ProxyPrefix::Bad);
        let mut short = frame.clone();
        short[15] = 4;
        assert_eq!(parse(&short), ProxyPrefix::Bad);
    }
}

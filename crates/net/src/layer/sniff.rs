//! Protocol sniffing: which protocol begins with these bytes.
//!
//! TLS and HTTP, in which WebSockets begin, are recognised here; every other protocol says how it
//! begins ([`WireProfile`]). The first bytes of all protocols served are disjoint, so that one
//! listener can take them all.

use model::close::CloseReason;
use model::link::{Protocol, WireProfile};

/// The protocol of a connection to a listener that serves `only` this one, or any; `None` while the
/// bytes are too few to tell.
pub fn protocol(
    profiles: &[WireProfile],
    only: Option<Protocol>,
    bytes: &[u8],
) -> Result<Option<Protocol>, CloseReason> {
    let is_begun = |profile: &&WireProfile| {
        let alone = only == Some(profile.protocol) && (profile.begins_alone)(bytes);
        (profile.begins)(bytes) || alone
    };
    match bytes {
        [] | [0x16] => Ok(None),
        [0x16, 0x03, ..] => Ok(Some(Protocol::Tls)),
        _ => match profiles.iter().find(is_begun) {
            Some(profile) => Ok(Some(profile.protocol)),
            None if bytes[0].is_ascii_uppercase() => Ok(Some(Protocol::Http)),
            None => Err(CloseReason::UnknownProtocol),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wires::WIRES;

    #[test]
    fn first_bytes_tell_the_protocols_apart() {
        let of = |bytes: &[u8]| protocol(&WIRES, None, bytes);
        for (bytes, expected) in [
            (&b""[..], None),
            (b"\x00", Some(Protocol::Miop)),
            (b"\x00\x07\x00\x02", Some(Protocol::Miop)),
            (b"\x10\x0c", Some(Protocol::Mqtt)),
            (b"\x16", None),
            (b"\x16\x03\x01", Some(Protocol::Tls)),
            (b"GET / HTTP/1.1", Some(Protocol::Http)),
            (b"P", Some(Protocol::Http)),
        ] {
            assert_eq!(of(bytes), Ok(expected), "{bytes:02x?}");
        }
        for bytes in [&b"\x16\x02"[..], b"\x17\x03", b"get /", b"\xff", b"\x11", b"<?xml"] {
            assert_eq!(of(bytes), Err(CloseReason::UnknownProtocol), "{bytes:02x?}");
        }
        assert_eq!(protocol(&[], None, b"\x10"), Err(CloseReason::UnknownProtocol));
    }

    #[test]
    fn a_listener_of_one_protocol_leaves_it_what_is_wrong() {
        let only = |bytes: &[u8]| protocol(&WIRES, Some(Protocol::Mqtt), bytes);
        assert_eq!(only(b"\x16"), Ok(None));
        assert_eq!(only(b"\x16\x03"), Ok(Some(Protocol::Tls)));
        for bytes in [&b"\x10"[..], b"\x11", b"\x1f", b"\x16\x02"] {
            assert_eq!(only(bytes), Ok(Some(Protocol::Mqtt)), "{bytes:02x?}");
        }
        assert_eq!(only(b"\x20"), Err(CloseReason::UnknownProtocol));
        assert_eq!(only(b"\x00"), Ok(Some(Protocol::Miop)));
        assert_eq!(only(b"GET /"), Ok(Some(Protocol::Http)));
    }
}

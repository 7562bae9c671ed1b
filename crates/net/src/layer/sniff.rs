//! Which protocol begins with these bytes.
//!
//! The first bytes of all protocols served are disjoint (research/push-and-load.md 1.2), so one
//! listener can take them all. A MIOP version that is not served is still MIOP: its machine knows
//! how to say so.

use model::close::CloseReason;
use model::link::Protocol;

/// The protocol, `None` while the bytes are too few to tell.
pub fn protocol(bytes: &[u8]) -> Result<Option<Protocol>, CloseReason> {
    match bytes {
        [] => Ok(None),
        [0x00, ..] => Ok(Some(Protocol::Miop)),
        [0x10, ..] => Ok(Some(Protocol::Mqtt)),
        [0x16] => Ok(None),
        [0x16, 0x03, ..] => Ok(Some(Protocol::Tls)),
        [b'<', ..] => Ok(Some(Protocol::Xmpp)),
        [letter, ..] if letter.is_ascii_uppercase() => Ok(Some(Protocol::Http)),
        _ => Err(CloseReason::UnknownProtocol),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell() {
        let cases: [(&[u8], Option<Protocol>); 8] = [
            (b"", None),
            (b"\x00", Some(Protocol::Miop)),
            (b"\x00\x07\x00\x02", Some(Protocol::Miop)),
            (b"\x10\x0c", Some(Protocol::Mqtt)),
            (b"\x16", None),
            (b"\x16\x03\x01", Some(Protocol::Tls)),
            (b"<?xml", Some(Protocol::Xmpp)),
            (b"GET / HTTP/1.1", Some(Protocol::Http)),
        ];
        for (bytes, expected) in cases {
            assert_eq!(protocol(bytes), Ok(expected), "{bytes:?}");
        }
        for bytes in [&b"\x16\x04"[..], b"\xff", b"get /", b"\x20"] {
            assert_eq!(protocol(bytes), Err(CloseReason::UnknownProtocol), "{bytes:?}");
        }
    }
}

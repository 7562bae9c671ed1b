//! Protocol sniffing: which protocol begins with these bytes.
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

/// The same where one protocol alone is served, which knows better than this what is wrong with its
/// first byte: MQTT has flags in it.
pub fn protocol_of(only: Option<Protocol>, bytes: &[u8]) -> Result<Option<Protocol>, CloseReason> {
    match (only, bytes) {
        (Some(Protocol::Mqtt), [0x16]) => Ok(None),
        (Some(Protocol::Mqtt), [0x16, 0x03, ..]) => Ok(Some(Protocol::Tls)),
        (Some(Protocol::Mqtt), [0x10..=0x1f, ..]) => Ok(Some(Protocol::Mqtt)),
        _ => protocol(bytes),
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

    #[test]
    fn a_listener_of_mqtt_alone_leaves_the_flags_to_it() {
        let only = Some(Protocol::Mqtt);
        for first in 0x10..=0x1f {
            assert_eq!(protocol_of(only, &[first, 0x0c]), Ok(only), "{first:#x}");
        }
        assert_eq!(protocol_of(only, &[0x16, 0x03]), Ok(Some(Protocol::Tls)));
        assert_eq!(protocol_of(only, &[0x16]), Ok(None));
        assert_eq!(protocol_of(None, &[0x11, 0x0c]), Err(CloseReason::UnknownProtocol));
        assert_eq!(protocol_of(only, b"GET /"), Ok(Some(Protocol::Http)));
    }
}

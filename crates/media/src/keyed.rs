//! MACs, and how addresses are spelt: what both storages sign with.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// HMAC-SHA-256 (RFC 2104) of parts as if they were one.
pub(crate) fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = keyed(key);
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// Whether `shown` is the beginning of the MAC of these parts, in constant time.
pub(crate) fn is_mac(key: &[u8], parts: &[&[u8]], shown: &[u8]) -> bool {
    let mut mac = keyed(key);
    parts.iter().for_each(|part| mac.update(part));
    mac.verify_truncated_left(shown).is_ok()
}

pub(crate) fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of every length")
}

/// Escapes all but unreserved characters (RFC 3986 2.3).
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte.into());
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Decodes an escaped text; `None`: an escape is malformed, or the result is no UTF-8.
pub(crate) fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = behind;
            continue;
        }
        let digits = std::str::from_utf8(rest.get(1..3)?).ok()?;
        let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| plain)?);
        rest = &rest[3..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mac_of_the_standard() {
        // RFC 4231 4.3
        let whole = mac(b"Jefe", &[b"what do ya want ", b"for nothing?"]);
        let digits = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(base::hex::encode(&whole), digits);
        assert!(is_mac(b"Jefe", &[b"what do ya want for nothing?"], &whole[..16]));
        assert!(!is_mac(b"Jefe", &[b"what do ya want for nothing?"], &whole[1..17]));
        assert!(!is_mac(b"Jefe", &[b"what do ya want for nothing?"], &[]), "nothing is no MAC");
    }

    #[test]
    fn what_is_escaped_comes_back_and_what_is_not_is_refused() {
        for text in ["", "a b/c?d#e%", "猫.png", "~-._"] {
            assert_eq!(unescaped(&escaped(text)).as_deref(), Some(text));
        }
        assert_eq!(escaped("a b/猫"), "a%20b%2F%E7%8C%AB");
        for bad in ["%", "%1", "%zz", "%+1", "%ff", "a%2"] {
            assert_eq!(unescaped(bad), None, "{bad}");
        }
    }
}

//! Signature of a Bind: which bytes a device signs (MIOP 6).
//!
//! Version 7 signs eight parts, each behind its length, so that no two claims have the same bytes.
//! The classic recipe uses characters that cannot stand inside its parts. Comparing signatures is
//! the hub's part: it has the secrets.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// First part of what version 7 signs.
pub const LABEL: &[u8] = b"MIOP7-BIND";

/// Value of `authtype` that says: `sign` follows the recipe of [`classic`].
pub const CLASSIC_AUTHTYPE: &str = "7";

/// Claim of a version 7 device in its Bind.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The product's key.
    pub product: &'a [u8],
    /// The device's id.
    pub device: &'a [u8],
    /// The device's clock, Unix milliseconds.
    pub client_ts: u64,
    /// Its nonce.
    pub client_nonce: &'a [u8; 16],
    /// Capabilities of the device.
    pub caps: u32,
}

impl Claim<'_> {
    /// The bytes that are signed. The seventh part is kept for keying material of the TLS
    /// connection and empty so far; the eighth, the server's nonce, is empty in a Bind.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(128 + self.product.len() + self.device.len());
        part(LABEL, &mut bytes);
        part(self.product, &mut bytes);
        part(self.device, &mut bytes);
        part(&self.client_ts.to_be_bytes(), &mut bytes);
        part(self.client_nonce, &mut bytes);
        part(&self.caps.to_be_bytes(), &mut bytes);
        part(&[], &mut bytes);
        part(&[], &mut bytes);
        bytes
    }
}

/// The bytes that are signed after a challenge: those of the Bind with the server's nonce as
/// eighth part.
pub fn challenged(bind: &[u8], server_nonce: &[u8; 16]) -> Vec<u8> {
    debug_assert!(bind.ends_with(&[0, 0]), "a Bind's eighth part is empty");
    let mut bytes = bind[..bind.len() - 2].to_vec();
    part(server_nonce, &mut bytes);
    bytes
}

/// The bytes that a classic `sign` covers: the three values as they stand in the frame, an absent
/// `t` as nothing.
pub fn classic(u: &str, ts: &str, t: &str) -> Vec<u8> {
    format!("u={u}&ts={ts}&t={t}").into_bytes()
}

/// HMAC-SHA256 of `bytes` with `secret`.
pub fn mac(secret: &[u8], bytes: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(bytes);
    mac.finalize().into_bytes().into()
}

/// A classic `sign`: the first 16 bytes of the signature.
pub fn classic_mac(secret: &[u8], bytes: &[u8]) -> [u8; 16] {
    *mac(secret, bytes).first_chunk().expect("16 of 32 bytes")
}

fn part(bytes: &[u8], out: &mut Vec<u8>) {
    let length = u16::try_from(bytes.len()).expect("parts are names, numbers and nonces");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim<'a>(product: &'a [u8], device: &'a [u8]) -> Claim<'a> {
        let client_nonce = &[7; 16];
        Claim { product, device, client_ts: 1, client_nonce, caps: 0 }
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(claim(b"ab", b"c").bytes(), claim(b"a", b"bc").bytes());
        let plain = claim(b"a", b"b").bytes();
        let answer = challenged(&plain, &[9; 16]);
        assert_ne!(plain, answer);
        assert_eq!(answer.len(), plain.len() + 16);
        assert!(answer.starts_with(&plain[..plain.len() - 2]));
    }

    #[test]
    fn the_mac_is_rfc_4231_case_1() {
        let expected = "b0344c61d8db38535ca8afceaf0bf12b";
        assert_eq!(base::hex::encode(&classic_mac(&[0x0b; 20], b"Hi There")), expected);
    }
}

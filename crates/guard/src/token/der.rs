//! Just enough DER to find a public key in its wrapping (RFC 5280 4.1.2.7, RFC 8017 A.1.1).
//!
//! The reader does not check a key: the verification does. Invariant: nothing behind the key is
//! left unread.

/// Kind of key that a wrapping names.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Wrapped {
    /// Modulus and exponent.
    Rsa(Box<[u8]>, Box<[u8]>),
    /// A point of P-256, uncompressed.
    P256(Box<[u8]>),
    /// A point of P-384, uncompressed.
    P384(Box<[u8]>),
    /// A key of Ed25519.
    Ed25519(Box<[u8]>),
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT: u8 = 0x06;

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const CURVE_P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const CURVE_P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// The key in a SubjectPublicKeyInfo.
pub(super) fn public_key(der: &[u8]) -> Option<Wrapped> {
    let mut outer = der;
    let mut info = value(&mut outer, SEQUENCE)?;
    let mut algorithm = value(&mut info, SEQUENCE)?;
    let key = value(&mut info, BIT_STRING)?.strip_prefix(&[0])?;
    if !outer.is_empty() || !info.is_empty() {
        return None;
    }
    let kind = value(&mut algorithm, OBJECT)?;
    match kind {
        RSA => rsa(key),
        ED25519 => Some(Wrapped::Ed25519(key.into())),
        EC => match value(&mut algorithm, OBJECT)? {
            CURVE_P256 => Some(Wrapped::P256(key.into())),
            CURVE_P384 => Some(Wrapped::P384(key.into())),
            _ => None,
        },
        _ => None,
    }
}

/// The key in an RSAPublicKey.
pub(super) fn rsa(der: &[u8]) -> Option<Wrapped> {
    let mut outer = der;
    let mut key = value(&mut outer, SEQUENCE)?;
    let mut number = || {
        let bytes = value(&mut key, INTEGER)?;
        Some(bytes.strip_prefix(&[0]).unwrap_or(bytes))
    };
    let (modulus, exponent) = (number()?, number()?);
    (outer.is_empty() && key.is_empty()).then(|| Wrapped::Rsa(modulus.into(), exponent.into()))
}

/// The value of the next element, which must be of this kind.
fn value<'a>(rest: &mut &'a [u8], kind: u8) -> Option<&'a [u8]> {
    let (&found, behind) = rest.split_first()?;
    let (&first, mut behind) = behind.split_first()?;
    let length = match first {
        0..=0x7f => usize::from(first),
        0x81 | 0x82 => {
            let (digits, more) = behind.split_at_checked(usize::from(first & 0x7f))?;
            behind = more;
            digits.iter().fold(0, |sum, &digit| sum << 8 | usize::from(digit))
        }
        _ => return None,
    };
    let (value, more) = behind.split_at_checked(length)?;
    *rest = more;
    (found == kind).then_some(value)
}

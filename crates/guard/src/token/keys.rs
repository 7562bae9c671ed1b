//! Keys that tokens are verified with: secrets, PEM files, and sets of keys (RFC 7517).
//!
//! This module reads no files and fetches nothing. Invariant: a key verifies only algorithms of its
//! own kind; RSA keys have 2,048 bits at least and secrets 256 (RFC 7518 3.2, 3.3).

use super::Algorithm;
use super::der::{self, Wrapped};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine};
use ring::{hmac, signature};
use serde_json::Value;

/// Shortest secret, bytes.
pub const SECRET_BYTES_MIN: usize = 32;

/// Keys in a set, at most; those behind are left out.
const KEYS_MAX: usize = 64;

/// Keys, in the order in which they are tried.
#[derive(Debug, Default)]
pub struct Keys(Vec<TokenKey>);

/// A key.
pub struct TokenKey {
    kid: Option<Box<str>>,
    /// The only algorithm it is for.
    algorithm: Option<Algorithm>,
    material: Material,
}

enum Material {
    Secret(Box<[u8]>),
    Rsa { modulus: Box<[u8]>, exponent: Box<[u8]> },
    P256(Box<[u8]>),
    P384(Box<[u8]>),
    Ed25519(Box<[u8]>),
}

impl Keys {
    /// Adds a secret; the error says why it is none.
    pub fn add_secret(&mut self, secret: &[u8]) -> Result<(), String> {
        if secret.starts_with(b"-----BEGIN") {
            return Err("this is a public key, not a secret: name its file in key_files".into());
        }
        let material = Material::secret(secret.into()).ok_or(format!(
            "a secret must have at least {SECRET_BYTES_MIN} bytes (RFC 7518 3.2)"
        ))?;
        self.0.push(TokenKey { kid: None, algorithm: None, material });
        Ok(())
    }

    /// Adds the public keys of a PEM file; the error says why there are none.
    pub fn add_pem(&mut self, text: &str) -> Result<(), String> {
        let before = self.0.len();
        let mut lines = text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            let Some(label) =
                line.strip_prefix("-----BEGIN ").and_then(|l| l.strip_suffix("-----"))
            else {
                continue;
            };
            let body: String = lines.by_ref().take_while(|line| !line.starts_with('-')).collect();
            let der = BASE64_STANDARD.decode(body).map_err(|_| "its content is not base64")?;
            let wrapped = match label {
                "PUBLIC KEY" => der::public_key(&der),
                "RSA PUBLIC KEY" => der::rsa(&der),
                other => return Err(format!("a {other} is not a PUBLIC KEY")),
            };
            let wrapped = wrapped.ok_or("it has no RSA, P-256, P-384 or Ed25519 key")?;
            let material = Material::of(wrapped)?;
            self.0.push(TokenKey { kid: None, algorithm: None, material });
        }
        if self.0.len() == before { Err("it has no PUBLIC KEY".into()) } else { Ok(()) }
    }

    /// Adds a set of keys in JSON, or a single one. Those that are not for signatures, or of a kind
    /// that is not known, are left out (RFC 7517 5); in words, why there is none.
    pub fn add_set(&mut self, text: &str) -> Result<(), String> {
        let set: Value = serde_json::from_str(text).map_err(|_| "it is not JSON")?;
        let single = [&set];
        let keys: Vec<&Value> = match set.get("keys") {
            Some(keys) => keys.as_array().ok_or("keys must be a list")?.iter().collect(),
            None => single.into(),
        };
        let keys: Vec<TokenKey> =
            keys.into_iter().filter_map(TokenKey::of).take(KEYS_MAX).collect();
        if keys.is_empty() {
            return Err("it has no supported signature key".into());
        }
        self.0.extend(keys);
        Ok(())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &TokenKey> {
        self.0.iter()
    }
}

impl TokenKey {
    /// The key that a JWK says (RFC 7517 4, RFC 7518 6, RFC 8037 2).
    fn of(jwk: &Value) -> Option<TokenKey> {
        let text = |name| jwk.get(name).and_then(Value::as_str);
        let bytes = |name| BASE64_URL_SAFE_NO_PAD.decode(text(name)?).ok();
        if text("use").is_some_and(|wanted| wanted != "sig") {
            return None;
        }
        let operations = jwk.get("key_ops").and_then(Value::as_array);
        if operations.is_some_and(|all| !all.iter().any(|one| one == "verify")) {
            return None;
        }
        let point = |length| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            let is_whole = x.len() == length && y.len() == length;
            is_whole.then(|| [&[4], &*x, &*y].concat().into())
        };
        let material = match (text("kty")?, text("crv")) {
            ("oct", _) => Material::secret(bytes("k")?.into())?,
            ("RSA", _) => {
                Material::of(Wrapped::Rsa(bytes("n")?.into(), bytes("e")?.into())).ok()?
            }
            ("EC", Some("P-256")) => Material::P256(point(32)?),
            ("EC", Some("P-384")) => Material::P384(point(48)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes("x")?.into()),
            _ => return None,
        };
        // One for an algorithm that is not known is for none.
        let algorithm = match text("alg") {
            Some(name) => Some(Algorithm::of(name)?),
            None => None,
        };
        Some(TokenKey { kid: text("kid").map(Box::from), algorithm, material })
    }

    pub(super) fn has_kid(&self) -> bool {
        self.kid.is_some()
    }

    /// Whether a token of this algorithm and key name may be this key's.
    pub(super) fn could_sign(&self, algorithm: Algorithm, kid: Option<&str>) -> bool {
        let is_named = match (kid, self.kid.as_deref()) {
            (Some(wanted), Some(own)) => wanted == own,
            _ => true,
        };
        is_named
            && self.algorithm.is_none_or(|own| own == algorithm)
            && self.material.serves(algorithm)
    }

    /// Whether it signed this (RFC 7518 3).
    pub(super) fn signed(&self, algorithm: Algorithm, signed: &[u8], signature: &[u8]) -> bool {
        let verify = |by: &'static dyn signature::VerificationAlgorithm, key: &[u8]| {
            signature::UnparsedPublicKey::new(by, key).verify(signed, signature).is_ok()
        };
        match &self.material {
            Material::Secret(secret) => {
                let by = match algorithm {
                    Algorithm::Hs256 => hmac::HMAC_SHA256,
                    Algorithm::Hs384 => hmac::HMAC_SHA384,
                    Algorithm::Hs512 => hmac::HMAC_SHA512,
                    _ => return false,
                };
                hmac::verify(&hmac::Key::new(by, secret), signed, signature).is_ok()
            }
            Material::Rsa { modulus: n, exponent: e } => {
                let by = match algorithm {
                    Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                    Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                    Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
                    Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
                    Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
                    _ => return false,
                };
                let key = signature::RsaPublicKeyComponents { n, e };
                key.verify(by, signed, signature).is_ok()
            }
            Material::P256(point) => {
                algorithm == Algorithm::Es256 && verify(&signature::ECDSA_P256_SHA256_FIXED, point)
            }
            Material::P384(point) => {
                algorithm == Algorithm::Es384 && verify(&signature::ECDSA_P384_SHA384_FIXED, point)
            }
            Material::Ed25519(key) => {
                algorithm == Algorithm::EdDsa && verify(&signature::ED25519, key)
            }
        }
    }
}

impl Material {
    fn secret(secret: Box<[u8]>) -> Option<Material> {
        (secret.len() >= SECRET_BYTES_MIN).then_some(Material::Secret(secret))
    }

    fn of(wrapped: Wrapped) -> Result<Material, String> {
        match wrapped {
            Wrapped::Rsa(modulus, exponent) => {
                let bits = modulus.len() * 8
                    - modulus.first().map_or(0, |first| first.leading_zeros() as usize);
                match (2_048..=8_192).contains(&bits) {
                    true => Ok(Material::Rsa { modulus, exponent }),
                    false => Err(format!("an RSA key of {bits} bits: 2048 to 8192 are required")),
                }
            }
            Wrapped::P256(point) => Ok(Material::P256(point)),
            Wrapped::P384(point) => Ok(Material::P384(point)),
            Wrapped::Ed25519(key) => Ok(Material::Ed25519(key)),
        }
    }

    fn serves(&self, algorithm: Algorithm) -> bool {
        use Algorithm::{EdDsa, Es256, Es384, Hs256, Hs384, Hs512};
        match self {
            Material::Secret(_) => matches!(algorithm, Hs256 | Hs384 | Hs512),
            Material::P256(_) => algorithm == Es256,
            Material::P384(_) => algorithm == Es384,
            Material::Ed25519(_) => algorithm == EdDsa,
            Material::Rsa { .. } => {
                !matches!(algorithm, Hs256 | Hs384 | Hs512 | Es256 | Es384 | EdDsa)
            }
        }
    }
}

impl std::fmt::Debug for TokenKey {
    /// Without what it is.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key {{ kid: {:?}, .. }}", self.kid)
    }
}

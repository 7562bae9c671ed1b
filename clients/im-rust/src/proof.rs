//! How a client proves who it is: SCRAM-SHA-256 (RFC 5802, RFC 7677) and login tokens (IM 3.5).

use crate::sha256::{pbkdf2, sha256, Hmac};
use crate::transport::{base64, unbase64};

/// The method of a password.
pub const SCRAM: &str = "SCRAM-SHA-256";
/// The method of a login token.
pub const HASHED_TOKEN: &str = "HT-SHA-256-NONE";
/// Most iterations that are computed for a server: a hostile one shall not keep us busy.
const ITERATIONS_MAX: u32 = 1_000_000;

/// One exchange. Names and passwords are taken as they are, without SASLprep.
pub struct Scram {
    password: String,
    nonce: String,
    bare: String,
}

impl Scram {
    /// Begins one. The nonce must be new.
    pub fn new(name: &str, password: &str, nonce: &str) -> Scram {
        let quoted = name.replace('=', "=3D").replace(',', "=2C");
        let bare = format!("n={quoted},r={nonce}");
        Scram { password: password.to_owned(), nonce: nonce.to_owned(), bare }
    }

    /// The data of Login.
    pub fn first(&self) -> Vec<u8> {
        format!("n,,{}", self.bare).into_bytes()
    }

    /// The data of Proceed, and what the server must say then; `None`: this is no challenge to this
    /// exchange.
    pub fn answer(&self, challenge: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let text = std::str::from_utf8(challenge).ok()?;
        let field = |name: &str| text.split(',').find_map(|part| part.strip_prefix(name));
        let nonce = field("r=")?;
        let salt = unbase64(field("s=")?)?;
        let iterations: u32 = field("i=")?.parse().ok()?;
        let is_ours = nonce.starts_with(&self.nonce) && nonce.len() > self.nonce.len();
        if !is_ours || !(1..=ITERATIONS_MAX).contains(&iterations) {
            return None;
        }
        let salted = Hmac::new(&pbkdf2(self.password.as_bytes(), &salt, iterations));
        let mut proof = salted.of(b"Client Key");
        let last = format!("c=biws,r={nonce}");
        let said = format!("{},{text},{last}", self.bare);
        let signature = Hmac::new(&sha256(&proof)).of(said.as_bytes());
        proof.iter_mut().zip(signature).for_each(|(key, byte)| *key ^= byte);
        let server = Hmac::new(&salted.of(b"Server Key")).of(said.as_bytes());
        let answer = format!("{last},p={}", base64(&proof));
        Some((answer.into_bytes(), format!("v={}", base64(&server)).into_bytes()))
    }
}

/// The data of Login with a login token, and what the server must say then.
pub fn hashed_token(name: &str, token: &str) -> (Vec<u8>, Vec<u8>) {
    let key = Hmac::new(token.as_bytes());
    let first = [name.as_bytes(), b"\0", &key.of(b"Initiator")].concat();
    (first, key.of(b"Responder").to_vec())
}

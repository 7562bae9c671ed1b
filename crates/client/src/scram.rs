//! SCRAM-SHA-256 and SCRAM-SHA-1, the client's side (RFC 5802 5, RFC 7677 3): it proves that it
//! knows the password without showing it, and that the server knows it too.
//!
//! ```text
//!  client: n,,n=user,r=nonce          server: r=nonce+its own,s=salt,i=iterations
//!  client: c=biws,r=...,p=proof       server: v=signature
//! ```
//! No channel is bound. Names are taken as they are, without SASLprep, as the other brokers do.

use crate::settings::Scram;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};
use std::num::NonZeroU32;

/// The method's name in CONNECT and AUTH.
pub const METHOD: &str = "SCRAM-SHA-256";

/// The hash that a proof is made with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScramDigest {
    /// SHA-1 (RFC 5802): what servers of XMPP have at least.
    Sha1,
    /// SHA-256 (RFC 7677).
    Sha256,
}

impl ScramDigest {
    /// The method's name.
    pub const fn method(self) -> &'static str {
        match self {
            ScramDigest::Sha1 => "SCRAM-SHA-1",
            ScramDigest::Sha256 => METHOD,
        }
    }

    fn digest(self) -> &'static digest::Algorithm {
        match self {
            ScramDigest::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            ScramDigest::Sha256 => &digest::SHA256,
        }
    }

    fn mac(self, key: &[u8], said: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            ScramDigest::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            ScramDigest::Sha256 => hmac::HMAC_SHA256,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), said).as_ref().to_vec()
    }

    fn salted(self, password: &[u8], salt: &[u8], iterations: NonZeroU32) -> Vec<u8> {
        let algorithm = match self {
            ScramDigest::Sha1 => pbkdf2::PBKDF2_HMAC_SHA1,
            ScramDigest::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
        };
        let mut salted = vec![0; self.digest().output_len()];
        pbkdf2::derive(algorithm, iterations, salt, password, &mut salted);
        salted
    }
}

/// Most iterations that are computed for a server: a hostile one shall not keep us busy.
const ITERATIONS_MAX: u32 = 1_000_000;

/// One proof under way.
pub struct ScramProof {
    /// The client's first message, without its header.
    first: String,
    nonce: String,
    password: String,
    hash: ScramDigest,
    /// Signature that the server must send in the end.
    signature: Option<Vec<u8>>,
}

impl ScramProof {
    /// Begins by SHA-256; `random` is drawn anew for each.
    pub fn new(who: &Scram, random: [u8; 18]) -> ScramProof {
        ScramProof::with(ScramDigest::Sha256, who, random)
    }

    /// Begins with a hash.
    pub fn with(hash: ScramDigest, who: &Scram, random: [u8; 18]) -> ScramProof {
        let nonce = STANDARD.encode(random);
        let user = who.user.replace('=', "=3D").replace(',', "=2C");
        let first = format!("n={user},r={nonce}");
        ScramProof { first, nonce, password: who.password.clone(), hash, signature: None }
    }

    /// Data of the method for CONNECT.
    pub fn first(&self) -> Box<[u8]> {
        format!("n,,{}", self.first).into_bytes().into()
    }

    /// The answer to the server's challenge; `None`: it is no challenge to this proof.
    pub fn answer(&mut self, challenge: &[u8]) -> Option<Box<[u8]>> {
        let challenge = std::str::from_utf8(challenge).ok()?;
        let nonce = field(challenge, "r=")?;
        let salt = STANDARD.decode(field(challenge, "s=")?).ok()?;
        let iterations: u32 = field(challenge, "i=")?.parse().ok()?;
        let is_ours = nonce.len() > self.nonce.len() && nonce.starts_with(&self.nonce);
        let iterations = NonZeroU32::new(iterations).filter(|i| i.get() <= ITERATIONS_MAX)?;
        if !is_ours {
            return None;
        }
        let hash = self.hash;
        let salted = hash.salted(self.password.as_bytes(), &salt, iterations);
        let key = hash.mac(&salted, b"Client Key");
        let stored = digest::digest(hash.digest(), &key);
        let last = format!("c=biws,r={nonce}");
        let said = format!("{},{challenge},{last}", self.first);
        let signature = hash.mac(stored.as_ref(), said.as_bytes());
        let proof: Vec<u8> = key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        self.signature = Some(hash.mac(&hash.mac(&salted, b"Server Key"), said.as_bytes()));
        Some(format!("{last},p={}", STANDARD.encode(proof)).into_bytes().into())
    }

    /// Whether the server's last word shows that it knows the password.
    pub fn is_proved(&self, last: &[u8]) -> bool {
        let said = std::str::from_utf8(last).ok().and_then(|text| field(text, "v="));
        let said = said.and_then(|text| STANDARD.decode(text).ok());
        said.is_some() && said == self.signature
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split(',').find_map(|field| field.strip_prefix(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677 3.
    #[test]
    fn the_example_of_the_standard_comes_out() {
        let who = Scram { user: "user".into(), password: "pencil".into() };
        let mut proof = ScramProof::new(&who, [0; 18]);
        proof.nonce = "rOprNGfwEbeRWgbNEkqO".into();
        proof.first = "n=user,r=rOprNGfwEbeRWgbNEkqO".into();
        let challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
            s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let answer = proof.answer(challenge).expect("an answer");
        assert_eq!(
            std::str::from_utf8(&answer),
            Ok("c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
        );
        assert!(proof.is_proved(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert!(!proof.is_proved(b"v=AAAA"));
        assert!(!proof.is_proved(b"e=other-error"));
    }

    /// The example of RFC 5802 5.
    #[test]
    fn the_example_of_sha_1_comes_out() {
        let who = Scram { user: "user".into(), password: "pencil".into() };
        let mut proof = ScramProof::with(ScramDigest::Sha1, &who, [0; 18]);
        proof.nonce = "fyko+d2lbbFgONRv9qkxdawL".into();
        proof.first = "n=user,r=fyko+d2lbbFgONRv9qkxdawL".into();
        let challenge = b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096";
        let answer = proof.answer(challenge).expect("an answer");
        assert_eq!(
            std::str::from_utf8(&answer),
            Ok("c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,\
                p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=")
        );
        assert!(proof.is_proved(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="));
        assert!(!proof.is_proved(b"v=AAAA"));
    }

    #[test]
    fn a_challenge_that_is_not_ours_is_not_answered() {
        let who = Scram { user: "a,b=c".into(), password: "x".into() };
        let mut proof = ScramProof::new(&who, [7; 18]);
        assert!(proof.first.starts_with("n=a=2Cb=3Dc,r="));
        assert_eq!(proof.answer(b"r=other,s=QQ==,i=1"), None);
        let endless = format!("r={}x,s=QQ==,i=4000000000", proof.nonce);
        assert_eq!(proof.answer(endless.as_bytes()), None);
    }
}

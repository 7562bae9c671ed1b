//! SCRAM-SHA-256, the client's side (RFC 5802 5, RFC 7677 3): it proves that it knows the password
//! without showing it, and that the server knows it too.
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

/// Most iterations that are computed for a server: a hostile one shall not keep us busy.
const ITERATIONS_MAX: u32 = 1_000_000;

/// One proof under way.
pub struct ScramProof {
    /// The client's first message, without its header.
    first: String,
    nonce: String,
    password: String,
    /// What the server must say in the end.
    signature: Option<Vec<u8>>,
}

impl ScramProof {
    /// Begins; `random` is drawn anew for each.
    pub fn new(who: &Scram, random: [u8; 18]) -> ScramProof {
        let nonce = STANDARD.encode(random);
        let user = who.user.replace('=', "=3D").replace(',', "=2C");
        let first = format!("n={user},r={nonce}");
        ScramProof { first, nonce, password: who.password.clone(), signature: None }
    }

    /// What stands in CONNECT.
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
        let mut salted = [0; 32];
        let password = self.password.as_bytes();
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, password, &mut salted);
        let key = mac(&salted, b"Client Key");
        let stored = digest::digest(&digest::SHA256, &key);
        let last = format!("c=biws,r={nonce}");
        let said = format!("{},{challenge},{last}", self.first);
        let signature = mac(stored.as_ref(), said.as_bytes());
        let proof: Vec<u8> = key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        self.signature = Some(mac(&mac(&salted, b"Server Key"), said.as_bytes()));
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

fn mac(key: &[u8], said: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), said).as_ref().to_vec()
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

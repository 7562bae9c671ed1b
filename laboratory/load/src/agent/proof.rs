//! That both know the token, without saying it.
//!
//! Each side draws 32 random bytes. The coordinator proves itself first, so that a stranger who
//! calls an agent learns nothing that a token could be guessed from; then the agent does. A proof
//! is HMAC-SHA-256 (RFC 2104) under the token over the role's name and both nonces, so that no
//! proof can be used in another exchange or by the other side.

use base::hex;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// Random bytes that make an exchange unlike any other.
pub(super) type Nonce = Hex;

/// 32 bytes, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hex([u8; 32]);

/// Role in a proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Coordinator,
    Agent,
}

/// Fresh random bytes.
pub(super) fn nonce() -> Result<Nonce, String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| format!("no random bytes: {error}"))?;
    Ok(Hex(bytes))
}

/// The proof of `role` in the exchange of these two nonces.
pub(super) fn prove(token: &str, role: Role, coordinator: Nonce, agent: Nonce) -> Hex {
    Hex(mac(token, role, coordinator, agent).finalize().into_bytes().into())
}

/// Whether a proof is right, in constant time.
pub(super) fn holds(proof: Hex, token: &str, role: Role, coordinator: Nonce, agent: Nonce) -> bool {
    mac(token, role, coordinator, agent).verify_slice(&proof.0).is_ok()
}

fn mac(token: &str, role: Role, coordinator: Nonce, agent: Nonce) -> Hmac<Sha256> {
    let mac = Hmac::<Sha256>::new_from_slice(token.as_bytes());
    let name: &[u8] = match role {
        Role::Coordinator => b"holdline coordinator",
        Role::Agent => b"holdline agent",
    };
    let mac = mac.expect("HMAC takes keys of any length");
    mac.chain_update(name).chain_update(coordinator.0).chain_update(agent.0)
}

impl Serialize for Hex {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom("expected 64 hexadecimal digits");
        hex::decode_array(&digits).map(Hex).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_its_token_its_role_and_its_exchange_alone() {
        let (c, a) = (Hex([1; 32]), Hex([2; 32]));
        let proof = prove("secret", Role::Agent, c, a);
        assert!(holds(proof, "secret", Role::Agent, c, a));
        assert!(!holds(proof, "secreT", Role::Agent, c, a));
        assert!(!holds(proof, "secret", Role::Coordinator, c, a));
        assert!(!holds(proof, "secret", Role::Agent, a, c));
        assert!(!holds(proof, "secret", Role::Agent, c, Hex([3; 32])));
    }

    #[test]
    fn digits_are_read_back_and_nothing_else_is() {
        let nonce = nonce().expect("random bytes");
        let text = serde_json::to_string(&nonce).expect("text");
        assert_eq!(serde_json::from_str::<Hex>(&text).expect("its own digits"), nonce);
        for wrong in ["\"\"", "\"00\"", "7", &format!("\"{}\"", "é".repeat(32))] {
            assert!(serde_json::from_str::<Hex>(wrong).is_err(), "{wrong}");
        }
        assert!(serde_json::from_str::<Hex>(&format!("\"+{}\"", "0".repeat(63))).is_err());
    }
}

//! Ids of occupants as Prosody makes them (XEP-0421): of an address and a salt of the room's.
//!
//! So it can be tried whose an id is, and cannot be read from it. Invariant: the salt is printed by
//! nothing.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// Generator of the ids of a room's occupants.
#[derive(Clone, PartialEq, Eq)]
pub struct OccupantIds {
    salt: Box<str>,
}

impl OccupantIds {
    /// Ids of a room with this salt.
    pub fn of_salt(salt: &str) -> OccupantIds {
        OccupantIds { salt: salt.into() }
    }

    /// That of somebody, by its bare JID.
    pub fn id_of(&self, jid: &str) -> String {
        // The address is the key, however long it is.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(jid.as_bytes()) else {
            return String::new();
        };
        mac.update(self.salt.as_bytes());
        STANDARD.encode(mac.finalize().into_bytes())
    }
}

impl fmt::Debug for OccupantIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OccupantIds")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_that_prosody_makes() {
        // Of a room of Prosody 0.12.3.
        let ids = OccupantIds::of_salt("3bc2de49-1171-46d5-babc-4479e38298a9");
        assert_eq!(ids.id_of("ann@b.example"), "THUrYlk+IjoAbstBTH6W3MSgBj9v3/fVCOinlmGOizM=");
        assert_eq!(ids.id_of("bob@b.example"), "DZNcDCS5TJklcq1tyMHuylLFbjT4pEMDHe617yEqfpQ=");
        assert!(!format!("{ids:?}").contains("3bc2"));
    }
}

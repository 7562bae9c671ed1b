//! Partitioning: which shard a principal belongs to.
//!
//! The hash is the one by which a connection finds its home, so that whoever notes a transition is
//! whoever is asked about it. Knows nothing of shards but how many they are.

use base::hash::{self, HashKey};
use model::id::ShardId;
use model::presence::Principal;

/// The shard on which everything about `who` happens.
pub fn owner(home: HashKey, shards: u16, who: &Principal) -> ShardId {
    let hash = match who {
        Principal::Device(product, device) => {
            home.of(&[product.as_str().as_bytes(), device.as_str().as_bytes()])
        }
        Principal::Client(id) => home.of(&[b"mqtt", id.as_bytes()]),
    };
    ShardId(hash::home(hash, shards.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_principal_has_one_owner_below_the_number_of_shards() {
        let home = HashKey::new(1, 2);
        let mut held = [0_u32; 4];
        for n in 0..4_000 {
            let device = Principal::parse(&format!("demo#d{n}")).expect("a device");
            let client = Principal::parse(&format!("#c{n}")).expect("a client");
            for who in [device, client] {
                assert_eq!(owner(home, 4, &who), owner(home, 4, &who));
                held[usize::from(owner(home, 4, &who).0)] += 1;
            }
        }
        assert!(held.iter().all(|&count| (1_700..2_300).contains(&count)), "{held:?}");
    }
}

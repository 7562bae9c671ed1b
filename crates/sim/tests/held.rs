//! Devices of every protocol, held to measure what each costs: they are there.

use sim::hold::{HoldPlan, HoldProtocol, HoldStage, hold};

#[test]
fn whoever_is_held_has_a_session_of_its_own() {
    for protocol in [HoldProtocol::Miop, HoldProtocol::Mqtt, HoldProtocol::Im] {
        for shards in [1, 2] {
            let held = hold(HoldStage::Whole, HoldPlan { protocol, clients: 2_000, shards });
            assert_eq!(held.count, 2_000, "{protocol:?} on {shards} shards");
            assert!(held.sent > 2_000 * 2, "each was told that it is let in: {}", held.sent);
        }
    }
}

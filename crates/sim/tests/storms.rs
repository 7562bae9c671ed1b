//! Tens of thousands lose their connections at once and call again.

use sim::hold::{HoldPlan, HoldProtocol, storm};

#[test]
fn everybody_is_back_and_told_why_not_at_once_and_the_others_are_served_meanwhile() {
    let plan = HoldPlan { protocol: HoldProtocol::Mqtt, clients: 70_000, shards: 2 };
    let tally = storm(plan, 60_000);
    assert_eq!((tally.clients, tally.back), (60_000, 60_000));
    assert!(tally.refused > 1_000, "more than may log in within a second: {tally:?}");
    assert_eq!((tally.silent, tally.lost), (0, 0));
    assert!(tally.pings > 1_000 && tally.pings == tally.pongs, "{tally:?}");
    // Behind 30,000 resets a shard, 128 a turn, and both shards' turns of 1.6 ms.
    assert!(tally.pong_ms_max <= 30_000 / 128 * 4, "no longer than these take: {tally:?}");
}

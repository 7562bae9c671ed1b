//! Tens of thousands lose their connections at once and call again.

use model::limits::Limits;
use sim::hold::{HoldPlan, HoldProtocol, storm};

const PLAN: HoldPlan = HoldPlan { protocol: HoldProtocol::Mqtt, clients: 70_000, shards: 2 };

#[test]
fn everybody_is_back_and_told_why_not_at_once_and_the_others_are_served_meanwhile() {
    let tally = storm(PLAN, 60_000, &Limits::default());
    assert_eq!((tally.clients, tally.back), (60_000, 60_000));
    assert!(tally.refused > 1_000, "more than may log in within a second: {tally:?}");
    assert_eq!((tally.silent, tally.lost), (0, 0));
    assert!(tally.pings > 1_000 && tally.pings == tally.pongs, "{tally:?}");
    // Behind 30,000 resets a shard, 128 a turn, and both shards' turns of 1.6 ms.
    assert!(tally.pong_ms_max <= 30_000 / 128 * 4, "no longer than these take: {tally:?}");
}

#[test]
fn who_was_taken_and_is_not_read_in_its_time_is_heard_before_it_ends() {
    // The ends of the others, told of first, take three quarters of a second.
    let limits = Limits { bind_ms_max: 300, ..Limits::default() };
    let tally = storm(PLAN, 60_000, &limits);
    assert_eq!((tally.back, tally.silent, tally.lost), (60_000, 0, 0), "{tally:?}");
}

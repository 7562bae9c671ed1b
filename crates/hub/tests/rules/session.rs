//! Sessions of a device: Bind, take-over, end.

use crate::harness::{HubHarness, id, limited, product, settings, tag};
use model::close::CloseReason;
use model::counters::PushCounter;
use model::id::{MessageId, ProductKey, ShardId};
use model::limits::Limits;
use model::ports::events::DeviceWhat;
use model::ports::pushes::PushCommand;
use model::request::{HeartbeatWish, PushDelivery, PushRequest, Refusal, Resume};
use model::service::Service;
use std::sync::Arc;

fn refusal(delivery: PushDelivery) -> (Refusal, u32) {
    match delivery {
        PushDelivery::Refused(refused) => (refused.why, refused.retry_after_ms),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_bind_is_answered_with_the_terms() {
    let mut world = HubHarness::new();
    let mut bind = HubHarness::bind("d");
    bind.heartbeat = HeartbeatWish { want_s: 100, min_s: 0, max_s: 105 };
    bind.inflight_max = 8;
    let bound = world.seat_with(bind).bound;
    assert!((100..=105).contains(&bound.heartbeat_s), "{}", bound.heartbeat_s);
    assert_eq!((bound.inflight_max, bound.ack_ms, bound.app_id), (8, 10_000, 7));
    assert_eq!((bound.resumed, bound.offline_count), (false, 0));
    assert_eq!(world.count(PushCounter::Binds), 1);
    let events = world.events();
    assert_eq!(events[0].what, DeviceWhat::Online { protocol: "miop7", resumed: false });
    assert_eq!((events[0].epoch, events.len()), (bound.epoch, 1));
    world.hub.audit();
}

#[test]
fn a_newer_bind_takes_over_and_the_older_is_told() {
    let mut world = HubHarness::new();
    let old = world.seat("d");
    let new = world.seat("d");
    assert!(new.bound.epoch > old.bound.epoch);
    assert_eq!(new.device, old.device);
    let deliveries = world.deliveries();
    let [(conn, PushDelivery::Kick(kick))] = &deliveries[..] else { panic!("{deliveries:?}") };
    assert_eq!((*conn, kick.why, kick.epoch), (old.conn, Refusal::Replaced, new.bound.epoch));
    let events = world.events();
    assert_eq!(events[1].what, DeviceWhat::Offline { reason: CloseReason::Replaced });
    assert_eq!((events[1].epoch, events[2].epoch), (old.bound.epoch, new.bound.epoch));
    assert_eq!(world.hub.status().online, 1);
    world.hub.audit();
}

#[test]
fn an_older_connection_can_never_mark_the_device_offline() {
    let mut world = HubHarness::new();
    let old = world.seat("d");
    let new = world.seat("d");
    let (push, _) = world.push("d", |_| {});
    world.events();
    world.close(&old);
    world.ack(&old, &[push]);
    world.ask(old.conn, PushRequest::Unbind { term: 0, device: old.device });
    let (seq, body) = (1, Box::from(*b"late"));
    world.ask(old.conn, PushRequest::Report { term: 0, device: old.device, seq, body });
    let state = world.state("d").expect("known");
    assert!(state.online);
    assert_eq!((state.inflight, state.epoch), (1, new.bound.epoch));
    assert_eq!(world.events(), []);
    world.close(&new);
    assert!(!world.state("d").expect("known").online);
    world.hub.audit();
}

#[test]
fn a_second_bind_on_the_same_connection_replaces_the_term() {
    let mut world = HubHarness::new();
    let seat = world.seat("d");
    let mut bind = HubHarness::bind("d");
    bind.term = 4;
    let PushDelivery::Bound(bound) = world.try_bind(seat.conn, bind) else { panic!("not bound") };
    assert_eq!((bound.term, bound.device), (4, seat.device));
    assert!(bound.epoch > seat.bound.epoch);
    assert!(world.deliveries().is_empty(), "nobody is kicked");
    world.give("d");
    let pushed = world.deliveries();
    assert!(matches!(&pushed[..], [(_, PushDelivery::Push { term: 4, .. })]), "{pushed:?}");
    world.hub.audit();
}

#[test]
fn several_devices_share_a_connection_under_their_terms() {
    let mut world = HubHarness::new();
    let first = world.seat("a");
    let mut bind = HubHarness::bind("b");
    bind.term = 1;
    assert!(matches!(world.try_bind(first.conn, bind), PushDelivery::Bound(_)));
    world.close(&first);
    assert!(!world.state("a").expect("known").online);
    assert!(world.state("b").expect("known").online);
    world.hub.audit();
}

#[test]
fn epochs_rise_even_if_the_clock_steps_back() {
    let mut world = HubHarness::new();
    let mut last = 0;
    for step in 0..50 {
        world.now.wall_ms -= step % 3 * 1_000;
        let epoch = world.seat("d").bound.epoch;
        assert!(epoch > last);
        last = epoch;
    }
}

#[test]
fn a_session_is_resumed_with_its_token_only() {
    let mut world = HubHarness::new();
    let first = world.seat("d");
    world.close(&first);
    let resume = |epoch, token| {
        let mut bind = HubHarness::bind("d");
        bind.resume = Some(Resume { token, epoch });
        bind
    };
    let second = world.seat_with(resume(first.bound.epoch, first.bound.token));
    assert!(second.bound.resumed);
    // The token of the previous session is no longer valid, so the main proof decides.
    let third = world.seat_with(resume(first.bound.epoch, first.bound.token));
    assert!(!third.bound.resumed);
    let mut wrong = third.bound.token;
    wrong[31] ^= 1;
    assert!(!world.seat_with(resume(third.bound.epoch, wrong)).bound.resumed);
    assert_eq!(world.count(PushCounter::BindsResumed), 1);
}

#[test]
fn what_was_on_the_way_is_sent_again_at_once_after_a_bind() {
    let mut world = HubHarness::new();
    let first = world.seat("d");
    let push = world.give("d");
    assert_eq!(world.pushes(), [(push, false)]);
    world.close(&first);
    let second = world.seat("d");
    assert_eq!(second.bound.offline_count, 1);
    assert_eq!(world.pushes(), [(push, true)]);
    world.hub.audit();
}

#[test]
fn the_last_id_of_a_bind_acknowledges() {
    let mut world = HubHarness::new();
    let first = world.seat("d");
    let (a, b) = (world.give("d"), world.give("d"));
    world.close(&first);
    let c = world.give("d");
    world.pushes();
    let mut bind = HubHarness::bind("d");
    bind.last_id = Some(c); // the device cannot have c, which was never sent
    let second = world.seat_with(bind.clone());
    assert_eq!(second.bound.offline_count, 3);
    assert_eq!(world.pushes(), [(a, true), (b, true), (c, false)]);
    world.close(&second);
    bind.last_id = Some(b);
    let third = world.seat_with(bind);
    assert_eq!((third.bound.offline_count, world.pushes()), (1, vec![(c, true)]));
    assert_eq!(world.count(PushCounter::Delivered), 2, "{a:?} and {b:?}");
    world.hub.audit();
}

#[test]
fn an_unbind_is_answered_and_told() {
    let mut world = HubHarness::new();
    let seat = world.seat("d");
    world.events();
    world.ask(seat.conn, PushRequest::Unbind { term: 0, device: seat.device });
    assert_eq!(world.deliveries(), [(seat.conn, PushDelivery::Unbound { term: 0 })]);
    let events = world.events();
    assert_eq!(events[0].what, DeviceWhat::Offline { reason: CloseReason::Unbound });
    assert_eq!(world.state("d").expect("known").reason, Some(CloseReason::Unbound));
    world.close(&seat);
    assert_eq!(world.events(), [], "the close that follows is no second offline");
}

#[test]
fn binds_beyond_the_pace_are_told_when_to_come_back() {
    let mut world = HubHarness::with(product(), hub::Settings { binds_per_s: 5, ..settings() });
    for n in 0..5 {
        world.seat(&format!("d{n}"));
    }
    let conn = world.conn();
    let (why, retry_ms) = refusal(world.try_bind(conn, HubHarness::bind("late")));
    assert_eq!(why, Refusal::Busy);
    assert!((200..=1_200).contains(&retry_ms), "{retry_ms}");
    assert_eq!((world.count(PushCounter::BindsRefused), world.state("late")), (1, None));
    world.pass_ms(200);
    world.seat("late");
}

#[test]
fn a_crowded_connection_a_full_table_and_a_drain_are_refused_with_a_hint() {
    let mut world = HubHarness::with(product(), hub::Settings { devices_max: 1, ..settings() });
    let conn = world.conn();
    let mut crowded = HubHarness::bind("d");
    crowded.crowded = true;
    let (why, retry_ms) = refusal(world.try_bind(conn, crowded));
    assert!(why == Refusal::Full && retry_ms >= 10_000);
    world.seat("d");
    let (why, retry_ms) = refusal(world.try_bind(conn, HubHarness::bind("e")));
    assert!(why == Refusal::Full && retry_ms >= 10_000);
    let now = world.now;
    world.hub.set_draining(now, true);
    let (why, retry_ms) = refusal(world.try_bind(conn, HubHarness::bind("d")));
    let drain_ms = Limits::default().drain_ms;
    assert!(why == Refusal::Draining && (drain_ms..=drain_ms + 1_000).contains(&retry_ms));
    world.hub.set_draining(now, false);
    world.seat("d");
    world.hub.audit();
}

#[test]
fn limits_that_change_hold_at_once_and_what_exceeds_them_stays() {
    let mut world = HubHarness::with(product(), hub::Settings { devices_max: 1, ..settings() });
    world.seat("a");
    let conn = world.conn();
    assert_eq!(refusal(world.try_bind(conn, HubHarness::bind("b"))).0, Refusal::Full);
    let mut limits = Limits { binds_per_s: 1_000_000, ..Limits::default() };
    limits.pushes.devices_max = 2;
    world.hub.configure(&Arc::new(limits.clone()));
    world.seat("b");
    limits.pushes.devices_max = 1;
    limits.pushes.tags_a_device_max = 0;
    limits.pushes.offline_bytes_max = 0;
    world.hub.configure(&Arc::new(limits));
    assert_eq!(refusal(world.try_bind(conn, HubHarness::bind("c"))).0, Refusal::Full);
    assert!(world.state("a").is_some() && world.state("b").is_some(), "both stay");
    world.hub.audit();
}

#[test]
fn the_shares_of_all_shards_are_together_the_limit() {
    for (whole, count) in [(1 << 30, 1), (1 << 30, 2), (1_000_003, 7), (5, 64), (0, 3)] {
        let mut limits = Limits::default();
        limits.pushes.offline_bytes_max = whole;
        let limits = Arc::new(limits);
        let share = |shard| {
            let mut settings = hub::Settings { shard: ShardId(shard), shards: count, ..settings() };
            settings.set_limits(&limits);
            settings.offline_bytes_max
        };
        let shares: Vec<u64> = (0..count).map(share).collect();
        assert_eq!(shares.iter().sum::<u64>(), whole, "{whole} over {count}");
        assert!(shares[0] - shares[shares.len() - 1] <= 1, "{shares:?}");
    }
}

#[test]
fn an_unknown_product_is_refused_for_good() {
    let mut world = HubHarness::new();
    let mut bind = HubHarness::bind("d");
    bind.product = ProductKey::parse("stranger").expect("a name");
    let conn = world.conn();
    assert_eq!(refusal(world.try_bind(conn, bind)), (Refusal::UnknownProduct, 0));
}

#[test]
fn a_bind_sets_tags_or_is_refused_for_too_many() {
    let mut world = HubHarness::new();
    let mut bind = HubHarness::bind("d");
    bind.tags = Some((0..32).map(|n| tag(&format!("t{n}"))).collect());
    world.seat_with(bind.clone());
    assert_eq!(world.state("d").expect("known").tags.len(), 32);
    bind.tags = Some((0..33).map(|n| tag(&format!("t{n}"))).collect());
    let conn = world.conn();
    assert_eq!(refusal(world.try_bind(conn, bind)).0, Refusal::Quota);
    world.seat("d");
    assert_eq!(world.state("d").expect("known").tags.len(), 32, "absent tags leave them");
    world.hub.audit();
}

#[test]
fn a_kick_ends_the_session_and_may_point_elsewhere() {
    let mut world = HubHarness::new();
    let (a, b) = (world.seat("a"), world.seat("b"));
    let product = ProductKey::parse("p").expect("a name");
    let addrs = vec!["127.0.0.1:9".to_owned()];
    for (name, addrs) in [("a", Vec::new()), ("b", addrs.clone())] {
        world.tell(PushCommand::Kick { product: product.clone(), device: id(name), addrs });
    }
    let deliveries = world.deliveries();
    let [(to_a, PushDelivery::Kick(first)), (to_b, PushDelivery::Kick(second))] = &deliveries[..]
    else {
        panic!("{deliveries:?}");
    };
    assert_eq!((*to_a, first.why, *to_b, second.why), {
        (a.conn, Refusal::AdminKick, b.conn, Refusal::Redirect)
    });
    assert_eq!(second.addrs, addrs);
    assert_eq!(world.state("b").expect("known").reason, Some(CloseReason::Redirected));
    world.hub.audit();
}

#[test]
fn a_device_that_is_banned_ends_for_that_reason() {
    let mut world = HubHarness::new();
    let device = world.seat("a");
    let product = ProductKey::parse("p").expect("a name");
    world.tell(PushCommand::EndBanned { product, device: id("a") });
    let [(to, PushDelivery::Kick(kick))] = &world.deliveries()[..] else { panic!("it ends") };
    assert_eq!((*to, kick.why), (device.conn, Refusal::Banned));
    assert_eq!(world.state("a").expect("known").reason, Some(CloseReason::Banned));
    world.hub.audit();
}

#[test]
fn a_device_that_is_away_and_idle_is_forgotten_in_time() {
    let limits = limited(|pushes| pushes.forget_after_s = 100);
    let mut world = HubHarness::with(product(), hub::Settings { limits, ..settings() });
    let away = world.seat("away");
    let waiting = world.seat("waiting");
    let mut tagged = HubHarness::bind("tagged");
    tagged.tags = Some(vec![tag("t")]);
    let tagged = world.seat_with(tagged);
    world.seat("online");
    [&away, &waiting, &tagged].iter().for_each(|seat| world.close(seat));
    world.give("waiting");
    world.pass_ms(60_000);
    assert!(world.state("away").is_some());
    for _ in 0..4 {
        world.pass_ms(31_000);
    }
    let known = ["away", "waiting", "tagged", "online"].map(|name| world.state(name).is_some());
    assert_eq!(known, [false, true, true, true]);
    world.hub.audit();
}

#[test]
fn an_epoch_tells_since_when_a_device_is_online() {
    let mut world = HubHarness::new();
    let seat = world.seat("d");
    assert_eq!(world.state("d").expect("known").since_ms, world.now.wall_ms);
    world.pass_ms(5_000);
    world.close(&seat);
    assert_eq!(world.state("d").expect("known").since_ms, world.now.wall_ms);
    assert!(MessageId(seat.bound.epoch) > MessageId(0));
}

//! Schedules: pushes that are sent again and again.

use crate::harness::{HubHarness, WALL_MS, id, limited, order, settings, tag};
use crate::many::{away, rest, waiting};
use crate::outcomes::lines;
use base::time::{Instant, Now};
use hub::Settings;
use model::calendar::{Calendar, LAST_IDS_MAX, Schedule, ScheduleState};
use model::id::{MessageId, ProductKey, ScheduleName};
use model::ports::log::Table;
use model::ports::pushes::{PushAnswer, PushCommand, PushTarget};
use model::zone::{CivilTime, Zone};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// The world begins at 08:00 UTC of a Friday.
const NINE: &str = "0 9 * * *";

fn key() -> ProductKey {
    ProductKey::parse("p").expect("a name")
}

fn name(name: &str) -> ScheduleName {
    ScheduleName::parse(name).expect("a name")
}

fn time(text: &str) -> Option<CivilTime> {
    Some(CivilTime::parse(text).expect("a time"))
}

fn daily(world: &mut HubHarness, line: &str) -> Schedule {
    let mut push = order(world.real_id(), PushTarget::Product);
    (push.wait_ms, push.time_to_live_s) = (0, 6 * 3_600);
    Schedule {
        name: name("s"),
        calendar: Calendar::cron(line).expect("a line"),
        zone: Zone::UTC,
        local: false,
        from: None,
        until: None,
        count: None,
        push,
    }
}

fn put(
    world: &mut HubHarness,
    line: &str,
    change: impl FnOnce(&mut Schedule),
) -> Option<PushAnswer> {
    let mut schedule = daily(world, line);
    change(&mut schedule);
    let reply = world.tell(PushCommand::PutSchedule(Box::new(schedule)));
    rest(world);
    world.answer(reply)
}

fn states(world: &mut HubHarness) -> Vec<ScheduleState> {
    match world.command(PushCommand::Schedules { product: Some(key()), schedule: None }) {
        PushAnswer::Schedules(all) => all,
        other => panic!("no schedules: {other:?}"),
    }
}

fn state(world: &mut HubHarness) -> ScheduleState {
    states(world).pop().expect("one")
}

/// Lets time pass in hours, so that nothing is late.
fn pass_h(world: &mut HubHarness, hours: u64) {
    for _ in 0..hours {
        world.pass_ms(HOUR_MS);
        rest(world);
    }
}

/// Sets the clock and kills the process.
fn stop_for(world: &mut HubHarness, ms: u64) {
    let nanos = world.now.mono.nanos() + ms * 1_000_000;
    world.now = Now::new(Instant::from_nanos(nanos), world.now.wall_ms + ms);
    world.restart();
    rest(world);
}

#[test]
fn a_push_is_sent_at_each_time_of_the_calendar_also_after_a_start() {
    for kill in [false, true] {
        let mut world = HubHarness::new();
        away(&mut world, 0..3);
        assert_eq!(put(&mut world, NINE, |_| {}), Some(PushAnswer::Done(true)));
        let nine = |day: u64| WALL_MS + HOUR_MS + day * DAY_MS;
        assert_eq!(state(&mut world).next_ms, (0..4).map(nine).collect::<Vec<_>>());
        for day in 0..3 {
            pass_h(&mut world, 1);
            if kill {
                world.restart();
            }
            let state = state(&mut world);
            assert_eq!((state.sent, state.last_ids.len()), (day + 1, day as usize + 1));
            assert_eq!(state.last_ids[0].at_ms(), nine(day.into()));
            assert_eq!(world.counts(state.last_ids[0]).stored, 3);
            pass_h(&mut world, 23);
        }
        assert_eq!(world.log.rows(Table::Schedules), 1);
        world.hub.audit();
    }
}

#[test]
fn the_pushes_of_a_schedule_are_tracked_if_its_push_is() {
    for (local, kill) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut world = HubHarness::new();
        away(&mut world, 0..2);
        put(&mut world, NINE, |schedule| {
            (schedule.push.track, schedule.local) = (true, local);
            let names = ["d0", "d1"].map(id);
            schedule.push.target = PushTarget::Devices(names.into());
        });
        // The first zone of all is half a day ahead of the devices.
        pass_h(&mut world, 2);
        assert_eq!(state(&mut world).sent, u32::from(!local));
        for day in 1..3 {
            if kill {
                world.restart();
            }
            pass_h(&mut world, 24);
            let state = state(&mut world);
            assert_eq!(state.sent, day + u32::from(!local));
            let push = state.last_ids[0];
            assert!(world.counts(push).tracked);
            let mut told = lines(&mut world, push, None);
            told.sort();
            assert_eq!(told, ["d0 stored", "d1 stored"]);
        }
        world.hub.audit();
    }
}

#[test]
fn of_what_was_missed_the_last_is_sent_if_it_lives_and_never_a_pile() {
    for (stop_h, sent, queued) in [(3, 1, 1), (24 * 9 + 2, 1, 1), (24 * 9 + 8, 0, 0)] {
        let mut world = HubHarness::new();
        away(&mut world, 0..2);
        put(&mut world, NINE, |_| {});
        stop_for(&mut world, stop_h * HOUR_MS);
        assert_eq!(waiting(&mut world, 0..2), [queued; 2], "{stop_h}");
        let state = state(&mut world);
        assert_eq!(state.sent, sent, "{stop_h}");
        assert!(state.next_ms[0] > world.now.wall_ms);
        // A clock that is set back sends nothing again.
        world.now = Now::new(world.now.mono, WALL_MS + HOUR_MS + 60_000);
        pass_h(&mut world, 2);
        assert_eq!(
            (waiting(&mut world, 0..2), self::state(&mut world).sent),
            (vec![queued; 2], sent)
        );
        world.hub.audit();
    }
}

#[test]
fn a_clock_that_jumps_ahead_sends_the_last_time_alone() {
    let mut world = HubHarness::new();
    away(&mut world, 0..1);
    put(&mut world, "*/5 * * * *", |_| {});
    world.now = Now::new(world.now.mono, world.now.wall_ms + 40 * DAY_MS);
    world.turn();
    rest(&mut world);
    assert_eq!((waiting(&mut world, 0..1), state(&mut world).sent), (vec![1], 1));
}

#[test]
fn a_schedule_ends_with_its_count_and_its_last_time_and_begins_with_its_first() {
    let mut world = HubHarness::new();
    put(&mut world, NINE, |it| (it.name, it.count) = (name("count"), Some(2)));
    put(&mut world, NINE, |it| (it.name, it.until) = (name("until"), time("2027-01-16T09:00")));
    put(&mut world, NINE, |it| (it.name, it.from) = (name("from"), time("2027-01-17T09:00")));
    let next = |world: &mut HubHarness| {
        states(world).iter().map(|state| state.next_ms.len()).collect::<Vec<_>>()
    };
    assert_eq!(next(&mut world), [2, 4, 2]);
    pass_h(&mut world, 5 * 24);
    let sent: Vec<_> = states(&mut world).iter().map(|state| state.sent).collect();
    assert_eq!((sent, next(&mut world)), (vec![2, 3, 2], vec![0, 4, 0]));
    world.restart();
    pass_h(&mut world, 24);
    let sent: Vec<_> = states(&mut world).iter().map(|state| state.sent).collect();
    assert_eq!(sent, [2, 4, 2]);
}

#[test]
fn a_paused_schedule_sends_nothing_and_goes_on_with_the_times_to_come() {
    for kill in [false, true] {
        let mut world = HubHarness::new();
        away(&mut world, 0..1);
        put(&mut world, NINE, |_| {});
        let pause = |world: &mut HubHarness, paused| {
            let (product, schedule) = (key(), name("s"));
            let reply = world.tell(PushCommand::PauseSchedule { product, schedule, paused });
            rest(world);
            if kill {
                world.restart();
                rest(world);
                return None;
            }
            world.answer(reply)
        };
        let done = (!kill).then_some(PushAnswer::Done(true));
        assert_eq!(pause(&mut world, true), done);
        assert_eq!((state(&mut world).paused, state(&mut world).next_ms), (true, Vec::new()));
        pass_h(&mut world, 26);
        assert_eq!(pause(&mut world, false), done);
        assert_eq!((waiting(&mut world, 0..1), state(&mut world).sent), (vec![0], 0));
        pass_h(&mut world, 24);
        assert_eq!((waiting(&mut world, 0..1), state(&mut world).sent), (vec![1], 1));
    }
}

#[test]
fn a_schedule_is_replaced_and_removed_and_goes_with_its_product() {
    let mut world = HubHarness::new();
    assert_eq!(put(&mut world, NINE, |_| {}), Some(PushAnswer::Done(true)));
    pass_h(&mut world, 2);
    assert_eq!(put(&mut world, "0 11 * * *", |_| {}), Some(PushAnswer::Done(false)));
    assert_eq!((state(&mut world).sent, state(&mut world).next_ms[0]), (0, WALL_MS + 3 * HOUR_MS));
    let remove = |world: &mut HubHarness| {
        let reply = world.tell(PushCommand::DropSchedule { product: key(), schedule: name("s") });
        rest(world);
        world.answer(reply)
    };
    assert_eq!(remove(&mut world), Some(PushAnswer::Done(true)));
    assert_eq!(remove(&mut world), Some(PushAnswer::Done(false)));
    assert_eq!((states(&mut world).len(), world.log.rows(Table::Schedules)), (0, 0));
    put(&mut world, NINE, |_| {});
    world.tell(PushCommand::DropProduct(key()));
    rest(&mut world);
    assert_eq!(world.log.rows(Table::Schedules), 0, "they go with their product");
    let schedules = PushCommand::Schedules { product: Some(key()), schedule: None };
    assert_eq!(world.command(schedules), PushAnswer::UnknownProduct);
    assert_eq!(put(&mut world, NINE, |_| {}), Some(PushAnswer::UnknownProduct));
    world.hub.audit();
}

#[test]
fn a_product_has_so_many_schedules() {
    let limits = limited(|pushes| pushes.schedules_a_product_max = 2);
    let mut world = HubHarness::with(crate::harness::product(), Settings { limits, ..settings() });
    world.keeps = false;
    let mut replies = Vec::new();
    for at in 0..3 {
        let schedule = Schedule { name: name(&format!("s{at}")), ..daily(&mut world, NINE) };
        replies.push(world.tell(PushCommand::PutSchedule(Box::new(schedule))));
    }
    world.settle();
    let answers: Vec<_> = replies.into_iter().map(|reply| world.answer(reply)).collect();
    let done = Some(PushAnswer::Done(true));
    assert_eq!(answers, [done.clone(), done, Some(PushAnswer::TooManySchedules)]);
}

#[test]
fn a_schedule_by_the_devices_clocks_sends_each_time_to_each_zone() {
    let devices = PushTarget::Devices(["d0", "d1", "d2"].map(id).into());
    for target in [PushTarget::Product, devices] {
        let mut world = HubHarness::new();
        away(&mut world, 0..3);
        for (device, zone) in [(0, "Asia/Tokyo"), (1, "America/New_York")] {
            let (device, zone) = (id(&format!("d{device}")), Zone::parse(zone));
            world.tell(PushCommand::SetZone { product: key(), device, zone });
        }
        put(&mut world, NINE, |it| {
            (it.local, it.push.target, it.push.time_to_live_s) = (true, target, 20 * 3_600);
        });
        // The first zone shows 22:00 of Friday, so the first time is 9:00 of Saturday.
        for (hours, queued) in [(15, [0, 0, 0]), (1, [1, 0, 0]), (9, [1, 0, 1]), (5, [1, 1, 1])] {
            pass_h(&mut world, hours);
            assert_eq!(waiting(&mut world, 0..3), queued, "{hours}");
        }
        world.restart();
        pass_h(&mut world, 12);
        assert_eq!(waiting(&mut world, 0..3), [1, 1, 1], "Saturday's has expired in Tokyo");
        assert_eq!(state(&mut world).sent, 2);
        world.hub.audit();
    }
}

#[test]
fn wherever_the_kill_comes_each_time_is_sent_once() {
    for kept in 0.. {
        let mut world = HubHarness::new();
        away(&mut world, 0..3);
        put(&mut world, NINE, |it| {
            it.push.target = PushTarget::Tag(tag("t"));
            it.push.time_to_live_s = 100 * 3_600;
        });
        world.log.die_after(Some(kept));
        pass_h(&mut world, 2);
        let is_all = !world.log.is_dead();
        world.log.die_after(None);
        world.restart();
        rest(&mut world);
        let told = state(&mut world);
        assert_eq!((waiting(&mut world, 0..3), told.sent), (vec![1; 3], 1), "{kept}");
        assert_eq!(world.counts(told.last_ids[0]).stored, 3, "{kept}");
        pass_h(&mut world, 24);
        assert_eq!((waiting(&mut world, 0..3), state(&mut world).sent), (vec![2; 3], 2), "{kept}");
        world.hub.audit();
        if is_all {
            assert!(kept > 3, "it broke off everywhere: {kept}");
            break;
        }
    }
}

#[test]
fn a_refused_order_is_ordered_again_and_as_many_ids_are_remembered_as_may_be() {
    let limits = limited(|pushes| pushes.scheduled_max = 0);
    let mut world = HubHarness::with(crate::harness::product(), Settings { limits, ..settings() });
    put(&mut world, "* * * * *", |_| {});
    (0..3).for_each(|_| world.pass_ms(60_000));
    assert_eq!(state(&mut world).sent, 0);
    world.change(|settings, _| settings.limits = limited(|_| {}));
    world.restart();
    for _ in 0..12 {
        world.pass_ms(60_000);
        rest(&mut world);
    }
    let state = state(&mut world);
    assert_eq!((state.sent, state.last_ids.len()), (12, LAST_IDS_MAX));
    let ids: std::collections::BTreeSet<MessageId> = state.last_ids.iter().copied().collect();
    assert_eq!(ids.len(), LAST_IDS_MAX, "each push has an id of its own");
}

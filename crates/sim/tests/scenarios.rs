//! One thing goes wrong at a time, in a world that is calm otherwise.

use model::close::CloseReason;
use model::counters::{ProcessCounter, PushCounter};
use model::id::ShardId;
use model::limits::Limits;
use model::ports::control::{Answer, Command};
use model::service::Echo;
use server::shard_logic::RunningService;
use sim::simulation::{SimPlan, Simulation, product};
use sim::virtual_clients::ClientMood;
use sim::weather::Weather;
use std::cell::OnceCell;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use testkit::echo::EchoService;

/// A world in which every device has bound.
fn bound(plan: SimPlan) -> Simulation {
    let devices = plan.devices as usize;
    let mut world = Simulation::new(plan);
    world.set_mood(ClientMood::Calm);
    world.live_until("all are bound", |world| world.virtual_clients().bound() == devices);
    world
}

fn closed(world: &Simulation, reason: CloseReason) -> u64 {
    world.counters().closed_of(reason)
}

#[test]
fn frames_cut_at_every_byte_are_whole_again() {
    let calm = SimPlan::calm(1, 2, 8);
    let weather =
        Weather { window_bytes_min: 1, window_bytes_max: 1, latency_us: 20, ..Weather::calm() };
    let mut world = bound(SimPlan { weather, ..calm });
    for round in 0..40 {
        world.push_to(round % 8, 40);
    }
    // What a short write left goes out when there is room, not with the next heartbeat.
    world.live(Duration::from_secs(5));
    assert_eq!((world.virtual_clients().seen_count(), world.waiting()), (40, 0));
    world.finale();
    assert_eq!(world.virtual_clients().seen_count(), 40);
    let cut = world.counters().closed_of(CloseReason::PeerClosedMidFrame);
    assert_eq!((cut, closed(&world, CloseReason::Malformed)), (0, 0));
}

#[test]
fn take_over_holds_across_shards_with_shard_messages_out_of_order() {
    for seed in 0..10 {
        let calm = SimPlan::calm(seed, 4, 4);
        let weather =
            Weather { hold_shard_message_in: 2, refuse_shard_message_in: 6, ..Weather::calm() };
        let mut world = Simulation::new(SimPlan { weather, orders: 300, ..calm });
        (0..6_000).for_each(|_| world.step());
        assert!(world.counters().of(ProcessCounter::MovedOut) > 20, "connections moved");
        assert!(closed(&world, CloseReason::Replaced) > 5, "devices were taken over");
        world.finale();
    }
}

#[test]
fn a_reader_that_never_reads_is_a_slow_consumer() {
    let limits = Limits { out_frames_max: 8, ..Limits::default() };
    let weather = Weather { window_bytes_min: 2_000, window_bytes_max: 2_000, ..Weather::calm() };
    let mut world = bound(SimPlan { limits, weather, ..SimPlan::calm(3, 1, 5) });
    world.set_mood(ClientMood::Still);
    world.fabric().stall_callers();
    // Device 4 lets thirteen pushes be on the way, more than the out-queue holds.
    (0..200).for_each(|_| world.push_to(4, 1_000));
    world.live(Duration::from_secs(5));
    assert_eq!(closed(&world, CloseReason::SlowConsumer), 1);
    let sent = world.counters().of(PushCounter::Sent);
    assert!(sent <= 13, "{sent} pushes were handed out: the window bounds what is held");
    world.fabric().set_weather(Weather::calm());
    world.finale();
    assert_eq!(world.virtual_clients().seen_count(), 200);
}

#[test]
fn an_end_right_behind_bytes_is_seen_at_once() {
    let weather = Weather { cut_in: 1, ..Weather::calm() };
    let mut world = Simulation::new(SimPlan { weather, ..SimPlan::calm(11, 2, 8) });
    world.set_mood(ClientMood::Calm);
    world.live(Duration::from_secs(20));
    world.set_mood(ClientMood::Still);
    world.live(Duration::from_secs(1));
    let ended = [CloseReason::PeerClosed, CloseReason::PeerClosedMidFrame];
    assert!(ended.into_iter().map(|reason| closed(&world, reason)).sum::<u64>() > 20);
    assert_eq!((world.connections(), closed(&world, CloseReason::BindTimeout)), (0, 0));
}

#[test]
fn a_half_open_link_ends_by_keep_alive() {
    let mut world = bound(SimPlan::calm(4, 2, 6));
    world.set_mood(ClientMood::Still);
    world.fabric().vanish_all();
    world.live(Duration::from_secs(60));
    assert_eq!(closed(&world, CloseReason::KeepAliveTimeout), 6);
    assert_eq!((world.connections(), world.online()), (0, 0));
    world.finale();
}

#[test]
fn heartbeats_that_come_later_than_agreed_are_counted_as_late() {
    let mut world = bound(SimPlan::calm(12, 2, 6));
    world.set_mood(ClientMood::Still);
    world.live(Duration::from_secs(1));
    let late = |world: &Simulation| world.counters().of(ProcessCounter::HeartbeatsLate);
    let pings = world.counters().of(ProcessCounter::Pings);
    world.live(Duration::from_secs(200));
    assert!(world.counters().of(ProcessCounter::Pings) > pings + 20, "each comes in its time");
    assert_eq!(late(&world), 0);
    world.set_mood(ClientMood::Calm);
    world.live(Duration::from_secs(1));
    world.set_mood(ClientMood::Still);
    world.live(Duration::from_secs(1));
    // More than a tenth above the agreed heartbeat, less than one and a half of it.
    world.fabric().pass(Duration::from_secs(38));
    world.live(Duration::from_secs(5));
    assert_eq!((late(&world), world.online(), world.counters().closed_sum()), (6, 6, 0));
    world.finale();
}

#[test]
fn whatever_befalls_the_directory_it_agrees_in_the_end_and_nobody_is_cut_off() {
    let (mut upsets, mut taken) = (0, 0);
    for seed in 0..12 {
        let mut world = bound(SimPlan { upset_in: 0, ..SimPlan::calm(seed, 3, 9) });
        world.live_until("the directory agrees", Simulation::copies_agree);
        let closed_before = world.counters().closed_sum();
        // Only what another node takes may end a connection here.
        (0..300).for_each(|_| {
            world.upset();
            world.live(Duration::from_millis(500));
        });
        let ended = world.counters().closed_sum() - closed_before;
        let outvoted = closed(&world, CloseReason::Replaced);
        assert!(ended <= 2 * outvoted, "{ended} ended, {outvoted} of them were taken elsewhere");
        (upsets, taken) = (upsets + world.story().upsets, taken + outvoted);
        world.finale();
    }
    assert_eq!(upsets, 12 * 300);
    assert!(taken > 5, "{taken} were taken by another node and came back");
}

#[test]
fn a_jump_of_the_wall_clock_ends_nobody() {
    let mut world = bound(SimPlan::calm(5, 2, 6));
    for hours in [3, -7, 1, 24 * 400, -24 * 400] {
        world.fabric().jump_wall(hours * 3_600_000);
        world.live(Duration::from_secs(40));
        assert_eq!((world.online(), world.counters().closed_sum()), (6, 0));
    }
}

#[test]
fn a_leap_of_time_is_survived_by_whoever_is_alive() {
    let mut world = bound(SimPlan::calm(6, 2, 6));
    for _ in 0..3 {
        world.fabric().pass(Duration::from_secs(600));
        world.live_until("all are bound again", |world| world.online() == 6);
    }
    world.finale();
}

#[test]
fn a_hundred_thousand_pushes_to_one_offline_device_keep_the_newest() {
    let mut world = Simulation::new(SimPlan::calm(7, 1, 1));
    world.set_mood(ClientMood::Still);
    let room = u64::from(product().offline_count_max);
    for round in 0..1_000 {
        (0..100).for_each(|_| world.push_to(0, 20));
        (0..8).for_each(|_| world.step());
        assert!(world.waiting() <= room, "in round {round}");
    }
    world.live(Duration::from_secs(2));
    assert_eq!(world.waiting(), room);
    assert_eq!(world.counters().of(PushCounter::Evicted), 100_000 - room);
    world.set_mood(ClientMood::Calm);
    world.live_until("all that waited was fetched", |world| world.waiting() == 0);
    assert_eq!(world.virtual_clients().seen_count() as u64, room);
}

#[test]
fn the_crowd_beyond_the_limit_is_told_to_come_back() {
    let limits = Limits { connections_max: 3, crowd_max: 4, ..Limits::default() };
    let mut world = Simulation::new(SimPlan { limits, ..SimPlan::calm(8, 2, 12) });
    world.set_mood(ClientMood::Calm);
    for _ in 0..3_000 {
        world.step();
        assert!(world.connections() <= 7 && world.online() <= 3);
    }
    assert_eq!(world.online(), 3);
    assert!(world.virtual_clients().retries() > 3, "{:?}", world.virtual_clients().refused());
    assert!(closed(&world, CloseReason::Full) > 9, "the rest was reset");
}

#[test]
fn a_flood_of_binds_is_paced_and_everybody_gets_in() {
    let limits = Limits { binds_per_s: 3, ..Limits::default() };
    let mut world = Simulation::new(SimPlan { limits, ..SimPlan::calm(9, 2, 40) });
    world.set_mood(ClientMood::Calm);
    world.live(Duration::from_millis(900));
    assert!(world.online() <= 12, "{} came at once", world.online());
    assert!(world.virtual_clients().retries() > 5, "{:?}", world.virtual_clients().refused());
    assert!(closed(&world, CloseReason::Busy) > 10);
    world.live_until("all are bound", |world| world.online() == 40);
    world.finale();
}

#[test]
fn a_drain_lets_everybody_go() {
    let limits = Limits { drain_ms: 2_000, ..Limits::default() };
    let mut world = bound(SimPlan { limits, ..SimPlan::calm(10, 3, 24) });
    // Who came before the logs had said how high sessions may be numbered was told to come back.
    let before = world.counters().closed_sum();
    assert_eq!(before, closed(&world, CloseReason::Busy));
    world.drain();
    world.live(Duration::from_millis(1_000));
    let gone = closed(&world, CloseReason::Draining);
    assert!((6..18).contains(&gone), "{gone} after half of the time");
    world.live_until("the server has ended", |world| !world.runs());
    let ended = world.counters().closed_sum() - before;
    assert_eq!((closed(&world, CloseReason::Draining), ended), (24, 24));
    assert_eq!(world.virtual_clients().go_aways(), 12, "half of them speak version 7");
    assert_eq!((world.connections(), world.online()), (0, 0));
}

#[test]
fn a_further_service_is_restored_beside_the_others_after_every_crash() {
    let heard = |world: &Simulation| {
        let shards = (0..3).map(|shard| world.service::<EchoService>(ShardId(shard)));
        shards.map(|echo| echo.heard().len()).collect::<Vec<_>>()
    };
    let echo = |shard, shards| vec![RunningService::boxed(EchoService::new(shard, shards))];
    let mut world = Simulation::with(SimPlan::calm(11, 3, 4), echo);
    let mut said = Vec::new();
    for life in 1..=3 {
        for _ in 0..2 {
            let (tell, told) = sync_channel(1);
            let reply = Box::new(move |answer| tell.send(answer).expect("awaited"));
            world.ask_shard(ShardId(0), Command::Echo(Echo(format!("life {life}").into())), reply);
            let answer = OnceCell::new();
            world.live_until("it has answered", |_| {
                told.try_recv().into_iter().for_each(|came| answer.set(came).expect("one answer"));
                answer.get().is_some()
            });
            said.extend(answer.into_inner());
        }
        world.live_until("other shards have heard it", |world| heard(world) == [0, 2, 2]);
        world.crash();
        assert_eq!(heard(&world), [0, 0, 0], "what was not stored is gone");
    }
    let echo =
        |(count, life): (u32, u32)| Answer::Echo(Echo(format!("life {life} {count}").into()));
    assert_eq!(said, (1..=6).zip([1, 1, 2, 2, 3, 3]).map(echo).collect::<Vec<_>>());
    world.finale();
}

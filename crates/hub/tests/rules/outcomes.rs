//! Tracked pushes: their outcomes at each device, by page and by minute.

use crate::harness::{HubHarness, Seat, WALL_MS, id, limited, product, settings, tag};
use crate::many::{Pair, away, owner, rest};
use hub::{OrderMessage, Settings};
use model::id::{MessageId, ProductKey, ShardId};
use model::ports::events::DeviceWhat;
use model::ports::log::{Call, Read, StoreError, Table};
use model::ports::pushes::{
    BearerToken, OutcomePart, PushAnswer, PushCommand, PushCounts, PushMinute, PushOrder,
    PushTarget,
};
use model::product::Product;
use model::push::{PushReport, StepKind};
use model::request::{PushDelivery, PushRequest, Refusal};
use std::collections::BTreeMap;

fn track(world: &mut HubHarness, target: PushTarget) -> MessageId {
    world.push_to(target, |order| order.track = true).0
}

fn names(names: std::ops::Range<u32>) -> PushTarget {
    PushTarget::Devices(names.map(|n| id(&format!("d{n}"))).collect())
}

fn part(
    world: &mut HubHarness,
    push: MessageId,
    (after, count): (u64, u32),
    kind: Option<StepKind>,
) -> OutcomePart {
    part_behind(world, push, vec![after], (kind, count))
}

/// A page behind these places of shards.
fn part_behind(
    world: &mut HubHarness,
    push: MessageId,
    after: Vec<u64>,
    (kind, count): (Option<StepKind>, u32),
) -> OutcomePart {
    let command = PushCommand::Outcomes { push, product: None, after, kind, count };
    match world.command(command) {
        PushAnswer::Outcomes(Some(mut parts)) => parts.pop().expect("a part"),
        other => panic!("no page: {other:?}"),
    }
}

/// All lines behind these places of shards, in order, as texts; the places go on.
fn lines_behind(world: &mut HubHarness, push: MessageId, places: &mut [u64]) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let part = part_behind(world, push, places.to_vec(), (None, 3));
        assert!(!part.more || part.end > places[usize::from(part.shard)], "it goes on: {part:?}");
        places[usize::from(part.shard)] = part.end;
        all.extend(
            part.lines
                .iter()
                .map(|(_, line)| format!("{} {}", line.device.as_str(), line.step.kind().name())),
        );
        if !part.more {
            return all;
        }
    }
}

fn minutes(world: &mut HubHarness, push: MessageId) -> PushAnswer {
    world.command(PushCommand::Minutes { push, product: None })
}

/// All lines, as texts.
pub fn lines(world: &mut HubHarness, push: MessageId, kind: Option<StepKind>) -> Vec<String> {
    let (mut after, mut all) = (0, Vec::new());
    loop {
        let part = part(world, push, (after, 2), kind);
        let told = part
            .lines
            .iter()
            .map(|(_, line)| format!("{} {}", line.device.as_str(), line.step.kind().name()));
        all.extend(told);
        after = part.end;
        if !part.more {
            return all;
        }
    }
}

#[test]
fn a_tracked_push_to_a_list_has_lines_and_counts_that_a_restart_keeps() {
    let mut world = HubHarness::new();
    away(&mut world, 0..2);
    let seat = world.seat("d2");
    let push = track(&mut world, names(0..3));
    rest(&mut world);
    world.ack(&seat, &[push]);
    rest(&mut world);
    let check = |world: &mut HubHarness| {
        let counts = world.counts(push);
        assert_eq!((counts.matched, counts.stored, counts.delivered), (3, 2, 1));
        assert!(counts.tracked && !counts.running);
        assert_eq!(lines(world, push, None), ["d0 stored", "d1 stored", "d2 delivered"]);
        assert_eq!(lines(world, push, Some(StepKind::Delivered)), ["d2 delivered"]);
        world.hub.audit();
    };
    check(&mut world);
    world.restart();
    check(&mut world);
    let seat = world.seat("d0");
    world.ack(&seat, &[push]);
    rest(&mut world);
    let told = ["d1 stored", "d2 delivered", "d0 delivered"];
    assert_eq!(lines(&mut world, push, None), told, "it is no longer stored at d0");
    world.restart();
    assert_eq!(lines(&mut world, push, None), told);
    let counts = world.counts(push);
    assert_eq!((counts.matched, counts.stored, counts.delivered), (3, 1, 2));
    world.hub.audit();
}

#[test]
fn wherever_the_kill_comes_each_device_has_one_line_for_its_end() {
    for kept in 0.. {
        let limits = limited(|pushes| pushes.fan_out_slice = 3);
        let mut world = HubHarness::with(product(), Settings { limits, ..settings() });
        let tagged = |world: &mut HubHarness, n: u32| {
            let mut bind = HubHarness::bind(&format!("d{n}"));
            bind.tags = Some(vec![tag("t")]);
            world.seat_with(bind)
        };
        let seats: Vec<_> = (0..3).map(|n| tagged(&mut world, n)).collect();
        away(&mut world, 3..6);
        world.settle();
        world.log.die_after(Some(kept));
        let target = if kept % 2 == 0 { PushTarget::Tag(tag("t")) } else { names(0..6) };
        let push = track(&mut world, target);
        world.turn();
        world.ack(&seats[0], &[push]);
        world.ack(&seats[1], &[push]);
        world.pass_ms(300);
        world.turn();
        let is_all = !world.log.is_dead();
        world.log.die_after(None);
        world.restart();
        rest(&mut world);
        let PushAnswer::Counts(Some(_)) = world.command(PushCommand::PushCounts(push)) else {
            assert_eq!(kept, 0, "the order was not stored");
            continue;
        };
        // All devices connect and acknowledge their pushes; then once more over a restart.
        for round in 0..2 {
            for n in 0..6 {
                let seat = tagged(&mut world, n);
                world.ack(&seat, &[push]);
            }
            rest(&mut world);
            let counts = world.counts(push);
            assert_eq!((counts.matched, counts.delivered), (6, 6), "{kept} {round}: {counts:?}");
            let mut ends = lines(&mut world, push, Some(StepKind::Delivered));
            ends.sort();
            let all: Vec<_> = (0..6).map(|n| format!("d{n} delivered")).collect();
            assert_eq!(ends, all, "{kept} {round}");
            assert_eq!(lines(&mut world, push, Some(StepKind::Stored)), Vec::<String>::new());
            world.hub.audit();
            world.restart();
        }
        if is_all {
            assert!(kept > 6, "it broke off everywhere: {kept}");
            return;
        }
    }
}

#[test]
fn an_export_that_is_read_while_it_grows_has_each_line_once() {
    let mut world = HubHarness::new();
    let seats: Vec<_> = (0..40).map(|n| world.seat(&format!("d{n}"))).collect();
    let push = track(&mut world, names(0..40));
    rest(&mut world);
    let (mut after, mut all) = (0, Vec::new());
    for seat in &seats {
        world.ack(seat, &[push]);
        world.pass_ms(250);
        let page = part(&mut world, push, (after, 1), Some(StepKind::Delivered));
        all.extend(page.lines.iter().map(|(_, line)| line.device.as_str().to_owned()));
        after = page.end;
    }
    rest(&mut world);
    let page = part(&mut world, push, (after, 1_000), Some(StepKind::Delivered));
    all.extend(page.lines.iter().map(|(_, line)| line.device.as_str().to_owned()));
    assert_eq!(all, (0..40).map(|n| format!("d{n}")).collect::<Vec<_>>());
    let end = part(&mut world, push, (page.end, 100), None);
    assert_eq!((end.lines.len(), end.more, end.end), (0, false, page.end));
}

#[test]
fn a_page_ends_after_so_many_rows_and_goes_on() {
    let mut world = HubHarness::new();
    let seats: Vec<_> = (0..20).map(|n| world.seat(&format!("d{n}"))).collect();
    let push = track(&mut world, names(0..20));
    rest(&mut world);
    for seat in &seats {
        world.ack(seat, &[push]);
        world.pass_ms(250);
    }
    rest(&mut world);
    let first = part(&mut world, push, (0, 1_000), Some(StepKind::Expired));
    assert_eq!((first.lines.len(), first.more), (0, true), "sixteen rows were read");
    assert_eq!(lines(&mut world, push, None).len(), 20);
    let counts = [0, 20, 0, 0, 0, 0, 0];
    let minute = (WALL_MS / 60_000) as u32;
    let minutes = vec![PushMinute { minute, counts }];
    let product = |name| Some(ProductKey::parse(name).expect("a name"));
    for of in [None, product("p")] {
        let command = PushCommand::Minutes { push, product: of };
        assert_eq!(world.command(command), PushAnswer::Minutes(Some(minutes.clone())));
    }
    let other = PushCommand::Minutes { push, product: product("q") };
    assert_eq!(world.command(other), PushAnswer::Minutes(None), "a push of another product");
}

#[test]
fn a_page_reads_as_many_rows_as_its_lines_need() {
    let mut world = HubHarness::new();
    away(&mut world, 0..40);
    let push = track(&mut world, names(0..40));
    rest(&mut world);
    let seat = world.seat("d0");
    world.ack(&seat, &[push]);
    rest(&mut world);
    world.keeps = false;
    let ask = |world: &mut HubHarness, count| {
        let (product, after, kind) = (None, vec![], None);
        world.tell(PushCommand::Outcomes { push, product, after, kind, count });
        let asked = world.fx.calls.iter().find_map(|(_, call)| match call {
            Call::Read(Read::Rows { count, .. }) => Some(*count),
            _ => None,
        });
        world.settle();
        asked
    };
    assert_eq!((ask(&mut world, 1), ask(&mut world, 1_000)), (Some(1), Some(16)));
}

#[test]
fn a_push_that_is_not_tracked_has_no_lines_and_writes_none() {
    let mut world = HubHarness::new();
    away(&mut world, 0..2);
    let (push, _) = world.push_to(PushTarget::Tag(tag("t")), |_| {});
    rest(&mut world);
    let ask = |push| {
        let (product, after) = (None, vec![]);
        PushCommand::Outcomes { push, product, after, kind: None, count: 9 }
    };
    assert_eq!(world.command(ask(push)), PushAnswer::NotTracked);
    assert_eq!(minutes(&mut world, push), PushAnswer::NotTracked);
    let unknown = MessageId(99);
    assert_eq!(world.command(ask(unknown)), PushAnswer::Outcomes(None));
    assert_eq!(minutes(&mut world, unknown), PushAnswer::Minutes(None));
    let rows = world.log.rows(Table::Orders);
    assert_eq!(rows, 1, "the row of counts");
}

/// A tracked push that its device has acknowledged; deliveries and events are taken.
fn acknowledged() -> (HubHarness, Seat, MessageId) {
    let mut world = HubHarness::new();
    let seat = world.seat("d0");
    let push = track(&mut world, names(0..1));
    rest(&mut world);
    world.ack(&seat, &[push]);
    rest(&mut world);
    world.deliveries();
    world.events();
    (world, seat, push)
}

fn say(world: &mut HubHarness, seat: &Seat, seq: u32, push: MessageId, report: PushReport) {
    let body = [&PushReport::BODY_HEAD[..], &[report as u8], &push.0.to_be_bytes()].concat();
    let body = body.into();
    world.ask(seat.conn, PushRequest::Report { term: 0, device: seat.device, seq, body });
}

#[test]
fn opened_and_dismissed_are_taken_once_they_are_stored_and_count_once() {
    let (mut world, seat, push) = acknowledged();
    world.keeps = false;
    say(&mut world, &seat, 1, push, PushReport::Opened);
    world.hub.audit();
    world.pass_ms(250);
    assert_eq!((world.deliveries(), world.events()), (vec![], vec![]), "not stored yet");
    world.hub.audit();
    world.complete(Ok(()));
    assert_eq!(world.deliveries(), [(seat.conn, PushDelivery::ReportTaken { term: 0, seq: 1 })]);
    let told: Vec<_> = world.events().into_iter().map(|event| event.what).collect();
    assert_eq!(told, [DeviceWhat::Reported { id: push, report: PushReport::Opened }]);
    world.keeps = true;
    say(&mut world, &seat, 2, push, PushReport::Opened);
    assert_eq!(world.deliveries(), [(seat.conn, PushDelivery::ReportTaken { term: 0, seq: 2 })]);
    assert_eq!(world.events(), [], "it was known");
    say(&mut world, &seat, 3, push, PushReport::Dismissed);
    world.pass_ms(250);
    let check = |world: &mut HubHarness| {
        let counts = world.counts(push);
        assert_eq!((counts.delivered, counts.opened, counts.dismissed), (1, 1, 1));
        assert_eq!(lines(world, push, None), ["d0 delivered", "d0 opened", "d0 dismissed"]);
        world.hub.audit();
    };
    check(&mut world);
    world.restart();
    check(&mut world);
    let seat = world.seat("d0");
    say(&mut world, &seat, 1, push, PushReport::Opened);
    check(&mut world);
}

#[test]
fn a_report_that_is_sent_twice_at_once_has_one_line_and_one_event() {
    let (mut world, seat, push) = acknowledged();
    say(&mut world, &seat, 1, push, PushReport::Opened);
    say(&mut world, &seat, 2, push, PushReport::Opened);
    let refused = PushDelivery::ReportRefused { term: 0, seq: 2, why: Refusal::Busy };
    assert_eq!(world.deliveries(), [(seat.conn, refused)], "the first one is not stored yet");
    world.pass_ms(250);
    say(&mut world, &seat, 2, push, PushReport::Opened);
    let taken = |seq| (seat.conn, PushDelivery::ReportTaken { term: 0, seq });
    assert_eq!(world.deliveries(), [taken(1), taken(2)]);
    assert_eq!(world.events().len(), 1);
    assert_eq!(lines(&mut world, push, None), ["d0 delivered", "d0 opened"]);
    world.hub.audit();
}

#[test]
fn reports_share_rows_and_rows_of_a_forgotten_push_are_all_deleted() {
    let mut world = HubHarness::new();
    let seats: Vec<_> = (0..20).map(|n| world.seat(&format!("d{n}"))).collect();
    let push = track(&mut world, names(0..20));
    rest(&mut world);
    let before = world.log.rows(Table::Orders);
    seats[..12].iter().for_each(|seat| say(&mut world, seat, 1, push, PushReport::Opened));
    world.pass_ms(250);
    assert_eq!(world.log.rows(Table::Orders), before + 1, "one row of twelve lines");
    for seat in &seats {
        world.ack(seat, &[push]);
        world.pass_ms(250);
    }
    rest(&mut world);
    assert_eq!(world.log.rows(Table::Orders), 22, "the counts, and a row for each time");
    let forget = OrderMessage::Forget(push);
    world.hub.peer_message(world.now, ShardId(1), forget, &mut world.fx);
    rest(&mut world);
    assert_eq!(world.log.rows(Table::Orders), 0);
    assert_eq!(world.hub.unsettled(), 0);
    world.hub.audit();
}

#[test]
fn a_push_that_another_shard_forgot_is_unknown_at_once_and_goes_when_it_may() {
    for is_cancelled in [false, true] {
        let mut world = HubHarness::new();
        let seat = world.seat("d0");
        let push = track(&mut world, names(0..1));
        rest(&mut world);
        if is_cancelled {
            let id = MessageId(1 << 40);
            world.tell(PushCommand::Cancel { id, push, product: None });
        } else {
            world.ack(&seat, &[push]);
        }
        let forget = OrderMessage::Forget(push);
        world.hub.peer_message(world.now, ShardId(1), forget, &mut world.fx);
        let counts = world.command(PushCommand::PushCounts(push));
        assert_eq!(counts, PushAnswer::Counts(None), "its counts lack a part");
        assert_eq!(minutes(&mut world, push), PushAnswer::Minutes(None));
        assert_ne!(world.log.rows(Table::Orders), 0, "a row is still to be written");
        rest(&mut world);
        assert_eq!(world.command(PushCommand::PushCounts(push)), PushAnswer::Counts(None));
        // A cancelled push stays as long as its cancel.
        assert_eq!(world.log.rows(Table::Orders) == 0, !is_cancelled);
        world.hub.audit();
    }
}

#[test]
fn places_hold_after_a_change_of_the_number_of_shards() {
    let mut pair = Pair::with_away();
    let push = (1_000..).map(MessageId).find(|push| owner(*push) == 0).expect("some are");
    let mut order = crate::harness::order(push, PushTarget::Tag(tag("t")));
    order.track = true;
    pair.worlds[0].tell(PushCommand::Push(order));
    pair.rest();
    let (mut places, mut all) = ([0; 2], [0; 2]);
    let mut told: Vec<String> = Vec::new();
    for world in &mut pair.worlds {
        told.extend(lines_behind(world, push, &mut places));
    }
    assert_eq!((told.len(), told.iter().filter(|it| it.ends_with("stored")).count()), (12, 12));
    let other = pair.worlds[1].log.clone();
    let world = &mut pair.worlds[0];
    world.log.take_over(&other);
    world.change(|settings, _| settings.shards = 1);
    world.restart();
    assert_eq!(lines_behind(world, push, &mut places), Vec::<String>::new(), "all was read");
    for n in [0, 5] {
        let seat = world.seat(&format!("d{n}"));
        world.ack(&seat, &[push]);
        rest(world);
        assert_eq!(lines_behind(world, push, &mut places), [format!("d{n} delivered")]);
    }
    assert_eq!(lines_behind(world, push, &mut all).len(), 12, "who begins now has all");
    world.hub.audit();
}

#[test]
fn tracked_pushes_take_no_room_of_the_others() {
    let limits = limited(|pushes| (pushes.jobs_max, pushes.tracked_max) = (2, 3));
    let mut world = HubHarness::with(product(), Settings { limits, ..settings() });
    away(&mut world, 0..1);
    let (other, _) = world.push_to(PushTarget::Tag(tag("t")), |_| {});
    rest(&mut world);
    let pushes: Vec<_> = (0..5)
        .map(|_| {
            let push = track(&mut world, names(0..1));
            rest(&mut world);
            push
        })
        .collect();
    for _ in 0..2 {
        let is_known = |world: &mut HubHarness, push: MessageId| {
            world.command(PushCommand::PushCounts(push)) != PushAnswer::Counts(None)
        };
        let known: Vec<_> = pushes.iter().map(|&push| is_known(&mut world, push)).collect();
        assert_eq!(known, [false, false, true, true, true]);
        assert!(is_known(&mut world, other));
        world.hub.audit();
        world.restart();
    }
}

#[test]
fn a_scheduled_push_that_the_log_refuses_leaves_nothing() {
    for track in [false, true] {
        let mut world = HubHarness::new();
        away(&mut world, 0..1);
        world.keeps = false;
        let at_ms = world.now.wall_ms + 60_000;
        let (_, reply) = world.push_to(names(0..1), |order| {
            (order.track, order.send_at_ms) = (track, Some(at_ms));
        });
        world.complete(Err(StoreError::Busy));
        assert_eq!(world.answer(reply), Some(PushAnswer::Busy));
        world.hub.audit();
    }
}

#[test]
fn nobody_opens_a_push_that_is_still_to_be_sent() {
    let mut world = HubHarness::new();
    let seat = world.seat("d0");
    let at_ms = world.now.wall_ms + 60_000;
    let (_, reply) = world.push_to(names(0..1), |order| {
        (order.track, order.send_at_ms) = (true, Some(at_ms));
    });
    let push = match world.answer(reply) {
        Some(PushAnswer::Pushed { id, .. }) => id,
        other => panic!("not scheduled: {other:?}"),
    };
    world.events();
    say(&mut world, &seat, 1, push, PushReport::Opened);
    rest(&mut world);
    assert_eq!((world.counts(push).opened, world.events().len()), (0, 0));
    world.hub.audit();
}

#[test]
fn a_report_about_a_push_that_is_not_tracked_is_an_event() {
    let mut world = HubHarness::new();
    let seat = world.seat("d0");
    let (push, _) = world.push("d0", |_| {});
    world.events();
    world.deliveries();
    say(&mut world, &seat, 1, push, PushReport::Dismissed);
    let told: Vec<_> = world.events().into_iter().map(|event| event.what).collect();
    assert_eq!(told, [DeviceWhat::Reported { id: push, report: PushReport::Dismissed }]);
    assert_eq!(world.deliveries(), [(seat.conn, PushDelivery::ReportTaken { term: 0, seq: 1 })]);
}

#[test]
fn a_refused_row_refuses_the_report_and_the_quota_holds() {
    let mut world = HubHarness::with(Product { reports_per_s: 1, ..product() }, settings());
    let seat = world.seat("d0");
    let push = track(&mut world, names(0..1));
    rest(&mut world);
    world.deliveries();
    world.keeps = false;
    say(&mut world, &seat, 1, push, PushReport::Opened);
    world.pass_ms(250);
    world.complete(Err(StoreError::Busy));
    let refused = |seq, why| (seat.conn, PushDelivery::ReportRefused { term: 0, seq, why });
    assert_eq!(world.deliveries(), [refused(1, Refusal::Busy)]);
    assert_eq!(world.counts(push).opened, 0);
    world.keeps = true;
    say(&mut world, &seat, 2, push, PushReport::Opened);
    world.pass_ms(250);
    (3..11).for_each(|seq| say(&mut world, &seat, seq, push, PushReport::Opened));
    assert_eq!(world.counts(push).opened, 1);
    world.deliveries();
    say(&mut world, &seat, 11, push, PushReport::Opened);
    assert_eq!(world.deliveries(), [refused(11, Refusal::Quota)]);
    world.hub.audit();
}

#[test]
fn whoever_has_a_devices_token_may_report_for_it() {
    let mut world = HubHarness::new();
    let seat = world.seat("d0");
    let push = track(&mut world, names(0..1));
    rest(&mut world);
    world.ack(&seat, &[push]);
    world.close(&seat);
    let key = ProductKey::parse("p").expect("a name");
    let token = |world: &mut HubHarness, device: &str, until| {
        let (product, device) = (key.clone(), id(device));
        match world.command(PushCommand::Token { product, device, user: None, until }) {
            PushAnswer::Token(Some(token)) => token,
            other => panic!("no token: {other:?}"),
        }
    };
    let until = WALL_MS / 1_000 + 60;
    let (own, other) = (token(&mut world, "d0", until), token(&mut world, "d1", until));
    let late = token(&mut world, "d0", WALL_MS / 1_000 - 1);
    let report = |device: &str, token: &str| PushCommand::ReportPush {
        product: key.clone(),
        device: id(device),
        token: BearerToken(token.into()),
        push,
        report: PushReport::Opened,
    };
    for wrong in [&*other, &late, "", "x", &own[1..]] {
        assert_eq!(world.command(report("d0", wrong)), PushAnswer::TokenRefused, "{wrong}");
    }
    assert_eq!(world.counts(push).opened, 0);
    let reply = world.tell(report("d0", &own));
    assert_eq!(world.answer(reply), None, "it is not stored yet");
    world.pass_ms(250);
    assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)));
    assert_eq!(world.counts(push).opened, 1);
    assert_eq!(world.command(report("d1", &other)), PushAnswer::Done(false), "an unknown device");
    assert_eq!(world.command(report("d0", &own)), PushAnswer::Done(true));
    assert_eq!(world.counts(push).opened, 1, "it is counted once");
    let block = PushCommand::Block { product: key.clone(), device: id("d0"), blocked: true };
    world.tell(block);
    assert_eq!(world.command(report("d0", &own)), PushAnswer::TokenRefused, "it is blocked");
    world.hub.audit();
    let mut world = HubHarness::with(Product { reports_per_s: 0, ..product() }, settings());
    world.seat("d0");
    let own = token(&mut world, "d0", until);
    assert_eq!(world.command(report("d0", &own)), PushAnswer::NoReports);
}

#[test]
fn beyond_the_limit_of_bytes_the_oldest_finished_push_is_forgotten_on_all_shards() {
    let limits = limited(|pushes| pushes.outcomes_bytes_max = 140);
    let mut world = HubHarness::with(product(), Settings { limits, ..settings() });
    away(&mut world, 0..1);
    let pushes: Vec<_> = (0..4)
        .map(|_| {
            let push = track(&mut world, names(0..1));
            rest(&mut world);
            push
        })
        .collect();
    let is_known = |world: &mut HubHarness, push: MessageId| {
        world.command(PushCommand::PushCounts(push)) != PushAnswer::Counts(None)
    };
    assert!(!is_known(&mut world, pushes[0]) && !is_known(&mut world, pushes[1]));
    assert!(is_known(&mut world, pushes[3]));
    world.hub.audit();
    let rows = world.log.rows(Table::Orders);
    world.restart();
    assert!(!is_known(&mut world, pushes[0]) && is_known(&mut world, pushes[3]));
    assert_eq!(world.log.rows(Table::Orders), rows, "nothing is left of the others");
    // Another shard had too many.
    let forget = OrderMessage::Forget(pushes[3]);
    world.hub.peer_message(world.now, ShardId(1), forget, &mut world.fx);
    rest(&mut world);
    assert!(!is_known(&mut world, pushes[3]));
    world.hub.audit();
}

#[test]
fn without_room_for_lines_an_open_push_is_counted_all_the_same() {
    // A row of one line has 66.
    let limits = limited(|pushes| pushes.outcomes_bytes_max = 66);
    let mut world = HubHarness::with(product(), Settings { limits, ..settings() });
    let seats: Vec<_> = (0..4).map(|n| world.seat(&format!("d{n}"))).collect();
    let push = track(&mut world, names(0..4));
    rest(&mut world);
    for seat in &seats[..2] {
        world.ack(seat, &[push]);
        world.pass_ms(250);
    }
    let check = |world: &mut HubHarness, delivered| {
        let counts = world.counts(push);
        assert_eq!((counts.matched, counts.delivered), (4, delivered), "{counts:?}");
        let page = part(world, push, (0, 100), None);
        assert_eq!((page.lines.len(), page.is_cut), (1, true));
        world.hub.audit();
    };
    check(&mut world, 2);
    let opened = seats[1].clone();
    world.events();
    say(&mut world, &opened, 1, push, PushReport::Opened);
    assert_eq!((world.counts(push).opened, world.events().len()), (0, 1), "it has no line");
    check(&mut world, 2);
    world.close(&seats[3]);
    rest(&mut world);
    assert_eq!(world.counts(push).stored, 1);
    world.restart();
    rest(&mut world);
    check(&mut world, 2);
    let waiting = world.state("d3").map(|state| state.waiting);
    assert_eq!(waiting, Some(1), "a device that stored it is not through with it");
    assert_eq!(world.counts(push).opened, 0);
    let seat = world.seat("d2");
    world.ack(&seat, &[push]);
    world.pass_ms(250);
    assert_eq!(world.counts(push).delivered, 3);
    world.hub.audit();
}

#[test]
fn a_start_knows_that_a_line_is_missing_and_writes_none_later() {
    let limits = limited(|pushes| pushes.outcomes_bytes_max = 66);
    let mut world = HubHarness::with(product(), Settings { limits, ..settings() });
    let seat = world.seat("d0");
    let push = track(&mut world, names(0..1));
    rest(&mut world);
    world.ack(&seat, &[push]);
    rest(&mut world);
    let is_cut = |world: &mut HubHarness| part(world, push, (0, 9), None).is_cut;
    assert!(!is_cut(&mut world));
    say(&mut world, &seat, 1, push, PushReport::Opened);
    rest(&mut world);
    for _ in 0..2 {
        assert!(is_cut(&mut world), "the report has no line");
        assert_eq!(lines(&mut world, push, None), ["d0 delivered"]);
        world.hub.audit();
        world.restart();
    }
}

#[test]
fn the_end_of_a_tracked_push_is_told_whatever_it_is() {
    let mut world = HubHarness::new();
    away(&mut world, 0..3);
    let push = |world: &mut HubHarness, device: u32, ttl_s, change: fn(&mut PushOrder)| {
        let target = names(device..device + 1);
        let (push, _) = world.push_to(target, |order| {
            (order.track, order.time_to_live_s) = (true, ttl_s);
            change(order);
        });
        rest(world);
        push
    };
    let expires = push(&mut world, 0, 60, |_| {});
    let cancelled = push(&mut world, 1, 3_600, |_| {});
    let first = push(&mut world, 2, 3_600, |order| order.collapse = Some("k".into()));
    let second = push(&mut world, 2, 3_600, |order| order.collapse = Some("k".into()));
    let at_once = push(&mut world, 2, 0, |_| {});
    let by = MessageId(1 << 40);
    world.tell(PushCommand::Cancel { id: by, push: cancelled, product: None });
    rest(&mut world);
    world.pass_ms(61_000);
    let seat = world.seat("d0");
    world.close(&seat);
    rest(&mut world);
    for _ in 0..2 {
        let all = BTreeMap::from([
            (expires, vec!["d0 expired"]),
            (cancelled, vec!["d1 cancelled"]),
            (first, vec!["d2 rejected"]),
            (second, vec!["d2 stored"]),
            (at_once, vec!["d2 expired"]),
        ]);
        for (push, told) in all {
            assert_eq!(lines(&mut world, push, None), told, "{push:?}");
        }
        world.restart();
        rest(&mut world);
    }
    let PushCounts { matched, cancelled, .. } = world.counts(cancelled);
    assert_eq!((matched, cancelled), (1, 1));
    world.hub.audit();
}

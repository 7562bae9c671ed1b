//! Delivery of pushes: window, acknowledgement, resend, pull.

use crate::harness::{HubHarness, id, product, settings};
use model::counters::PushCounter;
use model::id::MessageId;
use model::ports::pushes::PushOrder;
use model::product::Product;
use model::push::{Outcome, Priority, Rejection};
use model::request::{PushDelivery, PushRequest};
use model::service::Service;

fn windowed(name: &str, window: u16) -> (HubHarness, crate::harness::Seat) {
    let mut world = HubHarness::new();
    let mut bind = HubHarness::bind(name);
    bind.inflight_max = window;
    let seat = world.seat_with(bind);
    (world, seat)
}

fn ids(pushes: Vec<(MessageId, bool)>) -> Vec<MessageId> {
    pushes.into_iter().map(|(id, _)| id).collect()
}

#[test]
fn the_window_is_kept() {
    let (mut world, seat) = windowed("d", 3);
    let given: Vec<_> = (0..10).map(|_| world.give("d")).collect();
    assert_eq!(ids(world.pushes()), given[..3]);
    let state = world.state("d").expect("known");
    assert_eq!((state.inflight, state.waiting), (3, 10));
    world.ack(&seat, &given[1..2]);
    assert_eq!(ids(world.pushes()), given[3..4]);
    world.hub.audit();
}

#[test]
fn a_cumulative_acknowledgement_covers_only_what_was_sent() {
    let (mut world, seat) = windowed("d", 2);
    let given: Vec<_> = (0..5).map(|_| world.give("d")).collect();
    world.pushes();
    for (upto, delivered) in [(given[4], 0), (MessageId(u64::MAX), 0), (given[1], 2)] {
        let upto = Some(upto);
        world.ask(seat.conn, PushRequest::Ack { device: seat.device, upto, ids: Vec::new() });
        assert_eq!(world.count(PushCounter::Delivered), delivered, "{upto:?}");
    }
    assert_eq!(ids(world.pushes()), given[2..4]);
    let (upto, ids) = (Some(given[2]), vec![given[3]]);
    world.ask(seat.conn, PushRequest::Ack { device: seat.device, upto, ids });
    assert_eq!(world.count(PushCounter::Delivered), 4);
    world.hub.audit();
}

/// Orders a push under an id that is lower than those of pushes ordered before it, as happens with
/// an id of another node, a slow API call, or a slow fan-out.
fn give_late(world: &mut HubHarness, late: MessageId) {
    world.push("d", |order| (order.id, order.wait_ms) = (late, 0));
}

#[test]
fn a_push_that_others_overtook_is_not_acknowledged_by_their_higher_ids() {
    for reads_before in [true, false] {
        let (mut world, seat) = windowed("d", 4);
        let late = world.message_id();
        let first = world.give("d");
        give_late(&mut world, late);
        assert_eq!(ids(world.pushes()), [first, late]);
        // An acknowledgement sent before `late` reached the device, which it never does.
        if reads_before {
            let (upto, ids) = (Some(first), Vec::new());
            world.ask(seat.conn, PushRequest::Ack { device: seat.device, upto, ids });
            assert_eq!(world.count(PushCounter::Delivered), 1);
        }
        world.close(&seat);
        let mut bind = HubHarness::bind("d");
        bind.last_id = Some(first);
        let seat = world.seat_with(bind);
        assert_eq!(world.pushes(), [(late, true)], "it was not lost");
        let (upto, ids) = (Some(late), Vec::new());
        world.ask(seat.conn, PushRequest::Ack { device: seat.device, upto, ids });
        assert_eq!(world.count(PushCounter::Delivered), 2);
        world.hub.audit();
    }
}

#[test]
fn a_pull_gets_what_came_late_though_its_id_is_lower() {
    let mut world = HubHarness::new();
    let late = world.message_id();
    let first = world.give("d");
    give_late(&mut world, late);
    let mut bind = HubHarness::bind("d");
    bind.pulls = true;
    let seat = world.seat_with(bind);
    let pull = |after| PushRequest::Pull { term: 0, device: seat.device, after, count: 1 };
    world.ask(seat.conn, pull(MessageId(0)));
    assert_eq!(ids(world.pushes()), [first]);
    world.ask(seat.conn, pull(first));
    assert_eq!(ids(world.pushes()), [late]);
    world.hub.audit();
}

#[test]
fn an_urgent_push_acknowledges_none_that_it_overtook() {
    let (mut world, seat) = windowed("d", 2);
    let given: Vec<_> = (0..3).map(|_| world.give("d")).collect();
    let (urgent, _) = world.push("d", |order| {
        (order.priority, order.wait_ms) = (Priority::High, 0);
    });
    world.ack(&seat, &given[..2]);
    assert_eq!(ids(world.pushes()), [given[0], given[1], urgent, given[2]]);
    let (upto, ids) = (Some(urgent), Vec::new());
    world.ask(seat.conn, PushRequest::Ack { device: seat.device, upto, ids });
    assert_eq!(world.count(PushCounter::Delivered), 3, "what came behind it is on the way");
    world.hub.audit();
}

#[test]
fn an_acknowledgement_of_what_has_left_covers_what_was_sent_before_it() {
    // The last of three pushes in flight is replaced, twice, by a newer one of its collapse key.
    let (mut world, seat) = windowed("d", 8);
    let given: Vec<_> = (0..2).map(|_| world.give("d")).collect();
    let alike = |world: &mut HubHarness| {
        world.push("d", |order| (order.collapse, order.wait_ms) = (Some("k".into()), 0)).0
    };
    let replaced: Vec<_> = (0..3).map(|_| alike(&mut world)).collect();
    world.pushes();
    let upto = |id| PushRequest::Ack { device: seat.device, upto: Some(id), ids: Vec::new() };
    world.ask(seat.conn, upto(replaced[1]));
    assert_eq!(world.count(PushCounter::Delivered), 2, "{given:?}");
    world.ask(seat.conn, upto(replaced[2]));
    assert_eq!(world.count(PushCounter::Delivered), 3);
    world.hub.audit();
    // The acknowledgement covers pushes sent before the replaced one, and none sent after it.
    let (mut world, seat) = windowed("d", 8);
    let first = world.give("d");
    let second = world.give("d");
    let gone = alike(&mut world);
    let third = world.give("d");
    alike(&mut world);
    world.pushes();
    let ack = |upto, ids| PushRequest::Ack { device: seat.device, upto, ids };
    world.ask(seat.conn, ack(None, vec![second]));
    assert_eq!(world.count(PushCounter::Delivered), 1);
    world.ask(seat.conn, ack(Some(gone), Vec::new()));
    assert_eq!(world.count(PushCounter::Delivered), 2, "{first:?}");
    world.ask(seat.conn, ack(Some(third), Vec::new()));
    assert_eq!(world.count(PushCounter::Delivered), 3);
    world.hub.audit();
}

#[test]
fn an_acknowledgement_of_what_is_unknown_changes_nothing() {
    let (mut world, seat) = windowed("d", 2);
    let push = world.give("d");
    world.ack(&seat, &[MessageId(999), MessageId(0), MessageId(u64::MAX)]);
    assert_eq!(world.count(PushCounter::Delivered), 0);
    world.ack(&seat, &[push, push]);
    world.ack(&seat, &[push]);
    assert_eq!(world.count(PushCounter::Delivered), 1);
    assert_eq!(world.hub.status().waiting, 0);
}

#[test]
fn high_priority_goes_before_what_was_not_sent() {
    let (mut world, seat) = windowed("d", 1);
    let normal: Vec<_> = (0..3).map(|_| world.give("d")).collect();
    let high: Vec<_> =
        (0..2).map(|_| world.push("d", |order| order.priority = Priority::High).0).collect();
    let mut seen = ids(world.pushes());
    for _ in 0..4 {
        let last = *seen.last().expect("one was sent");
        world.ack(&seat, &[last]);
        seen.extend(ids(world.pushes()));
    }
    assert_eq!(seen, [normal[0], high[0], high[1], normal[1], normal[2]]);
    world.hub.audit();
}

#[test]
fn a_push_is_sent_again_after_ten_twenty_and_forty_seconds() {
    let (mut world, seat) = windowed("d", 8);
    let push = world.give("d");
    let mut sent = Vec::new();
    for second in 0..200 {
        if let [(id, again)] = world.pushes()[..] {
            assert_eq!((id, again), (push, second > 0));
            sent.push(second);
        }
        world.pass_ms(1_000);
    }
    // Each resend is up to a second late, from the grain of the timer wheel, or the test's step.
    assert_eq!(sent.len(), 4, "{sent:?}");
    let late = sent.iter().zip([0, 10, 30, 70]).map(|(sent, due)| sent - due);
    assert!(late.clone().all(|late| (0..=3).contains(&late)), "{sent:?}");
    assert_eq!(world.count(PushCounter::Resent), 3);
    world.hub.audit();
    world.ack(&seat, &[push]);
    assert_eq!(world.count(PushCounter::Delivered), 1, "a late acknowledgement is one");
}

#[test]
fn a_push_sent_later_has_its_own_ten_seconds() {
    let (mut world, _) = windowed("d", 8);
    let first = world.give("d");
    world.pass_ms(9_000);
    let second = world.give("d");
    world.pushes();
    world.pass_ms(2_000);
    assert_eq!(world.pushes(), [(first, true)]);
    world.pass_ms(8_200);
    assert_eq!(world.pushes(), [(second, true)]);
    world.hub.audit();
}

#[test]
fn nothing_is_sent_again_once_it_is_acknowledged() {
    let (mut world, seat) = windowed("d", 8);
    let push = world.give("d");
    world.ack(&seat, &[push]);
    world.pushes();
    world.pass_ms(60_000);
    assert_eq!(world.pushes(), []);
    assert_eq!(
        world.hub.turn(world.now, &mut world.fx).map(|next| next > world.now.mono),
        Some(true)
    );
}

#[test]
fn a_device_that_pulls_gets_what_it_asks_for() {
    let mut world = HubHarness::new();
    let given: Vec<_> = (0..6).map(|_| world.give("d")).collect();
    let mut bind = HubHarness::bind("d");
    (bind.pulls, bind.inflight_max) = (true, 4);
    let seat = world.seat_with(bind);
    assert_eq!((seat.bound.offline_count, world.pushes()), (6, vec![]));
    let live = world.give("d");
    assert_eq!(ids(world.pushes()), [live], "what is new is sent");
    let pull = |after, count| PushRequest::Pull { term: 0, device: seat.device, after, count };
    world.ask(seat.conn, pull(given[0], 2));
    let deliveries = world.deliveries();
    assert!(matches!(deliveries[2].1, PushDelivery::Pulled { term: 0, remaining: 3 }));
    assert_eq!(deliveries.len(), 3);
    world.hub.audit();
    world.ask(seat.conn, pull(given[2], 100));
    assert_eq!(ids(world.pushes()), [given[3]], "the window holds four");
    world.ack(&seat, &[given[1], given[2], given[3], live]);
    assert_eq!(ids(world.pushes()), [], "the rest still waits for a Pull");
    world.ask(seat.conn, pull(MessageId(0), 100));
    assert_eq!(ids(world.pushes()), [given[0], given[4], given[5]]);
    world.hub.audit();
}

#[test]
fn a_pull_of_nothing_is_answered() {
    let (mut world, seat) = windowed("d", 4);
    let after = MessageId(0);
    world.ask(seat.conn, PushRequest::Pull { term: 0, device: seat.device, after, count: 1 });
    assert_eq!(world.deliveries(), [(seat.conn, PushDelivery::Pulled { term: 0, remaining: 0 })]);
}

#[test]
fn what_cannot_be_sent_is_rejected() {
    let (mut world, seat) = windowed("d", 4);
    let (push, reply) = world.push("d", |order| order.receipts = true);
    let why = Rejection::TooLarge;
    world.ask(seat.conn, PushRequest::Unsendable { device: seat.device, id: push, why });
    assert_eq!(world.outcome(reply), Some(Outcome::Rejected(why)));
    assert_eq!(world.receipts(), [(push, Outcome::Rejected(why))]);
    world.hub.audit();
}

#[test]
fn what_expired_while_it_waited_is_not_sent() {
    let (mut world, seat) = windowed("d", 1);
    let first = world.give("d");
    let (late, _) = world.push("d", |order| {
        (order.time_to_live_s, order.wait_ms, order.receipts) = (5, 0, true);
    });
    world.pass_ms(6_000);
    world.pushes();
    world.ack(&seat, &[first]);
    assert_eq!((world.pushes(), world.receipts()), (vec![], vec![(late, Outcome::Expired)]));
    world.hub.audit();
}

#[test]
fn the_sweep_ends_what_expired_in_a_queue() {
    let mut world = HubHarness::new();
    for name in ["a", "b"] {
        world.push(name, |order| order.time_to_live_s = 20);
    }
    assert_eq!(world.hub.status().waiting, 2);
    world.pass_ms(19_000);
    assert_eq!(world.hub.status().waiting, 2);
    world.pass_ms(32_000);
    assert_eq!((world.hub.status().waiting, world.count(PushCounter::Expired)), (0, 2));
    world.hub.audit_idle();
}

#[test]
fn a_thousand_unacknowledged_devices_are_resent_in_slices() {
    let mut world = HubHarness::with(product(), settings());
    for n in 0..1_000 {
        let name = format!("d{n}");
        world.seat(&name);
        world.push(&name, |order| order.wait_ms = 0);
    }
    world.pushes();
    world.pass_ms(0);
    let nanos = world.now.mono.nanos() + 11_000_000_000;
    world.now.mono = base::time::Instant::from_nanos(nanos);
    let next = world.hub.turn(world.now, &mut world.fx);
    assert_eq!(next, Some(world.now.mono), "there is more");
    world.write();
    assert_eq!(world.pushes().len(), 64);
    world.turn();
    assert_eq!(world.pushes().len(), 936);
    assert!(world.state(id("d0").as_str()).is_some());
}

#[test]
fn a_timer_that_found_nothing_to_do_is_set_again_for_the_next_push() {
    let (mut world, seat) = windowed("d", 8);
    let first = world.give("d");
    world.ack(&seat, &[first]);
    world.pass_ms(15_000);
    let second = world.give("d");
    world.pushes();
    world.pass_ms(10_100);
    assert_eq!(world.pushes(), [(second, true)]);
}

#[test]
fn what_expired_is_not_announced_to_a_device_that_comes_back() {
    let mut world = HubHarness::new();
    world.push("d", |order| order.time_to_live_s = 5);
    let kept = world.give("d");
    world.now.wall_ms += 6_000;
    let seat = world.seat("d");
    assert_eq!((seat.bound.offline_count, world.pushes()), (1, vec![(kept, false)]));
    assert_eq!(world.count(PushCounter::Expired), 1);
}

#[test]
fn an_urgent_push_does_not_free_what_waits_for_a_pull() {
    let mut world = HubHarness::new();
    world.give("d");
    world.give("d");
    let mut bind = HubHarness::bind("d");
    bind.pulls = true;
    world.seat_with(bind);
    let (high, _) = world.push("d", |order| order.priority = Priority::High);
    assert_eq!(world.pushes(), [(high, false)]);
    world.hub.audit();
}

#[test]
fn nothing_is_sent_again_while_its_first_copy_has_not_left() {
    // A link of 160 kbit/s, a window of 32 pushes of 10 kB: sending the window takes 16 seconds.
    const BYTES_A_MS: usize = 20;
    // The bytes wait in the server, or the kernel takes them at once and only acknowledgements show
    // progress.
    for is_kernels in [false, true] {
        let product = Product { offline_bytes_max: 1 << 20, ..product() };
        let mut world = HubHarness::with(product, settings());
        let seat = world.seat("d");
        if !is_kernels {
            world.written = None;
        }
        let big = |order: &mut PushOrder| (order.wait_ms, order.body) = (0, vec![7; 10_000].into());
        (0..60).for_each(|_| _ = world.push("d", big));
        let (mut backlog, mut asked) = (Vec::<(MessageId, usize)>::new(), false);
        for _ in 0..600 {
            world.pass_ms(100);
            for (_, delivery) in world.deliveries() {
                match delivery {
                    PushDelivery::Push { push, again, .. } => {
                        assert!(!again, "{:?} goes again at {:?}", push.id, world.now);
                        backlog.push((push.id, push.body.len()));
                    }
                    PushDelivery::TellWritten { .. } => asked = true,
                    _ => {}
                }
            }
            let mut left = 100 * BYTES_A_MS;
            while let Some((id, bytes)) = backlog.first_mut()
                && left > 0
            {
                let some = left.min(*bytes);
                (*bytes, left) = (*bytes - some, left - some);
                if *bytes == 0 {
                    let id = *id;
                    backlog.remove(0);
                    world.ack(&seat, &[id]);
                }
            }
            if backlog.is_empty() && std::mem::take(&mut asked) {
                world.ask(seat.conn, PushRequest::Written { device: seat.device });
            }
        }
        assert_eq!(world.count(PushCounter::Delivered), 60);
        assert_eq!(world.count(PushCounter::Resent), 0);
        world.hub.audit();
    }
}

#[test]
fn what_came_and_was_not_acknowledged_goes_again_though_others_are() {
    let (mut world, seat) = windowed("d", 8);
    let lost = world.give("d");
    let (mut sent, mut last) = (Vec::new(), None);
    for second in 0..25 {
        for (id, again) in world.pushes() {
            match id == lost {
                true => sent.extend(again.then_some(second)),
                false => world.ack(&seat, &[id]),
            }
        }
        world.pass_ms(1_000);
        last = Some(world.give("d"));
    }
    // Pushes sent after this one have arrived, so it has too: acknowledgements do not delay its
    // resend.
    assert!(matches!(sent[..], [10..=12]), "{sent:?}");
    // The last push may still be on its way: its seconds count from the last acknowledgement.
    let last = last.expect("some were");
    world.pass_ms(0);
    assert!(world.pushes().contains(&(last, false)));
    world.pass_ms(8_000);
    let slow = world.give("d");
    world.pushes();
    world.ack(&seat, &[slow]);
    world.pass_ms(5_000);
    assert!(world.pushes().contains(&(last, true)), "it came before one that was acknowledged");
    world.hub.audit();
}

#[test]
fn what_a_device_that_reads_nothing_costs_is_its_window_once_and_a_little() {
    let (mut world, seat) = windowed("d", 32);
    world.written = None;
    let big = |order: &mut PushOrder| (order.wait_ms, order.body) = (0, vec![7; 4_096].into());
    (0..100).for_each(|_| _ = world.push("d", big));
    let mut bytes = 0;
    let mut look = |world: &mut HubHarness| {
        let pushes = world.deliveries().into_iter().filter_map(|(_, delivery)| match delivery {
            PushDelivery::Push { push, .. } => Some(push.body.len()),
            _ => None,
        });
        bytes += pushes.sum::<usize>();
        bytes
    };
    look(&mut world);
    for _ in 0..300 {
        world.pass_ms(1_000);
        look(&mut world);
    }
    assert_eq!(look(&mut world), 32 * 4_096, "its first copies");
    // The kernel took all pushes; the next ones stay in the server.
    world.ask(seat.conn, PushRequest::Written { device: seat.device });
    world.pass_ms(100_000);
    assert_eq!(look(&mut world), 32 * 4_096 + 16 * 1_024);
    world.hub.audit();
}

//! Much of one thing.

use crate::harness::{BrokerHarness, Client, connect, durable, limits, message, retained, wish};
use base::prng::Prng;
use model::close::CloseReason;
use model::counters::TopicCounter;
use model::ports::topics::{ClientState, TopicAnswer, TopicCommand};
use model::session::*;
use model::topic::Qos;
use std::collections::BTreeSet;
use std::sync::Arc;

#[test]
fn ten_thousand_take_overs_of_one_identifier_leave_one_session() {
    let mut world = BrokerHarness::with(1, |settings| {
        let mut limits = limits();
        limits.topics.flaps_max = u16::MAX;
        settings.limits = Arc::new(limits);
    });
    let mut last = world.client(durable("a"));
    world.subscribe(&last, "t", Qos::AtLeastOnce);
    for n in 0..10_000u32 {
        let new = world.client(durable("a"));
        assert!(new.connected.present, "round {n}");
        let told = world.heard(last.conn);
        assert!(matches!(&told[..], [SessionDelivery::End(_)]));
        world.cut(&last);
        last = new;
    }
    assert_eq!(world.count(TopicCounter::SessionsTakenOver), 10_000);
    let status = world.status();
    assert_eq!((status.sessions, status.sessions_online, status.subscriptions), (1, 1, 1));
    let source = world.client(connect("source"));
    world.send(&source, 1, message("t", Qos::AtLeastOnce, "x"));
    assert_eq!(world.payloads(&last), ["x"]);
    world.audit();
}

#[test]
fn a_subscriber_of_everything_gets_all_retained_messages_page_by_page() {
    const COUNT: usize = 100_000;
    for (shards, qos) in [(1, Qos::AtMostOnce), (3, Qos::AtMostOnce), (2, Qos::AtLeastOnce)] {
        let mut world = BrokerHarness::new(shards);
        let source = world.client(connect("source"));
        for n in 0..COUNT {
            let message = Arc::new(retained(&format!("t/{n}"), qos, "x"));
            let (session, id) = (source.session, if qos == Qos::AtMostOnce { 0 } else { 1 });
            world.tell(source.conn, SessionRequest::Publish { session, id, again: false, message });
            if n % 1_000 == 0 {
                world.run();
            }
        }
        world.run();
        world.heard(source.conn);
        assert_eq!(world.status().retained, COUNT as u64);
        let a = world.client(connect("a"));
        world.subscribe(&a, "#", qos);
        let (mut got, mut most) = (0, 0);
        loop {
            let messages = world.messages(&a);
            if messages.is_empty() {
                break;
            }
            (got, most) = (got + messages.len(), most.max(messages.len()));
            match qos {
                Qos::AtMostOnce => {
                    world.ask(a.conn, SessionRequest::Ready { session: a.session });
                }
                _ => messages.iter().for_each(|outgoing| world.puback(&a, outgoing.id)),
            }
        }
        assert_eq!(got, COUNT, "all of them");
        assert!(most <= 200, "{most} at once");
        world.audit();
    }
}

/// So many clients that are to be told of a topic, and go away.
fn away(world: &mut BrokerHarness, count: u32, (topic, qos): (&str, Qos)) -> Vec<String> {
    let names: Vec<_> = (0..count).map(|n| format!("away-{n}")).collect();
    let conns: Vec<_> = names.iter().map(|name| world.conn(name)).collect();
    for (name, &conn) in names.iter().zip(&conns) {
        world.tell(conn, SessionRequest::Connect(Box::new(durable(name))));
    }
    world.run();
    let sessions = conns.iter().map(|&conn| match world.heard(conn).pop() {
        Some(SessionDelivery::Connected(connected)) => (conn, connected.session),
        other => panic!("{other:?}"),
    });
    let sessions: Vec<_> = sessions.collect();
    for &(conn, session) in &sessions {
        let (id, subscription_id) = (1, None);
        let wishes = vec![wish(topic, qos)];
        let packet = Box::new(SubscribeRequest { session, id, subscription_id, wishes });
        world.tell(conn, SessionRequest::Subscribe(packet));
    }
    world.run();
    for &(conn, session) in &sessions {
        world.tell(conn, SessionRequest::Closed { session, reason: CloseReason::PeerReset });
    }
    world.run();
    names
}

/// State of a client, as the API shows it.
fn state(world: &mut BrokerHarness, name: &str) -> ClientState {
    match world.command(0, TopicCommand::Client(name.into())) {
        TopicAnswer::Client(Some(state)) => *state,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_waits_for_ten_thousand_who_are_away_costs_ten_thousand_heads() {
    const COUNT: u64 = 10_000;
    let mut world = BrokerHarness::with(1, |settings| {
        let mut limits = limits();
        limits.binds_per_s = 1_000_000;
        settings.limits = Arc::new(limits);
    });
    let names = away(&mut world, COUNT as u32, ("t", Qos::AtLeastOnce));
    let source = world.client(connect("source"));
    let mut costs = Vec::new();
    for n in 1..=40 {
        let payload = format!("{n:0500}");
        world.send(&source, n, message("t", Qos::AtLeastOnce, &payload));
        let status = world.status();
        assert_eq!(status.queued, COUNT * u64::from(n));
        costs.push(status.queued_bytes);
    }
    let cost = costs[0];
    assert!(costs.iter().all(|&other| other == cost), "{costs:?}");
    assert!(cost <= COUNT * 1_200, "{cost} bytes for {COUNT} heads");
    world.audit();
    let before = state(&mut world, &names[77]);
    world.crash();
    let status = world.status();
    assert_eq!((status.queued, status.queued_bytes), (COUNT * 40, cost));
    let after = state(&mut world, &names[77]);
    assert_eq!((after.queued, after.queued_bytes), (before.queued, before.queued_bytes));
    world.audit();
    let back = world.client(durable(&names[77]));
    let (all, mut got) = ((1..=40).map(|n| format!("{n:0500}")).collect::<Vec<_>>(), Vec::new());
    while got.len() < all.len() {
        let some = world.messages(&back);
        assert!(!some.is_empty(), "{} of {}", got.len(), all.len());
        for outgoing in some {
            got.push(crate::harness::payload(&outgoing));
            world.puback(&back, outgoing.id);
        }
    }
    assert_eq!(got, all);
    assert_eq!(world.status().queued, (COUNT - 1) * 40);
    world.audit();
}

#[test]
fn what_waits_in_the_log_and_what_comes_meanwhile_are_in_order_and_each_comes_once() {
    let mut world = BrokerHarness::new(1);
    let names = away(&mut world, 1, ("t", Qos::AtLeastOnce));
    let source = world.client(connect("source"));
    let send = |world: &mut BrokerHarness, n: u32| {
        let id = (n % 60_000 + 1) as u16;
        world.send(&source, id, message("t", Qos::AtLeastOnce, &n.to_string()));
    };
    (0..1_000).for_each(|n| send(&mut world, n));
    let (mut got, mut next) = (Vec::new(), 1_000);
    for round in 0.. {
        let back = world.client(durable(&names[0]));
        // Every seventh connection breaks in the middle of a window.
        let breaks_after = if round % 7 == 6 { 50 } else { 230 };
        let (mut acknowledged, mut is_last) = (0, false);
        while !is_last {
            let some = world.messages(&back);
            is_last = some.is_empty() || acknowledged >= breaks_after;
            for outgoing in some {
                let n: u32 = crate::harness::payload(&outgoing).parse().expect("a number");
                assert_eq!(outgoing.again, got.contains(&n), "{n}");
                if !outgoing.again {
                    got.push(n);
                }
                if acknowledged < breaks_after {
                    world.puback(&back, outgoing.id);
                    acknowledged += 1;
                }
            }
            if next < 1_500 {
                (next..next + 5).for_each(|n| send(&mut world, n));
                next += 5;
                is_last = false;
            }
        }
        world.audit();
        if got.len() == 1_500 && world.status().queued == 0 {
            break;
        }
        assert!(round < 100, "it comes to an end: {}", got.len());
        for outgoing in world.messages(&back) {
            got.push(crate::harness::payload(&outgoing).parse().expect("a number"));
        }
        world.cut(&back);
    }
    assert!(got.iter().copied().eq(0..1_500), "in order");
}

/// Says something to a client that has what it was told before, as a receiver of QoS 2 does.
fn receive(
    world: &mut BrokerHarness,
    back: &Client,
    word: SessionDelivery,
    (open, got): (&mut BTreeSet<u16>, &mut Vec<u32>),
) {
    match word {
        SessionDelivery::Publish(outgoing) => {
            if open.insert(outgoing.id) {
                got.push(crate::harness::payload(&outgoing).parse().expect("a number"));
            }
            world.ack(back, outgoing.id, AckStep::Pubrec(false));
        }
        SessionDelivery::Release { id, .. } => {
            open.remove(&id);
            world.ack(back, id, AckStep::Pubcomp);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_waits_at_qos_2_comes_once_and_in_order_over_kills() {
    const COUNT: u32 = 400;
    for seed in 0..6 {
        let mut rng = Prng::new(seed);
        let mut world = BrokerHarness::new(1);
        let names = away(&mut world, 1, ("t", Qos::ExactlyOnce));
        let source = world.client(connect("source"));
        for n in 0..COUNT {
            let id = n as u16 + 1;
            world.send(&source, id, message("t", Qos::ExactlyOnce, &n.to_string()));
            world.release(&source, id);
        }
        let (mut open, mut got) = (BTreeSet::new(), Vec::new());
        for round in 0.. {
            assert!(round < 1_000, "seed {seed}: {} of {COUNT}", got.len());
            let back = world.client(durable(&names[0]));
            let (mut words, mut is_lost) = (rng.below(120), false);
            while words > 0 {
                let heard = world.heard(back.conn);
                if heard.is_empty() {
                    break;
                }
                // What is not looked at was lost on the way, with all behind it.
                is_lost |= heard.len() as u64 > words;
                for word in heard.into_iter().take(words as usize) {
                    words -= 1;
                    receive(&mut world, &back, word, (&mut open, &mut got));
                }
            }
            world.audit();
            if got.len() == COUNT as usize && open.is_empty() && world.status().queued == 0 {
                break;
            }
            match rng.below(3) {
                0 => world.cut(&back),
                1 => world.crash(),
                _ => {
                    // The log carries some out, and nobody hears of it.
                    world.keeps = false;
                    let heard = world.heard(back.conn);
                    for word in heard.into_iter().take(if is_lost { 0 } else { 5 }) {
                        receive(&mut world, &back, word, (&mut open, &mut got));
                    }
                    world.crash_after(rng.below(8) as usize);
                    world.keeps = true;
                    world.run();
                }
            }
        }
        assert!(got.iter().copied().eq(0..COUNT), "seed {seed}: once, and in order");
        world.crash();
        assert_eq!(world.status().queued, 0);
        world.audit();
    }
}

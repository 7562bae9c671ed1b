//! Shared subscriptions.

use crate::harness::{BrokerHarness, Client, connect, durable, message, payload};
use base::prng::Prng;
use model::session::*;
use model::timeline::{Space, TimelineId};
use model::topic::Qos;
use std::collections::BTreeSet;

fn member(
    world: &mut BrokerHarness,
    shard: usize,
    prefix: &str,
    make: fn(&str) -> ConnectRequest,
) -> Client {
    let name = world.name_on(shard, prefix);
    let client = world.client(make(&name));
    world.subscribe(&client, "$share/g/t/#", Qos::ExactlyOnce);
    client
}

#[test]
fn each_message_goes_to_one_member_in_turn() {
    for shards in [1, 3] {
        let mut world = BrokerHarness::new(shards);
        let last = usize::from(shards) - 1;
        let a = member(&mut world, 0, "a", connect);
        let b = member(&mut world, last, "b", connect);
        let other = world.client(connect("other"));
        world.subscribe(&other, "$share/h/t/#", Qos::AtMostOnce);
        let source = world.client(connect("source"));
        for n in 1..=10 {
            let answer = world.publish_at(&source, n, message("t/x", Qos::AtLeastOnce, "x"));
            assert_eq!(answer, Some(Ok(Routed::Matched)));
        }
        let (to_a, to_b) = (world.messages(&a), world.messages(&b));
        assert_eq!((to_a.len(), to_b.len()), (5, 5));
        let others = world.messages(&other);
        assert_eq!(others.len(), 10, "another group gets all");
        assert!(others.iter().all(|outgoing| outgoing.qos == Qos::AtMostOnce), "at its own QoS");
        world.audit();
    }
}

#[test]
fn what_a_member_did_not_answer_goes_to_another_one() {
    for shards in [1, 3] {
        let mut world = BrokerHarness::new(shards);
        let last = usize::from(shards) - 1;
        let a = member(&mut world, 0, "a", connect);
        let b = member(&mut world, last, "b", connect);
        let source = world.client(connect("source"));
        for n in 1..=6 {
            world.send(&source, n, message("t/x", Qos::AtLeastOnce, &n.to_string()));
        }
        let (to_a, to_b) = (world.messages(&a), world.messages(&b));
        world.puback(&a, to_a[0].id);
        world.cut(&a);
        let again = world.payloads(&b);
        assert_eq!(again, [payload(&to_a[1]), payload(&to_a[2])]);
        assert_eq!(to_b.len(), 3);
        world.cut(&b);
        assert_eq!(world.dropped(Drop::NoMember), 5, "nobody is left");
        world.audit();
    }
}

#[test]
fn a_qos_2_delivery_that_began_stays_with_its_member() {
    let mut world = BrokerHarness::new(1);
    let a = member(&mut world, 0, "a", connect);
    let source = world.client(connect("source"));
    world.send(&source, 1, message("t/x", Qos::ExactlyOnce, "x"));
    assert_eq!(world.messages(&a).len(), 1);
    let b = member(&mut world, 0, "b", connect);
    world.cut(&a);
    assert_eq!(world.payloads(&b), [""; 0], "nobody else gets it, even if its session ends");
    world.audit();
}

#[test]
fn a_refusal_ends_a_message_for_all() {
    let mut world = BrokerHarness::new(1);
    let a = member(&mut world, 0, "a", connect);
    let source = world.client(connect("source"));
    world.send(&source, 1, message("t/x", Qos::AtLeastOnce, "x"));
    let id = world.messages(&a)[0].id;
    let b = member(&mut world, 0, "b", connect);
    world.ack(&a, id, AckStep::Puback(true));
    world.cut(&a);
    assert_eq!(world.payloads(&b), [""; 0]);
}

#[test]
fn the_work_of_a_member_with_a_long_name_is_neither_lost_nor_doubled() {
    for (bytes, qos) in [228, 229, 256].into_iter().flat_map(|n| BOTH.map(|qos| (n, qos))) {
        let mut world = BrokerHarness::new(2);
        let names = (10..100).map(|n| format!("{}{n}", "a".repeat(bytes - 2)));
        let name = names.into_iter().find(|name| world.home(name) == 0).expect("some are");
        let come = |world: &mut BrokerHarness| {
            world.client(ConnectRequest { receive_max: 1, ..durable(&name) })
        };
        let a = come(&mut world);
        world.subscribe(&a, "$share/g/t/#", Qos::ExactlyOnce);
        let b = member(&mut world, 1, "b", durable);
        send_many(&mut world, qos, 10);
        assert_eq!(world.messages(&a).len(), 1);
        world.cut(&a);
        let to_b = drain(&mut world, &b);
        world.pass_s(5);
        assert_eq!(drain(&mut world, &b), [0; 0], "nothing is offered for ever");
        // What is named in no label could be doubled by a kill, which QoS 2 does not allow.
        let stays = if qos == Qos::AtLeastOnce {
            0
        } else if bytes == 228 {
            1
        } else {
            5
        };
        assert_eq!(to_b.len(), 10 - stays, "{bytes} {qos:?}");
        let a = come(&mut world);
        let again = drain(&mut world, &a);
        assert_eq!(sorted([to_b, again]), (1..=10).collect::<Vec<u32>>(), "{bytes} {qos:?}");
        assert_eq!(Drop::ALL.map(|why| world.dropped(why)).iter().sum::<u64>(), 0);
        world.audit();
    }
}

#[test]
fn members_that_are_online_come_first_and_durable_ones_keep_what_is_left() {
    for shards in [1, 3] {
        let mut world = BrokerHarness::new(shards);
        let last = usize::from(shards) - 1;
        let away = member(&mut world, last, "away", durable);
        let here = member(&mut world, 0, "here", connect);
        world.cut(&away);
        let source = world.client(connect("source"));
        for n in 1..=4 {
            world.send(&source, n, message("t/x", Qos::AtLeastOnce, &n.to_string()));
        }
        let messages = world.messages(&here);
        assert_eq!(messages.len(), 4, "the one that is away gets nothing");
        messages.iter().for_each(|outgoing| world.puback(&here, outgoing.id));
        world.leave(&here);
        world.heard(source.conn);
        let answer = world.publish_at(&source, 5, message("t/x", Qos::AtLeastOnce, "5"));
        assert_eq!(answer, Some(Ok(Routed::Matched)), "it is on stable storage");
        world.crash();
        let name = world.name_on(last, "away");
        let back = world.client(durable(&name));
        assert_eq!(world.payloads(&back), ["5"]);
        world.audit();
    }
}

#[test]
fn unsubscribing_leaves_the_group() {
    let mut world = BrokerHarness::new(2);
    let a = member(&mut world, 1, "a", connect);
    assert_eq!(world.status().subscriptions, 1);
    assert_eq!(world.unsubscribe(&a, "$share/g/t/#"), Ok(true));
    assert_eq!(world.unsubscribe(&a, "$share/g/t/#"), Ok(false));
    let source = world.client(connect("source"));
    let answer = world.publish_at(&source, 1, message("t/x", Qos::AtLeastOnce, "x"));
    assert_eq!(answer, Some(Ok(Routed::NoSubscriber)));
    assert_eq!(world.status().subscriptions, 0);
}

/// A member that outlives its connections and is sent one message at a time.
fn lasting(world: &mut BrokerHarness, shard: usize, prefix: &str) -> Client {
    let name = world.name_on(shard, prefix);
    let client = world.client(ConnectRequest { receive_max: 1, ..durable(&name) });
    if !client.connected.present {
        world.subscribe(&client, "$share/g/t/#", Qos::ExactlyOnce);
    }
    client
}

fn send_many(world: &mut BrokerHarness, qos: Qos, count: u16) {
    let source = world.client(connect("source"));
    for n in 1..=count {
        world.send(&source, n, message("t/x", qos, &n.to_string()));
        if qos == Qos::ExactlyOnce {
            world.release(&source, n);
        }
    }
}

/// Messages that a client gets if it answers everything, in the order in which they come.
fn drain(world: &mut BrokerHarness, client: &Client) -> Vec<u32> {
    let mut got = Vec::new();
    loop {
        let heard = world.heard(client.conn);
        if heard.is_empty() {
            return got;
        }
        for word in heard {
            let (id, step) = match word {
                SessionDelivery::Publish(outgoing) => {
                    got.push(payload(&outgoing).parse().expect("a number"));
                    match outgoing.qos {
                        Qos::ExactlyOnce => (outgoing.id, AckStep::Pubrec(false)),
                        _ => (outgoing.id, AckStep::Puback(false)),
                    }
                }
                SessionDelivery::Release { id, .. } => (id, AckStep::Pubcomp),
                other => panic!("{other:?}"),
            };
            world.ack(client, id, step);
        }
    }
}

fn sorted(parts: [Vec<u32>; 2]) -> Vec<u32> {
    let mut all = parts.concat();
    all.sort_unstable();
    all
}

const BOTH: [Qos; 2] = [Qos::AtLeastOnce, Qos::ExactlyOnce];

#[test]
fn the_work_of_a_durable_member_that_goes_away_goes_to_another_one() {
    // Bodies in memory alone, and more than that, in one log and between two.
    for (shards, count, qos) in [1, 2, 3].into_iter().flat_map(|shards| {
        [10, 900].into_iter().flat_map(move |count| BOTH.map(|qos| (shards, count, qos)))
    }) {
        let mut world = BrokerHarness::new(shards);
        let a = lasting(&mut world, 0, "a");
        let b = member(&mut world, usize::from(shards) - 1, "b", durable);
        send_many(&mut world, qos, count);
        let first = world.messages(&a);
        assert_eq!(first.len(), 1);
        world.cut(&a);
        let to_b = drain(&mut world, &b);
        let stays = usize::from(qos == Qos::ExactlyOnce);
        assert_eq!(to_b.len(), usize::from(count) - stays, "{shards} {count} {qos:?}");
        let a = lasting(&mut world, 0, "a");
        let again = drain(&mut world, &a);
        assert_eq!(again.len(), stays, "what began at QoS 2 stays");
        let all: Vec<u32> = (1..=count.into()).collect();
        assert_eq!(sorted([to_b, again]), all, "each once");
        let entries = world.nodes.iter().map(|node| node.log.restoration().entries());
        assert_eq!(entries.sum::<usize>(), 0, "it has left the log");
        world.audit();
    }
}

#[test]
fn the_work_of_a_session_that_its_client_ends_goes_to_another_one() {
    for (shards, qos) in [1, 2].into_iter().flat_map(|shards| BOTH.map(|qos| (shards, qos))) {
        let mut world = BrokerHarness::new(shards);
        let a = lasting(&mut world, 0, "a");
        let b = member(&mut world, usize::from(shards) - 1, "b", durable);
        send_many(&mut world, qos, 100);
        assert_eq!(world.messages(&a).len(), 1);
        let (session, expiry_s) = (a.session, Some(0));
        world.ask(a.conn, SessionRequest::Leave { session, with_will: false, expiry_s });
        let stays = usize::from(qos == Qos::ExactlyOnce);
        assert_eq!(drain(&mut world, &b).len(), 100 - stays, "{shards} {qos:?}");
        world.audit();
    }
}

#[test]
fn work_stays_with_a_member_that_goes_while_nobody_is_online() {
    for shards in [1, 2] {
        let mut world = BrokerHarness::new(shards);
        let a = lasting(&mut world, 0, "a");
        let b = member(&mut world, usize::from(shards) - 1, "b", durable);
        world.cut(&b);
        send_many(&mut world, Qos::AtLeastOnce, 300);
        assert_eq!(world.messages(&a).len(), 1);
        world.cut(&a);
        let name = world.name_on(usize::from(shards) - 1, "b");
        let b = world.client(durable(&name));
        assert_eq!(drain(&mut world, &b), [0; 0], "it need not move later");
        let a = lasting(&mut world, 0, "a");
        let first = world.messages(&a);
        assert!(first[0].again, "it was sent before");
        world.puback(&a, first[0].id);
        let rest = drain(&mut world, &a);
        assert_eq!(rest, (2..=300).collect::<Vec<u32>>(), "in its order");
        world.audit();
    }
}

#[test]
fn what_was_not_given_back_stays_with_a_member_that_returns() {
    for qos in BOTH {
        let mut world = BrokerHarness::new(2);
        let a = lasting(&mut world, 0, "a");
        let b = member(&mut world, 1, "b", durable);
        send_many(&mut world, qos, 900);
        assert_eq!(world.messages(&a).len(), 1);
        world.carries = false;
        world.cut(&a);
        let a = lasting(&mut world, 0, "a");
        world.carries = true;
        world.run();
        let (to_a, to_b) = (drain(&mut world, &a), drain(&mut world, &b));
        assert!(to_a.len() > 200, "{}", to_a.len());
        assert_eq!(sorted([to_a, to_b]), (1..=900).collect::<Vec<u32>>(), "each once");
        world.audit();
    }
}

#[test]
fn a_kill_while_work_moves_loses_nothing() {
    for (shards, qos) in [1, 2].into_iter().flat_map(|shards| BOTH.map(|qos| (shards, qos))) {
        for count in [0, 1, 2, 3, 50, 129, 130, 131, 200, 400] {
            let mut world = BrokerHarness::new(shards);
            let a = lasting(&mut world, 0, "a");
            let b = member(&mut world, usize::from(shards) - 1, "b", durable);
            send_many(&mut world, qos, 600);
            let mut to_b = drain(&mut world, &b);
            world.keeps = false;
            world.cut(&a);
            for _ in 0..count / 100 {
                world.complete(130, |_| Ok(()));
            }
            world.crash_after(count % 100);
            world.keeps = true;
            world.run();
            let name = world.name_on(usize::from(shards) - 1, "b");
            let b = world.client(durable(&name));
            to_b.append(&mut drain(&mut world, &b));
            let a = lasting(&mut world, 0, "a");
            let mut all = sorted([drain(&mut world, &a), to_b]);
            let came = all.len();
            all.dedup();
            assert_eq!(all, (1..=600).collect::<Vec<u32>>(), "{shards} {qos:?} {count}");
            assert!(came == 600 || qos == Qos::AtLeastOnce, "{shards} {count}: twice at QoS 2");
            world.audit();
        }
    }
}

#[test]
fn work_is_not_given_to_a_member_that_would_have_to_drop_it() {
    for shards in [1, 2] {
        let few = |settings: &mut broker::Settings| {
            let mut limits = crate::harness::limits();
            limits.topics.queue_count_max = 100;
            settings.limits = std::sync::Arc::new(limits);
        };
        let mut world = BrokerHarness::with(shards, few);
        let a = lasting(&mut world, 0, "a");
        let b = lasting(&mut world, usize::from(shards) - 1, "b");
        send_many(&mut world, Qos::AtLeastOnce, 180);
        world.cut(&a);
        let mut to_b = drain(&mut world, &b);
        assert!(to_b.len() >= 90, "its own");
        for _ in 0..10 {
            world.pass_s(2);
            to_b.append(&mut drain(&mut world, &b));
        }
        assert_eq!(sorted([to_b, Vec::new()]), (1..=180).collect::<Vec<u32>>());
        assert_eq!(world.dropped(Drop::QueueCount), 0);
        world.audit();
    }
}

/// A client of a group with its side of the session.
#[derive(Default)]
struct Sim {
    name: String,
    client: Option<Client>,
    held: BTreeSet<u16>,
    todo: Vec<(u16, AckStep)>,
    got: Vec<(u32, Qos)>,
}

impl Sim {
    fn come(&mut self, world: &mut BrokerHarness) {
        self.todo.clear();
        let make = ConnectRequest { receive_max: 3, ..durable(&self.name) };
        let client = world.client(make);
        if !client.connected.present {
            world.subscribe(&client, "$share/g/t/#", Qos::ExactlyOnce);
        }
        self.client = Some(client);
    }

    fn hear(&mut self, world: &mut BrokerHarness) {
        let Some(client) = &self.client else { return };
        for word in world.heard(client.conn) {
            match word {
                SessionDelivery::Publish(outgoing) => {
                    let number = payload(&outgoing).parse().expect("a number");
                    let twice = outgoing.qos == Qos::ExactlyOnce;
                    if !twice || self.held.insert(outgoing.id) {
                        self.got.push((number, outgoing.qos));
                    }
                    let puback = AckStep::Puback(false);
                    let step = if twice { AckStep::Pubrec(false) } else { puback };
                    self.todo.push((outgoing.id, step));
                }
                SessionDelivery::Release { id, .. } => {
                    self.held.remove(&id);
                    self.todo.push((id, AckStep::Pubcomp));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn answer(&mut self, world: &mut BrokerHarness, count: usize) {
        let Some(client) = self.client.clone() else { return };
        for (id, step) in self.todo.drain(..count.min(self.todo.len())) {
            world.ack(&client, id, step);
        }
    }
}

fn flapping(seed: u64) {
    let mut rng = Prng::new(seed);
    let mut world = BrokerHarness::with(1 + rng.below(3) as u16, |settings| {
        let mut limits = crate::harness::limits();
        limits.topics.flaps_max = u16::MAX;
        settings.limits = std::sync::Arc::new(limits);
    });
    let shards = world.nodes.len();
    let prefixes = ["a", "b", "c"].into_iter().enumerate();
    let names = prefixes.map(|(n, prefix)| world.name_on(n % shards, prefix));
    let mut sims: Vec<_> = names.map(|name| Sim { name, ..Sim::default() }).collect();
    sims.iter_mut().for_each(|sim| sim.come(&mut world));
    let mut sent = Vec::new();
    for _ in 0..300 {
        let at = rng.below(3) as usize;
        match rng.below(20) {
            0..5 if world.keeps && world.carries => {
                let source = world.client(connect("source"));
                let many = if rng.one_in(20) { 200 } else { 20 };
                for _ in 0..rng.below(many) {
                    let qos = BOTH[rng.below(2) as usize];
                    let number = sent.len();
                    let answer =
                        world.publish_at(&source, 1, message("t/x", qos, &number.to_string()));
                    assert_eq!(answer, Some(Ok(Routed::Matched)));
                    world.release(&source, 1);
                    world.heard(source.conn);
                    sent.push(qos);
                }
            }
            5..9 if sims[at].client.is_none() && world.keeps => sims[at].come(&mut world),
            5..9 => {
                if let Some(client) = sims[at].client.take() {
                    world.cut(&client);
                }
            }
            9..14 => {
                let count = rng.below(9) as usize;
                sims[at].answer(&mut world, count);
            }
            14 | 15 => world.keeps ^= true,
            16 => world.carries ^= true,
            17 => world.complete(rng.below(9) as usize, |_| Ok(())),
            18 => world.run(),
            _ if rng.one_in(3) => {
                (world.keeps, world.carries) = (true, true);
                world.crash_after(rng.below(9) as usize);
                sims.iter_mut().for_each(|sim| sim.client = None);
            }
            _ => world.pass_ms(700),
        }
        sims.iter_mut().for_each(|sim| sim.hear(&mut world));
    }
    settle(seed, world, sims, &sent);
}

/// Everybody is there and takes what there is: nothing is lost, and QoS 2 came once.
fn settle(seed: u64, mut world: BrokerHarness, mut sims: Vec<Sim>, sent: &[Qos]) {
    (world.keeps, world.carries) = (true, true);
    world.pass_s(5);
    for sim in &mut sims {
        if sim.client.is_none() {
            sim.come(&mut world);
        }
    }
    for _ in 0..2_000 {
        for sim in &mut sims {
            sim.hear(&mut world);
            sim.answer(&mut world, 9);
        }
    }
    let mut got: Vec<_> = sims.iter().flat_map(|sim| sim.got.iter().copied()).collect();
    got.sort_unstable_by_key(|&(number, _)| number);
    for (number, &qos) in sent.iter().enumerate() {
        let count = got.iter().filter(|&&(of, _)| of as usize == number).count();
        assert!(count >= 1, "seed {seed}: {number} at {qos:?} is lost");
        assert!(count == 1 || qos == Qos::AtLeastOnce, "seed {seed}: {number} came twice");
    }
    let entries = world.nodes.iter().map(|node| node.log.restoration().entries());
    assert_eq!(entries.sum::<usize>(), 0, "seed {seed}: it has left the log");
    assert_eq!(world.status().queued, 0, "seed {seed}");
    world.audit();
}

#[test]
fn whatever_members_do_each_message_of_a_group_gets_through() {
    let count =
        std::env::var("BROKER_SEEDS").ok().and_then(|text| text.rsplit('+').next()?.parse().ok());
    (0..count.unwrap_or(40)).for_each(flapping);
}

/// The shard that owns a group.
fn owner_of_group(world: &BrokerHarness, name: &str, filter: &str) -> usize {
    let hash = crate::harness::HOME.of(&[b"mqtt-share", name.as_bytes(), filter.as_bytes()]);
    usize::from(base::hash::home(hash, world.nodes.len() as u16))
}

#[test]
fn a_member_hears_its_suback_when_its_group_knows_it() {
    for make in [connect, durable] {
        let mut world = BrokerHarness::new(3);
        let owner = owner_of_group(&world, "g", "t");
        let name = world.name_on((owner + 1) % 3, "a");
        let a = world.client(make(&name));
        let name = world.name_on((owner + 2) % 3, "source");
        let source = world.client(connect(&name));
        world.carries = false;
        let packet = SubscribeRequest {
            session: a.session,
            id: 5,
            subscription_id: None,
            wishes: vec![
                crate::harness::wish("$share/g/t", Qos::AtLeastOnce),
                crate::harness::wish("plain", Qos::AtLeastOnce),
            ],
        };
        world.ask(a.conn, SessionRequest::Subscribe(Box::new(packet)));
        assert_eq!(world.heard(a.conn), [], "its group does not know it yet");
        // Whoever publishes when it is told reaches it, however slow its peer messages are.
        while world.peer_messages.keys().next().is_some() {
            let (from, to) = *world.peer_messages.keys().next().expect("one");
            world.post_one(from, to);
            world.run();
            if !world.heard(a.conn).is_empty() {
                break;
            }
        }
        world.carries = true;
        let answer = world.publish_at(&source, 1, message("t", Qos::AtLeastOnce, "x"));
        assert_eq!(answer, Some(Ok(Routed::Matched)));
        assert_eq!(world.payloads(&a), ["x"]);
        world.audit();
    }
}

#[test]
fn a_client_that_begins_anew_while_a_message_is_on_its_way_is_the_same_member() {
    for subscribes in [true, false] {
        let mut world = BrokerHarness::new(3);
        let owner = owner_of_group(&world, "g", "t/#");
        let a = member(&mut world, (owner + 1) % 3, "a", connect);
        let name = world.name_on(owner, "source");
        let source = world.client(connect(&name));
        world.carries = false;
        world.send(&source, 1, message("t/x", Qos::AtLeastOnce, "x"));
        let name = world.name_on((owner + 1) % 3, "a");
        let again = world.client(connect(&name));
        assert!(again.session != a.session && !again.connected.present, "its session ended");
        if subscribes {
            let packet = SubscribeRequest {
                session: again.session,
                id: 5,
                subscription_id: None,
                wishes: vec![crate::harness::wish("$share/g/t/#", Qos::AtLeastOnce)],
            };
            world.ask(again.conn, SessionRequest::Subscribe(Box::new(packet)));
        }
        world.carries = true;
        world.run();
        assert!(world.taken(&source).is_some(), "the publisher is answered");
        let count = usize::from(subscribes);
        let heard = world.heard(again.conn);
        let got = heard.iter().filter(|word| matches!(word, SessionDelivery::Publish(_)));
        assert_eq!(got.count(), count, "who shares again has it");
        assert_eq!(world.dropped(Drop::NoMember), u64::from(!subscribes));
        world.send(&source, 2, message("t/x", Qos::AtLeastOnce, "y"));
        assert_eq!(world.messages(&again).len(), count, "and is a member, or is not");
        world.audit();
    }
}

#[test]
fn who_comes_back_before_its_last_session_left_all_its_groups_is_a_member_of_each() {
    // More groups than are left at once: the client waits, and joins when the last was left.
    let groups = 200;
    for shards in [1, 2] {
        let mut world = BrokerHarness::new(shards);
        let filter = |n: u32| format!("$share/g{n}/t/{n}");
        let name = world.name_on(0, "a");
        let first = world.client(connect(&name));
        (0..groups).for_each(|n| world.subscribe(&first, &filter(n), Qos::AtLeastOnce));
        let again = world.client(connect(&name));
        assert_eq!(world.status().subscriptions, 0, "all were left");
        (0..groups).for_each(|n| world.subscribe(&again, &filter(n), Qos::AtLeastOnce));
        let source = world.client(connect("source"));
        (0..groups).for_each(|n| world.publish(&source, &format!("t/{n}"), "x"));
        assert_eq!(world.messages(&again).len(), groups as usize);
        world.audit();
    }
}

#[test]
fn a_group_that_is_full_says_so() {
    for (before, taken) in
        [(broker::group::MEMBERS_MAX - 1, true), (broker::group::MEMBERS_MAX, false)]
    {
        for far in [0, 1] {
            let mut world = BrokerHarness::new(2);
            let owner = owner_of_group(&world, "g", "t");
            let (from, group) = (model::id::ShardId(0), std::sync::Arc::from("$share/g/t"));
            for slot in 0..before as u32 {
                let name = slot.to_le_bytes();
                let member = TimelineId::of(Space::Sessions, crate::harness::HOME, &[&name]);
                let (online, durable, reader) = (false, true, None);
                let what = broker::GroupWhat::Join { online, durable, reader, from, receipt: 0 };
                let word = broker::GroupWord { group: std::sync::Arc::clone(&group), member, what };
                let node = &mut world.nodes[owner];
                let peer_message = broker::PeerMessage::Group(Box::new(word));
                node.broker.peer_message(world.now, peer_message, &mut node.fx);
            }
            let name = world.name_on((owner + far) % 2, "a");
            let a = world.client(durable(&name));
            let wishes = vec![crate::harness::wish("$share/g/t", Qos::AtLeastOnce)];
            let result = if taken { Ok(Qos::AtLeastOnce) } else { Err(Denial::Quota) };
            assert_eq!(world.subscribe_with(&a, wishes, None), [result]);
            world.crash();
            let again = world.client(durable(&name));
            assert_eq!(world.unsubscribe(&again, "$share/g/t"), Ok(taken), "its row agrees");
        }
    }
}

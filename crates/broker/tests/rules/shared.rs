//! Shared subscriptions.

use crate::world::{Client, World, connect, durable, message, payload};
use model::session::*;
use model::topic::Qos;

fn member(world: &mut World, shard: usize, prefix: &str, make: fn(&str) -> Connect) -> Client {
    let name = world.name_on(shard, prefix);
    let client = world.client(make(&name));
    world.subscribe(&client, "$share/g/t/#", Qos::ExactlyOnce);
    client
}

#[test]
fn each_message_goes_to_one_member_in_turn() {
    for shards in [1, 3] {
        let mut world = World::new(shards);
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
        let mut world = World::new(shards);
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
    let mut world = World::new(1);
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
    let mut world = World::new(1);
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
fn members_that_are_online_come_first_and_durable_ones_keep_what_is_left() {
    for shards in [1, 3] {
        let mut world = World::new(shards);
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
    let mut world = World::new(2);
    let a = member(&mut world, 1, "a", connect);
    assert_eq!(world.status().subscriptions, 1);
    assert_eq!(world.unsubscribe(&a, "$share/g/t/#"), Ok(true));
    assert_eq!(world.unsubscribe(&a, "$share/g/t/#"), Ok(false));
    let source = world.client(connect("source"));
    let answer = world.publish_at(&source, 1, message("t/x", Qos::AtLeastOnce, "x"));
    assert_eq!(answer, Some(Ok(Routed::NoSubscriber)));
    assert_eq!(world.status().subscriptions, 0);
}

//! Nodes (PEP), one case at a time, on one to four shards.

use crate::directed::comes;
use crate::world::{World, person};
use model::chat::*;
use model::ports::log::Table;

const ANN: usize = 0;
const ANNS_TABLET: usize = 1;
const BOB: usize = 2;
const CARL: usize = 4;

fn item(id: &str, payload: &str) -> NodeItem {
    NodeItem { id: id.into(), payload: payload.as_bytes().into() }
}

pub fn publish(node: &str, id: &str, payload: &str) -> NodeChange {
    NodeChange {
        space: NodeSpace::Published,
        node: node.into(),
        publish: vec![item(id, payload)],
        retract: Vec::new(),
        must_be_there: false,
        tells: false,
        options: None,
        badge: None,
    }
}

fn with(options: NodeOptions, change: NodeChange) -> NodesAsk {
    NodesAsk::Change(vec![NodeChange { options: Some(Box::new(options)), ..change }])
}

fn access(access: NodeAccess) -> NodeOptions {
    NodeOptions { access: Some(access), ..NodeOptions::default() }
}

fn retract(node: &str, id: &str) -> NodesAsk {
    let (publish, retract) = (Vec::new(), vec![id.into()]);
    let change = NodeChange { retract, must_be_there: true, ..self::publish(node, "", "") };
    NodesAsk::Change(vec![NodeChange { publish, ..change }])
}

fn wanted(node: &str, which: ItemsChosen) -> NodesAsk {
    let (space, node) = (NodeSpace::Published, node.into());
    NodesAsk::Items([ItemsWanted { space, node, which }].into())
}

pub fn all(node: &str) -> NodesAsk {
    wanted(node, ItemsChosen::Last(u32::MAX))
}

/// Ids of the items in an answer.
fn ids(found: Result<NodesFound, NodesFault>) -> Result<Vec<String>, NodesFault> {
    let NodesFound::Items(parts) = found? else { panic!("no items") };
    let part = parts.into_vec().remove(0)?;
    Ok(part.items.iter().map(|item| item.id.to_string()).collect())
}

fn done(result: Result<NodesFound, NodesFault>) -> Result<(), NodesFault> {
    result.map(|_| ())
}

pub fn world(shards: u16) -> World {
    let mut world = World::new(7, shards, 3);
    for at in [ANN, BOB, CARL] {
        comes(&mut world, at);
    }
    world.orders(ANN, 1, ContactOrder::Befriend(Box::default())).expect("done");
    world.orders(BOB, 0, ContactOrder::Befriend(Box::default())).expect("done");
    world
}

/// Lets everything come to rest, also notifications that were delayed for their number.
fn rests(world: &mut World) {
    for _ in 0..4 {
        world.rest();
    }
}

/// Makes a device interested in nodes.
pub fn is_interested(world: &mut World, at: usize, profile: &str, nodes: &[&str]) {
    world.says_profile(at, ProfileSaid::Has(profile.into()));
    world.rest();
    let interests = Some(nodes.iter().map(|&node| node.into()).collect());
    if world.devices[at].profiles.pop().is_some() {
        let profile = profile.into();
        world.says_profile(at, ProfileSaid::Is { profile, interests, is_proved: true });
    }
    world.rest();
}

/// Notifications of nodes that a device got since the last look, as `who node what`.
fn news(world: &mut World, at: usize) -> Vec<String> {
    let news = std::mem::take(&mut world.devices[at].news);
    let text = |event: NodeEvent| match event {
        NodeEvent::Published(item) => {
            format!("{}={}", item.id, String::from_utf8_lossy(&item.payload))
        }
        NodeEvent::Named(id) => format!("{id}"),
        NodeEvent::Retracted(id) => format!("-{id}"),
        NodeEvent::Purged => "purged".into(),
        NodeEvent::Deleted => "deleted".into(),
    };
    let one = |(from, node, event): (model::account::AccountAddress, Box<str>, NodeEvent)| {
        format!("{} {node} {}", from.name(), text(event))
    };
    news.into_iter().map(one).collect()
}

#[test]
fn what_is_published_is_there_for_those_who_may_and_over_a_kill() {
    for shards in 1..=4 {
        let mut world = world(shards);
        done(world.nodes(ANN, None, NodesAsk::Change(vec![publish("mood", "1", "glad")])))
            .expect("done");
        for (at, of) in [(ANN, None), (BOB, Some(0)), (ANN, Some(0))] {
            assert_eq!(ids(world.nodes(at, of, all("mood"))), Ok(vec!["1".to_owned()]));
        }
        assert_eq!(ids(world.nodes(CARL, Some(0), all("mood"))), Err(NodesFault::NotSubscribed));
        let unknown = ids(world.nodes(CARL, Some(0), all("none")));
        assert_eq!(unknown, Err(NodesFault::UnknownNode));
        assert_eq!(
            done(world.nodes(BOB, Some(9), all("mood"))),
            Err(NodesFault::UnknownAccount),
            "nobody"
        );
        world.kill();
        world.connect(CARL);
        world.connect(BOB);
        world.rest();
        assert_eq!(ids(world.nodes(BOB, Some(0), all("mood"))), Ok(vec!["1".to_owned()]));
        let options = Box::new(access(NodeAccess::Open));
        world.connect(ANN);
        world.rest();
        done(world.nodes(ANN, None, NodesAsk::Configure("mood".into(), options))).expect("done");
        assert_eq!(ids(world.nodes(CARL, Some(0), all("mood"))), Ok(vec!["1".to_owned()]));
    }
}

#[test]
fn access_is_by_subscription_groups_and_members_and_nobody_else_changes_anything() {
    let mut world = world(3);
    let (ann, bob) = (Some(0), "p1");
    let groups = NodeOptions { groups: Some(["work".into()].into()), ..access(NodeAccess::Groups) };
    done(world.nodes(ANN, None, with(groups, publish("g", "1", "x")))).expect("done");
    assert_eq!(ids(world.nodes(BOB, ann, all("g"))), Err(NodesFault::NotInGroup));
    let order = ContactOrder::Set { name: bob.into(), groups: ["work".into()].into() };
    world.orders(ANN, 1, order).expect("done");
    assert!(ids(world.nodes(BOB, ann, all("g"))).is_ok());
    done(world.nodes(ANN, None, with(access(NodeAccess::Members), publish("m", "1", "x"))))
        .expect("done");
    assert_eq!(ids(world.nodes(BOB, ann, all("m"))), Err(NodesFault::NotMember));
    let members = |is| NodesAsk::Members("m".into(), [(person(2), is)].into());
    done(world.nodes(ANN, None, members(true))).expect("done");
    assert!(ids(world.nodes(CARL, ann, all("m"))).is_ok());
    done(world.nodes(ANN, None, members(false))).expect("done");
    assert_eq!(ids(world.nodes(CARL, ann, all("m"))), Err(NodesFault::NotMember));
    for ask in [
        NodesAsk::Change(vec![publish("g", "2", "x")]),
        NodesAsk::Delete("g".into()),
        NodesAsk::Purge("g".into()),
        NodesAsk::Create("h".into(), Box::default()),
        NodesAsk::Configure("g".into(), Box::default()),
        NodesAsk::Accounts("g".into()),
    ] {
        assert_eq!(done(world.nodes(BOB, ann, ask)), Err(NodesFault::Forbidden));
    }
    // A blocked account gets the answers for a missing account, and no notifications.
    done(world.nodes(ANN, None, with(access(NodeAccess::Open), publish("o", "1", "x"))))
        .expect("done");
    assert!(ids(world.nodes(CARL, ann, all("o"))).is_ok());
    world.orders(ANN, 2, ContactOrder::Block).expect("done");
    assert_eq!(done(world.nodes(CARL, ann, all("o"))), Err(NodesFault::UnknownAccount));
    assert_eq!(done(world.nodes(ANN, Some(2), all("o"))), Err(NodesFault::Blocked));
}

#[test]
fn limits_are_answered_and_nothing_is_left_of_what_was_refused() {
    let mut world = world(1);
    let mut says = |ask: NodesAsk| done(world.nodes(ANN, None, ask));
    let change = |change| NodesAsk::Change(vec![change]);
    assert_eq!(says(change(publish("n", "1", &"x".repeat(1_100)))), Err(NodesFault::TooLarge));
    assert_eq!(says(change(publish("n", &"i".repeat(257), "x"))), Err(NodesFault::TooLarge));
    assert_eq!(says(change(publish(&"n".repeat(257), "1", "x"))), Err(NodesFault::TooLarge));
    assert_eq!(says(change(publish("", "1", "x"))), Err(NodesFault::Invalid));
    assert_eq!(says(change(publish("a\0b", "1", "x"))), Err(NodesFault::Invalid));
    let twice = NodeChange { publish: vec![item("1", "x"); 2], ..publish("n", "1", "x") };
    assert_eq!(says(change(twice)), Err(NodesFault::Invalid));
    let none = NodeOptions { items_max: Some(0), ..NodeOptions::default() };
    assert_eq!(says(with(none, publish("n", "1", "x"))), Err(NodesFault::NotSupported));
    assert_eq!(says(retract("n", "1")), Err(NodesFault::UnknownNode));
    for n in 0..4 {
        says(change(publish(&format!("n{n}"), "1", &"x".repeat(1_000)))).expect("done");
    }
    assert_eq!(says(change(publish("n4", "1", &"x".repeat(1_000)))), Err(NodesFault::BytesFull));
    says(change(publish("n4", "1", "x"))).expect("done");
    says(change(publish("n5", "1", "x"))).expect("done");
    assert_eq!(says(change(publish("n6", "1", "x"))), Err(NodesFault::NodesFull));
    assert_eq!(says(NodesAsk::Create("n6".into(), Box::default())), Err(NodesFault::NodesFull));
    assert_eq!(says(NodesAsk::Create("n5".into(), Box::default())), Err(NodesFault::Exists));
    assert_eq!(says(retract("n5", "2")), Err(NodesFault::UnknownItem));
    let other = with(access(NodeAccess::Open), publish("n5", "2", "x"));
    assert_eq!(says(other), Err(NodesFault::OtherConfig));
    says(with(access(NodeAccess::Presence), publish("n5", "2", "x"))).expect("as it is");
    assert_eq!((world.rows(Table::ChatNodes), world.rows(Table::ChatItems)), (6, 6));
    world.devices[ANN].failed = None;
}

#[test]
fn parts_of_a_node_are_given_by_id_count_and_place() {
    let mut world = world(2);
    let many = NodeOptions { items_max: Some(u32::MAX), ..NodeOptions::default() };
    for n in 0..7 {
        let ask = with(many.clone(), publish("n", &n.to_string(), "x"));
        done(world.nodes(ANN, None, ask)).expect("done");
    }
    let mut has = |which| ids(world.nodes(ANN, None, wanted("n", which))).map(|ids| ids.join(""));
    assert_eq!(has(ItemsChosen::Last(u32::MAX)).as_deref(), Ok("23456"), "five are kept");
    assert_eq!(has(ItemsChosen::Last(2)).as_deref(), Ok("56"));
    assert_eq!(has(ItemsChosen::After(Some("3".into()), 2)).as_deref(), Ok("45"));
    assert_eq!(has(ItemsChosen::After(None, 2)).as_deref(), Ok("23"));
    assert_eq!(has(ItemsChosen::Before("4".into(), 1)).as_deref(), Ok("3"));
    let named = ItemsChosen::Ids(["6".into(), "0".into(), "3".into()].into());
    assert_eq!(has(named).as_deref(), Ok("36"));
    assert_eq!(has(ItemsChosen::After(Some("0".into()), 2)), Err(NodesFault::UnknownItem));
}

#[test]
fn who_is_interested_is_told_at_once_or_when_it_comes_and_nobody_else() {
    for shards in 1..=4 {
        let mut world = world(shards);
        is_interested(&mut world, BOB, "v1", &["mood", "tune"]);
        is_interested(&mut world, CARL, "v1", &["mood"]);
        let ask = NodesAsk::Change(vec![publish("mood", "1", "glad")]);
        done(world.nodes(ANN, None, ask)).expect("done");
        assert_eq!(news(&mut world, BOB), ["p0 mood 1=glad"]);
        assert!(news(&mut world, CARL).is_empty(), "it does not see ann");
        done(world.nodes(ANN, None, NodesAsk::Change(vec![publish("other", "1", "x")])))
            .expect("done");
        assert!(news(&mut world, BOB).is_empty(), "nobody is interested");
        done(world.nodes(ANN, None, retract("mood", "1"))).expect("done");
        assert_eq!(news(&mut world, BOB), ["p0 mood -1"]);
        // A session that comes online gets the last item, of its own account and of accounts that
        // it sees.
        done(world.nodes(ANN, None, NodesAsk::Change(vec![publish("mood", "2", "sad")])))
            .expect("done");
        news(&mut world, BOB);
        world.disconnect(ANN);
        world.disconnect(BOB);
        world.rest();
        for at in [BOB, ANNS_TABLET] {
            world.connect(at);
            world.rest();
            is_interested(&mut world, at, "v1", &["mood"]);
            world.lists(at);
            world.presents(at, Some(1));
            rests(&mut world);
            assert_eq!(news(&mut world, at), ["p0 mood 2=sad"], "{shards} shards");
        }
        done(world.nodes(ANNS_TABLET, None, NodesAsk::Delete("mood".into()))).expect("done");
        assert_eq!(news(&mut world, BOB), ["p0 mood deleted"]);
        world.orders(ANNS_TABLET, 1, ContactOrder::Block).expect("done");
        done(world.nodes(ANNS_TABLET, None, NodesAsk::Change(vec![publish("mood", "3", "x")])))
            .expect("done");
        assert!(news(&mut world, BOB).is_empty());
    }
}

#[test]
fn a_profile_is_asked_once_and_counts_for_others_if_it_is_proved() {
    let mut world = world(1);
    world.connect(ANNS_TABLET);
    world.rest();
    let has = |world: &mut World, at| world.says_profile(at, ProfileSaid::Has("v".into()));
    let is = |world: &mut World, at, is_proved| {
        let (profile, interests) = ("v".into(), Some(["mood".into()].into()));
        world.says_profile(at, ProfileSaid::Is { profile, interests, is_proved });
    };
    for at in [ANN, BOB, ANNS_TABLET] {
        has(&mut world, at);
    }
    world.rest();
    let asked = |world: &World| [ANN, BOB, ANNS_TABLET].map(|at| world.devices[at].profiles.len());
    assert_eq!(asked(&world), [1, 0, 0]);
    is(&mut world, ANN, false);
    world.rest();
    assert_eq!(asked(&world), [1, 1, 0], "what is not proved counts for itself alone");
    world.disconnect(BOB);
    world.rest();
    assert_eq!(asked(&world), [1, 1, 1], "who was asked has gone");
    is(&mut world, ANNS_TABLET, true);
    world.connect(BOB);
    world.rest();
    has(&mut world, BOB);
    world.presents(BOB, Some(1));
    rests(&mut world);
    assert_eq!(asked(&world), [1, 1, 1], "it is known");
    done(world.nodes(BOB, None, NodesAsk::Change(vec![publish("mood", "1", "x")]))).expect("done");
    assert_eq!(news(&mut world, BOB), ["p1 mood 1=x"]);
    // A device that does not answer in time is not asked again; the next one is.
    world.says_profile(ANN, ProfileSaid::Has("w".into()));
    world.says_profile(BOB, ProfileSaid::Has("w".into()));
    world.rest();
    assert_eq!(asked(&world), [2, 1, 1]);
    world.pass_ms(11_000);
    world.rest();
    assert_eq!(asked(&world), [2, 2, 1]);
}

#[test]
fn who_subscribed_is_told_without_being_a_contact_and_may_leave() {
    for shards in 1..=4 {
        let mut world = world(shards);
        let open = with(access(NodeAccess::Open), publish("blog", "1", "x"));
        done(world.nodes(ANN, None, open)).expect("done");
        let subscribe = || NodesAsk::Subscribe("blog".into());
        done(world.nodes(CARL, Some(0), subscribe())).expect("done");
        done(world.nodes(CARL, Some(0), subscribe())).expect("it is already");
        let found = world.nodes(CARL, Some(0), NodesAsk::Subscriptions);
        assert_eq!(found, Ok(NodesFound::Names(["blog".into()].into())));
        done(world.nodes(ANN, None, NodesAsk::Change(vec![publish("blog", "2", "y")])))
            .expect("done");
        assert_eq!(news(&mut world, CARL), ["p0 blog 2=y"]);
        // A subscriber that may not read the node any more is not notified.
        let says = |world: &mut World, n: &str| {
            let ask = NodesAsk::Change(vec![publish("blog", n, "y")]);
            done(world.nodes(ANN, None, ask)).expect("done");
            news(world, CARL).len()
        };
        let shut = |it| NodesAsk::Configure("blog".into(), Box::new(access(it)));
        done(world.nodes(ANN, None, shut(NodeAccess::Presence))).expect("done");
        assert_eq!(says(&mut world, "a"), 0);
        done(world.nodes(ANN, None, shut(NodeAccess::Open))).expect("done");
        assert_eq!(says(&mut world, "b"), 1);
        world.orders(ANN, 2, ContactOrder::Block).expect("done");
        assert_eq!(says(&mut world, "c"), 0);
        world.orders(ANN, 2, ContactOrder::Unblock).expect("done");
        done(world.nodes(CARL, Some(0), NodesAsk::Unsubscribe("blog".into()))).expect("done");
        let again = world.nodes(CARL, Some(0), NodesAsk::Unsubscribe("blog".into()));
        assert_eq!(done(again), Err(NodesFault::NoSubscription));
        done(world.nodes(ANN, None, NodesAsk::Change(vec![publish("blog", "3", "z")])))
            .expect("done");
        assert!(news(&mut world, CARL).is_empty());
    }
}

#[test]
fn a_badge_goes_with_presence_that_wants_it_and_changes_with_the_node() {
    let mut world = world(2);
    let badge = |badge: &str| NodeChange { badge: Some(badge.into()), ..publish("a", "1", "x") };
    done(world.nodes(ANN, None, NodesAsk::Change(vec![badge("cafe")]))).expect("done");
    let how = Availability { badge: Some(Box::default()), ..Availability::default() };
    world.devices[ANN].says = Some(how.clone());
    world.asks(ANN, PeopleAsk::Present(Some(Box::new(how))));
    world.rest();
    let seen = |world: &World| {
        world.devices[BOB].seen[&(person(0), "d0".into())].badge.as_deref().map(str::to_owned)
    };
    assert_eq!(seen(&world).as_deref(), Some("cafe"));
    done(world.nodes(ANN, None, NodesAsk::Change(vec![badge("beef")]))).expect("done");
    assert_eq!(seen(&world).as_deref(), Some("beef"));
    done(world.nodes(ANN, None, NodesAsk::Delete("a".into()))).expect("done");
    world.pass_ms(2_000);
    world.rest();
    assert_eq!(seen(&world).as_deref(), Some(""));
}

#[test]
fn a_storm_of_changes_costs_contacts_a_word_now_and_then_and_the_last_is_told() {
    let mut world = world(4);
    is_interested(&mut world, BOB, "v1", &["tune"]);
    world.pass_ms(61_000);
    world.rest();
    for n in 0..200 {
        let ask = NodesAsk::Change(vec![publish("tune", "current", &n.to_string())]);
        world.asks_nodes(ANN, None, ask);
    }
    rests(&mut world);
    let answers = &world.devices[ANN].answers;
    assert_eq!(answers.values().filter(|answer| answer.is_ok()).count(), 200);
    let told = news(&mut world, BOB);
    assert!(told.len() <= 3 + 5, "three at once, and one a second: {}", told.len());
    assert_eq!(told.last().map(|it| &**it), Some("p0 tune current=199"));
}

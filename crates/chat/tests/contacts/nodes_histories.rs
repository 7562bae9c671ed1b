//! Random histories of published items, against a plain model, with shards that lag, logs that
//! refuse, and crashes: answered changes are stored, refused ones are not, and open ones are stored
//! whole or not at all.

use crate::world::World;
use base::prng::Prng;
use model::chat::*;
use model::ports::log::Table;
use std::collections::BTreeMap;

const PEOPLE: u32 = 3;
const NODES: [&str; 3] = ["a", "b", "ab"];
const ITEMS_MAX: usize = 5;

/// Nodes, with the largest number of items and the items in order.
type Plain = BTreeMap<&'static str, (usize, Vec<(String, String)>)>;

/// The nodes of an account, and its possible nodes while a change is unanswered.
#[derive(Default)]
struct Account {
    has: Plain,
    open: Option<(u32, Plain)>,
}

fn item(id: &str, payload: &str) -> NodeItem {
    NodeItem { id: id.into(), payload: payload.as_bytes().into() }
}

fn change(node: &str, publish: Vec<NodeItem>, retract: Vec<Box<str>>) -> NodeChange {
    NodeChange {
        space: NodeSpace::Published,
        node: node.into(),
        publish,
        retract,
        must_be_there: false,
        tells: false,
        options: None,
        badge: None,
    }
}

/// A random change, and the nodes of the account after it.
fn wish(rng: &mut Prng, has: &Plain, number: u32) -> (NodesAsk, Plain) {
    let node = NODES[rng.below(3) as usize];
    let mut after = has.clone();
    let id = |rng: &mut Prng| format!("i{}", rng.below(7));
    match rng.below(12) {
        0 => {
            after.remove(node);
            (NodesAsk::Delete(node.into()), after)
        }
        1 => {
            after.entry(node).and_modify(|it| it.1.clear());
            (NodesAsk::Purge(node.into()), after)
        }
        2 | 3 => {
            let most = 1 + rng.below(7) as u32;
            let options = NodeOptions { items_max: Some(most), ..NodeOptions::default() };
            if let Some((max, items)) = after.get_mut(node) {
                *max = (most as usize).min(ITEMS_MAX);
                let over = items.len().saturating_sub(*max);
                items.drain(..over);
            }
            (NodesAsk::Configure(node.into(), Box::new(options)), after)
        }
        4 | 5 => {
            let id = id(rng);
            after.entry(node).and_modify(|it| it.1.retain(|(other, _)| *other != id));
            (NodesAsk::Change(vec![change(node, vec![], vec![id.into()])]), after)
        }
        _ => {
            let mut items = Vec::new();
            for n in 0..1 + rng.below(3) {
                let id = id(rng);
                if items.iter().all(|it: &NodeItem| *it.id != *id) {
                    items.push(item(&id, &format!("{number}.{n}")));
                }
            }
            let (most, kept) = after.entry(node).or_insert((1, Vec::new()));
            for item in &items {
                kept.retain(|(other, _)| **other != *item.id);
                let payload = String::from_utf8(item.payload.to_vec()).expect("text");
                kept.push((item.id.to_string(), payload));
            }
            let over = kept.len().saturating_sub(*most);
            kept.drain(..over);
            (NodesAsk::Change(vec![change(node, items, vec![])]), after)
        }
    }
}

/// All items that a device can read of a person.
fn shown(world: &mut World, at: usize, of: Option<u32>) -> Plain {
    let wanted = NODES.map(|node| ItemsWanted {
        space: NodeSpace::Published,
        node: node.into(),
        which: ItemsChosen::Last(u32::MAX),
    });
    let found = world.nodes(at, of, NodesAsk::Items(wanted.into())).expect("answered");
    let NodesFound::Items(parts) = found else { panic!("{found:?}") };
    let mut plain = Plain::new();
    for (node, part) in NODES.into_iter().zip(parts) {
        match part {
            Ok(part) => {
                let items = part.items.iter().map(|item| {
                    (item.id.to_string(), String::from_utf8(item.payload.to_vec()).expect("text"))
                });
                plain.insert(node, (0, items.collect()));
            }
            Err(fault) => assert_eq!(fault, NodesFault::UnknownNode),
        }
    }
    plain
}

/// The nodes without their largest number of items, which is not shown.
fn items_of(plain: &Plain) -> Plain {
    plain.iter().map(|(node, (_, items))| (*node, (0, items.clone()))).collect()
}

fn history(seed: u64, shards: u16, steps: u32) {
    println!("seed {seed}, {shards} shards");
    let mut world = World::new(seed, shards, PEOPLE);
    let mut accounts: Vec<Account> = (0..PEOPLE).map(|_| Account::default()).collect();
    let mut rng = Prng::new(seed ^ 0x5eed);
    for n in 0..steps {
        let who = rng.below(PEOPLE.into()) as usize;
        let (at, account) = (who * 2, &mut accounts[who]);
        if world.devices[at].conn.is_none() {
            if let Some((_, after)) = account.open.take() {
                // The change was cut off: it is stored or not, which a read tells after the
                // reconnection.
                let before = std::mem::replace(&mut account.has, after);
                world.rest();
                world.connect(at);
                world.rest();
                let is = shown(&mut world, at, None);
                if is != items_of(&account.has) {
                    assert_eq!(is, items_of(&before), "whole, or not at all");
                    account.has = before;
                }
                // The largest number of items is not shown, but can be queried.
                for (node, (most, _)) in &mut account.has {
                    let ask = NodesAsk::Node((*node).into());
                    let Ok(NodesFound::Node(found)) = world.nodes(at, None, ask) else {
                        panic!("it is there")
                    };
                    *most = (found.config.items_max as usize).min(ITEMS_MAX);
                }
                world.is_noisy();
            } else {
                world.connect(at);
            }
        } else if let Some((number, after)) = account.open.take() {
            match world.devices[at].answers.remove(&number) {
                Some(Ok(_)) => account.has = after,
                Some(Err(_)) => {}
                None => account.open = Some((number, after)),
            }
        } else if rng.one_in(3) {
            let (ask, after) = wish(&mut rng, &account.has, n);
            let number = world.asks_nodes(at, None, ask);
            account.open = number.map(|number| (number, after));
        }
        world.step_quietly();
    }
    finish(&mut world, accounts);
}

fn finish(world: &mut World, accounts: Vec<Account>) {
    world.heal();
    let mut kept = 0;
    for (who, mut account) in accounts.into_iter().enumerate() {
        let at = who * 2;
        let is = shown(world, at, None);
        let answer = account.open.as_ref().map(|(number, _)| *number);
        let answer = answer.and_then(|number| world.devices[at].answers.remove(&number));
        match (account.open.take(), answer) {
            (Some((_, after)), Some(Ok(_))) => account.has = after,
            (Some((_, after)), None) if is == items_of(&after) => account.has = after,
            _ => {}
        }
        assert_eq!(is, items_of(&account.has), "account {who}");
        assert_eq!(shown(world, at + 1, None), is, "its other device");
        kept += is.values().map(|(_, items)| items.len()).sum::<usize>();
    }
    // Items that a crash has left are deleted or overwritten when their node is written next.
    for at in [0, 2, 4] {
        for node in NODES {
            let publish = change(node, vec![item("end", "x")], vec![]);
            world.nodes(at, None, NodesAsk::Change(vec![publish])).expect("done");
            world.nodes(at, None, NodesAsk::Delete(node.into())).expect("done");
        }
    }
    assert_eq!(world.rows(Table::ChatNodes), 0, "nothing is left of nodes, of {kept} items");
    let left = world.rows(Table::ChatItems);
    assert!(left <= 3 * world.kills as usize * 3, "{left} items that were under way");
    if world.kills == 0 {
        assert_eq!(left, 0);
    }
}

#[test]
fn whatever_happens_what_was_answered_is_there_and_nothing_is_there_by_half() {
    for seed in 0..60 {
        history(seed, 1 + (seed % 4) as u16, 1_500);
    }
}

//! Applications: they order pushes of all kinds and write down each answer.
//!
//! Of the keyed orders of the last life each without an answer is asked again, and some of those
//! that have one. A key is also tried with another body, which must be refused.

use super::{Numbers, Scene, Seen};
use crate::api::{Api, Reply};
use crate::body;
use crate::book::fact::{Fact, Fate, Order};
use crate::clock;
use crate::dice::Dice;
use crate::plan::{BODY_BYTES_MAX, CROWD, DeviceNumber, FLEETING, GROUPS, by_name, members, names};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

/// Keyed orders that are remembered for the next life, a thread.
const KEYED_MAX: usize = 60;
/// Looks at a fan-out until its counts must stand.
const LOOKS_MAX: usize = 20;

/// An order that is looked at again in the next life.
#[derive(Clone)]
pub struct Keyed {
    order: Order,
    answered: bool,
    /// A fan-out that was answered under this id, and of which it is not known what it came to.
    open: Option<u64>,
}

/// Orders until it is over. `keyed` are those of the last life, and then those of this one.
pub fn run(scene: &Scene, party: u64, numbers: &Numbers, keyed: &mut Vec<Keyed>) -> Seen {
    let (api, mut dice) = (Api::new(scene.api), scene.dice(party));
    let mut seen = Seen::default();
    for old in std::mem::take(keyed) {
        if let Some(id) = old.open {
            if !follow(scene, &api, (&old.order, id), &mut seen) {
                keyed.push(old);
            }
            continue;
        }
        if scene.goes_on() && (!old.answered || dice.percent(30)) {
            seen.facts.push(Fact::Again(old.order.number));
            let answered = ask(scene, &api, &old.order, &mut seen);
            if answered && dice.percent(20) {
                steal(scene, &api, &old.order, (numbers, &mut dice), &mut seen);
            }
            if !answered && !old.answered {
                keyed.push(Keyed { order: old.order, answered: false, open: None });
            }
        } else if !old.answered {
            keyed.push(old); // it was over before its turn came
        }
    }
    while scene.goes_on() {
        let number = numbers.next();
        if dice.percent(8) {
            keyed.extend(fan_out(scene, &api, (number, &mut dice), &mut seen));
            continue;
        }
        let order = draw(scene, number, &mut dice);
        seen.facts.push(Fact::Asked(order.clone()));
        let answered = ask(scene, &api, &order, &mut seen);
        if order.keyed {
            keyed.push(Keyed { order, answered, open: None });
            if keyed.len() > KEYED_MAX
                && let Some(at) =
                    keyed.iter().position(|keyed| keyed.answered && keyed.open.is_none())
            {
                keyed.remove(at);
            }
        }
    }
    seen
}

/// The body of the request for an order to `target`.
pub fn request(seed: u64, order: &Order, target: (&str, Value)) -> Value {
    let (product, _) = names(order.devices[0]);
    let body = body::of(seed, order.number, order.length as usize);
    let mut request = json!({
        "product": product,
        "body_base64": body::base64(&body),
        "ttl_s": order.short_s.unwrap_or(36_000),
    });
    request[target.0] = target.1;
    if order.high {
        request["priority"] = json!("high");
    }
    if let Some(key) = order.collapse {
        request["collapse_key"] = json!(format!("k{key}"));
    }
    request
}

/// Asks for a list of devices and writes down the answer; whether one came.
pub fn ask(scene: &Scene, api: &Api, order: &Order, seen: &mut Seen) -> bool {
    let mut request = request(scene.seed, order, target(order));
    if order.number.is_multiple_of(10) {
        request["wait_ms"] = json!(20);
    }
    let key = order.keyed.then(|| format!("key-{}-{}", scene.seed, order.number));
    let reply = api.push(&request, key.as_deref());
    let at = clock::now_us();
    let value = match reply {
        Reply::Done(value) => value,
        other => {
            unanswered(scene, order.number, &other, seen);
            return false;
        }
    };
    let fates = value["outcomes"].as_array().into_iter().flatten().filter_map(|outcome| {
        let device = by_name(outcome["device"].as_str()?).unwrap_or(order.devices[0]);
        Some((device, fate(outcome["outcome"].as_str()?)))
    });
    let fates = fates.collect();
    let Some(id) = value["id"].as_str().and_then(|id| id.parse().ok()) else {
        let text = format!("order {}: {value}", order.number);
        seen.facts.push(Fact::Wrong("an answer without an id", text));
        return false;
    };
    seen.facts.push(Fact::Answered { number: order.number, id, at, fates });
    if !scene.goes_on() {
        seen.tally.count("answers read after the kill");
    }
    true
}

/// Target of an order: a tag, or its devices.
fn target(order: &Order) -> (&'static str, Value) {
    match order.group {
        Some(group) => ("tag", json!(format!("group-{group}"))),
        None => {
            let devices = order.devices.iter().map(|device| names(*device).1);
            ("devices", json!(devices.collect::<Vec<_>>()))
        }
    }
}

fn fate(word: &str) -> Fate {
    match word {
        "stored" => Fate::Stored,
        "delivered" => Fate::Delivered,
        _ => Fate::Not,
    }
}

fn unanswered(scene: &Scene, number: u64, reply: &Reply, seen: &mut Seen) {
    match reply {
        Reply::Refused(status, code) if *status < 500 => {
            let text = format!("order {number}: {status} {code}");
            seen.facts.push(Fact::Wrong("an order was refused without need", text));
        }
        // A server that is going says busy of what it may have done.
        Reply::Refused(503, code) if code == "busy" && scene.stopping.load(Ordering::Relaxed) => {
            seen.tally.count("orders answered busy by a server that stops");
        }
        Reply::Refused(503, code) if code == "busy" || code == "store_failed" => {
            let full = code == "store_failed";
            seen.tally.count(if full { "answers store_failed" } else { "answers busy" });
            seen.facts.push(Fact::Refused(number));
        }
        Reply::Refused(..) => seen.tally.count("answers of 5xx that say nothing"),
        _ => {
            seen.tally.count("orders without an answer");
            if scene.goes_on() {
                clock::rest(1); // the server is gone, and it is about to be said
            }
        }
    }
}

fn draw(scene: &Scene, number: u64, dice: &mut Dice) -> Order {
    let count = if dice.percent(60) { 1 } else { dice.range(2, 16) };
    let mut devices: Vec<DeviceNumber> =
        (0..count).map(|_| dice.below(CROWD.into()) as DeviceNumber).collect();
    devices.sort_unstable();
    devices.dedup();
    let collapse = (dice.percent(15) && scene.collapse).then(|| dice.below(4) as u8);
    let short_s = (collapse.is_none() && dice.percent(3)).then(|| dice.below(3) as u32);
    Order {
        number,
        devices,
        high: dice.percent(15),
        collapse,
        short_s,
        length: length(dice),
        group: None,
        keyed: scene.keys && short_s.is_none() && dice.percent(25),
        asked_at: clock::now_us(),
    }
}

/// Small bodies mostly, some up to the limit.
pub fn length(dice: &mut Dice) -> u32 {
    let to = match dice.below(20) {
        0 => BODY_BYTES_MAX as u64,
        1..=4 => 4_096,
        _ => 256,
    };
    dice.range(body::BYTES_MIN as u64, to) as u32
}

/// The key of `order` with another body: nothing may come of it.
fn steal(
    scene: &Scene,
    api: &Api,
    order: &Order,
    (numbers, dice): (&Numbers, &mut Dice),
    seen: &mut Seen,
) {
    let (number, asked_at) = (numbers.next(), clock::now_us());
    let other = Order { number, length: length(dice), asked_at, ..order.clone() };
    let request = request(scene.seed, &other, target(&other));
    let key = format!("key-{}-{}", scene.seed, order.number);
    seen.facts.push(Fact::Asked(Order { keyed: false, ..other }));
    match api.push(&request, Some(&key)) {
        Reply::Done(value) => {
            let text = format!("key of {} taken again for {number}: {value}", order.number);
            seen.facts.push(Fact::Wrong("a key took two orders", text));
        }
        Reply::Refused(status, _) if status < 500 => seen.facts.push(Fact::Refused(number)),
        _ => seen.tally.count("orders without an answer"),
    }
}

/// A push to all with a tag; what is to be known of it in the next life, if anything is. Once it is
/// answered it goes on whatever happens.
fn fan_out(
    scene: &Scene,
    api: &Api,
    (number, dice): (u64, &mut Dice),
    seen: &mut Seen,
) -> Option<Keyed> {
    let group = dice.below(GROUPS.into()) as DeviceNumber;
    let devices = members(group);
    let (length, asked_at) = (length(dice).min(4_096), clock::now_us());
    let (high, collapse, short_s) = (dice.percent(15), None, None);
    let (keyed, group) = (scene.keys && dice.percent(40), Some(group));
    let order = Order { number, devices, high, collapse, short_s, length, group, keyed, asked_at };
    seen.facts.push(Fact::Asked(order.clone()));
    if !ask(scene, api, &order, seen) {
        return keyed.then_some(Keyed { order, answered: false, open: None });
    }
    let id = seen.facts.iter().rev().find_map(|fact| match fact {
        Fact::Answered { number: of, id, .. } if *of == number => Some(*id),
        _ => None,
    })?;
    match follow(scene, api, (&order, id), seen) {
        true => keyed.then_some(Keyed { order, answered: true, open: None }),
        false => Some(Keyed { order, answered: true, open: Some(id) }),
    }
}

/// Looks what became of a fan-out that was answered; whether it is known. All of its devices have
/// it, or have it stored, or the server says that it could not take it on for them.
fn follow(scene: &Scene, api: &Api, (order, id): (&Order, u64), seen: &mut Seen) -> bool {
    for _ in 0..LOOKS_MAX {
        if !scene.goes_on() {
            break;
        }
        let at = clock::now_us();
        let value = match api.get(&format!("/v1/pushes/{id}")) {
            Reply::Done(value) => value,
            Reply::Refused(404, code) => {
                let text = format!("order {}, id {id}: {code}", order.number);
                seen.facts.push(Fact::Wrong("an order that was answered is forgotten", text));
                return true;
            }
            _ => break,
        };
        let of = |name: &str| value["counts"][name].as_u64().unwrap_or(0);
        let done = value["counts"]["running"] == json!(false) && of("pending") == 0;
        if done && of("matched") != order.devices.len() as u64 {
            let text = format!("order {}, {:?}: {value}", order.number, order.group);
            seen.facts.push(Fact::Wrong("a fan-out missed devices, or counted some twice", text));
            return true;
        }
        if done && of("stored") + of("delivered") == of("matched") {
            let fates = order.devices.iter().map(|device| (*device, Fate::Stored)).collect();
            seen.tally.count("fan-outs whole");
            seen.facts.push(Fact::Answered { number: order.number, id, at, fates });
            return true;
        }
        if done {
            seen.tally.count("fan-outs that were not taken on by all");
            return true;
        }
        clock::rest(1);
    }
    seen.tally.count("fan-outs that are looked at again");
    false
}

/// Devices of products that come and go stand behind the crowd.
pub fn fleeting() -> impl Iterator<Item = DeviceNumber> {
    CROWD..CROWD + FLEETING
}

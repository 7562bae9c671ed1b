//! Operators: they make and drop products, block devices and set tags, one thing at a time.
//!
//! A register is anything that has one value. It holds what the server has answered; what was
//! asked and not answered may hold too, until someone looks.

use super::orders::{self, fleeting};
use super::{Numbers, Scene, Seen};
use crate::api::{Api, Reply};
use crate::book::fact::{Fact, NEVER, Order};
use crate::clock;
use crate::line::{Heard, Line};
use crate::plan::{BLOCKED, CROWD, DeviceNumber, FLEETING, PRODUCT, TAGGED, names};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Values that a register may have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Register(Vec<String>);

impl Register {
    /// A register that surely has this value.
    pub fn new(value: &str) -> Register {
        Register(vec![value.to_owned()])
    }

    /// Notes that a change to this value was requested.
    pub fn asked(&mut self, value: &str) {
        self.0.push(value.to_owned());
    }

    /// The change was answered.
    pub fn answered(&mut self) {
        self.0.drain(..self.0.len() - 1);
    }

    /// The change was refused.
    pub fn refused(&mut self) {
        self.0.pop();
    }

    /// Someone looked; whether it may be so.
    pub fn looked(&mut self, value: &str) -> bool {
        let fits = self.0.iter().any(|known| known == value);
        self.0 = vec![value.to_owned()];
        fits
    }
}

/// All registers.
pub struct Registers(BTreeMap<String, Register>);

const ABSENT: &str = "absent";

impl Registers {
    /// Makes empty registers.
    pub fn new(tags: bool) -> Registers {
        let products = (0..FLEETING).map(|at| (format!("product {at}"), Register::new(ABSENT)));
        let blocks = (0..BLOCKED).map(|at| (format!("block {at}"), Register::new("free")));
        let tagged = if tags { TAGGED } else { 0 };
        let tags = (0..tagged).map(|at| (format!("tags {at}"), Register::new("")));
        Registers(products.chain(blocks).chain(tags).collect())
    }

    /// Changes things until it is over.
    pub fn run(&mut self, scene: &Scene, party: u64, numbers: &Numbers) -> Seen {
        let (api, mut dice) = (Api::new(scene.api), scene.dice(party));
        let mut seen = Seen::default();
        let kinds = if scene.tags { 4 } else { 3 };
        while scene.goes_on() {
            match dice.below(kinds) {
                0 | 1 => self.turn_product(scene, (&api, numbers, &mut dice), &mut seen),
                2 => {
                    let at = dice.below(BLOCKED.into());
                    let path = format!("/v1/products/{PRODUCT}/devices/b-{at}/block");
                    let blocked = dice.percent(50);
                    let ask = || if blocked { api.put(&path, None) } else { api.delete(&path) };
                    let value = if blocked { "blocked" } else { "free" };
                    self.change(&format!("block {at}"), value, (scene, ask), &mut seen);
                }
                _ => {
                    let at = dice.below(TAGGED.into());
                    let path = format!("/v1/products/{PRODUCT}/devices/t-{at}/tags");
                    let words = ["berlin", "lisbon", "oslo", "quito", "riga"];
                    let tags: Vec<&str> = words.into_iter().filter(|_| dice.percent(40)).collect();
                    let body = json!({ "tags": tags });
                    let ask = || api.put(&path, Some(&body));
                    self.change(&format!("tags {at}"), &tags.join(","), (scene, ask), &mut seen);
                }
            }
            clock::rest(dice.below(4));
        }
        seen
    }

    /// Looks at every register; all that does not hold is a fact.
    pub fn look(&mut self, scene: &Scene) -> Vec<Fact> {
        let api = Api::new(scene.api);
        let mut facts = Vec::new();
        for (name, register) in &mut self.0 {
            let (kind, at) = name.split_once(' ').expect("names are made above");
            let found = match kind {
                "product" => product(api.get(&format!("/v1/products/fleeting-{at}"))),
                "tags" => tags(api.get(&format!("/v1/products/{PRODUCT}/devices/t-{at}"))),
                _ => blocked(scene, at),
            };
            let before = register.clone();
            match found {
                Some(value) if register.looked(&value) => {}
                Some(value) => {
                    let text = format!("{name} is {value:?}, may be {before:?}");
                    facts.push(Fact::Wrong("what was answered does not hold", text));
                }
                None => facts.push(Fact::Wrong("a register cannot be read", name.clone())),
            }
        }
        facts
    }

    fn change(
        &mut self,
        name: &str,
        value: &str,
        (scene, ask): (&Scene, impl FnOnce() -> Reply),
        seen: &mut Seen,
    ) -> bool {
        // A server that is going says busy of what it may have done.
        let stopping = || scene.stopping.load(Ordering::Relaxed);
        let register = self.0.get_mut(name).expect("all registers are made at first");
        register.asked(value);
        match ask() {
            Reply::Done(_) => register.answered(),
            Reply::Refused(404, code) if value == ABSENT && code == "unknown_product" => {
                register.answered();
            }
            Reply::Refused(status, code) if status < 500 || (code == "busy" && !stopping()) => {
                seen.tally.count("changes refused");
                register.refused();
                return false;
            }
            _ => {
                seen.tally.count("changes without an answer");
                clock::rest(1);
                return false;
            }
        }
        seen.tally.count("changes answered");
        true
    }

    /// A product is made, changed, used or dropped.
    fn turn_product(
        &mut self,
        scene: &Scene,
        (api, numbers, dice): (&Api, &Numbers, &mut crate::dice::Dice),
        seen: &mut Seen,
    ) {
        let at = dice.below(FLEETING.into()) as DeviceNumber;
        let (device, name) = (CROWD + at, format!("product {at}"));
        let path = format!("/v1/products/fleeting-{at}");
        if dice.percent(25) {
            let asked_at = clock::now_us();
            let done = self.change(&name, ABSENT, (scene, || api.delete(&path)), seen);
            let answered_at = if done { clock::now_us() } else { NEVER };
            return seen.facts.push(Fact::Dropped { device, asked_at, answered_at });
        }
        let app_id = numbers.next() % 4_000_000_000;
        let body = json!({ "app_id": app_id, "anonymous": "loopback",
            "inflight_max": 1024, "offline_count_max": 10_000, "offline_bytes_max": 100_000_000 });
        let put = || api.put(&path, Some(&body));
        let made = self.change(&name, &app_id.to_string(), (scene, put), seen);
        for _ in 0..if made { dice.below(3) } else { 0 } {
            let order = Order {
                number: numbers.next(),
                devices: vec![device],
                high: false,
                collapse: None,
                short_s: None,
                length: orders::length(dice),
                group: None,
                keyed: false,
                asked_at: clock::now_us(),
            };
            seen.facts.push(Fact::Asked(order.clone()));
            orders::ask(scene, api, &order, seen);
        }
    }

    /// Devices of products that are there now.
    pub fn fleeting(&self) -> Vec<DeviceNumber> {
        let there = |device: &DeviceNumber| {
            let register = self.0.get(&format!("product {}", device - CROWD));
            register.is_some_and(|register| register.0 != [ABSENT])
        };
        fleeting().filter(there).collect()
    }
}

fn product(reply: Reply) -> Option<String> {
    match reply {
        Reply::Done(value) => Some(value["app_id"].to_string()),
        Reply::Refused(404, _) => Some(ABSENT.to_owned()),
        _ => None,
    }
}

fn tags(reply: Reply) -> Option<String> {
    match reply {
        Reply::Done(value) => {
            let mut tags: Vec<&str> =
                value["tags"].as_array()?.iter().filter_map(Value::as_str).collect();
            tags.sort_unstable();
            Some(tags.join(","))
        }
        Reply::Refused(404, _) => Some(String::new()),
        _ => None,
    }
}

/// A blocked device may not bind, any other may.
fn blocked(scene: &Scene, at: &str) -> Option<String> {
    const BLOCKED_RESULT: u32 = 24; // MIOP 9
    let name = format!("b-{at}");
    debug_assert_eq!(names(0).0, PRODUCT);
    match Line::bind_patiently(scene.devices, (0, PRODUCT, &name), &[]).ok()?.1? {
        Heard::Bound { .. } => Some("free".to_owned()),
        Heard::Refused(BLOCKED_RESULT) => Some("blocked".to_owned()),
        // It is neither, and so it does not hold.
        other => Some(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_holds_what_was_answered_and_may_hold_what_was_asked() {
        let mut register = Register::new("a");
        register.asked("b");
        assert!(register.clone().looked("a") && register.clone().looked("b"));
        register.answered();
        assert!(!register.clone().looked("a"), "the answer was lost");
        register.asked("c");
        register.refused();
        assert!(!register.clone().looked("c") && register.looked("b"));
    }
}

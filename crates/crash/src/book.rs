//! The book: every order, every answer, every delivery, and whether they fit together.
//!
//! The promises. An order answered `stored` is delivered until its device has acknowledged it; an
//! order without an answer is there or not, but whole. A push may come again
//! - while its device has not acknowledged it, or its acknowledgement may not have been read;
//! - in a later life, when the acknowledgement was read but nothing says that it was stored: no
//!   write of that device was asked after it and answered, and the server did not stop by itself.
//!   An order to a group gets its devices' acknowledgements in bundles of its own, which no write
//!   of a device vouches for: it may come again until the server stopped by itself, or a full visit
//!   did not show it.
//!
//! Any other repetition is counted as doubled. A push that a full visit did not show is gone and
//! must stay away. The rules for collapse keys and dropped products are in `excused` and `sighted`.

pub mod fact;

use crate::body;
use crate::line::Came;
use crate::plan::DeviceNumber;
use fact::{Ack, Fact, Fate, NEVER, Order, Visit};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Violations that are reported; more are only counted.
const TOLD_MAX: usize = 200;
/// Lives after which what is over is forgotten; should it come even then, it was never sent.
const FORGET_LIVES: u32 = 20;
/// How late a push may be whose time is short: the clocks of both sides are cut to seconds.
const LATE_US: u64 = 2_500_000;

/// Broken promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Kind of the violation.
    pub kind: &'static str,
    /// Life of the server in which it was seen.
    pub life: u32,
    /// All that is known.
    pub text: String,
}

/// How often things happened.
#[derive(Clone, Default, Debug)]
pub struct Tally(pub BTreeMap<&'static str, u64>);

impl Tally {
    /// Counts an event.
    pub fn count(&mut self, what: &'static str) {
        self.count_by(what, 1);
    }

    /// Counts an event so many times.
    pub fn count_by(&mut self, what: &'static str, by: u64) {
        *self.0.entry(what).or_default() += by;
    }
}

struct Known {
    order: Order,
    /// The life in which it was asked for the first time.
    life: u32,
    answered_at: u64,
    id: Option<u64>,
    refused: bool,
    asked_again: bool,
}

/// A push at a device.
#[derive(Clone, Copy, Default)]
struct Entry {
    promised: bool,
    /// The device has said that it has it, in this life.
    acked_in: Option<u32>,
    ever_acked: bool,
    /// Time and life in which it ended, as far as the server's memory goes.
    over: Option<(u64, u32)>,
    /// Whether a push with its collapse key ended it.
    replaced: bool,
    /// Whether it must not come again.
    settled: bool,
    seen: u32,
    /// The id under which it came here.
    id: u64,
}

#[derive(Default)]
struct Device {
    entries: HashMap<u64, Entry>,
    /// Pushes that may still come.
    open: BTreeSet<u64>,
    /// By collapse key.
    alike: HashMap<u8, Vec<u64>>,
    drops: Vec<(u64, u64)>,
    /// The number of its last session.
    epoch: u64,
    /// The latest asking among the stored writes of this life.
    written: u64,
}

/// All that is known of a run.
pub struct Book {
    seed: u64,
    life: u32,
    orders: HashMap<u64, Known>,
    by_id: HashMap<u64, u64>,
    devices: BTreeMap<DeviceNumber, Device>,
    /// Violations so far.
    pub violations: Vec<Violation>,
    /// How many there were.
    pub violations_count: u64,
    /// How often things happened.
    pub tally: Tally,
}

impl Book {
    /// An empty book of a run; the server's first life begins.
    pub fn new(seed: u64) -> Book {
        Book {
            seed,
            life: 1,
            orders: HashMap::new(),
            by_id: HashMap::new(),
            devices: BTreeMap::new(),
            violations: Vec::new(),
            violations_count: 0,
            tally: Tally::default(),
        }
    }

    /// The life that goes on, from 1.
    pub fn life(&self) -> u32 {
        self.life
    }

    /// Writes down what happened, visits of one device in their order.
    pub fn take(&mut self, facts: &[Fact]) {
        let (mut visits, mut answers, mut delivered) = (Vec::new(), Vec::new(), Vec::new());
        for fact in facts {
            match fact {
                Fact::Asked(order) => self.asked(order.clone()),
                Fact::Visited(visit) => visits.push(visit),
                Fact::Wrong(kind, text) => self.wrong(kind, text.clone()),
                other => answers.push(other),
            }
        }
        // Repeated askings before their answers; answers in the order in which they came.
        answers.sort_by_key(|fact| match fact {
            Fact::Answered { at, .. } => *at,
            _ => 0,
        });
        for fact in answers {
            match fact {
                Fact::Answered { number, id, at, fates } => {
                    let some = fates.iter().filter(|(_, fate)| *fate == Fate::Delivered);
                    delivered.extend(some.map(|(device, _)| (*number, *device)));
                    self.answered(*number, *id, *at, fates);
                }
                Fact::Again(number) => self.again(*number),
                Fact::Refused(number) => {
                    self.tally.count("orders refused");
                    // Of a list one shard may have refused its part and another not.
                    let strict = |known: &mut Known| known.refused = known.order.devices.len() == 1;
                    self.orders.entry(*number).and_modify(strict);
                }
                Fact::Dropped { device, asked_at, answered_at } => {
                    let device = self.devices.entry(*device).or_default();
                    device.drops.push((*asked_at, *answered_at));
                }
                _ => {}
            }
        }
        for visit in visits {
            self.visited(visit);
        }
        for (number, device) in delivered {
            let entry = self.devices.get(&device).and_then(|it| it.entries.get(&number));
            if !entry.is_some_and(|entry| entry.ever_acked) {
                let text = format!("order {number} at device {device}");
                self.wrong("delivered, says the answer, but the device never said so", text);
            }
        }
    }

    /// The server's life is over; `clean` when it ended by itself, asked to.
    pub fn end_life(&mut self, clean: bool) {
        for device in self.devices.values_mut() {
            let mut settled = Vec::new();
            for number in &device.open {
                let Some(entry) = device.entries.get_mut(number) else { continue };
                let Some((at, life)) = entry.over else { continue };
                let alone = self.orders.get(number).is_some_and(|it| it.order.group.is_none());
                if life == self.life && (clean || alone && device.written > at) {
                    entry.settled = true;
                    settled.push(*number);
                }
            }
            settled.iter().for_each(|number| _ = device.open.remove(number));
            device.written = 0;
        }
        self.life += 1;
        if self.life.is_multiple_of(FORGET_LIVES) {
            self.forget();
        }
    }

    /// A run of a thousand lives has millions of pushes: what has been over for long goes.
    fn forget(&mut self) {
        let before = self.life.saturating_sub(FORGET_LIVES);
        let mut kept = HashSet::new();
        for device in self.devices.values_mut() {
            let orders = &self.orders;
            let old = |number: &u64| orders.get(number).is_none_or(|known| known.life < before);
            let open = &device.open;
            device.entries.retain(|number, _| open.contains(number) || !old(number));
            let entries = &device.entries;
            let known = |numbers: &mut Vec<u64>| numbers.retain(|it| entries.contains_key(it));
            device.alike.values_mut().for_each(known);
            kept.extend(device.entries.keys().copied());
        }
        self.orders.retain(|number, _| kept.contains(number));
        self.by_id.retain(|_, number| kept.contains(number));
    }

    /// Writes down what must not be.
    pub fn wrong(&mut self, kind: &'static str, text: String) {
        self.violations_count += 1;
        if self.violations.len() < TOLD_MAX {
            self.violations.push(Violation { kind, life: self.life, text });
        }
    }

    /// Pushes that were promised and whose end nobody has seen.
    pub fn promised(&self) -> usize {
        let waits = |entry: &&Entry| entry.promised && entry.acked_in.is_none();
        let entries = |it: &Device| {
            let open = it.open.iter().filter_map(|number| it.entries.get(number));
            open.filter(waits).count()
        };
        self.devices.values().map(entries).sum()
    }

    fn asked(&mut self, order: Order) {
        self.tally.count("orders");
        self.tally.count_by("pushes", order.devices.len() as u64);
        for device in &order.devices {
            let device = self.devices.entry(*device).or_default();
            device.entries.insert(order.number, Entry::default());
            device.open.insert(order.number);
            if let Some(key) = order.collapse {
                device.alike.entry(key).or_default().push(order.number);
            }
        }
        let number = order.number;
        let (life, answered_at, id) = (self.life, NEVER, None);
        let known = Known { order, life, answered_at, id, refused: false, asked_again: false };
        self.orders.insert(number, known);
    }

    fn again(&mut self, number: u64) {
        self.tally.count("orders asked again");
        let Some(known) = self.orders.get_mut(&number) else { return };
        known.asked_again = true;
        // Devices that refused the push may accept it now.
        for number_of_device in &known.order.devices {
            let Some(device) = self.devices.get_mut(number_of_device) else { continue };
            let Some(entry) = device.entries.get_mut(&number) else { continue };
            if entry.settled && !entry.promised && entry.seen == 0 && entry.over.is_none() {
                entry.settled = false;
                device.open.insert(number);
            }
        }
    }

    fn answered(&mut self, number: u64, id: u64, at: u64, fates: &[(DeviceNumber, Fate)]) {
        self.tally.count("orders answered");
        self.name(number, id, "its answer");
        let Some(known) = self.orders.get_mut(&number) else { return };
        // One for many is answered while it is on its way: what is asked later may overtake it.
        let is_on_its_way = known.order.group.is_some() && fates.is_empty();
        if !is_on_its_way {
            known.answered_at = known.answered_at.min(at);
        }
        let fresh = known.life == self.life && !known.asked_again;
        let (asked_at, collapse) = (known.order.asked_at, known.order.collapse);
        for (number_of_device, fate) in fates {
            let Some(device) = self.devices.get_mut(number_of_device) else { continue };
            let Some(entry) = device.entries.get_mut(&number) else { continue };
            self.tally.count(match fate {
                Fate::Stored => "pushes answered stored",
                Fate::Delivered => "pushes answered delivered",
                Fate::Not => "pushes answered expired or rejected",
            });
            if *fate == Fate::Stored {
                entry.promised |= entry.over.is_none();
                if fresh {
                    device.written = device.written.max(asked_at);
                }
            }
            if let (Some(key), true, true) = (collapse, fresh, *fate != Fate::Not) {
                replace(device, &self.orders, (key, asked_at), (at, self.life));
            }
        }
    }

    /// Order and id belong together, for ever; a keyed list has an id on each shard.
    fn name(&mut self, number: u64, id: u64, by: &str) {
        let Some(known) = self.orders.get_mut(&number) else { return };
        let (before, keyed) = (*known.id.get_or_insert(id), known.order.keyed);
        let is_list = known.order.group.is_none() && known.order.devices.len() > 1;
        if before != id && keyed && is_list {
            // Its shards keep their parts of the list apart: each device has one id all the same.
            self.tally.count("keyed lists with another id on another shard");
        } else if before != id {
            let text = format!("order {number} (keyed: {keyed}) was {before}, {by} says {id}");
            return self.wrong("an order made two messages", text);
        }
        let other = *self.by_id.entry(id).or_insert(number);
        if other != number {
            let text = format!("id {id} is that of order {other} and, by {by}, of {number}");
            self.wrong("two orders have one id", text);
        }
    }

    fn visited(&mut self, visit: &Visit) {
        self.tally.count(if visit.full { "visits, full" } else { "visits under load" });
        let device = self.devices.entry(visit.device).or_default();
        let before = device.epoch;
        device.epoch = visit.epoch.unwrap_or(before);
        if visit.epoch.is_some_and(|epoch| epoch <= before) {
            let text = format!("device {}: {:?} after {before}", visit.device, visit.epoch);
            self.wrong("an epoch did not rise", text);
        }
        let (mut numbers, mut seen) = (Vec::new(), HashSet::new());
        for came in &visit.came {
            self.tally.count("deliveries");
            let Some(number) = self.recognize(visit.device, came) else { continue };
            if seen.insert(number) {
                numbers.push(number);
                self.sighted(number, visit, came);
            }
        }
        self.in_order(visit.device, &numbers);
        for ack in &visit.acks {
            self.acknowledged(visit, ack);
        }
        if visit.full {
            self.absent(visit, &seen);
        }
    }

    /// The order of a push that came, if it was ever sent so and there.
    fn recognize(&mut self, device: DeviceNumber, came: &Came) -> Option<u64> {
        let Came { id, body, .. } = came;
        let number = body::number(self.seed, body);
        let known = number.and_then(|number| self.orders.get(&number));
        let Some(Known { order, .. }) = known else {
            let text = format!("id {id} at device {device}, {} bytes", body.len());
            let kind = match self.by_id.contains_key(id) {
                true => "a body is not what was sent",
                false => "a push came that was never sent",
            };
            self.wrong(kind, text);
            return None;
        };
        let number = order.number;
        if !order.devices.contains(&device) {
            let text = format!("order {number}, id {id}, at device {device}");
            self.wrong("a push came to a device it was not for", text);
            return None;
        }
        let collapse = order.collapse.map(|key| vec![b'k', b'0' + key]).unwrap_or_default();
        let same = body.len() == order.length as usize
            && *body == body::of(self.seed, number, body.len())
            && came.high.is_none_or(|high| high == order.high)
            && came.collapse.as_ref().is_none_or(|key| *key == collapse);
        if !same {
            let text = format!(
                "order {number}, id {id}, at device {device}: {} bytes of {}, high {:?} of {}, \
                 collapse key {:?}",
                body.len(),
                order.length,
                came.high,
                order.high,
                came.collapse
            );
            self.wrong("a body is not what was sent", text);
        }
        self.name(number, *id, "a delivery");
        Some(number)
    }

    fn sighted(&mut self, number: u64, visit: &Visit, came: &Came) {
        let life = self.life;
        let text = || {
            let (device, id) = (visit.device, came.id);
            format!("order {number}, id {id}, at device {device}, visit at {} µs", visit.began_at)
        };
        let Some(known) = self.orders.get(&number) else { return };
        let Some(device) = self.devices.get_mut(&visit.device) else { return };
        let Some(entry) = device.entries.get_mut(&number) else { return };
        let (answered_at, asked_at) = (known.answered_at, known.order.asked_at);
        let gone = |drop: &&(u64, u64)| answered_at < drop.0 && drop.1 < visit.began_at;
        let dropped = device.drops.iter().find(gone).copied();
        let late =
            known.order.short_s.filter(|_| answered_at != NEVER).filter(|seconds| {
                came.at > answered_at + u64::from(*seconds) * 1_000_000 + LATE_US
            });
        let mut wrong = Vec::new();
        if known.refused {
            wrong.push(("a refused order came", text()));
        }
        if let Some(drop) = dropped {
            wrong.push((
                "a push came back after its product was dropped",
                format!("{} {drop:?}", text()),
            ));
        }
        if late.is_some() {
            wrong.push(("a push came after its time", format!("{} asked at {asked_at}", text())));
        }
        match entry.over {
            _ if entry.settled => {
                let why = format!("{}: over {:?}, life {life}", text(), entry.over);
                wrong.push((kind(entry), why));
            }
            Some((at, then)) if then == life && visit.began_at > at => {
                wrong.push((kind(entry), format!("{}: over at {at} µs of the same life", text())));
            }
            Some((_, then)) if then < life => {
                self.tally.count("repeated, as a crash may");
                (entry.over, entry.acked_in, entry.replaced) = (None, None, false);
            }
            Some(_) => {}
            None if entry.acked_in.is_some_and(|then| then < life) => {
                self.tally.count("repeated, its acknowledgement was on the way");
                entry.acked_in = None;
            }
            None if entry.seen > 0 => self.tally.count("repeated, not acknowledged"),
            None => {}
        }
        entry.seen += 1;
        if entry.seen > 1 && entry.id != came.id {
            wrong.push(("doubled", format!("{}: came as {} before", text(), entry.id)));
        }
        entry.id = came.id;
        wrong.into_iter().for_each(|(kind, text)| self.wrong(kind, text));
    }

    /// Of two pushes of one priority the one comes first that was answered before the other was
    /// asked.
    fn in_order(&mut self, device: DeviceNumber, numbers: &[u64]) {
        let (mut latest, mut wrong) = ([(0, 0); 2], Vec::new());
        for number in numbers {
            let Some(Known { order, answered_at, life, .. }) = self.orders.get(number) else {
                continue;
            };
            // An order to a group that a start goes on with reaches its devices anew.
            if order.group.is_some() && *life < self.life {
                continue;
            }
            let (asked_at, before) = &mut latest[usize::from(order.high)];
            if *answered_at < *asked_at {
                wrong.push(format!(
                    "device {device}: {before}, asked at {asked_at} µs, came before {number}, \
                     answered at {answered_at} µs"
                ));
            }
            if order.asked_at > *asked_at {
                (*asked_at, *before) = (order.asked_at, *number);
            }
        }
        wrong.into_iter().for_each(|text| self.wrong("wrong order", text));
    }

    fn acknowledged(&mut self, visit: &Visit, ack: &Ack) {
        let life = self.life;
        self.tally.count("acknowledgements");
        let Some(number) = self.by_id.get(&ack.id) else { return };
        let Some(device) = self.devices.get_mut(&visit.device) else { return };
        let Some(entry) = device.entries.get_mut(number) else { return };
        (entry.acked_in, entry.ever_acked) = (Some(life), true);
        let Some(read_at) = ack.read_at else { return };
        self.tally.count("acknowledgements read");
        entry.over = Some((read_at, life));
        let again = visit.came.iter().find(|came| came.id == ack.id && came.at > read_at);
        if let Some(came) = again {
            let text = format!("order {number}, id {}, at device {}", came.id, visit.device);
            self.wrong("doubled", format!("{text}: came after its acknowledgement was read"));
        }
    }

    /// A full visit: what did not come is not there.
    fn absent(&mut self, visit: &Visit, seen: &HashSet<u64>) {
        let Some(device) = self.devices.get(&visit.device) else { return };
        let open: Vec<u64> = device.open.iter().copied().collect();
        let (mut gone, mut wrong) = (Vec::new(), Vec::new());
        for number in open {
            let Some(entry) = device.entries.get(&number) else { continue };
            let Some(known) = self.orders.get(&number) else { continue };
            if seen.contains(&number) {
                continue;
            }
            let owed = entry.promised && entry.acked_in.is_none() && known.order.short_s.is_none();
            if owed && !excused(device, &self.orders, known) {
                let device = visit.device;
                wrong.push(format!(
                    "order {number}, id {:?}, at device {device}: {:?}, answered at {} µs of life \
                     {}, seen {} times",
                    known.id, known.order, known.answered_at, known.life, entry.seen
                ));
            }
            // A keyed order without an answer may be carried out once it is asked again; one for
            // many is on its way until its counts have been seen.
            let may_come = known.order.keyed && known.answered_at == NEVER;
            if !may_come && (known.order.group.is_none() || entry.promised) {
                gone.push(number);
            }
        }
        if let Some(device) = self.devices.get_mut(&visit.device) {
            for number in gone {
                device.open.remove(&number);
                device.entries.entry(number).and_modify(|entry| entry.settled = true);
            }
            for number in seen {
                let entry = device.entries.get_mut(number);
                entry.into_iter().for_each(|entry| entry.promised = true);
            }
        }
        wrong.into_iter().for_each(|text| self.wrong("lost", text));
    }
}

/// Kind of violation when a push comes that is over.
fn kind(entry: &Entry) -> &'static str {
    match (entry.replaced, entry.over.is_some() || entry.ever_acked) {
        (true, _) => "a replaced push came",
        (_, true) => "doubled",
        _ => "came after it was gone",
    }
}

/// An order with a collapse key was answered: what it surely replaced is over.
fn replace(
    device: &mut Device,
    orders: &HashMap<u64, Known>,
    (key, asked_at): (u8, u64),
    over: (u64, u32),
) {
    let alike = device.alike.get(&key).into_iter().flatten();
    for number in alike.rev().take(64) {
        let surely = orders.get(number).is_some_and(|known| known.answered_at < asked_at);
        let entry = device.entries.get_mut(number).filter(|entry| surely && entry.over.is_none());
        if let Some(entry) = entry {
            (entry.over, entry.acked_in, entry.replaced) = (Some(over), Some(over.1), true);
        }
    }
}

/// Whether a promised push may be missing: one with the same collapse key that may be later came,
/// or its product may have been dropped.
fn excused(device: &Device, orders: &HashMap<u64, Known>, known: &Known) -> bool {
    let asked_at = known.order.asked_at;
    if device.drops.iter().any(|(_, answered_at)| *answered_at > asked_at) {
        return true;
    }
    let Some(key) = known.order.collapse else { return false };
    let alike = device.alike.get(&key).into_iter().flatten();
    alike.filter(|number| **number != known.order.number).any(|number| {
        let later = orders.get(number).is_some_and(|other| other.answered_at > asked_at);
        later && device.entries.get(number).is_some_and(|entry| entry.seen > 0)
    })
}

#[cfg(test)]
mod tests;

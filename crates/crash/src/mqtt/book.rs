//! The book of MQTT: what every answer promised, what came, and whether both fit together.
//!
//! The promises. A message that was answered (PUBACK, or PUBREC at QoS 2, for then the server owns
//! it) comes to every session that was subscribed before it was asked, and to one member of each
//! shared group; a will comes when its client went without farewell. At QoS 2 nothing comes a
//! second time; at QoS 1 it is counted. The first of each publisher and topic come in order. The
//! last answered value of a retained topic is there, or a later one. Nothing else comes.

use super::cast::{GROUPS, READERS, matches};
use crate::book::Tally;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A time that never came.
pub const NEVER: u64 = u64::MAX;
/// Lives after which what is over is forgotten.
const FORGET_LIVES: u32 = 20;

/// A message that was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Names it in this run, and so does its payload; a publisher's rise.
    pub number: u64,
    /// Its client.
    pub client: String,
    /// Its topic.
    pub topic: String,
    /// Its QoS.
    pub qos: u8,
    /// Whether the topic retains it.
    pub retain: bool,
    /// Whether it is empty: it deletes a retained message.
    pub clear: bool,
    /// Moment of it, microseconds of the harness's clock.
    pub at: u64,
}

/// A message that a reader got and had not got before, as far as its packet identifiers say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sight {
    /// Which of [`READERS`].
    pub reader: usize,
    /// Number of the message.
    pub number: u64,
    /// Its topic.
    pub topic: String,
    /// With which QoS it came.
    pub qos: u8,
    /// Whether it may have been sent before.
    pub dup: bool,
    /// Whether it was marked as retained.
    pub retain: bool,
    /// Its packet identifier.
    pub id: u16,
    /// Moment of it, microseconds of the harness's clock.
    pub at: u64,
}

/// Event of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fact {
    /// A message was asked for.
    Asked(Asked),
    /// The message was sent again, in a later life.
    Again(u64),
    /// The server owns it now, since that time.
    Acked(u64, u64),
    /// The server refused it, with this reason.
    Refused(u64, u8),
    /// A will must come: its client went without farewell.
    Due(u64),
    /// A client with a will said farewell, and the server may not have written that down.
    Farewell(u64),
    /// A client with a will said farewell, and the server had the time to write that down.
    Gone(u64),
    /// A reader asked for a filter, at that time.
    Wished(usize, String, u64),
    /// The subscription was granted.
    Granted(usize, String, u64),
    /// A reader does not want a filter any more.
    Unwished(usize, String, u64),
    /// The subscription ended.
    Ended(usize, String, u64),
    /// A reader got a message.
    Seen(Sight),
    /// All retained messages, by topic; an unreadable one has number 0.
    Retained(BTreeMap<String, u64>),
    /// A fact that is a violation by itself.
    Wrong(&'static str, String),
}

/// A subscription, from its wish to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Span {
    filter: String,
    wished: u64,
    granted: u64,
    unwished: u64,
    ended: u64,
}

struct Known {
    asked: Asked,
    life: u32,
    acked_at: u64,
    refused: bool,
    /// Whether it was sent again in a later life.
    again: bool,
    /// A will of a client that said farewell.
    gone: bool,
}

/// Receiver that must get messages: a session, or all of a shared group together.
#[derive(Default)]
struct Unit {
    spans: Vec<Span>,
    owed: BTreeSet<u64>,
    seen: HashMap<u64, (u32, u8)>,
    last: HashMap<(String, String), u64>,
}

impl Unit {
    /// Whether it was subscribed before the message was asked. If not, the message came to nobody
    /// at first, and to it when it was sent again.
    fn held_before(&self, asked: &Asked) -> bool {
        let holds = |span: &Span| {
            span.granted < asked.at && span.ended > asked.at && matches(&span.filter, &asked.topic)
        };
        self.spans.iter().any(holds)
    }
}

/// All that is known of a run's MQTT.
pub struct Book {
    life: u32,
    messages: HashMap<u64, Known>,
    units: Vec<Unit>,
    /// By topic: numbers asked since the last answered one, and that one first.
    retained: BTreeMap<String, Vec<(u64, bool)>>,
    /// Violations since the last take.
    pub wrongs: Vec<(&'static str, String)>,
    /// How often things happened.
    pub tally: Tally,
}

/// The unit that a reader belongs to.
pub fn unit_of(reader: usize) -> usize {
    READERS[reader].group.map_or(reader, |group| READERS.len() + usize::from(group))
}

impl Default for Book {
    fn default() -> Book {
        let units = READERS.len() + usize::from(GROUPS);
        Book {
            life: 1,
            messages: HashMap::new(),
            units: (0..units).map(|_| Unit::default()).collect(),
            retained: BTreeMap::new(),
            wrongs: Vec::new(),
            tally: Tally::default(),
        }
    }
}

impl Book {
    /// Writes down what happened, each reader's sights in their order.
    pub fn take(&mut self, facts: &[Fact]) {
        // What one thread saw another has asked; subscriptions are known before messages.
        facts.iter().for_each(|fact| self.subscription(fact));
        facts.iter().for_each(|fact| self.asking(fact));
        for fact in facts {
            match fact {
                Fact::Again(number) => {
                    self.tally.count("mqtt messages sent again");
                    if let Some(known) = self.messages.get_mut(number) {
                        known.again |= known.life != self.life;
                    }
                }
                Fact::Acked(number, at) => self.acked(*number, *at),
                Fact::Due(number) => {
                    self.tally.count("mqtt wills due");
                    self.owe(*number);
                }
                Fact::Farewell(_) => self.tally.count("mqtt farewells just before the end"),
                Fact::Gone(number) => {
                    self.tally.count("mqtt farewells");
                    if let Some(known) = self.messages.get_mut(number) {
                        known.gone = true;
                    }
                }
                Fact::Refused(number, reason) => {
                    self.tally.count("mqtt messages refused");
                    if let Some(known) = self.messages.get_mut(number) {
                        known.refused = true;
                    }
                    let text = format!("message {number}, reason {reason:#x}");
                    self.wrong("a message was refused without need", text);
                }
                Fact::Wrong(kind, text) => self.wrong(kind, text.clone()),
                _ => {}
            }
        }
        for fact in facts {
            match fact {
                Fact::Seen(sight) => self.sighted(sight),
                Fact::Retained(values) => self.judge_retained(values),
                _ => {}
            }
        }
    }

    /// Messages that every unit must still get.
    pub fn owed(&self) -> impl Iterator<Item = (usize, u64)> {
        let all = self.units.iter().enumerate();
        all.flat_map(|(unit, it)| it.owed.iter().map(move |number| (unit, *number)))
    }

    /// Counts all messages that still wait for a unit as lost, once queues are drained.
    pub fn drained(&mut self) {
        self.tally.count("mqtt audits");
        for unit in 0..self.units.len() {
            for number in std::mem::take(&mut self.units[unit].owed) {
                let text = format!("{} for {}", self.told(number), name(unit));
                self.wrong("lost", text);
            }
        }
    }

    /// The retained topics that must be there.
    pub fn retained_count(&self) -> usize {
        let is_there = |values: &&Vec<(u64, bool)>| {
            let first = values.first().and_then(|(number, _)| self.messages.get(number));
            first.is_some_and(|it| it.acked_at != NEVER && !it.asked.clear) && values.len() == 1
        };
        self.retained.values().filter(is_there).count()
    }

    /// The server's life is over.
    pub fn end_life(&mut self) {
        self.life += 1;
        if !self.life.is_multiple_of(FORGET_LIVES) {
            return;
        }
        let before = self.life.saturating_sub(FORGET_LIVES);
        let mut kept: BTreeSet<u64> = self.owed().map(|(_, number)| number).collect();
        kept.extend(self.retained.values().flatten().map(|(number, _)| *number));
        let young = |number: &u64, known: &Known| known.life >= before || kept.contains(number);
        self.messages.retain(|number, known| young(number, known));
        let messages = &self.messages;
        for unit in &mut self.units {
            unit.seen.retain(|number, _| messages.contains_key(number));
        }
    }

    fn wrong(&mut self, kind: &'static str, text: String) {
        self.wrongs.push((kind, text));
    }

    fn subscription(&mut self, fact: &Fact) {
        let (reader, filter) = match fact {
            Fact::Wished(reader, filter, _)
            | Fact::Granted(reader, filter, _)
            | Fact::Unwished(reader, filter, _)
            | Fact::Ended(reader, filter, _) => (*reader, filter.clone()),
            _ => return,
        };
        let spans = &mut self.units[unit_of(reader)].spans;
        let live = |span: &&mut Span| span.filter == filter && span.ended == NEVER;
        match fact {
            Fact::Wished(_, _, at) => {
                let (granted, unwished, ended) = (NEVER, NEVER, NEVER);
                spans.push(Span { filter, wished: *at, granted, unwished, ended });
            }
            Fact::Granted(_, _, at) => {
                if let Some(span) = spans.iter_mut().rfind(live) {
                    span.granted = *at;
                }
            }
            Fact::Unwished(_, _, at) => {
                spans.iter_mut().filter(live).for_each(|span| span.unwished = *at);
                // What waits may be delivered still, and may not (MQTT5 3.10.4).
                let messages = &self.messages;
                let stays = |number: &u64| {
                    let known = messages.get(number);
                    known.is_none_or(|known| !matches(&filter, &known.asked.topic))
                };
                self.units[unit_of(reader)].owed.retain(stays);
            }
            Fact::Ended(_, _, at) => {
                spans.iter_mut().filter(live).for_each(|span| span.ended = *at);
            }
            _ => {}
        }
    }

    fn asking(&mut self, fact: &Fact) {
        let Fact::Asked(asked) = fact else { return };
        self.tally.count("mqtt messages asked");
        if asked.retain {
            let values = self.retained.entry(asked.topic.clone()).or_default();
            values.push((asked.number, asked.clear));
        }
        let (life, acked_at, refused) = (self.life, NEVER, false);
        let (again, gone) = (false, false);
        let known = Known { asked: asked.clone(), life, acked_at, refused, again, gone };
        self.messages.insert(asked.number, known);
    }

    fn acked(&mut self, number: u64, at: u64) {
        self.tally.count("mqtt messages answered");
        let Some(known) = self.messages.get_mut(&number) else { return };
        known.acked_at = at;
        if known.asked.retain
            && let Some(values) = self.retained.get_mut(&known.asked.topic)
        {
            values.retain(|(other, _)| *other >= number);
        }
        self.owe(number);
    }

    /// The message has to come to all who were subscribed before it.
    fn owe(&mut self, number: u64) {
        let Some(Known { asked, .. }) = self.messages.get(&number) else { return };
        if asked.clear {
            return;
        }
        for unit in &mut self.units {
            let holds = |span: &Span| {
                span.granted < asked.at
                    && span.unwished == NEVER
                    && matches(&span.filter, &asked.topic)
            };
            if unit.spans.iter().any(holds) && !unit.seen.contains_key(&number) {
                self.tally.count("mqtt deliveries promised");
                unit.owed.insert(number);
            }
        }
    }

    fn sighted(&mut self, sight: &Sight) {
        self.tally.count("mqtt deliveries");
        let who = unit_of(sight.reader);
        let Some(known) = self.messages.get(&sight.number) else {
            let text = format!("{sight:?} of {}", READERS[sight.reader].client);
            return self.wrong("a message came that was never sent, or long after", text);
        };
        let asked = &known.asked;
        let mut found = Vec::new();
        if asked.topic != sight.topic || asked.clear {
            found.push("a message came under another topic");
        }
        if sight.qos != asked.qos.min(READERS[sight.reader].qos) {
            found.push("a message came with another QoS");
        }
        if known.gone {
            found.push("a will came after a farewell");
        }
        if sight.retain {
            found.push("a message came as retained that was not asked for so");
        }
        let may = |span: &Span| {
            let before = known.acked_at > span.wished;
            span.ended > asked.at && before && matches(&span.filter, &asked.topic)
        };
        if !self.units[who].spans.iter().any(may) {
            found.push("a message came without a subscription");
        }
        let (times, qos) = self.units[who].seen.get(&sight.number).copied().unwrap_or((0, 0));
        let alone = READERS[sight.reader].group.is_none();
        let line = (asked.client.clone(), asked.topic.clone());
        let last = self.units[who].last.get(&line).copied().unwrap_or(0);
        if times > 0 && sight.qos == 2 && qos == 2 && !alone && known.again {
            self.tally.count("mqtt doubled in a shared group after a retry");
        } else if times > 0 && sight.qos == 2 && qos == 2 {
            found.push(if alone { "doubled" } else { "doubled in a shared group" });
        } else if times > 0 {
            self.tally.count(if sight.dup { "mqtt repeats with DUP" } else { "mqtt repeats" });
        } else if alone && sight.number < last && self.units[who].held_before(asked) {
            found.push("out of order");
        }
        if known.refused {
            self.tally.count("mqtt messages that came although refused");
        }
        for kind in found {
            let (who, what) = (name(who), self.told(sight.number));
            let before = format!("seen {times} times before, the last of its line {last}");
            self.wrong(kind, format!("{sight:?} of {who}: {what}; {before}"));
        }
        let unit = &mut self.units[who];
        unit.seen.insert(sight.number, (times + 1, sight.qos));
        unit.owed.remove(&sight.number);
        if times == 0 && alone {
            unit.last.insert(line, sight.number.max(last));
        }
    }

    fn judge_retained(&mut self, values: &BTreeMap<String, u64>) {
        self.tally.count("mqtt walks over retained messages");
        let mut found = Vec::new();
        for (topic, asked) in &self.retained {
            let there = values.get(topic).copied();
            let answered = asked.first().and_then(|(number, _)| self.messages.get(number));
            let may_be_none = answered.is_none_or(|first| first.acked_at == NEVER)
                || asked.iter().any(|(_, clear)| *clear);
            let fits = match there {
                Some(number) => asked.iter().any(|(it, clear)| *it == number && !clear),
                None => may_be_none,
            };
            if !fits {
                let first = asked.first().map(|(number, _)| self.told(*number));
                let there = there.map(|number| self.told(number));
                found.push(format!("{topic}: {there:?} is there, of {asked:?}; first {first:?}"));
            }
        }
        let unknown = values.keys().filter(|topic| !self.retained.contains_key(*topic));
        found.extend(unknown.map(|topic| format!("{topic}: never set")));
        found.into_iter().for_each(|text| self.wrong("a retained message is not right", text));
    }

    fn told(&self, number: u64) -> String {
        match self.messages.get(&number) {
            Some(Known { asked, life, acked_at, .. }) => {
                format!("{asked:?} in life {life}, answered at {acked_at}")
            }
            None => format!("message {number}"),
        }
    }
}

fn name(unit: usize) -> String {
    match READERS.get(unit) {
        Some(reader) => reader.client.to_owned(),
        None => format!("shared group {}", unit - READERS.len()),
    }
}

#[cfg(test)]
mod tests;

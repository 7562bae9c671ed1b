//! Subscribers: durable sessions that come, take some of what is there, and are cut off.
//!
//! A reader keeps the identifiers of QoS 2 that it has and the server has not released, over its
//! connections and the server's lives (MQTT5 4.3.3): what comes again under one of them is no
//! second message. It decides nothing else; what it saw is for the book.

use super::book::{Fact, Sight};
use super::cast::{READERS, Reader, TOPICS};
use super::line::{Line, PATIENCE};
use super::wire::{self, Connect, Message, Said};
use crate::body;
use crate::clock;
use crate::dice::Dice;
use crate::load::Scene;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// A subscriber over all lives of the server.
pub struct Eye {
    /// Which of [`READERS`].
    pub at: usize,
    /// The reader.
    pub reader: &'static Reader,
    known: bool,
    /// Identifiers of QoS 2 that are not released, and what came under them.
    held: HashMap<u16, u64>,
    /// A subscription that comes and goes, and whether it is there.
    extra: Option<String>,
    last_id: u16,
    /// An UNSUBSCRIBE or SUBSCRIBE that waits for its answer.
    waiting: Option<(u16, bool)>,
}

impl Eye {
    /// Subscriber `at` of [`READERS`].
    pub fn new(at: usize) -> Eye {
        let (held, extra, last_id, waiting) = (HashMap::new(), None, 0, None);
        Eye { at, reader: &READERS[at], known: false, held, extra, last_id, waiting }
    }

    /// Connects; the session must be there if it ever was.
    pub fn come(&mut self, address: SocketAddr, facts: &mut Vec<Fact>) -> io::Result<Line> {
        let Reader { client, version, .. } = *self.reader;
        let connect = Connect { version, client, durable: true, will: None };
        let (line, present) = Line::connect(address, &connect)?;
        if present != self.known {
            let text = format!("{client}: present is {present}");
            facts.push(Fact::Wrong("a subscriber's session is not as answered", text));
        }
        if !present {
            self.held.clear();
        }
        (self.known, self.waiting) = (true, None);
        Ok(line)
    }

    /// The first subscriptions, all granted.
    pub fn begin(&mut self, address: SocketAddr, facts: &mut Vec<Fact>) -> io::Result<()> {
        let mut line = self.come(address, facts)?;
        let Reader { version, qos, filters, .. } = *self.reader;
        let wanted: Vec<_> = filters.iter().map(|it| ((*it).to_owned(), qos)).collect();
        let (at, wished) = (self.at, clock::now_us());
        facts.extend(wanted.iter().map(|(it, _)| Fact::Wished(at, it.clone(), wished)));
        line.say(&wire::subscribe(version, 1, &wanted, false))?;
        match line.hear(PATIENCE)? {
            Some(Said::Suback(1, codes)) if codes == vec![qos; wanted.len()] => {
                let now = clock::now_us();
                facts.extend(wanted.into_iter().map(|(it, _)| Fact::Granted(at, it, now)));
                Ok(())
            }
            other => Err(io::Error::other(format!("SUBSCRIBE met {other:?}"))),
        }
    }

    /// Comes and goes until it is over.
    pub fn run(&mut self, scene: &Scene) -> Vec<Fact> {
        let mut dice = scene.dice(320 + self.at as u64);
        let mut facts = Vec::new();
        while scene.goes_on() {
            if let Err(error) = self.stay(scene, &mut dice, &mut facts)
                && scene.goes_on()
            {
                let ends = scene.stopping.load(std::sync::atomic::Ordering::Relaxed);
                if error.kind() == io::ErrorKind::Other && !ends {
                    let text = format!("{}: {error}", self.reader.client);
                    facts.push(Fact::Wrong("a subscriber was answered wrongly", text));
                }
                clock::rest(3);
            }
        }
        facts
    }

    fn stay(&mut self, scene: &Scene, dice: &mut Dice, facts: &mut Vec<Fact>) -> io::Result<()> {
        let mut line = self.come(scene.mqtt, facts)?;
        let answered = *dice.one(&[100, 100, 100, 95, 60, 0]);
        let until = clock::now_us() + dice.range(10_000, 700_000);
        if self.reader.group.is_none() && dice.percent(60) {
            self.change(&mut line, dice, facts)?;
        }
        while scene.goes_on() && clock::now_us() < until {
            let Some(said) = line.hear(Duration::from_millis(5))? else { continue };
            let answers = dice.percent(answered);
            self.heard((said, scene.seed), answers, &mut line, facts)?;
        }
        if dice.percent(40) {
            line.say(&wire::DISCONNECT)?;
        }
        Ok(())
    }

    /// Asks for one more subscription, or lets it go.
    fn change(
        &mut self,
        line: &mut Line,
        dice: &mut Dice,
        facts: &mut Vec<Fact>,
    ) -> io::Result<()> {
        self.last_id = self.last_id % 1_000 + 2;
        let (id, at, now) = (self.last_id, self.at, clock::now_us());
        let Reader { version, qos, .. } = *self.reader;
        match &self.extra {
            Some(filter) => {
                facts.push(Fact::Unwished(at, filter.clone(), now));
                line.say(&wire::unsubscribe(version, id, filter))?;
                self.waiting = Some((id, false));
            }
            None => {
                let filter = match dice.below(3) {
                    0 => "x/#".to_owned(),
                    1 => format!("x/+/{}", dice.below(TOPICS)),
                    _ => format!("x/q{}/{}", dice.range(1, 2), dice.below(TOPICS)),
                };
                facts.push(Fact::Wished(at, filter.clone(), now));
                line.say(&wire::subscribe(version, id, &[(filter.clone(), qos)], false))?;
                (self.extra, self.waiting) = (Some(filter), Some((id, true)));
            }
        }
        Ok(())
    }

    /// Takes what was heard, and answers it or not; the number of a message that is new.
    pub fn heard(
        &mut self,
        (said, seed): (Said, u64),
        answers: bool,
        line: &mut Line,
        facts: &mut Vec<Fact>,
    ) -> io::Result<Option<u64>> {
        match said {
            Said::Publish(message) => {
                let number = self.message(seed, &message, facts)?;
                if answers {
                    line.say(&wire::ack(if message.qos == 2 { 5 } else { 4 }, message.id))?;
                }
                return Ok(number);
            }
            Said::Ack(6, id, _) => {
                self.held.remove(&id);
                line.say(&wire::ack(7, id))?;
            }
            Said::Suback(id, codes) if self.waiting == Some((id, true)) => {
                let filter = self.extra.clone().unwrap_or_default();
                if codes != [self.reader.qos] {
                    return Err(io::Error::other(format!("SUBACK {codes:?} of {filter}")));
                }
                facts.push(Fact::Granted(self.at, filter, clock::now_us()));
            }
            Said::Unsuback(id) if self.waiting == Some((id, false)) => {
                let filter = self.extra.take().unwrap_or_default();
                facts.push(Fact::Ended(self.at, filter, clock::now_us()));
            }
            Said::Pong => {}
            Said::Disconnect(_) => return Err(io::ErrorKind::ConnectionReset.into()),
            other => return Err(io::Error::other(format!("a subscriber heard {other:?}"))),
        }
        Ok(None)
    }

    fn message(
        &mut self,
        seed: u64,
        message: &Message,
        facts: &mut Vec<Fact>,
    ) -> io::Result<Option<u64>> {
        let Message { topic, qos, dup, retain, id, payload } = message;
        let (qos, dup, retain, id) = (*qos, *dup, *retain, *id);
        if qos == 0 {
            return Err(io::Error::other(format!("a message of {topic} at QoS 0")));
        }
        let number = match body::number(seed, payload) {
            Some(number) if *payload == body::of(seed, number, payload.len()) => number,
            None if payload.is_empty() && topic.starts_with("r/") => 0,
            _ => {
                let text = format!("{}, {topic}, id {id}", self.reader.client);
                facts.push(Fact::Wrong("a payload is not what was sent", text));
                return Ok(None);
            }
        };
        if qos == 2 {
            match self.held.get(&id) {
                Some(before) if *before == number => {
                    if !dup {
                        let text = format!("{}, {topic}, id {id}, {number}", self.reader.client);
                        facts.push(Fact::Wrong("sent again without DUP", text));
                    }
                    return Ok(None);
                }
                Some(before) => {
                    let client = self.reader.client;
                    let text = format!("{client}: id {id} was {before}, is {number} of {topic}");
                    facts.push(Fact::Wrong("an identifier in use was given again", text));
                }
                None => {}
            }
            self.held.insert(id, number);
        }
        if number == 0 {
            return Ok(None);
        }
        let (reader, topic, at) = (self.at, topic.clone(), clock::now_us());
        facts.push(Fact::Seen(Sight { reader, number, topic, qos, dup, retain, id, at }));
        Ok(Some(number))
    }
}

//! Publishers: they send at QoS 1 and 2, and what was not answered again, as the standard demands.
//!
//! One with a durable session keeps what is open over its connections and the server's lives, and
//! sends it again in its order, under the same identifiers, with DUP (MQTT5 4.4). One without
//! forgets it. Identifiers come round soon, so that one which the server should have let go of
//! shows.

use super::book::{Asked, Fact};
use super::cast::{AUTHORS, Author, TOPICS, qos_of};
use super::line::Line;
use super::wills::Known;
use super::wire::{self, Connect, Message, Said};
use crate::body;
use crate::clock;
use crate::dice::Dice;
use crate::load::{Numbers, Scene};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// Packet identifiers in use.
const IDS: u16 = 60;
/// Largest payload, bytes.
const BYTES_MAX: u64 = 20_000;

/// A message that is not over.
struct Open {
    number: u64,
    message: Message,
    /// The server owns it: PUBREL was said.
    released: bool,
}

/// A publisher over all lives of the server.
pub struct Pen {
    at: usize,
    author: &'static Author,
    /// Its session is at the server.
    known: Known,
    last_id: u16,
    open: VecDeque<Open>,
    /// The last packets sent and received: time, packet type, identifier; 1 is a new connection.
    trail: VecDeque<(u64, u8, u16)>,
}

/// How much of that is kept.
const TRAIL_MAX: usize = 4_000;

impl Pen {
    /// Publisher `at` of [`AUTHORS`].
    pub fn new(at: usize) -> Pen {
        let (open, trail) = (VecDeque::new(), VecDeque::new());
        Pen { at, author: &AUTHORS[at], known: Some(false), last_id: 0, open, trail }
    }

    fn note(&mut self, kind: u8, id: u16) {
        if self.trail.len() == TRAIL_MAX {
            self.trail.pop_front();
        }
        self.trail.push_back((clock::now_us(), kind, id));
    }

    /// The last packets under this identifier, as text.
    fn trail_of(&self, id: u16) -> String {
        let of = self.trail.iter().filter(|(_, kind, of)| *of == id || *kind == 1);
        let last: Vec<String> =
            of.rev().take(24).map(|(at, kind, _)| format!("{kind}@{at}")).collect();
        last.into_iter().rev().collect::<Vec<_>>().join(" ")
    }

    /// Publishes until it is over.
    pub fn run(&mut self, scene: &Scene, numbers: &Numbers) -> Vec<Fact> {
        let mut dice = scene.dice(300 + self.at as u64);
        let mut facts = Vec::new();
        while scene.goes_on() {
            if let Err(error) = self.stay(scene, numbers, &mut dice, &mut facts)
                && scene.goes_on()
            {
                // The end of a connection says nothing; bytes that are wrong do.
                if error.kind() == io::ErrorKind::Other {
                    let text = format!("{}: {error}", self.author.client);
                    facts.push(Fact::Wrong("a publisher was answered wrongly", text));
                }
                clock::rest(3);
            }
        }
        facts
    }

    fn stay(
        &mut self,
        scene: &Scene,
        numbers: &Numbers,
        dice: &mut Dice,
        facts: &mut Vec<Fact>,
    ) -> io::Result<()> {
        let Author { client, version, durable } = *self.author;
        let connect = Connect { version, client, durable, will: None };
        let answer = Line::connect(scene.mqtt, &connect);
        if answer.is_err() {
            // The session may have been made before the kill.
            self.known = self.known.filter(|&known| known || !durable);
        }
        let (mut line, present) = match answer {
            Err(error) if scene.stopping.load(std::sync::atomic::Ordering::Relaxed) => {
                return Err(io::Error::new(io::ErrorKind::ConnectionReset, error));
            }
            other => other?,
        };
        if self.known.is_some_and(|known| known != present) {
            let text = format!("{client}: present is {present}, {} open", self.open.len());
            facts.push(Fact::Wrong("a publisher's session is not as answered", text));
        }
        self.known = Some(durable);
        if !present {
            self.open.clear();
        }
        self.note(1, 0);
        for at in 0..self.open.len() {
            let open = &mut self.open[at];
            open.message.dup = true;
            facts.push(Fact::Again(open.number));
            let (id, released) = (open.message.id, open.released);
            line.say(&match released {
                true => wire::ack(6, id),
                false => wire::publish(version, &open.message),
            })?;
            self.note(if released { 6 } else { 3 }, id);
        }
        let window = dice.range(1, 24) as usize;
        let until = clock::now_us() + dice.range(20_000, 900_000);
        while scene.goes_on() && clock::now_us() < until {
            while self.open.len() < window {
                let Some(bytes) = self.next(scene, numbers, dice, facts) else { break };
                line.say(&bytes)?;
            }
            if let Some(said) = line.hear(Duration::from_millis(5))? {
                self.heard(said, &mut line, facts)?;
            }
        }
        Ok(())
    }

    /// The next message, written down as asked.
    fn next(
        &mut self,
        scene: &Scene,
        numbers: &Numbers,
        dice: &mut Dice,
        facts: &mut Vec<Fact>,
    ) -> Option<Vec<u8>> {
        let after = |id: u16| id % IDS + 1;
        let is_free = |id: &u16| self.open.iter().all(|open| open.message.id != *id);
        let mut ids = (0..IDS).scan(self.last_id, |id, _| {
            *id = after(*id);
            Some(*id)
        });
        let id = ids.find(is_free)?;
        let kind = ["t", "t", "t", "x", "s", "r"][dice.below(6) as usize];
        let (qos, topic) = (dice.range(1, 2), dice.below(TOPICS));
        let retain = kind == "r";
        let topic = match retain {
            true => format!("r/q{qos}/{}/{topic}", self.author.client),
            false => format!("{kind}/q{qos}/{topic}"),
        };
        let clear = retain && dice.percent(20);
        let number = numbers.next();
        let most = if dice.percent(3) { BYTES_MAX } else { 300 };
        let length = dice.range(body::BYTES_MIN as u64, most) as usize;
        let payload = if clear { Vec::new() } else { body::of(scene.seed, number, length) };
        let (qos, dup) = (qos_of(&topic), false);
        let (client, at) = (self.author.client.to_owned(), clock::now_us());
        let asked = Asked { number, client, topic: topic.clone(), qos, retain, clear, at };
        facts.push(Fact::Asked(asked));
        let message = Message { topic, qos, dup, retain, id, payload };
        let bytes = wire::publish(self.author.version, &message);
        self.last_id = id;
        self.note(3, id);
        self.open.push_back(Open { number, message, released: false });
        Some(bytes)
    }

    fn heard(&mut self, said: Said, line: &mut Line, facts: &mut Vec<Fact>) -> io::Result<()> {
        let (kind, id, reason) = match said {
            Said::Ack(kind, id, reason) => (kind, id, reason),
            Said::Disconnect(_) => return Err(io::ErrorKind::ConnectionReset.into()),
            other => return Err(io::Error::other(format!("a publisher heard {other:?}"))),
        };
        let at = self.open.iter().position(|open| open.message.id == id);
        self.note(kind, id);
        let Some(at) = at else {
            let trail = self.trail_of(id);
            let text = format!("answer {kind} to {id}, which is not open: {trail}");
            return Err(io::Error::other(text));
        };
        let open = &mut self.open[at];
        let fits = match kind {
            4 => open.message.qos == 1,
            5 => open.message.qos == 2,
            7 => open.released,
            _ => false,
        };
        if !fits {
            let (qos, released) = (open.message.qos, open.released);
            let trail = self.trail_of(id);
            let text = format!("answer {kind} to {id} of QoS {qos}, released {released}: {trail}");
            return Err(io::Error::other(text));
        }
        if reason >= 0x80 && kind != 7 {
            facts.push(Fact::Refused(open.number, reason));
            self.open.remove(at);
            return Ok(());
        }
        if kind != 7 && !open.released {
            facts.push(Fact::Acked(open.number, clock::now_us()));
        }
        if kind == 5 {
            open.released = true;
            self.note(6, id);
            return line.say(&wire::ack(6, id));
        }
        self.open.remove(at);
        Ok(())
    }
}

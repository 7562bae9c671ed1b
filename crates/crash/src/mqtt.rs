//! MQTT in a cycle: publishers, durable subscribers, shared groups, retained messages and wills.
//!
//! All facts are seen from outside, through a client of our own. Sessions are the server's to
//! remember: whoever had one demands it back after each kill. [`book`] judges; nothing here does.

mod author;
mod book;
mod cast;
mod line;
mod reader;
mod wills;
mod wire;

use crate::book::Tally;
use crate::clock;
use crate::load::{Numbers, Scene};
use author::Pen;
pub use book::Fact;
use book::{Book, unit_of};
use cast::{AUTHORS, READERS};
use line::Line;
use reader::Eye;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt::Write;
use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;
use wire::{Connect, Said, V5};

/// Silence after which missing messages are lost. A busy machine has let a server wait for more
/// than five seconds that had everything and delivered it afterwards.
const LOST_US: u64 = 60_000_000;
/// Silence after which nothing more comes, when all has come that must.
const SILENCE_US: u64 = 150_000;
/// Batches of facts that are kept for a failure.
const RECENT_MAX: usize = 12;

/// All of MQTT in a run.
pub struct Mqtt {
    pens: Vec<Pen>,
    eyes: Vec<Eye>,
    /// Clients with wills whose sessions are at the server.
    mortals: Vec<wills::Known>,
    book: Book,
    recent: VecDeque<(u32, Vec<Fact>)>,
}

/// A party of the load, that brings home what it saw.
pub type Party<'s> = ScopedJoinHandle<'s, Vec<Fact>>;

impl Default for Mqtt {
    fn default() -> Mqtt {
        Mqtt {
            pens: (0..AUTHORS.len()).map(Pen::new).collect(),
            eyes: (0..READERS.len()).map(Eye::new).collect(),
            mortals: vec![Some(false); wills::count()],
            book: Book::default(),
            recent: VecDeque::new(),
        }
    }
}

impl Mqtt {
    /// The first subscriptions, which must hold for ever.
    pub fn begin(&mut self, address: SocketAddr) {
        let mut facts = Vec::new();
        for eye in &mut self.eyes {
            if let Err(error) = eye.begin(address, &mut facts) {
                let text = format!("{}: {error}", eye.reader.client);
                facts.push(Fact::Wrong("a session could not begin", text));
            }
        }
        self.take(1, facts);
    }

    /// Starts the parties of the load.
    pub fn load<'s, 'e>(
        &'e mut self,
        threads: &'s Scope<'s, 'e>,
        (scene, numbers): (&'e Scene, &'e Numbers),
    ) -> Vec<Party<'s>> {
        let pens = self.pens.iter_mut();
        let mut parties: Vec<Party<'s>> =
            pens.map(|pen| threads.spawn(move || pen.run(scene, numbers))).collect();
        let eyes = self.eyes.iter_mut().filter(|eye| eye.reader.wakes);
        parties.extend(eyes.map(|eye| threads.spawn(move || eye.run(scene))));
        let mortals = &mut self.mortals[..];
        parties.push(threads.spawn(move || wills::run(scene, 350, numbers, mortals)));
        parties
    }

    /// Writes down what happened in this life.
    pub fn take(&mut self, life: u32, facts: Vec<Fact>) {
        self.book.take(&facts);
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((life, facts));
    }

    /// All subscribers come at once and take everything; then the retained messages are looked at.
    pub fn audit(&mut self, life: u32, scene: &Scene) {
        let missing: HashSet<(usize, u64)> = self.book.owed().collect();
        let hall = Hall {
            address: scene.mqtt,
            seed: scene.seed,
            missing: Mutex::new(missing),
            heard_at: AtomicU64::new(clock::now_us()),
        };
        let eyes = &mut self.eyes;
        let mut facts: Vec<Fact> = std::thread::scope(|threads| {
            let parties: Vec<_> = eyes
                .iter_mut()
                .map(|eye| {
                    let hall = &hall;
                    threads.spawn(move || hall.drain(eye))
                })
                .collect();
            let all = parties.into_iter().flat_map(|party| party.join().expect("no defect of it"));
            all.collect()
        });
        match retained(scene, self.book.retained_count()) {
            Ok(values) => facts.push(Fact::Retained(values)),
            Err(error) => {
                let text = error.to_string();
                facts.push(Fact::Wrong("retained messages could not be had", text));
            }
        }
        self.take(life, facts);
        self.book.drained();
    }

    /// The server's life is over.
    pub fn end_life(&mut self) {
        self.book.end_life();
    }

    /// Takes the violations, and the counts of events, since the last call.
    pub fn judged(&mut self) -> (Vec<(&'static str, String)>, Tally) {
        (std::mem::take(&mut self.book.wrongs), std::mem::take(&mut self.book.tally))
    }

    /// The facts of the last lives, for whoever has to understand a failure.
    pub fn facts(&self) -> String {
        let mut text = String::new();
        for (life, some) in &self.recent {
            for fact in some {
                writeln!(text, "life {life}: {fact:?}").expect("a String takes all");
            }
        }
        text
    }
}

/// Where all subscribers meet for an audit.
struct Hall {
    address: SocketAddr,
    seed: u64,
    missing: Mutex<HashSet<(usize, u64)>>,
    /// When one of them heard something last.
    heard_at: AtomicU64,
}

impl Hall {
    fn drain(&self, eye: &mut Eye) -> Vec<Fact> {
        let mut facts = Vec::new();
        if let Err(error) = self.try_drain(eye, &mut facts) {
            let text = format!("{}: {error}", eye.reader.client);
            facts.push(Fact::Wrong("a subscriber could not have what waits for it", text));
        }
        facts
    }

    fn try_drain(&self, eye: &mut Eye, facts: &mut Vec<Fact>) -> io::Result<()> {
        let mut line = eye.come(self.address, facts)?;
        let unit = unit_of(eye.at);
        loop {
            let Some(said) = line.hear(Duration::from_millis(20))? else {
                let silent = clock::now_us().saturating_sub(self.heard_at.load(Ordering::Relaxed));
                let missing = self.missing.lock().expect("no party panics").len();
                if silent > if missing == 0 { SILENCE_US } else { LOST_US } {
                    break;
                }
                continue;
            };
            self.heard_at.fetch_max(clock::now_us(), Ordering::Relaxed);
            if let Some(number) = eye.heard((said, self.seed), true, &mut line, facts)? {
                self.missing.lock().expect("no party panics").remove(&(unit, number));
            }
        }
        line.say(&wire::PING)?;
        while let Some(said) = line.hear(line::PATIENCE)? {
            if said == Said::Pong {
                return Ok(());
            }
            eye.heard((said, self.seed), true, &mut line, facts)?;
        }
        Err(io::Error::other("its ping was not answered"))
    }
}

/// All retained messages, of which so many must be there at least.
fn retained(scene: &Scene, least: usize) -> io::Result<BTreeMap<String, u64>> {
    let connect = Connect { version: V5, client: "walker", durable: false, will: None };
    let (mut line, _) = Line::connect(scene.mqtt, &connect)?;
    line.say(&wire::subscribe(V5, 1, &[("r/#".to_owned(), 1)], true))?;
    let mut values = BTreeMap::new();
    let mut heard_at = clock::now_us();
    loop {
        let silence = if values.len() < least { LOST_US } else { SILENCE_US };
        match line.hear(Duration::from_millis(20))? {
            Some(Said::Publish(message)) => {
                heard_at = clock::now_us();
                let number = crate::body::number(scene.seed, &message.payload).unwrap_or(0);
                if message.qos == 1 {
                    line.say(&wire::ack(4, message.id))?;
                }
                if !message.retain {
                    return Err(io::Error::other(format!("{} not as retained", message.topic)));
                }
                if values.insert(message.topic.clone(), number).is_some() {
                    return Err(io::Error::other(format!("{} came twice", message.topic)));
                }
            }
            Some(Said::Suback(1, codes)) if codes == [1] => {}
            Some(other) => return Err(io::Error::other(format!("a walker heard {other:?}"))),
            None if clock::now_us() - heard_at > silence => break,
            None => {}
        }
    }
    line.say(&wire::DISCONNECT)?;
    Ok(values)
}

//! Writes of one chat message between two people, in the two steps in which it is stored.
//!
//! ```text
//! append to conversation and outbox, with a once key ─► acknowledged to the sender
//!   └► append a pointer to both inboxes, with a once key ─► the outbox's entry is removed
//! ```
//! Half a million conversations between a million people. The CPU is that of all threads but the
//! producer's, from the first send until the log is closed and everything is at rest. At the end
//! conversations and inboxes must have everything, and the outbox nothing.

use super::lane::Lane;
use super::meter::{self, Others};
use super::ours;
use super::rival::Rival;
use crate::clock;
use crate::measure::slope;
use crate::results::Outcome;
use crate::scenario::Scale;
use base::hash::HashKey;
use base::prng::Prng;
use model::ports::log::{Append, Call, Completion, Done, OnceKey, Pull, Ticket, Write};
use model::timeline::{Message, Seq, Space, TimelineId};
use serde_json::json;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Instant;

const PEOPLE: u32 = 1 << 20;
const SENDS: u32 = 400_000;
const WINDOW: u64 = 1_024;
const BODY_BYTES: usize = 200;
/// Bytes of a pointer's label: conversation, seq, sender and kind.
const LABEL_BYTES: usize = 40;
/// Of so many conversations one is read back.
const READ_BACK: usize = 61;

/// Sends, until everything is at rest.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let (people, sends) = (scale.of(PEOPLE) & !1, u64::from(scale.of(SENDS)));
    let mut outcome = Outcome::new(json!({
        "people": people, "sends": sends, "window": WINDOW, "body_bytes": BODY_BYTES,
        "label_bytes": LABEL_BYTES, "ours": ours::plan(),
        "cpu": "all threads but the producer's, until the log is closed and at rest",
        "send": "append to conversation and outbox, to two inboxes, removal from the outbox",
    }));
    let folder = tempfile::tempdir()?;
    let mut log = ours::Threaded::open(folder.path())?;
    let (began, others) = (clock::now(), Others::begin());
    let mut traffic = Sends::new(people);
    traffic.run(&mut log, sends)?;
    let wall = clock::since(began);
    Box::new(log).close()?;
    meter::rest();
    let cpu = others.used().as_secs_f64() * 1e6 / sends as f64;
    outcome.figure("CPU", cpu, "µs a send");
    outcome.figure("sends a second a core", 1e6 / cpu, "a second");
    outcome.figure("sends", sends as f64 / wall.as_secs_f64(), "a second");
    for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
        let name = format!("acknowledged to the sender, {name}");
        outcome.figure(&name, slope::quantile(&traffic.latencies_us, part), "µs");
    }
    let looked_at = traffic.read_back(folder.path())?;
    outcome.detail("read back", json!({ "conversations": looked_at }));
    Ok(outcome)
}

fn timeline(kind: u8, number: u32) -> TimelineId {
    TimelineId::of(Space::Other, HashKey::new(7, 9), &[&[kind], &number.to_le_bytes()])
}

fn inbox(person: u32) -> TimelineId {
    timeline(1, person)
}

/// The conversation of a person and the next.
fn conversation(person: u32) -> TimelineId {
    timeline(2, person / 2)
}

fn outbox() -> TimelineId {
    timeline(3, 0)
}

/// A send under way: between whom, and since when.
struct Send {
    person: u32,
    began: Instant,
}

/// The producer.
struct Sends {
    prng: Prng,
    people: u32,
    under_way: HashMap<u64, Send>,
    /// Messages of each conversation.
    made: HashMap<u32, u64>,
    latencies_us: Vec<f64>,
}

/// The step that a ticket is of, and the send.
fn step(ticket: Ticket) -> (u64, u64) {
    (ticket % 3, ticket / 3)
}

impl Sends {
    fn new(people: u32) -> Sends {
        let (under_way, made) = (HashMap::new(), HashMap::new());
        Sends { prng: Prng::new(5), people, under_way, made, latencies_us: Vec::new() }
    }

    fn run(&mut self, log: &mut ours::Threaded, sends: u64) -> io::Result<()> {
        let (mut begun, mut completions, mut calls) = (0, Vec::new(), Vec::new());
        loop {
            while begun < sends && (self.under_way.len() as u64) < WINDOW {
                calls.push(self.begin(begun));
                begun += 1;
            }
            if !calls.is_empty() {
                log.call(std::mem::take(&mut calls))?;
            }
            if self.under_way.is_empty() {
                return Ok(());
            }
            log.mailbox().expect(&mut completions)?;
            for completion in &completions {
                calls.extend(self.go_on(completion)?);
            }
        }
    }

    fn begin(&mut self, send: u64) -> (Ticket, Call) {
        let person = self.prng.below(self.people.into()) as u32;
        let body = (0..BODY_BYTES / 8).flat_map(|_| self.prng.draw().to_le_bytes()).collect();
        let label = vec![1; LABEL_BYTES].into();
        let message = Arc::new(Message { id: send + 1, at_s: 0, label, body });
        let once = Some(OnceKey::at_home(inbox(person).home_hash(), send));
        let to = vec![conversation(person), outbox()];
        self.under_way.insert(send, Send { person, began: clock::now() });
        *self.made.entry(person / 2).or_default() += 1;
        (
            3 * send,
            Call::Write(Write::Append(Append { message, to, once, heard: None, ends: false })),
        )
    }

    fn go_on(&mut self, completion: &Completion) -> io::Result<Option<(Ticket, Call)>> {
        let (ticket, (step, send)) = (completion.0, step(completion.0));
        let failed = || io::Error::other(format!("{step} of {send}: {:?}", completion.1));
        let known = self.under_way.get(&send).ok_or_else(failed)?;
        let write = match (step, &completion.1) {
            (0, Ok(Done::Appended(appended))) if appended.new => {
                self.latencies_us.push(clock::since(known.began).as_secs_f64() * 1e6);
                let label = pointer(send, appended.seqs[0]);
                let message = Message { id: appended.seqs[1], at_s: 0, label, body: [].into() };
                let to = vec![inbox(known.person), inbox(known.person ^ 1)];
                let once = OnceKey::at_home(conversation(known.person).home_hash(), send);
                Write::Append(Append {
                    message: Arc::new(message),
                    to,
                    once: Some(once),
                    heard: None,
                    ends: false,
                })
            }
            // The pointer's id is where the message stands in the outbox.
            (1, Ok(Done::Appended(appended))) if appended.new => {
                Write::Remove { timeline: outbox(), seqs: vec![appended.id] }
            }
            (2, Ok(Done::Written)) => {
                self.under_way.remove(&send);
                return Ok(None);
            }
            _ => return Err(failed()),
        };
        Ok(Some((ticket + 1, Call::Write(write))))
    }

    /// Looks at some of the conversations and both inboxes of each, and at the outbox.
    fn read_back(&self, folder: &std::path::Path) -> io::Result<u64> {
        let mut log = ours::behind_log(folder)?;
        let mut count = |timeline: TimelineId| {
            let (count_max, bytes_max) = (1_000, usize::MAX);
            let pull = Pull { timeline, from: 0, backwards: false, count_max, bytes_max };
            log.page(&pull).map(|page| page.len() as u64)
        };
        if count(outbox())? != 0 {
            return Err(io::Error::other("the outbox holds what was sent"));
        }
        let mut looked_at = 0;
        for (&pair, &made) in self.made.iter().step_by(READ_BACK) {
            for timeline in [conversation(2 * pair), inbox(2 * pair), inbox(2 * pair + 1)] {
                let found = count(timeline)?;
                if found != made.min(1_000) {
                    return Err(io::Error::other(format!("{found} of {made} in {timeline:?}")));
                }
            }
            looked_at += 1;
        }
        Ok(looked_at)
    }
}

fn pointer(send: u64, seq: Seq) -> Box<[u8]> {
    let mut label = [0; LABEL_BYTES];
    label[..8].copy_from_slice(&send.to_le_bytes());
    label[8..16].copy_from_slice(&seq.to_le_bytes());
    label.into()
}

//! Clients with wills: some are there when the server is killed, some are cut off, some say
//! farewell.
//!
//! A will whose CONNACK came is promised, unless its client says DISCONNECT. Nothing answers that:
//! the will may still come if the server was killed before it had written the farewell down. It
//! must not once the next client of that name was let in with its own will, which was written
//! behind it in the same log. Clients with and without durable sessions come back under their
//! names in later lives, with new wills.

use super::book::{Asked, Fact};
use super::line::Line;
use super::wire::{self, Connect, V4, V5};
use crate::body;
use crate::clock;
use crate::load::{Numbers, Scene};
use std::io;
use std::time::Duration;

/// Clients with wills, even ones durable.
const CLIENTS: usize = 8;

/// One client with a will.
struct Mortal {
    line: Line,
    number: u64,
}

/// Whether a client has a session; `None`: it asked for one and was not answered.
pub type Known = Option<bool>;

/// Lets clients with wills come, and some of them go, until it is over.
pub fn run(scene: &Scene, party: u64, numbers: &Numbers, known: &mut [Known]) -> Vec<Fact> {
    let mut dice = scene.dice(party);
    let mut facts = Vec::new();
    let mut here: Vec<Option<Mortal>> = (0..CLIENTS).map(|_| None).collect();
    // Farewells that nothing has been written behind yet.
    let mut open: Vec<Vec<u64>> = vec![Vec::new(); CLIENTS];
    while scene.goes_on() {
        let at = dice.below(CLIENTS as u64) as usize;
        match here[at].take() {
            None => {
                here[at] = come(scene, (at, numbers), &mut known[at], &mut facts);
                if here[at].is_some() {
                    facts.extend(open[at].drain(..).map(Fact::Gone));
                }
            }
            // Another connection under its name takes over, and the will of this one is published.
            Some(old) if dice.percent(30) => {
                here[at] = come(scene, (at, numbers), &mut known[at], &mut facts);
                facts.push(Fact::Due(old.number));
            }
            Some(mut old) if dice.percent(40) => match farewell(&mut old.line) {
                Ok(()) => open[at].push(old.number),
                Err(_) => facts.push(Fact::Farewell(old.number)),
            },
            Some(old) => facts.push(Fact::Due(old.number)),
        }
        clock::rest(dice.range(5, 60));
    }
    facts.extend(open.into_iter().flatten().map(Fact::Farewell));
    facts.extend(here.into_iter().flatten().map(|mortal| Fact::Due(mortal.number)));
    facts
}

/// How many there are.
pub fn count() -> usize {
    CLIENTS
}

fn come(
    scene: &Scene,
    (at, numbers): (usize, &Numbers),
    known: &mut Known,
    facts: &mut Vec<Fact>,
) -> Option<Mortal> {
    let (number, qos) = (numbers.next(), 1 + (at / 2 % 2) as u8);
    let (client, topic) = (format!("mortal-{at}"), format!("w/q{qos}/{at}"));
    let (version, durable) = (if at < 6 { V5 } else { V4 }, at.is_multiple_of(2));
    let payload = body::of(scene.seed, number, body::BYTES_MIN + at);
    let (retain, clear, asked_at) = (false, false, clock::now_us());
    let asked = Asked {
        number,
        client: client.clone(),
        topic: topic.clone(),
        qos,
        retain,
        clear,
        at: asked_at,
    };
    facts.push(Fact::Asked(asked));
    let will = Some((topic.as_str(), payload.as_slice(), qos));
    let connect = Connect { version, client: &client, durable, will };
    match Line::connect(scene.mqtt, &connect) {
        Ok((line, present)) => {
            if known.is_some_and(|known| known != present) {
                let text = format!("{client}: present is {present}");
                facts.push(Fact::Wrong("a session with a will is not as answered", text));
            }
            *known = Some(durable);
            Some(Mortal { line, number })
        }
        Err(error) => {
            // The session may have been made before the kill.
            *known = known.filter(|&known| known || !durable);
            let ends = scene.stopping.load(std::sync::atomic::Ordering::Relaxed);
            if error.kind() == io::ErrorKind::Other && scene.goes_on() && !ends {
                let text = format!("{client}: {error}");
                facts.push(Fact::Wrong("a client with a will was answered wrongly", text));
            }
            None
        }
    }
}

/// A farewell, and the end of the connection that says it was read.
fn farewell(line: &mut Line) -> io::Result<()> {
    line.say(&wire::DISCONNECT)?;
    match line.hear(Duration::from_secs(2)) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
        _ => Err(io::ErrorKind::ConnectionReset.into()),
    }
}

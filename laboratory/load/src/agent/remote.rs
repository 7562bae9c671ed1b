//! All agents together as one load generator: what the coordinator holds in its hands.
//!
//! Each agent has a connection with two threads: one hears, one pings twice a second, which keeps
//! the offset of its clock known and notices when it is gone. Orders go to all at once with a
//! moment at which to carry them out; looks are asked of all and awaited together, and an agent
//! that is slow to answer is represented by what it said last. Invariant: what an agent counted
//! is in the sum exactly once, whether it stays or is lost.

use super::line::Line;
use super::offset::Estimate;
use super::split::Split;
use super::words::Call;
use super::{LEAD, now};
use crate::stamp;
use lab::cause::Cause;
use lab::generator::{LoadGenerator, Look};
use lab::host::{self, HostRow, Need};
use lab::order::Order;
use lab::run::Agent;
use lab::series::{Column, Unit};
use std::time::{Duration, Instant};

/// Agents of one coordinator, at most.
pub const AGENTS_MAX: usize = 256;
/// Time that an order may take to be carried out.
const ORDER_WAIT: Duration = Duration::from_secs(30);
/// An agent that is there, but has not shown what it has seen for so long, is lost.
const STUCK: Duration = Duration::from_secs(45);
/// Time that a look waits for slow agents.
const LOOK_WAIT: Duration = Duration::from_millis(700);

/// All agents of a run.
pub struct Remote {
    lines: Vec<Line>,
    split: Split,
    number: u64,
    /// When the first order was given: a run's time counts from there.
    began: Option<Instant>,
    notes: Vec<String>,
}

impl Remote {
    /// Connects to all agents; if one cannot be reached or does not know the token, to none. The
    /// seed decides all that is random in their clients.
    pub fn connect(addrs: &[String], token: Option<&str>, seed: u64) -> Result<Remote, String> {
        if addrs.is_empty() || addrs.len() > AGENTS_MAX {
            return Err(format!("expected 1 to {AGENTS_MAX} agents"));
        }
        let mut lines: Vec<Line> = Vec::new();
        let mut loading = 0;
        for (at, addr) in addrs.iter().enumerate() {
            let seed = seed.wrapping_add((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut line = Line::connect(addr, token.unwrap_or_default(), seed)
                .map_err(|why| format!("agent at {addr}: {why}"))?;
            line.name = unlike(&line.name, &lines);
            if let Some(place) = &mut line.place {
                *place = loading;
                loading += 1;
            }
            lines.push(line);
        }
        if loading == 0 {
            return Err("all agents only observe: no agent generates load".to_owned());
        }
        let mut remote = Remote {
            lines,
            split: Split::among(loading),
            number: 0,
            began: None,
            notes: Vec::new(),
        };
        remote.introduce();
        Ok(remote)
    }

    /// Whether the agents' machines are fit for what is asked: each row with its agent's name.
    pub fn examine(&mut self, need: &Need) -> Vec<(String, HostRow)> {
        self.number += 1;
        let number = self.number;
        let loading = self.lines.iter().filter(|line| line.place.is_some()).count() as u64;
        let each = Need { connections: need.connections.div_ceil(loading), ..need.clone() };
        for line in &self.lines {
            // Who only observes stands on the server's machine.
            let server = Need { role: host::Role::Server, ..need.clone() };
            let need = if line.place.is_some() { each.clone() } else { server };
            line.shared.say(&Call::Examine { number, need });
        }
        let until = now() + ORDER_WAIT;
        let mut all = Vec::new();
        for line in &self.lines {
            let known = line.shared.wait(until, |known| known.examined >= number);
            all.extend(known.rows.iter().map(|row| (line.name.clone(), row.clone())));
        }
        all
    }

    /// Names of lost agents.
    pub fn lost(&self) -> Vec<&str> {
        let lost = self.lines.iter().filter(|line| line.shared.lock().lost.is_some());
        lost.map(|line| line.name.as_str()).collect()
    }

    /// Whether an agent watches the target's machine.
    pub fn observes(&self) -> bool {
        self.lines.iter().any(|line| line.place.is_none())
    }

    /// Prints how well the clocks are known.
    fn introduce(&mut self) {
        let clocks = self.lines.iter().map(|line| {
            let Estimate { ahead_us, error_us } = line.shared.estimate();
            format!("{} {ahead_us:+} us ± {error_us} us", line.name)
        });
        let clocks: Vec<String> = clocks.collect();
        self.notes.push(format!(
            "times between agents are corrected by their clocks' offsets: {}",
            clocks.join(", ")
        ));
    }

    /// Gives one agent its orders; what it says is awaited by the numbers that are returned.
    fn give(&mut self, line: usize, orders: Vec<Order>, due_us: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        for order in orders {
            self.number += 1;
            self.lines[line].shared.say(&Call::Order { number: self.number, due_us, order });
            numbers.push(self.number);
        }
        numbers
    }

    /// Notes what was found out about agents since the last time.
    fn news(&mut self) {
        for line in &mut self.lines {
            let known = line.shared.lock();
            if let Some((_, why)) = &known.lost
                && !line.told_lost
            {
                line.told_lost = true;
                let groups = known.look.groups.values();
                let open: u64 = groups.map(|counts| counts.causes.all_of(Cause::AgentLost)).sum();
                self.notes.push(format!(
                    "agent {} was lost ({why}) with {open} connections; its clients are no \
                     longer expected",
                    line.name
                ));
            }
            if known.offset.steps() > line.told_steps {
                line.told_steps = known.offset.steps();
                self.notes.push(format!(
                    "the clock of agent {} or of the coordinator was changed: latencies between \
                     agents around this moment are not right",
                    line.name
                ));
            }
        }
    }
}

impl LoadGenerator for Remote {
    fn order(&mut self, order: &Order) -> Result<(), String> {
        self.began.get_or_insert_with(now);
        // An error is half a way there and back: all have heard it by then.
        let errors = self.lines.iter().map(|line| line.shared.estimate().error_us);
        let lead_us = LEAD.as_micros() as u64 + 4 * errors.max().unwrap_or(0);
        let due_us = stamp::wall_us() + lead_us;
        let mut parts = self.split.deal(order);
        let mut given = Vec::new();
        for at in 0..self.lines.len() {
            let Some(place) = self.lines[at].place else { continue };
            if self.lines[at].shared.lock().lost.is_some() {
                continue;
            }
            let orders = std::mem::take(&mut parts[place as usize]);
            given.push((at, self.give(at, orders, due_us)));
        }
        if given.is_empty() {
            return Err("all agents are lost".to_owned());
        }
        let until = now() + ORDER_WAIT;
        let mut refused = Vec::new();
        for (at, numbers) in given {
            let line = &self.lines[at];
            for number in numbers {
                let mut known = line.shared.wait(until, |known| known.done.contains_key(&number));
                match known.done.remove(&number) {
                    Some(Ok(())) => {}
                    Some(Err(why)) => refused.push(format!("{}: {why}", line.name)),
                    // A lost agent is told of in the notes.
                    None if known.lost.is_some() => {}
                    None => refused.push(format!("{}: no answer to an order", line.name)),
                }
            }
        }
        if refused.is_empty() { Ok(()) } else { Err(refused.join("; ")) }
    }

    fn look(&mut self) -> Look {
        self.number += 1;
        let number = self.number;
        self.lines.iter().for_each(|line| line.shared.say(&Call::Look { number }));
        let until = now() + LOOK_WAIT;
        for line in &self.lines {
            let known = line.shared.wait(until, |known| known.seen >= number);
            let stuck = known.seen < number && now() > known.seen_at + STUCK;
            drop(known);
            if stuck {
                line.shared.lose(&format!("no progress for {} s", STUCK.as_secs()));
            }
        }
        self.news();
        let mut whole = Look { notes: std::mem::take(&mut self.notes), ..Look::default() };
        for line in &self.lines {
            line.add_to(&mut whole, &self.split, self.began);
        }
        highest(&mut whole);
        whole
    }
}

/// A name that no other agent has.
fn unlike(name: &str, others: &[Line]) -> String {
    let taken = |name: &str| others.iter().any(|other| other.name == name);
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| !taken(name)).expect("there are more numbers than agents")
}

/// The worst of all agents since the last look, as the tester's.
fn highest(look: &mut Look) {
    for (figure, unit) in [("busiest", Unit::Share), ("turn_us_max", Unit::Micros)] {
        let of = |agent: &Agent| look.reading.of(&format!("{}.{figure}", agent.name));
        if let Some(most) = look.agents.iter().filter_map(of).reduce(f64::max) {
            look.reading.set(Column::peak(figure, unit).of("tester"), most);
        }
    }
}

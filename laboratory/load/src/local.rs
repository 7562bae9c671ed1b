//! A load generator on this machine: groups of simulated clients as fleets of this process and,
//! where one process may not open enough descriptors, of further processes of the same program.
//!
//! [`recruit`](self::recruit) turns a group into a fleet's plan; [`child`](self::child) is a
//! further process. Orders are dealt out to the processes as they are to agents, so that all
//! numbers of clients are there once and rates sum up. The invariant: what a group counted survives
//! its fleet, so that sums hold from the beginning to after the end.

mod child;
mod here;
pub(crate) mod recruit;

pub use child::serve_stdio;

use crate::agent::split::Split;
use child::Child;
use here::Here;
use lab::generator::{LoadGenerator, Look};
use lab::order::Order;
use net::descriptors;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// Descriptors of a process that are not left to its clients.
const SPARE_DESCRIPTORS: u64 = 512;
/// Processes of a load generator, at most.
const PROCESSES_MAX: u64 = 256;
/// First arguments of a further process of this program.
const CHILD_WORDS: [&str; 2] = ["load", "crew"];

/// Simulated clients on this machine.
pub struct LocalGenerator {
    seed: u64,
    here: Here,
    children: Vec<Child>,
    split: Split,
    /// Orders that every process must have had before clients come.
    founded: Vec<Order>,
    /// Clients of each group, in all.
    wanted: BTreeMap<String, u32>,
    /// Clients that one process may have.
    fit: u64,
    /// The program of a further process, and what it is called with.
    command: Vec<OsString>,
}

impl LocalGenerator {
    /// A load generator without groups. `seed` seeds all that is random.
    pub fn new(seed: u64) -> LocalGenerator {
        let program = std::env::current_exe().map(OsString::from).unwrap_or_default();
        let words = CHILD_WORDS.map(OsString::from);
        LocalGenerator {
            seed,
            here: Here::new(seed, 1),
            children: Vec::new(),
            split: Split::among(1),
            founded: Vec::new(),
            wanted: BTreeMap::new(),
            fit: descriptors::raise().saturating_sub(SPARE_DESCRIPTORS).max(1),
            command: [program].into_iter().chain(words).collect(),
        }
    }

    /// Calls further processes with this command instead of this program's own, and gives each
    /// process so many clients at most.
    pub fn run_by(mut self, command: Vec<OsString>, clients_a_process: u32) -> LocalGenerator {
        self.command = command;
        self.fit = u64::from(clients_a_process).max(1);
        self
    }

    /// Makes sure that so many clients fit, in all groups together: begins as many processes as
    /// they need. To be said before the first clients come, by whoever knows how many will; else
    /// the first arrival decides.
    pub fn expect(&mut self, clients: u64) -> Result<(), String> {
        let processes = clients.div_ceil(self.fit).max(1);
        let there = self.children.len() as u64 + 1;
        if processes <= there {
            return Ok(());
        }
        if self.wanted.values().any(|clients| *clients > 0) {
            let most = there * self.fit;
            return Err(format!(
                "{clients} clients are more than the {most} that {there} processes may have \
                 ({} descriptors each); begin with as many clients as there will be, or raise the \
                 limit of descriptors (ulimit -n)",
                self.fit
            ));
        }
        if processes > PROCESSES_MAX {
            return Err(format!(
                "{clients} clients need {processes} processes of {} descriptors each; raise the \
                 limit of descriptors (ulimit -n)",
                self.fit
            ));
        }
        let all = processes as u32;
        self.here = Here::new(self.seed, all);
        self.children.clear();
        for place in 1..processes {
            let seed = base::prng::scramble(self.seed.wrapping_add(place));
            self.children.push(Child::start(&self.command, seed, all)?);
        }
        self.split = Split::among(all);
        let founded = self.founded.clone();
        founded.iter().try_for_each(|order| self.deal(order))
    }

    /// Gives each process its part of an order.
    fn deal(&mut self, order: &Order) -> Result<(), String> {
        let parts = self.split.deal(order);
        let mut told = Ok(());
        for (place, orders) in parts.into_iter().enumerate() {
            for order in orders {
                let done = match place {
                    0 => self.here.order(&order),
                    place => self.children[place - 1].order(&order),
                };
                told = told.and(done);
            }
        }
        told
    }
}

impl LoadGenerator for LocalGenerator {
    fn order(&mut self, order: &Order) -> Result<(), String> {
        if let Order::Arrive { group, clients, .. } = order {
            let others = self.wanted.iter().filter(|(name, _)| *name != group);
            let all = others.map(|(_, clients)| u64::from(*clients)).sum::<u64>();
            self.expect(all + u64::from(*clients))?;
        }
        self.deal(order)?;
        match order {
            Order::Found { .. } | Order::Traffic { .. } | Order::Flap { .. } => {
                self.founded.push(order.clone());
            }
            Order::Arrive { group, clients, .. } => {
                self.wanted.insert(group.clone(), *clients);
                if *clients > 0 {
                    self.founded.clear();
                }
            }
            Order::Cut { .. } | Order::Stop => {}
        }
        Ok(())
    }

    fn look(&mut self) -> Look {
        let mut look = self.here.look();
        for (place, child) in self.children.iter_mut().enumerate() {
            let seen = child.look();
            for (name, counts) in &seen.groups {
                look.groups.entry(name.clone()).or_default().add(counts);
            }
            here::worst_of(&mut look, &seen);
            let process = |what: &String| format!("process {}: {what}", place + 2);
            look.saturation.extend(seen.saturation.iter().map(process));
            look.notes.extend(seen.notes.iter().map(process));
        }
        look
    }
}

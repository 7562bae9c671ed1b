//! The parts of an agent in earnest: this machine's clock, its counters, and a load generator.
//!
//! This module does not know coordinators. A figure that cannot be read is reported once and absent
//! from then on.

use super::Hands;
use crate::run::parts::Eyes;
use crate::run::real::Observers;
use crate::stamp;
use lab::generator::LoadGenerator;
use lab::host::{Environment, HostRow, Need};
use lab::plan::Target;
use lab::series::Reading;
use std::sync::{Mutex, PoisonError};

/// This machine as an agent.
pub struct OwnMachine {
    eyes: Mutex<Observers>,
    generator: Option<fn(u64) -> Box<dyn LoadGenerator>>,
    target_pid: Option<u32>,
    /// Callback for reports to people; it never fails.
    tell: fn(&str),
}

impl OwnMachine {
    /// An agent whose clients are of this load generator, made from a seed, and that says what
    /// there is to say to `tell`.
    pub fn loading(generator: fn(u64) -> Box<dyn LoadGenerator>, tell: fn(&str)) -> OwnMachine {
        let (eyes, _) = Observers::of(&Target::default(), None, true);
        OwnMachine { eyes: Mutex::new(eyes), generator: Some(generator), target_pid: None, tell }
    }

    /// An agent that only watches the target's process, host and metrics; an error says what
    /// cannot be watched.
    pub fn observing(target: &Target, tell: fn(&str)) -> Result<OwnMachine, String> {
        let (eyes, wrong) = Observers::of(target, None, false);
        let target_pid = eyes.target_pid();
        match wrong.first() {
            Some(why) => Err(why.clone()),
            None => Ok(OwnMachine { eyes: Mutex::new(eyes), generator: None, target_pid, tell }),
        }
    }

    /// Whether it makes load.
    pub fn loads(&self) -> bool {
        self.generator.is_some()
    }
}

impl Hands for OwnMachine {
    fn environment(&self) -> Environment {
        observe::environment()
    }

    fn examine(&self, need: &Need) -> Vec<HostRow> {
        let pid = need.pid.or(self.target_pid);
        observe::doctor::examine(&Need { pid, ..need.clone() })
    }

    fn generator(&self, seed: u64) -> Option<Box<dyn LoadGenerator>> {
        self.generator.map(|generator| generator(seed))
    }

    fn figures(&self) -> Reading {
        let (reading, news) = self.eyes.lock().unwrap_or_else(PoisonError::into_inner).read();
        news.iter().for_each(|news| self.tell(news));
        reading
    }

    fn wall_us(&self) -> u64 {
        stamp::machine_us()
    }

    fn ahead(&self, ahead_us: i64) {
        stamp::set_ahead_us(ahead_us);
    }

    fn tell(&self, line: &str) {
        (self.tell)(line);
    }
}

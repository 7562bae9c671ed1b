//! Load: what applications and devices do to the server until it is gone.
//!
//! Each party has a thread of its own and brings home the facts it saw. A party that hears nothing
//! any more looks whether it is over; it never decides what that silence means.

pub mod crowd;
pub mod orders;
pub mod registers;

use crate::book::Tally;
use crate::book::fact::Fact;
use crate::plan::DeviceNumber;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// State that all parties of one life share.
pub struct Scene {
    /// The run's seed.
    pub seed: u64,
    /// The cycle, from 1.
    pub cycle: u32,
    /// Where devices come in.
    pub devices: SocketAddr,
    /// Where clients of MQTT come in.
    pub mqtt: SocketAddr,
    /// The API.
    pub api: SocketAddr,
    /// Orders may be keyed.
    pub keys: bool,
    /// Orders may have a collapse key.
    pub collapse: bool,
    /// Devices send Reports.
    pub reports: bool,
    /// Tags outlive the server.
    pub tags: bool,
    /// The server was asked to stop, and may still answer.
    pub stopping: AtomicBool,
    /// Whether the life is over.
    pub over: AtomicBool,
}

impl Scene {
    /// Whether to go on.
    pub fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    /// A row of dice for one party.
    pub fn dice(&self, party: u64) -> crate::dice::Dice {
        crate::dice::Dice::new(self.seed, u64::from(self.cycle) << 8 | party)
    }
}

/// Numbers of orders and Reports, never given twice in a run.
#[derive(Default)]
pub struct Numbers(AtomicU64);

impl Numbers {
    /// The next one, from 1.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Facts that a party saw.
#[derive(Default)]
pub struct Seen {
    /// Facts for the book.
    pub facts: Vec<Fact>,
    /// Reports that were said: number and device.
    pub said: Vec<(u64, DeviceNumber)>,
    /// Reports that the server took.
    pub taken: Vec<u64>,
    /// How often things happened that the book does not count.
    pub tally: Tally,
}

//! Load generators: threads of this process, or agents on other machines.
//!
//! The one who runs a plan gives [`Order`]s and looks once a second; it does not know where the
//! clients are.

use crate::order::Order;
use crate::run::{Agent, Counts};
use crate::series::Reading;
use std::collections::BTreeMap;

/// Load generator: simulated clients in groups, wherever they run.
pub trait LoadGenerator {
    /// Carries an order out, or says in words why not. It does not wait for its effect.
    fn order(&mut self, order: &Order) -> Result<(), String>;

    /// Reads the counts so far.
    fn look(&mut self) -> Look;
}

/// Snapshot of what a load generator has seen so far.
#[derive(Clone, PartialEq, Default, Debug, serde::Serialize, serde::Deserialize)]
pub struct Look {
    /// Counts of each group's clients, from the beginning on.
    pub groups: BTreeMap<String, Counts>,
    /// Figures of the machines that make the load, by full names (`tester.`, or the agent's name).
    pub reading: Reading,
    /// The machines.
    pub agents: Vec<Agent>,
    /// Notes for people since the last look, e.g. an agent was lost.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Why figures cannot be trusted since the last look; empty: they can.
    pub saturation: Vec<String>,
}

impl Look {
    /// Sum of all groups' counts.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.groups.values().for_each(|counts| total.add(counts));
        total
    }
}

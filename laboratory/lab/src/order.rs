//! Orders to a load generator of simulated clients, wherever it runs.
//!
//! A load generator has groups; the clients of a group are alike but for their number. The same
//! orders go to threads of this process and to agents on other machines. Rates and counts are for
//! the whole group: whoever spreads a group over agents divides them.

use crate::plan::{Arrival, Group, Traffic};
use serde::{Deserialize, Serialize};

/// An order to a load generator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Order {
    /// Make a group, without clients yet.
    Found {
        /// The group.
        group: Box<Group>,
        /// The most clients it is planned to have: they share source addresses from the first on,
        /// or those of an early stage would have no ports left in a later one.
        clients_max: u32,
    },
    /// Have so many clients of a group there in all: more are called up, in this manner; of too
    /// many the last ones say farewell.
    Arrive {
        /// The group's name.
        group: String,
        /// Clients, in all.
        clients: u32,
        /// How they come.
        arrival: Arrival,
    },
    /// Sets the traffic of a group, in place of its earlier traffic.
    Traffic {
        /// The group's name.
        group: String,
        /// The traffic; empty: only what keeps the connection alive.
        traffic: Vec<Traffic>,
    },
    /// Have so large a share of all online clients go through this at once.
    Cut {
        /// The group's name; `None`: all groups.
        group: Option<String>,
        /// 0 to 1.
        share: f64,
        /// Kind of the cut.
        how: Cut,
    },
    /// From now on so large a share of the online clients a second is cut and comes back at once;
    /// zero: no longer.
    Flap {
        /// The group's name; `None`: all groups.
        group: Option<String>,
        /// Share a second, 0 to 1.
        share_per_s: f64,
    },
    /// End: all connections are closed. They count as `run_over`.
    Stop,
}

/// Kind of a cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// The client says farewell and closes. It comes back if its group comes back.
    Farewell,
    /// The client closes without a farewell.
    Close,
    /// The client resets the connection.
    Reset,
    /// Half-open: it stays, answers nothing, sends nothing and never closes by itself.
    Freeze,
    /// The client stops reading, but goes on sending.
    StopReading,
    /// A frozen or deaf one goes on.
    Thaw,
}

/// Request of an onlooker.
#[derive(Clone, PartialEq, Debug)]
pub enum OnlookerRequest {
    /// Adds clients to a group.
    Add {
        /// The group's name; empty: the plan's first group.
        group: String,
        /// Clients.
        clients: u32,
    },
    /// Rates of all that a group sends, times this (0.01 to 100).
    Rate {
        /// The group's name; empty: all groups.
        group: String,
        /// Factor of the present rate.
        factor: f64,
    },
    /// So large a share of all links is cut at once; who comes back, comes back.
    Cut {
        /// 0 to 1.
        share: f64,
        /// Kind of the cut.
        how: Cut,
    },
    /// The stage's time stands still and nothing is sent, until this is wished again.
    Pause,
    /// The run ends: what was measured is judged and written.
    Quit {
        /// Without waiting for answers that are under way.
        now: bool,
    },
}

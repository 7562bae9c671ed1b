//! Works a plan off: gives a load generator its orders stage by stage, looks once a second, breaks
//! what the plan wants broken, and leaves a judged [`Run`](lab::run::Run).
//!
//! The runner does not know where the clients are (threads of this process, agents elsewhere), how
//! a report is drawn or who looks on. The invariant: every stage of the plan is in the run's stages
//! or among those it skipped, with the reason.

pub mod check;
pub mod file;
pub mod folder;
mod hand;
pub mod parts;
pub mod presence_api;
pub mod push;
pub mod real;
mod redact;
mod row;
mod runner;
pub mod scale;
pub mod watch;
pub mod whole;

pub use parts::{Before, Parts};
pub use redact::targets;
pub use runner::run;
pub use watch::{Nobody, RunTick, StagePart, Watch};

//! Agents: other machines that make a part of the load, or only watch the server's machine.
//!
//! ```text
//!  coordinator: Remote ── orders, looks, pings ──► agent: serve ── a Load generator of its own
//!                      ◄── done, seen, pongs ───
//! ```
//! [`serve`] is what an agent does all day, with what the roof gives it as [`Hands`]. [`Remote`] is
//! all agents together as one [`OneGroup`](lab::generator::LoadGenerator). Between them go lines of
//! JSON (`words`), after both have proved that they know the token (`proof`): it never travels, but
//! what follows is neither sealed nor secret, so agents belong into a network one trusts. Orders
//! are divided so that all agents together do what one load generator would have done (`split`);
//! clocks are compared all the time (`offset`).
//!
//! Invariants: an agent works for one coordinator at a time, and its clients end when that one
//! goes away; a lost agent keeps its last counts, and what it held open ends as `agent_lost`.

mod line;
mod offset;
mod own;
mod proof;
mod remote;
mod serve;
mod session;
pub(crate) mod split;
mod wire;
mod words;

pub use offset::{Estimate, Exchange, Offset};
pub use own::OwnMachine;
pub use remote::Remote;
pub use serve::{AgentListener, Hands, serve};
pub use split::Split;

use std::time::{Duration, Instant};

/// An agent (or a coordinator) that has said nothing for so long is lost.
pub const SILENCE: Duration = Duration::from_secs(10);
/// Time that a caller has to prove that it knows the token.
const PROOF_WAIT: Duration = Duration::from_secs(5);
/// Orders are carried out so long after they were sent, by all agents at the same moment.
const LEAD: Duration = Duration::from_millis(50);

#[expect(clippy::disallowed_methods, reason = "the laboratory measures time")]
fn now() -> Instant {
    Instant::now()
}

//! MQTT: Holdline beside the brokers that the registries give, in the same run, by the same swarm.
//!
//! Figures are the server's CPU a delivery and its memory a connection, so that a shared machine
//! does not decide; rounds of all brokers take turns. A broker that is not installed is left out
//! and the plan says so. Invariant: a shape whose deliveries do not all arrive has no figure.

mod kept;
mod memory;
mod pages;
mod quiet;
mod shapes;

pub use kept::{kept, retained};
pub use memory::{connect, memory};
pub use pages::pages;
pub use quiet::{empty, quiet};
pub use shapes::{latency, shapes};

use crate::scenario::Scale;
use crate::swarm::peers::Kind;
use serde_json::{Value, json};

/// Rounds of each broker: three, or as many as HOLDLINE_BENCH_ROUNDS says.
fn rounds(scale: Scale) -> u32 {
    let told = std::env::var("HOLDLINE_BENCH_ROUNDS").ok().and_then(|text| text.parse().ok());
    told.unwrap_or(if scale.quick { 1 } else { 3 })
}

/// The brokers that can be started here.
fn present() -> Vec<Kind> {
    Kind::ALL.into_iter().filter(|kind| kind.program().is_some()).collect()
}

/// Version that each broker reports.
fn versions() -> Value {
    Kind::ALL.iter().map(|kind| (kind.name().to_owned(), json!(kind.version()))).collect()
}

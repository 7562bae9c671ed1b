//! Protocol of coordinator and agent: a JSON object a line, `say` first.
//!
//! ```text
//!  coordinator                       agent
//!      ◄──────── hello (version, nonce)
//!  prove (nonce, proof) ──────────►            a proof of the token
//!      ◄──────── welcome (proof, who it is)    or sorry (why not), and the end
//!  ping, order, look, clock ... ──►
//!      ◄──────── pong, done, seen ...
//! ```
//! A version is one number: both must have the same. It knows no socket and no clock.

use super::proof::{Hex, Nonce};
use lab::generator::Look;
use lab::host::{Environment, HostRow, Need};
use lab::order::Order;
use serde::{Deserialize, Serialize};

/// The protocol's version.
pub(super) const VERSION: u32 = 1;

/// Message of a coordinator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub(super) enum Call {
    /// Proof that the coordinator knows the token.
    Prove { version: u32, nonce: Nonce, proof: Hex, seed: u64 },
    /// Question for the agent's clock.
    Ping { asked_us: u64 },
    /// Your clock is so far ahead of mine.
    Clock { ahead_us: i64 },
    /// Carry this out when my clock says so.
    Order { number: u64, due_us: u64, order: Order },
    /// Question for the agent's counts.
    Look { number: u64 },
    /// Are you fit for this?
    Examine { number: u64, need: Need },
    /// End your clients; I am done.
    Leave,
}

/// Message of an agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub(super) enum Reply {
    /// Prove that you know the token.
    Hello { version: u32, nonce: Nonce },
    /// Proof that the agent knows the token too, and is at work for this coordinator.
    Welcome { proof: Hex, name: String, environment: Environment, loads: bool },
    /// The agent refuses, or cannot go on; the connection ends.
    Sorry { why: String },
    /// Answer to a ping, by the agent's own clock.
    Pong { asked_us: u64, heard_us: u64, told_us: u64 },
    /// An order was carried out, or why not.
    Done { number: u64, error: Option<String> },
    /// Counts of the agent; timings are those since the last look.
    Seen { number: u64, look: Box<Look> },
    /// Answer to Examine.
    Fitness { number: u64, rows: Vec<HostRow> },
}

//! The server machine against a scripted broker.

mod acks;
mod aliases;
mod auth;
mod begin;
mod bytes;
mod deliver;
mod end;
pub(crate) mod harness;
mod malformed;
mod order;
mod pace;
mod size;
mod speed;

//! The broker's rules, one behaviour a test, through its public door only.

mod access;
mod commands;
mod crowds;
mod durable;
mod flow;
mod kills;
mod presence;
mod publish;
mod random;
mod refusals;
mod session;
mod shared;
mod speed;
mod statements;
mod stranger;
mod subscribe;
mod will;
mod world;

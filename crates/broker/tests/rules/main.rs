//! The broker's rules, one behaviour a test, through its public door only.

mod access;
mod bounds;
mod commands;
mod crowds;
mod durable;
mod fan_out;
mod flow;
mod harness;
mod kills;
mod limits;
mod pressure;
mod publish;
mod random;
mod reach;
mod refusals;
mod retained;
mod session;
mod shared;
mod slices;
mod speed;
mod statements;
mod steps;
mod stranger;
mod subscribe;
mod transitions;
mod will;

//! The laboratory's nouns: what passes between its engine, its observers, its judge and its report.
//!
//! A [`plan`] says what shall be done; the engine does it as [`order`]s to groups of clients; each
//! second becomes a row of a [`series`]; ends are counted by [`cause`], times kept as [`timing`]s;
//! what a host tells, and what is wrong with it, is a [`host`]'s; all of it together is a [`run`],
//! from which every report is made. It knows no socket, no clock, no file and no terminal.
//!
//! The invariant: whatever happened to a client is in exactly one count, and a run's size is
//! bounded however long it was.

pub mod cause;
pub mod codes;
pub mod compare;
pub mod generator;
pub mod host;
pub mod order;
pub mod plan;
pub mod run;
pub mod series;
pub mod timing;

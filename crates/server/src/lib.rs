//! The roof over the server: configuration, wiring, and nothing else.
//!
//! Here the crates meet: [`machines`] is the table of protocols, [`shard_logic`] joins machines and
//! services on one shard, [`access`] has what slow questions about access need, [`archive`] gives a
//! database what the logs have stored, [`bridge`] carries messages to other brokers,
//! [`switchboard`] is the API's way in. [`start`] builds it all from a [`config`], with the thread
//! that carries presence to its directory, and [`signals`] ends or reloads it; [`trace`] shows
//! operators what connections say; [`tools`] are for a server that is stopped. No rule of messaging
//! lives here.

pub mod access;
pub mod archive;
pub mod bridge;
pub mod clock;
pub mod config;
pub mod log;
pub mod machines;
pub mod shard_logic;
pub mod signals;
pub mod start;
pub mod switchboard;
pub mod takeover;
pub mod tools;
pub mod trace;

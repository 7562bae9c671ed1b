//! Foundations of tests: a link in memory, a clock that is set, vectors as data, the durable log's
//! law.
//!
//! [`pair`] joins two machines so that bytes are split and merged between them as the seed says;
//! [`vector`] reads golden vectors from their text files, [`corpus`] inputs that fuzzing has kept;
//! [`log`] is what every store must do that serves `model`'s port of the durable log;
//! [`crossing`] takes peer messages through their encoding;
//! [`transitions`] is the law of coming and going;
//! [`directory`] is that of every directory; [`echo`] is the smallest service, [`faulty`] a server
//! and [`files`] a file system that fail on purpose, [`redis`] and [`nats`] the real ones, started
//! and broken by tests. Generic over `model`: no protocol is known here.

pub mod corpus;
pub mod crossing;
pub mod directory;
pub mod echo;
pub mod faulty;
pub mod files;
pub mod log;
pub mod nats;
pub mod pair;
pub mod redis;
pub mod transitions;
pub mod vector;

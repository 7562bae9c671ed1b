//! What tests of machines stand on: a link in memory, a told clock, vectors as data.
//!
//! [`pair`] joins two machines so that bytes are split and merged between them as the seed says;
//! [`vector`] reads golden vectors from their text files. Generic over `model`'s machine: no
//! protocol is known here.

pub mod pair;
pub mod vector;

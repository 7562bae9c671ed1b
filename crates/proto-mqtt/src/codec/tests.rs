//! The codec against its vectors, against every cut and every bent byte of them, and against its
//! own tables.

pub(crate) mod bend;
pub(crate) mod describe;
mod fanout;
mod fuzz;
mod rules;
pub(crate) mod speed;
mod statements;
mod tables;
pub(crate) mod vectors;

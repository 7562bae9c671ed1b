//! The codec against its vectors, against every cut and every bent byte of them, and against its
//! own tables.

mod bend;
mod describe;
mod fanout;
mod fuzz;
mod rules;
mod speed;
mod statements;
mod tables;
mod vectors;

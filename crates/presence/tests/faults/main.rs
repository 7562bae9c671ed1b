//! Every fault that a directory is known for, on purpose, in simulated time.
//!
//! Each test breaks one thing and then looks at three: memory and directory agree again within a
//! bounded time, nobody was disconnected because of it, and what waited was bounded.

mod harness;
mod many;
mod one;
mod random;

//! Measurements: memory as a slope, CPU by the scheduler's accounting.
//!
//! All figures are read from `/proc`, by parsers that take text, so that they are tested without a
//! process. Nothing here knows Holdline: a pid is all it is given.

pub mod cpu;
pub mod machine;
pub mod memory;
pub mod slab;
pub mod slope;

//! XML as bytes, and nothing of what it says: [`framer`] finds the pieces of a stream, [`scan`]
//! reads a whole one, [`text`] has characters in and out.

pub mod framer;
pub mod scan;
pub mod text;

//! XML as bytes, and nothing of what it says: [`framer`] finds the pieces of a stream, [`scan`]
//! reads a whole one, [`text`] has characters in and out, [`counted`] counts what comes and goes.

pub(crate) mod counted;
pub mod framer;
pub mod scan;
pub mod text;

//! Kinds of messages besides a text: an amendment of another one ([`amend`]), or a transient
//! ([`transient`]); and references to others ([`others`]).

pub mod amend;
pub mod others;
pub mod transient;

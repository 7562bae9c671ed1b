//! What a message can be besides a text: about another one ([`amend`]), or kept nowhere
//! ([`transient`]); and what it says of others beside it ([`others`]).

pub mod amend;
pub mod others;
pub mod transient;

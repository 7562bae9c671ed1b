//! Presence as the outside has it: [`directory`] is a copy of it there, [`queries`] what is asked
//! about both.

pub mod directory;
pub mod queries;

//! Databases outside: [`accounts`] is one that the book of users is kept in, [`archive`] one that
//! messages go to.

pub mod accounts;
pub mod archive;

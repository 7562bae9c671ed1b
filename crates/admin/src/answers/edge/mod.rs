//! What stands between the server and others: bans, bridges, certificates. Each file is a noun, and
//! knows no other.

pub(crate) mod bans;
pub(crate) mod bridges;
pub(crate) mod certificates;

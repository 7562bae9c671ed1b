//! What the brokers of a process say to each other.

/// One word from one shard's broker to another's.
pub enum Letter {}

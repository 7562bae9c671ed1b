//! The engines of others, and the bare disk.
//!
//! Each keeps its defaults but for the cache, which all get alike, and makes a batch durable by
//! one commit that ends with fdatasync.

pub mod bare;
pub mod fjall;
pub mod redb;
pub mod sqlite;

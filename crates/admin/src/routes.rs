//! The handlers, one file a noun: each reads an order, asks the shards, tells the answer.
//!
//! A handler holds no state between requests and knows no other handler.

pub(crate) mod devices;
pub(crate) mod operations;
pub(crate) mod products;
pub(crate) mod pushes;
pub(crate) mod stream;

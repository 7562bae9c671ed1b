//! Which subscriptions a topic name matches: millions of filters, most of them unique.
//!
//! [`table::FilterTable`] finds filters without wildcards by one look into a hash table, and the
//! others in a trie whose nodes live in the same table. [`pattern::Patterns`] keeps filters that
//! differ only in the subscriber's own name, as `dev/%c/in`, once for all of them. What a
//! subscription is, is not known here: a number of 63 bits of the caller's own.
//!
//! Sketch, for a unique filter with one subscription: a record of 24 bytes, 6 to 11 bytes in the
//! index, the text in slots of eight. Levels are not interned: a level that only one filter has
//! stands in that filter's text, and nodes are made where two filters share a level.
//!
//! The rules of matching are those of [`crate::codec::name::matches`] (MQTT5 4.7), which is what
//! the tests hold it against.

pub mod pattern;
mod record;
pub mod table;
mod texts;

#[cfg(test)]
mod tests;

//! The table against a matcher that looks at every filter, the summary against the tables.

pub(crate) mod measure;
pub(crate) mod random;
mod routing;
mod table;

//! The table against a matcher that looks at every filter, the summary against the tables.

pub(crate) mod measure;
mod routing;
mod table;

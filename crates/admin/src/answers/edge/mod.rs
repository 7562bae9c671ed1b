//! Parts between the server and others: bans, bridges, certificates, the cluster. Each file is a
//! noun, and knows no other.

pub(crate) mod bans;
pub(crate) mod bridges;
pub(crate) mod certificates;
pub(crate) mod cluster;
pub(crate) mod platforms;

//! Access to the API: tokens, bans, the audit log. A handler knows no other file.

pub(crate) mod audit_log;
pub(crate) mod bans;
pub(crate) mod tokens;

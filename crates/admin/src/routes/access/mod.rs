//! Who may call the API, who is banned, and who did what: tokens, bans, the audit log. A handler
//! knows no other file.

pub(crate) mod audit_log;
pub(crate) mod bans;
pub(crate) mod tokens;

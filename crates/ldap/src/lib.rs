//! Logins checked by an LDAP server: OpenLDAP, Active Directory and others (RFC 4511).
//!
//! [`Ldap`] finds the entry of a user, binds as that entry with the user's password, and checks
//! whether the entry is in the required group. A call blocks, ends within its time whatever the
//! server does, and uses connections that earlier calls left. Responses are decoded by
//! `ldap-parser`; the three requests that are needed are encoded here, and so are filters, whose
//! placeholders become values after the filter was parsed: no name can change the structure of a
//! filter. Referrals and references are not followed. The crate does not know the rights of users.
//!
//! Invariants: an empty password is never sent, because a server answers it with success (RFC 4513
//! 5.1.2); neither is a password for an empty name; a response that is not understood lets no user
//! in; after any fault the connection is dropped.

mod address;
mod ber;
mod clock;
mod connection;
mod fault;
mod filter;
mod lookup;
mod message;
mod pause;
mod settings;
mod template;

pub use address::check_url;
pub use fault::{LdapFault, LdapFaultKind};
pub use lookup::Ldap;
pub use settings::{LdapSettings, check_filter, check_user_dn};

#[cfg(test)]
mod scripted;
#[cfg(test)]
mod tests;

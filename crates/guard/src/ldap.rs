//! Logins that an LDAP server checks: what its answers mean for access.
//!
//! The protocol is `ldap`'s part; here is the noun that the two share by way of the roof.

/// The answer about a name and a password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LdapVerdict {
    /// The password is right.
    Right {
        /// The user's name, as the server has it.
        name: Box<str>,
        /// The user may do everything.
        is_super: bool,
    },
    /// The password is wrong.
    Wrong,
    /// The password is right, and the user is not in the group that may log in.
    NotMember,
    /// The server has no entry for the name.
    Unknown,
}

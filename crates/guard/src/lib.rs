//! Who may do what: users, passwords, tokens, certificates and rules of access.

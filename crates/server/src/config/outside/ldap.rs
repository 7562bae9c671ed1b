//! `[access.ldap]`: an LDAP server that checks passwords.
//!
//! `ldap` defines the meaning of addresses and filters. The password is never shown.

use super::super::sections::is_short_secret;
use base::section;
use base::setting::{Hidden, list, text, whole};
use std::path::PathBuf;

section! {
    /// `[access.ldap]`: an LDAP server or Active Directory that checks names and passwords.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct LdapSection {
        /// Addresses of servers with the same content: ldap://HOST[:389] or ldaps://HOST[:636]. The
        /// next one is tried when one does not answer. []: LDAP is not used.
        @live urls: Vec<String> = Vec::new(), list(
            8,
            "of ldap://HOST[:PORT] or ldaps://HOST[:PORT]",
            |text| ldap::check_url(text).is_ok(),
        );
        /// Encrypt connections of ldap:// by StartTLS. A server that refuses it is not used.
        @live start_tls: bool = false;
        /// PEM file of the authorities that a server's certificate is verified against, with
        /// ldaps:// and start_tls; "" is the system's, from /etc/ssl/certs/ca-certificates.crt. A
        /// reload reads it again.
        @live ca: Option<PathBuf> = None;
        /// DN (or another name that the server accepts) that searches are made as; "": as nobody
        /// (anonymous), or as the user with user_dn.
        @live bind_dn: String = String::new(), TEXT;
        /// Its password. Never printed; better kept in password_file or the environment.
        @live password: Hidden = Hidden::default(),
            text("at most 1024 bytes", is_short_secret), secret;
        /// File whose first line is the password; "" is none. A reload reads it again.
        @live password_file: Option<PathBuf> = None;
        /// Where searches for users begin. "" is allowed with a user_dn that is a DN: then the
        /// search is of that entry alone.
        @live base: String = String::new(), TEXT;
        /// Search filter of a user's entry (RFC 4515); %u is the name that the client gives, which
        /// is escaped. A name that matches no entry is passed on to the next method.
        @live filter: String = "(uid=%u)".into(),
            FILTER;
        /// Attribute of the entry that is the user's name here, in lower case. It must be in the
        /// entry.
        @live name_attribute: String = "uid".into(), text("the name of an attribute", |text| {
            (1..=128).contains(&text.len())
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.;".contains(&b))
        });
        /// Name that users bind with, without a search before: a DN such as
        /// uid=%u,ou=people,dc=corp, or %u@corp.example for Active Directory. The search is then
        /// made as the user. "": users bind with the DN that the search as bind_dn has found.
        @live user_dn: String = String::new(), TEXT;
        /// Filter that must match an entry for a user to log in, such as
        /// (&(cn=mqtt)(member=%d)); %d is the DN of the user's entry, %u the name. "": every user
        /// may.
        @live group_filter: String = String::new(), FILTER;
        /// Filter that matches an entry for users who may do everything, in the same form. "":
        /// nobody by LDAP.
        @live superuser_filter: String = String::new(), FILTER;
        /// Where searches of group_filter and superuser_filter begin; "" is base.
        @live group_base: String = String::new(), TEXT;
        /// Time for all that a login asks the server. After it, the client is refused: server
        /// unavailable.
        @live timeout_ms: u32 = 5_000, whole(10..=60_000, "milliseconds");
        /// How long a right password is cached; 0: not at all.
        @live cache_s: u32 = 0, whole(0..=86_400, "seconds");
    }
}

impl LdapSection {
    /// Whether LDAP is used.
    pub fn is_on(&self) -> bool {
        !self.urls.is_empty()
    }

    /// Whether some address has TLS from the first byte.
    pub fn has_ldaps(&self) -> bool {
        self.urls.iter().any(|url| url.starts_with("ldaps://"))
    }
}

const TEXT: base::setting::Kind = text("a text of at most 1024 bytes", is_text);

/// Its parts are checked with the other keys, for words that name the place.
const FILTER: base::setting::Kind =
    text("a filter of at most 4096 bytes", |text| text.len() <= 4_096 && !text.contains('\0'));

fn is_text(text: &str) -> bool {
    text.len() <= 1_024 && !text.contains('\0')
}

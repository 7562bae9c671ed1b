//! `[domain.NAME]`: domains of accounts in addition to that of `[chat]`.
//!
//! This module does not check whether a certificate exists; `rules.rs` ensures that no two domains
//! are the same. Invariant: a domain served here is stored in its normalized form, however it was
//! written.

use super::Config;
use base::section;
use base::setting::text;
use model::account::{canonical_domain, is_domain};
use std::path::PathBuf;

section! {
    /// `[domain.NAME]`: another domain with its own accounts.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct DomainSection {
        /// Its name in the configuration.
        @aside name: String;
        /// The domain, such as "b.example". Its accounts are users called name@domain, and its
        /// rooms are at conference.DOMAIN and live.DOMAIN. It is part of the stored data.
        domain: String, text("a host in lower case", is_domain);
        /// PEM file of the domain's certificate, presented to clients that ask for one of its names
        /// (SNI) at listeners without a certificate of their own, and to servers that are called in
        /// its name; "" is that of [tls].
        certificate: Option<PathBuf> = None;
        /// PEM file of its private key.
        key: Option<PathBuf> = None;
    }
}

/// Normalizes all domains served here, to the form in which addresses are compared.
pub(super) fn settle(config: &mut Config) {
    let others = config.domains.iter_mut().map(|it| &mut it.domain);
    let components = config.components.iter_mut().map(|it| &mut it.domain);
    for domain in std::iter::once(&mut config.chat.domain).chain(others).chain(components) {
        if let Some(settled) = canonical_domain(domain).map(|it| it.into_owned()) {
            *domain = settled;
        }
    }
}

impl DomainSection {
    /// A domain section of this name with the defaults; an error says why the name is invalid.
    pub fn named(name: &str) -> Result<DomainSection, String> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
        if name.is_empty() || name.len() > 32 || !name.bytes().all(allowed) {
            return Err("a domain's name here must be 1 to 32 letters, digits, - and _".into());
        }
        Ok(DomainSection { name: name.into(), ..DomainSection::default() })
    }

    /// Its certificate and key, if it has its own.
    pub fn certificate(&self) -> Option<(PathBuf, PathBuf)> {
        self.certificate.clone().zip(self.key.clone())
    }
}

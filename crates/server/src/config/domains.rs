//! `[domain.NAME]`: domains of accounts beside that of `[chat]`.
//!
//! It does not look whether a certificate exists. That no two are one is a rule of `rules.rs`.
//! Invariant: a domain that is served here is in its own letters, however it was written.

use super::Config;
use base::section;
use base::setting::text;
use model::account::{canonical_domain, is_domain};
use std::path::PathBuf;

section! {
    /// `[domain.NAME]`: another domain, whose accounts are others than those of the first.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct DomainSection {
        /// Its name in the configuration.
        @aside name: String;
        /// The domain, such as "b.example". Its accounts are users called name@domain, and its
        /// rooms are at conference. and live. before it. It is part of what is stored.
        domain: String, text("a host in lower case", is_domain);
        /// PEM file of its certificate, which is shown to whoever asks for one of its names (SNI),
        /// at listeners without a certificate of their own, and to servers that are called in its
        /// name; "" is that of [tls].
        certificate: Option<PathBuf> = None;
        /// PEM file of its private key.
        key: Option<PathBuf> = None;
    }
}

/// Has all domains that are served here in the form in which addresses are compared.
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
    /// One of this name with the defaults, unless the name may not be one; then why.
    pub fn named(name: &str) -> Result<DomainSection, String> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
        if name.is_empty() || name.len() > 32 || !name.bytes().all(allowed) {
            return Err("a domain's name here must be 1 to 32 letters, digits, - and _".into());
        }
        Ok(DomainSection { name: name.into(), ..DomainSection::default() })
    }

    /// Its certificate and key, if it has some of its own.
    pub fn certificate(&self) -> Option<(PathBuf, PathBuf)> {
        self.certificate.clone().zip(self.key.clone())
    }
}

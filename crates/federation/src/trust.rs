//! Trust of this server when it calls another: TLS around streams between servers.

use crate::settings::FederationSection;
use client::{CertificateCheck, Trust, TrustedConfig};
use model::chat::foreign::ForeignDomains;
use model::link::Protocol;
use net::layer::ClientLayers;
use std::path::PathBuf;

/// Trusted authorities and own certificate of each domain.
pub(crate) struct PeerTrust(Vec<(Box<str>, OwnTrust)>);

/// TLS from the first byte on (XEP-0368), and TLS that begins within a stream.
struct OwnTrust {
    direct: TrustedConfig,
    within: TrustedConfig,
}

impl PeerTrust {
    /// Reads the files. An error says what to change.
    pub fn new(
        section: &FederationSection,
        domains: &ForeignDomains,
        certificates: &[(Box<str>, PathBuf, PathBuf)],
    ) -> Result<PeerTrust, String> {
        let of_domain = |own: &str| {
            let shown = certificates.iter().find(|(of, ..)| **of == *own);
            let (cert_file, key_file) =
                shown.map(|(_, certificate, key)| (certificate.clone(), key.clone())).unzip();
            Ok((own.into(), OwnTrust::new(section, (cert_file, key_file))?))
        };
        Ok(PeerTrust(domains.all_own().map(of_domain).collect::<Result<_, String>>()?))
    }

    /// TLS layers for a stream from one of our domains to another domain; `None`: the other
    /// domain's name cannot stand in a certificate.
    pub fn layers(&self, (own, peer): (&str, &str), is_direct: bool) -> Option<ClientLayers> {
        let (_, trust) = self.0.iter().find(|(of, _)| **of == *own)?;
        let config = if is_direct { &trust.direct } else { &trust.within };
        let tls = config.towards(peer).ok()?;
        let protocol = Protocol::Xmpp;
        Some(ClientLayers { tls: Some(tls), start_tls: !is_direct, web_socket: None, protocol })
    }
}

impl OwnTrust {
    fn new(
        section: &FederationSection,
        (cert_file, key_file): (Option<PathBuf>, Option<PathBuf>),
    ) -> Result<OwnTrust, String> {
        let check = match section.require_certificates {
            true => CertificateCheck::All,
            // Who somebody is shows by dialback; against whoever only listens any will do.
            false => CertificateCheck::Nothing,
        };
        let trust = |alpn: &[&str]| Trust {
            ca_file: section.ca.clone(),
            cert_file: cert_file.clone(),
            key_file: key_file.clone(),
            check,
            alpn: alpn.iter().map(|name| (*name).to_owned()).collect(),
            ..Trust::default()
        };
        let config = |alpn: &[&str]| {
            TrustedConfig::of(&trust(alpn)).map_err(|error| format!("federation: {}", error.text))
        };
        Ok(OwnTrust { direct: config(&["xmpp-server"])?, within: config(&[])? })
    }
}

//! Whom this server believes when it calls another: TLS around streams between servers.

use crate::settings::FederationSection;
use client::{CertificateCheck, Trust, TrustedConfig};
use model::link::Protocol;
use net::layer::ClientLayers;
use std::path::PathBuf;

/// TLS from the first byte on (XEP-0368), and TLS that begins within a stream.
pub(crate) struct PeerTrust {
    direct: TrustedConfig,
    within: TrustedConfig,
}

impl PeerTrust {
    /// Reads the files. An error says what to change.
    pub fn new(
        section: &FederationSection,
        certificate: Option<(PathBuf, PathBuf)>,
    ) -> Result<PeerTrust, String> {
        let (cert_file, key_file) = certificate.unzip();
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
        Ok(PeerTrust { direct: config(&["xmpp-server"])?, within: config(&[])? })
    }

    /// What goes around a stream to a domain; none: it has no name that a certificate can carry.
    pub fn layers(&self, domain: &str, is_direct: bool) -> Option<ClientLayers> {
        let config = if is_direct { &self.direct } else { &self.within };
        let tls = config.towards(domain).ok()?;
        let protocol = Protocol::Xmpp;
        Some(ClientLayers { tls: Some(tls), start_tls: !is_direct, web_socket: None, protocol })
    }
}

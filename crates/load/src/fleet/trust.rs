//! Whom a calling fleet trusts: an authority's certificates, or anybody.
//!
//! A load tester measures; it is often pointed at a test server with a certificate of its own
//! making. Anybody is therefore allowed, as wrk allows it, but only by that name: a wrong signature
//! is not believed, so that the handshake's cost stays the real one.

use client::{CertificateCheck, Trust};
use net::layer::tls::ClientTls;
use rustls::pki_types::ServerName;
use std::path::Path;
use std::sync::Arc;

/// TLS towards `name` (a host name or an address), trusting the authorities in the PEM file
/// `authority`.
pub fn authority(name: &str, authority: &Path) -> Result<Arc<ClientTls>, String> {
    tls(name, &Trust { ca_file: Some(authority.to_owned()), ..Trust::default() })
}

/// TLS towards `name`, whatever certificate it shows.
pub fn anybody(name: &str) -> Result<Arc<ClientTls>, String> {
    tls(name, &Trust { check: CertificateCheck::Nothing, ..Trust::default() })
}

fn tls(name: &str, trust: &Trust) -> Result<Arc<ClientTls>, String> {
    let config = trust.config().map_err(|fault| fault.text)?;
    let name = ServerName::try_from(name.to_owned())
        .map_err(|_| format!("{name}: no name that a certificate can carry"))?;
    Ok(Arc::new(ClientTls { config, name }))
}

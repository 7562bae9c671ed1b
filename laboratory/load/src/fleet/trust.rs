//! Trust of a calling fleet: an authority's certificates, or anybody.
//!
//! A load tester measures; it is often pointed at a test server with a certificate of its own
//! making. Anybody is therefore allowed, as wrk allows it, but a wrong signature is not believed,
//! so that the handshake's cost stays the real one.

use client::{CertificateCheck, Trust};
use net::layer::tls::ClientTls;
use std::path::Path;
use std::sync::Arc;

/// TLS towards `name` (a host name or an address), trusting the authorities in this PEM file;
/// `None`: whatever certificate is shown.
pub fn towards(name: &str, authority: Option<&Path>) -> Result<Arc<ClientTls>, String> {
    let check = match authority {
        Some(_) => CertificateCheck::All,
        None => CertificateCheck::Nothing,
    };
    let ca_file = authority.map(Path::to_path_buf);
    let tls = Trust { ca_file, check, ..Trust::default() }.towards(name);
    tls.map_err(|fault| fault.text)
}

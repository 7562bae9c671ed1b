//! Whom a calling fleet trusts: an authority's certificates, or anybody.
//!
//! A load tester measures; it is often pointed at a test server with a certificate of its own
//! making. Anybody is therefore allowed, as wrk allows it, but only by that name.

use net::layer::tls::ClientTls;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::path::Path;
use std::sync::Arc;

/// TLS towards `name` (a host name or an address), trusting the authorities in the PEM file
/// `authority`.
pub fn authority(name: &str, authority: &Path) -> Result<Arc<ClientTls>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", authority.display());
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(authority).map_err(|error| wrong(&error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() {
        return Err(wrong(&"no certificate in PEM is in it"));
    }
    let config = builder()?.with_root_certificates(roots).with_no_client_auth();
    tls(name, config)
}

/// TLS towards `name`, whatever certificate it shows.
pub fn anybody(name: &str) -> Result<Arc<ClientTls>, String> {
    let verifier = Arc::new(Anybody(ring::default_provider()));
    let config = builder()?.dangerous().with_custom_certificate_verifier(verifier);
    tls(name, config.with_no_client_auth())
}

fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, String> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))
}

fn tls(name: &str, config: ClientConfig) -> Result<Arc<ClientTls>, String> {
    let name = ServerName::try_from(name.to_owned())
        .map_err(|_| format!("{name}: no name that a certificate can carry"))?;
    Ok(Arc::new(ClientTls { config: Arc::new(config), name }))
}

/// Believes any certificate, but not a wrong signature: the handshake's cost stays the real one.
#[derive(Debug)]
struct Anybody(CryptoProvider);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

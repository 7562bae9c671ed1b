//! Whom a session believes, and what it shows of itself: certificates for TLS.

use crate::fault::{Fault, What};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is looked at in the broker's certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Check {
    /// Who vouches for it, and its name.
    #[default]
    All,
    /// Who vouches for it.
    NotTheName,
    /// Nothing but that its owner is there.
    Nothing,
}

/// Whom a session believes.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// PEM file with the authorities; without file and folder, those of the system.
    pub ca_file: Option<PathBuf>,
    /// Folder of such files.
    pub ca_folder: Option<PathBuf>,
    /// Our own certificate with its chain, PEM.
    pub cert_file: Option<PathBuf>,
    /// Its key, PEM.
    pub key_file: Option<PathBuf>,
    /// What is looked at.
    pub check: Check,
    /// Protocols that are offered by ALPN.
    pub alpn: Vec<String>,
    /// TLS 1.3 alone, or 1.2 alone; `None`: the best both know.
    pub version: Option<&'static rustls::SupportedProtocolVersion>,
}

/// Where systems keep the authorities they believe.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

impl Trust {
    /// The versions by their usual names.
    pub fn version_of(name: &str) -> Option<&'static rustls::SupportedProtocolVersion> {
        match name {
            "tlsv1.3" | "1.3" => Some(&rustls::version::TLS13),
            "tlsv1.2" | "1.2" => Some(&rustls::version::TLS12),
            _ => None,
        }
    }

    /// Reads the files.
    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, Fault> {
        let provider = Arc::new(ring::default_provider());
        let versions = match &self.version {
            Some(version) => std::slice::from_ref(version),
            None => rustls::DEFAULT_VERSIONS,
        };
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|error| Fault::new(What::Settings, format!("TLS cannot be used: {error}")))?;
        let config = match self.check {
            Check::All => config.with_root_certificates(self.roots()?),
            check => {
                let inner = match check {
                    Check::Nothing => None,
                    _ => Some(
                        WebPkiServerVerifier::builder_with_provider(
                            Arc::new(self.roots()?),
                            provider.clone(),
                        )
                        .build()
                        .map_err(|error| Fault::new(What::Settings, error.to_string()))?,
                    ),
                };
                let verifier = Lenient { inner, provider };
                config.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
        };
        let mut config = match (&self.cert_file, &self.key_file) {
            (Some(cert), key) => {
                let key = key.as_ref().unwrap_or(cert);
                let own = config.with_client_auth_cert(certificates(cert)?, private_key(key)?);
                own.map_err(|error| wrong(cert, &error))?
            }
            _ => config.with_no_client_auth(),
        };
        config.alpn_protocols = self.alpn.iter().map(|name| name.clone().into_bytes()).collect();
        Ok(Arc::new(config))
    }

    fn roots(&self) -> Result<RootCertStore, Fault> {
        let mut roots = RootCertStore::empty();
        let mut files: Vec<PathBuf> = self.ca_file.iter().cloned().collect();
        if let Some(folder) = &self.ca_folder {
            let entries = std::fs::read_dir(folder).map_err(|error| wrong(folder, &error))?;
            files.extend(entries.flatten().map(|entry| entry.path()).filter(|p| p.is_file()));
        }
        let is_ours = !files.is_empty();
        if !is_ours {
            files.extend(SYSTEM.iter().map(PathBuf::from).find(|path| path.exists()));
        }
        for file in &files {
            for certificate in certificates(file)? {
                // A bundle of a system may hold one that is too old to be understood.
                let added = roots.add(certificate);
                added.or_else(|error| if is_ours { Err(wrong(file, &error)) } else { Ok(()) })?;
            }
        }
        if roots.is_empty() {
            let text = "there is no authority to believe: name its certificate (--cafile FILE)";
            return Err(Fault::new(What::Settings, text));
        }
        Ok(roots)
    }
}

fn wrong(path: &Path, error: &dyn std::fmt::Display) -> Fault {
    Fault::new(What::Settings, format!("{}: {error}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let all = CertificateDer::pem_file_iter(path).map_err(|error| wrong(path, &error))?;
    let all: Result<Vec<_>, _> = all.collect();
    let all = all.map_err(|error| wrong(path, &error))?;
    if all.is_empty() {
        return Err(wrong(path, &"no certificate in PEM is in it"));
    }
    Ok(all)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Fault> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| wrong(path, &error))
}

/// Believes names that do not fit, or anybody; never a wrong signature.
#[derive(Debug)]
struct Lenient {
    inner: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        match inner.verify_server_cert(end, between, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

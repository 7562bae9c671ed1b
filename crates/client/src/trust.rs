//! Trust of a session, and its own identity: certificates for TLS.

use crate::fault::{ConnectError, ConnectErrorKind};
use net::layer::tls::ClientTls;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Check of the broker's certificate: what is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CertificateCheck {
    /// Its issuer, and its name.
    #[default]
    All,
    /// Its issuer only.
    NotTheName,
    /// Nothing but that the broker has the certificate's key.
    Nothing,
}

/// Trust of a session.
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
    /// Check of the broker's certificate.
    pub check: CertificateCheck,
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

    /// Reads the files. The fault says which of them is wrong, and how.
    pub fn config(&self) -> Result<Arc<ClientConfig>, ConnectError> {
        let provider = Arc::new(ring::default_provider());
        let versions = match &self.version {
            Some(version) => std::slice::from_ref(version),
            None => rustls::DEFAULT_VERSIONS,
        };
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|error| {
                ConnectError::new(
                    ConnectErrorKind::Settings,
                    format!("TLS cannot be used: {error}"),
                )
            })?;
        let verifier = self.verifier(provider)?;
        let config = config.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
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

    /// TLS towards `name`, a host name or an address. Reads the files.
    pub fn towards(&self, name: &str) -> Result<Arc<ClientTls>, ConnectError> {
        Ok(Arc::new(ClientTls::new(self.config()?, named(name)?)))
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Believer, ConnectError> {
        let names = self.check == CertificateCheck::All;
        if self.check == CertificateCheck::Nothing {
            return Ok(Believer { inner: None, own: Vec::new(), names, provider });
        }
        let (roots, own) = self.roots()?;
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|error| ConnectError::new(ConnectErrorKind::Settings, error.to_string()))?;
        Ok(Believer { inner: Some(inner), own, names, provider })
    }

    /// The authorities that are believed, and those of them that were named and not the system's.
    fn roots(&self) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), ConnectError> {
        let (mut roots, mut own) = (RootCertStore::empty(), Vec::new());
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
                own.extend(is_ours.then(|| certificate.clone()));
                // A bundle of a system may hold one that is too old to be understood.
                let added = roots.add(certificate);
                added.or_else(|error| if is_ours { Err(wrong(file, &error)) } else { Ok(()) })?;
            }
        }
        if roots.is_empty() {
            let text = "no CA certificates to trust: give them with --cafile FILE";
            return Err(ConnectError::new(ConnectErrorKind::Settings, text));
        }
        Ok((roots, own))
    }
}

/// Files that were read, for whoever calls many by name.
#[derive(Clone)]
pub struct TrustedConfig(Arc<ClientConfig>);

impl TrustedConfig {
    /// Reads the files.
    pub fn of(trust: &Trust) -> Result<TrustedConfig, ConnectError> {
        trust.config().map(TrustedConfig)
    }

    /// TLS towards `name`, a host name or an address.
    pub fn towards(&self, name: &str) -> Result<Arc<ClientTls>, ConnectError> {
        Ok(Arc::new(ClientTls::new(self.0.clone(), named(name)?)))
    }
}

/// A name that a certificate can carry.
pub(crate) fn named(name: &str) -> Result<ServerName<'static>, ConnectError> {
    ServerName::try_from(name.to_owned()).map_err(|_| {
        let text = format!("{name}: not a name that a certificate can have");
        ConnectError::new(ConnectErrorKind::Settings, text)
    })
}

fn wrong(path: &Path, error: &dyn std::fmt::Display) -> ConnectError {
    ConnectError::new(ConnectErrorKind::Settings, format!("{}: {error}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let all = CertificateDer::pem_file_iter(path).map_err(|error| wrong(path, &error))?;
    let all: Result<Vec<_>, _> = all.collect();
    let all = all.map_err(|error| wrong(path, &error))?;
    if all.is_empty() {
        return Err(wrong(path, &"no PEM certificate found"));
    }
    Ok(all)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ConnectError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| wrong(path, &error))
}

/// Believes what an authority vouches for, and besides, where it is wished, names that do not fit,
/// or anybody; never a wrong signature.
///
/// A certificate that is itself among those that were named needs nobody to vouch for it: whoever
/// made one with `openssl req -x509` gives that very file to its clients, as mosquitto's take it.
/// WebPKI refuses it as an end entity when it says that it is an authority, which openssl writes
/// unasked. Its time has been looked at by then, and its name is looked at all the same.
#[derive(Debug)]
struct Believer {
    inner: Option<Arc<WebPkiServerVerifier>>,
    /// Named authorities, without the system's.
    own: Vec<CertificateDer<'static>>,
    /// Whether names are looked at.
    names: bool,
    provider: Arc<CryptoProvider>,
}

impl Believer {
    fn is_own(&self, end: &CertificateDer<'_>) -> bool {
        self.own.iter().any(|own| own == end)
    }
}

/// Whether a certificate without alternative names has this common name. Such a one is what
/// `openssl req -x509 -subj /CN=…` makes; where there are alternative names they alone count (RFC
/// 6125 6.4.4).
fn has_common_name(end: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    let Ok((_, parsed)) = x509_parser::parse_x509_certificate(end) else { return false };
    if !matches!(parsed.subject_alternative_name(), Ok(None)) {
        return false;
    }
    let mut names = parsed.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let wanted = name.to_str();
    matches!((names.next(), names.next()), (Some(found), None)
        if found.eq_ignore_ascii_case(&wanted))
}

/// Whether nothing is wrong with a certificate but that it says that it is an authority. WebPKI's
/// own error is not ours to name; a test holds its word.
fn is_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(doubt)) = error else { return false };
    format!("{doubt:?}").contains("CaUsedAsEndEntity")
}

/// End of the words about a certificate that has expired.
pub(crate) const EXPIRED: &str = "it has expired";

/// A TLS error in words. rustls shows most faults of a certificate as names of its own types.
pub fn tls_words(error: &Error) -> String {
    let Error::InvalidCertificate(doubt) = error else { return error.to_string() };
    let why = match doubt {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => EXPIRED,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet"
        }
        CertificateError::Revoked => "it is revoked",
        CertificateError::UnknownIssuer => "it is issued by an unknown CA",
        CertificateError::NotValidForName => "it is not for this host name",
        // rustls names both names.
        CertificateError::NotValidForNameContext { .. } => return error.to_string(),
        CertificateError::BadSignature => "its signature is wrong",
        CertificateError::BadEncoding => "it is malformed",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it is not a server certificate"
        }
        _ if is_authority(error) => "it is a CA certificate, not a server certificate",
        _ => "it is not valid",
    };
    format!("invalid peer certificate: {why}")
}

impl ServerCertVerifier for Believer {
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
            )) if !self.names || self.is_own(end) && has_common_name(end, name) => {
                Ok(ServerCertVerified::assertion())
            }
            Err(error) if self.is_own(end) && is_authority(&error) => {
                if self.names && !has_common_name(end, name) {
                    verify_server_name(&ParsedCertificate::try_from(end)?, name)?;
                }
                Ok(ServerCertVerified::assertion())
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair};
    use std::time::Duration;

    /// A certificate that signed itself, for localhost, and its file.
    fn own(is_ca: IsCa) -> (CertificateDer<'static>, tempfile::NamedTempFile) {
        named(&["localhost"], is_ca)
    }

    /// One with these alternative names, and the common name localhost.
    fn named(names: &[&str], is_ca: IsCa) -> (CertificateDer<'static>, tempfile::NamedTempFile) {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "localhost");
        params.is_ca = is_ca;
        let key = KeyPair::generate().expect("random numbers");
        let made = params.self_signed(&key).expect("it signs");
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), made.pem()).expect("written");
        (made.der().clone(), file)
    }

    fn believed(trust: &Trust, end: &CertificateDer<'_>, name: &str, unix_s: u64) -> bool {
        let provider = Arc::new(ring::default_provider());
        let verifier = trust.verifier(provider).unwrap_or_else(|fault| panic!("{fault}"));
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let now = UnixTime::since_unix_epoch(Duration::from_secs(unix_s));
        verifier.verify_server_cert(end, &[], &name, &[], now).is_ok()
    }

    #[test]
    fn a_certificate_that_signed_itself_is_believed_when_it_is_the_one_that_was_named() {
        let now_s = 1_800_000_000;
        for is_ca in [IsCa::Ca(BasicConstraints::Unconstrained), IsCa::ExplicitNoCa, IsCa::NoCa] {
            let (end, file) = own(is_ca);
            let (other, _) = own(is_ca);
            let trust = Trust { ca_file: Some(file.path().into()), ..Trust::default() };
            assert!(believed(&trust, &end, "localhost", now_s), "{is_ca:?}");
            assert!(!believed(&trust, &end, "elsewhere", now_s), "{is_ca:?}: names are looked at");
            assert!(!believed(&trust, &other, "localhost", now_s), "{is_ca:?}: another one");
            assert!(!believed(&trust, &end, "localhost", 99_999_999_999), "{is_ca:?}: it is over");
            let (plain, file) = named(&[], is_ca);
            let by_common_name = Trust { ca_file: Some(file.path().into()), ..Trust::default() };
            assert!(believed(&by_common_name, &plain, "localhost", now_s), "{is_ca:?}");
            assert!(!believed(&by_common_name, &plain, "elsewhere", now_s), "{is_ca:?}");
            let (both, file) = named(&["elsewhere"], is_ca);
            let both_named = Trust { ca_file: Some(file.path().into()), ..Trust::default() };
            assert!(!believed(&both_named, &both, "localhost", now_s), "{is_ca:?}: RFC 6125");
            let insecure = Trust { check: CertificateCheck::NotTheName, ..trust };
            assert!(believed(&insecure, &end, "elsewhere", now_s), "{is_ca:?}");
            assert!(!believed(&insecure, &other, "localhost", now_s), "{is_ca:?}");
        }
    }
}

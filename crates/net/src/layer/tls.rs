//! TLS 1.3 and 1.2 by rustls, with the buffers on our side.
//!
//! Here is what many connections share: certificates, whom is believed, tickets. Certificates are
//! read again on [`TlsServer::reload`]; connections that are open keep what they have. One
//! connection's part is in [`session`].

mod session;

use super::aside::BindingLog;
use super::certificates::{self, CertificateChoice};
use super::expiry::{self, Expiry};
pub use crate::layer::identity::CertificateIdentity;
use arc_swap::ArcSwap;
use base::words;
use model::link::WireProfile;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateRevocationListDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
pub use session::TlsSession;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of the WebSocket upgrade in ALPN (RFC 7301 6).
const ALPN_HTTP: &str = "http/1.1";

words! {
    /// Policy for client certificates.
    pub enum ClientCertificates {
        /// The server asks clients for no certificate.
        Off = "off",
        /// A client may show a certificate.
        Optional = "optional",
        /// A client must show a certificate.
        Required = "required",
    }
}

/// Files that a listener's TLS is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// PEM file of the certificate and its chain.
    pub certificate: PathBuf,
    /// PEM file of its private key.
    pub key: PathBuf,
    /// PEM files of other certificates, each with its chain, and of its key, for clients that ask
    /// for one of their names (RFC 6066 3).
    pub others: Vec<(PathBuf, PathBuf)>,
    /// PEM file of the authorities whose client certificates are believed.
    pub client_ca: Option<PathBuf>,
    /// PEM file of certificates of clients that were revoked.
    pub revoked: Option<PathBuf>,
    /// TLS 1.2 is not spoken.
    pub only_1_3: bool,
}

/// A server's side: certificates and what is asked of clients.
pub struct TlsServer {
    config: ArcSwap<ServerConfig>,
    files: TlsFiles,
    /// Of what is in use, as it was read.
    expiries: ArcSwap<Vec<Expiry>>,
    clients: ClientCertificates,
    identity: CertificateIdentity,
    /// Protocols that ALPN names.
    wires: &'static [WireProfile],
}

/// A calling side.
pub struct ClientTls {
    /// Trusted authorities.
    pub config: Arc<ClientConfig>,
    /// Name that the certificate must have: the domain that was asked for, whatever host a look-up
    /// gave for it (RFC 6125 6.2.1). A DNS name is sent to the server too (RFC 6066 3).
    pub name: ServerName<'static>,
    /// The protocol inside asks for the server's names and for channel bindings.
    asks: bool,
}

impl ClientTls {
    /// Towards `name`.
    pub fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> ClientTls {
        ClientTls { config, name, asks: false }
    }

    /// A copy that makes a full handshake each time, and never resumes a session.
    pub fn afresh(&self) -> ClientTls {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::disabled();
        ClientTls { config: Arc::new(config), name: self.name.clone(), asks: self.asks }
    }

    /// Whether the protocol inside asks TLS.
    pub(crate) fn asks(&self) -> bool {
        self.asks
    }

    /// A copy for a protocol that asks TLS (`WireProfile::asks_tls`]).
    pub fn asking(self) -> ClientTls {
        let mut config = ClientConfig::clone(&self.config);
        config.key_log = Arc::new(BindingLog);
        ClientTls { config: Arc::new(config), asks: true, ..self }
    }
}

/// Reason why certificates could not be used.
#[derive(Debug)]
pub struct TlsError {
    path: PathBuf,
    what: String,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

impl std::error::Error for TlsError {}

impl TlsServer {
    /// Reads the PEM files.
    pub fn load(
        certificate: &Path,
        key: &Path,
        client_ca: Option<&Path>,
        clients: ClientCertificates,
    ) -> Result<TlsServer, TlsError> {
        let files = TlsFiles {
            certificate: certificate.into(),
            key: key.into(),
            others: Vec::new(),
            client_ca: client_ca.map(Path::to_path_buf),
            revoked: None,
            only_1_3: false,
        };
        TlsServer::of(files, clients, &[])
    }

    /// Reads these files, for clients that ask for one of these protocols by ALPN, or for none.
    pub fn of(
        files: TlsFiles,
        clients: ClientCertificates,
        wires: &'static [WireProfile],
    ) -> Result<TlsServer, TlsError> {
        let config = ArcSwap::from_pointee(read(&files, clients, wires)?);
        let expiries = ArcSwap::from_pointee(expiry::of_files(&files));
        let identity = CertificateIdentity::default();
        Ok(TlsServer { config, files, expiries, clients, identity, wires })
    }

    /// The server with this field of a client's certificate as the client's identity.
    pub fn identity(self, identity: CertificateIdentity) -> TlsServer {
        TlsServer { identity, ..self }
    }

    /// Reads them again, for connections to come. On an error the old ones stay in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.config.store(Arc::new(read(&self.files, self.clients, self.wires)?));
        self.expiries.store(Arc::new(expiry::of_files(&self.files)));
        Ok(())
    }

    /// When what is in use expires; the first comes first.
    pub fn expiries(&self) -> Arc<Vec<Expiry>> {
        self.expiries.load_full()
    }
}

/// Names for ALPN: those of the protocols, and that of the WebSocket's upgrade. None for none: then
/// nobody is refused for the names it asks for.
fn alpn(wires: &[WireProfile]) -> Vec<Vec<u8>> {
    let names = wires.iter().flat_map(|wire| wire.alpn);
    let names: Vec<Vec<u8>> = names.map(|name| name.as_bytes().to_vec()).collect();
    let http = (!names.is_empty()).then(|| ALPN_HTTP.as_bytes().to_vec());
    names.into_iter().chain(http).collect()
}

fn read(
    files: &TlsFiles,
    clients: ClientCertificates,
    wires: &[WireProfile],
) -> Result<ServerConfig, TlsError> {
    let (certificate, key) = (&files.certificate, &files.key);
    let provider = Arc::new(ring::default_provider());
    let usual = certificates::pair(certificate, key, &provider)?;
    let others = files.others.iter().map(|(file, key)| certificates::pair(file, key, &provider));
    let choice = CertificateChoice::new(usual, &others.collect::<Result<Vec<_>, _>>()?);
    let versions: &[_] = match files.only_1_3 {
        true => &[&rustls::version::TLS13],
        false => &[&rustls::version::TLS13, &rustls::version::TLS12],
    };
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .map_err(|error| wrong(certificate, error.to_string()))?;
    let builder = match clients {
        ClientCertificates::Off => builder.with_no_client_auth(),
        clients => builder.with_client_cert_verifier(verifier(files, clients, provider)?),
    };
    let mut config = builder.with_cert_resolver(Arc::new(choice));
    // Reconnect waves resume by tickets that cost the server no memory.
    config.ticketer =
        ring::Ticketer::new().map_err(|error| wrong(certificate, error.to_string()))?;
    config.send_tls13_tickets = 1;
    config.alpn_protocols = alpn(wires);
    if wires.iter().any(|wire| wire.asks_tls) {
        config.key_log = Arc::new(BindingLog);
    }
    Ok(config)
}

/// Verifier of clients' certificates.
fn verifier(
    files: &TlsFiles,
    clients: ClientCertificates,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let Some(path) = &files.client_ca else {
        let what = "client certificates are requested, but tls.client_ca is not set";
        return Err(wrong(&files.certificate, what.into()));
    };
    let mut roots = RootCertStore::empty();
    for root in certificates::read(path)? {
        roots.add(root).map_err(|error| wrong(path, error.to_string()))?;
    }
    let mut verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
    if let Some(path) = &files.revoked {
        let lists = CertificateRevocationListDer::pem_file_iter(path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| wrong(path, format!("no readable PEM revocation list: {error}")))?;
        if lists.is_empty() {
            // With none nobody would be kept out.
            return Err(wrong(path, "no PEM revocation list found".into()));
        }
        // Authorities between, whose own state no list tells, are believed.
        verifier = verifier.with_crls(lists).allow_unknown_revocation_status();
    }
    if clients != ClientCertificates::Required {
        verifier = verifier.allow_unauthenticated();
    }
    verifier.build().map_err(|error| match (&error, &files.revoked) {
        (VerifierBuilderError::InvalidCrl(why), Some(path)) => {
            wrong(path, format!("invalid revocation list: {why:?}"))
        }
        _ => wrong(path, error.to_string()),
    })
}

pub(super) fn wrong(path: &Path, what: String) -> TlsError {
    TlsError { path: path.into(), what }
}

#[cfg(test)]
mod tests;

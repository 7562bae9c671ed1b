//! TLS 1.3 and 1.2 by rustls, with the buffers on our side.
//!
//! The unbuffered interface of rustls keeps 3.4 KB a connection where the buffered one keeps 7.6
//! (research/engine.md 5): a record that is not whole waits in `pending`, which is empty
//! otherwise. Certificates are read again on [`TlsServer::reload`]; connections that are open keep
//! what they have.

use super::certificates::{self, CertificateChoice};
use crate::detail::Detail;
use crate::layer::Flow;
use crate::layer::identity;
pub use crate::layer::identity::CertificateIdentity;
use arc_swap::ArcSwap;
use base::words;
use model::close::CloseReason;
use model::link::{TlsFacts, WireProfile};
use rustls::client::UnbufferedClientConnection;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateRevocationListDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{UnbufferedServerConnection, WebPkiClientVerifier};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
    WriteTraffic,
};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a WebSocket's upgrade is called in ALPN (RFC 7301 6).
const ALPN_HTTP: &str = "http/1.1";

words! {
    /// Policy for client certificates.
    pub enum ClientCertificates {
        /// They are not asked.
        Off = "off",
        /// They may.
        Optional = "optional",
        /// They must.
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
    /// PEM files of other certificates, each with its chain and its key, for clients that ask for
    /// one of their names (RFC 6066 3).
    pub others: Vec<PathBuf>,
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
    clients: ClientCertificates,
    identity: CertificateIdentity,
    /// Protocols that ALPN names.
    wires: &'static [WireProfile],
}

/// A calling side.
pub struct ClientTls {
    /// What is trusted.
    pub config: Arc<ClientConfig>,
    /// Whom the certificate must name.
    pub name: ServerName<'static>,
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
        TlsServer::of(files, clients)
    }

    /// Reads these files.
    pub fn of(files: TlsFiles, clients: ClientCertificates) -> Result<TlsServer, TlsError> {
        let config = ArcSwap::from_pointee(read(&files, clients, &[])?);
        let identity = CertificateIdentity::default();
        Ok(TlsServer { config, files, clients, identity, wires: &[] })
    }

    /// The same for clients that ask for one of these protocols by ALPN, or for none.
    pub fn serving(self, wires: &'static [WireProfile]) -> TlsServer {
        let mut config = ServerConfig::clone(&self.config.load());
        config.alpn_protocols = alpn(wires);
        TlsServer { config: ArcSwap::from_pointee(config), wires, ..self }
    }

    /// The same with another name of a client's certificate as its identity.
    pub fn identity(self, identity: CertificateIdentity) -> TlsServer {
        TlsServer { identity, ..self }
    }

    /// Reads them again, for connections to come. On an error the old ones stay in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.config.store(Arc::new(read(&self.files, self.clients, self.wires)?));
        Ok(())
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
    let others = files.others.iter().map(|file| certificates::pair(file, file, &provider));
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
    Ok(config)
}

/// Who looks at the certificates of clients.
fn verifier(
    files: &TlsFiles,
    clients: ClientCertificates,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let Some(path) = &files.client_ca else {
        let what = "client certificates are asked for, but tls.client_ca is not set";
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
            .map_err(|error| wrong(path, format!("no list in PEM can be read: {error}")))?;
        // Authorities between, whose own state no list tells, are believed.
        verifier = verifier.with_crls(lists).allow_unknown_revocation_status();
    }
    if clients != ClientCertificates::Required {
        verifier = verifier.allow_unauthenticated();
    }
    verifier.build().map_err(|error| wrong(path, error.to_string()))
}

pub(super) fn wrong(path: &Path, what: String) -> TlsError {
    TlsError { path: path.into(), what }
}

/// One connection's session.
pub struct TlsSession {
    session: Session,
    /// A record that is not whole.
    pending: Vec<u8>,
    open: bool,
    /// Why it failed.
    failed: Option<Box<rustls::Error>>,
    /// Which name is the identity, until there is one.
    names: CertificateIdentity,
    identity: Option<Box<str>>,
}

enum Session {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

impl TlsSession {
    /// The accepting side.
    pub fn server(server: &TlsServer) -> Result<TlsSession, CloseReason> {
        let session = UnbufferedServerConnection::new(server.config.load_full());
        Self::begin(session.map(Session::Server), server.identity)
    }

    /// The calling side.
    pub fn client(client: &ClientTls) -> Result<TlsSession, CloseReason> {
        let session = UnbufferedClientConnection::new(client.config.clone(), client.name.clone());
        Self::begin(session.map(Session::Client), CertificateIdentity::default())
    }

    fn begin(
        session: Result<Session, rustls::Error>,
        names: CertificateIdentity,
    ) -> Result<TlsSession, CloseReason> {
        let session = session.map_err(|_| CloseReason::TlsFailed)?;
        let (pending, open, failed, identity) = (Vec::new(), false, None, None);
        Ok(TlsSession { session, pending, open, failed, names, identity })
    }

    /// Whether the handshake is not finished.
    pub fn handshaking(&self) -> bool {
        !self.open
    }

    /// Why it failed.
    pub fn detail(&self) -> Detail {
        self.failed.as_deref().map_or(Detail::Nothing, Detail::of_tls)
    }

    /// Why it failed, in rustls' words.
    pub fn failure(&self) -> Option<&rustls::Error> {
        self.failed.as_deref()
    }

    /// Whether an end that comes now is inside of something: of a record, or of the session, which
    /// ends with `close_notify` (RFC 8446 6.1).
    pub fn is_truncated(&self) -> bool {
        self.open || !self.pending.is_empty()
    }

    /// A record that is not whole.
    pub(crate) fn piece(&self) -> &Vec<u8> {
        &self.pending
    }

    /// What was established, with the identity that the listener wants to know.
    pub fn facts(&self) -> TlsFacts {
        TlsFacts { identity: self.identity.clone() }
    }

    /// Takes records: application data is appended to `plain`, what the session has to say to
    /// `out`.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<Flow, CloseReason> {
        let mut records = std::mem::take(&mut self.pending);
        records.extend_from_slice(bytes);
        let mut from = 0;
        let flow = loop {
            let Step { discard, next } = match &mut self.session {
                Session::Server(session) => {
                    step(session.process_tls_records(&mut records[from..]), plain, out)
                }
                Session::Client(session) => {
                    step(session.process_tls_records(&mut records[from..]), plain, out)
                }
            };
            from += discard;
            match next {
                Next::Again => {}
                Next::Handshake => break Flow::Opening,
                Next::Open => {
                    self.opened();
                    break Flow::Open;
                }
                Next::Ended => break Flow::Ended,
                Next::Failed(why) => {
                    self.failed = Some(Box::new(why));
                    if let Session::Client(session) = &mut self.session {
                        // The server is told by an alert (RFC 8446 6.2), if there is one to send.
                        step(session.process_tls_records(&mut records[from..]), plain, out);
                    }
                    return Err(CloseReason::TlsFailed);
                }
            }
        };
        self.pending = records.split_off(from);
        self.pending.shrink_to_fit();
        Ok(flow)
    }

    fn opened(&mut self) {
        if !self.open
            && let Session::Server(session) = &self.session
        {
            let chain = session.peer_certificates();
            self.identity = chain
                .and_then(|chain| chain.first())
                .and_then(|certificate| identity::of(certificate, self.names));
        }
        self.open = true;
    }

    /// Encrypts `plain` and appends the records to `out`.
    pub fn send(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), CloseReason> {
        self.write(|traffic, room| traffic.encrypt(plain, room), plain.len() + 64, out)
    }

    /// Appends `close_notify`.
    pub fn farewell(&mut self, out: &mut Vec<u8>) {
        // Without an open session there is nothing to say it with.
        let _ = self.write(|traffic, room| traffic.queue_close_notify(room), 64, out);
    }

    fn write<F>(&mut self, put: F, guess: usize, out: &mut Vec<u8>) -> Result<(), CloseReason>
    where
        F: FnMut(&mut dyn Writer, &mut [u8]) -> Result<usize, EncryptError>,
    {
        let records = &mut self.pending[..];
        let written = match &mut self.session {
            Session::Server(session) => {
                write(session.process_tls_records(records), put, guess, out)
            }
            Session::Client(session) => {
                write(session.process_tls_records(records), put, guess, out)
            }
        };
        written.ok_or(CloseReason::TlsFailed)
    }
}

/// The two things one can do with an open session, whichever side it is.
trait Writer {
    fn encrypt(&mut self, plain: &[u8], room: &mut [u8]) -> Result<usize, EncryptError>;
    fn queue_close_notify(&mut self, room: &mut [u8]) -> Result<usize, EncryptError>;
}

impl<Data> Writer for WriteTraffic<'_, Data> {
    fn encrypt(&mut self, plain: &[u8], room: &mut [u8]) -> Result<usize, EncryptError> {
        WriteTraffic::encrypt(self, plain, room)
    }

    fn queue_close_notify(&mut self, room: &mut [u8]) -> Result<usize, EncryptError> {
        WriteTraffic::queue_close_notify(self, room)
    }
}

fn write<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    mut put: impl FnMut(&mut dyn Writer, &mut [u8]) -> Result<usize, EncryptError>,
    guess: usize,
    out: &mut Vec<u8>,
) -> Option<()> {
    let Ok(ConnectionState::WriteTraffic(mut traffic)) = status.state else { return None };
    let from = out.len();
    let mut room = guess;
    loop {
        out.resize(from + room, 0);
        match put(&mut traffic, &mut out[from..]) {
            Ok(count) => {
                out.truncate(from + count);
                return Some(());
            }
            Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => {
                room = required_size;
            }
            Err(_) => {
                out.truncate(from);
                return None;
            }
        }
    }
}

struct Step {
    discard: usize,
    next: Next,
}

enum Next {
    Again,
    Handshake,
    Open,
    Ended,
    Failed(rustls::Error),
}

/// Carries out one state of the session.
fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plain: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Step {
    let mut discard = status.discard;
    let next = match status.state {
        Err(error) => Next::Failed(error),
        Ok(ConnectionState::ReadTraffic(mut traffic)) => {
            let mut next = Next::Again;
            while let Some(record) = traffic.next_record() {
                match record {
                    Ok(record) => {
                        discard += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                    Err(error) => {
                        next = Next::Failed(error);
                        break;
                    }
                }
            }
            next
        }
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            let from = out.len();
            let mut room = 512;
            loop {
                out.resize(from + room, 0);
                match data.encode(&mut out[from..]) {
                    Ok(count) => {
                        out.truncate(from + count);
                        break Next::Again;
                    }
                    Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                        room = required_size;
                    }
                    Err(_) => {
                        out.truncate(from);
                        let what = "a record could not be encoded";
                        break Next::Failed(rustls::Error::General(what.into()));
                    }
                }
            }
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Next::Again
        }
        Ok(ConnectionState::BlockedHandshake) => Next::Handshake,
        Ok(ConnectionState::WriteTraffic(_)) => Next::Open,
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Next::Ended,
        // It is never accepted.
        Ok(_) => Next::Failed(rustls::Error::General("early data".into())),
    };
    Step { discard, next }
}

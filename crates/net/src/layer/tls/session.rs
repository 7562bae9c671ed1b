//! One connection's TLS, by rustls' unbuffered interface.
//!
//! A session keeps 3.4 KB a connection where the buffered interface keeps 7.6 (research/engine.md
//! 5): an incomplete record waits in `pending`, which is empty otherwise. The facts of a handshake
//! are available once it is over, and kept as far as the protocol inside asks for them.

use super::{ClientTls, TlsServer};
use crate::detail::Detail;
use crate::layer::aside::{self, Aside};
use crate::layer::identity::{self, CertificateIdentity};
use crate::layer::{Flow, binding};
use model::close::CloseReason;
use model::link::{ChannelBindings, TlsFacts, TlsVersion};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
    WriteTraffic,
};
use rustls::{CommonState, HandshakeKind, ProtocolVersion};
use std::mem::size_of;

/// Records that wait to be said when a session fails: what was under way, and an alert.
const ALERTS_MAX: usize = 16;

/// One connection's session.
pub struct TlsSession {
    session: Session,
    /// A record that is not whole.
    pending: Vec<u8>,
    open: bool,
    /// The protocol inside may ask for all names and for channel bindings.
    asks: bool,
    /// Which name of a client's certificate is its identity.
    names: CertificateIdentity,
    /// Why it failed.
    failed: Option<Box<rustls::Error>>,
    /// Facts of the established session.
    facts: TlsFacts,
}

// The allocator's class for it, with rustls' own 1,088 bytes inside.
const _: () = assert!(size_of::<TlsSession>() <= 1_280);

enum Session {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

impl TlsSession {
    /// The accepting side.
    pub fn server(server: &TlsServer) -> Result<TlsSession, CloseReason> {
        let asks = server.wires.iter().any(|wire| wire.asks_tls);
        let session = UnbufferedServerConnection::new(server.config.load_full());
        let mut this = Self::begin(session.map(Session::Server), asks)?;
        this.names = server.identity;
        Ok(this)
    }

    /// The calling side.
    pub fn client(client: &ClientTls) -> Result<TlsSession, CloseReason> {
        let session = UnbufferedClientConnection::new(client.config.clone(), client.name.clone());
        let mut this = Self::begin(session.map(Session::Client), client.asks)?;
        if let ServerName::DnsName(name) = &client.name {
            this.facts.server_name = Some(name.as_ref().into());
        }
        Ok(this)
    }

    fn begin(
        session: Result<Session, rustls::Error>,
        asks: bool,
    ) -> Result<TlsSession, CloseReason> {
        let session = session.map_err(|_| CloseReason::TlsFailed)?;
        let (pending, open, failed, names) =
            (Vec::new(), false, None, CertificateIdentity::default());
        Ok(TlsSession { session, pending, open, asks, names, failed, facts: TlsFacts::default() })
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

    /// Facts of the established session, with the identity that the listener asks for.
    pub fn facts(&self) -> &TlsFacts {
        &self.facts
    }

    /// Gives what was established to somebody who gives it back by [`keep`](Self::keep).
    pub(crate) fn lend(&mut self) -> TlsFacts {
        std::mem::take(&mut self.facts)
    }

    /// Keeps these facts.
    pub(crate) fn keep(&mut self, facts: TlsFacts) {
        self.facts = facts;
    }

    /// The protocol inside does not ask: names and bindings are kept no longer.
    pub(crate) fn forget_names(&mut self) {
        let facts = &mut self.facts;
        (facts.server_name, facts.alpn) = (None, None);
        (facts.certificate, facts.bindings) = (None, None);
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
            if !self.open {
                self.hear(aside::take());
            }
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
                    self.alert(out);
                    return Err(CloseReason::TlsFailed);
                }
            }
        };
        self.pending = records.split_off(from);
        self.pending.shrink_to_fit();
        Ok(flow)
    }

    /// Sends the peer an alert with the reason of the failure (RFC 8446 6.2), if one is due.
    fn alert(&mut self, out: &mut Vec<u8>) {
        // rustls gives out what waits to be said, and nothing else is asked of it: it panics where
        // it is shown again what was the fault.
        for _ in 0..ALERTS_MAX {
            match &mut self.session {
                Session::Server(session) if session.wants_write() => {
                    step(session.process_tls_records(&mut []), &mut Vec::new(), out);
                }
                Session::Client(session) if session.wants_write() => {
                    step(session.process_tls_records(&mut []), &mut Vec::new(), out);
                }
                _ => return,
            }
        }
    }

    /// Takes facts that were learnt during the handshake.
    fn hear(&mut self, aside: Aside) {
        let Aside { server_name, end_point, exporter } = aside;
        if server_name.is_some() {
            self.facts.server_name = server_name;
        }
        if self.asks && (end_point.is_some() || exporter.is_some()) {
            let bindings = self.facts.bindings.get_or_insert_default();
            bindings.end_point = end_point.or(bindings.end_point.take());
            bindings.exporter = exporter.or(bindings.exporter);
        }
    }

    /// The handshake is over.
    fn opened(&mut self) {
        if std::mem::replace(&mut self.open, true) {
            return;
        }
        let (common, is_server): (&CommonState, bool) = match &self.session {
            Session::Server(session) => (session, true),
            Session::Client(session) => (session, false),
        };
        let facts = &mut self.facts;
        facts.version = match common.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => TlsVersion::V12,
            _ => TlsVersion::V13,
        };
        facts.suite = common.negotiated_cipher_suite().map_or(0, |suite| suite.suite().into());
        facts.resumed = common.handshake_kind() == Some(HandshakeKind::Resumed);
        let alpn = common.alpn_protocol().and_then(|name| std::str::from_utf8(name).ok());
        facts.alpn = alpn.map(Box::from);
        let shown = common.peer_certificates().and_then(|chain| chain.first());
        let Some(shown) = shown else { return };
        if is_server {
            facts.identity = identity::of(shown, self.names);
        }
        if self.asks {
            facts.certificate = identity::all(shown).map(Box::new);
            if !is_server {
                let end_point = binding::end_point(shown);
                let exporter = facts.bindings.as_ref().and_then(|bindings| bindings.exporter);
                facts.bindings = Some(Box::new(ChannelBindings { exporter, end_point }));
            }
        }
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
        if self.failed.is_some() {
            // rustls must not be asked again: it panics where a handshake message was the fault.
            return Err(CloseReason::TlsFailed);
        }
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

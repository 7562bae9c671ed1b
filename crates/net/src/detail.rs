//! Detail of an end beyond its reason, for whoever measures a peer.
//!
//! A `CloseReason` is one of few that are counted everywhere; a laboratory has to tell `EMFILE`
//! from `EADDRNOTAVAIL`, and a certificate that is not believed from a port that speaks no TLS. The
//! reason is the result of a call, the detail lies beside it until the next one, so that nothing
//! of it is kept with a connection. It does not know whose doing an end was.

use rustix::io::Errno;
use rustls::CertificateError as Doubt;

/// Detail of a connection's end beyond its reason.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Detail {
    /// Nothing.
    #[default]
    Nothing,
    /// The kernel's answer.
    Errno(Errno),
    /// The peer's certificate was not believed, for this reason.
    Certificate(&'static str),
    /// The peer ended TLS with this alert (RFC 8446 6).
    Alert(u8),
    /// TLS failed on our side for this reason: mostly, what came is no TLS.
    Tls(&'static str),
    /// The peer did not take the WebSocket upgrade, and answered with this HTTP status; 0: with
    /// what is no HTTP. 101: it took it, and broke RFC 6455 4.1 in doing so.
    Upgrade(u16),
    /// The peer closed inside of something: a frame of the protocol, a frame of WebSocket, a record
    /// of TLS, or TLS itself, which ends with `close_notify` (RFC 8446 6.1).
    Truncated,
}

/// Stage that a connection had reached.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Reached {
    /// TCP did not stand.
    #[default]
    Connect,
    /// TCP stood; TLS or WebSocket were not open.
    Layers,
    /// There was nothing left between the two machines.
    Protocol,
}

impl Detail {
    /// Why TLS failed.
    pub fn of_tls(error: &rustls::Error) -> Detail {
        use rustls::Error as E;
        match error {
            E::AlertReceived(alert) => Detail::Alert(u8::from(*alert)),
            E::InvalidCertificate(doubt) => Detail::Certificate(doubt_of(doubt)),
            E::NoCertificatesPresented => Detail::Certificate("none shown"),
            E::InvalidCertRevocationList(_) => Detail::Certificate("bad revocation list"),
            E::PeerIncompatible(_) | E::NoApplicationProtocol => Detail::Tls("incompatible"),
            E::PeerMisbehaved(_) | E::InappropriateHandshakeMessage { .. } => {
                Detail::Tls("out of order")
            }
            E::DecryptError => Detail::Tls("not to be decrypted"),
            E::InvalidMessage(_) | E::InappropriateMessage { .. } => Detail::Tls("not TLS"),
            _ => Detail::Tls("failed"),
        }
    }
}

/// What is wrong with a certificate.
fn doubt_of(doubt: &Doubt) -> &'static str {
    match doubt {
        Doubt::Expired | Doubt::ExpiredContext { .. } => "expired",
        Doubt::NotValidYet | Doubt::NotValidYetContext { .. } => "not valid yet",
        Doubt::Revoked => "revoked",
        Doubt::UnknownIssuer => "unknown issuer",
        Doubt::NotValidForName | Doubt::NotValidForNameContext { .. } => "not for this name",
        Doubt::BadSignature => "bad signature",
        Doubt::BadEncoding => "bad encoding",
        Doubt::InvalidPurpose | Doubt::InvalidPurposeContext { .. } => "not for this purpose",
        _ => "not believed",
    }
}

#[cfg(test)]
mod tests;

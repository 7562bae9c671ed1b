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
    /// No detail.
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
    /// TCP, TLS and WebSocket were open: only the protocol was left.
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

impl Detail {
    /// Why TLS of somebody who called failed, in words that tell kinds apart.
    pub(crate) fn of_tls_failed(self) -> &'static str {
        match self {
            Detail::Certificate(doubt) => CERTIFICATE
                .into_iter()
                .find(|(of, _)| *of == doubt)
                .map_or("its certificate is not trusted", |(_, words)| words),
            Detail::Alert(alert) => ALERTS
                .into_iter()
                .find(|(number, _)| *number == alert)
                .map_or("the client closed with a TLS alert", |(_, words)| words),
            Detail::Tls("incompatible") => "no common version, cipher suite or protocol",
            Detail::Tls("out of order") => "TLS protocol violation by the client",
            Detail::Tls("not to be decrypted") => "a record could not be decrypted",
            Detail::Tls("not TLS") | Detail::Nothing => "the client did not speak TLS",
            _ => "TLS handshake failed",
        }
    }
}

/// Doubts about a client's certificate, as [`doubt_of`] names them.
const CERTIFICATE: [(&str, &str); 10] = [
    ("none shown", "the client sent no certificate"),
    ("expired", "its certificate has expired"),
    ("not valid yet", "its certificate is not valid yet"),
    ("revoked", "its certificate is revoked"),
    ("unknown issuer", "its certificate has an unknown issuer"),
    ("not for this name", "its certificate is not for this name"),
    ("bad signature", "its certificate has a bad signature"),
    ("bad encoding", "its certificate is malformed"),
    ("not for this purpose", "its certificate is not valid for this purpose"),
    ("bad revocation list", "invalid revocation list"),
];

/// Alerts by which clients end a handshake (RFC 8446 6.2).
const ALERTS: [(u8, &str); 9] = [
    (40, "TLS alert handshake_failure from the client"),
    (42, "TLS alert bad_certificate from the client: it does not trust this server's certificate"),
    (43, "TLS alert unsupported_certificate from the client"),
    (
        45,
        "TLS alert certificate_expired from the client: this server's certificate has expired by \
          its clock",
    ),
    (
        46,
        "TLS alert certificate_unknown from the client: it does not trust this server's \
          certificate",
    ),
    (
        48,
        "TLS alert unknown_ca from the client: it does not know the CA of this server's \
          certificate",
    ),
    (51, "TLS alert decrypt_error from the client"),
    (70, "TLS alert protocol_version from the client"),
    (90, "TLS alert user_canceled from the client"),
];

/// Fault of a certificate.
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

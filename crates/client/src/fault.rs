//! Error of connecting: why there is no connection, in words that say what to do.

use crate::BrokerAddress;
use model::close::CloseReason;
use proto_im::codec::EndReason;
use proto_mqtt::client::Farewell;
use proto_mqtt::codec::{PacketKind, ReasonCode};

/// Kind of the error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectErrorKind {
    /// The settings cannot work: a file, an address.
    Settings,
    /// The address did not answer.
    Unreachable,
    /// TLS did not come about.
    Tls,
    /// The WebSocket did not come about, or broke.
    WebSocket,
    /// A step took longer than allowed.
    TimedOut,
    /// The broker said no.
    Refused(ReasonCode),
    /// The broker said farewell.
    Farewell(ReasonCode),
    /// A server of instant messaging said no, or farewell.
    Denied(EndReason),
    /// The connection ended.
    Ended(CloseReason),
}

/// Reason why there is no connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectError {
    /// Kind of the error.
    pub what: ConnectErrorKind,
    /// For people: what happened, and what to do.
    pub text: String,
}

impl ConnectError {
    pub(crate) fn new(what: ConnectErrorKind, text: impl Into<String>) -> ConnectError {
        ConnectError { what, text: text.into() }
    }

    /// The error for a broker's farewell, as it refused a connection or ended one.
    pub fn said(address: &BrokerAddress, farewell: &Farewell, is_refusal: bool) -> ConnectError {
        let code = farewell.reason;
        let (what, verb, kind) = match is_refusal {
            true => {
                (ConnectErrorKind::Refused(code), "refused the connection", PacketKind::Connack)
            }
            false => {
                (ConnectErrorKind::Farewell(code), "closed the connection", PacketKind::Disconnect)
            }
        };
        let name = code.name(kind).replace('_', " ");
        let said = farewell.text.as_ref().map_or(String::new(), |text| format!(" ({text})"));
        let elsewhere =
            farewell.elsewhere.as_ref().map_or(String::new(), |to| format!(" Try {to}."));
        let advice = advice(code);
        ConnectError::new(
            what,
            format!("{address}: the broker {verb}: {name}{said}. {advice}{elsewhere}"),
        )
    }
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ConnectError {}

/// Advice for a user whose connection the broker refused.
fn advice(reason: ReasonCode) -> &'static str {
    match reason {
        ReasonCode::BadUserNameOrPassword | ReasonCode::NotAuthorized => {
            "Give a user name and password (-u, -P), or check them."
        }
        ReasonCode::ClientIdentifierNotValid => "Use another client identifier (-i).",
        ReasonCode::UnsupportedProtocolVersion => "Use another protocol version (-V).",
        ReasonCode::BadAuthenticationMethod => {
            "The broker does not support this authentication \
                                                method."
        }
        ReasonCode::ServerBusy
        | ReasonCode::ServerUnavailable
        | ReasonCode::ConnectionRateExceeded
        | ReasonCode::QuotaExceeded => "Try again later.",
        ReasonCode::Banned => "Ask the operator of the broker.",
        ReasonCode::UseAnotherServer | ReasonCode::ServerMoved => "Connect to another broker.",
        ReasonCode::SessionTakenOver => {
            "Another client with the same identifier connected: give each client its own \
             identifier (-i)."
        }
        _ => "The broker's log may say more.",
    }
}

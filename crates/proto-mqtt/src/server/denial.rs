//! The broker's words for no, as reason codes of 5.0 (MQTT5 2.4).
//!
//! Each has a list, best first; a packet carries the first code that its table allows, and 0x80
//! where none is allowed. The return code for 3.1 and 3.1.1 in CONNACK follows from the code
//! ([`ReasonCode::return_code`]).

use crate::codec::ReasonCode::{self, *};
use crate::codec::{PacketKind, Sender};
use model::session::Denial;

/// The code for `why` in a packet of this kind from a server.
pub(super) fn code(why: Denial, carrier: PacketKind) -> ReasonCode {
    let fits = |code: &&ReasonCode| {
        // 0x8c stands in the general table for DISCONNECT, but clients refuse it.
        let refused = **code == BadAuthenticationMethod && carrier == PacketKind::Disconnect;
        code.fits(carrier, Sender::Server) && !refused
    };
    codes(why).iter().find(fits).copied().unwrap_or(UnspecifiedError)
}

const fn codes(why: Denial) -> &'static [ReasonCode] {
    match why {
        Denial::BadCredentials => &[BadUserNameOrPassword, NotAuthorized],
        Denial::NotAuthorized | Denial::Expired => &[NotAuthorized],
        Denial::ClientIdInvalid => &[ClientIdentifierNotValid],
        Denial::BadMethod => &[BadAuthenticationMethod, NotAuthorized],
        Denial::Unavailable => &[ServerUnavailable, ImplementationSpecific],
        Denial::Busy => &[ServerBusy, QuotaExceeded],
        Denial::Full | Denial::Quota | Denial::StoreFull => &[QuotaExceeded],
        // Not a quota, for waiting does not help: what a client can tell apart from it.
        Denial::StoreFailed => &[ServerUnavailable, ImplementationSpecific],
        Denial::Rate => &[MessageRateTooHigh, ConnectionRateExceeded, QuotaExceeded],
        Denial::Banned => &[Banned, NotAuthorized],
        Denial::UseAnother => &[UseAnotherServer],
        Denial::Moved => &[ServerMoved],
        Denial::ShuttingDown => &[ServerShuttingDown, ServerUnavailable],
        Denial::TakenOver => &[SessionTakenOver],
        Denial::AdminKick => &[AdministrativeAction, NotAuthorized],
        Denial::TopicInvalid => &[TopicNameInvalid, TopicFilterInvalid],
        Denial::FilterInvalid => &[TopicFilterInvalid],
        Denial::PayloadFormat => &[PayloadFormatInvalid],
        Denial::NoWildcards => &[WildcardsNotSupported],
        Denial::NoShared => &[SharedNotSupported],
        Denial::IdInUse => &[PacketIdInUse, ProtocolError],
        Denial::ReceiveMax => &[ReceiveMaximumExceeded, QuotaExceeded],
        Denial::Protocol => &[ProtocolError],
        Denial::Unspecified => &[UnspecifiedError],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_denial_has_a_code_that_its_packet_may_carry() {
        use Denial::*;
        for carrier in [
            PacketKind::Connack,
            PacketKind::Puback,
            PacketKind::Pubrec,
            PacketKind::Suback,
            PacketKind::Unsuback,
            PacketKind::Disconnect,
        ] {
            for &why in Denial::ALL {
                let code = code(why, carrier);
                assert!(code.is_failure() && code.fits(carrier, Sender::Server), "{why:?}");
            }
        }
        assert_eq!(code(TakenOver, PacketKind::Disconnect).number(), 0x8e);
        assert_eq!(code(BadCredentials, PacketKind::Connack).number(), 0x86);
        assert_eq!(code(NotAuthorized, PacketKind::Puback).number(), 0x87);
        assert_eq!(code(StoreFull, PacketKind::Pubrec).number(), 0x97);
        assert_eq!(code(StoreFailed, PacketKind::Puback).number(), 0x83);
        assert_eq!(code(StoreFailed, PacketKind::Connack).number(), 0x88);
        assert_eq!(code(NoShared, PacketKind::Suback).number(), 0x9e);
        assert_eq!(code(ShuttingDown, PacketKind::Connack).return_code(), Some(3));
        assert_eq!(code(NotAuthorized, PacketKind::Connack).return_code(), Some(5));
    }
}

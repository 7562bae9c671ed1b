//! From what `net` tells of an end to the laboratory's cause.
//!
//! `net` counts by [`CloseReason`], which is the server's list; the kernel's answer, the class of a
//! TLS failure and the status of a refused upgrade lie beside it as a [`Detail`]. Here both become
//! one [`Cause`], for the phase in which it happened. The logic itself counts ends that only it
//! knows: refusals and kicks in the protocol's words, cuts by plan, names without address.
//!
//! The invariant: every reason with every detail has exactly one cause, so sums agree.

use lab::cause::{Cause, Phase};
use model::close::CloseReason;
use net::{Detail, Reached};
use rustix::io::Errno;

/// The phase in which a call failed before its machine began.
pub fn phase_of(reached: Reached) -> Phase {
    match reached {
        Reached::Connect => Phase::Connect,
        Reached::Layers => Phase::Layers,
        Reached::Protocol => Phase::Bind,
    }
}

/// The cause of an end in this phase. The detail is believed before the reason.
pub fn of(phase: Phase, reason: CloseReason, detail: Detail) -> Cause {
    match detail {
        Detail::Errno(errno) => of_errno(phase, errno),
        Detail::Certificate(_) => Cause::TlsCertificate,
        Detail::Alert(_) => Cause::TlsAlert,
        Detail::Tls(_) => Cause::TlsFailed,
        Detail::Upgrade(_) => Cause::WebSocketRefused,
        Detail::Truncated => Cause::ClosedMidFrame,
        Detail::Nothing => of_reason(phase, reason),
    }
}

/// Details of a cause in a few words, for counts by code: `upgrade 403`, `alert 40`, `errno 22`.
/// They are of bounded kinds, though some numbers are the peer's.
pub fn word(detail: Detail) -> Option<String> {
    match detail {
        // Those that have a cause of their own say nothing new.
        Detail::Errno(errno) if of_errno(Phase::Online, errno) == Cause::LocalError => {
            Some(format!("errno {}", errno.raw_os_error()))
        }
        Detail::Certificate(doubt) => Some(format!("certificate {doubt}")),
        Detail::Alert(alert) => Some(format!("alert {alert}")),
        Detail::Tls(why) => Some(format!("tls {why}")),
        Detail::Upgrade(0) => Some("upgrade without HTTP".to_owned()),
        Detail::Upgrade(status) => Some(format!("upgrade {status}")),
        Detail::Errno(_) | Detail::Truncated | Detail::Nothing => None,
    }
}

/// Cause of an error of the kernel in this phase.
pub fn of_errno(phase: Phase, errno: Errno) -> Cause {
    match errno {
        Errno::MFILE => Cause::NoDescriptors,
        Errno::NFILE => Cause::NoSystemFiles,
        Errno::NOBUFS | Errno::NOMEM => Cause::NoBuffers,
        Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => Cause::NoPorts,
        Errno::NOSPC => Cause::NoWatches,
        Errno::PERM | Errno::ACCESS => Cause::Forbidden,
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::HOSTDOWN => Cause::NoRoute,
        Errno::CONNREFUSED => Cause::Refused,
        Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => Cause::Reset,
        Errno::TIMEDOUT if phase == Phase::Connect => Cause::SynTimedOut,
        Errno::TIMEDOUT => Cause::TransmitTimedOut,
        _ => Cause::LocalError,
    }
}

/// Cause of a close reason where nothing more is known.
fn of_reason(phase: Phase, reason: CloseReason) -> Cause {
    use CloseReason as R;
    let before = phase != Phase::Online;
    match reason {
        R::PeerClosed => Cause::ClosedClean,
        R::PeerClosedMidFrame => Cause::ClosedMidFrame,
        R::PeerReset => Cause::Reset,
        R::TimedOut => match phase {
            Phase::Connect => Cause::SynTimedOut,
            Phase::Layers => Cause::LayersTimedOut,
            Phase::Bind => Cause::BindTimedOut,
            Phase::Online => Cause::TransmitTimedOut,
        },
        R::KeepAliveTimeout => Cause::HeartbeatLost,
        R::BindTimeout => Cause::BindTimedOut,
        R::HandshakeTimeout => Cause::LayersTimedOut,
        R::Malformed
        | R::TooLarge
        | R::UnknownVersion
        | R::UnknownOpcode
        | R::OutOfOrder
        | R::UnknownProtocol => Cause::ProtocolViolation,
        R::TlsFailed => Cause::TlsFailed,
        R::WebSocketFailed => Cause::WebSocketRefused,
        // A client machine that was told so says it first, and the logic counts it then.
        R::ConnectRefused if phase == Phase::Connect => Cause::Refused,
        R::ConnectRefused
        | R::AuthFailed
        | R::ClockSkew
        | R::Replayed
        | R::UnknownProduct
        | R::DeviceBlocked
        | R::Banned
        | R::Busy
        | R::Quota
        | R::Replaced
        | R::AdminKick
        | R::Unbound
        | R::Draining => {
            if before {
                Cause::BindRefused
            } else {
                Cause::Kicked
            }
        }
        R::Redirected | R::NotLeading => Cause::Redirected,
        R::SlowConsumer => Cause::SlowReader,
        R::NoDescriptor => Cause::NoDescriptors,
        R::IoError | R::ConnectFailed | R::LocalLimit => Cause::LocalError,
        R::OwnStop => Cause::Farewell,
        R::ServerStopped => Cause::RunOver,
        // What only an accepting side can meet, or a table that was made too small for the plan.
        R::ProtocolNotServed
        | R::ProxyHeaderFailed
        | R::ProxyRefused
        | R::OriginRefused
        | R::HandedOver
        | R::FrameTimeout
        | R::PartialFull
        | R::Full
        | R::Internal => Cause::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CloseReason as R;
    use std::collections::BTreeSet;

    const NOTHING: Detail = Detail::Nothing;

    #[test]
    fn every_errno_of_a_call_has_its_name() {
        let table = [
            (Errno::MFILE, Cause::NoDescriptors),
            (Errno::NFILE, Cause::NoSystemFiles),
            (Errno::NOBUFS, Cause::NoBuffers),
            (Errno::NOMEM, Cause::NoBuffers),
            (Errno::ADDRNOTAVAIL, Cause::NoPorts),
            (Errno::ADDRINUSE, Cause::NoPorts),
            (Errno::NOSPC, Cause::NoWatches),
            (Errno::PERM, Cause::Forbidden),
            (Errno::ACCESS, Cause::Forbidden),
            (Errno::NETUNREACH, Cause::NoRoute),
            (Errno::HOSTUNREACH, Cause::NoRoute),
            (Errno::CONNREFUSED, Cause::Refused),
            (Errno::TIMEDOUT, Cause::SynTimedOut),
            (Errno::CONNRESET, Cause::Reset),
            (Errno::PIPE, Cause::Reset),
            (Errno::INVAL, Cause::LocalError),
        ];
        for (errno, cause) in table {
            for reason in [R::LocalLimit, R::ConnectFailed, R::PeerReset] {
                assert_eq!(of(Phase::Connect, reason, Detail::Errno(errno)), cause, "{errno}");
            }
        }
        let late = Detail::Errno(Errno::TIMEDOUT);
        assert_eq!(of(Phase::Online, R::TimedOut, late), Cause::TransmitTimedOut);
        assert_eq!(word(Detail::Errno(Errno::INVAL)), Some("errno 22".to_owned()));
        assert_eq!(word(Detail::Errno(Errno::MFILE)), None);
    }

    #[test]
    fn reasons_and_details_mean_what_the_phase_makes_of_them() {
        use Phase::{Bind, Connect, Layers, Online};
        let table = [
            (Connect, R::TimedOut, NOTHING, Cause::SynTimedOut),
            (Layers, R::TimedOut, NOTHING, Cause::LayersTimedOut),
            (Layers, R::HandshakeTimeout, NOTHING, Cause::LayersTimedOut),
            (Bind, R::TimedOut, NOTHING, Cause::BindTimedOut),
            (Bind, R::BindTimeout, NOTHING, Cause::BindTimedOut),
            (Online, R::TimedOut, NOTHING, Cause::TransmitTimedOut),
            (Online, R::KeepAliveTimeout, NOTHING, Cause::HeartbeatLost),
            (Layers, R::TlsFailed, Detail::Certificate("expired"), Cause::TlsCertificate),
            (Layers, R::TlsFailed, Detail::Alert(40), Cause::TlsAlert),
            (Bind, R::TlsFailed, Detail::Alert(116), Cause::TlsAlert),
            (Layers, R::TlsFailed, Detail::Tls("not TLS"), Cause::TlsFailed),
            (Layers, R::WebSocketFailed, Detail::Upgrade(403), Cause::WebSocketRefused),
            (Online, R::WebSocketFailed, NOTHING, Cause::WebSocketRefused),
            (Online, R::PeerClosed, NOTHING, Cause::ClosedClean),
            (Online, R::PeerClosed, Detail::Truncated, Cause::ClosedMidFrame),
            (Bind, R::PeerClosedMidFrame, NOTHING, Cause::ClosedMidFrame),
            (Online, R::SlowConsumer, NOTHING, Cause::SlowReader),
            (Bind, R::Malformed, NOTHING, Cause::ProtocolViolation),
            (Connect, R::ConnectRefused, NOTHING, Cause::Refused),
            (Bind, R::ConnectRefused, NOTHING, Cause::BindRefused),
            (Bind, R::AuthFailed, NOTHING, Cause::BindRefused),
            (Online, R::Replaced, NOTHING, Cause::Kicked),
            (Online, R::Redirected, NOTHING, Cause::Redirected),
            (Online, R::OwnStop, NOTHING, Cause::Farewell),
            (Online, R::ServerStopped, NOTHING, Cause::RunOver),
        ];
        for (phase, reason, detail, cause) in table {
            assert_eq!(of(phase, reason, detail), cause, "{phase:?} {reason:?} {detail:?}");
        }
        assert_eq!(word(Detail::Upgrade(403)), Some("upgrade 403".to_owned()));
    }

    #[test]
    fn what_is_not_the_logics_own_business_can_be_told_from_here() {
        let errnos = (1..134).map(|raw| Detail::Errno(Errno::from_raw_os_error(raw)));
        let others = [
            NOTHING,
            Detail::Certificate("expired"),
            Detail::Alert(0),
            Detail::Tls("failed"),
            Detail::Upgrade(500),
            Detail::Truncated,
        ];
        let details: Vec<Detail> = errnos.chain(others).collect();
        let mut told = BTreeSet::new();
        for phase in Phase::ALL {
            for &reason in R::ALL {
                told.extend(details.iter().map(|&detail| of(phase, reason, detail)));
            }
        }
        let own: Vec<_> = Cause::ALL.iter().filter(|cause| !told.contains(cause)).collect();
        let planned = [&Cause::Cut, &Cause::Frozen, &Cause::PlannedFault];
        let [cut, frozen, fault] = planned;
        assert_eq!(own, [&Cause::NameUnknown, cut, frozen, fault, &Cause::AgentLost]);
    }
}

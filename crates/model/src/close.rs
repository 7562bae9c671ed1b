//! Every way a connection can end: the only list of them.
//!
//! Each connection ends with exactly one [`CloseReason`], counted under its name; the sums agree
//! with the connections accepted. A machine returns one, `net` adds those that it alone can see.

/// Declares the reasons once: variant, name in logs, metrics and events, meaning.
macro_rules! reasons {
    ($($variant:ident $name:literal $meaning:literal;)+) => {
        /// Why a connection ended.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum CloseReason { $(#[doc = $meaning] $variant,)+ }

        impl CloseReason {
            /// All reasons, in the order of their counters.
            pub const ALL: &'static [CloseReason] = &[$(CloseReason::$variant,)+];

            /// The name in logs, metrics and events.
            pub const fn name(self) -> &'static str {
                match self { $(CloseReason::$variant => $name,)+ }
            }

            /// Meaning, for people.
            pub const fn meaning(self) -> &'static str {
                match self { $(CloseReason::$variant => $meaning,)+ }
            }
        }
    };
}

reasons! {
    PeerClosed "peer_closed" "The peer closed between frames.";
    PeerClosedMidFrame "peer_closed_mid_frame" "The peer closed inside a frame.";
    PeerReset "peer_reset" "The peer reset the connection.";
    Unbound "unbound" "The peer disconnected by its protocol's means (such as DISCONNECT).";
    TimedOut "timed_out" "The peer acknowledged nothing for too long (TCP_USER_TIMEOUT).";
    IoError "io_error" "Another socket error.";
    KeepAliveTimeout "keep_alive_timeout"
        "The peer was silent for longer than its keep-alive allows.";
    BindTimeout "bind_timeout" "No Bind came in time.";
    HandshakeTimeout "handshake_timeout" "TLS, WebSocket or PROXY did not finish in time.";
    FrameTimeout "frame_timeout" "An incomplete frame was not continued in time.";
    PartialFull "partial_full"
        "Memory for incomplete frames was used up, and this connection held much of it.";
    Malformed "malformed" "A frame violated its format.";
    TooLarge "too_large" "A frame was larger than allowed.";
    UnknownVersion "unknown_version" "The protocol version is not supported.";
    UnknownOpcode "unknown_opcode" "Unknown opcode, whose length cannot be determined.";
    OutOfOrder "out_of_order" "The frame is not allowed in this state.";
    UnknownProtocol "unknown_protocol" "The first bytes match no known protocol.";
    ProtocolNotServed "protocol_not_served" "A known protocol that this listener does not serve.";
    TlsFailed "tls_failed" "The TLS handshake or a record failed.";
    WebSocketFailed "web_socket_failed" "The WebSocket upgrade or a frame broke RFC 6455.";
    ProxyHeaderFailed "proxy_header_failed" "The PROXY header was missing or wrong.";
    ProxyRefused "proxy_refused" "The peer's address may not send PROXY headers.";
    OriginRefused "origin_refused" "WebSocket from a web page of an origin that is not allowed.";
    AuthFailed "auth_failed" "The credentials were refused.";
    ClockSkew "clock_skew" "The Bind's time differed too much from the server's.";
    Replayed "replayed" "The Bind's nonce had been used before.";
    UnknownProduct "unknown_product" "Unknown product.";
    DeviceBlocked "device_blocked" "The device is blocked.";
    Banned "banned" "The address, the client or the user is banned.";
    Busy "busy" "Refused with a retry time: admission rate exceeded.";
    Full "full" "Refused with a retry time: connection limit reached.";
    NoDescriptor "no_descriptor" "Reset at once: no file descriptors left, not even spare ones.";
    Quota "quota" "The peer sent more than its quota.";
    Replaced "replaced" "A newer connection of the same device took over.";
    AdminKick "admin_kick" "An operator closed the connection.";
    Redirected "redirected" "The device was redirected to another server.";
    NotLeading "not_leading" "This node of the cluster follows: it serves no clients.";
    SlowConsumer "slow_consumer" "The peer did not read, for too long or while too much came.";
    HandedOver "handed_over"
        "A request for a file or BOSH was handed to another part of the server.";
    Draining "draining" "The server is shutting down.";
    ServerStopped "server_stopped" "The drain time was over.";
    ConnectRefused "connect_refused" "An outgoing connection was refused by the other side.";
    ConnectFailed "connect_failed" "An outgoing connection failed.";
    LocalLimit "local_limit" "A limit of this machine: descriptors, ports or memory.";
    OwnStop "own_stop" "The server closed an outgoing connection that was no longer needed.";
    Internal "internal" "A defect of this server; see its log.";
}

impl CloseReason {
    /// Number of reasons: the length of a table of counters.
    pub const COUNT: usize = Self::ALL.len();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_counters_line_up() {
        let mut names: Vec<_> = CloseReason::ALL.iter().map(|r| r.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CloseReason::COUNT);
        assert!(CloseReason::ALL.iter().enumerate().all(|(at, &r)| r as usize == at));
    }

    #[test]
    fn every_reason_has_a_meaning_of_its_own() {
        let mut told: Vec<_> = CloseReason::ALL.iter().map(|r| r.meaning()).collect();
        told.sort_unstable();
        told.dedup();
        assert_eq!(told.len(), CloseReason::COUNT);
        assert_eq!(
            CloseReason::Replaced.meaning(),
            "A newer connection of the same device took over."
        );
        assert_eq!(CloseReason::PeerClosedMidFrame.name(), "peer_closed_mid_frame");
    }
}

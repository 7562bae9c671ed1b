//! The limits of the HTTP API: keys of `[api]`.

use super::MS;
use base::section;
use base::setting::whole;

section! {
    /// The limits of the API. Counts are for the whole process.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ApiLimits {
        /// Concurrent connections. One more replaces a connection that has not sent a token, or
        /// else the one that has been idle for longest; if all are being answered, it gets 503.
        @live connections_max: u32 = 512, whole(8..=65_536, "connections");
        /// Of them, those of one source: an IPv4 address, or an IPv6 /64. One more replaces another
        /// one of its source, in the same order. 0: half of connections_max.
        @live connections_a_source_max: u32 = 0, whole(0..=65_536, "connections");
        /// Concurrent event streams. One more gets 503.
        @live streams_max: u32 = 64, whole(0..=65_536, "streams");
        /// Of them, those of one source. One more gets 503. 0: half of streams_max.
        @live streams_a_source_max: u32 = 0, whole(0..=65_536, "streams");
        /// Concurrent traces, which are event streams, too. One more gets 503.
        @live traces_max: u32 = 8, whole(0..=64, "traces");
        /// Longest trace. A request for a longer one is refused (400).
        @live trace_s_max: u32 = 3_600, whole(1..=86_400, "seconds");
        /// Events of a trace in a second. More are left out, and the trace reports how many.
        @live trace_events_per_s_max: u32 = 1_000, whole(1..=100_000, "events a second");
        /// Bytes waiting to be decoded for a trace. Beyond, they are left out, and the trace
        /// reports how many.
        @live trace_waiting_bytes_max: u32 = 1024 * 1024, whole(65_536..=1 << 30, "bytes");
        /// Longest payload that a trace shows whole. Longer ones are cut to this.
        @live trace_payload_bytes_max: u32 = 64 * 1024, whole(64..=1 << 24, "bytes");
        /// Connections that all traces together follow, a shard. Traffic of others is left out, and
        /// the trace reports it.
        @live trace_connections_max: u32 = 4_096, whole(1..=1_000_000, "connections a shard");
        /// Connections, a shard, whose first bytes are kept until it is known whether a trace
        /// follows them. Others are shown only from their login on.
        @live trace_newcomers_max: u32 = 512, whole(0..=65_536, "connections a shard");
        /// Timeout for the head of a request. After it, the connection is closed.
        @live head_ms_max: u32 = 10_000, whole(100..=MS, "milliseconds");
        /// Timeout for the body of a request. After it, the request is refused (408).
        @live body_ms_max: u32 = 30_000, whole(100..=MS, "milliseconds");
        /// Time between two requests of a caller that has sent a token. After it, the connection is
        /// closed.
        @live idle_ms_max: u32 = 75_000, whole(100..=MS, "milliseconds");
        /// Time in which a caller reads nothing of what it is sent. After it, the connection is
        /// closed.
        @live write_ms_max: u32 = 30_000, whole(100..=MS, "milliseconds");
        /// Bytes of the bodies of all requests in progress; the largest single body that is allowed
        /// always fits. Beyond, a request gets 503.
        @live bodies_bytes_max: u64 = 64 * 1024 * 1024, whole(1 << 20..=1 << 36, "bytes");
        /// Tokens, in addition to the first one. One more is refused.
        @live tokens_max: u32 = 1_000, whole(0..=1_000_000, "tokens");
        /// Warnings and errors of the log that are kept in memory for /v1/log. The oldest are
        /// dropped.
        @live log_lines_max: u32 = 1_000, whole(0..=100_000, "lines");
        /// Concurrent console sessions. One more ends the session that has been idle for longest.
        @live console_sessions_max: u32 = 256, whole(1..=65_536, "sessions");
        /// Of them, those that were begun from one source. One more ends the one of these that has
        /// been idle for longest. 0: half of console_sessions_max.
        @live console_sessions_a_source_max: u32 = 0, whole(0..=65_536, "sessions");
        /// Time after which an idle console session ends. A visible page with live figures keeps
        /// its session alive.
        @live console_idle_s_max: u32 = 30 * 60, whole(1..=604_800, "seconds");
        /// Time after which a console session ends, even if it is used.
        @live console_age_s_max: u32 = 12 * 3_600, whole(1..=604_800, "seconds");
        /// Wrong tokens in a minute from one source (an IPv4 address, or an IPv6 /64) that tries to
        /// log in to the console. Beyond, every attempt is refused (429), even with a valid token.
        @live console_failures_a_source_max: u32 = 10, whole(1..=10_000, "log-ins a minute");
        /// Size of the audit log of calls in the data folder. When it is full, the older half is
        /// deleted.
        @live audit_log_bytes_max: u64 = 64 * 1024 * 1024, whole(64 << 10..=1 << 36, "bytes");
    }
}

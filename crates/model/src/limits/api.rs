//! The limits of the HTTP API: keys of `[api]`.

use super::MS;
use base::section;
use base::setting::whole;

section! {
    /// The limits of the API. Counts are for the whole process.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ApiLimits {
        /// Connections held. One more takes the place of one that has not shown a token, else of
        /// one that has asked nothing for longest; where all are being answered it is told to come
        /// back (503).
        connections_max: u32 = 512, whole(8..=65_536, "connections");
        /// Of them, those of one source: an IPv4 address, or a /64 of IPv6. One more takes the
        /// place of another one of its source, in the same order. 0: half of connections_max.
        connections_a_source_max: u32 = 0, whole(0..=65_536, "connections");
        /// Event streams at once. One more is told to come back (503).
        streams_max: u32 = 64, whole(0..=65_536, "streams");
        /// Of them, those of one source. One more is told to come back (503). 0: half of
        /// streams_max.
        streams_a_source_max: u32 = 0, whole(0..=65_536, "streams");
        /// Traces at once; they are event streams, too. One more is told to come back (503).
        traces_max: u32 = 8, whole(0..=64, "traces");
        /// Longest time that a trace goes on. One that wants more is refused (400).
        trace_s_max: u32 = 3_600, whole(1..=86_400, "seconds");
        /// Events that a trace tells in a second. More are left out, and it tells how many.
        trace_events_per_s_max: u32 = 1_000, whole(1..=100_000, "events a second");
        /// Bytes that wait to be decoded for a trace. What comes beyond is left out, and it tells
        /// how much.
        trace_waiting_bytes_max: u32 = 1024 * 1024, whole(65_536..=1 << 30, "bytes");
        /// Longest payload that a trace shows whole. Of a longer one this much is shown.
        trace_payload_bytes_max: u32 = 64 * 1024, whole(64..=1 << 24, "bytes");
        /// Connections that all traces together follow, a shard. What others do is left out, and
        /// told so.
        trace_connections_max: u32 = 4_096, whole(1..=1_000_000, "connections a shard");
        /// Connections of which is remembered what they say before it is known whether a trace
        /// follows them, a shard. Of others it is shown from their login on.
        trace_newcomers_max: u32 = 512, whole(0..=65_536, "connections a shard");
        /// Time for the head of a request. Then the connection ends.
        head_ms_max: u32 = 10_000, whole(100..=MS, "milliseconds");
        /// Time for the body of a request. Then it is refused (408).
        body_ms_max: u32 = 30_000, whole(100..=MS, "milliseconds");
        /// Time between two requests of a caller that has shown a token. Then the connection ends.
        idle_ms_max: u32 = 75_000, whole(100..=MS, "milliseconds");
        /// Time in which a caller takes nothing of what it is sent. Then the connection ends.
        write_ms_max: u32 = 30_000, whole(100..=MS, "milliseconds");
        /// Bodies of all requests that are read or answered; the largest that is allowed alone
        /// always fits. Beyond, a request is told to come back (503).
        bodies_bytes_max: u64 = 64 * 1024 * 1024, whole(1 << 20..=1 << 36, "bytes");
        /// Tokens, beside the first one. One more is refused.
        tokens_max: u32 = 1_000, whole(0..=1_000_000, "tokens");
        /// Warnings and errors of the log that are kept in memory for /v1/log. The oldest make
        /// room.
        log_lines_max: u32 = 1_000, whole(0..=100_000, "lines");
        /// Sessions of the console at once, of all who logged in. One more ends the one that has
        /// asked nothing for longest.
        console_sessions_max: u32 = 256, whole(1..=65_536, "sessions");
        /// Of them, those that were begun from one source. One more ends the one of these that has
        /// asked nothing for longest. 0: half of console_sessions_max.
        console_sessions_a_source_max: u32 = 0, whole(0..=65_536, "sessions");
        /// Time after which a session of the console that asks nothing ends. A page that is in
        /// front and shows live figures asks.
        console_idle_s_max: u32 = 30 * 60, whole(1..=604_800, "seconds");
        /// Time after which a session of the console ends, whatever it asks.
        console_age_s_max: u32 = 12 * 3_600, whole(1..=604_800, "seconds");
        /// Wrong tokens that one source (an IPv4 address, or a /64 of IPv6) may try in a minute to
        /// log in to the console. One more is told to come back (429), and so is a right one.
        console_failures_a_source_max: u32 = 10, whole(1..=10_000, "log-ins a minute");
        /// The audit log of calls, in the data folder. The older half makes room.
        audit_log_bytes_max: u64 = 64 * 1024 * 1024, whole(64 << 10..=1 << 36, "bytes");
    }
}

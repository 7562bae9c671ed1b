//! Limits of the traffic between this server and other domains.

use super::MS;
use base::section;
use base::setting::whole;

/// Any number.
const ANY: u64 = u32::MAX as u64;

section! {
    /// Limits of streams with other servers and components, for the whole process.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct FederationLimits {
        /// Concurrent connections of other servers and components. One more is closed.
        @live streams_max: u32 = 4_096, whole(1..=1_000_000, "connections");
        /// Domains with traffic or a queue. Stanzas for one more are refused (resource-constraint).
        @live domains_max: u32 = 4_096, whole(1..=1_000_000, "domains");
        /// Of them, unreachable or not yet reached domains that one account caused to be called.
        /// Its stanzas for one more are refused (resource-constraint).
        @live domains_an_account_max: u32 = 256, whole(1..=1_000_000, "domains");
        /// Dialback keys of one source address (an IPv6 /64) that are being verified. One more is
        /// answered with an error: not verified.
        @live keys_a_source_max: u32 = 64, whole(1..=1_024, "keys");
        /// Stanzas queued for one domain, not counting messages found at a start. One more is
        /// refused (resource-constraint).
        @live waiting_max: u32 = 1_000, whole(1..=1_000_000, "stanzas");
        /// Bytes of these, and of stanzas that its server has not acknowledged. Beyond, stanzas are
        /// refused, too.
        @live waiting_bytes_max: u64 = 4 * 1024 * 1024, whole(65_536..=1 << 32, "bytes");
        /// Bytes on the way to other domains within this server. Beyond, stored messages wait;
        /// other stanzas are dropped and counted.
        @live handed_bytes_max: u64 = 64 * 1024 * 1024, whole(65_536..=1 << 40, "bytes");
        /// How long a stanza waits for a stream to its domain. After it, it is refused
        /// (remote-server-timeout).
        @live waiting_ms_max: u32 = 30_000, whole(100..=MS, "milliseconds");
        /// How long an unreachable domain is not called again. Until then, stanzas for it are
        /// refused at once, except messages found at a start: those wait, and the domain is called
        /// again at least every five seconds.
        @live pause_ms: u32 = 30_000, whole(0..=MS, "milliseconds");
        /// Time in which a stream must be authenticated, including TLS and dialback. After it, the
        /// stream is closed.
        @live begin_ms_max: u32 = 20_000, whole(100..=MS, "milliseconds");
        /// Bytes a second that the server reads of one stream of another server or component, with
        /// 512 added for each stanza; twice as many at once. A stream that sends more is read more
        /// slowly, nothing is refused. 0: no limit.
        @live stream_bytes_per_s: u32 = 4 * 1024 * 1024, whole(0..=ANY, "bytes a second");
        /// Idle time after which a stream between servers is closed.
        @live idle_s_max: u32 = 600, whole(10..=86_400, "seconds");
        /// Time in which another server with stream management (XEP-0198) must acknowledge stanzas.
        /// After it, the stream is closed, and unacknowledged stanzas are sent again over another
        /// one.
        @live acknowledged_ms_max: u32 = 30_000, whole(100..=MS, "milliseconds");
        /// Stanzas from other domains being processed. One more is refused (resource-constraint).
        @live taking_max: u32 = 16_384, whole(16..=1_000_000, "stanzas");
        /// Bytes of these. Beyond, stanzas are refused, too.
        @live taking_bytes_max: u64 = 64 * 1024 * 1024, whole(65_536..=1 << 40, "bytes");
        /// Notifications that external push services have not answered. One more is postponed.
        @live pushes_max: u32 = 4_096, whole(1..=1_000_000, "notifications");
        /// Those of one service. One more is postponed.
        @live pushes_a_service_max: u32 = 256, whole(1..=1_000_000, "notifications");
        /// Timeout of such a service's answer, including the call to its domain. After it, the
        /// notification has failed.
        @live push_ms_max: u32 = 60_000, whole(100..=MS, "milliseconds");
        /// Users of other servers in rooms of this one. One more does not enter
        /// (resource-constraint).
        @live occupants_max: u32 = 16_384, whole(0..=1_000_000, "devices");
        /// Those of one domain. One more does not enter.
        @live occupants_a_domain_max: u32 = 1_000, whole(0..=1_000_000, "devices");
    }
}

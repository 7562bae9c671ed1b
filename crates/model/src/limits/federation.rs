//! Limits of what passes between this server and other domains.

use super::MS;
use base::section;
use base::setting::whole;

section! {
    /// Limits of streams with other servers and components, of the whole process.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct FederationLimits {
        /// Connections of other servers and components at once. One more is closed.
        streams_max: u32 = 4_096, whole(1..=1_000_000, "connections");
        /// Domains that something is said to, or waits for. What is for one more is refused
        /// (resource-constraint).
        domains_max: u32 = 4_096, whole(1..=1_000_000, "domains");
        /// Domains among them that one account has caused to be called and that are not reached, or
        /// not yet. What it says to one more is refused (resource-constraint).
        domains_an_account_max: u32 = 256, whole(1..=1_000_000, "domains");
        /// Keys of dialback that one source address (of IPv6 a /64) shows and that are being asked
        /// about. Of one more it is told that nobody could say.
        keys_a_source_max: u32 = 64, whole(1..=1_024, "keys");
        /// Stanzas that may wait for one domain, beside messages that a start found. One more is
        /// refused (resource-constraint).
        waiting_max: u32 = 1_000, whole(1..=1_000_000, "stanzas");
        /// Their bytes, with those of stanzas that its server has not said to have. Beyond,
        /// likewise.
        waiting_bytes_max: u64 = 4 * 1024 * 1024, whole(65_536..=1 << 32, "bytes");
        /// Bytes that may be on their way to other domains within this server. Beyond, messages
        /// that are stored wait; what else is said to them is dropped and counted.
        handed_bytes_max: u64 = 64 * 1024 * 1024, whole(65_536..=1 << 40, "bytes");
        /// How long a stanza waits for a stream to its domain. Then it is refused
        /// (remote-server-timeout).
        waiting_ms_max: u32 = 30_000, whole(100..=MS, "milliseconds");
        /// How long a domain is not called again that was not reached. What is for it until then is
        /// refused at once, but for messages that a start found: those wait, and it is called again
        /// every five seconds at least.
        pause_ms: u32 = 30_000, whole(0..=MS, "milliseconds");
        /// Time until a stream must be of a domain, TLS and dialback included. Then it ends.
        begin_ms_max: u32 = 20_000, whole(100..=MS, "milliseconds");
        /// Time after which a stream between servers ends on which nothing is heard.
        idle_s_max: u32 = 600, whole(10..=86_400, "seconds");
        /// How long another server that counts (XEP-0198) may take to say that it has what was
        /// said to it. Then the stream ends, and what it has not is said again over another.
        acknowledged_ms_max: u32 = 30_000, whole(100..=MS, "milliseconds");
        /// Stanzas of other domains that are being taken in. One more is refused
        /// (resource-constraint).
        taking_max: u32 = 16_384, whole(16..=1_000_000, "stanzas");
        /// Their bytes. Beyond, likewise.
        taking_bytes_max: u64 = 64 * 1024 * 1024, whole(65_536..=1 << 40, "bytes");
        /// Notifications that push services elsewhere have not answered. One more is put off.
        pushes_max: u32 = 4_096, whole(1..=1_000_000, "notifications");
        /// Those of one service. Likewise.
        pushes_a_service_max: u32 = 256, whole(1..=1_000_000, "notifications");
        /// How long such a service has for its answer, with its domain called. Then it has failed.
        push_ms_max: u32 = 60_000, whole(100..=MS, "milliseconds");
        /// Devices of other servers that may be in rooms of this one. One more does not enter
        /// (resource-constraint).
        occupants_max: u32 = 16_384, whole(0..=1_000_000, "devices");
        /// Those of one domain. Likewise.
        occupants_a_domain_max: u32 = 1_000, whole(0..=1_000_000, "devices");
    }
}

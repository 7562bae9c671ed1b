//! The limits of XMPP over HTTP (BOSH): keys of `[bosh]`.

use base::section;
use base::setting::{text, whole};

section! {
    /// `[bosh]`: XMPP over HTTP.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct BoshLimits {
        /// Scheme and host of the BOSH listeners, such as "https://chat.example.org", as host-meta
        /// announces them. "" is the host that was requested.
        @live url: String = String::new(),
            text("an http:// or https:// host, or empty", is_url_or_none);
        /// Concurrent HTTP connections. One more gets 503.
        @live connections_max: u32 = 8_192, whole(1..=1_000_000, "connections");
        /// Of them, those of one source: an IPv4 address, or an IPv6 /64. One more gets 503. 0:
        /// half of connections_max. All connections of a proxy without PROXY header have the same
        /// source.
        @live connections_a_source_max: u32 = 0, whole(0..=1_000_000, "connections");
        /// Concurrent sessions, each also counted in [limits] connections_max. One more gets 503.
        @live sessions_max: u32 = 4_096, whole(1..=1_000_000, "sessions");
        /// Of them, those of one source. One more gets 503. 0: half of sessions_max.
        @live sessions_a_source_max: u32 = 0, whole(0..=1_000_000, "sessions");
        /// Bytes of requests being read, all connections together. A request beyond them gets 503.
        @live reading_bytes_max: u32 = 64 * 1024 * 1024, whole(1 << 20..=1 << 30, "bytes");
        /// Of them, those of one source. 0: half of reading_bytes_max.
        @live reading_bytes_a_source_max: u32 = 0, whole(0..=1 << 30, "bytes");
        /// Longest time that a response is held if there is nothing to send; a client may ask for
        /// less.
        @live wait_s_max: u32 = 60, whole(1..=600, "seconds");
        /// Time without a request after which a session ends.
        @live inactivity_s: u32 = 60, whole(5..=3_600, "seconds");
        /// Longest pause without requests that a client may announce, once. A longer one ends its
        /// session (policy-violation).
        @live pause_s_max: u32 = 120, whole(5..=3_600, "seconds");
        /// Bytes of stanzas waiting for a request. Beyond, they are queued as for any slow reader
        /// ([limits] out_bytes_max).
        @live waiting_bytes_max: u32 = 64 * 1024, whole(4_096..=1 << 24, "bytes");
    }
}

fn is_url_or_none(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._:[]/".contains(&b);
    text.is_empty() || host.is_some_and(|host| !host.is_empty() && host.bytes().all(is_plain))
}

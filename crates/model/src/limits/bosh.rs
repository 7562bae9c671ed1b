//! The limits of XMPP in requests of HTTP: keys of `[bosh]`.

use base::section;
use base::setting::{text, whole};

section! {
    /// `[bosh]`: sessions of XMPP in requests of HTTP.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct BoshLimits {
        /// Under which scheme and host its listeners are reached, such as
        /// "https://chat.example.org", as host-meta tells it. "" is the host that is asked for.
        url: String = String::new(), text("an http:// or https:// host, or empty", is_url_or_none);
        /// Connections of HTTP at once. One more is answered 503.
        connections_max: u32 = 8_192, whole(1..=1_000_000, "connections");
        /// Of them, those of one source: an IPv4 address, or a /64 of IPv6. One more is answered
        /// 503. 0: half of connections_max. All that a proxy brings without a PROXY header is of
        /// one source.
        connections_a_source_max: u32 = 0, whole(0..=1_000_000, "connections");
        /// Sessions at once, each a connection more of [limits] connections_max. One more is
        /// answered 503.
        sessions_max: u32 = 4_096, whole(1..=1_000_000, "sessions");
        /// Of them, those of one source. One more is answered 503. 0: half of sessions_max.
        sessions_a_source_max: u32 = 0, whole(0..=1_000_000, "sessions");
        /// Bytes of requests that are being read, of all connections. A request that would make it
        /// more is answered 503.
        reading_bytes_max: u32 = 64 * 1024 * 1024, whole(1 << 20..=1 << 30, "bytes");
        /// Of them, those of one source. 0: half of reading_bytes_max.
        reading_bytes_a_source_max: u32 = 0, whole(0..=1 << 30, "bytes");
        /// How long an answer may be held for want of something to say; a client may wish for less.
        wait_s_max: u32 = 60, whole(1..=600, "seconds");
        /// Time without a request after which a session ends.
        inactivity_s: u32 = 60, whole(5..=3_600, "seconds");
        /// Time that a client may announce to be without one, once. For more its session ends
        /// (policy-violation).
        pause_s_max: u32 = 120, whole(5..=3_600, "seconds");
        /// Bytes of stanzas that may wait for a request. Beyond, they wait where those of every
        /// slow reader do ([limits] out_bytes_max).
        waiting_bytes_max: u32 = 64 * 1024, whole(4_096..=1 << 24, "bytes");
    }
}

fn is_url_or_none(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._:[]/".contains(&b);
    text.is_empty() || host.is_some_and(|host| !host.is_empty() && host.bytes().all(is_plain))
}

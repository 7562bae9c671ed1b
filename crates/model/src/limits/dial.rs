//! Limits of outgoing calls by host name.
//!
//! Each caller has its own group of them; nothing here is read from the configuration.

/// Limits of one caller's calls on one shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DialLimits {
    /// Concurrent calls. One more fails at once.
    pub calls_max: usize,
    /// Addresses tried for one call, of all its hosts. The rest are not tried.
    pub addresses_max: usize,
    /// Milliseconds for the answer to a look-up. After it, the host counts as not found.
    pub resolve_ms_max: u32,
    /// Milliseconds until TCP is connected to one address. After it, the next one is tried. Later
    /// steps, TLS above all, are limited by `Limits::bind_ms_max`.
    pub connect_ms_max: u32,
    /// Milliseconds after which a second address is tried in parallel to the first (RFC 8305 8).
    pub attempt_delay_ms: u32,
}

impl Default for DialLimits {
    fn default() -> DialLimits {
        DialLimits {
            calls_max: 1_024,
            addresses_max: 16,
            resolve_ms_max: 5_000,
            connect_ms_max: 10_000,
            attempt_delay_ms: 250,
        }
    }
}

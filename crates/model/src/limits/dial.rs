//! Limits of calls that this process makes by name.
//!
//! They belong to whoever makes the calls, which has a group of them; nothing is read from the
//! configuration here.

/// Limits of the calls of one caller on one shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DialLimits {
    /// Calls under way. One more fails at once.
    pub calls_max: usize,
    /// Addresses that are tried for one call, of all its hosts. Those beyond are not.
    pub addresses_max: usize,
    /// Milliseconds for the answer to a look-up. Then the host counts as not found.
    pub resolve_ms_max: u32,
    /// Milliseconds until TCP stands with one address. Then the next is tried. What follows, TLS
    /// above all, has `Limits::bind_ms_max`.
    pub connect_ms_max: u32,
    /// Milliseconds after which a second address is tried beside the first (RFC 8305 8).
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

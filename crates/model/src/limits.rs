//! Every limit that is not a product's own: name, unit, default, and what happens at it.
//!
//! Set from configuration; the relations between them are checked where they are set
//! ([`Limits::check`]). A limit that is a constant of a format stands with the format.

/// The limits of one process. Counts are for the whole process unless they say "a shard".
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections held. One more is told BUSY and closed.
    pub connections_max: u32,
    /// Connections beyond `connections_max` that are let in to be told BUSY. One more is reset.
    pub crowd_max: u32,
    /// Binds admitted a second. One more is told BUSY with a time to come back.
    pub binds_per_s: u32,
    /// Connections taken from a listener in one turn of a shard. The rest wait in its backlog.
    pub accepts_per_turn: u32,
    /// Milliseconds from accept to a Bind. Then the connection ends.
    pub bind_ms_max: u32,
    /// Bytes of a frame before its connection is bound. A larger one ends the connection.
    pub frame_bytes_unbound_max: u32,
    /// Bytes of a frame afterwards. A larger one ends the connection.
    pub frame_bytes_max: u32,
    /// Binds on one connection (MIOP 5 carries several). One more is refused.
    pub binds_a_connection_max: u16,
    /// Bytes waiting to be written to one connection. Beyond, the reader is too slow: it ends.
    pub out_bytes_max: u32,
    /// Frames waiting to be written to one connection. Beyond, the same.
    pub out_frames_max: u32,
    /// Milliseconds that sent bytes may stay unacknowledged by the peer's kernel.
    pub tcp_user_timeout_ms: u32,
    /// Letters waiting in the mailbox of a shard. Beyond, the sender is told to slow down.
    pub mailbox_letters_max: u32,
    /// Devices with a record, online or not. Beyond, Binds are told BUSY and pushes rejected.
    pub devices_max: u32,
    /// Stored pushes of all devices, bytes in memory. Beyond, pushes are rejected.
    pub offline_bytes_max: u64,
    /// Bytes of a push's body. A larger one is refused by the API.
    pub push_bytes_max: u32,
    /// Devices in one push order's list. A longer list is refused by the API.
    pub push_devices_max: u32,
    /// Tags a device may carry. One more is refused.
    pub tags_a_device_max: u16,
    /// Push orders whose counts are remembered, a shard. The oldest is forgotten.
    pub jobs_max: u32,
    /// Seconds an offline device without stored pushes is remembered.
    pub forget_after_s: u32,
    /// Events waiting for a subscriber. Beyond, they are dropped and the gap is told and counted.
    pub events_waiting_max: u32,
    /// Deliveries of a fan-out between two looks at the sockets.
    pub fan_out_slice: u32,
    /// Milliseconds added at random to a time to come back, so that nobody returns in step.
    pub retry_jitter_ms: u32,
    /// Milliseconds over which a drain lets its connections go.
    pub drain_ms: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 1_000_000,
            crowd_max: 256,
            binds_per_s: 20_000,
            accepts_per_turn: 64,
            bind_ms_max: 10_000,
            frame_bytes_unbound_max: 4 * 1024,
            frame_bytes_max: 64 * 1024,
            binds_a_connection_max: 16,
            out_bytes_max: 1024 * 1024,
            out_frames_max: 4_096,
            tcp_user_timeout_ms: 30_000,
            mailbox_letters_max: 65_536,
            devices_max: 4_000_000,
            offline_bytes_max: 1024 * 1024 * 1024,
            push_bytes_max: 4 * 1024,
            push_devices_max: 1_000,
            tags_a_device_max: 32,
            jobs_max: 1_024,
            forget_after_s: 7 * 24 * 3_600,
            events_waiting_max: 65_536,
            fan_out_slice: 32,
            retry_jitter_ms: 5_000,
            drain_ms: 10_000,
        }
    }
}

/// The largest frame any configuration may allow: what classic clients can hold (5 MiB static
/// buffer of the version 5 client) is more, what one read of a shard should carry is this.
pub const FRAME_BYTES_HARD_MAX: u32 = 1024 * 1024;

/// Longest time before any limit of milliseconds, one day.
pub const MS_HARD_MAX: u32 = 24 * 3_600 * 1000;

impl Limits {
    /// The first relation that does not hold, in words.
    pub fn check(&self) -> Result<(), &'static str> {
        let rules = [
            (
                self.frame_bytes_unbound_max <= self.frame_bytes_max,
                "frame_bytes_unbound_max must not be above frame_bytes_max",
            ),
            (
                self.frame_bytes_max <= FRAME_BYTES_HARD_MAX,
                "frame_bytes_max must not be above 1048576",
            ),
            (
                self.push_bytes_max + 1_024 <= self.frame_bytes_max,
                "push_bytes_max must leave 1024 bytes of frame_bytes_max for the frame itself",
            ),
            (
                self.out_bytes_max >= self.frame_bytes_max,
                "out_bytes_max must hold at least one frame of frame_bytes_max",
            ),
            (self.out_frames_max > 0, "out_frames_max must be at least 1"),
            (self.fan_out_slice > 0, "fan_out_slice must be at least 1"),
            (self.accepts_per_turn > 0, "accepts_per_turn must be at least 1"),
            (self.binds_a_connection_max > 0, "binds_a_connection_max must be at least 1"),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, rule)| Err(rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_agree_with_each_other() {
        assert_eq!(Limits::default().check(), Ok(()));
    }

    #[test]
    fn a_broken_relation_is_named() {
        let limits = Limits { out_bytes_max: 100, ..Limits::default() };
        assert!(limits.check().is_err_and(|rule| rule.starts_with("out_bytes_max")));
    }
}

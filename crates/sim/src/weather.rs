//! Weather of a simulated network: what may go wrong, and how often.
//!
//! Every figure that ends in `_in` means "once in so many times"; zero means never. A world draws
//! all of them from its seed, a scenario sets the one it is about.

use base::prng::Prng;

/// How a network behaves.
#[derive(Clone, Debug)]
pub struct Weather {
    /// Least time a segment travels, microseconds.
    pub latency_us: u64,
    /// Most time that comes on top at random, microseconds.
    pub jitter_us: u64,
    /// Least bytes that may be on the way or unread in one direction.
    pub window_bytes_min: u64,
    /// Most bytes.
    pub window_bytes_max: u64,
    /// Sends whose bytes arrive in several segments, up to one for each byte.
    pub split_in: u64,
    /// Sends that take less than there is room for.
    pub short_write_in: u64,
    /// Sends at which somebody in between resets the connection.
    pub reset_in: u64,
    /// Sends of a caller that ends, with a FIN, after some of the bytes.
    pub cut_in: u64,
    /// Sends after which nothing arrives any more, in either direction.
    pub vanish_in: u64,
    /// Calls whose caller stops reading after a while.
    pub stall_in: u64,
    /// Accepts that find no descriptor.
    pub no_descriptor_in: u64,
    /// Shard messages that find a full mailbox.
    pub refuse_shard_message_in: u64,
    /// Looks into a mailbox that find only some of what was posted.
    pub hold_shard_message_in: u64,
    /// Shards that come to a thread and cannot be waited for with its others.
    pub refuse_nest_in: u64,
    /// Steps at which the wall clock jumps, in either direction.
    pub wall_jump_in: u64,
    /// Steps at which time leaps for everybody, as when a machine was suspended.
    pub leap_in: u64,
    /// Milliseconds of the longest leap.
    pub leap_ms_max: u64,
    /// Milliseconds until bytes that nobody acknowledges end a connection.
    pub user_timeout_ms: u64,
    /// Microseconds that a thread of the server is busy with each call for a connection.
    pub call_us: u64,
}

impl Weather {
    /// A network without faults, a millisecond wide.
    pub fn calm() -> Weather {
        Weather {
            latency_us: 500,
            jitter_us: 0,
            window_bytes_min: 256 * 1024,
            window_bytes_max: 256 * 1024,
            split_in: 0,
            short_write_in: 0,
            reset_in: 0,
            cut_in: 0,
            vanish_in: 0,
            stall_in: 0,
            no_descriptor_in: 0,
            refuse_shard_message_in: 0,
            hold_shard_message_in: 0,
            refuse_nest_in: 0,
            wall_jump_in: 0,
            leap_in: 0,
            leap_ms_max: 0,
            user_timeout_ms: 30_000,
            call_us: 0,
        }
    }

    /// A network whose faults follow from the generator: some worlds have none of a kind, some
    /// many.
    pub fn drawn(rng: &mut Prng) -> Weather {
        let mut rate = |often: u64| match rng.below(3) {
            0 => 0,
            1 => often * 8,
            _ => often,
        };
        Weather {
            split_in: rate(2),
            short_write_in: rate(4),
            reset_in: rate(60),
            cut_in: rate(60),
            vanish_in: rate(150),
            stall_in: rate(12),
            no_descriptor_in: rate(20),
            refuse_shard_message_in: rate(12),
            hold_shard_message_in: rate(3),
            wall_jump_in: rate(500),
            leap_in: rate(300),
            leap_ms_max: 20_000,
            latency_us: 1 + rng.below(30_000),
            jitter_us: rng.below(60_000),
            window_bytes_min: 1 + rng.below(4_000),
            window_bytes_max: 4_096 + rng.below(100_000),
            user_timeout_ms: 30_000,
            refuse_nest_in: [0, 4, 40][rng.below(3) as usize],
            call_us: [0, 0, 50, 1_000][rng.below(4) as usize],
        }
    }

    /// The weather once its faults are over; what is slow or narrow stays so.
    pub fn cleared(&self) -> Weather {
        Weather {
            latency_us: self.latency_us,
            jitter_us: self.jitter_us,
            window_bytes_min: self.window_bytes_min,
            window_bytes_max: self.window_bytes_max,
            split_in: self.split_in,
            ..Weather::calm()
        }
    }
}

//! The time in front of a push's body, by which its latency is known where it arrives.
//!
//! Eight bytes, big-endian: the mark 0x4c54 in the upper 16 bits, Unix time in microseconds in the
//! lower 48 (it wraps after nine years). Any process of the same machine can write it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of a stamp.
pub const STAMP_BYTES: usize = 8;

const MARK: u64 = 0x4c54;
const TIME_BITS: u32 = 48;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
/// Longest latency that is believed, microseconds: beyond, the body only looks like a stamp.
const LATENCY_US_MAX: u64 = 7 * 24 * 3_600 * 1_000_000;

/// A stamp of this moment, to put in front of a body.
pub fn stamp() -> [u8; STAMP_BYTES] {
    stamp_at(wall_us())
}

/// A stamp of another moment, Unix time in microseconds.
pub fn stamp_at(wall_us: u64) -> [u8; STAMP_BYTES] {
    ((MARK << TIME_BITS) | (wall_us & TIME_MASK)).to_be_bytes()
}

/// Microseconds since the stamp in front of `body`, if it has one. A stamp from the future, by as
/// much as clocks read a moment apart may differ, counts as zero.
pub fn since_stamp(body: &[u8], wall_us: u64) -> Option<u64> {
    let stamp = u64::from_be_bytes(*body.first_chunk::<STAMP_BYTES>()?);
    if stamp >> TIME_BITS != MARK {
        return None;
    }
    let latency = wall_us.wrapping_sub(stamp) & TIME_MASK;
    match latency {
        0..=LATENCY_US_MAX => Some(latency),
        _ if TIME_MASK - latency < 1_000_000 => Some(0),
        _ => None,
    }
}

/// The wall clock, microseconds.
#[expect(clippy::disallowed_methods, reason = "the laboratory measures time")]
pub(crate) fn wall_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_tells_its_age_and_nothing_else_does() {
        let at = 1_790_000_000_000_000;
        let mut body = stamp_at(at).to_vec();
        body.extend_from_slice(b"text");
        assert_eq!(since_stamp(&body, at + 1_234), Some(1_234));
        assert_eq!(since_stamp(&body, at - 3), Some(0));
        assert_eq!(since_stamp(&body, at - 3_600_000_000), None);
        assert_eq!(since_stamp(&body[1..], at), None);
        assert_eq!(since_stamp(b"short", at), None);
    }
}

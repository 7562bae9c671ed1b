//! Records: the units of a segment, each with its length and checksum.
//!
//! ```text
//! | length u32 | crc32 u32 | kind u8 | payload: length bytes |   little endian
//! ```
//! The checksum covers length, kind and payload. This file knows frames and bytes; what a payload
//! means is `entry`'s. Invariant: [`read`] returns a record only if every byte of it is
//! as it was written.

use crate::log::record::{HEAD_BYTES, PAYLOAD_BYTES_MAX, checksum, frame};

/// First bytes of every segment's first payload.
const MAGIC: &[u8; 8] = b"HOLDJRNL";

/// Version of the records of a segment.
pub(crate) const VERSION: u16 = 1;

/// What a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    /// First of a segment: which one it is.
    Segment = 1,
    /// Everything before this place was on stable storage when it was written.
    Synced = 2,
    /// A push, once a segment.
    Body = 3,
    /// A push waits for a device.
    Waits = 4,
    /// It waits no more.
    Over = 5,
    /// A product as it is from now on.
    Product = 6,
    /// A product is gone.
    NoProduct = 7,
    /// A device is blocked, or no longer.
    Blocked = 8,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Kind> {
        use Kind::*;
        let all = [Segment, Synced, Body, Waits, Over, Product, NoProduct, Blocked];
        all.into_iter().find(|&kind| kind as u8 == byte)
    }
}

/// Appends a record whose payload is what `fill` writes.
pub(crate) fn write(kind: Kind, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    frame(kind as u8, out, fill);
}

/// Appends the first record of segment `number`; `last_id` is the highest push id ever seen.
#[cfg(test)]
pub(crate) fn write_segment(number: u64, last_id: u64, out: &mut Vec<u8>) {
    write(Kind::Segment, out, |out| {
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&last_id.to_le_bytes());
    });
}

/// What a segment's first record says: its version, number and highest push id.
pub(crate) fn read_segment(payload: &[u8]) -> Option<(u16, u64, u64)> {
    let rest = payload.strip_prefix(MAGIC)?;
    let (version, rest) = rest.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    let last_id = rest.try_into().ok()?;
    Some((u16::from_le_bytes(*version), u64::from_le_bytes(*number), u64::from_le_bytes(last_id)))
}

/// Appends the mark that everything before `offset` of segment `number` is on stable storage.
pub(crate) fn write_synced(number: u64, offset: u64, out: &mut Vec<u8>) {
    write(Kind::Synced, out, |out| {
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&offset.to_le_bytes());
    });
}

/// Whether such a mark stands anywhere at or after `from`. A mark names its own place, so bytes
/// that merely look like one are not taken for it.
pub(crate) fn synced_after(number: u64, bytes: &[u8], from: usize) -> bool {
    let mut mark = Vec::with_capacity(HEAD_BYTES + 16);
    let mut places = from..bytes.len().saturating_sub(HEAD_BYTES + 15);
    places.any(|at| {
        if bytes[at..at + 4] != 16u32.to_le_bytes() || bytes[at + 8] != Kind::Synced as u8 {
            return false;
        }
        mark.clear();
        write_synced(number, at as u64, &mut mark);
        bytes[at..].starts_with(&mark)
    })
}

/// The record at the front of `bytes`: kind, payload and whole length; or what is wrong with it.
pub(crate) fn read(bytes: &[u8]) -> Result<(Kind, &[u8], usize), &'static str> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
        return Err("the file ends inside a record's head");
    };
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    let crc = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    if length > PAYLOAD_BYTES_MAX {
        return Err("a record's length is impossible");
    }
    let payload = rest.get(..length).ok_or("the file ends inside a record")?;
    let whole = &bytes[..HEAD_BYTES + length];
    if checksum(whole) != crc {
        return Err("a record's checksum does not match");
    }
    let kind = Kind::from_byte(head[8]).ok_or("a record's kind is unknown to this version")?;
    Ok((kind, payload, whole.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_is_seen() {
        let mut bytes = Vec::new();
        write(Kind::Over, &mut bytes, |out| out.extend_from_slice(b"payload"));
        assert_eq!(read(&bytes), Ok((Kind::Over, &b"payload"[..], bytes.len())));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(read(&changed).is_err(), "byte {at}");
            assert!(read(&bytes[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_mark_counts_only_at_its_own_place() {
        let mut bytes = vec![7; 5];
        write_synced(3, 5, &mut bytes);
        assert!(synced_after(3, &bytes, 0) && synced_after(3, &bytes, 5));
        assert!(!synced_after(3, &bytes, 6) && !synced_after(4, &bytes, 0));
        assert!(!synced_after(3, &bytes[1..], 0) && !synced_after(3, &bytes[..29], 0));
    }

    #[test]
    fn a_segment_says_which_it_is() {
        let mut bytes = Vec::new();
        write_segment(9, 77, &mut bytes);
        let (kind, payload, _) = read(&bytes).expect("whole");
        assert_eq!((kind, read_segment(payload)), (Kind::Segment, Some((VERSION, 9, 77))));
        assert_eq!(read_segment(&payload[1..]), None);
    }
}

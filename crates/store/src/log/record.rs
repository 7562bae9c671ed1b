//! Records: the units of a segment, each with its length and checksum.
//!
//! ```text
//! | length u32 | crc32 u32 | kind u8 | payload: length bytes |   little endian
//! ```
//! The checksum covers length, kind and payload. This file knows frames and bytes; what a payload
//! means is [`crate::engine`]'s. Invariant: [`read`] returns a record only if every byte of it is
//! as it was written.

use super::LogIdentity;
use model::id::NodeId;
use model::ports::log::ROW_VALUE_BYTES_MAX;
use model::timeline::Message;

/// Bytes before a record's payload.
pub(crate) const HEAD_BYTES: usize = 9;

/// Longest payload: a body, a label, and the timelines of an append.
pub(crate) const PAYLOAD_BYTES_MAX: usize = Message::BODY_BYTES_MAX + 1024 * 1024;

const _: () = assert!(
    PAYLOAD_BYTES_MAX >= ROW_VALUE_BYTES_MAX + 64 * 1024
        && BATCH_BYTES_MAX + PAYLOAD_BYTES_MAX < (1 << 29),
    "a record holds whatever the port takes, and a segment's offsets reach beyond a batch"
);

/// Bytes of a batch to which no other write is added: beside one large record, a batch is short.
pub(crate) const BATCH_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Longest record.
pub(crate) const RECORD_BYTES_MAX: usize = HEAD_BYTES + PAYLOAD_BYTES_MAX;

/// First bytes of every segment's first payload.
const MAGIC: &[u8; 8] = b"HOLDLOGS";

/// Version of the records of a segment.
pub(crate) const VERSION: u16 = 4;

/// Bytes of a Segment record.
pub(crate) const SEGMENT_BYTES: usize = HEAD_BYTES + MAGIC.len() + 34;

/// Kind of a record. The payloads of 10 and above are [`crate::engine`]'s.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RecordKind {
    /// First of a segment: whose it is, and which one.
    Segment = 1,
    /// First of a batch: what of the log is in it, and how it follows what is before it.
    Batch = 2,
    /// A process opened the log to write it: a new epoch begins. Its payload is an [`Origin`], or
    /// empty where an earlier build wrote it.
    Epoch = 3,
    /// A message takes its place in timelines.
    Append = 10,
    /// Messages leave a timeline.
    Remove = 11,
    /// A reader of a timeline has everything up to a place.
    Cursor = 12,
    /// All of a timeline goes.
    Forget = 13,
    /// A row is so from now on.
    Put = 14,
    /// A row is gone.
    Delete = 15,
    /// A message stands here now, no longer where it stood.
    Move = 16,
    /// An append is remembered under its once key.
    Once = 17,
    /// A roster is so from now on, or gone.
    Roster = 18,
    /// Timelines that appends behind it name by their places in it.
    List = 19,
}

impl RecordKind {
    fn from_byte(byte: u8) -> Option<RecordKind> {
        use RecordKind::*;
        let own = [Segment, Batch, Epoch];
        let all = [Append, Remove, Cursor, Forget, Put, Delete, Move, Once, Roster, List];
        own.into_iter().chain(all).find(|&kind| kind as u8 == byte)
    }

    /// Whether it is the log's own, of which nobody else hears.
    pub(crate) fn is_own(self) -> bool {
        matches!(self, RecordKind::Segment | RecordKind::Batch | RecordKind::Epoch)
    }
}

/// Appends a record whose payload is what `fill` writes.
pub(crate) fn write(kind: RecordKind, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    fill(out);
    let length = out.len() - start - HEAD_BYTES;
    assert!(length <= PAYLOAD_BYTES_MAX, "limits of the port keep records below the longest");
    out[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
    out[start + 8] = kind as u8;
    let crc = checksum(&out[start..]);
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
}

/// Beginner of an epoch of a log: a node, at one of its starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    /// The node.
    pub node: NodeId,
    /// Number of its start; 0: a tool.
    pub boot: u64,
}

impl Origin {
    /// Bytes of the payload.
    #[cfg(test)]
    pub(crate) const BYTES: usize = 10;

    /// Appends the payload of an Epoch record.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.node.number().to_le_bytes());
        out.extend_from_slice(&self.boot.to_le_bytes());
    }

    /// Decodes the payload; `None`: it names no node.
    pub(crate) fn read(payload: &[u8]) -> Option<Origin> {
        let (node, rest) = payload.split_first_chunk()?;
        let boot = u64::from_le_bytes(rest.try_into().ok()?);
        NodeId::new(u16::from_le_bytes(*node)).map(|node| Origin { node, boot })
    }
}

/// Content of the first record of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentHead {
    pub(crate) number: u32,
    pub(crate) whose: LogIdentity,
    /// Of the last batch before it; the first segment's, and one that is begun again at a lone
    /// node's start, is that of the first batch in it.
    pub(crate) epoch: u32,
    /// Of the first record behind it.
    pub(crate) index: u64,
    /// Of everything before it: [`super::Position::chain`].
    pub(crate) chain: u32,
}

impl SegmentHead {
    /// Appends the first record of a segment.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let LogIdentity { cluster, log } = self.whose;
        write(RecordKind::Segment, out, |out| {
            out.extend_from_slice(MAGIC);
            out.extend_from_slice(&VERSION.to_le_bytes());
            out.extend_from_slice(&self.number.to_le_bytes());
            out.extend_from_slice(&cluster.to_le_bytes());
            out.extend_from_slice(&log.to_le_bytes());
            out.extend_from_slice(&self.epoch.to_le_bytes());
            out.extend_from_slice(&self.index.to_le_bytes());
            out.extend_from_slice(&self.chain.to_le_bytes());
        });
    }

    /// Content of a segment's first record, if it is one of this version and number.
    pub(crate) fn read(
        kind: RecordKind,
        payload: &[u8],
        number: u32,
    ) -> Result<SegmentHead, &'static str> {
        let none = "the file is not a segment";
        let rest =
            payload.strip_prefix(MAGIC).filter(|_| kind == RecordKind::Segment).ok_or(none)?;
        let (version, rest) = rest.split_first_chunk().ok_or(none)?;
        if u16::from_le_bytes(*version) != VERSION {
            return Err("the segment's version is unknown to this server");
        }
        let rest: &[u8; 32] = rest.try_into().map_err(|_| none)?;
        let word = |at: usize| u32::from_le_bytes(*rest[at..].first_chunk().expect("inside"));
        let long = |at: usize| u64::from_le_bytes(*rest[at..].first_chunk().expect("inside"));
        if word(0) != number {
            return Err("the segment has the number of another one");
        }
        let whose = LogIdentity { cluster: long(4), log: word(12) };
        Ok(SegmentHead { number, whose, epoch: word(16), index: long(20), chain: word(28) })
    }
}

/// The checksum of a record, of which the head at least is given, as it stands there.
pub(crate) fn crc(record: &[u8]) -> u32 {
    u32::from_le_bytes(*record[4..].first_chunk().expect("a record has a head"))
}

/// Length of the whole record whose head this is.
pub(crate) fn length(head: &[u8; HEAD_BYTES]) -> Result<usize, &'static str> {
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    match length <= PAYLOAD_BYTES_MAX {
        true => Ok(HEAD_BYTES + length),
        false => Err("invalid record length"),
    }
}

/// The record that these bytes are: kind and payload; or what is wrong with it.
pub(crate) fn read(bytes: &[u8]) -> Result<(RecordKind, &[u8]), &'static str> {
    let Some((head, payload)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
        return Err("the file ends inside a record's head");
    };
    if length(head)? != bytes.len() {
        return Err("a record has another length");
    }
    if checksum(bytes) != u32::from_le_bytes([head[4], head[5], head[6], head[7]]) {
        return Err("a record's checksum does not match");
    }
    let kind =
        RecordKind::from_byte(head[8]).ok_or("a record's kind is unknown to this version")?;
    Ok((kind, payload))
}

/// CRC-32 of a record without the four bytes that hold it.
pub(crate) fn checksum(record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&record[..4]);
    hasher.update(&record[8..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_is_seen() {
        let mut bytes = Vec::new();
        write(RecordKind::Remove, &mut bytes, |out| out.extend_from_slice(b"payload"));
        assert_eq!(read(&bytes), Ok((RecordKind::Remove, &b"payload"[..])));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(read(&changed).is_err(), "byte {at}");
            assert!(read(&bytes[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_segment_says_whose_it_is_and_which() {
        let whose = LogIdentity { cluster: u64::MAX - 1, log: 7 };
        let head = SegmentHead { number: 9, whose, epoch: 3, index: 1 << 40, chain: 0xabcd };
        let mut bytes = Vec::new();
        head.write(&mut bytes);
        assert_eq!(bytes.len(), SEGMENT_BYTES);
        let (kind, payload) = read(&bytes).expect("whole");
        assert_eq!(SegmentHead::read(kind, payload, 9), Ok(head));
        assert!(SegmentHead::read(kind, payload, 8).is_err());
        assert!(SegmentHead::read(kind, &payload[1..], 9).is_err());
        assert!(SegmentHead::read(kind, &payload[..payload.len() - 1], 9).is_err());
        assert!(SegmentHead::read(RecordKind::Batch, payload, 9).is_err());
    }

    #[test]
    fn a_payload_of_the_longest_length_can_be_and_a_longer_one_cannot() {
        let head = |bytes: usize| {
            let mut head = [0; HEAD_BYTES];
            head[..4].copy_from_slice(&(bytes as u32).to_le_bytes());
            length(&head)
        };
        assert_eq!(head(0), Ok(HEAD_BYTES));
        assert_eq!(head(PAYLOAD_BYTES_MAX), Ok(RECORD_BYTES_MAX));
        assert!(head(PAYLOAD_BYTES_MAX + 1).is_err() && head(u32::MAX as usize).is_err());
    }
}

//! A batch of a log, as the store writes it and as the stream carries it.
//!
//! ```text
//! record:  | length u32 | crc32 u32 | kind u8 | payload |             little endian
//! head:    a record of kind 2: | segment u32 | offset u32 | epoch u32 | index u64 |
//!          | committed u64 | bytes u32 | chain u32 |
//! Lead:    a batch of one record of kind 3: | node u16 | boot u64 |
//! ```
//! The format is the store's (`docs/storage.md`); this file reads what replication needs of it and
//! knows no other payload. Invariant: a [`StreamBatch`] is whole, and every record in it is as
//! it was written; whether it follows what is before it is for [`StreamBatch::follows`] to say.

use base::bytes::ByteReader;
use model::id::NodeId;
use std::sync::Arc;

/// Bytes of the first record of a batch.
pub const HEAD_BYTES: usize = RECORD_HEAD_BYTES + 36;

/// Longest batch, bytes: what the store writes together, and one longest record beyond it.
pub const BATCH_BYTES_MAX: usize = 292 << 20;

const RECORD_HEAD_BYTES: usize = 9;

/// Bytes of a segment's first record: its first batch stands behind them.
const SEGMENT_BYTES: u32 = 51;

const KIND_SEGMENT: u8 = 1;
const KIND_BATCH: u8 = 2;
const KIND_EPOCH: u8 = 3;

/// Payload of an Epoch record that begins a leader's epoch, bytes.
const LEAD_BYTES: usize = 10;

/// How far a log has come: between two batches. The default is before everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogEnd {
    /// Number of the segment that the last batch is in.
    pub segment: u32,
    /// Where that batch ends in it, bytes.
    pub offset: u32,
    /// The epoch of the last batch.
    pub epoch: u32,
    /// The index of the last record.
    pub index: u64,
    /// Checksum over all batches.
    pub chain: u32,
}

impl LogEnd {
    /// Whether both name the same history up to here, wherever it stands.
    pub fn is_same(&self, other: &LogEnd) -> bool {
        (self.epoch, self.index, self.chain) == (other.epoch, other.index, other.chain)
    }

    /// How far it is, for comparison: a later epoch is further than a higher index.
    pub fn progress(&self) -> (u32, u64) {
        (self.epoch, self.index)
    }
}

/// Leader of a log since a Lead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogLeader {
    /// The node.
    pub node: NodeId,
    /// The number of its start.
    pub boot: u64,
}

/// A whole batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamBatch {
    bytes: Arc<[u8]>,
    head: Head,
    records: u64,
    leader: Option<LogLeader>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Head {
    segment: u32,
    offset: u32,
    epoch: u32,
    index: u64,
    committed: u64,
    bytes: u32,
    chain: u32,
}

impl StreamBatch {
    /// Takes a batch off the front of `bytes`, which must have all of it.
    pub fn take(bytes: &mut &[u8]) -> Option<StreamBatch> {
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let head = Head::read(head)?;
        let (records, behind) = rest.split_at_checked(head.bytes as usize)?;
        let mut left = records;
        let (mut count, mut leader) = (0, None);
        while !left.is_empty() {
            let record = take_record(&mut left)?;
            if !is_whole(record) || matches!(record[8], KIND_SEGMENT | KIND_BATCH) {
                return None;
            }
            if count == 0 && left.is_empty() {
                leader = read_lead(record);
            }
            count += 1;
        }
        let whole = &bytes[..HEAD_BYTES + records.len()];
        *bytes = behind;
        (count > 0).then(|| StreamBatch { bytes: whole.into(), head, records: count, leader })
    }

    /// A batch that stands behind `at` and consists of these records, each of which is whole.
    pub fn of(at: LogEnd, epoch: u32, records: &[u8]) -> Option<StreamBatch> {
        let bytes = u32::try_from(records.len()).ok()?;
        let index = at.index + 1;
        let chain = chain(at.chain, epoch, index, records);
        let (segment, offset, committed) = (at.segment, at.offset, at.index);
        let head = Head { segment, offset, epoch, index, committed, bytes, chain };
        let mut out = Vec::with_capacity(HEAD_BYTES + records.len());
        head.write(&mut out);
        out.extend_from_slice(records);
        StreamBatch::take(&mut &out[..])
    }

    /// The batch by which a node leads the log from `at` on, under this epoch. It begins a segment,
    /// so it stands at the same place in every copy, also in that of a deposed leader who had begun
    /// that segment with what nobody else has.
    pub fn lead(mut at: LogEnd, epoch: u32, leader: LogLeader) -> StreamBatch {
        if at.offset > SEGMENT_BYTES {
            (at.segment, at.offset) = (at.segment + 1, SEGMENT_BYTES);
        }
        let mut record = Vec::with_capacity(RECORD_HEAD_BYTES + LEAD_BYTES);
        write_record(KIND_EPOCH, &mut record, |out| {
            out.extend_from_slice(&leader.node.number().to_le_bytes());
            out.extend_from_slice(&leader.boot.to_le_bytes());
        });
        StreamBatch::of(at, epoch, &record).expect("a record that was just written is whole")
    }

    /// The batch as the store writes it.
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// The epoch under which it was written.
    pub fn epoch(&self) -> u32 {
        self.head.epoch
    }

    /// The index of its first record.
    pub fn first_index(&self) -> u64 {
        self.head.index
    }

    /// The index of its last record.
    pub fn last_index(&self) -> u64 {
        self.head.index + self.records - 1
    }

    /// Leader from this batch on, if the batch is a Lead.
    pub fn leader(&self) -> Option<LogLeader> {
        self.leader
    }

    /// The end of a log whose last batch it is.
    pub fn end(&self) -> LogEnd {
        LogEnd {
            segment: self.head.segment,
            offset: self.head.offset.saturating_add(self.bytes.len() as u32),
            epoch: self.head.epoch,
            index: self.last_index(),
            chain: self.head.chain,
        }
    }

    /// Whether its index and its chain follow a log that ends there.
    pub fn follows(&self, end: &LogEnd) -> bool {
        let Head { epoch, index, .. } = self.head;
        index == end.index + 1
            && chain(end.chain, epoch, index, &self.bytes[HEAD_BYTES..]) == self.head.chain
    }
}

impl Head {
    fn write(&self, out: &mut Vec<u8>) {
        write_record(KIND_BATCH, out, |out| {
            for word in [self.segment, self.offset, self.epoch] {
                out.extend_from_slice(&word.to_le_bytes());
            }
            out.extend_from_slice(&self.index.to_le_bytes());
            out.extend_from_slice(&self.committed.to_le_bytes());
            out.extend_from_slice(&self.bytes.to_le_bytes());
            out.extend_from_slice(&self.chain.to_le_bytes());
        });
    }

    fn read(record: &[u8]) -> Option<Head> {
        let is_head = is_whole(record) && record[8] == KIND_BATCH;
        let mut from = ByteReader::of(KIND_BATCH, record.get(8..).filter(|_| is_head)?)?;
        let head = Head {
            segment: from.u32()?,
            offset: from.u32()?,
            epoch: from.u32()?,
            index: from.u64()?,
            committed: from.u64()?,
            bytes: from.u32()?,
            chain: from.u32()?,
        };
        let is_valid = head.committed < head.index
            && head.index < u64::from(u32::MAX) << 24 // so that sums of indexes cannot overflow
            && head.bytes > 0
            && head.bytes as usize <= BATCH_BYTES_MAX - HEAD_BYTES;
        from.ends(head).filter(|_| is_valid)
    }
}

/// Takes a record off the front of `bytes`.
fn take_record<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    let (record, rest) = bytes.split_at_checked(RECORD_HEAD_BYTES.checked_add(length)?)?;
    *bytes = rest;
    Some(record)
}

/// Whether a record has the length and the checksum that it states.
fn is_whole(record: &[u8]) -> bool {
    record.len() >= RECORD_HEAD_BYTES
        && record[..4] == ((record.len() - RECORD_HEAD_BYTES) as u32).to_le_bytes()
        && record[4..8] == checksum(record).to_le_bytes()
}

fn read_lead(record: &[u8]) -> Option<LogLeader> {
    let mut from = ByteReader::of(KIND_EPOCH, &record[8..])?;
    let leader = LogLeader { node: NodeId::new(from.u16()?)?, boot: from.u64()? };
    from.ends(leader)
}

/// Appends a record whose payload is what `fill` writes.
pub(crate) fn write_record(kind: u8, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; RECORD_HEAD_BYTES]);
    fill(out);
    let length = (out.len() - start - RECORD_HEAD_BYTES) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 8] = kind;
    let crc = checksum(&out[start..]);
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
}

/// CRC-32 of a record without the four bytes that hold it.
fn checksum(record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&record[..4]);
    hasher.update(&record[8..]);
    hasher.finalize()
}

/// The chain behind a batch of these records.
fn chain(before: u32, epoch: u32, index: u64, records: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    hasher.update(&epoch.to_le_bytes());
    hasher.update(&index.to_le_bytes());
    let mut left = records;
    while let Some(record) = take_record(&mut left) {
        hasher.update(&record[4..8]);
    }
    hasher.finalize()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use base::hex;

    /// A batch of one record of kind Put with each payload, behind `at`.
    pub(crate) fn batch(at: LogEnd, epoch: u32, payloads: &[&[u8]]) -> StreamBatch {
        let mut records = Vec::new();
        for payload in payloads {
            write_record(14, &mut records, |out| out.extend_from_slice(payload));
        }
        StreamBatch::of(at, epoch, &records).expect("whole")
    }

    pub(crate) fn begin() -> LogEnd {
        LogEnd { segment: 1, offset: 900, epoch: 4, index: 20, chain: 77 }
    }

    #[test]
    fn a_lead_has_these_bytes() {
        let node = NodeId::new(5).expect("a node");
        let lead = StreamBatch::lead(begin(), 5, LogLeader { node, boot: 0x0102 });
        let golden = "240000006be8b8c10202000000330000000500000015000000000000001400000000000000\
                      1300000040f05f1b0a0000007ddf452b0305000201000000000000";
        assert_eq!(hex::encode(lead.bytes()), golden);
        assert_eq!(StreamBatch::take(&mut &lead.bytes()[..]), Some(lead.clone()));
        assert_eq!(lead.leader(), Some(LogLeader { node, boot: 0x0102 }));
        assert!(lead.follows(&begin()) && lead.end().index == 21 && lead.end().epoch == 5);
    }

    #[test]
    fn a_batch_follows_only_the_history_that_it_was_written_behind() {
        let first = batch(begin(), 4, &[b"a", b"bc"]);
        let second = batch(first.end(), 4, &[b"d"]);
        assert!(first.follows(&begin()) && second.follows(&first.end()));
        assert_eq!((first.first_index(), first.last_index()), (21, 22));
        let other = batch(begin(), 4, &[b"a", b"bd"]);
        assert!(!second.follows(&other.end()), "another history of the same length");
        assert!(!second.follows(&begin()) && !first.follows(&first.end()));
        assert_eq!(first.leader(), None);
    }

    #[test]
    fn a_changed_byte_is_never_read_as_the_same_batch() {
        let whole = batch(begin(), 4, &[b"payload", b"", b"x"]);
        for at in 0..whole.bytes().len() {
            for bit in 0..8 {
                let mut changed = whole.bytes().to_vec();
                changed[at] ^= 1 << bit;
                assert_eq!(StreamBatch::take(&mut &changed[..]), None, "byte {at}");
            }
            assert_eq!(StreamBatch::take(&mut &whole.bytes()[..at]), None, "cut at {at}");
        }
    }
}

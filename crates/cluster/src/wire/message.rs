//! A message of a log's stream.
//!
//! ```text
//! | "HL" | version u8 | kind u8 | cluster u64 | log u16 | node u16 | boot u64 |
//! | part u16 | parts u16 | piece |                                      little endian
//! kind 0, Batches: the piece is whole batches one behind the other, if `parts` is 1, and else
//!                  part `part` of one batch
//! kind 1, End:     the piece is an epoch u32: nothing behind this message counts
//! ```
//! It does not know whether a message counts: [`crate::counting`] does.

use crate::batch::{BATCH_BYTES_MAX, LogLeader, StreamBatch};
use base::bytes::ByteReader;
use model::id::NodeId;

/// Longest piece, bytes: from 64 KiB on a message costs by its bytes, and NATS takes a MiB.
pub const PIECE_BYTES_MAX: usize = 256 << 10;

/// Parts of a batch, at most.
pub const PARTS_MAX: u16 = BATCH_BYTES_MAX.div_ceil(PIECE_BYTES_MAX) as u16;

/// Bytes before the piece.
pub const HEAD_BYTES: usize = 28;

const MAGIC: &[u8] = b"HL";
const VERSION: u8 = 1;

/// Which log of which cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogName {
    /// The fingerprint of the cluster's secret.
    pub cluster: u64,
    /// The number of the log.
    pub log: u16,
}

/// Content of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageBody<'a> {
    /// Batches, or a part of one.
    Batches {
        /// Which part, from 0.
        part: u16,
        /// Of how many, 1 to [`PARTS_MAX`].
        parts: u16,
        /// Its bytes, at least one.
        piece: &'a [u8],
    },
    /// The generation ends here.
    End {
        /// By the claim with this epoch.
        epoch: u32,
    },
}

/// A message of a log's stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamMessage<'a> {
    /// Node that published it.
    pub by: LogLeader,
    /// Content of the message.
    pub body: MessageBody<'a>,
}

impl<'a> StreamMessage<'a> {
    /// Reads a message of this log. `None`: of another version, log or cluster, or damaged.
    pub fn read(name: LogName, bytes: &'a [u8]) -> Option<StreamMessage<'a>> {
        let mut from = ByteReader::of(VERSION, bytes.strip_prefix(MAGIC)?)?;
        let kind = from.byte()?;
        if (LogName { cluster: from.u64()?, log: from.u16()? }) != name {
            return None;
        }
        let by = LogLeader { node: NodeId::new(from.u16()?)?, boot: from.u64()? };
        let (part, parts, piece) = (from.u16()?, from.u16()?, from.rest());
        let body = match kind {
            0 if part < parts && parts <= PARTS_MAX => MessageBody::Batches { part, parts, piece },
            1 if (part, parts) == (0, 1) => {
                MessageBody::End { epoch: u32::from_le_bytes(piece.try_into().ok()?) }
            }
            _ => return None,
        };
        (1..=PIECE_BYTES_MAX).contains(&piece.len()).then_some(StreamMessage { by, body })
    }

    /// The message's bytes.
    pub fn write(&self, name: LogName) -> Vec<u8> {
        let end;
        let (kind, part, parts, piece) = match self.body {
            MessageBody::Batches { part, parts, piece } => (0, part, parts, piece),
            MessageBody::End { epoch } => {
                end = epoch.to_le_bytes();
                (1, 0, 1, &end[..])
            }
        };
        let mut out = Vec::with_capacity(HEAD_BYTES + piece.len());
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[VERSION, kind]);
        out.extend_from_slice(&name.cluster.to_le_bytes());
        out.extend_from_slice(&name.log.to_le_bytes());
        out.extend_from_slice(&self.by.node.number().to_le_bytes());
        out.extend_from_slice(&self.by.boot.to_le_bytes());
        out.extend_from_slice(&part.to_le_bytes());
        out.extend_from_slice(&parts.to_le_bytes());
        out.extend_from_slice(piece);
        out
    }
}

/// The messages of some batches, which go into one if they are small, or of one that is large.
pub fn messages_of(name: LogName, by: LogLeader, batches: &[StreamBatch]) -> Vec<Vec<u8>> {
    let whole: Vec<u8>;
    let bytes = match batches {
        [one] => &one.bytes()[..],
        many => {
            whole = many.iter().flat_map(|batch| batch.bytes().iter().copied()).collect();
            &whole[..]
        }
    };
    let is_fit = batches.len() == 1 || bytes.len() <= PIECE_BYTES_MAX;
    assert!(is_fit, "batches that are gathered fit into a piece");
    let parts = bytes.len().div_ceil(PIECE_BYTES_MAX) as u16;
    let pieces = bytes.chunks(PIECE_BYTES_MAX).zip(0..);
    let write = |(piece, part)| {
        let body = MessageBody::Batches { part, parts, piece };
        StreamMessage { by, body }.write(name)
    };
    pieces.map(write).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::tests::{batch, begin};
    use base::hex;
    use base::prng::Prng;

    const NAME: LogName = LogName { cluster: 0x1122_3344_5566_7788, log: 3 };

    fn by() -> LogLeader {
        LogLeader { node: NodeId::new(7).expect("a node"), boot: 9 }
    }

    #[test]
    fn messages_have_these_bytes() {
        let body = MessageBody::Batches { part: 1, parts: 2, piece: b"piece" };
        let end = MessageBody::End { epoch: 0x0a0b };
        for (body, golden) in [
            (
                body,
                "484c0100887766554433221103000700090000000000000001000200\
                    7069656365",
            ),
            (end, "484c01018877665544332211030007000900000000000000000001000b0a0000"),
        ] {
            let message = StreamMessage { by: by(), body };
            assert_eq!(hex::encode(&message.write(NAME)), golden);
            let bytes = hex::decode(golden).expect("digits");
            assert_eq!(StreamMessage::read(NAME, &bytes), Some(message));
        }
    }

    #[test]
    fn messages_of_others_and_impossible_parts_are_not_read() {
        let good = |part, parts, piece| {
            let body = MessageBody::Batches { part, parts, piece };
            StreamMessage::read(NAME, &StreamMessage { by: by(), body }.write(NAME)).is_some()
        };
        assert!(good(0, 1, b"x") && good(PARTS_MAX - 1, PARTS_MAX, &[0; PIECE_BYTES_MAX]));
        assert!(!good(1, 1, b"x") && !good(0, 0, b"x") && !good(0, PARTS_MAX + 1, b"x"));
        assert!(!good(0, 1, b"") && !good(0, 1, &[0; PIECE_BYTES_MAX + 1]));
        let bytes = StreamMessage { by: by(), body: MessageBody::End { epoch: 1 } }.write(NAME);
        assert!(StreamMessage::read(LogName { log: 4, ..NAME }, &bytes).is_none());
        assert!(StreamMessage::read(LogName { cluster: 4, ..NAME }, &bytes).is_none());
        for length in 0..bytes.len() {
            assert!(StreamMessage::read(NAME, &bytes[..length]).is_none());
        }
    }

    #[test]
    fn bent_messages_never_panic_and_what_is_read_is_written_alike() {
        let mut rng = Prng::new(1);
        let small = batch(begin(), 4, &[b"a", b"b"]);
        let bytes = messages_of(NAME, by(), &[small]).remove(0);
        for _ in 0..20_000 {
            let mut bent = bytes.clone();
            for _ in 0..=rng.below(3) {
                let at = rng.below(bent.len() as u64) as usize;
                bent[at] = rng.draw() as u8;
            }
            bent.truncate(rng.below(2 * bytes.len() as u64) as usize);
            if let Some(message) = StreamMessage::read(NAME, &bent) {
                assert_eq!(message.write(NAME), bent);
            }
        }
    }

    #[test]
    fn a_large_batch_is_cut_and_small_ones_travel_together() {
        let large = batch(begin(), 4, &[&[7; 2 * PIECE_BYTES_MAX]]);
        let parts = messages_of(NAME, by(), std::slice::from_ref(&large));
        let pieces = parts.iter().enumerate().flat_map(|(at, bytes)| {
            let read = StreamMessage::read(NAME, bytes).map(|message| message.body);
            let Some(MessageBody::Batches { part, parts: 3, piece }) = read else { panic!("part") };
            assert_eq!(usize::from(part), at);
            piece.to_vec()
        });
        assert_eq!(pieces.collect::<Vec<u8>>(), large.bytes()[..]);
        let first = batch(begin(), 4, &[b"a"]);
        let second = batch(first.end(), 4, &[b"b"]);
        assert_eq!(messages_of(NAME, by(), &[first, second]).len(), 1);
    }
}

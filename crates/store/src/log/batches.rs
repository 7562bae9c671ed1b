//! Reading whole batches of a log in their order: for copies that lack some, and for a node that
//! leads again and has some that nobody else has.
//!
//! The reader runs on any thread, while the log goes on writing, and knows no payload. Invariant:
//! each batch that is given is whole and follows the one before it.

use super::batch::{BATCH_HEAD_BYTES, BatchHead, LogBatch, Position};
use super::record::{self, SEGMENT_BYTES, SegmentHead};
use super::{Place, ReadError, Reader};

/// Batches of a log from somewhere on.
pub struct Batches {
    reader: Reader,
    at: Position,
    bytes: Vec<u8>,
}

impl Batches {
    /// Batches behind this position.
    pub(crate) fn behind(reader: Reader, at: Position) -> Batches {
        Batches { reader, at, bytes: Vec::new() }
    }

    /// From the batch on that has the record with this index. `None` where the log has none of it:
    /// it was removed, or never written.
    pub(crate) fn from(
        reader: Reader,
        segments: impl DoubleEndedIterator<Item = u32>,
        index: u64,
    ) -> Result<Option<Batches>, ReadError> {
        let mut begun = None;
        for segment in segments.rev() {
            let head = begin_of(&reader, segment)?;
            if head.index <= index {
                begun = Some(head);
                break;
            }
        }
        let Some(SegmentHead { number, epoch, index: first, chain, .. }) = begun else {
            return Ok(None);
        };
        let place = Place { segment: number, offset: SEGMENT_BYTES as u32 };
        let mut batches =
            Batches::behind(reader, Position { place, epoch, index: first - 1, chain });
        loop {
            let before = batches.at;
            match batches.read()? {
                None => return Ok(None),
                Some(batch) if batch.last < index => {}
                Some(_) => {
                    batches.at = before;
                    return Ok(Some(batches));
                }
            }
        }
    }

    /// The next; `None` behind the last that is written.
    pub fn read(&mut self) -> Result<Option<LogBatch<'_>>, ReadError> {
        let end = self.reader.end();
        if self.at.place >= end {
            return Ok(None);
        }
        let source = self.reader.source(self.at.place.segment)?;
        if self.at.place.segment < end.segment {
            let length = source.length().map_err(ReadError::Io)?;
            if u64::from(self.at.place.offset) >= length {
                let segment = self.at.place.segment + 1;
                begin_of(&self.reader, segment)?;
                self.at.place = Place { segment, offset: SEGMENT_BYTES as u32 };
                return self.read();
            }
        }
        let (place, offset) = (self.at.place, u64::from(self.at.place.offset));
        let damaged = |why| ReadError::Damaged { place, why };
        self.bytes.resize(BATCH_HEAD_BYTES, 0);
        source.read_at(offset, &mut self.bytes).map_err(ReadError::Io)?;
        let (_, payload) = record::read(&self.bytes).map_err(damaged)?;
        let head = BatchHead::read(payload).ok_or(damaged("invalid batch"))?;
        let length = BATCH_HEAD_BYTES as u64 + u64::from(head.bytes);
        if head.place != place || offset + length > u32::MAX.into() {
            return Err(damaged("the batch is not where it was written"));
        }
        self.bytes.resize(length as usize, 0);
        source.read_at(offset, &mut self.bytes).map_err(ReadError::Io)?;
        let batch = LogBatch::read(&self.bytes).map_err(damaged)?;
        if batch.first != self.at.index + 1 || batch.chain_behind(self.at.chain) != batch.chain {
            return Err(damaged("the batch does not follow the one before it"));
        }
        self.at = batch.end();
        Ok(Some(batch))
    }
}

/// The first record of a segment.
fn begin_of(reader: &Reader, segment: u32) -> Result<SegmentHead, ReadError> {
    let damaged = |why| ReadError::Damaged { place: Place { segment, offset: 0 }, why };
    let mut bytes = [0; SEGMENT_BYTES];
    reader.source(segment)?.read_at(0, &mut bytes).map_err(ReadError::Io)?;
    let (kind, payload) = record::read(&bytes).map_err(damaged)?;
    SegmentHead::read(kind, payload, segment).map_err(damaged)
}

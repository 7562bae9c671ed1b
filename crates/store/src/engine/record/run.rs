//! Runs: entries of one timeline in a row of state, each told by its difference from the last.
//!
//! ```text
//! key    timeline 16 | first seq u64 big endian
//! value  version u8 (1) | count | last seq − first | oldest at_s | count × entry
//! entry  seq − seq before | segment ± | offset ± (from the end of the record before) | length
//!        body | at_s ± | id ± | label length | label
//! ```
//! All but the version are small numbers; `±` are differences from the entry before, the first's
//! from zero. The key keeps naming the seq that the run began with when that one is gone. It does
//! not know what a state is. Invariant: the seqs of a run rise, from the key's on.

use super::bytes::{Bytes, put_from, put_small};
use super::stored::{Entry, Stored};
use crate::log::Place;
use model::timeline::{Seq, TimelineId};
use std::sync::Arc;

/// Entries of a run at most.
pub(crate) const ENTRIES_MAX: usize = 256;

/// Short runs are made one where a timeline's numbers cross a multiple of this.
pub(crate) const WINDOW: u64 = 64;

const VERSION: u8 = 1;

/// Head of a run, before its entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RunHead {
    pub(crate) count: u64,
    pub(crate) last: Seq,
    pub(crate) oldest_s: u32,
}

/// The key of the run that begins with `first`.
pub(crate) fn key(timeline: TimelineId, first: Seq) -> [u8; 24] {
    let mut key = [0; 24];
    key[..16].copy_from_slice(&timeline.to_bytes());
    key[16..].copy_from_slice(&first.to_be_bytes());
    key
}

/// The timeline and first seq of a key.
pub(crate) fn read_key(key: &[u8]) -> Option<(TimelineId, Seq)> {
    let (timeline, first) = key.split_first_chunk::<16>()?;
    Some((TimelineId::from_bytes(*timeline)?, Seq::from_be_bytes(first.try_into().ok()?)))
}

/// Appends the run of these entries, which are at least one.
pub(crate) fn write(first: Seq, entries: &[Entry], out: &mut Vec<u8>) {
    let last = entries.last().expect("a run has an entry").seq;
    let oldest = entries.iter().map(|entry| entry.stored.at_s).min().unwrap_or(0);
    out.push(VERSION);
    put_small(entries.len() as u64, out);
    put_small(last - first, out);
    put_small(oldest.into(), out);
    let (mut seq, mut before) = (first, &Stored::default());
    for entry in entries {
        let stored = &*entry.stored;
        put_small(entry.seq - seq, out);
        put_from(before.place.segment.into(), stored.place.segment.into(), out);
        put_from(end(before), stored.place.offset.into(), out);
        put_small(stored.length.into(), out);
        put_small(stored.body.into(), out);
        put_from(before.at_s.into(), stored.at_s.into(), out);
        put_from(before.id, stored.id, out);
        put_small(stored.label.len() as u64, out);
        out.extend_from_slice(&stored.label);
        (seq, before) = (entry.seq, stored);
    }
}

/// Head of the run under the key of `first`.
pub(crate) fn read_head(first: Seq, value: &[u8]) -> Option<RunHead> {
    head(first, &mut Bytes(value))
}

/// Its entries.
pub(crate) fn read(first: Seq, value: &[u8]) -> Option<Vec<Entry>> {
    let mut bytes = Bytes(value);
    let RunHead { count, .. } = head(first, &mut bytes)?;
    let mut entries = Vec::with_capacity(count.min(ENTRIES_MAX as u64) as usize);
    let mut seq = first;
    let mut before = Arc::new(Stored::default());
    for _ in 0..count {
        seq = seq.checked_add(bytes.small()?)?;
        let segment = bytes.from(before.place.segment.into())?.try_into().ok()?;
        let offset = bytes.from(end(&before))?.try_into().ok()?;
        let length = bytes.small_u32()?;
        let body = bytes.small_u32()?;
        let at_s = bytes.from(before.at_s.into())?.try_into().ok()?;
        let id = bytes.from(before.id)?;
        let label_bytes = bytes.small()?.try_into().ok()?;
        let label = bytes.take(label_bytes)?.into();
        let place = Place { segment, offset };
        before = Arc::new(Stored { place, length, body, at_s, id, label });
        entries.push(Entry { seq, stored: Arc::clone(&before) });
    }
    bytes.0.is_empty().then_some(entries)
}

fn head(first: Seq, bytes: &mut Bytes<'_>) -> Option<RunHead> {
    if bytes.u8()? != VERSION {
        return None;
    }
    let count = bytes.small()?;
    let last = first.checked_add(bytes.small()?)?;
    Some(RunHead { count, last, oldest_s: bytes.small_u32()? })
}

fn end(stored: &Stored) -> u64 {
    u64::from(stored.place.offset) + u64::from(stored.length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    fn some(rng: &mut Prng, seq: Seq) -> Entry {
        let place = Place { segment: rng.below(9) as u32, offset: rng.draw() as u32 };
        let stored = Stored {
            place,
            length: rng.draw() as u32,
            body: rng.below(1 << 21) as u32,
            at_s: rng.draw() as u32,
            id: rng.draw(),
            label: (0..rng.below(255)).map(|n| n as u8).collect(),
        };
        Entry { seq, stored: Arc::new(stored) }
    }

    #[test]
    fn a_run_comes_back_as_it_was_and_a_cut_one_does_not() {
        let mut rng = Prng::new(7);
        for _ in 0..50 {
            let first = rng.below(1 << 40);
            let mut seq = first;
            let count = 1 + rng.below(20);
            let entries: Vec<_> = (0..count)
                .map(|_| {
                    seq += rng.below(3) + 1;
                    some(&mut rng, seq)
                })
                .collect();
            let mut value = Vec::new();
            write(first, &entries, &mut value);
            assert_eq!(read(first, &value).as_ref(), Some(&entries));
            let head = read_head(first, &value).expect("it has one");
            assert_eq!((head.count, head.last), (count, seq));
            for cut in 0..value.len() {
                assert_eq!(read(first, &value[..cut]), None, "cut at {cut}");
            }
        }
    }

    #[test]
    fn an_even_stream_takes_few_bytes() {
        let entries: Vec<_> = (0..256u32)
            .map(|n| {
                let place = Place { segment: 3, offset: 1_000 + n * 120 };
                let stored = Stored {
                    place,
                    length: 120,
                    body: 36,
                    at_s: 1_700_000_000 + n / 100,
                    id: 5_000_000 + u64::from(n),
                    label: Box::default(),
                };
                Entry { seq: u64::from(n) + 1, stored: Arc::new(stored) }
            })
            .collect();
        let mut value = Vec::new();
        write(1, &entries, &mut value);
        assert!(value.len() < 256 * 10, "{} bytes", value.len());
    }
}

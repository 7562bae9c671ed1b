//! Payloads of the engine's records.
//!
//! ```text
//! Append  form u8 | id u64 | at_s u32 | label u8 + bytes | body length u32
//! Move    | once: key u128, crc u32, now_s u32    form bit 4
//!         | from: segment u32, offset u32         form bit 8, a Move's alone
//!         | at: segment u32, offset u32, length u32    form & 3 = 2: the message stands there
//!         | count u16 | count × (timeline 16, seq u64)    or form bit 16: see `record/list.rs`
//!         | body: the rest                        form & 3 = 1: the message stands here
//! Remove  timeline 16 | count u16 | count × (seq u64, segment u32, weight u32)
//! Cursor  timeline 16 | reader u64 | upto u64
//! Forget  timeline 16 | count u32 | count × (segment u32, entries u32)
//! Put     table u8 | key length u16 | key | value: the rest
//! Delete  table u8 | key: the rest
//! Once    once: key u128, crc u32, now_s u32 | id u64 | count u32 | count × seq u64
//! ```
//! With form & 3 = 0 there is no message: nothing enters the timelines, but their numbers go on
//! behind those named. The file knows no log and no index. Invariant: what is read back is what
//! was written, or `None`.

pub(crate) mod bytes;
pub(crate) mod list;
pub(crate) mod run;
pub(crate) mod stored;

use crate::log::Place;
use bytes::Bytes;
use list::{Listed, Posting};
use model::ports::log::{OnceKey, Table};
use model::timeline::{Message, ReaderId, Seq, TimelineId};
use stored::{Leaving, Stored};

/// Content of a record about a once key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    pub(crate) key: OnceKey,
    /// Of label and body.
    pub(crate) crc: u32,
    /// Unix second at which it was made.
    pub(crate) made_s: u32,
}

/// Place of a record's message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whereabouts {
    /// The message is nowhere.
    Nowhere,
    /// The message is in this record.
    Here,
    /// In the record there, of this length.
    There(Place, u32),
}

const FORM_HERE: u8 = 1;
const FORM_THERE: u8 = 2;
const FORM_ONCE: u8 = 4;
const FORM_FROM: u8 = 8;
const FORM_LISTED: u8 = 16;

/// An Append or a Move.
#[derive(Clone, Copy)]
pub(crate) struct Said<'a> {
    pub(crate) id: u64,
    pub(crate) at_s: u32,
    pub(crate) label: &'a [u8],
    pub(crate) body_bytes: u32,
    pub(crate) claim: Option<Claim>,
    /// Where the message stood before.
    pub(crate) from: Option<Place>,
    pub(crate) whereabouts: Whereabouts,
    pub(crate) targets: Targets<'a>,
    /// Empty unless the message is here.
    pub(crate) body: &'a [u8],
}

/// Timelines and places in them, not yet taken apart.
#[derive(Clone, Copy)]
pub(crate) enum Targets<'a> {
    /// Each by its id.
    Named(&'a [u8]),
    /// Each by its place in a list.
    Listed(Listed<'a>),
}

const TARGET_BYTES: usize = 24;

impl<'a> Said<'a> {
    /// Content of an append of this message, without targets.
    pub(crate) fn of(message: &'a Message, whereabouts: Whereabouts) -> Said<'a> {
        let here = whereabouts == Whereabouts::Here;
        Said {
            id: message.id,
            at_s: message.at_s,
            label: &message.label,
            body_bytes: message.body.len() as u32,
            claim: None,
            from: None,
            whereabouts,
            targets: Targets::Named(&[]),
            body: if here { &message.body } else { &[] },
        }
    }

    /// Appends the payload, with these targets in place of its own.
    pub(crate) fn write(
        &self,
        targets: impl ExactSizeIterator<Item = (TimelineId, Seq)>,
        out: &mut Vec<u8>,
    ) {
        out.reserve(96 + self.label.len() + targets.len() * TARGET_BYTES + self.body.len());
        self.write_head(0, out);
        out.extend_from_slice(&(targets.len() as u16).to_le_bytes());
        for (timeline, seq) in targets {
            out.extend_from_slice(&timeline.to_bytes());
            out.extend_from_slice(&seq.to_le_bytes());
        }
        out.extend_from_slice(self.body);
    }

    /// As [`write`](Self::write), with targets that a list has.
    pub(crate) fn write_listed(&self, posting: &Posting<'_>, out: &mut Vec<u8>) {
        out.reserve(96 + self.label.len() + posting.seqs.len() * 4 + self.body.len());
        self.write_head(FORM_LISTED, out);
        posting.write(out);
        out.extend_from_slice(self.body);
    }

    /// Writes all that precedes the targets.
    fn write_head(&self, listed: u8, out: &mut Vec<u8>) {
        let form = match self.whereabouts {
            Whereabouts::Nowhere => 0,
            Whereabouts::Here => FORM_HERE,
            Whereabouts::There(..) => FORM_THERE,
        };
        let once = if self.claim.is_some() { FORM_ONCE } else { 0 };
        let from = if self.from.is_some() { FORM_FROM } else { 0 };
        out.push(form | once | from | listed);
        out.extend_from_slice(&self.id.to_le_bytes());
        out.extend_from_slice(&self.at_s.to_le_bytes());
        out.push(self.label.len() as u8);
        out.extend_from_slice(self.label);
        out.extend_from_slice(&self.body_bytes.to_le_bytes());
        if let Some(claim) = self.claim {
            out.extend_from_slice(&claim.key.0.to_le_bytes());
            out.extend_from_slice(&claim.crc.to_le_bytes());
            out.extend_from_slice(&claim.made_s.to_le_bytes());
        }
        if let Some(from) = self.from {
            put_place(from, out);
        }
        if let Whereabouts::There(place, length) = self.whereabouts {
            put_place(place, out);
            out.extend_from_slice(&length.to_le_bytes());
        }
    }

    /// The Append or Move with this payload.
    pub(crate) fn read(payload: &'a [u8]) -> Option<Said<'a>> {
        let mut bytes = Bytes(payload);
        let form = bytes.u8()?;
        let (id, at_s) = (bytes.u64()?, bytes.u32()?);
        let label_bytes = bytes.u8()?;
        let label = bytes.take(label_bytes.into())?;
        let body_bytes = bytes.u32()?;
        let claim = match form & FORM_ONCE {
            0 => None,
            _ => {
                let (key, crc, made_s) = (bytes.u128()?, bytes.u32()?, bytes.u32()?);
                Some(Claim { key: OnceKey(key), crc, made_s })
            }
        };
        let from = if form & FORM_FROM == 0 { None } else { Some(place(&mut bytes)?) };
        let whereabouts = match form & 3 {
            0 => Whereabouts::Nowhere,
            FORM_HERE => Whereabouts::Here,
            FORM_THERE => Whereabouts::There(place(&mut bytes)?, bytes.u32()?),
            _ => return None,
        };
        let targets = match form & FORM_LISTED {
            0 => Targets::named(&mut bytes)?,
            _ => Targets::Listed(Listed::read(&mut bytes)?),
        };
        let body = bytes.0;
        let here = whereabouts == Whereabouts::Here;
        let whole = body.len() == if here { body_bytes as usize } else { 0 };
        (form < 32 && whole).then_some(Said {
            id,
            at_s,
            label,
            body_bytes,
            claim,
            from,
            whereabouts,
            targets,
            body,
        })
    }

    /// The index entry of the message, if the record stands at `place` and is `length` long. `None`
    /// if there is no message.
    pub(crate) fn stored(&self, place: Place, length: u32) -> Option<Stored> {
        let (place, length) = match self.whereabouts {
            Whereabouts::Nowhere => return None,
            Whereabouts::Here => (place, length),
            Whereabouts::There(place, length) => (place, length),
        };
        let (body, label) = (self.body_bytes, self.label.into());
        Some(Stored { place, length, body, at_s: self.at_s, id: self.id, label })
    }

    /// The message, if it stands in this record.
    pub(crate) fn message(&self) -> Option<Message> {
        (self.whereabouts == Whereabouts::Here).then(|| Message {
            id: self.id,
            at_s: self.at_s,
            label: self.label.into(),
            body: self.body.into(),
        })
    }
}

impl<'a> Targets<'a> {
    fn named(bytes: &mut Bytes<'a>) -> Option<Targets<'a>> {
        let count: usize = bytes.u16()?.into();
        let named = bytes.take(count * TARGET_BYTES)?;
        let known = named.chunks(TARGET_BYTES).all(|target| target_of(target).is_some());
        known.then_some(Targets::Named(named))
    }

    /// Where the list stands in the same segment that is to be read for [`Targets::pairs`], and
    /// its record's length.
    pub(crate) fn list(self) -> Option<(u32, u32)> {
        match self {
            Targets::Named(_) => None,
            Targets::Listed(listed) => Some(listed.list),
        }
    }

    /// Timelines and places in them. `None` if `list` is not the list that it names.
    pub(crate) fn pairs(self, list: &[TimelineId]) -> Option<Vec<(TimelineId, Seq)>> {
        match self {
            Targets::Named(named) => named.chunks(TARGET_BYTES).map(target_of).collect(),
            Targets::Listed(listed) => listed.pairs(list),
        }
    }
}

/// A Remove.
pub(crate) fn write_remove(timeline: TimelineId, leaving: &[Leaving], out: &mut Vec<u8>) {
    out.extend_from_slice(&timeline.to_bytes());
    out.extend_from_slice(&(leaving.len() as u16).to_le_bytes());
    for one in leaving {
        out.extend_from_slice(&one.seq.to_le_bytes());
        out.extend_from_slice(&one.segment.to_le_bytes());
        out.extend_from_slice(&one.weight.to_le_bytes());
    }
}

/// Content of a Remove.
pub(crate) fn read_remove(payload: &[u8]) -> Option<(TimelineId, Vec<Leaving>)> {
    let mut bytes = Bytes(payload);
    let timeline = TimelineId::from_bytes(bytes.array()?)?;
    let count = bytes.u16()?;
    let mut one =
        || Some(Leaving { seq: bytes.u64()?, segment: bytes.u32()?, weight: bytes.u32()? });
    let leaving = (0..count).map(|_| one()).collect::<Option<_>>()?;
    bytes.0.is_empty().then_some((timeline, leaving))
}

/// A Cursor.
pub(crate) fn write_cursor(timeline: TimelineId, reader: ReaderId, upto: Seq, out: &mut Vec<u8>) {
    out.extend_from_slice(&timeline.to_bytes());
    out.extend_from_slice(&reader.0.to_le_bytes());
    out.extend_from_slice(&upto.to_le_bytes());
}

/// Content of a Cursor.
pub(crate) fn read_cursor(payload: &[u8]) -> Option<(TimelineId, ReaderId, Seq)> {
    let mut bytes = Bytes(payload);
    let timeline = TimelineId::from_bytes(bytes.array()?)?;
    let said = (timeline, ReaderId(bytes.u64()?), bytes.u64()?);
    bytes.0.is_empty().then_some(said)
}

/// A Forget: how many entries of each segment go with the timeline.
pub(crate) fn write_forget(timeline: TimelineId, freed: &[(u32, u32)], out: &mut Vec<u8>) {
    out.extend_from_slice(&timeline.to_bytes());
    out.extend_from_slice(&(freed.len() as u32).to_le_bytes());
    for (segment, entries) in freed {
        out.extend_from_slice(&segment.to_le_bytes());
        out.extend_from_slice(&entries.to_le_bytes());
    }
}

/// Content of a Forget.
pub(crate) fn read_forget(payload: &[u8]) -> Option<(TimelineId, Vec<(u32, u32)>)> {
    let mut bytes = Bytes(payload);
    let timeline = TimelineId::from_bytes(bytes.array()?)?;
    let count = bytes.u32()?;
    let freed = (0..count).map(|_| Some((bytes.u32()?, bytes.u32()?))).collect::<Option<_>>()?;
    bytes.0.is_empty().then_some((timeline, freed))
}

/// A Put.
pub(crate) fn write_put(table: Table, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.push(table as u8);
    out.extend_from_slice(&(key.len() as u16).to_le_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

/// Content of a Put.
pub(crate) fn read_put(payload: &[u8]) -> Option<(Table, &[u8], &[u8])> {
    let mut bytes = Bytes(payload);
    let table = Table::from_byte(bytes.u8()?)?;
    let key_bytes = bytes.u16()?;
    Some((table, bytes.take(key_bytes.into())?, bytes.0))
}

/// A Delete.
pub(crate) fn write_delete(table: Table, key: &[u8], out: &mut Vec<u8>) {
    out.push(table as u8);
    out.extend_from_slice(key);
}

/// Content of a Delete.
pub(crate) fn read_delete(payload: &[u8]) -> Option<(Table, &[u8])> {
    let mut bytes = Bytes(payload);
    Some((Table::from_byte(bytes.u8()?)?, bytes.0))
}

/// A Once: an append of another log, or of one that is gone, is remembered here.
pub(crate) fn write_once(claim: Claim, id: u64, seqs: &[Seq], out: &mut Vec<u8>) {
    out.extend_from_slice(&claim.key.0.to_le_bytes());
    out.extend_from_slice(&claim.crc.to_le_bytes());
    out.extend_from_slice(&claim.made_s.to_le_bytes());
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&(seqs.len() as u32).to_le_bytes());
    seqs.iter().for_each(|seq| out.extend_from_slice(&seq.to_le_bytes()));
}

/// Content of a Once.
pub(crate) fn read_once(payload: &[u8]) -> Option<(Claim, u64, Box<[Seq]>)> {
    let mut bytes = Bytes(payload);
    let (key, crc, made_s) = (OnceKey(bytes.u128()?), bytes.u32()?, bytes.u32()?);
    let (id, count) = (bytes.u64()?, bytes.u32()?);
    let seqs = (0..count).map(|_| bytes.u64()).collect::<Option<_>>()?;
    bytes.0.is_empty().then_some((Claim { key, crc, made_s }, id, seqs))
}

/// Appends a place.
pub(crate) fn put_place(place: Place, out: &mut Vec<u8>) {
    out.extend_from_slice(&place.segment.to_le_bytes());
    out.extend_from_slice(&place.offset.to_le_bytes());
}

/// Reads a place.
pub(crate) fn place(bytes: &mut Bytes<'_>) -> Option<Place> {
    Some(Place { segment: bytes.u32()?, offset: bytes.u32()? })
}

/// By what a message is known again under its once key.
pub(crate) fn crc(message: &Message) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[message.label.len() as u8]);
    hasher.update(&message.label);
    hasher.update(&message.body);
    hasher.finalize()
}

fn target_of(target: &[u8]) -> Option<(TimelineId, Seq)> {
    let (timeline, seq) = target.split_first_chunk::<16>()?;
    Some((TimelineId::from_bytes(*timeline)?, Seq::from_le_bytes(seq.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::timeline::Space;

    fn timeline(n: u8) -> TimelineId {
        TimelineId::of(Space::Other, HashKey::new(1, 2), &[&[n]])
    }

    #[test]
    fn an_append_comes_back_in_every_form_and_a_cut_one_does_not() {
        let message =
            Message { id: 9, at_s: 8, label: b"label".as_slice().into(), body: [7; 40].into() };
        let there = Place { segment: 3, offset: 99 };
        let claim = Claim { key: OnceKey(77), crc: crc(&message), made_s: 5 };
        for whereabouts in [Whereabouts::Nowhere, Whereabouts::Here, Whereabouts::There(there, 6)] {
            for (claim, from) in [(None, Some(there)), (Some(claim), None)] {
                let said = Said { claim, from, ..Said::of(&message, whereabouts) };
                let targets = [(timeline(1), 5), (timeline(2), u64::MAX - 1)];
                let mut payload = Vec::new();
                said.write(targets.into_iter(), &mut payload);
                let read = Said::read(&payload).expect("whole");
                assert_eq!((read.id, read.at_s, read.label), (9, 8, &b"label"[..]));
                assert_eq!((read.claim, read.from), (claim, from));
                assert_eq!(read.whereabouts, whereabouts);
                assert_eq!(read.targets.pairs(&[]).as_deref(), Some(&targets[..]));
                let here = whereabouts == Whereabouts::Here;
                assert_eq!(read.message(), here.then(|| message.clone()));
                for cut in 0..payload.len() {
                    assert!(Said::read(&payload[..cut]).is_none(), "cut at {cut}");
                }
            }
        }
    }

    #[test]
    fn the_others_come_back() {
        let mut out = Vec::new();
        let leaving = vec![Leaving { seq: 4, segment: 2, weight: 100 }; 3];
        write_remove(timeline(1), &leaving, &mut out);
        assert_eq!(read_remove(&out), Some((timeline(1), leaving)));
        assert_eq!(read_remove(&out[..out.len() - 1]), None);
        out.clear();
        write_cursor(timeline(1), ReaderId(6), 7, &mut out);
        assert_eq!(read_cursor(&out), Some((timeline(1), ReaderId(6), 7)));
        out.clear();
        write_forget(timeline(1), &[(1, 2), (3, 4)], &mut out);
        assert_eq!(read_forget(&out), Some((timeline(1), vec![(1, 2), (3, 4)])));
        out.clear();
        write_put(Table::Marks, b"key", b"value", &mut out);
        assert_eq!(read_put(&out), Some((Table::Marks, &b"key"[..], &b"value"[..])));
        out.clear();
        write_delete(Table::Marks, b"key", &mut out);
        assert_eq!(read_delete(&out), Some((Table::Marks, &b"key"[..])));
        out.clear();
        let claim = Claim { key: OnceKey(1 << 100), crc: 2, made_s: 3 };
        write_once(claim, 4, &[5, u64::MAX], &mut out);
        assert_eq!(read_once(&out), Some((claim, 4, [5, u64::MAX].into())));
        assert!((0..out.len()).all(|cut| read_once(&out[..cut]).is_none()));
    }
}

//! A message as the index knows it: where it stands, and all of it but the body.

use crate::log::Place;
use model::timeline::Seq;
use std::sync::Arc;

/// Weight of a message in a store beside its label and body, bytes: as
/// [`model::timeline::Message::weight`] counts.
const WEIGHT_BESIDE: u64 = 64;

/// Where a message stands, and what is known of it without reading it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stored {
    /// Of the record that holds it.
    pub(crate) place: Place,
    /// Of that record, with its head, bytes.
    pub(crate) length: u32,
    /// Of the body, bytes.
    pub(crate) body: u32,
    /// Unix second.
    pub(crate) at_s: u32,
    pub(crate) id: u64,
    pub(crate) label: Box<[u8]>,
}

impl Stored {
    /// Its share of a timeline's bytes.
    pub(crate) fn weight(&self) -> u64 {
        u64::from(self.body) + self.label.len() as u64 + WEIGHT_BESIDE
    }
}

/// A message at its place in a timeline. Timelines share what one append gave to all of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) seq: Seq,
    pub(crate) stored: Arc<Stored>,
}

/// An entry as a removal names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Leaving {
    pub(crate) seq: Seq,
    /// Segment of its message.
    pub(crate) segment: u32,
    /// As [`Stored::weight`].
    pub(crate) weight: u32,
}

impl Leaving {
    pub(crate) fn of(seq: Seq, stored: &Stored) -> Leaving {
        let weight = stored.weight() as u32; // limits of the port keep it far below
        Leaving { seq, segment: stored.place.segment, weight }
    }
}

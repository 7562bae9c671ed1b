//! Taking in what another log gave out: entries at the places they had.

use super::Engine;
use super::commit::Batch;
use super::index::once::First;
use super::index::rosters::changed;
use super::read::state_failed;
use super::record::{self, Claim, Said, Whereabouts, list};
use super::state::StateError;
use super::undo::Undo;
use crate::log::{Purpose, RecordKind};
use model::ports::log::{OnceKey, Roster, RosterChange, RosterId, StoreError};
use model::timeline::{Message, Seq, TimelineId};
use std::sync::Arc;

/// Once keys that an export, or another number of logs, takes of one log: some 400 MB of memory.
const REMEMBERED_MAX: usize = 1 << 22;

/// One thing to take in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Import {
    /// A message at this place, if the timeline has given none so high yet.
    Entry(TimelineId, Seq, Arc<Message>),
    /// A timeline's numbers go on behind this one.
    Last(TimelineId, Seq),
    /// An append is remembered under its once key.
    Once(OnceRecord),
    /// A roster, or some of its members: it has those that it had too, and the lower version, so
    /// that a change of which only a part of them heard is said again.
    Roster(RosterId, Roster),
}

/// An append that a log remembers, so that a retry gets the first answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OnceRecord {
    /// Its once key.
    pub key: OnceKey,
    /// Checksum of label and body, by which the message is known again.
    pub crc: u32,
    /// Unix second at which it was made.
    pub made_s: u32,
    /// The message's id.
    pub id: u64,
    /// The places that it took.
    pub seqs: Box<[Seq]>,
}

impl Engine {
    /// Takes in a batch. For each whether it was new; an entry that is not new is left out.
    pub fn import(&mut self, now_s: u32, imports: &[Import]) -> Result<Vec<bool>, StoreError> {
        let mut batch = Batch::default();
        let mut new = Vec::with_capacity(imports.len());
        for import in imports {
            match self.import_one(now_s, import, &mut batch) {
                Ok(is_new) => new.push(is_new),
                Err(error) => {
                    self.take_back(batch);
                    return Err(error);
                }
            }
        }
        self.finish_batch(now_s, batch, Purpose::Store)?;
        Ok(new)
    }

    fn import_one(
        &mut self,
        now_s: u32,
        import: &Import,
        batch: &mut Batch,
    ) -> Result<bool, StoreError> {
        let (timeline, seq) = match import {
            Import::Entry(timeline, seq, _) | Import::Last(timeline, seq) => (timeline, seq),
            Import::Once(remembered) => return self.import_once(now_s, remembered, batch),
            Import::Roster(id, roster) => return self.import_roster(*id, roster, batch),
        };
        let slot = self.index.head(*timeline).map_err(|error| state_failed(&error))?;
        let last = self.index.heads.at(slot).last;
        if *seq <= last || *seq == Seq::MAX {
            return Ok(false);
        }
        let target = [(*timeline, *seq)];
        batch.undo.push(Undo::Raise { slot, last });
        self.index.raise(slot, *seq);
        match import {
            Import::Entry(_, _, message) => {
                if message.label.len() > Message::LABEL_BYTES_MAX
                    || message.body.len() > Message::BODY_BYTES_MAX
                {
                    return Err(StoreError::TooLarge);
                }
                let said = Said::of(message, Whereabouts::Here);
                let at =
                    self.log.add(RecordKind::Append, |out| said.write(target.into_iter(), out));
                let stored = self.hold(message, at, batch);
                self.index.push(slot, *seq, &stored);
                let segment = stored.place.segment;
                self.index.counts.fill(segment, 1);
                batch.pushed.push((slot, *seq));
                batch.undo.push(Undo::Append { count: 1, segment });
            }
            Import::Last(..) | Import::Once(_) | Import::Roster(..) => {
                let empty = Message { id: 0, at_s: 0, label: [].into(), body: [].into() };
                let said = Said::of(&empty, Whereabouts::Nowhere);
                self.log.add(RecordKind::Append, |out| said.write(target.into_iter(), out));
            }
        }
        Ok(true)
    }

    /// Of two that are remembered under one key the first is the answer.
    fn import_once(
        &mut self,
        now_s: u32,
        remembered: &OnceRecord,
        batch: &mut Batch,
    ) -> Result<bool, StoreError> {
        let OnceRecord { key, crc, made_s, id, ref seqs } = *remembered;
        let known = self.index.once.find(&*self.index.state, now_s, key);
        if known.map_err(|error| state_failed(&error))?.is_some() {
            return Ok(false);
        }
        let claim = Claim { key, crc, made_s };
        let write = |out: &mut Vec<u8>| record::write_once(claim, id, seqs, out);
        let (place, _) = self.log.add(RecordKind::Once, write);
        self.index.once.insert(claim, place, id, seqs.clone());
        batch.undo.push(Undo::Once(key));
        Ok(true)
    }

    fn import_roster(
        &mut self,
        id: RosterId,
        roster: &Roster,
        batch: &mut Batch,
    ) -> Result<bool, StoreError> {
        let before = self.index.roster(id).map_err(|error| state_failed(&error))?;
        let version = match before.version {
            0 => roster.version,
            before => before.min(roster.version),
        };
        let (after, join) = (before.version, roster.members.to_vec());
        let change = RosterChange { roster: id, after, version, leave: Vec::new(), join };
        self.log.add(RecordKind::Roster, |out| list::write_roster(&change, out));
        let members = changed(&before.members, &[], &change.join);
        self.set_roster(id, Roster { version, members }, batch);
        Ok(true)
    }

    /// The newest appends remembered under once keys, in the order in which they came, as many as
    /// fit into memory.
    pub fn remembered(&self) -> Result<Vec<OnceRecord>, StateError> {
        let of = |(key, first): (OnceKey, First)| {
            let First { made_s, crc, id, seqs, .. } = first;
            OnceRecord { key, crc, made_s, id, seqs }
        };
        let newest = self.index.once.newest(&*self.index.state, REMEMBERED_MAX)?;
        Ok(newest.into_iter().map(of).collect())
    }
}

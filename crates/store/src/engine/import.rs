//! Taking in what another log gave out: entries at the places they had.

use super::Engine;
use super::commit::Batch;
use super::read::state_failed;
use super::record::{Said, Whereabouts};
use super::undo::Undo;
use crate::log::RecordKind;
use model::ports::log::StoreError;
use model::timeline::{Message, Seq, TimelineId};
use std::sync::Arc;

/// One thing to take in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Import {
    /// A message at this place, if the timeline has given none so high yet.
    Entry(TimelineId, Seq, Arc<Message>),
    /// A timeline's numbers go on behind this one.
    Last(TimelineId, Seq),
}

impl Engine {
    /// Takes in a batch. For each whether it was new; an entry that is not new is left out.
    pub fn import(&mut self, now_s: u32, imports: &[Import]) -> Result<Vec<bool>, StoreError> {
        let mut batch = Batch::default();
        let mut new = Vec::with_capacity(imports.len());
        for import in imports {
            match self.import_one(import, &mut batch) {
                Ok(is_new) => new.push(is_new),
                Err(error) => {
                    self.take_back(batch);
                    return Err(error);
                }
            }
        }
        self.finish_batch(now_s, batch, false)?;
        Ok(new)
    }

    fn import_one(&mut self, import: &Import, batch: &mut Batch) -> Result<bool, StoreError> {
        let (Import::Entry(timeline, seq, _) | Import::Last(timeline, seq)) = import;
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
                batch.undo.push(Undo::Append { pushed: [(slot, *seq)].into(), segment });
            }
            Import::Last(..) => {
                let empty = Message { id: 0, at_s: 0, label: [].into(), body: [].into() };
                let said = Said::of(&empty, Whereabouts::Nowhere);
                self.log.add(RecordKind::Append, |out| said.write(target.into_iter(), out));
            }
        }
        Ok(true)
    }
}

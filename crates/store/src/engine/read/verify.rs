//! Looking whether state, memory and log agree: heads with entries, segments with counts, entries
//! with messages.

use crate::engine::Engine;
use crate::engine::index::heads::{HeadRow, read_row};
use crate::engine::read::body::message_at;
use crate::engine::read::runs;
use crate::engine::record::stored::Entry;
use crate::engine::state::{Keep, StateError};
use model::timeline::TimelineId;
use std::collections::BTreeMap;

/// Problems that are reported; more are only counted.
const TOLD_MAX: usize = 100;

/// Result of a verification: what was looked at, and what is wrong.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verified {
    /// Timelines.
    pub timelines: u64,
    /// Entries.
    pub entries: u64,
    /// Messages that were read.
    pub messages: u64,
    /// Problems, of which the first hundred are reported.
    pub problems: u64,
    /// In words, with file and place where there is one.
    pub told: Vec<String>,
}

impl Verified {
    fn say(&mut self, problem: String) {
        self.problems += 1;
        if self.told.len() < TOLD_MAX {
            self.told.push(problem);
        }
    }
}

impl Engine {
    /// Looks at everything; with `messages` also whether each can be read.
    pub fn verify(&self, messages: bool) -> Result<Verified, StateError> {
        let mut verified = Verified::default();
        let mut live = BTreeMap::new();
        let mut ids: Vec<_> = self.index.changed().collect();
        let mut sense = true;
        self.index.state.range(Keep::Heads, (&[], &[u8::MAX; 17]), false, &mut |key, value| {
            let id = key.try_into().ok().and_then(TimelineId::from_bytes);
            sense &= id.is_some() && read_row(value).is_some();
            let changed = |id: &TimelineId| {
                self.index.heads.find(*id).is_some_and(|slot| self.index.touched(slot).is_some())
            };
            ids.extend(id.filter(|id| !changed(id)));
            true
        })?;
        if !sense {
            verified.say("invalid head in the state".into());
        }
        for id in ids {
            self.verify_timeline(id, messages, &mut live, &mut verified)?;
        }
        for (segment, count) in self.index.counts.iter() {
            let found = live.remove(&segment).unwrap_or(0);
            if found != count.live {
                let counted = count.live;
                verified.say(format!("segment {segment}: {counted} counted, {found} found"));
            }
        }
        for (segment, found) in live {
            verified.say(format!("segment {segment}: none counted, {found} found"));
        }
        Ok(verified)
    }

    fn verify_timeline(
        &self,
        id: TimelineId,
        messages: bool,
        live: &mut BTreeMap<u32, u64>,
        verified: &mut Verified,
    ) -> Result<(), StateError> {
        verified.timelines += 1;
        let (mut seq, mut found) = (0, HeadRow::default());
        let mut each = |entry: &Entry| {
            let stored = &entry.stored;
            verified.entries += 1;
            *live.entry(stored.place.segment).or_insert(0) += 1;
            (found.count, found.bytes) = (found.count + 1, found.bytes + stored.weight());
            if entry.seq <= seq {
                verified.say(format!("{id:?}: {} stands after {seq}", entry.seq));
            }
            seq = entry.seq;
            if messages {
                verified.messages += 1;
                if let Err(error) = message_at(&self.reader, stored) {
                    let (segment, offset) = (stored.place.segment, stored.place.offset);
                    let file = format!("{segment:010}.log");
                    verified.say(format!("{id:?} {seq}: {file} at byte {offset}: {error:?}"));
                }
            }
        };
        let row = match self.index.heads.find(id) {
            Some(slot) => {
                self.each_entry(id, slot, &mut each)?;
                self.index.heads.at(slot).row()
            }
            None => {
                let state = &*self.index.state;
                let known = crate::engine::index::head_in_state(state, id)?;
                runs::forwards(state, id, (0, u64::MAX - 1), &mut |entry| {
                    each(&entry);
                    true
                })?;
                known.unwrap_or_default().0
            }
        };
        if seq > row.last {
            verified.say(format!("{id:?}: an entry at {seq}, but the last is {}", row.last));
        }
        if (found.count, found.bytes) != (row.count, row.bytes) {
            verified.say(format!("{id:?}: the head says {row:?}, there is {found:?}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_counted_and_so_many_are_told() {
        let mut verified = Verified::default();
        (0..TOLD_MAX).for_each(|number| verified.say(number.to_string()));
        assert_eq!((verified.problems, verified.told.len()), (100, TOLD_MAX));
        verified.say("one more".into());
        assert_eq!((verified.problems, verified.told.len()), (101, TOLD_MAX));
        assert_eq!(verified.told.last().map(String::as_str), Some("99"));
    }
}

//! Writes: each becomes one record that says all of it, and changes the index at once; then the
//! batch is committed, or taken back.
//!
//! A message for many timelines stands in a record of its own before those that name them (`post`),
//! so that whoever reads it does not read them all; alone it means nothing. A disk without room
//! takes what ends something, in a second try. It does not know what is on stable storage: that is
//! the log's. Invariant: after a batch that was refused the index is as it was.

use super::Engine;
use super::index::once::First;
use super::index::rows::row_key;
use super::read::runs::Finder;
use super::read::state_failed;
use super::record::stored::{Entry, Leaving, Stored};
use super::record::{self, Claim, Said, Whereabouts};
use super::state::StateError;
use super::undo::Undo;
use crate::log::{Place, Purpose, RecordKind};
use model::ports::log::*;
use model::timeline::{Message, ReaderId, Seq, TimelineId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Timelines that an append names beside its message. With more, the message has its own record.
pub(super) const TARGETS_BESIDE_MAX: usize = 16;

/// A row of at most so many bytes is taken even when the log is full.
const SMALL_ROW_BYTES: usize = 1_024;

/// Changes of a batch so far.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) undo: Vec<Undo>,
    /// Slots that were pushed to, and under which seqs, as [`Undo::Append`] counts them.
    pub(super) pushed: Vec<(u32, Seq)>,
    /// Messages that stand at these places.
    hot: Vec<(Place, Arc<Message>)>,
}

impl Batch {
    /// With room for what so many writes do, as a rule.
    fn of(writes: usize) -> Batch {
        let (undo, pushed) = (Vec::with_capacity(2 * writes), Vec::with_capacity(2 * writes));
        Batch { undo, pushed, hot: Vec::with_capacity(writes) }
    }
}

impl Engine {
    /// Carries out a batch, with one sync. Answers in order. Unix seconds, for ages.
    pub fn commit(&mut self, now_s: u32, writes: &[Write]) -> Vec<Result<Done, StoreError>> {
        assert!(self.follower.is_none(), "what follows is written by its leader alone");
        if self.log.is_failed() {
            return vec![Err(StoreError::Failed); writes.len()];
        }
        self.index.once.trim(now_s);
        self.index.look_for(writes.iter().flat_map(appended_to).copied());
        let is_past_limit = self.log.is_full() && self.log.is_past_limit();
        for purpose in Purpose::ALL.into_iter().skip(usize::from(is_past_limit)) {
            let mut batch = Batch::of(writes.len());
            let each = |write| self.one(now_s, write, purpose, &mut batch);
            let answers: Vec<_> = writes.iter().map(each).collect();
            match self.finish_batch(now_s, batch, purpose) {
                Ok(()) => {
                    self.look_for_excess(writes);
                    return answers;
                }
                Err(StoreError::Full) => {}
                Err(error) => return vec![Err(error); writes.len()],
            }
        }
        // Not even endings; what needs no room is answered all the same.
        let answer = |write: &Write| {
            let known = match write {
                Write::Append(Append { once, message, .. })
                | Write::Post(Post { once, message, .. }) => self.known(now_s, *once, message),
                Write::AppendWith(it) => self.known_as(now_s, &it.append, it.check),
                _ => None,
            };
            known.unwrap_or(Err(StoreError::Full))
        };
        writes.iter().map(answer).collect()
    }

    /// Whether a client would wait for a row of this table until the stream has room.
    fn must_wait(&self, table: Table) -> bool {
        self.log.is_stream_full() && ASKED_FOR.contains(&table)
    }

    /// Commits what is in the log's batch, or takes it back.
    pub(super) fn finish_batch(
        &mut self,
        now_s: u32,
        batch: Batch,
        purpose: Purpose,
    ) -> Result<(), StoreError> {
        let bytes = self.log.batch_bytes();
        if let Err(error) = self.log.commit(purpose) {
            self.take_back(batch);
            return Err(error);
        }
        for (place, message) in batch.hot {
            self.hot.hold(place, &message);
        }
        if bytes > 0 {
            self.since.note(now_s, bytes);
        }
        self.trim_heads();
        Ok(())
    }

    /// Keeps no more heads in memory than may be there.
    pub(super) fn trim_heads(&mut self) {
        let max = self.settings.heads_resident_max;
        let excess = self.index.heads.len().saturating_sub(max);
        if excess > 0 {
            self.index.heads.shrink_to(max, 1_024 + 4 * excess);
        }
    }

    pub(super) fn take_back(&mut self, batch: Batch) {
        self.log.drop_batch();
        self.hot.forget_pointers();
        let Batch { undo, mut pushed, .. } = batch;
        undo.into_iter().rev().for_each(|undo| undo.carry_out(&mut self.index, &mut pushed));
    }

    /// One write, if the purpose of the batch is its own.
    fn one(
        &mut self,
        now_s: u32,
        write: &Write,
        purpose: Purpose,
        batch: &mut Batch,
    ) -> Result<Done, StoreError> {
        let ending = purpose > Purpose::Store;
        let state_failed = |error: StateError| state_failed(&error);
        match write {
            Write::Append(append) => {
                too_large(&append.message, append.to.len())?;
                match self.known(now_s, append.once, &append.message) {
                    Some(answer) => return answer,
                    None if !takes(purpose, append) => return Err(StoreError::Full),
                    None => {
                        let check = append.once.map(|_| record::crc(&append.message));
                        let done = self.append(now_s, (append, check), batch);
                        return done.map_err(state_failed);
                    }
                }
            }
            Write::Post(post) => {
                too_large(&post.message, 0)?;
                match self.known(now_s, post.once, &post.message) {
                    Some(answer) => return answer,
                    None if ending => return Err(StoreError::Full),
                    None => return self.post(now_s, post, batch),
                }
            }
            Write::AppendWith(with) => return self.append_with(now_s, with, purpose, batch),
            Write::Roster(change) => self.change_roster(change, ending, batch)?,
            Write::Disband(roster) => self.disband(*roster, batch),
            Write::Put { table: Table::Rosters, .. }
            | Write::Delete { table: Table::Rosters, .. } => return Err(StoreError::Stale),
            Write::Remove { seqs, .. } if seqs.len() > REMOVE_SEQS_MAX => {
                return Err(StoreError::TooLarge);
            }
            Write::Remove { timeline, seqs } => {
                let mut finder = Finder::new(*timeline);
                let state = Arc::clone(&self.index.state);
                let mut in_runs = |seq| finder.leaving(&*state, seq);
                self.remove(*timeline, seqs, &mut in_runs, batch).map_err(state_failed)?;
            }
            Write::Acknowledge { timeline, reader, upto } => {
                self.acknowledge(*timeline, *reader, *upto, batch).map_err(state_failed)?;
            }
            Write::Forget(timeline) => self.forget(*timeline, batch).map_err(state_failed)?,
            Write::Put { key, value, .. }
                if key.len() > ROW_KEY_BYTES_MAX || value.len() > ROW_VALUE_BYTES_MAX =>
            {
                return Err(StoreError::TooLarge);
            }
            Write::Put { table, value, .. }
                if ending && (value.len() > SMALL_ROW_BYTES || self.must_wait(*table)) =>
            {
                return Err(StoreError::Full);
            }
            Write::Put { table, key, value } => {
                self.log.add(RecordKind::Put, |out| record::write_put(*table, key, value, out));
                self.set_row(*table, key, Some(value.clone()), batch);
            }
            Write::Delete { key, .. } if key.len() > ROW_KEY_BYTES_MAX => {} // there is none
            Write::Delete { table, key } => {
                self.log.add(RecordKind::Delete, |out| record::write_delete(*table, key, out));
                self.set_row(*table, key, None, batch);
            }
        }
        Ok(Done::Written)
    }

    /// The answer to an append that is known already.
    fn known(
        &self,
        now_s: u32,
        once: Option<OnceKey>,
        message: &Message,
    ) -> Option<Result<Done, StoreError>> {
        let found = self.index.once.find(&*self.index.state, now_s, once?);
        let First { crc, id, seqs, .. } = match found {
            Ok(first) => first?,
            Err(error) => return Some(Err(state_failed(&error))),
        };
        if crc != record::crc(message) {
            return Some(Err(StoreError::Conflict));
        }
        Some(Ok(Done::Appended(Appended { new: false, id, seqs: seqs.into_vec() })))
    }

    /// The answer to an append that is known already, by what its owner says makes it the same, or
    /// as one that was stored without that.
    fn known_as(
        &self,
        now_s: u32,
        append: &Append,
        check: u32,
    ) -> Option<Result<Done, StoreError>> {
        let found = self.index.once.find(&*self.index.state, now_s, append.once?);
        let First { crc, id, seqs, .. } = match found {
            Ok(first) => first?,
            Err(error) => return Some(Err(state_failed(&error))),
        };
        if crc != check && crc != record::crc(&append.message) {
            return Some(Err(StoreError::Conflict));
        }
        Some(Ok(Done::Appended(Appended { new: false, id, seqs: seqs.into_vec() })))
    }

    /// Its records are of one batch, of which a crash leaves all or nothing.
    fn append_with(
        &mut self,
        now_s: u32,
        with: &AppendWith,
        purpose: Purpose,
        batch: &mut Batch,
    ) -> Result<Done, StoreError> {
        let AppendWith { append, check, replaces } = with;
        let is_large = |it: &Replaced| {
            it.key.len() > ROW_KEY_BYTES_MAX || it.value.len() > ROW_VALUE_BYTES_MAX
        };
        let is_large = replaces.as_ref().is_some_and(is_large);
        if is_large || append.to.len() > REPLACE_TIMELINES_MAX {
            return Err(StoreError::TooLarge);
        }
        if replaces.as_ref().is_some_and(|it| it.table == Table::Rosters) {
            return Err(StoreError::Stale);
        }
        too_large(&append.message, append.to.len())?;
        match self.known_as(now_s, append, *check) {
            Some(answer) => return answer,
            None if !takes(purpose, append) => return Err(StoreError::Full),
            None => {}
        }
        let state_failed = |error: StateError| state_failed(&error);
        // A head that cannot be read is found out before anything is in the batch.
        for timeline in &append.to {
            self.index.head(*timeline).map_err(state_failed)?;
        }
        if let Some(Replaced { timeline, seq, table, key, value }) = replaces {
            let mut finder = Finder::new(*timeline);
            let state = Arc::clone(&self.index.state);
            let mut in_runs = |seq| finder.leaving(&*state, seq);
            self.remove(*timeline, &[*seq], &mut in_runs, batch).map_err(state_failed)?;
            self.log.add(RecordKind::Put, |out| record::write_put(*table, key, value, out));
            self.set_row(*table, key, Some(value.clone()), batch);
        }
        self.append(now_s, (append, Some(*check)), batch).map_err(state_failed)
    }

    fn append(
        &mut self,
        now_s: u32,
        (append, check): (&Append, Option<u32>),
        batch: &mut Batch,
    ) -> Result<Done, StateError> {
        let Append { message, to, once, .. } = append;
        if to.len() > TARGETS_BESIDE_MAX {
            return self.append_to_many(now_s, append, batch);
        }
        let mut slots = std::mem::take(&mut self.slots);
        slots.clear();
        for timeline in to {
            slots.push(self.index.head(*timeline)?);
        }
        let seqs: Vec<Seq> = slots.iter().map(|&slot| self.index.next_seq(slot)).collect();
        let claim = once.zip(check).map(|(key, crc)| Claim { key, crc, made_s: now_s });
        if !to.is_empty() || claim.is_some() {
            let targets = Targets { to, seqs: &seqs };
            let (place, stored) = self.add_append(message, claim, targets, batch);
            if let Some(stored) = stored {
                let pairs = slots.iter().zip(&seqs);
                pairs.for_each(|(&slot, &seq)| self.index.push(slot, seq, &stored));
                self.index.counts.fill(stored.place.segment, seqs.len() as u64);
                self.since.places += seqs.len() as u64;
                batch.pushed.extend(slots.iter().copied().zip(seqs.iter().copied()));
                let (count, segment) = (seqs.len(), stored.place.segment);
                batch.undo.push(Undo::Append { count, segment });
            }
            if let Some(claim) = claim {
                self.index.once.insert(claim, place, message.id, seqs.as_slice().into());
                batch.undo.push(Undo::Once(claim.key));
            }
        }
        self.slots = slots;
        Ok(Done::Appended(Appended { new: true, id: message.id, seqs }))
    }

    /// Adds the records of an append. Where the one stands that counts, and what the index keeps.
    fn add_append(
        &mut self,
        message: &Arc<Message>,
        claim: Option<Claim>,
        targets: Targets<'_>,
        batch: &mut Batch,
    ) -> (Place, Option<Arc<Stored>>) {
        if targets.to.is_empty() {
            let said = Said { claim, ..Said::of(message, Whereabouts::Nowhere) };
            let (place, _) =
                self.log.add(RecordKind::Append, |out| said.write(targets.iter(), out));
            return (place, None);
        }
        self.log.open_batch();
        if let Some(stored) = self.hot.find(message, self.log.ahead().segment) {
            let there = Whereabouts::There(stored.place, stored.length);
            let said = Said { claim, ..Said::of(message, there) };
            let (place, _) =
                self.log.add(RecordKind::Append, |out| said.write(targets.iter(), out));
            return (place, Some(stored));
        }
        let said = Said { claim, ..Said::of(message, Whereabouts::Here) };
        let (place, length) =
            self.log.add(RecordKind::Append, |out| said.write(targets.iter(), out));
        (place, Some(self.hold(message, (place, length), batch)))
    }

    /// A message stands in the log from now on.
    pub(super) fn hold(
        &mut self,
        message: &Arc<Message>,
        (place, length): (Place, u32),
        batch: &mut Batch,
    ) -> Arc<Stored> {
        let stored = Stored {
            place,
            length,
            body: message.body.len() as u32,
            at_s: message.at_s,
            id: message.id,
            label: message.label.clone(),
        };
        let stored = Arc::new(stored);
        self.index.counts.hold(place.segment, length);
        batch.undo.push(Undo::Hold { segment: place.segment, bytes: length });
        self.hot.know(message, &stored);
        batch.hot.push((place, Arc::clone(message)));
        stored
    }

    /// Takes entries out of a timeline; how many were there.
    pub(super) fn remove(
        &mut self,
        timeline: TimelineId,
        seqs: &[Seq],
        in_runs: &mut dyn FnMut(Seq) -> Result<Option<Leaving>, StateError>,
        batch: &mut Batch,
    ) -> Result<usize, StateError> {
        let slot = self.index.head(timeline)?;
        let mut all = Vec::with_capacity(seqs.len());
        for &seq in seqs {
            match self.index.leave(slot, seq, in_runs) {
                Ok(Some((leaving, left))) => {
                    all.push(leaving);
                    let counted = self.index.counts.free(leaving.segment, 1);
                    debug_assert!(counted, "entries are counted");
                    batch.undo.push(Undo::Remove { slot, leaving, left });
                }
                Ok(None) => {}
                Err(error) => {
                    let these = batch.undo.split_off(batch.undo.len() - all.len());
                    for undo in these.into_iter().rev() {
                        undo.carry_out(&mut self.index, &mut batch.pushed);
                    }
                    return Err(error);
                }
            }
        }
        if !all.is_empty() {
            self.log.add(RecordKind::Remove, |out| record::write_remove(timeline, &all, out));
        }
        Ok(all.len())
    }

    pub(super) fn acknowledge(
        &mut self,
        timeline: TimelineId,
        reader: ReaderId,
        upto: Seq,
        batch: &mut Batch,
    ) -> Result<(), StateError> {
        let slot = self.index.head(timeline)?;
        let before = self.index.acknowledge(slot, reader, upto);
        batch.undo.push(Undo::Cursor { slot, reader, before });
        self.log.add(RecordKind::Cursor, |out| record::write_cursor(timeline, reader, upto, out));
        Ok(())
    }

    fn forget(&mut self, timeline: TimelineId, batch: &mut Batch) -> Result<(), StateError> {
        let slot = self.index.head(timeline)?;
        let mut freed: BTreeMap<u32, u32> = BTreeMap::new();
        self.each_entry(timeline, slot, &mut |entry| {
            *freed.entry(entry.stored.place.segment).or_default() += 1;
        })?;
        let freed: Vec<_> = freed.into_iter().collect();
        for &(segment, entries) in &freed {
            let counted = self.index.counts.free(segment, entries.into());
            debug_assert!(counted, "entries are counted");
        }
        self.log.add(RecordKind::Forget, |out| record::write_forget(timeline, &freed, out));
        let forgotten = Box::new(self.index.forget(slot));
        batch.undo.push(Undo::Forget { slot, forgotten, freed });
        Ok(())
    }

    /// Every entry of a timeline, with its message's place as of now.
    pub(super) fn each_entry(
        &self,
        timeline: TimelineId,
        slot: u32,
        each: &mut dyn FnMut(&Entry),
    ) -> Result<(), StateError> {
        let touched = self.index.touched(slot);
        let base = touched.map_or(self.index.heads.at(slot).last, |touched| touched.base);
        let mut now = |entry: &Entry| {
            match touched.and_then(|touched| touched.moved(entry.seq)) {
                None => each(entry),
                Some((place, length)) => {
                    let stored = Stored { place, length, ..(*entry.stored).clone() };
                    each(&Entry { seq: entry.seq, stored: Arc::new(stored) });
                }
            };
        };
        if self.index.runs(slot) > 0 {
            let state = &*self.index.state;
            super::read::runs::forwards(state, timeline, (0, base), &mut |entry| {
                if !touched.is_some_and(|touched| touched.is_gone(entry.seq)) {
                    now(&entry);
                }
                true
            })?;
        }
        touched.into_iter().flat_map(|touched| touched.tail_after(0)).for_each(now);
        Ok(())
    }

    pub(super) fn set_row(
        &mut self,
        table: Table,
        key: &[u8],
        value: Option<Box<[u8]>>,
        batch: &mut Batch,
    ) {
        let key = row_key(table, key);
        let before = self.index.rows.set(key.clone(), value);
        batch.undo.push(Undo::Row { key, before });
    }

    /// Remembers timelines of which retention may want to drop something.
    fn look_for_excess(&mut self, writes: &[Write]) {
        if !self.settings.retention.iter().any(|rule| rule.retention.is_of_heads()) {
            return;
        }
        for write in writes {
            match write {
                Write::Append(append) => self.look_at_all(append),
                Write::AppendWith(with) => self.look_at_all(&with.append),
                Write::Post(post) => {
                    let members = self.index.rosters.get(post.roster);
                    let members = members.map(|known| Arc::clone(&known.roster.members));
                    let label = &post.message.label;
                    let all = members.iter().flat_map(|all| all.iter());
                    all.for_each(|&it| self.look_at(it, label));
                }
                Write::Acknowledge { timeline, .. }
                    if self.settings.rule(timeline.space(), &[]).acknowledged =>
                {
                    self.excess.push(*timeline);
                }
                _ => {}
            }
        }
    }

    fn look_at_all(&mut self, append: &Append) {
        let label = &append.message.label;
        append.to.iter().for_each(|&timeline| self.look_at(timeline, label));
    }

    fn look_at(&mut self, timeline: TimelineId, label: &[u8]) {
        let rule = self.settings.rule(timeline.space(), label);
        if rule.count_max.is_none() && rule.bytes_max.is_none() {
            return;
        }
        let Some(slot) = self.index.heads.find(timeline) else { return };
        if super::upkeep::retention::is_over(&rule, self.index.heads.at(slot).row()) {
            self.excess.push(timeline);
        }
    }
}

/// The timelines of an append and their seqs.
#[derive(Clone, Copy)]
struct Targets<'a> {
    to: &'a [TimelineId],
    seqs: &'a [Seq],
}

impl<'a> Targets<'a> {
    fn iter(self) -> impl ExactSizeIterator<Item = (TimelineId, Seq)> + 'a {
        self.to.iter().copied().zip(self.seqs.iter().copied())
    }
}

/// Tables with rows that a client asks for, and for which it waits.
const ASKED_FOR: [Table; 5] =
    [Table::Sessions, Table::Wills, Table::Subscriptions, Table::Retained, Table::Delayed];

/// Whether a batch of this purpose takes an append.
fn takes(purpose: Purpose, append: &Append) -> bool {
    match purpose {
        Purpose::Store => true,
        Purpose::Finish => append.ends,
        Purpose::End => false,
    }
}

fn too_large(message: &Message, timelines: usize) -> Result<(), StoreError> {
    let within = timelines <= APPEND_TIMELINES_MAX
        && message.label.len() <= Message::LABEL_BYTES_MAX
        && message.body.len() <= Message::BODY_BYTES_MAX;
    if within { Ok(()) } else { Err(StoreError::TooLarge) }
}

/// The timelines at whose end a write puts its message.
fn appended_to(write: &Write) -> &[TimelineId] {
    match write {
        Write::Append(append) => &append.to,
        Write::AppendWith(with) => &with.append.to,
        _ => &[],
    }
}

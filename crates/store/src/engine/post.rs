//! Posts: a message takes its place in the timelines of a roster, or in many that an append names;
//! and rosters change.
//!
//! ```text
//! Append (message) │ List (members) │ Append: list, members, seqs │ Append … │ Once
//!   once a segment   once a segment   slices of 4,096                          of several slices
//!                    and checkpoint
//! ```
//! A member takes 16 bytes in the list and then the bytes of its seq in each post. The list stands
//! behind the last checkpoint's place and in the segment of the post, so neither a start nor
//! compaction asks what a roster once was: a version lives as long as the segments that name it.
//! The timelines of an append are a list likewise, which later appends to the same timelines name
//! again. Invariant: a post is in all of its members' timelines or in none, and all of it is in one
//! batch.

use super::Engine;
use super::commit::Batch;
use super::index::rosters::{Known, ListName, changed};
use super::read::state_failed;
use super::record::list::{self, Members, Posting};
use super::record::stored::Stored;
use super::record::{self, Claim, Said, Whereabouts};
use super::state::StateError;
use super::undo::Undo;
use crate::log::{Place, RecordKind};
use model::ports::log::*;
use model::timeline::{Message, Seq};
use std::sync::Arc;

/// Members whose seqs one record says.
pub(super) const SLICE_MEMBERS: usize = 4_096;

/// Entry put into the timelines of a list.
struct Posted<'a> {
    message: &'a Arc<Message>,
    claim: Option<Claim>,
    /// Places in the list of the timelines that get the entry; `None`: all.
    only: Option<&'a [u32]>,
}

impl Engine {
    /// A post that is not known yet.
    pub(super) fn post(
        &mut self,
        now_s: u32,
        post: &Post,
        batch: &mut Batch,
    ) -> Result<Done, StoreError> {
        let found = self.index.take_roster(post.roster).map_err(|error| state_failed(&error))?;
        let Some(mut known) = found else { return Err(StoreError::Stale) };
        let mut slots = std::mem::take(&mut self.slots);
        let done = self.find_members(post, &mut known, &mut slots).map(|()| {
            let claim = post.once.map(|key| {
                let crc = record::crc(&post.message);
                Claim { key, crc, made_s: now_s }
            });
            let seqs = match slots.is_empty() {
                true => self.add_claim(&post.message, claim, batch),
                false => {
                    let (message, only) = (&post.message, post.only.as_deref());
                    let name = ListName::Roster(post.roster);
                    self.add_post(
                        Posted { message, claim, only },
                        (name, &mut known),
                        &slots,
                        batch,
                    )
                }
            };
            Done::Appended(Appended { new: true, id: post.message.id, seqs })
        });
        self.slots = slots;
        self.index.rosters.put(ListName::Roster(post.roster), known);
        done
    }

    /// An append that is not known yet, to more timelines than stand beside its message.
    pub(super) fn append_to_many(
        &mut self,
        now_s: u32,
        append: &Append,
        batch: &mut Batch,
    ) -> Result<Done, StateError> {
        let Append { message, to, once, .. } = append;
        let (name, mut known) = self.index.rosters.take_named(to);
        let mut slots = std::mem::take(&mut self.slots);
        slots.clear();
        let mut each = 0..to.len();
        let done = each.try_for_each(|at| self.find_member(at, &mut known, &mut slots)).map(|()| {
            let claim = once.map(|key| Claim { key, crc: record::crc(message), made_s: now_s });
            let posted = Posted { message, claim, only: None };
            let seqs = self.add_post(posted, (name, &mut known), &slots, batch);
            Done::Appended(Appended { new: true, id: message.id, seqs })
        });
        self.slots = slots;
        self.index.rosters.put(name, known);
        done
    }

    /// The slots of the members that a post is for.
    fn find_members(
        &mut self,
        post: &Post,
        known: &mut Known,
        slots: &mut Vec<u32>,
    ) -> Result<(), StoreError> {
        slots.clear();
        let count = known.roster.members.len();
        let rises = |only: &[u32]| only.is_sorted_by(|one, next| one < next);
        let inside = |only: &[u32]| only.last().is_none_or(|last| (*last as usize) < count);
        if known.roster.version != post.version
            || post.only.as_deref().is_some_and(|only| !rises(only) || !inside(only))
        {
            return Err(StoreError::Stale);
        }
        let find = |at: usize| self.find_member(at, known, slots);
        let found = match &post.only {
            None => (0..count).try_for_each(find),
            Some(only) => only.iter().map(|&at| at as usize).try_for_each(find),
        };
        found.map_err(|error| state_failed(&error))
    }

    fn find_member(
        &mut self,
        at: usize,
        known: &mut Known,
        slots: &mut Vec<u32>,
    ) -> Result<(), StateError> {
        let (timeline, slot) = (known.roster.members[at], &mut known.slots[at]);
        if !self.index.heads.has(*slot, timeline) {
            *slot = self.index.head(timeline)?;
        }
        slots.push(*slot);
        Ok(())
    }

    /// A post to nobody: all that is left of it is its once key.
    fn add_claim(
        &mut self,
        message: &Message,
        claim: Option<Claim>,
        batch: &mut Batch,
    ) -> Vec<Seq> {
        if let Some(claim) = claim {
            let said = Said { claim: Some(claim), ..Said::of(message, Whereabouts::Nowhere) };
            let (place, _) =
                self.log.add(RecordKind::Append, |out| said.write([].into_iter(), out));
            self.remember(claim, place, (message.id, &[]), batch);
        }
        Vec::new()
    }

    fn add_post(
        &mut self,
        Posted { message, claim, only }: Posted<'_>,
        (name, known): (ListName, &mut Known),
        slots: &[u32],
        batch: &mut Batch,
    ) -> Vec<Seq> {
        self.log.open_batch();
        let segment = self.log.ahead().segment;
        let stored = self.stand(message, segment, batch);
        let (at, length) = match self.index.rosters.list(known, segment) {
            Some(list) => list,
            None => {
                let members = &known.roster.members;
                let list = self.log.add(RecordKind::List, |out| list::write_list(members, out));
                known.set_list(list);
                batch.undo.push(Undo::List(name));
                list
            }
        };
        let seqs: Vec<Seq> = slots.iter().map(|&slot| self.index.place(slot, &stored)).collect();
        self.index.counts.fill(segment, seqs.len() as u64);
        batch.undo.push(Undo::Post { slots: slots.into(), segment });
        self.since.places += seqs.len() as u64;
        let is_one = seqs.len() <= SLICE_MEMBERS;
        let there = Whereabouts::There(stored.place, stored.length);
        let said = Said { claim: claim.filter(|_| is_one), ..Said::of(message, there) };
        let mut place = Place::default();
        for (slice, some) in seqs.chunks(SLICE_MEMBERS).enumerate() {
            let first = slice * SLICE_MEMBERS;
            let members = match only {
                None => Members::From(first as u32),
                Some(only) => Members::At(&only[first..first + some.len()]),
            };
            let posting = Posting { list: (at.offset, length), members, seqs: some };
            (place, _) = self.log.add(RecordKind::Append, |out| said.write_listed(&posting, out));
        }
        if let Some(claim) = claim {
            let id = message.id;
            if !is_one {
                let write = |out: &mut Vec<u8>| record::write_once(claim, id, &seqs, out);
                (place, _) = self.log.add(RecordKind::Once, write);
            }
            self.remember(claim, place, (id, &seqs), batch);
        }
        seqs
    }

    /// Where the message stands in the segment that is written; there from now on if it did not.
    fn stand(&mut self, message: &Arc<Message>, segment: u32, batch: &mut Batch) -> Arc<Stored> {
        if let Some(stored) = self.hot.find(message, segment) {
            return stored;
        }
        let said = Said::of(message, Whereabouts::Here);
        let at = self.log.add(RecordKind::Append, |out| said.write([].into_iter(), out));
        self.hold(message, at, batch)
    }

    fn remember(
        &mut self,
        claim: Claim,
        place: Place,
        (id, seqs): (u64, &[Seq]),
        batch: &mut Batch,
    ) {
        self.index.once.insert(claim, place, id, seqs.into());
        batch.undo.push(Undo::Once(claim.key));
    }

    /// Changes a roster, or makes it. With `ending` only what is so already is taken.
    pub(super) fn change_roster(
        &mut self,
        change: &RosterChange,
        ending: bool,
        batch: &mut Batch,
    ) -> Result<(), StoreError> {
        let RosterChange { roster, after, version, leave, join } = change;
        if leave.len() + join.len() > ROSTER_CHANGE_MAX {
            return Err(StoreError::TooLarge);
        }
        let before = self.index.roster(*roster).map_err(|error| state_failed(&error))?;
        if before.version == *version && *version > 0 {
            return Ok(());
        }
        if ending {
            return Err(StoreError::Full);
        }
        if before.version != *after || version <= after {
            return Err(StoreError::Stale);
        }
        let members = changed(&before.members, leave, join);
        if members.len() > ROSTER_MEMBERS_MAX.max(before.members.len()) {
            return Err(StoreError::TooLarge);
        }
        self.log.add(RecordKind::Roster, |out| list::write_roster(change, out));
        self.set_roster(*roster, Roster { version: *version, members }, batch);
        Ok(())
    }

    /// A roster goes.
    pub(super) fn disband(&mut self, roster: RosterId, batch: &mut Batch) {
        let (leave, join) = (Vec::new(), Vec::new());
        let gone = RosterChange { roster, after: 0, version: 0, leave, join };
        self.log.add(RecordKind::Roster, |out| list::write_roster(&gone, out));
        self.set_roster(roster, Roster::default(), batch);
    }

    pub(super) fn set_roster(&mut self, id: RosterId, roster: Roster, batch: &mut Batch) {
        let before = self.index.set_roster(id, roster);
        batch.undo.push(Undo::Roster { id, before });
    }
}

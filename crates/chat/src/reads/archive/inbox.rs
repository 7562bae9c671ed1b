//! The archive of all messages of an account, from its inbox.
//!
//! ```text
//! each bound: an id is looked for among the entries, a time searched for ─► lower, upper
//!   ─► entries between them, slice by slice: those that match ─► their messages ─► a page
//! ```
//! Only labels are read until the wanted messages are known. Matches may be far apart (an inbox has
//! read positions, settings and group messages, too), so a limited number of entries is examined
//! for a page, which says where the next one continues. This module does not read: it names the
//! parts to read, and is given their entries. Invariant: results are in the order of the inbox, and
//! no match between two pages is left out.

use super::search::{Look, Search};
use crate::envelope::time_of;
use crate::inboxes::entry::Entry;
use crate::label::Pointer;
use crate::outbox::left::scans::CLOCK_SLACK_S;
use crate::word::Fetched;
use model::account::AccountAddress;
use model::chat::{ArchiveId, ArchiveRange, ChatFault, ChatMessage, PAGE_BYTES_MAX};
use model::ports::log::Page;
use model::timeline::{Placed, Seq, TimelineId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Entries at the end of the inbox that are read first, wherever the wanted one may be.
const END_ENTRIES: usize = 128;
/// Entries read at an offset in the middle: the first one that is not damaged counts.
const MIDDLE_ENTRIES: usize = 4;
/// Entries in a part when an id is looked for.
const ID_ENTRIES: usize = 256;
/// Largest number of entries in a part.
const SLICE_ENTRIES: usize = 1_024;

/// How long after its sending a message may be put into an inbox, seconds: the length of an outage.
/// A message that came later is not found by `until_ms` alone.
const LATE_S: u64 = 86_400;

/// How far a clock may be set back, seconds, so that earlier messages are still found.
const SLACK_S: u64 = CLOCK_SLACK_S as u64;

/// A part of the inbox to read: first offset, whether backwards, and number of entries.
pub(super) type Part = (Seq, bool, usize);

/// The archive of an account, on the way to a page.
pub(crate) struct InboxArchive {
    /// The account.
    account: AccountAddress,
    range: Box<ArchiveRange>,
    count: usize,
    /// Bounds that are not known yet; the last one is being searched for.
    bounds: Vec<(Bound, Finding)>,
    /// The wanted messages are behind this offset, and before `upper`.
    lower: Seq,
    upper: Seq,
    /// Number of entries that may be examined for a bound; then the rest for the page.
    entries_max: usize,
    left: usize,
    walk: Walk,
    /// Messages that match, in the direction of the walk.
    found: Vec<(Seq, ArchiveId, Pointer)>,
    bytes: usize,
    /// More messages may follow behind this one.
    goes_on: Option<ArchiveId>,
}

/// A bound of the wanted messages, or a wanted message.
#[derive(Clone, Copy)]
enum Bound {
    After(ArchiveId),
    Before(ArchiveId),
    Named(ArchiveId),
    Since,
    Until,
}

/// The method by which a bound is found.
enum Finding {
    /// By its time; for an id that is not found there, once more by an earlier time.
    By(Search, Turn),
    /// Entry by entry from this offset on, with this many left: an id whose time was found.
    From(Seq, usize, Turn),
}

/// The number of searches for an id.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    First,
    /// A clock that was set back may have hidden the id from the first search.
    Last,
}

/// State of the walk.
enum Walk {
    /// The walk has not begun.
    Not,
    /// The offset that comes next, and the number of entries in a part.
    At(Seq, usize),
    Over,
}

impl InboxArchive {
    /// The archive, of which at most `count` messages are wanted, and `entries_max` entries may be
    /// examined.
    pub(super) fn new(
        account: AccountAddress,
        range: Box<ArchiveRange>,
        count: usize,
        entries_max: usize,
    ) -> InboxArchive {
        let ids = |ids: &[ArchiveId], to: fn(ArchiveId) -> Bound| -> Vec<Bound> {
            ids.iter().copied().map(to).collect()
        };
        let mut bounds = ids(&range.named, Bound::Named);
        bounds.extend((range.until_ms < u64::MAX).then_some(Bound::Until));
        bounds.extend((range.since_ms > 0).then_some(Bound::Since));
        bounds.extend(ids(&range.before, Bound::Before));
        bounds.extend(ids(&range.after, Bound::After));
        let begun =
            |bound: Bound| (bound, Finding::By(Search::new(bound.time_s(&range)), Turn::First));
        let bounds = bounds.into_iter().map(begun).collect();
        InboxArchive {
            account,
            range,
            count,
            bounds,
            lower: 0,
            upper: Seq::MAX,
            entries_max,
            left: entries_max,
            walk: Walk::Not,
            found: Vec::new(),
            bytes: 0,
            goes_on: None,
        }
    }

    /// The part of the inbox to read next; none: the wanted messages are known.
    pub(super) fn part(&mut self) -> Option<Part> {
        if let Some((_, finding)) = self.bounds.last() {
            return Some(match finding {
                Finding::From(from, left, _) => (*from, false, ID_ENTRIES.min(*left)),
                Finding::By(search, _) => match search.look() {
                    Some(Look::From(from)) => (from.saturating_sub(1), false, MIDDLE_ENTRIES),
                    Some(Look::End) | None => (Seq::MAX, true, END_ENTRIES),
                },
            });
        }
        if matches!(self.walk, Walk::Not) {
            self.begin_walk();
        }
        match self.walk {
            Walk::At(from, slice) => Some((from, self.range.backwards, slice)),
            Walk::Not | Walk::Over => None,
        }
    }

    /// Begins the walk, since all bounds are known.
    fn begin_walk(&mut self) {
        let is_empty = self.lower.saturating_add(1) >= self.upper;
        self.walk = Walk::Over;
        if !self.range.named.is_empty() {
            let (lower, upper) = (self.lower, self.upper);
            let range = &self.range;
            self.found.retain(|(seq, id, _)| {
                *seq > lower && *seq < upper && range.has_time(time_of(id.number))
            });
            self.found.sort_unstable_by_key(|(seq, ..)| *seq);
            self.found.dedup_by_key(|(seq, ..)| *seq);
        } else if !is_empty {
            let from = if self.range.backwards { self.upper } else { self.lower };
            self.walk = Walk::At(from, (2 * self.count).clamp(16, SLICE_ENTRIES));
        }
    }

    /// Takes the entries that were read.
    pub(super) fn sees(&mut self, page: &Page) -> Result<(), ChatFault> {
        match self.bounds.pop() {
            Some((bound, finding)) => self.sees_bound(page, bound, finding),
            None => {
                self.walks(page);
                Ok(())
            }
        }
    }

    fn sees_bound(&mut self, page: &Page, bound: Bound, finding: Finding) -> Result<(), ChatFault> {
        // The id may be in any part that is read, whatever the search.
        if let Some(id) = bound.id()
            && let Some((place, pointer, is_of_two)) = self.place_of(id, page)
        {
            self.bound_is(bound, place);
            return match bound {
                // A page may have ended at a group message, but the archive has none.
                Bound::Named(_) if !is_of_two => Err(ChatFault::UnknownMessage),
                Bound::Named(_) => {
                    self.found.push((place, id, pointer));
                    Ok(())
                }
                _ => Ok(()),
            };
        }
        match (finding, bound.id()) {
            (Finding::By(mut search, turn), id) => {
                let times = page.messages.iter();
                search.sees(times.map(|placed| (placed.seq, u64::from(placed.message.at_s))));
                let place = search.place();
                match (search.look(), id) {
                    (Some(_), _) => self.bounds.push((bound, Finding::By(search, turn))),
                    (None, Some(_)) => {
                        let left = (self.entries_max / 2).max(1);
                        self.bounds.push((bound, Finding::From(place - 1, left, turn)));
                    }
                    (None, None) => self.bound_is(bound, place),
                }
            }
            (Finding::From(_, left, turn), id) => {
                let left = left.saturating_sub(page.messages.len() + page.damaged.len());
                let next = end_of(page, false).filter(|_| page.more && left > 0);
                let finding = match (next, turn, id) {
                    (Some(next), ..) => Finding::From(next, left, turn),
                    (None, Turn::First, Some(_)) => {
                        let earlier = bound.time_s(&self.range).saturating_sub(SLACK_S);
                        Finding::By(Search::new(earlier), Turn::Last)
                    }
                    _ => return Err(ChatFault::UnknownMessage),
                };
                self.bounds.push((bound, finding));
            }
        }
        Ok(())
    }

    /// The offset and reference of the message with this id on a page, and whether it is between
    /// two accounts.
    fn place_of(&self, id: ArchiveId, page: &Page) -> Option<(Seq, Pointer, bool)> {
        let all = page.messages.iter().filter(|placed| placed.message.id == id.number);
        let mut all = all.filter_map(|placed| Some((placed.seq, self.id_of(placed)?)));
        let (place, (_, pointer, is_of_two)) = all.find(|(_, (other, ..))| *other == id)?;
        Some((place, pointer, is_of_two))
    }

    /// The id and reference of the message of an entry, if it refers to one, and whether it is
    /// between two accounts.
    fn id_of(&self, placed: &Placed) -> Option<(ArchiveId, Pointer, bool)> {
        let Entry::Message(pointer, with) = Entry::decode(&placed.message)? else { return None };
        let id = ArchiveId::at((placed.message.id, pointer.seq), &self.account, &with);
        Some((id, pointer, !with.is_group()))
    }

    /// Sets a bound to its offset; the offset of a time is that of the first entry not before it.
    fn bound_is(&mut self, bound: Bound, place: Seq) {
        match bound {
            Bound::After(_) => self.lower = self.lower.max(place),
            Bound::Since => self.lower = self.lower.max(place - 1),
            Bound::Before(_) | Bound::Until => self.upper = self.upper.min(place),
            Bound::Named(_) => {}
        }
    }

    fn walks(&mut self, page: &Page) {
        let Walk::At(_, slice) = self.walk else { return };
        self.walk = Walk::Over;
        for placed in &page.messages {
            if placed.seq <= self.lower || placed.seq >= self.upper {
                return;
            }
            self.left = self.left.saturating_sub(1);
            let Some((id, pointer, is_of_two)) = self.id_of(placed) else { continue };
            if is_of_two && self.range.has_time(time_of(id.number)) {
                let is_full = self.found.len() >= self.count;
                let bytes = pointer.bytes as usize;
                if is_full || self.bytes > 0 && self.bytes + bytes > PAGE_BYTES_MAX {
                    self.goes_on = self.found.last().map(|(_, last, _)| *last);
                    return;
                }
                self.bytes += bytes;
                self.found.push((placed.seq, id, pointer));
            }
            if self.left == 0 {
                self.goes_on = Some(id);
                return;
            }
        }
        if let Some(next) = end_of(page, self.range.backwards).filter(|_| page.more) {
            self.walk = Walk::At(next, (2 * slice).min(SLICE_ENTRIES));
        }
    }

    /// References to the wanted messages.
    pub(super) fn wanted(&self) -> Vec<Pointer> {
        self.found.iter().map(|(_, _, pointer)| *pointer).collect()
    }

    /// The wanted messages, in the order of the inbox, and the id where the next page continues.
    pub(super) fn page(mut self, fetched: Fetched) -> (Vec<Arc<ChatMessage>>, Option<ArchiveId>) {
        let at = |(conversation, message): (TimelineId, Arc<ChatMessage>)| {
            ((conversation, message.seq), message)
        };
        let messages: BTreeMap<_, _> = fetched.messages.into_iter().map(at).collect();
        let mut page = Vec::with_capacity(self.found.len());
        for (_, id, Pointer { conversation, seq, .. }) in &self.found {
            // The wanted messages fit on a page, so none of them should be cut off.
            let is_unread =
                fetched.unread.iter().any(|(of, from)| of == conversation && seq >= from);
            if is_unread && !page.is_empty() {
                self.goes_on = page.last().map(|last: &Arc<ChatMessage>| ArchiveId::of(last));
                break;
            }
            let message = messages.get(&(*conversation, *seq));
            page.extend(message.filter(|message| message.id == id.number).cloned());
        }
        if self.range.backwards && self.range.named.is_empty() {
            page.reverse();
        }
        (page, self.goes_on)
    }
}

impl Bound {
    /// The id of the bound, if it has one.
    fn id(self) -> Option<ArchiveId> {
        match self {
            Bound::After(id) | Bound::Before(id) | Bound::Named(id) => Some(id),
            Bound::Since | Bound::Until => None,
        }
    }

    /// The Unix second before which no entry can be the bound. A message is put into an inbox when
    /// it is sent, or later.
    fn time_s(self, range: &ArchiveRange) -> u64 {
        match self {
            Bound::After(id) | Bound::Before(id) | Bound::Named(id) => time_of(id.number) / 1_000,
            Bound::Since => (range.since_ms / 1_000).saturating_sub(SLACK_S),
            Bound::Until => (range.until_ms / 1_000).saturating_add(LATE_S),
        }
    }
}

/// The offset that a page ends at, damaged entries included.
fn end_of(page: &Page, backwards: bool) -> Option<Seq> {
    let places = page.messages.iter().map(|placed| placed.seq).chain(page.damaged.iter().copied());
    if backwards { places.min() } else { places.max() }
}

#[cfg(test)]
mod tests;

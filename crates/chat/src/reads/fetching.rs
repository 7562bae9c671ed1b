//! Parts of conversations of this shard, for whoever reads them on whichever shard.
//!
//! ```text
//! Fetch ─► may it? (of a group) ─► each range by one call ─► Fetched
//!                                        └─► over a gap: what was called back there ─┘
//! ```
//! Invariant: what is given is as the log has it, each place once, and as it is now.

use crate::accounts::fault_of;
use crate::amendments::overlays::{self, Overlay};
use crate::conversations::lists::excerpt_of;
use crate::envelope;
use crate::groups::GroupTask;
use crate::log::{Answered, PendingCall};
use crate::reads::READINGS_MAX;
use crate::reads::beginning::Beginning;
use crate::word::{ChatWord, Fetched, Range};
use crate::{Chat, Effects};
use base::time::Now;
use model::chat::{ChatFault, ChatMessage, Content, PAGE_BYTES_MAX};
use model::id::ShardId;
use model::ports::log::{Call, Done, Page, Pull, ROWS_MAX, Read};
use model::timeline::{Placed, Seq, TimelineId};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Places behind the end of a conversation that are looked at: what was amended stands there until
/// that is said.
const BEYOND_MAX: u64 = 64;

/// Ranges that are being read for a shard.
pub(crate) struct Fetching {
    from: ShardId,
    /// The asker's own.
    number: u64,
    ranges: Box<[Range]>,
    parts: Vec<Part>,
    left: u16,
    /// Messages with lower numbers are not given.
    since: u64,
}

/// What was read of a range.
#[derive(Default)]
struct Part {
    page: Option<Page>,
    /// Where it begins, while that is searched for.
    beginning: Option<Beginning>,
    /// The last place at which one is missing.
    gap_ends: Seq,
    /// What messages are now that are not there.
    amended: Vec<Arc<ChatMessage>>,
    /// What messages are now of which there are edits, by their places.
    edited: HashMap<Seq, Arc<ChatMessage>>,
    /// Answers that have not come.
    open: u16,
}

impl Chat {
    /// Some shard wants parts of conversations that are at home here.
    pub(crate) fn fetch(
        &mut self,
        now: Now,
        from: ShardId,
        number: u64,
        (ranges, reader): (Box<[Range]>, Option<TimelineId>),
        fx: &mut Effects,
    ) {
        let group = ranges.first().map(|range| range.conversation);
        if let (Some(reader), Some(group)) = (reader, group) {
            let task = GroupTask::Read { from, number, ranges, reader };
            return self.for_group(now, group, task, fx);
        }
        self.fetch_since(now, (from, number), ranges, 0, fx);
    }

    /// Parts of conversations are read, but messages with lower numbers than `since`.
    pub(crate) fn fetch_since(
        &mut self,
        now: Now,
        (from, number): (ShardId, u64),
        ranges: Box<[Range]>,
        since: u64,
        fx: &mut Effects,
    ) {
        if !self.log.may_ask() || self.fetchings.len() >= READINGS_MAX {
            return self.tell_fetched(now, (from, number), Err(ChatFault::Busy), fx);
        }
        let parts = ranges.iter().map(|_| Part::default()).collect();
        let left = ranges.len() as u16;
        let pulls: Vec<Pull> = ranges.iter().map(pull_of).collect();
        let key = self.fetchings.put(Fetching { from, number, ranges, parts, left, since });
        for (at, pull) in (0..).zip(pulls) {
            self.log.ask(PendingCall::Range(key, at), Call::Read(Read::Pull(pull)), fx);
        }
    }

    /// A range was read.
    pub(crate) fn range_read(
        &mut self,
        now: Now,
        (key, at): (u64, u16),
        result: Answered,
        fx: &mut Effects,
    ) {
        let Some(fetching) = self.fetchings.at_mut(key) else { return };
        let page = match result {
            Ok(Done::Page(page)) => page,
            Ok(_) => return self.fetching_fails(now, key, ChatFault::StoreFailed, fx),
            Err(error) => return self.fetching_fails(now, key, fault_of(error), fx),
        };
        let range = fetching.ranges[usize::from(at)];
        if let Some(from) = fetching.begins_later(at, &page) {
            let pull = Pull { from, ..pull_of(&range) };
            return self.log.ask(PendingCall::Range(key, at), Call::Read(Read::Pull(pull)), fx);
        }
        let gap = range.gap(&page, fetching.since > 0);
        let edits: BTreeSet<Seq> = page.messages.iter().filter_map(edited_by).collect();
        let part = &mut fetching.parts[usize::from(at)];
        part.page = Some(page);
        part.open = edits.len() as u16 + u16::from(gap.is_some());
        if part.open == 0 {
            return self.range_is_whole(now, key, fx);
        }
        for seq in edits {
            let read = overlays::read_one(range.conversation, seq);
            self.log.ask(PendingCall::Edited(key, at, seq), Call::Read(read), fx);
        }
        if let Some((first, last)) = gap {
            if let Some(fetching) = self.fetchings.at_mut(key) {
                fetching.parts[usize::from(at)].gap_ends = last;
            }
            let read = overlays::read(range.conversation, first, last - first + 1);
            self.log.ask(PendingCall::Overlays(key, at), Call::Read(read), fx);
        }
    }

    /// What messages are now was read, of those in the gap of a range.
    pub(crate) fn overlays_read(
        &mut self,
        now: Now,
        (key, at): (u64, u16),
        result: Answered,
        fx: &mut Effects,
    ) {
        let Some(fetching) = self.fetchings.at_mut(key) else { return };
        let rows = match result {
            Ok(Done::Rows(rows)) => rows,
            Ok(_) => return self.fetching_fails(now, key, ChatFault::StoreFailed, fx),
            Err(error) => return self.fetching_fails(now, key, fault_of(error), fx),
        };
        let read = rows.iter().filter_map(|(key, value)| Overlay::decode((key, value)));
        let part = &mut fetching.parts[usize::from(at)];
        // There are fewer of them than places, so the last ones are from behind the gap.
        let read = read.map(|it| it.message).filter(|it| it.seq <= part.gap_ends);
        part.amended = read.collect();
        self.part_goes_on(now, (key, at), fx);
    }

    /// What the message is now that an edit of a range is about.
    pub(crate) fn edited_read(
        &mut self,
        now: Now,
        (key, at, seq): (u64, u16, Seq),
        result: Answered,
        fx: &mut Effects,
    ) {
        let Some(fetching) = self.fetchings.at_mut(key) else { return };
        let row = match result {
            Ok(Done::Row(row)) => row,
            Ok(_) => return self.fetching_fails(now, key, ChatFault::StoreFailed, fx),
            Err(error) => return self.fetching_fails(now, key, fault_of(error), fx),
        };
        let range = fetching.ranges[usize::from(at)];
        let row_key = overlays::key_of(range.conversation, seq);
        let overlay = row.and_then(|row| Overlay::decode((&row_key, &row)));
        if let Some(overlay) = overlay.filter(|it| !it.is_tombstone()) {
            fetching.parts[usize::from(at)].edited.insert(seq, overlay.message);
        }
        self.part_goes_on(now, (key, at), fx);
    }

    /// One of the answers for a range has come.
    fn part_goes_on(&mut self, now: Now, (key, at): (u64, u16), fx: &mut Effects) {
        let Some(fetching) = self.fetchings.at_mut(key) else { return };
        let part = &mut fetching.parts[usize::from(at)];
        part.open -= 1;
        if part.open == 0 {
            self.range_is_whole(now, key, fx);
        }
    }

    fn range_is_whole(&mut self, now: Now, key: u64, fx: &mut Effects) {
        let Some(fetching) = self.fetchings.at_mut(key) else { return };
        fetching.left -= 1;
        if fetching.left == 0
            && let Some(fetching) = self.fetchings.take(key)
        {
            let whom = (fetching.from, fetching.number);
            self.tell_fetched(now, whom, Ok(fetching.joined()), fx);
        }
    }

    fn fetching_fails(&mut self, now: Now, key: u64, fault: ChatFault, fx: &mut Effects) {
        if let Some(fetching) = self.fetchings.take(key) {
            self.tell_fetched(now, (fetching.from, fetching.number), Err(fault), fx);
        }
    }

    pub(crate) fn tell_fetched(
        &mut self,
        now: Now,
        (to, number): (ShardId, u64),
        result: Result<Fetched, ChatFault>,
        fx: &mut Effects,
    ) {
        if to == self.settings.shard {
            return self.fetched(now, number, result, fx);
        }
        fx.peer_messages.push((to, ChatWord::Fetched { number, result }));
    }
}

impl Fetching {
    /// A page forwards has nothing that may be given, and there is more: where to look for it.
    fn begins_later(&mut self, at: u16, page: &Page) -> Option<Seq> {
        let range = self.ranges[usize::from(at)];
        if range.backwards || range.is_run || self.since == 0 {
            return None;
        }
        let new = || Beginning::new(self.since, range.from, range.count);
        self.parts[usize::from(at)].beginning.get_or_insert_with(new).sees(page)
    }

    /// What its parts say together.
    fn joined(self) -> Fetched {
        let mut joined = Fetched::default();
        for (range, part) in self.ranges.iter().zip(self.parts) {
            let Some(page) = &part.page else { continue };
            joined.more = page.more;
            joined.unread.extend(range.cut(page).map(|from| (range.conversation, from)));
            let messages = part.in_order(range);
            let is_cut = !range.is_run && messages.len() > usize::from(range.count);
            joined.more |= is_cut;
            let count = if is_cut { range.count.into() } else { messages.len() };
            for message in messages.into_iter().take(count) {
                if message.id < self.since {
                    joined.more &= !range.backwards; // what comes is older still
                    continue;
                }
                match range.is_excerpt {
                    true => joined.excerpts.push((range.conversation, excerpt_of(&message))),
                    false => joined.messages.push((range.conversation, message)),
                }
            }
        }
        joined
    }
}

impl Part {
    /// Messages of the range, with those that were amended among them.
    fn in_order(self, range: &Range) -> Vec<Arc<ChatMessage>> {
        let Part { page, amended, edited, .. } = self;
        let page = page.into_iter().flat_map(|page| page.messages);
        let read = page.filter_map(|placed| {
            let message = envelope::decode(placed.message.id, placed.seq, &placed.message.body)?;
            Some(Arc::new(with_its_text(message, &edited)))
        });
        let mut all: Vec<_> = read.collect();
        if !amended.is_empty() {
            // A page that was cut ends with a message; what was amended behind it comes then.
            let has: HashSet<Seq> = all.iter().map(|message| message.seq).collect();
            all.extend(amended.into_iter().filter(|it| !has.contains(&it.seq)));
            match range.backwards {
                true => all.sort_by_key(|message| Reverse(message.seq)),
                false => all.sort_by_key(|message| message.seq),
            }
        }
        // Some of the range may have been erased: then what is behind it was read, too.
        let last = range.last().unwrap_or(Seq::MAX);
        all.retain(|message| message.seq <= last);
        all
    }
}

impl Range {
    /// The last place that is wanted, of a run of references; a part of a history ends nowhere.
    fn last(&self) -> Option<Seq> {
        self.is_run.then(|| self.from + u64::from(self.count))
    }

    /// The place from which on a run was not read, since that would have been too much.
    fn cut(&self, page: &Page) -> Option<Seq> {
        let ends = page.messages.last().map(|placed| placed.seq);
        let end = ends.max(page.damaged.last().copied())?;
        let is_short = page.messages.len() + page.damaged.len() < usize::from(self.count);
        (page.more && is_short && end < self.last()?).then_some(end + 1)
    }

    /// The first and the last of the places that should be on a page and are not, and at most so
    /// many as may be asked for; `of_group`: it may begin behind places that nobody is told of.
    fn gap(&self, page: &Page, of_group: bool) -> Option<(Seq, Seq)> {
        let read = page.messages.iter().map(|placed| placed.seq);
        let mut has: Vec<Seq> = read.chain(page.damaged.iter().copied()).collect();
        has.sort_unstable();
        let (lowest, highest) = (has.first().copied(), has.last().copied());
        let rows = ROWS_MAX as u64;
        let (first, last) = if self.backwards {
            // Far behind the end there is nothing but what was amended a moment ago.
            let before = self.from.checked_sub(1)?;
            let end = match highest {
                Some(highest) if before - highest > rows => highest + BEYOND_MAX,
                None if before > rows => BEYOND_MAX,
                _ => before,
            };
            let first = if page.more { lowest? } else { 1 };
            (first.max((end + 1).saturating_sub(rows)), end)
        } else {
            let end = match (self.last(), self.cut(page)) {
                (Some(_), Some(cut)) => cut - 1,
                (Some(last), None) => last,
                (None, _) if page.more => highest?,
                (None, _) => highest.unwrap_or(self.from).saturating_add(BEYOND_MAX),
            };
            let skipped = lowest.filter(|_| of_group).map_or(0, |at| at.saturating_sub(rows));
            (self.from.max(skipped).saturating_add(1), end)
        };
        let is_missing = |seq: &Seq| has.binary_search(seq).is_err();
        let missing_first = (first..=last).find(is_missing)?;
        let missing_last = (first..=last).rev().find(is_missing)?;
        Some((missing_first, missing_last.min(missing_first.saturating_add(rows - 1))))
    }
}

/// The place of the message that this one edits, if it does.
fn edited_by(placed: &Placed) -> Option<Seq> {
    let body = &placed.message.body;
    let is_edit = envelope::kind_of(body) == Content::EDIT;
    let message = envelope::decode(0, placed.seq, body).filter(|_| is_edit)?;
    message.content.target().map(|target| target.seq)
}

/// An edit says what its message is now; of what was called back, nothing.
fn with_its_text(mut message: ChatMessage, edited: &HashMap<Seq, Arc<ChatMessage>>) -> ChatMessage {
    let target = message.content.target().filter(|_| message.content.kind == Content::EDIT);
    let now_is = target.as_ref().and_then(|target| edited.get(&target.seq));
    if let (Some(target), Some(now_is)) = (&target, now_is) {
        let Content { kind, text, extra, .. } = &now_is.content;
        let beside = if *kind == Content::STANZA { &**extra } else { &[][..] };
        message.content.text = text.clone();
        message.content.extra = target.extra(beside);
    }
    message
}

fn pull_of(range: &Range) -> Pull {
    Pull {
        timeline: range.conversation,
        from: range.from,
        backwards: range.backwards,
        count_max: range.count.into(),
        bytes_max: PAGE_BYTES_MAX,
    }
}

//! Fetching: reads of parts of this shard's conversations, for readers on any shard.
//!
//! ```text
//! Fetch ─► allowed? (of a group) ► each range by one call ─────────────────────────► Fetched
//!                                        ├─► over a gap: what was amended there ───────┤
//!                                        └─► amended in a group: has the reader left? ─┘
//! ```
//! Invariant: the messages are those of the log, each offset once, in their present state.

use crate::accounts::fault_of;
use crate::amendments::overlays::{self, Overlay};
use crate::conversations::lists::excerpt_of;
use crate::envelope;
use crate::groups::GroupTask;
use crate::log::{Answered, PendingCall};
use crate::reads::READINGS_MAX;
use crate::reads::beginning::Beginning;
use crate::word::{ChatWord, Fetched, Range, ReadBy};
use crate::{Chat, Effects};
use base::time::Now;
use model::chat::{ChatFault, ChatMessage, Content, GroupChange, PAGE_BYTES_MAX};
use model::id::ShardId;
use model::ports::log::{Call, Done, Page, Pull, ROWS_MAX, Read};
use model::timeline::{Placed, ReaderId, Seq, TimelineId};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Offsets behind the end of a conversation that are included: an amended message is there until
/// its amendment is recorded.
const BEYOND_MAX: u64 = 64;

/// A fetch: ranges that are being read for a shard.
pub(crate) struct Fetching {
    from: ShardId,
    /// The asker's number of the fetch.
    number: u64,
    ranges: Box<[Range]>,
    parts: Vec<Part>,
    left: u16,
    /// Messages with lower numbers are left out.
    since: u64,
    /// The inbox with references to the messages, if the reader has such.
    holder: Option<TimelineId>,
    /// The reader is no member of the group: the password of its room is left out.
    is_visitor: bool,
    /// Groups that the holder of the inbox has left, and the number of the message by which it
    /// left.
    left_at: HashMap<TimelineId, u64>,
    /// The groups have been asked for that.
    has_asked: bool,
}

/// Results of reading a range.
#[derive(Default)]
struct Part {
    page: Option<Page>,
    /// The search for the beginning, while it is running.
    beginning: Option<Beginning>,
    /// The last missing offset.
    gap_ends: Seq,
    /// Present states of amended messages in the gap.
    amended: Vec<Overlay>,
    /// The offset up to which these were read; none: the whole gap was read.
    amended_upto: Option<Seq>,
    /// Present states of messages that edits in the range are about, by offset.
    edited: HashMap<Seq, Overlay>,
    /// The offset up to which retention has removed messages.
    dropped: Seq,
    /// Number of answers that have not arrived.
    open: u16,
}

impl Chat {
    /// Handles a shard's request for parts of this shard's conversations.
    pub(crate) fn fetch(
        &mut self,
        now: Now,
        from: ShardId,
        number: u64,
        (ranges, reader): (Box<[Range]>, ReadBy),
        fx: &mut Effects,
    ) {
        let group = ranges.first().map(|range| range.conversation);
        let holder = match (reader, group) {
            (ReadBy::Member(reader), Some(group)) => {
                let task = GroupTask::Read { from, number, ranges, reader };
                return self.for_group(now, group, task, fx);
            }
            (ReadBy::Holder(inbox), _) => Some(inbox),
            _ => None,
        };
        self.fetch_since(now, (from, number), ranges, (0, holder, false), fx);
    }

    /// Begins to read parts of conversations, without messages with lower numbers than `since`; for
    /// `holder`, if the reader has references to them in this inbox; without passwords of the room
    /// for a visitor.
    pub(crate) fn fetch_since(
        &mut self,
        now: Now,
        (from, number): (ShardId, u64),
        ranges: Box<[Range]>,
        (since, holder, is_visitor): (u64, Option<TimelineId>, bool),
        fx: &mut Effects,
    ) {
        if !self.log.may_ask() || self.fetchings.len() >= READINGS_MAX {
            return self.tell_fetched(now, (from, number), Err(ChatFault::Busy), fx);
        }
        let parts = ranges.iter().map(|_| Part::default()).collect();
        let left = ranges.len() as u16;
        let pulls: Vec<Pull> = ranges.iter().map(pull_of).collect();
        let (left_at, has_asked) = (HashMap::new(), false);
        let key = self.fetchings.put(Fetching {
            from,
            number,
            ranges,
            parts,
            left,
            since,
            holder,
            is_visitor,
            left_at,
            has_asked,
        });
        for (at, pull) in (0..).zip(pulls) {
            self.log.ask(PendingCall::Range(key, at), Call::Read(Read::Pull(pull)), fx);
        }
    }

    /// Handles the page of a range.
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
        let part = &fetching.parts[usize::from(at)];
        let older = part.beginning.as_ref().map_or(range.from, Beginning::older);
        let gap = range.gap(&page, older);
        let edits: BTreeSet<Seq> = page.messages.iter().filter_map(edited_by_placed).collect();
        let part = &mut fetching.parts[usize::from(at)];
        part.page = Some(page);
        part.open = edits.len() as u16 + u16::from(gap.is_some()) + u16::from(range.wants_front);
        if part.open == 0 {
            return self.range_is_whole(now, key, fx);
        }
        for seq in edits {
            let read = overlays::read_one(range.conversation, seq);
            self.log.ask(PendingCall::Edited(key, at, seq), Call::Read(read), fx);
        }
        if range.wants_front {
            let (timeline, reader) = (range.conversation, ReaderId::RETENTION);
            let read = Read::Standing { timeline, reader };
            self.log.ask(PendingCall::Front(key, at), Call::Read(read), fx);
        }
        if let Some((first, last)) = gap {
            if let Some(fetching) = self.fetchings.at_mut(key) {
                fetching.parts[usize::from(at)].gap_ends = last;
            }
            let read = overlays::read(range.conversation, first, last - first + 1);
            self.log.ask(PendingCall::Overlays(key, at), Call::Read(read), fx);
        }
    }

    /// Handles present states of amended messages in the gap of a range.
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
        let (since, range) = (fetching.since, fetching.ranges[usize::from(at)]);
        let part = &mut fetching.parts[usize::from(at)];
        part.amended = read.collect();
        let last = part.amended.last().map_or(0, |it| it.message.seq);
        // With fewer rows than offsets in the gap, the last ones read are behind it.
        part.amended.retain(|it| it.message.seq <= part.gap_ends);
        if rows.len() >= ROWS_MAX && last < part.gap_ends {
            let is_older = |it: &Overlay| it.message.id < since;
            if !range.backwards && last > 0 && part.amended.iter().all(is_older) {
                let read = overlays::read(range.conversation, last + 1, part.gap_ends - last);
                return self.log.ask(PendingCall::Overlays(key, at), Call::Read(read), fx);
            }
            part.amended_upto = Some(last);
        }
        self.part_goes_on(now, (key, at), fx);
    }

    /// Handles the present state of a message that an edit in a range is about.
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
            fetching.parts[usize::from(at)].edited.insert(seq, overlay);
        }
        self.part_goes_on(now, (key, at), fx);
    }

    /// Handles the offset up to which retention has removed messages of a range's conversation.
    pub(crate) fn front_read(
        &mut self,
        now: Now,
        (key, at): (u64, u16),
        result: Answered,
        fx: &mut Effects,
    ) {
        let Some(fetching) = self.fetchings.at_mut(key) else { return };
        match result {
            Ok(Done::Standing(status)) => {
                fetching.parts[usize::from(at)].dropped = status.cursor;
                self.part_goes_on(now, (key, at), fx);
            }
            Ok(_) => self.fetching_fails(now, key, ChatFault::StoreFailed, fx),
            Err(error) => self.fetching_fails(now, key, fault_of(error), fx),
        }
    }

    /// Counts an answer for a range.
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
        if fetching.left > 0 {
            return;
        }
        if let Some(holder) = fetching.holder.filter(|_| !fetching.has_asked) {
            fetching.has_asked = true;
            let groups = fetching.amended_groups();
            fetching.left = groups.len() as u16;
            if !groups.is_empty() {
                for group in groups {
                    self.for_group(now, group, GroupTask::Left { key, holder }, fx);
                }
                return;
            }
        }
        if let Some(fetching) = self.fetchings.take(key) {
            let whom = (fetching.from, fetching.number);
            self.tell_fetched(now, whom, Ok(fetching.joined()), fx);
        }
    }

    /// Handles a group's answer: the message by which the holder has left; none: it is a member.
    pub(crate) fn left_told(
        &mut self,
        now: Now,
        (key, group): (u64, TimelineId),
        left: Result<Option<u64>, ChatFault>,
        fx: &mut Effects,
    ) {
        let left = match left {
            Ok(left) => left,
            Err(fault) => return self.fetching_fails(now, key, fault, fx),
        };
        if let Some(fetching) = self.fetchings.at_mut(key) {
            fetching.left_at.extend(left.map(|number| (group, number)));
            self.range_is_whole(now, key, fx);
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
    /// The offset to read next, when a page read forwards has no message that may be read, but more
    /// follow.
    fn begins_later(&mut self, at: u16, page: &Page) -> Option<Seq> {
        let range = self.ranges[usize::from(at)];
        if range.backwards || range.is_run || self.since == 0 {
            return None;
        }
        let new = || Beginning::new(self.since, range.from, range.count);
        self.parts[usize::from(at)].beginning.get_or_insert_with(new).sees(page)
    }

    /// Groups with amended messages: members that have left may not read the present state.
    fn amended_groups(&self) -> BTreeSet<TimelineId> {
        let ranges = self.ranges.iter().zip(&self.parts);
        let is_one = |it: &Overlay| it.is_amended() && it.message.to.is_group();
        let has_one = |part: &Part| part.amended.iter().chain(part.edited.values()).any(is_one);
        ranges.filter(|(_, part)| has_one(part)).map(|(range, _)| range.conversation).collect()
    }

    /// The joined results of all ranges.
    fn joined(self) -> Fetched {
        let mut joined = Fetched::default();
        for (range, part) in self.ranges.iter().zip(self.parts) {
            let Some(page) = &part.page else { continue };
            joined.more = page.more;
            joined.unread.extend(range.cut(page).map(|from| (range.conversation, from)));
            joined.dropped.extend((part.dropped > 0).then_some((range.conversation, part.dropped)));
            joined.more |= part.amended_upto.is_some();
            let left = self.left_at.get(&range.conversation).copied();
            let mut messages = part.in_order(range, left);
            let all = messages.len();
            messages.retain(|message| message.id >= self.since);
            // Behind a message that is too old, in reverse order, all others are too old.
            joined.more &= !range.backwards || messages.len() == all;
            if !range.is_run && messages.len() > usize::from(range.count) {
                messages.truncate(range.count.into());
                joined.more = true;
            }
            for mut message in messages {
                if self.is_visitor
                    && let Some(content) = GroupChange::without_passwords(&message.content)
                {
                    Arc::make_mut(&mut message).content = content;
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
    /// Messages of the range in order, with the amended ones among them; for a reader who has left
    /// by the message with the number `left`, in their state of that time.
    fn in_order(self, range: &Range, left: Option<u64>) -> Vec<Arc<ChatMessage>> {
        let Part { page, amended, edited, amended_upto, .. } = self;
        let as_read = |it: &Overlay| match left {
            None => Some(it.message.clone()),
            Some(number) => it.as_of(number),
        };
        let edited: HashMap<Seq, Arc<ChatMessage>> =
            edited.iter().filter_map(|(seq, it)| Some((*seq, as_read(it)?))).collect();
        let amended: Vec<_> = amended.iter().filter_map(as_read).collect();
        let page = page.into_iter().flat_map(|page| page.messages);
        let read = page.filter_map(|placed| {
            let message = envelope::decode(placed.message.id, placed.seq, &placed.message.body)?;
            let now_is = edited_by(&message).and_then(|seq| edited.get(&seq));
            Some(Arc::new(with_its_text(message, now_is.map(|it| &**it))))
        });
        let mut all: Vec<_> = read.collect();
        if !amended.is_empty() {
            // A page that was cut ends with a message; amended messages behind it follow.
            let has: HashSet<Seq> = all.iter().map(|message| message.seq).collect();
            all.extend(amended.into_iter().filter(|it| !has.contains(&it.seq)));
            match range.backwards {
                true => all.sort_by_key(|message| Reverse(message.seq)),
                false => all.sort_by_key(|message| message.seq),
            }
        }
        // If messages of the range were erased, the page reaches behind the range.
        let last = range.last().or(amended_upto).unwrap_or(Seq::MAX);
        all.retain(|message| message.seq <= last);
        all
    }
}

impl Range {
    /// The last wanted offset of a run of references; none for a part of a history.
    fn last(&self) -> Option<Seq> {
        self.is_run.then(|| self.from + u64::from(self.count))
    }

    /// The first offset of a run that was not read, since the page was full.
    fn cut(&self, page: &Page) -> Option<Seq> {
        let ends = page.messages.last().map(|placed| placed.seq);
        let end = ends.max(page.damaged.last().copied())?;
        let is_short = page.messages.len() + page.damaged.len() < usize::from(self.count);
        (page.more && is_short && end < self.last()?).then_some(end + 1)
    }

    /// The first and the last offset that should be on a page and are not: read forwards, behind
    /// `older`, up to which all messages are too old; read backwards, at most as many offsets as
    /// one read of rows may cover.
    fn gap(&self, page: &Page, older: Seq) -> Option<(Seq, Seq)> {
        let read = page.messages.iter().map(|placed| placed.seq);
        let mut has: Vec<Seq> = read.chain(page.damaged.iter().copied()).collect();
        has.sort_unstable();
        let (lowest, highest) = (has.first().copied(), has.last().copied());
        let rows = ROWS_MAX as u64;
        let (first, last) = if self.backwards {
            // Far behind the end only recently amended messages can be found.
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
            (self.from.max(older).saturating_add(1), end)
        };
        let is_missing = |seq: &Seq| has.binary_search(seq).is_err();
        let missing_first = (first..=last).find(is_missing)?;
        let missing_last = (first..=last).rev().find(is_missing)?;
        Some((missing_first, missing_last))
    }
}

/// The offset of the message that a stored message edits, if it is an edit.
fn edited_by_placed(placed: &Placed) -> Option<Seq> {
    let body = &placed.message.body;
    if envelope::kind_of(body) != Content::EDIT {
        return None;
    }
    envelope::decode(0, placed.seq, body).as_ref().and_then(edited_by)
}

/// The offset of the message that this one edits, if it is an edit.
pub(crate) fn edited_by(message: &ChatMessage) -> Option<Seq> {
    let is_edit = message.content.kind == Content::EDIT;
    message.content.target().filter(|_| is_edit).map(|target| target.seq)
}

/// Gives an edit the present text of its message, which is empty if that was recalled.
pub(crate) fn with_its_text(mut edit: ChatMessage, now_is: Option<&ChatMessage>) -> ChatMessage {
    let target = edit.content.target();
    if let (Some(target), Some(now_is)) = (&target, now_is) {
        let Content { kind, text, extra, .. } = &now_is.content;
        let beside = if *kind == Content::STANZA { &**extra } else { &[][..] };
        edit.content.text = text.clone();
        edit.content.extra = target.extra(beside);
    }
    edit
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

//! The archive of a conversation: of an account with another one, or of a group.
//!
//! ```text
//! ids: each is looked up ─► times: each is searched for ─► one range of the conversation
//! ```
//! An id names the offset of its message, and times are in the order of offsets, so messages in
//! between need not be read. This module does not read: it names the ranges to read, and is given
//! their messages. Invariant: results are in the order of the conversation, and no match between
//! two pages is left out.

use super::search::{Look, Search};
use crate::word::{Fetched, Range, ReadBy};
use model::chat::{ArchiveId, ArchiveRange, ChatFault, ChatMessage};
use model::timeline::{Seq, TimelineId};
use std::sync::Arc;

/// Messages read at an offset in the middle: the first one that is not damaged counts.
const MIDDLE_MESSAGES: u16 = 4;

/// The archive of a conversation, on the way to a page.
pub(crate) struct ConversationArchive {
    conversation: TimelineId,
    reader: ReadBy,
    range: Box<ArchiveRange>,
    count: u16,
    step: Step,
    /// The wanted messages are behind this offset, and before `upper`.
    lower: Seq,
    upper: Seq,
    messages: Vec<Arc<ChatMessage>>,
    /// More messages may follow behind this one.
    goes_on: Option<ArchiveId>,
}

/// The reads of a step.
enum Step {
    /// The messages that the ids name.
    Ids,
    /// The offset of `since_ms`; then that of `until_ms`.
    Since(Search),
    Until(Search),
    Page,
    Over,
}

impl ConversationArchive {
    /// The archive, of which at most `count` messages are wanted.
    pub(super) fn new(
        conversation: TimelineId,
        range: Box<ArchiveRange>,
        count: u16,
    ) -> ConversationArchive {
        let mut archive = ConversationArchive {
            conversation,
            reader: ReadBy::Anybody,
            range,
            count,
            step: Step::Ids,
            lower: 0,
            upper: Seq::MAX,
            messages: Vec::new(),
            goes_on: None,
        };
        if archive.ids().next().is_none() {
            archive.begin_since();
        }
        archive
    }

    /// Sets the reader.
    pub(super) fn read_by(self, reader: ReadBy) -> ConversationArchive {
        ConversationArchive { reader, ..self }
    }

    /// The reader.
    pub(super) fn reader(&self) -> ReadBy {
        self.reader
    }

    fn ids(&self) -> impl Iterator<Item = &ArchiveId> {
        let ArchiveRange { after, before, named, .. } = &*self.range;
        [after, before, named].into_iter().flatten()
    }

    fn begin_since(&mut self) {
        match self.range.since_ms {
            0 => self.begin_until(),
            since => self.step = Step::Since(Search::new(since)),
        }
    }

    fn begin_until(&mut self) {
        match self.range.until_ms.checked_add(1) {
            None => self.begin_page(),
            Some(behind) => self.step = Step::Until(Search::new(behind)),
        }
    }

    fn begin_page(&mut self) {
        let is_empty = self.lower.saturating_add(1) >= self.upper;
        self.step = if is_empty { Step::Over } else { Step::Page };
    }

    /// The ranges to read next; empty: the page is complete.
    pub(super) fn ranges(&self) -> Vec<Range> {
        let conversation = self.conversation;
        let part = |from, backwards, count| vec![Range::part(conversation, from, backwards, count)];
        match &self.step {
            Step::Ids => {
                let mut seqs: Vec<Seq> = self.ids().map(|id| id.seq).collect();
                seqs.sort_unstable();
                seqs.dedup();
                let run = |seq: &Seq| Range::run(conversation, seq.saturating_sub(1));
                seqs.iter().map(run).collect()
            }
            Step::Since(search) | Step::Until(search) => match search.look() {
                Some(Look::From(from)) => part(from.saturating_sub(1), false, MIDDLE_MESSAGES),
                Some(Look::End) | None => part(Seq::MAX, true, 1),
            },
            Step::Page if self.range.backwards => part(self.upper, true, self.count),
            Step::Page => part(self.lower, false, self.count),
            Step::Over => Vec::new(),
        }
    }

    /// Takes the messages that were read.
    pub(super) fn sees(&mut self, fetched: Fetched) -> Result<(), ChatFault> {
        let more = fetched.more;
        let messages: Vec<_> = fetched.messages.into_iter().map(|(_, it)| it).collect();
        match std::mem::replace(&mut self.step, Step::Over) {
            Step::Ids => self.sees_ids(messages)?,
            Step::Since(mut search) => {
                search.sees(messages.iter().map(|it| (it.seq, it.at_ms)));
                if search.look().is_some() {
                    self.step = Step::Since(search);
                } else {
                    self.lower = self.lower.max(search.place() - 1);
                    self.begin_until();
                }
            }
            Step::Until(mut search) => {
                search.sees(messages.iter().map(|it| (it.seq, it.at_ms)));
                if search.look().is_some() {
                    self.step = Step::Until(search);
                } else {
                    self.upper = self.upper.min(search.place());
                    self.begin_page();
                }
            }
            Step::Page => self.sees_page(messages, more),
            Step::Over => {}
        }
        Ok(())
    }

    /// Takes the messages at the offsets of ids.
    fn sees_ids(&mut self, messages: Vec<Arc<ChatMessage>>) -> Result<(), ChatFault> {
        let has = |id: &ArchiveId| messages.iter().any(|it| ArchiveId::of(it) == *id);
        if !self.ids().all(has) {
            return Err(ChatFault::UnknownMessage);
        }
        let ArchiveRange { after, before, named, .. } = &*self.range;
        self.lower = after.iter().map(|id| id.seq).max().unwrap_or(0);
        self.upper = before.iter().map(|id| id.seq).min().unwrap_or(Seq::MAX);
        if named.is_empty() {
            self.begin_since();
            return Ok(());
        }
        let is_wanted = |it: &Arc<ChatMessage>| {
            let is_within = it.seq > self.lower && it.seq < self.upper;
            is_within && named.contains(&ArchiveId::of(it)) && self.range.has_time(it.at_ms)
        };
        self.messages = messages.into_iter().filter(is_wanted).collect();
        Ok(())
    }

    fn sees_page(&mut self, messages: Vec<Arc<ChatMessage>>, more: bool) {
        let (lower, upper) = (self.lower, self.upper);
        let is_within = |it: &Arc<ChatMessage>| it.seq > lower && it.seq < upper;
        let read = messages.len();
        let mut within: Vec<_> = messages.into_iter().filter(is_within).collect();
        let is_last = |it: &&Arc<ChatMessage>| match self.range.backwards {
            true => it.seq > lower + 1,
            false => it.seq + 1 < upper,
        };
        if more && within.len() == read {
            self.goes_on = within.last().filter(is_last).map(|last| ArchiveId::of(last));
        }
        // A clock that was set back may have mixed their times.
        within.retain(|it| self.range.has_time(it.at_ms));
        if self.range.backwards {
            within.reverse();
        }
        self.messages = within;
    }

    /// The messages, in the order of the conversation, and the id where the next page continues.
    pub(super) fn page(self) -> (Vec<Arc<ChatMessage>>, Option<ArchiveId>) {
        (self.messages, self.goes_on)
    }
}

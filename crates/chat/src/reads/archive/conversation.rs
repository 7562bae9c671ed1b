//! The archive of what an account has said with one other, or of a group: a part of the
//! conversation.
//!
//! ```text
//! ids: is each of them there? ─► times: each is searched for ─► one range of the conversation
//! ```
//! An id says the place of its message, and times are in the order of places, so what lies between
//! costs nothing. It reads nothing itself: it says which ranges are to be read, and is shown what
//! they have. Invariant: what it finds is in the order of the conversation, and nothing that
//! matches between two pages is left out.

use super::search::{Look, Search};
use crate::word::{Fetched, Range, ReadBy};
use model::chat::{ArchiveId, ArchiveRange, ChatFault, ChatMessage};
use model::timeline::{Seq, TimelineId};
use std::sync::Arc;

/// Messages that are read of a place in the middle: of these, the first that is not damaged counts.
const MIDDLE_MESSAGES: u16 = 4;

/// The archive of a conversation, on the way to a page.
pub(crate) struct ConversationArchive {
    conversation: TimelineId,
    reader: ReadBy,
    range: Box<ArchiveRange>,
    count: u16,
    step: Step,
    /// What is wanted is behind this place, and before that.
    lower: Seq,
    upper: Seq,
    messages: Vec<Arc<ChatMessage>>,
    /// There may be more, behind this one.
    goes_on: Option<ArchiveId>,
}

/// What is being read.
enum Step {
    /// The messages that ids name.
    Ids,
    /// The place of `since_ms`; that of `until_ms`.
    Since(Search),
    Until(Search),
    Page,
    Over,
}

impl ConversationArchive {
    /// At most `count` messages are wanted.
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

    /// It is read by this one.
    pub(super) fn read_by(self, reader: ReadBy) -> ConversationArchive {
        ConversationArchive { reader, ..self }
    }

    /// Who reads it.
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

    /// What is to be read of the conversation next; nothing: the page is there.
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

    /// What was read.
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

    /// What stands at the places of ids.
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
        // A clock that went back has mixed them.
        within.retain(|it| self.range.has_time(it.at_ms));
        if self.range.backwards {
            within.reverse();
        }
        self.messages = within;
    }

    /// The messages, in the order of the conversation, and where it goes on.
    pub(super) fn page(self) -> (Vec<Arc<ChatMessage>>, Option<ArchiveId>) {
        (self.messages, self.goes_on)
    }
}

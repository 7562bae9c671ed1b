//! Search: reads the account's inbox backwards, and compares the texts of its messages.
//!
//! ```text
//! Search ─► references, a slice (this shard) ─► their messages ─► those that match ─┐
//!              ▲ not enough found, and not too much looked at ──────────────────────┤
//!              └────────────────────────────────────────────────────────────────────┴─► page
//! ```
//! The inbox has all messages that the account may read, also those of groups. Each slice is a call
//! to the log, between which others have their turns; after a number of entries the page is sent,
//! with the matches so far, and says where to continue. Invariant: no message is found twice or
//! left out, whatever the slices.

use crate::inboxes::entry::Entry;
use crate::label::Pointer;
use crate::log::PendingCall;
use crate::reads::{Reading, Wanted, failed, ranges_of};
use crate::sessions::Requester;
use crate::word::{Fetched, Range};
use crate::{Chat, Effects};
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{
    ChatDelivery, ChatFault, ChatMessage, PAGE_BYTES_MAX, SEARCH_TEXT_BYTES_MAX, SearchPage,
    SearchRange, folded,
};
use model::id::{ConnRef, SessionRef, ShardId};
use model::ports::log::{Call, Page, Pull, Read};
use model::timeline::{Placed, Seq, TimelineId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Entries in a slice.
const SLICE_ENTRIES: usize = 128;

/// How much later the time of a message may be than that of one placed behind it, seconds, since
/// clocks are set.
const CLOCK_SLACK_S: u64 = 60;

/// A page of results in the making.
pub(crate) struct Searching {
    inbox: TimelineId,
    range: Box<SearchRange>,
    needle: String,
    with: Option<AccountAddress>,
    from: Option<AccountAddress>,
    /// Largest number of results.
    count: usize,
    /// Number of entries that may still be examined.
    left: usize,
    found: Vec<(Seq, Arc<ChatMessage>)>,
    /// Size of the results, bytes: the page has the limit of other pages.
    bytes: usize,
    /// Largest number of messages in a slice: 1 after a message that could not be read.
    slice_max: usize,
    /// References of the present slice, the newest first.
    slice: Vec<(Seq, Pointer)>,
    /// When the slice is done, all entries from this offset on have been examined.
    next: Seq,
    /// No entries are left before `next`.
    is_over: bool,
}

impl Searching {
    /// Takes the references of a slice of the inbox that are to be examined.
    fn sees(&mut self, page: &Page) {
        self.is_over = !page.more;
        self.slice.clear();
        let (mut bytes, mut placed) = (0, page.messages.iter());
        for Placed { seq, message } in placed.by_ref() {
            let is_older = u64::from(message.at_s) + CLOCK_SLACK_S < self.range.since_ms / 1_000;
            let is_full = bytes >= PAGE_BYTES_MAX / 2 || self.slice.len() >= self.slice_max;
            if is_older || self.left == 0 || is_full {
                // Messages that were not examined are left to the next slice; those that are too
                // old are not.
                self.is_over = is_older;
                return;
            }
            self.left -= 1;
            self.next = *seq;
            if let Some(Entry::Message(pointer, with)) = Entry::decode(message)
                && !pointer.quiet
                && self.with.as_ref().is_none_or(|wanted| *wanted == with)
            {
                bytes += pointer.bytes as usize;
                self.slice.push((*seq, pointer));
            }
        }
        // Damaged entries are skipped.
        let lowest = page.damaged.first().copied().unwrap_or(Seq::MAX);
        self.next = self.next.min(lowest.max(1));
    }

    /// Compares the messages of the slice.
    fn looks(&mut self, fetched: Fetched) {
        let at = |(conversation, message): (TimelineId, Arc<ChatMessage>)| {
            ((conversation, message.seq), message)
        };
        let unread = fetched.unread;
        let messages: HashMap<_, _> = fetched.messages.into_iter().map(at).collect();
        self.slice_max = SLICE_ENTRIES;
        for (place, pointer) in std::mem::take(&mut self.slice) {
            let key = (pointer.conversation, pointer.seq);
            let is_unread = |(of, from): &(TimelineId, Seq)| *of == key.0 && key.1 >= *from;
            let message = messages.get(&key);
            if message.is_none() && unread.iter().any(is_unread) {
                // A single message is read, whatever its size.
                self.slice_max = 1;
            }
            if self.is_full() || message.is_none() && unread.iter().any(is_unread) {
                (self.next, self.is_over) = (place + 1, false);
                return;
            }
            if let Some(message) = message.filter(|message| self.matches(message)) {
                self.bytes += message.weight();
                self.found.push((place, message.clone()));
            }
        }
    }

    fn matches(&self, message: &ChatMessage) -> bool {
        let range = &self.range;
        (range.since_ms..=range.until_ms).contains(&message.at_ms)
            && self.from.as_ref().is_none_or(|from| *from == message.from)
            && folded(&message.content.text).contains(&self.needle)
    }

    fn is_full(&self) -> bool {
        self.found.len() >= self.count || self.bytes >= PAGE_BYTES_MAX
    }

    fn is_done(&self) -> bool {
        self.is_over || self.left == 0 || self.is_full()
    }

    pub(super) fn page(self, number: u32) -> SearchPage {
        let Searching { found, next, is_over, .. } = self;
        SearchPage { number, found, before: next, more: !is_over && next > 1 }
    }
}

impl Chat {
    /// Handles a device's search among the messages that its account may read.
    pub(crate) fn search(
        &mut self,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        range: Box<SearchRange>,
        fx: &mut Effects,
    ) {
        let Some(asker) = self.asker(from, session) else { return };
        let reader = Requester { conn: from, session, number };
        let fault = match range.text.len() {
            // Without a text, all messages of one conversation match: a former member reads a group
            // so.
            0 if range.with.is_none() => Some(ChatFault::Invalid),
            bytes if bytes > SEARCH_TEXT_BYTES_MAX => Some(ChatFault::TooLarge),
            _ => self.may_not_read(reader, range.count),
        };
        if let Some(why) = fault {
            return self.answer_session((from, session), failed(number, why), fx);
        }
        let limits = &self.settings.limits.chat;
        let within = |who: &model::account::Addressee| who.within(asker.address.domain());
        let searching = Searching {
            inbox: asker.inbox,
            needle: folded(&range.text),
            with: range.with.as_ref().map(within),
            from: range.from.as_ref().map(within),
            count: range.count.min(limits.page_messages_max).into(),
            left: limits.search_entries_max as usize,
            found: Vec::new(),
            bytes: 0,
            slice_max: SLICE_ENTRIES,
            slice: Vec::new(),
            next: range.before,
            is_over: false,
            range,
        };
        let what = Wanted::Search(Box::new(searching));
        let reading = Reading::new(reader, Some(asker.inbox), what);
        let number = self.readings.put(reading);
        self.search_goes_on(number, fx);
    }

    /// Reads the next slice, or sends the page.
    fn search_goes_on(&mut self, number: u64, fx: &mut Effects) {
        let Some(reading) = self.readings.at_mut(number) else { return };
        let Wanted::Search(searching) = &mut reading.what else { return };
        if searching.is_done() {
            return self.end_reading(number, fx);
        }
        let (timeline, from) = (searching.inbox, searching.next);
        let count_max = SLICE_ENTRIES.min(searching.left);
        let (backwards, bytes_max) = (true, PAGE_BYTES_MAX);
        let pull = Pull { timeline, from, backwards, count_max, bytes_max };
        self.log.ask(PendingCall::Inbox(number), Call::Read(Read::Pull(pull)), fx);
    }

    /// Handles a slice of the inbox; fetches its messages.
    pub(super) fn search_read(&mut self, now: Now, number: u64, page: &Page, fx: &mut Effects) {
        let Some(reading) = self.readings.at_mut(number) else { return };
        let Wanted::Search(searching) = &mut reading.what else { return };
        let is_empty = page.messages.is_empty() && page.damaged.is_empty();
        searching.sees(page);
        searching.is_over |= is_empty;
        let mut wanted: Vec<Pointer> = searching.slice.iter().map(|(_, it)| *it).collect();
        wanted.sort_unstable();
        let mut by_shard = BTreeMap::<ShardId, Vec<Range>>::new();
        for range in ranges_of(&wanted) {
            let shard = self.settings.shard_at(range.conversation);
            by_shard.entry(shard).or_default().push(range);
        }
        if by_shard.is_empty() {
            return self.search_goes_on(number, fx);
        }
        self.fetch_held(now, number, by_shard, fx);
    }

    /// Handles the messages of a slice.
    pub(super) fn search_fetched(&mut self, number: u64, fx: &mut Effects) {
        let Some(reading) = self.readings.at_mut(number) else { return };
        let fetched = std::mem::take(&mut reading.fetched);
        if let Wanted::Search(searching) = &mut reading.what {
            searching.looks(fetched);
        }
        self.search_goes_on(number, fx);
    }
}

/// The answer to a search.
pub(super) fn told(searching: Searching, number: u32) -> ChatDelivery {
    ChatDelivery::Found(Box::new(searching.page(number)))
}

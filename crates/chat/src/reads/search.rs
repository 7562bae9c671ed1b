//! Search: the account's inbox is gone through backwards, and the texts of its messages are looked
//! at.
//!
//! ```text
//! Search ─► references, a slice (this shard) ─► their messages ─► those that match ─┐
//!              ▲ not enough found, and not too much looked at ──────────────────────┤
//!              └────────────────────────────────────────────────────────────────────┴─► page
//! ```
//! The inbox has what the account may read, of groups too. Each slice is a call to the log, between
//! which others have their turns; after so many entries the page is given, whatever was found, and
//! says where to go on. Invariant: no message is found twice or left out, however it is cut.

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

/// Entries of a slice.
const SLICE_ENTRIES: usize = 128;

/// How much later a message may be placed than one that is placed behind it, seconds: clocks are
/// set.
const CLOCK_SLACK_S: u64 = 60;

/// A page that is being made.
pub(crate) struct Searching {
    inbox: TimelineId,
    range: Box<SearchRange>,
    needle: String,
    with: Option<AccountAddress>,
    from: Option<AccountAddress>,
    /// The most that are wanted.
    count: usize,
    /// Entries that may still be looked at.
    left: usize,
    found: Vec<(Seq, Arc<ChatMessage>)>,
    /// What that weighs, bytes: a page has no more than other pages have.
    bytes: usize,
    /// Messages of a slice, at most: fewer, after one that could not be read whole.
    slice_max: usize,
    /// References of the slice that is looked at, the newest first.
    slice: Vec<(Seq, Pointer)>,
    /// All from here on was looked through, when the slice is.
    next: Seq,
    /// There is nothing before that.
    is_over: bool,
}

impl Searching {
    /// Takes a slice of the inbox: which messages are to be looked at.
    fn sees(&mut self, page: &Page) {
        self.is_over = !page.more;
        self.slice.clear();
        let (mut bytes, mut placed) = (0, page.messages.iter());
        for Placed { seq, message } in placed.by_ref() {
            let is_older = u64::from(message.at_s) + CLOCK_SLACK_S < self.range.since_ms / 1_000;
            let is_full = bytes >= PAGE_BYTES_MAX / 2 || self.slice.len() >= self.slice_max;
            if is_older || self.left == 0 || is_full {
                // What was not looked at is for the next slice; of what is older, none.
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
        // Damaged places are passed over.
        let lowest = page.damaged.first().copied().unwrap_or(Seq::MAX);
        self.next = self.next.min(lowest.max(1));
    }

    /// The messages of the slice were read.
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
                // One alone is read, however large it has become.
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
    /// A device searches what its account has said and heard.
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
            // Without a text, all messages of one conversation are found: whoever has left a group
            // reads it so.
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

    /// The next slice is read, or the page is there.
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

    /// A slice of the inbox was read: its messages are fetched.
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

    /// Its messages were read.
    pub(super) fn search_fetched(&mut self, number: u64, fx: &mut Effects) {
        let Some(reading) = self.readings.at_mut(number) else { return };
        let fetched = std::mem::take(&mut reading.fetched);
        if let Wanted::Search(searching) = &mut reading.what {
            searching.looks(fetched);
        }
        self.search_goes_on(number, fx);
    }
}

/// What was found, as it is told.
pub(super) fn told(searching: Searching, number: u32) -> ChatDelivery {
    ChatDelivery::Found(Box::new(searching.page(number)))
}

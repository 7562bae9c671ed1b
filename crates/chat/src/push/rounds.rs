//! A round: an account's debts by some ways are read, from its rows, its inbox and its knowledge of
//! its conversations, and then sent.
//!
//! ```text
//! rows ─► account ─► (after a start: where to begin) ─► inbox ─► read positions
//!   ─► beginnings of the last messages ─► orders (`telling.rs`) ─► answers ─► over, or later
//! ```
//! Each step is one call or query, which is answered once. If a read fails, the round ends as if
//! its notifications had been refused for now. Invariant: an account has one round at most, and a
//! round covers the inbox from the offset of each way up to `upto`, without a gap.

use super::owing::Lane;
use super::rows::Rows;
use super::wishes::PushChore;
use super::{Pushes, WAYS, Way, millis, rows};
use crate::accounts::FOUND_BYTES;
use crate::conversations::changes::{Subject, Task, Wish};
use crate::inboxes::entry::Entry;
use crate::log::{Answered, PendingCall};
use crate::outbox::left::scans::CLOCK_SLACK_S;
use crate::push::PushDetail;
use crate::reads::Wanted;
use crate::service::flow::Flow;
use crate::sessions::Requester;
use crate::word::{Fetched, Range, ReadBy};
use crate::{Chat, Effects};
use base::time::{Instant, Now};
use model::account::{AccountAddress, AccountId};
use model::chat::{ChatFault, Excerpt, MuteLevel};
use model::counters::ChatCounter;
use model::id::ShardId;
use model::ports::log::{Call, Done, Page, Pull, Read};
use model::timeline::{Seq, TimelineId};
use std::collections::{BTreeMap, HashMap};

/// Largest number of inbox entries in a page.
const ENTRIES_MAX: usize = 512;

/// Largest size of such a page, bytes.
const ENTRIES_BYTES_MAX: usize = 128 * 1024;

/// Approximate number of entries in a round. Further ones are left to the next round.
const ENTRIES_A_ROUND_MAX: usize = 4_096;

/// A round: an account's debts on their way.
pub(super) struct Round {
    pub(super) inbox: TimelineId,
    pub(super) ways: Vec<Way>,
    /// A connected device has the new messages: only the unread count is sent.
    pub(super) is_attended: bool,
    pub(super) rows: Rows,
    /// Owed messages, by conversation.
    pub(super) said: BTreeMap<TimelineId, Said>,
    /// The round covers the inbox up to this offset.
    pub(super) upto: Seq,
    /// The highest known offset when the inbox was read: later entries may be missing.
    head: Seq,
    /// The inbox is read from its end, to find where the debts begin.
    is_backwards: bool,
    /// Number of entries that were read.
    entries: usize,
    /// Time at which the round began, Unix seconds.
    pub(super) began_s: u32,
    pub(super) badge: u32,
    pub(super) texts: HashMap<TimelineId, Excerpt>,
    /// Answers that have not arrived, of all ways.
    pub(super) left: u32,
    /// Result of each way.
    pub(super) ends: [End; WAYS],
}

/// Owed messages of a conversation.
pub(super) struct Said {
    pub(super) with: AccountAddress,
    /// Offsets in the conversation, and in the inbox.
    pub(super) places: Vec<(Seq, Seq)>,
    /// Offsets in the conversation of messages that mention the account.
    mentions: Vec<Seq>,
    pub(super) muted: MuteLevel,
}

/// Result of a way: the worst of its answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum End {
    Told,
    Refused,
    Later,
}

/// Finds the account that has the name of the round's account now.
async fn find_owner(mut flow: Flow, number: u64, address: AccountAddress) {
    let id = flow.account(&address, FOUND_BYTES).await;
    let (chat, now, fx) = flow.state();
    chat.push_account_found(now, number, (&address, id), fx);
}

impl Chat {
    /// Begins a round by reading all push rows of the account.
    pub(super) fn begin_round(
        &mut self,
        now: Now,
        (inbox, ways): (TimelineId, Vec<Way>),
        is_attended: bool,
        fx: &mut Effects,
    ) {
        let Some(owing) = self.pushes.owing.get_mut(&inbox) else { return };
        (owing.is_in_round, owing.may_tell) = (true, false);
        let head = owing.head;
        ways.iter().for_each(|way| self.pushes.busy[*way as usize] += 1);
        let number = self.pushes.rounds.put(Round {
            inbox,
            ways,
            is_attended,
            rows: Rows::default(),
            said: BTreeMap::new(),
            upto: 0,
            head,
            is_backwards: false,
            entries: 0,
            began_s: now.unix_s(),
            badge: 0,
            texts: HashMap::new(),
            left: 0,
            ends: [End::Told; WAYS],
        });
        self.log.ask(PendingCall::PushRows(number), Call::Read(rows::read(inbox)), fx);
    }

    /// Handles the rows; finds out whether the account still exists.
    pub(crate) fn push_rows_read(
        &mut self,
        now: Now,
        number: u64,
        result: Answered,
        fx: &mut Effects,
    ) {
        let Ok(Done::Rows(all)) = result else { return self.put_off(now, number, fx) };
        let Some(round) = self.pushes.rounds.at_mut(number) else { return };
        round.rows = Rows::of(&all);
        match round.rows.address.clone() {
            Some(address) => {
                if !self.begin(|flow| find_owner(flow, number, address)) {
                    self.put_off(now, number, fx);
                }
            }
            None => {
                let inbox = round.inbox;
                self.pushes.lets_go(inbox);
                self.pushes.accounts.remove(&inbox);
                self.end_round(now, number, fx);
            }
        }
    }

    /// Handles the account that has the name now, or the fault.
    fn push_account_found(
        &mut self,
        now: Now,
        number: u64,
        (address, id): (&AccountAddress, Result<AccountId, ChatFault>),
        fx: &mut Effects,
    ) {
        let home = self.settings.home;
        let Some(round) = self.pushes.rounds.at_mut(number) else { return };
        let inbox = round.inbox;
        match id {
            Ok(id) if address.inbox(home, id) == inbox => self.read_owed(now, number, None, fx),
            // The name has no account, or another one by now.
            Ok(_) | Err(ChatFault::UnknownAccount) => {
                self.run_chore(inbox, PushChore::Clear, fx);
                self.end_round(now, number, fx);
            }
            Err(_) => self.put_off(now, number, fx),
        }
    }

    /// Reads owed messages; after a start the place where they begin is sought first, from the end.
    fn read_owed(&mut self, now: Now, number: u64, back: Option<Seq>, fx: &mut Effects) {
        let Some(round) = self.pushes.rounds.at_mut(number) else { return };
        let Some(owing) = self.pushes.owing.get(&round.inbox) else {
            return self.end_round(now, number, fx);
        };
        let (timeline, backwards) = (round.inbox, !owing.is_known);
        if round.is_attended && owing.is_known {
            round.upto = round.head;
            return self.ask_known(now, number, fx);
        }
        let from = match backwards {
            true => back.unwrap_or(Seq::MAX),
            false => owing.told_by(&round.ways).max(round.upto),
        };
        (round.head, round.is_backwards) = (owing.head, backwards);
        let (count_max, bytes_max) = (ENTRIES_MAX, ENTRIES_BYTES_MAX);
        let pull = Pull { timeline, from, backwards, count_max, bytes_max };
        self.log.ask(PendingCall::PushOwed(number), Call::Read(Read::Pull(pull)), fx);
    }

    /// Handles a page of the inbox.
    pub(crate) fn owed_read(&mut self, now: Now, number: u64, result: Answered, fx: &mut Effects) {
        let Ok(Done::Page(page)) = result else { return self.put_off(now, number, fx) };
        let most = usize::from(self.settings.limits.notifications.conversations_at_once_max);
        let Some(round) = self.pushes.rounds.at_mut(number) else { return };
        let Some(owing) = self.pushes.owing.get_mut(&round.inbox) else {
            return self.end_round(now, number, fx);
        };
        if round.is_backwards == owing.is_known {
            // The beginning has become known meanwhile, by the first entry that was placed.
            return self.read_owed(now, number, None, fx);
        }
        if owing.is_known {
            round.take(&page, most);
            round.entries += page.messages.len();
            match round.upto >= last_of(&page) {
                true if page.more && round.entries < ENTRIES_A_ROUND_MAX => {
                    return self.read_owed(now, number, None, fx);
                }
                // Places without messages count as announced, too.
                true if !page.more => round.upto = round.upto.max(round.head),
                _ => {}
            }
            return self.ask_known(now, number, fx);
        }
        let since_s = owing.since_s.saturating_sub(CLOCK_SLACK_S);
        let floor = owing.lanes[0].told;
        owing.head = owing.head.max(page.messages.first().map_or(0, |placed| placed.seq));
        let is_before = |placed: &&model::timeline::Placed| {
            placed.seq <= floor || placed.message.at_s < since_s
        };
        let before = page.messages.iter().find(is_before).map(|placed| placed.seq);
        let lowest = page.messages.last().map(|placed| placed.seq);
        let lowest = lowest.into_iter().chain(page.damaged.last().copied()).min();
        let told = match (before, page.more, lowest) {
            (None, true, Some(lowest)) => return self.read_owed(now, number, Some(lowest), fx),
            (before, ..) => before.unwrap_or(floor),
        };
        owing.is_known = true;
        owing.lanes.iter_mut().for_each(|lane| lane.told = told);
        self.read_owed(now, number, None, fx);
    }

    /// Requests the account's knowledge of its conversations.
    fn ask_known(&mut self, now: Now, number: u64, fx: &mut Effects) {
        let Some(round) = self.pushes.rounds.at_mut(number) else { return };
        let (inbox, wish) = (round.inbox, Wish::Push(number));
        let task = Task { wait: Requester::NOBODY, wish, what: Subject::All };
        self.for_account(now, inbox, task, fx);
    }

    /// Continues when the account's knowledge has been read, or puts the round off.
    pub(crate) fn push_known(&mut self, now: Now, number: u64, is_known: bool, fx: &mut Effects) {
        if !is_known {
            return self.put_off(now, number, fx);
        }
        let Some(inbox) = self.pushes.rounds.at_mut(number).map(|round| round.inbox) else {
            return;
        };
        let attentive = self.attentive_upto(inbox);
        let Some(round) = self.pushes.rounds.at_mut(number) else { return };
        round.badge = self.conversations.badge(inbox);
        let (mut read, mut attended, mut muted) = (0, 0, 0);
        for (conversation, said) in &mut round.said {
            let kept = self.conversations.kept(inbox, *conversation);
            said.muted = kept.map_or(MuteLevel::Off, |(_, muted)| muted);
            let upto = kept.map_or(0, |(upto, _)| upto);
            let count = said.places.len();
            said.places.retain(|(seq, _)| *seq > upto);
            read += count - said.places.len();
            let count = said.places.len();
            said.places.retain(|(_, place)| *place > attentive);
            attended += count - said.places.len();
            muted += said.leaves_mentions();
        }
        round.said.retain(|_, said| !said.places.is_empty());
        fx.counters.count_by(ChatCounter::PushesRead, read as u64);
        fx.counters.count_by(ChatCounter::PushesAttended, attended as u64);
        fx.counters.count_by(ChatCounter::PushesMuted, muted as u64);
        let policy = self.settings.push;
        let is_told = |way: &Way| policy.detail_by(*way) != PushDetail::Nothing;
        if !round.ways.iter().any(is_told) || round.said.is_empty() {
            return self.tell_round(now, number, fx);
        }
        let mut by_shard = BTreeMap::<ShardId, Vec<Range>>::new();
        for (conversation, said) in &round.said {
            let last = said.places.last().map_or(0, |(seq, _)| *seq);
            let shard = self.settings.shard_at(*conversation);
            let range = Range::excerpt(*conversation, last.saturating_sub(1), false);
            by_shard.entry(shard).or_default().push(range);
        }
        let (what, by) = (Wanted::Push(number), ReadBy::Holder(inbox));
        self.read_for(now, Requester::NOBODY, what, (by_shard, by), fx);
    }

    /// Handles the beginnings of messages.
    pub(crate) fn push_texts_read(
        &mut self,
        now: Now,
        number: u64,
        result: Result<Fetched, ChatFault>,
        fx: &mut Effects,
    ) {
        let Ok(fetched) = result else { return self.put_off(now, number, fx) };
        let Some(round) = self.pushes.rounds.at_mut(number) else { return };
        round.texts = fetched.excerpts.into_iter().collect();
        self.tell_round(now, number, fx);
    }

    /// Puts the round off after a failed read: all ways try again later.
    fn put_off(&mut self, now: Now, number: u64, fx: &mut Effects) {
        let Some(round) = self.pushes.rounds.at_mut(number) else { return };
        round.ends = [End::Later; WAYS];
        fx.counters.count(ChatCounter::PushesUnread);
        self.end_round(now, number, fx);
    }

    /// Ends a round when all answers have arrived.
    pub(super) fn end_round(&mut self, now: Now, number: u64, fx: &mut Effects) {
        let Some(round) = self.pushes.rounds.take(number) else { return };
        let inbox = round.inbox;
        round.ways.iter().for_each(|way| self.pushes.busy[*way as usize] -= 1);
        let window = self.push_window(now);
        let limits = self.settings.limits.clone();
        let waits = (limits.notifications.retry_ms_min, limits.notifications.retry_ms_max);
        let ways = self.pushes.ways(inbox);
        let Pushes { owing, rng, .. } = &mut self.pushes;
        let Some(owing) = owing.get_mut(&inbox) else { return };
        owing.is_in_round = false;
        let mut next: Option<Instant> = None;
        for way in &round.ways {
            let (lane, end) = (&mut owing.lanes[*way as usize], round.ends[*way as usize]);
            if end != End::Later {
                *lane = Lane { told: lane.told.max(round.upto), ..Lane::default() };
                if *way == Way::Service {
                    owing.services.clear();
                }
                continue;
            }
            fx.counters.count(ChatCounter::PushesRetried);
            let wait = waits.0.saturating_mul(1 << lane.tries.min(16)).min(waits.1.max(waits.0));
            lane.tries += 1;
            lane.not_before =
                now.after(millis(wait / 2 + rng.below(u64::from(wait / 2) + 1) as u32));
            next = Some(next.map_or(lane.not_before, |at| at.min(lane.not_before)));
        }
        let open: Vec<Way> = ways.into_iter().filter(|way| !owing.has_told(*way)).collect();
        if open.is_empty() {
            return self.push_over(now, inbox, fx);
        }
        let lanes = owing.lanes;
        let lane = |way: &Way| lanes[*way as usize];
        let has_all = |way: &Way| lane(way).tries == 0 && lane(way).told >= round.upto;
        if round.upto > 0 && open.iter().all(has_all) {
            // Debts that are left arose since this round began.
            owing.since_s = round.began_s;
            owing.first_at = now.mono;
        }
        let is_next = |way: &Way| lane(way).tries == 0 && !round.ways.contains(way);
        let at = match open.iter().all(|way| lane(way).tries > 0) {
            true => next.unwrap_or(window),
            false if open.iter().any(is_next) => now.mono,
            false => window,
        };
        self.pushes.arm(inbox, at);
        self.write_mark(inbox, fx);
    }
}

impl Said {
    fn new(with: AccountAddress) -> Said {
        Said { with, places: Vec::new(), mentions: Vec::new(), muted: MuteLevel::Off }
    }

    /// In a muted conversation, keeps only messages that mention the account, which are announced
    /// as if it were not muted. Returns the number of the other messages.
    fn leaves_mentions(&mut self) -> usize {
        let Said { places, mentions, .. } = self;
        let is_any = places.iter().any(|(seq, _)| mentions.contains(seq));
        if self.muted != MuteLevel::ButMentions || !is_any {
            return 0;
        }
        let count = places.len();
        places.retain(|(seq, _)| mentions.contains(seq));
        self.muted = MuteLevel::Off;
        count - self.places.len()
    }
}

impl Round {
    /// Adds the owed messages of a page of the inbox, of at most `most` conversations.
    fn take(&mut self, page: &Page, most: usize) {
        for placed in &page.messages {
            if let Some(Entry::Message(pointer, with)) = Entry::decode(&placed.message) {
                let is_known = self.said.contains_key(&pointer.conversation);
                if let Some(seq) = pointer.recalls {
                    if let Some(said) = self.said.get_mut(&pointer.conversation) {
                        said.places.retain(|(of, _)| *of != seq);
                    }
                } else if pointer.wakes() {
                    if !is_known && self.said.len() >= most {
                        return;
                    }
                    let said = self.said.entry(pointer.conversation);
                    let said = said.or_insert_with(|| Said::new(with));
                    said.places.push((pointer.seq, placed.seq));
                    said.mentions.extend(Some(pointer.seq).filter(|_| pointer.relation.mentioned));
                }
            }
            self.upto = placed.seq;
        }
        self.upto = self.upto.max(page.damaged.last().copied().unwrap_or(0));
    }
}

/// The last offset of a page that is read forwards.
fn last_of(page: &Page) -> Seq {
    let last = page.messages.last().map_or(0, |placed| placed.seq);
    last.max(page.damaged.last().copied().unwrap_or(0))
}

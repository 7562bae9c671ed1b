//! Chatrooms at their home: their rows, the shards with sessions in them, and the rights of
//! accounts.
//!
//! ```text
//!                                     ┌ unread: its last messages are being read, once
//!  Join, Say, Order ─► line ─► ready ─┤
//!                                     └ changing: a change is with the log
//! ```
//! All rooms of a shard are in memory, with their rows; their number is limited. While the log
//! stores a change, all other tasks for the room wait in line. Invariant: a shard whose session has
//! joined gets every message from then on, until it reports that it has no session there; or it
//! finds out that it did not get one.

use super::row::{self, ChatroomRow};
use super::said::Ring;
use super::words::{ChatroomAsked, ChatroomWord, JoinAsked, Leaving, Saying};
use crate::word::{PeerReply, ReplyTo};
use crate::{Chat, Effects};
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::{
    ChatFault, ChatroomJoined, ChatroomNews, ChatroomOut, ChatroomState, ChatroomWhat,
};
use model::id::ShardId;
use model::timeline::TimelineId;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Maximum of tasks that wait for one chatroom. A further one is answered as busy.
const LINE_MAX: usize = 4_096;

/// Maximum of accounts that are to leave a room and that some shard has not confirmed. An order
/// beyond it is answered as busy.
const OUTS_MAX: usize = 1_024;

/// The number of a shard's reports that may be lost before it counts as having no sessions there.
const SILENT_MAX: u32 = 4;

/// A task for a chatroom that is at home here.
pub(crate) enum Task {
    Join(ReplyTo, Box<JoinAsked>),
    Say(ReplyTo, Box<Saying>),
    Order(ReplyTo, Box<ChatroomAsked>),
}

/// The chatrooms at home here.
#[derive(Default)]
pub(crate) struct Homes {
    pub(super) known: HashMap<TimelineId, Chatroom>,
    /// The rooms with messages that were not sent to the shards yet.
    pub(super) loud: Vec<TimelineId>,
    /// The rooms whose number of sessions is to be reported, with the times.
    due: BTreeSet<(Instant, TimelineId)>,
}

impl Homes {
    /// The time of the next report about a room.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }
}

/// A chatroom at home here.
pub(crate) struct Chatroom {
    pub(super) room: AccountAddress,
    /// The room's row; none: the room is being made, or was closed a moment ago.
    pub(super) row: Option<Arc<ChatroomRow>>,
    pub(super) step: Step,
    line: VecDeque<Task>,
    pub(super) ring: Ring,
    pub(super) shards: BTreeMap<ShardId, Present>,
    outs_last: u64,
    /// The number of sessions that was last reported to them.
    told: u32,
    told_at: Instant,
    is_due: bool,
}

/// The step that keeps tasks waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The room's last messages are in the log.
    Unread,
    Reading,
    Ready,
    /// The log is storing a change.
    Changing,
}

/// The sessions of one shard that are in a room.
pub(super) struct Present {
    pub(super) here: u32,
    at: Instant,
    /// The accounts that are to leave, and that the shard has not confirmed.
    outs: Vec<Leaving>,
}

impl Chatroom {
    pub(super) fn new(room: AccountAddress, row: Option<Arc<ChatroomRow>>) -> Chatroom {
        let is_kept = row.as_ref().is_some_and(|row| row.is_kept());
        Chatroom {
            room,
            row,
            step: if is_kept { Step::Unread } else { Step::Ready },
            line: VecDeque::new(),
            ring: Ring::default(),
            shards: BTreeMap::new(),
            outs_last: 0,
            told: 0,
            told_at: Instant::default(),
            is_due: false,
        }
    }

    pub(super) fn here(&self) -> u32 {
        self.shards.values().fold(0, |sum, it| sum.saturating_add(it.here))
    }

    pub(super) fn shards(&self) -> Vec<ShardId> {
        self.shards.keys().copied().collect()
    }

    pub(super) fn state(&self) -> Arc<ChatroomState> {
        let Some(row) = &self.row else { return Arc::default() };
        Arc::new(ChatroomState {
            title: row.title.clone(),
            announcement: row.announcement.clone(),
            quiet: row.quiet,
            here: self.here(),
            head: self.ring.told(),
        })
    }
}

impl ChatroomRow {
    /// Whether the room's last messages are in the log.
    pub(crate) fn is_kept(&self) -> bool {
        self.durable && self.keeps > 0
    }
}

impl Chat {
    /// Restores a row of the log.
    pub(crate) fn restore_chatroom(&mut self, key: &[u8], value: &[u8]) -> bool {
        let Some((room, row)) = row::read(key, value) else { return false };
        let (timeline, _) = self.chatroom_at(&room);
        let made = Chatroom::new(room, Some(Arc::new(row)));
        self.chatrooms.homes.known.insert(timeline, made);
        true
    }

    /// Takes a task for a chatroom of this shard.
    pub(crate) fn for_chatroom(
        &mut self,
        now: Now,
        room: &AccountAddress,
        task: Task,
        fx: &mut Effects,
    ) {
        let (timeline, _) = self.chatroom_at(room);
        let may_read = self.log.may_ask();
        let Some(home) = self.chatrooms.homes.known.get_mut(&timeline) else {
            return self.refuse_chatroom(task, ChatFault::NoChatroom, fx);
        };
        if home.line.len() >= LINE_MAX || home.step == Step::Unread && !may_read {
            return self.refuse_chatroom(task, ChatFault::Busy, fx);
        }
        home.line.push_back(task);
        match home.step {
            Step::Unread => {
                home.step = Step::Reading;
                self.read_chatroom(timeline, fx);
            }
            Step::Ready => self.advance_chatroom(now, timeline, fx),
            Step::Reading | Step::Changing => {}
        }
    }

    pub(super) fn refuse_chatroom(&mut self, task: Task, fault: ChatFault, fx: &mut Effects) {
        let (Task::Join(to, _) | Task::Say(to, _) | Task::Order(to, _)) = task;
        self.reply(to, Err(fault), fx);
    }

    /// Carries out the tasks that wait for a chatroom, until one of them changes it.
    pub(super) fn advance_chatroom(&mut self, now: Now, timeline: TimelineId, fx: &mut Effects) {
        while let Some(home) = self.chatrooms.homes.known.get_mut(&timeline)
            && home.step == Step::Ready
            && let Some(task) = home.line.pop_front()
        {
            let Some(row) = home.row.clone() else {
                self.refuse_chatroom(task, ChatFault::NoChatroom, fx);
                continue;
            };
            match task {
                Task::Join(to, asked) => {
                    let joined = self.joins_chatroom(now, (timeline, to.shard), &row, &asked, fx);
                    self.reply(to, joined.map(PeerReply::Joined), fx);
                }
                Task::Say(to, saying) => self.say_here(now, (timeline, to), &row, *saying, fx),
                Task::Order(to, asked) => {
                    self.change_chatroom(now, (timeline, to), &row, *asked, fx);
                }
            }
        }
        let homes = &mut self.chatrooms.homes.known;
        if homes.get(&timeline).is_some_and(|it| it.row.is_none() && it.step == Step::Ready) {
            homes.remove(&timeline);
        }
    }

    /// Takes a session's request to join a chatroom of this shard.
    fn joins_chatroom(
        &mut self,
        now: Now,
        (timeline, from): (TimelineId, ShardId),
        row: &ChatroomRow,
        &JoinAsked { ref by, history, is_new, .. }: &JoinAsked,
        fx: &mut Effects,
    ) -> Result<Box<ChatroomJoined>, ChatFault> {
        if row.is_banned(&by.address) && !by.is_operator {
            return Err(ChatFault::ChatroomBanned);
        }
        // Messages from before the join are in the history, and nowhere else.
        self.flush_chatroom(now, timeline, fx);
        let most = self.settings.limits.chat.chatroom_members_max;
        let Some(home) = self.chatrooms.homes.known.get_mut(&timeline) else {
            return Err(ChatFault::NoChatroom);
        };
        if is_new && home.here() >= most {
            return Err(ChatFault::ChatroomFull);
        }
        let new = || Present { here: 0, at: now.mono, outs: Vec::new() };
        home.shards.entry(from).or_insert_with(new).here += u32::from(is_new);
        let joined = ChatroomJoined {
            number: 0,
            room: home.room.clone(),
            timeline,
            role: row.role(&by.address, by.inbox),
            muted: row.is_muted(&by.address),
            state: home.state(),
            history: home.ring.last(history),
        };
        self.count_is_due(now, timeline);
        Ok(Box::new(joined))
    }

    /// Schedules a report of the changed number of sessions to them, but not too often.
    fn count_is_due(&mut self, now: Now, timeline: TimelineId) {
        let Some(home) = self.chatrooms.homes.known.get_mut(&timeline) else { return };
        let here = home.here();
        if home.is_due || here == home.told {
            return;
        }
        // At most a thousand notices a second are sent to sessions of one room.
        let pause_ms = self.settings.limits.chat.chatroom_pause_ms.max(here);
        let at = home.told_at + Duration::from_millis(pause_ms.into());
        home.is_due = true;
        self.chatrooms.homes.due.insert((at.max(now.mono), timeline));
    }

    /// Takes a shard's report of its sessions in a room.
    pub(crate) fn chatroom_here(
        &mut self,
        now: Now,
        from: ShardId,
        (room, here): (&AccountAddress, u32),
        (heard, outs): (u64, u64),
        fx: &mut Effects,
    ) {
        let (timeline, _) = self.chatroom_at(room);
        let Some(home) = self.chatrooms.homes.known.get_mut(&timeline) else {
            if here > 0 {
                let number = u64::MAX;
                let out = Leaving { number, account: None, why: ChatroomOut::Closed };
                let word = ChatroomWord::Outs { timeline, outs: [out].into() };
                self.tell_chatroom(now, from, word, fx);
            }
            return;
        };
        if here == 0 {
            home.shards.remove(&from);
            return self.count_is_due(now, timeline);
        }
        let new = || Present { here: 0, at: now.mono, outs: Vec::new() };
        let present = home.shards.entry(from).or_insert_with(new);
        (present.here, present.at) = (here, now.mono);
        present.outs.retain(|out| out.number > outs);
        let left: Arc<[Leaving]> = present.outs.clone().into();
        let is_behind = heard < home.ring.told();
        if !left.is_empty() {
            self.tell_chatroom(now, from, ChatroomWord::Outs { timeline, outs: left }, fx);
        }
        if is_behind {
            self.news_of_chatroom(now, timeline, &[from], fx);
        }
        self.count_is_due(now, timeline);
    }

    /// Has accounts leave a chatroom; false: too many that are to leave are not confirmed yet.
    pub(super) fn out_of_chatroom(
        &mut self,
        now: Now,
        timeline: TimelineId,
        (accounts, why): (&[Option<AccountAddress>], ChatroomOut),
        fx: &mut Effects,
    ) -> bool {
        let Some(home) = self.chatrooms.homes.known.get_mut(&timeline) else { return true };
        let is_full = |it: &Present| it.outs.len() + accounts.len() > OUTS_MAX;
        if home.shards.values().any(is_full) {
            return false;
        }
        for account in accounts {
            home.outs_last += 1;
            let out = Leaving { number: home.outs_last, account: account.clone(), why };
            home.shards.values_mut().for_each(|it| it.outs.push(out.clone()));
        }
        let all = home.shards.iter().map(|(shard, it)| (*shard, it.outs.clone().into()));
        let all: Vec<(ShardId, Arc<[Leaving]>)> = all.collect();
        for (shard, outs) in all {
            self.tell_chatroom(now, shard, ChatroomWord::Outs { timeline, outs }, fx);
        }
        true
    }

    /// Sends the present state of a chatroom to shards.
    pub(super) fn news_of_chatroom(
        &mut self,
        now: Now,
        timeline: TimelineId,
        to: &[ShardId],
        fx: &mut Effects,
    ) {
        let Some(home) = self.chatrooms.homes.known.get(&timeline) else { return };
        let what = ChatroomWhat::State(home.state());
        let news = Arc::new(ChatroomNews { room: home.room.clone(), timeline, what });
        for &shard in to {
            self.tell_chatroom(now, shard, ChatroomWord::News(news.clone()), fx);
        }
    }

    /// Sends the messages and reports that are due; returns when to continue.
    pub(super) fn turn_homes(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        for timeline in std::mem::take(&mut self.chatrooms.homes.loud) {
            self.flush_chatroom(now, timeline, fx);
        }
        while let Some(&(at, timeline)) = self.chatrooms.homes.due.first() {
            if at > now.mono {
                return Some(at);
            }
            self.chatrooms.homes.due.pop_first();
            let pause_ms = self.settings.limits.chat.chatroom_pause_ms;
            let silent_ms = u64::from(super::seats::HERE_PAUSES * SILENT_MAX * pause_ms);
            let Some(home) = self.chatrooms.homes.known.get_mut(&timeline) else { continue };
            // A shard that has not reported for long has no session there: its last report was
            // lost.
            let since = |it: &Present| it.at + Duration::from_millis(silent_ms);
            home.shards.retain(|_, it| since(it) > now.mono);
            (home.is_due, home.told, home.told_at) = (false, home.here(), now.mono);
            let shards = home.shards();
            self.flush_chatroom(now, timeline, fx);
            self.news_of_chatroom(now, timeline, &shards, fx);
        }
        None
    }

    /// Panics when an invariant of chatrooms does not hold.
    pub(crate) fn audit_chatrooms(&self) {
        for home in self.chatrooms.homes.known.values() {
            assert!(home.shards.values().all(|it| it.outs.len() <= OUTS_MAX));
            assert!(home.line.is_empty() || home.step != Step::Ready, "it is worked off");
            assert!(home.ring.is_told() || !self.chatrooms.homes.loud.is_empty());
        }
        self.audit_seats();
    }

    /// Gives up a room that could not be made, changed or read: its waiting tasks fail.
    pub(super) fn give_chatroom_up(
        &mut self,
        timeline: TimelineId,
        fault: ChatFault,
        fx: &mut Effects,
    ) {
        let Some(home) = self.chatrooms.homes.known.get_mut(&timeline) else { return };
        let line = std::mem::take(&mut home.line);
        line.into_iter().for_each(|task| self.refuse_chatroom(task, fault, fx));
    }
}

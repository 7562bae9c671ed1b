//! Chatrooms at their home: what they are, on which shards somebody is there, and who may what.
//!
//! ```text
//!                                     ┌ unread: its last messages are being read, once
//!  Join, Say, Order ─► line ─► ready ─┤
//!                                     └ changing: a change is with the log
//! ```
//! All rooms of a shard are in memory, with their rows; there are so many and no more. While a
//! change is with the log, whatever else is for the room waits in line. Invariant: a shard that was
//! told of somebody's joining is told of everything from there on, until it says that nobody is
//! there; or it hears that it was not.

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

/// What may wait for one chatroom. One more is answered as busy.
const LINE_MAX: usize = 4_096;

/// Accounts that are to leave a room and of which some shard has not heard. With one more the
/// order is answered as busy.
const OUTS_MAX: usize = 1_024;

/// Words that a shard says of a room in vain before nobody is thought to be there.
const SILENT_MAX: u32 = 4;

/// What somebody wants of a chatroom that is at home here.
pub(crate) enum Task {
    Join(ReplyTo, Box<JoinAsked>),
    Say(ReplyTo, Box<Saying>),
    Order(ReplyTo, Box<ChatroomAsked>),
}

/// Chatrooms at home here.
#[derive(Default)]
pub(crate) struct Homes {
    pub(super) known: HashMap<TimelineId, Chatroom>,
    /// Those in which something was said that their shards have not heard.
    pub(super) loud: Vec<TimelineId>,
    /// Those whose number of members is to be told, and when.
    due: BTreeSet<(Instant, TimelineId)>,
}

impl Homes {
    /// When something is to be told of one of them.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }
}

/// One of them.
pub(crate) struct Chatroom {
    pub(super) room: AccountAddress,
    /// None: it is being made, or was closed a moment ago.
    pub(super) row: Option<Arc<ChatroomRow>>,
    pub(super) step: Step,
    line: VecDeque<Task>,
    pub(super) ring: Ring,
    pub(super) shards: BTreeMap<ShardId, Present>,
    outs_last: u64,
    /// How many were there as members were told.
    told: u32,
    told_at: Instant,
    is_due: bool,
}

/// What stands still.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Its last messages are in the log.
    Unread,
    Reading,
    Ready,
    /// A change is with the log.
    Changing,
}

/// Sessions of one shard that are in a room.
pub(super) struct Present {
    pub(super) here: u32,
    at: Instant,
    /// Who is to leave and of whom the shard has not said that it heard.
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
    /// Whether its last messages are in the log.
    pub(crate) fn is_kept(&self) -> bool {
        self.durable && self.keeps > 0
    }
}

impl Chat {
    /// The log had this row when the shard started.
    pub(crate) fn restore_chatroom(&mut self, key: &[u8], value: &[u8]) -> bool {
        let Some((room, row)) = row::read(key, value) else { return false };
        let (timeline, _) = self.chatroom_at(&room);
        let made = Chatroom::new(room, Some(Arc::new(row)));
        self.chatrooms.homes.known.insert(timeline, made);
        true
    }

    /// Something is for a chatroom of this shard.
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

    /// Does what waits for a chatroom, until one of it changes the room.
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

    /// Somebody wants to be in a chatroom of this shard.
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
        // What was said before it joins is in its history, and nowhere else.
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

    /// How many are there has changed: members are told, but not too often.
    fn count_is_due(&mut self, now: Now, timeline: TimelineId) {
        let Some(home) = self.chatrooms.homes.known.get_mut(&timeline) else { return };
        let here = home.here();
        if home.is_due || here == home.told {
            return;
        }
        // A thousand of them in a second, at most.
        let pause_ms = self.settings.limits.chat.chatroom_pause_ms.max(here);
        let at = home.told_at + Duration::from_millis(pause_ms.into());
        home.is_due = true;
        self.chatrooms.homes.due.insert((at.max(now.mono), timeline));
    }

    /// A shard says who is there.
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

    /// Accounts are to leave a chatroom; false: too many are on their way already.
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

    /// Tells shards how a chatroom is now.
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

    /// Tells what is due; when to come back.
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
            // Who says nothing for long is not there: its last word was lost.
            let since = |it: &Present| it.at + Duration::from_millis(silent_ms);
            home.shards.retain(|_, it| since(it) > now.mono);
            (home.is_due, home.told, home.told_at) = (false, home.here(), now.mono);
            let shards = home.shards();
            self.flush_chatroom(now, timeline, fx);
            self.news_of_chatroom(now, timeline, &shards, fx);
        }
        None
    }

    /// How many sessions are in chatrooms of this shard, as far as it knows.
    pub(crate) fn audit_chatrooms(&self) {
        for home in self.chatrooms.homes.known.values() {
            assert!(home.shards.values().all(|it| it.outs.len() <= OUTS_MAX));
            assert!(home.line.is_empty() || home.step != Step::Ready, "it is worked off");
            assert!(home.ring.is_told() || !self.chatrooms.homes.loud.is_empty());
        }
        self.audit_seats();
    }

    /// A room that could not be made, changed or read: who waits for it is told why.
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

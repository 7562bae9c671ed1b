//! Groups: conversations with members, at their homes.
//!
//! ```text
//!                                 ┌ its state is read: the group's timeline, once
//! Say, Change, Read, List ─► line ┤
//!                                 └ may it? ─► one append: conversation, outbox, and, of a change,
//!                                       the group's timeline ─► applied ─► answered, distributed
//! ```
//! A group's state is the sum of its changes, and those are messages: one append stores a change
//! and the message that announces it. While the log stores a change, all other tasks for the group
//! wait in line; so every message behind a change in the conversation was judged by it. Invariant:
//! a message goes to the accounts that were members at its place in the conversation, whichever
//! process dies in between.

pub(crate) mod adding;
pub(crate) mod asides;
pub(crate) mod catalog;
pub(crate) mod changes;
pub(crate) mod chatrooms;
pub(crate) mod fan_out;
pub(crate) mod follows;
pub(crate) mod looks;
pub(crate) mod members;
pub(crate) mod nicks;
pub(crate) mod occupants;
pub(crate) mod orders;
pub(crate) mod public;
pub(crate) mod relays;
mod roles;
pub(crate) mod rooms;
pub(crate) mod state;
pub(crate) mod temporary;

use crate::accounts::fault_of;
use crate::amendments::AmendOrder;
use crate::envelope;
use crate::label::Route;
use crate::log::{Answered, PendingCall};
use crate::outbox::receivers::Receivers;
use crate::service::flow::{Door, Reply};
use crate::sessions::transients::TransientSaid;
use crate::word::Range;
use crate::{Chat, Effects};
use asides::{VoiceAsked, VoicePace};
use base::flows::WaitKey;
use base::hash::HashKey;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{ChatFault, GroupChange};
use model::counters::ChatCounter;
use model::id::ShardId;
use model::ports::log::{Call, Done, PAGE_MESSAGES_MAX, Pull, Read};
use model::timeline::{Seq, Space, TimelineId};
use rooms::SeatSaid;
use state::{Abroad, GroupState};
use std::collections::{HashMap, VecDeque};

/// Maximum of tasks that wait for one group. A further one is answered as busy.
const LINE_MAX: usize = 4_096;

/// Maximum bytes of changes that are read at once.
const RECALL_BYTES_MAX: usize = 256 * 1024;

/// A task for a group that is at home here.
pub(crate) enum GroupTask {
    /// A flow looks at the group, or sends a message there.
    Flow(WaitKey),
    Read {
        from: ShardId,
        number: u64,
        ranges: Box<[Range]>,
        reader: TimelineId,
    },
    /// By which message has this account, which reads the group by a call with this number, left
    /// it?
    Left {
        key: u64,
        holder: TimelineId,
    },
    Transient(TransientSaid),
    /// A device is in the room otherwise.
    Seat(Box<SeatSaid>),
    Voice(VoiceAsked),
}

/// A group in memory.
#[derive(Default)]
struct Group {
    state: GroupState,
    /// The step that keeps tasks waiting.
    step: Step,
    line: VecDeque<GroupTask>,
    voices: VoicePace,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Step {
    /// The group's changes are being read.
    #[default]
    Unread,
    Ready,
    /// A flow looks at the group.
    Entered,
    /// The log is storing a change, or a message that is being imported.
    Changing,
}

/// The groups at home here that are in memory, by their conversations.
#[derive(Default)]
pub(crate) struct Groups {
    known: HashMap<TimelineId, Group>,
    /// The members of all of them, and a few for each group itself.
    members: usize,
}

/// Memory of a group itself, counted in members.
const BESIDE_MEMBERS: usize = 4;

/// The conversation of a group.
pub(crate) fn conversation_of(home: HashKey, group: &AccountAddress) -> TimelineId {
    let own = home.of(&[b"group", group.as_str().as_bytes()]);
    TimelineId::at_home(Space::Conversation, group.home_hash(home), own)
}

/// The timeline of the changes of the group with this conversation.
pub(crate) fn changes_of(home: HashKey, conversation: TimelineId) -> TimelineId {
    let own = home.of(&[b"changes", &conversation.to_bytes()]);
    TimelineId::at_home(Space::Group, conversation.home_hash(), own)
}

impl Groups {
    /// The state of a group of this shard that a flow has entered.
    pub(crate) fn state(&mut self, conversation: TimelineId) -> Result<&mut GroupState, ChatFault> {
        let known = self.known.get_mut(&conversation);
        known.map(|it| &mut it.state).ok_or(ChatFault::StoreFailed)
    }

    /// Panics when an invariant does not hold.
    pub(crate) fn audit(&self) {
        let count = |it: &Group| it.state.known() + BESIDE_MEMBERS;
        let members: usize = self.known.values().map(count).sum();
        assert_eq!(members, self.members, "each member that is known is counted");
    }

    /// The members on other servers of a group of this shard.
    pub(crate) fn foreign(&mut self, conversation: TimelineId) -> Option<Abroad> {
        Some(self.known.get_mut(&conversation)?.state.foreign())
    }
}

impl Chat {
    /// Takes a task for a group of this shard.
    pub(crate) fn for_group(
        &mut self,
        now: Now,
        conversation: TimelineId,
        task: GroupTask,
        fx: &mut Effects,
    ) {
        let is_new = !self.groups.known.contains_key(&conversation);
        let is_full =
            self.groups.known.get(&conversation).is_some_and(|it| it.line.len() >= LINE_MAX);
        if is_full || (is_new && !self.log.may_ask()) {
            return self.refuse_task((now, conversation), task, ChatFault::Busy, fx);
        }
        if is_new {
            self.forget_idle_groups();
        }
        let group = self.groups.known.entry(conversation).or_default();
        group.line.push_back(task);
        if is_new {
            self.groups.members += BESIDE_MEMBERS;
            return self.recall_group(conversation, 0, fx);
        }
        self.advance_group(now, conversation, fx);
    }

    /// With too many members in memory, forgets the groups for which no task waits.
    fn forget_idle_groups(&mut self) {
        let most = self.settings.limits.chat.group_members_known_max as usize;
        if self.groups.members < most {
            return;
        }
        self.groups.known.retain(|_, it| it.step != Step::Ready || !it.line.is_empty());
        let count = |it: &Group| it.state.known() + BESIDE_MEMBERS;
        self.groups.members = self.groups.known.values().map(count).sum();
    }

    /// Reads the changes of a group behind a place.
    fn recall_group(&mut self, conversation: TimelineId, from: Seq, fx: &mut Effects) {
        let pull = recall(self.settings.home, conversation, from);
        self.log.ask(PendingCall::Group(conversation), Call::Read(Read::Pull(pull)), fx);
    }

    /// Takes a page of the changes of a group.
    pub(crate) fn group_read(
        &mut self,
        now: Now,
        conversation: TimelineId,
        result: Answered,
        fx: &mut Effects,
    ) {
        let home = self.settings.home;
        let Some(group) = self.groups.known.get_mut(&conversation) else { return };
        let page = match result {
            Ok(Done::Page(page)) if page.damaged.is_empty() => Ok(page),
            Ok(_) => Err(ChatFault::StoreFailed),
            Err(error) => Err(fault_of(error)),
        };
        let before = group.state.known();
        let mut address = None;
        let told = page.and_then(|page| {
            let last = page.messages.last().map(|placed| placed.seq);
            let is_whole = page.messages.iter().all(|placed| {
                let body = &placed.message.body;
                let read = envelope::decode(placed.message.id, placed.seq, body);
                read.is_some_and(|message| {
                    address = Some(message.to.clone());
                    group.state.recall(home, &message)
                })
            });
            if is_whole { Ok(last.filter(|_| page.more)) } else { Err(ChatFault::StoreFailed) }
        });
        if matches!(told, Ok(None)) {
            group.state.lets_guests_go();
        }
        let (after, last_id) = (group.state.known(), group.state.highest_id());
        self.groups.members = self.groups.members + after - before;
        match told {
            Ok(Some(from)) => self.recall_group(conversation, from, fx),
            Ok(None) => {
                group.step = Step::Ready;
                // Numbers rise in a conversation, whatever the clock did in between.
                self.last_id = self.last_id.max(last_id);
                self.is_public_as_known(conversation, address.as_ref(), fx);
                self.is_temporary_as_known(now, conversation, address.as_ref(), fx);
                if let Some(address) = address.filter(|_| after > 0) {
                    self.is_looked_up(address);
                }
                self.advance_group(now, conversation, fx);
            }
            Err(fault) => self.give_group_up(now, conversation, fault, fx),
        }
    }

    /// Gives up a group whose state cannot be read now: its waiting tasks fail.
    fn give_group_up(
        &mut self,
        now: Now,
        conversation: TimelineId,
        fault: ChatFault,
        fx: &mut Effects,
    ) {
        let Some(group) = self.groups.known.remove(&conversation) else { return };
        self.groups.members -= group.state.known() + BESIDE_MEMBERS;
        for task in group.line {
            self.refuse_task((now, conversation), task, fault, fx);
        }
    }

    fn refuse_task(
        &mut self,
        (now, conversation): (Now, TimelineId),
        task: GroupTask,
        fault: ChatFault,
        fx: &mut Effects,
    ) {
        match task {
            GroupTask::Flow(key) => {
                self.flows.reply(key, Reply::Entered(Err(fault)));
            }
            GroupTask::Read { from, number, .. } => {
                self.tell_fetched(now, (from, number), Err(fault), fx);
            }
            GroupTask::Left { key, .. } => self.left_told(now, (key, conversation), Err(fault), fx),
            GroupTask::Transient(said) => self.transient_to_members(now, &said, Err(fault), fx),
            GroupTask::Seat(_) | GroupTask::Voice(_) => {
                fx.counters.count(ChatCounter::TransientsDropped);
            }
        }
    }

    /// Carries out the tasks that wait for a group, until one of them changes it.
    fn advance_group(&mut self, now: Now, conversation: TimelineId, fx: &mut Effects) {
        while let Some(group) = self.groups.known.get_mut(&conversation)
            && group.step == Step::Ready
            && let Some(task) = group.line.pop_front()
        {
            match task {
                GroupTask::Flow(key) => {
                    group.step = Step::Entered;
                    self.flows.reply(key, Reply::Entered(Ok(())));
                }
                GroupTask::Read { from, number, ranges, reader } => {
                    let is_visitor = group.state.member(reader).is_err();
                    match self.reads_since(conversation, reader) {
                        Ok(since) => {
                            let of = (since, None, is_visitor);
                            self.fetch_since(now, (from, number), ranges, of, fx);
                        }
                        Err(fault) => self.tell_fetched(now, (from, number), Err(fault), fx),
                    }
                }
                GroupTask::Left { key, holder } => {
                    let left = group.state.left_by(holder);
                    self.left_told(now, (key, conversation), Ok(left), fx);
                }
                GroupTask::Transient(said) => {
                    let inboxes = group.state.inboxes();
                    let members = self.may_speak(conversation, said.by).map(|()| inboxes);
                    self.transient_to_members(now, &said, members, fx);
                }
                GroupTask::Seat(said) => self.seat_in_group(conversation, *said, fx),
                GroupTask::Voice(asked) => self.voice_in_group(now, conversation, asked, fx),
            }
        }
    }

    /// The receivers of a message that an account sends in a group of this shard, if it may.
    pub(crate) fn may_say_in_group(
        &mut self,
        now: Now,
        route: &Route,
        is_operator: bool,
    ) -> Result<Receivers, ChatFault> {
        let conversation = route.conversation;
        let group = self.groups.known.get_mut(&conversation).ok_or(ChatFault::StoreFailed)?;
        if is_operator {
            group.state.is_there()?;
        } else {
            // An account that may not speak there takes nothing from the group's rate.
            self.may_speak(conversation, route.from)?;
            let taken = self.group_rates.take(now, conversation, 1);
            taken.map_err(|_| ChatFault::RateLimited)?;
        }
        let group = self.groups.known.get_mut(&conversation).ok_or(ChatFault::StoreFailed)?;
        let settings = &self.settings;
        Ok(group.state.receivers(|inbox| settings.shard_at(inbox)))
    }

    /// Whether an account may amend a message of a group of this shard. The amendment is taken from
    /// the group's rate before the message is read.
    pub(crate) fn may_amend_in_group(
        &mut self,
        now: Now,
        order: &AmendOrder,
    ) -> Result<(), ChatFault> {
        let conversation = order.route.conversation;
        let group = self.groups.known.get(&conversation).ok_or(ChatFault::StoreFailed)?;
        match order.is_operator {
            true => group.state.may_amend_as_operator()?,
            false => {
                self.may_speak(conversation, order.route.from)?;
                let since = self.reads_since(conversation, order.route.from)?;
                if order.target_id().is_some_and(|id| id < since) {
                    return Err(ChatFault::UnknownMessage);
                }
            }
        }
        if !order.is_operator {
            let taken = self.group_rates.take(now, conversation, 1);
            taken.map_err(|_| ChatFault::RateLimited)?;
        }
        Ok(())
    }

    /// The receivers of an amendment, if its account may still speak in a group of this shard.
    pub(crate) fn may_still_amend_in_group(
        &mut self,
        route: &Route,
        is_operator: bool,
    ) -> Result<Receivers, ChatFault> {
        if !is_operator {
            self.may_speak(route.conversation, route.from)?;
        }
        let group = self.groups.known.get_mut(&route.conversation);
        let group = group.ok_or(ChatFault::StoreFailed)?;
        let settings = &self.settings;
        Ok(group.state.receivers(|inbox| settings.shard_at(inbox)))
    }

    /// Ends a flow's look at a group: the tasks behind it go on.
    pub(crate) fn group_left(&mut self, now: Now, conversation: TimelineId, fx: &mut Effects) {
        if let Some(group) = self.groups.known.get_mut(&conversation)
            && group.step == Step::Entered
        {
            group.step = Step::Ready;
            self.advance_group(now, conversation, fx);
        }
    }

    /// The address of the asker, if it may recall the message with this number, sent by this
    /// account in a group of this shard.
    pub(crate) fn moderator(
        &self,
        route: &Route,
        said: (TimelineId, u64),
    ) -> Option<AccountAddress> {
        let group = self.groups.known.get(&route.conversation).filter(|_| route.is_to_group());
        group?.state.moderator(route.from, said)
    }

    /// The number of the last message by which a member has left the group of this shard to which
    /// the route goes; a change that the log is storing may be a later one. 0: no member has left,
    /// or the route goes to no group.
    pub(crate) fn last_left(&self, route: &Route) -> u64 {
        if !route.is_to_group() {
            return 0;
        }
        let group = self.groups.known.get(&route.conversation);
        let group = group.filter(|it| it.step != Step::Changing);
        group.map_or(u64::MAX, |it| it.state.last_left())
    }

    /// Whether changes of a group are announced to no member: subscriptions to a channel.
    pub(crate) fn is_quiet(&self, conversation: TimelineId, changes: &[GroupChange]) -> bool {
        self.groups.known.get(&conversation).is_some_and(|group| group.state.is_quiet(changes))
    }

    /// Keeps a group, which a flow has entered, for a message that is being imported: until it is
    /// stored no other task is admitted, so that numbers rise.
    pub(crate) fn hold_group(&mut self, conversation: TimelineId) -> Result<(), ChatFault> {
        let group = self.groups.known.get_mut(&conversation).ok_or(ChatFault::StoreFailed)?;
        group.state.is_there()?;
        group.step = Step::Changing;
        Ok(())
    }

    /// Lets the flow that has entered a group go on there, after what kept others out is over.
    pub(crate) fn group_entered_again(
        &mut self,
        now: Now,
        conversation: TimelineId,
        fx: &mut Effects,
    ) {
        if let Some(group) = self.groups.known.get_mut(&conversation) {
            group.step = Step::Entered;
        }
        self.is_public_as_known(conversation, None, fx);
        self.is_temporary_as_known(now, conversation, None, fx);
        self.doors.push(Door::Group(conversation));
    }
}

/// The read of a group's changes behind a place.
pub(crate) fn recall(home: HashKey, conversation: TimelineId, from: Seq) -> Pull {
    let timeline = changes_of(home, conversation);
    let (count_max, bytes_max) = (PAGE_MESSAGES_MAX, RECALL_BYTES_MAX);
    Pull { timeline, from, backwards: false, count_max, bytes_max }
}

impl Route {
    /// Whether the route is that of a message to a group.
    pub(crate) fn is_to_group(&self) -> bool {
        self.to.is_none() && self.read.is_none()
    }
}

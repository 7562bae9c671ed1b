//! All groups: a row each at their homes, and a list of them for operators.
//!
//! ```text
//! Groups ─► rows behind a key ─► each one's state, and its last message ─► a page
//! ```
//! The row stands before the group does, and goes when it is dissolved; one that was made by a
//! build before rows has its row when somebody speaks to it. Invariant: a group that is there, and
//! was spoken to since, is in the list; what is no group is not.

use super::GroupTask;
use super::state::GroupState;
use crate::envelope::time_of;
use crate::groups::conversation_of;
use crate::log::{Answered, PendingCall};
use crate::service::flow::Flow;
use crate::waits::Waits;
use crate::{Chat, Effects};
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::GroupRole as Role;
use model::ports::chat::{ChatAnswer, GroupSummary, GroupsPage};
use model::ports::log::{Call, Done, Pull, Read, Row, RowHome, Table, Write};
use model::timeline::{Seq, TimelineId};

/// Lists that may be under way, a shard. One more is answered as busy.
const LISTS_MAX: usize = 16;

/// A list that is being made.
pub(crate) struct Cataloguing {
    ask: u64,
    conversations: Vec<TimelineId>,
    found: Vec<Option<GroupSummary>>,
    /// The place of the last message of each, and when it was said.
    last: Vec<(Seq, u64)>,
    /// What is not known yet: of each group its state, and its last message.
    left: usize,
    next: Option<Box<[u8]>>,
}

pub(crate) type Catalogue = Waits<Cataloguing>;

/// The key of the row of the group with this conversation.
fn key_of(conversation: TimelineId) -> Box<[u8]> {
    RowHome::key_of(conversation, &[])
}

/// Looks for the row of a group, which has one from then on.
async fn list_if_missing(mut flow: Flow, group: AccountAddress) {
    let home = flow.state().0.settings.home;
    let (table, key) = (Table::ChatGroups, key_of(conversation_of(home, &group)));
    if let Ok(Done::Row(None)) = flow.log(Call::Read(Read::Row { table, key })).await {
        let (chat, _, fx) = flow.state();
        chat.is_listed(&group, fx);
    }
}

impl Chat {
    /// A group is about to be made: it is in the list from then on.
    pub(super) fn is_listed(&mut self, group: &AccountAddress, fx: &mut Effects) {
        let key = key_of(conversation_of(self.settings.home, group));
        let (table, value) = (Table::ChatGroups, group.as_str().as_bytes().into());
        self.log.write(Write::Put { table, key, value }, fx);
    }

    /// A group was read into memory: one of before rows is in the list from now on.
    pub(super) fn is_looked_up(&mut self, group: AccountAddress) {
        // With too many flows it is when it is read again.
        self.begin(|flow| list_if_missing(flow, group));
    }

    /// It is gone.
    pub(super) fn is_listed_no_more(&mut self, conversation: TimelineId, fx: &mut Effects) {
        let (table, key) = (Table::ChatGroups, key_of(conversation));
        self.log.write(Write::Delete { table, key }, fx);
    }

    /// An operator wants to see groups of this shard.
    pub(crate) fn list_groups(
        &mut self,
        ask: u64,
        (after, count): (Box<[u8]>, u16),
        fx: &mut Effects,
    ) {
        if self.catalogue.len() >= LISTS_MAX || !self.log.may_ask() {
            return fx.answers.push((ask, ChatAnswer::Busy));
        }
        let list = Cataloguing {
            ask,
            conversations: Vec::new(),
            found: Vec::new(),
            last: Vec::new(),
            left: 0,
            next: None,
        };
        let number = self.catalogue.put(list);
        let read = Read::Rows {
            table: Table::ChatGroups,
            prefix: [].into(),
            after: Some(after).filter(|after| !after.is_empty()),
            count: count.into(),
        };
        let rows = PendingCall::GroupRows(Box::new((number, count)));
        self.log.ask(rows, Call::Read(read), fx);
    }

    /// Rows of groups were read.
    pub(crate) fn group_rows_read(
        &mut self,
        now: Now,
        (number, count): (u64, u16),
        result: Answered,
        fx: &mut Effects,
    ) {
        let rows = match result {
            Ok(Done::Rows(rows)) => rows,
            _ => return self.end_catalogue(number, Some(ChatAnswer::StoreFailed), fx),
        };
        let home = self.settings.home;
        let named =
            |(_, value): &Row| AccountAddress::parse(std::str::from_utf8(value).ok()?, "").ok();
        let groups: Vec<AccountAddress> = rows.iter().filter_map(named).collect();
        let conversations: Vec<_> = groups.iter().map(|it| conversation_of(home, it)).collect();
        let Some(list) = self.catalogue.at_mut(number) else { return };
        list.next =
            rows.last().filter(|_| rows.len() == usize::from(count)).map(|(key, _)| key.clone());
        list.conversations = conversations.clone();
        list.found = vec![None; groups.len()];
        list.last = vec![(0, 0); groups.len()];
        list.left = 2 * groups.len();
        if groups.is_empty() {
            return self.end_catalogue(number, None, fx);
        }
        for (at, (group, conversation)) in groups.into_iter().zip(conversations).enumerate() {
            let (from, backwards, count_max, bytes_max) = (Seq::MAX, true, 1, 1);
            let pull = Pull { timeline: conversation, from, backwards, count_max, bytes_max };
            let last = PendingCall::GroupLast(Box::new((number, at)));
            let task = GroupTask::Summary(Box::new((number, at, group)));
            self.for_group(now, conversation, task, fx);
            self.log.ask(last, Call::Read(Read::Pull(pull)), fx);
        }
    }

    /// What a group is, or that nothing is known of it; `None`: it cannot be read now.
    pub(super) fn summarised(
        &mut self,
        (number, at): (u64, usize),
        summary: Option<Option<GroupSummary>>,
        fx: &mut Effects,
    ) {
        let Some(list) = self.catalogue.at_mut(number) else { return };
        let Some(summary) = summary else {
            return self.end_catalogue(number, Some(ChatAnswer::Busy), fx);
        };
        let conversation = list.conversations[at];
        let is_gone = summary.is_none();
        list.found[at] = summary;
        if is_gone {
            self.is_listed_no_more(conversation, fx);
        }
        self.is_known(number, fx);
    }

    /// The last message of a group.
    pub(crate) fn group_last_read(
        &mut self,
        (number, at): (u64, usize),
        result: Answered,
        fx: &mut Effects,
    ) {
        let Some(list) = self.catalogue.at_mut(number) else { return };
        let Ok(Done::Page(page)) = result else {
            return self.end_catalogue(number, Some(ChatAnswer::StoreFailed), fx);
        };
        if let Some(last) = page.messages.first() {
            list.last[at] = (last.seq, time_of(last.message.id));
        }
        self.is_known(number, fx);
    }

    fn is_known(&mut self, number: u64, fx: &mut Effects) {
        let Some(list) = self.catalogue.at_mut(number) else { return };
        list.left -= 1;
        if list.left == 0 {
            self.end_catalogue(number, None, fx);
        }
    }

    fn end_catalogue(&mut self, number: u64, fault: Option<ChatAnswer>, fx: &mut Effects) {
        let Some(list) = self.catalogue.take(number) else { return };
        let Cataloguing { ask, found, last, next, .. } = list;
        let shards = self.settings.shards.max(1);
        let whole = |(it, (last_seq, last_ms)): (Option<GroupSummary>, _)| {
            it.map(|it| GroupSummary { last_seq, last_ms, ..it })
        };
        let groups = found.into_iter().zip(last).filter_map(whole).collect();
        let page = || ChatAnswer::Groups(Box::new(GroupsPage { groups, next, shards }));
        fx.answers.push((ask, fault.unwrap_or_else(page)));
    }

    /// Whoever waited for too long is told so; when to look again.
    pub(crate) fn turn_catalogue(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let (over, next) = self.catalogue.overdue(now, self.settings.limits.answer_ms_max);
        fx.answers.extend(over.into_iter().map(|it| (it.ask, ChatAnswer::Busy)));
        next
    }
}

impl GroupState {
    /// What is told of it in a list; `None`: it was never made, or is dissolved.
    pub(super) fn summary(&self, group: AccountAddress) -> Option<GroupSummary> {
        let owner = self.with_role(Role::Owner)?;
        Some(GroupSummary {
            group,
            title: self.title().into(),
            owner,
            members: self.len() as u32,
            closed: self.is_closed(),
            public: self.is_public(),
            temporary: self.is_temporary(),
            last_seq: 0,
            last_ms: 0,
        })
    }
}

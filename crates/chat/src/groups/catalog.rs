//! The catalog of groups: a row for each at its home, and a list of them for operators.
//!
//! ```text
//! Groups ─► rows behind a key ─► each one's state, and its last message ─► a page
//! ```
//! The row is written before the group is made, and deleted when it is dissolved; a group made by a
//! build without rows gets its row when it is next used. Invariant: a group that exists, and was
//! used since, is in the list; an address without a group is not.

use super::state::GroupState;
use crate::envelope::time_of;
use crate::groups::conversation_of;
use crate::operators::moving::last_of;
use crate::service::flow::Flow;
use crate::{Chat, Effects};
use model::account::AccountAddress;
use model::ports::chat::{ChatAnswer, GroupSummary, GroupsPage};
use model::ports::log::{Call, Done, Read, RowHome, Table, Write};
use model::timeline::TimelineId;

/// Maximum of lists under way, per shard. A further one is answered as busy.
const LISTS_MAX: usize = 16;

/// The key of the row of the group with this conversation.
fn key_of(conversation: TimelineId) -> Box<[u8]> {
    RowHome::key_of(conversation, &[])
}

/// Lists groups of this shard for an operator: so many, behind the row with a key.
async fn list(mut flow: Flow, ask: u64, after: Box<[u8]>, count: u16) {
    flow.state().0.catalogues += 1;
    let page = page_of(&mut flow, after, count).await;
    let (chat, _, fx) = flow.state();
    chat.catalogues -= 1;
    fx.answers.push((ask, page.map_or_else(|why| why, |it| ChatAnswer::Groups(Box::new(it)))));
}

async fn page_of(flow: &mut Flow, after: Box<[u8]>, count: u16) -> Result<GroupsPage, ChatAnswer> {
    let read = Read::Rows {
        table: Table::ChatGroups,
        prefix: [].into(),
        after: Some(after).filter(|after| !after.is_empty()),
        count: count.into(),
    };
    let Ok(Done::Rows(rows)) = flow.log(Call::Read(read)).await else {
        return Err(ChatAnswer::StoreFailed);
    };
    let next = rows.last().filter(|_| rows.len() == usize::from(count)).map(|(key, _)| key.clone());
    let mut groups = Vec::new();
    for (_, value) in &rows {
        let text = std::str::from_utf8(value).ok();
        if let Some(group) = text.and_then(|text| AccountAddress::parse(text, "").ok()) {
            groups.extend(summary_of(flow, group).await?);
        }
    }
    let shards = flow.state().0.settings.shards.max(1);
    Ok(GroupsPage { groups, next, shards })
}

/// The summary of a group, with its last message; none: the group does not exist.
async fn summary_of(
    flow: &mut Flow,
    group: AccountAddress,
) -> Result<Option<GroupSummary>, ChatAnswer> {
    let conversation = conversation_of(flow.state().0.settings.home, &group);
    flow.group(conversation, 0).await.map_err(|_| ChatAnswer::Busy)?;
    let (chat, _, fx) = flow.state();
    let known = chat.groups.known.get(&conversation);
    let Some(summary) = known.and_then(|it| it.state.summary(group)) else {
        chat.is_listed_no_more(conversation, fx);
        return Ok(None);
    };
    let last = last_of(flow, conversation).await.map_err(|_| ChatAnswer::StoreFailed)?;
    let (last_seq, last_ms) = last.map_or((0, 0), |(id, seq)| (seq, time_of(id)));
    Ok(Some(GroupSummary { last_seq, last_ms, ..summary }))
}

/// Reads the row of a group, and writes it if it is missing.
async fn list_if_missing(mut flow: Flow, group: AccountAddress) {
    let home = flow.state().0.settings.home;
    let (table, key) = (Table::ChatGroups, key_of(conversation_of(home, &group)));
    if let Ok(Done::Row(None)) = flow.log(Call::Read(Read::Row { table, key })).await {
        let (chat, _, fx) = flow.state();
        chat.is_listed(&group, fx);
    }
}

impl Chat {
    /// Adds a group that is about to be made to the list.
    pub(super) fn is_listed(&mut self, group: &AccountAddress, fx: &mut Effects) {
        let key = key_of(conversation_of(self.settings.home, group));
        let (table, value) = (Table::ChatGroups, group.as_str().as_bytes().into());
        self.log.write(Write::Put { table, key, value }, fx);
    }

    /// Adds a group that was read into memory to the list, if it has no row yet.
    pub(super) fn is_looked_up(&mut self, group: AccountAddress) {
        // With too many flows this is done when the group is read again.
        self.begin(|flow| list_if_missing(flow, group));
    }

    /// Removes a group from the list.
    pub(super) fn is_listed_no_more(&mut self, conversation: TimelineId, fx: &mut Effects) {
        let (table, key) = (Table::ChatGroups, key_of(conversation));
        self.log.write(Write::Delete { table, key }, fx);
    }

    /// Takes an operator's request for groups of this shard.
    pub(crate) fn list_groups(
        &mut self,
        ask: u64,
        (after, count): (Box<[u8]>, u16),
        fx: &mut Effects,
    ) {
        let is_full = self.catalogues >= LISTS_MAX || !self.log.may_ask();
        if is_full || !self.begin(|flow| list(flow, ask, after, count)) {
            fx.answers.push((ask, ChatAnswer::Busy));
        }
    }
}

impl GroupState {
    /// The summary of a group in a list; `None`: it was never made, or is dissolved.
    pub(super) fn summary(&self, group: AccountAddress) -> Option<GroupSummary> {
        let (_, owner) = self.owner()?;
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

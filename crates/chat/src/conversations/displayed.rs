//! Displayed messages: read positions for an account's clients of XMPP (XEP-0490), whichever device
//! has read, and by whichever protocol. A node of the account has an item for each conversation.
//!
//! ```text
//! the cursor moved ─► the node's item ─► the message at that place ─► is it another? ─► published
//!                       │ no such node: no client of the account asks for positions
//! ```
//! The questions are errands, about one place of a conversation at a time; if the cursor moves on
//! meanwhile, the last place counts. A client that has published an item itself moves the cursor by
//! it, and its item stays. Invariant: an account without such a node costs one question for the
//! names of its nodes.

use super::chores::{OPEN_MAX, Whose};
use crate::Chat;
use crate::service::flow::Flow;
use model::chat::{
    ArchiveId, ChatDelivery, DISPLAYED_NODE, HistoryRange, ItemsChosen, ItemsWanted, NodeChange,
    NodeSpace, NodesAsk, NodesFound, displayed_item, displays,
};
use model::ports::chat::ErrandWhat;
use model::timeline::Seq;
use std::collections::HashMap;

/// A conversation whose item is being updated.
pub(crate) struct Displaying {
    upto: Seq,
    /// The account has read further since the update began.
    is_behind: bool,
}

/// Conversations whose items are being updated, each by a flow.
pub(crate) type Displays = HashMap<Whose, Displaying>;

impl Chat {
    /// Updates the item of a conversation that an account has read up to a place.
    pub(crate) fn is_displayed(&mut self, whose: Whose, upto: Seq) {
        if let Some(it) = self.displays.get_mut(&whose) {
            (it.upto, it.is_behind) = (it.upto.max(upto), true);
            return;
        }
        if self.erasures.has(whose.inbox) || self.displays.len() >= OPEN_MAX {
            return;
        }
        let of = whose.clone();
        if self.begin(|flow| display(flow, of)) {
            self.displays.insert(whose, Displaying { upto, is_behind: false });
        }
    }
}

/// Updates the item of a conversation, again while the account reads further.
async fn display(mut flow: Flow, whose: Whose) {
    loop {
        let is_current = publish(&mut flow, &whose).await.is_some();
        let (chat, _, _) = flow.state();
        let goes_on = is_current && !chat.erasures.has(whose.inbox);
        match chat.displays.get_mut(&whose) {
            Some(it) if it.is_behind && goes_on => it.is_behind = false,
            _ => {
                chat.displays.remove(&whose);
                return;
            }
        }
    }
}

/// Publishes how far the account has read, unless the item says so. `None`: no client of the
/// account asks for positions, or the message cannot be read.
async fn publish(flow: &mut Flow, whose: &Whose) -> Option<()> {
    let nodes = |ask| ErrandWhat::Nodes(Box::new(ask));
    let which = ItemsChosen::Ids([whose.with.jid().into()].into());
    let (space, node) = (NodeSpace::Published, DISPLAYED_NODE.into());
    let ask = NodesAsk::Items([ItemsWanted { space, node, which }].into());
    let told = flow.errand(&whose.asker(), nodes(ask)).await;
    let ChatDelivery::Nodes(answer) = told else { return None };
    let Ok(NodesFound::Items(parts)) = answer.result else { return None };
    let item = parts.into_vec().into_iter().next()?.ok()?.items.into_iter().next();

    let upto = flow.state().0.displays.get(whose)?.upto;
    let (with, from, backwards, count) = (whose.with.clone(), upto.saturating_add(1), true, 1);
    let range = HistoryRange { with: with.into(), from, backwards, count };
    let told = flow.errand(&whose.asker(), ErrandWhat::History(Box::new(range))).await;
    let ChatDelivery::History(page) = told else { return None };
    let id = ArchiveId::of(page.messages.first()?);
    if item.is_none_or(|item| !displays(&item, id)) {
        let publish = vec![displayed_item(&whose.by, &whose.with, id)];
        let of = NodeChange::of(NodeSpace::Published, DISPLAYED_NODE);
        let ask = NodesAsk::Change(vec![NodeChange { publish, ..of }]);
        flow.errand(&whose.asker(), nodes(ask)).await;
    }
    Some(())
}

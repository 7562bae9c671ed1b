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

use super::chores::{Chores, Whose};
use crate::operators::errands::Owed;
use crate::{Chat, Effects};
use base::time::{Instant, Now};
use model::chat::{
    ArchiveId, ChatDelivery, DISPLAYED_NODE, HistoryRange, ItemsChosen, ItemsWanted, NodeChange,
    NodeItem, NodeSpace, NodesAsk, NodesFound, displayed_item, displays,
};
use model::ports::chat::ErrandWhat;
use model::timeline::Seq;
use std::sync::Arc;

/// A conversation whose item is being updated.
pub(crate) struct Displaying {
    upto: Seq,
    /// The item of the conversation in the node.
    item: Option<Arc<NodeItem>>,
    is_published: bool,
    /// The account has read further since the update began.
    is_behind: bool,
}

/// Conversations whose items are being updated.
pub(crate) type Displays = Chores<Displaying>;

impl Chat {
    /// Updates the item of a conversation that an account has read up to a place.
    pub(crate) fn is_displayed(&mut self, now: Now, whose: Whose, upto: Seq, fx: &mut Effects) {
        if let Some(it) = self.displays.of(&whose) {
            (it.upto, it.is_behind) = (it.upto.max(upto), true);
            return;
        }
        if self.erasures.has(whose.inbox) {
            return;
        }
        let it = Displaying { upto, item: None, is_published: false, is_behind: false };
        let Some(number) = self.displays.begins(whose.clone(), it) else { return };
        let which = ItemsChosen::Ids([whose.with.jid().into()].into());
        let (space, node) = (NodeSpace::Published, DISPLAYED_NODE.into());
        let ask = NodesAsk::Items([ItemsWanted { space, node, which }].into());
        let errand = (Owed::Displays(number), &whose);
        self.chore_asks(now, errand, ErrandWhat::Nodes(Box::new(ask)), fx);
    }

    /// Continues the updates that got an answer; returns when to continue.
    pub(crate) fn turn_displays(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        for (number, told) in self.displays.take_heard() {
            if !self.display_goes_on(now, number, told, fx)
                && let Some((whose, it)) = self.displays.ends(number)
                && it.is_published
                && it.is_behind
            {
                self.is_displayed(now, whose, it.upto, fx);
            }
        }
        self.displays.has_heard().then_some(now.mono)
    }

    /// Takes an answer for an update. False: the update is finished.
    fn display_goes_on(
        &mut self,
        now: Now,
        number: u64,
        told: ChatDelivery,
        fx: &mut Effects,
    ) -> bool {
        let Some((whose, it)) = self.displays.at(number) else { return false };
        let whose = whose.clone();
        let what = match told {
            ChatDelivery::Nodes(answer) if !it.is_published => {
                let Ok(NodesFound::Items(parts)) = answer.result else { return false };
                let Some(Ok(part)) = parts.into_vec().into_iter().next() else { return false };
                it.item = part.items.into_iter().next();
                let (from, backwards, count) = (it.upto.saturating_add(1), true, 1);
                let with = whose.with.clone().into();
                ErrandWhat::History(Box::new(HistoryRange { with, from, backwards, count }))
            }
            ChatDelivery::History(page) => {
                let Some(message) = page.messages.first() else { return false };
                let id = ArchiveId::of(message);
                it.is_published = true;
                if it.item.take().is_some_and(|item| displays(&item, id)) {
                    return false;
                }
                let publish = vec![displayed_item(&whose.by, &whose.with, id)];
                let of = NodeChange::of(NodeSpace::Published, DISPLAYED_NODE);
                let ask = NodesAsk::Change(vec![NodeChange { publish, ..of }]);
                ErrandWhat::Nodes(Box::new(ask))
            }
            _ => return false,
        };
        self.chore_asks(now, (Owed::Displays(number), &whose), what, fx);
        true
    }
}

//! What an account has read, whoever has read it and by which protocol, for its clients of XMPP
//! (XEP-0490): the node of theirs has an item for each conversation.
//!
//! ```text
//! the cursor moved ─► the node's item ─► the message at that place ─► is it another? ─► published
//!                       │ there is no such node: no client of the account wants to know
//! ```
//! It asks as an errand does, of one place of a conversation at a time; where the cursor moves on
//! meanwhile the last place counts. A client that has published an item itself moves the cursor by
//! it, and its item stays. Invariant: an account without such a node costs one question for the
//! names of its nodes.

use crate::operators::errands::{Owed, request_of};
use crate::sessions::{Asker, Requester};
use crate::waits::Waits;
use crate::{Chat, Effects};
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::{
    ArchiveId, ChatDelivery, DISPLAYED_NODE, HistoryRange, ItemsChosen, ItemsWanted, NodeChange,
    NodeItem, NodeSpace, NodesAsk, NodesFound, displayed_item, displays,
};
use model::ports::chat::ErrandWhat;
use model::service::Service;
use model::timeline::{Seq, TimelineId};
use std::collections::HashMap;
use std::sync::Arc;

/// Conversations that are told of at once, a shard. Of one more nothing is told: what is read there
/// next is.
const OPEN_MAX: usize = 1_024;

/// A conversation of which clients are being told.
pub(crate) struct Displaying {
    inbox: TimelineId,
    by: AccountAddress,
    with: AccountAddress,
    upto: Seq,
    /// What the node says of it.
    item: Option<Arc<NodeItem>>,
    is_published: bool,
    /// The account has read further meanwhile.
    is_behind: bool,
}

/// Conversations of which clients are being told.
#[derive(Default)]
pub(crate) struct Displays {
    open: Waits<Displaying>,
    by_name: HashMap<(TimelineId, AccountAddress), u64>,
    /// Answers that are to be looked at at the next turn.
    heard: Vec<(u64, ChatDelivery)>,
}

impl Displays {
    /// Something was answered to one of them.
    pub(crate) fn hears(&mut self, number: u64, told: ChatDelivery) {
        self.heard.push((number, told));
    }

    fn ends(&mut self, number: u64) -> Option<Displaying> {
        let it = self.open.take(number)?;
        self.by_name.remove(&(it.inbox, it.with.clone()));
        Some(it)
    }
}

impl Chat {
    /// An account has read a conversation up to a place.
    pub(crate) fn is_displayed(
        &mut self,
        now: Now,
        (inbox, by): (TimelineId, AccountAddress),
        (with, upto): (AccountAddress, Seq),
        fx: &mut Effects,
    ) {
        let name = (inbox, with.clone());
        if let Some(number) = self.displays.by_name.get(&name).copied() {
            if let Some(it) = self.displays.open.at_mut(number) {
                (it.upto, it.is_behind) = (it.upto.max(upto), true);
            }
            return;
        }
        if self.displays.open.len() >= OPEN_MAX || self.erasures.has(inbox) {
            return;
        }
        let (item, is_published, is_behind) = (None, false, false);
        let it = Displaying { inbox, by, with, upto, item, is_published, is_behind };
        let number = self.displays.open.put(it);
        self.displays.by_name.insert(name, number);
        self.asks_for_item(now, number, fx);
    }

    fn asks_for_item(&mut self, now: Now, number: u64, fx: &mut Effects) {
        let Some(it) = self.displays.open.at_mut(number) else { return };
        (it.is_behind, it.is_published) = (false, false);
        let which = ItemsChosen::Ids([it.with.jid().into()].into());
        let (space, node) = (NodeSpace::Published, DISPLAYED_NODE.into());
        let ask = NodesAsk::Items([ItemsWanted { space, node, which }].into());
        self.displays_ask(now, number, ErrandWhat::Nodes(Box::new(ask)), fx);
    }

    fn displays_ask(&mut self, now: Now, number: u64, what: ErrandWhat, fx: &mut Effects) {
        let Some(it) = self.displays.open.at(number) else { return };
        let (inbox, address, device) = (it.inbox, it.by.clone(), Box::default());
        let asker = Asker { inbox, address, device, source: None, is_operator: false };
        let Requester { conn, session, .. } = self.puts_errand(Owed::Displays(number), asker);
        self.request(now, conn, request_of(session, what), fx);
    }

    /// Goes on with what was answered; when to come back.
    pub(crate) fn turn_displays(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        for (number, told) in std::mem::take(&mut self.displays.heard) {
            if !self.display_goes_on(now, number, told, fx)
                && let Some(it) = self.displays.ends(number)
                && it.is_published
                && it.is_behind
            {
                let Displaying { inbox, by, with, upto, .. } = it;
                self.is_displayed(now, (inbox, by), (with, upto), fx);
            }
        }
        (!self.displays.heard.is_empty()).then_some(now.mono)
    }

    /// An answer. False: there is nothing more to do.
    fn display_goes_on(
        &mut self,
        now: Now,
        number: u64,
        told: ChatDelivery,
        fx: &mut Effects,
    ) -> bool {
        let Some(it) = self.displays.open.at_mut(number) else { return false };
        match told {
            ChatDelivery::Nodes(answer) if !it.is_published => {
                let Ok(NodesFound::Items(parts)) = answer.result else { return false };
                let Some(Ok(part)) = parts.into_vec().into_iter().next() else { return false };
                it.item = part.items.into_iter().next();
                let (from, backwards, count) = (it.upto.saturating_add(1), true, 1);
                let with = it.with.clone().into();
                let range = Box::new(HistoryRange { with, from, backwards, count });
                self.displays_ask(now, number, ErrandWhat::History(range), fx);
                true
            }
            ChatDelivery::History(page) => {
                let Some(message) = page.messages.first() else { return false };
                let id = ArchiveId::of(message);
                it.is_published = true;
                if it.item.take().is_some_and(|item| displays(&item, id)) {
                    return false;
                }
                let publish = vec![displayed_item(&it.by, &it.with, id)];
                let of = NodeChange::of(NodeSpace::Published, DISPLAYED_NODE);
                let ask = NodesAsk::Change(vec![NodeChange { publish, ..of }]);
                self.displays_ask(now, number, ErrandWhat::Nodes(Box::new(ask)), fx);
                true
            }
            _ => false,
        }
    }
}

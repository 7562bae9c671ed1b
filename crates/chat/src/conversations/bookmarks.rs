//! Bookmarks: the settings of conversations and of their bookmarks, which clients of XMPP publish
//! (XEP-0402), are kept equal: the mute as notification settings (XEP-0492), the pin as in
//! XEP-0469.
//!
//! ```text
//! a setting changed ─────────────────► the bookmark ─► does it differ? ─► published anew
//!                                        │ no bookmark: nothing to do
//! a client published ─► what changed ─► the conversation is set, by its inbox as always
//!                         │ nothing: a new bookmark gets the conversation's settings
//! ```
//! A bookmark changes its conversation only by what the client has changed in it. Without a
//! bookmark nothing is published: clients create bookmarks. If a setting that a client published is
//! refused, the bookmark is put back. Invariants: no setting changes a conversation that the
//! account does not have; a publication by the server itself changes no conversation.

use super::chores::{Chores, Whose};
use crate::conversations::changes::{Subject, Task, Wish};
use crate::operators::errands::Owed;
use crate::sessions::Requester;
use crate::waits::Waits;
use crate::{Chat, Effects};
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::{
    BOOKMARKS_NODE, BookmarkSettings, ChatDelivery, ChatRequest, ConversationChange, ItemsChosen,
    ItemsWanted, MuteLevel, NodeChange, NodeItem, NodeSpace, NodesAsk, NodesFound,
};
use model::ports::chat::ErrandWhat;
use model::timeline::TimelineId;
use std::sync::Arc;

/// Maximum of publications of bookmarks whose conversations are being looked up, per shard. A
/// further one changes no conversation.
const PUBLISHED_MAX: usize = 1_024;

/// A conversation whose bookmark is being brought up to date.
pub(crate) struct Marking {
    pinned: bool,
    muted: MuteLevel,
    /// Settings that a client published and that have not been answered yet.
    sets: usize,
    /// The settings have changed meanwhile.
    is_behind: bool,
    is_published: bool,
}

/// Bookmarks that are being brought up to date, and publications by clients.
#[derive(Default)]
pub(crate) struct Bookmarks {
    pub(crate) chores: Chores<Marking>,
    published: Waits<Published>,
    /// Publications for the next turn.
    new: Vec<Published>,
}

/// Bookmarks that a client has published.
pub(crate) struct Published {
    inbox: TimelineId,
    by: AccountAddress,
    bookmarks: Vec<PublishedOne>,
}

struct PublishedOne {
    with: AccountAddress,
    before: BookmarkSettings,
    after: BookmarkSettings,
}

impl Bookmarks {
    /// Takes bookmarks that a client has published.
    pub(crate) fn are_published(&mut self, published: Published) {
        if self.published.len() + self.new.len() < PUBLISHED_MAX {
            self.new.push(published);
        }
    }
}

impl Chat {
    /// The bookmarks that a change of nodes replaces, if it publishes any.
    pub(crate) fn bookmarks_replaced(&self, changes: &[NodeChange]) -> Option<ItemsWanted> {
        self.settings.bookmarks?;
        let is_it = |change: &&NodeChange| {
            change.space == NodeSpace::Published && *change.node == *BOOKMARKS_NODE
        };
        let items = changes.iter().filter(is_it).flat_map(|change| &change.publish);
        let ids: Box<[Box<str>]> = items.map(|item| item.id.clone()).collect();
        let (space, node) = (NodeSpace::Published, BOOKMARKS_NODE.into());
        let which = ItemsChosen::Ids(ids.clone());
        (!ids.is_empty()).then_some(ItemsWanted { space, node, which })
    }

    /// The bookmarks that such a change publishes, each with its settings before.
    pub(crate) fn bookmarks_of(
        &self,
        (inbox, by): (TimelineId, AccountAddress),
        changes: &[NodeChange],
        before: &[Arc<NodeItem>],
    ) -> Published {
        let settings = |item: &NodeItem| (self.settings.bookmarks?.settings)(item);
        let one = |item: &NodeItem| {
            let old = before.iter().find(|old| old.id == item.id);
            Some(PublishedOne {
                with: AccountAddress::parse(&item.id, "").ok()?,
                before: old.and_then(|old| settings(old)).unwrap_or_default(),
                after: settings(item)?,
            })
        };
        let changes = changes.iter().filter(|change| *change.node == *BOOKMARKS_NODE);
        let bookmarks = changes.flat_map(|change| &change.publish).filter_map(one).collect();
        Published { inbox, by, bookmarks }
    }

    /// Sets an account's conversations as its published bookmarks say, once its state is complete.
    pub(crate) fn bookmarks_known(
        &mut self,
        now: Now,
        number: u64,
        is_known: bool,
        fx: &mut Effects,
    ) {
        let Some(published) = self.bookmarks.published.take(number) else { return };
        let Published { inbox, by, bookmarks } = published;
        for PublishedOne { with, before, after } in bookmarks.into_iter().filter(|_| is_known) {
            let Some((pinned, muted)) = self.conversations.settings(inbox, &with) else {
                continue;
            };
            let mute = before.muted_by(&after).filter(|mute| *mute != muted);
            let pin = before.pinned_by(&after).filter(|pin| *pin != pinned);
            let sets = [mute.map(ConversationChange::Mute), pin.map(ConversationChange::Pin)];
            let sets: Vec<_> = sets.into_iter().flatten().collect();
            if !sets.is_empty() || !after.are(pinned, muted) {
                let whose = Whose { inbox, by: by.clone(), with };
                self.bookmark_differs(now, whose, ((pinned, muted), sets), fx);
            }
        }
    }

    /// Updates the bookmark of a conversation, after the account has changed a setting of it.
    pub(crate) fn is_set(&mut self, now: Now, whose: Whose, fx: &mut Effects) {
        let settings = self.conversations.settings(whose.inbox, &whose.with);
        if let Some(settings) = settings.filter(|_| self.settings.bookmarks.is_some()) {
            self.bookmark_differs(now, whose, (settings, Vec::new()), fx);
        }
    }

    /// Begins to update the bookmark of a conversation that has these settings, or gets others that
    /// a client has published.
    fn bookmark_differs(
        &mut self,
        now: Now,
        whose: Whose,
        ((pinned, muted), sets): ((bool, MuteLevel), Vec<ConversationChange>),
        fx: &mut Effects,
    ) {
        if self.erasures.has(whose.inbox) {
            return;
        }
        let sets_left = sets.len();
        if let Some(it) = self.bookmarks.chores.of(&whose) {
            (it.pinned, it.muted, it.is_behind) = (pinned, muted, true);
            it.sets += sets_left;
        } else {
            let (is_behind, is_published) = (false, false);
            let it = Marking { pinned, muted, sets: sets_left, is_behind, is_published };
            let Some(number) = self.bookmarks.chores.begins(whose.clone(), it) else { return };
            if sets.is_empty() {
                return self.asks_for_bookmark(now, (number, &whose), fx);
            }
        }
        let Some(number) = self.bookmarks.chores.number_of(&whose) else { return };
        for change in sets {
            let (with, change) = (Box::new(whose.with.clone().into()), Box::new(change));
            let request = |session| ChatRequest::Set { session, number: 0, with, change };
            self.chore_requests(now, (Owed::Bookmark(number), &whose), request, fx);
        }
    }

    fn asks_for_bookmark(&mut self, now: Now, (number, whose): (u64, &Whose), fx: &mut Effects) {
        let which = ItemsChosen::Ids([whose.with.jid().into()].into());
        let (space, node) = (NodeSpace::Published, BOOKMARKS_NODE.into());
        let ask = NodesAsk::Items([ItemsWanted { space, node, which }].into());
        let errand = (Owed::Bookmark(number), whose);
        self.chore_asks(now, errand, ErrandWhat::Nodes(Box::new(ask)), fx);
    }

    /// Continues publications and answers; returns when to continue.
    pub(crate) fn turn_bookmarks(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        for published in std::mem::take(&mut self.bookmarks.new) {
            let inbox = published.inbox;
            let wish = Wish::Bookmarks(self.bookmarks.published.put(published));
            let task = Task { wait: Requester::NOBODY, wish, what: Subject::All };
            self.for_account(now, inbox, task, fx);
        }
        for (number, told) in self.bookmarks.chores.take_heard() {
            if !self.bookmark_goes_on(now, (number, told), fx)
                && let Some((whose, it)) = self.bookmarks.chores.ends(number)
                && it.is_behind
            {
                self.is_set(now, whose, fx);
            }
        }
        let has_more = self.bookmarks.chores.has_heard() || !self.bookmarks.new.is_empty();
        has_more.then_some(now.mono)
    }

    /// Takes an answer of a chore. False: the chore is finished.
    fn bookmark_goes_on(
        &mut self,
        now: Now,
        (number, told): (u64, ChatDelivery),
        fx: &mut Effects,
    ) -> bool {
        let Some((whose, it)) = self.bookmarks.chores.at(number) else { return false };
        let whose = whose.clone();
        match told {
            ChatDelivery::Nodes(answer) if !it.is_published => {
                let Ok(NodesFound::Items(parts)) = answer.result else { return false };
                let Some(Ok(part)) = parts.into_vec().into_iter().next() else { return false };
                let Some(item) = part.items.into_iter().next() else { return false };
                let Some(format) = self.settings.bookmarks else { return false };
                let says = (format.settings)(&item);
                if says.is_none_or(|says| says.are(it.pinned, it.muted)) {
                    return false;
                }
                let Some(item) = (format.with)(&item, it.pinned, it.muted) else { return false };
                it.is_published = true;
                let of = NodeChange::of(NodeSpace::Published, BOOKMARKS_NODE);
                let ask = NodesAsk::Change(vec![NodeChange { publish: vec![item], ..of }]);
                let errand = (Owed::Bookmark(number), &whose);
                self.chore_asks(now, errand, ErrandWhat::Nodes(Box::new(ask)), fx);
                true
            }
            ChatDelivery::Set { .. } | ChatDelivery::Failed { .. } if it.sets > 0 => {
                it.sets -= 1;
                if it.sets == 0 && !it.is_published {
                    it.is_behind = false;
                    self.asks_for_bookmark(now, (number, &whose), fx);
                }
                true
            }
            _ => false,
        }
    }
}

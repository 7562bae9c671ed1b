//! Retained messages go to a new subscriber, page by page.
//!
//! A walk asks one owner after the other for a page, hands it out, and asks for the next when the
//! last one is gone: at QoS 0 when the socket has taken all, at QoS 1 and 2 when the window has
//! room again. There is no limit to how many there are. While a walk goes on it is remembered
//! which topics had a message meanwhile: an older retained one is not sent behind it.

use super::filters::{option, qos_of};
use super::queue::Entry;
use crate::Broker;
use crate::effects::Effects;
use crate::letter::{Letter, PageWanted, RetainedPage};
use crate::retained::Most;
use base::slab::Key;
use base::time::Now;
use model::event::Counter;
use model::id::{SessionRef, ShardId};
use model::ports::access::Act;
use model::session::{Outgoing, SessionDelivery};
use model::topic::{Publication, Qos};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Bytes of one page, but always one message.
const PAGE_BYTES: usize = 64 * 1024;

/// Topics that had a message during a walk, remembered for it; beyond, the walk begins to forget.
const LIVE_MAX: usize = 1_024;

/// Pages of the own shard that are handed out in a row.
const PAGES_MAX: usize = 64;

/// The retained messages that a subscription wants.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub filter: Box<str>,
    pub subscription_id: Option<u32>,
}

/// The walks of one session, the first goes on.
#[derive(Default)]
pub(crate) struct Walks {
    walks: VecDeque<Walk>,
}

struct Walk {
    /// The number of the page that was asked for last.
    page: u32,
    filter: Arc<str>,
    ids: model::topic::SubscriptionIds,
    /// The shard whose turn it is.
    shard: u16,
    after: Option<Box<str>>,
    stage: Stage,
    /// Topics that had a message since the walk began.
    live: BTreeMap<Box<str>, u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The next page can be asked for.
    Ready,
    /// It was asked for.
    Asked,
    /// A page is on its way to the socket.
    Draining,
}

impl Walks {
    pub fn is_empty(&self) -> bool {
        self.walks.is_empty()
    }

    /// The connection is gone.
    pub fn pause(&mut self) {
        for walk in &mut self.walks {
            walk.stage = Stage::Ready;
        }
    }
}

impl Broker {
    /// A walk begins.
    pub(crate) fn walk(&mut self, now: Now, key: Key, wanted: Wanted, fx: &mut Effects) {
        let has_wildcard = wanted.filter.contains(['+', '#']);
        let shard = match has_wildcard {
            true => 0,
            false => self.owner_of_topic(&wanted.filter).0,
        };
        let Some(session) = self.sessions.at_mut(key) else { return };
        let walks = &mut session.more().walks;
        // The same filter again begins again (MQTT5 3.8.4-4).
        walks.walks.retain(|walk| *walk.filter != *wanted.filter);
        walks.walks.push_back(Walk {
            page: 0,
            filter: wanted.filter.into(),
            ids: wanted.subscription_id.map(|id| Arc::from([id])),
            shard,
            after: None,
            stage: Stage::Ready,
            live: BTreeMap::new(),
        });
        self.walk_on(now, key, fx);
        self.rest(key);
    }

    /// A filter is not subscribed to any more.
    pub(crate) fn stop_walks(&mut self, key: Key, filter: &str) {
        let more = self.sessions.at_mut(key).and_then(|session| session.more.as_mut());
        if let Some(more) = more {
            more.walks.walks.retain(|walk| *walk.filter != *filter);
        }
        self.rest(key);
    }

    /// The socket has taken all that was sent.
    pub(crate) fn ready(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let more = self.sessions.at_mut(key).and_then(|session| session.more.as_mut());
        if let Some(walk) = more.and_then(|more| more.walks.walks.front_mut())
            && walk.stage == Stage::Draining
        {
            walk.stage = Stage::Ready;
        }
        self.walk_on(now, key, fx);
        self.rest(key);
    }

    /// A message went to a session: while it walks, that is remembered.
    pub(crate) fn note_live(&mut self, key: Key, message: &Arc<Publication>) {
        let Some(session) = self.sessions.at_mut(key) else { return };
        let Some(more) = &mut session.more else { return };
        if !message.retain {
            return;
        }
        for walk in &mut more.walks.walks {
            if walk.live.len() < LIVE_MAX {
                walk.live.insert(message.topic().into(), message.id);
            }
        }
    }

    /// Asks for the next page, if it is time.
    pub(crate) fn walk_on(&mut self, now: Now, key: Key, fx: &mut Effects) {
        for _ in 0..PAGES_MAX {
            let Some(session) = self.sessions.at_mut(key) else { return };
            if session.online().is_none() {
                return;
            }
            let Some(more) = session.more.as_mut() else { return };
            let waits = more.queue.waiting() > 0;
            let Some(walk) = more.walks.walks.front_mut() else { return };
            if waits || walk.stage != Stage::Ready {
                return;
            }
            if walk.shard >= self.settings.shards.max(1) {
                more.walks.walks.pop_front();
                continue;
            }
            // What was asked for before may still come, and is told apart.
            self.last_page = self.last_page.wrapping_add(1);
            (walk.page, walk.stage) = (self.last_page, Stage::Asked);
            let wanted = PageWanted {
                from: self.settings.shard,
                session: SessionRef::new(self.settings.shard, key),
                page: walk.page,
                filter: walk.filter.clone(),
                after: walk.after.clone(),
            };
            let owner = ShardId(walk.shard);
            if owner != self.settings.shard {
                return self.post(owner, Letter::PageWanted(Box::new(wanted)), fx);
            }
            let page = self.page(now, &wanted);
            self.hand_page(key, page, fx);
            self.pump_queue(now, key, fx);
        }
        // So many pages in a row are enough: the turn goes on with it.
        self.walkers.push(key);
    }

    /// Goes on with walks that took enough for one turn.
    pub(crate) fn turn_walks(&mut self, now: Now, fx: &mut Effects) -> Option<base::time::Instant> {
        for key in std::mem::take(&mut self.walkers) {
            self.walk_on(now, key, fx);
            self.rest(key);
        }
        (!self.walkers.is_empty()).then_some(now.mono)
    }

    /// Another shard wants a page of what is kept here.
    pub(crate) fn page_wanted(&mut self, now: Now, wanted: &PageWanted, fx: &mut Effects) {
        let page = self.page(now, wanted);
        self.post(wanted.from, Letter::Page(Box::new(page)), fx);
    }

    fn page(&self, now: Now, wanted: &PageWanted) -> RetainedPage {
        let count = self.settings.limits.topics.retained_page as usize;
        let most = Most { count, bytes: PAGE_BYTES };
        let after = wanted.after.as_deref();
        let page = self.retained.page(now.unix_s(), &wanted.filter, after, most);
        RetainedPage {
            shard: self.settings.shard,
            session: wanted.session,
            page: wanted.page,
            messages: page.messages,
            next: page.next,
        }
    }

    /// A page came from another shard.
    pub(crate) fn page_came(&mut self, now: Now, page: RetainedPage, fx: &mut Effects) {
        let key = page.session.key();
        self.hand_page(key, page, fx);
        self.pump(now, key, fx);
    }

    /// The messages of a page go out, or into the queue.
    fn hand_page(&mut self, key: Key, page: RetainedPage, fx: &mut Effects) {
        let Some(session) = self.sessions.at(key) else { return };
        let (Some(conn), id) = (session.online(), session.id.clone()) else { return };
        let principal = self.principals.at(session.principal).clone();
        let is_it = |walk: &&Walk| walk.page == page.page && walk.stage == Stage::Asked;
        let more = session.more.as_ref();
        let Some(walk) = more.and_then(|more| more.walks.walks.front()).filter(is_it) else {
            return;
        };
        // Rules may have changed, or the subscription has gone, since the walk began.
        let known = self.filters.known(session, key.slot, &walk.filter);
        let own = self.publisher_of(&id);
        let Some(session) = self.sessions.at_mut(key) else { return };
        let Some(more) = session.more.as_mut() else { return };
        let Some((_, options)) = known else {
            more.walks.walks.pop_front();
            return;
        };
        let Some(walk) = more.walks.walks.front_mut() else { return };
        let (mut sent, mut queued) = (0u64, Vec::new());
        for message in page.messages {
            let newer = walk.live.get(message.topic()).is_some_and(|&live| live >= message.id);
            let partly = options & option::PARTLY != 0;
            let is_own = options & option::NO_LOCAL != 0 && message.publisher == own;
            if newer || is_own || partly && !principal.may(&id, Act::Read, message.topic()) {
                continue;
            }
            let qos = qos_of(options).min(message.qos);
            match qos {
                Qos::AtMostOnce => {
                    sent += 1;
                    let outgoing = Outgoing {
                        message,
                        id: 0,
                        qos,
                        again: false,
                        retain: true,
                        shared: false,
                        subscription_ids: walk.ids.clone(),
                    };
                    fx.deliveries.push((conn, SessionDelivery::Publish(outgoing)));
                }
                _ => queued.push(Entry::of(&message, (qos, true), walk.ids.clone())),
            }
        }
        walk.stage = if sent > 0 { Stage::Draining } else { Stage::Ready };
        walk.after = page.next;
        if walk.after.is_none() {
            walk.shard = match walk.filter.contains(['+', '#']) {
                true => walk.shard + 1,
                false => u16::MAX,
            };
            if walk.shard >= self.settings.shards.max(1) {
                more.walks.walks.pop_front();
            }
        }
        fx.counters.count_by(Counter::Delivered, sent);
        fx.counters.count_by(Counter::RetainedSent, sent + queued.len() as u64);
        let totals = &mut self.totals;
        for entry in queued {
            more.queue.push(entry, totals);
        }
    }
}

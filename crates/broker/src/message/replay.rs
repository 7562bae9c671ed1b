//! Retained messages go to a new subscriber, page by page.
//!
//! A session replays for one subscription at a time; the others wait as their filters' numbers. A
//! replay asks one owner after the other for a page, hands it out, and asks for the next when the
//! last one is gone: at QoS 0 when the socket has taken all, at QoS 1 and 2 when the window has
//! room again. The number of messages has no limit. A message that came live meanwhile does not
//! come again, and nothing older behind it: see `newcomers`. A message that is retained while pages
//! are on their way comes behind them: see `askers`.

mod askers;
mod newcomers;
mod overdue;

use askers::Askers;
use newcomers::{Newcomers, Verdict};

use super::deliver::{outgoing, straight};
use super::queue::Entry;
use super::route::holder::{option, qos_of};
use super::subscriptions::{Held, replay_number};
use crate::Broker;
use crate::Effects;
use crate::peer_message::{Asker, LastWanted, LateWord, PageWanted, PeerMessage, RetainedPage};
use crate::retained::Most;
use base::pace::cost;
use base::rounds::Rounds;
use base::slab::Key;
use base::time::{Instant, Now};
use model::counters::TopicCounter;
use model::id::{SessionRef, ShardId};
use model::ports::access::Act;
use model::session::{Drop, SessionDelivery};
use model::topic::{Publication, Qos, SubscriptionIds};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of one page, but always one message.
const PAGE_BYTES: usize = 64 * 1024;

/// Topics that replays look at in one call; pages and bytes count for some, too.
pub(crate) const LOOKS_MAX: usize = 2_048;

/// Bytes of messages that count as one topic, because sending large ones costs more.
const LOOK_BYTES: usize = 512;

/// Most bytes that may be owed: as much as two seconds allow.
const BYTES_OWED_MAX: Duration = Duration::from_secs(2);

/// How long replays pause then.
const BYTES_PAUSE: Duration = Duration::from_millis(20);

/// Looks that a page counts for, besides those at its topics.
const PAGE_LOOKS: usize = 8;

/// Looks that a page counts for when another shard is asked for it.
const PAGE_ELSEWHERE_LOOKS: usize = 64;

/// The replays of one session.
#[derive(Default)]
pub(crate) struct RetainedReplays {
    /// The one that goes on.
    replay: Option<Box<RetainedReplay>>,
    /// Filters whose turn comes, by their numbers, and since when they are held.
    waiting: BTreeMap<u32, u64>,
    /// Bytes at QoS 0 that the socket has not taken, as far as is known.
    sent: usize,
    /// Whether those bytes are enough: more is sent once the socket has taken them.
    drains: bool,
    /// Whether the session is in the line of those that had enough for one turn.
    rests: bool,
}

struct RetainedReplay {
    /// The number of the page that was asked for last.
    page: u32,
    /// The filter's number, and the filter.
    number: u32,
    filter: Arc<str>,
    ids: SubscriptionIds,
    /// The shard whose turn it is.
    shard: u16,
    after: Option<Box<str>>,
    stage: Stage,
    /// Moment since which the subscription is held.
    since: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The next page can be asked for.
    Ready,
    /// The page was asked for.
    Asked,
    /// The page was asked for, and the replay is over meanwhile: the page is awaited, and dropped.
    Over,
}

impl RetainedReplays {
    pub fn is_empty(&self) -> bool {
        self.replay.is_none() && self.waiting.is_empty() && !self.rests && !self.drains
    }

    /// Whether nothing is replayed, nor to be.
    fn has_no_wish(&self) -> bool {
        self.replay.is_none() && self.waiting.is_empty()
    }

    /// The connection is gone: what is sent next is as it is by then.
    pub fn pause(&mut self) {
        (self.sent, self.drains) = (0, false);
        self.replay.take_if(|replay| replay.stage == Stage::Over);
        if let Some(replay) = &mut self.replay {
            replay.stage = Stage::Ready;
        }
    }

    /// A filter is not subscribed to any more. A page of it that another shard was asked for is
    /// waited for all the same: a client that subscribes again and again has one page on its way,
    /// and not one for each packet.
    pub fn stop(&mut self, filter: u32) {
        let number = *replay_number(filter).start();
        self.waiting.remove(&number);
        if let Some(replay) = self.replay.as_mut().filter(|replay| replay.number == number) {
            match replay.stage {
                Stage::Ready => self.replay = None,
                Stage::Asked | Stage::Over => replay.stage = Stage::Over,
            }
        }
    }

    /// The messages of a page were given out, of so many bytes at QoS 0; the next begins behind
    /// `next`, or with another of so many shards.
    fn page_was_given(&mut self, next: Option<Box<str>>, sent_bytes: usize, shards: u16) {
        let Some(replay) = self.replay.as_mut() else { return };
        let is_many = replay.filter.contains(['+', '#']);
        (replay.stage, replay.after) = (Stage::Ready, next);
        self.sent += sent_bytes;
        self.drains = sent_bytes > 0 && (replay.after.is_some() || self.sent >= PAGE_BYTES);
        if replay.after.is_none() {
            replay.shard = if is_many { replay.shard + 1 } else { u16::MAX };
            self.replay.take_if(|replay| replay.shard >= shards.max(1));
        }
    }

    /// The page with this number came, or will not come. The replay goes on if it was waiting for
    /// it; one that is over goes.
    fn page_is_here(&mut self, page: u32) -> Option<&mut RetainedReplay> {
        let replay = self.replay.as_mut().filter(|replay| replay.page == page)?;
        match replay.stage {
            Stage::Asked => {}
            Stage::Ready => return None,
            Stage::Over => {
                self.replay = None;
                return None;
            }
        }
        self.replay.as_deref_mut()
    }
}

/// The replays of a shard.
pub(crate) struct Replays {
    newcomers: Newcomers,
    /// Subscriptions that were given pages here.
    askers: Askers,
    /// Sessions whose replays took enough for one turn.
    resting: VecDeque<Key>,
    /// Topics that may be looked at before the next turn.
    looks_left: usize,
    /// When the bytes that were sent so far are paid for, where they have a rate.
    bytes_paid_at: Instant,
    /// The number of the last page that was asked for.
    last_page: u32,
    /// Sessions that wait for another shard's page: which, and since when.
    asked: BTreeMap<Key, (u32, u32)>,
    rounds: Rounds,
}

impl Replays {
    /// Makes an empty store that notes at most so many bytes of what new subscribers were given.
    pub fn new(notes_bytes_max: u64) -> Replays {
        let (newcomers, askers) = (Newcomers::new(notes_bytes_max), Askers::default());
        let (asked, rounds) = (BTreeMap::new(), Rounds::default());
        let (resting, looks_left) = (VecDeque::new(), LOOKS_MAX);
        let bytes_paid_at = Instant::default();
        Replays {
            newcomers,
            askers,
            resting,
            looks_left,
            bytes_paid_at,
            last_page: 0,
            asked,
            rounds,
        }
    }

    /// Messages given to sessions that have just subscribed.
    pub fn newcomers(&mut self) -> &mut Newcomers {
        &mut self.newcomers
    }

    /// Bytes of that.
    pub fn bytes(&self) -> u64 {
        self.newcomers.bytes()
    }

    /// Messages of so many bytes were given out, where so many a second may be; 0: any.
    fn spend(&mut self, now: Now, bytes: usize, per_s: u64) {
        self.bytes_paid_at = self.bytes_paid_at.max(now.mono) + cost(bytes as u64, per_s);
    }

    /// When replays go on, if what may be owed for bytes is owed.
    fn goes_on_at(&self, now: Now) -> Option<Instant> {
        let owed = self.bytes_paid_at - now.mono;
        (owed >= BYTES_OWED_MAX).then(|| now.mono + (owed - BYTES_OWED_MAX) + BYTES_PAUSE)
    }

    /// The number of the next page: an earlier page may still come, and is recognised by its
    /// number.
    fn next_page(&mut self) -> u32 {
        self.last_page = self.last_page.wrapping_add(1);
        self.last_page
    }
}

impl Broker {
    /// The retained messages of subscriptions are wanted, by the numbers of their filters,
    /// and since when they are held.
    pub(crate) fn replay(
        &mut self,
        now: Now,
        key: Key,
        wanted: impl IntoIterator<Item = (u32, u64)>,
        fx: &mut Effects,
    ) {
        let Some(session) = self.sessions.at_mut(key) else { return };
        for (wanted, since) in wanted {
            if session.filter_in(replay_number(wanted)).is_none() {
                continue;
            }
            let replays = &mut session.more().replays;
            // The same filter again begins again (MQTT5 3.8.4-4).
            replays.stop(wanted);
            replays.waiting.insert(*replay_number(wanted).start(), since);
        }
        self.replay_on(now, key, LOOKS_MAX, fx);
        self.sessions.rest(key);
    }

    /// The next of those that wait begins; false: there is none.
    fn begin_replay(&mut self, key: Key) -> bool {
        loop {
            let Some(session) = self.sessions.at_mut(key) else { return false };
            let replays = session.more.as_mut().map(|more| &mut more.replays);
            let Some((number, since)) = replays.and_then(|replays| replays.waiting.pop_first())
            else {
                return false;
            };
            let Some(held) = session.filter_in(replay_number(number)) else { continue };
            let ids = session.subscription_id(held).map(|id| Arc::from([id]));
            let filter = self.subscriptions.text(held, session.id());
            let shard = match filter.contains(['+', '#']) {
                true => 0,
                false => self.settings.owner_of_topic(&filter).0,
            };
            let filter = filter.into();
            let (page, after, stage) = (0, None, Stage::Ready);
            let replay = RetainedReplay { page, number, filter, ids, shard, after, stage, since };
            let Some(session) = self.sessions.at_mut(key) else { return false };
            session.more().replays.replay = Some(Box::new(replay));
            return true;
        }
    }

    /// The socket has taken all that was sent.
    pub(crate) fn ready(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let more = self.sessions.more_mut(key);
        if let Some(replays) = more.map(|more| &mut more.replays) {
            (replays.sent, replays.drains) = (0, false);
        }
        self.replay_on(now, key, LOOKS_MAX, fx);
        self.sessions.rest(key);
    }

    /// Asks for the next pages, if it is time, and looks at so many topics, nearly. The looks of
    /// all calls between two turns are bounded: a session that finds none left goes on in the turn,
    /// and so does one that had enough before, whatever its client asks for meanwhile.
    pub(crate) fn replay_on(&mut self, now: Now, key: Key, most: usize, fx: &mut Effects) {
        let Some(more) = self.sessions.more(key) else { return };
        if more.replays.rests || more.replays.has_no_wish() {
            return;
        }
        let is_paused = self.replays.goes_on_at(now).is_some();
        let most = if is_paused { 0 } else { most.min(self.replays.looks_left) };
        let looks = self.replay_some(now, key, most, fx);
        self.replays.looks_left = self.replays.looks_left.saturating_sub(looks);
    }

    fn replay_some(&mut self, now: Now, key: Key, most: usize, fx: &mut Effects) -> usize {
        let mut looks = 0;
        while looks < most {
            let Some(session) = self.sessions.at_mut(key) else { return looks };
            if session.online().is_none() {
                return looks;
            }
            let Some(more) = session.more.as_mut() else { return looks };
            let is_busy =
                more.queue.waiting() > 0 || more.queue.bytes_on_way() >= PAGE_BYTES as u64;
            if is_busy || more.replays.drains {
                return looks;
            }
            let Some(replay) = more.replays.replay.as_mut() else {
                match self.begin_replay(key) {
                    true => continue,
                    false => return looks,
                }
            };
            if replay.stage != Stage::Ready {
                return looks;
            }
            if replay.shard >= self.settings.shards.max(1) {
                more.replays.replay = None;
                continue;
            }
            (replay.page, replay.stage) = (self.replays.next_page(), Stage::Asked);
            let wanted = PageWanted {
                from: self.settings.shard,
                session: SessionRef::new(self.settings.shard, key),
                page: replay.page,
                filter: replay.filter.clone(),
                after: replay.after.clone(),
                since: replay.since,
            };
            let owner = ShardId(replay.shard);
            if owner != self.settings.shard {
                let asked = (wanted.page, self.replays.rounds.stamp());
                self.replays.asked.insert(key, asked);
                fx.peer_messages.push((owner, PeerMessage::PageWanted(Box::new(wanted))));
                return looks + PAGE_ELSEWHERE_LOOKS;
            }
            let (page, looked) = self.page(now, &wanted);
            looks += PAGE_LOOKS + looked;
            self.hand_page(now, key, page, fx);
            self.pump_queue(now, key, fx);
        }
        // That is enough for one turn: the next goes on with it.
        if let Some(more) = self.sessions.more_mut(key)
            && !std::mem::replace(&mut more.replays.rests, true)
        {
            self.replays.resting.push_back(key);
        }
        looks
    }

    /// Goes on with replays that took enough for one turn.
    pub(crate) fn turn_replays(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.replays.looks_left = LOOKS_MAX;
        for _ in 0..self.replays.resting.len() {
            if self.replays.looks_left == 0 || self.replays.goes_on_at(now).is_some() {
                break;
            }
            let Some(key) = self.replays.resting.pop_front() else { break };
            let more = self.sessions.more_mut(key);
            let Some(more) = more else { continue };
            more.replays.rests = false;
            self.replay_on(now, key, LOOKS_MAX / 4, fx);
            self.sessions.rest(key);
        }
        // For the calls up to the next turn.
        self.replays.looks_left = LOOKS_MAX;
        let next = self.replays.goes_on_at(now).unwrap_or(now.mono);
        (!self.replays.resting.is_empty()).then_some(next)
    }

    /// Another shard wants a page of what is kept here.
    pub(crate) fn page_wanted(&mut self, now: Now, wanted: &PageWanted, fx: &mut Effects) {
        let (page, _) = self.page(now, wanted);
        fx.peer_messages.push((wanted.from, PeerMessage::Page(Box::new(page))));
    }

    /// A page, and what it counts for besides [`PAGE_LOOKS`].
    fn page(&mut self, now: Now, wanted: &PageWanted) -> (RetainedPage, usize) {
        let (session, filter, since) = (wanted.session, wanted.filter.clone(), wanted.since);
        self.note_asker(now, Asker { session, filter, since });
        let count = self.settings.limits.topics.retained_page as usize;
        let most = Most { count, bytes: PAGE_BYTES };
        let after = wanted.after.as_deref();
        let page = self.retained.all().page(now.unix_s(), &wanted.filter, after, most);
        self.units.spend(PAGE_LOOKS + page.looks);
        let (shard, session) = (self.settings.shard, wanted.session);
        let (messages, next) = (page.messages, page.next);
        let bytes: usize = messages.iter().map(|message| message.weight()).sum();
        let looked = page.looks + bytes / LOOK_BYTES;
        (RetainedPage { shard, session, page: wanted.page, messages, next }, looked)
    }

    /// A page came from another shard.
    pub(crate) fn page_came(&mut self, now: Now, page: RetainedPage, fx: &mut Effects) {
        let key = page.session.key();
        if self.replays.asked.get(&key).is_some_and(|(asked, _)| *asked == page.page) {
            self.replays.asked.remove(&key);
        }
        self.hand_page(now, key, page, fx);
        self.pump(now, key, fx);
    }

    /// The messages of a page go out, or into the queue.
    fn hand_page(&mut self, now: Now, key: Key, page: RetainedPage, fx: &mut Effects) {
        let Some(session) = self.sessions.at(key) else { return };
        let (id, is_reaching) = (Box::<str>::from(session.id()), session.is_reaching());
        let Some(conn) = session.online() else { return };
        let principal = self.sessions.principal(session).clone();
        let replay = match self.sessions.more_mut(key) {
            Some(more) => more.replays.page_is_here(page.page),
            None => None,
        };
        let Some(filter) = replay.map(|replay| replay.filter.clone()) else { return };
        let Some(session) = self.sessions.at(key) else { return };
        // Rules may have changed, or the subscription has gone, since the replay began.
        let known = self.subscriptions.known(session, key.slot, &filter);
        let own = self.routing.publisher_of(&id);
        let Some(session) = self.sessions.at_mut(key) else { return };
        let Some(more) = session.more.as_mut() else { return };
        let Some(Held { options, .. }) = known else {
            more.replays.replay = None;
            return;
        };
        let Some(replay) = more.replays.replay.as_mut() else { return };
        let (mut sent, mut sent_bytes, mut queued, mut doubts) = (0u64, 0, Vec::new(), Vec::new());
        let mut queued_bytes = 0;
        for message in page.messages {
            let partly = is_reaching || options & option::PARTLY != 0;
            let is_own = options & option::NO_LOCAL != 0 && message.publisher == own;
            if is_own || partly && !principal.may(&id, Act::Read, message.topic()) {
                continue;
            }
            match self.replays.newcomers.kept(now, key, replay.since, &message) {
                Verdict::New => {}
                Verdict::Had => continue,
                Verdict::Doubt => {
                    doubts.push(message.topic().into());
                    continue;
                }
            }
            let qos = qos_of(options).min(message.qos);
            match qos {
                Qos::AtMostOnce => {
                    sent += 1;
                    sent_bytes += message.weight();
                    let outgoing = straight(message, true, replay.ids.clone());
                    fx.deliveries.push((conn, SessionDelivery::Publish(outgoing)));
                }
                _ => {
                    queued_bytes += message.weight();
                    queued.push(Entry::of(&message, qos, true, replay.ids.clone()));
                }
            }
        }
        let since = replay.since;
        more.replays.page_was_given(page.next, sent_bytes, self.settings.shards);
        let per_s = u64::from(self.settings.limits.topics.retained_sent_bytes_per_s);
        let per_s = per_s.div_ceil(u64::from(self.settings.shards.max(1)));
        self.replays.spend(now, sent_bytes + queued_bytes, per_s);
        fx.counters.count_by(TopicCounter::Delivered, sent);
        fx.counters.count_by(TopicCounter::RetainedSent, sent + queued.len() as u64);
        for entry in queued {
            more.queue.push(entry, &mut self.totals);
        }
        for topic in doubts {
            let session = SessionRef::new(self.settings.shard, key);
            self.ask_last(now, Asker { session, filter: filter.clone(), since }, topic, fx);
        }
    }

    /// A page is given out.
    pub(crate) fn note_asker(&mut self, now: Now, asker: Asker) {
        if self.settings.shards > 1 {
            self.replays.askers.push(now, asker);
            self.settings.summary.set_pages(self.settings.shard, self.replays.askers.count());
        }
    }

    /// A message was kept: those who were given a page behind so many get it, too. Whether there
    /// are any.
    pub(crate) fn tell_askers(
        &mut self,
        now: Now,
        message: &Arc<Publication>,
        pages: u64,
        fx: &mut Effects,
    ) -> bool {
        if pages >= self.replays.askers.count() {
            return false;
        }
        let askers = self.replays.askers.behind(pages, message.topic());
        let any = !askers.is_empty();
        for asker in askers {
            let (to, message) = (asker.session.shard(), message.clone());
            self.tell(
                now,
                to,
                PeerMessage::Late(Box::new(LateWord { asker, message, last: false })),
                fx,
            );
        }
        any
    }

    /// Asks what is kept for one topic by now.
    pub(crate) fn ask_last(&mut self, now: Now, asker: Asker, topic: Box<str>, fx: &mut Effects) {
        let owner = self.settings.owner_of_topic(&topic);
        self.tell(now, owner, PeerMessage::LastWanted(Box::new(LastWanted { asker, topic })), fx);
    }

    /// Another shard wants to know what is kept for one topic.
    pub(crate) fn last_wanted(&mut self, now: Now, wanted: LastWanted, fx: &mut Effects) {
        let LastWanted { asker, topic } = wanted;
        // What is kept from now on comes behind this.
        self.note_asker(now, asker.clone());
        let unix_s = now.unix_s();
        let kept =
            self.retained.all().get(&topic).filter(|message| !message.expired(unix_s)).cloned();
        if let Some(message) = kept {
            let to = asker.session.shard();
            self.tell(
                now,
                to,
                PeerMessage::Late(Box::new(LateWord { asker, message, last: true })),
                fx,
            );
        }
    }

    /// A message that was kept behind a page came.
    pub(crate) fn late_came(&mut self, now: Now, late: LateWord, fx: &mut Effects) {
        let LateWord { asker, message, last } = late;
        let key = asker.session.key();
        let Some(session) = self.sessions.at(key) else { return };
        let known = self.subscriptions.known(session, key.slot, &asker.filter);
        let Some(Held { number, options }) = known else { return };
        let own = options & option::NO_LOCAL != 0
            && message.publisher == self.routing.publisher_of(session.id());
        let may = options & option::PARTLY == 0 && !session.is_reaching()
            || self.sessions.may(session, Act::Read, message.topic());
        if own || !may {
            return;
        }
        let ids: SubscriptionIds = session.subscription_id(number).map(|id| Arc::from([id]));
        let verdict = match last {
            true if self.replays.newcomers.kept_last(key, asker.since, &message) => Verdict::New,
            true => Verdict::Had,
            false => self.replays.newcomers.kept(now, key, asker.since, &message),
        };
        match verdict {
            Verdict::Had => {}
            Verdict::Doubt => self.ask_last(now, asker, message.topic().into(), fx),
            Verdict::New => {
                fx.counters.count(TopicCounter::RetainedSent);
                let qos = qos_of(options).min(message.qos);
                // That a topic is cleared is said live alone.
                let retain = !message.payload().is_empty();
                self.hand_late(now, key, Entry::of(&message, qos, retain, ids), fx);
            }
        }
    }

    fn hand_late(&mut self, now: Now, key: Key, entry: Entry, fx: &mut Effects) {
        match (entry.qos, self.sessions.online(key)) {
            (Qos::AtMostOnce, None) => self.sessions.dropped(now, key, Drop::Offline, 1, fx),
            (Qos::AtMostOnce, Some(conn)) => {
                fx.counters.count(TopicCounter::Delivered);
                let outgoing = outgoing(&entry).map(SessionDelivery::Publish);
                fx.deliveries.extend(outgoing.map(|word| (conn, word)));
            }
            _ => {
                if self.make_room(now, key, entry.cost(), 0, fx) {
                    self.enqueue(now, key, entry, fx);
                }
            }
        }
    }
}

//! A message is kept after a page was given out that it would have been in.
//!
//! Three shards have to do with a retained message and a new subscription: the publisher's looks
//! who is subscribed and sends it there, the owner's keeps it, the subscriber's asks the owner for
//! what is kept. A subscription that comes behind the look may have its page before the message is
//! kept; nobody would give it to it. So owners count the pages that they give out and remember for
//! whom; the publisher's shard reads the count before it looks, and the owner sends the message to
//! those who had a page since. Whoever has it already does not get it twice: see `newcomers`.

use super::newcomers::Verdict;
use super::queue::Entry;
use super::subscriptions::{Held, option, qos_of};
use crate::Broker;
use crate::Effects;
use crate::peer_message::{Asker, LastWanted, LateWord, PeerMessage};
use base::slab::Key;
use base::time::{Instant, Now};
use model::event::Counter;
use model::ports::access::Act;
use model::session::{Drop, Outgoing, SessionDelivery};
use model::topic::{Publication, Qos, SubscriptionIds};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Pages that are remembered, a shard: as many as may be given out while a peer message is on its
/// way.
const ASKED_MAX: usize = 65_536;

/// Bytes of their filters.
const ASKED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How long a peer message may be on its way.
const SPAN: Duration = Duration::from_secs(10);

/// For whom pages were given out.
#[derive(Default)]
pub(crate) struct Asked {
    askers: VecDeque<(Instant, Asker)>,
    bytes: usize,
    /// All that ever were given out.
    count: u64,
}

impl Asked {
    /// One more page was given out.
    fn push(&mut self, now: Now, asker: Asker) {
        self.count += 1;
        self.bytes += asker.filter.len();
        self.askers.push_back((now.after(SPAN), asker));
        while let Some((until, first)) = self.askers.front()
            && (*until <= now.mono || self.askers.len() > ASKED_MAX || self.bytes > ASKED_BYTES_MAX)
        {
            self.bytes -= first.filter.len();
            self.askers.pop_front();
        }
    }

    /// Those behind so many, the last first, that match.
    fn behind(&self, count: u64, topic: &str) -> Vec<Asker> {
        let new = usize::try_from(self.count.saturating_sub(count)).unwrap_or(usize::MAX);
        let mut found: Vec<Asker> = Vec::new();
        for (_, asker) in self.askers.iter().rev().take(new) {
            let is_known =
                |known: &Asker| known.session == asker.session && *known.filter == *asker.filter;
            if crate::routes::matches(&asker.filter, topic) && !found.iter().any(is_known) {
                found.push(asker.clone());
            }
        }
        found
    }
}

impl Broker {
    /// A page is given out.
    pub(crate) fn note_asker(&mut self, now: Now, asker: Asker) {
        if self.settings.shards > 1 {
            self.asked.push(now, asker);
            self.settings.summary.set_pages(self.settings.shard, self.asked.count);
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
        if pages >= self.asked.count {
            return false;
        }
        let askers = self.asked.behind(pages, message.topic());
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
        let owner = self.owner_of_topic(&topic);
        self.tell(now, owner, PeerMessage::LastWanted(Box::new(LastWanted { asker, topic })), fx);
    }

    /// Another shard wants to know what is kept for one topic.
    pub(crate) fn last_wanted(&mut self, now: Now, wanted: LastWanted, fx: &mut Effects) {
        let LastWanted { asker, topic } = wanted;
        // What is kept from now on comes behind this.
        self.note_asker(now, asker.clone());
        let unix_s = now.unix_s();
        let kept = self.retained.get(&topic).filter(|message| !message.expired(unix_s)).cloned();
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
        let own =
            options & option::NO_LOCAL != 0 && message.publisher == self.publisher_of(&session.id);
        let may = options & option::PARTLY == 0 && !session.is_reaching()
            || self.sessions.may(session, Act::Read, message.topic());
        if own || !may {
            return;
        }
        let ids: SubscriptionIds = session.subscription_id(number).map(|id| Arc::from([id]));
        let verdict = match last {
            true if self.newcomers.kept_last(key, asker.since, &message) => Verdict::New,
            true => Verdict::Had,
            false => self.newcomers.kept(now, key, asker.since, &message),
        };
        match verdict {
            Verdict::Had => {}
            Verdict::Doubt => self.ask_last(now, asker, message.topic().into(), fx),
            Verdict::New => {
                fx.counters.count(Counter::RetainedSent);
                let qos = qos_of(options).min(message.qos);
                self.hand_late(now, key, (&message, qos, ids), fx);
            }
        }
    }

    fn hand_late(
        &mut self,
        now: Now,
        key: Key,
        (message, qos, ids): (&Arc<Publication>, Qos, SubscriptionIds),
        fx: &mut Effects,
    ) {
        // That a topic is cleared is said live alone.
        let retain = !message.payload().is_empty();
        let conn = self.sessions.online(key);
        match (qos, conn) {
            (Qos::AtMostOnce, None) => self.dropped(now, key, (Drop::Offline, 1), fx),
            (Qos::AtMostOnce, Some(conn)) => {
                fx.counters.count(Counter::Delivered);
                let outgoing = straight(message.clone(), retain, ids);
                fx.deliveries.push((conn, SessionDelivery::Publish(outgoing)));
            }
            _ => {
                let entry = Entry::of(message, (qos, retain), ids);
                if self.make_room(now, key, (entry.cost(), 0), fx) {
                    self.enqueue(now, key, entry, fx);
                }
            }
        }
    }
}

/// A message of QoS 0 for one client.
pub(crate) fn straight(
    message: Arc<Publication>,
    retain: bool,
    subscription_ids: SubscriptionIds,
) -> Outgoing {
    let (id, qos, again, shared) = (0, Qos::AtMostOnce, false, false);
    Outgoing { message, id, qos, again, retain, shared, subscription_ids }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::made::NOW;
    use model::id::{SessionRef, ShardId};

    fn asker(slot: u32, filter: &Arc<str>) -> Asker {
        let session = SessionRef::new(ShardId(0), Key { slot, generation: 0 });
        Asker { session, filter: Arc::clone(filter), since: 0 }
    }

    #[test]
    fn so_many_pages_are_remembered_and_for_so_long() {
        let (mut asked, filter) = (Asked::default(), Arc::from("t"));
        (0..ASKED_MAX as u32).for_each(|slot| asked.push(NOW, asker(slot, &filter)));
        assert_eq!((asked.askers.len(), asked.bytes), (ASKED_MAX, ASKED_MAX));
        asked.push(NOW, asker(7, &filter));
        assert_eq!((asked.askers.len(), asked.bytes), (ASKED_MAX, ASKED_MAX));
        assert_eq!(asked.askers[0].1.session.key().slot, 1, "the oldest goes");
        let at = |nanos: i64| {
            let mono = Instant::from_nanos(NOW.after(SPAN).nanos().wrapping_add_signed(nanos));
            Now::new(mono, NOW.wall_ms)
        };
        asked.push(at(-1), asker(8, &filter));
        assert_eq!(asked.askers.len(), ASKED_MAX);
        asked.push(at(0), asker(9, &filter));
        assert_eq!((asked.askers.len(), asked.bytes), (2, 2), "their letters have come");
        assert_eq!(asked.count, ASKED_MAX as u64 + 3);
    }

    #[test]
    fn their_filters_have_so_many_bytes() {
        let (mut asked, filter) = (Asked::default(), Arc::from("t".repeat(1_024)));
        let most = ASKED_BYTES_MAX / 1_024;
        (0..most as u32).for_each(|slot| asked.push(NOW, asker(slot, &filter)));
        assert_eq!((asked.askers.len(), asked.bytes), (most, ASKED_BYTES_MAX));
        asked.push(NOW, asker(9, &Arc::from("t")));
        assert_eq!((asked.askers.len(), asked.bytes), (most, ASKED_BYTES_MAX - 1_023));
    }

    #[test]
    fn those_behind_a_page_are_told_once_each_the_last_first() {
        let mut asked = Asked::default();
        let filters: [Arc<str>; 2] = [Arc::from("t/#"), Arc::from("u")];
        for (slot, filter) in [(1, 0), (2, 0), (1, 1), (1, 0), (3, 0)] {
            asked.push(NOW, asker(slot, &filters[filter]));
        }
        let behind = |count: u64, topic: &str| {
            let found = asked.behind(count, topic);
            found.iter().map(|asker| asker.session.key().slot).collect::<Vec<_>>()
        };
        assert_eq!(behind(0, "t/x"), [3, 1, 2]);
        assert_eq!(behind(4, "t/x"), [3]);
        assert_eq!((behind(5, "t/x"), behind(9, "t/x")), (vec![], vec![]));
        assert_eq!((behind(2, "u"), behind(3, "u")), (vec![1], vec![]));
    }
}

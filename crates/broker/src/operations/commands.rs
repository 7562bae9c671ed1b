//! Commands of the API about clients, subscriptions and retained messages.

use crate::Broker;
use crate::Effects;
use crate::message::answers::{Origin, PendingAnswer};
use crate::message::route::holder::{option, qos_of};
use crate::retained::Most;
use base::slab::Key;
use base::time::Now;
use model::chat::CHAT_TOPICS;
use model::close::CloseReason;
use model::ports::topics::{
    ClientFilter, ClientState, SubscriptionState, TopicAnswer, TopicCommand,
};
use model::session::{Denial, Denied};
use model::topic::{Publication, RetainHandling, SubscriptionOptions};
use std::sync::Arc;

/// Clients in one answer, at most.
const CLIENTS_MAX: u32 = 1_024;

/// Records looked at for one answer, at most.
const LOOK_MAX: u32 = 65_536;

/// Bytes of retained messages in one answer, but always one.
const RETAINED_BYTES_MAX: usize = 1024 * 1024;

impl Broker {
    /// The API asks; the answer comes in `fx.answers` under `ask`.
    pub fn command(&mut self, now: Now, ask: u64, command: TopicCommand, fx: &mut Effects) {
        let answer = match command {
            TopicCommand::Publish { message, delay_s } => {
                return self.command_publish(now, ask, message, delay_s, fx);
            }
            TopicCommand::Clients { of, after, count } => {
                self.clients(now, |key| self.fits(key, &of), after, count)
            }
            TopicCommand::Client(id) => {
                let key = self.sessions.find(&id);
                TopicAnswer::Client(key.and_then(|key| self.client(now, key)).map(Box::new))
            }
            TopicCommand::Subscriptions(id) => {
                let key = self.sessions.find(&id);
                TopicAnswer::Subscriptions(key.map(|key| self.subscriptions(key)))
            }
            TopicCommand::Subscribe(id, wish) => TopicAnswer::Done(match self.sessions.find(&id) {
                Some(key) => self.subscribe_for(now, key, wish, fx),
                None => false,
            }),
            TopicCommand::Unsubscribe(id, filter) => {
                TopicAnswer::Done(match self.sessions.find(&id) {
                    Some(key) => self.unsubscribe_for(now, key, &filter, fx),
                    None => false,
                })
            }
            TopicCommand::Kick(id) => TopicAnswer::Done(self.kick(now, &id, fx)),
            TopicCommand::DropSession(id) => {
                let key = self.sessions.find(&id);
                self.kick(now, &id, fx);
                if let Some(key) = key.filter(|&key| self.sessions.at(key).is_some()) {
                    self.end_session(now, key, fx);
                }
                TopicAnswer::Done(key.is_some())
            }
            TopicCommand::Retained { filter, after, count } => {
                let most = Most { count: count as usize, bytes: RETAINED_BYTES_MAX };
                self.retained_answer(now, &filter, after, most)
            }
            TopicCommand::ClearRetained(topic) => {
                TopicAnswer::Done(self.clear_retained(&topic, fx))
            }
        };
        fx.answers.push((ask, answer));
    }

    fn command_publish(
        &mut self,
        now: Now,
        ask: u64,
        message: Arc<Publication>,
        delay_s: u32,
        fx: &mut Effects,
    ) {
        if message.is_under(CHAT_TOPICS) {
            // Nothing is published there, and nobody would hear it.
            return fx.answers.push((ask, TopicAnswer::Published { matched: false }));
        }
        let mut own = (*message).clone();
        own.publisher = 0;
        self.routing.stamp(now, &mut own);
        let (message, mut pending_answer) =
            (Arc::new(own), PendingAnswer::of(Origin::Command(ask)));
        if delay_s == 0 {
            self.publish_for(now, message, pending_answer, fx);
            return;
        }
        self.put_by_for(now, message, delay_s, &mut pending_answer, fx);
        self.close(now, pending_answer, true, fx);
    }

    fn kick(&mut self, now: Now, id: &str, fx: &mut Effects) -> bool {
        let Some(key) = self.sessions.find(id) else { return false };
        let online = self.sessions.at(key).is_some_and(|session| session.conn().is_some());
        self.end(now, key, Denied::of(Denial::AdminKick, CloseReason::AdminKick), fx);
        online
    }

    fn fits(&self, key: Key, of: &ClientFilter) -> bool {
        let Some(session) = self.sessions.at(key) else { return false };
        let online = session.online().is_some();
        let name = || self.sessions.principal(session).user.as_deref();
        let address = || session.peer().filter(|_| online).map(|peer| peer.ip().to_canonical());
        let queued = || session.more.as_ref().map_or(0, |more| more.queue.count() as u32);
        of.online.is_none_or(|wanted| online == wanted)
            && of.user.as_deref().is_none_or(|user| name() == Some(user))
            && of.prefix.as_deref().is_none_or(|prefix| session.id().starts_with(prefix))
            && of.address.is_none_or(|from| address() == Some(from.to_canonical()))
            && of.queued_min.is_none_or(|least| queued() >= least)
            && of.dropped_min.is_none_or(|least| session.dropped() >= least)
    }

    fn clients(
        &self,
        now: Now,
        fits: impl Fn(Key) -> bool,
        after: Option<u64>,
        count: u32,
    ) -> TopicAnswer {
        let behind = |after: u64| u32::try_from(after.saturating_add(1)).unwrap_or(u32::MAX);
        let mut slot = after.map_or(0, behind);
        let (mut clients, mut looked) = (Vec::new(), 0);
        while slot < self.sessions.slots() {
            if clients.len() as u32 == count.min(CLIENTS_MAX) || looked == LOOK_MAX {
                let next = Some(u64::from(slot) - 1);
                return TopicAnswer::Clients { clients, next };
            }
            if let Some((key, _)) = self.sessions.tenant(slot)
                && fits(key)
            {
                clients.extend(self.client(now, key));
            }
            (slot, looked) = (slot + 1, looked + 1);
        }
        TopicAnswer::Clients { clients, next: None }
    }

    fn client(&self, now: Now, key: Key) -> Option<ClientState> {
        let session = self.sessions.at(key)?;
        let more = session.more.as_ref();
        let queue = more.map(|more| &more.queue);
        Some(ClientState {
            client_id: Box::<str>::from(session.id()),
            user: self.sessions.principal(session).user.clone(),
            online: session.online().is_some(),
            protocol: self.sessions.protocol_name(session.protocol()),
            peer: session.peer().filter(|_| session.online().is_some()),
            since_ms: session.version().unix_ms().min(now.wall_ms),
            seen_ms: session.seen_ms(now),
            version: session.version(),
            reason: session.reason().filter(|_| session.online().is_none()),
            keep_alive_s: session.keep_alive_s(),
            expiry_s: session.expiry_s(),
            subscriptions: session.subscriptions() as u32,
            inflight: queue.map_or(0, |queue| queue.on_way() as u32),
            queued: queue.map_or(0, |queue| queue.count() as u32),
            queued_bytes: queue.map_or(0, |queue| queue.bytes()),
            dropped: session.dropped(),
            has_will: session.will().is_some(),
        })
    }

    fn subscriptions(&self, key: Key) -> Vec<SubscriptionState> {
        let Some(session) = self.sessions.at(key) else { return Vec::new() };
        let state = |filter: Box<str>, options: u8, subscription_id| SubscriptionState {
            wish: SubscriptionOptions {
                filter,
                qos: qos_of(options),
                no_local: options & option::NO_LOCAL != 0,
                retain_as_published: options & option::AS_PUBLISHED != 0,
                retain_handling: RetainHandling::Send,
            },
            granted: qos_of(options),
            subscription_id,
        };
        let own = session.filters().filter_map(|filter| {
            let options = self.subscriptions.options(filter, key.slot)?;
            let text = self.subscriptions.text(filter, session.id());
            Some(state(text.into(), options, session.subscription_id(filter)))
        });
        let shares = session.more.iter().flat_map(|more| more.shares.iter());
        let shares = shares.map(|s| state(s.filter.clone(), s.options, s.subscription_id));
        own.chain(shares).collect()
    }

    fn retained_answer(
        &self,
        now: Now,
        filter: &str,
        after: Option<Box<str>>,
        most: Most,
    ) -> TopicAnswer {
        let (mut messages, mut after, mut bytes) = (Vec::new(), after, 0);
        // A page may be empty although there is more: the replay goes in slices.
        for _ in 0..64 {
            let page = self.retained.all().page(now.unix_s(), filter, after.as_deref(), most);
            for message in page.messages {
                bytes += message.weight();
                let is_full = messages.len() >= most.count || bytes > most.bytes;
                if is_full && !messages.is_empty() {
                    let next = messages.last().map(|last: &Arc<Publication>| last.topic().into());
                    return TopicAnswer::Retained { messages, next };
                }
                messages.push(message);
            }
            after = page.next;
            if after.is_none() || messages.len() >= most.count {
                break;
            }
        }
        TopicAnswer::Retained { messages, next: after }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::made::{NOW, broker};
    use model::limits::Limits;

    fn ask(broker: &mut Broker, command: TopicCommand) -> TopicAnswer {
        let mut fx = Effects::default();
        broker.command(NOW, 1, command, &mut fx);
        fx.answers.pop().expect("an answer").1
    }

    /// A page of clients whose names begin so: how many there are, and where to go on.
    fn page(broker: &mut Broker, prefix: &str, after: Option<u64>) -> (usize, Option<u64>) {
        let of = ClientFilter { prefix: Some(prefix.into()), ..ClientFilter::default() };
        match ask(broker, TopicCommand::Clients { of, after, count: u32::MAX }) {
            TopicAnswer::Clients { clients, next } => (clients.len(), next),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_has_so_many_clients_and_looks_at_so_many() {
        for (count, next) in [(CLIENTS_MAX, None), (CLIENTS_MAX + 1, Some(1_023))] {
            let mut broker = broker(|_| {});
            (0..count).for_each(|n| _ = broker.sessions.insert(&format!("a{n}")));
            assert_eq!(page(&mut broker, "", None), (1_024, next), "{count}");
            assert_eq!(page(&mut broker, "", next.or(Some(9_999))).1, None);
        }
        for (count, next) in [(LOOK_MAX, None), (LOOK_MAX + 1, Some(65_535))] {
            let mut broker = broker(|_| {});
            (0..count).for_each(|n| _ = broker.sessions.insert(&format!("a{n}")));
            assert_eq!(page(&mut broker, "none", None), (0, next), "{count}");
            assert_eq!(page(&mut broker, "a65536", Some(65_535)).0, usize::from(next.is_some()));
            assert_eq!(page(&mut broker, "a", Some(u64::MAX)), (0, None), "behind all of them");
        }
    }

    #[test]
    fn an_answer_has_so_many_bytes_of_retained_messages_and_one_at_least() {
        let message = |n: usize, bytes: usize| {
            let mut message = Publication::new(&format!("t/{n}"), &[], &vec![7; bytes]);
            message.retain = true;
            Arc::new(message)
        };
        let none = message(0, 0).weight();
        let half = RETAINED_BYTES_MAX / 2 - none;
        for (sizes, shown) in [
            (vec![half; 2], 2),
            (vec![half; 5], 2),
            (vec![half, half + 1, 1], 1),
            (vec![RETAINED_BYTES_MAX * 2, 1], 1),
            (vec![1; 5], 4),
        ] {
            let mut broker = broker(|settings| {
                let mut limits = Limits::clone(&settings.limits);
                limits.topics.retained_bytes_max = 1 << 40;
                settings.limits = Arc::new(limits);
            });
            for (n, bytes) in sizes.iter().enumerate() {
                broker.retained.set(message(n, *bytes)).expect("room");
            }
            let command = |after: Option<&str>| TopicCommand::Retained {
                filter: "#".into(),
                after: after.map(Box::from),
                count: 4,
            };
            let TopicAnswer::Retained { messages, next } = ask(&mut broker, command(None)) else {
                panic!("a page")
            };
            let more = sizes.len() > shown;
            assert_eq!((messages.len(), next.is_some()), (shown, more), "{sizes:?}");
            let Some(next) = next else { continue };
            let TopicAnswer::Retained { messages, .. } = ask(&mut broker, command(Some(&next)))
            else {
                panic!("a page")
            };
            let first = messages.first().map(|message| message.topic().to_owned());
            assert_eq!(first, Some(format!("t/{shown}")), "none is passed over");
        }
    }

    #[test]
    fn a_page_without_a_match_says_where_to_go_on() {
        let mut broker = broker(|_| {});
        let names = (0..70_000).map(|n| format!("t/{n:05}/x"));
        for name in names.chain(["t/99999/y".into()]) {
            let mut message = Publication::new(&name, &[], b"x");
            message.retain = true;
            broker.retained.set(Arc::new(message)).expect("room");
        }
        let (mut after, mut empty) = (None, 0);
        loop {
            let command = TopicCommand::Retained { filter: "+/+/y".into(), after, count: 1 };
            let TopicAnswer::Retained { messages, next } = ask(&mut broker, command) else {
                panic!("a page")
            };
            if let [found] = &messages[..] {
                assert_eq!((found.topic(), empty), ("t/99999/y", 1));
                break;
            }
            assert!(next.is_some(), "the page is empty, and there is more");
            (after, empty) = (next, empty + 1);
        }
    }
}

//! Subscriptions come and go, packet by packet.
//!
//! The first filters of a packet are looked at when it comes, those of a long one a slice a turn. A
//! filter is held once by a session; the same one again replaces it (MQTT5 3.8.4-3). A durable
//! session's subscription is granted when its row is on stable storage. A filter is refused alone:
//! the others of the packet are granted all the same (MQTT5 3.8.4-5).

use super::answers::Origin;
use super::groups::{SHARE, shared_filter};
use super::packets::{Granting, Next, Packet, Renewed, Rest};
use super::route::holder::{option, options_of, qos_of};
use super::subscriptions::{Held, Hold};
use crate::Broker;
use crate::Effects;
use crate::durable::calls::PendingCall;
use crate::durable::rows::{SubscriptionRow, subscription_key};
use crate::session::chat_calls::is_of_chat;
use crate::session::record::Session;
use base::slab::Key;
use base::time::{Instant, Now};
use model::chat::CHAT_EVENTS;
use model::close::CloseReason;
use model::counters::TopicCounter;
use model::ports::access::Reach;
use model::ports::events::ClientWhat;
use model::ports::log::{Call, Table, Write};
use model::session::{Denial, Denied, SubscribeRequest, UnsubscribeRequest};
use model::topic::{Qos, RetainHandling, SubscriptionOptions};

/// In front of a filter that nobody else may have.
const EXCLUSIVE: &str = "$exclusive/";

/// Filters of a packet that are looked at when it comes, and of one session in a turn.
pub(crate) const FILTERS_AT_ONCE: usize = 128;

/// Filters that are looked at in a turn, of all packets that were too long.
pub(crate) const FILTERS_A_TURN: usize = 512;

/// A subscription that a client wants.
pub(crate) struct Wish {
    /// Options that the client asked for.
    pub options: SubscriptionOptions,
    /// The number that deliveries are to name.
    pub subscription_id: Option<u32>,
    /// Where the owner of a shared group answers.
    pub joining: Option<Origin>,
}

/// A wish that was granted.
pub(super) struct Granted {
    pub qos: Qos,
    /// Row to write before the answer.
    pub row: Option<Write>,
    /// The number of the filter whose retained messages are wanted then, and since when it is held.
    pub wanted: Option<(u32, u64)>,
    /// The owner of its group has to know it first.
    pub joins: bool,
    /// The subscription that the session had under the filter.
    pub before: Option<Renewed>,
}

impl Broker {
    /// A client subscribes.
    pub(crate) fn subscribe(
        &mut self,
        now: Now,
        key: Key,
        packet: SubscribeRequest,
        fx: &mut Effects,
    ) {
        let rest = Rest::Wishes(packet.wishes.into_iter(), packet.subscription_id);
        self.packet_in(now, key, packet.id, rest, fx);
    }

    /// A client unsubscribes.
    pub(crate) fn unsubscribe(
        &mut self,
        now: Now,
        key: Key,
        packet: UnsubscribeRequest,
        fx: &mut Effects,
    ) {
        self.packet_in(now, key, packet.id, Rest::Filters(packet.filters.into_iter()), fx);
    }

    fn packet_in(&mut self, now: Now, key: Key, id: u16, rest: Rest, fx: &mut Effects) {
        let Some(conn) = self.sessions.online(key) else { return };
        let mut packet = match self.packets.open(key, conn, id, rest) {
            Ok(packet) => packet,
            Err(granting) => return self.tell_granted(now, *granting, fx),
        };
        let number = packet.granting;
        let is_first = !self.packets.has(key);
        if is_first && self.work_on(now, key, &mut packet, FILTERS_AT_ONCE, fx) {
            return self.packet_over(now, number, fx);
        }
        if !self.packets.put(key, packet) {
            // It is over before its answer, which would be shorter than what was asked.
            self.end(now, key, Denied::of(Denial::Quota, CloseReason::Quota), fx);
            self.packet_over(now, number, fx);
        }
    }

    /// Looks at so many filters of a packet; true: that were all.
    fn work_on(
        &mut self,
        now: Now,
        key: Key,
        packet: &mut Packet,
        most: usize,
        fx: &mut Effects,
    ) -> bool {
        let number = packet.granting;
        for _ in 0..most {
            self.units.spend(1);
            let row = match packet.next(&self.packets) {
                Some(Next::Wish(wish)) => self.grant_one(now, key, number, wish, fx),
                Some(Next::Filter(filter)) => self.withdraw_one(now, key, number, filter, fx),
                None => return true,
            };
            let Some(granting) = self.packets.at_mut(number) else { return true };
            if let Some(row) = row {
                let pending = PendingCall::Granted(number, granting.wait_for_row());
                self.log.ask(pending, Call::Write(row), fx);
            }
        }
        packet.is_at_end()
    }

    fn grant_one(
        &mut self,
        now: Now,
        key: Key,
        number: Key,
        wish: Wish,
        fx: &mut Effects,
    ) -> Option<Write> {
        let filter = wish.options.filter.clone();
        let (result, granted) = match self.grant(now, key, wish, fx) {
            Ok(granted) => (Ok(granted.qos), granted),
            Err(why) => {
                fx.counters.count(TopicCounter::SubscribesRefused);
                self.packets.at_mut(number)?.subscribed(filter, Err(why), None, false);
                return None;
            }
        };
        fx.counters.count(TopicCounter::Subscribed);
        let granting = self.packets.at_mut(number)?;
        granting.subscribed(filter, result, granted.wanted, granted.joins);
        granting.renewed(granted.before);
        granted.row
    }

    fn withdraw_one(
        &mut self,
        now: Now,
        key: Key,
        number: Key,
        filter: Box<str>,
        fx: &mut Effects,
    ) -> Option<Write> {
        let (was_there, row) = self.withdraw(now, key, &filter, fx);
        self.packets.at_mut(number)?.unsubscribed(filter, was_there);
        row
    }

    /// Goes on with long packets, a slice of each in turn.
    pub(crate) fn turn_packets(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let (mut left, mut goes_on) = (FILTERS_A_TURN, false);
        for _ in 0..self.packets.waiting() {
            let Some((key, mut packet)) = self.packets.take() else { continue };
            let granting = self.packets.at(packet.granting);
            let online = self.sessions.online(key);
            let is_here = granting.is_some_and(|granting| Some(granting.conn) == online);
            let waits = granting.is_some_and(Granting::is_busy) || !self.log.is_easy();
            let most = left.min(FILTERS_AT_ONCE);
            // A connection that is gone is not waited for: its packets are over.
            let is_over = !is_here
                || !waits && most > 0 && {
                    left -= most;
                    self.work_on(now, key, &mut packet, most, fx)
                };
            if is_over {
                self.packet_over(now, packet.granting, fx);
            }
            goes_on |= !waits || is_over;
            self.packets.had_turn(key, (!is_over).then_some(packet));
        }
        (goes_on && self.packets.waiting() > 0).then_some(now.mono)
    }

    /// A packet was looked at to its end, or is looked at no further.
    fn packet_over(&mut self, now: Now, number: Key, fx: &mut Effects) {
        if let Some(granting) = self.packets.arrived(number) {
            self.tell_granted(now, granting, fx);
        }
    }

    /// A row of a subscription was answered, or the owner of its group.
    pub(crate) fn granted(
        &mut self,
        now: Now,
        number: Key,
        at: usize,
        result: Result<(), Denial>,
        fx: &mut Effects,
    ) {
        let Some(granting) = self.packets.at_mut(number) else { return };
        let key = granting.session;
        let refused = result.err().and_then(|why| granting.refuse(at, why));
        match refused {
            // A subscription that was there stays as it was.
            Some((filter, Some(before))) => self.holds_again(now, key, &filter, before, fx),
            // What is not on stable storage, or not known to its group, is not granted.
            Some((filter, None)) => _ = self.unsubscribe_for(now, key, &filter, fx),
            None => {}
        }
        self.packet_over(now, number, fx);
    }

    /// Gives a subscription back the options that it had, unless it has others than those that were
    /// refused by now.
    fn holds_again(
        &mut self,
        now: Now,
        key: Key,
        filter: &str,
        Renewed { options, subscription_id, given }: Renewed,
        fx: &mut Effects,
    ) {
        let Some(session) = self.sessions.at(key) else { return };
        let filter = self.subscribed_as(session, filter).unwrap_or_else(|| filter.into());
        if filter.starts_with(SHARE) {
            let share = session.more.as_ref().and_then(|more| more.shares.get(&filter));
            if share.is_some_and(|share| share.options == given) {
                let row = SubscriptionRow { options, subscription_id, filter: filter.into() };
                _ = self.join_group(now, key, row, None, fx); // it is its member already
            }
            return;
        }
        let plain = filter.strip_prefix(EXCLUSIVE).unwrap_or(&filter);
        let known = self.subscriptions.known(session, key.slot, plain);
        if known.is_some_and(|known| known.options == given) {
            // There is room for what is there.
            _ = self.holds(key, plain, (options, subscription_id), known);
        }
    }

    /// Subscribes a session to a filter, or changes how it is subscribed; returns the filter's
    /// number.
    fn holds(
        &mut self,
        key: Key,
        filter: &str,
        (options, subscription_id): (u8, Option<u32>),
        known: Option<Held>,
    ) -> Result<u32, Denial> {
        let session = self.sessions.at(key).ok_or(Denial::Protocol)?;
        let (client_id, durable, slot) = (session.id(), session.is_durable(), key.slot);
        let number =
            self.subscriptions.hold(Hold { filter, client_id, slot, options, durable }, known)?;
        let session = self.sessions.at_mut(key).ok_or(Denial::Protocol)?;
        match known {
            Some(before) => session.change_filter(before.number, number),
            None => session.add_filter(number),
        }
        session.set_subscription_id(number, subscription_id);
        session.rest();
        Ok(number)
    }

    fn tell_granted(&mut self, now: Now, mut granting: Granting, fx: &mut Effects) {
        let (key, conn) = (granting.session, granting.conn);
        if self.sessions.online(key) == Some(conn) {
            let wanted = std::mem::take(&mut granting.wanted);
            let is_about_events = granting.is_about_events();
            fx.deliveries.push((conn, granting.into_word()));
            if is_about_events {
                self.tell_device(key, fx);
            }
            self.replay(now, key, wanted, fx);
        }
    }

    /// An operator subscribes a client; false: it is refused.
    pub(crate) fn subscribe_for(
        &mut self,
        now: Now,
        key: Key,
        wish: SubscriptionOptions,
        fx: &mut Effects,
    ) -> bool {
        let wish = Wish { options: wish, subscription_id: None, joining: None };
        let is_about_events = wish.options.filter.starts_with(CHAT_EVENTS);
        let Ok(granted) = self.grant(now, key, wish, fx) else { return false };
        if is_about_events {
            self.tell_device(key, fx);
        }
        fx.counters.count(TopicCounter::Subscribed);
        if let Some(row) = granted.row {
            self.log.write(row, fx);
        }
        if let Some(wanted) = granted.wanted {
            self.replay(now, key, [wanted], fx);
        }
        true
    }

    /// A client is unsubscribed without its asking; whether it was subscribed.
    pub(crate) fn unsubscribe_for(
        &mut self,
        now: Now,
        key: Key,
        filter: &str,
        fx: &mut Effects,
    ) -> bool {
        let (was_there, row) = self.withdraw(now, key, filter, fx);
        if let Some(row) = row {
            self.log.write(row, fx);
        }
        if filter.starts_with(CHAT_EVENTS) {
            self.tell_device(key, fx);
        }
        was_there
    }

    /// Makes the configured subscriptions of a new session of this client.
    pub(crate) fn auto_subscribe(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(wishes) = &self.settings.auto_subscribes else { return };
        let Some(session) = self.sessions.at(key) else { return };
        let wishes = wishes.wishes(self.sessions.names(session));
        for wish in wishes {
            self.subscribe_for(now, key, wish, fx);
        }
    }

    /// Grants one wish, or says why not.
    pub(super) fn grant(
        &mut self,
        now: Now,
        key: Key,
        mut wish: Wish,
        fx: &mut Effects,
    ) -> Result<Granted, Denial> {
        let session = self.sessions.at(key).ok_or(Denial::Protocol)?;
        let filter = self.subscribed_as(session, &wish.options.filter);
        let filter = filter.map_or_else(|| wish.options.filter.clone(), Box::from);
        if filter.starts_with(SHARE) {
            return self.grant_share(now, key, filter, wish, fx);
        }
        let plain = filter.strip_prefix(EXCLUSIVE).unwrap_or(&filter);
        if plain.is_empty() || filter.len() > self.filter_bytes_max() {
            return Err(Denial::FilterInvalid);
        }
        if is_of_chat(plain) {
            self.may_hear_chat(session, &filter)?;
            wish.options.qos = Qos::AtMostOnce;
        }
        let mut options = self.options_for(session, plain, &wish)?;
        let (durable, slot) = (session.is_durable(), key.slot);
        let known = self.subscriptions.known(session, slot, plain);
        if known.is_none() {
            self.may_grow(session)?;
        }
        if plain.len() != filter.len() {
            options |= option::EXCLUSIVE;
        }
        let Wish { options: asked, subscription_id, .. } = wish;
        let before = known.map(|known| {
            let subscription_id = session.subscription_id(known.number);
            Renewed { options: known.options, subscription_id, given: options }
        });
        let number = self.holds(key, plain, (options, subscription_id), known)?;
        let session = self.sessions.at(key).ok_or(Denial::Protocol)?;
        let id = Box::<str>::from(session.id());
        let row = durable.then(|| {
            let row = SubscriptionRow { options, subscription_id, filter: plain.into() };
            let key = subscription_key(self.settings.home, &id, plain);
            Write::Put { table: Table::Subscriptions, key, value: row.encode() }
        });
        let wants = match asked.retain_handling {
            RetainHandling::Send => true,
            RetainHandling::SendIfNew => known.is_none(),
            RetainHandling::DoNotSend => false,
        };
        let wanted = wants.then(|| (number, self.replays.newcomers().come(now, key)));
        let (filter, qos, joins) = (asked.filter, qos_of(options), false);
        self.sessions.event(now, key, || ClientWhat::Subscribed { filter, qos }, fx);
        Ok(Granted { qos, row, wanted, joins, before })
    }

    /// The options of a subscription of this session; not authorised: it reaches nothing.
    fn options_for(&self, session: &Session, plain: &str, wish: &Wish) -> Result<u8, Denial> {
        let bit = |on: bool, bits: u8| if on { bits } else { 0 };
        let reach = match self.sessions.reach(session, plain) {
            Reach::All => 0,
            Reach::Partly => option::PARTLY,
            Reach::Nothing => return Err(Denial::NotAuthorized),
        };
        let bridge = bit(session.is_bridge(), option::NO_LOCAL | option::AS_PUBLISHED);
        let id = bit(wish.subscription_id.is_some(), option::HAS_ID);
        Ok(options_of(&wish.options) | reach | bridge | id)
    }

    fn grant_share(
        &mut self,
        now: Now,
        key: Key,
        filter: Box<str>,
        wish: Wish,
        fx: &mut Effects,
    ) -> Result<Granted, Denial> {
        let session = self.sessions.at(key).ok_or(Denial::Protocol)?;
        let plain = shared_filter(&filter).ok_or(Denial::FilterInvalid)?;
        let limits = &self.settings.limits.topics;
        let name_bytes = filter.len() - SHARE.len() - 1 - plain.len();
        if name_bytes > usize::from(limits.share_name_bytes_max)
            || plain.len() > usize::from(limits.topic_bytes_max)
        {
            return Err(Denial::FilterInvalid);
        }
        if is_of_chat(plain) {
            return Err(Denial::NotAuthorized);
        }
        let mut options = options_of(&wish.options) & !option::NO_LOCAL;
        match self.sessions.reach(session, plain) {
            Reach::All => {}
            Reach::Partly => options |= option::PARTLY,
            Reach::Nothing => return Err(Denial::NotAuthorized),
        }
        let durable = session.is_durable();
        let known = session.more.as_ref().and_then(|more| more.shares.get(&filter));
        let before = known.map(|share| {
            let (before, subscription_id) = (share.options, share.subscription_id);
            Renewed { options: before, subscription_id, given: options }
        });
        if before.is_none() {
            self.may_grow(session)?;
        }
        let row = SubscriptionRow { options, subscription_id: wish.subscription_id, filter };
        let write = durable.then(|| {
            let key = subscription_key(self.settings.home, session.id(), &row.filter);
            Write::Put { table: Table::Subscriptions, key, value: row.encode() }
        });
        self.join_group(now, key, row, wish.joining, fx)?;
        let qos = qos_of(options);
        let filter = wish.options.filter;
        self.sessions.event(now, key, || ClientWhat::Subscribed { filter, qos }, fx);
        Ok(Granted { qos, row: write, wanted: None, joins: wish.joining.is_some(), before })
    }

    /// The filter that one becomes that a session subscribes to, if that is another one.
    fn subscribed_as(&self, session: &Session, filter: &str) -> Option<String> {
        self.settings.rewrites.as_ref()?.subscribed(filter, self.sessions.names(session))
    }

    /// Whether there may be one more subscription.
    fn may_grow(&self, session: &Session) -> Result<(), Denial> {
        let limits = &self.settings.limits.topics;
        let full = session.subscriptions() >= limits.subscriptions_a_session_max as usize
            || !self.subscriptions.has_room();
        if full { Err(Denial::Quota) } else { Ok(()) }
    }

    /// Takes a subscription back: whether it was there, and the row that has to go.
    pub(super) fn withdraw(
        &mut self,
        now: Now,
        key: Key,
        filter: &str,
        fx: &mut Effects,
    ) -> (bool, Option<Write>) {
        let Some(session) = self.sessions.at(key) else { return (false, None) };
        let rewritten = self.subscribed_as(session, filter);
        let other = rewritten.as_deref().unwrap_or(filter);
        let (durable, id) = (session.is_durable(), Box::<str>::from(session.id()));
        let plain = other.strip_prefix(EXCLUSIVE).unwrap_or(other);
        let was_there = match other.starts_with(SHARE) {
            true => self.leave_group(now, key, other, fx),
            false => {
                let known = self.subscriptions.known(session, key.slot, plain);
                known.is_some_and(|held| self.forget_filter(key, held.number, durable))
            }
        };
        // One that is not there may be gone since a moment only, and its row not yet: what is said
        // of it waits for the row all the same.
        let may_have_row = was_there || plain.len() <= self.filter_bytes_max();
        let row = (durable && may_have_row).then(|| Write::Delete {
            table: Table::Subscriptions,
            key: subscription_key(self.settings.home, &id, plain),
        });
        if was_there {
            fx.counters.count(TopicCounter::Unsubscribed);
            let filter: Box<str> = filter.into();
            self.sessions.event(now, key, || ClientWhat::Unsubscribed { filter }, fx);
        }
        (was_there, row)
    }

    fn filter_bytes_max(&self) -> usize {
        usize::from(self.settings.limits.topics.topic_bytes_max)
    }

    /// A subscription of a session goes, and its row.
    pub(crate) fn let_go_filter(&mut self, key: Key, filter: u32, durable: bool, fx: &mut Effects) {
        let Some(session) = self.sessions.at(key) else { return };
        let id = Box::<str>::from(session.id());
        let text = self.subscriptions.text(filter, &id);
        if self.forget_filter(key, filter, durable) && durable {
            let key = subscription_key(self.settings.home, &id, &text);
            self.log.delete(Table::Subscriptions, key, fx);
        }
    }

    fn forget_filter(&mut self, key: Key, filter: u32, durable: bool) -> bool {
        let Some(session) = self.sessions.at_mut(key) else { return false };
        let was_there = self.subscriptions.let_go(filter, session.id(), key.slot, durable);
        if was_there {
            session.drop_filter(filter);
            session.rest();
        }
        was_there
    }
}

//! Standing interests come and go.
//!
//! A filter is held once by a session; the same one again replaces it (MQTT5 3.8.4-3). A durable
//! session's subscription is granted when its row is on stable storage. What is refused is refused
//! alone: the others of the packet are granted all the same (MQTT5 3.8.4-5).

use super::filters::{option, options_of, qos_of};
use super::walk::Wanted;
use crate::Broker;
use crate::durable::rows::{SubscriptionRow, subscription_key};
use crate::durable::tickets::Promise;
use crate::effects::Effects;
use crate::rewrite::Names;
use crate::routes::Refused;
use crate::session::record::Session;
use base::slab::Key;
use base::time::Now;
use model::event::{ClientWhat, Counter};
use model::id::ConnRef;
use model::ports::access::Reach;
use model::ports::log::{Call, Done, StoreError, Table, Write};
use model::session::{Denial, SessionDelivery, Subscribe, Unsubscribe};
use model::topic::{Qos, RetainHandling, Wish};

/// In front of the filter of a shared subscription: group, and the filter.
pub(crate) const SHARE: &str = "$share/";

/// In front of a filter that nobody else may have.
const EXCLUSIVE: &str = "$exclusive/";

/// Answers to subscribers that may wait for the log, a shard.
pub(crate) const GRANTINGS_MAX: usize = 1 << 20;

/// An answer to a subscriber that waits for rows.
pub(crate) struct Granting {
    key: Key,
    conn: ConnRef,
    id: u16,
    left: u32,
    results: Results,
    /// What retained messages are wanted then.
    wanted: Vec<Wanted>,
    filters: Vec<Box<str>>,
}

enum Results {
    Subscribed(Vec<Result<Qos, Denial>>),
    Unsubscribed(Vec<Result<bool, Denial>>),
}

/// A wish that was granted.
struct Granted {
    qos: Qos,
    row: Option<Write>,
    wanted: Option<Wanted>,
}

impl Broker {
    pub(crate) fn subscribe(&mut self, now: Now, key: Key, packet: Subscribe, fx: &mut Effects) {
        let Some(conn) = self.sessions.at(key).and_then(|session| session.online()) else { return };
        let results = Results::Subscribed(Vec::with_capacity(packet.wishes.len()));
        let (id, left) = (packet.id, 0);
        let (wanted, filters) = (Vec::new(), Vec::new());
        let mut granting = Granting { key, conn, id, left, results, wanted, filters };
        let mut rows = Vec::new();
        for (at, wish) in packet.wishes.into_iter().enumerate() {
            granting.filters.push(wish.filter.clone());
            let granted = self.grant(now, key, (wish, packet.subscription_id), fx);
            let result = match granted {
                Ok(granted) => {
                    granting.wanted.extend(granted.wanted);
                    rows.extend(granted.row.map(|row| (at, row)));
                    fx.counters.count(Counter::Subscribed);
                    Ok(granted.qos)
                }
                Err(why) => {
                    fx.counters.count(Counter::SubscribesRefused);
                    Err(why)
                }
            };
            if let Results::Subscribed(results) = &mut granting.results {
                results.push(result);
            }
        }
        self.await_rows(now, granting, rows, fx);
    }

    pub(crate) fn unsubscribe(
        &mut self,
        now: Now,
        key: Key,
        packet: Unsubscribe,
        fx: &mut Effects,
    ) {
        let Some(conn) = self.sessions.at(key).and_then(|session| session.online()) else { return };
        let mut rows = Vec::new();
        let mut results = Vec::with_capacity(packet.filters.len());
        for (at, filter) in packet.filters.iter().enumerate() {
            let (was_there, row) = self.withdraw(now, key, filter, fx);
            results.push(Ok(was_there));
            rows.extend(row.map(|row| (at, row)));
        }
        let results = Results::Unsubscribed(results);
        let (id, left, wanted) = (packet.id, 0, Vec::new());
        let filters = packet.filters;
        let granting = Granting { key, conn, id, left, results, wanted, filters };
        self.await_rows(now, granting, rows, fx);
    }

    /// An operator subscribes a client; false: it is refused.
    pub(crate) fn subscribe_for(
        &mut self,
        now: Now,
        key: Key,
        wish: Wish,
        fx: &mut Effects,
    ) -> bool {
        let Ok(granted) = self.grant(now, key, (wish, None), fx) else { return false };
        fx.counters.count(Counter::Subscribed);
        if let Some(row) = granted.row {
            self.chore(row, fx);
        }
        if let Some(wanted) = granted.wanted {
            self.walk(now, key, wanted, fx);
        }
        true
    }

    /// An operator unsubscribes a client; whether it was subscribed.
    pub(crate) fn unsubscribe_for(
        &mut self,
        now: Now,
        key: Key,
        filter: &str,
        fx: &mut Effects,
    ) -> bool {
        let (was_there, row) = self.withdraw(now, key, filter, fx);
        if let Some(row) = row {
            self.chore(row, fx);
        }
        was_there
    }

    /// What every new session of this client is subscribed to.
    pub(crate) fn auto_subscribe(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(wishes) = &self.settings.auto_subscribes else { return };
        let Some(session) = self.sessions.at(key) else { return };
        let user = self.principals.at(session.principal).user.as_deref();
        let wishes = wishes.wishes(Names { client: &session.id, user });
        for wish in wishes {
            self.subscribe_for(now, key, wish, fx);
        }
    }

    /// Grants one wish, or says why not.
    fn grant(
        &mut self,
        now: Now,
        key: Key,
        (wish, subscription_id): (Wish, Option<u32>),
        fx: &mut Effects,
    ) -> Result<Granted, Denial> {
        let session = self.sessions.at(key).ok_or(Denial::Protocol)?;
        let principal = self.principals.at(session.principal);
        let names = Names { client: &session.id, user: principal.user.as_deref() };
        let rewritten =
            self.settings.rewrites.as_ref().and_then(|all| all.subscribed(&wish.filter, names));
        let filter: Box<str> = rewritten.map_or(wish.filter.clone(), Box::from);
        if filter.starts_with(SHARE) {
            return self.grant_share(now, key, (wish, filter, subscription_id), fx);
        }
        let plain = filter.strip_prefix(EXCLUSIVE).unwrap_or(&filter);
        let most = usize::from(self.settings.limits.topics.topic_bytes_max);
        if plain.is_empty() || filter.len() > most {
            return Err(Denial::FilterInvalid);
        }
        let mut options = self.options_for(session, plain, (&wish, subscription_id))?;
        let (durable, slot) = (session.is_durable(), key.slot);
        let known = self.filters.known(session, slot, plain);
        if known.is_none() {
            self.may_grow(session)?;
        }
        if plain.len() != filter.len() {
            options |= option::EXCLUSIVE;
            if !self.settings.exclusives.claim(plain, &session.id) {
                return Err(Denial::Quota);
            }
        } else if known.is_some_and(|(_, before)| before & option::EXCLUSIVE != 0) {
            self.settings.exclusives.release(plain, &session.id);
        }
        let (options, handling) = (options, wish.retain_handling);
        let held = self.filters.hold((plain, &session.id), (slot, options), durable, known);
        let number = held.map_err(|why| {
            if known.is_none() && options & option::EXCLUSIVE != 0 {
                self.settings.exclusives.release(plain, &session.id);
            }
            match why {
                Refused::TooLong => Denial::FilterInvalid,
                Refused::Full => Denial::Quota,
            }
        })?;
        let session = self.sessions.at_mut(key).ok_or(Denial::Protocol)?;
        match known {
            Some((before, _)) => session.change_filter(before, number),
            None => session.add_filter(number),
        }
        set_id(session, number, subscription_id);
        let id = session.id.clone();
        let row = durable.then(|| {
            let row = SubscriptionRow { options, subscription_id, filter: plain.into() };
            let key = subscription_key(self.settings.home, &id, plain);
            Write::Put { table: Table::Subscriptions, key, value: row.encode() }
        });
        let wants = match handling {
            RetainHandling::Send => true,
            RetainHandling::SendIfNew => known.is_none(),
            RetainHandling::DoNotSend => false,
        };
        let wanted = wants.then(|| Wanted { filter: plain.into(), subscription_id });
        let (filter, qos) = (wish.filter, qos_of(options));
        self.event(now, key, || ClientWhat::Subscribed { filter, qos }, fx);
        Ok(Granted { qos, row, wanted })
    }

    /// The options of a subscription of this session; not authorised: it reaches nothing.
    fn options_for(
        &self,
        session: &Session,
        plain: &str,
        (wish, subscription_id): (&Wish, Option<u32>),
    ) -> Result<u8, Denial> {
        let bit = |on: bool, bits: u8| if on { bits } else { 0 };
        let reach = match self.principals.at(session.principal).reach(&session.id, plain) {
            Reach::All => 0,
            Reach::Partly => option::PARTLY,
            Reach::Nothing => return Err(Denial::NotAuthorized),
        };
        let bridge = bit(session.is_bridge(), option::NO_LOCAL | option::AS_PUBLISHED);
        let id = bit(subscription_id.is_some(), option::HAS_ID);
        Ok(options_of(wish) | reach | bridge | id)
    }

    fn grant_share(
        &mut self,
        now: Now,
        key: Key,
        (wish, filter, subscription_id): (Wish, Box<str>, Option<u32>),
        fx: &mut Effects,
    ) -> Result<Granted, Denial> {
        let session = self.sessions.at(key).ok_or(Denial::Protocol)?;
        let principal = self.principals.at(session.principal);
        let plain = shared_filter(&filter).ok_or(Denial::FilterInvalid)?;
        let mut options = options_of(&wish) & !option::NO_LOCAL;
        match principal.reach(&session.id, plain) {
            Reach::All => {}
            Reach::Partly => options |= option::PARTLY,
            Reach::Nothing => return Err(Denial::NotAuthorized),
        }
        let durable = session.is_durable();
        let known = session.more.iter().any(|more| more.shares.iter().any(|s| s.filter == filter));
        if !known {
            self.may_grow(session)?;
        }
        let id = session.id.clone();
        let row = durable.then(|| {
            let row = SubscriptionRow { options, subscription_id, filter: filter.clone() };
            let key = subscription_key(self.settings.home, &id, &filter);
            Write::Put { table: Table::Subscriptions, key, value: row.encode() }
        });
        self.join_group(now, key, (&filter, options, subscription_id), fx);
        let qos = qos_of(options);
        let filter = wish.filter;
        self.event(now, key, || ClientWhat::Subscribed { filter, qos }, fx);
        Ok(Granted { qos, row, wanted: None })
    }

    /// Whether there may be one more subscription.
    fn may_grow(&self, session: &Session) -> Result<(), Denial> {
        let limits = &self.settings.limits.topics;
        let full = session.subscriptions() >= limits.subscriptions_a_session_max as usize
            || self.filters.len() as u64 >= self.subscriptions_max;
        if full { Err(Denial::Quota) } else { Ok(()) }
    }

    /// Takes a subscription back: whether it was there, and the row that has to go.
    fn withdraw(
        &mut self,
        now: Now,
        key: Key,
        filter: &str,
        fx: &mut Effects,
    ) -> (bool, Option<Write>) {
        let Some(session) = self.sessions.at(key) else { return (false, None) };
        let principal = self.principals.at(session.principal);
        let names = Names { client: &session.id, user: principal.user.as_deref() };
        let rewritten =
            self.settings.rewrites.as_ref().and_then(|all| all.subscribed(filter, names));
        let other = rewritten.as_deref().unwrap_or(filter);
        let (durable, id) = (session.is_durable(), session.id.clone());
        let plain = other.strip_prefix(EXCLUSIVE).unwrap_or(other);
        let was_there = match other.starts_with(SHARE) {
            true => self.leave_group(now, key, other, fx),
            false => {
                let known = self.filters.known(session, key.slot, plain);
                known.is_some_and(|(number, _)| self.forget_filter(key, number, durable))
            }
        };
        if !was_there {
            return (false, None);
        }
        fx.counters.count(Counter::Unsubscribed);
        let row = durable.then(|| Write::Delete {
            table: Table::Subscriptions,
            key: subscription_key(self.settings.home, &id, plain),
        });
        self.stop_walks(key, plain);
        let filter: Box<str> = filter.into();
        self.event(now, key, || ClientWhat::Unsubscribed { filter }, fx);
        (true, row)
    }

    /// A subscription of a session goes, and its row.
    pub(crate) fn let_go_filter(
        &mut self,
        (key, filter): (Key, u32),
        durable: bool,
        fx: &mut Effects,
    ) {
        let Some(session) = self.sessions.at(key) else { return };
        let id = session.id.clone();
        let text = self.filters.text(filter, &id);
        if self.forget_filter(key, filter, durable) && durable {
            let key = subscription_key(self.settings.home, &id, &text);
            self.chore(Write::Delete { table: Table::Subscriptions, key }, fx);
        }
    }

    fn forget_filter(&mut self, key: Key, filter: u32, durable: bool) -> bool {
        let Some(options) = self.filters.options(filter, key.slot) else { return false };
        let Some(session) = self.sessions.at_mut(key) else { return false };
        if options & option::EXCLUSIVE != 0 {
            let text = self.filters.text(filter, &session.id);
            self.settings.exclusives.release(&text, &session.id);
        }
        session.drop_filter(filter);
        session.rest();
        self.filters.let_go((filter, &session.id), key.slot, durable)
    }

    /// The session outlives its connections from now on: its subscriptions get rows.
    pub(crate) fn make_durable(&mut self, key: Key, fx: &mut Effects) {
        let Some(session) = self.sessions.at_mut(key) else { return };
        session.set_durable(true);
        let id = session.id.clone();
        let filters: Vec<u32> = session.filters().collect();
        for filter in filters {
            let Some(options) = self.filters.options(filter, key.slot) else { continue };
            let text = self.filters.text(filter, &id);
            let number = self.filters.set_durable((filter, &id), key.slot);
            let Some(session) = self.sessions.at_mut(key) else { return };
            let subscription_id = session.subscription_id(filter);
            session.change_filter(filter, number);
            let row = SubscriptionRow { options, subscription_id, filter: text.as_str().into() };
            let key = subscription_key(self.settings.home, &id, &text);
            let value = row.encode();
            self.chore(Write::Put { table: Table::Subscriptions, key, value }, fx);
        }
    }

    /// Adds the numbers of a session's subscriptions that match a topic.
    pub(crate) fn collect_ids(&self, session: &Session, topic: &str, ids: &mut Vec<u32>) {
        let Some(more) = &session.more else { return };
        let matching = more.ids.iter().filter(|&&(filter, _)| {
            crate::routes::matches(&self.filters.text(filter, &session.id), topic)
        });
        ids.extend(matching.map(|&(_, id)| id));
        ids.sort_unstable();
        ids.dedup();
    }

    /// The answer waits for rows, if there are any.
    fn await_rows(
        &mut self,
        now: Now,
        mut granting: Granting,
        rows: Vec<(usize, Write)>,
        fx: &mut Effects,
    ) {
        if rows.is_empty() {
            return self.tell_granted(now, granting, fx);
        }
        granting.left = rows.len() as u32;
        match self.grantings.insert(granting) {
            Ok(number) => {
                for (at, row) in rows {
                    self.ask_log(Promise::Granted(number, at), Call::Write(row), fx);
                }
            }
            Err(mut granting) => {
                if let Results::Subscribed(results) = &mut granting.results {
                    results.fill(Err(Denial::Quota));
                }
                for filter in std::mem::take(&mut granting.filters) {
                    self.withdraw(now, granting.key, &filter, fx);
                }
                self.tell_granted(now, granting, fx);
            }
        }
    }

    /// A row of a subscription was answered.
    pub(crate) fn granted(
        &mut self,
        now: Now,
        (number, at): (Key, usize),
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        let Some(granting) = self.grantings.at_mut(number) else { return };
        granting.left -= 1;
        let is_over = granting.left == 0;
        let mut refused = None;
        if let Err(error) = result {
            let why = super::waits::denial(error);
            match &mut granting.results {
                Results::Subscribed(results) => {
                    results[at] = Err(why);
                    refused = Some((granting.key, granting.filters[at].clone()));
                }
                Results::Unsubscribed(results) => results[at] = Err(why),
            }
        }
        if let Some((key, filter)) = refused {
            // What is not on stable storage is not granted.
            let (_, row) = self.withdraw(now, key, &filter, fx);
            if let Some(row) = row {
                self.chore(row, fx);
            }
        }
        if is_over && let Some(granting) = self.grantings.remove(number) {
            self.tell_granted(now, granting, fx);
        }
    }

    fn tell_granted(&mut self, now: Now, granting: Granting, fx: &mut Effects) {
        let Granting { key, conn, id, results, wanted, .. } = granting;
        let session = self.sessions.at(key);
        if session.is_none_or(|session| session.online() != Some(conn)) {
            return;
        }
        let word = match results {
            Results::Subscribed(results) => {
                SessionDelivery::Subscribed { id, results: results.into() }
            }
            Results::Unsubscribed(results) => {
                SessionDelivery::Unsubscribed { id, results: results.into() }
            }
        };
        fx.deliveries.push((conn, word));
        for wanted in wanted {
            self.walk(now, key, wanted, fx);
        }
    }
}

/// The filter of `$share/group/filter`.
pub(crate) fn shared_filter(filter: &str) -> Option<&str> {
    let (group, plain) = filter.strip_prefix(SHARE)?.split_once('/')?;
    (!group.is_empty() && !plain.is_empty()).then_some(plain)
}

/// Deliveries for a filter name this number, or none.
fn set_id(session: &mut Session, filter: u32, subscription_id: Option<u32>) {
    if let Some(more) = &mut session.more {
        more.ids.retain(|&(of, _)| of != filter);
    }
    if let Some(id) = subscription_id {
        session.more().ids.push((filter, id));
    }
    session.rest();
}

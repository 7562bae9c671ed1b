//! The subscriptions of a shard's sessions, by filter and by session.
//!
//! In the table a subscription is a number: the session's slot, and eight bits of options, so a
//! match leads straight to its session. A session knows its subscriptions by the numbers of their
//! filters. Filters that differ only in their client's name, as `dev/%c/in`, are kept once: the
//! session's own record has the form's number and the options, and a match names the client.
//! Invariant: a session holds a filter once; an exclusive one is claimed exactly while it is held.

use super::fan_out::AT_ONCE;
use super::route::hits::{Hits, Merge};
use super::route::holder::{GROUP, Holder, behind, first_of, holder, number_of, option};
use crate::Settings;
use crate::operations::Exclusives;
use crate::routes::{
    Elsewhere, FilterRef, FilterRefused, FormId, Hit, RoutePlace, RouteSlice, Routes,
    SUBSCRIPTION_MAX, WalkPlace, matches,
};
use crate::session::record::Session;
use crate::session::sessions::Sessions;
use model::session::Denial;
use std::cmp::Reverse;
use std::ops::{ControlFlow, RangeInclusive};
use std::sync::Arc;

/// Records of the table that are looked at for one message at once, whether they match or not.
const LOOKS_AT_ONCE: usize = 8 * AT_ONCE;

/// Forms of filters, as `dev/%c/in`, that a shard keeps; beyond, filters are ordinary ones.
const FORMS_MAX: u16 = 256;

/// The bit of a number that is a form and the options with which it is held.
const FORM: u32 = 1 << 31;

/// Number of a filter in replays of retained messages: a form has one number whatever its options.
pub(crate) fn replay_number(number: u32) -> RangeInclusive<u32> {
    match form_of(number) {
        Some(form) => number_of_form(form, 0)..=number_of_form(form, u8::MAX),
        None => number..=number,
    }
}

/// How a session holds a filter, or wants to.
#[derive(Clone, Copy)]
pub(crate) struct Hold<'h> {
    pub filter: &'h str,
    pub client_id: &'h str,
    /// The session's.
    pub slot: u32,
    /// Bits of [`option`].
    pub options: u8,
    /// The session outlives its connection.
    pub durable: bool,
}

/// A filter that a session holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub number: u32,
    pub options: u8,
}

/// A look for more of those who get what is published to a topic, about so many.
struct Seek<'a> {
    topic: &'a str,
    sessions: &'a Sessions,
    most: usize,
}

/// Filters and who holds them, shared ones counted among them.
pub(crate) struct Subscriptions {
    routes: Routes,
    exclusives: Arc<Exclusives>,
    groups: usize,
    forms: usize,
    /// Shared subscriptions of sessions.
    shares: usize,
    count_max: u64,
}

impl Subscriptions {
    /// Makes an empty store for at most so many subscriptions.
    pub fn new(settings: &Settings, count_max: u64) -> Subscriptions {
        Subscriptions {
            routes: Routes::new(&settings.summary, settings.shard, FORMS_MAX),
            exclusives: settings.exclusives.clone(),
            groups: 0,
            forms: 0,
            shares: 0,
            count_max,
        }
    }

    /// Room for so many from now on.
    pub fn set_max(&mut self, count_max: u64) {
        self.count_max = count_max;
    }

    /// Whether there may be one more.
    pub fn has_room(&self) -> bool {
        ((self.len() + self.shares) as u64) < self.count_max
    }

    /// A session shares one more subscription.
    pub fn add_share(&mut self) {
        self.shares += 1;
    }

    /// A session shares so many subscriptions no more.
    pub fn drop_shares(&mut self, count: usize) {
        self.shares -= count;
    }

    /// How a session holds a filter, if it does.
    pub fn known(&self, session: &Session, slot: u32, filter: &str) -> Option<Held> {
        if let Some(form) = self.routes.form(filter, session.id())
            && let Some(options) = form_options(session, form)
        {
            return Some(Held { number: number_of_form(form, options), options });
        }
        let FilterRef(number) = self.routes.find(filter)?;
        Some(Held { number, options: self.options(number, slot)? })
    }

    /// The text of a filter that a session with this identifier holds.
    pub fn text(&self, number: u32, client_id: &str) -> String {
        match form_of(number) {
            Some(form) => self.routes.filter(form, client_id),
            None => self.routes.filter_of(FilterRef(number)),
        }
    }

    /// The options with which a session holds a filter.
    pub fn options(&self, number: u32, slot: u32) -> Option<u8> {
        if form_of(number).is_some() {
            return Some(number as u8);
        }
        let (first, last) = (number_of(slot, 0), number_of(slot, u8::MAX));
        self.routes.held(FilterRef(number), first, last).map(|number| number as u8)
    }

    /// The session holds the filter from now on, so; `known`: how it held it before. The number
    /// under which it holds it.
    pub fn hold(&mut self, wish: Hold<'_>, known: Option<Held>) -> Result<u32, Denial> {
        let is_exclusive = wish.options & option::EXCLUSIVE != 0;
        let was_exclusive = known.is_some_and(|known| known.options & option::EXCLUSIVE != 0);
        if is_exclusive && !self.exclusives.claim(wish.filter, wish.client_id) {
            return Err(Denial::Quota);
        }
        let held = self.insert(wish, known);
        if is_exclusive && known.is_none() && held.is_err() || was_exclusive && !is_exclusive {
            self.exclusives.release(wish.filter, wish.client_id);
        }
        held.map_err(|why| match why {
            FilterRefused::TooLong => Denial::FilterInvalid,
            FilterRefused::Full => Denial::Quota,
        })
    }

    /// After a start: gives a session a subscription that it held, an exclusive one whatever others
    /// hold.
    pub fn restore(&mut self, wish: Hold<'_>) -> Option<u32> {
        if wish.options & option::EXCLUSIVE != 0 {
            self.exclusives.claim(wish.filter, wish.client_id);
        }
        self.insert(wish, None).ok()
    }

    fn insert(&mut self, wish: Hold<'_>, known: Option<Held>) -> Result<u32, FilterRefused> {
        let Hold { filter, client_id, slot, options, durable } = wish;
        let (lasting, of) = (lasts(options, durable), number_of(slot, options));
        let Some(Held { number, options: before }) = known else {
            let place = self.routes.subscribe(filter, client_id, of, lasting)?;
            return Ok(self.enter(place, options));
        };
        if before == options {
            return Ok(number);
        }
        let lasted = lasts(before, durable);
        if let Some(form) = form_of(number) {
            // Others see at most a moment without it, and nobody looks in between.
            if lasted != lasting {
                self.routes.unsubscribe_form(form, client_id, lasted);
                self.forms -= 1;
                let place = self.routes.subscribe(filter, client_id, of, lasting)?;
                return Ok(self.enter(place, options));
            }
            return Ok(number_of_form(form, options));
        }
        // The new one is in before the old one goes: none is lost between (MQTT5 3.8.4-4).
        let place = self.routes.subscribe(filter, "", of, lasting)?;
        self.routes.unsubscribe(filter, number_of(slot, before), lasted);
        Ok(self.enter(place, options))
    }

    /// The session of this client holds a filter no more; false: it did not.
    pub fn let_go(&mut self, number: u32, client_id: &str, slot: u32, durable: bool) -> bool {
        let Some(options) = self.options(number, slot) else { return false };
        if options & option::EXCLUSIVE != 0 {
            self.exclusives.release(&self.text(number, client_id), client_id);
        }
        self.remove(Held { number, options }, client_id, slot, durable)
    }

    fn remove(&mut self, held: Held, client_id: &str, slot: u32, durable: bool) -> bool {
        let lasted = lasts(held.options, durable);
        match form_of(held.number) {
            Some(form) => {
                self.routes.unsubscribe_form(form, client_id, lasted);
                self.forms -= 1;
                true
            }
            None => {
                let of = number_of(slot, held.options);
                self.routes.unsubscribe_ref(FilterRef(held.number), of, lasted)
            }
        }
    }

    /// A shared group wants what matches.
    pub fn hold_group(&mut self, filter: &str, group: u32) -> Result<(), FilterRefused> {
        let number = GROUP | u64::from(group);
        self.routes.subscribe(filter, "", number, true)?;
        self.groups += 1;
        Ok(())
    }

    pub fn let_go_group(&mut self, filter: &str, group: u32) {
        self.groups -= 1;
        self.routes.unsubscribe(filter, GROUP | u64::from(group), true);
    }

    /// Finds all who get what is published to a topic. False: they, or what is to be looked at, are
    /// too many for once, and a [`Merge`] finds them.
    pub fn find_all(&self, topic: &str, sessions: &Sessions, to: &mut Hits) -> bool {
        to.clear();
        let mut place = WalkPlace::default();
        place.allow(LOOKS_AT_ONCE);
        let walk = self.routes.each_match(topic, &mut place, &mut |hit| {
            match hit {
                Hit::Filter(_) if to.filters.len() == AT_ONCE => return ControlFlow::Break(()),
                Hit::Filter(FilterRef(filter)) => to.filters.push(filter),
                Hit::Form(form, name) => {
                    if let Some((number, filter)) = held_form(sessions, form, name) {
                        to.push(number, filter);
                    }
                }
            }
            ControlFlow::Continue(())
        });
        to.looked_at = place.looked_at(LOOKS_AT_ONCE);
        if walk.is_break() {
            return false;
        }
        for at in 0..to.filters.len() {
            let filter = to.filters[at];
            let slice = RouteSlice { from: 0, most: AT_ONCE.saturating_sub(to.numbers.len()) };
            let mut push = |number| to.push(number, filter);
            if self.routes.each_held(FilterRef(filter), slice, &mut push).is_some() {
                return false;
            }
        }
        to.sort();
        true
    }

    /// Finds some more who get what is published to a topic, about so many, each with all its
    /// matches. True: these were the last.
    pub fn find_more(
        &self,
        topic: &str,
        sessions: &Sessions,
        (merge, most): (&mut Merge, usize),
        to: &mut Hits,
    ) -> bool {
        to.clear();
        if !merge.has_all {
            merge.removals.get_or_insert(self.routes.removals());
            let Merge { place, next, .. } = merge;
            place.allow(most);
            let walk = self.routes.each_match(topic, place, &mut |hit| {
                match hit {
                    Hit::Filter(filter) => {
                        let first = self.routes.held(filter, 0, SUBSCRIPTION_MAX);
                        next.extend(first.map(|first| Reverse((first, filter.0))));
                    }
                    Hit::Form(form, name) => {
                        next.extend(held_form(sessions, form, name).map(Reverse));
                    }
                }
                ControlFlow::Continue(())
            });
            to.looked_at = place.looked_at(most);
            merge.has_all = walk.is_continue();
            return merge.has_all && merge.next.is_empty();
        }
        while let Some(&Reverse((number, filter))) = merge.next.peek() {
            let last = to.numbers.last();
            let is_another = last.is_none_or(|&last| first_of(last) != first_of(number));
            if to.numbers.len().max(to.looked_at) >= most && is_another {
                return false;
            }
            to.looked_at += 1;
            merge.next.pop();
            let seek = Seek { topic, sessions, most };
            let next = self.take_held((number, filter), &seek, merge, to);
            merge.next.extend(next.map(|next| Reverse((next, filter))));
        }
        true
    }

    /// Takes the first that a filter has left, or some where it is the only filter; the next one. A
    /// session that held it when the walk came by may hold it with other options by now.
    fn take_held(
        &self,
        (number, filter): (u64, u32),
        &Seek { topic, sessions, most }: &Seek<'_>,
        merge: &Merge,
        to: &mut Hits,
    ) -> Option<u64> {
        if let Some(form) = form_of(filter) {
            // Its session may have gone, and another have its slot.
            let Holder::Session(slot, _) = holder(number) else { return None };
            let (_, session) = sessions.tenant(slot)?;
            let options = form_options(session, form)?;
            if matches(&self.text(filter, session.id()), topic) {
                to.push(number_of(slot, options), number_of_form(form, options));
            }
            return None;
        }
        let at = FilterRef(filter);
        let held = self.routes.held(at, first_of(number), SUBSCRIPTION_MAX)?;
        // Its number may be another filter's by now.
        let is_known = merge.removals == Some(self.routes.removals());
        if !is_known && !matches(&self.routes.filter_of(at), topic) {
            return None;
        }
        if first_of(held) != first_of(number) {
            return Some(held);
        }
        if merge.next.is_empty() {
            let most = most.saturating_sub(to.numbers.len()).max(1);
            let slice = RouteSlice { from: held, most };
            return self.routes.each_held(at, slice, &mut |number| to.push(number, filter));
        }
        // A group whose number was used again may have been found with its last filter, too.
        let is_known_group = held & GROUP != 0 && to.numbers.last() == Some(&held);
        if !is_known_group {
            to.push(held, filter);
        }
        self.routes.held(at, behind(held), SUBSCRIPTION_MAX)
    }

    /// The other shards where somebody may match.
    pub fn elsewhere(&mut self, topic: &str) -> Elsewhere {
        self.routes.elsewhere(topic)
    }

    pub fn grow(&mut self, most: usize) -> bool {
        self.routes.grow(most)
    }

    /// Subscriptions of sessions.
    pub fn len(&self) -> usize {
        self.routes.subscriptions() - self.groups + self.forms
    }

    fn enter(&mut self, place: RoutePlace, options: u8) -> u32 {
        match place {
            RoutePlace::Table(FilterRef(number)) => {
                debug_assert!(number & FORM == 0, "the table has room for fewer");
                number
            }
            RoutePlace::Form(form) => {
                self.forms += 1;
                number_of_form(form, options)
            }
        }
    }
}

fn number_of_form(form: FormId, options: u8) -> u32 {
    FORM | u32::from(form) << 8 | u32::from(options)
}

fn form_of(number: u32) -> Option<FormId> {
    (number & FORM != 0).then_some((number >> 8) as FormId)
}

/// The options with which a session holds a form.
fn form_options(session: &Session, form: FormId) -> Option<u8> {
    let (first, last) = (number_of_form(form, 0), number_of_form(form, u8::MAX));
    session.filter_in(first..=last).map(|number| number as u8)
}

/// How the session of this name holds a form, if it does: as in [`Hits`].
fn held_form(sessions: &Sessions, form: FormId, name: &str) -> Option<(u64, u32)> {
    let key = sessions.find(name)?;
    let options = form_options(sessions.at(key)?, form)?;
    Some((number_of(key.slot, options), number_of_form(form, options)))
}

/// Whether what a subscription is sent may outlive a connection.
fn lasts(options: u8, durable: bool) -> bool {
    durable && options & option::QOS != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::made::broker;
    use base::hash::HashKey;

    #[test]
    fn what_is_sent_lasts_at_qos_1_and_2_in_a_durable_session() {
        for qos in 0..=2 {
            let options = qos | option::NO_LOCAL | option::AS_PUBLISHED;
            assert_eq!((lasts(options, true), lasts(options, false)), (qos > 0, false));
        }
    }

    #[test]
    fn a_filter_with_ones_own_name_is_a_form_and_leads_to_its_session() {
        let key = HashKey::new(1, 2);
        let mut filters = Subscriptions::new(&broker(|_| {}).settings, 9);
        let mut sessions = Sessions::new(key, key, 10);
        for id in ["c1", "c2"] {
            let at = sessions.insert(id).expect("there is room");
            let filter = format!("dev/{id}/in");
            let (slot, options) = (at.slot, 1);
            let wish = Hold { filter: &filter, client_id: id, slot, options, durable: false };
            let number = filters.hold(wish, None).expect("room");
            assert_eq!(form_of(number), Some(0), "one form for all");
            assert_eq!(filters.text(number, id), filter);
            let session = sessions.at_mut(at).expect("it was inserted");
            session.add_filter(number);
            assert_eq!(filters.known(session, at.slot, &filter), Some(Held { number, options }));
        }
        let mut hits = Hits::default();
        assert!(filters.find_all("dev/c3/in", &sessions, &mut hits) && hits.numbers.is_empty());
        assert!(filters.find_all("dev/c2/in", &sessions, &mut hits));
        let slot = sessions.find("c2").expect("it is there").slot;
        assert_eq!(
            hits.numbers.iter().map(|&hit| holder(hit)).collect::<Vec<_>>(),
            [Holder::Session(slot, 1)]
        );
        assert_eq!(filters.len(), 2);
    }

    #[test]
    fn an_exclusive_filter_is_claimed_exactly_while_it_is_held() {
        let broker = broker(|_| {});
        let exclusives = &broker.settings.exclusives.clone();
        let mut filters = Subscriptions::new(&broker.settings, 9);
        let is_free = || {
            let free = exclusives.claim("t", "other");
            exclusives.release("t", "other");
            free
        };
        let wish = |options| {
            let (filter, client_id, slot, durable) = ("t", "a", 7, false);
            Hold { filter, client_id, slot, options, durable }
        };
        let (plain, exclusive) = (1, 1 | option::EXCLUSIVE);
        let number = filters.hold(wish(exclusive), None).expect("room");
        assert!(!is_free());
        let known = Some(Held { number, options: exclusive });
        let number = filters.hold(wish(plain), known).expect("room");
        assert!(is_free());
        let known = Some(Held { number, options: plain });
        let number = filters.hold(wish(exclusive), known).expect("room");
        assert!(!is_free());
        assert!(filters.let_go(number, "a", 7, false) && is_free());
        assert!(exclusives.claim("t", "other"));
        assert_eq!(filters.hold(wish(exclusive), None), Err(Denial::Quota));
        assert_eq!(filters.len(), 0);
    }

    #[test]
    fn shared_subscriptions_count() {
        let mut filters = Subscriptions::new(&broker(|_| {}).settings, 2);
        filters.add_share();
        assert!(filters.has_room());
        filters.add_share();
        assert!(!filters.has_room());
        filters.drop_shares(2);
        assert!(filters.has_room());
    }
}

//! Routing: who is to get what is published to a topic, on this shard exactly, on others nearly.
//!
//! [`Routes`] is one shard's table: filters without wildcards are found by one look into a hash
//! table, the others in a trie whose nodes live in the same table, and filters that differ only in
//! their subscriber's own name, as `dev/%c/in`, are kept once for all of them. [`RouteSummary`] is
//! what all shards know of each other. This module does not know the meaning of a subscription: it
//! is a number of 63 bits of the caller's own.
//!
//! The invariant: once `subscribe` has returned, `each_match` here and `elsewhere` on every other
//! shard find the subscription until it is unsubscribed. `elsewhere` may name a shard in vain.

mod bits;
mod filter;
mod keys;
mod pattern;
mod record;
mod shards;
mod summary;
mod table;
mod texts;
mod walk;

#[cfg(test)]
pub(crate) mod tests;

pub use filter::matches;
pub use pattern::FormId;
pub use shards::{Elsewhere, ShardSet};
pub use summary::RouteSummary;
pub use table::{FilterRefused, LEVELS_MAX, RouteSlice, SUBSCRIPTION_MAX};
pub use walk::{LOOKS_MIN, WalkPlace};

use model::id::ShardId;
use pattern::Patterns;
use std::ops::ControlFlow;
use std::sync::Arc;
use summary::Part;
use table::FilterTable;

/// The subscriptions of one shard.
pub struct Routes {
    table: FilterTable,
    patterns: Patterns,
    part: Part,
}

/// Where a subscription is kept: its owner has to remember it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RoutePlace {
    /// In the table, under its filter, which this identifies, and number.
    Table(FilterRef),
    /// As a form: the owner's record has to hold the form's number, for a match names only the
    /// form and the client. Its filter is [`Routes::filter`].
    Form(FormId),
}

/// Names a filter in the table as long as it has a subscription.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FilterRef(pub u32);

/// Match of a topic: one subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hit<'t> {
    /// This filter, with its subscriptions: [`Routes::each_held`].
    Filter(FilterRef),
    /// That of the client of this name, if there is one and its record has the form.
    Form(FormId, &'t str),
}

impl Routes {
    /// Makes an empty table. At most `forms_max` forms are kept; further filters are stored as
    /// ordinary ones.
    pub fn new(summary: &Arc<RouteSummary>, shard: ShardId, forms_max: u16) -> Routes {
        let key = summary.key();
        Routes {
            table: FilterTable::new(key),
            patterns: Patterns::new(key, forms_max),
            part: Part::new(summary, shard),
        }
    }

    /// Adds a subscription of `client` to a filter that was checked and is no shared or exclusive
    /// one (of those, the plain filter). A form is counted each time: who has it does not subscribe
    /// again. `client` is the name that a form may be made of; empty:
    /// the subscription shall be in the table. `number` is the caller's, at most
    /// [`SUBSCRIPTION_MAX`], and what a match gives back. `durable`: what it is sent at QoS 1 and 2
    /// outlives its connection. The same filter and number again is the same subscription: whoever
    /// changes `durable` unsubscribes first.
    pub fn subscribe(
        &mut self,
        filter: &str,
        client: &str,
        number: u64,
        durable: bool,
    ) -> Result<RoutePlace, FilterRefused> {
        let (place, is_new) = match self.patterns.insert(filter, client) {
            Some(form) => (RoutePlace::Form(form), true),
            None => {
                let (filter, is_new) = self.table.insert(filter, number)?;
                (RoutePlace::Table(FilterRef(filter)), is_new)
            }
        };
        if is_new {
            self.part.add(filter, durable);
        }
        Ok(place)
    }

    /// Takes back a subscription in the table; with `durable` as it was subscribed. False: it was
    /// not there.
    pub fn unsubscribe(&mut self, filter: &str, number: u64, durable: bool) -> bool {
        let was_there = self.table.remove(filter, number);
        if was_there {
            self.part.remove(filter, durable);
        }
        was_there
    }

    /// As [`unsubscribe`](Self::unsubscribe), by the filter's reference.
    pub fn unsubscribe_ref(&mut self, filter: FilterRef, number: u64, durable: bool) -> bool {
        if self.held(filter, number, number).is_none() {
            return false;
        }
        let text = self.table.filter(filter.0);
        let was_there = self.table.remove_at(filter.0, number);
        debug_assert!(was_there);
        self.part.remove(&text, durable);
        true
    }

    /// Key of a filter in the table, if anybody is subscribed to it.
    pub fn find(&self, filter: &str) -> Option<FilterRef> {
        self.table.find_held(filter).map(FilterRef)
    }

    /// The filter of this name, which has a subscription.
    pub fn filter_of(&self, filter: FilterRef) -> String {
        self.table.filter(filter.0)
    }

    /// The smallest number from `first` to `last` that is subscribed to the filter.
    pub fn held(&self, filter: FilterRef, first: u64, last: u64) -> Option<u64> {
        self.table.held(filter.0, first, last)
    }

    /// Takes back one subscription of `client` that is kept as a form.
    pub fn unsubscribe_form(&mut self, form: FormId, client: &str, durable: bool) {
        let filter = self.patterns.filter(form, client);
        self.patterns.remove(form);
        self.part.remove(&filter, durable);
    }

    /// The filter that a form is for a client.
    pub fn filter(&self, form: FormId, client: &str) -> String {
        self.patterns.filter(form, client)
    }

    /// The form that a client's subscription to this filter has, or would have if it is one.
    /// `None`: it is not kept as a form.
    pub fn form(&self, filter: &str, client: &str) -> Option<FormId> {
        self.patterns.find(filter, client)
    }

    /// Tells every form that matches a topic name, and every filter of this shard, from `place` on.
    /// When `visit` breaks, the walk stops in front of the match that it was called with: with that
    /// the next walk from `place` begins. It may not break at a form. It stops, too, when it has
    /// looked at as much as `place` allows.
    pub fn each_match<'t>(
        &self,
        topic: &'t str,
        place: &mut WalkPlace,
        visit: &mut impl FnMut(Hit<'t>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if place.is_start() && !self.patterns.is_empty() {
            self.patterns.each_match(topic, &mut |form, name| {
                let goes_on = visit(Hit::Form(form, name));
                debug_assert!(goes_on.is_continue());
            });
        }
        self.table.each_match(topic, place, &mut |filter| visit(Hit::Filter(FilterRef(filter))))
    }

    /// Rises whenever a filter goes, and its name may be another's from then on.
    pub fn removals(&self) -> u64 {
        self.table.removals()
    }

    /// Tells so many subscriptions of a filter from one on, in order; the next one, if there is
    /// one.
    pub fn each_held(
        &self,
        filter: FilterRef,
        slice: RouteSlice,
        visit: &mut impl FnMut(u64),
    ) -> Option<u64> {
        self.table.each_held(filter.0, slice, visit)
    }

    /// The other shards that may have a subscription whose filter matches, without this one.
    pub fn elsewhere(&mut self, topic: &str) -> Elsewhere {
        self.part.elsewhere(topic)
    }

    /// Goes on with the growth of the summary, if it grows, over at most so many filters. True:
    /// there is more to do. Each `subscribe` and `unsubscribe` does some of it too.
    pub fn grow(&mut self, filters_max: usize) -> bool {
        self.part.grow(filters_max)
    }

    /// Bytes of this shard's own, without indexes, sets and what the summary shares.
    pub fn heap_bytes(&self) -> usize {
        self.table.heap_bytes() + self.part.heap_bytes()
    }

    /// Subscriptions in the table; those kept as forms are not counted.
    pub fn subscriptions(&self) -> usize {
        self.table.subscriptions()
    }
}

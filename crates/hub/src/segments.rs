//! Saved segments: expressions over tags that have a name within their product.
//!
//! One shard has the segments of all products, so a segment is the same for everybody who names it:
//! whoever orders a push asks that shard first. A segment knows no devices. Invariant: a segment in
//! memory is in the log; a row in the log without one is being deleted.

use crate::log::LogCalls;
use crate::log::cleanup::CleanupTask;
use crate::log::durable::audience;
use crate::log::pending::{Order, OrderWhat, PendingCall};
use crate::{Effects, Hub};
use model::audience::TagExpression;
use model::id::{ProductKey, SegmentName};
use model::ports::log::{Table, Write};
use model::ports::pushes::{PushAnswer, SavedSegment};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The segments of all products.
#[derive(Default)]
pub(crate) struct Segments {
    saved: BTreeMap<ProductKey, BTreeMap<SegmentName, Arc<TagExpression>>>,
    /// Segments that the log is asked to save, with the number of these calls.
    coming: BTreeMap<(ProductKey, SegmentName), u32>,
}

impl Segments {
    /// Saves a segment, or removes it without an expression. Whether the segment is new, or was
    /// there.
    fn set(
        &mut self,
        (product, segment): (ProductKey, SegmentName),
        tags: Option<Arc<TagExpression>>,
    ) -> bool {
        let Some(tags) = tags else {
            return self.saved.get_mut(&product).and_then(|of| of.remove(&segment)).is_some();
        };
        self.saved.entry(product).or_default().insert(segment, tags).is_none()
    }

    /// Segments of a product, by name: all of them, or those with these names.
    pub fn of(&self, product: &ProductKey, names: Option<&[SegmentName]>) -> Vec<SavedSegment> {
        let Some(of) = self.saved.get(product) else { return Vec::new() };
        let saved = |name: &SegmentName| Some((name.clone(), of.get(name)?.clone()));
        match names {
            Some(names) => names.iter().filter_map(saved).collect(),
            None => of.keys().filter_map(saved).collect(),
        }
    }

    /// Whether a segment is saved, or about to be: then its row is not to be deleted.
    pub fn is_known(&self, product: &ProductKey, segment: &SegmentName) -> bool {
        self.is_saved(product, segment)
            || self.coming.contains_key(&(product.clone(), segment.clone()))
    }

    fn is_saved(&self, product: &ProductKey, segment: &SegmentName) -> bool {
        self.saved.get(product).is_some_and(|of| of.contains_key(segment))
    }

    /// Number of segments that a product has or is about to have.
    fn count(&self, product: &ProductKey) -> usize {
        let new = |(of, name): &&(ProductKey, SegmentName)| {
            of == product && !self.is_saved(product, name)
        };
        self.saved.get(product).map_or(0, BTreeMap::len) + self.coming.keys().filter(new).count()
    }

    /// Whether a product has segments.
    pub fn has_some(&self, product: &ProductKey) -> bool {
        self.saved.get(product).is_some_and(|of| !of.is_empty())
    }

    /// Restores a segment from its row. False if the row cannot be read.
    pub fn restore(&mut self, key: &[u8], value: &[u8]) -> bool {
        let Some((name, tags)) = audience::names(key).zip(audience::decode(value)) else {
            return false;
        };
        self.set(name, Some(Arc::new(tags)));
        true
    }

    /// Removes the segments of a dropped product.
    pub fn forget(&mut self, product: &ProductKey, log: &mut LogCalls, fx: &mut Effects) {
        for segment in self.saved.remove(product).into_iter().flat_map(BTreeMap::into_keys) {
            log.clean_later(CleanupTask::Unsegment(product.clone(), segment), fx);
        }
    }

    fn is_coming(&mut self, name: &(ProductKey, SegmentName)) {
        *self.coming.entry(name.clone()).or_default() += 1;
    }

    fn has_come(&mut self, name: &(ProductKey, SegmentName)) {
        if let Some(count) = self.coming.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                self.coming.remove(name);
            }
        }
    }
}

impl Hub {
    /// Hands the log a change of a segment, which takes effect when it is stored.
    pub(crate) fn order_segment(
        &mut self,
        reply: u64,
        name: (ProductKey, SegmentName),
        tags: Option<TagExpression>,
        fx: &mut Effects,
    ) {
        let is_there = self.segments.is_saved(&name.0, &name.1);
        let is_known = self.segments.is_known(&name.0, &name.1);
        let max = self.settings.limits.pushes.segments_a_product_max as usize;
        let answer = match &tags {
            _ if self.registry.products.number(&name.0).is_none() => PushAnswer::UnknownProduct,
            None if !is_there => PushAnswer::Done(false),
            Some(_) if !is_known && self.segments.count(&name.0) >= max => {
                PushAnswer::TooManySegments
            }
            tags => {
                let (table, key) = (Table::Segments, audience::key(&name.0, &name.1));
                let write = match tags {
                    Some(tags) => {
                        self.segments.is_coming(&name);
                        Write::Put { table, key, value: audience::encode(tags) }
                    }
                    None => Write::Delete { table, key },
                };
                let what = OrderWhat::Segment(name, tags.clone().map(Arc::new));
                let order = Box::new(Order { reply, what });
                return self.log.write(PendingCall::Order(order), write, fx);
            }
        };
        fx.answers.push((reply, answer));
    }

    /// Applies the change of a segment after the log's answer. A segment that was saved after its
    /// product had been dropped, or whose first row was refused and may be in the log all the same,
    /// is deleted.
    pub(crate) fn segment_stored(
        &mut self,
        name: (ProductKey, SegmentName),
        tags: Option<Arc<TagExpression>>,
        is_stored: bool,
        fx: &mut Effects,
    ) -> PushAnswer {
        let is_save = tags.is_some();
        if is_save {
            self.segments.has_come(&name);
        }
        let has_product = self.registry.products.number(&name.0).is_some();
        if is_stored && (has_product || !is_save) {
            return PushAnswer::Done(self.segments.set(name, tags));
        }
        if is_save && !self.segments.is_known(&name.0, &name.1) {
            let (product, segment) = name;
            self.log.clean_later(CleanupTask::Unsegment(product, segment), fx);
        }
        if is_stored { PushAnswer::UnknownProduct } else { PushAnswer::StoreFailed }
    }
}

//! Saved segments: expressions over tags that have a name within their product.
//!
//! One shard has the segments of all products, so a segment is the same for everybody who names it:
//! whoever orders a push asks that shard first. A segment knows no devices. Invariant: the rows of
//! the log are the segments in memory, or a change or a cleanup that makes them so is under way.

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
    /// Segments that the log is asked to save or to remove, with the number of these calls.
    changing: BTreeMap<(ProductKey, SegmentName), u32>,
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

    /// The expression of a saved segment.
    pub fn at(&self, product: &ProductKey, segment: &SegmentName) -> Option<&TagExpression> {
        self.saved.get(product)?.get(segment).map(|tags| &**tags)
    }

    /// Whether the log is asked to change a segment.
    pub fn is_changing(&self, product: &ProductKey, segment: &SegmentName) -> bool {
        self.changing.contains_key(&(product.clone(), segment.clone()))
    }

    /// Number of segments that a product has or is about to have.
    fn count(&self, product: &ProductKey) -> usize {
        let new = |(of, name): &&(ProductKey, SegmentName)| {
            of == product && self.at(product, name).is_none()
        };
        self.saved.get(product).map_or(0, BTreeMap::len) + self.changing.keys().filter(new).count()
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
            log.clean_later(CleanupTask::Segment(product.clone(), segment), fx);
        }
    }

    fn change_asked(&mut self, name: &(ProductKey, SegmentName)) {
        *self.changing.entry(name.clone()).or_default() += 1;
    }

    fn change_answered(&mut self, name: &(ProductKey, SegmentName)) {
        if let Some(count) = self.changing.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                self.changing.remove(name);
            }
        }
    }
}

impl Hub {
    /// Segments of a product: all of them, or those with these names.
    pub(crate) fn known_segments(
        &self,
        product: &ProductKey,
        names: Option<&[SegmentName]>,
    ) -> PushAnswer {
        match self.registry.products.number(product) {
            Some(_) => PushAnswer::Segments(self.segments.of(product, names)),
            None => PushAnswer::UnknownProduct,
        }
    }

    /// Hands the log a change of a segment, which takes effect when it is stored.
    pub(crate) fn order_segment(
        &mut self,
        reply: u64,
        name: (ProductKey, SegmentName),
        tags: Option<TagExpression>,
        fx: &mut Effects,
    ) {
        let is_there = self.segments.at(&name.0, &name.1).is_some();
        let is_known = is_there || self.segments.is_changing(&name.0, &name.1);
        let max = self.settings.limits.pushes.segments_a_product_max as usize;
        let answer = match &tags {
            _ if self.registry.products.number(&name.0).is_none() => PushAnswer::UnknownProduct,
            None if !is_there => PushAnswer::Done(false),
            Some(_) if !is_known && self.segments.count(&name.0) >= max => {
                PushAnswer::TooManySegments
            }
            tags => {
                let (table, key) = (Table::Segments, audience::key(&name.0, &name.1));
                self.segments.change_asked(&name);
                let write = match tags {
                    Some(tags) => Write::Put { table, key, value: audience::encode(tags) },
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
    /// product had been dropped is deleted. A refused change may be in the log all the same, so the
    /// row is written again as it was.
    pub(crate) fn segment_stored(
        &mut self,
        name: (ProductKey, SegmentName),
        tags: Option<Arc<TagExpression>>,
        is_stored: bool,
        fx: &mut Effects,
    ) -> PushAnswer {
        let is_save = tags.is_some();
        self.segments.change_answered(&name);
        let has_product = self.registry.products.number(&name.0).is_some();
        if is_stored && (has_product || !is_save) {
            return PushAnswer::Done(self.segments.set(name, tags));
        }
        let (product, segment) = name;
        self.log.clean_later(CleanupTask::Segment(product, segment), fx);
        if is_stored { PushAnswer::UnknownProduct } else { PushAnswer::StoreFailed }
    }
}

//! Saved segments: expressions over tags that have a name within their product.
//!
//! One shard has the segments of all products, so a segment is the same for everybody who names it:
//! whoever orders a push asks that shard first. A segment knows no devices.

use crate::log::LogCalls;
use crate::log::cleanup::CleanupTask;
use crate::log::durable::audience;
use crate::log::pending::{Order, OrderWhat, PendingCall};
use crate::{Effects, Hub};
use model::audience::TagExpression;
use model::id::{ProductKey, SegmentName};
use model::ports::log::{Table, Write};
use model::ports::pushes::PushAnswer;
use std::collections::BTreeMap;

/// The segments of all products.
#[derive(Default)]
pub(crate) struct Segments(BTreeMap<(ProductKey, SegmentName), TagExpression>);

impl Segments {
    /// Applies a stored change: saves the segment, or removes it without an expression. Whether the
    /// segment is new, or was there.
    pub fn set(
        &mut self,
        product: ProductKey,
        segment: SegmentName,
        tags: Option<TagExpression>,
    ) -> bool {
        match tags {
            Some(tags) => self.0.insert((product, segment), tags).is_none(),
            None => self.0.remove(&(product, segment)).is_some(),
        }
    }

    /// The segments of a product, by name.
    pub fn of(&self, product: &ProductKey) -> Vec<(SegmentName, TagExpression)> {
        let of = self.0.iter().filter(|((of, _), _)| of == product);
        of.map(|((_, segment), tags)| (segment.clone(), tags.clone())).collect()
    }

    /// Restores a segment from its row. False if the row cannot be read.
    pub fn restore(&mut self, key: &[u8], value: &[u8]) -> bool {
        let Some((names, tags)) = audience::names(key).zip(audience::decode(value)) else {
            return false;
        };
        self.0.insert(names, tags);
        true
    }

    /// Removes the segments of a dropped product.
    pub fn forget(&mut self, product: &ProductKey, log: &mut LogCalls, fx: &mut Effects) {
        for (segment, _) in self.of(product) {
            let key = audience::key(product, &segment);
            self.0.remove(&(product.clone(), segment));
            let write = Write::Delete { table: Table::Segments, key: key.clone() };
            let task = Box::new(CleanupTask::Unsegment(key));
            log.write(PendingCall::Cleanup(task), write, fx);
        }
    }
}

impl Hub {
    /// Hands the log a change of a segment, which takes effect when it is stored.
    pub(crate) fn order_segment(
        &mut self,
        reply: u64,
        (product, segment): (ProductKey, SegmentName),
        tags: Option<TagExpression>,
        fx: &mut Effects,
    ) {
        let name = (product, segment);
        let is_there = self.segments.0.contains_key(&name);
        let max = self.settings.limits.pushes.segments_max as usize;
        let answer = match &tags {
            _ if self.registry.products.number(&name.0).is_none() => PushAnswer::UnknownProduct,
            None if !is_there => PushAnswer::Done(false),
            Some(_) if !is_there && self.segments.0.len() >= max => PushAnswer::TooManySegments,
            tags => {
                let (table, key) = (Table::Segments, audience::key(&name.0, &name.1));
                let write = match tags {
                    Some(tags) => Write::Put { table, key, value: audience::encode(tags) },
                    None => Write::Delete { table, key },
                };
                let what = OrderWhat::Segment(name.0, name.1, tags.clone());
                let order = Box::new(Order { reply, what });
                return self.log.write(PendingCall::Order(order), write, fx);
            }
        };
        fx.answers.push((reply, answer));
    }
}

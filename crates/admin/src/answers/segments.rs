//! Saved segments, in answers.
//!
//! An expression is written as it is read ([`crate::orders::audience`]).

use crate::orders::audience::{SegmentExpression, written};
use crate::texts::SegmentText;
use model::audience::TagExpression;
use model::id::SegmentName;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The segments of a product.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Segments {
    /// All of them, by name.
    pub(crate) segments: Vec<Segment>,
}

/// A saved segment.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Segment {
    /// Its name.
    #[schemars(with = "SegmentText")]
    segment: String,
    /// The tags of its devices.
    #[schemars(with = "SegmentExpression")]
    tags: Value,
}

impl Segment {
    pub(crate) fn new(name: &SegmentName, tags: &TagExpression) -> Segment {
        Segment { segment: name.as_str().into(), tags: written(tags) }
    }
}

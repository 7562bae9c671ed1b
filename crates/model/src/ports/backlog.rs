//! Reports that wait for webhooks, on the durable log.
//!
//! A Report that a webhook wants is appended to that webhook's timeline of the device's shard
//! before the device hears that it was taken. The courier of the webhook reads the timelines of all
//! shards through this port and removes Reports that the application has taken. It is at least
//! once: after a crash, what was posted and not taken off is posted again. A cursor says how far
//! the application knows of everything; a gap behind it was lost, and is reported, also after a
//! restart.

use crate::id::ProductKey;
use crate::ports::log::{Page, StoreError};
use crate::timeline::{Seq, TimelineId};

/// A webhook that wants Reports.
#[derive(Clone, Debug)]
pub struct ReportHook {
    /// Product whose devices' Reports the webhook gets; `None`: all products.
    pub product: Option<ProductKey>,
    /// Where they wait for it, on each shard's log.
    pub timeline: TimelineId,
}

/// The waiting Reports of all webhooks. Calls may block; they are for threads of their own.
pub trait Backlog: Send + Sync {
    /// Shards, each with a timeline a webhook.
    fn shards(&self) -> u16;

    /// The timeline, on every shard, of the Reports for the webhook with this URL and product.
    fn timeline(&self, url: &str, product: Option<&ProductKey>) -> TimelineId;

    /// The Reports that wait on a shard in a webhook's timeline, behind `after`, oldest first. A
    /// message's body is a Report of [`crate::ports::events`], encoded by the hub.
    fn pull(&self, timeline: TimelineId, shard: u16, after: Seq) -> Result<Page, StoreError>;

    /// Place in a shard's Reports up to which the application has accepted each, or learnt of its
    /// loss. Zero: no place yet.
    fn cursor(&self, timeline: TimelineId, shard: u16) -> Result<Seq, StoreError>;

    /// First the cursor goes up to `known` (it never goes back), then these leave the timeline:
    /// the application has taken them, or they are too old. A crash may leave the first without
    /// the second, never the other way round; after an error both may be there or not.
    fn remove(
        &self,
        timeline: TimelineId,
        shard: u16,
        known: Seq,
        seqs: Vec<Seq>,
    ) -> Result<(), StoreError>;

    /// Waits until Reports may have been appended, for some webhook, since the call that returned
    /// `seen` (0 before the first call), at most this long, milliseconds. Returns the `seen` of the
    /// next call: the same when nothing was appended.
    fn wait(&self, seen: u64, ms_max: u64) -> u64;

    /// The event in a message, if its bytes make sense.
    fn event(&self, body: &[u8]) -> Option<crate::ports::events::DeviceEvent>;
}

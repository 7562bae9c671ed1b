//! Posts the events of the feed, or its messages, to one webhook.
//!
//! The feed's ring is in memory: what was not posted when the server stops is tried once more,
//! and a webhook that is a whole ring behind loses the oldest. It takes no Reports where there is
//! a backlog of them. Invariant: a batch is posted again until it is taken or too old, and nothing
//! later is posted before it.

use super::{Address, BATCH_EVENTS_MAX, Backoff, GATHER};
use crate::events::{self, Filter};
use crate::feed::{Feed, Happening, Reader};
use std::sync::Arc;

/// Events lost since the last batch that was taken, and the events to post.
type Batch<'a> = (&'a mut u64, &'a [(u64, Arc<Happening>)]);

/// One webhook's courier for one lane of the feed.
pub(crate) struct FeedCourier {
    pub(crate) address: Address,
    pub(crate) filter: Filter,
    pub(crate) boot: u64,
    /// Makes ids of boot and place: [`events::id`] or [`events::message_id`].
    pub(crate) id: fn(u64, u64) -> String,
}

impl FeedCourier {
    /// Posts events until the feed ends; what is left then is tried once.
    pub(crate) fn run(self, feed: &Feed, reader: &Reader) {
        let agent = self.address.agent();
        let mut backoff = Backoff::new(self.address.retry, self.boot);
        let mut lost = 0;
        while let Some(taken) = reader.next_batch(BATCH_EVENTS_MAX, GATHER) {
            self.address.dropped(taken.lost, "the webhook was too far behind");
            lost += taken.lost;
            let events: Vec<_> =
                taken.happenings.into_iter().filter(|(_, event)| self.wants(event)).collect();
            if !self.deliver(&agent, &mut backoff, feed, (&mut lost, &events)) {
                return;
            }
        }
    }

    fn wants(&self, event: &Happening) -> bool {
        self.filter.wants(event)
    }

    /// Whether to go on: false when the feed was closed and the batch was not taken.
    fn deliver(
        &self,
        agent: &ureq::Agent,
        backoff: &mut Backoff,
        feed: &Feed,
        (lost, events): Batch<'_>,
    ) -> bool {
        let Some((_, newest)) = events.last() else { return true };
        let told: Vec<_> = events
            .iter()
            .map(|(place, event)| events::json(&(self.id)(self.boot, *place), event))
            .collect();
        backoff.reset();
        while self.address.post(agent, *lost, &told).is_err() {
            let too_old = self.address.age_ms(newest.at_ms()) > self.address.retry.age_ms_max;
            if too_old || !feed.pause(backoff.wait()) {
                *lost += told.len() as u64;
                let why = if too_old { "they are too old" } else { "the server stops" };
                self.address.dropped(told.len() as u64, why);
                return too_old;
            }
        }
        *lost = 0;
        true
    }
}

//! Posts a webhook's dead letters again on request.
//!
//! Oldest first, in batches as large as a courier's, each marked `redelivered`: its events are
//! older than those that the courier has posted meanwhile, and a consumer discards late ones by
//! version. An accepted letter is removed. It ends at the first batch that is not accepted.
//! Invariant: no two redeliveries of one webhook run at once, so their order is that in which
//! events were given up.

use super::dead::Lent;
use super::dead::shelf::DeadLetter;
use super::{Address, BATCH_EVENTS_MAX};
use crate::answers::hooks::{Redelivered, WebhookBody};
use crate::feed::Feed;
use std::io;
use std::time::Duration;

impl Address {
    /// Posts up to `count` of them. Blocks; ends early when the feed does.
    pub(crate) fn redeliver(
        &self,
        feed: &Feed,
        lent: &Lent<'_>,
        count: usize,
    ) -> io::Result<Redelivered> {
        let mut told = Redelivered::default();
        let Some(dead) = &self.dead else { return Ok(told) };
        let (agent, mut left, mut after) = (self.agent(), count, 0);
        while left > 0 {
            let Some(page) = dead.page(after, left.min(BATCH_EVENTS_MAX))? else { break };
            let events: Vec<_> = page.letters.iter().map(DeadLetter::as_json).collect();
            if !feed.pause(Duration::ZERO) {
                told.failure = Some("the server is stopping".into());
                break;
            }
            let body = WebhookBody { lost: 0, redelivered: true, events: &events };
            if !events.is_empty()
                && let Err(error) = self.send(&agent, &body)
            {
                told.failure = Some(crate::outward::failure(&error));
                break;
            }
            lent.taken(page.last)?;
            told.taken += events.len() as u64;
            left -= events.len().clamp(1, left);
            after = page.last;
        }
        told.left = dead.left();
        Ok(told)
    }
}

//! Webhooks: events posted to an application, in order, until it has taken them.
//!
//! One thread a webhook. A batch that is not taken (no 2xx) is posted again after a growing,
//! jittered wait, until it is older than the operator allows; then it is dropped and counted. The
//! place in the feed moves only then, so a webhook that is behind shows in [`Feed::has_room`]. It
//! knows neither shards nor the API. Invariant: what an application gets is in order, with gaps
//! only where it is told `lost`.

use crate::events::{self, Filter};
use crate::feed::{Feed, Reader};
use crate::hex;
use base::prng::Prng;
use hmac::{Hmac, KeyInit, Mac};
use model::event::Event;
use serde_json::json;
use sha2::Sha256;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Events in one request, at most.
pub const BATCH_EVENTS_MAX: usize = 100;

/// How long a batch waits for more events.
const GATHER: Duration = Duration::from_millis(20);

/// Unix milliseconds, from whoever reads the clock.
pub type WallClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Where events are posted, and which.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// `https://…` or `http://…`.
    pub url: String,
    /// Key of the signature in `Holdline-Signature`. Empty: nothing is signed.
    pub secret: Vec<u8>,
    /// Only of this product.
    pub product: Option<model::id::ProductKey>,
    /// Only these: `online`, `offline`, `report`, `pushed`. All when empty.
    pub types: Vec<String>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Webhook {{ url: {:?}, product: {:?}, .. }}", self.url, self.product)
    }
}

/// How often and how long a batch is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    /// Wait after the first failure, milliseconds. Doubles with each further one.
    pub wait_ms_min: u64,
    /// Longest wait, milliseconds; half of each wait is random.
    pub wait_ms_max: u64,
    /// A batch whose newest event is older is dropped, milliseconds.
    pub age_ms_max: u64,
    /// Time for one request, milliseconds.
    pub request_ms_max: u64,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            wait_ms_min: 500,
            wait_ms_max: 60_000,
            age_ms_max: 24 * 3_600 * 1_000,
            request_ms_max: 10_000,
        }
    }
}

/// What became of a webhook's events.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) delivered: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) failures: AtomicU64,
}

/// Events lost since the last batch that was taken, and the events to post.
type Batch<'a> = (&'a mut u64, &'a [(u64, Arc<Event>)]);

/// One webhook at work.
pub(crate) struct Courier {
    pub(crate) hook: Webhook,
    pub(crate) filter: Filter,
    pub(crate) retry: Retry,
    pub(crate) wall_ms: WallClock,
    pub(crate) boot: u64,
    pub(crate) tally: Arc<Tally>,
}

impl Courier {
    /// Posts events until the feed ends; what is left then is tried once.
    pub(crate) fn run(self, feed: &Feed, reader: &Reader) {
        let agent = agent(&self.retry);
        let mut rng = Prng::new(self.boot);
        let mut lost = 0;
        while let Some(taken) = reader.next_batch(BATCH_EVENTS_MAX, GATHER) {
            self.tally.dropped.fetch_add(taken.lost, Ordering::Relaxed);
            lost += taken.lost;
            let events: Vec<_> =
                taken.events.into_iter().filter(|(_, event)| self.filter.wants(event)).collect();
            let open = self.deliver(&agent, &mut rng, feed, (&mut lost, &events));
            reader.finish();
            if !open {
                return;
            }
        }
    }

    /// Whether to go on: false when the feed was closed and the batch was not taken.
    fn deliver(&self, agent: &ureq::Agent, rng: &mut Prng, feed: &Feed, batch: Batch<'_>) -> bool {
        let (lost, events) = batch;
        let Some((_, newest)) = events.last() else { return true };
        let told: Vec<_> =
            events.iter().map(|(place, event)| events::json(self.boot, *place, event)).collect();
        let body = json!({ "lost": *lost, "events": told }).to_string();
        let mut wait_ms = self.retry.wait_ms_min;
        loop {
            let Err(error) = self.post(agent, &body) else {
                self.tally.delivered.fetch_add(told.len() as u64, Ordering::Relaxed);
                *lost = 0;
                return true;
            };
            self.tally.failures.fetch_add(1, Ordering::Relaxed);
            let age_ms = (self.wall_ms)().saturating_sub(newest.at_ms);
            let jittered = wait_ms / 2 + rng.below(wait_ms / 2 + 1);
            tracing::debug!(%error, url = self.hook.url, age_ms, "a webhook did not take a batch");
            let too_old = age_ms > self.retry.age_ms_max;
            let open = !too_old && feed.pause(Duration::from_millis(jittered));
            if !open {
                self.tally.dropped.fetch_add(told.len() as u64, Ordering::Relaxed);
                *lost += told.len() as u64;
                tracing::warn!(%error, url = self.hook.url, events = told.len(), "events dropped");
                return too_old;
            }
            wait_ms = (wait_ms * 2).min(self.retry.wait_ms_max);
        }
    }

    fn post(&self, agent: &ureq::Agent, body: &str) -> Result<(), ureq::Error> {
        let mut request = agent.post(&self.hook.url).header("Content-Type", "application/json");
        if !self.hook.secret.is_empty() {
            let signature = sign(&self.hook.secret, (self.wall_ms)() / 1_000, body);
            request = request.header("Holdline-Signature", signature);
        }
        request.send(body).map(drop)
    }
}

/// `t=<Unix seconds>,v1=<HMAC-SHA256 of "<t>.<body>" in hex>`.
pub(crate) fn sign(secret: &[u8], unix_s: u64, body: &str) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    let mac = mac.chain_update(format!("{unix_s}.{body}")).finalize();
    format!("t={unix_s},v1={}", hex::encode(&mac.into_bytes()))
}

fn agent(retry: &Retry) -> ureq::Agent {
    ureq::Agent::config_builder()
        .timeout_global(Some(Duration::from_millis(retry.request_ms_max.max(1))))
        .max_redirects(0)
        .max_redirects_will_error(true)
        .build()
        .new_agent()
}

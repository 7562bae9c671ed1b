//! Webhooks: events posted to an application, in order, until it has accepted them.
//!
//! A thread posts the events of the feed ([`feed_courier`]), another one published messages if
//! wanted and, if Reports are wanted and have a backlog, one posts Reports ([`report_courier`]), so
//! that none waits for another's source. A batch that is not accepted (no 2xx) is posted again
//! after a growing, jittered wait, until it is older than the operator allows; then it is given up:
//! counted, and stored as [dead letters](dead), which are posted again on request ([`redelivery`]).
//! The set of webhooks changes while the server runs ([`roster`]). They know neither shards nor the
//! API. Invariant: an application gets each kind in order, with gaps only where it gets `lost`, and
//! nothing is posted while something older may still be posted again.

pub(crate) mod dead;
pub(crate) mod feed_courier;
pub(crate) mod redelivery;
pub(crate) mod report_courier;
pub(crate) mod roster;

use crate::answers::hooks::WebhookBody;
use crate::events::Filter;
use crate::outward::{self, redact};
use base::prng::Prng;
use dead::DeadLetters;
use dead::shelf::Why;
use model::{event, tell};
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Events in one request, at most.
pub const BATCH_EVENTS_MAX: usize = 100;

/// How long a batch waits for more events.
const GATHER: Duration = Duration::from_millis(20);

/// Unix milliseconds, from the caller's clock.
pub type WallClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Webhook: where events are posted, and which.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// `https://…` or `http://…`.
    pub url: String,
    /// Key of the signature in `Holdline-Signature`. Empty: nothing is signed.
    pub secret: Vec<u8>,
    /// Only of this product.
    pub product: Option<model::id::ProductKey>,
    /// Only these, by their names in `model::ports::events`. When empty: all but
    /// `message_published`, which has to be named.
    pub types: Vec<String>,
    /// Published messages on topics that match one of these filters; all of them when empty. Only
    /// with `message_published`.
    pub topics: Vec<String>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let url = redact::url(&self.url);
        write!(f, "Webhook {{ url: {url:?}, product: {:?}, .. }}", self.product)
    }
}

/// Retries of a batch: how often and how long it is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WebhookRetry {
    /// Wait after the first failure, milliseconds. Doubles with each further one.
    pub wait_ms_min: u64,
    /// Longest wait, milliseconds; half of each wait is random.
    pub wait_ms_max: u64,
    /// A batch whose newest event is older is given up, milliseconds.
    pub age_ms_max: u64,
    /// A Report of the backlog that was not taken and is older is given up, milliseconds.
    pub report_age_ms_max: u64,
    /// Time for one request, milliseconds.
    pub request_ms_max: u64,
}

impl WebhookRetry {
    fn backoff(&self, seed: u64) -> Backoff {
        Backoff::new((self.wait_ms_min, self.wait_ms_max), seed)
    }
}

impl Default for WebhookRetry {
    fn default() -> Self {
        WebhookRetry {
            wait_ms_min: 500,
            wait_ms_max: 60_000,
            age_ms_max: 24 * 3_600 * 1_000,
            report_age_ms_max: 7 * 24 * 3_600 * 1_000,
            request_ms_max: 10_000,
        }
    }
}

/// Counts of a webhook's events by what became of them.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) delivered: AtomicU64,
    /// Lost or given up.
    pub(crate) dropped: AtomicU64,
    pub(crate) failures: AtomicU64,
}

impl Webhook {
    /// Whether both are the same webhook, with whatever settings: a webhook is its URL and product.
    pub(crate) fn is(&self, other: &Webhook) -> bool {
        (&self.url, &self.product) == (&other.url, &other.product)
    }

    /// Its URL without secrets, and its product.
    pub(crate) fn shown(&self) -> String {
        let url = redact::url(&self.url);
        self.product.as_ref().map_or(url.clone(), |product| format!("{url} ({product})"))
    }
}

/// Configuration of a webhook. All of it may change, except its URL and product.
pub(crate) struct HookSettings {
    pub(crate) hook: Webhook,
    pub(crate) filter: Filter,
}

/// A webhook: where its couriers post, and the state that they share.
pub(crate) struct Address {
    settings: RwLock<Arc<HookSettings>>,
    pub(crate) retry: WebhookRetry,
    pub(crate) wall_ms: WallClock,
    /// Through the proxy that the environment names.
    pub(crate) proxied: bool,
    pub(crate) tally: Tally,
    /// Its dead letters, where there is a folder for them.
    pub(crate) dead: Option<DeadLetters>,
}

impl Address {
    /// Its settings now.
    pub(crate) fn settings(&self) -> Arc<HookSettings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets other settings, with the same URL and product.
    fn set(&self, settings: HookSettings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// Posts events, with the number of those that were lost since the last batch taken. Counts
    /// what comes of it.
    fn post(&self, agent: &ureq::Agent, lost: u64, events: &[Value]) -> Result<(), ureq::Error> {
        let posted = self.send(agent, &WebhookBody { lost, redelivered: false, events });
        if posted.is_ok() {
            self.tally.delivered.fetch_add(events.len() as u64, Ordering::Relaxed);
        }
        posted
    }

    /// Posts a body, signed. Counts a failure, and logs it.
    fn send(&self, agent: &ureq::Agent, body: &WebhookBody<'_>) -> Result<(), ureq::Error> {
        let body = serde_json::to_string(body).expect("names are text");
        let HookSettings { hook, .. } = &*self.settings();
        let signing = (&*hook.secret, (self.wall_ms)() / 1_000);
        let posted = outward::post_signed(agent, &hook.url, signing, &body);
        let posted = posted.and_then(|answer| outward::taken(&answer));
        if let Err(error) = &posted {
            self.tally.failures.fetch_add(1, Ordering::Relaxed);
            let (error, url) = (outward::failure(error), redact::url(&hook.url));
            tell!(event::WEBHOOK_REFUSED, error, url);
        }
        posted
    }

    /// How long ago that was, milliseconds.
    fn age_ms(&self, at_ms: u64) -> u64 {
        (self.wall_ms)().saturating_sub(at_ms)
    }

    /// Counts events that will not be posted, and logs them.
    fn dropped(&self, events: u64, why: &'static str) {
        if events > 0 {
            self.tally.dropped.fetch_add(events, Ordering::Relaxed);
            let url = redact::url(&self.settings().hook.url);
            tell!(event::WEBHOOK_DROPPED, url, events, why);
        }
    }

    /// Gives events up: they are counted as dropped, and kept as dead letters.
    fn give_up(&self, why: Why, events: impl Iterator<Item = Value>) -> u64 {
        let events: Vec<_> = events.map(|event| event.to_string()).collect();
        let count = events.len() as u64;
        if let Some(dead) = self.dead.as_ref().filter(|_| count > 0) {
            dead.keep((self.wall_ms)(), why, &events);
        }
        self.dropped(count, why.name());
        count
    }

    fn agent(&self) -> ureq::Agent {
        outward::agent(self.retry.request_ms_max, self.proxied)
    }
}

/// Waits between failures: each twice the last, half of it random.
pub(crate) struct Backoff {
    /// Shortest and longest, milliseconds.
    bounds: (u64, u64),
    wait_ms: u64,
    rng: Prng,
}

impl Backoff {
    pub(crate) fn new(bounds: (u64, u64), seed: u64) -> Backoff {
        Backoff { bounds, wait_ms: bounds.0, rng: Prng::new(seed) }
    }

    pub(crate) fn wait(&mut self) -> Duration {
        let jittered = self.wait_ms / 2 + self.rng.below(self.wait_ms / 2 + 1);
        self.wait_ms = (self.wait_ms * 2).min(self.bounds.1);
        Duration::from_millis(jittered)
    }

    pub(crate) fn reset(&mut self) {
        self.wait_ms = self.bounds.0;
    }
}

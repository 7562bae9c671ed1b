//! Pushes the metrics to a collector by OTLP over HTTP, for systems that do not scrape.
//!
//! At most one export runs at a time, with a time limit; while it runs, or while the collector is
//! unavailable, nothing is stored: figures are sums, so the next export has all that a lost one
//! would have had. It knows no metric. Invariant: whatever the collector does, only this thread
//! waits.

mod translation;

use crate::api::Shared;
use crate::api::life::{Phase, reached};
use crate::outward;
use crate::routes::operations;
use model::{event, tell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use translation::Times;

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;

/// Where metrics are pushed to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OtlpSettings {
    /// The whole address, mostly with `/v1/metrics` at its end.
    pub url: String,
    /// Time between two exports.
    pub interval_ms: u32,
    /// Time that one may take.
    pub timeout_ms: u32,
}

/// Counts of exports by their result.
#[derive(Default)]
pub(crate) struct OtlpTally {
    /// Exports that the collector took.
    pub(crate) taken: AtomicU64,
    /// Exports that failed.
    pub(crate) failed: AtomicU64,
}

/// Exports until the API finishes.
pub(crate) async fn export(
    api: Arc<Shared>,
    settings: OtlpSettings,
    phases: watch::Receiver<Phase>,
) {
    let proxied = api.settings.proxy_from_environment;
    let agent = outward::agent(settings.timeout_ms.into(), proxied);
    let mut ticks = tokio::time::interval(Duration::from_millis(settings.interval_ms.into()));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_away = false;
    loop {
        tokio::select! {
            biased;
            () = reached(phases.clone(), Phase::Finishing) => return,
            _ = ticks.tick() => {}
        }
        let (agent, url) = (agent.clone(), settings.url.clone());
        let sent = match body(&api).await {
            None => Err("the shards did not report their figures".to_owned()),
            Some(body) => {
                let sent = tokio::task::spawn_blocking(move || send(&agent, &url, &body)).await;
                sent.unwrap_or_else(|_| Err("not sent".to_owned()))
            }
        };
        let tally = if sent.is_ok() { &api.otlp.taken } else { &api.otlp.failed };
        tally.fetch_add(1, Ordering::Relaxed);
        let url = crate::shown_url(&settings.url);
        match (&sent, is_away) {
            (Err(why), false) => tell!(event::COLLECTOR_AWAY, %url, why),
            (Ok(()), true) => tell!(event::COLLECTOR_BACK, %url),
            _ => {}
        }
        is_away = sent.is_err();
    }
}

async fn body(api: &Arc<Shared>) -> Option<String> {
    let page = operations::page(api).await.ok()?;
    let now = (api.settings.wall_ms)();
    let times = Times { started: api.boot.saturating_mul(MS), now: now.saturating_mul(MS) };
    Some(translation::request(&page, api.settings.version, times).to_string())
}

fn send(agent: &ureq::Agent, url: &str, body: &str) -> Result<(), String> {
    let sent = outward::post(agent, url).send(body).and_then(|answer| outward::taken(&answer));
    sent.map_err(|error| outward::failure(&error))
}

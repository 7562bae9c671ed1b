//! A running server as `holdline top` shows it: what its API says once a second, and how fast it
//! changes.
//!
//! [`ServerState`] is fed a [`ServerReading`] whenever there is one and keeps two of them, with the
//! rates of the last two minutes. It does not know where a reading comes from, and reads no clock.
//! A server that does not answer is a state too: the figures stay, and why there are no new ones is
//! said.

mod draw;

pub use draw::draw as draw_server;

use crate::words;
use std::collections::{BTreeMap, VecDeque};

/// Readings whose rates are kept for the charts.
const RATES_MAX: usize = 120;

/// The API's figures at a moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ServerReading {
    /// When it was asked, milliseconds of any clock that does not step back.
    pub at_ms: u64,
    /// Version of the server.
    pub version: String,
    /// Whether it takes everything, and else why not: `ready`, `draining`, `log 0 failed`.
    pub readiness: String,
    /// Whether it takes everything.
    pub is_ready: bool,
    /// How its node stands in its cluster, and whether that is well; none without one.
    pub cluster: Option<(String, bool)>,
    /// How short memory is.
    pub pressure: String,
    /// Present figures, by the API's names.
    pub gauges: BTreeMap<String, u64>,
    /// Totals since the start, by the API's names.
    pub counters: BTreeMap<String, u64>,
    /// Connections that ended, by reason.
    pub closed: BTreeMap<String, u64>,
    /// Messages that were dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
}

/// State of the screen.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ServerState {
    place: String,
    now: ServerReading,
    before: Option<ServerReading>,
    /// Packets a second, in and out, the newest last.
    packets: VecDeque<[f64; 2]>,
    /// Why there is no newer reading.
    fault: Option<String>,
}

/// A reason and how often it was one: in all, and a second lately.
#[derive(Clone, PartialEq, Debug)]
pub struct ReasonRate {
    /// Its name.
    pub name: String,
    /// Occurrences since the server's start.
    pub all: u64,
    /// Of the last second.
    pub rate: f64,
}

impl ServerState {
    /// Makes a state before anything is known of the server at this place.
    pub fn new(place: String) -> ServerState {
        ServerState { place, ..ServerState::default() }
    }

    /// Takes a reading.
    pub fn see(&mut self, reading: ServerReading) {
        self.fault = None;
        let before = std::mem::replace(&mut self.now, reading);
        // One that was started again counts from zero.
        let restarted = before.counters.iter().any(|(name, count)| self.counter(name) < *count);
        self.before = (!before.version.is_empty() && !restarted).then_some(before);
        if self.before.is_some() {
            let rates = ["packets_received_total", "packets_sent_total"].map(|it| self.rate(it));
            self.packets.push_back(rates);
            let most = self.packets.len().saturating_sub(RATES_MAX);
            self.packets.drain(..most);
        }
    }

    /// Notes that no reading came, and why.
    pub fn miss(&mut self, why: &str) {
        self.fault = Some(why.lines().next().unwrap_or_default().to_owned());
    }

    /// Whether it did not answer the last time.
    pub fn is_missed(&self) -> bool {
        self.fault.is_some()
    }

    fn gauge(&self, name: &str) -> u64 {
        self.now.gauges.get(name).copied().unwrap_or_default()
    }

    fn counter(&self, name: &str) -> u64 {
        self.now.counters.get(name).copied().unwrap_or_default()
    }

    /// How much a counter grew a second.
    fn rate(&self, name: &str) -> f64 {
        self.growth(|reading| reading.counters.get(name).copied().unwrap_or_default())
    }

    fn growth(&self, of: impl Fn(&ServerReading) -> u64) -> f64 {
        let Some(before) = &self.before else { return 0.0 };
        let ms = self.now.at_ms.saturating_sub(before.at_ms).max(1);
        of(&self.now).saturating_sub(of(before)) as f64 * 1_000.0 / ms as f64
    }

    /// Reasons that were one at all: those of the last second first, then the most frequent.
    fn reasons(&self, of: fn(&ServerReading) -> &BTreeMap<String, u64>) -> Vec<ReasonRate> {
        let all = of(&self.now).iter().filter(|(_, count)| **count > 0);
        let mut all: Vec<ReasonRate> = all
            .map(|(name, &all)| {
                let count = |reading: &ServerReading| of(reading).get(name).copied();
                let rate = self.growth(|reading| count(reading).unwrap_or_default());
                ReasonRate { name: name.clone(), all, rate }
            })
            .collect();
        all.sort_by(|a, b| b.rate.total_cmp(&a.rate).then(b.all.cmp(&a.all)));
        all
    }

    /// State of the server, in a line: the same columns each time, for output without a terminal.
    pub fn line(&self) -> String {
        if let Some(why) = &self.fault {
            return format!("no answer: {why}");
        }
        let count = |name| words::count(self.gauge(name) as f64);
        let rate = |name| words::short(self.rate(name));
        let bytes = |name| words::bytes(self.rate(name));
        let worst = |all: Vec<ReasonRate>| {
            let worst = all.into_iter().find(|reason| reason.rate > 0.0);
            worst.map_or("-".to_owned(), |it| format!("{} {}/s", it.name, words::short(it.rate)))
        };
        let cluster = self.now.cluster.iter().map(|(words, _)| format!("  {words}"));
        let line = format!(
            "{:<8} connections {:>9} +{}/s  devices {:>9}  sessions {:>9}  packets in {:>6}/s out \
             {:>6}/s  bytes in {:>8}/s out {:>8}/s  waiting {}  queued {}  ends {}  drops {}",
            self.now.readiness,
            count("connections"),
            rate("connections_accepted_total"),
            count("online"),
            count("sessions_online"),
            rate("packets_received_total"),
            rate("packets_sent_total"),
            bytes("bytes_received_total"),
            bytes("bytes_sent_total"),
            count("waiting"),
            count("queued"),
            worst(self.reasons(|reading| &reading.closed)),
            worst(self.reasons(|reading| &reading.dropped)),
        );
        line + &cluster.collect::<String>()
    }
}

#[cfg(test)]
mod tests;

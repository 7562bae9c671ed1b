//! Pushes by Holdline's HTTP API: each at its planned moment, with the stamp in its body, so that
//! the device that gets it knows how long it took.
//!
//! A few threads take planned moments in turn; one that is behind sends late, and the corrected
//! time says so. It knows the API's words and no protocol. The invariant: every push planned is
//! taken, refused, lost, dropped or under way, and the account says so.

use super::parts::Pushes;
use crate::{fleet, stamp};
use base::prng::Prng;
use base64::Engine;
use lab::plan::{Group, Pace, Traffic};
use lab::run::{Balance, Counts};
use lab::timing::Timing;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Requests that are under way at once, for one kind of traffic of one group.
const THREADS: usize = 8;
/// Longest time a request may take.
const TIMEOUT: Duration = Duration::from_secs(15);
/// A push that could not be sent for so long after its moment is dropped.
const LATE_MAX: Duration = Duration::from_secs(5);
/// Longest time a thread rests without looking whether it is over.
const REST: Duration = Duration::from_millis(50);

/// Pushes by the API.
pub struct PushApi {
    base: String,
    token: Option<String>,
    /// Product and client id (with `%i`) of each group.
    devices: BTreeMap<String, (String, String)>,
    seed: u64,
    counts: BTreeMap<String, Arc<Mutex<Counts>>>,
    running: BTreeMap<String, Vec<Sending>>,
}

/// Threads that push.
struct Sending {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl PushApi {
    /// The API at this URL, for these groups of devices. `product` is the target's, for groups that
    /// name none.
    pub fn new(
        base: &str,
        token: Option<String>,
        groups: &[Group],
        product: Option<&str>,
    ) -> PushApi {
        let devices = groups.iter().filter_map(|group| {
            let product = group.product.as_deref().or(product)?.to_owned();
            let id = group.id.clone().unwrap_or_else(|| format!("{}-%i", group.name));
            Some((group.name.clone(), (product, id)))
        });
        PushApi {
            base: base.trim_end_matches('/').to_owned(),
            token,
            devices: devices.collect(),
            seed: stamp::wall_us(),
            counts: BTreeMap::new(),
            running: BTreeMap::new(),
        }
    }
}

impl Pushes for PushApi {
    fn push(&mut self, group: &str, traffic: &[Traffic]) -> Result<(), String> {
        if let Some(running) = self.running.remove(group) {
            running.iter().for_each(|sending| sending.over.store(true, Ordering::Relaxed));
            running.into_iter().flat_map(|sending| sending.threads).for_each(|thread| {
                // It ends with the request that it is in, or has broken off already.
                let _ = thread.join();
            });
        }
        if traffic.is_empty() {
            return Ok(());
        }
        let (product, id) = self.devices.get(group).cloned().ok_or_else(|| {
            format!(
                "pushes to {group} need its product: write `product` in the group, or in the URL"
            )
        })?;
        let counts = self.counts.entry(group.to_owned()).or_default().clone();
        for sent in traffic {
            self.seed = self.seed.wrapping_add(1);
            let order = Ordered {
                url: format!("{}/v1/pushes", self.base),
                authorization: self.token.as_ref().map(|token| format!("Bearer {token}")),
                product: product.clone(),
                id: id.clone(),
                traffic: sent.clone(),
                began: fleet::instant(),
                began_wall_us: stamp::wall_us(),
                next: Mutex::new(Next { at_s: 0.0, number: 0, prng: Prng::new(self.seed) }),
                counts: counts.clone(),
                over: Arc::default(),
            };
            let sending = order.start()?;
            self.running.entry(group.to_owned()).or_default().push(sending);
        }
        Ok(())
    }

    fn look(&mut self) -> BTreeMap<String, Counts> {
        let counts = self.counts.iter();
        counts.map(|(group, counts)| (group.clone(), locked(counts).clone())).collect()
    }
}

impl Drop for PushApi {
    fn drop(&mut self) {
        let running = self.running.values().flatten();
        running.for_each(|sending| sending.over.store(true, Ordering::Relaxed));
    }
}

/// One kind of traffic of one group.
struct Ordered {
    url: String,
    authorization: Option<String>,
    product: String,
    id: String,
    traffic: Traffic,
    began: Instant,
    began_wall_us: u64,
    next: Mutex<Next>,
    counts: Arc<Mutex<Counts>>,
    over: Arc<AtomicBool>,
}

/// The push that is planned next.
struct Next {
    at_s: f64,
    number: u32,
    prng: Prng,
}

/// A planned push.
struct Planned {
    at: Duration,
    number: u32,
    to: Option<String>,
}

impl Ordered {
    fn start(self) -> Result<Sending, String> {
        let order = Arc::new(self);
        let mut sending = Sending { over: order.over.clone(), threads: Vec::new() };
        for thread in 0..THREADS {
            let order = order.clone();
            let builder = std::thread::Builder::new().name(format!("pushes-{thread}"));
            let spawned = builder.spawn(move || order.send_all());
            sending.threads.push(spawned.map_err(|error| format!("no thread: {error}"))?);
        }
        Ok(sending)
    }

    fn send_all(&self) {
        let config =
            ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).http_status_as_error(false);
        // A proxy of the environment would see the token, and be what is measured.
        let config = config.proxy(None);
        let agent = config.build().new_agent();
        while let Some(planned) = self.take() {
            loop {
                let left = (self.began + planned.at).saturating_duration_since(fleet::instant());
                if self.over.load(Ordering::Relaxed) {
                    return;
                }
                if left.is_zero() {
                    break;
                }
                std::thread::sleep(left.min(REST));
            }
            self.send(&agent, &planned);
        }
    }

    /// The next planned push; `None`: there are no more.
    fn take(&self) -> Option<Planned> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if self.traffic.messages.is_some_and(|all| u64::from(next.number) >= all) {
            return None;
        }
        let at = Duration::from_secs_f64(next.at_s);
        next.at_s += 1.0 / rate(&self.traffic.pace, next.at_s);
        let number = next.number;
        next.number += 1;
        let to = self.traffic.among.map(|among| {
            let device = next.prng.below(u64::from(among.max(1)));
            self.id.replace("%i", &device.to_string())
        });
        Some(Planned { at, number, to })
    }

    fn send(&self, agent: &ureq::Agent, planned: &Planned) {
        let late = (fleet::instant() - self.began).saturating_sub(planned.at);
        if late > LATE_MAX {
            return locked(&self.counts).raise("dropped", 1.0);
        }
        self.count(|counts| counts.raise("messages.sent", 1.0));
        let order = self.body(planned, late);
        let mut request = agent.post(&self.url);
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let sent = fleet::instant();
        let answer = request.send_json(&order).map(|answer| answer.status().as_u16());
        let raw = fleet::instant() - sent;
        self.count(|counts| match answer {
            Ok(200..=299) => {
                counts.raise("messages.taken", 1.0);
                let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
                counts.timings.at(Timing::Publish).note_both(us(raw + late), us(raw));
            }
            Ok(status) => {
                counts.raise("messages.refused", 1.0);
                *counts.codes.entry(format!("push {status}")).or_default() += 1;
            }
            Err(_) => counts.raise("messages.lost", 1.0),
        });
    }

    /// The body of `POST /v1/pushes`.
    fn body(&self, planned: &Planned, late: Duration) -> Value {
        let at_us = u64::try_from(planned.at.as_micros()).unwrap_or(u64::MAX);
        let late_us = u32::try_from(late.as_micros()).unwrap_or(u32::MAX);
        let planned_us = self.began_wall_us.wrapping_add(at_us);
        let head = stamp::head(planned_us, late_us, stamp::From::Nobody);
        let mut body = vec![b'x'; (self.traffic.bytes as usize).max(head.len())];
        if body.len() >= stamp::PROOF_BYTES {
            // Several threads push at once: what leaves first is not known.
            let sign = stamp::Sign {
                publisher: self.began_wall_us as u32,
                topic: stamp::NO_TOPIC,
                tag: 0,
                stream: stamp::UNORDERED,
                number: u64::from(planned.number),
            };
            let front = stamp::prove(&head, &sign, stamp::rest_of(&body));
            body[..front.len()].copy_from_slice(&front);
        } else {
            body[..head.len()].copy_from_slice(&head);
        }
        let body = base64::engine::general_purpose::STANDARD.encode(body);
        let product = &self.product;
        match &planned.to {
            Some(device) => {
                json!({ "product": product, "devices": [device], "body_base64": body, "ttl_s": 60 })
            }
            None => json!({ "product": product, "all": true, "body_base64": body, "ttl_s": 0 }),
        }
    }

    /// Counts, and keeps the account of pushes true.
    fn count(&self, what: impl FnOnce(&mut Counts)) {
        let mut counts = locked(&self.counts);
        what(&mut counts);
        let of = |name| counts.figure(name) as u64;
        let sent = of("messages.sent");
        let parts = [
            ("taken", of("messages.taken")),
            ("refused", of("messages.refused")),
            ("lost", of("messages.lost")),
        ];
        let open = sent - parts.iter().map(|(_, count)| count).sum::<u64>();
        let parts = parts.into_iter().chain([("under way", open)]);
        let parts = parts.map(|(name, count)| (name.to_owned(), count)).collect();
        counts.accounts = vec![Balance { what: "pushes".to_owned(), total: sent, parts }];
    }
}

fn locked(counts: &Mutex<Counts>) -> std::sync::MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Messages a second, so long after the beginning.
fn rate(pace: &Pace, at_s: f64) -> f64 {
    match pace {
        Pace::PerS(per_s) => *per_s,
        Pace::Wave { low, high, period } => {
            let turn = at_s / period.0.as_secs_f64().max(1e-3) * std::f64::consts::TAU;
            low + (high - low) * (1.0 - turn.cos()) / 2.0
        }
        // The plan's check lets no other through; once a second harms nobody.
        Pace::Every(_) | Pace::Window(_) => 1.0,
    }
}

#[cfg(test)]
mod tests;

//! The operator's push gateway: notifications for devices that are not connected, one POST each.
//!
//! ```text
//! offer ─► queue (bounded) ─► a thread ─► POST, signed as webhooks are ─► taken, gone, refused
//!   │ it rests                                 └► no answer, 429, 5xx: it rests for a while
//!   └─────────► later                               and all that waits is put off
//! ```
//! An order is forgotten with its answer: the caller may order again. A notification for Holdline's
//! own devices goes to the hub like any push, and waits for no thread. Invariant: every accepted
//! order is answered once, and none waits longer than one request for a gateway that does not
//! answer.

mod body;
mod hub;

use crate::MetricReading;
use crate::outward::{self, redact};
use crate::webhook::{Backoff, WallClock};
use body::{Answer, PushBody};
use hub::{HubAnswers, of_hub};
use model::limits::NotificationLimits;
use model::ports::control::{Command, Control};
use model::ports::notifications::{
    NotificationOrder, NotificationTargets, NotificationWhat, Notified,
};
use model::ports::pushes::{PushCommand, PushOrder, PushTarget};
use model::push::Priority;
use model::{event, tell};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: u64 = 256 * 1024;

/// Callback that takes what became of an order: called once, from any thread; must not block.
pub type NotifiedReply = Box<dyn FnOnce(Notified) + Send>;

/// Settings of the gateway.
pub struct PushGatewaySettings {
    /// `https://…` or `http://…`; empty: no gateway exists, and only the hub gets notifications.
    pub url: String,
    /// Key of the signature in `Holdline-Signature`. Empty: nothing is signed.
    pub secret: Vec<u8>,
    /// Through the proxy that the environment names.
    pub proxied: bool,
    /// The limits in force.
    pub limits: NotificationLimits,
    /// Unix milliseconds.
    pub wall_ms: WallClock,
    /// For waits of uneven length.
    pub seed: u64,
}

/// The way to the gateway, and to the hub.
pub struct PushGateway {
    settings: PushGatewaySettings,
    queue: Mutex<Queue>,
    came: Condvar,
    health: Mutex<Health>,
    control: OnceLock<Arc<dyn Control>>,
    answers: Arc<HubAnswers>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    tally: Tally,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Box<NotificationOrder>, NotifiedReply)>,
    bytes: u64,
    closed: bool,
}

/// Health of the gateway.
struct Health {
    /// Unix millisecond before which nothing is posted.
    rests_until_ms: u64,
    backoff: Backoff,
    fails: bool,
}

/// Counts of requests by their results.
#[derive(Default)]
struct Tally {
    posted: AtomicU64,
    taken: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    put_off: AtomicU64,
    gone: AtomicU64,
    took_ms: AtomicU64,
    to_hub: Arc<AtomicU64>,
    hub_open: Arc<AtomicU64>,
}

/// Result of one request.
enum Posted {
    Taken(Vec<Box<str>>),
    Refused(u16),
    /// With when to come back, if it said so, milliseconds.
    Failed(String, Option<u64>),
}

impl PushGateway {
    /// A gateway that nothing is posted to yet.
    pub fn new(settings: PushGatewaySettings) -> Arc<PushGateway> {
        let limits = &settings.limits;
        let waits = (u64::from(limits.retry_ms_min), u64::from(limits.retry_ms_max));
        let backoff = Backoff::new((waits.0, waits.1.max(waits.0)), settings.seed);
        Arc::new(PushGateway {
            queue: Mutex::default(),
            came: Condvar::new(),
            health: Mutex::new(Health { rests_until_ms: 0, backoff, fails: false }),
            control: OnceLock::new(),
            answers: Arc::default(),
            threads: Mutex::default(),
            tally: Tally::default(),
            settings,
        })
    }

    /// Whether the operator has one.
    pub fn is_there(&self) -> bool {
        !self.settings.url.is_empty()
    }

    /// Starts: shards are there to be asked.
    pub fn begin(self: &Arc<PushGateway>, control: Arc<dyn Control>) -> std::io::Result<()> {
        if self.control.set(control).is_err() {
            return Ok(());
        }
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let answers = self.answers.clone();
        threads.push(Builder::new().name("holdline-woken".into()).spawn(move || answers.run())?);
        let count = if self.is_there() { self.settings.limits.requests_max } else { 0 };
        for at in 0..count {
            let gateway = self.clone();
            let run = move || gateway.run();
            threads.push(Builder::new().name(format!("holdline-push-{at}")).spawn(run)?);
        }
        Ok(())
    }

    /// Ends: waiting orders are put off, requests in progress end within their time.
    pub fn end(&self) {
        self.queue().closed = true;
        self.came.notify_all();
        self.answers.end();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(|it| it.into_inner()));
        for thread in threads {
            if thread.join().is_err() {
                tell!(event::THREAD_PANICKED, thread = "push gateway");
            }
        }
        self.put_all_off();
    }

    /// Takes an order; or says at once why not.
    pub fn offer(
        &self,
        order: Box<NotificationOrder>,
        reply: NotifiedReply,
    ) -> Result<(), Notified> {
        match order.targets {
            NotificationTargets::Miop { .. } => self.to_hub(*order, reply),
            // Targets elsewhere are notified by the federation part, not here.
            NotificationTargets::Service(_) | NotificationTargets::Platform(..) => {
                Err(Notified::Refused)
            }
            NotificationTargets::Gateway { .. } if !self.is_there() => Err(Notified::Refused),
            NotificationTargets::Gateway { .. } => self.to_gateway(order, reply),
        }
    }

    fn to_gateway(
        &self,
        order: Box<NotificationOrder>,
        reply: NotifiedReply,
    ) -> Result<(), Notified> {
        let later = |rest_ms| {
            self.tally.put_off.fetch_add(1, Ordering::Relaxed);
            Err(Notified::Later { rest_ms })
        };
        if let Some(rest_ms) = self.rests() {
            return later(rest_ms);
        }
        let limits = &self.settings.limits;
        let weight = order.weight() as u64;
        let mut queue = self.queue();
        let is_full = queue.waiting.len() >= limits.waiting_max as usize
            || queue.bytes + weight > limits.waiting_bytes_max;
        if is_full || queue.closed {
            drop(queue);
            return later(limits.retry_ms_min);
        }
        queue.bytes += weight;
        queue.waiting.push_back((order, reply));
        drop(queue);
        self.came.notify_one();
        Ok(())
    }

    /// How long nothing is posted, if it rests.
    fn rests(&self) -> Option<u32> {
        let until_ms = self.health.lock().unwrap_or_else(PoisonError::into_inner).rests_until_ms;
        let left_ms = until_ms.saturating_sub((self.settings.wall_ms)());
        (left_ms > 0).then(|| left_ms.min(u64::from(u32::MAX)) as u32)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let request_ms_max = u64::from(self.settings.limits.request_ms_max);
        let agent = outward::agent(request_ms_max, self.settings.proxied);
        while let Some((order, reply)) = self.next() {
            let began_ms = (self.settings.wall_ms)();
            let posted = self.post(&agent, &order);
            let took_ms = (self.settings.wall_ms)().saturating_sub(began_ms);
            self.tally.posted.fetch_add(1, Ordering::Relaxed);
            self.tally.took_ms.fetch_add(took_ms, Ordering::Relaxed);
            reply(self.judged(posted));
        }
    }

    fn next(&self) -> Option<(Box<NotificationOrder>, NotifiedReply)> {
        let mut queue = self.queue();
        loop {
            if queue.closed {
                return None;
            }
            if let Some((order, reply)) = queue.waiting.pop_front() {
                queue.bytes = queue.bytes.saturating_sub(order.weight() as u64);
                return Some((order, reply));
            }
            queue = self.came.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn post(&self, agent: &ureq::Agent, order: &NotificationOrder) -> Posted {
        let PushGatewaySettings { url, secret, wall_ms, .. } = &self.settings;
        let body = PushBody::of(order).json();
        let signing = (&**secret, wall_ms() / 1_000);
        let mut answer = match outward::post_signed(agent, url, signing, &body) {
            Ok(answer) => answer,
            Err(error) => return Posted::Failed(outward::failure(&error), None),
        };
        let status = answer.status().as_u16();
        match status {
            200..=299 => {
                let read = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
                // An answer without a body, or with another one, means accepted.
                Posted::Taken(read.map_or(Vec::new(), |bytes| Answer::rejected(&bytes)))
            }
            410 => Posted::Taken(tokens_of(order)),
            408 | 429 | 500..=599 => {
                let after = answer.headers().get("Retry-After").and_then(|it| it.to_str().ok());
                let after_s = after.and_then(|text| text.trim().parse::<u32>().ok());
                let after_ms = after_s.map(|s| u64::from(s) * 1_000);
                Posted::Failed(format!("it answered with status {status}"), after_ms)
            }
            _ => Posted::Refused(status),
        }
    }

    /// Effect of a request on the order and on the gateway's health.
    fn judged(&self, posted: Posted) -> Notified {
        let url = redact::url(&self.settings.url);
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let (counter, what) = match posted {
            Posted::Failed(words, after_ms) => {
                let wait_ms = health.backoff.wait().as_millis() as u64;
                let most_ms = u64::from(self.settings.limits.retry_ms_max);
                let rest_ms = after_ms.unwrap_or(0).max(wait_ms).min(most_ms);
                health.rests_until_ms = (self.settings.wall_ms)() + rest_ms;
                if !std::mem::replace(&mut health.fails, true) {
                    tell!(event::GATEWAY_AWAY, url, words);
                }
                drop(health);
                self.tally.failed.fetch_add(1, Ordering::Relaxed);
                self.put_all_off();
                return Notified::Later { rest_ms: rest_ms as u32 };
            }
            Posted::Refused(status) => {
                tell!(event::GATEWAY_REFUSED, url, status);
                (&self.tally.refused, Notified::Refused)
            }
            Posted::Taken(gone) => {
                self.tally.gone.fetch_add(gone.len() as u64, Ordering::Relaxed);
                (&self.tally.taken, Notified::Taken { gone })
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
        health.backoff.reset();
        health.rests_until_ms = 0;
        if std::mem::take(&mut health.fails) {
            tell!(event::GATEWAY_BACK, url);
        }
        what
    }

    /// All that waits is put off, since the gateway rests.
    fn put_all_off(&self) {
        let mut queue = self.queue();
        let waiting = std::mem::take(&mut queue.waiting);
        queue.bytes = 0;
        drop(queue);
        let rest_ms = self.rests().unwrap_or(self.settings.limits.retry_ms_min);
        self.tally.put_off.fetch_add(waiting.len() as u64, Ordering::Relaxed);
        for (_, reply) in waiting {
            reply(Notified::Later { rest_ms });
        }
    }

    /// Sends a notification for a device of MIOP, as a push.
    fn to_hub(&self, order: NotificationOrder, reply: NotifiedReply) -> Result<(), Notified> {
        let limits = &self.settings.limits;
        let later = Notified::Later { rest_ms: 0 };
        let Some(control) = self.control.get() else { return Err(later) };
        let open = self.tally.hub_open.clone();
        if open.load(Ordering::Relaxed) >= u64::from(limits.waiting_max) {
            self.tally.put_off.fetch_add(1, Ordering::Relaxed);
            return Err(later);
        }
        let body = PushBody::of(&order).json().into_bytes().into();
        let NotificationOrder { targets, what } = order;
        let NotificationTargets::Miop { product, devices } = targets else {
            return Err(Notified::Refused);
        };
        let (collapse, is_loud, time_to_live_s) = match &what {
            NotificationWhat::Code(_) => (Some("code".into()), true, 600),
            NotificationWhat::Push(..) => return Err(Notified::Refused),
            NotificationWhat::Notification(it) => {
                let key = it.said.as_ref().map_or("badge".into(), |said| said.collapse.clone());
                let is_loud = it.loudness == model::chat::Loudness::High;
                (Some(key), is_loud, limits.miop_time_to_live_s)
            }
        };
        let push = PushOrder {
            collapse,
            time_to_live_s,
            priority: if is_loud { Priority::High } else { Priority::Normal },
            silent: !is_loud,
            ..PushOrder::new(control.next_id(), product, PushTarget::Devices(devices), body)
        };
        self.tally.to_hub.fetch_add(1, Ordering::Relaxed);
        open.fetch_add(1, Ordering::Relaxed);
        let answers = self.answers.clone();
        let told = move |answer| {
            let told: NotifiedReply = Box::new(move |what| {
                open.fetch_sub(1, Ordering::Relaxed);
                reply(what);
            });
            answers.put(told, of_hub(answer));
        };
        control.ask(Command::Push(PushCommand::Push(push)), Box::new(told));
        Ok(())
    }

    /// Readings of the gateway, for the metrics.
    pub fn readings(&self) -> Vec<MetricReading> {
        let reading = |name, help, value| MetricReading { name, help, value };
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let tally = &self.tally;
        let (waiting, bytes) = {
            let queue = self.queue();
            (queue.waiting.len() as u64, queue.bytes)
        };
        vec![
            reading(
                "push_gateway_up",
                "1: a push gateway is configured and accepts requests.",
                u64::from(self.is_there() && self.rests().is_none()),
            ),
            reading("push_gateway_waiting", "Notifications queued for the gateway.", waiting),
            reading("push_gateway_waiting_bytes", "Bytes of these.", bytes),
            reading("push_gateway_requests_total", "Requests to the gateway.", of(&tally.posted)),
            reading(
                "push_gateway_taken_total",
                "Notifications accepted by the gateway.",
                of(&tally.taken),
            ),
            reading(
                "push_gateway_failed_total",
                "Notifications without an answer, or to be \
                                                  retried.",
                of(&tally.failed),
            ),
            reading(
                "push_gateway_refused_total",
                "Notifications refused by the \
                                                   gateway.",
                of(&tally.refused),
            ),
            reading(
                "push_gateway_put_off_total",
                "Notifications postponed: the gateway was paused, or too many waited.",
                of(&tally.put_off),
            ),
            reading("push_gateway_gone_total", "Device tokens reported as gone.", of(&tally.gone)),
            reading(
                "push_gateway_request_seconds_total",
                "Duration of requests to the gateway.",
                of(&tally.took_ms) / 1_000,
            ),
            reading(
                "push_hub_total",
                "Notifications sent as pushes to MIOP devices.",
                of(&tally.to_hub),
            ),
        ]
    }
}

fn tokens_of(order: &NotificationOrder) -> Vec<Box<str>> {
    match &order.targets {
        NotificationTargets::Gateway { tokens, .. } => tokens.clone(),
        NotificationTargets::Miop { .. }
        | NotificationTargets::Service(_)
        | NotificationTargets::Platform(..) => Vec::new(),
    }
}

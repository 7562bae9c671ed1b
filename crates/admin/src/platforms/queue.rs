//! The queue of a platform, and the threads that send what is in it.
//!
//! A platform may have several services (the web has one for each browser), which fail
//! independently: each has a lane, with a pause of its own after a failure. If several are
//! in use, none takes more than half of the threads, and the last quarter is for services without a
//! request under way: of four threads or more, two services that hang leave some to a third. An
//! answer that concerns one device pauses its service only if several devices in a row get such an
//! answer. Invariant: what a full queue or a paused service cannot take is answered at once, and
//! nothing waits in the lane of a paused service.

use super::message::Message;
use super::{Gateway, PlatformOutcomes, PlatformSettings, PlatformStatus, Verdict, Whose, Wire};
use crate::push_gateway::NotifiedReply;
use crate::webhook::{Backoff, WallClock};
use model::ports::notifications::{
    NotificationOrder, NotificationTargets, NotificationWhat, Notified,
};
use model::{event, tell};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use ureq::Agent;

/// Devices in a row whose faults are one of their service.
const STRAYS_MAX: usize = 3;

/// Longest pause that a service may ask for, milliseconds.
const RETRY_AFTER_MS_MAX: u64 = 3_600_000;

/// Longest wait for a rate, milliseconds: beyond, the clock has been set back.
const PACE_MS_MAX: u64 = 1_000;

/// A platform.
pub(super) struct Platform {
    settings: PlatformSettings,
    gateway: Box<dyn Gateway>,
    agent: Agent,
    wall_ms: WallClock,
    seed: u64,
    state: Mutex<State>,
    came: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    /// One for each service that the gateway names: as many as the configuration has, at most.
    lanes: Vec<Lane>,
    /// Orders in all lanes.
    waiting: usize,
    /// The lane that is looked at first.
    turn: usize,
    /// Unix microsecond before which the rate permits no request.
    paced_until_us: u64,
    outcomes: PlatformOutcomes,
    /// How our credentials were refused, until a push is accepted.
    denied: Option<String>,
    last_fault: Option<String>,
    closed: bool,
}

/// A service of the platform.
struct Lane {
    name: Box<str>,
    waiting: VecDeque<(Box<NotificationOrder>, NotifiedReply)>,
    /// Requests in progress.
    open: usize,
    /// Unix millisecond before which nothing is sent, and how long the pause was then.
    rests_until_ms: u64,
    rest_ms: u64,
    backoff: Backoff,
    fails: bool,
    /// Tokens that failed, and those that were denied, since the last accepted push: the first few.
    failed: Vec<Box<str>>,
    denied: Vec<Box<str>>,
}

impl Lane {
    /// Milliseconds of its pause that are left.
    fn left_ms(&self, now_ms: u64) -> u64 {
        let left_ms = self.rests_until_ms.saturating_sub(now_ms);
        // Otherwise the clock has been set back.
        if left_ms <= self.rest_ms { left_ms } else { 0 }
    }

    /// Pauses for so long at least; returns for how long. Requests that were under way together
    /// fail as one: the pause does not become longer with each of them.
    fn rest(&mut self, now_ms: u64, least_ms: u64) -> u64 {
        let own_ms = match self.left_ms(now_ms) {
            0 => self.backoff.wait().as_millis() as u64,
            left_ms => left_ms,
        };
        self.rest_ms = own_ms.max(least_ms);
        self.rests_until_ms = now_ms + self.rest_ms;
        self.rest_ms
    }
}

/// Notes a token that failed; whether so many did that the fault is the service's.
fn is_many(strays: &mut Vec<Box<str>>, token: &str) -> bool {
    if strays.len() < STRAYS_MAX && !strays.iter().any(|it| **it == *token) {
        strays.push(token.into());
    }
    strays.len() >= STRAYS_MAX
}

impl Platform {
    pub fn new(
        settings: PlatformSettings,
        (gateway, agent): (Box<dyn Gateway>, Agent),
        (wall_ms, seed): (WallClock, u64),
    ) -> Platform {
        Platform {
            settings,
            gateway,
            agent,
            wall_ms,
            seed,
            state: Mutex::default(),
            came: Condvar::new(),
            threads: Mutex::default(),
        }
    }

    pub fn name(&self) -> &str {
        &self.settings.name
    }

    pub fn gateway(&self) -> &dyn Gateway {
        &*self.gateway
    }

    /// Starts the threads.
    pub fn begin(self: &Arc<Platform>) -> std::io::Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for at in 0..self.settings.limits.requests_max {
            let platform = self.clone();
            let builder = Builder::new().name(format!("holdline-plat-{at}"));
            threads.push(builder.spawn(move || platform.run())?);
        }
        Ok(())
    }

    /// Takes nothing more, and puts off what waits.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let waiting: Vec<_> =
            state.lanes.iter_mut().flat_map(|lane| lane.waiting.drain(..)).collect();
        state.waiting = 0;
        drop(state);
        self.came.notify_all();
        self.put_off(waiting, Notified::Later { rest_ms: self.settings.limits.retry_ms_min });
    }

    /// Waits for the threads.
    pub fn join(&self) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            if thread.join().is_err() {
                tell!(event::THREAD_PANICKED, thread = "push platform");
            }
        }
    }

    /// Takes an order; or says at once why not.
    pub fn offer(
        &self,
        order: Box<NotificationOrder>,
        reply: NotifiedReply,
    ) -> Result<(), Notified> {
        let NotificationTargets::Platform(token, _) = &order.targets else {
            return Err(Notified::Refused);
        };
        let (now_ms, limits) = ((self.wall_ms)(), &self.settings.limits);
        let service = self.gateway.service(&token.token);
        let mut state = self.state();
        let lane = self.lane(&mut state, service);
        let lane_rests = lane.left_ms(now_ms) > 0;
        let rest_ms = match lane.left_ms(now_ms) {
            0 if !state.closed && state.waiting < limits.waiting_max as usize => {
                self.lane(&mut state, service).waiting.push_back((order, reply));
                state.waiting += 1;
                None
            }
            0 => Some(limits.retry_ms_min.into()),
            left_ms => Some(left_ms),
        };
        if let Some(rest_ms) = rest_ms {
            state.outcomes.postponed += 1;
            let rest_ms = rest_ms.min(u32::MAX.into()) as u32;
            let is_resting = lane_rests && !state.closed;
            return Err(self.later(rest_ms, is_resting));
        }
        drop(state);
        self.came.notify_one();
        Ok(())
    }

    /// The answer to an order that comes too early; `rests`: because its service is paused. The
    /// platform's only service is the platform.
    fn later(&self, rest_ms: u32, rests: bool) -> Notified {
        match rests && self.gateway.services() == 1 {
            true => Notified::Resting { rest_ms },
            false => Notified::Later { rest_ms },
        }
    }

    /// The lane of a service, made if it is new.
    fn lane<'a>(&self, state: &'a mut State, service: &str) -> &'a mut Lane {
        let at = state.lanes.iter().position(|lane| *lane.name == *service);
        let at = at.unwrap_or_else(|| {
            let limits = &self.settings.limits;
            let (min, max) = (u64::from(limits.retry_ms_min), u64::from(limits.retry_ms_max));
            let seed = self.seed ^ ((state.lanes.len() as u64) << 32);
            state.lanes.push(Lane {
                name: service.into(),
                waiting: VecDeque::new(),
                open: 0,
                rests_until_ms: 0,
                rest_ms: 0,
                backoff: Backoff::new((min, max.max(min)), seed),
                fails: false,
                failed: Vec::new(),
                denied: Vec::new(),
            });
            state.lanes.len() - 1
        });
        &mut state.lanes[at]
    }

    fn run(&self) {
        let mut wire = Wire { agent: self.agent.clone(), http2: None };
        while let Some((order, reply)) = self.next() {
            let NotificationOrder { targets, what } = *order;
            let (
                NotificationTargets::Platform(token, withdrawal),
                NotificationWhat::Push(device, push),
            ) = (targets, what)
            else {
                reply(Notified::Refused);
                continue;
            };
            let now_s = (self.wall_ms)() / 1_000;
            let (platform, token_text) = (self.gateway.platform(), &*token.token);
            let message =
                Message { platform, token: token_text, device: &device, push: &push, now_s };
            reply(match push.expired(u32::try_from(now_s).unwrap_or(u32::MAX)) {
                _ if withdrawal.is_withdrawn() => self.unsent(&token.token),
                true => self.judged(&token.token, Verdict::Refused("it has expired".into())),
                false => self.judged(&token.token, self.gateway.send(&mut wire, &message)),
            });
        }
    }

    /// The answer to an order that was withdrawn before it was sent.
    fn unsent(&self, token: &str) -> Notified {
        let mut state = self.state();
        let lane = self.lane(&mut state, self.gateway.service(token));
        lane.open = lane.open.saturating_sub(1);
        state.outcomes.postponed += 1;
        drop(state);
        self.came.notify_one();
        Notified::Later { rest_ms: self.settings.limits.retry_ms_min }
    }

    /// The next order, when there is one that may be sent; `None` at the end.
    fn next(&self) -> Option<(Box<NotificationOrder>, NotifiedReply)> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            let wait_ms = self.paced_ms(&mut state);
            if wait_ms > 0 {
                let wait = Duration::from_millis(wait_ms);
                let waited = self.came.wait_timeout(state, wait);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            if let Some(at) = self.ready(&state) {
                let lane = &mut state.lanes[at];
                lane.open += 1;
                let order = lane.waiting.pop_front();
                state.waiting -= 1;
                state.turn = at + 1;
                let per_s = u64::from(self.settings.limits.rate_per_s);
                let now_us = (self.wall_ms)() * 1_000;
                let cost_us = 1_000_000_u64.checked_div(per_s).unwrap_or(0);
                state.paced_until_us = state.paced_until_us.max(now_us) + cost_us;
                if state.waiting > 0 {
                    // Who was woken for it may have waited for the rate, as this thread did.
                    self.came.notify_one();
                }
                return order;
            }
            state = self.came.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Milliseconds until the rate permits a request.
    fn paced_ms(&self, state: &mut State) -> u64 {
        let now_us = (self.wall_ms)() * 1_000;
        let left_us = state.paced_until_us.saturating_sub(now_us);
        if left_us > PACE_MS_MAX * 1_000 {
            state.paced_until_us = now_us;
            return 0;
        }
        left_us.div_ceil(1_000)
    }

    /// The next lane from which an order may be taken.
    fn ready(&self, state: &State) -> Option<usize> {
        let (count, threads) = (state.lanes.len(), usize::from(self.settings.limits.requests_max));
        // A service that is alone so far has all threads.
        let (open_max, kept) = match count > 1 {
            true => (threads.div_ceil(2), threads / 4),
            false => (threads, 0),
        };
        let open: usize = state.lanes.iter().map(|lane| lane.open).sum();
        let may = |lane: &Lane| {
            lane.open < open_max && (lane.open == 0 || threads.saturating_sub(open) > kept)
        };
        let all = (0..count).map(|at| (state.turn + at) % count);
        let mut all = all.filter(|&at| !state.lanes[at].waiting.is_empty());
        all.find(|&at| may(&state.lanes[at]))
    }

    /// The answer to an order, and the effect of a request on its service.
    fn judged(&self, token: &str, verdict: Verdict) -> Notified {
        let limits = &self.settings.limits;
        let (now_ms, platform) = ((self.wall_ms)(), self.name());
        let mut state = self.state();
        let lane = self.lane(&mut state, self.gateway.service(token));
        lane.open = lane.open.saturating_sub(1);
        let (pauses, is_denied) = match &verdict {
            Verdict::Failed(_, Whose::ThisToken, _) => (is_many(&mut lane.failed, token), false),
            Verdict::Failed(_, whose, _) => (*whose == Whose::All, false),
            Verdict::Denied(_, Whose::ThisToken) => (false, is_many(&mut lane.denied, token)),
            Verdict::Denied(_, whose) => (*whose == Whose::All, *whose == Whose::All),
            _ => (false, false),
        };
        // A service may ask for more than the longest pause of our own, within reason.
        let least_ms = match &verdict {
            Verdict::Failed(_, _, after_ms) => after_ms.unwrap_or(0).min(RETRY_AFTER_MS_MAX),
            _ => 0,
        };
        let (mut put_off, mut back, mut away) = (VecDeque::new(), false, false);
        let rest_ms = match &verdict {
            _ if pauses => {
                away = matches!(verdict, Verdict::Failed(..))
                    && !std::mem::replace(&mut lane.fails, true);
                put_off = std::mem::take(&mut lane.waiting);
                lane.rest(now_ms, least_ms)
            }
            Verdict::Denied(..) => limits.retry_ms_max.into(),
            _ => least_ms.max(limits.retry_ms_min.into()),
        };
        if verdict == Verdict::Accepted {
            lane.failed.clear();
            lane.denied.clear();
            // An older request may be answered while the service rests.
            if lane.left_ms(now_ms) == 0 {
                lane.backoff.reset();
                back = std::mem::take(&mut lane.fails);
            }
        }
        let State { outcomes, denied, last_fault, waiting, .. } = &mut *state;
        *waiting -= put_off.len();
        let rest_ms = u32::try_from(rest_ms).unwrap_or(u32::MAX);
        let notified = match verdict {
            Verdict::Accepted => {
                (outcomes.accepted, *denied, *last_fault) = (outcomes.accepted + 1, None, None);
                if back {
                    tell!(event::PLATFORM_BACK, platform);
                }
                Notified::Taken { gone: Vec::new() }
            }
            Verdict::Dead => {
                outcomes.dead += 1;
                Notified::Taken { gone: vec![token.into()] }
            }
            Verdict::Refused(words) => {
                outcomes.refused += 1;
                tell!(event::PLATFORM_REFUSED, platform, words);
                *last_fault = Some(words);
                Notified::Refused
            }
            Verdict::Failed(words, ..) => {
                outcomes.failed += 1;
                if away {
                    tell!(event::PLATFORM_AWAY, platform, words);
                }
                *last_fault = Some(words);
                self.later(rest_ms, pauses)
            }
            Verdict::Denied(words, _) => {
                outcomes.denied += 1;
                if !is_denied {
                    tell!(event::PLATFORM_REFUSED, platform, words);
                } else if denied.is_none() {
                    tell!(event::PLATFORM_DENIED, platform, words);
                    *denied = Some(words.clone());
                }
                *last_fault = Some(words);
                self.later(rest_ms, pauses)
            }
        };
        drop(state);
        // A thread waits for a lane that had too many requests.
        self.came.notify_one();
        self.put_off(put_off.into(), self.later(rest_ms, pauses));
        notified
    }

    fn put_off(&self, orders: Vec<(Box<NotificationOrder>, NotifiedReply)>, answer: Notified) {
        self.state().outcomes.postponed += orders.len() as u64;
        orders.into_iter().for_each(|(_, reply)| reply(answer.clone()));
    }

    pub fn status(&self) -> PlatformStatus {
        let (now_ms, state) = ((self.wall_ms)(), self.state());
        let rests = |lane: &Lane| lane.left_ms(now_ms) > 0;
        let is_resting = !state.lanes.is_empty() && state.lanes.iter().all(rests);
        PlatformStatus {
            name: self.name().into(),
            kind: self.gateway.kind(),
            public_key: self.gateway.public_key(),
            state: match (state.denied.is_some(), is_resting) {
                (true, _) => "denied",
                (false, true) => "resting",
                (false, false) => "ready",
            },
            last_fault: state.denied.clone().or_else(|| state.last_fault.clone()),
            waiting: state.waiting as u64,
            requests: state.lanes.iter().map(|lane| lane.open as u64).sum(),
            outcomes: state.outcomes,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;

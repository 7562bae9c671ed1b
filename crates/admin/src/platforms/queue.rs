//! The queue of a platform, and the threads that send what is in it.
//!
//! A platform may have several services (the web has one for each browser), which fail
//! independently: each has a lane, with a pause of its own after a failure. While a platform has
//! several lanes, none takes more than half of the threads, so a service that hangs leaves room for
//! the others. Invariant: what a full queue or a paused service cannot take is answered at once,
//! and what waits is never older than one request and its pause.

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

/// Most services of a platform at once. An order for one more waits for an idle one to be
/// forgotten.
const LANES_MAX: usize = 64;

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
    lanes: Vec<Lane>,
    /// Orders in all lanes.
    waiting: usize,
    /// The lane that is looked at first.
    turn: usize,
    /// Unix microsecond before which the rate permits no request.
    paced_until_us: u64,
    outcomes: PlatformOutcomes,
    denied: bool,
    last_fault: Option<String>,
    closed: bool,
}

/// A service of the platform.
struct Lane {
    name: Box<str>,
    waiting: VecDeque<(Box<NotificationOrder>, NotifiedReply)>,
    /// Requests in progress.
    open: usize,
    /// Unix millisecond before which nothing is sent.
    rests_until_ms: u64,
    backoff: Backoff,
    fails: bool,
}

impl Lane {
    fn is_idle(&self, now_ms: u64) -> bool {
        self.waiting.is_empty() && self.open == 0 && self.rests_until_ms <= now_ms
    }
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
        self.put_off(waiting, self.settings.limits.retry_ms_min);
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
        let NotificationTargets::Platform(token) = &order.targets else {
            return Err(Notified::Refused);
        };
        let (now_ms, limits) = ((self.wall_ms)(), &self.settings.limits);
        let service = self.gateway.service(&token.token);
        let mut state = self.state();
        let rest_ms = match self.lane(&mut state, service, now_ms) {
            Some(at) if state.lanes[at].rests_until_ms > now_ms => {
                Some(state.lanes[at].rests_until_ms - now_ms)
            }
            Some(at) if !state.closed && state.waiting < limits.waiting_max as usize => {
                state.lanes[at].waiting.push_back((order, reply));
                state.waiting += 1;
                None
            }
            _ => Some(limits.retry_ms_min.into()),
        };
        if let Some(rest_ms) = rest_ms {
            state.outcomes.postponed += 1;
            return Err(Notified::Later { rest_ms: rest_ms.min(u32::MAX.into()) as u32 });
        }
        drop(state);
        self.came.notify_one();
        Ok(())
    }

    /// The lane of a service, made if it is new; `None` if there is no room for it.
    fn lane(&self, state: &mut State, service: &str, now_ms: u64) -> Option<usize> {
        if let Some(at) = state.lanes.iter().position(|lane| *lane.name == *service) {
            return Some(at);
        }
        if state.lanes.len() >= LANES_MAX {
            let idle = state.lanes.iter().position(|lane| lane.is_idle(now_ms))?;
            state.lanes.swap_remove(idle);
        }
        let limits = &self.settings.limits;
        let (min, max) = (u64::from(limits.retry_ms_min), u64::from(limits.retry_ms_max));
        let seed = self.seed ^ ((state.lanes.len() as u64) << 32);
        state.lanes.push(Lane {
            name: service.into(),
            waiting: VecDeque::new(),
            open: 0,
            rests_until_ms: 0,
            backoff: Backoff::new((min, max.max(min)), seed),
            fails: false,
        });
        Some(state.lanes.len() - 1)
    }

    fn run(&self) {
        let mut wire = Wire { agent: self.agent.clone(), http2: None };
        while let Some((order, reply)) = self.next() {
            let NotificationOrder { targets, what } = *order;
            let (NotificationTargets::Platform(token), NotificationWhat::Push(device, push)) =
                (targets, what)
            else {
                reply(Notified::Refused);
                continue;
            };
            let now_s = (self.wall_ms)() / 1_000;
            let message = Message { token: &token.token, device: &device, push: &push, now_s };
            let verdict = match push.expired(u32::try_from(now_s).unwrap_or(u32::MAX)) {
                true => Verdict::Refused("it has expired".into()),
                false => self.gateway.send(&mut wire, &message),
            };
            reply(self.judged(&token.token, verdict));
        }
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
        let open_max = if count > 1 { threads.div_ceil(2) } else { threads };
        let all = (0..count).map(|at| (state.turn + at) % count);
        let mut all = all.filter(|&at| !state.lanes[at].waiting.is_empty());
        all.find(|&at| state.lanes[at].open < open_max)
    }

    /// The answer to an order, and the effect of a request on its service.
    fn judged(&self, token: &str, verdict: Verdict) -> Notified {
        let limits = &self.settings.limits;
        let (now_ms, platform) = ((self.wall_ms)(), self.name());
        let mut put_off = Vec::new();
        let mut state = self.state();
        let at = self.lane(&mut state, self.gateway.service(token), now_ms);
        let State { lanes, outcomes, denied, last_fault, waiting, .. } = &mut *state;
        let lane = at.map(|at| &mut lanes[at]);
        let is_rest =
            matches!(verdict, Verdict::Failed(_, Whose::All, _) | Verdict::Denied(_, Whose::All));
        let mut rest_ms = 0;
        if let Some(lane) = lane {
            lane.open = lane.open.saturating_sub(1);
            if let Verdict::Failed(_, Whose::ThisToken, after_ms) = &verdict {
                rest_ms = after_ms.unwrap_or(0).max(limits.retry_ms_min.into());
            } else if is_rest {
                let after_ms = match &verdict {
                    Verdict::Failed(_, _, after_ms) => after_ms.unwrap_or(0),
                    _ => 0,
                };
                let wait_ms = lane.backoff.wait().as_millis() as u64;
                // A service may ask for more than the longest pause of our own, within reason.
                rest_ms = wait_ms.max(after_ms.min(RETRY_AFTER_MS_MAX));
                lane.rests_until_ms = now_ms + rest_ms;
                *waiting -= lane.waiting.len();
                put_off.extend(lane.waiting.drain(..));
            } else if !matches!(verdict, Verdict::Denied(..) | Verdict::Failed(..)) {
                lane.backoff.reset();
                lane.rests_until_ms = 0;
                if std::mem::take(&mut lane.fails) {
                    tell!(event::PLATFORM_BACK, platform);
                }
            }
            if let Verdict::Failed(words, Whose::All, _) = &verdict
                && !std::mem::replace(&mut lane.fails, true)
            {
                tell!(event::PLATFORM_AWAY, platform, words);
            }
        }
        let notified = match verdict {
            Verdict::Accepted => {
                (outcomes.accepted, *denied, *last_fault) = (outcomes.accepted + 1, false, None);
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
                *last_fault = Some(words);
                Notified::Later { rest_ms: rest_ms as u32 }
            }
            Verdict::Denied(words, whose) => {
                outcomes.denied += 1;
                if !std::mem::replace(denied, true) {
                    tell!(event::PLATFORM_DENIED, platform, words);
                }
                *last_fault = Some(words);
                let is_all = whose == Whose::All;
                Notified::Later {
                    rest_ms: if is_all { rest_ms as u32 } else { limits.retry_ms_max },
                }
            }
        };
        drop(state);
        // A thread waits for a lane that had too many requests.
        self.came.notify_one();
        self.put_off(put_off, u32::try_from(rest_ms).unwrap_or(u32::MAX));
        notified
    }

    fn put_off(&self, orders: Vec<(Box<NotificationOrder>, NotifiedReply)>, rest_ms: u32) {
        self.state().outcomes.postponed += orders.len() as u64;
        orders.into_iter().for_each(|(_, reply)| reply(Notified::Later { rest_ms }));
    }

    pub fn status(&self) -> PlatformStatus {
        let (now_ms, state) = ((self.wall_ms)(), self.state());
        let rests = |lane: &Lane| lane.rests_until_ms > now_ms;
        let is_resting = !state.lanes.is_empty() && state.lanes.iter().all(rests);
        PlatformStatus {
            name: self.name().into(),
            kind: self.gateway.kind(),
            public_key: self.gateway.public_key(),
            state: match (state.denied, is_resting) {
                (true, _) => "denied",
                (false, true) => "resting",
                (false, false) => "ready",
            },
            last_fault: state.last_fault.clone(),
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

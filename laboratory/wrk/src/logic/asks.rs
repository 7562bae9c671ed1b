//! Requests of clients, and their answers.
//!
//! A request may be several (pipelining): its time is that until the last answer, as in wrk. With
//! a rate, time counts from the planned moment, and from the real one besides.

use super::{Asked, ShardHandle, WrkLogic};
use crate::client_slot::ClientTask;
use crate::script::ScriptRequest;
use base::time::{Instant, Now};
use lab::cause::Cause;
use lab::timing::Timing;
use load::fleet::client::FleetProfile;
use load::fleet::pace::{Rate, Timetable};
use load::http::{self, HttpAnswer, HttpHeader};
use model::topic::{Publication, Qos};
use std::sync::Arc;

/// Requests sent in one turn. More wait a turn, so that answers are not measured late.
const ASKS_PER_TURN: usize = 1_024;

/// An answer: its status, headers and body.
type Told<'a> = (u32, &'a [HttpHeader], &'a [u8]);

impl WrkLogic {
    /// Takes the one request of a script that has no function for them. Checks the first of one
    /// that has, on the first thread, as wrk does: it is asked for once more than it is sent.
    pub(super) fn fix_request(&mut self) -> Result<(), String> {
        let Some(script) = &self.script else { return Ok(()) };
        let first = self.pool.thread == 0;
        if !self.speaks_http() || (self.wants.request && !first) {
            return Ok(());
        }
        let ScriptRequest::Bytes(text) = script.request(0)? else {
            return Err(format!("{}request() returned no string", script.place("request")));
        };
        let heads = http::requests(&text);
        let heads = heads.map_err(|wrong| format!("{}{wrong}", script.place("request")))?;
        if !self.wants.request {
            self.fixed = Some((text.into(), heads.into()));
        }
        Ok(())
    }

    /// The client may ask: after its delay, or when the plan says so.
    pub(super) fn next(&mut self, now: Now, virtual_client: u32) {
        if let Some(rate) = self.job.rate {
            let share = rate / f64::from(self.job.plan.threads);
            self.pace.get_or_insert_with(|| Timetable::new(now.mono, Rate::Even(share), 0.0, 0));
            self.idle.push_back(virtual_client);
            return;
        }
        if !self.wants.delay {
            self.ready.push_back(virtual_client);
            return;
        }
        let number = self.pool.number(virtual_client);
        let delay = self.script(|script| script.delay(number));
        if delay.is_zero() {
            self.ready.push_back(virtual_client);
        } else {
            self.pool.arm(virtual_client, now.after(delay));
        }
    }

    /// Sends the requests of those who may.
    pub(super) fn ask_ready(&mut self, now: Now, handle: &mut ShardHandle) {
        for _ in 0..ASKS_PER_TURN {
            let Some(virtual_client) = self.ready.pop_front() else { break };
            self.ask(now, virtual_client, now.mono, handle);
        }
    }

    /// Sends the requests whose planned time has come, as far as clients are free.
    pub(super) fn ask_by_plan(&mut self, now: Now, handle: &mut ShardHandle) {
        for _ in 0..ASKS_PER_TURN {
            let Some(pace) = self.pace.as_mut().filter(|pace| pace.next() <= now.mono) else {
                break;
            };
            let Some(virtual_client) = self.idle.pop_front() else { break };
            let is_free = self.exchanges[virtual_client as usize].open == 0;
            if self.pool.is_online(virtual_client) && is_free {
                let at = pace.take();
                self.ask(now, virtual_client, at, handle);
            }
        }
    }

    fn ask(&mut self, now: Now, virtual_client: u32, planned: Instant, handle: &mut ShardHandle) {
        let is_free = self.exchange(virtual_client).open == 0;
        if !self.pool.is_online(virtual_client) || !is_free || self.fault.is_some() {
            return;
        }
        let Some((ask, count, asked)) = self.what(virtual_client) else { return };
        let this = self.exchange(virtual_client);
        (this.since, this.planned, this.open, this.asked) = (now.mono, planned, count, asked);
        this.overdue = false;
        let log = &mut self.pool.log;
        log.asked += u64::from(count);
        log.open_requests += u64::from(count);
        log.pings += u64::from(asked == Asked::Heartbeat);
        handle.deliver(self.pool.conn(virtual_client), ask);
    }

    /// The next request of a client, the number of answers that it wants, and its kind. `None`:
    /// none.
    fn what(&mut self, virtual_client: u32) -> Option<(ClientTask, u32, Asked)> {
        if let Some((bytes, heads)) = &self.fixed {
            let count = heads.len() as u32;
            return Some((ClientTask::Send(bytes.clone(), heads.clone()), count, Asked::Request));
        }
        let number = self.pool.number(virtual_client);
        let request = match self.wants.request {
            true => self.script(|script| script.request(number).map(Some))?,
            false => ScriptRequest::Nothing,
        };
        match (&self.job.plan.profile, request) {
            (FleetProfile::Http(_), ScriptRequest::Bytes(text)) => match http::requests(&text) {
                Ok(heads) => {
                    let count = heads.len() as u32;
                    Some((ClientTask::Send(text.into(), heads.into()), count, Asked::Request))
                }
                Err(wrong) => self.failed(&wrong),
            },
            (FleetProfile::Http(_), _) => self.failed("request() returned no string"),
            (FleetProfile::Tcp, ScriptRequest::Bytes(bytes)) => {
                Some((ClientTask::Send(bytes.into(), Arc::new([false])), 1, Asked::Request))
            }
            (FleetProfile::Tcp, ScriptRequest::Nothing)
            | (FleetProfile::Im(_) | FleetProfile::Xmpp(_), _) => None,
            (FleetProfile::Miop(_), ScriptRequest::Bytes(body)) => {
                Some((ClientTask::Report(body.into()), 1, Asked::Message))
            }
            (FleetProfile::Miop(_) | FleetProfile::Mqtt(_), ScriptRequest::Nothing) => {
                Some((ClientTask::Ping, 1, Asked::Heartbeat))
            }
            (FleetProfile::Mqtt(_), ScriptRequest::Bytes(payload)) => {
                self.publication(number, None, &payload, (None, false))
            }
            (FleetProfile::Mqtt(_), ScriptRequest::Publish { topic, payload, qos, retain }) => {
                self.publication(number, topic.as_deref(), &payload, (qos, retain))
            }
            (FleetProfile::Tcp | FleetProfile::Miop(_), ScriptRequest::Publish { payload, .. }) => {
                let is_miop = matches!(self.job.plan.profile, FleetProfile::Miop(_));
                Some(if is_miop {
                    (ClientTask::Report(payload.into()), 1, Asked::Message)
                } else {
                    (ClientTask::Send(payload.into(), Arc::new([false])), 1, Asked::Request)
                })
            }
        }
    }

    fn publication(
        &mut self,
        number: u32,
        topic: Option<&str>,
        payload: &[u8],
        (qos, retain): (Option<u8>, bool),
    ) -> Option<(ClientTask, u32, Asked)> {
        let FleetProfile::Mqtt(profile) = &self.job.plan.profile else { return None };
        let topic = match topic {
            Some(topic) => topic.to_owned(),
            None => self.job.topic.replace("%i", &number.to_string()),
        };
        if topic.is_empty() || topic.contains(['+', '#', '\0']) || topic.len() > 65_535 {
            return self.failed(&format!("`{topic}` is no topic to publish to"));
        }
        let mut message = Publication::new(&topic, &[], payload);
        message.qos = qos.and_then(Qos::of).unwrap_or(profile.qos);
        message.retain = retain;
        let asked = match message.qos {
            Qos::AtMostOnce => Asked::Shot,
            _ => Asked::Message,
        };
        Some((ClientTask::Publish(Box::new(message)), 1, asked))
    }

    fn failed<T>(&mut self, wrong: &str) -> Option<T> {
        let place = self.script.as_ref().map_or(String::new(), |script| script.place("request"));
        self.fault.get_or_insert_with(|| format!("{place}{wrong}"));
        None
    }

    pub(super) fn pong(&mut self, now: Now, virtual_client: u32) {
        let this = &self.exchanges[virtual_client as usize];
        let is_due = this.open > 0 && this.asked == Asked::Heartbeat;
        if !is_due || !self.pool.is_online(virtual_client) {
            return;
        }
        let us = (now.mono - this.since).as_micros() as u64;
        if self.wants.heartbeat {
            let number = self.pool.number(virtual_client);
            self.script(|script| script.heartbeat(number, us));
        }
        self.answered(now, virtual_client, (0, &[], &[]), true);
    }

    /// An HTTP or TCP server has answered.
    pub(super) fn answer(
        &mut self,
        now: Now,
        virtual_client: u32,
        answer: &HttpAnswer,
        handle: &mut ShardHandle,
    ) {
        let told = (u32::from(answer.status), &answer.headers[..], &answer.body[..]);
        self.answered(now, virtual_client, told, answer.goes_on);
        if !answer.goes_on {
            self.leave(now, virtual_client, Cause::Farewell, 0, handle);
        }
    }

    /// A request was answered; with the last answer the next request is due, if there is a next.
    pub(super) fn answered(
        &mut self,
        now: Now,
        virtual_client: u32,
        told: Told<'_>,
        goes_on: bool,
    ) {
        if !self.pool.is_online(virtual_client) || self.exchange(virtual_client).open == 0 {
            return;
        }
        self.settle(now, virtual_client, told);
        self.pool.forget_tries(virtual_client);
        if self.exchange(virtual_client).open == 0 && goes_on {
            self.next(now, virtual_client);
        }
    }

    /// Counts an answer and tells the script.
    pub(super) fn settle(
        &mut self,
        now: Now,
        virtual_client: u32,
        (status, headers, body): Told<'_>,
    ) {
        let (timeout, is_http) = (self.job.plan.timeout, self.speaks_http());
        let this = self.exchange(virtual_client);
        let raw = now.mono - this.since;
        let corrected = now.mono - this.planned;
        let late = raw > timeout;
        this.open -= 1;
        let (last, asked) = (this.open == 0, this.asked);
        let newly_late = late && !std::mem::replace(&mut this.overdue, late);
        let log = &mut self.pool.log;
        log.unanswered += u64::from(newly_late);
        log.open_requests -= 1;
        log.answered += 1;
        log.answered_badly += u64::from(if is_http { status > 399 } else { status != 0 });
        if asked == Asked::Heartbeat {
            *(if late { &mut log.late_pongs } else { &mut log.pongs }) += 1;
        }
        self.log.late += u64::from(late);
        if last && asked != Asked::Shot {
            let (corrected, raw) = (corrected.as_micros() as u64, raw.as_micros() as u64);
            self.log.latency.note_both(corrected, raw);
            let timing = match asked {
                Asked::Bind => Timing::Bind,
                Asked::Heartbeat => Timing::Heartbeat,
                Asked::Message | Asked::Shot => Timing::Publish,
                Asked::Request => Timing::Request,
            };
            self.pool.log.timings.at(timing).note_both(corrected, raw);
        }
        if self.wants.response {
            let number = self.pool.number(virtual_client);
            self.script(|script| script.response(number, status, headers, body));
        }
    }

    pub(super) fn message(&mut self, virtual_client: u32, topic: &str, body: &[u8]) {
        self.pool.log.messages += 1;
        if self.wants.message {
            let number = self.pool.number(virtual_client);
            self.script(|script| script.message(number, body, topic));
        }
    }

    /// Counts the answers that a client waited for as lost.
    pub(super) fn lose(&mut self, virtual_client: u32) {
        let this = self.exchange(virtual_client);
        let open = u64::from(std::mem::take(&mut this.open));
        let beat = this.asked == Asked::Heartbeat && open > 0;
        this.overdue = false;
        let log = &mut self.pool.log;
        log.open_requests -= open;
        log.lost_requests += open;
        log.lost_pings += u64::from(beat);
    }
}

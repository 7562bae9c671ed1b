//! Traffic of virtual clients: what they send, and when.
//!
//! Open loop: moments follow from the plan alone. A heartbeat or a request waits until a client has
//! none under way, like wrk2's; its time counts from the planned moment (corrected) and from the
//! real one (raw). A moment that found no client in time is counted (`unsent`), and so is one that
//! this thread got to too late (`dropped`). Messages do not wait for each other. Closed loop: a
//! client sends as soon as its window has room, and both times are the same.

use super::pairs::mark_of;
use super::{FleetLogic, ShardHandle};
use crate::fleet::client::im::ChatSay;
use crate::fleet::client::{Client, ClientAct, FleetProfile, TopicMessage};
use crate::fleet::pace::{Rate, Timetable};
use crate::fleet::pool::micros;
use crate::fleet::stamp::{self, From, NO_TOPIC, PublishNote};
use crate::fleet::virtual_client::{Aim, Ears, Flags, State};
use base::time::{Instant, Now};
use lab::plan::{Pace, Traffic, What};
use model::ports::virtual_client::Action;
use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

/// Planned messages of a stream sent in one turn. More wait a turn.
const MESSAGES_PER_TURN: usize = 1_024;
/// A planned moment that is older is dropped: the tester cannot keep its plan.
const LATE_MAX: Duration = Duration::from_secs(1);

/// All that is sent.
#[derive(Default)]
pub(super) struct Streams {
    all: Vec<Stream>,
    /// Which plan of messages it is; zero: there was none yet.
    epoch: u8,
}

/// One kind of message.
struct Stream {
    traffic: Traffic,
    /// Its planned moments, where the plan sets them for all clients together.
    schedule: Option<Timetable>,
    /// Its messages are numbered in a row.
    is_row: bool,
    /// Client whose turn it is.
    cursor: usize,
    /// Messages that this thread has sent of it.
    done: u64,
    /// Messages that it may still send; `None`: any number.
    left: Option<u64>,
    /// When it last found no client free.
    blocked_at: Instant,
    /// Number of answers by the time that it was blocked; `None`: it is not.
    blocked: Option<u64>,
    /// Body of each message, but for its head.
    body: Arc<[u8]>,
    /// Checksum of what is behind the proof; `None`: there is no room for one.
    rest: Option<u32>,
    /// Text behind the proof, for clients that send texts.
    text: Arc<str>,
}

impl Stream {
    /// Whether another one may be sent; if so, it is counted.
    fn take_one(&mut self) -> bool {
        if self.left == Some(0) {
            return false;
        }
        self.left = self.left.map(|left| left - 1);
        self.done += 1;
        true
    }
}

impl FleetLogic {
    /// Sends this, and nothing that was sent before.
    pub(super) fn send_from_now_on(
        &mut self,
        now: Now,
        traffic: &[Traffic],
        handle: &mut ShardHandle,
    ) {
        let stream = |traffic: &Traffic| Stream {
            schedule: None,
            is_row: false,
            cursor: 0,
            done: 0,
            left: None,
            blocked_at: now.mono,
            blocked: None,
            rest: None,
            text: "r".repeat((traffic.bytes as usize).saturating_sub(stamp::PROOF_BYTES)).into(),
            body: vec![b'r'; (traffic.bytes as usize).max(stamp::HEAD_BYTES)].into(),
            traffic: traffic.clone(),
        };
        let proved = |mut stream: Stream| {
            let has_room = stream.body.len() >= stamp::PROOF_BYTES;
            stream.rest = has_room.then(|| stamp::rest_of(&stream.body));
            stream
        };
        let sent = traffic.iter().filter(|one| one.what != What::Push);
        self.streams.all = sent.map(stream).map(proved).collect();
        self.streams.epoch = self.streams.epoch.checked_add(1).unwrap_or(1);
        self.replan(now);
        for virtual_client in 0..self.pool.clients.len() as u32 {
            if self.pool.at(virtual_client).state == State::Online {
                self.first_messages(now, virtual_client, handle);
            }
        }
    }

    /// Whether one sender feeds one topic with it.
    fn could_be_row(&self, traffic: &Traffic) -> bool {
        let topic = traffic.topic.as_deref().unwrap_or_default();
        let is_own = topic.contains("%i") || self.pool.arrivals.total() == 1;
        traffic.what == What::Publish && traffic.among.is_none() && is_own
    }

    /// This thread's part of so many messages: all parts together are all of them.
    fn part_of_messages(&self, messages: u64) -> u64 {
        let total = self.pool.arrivals.total();
        let clients = |thread| self.pool.part_of_thread(total, thread) as u64;
        let before: u64 = (0..self.pool.thread).map(clients).sum();
        let up_to = |clients: u64| {
            (u128::from(messages) * u128::from(clients) / u128::from(total.max(1))) as u64
        };
        up_to(before + clients(self.pool.thread)) - up_to(before)
    }

    /// Plans anew, for this thread's part of the clients.
    pub(super) fn replan(&mut self, now: Now) {
        let share = self.pool.arrivals.share();
        let phase = f64::from(self.pool.thread) / f64::from(self.pool.plan.threads);
        // Numbers are those of one topic: what a client sends to a second one has none.
        let could_be = |stream: &&Stream| self.could_be_row(&stream.traffic);
        let row = self.streams.all.iter().find(could_be).map(|one| one.traffic.topic.clone());
        for place in 0..self.streams.all.len() {
            let traffic = &self.streams.all[place].traffic;
            let is_row = self.could_be_row(traffic) && row.as_ref() == Some(&traffic.topic);
            let part = traffic.messages.map(|messages| self.part_of_messages(messages));
            let rate = match traffic.pace {
                Pace::PerS(per_s) => Some(Rate::Even(per_s)),
                Pace::Wave { low, high, period } => {
                    Some(Rate::Wave { low, high, period_s: period.0.as_secs_f64() })
                }
                Pace::Window(_) | Pace::Every(_) => None,
            };
            let rate = rate.map(|rate| rate.times(share)).filter(|rate| rate.most() > 0.0);
            let seed = self.pool.random.draw();
            let stream = &mut self.streams.all[place];
            stream.is_row = is_row;
            stream.left = part.map(|part| part.saturating_sub(stream.done));
            stream.schedule = rate.map(|rate| Timetable::new(now.mono, rate, phase, seed));
        }
    }

    /// Sends a virtual client's first messages once it is bound, or once there is a new plan.
    pub(super) fn first_messages(
        &mut self,
        now: Now,
        virtual_client: u32,
        handle: &mut ShardHandle,
    ) {
        let epoch = self.streams.epoch;
        if self.pool.at(virtual_client).every != epoch {
            self.pool.at(virtual_client).every = epoch;
            for place in 0..self.streams.all.len() {
                if let Pace::Every(span) = self.streams.all[place].traffic.pace {
                    let at = now.after(self.spread(virtual_client, span.0));
                    let aim = Aim::Every(place as u8);
                    self.pool.timers.push(Reverse((at, virtual_client, u16::from(epoch), aim)));
                }
            }
        }
        self.fill_windows(now, virtual_client, handle);
    }

    /// A timer says that a virtual client's next message is due; it goes on while the virtual
    /// client is away.
    pub(super) fn send_every(
        &mut self,
        now: Now,
        virtual_client: u32,
        at: Instant,
        place: u8,
        handle: &mut ShardHandle,
    ) {
        let Some(stream) = self.streams.all.get(usize::from(place)) else { return };
        let Pace::Every(span) = stream.traffic.pace else { return };
        let timer = u16::from(self.pool.at(virtual_client).every);
        // A tester that has fallen behind leaves moments out, and says so.
        let mut next = at + span.0;
        while next + LATE_MAX < now.mono {
            next = next + span.0;
            self.pool.log.dropped += 1;
        }
        self.pool.timers.push(Reverse((next, virtual_client, timer, Aim::Every(place))));
        let place = usize::from(place);
        if self.can_send(virtual_client)
            && self.goes_round(virtual_client, place)
            && self.streams.all[place].take_one()
        {
            self.send(now, virtual_client, place, at, handle);
        }
    }

    /// Sends as much as a client's windows take.
    pub(super) fn fill_windows(&mut self, now: Now, virtual_client: u32, handle: &mut ShardHandle) {
        for place in 0..self.streams.all.len() {
            let stream = &self.streams.all[place];
            let Pace::Window(window) = stream.traffic.pace else { continue };
            if stream.traffic.what == What::Heartbeat {
                self.ping_again(now, virtual_client, handle);
                continue;
            }
            while self.can_send(virtual_client)
                && self.pool.at(virtual_client).open < u32::from(window)
                && self.goes_round(virtual_client, place)
                && self.streams.all[place].take_one()
            {
                self.send(now, virtual_client, place, now.mono, handle);
            }
        }
    }

    /// Beats at once where the last beat was answered and beats are a closed loop.
    pub(super) fn ping_again(&mut self, now: Now, virtual_client: u32, handle: &mut ShardHandle) {
        let is_loop = self.streams.all.iter().any(|stream| {
            stream.traffic.what == What::Heartbeat && matches!(stream.traffic.pace, Pace::Window(_))
        });
        if is_loop && self.can_send(virtual_client) && !self.pool.at(virtual_client).is_pinging() {
            self.ping(virtual_client, now.mono, 0, handle);
        }
    }

    /// Whether a client's rounds of a stream are not over; where there are none they never are.
    fn goes_round(&self, virtual_client: u32, place: usize) -> bool {
        let gone = u64::from(self.pool.clients[virtual_client as usize].row);
        self.streams.all[place].traffic.rounds(1).is_none_or(|rounds| gone < rounds)
    }

    fn can_send(&mut self, virtual_client: u32) -> bool {
        let this = self.pool.at(virtual_client);
        this.state == State::Online && this.ears != Ears::Frozen && !this.flags.has(Flags::TOLD)
    }

    /// When the next planned message is due. One that waits for a client has no time.
    pub(super) fn next_message(&self) -> Option<Instant> {
        let free = self.streams.all.iter().filter(|stream| stream.blocked.is_none());
        free.filter_map(|stream| Some(stream.schedule.as_ref()?.next())).min()
    }

    /// Sends the messages whose planned time has come, by the online clients in turn.
    pub(super) fn send_by_plan(&mut self, now: Now, handle: &mut ShardHandle) {
        for place in 0..self.streams.all.len() {
            for _ in 0..MESSAGES_PER_TURN {
                if !self.send_next(now, place, handle) {
                    break;
                }
            }
        }
    }

    /// Does with the next planned message of a stream what is to be done; false: nothing now.
    fn send_next(&mut self, now: Now, place: usize, handle: &mut ShardHandle) -> bool {
        let answers = self.answers();
        let stream = &mut self.streams.all[place];
        let Some(at) = stream.schedule.as_ref().map(Timetable::next).filter(|at| *at <= now.mono)
        else {
            return false;
        };
        if stream.left == Some(0) {
            stream.schedule = None;
            return false;
        }
        let waits = now.mono - at <= self.pool.plan.timeout && self.pool.log.online_now > 0;
        if waits && stream.blocked == Some(answers) {
            stream.blocked_at = now.mono;
            return false;
        }
        let free = self.next_free(place);
        let stream = &mut self.streams.all[place];
        stream.blocked = None;
        if free.is_none() {
            stream.blocked_at = now.mono;
            if waits {
                stream.blocked = Some(answers);
                return false;
            }
        }
        let late = now.mono - at.max(stream.blocked_at.min(now.mono));
        stream.schedule.as_mut().map(Timetable::take);
        stream.take_one();
        match free {
            None => self.pool.log.unsent += 1,
            Some(_) if late > LATE_MAX => self.pool.log.dropped += 1,
            Some(virtual_client) => self.send(now, virtual_client, place, at, handle),
        }
        true
    }

    /// Number of events so far that made clients free.
    fn answers(&self) -> u64 {
        let log = &self.pool.log;
        log.bound + log.pongs + log.late_pongs + log.answered + log.thawed
    }

    /// The next client in turn that can send.
    fn next_free(&mut self, place: usize) -> Option<u32> {
        if self.pool.log.online_now == 0 {
            return None;
        }
        let what = self.streams.all[place].traffic.what;
        let (mut cursor, count) = (self.streams.all[place].cursor, self.pool.clients.len());
        for _ in 0..count {
            let virtual_client = (cursor % count) as u32;
            cursor = (cursor + 1) % count;
            let is_busy = match what {
                What::Heartbeat => self.pool.at(virtual_client).is_pinging(),
                What::Request => self.pool.at(virtual_client).open > 0,
                What::Publish | What::Push => false,
            };
            if self.can_send(virtual_client) && !is_busy {
                self.streams.all[place].cursor = cursor;
                return Some(virtual_client);
            }
        }
        None
    }

    /// Sends what was planned for `at`.
    fn send(
        &mut self,
        now: Now,
        virtual_client: u32,
        place: usize,
        at: Instant,
        handle: &mut ShardHandle,
    ) {
        let late_us = micros(now.mono - at);
        let stream = &self.streams.all[place];
        let body = stream.body.clone();
        match (stream.traffic.what, &self.pool.plan.profile) {
            (What::Heartbeat, _) => {
                self.ping(virtual_client, at, late_us, handle);
            }
            (What::Request, FleetProfile::Http(_)) => {
                self.request(virtual_client, at, Arc::new([]), handle, now)
            }
            (What::Request, _) => self.request(virtual_client, at, body, handle, now),
            (What::Publish, FleetProfile::Mqtt(_)) => {
                self.publish(now, virtual_client, place, at, handle)
            }
            (What::Publish, FleetProfile::Im(_) | FleetProfile::Xmpp(_)) => {
                self.say(now, virtual_client, place, at, handle)
            }
            (What::Publish, _) => {
                let planned_us = self.wall_us(at);
                let body = with_front(&body, &stamp::head(planned_us, late_us, From::Nobody));
                self.flights_begin(virtual_client, at, late_us, true);
                self.tell(virtual_client, ClientAct::Do(Action::Report(body)), handle);
            }
            (What::Push, _) => {} // not from here
        }
    }

    fn request(
        &mut self,
        virtual_client: u32,
        at: Instant,
        body: Arc<[u8]>,
        handle: &mut ShardHandle,
        now: Now,
    ) {
        self.flights_begin(virtual_client, at, micros(now.mono - at), true);
        self.tell(virtual_client, ClientAct::Ask(body), handle);
    }

    fn publish(
        &mut self,
        now: Now,
        virtual_client: u32,
        place: usize,
        at: Instant,
        handle: &mut ShardHandle,
    ) {
        let own = self.pool.number(virtual_client);
        let (late_us, planned_us) = (micros(now.mono - at), self.wall_us(at));
        let stream = &self.streams.all[place];
        let drawn =
            stream.traffic.among.map(|among| self.pool.random.below(u64::from(among)) as u32);
        let from = match drawn {
            Some(_) => From::Sender(own),
            None if stream.is_row => {
                let this = &mut self.pool.clients[virtual_client as usize];
                this.row = (this.row + 1) % stamp::ROW_END;
                From::Row { tag: self.pool.plan.tag, number: this.row }
            }
            None => From::Nobody,
        };
        let Traffic { topic, qos, retain, .. } = &stream.traffic;
        let (formula, qos, retain) = (topic.as_deref().unwrap_or_default(), *qos, *retain);
        let number = drawn.unwrap_or(own);
        let topic = topic_of(formula, number, own);
        let told = if formula.contains("%i") { number } else { NO_TOPIC };
        let (body, rest) = (stream.body.clone(), stream.rest);
        let head = stamp::head(planned_us, late_us, from);
        let body = match rest {
            Some(rest) => {
                let sign = self.sign(own, told, place as u8);
                let note = PublishNote { topic: crc32fast::hash(topic.as_bytes()), qos, retain };
                with_proof(&body, rest, &note, |rest| stamp::prove(&head, &sign, rest))
            }
            None => with_front(&body, &head),
        };
        let topic_message = TopicMessage { topic, qos, retain, body };
        self.flights_begin(virtual_client, at, late_us, topic_message.qos > 0);
        self.tell(virtual_client, ClientAct::Publish(Box::new(topic_message)), handle);
    }

    /// Sends a message to the next recipient in turn, or to the one that the plan names.
    fn say(
        &mut self,
        now: Now,
        virtual_client: u32,
        place: usize,
        at: Instant,
        handle: &mut ShardHandle,
    ) {
        let own = self.pool.number(virtual_client);
        let (late_us, planned_us) = (micros(now.mono - at), self.wall_us(at));
        let stream = &self.streams.all[place];
        let Traffic { among, contacts, loops, topic, addresses, .. } = &stream.traffic;
        let tag = self.pool.plan.tag;
        let (number, from) = match (among, loops) {
            (Some(among), Some(_)) => {
                let step = &mut self.pool.clients[virtual_client as usize].row;
                let (to, round) = (*step % among, *step / among + 1);
                *step += 1;
                (to, From::Row { tag, number: round })
            }
            (Some(among), None) if !addresses.is_empty() => {
                (self.pool.random.below(u64::from(*among)) as u32, From::Sender(own))
            }
            (Some(among), None) => {
                let drawn = self.pool.random.below(u64::from(others(*among, *contacts)));
                (behind(own, drawn as u32, *among), From::Sender(own))
            }
            (None, _) => {
                let row = &mut self.pool.clients[virtual_client as usize].row;
                *row = (*row + 1) % stamp::ROW_END;
                (own, From::Row { tag, number: *row })
            }
        };
        let formula = topic.as_deref().unwrap_or_default();
        let address = addresses.get(number as usize);
        let to = address.map_or_else(|| topic_of(formula, number, own), |it| it.as_str().into());
        let is_told = address.is_some() || formula.contains("%i");
        let told = if is_told { number } else { NO_TOPIC };
        let kind = place as u8 | if address.is_some() { stamp::TO_MANY } else { 0 };
        let (body, rest, text) = (stream.body.clone(), stream.rest, stream.text.clone());
        let head = stamp::head(planned_us, late_us, from);
        let sign = self.sign(own, told, kind);
        let front: Box<[u8]> = match rest {
            Some(rest) => Box::new(stamp::prove(&head, &sign, rest)),
            None => with_front(&body, &head),
        };
        self.flights_begin(virtual_client, at, late_us, true);
        let number = self.mark_flight(virtual_client, mark_of(&sign));
        let say = ChatSay { virtual_client, number, to, id: sign.bytes(), front, text };
        self.tell(virtual_client, ClientAct::Say(Box::new(say)), handle);
    }

    /// Keeps a message that could not be sent on a connection that has ended, for the next one.
    pub(super) fn say_later(&mut self, say: ChatSay, handle: &mut ShardHandle) {
        let virtual_client = say.virtual_client;
        if let Some(Client::Im(client)) = self.resting.get_mut(&virtual_client) {
            client.keep(say);
        } else if matches!(self.pool.at(virtual_client).state, State::Asking | State::Online) {
            self.tell(virtual_client, ClientAct::Say(Box::new(say)), handle);
        }
    }

    /// The run's time at a moment, microseconds.
    pub(super) fn wall_us(&self, at: Instant) -> u64 {
        let machine_us = self.share.origin_us + at.nanos() / 1_000;
        machine_us.saturating_add_signed(-stamp::ahead_us())
    }
}

/// How many others there are to draw from. Alone, a client has itself.
fn others(among: u32, contacts: Option<u32>) -> u32 {
    contacts.unwrap_or(u32::MAX).min(among - 1).max(1)
}

/// Receiver for a client that draws this number: nobody speaks to itself while there is anybody
/// else.
fn behind(own: u32, drawn: u32, among: u32) -> u32 {
    ((u64::from(own) + 1 + u64::from(drawn)) % u64::from(among)) as u32
}

/// A topic with its numbers: `%i`, and `%s` for a sender.
pub(super) fn topic_of(formula: &str, number: u32, sender: u32) -> Box<str> {
    if !formula.contains('%') {
        return formula.into();
    }
    let topic = formula.replace("%i", &number.to_string());
    match topic.contains("%s") {
        true => topic.replace("%s", &sender.to_string()).into(),
        false => topic.into(),
    }
}

fn with_front(body: &[u8], front: &[u8]) -> Box<[u8]> {
    let mut body: Box<[u8]> = body.into();
    body[..front.len()].copy_from_slice(front);
    body
}

/// A body with its note, if it has room for one, and in front the proof of both. `rest` is the
/// checksum of a body without a note.
fn with_proof(
    body: &[u8],
    rest: u32,
    note: &PublishNote,
    prove: impl FnOnce(u32) -> [u8; stamp::PROOF_BYTES],
) -> Box<[u8]> {
    if body.len() < stamp::NOTED_BYTES {
        return with_front(body, &prove(rest));
    }
    let mut body: Box<[u8]> = body.into();
    body[stamp::PROOF_BYTES..stamp::NOTED_BYTES].copy_from_slice(&note.bytes());
    let proof = prove(stamp::rest_of(&body));
    body[..proof.len()].copy_from_slice(&proof);
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_draws_reaches_all_whom_it_may_and_never_itself() {
        for (own, among, contacts, all) in [
            (0, 5, None, vec![1, 2, 3, 4]),
            (4, 5, None, vec![0, 1, 2, 3]),
            (4, 5, Some(2), vec![0, 1]),
            (3, 5, Some(9), vec![0, 1, 2, 4]),
            (0, 2, None, vec![1]),
            // Senders may be more than there are to be spoken to.
            (12, 5, Some(2), vec![3, 4]),
            // Alone.
            (0, 1, None, vec![0]),
            (u32::MAX, 5, Some(1), vec![1]),
        ] {
            let drawn = 0..others(among, contacts);
            let mut reached: Vec<u32> = drawn.map(|drawn| behind(own, drawn, among)).collect();
            reached.sort_unstable();
            assert_eq!(reached, all, "{own} of {among}");
        }
    }
}

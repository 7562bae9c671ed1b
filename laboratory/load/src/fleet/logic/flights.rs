//! Messages and requests under way: what was planned when, and what became of each.
//!
//! Every one of them is timed, however many a client has under way: whoever times one of many
//! leaves out those that wait longest. They stand in one table of the thread, in a row for each
//! client; a client without any costs nothing.

use super::{FleetLogic, ShardHandle};
use crate::fleet::client::FleetProfile;
use crate::fleet::client::im::PASSING_FAULTS;
use crate::fleet::virtual_client::{Flags, NONE, State, VirtualClient};
use base::time::{Instant, Now};
use lab::timing::Timing;

/// A message under way.
#[derive(Clone, Copy)]
struct Flight {
    /// Planned for.
    at: Instant,
    /// Sent so much later, microseconds.
    late_us: u32,
    /// Its number on its client's machine.
    seq: u32,
    /// Which message it is, where that is kept account of.
    mark: u32,
    /// The server will say that it has it.
    is_answered: bool,
    /// The next one of its client, or the next free place.
    next: u32,
}

/// The table of all under way.
pub(super) struct Flights {
    all: Vec<Flight>,
    free: u32,
}

impl Default for Flights {
    fn default() -> Flights {
        Flights { all: Vec::new(), free: NONE }
    }
}

impl Flights {
    fn push(&mut self, virtual_client: &mut VirtualClient, flight: Flight) {
        let place = match self.free {
            NONE => {
                self.all.push(flight);
                (self.all.len() - 1) as u32
            }
            free => {
                self.free = self.all[free as usize].next;
                self.all[free as usize] = flight;
                free
            }
        };
        match virtual_client.newest {
            NONE => virtual_client.oldest = place,
            newest => self.all[newest as usize].next = place,
        }
        virtual_client.newest = place;
        virtual_client.open += 1;
    }

    /// Takes the oldest if its number is not above `seq`.
    fn pop(&mut self, virtual_client: &mut VirtualClient, seq: u32) -> Option<Flight> {
        let place = virtual_client.oldest;
        let flight = *self.all.get(place as usize).filter(|flight| flight.seq <= seq)?;
        self.remove(virtual_client, NONE, place);
        Some(flight)
    }

    /// Takes the oldest that has no answer to wait for, if its number is not above `seq`.
    fn pop_unanswered(&mut self, virtual_client: &mut VirtualClient, seq: u32) -> Option<Flight> {
        let (mut before, mut place) = (NONE, virtual_client.oldest);
        while let Some(flight) = self.all.get(place as usize).copied().filter(|it| it.seq <= seq) {
            if !flight.is_answered {
                self.remove(virtual_client, before, place);
                return Some(flight);
            }
            (before, place) = (place, flight.next);
        }
        None
    }

    /// Takes the one with this number, wherever it stands.
    fn pick(&mut self, virtual_client: &mut VirtualClient, seq: u32) -> Option<Flight> {
        let (mut before, mut place) = (NONE, virtual_client.oldest);
        while let Some(flight) = self.all.get(place as usize).copied() {
            if flight.seq == seq {
                self.remove(virtual_client, before, place);
                return Some(flight);
            }
            (before, place) = (place, flight.next);
        }
        None
    }

    fn remove(&mut self, virtual_client: &mut VirtualClient, before: u32, place: u32) {
        let next = self.all[place as usize].next;
        match before {
            NONE => virtual_client.oldest = next,
            before => self.all[before as usize].next = next,
        }
        if virtual_client.newest == place {
            virtual_client.newest = before;
        }
        virtual_client.open -= 1;
        self.all[place as usize].next = self.free;
        self.free = place;
    }
}

/// A message that the client itself did not send: its window is full (MQTT's Receive Maximum).
const WINDOW_FULL: u32 = 0x100;

impl FleetLogic {
    /// Whether its clients ask and are answered, in place of speaking to each other.
    pub(super) fn sends_requests(&self) -> bool {
        matches!(self.pool.plan.profile, FleetProfile::Http(_) | FleetProfile::Tcp)
    }

    /// Notes what is about to be sent. A message without an answer of the server (QoS 0) counts as
    /// taken once the socket has it, and is not timed.
    pub(super) fn flights_begin(
        &mut self,
        virtual_client: u32,
        at: Instant,
        late_us: u32,
        is_answered: bool,
    ) {
        let this = &mut self.pool.clients[virtual_client as usize];
        this.sent += 1;
        let flight = Flight { at, late_us, seq: this.sent, mark: 0, is_answered, next: NONE };
        self.flights.push(this, flight);
        let (sent, open) = self.sums();
        *sent += 1;
        *open += 1;
    }

    /// Marks the newest message of a client, once it is under way, and returns its number.
    pub(super) fn mark_flight(&mut self, virtual_client: u32, mark: u32) -> u32 {
        let this = &self.pool.clients[virtual_client as usize];
        if let Some(newest) = self.flights.all.get_mut(this.newest as usize) {
            newest.mark = mark;
        }
        this.sent
    }

    fn sums(&mut self) -> (&mut u64, &mut u64) {
        match self.sends_requests() {
            true => (&mut self.pool.log.asked, &mut self.pool.log.open_requests),
            false => (&mut self.pool.log.sent, &mut self.pool.log.open),
        }
    }

    /// The server has taken everything up to `seq`.
    pub(super) fn taken(
        &mut self,
        now: Now,
        virtual_client: u32,
        seq: u32,
        handle: &mut ShardHandle,
    ) {
        if self.pool.at(virtual_client).state != State::Online {
            return;
        }
        let is_request = self.sends_requests();
        let timing = if is_request { Timing::Request } else { Timing::Publish };
        let thawed = self.thawed;
        while let Some(flight) =
            self.flights.pop(&mut self.pool.clients[virtual_client as usize], seq)
        {
            if flight.is_answered && flight.at >= thawed {
                self.pool.at(virtual_client).flags.take(Flags::FROZEN);
            }
            *self.sums().1 -= 1;
            *(if is_request { &mut self.pool.log.answered } else { &mut self.pool.log.taken }) += 1;
            if flight.is_answered {
                self.pool.note(timing, now.mono - flight.at, flight.late_us);
            }
        }
        self.fill_windows(now, virtual_client, handle);
    }

    /// The server has taken this one; some before it are still under way.
    pub(super) fn taken_alone(
        &mut self,
        now: Now,
        virtual_client: u32,
        seq: u32,
        handle: &mut ShardHandle,
    ) {
        let this = &mut self.pool.clients[virtual_client as usize];
        if this.state != State::Online {
            return;
        }
        let Some(flight) = self.flights.pick(this, seq) else { return };
        *self.sums().1 -= 1;
        self.pool.log.taken += 1;
        self.pool.log.taken_marks += u64::from(flight.mark);
        self.pool.note(Timing::Publish, now.mono - flight.at, flight.late_us);
        self.fill_windows(now, virtual_client, handle);
    }

    /// Counts messages without an answer up to this one as sent.
    pub(super) fn written(
        &mut self,
        now: Now,
        virtual_client: u32,
        seq: u32,
        handle: &mut ShardHandle,
    ) {
        let this = &mut self.pool.clients[virtual_client as usize];
        if this.state != State::Online {
            return;
        }
        while self
            .flights
            .pop_unanswered(&mut self.pool.clients[virtual_client as usize], seq)
            .is_some()
        {
            *self.sums().1 -= 1;
            self.pool.log.taken += 1;
        }
        self.fill_windows(now, virtual_client, handle);
    }

    /// The server has refused one. The client goes on in the next tick, not at once: a refusal may
    /// mean that it sends too fast.
    pub(super) fn not_taken(
        &mut self,
        now: Now,
        virtual_client: u32,
        seq: u32,
        code: u32,
        handle: &mut ShardHandle,
    ) {
        let is_request = self.sends_requests();
        if self.pool.plan.profile.says_once() && PASSING_FAULTS.contains(&code) {
            // It is said again, and has no end yet.
            return self.pool.log.codes.count(&format!("not taken {code}"));
        }
        let this = &mut self.pool.clients[virtual_client as usize];
        if this.state != State::Online {
            return;
        }
        let Some(flight) = self.flights.pick(this, seq) else {
            // A server of XMPP may have counted it before it knew that nobody takes it.
            if matches!(self.pool.plan.profile, FleetProfile::Xmpp(_)) {
                self.pool.log.codes.count(&format!("bounced {code}"));
            }
            return;
        };
        *self.sums().1 -= 1;
        if is_request {
            self.pool.log.answered += 1;
            self.pool.log.answered_badly += 1;
            self.pool.log.codes.count(&format!("status {code}"));
            self.pool.note(Timing::Request, now.mono - flight.at, flight.late_us);
            return self.fill_windows(now, virtual_client, handle);
        }
        if code == WINDOW_FULL {
            self.pool.log.sent -= 1;
            self.pool.log.unsent += 1;
        } else {
            self.pool.log.refused += 1;
            self.pool.log.codes.count(&format!("not taken {code}"));
        }
        self.held.push(virtual_client);
    }

    /// Counts messages under way as lost with their connection, which the plan ended or somebody
    /// else.
    pub(super) fn flights_lost(&mut self, virtual_client: u32, planned: bool) {
        let is_request = self.sends_requests();
        while self.flights.pop(&mut self.pool.clients[virtual_client as usize], u32::MAX).is_some()
        {
            *self.sums().1 -= 1;
            let log = &mut self.pool.log;
            *match (is_request, planned) {
                (true, true) => &mut log.cut_requests,
                (true, false) => &mut log.lost_requests,
                (false, true) => &mut log.cut,
                (false, false) => &mut log.lost,
            } += 1;
        }
        if is_request {
            // A machine of theirs begins anew with each connection.
            self.pool.at(virtual_client).sent = 0;
        }
    }
}

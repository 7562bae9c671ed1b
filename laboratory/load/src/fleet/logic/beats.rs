//! When virtual clients beat, and what their timers do.

use super::{FleetLogic, ShardHandle};
use crate::fleet::client::ClientAct;
use crate::fleet::plan::HeartbeatMode;
use crate::fleet::pool::micros;
use crate::fleet::virtual_client::{Aim, Ears, Flags, State};
use base::time::{Instant, Now};
use lab::timing::Timing;
use model::ports::virtual_client::Action;
use std::time::Duration;

/// Timers served in one turn. More wait a turn.
const TIMERS_PER_TURN: usize = 1_024;
/// Multiplied with a client's number it spreads neighbours evenly over 32 bits.
pub(super) const SPREAD: u32 = 0x9e37_79b9;

impl FleetLogic {
    pub(super) fn fire_timers(&mut self, now: Now, handle: &mut ShardHandle) {
        for _ in 0..TIMERS_PER_TURN {
            let Some((at, virtual_client, aim)) = self.pool.due(now) else { break };
            self.fire(now, virtual_client, at, aim, handle);
        }
    }

    /// Carries out a timer.
    fn fire(
        &mut self,
        now: Now,
        virtual_client: u32,
        at: Instant,
        aim: Aim,
        handle: &mut ShardHandle,
    ) {
        match (aim, self.pool.at(virtual_client).state) {
            (Aim::Own, State::Away) => self.pool.call(now, virtual_client, at, handle),
            (Aim::Own, State::Online) => self.beat(now, virtual_client, at, handle),
            (Aim::Every(stream), _) => self.send_every(now, virtual_client, at, stream, handle),
            _ => {}
        }
    }

    /// How large a part of a span a client waits first, by its number.
    pub(super) fn spread(&self, virtual_client: u32, span: Duration) -> Duration {
        let part = self.pool.number(virtual_client).wrapping_mul(SPREAD);
        span.mul_f64(f64::from(part) / f64::from(u32::MAX))
    }

    /// Sets a virtual client's first heartbeat once it is bound.
    pub(super) fn first_beat(&mut self, now: Now, virtual_client: u32) {
        match self.pool.plan.heartbeat {
            HeartbeatMode::Agreed => self.rearm(now.mono, virtual_client),
            HeartbeatMode::Every(span) => {
                let wait = self.spread(virtual_client, span);
                self.pool.arm(virtual_client, now.after(wait));
            }
            HeartbeatMode::Never => {}
        }
    }

    /// A timer says that it is time to beat; `at` is when it was meant to.
    pub(super) fn beat(
        &mut self,
        now: Now,
        virtual_client: u32,
        at: Instant,
        handle: &mut ShardHandle,
    ) {
        self.ping(virtual_client, at, micros(now.mono - at), handle);
        self.rearm(at, virtual_client);
    }

    /// Sets the next beat after that of `at`, where beats follow a clock.
    fn rearm(&mut self, at: Instant, virtual_client: u32) {
        let span = match self.pool.plan.heartbeat {
            HeartbeatMode::Agreed => {
                Duration::from_secs(u64::from(self.pool.at(virtual_client).heartbeat_s))
            }
            HeartbeatMode::Every(span) => span,
            HeartbeatMode::Never => return,
        };
        if !span.is_zero() {
            self.pool.arm(virtual_client, at + span);
        }
    }

    /// Sends a heartbeat that was planned for `at`, so much later. While one is under way it is
    /// left out, which is counted; false then.
    pub(super) fn ping(
        &mut self,
        virtual_client: u32,
        at: Instant,
        late_us: u32,
        handle: &mut ShardHandle,
    ) -> bool {
        let this = self.pool.at(virtual_client);
        if this.ears == Ears::Frozen {
            return false;
        }
        if this.is_pinging() {
            self.pool.log.skipped_beats += 1;
            return false;
        }
        this.flags.set(Flags::PINGING);
        (this.since, this.late_us) = (at, late_us);
        self.pool.log.pings += 1;
        self.pool.log.open_pings += 1;
        self.tell(virtual_client, ClientAct::Do(Action::Ping), handle);
        true
    }

    pub(super) fn pong(&mut self, now: Now, virtual_client: u32, handle: &mut ShardHandle) {
        let (timeout, thawed) = (self.pool.plan.timeout, self.thawed);
        let this = self.pool.at(virtual_client);
        if this.state != State::Online || !this.flags.take(Flags::PINGING) {
            self.pool.log.unasked_pongs += 1;
            return;
        }
        let (spent, late_us) = (now.mono - this.since, this.late_us);
        if this.since >= thawed {
            this.flags.take(Flags::FROZEN);
        }
        let overdue = this.flags.take(Flags::OVERDUE);
        let late = overdue || spent > timeout;
        self.pool.log.open_pings -= 1;
        self.pool.log.unanswered += u64::from(late && !overdue); // the sweep had not come by yet
        *(if late { &mut self.pool.log.late_pongs } else { &mut self.pool.log.pongs }) += 1;
        self.pool.note(Timing::Heartbeat, spent, late_us);
        self.ping_again(now, virtual_client, handle);
    }
}

//! How pilots are told no, go, and come back.
//!
//! Every end is counted once, by how far the client had come and by its cause. Where the protocol
//! says why (a refusal, a kick), that is the end, and the connection's own end that follows is not
//! counted again.

use super::{Desk, PilotHouse};
use crate::fleet::pilot::{Ears, Flags, Seat, State};
use crate::fleet::plan::Reconnect;
use base::time::Now;
use lab::cause::{Cause, Phase, Side};
use model::close::CloseReason;
use model::id::ConnRef;
use std::time::Duration;

/// Refusals that no waiting changes (MIOP 7: 20 to 29).
const PERMANENT: std::ops::Range<u32> = 20..30;

impl PilotHouse {
    pub(super) fn refused(
        &mut self,
        now: Now,
        pilot: u32,
        code: u32,
        retry_after_ms: u32,
        desk: &mut Desk,
    ) {
        if self.at(pilot).state != State::Asking {
            return;
        }
        self.log.asking -= 1;
        self.end(Phase::Bind, Cause::BindRefused);
        self.log.codes.count(&format!("refused {code}"));
        self.at(pilot).lose(now.mono);
        self.leave(now, pilot, retry_after_ms, desk);
        let is_miop = matches!(self.plan.profile, crate::fleet::client::Profile::Miop(_));
        if is_miop && PERMANENT.contains(&code) {
            self.at(pilot).flags.set(Flags::FAREWELL);
        }
    }

    pub(super) fn kicked(&mut self, now: Now, pilot: u32, code: u32, desk: &mut Desk) {
        if self.at(pilot).state == State::Online {
            let cause = self.unless_frozen(pilot, Cause::Kicked);
            self.end(Phase::Online, cause);
            self.log.codes.count(&format!("kicked {code}"));
            self.offline(pilot, cause);
            self.at(pilot).lose(now.mono);
            self.leave(now, pilot, 0, desk);
        }
    }

    /// A pilot that would not come back stays as long as it may.
    pub(super) fn go_away(&mut self, now: Now, pilot: u32, retry_after_ms: u32, desk: &mut Desk) {
        self.log.go_aways += 1;
        if self.at(pilot).state == State::Online && self.plan.reconnect != Reconnect::Never {
            self.end(Phase::Online, Cause::Redirected);
            self.offline(pilot, Cause::Redirected);
            self.at(pilot).lose(now.mono);
            self.leave(now, pilot, retry_after_ms, desk);
        }
    }

    fn end(&mut self, phase: Phase, cause: Cause) {
        self.log.causes.count(phase, cause);
    }

    /// Its outcome is counted: it ends its connection, and comes back no sooner than told.
    pub(super) fn leave(&mut self, now: Now, pilot: u32, retry_after_ms: u32, desk: &mut Desk) {
        let this = self.at(pilot);
        this.state = State::Leaving;
        this.since = now.after(Duration::from_millis(u64::from(retry_after_ms)));
        desk.close(ConnRef::from_bits(this.conn), CloseReason::OwnStop);
    }

    pub(super) fn connection_ended(
        &mut self,
        now: Now,
        seat: &Seat,
        reason: CloseReason,
        desk: &mut Desk,
    ) {
        let pilot = seat.pilot;
        let was = self.at(pilot).state;
        let told = self.at(pilot).flags.take(Flags::TOLD);
        match was {
            State::Asking => {
                self.log.asking -= 1;
                self.count_end(pilot, Phase::Bind, reason, desk);
            }
            State::Online => {
                let is_planned = told && is_farewell(reason);
                let cause = match is_planned {
                    true => Cause::Farewell,
                    false => self.count_end(pilot, Phase::Online, reason, desk),
                };
                if is_planned {
                    self.end(Phase::Online, cause);
                }
                self.offline(pilot, cause);
                if !is_planned && !self.stopping {
                    self.at(pilot).lose(now.mono);
                }
            }
            State::Leaving => {}
            State::Away | State::Calling | State::Gone => return,
        }
        if was != State::Leaving {
            self.at(pilot).since = now.mono;
        }
        if self.come_back(now, pilot)
            && let Some(client) = seat.vacate()
        {
            self.resting.insert(pilot, client);
        }
    }

    pub(super) fn not_connected(
        &mut self,
        now: Now,
        pilot: u32,
        reason: CloseReason,
        desk: &mut Desk,
    ) {
        let this = self.at(pilot);
        if this.state != State::Calling {
            return;
        }
        this.since = now.mono;
        self.log.connecting -= 1;
        let phase = crate::cause::phase_of(desk.reached());
        self.count_end(pilot, phase, reason, desk);
        self.come_back(now, pilot);
    }

    /// Counts an end that `net` told, and says as what.
    fn count_end(&mut self, pilot: u32, phase: Phase, reason: CloseReason, desk: &Desk) -> Cause {
        if reason == CloseReason::OwnStop && self.at(pilot).flags.has(Flags::FAREWELL) {
            self.end(phase, Cause::Farewell);
            return Cause::Farewell;
        }
        let detail = desk.detail();
        let cause = self.unless_frozen(pilot, crate::cause::of(phase, reason, detail));
        self.end(phase, cause);
        if let Some(word) = crate::cause::word(detail) {
            self.log.codes.count(&word);
        }
        cause
    }

    /// A cause, or that the tester itself had frozen the client: whoever lets such a one go does
    /// what he should.
    fn unless_frozen(&mut self, pilot: u32, cause: Cause) -> Cause {
        let is_theirs = matches!(cause.side(), Side::Target | Side::Between);
        let frozen = self.at(pilot).flags.has(Flags::FROZEN);
        if frozen && is_theirs { Cause::Frozen } else { cause }
    }

    /// What was under way on a bound connection is lost with it.
    pub(super) fn offline(&mut self, pilot: u32, cause: Cause) {
        let planned = cause.side() == Side::Plan;
        self.log.online_now -= 1;
        self.flights_lost(pilot, planned);
        let this = self.at(pilot);
        this.flags.take(Flags::FROZEN);
        let was_pinging = this.flags.take(Flags::PINGING);
        this.flags.take(Flags::OVERDUE);
        this.ears = Ears::Open;
        if was_pinging {
            self.log.open_pings -= 1;
            *(if planned { &mut self.log.cut_pings } else { &mut self.log.lost_pings }) += 1;
        }
    }

    /// Sets the time of a pilot's return; false when it stays away.
    fn come_back(&mut self, now: Now, pilot: u32) -> bool {
        let stopping = self.stopping;
        let this = self.at(pilot);
        this.state = State::Away;
        this.timer = this.timer.wrapping_add(1);
        let at_once = this.flags.take(Flags::AT_ONCE);
        if this.flags.has(Flags::FAREWELL) || stopping {
            return self.gone(pilot);
        }
        if at_once {
            self.arm(pilot, now.mono);
            return true;
        }
        let Reconnect::Backoff { base, max } = self.plan.reconnect else {
            return self.gone(pilot);
        };
        let this = self.at(pilot);
        let wait = base.saturating_mul(1 << this.tries.min(20)).min(max);
        this.tries = this.tries.saturating_add(1);
        let (half, since) = (wait / 2, this.since);
        let drawn = Duration::from_nanos(self.random.below(half.as_nanos() as u64 + 1));
        self.arm(pilot, since.max(now.mono) + half + drawn);
        true
    }

    pub(super) fn gone(&mut self, pilot: u32) -> bool {
        let this = self.at(pilot);
        this.state = State::Gone;
        this.lost = 0;
        self.log.over += 1;
        self.resting.remove(&pilot);
        false
    }
}

/// Whether this may be the end of a connection whose client said farewell.
fn is_farewell(reason: CloseReason) -> bool {
    use CloseReason as R;
    matches!(reason, R::OwnStop | R::PeerClosed | R::PeerReset | R::Unbound)
}

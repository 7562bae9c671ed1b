//! Ends of virtual clients: how they are told no, go, and come back.
//!
//! Every end is counted once, by how far the client had come and by its cause. Where the protocol
//! says why (a refusal, a kick), that is the end, and the connection's own end that follows is not
//! counted again.

use super::{FleetLogic, ShardHandle};
use crate::fleet::plan::Reconnect;
use crate::fleet::virtual_client::{Ears, Flags, FleetSlot, State};
use base::time::Now;
use lab::cause::{Cause, Phase, Side};
use model::close::CloseReason;
use model::id::ConnRef;
use std::time::Duration;

/// Refusals that no waiting changes (MIOP 7: 20 to 29).
const PERMANENT: std::ops::Range<u32> = 20..30;

impl FleetLogic {
    pub(super) fn refused(
        &mut self,
        now: Now,
        virtual_client: u32,
        code: u32,
        retry_after_ms: u32,
        handle: &mut ShardHandle,
    ) {
        if self.at(virtual_client).state != State::Asking {
            return;
        }
        self.log.asking -= 1;
        self.end(Phase::Bind, Cause::BindRefused);
        self.log.codes.count(&format!("refused {code}"));
        self.at(virtual_client).lose(now.mono);
        self.leave(now, virtual_client, retry_after_ms, handle);
        let is_miop = matches!(self.plan.profile, crate::fleet::client::FleetProfile::Miop(_));
        if is_miop && PERMANENT.contains(&code) {
            self.at(virtual_client).flags.set(Flags::FAREWELL);
        }
    }

    pub(super) fn kicked(
        &mut self,
        now: Now,
        virtual_client: u32,
        code: u32,
        handle: &mut ShardHandle,
    ) {
        if self.at(virtual_client).state == State::Online {
            let cause = self.unless_frozen(virtual_client, Cause::Kicked);
            self.end(Phase::Online, cause);
            self.log.codes.count(&format!("kicked {code}"));
            self.offline(virtual_client, cause);
            self.at(virtual_client).lose(now.mono);
            self.leave(now, virtual_client, 0, handle);
        }
    }

    /// A virtual client that would not come back stays as long as it may.
    pub(super) fn go_away(
        &mut self,
        now: Now,
        virtual_client: u32,
        retry_after_ms: u32,
        handle: &mut ShardHandle,
    ) {
        self.log.go_aways += 1;
        if self.at(virtual_client).state == State::Online && self.plan.reconnect != Reconnect::Never
        {
            self.end(Phase::Online, Cause::Redirected);
            self.offline(virtual_client, Cause::Redirected);
            self.at(virtual_client).lose(now.mono);
            self.leave(now, virtual_client, retry_after_ms, handle);
        }
    }

    fn end(&mut self, phase: Phase, cause: Cause) {
        self.log.causes.count(phase, cause);
    }

    /// Its outcome is counted: it ends its connection, and comes back no sooner than told.
    pub(super) fn leave(
        &mut self,
        now: Now,
        virtual_client: u32,
        retry_after_ms: u32,
        handle: &mut ShardHandle,
    ) {
        let this = self.at(virtual_client);
        this.state = State::Leaving;
        this.since = now.after(Duration::from_millis(u64::from(retry_after_ms)));
        handle.close(ConnRef::from_bits(this.conn), CloseReason::OwnStop);
    }

    pub(super) fn connection_ended(
        &mut self,
        now: Now,
        seat: &FleetSlot,
        reason: CloseReason,
        handle: &mut ShardHandle,
    ) {
        let virtual_client = seat.virtual_client;
        let was = self.at(virtual_client).state;
        let told = self.at(virtual_client).flags.take(Flags::TOLD);
        match was {
            State::Asking => {
                self.log.asking -= 1;
                self.count_end(virtual_client, Phase::Bind, reason, handle);
            }
            State::Online => {
                let is_planned = told && is_farewell(reason);
                let cause = match is_planned {
                    true => Cause::Farewell,
                    false => self.count_end(virtual_client, Phase::Online, reason, handle),
                };
                if is_planned {
                    self.end(Phase::Online, cause);
                }
                self.offline(virtual_client, cause);
                if !is_planned && !self.stopping {
                    self.at(virtual_client).lose(now.mono);
                }
            }
            State::Leaving => {}
            State::Away | State::Calling | State::Gone => return,
        }
        if was != State::Leaving {
            self.at(virtual_client).since = now.mono;
        }
        if self.come_back(now, virtual_client)
            && let Some(client) = seat.vacate()
        {
            self.resting.insert(virtual_client, client);
        }
    }

    pub(super) fn not_connected(
        &mut self,
        now: Now,
        virtual_client: u32,
        reason: CloseReason,
        handle: &mut ShardHandle,
    ) {
        let this = self.at(virtual_client);
        if this.state != State::Calling {
            return;
        }
        this.since = now.mono;
        self.log.connecting -= 1;
        let phase = crate::cause::phase_of(handle.reached());
        self.count_end(virtual_client, phase, reason, handle);
        self.come_back(now, virtual_client);
    }

    /// Counts an end that `net` told, and says as what.
    fn count_end(
        &mut self,
        virtual_client: u32,
        phase: Phase,
        reason: CloseReason,
        handle: &ShardHandle,
    ) -> Cause {
        if reason == CloseReason::OwnStop && self.at(virtual_client).flags.has(Flags::FAREWELL) {
            self.end(phase, Cause::Farewell);
            return Cause::Farewell;
        }
        let detail = handle.detail();
        let cause = self.unless_frozen(virtual_client, crate::cause::of(phase, reason, detail));
        self.end(phase, cause);
        if let Some(word) = crate::cause::word(detail) {
            self.log.codes.count(&word);
        }
        cause
    }

    /// A cause, or that the tester itself had frozen the client: whoever lets such a one go does
    /// what he should.
    fn unless_frozen(&mut self, virtual_client: u32, cause: Cause) -> Cause {
        let is_theirs = matches!(cause.side(), Side::Target | Side::Between);
        let frozen = self.at(virtual_client).flags.has(Flags::FROZEN);
        if frozen && is_theirs { Cause::Frozen } else { cause }
    }

    /// What was under way on a bound connection is lost with it.
    pub(super) fn offline(&mut self, virtual_client: u32, cause: Cause) {
        let planned = cause.side() == Side::Plan;
        self.log.online_now -= 1;
        self.flights_lost(virtual_client, planned);
        let this = self.at(virtual_client);
        this.flags.take(Flags::FROZEN);
        let was_pinging = this.flags.take(Flags::PINGING);
        this.flags.take(Flags::OVERDUE);
        this.ears = Ears::Open;
        if was_pinging {
            self.log.open_pings -= 1;
            *(if planned { &mut self.log.cut_pings } else { &mut self.log.lost_pings }) += 1;
        }
    }

    /// Sets the time of a virtual client's return; false when it stays away.
    fn come_back(&mut self, now: Now, virtual_client: u32) -> bool {
        let stopping = self.stopping;
        let this = self.at(virtual_client);
        this.state = State::Away;
        this.timer = this.timer.wrapping_add(1);
        let at_once = this.flags.take(Flags::AT_ONCE);
        if this.flags.has(Flags::FAREWELL) || stopping {
            return self.gone(virtual_client);
        }
        if at_once {
            self.arm(virtual_client, now.mono);
            return true;
        }
        let Reconnect::Backoff { base, max } = self.plan.reconnect else {
            return self.gone(virtual_client);
        };
        let this = self.at(virtual_client);
        let wait = base.saturating_mul(1 << this.tries.min(20)).min(max);
        this.tries = this.tries.saturating_add(1);
        let (half, since) = (wait / 2, this.since);
        let drawn = Duration::from_nanos(self.random.below(half.as_nanos() as u64 + 1));
        self.arm(virtual_client, since.max(now.mono) + half + drawn);
        true
    }

    pub(super) fn gone(&mut self, virtual_client: u32) -> bool {
        let this = self.at(virtual_client);
        this.state = State::Gone;
        this.lost = 0;
        self.log.over += 1;
        self.resting.remove(&virtual_client);
        false
    }
}

/// Whether this may be the end of a connection whose client said farewell.
fn is_farewell(reason: CloseReason) -> bool {
    use CloseReason as R;
    matches!(reason, R::OwnStop | R::PeerClosed | R::PeerReset | R::Unbound)
}

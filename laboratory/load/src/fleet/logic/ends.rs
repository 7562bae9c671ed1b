//! Ends of virtual clients, as far as the fleet's traffic has to do with them: what was under way
//! is lost, and whoever comes back goes on with its machine.

use super::{FleetLogic, ShardHandle};
use crate::fleet::cause::phase_of;
use crate::fleet::plan::Reconnect;
use crate::fleet::virtual_client::{Ears, Flags, FleetSlot, State};
use base::time::Now;
use lab::cause::{Cause, Phase, Side};
use model::close::CloseReason;

impl FleetLogic {
    pub(super) fn refused(
        &mut self,
        now: Now,
        virtual_client: u32,
        code: u32,
        retry_after_ms: u32,
        handle: &mut ShardHandle,
    ) {
        if self.pool.refused(now, virtual_client, (code, retry_after_ms), handle) {
            self.pool.at(virtual_client).lose(now.mono);
        }
    }

    pub(super) fn kicked(
        &mut self,
        now: Now,
        virtual_client: u32,
        code: u32,
        handle: &mut ShardHandle,
    ) {
        if self.pool.is_online(virtual_client) {
            let cause = self.pool.unless_frozen(virtual_client, Cause::Kicked);
            self.pool.log.codes.count(&format!("kicked {code}"));
            self.go(now, virtual_client, cause, 0, handle);
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
        self.pool.log.go_aways += 1;
        if self.pool.is_online(virtual_client) && self.pool.plan.reconnect != Reconnect::Never {
            self.go(now, virtual_client, Cause::Redirected, retry_after_ms, handle);
        }
    }

    /// A client that is online goes against its will.
    fn go(
        &mut self,
        now: Now,
        virtual_client: u32,
        cause: Cause,
        retry_after_ms: u32,
        handle: &mut ShardHandle,
    ) {
        self.pool.end(Phase::Online, cause);
        self.offline(virtual_client, cause);
        self.pool.at(virtual_client).lose(now.mono);
        self.pool.leave(now, virtual_client, retry_after_ms, handle);
    }

    pub(super) fn connection_ended(
        &mut self,
        now: Now,
        seat: &FleetSlot,
        reason: CloseReason,
        handle: &mut ShardHandle,
    ) {
        let virtual_client = seat.virtual_client;
        let told = self.pool.at(virtual_client).flags.take(Flags::TOLD);
        let Some(uncounted) = self.pool.ended(now, virtual_client) else { return };
        let is_planned = told && uncounted == Some(Phase::Online) && is_farewell(reason);
        let mut ended_by_plan = false;
        if let Some(phase) = uncounted {
            let cause = match is_planned {
                true => Cause::Farewell,
                false => self.pool.count_end(virtual_client, phase, reason, handle),
            };
            if is_planned {
                self.pool.end(phase, cause);
            }
            if phase == Phase::Online {
                self.offline(virtual_client, cause);
                if !is_planned && !self.pool.stopping {
                    self.pool.at(virtual_client).lose(now.mono);
                }
            }
            ended_by_plan = cause.side() == Side::Plan;
        }
        if !self.pool.come_back(now, virtual_client) {
            // What is said once has nobody any more who says it again.
            self.flights_lost(virtual_client, ended_by_plan);
        } else if let Some(client) = seat.vacate() {
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
        let phase = phase_of(handle.reached());
        self.pool.not_connected(now, virtual_client, (phase, reason), handle);
        if self.pool.at(virtual_client).state == State::Gone {
            self.resting.remove(&virtual_client);
            self.flights_lost(virtual_client, false);
        }
    }

    /// Counts a bound connection's end: messages under way are lost with it.
    pub(super) fn offline(&mut self, virtual_client: u32, cause: Cause) {
        let planned = cause.side() == Side::Plan;
        self.pool.log.online_now -= 1;
        if !self.pool.plan.profile.says_once() {
            self.flights_lost(virtual_client, planned);
        }
        let this = self.pool.at(virtual_client);
        this.flags.take(Flags::FROZEN);
        let was_behind = this.flags.take(Flags::BEHIND);
        let was_pinging = this.flags.take(Flags::PINGING);
        this.flags.take(Flags::OVERDUE);
        this.ears = Ears::Open;
        if was_behind {
            self.pool.log.behind_now -= 1;
            self.pool.log.left_behind += 1;
        }
        if was_pinging {
            let log = &mut self.pool.log;
            log.open_pings -= 1;
            *(if planned { &mut log.cut_pings } else { &mut log.lost_pings }) += 1;
        }
    }
}

/// Whether this may be the end of a connection whose client said farewell.
fn is_farewell(reason: CloseReason) -> bool {
    use CloseReason as R;
    matches!(reason, R::OwnStop | R::PeerClosed | R::PeerReset | R::Unbound)
}

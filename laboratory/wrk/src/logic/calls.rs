//! How clients come, are refused and go, as far as scripts and requests have to do with it.
//!
//! Unlike wrk's own, a client whose call or connection failed waits before it comes back, each time
//! longer. One whose server said that it would close comes back at once: that is no failure.

use super::{Asked, ShardHandle, WrkLogic};
use crate::client_slot::{ClientSlot, ProtocolMachine};
use base::time::Now;
use lab::cause::{Cause, Phase};
use load::cause;
use load::fleet::client::FleetProfile;
use load::http::AnswerReader;
use model::close::CloseReason;

impl WrkLogic {
    /// The layers are open: a Bind goes out now, or the first request in the next turn.
    pub(super) fn established(&mut self, now: Now, virtual_client: u32) -> ClientSlot {
        let number = self.pool.number(virtual_client);
        self.pool.established(now, virtual_client);
        if self.wants.connect {
            self.script(|script| script.connect(number));
        }
        let keeps = self.wants.response;
        let wire = match &self.job.plan.profile {
            FleetProfile::Http(_) => ProtocolMachine::Http(Box::new(AnswerReader::new(keeps))),
            // No URL of wrk's names IM or XMPP.
            FleetProfile::Tcp | FleetProfile::Im(_) | FleetProfile::Xmpp(_) => {
                ProtocolMachine::Tcp { end: self.job.end.clone(), keeps, open: 0 }
            }
            FleetProfile::Miop(profile) => {
                let client = proto_miop::client::Client::new(profile.clone(), number);
                ProtocolMachine::Miop(client, self.scratch.clone())
            }
            FleetProfile::Mqtt(profile) => {
                let client = proto_mqtt::client::Client::new(profile.clone(), number);
                ProtocolMachine::Mqtt(Box::new(client), self.scratch.clone())
            }
        };
        if matches!(wire, ProtocolMachine::Http(_) | ProtocolMachine::Tcp { .. }) {
            self.online(virtual_client);
            self.next(now, virtual_client);
        } else {
            let this = self.exchange(virtual_client);
            (this.since, this.planned) = (now.mono, now.mono);
            (this.open, this.asked, this.overdue) = (1, Asked::Bind, false);
            self.pool.log.asked += 1;
            self.pool.log.open_requests += 1;
        }
        ClientSlot { wire, virtual_client, unwritten: 0 }
    }

    /// False: it had not asked to be.
    fn online(&mut self, virtual_client: u32) -> bool {
        if !self.pool.bound(virtual_client) {
            return false;
        }
        let first = !std::mem::replace(&mut self.exchange(virtual_client).been, true);
        self.arrived += usize::from(first);
        if first && self.arrived == self.exchanges.len() {
            self.stage("steady");
        }
        true
    }

    pub(super) fn bound(&mut self, now: Now, virtual_client: u32) {
        if self.online(virtual_client) {
            self.answered(now, virtual_client, (0, &[], &[]), true);
        }
    }

    pub(super) fn refused(
        &mut self,
        now: Now,
        virtual_client: u32,
        (code, retry_after_ms): (u32, u32),
        handle: &mut ShardHandle,
    ) {
        if self.pool.refused(now, virtual_client, (code, retry_after_ms), handle) {
            self.settle(now, virtual_client, (code, &[], &[]));
            self.tell_end(virtual_client, Cause::BindRefused);
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
            self.pool.log.codes.count(&format!("kicked {code}"));
        }
        self.leave(now, virtual_client, Cause::Kicked, 0, handle);
    }

    /// A client that is online goes, for this cause; it comes back no sooner than told.
    pub(super) fn leave(
        &mut self,
        now: Now,
        virtual_client: u32,
        cause: Cause,
        retry_after_ms: u32,
        handle: &mut ShardHandle,
    ) {
        if self.pool.is_online(virtual_client) {
            self.offline(virtual_client);
            self.pool.end(Phase::Online, cause);
            self.tell_end(virtual_client, cause);
            self.pool.leave(now, virtual_client, retry_after_ms, handle);
            if cause == Cause::Farewell {
                self.pool.come_back_at_once(virtual_client);
            }
        }
    }

    pub(super) fn connection_ended(
        &mut self,
        now: Now,
        virtual_client: u32,
        reason: CloseReason,
        handle: &mut ShardHandle,
    ) {
        let Some(uncounted) = self.pool.ended(now, virtual_client) else { return };
        if let Some(phase) = uncounted {
            match phase {
                Phase::Online => self.offline(virtual_client),
                _ => self.lose(virtual_client),
            }
            let cause = self.pool.count_end(virtual_client, phase, reason, handle);
            self.tell_end(virtual_client, cause);
        }
        self.pool.come_back(now, virtual_client);
    }

    pub(super) fn not_connected(
        &mut self,
        now: Now,
        virtual_client: u32,
        reason: CloseReason,
        handle: &mut ShardHandle,
    ) {
        // A call that was reset when all was open has asked nothing yet.
        let phase = match cause::phase_of(handle.reached()) {
            Phase::Bind => Phase::Layers,
            phase => phase,
        };
        if let Some(cause) = self.pool.not_connected(now, virtual_client, (phase, reason), handle) {
            self.tell_end(virtual_client, cause);
        }
    }

    /// Tells the script of an end.
    fn tell_end(&mut self, virtual_client: u32, cause: Cause) {
        if self.wants.disconnect && !self.pool.stopping {
            let number = self.pool.number(virtual_client);
            self.script(|script| script.disconnect(number, cause.name()));
        }
    }

    /// Counts the requests of an ended connection as lost.
    fn offline(&mut self, virtual_client: u32) {
        self.pool.log.online_now -= 1;
        self.lose(virtual_client);
    }
}

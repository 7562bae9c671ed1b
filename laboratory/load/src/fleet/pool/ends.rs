//! Ends of virtual clients: how they are refused, go, and come back.
//!
//! Every end is counted once, by how far the client had come and by its cause. Where the protocol
//! says why (a refusal, a kick), that is the end, and the connection's own end that follows is not
//! counted again.

use super::ClientPool;
use crate::fleet::cause;
use crate::fleet::client::FleetProfile;
use crate::fleet::client::xmpp::PERMANENT_REFUSALS;
use crate::fleet::plan::Reconnect;
use crate::fleet::virtual_client::{Flags, State};
use base::time::Now;
use lab::cause::{Cause, Phase, Side};
use model::close::CloseReason;
use net::{ShardHandle, ShardLogic};
use std::time::Duration;

/// Refusals that no waiting changes (MIOP 7: 20 to 29; IM 8.1).
const PERMANENT: std::ops::Range<u32> = 20..30;
const PERMANENT_OF_IM: [u32; 10] = [1, 2, 3, 4, 15, 16, 32, 33, 34, 37];

impl ClientPool {
    /// A Bind was refused with this code, and when to come back: the client leaves. False: it had
    /// not asked.
    pub fn refused<L: ShardLogic>(
        &mut self,
        now: Now,
        virtual_client: u32,
        (code, retry_after_ms): (u32, u32),
        handle: &mut ShardHandle<L>,
    ) -> bool {
        if !self.is_asking(virtual_client) {
            return false;
        }
        self.log.asking -= 1;
        self.end(Phase::Bind, Cause::BindRefused);
        self.log.codes.count(&format!("refused {code}"));
        self.leave(now, virtual_client, retry_after_ms, handle);
        let is_permanent = match self.plan.profile {
            FleetProfile::Miop(_) => PERMANENT.contains(&code),
            FleetProfile::Im(_) => PERMANENT_OF_IM.contains(&code),
            FleetProfile::Xmpp(_) => PERMANENT_REFUSALS.contains(&code),
            _ => false,
        };
        if is_permanent {
            self.at(virtual_client).flags.set(Flags::FAREWELL);
        }
        true
    }

    /// Counts an end.
    pub fn end(&mut self, phase: Phase, cause: Cause) {
        self.log.causes.count(phase, cause);
    }

    /// Its outcome is counted: it ends its connection, and comes back no sooner than told.
    pub fn leave<L: ShardLogic>(
        &mut self,
        now: Now,
        virtual_client: u32,
        retry_after_ms: u32,
        handle: &mut ShardHandle<L>,
    ) {
        let this = self.at(virtual_client);
        this.state = State::Leaving;
        this.since = now.after(Duration::from_millis(u64::from(retry_after_ms)));
        handle.close(self.conn(virtual_client), CloseReason::OwnStop);
    }

    /// A connection has ended: how far it had come if its end is still to be counted. `None`: it
    /// was no client's any more.
    pub fn ended(&mut self, now: Now, virtual_client: u32) -> Option<Option<Phase>> {
        let phase = match self.at(virtual_client).state {
            State::Asking => {
                self.log.asking -= 1;
                Phase::Bind
            }
            State::Online => Phase::Online,
            State::Leaving => return Some(None),
            State::Away | State::Calling | State::Gone => return None,
        };
        self.at(virtual_client).since = now.mono;
        Some(Some(phase))
    }

    /// A call has failed when it had come so far, and is counted as what it gives.
    pub fn not_connected<L: ShardLogic>(
        &mut self,
        now: Now,
        virtual_client: u32,
        (phase, reason): (Phase, CloseReason),
        handle: &ShardHandle<L>,
    ) -> Option<Cause> {
        let this = self.at(virtual_client);
        if this.state != State::Calling {
            return None;
        }
        this.since = now.mono;
        self.log.connecting -= 1;
        let cause = self.count_end(virtual_client, phase, reason, handle);
        self.come_back(now, virtual_client);
        Some(cause)
    }

    /// Counts an end that `net` told, and says as what.
    pub fn count_end<L: ShardLogic>(
        &mut self,
        virtual_client: u32,
        phase: Phase,
        reason: CloseReason,
        handle: &ShardHandle<L>,
    ) -> Cause {
        if reason == CloseReason::OwnStop && self.at(virtual_client).flags.has(Flags::FAREWELL) {
            self.end(phase, Cause::Farewell);
            return Cause::Farewell;
        }
        let detail = handle.detail();
        let cause = self.unless_frozen(virtual_client, cause::of(phase, reason, detail));
        self.end(phase, cause);
        if let Some(word) = cause::word(detail) {
            self.log.codes.count(&word);
        }
        cause
    }

    /// A cause, or that the tester itself had frozen the client: whoever lets such a one go does
    /// what he should.
    pub(crate) fn unless_frozen(&mut self, virtual_client: u32, cause: Cause) -> Cause {
        let is_theirs = matches!(cause.side(), Side::Target | Side::Between);
        let frozen = self.at(virtual_client).flags.has(Flags::FROZEN);
        if frozen && is_theirs { Cause::Frozen } else { cause }
    }

    /// Sets the time of a virtual client's return; false when it stays away.
    pub fn come_back(&mut self, now: Now, virtual_client: u32) -> bool {
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

    /// Marks a virtual client as gone for good; always false.
    pub(crate) fn gone(&mut self, virtual_client: u32) -> bool {
        let this = self.at(virtual_client);
        this.state = State::Gone;
        this.lost = 0;
        self.log.over += 1;
        false
    }
}

//! How virtual clients come and say farewell, as far as the fleet's traffic has to do with it.

use super::{FleetLogic, ShardHandle};
use crate::fleet::client::ClientAct;
use crate::fleet::virtual_client::{Ears, Flags, FleetSlot, State};
use base::time::Now;
use lab::plan::Arrival;
use lab::timing::Timing;
use model::close::CloseReason;
use model::ports::virtual_client::Action;
use std::net::IpAddr;
use std::sync::Arc;

/// Virtual clients dismissed in one turn.
const DISMISSED_PER_TURN: usize = 1_024;

impl FleetLogic {
    /// Has so many clients there, in the whole fleet.
    pub(super) fn arrive(
        &mut self,
        now: Now,
        (total, shape): (u32, Arrival),
        sources: Arc<[IpAddr]>,
        handle: &mut ShardHandle,
    ) {
        self.pool.arrive(now, total, shape, sources);
        self.replan(now);
        self.dismiss(now, handle);
    }

    /// Has clients that are too many say farewell, a slice of them in a turn.
    pub(super) fn dismiss(&mut self, now: Now, handle: &mut ShardHandle) {
        for _ in 0..DISMISSED_PER_TURN {
            let Some(virtual_client) = self.pool.next_dismissed() else { return };
            self.say_farewell(now, virtual_client, handle);
        }
    }

    /// The layers are open; the Bind goes out now.
    pub(super) fn established(&mut self, now: Now, virtual_client: u32) -> FleetSlot {
        self.pool.established(now, virtual_client);
        let client = self.resting.remove(&virtual_client).unwrap_or_else(|| {
            self.pool.at(virtual_client).sent = 0;
            self.pool.plan.profile.client(self.pool.number(virtual_client))
        });
        FleetSlot::new(client, virtual_client)
    }

    pub(super) fn bound(
        &mut self,
        now: Now,
        virtual_client: u32,
        resumed: bool,
        heartbeat_s: u16,
        handle: &mut ShardHandle,
    ) {
        if !self.pool.bound(virtual_client) {
            return;
        }
        let this = self.pool.at(virtual_client);
        this.heartbeat_s = heartbeat_s;
        this.tries = 0;
        let (spent, ready) = (now.mono - this.since, now.mono - this.call_at);
        let (late, recovered) = (this.call_late_us, this.recover(now.mono));
        self.pool.log.resumed += u64::from(resumed);
        self.look_at_session(virtual_client, resumed);
        self.pool.note(Timing::Bind, spent, 0);
        self.pool.note(Timing::Ready, ready, late);
        if let Some(span) = recovered {
            self.pool.note(Timing::Recovery, span, 0);
        }
        self.first_beat(now, virtual_client);
        self.first_messages(now, virtual_client, handle);
        if self.pool.at(virtual_client).flags.has(Flags::FAREWELL) {
            self.say_farewell(now, virtual_client, handle);
        }
    }

    /// A device that talks has its session, and so much is stored for it.
    pub(super) fn fell_behind(&mut self, virtual_client: u32, stored: u32) {
        let says_once = self.pool.plan.profile.says_once();
        if stored > 0 && says_once && self.pool.is_online(virtual_client) {
            self.pool.at(virtual_client).flags.set(Flags::BEHIND);
            self.pool.log.fell_behind += 1;
            self.pool.log.behind_now += 1;
        }
    }

    /// Stored messages came; so many more are on their way.
    pub(super) fn fetched(&mut self, virtual_client: u32, messages: u32, behind: u32) {
        self.pool.log.fetched += u64::from(messages);
        if behind == 0 && self.pool.at(virtual_client).flags.take(Flags::BEHIND) {
            self.pool.log.caught_up += 1;
            self.pool.log.behind_now -= 1;
        }
    }

    /// Has a client say farewell and stay away.
    pub(super) fn say_farewell(&mut self, now: Now, virtual_client: u32, handle: &mut ShardHandle) {
        let this = self.pool.at(virtual_client);
        this.flags.set(Flags::FAREWELL);
        match this.state {
            State::Online => {
                this.flags.set(Flags::TOLD);
                this.ears = Ears::Open;
                if !this.is_pinging() {
                    this.since = now.mono;
                }
                self.tell(virtual_client, ClientAct::Hold(false), handle);
                self.tell(virtual_client, ClientAct::Do(Action::Unbind), handle);
            }
            // It has nothing to say yet; see `ends` for what its end counts as.
            State::Calling | State::Asking => {
                handle.close(self.pool.conn(virtual_client), CloseReason::OwnStop);
            }
            State::Away => {
                if this.flags.has(Flags::CALLED) {
                    self.pool.gone(virtual_client);
                    self.resting.remove(&virtual_client);
                    self.flights_lost(virtual_client, true);
                }
            }
            State::Leaving | State::Gone => {}
        }
    }
}

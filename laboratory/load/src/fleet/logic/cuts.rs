//! Faults of virtual clients that are online: cut in every way, frozen, made deaf, made to flap.

use super::{FleetLogic, ShardHandle};
use crate::fleet::client::ClientAct;
use crate::fleet::pool::TICK;
use crate::fleet::virtual_client::{Ears, Flags, State};
use base::time::Now;
use lab::cause::{Cause, Phase};
use lab::order::Cut;
use model::close::CloseReason;
use model::id::ConnRef;
use model::ports::virtual_client::Action;

/// Clients that come and go.
#[derive(Clone, Copy, Default)]
pub(super) struct Flap {
    share_per_s: f64,
    /// Fraction of a client left over from tick to tick.
    owed: f64,
}

impl Flap {
    pub(super) fn new(share_per_s: f64) -> Flap {
        Flap { share_per_s, owed: 0.0 }
    }
}

impl FleetLogic {
    /// Has so large a share of those online go through this; of those frozen or deaf for a thaw.
    pub(super) fn cut(&mut self, now: Now, share: f64, how: Cut, handle: &mut ShardHandle) {
        let fits = |ears: Ears| match how {
            Cut::Thaw => ears != Ears::Open,
            Cut::Freeze => ears != Ears::Frozen,
            Cut::StopReading => ears == Ears::Open,
            Cut::Farewell | Cut::Close | Cut::Reset => true,
        };
        let online = (0..self.pool.clients.len() as u32).filter(|&virtual_client| {
            let this = &self.pool.clients[virtual_client as usize];
            this.state == State::Online && fits(this.ears) && !this.flags.has(Flags::TOLD)
        });
        let mut online: Vec<u32> = online.collect();
        // Threads round at different places, so that all together cut what one would.
        let place = (f64::from(self.pool.thread) + 0.5) / f64::from(self.pool.plan.threads);
        let count = (online.len() as f64 * share.clamp(0.0, 1.0) + place) as usize;
        for at in 0..count.min(online.len()) {
            let other = at + self.pool.random.below((online.len() - at) as u64) as usize;
            online.swap(at, other);
            self.cut_one(now, online[at], how, handle);
        }
    }

    fn cut_one(&mut self, now: Now, virtual_client: u32, how: Cut, handle: &mut ShardHandle) {
        let conn = ConnRef::from_bits(self.pool.at(virtual_client).conn);
        match how {
            Cut::Farewell => {
                let this = self.pool.at(virtual_client);
                this.flags.set(Flags::TOLD);
                if !this.is_pinging() {
                    this.since = now.mono;
                }
                self.tell(virtual_client, ClientAct::Do(Action::Unbind), handle);
            }
            Cut::Close => {
                self.count_cut(now, virtual_client);
                handle.close(conn, CloseReason::OwnStop);
            }
            Cut::Reset => {
                self.count_cut(now, virtual_client);
                handle.reset(conn, CloseReason::OwnStop);
            }
            Cut::Freeze => self.hear_with(virtual_client, Ears::Frozen, handle),
            Cut::StopReading => self.hear_with(virtual_client, Ears::Deaf, handle),
            Cut::Thaw => {
                self.pool.log.thawed += 1;
                self.thawed = now.mono;
                self.hear_with(virtual_client, Ears::Open, handle);
            }
        }
    }

    fn hear_with(&mut self, virtual_client: u32, ears: Ears, handle: &mut ShardHandle) {
        let this = self.pool.at(virtual_client);
        this.ears = ears;
        if ears != Ears::Open {
            this.flags.set(Flags::FROZEN);
        }
        self.tell(virtual_client, ClientAct::Hold(ears != Ears::Open), handle);
    }

    fn count_cut(&mut self, now: Now, virtual_client: u32) {
        self.pool.log.causes.count(Phase::Online, Cause::Cut);
        self.offline(virtual_client, Cause::Cut);
        let this = self.pool.at(virtual_client);
        this.state = State::Leaving;
        this.since = now.mono;
        this.lose(now.mono);
    }

    /// A tick's part of the clients is cut, and comes back at once.
    pub(super) fn flap_step(&mut self, now: Now, handle: &mut ShardHandle) {
        if self.flap.share_per_s <= 0.0 || self.pool.log.online_now == 0 {
            return;
        }
        let share = self.flap.share_per_s * TICK.as_secs_f64();
        self.flap.owed += share * self.pool.log.online_now as f64;
        let count = self.flap.owed as u64;
        self.flap.owed -= count as f64;
        for _ in 0..count.min(self.pool.log.online_now) {
            let Some(virtual_client) = self.draw_online() else { break };
            self.pool.at(virtual_client).flags.set(Flags::AT_ONCE);
            self.cut_one(now, virtual_client, Cut::Close, handle);
        }
    }

    /// Any client that is online.
    fn draw_online(&mut self) -> Option<u32> {
        let count = self.pool.clients.len() as u64;
        let from = self.pool.random.below(count);
        let all = (from..count).chain(0..from);
        all.map(|at| at as u32).find(|&virtual_client| {
            self.pool.clients[virtual_client as usize].state == State::Online
        })
    }
}

//! What is done to pilots that are online: cut in every way, frozen, made deaf, made to flap.

use super::{Desk, PilotHouse, TICK};
use crate::fleet::client::Act;
use crate::fleet::pilot::{Ears, Flags, State};
use base::time::Now;
use lab::cause::{Cause, Phase};
use lab::order::Cut;
use model::close::CloseReason;
use model::id::ConnRef;
use model::pilot::Action;

/// Clients that come and go.
#[derive(Clone, Copy, Default)]
pub(super) struct Flap {
    share_per_s: f64,
    /// What is left of a client from tick to tick.
    owed: f64,
}

impl Flap {
    pub(super) fn new(share_per_s: f64) -> Flap {
        Flap { share_per_s, owed: 0.0 }
    }
}

impl PilotHouse {
    /// Has so large a share of those online go through this; of those frozen or deaf for a thaw.
    pub(super) fn cut(&mut self, now: Now, share: f64, how: Cut, desk: &mut Desk) {
        let fits = |ears: Ears| match how {
            Cut::Thaw => ears != Ears::Open,
            Cut::Freeze => ears != Ears::Frozen,
            Cut::StopReading => ears == Ears::Open,
            Cut::Farewell | Cut::Close | Cut::Reset => true,
        };
        let online = (0..self.pilots.len() as u32).filter(|&pilot| {
            let this = &self.pilots[pilot as usize];
            this.state == State::Online && fits(this.ears) && !this.flags.has(Flags::TOLD)
        });
        let mut online: Vec<u32> = online.collect();
        // Threads round at different places, so that all together cut what one would.
        let place = (f64::from(self.share.thread) + 0.5) / f64::from(self.plan.threads);
        let count = (online.len() as f64 * share.clamp(0.0, 1.0) + place) as usize;
        for at in 0..count.min(online.len()) {
            let other = at + self.random.below((online.len() - at) as u64) as usize;
            online.swap(at, other);
            self.cut_one(now, online[at], how, desk);
        }
    }

    fn cut_one(&mut self, now: Now, pilot: u32, how: Cut, desk: &mut Desk) {
        let conn = ConnRef::from_bits(self.at(pilot).conn);
        match how {
            Cut::Farewell => {
                let this = self.at(pilot);
                this.flags.set(Flags::TOLD);
                if !this.is_pinging() {
                    this.since = now.mono;
                }
                self.tell(pilot, Act::Do(Action::Unbind), desk);
            }
            Cut::Close => {
                self.count_cut(now, pilot);
                desk.close(conn, CloseReason::OwnStop);
            }
            Cut::Reset => {
                self.count_cut(now, pilot);
                desk.reset(conn, CloseReason::OwnStop);
            }
            Cut::Freeze => self.hear_with(pilot, Ears::Frozen, desk),
            Cut::StopReading => self.hear_with(pilot, Ears::Deaf, desk),
            Cut::Thaw => {
                self.log.thawed += 1;
                self.thawed = now.mono;
                self.hear_with(pilot, Ears::Open, desk);
            }
        }
    }

    fn hear_with(&mut self, pilot: u32, ears: Ears, desk: &mut Desk) {
        let this = self.at(pilot);
        this.ears = ears;
        if ears != Ears::Open {
            this.flags.set(Flags::FROZEN);
        }
        self.tell(pilot, Act::Hold(ears != Ears::Open), desk);
    }

    fn count_cut(&mut self, now: Now, pilot: u32) {
        self.log.causes.count(Phase::Online, Cause::Cut);
        self.offline(pilot, Cause::Cut);
        let this = self.at(pilot);
        this.state = State::Leaving;
        this.since = now.mono;
        this.lose(now.mono);
    }

    /// A tick's part of the clients is cut, and comes back at once.
    pub(super) fn flap_step(&mut self, now: Now, desk: &mut Desk) {
        if self.flap.share_per_s <= 0.0 || self.log.online_now == 0 {
            return;
        }
        let share = self.flap.share_per_s * TICK.as_secs_f64();
        self.flap.owed += share * self.log.online_now as f64;
        let count = self.flap.owed as u64;
        self.flap.owed -= count as f64;
        for _ in 0..count.min(self.log.online_now) {
            let Some(pilot) = self.draw_online() else { break };
            self.at(pilot).flags.set(Flags::AT_ONCE);
            self.cut_one(now, pilot, Cut::Close, desk);
        }
    }

    /// Any client that is online.
    fn draw_online(&mut self) -> Option<u32> {
        let count = self.pilots.len() as u64;
        let from = self.random.below(count);
        let all = (from..count).chain(0..from);
        all.map(|at| at as u32).find(|&pilot| self.pilots[pilot as usize].state == State::Online)
    }
}

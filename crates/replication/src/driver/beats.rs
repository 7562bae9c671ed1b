//! Beats, and whether there may be any.
//!
//! A node whose shards or whose disk hang must fall silent, so that a follower takes over from it.
//! This thread hangs with the disk of a follower; of a leader, whose disk others write, it looks.

use super::{Driver, Serving};
use base::time::Instant;
use cluster::port::LogEvent;
use cluster::wire::beat::{Beat, LogBeat, LogRole, clock_of};
use std::time::Duration;
use store::data::LogSizes;

/// A server that said that it turns, and did not for so many seconds, hangs.
const TURNS: u64 = 5;

/// A log in which calls wait, of which nothing waits for the stream and to which nothing is
/// written for so many seconds, hangs.
const STALLS: u64 = 5;

/// A server that leaves and has not closed its logs after so long hangs.
const CLOSING: Duration = Duration::from_secs(20);

/// Signs of life of a node that leads.
#[derive(Default)]
pub(crate) struct Pulse {
    turns: u64,
    turned_s: u64,
    stalls: Vec<Stall>,
}

#[derive(Clone, Copy, Default)]
struct Stall {
    log_bytes: u64,
    seconds: u64,
}

impl Pulse {
    /// Looks, each second, at what the server said and at the logs. Whether all lives.
    fn look(&mut self, second: u64, turns: u64, sizes: &[LogSizes]) -> bool {
        if turns != self.turns {
            (self.turns, self.turned_s) = (turns, second);
        }
        self.stalls.resize(sizes.len(), Stall::default());
        for (stall, sizes) in self.stalls.iter_mut().zip(sizes) {
            let is_idle = sizes.calls_waiting == 0 || sizes.engine.waiting_bytes > 0;
            let has_moved = stall.log_bytes != sizes.engine.log_bytes;
            stall.log_bytes = sizes.engine.log_bytes;
            stall.seconds = if is_idle || has_moved { 0 } else { stall.seconds + 1 };
        }
        let turns = turns == 0 || second - self.turned_s < TURNS;
        turns && self.stalls.iter().all(|stall| stall.seconds < STALLS)
    }
}

impl Driver {
    /// Sends all nodes the state of this one.
    pub(super) fn beat(&mut self, now: Instant) {
        let is_alive = match &self.serving {
            Serving::Leaving(since, _) => now.since(*since) < CLOSING,
            Serving::Open(logs) => {
                self.pulse.look(self.seconds, self.shared.turns(), &logs.sizes())
            }
            _ => true,
        };
        self.is_mute = !is_alive;
        // The good-bye is the last one: no beat may overtake it.
        let is_over = matches!(self.serving, Serving::Over(_));
        if is_alive && !is_over && self.table.is_good() {
            // Until its logs are closed nobody is to take over from a node that leaves.
            let role = matches!(self.serving, Serving::Leaving(..)).then_some(LogRole::Leading);
            let beat = self.own_beat(role);
            self.nats.say(self.names.beat(self.me.node), None, beat.write(self.fingerprint));
        }
    }

    /// The last beat: the logs are closed, and another node may lead.
    pub(super) fn say_goodbye(&mut self) {
        let beat = self.own_beat(Some(LogRole::Left));
        self.nats.say_now(self.names.beat(self.me.node), beat.write(self.fingerprint));
    }

    fn own_beat(&self, role: Option<LogRole>) -> Beat {
        let told = |beat: LogBeat| LogBeat { role: role.unwrap_or(beat.role), ..beat };
        let logs = self.slots.iter().filter_map(|slot| slot.replica.as_ref());
        Beat {
            by: self.me,
            clock: clock_of(self.clock.now_s()),
            logs: logs.map(|replica| told(replica.beat())).collect(),
        }
    }

    /// Another copy asks how far a log is. A node that hangs does not answer: whoever claims would
    /// give way to it.
    pub(super) fn tell_state(&self, log: u16, reply: String) {
        let slot = self.slots.get(usize::from(log));
        let replica = slot.and_then(|slot| slot.replica.as_ref());
        let Some(replica) = replica.filter(|_| !self.is_mute) else { return };
        let beat =
            Beat { by: self.me, clock: clock_of(self.clock.now_s()), logs: vec![replica.beat()] };
        self.nats.say(reply, None, beat.write(self.fingerprint));
    }

    /// Whether a log of a leader failed.
    pub(super) fn look_at_logs(&mut self) {
        let Serving::Open(logs) = &self.serving else { return };
        let sizes = logs.sizes();
        for (log, sizes) in (0..).zip(sizes) {
            let slot = &mut self.slots[usize::from(log)];
            if sizes.engine.failed && !std::mem::replace(&mut slot.is_failed, true) {
                self.event(log, LogEvent::LogFailed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::engine::{Sizes, StateMemory};

    fn sizes(calls_waiting: u64, log_bytes: u64, waiting_bytes: u64) -> LogSizes {
        let engine = Sizes { log_bytes, waiting_bytes, ..Sizes::default() };
        LogSizes { engine, state: StateMemory::default(), calls_waiting }
    }

    #[test]
    fn a_server_that_stops_turning_falls_silent() {
        let mut pulse = Pulse::default();
        assert!((0..100).all(|second| pulse.look(second, 0, &[])), "it never said anything");
        assert!(pulse.look(100, 1, &[]) && pulse.look(104, 1, &[]));
        assert!(!pulse.look(105, 1, &[]));
        assert!(pulse.look(106, 2, &[]), "it turns again");
    }

    #[test]
    fn a_disk_that_hangs_falls_silent_and_one_that_waits_for_the_stream_does_not() {
        let mut pulse = Pulse::default();
        let hangs = [sizes(3, 100, 0)];
        assert!((0..5).all(|second| pulse.look(second, 0, &hangs)));
        assert!(!pulse.look(5, 0, &hangs));
        assert!(pulse.look(6, 0, &[sizes(3, 200, 0)]), "it wrote");
        assert!((7..50).all(|second| pulse.look(second, 0, &[sizes(3, 200, 9)])), "NATS is away");
        assert!((50..99).all(|second| pulse.look(second, 0, &[sizes(0, 200, 0)])), "idle");
    }
}

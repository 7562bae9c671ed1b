//! Peers that read more slowly than they are sent, found by looking at few connections a second.
//!
//! Bytes wait in the out-queue and, unseen, in the kernel's socket. Asking the kernel costs a
//! system call, so only suspects are asked: connections whose socket did not take all of a write,
//! and a sample of the others that were written to. A suspect that cannot take what waits within
//! [`DRAIN_S`], look after look, is slow. Invariant: at most [`SUSPECTS_MAX`] and [`SAMPLE_MAX`]
//! questions in [`EVERY`], however many connections there are.

use super::{Shard, ShardMessageOf};
use crate::logic::ShardLogic;
use crate::transport::Net;
use base::slab::Key;
use base::time::Instant;
use model::ports::control::slow_clients::SlowReader;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// Suspects of a shard. Beyond, connections become suspects later.
const SUSPECTS_MAX: usize = 1_024;
/// Connections of a shard that are looked at in [`EVERY`] because they were written to.
const SAMPLE_MAX: usize = 256;
/// A peer that needs longer for what waits, at its present pace, is slow.
const DRAIN_S: u64 = 3;
/// In so many looks, one after the other.
const LOOKS: u8 = 3;

/// Suspects of one shard.
#[derive(Default)]
pub(super) struct SlowLooks {
    /// By key.
    suspects: BTreeMap<u64, Look>,
    sample: Vec<Key>,
    /// Of so many writes one is sampled.
    stride: u32,
    /// Writes since the last one that was.
    passed: u32,
    /// Writes since the last look.
    written: u32,
    due: Instant,
}

/// Result of the last look at a suspect.
#[derive(Clone, Copy, Default)]
struct Look {
    at: Instant,
    /// Bytes that the peer had acknowledged by then; absent: the connection is not TCP, or was not
    /// looked at yet.
    acknowledged: Option<u64>,
    /// Looks in which it was too slow, one after the other.
    strikes: u8,
}

impl SlowLooks {
    /// A connection was written to; `blocked`: the socket did not take everything.
    pub(super) fn wrote(&mut self, key: Key, blocked: bool) {
        self.written += 1;
        if blocked && self.suspects.len() < SUSPECTS_MAX {
            self.suspects.entry(key.pack()).or_default();
        } else if self.passed < self.stride || self.sample.len() >= SAMPLE_MAX {
            self.passed += 1;
        } else {
            self.passed = 0;
            self.sample.push(key);
        }
    }

    /// When there is somebody to look at.
    pub(super) fn next(&self) -> Option<Instant> {
        let is_any = !self.suspects.is_empty() || !self.sample.is_empty();
        is_any.then_some(self.due)
    }

    /// Whether a look is due; the next one is then due later.
    fn begins(&mut self, now: Instant) -> bool {
        if now < self.due {
            return false;
        }
        self.due = now + EVERY;
        self.stride = self.written / SAMPLE_MAX as u32;
        (self.written, self.passed) = (0, 0);
        let sample = std::mem::take(&mut self.sample);
        for key in sample.into_iter().map(Key::pack) {
            if self.suspects.len() < SUSPECTS_MAX {
                self.suspects.entry(key).or_default();
            }
        }
        true
    }
}

impl Look {
    /// The next look at the same connection: whether it is too slow, and what waits. `None`:
    /// nothing waits.
    fn next(
        self,
        at: Instant,
        queue_bytes: u64,
        tcp: Option<(u64, u64, bool)>,
    ) -> Option<(Look, SlowReader)> {
        let (acknowledged, socket_bytes, is_stalled) = tcp.unwrap_or_default();
        let elapsed_ms = (at - self.at).as_millis().max(1) as u64;
        let taken = self.acknowledged.map_or(0, |before| acknowledged.saturating_sub(before));
        let bytes_per_s = taken.saturating_mul(1_000) / elapsed_ms;
        let reader = SlowReader { queue_bytes, socket_bytes, is_stalled, bytes_per_s };
        let waiting = reader.waiting_bytes();
        if waiting == 0 {
            return None;
        }
        // Nothing acknowledged and an open window: the network loses it, or the peer is gone.
        let is_reading = tcp.is_none() || is_stalled || bytes_per_s > 0;
        let is_slow = self.acknowledged.is_some() || tcp.is_none();
        let is_slow = is_slow && is_reading && waiting > bytes_per_s.saturating_mul(DRAIN_S);
        let strikes = if is_slow { self.strikes.saturating_add(1) } else { 0 };
        Some((Look { at, acknowledged: tcp.map(|tcp| tcp.0), strikes }, reader))
    }

    fn is_slow(self) -> bool {
        self.strikes >= LOOKS
    }
}

impl<N, S, H> Shard<N, H>
where
    H: ShardLogic,
    N: Net<Socket = S, Message = ShardMessageOf<H, S>>,
    S: Send,
{
    /// Looks at the suspects, and says what waits for them and who is slow.
    pub(super) fn look_for_slow(&mut self) {
        if !H::WATCHES || !self.slow.begins(self.now.mono) {
            return;
        }
        for (token, before) in std::mem::take(&mut self.slow.suspects) {
            let key = Key::unpack(token);
            let Some(conn) = self.conns.at(key) else { continue };
            let tcp = self.net.tcp(&conn.socket);
            let tcp = tcp.map(|tcp| (tcp.acknowledged, tcp.waiting, tcp.is_stalled));
            let looked = before.next(self.now.mono, conn.backlog() as u64, tcp);
            if let Some((look, _)) = looked {
                self.slow.suspects.insert(token, look);
            }
            let found = looked.map(|(look, reader)| (reader, look.is_slow())).unwrap_or_default();
            let conn_ref = self.conn_ref(key);
            if let Some(machine) = self.conns.at_mut(key).and_then(|conn| conn.machine.as_mut()) {
                self.logic.slow(self.now, conn_ref, machine, found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant::default() + Duration::from_secs(s)
    }

    /// Looks once a second: bytes in the queue, what is acknowledged, what waits in the socket, and
    /// whether the window is closed. In which looks it was slow.
    fn slow_in(looks: &[(u64, u64, u64, bool)]) -> Vec<bool> {
        let mut look = Look::default();
        let mut slow = Vec::new();
        for (second, &(queue, acknowledged, socket, stalled)) in looks.iter().enumerate() {
            match look.next(at(second as u64), queue, Some((acknowledged, socket, stalled))) {
                Some((next, _)) => look = next,
                None => look = Look::default(),
            }
            slow.push(look.is_slow());
        }
        slow
    }

    #[test]
    fn a_reader_that_stops_is_slow_though_all_waits_in_the_socket() {
        let looks = [(0, 500, 900_000, true); 5];
        assert_eq!(slow_in(&looks), [false, false, false, true, true]);
    }

    #[test]
    fn a_reader_at_a_third_of_what_comes_is_slow() {
        let look = |s: u64| (256_000, 60_000 * s, 900_000, false);
        assert_eq!(slow_in(&[look(1), look(2), look(3), look(4)]), [false, false, false, true]);
    }

    #[test]
    fn a_reader_that_takes_much_is_not_slow_whatever_waits() {
        let look = |s: u64| (256_000, 900_000 * s, 900_000, false);
        assert_eq!(slow_in(&[look(1), look(2), look(3), look(4), look(5)]), [false; 5]);
    }

    #[test]
    fn a_peer_that_acknowledges_nothing_is_gone_and_not_slow() {
        assert_eq!(slow_in(&[(5_000, 500, 9_000, false); 6]), [false; 6]);
    }

    #[test]
    fn a_slow_reader_that_catches_up_is_slow_no_more() {
        let mut looks = vec![(0, 500, 9_000, true); 4];
        looks.extend([(0, 9_000, 500, false), (0, 9_500, 0, false)]);
        assert_eq!(slow_in(&looks), [false, false, false, true, false, false]);
    }

    #[test]
    fn the_looks_of_a_second_are_bounded_and_spread_over_its_writes() {
        let mut looks = SlowLooks::default();
        let key = |slot| Key { slot, generation: 1 };
        (0..100_000).for_each(|slot| looks.wrote(key(slot), false));
        assert_eq!(looks.sample.len(), SAMPLE_MAX);
        assert!(looks.begins(at(1)) && !looks.begins(at(1)), "once in its time");
        assert_eq!(looks.suspects.len(), SAMPLE_MAX);
        looks.suspects.clear();
        (0..100_000).for_each(|slot| looks.wrote(key(slot), false));
        let last = looks.sample.last().map(|key| key.slot).unwrap_or_default();
        assert!(looks.sample.len() <= SAMPLE_MAX && last > 90_000, "{last}");
        (0..100_000).for_each(|slot| looks.wrote(key(slot), true));
        assert_eq!(looks.suspects.len(), SUSPECTS_MAX);
    }
}

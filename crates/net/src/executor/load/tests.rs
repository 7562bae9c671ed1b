//! The policy under loads of every size, in simulated time: it spreads, gathers, and does not flap.

use super::*;
use crate::executor::exchange::{AwakeThreads, ShardExchange};
use base::prng::Prng;
use std::sync::Arc;

fn at(us: u64) -> Instant {
    Instant::from_nanos(us * 1_000)
}

/// Two threads under a load, in steps of a tenth of a millisecond: how much of a core the work
/// costs on one thread, and how much of it on two.
struct Threads {
    us: u64,
    meters: [LoadMeter; 2],
    exchange: Arc<ShardExchange<()>>,
    is_spread: bool,
    moves: Vec<(u64, bool)>,
}

impl Threads {
    fn new() -> Threads {
        Threads {
            us: 0,
            meters: [0; 2].map(|_| LoadMeter::new(at(0))),
            exchange: ShardExchange::new(
                vec![Box::new(()), Box::new(())],
                Arc::<AwakeThreads>::default(),
            ),
            is_spread: false,
            moves: Vec::new(),
        }
    }

    /// So many milliseconds of a load, in thousandths of a core: on one thread, on each of two.
    fn live(&mut self, ms: u64, mut load: impl FnMut() -> (u64, u64)) -> &mut Self {
        for _ in 0..ms * 10 {
            self.us += 100;
            let (alone, apart) = load();
            let busy = |permille: u64| Duration::from_nanos(100 * permille.min(1_000));
            if !self.is_spread {
                let reading = self.meters[0].note(at(self.us), busy(alone));
                reading.permille.into_iter().for_each(|it| self.exchange.tell_first(Some(it)));
                if reading.is_busy {
                    self.exchange.tell_first(None);
                    self.shift(true);
                }
                continue;
            }
            let first = self.meters[0].note(at(self.us), busy(apart)).permille;
            first.into_iter().for_each(|it| self.exchange.tell_first(Some(it)));
            let second = self.meters[1].note(at(self.us), busy(apart)).permille;
            if second.is_some_and(|it| self.exchange.reserve(it)) {
                self.shift(false);
            }
        }
        self
    }

    fn shift(&mut self, is_spread: bool) {
        self.is_spread = is_spread;
        self.moves.push((self.us / 1_000, is_spread));
        self.meters.iter_mut().for_each(|meter| meter.changed(at(self.us)));
    }
}

#[test]
fn a_burst_is_shared_within_three_short_windows() {
    let mut threads = Threads::new();
    threads.live(3_000, || (20, 40));
    assert_eq!(threads.moves, [], "there is little to do");
    threads.live(100, || (1_000, 900));
    let [(ms, true)] = threads.moves[..] else { panic!("{:?}", threads.moves) };
    assert!(ms <= 3_000 + 15, "after {} ms", ms - 3_000);
}

#[test]
fn what_is_quiet_comes_back_after_a_long_window_and_stays() {
    let mut threads = Threads::new();
    threads.live(100, || (1_000, 900)).live(10_000, || (20, 40));
    let [(_, true), (ms, false)] = threads.moves[..] else { panic!("{:?}", threads.moves) };
    assert!((1_000..3_200).contains(&ms), "{ms}");
}

#[test]
fn a_single_window_in_which_the_kernel_ran_others_moves_nothing() {
    let mut threads = Threads::new();
    let mut steps = 0;
    // 4 ms in each 100 in which a turn does not go on.
    threads.live(60_000, || {
        steps += 1;
        if steps % 1_000 < 40 { (1_000, 1_000) } else { (30, 60) }
    });
    assert_eq!(threads.moves, []);
}

#[test]
fn no_steady_load_flaps_whatever_it_is_and_however_much_dearer_two_threads_are() {
    let mut rng = Prng::new(7);
    for alone in (20..=1_000).step_by(20) {
        // Work for one thread is at least as much for two, up to four times.
        for dearer in [10, 15, 20, 40] {
            let apart = alone * dearer / 20;
            let mut threads = Threads::new();
            let mut noise = |load: u64| load * (90 + rng.below(21)) / 100;
            threads.live(6_000, || (noise(alone), noise(apart)));
            let moves = threads.moves.len();
            assert!(moves <= 1, "{alone} alone, {apart} each: {:?}", threads.moves);
            assert!(moves == 0 || alone > 500, "{alone} is not much");
            assert!(moves == 1 || alone < 700, "{alone} is much");
        }
    }
}

#[test]
fn bursts_move_shards_once_each_way_and_no_more() {
    let mut threads = Threads::new();
    for _ in 0..10 {
        threads.live(200, || (1_000, 700)).live(4_800, || (10, 20));
    }
    assert_eq!(threads.moves.len(), 20);
    assert!(threads.moves.chunks(2).all(|pair| pair[0].1 && !pair[1].1));
}

#[test]
fn several_do_not_give_the_first_more_together_than_each_may() {
    let exchange = ShardExchange::new(vec![Box::new(())], Arc::<AwakeThreads>::default());
    assert!(!exchange.reserve(0), "how busy it is is not known yet");
    exchange.tell_first(Some(100));
    let taken = (0..10).filter(|_| exchange.reserve(60)).count();
    assert_eq!(taken, 3, "100 and three times 60 are {GATHER_PERMILLE} at most");
}

#[test]
fn about_half_of_the_work_goes_and_never_the_first() {
    let half =
        |busy: &[u64]| half(&busy.iter().map(|&us| Duration::from_micros(us)).collect::<Vec<_>>());
    assert_eq!(half(&[5]), [0; 0]);
    assert_eq!(half(&[5, 5]), [1]);
    assert_eq!(half(&[9, 1]), [1], "the first is rid of all others");
    assert_eq!(half(&[1, 9]), [1]);
    assert_eq!(half(&[10, 50, 20, 20]), [1]);
    assert_eq!(half(&[40, 10, 30, 20]), [2, 3]);
    assert_eq!(half(&[0; 4]), [1, 2], "half of them, when nothing was done");
    assert_eq!(half(&[7; 32]).len(), 16);
    assert_eq!(half(&[]), [0; 0]);
}

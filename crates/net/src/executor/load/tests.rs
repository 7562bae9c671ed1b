//! The policy under loads of every size, in simulated time: it spreads, gathers, and does not flap.

use super::*;
use crate::executor::exchange::{AwakeThreads, ShardExchange};
use base::prng::Prng;
use std::sync::Arc;

fn at(us: u64) -> Instant {
    Instant::from_nanos(us * 1_000)
}

/// Bytes that one thread moves in a tenth of a millisecond when it can do all that is asked.
const BYTES: u64 = 1_000_000;

/// Two threads under a load, in steps of a tenth of a millisecond: how much of a core the work
/// costs on one thread, and how much of it on two. More than a core is not done.
struct Threads {
    us: u64,
    meters: [LoadMeter; 2],
    trials: Trials,
    exchange: Arc<ShardExchange<()>>,
    is_spread: bool,
    moved: [u64; 2],
    moves: Vec<(u64, bool)>,
}

impl Threads {
    fn new() -> Threads {
        let awake = Arc::<AwakeThreads>::default();
        let exchange = ShardExchange::new(vec![Box::new(()), Box::new(())], awake);
        exchange.set_awake(true);
        Threads {
            us: 0,
            meters: [0; 2].map(|_| LoadMeter::new(at(0))),
            trials: Trials::new(at(0)),
            exchange,
            is_spread: false,
            moved: [0; 2],
            moves: Vec::new(),
        }
    }

    /// One thread's share of a step: so much of a core is wanted for so many bytes.
    fn works(&mut self, thread: usize, permille: u64, bytes: u64) -> LoadReading {
        let done = permille.min(1_000);
        self.moved[thread] += bytes * done / permille.max(1);
        let moved = self.moved[thread];
        self.meters[thread].note(at(self.us), Duration::from_nanos(100 * done), || moved)
    }

    /// So many milliseconds of a load, in thousandths of a core: on one thread, on each of two.
    fn live(&mut self, ms: u64, mut load: impl FnMut() -> (u64, u64)) -> &mut Self {
        for _ in 0..ms * 10 {
            self.us += 100;
            let (alone, apart) = load();
            if !self.is_spread {
                let reading = self.works(0, alone, BYTES);
                reading.long.into_iter().for_each(|it| self.exchange.tell_first(Some(it)));
                if reading.is_busy {
                    self.exchange.tell_first(None);
                    self.shift(true);
                }
                continue;
            }
            let first = self.works(0, apart, BYTES / 2).long;
            first.into_iter().for_each(|it| self.exchange.tell_first(Some(it)));
            let second = self.works(1, apart, BYTES / 2).long;
            if second.is_some_and(|it| self.exchange.reserve(it.permille) || self.tries(it)) {
                self.shift(false);
            }
        }
        self
    }

    fn tries(&mut self, reading: WindowReading) -> bool {
        let now = at(self.us);
        let tries = self.trials.is_time(now) && self.exchange.begin_trial(reading.bytes_a_second);
        if tries {
            self.trials.begins(now);
        }
        tries
    }

    fn shift(&mut self, is_spread: bool) {
        let now = at(self.us);
        self.is_spread = is_spread;
        self.moves.push((self.us / 1_000, is_spread));
        self.exchange.set_awake(is_spread);
        for (meter, moved) in self.meters.iter_mut().zip(self.moved) {
            meter.changed(now, moved);
        }
        match self.exchange.take_trial() {
            Some(of_two) => self.meters[0].tries(now, self.moved[0], of_two),
            None if is_spread => self.trials.came(now),
            None => {}
        }
    }

    /// In how many of so many milliseconds from now on both threads run.
    fn spread_ms(&mut self, ms: u64, load: (u64, u64)) -> u64 {
        let ran = |threads: &mut Threads| u64::from(threads.live(1, || load).is_spread);
        (0..ms).map(|_| ran(self)).sum()
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
            assert!(moves == 0 || alone > 500, "{alone} is not much");
            assert!(moves > 0 || alone < 700, "{alone} is much");
            // It is shared at once, and one thread that has time left does it all after a trial.
            assert!(moves <= 2 || alone > 850, "{alone} alone: {:?}", threads.moves);
            // Beyond that there are a few trials, further and further apart.
            assert!(moves <= 7, "{alone} alone, {apart} each: {:?}", threads.moves);
        }
    }
}

#[test]
fn work_for_more_than_one_thread_stays_with_two() {
    for alone in [1_100, 1_500, 2_000, 3_000] {
        let mut threads = Threads::new();
        threads.live(1_000, || (alone, alone * 11 / 20));
        let spread = threads.spread_ms(60_000, (alone, alone * 11 / 20));
        assert!(spread > 59_000, "{alone} alone: in {spread} of 60,000 ms");
    }
}

#[test]
fn one_thread_that_moves_more_than_two_goes_on_alone_most_of_the_time() {
    // Clients that wait for answers and share the cores: two threads waste more than they bring.
    let mut threads = Threads::new();
    threads.live(1_000, || (1_500, 2_000));
    let spread = threads.spread_ms(60_000, (1_500, 2_000));
    assert!(spread < 10_000, "in {spread} of 60,000 ms");
    // When it is more than that later, another thread joins by and by.
    let spread = threads.spread_ms(120_000, (3_000, 1_600));
    assert!(spread > 50_000, "in {spread} of 120,000 ms");
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
    exchange.tell_first(Some(WindowReading { permille: 100, bytes_a_second: 0 }));
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

//! Shards that one thread runs now.
//!
//! A shard is a unit of ownership, a thread one of execution: a process has as many of either, and
//! while there is little to do the first thread runs all shards and the others sleep. A round:
//! wait once for all of them, turn those that have something, sleep until the nearest deadline.
//! The others' networks are nested in that of the first shard here, which alone is waited at; with
//! one shard it is what [`Shard::turn`] does, call for call.
//!
//! Mail between shards of one thread rings no bell: whoever was posted to is turned next. That
//! holds whenever a shard moves, for the executor looks after the put, in its own list, which
//! nobody else changes; who is not in it is rung, wherever it is, and its bell moves with it; who
//! comes is turned at once. [`load`] decides which shards move and when; [`exchange`] moves them.
//!
//! Invariant: a shard is held by one executor or lies in one inbox; a thread that runs shards runs
//! the one of its own number, until that has ended.

pub mod exchange;
pub mod load;
pub mod priority;

use crate::logic::ShardLogic;
use crate::shard::{Shard, ShardMessageOf};
use crate::transport::{NestedWait, ReadyEvent};
use base::time::{Instant, Now};
use exchange::ShardExchange;
use load::{LoadMeter, Trials, WindowReading};
use model::counters::ProcessCounter;
use model::id::ShardId;
use std::sync::Arc;
use std::time::Duration;

/// Mail to and fro between shards of this thread before sockets are looked at again.
const PASSES_MAX: usize = 8;

/// A shard with more connections does not come back to the first thread before the process ends:
/// the kernel walks them when networks are nested, 70 ns each, and all stand still meanwhile.
const NESTED_CONNECTIONS_MAX: usize = 65_536;

/// The inboxes by which executors hand over shards.
pub type ExchangeOf<N, H> = ShardExchange<Shard<N, H>>;

/// A thread's shards.
pub struct Executor<N: NestedWait, H: ShardLogic> {
    number: u16,
    exchange: Arc<ExchangeOf<N, H>>,
    /// The first is waited at.
    held: Vec<Held<N, H>>,
    ended: Vec<Box<Shard<N, H>>>,
    ready: Vec<ReadyEvent>,
    meter: LoadMeter,
    trials: Trials,
    /// The clock, as it was read last.
    now: Instant,
}

struct Held<N: NestedWait, H: ShardLogic> {
    shard: Box<Shard<N, H>>,
    /// Whether its network is ready.
    ready: bool,
    /// A shard of this thread has posted to it.
    mail: bool,
    /// When it wants to turn.
    next: Option<Instant>,
    /// When its last turn was over.
    over: Instant,
    /// Time in its turns, of late.
    busy: Duration,
}

impl<N, S, H> Executor<N, H>
where
    H: ShardLogic,
    N: NestedWait<Socket = S, Message = ShardMessageOf<H, S>>,
    S: Send,
{
    /// The executor of a thread; the shard of the same number is at home there.
    pub fn new(number: u16, exchange: Arc<ExchangeOf<N, H>>) -> Self {
        Executor {
            number,
            exchange,
            held: Vec::new(),
            ended: Vec::new(),
            ready: Vec::new(),
            meter: LoadMeter::new(Instant::default()),
            trials: Trials::new(Instant::default()),
            now: Instant::default(),
        }
    }

    /// Runs shards until all of the process have ended. Those that ended here are given to `ended`
    /// when no other is left on this thread.
    pub fn run(&mut self, mut ended: impl FnMut(Vec<Box<Shard<N, H>>>)) {
        loop {
            if self.held.is_empty() {
                if !self.ended.is_empty() {
                    ended(std::mem::take(&mut self.ended));
                }
                if !self.exchange.park(usize::from(self.number)) {
                    return;
                }
            }
            self.round();
        }
    }

    /// One wait for all shards, and the turns of those that have something. False: there was
    /// nothing to do.
    pub fn round(&mut self) -> bool {
        self.take_in();
        let Some(mut now) = self.wait() else { return false };
        let mut turns = 0;
        let mut busy = Duration::ZERO;
        for pass in 0..PASSES_MAX {
            let before = turns;
            for at in 0..self.held.len() {
                if self.is_due(at, pass) {
                    busy += self.turn(at, now);
                    turns += 1;
                    // Where one turn ends the next begins; the wall clock is read once a round.
                    now.mono = self.now;
                }
            }
            if turns == before {
                break;
            }
        }
        self.let_ended_go();
        self.balance(busy);
        turns > 0
    }

    /// Takes what other threads have given to this one; they turn in the next round.
    pub fn take_in(&mut self) {
        let came = self.exchange.take(usize::from(self.number));
        if came.is_empty() {
            return;
        }
        let had_none = self.held.is_empty();
        came.into_iter().for_each(|shard| self.hold(shard));
        if self.number == 0 {
            if let Some(of_two) = self.exchange.take_trial() {
                self.meter.tries(self.now, moved(&self.held), of_two);
            }
        } else if had_none {
            self.trials.came(self.now);
        }
    }

    /// Shards that are held, and those that have ended here.
    pub fn shards(&self) -> impl Iterator<Item = &Shard<N, H>> {
        self.held.iter().map(|held| &*held.shard).chain(self.ended.iter().map(|shard| &**shard))
    }

    /// As [`shards`](Self::shards), mutable.
    pub fn shards_mut(&mut self) -> impl Iterator<Item = &mut Shard<N, H>> {
        let held = self.held.iter_mut().map(|held| &mut *held.shard);
        held.chain(self.ended.iter_mut().map(|shard| &mut **shard))
    }

    /// The shard at whose network this thread waits. None: it sleeps, and runs none.
    pub fn first(&self) -> Option<ShardId> {
        self.held.first().map(|held| held.shard.number())
    }

    /// Hands shards of these numbers to the thread at which the lowest of them is at home. The
    /// first that is held stays.
    pub fn hand_over(&mut self, numbers: &[ShardId]) {
        let mut going = Vec::new();
        for at in (1..self.held.len()).rev() {
            if numbers.contains(&self.held[at].shard.number()) {
                going.push(self.part(at));
            }
        }
        going.sort_by_key(|shard| shard.number());
        let Some(to) = going.first().map(|shard| shard.number().0) else { return };
        if to == self.number {
            return going.into_iter().for_each(|shard| self.hold(shard));
        }
        if self.number == 0 {
            self.exchange.tell_first(None);
        }
        self.meter.changed(self.now, moved(&self.held));
        // It sleeps there, for it holds nothing while its own shard is here.
        let given = self.exchange.give(usize::from(to), going, |_| {});
        given.unwrap_or_else(|back| back.into_iter().for_each(|shard| self.hold(shard)));
    }

    /// Gives all shards back to the first thread, if it takes them.
    pub fn give_back(&mut self) {
        if self.number == 0 || self.held.is_empty() {
            return;
        }
        let mut going = Vec::new();
        while !self.held.is_empty() {
            going.push(self.part(self.held.len() - 1));
        }
        // It runs the shard of its own number, and is woken by whatever wakes that.
        let wake = |shards: &mut [Box<Shard<N, H>>]| shards[0].net_mut().wake(ShardId(0));
        self.exchange.set_awake(false);
        if let Err(mut back) = self.exchange.give(0, going, wake) {
            back.sort_by_key(|shard| shard.number());
            back.into_iter().for_each(|shard| self.hold(shard));
        }
    }

    /// Takes a shard on: it is turned in the next round. One that cannot be waited for with the
    /// others goes home, where nobody runs anything.
    fn hold(&mut self, mut shard: Box<Shard<N, H>>) {
        self.now = shard.net_mut().mono();
        match self.held.first_mut() {
            None => self.exchange.set_awake(true),
            Some(first) => {
                if !first.shard.net_mut().nest(shard.net()) {
                    let home = usize::from(shard.number().0);
                    let sent = self.exchange.give(home, vec![shard], |_| {});
                    return assert!(sent.is_ok(), "a thread is open while its shard runs");
                }
            }
        }
        let (next, over, busy) = (Some(self.now), self.now, Duration::ZERO);
        self.held.push(Held { shard, ready: true, mail: true, next, over, busy });
        self.meter.changed(self.now, moved(&self.held));
    }

    /// A shard leaves this thread.
    fn part(&mut self, at: usize) -> Box<Shard<N, H>> {
        let held = self.held.remove(at);
        if at > 0 {
            self.held[0].shard.net_mut().unnest(held.shard.net());
        }
        held.shard
    }

    /// Waits until a shard has something. None: there is no shard.
    fn wait(&mut self) -> Option<Now> {
        // Sockets of a nested network that one look left behind are told by no wait.
        let left = self.held.iter().any(|held| held.mail || held.ready);
        let next = self.held.iter().filter_map(|held| held.next);
        let several = self.exchange.awake() > 1;
        let next = next.chain(several.then(|| self.meter.next())).min();
        let timeout = if left { Some(Duration::ZERO) } else { next.map(|next| next - self.now) };
        let net = self.held.first_mut()?.shard.net_mut();
        net.wait(timeout, &mut self.ready);
        let now = net.now();
        self.now = now.mono;
        if self.held.len() > 1 {
            let held = &mut self.held;
            self.ready.retain(|event| {
                let ReadyEvent::Nested(shard) = *event else { return true };
                let found = held.iter_mut().find(|held| held.shard.number() == shard);
                found.into_iter().for_each(|held| held.ready = true);
                false
            });
        }
        self.held[0].ready = !self.ready.is_empty();
        Some(now)
    }

    /// Whether a shard has something to do. Work that was left over waits for the next round; mail
    /// is read at once.
    fn is_due(&self, at: usize, pass: usize) -> bool {
        let held = &self.held[at];
        let is_due = held.ready || held.next.is_some_and(|next| next <= self.now);
        held.mail || (pass == 0 && is_due)
    }

    /// One turn of a shard; how long it took.
    fn turn(&mut self, at: usize, now: Now) -> Duration {
        let (before, rest) = self.held.split_at_mut(at);
        let (this, after) = rest.split_first_mut().expect("it is held");
        if std::mem::take(&mut this.ready) && at > 0 {
            this.ready = this.shard.net_mut().poll(&mut self.ready);
        }
        if std::mem::take(&mut this.mail) && !self.ready.contains(&ReadyEvent::Mailbox) {
            self.ready.push(ReadyEvent::Mailbox);
        }
        if let Some(wanted) = this.next.filter(|next| *next <= now.mono) {
            this.shard.handle_mut().is_late(now.mono - wanted.max(this.over));
        }
        self.now = this.shard.act(now, &mut self.ready);
        this.over = self.now;
        this.next = this.shard.next_turn();
        let spent = self.now - now.mono;
        this.busy += spent;
        this.shard.net_mut().wake_posted(&mut |to| {
            let mut others = before.iter_mut().chain(&mut *after);
            let here = others.find(|held| held.shard.number() == to);
            here.map(|held| held.mail = true).is_some()
        });
        spent
    }

    /// Shards that have ended are held no longer; the others are waited for anew.
    fn let_ended_go(&mut self) {
        if !self.held.iter().any(|held| held.shard.is_stopped()) {
            return;
        }
        let mut stay = Vec::new();
        while !self.held.is_empty() {
            let shard = self.part(self.held.len() - 1);
            if shard.is_stopped() {
                self.end(shard, &mut stay);
            } else {
                stay.push(shard);
            }
        }
        self.exchange.set_awake(false);
        stay.sort_by_key(|shard| shard.number());
        stay.into_iter().for_each(|shard| self.hold(shard));
    }

    /// A shard has ended. With its own the thread loses the bell by which it is woken to take
    /// others: what came by now it still has.
    fn end(&mut self, shard: Box<Shard<N, H>>, stay: &mut Vec<Box<Shard<N, H>>>) {
        if shard.number().0 == self.number {
            stay.append(&mut self.exchange.close(usize::from(self.number)));
        }
        self.exchange.ended();
        self.ended.push(shard);
    }

    /// Hands shards over where this thread is busy, and gives them back where it is not.
    fn balance(&mut self, busy: Duration) {
        let held = &self.held;
        let reading = self.meter.note(self.now, busy, || moved(held));
        if reading.is_busy && self.held.len() > 1 {
            let busy: Vec<Duration> = self.held.iter().map(|held| held.busy).collect();
            let going = load::half(&busy).into_iter().map(|at| self.held[at].shard.number());
            return self.hand_over(&going.collect::<Vec<_>>());
        }
        if reading.is_short_over {
            self.held.iter_mut().for_each(|held| held.busy /= 2);
        }
        let Some(long) = reading.long else { return };
        if self.number == 0 {
            return self.exchange.tell_first(Some(long));
        }
        let mut held = self.held.iter();
        let are_small = held.all(|held| held.shard.connections() <= NESTED_CONNECTIONS_MAX);
        if are_small && (self.exchange.reserve(long.permille) || self.begins_trial(long)) {
            self.give_back();
        }
    }

    /// Whether it is time to see if the first thread does as much alone.
    fn begins_trial(&mut self, long: WindowReading) -> bool {
        let begins =
            self.trials.is_time(self.now) && self.exchange.begin_trial(long.bytes_a_second);
        if begins {
            self.trials.begins(self.now);
        }
        begins
    }
}

/// Bytes that shards have moved since their beginning.
fn moved<N, S, H>(held: &[Held<N, H>]) -> u64
where
    H: ShardLogic,
    N: NestedWait<Socket = S, Message = ShardMessageOf<H, S>>,
    S: Send,
{
    let of = |held: &Held<N, H>| {
        let counters = &held.shard.handle().counters;
        counters.of(ProcessCounter::BytesIn) + counters.of(ProcessCounter::BytesOut)
    };
    held.iter().map(of).sum()
}

/// A thread that panics takes its shards with it: the others must not wait for them.
impl<N: NestedWait, H: ShardLogic> Drop for Executor<N, H> {
    fn drop(&mut self) {
        let lost = self.exchange.close(usize::from(self.number)).len() + self.held.len();
        (0..lost).for_each(|_| self.exchange.ended());
    }
}

#[cfg(test)]
mod tests;

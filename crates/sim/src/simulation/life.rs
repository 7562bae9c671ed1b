//! A life of the server: its shards, the threads that run them, their mailboxes, and what is asked
//! of all of them.
//!
//! A life ends with a crash, and another one begins with the content of disk and directory. This
//! module decides nothing.

use super::{PostOf, ShardMessageFor, SimLogic, SimShard};
use crate::copies::{Keepers, SimNotice};
use crate::fabric::{Fabric, HostId};
use crate::net::SimNet;
use base::prng::Prng;
use base::time::{Instant, Now};
use model::id::ShardId;
use model::ports::presence::queries::PresenceStatus;
use model::presence::Principal;
use net::executor::exchange::ShardExchange;
use net::executor::load::GATHER_WINDOW;
use net::executor::{ExchangeOf, Executor};
use net::shard::{Census, ShardMessage};
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

/// A thread of a server.
type SimExecutor = Executor<SimNet<ShardMessageFor<SimLogic>>, SimLogic>;
/// The way by which its threads hand over shards.
type SimExchange = ExchangeOf<SimNet<ShardMessageFor<SimLogic>>, SimLogic>;

/// A server.
pub(crate) struct Server {
    /// Hosts of the shards, by their numbers.
    pub(crate) hosts: Vec<HostId>,
    threads: Vec<SimExecutor>,
    exchange: Arc<SimExchange>,
    /// Rounds between two moves of shards, on average.
    move_in: u64,
    /// Shards that each thread holds, and since when it was given no more.
    holds: Vec<(Vec<ShardId>, Instant)>,
    pub(super) moved: LoadMoves,
    fabric: Rc<RefCell<Fabric>>,
    pub(crate) post: PostOf<SimLogic>,
    pub(super) census: Arc<Census>,
}

/// Moves of shards that the load of a thread asked for.
#[derive(Clone, Copy, Default)]
pub(super) struct LoadMoves {
    /// Handed over by the first thread or another one that was busy.
    pub(super) handed_over: u64,
    /// Given back to the first, which could do it as well.
    pub(super) given_back: u64,
}

/// Words that found no room, and the shards of those that did.
type Told = (VecDeque<(ShardId, SimNotice)>, BTreeSet<ShardId>);

impl Server {
    /// A server whose first thread runs all shards; `seed` says who runs where later on.
    pub(super) fn new(
        (shards, hosts): (Vec<Box<SimShard<SimLogic>>>, Vec<HostId>),
        post: PostOf<SimLogic>,
        census: Arc<Census>,
        fabric: Rc<RefCell<Fabric>>,
        move_in: u64,
    ) -> Server {
        let exchange = ShardExchange::new(shards, Arc::default());
        let threads = (0..hosts.len() as u16).map(|at| Executor::new(at, exchange.clone()));
        let threads = threads.collect();
        let holds = hosts.iter().map(|_| (Vec::new(), Instant::default())).collect();
        let moved = LoadMoves::default();
        let mut server =
            Server { hosts, threads, exchange, move_in, holds, moved, fabric, post, census };
        server.land();
        server
    }

    /// All shards, in no order.
    pub(crate) fn shards(&self) -> impl Iterator<Item = &SimShard<SimLogic>> {
        self.threads.iter().flat_map(Executor::shards)
    }

    /// The shard of this number. Panics when nobody has it, or more than one.
    pub(crate) fn shard(&self, number: ShardId) -> &SimShard<SimLogic> {
        let mut found = self.shards().filter(|shard| shard.number() == number);
        let shard = found.next().expect("a shard belongs to a thread");
        assert!(found.next().is_none(), "a shard belongs to one thread");
        shard
    }

    /// As [`shard`](Self::shard), mutable.
    pub(super) fn shard_mut(&mut self, number: ShardId) -> &mut SimShard<SimLogic> {
        let mut all = self.threads.iter_mut().flat_map(Executor::shards_mut);
        all.find(|shard| shard.number() == number).expect("a shard belongs to a thread")
    }

    /// Whether a shard still runs.
    pub(super) fn runs(&self) -> bool {
        self.shards().any(|shard| !shard.is_stopped())
    }

    /// A round of the thread that runs the shard of this host. Now and then shards move behind it,
    /// and while they are on their way other threads have rounds.
    pub(crate) fn round(&mut self, host: HostId, rng: &mut Prng) {
        let Some(at) = self.hosts.iter().position(|known| *known == host) else { return };
        let number = ShardId(at as u16);
        let runs = |thread: &SimExecutor| thread.shards().any(|shard| shard.number() == number);
        let thread = self.threads.iter().position(runs).expect("a shard belongs to a thread");
        self.round_of(thread);
        if self.move_in != 0 && rng.one_in(self.move_in) {
            for _ in 0..=rng.below(2) {
                self.shift(rng);
                let other = rng.below(self.threads.len() as u64) as usize;
                self.round_of(other);
            }
        }
        self.land();
    }

    /// Shards move between threads, as the seed has it.
    fn shift(&mut self, rng: &mut Prng) {
        let thread = rng.below(self.threads.len() as u64) as usize;
        let thread = &mut self.threads[thread];
        if rng.one_in(3) {
            return thread.give_back();
        }
        let numbers = thread.shards().map(|shard| shard.number());
        let going: Vec<ShardId> = numbers.filter(|_| rng.one_in(2)).collect();
        thread.hand_over(&going);
    }

    fn round_of(&mut self, at: usize) {
        let before: Vec<ShardId> = self.stopped(at);
        let now = self.fabric.borrow().now().mono;
        self.note_held(at, now);
        let acted = self.threads[at].round();
        if self.stopped(at).len() == before.len() {
            self.note_move(at);
        }
        self.note_held(at, now);
        let mut fabric = self.fabric.borrow_mut();
        for number in self.stopped(at).into_iter().filter(|number| !before.contains(number)) {
            fabric.retire(self.hosts[usize::from(number.0)]);
        }
        drop(fabric);
        if acted {
            self.stir(at);
        }
    }

    /// Like a shard that has acted, a thread does not sleep before it has looked again.
    fn stir(&mut self, at: usize) {
        if let Some(first) = self.threads[at].first() {
            self.fabric.borrow_mut().stir(self.hosts[usize::from(first.0)]);
        }
    }

    /// Notes the shards that a thread holds, and whether it was given more by `now`.
    fn note_held(&mut self, at: usize, now: Instant) {
        let held: Vec<ShardId> = self.threads[at].shards().map(|shard| shard.number()).collect();
        let (before, since) = &mut self.holds[at];
        if held.iter().any(|shard| !before.contains(shard)) {
            *since = now;
        }
        *before = held;
    }

    /// Whether a thread let shards go in its round, which is what its load asked for. A shard that
    /// came to another thread than the first stays for a while, whatever there is to do.
    fn note_move(&mut self, at: usize) {
        let (before, since) = &self.holds[at];
        let stays =
            |number: &ShardId| self.threads[at].shards().any(|shard| shard.number() == *number);
        match before.iter().filter(|number| stays(number)).count() {
            all if all == before.len() => {}
            0 => {
                let stayed = self.fabric.borrow().now().mono - *since;
                assert!(stayed >= GATHER_WINDOW, "given back after {stayed:?} by thread {at}");
                self.moved.given_back += 1;
            }
            _ => self.moved.handed_over += 1,
        }
    }

    fn stopped(&self, at: usize) -> Vec<ShardId> {
        let ended = self.threads[at].shards().filter(|shard| shard.is_stopped());
        ended.map(|shard| shard.number()).collect()
    }

    /// Has shards on their way arrive.
    fn land(&mut self) {
        while let Some(at) = (0..self.threads.len()).find(|&at| self.exchange.is_filled(at)) {
            self.threads[at].take_in();
            let now = self.fabric.borrow().now().mono;
            self.note_held(at, now);
            self.stir(at);
        }
    }

    /// Tells shards what the replicator has for them.
    pub(crate) fn tell(&mut self, words: VecDeque<(ShardId, SimNotice)>) -> Told {
        let (mut left, mut told, mut full) = (VecDeque::new(), BTreeSet::new(), BTreeSet::new());
        for (shard, word) in words {
            let shard_message = ShardMessage::Mail(word.clone().mail());
            if full.contains(&shard)
                || self.post.borrow_mut().put(None, shard, shard_message).is_err()
            {
                full.insert(shard);
                left.push_back((shard, word));
            } else {
                told.insert(shard);
            }
        }
        (left, told)
    }

    /// Status of these principals, for those that hubs and brokers know.
    pub(crate) fn online(
        &self,
        now: Now,
        who: impl Iterator<Item = Principal>,
    ) -> Vec<PresenceStatus> {
        let find = |who: &Principal, shard: &SimShard<SimLogic>| shard.logic().find(now, who);
        let found = who.filter_map(|who| self.shards().find_map(|shard| find(&who, shard)));
        found.filter(|found| found.state.is_online()).collect()
    }

    /// Presence trackers of all shards.
    pub(crate) fn trackers(&self) -> Keepers<'_> {
        let mut all: Vec<_> = self.shards().collect();
        all.sort_by_key(|shard| shard.number());
        Keepers(all.into_iter().map(|shard| shard.logic().shard_presence().tracker()).collect())
    }
}

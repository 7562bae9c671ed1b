//! Two threads that hand a shard to and fro, interleaved in every way that matters.
//!
//! The network is made up: mailboxes with bells that ring on an edge, as the real ones do. Whenever
//! an executor touches what others touch too, another thread may go first: somebody outside posts
//! or rings, or the other executor has a round or hands its shards over. A thread that has gone to
//! sleep has a round only when the kernel would wake it.

use super::exchange::AwakeThreads;
use super::*;
use crate::logic::mute::Mute;
use crate::logic::{ConnectionOrigin, DialAddress, ShardHandle};
use crate::shard::{Settings, ShardMessage};
use crate::transport::{Accepted, Got, Net};
use base::hash::HashKey;
use model::close::CloseReason;
use model::id::ConnRef;
use model::link::{Link, WireProfile};
use std::cell::{Cell, RefCell};
use std::io::IoSlice;
use std::net::IpAddr;
use std::rc::Rc;

mod busy;

/// Sends mail of a number on to the other shard, one less, until it is none. 100 ends the shard.
/// Each takes its time.
struct Relay {
    world: Rc<World>,
    number: u16,
    heard: usize,
}

impl ShardLogic for Relay {
    type Machine = Mute;
    type Mail = u32;
    const WIRES: &'static [WireProfile] = &crate::wires::WIRES;

    fn machine(&mut self, _: Now, _: &Link, _: ConnectionOrigin) -> Option<Mute> {
        None
    }

    fn word(&mut self, _: Now, _: ConnRef, (): (), _: &mut ShardHandle<Self>) {}

    fn mail(&mut self, _: Now, mail: u32, handle: &mut ShardHandle<Self>) {
        self.heard += 1;
        self.world.pass(self.world.mail_us.get());
        match mail {
            100 => handle.stop(),
            0 => {}
            hops => handle.post(ShardId(1 - self.number), hops - 1),
        }
    }

    fn turn(&mut self, _: Now, _: &mut ShardHandle<Self>) -> Option<Instant> {
        None
    }

    fn undelivered(&mut self, _: Now, _: ConnRef, (): (), _: &mut ShardHandle<Self>) {}
}

type RelayMessage = ShardMessageOf<Relay, u32>;
type RelayExecutor = Executor<Wire, Relay>;

/// A mailbox and its bell.
#[derive(Default)]
struct Letterbox {
    messages: Vec<RelayMessage>,
    rung: bool,
    /// The poller has not told of the last ring.
    edge: bool,
}

/// Step of a thread, between two steps of another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Put(u16),
    Ring(u16),
    Round(usize),
    HandOver,
    GiveBack,
}

#[derive(Default)]
struct World {
    boxes: [RefCell<Letterbox>; 2],
    threads: RefCell<Vec<Rc<RefCell<RelayExecutor>>>>,
    /// Threads that have found nothing to do.
    asleep: [Cell<bool>; 2],
    touches: Cell<usize>,
    steps: RefCell<Vec<(usize, Step)>>,
    /// Bells that were rung by writing to them.
    rings: Cell<usize>,
    posted: Cell<usize>,
    nests: Cell<bool>,
    /// The clock.
    us: Cell<u64>,
    /// Time that a message takes.
    mail_us: Cell<u64>,
    /// When who waits at a shard's network wants to be woken, whatever comes.
    deadlines: [Cell<Option<Instant>>; 2],
}

impl World {
    fn new(nests: bool) -> Rc<World> {
        let world = Rc::new(World::default());
        world.nests.set(nests);
        let shard = |number| {
            let settings = Settings {
                shard: ShardId(number),
                shards: 2,
                hash_key: HashKey::new(1, 2),
                limits: Arc::default(),
                doors: Vec::new(),
                census: Arc::default(),
                seed: 1,
                secrets: [1; 32],
            };
            let net = Wire { world: world.clone(), number, posted: Vec::new(), nested: Vec::new() };
            Box::new(Shard::new(settings, net, Relay { world: world.clone(), number, heard: 0 }))
        };
        let exchange = ShardExchange::new(vec![shard(0), shard(1)], Arc::<AwakeThreads>::default());
        let thread = |number| Rc::new(RefCell::new(Executor::new(number, exchange.clone())));
        *world.threads.borrow_mut() = vec![thread(0), thread(1)];
        world
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.us.get() * 1_000)
    }

    fn pass(&self, us: u64) {
        self.us.set(self.us.get() + us);
    }

    fn ring(&self, shard: u16) {
        let mut mailbox = self.boxes[usize::from(shard)].borrow_mut();
        if !mailbox.rung {
            self.rings.set(self.rings.get() + 1);
            (mailbox.rung, mailbox.edge) = (true, true);
        }
    }

    /// Another thread may go first here.
    fn touch(&self) {
        self.touches.set(self.touches.get() + 1);
        let due = |step: &mut (usize, Step)| step.0 <= self.touches.get();
        let steps: Vec<(usize, Step)> = self.steps.borrow_mut().extract_if(.., due).collect();
        steps.into_iter().for_each(|(_, step)| self.take(step));
    }

    fn take(&self, step: Step) {
        let thread = |at: usize| self.threads.borrow()[at].clone();
        match step {
            Step::Put(shard) => {
                self.posted.set(self.posted.get() + 4);
                let mut mailbox = self.boxes[usize::from(shard)].borrow_mut();
                mailbox.messages.push(ShardMessage::Mail(3));
            }
            Step::Ring(shard) => self.ring(shard),
            Step::Round(at) => {
                // One that is in the middle of its own waits for nobody, and is waited for.
                if (!self.asleep[at].get() || self.is_woken(at))
                    && let Ok(mut thread) = thread(at).try_borrow_mut()
                {
                    self.asleep[at].set(!thread.round());
                }
            }
            Step::HandOver => {
                if let Ok(mut first) = thread(0).try_borrow_mut() {
                    first.hand_over(&[ShardId(1)]);
                }
            }
            Step::GiveBack => {
                if let Ok(mut second) = thread(1).try_borrow_mut() {
                    second.give_back();
                }
            }
        }
    }

    /// Whether the kernel would wake this thread: by a bell of what it waits for, since its time is
    /// over, or in its inbox.
    fn is_woken(&self, at: usize) -> bool {
        let thread = self.threads.borrow()[at].clone();
        let Ok(thread) = thread.try_borrow() else { return false };
        let waited = thread.held.first().map(|first| {
            let net = first.shard.net();
            net.nested.iter().copied().chain([net.number]).collect::<Vec<_>>()
        });
        match waited {
            Some(waited) => {
                let first = thread.held[0].shard.net().number;
                let deadline = self.deadlines[usize::from(first)].get();
                deadline.is_some_and(|deadline| deadline <= self.now())
                    || waited.iter().any(|&it| self.boxes[usize::from(it)].borrow().edge)
            }
            None => thread.exchange.is_filled(at),
        }
    }

    /// Rounds until all threads sleep.
    fn rest(&self) {
        for _ in 0..1_000 {
            (0..2).for_each(|at| self.take(Step::Round(at)));
            if (0..2).all(|at| self.asleep[at].get() && !self.is_woken(at)) {
                return;
            }
        }
        panic!("the threads do not come to rest");
    }

    fn heard(&self) -> usize {
        let threads = self.threads.borrow();
        let heard = |thread: &Rc<RefCell<RelayExecutor>>| {
            thread.borrow().shards().map(|shard| shard.logic().heard).sum::<usize>()
        };
        threads.iter().map(heard).sum()
    }

    fn held(&self) -> [Vec<u16>; 2] {
        let threads = self.threads.borrow();
        [0, 1].map(|at: usize| {
            threads[at].borrow().held.iter().map(|held| held.shard.number().0).collect()
        })
    }
}

/// A shard's view of the world.
struct Wire {
    world: Rc<World>,
    number: u16,
    posted: Vec<ShardId>,
    nested: Vec<u16>,
}

impl Wire {
    fn look(&self, ready: &mut Vec<ReadyEvent>) {
        let edge = |number: u16| &self.world.boxes[usize::from(number)];
        if std::mem::take(&mut edge(self.number).borrow_mut().edge) {
            ready.push(ReadyEvent::Mailbox);
        }
        let nested = self.nested.iter().filter(|&&number| edge(number).borrow().edge);
        ready.extend(nested.map(|&number| ReadyEvent::Nested(ShardId(number))));
    }
}

impl Net for Wire {
    type Socket = u32;
    type Message = RelayMessage;

    fn now(&mut self) -> Now {
        Now::new(self.world.now(), 0)
    }

    fn mono(&mut self) -> Instant {
        self.world.now()
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<ReadyEvent>) {
        let deadline = timeout.map(|timeout| self.world.now() + timeout);
        self.world.deadlines[usize::from(self.number)].set(deadline);
        self.world.touch();
        self.look(ready);
        self.world.touch();
    }

    fn accept(&mut self, _: u8) -> Accepted<u32> {
        Accepted::Nobody
    }

    fn stop_listening(&mut self) {}

    fn dial(&mut self, _: &DialAddress, _: Option<IpAddr>) -> Result<u32, CloseReason> {
        Err(CloseReason::ConnectFailed)
    }

    fn dialled(&mut self, _: &u32) -> Result<(), CloseReason> {
        Ok(())
    }

    fn adopt(&mut self, _: &u32, _: u64) -> Result<(), CloseReason> {
        Ok(())
    }

    fn release(&mut self, _: &u32) {}

    fn receive(&mut self, _: &u32, _: &mut [u8]) -> Got {
        Got::Later
    }

    fn send(&mut self, _: &u32, _: &[IoSlice<'_>]) -> Got {
        Got::Later
    }

    fn close(&mut self, _: u32, _: bool) {}

    fn post(&mut self, to: ShardId, message: RelayMessage) -> Result<(), RelayMessage> {
        self.world.touch();
        self.world.boxes[usize::from(to.0)].borrow_mut().messages.push(message);
        self.posted.push(to);
        self.world.touch();
        Ok(())
    }

    fn wake_posted(&mut self, is_here: &mut dyn FnMut(ShardId) -> bool) {
        for to in self.posted.drain(..) {
            self.world.touch();
            if !is_here(to) {
                self.world.touch();
                self.world.ring(to.0);
            }
        }
    }

    fn shard_messages(&mut self, into: &mut Vec<RelayMessage>) {
        self.world.touch();
        self.world.boxes[usize::from(self.number)].borrow_mut().rung = false;
        self.world.touch();
        into.append(&mut self.world.boxes[usize::from(self.number)].borrow_mut().messages);
        self.world.touch();
    }
}

impl NestedWait for Wire {
    fn poll(&mut self, ready: &mut Vec<ReadyEvent>) -> bool {
        self.world.touch();
        self.look(ready);
        false
    }

    fn nest(&mut self, other: &Self) -> bool {
        self.world.touch();
        if self.world.nests.get() {
            self.nested.push(other.number);
        }
        self.world.nests.get()
    }

    fn unnest(&mut self, other: &Self) {
        self.world.touch();
        self.nested.retain(|&number| number != other.number);
    }

    fn wake(&mut self, shard: ShardId) {
        self.world.ring(shard.0);
    }
}

/// The steps of every interleaving: shards talk, one is handed over, they talk on, it comes back,
/// they talk.
const STORY: [Step; 17] = [
    Step::Round(0),
    Step::Put(0),
    Step::Ring(0),
    Step::Round(0),
    Step::Put(1),
    Step::Ring(1),
    Step::HandOver,
    Step::Round(1),
    Step::Round(0),
    Step::Put(0),
    Step::Ring(0),
    Step::Round(0),
    Step::Round(1),
    Step::GiveBack,
    Step::Round(0),
    Step::Round(1),
    Step::Round(0),
];

/// Runs the story with these steps in between; gives how many places for a step it had.
fn tell(steps: &[(usize, Step)]) -> usize {
    let world = World::new(true);
    *world.steps.borrow_mut() = steps.to_vec();
    STORY.into_iter().for_each(|step| world.take(step));
    let touches = world.touches.get();
    // What has not had its moment has it now.
    world.touches.set(usize::MAX - 1_000_000);
    world.touch();
    world.rest();
    let waiting = world.boxes.iter().map(|mailbox| mailbox.borrow().messages.len()).sum::<usize>();
    assert_eq!(waiting, 0, "a shard sleeps with mail: {steps:?}");
    assert_eq!(world.heard(), world.posted.get(), "{steps:?}");
    let held = world.held().concat().len();
    assert_eq!(held, 2, "each shard is run by one thread: {steps:?}");
    touches
}

#[test]
fn no_shard_sleeps_with_mail_however_threads_interleave() {
    let places = tell(&[]);
    assert!(places > 50, "{places}");
    let others = [Step::Round(0), Step::Round(1), Step::HandOver, Step::GiveBack];
    for shard in [0, 1] {
        for put in 1..=places {
            for ring in put..=put + 6 {
                for (other, step) in (put..=ring).flat_map(|at| others.map(|step| (at, step))) {
                    let (put, ring) = ((put, Step::Put(shard)), (ring, Step::Ring(shard)));
                    tell(&[put, (other, step), ring]);
                    tell(&[(other, step), put, ring]);
                }
            }
        }
    }
}

#[test]
fn two_moves_at_any_two_moments_leave_each_shard_with_one_thread() {
    let places = tell(&[]);
    for one in 1..=places {
        for other in one..=places {
            tell(&[(one, Step::HandOver), (other, Step::GiveBack)]);
            tell(&[(one, Step::GiveBack), (other, Step::HandOver)]);
            tell(&[(one, Step::HandOver), (one, Step::Round(1)), (other, Step::Round(1))]);
        }
    }
}

#[test]
fn mail_within_a_thread_rings_no_bell() {
    let world = World::new(true);
    world.rest();
    assert_eq!(world.held(), [vec![0, 1], vec![]], "the first thread runs all");
    [Step::Put(0), Step::Ring(0)].into_iter().for_each(|step| world.take(step));
    world.rest();
    assert_eq!((world.heard(), world.rings.get()), (4, 1), "but for the one from outside");
    world.take(Step::HandOver);
    world.rest();
    assert_eq!(world.held(), [vec![0], vec![1]]);
    [Step::Put(0), Step::Ring(0)].into_iter().for_each(|step| world.take(step));
    world.rest();
    assert_eq!((world.heard(), world.rings.get()), (8, 5), "each of the three is rung for");
}

#[test]
fn a_shard_that_cannot_be_waited_for_with_others_goes_home() {
    let world = World::new(false);
    world.rest();
    assert_eq!(world.held(), [vec![0], vec![1]]);
    world.take(Step::GiveBack);
    world.rest();
    assert_eq!(world.held(), [vec![0], vec![1]], "there and back");
    [Step::Put(1), Step::Ring(1)].into_iter().for_each(|step| world.take(step));
    world.rest();
    assert_eq!(world.heard(), 4);
}

#[test]
fn a_thread_whose_own_shard_has_ended_takes_no_others_and_runs_those_it_has() {
    let end = |world: &World, shard: usize| {
        world.boxes[shard].borrow_mut().messages.push(ShardMessage::Mail(100));
        world.ring(shard as u16);
        world.rest();
    };
    let (alone, apart) = (World::new(true), World::new(true));
    alone.rest();
    end(&alone, 0);
    assert_eq!(alone.held(), [vec![1], vec![]], "it goes on with the other");
    [Step::Put(1), Step::Ring(1)].into_iter().for_each(|step| alone.take(step));
    alone.rest();
    assert_eq!(alone.heard(), 2, "its end, and one of four: the second went to who is gone");
    end(&alone, 1);
    apart.rest();
    apart.take(Step::HandOver);
    apart.rest();
    end(&apart, 0);
    apart.take(Step::GiveBack);
    apart.rest();
    assert_eq!(apart.held(), [vec![], vec![1]], "it is not taken");
    end(&apart, 1);
    for world in [alone, apart] {
        assert_eq!(world.held(), [vec![], vec![]]);
        let threads = world.threads.borrow();
        assert!((0..2).all(|at| !threads[at].borrow().exchange.park(at)), "all are told to end");
        assert_eq!(threads[0].borrow().exchange.awake(), 0);
    }
}

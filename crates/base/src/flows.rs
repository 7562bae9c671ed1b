//! Flows: straight-line functions that wait for answers, without a thread, a clock or a runtime.
//!
//! ```text
//! begin ─► ready ─► resumed: the owner lends its state ─► runs to its next wait: the state is back
//!            ▲                                                                      │
//!            └──────────────── reply, under the key of the wait ◄───────────────────┘
//! ```
//! A flow is an `async fn` that reaches the state of its owner by a [`FlowHandle`]. The owner asks
//! the outside for whatever a flow waits for, under a [`WaitKey`], and hands the answer to
//! [`Flows::reply`]; [`run`] resumes what is ready. The state moves into the flow and out of it
//! again as a box, through a place of the thread that resumes it, so a borrow of it cannot outlive
//! a wait. Nothing here knows what is asked, or of whom.
//!
//! Invariants: one flow at a time has the state, and from one wait to the next nobody else has it;
//! flows are resumed in the order of their replies; a wait is answered once, and later answers to
//! it are dropped.

use crate::time::Instant;
use std::any::Any;
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Deadlines of waits that are over are dropped when there are so many more of them than flows.
const STALE_DEADLINES_MAX: usize = 64;

type Flow = Pin<Box<dyn Future<Output = ()> + Send>>;

/// State that flows share.
pub trait FlowState: Sized + 'static {
    /// Answers that its flows wait for.
    type Reply;

    /// Its flows.
    fn flows(&mut self) -> &mut Flows<Self>;

    /// A flow has run to its next wait, or to its end.
    fn paused(&mut self);
}

/// The name of one wait of one flow, as a number that is given once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WaitKey(u64);

impl WaitKey {
    /// The key of no wait: replies to it are dropped.
    pub const NONE: WaitKey = WaitKey(0);

    fn new(slot: u32, turn: u32) -> WaitKey {
        WaitKey(u64::from(turn) << 32 | u64::from(slot))
    }

    /// The number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The key with this number.
    pub const fn of_number(number: u64) -> WaitKey {
        WaitKey(number)
    }

    fn slot(self) -> usize {
        self.0 as u32 as usize
    }

    fn turn(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

thread_local! {
    /// The state that is lent to the flow which is resumed on this thread, until that takes it, and
    /// again when it has given it back.
    static LENT: Cell<Option<Box<dyn Any>>> = const { Cell::new(None) };
}

fn lend<S: FlowState>(state: Box<S>) {
    LENT.set(Some(state));
}

fn take_lent<S: FlowState>() -> Box<S> {
    let state = LENT.take().and_then(|state| state.downcast().ok());
    state.expect("the state is lent while a flow is resumed, to one flow")
}

/// A flow's access to the state that flows share.
pub struct FlowHandle<S: FlowState> {
    slot: u32,
    state: Option<Box<S>>,
}

impl<S: FlowState> FlowHandle<S> {
    /// The state, until the next wait.
    pub fn state(&mut self) -> &mut S {
        self.state.get_or_insert_with(take_lent)
    }

    /// The key of the next wait.
    pub fn key(&mut self) -> WaitKey {
        let slot = self.slot;
        self.state().flows().key(slot)
    }

    /// The key of the next wait, which is for so many replies: [`FlowHandle::replies`].
    pub fn key_of_all(&mut self, count: usize) -> WaitKey {
        let slot = self.slot;
        self.state().flows().gather(slot, count);
        self.key()
    }

    /// Gives the state back until so many replies have come under one key
    /// ([`FlowHandle::key_of_all`]); returns them in the order in which they came.
    pub async fn replies(&mut self, count: usize) -> Vec<S::Reply> {
        if count == 0 {
            return Vec::new();
        }
        let last = self.reply().await;
        let slot = self.slot;
        let gathering = self.state().flows().gathering.remove(&slot);
        let mut all = gathering.map(|it| it.replies).unwrap_or_default();
        all.push(last);
        all
    }

    /// Gives the state back until the wait with this key is answered; at once, if it is already.
    pub fn reply(&mut self) -> Wait<'_, S> {
        Wait { handle: self, is_suspended: false }
    }

    fn give_back(&mut self) {
        if let Some(state) = self.state.take() {
            lend(state);
        }
    }
}

impl<S: FlowState> Drop for FlowHandle<S> {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// A wait for a reply.
pub struct Wait<'a, S: FlowState> {
    handle: &'a mut FlowHandle<S>,
    is_suspended: bool,
}

impl<S: FlowState> Future for Wait<'_, S> {
    type Output = S::Reply;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<S::Reply> {
        let Wait { handle, is_suspended } = &mut *self;
        if !*is_suspended {
            let slot = handle.slot;
            if let Some(reply) = handle.state().flows().take_reply(slot) {
                return Poll::Ready(reply);
            }
            *is_suspended = true;
            handle.give_back();
            return Poll::Pending;
        }
        let reply = handle.state().flows().current.take();
        Poll::Ready(reply.expect("a flow that waits is resumed with a reply"))
    }
}

/// A flow, or its place while it runs.
struct Slot {
    /// The number of the present wait, or of the next one, above 0.
    turn: u32,
    flow: Option<Flow>,
}

/// Replies to a wait for several.
struct Gathering<R> {
    /// The number of replies that do not end the wait.
    left: usize,
    replies: Vec<R>,
}

/// The flows of one owner.
pub struct Flows<S: FlowState> {
    slots: Vec<Slot>,
    free: Vec<u32>,
    most: usize,
    /// Flows to resume, with the reply; none: it begins.
    ready: VecDeque<(u32, Option<S::Reply>)>,
    /// The reply to the flow that is resumed, until that takes it.
    current: Option<S::Reply>,
    deadlines: BinaryHeap<Reverse<(Instant, WaitKey)>>,
    /// Waits for several replies, by the slots of their flows.
    gathering: BTreeMap<u32, Gathering<S::Reply>>,
}

impl<S: FlowState> Flows<S> {
    /// No flows, and later at most so many.
    pub fn new(most: usize) -> Flows<S> {
        Flows {
            slots: Vec::new(),
            free: Vec::new(),
            most,
            ready: VecDeque::new(),
            current: None,
            deadlines: BinaryHeap::new(),
            gathering: BTreeMap::new(),
        }
    }

    /// Flows under way.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether no flow is under way.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether no more may be begun.
    pub fn is_full(&self) -> bool {
        self.len() >= self.most
    }

    /// Whether [`run`] has something to do.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Begins a flow, which runs with the next [`run`]. False: there are as many as there may be.
    pub fn begin<F>(&mut self, flow: impl FnOnce(FlowHandle<S>) -> F) -> bool
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if self.is_full() {
            return false;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { turn: 1, flow: None });
            self.slots.len() as u32 - 1
        });
        let handle = FlowHandle { slot, state: None };
        self.slots[slot as usize].flow = Some(Box::pin(flow(handle)));
        self.ready.push_back((slot, None));
        true
    }

    /// Answers a wait. False: it is over already.
    pub fn reply(&mut self, key: WaitKey, reply: S::Reply) -> bool {
        if !self.is_open(key) {
            return false;
        }
        let gathering = self.gathering.get_mut(&(key.slot() as u32));
        if let Some(it) = gathering.filter(|it| it.left > 0) {
            it.left -= 1;
            it.replies.push(reply);
            return true;
        }
        self.end_wait(key.slot());
        self.ready.push_back((key.slot() as u32, Some(reply)));
        true
    }

    /// A wait ends at this time at the latest ([`Flows::expire`]).
    pub fn set_deadline(&mut self, key: WaitKey, at: Instant) {
        if self.deadlines.len() > 2 * self.len() + STALE_DEADLINES_MAX {
            let slots = &self.slots;
            self.deadlines.retain(|Reverse((_, key))| slots[key.slot()].turn == key.turn());
        }
        self.deadlines.push(Reverse((at, key)));
    }

    /// Answers the waits whose deadline has come; when the next one comes.
    pub fn expire(&mut self, now: Instant, late: impl Fn() -> S::Reply) -> Option<Instant> {
        while let Some(&Reverse((at, key))) = self.deadlines.peek() {
            if at > now && self.is_open(key) {
                return Some(at);
            }
            self.deadlines.pop();
            self.reply(key, late());
        }
        None
    }

    fn key(&self, slot: u32) -> WaitKey {
        WaitKey::new(slot, self.slots[slot as usize].turn)
    }

    fn gather(&mut self, slot: u32, count: usize) {
        if count > 1 {
            self.gathering.insert(slot, Gathering { left: count - 1, replies: Vec::new() });
        }
    }

    fn is_open(&self, key: WaitKey) -> bool {
        self.slots.get(key.slot()).is_some_and(|slot| slot.turn == key.turn())
    }

    fn end_wait(&mut self, slot: usize) {
        self.slots[slot].turn = self.slots[slot].turn.wrapping_add(1).max(1);
    }

    /// The answer to a wait of the flow that runs, if it came while the flow asked.
    fn take_reply(&mut self, slot: u32) -> Option<S::Reply> {
        let is_own = self.ready.back().is_some_and(|(of, reply)| *of == slot && reply.is_some());
        if is_own { self.ready.pop_back()?.1 } else { None }
    }
}

/// Resumes all flows that are ready, in order, and those that become so.
pub fn run<S: FlowState>(mut state: Box<S>) -> Box<S> {
    let mut context = Context::from_waker(Waker::noop());
    while let Some((slot, reply)) = state.flows().ready.pop_front() {
        let flows = state.flows();
        flows.current = reply;
        let flow = flows.slots[slot as usize].flow.take();
        let mut flow = flow.expect("a flow is ready at most once");
        lend(state);
        let is_over = flow.as_mut().poll(&mut context).is_ready();
        state = take_lent();
        let flows = state.flows();
        if is_over {
            flows.end_wait(slot as usize);
            flows.gathering.remove(&slot);
            flows.free.push(slot);
        } else {
            flows.slots[slot as usize].flow = Some(flow);
        }
        state.paused();
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Now;
    use std::sync::Arc;
    use std::time::Duration;

    /// A counter at which flows add up the answers that they get.
    struct Sum {
        flows: Flows<Sum>,
        asked: Vec<WaitKey>,
        told: Vec<(char, Option<u32>)>,
        pauses: usize,
    }

    impl FlowState for Sum {
        type Reply = Option<u32>;

        fn flows(&mut self) -> &mut Flows<Sum> {
            &mut self.flows
        }

        fn paused(&mut self) {
            self.pauses += 1;
        }
    }

    fn sum(most: usize) -> Box<Sum> {
        let (flows, asked, told) = (Flows::new(most), Vec::new(), Vec::new());
        Box::new(Sum { flows, asked, told, pauses: 0 })
    }

    async fn ask(sum: &mut FlowHandle<Sum>) -> Option<u32> {
        let key = sum.key();
        sum.state().asked.push(key);
        sum.reply().await
    }

    /// Adds two numbers, for which it asks one after the other.
    async fn add(mut sum: FlowHandle<Sum>, name: char) {
        let total = async {
            let first = ask(&mut sum).await?;
            Some(first + ask(&mut sum).await?)
        };
        let total = total.await;
        sum.state().told.push((name, total));
    }

    fn two() -> Box<Sum> {
        let mut sum = sum(2);
        assert!(sum.flows.begin(|sum| add(sum, 'a')) && sum.flows.begin(|sum| add(sum, 'b')));
        assert!(!sum.flows.begin(|sum| add(sum, 'c')), "there are as many as there may be");
        run(sum)
    }

    #[test]
    fn flows_go_on_in_the_order_of_their_replies() {
        let mut sum = two();
        let [a, b] = sum.asked[..] else { panic!("both ask") };
        assert!(sum.flows.reply(b, Some(1)) && sum.flows.reply(a, Some(2)));
        sum = run(sum);
        let [_, _, b, a] = sum.asked[..] else { panic!("both ask again") };
        assert!(sum.flows.reply(b, Some(10)) && sum.flows.reply(a, Some(20)));
        sum = run(sum);
        assert_eq!(sum.told, [('b', Some(11)), ('a', Some(22))]);
        assert_eq!((sum.flows.len(), sum.pauses), (0, 6));
    }

    #[test]
    fn a_wait_is_answered_once() {
        let mut sum = two();
        let [a, _] = sum.asked[..] else { panic!("both ask") };
        assert!(sum.flows.reply(a, Some(1)));
        assert!(!sum.flows.reply(a, Some(2)), "it is answered");
        sum = run(sum);
        assert!(!sum.flows.reply(a, Some(3)), "the flow waits for something else");
        let again = *sum.asked.last().expect("it asks again");
        sum.flows.reply(again, None);
        sum = run(sum);
        assert!(!sum.flows.reply(again, Some(4)), "the flow is over");
        assert!(sum.flows.begin(|sum| add(sum, 'c')));
        assert!(!sum.flows.reply(again, Some(5)), "its slot has another one");
        assert_eq!(WaitKey::of_number(a.number()), a);
        assert!(!sum.flows.reply(WaitKey::NONE, Some(6)), "no wait has this key");
    }

    #[test]
    fn a_reply_that_comes_while_a_flow_asks_does_not_pause_it() {
        let mut sum = sum(1);
        sum.flows.begin(|mut sum: FlowHandle<Sum>| async move {
            let key = sum.key();
            sum.state().flows.reply(key, Some(7));
            let told = sum.reply().await;
            sum.state().told.push(('a', told));
        });
        let sum = run(sum);
        assert_eq!((&sum.told[..], sum.pauses), (&[('a', Some(7))][..], 1));
    }

    #[test]
    fn a_wait_for_several_replies_ends_with_the_last_of_them() {
        let mut sum = sum(1);
        sum.flows.begin(|mut sum: FlowHandle<Sum>| async move {
            for count in [3, 0, 1] {
                let key = sum.key_of_all(count);
                sum.state().asked.push(key);
                if count == 3 {
                    sum.state().flows.reply(key, Some(1));
                }
                let all = sum.replies(count).await;
                sum.state().told.extend(all.into_iter().map(|it| ('a', it)));
            }
        });
        sum = run(sum);
        let key = sum.asked[0];
        assert!(sum.flows.reply(key, None));
        sum = run(sum);
        assert!(sum.told.is_empty(), "the third has not come");
        assert!(sum.flows.reply(key, Some(3)) && !sum.flows.reply(key, Some(4)));
        sum = run(sum);
        assert_eq!(sum.told, [('a', Some(1)), ('a', None), ('a', Some(3))]);
        let key = *sum.asked.last().expect("it asks again");
        assert!(sum.flows.reply(key, Some(5)));
        sum = run(sum);
        assert_eq!((sum.told.len(), sum.flows.len(), sum.flows.gathering.len()), (4, 0, 0));
    }

    #[test]
    fn a_wait_whose_deadline_comes_is_answered_and_deadlines_of_others_are_dropped() {
        let at = |ms| Now::default().after(Duration::from_millis(ms));
        let mut sum = two();
        let [a, b] = sum.asked[..] else { panic!("both ask") };
        sum.flows.set_deadline(a, at(10));
        sum.flows.set_deadline(b, at(20));
        assert_eq!(sum.flows.expire(at(9), || None), Some(at(10)));
        assert_eq!(sum.flows.expire(at(10), || None), Some(at(20)));
        sum = run(sum);
        assert_eq!(sum.told, [('a', None)]);
        (0..1_000).for_each(|ms| sum.flows.set_deadline(a, at(ms)));
        assert!(sum.flows.deadlines.len() < 2 * STALE_DEADLINES_MAX);
        assert_eq!(sum.flows.expire(at(15), || None), Some(at(20)), "b waits");
    }

    #[test]
    fn state_and_flows_may_change_threads_and_are_dropped_together() {
        let held = Arc::new(());
        let mut sum = two();
        let own = held.clone();
        let a = sum.asked[0];
        sum.flows.reply(a, None);
        let other = std::thread::Builder::new().name("other".into());
        sum = other.spawn(move || run(sum)).expect("it starts").join().expect("it runs");
        sum.flows.begin(|mut sum| async move {
            ask(&mut sum).await;
            drop(own);
        });
        sum = run(sum);
        assert_eq!((sum.told.len(), Arc::strong_count(&held)), (1, 2));
        drop(sum);
        assert_eq!(Arc::strong_count(&held), 1, "the flow is gone with its owner");
    }
}

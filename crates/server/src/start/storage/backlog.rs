//! The Reports that are queued for webhooks, on the logs of all shards.
//!
//! Couriers are threads that wait for their answers; the logs answer by [`HookBacklog::complete`].
//! Each webhook for Reports has one timeline per log, which its URL and product name: so webhooks
//! come and go without a change here. It knows no HTTP and of Reports only the hub's decoding.
//! Invariant: at most one call is open for each courier, and every call is answered, at the latest
//! after [`ANSWER`] and when the backlog is closed.

use base::hash::HashKey;
use model::id::{ProductKey, ShardId};
use model::ports::backlog::Backlog;
use model::ports::events::DeviceEvent;
use model::ports::log::{Call, Completion, Done, Page, Pull, Read, StoreError, TimelineStatus};
use model::ports::log::{Ticket, Write};
use model::timeline::{ReaderId, Seq, Space, TimelineId};
use model::{event, tell};
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Reports read at once; a batch of a webhook holds as many.
const PAGE_MESSAGES_MAX: usize = admin::BATCH_EVENTS_MAX;

/// Damaged Reports that are skipped in one pull. More wait for the next.
const DAMAGES_A_PULL_MAX: usize = 64;

/// Bytes of Reports read at once.
const PAGE_BYTES_MAX: usize = 4 << 20;

/// Reader of a webhook's timeline: its cursor is the last entry that the application has.
pub const READER: ReaderId = ReaderId(0);

/// How long a log's answer is waited for: beyond, the call counts as not carried out, and is made
/// again. Longer than any answer takes that will come.
pub const ANSWER: Duration = Duration::from_secs(60);

/// Hands calls to the log of a shard, together; false when it takes none of them now.
pub type Submit = Box<dyn Fn(ShardId, Vec<(Ticket, Call)>) -> bool + Send + Sync>;

/// The waiting Reports of all webhooks.
pub struct HookBacklog {
    submit: Submit,
    shards: u16,
    /// Names their timelines.
    home: HashKey,
    /// How long a log's answer is waited for.
    answer: Duration,
    state: Mutex<BacklogState>,
    /// Signals an answer, an append or the end.
    told: Condvar,
}

struct BacklogState {
    last_ticket: Ticket,
    /// Calls under way, and their answers until they are taken.
    calls: HashMap<Ticket, Option<Result<Done, StoreError>>>,
    /// Rises with each append, for whichever webhook.
    appends: u64,
    closed: bool,
}

/// The timeline of the Reports that wait for a webhook, on whichever log.
pub fn timeline(home: HashKey, url: &str, product: Option<&ProductKey>) -> TimelineId {
    let product = product.map_or("", ProductKey::as_str);
    TimelineId::of(Space::Reports, home, &[url.as_bytes(), product.as_bytes()])
}

impl HookBacklog {
    /// The backlog of the webhooks whose timelines are named by this key.
    pub fn new(shards: u16, home: HashKey, submit: Submit) -> HookBacklog {
        // Reports of an earlier start may wait.
        let (last_ticket, appends) = (0, 1);
        let state = BacklogState { last_ticket, calls: HashMap::new(), appends, closed: false };
        let (state, told) = (Mutex::new(state), Condvar::new());
        HookBacklog { submit, shards, home, answer: ANSWER, state, told }
    }

    /// Deletes the Reports of a webhook that was removed, on all shards. A webhook with the same
    /// URL and product that comes later is not told that it lost them: its cursor is behind them.
    /// To be called once no shard appends any more for it.
    pub fn forget(&self, timeline: TimelineId) -> Result<(), StoreError> {
        for shard in 0..self.shards {
            let upto = self.standing(timeline, shard)?.last;
            if upto > 0 {
                let known = Write::Acknowledge { timeline, reader: READER, upto };
                let calls = [Write::Forget(timeline), known].map(Call::Write);
                self.calls(shard, calls.into())?;
            }
        }
        Ok(())
    }

    /// A log has answered.
    pub fn complete(&self, completions: Vec<Completion>) {
        let mut state = self.lock();
        for (ticket, answer) in completions {
            // Nobody waits any more for what was given up at the close.
            if let Some(place) = state.calls.get_mut(&ticket) {
                *place = Some(answer);
            }
        }
        drop(state);
        self.told.notify_all();
    }

    /// Reports were appended for some webhook.
    pub fn appended(&self) {
        self.lock().appends += 1;
        self.told.notify_all();
    }

    /// Fails all waiting calls; no more calls are made.
    pub fn close(&self) {
        self.lock().closed = true;
        self.told.notify_all();
    }

    fn call(&self, shard: u16, call: Call) -> Result<Done, StoreError> {
        self.calls(shard, vec![call])
    }

    /// Hands calls over together. The answer of the last one, or the first error.
    fn calls(&self, shard: u16, calls: Vec<Call>) -> Result<Done, StoreError> {
        let mut state = self.lock();
        let first = state.last_ticket + 1;
        let calls: Vec<_> = (first..).zip(calls).collect();
        let tickets = first..first + calls.len() as Ticket;
        state.last_ticket = tickets.end - 1;
        state.calls.extend(tickets.clone().map(|ticket| (ticket, None)));
        drop(state);
        let taken = (self.submit)(ShardId(shard), calls);
        let is_open =
            |state: &BacklogState, ticket| state.calls.get(&ticket).is_some_and(Option::is_none);
        let waits = |state: &mut BacklogState| {
            taken && !state.closed && tickets.clone().any(|ticket| is_open(state, ticket))
        };
        let state = self.told.wait_timeout_while(self.lock(), self.answer, waits);
        let mut state = state.unwrap_or_else(PoisonError::into_inner).0;
        let answers = tickets.clone().map(|ticket| state.calls.remove(&ticket).flatten());
        let answers: Vec<_> = answers.collect();
        let each = |_, answer: Option<_>| answer.unwrap_or(Err(StoreError::Busy));
        answers.into_iter().try_fold(Done::Written, each)
    }

    fn page(
        &self,
        timeline: TimelineId,
        shard: u16,
        (from, count_max): (Seq, usize),
    ) -> Result<Page, StoreError> {
        let pull = Pull { timeline, from, backwards: false, count_max, bytes_max: PAGE_BYTES_MAX };
        match self.call(shard, Call::Read(Read::Pull(pull)))? {
            Done::Page(page) => Ok(page),
            _ => Err(StoreError::Damaged),
        }
    }

    fn standing(&self, timeline: TimelineId, shard: u16) -> Result<TimelineStatus, StoreError> {
        match self.call(shard, Call::Read(Read::Standing { timeline, reader: READER }))? {
            Done::Standing(standing) => Ok(standing),
            _ => Err(StoreError::Damaged),
        }
    }

    /// Locks the state. Nothing panics half way through a change of it.
    fn lock(&self) -> MutexGuard<'_, BacklogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backlog for HookBacklog {
    fn shards(&self) -> u16 {
        self.shards
    }

    fn timeline(&self, url: &str, product: Option<&ProductKey>) -> TimelineId {
        timeline(self.home, url, product)
    }

    fn pull(&self, timeline: TimelineId, shard: u16, after: Seq) -> Result<Page, StoreError> {
        for _ in 0..DAMAGES_A_PULL_MAX {
            let page = self.page(timeline, shard, (after, PAGE_MESSAGES_MAX))?;
            if page.damaged.is_empty() {
                return Ok(page);
            }
            // They would be in the way of all behind them. The courier sees the gap.
            let seqs = page.damaged.clone();
            tell!(event::REPORTS_UNREADABLE, shard, ?seqs);
            self.call(shard, Call::Write(Write::Remove { timeline, seqs }))?;
            if !page.messages.is_empty() {
                return Ok(page);
            }
        }
        Err(StoreError::Busy)
    }

    fn cursor(&self, timeline: TimelineId, shard: u16) -> Result<Seq, StoreError> {
        self.standing(timeline, shard).map(|standing| standing.cursor)
    }

    fn remove(
        &self,
        timeline: TimelineId,
        shard: u16,
        known: Seq,
        seqs: Vec<Seq>,
    ) -> Result<(), StoreError> {
        // A log carries writes out, and keeps them over a crash, in the order in which it got
        // them: a removal without the cursor before it would be told as a loss.
        let known = Write::Acknowledge { timeline, reader: READER, upto: known };
        let calls = [known, Write::Remove { timeline, seqs }].map(Call::Write);
        self.calls(shard, calls.into()).map(drop)
    }

    fn wait(&self, seen: u64, ms_max: u64) -> u64 {
        let quiet = |state: &mut BacklogState| !state.closed && state.appends == seen;
        let waited =
            self.told.wait_timeout_while(self.lock(), Duration::from_millis(ms_max), quiet);
        waited.unwrap_or_else(PoisonError::into_inner).0.appends
    }

    fn event(&self, body: &[u8]) -> Option<DeviceEvent> {
        hub::decode_event(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::timeline::{Message, Placed};
    use std::collections::BTreeSet;
    use std::sync::{Arc, OnceLock};

    fn home() -> HashKey {
        HashKey::new(1, 2)
    }

    fn hook() -> TimelineId {
        timeline(home(), "http://a/", None)
    }

    fn page(messages: Vec<Placed>, damaged: Vec<Seq>, more: bool) -> Page {
        Page { messages, damaged, more }
    }

    /// A backlog of one webhook whose log is `answer`, on a thread of its own if `later`.
    fn backlog(
        answer: impl Fn(Call) -> Option<Result<Done, StoreError>> + Send + Sync + 'static,
    ) -> Arc<HookBacklog> {
        let this: Arc<OnceLock<Arc<HookBacklog>>> = Arc::default();
        let told = this.clone();
        let submit = move |shard: ShardId, calls: Vec<(Ticket, Call)>| {
            let all = calls.into_iter().map(|(ticket, call)| Some((ticket, answer(call)?)));
            let Some(completions) = all.collect::<Option<Vec<_>>>() else { return false };
            let backlog = told.get().expect("set").clone();
            let life = move || {
                assert_eq!(shard, ShardId(1));
                completions.into_iter().for_each(|one| backlog.complete(vec![one]));
            };
            std::thread::Builder::new().spawn(life).is_ok()
        };
        let backlog = Arc::new(HookBacklog::new(2, home(), Box::new(submit)));
        this.set(backlog.clone()).unwrap_or_else(|_| unreachable!("set once"));
        backlog
    }

    #[test]
    fn a_call_waits_for_its_answer() {
        let backlog = backlog(|call| match call {
            Call::Read(_) => Some(Ok(Done::Page(page(Vec::new(), Vec::new(), true)))),
            Call::Write(Write::Remove { seqs, .. }) if seqs == [7] => Some(Ok(Done::Written)),
            Call::Write(Write::Acknowledge { upto: 6, .. }) => Some(Err(StoreError::Full)),
            Call::Write(Write::Acknowledge { .. }) => Some(Ok(Done::Written)),
            Call::Write(_) => None,
        });
        assert!(backlog.pull(hook(), 1, 0).is_ok_and(|page| page.more));
        assert_eq!(backlog.remove(hook(), 1, 7, vec![7]), Ok(()));
        assert_eq!(backlog.remove(hook(), 1, 6, vec![7]), Err(StoreError::Full), "the first error");
        assert_eq!(backlog.remove(hook(), 1, 8, vec![8]), Err(StoreError::Busy), "was not taken");
        assert!(backlog.lock().calls.is_empty());
    }

    #[test]
    fn a_log_that_does_not_answer_is_waited_for_so_long() {
        let mut backlog = HookBacklog::new(1, home(), Box::new(|_, _| true));
        backlog.answer = Duration::from_millis(1);
        assert_eq!(backlog.pull(hook(), 0, 0), Err(StoreError::Busy));
        assert!(backlog.lock().calls.is_empty());
        backlog.complete(vec![(1, Ok(Done::Written))]);
        assert!(backlog.lock().calls.is_empty(), "what comes later means nothing");
    }

    #[test]
    fn what_is_damaged_is_taken_off_and_the_rest_is_given() {
        let damaged = [1, 3, 4, 9];
        let left = Arc::new(Mutex::new((1..=9).collect::<BTreeSet<Seq>>()));
        let kept = left.clone();
        let backlog = backlog(move |call| {
            let mut left = kept.lock().expect("no panic");
            match call {
                Call::Read(Read::Pull(pull)) => {
                    let seqs = left.range(pull.from + 1..).take(pull.count_max).copied();
                    let (bad, seqs) = seqs.partition::<Vec<_>, _>(|seq| damaged.contains(seq));
                    let (id, at_s) = (0, 0);
                    let (label, body) = (Box::default(), Box::default());
                    let message = Arc::new(Message { id, at_s, label, body });
                    let placed = |seq| Placed { seq, message: message.clone() };
                    let messages = seqs.into_iter().map(placed).collect();
                    Some(Ok(Done::Page(page(messages, bad, false))))
                }
                Call::Read(_) => {
                    Some(Ok(Done::Standing(TimelineStatus { last: 9, ..Default::default() })))
                }
                Call::Write(Write::Remove { seqs, .. }) => {
                    seqs.iter().for_each(|seq| assert!(left.remove(seq)));
                    Some(Ok(Done::Written))
                }
                Call::Write(_) => None,
            }
        });
        let page = backlog.pull(hook(), 1, 0).expect("the rest");
        let seqs: Vec<_> = page.messages.iter().map(|placed| placed.seq).collect();
        assert_eq!(seqs, [2, 5, 6, 7, 8]);
        assert_eq!(left.lock().expect("no panic").len(), 5, "nothing else was taken off");
    }

    #[test]
    fn the_cursor_moves_before_what_was_taken_goes() {
        let writes: Arc<Mutex<Vec<Write>>> = Arc::default();
        let seen = writes.clone();
        let backlog = backlog(move |call| match call {
            Call::Read(_) => Some(Ok(Done::Standing(TimelineStatus {
                last: 9,
                cursor: 4,
                ..Default::default()
            }))),
            Call::Write(write) => {
                seen.lock().expect("no panic").push(write);
                Some(Ok(Done::Written))
            }
        });
        assert_eq!(backlog.cursor(hook(), 1), Ok(4));
        assert_eq!(backlog.remove(hook(), 1, 6, vec![5, 6]), Ok(()));
        let timeline = hook();
        let known = Write::Acknowledge { timeline, reader: READER, upto: 6 };
        let gone = Write::Remove { timeline, seqs: vec![5, 6] };
        assert_eq!(*writes.lock().expect("no panic"), [known, gone]);
    }

    #[test]
    fn news_is_told_once_to_each_and_a_close_ends_every_wait() {
        let backlog = backlog(|_| None);
        let seen = backlog.wait(0, 3_600_000);
        assert_ne!(seen, 0, "Reports may be there from before the start");
        assert_eq!(backlog.wait(seen, 0), seen, "nothing was appended");
        backlog.appended();
        let next = backlog.wait(seen, 3_600_000);
        assert_ne!(next, seen);
        assert_eq!(backlog.wait(seen, 3_600_000), next, "another courier hears of it, too");
        backlog.close();
        assert_eq!(backlog.wait(next, 3_600_000), next);
    }

    #[test]
    fn webhooks_of_one_address_differ_by_their_products() {
        let shop = ProductKey::parse("shop").expect("allowed");
        let ids = [None, Some(&shop)].map(|product| timeline(home(), "http://a/", product));
        assert!(ids[0] != ids[1] && ids[0].space() == Space::Reports);
    }
}

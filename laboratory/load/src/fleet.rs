//! A fleet of simulated clients on threads of its own.
//!
//! Each thread is one shard of `net` with its share of the virtual clients; nothing is shared on
//! their way. Callers ask by mailbox, and the threads' figures are merged here.

pub mod cause;
pub mod client;
pub mod effort;
mod logic;
pub mod pace;
pub mod plan;
pub mod pool;
pub mod shards;
pub mod snapshot;
pub mod source;
pub mod stamp;
pub mod target;
pub mod trust;
mod virtual_client;

use lab::order::Cut;
use lab::plan::{Arrival, Traffic};
use logic::{FleetLogic, Mail, Share};
use model::limits::{FRAME_BYTES_HARD_MAX, Limits, TopicLimits};
use model::ports::virtual_client::Action;
use net::descriptors;
use net::shard::ShardMessage;
use plan::{FleetPlan, check_arrival, check_traffic};
use shards::{ClientMailboxes, ClientShard};
use snapshot::Snapshot;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Snapshot that a thread leaves behind when it ends.
type Last = Arc<Mutex<Option<Snapshot>>>;

/// Time between two looks of [`Fleet::wait`].
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Time between two looks whether a thread that was asked has ended instead of answering.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Connections of a fleet, at most.
const CONNECTIONS_MAX: u32 = 1 << 24;

/// A fleet of simulated clients. Dropping it stops it.
pub struct Fleet {
    mailboxes: ClientMailboxes<FleetLogic>,
    threads: Vec<(JoinHandle<()>, Last)>,
    plan: Arc<FleetPlan>,
}

impl Fleet {
    /// Starts the plan. An error says what to change: the plan, or a limit of this machine.
    pub fn start(plan: FleetPlan) -> Result<Fleet, String> {
        plan.check()?;
        check_descriptors(u64::from(plan.count), descriptors::raise())?;
        let (began, origin_us) = (instant(), stamp::machine_us());
        let shared = plan.hearing.is_shared.then(Arc::<Mutex<logic::Lately>>::default);
        let plan = Arc::new(plan);
        let logics = (0..plan.threads).map(|thread| {
            let share = Share { origin_us, shared: shared.clone() };
            FleetLogic::new(plan.clone(), thread, share)
        });
        let made = shards::shards(logics, limits(&plan), plan.seed, began, true)?;
        let mut fleet = Fleet { mailboxes: made.0, threads: Vec::new(), plan };
        for (thread, shard) in made.1.into_iter().enumerate() {
            let last = Last::default();
            let left = last.clone();
            let builder = std::thread::Builder::new().name(format!("pilots-{thread}"));
            let handle = builder.spawn(move || fly(shard, &clock_since(began), &left));
            fleet.threads.push((handle.map_err(shards::failed)?, last));
        }
        if !fleet.plan.traffic.is_empty() {
            fleet.post_all(|| Mail::Traffic(fleet.plan.traffic.clone().into()));
        }
        if fleet.plan.count > 0 {
            let (count, arrival) = (fleet.plan.count, fleet.plan.arrival);
            fleet.arrive(count, arrival, fleet.plan.sources.clone())?;
        }
        Ok(fleet)
    }

    /// Has so many clients there in all: more are called up in this manner, from these addresses in
    /// turn (none: the kernel chooses); of too many the last ones say farewell.
    pub fn arrive(
        &self,
        clients: u32,
        arrival: Arrival,
        sources: Vec<IpAddr>,
    ) -> Result<(), String> {
        check_arrival(&arrival)?;
        if self.plan.first_number.checked_add(clients).is_none() || clients > CONNECTIONS_MAX {
            return Err(format!("{clients} clients are too many for a group"));
        }
        let sources: Arc<[IpAddr]> = sources.into();
        self.post_all(|| Mail::Arrive(clients, arrival, sources.clone()));
        Ok(())
    }

    /// Sends this from now on, and nothing that was sent before.
    pub fn send_from_now_on(&self, traffic: &[Traffic]) -> Result<(), String> {
        check_traffic(traffic, &self.plan.profile)?;
        let traffic: Arc<[Traffic]> = traffic.into();
        self.post_all(|| Mail::Traffic(traffic.clone()));
        Ok(())
    }

    /// Has so large a share of those online go through this at once.
    pub fn cut(&self, share: f64, how: Cut) {
        self.post_all(|| Mail::Cut(share, how));
    }

    /// Cuts this share of the clients online each second, which come back at once.
    pub fn flap(&self, share_per_s: f64) {
        self.post_all(|| Mail::Flap(share_per_s));
    }

    /// The fleet's snapshot so far. Each thread answers between two of its turns.
    pub fn snapshot(&self) -> Snapshot {
        let mut asked = Vec::new();
        for thread in 0..self.threads.len() {
            let (to, answer) = sync_channel(1);
            self.post(thread, Mail::Show(to));
            asked.push(answer);
        }
        let mut all = Snapshot::default();
        for ((handle, last), answer) in self.threads.iter().zip(asked) {
            let seen = loop {
                match answer.recv_timeout(ASK_AGAIN) {
                    Ok(seen) => break *seen,
                    Err(RecvTimeoutError::Timeout) if !handle.is_finished() => {}
                    Err(_) => break left_behind(last),
                }
            };
            all.merge(&seen);
        }
        all
    }

    /// Waits until a snapshot satisfies `until`; false when `deadline` has passed before. Looks
    /// fifty times a second.
    pub fn wait(&self, until: impl Fn(&Snapshot) -> bool, deadline: Duration) -> bool {
        let began = instant();
        loop {
            if until(&self.snapshot()) {
                return true;
            }
            let left = deadline.saturating_sub(instant() - began);
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }

    /// Has the online clients with these numbers do something, in one turn of each thread. A
    /// heartbeat is left out where one is under way; a client that says farewell stays away.
    pub fn send(&self, numbers: Range<u32>, action: Action) {
        self.post_all(|| Mail::Act(numbers.clone(), action.clone()));
    }

    /// Ends all connections and threads. Connections that were open count as `run_over`.
    pub fn stop(mut self) -> Snapshot {
        self.end()
    }

    fn end(&mut self) -> Snapshot {
        self.post_all(|| Mail::Stop);
        let mut all = Snapshot::default();
        for (handle, last) in self.threads.drain(..) {
            // A thread that broke off left nothing, which is counted.
            let _ = handle.join();
            all.merge(&left_behind(&last));
        }
        all
    }

    fn post_all(&self, mail: impl Fn() -> Mail) {
        (0..self.threads.len()).for_each(|thread| self.post(thread, mail()));
    }

    fn post(&self, thread: usize, mail: Mail) {
        let is_over = || self.threads[thread].0.is_finished();
        self.mailboxes[thread].insist(ShardMessage::Mail(mail), is_over);
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.end();
    }
}

/// Checks that so many connections fit under a descriptor limit.
pub fn check_descriptors(connections: u64, limit: u64) -> Result<(), String> {
    descriptors::check(connections, 0, 0, limit).map_err(|few| {
        let (need, fit) = (few.need, few.fit);
        format!(
            "{connections} connections need {need} descriptors, but this process may open \
             {limit}. Raise the limit (shell: ulimit -n {need}; systemd: LimitNOFILE={need}; \
             container: --ulimit nofile={need}), or ask for {fit} connections or less"
        )
    })
}

/// The shards' clock, for the last snapshot of a thread.
fn clock_since(began: Instant) -> impl Fn() -> base::time::Now {
    move || {
        let nanos = u64::try_from((instant() - began).as_nanos()).unwrap_or(u64::MAX);
        base::time::Now::new(base::time::Instant::from_nanos(nanos), stamp::wall_us() / 1_000)
    }
}

/// A thread's work.
fn fly(mut shard: ClientShard<FleetLogic>, clock: &impl Fn() -> base::time::Now, left: &Last) {
    shard.run();
    let seen = shard.logic().snapshot(clock(), shard.handle());
    *left.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
}

fn left_behind(last: &Last) -> Snapshot {
    let seen = last.lock().unwrap_or_else(PoisonError::into_inner).clone();
    seen.unwrap_or_else(|| Snapshot { lost_threads: 1, ..Snapshot::default() })
}

/// The tester's own limits: room for all virtual clients on any thread, and frames as large as any
/// server may send. The plan's timeout bounds a call, not a limit.
fn limits(plan: &FleetPlan) -> Limits {
    let largest = plan.traffic.iter().map(|traffic| traffic.bytes).max().unwrap_or(0);
    let out_bytes_max = (8 * FRAME_BYTES_HARD_MAX).max(largest.saturating_mul(4));
    let timeout_ms = u32::try_from(plan.timeout.as_millis()).unwrap_or(u32::MAX);
    Limits {
        connections_max: CONNECTIONS_MAX,
        frame_bytes_max: FRAME_BYTES_HARD_MAX,
        bind_ms_max: timeout_ms.saturating_add(2_000),
        out_bytes_max,
        out_frames_max: 1 << 20,
        topics: TopicLimits { packet_bytes_max: out_bytes_max, ..TopicLimits::default() },
        ..Limits::default()
    }
}

/// The monotonic clock, for whoever measures beside a fleet.
#[expect(clippy::disallowed_methods, reason = "the laboratory measures time")]
pub fn instant() -> Instant {
    Instant::now()
}

/// Microseconds since this was asked for the first time.
pub fn micros() -> u64 {
    static BEGAN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let now = instant();
    let passed = now.saturating_duration_since(*BEGAN.get_or_init(|| now));
    u64::try_from(passed.as_micros()).unwrap_or(u64::MAX)
}

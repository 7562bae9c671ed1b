//! A whole run of the laboratory against a broker that lies, under a clock that waits for nothing
//! but the broker and the clients: it goes on when both have counted the same.

use crate::broker::{Truth, TruthTeller};
use lab::cause::Cause;
use lab::generator::{LoadGenerator, Look};
use lab::order::Order;
use lab::plan::Plan;
use lab::run::{Counts, Run};
use lab::series::{Column, Reading, Unit};
use lab::timing::Timings;
use load::LocalGenerator;
use load::founder;
use load::run::parts::{
    Eyes, FaultInjector, Founder, Harmless, Pushless, RunClock, Unaudited, WantedConversations,
};
use load::run::{Before, Nobody, Parts};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Looks before a run gives up: ten minutes of them, for a machine that is busy otherwise.
const LOOKS: u32 = 120_000;
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Change to the load generator's counts, by the run's milliseconds.
pub type Touch = fn(u64, &mut Counts);
/// Figures of the target's machine, by the run's milliseconds.
pub type Shown = fn(u64) -> Vec<(&'static str, f64)>;

/// Other parts of a run.
pub struct Around<'a> {
    pub broker: Option<&'a dyn TruthTeller>,
    /// Messages that are to be sent, filters to be asked for, connections to end.
    pub messages: u64,
    pub filters: u64,
    /// Filters in all, once the plan has cut its clients.
    pub filters_after: u64,
    pub ends: u64,
    pub touch: Touch,
    pub shown: Shown,
    pub breaker: Option<Box<dyn FaultInjector>>,
    /// Whether that is broken which makes the ends.
    pub is_broken: Arc<AtomicBool>,
    /// Connections end while messages are on their way, and sessions go on: it is settled when the
    /// broker has had every answer, however often it had to send.
    pub resumes: bool,
}

impl Around<'_> {
    /// Nothing but this.
    pub fn of(broker: Option<&dyn TruthTeller>, messages: u64) -> Around<'_> {
        let (touch, shown): (Touch, Shown) = (untimed, |_| Vec::new());
        let (filters, filters_after, ends, breaker) = (0, 0, 0, None);
        let is_broken = Arc::new(AtomicBool::new(true));
        let resumes = false;
        Around {
            broker,
            messages,
            filters,
            filters_after,
            ends,
            touch,
            shown,
            breaker,
            is_broken,
            resumes,
        }
    }
}

/// How quick this machine is says nothing about a lie.
pub fn untimed(_: u64, counts: &mut Counts) {
    counts.timings = Timings::default();
}

struct Shared {
    generator: LocalGenerator,
    now_ms: u64,
}

struct Hands(Rc<RefCell<Shared>>, Touch, Arc<AtomicBool>);

impl LoadGenerator for Hands {
    fn order(&mut self, order: &Order) -> Result<(), String> {
        if let Order::Cut { .. } = order {
            self.2.store(true, Ordering::SeqCst);
        }
        self.0.borrow_mut().generator.order(order)
    }

    fn look(&mut self) -> Look {
        let mut shared = self.0.borrow_mut();
        let now = shared.now_ms;
        let mut look = shared.generator.look();
        // How busy this machine is says nothing about a lie.
        look.saturation.clear();
        look.reading = Reading::default();
        for agent in &mut look.agents {
            (agent.busiest, agent.turn_us_max) = (0.0, 0);
        }
        look.groups.values_mut().for_each(|counts| (self.1)(now, counts));
        look
    }
}

struct Clock<'a> {
    shared: Rc<RefCell<Shared>>,
    broker: Option<&'a dyn TruthTeller>,
    clients: u64,
    messages: u64,
    filters: u64,
    filters_after: u64,
    ends: u64,
    is_broken: Arc<AtomicBool>,
    resumes: bool,
}

impl RunClock for Clock<'_> {
    fn now_ms(&mut self) -> u64 {
        self.shared.borrow().now_ms
    }

    fn unix_ms(&mut self) -> u64 {
        1_790_000_000_000
    }

    fn rest_until(&mut self, at_ms: u64) {
        for _ in 0..LOOKS {
            let total = self.shared.borrow_mut().generator.look().total();
            let sent = total.figure("messages.sent") as u64;
            let truth = self.broker.map(TruthTeller::truth).unwrap_or_default();
            let is_broken = self.is_broken.load(Ordering::SeqCst);
            let waits = is_broken && total.causes.sum() < self.ends;
            let filters =
                if is_broken { self.filters_after.max(self.filters) } else { self.filters };
            let have_come = total.attempts >= self.clients;
            let is_whole = have_come && truth.filters == filters && !waits;
            let agrees = match self.resumes {
                true => {
                    let are_back = total.online >= self.clients;
                    truth.unacknowledged == 0 && open(&total) == 0 && are_back
                }
                false => is_settled(&total, &truth),
            };
            let is_settled = is_whole && (self.broker.is_none() || agrees);
            // Until all has been sent, and once clients have come, time goes by as well.
            let goes_on = sent > 0 && sent < self.messages;
            if goes_on || sent == 0 {
                std::thread::park_timeout(LOOK_EVERY);
            }
            if is_settled || goes_on {
                self.shared.borrow_mut().now_ms = at_ms;
                return;
            }
            std::thread::park_timeout(LOOK_EVERY);
        }
        let truth = self.broker.map(TruthTeller::truth);
        panic!("never settled: {truth:?}: {:?}", self.shared.borrow_mut().generator.look().total());
    }

    fn is_interrupted(&mut self) -> bool {
        false
    }
}

/// Whether clients have counted all that the broker did, and the broker all that they did.
fn is_settled(total: &Counts, truth: &Truth) -> bool {
    let of = |name: &str| total.figure(name) as u64;
    let pairs = [
        (total.attempts, truth.accepted + truth.refused),
        (total.bound, truth.accepted),
        (total.causes.all_of(Cause::BindRefused), truth.refused),
        (of("subscriptions.granted") + of("subscriptions.refused"), truth.subacks),
        (of("messages.sent"), truth.heard),
        (of("messages.received"), truth.sent),
    ];
    let acked = of("messages.taken") + of("messages.refused");
    // What is sent at QoS 0 is taken when it has left.
    let answered = acked >= truth.acked + truth.nacked;
    let waits = open(total) == truth.owed;
    answered && waits && pairs.iter().all(|(counted, was)| counted == was)
}

/// Messages of clients that have no answer yet.
fn open(total: &Counts) -> u64 {
    let open = total.accounts.iter().filter(|account| account.what == "messages");
    let open = open.flat_map(|account| &account.parts).find(|(part, _)| part == "open");
    open.map_or(0, |(_, count)| *count)
}

/// Makes conversations while the clock stands still.
#[derive(Default)]
struct AtOnce(Option<Result<Vec<String>, String>>);

impl Founder for AtOnce {
    fn begin(&mut self, wanted: WantedConversations) {
        self.0 = Some(founder::make(&wanted, &AtomicBool::new(false)));
    }

    fn take(&mut self) -> Option<Result<Vec<String>, String>> {
        self.0.take()
    }
}

struct Shows(Rc<RefCell<Shared>>, Shown);

impl Eyes for Shows {
    fn read(&mut self) -> (Reading, Vec<String>) {
        let now = self.0.borrow().now_ms;
        let mut reading = Reading::default();
        for (name, value) in (self.1)(now) {
            let unit = if name.ends_with("rss") { Unit::Bytes } else { Unit::Count };
            let column = match name.ends_with("_s") {
                true => Column::total(name, Unit::Seconds),
                false => Column::gauge(name, unit),
            };
            reading.set(column, value);
        }
        (reading, Vec::new())
    }
}

/// Runs a plan whose target is at this address.
pub fn run(plan: &str, url: &str, around: Around<'_>) -> Run {
    let text = format!("name = \"lie\"\n[target]\nurl = [\"{url}\"]\n{plan}");
    let plan: Plan = load::run::file::read("lie", &text, &[]).expect("a good plan");
    // Those of later stages come when the earlier ones are over.
    let clients = plan.stages.iter().take(1).flat_map(|stage| stage.clients.values());
    let clients = clients.map(|count| u64::from(*count)).sum();
    let generator = LocalGenerator::new(7).run_by(Vec::new(), 100_000);
    let shared = Rc::new(RefCell::new(Shared { generator, now_ms: 0 }));
    let mut breaker = around.breaker.unwrap_or_else(|| Box::new(Harmless));
    let clock = Clock {
        shared: shared.clone(),
        broker: around.broker,
        clients,
        messages: around.messages,
        filters: around.filters,
        filters_after: around.filters_after,
        ends: around.ends,
        is_broken: around.is_broken.clone(),
        resumes: around.resumes,
    };
    load::run::run(
        &plan,
        Before { seed: 7, ..Before::default() },
        Parts {
            generator: &mut Hands(shared.clone(), around.touch, around.is_broken),
            clock: &mut { clock },
            eyes: &mut Shows(shared, around.shown),
            breaker: &mut *breaker,
            pushes: &mut Pushless,
            auditor: &mut Unaudited,
            founder: &mut AtOnce::default(),
            watch: &mut Nobody,
        },
    )
    .expect("it could be run")
}

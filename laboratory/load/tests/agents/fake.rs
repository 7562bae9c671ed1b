//! An agent whose load generator only pretends: every client is online at once and noted by its
//! number.

use crate::relay::start;
use lab::generator::{LoadGenerator, Look};
use lab::host::{Environment, HostRow, Need};
use lab::order::Order;
use lab::run::{Balance, Counts};
use lab::series::{Column, Reading, Unit};
use lab::timing::Timing;
use load::agent::{AgentListener, Hands, OwnMachine, serve};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};

/// Port of an agent to its machine, with a record of its orders.
pub struct Fake {
    /// This machine, for its clock.
    real: OwnMachine,
    /// How far its clock is ahead, microseconds.
    skew_us: i64,
    kept: Arc<Kept>,
    observes: Mutex<bool>,
}

#[derive(Default)]
struct Kept {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    numbers: Vec<u32>,
    ahead: Option<i64>,
    refuses: Option<String>,
    stopped: bool,
}

/// An agent of this name that makes load, on a thread of its own until the test's process ends.
pub fn agent(name: &str, token: &str, fake: &Arc<Fake>) -> SocketAddr {
    agent_with(name, token, fake, true)
}

/// Likewise; it may only observe.
pub fn agent_with(name: &str, token: &str, fake: &Arc<Fake>, loads: bool) -> SocketAddr {
    let seat = AgentListener::take(([127, 0, 0, 1], 0).into(), name, token, loads).expect("a port");
    let addr = seat.listener.local_addr().expect("an address");
    *fake.observes.lock().expect("nobody panicked") = !loads;
    let hands = Arc::clone(fake);
    start(move || serve(seat, hands));
    addr
}

impl Fake {
    /// One whose clock is so far ahead.
    pub fn new(skew_us: i64) -> Arc<Fake> {
        let real = OwnMachine::loading(|_| panic!("only the clock is used"), |_| {});
        let (kept, observes) = (Arc::default(), Mutex::new(false));
        Arc::new(Fake { real, skew_us, kept, observes })
    }

    /// Numbers of all its clients.
    pub fn numbers(&self) -> Vec<u32> {
        self.kept.state.lock().expect("nobody panicked").numbers.clone()
    }

    /// The offset of its clock that it was sent.
    pub fn ahead(&self) -> Option<i64> {
        self.kept.state.lock().expect("nobody panicked").ahead
    }

    /// From now on its load generator refuses everything.
    pub fn refuse(&self, why: &str) {
        self.kept.state.lock().expect("nobody panicked").refuses = Some(why.to_owned());
    }

    /// Waits until its load generator was stopped.
    pub fn wait_for_stop(&self) {
        let state = self.kept.state.lock().expect("nobody panicked");
        drop(self.kept.news.wait_while(state, |state| !state.stopped));
    }
}

impl Hands for Fake {
    fn environment(&self) -> Environment {
        Environment { host: "fake".to_owned(), ..Environment::default() }
    }

    fn examine(&self, _need: &Need) -> Vec<HostRow> {
        Vec::new()
    }

    fn generator(&self, _seed: u64) -> Option<Box<dyn LoadGenerator>> {
        let observes = *self.observes.lock().expect("nobody panicked");
        let generator =
            Pretence { kept: Arc::clone(&self.kept), group: None, counts: Counts::default() };
        (!observes).then_some(Box::new(generator))
    }

    fn figures(&self) -> Reading {
        let observes = *self.observes.lock().expect("nobody panicked");
        let mut reading = Reading::default();
        let whose = if observes { "target" } else { "tester" };
        reading.set(Column::gauge("cpu.busy", Unit::Share).of(whose), 1.5);
        reading.set(Column::gauge("cpu.nonsense", Unit::Share).of(whose), f64::NAN);
        reading
    }

    fn wall_us(&self) -> u64 {
        self.real.wall_us().saturating_add_signed(self.skew_us)
    }

    fn ahead(&self, ahead_us: i64) {
        self.kept.state.lock().expect("nobody panicked").ahead = Some(ahead_us);
    }

    fn tell(&self, _line: &str) {}
}

/// The load generator of one group.
struct Pretence {
    kept: Arc<Kept>,
    group: Option<lab::plan::Group>,
    counts: Counts,
}

impl LoadGenerator for Pretence {
    fn order(&mut self, order: &Order) -> Result<(), String> {
        let mut state = self.kept.state.lock().expect("nobody panicked");
        if let Some(why) = &state.refuses {
            return Err(why.clone());
        }
        match order {
            Order::Found { group, .. } => self.group = Some((**group).clone()),
            Order::Arrive { clients, .. } => {
                let group = self.group.as_ref().expect("found before");
                for place in self.counts.online as u32..*clients {
                    let number = group.number_of(place);
                    state.numbers.push(number);
                    self.counts.timings.at(Timing::Bind).note(u64::from(number));
                }
                let clients = u64::from(*clients);
                let counts = &mut self.counts;
                (counts.attempts, counts.online, counts.open) = (clients, clients, clients);
                (counts.planned, counts.bound) = (clients, clients);
                let parts = vec![("open".to_owned(), clients)];
                let what = "attempts".to_owned();
                counts.accounts = vec![Balance { what, total: clients, parts }];
            }
            Order::Stop => {
                state.stopped = true;
                self.kept.news.notify_all();
            }
            _ => {}
        }
        Ok(())
    }

    fn look(&mut self) -> Look {
        let mut look = Look::default();
        if let Some(group) = &self.group {
            look.groups.insert(group.name.clone(), self.counts.clone());
        }
        look.reading.set(Column::peak("tester.busiest", Unit::Share), 0.25);
        look.saturation = vec!["too much".to_owned()];
        look
    }
}

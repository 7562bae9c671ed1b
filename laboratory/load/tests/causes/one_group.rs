//! A load generator of one group, and what it saw.

use lab::cause::{Cause, Phase};
use lab::generator::LoadGenerator as _;
use lab::order::{Cut, Order};
use lab::plan::{Arrival, Group, Traffic};
use lab::run::Counts;
use load::LocalGenerator;
use std::time::Duration;

/// Ends that are expected.
pub type Want = &'static [(Phase, Cause, u64)];

/// Time for what certainly comes.
pub const LONG: Duration = Duration::from_secs(300);

/// Looks before a test gives up: half a minute of them.
const LOOKS: u32 = 3_000;
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A load generator of one group.
pub struct OneGroup(LocalGenerator);

/// Counts of the generator.
#[derive(Debug)]
pub struct Seen(pub Counts);

impl OneGroup {
    /// A group without clients that would call this URL; `rest` are further keys in JSON.
    pub fn found(url: &str, rest: &str) -> Result<OneGroup, String> {
        let group = format!(r#"{{"name": "g", "url": ["{url}"], "threads": 1 {rest}}}"#);
        let group: Group = serde_json::from_str(&group).expect("a group");
        // One process whatever its limit of descriptors, for that is what is tested.
        let mut local = LocalGenerator::new(7).run_by(Vec::new(), 100_000);
        local.order(&Order::Found { group: Box::new(group), clients_max: 0 })?;
        Ok(OneGroup(local))
    }

    /// So many clients call this URL, all at once.
    pub fn call(url: &str, rest: &str, clients: u32) -> OneGroup {
        let mut generator = OneGroup::found(url, rest).expect("a good group");
        generator.arrive(clients);
        generator
    }

    /// So many clients shall be there.
    pub fn arrive(&mut self, clients: u32) {
        let (group, arrival) = ("g".to_owned(), Arrival::Burst);
        self.order(&Order::Arrive { group, clients, arrival });
    }

    /// A share of those online goes through this.
    pub fn cut(&mut self, share: f64, how: Cut) {
        self.order(&Order::Cut { group: None, share, how });
    }

    /// Sets the traffic from now on, in JSON.
    pub fn send(&mut self, traffic: &str) {
        let traffic: Traffic = serde_json::from_str(traffic).expect("a kind of traffic");
        self.order(&Order::Traffic { group: "g".to_owned(), traffic: vec![traffic] });
    }

    /// Waits until this is seen.
    pub fn wait(&mut self, what: &str, holds: impl Fn(&Counts) -> bool) -> Seen {
        for _ in 0..LOOKS {
            let seen = self.look();
            if holds(&seen.0) {
                return seen;
            }
            std::thread::park_timeout(LOOK_EVERY);
        }
        panic!("never: {what}: {:?}", self.look());
    }

    /// Waits until so many clients have ended and none is there, and stops the load generator.
    pub fn ends(mut self, clients: u64) -> Seen {
        self.wait("all have ended", |seen| seen.causes.sum() == clients && seen.open == 0);
        self.stop()
    }

    /// Stops it: what was counted in all.
    pub fn stop(mut self) -> Seen {
        self.order(&Order::Stop);
        let seen = self.look();
        assert_eq!((seen.0.open, seen.0.online), (0, 0), "{seen:?}");
        assert_eq!(seen.0.attempts, seen.0.causes.sum(), "every attempt has one end: {seen:?}");
        seen
    }

    fn order(&mut self, order: &Order) {
        self.0.order(order).expect("a good order");
    }

    fn look(&mut self) -> Seen {
        let seen = self.0.look().total();
        assert!(seen.accounts.iter().all(|account| account.agrees()), "{:?}", seen.accounts);
        Seen(seen)
    }
}

impl Seen {
    /// These ends and no others.
    pub fn are(&self, want: &[(Phase, Cause, u64)]) {
        let mut want = want.to_vec();
        want.sort_unstable();
        let seen: Vec<_> = self.0.causes.iter().collect();
        assert_eq!(seen, want, "{:?}", self.0.codes);
    }

    /// How often a code was counted.
    pub fn code(&self, code: &str) -> u64 {
        self.0.codes.get(code).copied().unwrap_or(0)
    }

    /// Ends that the plan did not want.
    pub fn errors(&self) -> u64 {
        self.0.causes.errors()
    }
}

/// Waits until this holds; false: it never does.
pub fn until(holds: impl Fn() -> bool) -> bool {
    (0..LOOKS).any(|_| {
        std::thread::park_timeout(LOOK_EVERY);
        holds()
    })
}

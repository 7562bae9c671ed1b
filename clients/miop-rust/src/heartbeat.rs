//! How long a connection may be silent: what a network allows is found and remembered.
//!
//! NATs and proxies forget silent connections sooner than servers do. The interval grows while
//! PINGs are answered, and is searched for between the longest that worked and the shortest that
//! failed. All numbers are seconds.

/// Answered PINGs at an interval before a longer one is tried.
const GROW_AFTER: u32 = 2;
/// Answered PINGs after which an upper bound is forgotten, because networks change.
const FORGET_AFTER: u32 = 50;
/// Networks that are remembered.
const NETWORKS_MAX: usize = 16;

/// The known intervals of a network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Learned {
    pub network: String,
    pub interval: u32,
    /// The longest that worked; 0: none.
    pub worked: u32,
    /// The shortest that failed; 0: none.
    pub failed: u32,
}

/// The interval between PINGs, for each network that the application names.
pub(crate) struct Heartbeat {
    pub shortest: u16,
    first: u16,
    pub longest: u16,
    /// The network used last is the last one.
    learned: Vec<Learned>,
    network: String,
    answered: u32,
    since_settled: u32,
}

impl Heartbeat {
    pub fn new([shortest, first, longest]: [u16; 3]) -> Heartbeat {
        let (learned, network) = (Vec::new(), String::new());
        let (answered, since_settled) = (0, 0);
        Heartbeat { shortest, first, longest, learned, network, answered, since_settled }
    }

    /// The device is in this network now.
    pub fn enter(&mut self, network: &str) {
        if network != self.network {
            self.network = network.to_owned();
            (self.answered, self.since_settled) = (0, 0);
        }
    }

    fn now(&mut self) -> &mut Learned {
        let at = self.learned.iter().position(|it| it.network == self.network);
        let it = match at {
            Some(at) => self.learned.remove(at),
            None => {
                let (network, interval) = (self.network.clone(), self.first.into());
                Learned { network, interval, worked: 0, failed: 0 }
            }
        };
        self.learned.push(it);
        if self.learned.len() > NETWORKS_MAX {
            self.learned.remove(0);
        }
        self.learned.last_mut().expect("it was pushed")
    }

    /// The interval; the agreed heartbeat is never exceeded.
    pub fn interval(&mut self, agreed: u32) -> u32 {
        self.now().interval.min(agreed).max(1)
    }

    /// A PING after so much silence was answered. True if something was learned.
    pub fn survived(&mut self, silence_ms: u64, agreed: u32) -> bool {
        let limit = agreed.min(self.longest.into());
        let (answered, since_settled) = (self.answered, self.since_settled);
        let it = self.now();
        let before = it.clone();
        let tried = it.interval.min(agreed);
        if silence_ms < u64::from(tried) * 1_000 {
            return false;
        }
        it.worked = it.worked.max(tried);
        let mut counts = (answered + 1, since_settled);
        if it.failed > 0 && it.failed.saturating_sub(it.worked) <= (it.worked / 8).max(10) {
            counts.1 += 1;
            if counts.1 >= FORGET_AFTER {
                it.failed = 0;
                counts = (0, 0);
            }
        } else if counts.0 >= GROW_AFTER {
            let longer = match it.failed {
                0 => it.interval * 3 / 2,
                failed => (it.worked + failed) / 2,
            };
            it.interval = it.interval.max(longer.min(limit));
            counts.0 = 0;
        }
        let learned = *it != before;
        (self.answered, self.since_settled) = counts;
        learned
    }

    /// A connection died of so much silence. True if something was learned.
    pub fn failed(&mut self, silence_ms: u64, agreed: u32) -> bool {
        let shortest = u32::from(self.shortest);
        let it = self.now();
        let interval = it.interval.min(agreed);
        if silence_ms < u64::from(interval) * 1_000 {
            return false;
        }
        if it.worked >= interval {
            it.worked = 0; // it worked once: the network has changed
        }
        it.failed = interval;
        it.interval = if it.worked > 0 { it.worked } else { interval / 2 }.max(shortest);
        (self.answered, self.since_settled) = (0, 0);
        true
    }

    /// The learned intervals, for the state.
    pub fn learned(&self) -> &[Learned] {
        &self.learned
    }

    /// Goes on with what was learned earlier, within today's limits.
    pub fn load(&mut self, mut learned: Vec<Learned>) {
        for it in &mut learned {
            it.interval = it.interval.clamp(self.shortest.into(), self.longest.into());
        }
        self.learned = learned;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_network_is_found_and_few_connections_are_lost() {
        for nat in (31..2_000).step_by(7) {
            let (mut heartbeat, mut lost) = (Heartbeat::new([30, 120, 1_800]), 0);
            for _ in 0..60 {
                let interval = heartbeat.interval(1_800);
                assert!((30..=1_800).contains(&interval));
                let silence_ms = u64::from(interval) * 1_000;
                if interval < nat {
                    heartbeat.survived(silence_ms, 1_800);
                } else {
                    heartbeat.failed(silence_ms, 1_800);
                    lost += 1;
                }
            }
            let best = nat.min(1_800);
            let settled = heartbeat.interval(1_800);
            assert!(settled + (best / 8).max(10) + 1 >= best, "NAT of {nat} s: {settled}");
            assert!(lost <= 8, "NAT of {nat} s: {lost} lost");
        }
    }

    #[test]
    fn sixteen_networks_are_remembered() {
        let mut heartbeat = Heartbeat::new([30, 120, 1_800]);
        for at in 0..20 {
            heartbeat.enter(&at.to_string());
            heartbeat.interval(300);
        }
        let names: Vec<_> = heartbeat.learned().iter().map(|it| it.network.clone()).collect();
        assert_eq!(names, (4..20).map(|at| at.to_string()).collect::<Vec<_>>());
    }
}

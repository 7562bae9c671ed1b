//! How long a connection may be silent: what a network allows is found and remembered.
//!
//! NATs and proxies forget silent connections sooner than servers do. The interval grows by half
//! while Pings are answered, and is searched for between the longest that worked and the shortest
//! that failed. All numbers are seconds.

/// Answers at one interval before a longer one is tried.
const ANSWERS_TO_GROW: u32 = 2;
/// Answers after which a bound is forgotten, because networks change.
const ANSWERS_TO_FORGET: u32 = 50;
/// Networks that are remembered.
const NETWORKS_MAX: usize = 16;
/// The search ends at a difference of so much, or of an eighth.
const SETTLED_S: u32 = 10;

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

/// The interval between signs of life, for each network that the application names.
pub(crate) struct Heartbeat {
    shortest: u32,
    first: u32,
    longest: u32,
    /// The network that is used is the last one.
    learned: Vec<Learned>,
    answers: u32,
    answers_bounded: u32,
    /// An interval that seems to have failed: it counts if the network is there. 0: none.
    pub suspect: u32,
    /// Rises with each change of what is stored.
    pub version: u64,
}

impl Heartbeat {
    pub fn new([shortest, first, longest]: [u32; 3]) -> Heartbeat {
        let (answers, answers_bounded, suspect, version) = (0, 0, 0, 0);
        let learned = Vec::new();
        let mut made = Heartbeat {
            shortest,
            first,
            longest,
            learned,
            answers,
            answers_bounded,
            suspect,
            version,
        };
        made.enter("");
        made
    }

    /// The device is in this network now.
    pub fn enter(&mut self, network: &str) {
        (self.answers, self.answers_bounded, self.suspect) = (0, 0, 0);
        let known = self.learned.iter().position(|it| it.network == network);
        let it = match known {
            Some(at) => self.learned.remove(at),
            None => {
                let (network, interval) = (network.to_owned(), self.first);
                Learned { network, interval, worked: 0, failed: 0 }
            }
        };
        self.learned.push(it);
        if self.learned.len() > NETWORKS_MAX {
            self.learned.remove(0);
        }
        self.version += 1;
    }

    fn now(&mut self) -> &mut Learned {
        self.learned.last_mut().expect("a network is entered by `new`")
    }

    /// The silence after which a Ping is due; the server's limit is never exceeded.
    pub fn interval(&self, agreed: u32) -> u32 {
        let now = self.learned.last().map_or(self.first, |it| it.interval);
        now.max(self.shortest).min(self.longest).min(agreed).max(1)
    }

    /// A Ping after so much silence was answered.
    pub fn lived(&mut self, silence: u32) {
        let longest = self.longest;
        let (mut answers, mut bounded) = (self.answers + 1, self.answers_bounded);
        let it = self.now();
        let before = it.clone();
        it.worked = it.worked.max(silence);
        if it.failed > 0 {
            bounded += 1;
            if it.worked >= it.failed || bounded >= ANSWERS_TO_FORGET {
                (it.failed, bounded) = (0, 0);
            }
        }
        if answers >= ANSWERS_TO_GROW {
            answers = 0;
            if it.failed == 0 {
                it.interval = (silence * 3 / 2).min(longest);
            } else if it.failed - it.worked > SETTLED_S.max(it.worked / 8) {
                it.interval = (it.worked + it.failed) / 2;
            }
        }
        let changed = *it != before;
        (self.answers, self.answers_bounded) = (answers, bounded);
        self.version += u64::from(changed);
    }

    /// The next session has begun. If it did so at the first attempt, the network was there, and
    /// the silence was what the connection before did not survive.
    pub fn bound(&mut self, at_first: bool) {
        let failed = std::mem::take(&mut self.suspect);
        if failed == 0 || !at_first {
            return;
        }
        let shortest = self.shortest;
        let it = self.now();
        if it.worked >= failed {
            it.worked = 0; // it worked once: the network has changed
        }
        it.interval = if it.worked > 0 { it.worked } else { (failed / 2).max(shortest) };
        it.failed = failed;
        (self.answers, self.answers_bounded) = (0, 0);
        self.version += 1;
    }

    /// The learned intervals, for the state.
    pub fn learned(&self) -> &[Learned] {
        &self.learned
    }

    /// Goes on with what was learned earlier, in the network that has no name.
    pub fn load(&mut self, learned: Vec<Learned>) {
        self.learned = learned;
        self.enter("");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_network_is_found_and_few_connections_are_lost() {
        for nat in (31..2_000).step_by(7) {
            let (mut heartbeat, mut lost) = (Heartbeat::new([30, 120, 1_800]), 0);
            for _ in 0..50 {
                let interval = heartbeat.interval(1_800);
                assert!((30..=1_800).contains(&interval));
                if interval < nat {
                    heartbeat.lived(interval);
                } else {
                    heartbeat.suspect = interval;
                    heartbeat.bound(true);
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
        }
        let names: Vec<_> = heartbeat.learned().iter().map(|it| it.network.clone()).collect();
        assert_eq!(names, (4..20).map(|at| at.to_string()).collect::<Vec<_>>());
    }
}

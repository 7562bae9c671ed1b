//! Under any fault of a directory, tracker and directory agree when all is quiet.
//!
//! A world is a hub of a few principals, a plain map as the directory, another node that claims
//! them too, and a stranger who changes records behind everybody's back, all drawn from a seed.
//! Batches are done at once, later again, in part or not at all, whatever is answered.

use super::*;
use base::prng::Prng;
use model::presence::VersionClock;
use std::collections::BTreeMap;

const PRINCIPALS: u64 = 40;

/// The hub's statement about a principal.
#[derive(Clone, Copy, Default)]
struct Here {
    online: bool,
    version: PresenceVersion,
}

struct TrackerHarness {
    seed: u64,
    rng: Prng,
    ms: u64,
    /// Nobody else writes.
    lonely: bool,
    /// How far the other node's clock is ahead.
    ahead_ms: u64,
    tracker: PresenceTracker,
    fx: Effects,
    hub: BTreeMap<Box<str>, Here>,
    /// The hub's clock and the other node's.
    clocks: [VersionClock; 2],
    directory: BTreeMap<Box<str>, PresenceRecord>,
    /// The batch that is out.
    out: Vec<Batch>,
    /// Those that arrive once more.
    late: Vec<Batch>,
    /// A bucket as it was read some time ago.
    read: Option<(u16, Vec<Stored>)>,
}

impl TrackerHarness {
    fn new(seed: u64) -> TrackerHarness {
        let mut rng = Prng::new(seed);
        TrackerHarness {
            seed,
            lonely: false,
            ms: 0,
            ahead_ms: [0, 0, 50, 100_000][rng.below(4) as usize],
            tracker: tracker(),
            fx: Effects::default(),
            hub: BTreeMap::new(),
            clocks: [VersionClock::default(); 2],
            directory: BTreeMap::new(),
            out: Vec::new(),
            late: Vec::new(),
            read: None,
            rng,
        }
    }

    fn any(&mut self) -> Box<str> {
        name(self.rng.below(PRINCIPALS)).into()
    }

    fn put(&mut self, key: &str, record: &PresenceRecord) -> Put {
        match self.directory.get(key) {
            Some(kept) if kept == record => Put::Taken,
            Some(kept) if kept.version >= record.version => Put::Kept(kept.clone()),
            Some(kept) if kept.online && !record.online && kept.node != record.node => {
                Put::Kept(kept.clone())
            }
            _ => {
                self.directory.insert(key.into(), record.clone());
                Put::Taken
            }
        }
    }

    fn put_all(&mut self, batches: &[Batch]) -> Vec<Put> {
        let entries = batches.iter().flat_map(|batch| &batch.entries);
        entries.map(|(key, record)| self.put(key, record)).collect()
    }

    fn say(&mut self, key: &str, online: bool) {
        let now = at(self.ms);
        let version = self.clocks[0].next(now.wall_ms);
        self.hub.insert(key.into(), Here { online, version });
        self.tracker.note(now, if online { came(key, version) } else { went(key, version) });
    }

    /// Somebody connects here, or leaves.
    fn moves(&mut self) {
        let key = self.any();
        let online = self.hub.get(&key).is_some_and(|here| here.online);
        if online {
            self.say(&key, false);
        }
        if !online || self.rng.one_in(3) {
            self.say(&key, true);
        }
    }

    /// Somebody connects to the other node, or leaves it.
    fn moves_elsewhere(&mut self) {
        let key = self.any();
        let wall_ms = START_MS + self.ms + self.ahead_ms;
        let seen = self.directory.get(&key).cloned();
        seen.iter().for_each(|record| self.clocks[1].observe(record.version));
        let version = self.clocks[1].next(wall_ms);
        let online = !seen.is_some_and(|record| record.online && record.node == node("there"));
        self.put(&key, &foreign("there", 3, online, version));
    }

    /// Somebody changes a record, or takes it away.
    fn lies(&mut self) {
        let key = self.any();
        let version = version(self.rng.below(self.ms + 1));
        let lie = match self.rng.below(5) {
            0 => return drop(self.directory.remove(&key)),
            1 => return self.directory.clear(),
            2 => foreign("here", 7, true, version),
            3 => foreign("here", 6, true, version),
            _ => foreign("here", 7, false, version),
        };
        self.directory.insert(key, lie);
    }

    /// The batch that is out comes back, one way or another.
    fn comes_back(&mut self) {
        let out = std::mem::take(&mut self.out);
        if out.is_empty() {
            return;
        }
        if self.rng.one_in(4) {
            self.late.extend(out.iter().cloned());
        }
        let result = match self.rng.below(8) {
            0 => Err(DirectoryError::Unreachable(String::new())),
            1 => {
                self.put_all(&out);
                Err(DirectoryError::Slow)
            }
            2 => {
                let kept = self.rng.below(out.len() as u64 + 1) as usize;
                self.put_all(&out[..kept]);
                Err(DirectoryError::Slow)
            }
            3 => {
                let mut puts = self.put_all(&out);
                puts.iter_mut().for_each(|put| {
                    if self.rng.one_in(3) {
                        *put = Put::Untaken;
                    }
                });
                Ok(puts)
            }
            _ => Ok(self.put_all(&out)),
        };
        let now = at(self.ms);
        self.tracker.written(now, result, &mut self.fx);
        if self.rng.one_in(4) {
            self.tracker.written(now, Err(DirectoryError::Slow), &mut self.fx);
        }
    }

    fn bucket(&self, of: u16) -> Vec<Stored> {
        let stored = self.directory.iter().filter(|(key, _)| bucket(key) == of);
        stored.map(|(key, record)| (key.clone(), record.clone())).collect()
    }

    /// A bucket is read, and compared then or later.
    fn compares(&mut self) {
        let of = bucket(&self.any());
        let read = self.read.take().filter(|_| self.rng.one_in(2));
        let (of, stored) = read.unwrap_or_else(|| (of, self.bucket(of)));
        if self.rng.one_in(3) {
            self.read = Some((of, stored));
        } else {
            self.tracker.compare(at(self.ms), of, &stored, &mut self.fx);
        }
    }

    /// Carries out the effects of every call, as the server does.
    fn carry_out(&mut self) {
        if let Some(version) = self.fx.observed.take() {
            self.clocks[0].observe(version);
        }
        assert!(self.out.is_empty() || self.fx.batches.is_empty(), "one batch is out at a time");
        self.out.append(&mut self.fx.batches);
        for (who, record) in std::mem::take(&mut self.fx.outvoted) {
            assert!(record.online && record.node == node("there"), "seed {}", self.seed);
            let key = who.key();
            let here = self.hub[&key];
            assert!(here.online, "seed {}: {key} is outvoted twice", self.seed);
            let ended = Here { online: false, version: PresenceVersion(here.version.0 + 1) };
            self.hub.insert(key.clone(), ended);
            self.tracker.note(at(self.ms), went(&key, ended.version));
        }
    }

    fn step(&mut self) {
        self.ms += [0, 1, 7, 40, 400][self.rng.below(5) as usize];
        match self.rng.below(16) {
            0..8 if self.lonely => self.moves(),
            0..5 => self.moves(),
            5 => self.moves_elsewhere(),
            6 => self.lies(),
            7 => self.compares(),
            8 => {
                let late = std::mem::take(&mut self.late);
                self.put_all(&late);
            }
            9..12 => self.comes_back(),
            _ => {
                let now = at(self.ms);
                self.tracker.turn(now, &mut self.fx);
            }
        }
        let lag_ms = self.tracker.digests.lag_ms(START_MS + self.ms);
        let oldest_ms = self.tracker.oldest_ms(at(self.ms));
        assert!(lag_ms <= oldest_ms, "seed {}: {lag_ms} of {oldest_ms}", self.seed);
        self.carry_out();
        if self.rng.one_in(16) {
            self.tracker.check();
        }
    }

    /// Nothing moves any more, and all that is offered is done; every bucket is compared so often.
    fn settle(&mut self, compared: u32) {
        let late = std::mem::take(&mut self.late);
        self.put_all(&late);
        for round in 0..=compared {
            if round > 0 {
                for of in (0..PRINCIPALS).map(name).map(|key| bucket(&key)) {
                    let stored = self.bucket(of);
                    self.tracker.compare(at(self.ms), of, &stored, &mut self.fx);
                    self.carry_out();
                }
            }
            for _ in 0..5 {
                self.ms += 2_000;
                self.tracker.turn(at(self.ms), &mut self.fx);
                self.carry_out();
                let out = std::mem::take(&mut self.out);
                let puts = self.put_all(&out);
                self.tracker.written(at(self.ms), Ok(puts), &mut self.fx);
                self.carry_out();
            }
        }
        self.tracker.check();
    }

    fn agree(&self) {
        let TrackerHarness { seed, tracker, .. } = self;
        assert_eq!(tracker.unwritten(), 0, "seed {seed}");
        assert_eq!(tracker.digests.lag_ms(START_MS + self.ms), 0, "seed {seed}");
        let online = self.hub.values().filter(|here| here.online).count();
        assert_eq!(tracker.ledger.len(), online, "seed {seed}");
        let counted: u64 = tracker.counts().of.values().map(|count| count.online).sum();
        assert_eq!(counted, online as u64, "seed {seed}");
        for key in (0..PRINCIPALS).map(name) {
            let here = self.hub.get(&*key).is_some_and(|here| here.online);
            let stored = self.directory.get(&*key);
            let said = stored.is_some_and(|record| record.online && record.node == node("here"));
            assert_eq!(here, said, "seed {seed}: {key} {stored:?}");
            let known = memory(tracker, &key).into_iter().find(|known| *known.entry.0 == *key);
            assert_eq!(known.is_some(), here, "seed {seed}: {key}");
            if let Some(known) = known {
                assert!(known.settled, "seed {seed}: {key}");
                assert_eq!(Some(&known.entry.1), stored, "seed {seed}");
            }
        }
    }
}

fn name(n: u64) -> String {
    if n.is_multiple_of(4) { format!("#client-{n}") } else { format!("demo#device-{n}") }
}

#[test]
fn memory_and_directory_agree_when_all_is_quiet() {
    for seed in 0..60 {
        let mut world = TrackerHarness::new(seed);
        for _ in 0..3 {
            (0..400).for_each(|_| world.step());
            world.settle(5);
            world.agree();
        }
    }
}

#[test]
fn what_a_directory_does_not_lose_needs_no_comparison() {
    for seed in 0..60 {
        let mut world = TrackerHarness { lonely: true, ..TrackerHarness::new(seed) };
        for _ in 0..3 {
            (0..400).for_each(|_| world.step());
            world.settle(0);
            world.agree();
        }
        assert_eq!(world.tracker.digests.tally(TrackerCounter::Raised), 0, "seed {seed}");
    }
}

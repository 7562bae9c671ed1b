//! Random writes by two servers, against a plain map.

use super::{Opener, batch, gone, lease, record};
use base::prng::Prng;
use model::ports::presence::directory::{DirectoryEntry, Put};
use model::presence::{PresenceRecord, PresenceVersion};
use std::collections::BTreeMap;

const STEPS: u64 = 200;
/// Few, so that the same ones meet.
const BUCKETS: u64 = 4;
const KEYS: u64 = 12;
const VERSIONS: u64 = 40;

/// Expected records.
type Kept = BTreeMap<(u16, Box<str>), PresenceRecord>;

pub(super) fn run(seed: u64, open: &Opener) {
    let mut rng = Prng::new(seed);
    let mut kept = Kept::new();
    let mut servers = [open(), open()];
    for step in 0..STEPS {
        let told = || format!("seed {seed}, step {step}");
        let server = &mut servers[rng.below(2) as usize];
        if rng.one_in(5) {
            let bucket = rng.below(BUCKETS) as u16;
            let keys: Vec<_> =
                (0..3).map(|_| (key(&mut rng), PresenceVersion(rng.below(VERSIONS)))).collect();
            let want = keys.iter().filter(|pair| remove(&mut kept, bucket, pair)).count();
            assert_eq!(server.remove(bucket, &keys), Ok(want as u64), "{}", told());
            continue;
        }
        let batches: Vec<_> = (0..1 + rng.below(3))
            .map(|_| {
                let entries = (0..rng.below(5)).map(|_| entry(&mut rng)).collect();
                batch(rng.below(BUCKETS) as u16, entries)
            })
            .collect();
        let mut want = Vec::new();
        for batch in &batches {
            want.extend(batch.entries.iter().map(|entry| put(&mut kept, batch.bucket, entry)));
        }
        assert_eq!(server.put(&batches), Ok(want), "{}", told());
    }
    for bucket in 0..BUCKETS as u16 {
        let mut there = servers[0].bucket(bucket).expect("it works");
        there.sort_by(|a, b| a.0.cmp(&b.0));
        let of =
            |(key, record): (&(u16, Box<str>), &PresenceRecord)| (key.1.clone(), record.clone());
        let want: Vec<DirectoryEntry> =
            kept.iter().filter(|((of, _), _)| *of == bucket).map(of).collect();
        assert_eq!(there, want, "seed {seed}, bucket {bucket}");
        let lease = lease("a", 1);
        let mine = |record: &PresenceRecord| {
            record.online && record.node == lease.node && record.boot == 1
        };
        let count = want.iter().filter(|entry| mine(&entry.1)).count() as u64;
        let digests = servers[1].digests(&lease, bucket..bucket + 1).expect("it works");
        assert_eq!(digests[0].count, count, "seed {seed}, bucket {bucket}");
    }
}

fn key(rng: &mut Prng) -> Box<str> {
    format!("demo#{}", rng.below(KEYS)).into()
}

fn entry(rng: &mut Prng) -> DirectoryEntry {
    let (node, boot) = (["a", "b"][rng.below(2) as usize], 1 + rng.below(2));
    let make = if rng.one_in(2) { record } else { gone };
    (key(rng), make(rng.below(VERSIONS), node, boot))
}

fn put(kept: &mut Kept, bucket: u16, (key, record): &DirectoryEntry) -> Put {
    match kept.get(&(bucket, key.clone())) {
        Some(old) if old == record => Put::Taken,
        Some(old) if old.version >= record.version => Put::Kept(old.clone()),
        Some(old) if old.online && !record.online && old.node != record.node => {
            Put::Kept(old.clone())
        }
        _ => {
            kept.insert((bucket, key.clone()), record.clone());
            Put::Taken
        }
    }
}

fn remove(kept: &mut Kept, bucket: u16, (key, upto): &(Box<str>, PresenceVersion)) -> bool {
    let key = (bucket, key.clone());
    let goes = kept.get(&key).is_some_and(|old| old.version <= *upto);
    goes.then(|| kept.remove(&key)).is_some()
}

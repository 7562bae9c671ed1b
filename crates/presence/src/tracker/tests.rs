//! Steps of a tracker, one by one; `harness` tests its behaviour under all faults.

mod harness;
mod memory;

use super::*;
use crate::ledger::TAKEN;
use crate::owner::owner;
use model::close::CloseReason;
use model::id::MessageId;
use model::ports::presence::directory::{DirectoryEntry as Stored, DirectoryError, Put};
use model::ports::presence::queries::{Count, MemoryEntry, PresenceAnswer, PresenceCommand};
use model::presence::{BUCKETS, Digest, NodeName, OnlineState};

/// 2026-11-20, so that versions are those of a clock.
const START_MS: u64 = 1_795_000_000_000;

pub(super) fn at(ms: u64) -> Now {
    Now::new(Instant::from_nanos((1_000 + ms) * 1_000_000), START_MS + ms)
}

/// The version that a hub gives at this moment.
pub(super) fn version(ms: u64) -> PresenceVersion {
    PresenceVersion::after(0, START_MS + ms)
}

pub(super) fn node(name: &str) -> NodeName {
    NodeName::parse(name).expect("allowed")
}

pub(super) fn settings() -> Settings {
    Settings {
        shard: ShardId(0),
        shards: 1,
        home: HashKey::new(1, 2),
        lease: Lease { node: node("here"), boot: 7 },
        copies: true,
        history_max: 4_096,
        flush_ms: 10,
        seed: 9,
    }
}

pub(super) fn tracker() -> PresenceTracker {
    PresenceTracker::new(settings(), Digests::new())
}

pub(super) fn who(key: &str) -> Principal {
    Principal::parse(key).expect("a key")
}

pub(super) fn came(key: &str, version: PresenceVersion) -> Transition {
    let (who, state) = (who(key), OnlineState::Online("miop7"));
    Transition { who, user: None, state, protocol: "miop7", peer: None, version }
}

pub(super) fn went(key: &str, version: PresenceVersion) -> Transition {
    Transition { state: OnlineState::Offline(CloseReason::PeerClosed), ..came(key, version) }
}

/// A record as another node, or another boot, would have written it.
fn foreign(name: &str, boot: u64, online: bool, version: PresenceVersion) -> PresenceRecord {
    let (node, detail) = (node(name), "miop7".into());
    PresenceRecord { version, online, node, boot, detail, user: None }
}

fn entries(batches: &[Batch]) -> Vec<(&str, bool)> {
    let entries = batches.iter().flat_map(|batch| &batch.entries);
    entries.map(|(key, record)| (&**key, record.online)).collect()
}

/// Batches that the tracker hands out now.
fn out(tracker: &mut PresenceTracker, ms: u64) -> Vec<Batch> {
    let mut fx = Effects::default();
    tracker.turn(at(ms), &mut fx);
    fx.batches
}

fn answer(tracker: &mut PresenceTracker, ms: u64, puts: Vec<Put>) -> Effects {
    let mut fx = Effects::default();
    tracker.written(at(ms), Ok(puts), &mut fx);
    fx
}

fn compare(
    tracker: &mut PresenceTracker,
    ms: u64,
    key: &str,
    stored: Option<PresenceRecord>,
) -> Effects {
    let mut fx = Effects::default();
    let stored: Vec<Stored> = stored.into_iter().map(|record| (key.into(), record)).collect();
    tracker.compare(at(ms), bucket(key), &stored, &mut fx);
    fx
}

/// Has one that came taken by the directory.
fn settled(key: &str) -> PresenceTracker {
    let mut tracker = tracker();
    tracker.note(at(0), came(key, version(0)));
    assert_eq!(entries(&out(&mut tracker, 10)), [(key, true)]);
    answer(&mut tracker, 11, vec![Put::Taken]);
    assert_eq!(tracker.unwritten(), 0);
    tracker.check();
    tracker
}

fn memory(tracker: &PresenceTracker, key: &str) -> Vec<MemoryEntry> {
    match tracker.answer(&PresenceCommand::Buckets(vec![bucket(key)])) {
        PresenceAnswer::Entries(entries) => entries,
        other => panic!("{other:?}"),
    }
}

impl PresenceTracker {
    /// How long the oldest of what waits has done so, looked up one by one.
    pub(super) fn oldest_ms(&self, now: Now) -> u64 {
        let waiting = self.ledger.all().filter(|(_, entry)| entry.is_unwritten());
        let ages = waiting.map(|(_, entry)| elapsed(now, entry.since_ms));
        let out = self.flight.iter().map(|record| elapsed(now, record.since_ms));
        u64::from(ages.chain(out).max().unwrap_or(0))
    }

    /// Checks the tracker's invariants, counted anew.
    pub(super) fn check(&self) {
        let (mut unwritten, mut absent, mut entries) = (0, 0, 0);
        let mut digests = vec![(Digest::default(), 0); usize::from(BUCKETS)];
        for (place, entry) in self.ledger.all() {
            let (digest, waiting) = &mut digests[usize::from(entry.bucket)];
            entries += 1;
            unwritten += usize::from(entry.is_unwritten());
            *waiting += u32::from(entry.is_unwritten());
            absent += usize::from(!entry.is_online());
            assert!(entry.is_online() || entry.is_unwritten(), "{} should have left", entry.key);
            let flies = self.flight.iter().any(|record| record.place == place);
            assert_eq!(entry.is(FLYING), flies, "{}", entry.key);
            assert!(self.ledger.bucket(bucket(&entry.key)).any(|(other, _)| other == place));
            if entry.claims() {
                digest.count += 1;
                digest.sum ^= entry.sum(&self.settings.lease, &self.codes);
            }
        }
        let counted = (self.unwritten, self.absent, self.ledger.len());
        assert_eq!(counted, (unwritten, absent, entries));
        if self.settings.shards == 1 {
            for (bucket, &(digest, waiting)) in (0..BUCKETS).zip(&digests) {
                assert_eq!(self.digests.of(bucket), digest);
                assert_eq!(self.digests.unwritten_in(bucket), waiting);
            }
            assert_eq!(self.digests.unwritten(), unwritten as u64);
        }
    }
}

#[test]
fn a_thousand_flaps_while_the_directory_is_away_are_one_write() {
    let mut tracker = tracker();
    for n in 0..1_000 {
        tracker.note(at(n), came("demo#a", version(2 * n)));
        tracker.note(at(n), went("demo#a", version(2 * n + 1)));
        assert!(tracker.queue.len() <= 1 && tracker.unwritten() == 1);
    }
    tracker.note(at(1_000), came("demo#a", version(2_000)));
    let batches = out(&mut tracker, 1_000);
    assert_eq!(entries(&batches), [("demo#a", true)]);
    assert_eq!(batches[0].entries[0].1.version, version(2_000));
    assert_eq!(tracker.digests.lag_ms(START_MS + 1_000), 1_000, "since the first of them");
    answer(&mut tracker, 1_001, vec![Put::Taken]);
    assert_eq!((tracker.unwritten(), tracker.digests.lag_ms(START_MS + 1_001)), (0, 0));
    assert_eq!(tracker.digests.tally(TrackerCounter::Noted), 2_001);
    tracker.check();
}

#[test]
fn changes_are_gathered_for_a_while() {
    let mut tracker = tracker();
    assert_eq!(tracker.turn(at(0), &mut Effects::default()), None);
    tracker.note(at(0), came("demo#a", version(0)));
    let mut fx = Effects::default();
    assert_eq!(tracker.turn(at(3), &mut fx), Some(at(10).mono));
    tracker.note(at(5), came("#c", version(1)));
    assert!(fx.batches.is_empty());
    assert_eq!(tracker.turn(at(10), &mut fx), None);
    assert_eq!(entries(&fx.batches).len(), 2);
    assert!(fx.batches.is_sorted_by_key(|batch| batch.bucket));
    tracker.note(at(11), came("demo#b", version(2)));
    assert!(out(&mut tracker, 1_000).is_empty(), "one batch is out at a time");
}

#[test]
fn a_transition_during_a_flight_is_written_after_it() {
    let mut tracker = tracker();
    tracker.note(at(0), came("demo#a", version(0)));
    assert_eq!(entries(&out(&mut tracker, 10)), [("demo#a", true)]);
    tracker.note(at(11), went("demo#a", version(11)));
    tracker.check();
    answer(&mut tracker, 12, vec![Put::Taken]);
    assert_eq!((tracker.unwritten(), tracker.digests.lag_ms(START_MS + 12)), (1, 1));
    tracker.check();
    assert_eq!(entries(&out(&mut tracker, 21)), [("demo#a", false)]);
    answer(&mut tracker, 22, vec![Put::Taken]);
    assert_eq!((tracker.ledger.len(), tracker.unwritten()), (0, 0), "offline and taken leaves");
    tracker.check();
}

#[test]
fn a_late_word_changes_nothing() {
    for copies in [true, false] {
        let mut tracker = PresenceTracker::new(Settings { copies, ..settings() }, Digests::new());
        tracker.note(at(0), came("demo#a", version(5)));
        for late in [version(5), version(4)] {
            tracker.note(at(1), went("demo#a", late));
        }
        let count = Count { online: 1, arrivals: 1, departures: 0 };
        assert_eq!(tracker.counts().of[&("demo".into(), "miop7")], count);
        assert_eq!(tracker.digests.tally(TrackerCounter::Late), 2);
        let histories = PresenceCommand::Histories(vec![who("demo#a"), who("demo#b")]);
        let PresenceAnswer::Histories(histories) = tracker.answer(&histories) else { panic!() };
        assert_eq!((histories.len(), histories[0].1.len()), (1, 1));
        tracker.check();
    }
}

#[test]
fn without_a_directory_there_are_counts_and_histories_and_nothing_else() {
    let mut tracker =
        PresenceTracker::new(Settings { copies: false, ..settings() }, Digests::new());
    tracker.note(at(0), came("demo#a", version(0)));
    tracker.note(at(1), went("demo#a", version(1)));
    tracker.note(at(1), came("#c", version(1)));
    let mut fx = Effects::default();
    assert_eq!(tracker.turn(at(1_000), &mut fx), None);
    compare(&mut tracker, 1_000, "demo#z", Some(foreign("here", 7, true, version(0))));
    assert_eq!((fx.batches.len(), tracker.unwritten(), tracker.ledger.len()), (0, 0, 0));
    let histories = PresenceCommand::Histories(vec![who("demo#a")]);
    let PresenceAnswer::Histories(histories) = tracker.answer(&histories) else { panic!() };
    let states: Vec<bool> = histories[0].1.iter().map(|one| one.state.is_online()).collect();
    assert_eq!(states, [true, false]);
    assert_eq!(tracker.counts().of[&("".into(), "miop7")].online, 1);
}

#[test]
fn a_take_over_counts_one_out_and_one_in() {
    let mut tracker = tracker();
    tracker.note(at(0), came("demo#a", version(0)));
    tracker.note(at(1), went("demo#a", version(1)));
    let newer = Transition { protocol: "miop5", ..came("demo#a", version(2)) };
    tracker.note(at(1), Transition { state: OnlineState::Online("miop5"), ..newer });
    let of = &tracker.counts().of;
    let (old, new) = (of[&("demo".into(), "miop7")], of[&("demo".into(), "miop5")]);
    assert_eq!(old, Count { online: 0, arrivals: 1, departures: 1 });
    assert_eq!(new, Count { online: 1, arrivals: 1, departures: 0 });
    let found = tracker.answer(&PresenceCommand::Find(vec![who("demo#a"), who("demo#b")]));
    let PresenceAnswer::Found(found) = found else { panic!() };
    assert_eq!((found.len(), found[0].state), (1, OnlineState::Online("miop5")));
    assert_eq!((found[0].version, found[0].since_ms), (version(2), START_MS + 2));
}

#[test]
fn after_a_fault_it_waits_longer_each_time_and_writes_what_is_newest() {
    let mut tracker = tracker();
    tracker.note(at(0), came("demo#a", version(0)));
    let (mut now, mut waits) = (10, Vec::new());
    for _ in 0..6 {
        assert_eq!(entries(&out(&mut tracker, now)), [("demo#a", true)]);
        tracker.written(at(now), Err(DirectoryError::Slow), &mut Effects::default());
        tracker.check();
        let again = tracker.turn(at(now), &mut Effects::default()).expect("it is tried again");
        waits.push((again - at(now).mono).as_millis() as u64);
        now += waits[waits.len() - 1] + 1;
    }
    let spans = [75..=100, 150..=200, 300..=400, 600..=800, 750..=1_000, 750..=1_000];
    assert!(waits.iter().zip(spans).all(|(wait, span)| span.contains(wait)), "{waits:?}");
    assert_eq!(tracker.digests.lag_ms(START_MS + now), now, "since it came");
    tracker.note(at(now), went("demo#a", version(now)));
    assert_eq!(entries(&out(&mut tracker, now)), [("demo#a", false)]);
    answer(&mut tracker, now, vec![Put::Taken]);
    tracker.note(at(now), came("demo#a", version(now + 1)));
    let soon = tracker.turn(at(now), &mut Effects::default());
    assert_eq!(soon, Some(at(now + 10).mono), "one answer is enough");
}

#[test]
fn answers_for_others_than_were_asked_are_a_fault() {
    let mut tracker = tracker();
    tracker.note(at(0), came("demo#a", version(0)));
    out(&mut tracker, 10);
    answer(&mut tracker, 11, vec![Put::Taken, Put::Taken]);
    assert_eq!(tracker.unwritten(), 1);
    tracker.check();
    out(&mut tracker, 200);
    answer(&mut tracker, 201, vec![Put::Taken]);
    let before = tracker.digests.tally(TrackerCounter::Taken);
    answer(&mut tracker, 202, vec![Put::Taken]);
    tracker.written(at(202), Err(DirectoryError::Slow), &mut Effects::default());
    assert_eq!((tracker.unwritten(), tracker.digests.tally(TrackerCounter::Taken)), (0, before));
    assert!(tracker.retry_at.is_none(), "a second answer is no answer");
}

#[test]
fn a_bucket_that_does_not_answer_holds_up_nobody() {
    let mut tracker = tracker();
    tracker.note(at(0), came("demo#a", version(0)));
    tracker.note(at(0), came("demo#b", version(1)));
    let batches = out(&mut tracker, 10);
    let puts = entries(&batches).into_iter().map(|(key, _)| match key {
        "demo#a" => Put::Untaken,
        _ => Put::Taken,
    });
    let puts = puts.collect();
    answer(&mut tracker, 11, puts);
    tracker.check();
    assert_eq!((tracker.unwritten(), tracker.digests.lag_ms(START_MS + 11)), (1, 11));
    tracker.note(at(12), came("demo#c", version(12)));
    assert_eq!(entries(&out(&mut tracker, 22)), [("demo#c", true)]);
    answer(&mut tracker, 23, vec![Put::Taken]);
    let again = tracker.turn(at(23), &mut Effects::default());
    assert_eq!(again, Some(at(11 + 250).mono));
    assert_eq!(entries(&out(&mut tracker, 261)), [("demo#a", true)]);
    tracker.check();
}

#[test]
fn another_nodes_newer_claim_ends_ours_and_its_end_is_not_written() {
    let mut tracker = settled("demo#a");
    let theirs = foreign("there", 3, true, version(500));
    let fx = compare(&mut tracker, 1_000, "demo#a", Some(theirs.clone()));
    assert_eq!(fx.outvoted, [(who("demo#a"), theirs.clone())]);
    assert_eq!(fx.observed, Some(version(500)), "what comes next is above theirs");
    assert_eq!(tracker.digests.of(bucket("demo#a")), Digest::default());
    assert!(memory(&tracker, "demo#a").is_empty());
    assert!(compare(&mut tracker, 1_001, "demo#a", Some(theirs)).outvoted.is_empty(), "once");
    tracker.check();
    // The hub ends it, with a version right behind its own.
    tracker.note(at(1_002), went("demo#a", PresenceVersion(version(0).0 + 1)));
    assert_eq!((tracker.ledger.len(), tracker.unwritten()), (0, 0));
    assert_eq!(tracker.counts().of[&("demo".into(), "miop7")].online, 0);
    tracker.note(at(1_003), came("demo#a", version(1_003)));
    assert_eq!(entries(&out(&mut tracker, 1_013)), [("demo#a", true)], "it may come back");
    tracker.check();
}

#[test]
fn a_claim_that_waited_while_another_node_took_over_is_given_up() {
    let mut tracker = tracker();
    tracker.note(at(0), came("demo#a", version(0)));
    out(&mut tracker, 60_000);
    let theirs = foreign("there", 3, true, version(30_000));
    let fx = answer(&mut tracker, 60_001, vec![Put::Kept(theirs)]);
    assert_eq!((fx.outvoted.len(), tracker.unwritten()), (1, 0));
    tracker.check();
}

#[test]
fn a_new_claim_wins_over_a_node_whose_clock_is_ahead() {
    let mut tracker = tracker();
    tracker.note(at(0), came("demo#a", version(0)));
    out(&mut tracker, 10);
    let theirs = foreign("there", 3, true, version(60_000));
    let fx = answer(&mut tracker, 11, vec![Put::Kept(theirs)]);
    assert!(fx.outvoted.is_empty() && fx.observed > Some(version(60_000)));
    tracker.check();
    let batches = out(&mut tracker, 11);
    let ours = &batches[0].entries[0].1;
    assert!(ours.online && ours.version > version(60_000));
    answer(&mut tracker, 12, vec![Put::Taken]);
    // Once taken it is as any other: a newer claim is a newer claim.
    let theirs = foreign("there", 3, true, version(120_000));
    let fx = compare(&mut tracker, 1_000, "demo#a", Some(theirs));
    assert_eq!(fx.outvoted.len(), 1);
    tracker.check();
}

#[test]
fn it_is_written_above_newer_records_three_times_and_no_more() {
    let mut tracker = tracker();
    tracker.note(at(0), came("demo#a", version(0)));
    for n in 1..=3 {
        assert_eq!(out(&mut tracker, 10 * n).len(), 1);
        let theirs = foreign("there", 3, true, version(60_000 * n));
        assert!(answer(&mut tracker, 10 * n, vec![Put::Kept(theirs)]).outvoted.is_empty());
    }
    assert_eq!(out(&mut tracker, 50).len(), 1);
    let theirs = foreign("there", 3, true, version(60_000 * 9));
    assert_eq!(answer(&mut tracker, 51, vec![Put::Kept(theirs)]).outvoted.len(), 1);
    tracker.check();
}

#[test]
fn leftovers_of_this_node_and_ends_anywhere_are_written_over() {
    let (old_boot, there) =
        (foreign("here", 3, true, version(70)), foreign("there", 3, false, version(70)));
    for leftover in [old_boot, there] {
        let mut tracker = tracker();
        tracker.note(at(0), came("demo#a", version(0)));
        out(&mut tracker, 10);
        let fx = answer(&mut tracker, 80, vec![Put::Kept(leftover.clone())]);
        assert!(fx.outvoted.is_empty() && fx.observed > Some(version(70)));
        let batches = out(&mut tracker, 81);
        assert!(batches[0].entries[0].1.version > version(70));
        answer(&mut tracker, 82, vec![Put::Taken]);
        // The same when it is found by comparison.
        let leftover = PresenceRecord { version: version(90), ..leftover };
        assert!(compare(&mut tracker, 100, "demo#a", Some(leftover)).outvoted.is_empty());
        tracker.check();
        assert!(out(&mut tracker, 110)[0].entries[0].1.version > version(90));
        // What the hub says below a version that was given here counts all the same.
        tracker.note(at(111), went("demo#a", version(1)));
        answer(&mut tracker, 112, vec![Put::Taken]);
        assert_eq!(entries(&out(&mut tracker, 121)), [("demo#a", false)]);
        tracker.note(at(122), went("demo#a", version(1)));
        assert_eq!(tracker.digests.tally(TrackerCounter::Late), 1, "once");
        tracker.check();
    }
}

#[test]
fn a_leftover_that_comes_back_each_time_is_left_until_it_is_compared_again() {
    let mut tracker = tracker();
    tracker.note(at(0), came("demo#a", version(0)));
    for n in 1..=4 {
        assert_eq!(out(&mut tracker, 100 * n).len(), 1, "{n}");
        let leftover = foreign("here", 3, true, version(1_000 * n));
        answer(&mut tracker, 100 * n, vec![Put::Kept(leftover)]);
        tracker.check();
    }
    assert_eq!((tracker.unwritten(), tracker.digests.tally(TrackerCounter::GivenUp)), (0, 1));
    assert!(!memory(&tracker, "demo#a")[0].settled, "it was never taken");
    compare(&mut tracker, 500, "demo#a", Some(foreign("here", 3, true, version(4_000))));
    assert!(out(&mut tracker, 510)[0].entries[0].1.version > version(4_000));
    answer(&mut tracker, 511, vec![Put::Taken]);
    assert!(memory(&tracker, "demo#a")[0].settled);
    tracker.check();
}

#[test]
fn an_end_here_is_moot_when_another_node_has_it() {
    let mut tracker = settled("demo#a");
    tracker.note(at(100), went("demo#a", version(100)));
    out(&mut tracker, 110);
    let theirs = foreign("there", 3, true, version(50));
    let fx = answer(&mut tracker, 111, vec![Put::Kept(theirs)]);
    assert_eq!((fx.outvoted.len(), tracker.ledger.len(), tracker.unwritten()), (0, 0, 0));
    tracker.check();
}

#[test]
fn what_is_missing_or_stale_is_written_again() {
    let mut tracker = settled("demo#a");
    let ours = memory(&tracker, "demo#a")[0].clone();
    assert!(ours.settled);
    compare(&mut tracker, 100, "demo#a", Some(ours.entry.1.clone()));
    assert_eq!(tracker.unwritten(), 0, "it agrees");
    compare(&mut tracker, 100, "demo#a", None);
    assert!(!memory(&tracker, "demo#a")[0].settled);
    assert_eq!(out(&mut tracker, 110)[0].entries[0], ours.entry);
    compare(&mut tracker, 111, "demo#a", None);
    answer(&mut tracker, 111, vec![Put::Taken]);
    let stale = PresenceRecord {
        version: PresenceVersion(version(0).0 - 1),
        online: false,
        ..ours.entry.1.clone()
    };
    compare(&mut tracker, 120, "demo#a", Some(stale));
    assert_eq!(out(&mut tracker, 130)[0].entries, [ours.entry]);
    let tallies =
        [TrackerCounter::Missing, TrackerCounter::Stale].map(|tally| tracker.digests.tally(tally));
    assert_eq!(tallies, [1, 1]);
    tracker.check();
}

#[test]
fn one_who_is_not_here_is_taken_back() {
    for boot in [7, 3] {
        let mut tracker = tracker();
        let extra = foreign("here", boot, true, version(50));
        let fx = compare(&mut tracker, 100, "demo#a", Some(extra));
        assert_eq!(fx.observed, Some(PresenceVersion(version(50).0 + 1)));
        tracker.check();
        let batches = out(&mut tracker, 110);
        let (_, tombstone) = &batches[0].entries[0];
        assert!(!tombstone.online && tombstone.version > version(50) && tombstone.boot == 7);
        // Whoever comes meanwhile is not held off by that, though its word be below.
        tracker.note(at(111), came("demo#a", version(50)));
        answer(&mut tracker, 112, vec![Put::Taken]);
        assert_eq!(entries(&out(&mut tracker, 121)), [("demo#a", true)]);
        answer(&mut tracker, 122, vec![Put::Taken]);
        tracker.check();
    }
    let mut tracker = tracker();
    compare(&mut tracker, 100, "demo#a", Some(foreign("there", 7, true, version(50))));
    compare(&mut tracker, 100, "demo#a", Some(foreign("here", 7, false, version(50))));
    compare(&mut tracker, 100, "nonsense", Some(foreign("here", 7, true, version(50))));
    assert_eq!(tracker.unwritten(), 0, "others are not ours, and ends are no claims");
}

#[test]
fn every_shard_takes_back_its_own() {
    let one = |shard| Settings { shards: 4, shard: ShardId(shard), ..settings() };
    for n in 0..40 {
        let key = format!("demo#{n}");
        let digests = Digests::new();
        for shard in 0..4 {
            let mut tracker = PresenceTracker::new(one(shard), digests.clone());
            compare(&mut tracker, 100, &key, Some(foreign("here", 7, true, version(50))));
            let owns = owner(settings().home, 4, &who(&key)) == ShardId(shard);
            assert_eq!(tracker.unwritten(), u64::from(owns));
        }
        assert_eq!(digests.unwritten(), 1);
    }
}

#[test]
fn versions_that_no_clock_can_have_are_not_believed() {
    let far = version(10 * 86_400_000);
    let mut tracker = settled("demo#a");
    let fx = compare(&mut tracker, 100, "demo#a", Some(foreign("here", 3, true, far)));
    assert_eq!(fx.observed, None, "hub and broker do not follow");
    let ours = out(&mut tracker, 110).remove(0).entries.remove(0).1;
    assert_eq!(ours.version, PresenceVersion(far.0 + 1), "but it is put right");
    answer(&mut tracker, 111, vec![Put::Taken]);
    tracker.note(at(200), went("demo#a", version(200)));
    assert_eq!(out(&mut tracker, 210)[0].entries[0].1.version, PresenceVersion(far.0 + 2));
    answer(&mut tracker, 211, vec![Put::Taken]);

    tracker.note(at(300), came("demo#b", version(300)));
    out(&mut tracker, 310);
    let made_up = foreign("here", 3, true, PresenceVersion(u64::MAX));
    answer(&mut tracker, 311, vec![Put::Kept(made_up.clone())]);
    assert!(!memory(&tracker, "demo#b")[0].settled, "no version is above it");
    assert_eq!(tracker.unwritten(), 0);
    compare(&mut tracker, 400, "demo#c", Some(made_up));
    tracker.check();
    compare(&mut tracker, 500, "demo#b", None);
    out(&mut tracker, 510);
    answer(&mut tracker, 511, vec![Put::Taken]);
    assert!(memory(&tracker, "demo#b")[0].settled, "after it was swept away");
}

#[test]
fn a_crowd_goes_at_once_and_by_buckets() {
    let mut tracker = tracker();
    for n in 0..20_000 {
        tracker.note(at(0), came(&format!("demo#{n}"), version(n)));
    }
    let (mut batches, mut parts, mut records) = (0, 0, 0);
    loop {
        let out = out(&mut tracker, 10 * batches);
        if out.is_empty() {
            break;
        }
        let puts: Vec<Put> = entries(&out).iter().map(|_| Put::Taken).collect();
        assert!(puts.len() <= BATCH_MAX);
        (batches, parts, records) = (batches + 1, parts + out.len(), records + puts.len());
        answer(&mut tracker, 10 * batches, puts);
    }
    assert_eq!((records, tracker.unwritten()), (20_000, 0));
    assert!(batches == 10 && parts < 13_000, "{batches} {parts}");
    tracker.check();
}

#[test]
fn too_many_that_are_gone_are_forgotten_and_found_by_comparison() {
    let shards = 1_024;
    let mut tracker = PresenceTracker::new(Settings { shards, ..settings() }, Digests::new());
    let max = ABSENT_MAX as u64 / u64::from(shards);
    for n in 0..max + 10 {
        tracker.note(at(0), came(&format!("demo#{n}"), version(2 * n)));
        tracker.note(at(0), went(&format!("demo#{n}"), version(2 * n + 1)));
    }
    assert_eq!(tracker.unwritten(), max);
    assert!(tracker.queue.len() <= max as usize + 1);
    assert_eq!(tracker.digests.tally(TrackerCounter::Forgotten), 10);
    tracker.check();
}

#[test]
fn a_users_name_is_in_the_record_and_a_taken_mark_is_of_one_version() {
    let mut tracker = tracker();
    let user: Option<Arc<str>> = Some("ann b".into());
    tracker.note(at(0), Transition { user, ..came("#c", version(0)) });
    let batches = out(&mut tracker, 10);
    assert_eq!(batches[0].entries[0].1.user.as_deref(), Some("ann b"));
    answer(&mut tracker, 11, vec![Put::Taken]);
    let taken = |tracker: &PresenceTracker| {
        tracker.ledger.bucket(bucket("#c")).all(|(_, entry)| entry.is(TAKEN))
    };
    assert!(taken(&tracker));
    tracker.note(at(12), came("#c", version(12)));
    assert!(!taken(&tracker));
}

#[test]
fn a_version_a_day_ahead_is_a_clocks_and_one_beyond_it_is_not() {
    let ahead = |ms: u64| PresenceVersion((START_MS + ms - MessageId::EPOCH_MS) << 22);
    let day_ms = 86_400_000;
    for (seen, follows) in [(ahead(day_ms), true), (ahead(day_ms + 1), false)] {
        let mut tracker = tracker();
        tracker.note(at(0), came("demo#a", version(0)));
        let above = tracker.above(at(0), seen);
        assert!(above > seen);
        assert_eq!(tracker.clock.last() > seen, follows, "the own clock follows it");
        assert!(follows || above == PresenceVersion(seen.0 + 1));
    }
}

#[test]
fn writes_that_fail_are_tried_again_after_pauses_that_double_up_to_their_longest() {
    let mut tracker = tracker();
    tracker.note(at(0), came("demo#a", version(0)));
    let mut ms = 10;
    for longest in [BACKOFF_MS, 2 * BACKOFF_MS, 4 * BACKOFF_MS] {
        assert!(!out(&mut tracker, ms).is_empty());
        let mut fx = Effects::default();
        tracker.written(at(ms), Err(DirectoryError::Slow), &mut fx);
        let pause_ms = (tracker.retry_at.expect("a pause") - at(ms).mono).as_millis() as u64;
        let most = longest.min(BACKOFF_MS_MAX);
        assert!((most * 3 / 4..=most).contains(&pause_ms), "{pause_ms} of {most}");
        assert!(out(&mut tracker, ms + pause_ms - 1).is_empty(), "not before");
        ms += pause_ms;
    }
    for _ in 0..20 {
        ms += BACKOFF_MS_MAX;
        assert!(!out(&mut tracker, ms).is_empty());
        tracker.written(at(ms), Err(DirectoryError::Slow), &mut Effects::default());
        assert!(tracker.backoff_ms <= BACKOFF_MS_MAX);
    }
    assert_eq!(tracker.backoff_ms, BACKOFF_MS_MAX);
    assert!(!out(&mut tracker, ms + BACKOFF_MS_MAX).is_empty());
    answer(&mut tracker, ms + BACKOFF_MS_MAX, vec![Put::Taken]);
    assert_eq!((tracker.backoff_ms, tracker.retry_at), (0, None));
}

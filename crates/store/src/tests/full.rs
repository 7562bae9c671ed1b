//! A disk that is full: what is still taken, and how it comes to have room again by itself.

use super::*;
use crate::reserve::RESERVE_BYTES;

/// A folder on a disk of so many bytes.
struct Small {
    folder: TempDir,
    files: Faulty,
}

impl Small {
    fn new(bytes: u64) -> Small {
        let small = Small { folder: TempDir::new().expect("a folder"), files: Faulty::default() };
        small.resize(bytes);
        small
    }

    fn resize(&self, bytes: u64) {
        self.files.set(|faults| faults.disk = Some((self.folder.path().into(), bytes)));
    }

    /// Nothing more fits on it.
    fn choke(&self) {
        self.resize(used(self.folder.path()));
    }

    fn open(&self, settings: Settings) -> (Desk, Recovered) {
        Desk::open(self.folder.path(), settings, self.files.clone()).expect("opens")
    }

    fn reserve(&self) -> u64 {
        std::fs::metadata(self.folder.path().join("reserve")).map_or(0, |found| found.len())
    }
}

fn large(id: u64) -> Entry {
    Entry::Waits { push: push(id, &[1; 900]), device: device(id) }
}

/// Stores until there is no room; how many waits there are.
fn fill(desk: &mut Desk) -> u64 {
    let stored = (1..1_000).take_while(|id| desk.put(large(*id)) == Ok(())).count() as u64;
    assert!((30..900).contains(&stored), "{stored}");
    assert_eq!(desk.put(large(1_000)), Err(StoreError::Full));
    stored
}

#[test]
fn a_full_disk_has_room_again_when_nothing_waits_any_more() {
    for (segment_bytes, at_once) in
        [(1 << 26, true), (1 << 26, false), (8_192, true), (8_192, false)]
    {
        let small = Small::new(RESERVE_BYTES + 65_536);
        let (mut desk, _) = small.open(Settings { segment_bytes, ..settings() });
        assert_eq!(small.reserve(), RESERVE_BYTES);
        assert_eq!(desk.put(product("p", 1)), Ok(()));
        let stored = fill(&mut desk);
        small.choke();
        if at_once {
            desk.submit((1..=stored).map(over).collect());
            assert!(desk.completed().iter().all(|(_, answer)| *answer == Ok(())));
        } else {
            (1..=stored).for_each(|id| assert_eq!(desk.put(over(id)), Ok(()), "{id}"));
        }
        assert_eq!(desk.put(large(2_000)), Ok(()), "{segment_bytes} {at_once}");
        assert_eq!(small.reserve(), RESERVE_BYTES, "for the next time");
        drop(desk);
        let (_, recovered) = small.open(settings());
        assert_eq!(recovered.entries, [product("p", 1), large(2_000)]);
    }
}

#[test]
fn on_a_full_disk_what_ends_is_taken_and_the_rest_of_the_batch_is_not() {
    let small = Small::new(RESERVE_BYTES + 65_536);
    let (mut desk, _) = small.open(settings());
    let stored = fill(&mut desk);
    small.choke();
    desk.submit(vec![large(2_000), over(1), blocked(7, true), Entry::NoProduct(key("q"))]);
    let answers: Vec<_> = desk.completed().into_iter().map(|(_, answer)| answer).collect();
    let full = Err(StoreError::Full);
    assert_eq!(answers, [full, Ok(()), full, Ok(())]);
    assert_eq!(desk.put(waits(2_001)), full, "the reserve is not for what waits");
    assert_eq!(desk.store.sizes().waits, stored - 1);
    drop(desk);
    assert_eq!(small.open(settings()).1.entries, (2..=stored).map(large).collect::<Vec<_>>());
}

#[test]
fn what_ends_beyond_the_reserve_lets_segments_go_all_the_same() {
    const DEVICES: u64 = 6_000;
    let small = Small::new(1 << 24);
    let (mut desk, _) = small.open(Settings { segment_bytes: 65_536, ..settings() });
    // More than what is left where no more endings fit: needs the reserve's last part.
    let state: Vec<_> = (1_000..1_300).map(|n| blocked(n, true)).collect();
    desk.submit(state.clone());
    assert_eq!(desk.completed().len(), state.len());
    let shared = push(1, b"for all");
    let to = |n| Entry::Waits { push: shared.clone(), device: device(n) };
    desk.submit((0..DEVICES).map(to).collect());
    assert_eq!(desk.completed().len() as u64, DEVICES);
    small.choke();
    assert_eq!(desk.put(waits(10_000)), Err(StoreError::Full));
    let over = |n| Entry::Over { product: key("p"), device: device(n), id: MessageId(1) };
    let mut refused = 0;
    for some in (0..DEVICES).collect::<Vec<_>>().chunks(100) {
        desk.submit(some.iter().copied().map(over).collect());
        refused += desk.completed().iter().filter(|(_, answer)| answer.is_err()).count();
    }
    assert!((100..DEVICES as usize - 1_000).contains(&refused), "{refused}");
    assert_eq!((desk.store.sizes().waits, desk.store.sizes().segments), (0, 1));
    assert_eq!(desk.put(waits(10_000)), Ok(()));
    assert_eq!(small.reserve(), RESERVE_BYTES);
    drop(desk);
    let (_, recovered) = small.open(settings());
    assert_eq!(recovered.entries, [&state[..], &[waits(10_000)]].concat());
}

#[test]
fn a_disk_becomes_full_and_has_room_again_many_times() {
    let small = Small::new(RESERVE_BYTES + 65_536);
    let (mut desk, _) = small.open(settings());
    assert_eq!(desk.put(product("p", 1)), Ok(()));
    for round in 0..5 {
        let stored = fill(&mut desk);
        (1..=stored).for_each(|id| assert_eq!(desk.put(over(id)), Ok(()), "{round}: {id}"));
        assert_eq!(desk.put(large(2_000)), Ok(()), "{round}");
        assert_eq!(desk.put(over(2_000)), Ok(()));
    }
    drop(desk);
    assert_eq!(small.open(settings()).1.entries, [product("p", 1)]);
}

#[test]
fn what_waits_later_does_not_hold_what_filled_the_disk() {
    let small = Small::new(RESERVE_BYTES + 65_536);
    let (mut desk, _) = small.open(settings());
    let stored = fill(&mut desk);
    small.resize(RESERVE_BYTES * 2);
    assert_eq!(desk.put(large(2_000)), Ok(()), "room came back from outside");
    (1..=stored).for_each(|id| assert_eq!(desk.put(over(id)), Ok(()), "{id}"));
    let sizes = desk.store.sizes();
    assert_eq!((sizes.segments, sizes.waits), (1, 1));
    assert!(sizes.journal_bytes < 16_384, "{}", sizes.journal_bytes);
}

#[test]
fn a_start_on_a_full_disk_has_the_reserves_room() {
    let small = Small::new(RESERVE_BYTES + 65_536);
    let (mut desk, _) = small.open(settings());
    let stored = fill(&mut desk);
    drop(desk);
    small.choke();
    let (mut desk, recovered) = small.open(settings());
    assert_eq!(recovered.entries.len() as u64, stored);
    assert_eq!(small.reserve(), RESERVE_BYTES, "what was copied is deleted");
    desk.submit((1..=stored).map(over).collect());
    assert!(desk.completed().iter().all(|(_, answer)| *answer == Ok(())));
    assert_eq!(desk.put(large(2_000)), Ok(()));
}

#[test]
fn without_room_for_the_reserve_nothing_waits_until_there_is() {
    let small = Small::new(RESERVE_BYTES / 2);
    let (mut desk, _) = small.open(settings());
    assert_eq!((desk.put(waits(1)), small.reserve()), (Err(StoreError::Full), 0));
    small.resize(RESERVE_BYTES * 2);
    assert_eq!((desk.put(waits(1)), small.reserve()), (Ok(()), RESERVE_BYTES));
}

#[test]
fn a_full_disk_that_is_idle_is_not_written_again_and_again() {
    let small = Small::new(RESERVE_BYTES + 65_536);
    let (mut desk, _) = small.open(settings());
    desk.submit((0..500).map(|n| blocked(n, true)).collect());
    assert_eq!(desk.completed().len(), 500);
    let huge = |id| Entry::Waits { push: push(id, &[1; 100_000]), device: device(1) };
    assert_eq!(desk.put(huge(1)), Err(StoreError::Full));
    let names = segments(small.folder.path());
    (2..9).for_each(|id| assert_eq!(desk.put(huge(id)), Err(StoreError::Full)));
    assert_eq!(segments(small.folder.path()), names);
}

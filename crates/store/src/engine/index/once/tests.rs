//! Appends remembered in memory and state together.

use super::*;
use crate::engine::MemoryState;

fn claim(n: u128, made_s: u32) -> Claim {
    Claim { key: OnceKey(n), crc: 1, made_s }
}

fn place(offset: u32) -> Place {
    Place { segment: 1, offset }
}

const ONE_BYTES: usize = BYTES_EACH + size_of::<Seq>();

fn limits(count_max: usize, resident_max: usize) -> Limits {
    Limits { count_max, age_s_max: 100, bytes_max: resident_max * ONE_BYTES }
}

fn insert(once: &mut Once, n: u32, made_s: u32) {
    once.insert(claim(n.into(), made_s), place(n), n.into(), [n.into()].into());
}

/// A checkpoint, in slices of so many keys.
fn tell(once: &mut Once, state: &MemoryState, slice: usize) {
    let mut untold = once.take_untold();
    while !untold.is_empty() {
        let rest = untold.split_off(slice.min(untold.len()));
        let changes = once.changes(&untold, rest.is_empty());
        state.write(changes).expect("memory");
        once.told(&rest);
        untold = rest;
    }
    state.write(vec![once.count_change()]).expect("memory");
    once.is_sealed();
}

/// Everything that is due goes.
fn forget(once: &mut Once, state: &MemoryState, now_s: u32) {
    once.trim(now_s);
    let mut from = Some(Vec::new());
    while let Some(key) = from {
        let forgot = once.forget(now_s, key).run(state);
        assert_eq!(forgot.error, None);
        once.has_forgotten(forgot.keys);
        from = forgot.rest;
    }
}

fn id_of(once: &Once, state: &MemoryState, now_s: u32, n: u32) -> Option<u64> {
    let found = once.find(state, now_s, OnceKey(n.into())).expect("memory");
    found.map(|first| first.id)
}

fn rows_of(state: &MemoryState) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let mut each = |key: &[u8], value: &[u8]| {
        rows.push((key.to_vec(), value.to_vec()));
        true
    };
    state.range(Keep::Once, (&[], &[u8::MAX; 17]), false, &mut each).expect("memory");
    rows
}

#[test]
fn a_key_is_known_after_many_others_though_memory_holds_few_and_after_a_restart() {
    let state = MemoryState::default();
    let mut once = Once::open(&state, limits(1 << 20, 100)).expect("memory");
    for n in 0..50_000 {
        insert(&mut once, n, 10);
        once.trim(10);
        if n % 3_000 == 2_999 {
            tell(&mut once, &state, 1_000);
            once.trim(10);
            assert!(once.firsts.len() <= 100, "{} in memory", once.firsts.len());
        }
    }
    tell(&mut once, &state, 1_000);
    let again = Once::open(&state, limits(1 << 20, 100)).expect("memory");
    assert_eq!((once.len(), again.len(), again.firsts.len()), (50_000, 50_000, 0));
    for once in [&once, &again] {
        for n in [0, 1, 255, 256, 25_000, 49_999] {
            assert_eq!(id_of(once, &state, 110, n), Some(n.into()), "{n}");
        }
        assert_eq!(id_of(once, &state, 110, 50_000), None);
        assert_eq!(id_of(once, &state, 111, 25_000), None, "too old");
    }
}

#[test]
fn what_state_was_not_told_of_stays_in_memory_beyond_its_bytes() {
    let state = MemoryState::default();
    let mut once = Once::new(limits(1 << 20, 10));
    (0..500).for_each(|n| insert(&mut once, n, 10));
    once.trim(10);
    assert_eq!(once.firsts.len(), 500);
    let mut untold = once.take_untold();
    let rest = untold.split_off(300);
    once.trim(10);
    assert_eq!(once.firsts.len(), 500, "it is being told");
    let changes = once.changes(&untold, false);
    state.write(changes).expect("memory");
    once.told(&rest);
    once.trim(10);
    assert_eq!(once.firsts.len(), 200);
    once.tell_again(rest);
    once.trim(10);
    assert_eq!(once.firsts.len(), 200, "the rest was not told after all");
    assert!((0..500).all(|n| id_of(&once, &state, 10, n) == Some(n.into())));
}

#[test]
fn rows_go_with_their_keys_by_age_and_by_count() {
    let state = MemoryState::default();
    let mut once = Once::open(&state, limits(1_000, 1)).expect("memory");
    for n in 0..3_000 {
        insert(&mut once, n, 10 + n / 1_000);
        if n % 512 == 511 {
            tell(&mut once, &state, 256);
        }
    }
    tell(&mut once, &state, 256);
    forget(&mut once, &state, 20);
    assert!((1_000..1_256).contains(&once.len()), "{} are left", once.len());
    assert_eq!(id_of(&once, &state, 20, 0), None);
    assert!((2_000..3_000).all(|n| id_of(&once, &state, 20, n) == Some(n.into())));
    let rows = rows_of(&state).len() as u64;
    assert_eq!(rows, once.len() + once.len().div_ceil(256), "no look-up is left behind");
    forget(&mut once, &state, 113);
    assert_eq!((once.len(), rows_of(&state).len()), (0, 0));
    assert_eq!(Once::open(&state, limits(9, 9)).expect("memory").len(), 0);
}

#[test]
fn a_checkpoint_that_is_not_sealed_counts_no_key_twice_and_what_is_forgotten_counts_nothing() {
    let state = MemoryState::default();
    let mut once = Once::open(&state, limits(20, 100)).expect("memory");
    tell(&mut once, &state, 256);
    for _ in 0..10 {
        let mut again = Once::open(&state, limits(20, 100)).expect("memory");
        (0..90).for_each(|n| insert(&mut again, n, 10));
        again.trim(10);
        let untold = again.take_untold();
        let changes = again.changes(&untold, true);
        state.write(changes).expect("memory");
        again.told(&Untold::new());
    }
    let mut once = Once::open(&state, limits(20, 100)).expect("memory");
    (0..90).for_each(|n| insert(&mut once, n, 10));
    once.trim(10);
    tell(&mut once, &state, 256);
    assert_eq!(once.len(), 20);
    once.insert(claim(0, 10), place(91), 91, [91].into());
    tell(&mut once, &state, 256);
    forget(&mut once, &state, 10);
    let again = Once::open(&state, limits(20, 100)).expect("memory");
    assert_eq!(id_of(&again, &state, 10, 0), Some(91), "the newest is not spare");
}

#[test]
fn a_key_that_is_claimed_anew_does_not_go_with_its_old_row() {
    let state = MemoryState::default();
    let mut once = Once::open(&state, limits(1 << 20, 0)).expect("memory");
    insert(&mut once, 1, 10);
    tell(&mut once, &state, 256);
    once.trim(120);
    once.insert(claim(1, 120), place(9), 9, [9].into());
    tell(&mut once, &state, 256);
    forget(&mut once, &state, 121);
    assert_eq!(id_of(&once, &state, 121, 1), Some(9));
    assert_eq!(once.len(), 1);
}

#[test]
fn the_count_is_exact_in_memory_and_state_does_not_remember_more() {
    let state = MemoryState::default();
    let mut once = Once::open(&state, limits(3, 100)).expect("memory");
    (0..5).for_each(|n| insert(&mut once, n, 10 + n));
    tell(&mut once, &state, 256);
    once.trim(20);
    let there = |once: &Once, now_s| {
        (0..5).filter(|&n| id_of(once, &state, now_s, n).is_some()).collect::<Vec<_>>()
    };
    assert_eq!(there(&once, 20), [2, 3, 4]);
    once.trim(113);
    assert_eq!(there(&once, 113), [3, 4], "the one of second 12 is too old");
}

#[test]
fn rows_of_earlier_builds_are_taken_over_whole_whatever_dies_in_between() {
    let state = MemoryState::default();
    let mut before = Once::new(limits(1 << 20, 1 << 20));
    (0..1_000).for_each(|n| insert(&mut before, n, 10));
    // As the build before wrote it: rows of many, no look-up, and no count; and the one before that
    // a row for each.
    for mut change in before.changes(&before.untold.clone(), false) {
        if change.key.len() == 8 {
            change.space = Keep::Once;
            state.write(vec![change]).expect("memory");
        }
    }
    let single = single(
        2_000,
        &First { place: place(2_000), made_s: 10, crc: 1, id: 2_000, seqs: [2_000].into() },
    );
    state.write(vec![single]).expect("memory");
    for dies_after in [0, 1] {
        let mut once = Once::open(&state, limits(1 << 20, 100)).expect("memory");
        let all = |once: &Once| {
            (0..1_000).chain([2_000]).all(|n| id_of(once, &state, 10, n) == Some(n.into()))
        };
        assert!(all(&once), "before it dies after {dies_after} slices");
        let (mut untold, mut slices) = (once.take_untold(), 0);
        while !untold.is_empty() && slices < dies_after {
            let rest = untold.split_off(once.at_once(300).min(untold.len()));
            let changes = once.changes(&untold, rest.is_empty());
            state.write(changes).expect("memory");
            once.told(&rest);
            (untold, slices) = (rest, slices + 1);
        }
        assert!(all(&once));
    }
    let once = Once::open(&state, limits(1 << 20, 100)).expect("memory");
    assert_eq!((once.firsts.len(), once.len()), (0, 1_001), "it is as this build has it");
    assert!(rows_of(&state).iter().all(|(key, _)| key.len() != 16), "no row of one is left");
    assert_eq!(once.newest(&state, 9_999).expect("memory").len(), 1_001);
}

fn single(n: u128, first: &First) -> StateChange {
    let mut value = vec![1];
    crate::engine::record::put_place(first.place, &mut value);
    value.extend_from_slice(&first.made_s.to_le_bytes());
    value.extend_from_slice(&first.crc.to_le_bytes());
    value.extend_from_slice(&first.id.to_le_bytes());
    put_small(first.seqs.len() as u64, &mut value);
    first.seqs.iter().for_each(|&seq| put_small(seq, &mut value));
    StateChange::put(Keep::Once, n.to_be_bytes(), value)
}

#[test]
fn the_newest_are_those_of_memory_and_state_in_their_order() {
    let state = MemoryState::default();
    let mut once = Once::open(&state, limits(1 << 20, 5)).expect("memory");
    (0..600).for_each(|n| insert(&mut once, n, 10));
    tell(&mut once, &state, 256);
    once.trim(10);
    (600..610).for_each(|n| insert(&mut once, n, 10));
    let ids = |count| {
        let newest = once.newest(&state, count).expect("memory");
        newest.iter().map(|(_, first)| first.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(1_000), (0..610).collect::<Vec<_>>());
    assert_eq!(ids(12), (598..610).collect::<Vec<_>>());
}

#[test]
fn state_and_replay_together_keep_the_order() {
    let state = MemoryState::default();
    let mut before = Once::open(&state, limits(10, 10)).expect("memory");
    (0..4).for_each(|n| insert(&mut before, n, 10));
    tell(&mut before, &state, 256);
    let mut after = Once::open(&state, limits(10, 10)).expect("memory");
    // The checkpoint was not sealed: the log says it again.
    (2..6).for_each(|n| insert(&mut after, n, 10));
    assert!((0..6).all(|n| id_of(&after, &state, 10, n) == Some(n.into())));
    tell(&mut after, &state, 256);
    assert!((0..6).all(|n| id_of(&after, &state, 10, n) == Some(n.into())));
    assert_eq!(after.newest(&state, 99).expect("memory").len(), 6);
}

#[test]
fn a_row_that_is_cut_or_under_another_key_makes_no_sense() {
    let mut once = Once::new(limits(9, 9));
    once.insert(claim(5, 10), place(300), 7, [1, 2].into());
    once.insert(claim(6, 9), place(400), 6, [u64::MAX].into());
    let untold = once.take_untold();
    let changes = once.changes(&untold, true);
    let row = changes.into_iter().find(|it| it.key.len() == 8).expect("there is one");
    let (key, value) = (row.key, row.value.expect("it is put"));
    assert_eq!(read_row(&key, &value).map(|row| row.len()), Some(2));
    for cut in 0..value.len() {
        assert!(read_row(&key, &value[..cut]).is_none(), "cut at {cut}");
    }
    assert!(read_row(&row_key(place(301)), &value).is_none());
    assert_eq!((read_count(&[1, 5]), read_count(&[2, 5]), read_count(&[1])), (Some(5), None, None));
}

#[test]
fn one_that_is_taken_back_weighs_nothing_and_nobody_is_told() {
    let mut once = Once::new(limits(3, 3));
    insert(&mut once, 1, 10);
    once.take_back(OnceKey(1));
    assert_eq!((once.len(), once.bytes, once.queue.len()), (0, 0, 0));
    assert!(once.take_untold().is_empty());
}

//! Memory of a ledger of a hundred thousand devices, measured through capacities.

use super::*;

/// Bytes of a name as an allocator gives them: in steps of sixteen.
fn heap(bytes: usize) -> usize {
    bytes.next_multiple_of(16)
}

#[test]
fn a_device_in_the_ledger_takes_about_ninety_bytes_with_its_name() {
    const DEVICES: u64 = 100_000;
    let mut tracker =
        PresenceTracker::new(Settings { history_max: 65_536, ..settings() }, Digests::new());
    let fixed = tracker.ledger.bytes();
    let mut names = 0;
    for n in 0..DEVICES {
        let key = format!("demo#host-1-{n}");
        names += heap(key.len());
        tracker.note(at(0), came(&key, version(n)));
    }
    let per_device = |bytes: usize| bytes as f64 / DEVICES as f64;
    let ledger = per_device(tracker.ledger.bytes() - fixed);
    let (queue, names) = (per_device(tracker.queue.bytes()), per_device(names));
    let history = tracker.history.bytes();
    println!("ledger {ledger:.1} + names {names:.1} + waiting {queue:.1} bytes a device");
    println!("tables {fixed} bytes a shard, history {history} bytes");
    assert!((44.0..64.0).contains(&ledger), "{ledger}");
    assert!(names + ledger + queue < 96.0, "{}", names + ledger + queue);
    assert!(queue < 6.0, "{queue}");
    assert!(fixed < 600_000, "{fixed}");
    assert!(history < 65_536 * 40, "{history}");
}

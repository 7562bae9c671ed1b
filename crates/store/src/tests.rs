//! The store as its users see it: what comes back after a crash, and what it says when the outside
//! fails. Faults are made by [`Faulty`], the real disk with a hand on it.

mod full;

use super::*;
use files::File;
use model::id::{DeviceId, MessageId, ProductKey};
use model::ports::journal::StoreError;
use model::product::{Product, Secret};
use model::push::{Priority, Push};
use std::io;
use std::sync::Condvar;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;
use tempfile::TempDir;

const SHARD: ShardId = ShardId(0);

#[derive(Default)]
struct Faults {
    room: Option<u64>,
    /// A data folder, and the bytes that its files may have together.
    disk: Option<(PathBuf, u64)>,
    write_error: Option<i32>,
    sync_error: bool,
    read_only: bool,
    hold_sync: bool,
    syncs: u32,
    written: Vec<usize>,
}

#[derive(Clone, Default)]
struct Faulty(Arc<(Mutex<Faults>, Condvar)>);

impl Faulty {
    fn set(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.0.0.lock().expect("no panic"));
        self.0.1.notify_all();
    }

    fn wait(&self, until: impl Fn(&Faults) -> bool) {
        let held = self.0.0.lock().expect("no panic");
        drop(self.0.1.wait_while(held, |faults| !until(faults)).expect("no panic"));
    }

    fn guard(&self) -> io::Result<()> {
        match self.0.0.lock().expect("no panic").read_only {
            true => Err(io::Error::from_raw_os_error(30)), // EROFS
            false => Ok(()),
        }
    }
}

struct FaultyFile(Box<dyn File>, Faulty, PathBuf);

impl FaultyFile {
    /// Bytes of a write at this place that fit on the disk.
    fn fits(&self, (root, disk): &(PathBuf, u64), offset: u64, bytes: usize) -> u64 {
        let present = std::fs::metadata(&self.2).map_or(0, |found| found.len());
        let others = used(root) - present;
        (offset + bytes as u64).min(disk.saturating_sub(others).max(present)).saturating_sub(offset)
    }
}

/// Bytes of all files of a data folder.
fn used(root: &Path) -> u64 {
    let files = [root.to_path_buf(), root.join("journal")].into_iter().flat_map(std::fs::read_dir);
    let files = files.flatten().filter_map(|entry| entry.ok()?.metadata().ok());
    files.filter(|found| found.is_file()).map(|found| found.len()).sum()
}

impl File for FaultyFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut faults = self.1.0.0.lock().expect("no panic");
        if let Some(errno) = faults.write_error {
            self.0.write_at(offset, &bytes[..bytes.len() / 2])?;
            return Err(io::Error::from_raw_os_error(errno));
        }
        let disk = faults.disk.as_ref().map(|disk| self.fits(disk, offset, bytes.len()));
        if let Some(room) = faults.room.or(disk) {
            let fits = room.min(bytes.len() as u64);
            faults.room = faults.room.map(|room| room - fits);
            self.0.write_at(offset, &bytes[..fits as usize])?;
            if fits < bytes.len() as u64 {
                // What the kernel says when a disk is full, from the kernel.
                let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
                return io::Write::write_all(&mut &full, &bytes[fits as usize..]);
            }
            return Ok(());
        }
        faults.written.push(bytes.len());
        self.0.write_at(offset, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.1.set(|faults| faults.syncs += 1);
        self.1.wait(|faults| !faults.hold_sync);
        match self.1.0.0.lock().expect("no panic").sync_error {
            true => Err(io::Error::from_raw_os_error(5)), // EIO
            false => Ok(()), // no test cuts the power, and a disk under load takes its time
        }
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.0.cut(length)
    }
}

impl Files for Faulty {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        Disk.make_folder(path)
    }
    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        Disk.names(folder)
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Disk.read(path)
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.guard()?;
        Ok(Box::new(FaultyFile(Disk.open(path)?, self.clone(), path.into())))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.guard()?;
        Disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.guard()?;
        Disk.remove(path)
    }
    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        self.guard()
    }
}

/// A store in a folder that vanishes, with what it completes.
struct Desk {
    store: Store,
    done: Receiver<(ShardId, Vec<Completion>)>,
    ticket: Ticket,
}

impl Desk {
    fn open(
        folder: &Path,
        settings: Settings,
        files: Faulty,
    ) -> Result<(Desk, Recovered), OpenError> {
        let (tell, done) = sync_channel(10_000);
        let on_complete = move |shard, completed| tell.send((shard, completed)).unwrap_or(());
        let (store, recovered) = Store::open_with(folder, settings, Arc::new(files), on_complete)?;
        Ok((Desk { store, done, ticket: 0 }, recovered))
    }

    fn plain(folder: &Path) -> (Desk, Recovered) {
        Desk::open(folder, settings(), Faulty::default()).expect("opens")
    }

    fn submit(&mut self, entries: Vec<Entry>) {
        let count = entries.len() as u64;
        let ticketed = entries.into_iter().enumerate();
        let ticketed = ticketed.map(|(at, entry)| (self.ticket + at as u64, entry)).collect();
        self.store.submit(SHARD, ticketed).expect("room");
        self.ticket += count;
    }

    fn completed(&self) -> Vec<Completion> {
        self.done.recv_timeout(Duration::from_secs(30)).expect("is completed").1
    }

    /// One entry, and its answer.
    fn put(&mut self, entry: Entry) -> Result<(), StoreError> {
        self.submit(vec![entry]);
        let completed = self.completed();
        assert_eq!((completed.len(), completed[0].0), (1, self.ticket - 1));
        completed[0].1
    }
}

fn settings() -> Settings {
    Settings::new([7; 32])
}

fn key(name: &str) -> ProductKey {
    ProductKey::parse(name).expect("allowed")
}

fn device(n: u64) -> DeviceId {
    DeviceId::parse(&format!("d{n}")).expect("allowed")
}

fn push(id: u64, body: &[u8]) -> Arc<Push> {
    Arc::new(Push {
        id: MessageId(id),
        product: key("p"),
        app_id: 1,
        body: body.into(),
        collapse: id.is_multiple_of(2).then(|| "c".into()),
        expire_at: 2_000_000_000,
        priority: Priority::High,
        silent: true,
    })
}

fn waits(id: u64) -> Entry {
    Entry::Waits { push: push(id, &[id as u8; 40]), device: device(id) }
}

fn over(id: u64) -> Entry {
    Entry::Over { product: key("p"), device: device(id), id: MessageId(id) }
}

fn blocked(id: u64, blocked: bool) -> Entry {
    Entry::Blocked { product: key("p"), device: device(id), blocked }
}

fn product(name: &str, app_id: u32) -> Entry {
    let mut product = Product::new(key(name), app_id);
    product.secrets.push(Secret { key_id: 1, bytes: vec![9; 32].into() });
    Entry::Product(Arc::new(product))
}

/// A data folder made by hand around one segment.
fn laid_out(segment: &[u8]) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    std::fs::create_dir(folder.path().join("journal")).expect("room");
    for (name, bytes) in [
        ("FORMAT", &b"holdline data 1\n"[..]),
        ("node.secret", &[7; 32]),
        ("journal/0000000001.log", segment),
    ] {
        std::fs::write(folder.path().join(name), bytes).expect("room");
    }
    folder
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let names = std::fs::read_dir(folder.join("journal")).expect("is there");
    let mut paths: Vec<_> = names.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    paths
}

fn refused(folder: &Path, files: Faulty) -> OpenError {
    Desk::open(folder, settings(), files).map(|_| ()).expect_err("must not open")
}

#[test]
fn what_is_alive_comes_back_in_order() {
    let folder = TempDir::new().expect("a folder");
    let (mut desk, recovered) = Desk::plain(folder.path());
    assert_eq!((recovered.entries.len(), recovered.secret), (0, [7; 32]));
    let shared = push(50, b"for all");
    let to_all: Vec<_> =
        (0..3).map(|n| Entry::Waits { push: shared.clone(), device: device(n) }).collect();
    desk.submit(vec![product("p", 1), product("q", 2), blocked(3, true), blocked(4, true)]);
    desk.submit(to_all.clone());
    desk.submit(vec![waits(60), waits(61), over(60), blocked(4, false)]);
    desk.submit(vec![Entry::NoProduct(key("q")), product("p", 5)]);
    drop(desk);
    let mut expected = vec![product("p", 5), blocked(3, true)];
    expected.extend(to_all);
    expected.push(waits(61));
    for _ in 0..3 {
        // Once from what was written, then from what the start before rewrote.
        let (desk, recovered) = Desk::plain(folder.path());
        assert_eq!(recovered.entries, expected);
        assert_eq!((recovered.last_id, recovered.torn), (61, None));
        assert_eq!((desk.store.sizes().waits, desk.store.sizes().segments), (4, 1));
    }
    let settings = Settings { secret: [1; 32], ..settings() };
    let (_, recovered) = Desk::open(folder.path(), settings, Faulty::default()).expect("opens");
    assert_eq!(recovered.secret, [7; 32], "the first secret stays");
}

#[test]
fn the_real_disk_keeps_what_it_was_given() {
    let folder = TempDir::new().expect("a folder");
    let below = folder.path().join("a/b");
    let (tell, done) = sync_channel(10);
    let on_complete = move |_, completed| tell.send(completed).unwrap_or(());
    let (store, _) = Store::open(&below, settings(), on_complete).expect("opens");
    store.submit(SHARD, vec![(1, waits(1))]).expect("room");
    assert_eq!(done.recv_timeout(Duration::from_secs(30)), Ok(vec![(1, Ok(()))]));
    drop(store);
    let (_, recovered) = Store::open(&below, settings(), |_, _| {}).expect("opens");
    assert_eq!(recovered.entries, [waits(1)]);
}

#[test]
fn a_dropped_product_takes_its_waits_along() {
    let folder = TempDir::new().expect("a folder");
    let (mut desk, _) = Desk::plain(folder.path());
    desk.submit(vec![product("p", 1), waits(1), waits(2), Entry::NoProduct(key("p")), waits(3)]);
    assert_eq!(desk.completed().len(), 5);
    assert_eq!(desk.store.sizes().waits, 1);
    drop(desk);
    assert_eq!(Desk::plain(folder.path()).1.entries, [waits(3)]);
}

#[test]
fn a_tail_torn_at_any_byte_costs_nothing_before_it() {
    let folder = TempDir::new().expect("a folder");
    let (mut desk, _) = Desk::plain(folder.path());
    let mut ends = vec![];
    for id in 1..4 {
        assert_eq!(desk.put(waits(id)), Ok(()));
        ends.push(desk.store.sizes().journal_bytes);
    }
    drop(desk);
    let file = segments(folder.path()).pop().expect("one");
    let whole = std::fs::read(&file).expect("readable");
    assert_eq!(whole.len() as u64, ends[2]);
    for length in 0..whole.len() {
        let copy = laid_out(&whole[..length]);
        let (_, recovered) = Desk::plain(copy.path());
        let expected = ends.iter().filter(|end| **end <= length as u64).count();
        let ids: Vec<_> = (1..=expected as u64).map(waits).collect();
        assert_eq!(recovered.entries, ids, "cut at {length}");
        if length % 16 == 0 {
            // The cut is for good.
            let (_, again) = Desk::plain(copy.path());
            assert_eq!((again.entries, again.torn), (ids, None), "cut at {length}, later");
        }
    }
}

#[test]
fn a_corrupt_middle_is_told_with_its_place_and_never_skipped() {
    let folder = TempDir::new().expect("a folder");
    let (mut desk, _) = Desk::plain(folder.path());
    assert_eq!(desk.put(waits(1)), Ok(()));
    let last_batch = desk.store.sizes().journal_bytes as usize;
    assert_eq!(desk.put(waits(2)), Ok(()));
    drop(desk);
    let file = segments(folder.path()).pop().expect("one");
    let whole = std::fs::read(&file).expect("readable");
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x40;
        std::fs::write(&file, &changed).expect("room");
        if at < last_batch {
            match refused(folder.path(), Faulty::default()) {
                OpenError::Corrupt { path, offset, .. } => {
                    assert_eq!(path, file);
                    assert!((offset as usize) <= at && at < offset as usize + 120, "byte {at}");
                }
                other => panic!("byte {at}: {other}"),
            }
            assert_eq!(std::fs::read(&file).expect("readable"), changed, "nothing is changed");
        } else {
            let copy = laid_out(&changed);
            let (_, recovered) = Desk::plain(copy.path());
            assert_eq!(recovered.entries, [waits(1)], "byte {at}");
            let torn = recovered.torn.expect("is told");
            assert!(torn.bytes > 0 && torn.offset as usize <= at, "byte {at}");
        }
    }
}

#[test]
fn a_missing_segment_is_corrupt() {
    let folder = TempDir::new().expect("a folder");
    let (mut desk, _) = Desk::open(folder.path(), small(), Faulty::default()).expect("opens");
    (1..9).for_each(|id| assert_eq!(desk.put(waits(id)), Ok(())));
    drop(desk);
    let files = segments(folder.path());
    std::fs::remove_file(&files[1]).expect("was there");
    match refused(folder.path(), Faulty::default()) {
        OpenError::Corrupt { path, .. } => assert_eq!(path, files[1]),
        other => panic!("{other}"),
    }
}

/// Segments that are full after two entries.
fn small() -> Settings {
    Settings { segment_bytes: 256, ..settings() }
}

#[test]
fn segments_whose_waits_are_over_are_deleted_and_state_moves_on() {
    let folder = TempDir::new().expect("a folder");
    let (mut desk, _) = Desk::open(folder.path(), small(), Faulty::default()).expect("opens");
    desk.submit(vec![product("p", 1), blocked(9, true)]);
    assert_eq!(desk.completed().len(), 2);
    for id in 1..40 {
        assert_eq!(desk.put(waits(id)), Ok(()));
    }
    let most = desk.store.sizes().segments;
    assert!(most > 10, "{most}");
    for id in 2..40 {
        assert_eq!(desk.put(over(id)), Ok(()));
    }
    assert!(desk.store.sizes().segments > most, "the first wait holds all behind it");
    assert_eq!(desk.put(over(1)), Ok(()));
    assert_eq!(desk.store.sizes().segments, 1);
    assert_eq!(segments(folder.path()).len(), 1);
    drop(desk);
    let (_, recovered) = Desk::plain(folder.path());
    assert_eq!(recovered.entries, [product("p", 1), blocked(9, true)]);
    assert_eq!(recovered.last_id, 39, "carried from segment to segment");
}

#[test]
fn a_start_that_stopped_half_way_changes_nothing() {
    let folder = TempDir::new().expect("a folder");
    let (mut desk, _) = Desk::open(folder.path(), small(), Faulty::default()).expect("opens");
    let expected: Vec<_> = (1..20).map(waits).collect();
    desk.submit(vec![waits(99)]);
    desk.submit(expected.clone());
    desk.submit(vec![over(99)]);
    drop(desk);
    for room in (0..3_000).step_by(97) {
        // Every start runs out of room somewhere else while it rewrites.
        let files = Faulty::default();
        files.set(|faults| faults.room = Some(room));
        match Desk::open(folder.path(), small(), files) {
            Err(OpenError::NoSpace { .. }) => {}
            Ok((_, recovered)) => assert_eq!(recovered.entries, expected, "room {room}"),
            Err(other) => panic!("room {room}: {other}"),
        }
    }
    assert_eq!(Desk::plain(folder.path()).1.entries, expected);
}

#[test]
fn a_full_disk_is_told_and_the_journal_stays_whole() {
    let folder = TempDir::new().expect("a folder");
    let files = Faulty::default();
    let (mut desk, _) = Desk::open(folder.path(), settings(), files.clone()).expect("opens");
    assert_eq!(desk.put(waits(1)), Ok(()));
    let before = desk.store.sizes();
    files.set(|faults| faults.room = Some(50));
    assert_eq!(desk.put(waits(2)), Err(StoreError::Full));
    assert_eq!(desk.store.sizes(), before);
    let length = std::fs::metadata(&segments(folder.path())[0]).expect("is there").len();
    assert_eq!(length, before.journal_bytes, "the partial record is cut off");
    assert_eq!(desk.put(waits(3)), Err(StoreError::Full));
    files.set(|faults| faults.room = None);
    assert_eq!(desk.put(waits(2)), Ok(()));
    drop(desk);
    let (_, recovered) = Desk::plain(folder.path());
    assert_eq!((recovered.entries, recovered.torn), (vec![waits(1), waits(2)], None));
}

#[test]
fn the_limit_of_the_journal_is_none_for_endings() {
    let folder = TempDir::new().expect("a folder");
    let limited = Settings { journal_bytes_max: 8_000, ..settings() };
    let (mut desk, _) = Desk::open(folder.path(), limited, Faulty::default()).expect("opens");
    let stored = (1..).take_while(|id| desk.put(waits(*id)) == Ok(())).count() as u64;
    assert!((20..90).contains(&stored), "{stored}");
    assert_eq!(desk.put(waits(1_000)), Err(StoreError::Full));
    desk.submit((1..=stored).map(over).chain([waits(2_000)]).collect());
    let completed = desk.completed();
    assert_eq!(completed.iter().filter(|(_, answer)| answer.is_err()).count(), 1);
    assert_eq!(completed.last().expect("not empty").1, Err(StoreError::Full));
    assert_eq!(desk.put(waits(3_000)), Ok(()), "there is room again");
}

#[test]
fn after_a_failed_sync_nothing_more_is_taken() {
    let folder = TempDir::new().expect("a folder");
    let files = Faulty::default();
    let (mut desk, _) = Desk::open(folder.path(), settings(), files.clone()).expect("opens");
    assert_eq!(desk.put(waits(1)), Ok(()));
    files.set(|faults| faults.sync_error = true);
    assert_eq!(desk.put(waits(2)), Err(StoreError::Failed));
    files.set(|faults| faults.sync_error = false);
    assert_eq!(desk.put(waits(3)), Err(StoreError::Failed), "a second sync proves nothing");
    drop(desk);
    let (_, recovered) = Desk::plain(folder.path());
    assert_eq!(recovered.entries[0], waits(1));
    assert!(!recovered.entries.contains(&waits(3)));
}

#[test]
fn an_error_of_the_disk_is_final_and_leaves_a_readable_journal() {
    let folder = TempDir::new().expect("a folder");
    let files = Faulty::default();
    let (mut desk, _) = Desk::open(folder.path(), settings(), files.clone()).expect("opens");
    assert_eq!(desk.put(waits(1)), Ok(()));
    files.set(|faults| faults.write_error = Some(5)); // EIO
    assert_eq!(desk.put(waits(2)), Err(StoreError::Failed));
    files.set(|faults| faults.write_error = None);
    assert_eq!(desk.put(waits(3)), Err(StoreError::Failed));
    drop(desk);
    assert_eq!(Desk::plain(folder.path()).1.entries, [waits(1)]);
}

#[test]
fn a_batch_is_what_arrived_while_the_last_was_being_written() {
    let folder = TempDir::new().expect("a folder");
    let files = Faulty::default();
    let (mut desk, _) = Desk::open(folder.path(), settings(), files.clone()).expect("opens");
    let (mut syncs, mut writes) = (0, 0);
    files.set(|faults| {
        faults.hold_sync = true;
        (syncs, writes) = (faults.syncs, faults.written.len());
    });
    desk.submit(vec![waits(1)]);
    files.wait(|faults| faults.syncs == syncs + 1);
    (2..12).for_each(|id| desk.submit(vec![waits(id)]));
    desk.store.submit(ShardId(4), vec![(70, waits(70)), (71, waits(71))]).expect("room");
    assert!(desk.done.try_recv().is_err(), "nothing is completed before it is synced");
    assert_eq!(desk.store.sizes().entries_waiting, 12);
    files.set(|faults| faults.hold_sync = false);
    assert_eq!(desk.completed(), [(0, Ok(()))]);
    assert_eq!(desk.completed(), (1..11).map(|ticket| (ticket, Ok(()))).collect::<Vec<_>>());
    let other = desk.done.recv_timeout(Duration::from_secs(30)).expect("is completed");
    assert_eq!(other, (ShardId(4), vec![(70, Ok(())), (71, Ok(()))]));
    files.set(|faults| {
        assert_eq!((faults.syncs, faults.written.len()), (syncs + 2, writes + 2));
    });
}

#[test]
fn a_body_is_written_once_for_all_who_wait() {
    let folder = TempDir::new().expect("a folder");
    let (mut desk, _) = Desk::plain(folder.path());
    let shared = push(1, &[1; 4_000]);
    let to = |n| Entry::Waits { push: shared.clone(), device: device(n) };
    assert_eq!(desk.put(to(0)), Ok(()));
    let before = desk.store.sizes().journal_bytes;
    desk.submit((1..101).map(to).collect());
    assert_eq!(desk.completed().len(), 100);
    assert!(desk.store.sizes().journal_bytes - before < 4_000);
}

#[test]
fn more_than_may_wait_comes_back() {
    let folder = TempDir::new().expect("a folder");
    let files = Faulty::default();
    let few = Settings { entries_waiting_max: 2, bytes_waiting_max: 2_000, ..settings() };
    let (mut desk, _) = Desk::open(folder.path(), few, files.clone()).expect("opens");
    let mut syncs = 0;
    files.set(|faults| {
        faults.hold_sync = true;
        syncs = faults.syncs;
    });
    desk.submit(vec![waits(1)]);
    files.wait(|faults| faults.syncs == syncs + 1);
    desk.submit(vec![waits(2)]);
    let large = Entry::Waits { push: push(3, &[0; 1_900]), device: device(3) };
    assert_eq!(desk.store.submit(SHARD, vec![(9, large.clone())]), Err(vec![(9, large)]));
    desk.submit(vec![waits(3)]);
    assert_eq!(desk.store.submit(SHARD, vec![(9, waits(4))]), Err(vec![(9, waits(4))]));
    files.set(|faults| faults.hold_sync = false);
    assert_eq!(desk.completed().len(), 1);
    assert_eq!(desk.completed(), [(1, Ok(())), (2, Ok(()))]);
    assert_eq!(desk.put(waits(4)), Ok(()));
}

#[test]
fn fsync_is_the_operators_choice() {
    for (fsync, while_open) in
        [(Fsync::Never, 0), (Fsync::Interval(Duration::from_secs(3_600)), 0), (Fsync::Always, 3)]
    {
        let folder = TempDir::new().expect("a folder");
        let files = Faulty::default();
        let chosen = Settings { fsync, ..settings() };
        let (mut desk, _) = Desk::open(folder.path(), chosen, files.clone()).expect("opens");
        let mut syncs = 0;
        files.set(|faults| syncs = faults.syncs);
        (1..4).for_each(|id| assert_eq!(desk.put(waits(id)), Ok(())));
        files.set(|faults| assert_eq!(faults.syncs - syncs, while_open, "{fsync:?}"));
        drop(desk);
        assert_eq!(Desk::plain(folder.path()).1.entries.len(), 3);
    }
    let folder = TempDir::new().expect("a folder");
    let files = Faulty::default();
    let often = Settings { fsync: Fsync::Interval(Duration::from_millis(1)), ..settings() };
    let (mut desk, _) = Desk::open(folder.path(), often, files.clone()).expect("opens");
    let mut syncs = 0;
    files.set(|faults| syncs = faults.syncs);
    assert_eq!(desk.put(waits(1)), Ok(()));
    files.wait(|faults| faults.syncs > syncs);
}

#[test]
fn two_servers_cannot_have_one_folder() {
    let folder = TempDir::new().expect("a folder");
    let (desk, _) = Desk::plain(folder.path());
    let error = refused(folder.path(), Faulty::default());
    let told = error.to_string();
    assert!(matches!(error, OpenError::Locked { pid: Some(pid), .. } if pid == std::process::id()));
    assert!(told.contains(&format!("(process {})", std::process::id())), "{told}");
    drop(desk);
    Desk::plain(folder.path());
}

#[test]
fn a_folder_that_cannot_be_used_is_named_with_the_remedy() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "in the way").expect("room");
    assert!(
        matches!(refused(&file, Faulty::default()), OpenError::NotAFolder { path } if path == file)
    );
    let below = file.join("below");
    let error = refused(&below, Faulty::default());
    assert!(matches!(&error, OpenError::CannotCreate { path, .. } if *path == below), "{error}");
    let error = refused(folder.path(), Faulty::default());
    assert!(matches!(&error, OpenError::Foreign { found, .. } if found == "file"), "{error}");
    assert_eq!(Disk.names(folder.path()).expect("is there"), ["file"], "nothing is left in it");
    let fresh = folder.path().join("fresh");
    let files = Faulty::default();
    files.set(|faults| faults.read_only = true);
    assert!(matches!(refused(&fresh, files), OpenError::ReadOnly { .. }));
    let files = Faulty::default();
    files.set(|faults| faults.room = Some(10));
    assert!(matches!(refused(&fresh, files), OpenError::NoSpace { .. }));
    Desk::plain(&fresh);
    std::fs::write(fresh.join("FORMAT"), "holdline data 9\n").expect("room");
    let error = refused(&fresh, Faulty::default());
    assert!(matches!(&error, OpenError::UnknownFormat { found, .. } if found == "holdline data 9"));
    assert!(error.to_string().contains("FORMAT"), "{error}");
}

#[test]
fn a_lost_or_short_secret_is_told() {
    let folder = TempDir::new().expect("a folder");
    drop(Desk::plain(folder.path()));
    let secret = folder.path().join("node.secret");
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(&secret).expect("is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    std::fs::write(&secret, "short").expect("room");
    let error = refused(folder.path(), Faulty::default());
    assert!(matches!(error, OpenError::Corrupt { path, .. } if path == secret));
    std::fs::remove_file(&secret).expect("was there");
    assert!(matches!(refused(folder.path(), Faulty::default()), OpenError::Corrupt { .. }));
}

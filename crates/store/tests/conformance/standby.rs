//! Two data folders in one process: one is led behind its threads, the other follows it, begins
//! with a base, and leads when the first is gone.
//!
//! Batches go through a list in memory, which acknowledges when the test says so.

use crate::{folder, seeds};
use base::hash::HashKey;
use base::prng::Prng;
use model::id::ShardId;
use model::ports::files::FileSystem;
use model::ports::log::*;
use model::service::ServiceKind;
use model::timeline::{Message, Space, TimelineId};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use store::OpenError;
use store::data::{
    BaseList, CHUNK_BYTES, Copying, Folder, FollowingFolder, Logs, OpenFolder, Secrets, Settings,
};
use store::engine::{Engine, MemoryState, State};
use store::files::Disk;
use store::log::{FollowError, Followed, LogBatch, Ship};
use testkit::files::FaultyFiles;

const NOW_S: u32 = 1_700_000_000;
const PARTY: Party = Party::Service(ServiceKind::Chat, ShardId(0));

/// Shipped batches, in order, each with the index of its last record.
#[derive(Clone, Default)]
struct Stream(Arc<(Mutex<Vec<StreamItem>>, Condvar)>);

/// The index up to which a batch goes, and its bytes.
type StreamItem = (u64, Vec<u8>);

impl Ship for Stream {
    fn ship(&mut self, batch: &LogBatch<'_>) {
        let mut batches = self.0.0.lock().expect("nobody panics with it");
        batches.push((batch.last, batch.bytes.to_vec()));
        self.0.1.notify_all();
    }
}

impl Stream {
    fn all(&self) -> Vec<(u64, Vec<u8>)> {
        self.0.0.lock().expect("nobody panics with it").clone()
    }

    fn last(&self) -> u64 {
        self.all().last().map_or(0, |(last, _)| *last)
    }

    /// Waits for more than so many batches.
    fn longer_than(&self, count: usize) {
        let batches = self.0.0.lock().expect("nobody panics with it");
        let waited = self
            .0
            .1
            .wait_timeout_while(batches, Duration::from_secs(60), |batches| batches.len() <= count);
        assert!(!waited.expect("nobody panics with it").1.timed_out(), "nothing is shipped");
    }
}

/// Answers by ticket.
#[derive(Clone, Default)]
struct Told(Arc<(Mutex<Answers>, Condvar)>);

/// Answers by ticket.
type Answers = BTreeMap<Ticket, Result<Done, StoreError>>;

impl Told {
    fn count(&self) -> usize {
        self.0.0.lock().expect("nobody panics with it").len()
    }

    fn wait(&self, ticket: Ticket) -> Result<Done, StoreError> {
        let told = self.0.0.lock().expect("nobody panics with it");
        let lacks = |told: &mut BTreeMap<_, _>| !told.contains_key(&ticket);
        let waited = self.0.1.wait_timeout_while(told, Duration::from_secs(60), lacks);
        let (told, late) = waited.expect("nobody panics with it");
        assert!(!late.timed_out(), "ticket {ticket} is not answered");
        told[&ticket].clone()
    }
}

fn settings() -> Settings {
    let mut settings = Settings::new(Secrets::of([7; 64]), 1);
    (settings.segment_bytes, settings.checkpoint_bytes) = (40_000, 30_000);
    settings.cache_bytes = 1 << 20;
    settings
}

fn timeline(number: u64) -> TimelineId {
    TimelineId::of(Space::Other, HashKey::new(1, 2), &[&number.to_le_bytes()])
}

/// An append of one message to some timelines.
fn append(id: u64) -> Call {
    let body = vec![id as u8; 100 + (id % 700) as usize].into();
    let message = Arc::new(Message { id, at_s: NOW_S, label: [1].into(), body });
    let to = (0..1 + id % 40).map(|at| timeline((id + at) % 60)).collect();
    Call::Write(Write::Append(Append { message, to, once: None, heard: None, ends: false }))
}

/// The folder leads: what it ships is acknowledged up to that.
fn led(mut folder: FollowingFolder, stream: &Stream) -> OpenFolder {
    let engine = folder.engine(0).expect("it is open");
    engine.lead(0, Box::new(stream.clone())).expect("it leads");
    engine.note_acknowledged(stream.last());
    folder.lead(NOW_S).expect("all of it is acknowledged")
}

fn started(folder: OpenFolder, told: &Told) -> Logs {
    let told = told.clone();
    let tell = move |_, completions: Vec<Completion>| {
        told.0.0.lock().expect("nobody panics with it").extend(completions);
        told.0.1.notify_all();
    };
    folder.start(Arc::new(|| NOW_S), tell).expect("threads")
}

fn submit(logs: &Logs, calls: Vec<(Ticket, Call)>) {
    assert!(logs.submit(PARTY, 0, calls).is_ok(), "there is room");
}

/// Everything of every timeline: its numbers and ids.
fn everything(logs: &Logs, told: &Told, mut ticket: Ticket) -> Vec<Vec<(u64, u64)>> {
    let mut all = Vec::new();
    for number in 0..60 {
        let (timeline, mut from, mut entries) = (timeline(number), 0, Vec::new());
        loop {
            let pull =
                Pull { timeline, from, backwards: false, count_max: 100, bytes_max: 1 << 20 };
            ticket += 1;
            submit(logs, vec![(ticket, Call::Read(Read::Pull(pull)))]);
            let Ok(Done::Page(page)) = told.wait(ticket) else { panic!("no page") };
            entries.extend(page.messages.iter().map(|it| (it.seq, it.message.id)));
            let Some(last) = page.messages.last() else { break };
            from = last.seq;
        }
        all.push(entries);
    }
    all
}

fn copy_all(copying: &mut Copying, chunk: impl Fn(u32, u64) -> Vec<u8>) {
    let wanted: Vec<_> = copying.wanted().collect();
    for (file, number) in wanted {
        assert!(copying.put(file, number, &chunk(file, number)).expect("room"));
    }
    assert_eq!(copying.wanted().count(), 0);
}

/// Load of so many parcels of seven appends, acknowledged as it comes.
fn load(logs: &Logs, (stream, told): (&Stream, &Told), parcels: u64) {
    let first = told.count() as u64;
    for ticket in (first..).step_by(7).take(parcels as usize) {
        submit(logs, (ticket..ticket + 7).map(|ticket| (ticket, append(ticket + 1))).collect());
        while told.count() < ticket as usize + 7 {
            logs.acknowledge(0, stream.last());
            std::thread::yield_now();
        }
    }
}

fn follow(engine: &mut Engine, batches: &[(u64, Vec<u8>)]) {
    for (_, bytes) in batches {
        engine.follow(NOW_S, bytes).expect("it follows");
        while let Some(upkeep_task) = engine.upkeep_task(NOW_S) {
            engine.finished(NOW_S, upkeep_task.run());
        }
    }
}

/// The content of every timeline, by the answers to appends.
fn answered(told: &Told) -> Vec<Vec<(u64, u64)>> {
    let mut wanted = vec![Vec::new(); 60];
    for answer in told.0.0.lock().expect("nobody panics with it").values() {
        if let Ok(Done::Appended(done)) = answer {
            for (at, seq) in (0..).zip(&done.seqs) {
                wanted[((done.id + at) % 60) as usize].push((*seq, done.id));
            }
        }
    }
    wanted.iter_mut().for_each(|entries| entries.sort_unstable());
    wanted
}

/// Ships an append without an acknowledgement: it is not answered, nor can it be read.
fn hold_back(logs: &Logs, (stream, told): (&Stream, &Told)) {
    let (shipped, answered) = (stream.all().len(), told.count());
    let next = answered as u64;
    let timeline = timeline(next % 60);
    let pull = Pull { timeline, from: 0, backwards: false, count_max: 1, bytes_max: 1 };
    submit(logs, vec![(next, append(next + 1)), (next + 1, Call::Read(Read::Pull(pull)))]);
    stream.longer_than(shipped);
    assert_eq!(told.count(), answered, "nobody has it but this disk");
    logs.acknowledge(0, stream.last());
    assert!(told.wait(next).is_ok() && told.wait(next + 1).is_ok());
}

#[test]
fn a_follower_that_began_with_a_base_is_promoted_and_serves_all_that_was_answered() {
    let (one, other) = (folder(), folder());
    let (stream, told) = (Stream::default(), Told::default());
    let mut first = Folder::open_to_follow(one.path(), settings(), Arc::new(Disk)).expect("opens");
    first.open(0, None).expect("it is new");
    let logs = started(led(first, &stream), &told);
    load(&logs, (&stream, &told), 60);
    // A base in the middle of it, and the stream from there on.
    let base = logs.base(0).expect("there is room");
    assert!(Arc::ptr_eq(&base, &logs.base(0).expect("the same")));
    load(&logs, (&stream, &told), 60);
    let mut second =
        Folder::open_to_follow(other.path(), settings(), Arc::new(Disk)).expect("opens");
    let mut copying = second.copy(0, &base.list().write()).expect("it begins");
    copy_all(&mut copying, |file, chunk| base.chunk(file, chunk).expect("it is there"));
    let engine = second.install(0, copying).expect("all is there");
    assert_eq!((engine.position(), engine.awaited()), (base.list().at, 0));
    drop(base);
    follow(engine, &stream.all());
    hold_back(&logs, (&stream, &told));
    // The leader is gone, with what nobody else has.
    let (kept, lost) = (stream.all(), 1 << 20);
    submit(&logs, vec![(lost, append(9_999))]);
    stream.longer_than(kept.len());
    drop(logs);
    assert_eq!(told.wait(lost), Err(StoreError::Failed), "nobody knows");
    follow(second.engine(0).expect("it is open"), &kept);
    let (new_stream, new_told) = (Stream::default(), Told::default());
    let promoted = started(led(second, &new_stream), &new_told);
    assert_eq!(everything(&promoted, &new_told, 0), answered(&told));
    drop(promoted);
    // The old leader's tail is another history: it is cut off, and the new one is followed.
    let mut old = Folder::open_to_follow(one.path(), settings(), Arc::new(Disk)).expect("opens");
    let engine = old.open(0, None).expect("it opens");
    assert!(engine.awaited() > 0, "its last batch is nobody else's");
    let (_, lead) = &new_stream.all()[0];
    let refused = engine.follow(NOW_S, lead).expect_err("another batch stands there");
    let FollowError::Fork { acknowledged, .. } = refused else { panic!("{refused}") };
    assert_eq!(acknowledged, kept.last().expect("some").0);
    let engine = old.open(0, Some(acknowledged)).expect("it is cut");
    assert_eq!((engine.position().index, engine.awaited()), (acknowledged, 0));
    assert_eq!(engine.follow(NOW_S, lead), Ok(Followed::New));
    assert_eq!(engine.position().index, new_stream.all()[0].0);
}

#[test]
fn a_log_leads_on_in_the_epoch_of_a_lead_that_it_followed() {
    let (one, other) = (folder(), folder());
    let (stream, told) = (Stream::default(), Told::default());
    let mut first = Folder::open_to_follow(one.path(), settings(), Arc::new(Disk)).expect("opens");
    first.open(0, None).expect("it is new");
    let logs = started(led(first, &stream), &told);
    load(&logs, (&stream, &told), 10);
    let count = stream.all().len();
    submit(&logs, vec![(1 << 20, append(9_999))]);
    stream.longer_than(count);
    drop(logs);
    let shipped = stream.all();
    let mut second =
        Folder::open_to_follow(other.path(), settings(), Arc::new(Disk)).expect("opens");
    let engine = second.open(0, None).expect("it is new");
    follow(engine, &shipped);
    let epoch = engine.position().epoch;
    // Whoever has records that nobody acknowledged may not: its Lead would not be the last batch.
    let mut again = Folder::open_to_follow(one.path(), settings(), Arc::new(Disk)).expect("opens");
    let tail = again.open(0, None).expect("it opens");
    assert!(tail.awaited() > 0, "its last batch is nobody else's");
    assert_eq!(tail.lead_on(Box::new(Stream::default())), Err(StoreError::Failed));
    assert!(tail.follows(), "it still follows");
    let on = Stream::default();
    engine.note_acknowledged(shipped.last().expect("some").0);
    engine.lead_on(Box::new(on.clone())).expect("it leads");
    assert!(on.all().is_empty(), "it writes no Lead of its own");
    let told = Told::default();
    let logs = started(second.lead(NOW_S).expect("all of it is acknowledged"), &told);
    submit(&logs, vec![(0, append(1))]);
    on.longer_than(0);
    let (_, bytes) = &on.all()[0];
    let batch = LogBatch::read(bytes).expect("whole");
    assert_eq!((batch.epoch, batch.first), (epoch, shipped.last().expect("some").0 + 1));
    assert_eq!(told.count(), 0, "nobody acknowledged it");
    logs.acknowledge(0, on.last());
    assert!(told.wait(0).is_ok());
    // Where the stream is full nothing is stored, until it takes batches again.
    let pull =
        Pull { timeline: timeline(0), from: 0, backwards: false, count_max: 1, bytes_max: 1 };
    let look = |ticket| {
        submit(&logs, vec![(ticket, Call::Read(Read::Pull(pull)))]);
        assert!(told.wait(ticket).is_ok(), "the writer has turned");
    };
    logs.stream_full(0, true);
    look(10);
    submit(&logs, vec![(1, append(2))]);
    assert_eq!(told.wait(1), Err(StoreError::Full));
    // Nor a small row that a client waits for, though a full disk would take it.
    for (table, ticket) in [Table::Retained, Table::Sessions].into_iter().zip(12..) {
        let put = Write::Put { table, key: [1].into(), value: [1].into() };
        submit(&logs, vec![(ticket, Call::Write(put))]);
        assert_eq!(told.wait(ticket), Err(StoreError::Full), "{table:?}");
    }
    assert_eq!(on.all().len(), 1, "it was not written");
    logs.stream_full(0, false);
    look(11);
    submit(&logs, vec![(2, append(3))]);
    on.longer_than(1);
    logs.acknowledge(0, on.last());
    assert!(told.wait(2).is_ok());
    // A refusal does not wait for what the stream has no room for.
    submit(&logs, vec![(3, append(4))]);
    on.longer_than(2);
    logs.stream_full(0, true);
    let (before, mut ticket) = (told.count(), 4);
    while told.count() == before {
        submit(&logs, vec![(ticket, append(5))]); // until the writer has heard of the stream
        ticket += 1;
        std::thread::yield_now();
    }
    for (ticket, refused) in (ticket..).zip([StoreError::Full, StoreError::Busy]) {
        let Call::Write(Write::Append(plain)) = append(6) else { unreachable!("an append") };
        let ordered = Append { heard: Some(0), ..plain };
        submit(&logs, vec![(ticket, Call::Write(Write::Append(ordered)))]);
        assert_eq!(told.wait(ticket), Err(refused), "the second would overtake the first");
    }
    logs.acknowledge(0, on.last());
    assert!(told.wait(3).is_ok());
}

/// States of a simulated folder: which one is where, a file in its folder says.
#[derive(Clone)]
struct States(FaultyFiles, Arc<Mutex<BTreeMap<u64, Arc<MemoryState>>>>);

impl States {
    fn open(&self, path: &Path) -> Result<Arc<dyn State>, OpenError> {
        let States(files, all) = self;
        let failed = |error| OpenError::Failed { path: path.into(), error };
        let mut all = all.lock().expect("nobody panics with it");
        let name = path.join("id");
        let id = match files.read(&name).ok().and_then(|id| id.try_into().ok()) {
            Some(id) => u64::from_le_bytes(id),
            None => {
                let id = all.len() as u64;
                files.make_folder(path).map_err(failed)?;
                let mut file = FileSystem::open(files, &name).map_err(failed)?;
                file.write_at(0, &id.to_le_bytes()).and_then(|()| file.sync()).map_err(failed)?;
                files.sync_folder(path).map_err(failed)?;
                files.sync_folder(path.parent().expect("it has one")).map_err(failed)?;
                id
            }
        };
        Ok(Arc::clone(all.entry(id).or_default()) as Arc<dyn State>)
    }

    fn crash(&self, prng: &mut Prng) {
        self.0.crash();
        let all = self.1.lock().expect("nobody panics with it");
        all.values().for_each(|state| state.crash(prng));
    }
}

fn simulated(files: &FaultyFiles, states: &States) -> Result<FollowingFolder, OpenError> {
    let states = states.clone();
    let open = move |path: &Path, _: u64| states.open(path);
    let files = Arc::new(files.clone());
    Folder::open_to_follow_with(Path::new("/data"), settings(), files, Arc::new(open))
}

fn ground(seed: u64) -> (FaultyFiles, States) {
    let files = FaultyFiles::new(seed);
    files.make_folder(Path::new("/data")).and_then(|()| files.sync_folder(Path::new("/"))).ok();
    (files.clone(), States(files, Arc::default()))
}

#[test]
fn a_copy_that_is_killed_at_any_step_is_no_log_or_all_of_it() {
    let (files, states) = ground(1);
    let mut first = simulated(&files, &states).expect("opens");
    first.open(0, None).expect("it is new");
    let (stream, told) = (Stream::default(), Told::default());
    let logs = started(led(first, &stream), &told);
    let count = 400;
    submit(&logs, (0..count).map(|ticket| (ticket, append(ticket + 1))).collect());
    while told.count() < count as usize {
        logs.acknowledge(0, stream.last());
        std::thread::yield_now();
    }
    let base = logs.base(0).expect("there is room");
    let list = base.list().write();
    let (mut kept, mut done, mut resumed) = (0, 0, 0);
    for seed in seeds(3) {
        let mut prng = Prng::new(seed);
        for point in 0..60 {
            let (files, states) = ground(100 + seed);
            let mut second = simulated(&files, &states).expect("opens");
            second.open(0, None).expect("it is new");
            files.crash_at(files.points() + point);
            let copied = (|| -> Result<(), OpenError> {
                let mut copying = second.copy(0, &list)?;
                let wanted: Vec<_> = copying.wanted().collect();
                for (file, chunk) in wanted {
                    let bytes = base.chunk(file, chunk).expect("it is there");
                    assert!(!copying.put(file, chunk, &bytes[1..]).expect("it is not looked at"));
                    if !copying.put(file, chunk, &bytes).is_ok_and(|taken| taken) {
                        break;
                    }
                }
                second.install(0, copying).map(|_| ())
            })();
            assert!(copied.is_ok() || files.is_off(), "{copied:?}");
            drop(second);
            states.crash(&mut prng);
            let mut second = simulated(&files, &states).expect("opens after a crash");
            let position = second.open(0, None).expect("it is whole, or empty").position();
            if position == base.list().at {
                done += 1;
            } else {
                assert_eq!(position.index, 0, "half of a copy is no log");
                kept += 1;
                let mut copying = second.copy(0, &list).expect("it goes on");
                let all = base.list().files.iter().map(|file| file.bytes.div_ceil(CHUNK_BYTES));
                resumed += u32::from((copying.wanted().count() as u64) < all.sum());
                copy_all(&mut copying, |file, chunk| base.chunk(file, chunk).expect("there"));
                second.install(0, copying).expect("all is there");
            }
            let engine = second.engine(0).expect("it is open");
            assert_eq!((engine.position(), engine.awaited()), (base.list().at, 0));
            let verified = engine.verify(true).expect("state can be read");
            assert_eq!(verified.told, Vec::<String>::new(), "point {point}");
            for (_, bytes) in &stream.all() {
                engine.follow(NOW_S, bytes).expect("it goes on from there");
            }
        }
    }
    assert!(kept > 0 && done > 0 && resumed > 0, "{kept} began anew, {resumed} went on, {done}");
}

#[test]
fn a_copy_that_lost_what_it_had_confirmed_is_not_opened() {
    let (files, states) = ground(2);
    let mut first = simulated(&files, &states).expect("opens");
    first.open(0, None).expect("it is new");
    let (stream, told) = (Stream::default(), Told::default());
    let logs = started(led(first, &stream), &told);
    submit(&logs, (0..50).map(|ticket| (ticket, append(ticket + 1))).collect());
    while told.count() < 50 {
        logs.acknowledge(0, stream.last());
        std::thread::yield_now();
    }
    logs.close();
    let (files, states) = ground(3);
    let mut second = simulated(&files, &states).expect("opens");
    let engine = second.open(0, None).expect("it is new");
    for (_, bytes) in &stream.all() {
        engine.follow(NOW_S, bytes).expect("it follows");
    }
    let position = engine.position();
    assert_eq!(engine.synced(), 0, "nobody asked for a sync");
    engine.sync().expect("no fault");
    assert_eq!(engine.synced(), position.index);
    second.close(0);
    let path = format!("/data/log-00/{:010}.log", position.place.segment);
    let mut file = FileSystem::open(&files, Path::new(&path)).expect("there");
    file.cut(u64::from(position.place.offset) - 1).and_then(|()| file.sync()).expect("no fault");
    for _ in 0..2 {
        let refused = second.open(0, None).map(|_| ()).expect_err("records are missing");
        assert!(refused.to_string().contains("confirmed"), "{refused}");
    }
}

#[test]
fn a_list_of_a_base_is_read_as_it_was_written_and_nothing_else_is() {
    let list = BaseList { at: store::log::Position::default(), files: Vec::new() };
    let bytes = list.write();
    assert_eq!(BaseList::read(&bytes), Some(list));
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 4;
        assert_eq!(BaseList::read(&changed), None, "byte {at}");
        assert_eq!(BaseList::read(&bytes[..at]), None, "cut at {at}");
    }
}

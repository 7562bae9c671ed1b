//! An archive that is played, over a log that is.

use super::*;
use base::hash::HashKey;
use model::id::{NodeId, ShardId};
use model::ports::log::{StoreError, Ticket};
use model::timeline::{Message, Placed};
use std::sync::Weak;

/// A log of one timeline: what waits, the cursor and the last place.
#[derive(Default)]
struct PlayedLog {
    waits: BTreeMap<Seq, Arc<Message>>,
    cursor: Seq,
    last: Seq,
    damaged: Vec<Seq>,
    rows: BTreeMap<Box<[u8]>, Box<[u8]>>,
}

impl PlayedLog {
    fn append(&mut self, message: Message) {
        self.last += 1;
        self.waits.insert(self.last, Arc::new(message));
    }

    fn play(&mut self, call: Call) -> Result<Done, StoreError> {
        match call {
            Call::Read(Read::Standing { .. }) => {
                let count = (self.waits.len() + self.damaged.len()) as u64;
                let (last, cursor) = (self.last, self.cursor);
                let unread = self.waits.range(cursor + 1..).count() as u64;
                return Ok(Done::Standing(TimelineStatus { last, count, cursor, unread }));
            }
            Call::Read(Read::Row { table: Table::ChatRecalled, key }) => {
                return Ok(Done::Row(self.rows.get(&key).cloned()));
            }
            Call::Read(Read::Pull(pull)) => {
                assert_eq!((pull.from, pull.backwards), (0, false));
                let placed = |(seq, message): (&Seq, &Arc<Message>)| Placed {
                    seq: *seq,
                    message: message.clone(),
                };
                let messages = self.waits.iter().take(2).map(placed).collect::<Vec<_>>();
                let more = self.waits.len() > messages.len();
                return Ok(Done::Page(Page { messages, damaged: self.damaged.clone(), more }));
            }
            Call::Write(Write::Acknowledge { upto, .. }) => self.cursor = self.cursor.max(upto),
            Call::Write(Write::Remove { seqs, .. }) => {
                self.waits.retain(|seq, _| !seqs.contains(seq));
                self.damaged.retain(|seq| !seqs.contains(seq));
            }
            other => panic!("{other:?}"),
        }
        Ok(Done::Written)
    }
}

/// An archive that notes what it is given.
#[derive(Default)]
struct PlayedArchive {
    given: Mutex<Vec<u64>>,
    /// Current state of messages, by the numbers of those that amend them.
    amended: Mutex<Vec<(u64, Box<str>)>>,
    is_away: AtomicBool,
}

impl PlayedArchive {
    fn answer(&self) -> Result<(), DatabaseFault> {
        match self.is_away.load(Ordering::Relaxed) {
            true => Err(DatabaseFault::Away("gone".into())),
            false => Ok(()),
        }
    }
}

impl MessageArchive for PlayedArchive {
    fn open(&self) -> Result<(), DatabaseFault> {
        self.answer()
    }

    fn put(&self, messages: &[ArchivedMessage]) -> Result<(), DatabaseFault> {
        self.answer()?;
        self.given.lock().expect("no panic").extend(messages.iter().map(|message| message.id));
        let amends = |it: &ArchivedMessage| Some((it.id, it.amends.as_ref()?.text.clone()));
        self.amended.lock().expect("no panic").extend(messages.iter().filter_map(amends));
        Ok(())
    }
}

struct Place {
    archive: Arc<Archive>,
    tables: Arc<PlayedArchive>,
    log: Arc<Mutex<PlayedLog>>,
    /// Rows left by an earlier number of shards.
    earlier: Arc<Mutex<PlayedLog>>,
    places: ArchivePlaces,
}

impl Place {
    fn new() -> Place {
        let (tables, log) =
            (Arc::new(PlayedArchive::default()), Arc::<Mutex<PlayedLog>>::default());
        let read = MessageReader { message: read, amended_row, state };
        let archive = Archive::new(tables.clone(), read);
        let earlier = Arc::<Mutex<PlayedLog>>::default();
        let (played, asked): (_, Weak<Archive>) =
            ([log.clone(), earlier.clone()], Arc::downgrade(&archive));
        let submit = move |log: u16, calls: Vec<(Ticket, Call)>| {
            let mut log = played[usize::from(log)].lock().expect("no panic");
            let all = calls.into_iter().map(|(ticket, call)| (ticket, log.play(call))).collect();
            asked.upgrade().is_some_and(|archive| {
                archive.complete(all);
                true
            })
        };
        let home = HashKey::new(1, 2);
        let way = LogWay { submit: Box::new(submit), home, shards: 2, node: NodeId::ALONE };
        archive.logs.begin(way);
        let at = |shard, shards| (shard, chat::archive_timeline(home, ShardId(shard), shards));
        let places = ArchivePlaces { earlier: vec![at(1, 2)], own: vec![at(0, 1)] };
        Place { archive, tables, log, earlier, places }
    }

    fn append(&self, ids: impl IntoIterator<Item = u64>) {
        let mut log = self.log.lock().expect("no panic");
        ids.into_iter().for_each(|id| log.append(message(id)));
    }

    /// Rounds until nothing is left, or one fails.
    fn drain(&self) -> bool {
        loop {
            match self.archive.round(&self.places) {
                Ok(true) => {}
                Ok(false) => return true,
                Err(_) => return false,
            }
        }
    }

    fn given(&self) -> Vec<u64> {
        self.tables.given.lock().expect("no panic").clone()
    }
}

fn message(id: u64) -> Message {
    Message { id, at_s: 7, label: Box::default(), body: Box::default() }
}

/// An entry with a label amends the message whose row has that as its key.
fn amended_row(message: &Message) -> Option<Box<[u8]>> {
    Some(message.label.clone()).filter(|label| !label.is_empty())
}

/// A row is the text.
fn state(_: &[u8], row: &[u8]) -> Option<ArchivedState> {
    let text = std::str::from_utf8(row).expect("a text").into();
    let (extra, reactions) = (Box::default(), Vec::new());
    (!row.is_empty()).then_some(ArchivedState { kind: 1, text, extra, edited_ms: 1, reactions })
}

/// Entries with a body cannot be read.
fn read(message: &Message) -> Option<ArchivedMessage> {
    let said = ArchivedMessage {
        id: message.id,
        conversation: [1; 16],
        at_ms: 7_000,
        from: "ann@a.example".into(),
        device: "phone".into(),
        to: "bob@a.example".into(),
        client_id: [2; 16],
        kind: 1,
        counts: true,
        text: "hello".into(),
        extra: Box::default(),
        about: None,
        mentions: Box::default(),
        recalls: None,
        amends: None,
    };
    message.body.is_empty().then_some(said)
}

#[test]
fn what_waits_goes_there_in_order_and_leaves_the_log() {
    let place = Place::new();
    place.append(1..=5);
    assert!(place.drain());
    assert_eq!(place.given(), [1, 2, 3, 4, 5]);
    let log = place.log.lock().expect("no panic");
    assert!(log.waits.is_empty() && log.cursor == 5);
    drop(log);
    let counts = place.archive.counts();
    assert_eq!((counts.up, counts.waiting, counts.taken, counts.lost), (1, 0, 5, 0));
}

#[test]
fn what_an_earlier_number_of_shards_has_left_goes_there_before_all_that_came_since() {
    let place = Place::new();
    // More than a page: what calls one of them back must not come before it.
    (1..=5).for_each(|id| place.earlier.lock().expect("no panic").append(message(id)));
    place.append([6]);
    assert!(place.drain());
    assert_eq!((place.given(), place.archive.counts().waiting), (vec![1, 2, 3, 4, 5, 6], 0));
}

#[test]
fn an_archive_that_is_away_loses_nothing_and_what_waits_is_told() {
    let place = Place::new();
    place.append(1..=2);
    assert!(place.drain());
    place.tables.is_away.store(true, Ordering::Relaxed);
    place.append(3..=5);
    assert!(!place.drain() && !place.drain());
    let counts = place.archive.counts();
    assert_eq!((counts.up, counts.waiting, counts.faults), (0, 3, 2));
    assert!(counts.waiting_s > 0, "since its oldest");
    place.tables.is_away.store(false, Ordering::Relaxed);
    assert!(place.drain());
    assert_eq!((place.given(), place.archive.counts().waiting), (vec![1, 2, 3, 4, 5], 0));
}

#[test]
fn what_was_given_before_a_kill_is_given_again_and_is_no_loss() {
    let place = Place::new();
    place.append(1..=3);
    // The archive had the first two, and the log the cursor; the kill came before the removal.
    place.log.lock().expect("no panic").cursor = 2;
    assert!(place.drain());
    assert_eq!((place.given(), place.archive.counts().lost), (vec![1, 2, 3], 0));
}

#[test]
fn what_was_dropped_or_cannot_be_read_is_counted_and_holds_nothing_up() {
    let place = Place::new();
    place.append(1..=5);
    let mut log = place.log.lock().expect("no panic");
    log.waits.remove(&1);
    log.waits.remove(&3);
    log.damaged = vec![3];
    let broken = Message { body: [9].into(), ..message(4) };
    log.waits.insert(4, Arc::new(broken));
    drop(log);
    assert!(place.drain());
    assert_eq!((place.given(), place.archive.counts().lost), (vec![2, 5], 3));
}

#[test]
fn what_amends_a_message_goes_there_with_what_that_is_by_now() {
    let place = Place::new();
    let amends = |id, row: &[u8]| Message { label: row.into(), ..message(id) };
    let mut log = place.log.lock().expect("no panic");
    // The third amends a message whose row cannot be read, or that was called back.
    for one in [message(1), amends(2, b"a"), amends(3, b"b"), amends(4, b"a")] {
        log.append(one);
    }
    // The row is where its key says, which is another log's key in truth: here all are in one.
    log.rows.insert(b"a"[..].into(), b"a text"[..].into());
    log.rows.insert(b"b"[..].into(), b""[..].into());
    drop(log);
    assert!(place.drain());
    assert_eq!(place.given(), [1, 2, 3, 4]);
    let amended = place.tables.amended.lock().expect("no panic").clone();
    assert_eq!(amended, [(2, "a text".into()), (4, "a text".into())]);
}

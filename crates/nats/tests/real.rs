//! One real nats-server: what a PubAck, a page, a value and a silence are.

use nats::{
    Nats, NatsError, NatsEvent, NatsSettings, StreamRead, StreamSlice, StreamSpec, TableValue, Tag,
};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use testkit::nats::NatsServers;

/// Longest wait for an event.
const WAIT: Duration = Duration::from_secs(30);

struct Told(Receiver<NatsEvent>);

impl Told {
    /// The next event of a kind; others are passed over.
    fn next<T>(&self, mut pick: impl FnMut(NatsEvent) -> Option<T>) -> T {
        loop {
            let event = self.0.recv_timeout(WAIT).expect("an event");
            if let Some(found) = pick(event) {
                return found;
            }
        }
    }

    fn published(&self) -> (Tag, Result<u64, NatsError>) {
        self.next(|event| match event {
            NatsEvent::Published { tag, result } => Some((tag, result)),
            _ => None,
        })
    }

    fn slice(&self, wanted: Tag) -> Result<StreamSlice, NatsError> {
        self.next(|event| match event {
            NatsEvent::Read { tag, result } if tag == wanted => Some(result),
            _ => None,
        })
    }
}

fn connect(servers: &NatsServers) -> (Nats, Told) {
    let (tell, told) = sync_channel(10_000);
    let tell = Mutex::new(tell);
    let events = Arc::new(move |event| {
        let _ = tell.lock().unwrap_or_else(PoisonError::into_inner).send(event);
    });
    let settings = NatsSettings { servers: servers.addresses(), ..NatsSettings::default() };
    (Nats::connect(&settings, "test", false, events).expect("it answers"), Told(told))
}

fn spec() -> StreamSpec {
    StreamSpec { name: "S-1".into(), subject: "s.1".into(), replicas: 1, bytes_max: 1 << 20 }
}

fn read(nats: &Nats, told: &Told, (ask, from): (u64, u64), wait: bool) -> StreamSlice {
    let tag = [1, 0, ask, 0];
    nats.read(1, tag, StreamRead { stream: "S-1".into(), from, wait });
    told.slice(tag).expect("a page")
}

fn sequences(slice: &StreamSlice) -> Vec<u64> {
    slice.messages.iter().map(|(sequence, _)| *sequence).collect()
}

#[test]
fn messages_stand_where_they_are_expected_or_are_refused() {
    let servers = NatsServers::start(1);
    let (nats, told) = connect(&servers);
    nats.create(&spec()).expect("made");
    nats.create(&spec()).expect("it is there");
    for number in 0..100 {
        nats.publish([7, 1, 2, number], "s.1".into(), number, vec![number as u8; 10]);
    }
    let mut answers: Vec<_> = (0..100).map(|_| told.published()).collect();
    answers.sort_unstable_by_key(|(tag, _)| tag[3]);
    let stands = |(at, (tag, result)): (u64, &(Tag, Result<u64, NatsError>))| {
        *tag == [7, 1, 2, at] && *result == Ok(at + 1)
    };
    assert!((0..).zip(&answers).all(stands), "{answers:?}");
    nats.publish([7, 1, 2, 100], "s.1".into(), 50, vec![1]);
    assert_eq!(told.published(), ([7, 1, 2, 100], Err(NatsError::Refused)));
    nats.publish([7, 1, 2, 101], "s.2".into(), 0, vec![1]);
    assert_eq!(told.published(), ([7, 1, 2, 101], Err(NatsError::Silent)), "nobody's subject");
    for number in 0.. {
        nats.publish([7, 1, 3, number], "s.1".into(), 100 + number, vec![0; 200_000]);
        match told.published().1 {
            Ok(_) => assert!(number < 5, "it takes more than its limit"),
            Err(error) => {
                assert_eq!(error, NatsError::Full);
                break;
            }
        }
    }
    nats.delete("S-1").expect("gone");
    nats.delete("S-1").expect("it is gone already");
    nats.read(1, [1, 0, 0, 0], StreamRead { stream: "S-1".into(), from: 0, wait: false });
    assert_eq!(told.slice([1, 0, 0, 0]), Err(NatsError::Gone));
}

#[test]
fn pages_have_all_messages_in_their_order_also_behind_a_purge() {
    let servers = NatsServers::start(1);
    let (nats, told) = connect(&servers);
    nats.create(&spec()).expect("made");
    let empty = read(&nats, &told, (1, 0), false);
    assert_eq!((empty.first, empty.last, empty.messages.len()), (1, 0, 0));
    for number in 0..200 {
        nats.publish([0, 0, 0, number], "s.1".into(), number, vec![number as u8]);
        told.published().1.expect("stored");
    }
    let (mut all, mut ask) = (Vec::new(), 2);
    while all.len() < 200 {
        let slice = read(&nats, &told, (ask, all.len() as u64 + 1), false);
        assert_eq!((slice.first, slice.last), (1, 200));
        assert!(slice.messages.iter().all(|(at, bytes)| bytes[..] == [(at - 1) as u8]));
        all.extend(sequences(&slice));
        ask += 1;
    }
    assert_eq!(all, (1..=200).collect::<Vec<u64>>());
    // Whoever waits is told of the next one, and not of what it read before.
    nats.read(1, [1, 0, 500, 0], StreamRead { stream: "S-1".into(), from: 201, wait: true });
    nats.publish([0, 0, 0, 0], "s.1".into(), 200, vec![9]);
    let slice = told.slice([1, 0, 500, 0]).expect("a page");
    assert_eq!(sequences(&slice), [201]);
    nats.purge_later("S-1".into(), 151);
    let mut purged = read(&nats, &told, (501, 0), false);
    while purged.first == 1 || purged.messages.is_empty() {
        purged = read(&nats, &told, (501, 0), false);
    }
    assert_eq!((purged.first, purged.messages[0].0), (151, 151));
    let again = read(&nats, &told, (502, 3), false);
    assert_eq!(again.messages[0].0, 151, "from the first, if what is asked for is gone");
    let idle = read(&nats, &told, (503, 202), true);
    assert_eq!((idle.first, idle.last, idle.messages.len()), (151, 201, 0), "a sign of life");
}

#[test]
fn values_change_by_their_revision_and_the_watcher_has_the_last_of_each_key() {
    let servers = NatsServers::start(1);
    let (nats, told) = connect(&servers);
    let value = |key: &str, revision, value: Option<&[u8]>| TableValue {
        key: key.into(),
        revision,
        value: value.map(<[u8]>::to_vec),
    };
    nats.watch("T".into());
    told.next(|event| (event == NatsEvent::TableGone).then_some(()));
    nats.create_table("T", 1).expect("made");
    told.next(|event| (event == NatsEvent::TableWhole).then_some(()));
    assert_eq!(nats.get("T", "a"), Ok(value("a", 0, None)));
    assert_eq!(nats.set("T", &value("a", 0, Some(b"1"))), Ok(Some(1)));
    assert_eq!(nats.set("T", &value("a", 0, Some(b"2"))), Ok(None));
    assert_eq!(nats.set("T", &value("a", 1, Some(b"2"))), Ok(Some(2)));
    assert_eq!(nats.set("T", &value("b.c", 0, Some(b"3"))), Ok(Some(3)));
    assert_eq!(nats.get("T", "a"), Ok(value("a", 2, Some(b"2"))));
    let mut all = nats.all("T").expect("all");
    all.sort_by(|one, other| one.key.cmp(&other.key));
    assert_eq!(all, [value("a", 2, Some(b"2")), value("b.c", 3, Some(b"3"))]);
    assert_eq!(nats.set("T", &value("a", 2, None)), Ok(Some(4)));
    assert_eq!(nats.get("T", "a"), Ok(value("a", 4, None)));
    assert_eq!(nats.all("T").expect("all"), [value("b.c", 3, Some(b"3"))]);
    // A bucket keeps the last value of a key: a slow watcher does not see those before it.
    let mut seen: Vec<TableValue> = Vec::new();
    while seen.last().is_none_or(|change| change.revision < 4) {
        seen.push(told.next(|event| match event {
            NatsEvent::Table(value) => Some(value),
            _ => None,
        }));
    }
    assert!(seen.is_sorted_by(|one, next| one.revision < next.revision), "{seen:?}");
    assert!(seen.contains(&value("b.c", 3, Some(b"3"))), "{seen:?}");
    assert_eq!(seen.last(), Some(&value("a", 4, None)));
}

#[test]
fn nodes_talk_and_a_question_to_nobody_is_answered_by_silence() {
    let servers = NatsServers::start(1);
    let (one, told) = connect(&servers);
    let (other, _) = connect(&servers);
    one.listen("to.*".into()).expect("it listens");
    // Its subscription has arrived when it hears itself.
    one.say("to.me".into(), None, b"x".to_vec());
    let heard = |told: &Told| {
        told.next(|event| match event {
            NatsEvent::Heard { subject, reply, payload } => Some((subject, reply, payload)),
            _ => None,
        })
    };
    assert_eq!(heard(&told), ("to.me".into(), None, b"x".to_vec()));
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| other.ask("to.one".into(), b"well".to_vec(), WAIT));
        let (_, reply, payload) = heard(&told);
        one.say(reply.expect("it is a question"), None, [&payload[..], b"!"].concat());
        assert_eq!(asks.join().expect("it asks"), Ok(b"well!".to_vec()));
    });
    assert_eq!(other.ask("to-nobody".into(), Vec::new(), WAIT), Err(NatsError::Silent));
    other.say_now("to.one".into(), b"bye".to_vec());
    drop(other);
    assert_eq!(heard(&told).2, b"bye");
    let facts = one.facts(&["S".into()]).expect("it says");
    assert!(facts.is_at_least(2, 15) && facts.has_jetstream && facts.cluster.is_none());
    assert_eq!(facts.streams, [("S".into(), Err(NatsError::Gone))]);
}

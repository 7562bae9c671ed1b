//! Presence on its way to a stream outside that takes, fails half way, is away or stops.

use super::*;
use crate::feed::Wish;
use model::ports::events::{ClientEvent, ClientWhat};
use model::ports::presence::directory::{DirectoryError, EventStream};
use model::presence::{NodeName, PresenceVersion};
use model::service::ServiceKind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Result of the stream for a batch.
enum Turn {
    Takes,
    /// Takes so many entries and fails.
    TakesSome(usize),
    Fails(DirectoryError),
}

/// A stream that tells what came, and waits to be told what to do with it.
struct Scripted {
    came: SyncSender<Vec<String>>,
    turns: Receiver<Turn>,
}

impl EventStream for Scripted {
    fn append(&mut self, events: &[Vec<(&'static str, String)>]) -> Result<(), DirectoryError> {
        let line = |entry: &Vec<(&'static str, String)>| {
            let fields = entry.iter().map(|(name, value)| format!("{name}={value}"));
            fields.collect::<Vec<_>>().join(" ")
        };
        let lines: Vec<_> = events.iter().map(line).collect();
        let (taken, result) = match self.turns.recv() {
            Ok(Turn::Takes) => (lines.len(), Ok(())),
            Ok(Turn::TakesSome(count)) => (count, Err(DirectoryError::Slow)),
            Ok(Turn::Fails(fault)) => (0, Err(fault)),
            Err(_) => (0, Err(DirectoryError::Slow)),
        };
        // Nobody reads on when the test is over.
        drop(self.came.send(lines[..taken].to_vec()));
        result
    }
}

struct Play {
    feed: Arc<Feed>,
    came: Receiver<Vec<String>>,
    turns: SyncSender<Turn>,
    tally: Arc<StreamTally>,
    thread: JoinHandle<()>,
}

impl Play {
    fn new(events_waiting_max: u32) -> Play {
        let feed = Feed::new(&Limits { events_waiting_max, ..Limits::default() });
        let ((tell, came), (turns, told)) = (sync_channel(1_000), sync_channel(1_000));
        let settings = StreamSettings {
            stream: Box::new(Scripted { came: tell, turns: told }),
            node: NodeName::parse("n1").expect("allowed"),
            boot: 0xb007,
            wall_ms: Arc::new(|| NOW_MS),
        };
        let courier = StreamCourier::new(settings, &feed);
        let tally = courier.tally();
        let thread = Builder::new().spawn(move || courier.run()).expect("a thread");
        Play { feed, came, turns, tally, thread }
    }

    /// A courier that has told of the start.
    fn begun(events_waiting_max: u32) -> Play {
        let play = Play::new(events_waiting_max);
        assert_eq!(
            play.take(Turn::Takes),
            [format!("type=started at_ms={NOW_MS} node=n1 boot=b007")]
        );
        play
    }

    fn take(&self, turn: Turn) -> Vec<String> {
        self.turns.send(turn).expect("it lives");
        self.came.recv_timeout(Duration::from_secs(30)).expect("a batch")
    }

    /// Goes on until so many entries came.
    fn take_all(&self, count: usize) -> Vec<String> {
        let mut all = Vec::new();
        while all.len() < count {
            all.extend(self.take(Turn::Takes));
        }
        all
    }
}

fn version(version: u64) -> DeviceEvent {
    DeviceEvent { version: PresenceVersion(version), ..offline() }
}

/// The versions in some entries.
fn versions(entries: &[String]) -> Vec<u64> {
    let field = |entry: &String| {
        let text = entry.split("version=").nth(1).expect("a version").split(' ').next();
        u64::from_str_radix(text.expect("digits"), 16).expect("hexadecimal")
    };
    entries.iter().map(field).collect()
}

#[test]
fn who_comes_and_goes_is_told_and_nothing_else() {
    let play = Play::begun(100);
    let online = happened(DeviceWhat::Online { protocol: "miop7", resumed: false });
    play.feed.publish(vec![online, report(1), offline()]);
    let client = |what| ClientEvent {
        at_ms: NOW_MS,
        client_id: "c 1".into(),
        user: Some("tom".into()),
        version: PresenceVersion(0xab),
        what,
    };
    let (protocol, peer) = ("mqtt5", ([127, 0, 0, 1], 9).into());
    play.feed.publish(vec![
        client(ClientWhat::Connected { protocol, peer, resumed: true }),
        client(ClientWhat::SessionEnded),
        client(ClientWhat::Disconnected { reason: CloseReason::KeepAliveTimeout }),
    ]);
    let device = "node=n1 product=shop device=till-7 version=0000000000000009 epoch=3";
    let client = "node=n1 client_id=c 1 user=tom version=00000000000000ab";
    let at = format!("at_ms={NOW_MS}");
    assert_eq!(
        play.take_all(4),
        [
            format!("type=online {at} {device} protocol=miop7"),
            format!("type=offline {at} {device} reason=peer_closed"),
            format!("type=client_connected {at} {client} protocol=mqtt5"),
            format!("type=client_disconnected {at} {client} reason=keep_alive_timeout"),
        ]
    );
}

#[test]
fn what_is_not_about_presence_takes_no_room_and_who_wanted_it_is_told_of_a_gap() {
    let play = Play::begun(4);
    assert!(
        play.feed.wanted(ServiceKind::Push)
            && play.feed.wanted(ServiceKind::Topics)
            && !play.feed.messages_wanted()
    );
    assert_eq!(play.feed.publish((1..=9).map(report).collect()), 0);
    assert_eq!(play.tally.waiting(), 0);
    play.feed.publish(vec![version(1)]);
    assert_eq!(versions(&play.take(Turn::Takes)), [1]);
    let back = play.feed.reader(Wish { devices: true, ..Wish::default() }, Some(1));
    let taken = back.take(9).expect("open");
    assert!(taken.lost > 0, "Reports of that time were not kept");
}

#[test]
fn a_batch_is_repeated_whole_until_it_is_taken_and_order_is_kept() {
    let play = Play::begun(100);
    play.feed.publish((1..=4).map(version).collect());
    assert_eq!(versions(&play.take(Turn::TakesSome(2))), [1, 2]);
    play.feed.publish((5..=6).map(version).collect());
    assert_eq!(play.take(Turn::Fails(DirectoryError::Unreachable("gone".into()))), [""; 0]);
    assert!(play.tally.is_away(), "the first failure was noted before the second came");
    assert_eq!(versions(&play.take(Turn::Takes)), [1, 2, 3, 4], "nothing later before it");
    assert_eq!(versions(&play.take(Turn::Takes)), [5, 6]);
    play.feed.publish(vec![version(7)]);
    assert_eq!(versions(&play.take(Turn::Takes)), [7]);
    play.feed.close();
    play.thread.join().expect("it ends");
    assert!(!play.tally.is_away());
    assert_eq!((play.tally.appended(), play.tally.failures(), play.tally.lost()), (8, 2, 0));
}

#[test]
fn what_the_feed_could_not_hold_is_told_by_a_gap_at_its_place() {
    let play = Play::begun(10);
    play.feed.publish(vec![version(1)]);
    assert_eq!(play.take(Turn::Fails(DirectoryError::Slow)), [""; 0]);
    play.feed.publish((2..=25).map(version).collect());
    assert_eq!(play.tally.waiting(), 24);
    assert_eq!(versions(&play.take(Turn::Takes)), [1], "it was held");
    let entries = play.take(Turn::Takes);
    assert_eq!(entries[0], format!("type=gap at_ms={NOW_MS} node=n1 lost=14"));
    assert_eq!(versions(&entries[1..]), (16..=25).collect::<Vec<_>>());
    assert_eq!(play.tally.lost(), 14);
}

#[test]
fn what_is_left_when_the_feed_ends_is_tried_once_more() {
    let play = Play::begun(2_000);
    play.feed.publish((1..=600).map(version).collect());
    assert_eq!(play.take(Turn::Fails(DirectoryError::Slow)), [""; 0]);
    play.feed.close();
    assert_eq!(versions(&play.take(Turn::Takes)).len(), 512);
    for _ in 0..2 {
        assert_eq!(play.take(Turn::Fails(DirectoryError::Slow)), [""; 0]);
    }
    play.thread.join().expect("it ends");
    assert_eq!((play.tally.appended(), play.tally.lost()), (513, 88));
    assert!(play.came.recv().is_err(), "nothing is tried after that");
}

#[test]
fn a_stream_that_is_always_away_ends_with_the_feed() {
    let play = Play::new(100);
    drop(play.turns);
    play.feed.publish(vec![version(1), report(1), version(2)]);
    play.feed.close();
    play.thread.join().expect("it ends");
    assert_eq!((play.tally.appended(), play.tally.lost()), (0, 2));
}

#[test]
fn a_reader_that_waits_is_woken_when_it_falls_far_behind() {
    let feed = Feed::new(&Limits { events_waiting_max: 8, ..Limits::default() });
    let wish = Wish { devices: true, ..Wish::default() };
    let reader = feed.reader(wish, None);
    feed.publish((1..=5).map(report).collect());
    assert_eq!(reader.pause(Duration::ZERO), feed::Paused::Over);
    assert!(reader.is_far_behind());
    feed.publish(vec![report(6)]);
    assert_eq!(reader.pause(Duration::from_secs(3_600)), feed::Paused::FarBehind);
    reader.take(3);
    assert!(!reader.is_far_behind());
    feed.close();
    assert_eq!(reader.pause(Duration::from_secs(3_600)), feed::Paused::Closed);
}

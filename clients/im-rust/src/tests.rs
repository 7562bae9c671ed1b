//! Behaviour that the conformance suite cannot see: order of actions, files, damaged frames.

use crate::machine::{Action, Credentials, Machine, Settings};
use crate::pb::server_frame::Answer;
use crate::pb::{self, Content, ServerFrame};
use crate::state::Saved;
use crate::store::{FileStore, MemoryStore, Store};
use crate::wire;
use crate::{Client, Event, Options};
use prost::Message;

const NAME: [u8; 16] = [7; 16];

fn frame(answer: Answer) -> Vec<u8> {
    ServerFrame { answer: Some(answer) }.encode_length_delimited_to_vec()
}

fn logged_in(text_bytes_max: u32) -> Vec<u8> {
    frame(Answer::LoggedIn(pb::LoggedIn {
        account: "ann@a.example".into(),
        silence_s: 60,
        page_messages_max: 8,
        text_bytes_max,
        extra_bytes_max: 100,
        requests_max: 8,
        ..Default::default()
    }))
}

fn message(place: u64, text: &str) -> pb::InboxEntry {
    let content = Some(Content { text: text.into(), ..Default::default() });
    let from = "bob@a.example".to_owned();
    let message =
        Some(pb::ChatMessage { id: place, seq: place, from, content, ..Default::default() });
    pb::InboxEntry { seq: place, message }
}

fn machine(account: &str, saved: Option<Saved>) -> Machine {
    let settings = Settings {
        addresses: vec!["127.0.0.1:1".into()],
        account: account.into(),
        device: "phone".into(),
        silence_s: 0,
        renews: false,
        heartbeat: [30, 120, 1_800],
        random: Box::new(|| 0.5),
        nonce: Box::new(|| "nonce".into()),
    };
    Machine::new(settings, saved)
}

fn online(text_bytes_max: u32) -> Machine {
    let mut it = machine("ann", None);
    it.start(0);
    it.connected(0, &Credentials::None, true);
    it.received(0, &logged_in(text_bytes_max));
    it.take(0);
    it
}

fn hello() -> Content {
    Content { kind: 1, text: "hello".into(), ..Default::default() }
}

fn saved(actions: &[Action]) -> Saved {
    let text = actions.iter().find_map(|action| match action {
        Action::Save(text) => Some(text),
        _ => None,
    });
    Saved::from_text(text.expect("something is saved")).expect("it can be read")
}

#[test]
fn a_message_is_saved_before_it_is_sent() {
    let mut it = online(1_000);
    it.send(NAME, "bob", hello()).expect("there is room");
    let actions = it.take(0);
    assert!(matches!(actions[..], [Action::Save(_), Action::Send(_)]), "{actions:?}");
    assert_eq!(saved(&actions).queue[0].client_id, NAME);
}

#[test]
fn a_place_is_saved_before_the_server_hears_of_it() {
    let mut it = online(1_000);
    it.received(0, &frame(Answer::Message(message(1, "hi"))));
    it.take(0);
    it.acknowledge(0, 1);
    let actions = it.take(0);
    assert!(matches!(actions[..], [Action::Save(_)]), "{actions:?}");
    assert_eq!(saved(&actions).last, Some(1));
    assert!(matches!(it.take(1_000)[..], [Action::Send(_)]));
}

#[test]
fn the_state_of_another_account_is_not_used() {
    let mut it = online(1_000);
    it.send(NAME, "bob", hello()).expect("there is room");
    let state = saved(&it.take(0));
    for (account, count) in [("ann", 1), ("carol", 0)] {
        let mut other = machine(account, Some(state.clone()));
        other.start(0);
        other.connected(0, &Credentials::None, true);
        other.take(0);
        other.received(0, &logged_in(1_000));
        let sends = other.take(0).iter().filter(|it| matches!(it, Action::Send(_))).count();
        assert_eq!(sends, count, "{account}");
    }
}

#[test]
fn a_server_with_larger_limits_sends_larger_frames() {
    let text = "x".repeat(600_000);
    let page = pb::InboxPage { entries: vec![message(1, &text)], ..Default::default() };
    for (text_bytes_max, is_left) in [(1 << 20, false), (1_000, true)] {
        let mut it = online(text_bytes_max);
        it.received(0, &frame(Answer::Page(page.clone())));
        assert_eq!(it.has_left(), is_left, "{text_bytes_max}");
    }
}

#[test]
fn a_damaged_frame_is_a_frame_a_fault_or_incomplete() {
    let good = [logged_in(1_000), frame(Answer::Message(message(7, "seven")))];
    let (mut seed, mut faults) = (1u64, 0);
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for _ in 0..20_000 {
        let mut data = good[random(2)].clone();
        for _ in 0..=random(3) {
            let at = random(data.len());
            data[at] = random(256) as u8;
        }
        faults += usize::from(wire::decode(&data, wire::FRAME_BYTES_MAX).is_err());
    }
    assert!(faults > 0);
}

#[test]
fn a_damaged_state_is_told_and_a_new_beginning() {
    let mut options = Options::new("127.0.0.1:1", "ann", "phone");
    options.store = Box::new(MemoryStore::new(Some("{".into())));
    let (sender, told) = std::sync::mpsc::channel();
    let client = Client::start_with(options, move |event| drop(sender.send(event)));
    let first = told.recv().expect("the client sends an event");
    assert!(matches!(first, Event::StoreFailed(_)), "{first:?}");
    client.expect("it begins").stop();
}

#[test]
fn nothing_secret_is_shown() {
    assert!(!format!("{:?}", Credentials::Password("hush".into())).contains("hush"));
}

#[test]
fn a_file_keeps_the_last_state_for_its_owner() {
    let folder = std::env::temp_dir().join(format!("holdline-im-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a new folder");
    let path = folder.join("state");
    let mut store = FileStore::new(&path);
    assert_eq!(store.load().expect("no file is no state"), None);
    for text in ["one", "two"] {
        store.save(text).expect("it is written");
    }
    assert_eq!(FileStore::new(&path).load().expect("it is read").as_deref(), Some("two"));
    #[cfg(unix)]
    {
        let mode = std::fs::metadata(&path).expect("it is there").permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
    }
    std::fs::remove_dir_all(&folder).expect("it was made above");
}

//! One device, frame by frame: what it says to the server and to the logic.

use super::*;
use base::hash::HashKey;
use base::time::Instant;
use model::limits::Limits;
use model::link::{Link, Protocol};
use proto_im::codec::chatroom::{JoinedFields, MissedFields, SaidFields};
use proto_im::codec::client_frame::LoginFields;
use proto_im::codec::content::MessageFields;
use proto_im::codec::frame::{PREFACE, split};
use proto_im::codec::server_frame::{FailedFields, LoggedInFields, SentFields};

/// Bob's device 7, and what it has for the wire.
struct Device {
    client: Client,
    out: Out,
    now: Now,
}

impl Device {
    fn new(password: Option<&str>, is_scram: bool) -> Device {
        Device::with(password, is_scram, |_| {})
    }

    /// One that is told apart from the others.
    fn with(password: Option<&str>, is_scram: bool, change: impl FnOnce(&mut ImProfile)) -> Device {
        let mut profile = ImProfile {
            account: Formula::new("bob%i"),
            device: Formula::new("d%i"),
            password: password.map(Box::from),
            is_scram,
            silence_s: 60,
            is_lite: false,
            audits: false,
            rooms: Box::default(),
            nobody: Arc::new(Profile::new("", "")),
        };
        change(&mut profile);
        let client = Client::new(Arc::new(profile), 7);
        let now = Now::new(Instant::default(), 1);
        Device { client, out: Outbox::new(HashKey::new(1, 2), [0; 32]), now }
    }

    /// Calls, and is let in with so much of its inbox read, of so much.
    fn come(&mut self, cursor: Seq, head: Seq) -> (Vec<Observation>, Vec<String>) {
        self.client.opened(&mut self.out).expect("it calls");
        let _ = self.wire();
        let fields = LoggedInFields {
            account: "bob7@h",
            cursor,
            head,
            silence_s: 60,
            page_messages_max: 3,
            ..LoggedInFields::default()
        };
        self.hear(&ServerFrame::LoggedIn(fields))
    }

    /// The device's observations of a frame, and its answers to the server.
    fn hear(&mut self, frame: &ServerFrame<'_>) -> (Vec<Observation>, Vec<String>) {
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        let (limits, link) = (Limits::default(), Link::loopback(Protocol::Im));
        let mut input = Input::new(&bytes, &link, &limits);
        self.client.receive(self.now, &mut input, &mut self.out).expect("a good frame");
        assert_eq!(input.taken(), bytes.len());
        self.told()
    }

    fn told(&mut self) -> (Vec<Observation>, Vec<String>) {
        (self.out.words().collect(), self.wire())
    }

    fn wake(&mut self) -> Vec<String> {
        self.client.wake(&mut self.out).expect("it goes on");
        self.wire()
    }

    /// Frames that it sends, as words.
    fn wire(&mut self) -> Vec<String> {
        let mut bytes = std::mem::take(self.out.bytes());
        if bytes.starts_with(&PREFACE) {
            bytes.drain(..PREFACE.len());
        }
        let (mut rest, mut words) = (&bytes[..], Vec::new());
        while let Some((frame, length)) = split(rest, 1 << 20).expect("a good length") {
            words.push(match ClientFrame::read(frame).expect("a good frame") {
                ClientFrame::Login(LoginFields { name, device, password, method, .. }) => {
                    format!("login {name} {device} {}{method}", String::from_utf8_lossy(password))
                }
                ClientFrame::Pull(pull) => format!("pull {} {}", pull.after, pull.count),
                ClientFrame::Acknowledge(upto) => format!("acknowledge {upto}"),
                ClientFrame::Send(send) => format!("send {} {}", send.number, send.to),
                other => format!("{other:?}"),
            });
            rest = &rest[length..];
        }
        words
    }

    fn message(&mut self, seq: Seq) -> (Vec<Observation>, Vec<String>) {
        self.hear(&ServerFrame::Message(entry(seq, "ann@h")))
    }

    fn page(&mut self, entries: &[(Seq, &str)], head: Seq) -> (Vec<Observation>, Vec<String>) {
        let upto = entries.last().map_or(head, |(seq, _)| *seq);
        let entries = entries.iter().map(|(seq, from)| entry(*seq, from)).collect();
        self.hear(&ServerFrame::Page(PageFields {
            number: PULL,
            entries,
            upto,
            head,
            events: vec![],
        }))
    }
}

fn entry(seq: Seq, from: &str) -> EntryFields<'_> {
    let content = ContentFields::new(1, "hi", &[9]);
    let (id, client_id) = (seq, &[0; 16]);
    let (edited_ms, reactions) = (0, Vec::new());
    let message = MessageFields {
        id,
        seq,
        at_ms: 1,
        from,
        device: "p",
        to: "bob7@h",
        client_id,
        content,
        edited_ms,
        reactions,
    };
    EntryFields { seq, message }
}

/// An entry of a group, in Bob's inbox.
fn of_group(seq: Seq, from: &str, kind: u32) -> EntryFields<'_> {
    let EntryFields { mut message, .. } = entry(seq, from);
    message.to = "mabcdefghijkl@conference.h";
    message.content.kind = kind;
    EntryFields { seq, message }
}

fn say(number: u32) -> ChatSay {
    let (to, front, text) = ("ann".into(), [1].into(), "".into());
    ChatSay { virtual_client: 0, number, to, id: [number as u8; 16], front, text }
}

fn heard(again: bool) -> Observation {
    heard_from("ann@h", again)
}

fn heard_from(sender: &str, again: bool) -> Observation {
    let mut head = [0; HEAD_BYTES];
    head[0] = 9;
    let claim = DeliveryClaim::Sender(sender_sum(sender));
    Observation::Heard { bytes: 3, head, rest: crc32fast::hash(b"hi"), again, claim }
}

const NOTHING: [&str; 0] = [];

#[test]
fn in_step_it_acknowledges_many_at_once_or_after_a_while() {
    let mut bob = Device::new(None, false);
    let (said, wire) = bob.come(0, 0);
    let bound = Observation::Bound { resumed: false, heartbeat_s: 60, offline_count: 0 };
    assert_eq!((said, wire), (vec![bound], vec![]));
    for seq in 1..ACKNOWLEDGED_AT_ONCE {
        assert_eq!(bob.message(seq), (vec![heard(false)], vec![]));
    }
    assert_eq!(bob.message(16).1, ["acknowledge 16"]);
    assert_eq!(bob.message(17).1, NOTHING);
    assert_eq!(bob.wake(), ["acknowledge 17"]);
    assert_eq!(bob.wake(), NOTHING, "once");
}

#[test]
fn who_is_behind_or_passed_over_pulls_and_nothing_is_handed_on_twice() {
    let mut bob = Device::new(None, false);
    let (said, wire) = bob.come(2, 5);
    let bound = Observation::Bound { resumed: true, heartbeat_s: 60, offline_count: 3 };
    assert_eq!((said, wire), (vec![bound], vec!["pull 2 3".to_owned()]));
    // What comes meanwhile a page will have.
    assert_eq!(bob.message(6), (vec![], vec![]));
    let (said, wire) = bob.page(&[(3, "ann@h"), (4, "bob7@h"), (5, "ann@h")], 6);
    let fetched = |messages, behind| Observation::Fetched { messages, behind };
    assert_eq!(said, [heard(false), heard(false), fetched(2, 1)], "but for his own");
    assert_eq!(wire, ["acknowledge 5", "pull 5 3"]);
    assert_eq!(bob.page(&[(6, "ann@h")], 6).0, [heard(false), fetched(1, 0)]);
    // A page had it: the server may not have known. What is told again in step is a repetition.
    assert_eq!(bob.message(6), (vec![], vec![]));
    assert_eq!(bob.message(7).0, [heard(false)]);
    assert_eq!(bob.message(7).0, [heard(true)]);
    // A gap, and a Notify, once each.
    assert_eq!(bob.message(9), (vec![], vec!["pull 7 3".to_owned()]));
    assert_eq!(bob.hear(&ServerFrame::Notify(12)), (vec![], vec![]), "it pulls already");
    let (_, wire) = bob.page(&[(8, "ann@h"), (9, "ann@h")], 9);
    assert_eq!(wire, ["acknowledge 9", "pull 9 3"]);
    assert_eq!(bob.page(&[(10, "ann@h"), (12, "ann@h")], 12).1, ["acknowledge 12"]);
    assert_eq!(bob.hear(&ServerFrame::Notify(13)).1, ["pull 12 3"]);
    // A pull that fails is asked for again by and by.
    let failed =
        FailedFields { number: PULL, fault: 5, word: "busy", reason: "", retry_after_ms: 0 };
    assert_eq!(bob.hear(&ServerFrame::Failed(failed)), (vec![], vec![]));
    assert_eq!(bob.wake(), ["pull 12 3"]);
}

#[test]
fn what_has_no_answer_is_said_again_until_it_has_one() {
    let mut bob = Device::new(None, false);
    bob.come(0, 0);
    for number in 1..=3 {
        bob.client.say(say(number), &mut bob.out);
    }
    assert_eq!(bob.wire(), ["send 1 ann", "send 2 ann", "send 3 ann"]);
    let sent = |number| {
        let (id, seq, at_ms, again) = (1, 1, 1, false);
        ServerFrame::Sent(SentFields { number, id, seq, at_ms, again })
    };
    assert_eq!(bob.hear(&sent(2)).0, [Observation::TakenAlone { seq: 2 }]);
    assert_eq!(bob.hear(&sent(2)).0, [], "one answer is enough");
    let failed = |fault| {
        ServerFrame::Failed(FailedFields {
            number: 1,
            fault,
            word: "no",
            reason: "",
            retry_after_ms: 0,
        })
    };
    assert_eq!(bob.hear(&failed(5)).0, [Observation::NotTaken { seq: 1, code: 5 }]);
    assert_eq!(bob.wake(), ["send 1 ann"], "it was too busy");
    bob.client.closed();
    bob.client.keep(say(4));
    assert_eq!(bob.come(0, 0).1, ["send 1 ann", "send 3 ann", "send 4 ann"]);
    assert_eq!(bob.hear(&failed(2)).0, [Observation::NotTaken { seq: 1, code: 2 }]);
    for number in [3, 4] {
        assert_eq!(bob.hear(&sent(number)).0, [Observation::TakenAlone { seq: number }]);
    }
    assert!(bob.client.work.is_none(), "an idle one has no heap of its own");
    bob.client.closed();
    assert_eq!(bob.come(0, 0).1, NOTHING);
}

#[test]
fn a_password_is_shown_or_proved() {
    let opened = |password, is_scram| {
        let mut bob = Device::new(password, is_scram);
        bob.client.opened(&mut bob.out).expect("it calls");
        (bob.wire(), bob)
    };
    assert_eq!(opened(None, false).0, ["login bob7 d7 "]);
    assert_eq!(opened(Some("secret"), false).0, ["login bob7 d7 secret"]);
    let (wire, mut bob) = opened(Some("secret"), true);
    assert_eq!(wire, ["login bob7 d7 SCRAM-SHA-256"]);
    // A server that cannot prove that it knows the password is none.
    let welcome = LoggedInFields { account: "bob7@h", silence_s: 60, ..LoggedInFields::default() };
    let mut bytes = Vec::new();
    ServerFrame::LoggedIn(welcome).write(&mut bytes);
    let (limits, link) = (Limits::default(), Link::loopback(Protocol::Im));
    let mut input = Input::new(&bytes, &link, &limits);
    let received = bob.client.receive(bob.now, &mut input, &mut bob.out);
    assert_eq!(received, Err(CloseReason::AuthFailed));
}

#[test]
fn an_address_is_of_its_account_whatever_begins_like_it() {
    assert!(is_of("bob@h", "bob") && is_of("bob@h", "bob@h"));
    assert!(!is_of("bobby@h", "bob") && !is_of("bob@h2", "bob@h") && !is_of("ann@h", "bob"));
}

#[test]
fn what_happens_in_a_group_is_a_place_and_nothing_that_was_said() {
    let mut bob = Device::new(None, false);
    bob.come(0, 0);
    let (told, _) = bob.hear(&ServerFrame::Message(of_group(1, "ann@h", 3)));
    assert_eq!(told, []);
    let (told, _) = bob.hear(&ServerFrame::Message(of_group(2, "ann@h", 1)));
    assert_eq!(told, [heard(false)]);
    // What another of his devices says to the group is a place, too.
    let (told, wire) = bob.hear(&ServerFrame::Message(of_group(3, "bob7@h", 1)));
    assert_eq!((told, wire), (vec![], vec![]));
    let (told, _) = bob.message(4);
    assert_eq!(told, [heard(false)]);
}

#[test]
fn a_place_of_an_event_is_passed_by_the_page_that_is_pulled_for_it() {
    let mut bob = Device::new(None, false);
    bob.come(0, 0);
    assert_eq!(bob.message(1).0, [heard(false)]);
    let event = EventFields { seq: 2, with: "ann@h", read: 1, ..EventFields::default() };
    assert_eq!(bob.hear(&ServerFrame::Event(event)), (vec![], vec!["pull 1 3".to_owned()]));
    let fetched = Observation::Fetched { messages: 0, behind: 0 };
    assert_eq!(bob.page(&[], 2), (vec![fetched], vec!["acknowledge 2".to_owned()]));
    assert_eq!(bob.message(3).0, [heard(false)]);
}

#[test]
fn who_audits_has_what_its_account_said_to_groups_and_to_nobody_else() {
    let mut bob = Device::with(None, false, |profile| profile.audits = true);
    bob.come(0, 4);
    let entries = vec![
        of_group(1, "bob7@h", 3),
        of_group(2, "bob7@h", 1),
        entry(3, "bob7@h"),
        of_group(4, "ann@h", 1),
    ];
    let page = PageFields { number: PULL, entries, upto: 4, head: 4, events: vec![] };
    let (told, _) = bob.hear(&ServerFrame::Page(page));
    let fetched = Observation::Fetched { messages: 2, behind: 0 };
    assert_eq!(told, [heard_from("bob7@h", false), heard(false), fetched]);
}

#[test]
fn who_is_lite_takes_nothing_and_sends() {
    let mut bob = Device::with(None, false, |profile| profile.is_lite = true);
    let (told, wire) = bob.come(2, 9);
    let bound = Observation::Bound { resumed: true, heartbeat_s: 60, offline_count: 0 };
    assert_eq!((told, wire), (vec![bound], vec![]));
    assert_eq!(bob.message(10), (vec![], vec![]));
    assert_eq!(bob.hear(&ServerFrame::Notify(11)), (vec![], vec![]));
    bob.client.say(say(1), &mut bob.out);
    assert_eq!(bob.wire(), ["send 1 ann"]);
    assert_eq!(bob.wake(), [""; 0]);
}

#[test]
fn whoever_is_to_be_in_a_chatroom_joins_until_it_is_and_hands_on_what_it_hears_or_missed() {
    let mut bob = Device::with(None, false, |profile| profile.rooms = ["room-0".into()].into());
    let (_, wire) = bob.come(0, 0);
    assert!(wire[0].starts_with("JoinChatroom(") && wire[0].contains("room-0"), "{wire:?}");
    let failed = FailedFields { number: JOIN, fault: 55, ..FailedFields::default() };
    assert_eq!(bob.hear(&ServerFrame::Failed(failed)), (vec![], vec![]), "it is no message's");
    assert_eq!(bob.wake(), wire);
    assert_eq!(bob.wake(), NOTHING);
    let joined = ServerFrame::ChatroomJoined(JoinedFields::default());
    let (at_qos, refused) = ([0; 3], Box::default());
    let subscribed = Observation::Subscribed { granted: 1, at_qos, refused };
    assert_eq!(bob.hear(&joined).0, [subscribed], "it is waited for before anything is sent");
    let said = |from| SaidFields { message: entry(1, from).message, important: false };
    assert_eq!(bob.hear(&ServerFrame::ChatroomSaid(said("ann@h"))).0, [heard(false)]);
    assert_eq!(bob.hear(&ServerFrame::ChatroomSaid(said("bob7@h"))).0, [], "nobody hears himself");
    let missed = MissedFields { room: "room-0@live.h", missed: 7 };
    let skipped = Observation::Skipped { messages: 7 };
    assert_eq!(bob.hear(&ServerFrame::ChatroomMissed(missed)).0, [skipped]);
    let mut lite = Device::with(None, false, |profile| profile.is_lite = true);
    lite.come(0, 0);
    assert_eq!(lite.hear(&ServerFrame::ChatroomSaid(said("ann@h"))), (vec![], vec![]));
}

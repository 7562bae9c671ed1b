//! A client of MQTT 5 and of 3.1.1 that chats: what it sends becomes words for chat, what chat says
//! becomes messages and acknowledgements, whatever comes, in time or not at all.

use super::*;
use crate::machines::{DoorProfile, ServerMachine};
use base::hash::HashKey;
use model::account::{AccountAddress, AccountId};
use model::chat::{ChatMessage, ClientMessageId, Content, EventsForm, NoDevice, SendRejected};
use model::id::{SessionRef, ShardId};
use model::limits::Limits;
use model::link::Protocol;
use model::ports::access::GrantedAccount;
use model::request::Refusal;
use model::session::{Connected, SessionRequest};
use model::topic::Publication;
use proto_im::codec::server_frame::ServerFrame;
use proto_mqtt::codec::block::{Block, Properties};
use proto_mqtt::codec::fanout::passed_on;
use proto_mqtt::codec::property::Property;
use proto_mqtt::codec::{DecodeRules, DecodeStep, Packet, Sender, Version, decode};
use std::sync::Arc;

const SESSION: SessionRef = SessionRef::from_bits(5);
const ID: &[u8; 16] = b"0123456789abcdef";

/// `Send` to bob, number 7.
fn send() -> Vec<u8> {
    let mut bytes = b"\x08\x07\x12\x03bob\x1a\x10".to_vec();
    bytes.extend_from_slice(ID);
    bytes.extend_from_slice(b"\x22\x06\x08\x01\x12\x02hi");
    bytes
}

/// Packets to the client: acknowledgements and messages.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Heard {
    Ack(u16, u8),
    Message {
        topic: String,
        payload: Vec<u8>,
        correlation: Option<Vec<u8>>,
        json: bool,
        ids: Vec<u32>,
    },
    Disconnect(u8),
}

impl Heard {
    /// A frame on a topic, without more.
    fn frame(topic: &str, frame: &ServerFrame<'_>) -> Heard {
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        let payload = bytes[1..].to_vec(); // none of these is longer than 127 bytes
        Heard::Message { topic: topic.into(), payload, correlation: None, json: false, ids: vec![] }
    }
}

/// A connection whose client is let in.
struct Client {
    machine: ServerMachine,
    out: Outbox<Request>,
    version: Version,
    at_s: u64,
    ended: Option<CloseReason>,
    events: EventsWanted,
    limits: Arc<Limits>,
}

impl Client {
    fn new(version: Version) -> Client {
        let link = Link::loopback(Protocol::Mqtt);
        let profile = DoorProfile::strict(10_000, "a.example");
        let machine = ServerMachine::new(&link, &profile).expect("MQTT is served");
        let mut client = Client {
            machine,
            out: Outbox::new(HashKey::new(1, 2), [0; 32]),
            version,
            at_s: 0,
            ended: None,
            events: EventsWanted::default(),
            limits: Arc::new(Limits::default()),
        };
        let now = client.now();
        client.machine.opened(now, &link, &mut client.out).expect("it is open");
        let connect: &[u8] = match version {
            Version::V5 => b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x01a",
            _ => b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a",
        };
        for _ in 0..2 {
            let mut input = Input::new(connect, &link, &client.limits);
            client.machine.receive(now, &mut input, &mut client.out).expect("it is right");
        }
        client.out.words();
        let connected = Connected {
            session: SessionRef::new(ShardId(0), base::slab::Key { slot: 1, generation: 1 }),
            present: false,
            assigned: None,
            keep_alive_s: 60,
            expiry_s: 0,
            receive_max: 65_535,
            response_information: None,
            method: None,
            is_bridge: false,
        };
        client.tell(SessionDelivery::Connected(Box::new(connected)).into());
        client
    }

    /// One that has its session, and wants to be told what happens.
    fn in_session() -> Client {
        let mut client = Client::new(Version::V5);
        client.events.plain = Some(EventsForm::default());
        client.wants();
        assert!(matches!(client.asked()[..], [ChatRequest::Enter(_)]));
        client.tell(logged_in(3, 3));
        client
    }

    fn now(&self) -> Now {
        let nanos = self.at_s * 1_000_000_000;
        Now::new(Instant::from_nanos(nanos), 1_700_000_000_000 + self.at_s * 1_000)
    }

    /// Packets that the client got since.
    fn heard(&mut self) -> Vec<Heard> {
        let mut bytes = Vec::new();
        self.out.look_at_wire(|piece| bytes.extend_from_slice(piece));
        self.out.drain_wire(|_| {});
        let (mut rest, mut heard) = (&bytes[..], Vec::new());
        let rules = DecodeRules::strict(Sender::Server, self.version);
        while let Ok(DecodeStep::Packet { packet, bytes, .. }) = decode(rest, &rules) {
            match packet {
                Packet::Puback(ack) | Packet::Pubrec(ack) => {
                    heard.push(Heard::Ack(ack.id, ack.reason.number()));
                }
                Packet::Publish(publish) => {
                    assert!(publish.id == 0 && !publish.retain, "at QoS 0");
                    let properties = publish.properties;
                    heard.push(Heard::Message {
                        topic: publish.topic.into(),
                        payload: publish.payload.into(),
                        correlation: properties.correlation_data().map(Into::into),
                        json: properties.content_type() == Some("application/json"),
                        ids: properties.subscription_ids().collect(),
                    });
                }
                Packet::Disconnect(end) => heard.push(Heard::Disconnect(end.reason.number())),
                Packet::Connack(_) => {}
                other => panic!("{other:?}"),
            }
            rest = &rest[bytes..];
        }
        assert!(rest.is_empty(), "{rest:02x?}");
        heard
    }

    fn tell(&mut self, down: Delivery) -> Vec<Heard> {
        let now = self.now();
        if let Err(reason) = self.machine.command(now, down, &mut self.out) {
            self.ended = Some(reason);
        }
        self.heard()
    }

    /// Requests to chat since; there are none to topics.
    fn asked(&mut self) -> Vec<ChatRequest> {
        let words = self.out.words().filter_map(|word| match word {
            Request::Chat(asked) => Some(asked),
            Request::Topics(SessionRequest::Closed { .. }) => None,
            other => panic!("{other:?}"),
        });
        words.collect()
    }

    fn device(&self) -> AccountDevice {
        AccountDevice {
            address: AccountAddress::parse("ann", "a.example").expect("right"),
            user: "ann".into(),
            account: GrantedAccount { uid: 4, epoch: 2 },
            until_s: 9,
            device: "a".into(),
            protocol: "mqtt5",
            peer: None,
            events: self.events,
            limits: self.limits.clone(),
        }
    }

    /// The broker says whose device it is.
    fn wants(&mut self) -> Vec<Heard> {
        self.tell(SessionDelivery::Device(Box::new(self.device())).into())
    }

    fn call_of(&self, id: u16, topic: &str, payload: &[u8], of: &[Property<'_>]) -> ChatCall {
        let block = Block::of(of).expect("they are short");
        let properties = passed_on(block.properties());
        let qos = if id == 0 { Qos::AtMostOnce } else { Qos::AtLeastOnce };
        let message = Arc::new(Publication::new(topic, &properties, payload));
        ChatCall { id, qos, message, device: Ok(self.device()), client_id: "a".into() }
    }

    /// A request at QoS 1, or at QoS 0 without an identifier.
    fn call(&mut self, id: u16, topic: &str, payload: &[u8]) -> Vec<Heard> {
        let call = self.call_of(id, topic, payload, &[]);
        self.tell(SessionDelivery::Call(Box::new(call)).into())
    }

    fn wake_at(&mut self, at_s: u64) -> Vec<Heard> {
        self.at_s = at_s;
        let now = self.now();
        self.machine.wake(now, &mut self.out).expect("it goes on");
        self.heard()
    }
}

fn logged_in(head: Seq, cursor: Seq) -> Delivery {
    ChatDelivery::LoggedIn(Box::new(LoggedIn {
        session: SESSION,
        account: AccountId(1),
        address: AccountAddress::parse("ann", "a.example").expect("right"),
        head,
        cursor,
        server_ms: 1,
        data: None,
    }))
    .into()
}

fn message(seq: Seq) -> Delivery {
    let address = |text| AccountAddress::parse(text, "a.example").expect("right");
    let message = Arc::new(ChatMessage {
        id: 100 + seq,
        seq,
        at_ms: 5,
        from: address("bob"),
        device: "phone".into(),
        to: address("ann"),
        client_id: ClientMessageId(*ID),
        amended: None,
        content: Content::text("hi"),
    });
    ChatDelivery::Message { seq, message }.into()
}

fn failed(number: u32, why: ChatFault, reason: &'static str) -> ServerFrame<'static> {
    let fault = proto_im::codec::fault_number(why);
    ServerFrame::Failed(proto_im::codec::server_frame::FailedFields {
        number,
        fault,
        word: why.name(),
        reason,
        retry_after_ms: 0,
    })
}

#[test]
fn a_request_begins_the_session_and_is_answered_where_it_wants_with_what_belongs_to_it() {
    let mut client = Client::new(Version::V5);
    let of = [Property::ResponseTopic("for/a"), Property::CorrelationData(b"\x00one")];
    let call = client.call_of(9, "$im/req/send", &send(), &of);
    assert_eq!(client.tell(SessionDelivery::Call(Box::new(call)).into()), []);
    let asked = client.asked();
    let [ChatRequest::Enter(entering)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((&*entering.user, entering.account.uid, entering.until_s), ("ann", 4, 9));
    assert_eq!((entering.login.account.as_str(), &*entering.login.device), ("ann@a.example", "a"));
    assert_eq!(client.tell(logged_in(0, 0)), [], "it did not want to be told");
    let asked = client.asked();
    let [ChatRequest::Send { session, number, message }] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((*session, message.to.as_str()), (SESSION, "bob"));
    let sent = ChatDelivery::Sent { number: *number, id: 3, seq: 2, at_ms: 1, again: false };
    let heard = client.tell(sent.into());
    let [Heard::Ack(9, 0), Heard::Message { topic, payload, correlation, json: false, .. }] =
        &heard[..]
    else {
        panic!("{heard:?}")
    };
    assert_eq!((&**topic, correlation.as_deref()), ("for/a", Some(&b"\x00one"[..])));
    let Ok(Some(ServerFrame::Sent(sent))) = ServerFrame::read(payload) else { panic!() };
    assert_eq!((sent.number, sent.seq), (7, 2), "the device's own number");
}

#[test]
fn json_is_answered_in_json_by_content_type_or_by_topic() {
    let mut client = Client::in_session();
    let json = br#"{"number":7,"after":"1","count":5}"#;
    let of = [Property::ContentType("application/json"), Property::CorrelationData(b"x")];
    let typed = client.call_of(0, "$im/req/pull", json, &of);
    let named = client.call_of(0, "$im/req/pull/json", json, &[]);
    for (call, topic_data) in [(typed, Some(b"x".to_vec())), (named, None)] {
        client.tell(SessionDelivery::Call(Box::new(call)).into());
        let asked = client.asked();
        let [ChatRequest::Pull { number, after: 1, count: 5, .. }] = asked[..] else {
            panic!("{asked:?}")
        };
        let heard = client.tell(ChatDelivery::Failed { number, why: ChatFault::Busy }.into());
        let payload = br#"{"failed":{"fault":"FAULT_BUSY","number":7,"word":"busy"}}"#.to_vec();
        let topic = "$im/res/a".to_owned();
        let correlation = topic_data;
        let expected = Heard::Message { topic, payload, correlation, json: true, ids: vec![] };
        assert_eq!(heard, [expected]);
    }
}

#[test]
fn what_is_no_request_is_answered_refused_and_asked_of_nobody() {
    let too_large = vec![b'x'; 140_000];
    for (topic, payload, code) in [
        ("$im/req/nothing", &b""[..], 0x90),
        ("$im/req/", b"", 0x90),
        ("$im/req/login", b"", 0x90),
        ("$im/req/proceed", b"", 0x90),
        ("$im/req/ping", b"", 0x90),
        ("$im/req/goodbye", b"", 0x90),
        ("$im/req/send/json/json", b"", 0x90),
        ("$im/req/send", b"", 0x99),
        ("$im/req/send", b"\xff\xff", 0x99),
        ("$im/req/send", b"\x0b", 0x99),
        ("$im/req/send", b"\x12\x05bob", 0x99),
        ("$im/req/send", b"\x12\x02\xc3\x28", 0x99),
        ("$im/req/send/json", b"", 0x99),
        ("$im/req/send/json", b"[1]", 0x99),
        ("$im/req/send/json", b"{\"to\":1}", 0x99),
        ("$im/req/send", &too_large, 0x99),
    ] {
        let mut client = Client::in_session();
        let heard = client.call(4, topic, payload);
        let [Heard::Message { payload: told, .. }, Heard::Ack(4, reason)] = &heard[..] else {
            panic!("{topic}: {heard:?}")
        };
        assert_eq!(*reason, code, "{topic}");
        assert!(told.windows(2).any(|it| it == b"in" || it == b"to"), "{told:02x?}");
        assert_eq!(client.asked(), [], "{topic}");
        let counted = client.out.counts().count();
        assert!(counted >= 1, "{topic}");
        assert_eq!(client.call(0, topic, payload).len(), 1, "at QoS 0 the answer alone");
        assert_eq!(client.ended, None);
    }
}

#[test]
fn every_cut_of_a_request_is_answered_once() {
    let whole = send();
    for end in 0..whole.len() {
        let mut client = Client::in_session();
        let heard = client.call(1, "$im/req/send", &whole[..end]);
        let asked = client.asked();
        match asked.len() {
            0 => assert!(matches!(heard[..], [Heard::Message { .. }, Heard::Ack(1, 0x99)])),
            _ => assert!(heard.is_empty(), "{end}: it is with chat"),
        }
    }
}

#[test]
fn who_has_no_account_is_told_so() {
    for (none, version) in [(NoDevice::Off, Version::V5), (NoDevice::NoAccount, Version::V311)] {
        let mut client = Client::new(version);
        let call = client.call_of(3, "$im/req/send", &send(), &[]);
        let call = ChatCall { device: Err(none), ..call };
        let heard = client.tell(SessionDelivery::Call(Box::new(call)).into());
        let told = Heard::frame("$im/res/a", &failed(7, ChatFault::NoSession, none.meaning()));
        let code = if version == Version::V5 { 0x87 } else { 0 };
        assert_eq!(heard, [told, Heard::Ack(3, code)]);
        assert_eq!(client.asked(), []);
    }
}

#[test]
fn faults_are_told_in_the_answer_and_in_the_acknowledgement() {
    let mut client = Client::in_session();
    for (why, code) in [
        (ChatFault::NotMember, 0x87),
        (ChatFault::Silenced, 0x87),
        (ChatFault::Busy, 0x97),
        (ChatFault::StoreFull, 0x97),
        (ChatFault::StoreFailed, 0x83),
        (ChatFault::RateLimited, 0x97),
        (ChatFault::Conflict, 0x80),
        (ChatFault::UnknownAccount, 0x80),
        (ChatFault::Unchanged, 0),
    ] {
        client.call(2, "$im/req/send", &send());
        let asked = client.asked();
        let [ChatRequest::Send { number, .. }] = asked[..] else { panic!("{asked:?}") };
        let rejected = SendRejected { number, why, reason: "".into(), retry_after_ms: 0 };
        let mut heard = client.tell(ChatDelivery::Rejected(Box::new(rejected)).into());
        heard.sort_by_key(|it| matches!(it, Heard::Message { .. }));
        assert_eq!(heard[0], Heard::Ack(2, code), "{why:?}");
        assert_eq!(heard[1], Heard::frame("$im/res/a", &failed(7, why, "")));
    }
}

#[test]
fn so_many_requests_may_be_unanswered_and_one_more_is_busy() {
    let mut client = Client::in_session();
    let most = usize::from(client.limits.chat.requests_a_session_max);
    for _ in 0..most {
        assert_eq!(client.call(0, "$im/req/send", &send()), []);
    }
    let asked = client.asked();
    assert_eq!(asked.len(), most);
    let heard = client.call(1, "$im/req/send", &send());
    let told = failed(7, ChatFault::Busy, "too many requests are not answered");
    assert_eq!(heard, [Heard::frame("$im/res/a", &told), Heard::Ack(1, 0x97)]);
    let ChatRequest::Send { number, .. } = asked[0] else { panic!() };
    client.tell(ChatDelivery::Done { number }.into());
    assert_eq!(client.call(1, "$im/req/send", &send()), [], "there is room again");
}

#[test]
fn what_waits_for_a_session_is_bounded_and_refused_with_it() {
    let mut client = Client::new(Version::V5);
    let large = vec![0x82; 100_000]; // not looked at before there is a session
    for id in 1..=2 {
        assert_eq!(client.call(id, "$im/req/send", &large), []);
    }
    let told = failed(0, ChatFault::Busy, "too much is not answered");
    let heard = client.call(3, "$im/req/send", &large);
    assert_eq!(heard, [Heard::frame("$im/res/a", &told), Heard::Ack(3, 0x97)]);
    assert_eq!(client.asked().len(), 1, "one login for all of them");
    let refused =
        LoginRefused { why: Denial::BadCredentials, retry_after_ms: 0, server: None, who: None };
    let heard = client.tell(ChatDelivery::Refused(Box::new(refused)).into());
    let told = failed(0, ChatFault::NoSession, "bad_credentials");
    let answer = Heard::frame("$im/res/a", &told);
    let expected = [answer.clone(), Heard::Ack(1, 0x87), answer, Heard::Ack(2, 0x87)];
    assert_eq!(heard, expected);
    client.call(5, "$im/req/send", &send());
    assert!(matches!(client.asked()[..], [ChatRequest::Enter(_)]), "it may try again");
}

#[test]
fn a_session_that_was_refused_for_now_is_asked_for_again() {
    let mut client = Client::new(Version::V5);
    client.events.json = Some(EventsForm { subscription_id: Some(7) });
    client.wants();
    assert_eq!(client.asked().len(), 1);
    let refused =
        LoginRefused { why: Denial::Busy, retry_after_ms: 2_000, server: None, who: None };
    assert_eq!(client.tell(ChatDelivery::Refused(Box::new(refused)).into()), []);
    client.wake_at(1);
    assert_eq!(client.asked(), []);
    client.wake_at(2);
    assert!(matches!(client.asked()[..], [ChatRequest::Enter(_)]));
}

#[test]
fn what_is_not_answered_in_time_is_busy_and_a_late_answer_is_nobodys() {
    let mut client = Client::in_session();
    client.call(6, "$im/req/send", &send());
    let asked = client.asked();
    let ChatRequest::Send { number, .. } = asked[0] else { panic!() };
    assert_eq!(client.wake_at(ANSWER_S_MAX - 1), []);
    let told = failed(7, ChatFault::Busy, "there was no answer in time");
    let heard = client.wake_at(ANSWER_S_MAX);
    assert_eq!(heard, [Heard::frame("$im/res/a", &told), Heard::Ack(6, 0x97)]);
    let late = ChatDelivery::Sent { number, id: 3, seq: 2, at_ms: 1, again: false };
    assert_eq!(client.tell(late.into()), []);

    let mut client = Client::new(Version::V5);
    client.call(8, "$im/req/send", &send());
    client.asked();
    let told = failed(7, ChatFault::Busy, "there was no answer in time");
    let heard = client.wake_at(ANSWER_S_MAX);
    assert_eq!(heard, [Heard::frame("$im/res/a", &told), Heard::Ack(8, 0x97)]);
    client.tell(logged_in(1, 1));
    let asked = client.asked();
    assert!(matches!(asked[..], [ChatRequest::Closed { session: SESSION, .. }]), "{asked:?}");
}

#[test]
fn what_happens_is_told_in_the_forms_that_are_wanted() {
    let mut client = Client::in_session();
    let heard = client.tell(message(4));
    let [Heard::Message { topic, payload, json: false, .. }] = &heard[..] else { panic!() };
    let Ok(Some(ServerFrame::Message(entry))) = ServerFrame::read(payload) else { panic!() };
    assert_eq!((&**topic, entry.seq, entry.message.content.text), ("$im/evt", 4, "hi"));
    client.events.json = Some(EventsForm { subscription_id: Some(7) });
    client.wants();
    let both = client.tell(message(5)).into_iter().map(|it| match it {
        Heard::Message { topic, json, ids, .. } => (topic, json, ids),
        other => panic!("{other:?}"),
    });
    let expected =
        [("$im/evt".to_owned(), false, vec![]), ("$im/evt/json".to_owned(), true, vec![7])];
    assert_eq!(both.collect::<Vec<_>>(), expected);
    client.events = EventsWanted::default();
    client.wants();
    assert_eq!(client.tell(message(6)), [], "it does not want to be told any more");
    client.events.plain = Some(EventsForm::default());
    let heard = client.wants();
    let last = Heard::frame("$im/evt", &ServerFrame::Notify(6));
    assert_eq!(heard.last(), Some(&last), "and hears by one word what it was not told");
}

#[test]
fn who_was_away_is_told_its_terms_and_once_that_there_is_more() {
    let mut client = Client::new(Version::V5);
    client.events.plain = Some(EventsForm::default());
    client.wants();
    client.asked();
    let heard = client.tell(logged_in(20, 4));
    let [Heard::Message { payload, .. }, notify] = &heard[..] else { panic!("{heard:?}") };
    let Ok(Some(ServerFrame::LoggedIn(told))) = ServerFrame::read(payload) else { panic!() };
    assert_eq!((told.head, told.cursor, told.account), (20, 4, "ann@a.example"));
    assert_eq!(notify, &Heard::frame("$im/evt", &ServerFrame::Notify(20)));
}

#[test]
fn who_does_not_read_costs_one_number_and_is_told_once_it_reads() {
    let mut client = Client::in_session();
    client.out.set_backlog(1_000, 100);
    for seq in 4..1_000 {
        assert_eq!(client.tell(message(seq)), []);
    }
    assert!(client.out.take_tell_drained(), "it is told when the socket is free");
    client.out.set_backlog(0, 100);
    let now = client.now();
    client.machine.drained(now, &mut client.out).expect("it goes on");
    let heard = client.heard();
    assert_eq!(heard, [Heard::frame("$im/evt", &ServerFrame::Notify(999))]);
    client.out.words();
    // What has no place in the inbox cannot be told later.
    client.out.set_backlog(1_000, 100);
    let from = AccountAddress::parse("bob", "a.example").expect("right");
    let presence = model::chat::Presence { from, device: None, availability: None };
    client.tell(ChatDelivery::Presence(Box::new(presence)).into());
    assert_eq!(client.ended, Some(CloseReason::SlowConsumer));
}

#[test]
fn the_end_of_the_session_is_the_end_of_the_connection() {
    for (why, code) in [
        (Denial::TakenOver, 0x8e),
        (Denial::AdminKick, 0x98),
        (Denial::NotAuthorized, 0x87),
        (Denial::Expired, 0x87),
    ] {
        let mut client = Client::in_session();
        let end = SessionEnd { why, reason: CloseReason::Replaced };
        let heard = client.tell(ChatDelivery::End(Box::new(end)).into());
        assert_eq!(heard, [Heard::Disconnect(code)], "{why:?}");
        assert_eq!(client.ended, Some(CloseReason::Replaced));
        let now = client.now();
        client.machine.closed(now, CloseReason::Replaced, &mut client.out);
        assert_eq!(client.asked(), [], "chat has ended it by itself");
    }
}

#[test]
fn a_session_whose_proof_is_over_begins_anew_if_the_client_has_proven_itself_again() {
    let mut client = Client::in_session();
    assert_eq!(client.call(9, "$im/req/send", &send()), [], "it is asked");
    assert!(matches!(client.asked()[..], [ChatRequest::Send { .. }]));
    let device = AccountDevice { until_s: 99, ..client.device() };
    assert_eq!(client.tell(SessionDelivery::Device(Box::new(device)).into()), []);
    assert_eq!(client.asked(), [], "not before it is over");
    let end = SessionEnd { why: Denial::Expired, reason: CloseReason::AuthFailed };
    let heard = client.tell(ChatDelivery::End(Box::new(end.clone())).into());
    assert!(heard.iter().any(|it| matches!(it, Heard::Ack(9, 0x80..))), "answered: {heard:?}");
    assert!(!heard.iter().any(|it| matches!(it, Heard::Disconnect(_))), "{heard:?}");
    let asked = client.asked();
    let [ChatRequest::Enter(entering)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((entering.until_s, client.ended), (99, None));
    assert!(!client.tell(logged_in(3, 3)).is_empty(), "it is told");
    // That proof is over, too.
    let heard = client.tell(ChatDelivery::End(Box::new(end)).into());
    assert_eq!(heard, [Heard::Disconnect(0x87)]);
}

#[test]
fn the_end_of_the_connection_is_the_end_of_the_session() {
    let mut client = Client::in_session();
    let now = client.now();
    let away = TurnAway::of(Refusal::Draining, 0);
    client.machine.turn_away(now, away, &mut client.out);
    assert_eq!(client.heard(), [Heard::Disconnect(0x8b)]);
    client.machine.closed(now, CloseReason::PeerClosed, &mut client.out);
    let asked = client.asked();
    assert!(matches!(asked[..], [ChatRequest::Closed { session: SESSION, .. }]), "{asked:?}");
}

#[test]
fn an_identifier_that_no_topic_has_is_answered_without_it() {
    for client_id in ["a+b", "a#", &"x".repeat(2_000)] {
        let mut client = Client::in_session();
        let call = client.call_of(0, "$im/req/nothing", b"", &[]);
        let call = ChatCall { client_id: client_id.into(), ..call };
        let heard = client.tell(SessionDelivery::Call(Box::new(call)).into());
        let [Heard::Message { topic, .. }] = &heard[..] else { panic!("{heard:?}") };
        assert_eq!(topic, "$im/res");
    }
    let read = Properties::of_message(b"").iter().count();
    assert_eq!(read, 0);
}

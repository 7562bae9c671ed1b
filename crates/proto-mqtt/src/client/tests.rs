//! Clients against a scripted server: its packets are written by the codec, and what the client
//! sends is read by it.

mod bounds;
mod relay;

use super::*;
use crate::codec::ack::{Ack, Reasons, Suback};
use crate::codec::auth::{Auth, Disconnect};
use crate::codec::block::Block;
use crate::codec::connack::Connack;
use crate::codec::connect::Connect;
use crate::codec::property::{Property, VarInt};
use crate::codec::publish::Publish;
use crate::codec::{DecodeRules, DecodeStep, Packet, Sender, Version, decode};
use model::link::Protocol;
use model::ports::virtual_client::{Action, Observation};
use model::topic::{Publication, SubscriptionOptions};
use testkit::pair::PairSide;

/// A client and the clock, with a server played by the test.
struct Play<M: Machine> {
    side: PairSide<M>,
    now: Now,
    version: Version,
}

/// Packets that a client sent: kind, identifier, and a line for the rest.
type Sent = Vec<String>;

const BEGAN: Now = Now::new(base::time::Instant::from_nanos(1_000_000_000), 1_700_000_000_000);

fn profile(version: Version) -> Profile {
    Profile::new(version, Formula::new("c%i"))
}

fn play(profile: Profile) -> Play<Client> {
    let version = profile.version;
    let side = PairSide::new(Client::new(Arc::new(profile), 7), Link::loopback(Protocol::Mqtt));
    Play { side, now: BEGAN, version }
}

fn virtual_client(profile: Profile) -> Play<VirtualClient> {
    let version = profile.version;
    let side =
        PairSide::new(VirtualClient::new(Arc::new(profile), 7), Link::loopback(Protocol::Mqtt));
    Play { side, now: BEGAN, version }
}

impl<M: Machine> Play<M> {
    fn read(&self, bytes: &[u8]) -> Sent {
        let rules = DecodeRules::strict(Sender::Client, self.version);
        let (mut sent, mut rest) = (Vec::new(), bytes);
        while let Ok(DecodeStep::Packet { packet, bytes, .. }) = decode(rest, &rules) {
            sent.push(line(&packet));
            rest = &rest[bytes..];
        }
        assert!(rest.is_empty(), "a client sends whole and good packets: {rest:?}");
        sent
    }

    fn open(&mut self) -> Sent {
        let sent = self.side.open(self.now);
        self.read(&sent)
    }

    /// The server sends this.
    fn hear(&mut self, packet: Packet<'_>) -> Sent {
        let mut bytes = Vec::new();
        packet.write(Sender::Server, &Terms::of(self.version), &mut bytes).expect("written");
        let sent = self.side.hear(self.now, &bytes);
        self.read(&sent)
    }

    fn tell(&mut self, down: M::Down) -> Sent {
        let sent = self.side.tell(self.now, down);
        self.read(&sent)
    }

    fn connack(&mut self, session_present: bool, properties: &[Property<'_>]) -> Sent {
        let block = Block::of(properties).expect("a block");
        let (reason, properties) = (ReasonCode::Success, block.properties());
        self.hear(Packet::Connack(Connack { session_present, reason, properties }))
    }

    /// Connected, what was said about it taken.
    fn online(&mut self, session_present: bool, properties: &[Property<'_>]) -> Sent {
        self.open();
        let sent = self.connack(session_present, properties);
        assert_eq!(self.side.ended, None);
        sent
    }

    fn lose(&mut self) {
        self.side.close(self.now, CloseReason::PeerReset);
    }
}

fn line(packet: &Packet<'_>) -> String {
    let name = packet.kind().name();
    match packet {
        Packet::Publish(publish) => {
            let Publish { dup, id, topic, payload, .. } = *publish;
            let text = String::from_utf8_lossy(payload);
            let alias = publish.topic_alias().map_or(String::new(), |alias| format!(" ~{alias}"));
            let dup = if dup { " dup" } else { "" };
            format!("{name} {id} {topic}={text}{alias}{dup}")
        }
        Packet::Puback(ack) | Packet::Pubrec(ack) | Packet::Pubrel(ack) | Packet::Pubcomp(ack) => {
            match ack.reason {
                ReasonCode::Success => format!("{name} {}", ack.id),
                reason => format!("{name} {} {:02x}", ack.id, reason.number()),
            }
        }
        Packet::Subscribe(subscribe) => {
            let filters: Vec<&str> = subscribe.subscriptions.iter().map(|(f, _)| f).collect();
            format!("{name} {} {}", subscribe.id, filters.join(","))
        }
        Packet::Unsubscribe(unsubscribe) => format!("{name} {}", unsubscribe.id),
        Packet::Disconnect(farewell) => format!("{name} {:02x}", farewell.reason.number()),
        Packet::Auth(auth) => format!(
            "{name} {:02x} {} {}",
            auth.reason.number(),
            auth.properties.auth_method().unwrap_or_default(),
            String::from_utf8_lossy(auth.properties.auth_data().unwrap_or_default())
        ),
        Packet::Connect(connect) => {
            let clean = if connect.clean_start { " clean" } else { "" };
            format!("{name} {} {}s{clean}", connect.client_id, connect.keep_alive_s)
        }
        _ => name.to_owned(),
    }
}

fn ack(id: u16) -> Ack<'static> {
    Ack::of(id)
}

fn publish(token: u32, topic: &str, qos: u8) -> ClientOrder {
    let mut message = Publication::new(topic, &[], format!("m{token}").as_bytes());
    message.qos = model::topic::Qos::of(qos).expect("a QoS");
    ClientOrder::Publish { token, message: Arc::new(message) }
}

fn message(id: u16, qos: Qos, dup: bool) -> Packet<'static> {
    let properties = Default::default();
    Packet::Publish(Publish { dup, qos, retain: false, topic: "t", id, properties, payload: b"x" })
}

fn done(token: u32) -> MqttEvent {
    MqttEvent::Published { token, result: Ok(ReasonCode::Success) }
}

#[test]
fn a_client_connects_with_what_its_profile_says() {
    for version in Version::ALL {
        let mut play = play(Profile {
            user: Some(Formula::new("u%i")),
            password: Some((*b"secret").into()),
            will: Some(WillProfile {
                topic: Formula::new("gone/%i"),
                payload: (*b"w").into(),
                qos: Qos::AtLeastOnce,
                retain: true,
                properties: Block::default(),
            }),
            expiry_s: if version == Version::V5 { 9 } else { 0 },
            ..profile(version)
        });
        let bytes = play.side.open(play.now);
        let rules = DecodeRules::strict(Sender::Client, version);
        let Ok(DecodeStep::Packet { packet: Packet::Connect(connect), .. }) =
            decode(&bytes, &rules)
        else {
            panic!("{bytes:?}");
        };
        let Connect { client_id, user_name, password, will, .. } = *connect;
        assert_eq!((client_id, user_name, password), ("c7", Some("u7"), Some(&b"secret"[..])));
        let will = will.expect("a will");
        assert_eq!((will.topic, will.payload, will.retain), ("gone/7", &b"w"[..], true));
        let expiry_s = connect.properties.session_expiry();
        assert_eq!(expiry_s, (version == Version::V5).then_some(9));
        play.connack(false, &[]);
        let words = play.side.take_words();
        assert!(matches!(&words[..], [MqttEvent::Connected(yes)] if yes.keep_alive_s == 60));
    }
}

#[test]
fn an_idle_client_pings_before_its_keep_alive_is_over_and_ends_when_nobody_answers() {
    let mut play = play(Profile { keep_alive_s: 10, ..profile(Version::V311) });
    play.online(false, &[]);
    let mut pings = Vec::new();
    for second in 1..=30 {
        play.now = Now::new(play.now.after(Duration::from_secs(1)), play.now.wall_ms + 1_000);
        let mut out = Outbox::new(base::hash::HashKey::new(1, 2), [0; 32]);
        play.side.machine.wake(play.now, &mut out).expect("it goes on");
        let mut sent = Vec::new();
        out.drain_wire(|piece| match piece {
            model::machine::Piece::Own(bytes) => sent.extend_from_slice(bytes),
            model::machine::Piece::Shared(frame) => sent.extend_from_slice(&frame),
        });
        if sent == [0xc0, 0] {
            pings.push(second);
            play.hear(Packet::Pingresp);
        }
    }
    assert_eq!(pings, [9, 18, 27]);
    assert_eq!(play.side.silence_ms, 15_000);
    let mut out = Outbox::new(base::hash::HashKey::new(1, 2), [0; 32]);
    let silent = play.side.machine.silent(play.now, &mut out);
    assert_eq!(silent, Err(CloseReason::KeepAliveTimeout));
}

#[test]
fn the_servers_keep_alive_is_used() {
    let mut play = play(Profile { keep_alive_s: 10, ..profile(Version::V5) });
    play.online(false, &[Property::ServerKeepAlive(100)]);
    assert_eq!(play.side.silence_ms, 150_000);
    let words = play.side.take_words();
    assert!(matches!(&words[..], [MqttEvent::Connected(yes)] if yes.keep_alive_s == 100));
}

#[test]
fn messages_of_every_qos_are_published_and_completed() {
    for version in Version::ALL {
        let mut play = play(profile(version));
        play.online(false, &[]);
        play.side.take_words();
        assert_eq!(play.tell(publish(1, "a", 0)), ["publish 0 a=m1"]);
        assert_eq!(play.tell(publish(2, "a", 1)), ["publish 1 a=m2"]);
        assert_eq!(play.tell(publish(3, "a", 2)), ["publish 2 a=m3"]);
        assert_eq!(play.side.take_words(), [done(1)]);
        assert_eq!(play.hear(Packet::Puback(ack(1))), Sent::new());
        assert_eq!(play.hear(Packet::Pubrec(ack(2))), ["pubrel 2"]);
        assert_eq!(play.side.take_words(), [done(2)]);
        assert_eq!(play.hear(Packet::Pubcomp(ack(2))), Sent::new());
        assert_eq!(play.side.take_words(), [done(3)]);
        assert_eq!(play.side.machine.under_way(), 0);
    }
}

#[test]
fn no_more_is_under_way_than_the_server_takes_and_nothing_else_waits_for_that() {
    let mut play = play(profile(Version::V5));
    play.online(false, &[Property::ReceiveMaximum(2)]);
    play.side.take_words();
    assert_eq!(play.tell(publish(1, "a", 1)), ["publish 1 a=m1"]);
    assert_eq!(play.tell(publish(2, "a", 2)), ["publish 2 a=m2"]);
    assert_eq!(play.tell(publish(3, "a", 1)), Sent::new());
    assert_eq!(play.tell(publish(4, "a", 0)), ["publish 0 a=m4"]);
    assert_eq!(play.tell(ClientOrder::Ping), ["pingreq"]);
    assert_eq!(play.hear(Packet::Pubrec(ack(2))), ["pubrel 2"]);
    assert_eq!(play.hear(Packet::Pubcomp(ack(2))), ["publish 3 a=m3"]);
    assert_eq!(play.side.take_words(), [done(4), done(2)]);
}

#[test]
fn a_message_beyond_the_queue_is_refused() {
    let mut play = play(Profile { waiting_max: 1, inflight_max: 1, ..profile(Version::V311) });
    play.online(false, &[]);
    play.side.take_words();
    (1..=3).for_each(|token| drop(play.tell(publish(token, "a", 1))));
    let result = Err(Unpublished::QueueFull);
    assert_eq!(play.side.take_words(), [MqttEvent::Published { token: 3, result }]);
}

#[test]
fn what_the_server_does_not_serve_is_not_sent() {
    let mut play = play(profile(Version::V5));
    let few =
        [Property::MaximumQos(1), Property::RetainAvailable(0), Property::MaximumPacketSize(20)];
    play.online(false, &few);
    play.side.take_words();
    assert_eq!(play.tell(publish(1, "a", 2)), Sent::new());
    let mut kept = Publication::new("a", &[], b"");
    kept.retain = true;
    assert_eq!(play.tell(ClientOrder::Publish { token: 2, message: Arc::new(kept) }), Sent::new());
    assert_eq!(play.tell(publish(3, "a-very-long-topic", 1)), Sent::new());
    let mut late = Publication::new("a", &[], b"");
    late.expire_at = 1;
    assert_eq!(play.tell(ClientOrder::Publish { token: 4, message: Arc::new(late) }), Sent::new());
    let whys = play.side.take_words().into_iter().map(|word| match word {
        MqttEvent::Published { result: Err(why), .. } => why,
        word => panic!("{word:?}"),
    });
    assert_eq!(
        whys.collect::<Vec<_>>(),
        [
            Unpublished::QosNotServed,
            Unpublished::RetainNotServed,
            Unpublished::TooLarge,
            Unpublished::Expired
        ]
    );
    assert_eq!(play.tell(publish(5, "a", 1)), ["publish 1 a=m5"], "no identifier was lost");
}

#[test]
fn what_was_on_its_way_is_sent_again_when_the_session_goes_on() {
    for version in [Version::V311, Version::V5] {
        let mut play = play(Profile { clean: Clean::Never, expiry_s: 60, ..profile(version) });
        play.online(false, &[]);
        (1..=3).for_each(|token| drop(play.tell(publish(token, "a", 1 + (token == 2) as u8))));
        play.hear(Packet::Pubrec(ack(2)));
        play.lose();
        play.tell(publish(4, "a", 1));
        play.side.take_words();
        assert_eq!(play.open(), ["connect c7 60s"]);
        let again = ["publish 1 a=m1 dup", "pubrel 2", "publish 3 a=m3 dup"];
        assert_eq!(play.connack(true, &[]), again);
        play.tell(publish(4, "a", 1));
        play.side.take_words();
        play.hear(Packet::Puback(ack(1)));
        play.hear(Packet::Pubcomp(ack(2)));
        play.hear(Packet::Puback(ack(3)));
        assert_eq!(play.side.take_words(), [done(1), done(2), done(3)]);
    }
}

#[test]
fn what_was_sent_once_is_sent_again_though_it_has_expired() {
    let mut play = play(Profile { clean: Clean::Never, expiry_s: 60, ..profile(Version::V5) });
    play.online(false, &[]);
    let mut message = Publication::new("a", &[], b"x");
    (message.qos, message.expire_at) = (Qos::ExactlyOnce, 1_700_000_005);
    play.tell(ClientOrder::Publish { token: 1, message: Arc::new(message) });
    play.lose();
    play.now = Now::new(play.now.after(Duration::from_secs(9)), play.now.wall_ms + 9_000);
    assert_eq!(play.online(true, &[]), ["publish 1 a=x dup"]);
}

#[test]
fn sending_again_keeps_to_the_servers_window() {
    let mut play = play(Profile { clean: Clean::Never, expiry_s: 60, ..profile(Version::V5) });
    play.online(false, &[]);
    (1..=4).for_each(|token| drop(play.tell(publish(token, "a", 1))));
    play.lose();
    let sent = play.online(true, &[Property::ReceiveMaximum(2)]);
    assert_eq!(sent, ["publish 1 a=m1 dup", "publish 2 a=m2 dup"]);
    assert_eq!(play.tell(publish(5, "a", 1)), Sent::new());
    assert_eq!(play.hear(Packet::Puback(ack(1))), ["publish 3 a=m3 dup"]);
    assert_eq!(play.hear(Packet::Puback(ack(2))), ["publish 4 a=m4 dup"]);
    assert_eq!(play.hear(Packet::Puback(ack(3))), ["publish 5 a=m5"]);
}

#[test]
fn a_client_discards_its_session_when_the_server_has_none() {
    let mut play = play(Profile { clean: Clean::Never, expiry_s: 60, ..profile(Version::V5) });
    play.online(false, &[]);
    play.tell(publish(1, "a", 1));
    play.tell(publish(2, "a", 2));
    play.hear(Packet::Pubrec(ack(2)));
    play.lose();
    play.side.take_words();
    assert_eq!(play.online(false, &[]), Sent::new());
    let words = play.side.take_words();
    let [MqttEvent::Connected(_), MqttEvent::Lost { token: 1, message }, taken] = &words[..] else {
        panic!("{words:?}");
    };
    assert_eq!(message.as_ref().expect("kept").payload(), b"m1");
    assert_eq!(*taken, done(2), "the server had it");
}

#[test]
fn a_client_that_begins_anew_closes_when_a_session_is_said_to_be_present() {
    let mut play = play(profile(Version::V5));
    play.open();
    assert_eq!(play.connack(true, &[]), ["disconnect 82"]);
    assert_eq!(play.side.ended, Some(CloseReason::OutOfOrder));
}

#[test]
fn received_messages_are_acknowledged_each_in_its_way() {
    for version in Version::ALL {
        let mut play = play(profile(version));
        play.online(false, &[]);
        play.side.take_words();
        assert_eq!(play.hear(message(0, Qos::AtMostOnce, false)), Sent::new());
        assert_eq!(play.hear(message(5, Qos::AtLeastOnce, false)), ["puback 5"]);
        assert_eq!(play.hear(message(6, Qos::ExactlyOnce, false)), ["pubrec 6"]);
        assert_eq!(play.side.take_words().len(), 3);
        assert_eq!(play.hear(message(6, Qos::ExactlyOnce, true)), ["pubrec 6"], "not twice");
        assert_eq!(play.side.take_words(), []);
        assert_eq!(play.hear(Packet::Pubrel(ack(6))), ["pubcomp 6"]);
        assert_eq!(play.hear(message(6, Qos::ExactlyOnce, false)), ["pubrec 6"]);
        assert_eq!(play.side.take_words().len(), 1, "the identifier was free again");
    }
}

fn token_of(words: &[MqttEvent]) -> u32 {
    match words {
        [MqttEvent::Message { token, .. }] => *token,
        words => panic!("{words:?}"),
    }
}

#[test]
fn acknowledgements_that_are_told_go_out_in_order() {
    let mut play = play(Profile { acks: PublishAckMode::Relayed, ..profile(Version::V5) });
    play.online(false, &[]);
    play.side.take_words();
    assert_eq!(play.hear(message(1, Qos::AtLeastOnce, false)), Sent::new());
    let first = token_of(&play.side.take_words());
    play.hear(message(2, Qos::ExactlyOnce, false));
    let second = token_of(&play.side.take_words());
    let yes = |token| ClientOrder::Ack { token, reason: ReasonCode::Success };
    assert_eq!(play.tell(yes(second)), Sent::new());
    assert_eq!(play.tell(yes(first)), ["puback 1", "pubrec 2"]);
    assert_eq!(play.hear(Packet::Pubrel(ack(2))), Sent::new());
    assert_eq!(play.side.take_words(), [MqttEvent::Relay(RelayEvent::Released { id: 2 })]);
    let complete = ClientOrder::Relay(RelayOrder::Complete { id: 2 });
    assert_eq!(play.tell(complete), ["pubcomp 2"]);
    play.hear(message(3, Qos::ExactlyOnce, false));
    let third = token_of(&play.side.take_words());
    let no = ClientOrder::Ack { token: third, reason: ReasonCode::NotAuthorized };
    assert_eq!(play.tell(no), ["pubrec 3 87"]);
}

#[test]
fn a_message_whose_acknowledgement_was_not_told_yet_is_not_shown_twice() {
    let told = Profile {
        acks: PublishAckMode::Relayed,
        clean: Clean::Never,
        expiry_s: 9,
        ..profile(Version::V5)
    };
    let mut play = play(told);
    play.online(false, &[]);
    play.side.take_words();
    play.hear(message(1, Qos::AtLeastOnce, false));
    let token = token_of(&play.side.take_words());
    play.lose();
    play.online(true, &[]);
    play.side.take_words();
    assert_eq!(play.tell(ClientOrder::Ack { token, reason: ReasonCode::Success }), Sent::new());
    assert_eq!(play.hear(message(1, Qos::AtLeastOnce, true)), ["puback 1"]);
    assert_eq!(play.side.take_words(), []);
}

#[test]
fn a_server_that_sends_more_than_the_client_takes_is_told_so() {
    let told = Profile { acks: PublishAckMode::Relayed, receive_max: 1, ..profile(Version::V5) };
    let mut play = play(told);
    play.online(false, &[]);
    play.hear(message(1, Qos::AtLeastOnce, false));
    assert_eq!(play.hear(message(2, Qos::AtLeastOnce, false)), ["disconnect 93"]);
    let bears = Profile {
        acks: PublishAckMode::Relayed,
        receive_max: 1,
        bears_more: true,
        ..profile(Version::V5)
    };
    let mut bears = self::play(bears);
    bears.online(false, &[]);
    bears.hear(message(1, Qos::AtLeastOnce, false));
    assert_eq!(bears.hear(message(2, Qos::AtLeastOnce, false)), Sent::new());
}

#[test]
fn what_an_earlier_connection_left_takes_no_room_of_this_one() {
    let kept = Profile { clean: Clean::Never, expiry_s: 9, receive_max: 1, ..profile(Version::V5) };
    let mut play = play(kept);
    play.online(false, &[]);
    assert_eq!(play.hear(message(1, Qos::ExactlyOnce, false)), ["pubrec 1"]);
    play.lose();
    play.online(true, &[]);
    assert_eq!(play.hear(message(2, Qos::ExactlyOnce, false)), ["pubrec 2"]);
    assert_eq!(play.hear(message(3, Qos::ExactlyOnce, false)), ["disconnect 93"]);
}

#[test]
fn subscriptions_are_answered_by_token() {
    for version in Version::ALL {
        let mut play = play(profile(version));
        play.online(false, &[]);
        play.side.take_words();
        let wish = |filter: &str| SubscriptionOptions {
            filter: filter.into(),
            qos: model::topic::Qos::AtLeastOnce,
            no_local: true,
            retain_as_published: false,
            retain_handling: Default::default(),
        };
        let wishes = vec![wish("a/+"), wish("b/#")];
        let order = ClientOrder::Subscribe { token: 4, wishes, properties: Block::default() };
        assert_eq!(play.tell(order), ["subscribe 1 a/+,b/#"]);
        let reasons = Reasons::over(&[1, 0]);
        let suback = Suback { id: 1, properties: Default::default(), reasons };
        play.hear(Packet::Suback(suback));
        let granted = vec![ReasonCode::GrantedQos1, ReasonCode::Success];
        assert_eq!(play.side.take_words(), [MqttEvent::Subscribed { token: 4, reasons: granted }]);
        let filters = vec!["a/+".into()];
        let order = ClientOrder::Unsubscribe { token: 5, filters, properties: Block::default() };
        assert_eq!(play.tell(order), ["unsubscribe 2"]);
        let reasons = Reasons::over(&[0]);
        play.hear(Packet::Unsuback(Suback { id: 2, properties: Default::default(), reasons }));
        assert!(matches!(&play.side.take_words()[..], [MqttEvent::Unsubscribed { token: 5, .. }]));
    }
}

#[test]
fn an_answer_with_another_number_of_reasons_ends_the_connection() {
    let wanted = Wanted { filter: Formula::new("dev/%i"), options: Default::default() };
    let mut play = play(Profile { wanted: vec![wanted], ..profile(Version::V5) });
    assert_eq!(play.online(false, &[]), ["subscribe 1 dev/7"]);
    let reasons = Reasons::over(&[0, 0]);
    let suback = Suback { id: 1, properties: Default::default(), reasons };
    assert_eq!(play.hear(Packet::Suback(suback)), ["disconnect 82"]);
}

#[test]
fn aliases_stand_for_the_first_topics_as_far_as_the_server_takes_them() {
    let mut play = play(Profile { alias_out_max: 8, ..profile(Version::V5) });
    play.online(false, &[Property::TopicAliasMaximum(1)]);
    assert_eq!(play.tell(publish(1, "a", 0)), ["publish 0 a=m1 ~1"]);
    assert_eq!(play.tell(publish(2, "a", 0)), ["publish 0 =m2 ~1"]);
    assert_eq!(play.tell(publish(3, "b", 0)), ["publish 0 b=m3"]);
    play.lose();
    play.online(false, &[]);
    assert_eq!(play.tell(publish(4, "a", 0)), ["publish 0 a=m4"], "no maximum: no alias");
}

fn aliased(topic: &'static str, block: &Block) -> Vec<u8> {
    let properties = block.properties();
    let (qos, dup, retain, id) = (Qos::AtMostOnce, false, false, 0);
    let packet = Publish { dup, qos, retain, topic, id, properties, payload: b"x" };
    let mut bytes = Vec::new();
    packet.write(&Terms::of(Version::V5), &mut bytes).expect("written");
    bytes
}

#[test]
fn every_alias_up_to_its_own_maximum_is_taken_and_none_above() {
    let mut play = play(Profile { alias_max: 3, ..profile(Version::V5) });
    play.online(false, &[]);
    play.side.take_words();
    for alias in 1..=3 {
        let block = Block::of(&[Property::TopicAlias(alias)]).expect("a block");
        play.side.hear(play.now, &aliased("t/x", &block));
        play.side.hear(play.now, &aliased("", &block));
    }
    let words = play.side.take_words();
    assert_eq!(words.len(), 6);
    assert!(words.iter().all(|word| {
        let MqttEvent::Message { message, .. } = word else { return false };
        message.topic() == "t/x" && message.properties().is_empty()
    }));
    let block = Block::of(&[Property::TopicAlias(4)]).expect("a block");
    let sent = play.side.hear(play.now, &aliased("t", &block));
    assert_eq!(play.read(&sent), ["disconnect 94"]);
}

#[test]
fn no_topic_and_an_alias_that_was_not_given_is_a_protocol_error() {
    let mut play = play(Profile { alias_max: 3, ..profile(Version::V5) });
    play.online(false, &[]);
    play.side.take_words();
    let block = Block::of(&[Property::TopicAlias(2)]).expect("a block");
    let sent = play.side.hear(play.now, &aliased("", &block));
    assert_eq!(play.read(&sent), ["disconnect 82"]);
}

#[test]
fn what_belongs_to_a_delivery_is_not_part_of_the_message() {
    let mut play = play(profile(Version::V5));
    play.online(false, &[]);
    play.side.take_words();
    let block = Block::of(&[
        Property::MessageExpiry(10),
        Property::ContentType("text"),
        Property::SubscriptionId(VarInt(7)),
    ]);
    play.side.hear(play.now, &aliased("t", &block.expect("a block")));
    let words = play.side.take_words();
    let [MqttEvent::Message { ids, message, .. }] = &words[..] else { panic!("{words:?}") };
    assert_eq!((ids, message.expire_at), (&vec![7], 1_700_000_010));
    let kept = Block::of(&[Property::ContentType("text")]).expect("a block");
    assert_eq!(message.properties(), kept.properties().block());
}

#[test]
fn an_expiry_is_sent_as_the_time_that_is_left() {
    let mut play = play(profile(Version::V5));
    play.online(false, &[]);
    let mut message = Publication::new("a", &[], b"x");
    message.expire_at = 1_700_000_060;
    let sent =
        play.side.tell(play.now, ClientOrder::Publish { token: 1, message: Arc::new(message) });
    let rules = DecodeRules::strict(Sender::Client, Version::V5);
    let Ok(DecodeStep::Packet { packet: Packet::Publish(publish), .. }) = decode(&sent, &rules)
    else {
        panic!("{sent:?}");
    };
    assert_eq!(publish.properties.message_expiry(), Some(60));
}

fn by_method() -> Profile {
    Profile { method: Some(("M".into(), (*b"first").into())), ..profile(Version::V5) }
}

fn challenge(reason: ReasonCode, method: &'static str) -> Block {
    let _ = reason;
    Block::of(&[Property::AuthMethod(method), Property::AuthData(b"data")]).expect("a block")
}

#[test]
fn an_authentication_goes_by_steps_and_can_be_done_again() {
    let mut play = play(by_method());
    play.open();
    assert_eq!(play.tell(publish(1, "a", 1)), Sent::new(), "nothing but AUTH before CONNACK");
    assert_eq!(play.tell(ClientOrder::Ping), Sent::new());
    let block = challenge(ReasonCode::ContinueAuthentication, "M");
    let (reason, properties) = (ReasonCode::ContinueAuthentication, block.properties());
    play.hear(Packet::Auth(Auth { reason, properties }));
    assert_eq!(play.side.take_words(), [MqttEvent::Challenge((*b"data").into())]);
    assert_eq!(play.tell(ClientOrder::Prove((*b"proof").into())), ["auth 18 M proof"]);
    assert_eq!(play.connack(false, &[Property::AuthMethod("M")]), ["publish 1 a=m1"]);
    play.side.take_words();
    assert_eq!(play.tell(ClientOrder::Reauthenticate((*b"anew").into())), ["auth 19 M anew"]);
    let reason = ReasonCode::Success;
    play.hear(Packet::Auth(Auth { reason, properties }));
    assert_eq!(play.side.take_words(), [MqttEvent::Authenticated((*b"data").into())]);
}

#[test]
fn without_a_method_there_is_no_auth() {
    let mut play = play(profile(Version::V5));
    play.online(false, &[]);
    assert_eq!(play.tell(ClientOrder::Reauthenticate((*b"x").into())), Sent::new());
    let block = challenge(ReasonCode::ContinueAuthentication, "M");
    let (reason, properties) = (ReasonCode::ContinueAuthentication, block.properties());
    assert_eq!(play.hear(Packet::Auth(Auth { reason, properties })), ["disconnect 82"]);
}

#[test]
fn after_its_farewell_a_client_closes_and_sends_nothing() {
    for version in Version::ALL {
        let mut play = play(profile(version));
        play.online(false, &[]);
        let (reason, properties) = (ReasonCode::DisconnectWithWill, Block::default());
        let reason = if version == Version::V5 { reason } else { ReasonCode::Success };
        let sent = play.tell(ClientOrder::Disconnect { reason, properties });
        assert_eq!(sent, [format!("disconnect {:02x}", reason.number())]);
        assert_eq!(play.side.ended, Some(CloseReason::OwnStop));
        let mut out = Outbox::new(base::hash::HashKey::new(1, 2), [0; 32]);
        let _ = play.side.machine.command(play.now, publish(1, "a", 0), &mut out);
        assert!(out.wire_is_empty());
    }
}

#[test]
fn a_refusal_and_a_farewell_name_their_reasons() {
    let mut play = play(profile(Version::V5));
    play.open();
    let block = Block::of(&[Property::ReasonString("no"), Property::ServerReference("other")]);
    let block = block.expect("a block");
    let (reason, properties) = (ReasonCode::UseAnotherServer, block.properties());
    play.hear(Packet::Connack(Connack { session_present: false, reason, properties }));
    let words = play.side.take_words();
    let [MqttEvent::Refused(refused)] = &words[..] else { panic!("{words:?}") };
    let texts = (refused.text.as_deref(), refused.elsewhere.as_deref());
    assert_eq!(texts, (Some("no"), Some("other")));
    assert_eq!(play.side.ended, Some(CloseReason::Redirected));
    play.online(false, &[]);
    play.side.take_words();
    let farewell = Disconnect::of(ReasonCode::SessionTakenOver);
    assert_eq!(play.hear(Packet::Disconnect(farewell)), Sent::new());
    assert!(matches!(&play.side.take_words()[..], [MqttEvent::Disconnected(_)]));
    assert_eq!(play.side.ended, Some(CloseReason::Replaced));
}

#[test]
fn a_packet_before_connack_and_one_that_only_clients_send_end_the_connection() {
    let mut early = play(profile(Version::V5));
    early.open();
    assert_eq!(early.hear(Packet::Pingresp), ["disconnect 82"]);
    let mut odd = play(profile(Version::V311));
    odd.online(false, &[]);
    assert_eq!(odd.side.hear(odd.now, &[0xc0, 0]), []);
    assert_eq!(odd.side.ended, Some(CloseReason::OutOfOrder));
}

#[test]
fn bytes_may_come_one_by_one() {
    let mut play = play(profile(Version::V5));
    play.open();
    let bytes = [0x20, 3, 0, 0, 0, 0x30, 5, 0, 1, b't', 0, b'x'];
    for byte in bytes {
        assert_eq!(play.side.hear(play.now, &[byte]), []);
    }
    assert_eq!(play.side.take_words().len(), 2);
}

#[test]
fn identifiers_are_never_zero_and_never_in_use() {
    let mut play = play(profile(Version::V311));
    play.online(false, &[]);
    play.tell(publish(0, "a", 2));
    for round in 1..=65_540u32 {
        let sent = play.tell(publish(round, "a", 1));
        let Some(id) = sent.first().and_then(|line| line.split(' ').nth(1)) else {
            assert_eq!(round, 65_535, "only when all others were used it waits for the oldest");
            return;
        };
        let id: u16 = id.parse().expect("an identifier");
        assert!(id != 0 && id != 1, "{id} in round {round}");
        play.hear(Packet::Puback(ack(id)));
    }
    panic!("the identifier of the oldest was taken");
}

#[test]
fn a_virtual_client_publishes_by_formula_and_counts_what_was_taken() {
    let wanted = Wanted { filter: Formula::new("in/%i"), options: Default::default() };
    let topics = vec![Formula::new("out/%i")];
    let qos = Qos::AtLeastOnce;
    let mut play =
        virtual_client(Profile { wanted: vec![wanted], topics, qos, ..profile(Version::V311) });
    assert_eq!(play.online(false, &[]), ["subscribe 1 in/7"]);
    let reasons = Reasons::over(&[0]);
    play.hear(Packet::Suback(Suback { id: 1, properties: Default::default(), reasons }));
    let words = play.side.take_words();
    let resumed = Observation::Bound { resumed: false, heartbeat_s: 60, offline_count: 0 };
    let (granted, at_qos, refused) = (1, [1, 0, 0], Box::default());
    assert_eq!(words, [resumed, Observation::Subscribed { granted, at_qos, refused }]);
    let body: Arc<[u8]> = (*b"hey").into();
    assert_eq!(play.tell(Action::Report((*b"r").into())), ["publish 2 out/7=r"]);
    let to =
        |number, qos| Action::Publish { topic: 0, number, qos, retain: false, body: body.clone() };
    assert_eq!(play.tell(to(Some(9), 1)), ["publish 3 out/9=hey"]);
    assert_eq!(play.tell(to(None, 0)), ["publish 0 out/7=hey"]);
    let drained = |play: &mut Play<VirtualClient>| {
        let mut out = Outbox::new(base::hash::HashKey::new(1, 2), [0; 32]);
        play.side.machine.drained(play.now, &mut out).expect("it goes on");
        out.words().collect::<Vec<_>>()
    };
    assert_eq!(drained(&mut play), [Observation::Written { seq: 3 }], "two have no answer yet");
    play.hear(Packet::Puback(ack(3)));
    let alone = [Observation::TakenAlone { seq: 2 }];
    assert_eq!(play.side.take_words(), alone, "the first is still on its way");
    assert_eq!(play.tell(to(None, 0)), ["publish 0 out/7=hey"]);
    play.hear(Packet::Puback(ack(2)));
    assert_eq!(play.side.take_words(), [Observation::Taken { seq: 2 }]);
    assert_eq!(drained(&mut play), [Observation::Taken { seq: 4 }]);
    play.hear(message(0, Qos::AtMostOnce, false));
    let words = play.side.take_words();
    assert!(matches!(&words[..], [Observation::Heard { bytes: 1, .. }]));
    assert_eq!(play.tell(Action::Subscribe(false)), ["unsubscribe 4"]);
    assert_eq!(play.tell(Action::Unbind), ["disconnect 00"]);
}

#[test]
fn an_idle_virtual_client_owns_nothing() {
    let mut play = virtual_client(Profile { qos: Qos::AtLeastOnce, ..profile(Version::V5) });
    play.online(false, &[Property::ReceiveMaximum(10), Property::TopicAliasMaximum(10)]);
    assert!(play.side.machine.client.work.is_none());
    assert!(size_of::<VirtualClient>() <= 64);
}

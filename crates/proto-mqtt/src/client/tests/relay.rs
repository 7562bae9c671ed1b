//! A client that relays, on the side of the target.

use super::*;

fn relaying(version: Version) -> Play<Client> {
    play(Profile {
        acks: PublishAckMode::Relayed,
        clean: Clean::Never,
        expiry_s: 9,
        inflight_max: 3,
        ..profile(version)
    })
}

fn relay(play: &mut Play<Client>, order: RelayOrder) -> Sent {
    play.tell(ClientOrder::Relay(order))
}

fn pass(play: &mut Play<Client>, id: u16, qos: Qos) -> Sent {
    let mut message = Publication::new("t", &[], format!("m{id}").as_bytes());
    message.qos = qos;
    relay(play, RelayOrder::Publish { id, again: false, message: Arc::new(message) })
}

fn events(play: &mut Play<Client>) -> Vec<RelayEvent> {
    let words = play.side.take_words().into_iter().filter_map(|word| match word {
        MqttEvent::Relay(event) => Some(event),
        _ => None,
    });
    words.collect()
}

fn taken(id: u16) -> RelayEvent {
    RelayEvent::Taken { id, result: Ok(ReasonCode::Success) }
}

#[test]
fn a_message_goes_out_under_the_identifier_of_its_source_and_step_by_step() {
    for version in Version::ALL {
        let mut play = relaying(version);
        assert_eq!(pass(&mut play, 700, Qos::ExactlyOnce), Sent::new());
        play.online(true, &[]);
        assert_eq!(relay(&mut play, RelayOrder::Resume), ["publish 700 t=m700"]);
        assert_eq!(pass(&mut play, 9, Qos::AtLeastOnce), ["publish 9 t=m9"]);
        assert_eq!(play.hear(Packet::Pubrec(ack(700))), Sent::new(), "the source releases it");
        assert_eq!(play.hear(Packet::Puback(ack(9))), Sent::new());
        assert_eq!(events(&mut play), [taken(700), taken(9)]);
        assert_eq!(relay(&mut play, RelayOrder::Release { id: 700 }), ["pubrel 700"]);
        assert_eq!(play.hear(Packet::Pubcomp(ack(700))), Sent::new());
        assert_eq!(events(&mut play), [RelayEvent::Completed { id: 700 }]);
        assert_eq!(play.side.machine.under_way(), 0);
    }
}

#[test]
fn each_step_is_repeated_on_the_next_connection() {
    let mut play = relaying(Version::V5);
    play.online(true, &[]);
    relay(&mut play, RelayOrder::Resume);
    pass(&mut play, 1, Qos::ExactlyOnce);
    play.lose();
    assert_eq!(play.online(true, &[]), Sent::new(), "it waits for its driver");
    assert_eq!(relay(&mut play, RelayOrder::Resume), ["publish 1 t=m1 dup"]);
    play.hear(Packet::Pubrec(ack(1)));
    play.lose();
    // A client at rest is told without a connection.
    let mut out = Outbox::new(base::hash::HashKey::new(1, 2), [0; 32]);
    let release = ClientOrder::Relay(RelayOrder::Release { id: 1 });
    play.side.machine.command(play.now, release, &mut out).expect("it is taken");
    assert!(out.wire_is_empty());
    play.online(true, &[]);
    assert_eq!(relay(&mut play, RelayOrder::Resume), ["pubrel 1"]);
    play.lose();
    play.online(true, &[]);
    assert_eq!(relay(&mut play, RelayOrder::Resume), ["pubrel 1"]);
    play.hear(Packet::Pubcomp(ack(1)));
    assert_eq!(events(&mut play), [taken(1), RelayEvent::Completed { id: 1 }]);
    // One of which only an earlier process knew.
    assert_eq!(relay(&mut play, RelayOrder::Release { id: 2 }), ["pubrel 2"]);
    play.hear(Packet::Pubcomp(ack(2)));
    assert_eq!(events(&mut play), [RelayEvent::Completed { id: 2 }]);
}

#[test]
fn a_new_session_of_the_target_gets_what_was_not_taken() {
    let mut play = relaying(Version::V5);
    play.online(true, &[]);
    relay(&mut play, RelayOrder::Resume);
    (1..=3).for_each(|id| _ = pass(&mut play, id, Qos::ExactlyOnce));
    for id in [2, 3] {
        play.hear(Packet::Pubrec(ack(id)));
    }
    relay(&mut play, RelayOrder::Release { id: 3 });
    events(&mut play);
    play.lose();
    play.online(false, &[]);
    assert_eq!(events(&mut play), [RelayEvent::Completed { id: 3 }]);
    assert_eq!(relay(&mut play, RelayOrder::Resume), ["publish 1 t=m1"]);
    assert_eq!(relay(&mut play, RelayOrder::Release { id: 2 }), ["pubrel 2"]);
}

#[test]
fn what_a_lost_session_left_is_finished_before_its_identifier_is_used_again() {
    let mut play = relaying(Version::V5);
    play.online(true, &[]);
    relay(&mut play, RelayOrder::Resume);
    pass(&mut play, 1, Qos::ExactlyOnce);
    pass(&mut play, 2, Qos::ExactlyOnce);
    play.hear(Packet::Pubrec(ack(1)));
    events(&mut play);
    assert_eq!(relay(&mut play, RelayOrder::Disown), ["pubrel 1"]);
    assert_eq!(pass(&mut play, 2, Qos::ExactlyOnce), Sent::new());
    assert_eq!(play.hear(Packet::Pubrec(ack(2))), ["pubrel 2"]);
    assert_eq!(play.hear(Packet::Pubcomp(ack(2))), ["publish 2 t=m2"]);
    assert_eq!(events(&mut play), []);
}

#[test]
fn what_the_source_repeats_is_repeated() {
    let mut play = relaying(Version::V5);
    play.online(true, &[]);
    relay(&mut play, RelayOrder::Resume);
    let mut message = Publication::new("t", &[], b"m4");
    message.qos = Qos::ExactlyOnce;
    let again = RelayOrder::Publish { id: 4, again: true, message: Arc::new(message) };
    assert_eq!(relay(&mut play, again), ["publish 4 t=m4 dup"]);
}

#[test]
fn identifiers_of_its_own_are_none_of_the_source() {
    let mut play = relaying(Version::V5);
    play.online(true, &[]);
    relay(&mut play, RelayOrder::Resume);
    pass(&mut play, 1, Qos::ExactlyOnce);
    assert_eq!(play.tell(publish(5, "own", 1)), ["publish 2 own=m5"]);
    assert_eq!(pass(&mut play, 2, Qos::ExactlyOnce), Sent::new(), "it is in use");
    assert_eq!(play.hear(Packet::Puback(ack(2))), ["publish 2 t=m2"]);
}

#[test]
fn every_identifier_is_freed_but_those_in_use() {
    let mut play = relaying(Version::V311);
    play.online(true, &[]);
    relay(&mut play, RelayOrder::Resume);
    pass(&mut play, 65_535, Qos::ExactlyOnce);
    play.lose();
    play.online(true, &[]);
    let sent = relay(&mut play, RelayOrder::Clear);
    assert_eq!((sent.len(), &*sent[0]), (256, "pubrel 1"));
    assert_eq!(pass(&mut play, 7, Qos::ExactlyOnce), Sent::new(), "not before all are free");
    // Each answer is followed at once by the next identifier, as long as one is left.
    for id in 1..=65_534_u16 {
        assert_eq!(events(&mut play), []);
        let next = id.checked_add(256).filter(|&next| next < 65_535);
        let wanted: Vec<_> = next.iter().map(|next| format!("pubrel {next}")).collect();
        assert_eq!(play.hear(Packet::Pubcomp(ack(id))), wanted);
    }
    assert_eq!(events(&mut play), [RelayEvent::Cleared]);
    let resumed = relay(&mut play, RelayOrder::Resume);
    assert_eq!(resumed, ["publish 65535 t=m65535 dup", "publish 7 t=m7"]);
    // The connection ends before the answer: it is not asked for again by itself.
    relay(&mut play, RelayOrder::Clear);
    play.lose();
    play.online(true, &[]);
    let resumed = relay(&mut play, RelayOrder::Resume);
    assert_eq!(resumed, ["publish 65535 t=m65535 dup", "publish 7 t=m7 dup"]);
}

#[test]
fn a_refusal_ends_a_message() {
    let mut play = relaying(Version::V5);
    play.online(true, &[Property::MaximumQos(1)]);
    relay(&mut play, RelayOrder::Resume);
    assert_eq!(pass(&mut play, 1, Qos::ExactlyOnce), Sent::new());
    let result = Err(Unpublished::QosNotServed);
    assert_eq!(events(&mut play), [RelayEvent::Taken { id: 1, result }]);
    assert_eq!(pass(&mut play, 2, Qos::AtLeastOnce), ["publish 2 t=m2"]);
    play.hear(Packet::Puback(Ack { reason: ReasonCode::NotAuthorized, ..ack(2) }));
    let result = Err(Unpublished::Refused(ReasonCode::NotAuthorized));
    assert_eq!(events(&mut play), [RelayEvent::Taken { id: 2, result }]);
    assert_eq!(play.side.machine.under_way(), 0);
}

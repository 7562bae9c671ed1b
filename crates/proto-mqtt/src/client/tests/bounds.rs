//! A client's limits exactly and one beyond, and what its driver is told of each end.

use super::*;

fn connack_of(version: Version, reason: ReasonCode) -> (Vec<Observation>, Option<CloseReason>) {
    let mut play = virtual_client(profile(version));
    play.open();
    let properties = Default::default();
    play.hear(Packet::Connack(Connack { session_present: false, reason, properties }));
    (play.side.take_words(), play.side.ended)
}

#[test]
fn a_refusal_ends_the_connection_for_its_reason() {
    use CloseReason::{AuthFailed, Busy, ConnectRefused, Redirected, UnknownVersion};
    for (reason, ended) in [
        (ReasonCode::BadUserNameOrPassword, AuthFailed),
        (ReasonCode::NotAuthorized, AuthFailed),
        (ReasonCode::Banned, AuthFailed),
        (ReasonCode::BadAuthenticationMethod, AuthFailed),
        (ReasonCode::ClientIdentifierNotValid, AuthFailed),
        (ReasonCode::ServerBusy, Busy),
        (ReasonCode::ServerUnavailable, Busy),
        (ReasonCode::ConnectionRateExceeded, Busy),
        (ReasonCode::UseAnotherServer, Redirected),
        (ReasonCode::ServerMoved, Redirected),
        (ReasonCode::UnsupportedProtocolVersion, UnknownVersion),
        (ReasonCode::QuotaExceeded, ConnectRefused),
        (ReasonCode::UnspecifiedError, ConnectRefused),
    ] {
        let code = u32::from(reason.number());
        let told = vec![Observation::Refused { code, retry_after_ms: 0 }];
        assert_eq!(connack_of(Version::V5, reason), (told, Some(ended)), "{reason:?}");
    }
    let (told, _) = connack_of(Version::V311, ReasonCode::NotAuthorized);
    assert_eq!(told, [Observation::Refused { code: 5, retry_after_ms: 0 }], "as it came");
}

#[test]
fn a_farewell_ends_the_connection_for_its_reason() {
    for (reason, ended) in [
        (ReasonCode::SessionTakenOver, CloseReason::Replaced),
        (ReasonCode::ServerShuttingDown, CloseReason::Draining),
        (ReasonCode::AdministrativeAction, CloseReason::AdminKick),
        (ReasonCode::ServerBusy, CloseReason::Busy),
        (ReasonCode::ConnectionRateExceeded, CloseReason::Busy),
        (ReasonCode::UseAnotherServer, CloseReason::Redirected),
        (ReasonCode::ServerMoved, CloseReason::Redirected),
        (ReasonCode::KeepAliveTimeout, CloseReason::KeepAliveTimeout),
        (ReasonCode::NotAuthorized, CloseReason::Unbound),
        (ReasonCode::PacketTooLarge, CloseReason::Unbound),
    ] {
        let mut play = virtual_client(profile(Version::V5));
        play.online(false, &[]);
        play.side.take_words();
        play.hear(Packet::Disconnect(Disconnect::of(reason)));
        let code = u32::from(reason.number());
        assert_eq!(play.side.take_words(), [Observation::Kicked { code }]);
        assert_eq!(play.side.ended, Some(ended), "{reason:?}");
    }
}

#[test]
fn a_virtual_client_is_told_why_a_message_was_not_taken() {
    let topics = vec![Formula::new("t")];
    let body: Arc<[u8]> = (*b"hey").into();
    let publish = |qos, retain| {
        let (number, body) = (None, body.clone());
        Action::Publish { topic: 0, number, qos, retain, body }
    };
    for (said, action, code) in [
        (Property::MaximumQos(0), publish(1, false), 0x102),
        (Property::MaximumQos(1), publish(2, false), 0x102),
        (Property::RetainAvailable(0), publish(0, true), 0x103),
        (Property::MaximumPacketSize(8), publish(0, false), 0x101),
    ] {
        let mut play = virtual_client(Profile { topics: topics.clone(), ..profile(Version::V5) });
        play.online(false, &[said]);
        play.side.take_words();
        assert_eq!(play.tell(action), Sent::new());
        assert_eq!(play.side.take_words(), [Observation::NotTaken { seq: 1, code }], "{said:?}");
    }
    let mut play = virtual_client(Profile { topics, inflight_max: 1, ..profile(Version::V5) });
    play.online(false, &[]);
    play.side.take_words();
    assert_eq!(play.tell(publish(1, false)), ["publish 1 t=hey"]);
    assert_eq!(play.tell(publish(1, false)), Sent::new());
    let refused = Ack { reason: ReasonCode::QuotaExceeded, ..ack(1) };
    play.hear(Packet::Puback(refused));
    let not_taken = |seq, code| Observation::NotTaken { seq, code };
    assert_eq!(play.side.take_words(), [not_taken(2, 0x100), not_taken(1, 0x97)]);
    let topic = Action::Publish { topic: 1, number: None, qos: 0, retain: false, body };
    assert_eq!(play.tell(topic), Sent::new(), "it has one topic");
    assert_eq!(play.side.take_words(), []);
}

#[test]
fn a_virtual_client_hears_how_long_a_message_is_and_how_it_begins() {
    use model::ports::virtual_client::{DeliveryClaim, HEAD_BYTES, NOTE_BYTES};
    let mut play = virtual_client(profile(Version::V311));
    play.online(false, &[]);
    play.side.take_words();
    for length in [0, 1, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 1, 1_000] {
        let payload: Vec<u8> = (0..length).map(|at| at as u8 | 1).collect();
        let again = length % 2 == 1;
        let (qos, topic, properties) = (Qos::AtLeastOnce, "t", Default::default());
        let publish =
            Publish { dup: again, qos, retain: false, topic, id: 9, properties, payload: &payload };
        play.hear(Packet::Publish(publish));
        let mut head = [0; HEAD_BYTES];
        let front = length.min(HEAD_BYTES);
        head[..front].copy_from_slice(&payload[..front]);
        let rest = crc32fast::hash(&payload[front..]);
        let mut note = [0; NOTE_BYTES];
        let noted = payload.get(HEAD_BYTES..).unwrap_or_default();
        let noted = &noted[..noted.len().min(NOTE_BYTES)];
        note[..noted.len()].copy_from_slice(noted);
        let (topic, retain) = (crc32fast::hash(b"t"), false);
        let claim = DeliveryClaim::Publish { topic, qos: 1, retain, note };
        let heard = Observation::Heard { bytes: length as u32, head, rest, again, claim };
        assert_eq!(play.side.take_words(), [heard]);
    }
    play.hear(Packet::Pingresp);
    assert_eq!(play.side.take_words(), [Observation::Pong]);
}

#[test]
fn a_packet_of_the_servers_size_is_sent_and_one_byte_more_is_not() {
    // Header 2, topic 3, identifier 2, no properties 1, and `m1`.
    for (packet_bytes_max, fits) in [(10, true), (9, false)] {
        let mut play = play(profile(Version::V5));
        play.online(false, &[Property::MaximumPacketSize(packet_bytes_max)]);
        play.side.take_words();
        assert_eq!(play.tell(publish(1, "a", 1)).len(), usize::from(fits));
        let result = Err(Unpublished::TooLarge);
        let refused = vec![MqttEvent::Published { token: 1, result }];
        assert_eq!(play.side.take_words(), if fits { vec![] } else { refused });
    }
}

#[test]
fn a_packet_of_its_own_size_is_taken_and_one_byte_more_ends_the_connection() {
    // Header 2, topic 3, no properties 1, and `x`.
    for (packet_bytes_max, fits) in [(7, true), (6, false)] {
        let mut play = play(Profile { packet_bytes_max, ..profile(Version::V5) });
        play.online(false, &[]);
        play.side.take_words();
        play.hear(message(0, Qos::AtMostOnce, false));
        assert_eq!(play.side.take_words().len(), usize::from(fits));
        assert_eq!(play.side.ended, (!fits).then_some(CloseReason::TooLarge));
    }
}

#[test]
fn a_ping_is_due_an_eighth_before_the_keep_alive_is_over() {
    for (ms, pings) in [(8_749, false), (8_750, true)] {
        let mut play = play(Profile { keep_alive_s: 10, ..profile(Version::V311) });
        play.online(false, &[]);
        let span = Duration::from_millis(ms);
        play.now = Now::new(play.now.after(span), play.now.wall_ms + ms);
        let mut out = Outbox::new(base::hash::HashKey::new(1, 2), [0; 32]);
        play.side.machine.wake(play.now, &mut out).expect("it goes on");
        assert_eq!(out.bytes().is_empty(), !pings, "{ms}");
        let next = out.take_wake().expect("it asks again");
        let wait = if pings { 8_750 } else { 50 };
        assert_eq!(next - play.now.mono, Duration::from_millis(wait), "not at once");
    }
}

#[test]
fn a_server_may_be_silent_for_half_a_keep_alive_more_and_five_seconds_at_least() {
    for (keep_alive_s, silence_ms) in
        [(0, 0), (1, 6_000), (9, 14_000), (10, 15_000), (11, 16_500), (60, 90_000)]
    {
        let mut play = play(Profile { keep_alive_s, ..profile(Version::V311) });
        play.open();
        assert_eq!(play.side.silence_ms, 30_000, "for the answer to CONNECT");
        play.connack(false, &[]);
        assert_eq!(play.side.silence_ms, silence_ms, "{keep_alive_s} s");
    }
}

#[test]
fn no_alias_is_0() {
    let mut play = play(Profile { alias_max: 3, ..profile(Version::V5) });
    play.online(false, &[]);
    // A PUBLISH to `t` with alias 0.
    let sent = play.side.hear(play.now, &[0x30, 7, 0, 1, b't', 3, 0x23, 0, 0]);
    assert!(matches!(&play.read(&sent)[..], [line] if line.starts_with("disconnect")));
    assert!(play.side.ended.is_some());
}

//! Rules of the standard that no single vector shows: what is left out, names and filters, what
//! holds by default.

use super::describe::describe;
use super::vectors::{good, written_in};
use crate::codec::ack::Ack;
use crate::codec::auth::{Auth, Disconnect};
use crate::codec::block::Block;
use crate::codec::connack::Connack;
use crate::codec::connect::Connect;
use crate::codec::header::{FixedHeader, Front};
use crate::codec::property::{Property, absent};
use crate::codec::publish::{Publish, write_header};
use crate::codec::reader::FieldReader;
use crate::codec::{
    DecodeRules, DecodeStep, PACKET_BYTES_MAX, Packet, PacketFault, PacketKind, Qos, ReasonCode,
    Sender, Terms, Unsent, Version, decode, name,
};

fn read(bytes: &[u8], rules: DecodeRules) -> String {
    match decode(bytes, &rules) {
        Ok(DecodeStep::Packet { packet, .. }) => describe(&packet),
        other => panic!("{other:?}"),
    }
}

/// Packets of 5.0 that have both texts that may be left out.
fn wordy() -> Vec<(DecodeRules, Vec<u8>)> {
    let is_wordy = |line: &str| line.contains("reason_string=") && line.contains("user_property=");
    let mut wordy = Vec::new();
    for case in good() {
        if is_wordy(&read(&case.bytes, case.rules)) {
            wordy.push((case.rules, case.bytes));
        }
    }
    wordy
}

#[test]
fn texts_are_left_out_of_answers_that_would_be_too_large() {
    let mut kinds = Vec::new();
    for (rules, bytes) in wordy() {
        let Ok(DecodeStep::Packet { packet, .. }) = decode(&bytes, &rules) else { unreachable!() };
        let mut lines = Vec::new();
        for packet_bytes_max in 0..=bytes.len() as u32 {
            let terms = Terms { packet_bytes_max, ..Terms::of(Version::V5) };
            let mut out = b"x".to_vec();
            match packet.write(rules.sender, &terms, &mut out) {
                Ok(()) => {
                    assert!(out.len() - 1 <= packet_bytes_max as usize);
                    lines.push(read(&out[1..], rules));
                }
                Err(unsent) => {
                    assert_eq!((unsent, &out[..]), (Unsent::TooLarge, &b"x"[..]));
                    assert!(lines.is_empty(), "what fits less room fits more");
                }
            }
        }
        lines.dedup();
        let has = |line: &String| (line.contains("user_prop"), line.contains("reason_string"));
        let seen: Vec<_> = lines.iter().map(has).collect();
        assert_eq!(seen, [(false, false), (false, true), (true, true)], "{lines:?}");
        kinds.push(packet.kind());
    }
    kinds.sort_unstable();
    kinds.dedup();
    use PacketKind::*;
    let all = [Connack, Puback, Pubrec, Pubrel, Pubcomp, Suback, Unsuback, Disconnect, Auth];
    assert_eq!(kinds, all);
}

#[test]
fn a_receiver_that_wants_no_problems_is_told_none() {
    for (rules, bytes) in wordy() {
        let Ok(DecodeStep::Packet { packet, .. }) = decode(&bytes, &rules) else { unreachable!() };
        let terms = Terms { problems: false, ..Terms::of(Version::V5) };
        let mut out = Vec::new();
        packet.write(rules.sender, &terms, &mut out).expect("it fits");
        let line = read(&out, rules);
        let is_told = line.contains("reason_string=") && line.contains("user_property=");
        let is_told_none = !line.contains("reason_string=") && !line.contains("user_property=");
        let may_be = matches!(packet.kind(), PacketKind::Connack | PacketKind::Disconnect);
        assert!(if may_be { is_told } else { is_told_none }, "{line}");
    }
}

#[test]
fn a_packet_above_the_receivers_size_is_not_written() {
    for case in good() {
        let Ok(DecodeStep::Packet { packet, .. }) = case.decode(&case.bytes, &case.rules) else {
            continue;
        };
        let version = written_in(&packet, &case.rules);
        let mut whole = Vec::new();
        packet.write(case.rules.sender, &Terms::of(version), &mut whole).expect("it fits");
        let packet_bytes_max = whole.len() as u32;
        let terms = Terms { packet_bytes_max, ..Terms::of(version) };
        let mut again = Vec::new();
        assert_eq!(packet.write(case.rules.sender, &terms, &mut again), Ok(()), "{}", case.name);
        assert_eq!(again, whole);
        let terms = Terms { packet_bytes_max: packet_bytes_max - 1, ..terms };
        let mut out = Vec::new();
        let written = packet.write(case.rules.sender, &terms, &mut out);
        assert!(out.len() < whole.len() && (written.is_ok() != out.is_empty()), "{}", case.name);
    }
}

#[test]
fn dup_is_never_written_at_qos_0_and_properties_never_before_5() {
    let block = Block::of(&[Property::ContentType("c")]).expect("it is short");
    let (topic, payload, properties) = ("t", &b"x"[..], block.properties());
    let publish = Publish {
        dup: true,
        qos: Qos::AtMostOnce,
        retain: true,
        topic,
        id: 9,
        properties,
        payload,
    };
    for version in Version::ALL {
        let mut out = Vec::new();
        publish.write(&Terms::of(version), &mut out).expect("it fits");
        let line = read(&out, DecodeRules::strict(Sender::Client, version));
        let said = if version == Version::V5 { " {content_type=\"c\"}" } else { "" };
        assert_eq!(line, format!("publish qos=0 retain topic=\"t\"{said} payload=78"));
    }
}

#[test]
fn text_above_65535_bytes_is_not_written() {
    let longest = "x".repeat(65_535);
    let longer = "x".repeat(65_536);
    let mut block = Block::default();
    assert_eq!(block.push(Property::ReasonString(&longer)), Err(Unsent::TooLong));
    assert_eq!(block.push(Property::UserProperty(("n", &longer))), Err(Unsent::TooLong));
    assert_eq!(block, Block::default(), "what cannot be sent leaves nothing behind");
    assert_eq!(block.push(Property::ReasonString(&longest)), Ok(()));
    for version in Version::ALL {
        let mut out = Vec::new();
        let connect = Connect::of(version, &longer);
        assert_eq!(connect.write(&Terms::of(version), &mut out), Err(Unsent::TooLong));
        assert!(out.is_empty());
    }
    let rules = DecodeRules::strict(Sender::Client, Version::V311);
    assert_eq!(name::check_name(&longest, &rules), Ok(()));
    assert_eq!(name::check_name(&longer, &rules), Err(PacketFault::TopicLimit));
    assert_eq!(name::check_filter(&longer, &rules), Err(PacketFault::FilterLimit));
}

#[test]
fn client_identifiers_of_1_to_23_letters_and_digits_are_taken_by_every_version() {
    let letters: String = ('0'..='9').chain('a'..='z').chain('A'..='Z').collect();
    assert_eq!(letters.len(), 62);
    for version in Version::ALL {
        for length in 1..=23 {
            for start in 0..=letters.len() - length {
                let id = &letters[start..start + length];
                let mut out = Vec::new();
                Connect::of(version, id).write(&Terms::of(version), &mut out).expect("it fits");
                let line = read(&out, DecodeRules::strict(Sender::Client, version));
                assert!(line.ends_with(&format!(" id=\"{id}\"")), "{line}");
            }
        }
    }
}

#[test]
fn what_a_client_does_not_say_has_a_default() {
    let bare = Connect::of(Version::V5, "d");
    assert_eq!(bare.terms(), Terms::of(Version::V5));
    let said = [Property::MaximumPacketSize(100), Property::RequestProblem(0)];
    let block = Block::of(&said).expect("they are short");
    let connect = Connect { properties: block.properties(), ..bare.clone() };
    let terms = connect.terms();
    assert_eq!((terms.packet_bytes_max, terms.problems), (100, false));
    let properties = bare.properties;
    assert_eq!(properties.receive_maximum().unwrap_or(absent::RECEIVE_MAXIMUM), 65_535);
    assert_eq!(properties.topic_alias_maximum().unwrap_or(absent::TOPIC_ALIAS_MAXIMUM), 0);
    assert_eq!(properties.session_expiry().unwrap_or(absent::SESSION_EXPIRY_S), 0);
}

#[test]
fn a_password_stands_in_no_debug_line() {
    let mut connect = Connect::of(Version::V5, "d");
    connect.password = Some(b"secret");
    let line = format!("{:?}", Packet::Connect(Box::new(connect)));
    assert!(line.contains("has_password: true") && !line.contains("secret"));
    assert!(!line.contains(&format!("{:?}", b"secret")));
}

#[test]
fn filters_match_names_as_the_standard_shows() {
    let matching = [
        ("sport/tennis/player1/#", "sport/tennis/player1"),
        ("sport/tennis/player1/#", "sport/tennis/player1/ranking"),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon"),
        ("sport/#", "sport"),
        ("#", "sport/tennis"),
        ("#", "/"),
        ("sport/tennis/+", "sport/tennis/player1"),
        ("sport/+", "sport/"),
        ("sport/+/player1", "sport/tennis/player1"),
        ("+/tennis/#", "sport/tennis"),
        ("+/+", "/finance"),
        ("/+", "/finance"),
        ("+", "finance"),
        ("$SYS/#", "$SYS/monitor"),
        ("$SYS/monitor/+", "$SYS/monitor/Clients"),
        ("a//b", "a//b"),
        ("a/+/b", "a//b"),
        ("+/#", "a"),
        ("\u{feff}a", "\u{feff}a"),
    ];
    for (filter, name) in matching {
        assert!(name::matches(filter, name), "`{filter}` matches `{name}`");
    }
    let other = [
        ("sport/tennis/+", "sport/tennis/player1/ranking"),
        ("sport/+", "sport"),
        ("+", "/finance"),
        ("#", "$SYS/monitor"),
        ("+/monitor/Clients", "$SYS/monitor/Clients"),
        ("+", "$SYS"),
        ("a/b", "a/B"),
        ("a", "a/"),
        ("a/", "a"),
        ("/a", "a"),
        ("e\u{301}", "\u{e9}"), // nothing is normalised (MQTT5 4.7.3-4)
        ("a", "\u{feff}a"),
        ("a/b/c", "a/b"),
        ("a/#", "b"),
    ];
    for (filter, name) in other {
        assert!(!name::matches(filter, name), "`{filter}` does not match `{name}`");
    }
}

#[test]
fn shared_filters_have_a_name_and_a_filter() {
    assert_eq!(name::split_share("$share/g/a/+"), Ok(Some(("g", "a/+"))));
    assert_eq!(name::split_share("$share/g//"), Ok(Some(("g", "/"))));
    assert_eq!(name::split_share("$share/g/$share/h/a"), Ok(Some(("g", "$share/h/a"))));
    assert_eq!(name::split_share("share/g/a"), Ok(None));
    assert_eq!(name::split_share("$SHARE/g/a"), Ok(None));
    assert_eq!(name::split_share("$share//a"), Err(PacketFault::ShareName));
    assert_eq!(name::split_share("$share/g#/a"), Err(PacketFault::ShareName));
    assert_eq!(name::split_share("$share/g/"), Err(PacketFault::ShareFilter));
    assert!(name::has_wildcard("a/+") && !name::has_wildcard("a/b"));
    assert!(name::is_reserved("$SYS") && !name::is_reserved("a/$b"));
}

#[test]
fn limits_of_levels_count_the_plain_filter() {
    let rules =
        DecodeRules { topic_levels_max: 2, ..DecodeRules::strict(Sender::Client, Version::V5) };
    assert_eq!(name::check_filter("$share/g/a/b", &rules), Ok(()));
    assert_eq!(name::check_filter("$share/g/a/b/c", &rules), Err(PacketFault::FilterLimit));
    assert_eq!(name::check_name("a/b", &rules), Ok(()));
    assert_eq!(name::check_name("a/b/", &rules), Err(PacketFault::TopicLimit));
}

#[test]
fn a_payload_may_be_held_against_what_it_says() {
    for (format, payload, is_good) in
        [(1, &b"text"[..], true), (1, b"\xff", false), (0, b"\xff", true)]
    {
        let block = Block::of(&[Property::PayloadFormat(format)]).expect("it is short");
        let (qos, topic, properties) = (Qos::AtMostOnce, "t", block.properties());
        let publish = Publish { dup: false, qos, retain: false, topic, id: 0, properties, payload };
        assert_eq!(publish.payload_is_as_said(), is_good);
    }
}

#[test]
fn a_failed_acknowledgement_before_5_is_the_bare_one() {
    let block = Block::of(&[Property::ReasonString("no")]).expect("it is short");
    let (reason, properties) = (ReasonCode::NotAuthorized, block.properties());
    let ack = Ack { id: 7, reason, properties };
    for version in [Version::V31, Version::V311] {
        let mut out = Vec::new();
        ack.write(PacketKind::Puback, &Terms::of(version), &mut out).expect("it fits");
        assert_eq!(out, [0x40, 2, 0, 7]);
    }
}

#[test]
fn old_versions_have_no_auth_and_their_servers_no_disconnect() {
    let disconnect = Packet::Disconnect(Disconnect::of(ReasonCode::ServerBusy));
    let properties = Default::default();
    let auth = Packet::Auth(Auth { reason: ReasonCode::Success, properties });
    for version in [Version::V31, Version::V311] {
        let mut out = Vec::new();
        for packet in [&disconnect, &auth] {
            let written = packet.write(Sender::Server, &Terms::of(version), &mut out);
            assert_eq!(written, Err(Unsent::NotInVersion));
        }
        assert!(out.is_empty());
        assert_eq!(disconnect.write(Sender::Client, &Terms::of(version), &mut out), Ok(()));
        assert_eq!(out, [0xe0, 0]);
    }
}

#[test]
fn lengths_are_written_right_around_their_edges() {
    for length in (110..140).chain(16_370..16_390) {
        let text = "r".repeat(length);
        let block = Block::of(&[Property::ReasonString(&text)]).expect("it is short enough");
        let ack = Ack { id: 7, reason: ReasonCode::Success, properties: block.properties() };
        let mut out = Vec::new();
        ack.write(PacketKind::Puback, &Terms::of(Version::V5), &mut out).expect("it fits");
        let step = decode(&out, &DecodeRules::strict(Sender::Client, Version::V5));
        let Ok(DecodeStep::Packet { packet, bytes, .. }) = step else {
            panic!("{length}: {step:?}")
        };
        assert_eq!((packet, bytes), (Packet::Puback(ack), out.len()));
    }
}

#[test]
fn a_refusal_never_says_that_a_session_is_present() {
    let properties = Default::default();
    for reason in [ReasonCode::Success, ReasonCode::NotAuthorized] {
        let connack = Connack { session_present: true, reason, properties };
        for version in Version::ALL {
            let mut out = Vec::new();
            connack.write(&Terms::of(version), &mut out).expect("it fits");
            let is_said = reason == ReasonCode::Success && version != Version::V31;
            assert_eq!(out[2], u8::from(is_said), "{version:?}");
        }
    }
}

#[test]
fn a_packet_is_as_long_as_its_header_can_say() {
    const MOST: usize = 268_435_455;
    let (terms, longest) = (Terms::of(Version::V311), [0x30, 0xff, 0xff, 0xff, 0x7f]);
    let mut out = Vec::new();
    assert_eq!(write_header(0x30, MOST, &terms, &mut out), Ok(()));
    assert_eq!(out, longest);
    for remaining in [MOST + 1, 1 << 32, usize::MAX] {
        let written = write_header(0x30, remaining, &terms, &mut out);
        assert_eq!((written, out.len()), (Err(Unsent::TooLarge), 5), "{remaining}");
    }
    for (remaining, whole) in [(0, 2), (127, 129), (128, 131), (MOST, PACKET_BYTES_MAX)] {
        for (packet_bytes_max, fits) in [(whole, true), (whole - 1, false)] {
            let terms = Terms { packet_bytes_max, ..terms };
            let mut bytes = Vec::new();
            let written = write_header(0x30, remaining, &terms, &mut bytes);
            assert_eq!((written.is_ok(), bytes.is_empty()), (fits, !fits), "{remaining}");
            write_header(0x30, remaining, &Terms::of(Version::V311), &mut bytes).expect("it fits");
            let front = &bytes[bytes.len() - (whole as usize - remaining)..];
            let rules = DecodeRules::strict(Sender::Client, Version::V311);
            let read = FixedHeader::read(front, &DecodeRules { packet_bytes_max, ..rules });
            match fits {
                true => {
                    let Ok(Front::Header(header)) = read else { panic!("{read:?}") };
                    assert_eq!(header.packet_bytes(), whole as usize);
                }
                false => assert_eq!(read, Err(PacketFault::TooLarge), "{remaining}"),
            }
        }
    }
}

#[test]
fn client_identifiers_are_as_long_as_they_may_be() {
    let read = |version: Version, length: usize, client_id_bytes_max: u16| {
        let (id, mut bytes) = ("i".repeat(length), Vec::new());
        Connect::of(version, &id).write(&Terms::of(version), &mut bytes).expect("it fits");
        let rules = DecodeRules::strict(Sender::Client, version);
        decode(&bytes, &DecodeRules { client_id_bytes_max, ..rules }).map(|_| ())
    };
    for version in Version::ALL {
        assert_eq!(read(version, 5, 5), Ok(()));
        assert_eq!(read(version, 6, 5), Err(PacketFault::ClientIdLimit));
        let long = if version == Version::V31 { Err(PacketFault::ClientIdLong) } else { Ok(()) };
        assert_eq!((read(version, 23, 99), read(version, 24, 99)), (Ok(()), long));
    }
}

#[test]
fn doubtful_characters_are_a_fault_where_text_is_strict() {
    let read = |char: char, strict_text: bool| {
        let (text, mut bytes) = (char.to_string(), vec![0]);
        bytes.push(text.len() as u8);
        bytes.extend_from_slice(text.as_bytes());
        let rules = DecodeRules { strict_text, ..DecodeRules::strict(Sender::Client, Version::V5) };
        FieldReader::new(&bytes, &rules).text().map(str::to_owned)
    };
    let doubtful = "\u{1}\u{1f}\u{7f}\u{9f}\u{fdd0}\u{fdef}\u{fffe}\u{ffff}\u{1fffe}\u{10ffff}";
    for char in doubtful.chars() {
        assert_eq!(read(char, true), Err(PacketFault::ControlCharacter), "{char:?}");
        assert_eq!(read(char, false), Ok(char.to_string()));
    }
    for char in " ~\u{a0}\u{fdcf}\u{fdf0}\u{fffd}\u{10000}\u{1fffd}\u{20000}\u{10fffd}".chars() {
        assert_eq!(read(char, true), Ok(char.to_string()), "{char:?}");
    }
    assert_eq!(
        (read('\0', true), read('\0', false)),
        (Err(PacketFault::Nul), Err(PacketFault::Nul))
    );
}

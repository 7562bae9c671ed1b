//! The tables of the code against the tables of the standard, which `vectors/` holds apart.

use super::vectors::{malformed, write};
use crate::codec::header::{read_varint, varint_bytes, write_varint};
use crate::codec::property::{Property, place};
use crate::codec::reader::FieldReader;
use crate::codec::{
    DecodeRules, DecodeStep, FaultSet, Packet, PacketFault, PacketKind, ReasonCode, Sender, Terms,
    Version, ack, block, connack, decode,
};

const PROPERTIES: &str = include_str!("../../../vectors/3-properties.txt");
const REASONS: &str = include_str!("../../../vectors/4-reasons.txt");

fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_whitespace().collect())
}

/// Where properties stand, by name.
const PLACES: [(&str, u16); 14] = [
    ("will", place::WILL),
    ("connect", place::of(PacketKind::Connect)),
    ("connack", place::of(PacketKind::Connack)),
    ("publish", place::of(PacketKind::Publish)),
    ("puback", place::of(PacketKind::Puback)),
    ("pubrec", place::of(PacketKind::Pubrec)),
    ("pubrel", place::of(PacketKind::Pubrel)),
    ("pubcomp", place::of(PacketKind::Pubcomp)),
    ("subscribe", place::of(PacketKind::Subscribe)),
    ("suback", place::of(PacketKind::Suback)),
    ("unsubscribe", place::of(PacketKind::Unsubscribe)),
    ("unsuback", place::of(PacketKind::Unsuback)),
    ("disconnect", place::of(PacketKind::Disconnect)),
    ("auth", place::of(PacketKind::Auth)),
];

/// A value of a type that is allowed for every property of that type.
fn value(kind: &str) -> &'static [u8] {
    match kind {
        "byte" => &[1],
        "two" => &[0, 1],
        "four" => &[0, 0, 0, 1],
        "varint" => &[0x80, 0x01],
        "text" => &[0, 1, b't'],
        "binary" => &[0, 1, 0xff],
        "pair" => &[0, 1, b'n', 0, 1, b'v'],
        other => panic!("no type {other}"),
    }
}

fn read_block(block: &[u8], at: u16, sender: Sender) -> Result<(), PacketFault> {
    let mut bytes = vec![block.len() as u8];
    bytes.extend_from_slice(block);
    let rules = DecodeRules::strict(sender, Version::V5);
    let mut reader = FieldReader::new(&bytes, &rules);
    block::Properties::read(&mut reader, at, sender)?;
    reader.finish()
}

#[test]
fn properties_stand_where_the_standard_lists_them_and_as_often() {
    let mut names = Vec::new();
    for row in rows(PROPERTIES) {
        let id = u8::from_str_radix(row[0], 16).expect("an identifier");
        names.push((id, row[1]));
        let one: Vec<u8> = [&[id], value(row[2])].concat();
        for (name, at) in PLACES {
            let entry = row[3..].iter().find(|entry| entry.trim_end_matches('*') == name);
            // Data of an authentication does not stand without its method.
            let method: &[u8] = if row[1] == "auth_data" { &[0x15, 0, 1, b'm'] } else { &[] };
            let sender = if name == "disconnect" { Sender::Client } else { Sender::Server };
            let once = read_block(&[method, &one].concat(), at, sender);
            let twice = read_block(&[method, &one, &one].concat(), at, sender);
            let (wanted_once, wanted_twice) = match entry {
                Some(entry) if entry.ends_with('*') => (Ok(()), Ok(())),
                Some(_) => (Ok(()), Err(PacketFault::PropertyTwice)),
                None => (Err(PacketFault::MisplacedProperty), Err(PacketFault::MisplacedProperty)),
            };
            if entry.is_some() || method.is_empty() {
                assert_eq!((once, twice), (wanted_once, wanted_twice), "{} in {name}", row[1]);
            }
            for cut in 1..one.len() {
                let cut_off = read_block(&one[..cut], at, sender);
                assert!(cut_off.is_err(), "{} in {name}, cut at {cut}", row[1]);
            }
        }
    }
    let known: Vec<_> = Property::ALL.iter().map(|&(id, name, _)| (id, name)).collect();
    assert_eq!(known, names);
    for id in (0..=0x7f).filter(|id| names.iter().all(|(known, _)| known != id)) {
        let read = read_block(&[id, 0, 0, 0, 0], place::of(PacketKind::Connect), Sender::Client);
        assert_eq!(read, Err(PacketFault::UnknownProperty), "{id:#04x}");
    }
}

/// Packets that carry reason codes: type, sender, and a packet with this code.
fn with_code(carrier: &str, code: u8) -> (PacketKind, Sender, Vec<u8>) {
    let method = [code, 4, 0x15, 0, 1, b'm'];
    let (kind, sender, body): (_, _, Vec<u8>) = match carrier {
        "connack" => (PacketKind::Connack, Sender::Server, vec![0, code, 0]),
        "puback" => (PacketKind::Puback, Sender::Client, vec![0, 1, code]),
        "pubrec" => (PacketKind::Pubrec, Sender::Server, vec![0, 1, code]),
        "pubrel" => (PacketKind::Pubrel, Sender::Client, vec![0, 1, code]),
        "pubcomp" => (PacketKind::Pubcomp, Sender::Server, vec![0, 1, code]),
        "suback" => (PacketKind::Suback, Sender::Server, vec![0, 1, 0, code]),
        "unsuback" => (PacketKind::Unsuback, Sender::Server, vec![0, 1, 0, code]),
        "client_disconnect" => (PacketKind::Disconnect, Sender::Client, vec![code]),
        "server_disconnect" => (PacketKind::Disconnect, Sender::Server, vec![code]),
        "client_auth" => (PacketKind::Auth, Sender::Client, method.to_vec()),
        "server_auth" => (PacketKind::Auth, Sender::Server, method.to_vec()),
        other => panic!("no carrier {other}"),
    };
    (kind, sender, [vec![kind.first_byte(), body.len() as u8], body].concat())
}

#[test]
fn reason_codes_stand_where_the_standard_lists_them() {
    let mut carriers = 0;
    for row in rows(REASONS) {
        let listed: Vec<u8> =
            row[1..].iter().map(|code| u8::from_str_radix(code, 16).expect("a code")).collect();
        for code in 0..=255 {
            let (kind, sender, bytes) = with_code(row[0], code);
            let rules = DecodeRules::strict(sender, Version::V5);
            match decode(&bytes, &rules) {
                Ok(DecodeStep::Packet { packet, .. }) => {
                    assert!(listed.contains(&code), "{} takes {code:#04x}", row[0]);
                    assert_eq!(packet.kind(), kind);
                    assert!(write(&packet, &rules).len() <= bytes.len());
                }
                other => {
                    assert_eq!(other, Err(PacketFault::BadReason), "{} {code:#04x}", row[0]);
                    assert!(!listed.contains(&code), "{} refuses {code:#04x}", row[0]);
                }
            }
        }
        carriers += 1;
    }
    assert_eq!(carriers, 11);
}

#[test]
fn reason_codes_have_one_name_in_each_packet_and_failures_begin_at_0x80() {
    for &kind in PacketKind::ALL {
        let mut names: Vec<_> = ReasonCode::ALL.iter().map(|code| code.name(kind)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ReasonCode::ALL.len());
    }
    assert_eq!(ReasonCode::Success.name(PacketKind::Suback), "granted_qos_0");
    assert_eq!(ReasonCode::Success.name(PacketKind::Disconnect), "normal_disconnection");
    for &code in ReasonCode::ALL {
        assert_eq!(code.is_failure(), code.number() >= 0x80);
        assert_eq!(ReasonCode::of(code.number()), Some(code));
    }
}

#[test]
fn return_codes_of_old_connacks_mean_the_same_both_ways() {
    for code in 0..=5 {
        let reason = ReasonCode::of_return_code(code).expect("one of six");
        assert_eq!(reason.return_code(), Some(code));
    }
    assert!((6..=255).all(|code| ReasonCode::of_return_code(code).is_none()));
    let silent = [ReasonCode::MalformedPacket, ReasonCode::ProtocolError];
    for reason in silent {
        let (session_present, properties) = (false, block::Properties::default());
        let connack = connack::Connack { session_present, reason, properties };
        let mut bytes = Vec::new();
        assert!(connack.write(&Terms::of(Version::V311), &mut bytes).is_err());
        assert!(bytes.is_empty(), "the connection is closed without a CONNACK (MQTT3 3.2.2-6)");
    }
}

#[test]
fn a_failed_subscription_is_told_in_the_words_of_each_version() {
    let numbers = [ReasonCode::GrantedQos2.number(), ReasonCode::NotAuthorized.number()];
    let reasons = ack::Reasons::over(&numbers);
    let answer = ack::Suback { id: 1, properties: block::Properties::default(), reasons };
    let expected: [(Version, &[u8]); 3] = [
        (Version::V31, &[0x90, 4, 0, 1, 2, 0]), // MQTT31 3.8: it cannot be told
        (Version::V311, &[0x90, 4, 0, 1, 2, 0x80]),
        (Version::V5, &[0x90, 5, 0, 1, 0, 2, 0x87]),
    ];
    for (version, wanted) in expected {
        let mut bytes = Vec::new();
        answer.write(PacketKind::Suback, &Terms::of(version), &mut bytes).expect("it fits");
        assert_eq!(bytes, wanted);
    }
}

#[test]
fn a_variable_byte_integer_takes_the_fewest_bytes() {
    let edges = [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 268_435_455];
    let lengths = [1, 1, 1, 2, 2, 3, 3, 4, 4];
    for (value, length) in edges.into_iter().zip(lengths) {
        let mut bytes = Vec::new();
        write_varint(value, &mut bytes);
        assert_eq!((bytes.len(), varint_bytes(value)), (length, length), "{value}");
        assert_eq!(read_varint(&bytes), Ok(Some((value, length))));
        for cut in 0..length {
            assert_eq!(read_varint(&bytes[..cut]), Ok(None));
        }
    }
    assert_eq!(read_varint(&[0xff, 0xff, 0xff, 0xff]), Err(PacketFault::LengthTooLong));
}

#[test]
fn header_flags_are_those_of_the_table() {
    for &kind in PacketKind::ALL.iter().filter(|&&kind| kind != PacketKind::Publish) {
        let two = [PacketKind::Pubrel, PacketKind::Subscribe, PacketKind::Unsubscribe];
        let wanted = if two.contains(&kind) { 0b0010 } else { 0 };
        for flags in 0..16 {
            assert_eq!(kind.flags_fit(flags, Version::V311), flags == wanted, "{kind:?}");
            assert_eq!(kind.flags_fit(flags, Version::V5), flags == wanted, "{kind:?}");
            let has_qos_1 = flags & 0b0110 == 0b0010;
            assert_eq!(kind.flags_fit(flags, Version::V31), wanted == 0 || has_qos_1);
        }
    }
}

#[test]
fn faults_have_distinct_names_and_cite_a_clause() {
    let mut names: Vec<_> = PacketFault::ALL.iter().map(|fault| fault.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), PacketFault::ALL.len());
    for &fault in PacketFault::ALL {
        let (v5, v3) = (fault.clause(Version::V5), fault.clause(Version::V311));
        assert!(v5.starts_with("MQTT5 ") || v5.is_empty(), "{fault:?}");
        assert!(v3.starts_with("MQTT3 ") || v3.starts_with("MQTT31 ") || v3.is_empty());
        assert!(!(v5.is_empty() && v3.is_empty()), "{fault:?} breaks no clause");
        assert!(fault.code().is_failure());
        let alone = FaultSet::of(&[fault]);
        assert!(alone.contains(fault) && alone.iter().eq([fault]));
    }
    assert!(FaultSet::NONE.is_empty() && !FaultSet::TOLERABLE.is_empty());
}

#[test]
fn packets_of_the_other_end_are_told_by_their_first_byte() {
    let server_only =
        [PacketKind::Connack, PacketKind::Suback, PacketKind::Unsuback, PacketKind::Pingresp];
    let client_only =
        [PacketKind::Connect, PacketKind::Subscribe, PacketKind::Unsubscribe, PacketKind::Pingreq];
    for &kind in PacketKind::ALL {
        let sent = |sender, version| kind.may_come_from(sender, version);
        assert_eq!(sent(Sender::Client, Version::V5), !server_only.contains(&kind), "{kind:?}");
        assert_eq!(sent(Sender::Server, Version::V5), !client_only.contains(&kind), "{kind:?}");
        let farewell = kind == PacketKind::Disconnect;
        let old = !client_only.contains(&kind) && !farewell;
        assert_eq!(sent(Sender::Server, Version::V311), old, "{kind:?}");
    }
}

#[test]
fn malformed_vectors_are_of_every_packet() {
    let vectors = malformed();
    for &kind in PacketKind::ALL {
        let own = |bytes: &[u8]| bytes.first().is_some_and(|byte| byte >> 4 == kind.number());
        let count = vectors.iter().filter(|case| own(&case.bytes)).count();
        assert!(count >= 4, "{count} of {}", kind.name());
    }
    let nothing = Packet::Pingreq;
    assert_eq!(write(&nothing, &DecodeRules::strict(Sender::Client, Version::V5)), [0xc0, 0]);
}

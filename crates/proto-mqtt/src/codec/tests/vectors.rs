//! The golden vectors: bytes to meaning and back, faults and the answers to them.

use super::describe::{describe, version};
use crate::codec::{
    DecodeRules, DecodeStep, FaultAnswer, FaultSet, Packet, PacketFault, PacketKind, ReasonCode,
    Sender, Terms, Version, decode, decode_first,
};
use testkit::vector::{self, Vector};

const MALFORMED: &str = include_str!("../../../vectors/1-malformed.txt");
const GOOD: &str = include_str!("../../../vectors/2-good.txt");
const CAPTURED: &str = include_str!("../../../vectors/5-captured.txt");

/// A vector, and how it is to be read.
pub struct Case {
    /// Name of the vector.
    pub name: String,
    /// Received bytes.
    pub bytes: Vec<u8>,
    /// By which rules.
    pub rules: DecodeRules,
    /// Whether it is the first packet of its connection.
    pub is_first: bool,
    vector: Vector,
}

impl Case {
    fn of(vector: Vector) -> Case {
        let sender = match vector.text("from") {
            None | Some("client") => Sender::Client,
            Some("server") => Sender::Server,
            Some(other) => panic!("`{}` comes from {other}", vector.name),
        };
        let version = version(vector.text("version").unwrap_or("5"));
        let mut rules = DecodeRules::strict(sender, version);
        let number = |key| vector.text(key).map(|text: &str| text.parse::<u32>().expect(key));
        let short = |key, default| number(key).map_or(default, |number| number as u16);
        rules.packet_bytes_max = number("packet_bytes_max").unwrap_or(rules.packet_bytes_max);
        rules.topic_bytes_max = short("topic_bytes_max", rules.topic_bytes_max);
        rules.topic_levels_max = number("topic_levels_max").unwrap_or(rules.topic_levels_max);
        rules.client_id_bytes_max = short("client_id_bytes_max", rules.client_id_bytes_max);
        rules.strict_text = vector.text("strict_text").is_some();
        let is_first = vector.text("first").is_some();
        Case { name: vector.name.clone(), bytes: vector.bytes("bytes"), rules, is_first, vector }
    }

    /// Reads `bytes` as this case is read.
    pub fn decode<'a>(
        &self,
        bytes: &'a [u8],
        rules: &DecodeRules,
    ) -> Result<DecodeStep<'a>, PacketFault> {
        if self.is_first { decode_first(bytes, rules) } else { decode(bytes, rules) }
    }

    /// The vector's value of `key`.
    pub fn expected(&self, key: &str) -> Option<&str> {
        self.vector.text(key)
    }

    /// The answer to the sender of a fault.
    fn answer(&self, fault: PacketFault) -> FaultAnswer {
        match self.is_first {
            true => fault.answer_to_first(&self.bytes),
            false => fault.answer(self.rules.version),
        }
    }
}

/// Vectors that are taken: as the standard has them, and as real clients sent them.
pub fn good() -> Vec<Case> {
    vector::read(GOOD).into_iter().chain(vector::read(CAPTURED)).map(Case::of).collect()
}

/// Vectors that are not.
pub fn malformed() -> Vec<Case> {
    vector::read(MALFORMED).into_iter().map(Case::of).collect()
}

/// The version in whose words a packet is written again.
pub fn written_in(packet: &Packet<'_>, rules: &DecodeRules) -> Version {
    match packet {
        Packet::Connect(connect) => connect.version,
        _ => rules.version,
    }
}

/// The packet as it is written.
pub fn write(packet: &Packet<'_>, rules: &DecodeRules) -> Vec<u8> {
    let mut bytes = vec![0xee];
    let terms = Terms::of(written_in(packet, rules));
    packet.write(rules.sender, &terms, &mut bytes).expect("what came in a packet fits into one");
    assert_eq!(bytes.remove(0), 0xee);
    bytes
}

#[test]
fn good_packets_mean_what_they_should_and_are_written_as_they_came() {
    let mut kinds = Vec::new();
    for case in good() {
        let name = &case.name;
        let step = case.decode(&case.bytes, &case.rules);
        let Ok(DecodeStep::Packet { packet, bytes, tolerated }) = step else {
            panic!("`{name}`: {step:?}");
        };
        assert_eq!(bytes, case.bytes.len(), "`{name}`");
        assert_eq!(tolerated, FaultSet::NONE, "`{name}`");
        assert_eq!(describe(&packet), case.vector.need("means"), "`{name}`");
        let again = case.vector.text("again").map(|_| case.vector.bytes("again"));
        assert_eq!(write(&packet, &case.rules), again.unwrap_or(bytes_of(&case)), "`{name}`");
        kinds.push((packet.kind(), written_in(&packet, &case.rules)));
    }
    for &kind in PacketKind::ALL {
        for version in Version::ALL {
            let is_shown = kinds.contains(&(kind, version));
            assert!(
                is_shown || kind == PacketKind::Auth,
                "no {} of {}",
                kind.name(),
                version.name()
            );
        }
    }
}

fn bytes_of(case: &Case) -> Vec<u8> {
    case.bytes.clone()
}

#[test]
fn a_packet_ends_where_the_next_begins() {
    for case in good() {
        let mut bytes = case.bytes.clone();
        bytes.extend_from_slice(&[0xff; 9]);
        let length = match case.decode(&bytes, &case.rules) {
            Ok(DecodeStep::Packet { bytes, .. }) => bytes,
            other => panic!("`{}`: {other:?}", case.name),
        };
        assert_eq!(length, case.bytes.len(), "`{}`", case.name);
    }
}

#[test]
fn malformed_packets_have_their_fault_and_their_answer() {
    for case in malformed() {
        let (name, step) = (&case.name, case.decode(&case.bytes, &case.rules));
        if let Some(more) = case.vector.text("more") {
            assert_eq!(step, Ok(DecodeStep::More(more.parse().expect("a number"))), "`{name}`");
            continue;
        }
        let Err(fault) = step else { panic!("`{name}`: {step:?}") };
        assert_eq!(fault.name(), case.vector.need("fault"), "`{name}`");
        let said = match case.answer(fault) {
            FaultAnswer::Close => "close".to_owned(),
            FaultAnswer::OldConnack(code) => format!("old_connack {code}"),
            FaultAnswer::Connack(code) => format!("connack {}", code.name(PacketKind::Connack)),
            FaultAnswer::Disconnect(code) => {
                format!("disconnect {}", code.name(PacketKind::Disconnect))
            }
        };
        assert_eq!(said, case.vector.need("answer"), "`{name}`: {fault:?}");
    }
}

#[test]
fn every_fault_is_shown_by_a_vector() {
    let vectors = malformed();
    // These are found by the machines, which know the state of the connection, or by choice.
    let elsewhere = [
        PacketFault::SecondConnect,
        PacketFault::AliasUnknown,
        PacketFault::ReceiveMaximum,
        PacketFault::PayloadFormat,
        PacketFault::AuthUnasked,
        PacketFault::AuthOrder,
        PacketFault::ExpiryFromZero,
    ];
    for &fault in PacketFault::ALL.iter().filter(|fault| !elsewhere.contains(fault)) {
        let is_shown = vectors.iter().any(|case| case.vector.text("fault") == Some(fault.name()));
        assert!(is_shown, "no vector shows {}", fault.name());
    }
}

#[test]
fn a_lenient_reader_lets_pass_what_can_be_and_tells() {
    let mut shown = FaultSet::NONE;
    for case in malformed().iter().filter(|case| case.vector.text("fault").is_some()) {
        let rules = DecodeRules { tolerate: FaultSet::TOLERABLE, ..case.rules };
        let step = case.decode(&case.bytes, &rules);
        let fault = case.vector.need("fault");
        let Some(meaning) = case.vector.text("lenient") else {
            assert_eq!(step.map_err(PacketFault::name), Err(fault), "`{}`", case.name);
            continue;
        };
        let Ok(DecodeStep::Packet { packet, tolerated, .. }) = step else {
            panic!("`{}`: {step:?}", case.name);
        };
        assert_eq!(describe(&packet), meaning, "`{}`", case.name);
        let told: Vec<_> = tolerated.iter().map(PacketFault::name).collect();
        assert_eq!(told, [fault], "`{}`", case.name);
        tolerated.iter().for_each(|fault| shown.insert(fault));
    }
    assert_eq!(shown, FaultSet::TOLERABLE, "every fault that is let pass is shown");
}

#[test]
fn one_tolerated_fault_does_not_open_the_door_for_others() {
    for case in malformed().iter().filter(|case| case.vector.text("lenient").is_some()) {
        let fault = PacketFault::ALL.iter().find(|fault| fault.name() == case.vector.need("fault"));
        let fault = *fault.expect("a fault of the table");
        for &other in PacketFault::ALL {
            let rules = DecodeRules { tolerate: FaultSet::of(&[other]), ..case.rules };
            let step = case.decode(&case.bytes, &rules);
            assert_eq!(step.is_ok(), other == fault, "`{}` with {}", case.name, other.name());
        }
    }
}

#[test]
fn answers_are_packets_that_say_so() {
    for &fault in PacketFault::ALL {
        for version in Version::ALL {
            let mut bytes = Vec::new();
            fault.answer(version).write(&mut bytes);
            if version != Version::V5 {
                assert!(bytes.is_empty(), "before 5.0 the connection just ends (MQTT3 4.8.0-1)");
                continue;
            }
            let step = decode(&bytes, &DecodeRules::strict(Sender::Server, version));
            let told = match step.as_ref() {
                Ok(DecodeStep::Packet { packet: Packet::Disconnect(told), .. }) => told.reason,
                Err(PacketFault::BadReason) => fault.code(), // CONNACK's alone, looked at below
                _ => panic!("{fault:?}: {step:?}"),
            };
            assert_eq!(told, fault.code());
            let connack_alone =
                [ReasonCode::UnsupportedProtocolVersion, ReasonCode::ClientIdentifierNotValid];
            assert_eq!(step.is_err(), connack_alone.contains(&fault.code()), "{fault:?}");
        }
    }
}

#[test]
fn answers_to_connect_are_packets_of_its_version() {
    for case in malformed().iter().filter(|case| case.is_first) {
        let Err(fault) = case.decode(&case.bytes, &case.rules) else { continue };
        let mut bytes = Vec::new();
        let answer = fault.answer_to_first(&case.bytes);
        answer.write(&mut bytes);
        let version = match answer {
            FaultAnswer::Close => continue,
            FaultAnswer::OldConnack(_) => Version::V311,
            _ => Version::V5,
        };
        let step = decode(&bytes, &DecodeRules::strict(Sender::Server, version));
        let Ok(DecodeStep::Packet { packet: Packet::Connack(connack), .. }) = step else {
            panic!("`{}`: {step:?}", case.name);
        };
        assert!(connack.reason.is_failure() && !connack.session_present, "`{}`", case.name);
    }
}

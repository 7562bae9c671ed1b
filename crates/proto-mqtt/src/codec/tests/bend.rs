//! Every vector, cut at every byte, split over two reads, and with every byte changed to every
//! other value.

use super::describe::describe;
use super::vectors::{Case, good, malformed, write};
use crate::codec::block::Block;
use crate::codec::publish::Publish;
use crate::codec::{
    DecodeRules, DecodeStep, FaultSet, Packet, PacketFault, PacketKind, Sender, Terms, Version,
    decode,
};

#[test]
fn a_cut_packet_waits_for_as_much_as_is_missing() {
    for case in good() {
        let whole = case.bytes.len();
        let mut at = 0;
        let mut asked = 0;
        while at < whole {
            let Ok(DecodeStep::More(more)) = case.decode(&case.bytes[..at], &case.rules) else {
                panic!("`{}` cut at {at}", case.name);
            };
            assert!(more > 0 && at + more <= whole, "`{}` cut at {at}: {more}", case.name);
            at += more;
            asked += 1;
        }
        assert!(asked <= 5, "a reader that gets what it asks for asks {asked} times");
        for cut in 0..whole {
            let step = case.decode(&case.bytes[..cut], &case.rules);
            assert!(
                matches!(step, Ok(DecodeStep::More(_))),
                "`{}` cut at {cut}: {step:?}",
                case.name
            );
        }
    }
}

#[test]
fn a_malformed_packet_never_turns_good_by_coming_in_pieces() {
    for case in malformed() {
        let last = case.decode(&case.bytes, &case.rules);
        for cut in 0..case.bytes.len() {
            match case.decode(&case.bytes[..cut], &case.rules) {
                Ok(DecodeStep::More(more)) => assert!(more > 0),
                Err(fault) => assert_eq!(Err(fault), last, "`{}` cut at {cut}", case.name),
                Ok(step) => panic!("`{}` cut at {cut}: {step:?}", case.name),
            }
        }
    }
}

/// All packets of a stream as far as they are whole, and how many bytes they have.
fn read_all(bytes: &[u8], rules: &DecodeRules) -> (Vec<String>, usize) {
    let (mut seen, mut taken) = (Vec::new(), 0);
    while let Ok(DecodeStep::Packet { packet, bytes, .. }) = decode(&bytes[taken..], rules) {
        seen.push(describe(&packet));
        taken += bytes;
    }
    (seen, taken)
}

#[test]
fn a_stream_gives_the_same_packets_wherever_it_is_split() {
    for sender in [Sender::Client, Sender::Server] {
        for version in Version::ALL {
            let rules = DecodeRules::strict(sender, version);
            let own = |case: &Case| case.rules == rules;
            let stream: Vec<u8> = good().into_iter().filter(own).flat_map(|c| c.bytes).collect();
            let (whole, taken) = read_all(&stream, &rules);
            assert_eq!(taken, stream.len());
            for cut in 0..=stream.len() {
                let (mut seen, taken) = read_all(&stream[..cut], &rules);
                seen.extend(read_all(&stream[taken..], &rules).0);
                assert_eq!(seen, whole, "{sender:?} {version:?} cut at {cut}");
            }
        }
    }
}

#[test]
fn a_large_publish_is_known_before_its_payload_has_come() {
    for case in good() {
        let step = case.decode(&case.bytes, &case.rules);
        let Ok(DecodeStep::Packet { packet: Packet::Publish(publish), .. }) = step else {
            assert_eq!(Publish::peek(&case.bytes, &case.rules), Ok(None), "`{}`", case.name);
            continue;
        };
        let whole = case.bytes.len();
        let front = whole - publish.payload.len();
        for cut in 0..=whole {
            let head = Publish::peek(&case.bytes[..cut], &case.rules).expect(&case.name);
            assert_eq!(head.is_some(), cut >= front, "`{}` cut at {cut}", case.name);
            let Some(head) = head else { continue };
            assert_eq!((head.packet_bytes, head.payload_bytes), (whole, publish.payload.len()));
            assert_eq!(head.publish.payload, &publish.payload[..cut - front]);
            assert_eq!(Publish { payload: publish.payload, ..head.publish }, publish);
        }
    }
}

#[test]
fn what_is_wrong_with_a_large_publish_shows_before_its_payload_has_come() {
    let mut shown = 0;
    for case in malformed() {
        let (Some(first), Err(fault)) = (case.bytes.first(), case.decode(&case.bytes, &case.rules))
        else {
            continue;
        };
        if first >> 4 != PacketKind::Publish.number() || case.is_first {
            continue;
        }
        assert_eq!(Publish::peek(&case.bytes, &case.rules), Err(fault), "`{}`", case.name);
        let rules = DecodeRules { tolerate: FaultSet::TOLERABLE, ..case.rules };
        let lenient = case.decode(&case.bytes, &rules).map(drop);
        assert_eq!(Publish::peek(&case.bytes, &rules).map(drop), lenient, "`{}`", case.name);
        shown += 1;
    }
    assert!(shown > 40, "{shown}");
}

/// For any bytes, reading ends well; the result is written so that it reads the same.
pub fn read_and_write_again(bytes: &[u8], rules: &DecodeRules) -> Result<(), PacketFault> {
    let DecodeStep::Packet { packet, bytes: length, .. } = decode(bytes, rules)? else {
        return Ok(());
    };
    assert!(length <= bytes.len() && length <= rules.packet_bytes_max as usize);
    if let Packet::Connect(connect) = &packet
        && connect.password.is_some()
        && connect.user_name.is_none()
        && connect.version != Version::V5
    {
        return Ok(()); // tolerated from others, never written
    }
    let again = write(&packet, rules);
    let lenient = DecodeRules { tolerate: FaultSet::TOLERABLE, ..*rules };
    let Ok(DecodeStep::Packet { packet: same, bytes: taken, .. }) = decode(&again, &lenient) else {
        panic!("{bytes:02x?} was written as {again:02x?}");
    };
    assert_eq!(taken, again.len());
    let dup_alone = matches!(&packet, Packet::Publish(publish) if publish.dup && publish.id == 0);
    if !dup_alone {
        assert_eq!(describe(&same), describe(&packet), "{bytes:02x?}");
    }
    assert_eq!(write(&same, rules), again, "a packet has one form");
    Ok(())
}

/// Every byte of every vector, changed to every other value.
fn change_every_byte(cases: Vec<Case>) {
    let (mut taken, mut refused) = (0u32, 0u32);
    for case in cases.into_iter().filter(|case| case.bytes.len() <= 120) {
        let mut bytes = case.bytes.clone();
        for at in 0..bytes.len() {
            let was = bytes[at];
            for value in 0..=255 {
                bytes[at] = value;
                let Err(fault) = read_and_write_again(&bytes, &case.rules) else {
                    taken += 1;
                    continue;
                };
                refused += 1;
                fault.answer_to_first(&bytes);
                let lenient = DecodeRules { tolerate: FaultSet::TOLERABLE, ..case.rules };
                let _ = read_and_write_again(&bytes, &lenient);
            }
            bytes[at] = was;
        }
    }
    assert!(taken > 100_000 && refused > 100_000, "{taken} taken, {refused} refused");
}

#[test]
fn a_changed_byte_of_a_good_packet_never_panics_and_what_reads_is_written_the_same() {
    change_every_byte(good());
}

#[test]
fn a_changed_byte_of_a_malformed_packet_never_panics_and_what_reads_is_written_the_same() {
    change_every_byte(malformed());
}

#[test]
fn properties_are_written_as_they_are_read_one_by_one() {
    let mut shown = 0;
    for case in good() {
        let Ok(DecodeStep::Packet { packet, .. }) = case.decode(&case.bytes, &case.rules) else {
            continue;
        };
        let Packet::Publish(publish) = packet else { continue };
        let all: Vec<_> = publish.properties.iter().collect();
        let block = Block::of(&all).expect("they came in a packet");
        let again = Packet::Publish(Publish { properties: block.properties(), ..publish });
        let mut bytes = Vec::new();
        again.write(case.rules.sender, &Terms::of(case.rules.version), &mut bytes).expect("fits");
        assert_eq!(bytes, case.bytes, "`{}`", case.name);
        assert_eq!(block.properties(), publish.properties);
        shown += all.len();
    }
    assert!(shown >= 12, "{shown} properties");
}

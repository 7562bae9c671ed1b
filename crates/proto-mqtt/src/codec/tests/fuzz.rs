//! Vectors that were bent at random, and bytes that are nothing but random.

use super::bend::read_and_write_again;
use super::vectors::{Case, good, malformed};
use crate::codec::publish::Publish;
use crate::codec::{DecodeRules, FaultSet, Sender, Version, connect, decode_first};
use base::prng::Prng;

const ROUNDS: u64 = 300_000;

/// A vector with a few bytes changed, gone or doubled, or the tail of another one.
fn bent(rng: &mut Prng, cases: &[Case]) -> (Vec<u8>, usize) {
    let at = rng.below(cases.len() as u64) as usize;
    let mut bytes = cases[at].bytes.clone();
    for _ in 0..=rng.below(3) {
        let place = rng.below(bytes.len() as u64 + 1) as usize;
        match rng.below(6) {
            0 if place < bytes.len() => bytes[place] = rng.draw() as u8,
            1 if place < bytes.len() => bytes[place] ^= 1 << rng.below(8),
            2 if place < bytes.len() => drop(bytes.remove(place)),
            3 => bytes.insert(place, [0, 1, 0x7f, 0x80, 0xff][rng.below(5) as usize]),
            4 => bytes.truncate(place),
            _ => {
                let other = &cases[rng.below(cases.len() as u64) as usize].bytes;
                let from = rng.below(other.len() as u64 + 1) as usize;
                bytes.truncate(place);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }
    // Half of them with a length that fits again, so that more than the length is looked at.
    if rng.one_in(2) && bytes.len() >= 2 && bytes.len() < 130 {
        bytes[1] = (bytes.len() - 2) as u8;
    }
    (bytes, at)
}

#[test]
fn bent_packets_are_taken_wait_or_have_a_fault() {
    let cases: Vec<Case> =
        good().into_iter().chain(malformed()).filter(|case| case.bytes.len() < 400).collect();
    let (mut rng, mut taken) = (Prng::new(0x4d51_5454), 0u64);
    for _ in 0..ROUNDS {
        let (bytes, at) = bent(&mut rng, &cases);
        let sender = if rng.one_in(2) { Sender::Client } else { Sender::Server };
        let version = Version::ALL[rng.below(3) as usize];
        let own = cases[at].rules;
        let mut rules = if rng.one_in(2) { own } else { DecodeRules::strict(sender, version) };
        rules.tolerate = FaultSet::TOLERABLE;
        if rng.one_in(2) {
            rules.tolerate = FaultSet::NONE;
        }
        rules.strict_text = rng.one_in(4);
        taken += u64::from(read_and_write_again(&bytes, &rules).is_ok());
        let _ = Publish::peek(&bytes, &rules);
        if let Err(fault) = decode_first(&bytes, &rules) {
            let mut answer = Vec::new();
            fault.answer_to_first(&bytes).write(&mut answer);
            assert!(answer.len() <= 5);
        }
    }
    assert!(taken > ROUNDS / 10, "{taken} were taken: the bending is too rough");
}

#[test]
fn noise_is_taken_waits_or_has_a_fault() {
    let mut rng = Prng::new(5);
    for _ in 0..ROUNDS / 3 {
        let length = rng.below(40) as usize;
        let mut bytes: Vec<u8> = (0..length).map(|_| rng.draw() as u8).collect();
        if length >= 2 && rng.one_in(2) {
            bytes[1] = (length - 2) as u8;
        }
        let version = Version::ALL[rng.below(3) as usize];
        let sender = if rng.one_in(2) { Sender::Client } else { Sender::Server };
        let _ = read_and_write_again(&bytes, &DecodeRules::lenient(sender, version));
    }
}

#[test]
fn an_announced_length_allocates_nothing() {
    // The reader waits for bytes that will not come; nothing is made ready for them.
    let mut bytes = vec![0x10, 0xff, 0xff, 0xff, 0x7f];
    let whole = connect::Connect::of(Version::V5, "d");
    let mut good = Vec::new();
    whole.write(&crate::codec::Terms::of(Version::V5), &mut good).expect("it fits");
    bytes.extend_from_slice(&good[2..]);
    let step = decode_first(&bytes, &DecodeRules::strict(Sender::Client, Version::V5));
    let missing = 268_435_455 - (good.len() - 2);
    assert_eq!(step, Ok(crate::codec::DecodeStep::More(missing)));
}

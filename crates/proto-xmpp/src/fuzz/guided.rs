//! Targets of `cargo xtask fuzz`, and their corpora, replayed.

use super::{STATES, corpus, is_left, served};
use crate::server::tests::harness::in_state;
use crate::xml::framer::{Framer, StreamPiece};
use crate::xml::scan::Scan;
use base::prng::Prng;
use testkit::corpus::{batch, replay};

/// How a stream is cut in pieces; the length of what was read, and what of it was XML.
fn pieces(stream: &[u8], most: usize, step: usize) -> (usize, Vec<(usize, bool)>) {
    let (mut framer, mut at, mut known, mut all) = (Framer::default(), 0, 0, Vec::new());
    while known < stream.len() {
        known = stream.len().min(known + step);
        loop {
            // A machine knows whether a header is to come, however little of it has.
            let (rest, is_within) = (&stream[at..known], !stream[at..].starts_with(b"<?xml"));
            // Behind a fault nothing is read any more.
            let Ok(piece) = framer.next(rest, is_within, most) else { return (at, all) };
            let Some(piece) = piece else { break };
            let (length, is_right) = match piece {
                StreamPiece::Header(length) => (length, Scan::header(&rest[..length]).is_ok()),
                StreamPiece::Element(length) => (length, is_element(&rest[..length])),
                StreamPiece::Close(length) | StreamPiece::Space(length) => (length, true),
            };
            assert!(0 < length && length <= rest.len(), "{length} of {}", rest.len());
            at += length;
            // Space is given as it comes.
            all.extend((!matches!(piece, StreamPiece::Space(_))).then_some((length, is_right)));
            if at == known {
                break;
            }
        }
    }
    (at, all)
}

/// Whether a piece is an element; what is in one that is, is looked at.
fn is_element(bytes: &[u8]) -> bool {
    let Ok(scan) = Scan::element(bytes) else { return false };
    let (mut left, root) = (vec![scan.root()], scan.root());
    assert!(root.whole().len() <= bytes.len());
    while let Some(element) = left.pop() {
        assert!(!element.name().is_empty());
        let _ = (element.text(), element.namespace(), element.attribute("id"));
        let _ = Scan::alone(element.whole());
        left.extend(element.children());
    }
    true
}

/// The first byte says how the stream is cut on its way; the rest is the stream.
fn frames(input: &[u8]) {
    let Some((&step, stream)) = input.split_first() else { return };
    let most = 2_048;
    let whole = pieces(stream, most, stream.len().max(1));
    let cut = pieces(stream, most, 1 + usize::from(step));
    // What is too long is so as soon as that is seen; of the rest all is read alike.
    if stream.len() <= most {
        assert_eq!(whole, cut);
    }
}

/// The first byte says in which state, the second what the service says; the rest is the stream.
fn serves(input: &[u8]) {
    let [state, seed, stream @ ..] = input else { return };
    let mut rng = Prng::new((*seed).into());
    let mut side = in_state(STATES[usize::from(*state) % STATES.len()]);
    side.take_words();
    served(&mut side, stream, &mut rng);
    is_left(&mut side, stream, &mut rng);
}

#[test]
fn the_grown_corpora_are_replayed() {
    for (name, run) in [("framer", frames as fn(&[u8])), ("server", serves)] {
        let count = replay(env!("CARGO_MANIFEST_DIR"), name, run);
        assert!(count > 20, "{count} of {name}");
    }
}

#[test]
#[ignore = "a target of `cargo xtask fuzz`"]
fn framer() {
    batch(frames);
}

#[test]
#[ignore = "a target of `cargo xtask fuzz`"]
fn server() {
    batch(serves);
}

#[test]
#[ignore = "writes what corpora begin with"]
fn writes_the_seeds() {
    let folder = |name: &str| format!("{}/corpus/grown-{name}", env!("CARGO_MANIFEST_DIR"));
    for (at, seed) in corpus().into_iter().enumerate() {
        std::fs::write(format!("{}/seed-{at:03}", folder("framer")), [b"\x05", &*seed].concat())
            .expect("written");
        for state in [(at % 7) as u8, 8, 9] {
            let path = format!("{}/seed-{at:03}-{state}", folder("server"));
            std::fs::write(path, [&[state, at as u8], &*seed].concat()).expect("written");
        }
    }
}

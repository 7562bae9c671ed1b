//! The target of `cargo xtask fuzz`, and its corpus, replayed.

use crate::ChatWord;
use base::encoding::sample::samples;
use base::encoding::{decode, encode};
use model::service::Weigh;
use testkit::corpus::{batch, replay};

fn decodes(input: &[u8]) {
    if let Ok(words) = decode::<ChatWord>(input) {
        words.iter().for_each(|word| _ = word.weight());
        let bytes = encode(&words);
        assert!(decode::<ChatWord>(&bytes).is_ok(), "{words:?}");
    }
}

#[test]
fn the_grown_corpus_is_replayed() {
    let count = replay(env!("CARGO_MANIFEST_DIR"), "peer", decodes);
    assert!(count > 10, "{count} inputs");
}

#[test]
#[ignore = "a target of `cargo xtask fuzz`"]
fn peer() {
    batch(decodes);
}

#[test]
#[ignore = "writes what the corpus begins with"]
fn writes_the_seeds() {
    for (at, word) in samples::<ChatWord>().into_iter().enumerate().step_by(64) {
        let path = format!("{}/corpus/grown-peer/seed-{at:03}", env!("CARGO_MANIFEST_DIR"));
        std::fs::write(path, encode(&[word])).expect("written");
    }
}

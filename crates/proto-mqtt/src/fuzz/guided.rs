//! Targets of `cargo xtask fuzz`, and their corpora, replayed.

use super::{corpus, read_stream, readers, serve};
use base::prng::Prng;
use testkit::corpus::{batch, replay};

/// The first byte says who reads; the rest is the stream.
fn reads(input: &[u8]) {
    let Some((&reader, stream)) = input.split_first() else { return };
    let readers: Vec<_> = readers().collect();
    read_stream(stream, readers[usize::from(reader) % readers.len()]);
}

/// The first byte says what the broker says; the rest is the stream.
fn serves(input: &[u8]) {
    let Some((&seed, stream)) = input.split_first() else { return };
    serve(stream, &mut Prng::new(seed.into()));
}

#[test]
fn the_grown_corpora_are_replayed() {
    for (name, run) in [("codec", reads as fn(&[u8])), ("server", serves)] {
        let count = replay(env!("CARGO_MANIFEST_DIR"), name, run);
        assert!(count > 10, "{count} of {name}");
    }
}

#[test]
#[ignore = "a target of `cargo xtask fuzz`"]
fn codec() {
    batch(reads);
}

#[test]
#[ignore = "a target of `cargo xtask fuzz`"]
fn server() {
    batch(serves);
}

#[test]
#[ignore = "writes what corpora begin with"]
fn writes_the_seeds() {
    for name in ["codec", "server"] {
        for (at, seed) in corpus(name).into_iter().enumerate() {
            for first in 0..4_u8 {
                let folder = format!("{}/corpus/grown-{name}", env!("CARGO_MANIFEST_DIR"));
                let seed = &seed[..seed.len().min(1_024)];
                let path = format!("{folder}/seed-{at:03}-{first}");
                std::fs::write(path, [&[first], seed].concat()).expect("written");
            }
        }
    }
}

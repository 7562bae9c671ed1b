//! Peer messages on their way to a shard of another process: encoded, and decoded there.
//!
//! [`golden`] compares the bytes of each kind of message with those that are kept, and [`bent`]
//! decodes bytes that are no message.

use base::encoding::sample::{Sample, samples};
use base::encoding::{Encoding, decode, encode};
use base::hash::HashKey;
use base::prng::Prng;
use std::fmt::{Debug, Write};
use std::fs;
use std::path::Path;

/// Characters of a message that the golden file shows.
const SHOWN: usize = 96;

/// Names at the beginning of a message that tell its kind.
const NAMED: usize = 3;

/// The messages after their way to another process. Panics if they are different ones there.
pub fn crossed_all<T: Encoding + Debug>(messages: &[T]) -> Vec<T> {
    let bytes = encode(messages);
    let decoded = decode(&bytes).unwrap_or_else(|why| panic!("{why}: {messages:?}"));
    assert_eq!(format!("{decoded:?}"), format!("{messages:?}"));
    decoded
}

/// A message after its way to another process.
pub fn crossed<T: Encoding + Debug>(message: T) -> T {
    crossed_all(&[message]).pop().expect("one was sent")
}

/// The names at the beginning of a message, by which the golden file lists it.
fn name(shown: &str) -> Vec<&str> {
    let words = shown.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase())).take(NAMED).collect()
}

/// Of each kind of message the beginning and the bytes of a sample, and how many samples there are,
/// with the hash of the bytes of all.
fn lines<T: Sample + Encoding + Debug>() -> String {
    let mut kinds: Vec<(String, Vec<Vec<u8>>)> = Vec::new();
    for message in samples::<T>() {
        let shown = format!("{message:?}");
        let bytes = encode(&crossed_all(&[message]));
        match kinds.iter_mut().find(|(first, _)| name(first) == name(&shown)) {
            Some((_, all)) => all.push(bytes),
            None => kinds.push((shown, vec![bytes])),
        }
    }
    let mut lines = String::new();
    for (shown, all) in kinds {
        let shown: String = shown.chars().take(SHOWN).collect();
        let bytes = base::hex::encode(&all[0]);
        let parts: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
        let (count, hash) = (all.len(), HashKey::new(0, 0).of(&parts));
        writeln!(lines, "{shown}\n    {bytes}\n    {count}: {hash:016x}")
            .expect("a string takes it");
    }
    lines
}

/// Compares the bytes of each kind of message with the file that is kept.
pub fn golden<T: Sample + Encoding + Debug>(path: &Path) {
    let kept = fs::read_to_string(path).expect("the golden bytes are kept");
    let lines = lines::<T>();
    let differs = lines.lines().zip(kept.lines()).find(|(now, kept)| now != kept);
    assert_eq!(differs, None, "the encoding has changed: see {}", path.display());
    assert_eq!(lines.lines().count(), kept.lines().count(), "{}", path.display());
}

/// Writes that file.
pub fn write_golden<T: Sample + Encoding + Debug>(path: &Path) {
    fs::write(path, lines::<T>()).expect("written");
}

/// Decodes a sample of each kind cut at every byte, and with bytes changed as `rng` says. What is
/// still a message is passed to `look`.
pub fn bent<T: Sample + Encoding>(rng: &mut Prng, look: impl Fn(&T)) {
    for message in samples::<T>() {
        let bytes = encode(&[message]);
        for end in 0..bytes.len() {
            assert!(decode::<T>(&bytes[..end]).is_err(), "{end} of {bytes:?}");
        }
        for _ in 0..100 {
            let mut bent = bytes.clone();
            for _ in 0..=rng.below(3) {
                let at = rng.below(bent.len() as u64) as usize;
                match rng.below(4) {
                    0 => bent[at] ^= 1 << rng.below(8),
                    1 => bent[at] = rng.draw() as u8,
                    // A length of 4 GB, if it was one.
                    2 => bent[at..].iter_mut().take(4).for_each(|byte| *byte = 0xff),
                    _ => bent.insert(at, bent[at]),
                }
            }
            decode::<T>(&bent).iter().flatten().for_each(&look);
        }
    }
}

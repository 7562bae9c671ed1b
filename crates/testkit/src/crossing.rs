//! Peer messages on their way to a shard of another process: encoded, and decoded there.
//!
//! [`golden`] compares the bytes of each kind of message with those that are kept, and [`bent`]
//! decodes what is no message.

use base::encoding::sample::{Sample, samples};
use base::encoding::{Encoding, decode, encode};
use base::prng::Prng;
use std::fmt::{Debug, Write};
use std::fs;
use std::path::Path;

/// Characters of a message that the golden file shows.
const SHOWN: usize = 96;

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

/// The bytes of a sample of each kind, with the beginning of what it is.
fn lines<T: Sample + Encoding + Debug>() -> String {
    let mut lines = String::new();
    for message in samples::<T>() {
        let shown: String = format!("{message:?}").chars().take(SHOWN).collect();
        let bytes = base::hex::encode(&encode(&crossed_all(&[message])));
        writeln!(lines, "{shown}\n    {bytes}").expect("a string takes it");
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
                    _ => bent.insert(at, bytes[at]),
                }
            }
            decode::<T>(&bent).iter().flatten().for_each(&look);
        }
    }
}

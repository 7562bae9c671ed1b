//! Inputs that are bent: bytes that change, go or come twice, words of one input in another.
//!
//! It knows no protocol: what stands between two bytes that are no letters is a word. Invariant: no
//! input is longer than [`BYTES_MAX`].

use std::hash::{BuildHasher, Hasher, RandomState};

/// Longest input.
pub const BYTES_MAX: usize = 4_096;

/// Longest word, and piece that is moved.
const WORD_BYTES_MAX: usize = 64;
const PIECE_BYTES_MAX: usize = 256;

/// Bytes that mean something to most who read.
const BYTES: &[u8] = b"\0\x01\x7f\x80\xff <>/'\"=&;:#@!?-]0";

/// Bends inputs, another way with each start.
pub struct Bender(u64);

impl Bender {
    pub fn new() -> Bender {
        Bender(RandomState::new().build_hasher().finish())
    }

    /// Vigna's splitmix64.
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, most: usize) -> usize {
        (self.draw() % most.max(1) as u64) as usize
    }

    /// One of the corpus, bent a few times.
    pub fn bent(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let Some(first) = self.one_of(corpus) else { return Vec::new() };
        let mut input = first.to_vec();
        for _ in 0..=self.below(4) {
            self.bend(&mut input, corpus);
        }
        input.truncate(BYTES_MAX);
        input
    }

    fn one_of<'a>(&mut self, corpus: &'a [Vec<u8>]) -> Option<&'a [u8]> {
        let at = self.below(corpus.len());
        corpus.get(at).map(|it| &**it)
    }

    /// A piece of an input.
    fn piece<'a>(&mut self, input: &'a [u8], most: usize) -> &'a [u8] {
        let from = self.below(input.len());
        let to = (from + 1 + self.below(most)).min(input.len());
        &input[from..to]
    }

    /// A word of an input.
    fn word<'a>(&mut self, input: &'a [u8]) -> &'a [u8] {
        let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b":/.#_-".contains(byte);
        let rest = &input[self.below(input.len())..];
        let from = rest.iter().position(is_of_word).unwrap_or(0);
        let rest = &rest[from..];
        let to = rest.iter().position(|it| !is_of_word(it)).unwrap_or(rest.len());
        &rest[..to.min(WORD_BYTES_MAX)]
    }

    fn bend(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.below(input.len() + 1);
        let other = self.one_of(corpus).unwrap_or_default();
        match self.below(9) {
            0 if at < input.len() => input[at] = self.draw() as u8,
            1 if at < input.len() => input[at] ^= 1 << self.below(8),
            2 => input.insert(at, BYTES[self.below(BYTES.len())]),
            3 => {
                let to = (at + 1 + self.below(PIECE_BYTES_MAX)).min(input.len());
                drop(input.drain(at.min(to)..to));
            }
            4 => {
                let own = self.piece(input, PIECE_BYTES_MAX).to_vec();
                drop(input.splice(at..at, own));
            }
            5 => {
                let piece = self.piece(other, PIECE_BYTES_MAX);
                drop(input.splice(at..at, piece.iter().copied()));
            }
            6 => {
                // A word in place of another.
                let gone = self.word(&input[at..]).len();
                let word = self.word(other);
                drop(input.splice(at..at + gone.min(input.len() - at), word.iter().copied()));
            }
            7 => {
                input.truncate(at);
                input.extend_from_slice(&other[self.below(other.len())..]);
            }
            _ => input.extend_from_slice(other.get(2..).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_bent_within_bounds_from_whatever_corpus() {
        let mut bender = Bender::new();
        let corpora: [&[Vec<u8>]; 4] = [
            &[],
            &[vec![]],
            &[b"<iq type='get'/>".to_vec(), vec![0]],
            &[vec![b'x'; BYTES_MAX], b"yes no".to_vec()],
        ];
        for corpus in corpora {
            let all: Vec<_> = (0..2_000).map(|_| bender.bent(corpus)).collect();
            assert!(all.iter().all(|it| it.len() <= BYTES_MAX));
            assert!(corpus.len() < 2 || all.iter().any(|it| !corpus.contains(it)));
        }
    }
}

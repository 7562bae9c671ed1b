//! Bytes that wait for a socket: a connection's own, with shared frames in between.
//!
//! A connection has an out-queue only while there is something in it. It counts bytes and frames,
//! and the shard ends the connection when either reaches its limit: a reader that does not read
//! costs a known amount. Everything gathered in a turn goes out in one gathering write.

use model::machine::SharedBytes;
use std::collections::VecDeque;
use std::io::IoSlice;

/// Pieces given to one write; Linux takes 1,024, a turn rarely gathers more than a few.
const PIECES_MAX: usize = 64;
/// An emptied queue keeps no larger a buffer than this, bytes.
const KEPT_BYTES_MAX: usize = 16 * 1024;

/// Bytes that wait, in order.
#[derive(Default)]
pub struct OutQueue {
    /// The connection's own bytes, from `from` on.
    own: Vec<u8>,
    from: usize,
    /// Shared frames: each goes out before the own byte at its position.
    shared: VecDeque<(usize, SharedBytes)>,
    /// Bytes of the first shared frame that are out already.
    shared_from: usize,
    shared_bytes: usize,
    frames: u32,
}

impl OutQueue {
    /// Appends bytes of this connection.
    pub fn push(&mut self, bytes: &[u8]) {
        self.own.extend_from_slice(bytes);
        self.frames += 1;
    }

    /// Appends a frame that others send too.
    pub fn share(&mut self, frame: SharedBytes) {
        self.shared_bytes += frame.len();
        self.shared.push_back((self.own.len(), frame));
        self.frames += 1;
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.own.len() - self.from + self.shared_bytes
    }

    /// Frames that were put in since it was last empty.
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Shared frames that wait.
    pub fn shared_frames(&self) -> usize {
        self.shared.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Shows the first pieces to `write`, which says how many bytes it took.
    pub fn write(&mut self, write: impl FnOnce(&[IoSlice<'_>]) -> usize) -> usize {
        let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
        let mut count = 0;
        let mut own = self.from;
        let mut skip = self.shared_from;
        for (at, frame) in &self.shared {
            if *at > own && count < PIECES_MAX {
                pieces[count] = IoSlice::new(&self.own[own..*at]);
                count += 1;
                own = *at;
            }
            if count == PIECES_MAX {
                break;
            }
            pieces[count] = IoSlice::new(&frame[skip..]);
            count += 1;
            skip = 0;
        }
        let all_shared_shown = self.shared.back().is_none_or(|(at, _)| *at <= own);
        if all_shared_shown && count < PIECES_MAX && self.own.len() > own {
            pieces[count] = IoSlice::new(&self.own[own..]);
            count += 1;
        }
        let taken = write(&pieces[..count]);
        self.advance(taken);
        taken
    }

    /// Empties it, for the next connection that needs one.
    pub fn clear(&mut self) {
        self.own.clear();
        self.own.shrink_to(KEPT_BYTES_MAX);
        self.shared.clear();
        (self.from, self.shared_from, self.shared_bytes, self.frames) = (0, 0, 0, 0);
    }

    /// Gives back its buffers, when nothing waits: the connection will be idle for long.
    pub fn rest(&mut self) {
        if self.is_empty() {
            *self = OutQueue::default();
        }
    }

    fn advance(&mut self, mut taken: usize) {
        while taken > 0 {
            let own_until = self.shared.front().map_or(self.own.len(), |(at, _)| *at);
            let own = (own_until - self.from).min(taken);
            self.from += own;
            taken -= own;
            if taken == 0 {
                break;
            }
            let (_, frame) = self.shared.front().expect("more was written than waited");
            let step = (frame.len() - self.shared_from).min(taken);
            taken -= step;
            self.shared_from += step;
            self.shared_bytes -= step;
            if self.shared_from == frame.len() {
                self.shared.pop_front();
                self.shared_from = 0;
            }
        }
        if self.is_empty() {
            self.clear();
        } else if self.from > KEPT_BYTES_MAX && self.from * 2 > self.own.len() {
            self.own.drain(..self.from);
            self.shared.iter_mut().for_each(|(at, _)| *at -= self.from);
            self.from = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn order_is_kept_however_little_is_taken() {
        let mut rng = Prng::new(5);
        for _ in 0..200 {
            let mut queue = OutQueue::default();
            let (mut expected, mut got) = (Vec::new(), Vec::new());
            for _ in 0..40 {
                let bytes: Vec<u8> = (0..rng.below(900)).map(|_| rng.draw() as u8).collect();
                expected.extend_from_slice(&bytes);
                if rng.one_in(2) {
                    queue.share(SharedBytes::Frame(bytes.into()));
                } else {
                    queue.push(&bytes);
                }
                assert_eq!(queue.bytes(), expected.len() - got.len());
                let most = rng.below(700) as usize;
                queue.write(|pieces| take(pieces, most, &mut got));
            }
            while !queue.is_empty() {
                let most = 1 + rng.below(5_000) as usize;
                assert!(queue.write(|pieces| take(pieces, most, &mut got)) > 0);
            }
            assert_eq!(got, expected);
        }
    }

    fn take(pieces: &[IoSlice<'_>], most: usize, got: &mut Vec<u8>) -> usize {
        let all: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        let taken = all.len().min(most);
        got.extend_from_slice(&all[..taken]);
        taken
    }
}

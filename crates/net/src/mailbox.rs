//! Letters between shards: bounded, and woken once.
//!
//! The sender pushes under a lock held for a few instructions and rings the bell only when it is
//! not rung yet; the receiver takes everything at once. A full mailbox gives the letter back: an
//! answer, never a wait.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// One shard's letters.
pub struct Mailbox<L> {
    letters: Mutex<Vec<L>>,
    letters_max: usize,
    rung: AtomicBool,
    bell: OwnedFd,
}

impl<L> Mailbox<L> {
    /// An empty mailbox for at most `letters_max` letters.
    pub fn new(letters_max: usize) -> std::io::Result<Arc<Self>> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Arc::new(Mailbox {
            letters: Mutex::new(Vec::new()),
            letters_max,
            rung: AtomicBool::new(false),
            bell,
        }))
    }

    /// Puts a letter in, or gives it back when the box is full. The receiver sleeps on until
    /// [`ring`](Self::ring).
    pub fn put(&self, letter: L) -> Result<(), L> {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        if letters.len() >= self.letters_max {
            return Err(letter);
        }
        letters.push(letter);
        Ok(())
    }

    /// Wakes the receiver, unless it has been woken since it last looked.
    pub fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            // It cannot fail: the counter is far from overflowing, for it is rung once a look.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    /// Takes all letters.
    pub fn take(&self, into: &mut Vec<L>) {
        self.answer(|| {});
        self.collect(into);
    }

    fn collect(&self, into: &mut Vec<L>) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        if into.is_empty() {
            std::mem::swap(&mut *letters, into);
        } else {
            into.append(&mut letters);
        }
    }

    /// Silences the bell and lets it be rung again, in this order: a bell read after `rung` is
    /// false may swallow the ring of a sender that found it false, and then nobody rings again.
    /// A sender that comes in `between` has put its letter before the receiver looks.
    fn answer(&self, between: impl FnOnce()) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        between();
        self.rung.store(false, Ordering::SeqCst);
    }

    /// What the poller watches.
    pub fn bell(&self) -> &OwnedFd {
        &self.bell
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    #[test]
    fn full_gives_the_letter_back() {
        let mailbox = Mailbox::new(2).expect("an eventfd");
        assert_eq!((mailbox.put(1), mailbox.put(2), mailbox.put(3)), (Ok(()), Ok(()), Err(3)));
        let mut got = Vec::new();
        mailbox.take(&mut got);
        assert_eq!(got, [1, 2]);
        assert_eq!(mailbox.put(4), Ok(()));
    }

    #[test]
    fn a_sender_in_the_midst_of_an_answer_does_not_silence_the_bell_for_ever() {
        let mailbox = Mailbox::new(9).expect("an eventfd");
        let send = |letter| {
            mailbox.put(letter).expect("room");
            mailbox.ring();
        };
        send(1);
        mailbox.answer(|| send(2));
        let mut got = Vec::new();
        mailbox.collect(&mut got);
        assert_eq!(got, [1, 2]);
        send(3);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut bell = [PollFd::new(mailbox.bell(), PollFlags::IN)];
        assert_eq!(poll(&mut bell, Some(&at_once)), Ok(1), "the receiver sleeps for ever");
    }

    #[test]
    fn no_letter_is_lost_between_threads() {
        let mailbox = Mailbox::new(usize::MAX).expect("an eventfd");
        let mut got = Vec::new();
        std::thread::scope(|scope| {
            for sender in 0..4u32 {
                let mailbox = &mailbox;
                scope.spawn(move || {
                    for n in 0..1_000u32 {
                        mailbox.put(sender * 1_000 + n).expect("room");
                        mailbox.ring();
                    }
                });
            }
            while got.len() < 4_000 {
                let mut some = Vec::new();
                mailbox.take(&mut some);
                got.extend(some);
                std::thread::yield_now();
            }
        });
        got.sort_unstable();
        assert_eq!(got, (0..4_000).collect::<Vec<_>>());
    }
}

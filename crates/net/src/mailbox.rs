//! Messages between shards: bounded, and woken once.
//!
//! The sender pushes under a lock held for a few instructions and rings the bell only when it is
//! not rung yet; the receiver takes everything at once. A full mailbox gives the shard message
//! back: an answer, never a wait, but for a thread that is no shard and insists.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Time between two attempts to put a message into a full box.
const FULL: Duration = Duration::from_millis(1);

/// Mailbox of one shard.
pub struct Mailbox<L> {
    shard_messages: Mutex<Vec<L>>,
    messages_max: usize,
    rung: AtomicBool,
    bell: OwnedFd,
}

impl<L> Mailbox<L> {
    /// An empty mailbox for at most `messages_max` shard messages.
    pub fn new(messages_max: usize) -> std::io::Result<Arc<Self>> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Arc::new(Mailbox {
            shard_messages: Mutex::new(Vec::new()),
            messages_max,
            rung: AtomicBool::new(false),
            bell,
        }))
    }

    /// Puts a shard message in, or gives it back when the box is full. The receiver sleeps on until
    /// [`ring`](Self::ring).
    pub fn put(&self, shard_message: L) -> Result<(), L> {
        let mut shard_messages = self.shard_messages.lock().unwrap_or_else(PoisonError::into_inner);
        if shard_messages.len() >= self.messages_max {
            return Err(shard_message);
        }
        shard_messages.push(shard_message);
        Ok(())
    }

    /// Puts a shard message in and wakes the receiver; while the box is full, it waits. It gives up
    /// when the receiver is over.
    pub fn insist(&self, mut shard_message: L, mut is_over: impl FnMut() -> bool) {
        while let Err(back) = self.put(shard_message) {
            if is_over() {
                return;
            }
            shard_message = back;
            self.ring();
            std::thread::sleep(FULL);
        }
        self.ring();
    }

    /// Wakes the receiver, unless it has been woken since it last looked.
    pub fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            // It cannot fail: a counter of 64 bits does not overflow in the life of a machine.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    /// Takes all shard messages. The bell may be rung again before they are looked at: a sender
    /// that finds it rung has put its shard message in time.
    pub fn take(&self, into: &mut Vec<L>) {
        self.rung.store(false, Ordering::SeqCst);
        let mut shard_messages = self.shard_messages.lock().unwrap_or_else(PoisonError::into_inner);
        if into.is_empty() {
            std::mem::swap(&mut *shard_messages, into);
        } else {
            into.append(&mut shard_messages);
        }
    }

    /// File descriptor that the poller watches, by its edges: nobody reads it.
    pub fn bell(&self) -> &OwnedFd {
        &self.bell
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{Timespec, epoll};
    use std::mem::MaybeUninit;

    #[test]
    fn full_gives_the_shard_message_back() {
        let mailbox = Mailbox::new(2).expect("an eventfd");
        assert_eq!((mailbox.put(1), mailbox.put(2), mailbox.put(3)), (Ok(()), Ok(()), Err(3)));
        let mut got = Vec::new();
        mailbox.take(&mut got);
        assert_eq!(got, [1, 2]);
        assert_eq!(mailbox.put(4), Ok(()));
    }

    #[test]
    fn who_insists_gives_up_when_the_receiver_is_over_and_not_before() {
        let mailbox = Mailbox::new(1).expect("an eventfd");
        let (mut got, mut tries) = (Vec::new(), 0);
        mailbox.insist(1, || unreachable!("there is room"));
        mailbox.insist(2, || {
            tries += 1;
            tries == 3
        });
        mailbox.take(&mut got);
        assert_eq!((&got[..], tries), (&[1][..], 3));
        mailbox.insist(3, || unreachable!("there is room"));
        mailbox.insist(4, || {
            mailbox.take(&mut got);
            false
        });
        mailbox.take(&mut got);
        assert_eq!(got, [1, 3, 4]);
    }

    #[test]
    fn every_shard_message_after_a_look_wakes_once_though_nobody_reads_the_bell() {
        let mailbox = Mailbox::new(9).expect("an eventfd");
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a poller");
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&poller, mailbox.bell(), epoll::EventData::new_u64(1), flags).expect("watched");
        let woken = || {
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            let mut events = [const { MaybeUninit::uninit() }; 2];
            epoll::wait(&poller, &mut events, Some(&at_once)).expect("a look").0.len()
        };
        let mut got = Vec::new();
        for shard_message in 1..4 {
            mailbox.put(shard_message).expect("room");
            mailbox.ring();
            mailbox.ring();
            assert_eq!(woken(), 1, "the receiver sleeps for ever");
            assert_eq!(woken(), 0, "a ring wakes once");
            mailbox.take(&mut got);
        }
        assert_eq!(got, [1, 2, 3]);
    }

    #[test]
    fn no_shard_message_is_lost_between_threads() {
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

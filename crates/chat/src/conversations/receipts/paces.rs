//! Paces of read cursors: a reader's cursor of one conversation is stored once a second.
//!
//! The first request is carried out at once. Requests within a second of it wait, and are carried
//! out together with the furthest of their cursors: one of them is stored, and the others get its
//! answer. Invariant: one cursor a second is stored for a reader and a conversation, and each
//! request is answered.

use crate::conversations::changes::{Task, Wish};
use crate::sessions::Requester;
use crate::{Chat, Effects};
use base::time::{Instant, Now};
use model::counters::ChatCounter;
use model::timeline::{Seq, TimelineId};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// A reader, by its inbox, and a conversation.
type Of = (TimelineId, TimelineId);

/// Conversations whose cursors were stored a moment ago.
#[derive(Default)]
pub(crate) struct Paces {
    by: HashMap<Of, Waiting>,
    /// When the next cursor of each may be stored, in order.
    due: VecDeque<(Instant, Of)>,
    /// Requesters that get the answer to another request.
    following: HashMap<Requester, Vec<Requester>>,
    /// The number of requests that wait, for their time or for the answer to another.
    waiting: usize,
}

/// The waiting requests of a reader for a conversation.
#[derive(Default)]
struct Waiting {
    upto: Seq,
    tasks: Vec<Task>,
}

/// When a cursor is stored.
pub(crate) enum Pace {
    Now,
    /// Later, together with others.
    Later,
    /// Never: too many wait.
    Full,
}

impl Paces {
    /// Takes a request to move a cursor: further ones wait, until `due`.
    fn takes(&mut self, of: Of, most: usize, due: Instant) -> Pace {
        let is_full = self.by.len() + self.waiting >= most;
        match self.by.contains_key(&of) {
            _ if is_full => Pace::Full,
            true => Pace::Later,
            false => {
                self.by.insert(of, Waiting::default());
                self.due.push_back((due, of));
                Pace::Now
            }
        }
    }

    /// Adds a request that waits.
    pub(crate) fn put(&mut self, of: Of, (upto, task): (Seq, Task)) {
        let waiting = self.by.entry(of).or_default();
        waiting.upto = waiting.upto.max(upto);
        waiting.tasks.push(task);
        self.waiting += 1;
    }

    /// Requests to be carried out now, each with its inbox and the number of requests that it
    /// answers.
    fn over(&mut self, now: Now) -> Vec<(TimelineId, Task, u64)> {
        let mut over = Vec::new();
        while let Some((_, of)) = self.due.pop_front_if(|(due, _)| *due <= now.mono) {
            let Some(Waiting { upto, mut tasks }) = self.by.remove(&of) else { continue };
            let count = tasks.len() as u64;
            let Some(first) = tasks.pop() else { continue };
            self.waiting -= 1;
            if !tasks.is_empty() {
                let others = tasks.into_iter().map(|task| task.wait);
                self.following.entry(first.wait).or_default().extend(others);
            }
            over.push((of.0, Task { wish: Wish::Read(upto), ..first }, count));
        }
        over
    }

    /// The requesters that get the answer to this request, too.
    pub(crate) fn follow(&mut self, first: Requester) -> Vec<Requester> {
        let mut all = self.following.remove(&first).unwrap_or_default();
        self.waiting -= all.len();
        // A request that waits for this answer may have others that wait for its own.
        for at in 0..all.len() {
            let behind = self.follow(all[at]);
            all.extend(behind);
        }
        all
    }

    fn next(&self) -> Option<Instant> {
        self.due.front().map(|(due, _)| *due)
    }
}

impl Chat {
    /// Whether an account's cursor is stored now.
    pub(crate) fn pace(&mut self, now: Now, of: Of) -> Pace {
        let chat = &self.settings.limits.chat;
        let (ms, most) = (chat.read_told_ms, chat.reads_paced_max as usize);
        if ms == 0 {
            return Pace::Now;
        }
        self.receipts.paces.takes(of, most, now.after(Duration::from_millis(ms.into())))
    }

    /// Carries out requests that have waited; returns when to continue.
    pub(super) fn turn_paces(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        for (inbox, task, count) in self.receipts.paces.over(now) {
            fx.counters.count_by(ChatCounter::ReadsPaced, count);
            self.for_account(now, inbox, task, fx);
        }
        self.receipts.paces.next()
    }
}

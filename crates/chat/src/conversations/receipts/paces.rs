//! Read cursors one after the other: what is read of one conversation is told once a second.
//!
//! The first wish is done at once. Those that come within a second of it wait, and are done
//! together, as the furthest of them: one of them asks for it, and the others have its answer.
//! Invariant: of a reader and a conversation one cursor a second is stored, and each wish is
//! answered.

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

/// Conversations that were told of a moment ago.
#[derive(Default)]
pub(crate) struct Paces {
    by: HashMap<Of, Waiting>,
    /// When the next may be told of each, in order.
    due: VecDeque<(Instant, Of)>,
    /// Who has the answer of one that was handed on.
    following: HashMap<Requester, Vec<Requester>>,
    /// Wishes that wait, for their time or for another's answer.
    waiting: usize,
}

/// What waits of one of them.
#[derive(Default)]
struct Waiting {
    upto: Seq,
    tasks: Vec<Task>,
}

/// When a cursor moves.
pub(crate) enum Pace {
    Now,
    /// With others, later.
    Later,
    /// There are too many.
    Full,
}

impl Paces {
    /// Somebody wants to have read further: from now on others wait, until `due`.
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

    /// It waits.
    pub(crate) fn put(&mut self, of: Of, (upto, task): (Seq, Task)) {
        let waiting = self.by.entry(of).or_default();
        waiting.upto = waiting.upto.max(upto);
        waiting.tasks.push(task);
        self.waiting += 1;
    }

    /// What is to be done now, with the inbox that it is of, and for how many.
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

    /// Who has the answer of this one, too.
    pub(crate) fn follow(&mut self, first: Requester) -> Vec<Requester> {
        let mut all = self.following.remove(&first).unwrap_or_default();
        self.waiting -= all.len();
        // One that was handed on itself a second before has others behind it.
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
    /// Whether an account's cursor moves now.
    pub(crate) fn pace(&mut self, now: Now, of: Of) -> Pace {
        let chat = &self.settings.limits.chat;
        let (ms, most) = (chat.read_told_ms, chat.reads_paced_max as usize);
        if ms == 0 {
            return Pace::Now;
        }
        self.receipts.paces.takes(of, most, now.after(Duration::from_millis(ms.into())))
    }

    /// Does what waited; when to come back.
    pub(super) fn turn_paces(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        for (inbox, task, count) in self.receipts.paces.over(now) {
            fx.counters.count_by(ChatCounter::ReadsPaced, count);
            self.for_account(now, inbox, task, fx);
        }
        self.receipts.paces.next()
    }
}

//! Read cursors one after the other: what is read of one conversation is told once a second.
//!
//! The first wish is done at once. Those that come within a second of it wait, and are done
//! together, as the furthest of them; each is answered when that is stored. Invariant: of a reader
//! and a conversation one cursor a second is stored, and each wish is answered.

use crate::conversations::changes::{Task, Wish};
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
        let is_full = self.by.len() >= most;
        match self.by.get(&of) {
            Some(waiting) if waiting.tasks.len() >= most => Pace::Full,
            Some(_) => Pace::Later,
            None if is_full => Pace::Full,
            None => {
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
    }

    /// What is to be done now, with the inbox that it is of.
    fn over(&mut self, now: Now) -> Vec<(TimelineId, Task)> {
        let mut over = Vec::new();
        while let Some((_, of)) = self.due.pop_front_if(|(due, _)| *due <= now.mono) {
            let Some(Waiting { upto, tasks }) = self.by.remove(&of) else { continue };
            let furthest = |task| (of.0, Task { wish: Wish::Read(upto), ..task });
            over.extend(tasks.into_iter().map(furthest));
        }
        over
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
        for (inbox, task) in self.receipts.paces.over(now) {
            fx.counters.count(ChatCounter::ReadsPaced);
            self.for_account(now, inbox, task, fx);
        }
        self.receipts.paces.next()
    }
}

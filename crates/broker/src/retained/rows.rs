//! Retained messages of a shard, and those whose rows the log has not acknowledged yet.
//!
//! A message is retained in memory as soon as it arrives, so that subscribers who come meanwhile
//! get it. If the log refuses the message it is removed again, and its publisher gets an error; the
//! topic then has the last message that the log has stored, or one that it may still store.
//! Invariant: a topic is open while one of its rows is being written.

use super::{Retained, RetainedFull, encode, row_key};
use base::hash::HashKey;
use model::ports::log::{Table, Write};
use model::topic::Publication;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Retained messages with their rows.
pub(crate) struct RetainedRows {
    /// The key of homes.
    home: HashKey,
    retained: Retained,
    open: BTreeMap<Box<str>, Topic>,
    last: u64,
}

/// Retained messages of one topic: the present one, and those that may replace it.
struct Topic {
    /// Message before the first of the steps; `None`: none.
    before: Option<Arc<Publication>>,
    steps: VecDeque<Step>,
}

struct Step {
    number: u64,
    kept: Option<Arc<Publication>>,
    /// Whether the log took it; `None`: no answer yet.
    taken: Option<bool>,
}

impl Topic {
    /// The retained message as far as it is known: the last that was not refused.
    fn now(&self) -> &Option<Arc<Publication>> {
        let mut steps = self.steps.iter().rev();
        steps.find(|step| step.taken != Some(false)).map_or(&self.before, |step| &step.kept)
    }

    /// Forgets the first steps that were answered.
    fn settle(&mut self) {
        while let Some(taken) = self.steps.front().and_then(|step| step.taken) {
            let step = self.steps.pop_front();
            if taken {
                self.before = step.and_then(|step| step.kept);
            }
        }
    }
}

impl RetainedRows {
    pub fn new(home: HashKey, retained: Retained) -> RetainedRows {
        RetainedRows { home, retained, open: BTreeMap::new(), last: 0 }
    }

    /// Sets the most messages, and the most bytes.
    pub fn set_max(&mut self, count_max: u32, bytes_max: u64) {
        self.retained.set_max(count_max, bytes_max);
    }

    /// The retained messages.
    pub fn all(&self) -> &Retained {
        &self.retained
    }

    /// Retains a message; its row is to be asked for.
    pub fn set(&mut self, message: Arc<Publication>) -> Result<(), RetainedFull> {
        self.retained.set(message).map(|_| ())
    }

    /// Clears a topic; returns whether it had a message. Its row must be written.
    pub fn clear(&mut self, topic: &str) -> bool {
        self.retained.clear(topic).is_some()
    }

    /// Removes expired messages; see [`Retained::expire`].
    pub fn expire(&mut self, unix_s: u32, most: usize, gone: &mut Vec<Arc<Publication>>) -> bool {
        self.retained.expire(unix_s, most, gone)
    }

    /// The row of a topic as it is now.
    pub fn row(&self, topic: &str) -> Write {
        let (table, key) = (Table::Retained, row_key(self.home, topic));
        match self.retained.get(topic) {
            Some(message) => Write::Put { table, key, value: encode(message) },
            None => Write::Delete { table, key },
        }
    }

    /// A topic has changed, and its row is about to be asked for; `before`: what it had. The number
    /// of the step.
    pub fn asked(&mut self, topic: &str, before: Option<Arc<Publication>>) -> u64 {
        let kept = self.retained.get(topic).cloned();
        self.last += 1;
        let step = Step { number: self.last, kept, taken: None };
        match self.open.get_mut(topic) {
            Some(known) => known.steps.push_back(step),
            None => {
                let known = Topic { before, steps: VecDeque::from([step]) };
                self.open.insert(topic.into(), known);
            }
        }
        self.last
    }

    /// Notes a change of a topic that is never taken back: its row is written until the log accepts
    /// it.
    pub fn for_good(&mut self, topic: &str) {
        if let Some(known) = self.open.get_mut(topic) {
            let kept = self.retained.get(topic).cloned();
            known.steps.push_back(Step { number: 0, kept, taken: Some(true) });
        }
    }

    /// Handles the log's answer for a row. True if the topic's row must be written again, because
    /// there was no room to restore its former message.
    pub fn answered(&mut self, topic: &str, number: u64, is_taken: bool) -> bool {
        let Some(known) = self.open.get_mut(topic) else { return false };
        let step = known.steps.iter_mut().find(|step| step.number == number);
        step.into_iter().for_each(|step| step.taken = Some(is_taken));
        let kept = (!is_taken).then(|| known.now().clone());
        known.settle();
        if known.steps.is_empty() {
            self.open.remove(topic);
        }
        kept.is_some_and(|kept| self.set_back(topic, kept))
    }

    /// A topic has this, and not what it had a moment ago. True: others took its room meanwhile.
    fn set_back(&mut self, topic: &str, kept: Option<Arc<Publication>>) -> bool {
        let id = |message: &Arc<Publication>| message.id;
        if self.retained.get(topic).map(id) == kept.as_ref().map(id) {
            return false;
        }
        let Some(kept) = kept else {
            self.retained.clear(topic);
            return false;
        };
        let has_room = self.retained.set(kept).is_ok();
        if !has_room {
            self.retained.clear(topic);
        }
        !has_room
    }
}

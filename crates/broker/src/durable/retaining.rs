//! Retained messages whose rows the log has not answered yet.
//!
//! A message is retained in memory when it comes, for whoever subscribes meanwhile. What the log
//! refuses goes again: its publisher is told that it is not kept. The topic has then what the log
//! took last, or what it may still take. Invariant: a topic is here while one of its rows is asked
//! for.

use crate::Broker;
use crate::Effects;
use base::slab::Key;
use base::time::Now;
use model::event::Counter;
use model::session::Denial;
use model::topic::Publication;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A row that was asked for, and whose answer is waited for.
pub(crate) struct Retaining {
    pub topic: Box<str>,
    pub number: u64,
    pub wait: Key,
}

/// Those of a shard: no more than the log has calls.
#[derive(Default)]
pub(crate) struct Retainings {
    open: BTreeMap<Box<str>, Topic>,
    last: u64,
}

/// What one topic has been, and may be.
struct Topic {
    /// What it had before the first of the steps; `None`: nothing.
    before: Option<Arc<Publication>>,
    steps: VecDeque<Step>,
}

struct Step {
    number: u64,
    kept: Option<Arc<Publication>>,
    /// What the log said, if it has.
    taken: Option<bool>,
}

impl Topic {
    /// What is retained as far as it is known: the last that was not refused.
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

impl Broker {
    /// A topic has changed, and its row is about to be asked for; `before`: what it had. The number
    /// of the step.
    pub(crate) fn retaining(&mut self, topic: &str, before: Option<Arc<Publication>>) -> u64 {
        let kept = self.retained.get(topic).cloned();
        self.retainings.last += 1;
        let step = Step { number: self.retainings.last, kept, taken: None };
        match self.retainings.open.get_mut(topic) {
            Some(known) => known.steps.push_back(step),
            None => {
                let known = Topic { before, steps: VecDeque::from([step]) };
                self.retainings.open.insert(topic.into(), known);
            }
        }
        self.retainings.last
    }

    /// A topic has changed in a way that nobody takes back: its row is written until it is taken.
    pub(crate) fn retained_for_good(&mut self, topic: &str) {
        if let Some(known) = self.retainings.open.get_mut(topic) {
            let kept = self.retained.get(topic).cloned();
            known.steps.push_back(Step { number: 0, kept, taken: Some(true) });
        }
    }

    /// The log has answered for a row.
    pub(crate) fn retained_answered(
        &mut self,
        now: Now,
        Retaining { topic, number, wait }: Retaining,
        result: Result<(), Denial>,
        fx: &mut Effects,
    ) {
        if let Some(known) = self.retainings.open.get_mut(&topic) {
            let step = known.steps.iter_mut().find(|step| step.number == number);
            step.into_iter().for_each(|step| step.taken = Some(result.is_ok()));
            let kept = result.is_err().then(|| known.now().clone());
            known.settle();
            if known.steps.is_empty() {
                self.retainings.open.remove(&topic);
            }
            if let Some(kept) = kept {
                fx.counters.count(Counter::RetainedRefused);
                self.retain_again(&topic, kept, fx);
            }
        }
        self.arrived(now, wait, result, fx);
    }

    /// A topic has this, and not what it had a moment ago.
    fn retain_again(&mut self, topic: &str, kept: Option<Arc<Publication>>, fx: &mut Effects) {
        let id = |message: &Arc<Publication>| message.id;
        if self.retained.get(topic).map(id) == kept.as_ref().map(id) {
            return;
        }
        let Some(kept) = kept else {
            self.retained.clear(topic);
            return;
        };
        if self.retained.set(kept).is_err() {
            // Others took its room meanwhile: its row goes, too.
            self.retained.clear(topic);
            self.write_retained(topic.into(), fx);
        }
    }
}

//! A page of a timeline: first what memory knows of it, then runs and bodies.

use super::{body, runs, state_failed};
use crate::engine::Engine;
use crate::engine::index::head_in_state;
use crate::engine::index::ranges::Ranges;
use crate::engine::index::tail::Touched;
use crate::engine::record::stored::Entry;
use crate::engine::state::{State, StateError};
use crate::log::{Place, Reader};
use model::ports::log::{PAGE_MESSAGES_MAX, Page, Pull, StoreError};
use model::timeline::{Message, Placed, Seq, TimelineId};
use std::sync::Arc;

/// An entry, and its message if that is hot.
type Found = (Entry, Option<Arc<Message>>);

/// A page in the making.
pub(crate) struct PagePlan {
    state: Arc<dyn State>,
    reader: Reader,
    pull: Pull,
    /// One more than the page may have, to know whether there are more.
    wanted: usize,
    /// Runs are believed up to here; `None` if the head is not in memory and has not changed.
    base: Option<Seq>,
    runs: bool,
    gone: Ranges,
    /// In the direction of the pull.
    tail: Vec<Found>,
}

impl Engine {
    pub(crate) fn plan_page(&mut self, pull: Pull) -> PagePlan {
        let wanted = pull.count_max.min(PAGE_MESSAGES_MAX) + 1;
        let mut plan = self.plan_entries(pull, wanted);
        for (entry, message) in &mut plan.tail {
            *message = self.hot.at(entry.stored.place);
        }
        plan
    }

    /// The plan of a page of so many entries, none of whose messages is known.
    pub(crate) fn plan_entries(&self, pull: Pull, wanted: usize) -> PagePlan {
        let mut plan = PagePlan {
            state: Arc::clone(&self.index.state),
            reader: self.reader.clone(),
            pull,
            wanted,
            base: None,
            runs: true,
            gone: Ranges::default(),
            tail: Vec::new(),
        };
        let Some(slot) = self.index.heads.find(pull.timeline) else {
            return plan;
        };
        let touched = self.index.touched(slot);
        let head = self.index.heads.at(slot);
        let base = touched.map_or(head.last, |touched| touched.base);
        plan.base = Some(base);
        plan.runs = self.index.runs(slot) > 0 && (pull.backwards || pull.from < base);
        let Some(touched) = touched else { return plan };
        plan.tail = gather(touched, pull, wanted);
        plan.runs &= !(pull.backwards && plan.tail.len() == wanted);
        if plan.runs {
            plan.gone = touched.gone();
        }
        plan
    }
}

impl Engine {
    /// Where the message of an entry stands, if the entry is there.
    pub(crate) fn place_of(
        &self,
        timeline: TimelineId,
        seq: Seq,
    ) -> Result<Option<Place>, StateError> {
        let (from, count_max, bytes_max) = (seq.saturating_sub(1), 1, 0);
        let pull = Pull { timeline, from, backwards: false, count_max, bytes_max };
        let found = self.plan_entries(pull, 1).entries()?;
        let entry = found.first().map(|(entry, _)| entry).filter(|entry| entry.seq == seq);
        Ok(entry.map(|entry| entry.stored.place))
    }
}

fn gather(touched: &Touched, pull: Pull, wanted: usize) -> Vec<Found> {
    let found = |entry: &Entry| (entry.clone(), None);
    if pull.backwards {
        touched.tail_before(pull.from).take(wanted).map(found).collect()
    } else {
        touched.tail_after(pull.from).take(wanted).map(found).collect()
    }
}

impl PagePlan {
    /// Whether memory knows it all.
    pub(crate) fn is_ready(&self) -> bool {
        !self.runs && self.tail.iter().all(|(_, message)| message.is_some())
    }

    pub(crate) fn state(&self) -> Arc<dyn State> {
        Arc::clone(&self.state)
    }

    pub(crate) fn finish(self) -> Result<Page, StoreError> {
        let (state, reader, pull) = (Arc::clone(&self.state), self.reader.clone(), self.pull);
        let count_max = self.wanted - 1;
        let found = self.entries().map_err(|error| state_failed(&error))?;
        let messages = Vec::with_capacity(found.len());
        // Where one of so many has left meanwhile, there may be others behind the last.
        let more = found.len() > count_max;
        let mut page = Page { messages, damaged: Vec::new(), more };
        let mut bytes = 0;
        for (entry, message) in found {
            bytes += entry.stored.body as usize;
            let too_much = bytes > pull.bytes_max && !page.messages.is_empty();
            if page.messages.len() + page.damaged.len() == count_max || too_much {
                page.more = true;
                break;
            }
            let message = match message {
                Some(message) => Ok(Some(message)),
                None => body::message_of(&reader, &*state, pull.timeline, &entry),
            };
            match message {
                Ok(Some(message)) => page.messages.push(Placed { seq: entry.seq, message }),
                Ok(None) => bytes -= entry.stored.body as usize,
                Err(StoreError::Damaged) => page.damaged.push(entry.seq),
                Err(error) => return Err(error),
            }
        }
        Ok(page)
    }

    /// The entries, in the direction of the pull, as many as were wanted.
    pub(crate) fn entries(self) -> Result<Vec<Found>, StateError> {
        let PagePlan { state, pull, wanted, base, runs, gone, tail, .. } = self;
        if !runs {
            return Ok(tail);
        }
        let base = match base {
            Some(base) => base,
            // Read before the runs: what is told later is not in this page.
            None => match head_in_state(&*state, pull.timeline)? {
                Some((row, _)) => row.last,
                None => return Ok(tail),
            },
        };
        let mut older = Vec::new();
        let room = if pull.backwards { wanted - tail.len() } else { wanted };
        let mut each = |entry: Entry| {
            if !gone.has(entry.seq) {
                older.push((entry, None));
            }
            older.len() < room
        };
        if pull.backwards {
            let before = pull.from.min(base.saturating_add(1));
            runs::backwards(&*state, pull.timeline, before, &mut each)?;
            return Ok(tail.into_iter().chain(older).collect());
        }
        runs::forwards(&*state, pull.timeline, (pull.from, base), &mut each)?;
        let room = wanted - older.len();
        older.extend(tail.into_iter().take(room));
        Ok(older)
    }
}

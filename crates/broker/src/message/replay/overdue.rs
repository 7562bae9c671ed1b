//! Pages of other shards that do not come.
//!
//! A replay waits for one page at a time. A repeated request has a new number, so a page that comes
//! late means nothing.

use super::{LOOKS_MAX, Stage};
use crate::{Broker, Effects};
use base::slab::Key;
use base::time::{Instant, Now};
use model::counters::TopicCounter;

impl Broker {
    /// Asks once more for pages that did not come; what was asked for before means nothing then.
    pub(crate) fn turn_pages(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        if self.replays.asked.is_empty() {
            self.replays.rounds.rest();
            return None;
        }
        let ms_max = self.settings.limits.answer_ms_max;
        if let Some(ends) = self.replays.rounds.ends(now, ms_max) {
            return Some(ends);
        }
        let is_over = |(_, (_, stamp)): &(&Key, &(u32, u32))| self.replays.rounds.is_over(*stamp);
        let over = self.replays.asked.iter().filter(is_over);
        let over: Vec<(Key, u32)> = over.map(|(key, (page, _))| (*key, *page)).collect();
        for (key, page) in over {
            self.replays.asked.remove(&key);
            let replays = self.sessions.more_mut(key).map(|more| &mut more.replays);
            fx.counters.count(TopicCounter::PagesOverdue);
            if let Some(replay) = replays.and_then(|replays| replays.page_is_here(page)) {
                replay.stage = Stage::Ready;
            }
            self.replay_on(now, key, LOOKS_MAX, fx);
        }
        Some(self.replays.rounds.next(now, ms_max))
    }
}

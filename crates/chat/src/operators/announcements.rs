//! What who runs the server says to all who are here (XEP-0133 4.23).
//!
//! ```text
//! Announce ─► line ─► the first of it: a slice of the sessions, a pause, the next slice
//! ```
//! It is kept nowhere: who is not here hears nothing of it, and neither do devices of protocols
//! that have no word for it. Who comes while it is said may hear it or not. Invariant: no more wait
//! than the limit says; a slice is no longer than its own.

use crate::{Chat, Effects};
use base::time::{Instant, Now};
use model::chat::ChatDelivery;
use model::ports::chat::ChatAnswer;
use model::ports::users::Announcement;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Announcements that a shard has to say. One more is answered as busy.
const WAITING_MAX: usize = 4;

/// Places of sessions that are gone through at once, and the pause behind them: a shard of 50,000
/// is told in ten seconds.
const SLICE: u32 = 256;
const PAUSE: Duration = Duration::from_millis(50);

/// What is to be said.
#[derive(Default)]
pub(crate) struct Announcements {
    waiting: VecDeque<Arc<Announcement>>,
    /// Up to which place the first of them was.
    at: u32,
    next: Option<Instant>,
}

impl Chat {
    /// Something is to be said to all who are here.
    pub(super) fn announce(&mut self, ask: u64, announcement: Arc<Announcement>, fx: &mut Effects) {
        let is_full = self.announcements.waiting.len() >= WAITING_MAX;
        let answer = if is_full { ChatAnswer::Busy } else { ChatAnswer::Announcing };
        if !is_full {
            self.announcements.waiting.push_back(announcement);
        }
        fx.answers.push((ask, answer));
    }

    /// Tells the next slice; when to come back.
    pub(crate) fn turn_announcements(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let first = self.announcements.waiting.front()?.clone();
        if let Some(next) = self.announcements.next.filter(|next| *next > now.mono) {
            return Some(next);
        }
        let slots = self.sessions.slab.slots();
        let from = self.announcements.at;
        let to = from.saturating_add(SLICE).min(slots);
        for slot in from..to {
            let Some((key, session)) = self.sessions.slab.tenant(slot) else { continue };
            if session.binds && self.people.is_present(session.inbox, key, 0) {
                fx.deliveries.push((session.conn, ChatDelivery::Announcement(first.clone())));
            }
        }
        self.announcements.at = to;
        if to >= slots {
            self.announcements.waiting.pop_front();
            self.announcements.at = 0;
        }
        self.announcements.next = Some(now.after(PAUSE));
        self.announcements.next.filter(|_| !self.announcements.waiting.is_empty())
    }
}

//! Announcements: messages of the operator to all connected sessions (XEP-0133 4.23).
//!
//! ```text
//! Announce ─► queue ─► the first announcement: a slice of the sessions, a pause, the next slice
//! ```
//! An announcement is not stored: offline accounts do not get it, and neither do devices of
//! protocols without a message for it. A session that begins during an announcement may get it or
//! not. Invariants: the queue holds at most `WAITING_MAX` announcements; a slice has at most
//! `SLICE` sessions.

use crate::{Chat, Effects};
use base::time::{Instant, Now};
use model::chat::ChatDelivery;
use model::ports::chat::ChatAnswer;
use model::ports::users::Announcement;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Announcements that a shard queues. A further one is answered as busy.
const WAITING_MAX: usize = 4;

/// Session slots that are visited in one slice, and the pause after each slice: an announcement
/// reaches a shard of 50,000 sessions in ten seconds.
const SLICE: u32 = 256;
const PAUSE: Duration = Duration::from_millis(50);

/// The announcements of a shard that are queued or being sent.
#[derive(Default)]
pub(crate) struct Announcements {
    waiting: VecDeque<Arc<Announcement>>,
    /// The session slot up to which the first announcement has been sent.
    at: u32,
    next: Option<Instant>,
}

impl Chat {
    /// Queues an announcement to all connected sessions.
    pub(super) fn announce(&mut self, ask: u64, announcement: Arc<Announcement>, fx: &mut Effects) {
        let is_full = self.announcements.waiting.len() >= WAITING_MAX;
        let answer = if is_full { ChatAnswer::Busy } else { ChatAnswer::Announcing };
        if !is_full {
            self.announcements.waiting.push_back(announcement);
        }
        fx.answers.push((ask, answer));
    }

    /// Sends the first announcement to the next slice; returns when to be called again.
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

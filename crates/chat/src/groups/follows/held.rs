//! Held requests: while an account draws, requests about its inbox wait, so that a page that
//! reaches the end has the messages of groups, and a list counts them.
//!
//! Pulls, lists of conversations and searches are held. They go on when all is drawn, or as much as
//! may be before a device has come further, or when drawing is not possible now. For the beginning
//! of a list more is drawn once: after a long absence a device sees the last message of each group.
//! Invariant: no request is held for a follower that waits for nothing.

use super::{Follower, Step};
use crate::{Chat, Effects};
use base::time::Now;
use model::chat::ChatRequest;
use model::id::{ConnRef, SessionRef};
use model::timeline::Seq;

/// Maximum of requests held, per account. A further one is answered with what the inbox has.
const HELD_MAX: usize = 256;

/// A request that is held, with its session.
pub(super) type Held = (SessionRef, ChatRequest);

impl Follower {
    /// Whether the inbox may have less than it will have in a moment.
    fn is_drawing(&self, may_draw: bool) -> bool {
        let may_draw = may_draw || self.list_room > 0;
        !self.has_drawn() && (may_draw || !self.is_loaded || self.step != Step::Idle)
    }

    /// Grants up to `most` more messages to be drawn for a list, once until all is drawn. Returns
    /// whether they were granted.
    fn makes_list_room(&mut self, most: u32) -> bool {
        let is_new = !self.had_list_room && !self.has_drawn();
        if is_new {
            (self.list_room, self.had_list_room) = (most, true);
        }
        is_new
    }
}

impl Chat {
    /// Holds a request about an inbox into which messages are being drawn. Returns any other
    /// request.
    pub(crate) fn holds(&mut self, from: ConnRef, request: ChatRequest) -> Option<ChatRequest> {
        let session = match &request {
            ChatRequest::Pull { session, .. }
            | ChatRequest::Conversations { session, .. }
            | ChatRequest::Conversation { session, .. }
            | ChatRequest::Search { session, .. } => *session,
            _ => return Some(request),
        };
        let key = self.sessions.bound(from, session).filter(|_| !self.is_errand(from));
        let Some(inbox) = key.and_then(|key| self.sessions.slab.at(key)).map(|it| it.inbox) else {
            return Some(request);
        };
        let may_draw = self.may_draw(inbox);
        let most = self.settings.limits.chat.drawn_for_list_max;
        let is_lists = matches!(request, ChatRequest::Conversations { before: Seq::MAX, .. });
        let Some(follower) = self.follows.followers.get_mut(&inbox) else { return Some(request) };
        if is_lists && follower.makes_list_room(most) {
            self.follows.due.push(inbox);
        }
        if !follower.is_drawing(may_draw) || follower.held.len() >= HELD_MAX {
            return Some(request);
        }
        follower.held.push((session, request));
        None
    }

    /// Answers the requests that were let go, over the present connections of their sessions.
    pub(super) fn answer_held(&mut self, now: Now, fx: &mut Effects) {
        for (session, request) in std::mem::take(&mut self.follows.let_go) {
            if let Some(conn) = self.sessions.slab.at(session.key()).map(|it| it.conn) {
                self.asks(now, conn, request, fx);
            }
        }
    }
}

//! What is asked of an account's inbox while it draws is held until it has: a page that reaches the
//! end has what was said in groups, and a list counts it.
//!
//! Held are pulls, lists of conversations and searches. They are let go when all is drawn, or as
//! much as may be before a device has come further, or when it cannot be now. For the beginning of
//! a list more is drawn once: whoever comes after a long absence sees the last message of each
//! group. Invariant: nothing is held for a follower that waits for nothing.

use super::{Follower, Step};
use crate::{Chat, Effects};
use base::time::Now;
use model::chat::ChatRequest;
use model::id::{ConnRef, SessionRef};
use model::timeline::Seq;

/// Requests that are held, an account. One more is answered by what its inbox has.
const HELD_MAX: usize = 256;

/// What a device has asked for.
pub(super) type Held = (SessionRef, ChatRequest);

impl Follower {
    /// Whether what its inbox has may be less than what it will have in a moment.
    fn is_drawing(&self, may_draw: bool) -> bool {
        let may_draw = may_draw || self.list_room > 0;
        !self.has_drawn() && (may_draw || !self.is_loaded || self.step != Step::Idle)
    }

    /// So many more messages may be drawn for a list, once until all is drawn. Whether they may.
    fn makes_list_room(&mut self, most: u32) -> bool {
        let is_new = !self.had_list_room && !self.has_drawn();
        if is_new {
            (self.list_room, self.had_list_room) = (most, true);
        }
        is_new
    }
}

impl Chat {
    /// A request is held, if it is asked of an inbox that is being drawn into. Else it is given
    /// back.
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

    /// Those that were let go are answered, over whatever connection their sessions have now.
    pub(super) fn answer_held(&mut self, now: Now, fx: &mut Effects) {
        for (session, request) in std::mem::take(&mut self.follows.let_go) {
            if let Some(conn) = self.sessions.slab.at(session.key()).map(|it| it.conn) {
                self.asks(now, conn, request, fx);
            }
        }
    }
}

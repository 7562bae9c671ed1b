//! Quotes: a message that quotes another one of its conversation, which is read first.
//!
//! ```text
//! Send ─► the quoted message, or its overlay ─► exists, may be quoted? ─► stored, delivered
//! ```
//! A retry names the same quoted message, so it is stored once. A recalled message may be quoted:
//! none of its text is shown. Invariant: place, number, name and sender in a stored quote are those
//! of a message of the conversation; the quoted text is stored nowhere.

use super::judge::Verdict;
use super::overlays::Overlay;
use super::{AmendOrder, Amendment};
use crate::conversations::lists::excerpt_of;
use crate::word::{ReplyTo, SendOrder};
use crate::{Chat, Effects, envelope};
use model::chat::{ChatFault, ChatMessage, Content, Quote, TargetMessage};

impl Chat {
    /// Reads the message that is quoted by one to be stored here, before that is stored as an
    /// amendment. False: the message quotes none.
    pub(crate) fn looks_at_quoted(
        &mut self,
        to: ReplyTo,
        order: &SendOrder,
        fx: &mut Effects,
    ) -> bool {
        let Some(said) = envelope::decode(0, 0, &order.body) else { return false };
        let Some(seq) = said.content.quote.as_ref().map(|quote| quote.target.seq) else {
            return false;
        };
        let SendOrder { route, once, is_operator, .. } = *order;
        let what = Amendment::Quotes(Box::new(said), once);
        self.amend_here(to, Box::new(AmendOrder { route, is_operator, seq, what }), fx);
        true
    }
}

/// Whether a message may quote one with this current state.
pub(super) fn judge(said: &ChatMessage, now_is: Overlay) -> Result<Verdict, ChatFault> {
    let is_it = said.content.quote.as_ref().is_some_and(|it| it.target.id == now_is.message.id);
    let content = &now_is.message.content;
    // Messages that only tell of other messages, or of the group, cannot be quoted.
    let says = now_is.is_tombstone() || !(content.is_reserved() || content.is_amendment());
    if is_it && says { Ok(Verdict::Is(now_is)) } else { Err(ChatFault::UnknownMessage) }
}

/// The content to store of a message that quotes this one, and the content to deliver now, with an
/// excerpt of the quoted text.
pub(super) fn told(said: &Content, target: &TargetMessage, of: &ChatMessage) -> (Content, Content) {
    let with_text = |text: Box<str>| {
        let (target, from) = (target.clone(), Some(of.from.clone()));
        let quote = Some(Box::new(Quote { target, from, text }));
        Content { quote, ..said.clone() }
    };
    (with_text("".into()), with_text(excerpt_of(of).text))
}

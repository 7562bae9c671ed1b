//! Quotes: what is said quotes another message of its conversation, which is looked at first.
//!
//! ```text
//! Send ─► the overlay of what it quotes, or that ─► there, and to be read? ─► stored, told
//! ```
//! Whoever sends the message again says the same of what it quotes, so it is stored once. What was
//! called back may be quoted: nothing of it is told. Invariant: of a quote that is stored place,
//! number, name and sender are those of a message of the conversation; its text is stored nowhere.

use super::judge::Verdict;
use super::overlays::Overlay;
use super::{AmendOrder, Amendment};
use crate::conversations::lists::excerpt_of;
use crate::word::{ReplyTo, SendOrder};
use crate::{Chat, Effects, envelope};
use model::chat::{ChatFault, ChatMessage, Content, Quote, TargetMessage};

impl Chat {
    /// Something is said, to be stored here, that may quote a message: that is looked at, and then
    /// it comes back. False: it quotes none.
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

/// Whether a message may be quoted that is this now.
pub(super) fn judge(said: &ChatMessage, now_is: Overlay) -> Result<Verdict, ChatFault> {
    let is_it = said.content.quote.as_ref().is_some_and(|it| it.target.id == now_is.message.id);
    let content = &now_is.message.content;
    // What only tells of other messages, or of the group, is nobody's word.
    let says = now_is.is_tombstone() || !(content.is_reserved() || content.is_amendment());
    if is_it && says { Ok(Verdict::Is(now_is)) } else { Err(ChatFault::UnknownMessage) }
}

/// What is stored of a message that quotes this one, and what is told of it now.
pub(super) fn told(said: &Content, target: &TargetMessage, of: &ChatMessage) -> (Content, Content) {
    let with_text = |text: Box<str>| {
        let (target, from) = (target.clone(), Some(of.from.clone()));
        let quote = Some(Box::new(Quote { target, from, text }));
        Content { quote, ..said.clone() }
    };
    (with_text("".into()), with_text(excerpt_of(of).text))
}

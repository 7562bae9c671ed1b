//! The judgement of an amendment: whether a message may be amended, and its state afterwards. Pure.
//!
//! Invariant: a recalled message is not amended any more; no account edits or recalls the message
//! of another, but operators and moderators act in the sender's name.

use super::overlays::{Moment, Overlay};
use super::{AmendOrder, Amendment, quotes};
use base::time::Now;
use model::chat::{Amended, ChatFault, ChatMessage, Content, Moderated, TargetMessage, emoji_of};
use model::limits::ChatLimits;

/// The verdict on an amendment: the state of the message afterwards.
pub(super) enum Verdict {
    /// The message has this state and keeps it: it was amended so before, or is quoted.
    Is(Overlay),
    /// The message gets this state.
    Becomes(Overlay),
}

impl Verdict {
    /// The verdict for a message that was amended so before. If the message is still in its
    /// conversation, an earlier build was killed between its two writes: the message is taken out
    /// now.
    fn was_before(now_is: Overlay, is_there: bool) -> Verdict {
        if is_there { Verdict::Becomes(now_is) } else { Verdict::Is(now_is) }
    }
}

/// The verdict for a message that has this state, and is in its conversation or not.
pub(super) fn judge(
    (now, at): (Now, Moment),
    limits: &ChatLimits,
    order: &AmendOrder,
    (now_is, is_there): (Overlay, bool),
) -> Result<Verdict, ChatFault> {
    let AmendOrder { route, what, .. } = order;
    let age_ms = now.wall_ms.saturating_sub(now_is.message.at_ms);
    let is_own = now_is.from == route.from;
    let (said, once) = match what {
        Amendment::Said(said, once) => (said, once),
        Amendment::Quotes(said, _) => return quotes::judge(said, now_is),
        Amendment::Recall { reason, moderator } => {
            let by = moderator.clone().map(|by| {
                let (at_ms, reason) = (now.wall_ms, reason.clone());
                Moderated { by, at_ms, reason }
            });
            let whose = (is_own, order.is_operator);
            return judge_recall((age_ms, at, by), limits, whose, (now_is, is_there));
        }
    };
    if now_is.is_tombstone() || !is_about(&said.content, &now_is.message) {
        return Err(ChatFault::UnknownMessage);
    }
    if now_is.has(*once) {
        return Ok(Verdict::was_before(now_is, is_there));
    }
    let content = &now_is.message.content;
    let most = limits.amended_bytes_max as usize;
    let is_large = |it: &Content| it.text.len() + it.beside_bytes() > most;
    if content.is_reserved() || content.is_amendment() {
        return Err(ChatFault::Forbidden);
    }
    if is_large(content) || is_large(&said.content) {
        return Err(ChatFault::TooLarge);
    }
    let mut amended = now_is.message.amended.as_deref().cloned().unwrap_or_default();
    if said.content.kind == Content::REACTION {
        let emoji = emoji_of(&said.content.text, limits.emoji_a_person_max);
        let emoji = emoji.ok_or(ChatFault::Invalid)?;
        let reactors = usize::from(limits.reactors_a_message_max);
        if !amended.reacts(&said.from, &emoji, reactors) {
            return Err(ChatFault::TooLarge);
        }
        let content = content.clone();
        return Ok(Verdict::Becomes(now_is.amended(at, *once, content, amended)));
    }
    let edited = edited(&said.content, &now_is)?;
    if !is_own {
        return Err(ChatFault::Forbidden);
    }
    if age_ms > u64::from(limits.edit_s_max) * 1_000 {
        return Err(ChatFault::TooLate);
    }
    let amended = Amended { edited_ms: now.wall_ms, ..amended };
    Ok(Verdict::Becomes(now_is.amended(at, *once, edited, amended)))
}

fn judge_recall(
    (age_ms, at, by): (u64, Moment, Option<Moderated>),
    limits: &ChatLimits,
    (is_own, is_operator): (bool, bool),
    (now_is, is_there): (Overlay, bool),
) -> Result<Verdict, ChatFault> {
    let content = &now_is.message.content;
    let is_over = age_ms > u64::from(limits.recall_s_max) * 1_000;
    match now_is.is_tombstone() {
        _ if !is_own => Err(ChatFault::Forbidden),
        // The log may have forgotten the recall's once key: the recall is not stored again.
        true if is_over => Err(ChatFault::Unchanged),
        true => Ok(Verdict::was_before(now_is, is_there)),
        false if content.is_reserved() => Err(ChatFault::Forbidden),
        // Only an operator may recall amendments: the erasure of an account removes them, too.
        false if content.is_amendment() && !is_operator => Err(ChatFault::Forbidden),
        false if is_over && !is_operator => Err(ChatFault::TooLate),
        false => Ok(Verdict::Becomes(now_is.buried(at.number, by.as_ref()))),
    }
}

/// Whether an amendment is of this message, by its number.
fn is_about(said: &Content, message: &ChatMessage) -> bool {
    said.target().is_some_and(|target| target.id == message.id)
}

/// The content of a message after its text was edited.
fn edited(said: &Content, now_is: &Overlay) -> Result<Content, ChatFault> {
    let before = &now_is.message.content;
    let is_text = matches!(before.kind, Content::TEXT | Content::STANZA);
    if !is_text || said.text.is_empty() {
        return Err(ChatFault::Invalid);
    }
    let beside = TargetMessage::read(&said.extra).map_or(&[][..], |(_, beside)| beside);
    let content = match (before.kind, beside) {
        (Content::TEXT, []) => Content::text(&said.text),
        // The message keeps its name in XMPP.
        (_, []) => Content::named_text(&said.text, &now_is.name),
        (_, stanza) => {
            let (kind, extra) = (Content::STANZA, stanza.into());
            Content { kind, extra, ..Content::text(&said.text) }
        }
    };
    let (quote, mentions) = (before.quote.clone(), before.mentions.clone());
    // It was said under that name in the room.
    let nick = before.nick.clone();
    Ok(Content { counts: before.counts, quote, mentions, nick, ..content })
}

/// The content to store of a message that edits or reacts, and the content to deliver now: an
/// edited text is stored with its message alone. A retry delivers the present state of the message,
/// with later amendments.
pub(super) fn told(
    said: &ChatMessage,
    target: &TargetMessage,
    now_is: &ChatMessage,
) -> (Content, Content) {
    let (kind, extra) = (said.content.kind, target.extra(b""));
    // An edit comes from whom the message came from (XEP-0308 4), a reaction from who reacts.
    let is_edit = kind != Content::REACTION;
    let nick = if is_edit { &now_is.content.nick } else { &said.content.nick }.clone();
    let stored = Content { kind, extra, nick, ..Content::default() };
    if kind == Content::REACTION {
        let reactions = now_is.amended.iter().flat_map(|it| &it.reactions);
        let present = reactions.into_iter().find(|it| it.by == said.from);
        let text = present.map_or_else(Box::default, |it| it.emoji.clone());
        let stored = Content { text, ..stored };
        return (stored.clone(), stored);
    }
    let Content { text, extra: beside, .. } = &now_is.content;
    let is_stanza = now_is.content.kind == Content::STANZA;
    let beside = if is_stanza { &**beside } else { &[][..] };
    let live = Content { text: text.clone(), extra: target.extra(beside), ..stored.clone() };
    (stored, live)
}

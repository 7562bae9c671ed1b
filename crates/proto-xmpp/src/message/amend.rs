//! Amendments of messages, in XMPP's words: corrections (XEP-0308), reactions (XEP-0444),
//! retractions (XEP-0424).
//!
//! Each names a message: by the id that its sender gave it, in a room by the room's for it
//! (XEP-0359). The model has the same by place and number. Invariant: what names nothing is none of
//! these.

use super::others;
use crate::archive::id_text;
use crate::render::{self, HINTS, KeptStanza, room};
use crate::stanza::timestamp;
use crate::xml::scan::{CLIENT, Element, Scan};
use crate::xml::text::{self, escaped};
use model::account::AccountAddress;
use model::chat::{
    ArchiveId, ChatMessage, Content, EMOJI_HARD_MAX, Moderated, Recall, TargetMessage,
};

/// The namespace of corrections (XEP-0308 5).
const CORRECT: &str = "urn:xmpp:message-correct:0";
/// The namespace of reactions (XEP-0444 7).
const REACTIONS: &str = "urn:xmpp:reactions:0";
/// The namespace of retractions (XEP-0424 6).
pub const RETRACT: &str = "urn:xmpp:message-retract:1";
/// The namespace of moderation (XEP-0425 5).
pub const MODERATE: &str = "urn:xmpp:message-moderate:1";
/// The namespace of fallbacks (XEP-0428 4).
pub(super) const FALLBACK: &str = "urn:xmpp:fallback:0";

/// Text for clients that do not know retractions (XEP-0424 3.1).
const CALLED_BACK: &str = "(A message was called back.)";

/// Amendment of another message by a stanza.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AmendmentStanza {
    /// The other one's id.
    pub name: String,
    /// Kind of the amendment.
    pub verb: AmendmentVerb,
}

/// Kind of an amendment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AmendmentVerb {
    /// The message has a new text.
    Corrected,
    /// Reacts with these emoji, separated by blanks.
    Reacts(String),
    /// The message is retracted.
    Retracted,
}

/// The amendment in a `message`; `None`: it has none.
pub fn said(message: &Element<'_, '_>) -> Option<AmendmentStanza> {
    let named = |name: &str, namespace: &str| {
        let child = message.child(name, namespace)?;
        // As it stands in what is kept.
        let id = child.attributes().find(|(name, _)| *name == "id")?.1;
        Some(id.replace('"', "&quot;")).filter(|id| !id.is_empty())
    };
    let (name, verb) = if let Some(name) = named("replace", CORRECT) {
        let body = render::text_of(message).filter(|body| !body.text().is_empty());
        body.is_some().then_some((name, AmendmentVerb::Corrected))?
    } else if let Some(name) = named("reactions", REACTIONS) {
        let reactions = message.child("reactions", REACTIONS)?;
        let all = reactions.children().filter(|it| it.is("reaction", REACTIONS));
        let all: Vec<String> =
            all.map(|it| it.text().trim().to_owned()).take(EMOJI_HARD_MAX.into()).collect();
        (name, AmendmentVerb::Reacts(all.join(" ")))
    } else {
        (named("retract", RETRACT)?, AmendmentVerb::Retracted)
    };
    Some(AmendmentStanza { name, verb })
}

/// The content that corrects a message: what came beside the text goes along, by the message's own
/// name.
pub fn correction(message: &Element<'_, '_>, target: &TargetMessage, name: &str) -> Content {
    let is_beside =
        |child: &Element<'_, '_>| !child.is("replace", CORRECT) && !others::is_said(child);
    let content = render::stanza_with(message, Some(name), is_beside);
    let has_more = KeptStanza::of(&content).is_more();
    let beside = if has_more { &*content.extra } else { &[][..] };
    let extra = target.extra(beside);
    Content { kind: Content::EDIT, text: content.text, extra, ..Content::default() }
}

/// The content by which somebody reacts to a message.
pub fn reaction(emoji: &str, target: &TargetMessage) -> Content {
    Content { kind: Content::REACTION, extra: target.extra(b""), ..Content::text(emoji) }
}

/// Whether a message is about another one.
pub fn is_one(content: &Content) -> bool {
    content.is_amendment() || content.kind == Content::RECALL
}

/// Appends what stands in the stanza of a message that is about another one. False: nothing that
/// XMPP can show.
pub fn put(message: &ChatMessage, out: &mut Vec<u8>) -> bool {
    let Content { kind, text, extra, .. } = &message.content;
    let Some((target, beside)) = TargetMessage::read(extra) else { return false };
    let id = match message.to.is_group() {
        true => room_id(message, &target, &message.to),
        false => text::attribute_as_written(&target.name),
    };
    if id.is_empty() {
        return false;
    }
    match *kind {
        Content::EDIT if !text.is_empty() => {
            let kept = Scan::element(beside).ok();
            render::put_body(text, kept.as_ref().map(Scan::root), out);
            // By its sender's own id, in rooms too (XEP-0308 3).
            let name = text::attribute_as_written(&target.name);
            out.extend_from_slice(format!("<replace xmlns='{CORRECT}' id='{name}'/>").as_bytes());
            kept.iter().for_each(|kept| put_beside(kept, out));
            true
        }
        Content::REACTION => {
            let head = format!("<reactions xmlns='{REACTIONS}' id='{id}'>");
            out.extend_from_slice(head.as_bytes());
            for emoji in text.split(' ').filter(|emoji| !emoji.is_empty()) {
                out.extend_from_slice(b"<reaction>");
                text::put(emoji, out);
                out.extend_from_slice(b"</reaction>");
            }
            out.extend_from_slice(format!("</reactions><store xmlns='{HINTS}'/>").as_bytes());
            true
        }
        Content::RECALL if Recall::of(&message.content).is_some() => {
            render::put_body(CALLED_BACK, None, out);
            let retract = match Moderated::of(&message.content) {
                None => format!("<retract xmlns='{RETRACT}' id='{id}'/>"),
                Some(by) => {
                    let by = moderated(&message.to, &by);
                    format!("<retract xmlns='{RETRACT}' id='{id}'>{by}</retract>")
                }
            };
            let told = format!(
                "{retract}<fallback xmlns='{FALLBACK}' for='{RETRACT}'/><store xmlns='{HINTS}'/>"
            );
            out.extend_from_slice(told.as_bytes());
            true
        }
        _ => false,
    }
}

/// XML of a moderation of a message in a room: by whom, and why (XEP-0425 4).
fn moderated(room: &AccountAddress, Moderated { by, reason, .. }: &Moderated) -> String {
    let (nick, occupant) = (model::chat::nick_of(room, by), room::occupant_id(by));
    let by = escaped(&format!("{room}/{nick}"));
    let reason = room::reason(reason);
    format!("<moderated xmlns='{MODERATE}' by='{by}'>{occupant}</moderated>{reason}")
}

/// The tombstone of a moderated message in the archive of a room (XEP-0425 5); `None` for a message
/// that its author retracted.
pub fn tombstone(message: &ChatMessage) -> Option<String> {
    let by = Moderated::of(&message.content).filter(|_| !is_one(&message.content))?;
    let (stamp, by) = (timestamp(by.at_ms), moderated(&message.to, &by));
    Some(format!("<retracted xmlns='{RETRACT}' stamp='{stamp}'>{by}</retracted>"))
}

/// The room's id for the target of a message.
pub(super) fn room_id(
    message: &ChatMessage,
    target: &TargetMessage,
    room: &AccountAddress,
) -> String {
    id_text(ArchiveId::at((target.id, target.seq), &message.from, room))
}

/// Writes the elements beside the text that mean the same without their own stanza, whose prefixes
/// are not declared here.
fn put_beside(kept: &Scan<'_>, out: &mut Vec<u8>) {
    for child in kept.root().children() {
        let is_shown = !child.is("body", CLIENT) || render::is_translation(&child);
        if is_shown && !render::is_forged(&child) && Scan::alone(child.whole()).is_ok() {
            out.extend_from_slice(child.whole().as_bytes());
        }
    }
}

#[cfg(test)]
mod tests;

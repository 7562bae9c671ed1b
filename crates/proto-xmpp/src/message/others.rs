//! References of a message to others beside its text, in XMPP's words: replies (XEP-0461), with
//! fallback text for clients that do not know them (XEP-0428), and mentions (XEP-0372).
//!
//! A reply names a message by its id, as a correction does; a mention names a person by address or,
//! in a room, by name, and the room itself for everybody in it. Where in the text a person is
//! mentioned is not kept. Invariant: what is read here stands nowhere else in the content, and what
//! is written for clients that know no replies is taken off again when it comes back.

use super::amend::{FALLBACK, room_id};
use crate::jid::{self, Jid};
use crate::stanza::put_attribute;
use crate::xml::scan::Element;
use crate::xml::text;
use model::account::{AccountAddress, Addressee};
use model::chat::{ChatMessage, Content, GROUP_SERVICE, MENTIONS_HARD_MAX, Mentions, Quote};
use model::media::FileNote;
use std::borrow::Cow;

/// The namespace of replies (XEP-0461 6).
const REPLY: &str = "urn:xmpp:reply:0";
/// The namespace of references (XEP-0372 6).
const REFERENCES: &str = "urn:xmpp:reference:0";

/// The id of the message that a `message` replies to, as it stands in what is kept.
pub fn reply_of(message: &Element<'_, '_>) -> Option<String> {
    let reply = message.child("reply", REPLY)?;
    let id = reply.attributes().find(|(name, _)| *name == "id")?.1;
    Some(id.replace('"', "&quot;")).filter(|id| !id.is_empty())
}

/// Whether a child of a `message` says something of others that a content has words for.
pub fn is_said(child: &Element<'_, '_>) -> bool {
    match child.name() {
        "reply" => child.namespace() == REPLY,
        "fallback" => is_of_reply(child),
        "reference" => mentioned(child).is_some(),
        _ => false,
    }
}

/// Mentions of a `message`, as many as any content may have.
pub fn mentions_of(message: &Element<'_, '_>) -> Option<Box<Mentions>> {
    let (mut accounts, mut everybody) = (Vec::new(), false);
    let most = usize::from(MENTIONS_HARD_MAX) + 1;
    for mention in message.children().filter_map(|child| mentioned(&child)).take(most) {
        match mention {
            Mentioned::Account(account) => accounts.push(account.into()),
            Mentioned::Everybody => everybody = true,
        }
    }
    Mentions::of(accounts, everybody)
}

/// The text of a `message` without what stands there for clients that know no replies.
pub fn spoken(message: &Element<'_, '_>, text: String) -> String {
    if reply_of(message).is_none() {
        return text;
    }
    let fallback = message.children().find(is_of_reply);
    let body = fallback.as_ref().and_then(|it| it.child("body", FALLBACK));
    let place = |name: &str| {
        let at: usize = body.as_ref()?.attribute(name)?.parse().ok()?;
        // Places are between code points (XEP-0428 3.1).
        let all = text.char_indices().map(|(at, _)| at).chain([text.len()]);
        all.take(at.checked_add(1)?).nth(at)
    };
    match (place("start"), place("end")) {
        (Some(start), Some(end)) if start < end => [&text[..start], &text[end..]].concat(),
        _ => text,
    }
}

/// Text before that of a reply, for clients that know no replies, if the quoted text is known.
fn lead(content: &Content) -> String {
    let quote = content.quote.as_deref().filter(|it| !it.text.is_empty());
    let is_file = FileNote::parse(&content.extra).is_some() && content.kind == Content::FILE;
    let quoted = quote.filter(|_| !is_file).map_or("", |it| &it.text);
    quoted.lines().map(|line| format!("> {line}\n")).collect()
}

/// The body of a message, as clients show it that know no replies.
pub fn body_of<'a>(content: &Content, spoken: &'a str) -> Cow<'a, str> {
    match lead(content) {
        lead if lead.is_empty() => spoken.into(),
        lead => (lead + spoken).into(),
    }
}

/// Appends what a message says of others.
pub fn put(message: &ChatMessage, out: &mut Vec<u8>) {
    if let Some(quote) = message.content.quote.as_deref() {
        put_reply(message, quote, out);
    }
    let Some(Mentions { accounts, everybody }) = message.content.mentions.as_deref() else {
        return;
    };
    let room = Some(&message.to).filter(|to| *everybody && to.is_group());
    let room = room.map(|room| room.as_str());
    for name in accounts.iter().map(Addressee::as_str).chain(room) {
        let head = format!("<reference xmlns='{REFERENCES}' type='mention' uri='xmpp:{name}'/>");
        out.extend_from_slice(head.as_bytes());
    }
}

fn put_reply(message: &ChatMessage, quote: &Quote, out: &mut Vec<u8>) {
    let id = match message.to.is_group() {
        true => room_id(message, &quote.target, &message.to),
        false => text::attribute_as_written(&quote.target.name),
    };
    if id.is_empty() {
        return;
    }
    out.extend_from_slice(format!("<reply xmlns='{REPLY}' id='{id}'").as_bytes());
    // In a room it is known by its id alone.
    let from = quote.from.as_ref().filter(|_| !message.to.is_group());
    put_attribute("to", from.map(AccountAddress::as_str), out);
    out.extend_from_slice(b"/>");
    let end = lead(&message.content).chars().count();
    if end > 0 {
        let told = format!(
            "<fallback xmlns='{FALLBACK}' for='{REPLY}'><body start='0' end='{end}'/></fallback>"
        );
        out.extend_from_slice(told.as_bytes());
    }
}

/// Whether it says which part of the text is for clients that know no replies.
fn is_of_reply(child: &Element<'_, '_>) -> bool {
    child.is("fallback", FALLBACK) && child.attribute("for").as_deref() == Some(REPLY)
}

enum Mentioned {
    Account(AccountAddress),
    /// In a room.
    Everybody,
}

/// The mention in a child of a `message`; `None`: it is none, or names nobody who is known here.
fn mentioned(child: &Element<'_, '_>) -> Option<Mentioned> {
    let is_mention =
        child.is("reference", REFERENCES) && child.attribute("type").as_deref() == Some("mention");
    let uri = child.attribute("uri").filter(|_| is_mention)?;
    let path = uri.strip_prefix("xmpp:")?;
    let Jid { account, resource, .. } = Jid::parse(path)?;
    let account = account?;
    match (account.domain().strip_prefix(GROUP_SERVICE), resource) {
        (None, _) => Some(Mentioned::Account(account)),
        (Some(_), None) => Some(Mentioned::Everybody),
        (Some(domain), Some(nick)) => {
            let (name, domain) = nick.split_once('@').unwrap_or((&nick, domain));
            jid::account(name, domain).map(Mentioned::Account)
        }
    }
}

#[cfg(test)]
mod tests;

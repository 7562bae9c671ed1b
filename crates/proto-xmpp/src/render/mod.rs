//! Messages of the model as stanzas, and stanzas as messages of the model.
//!
//! The text is one `<body>` ([`text_of`]); what else a stanza has is kept as it came, in
//! `Content::extra`, as a `message` without addresses and without that body ([`Content::STANZA`]).
//! If the body has a language, an empty `<body xml:lang='…'/>` keeps it there; bodies in other
//! languages (RFC 6121 5.2.3) stand there whole. A stanza that says no more than a text is a plain
//! text, the same as IM's. Infoset-lossless but for what a client may not say in the server's name
//! ([`is_forged`]). A stanza that another protocol put into `extra` is checked before it is shown.

pub mod room;

use crate::archive;
use crate::message::{amend, others};
use crate::server::receipts::{MARKERS, RECEIPTS};
use crate::stanza::{kind, put_attribute, timestamp};
use crate::xml::scan::{CLIENT, Element, Scan};
use crate::xml::text;
use model::account::AccountAddress;
use model::chat::{ArchiveId, ChatMessage, ClientMessageId, Content};
use model::media::{FileNote, is_file_url, name_in_url, type_by_name};

/// The namespace of delayed delivery (XEP-0203 2).
pub const DELAY: &str = "urn:xmpp:delay";
/// The namespace of message carbons (XEP-0280 12).
pub const CARBONS: &str = "urn:xmpp:carbons:2";
/// The namespace of forwarded stanzas (XEP-0297 3).
pub const FORWARD: &str = "urn:xmpp:forward:0";
/// The namespace of stable stanza ids (XEP-0359 2).
pub const STANZA_IDS: &str = "urn:xmpp:sid:0";
/// The namespace of occupants' ids (XEP-0421 3).
pub const OCCUPANT_IDS: &str = "urn:xmpp:occupant-id:0";
/// The namespace of what a room says of its occupants (XEP-0045 17.2).
pub const MUC_USER: &str = "http://jabber.org/protocol/muc#user";
/// The namespace of direct invitations to rooms (XEP-0249 3).
pub const CONFERENCE: &str = "jabber:x:conference";
/// The namespace of out-of-band data (XEP-0066 4).
const OOB: &str = "jabber:x:oob";
/// The namespace of processing hints (XEP-0334 4).
pub const HINTS: &str = "urn:xmpp:hints";

/// A stanza in the model's words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StanzaContent {
    /// The sender's id, if it is one that tells a resend (XEP-0359 3.2): a UUID.
    pub client_id: Option<ClientMessageId>,
    /// Content of the message.
    pub content: Content,
}

/// The content of a `message`. `None`: a message that is not stored (a chat state, a receipt); a
/// message without a body is stored if it asks for that (XEP-0334 4.3).
pub fn said(message: &Element<'_, '_>) -> Option<StanzaContent> {
    let body = text_of(message);
    // An invitation to a room (XEP-0249) waits as a text does.
    let is_invitation = message.child("x", CONFERENCE).is_some();
    let stored = is_invitation || message.child("store", HINTS).is_some();
    if body.is_none() && !stored {
        return None;
    }
    let spoken = body.map(|body| others::spoken(message, body.text().into_owned()));
    let spoken = spoken.unwrap_or_default();
    let is_beside = |it: &Element<'_, '_>| !others::is_said(it);
    let id = message.attribute("id");
    let client_id = client_id_of(message);
    let is_named = id.is_none() || id.as_deref() == client_id.map(ClientMessageId::text).as_deref();
    let is_main = |it: &Element<'_, '_>| body.is_some_and(|body| body.is_same(it));
    let has_language = body.is_some_and(|body| language(&body).is_some());
    let has_more = message.children().any(|it| !is_main(&it) && is_kept_child(&it, is_beside));
    let declares = message.attributes().any(|(name, _)| name.starts_with("xmlns:"));
    // To whom it is says whether it is for a room.
    let is_plain = matches!(&*kind(message), "chat" | "groupchat")
        && is_named
        && !has_more
        && !has_language
        && !declares
        && message.attribute("xml:lang").is_none();
    let content = if is_plain {
        Content::text(&spoken)
    } else {
        let stanza = stanza_with(message, None, is_beside);
        let url = file_url(message).filter(|url| **url == *stanza.text && !is_private(message));
        match url {
            Some(url) => file(&url, &String::from_utf8_lossy(&stanza.extra)),
            None => stanza,
        }
    };
    let content = Content { mentions: others::mentions_of(message), ..content };
    Some(StanzaContent { client_id, content })
}

/// The address of the file that a message is about (XEP-0066 3), if it is one.
fn file_url(message: &Element<'_, '_>) -> Option<String> {
    let url = message.child("x", OOB)?.child("url", OOB)?.text().into_owned();
    is_file_url(&url).then_some(url)
}

/// A file that came as a stanza whose body is nothing but its address: with all of the stanza, and
/// with what the address tells.
fn file(url: &str, stanza: &str) -> Content {
    let name = name_in_url(url);
    let text = if name.is_empty() { url } else { &name };
    let media_type = type_by_name(&name);
    let note = FileNote { url, name: &name, media_type, stanza, ..FileNote::default() };
    Content { kind: Content::FILE, extra: note.write(), ..Content::text(text) }
}

/// All that a `message` says, as a stanza.
pub fn stanza_of(message: &Element<'_, '_>) -> Content {
    let text = text_of(message).map(|body| body.text().into_owned());
    stanza(message, text, None, |_| true)
}

/// All that a `message` to one occupant of a room says, as a stanza; that it is one, the room says
/// anew (XEP-0045 7.5).
pub fn whisper_of(message: &Element<'_, '_>) -> Content {
    let text = text_of(message).map(|body| body.text().into_owned());
    stanza(message, text, None, |it| it.namespace() != MUC_USER)
}

/// The content of a `message`, kept as a stanza: with those elements beside the text that the
/// filter keeps, and under this id; without one, its own. The id stands first: by it the message is
/// known ([`Content::name`]).
pub fn stanza_with(
    message: &Element<'_, '_>,
    id: Option<&str>,
    is_kept_beside: impl Fn(&Element<'_, '_>) -> bool,
) -> Content {
    let spoken = text_of(message).map(|body| others::spoken(message, body.text().into_owned()));
    stanza(message, spoken, id, is_kept_beside)
}

/// A `message` with this text, if it has one, and of what stands beside it these.
fn stanza(
    message: &Element<'_, '_>,
    text: Option<String>,
    id: Option<&str>,
    is_kept_beside: impl Fn(&Element<'_, '_>) -> bool,
) -> Content {
    let own = message.attributes().find(|(name, _)| *name == "id").map(|(_, value)| value);
    let others = message.attributes().filter(|(name, _)| *name != "id" && is_kept(name));
    let mut extra = b"<message".to_vec();
    for (name, value) in id.or(own).map(|id| ("id", id)).into_iter().chain(others) {
        extra.push(b' ');
        extra.extend_from_slice(name.as_bytes());
        extra.extend_from_slice(b"=\"");
        // It was in single quotes, if it has double ones.
        for (at, piece) in value.split('"').enumerate() {
            extra.extend_from_slice(if at == 0 { b"" } else { b"&quot;" });
            extra.extend_from_slice(piece.as_bytes());
        }
        extra.push(b'"');
    }
    extra.push(b'>');
    let main = text_of(message);
    if let Some(language) = main.as_ref().and_then(language) {
        extra.extend_from_slice(b"<body");
        put_attribute("xml:lang", Some(&language), &mut extra);
        extra.extend_from_slice(b"/>");
    }
    let is_main = |it: &Element<'_, '_>| main.is_some_and(|main| main.is_same(it));
    let rest = message.children().filter(|it| !is_main(it) && is_kept_child(it, &is_kept_beside));
    rest.for_each(|child| extra.extend_from_slice(child.whole().as_bytes()));
    extra.extend_from_slice(b"</message>");
    let counts = text.is_some();
    let (text, extra) = (text.unwrap_or_default().into(), extra.into());
    Content { kind: Content::STANZA, text, extra, counts, ..Content::default() }
}

/// Whether a `message` is for the device that it names alone (XEP-0280 6, XEP-0334 4.4).
pub fn is_private(message: &Element<'_, '_>) -> bool {
    message.child("private", CARBONS).is_some() || message.child("no-copy", HINTS).is_some()
}

/// Whether a message was addressed to this device of its receiver.
pub fn is_addressed_to(message: &ChatMessage, resource: &str) -> bool {
    let kept = KeptStanza::of(&message.content);
    kept.root().and_then(|kept| kept.attribute("to")).is_some_and(|to| *to == *resource)
}

/// A content that was addressed to one device, which it names where an address stood. It is for
/// that device alone if it is private ([`is_private`]).
pub fn for_resource(content: Content, resource: &str) -> Content {
    const BEGIN: &[u8] = b"<message";
    const ID: &[u8] = b" id=\"";
    let content = match content.kind {
        Content::TEXT if content.extra.is_empty() => {
            let extra = (*b"<message type=\"chat\"></message>").into();
            Content { kind: Content::STANZA, extra, ..content }
        }
        _ => content,
    };
    let Some(rest) = content.extra.strip_prefix(BEGIN) else { return content };
    if content.kind != Content::STANZA {
        return content;
    }
    // The id stays first.
    let id = rest.strip_prefix(ID).and_then(|it| it.iter().position(|byte| *byte == b'"'));
    let (before, behind) = rest.split_at(id.map_or(0, |end| ID.len() + end + 1));
    let mut extra = [BEGIN, before].concat();
    put_attribute("to", Some(resource), &mut extra);
    extra.extend_from_slice(behind);
    Content { extra: extra.into(), ..content }
}

/// The sender's id for a `message`, if it is one that tells a resend (XEP-0359 3.2): a UUID.
pub fn client_id_of(message: &Element<'_, '_>) -> Option<ClientMessageId> {
    let id = message.attribute("id");
    let origin = message.child("origin-id", STANZA_IDS).and_then(|it| it.attribute("id"));
    origin.as_deref().and_then(uuid).or_else(|| id.as_deref().and_then(uuid))
}

/// Reader of a message, and form in which it is written.
#[derive(Clone, Copy, Debug)]
pub struct Rendering<'a> {
    /// The reader's full JID; the bare one is an archive's, of which nothing is for one device.
    pub reader: &'a str,
    /// The domain that says when the message was kept; none: it comes as it is said.
    pub delayed_by: Option<&'a str>,
    /// Whether it is the reader's own message, from another device (XEP-0280 6).
    pub is_carbon: bool,
    /// The reader is asked to say when it has it, and shows it.
    pub asks: bool,
}

/// The stanza kept with a message, and the file that it is about.
pub struct KeptStanza<'a>(Option<Scan<'a>>, Option<FileNote<'a>>);

impl<'a> KeptStanza<'a> {
    /// That of a content; of one that came otherwise, or that is no stanza, nothing.
    pub fn of(content: &'a Content) -> KeptStanza<'a> {
        let note = (content.kind == Content::FILE).then(|| FileNote::parse(&content.extra));
        let note = note.flatten();
        let stanza = match (content.kind, note) {
            (Content::STANZA, _) => &content.extra[..],
            (_, Some(note)) => note.stanza.as_bytes(),
            _ => &[],
        };
        let scan = (!stanza.is_empty()).then(|| Scan::element(stanza).ok()).flatten();
        KeptStanza(scan.filter(|scan| scan.root().is("message", CLIENT)), note)
    }

    fn root(&self) -> Option<Element<'_, 'a>> {
        self.0.as_ref().map(Scan::root)
    }

    /// Whether there is anything that XMPP can show.
    pub fn says(&self, content: &Content) -> bool {
        let has_children = self.root().is_some_and(|kept| kept.children().next().is_some());
        let has_children = has_children || self.1.is_some();
        !content.text.is_empty() || has_children
    }

    /// Appends what stands in the stanza of a message. False: nothing that XMPP can show.
    pub fn put_said(&self, message: &ChatMessage, out: &mut Vec<u8>) -> bool {
        if amend::is_one(&message.content) {
            return amend::put(message, out);
        }
        let says = self.says(&message.content);
        if says {
            self.put_content(&message.content, out);
            others::put(message, out);
        }
        says
    }

    /// The device that it is for alone, if it is.
    fn only(&self) -> Option<std::borrow::Cow<'a, str>> {
        let root = self.root().filter(|kept| is_private(kept))?;
        root.attribute("to").filter(|only| !only.is_empty())
    }

    /// Whether there is anything beside the text.
    pub fn is_more(&self) -> bool {
        self.root().is_some_and(|kept| kept.children().next().is_some())
    }

    /// Whether there is one.
    pub fn is_stanza(&self) -> bool {
        self.0.is_some()
    }

    /// Whether it is a subject and no text (RFC 6121 5.2.4).
    pub fn is_subject(&self, message: &ChatMessage) -> bool {
        let has_subject = self.root().is_some_and(|kept| kept.child("subject", CLIENT).is_some());
        message.content.text.is_empty() && has_subject && self.1.is_none()
    }

    /// Whether the stanza itself tells of the file.
    fn tells_file(&self) -> bool {
        self.root().is_some_and(|kept| kept.child("x", OOB).is_some())
    }

    /// Writes the id, and the attributes that are neither addresses nor type.
    pub fn put_attributes(&self, message: &ChatMessage, out: &mut Vec<u8>) {
        if self.root().is_none_or(|kept| kept.attribute("id").is_none()) {
            put_attribute("id", Some(&message.client_id.text()), out);
        }
        self.put_own_attributes(out);
    }

    /// Writes the id that it came with, and the attributes that are neither addresses nor type.
    pub fn put_own_attributes(&self, out: &mut Vec<u8>) {
        let id = self.root().and_then(|kept| kept.attribute("id"));
        put_attribute("id", id.as_deref(), out);
        let others = self.root().into_iter().flat_map(|kept| kept.attributes());
        put_raw(others.filter(|(name, _)| is_kept(name) && name.contains(':')), out);
    }

    /// Writes that the reader is to say when it has the message, and shows it, unless the sender
    /// has (XEP-0184 5.1, XEP-0333 4.1).
    fn put_wants(&self, out: &mut Vec<u8>) {
        for (name, namespace) in [("request", RECEIPTS), ("markable", MARKERS)] {
            if self.root().is_none_or(|kept| kept.child(name, namespace).is_none()) {
                out.extend_from_slice(format!("<{name} xmlns='{namespace}'/>").as_bytes());
            }
        }
    }

    /// Writes the text, and what came beside it.
    pub fn put_content(&self, content: &Content, out: &mut Vec<u8>) {
        // Clients show a file where the text is its address and nothing else.
        let spoken = self.1.map_or(&*content.text, |note| note.url);
        if !spoken.is_empty() {
            put_body(&others::body_of(content, spoken), self.root(), out);
        }
        if let Some(note) = self.1.filter(|_| !self.tells_file()) {
            put_file(&note, &content.text, out);
        }
        let children = self.root().into_iter().flat_map(|kept| kept.children());
        for child in children.filter(|it| is_kept_child(it, |_| true)) {
            out.extend_from_slice(child.whole().as_bytes());
        }
    }
}

/// Writes where a file is (XEP-0066 3), with what is said of it.
fn put_file(note: &FileNote<'_>, said: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("<x xmlns='{OOB}'><url>").as_bytes());
    text::put(note.url, out);
    out.extend_from_slice(b"</url>");
    if !said.is_empty() {
        out.extend_from_slice(b"<desc>");
        text::put(said, out);
        out.extend_from_slice(b"</desc>");
    }
    out.extend_from_slice(b"</x>");
}

/// Appends a message as a stanza. False: it says nothing that XMPP can show.
pub fn write(message: &ChatMessage, how: Rendering<'_>, out: &mut Vec<u8>) -> bool {
    let kept = KeptStanza::of(&message.content);
    let (owner, resource) = how.reader.split_once('/').unwrap_or((how.reader, ""));
    let is_for_another = match how.is_carbon {
        true => kept.root().is_some_and(|kept| is_private(&kept)),
        false => kept.only().is_some_and(|only| !resource.is_empty() && *only != *resource),
    };
    if is_for_another {
        return false;
    }
    let begin = out.len();
    let own = message.from.as_str();
    if how.is_carbon {
        let head = format!(
            "<message from='{own}' to='{}' type='chat'><sent xmlns='{CARBONS}'>\
             <forwarded xmlns='{FORWARD}'>",
            text::escaped(how.reader)
        );
        out.extend_from_slice(head.as_bytes());
    }
    out.extend_from_slice(b"<message xmlns='jabber:client'");
    if !put_said(message, &kept, out) {
        out.truncate(begin);
        return false;
    }
    put_stanza_id(message, owner, out);
    if how.asks && message.content.counts {
        kept.put_wants(out);
    }
    if let Some(domain) = how.delayed_by {
        put_delay(message, domain, out);
    }
    out.extend_from_slice(b"</message>");
    if how.is_carbon {
        out.extend_from_slice(b"</forwarded></sent></message>");
    }
    true
}

/// A stanza that a device of an account has sent, as a carbon for its others (XEP-0280 6); to whom
/// that goes is for each of them to say.
pub(crate) fn sent_carbon(account: &str, stanza: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let account = text::escaped(account);
    let head = format!(
        "<message from='{account}' type='chat'><sent xmlns='{CARBONS}'>\
         <forwarded xmlns='{FORWARD}'><message xmlns='{CLIENT}'"
    );
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(stanza.strip_prefix(b"<message").unwrap_or_default());
    out.extend_from_slice(b"</forwarded></sent></message>");
    out
}

/// Appends a message as the stanza that goes to another server. False: there is nothing to show.
pub fn write_out(message: &ChatMessage, out: &mut Vec<u8>) -> bool {
    let begin = out.len();
    out.extend_from_slice(b"<message");
    let says = put_said(message, &KeptStanza::of(&message.content), out);
    match says {
        true => out.extend_from_slice(b"</message>"),
        false => out.truncate(begin),
    }
    says
}

/// Writes a message as it stands in an archive; returns false if it is not written.
pub(crate) fn put_kept(message: &ChatMessage, kept: &KeptStanza<'_>, out: &mut Vec<u8>) -> bool {
    put_said(message, kept, out)
}

/// Appends the attributes of a message, the end of its start tag, and what it says. False: there is
/// nothing to show, and what was appended is in vain.
fn put_said(message: &ChatMessage, kept: &KeptStanza<'_>, out: &mut Vec<u8>) -> bool {
    put_attribute("from", Some(&sender(message)), out);
    let to = full_jid(&message.to, &kept.only().unwrap_or_default());
    put_attribute("to", Some(&to), out);
    let kind = kept.root().map_or("chat".into(), |kept| kind(&kept));
    let kind = ["chat", "normal", "headline"].into_iter().find(|known| *known == kind);
    put_attribute("type", kind, out);
    kept.put_attributes(message, out);
    out.push(b'>');
    kept.put_said(message, out)
}

/// Writes the id that somebody gives a message (XEP-0359 3.1).
pub fn put_stanza_id(message: &ChatMessage, by: &str, out: &mut Vec<u8>) {
    let id = stanza_id(message);
    out.extend_from_slice(format!("<stanza-id xmlns='{STANZA_IDS}' id='{id}'").as_bytes());
    put_attribute("by", Some(by), out);
    out.extend_from_slice(b"/>");
}

/// Writes when a message was taken, as whoever kept it says (XEP-0203 3).
pub fn put_delay(message: &ChatMessage, from: &str, out: &mut Vec<u8>) {
    let stamp = timestamp(message.at_ms);
    let delay = format!("<delay xmlns='{DELAY}' from='{from}' stamp='{stamp}'/>");
    out.extend_from_slice(delay.as_bytes());
}

/// The server's id of a message (XEP-0359 3.1): the one that it has in archives.
pub fn stanza_id(message: &ChatMessage) -> String {
    archive::id_text(ArchiveId::of(message))
}

/// Whether a message is called so: by the id that its sender gave it, or by the server's.
pub fn is_named(message: &ChatMessage, id: &str) -> bool {
    let kept = KeptStanza::of(&message.content);
    let own = kept.root().and_then(|kept| kept.attribute("id"));
    let is_own = own.map_or_else(|| id == message.client_id.text(), |own| *own == *id);
    is_own || id == stanza_id(message)
}

/// Full JID of the sender's device.
fn sender(message: &ChatMessage) -> String {
    full_jid(&message.from, &message.device)
}

/// An account's device as a JID.
pub fn full_jid(account: &AccountAddress, device: &str) -> String {
    // A device's name is of any protocol; one that is no resource is left out.
    match device.is_empty() || !device.chars().all(|char| text::is_char(char) && char >= ' ') {
        true => account.jid().to_owned(),
        false => format!("{}/{device}", account.jid()),
    }
}

/// Has the start tag that was written last declare the prefixes that a stanza declares: what is in
/// the stanza may be written with them.
pub fn put_prefixes(stanza: &Element<'_, '_>, out: &mut Vec<u8>) {
    let end = out.pop();
    put_raw(stanza.attributes().filter(|(name, _)| name.starts_with("xmlns:")), out);
    out.extend(end);
}

/// A stanza as it came, without what its stream's header says of it: of what stands in it these,
/// and from this sender; none: from its own.
pub(crate) fn passed_on(
    stanza: &Element<'_, '_>,
    from: Option<&str>,
    is_passed_on: impl Fn(&Element<'_, '_>) -> bool,
) -> Vec<u8> {
    let is_own = |name: &str| match name.split_once(':') {
        Some((prefix, _)) => ["xml", "xmlns"].contains(&prefix),
        None => name != "xmlns" && (name != "from" || from.is_none()),
    };
    let mut out = format!("<{}", stanza.name()).into_bytes();
    put_raw(stanza.attributes().filter(|(name, _)| is_own(name)), &mut out);
    put_attribute("from", from, &mut out);
    out.push(b'>');
    for child in stanza.children().filter(is_passed_on) {
        out.extend_from_slice(child.whole().as_bytes());
    }
    out.extend_from_slice(format!("</{}>", stanza.name()).as_bytes());
    out
}

/// Writes attributes as they were written, whichever quotes they had.
fn put_raw<'a>(attributes: impl Iterator<Item = (&'a str, &'a str)>, out: &mut Vec<u8>) {
    for (name, value) in attributes {
        let value = value.replace('\'', "&apos;");
        out.extend_from_slice(format!(" {name}='{value}'").as_bytes());
    }
}

/// The body of a `message` that is its text: of those that say something the one without a
/// language, else the one in the language of the message, else the first (RFC 6121 5.2.3).
pub fn text_of<'t, 'a>(message: &Element<'t, 'a>) -> Option<Element<'t, 'a>> {
    let own = language(message);
    let rank = |body: &Element<'_, '_>| match (language(body), &own) {
        (None, _) => 0,
        (Some(of), Some(own)) if of == *own => 1,
        _ => 2,
    };
    let bodies = message.children().filter(|child| child.is("body", CLIENT));
    bodies.min_by_key(|body| (body.text().is_empty(), rank(body)))
}

/// The language of an element, if it says one.
fn language<'a>(element: &Element<'_, 'a>) -> Option<std::borrow::Cow<'a, str>> {
    element.attribute("xml:lang").filter(|language| !language.is_empty())
}

/// Whether a child of a `message` that is not its text is kept: of bodies those that say something
/// in a language of their own, of all else what may be kept and is among these.
fn is_kept_child(child: &Element<'_, '_>, is_among: impl Fn(&Element<'_, '_>) -> bool) -> bool {
    match child.is("body", CLIENT) {
        true => is_translation(child),
        false => !is_forged(child) && is_among(child),
    }
}

/// Whether a child of what was kept is the text in another language.
pub(crate) fn is_translation(child: &Element<'_, '_>) -> bool {
    child.is("body", CLIENT) && language(child).is_some() && !child.text().is_empty()
}

/// Writes a text as the body, in the language that was kept of it.
pub(crate) fn put_body(body: &str, kept: Option<Element<'_, '_>>, out: &mut Vec<u8>) {
    let mut bodies = kept.into_iter().flat_map(|kept| kept.children());
    let main = bodies.find(|it| it.is("body", CLIENT) && it.text().is_empty());
    out.extend_from_slice(b"<body");
    put_attribute("xml:lang", main.as_ref().and_then(language).as_deref(), out);
    out.push(b'>');
    text::put(body, out);
    out.extend_from_slice(b"</body>");
}

/// Elements by which a server tells a client of its own account's messages: carbons (XEP-0280 11)
/// and results of an archive (XEP-0313 4.2). Clients that do not look at the sender take what is in
/// them for what was said.
pub fn is_of_own_server(child: &Element<'_, '_>) -> bool {
    is_carbon(child) || child.is("result", archive::MAM)
}

/// Whether a child of a message makes it a carbon.
pub fn is_carbon(child: &Element<'_, '_>) -> bool {
    child.namespace() == CARBONS && matches!(child.name(), "received" | "sent")
}

/// Elements that only a server may put into a message: its ids (XEP-0359 6), when it kept it
/// (XEP-0203 3), who somebody is in a room (XEP-0421 5, XEP-0045 7), and what it tells a client of
/// its own account ([`is_of_own_server`]).
pub fn is_forged(child: &Element<'_, '_>) -> bool {
    is_of_own_server(child)
        || child.is("stanza-id", STANZA_IDS)
        || child.is("delay", DELAY)
        || child.is("occupant-id", OCCUPANT_IDS)
        || child.is("x", MUC_USER)
}

/// Attributes of a message that are its own, and not addresses.
fn is_kept(name: &str) -> bool {
    ["id", "type", "xml:lang"].contains(&name) || name.starts_with("xmlns:")
}

/// The bytes of a UUID as it is usually written (RFC 9562 4), or of its digits alone.
fn uuid(text: &str) -> Option<ClientMessageId> {
    let is_right = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 if text.len() == 36 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    if !matches!(text.len(), 32 | 36) || !text.bytes().enumerate().all(is_right) {
        return None;
    }
    let number = u128::from_str_radix(&text.replace('-', ""), 16).ok()?;
    Some(ClientMessageId(number.to_be_bytes()))
}

#[cfg(test)]
mod tests;

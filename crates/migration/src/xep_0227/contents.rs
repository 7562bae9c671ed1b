//! Data of users in a file of XEP-0227 beside their accounts.
//!
//! ```text
//! <user name='ann'>
//!   <query xmlns='jabber:iq:roster'/> <query xmlns='jabber:iq:private'/> <vCard/>
//!   <query xmlns='jabber:iq:privacy'/> or <blocklist xmlns='urn:xmpp:blocking'/>
//!   <pubsub xmlns='…/pubsub#owner'/> <pubsub xmlns='…/pubsub'/>     configurations, and items
//!   <archive xmlns='urn:xmpp:pie:0#mam'> <result xmlns='urn:xmpp:mam:2'/> …
//!   <offline-messages> <message/> …
//! ```
//! Messages come one by one, so archives may be of any size. Invariant: one element of at most
//! [`ELEMENT_BYTES_MAX`] is in memory at once; a larger one is reported, and stepped over.

use super::{DEPTH_MAX, PIE, Pace, Reading, TOKEN_BYTES_MAX, attribute};
use crate::element::{MovedElement, MovedInner};
use crate::moved::*;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::{Namespace, ResolveResult};
use quick_xml::reader::NsReader;
use std::collections::BTreeMap;
use std::io::BufRead;

/// Bytes of an element that is taken at once: a roster, a vCard, all that a user publishes.
pub const ELEMENT_BYTES_MAX: usize = 32 << 20;

const CLIENT: &str = "jabber:client";
const OWNER: &str = "http://jabber.org/protocol/pubsub#owner";
const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
const FORM: &str = "jabber:x:data";
const FORWARD: &str = "urn:xmpp:forward:0";
const DELAY: &str = "urn:xmpp:delay";
const PRIVACY: &str = "jabber:iq:privacy";
const ROSTER: &str = "jabber:iq:roster";
const BLOCKING: &str = "urn:xmpp:blocking";
const PRIVATE: &str = "jabber:iq:private";
const PIE_MAM: &str = "urn:xmpp:pie:0#mam";

/// Hands all data of the users of files to `taking`, each file with its name in messages; of this
/// host, or of the only one that is found. Fails with the reason why nothing can be taken over.
pub fn walk<R: BufRead>(
    files: Vec<(String, R)>,
    host: Option<&str>,
    taking: &mut dyn Taking,
) -> Result<(), String> {
    let mut reading = Reading::of(host);
    for (file, source) in files {
        let mut reader = NsReader::from_reader(Pace::new(source, TOKEN_BYTES_MAX));
        reader.config_mut().expand_empty_elements = true;
        let mut contents = Contents { file, reader, bytes: Vec::new(), taking };
        contents.run(&mut reading).map_err(|why| contents.told(&why))?;
    }
    reading.has_host()
}

/// One file.
struct Contents<'a, R> {
    file: String,
    reader: NsReader<Pace<R>>,
    bytes: Vec<u8>,
    taking: &'a mut dyn Taking,
}

/// Next relevant part of a file.
enum Next {
    Start(MovedElement),
    End,
    Text(String),
    Over,
}

/// Nodes of a user.
#[derive(Default)]
struct Published {
    nodes: BTreeMap<String, MovedNode>,
}

impl<R: BufRead> Contents<'_, R> {
    fn told(&mut self, why: &str) -> String {
        format!("{}:{}: {why}", self.file, self.reader.get_mut().line())
    }

    fn next(&mut self) -> Result<Next, String> {
        loop {
            self.bytes.clear();
            self.reader.get_mut().begin();
            let mut bytes = std::mem::take(&mut self.bytes);
            let event = self.reader.read_event_into(&mut bytes);
            let next = match event.map_err(|error| error.to_string())? {
                Event::Start(start) => Some(Next::Start(self.started(&start)?)),
                Event::End(_) => Some(Next::End),
                Event::Text(text) => Some(Next::Text(text.to_string())),
                Event::CData(text) => Some(Next::Text(text.to_string())),
                Event::GeneralRef(name) => Some(Next::Text(referred(&name)?)),
                Event::DocType(_) => return Err("a document type, which is not supported".into()),
                Event::Eof => Some(Next::Over),
                Event::Empty(_) | Event::Comment(_) | Event::PI(_) | Event::Decl(_) => None,
            };
            self.bytes = bytes;
            if let Some(next) = next {
                return Ok(next);
            }
        }
    }

    /// An element that begins, without what stands in it.
    fn started(&self, start: &BytesStart<'_>) -> Result<MovedElement, String> {
        let (namespace, name) = self.reader.resolver().resolve_element(start.name());
        let namespace = match namespace {
            ResolveResult::Bound(Namespace(namespace)) => namespace.into(),
            ResolveResult::Unbound | ResolveResult::Unknown(_) => String::new(),
        };
        let mut element =
            MovedElement { name: name.as_ref().into(), namespace, ..MovedElement::default() };
        for found in start.attributes() {
            let name = found.map_err(|error| error.to_string())?.key.as_ref().to_owned();
            let is_plain = name == "xml:lang" || (!name.contains(':') && name != "xmlns");
            if let (true, Some(value)) = (is_plain, attribute(start, &name)?) {
                element.attributes.push((name, value));
            }
        }
        Ok(element)
    }

    fn run(&mut self, reading: &mut Reading) -> Result<(), String> {
        loop {
            match self.next()? {
                Next::Over => return Ok(()),
                Next::Start(it) if it.is("host", PIE) => {
                    let jid = it.attribute("jid").ok_or("a host has no jid")?;
                    match reading.takes(jid)? {
                        true => self.host(jid)?,
                        false => self.skip()?,
                    }
                }
                Next::Start(_) | Next::End | Next::Text(_) => {}
            }
        }
    }

    fn host(&mut self, jid: &str) -> Result<(), String> {
        self.taking.host(jid);
        self.each(|contents, it| match it.is("user", PIE) {
            true => contents.user(it.attribute("name").unwrap_or_default()),
            false => contents.skip(),
        })
    }

    /// Each element up to the end of the one that has begun.
    fn each(
        &mut self,
        mut take: impl FnMut(&mut Self, &MovedElement) -> Result<(), String>,
    ) -> Result<(), String> {
        loop {
            match self.next()? {
                Next::Start(element) => take(self, &element)?,
                Next::End => return Ok(()),
                Next::Text(_) => {}
                Next::Over => return Err("the file ends too early".into()),
            }
        }
    }

    /// Steps over the rest of an element that has begun.
    fn skip(&mut self) -> Result<(), String> {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.next()? {
                Next::Start(_) => depth += 1,
                Next::End => depth -= 1,
                Next::Text(_) => {}
                Next::Over => return Err("the file ends too early".into()),
            }
        }
        Ok(())
    }

    /// The whole of an element that has begun; `None`: it is too large, and stepped over.
    fn whole(&mut self, begun: &MovedElement) -> Result<Option<MovedElement>, String> {
        let mut open = vec![begun.clone()];
        let mut bytes = 0;
        loop {
            let (inner, weight) = match self.next()? {
                Next::Start(element) if open.len() < DEPTH_MAX => {
                    bytes += 64 + element.name.len() + element.namespace.len();
                    bytes += element.attributes.iter().map(|(_, it)| 64 + it.len()).sum::<usize>();
                    open.push(element);
                    (None, 0)
                }
                Next::Start(_) => {
                    return Err(format!("more than {DEPTH_MAX} nested elements"));
                }
                Next::Text(text) => {
                    let weight = text.len() + 32;
                    (Some(MovedInner::Text(text)), weight)
                }
                Next::End => match (open.pop(), open.is_empty()) {
                    (Some(element), true) => return Ok(Some(element)),
                    (element, _) => (element.map(MovedInner::Element), 0),
                },
                Next::Over => return Err("the file ends too early".into()),
            };
            bytes += weight;
            if bytes > ELEMENT_BYTES_MAX {
                for _ in 0..open.len() {
                    self.skip()?;
                }
                return Ok(None);
            }
            if let (Some(inner), Some(last)) = (inner, open.last_mut()) {
                last.children.push(inner);
            }
        }
    }

    /// As [`whole`](Self::whole), and reports an element that is too large.
    fn taken(&mut self, owner: &str, begun: &MovedElement) -> Result<Option<MovedElement>, String> {
        let place = self.told(owner);
        let whole = self.whole(begun)?;
        if whole.is_none() {
            let why = format!("`{}` has more than {ELEMENT_BYTES_MAX} bytes", begun.name);
            self.taking.leave(place, why);
        }
        Ok(whole)
    }

    fn take(&mut self, owner: &str, what: MovedWhat) -> Result<(), String> {
        let place = format!("{}: {}", self.file, owner.escape_debug());
        self.taking.take(MovedItem { place, owner: owner.into(), what })
    }

    fn user(&mut self, owner: &str) -> Result<(), String> {
        let mut published = Published::default();
        self.each(|contents, it| {
            if it.is("archive", PIE_MAM) {
                return contents.each(|contents, it| contents.archived(owner, it));
            }
            if it.is("offline-messages", PIE) {
                return contents.each(|contents, it| contents.waiting(owner, it));
            }
            let known = [
                ("query", ROSTER),
                ("query", PRIVATE),
                ("query", PRIVACY),
                ("blocklist", BLOCKING),
                ("vCard", "vcard-temp"),
                ("pubsub", OWNER),
                ("pubsub", PUBSUB),
            ];
            if !known.iter().any(|(name, namespace)| it.is(name, namespace)) {
                return contents.skip();
            }
            match contents.taken(owner, it)? {
                Some(whole) => contents.part(owner, whole, &mut published),
                None => Ok(()),
            }
        })?;
        for node in published.nodes.into_values().filter(|node| !node.items.is_empty()) {
            self.take(owner, MovedWhat::Node(node))?;
        }
        Ok(())
    }

    /// A part of a user that is taken as a whole.
    fn part(
        &mut self,
        owner: &str,
        whole: MovedElement,
        published: &mut Published,
    ) -> Result<(), String> {
        match &*whole.namespace {
            ROSTER => {
                for item in whole.elements().filter(|it| it.is("item", ROSTER)) {
                    self.take(owner, MovedWhat::Contact(contact(item)))?;
                }
            }
            PRIVATE => {
                for kept in whole.elements() {
                    self.take(owner, MovedWhat::Private(kept.clone()))?;
                }
            }
            BLOCKING | PRIVACY => {
                for jid in blocked(&whole) {
                    self.take(owner, MovedWhat::Blocked(jid))?;
                }
            }
            OWNER => published.configured(&whole),
            PUBSUB => published.publishes(&whole),
            _ => self.take(owner, MovedWhat::VCard(whole))?,
        }
        Ok(())
    }

    /// A result of an archive.
    fn archived(&mut self, owner: &str, begun: &MovedElement) -> Result<(), String> {
        let Some(result) = self.taken(owner, begun)? else { return Ok(()) };
        let forwarded = result.child("forwarded", FORWARD);
        let stanza = forwarded.and_then(|it| it.child("message", CLIENT));
        let stamp = forwarded.and_then(|it| it.child("delay", DELAY)?.attribute("stamp"));
        let id = result.attribute("id").map(String::from);
        self.message(owner, stanza, (stamp, id), false)
    }

    /// A message that waits.
    fn waiting(&mut self, owner: &str, begun: &MovedElement) -> Result<(), String> {
        let Some(stanza) = self.taken(owner, begun)? else { return Ok(()) };
        let stamp = stanza.child("delay", DELAY).and_then(|it| it.attribute("stamp"));
        let stanza = Some(&stanza).filter(|it| it.is("message", CLIENT));
        self.message(owner, stanza, (stamp, None), true)
    }

    fn message(
        &mut self,
        owner: &str,
        stanza: Option<&MovedElement>,
        (stamp, id): (Option<&str>, Option<String>),
        is_waiting: bool,
    ) -> Result<(), String> {
        let (Some(stanza), Some(stamp)) = (stanza, stamp) else {
            let place = self.told(owner);
            self.taking.leave(place, "not a message with a timestamp".into());
            return Ok(());
        };
        let (at, stanza) = (MovedTime::Stamp(stamp.into()), stanza.clone());
        self.take(owner, MovedWhat::Message(MovedStanza { at, id, is_waiting, stanza }))
    }
}

impl Published {
    fn node(&mut self, of: &MovedElement) -> Option<&mut MovedNode> {
        let name = of.attribute("node")?;
        let node = self.nodes.entry(name.into()).or_default();
        node.node = name.into();
        Some(node)
    }

    fn configured(&mut self, owner: &MovedElement) {
        for configure in owner.elements().filter(|it| it.is("configure", OWNER)) {
            let Some(form) = configure.child("x", FORM) else { continue };
            let field = |name: &str| {
                let mut fields = form.elements();
                let field = fields.find(|it| it.attribute("var") == Some(name))?;
                field.child("value", FORM).map(MovedElement::text)
            };
            if let Some(node) = self.node(configure) {
                node.access = field("pubsub#access_model");
                node.items_max = field("pubsub#max_items");
            }
        }
    }

    fn publishes(&mut self, pubsub: &MovedElement) {
        for items in pubsub.elements().filter(|it| it.is("items", PUBSUB)) {
            let Some(node) = self.node(items) else { continue };
            for item in items.elements().filter(|it| it.is("item", PUBSUB)) {
                let id = item.attribute("id").unwrap_or_default();
                if let Some(payload) = item.elements().next() {
                    node.items.push((id.into(), payload.clone()));
                }
            }
        }
    }
}

fn contact(item: &MovedElement) -> MovedContact {
    let subscription = item.attribute("subscription").unwrap_or("none");
    let is_approved = matches!(item.attribute("approved"), Some("true" | "1"));
    let groups = item.elements().filter(|it| it.is("group", ROSTER));
    MovedContact {
        jid: item.attribute("jid").unwrap_or_default().into(),
        name: item.attribute("name").unwrap_or_default().into(),
        groups: groups.map(MovedElement::text).collect(),
        sees: matches!(subscription, "to" | "both"),
        is_seen: matches!(subscription, "from" | "both") || is_approved,
        asks: item.attribute("ask") == Some("subscribe"),
    }
}

/// Blocked addresses: items of a block list, or of the list of privacy that is in force.
fn blocked(list: &MovedElement) -> Vec<String> {
    if list.namespace == BLOCKING {
        let jids = list.elements().filter_map(|it| it.attribute("jid"));
        return jids.map(String::from).collect();
    }
    let name = list.child("default", PRIVACY).and_then(|it| it.attribute("name"));
    let lists = list.elements().filter(|it| it.is("list", PRIVACY));
    let mut lists = lists.filter(|it| name.is_some() && it.attribute("name") == name);
    let items = lists.next().into_iter().flat_map(MovedElement::elements);
    let denied = items
        .filter(|it| it.attribute("type") == Some("jid") && it.attribute("action") == Some("deny"));
    denied.filter_map(|it| it.attribute("value")).map(String::from).collect()
}

/// Text of a reference: XML's own five, and characters by their numbers.
fn referred(name: &str) -> Result<String, String> {
    let number = |text: &str| match text.strip_prefix('x') {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    let sign = match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        name => name.strip_prefix('#').and_then(number).and_then(char::from_u32),
    };
    sign.map(String::from).ok_or_else(|| "an undefined reference".into())
}

#[cfg(test)]
mod tests;

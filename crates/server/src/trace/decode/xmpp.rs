//! XMPP, the pieces of a stream: stanzas by name, kind and what stands in them.
//!
//! Of a message its body is the payload. Of everything else names and namespaces of its elements
//! are shown and no text, for in an `iq` there may be a password, and in an element of SASL there
//! is one.

use super::{Decoded, Fields};
use model::ports::trace::TraceValue;
use proto_xmpp::sasl::SASL;
use proto_xmpp::stream::SM;
use proto_xmpp::xml::framer::{Framer, StreamPiece};
use proto_xmpp::xml::scan::{CLIENT, Element, Scan};

/// Elements within another that are shown.
const CHILDREN_MAX: usize = 16;

/// Attributes that are shown. The name of a stream that can be resumed is a secret: `id` and
/// `previd` of stream management are left out ([`told_attributes`]).
const PLAIN: &[&str] = &["type", "id", "from", "to", "mechanism", "version", "h", "xml:lang"];

pub(super) fn read(mut bytes: &[u8]) -> Vec<Decoded<'_>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let piece = Framer::default().next(bytes, !is_header(bytes), usize::MAX);
        let taken = match piece {
            Ok(Some(StreamPiece::Space(count))) => {
                found.push(Decoded::new("space", count, Fields::default()));
                count
            }
            Ok(Some(StreamPiece::Header(count))) => {
                found.push(header(&bytes[..count]));
                count
            }
            Ok(Some(StreamPiece::Element(count))) => {
                found.push(element(&bytes[..count]));
                count
            }
            Ok(Some(StreamPiece::Close(count))) => {
                found.push(Decoded::new("/stream", count, Fields::default()));
                count
            }
            Ok(None) => {
                found.push(Decoded::unread(bytes.len(), "cut"));
                break;
            }
            Err(fault) => {
                found.push(Decoded::unread(bytes.len(), fault.name()));
                break;
            }
        };
        bytes = &bytes[taken..];
    }
    found
}

/// Whether a stream begins here: by the declaration of XML, or by the name of the first tag.
fn is_header(bytes: &[u8]) -> bool {
    if bytes.starts_with(b"<?xml") {
        return true;
    }
    let Some(tag) = bytes.strip_prefix(b"<") else { return false };
    let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/');
    let name = &tag[..tag.iter().position(ends).unwrap_or(tag.len())];
    name.rsplit(|byte| *byte == b':').next() == Some(b"stream")
}

fn header(bytes: &[u8]) -> Decoded<'_> {
    match Scan::header(bytes) {
        Ok(scan) => {
            let fields = told_attributes(Fields::default(), &scan.root());
            Decoded::new("stream", bytes.len(), fields)
        }
        Err(fault) => Decoded::unread(bytes.len(), fault.name()),
    }
}

fn element(bytes: &[u8]) -> Decoded<'_> {
    let scan = match Scan::element(bytes) {
        Ok(scan) => scan,
        Err(fault) => return Decoded::unread(bytes.len(), fault.name()),
    };
    let root = scan.root();
    let mut fields = Fields::default();
    if root.namespace() != CLIENT {
        fields = fields.set_text("namespace", root.namespace());
    }
    fields = told_attributes(fields, &root);
    let is_sasl = root.namespace() == SASL || root.namespace().starts_with("urn:xmpp:sasl:");
    if is_sasl {
        fields = fields.secret("data", root.text().trim().as_bytes());
    }
    let kind = root.name().to_owned();
    let decoded = Decoded::new(kind, bytes.len(), children(fields, &root));
    match root.child("body", CLIENT).filter(|_| root.is("message", CLIENT)) {
        Some(body) => decoded.with(body.text().into_owned().into_bytes()),
        None => decoded,
    }
}

fn told_attributes(mut fields: Fields, element: &Element<'_, '_>) -> Fields {
    let is_resumed = element.namespace() == SM;
    for name in PLAIN.iter().filter(|name| !(is_resumed && **name == "id")) {
        fields = fields.set_some(name, element.attribute(name).as_deref());
    }
    fields
}

/// Children of an element, by name and namespace.
fn children(fields: Fields, element: &Element<'_, '_>) -> Fields {
    let mut names: Vec<String> = element
        .children()
        .map(|child| match child.namespace() == element.namespace() {
            true => child.name().to_owned(),
            false => format!("{} ({})", child.name(), child.namespace()),
        })
        .collect();
    if names.is_empty() {
        return fields;
    }
    if names.len() > CHILDREN_MAX {
        let more = names.len() - CHILDREN_MAX;
        names.truncate(CHILDREN_MAX);
        names.push(format!("and {more} more"));
    }
    fields.set("children", TraceValue::List(names))
}

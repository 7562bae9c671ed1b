//! A whole piece of a stream as elements (RFC 6120 11; XML 1.0; Namespaces in XML 1.0).
//!
//! Strict, and small: no DTD, comment or processing instruction, no entities but the five and
//! numbers; names, attributes, nesting and prefixes must be right. Elements are kept as far down as
//! anybody here asks ([`KEPT_DEPTH`]); what is below is checked and stays text. Nothing is copied:
//! an element is a place in what came. Constants here bound everything that a piece may have; a
//! piece beyond them is answered by `policy-violation`.

mod parse;

use crate::fault::StreamFault;
use crate::xml::text;
use std::borrow::Cow;

/// Longest name with its prefix, bytes.
pub const NAME_BYTES_MAX: usize = 256;
/// Attributes of an element.
pub const ATTRIBUTES_MAX: usize = 64;
/// Elements of a piece.
pub const ELEMENTS_MAX: usize = 4_096;
/// Prefixes that are declared at once, those of elements around each other together: each name of a
/// piece is looked up among them.
pub const PREFIXES_MAX: usize = 256;
/// Elements this far below the piece's own are found by [`Element::children`].
pub const KEPT_DEPTH: usize = 4;

/// The namespace of stanzas (RFC 6120 4.8.2).
pub const CLIENT: &str = "jabber:client";
/// The namespace of stanzas between servers (RFC 6120 4.8.2).
pub const SERVER: &str = "jabber:server";
/// The namespace of stanzas of components (XEP-0114 3).
pub const COMPONENT: &str = "jabber:component:accept";
/// The namespace of dialback (XEP-0220 2).
pub const DIALBACK: &str = "jabber:server:dialback";

/// The namespace of streams (RFC 6120 4.8.1).
pub const STREAMS: &str = "http://etherx.jabber.org/streams";

/// A piece that was checked.
#[derive(Debug)]
pub struct Scan<'a> {
    nodes: Vec<Node<'a>>,
    attributes: Vec<Attribute<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct Node<'a> {
    /// The name without its prefix.
    local: &'a str,
    has_prefix: bool,
    namespace: &'a str,
    /// Its attributes, from and to.
    attributes: (usize, usize),
    /// All of it, and what is between its tags.
    whole: &'a str,
    inner: &'a str,
    /// The first node behind it that is not in it.
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Attribute<'a> {
    /// With its prefix.
    name: &'a str,
    /// As it stands between the quotes.
    value: &'a str,
}

/// An element of a piece.
#[derive(Clone, Copy, Debug)]
pub struct Element<'t, 'a> {
    scan: &'t Scan<'a>,
    at: usize,
}

impl<'a> Scan<'a> {
    /// A stanza, or another element of a stream's first level.
    pub fn element(bytes: &'a [u8]) -> Result<Scan<'a>, StreamFault> {
        let text = std::str::from_utf8(bytes).map_err(|_| StreamFault::NotWellFormed)?;
        parse::whole(text)
    }

    /// An element that means the same wherever it is written: not by the prefix that a stream's
    /// header declares, which there is none of in a WebSocket and in BOSH.
    pub fn alone(text: &'a str) -> Result<Scan<'a>, StreamFault> {
        parse::alone(text)
    }

    /// Parses a stanza of a stream between servers, or with a component; its namespace is seen as
    /// that of a client's stream.
    pub fn of_peer(bytes: &'a [u8]) -> Result<Scan<'a>, StreamFault> {
        let text = std::str::from_utf8(bytes).map_err(|_| StreamFault::NotWellFormed)?;
        parse::whole_of_peer(text)
    }

    /// The tag that opens a stream, with the declaration in front of it.
    pub fn header(bytes: &'a [u8]) -> Result<Scan<'a>, StreamFault> {
        let text = std::str::from_utf8(bytes).map_err(|_| StreamFault::NotWellFormed)?;
        parse::header(text)
    }

    /// The outermost element.
    pub fn root(&self) -> Element<'_, 'a> {
        Element { scan: self, at: 0 }
    }
}

impl<'t, 'a> Element<'t, 'a> {
    fn node(&self) -> &'t Node<'a> {
        &self.scan.nodes[self.at]
    }

    /// The name, without its prefix.
    pub fn name(&self) -> &'a str {
        self.node().local
    }

    /// The namespace.
    pub fn namespace(&self) -> &'a str {
        self.node().namespace
    }

    /// Whether it is written with a prefix.
    pub fn has_prefix(&self) -> bool {
        self.node().has_prefix
    }

    /// Whether it is of this name in this namespace.
    pub fn is(&self, name: &str, namespace: &str) -> bool {
        (self.name(), self.namespace()) == (name, namespace)
    }

    /// Whether both are the same place of one piece.
    pub fn is_same(&self, other: &Element<'_, '_>) -> bool {
        std::ptr::eq(self.whole(), other.whole())
    }

    /// All of it, as it came.
    pub fn whole(&self) -> &'a str {
        self.node().whole
    }

    /// Content between its tags, as it came.
    pub fn inner(&self) -> &'a str {
        self.node().inner
    }

    /// The attribute of this name, prefix included.
    pub fn attribute(&self, name: &str) -> Option<Cow<'a, str>> {
        let found = self.attributes().find(|(other, _)| *other == name);
        found.map(|(_, raw)| text::value(raw))
    }

    /// All attributes with their values as they stand between the quotes.
    pub fn attributes(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'t, 'a> {
        let (from, to) = self.node().attributes;
        let attributes = &self.scan.attributes[from..to];
        attributes.iter().map(|attribute| (attribute.name, attribute.value))
    }

    /// Elements directly in it.
    pub fn children(&self) -> impl Iterator<Item = Element<'t, 'a>> + use<'t, 'a> {
        let (scan, end, mut at) = (self.scan, self.node().next, self.at + 1);
        std::iter::from_fn(move || {
            let child = Element { scan, at };
            (at < end).then(|| at = scan.nodes[at].next).map(|()| child)
        })
    }

    /// The first of them of this name in this namespace.
    pub fn child(&self, name: &str, namespace: &str) -> Option<Element<'t, 'a>> {
        self.children().find(|child| child.is(name, namespace))
    }

    /// The text directly in it.
    pub fn text(&self) -> Cow<'a, str> {
        let inner = self.node().inner;
        if !inner.contains('<') {
            return text::unescaped(inner);
        }
        let (mut out, mut rest, mut depth) = (String::new(), inner, 0_usize);
        while let Some(at) = rest.find('<') {
            if depth == 0 {
                out.push_str(&text::unescaped(&rest[..at]));
            }
            let tag = &rest[at..];
            let length = if let Some(section) = tag.strip_prefix(parse::SECTION) {
                let end = section.find("]]>").unwrap_or(section.len());
                if depth == 0 {
                    out.push_str(&section[..end].replace("\r\n", "\n").replace('\r', "\n"));
                }
                parse::SECTION.len() + end + "]]>".len()
            } else {
                let end = parse::tag_length(tag);
                depth = match (tag.starts_with("</"), tag[..end].ends_with("/>")) {
                    (true, _) => depth.saturating_sub(1),
                    (false, true) => depth,
                    (false, false) => depth + 1,
                };
                end
            };
            rest = tag.get(length..).unwrap_or_default();
        }
        out.push_str(&text::unescaped(rest));
        Cow::Owned(out)
    }
}

#[cfg(test)]
mod tests;

//! From text to elements. One pass; what is open is on a stack, with the prefixes that it declares.

use super::{
    ATTRIBUTES_MAX, Attribute, CLIENT, COMPONENT, DIALBACK, ELEMENTS_MAX, KEPT_DEPTH,
    NAME_BYTES_MAX, Node, PREFIXES_MAX, SERVER, STREAMS, Scan,
};
use crate::fault::StreamFault;
use crate::xml::framer::{DEPTH_MAX, is_space};
use crate::xml::text;

pub(super) const SECTION: &str = "<![CDATA[";

/// The namespace of the prefix `xml` (Namespaces in XML 1.0 3).
const XML: &str = "http://www.w3.org/XML/1998/namespace";
const XMLNS: &str = "http://www.w3.org/2000/xmlns/";

type Parsed<T> = Result<T, StreamFault>;

const BAD: StreamFault = StreamFault::NotWellFormed;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    scan: Scan<'a>,
    open: Vec<Open<'a>>,
    /// Prefixes and their namespaces; the innermost is the last.
    bindings: Vec<(&'a str, &'a str)>,
    /// Of the tag that is read: its attributes' namespaces and names.
    names: Vec<(&'a str, &'a str)>,
    elements: usize,
    /// The namespaces of stanzas of servers and components are as that of clients.
    is_of_peer: bool,
    /// Whether the text around it declares no prefix.
    is_alone: bool,
}

/// An element that has begun.
struct Open<'a> {
    /// With its prefix.
    name: &'a str,
    /// Its node, if it is kept.
    node: Option<usize>,
    begins: usize,
    inner: usize,
    /// Bindings that were there before.
    bindings: usize,
}

/// A start tag.
struct Tag<'a> {
    open: Open<'a>,
    is_empty: bool,
}

/// An element of a stream whose content is that of clients.
pub(super) fn whole(text: &str) -> Parsed<Scan<'_>> {
    Parser::new(text, vec![("xml", XML), ("", CLIENT)]).whole()
}

/// An element of a stream between servers, whose header declares the prefix of dialback.
pub(super) fn whole_of_peer(text: &str) -> Parsed<Scan<'_>> {
    let parser = Parser::new(text, vec![("xml", XML), ("", CLIENT)]);
    Parser { is_of_peer: true, ..parser }.whole()
}

/// An element that may be written where no stream's header declares anything.
pub(super) fn alone(text: &str) -> Parsed<Scan<'_>> {
    let parser = Parser::new(text, vec![("xml", XML), ("", CLIENT)]);
    Parser { is_alone: true, ..parser }.whole()
}

impl<'a> Parser<'a> {
    fn whole(mut self) -> Parsed<Scan<'a>> {
        let parser = &mut self;
        parser.element()?;
        while !parser.open.is_empty() {
            parser.content()?;
        }
        match self.at == self.text.len() {
            true => Ok(self.scan),
            false => Err(BAD),
        }
    }
}

/// A declaration, if there is one, and a start tag.
pub(super) fn header(text: &str) -> Parsed<Scan<'_>> {
    let declared = text.starts_with("<?").then(|| text.find("?>")).flatten();
    let begins = declared.map_or(0, |at| at + 2);
    let (declaration, tag) = text.split_at(begins);
    check_declaration(declaration)?;
    let mut parser = Parser::new(tag.trim_start(), vec![("xml", XML)]);
    let tag = parser.start_tag()?;
    match !tag.is_empty && parser.at == parser.text.len() {
        true => Ok(parser.scan),
        false => Err(BAD),
    }
}

/// XML 1.0 2.8: version, encoding, standalone, of which the first must be and the last means
/// nothing here.
fn check_declaration(text: &str) -> Parsed<()> {
    if text.is_empty() {
        return Ok(());
    }
    let inner = text.strip_prefix("<?xml").and_then(|text| text.strip_suffix("?>")).ok_or(BAD)?;
    let mut parser = Parser::new(inner, Vec::new());
    let mut names = Vec::new();
    while parser.skip_space() && parser.at < inner.len() {
        let attribute = parser.attribute()?;
        match (attribute.name, attribute.value) {
            ("version", "1.0") | ("standalone", "yes" | "no") => {}
            ("encoding", encoding) if encoding.eq_ignore_ascii_case("utf-8") => {}
            ("encoding", _) => return Err(StreamFault::UnsupportedEncoding),
            _ => return Err(BAD),
        }
        names.push(attribute.name);
    }
    let is_whole = parser.at == inner.len();
    let order = ["version", "encoding", "standalone"];
    let places = names.iter().filter_map(|name| order.iter().position(|other| other == name));
    let places: Vec<_> = places.collect();
    let is_right = places.first() == Some(&0) && places.is_sorted_by(|a, b| a < b);
    (is_whole && is_right).then_some(()).ok_or(BAD)
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, bindings: Vec<(&'a str, &'a str)>) -> Parser<'a> {
        // As most stanzas have, so that what is kept of them need not grow.
        let scan = Scan { nodes: Vec::with_capacity(8), attributes: Vec::with_capacity(8) };
        let (open, names) = (Vec::with_capacity(4), Vec::new());
        let (is_of_peer, is_alone) = (false, false);
        Parser { text, at: 0, scan, open, bindings, names, elements: 0, is_of_peer, is_alone }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn takes(&mut self, word: &str) -> bool {
        let is_there = self.rest().starts_with(word);
        self.at += if is_there { word.len() } else { 0 };
        is_there
    }

    fn skip_space(&mut self) -> bool {
        let count = self.rest().bytes().take_while(is_space).count();
        self.at += count;
        count > 0
    }

    /// Text up to something else, then that.
    fn content(&mut self) -> Parsed<()> {
        let rest = self.rest();
        let length = rest.find('<').ok_or(BAD)?;
        let said = &rest[..length];
        if said.contains("]]>") || !text::is_content(said) {
            return Err(BAD);
        }
        self.at += length;
        if self.takes("</") {
            self.end_tag()
        } else if self.takes(SECTION) {
            let rest = self.rest();
            let length = rest.find("]]>").ok_or(BAD)?;
            self.at += length + "]]>".len();
            text::are_chars(&rest[..length]).then_some(()).ok_or(BAD)
        } else if self.rest().starts_with("<!") || self.rest().starts_with("<?") {
            Err(StreamFault::RestrictedXml)
        } else {
            self.element()
        }
    }

    fn element(&mut self) -> Parsed<()> {
        let tag = self.start_tag()?;
        if self.open.len() == usize::from(DEPTH_MAX) {
            return Err(StreamFault::PolicyViolation);
        }
        match tag.is_empty {
            true => self.close(tag.open, self.at),
            false => self.open.push(tag.open),
        }
        Ok(())
    }

    fn start_tag(&mut self) -> Parsed<Tag<'a>> {
        self.elements += 1;
        if self.elements > ELEMENTS_MAX {
            return Err(StreamFault::PolicyViolation);
        }
        let begins = self.at;
        if !self.takes("<") {
            return Err(BAD);
        }
        let name = self.name()?;
        let (first, bindings) = (self.scan.attributes.len(), self.bindings.len());
        let is_empty = loop {
            let is_apart = self.skip_space();
            if self.takes(">") {
                break false;
            } else if self.takes("/>") {
                break true;
            } else if !is_apart {
                return Err(BAD);
            }
            let attribute = self.attribute()?;
            if self.scan.attributes.len() - first == ATTRIBUTES_MAX {
                return Err(StreamFault::PolicyViolation);
            }
            self.declare(attribute)?;
            self.scan.attributes.push(attribute);
        };
        self.check_attributes(first)?;
        let (prefix, local) = prefixed(name).unwrap_or(("", name));
        let namespace = self.bound(prefix)?;
        let node = (self.open.len() <= KEPT_DEPTH).then_some(self.scan.nodes.len());
        if node.is_some() {
            self.scan.nodes.push(Node {
                local,
                has_prefix: !prefix.is_empty(),
                namespace,
                attributes: (first, self.scan.attributes.len()),
                whole: "",
                inner: "",
                next: 0,
            });
        } else {
            self.scan.attributes.truncate(first);
        }
        let open = Open { name, node, begins, inner: self.at, bindings };
        Ok(Tag { open, is_empty })
    }

    fn end_tag(&mut self) -> Parsed<()> {
        let name = self.name()?;
        let inner_ends = self.at - name.len() - "</".len();
        self.skip_space();
        let open = self.open.pop().ok_or(BAD)?;
        if !self.takes(">") || open.name != name {
            return Err(BAD);
        }
        self.close(open, inner_ends);
        Ok(())
    }

    fn close(&mut self, open: Open<'a>, inner_ends: usize) {
        self.bindings.truncate(open.bindings);
        let next = self.scan.nodes.len();
        if let Some(node) = open.node.and_then(|node| self.scan.nodes.get_mut(node)) {
            node.whole = &self.text[open.begins..self.at];
            node.inner = &self.text[open.inner..inner_ends.max(open.inner)];
            node.next = next;
        }
    }

    fn attribute(&mut self) -> Parsed<Attribute<'a>> {
        let name = self.name()?;
        self.skip_space();
        if !self.takes("=") {
            return Err(BAD);
        }
        self.skip_space();
        let quote = self.rest().chars().next().filter(|char| ['"', '\''].contains(char));
        let quote = quote.ok_or(BAD)?;
        let rest = &self.rest()[1..];
        let ends = |byte: u8| char::from(byte) == quote || byte == b'<';
        let length = rest.bytes().position(ends).ok_or(BAD)?;
        let value = &rest[..length];
        let is_value = rest[length..].starts_with(quote) && text::is_content(value);
        self.at += length + 2;
        is_value.then_some(Attribute { name, value }).ok_or(BAD)
    }

    /// A name that may have a prefix.
    fn name(&mut self) -> Parsed<&'a str> {
        let rest = self.rest();
        let length = name_length(rest).filter(|&length| length <= NAME_BYTES_MAX);
        let length = length.ok_or_else(|| fault_of_name(rest))?;
        self.at += length;
        Ok(&rest[..length])
    }

    /// Takes the prefix that an attribute declares, if it does.
    fn declare(&mut self, attribute: Attribute<'a>) -> Parsed<()> {
        let Attribute { name, value } = attribute;
        let prefix = match prefixed(name) {
            None if name == "xmlns" => "",
            Some(("xmlns", prefix)) => prefix,
            _ => return Ok(()),
        };
        let is_xml = (prefix == "xml", value == XML);
        let is_lawful = is_xml.0 == is_xml.1
            && prefix != "xmlns"
            && value != XMLNS
            && (prefix.is_empty() || !value.is_empty());
        if !is_lawful {
            return Err(BAD);
        }
        // They are compared as they are written, so they must be as they are meant; and parsers of
        // readers give up over what is not of a URI (RFC 3986 2).
        let is_of_uri = |b: u8| b.is_ascii_alphanumeric() || b"-._~:/?#[]@!$()*+,;=%".contains(&b);
        if !value.bytes().all(is_of_uri) {
            return Err(StreamFault::PolicyViolation);
        }
        /// Number of prefixes that need no declaration: `xml`, and the empty one.
        const KNOWN: usize = 2;
        if self.bindings.len() >= PREFIXES_MAX + KNOWN {
            return Err(StreamFault::PolicyViolation);
        }
        self.bindings.push((prefix, value));
        Ok(())
    }

    fn bound(&self, prefix: &str) -> Parsed<&'a str> {
        let found = self.bindings.iter().rev().find(|(other, _)| *other == prefix);
        match found {
            Some((_, SERVER | COMPONENT)) if self.is_of_peer => Ok(CLIENT),
            Some((_, namespace)) => Ok(namespace),
            None if prefix.is_empty() => Ok(""),
            // The stream's header declares it. What is in a stanza may be shown where none does.
            None if prefix == "stream" && self.open.is_empty() && !self.is_alone => Ok(STREAMS),
            None if prefix == "db" && self.is_of_peer && self.open.is_empty() => Ok(DIALBACK),
            None => Err(StreamFault::BadNamespacePrefix),
        }
    }

    /// Checks that all prefixes are bound, and that no attribute occurs twice, by its name or by
    /// its namespace.
    fn check_attributes(&mut self, first: usize) -> Parsed<()> {
        self.names.clear();
        for at in first..self.scan.attributes.len() {
            let name = self.scan.attributes[at].name;
            let meant = match prefixed(name) {
                Some(("xmlns", prefix)) => (XMLNS, prefix),
                Some((prefix, local)) => (self.bound(prefix)?, local),
                None => ("", name),
            };
            if self.names.contains(&meant) {
                return Err(BAD);
            }
            self.names.push(meant);
        }
        Ok(())
    }
}

/// A name's prefix and what is behind it, if it has one. Names are short: `split_once` takes longer
/// to begin than it takes to look at each byte.
fn prefixed(name: &str) -> Option<(&str, &str)> {
    let at = name.bytes().position(|byte| byte == b':')?;
    Some((&name[..at], &name[at + 1..]))
}

/// The length of the name at the front, with its prefix.
///
/// Only letters that every edition of XML 1.0 allows count. Other letters are allowed by some
/// editions only: accepted here, they would end the stream of a reader whose parser follows the
/// fourth.
fn name_length(text: &str) -> Option<usize> {
    let (mut length, mut begins, mut has_prefix) = (0, true, false);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'_' | b'a'..=b'z' => begins = false,
            b'-' | b'.' | b'0'..=b'9' if !begins => {}
            b':' if !begins && !has_prefix => (begins, has_prefix) = (true, true),
            b'-' | b'.' | b'0'..=b':' | 0x80.. => return None,
            _ => break,
        }
        length += 1;
    }
    (!begins).then_some(length)
}

/// Why there is no such name at the front.
fn fault_of_name(text: &str) -> StreamFault {
    let goes_on = |char: char| text::is_in_name(char) || char == ':';
    let name = text.split(|char| !goes_on(char)).next().unwrap_or_default();
    match name.len() > NAME_BYTES_MAX || name.splitn(2, ':').all(text::is_name) {
        true => StreamFault::PolicyViolation,
        false => BAD,
    }
}

/// The length of the tag at the front of a text that was checked.
pub(super) fn tag_length(text: &str) -> usize {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return at + 1,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    text.len()
}

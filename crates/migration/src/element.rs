//! An element of XML as another server has kept it, and as text again.
//!
//! An element is read from the server's own files: tables of Lua or a file of XML. Invariant: the
//! output is well-formed, each element with its own namespace and none with a prefix; characters
//! that XML does not allow are left out.

use std::fmt::Write;

/// The namespace of `xml:lang`.
pub(crate) const XML: &str = "http://www.w3.org/XML/1998/namespace";

/// An element.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MovedElement {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Attributes without a namespace, and `xml:lang`.
    pub attributes: Vec<(String, String)>,
    /// Content of the element.
    pub children: Vec<MovedInner>,
}

/// Content of an element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MovedInner {
    /// Another one.
    Element(MovedElement),
    /// Text.
    Text(String),
}

impl MovedElement {
    /// Whether it is this one.
    pub fn is(&self, name: &str, namespace: &str) -> bool {
        self.name == name && self.namespace == namespace
    }

    /// An attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| &**value)
    }

    /// The elements in it.
    pub fn elements(&self) -> impl Iterator<Item = &MovedElement> {
        self.children.iter().filter_map(|inner| match inner {
            MovedInner::Element(element) => Some(element),
            MovedInner::Text(_) => None,
        })
    }

    /// The first of this name in it.
    pub fn child(&self, name: &str, namespace: &str) -> Option<&MovedElement> {
        self.elements().find(|child| child.is(name, namespace))
    }

    /// The text that stands directly in it.
    pub fn text(&self) -> String {
        let texts = self.children.iter().filter_map(|inner| match inner {
            MovedInner::Text(text) => Some(&**text),
            MovedInner::Element(_) => None,
        });
        texts.collect()
    }

    /// As text.
    pub fn write(&self) -> String {
        let mut out = String::new();
        self.put("", &mut out);
        out
    }

    fn put(&self, around: &str, out: &mut String) {
        let _ = write!(out, "<{}", self.name);
        if self.namespace != around {
            put_attribute("xmlns", &self.namespace, out);
        }
        for (name, value) in &self.attributes {
            put_attribute(name, value, out);
        }
        if self.children.is_empty() {
            return out.push_str("/>");
        }
        out.push('>');
        for inner in &self.children {
            match inner {
                MovedInner::Element(element) => element.put(&self.namespace, out),
                MovedInner::Text(text) => put_text(text, out),
            }
        }
        let _ = write!(out, "</{}>", self.name);
    }
}

fn put_attribute(name: &str, value: &str, out: &mut String) {
    let _ = write!(out, " {name}='");
    for sign in value.chars().filter(|sign| is_of_xml(*sign)) {
        match sign {
            '\'' => out.push_str("&apos;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            '\r' => out.push_str("&#13;"),
            sign => put_sign(sign, out),
        }
    }
    out.push('\'');
}

fn put_text(text: &str, out: &mut String) {
    for sign in text.chars().filter(|sign| is_of_xml(*sign)) {
        match sign {
            '\r' => out.push_str("&#13;"),
            sign => put_sign(sign, out),
        }
    }
}

fn put_sign(sign: char, out: &mut String) {
    match sign {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        sign => out.push(sign),
    }
}

/// XML 1.0 2.2.
fn is_of_xml(sign: char) -> bool {
    matches!(sign, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..) && sign != '\u{fffe}'
}

/// Whether this is a name of an element or an attribute: of ASCII, as XMPP has them.
pub(crate) fn is_name(text: &str) -> bool {
    let is_begin = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let is_part = |byte: u8| is_begin(byte) || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    text.bytes().next().is_some_and(is_begin) && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_xml_with_namespaces_where_they_change() {
        let inner = |name: &str, namespace: &str| MovedElement {
            name: name.into(),
            namespace: namespace.into(),
            ..MovedElement::default()
        };
        let body = MovedElement {
            children: vec![MovedInner::Text("a < b & \u{1}c".into())],
            ..inner("body", "c")
        };
        let message = MovedElement {
            attributes: vec![("id".into(), "it's\n\"1\"".into()), ("xml:lang".into(), "en".into())],
            children: vec![MovedInner::Element(body), MovedInner::Element(inner("x", "other"))],
            ..inner("message", "c")
        };
        assert_eq!(
            message.write(),
            "<message xmlns='c' id='it&apos;s&#10;\"1\"' xml:lang='en'>\
             <body>a &lt; b &amp; c</body><x xmlns='other'/></message>"
        );
        assert!(message.child("x", "other").is_some() && message.child("x", "c").is_none());
        assert_eq!(message.attribute("xml:lang"), Some("en"));
        assert!(["a", "vCard", "x-y.2", "_"].iter().all(|name| is_name(name)));
        assert!(["", "1", "a b", "a>", "ä", "a:b"].iter().all(|name| !is_name(name)));
    }
}

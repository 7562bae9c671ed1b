//! Parts of the wire format that streams between servers and of components share.

use super::Out;
use crate::fault::StreamFault;
use crate::jid;
use crate::stanza::put_attribute;
use crate::stream;
use crate::xml::scan::{CLIENT, DIALBACK, Element, SERVER, STREAMS};

/// The namespace of dialback as a feature of a stream (XEP-0220 2.6).
pub(super) const DIALBACK_FEATURE: &str = "urn:xmpp:features:dialback";

/// An id for a stream, which nobody can guess.
pub(super) fn new_id(out: &mut Out) -> String {
    format!("{:032x}", out.secrets().number())
}

/// Writes the header of a stream in this namespace: from whom, to whom, with which id.
pub(super) fn write_header(
    namespace: &str,
    (from, to, id): (Option<&str>, Option<&str>, Option<&str>),
    is_new: bool,
    out: &mut Vec<u8>,
) {
    let head =
        format!("<?xml version='1.0'?><stream:stream xmlns='{namespace}' xmlns:stream='{STREAMS}'");
    out.extend_from_slice(head.as_bytes());
    if namespace == SERVER {
        put_attribute("xmlns:db", Some(DIALBACK), out);
    }
    put_attribute("from", from, out);
    put_attribute("to", to, out);
    put_attribute("id", id, out);
    put_attribute("version", is_new.then_some("1.0"), out);
    out.push(b'>');
}

/// Whether this is the header of a stream between servers, and of which kind: one of XMPP 1.0, with
/// features.
pub(super) fn check_header(header: &Element<'_, '_>) -> Result<bool, StreamFault> {
    check_namespace(header, SERVER).map(|()| stream::is_versioned(header))
}

/// Whether this is the header of a stream in this namespace.
pub(super) fn check_namespace(
    header: &Element<'_, '_>,
    namespace: &str,
) -> Result<(), StreamFault> {
    let declared = header.attribute("xmlns");
    match header.is("stream", STREAMS) && declared.as_deref() == Some(namespace) {
        true => Ok(()),
        false => Err(StreamFault::InvalidNamespace),
    }
}

/// The domain of a stanza's sender, which it must name, and the receiver too (RFC 6120 8.1).
pub(super) fn sender(stanza: &Element<'_, '_>) -> Result<Box<str>, StreamFault> {
    let is_stanza = ["message", "presence", "iq"].contains(&stanza.name());
    if stanza.namespace() != CLIENT || !is_stanza {
        return Err(StreamFault::UnsupportedStanzaType);
    }
    if stanza.attribute("to").is_none() {
        return Err(StreamFault::ImproperAddressing);
    }
    let from = stanza.attribute("from").ok_or(StreamFault::ImproperAddressing)?;
    jid::domain_of(&from).ok_or(StreamFault::ImproperAddressing)
}

/// Writes a word of dialback: its name, addresses, id, type and what is in it.
pub(super) fn write_dialback(
    name: &str,
    (from, to, id): (&str, &str, Option<&str>),
    kind: Option<&str>,
    inner: &str,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(format!("<db:{name}").as_bytes());
    put_attribute("from", Some(from), out);
    put_attribute("to", Some(to), out);
    put_attribute("id", id, out);
    put_attribute("type", kind, out);
    out.push(b'>');
    out.extend_from_slice(inner.as_bytes());
    out.extend_from_slice(format!("</db:{name}>").as_bytes());
}

/// The domains that a word of dialback is from and to.
pub(super) fn dialback_domains(word: &Element<'_, '_>) -> Option<(Box<str>, Box<str>)> {
    let domain = |name: &str| word.attribute(name).and_then(|text| jid::domain(&text));
    Some((domain("from")?, domain("to")?))
}

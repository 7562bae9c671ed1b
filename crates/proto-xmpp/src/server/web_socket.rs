//! A stream in WebSocket messages (RFC 7395): each element is a message of its own, and stands for
//! itself.
//!
//! The machine writes one stream, as over TCP. Its output of a call is taken apart here: the header
//! becomes `<open/>`, the end `<close/>`, and an element declares its namespaces itself. Input
//! needs no such work, but for those two ([`crate::stream`]). Invariant: nothing but whole elements
//! is in the lane when it is framed.

use super::Out;
use crate::stanza::put_attribute;
use crate::stream::FRAMING;
use crate::xml::framer::{Framer, StreamPiece};
use crate::xml::scan::{CLIENT, STREAMS, Scan};

/// Frames what was written in this call.
pub(super) fn frame(out: &mut Out) {
    let written = std::mem::take(out.bytes());
    let (mut framer, mut at) = (Framer::default(), 0);
    while at < written.len() {
        let rest = &written[at..];
        let is_header = rest.starts_with(b"<?xml");
        let piece = framer.next(rest, !is_header, usize::MAX);
        let Ok(Some(piece)) = piece else {
            base::never!(true, "what is written is whole elements");
            return;
        };
        let bytes = out.bytes();
        at += match piece {
            StreamPiece::Space(count) => {
                at += count;
                continue;
            }
            StreamPiece::Header(count) => {
                open(&rest[..count], bytes);
                count
            }
            StreamPiece::Element(count) => {
                put_standalone(&rest[..count], bytes);
                count
            }
            StreamPiece::Close(count) => {
                bytes.extend_from_slice(format!("<close xmlns='{FRAMING}'/>").as_bytes());
                count
            }
        };
        out.end_message();
    }
}

/// A header as RFC 7395 3.3.2 has it.
fn open(header: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("<open xmlns='{FRAMING}'").as_bytes());
    let scan = Scan::header(header);
    for name in ["id", "from", "version", "xml:lang"] {
        let value = scan.as_ref().ok().and_then(|scan| scan.root().attribute(name));
        put_attribute(name, value.as_deref(), out);
    }
    out.extend_from_slice(b"/>");
}

/// An element with the namespaces that the stream's header declares over TCP (RFC 7395 3.3.3).
pub(crate) fn put_standalone(element: &[u8], out: &mut Vec<u8>) {
    let name = element.iter().take_while(|byte| !matches!(byte, b' ' | b'>' | b'/')).count();
    let (begin, rest) = element.split_at(name);
    let tag_ends = rest.iter().position(|byte| *byte == b'>').unwrap_or(rest.len());
    let declares = |text: &[u8]| rest[..tag_ends].windows(text.len()).any(|part| part == text);
    out.extend_from_slice(begin);
    if begin.starts_with(b"<stream:") {
        out.extend_from_slice(format!(" xmlns:stream='{STREAMS}'").as_bytes());
    } else if !declares(b" xmlns='") {
        out.extend_from_slice(format!(" xmlns='{CLIENT}'").as_bytes());
    }
    out.extend_from_slice(rest);
}

//! Which stanzas came and went, and what stands beside them in a stream.
//!
//! Incoming stanzas are counted where they are read. Outgoing ones are found in the lane: a machine
//! writes whole elements, so the names of elements of the first level are counted, whoever wrote
//! them.

use super::scan::{CLIENT, Element};
use crate::stream::{FRAMING, SM};
use model::counters::frames::{FrameKind, FrameLane};
use model::machine::Outbox;

const MESSAGE: u32 = 1;
const PRESENCE: u32 = 2;
const IQ: u32 = 3;
const MANAGEMENT: u32 = 4;
const STREAM: u32 = 5;
const LOGIN: u32 = 6;

/// A stream's header came.
pub(crate) fn header<Up>(out: &mut Outbox<Up>) {
    out.count_frame(FrameKind::of(FrameLane::XmppIn, STREAM));
}

/// An element of a device that is not bound came.
pub(crate) fn of_login<Up>(out: &mut Outbox<Up>) {
    out.count_frame(FrameKind::of(FrameLane::XmppIn, LOGIN));
}

/// An element of a bound device came.
pub(crate) fn element<Up>(element: &Element<'_, '_>, out: &mut Outbox<Up>) {
    let number = match (element.namespace(), element.name()) {
        (CLIENT, "message") => MESSAGE,
        (CLIENT, "presence") => PRESENCE,
        (CLIENT, "iq") => IQ,
        (SM, _) => MANAGEMENT,
        (FRAMING, _) => STREAM,
        _ => 0,
    };
    out.count_frame(FrameKind::of(FrameLane::XmppIn, number));
}

/// Counts what is to be sent.
pub(crate) fn sent<Up>(out: &mut Outbox<Up>) {
    out.count_wire(|bytes, kinds| {
        names(bytes, |name| kinds.push(FrameKind::of(FrameLane::XmppOut, number_of(name))));
    });
}

fn number_of(name: &[u8]) -> u32 {
    match name {
        b"message" => MESSAGE,
        b"presence" => PRESENCE,
        b"iq" => IQ,
        b"r" | b"a" | b"enabled" | b"resumed" | b"failed" => MANAGEMENT,
        name if name.starts_with(b"stream:") => STREAM,
        b"open" | b"close" => STREAM,
        b"proceed" | b"challenge" | b"success" | b"failure" | b"continue" => LOGIN,
        _ => 0,
    }
}

/// The names of the elements of the first level, in order; a stream's header encloses nothing.
fn names(bytes: &[u8], mut each: impl FnMut(&[u8])) {
    let (mut at, mut depth) = (0, 0usize);
    while let Some(begin) = bytes[at..].iter().position(|&byte| byte == b'<') {
        let tag = &bytes[at + begin + 1..];
        let end = match tag {
            [b'!', ..] => tag.windows(3).position(|it| it == b"]]>").map(|it| it + 2),
            _ => end_of_tag(tag),
        };
        let Some(end) = end else { return };
        match tag[0] {
            b'?' | b'!' => {}
            b'/' => depth = depth.saturating_sub(1),
            _ => {
                let name = name_of(&tag[..end]);
                if depth == 0 {
                    each(name);
                }
                let is_whole = tag[..end].ends_with(b"/") || name == b"stream:stream";
                depth += usize::from(!is_whole);
            }
        }
        at += begin + 1 + end + 1;
    }
}

/// Where a tag ends: at the first `>` that no quotes enclose.
fn end_of_tag(tag: &[u8]) -> Option<usize> {
    let mut quote = None;
    tag.iter().position(|&byte| match (quote, byte) {
        (None, b'>') => true,
        (None, b'\'' | b'"') => {
            quote = Some(byte);
            false
        }
        (Some(open), byte) => {
            quote = (open != byte).then_some(open);
            false
        }
        _ => false,
    })
}

fn name_of(tag: &[u8]) -> &[u8] {
    let end = tag.iter().position(|byte| matches!(byte, b' ' | b'/' | b'>'));
    &tag[..end.unwrap_or(tag.len())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tests::harness::{Side, bound, says};

    fn found(xml: &str) -> Vec<String> {
        let mut found = Vec::new();
        names(xml.as_bytes(), |name| found.push(String::from_utf8_lossy(name).into_owned()));
        found
    }

    fn counted(side: &mut Side) -> Vec<(&'static str, u64, u64)> {
        let counters = side.take_counters();
        let of = |lane, name| {
            let kinds = FrameKind::of_lane(lane).filter(|kind| kind.name() == name);
            kinds.map(|kind| counters.frames_of(kind)).sum::<u64>()
        };
        let names = FrameKind::of_lane(FrameLane::XmppIn).map(FrameKind::name);
        let all =
            names.map(|name| (name, of(FrameLane::XmppIn, name), of(FrameLane::XmppOut, name)));
        all.filter(|(_, taken, sent)| taken + sent > 0).collect()
    }

    #[test]
    fn stanzas_are_counted_by_kind_in_both_directions() {
        let mut side = bound();
        let opening = counted(&mut side);
        let names: Vec<&str> = opening.iter().map(|(name, ..)| *name).collect();
        assert_eq!(names, ["iq", "stream", "login"], "{opening:?}");
        let (_, taken, sent) = opening[1];
        assert_eq!((taken, sent), (2, 4), "two headers, and features behind each answer");
        says(&mut side, "<presence/>");
        says(&mut side, "<iq type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>");
        says(&mut side, "<enable xmlns='urn:xmpp:sm:3'/><r xmlns='urn:xmpp:sm:3'/>");
        assert_eq!(counted(&mut side), [("presence", 1, 1), ("iq", 1, 1), ("sm", 2, 2)]);
    }

    #[test]
    fn elements_of_the_first_level_are_found_whatever_stands_in_them() {
        let xml = "<?xml version='1.0'?><stream:stream to='a'><stream:features><x/>\
            </stream:features><iq id='1'><q a='>' b=\"'/>\"><iq/></q></iq><r xmlns='s'/>\
            <message><body>a &lt;iq> <![CDATA[<iq>]]></body></message><presence/></stream:stream>";
        let expected = ["stream:stream", "stream:features", "iq", "r", "message", "presence"];
        assert_eq!(found(xml), expected);
        let numbers = expected.map(|name| number_of(name.as_bytes()));
        assert_eq!(numbers, [STREAM, STREAM, IQ, MANAGEMENT, MESSAGE, PRESENCE]);
        // Bytes that end anywhere are no reason to fail.
        (0..xml.len()).for_each(|end| _ = found(&xml[..end]));
        for odd in ["<", "<>", "</", "<!", "< >", "<a", "a>b", ""] {
            assert!(found(odd).len() <= 1, "{odd:?}");
        }
    }
}

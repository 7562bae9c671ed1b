//! IM, frames of clients and of servers.
//!
//! Text between users is the payload; of lists the length is shown.

mod client;
mod server;

use super::{Decoded, Fields};
use model::ports::trace::TraceDirection;
use proto_im::codec::WireFault;
use proto_im::codec::client_frame::ClientFrame;
use proto_im::codec::content::ContentFields;
use proto_im::codec::conversation::{ChangeFields, PlaceFields};
use proto_im::codec::frame::{PREFACE, split};
use proto_im::codec::server_frame::ServerFrame;
use proto_im::codec::transient::TransientFields;

pub(super) fn read(direction: TraceDirection, mut bytes: &[u8]) -> Vec<Decoded<'_>> {
    let mut found = Vec::new();
    // No frame begins as the preface does: its first byte would be a length, and its third no tag.
    if direction == TraceDirection::In && bytes.starts_with(&PREFACE) {
        found.push(Decoded::new("Preface", PREFACE.len(), Fields::default()));
        bytes = &bytes[PREFACE.len()..];
    }
    while !bytes.is_empty() {
        let step = match split(bytes, usize::MAX) {
            Ok(Some((frame, taken))) => decoded(direction, frame, taken).map(|it| (it, taken)),
            Ok(None) => {
                found.push(Decoded::unread(bytes.len(), "cut"));
                break;
            }
            Err(fault) => Err(fault),
        };
        match step {
            Ok((decoded, taken)) => {
                found.push(decoded);
                bytes = &bytes[taken..];
            }
            Err(_) => {
                found.push(Decoded::unread(bytes.len(), "malformed"));
                break;
            }
        }
    }
    found
}

fn decoded(
    direction: TraceDirection,
    frame: &[u8],
    bytes: usize,
) -> Result<Decoded<'_>, WireFault> {
    Ok(match direction {
        TraceDirection::In => client::decoded(ClientFrame::read(frame)?, bytes),
        TraceDirection::Out => match ServerFrame::read(frame)? {
            Some(frame) => server::decoded(frame, bytes),
            None => Decoded::new("unknown", bytes, Fields::default()),
        },
    })
}

/// Of a request, or of its answer.
fn numbered(number: u32) -> Fields {
    Fields::default().set("number", number)
}

/// Transient signals, which are not stored. Only the state is shown.
fn transient(it: &TransientFields<'_>) -> Fields {
    let fields = Fields::default().set_text("from", it.from).set("to", it.to);
    content(fields.set("state", it.state), &it.content)
}

/// With what is said, as its payload.
fn said<'a>(decoded: Decoded<'a>, text: Option<&'a str>) -> Decoded<'a> {
    match text {
        Some(text) => decoded.with(text.as_bytes()),
        None => decoded,
    }
}

fn content(fields: Fields, content: &ContentFields<'_>) -> Fields {
    let fields = fields.set("kind", content.kind).set_if("uncounted", content.uncounted);
    let fields = fields.set_some("quotes", content.quote.map(|quote| quote.seq));
    let mentions = Some(content.mentions.len() as u64).filter(|count| *count > 0);
    let fields = fields.set_some("mentions", mentions);
    let fields = fields.set_if("everybody", content.everybody);
    match content.extra.is_empty() {
        true => fields,
        false => fields.count("extra_bytes", content.extra.len()),
    }
}

fn place(place: &PlaceFields<'_>) -> Fields {
    numbered(place.number).set("with", place.with).set("seq", place.seq)
}

fn change(fields: Fields, change: &ChangeFields<'_>) -> Fields {
    fields.set("setting", change.setting).set("on", change.on)
}

//! MIOP, frames of all versions.
//!
//! Of the text properties of the classic versions, those are shown that are known to be no secret.

use super::{Decoded, Fields};
use model::ports::trace::TraceValue;
use proto_miop::codec::classic::{self, ClassicFrame, ClassicOpcode};
use proto_miop::codec::frame::{self, Frame, Opcode, flag};
use proto_miop::codec::property::Props;
use proto_miop::codec::record::{ClassicRecord, PushRecord};
use proto_miop::codec::result::ResultCode;
use proto_miop::codec::text::Text;
use proto_miop::codec::{FrameFault, Version};
use std::borrow::Cow;

/// Pushes of a frame that are shown by their ids.
const PUSHES_MAX: usize = 16;

/// Tags of a frame that are shown.
const TAGS_MAX: usize = 64;

/// Text properties that are shown.
const PLAIN: &[&str] = &["u", "id", "r", "t", "ts", "ack", "authtype"];

/// Text properties that prove something.
const PROOFS: &[&str] = &["sign", "token"];

pub(super) fn read<'a>(mut bytes: &'a [u8], name: &mut Option<&'static str>) -> Vec<Decoded<'a>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        if let [0, 0, rest @ ..] = bytes {
            // What some classic devices send behind a Bind (MIOP 4.3).
            bytes = rest;
            continue;
        }
        match step(bytes, name) {
            Ok(Some((decoded, taken))) => {
                found.push(decoded);
                bytes = &bytes[taken..];
            }
            Ok(None) => {
                found.push(Decoded::unread(bytes.len(), "cut"));
                break;
            }
            Err(fault) => {
                found.push(Decoded::unread(bytes.len(), fault.name()));
                break;
            }
        }
    }
    found
}

fn step<'a>(
    bytes: &'a [u8],
    name: &mut Option<&'static str>,
) -> Result<Option<(Decoded<'a>, usize)>, FrameFault> {
    let Some(version) = Version::sniff(bytes)? else { return Ok(None) };
    *name = Some(version.name());
    if version.is_classic() {
        let parsed = classic::parse(version, bytes, usize::MAX)?;
        return Ok(parsed.map(|(frame, taken)| (old(&frame, taken), taken)));
    }
    let parsed = frame::parse(bytes, usize::MAX)?;
    Ok(parsed.map(|(frame, taken)| (new(frame, taken), taken)))
}

fn new<'a>(frame: Frame<'a>, bytes: usize) -> Decoded<'a> {
    let mut fields = Fields::default()
        .set_some("seq", frame.seq)
        .set_if("ack_wanted", frame.flags & flag::ACK_REQ != 0)
        .set_if("dup", frame.flags & flag::DUP != 0);
    fields = said(fields, &frame.props);
    let kind = format!("{:?}", frame.opcode);
    if frame.opcode != Opcode::Msg {
        let decoded = Decoded::new(kind, bytes, fields);
        return if frame.payload.is_empty() { decoded } else { decoded.with(frame.payload) };
    }
    let (mut rest, mut pushes, mut body) = (frame.payload, Vec::new(), None);
    while !rest.is_empty() {
        let Ok(record) = PushRecord::read(&mut rest) else { break };
        pushes.push(format!("{} ({} bytes)", record.id, record.body.len()));
        body = body.or(Some(record.body));
    }
    with_pushes(Decoded::new(kind, bytes, fields), pushes, body)
}

fn old<'a>(frame: &ClassicFrame<'a>, bytes: usize) -> Decoded<'a> {
    let mut fields = Fields::default();
    for name in PLAIN {
        fields = fields.set_some(name, frame.props.value(name));
    }
    for name in PROOFS {
        fields = fields.secret(name, frame.props.value(name).unwrap_or_default().as_bytes());
    }
    fields = addresses(fields, frame.props);
    let decoded = Decoded::new(format!("{:?}", frame.opcode), bytes, fields);
    if frame.opcode != ClassicOpcode::Msg {
        return decoded;
    }
    let (mut rest, mut pushes, mut body) = (frame.data, Vec::new(), None);
    while !rest.is_empty() {
        let Ok(record) = ClassicRecord::read(&mut rest) else { break };
        pushes.push(format!("{} ({} bytes)", record.id, record.body.len()));
        body = body.or(Some(record.body));
    }
    with_pushes(decoded, pushes, body)
}

/// The ids of pushes, and the body of the first.
fn with_pushes<'a>(
    mut decoded: Decoded<'a>,
    mut pushes: Vec<String>,
    body: Option<&'a [u8]>,
) -> Decoded<'a> {
    if pushes.len() > PUSHES_MAX {
        let more = pushes.len() - PUSHES_MAX;
        pushes.truncate(PUSHES_MAX);
        pushes.push(format!("and {more} more"));
    }
    decoded.fields.push(("pushes", TraceValue::List(pushes)));
    match body {
        Some(body) => decoded.with(body),
        None => decoded,
    }
}

fn addresses(fields: Fields, props: Text<'_>) -> Fields {
    let addresses = props.addrs();
    match addresses.is_empty() {
        true => fields,
        false => fields.set("addresses", TraceValue::List(addresses)),
    }
}

/// Properties of a frame.
fn said(fields: Fields, props: &Props<'_>) -> Fields {
    let text = |bytes: Option<&[u8]>| bytes.map(|it| TraceValue::Text(lossy(it).into_owned()));
    let heartbeat = props
        .heartbeat_wish
        .map(|(want, least, most)| TraceValue::Text(format!("{want} ({least} to {most})")));
    let result = props.result.map(|number| TraceValue::Text(result_name(number)));
    let mut fields = fields
        .set_some("product", text(props.product_key))
        .set_some("device", text(props.device_id))
        .set_some("auth_type", props.auth_type)
        .set_some("key_id", props.key_id)
        .set_some("client_ts", props.client_ts)
        .set_some("heartbeat_wish_s", heartbeat)
        .set_some("heartbeat_s", props.heartbeat)
        .set_some("last_msg_id", props.last_msg_id)
        .set_some("session_epoch", props.session_epoch)
        .set_some("result", result)
        .set_some("reason", text(props.reason))
        .set_some("retry_after_ms", props.retry_after_ms)
        .set_some("caps", props.caps)
        .set_some("max_frame", props.max_frame)
        .set_some("max_inflight", props.max_inflight)
        .set_some("ack_timeout_ms", props.ack_timeout_ms)
        .set_some("offline_count", props.offline_count)
        .set_some("server_time", props.server_time)
        .set_some("count", props.count)
        .set_some("report_seq", props.report_seq)
        .secret("mac", props.mac.as_ref().map_or(&[], |it| &it[..]))
        .secret("token", props.token.unwrap_or_default())
        .secret("resume_token", props.resume_token.as_ref().map_or(&[], |it| &it[..]));
    if !props.addrs.is_empty() {
        let addresses = props.addrs.iter().map(|&it| it.to_owned());
        fields = fields.set("addresses", TraceValue::List(addresses.collect()));
    }
    if !props.tags.is_empty() {
        let tags = props.tags.iter().take(TAGS_MAX).map(|it| lossy(it).into_owned());
        fields = fields.set("tags", TraceValue::List(tags.collect()));
    }
    fields
}

fn result_name(number: u8) -> String {
    let known = ResultCode::ALL.iter().find(|(code, _)| code.number() == number);
    known.map_or_else(|| number.to_string(), |(code, _)| format!("{number} {code:?}"))
}

fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

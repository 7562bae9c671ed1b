//! Version 7 at the server: which frame is allowed when, and what the hub says as frames
//! (MIOP 5.6 to 5.12).
//!
//! An unknown opcode is answered and skipped; a known one out of its place ends the connection.

use super::{Asked, Fresh, Out, Server, State, bind, error};
use crate::codec::frame::{self, Frame, Opcode};
use crate::codec::property::Props;
use crate::codec::result::ResultCode;
use crate::codec::{FrameFault, Version, carried};
use crate::sign;
use model::id::{DeviceRef, MessageId};
use model::machine::Input;
use model::request::{Bound, Kick, Proof, PushDelivery, PushRequest, Refused};

/// How many stored pushes a PULL without a `count` asks for.
const PULL_COUNT_DEFAULT: u16 = 32;

impl Server {
    pub(super) fn step_newest(
        &mut self,
        bytes_max: usize,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<bool, FrameFault> {
        let Some((frame, length)) = frame::parse(input.rest(), bytes_max)? else {
            return Ok(false);
        };
        if let Opcode::Unknown(_) = frame.opcode {
            input.take(length);
            error(ResultCode::BadFrame, FrameFault::UnknownOpcode.name(), out.bytes());
            return Ok(true);
        }
        match &mut self.0 {
            State::Fresh(fresh) if frame.opcode == Opcode::Bind => {
                if !fresh.homed {
                    let product = frame.props.product_key.ok_or(FrameFault::MissingProperty)?;
                    let device = frame.props.device_id.ok_or(FrameFault::MissingProperty)?;
                    fresh.homed = true;
                    out.home(&[product, device]);
                    return Ok(false);
                }
                let asked = ask(fresh, &frame, input, out)?;
                self.0 = State::Asked(Box::new(asked));
            }
            State::Asked(asked) if frame.opcode == Opcode::Auth => {
                answer_challenge(asked, &frame, out)?
            }
            State::Bound { device, .. } => {
                let device = *device;
                if frame.opcode == Opcode::Unbind {
                    self.detach(0);
                    out.say(PushRequest::Unbind { term: 0, device });
                } else {
                    ask_bound(device, &frame, out)?;
                }
            }
            _ => return Err(FrameFault::OutOfOrder),
        }
        input.take(length);
        Ok(true)
    }
}

fn ask(
    fresh: &Fresh,
    frame: &Frame<'_>,
    input: &Input<'_>,
    out: &mut Out,
) -> Result<Asked, FrameFault> {
    let mut bind = Box::new(bind::newest(frame, input)?);
    bind.peer = fresh.peer;
    let kept = matches!(bind.proof, Proof::Hmac { .. }).then(|| bind.clone());
    let product = bind.product.clone();
    out.say(PushRequest::Bind(bind));
    Ok(Asked { version: Version::V7, product, name: 0, due: fresh.due, bind: kept, nonce: None })
}

/// Asks the hub again, with the device's signature over both nonces.
fn answer_challenge(asked: &mut Asked, frame: &Frame<'_>, out: &mut Out) -> Result<(), FrameFault> {
    let answer = frame.props.mac.ok_or(FrameFault::MissingProperty)?;
    let server_nonce = asked.nonce.take().ok_or(FrameFault::OutOfOrder)?;
    let mut again = asked.bind.take().ok_or(FrameFault::OutOfOrder)?;
    if let Proof::Hmac { signed, mac, challenged, .. } = &mut again.proof {
        *signed = sign::challenged(signed, &server_nonce).into();
        *mac = answer;
        *challenged = true;
    }
    out.say(PushRequest::Bind(again));
    Ok(())
}

fn ask_bound(device: DeviceRef, frame: &Frame<'_>, out: &mut Out) -> Result<(), FrameFault> {
    let term = 0;
    match frame.opcode {
        Opcode::Ping => {
            if let Some(id) = frame.props.last_msg_id {
                out.say(PushRequest::Ack { device, upto: Some(MessageId(id)), ids: Vec::new() });
            }
            out.beat();
            out.bytes().extend_from_slice(&[0, 7, 0, Opcode::Pong.number()]);
        }
        Opcode::MsgAck => out.say(acknowledgement(device, frame)?),
        Opcode::Report => {
            let seq = frame.seq.ok_or(FrameFault::MissingSeq)?;
            out.say(PushRequest::Report { term, device, seq, body: frame.payload.into() });
        }
        Opcode::Pull => {
            let after = MessageId(frame.props.last_msg_id.unwrap_or(0));
            let count = frame.props.count.unwrap_or(PULL_COUNT_DEFAULT);
            if count == 0 {
                return Err(FrameFault::BadProperty);
            }
            out.say(PushRequest::Pull { term, device, after, count });
        }
        _ => return Err(FrameFault::OutOfOrder),
    }
    Ok(())
}

/// A cumulative id, a payload of single ids, or both.
fn acknowledgement(device: DeviceRef, frame: &Frame<'_>) -> Result<PushRequest, FrameFault> {
    let upto = frame.props.last_msg_id.map(MessageId);
    let (ids, rest) = frame.payload.as_chunks();
    if !rest.is_empty() {
        return Err(FrameFault::BadRecord);
    }
    if upto.is_none() && ids.is_empty() {
        return Err(FrameFault::EmptyBlock);
    }
    let ids = ids.iter().map(|id| MessageId(u64::from_be_bytes(*id))).collect();
    Ok(PushRequest::Ack { device, upto, ids })
}

/// Appends a BIND_ACK that lets in.
pub(super) fn write_bound(bound: &Bound, out: &mut Vec<u8>) {
    let result = if bound.resumed { ResultCode::Resumed } else { ResultCode::Ok };
    let props = Props {
        heartbeat: Some(bound.heartbeat_s),
        resume_token: Some(bound.token),
        session_epoch: Some(bound.epoch),
        result: Some(result.number()),
        max_frame: Some(bound.frame_bytes_max),
        max_inflight: Some(bound.inflight_max),
        ack_timeout_ms: Some(bound.ack_ms),
        offline_count: Some(bound.offline_count),
        server_time: Some(bound.server_ms),
        ..Props::default()
    };
    Frame::new(Opcode::BindAck, props).write(out);
}

/// Appends a BIND_ACK that refuses.
pub(super) fn write_refused(code: ResultCode, refused: &Refused, out: &mut Vec<u8>) {
    let props = Props {
        result: Some(code.number()),
        retry_after_ms: some_time(refused.retry_after_ms),
        addrs: carried(&refused.addrs).collect(),
        ..Props::default()
    };
    Frame::new(Opcode::BindAck, props).write(out);
}

/// Appends a KICK, or a REDIRECT when that is why.
pub(super) fn write_kick(kick: &Kick, code: ResultCode, out: &mut Vec<u8>) {
    let opcode = if code == ResultCode::Redirect { Opcode::Redirect } else { Opcode::Kick };
    let props = Props {
        session_epoch: (kick.epoch != 0).then_some(kick.epoch),
        result: Some(code.number()),
        retry_after_ms: some_time(kick.retry_after_ms),
        addrs: carried(&kick.addrs).collect(),
        ..Props::default()
    };
    Frame::new(opcode, props).write(out);
}

/// Appends a GO_AWAY.
pub(super) fn write_go_away(retry_after_ms: u32, addrs: &[String], out: &mut Vec<u8>) {
    let props = Props {
        result: Some(ResultCode::Draining.number()),
        retry_after_ms: some_time(retry_after_ms),
        addrs: carried(addrs).collect(),
        ..Props::default()
    };
    Frame::new(Opcode::GoAway, props).write(out);
}

/// Appends the frame for a delivery that only version 7 has a frame for; nothing for the others.
pub(super) fn answer(version: Option<Version>, delivery: &PushDelivery, out: &mut Vec<u8>) {
    if version != Some(Version::V7) {
        return;
    }
    let (opcode, props) = match *delivery {
        PushDelivery::Pulled { remaining, .. } => {
            (Opcode::Pull, Props { offline_count: Some(remaining), ..Props::default() })
        }
        PushDelivery::ReportTaken { seq, .. } => {
            (Opcode::ReportAck, Props { report_seq: Some(seq), ..Props::default() })
        }
        PushDelivery::ReportRefused { seq, why, .. } => {
            let result = Some(ResultCode::of(why).number());
            (Opcode::Error, Props { result, report_seq: Some(seq), ..Props::default() })
        }
        PushDelivery::Configure { heartbeat_s, inflight_max, .. } => {
            let (heartbeat, max_inflight) = (Some(heartbeat_s), Some(inflight_max));
            (Opcode::Config, Props { heartbeat, max_inflight, ..Props::default() })
        }
        _ => return,
    };
    Frame::new(opcode, props).write(out);
}

fn some_time(ms: u32) -> Option<u32> {
    (ms != 0).then_some(ms)
}

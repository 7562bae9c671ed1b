//! Versions 5 and 6 at the server: which frame is allowed when, and what can be said to classic
//! devices at all (MIOP 4).
//!
//! A BindAck with a code stops a version 6 device for good, so one that is meant to come back gets
//! none: it reconnects by itself when the connection ends.

use super::many::{Many, name_hash};
use super::{Asked, Out, Server, State, bind};
use crate::codec::classic::{self as wire, ClassicFrame, ClassicOpcode};
use crate::codec::result::ResultCode;
use crate::codec::text::Text;
use crate::codec::{FrameFault, Version};
use model::id::MessageId;
use model::machine::Input;
use model::request::PushRequest;

impl Server {
    pub(super) fn step_classic(
        &mut self,
        version: Version,
        bytes_max: usize,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<bool, FrameFault> {
        let Some((frame, length)) = wire::parse(version, input.rest(), bytes_max)? else {
            return Ok(false);
        };
        let done = match (&self.0, frame.opcode) {
            (State::Fresh(_), ClassicOpcode::Bind) => {
                self.bind_first(version, frame.props, input, out)?
            }
            (State::Bound { .. } | State::Many(_), _) => {
                self.step_bound(version, &frame, input, out)?;
                true
            }
            _ => return Err(FrameFault::OutOfOrder),
        };
        if done {
            input.take(length);
        }
        Ok(done)
    }

    fn bind_first(
        &mut self,
        version: Version,
        props: Text<'_>,
        input: &Input<'_>,
        out: &mut Out,
    ) -> Result<bool, FrameFault> {
        let (mut bind, u) = bind::classic(version, props, input.link)?;
        let State::Fresh(fresh) = &mut self.0 else {
            return Err(FrameFault::OutOfOrder);
        };
        if !fresh.homed {
            fresh.homed = true;
            out.home(&[bind.product.as_str().as_bytes(), bind.device.as_str().as_bytes()]);
            return Ok(false);
        }
        bind.peer = fresh.peer;
        let (product, name, due) = (bind.product.clone(), name_hash(u), fresh.due);
        let asked = Asked { version, product, name, due, bind: None, nonce: None };
        self.0 = State::Asked(Box::new(asked));
        out.say(PushRequest::Bind(Box::new(bind)));
        Ok(true)
    }

    fn step_bound(
        &mut self,
        version: Version,
        frame: &ClassicFrame<'_>,
        input: &Input<'_>,
        out: &mut Out,
    ) -> Result<(), FrameFault> {
        match frame.opcode {
            ClassicOpcode::Ping => {
                out.beat();
                wire::write_header(version, ClassicOpcode::Pong, out.bytes());
            }
            ClassicOpcode::MsgAck => {
                let id = frame.props.number("ack")?.ok_or(FrameFault::MissingProperty)?;
                self.acknowledge(MessageId(id), out);
            }
            ClassicOpcode::Bind if version == Version::V5 => {
                let (bind, u) = bind::classic(version, frame.props, input.link)?;
                let terms_max = usize::from(input.limits.pushes.binds_a_connection_max);
                self.many().bind(bind, u, terms_max, out);
            }
            ClassicOpcode::Unbind => self.unbind(version, frame.props.value("u"), out)?,
            _ => return Err(FrameFault::OutOfOrder),
        }
        Ok(())
    }

    /// The frame does not say which device has the push; a device that was not sent it has none.
    fn acknowledge(&self, id: MessageId, out: &mut Out) {
        let mut say = |device| out.say(PushRequest::Ack { device, upto: None, ids: vec![id] });
        match &self.0 {
            State::Bound { device, .. } => say(*device),
            State::Many(many) => many.devices().for_each(say),
            _ => {}
        }
    }

    fn unbind(
        &mut self,
        version: Version,
        u: Option<&str>,
        out: &mut Out,
    ) -> Result<(), FrameFault> {
        match &mut self.0 {
            State::Bound { device, app_id, name, .. } => {
                if u.is_some_and(|u| name_hash(u) != *name) {
                    // Not bound here: it is as the device wishes.
                    wire::write_unbind_ack(version, *app_id, out.bytes());
                    return Ok(());
                }
                let device = *device;
                self.detach(0);
                out.say(PushRequest::Unbind { term: 0, device });
            }
            State::Many(many) => many.unbind(u.ok_or(FrameFault::MissingProperty)?, out),
            _ => {}
        }
        Ok(())
    }

    /// Makes room for a further Bind.
    fn many(&mut self) -> &mut Many {
        if let State::Bound { device, app_id, name, .. } = self.0 {
            self.0 = State::Many(Box::new(Many::new(device, app_id, name)));
        }
        match &mut self.0 {
            State::Many(many) => many,
            _ => unreachable!("only called with a device bound"),
        }
    }
}

/// Takes the empty data length that some classic devices end a Bind with.
pub(super) fn take_zeros(input: &mut Input<'_>) -> Result<bool, FrameFault> {
    match input.rest() {
        [0, 0, 0, 0, ..] => {
            input.take(4);
            Ok(true)
        }
        [0, 0] | [0, 0, 0] => Ok(false),
        _ => Err(FrameFault::BadLength),
    }
}

/// Appends a BindAck that says no, if that is of use to the device.
pub(super) fn write_no(
    version: Version,
    id: Option<&str>,
    code: ResultCode,
    addrs: &[String],
    out: &mut Vec<u8>,
) {
    if version == Version::V5 || !code.passes() {
        wire::write_bind_ack(version, id, code.number(), addrs, out);
    }
}

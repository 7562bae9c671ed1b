//! A device of version 5 or 6, as those devices behave (MIOP 4).
//!
//! Classic devices have no Report and no Pull: a Report is not taken, a Pull is nothing.

use super::{Client, End, Out, Prove, PushAckMode, State};
use crate::codec::classic::{self, ClassicFrame, ClassicOpcode};
use crate::codec::record::ClassicRecord;
use crate::codec::result::ResultCode;
use crate::codec::{FrameFault, Version};
use crate::sign;
use base::time::Now;
use model::id::MessageId;
use model::machine::Input;
use model::ports::virtual_client::{Action, Observation};

/// Heartbeat of a classic device that has no wish, seconds.
const HEARTBEAT_S: u16 = 300;

impl Client {
    fn u(&self) -> String {
        format!("{}@{}", self.profile.device(self.number), self.profile.product)
    }

    fn classic_heartbeat_s(&self) -> u16 {
        match self.profile.heartbeat.want_s {
            0 => HEARTBEAT_S,
            seconds => seconds,
        }
    }

    pub(super) fn bind_classic(&self, version: Version, out: &mut Out) {
        let (u, ts) = (self.u(), self.bind_ms.to_string());
        let t = self.classic_heartbeat_s().to_string();
        let mut props = format!("u:{u}\nts:{ts}\nt:{t}");
        if version == Version::V6 {
            props.push_str("\nk:1");
        }
        if let Prove::Secret { bytes, .. } = &self.profile.prove {
            let sign = sign::classic_mac(bytes, &sign::classic(&u, &ts, &t));
            let authtype = sign::CLASSIC_AUTHTYPE;
            props.push_str(&format!("\nauthtype:{authtype}\nsign:{}", base::hex::encode(&sign)));
        }
        classic::write_props(version, ClassicOpcode::Bind, props.as_bytes(), out.bytes());
    }

    pub(super) fn receive_classic(
        &mut self,
        version: Version,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), End> {
        let bytes_max = input.limits.frame_bytes_max as usize;
        while let Some(seen) = Version::sniff(input.rest())? {
            if seen != version {
                return Err(FrameFault::VersionChanged.into());
            }
            let Some((frame, length)) = classic::parse(version, input.rest(), bytes_max)? else {
                break;
            };
            input.take(length);
            self.take_classic(version, now, &frame, out)?;
        }
        Ok(())
    }

    fn take_classic(
        &mut self,
        version: Version,
        now: Now,
        frame: &ClassicFrame<'_>,
        out: &mut Out,
    ) -> Result<(), End> {
        match frame.opcode {
            ClassicOpcode::Pong => out.say(Observation::Pong),
            ClassicOpcode::BindAck => self.take_bind_ack(now, frame, out)?,
            ClassicOpcode::Msg => self.take_classic_msg(version, frame, out)?,
            ClassicOpcode::UnbindAck => return Err(End::Unbound),
            _ => return Err(FrameFault::OutOfOrder.into()),
        }
        Ok(())
    }

    fn take_bind_ack(
        &mut self,
        now: Now,
        frame: &ClassicFrame<'_>,
        out: &mut Out,
    ) -> Result<(), FrameFault> {
        let code = frame.props.number("r")?.ok_or(FrameFault::MissingProperty)?;
        if code == 0 {
            let heartbeat_s = self.classic_heartbeat_s();
            self.bound(now, heartbeat_s, out);
            out.say(Observation::Bound { resumed: false, heartbeat_s, offline_count: 0 });
            return Ok(());
        }
        let addrs = frame.props.addrs();
        self.ended(u32::try_from(code).unwrap_or(u32::MAX), 0, out);
        if !addrs.is_empty() {
            out.say(Observation::GoAway { retry_after_ms: 0, addrs });
        }
        Ok(())
    }

    fn take_classic_msg(
        &mut self,
        version: Version,
        frame: &ClassicFrame<'_>,
        out: &mut Out,
    ) -> Result<(), FrameFault> {
        let mut rest = frame.data;
        while !rest.is_empty() {
            let record = ClassicRecord::read(&mut rest)?;
            let again = self.seen(record.id);
            let id = MessageId(record.id);
            out.say(Observation::Message { id, body: record.body.into(), again });
        }
        if self.profile.acks != PushAckMode::Never {
            let ack = frame.props.number("ack")?.ok_or(FrameFault::MissingProperty)?;
            let props = format!("ack:{ack}");
            classic::write_props(version, ClassicOpcode::MsgAck, props.as_bytes(), out.bytes());
        }
        Ok(())
    }

    pub(super) fn act_classic(&mut self, version: Version, action: Action, out: &mut Out) {
        debug_assert_eq!(self.state, State::Bound);
        match action {
            Action::Ping => classic::write_header(version, ClassicOpcode::Ping, out.bytes()),
            Action::Unbind => {
                let props = format!("u:{}", self.u());
                classic::write_props(version, ClassicOpcode::Unbind, props.as_bytes(), out.bytes());
            }
            Action::Report(_) => {
                self.report_seq += 1;
                let code = u32::from(ResultCode::BadFrame.number());
                out.say(Observation::NotTaken { seq: self.report_seq, code });
            }
            Action::Pull(_) | Action::Publish { .. } | Action::Subscribe(_) => {}
        }
    }
}

//! A device of version 7 (MIOP 5 and 6).
//!
//! Acknowledgements of one turn travel in one frame. A cumulative one covers whatever the server
//! has sent by then, so `PushAckMode::Each` is the exact kind and the default.

use super::{Client, End, Out, Prove, PushAckMode, Session, State};
use crate::codec::frame::{self, Frame, Opcode, flag};
use crate::codec::property::{Props, cap};
use crate::codec::record::PushRecord;
use crate::codec::result::ResultCode;
use crate::codec::{FrameFault, Version};
use crate::sign::{self, Claim};
use base::time::Now;
use model::id::MessageId;
use model::machine::Input;
use model::ports::virtual_client::{Action, Observation};

impl Client {
    pub(super) fn bind_newest(&self, out: &mut Out) {
        let profile = &*self.profile;
        let device = profile.device(self.number);
        let nonce = self.nonce();
        let caps = self.caps();
        let wish = profile.heartbeat;
        let cumulative = matches!(profile.acks, PushAckMode::UpTo | PushAckMode::OnPing);
        let mut props = Props {
            device_id: Some(device.as_bytes()),
            product_key: Some(profile.product.as_str().as_bytes()),
            heartbeat_wish: Some((wish.want_s, wish.min_s, wish.max_s)),
            resume_token: self.session.as_ref().map(|session| session.token),
            last_msg_id: (cumulative && self.last_id != 0).then_some(self.last_id),
            session_epoch: self.session.as_ref().map(|session| session.epoch),
            caps: (caps != 0).then_some(caps),
            max_inflight: (profile.inflight_max != 0).then_some(profile.inflight_max),
            tags: profile.tags.iter().map(|tag| tag.as_str().as_bytes()).collect(),
            ..Props::default()
        };
        match &profile.prove {
            Prove::Nothing => {}
            Prove::Secret { key_id, bytes } => {
                props.auth_type = Some(1);
                props.client_ts = Some(self.bind_ms);
                props.client_nonce = Some(nonce);
                props.key_id = Some(*key_id);
                props.mac = Some(sign::mac(bytes, &self.signed(&device, &nonce)));
            }
            Prove::Token(token) => {
                props.auth_type = Some(2);
                props.token = Some(token);
            }
            Prove::Certificate => props.auth_type = Some(3),
        }
        Frame::new(Opcode::Bind, props).write(out.bytes());
    }

    fn nonce(&self) -> [u8; 16] {
        self.profile.nonce(self.number, self.bind_ms, self.binds)
    }

    fn caps(&self) -> u32 {
        if self.profile.pulls { cap::PULLS } else { 0 }
    }

    fn signed(&self, device: &str, client_nonce: &[u8; 16]) -> Vec<u8> {
        let claim = Claim {
            product: self.profile.product.as_str().as_bytes(),
            device: device.as_bytes(),
            client_ts: self.bind_ms,
            client_nonce,
            caps: self.caps(),
        };
        claim.bytes()
    }

    pub(super) fn receive_newest(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), End> {
        let bytes_max = input.limits.frame_bytes_max as usize;
        let mut ids = Vec::new();
        let mut taken = Ok(());
        while let Some(version) = Version::sniff(input.rest())? {
            if version != Version::V7 {
                return Err(FrameFault::VersionChanged.into());
            }
            let Some((frame, length)) = frame::parse(input.rest(), bytes_max)? else { break };
            input.take(length);
            taken = match frame.opcode {
                Opcode::Msg => self.take_msg(&frame, &mut ids, out).map_err(End::from),
                Opcode::Challenge => self.answer(&frame, out).map_err(End::from),
                _ => self.take_newest(now, &frame, out),
            };
            if taken.is_err() {
                break;
            }
        }
        self.acknowledge(&ids, out);
        taken
    }

    fn take_msg(
        &mut self,
        frame: &Frame<'_>,
        ids: &mut Vec<u64>,
        out: &mut Out,
    ) -> Result<(), FrameFault> {
        let mut rest = frame.payload;
        if rest.is_empty() {
            return Err(FrameFault::EmptyBlock);
        }
        while !rest.is_empty() {
            let record = PushRecord::read(&mut rest)?;
            let is_resent = frame.flags & flag::DUP != 0;
            let again = self.seen(record.id) || is_resent;
            if is_resent {
                // One that others overtook is acknowledged by its own id.
                self.last_id = record.id;
            }
            let id = MessageId(record.id);
            out.say(Observation::Message { id, body: record.body.into(), again });
            ids.push(record.id);
        }
        Ok(())
    }

    fn acknowledge(&self, ids: &[u64], out: &mut Out) {
        let Some(last) = ids.last() else { return };
        let mut ack = Frame::new(Opcode::MsgAck, Props::default());
        match self.profile.acks {
            PushAckMode::Never | PushAckMode::OnPing => return,
            PushAckMode::UpTo => ack.props.last_msg_id = Some(*last),
            PushAckMode::Each => {}
        }
        let single = if self.profile.acks == PushAckMode::Each { ids } else { &[] };
        let payload = |out: &mut Vec<u8>| {
            single.iter().for_each(|id| out.extend_from_slice(&id.to_be_bytes()));
        };
        frame::write(&ack, payload, out.bytes());
    }

    /// Signs both nonces.
    fn answer(&self, frame: &Frame<'_>, out: &mut Out) -> Result<(), FrameFault> {
        let server_nonce = frame.props.server_nonce.ok_or(FrameFault::MissingProperty)?;
        let (State::Asking, Prove::Secret { bytes, .. }) = (self.state, &self.profile.prove) else {
            return Err(FrameFault::OutOfOrder);
        };
        let bind = self.signed(&self.profile.device(self.number), &self.nonce());
        let mac = sign::mac(bytes, &sign::challenged(&bind, &server_nonce));
        let props = Props { mac: Some(mac), ..Props::default() };
        Frame::new(Opcode::Auth, props).write(out.bytes());
        Ok(())
    }

    fn take_newest(&mut self, now: Now, frame: &Frame<'_>, out: &mut Out) -> Result<(), End> {
        let props = &frame.props;
        let code = u32::from(props.result.unwrap_or(0));
        match frame.opcode {
            Opcode::Pong => out.say(Observation::Pong),
            Opcode::BindAck => self.take_answer(now, props, out)?,
            Opcode::UnbindAck => return Err(End::Unbound),
            Opcode::ReportAck => {
                let seq = props.report_seq.ok_or(FrameFault::MissingProperty)?;
                out.say(Observation::Taken { seq });
            }
            Opcode::Error => match props.report_seq {
                Some(seq) => out.say(Observation::NotTaken { seq, code }),
                None => self.ended(code, props.retry_after_ms.unwrap_or(0), out),
            },
            Opcode::Kick => self.ended(code, 0, out),
            Opcode::Redirect | Opcode::GoAway => {
                let addrs = props.addrs.iter().map(|&addr| addr.to_owned()).collect();
                let retry_after_ms = props.retry_after_ms.unwrap_or(0);
                out.say(Observation::GoAway { retry_after_ms, addrs });
            }
            Opcode::Config => self.heartbeat_s = props.heartbeat.unwrap_or(self.heartbeat_s),
            Opcode::Pull => {
                let remaining = props.offline_count.unwrap_or(0);
                out.say(Observation::Pulled { remaining });
            }
            Opcode::Unknown(_) => {}
            _ => return Err(FrameFault::OutOfOrder.into()),
        }
        Ok(())
    }

    fn take_answer(
        &mut self,
        now: Now,
        props: &Props<'_>,
        out: &mut Out,
    ) -> Result<(), FrameFault> {
        let code = props.result.ok_or(FrameFault::MissingProperty)?;
        let resumed = code == ResultCode::Resumed.number();
        if code != ResultCode::Ok.number() && !resumed {
            self.ended(u32::from(code), props.retry_after_ms.unwrap_or(0), out);
            return Ok(());
        }
        if self.profile.resumes
            && let (Some(token), Some(epoch)) = (props.resume_token, props.session_epoch)
        {
            self.session = Some(Box::new(Session { token, epoch }));
        }
        let heartbeat_s = props.heartbeat.ok_or(FrameFault::MissingProperty)?;
        self.bound(now, heartbeat_s, out);
        let offline_count = props.offline_count.unwrap_or(0);
        out.say(Observation::Bound { resumed, heartbeat_s, offline_count });
        Ok(())
    }

    pub(super) fn act_newest(&mut self, action: Action, out: &mut Out) {
        let mut frame = Frame::new(Opcode::Ping, Props::default());
        match action {
            Action::Ping if self.profile.acks == PushAckMode::OnPing && self.last_id != 0 => {
                frame.props.last_msg_id = Some(self.last_id);
            }
            Action::Ping => {}
            Action::Report(body) => {
                self.report_seq += 1;
                frame.opcode = Opcode::Report;
                frame.seq = Some(self.report_seq);
                return frame::write(&frame, |out| out.extend_from_slice(&body), out.bytes());
            }
            Action::Pull(count) => {
                frame.opcode = Opcode::Pull;
                frame.props.count = Some(count.max(1));
                // A place in the queue, which only a client that acknowledges in order has.
                let in_order = matches!(self.profile.acks, PushAckMode::UpTo | PushAckMode::OnPing);
                frame.props.last_msg_id = (in_order && self.last_id != 0).then_some(self.last_id);
            }
            Action::Unbind => frame.opcode = Opcode::Unbind,
            // A device of a push server has no topics.
            Action::Publish { .. } | Action::Subscribe(_) => return,
        }
        frame.write(out.bytes());
    }
}

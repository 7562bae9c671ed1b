//! The server's side of a connection: the seam where MIOP's words become the model's.
//!
//! ```text
//!            Bind             Bound                 second Bind (version 5)
//!   Fresh ─────────► Asked ─────────► Bound ──────────────────────────► Many
//!                    │   ▲              │ Unbind                          │
//!          Challenge ▼   │ Auth         ▼                                 ▼
//!                   (Asked)          Leaving ─► end      last one detached ─► end
//! ```
//! While a Bind or an Unbind is with the hub, further input is left untaken: whoever drives the
//! machine shows it again after the answer. A connection with one bound device and nothing on the
//! way owns no heap: [`Server`] is sixteen bytes. Devices are named by the hub's `DeviceRef`s,
//! which may be of any shard.

mod bind;
mod classic;
mod counted;
mod many;
mod newest;

use crate::codec::classic as wire;
use crate::codec::frame::{Frame, Opcode};
use crate::codec::property::Props;
use crate::codec::record::{ClassicRecord, PushRecord};
use crate::codec::result::ResultCode;
use crate::codec::{FrameFault, Version, frame};
use base::time::{Instant, Now};
use many::Many;
use model::close::CloseReason;
use model::id::{DeviceRef, ProductKey};
use model::link::Link;
use model::machine::{Input, Machine, Outbox, TurnAway};
use model::push::{Push, Rejection};
use model::request::{Bind, Bound, Kick, PushDelivery, PushRequest, Refusal, Refused};
use model::service::{Delivery, Request};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

type Out = Outbox<Request>;

/// One connection's server machine.
pub struct Server(State);

const _: () = assert!(size_of::<Server>() <= 16, "an idle connection's machine is 16 bytes");

enum State {
    /// The connection is not opened.
    New { bind_ms_max: u32 },
    /// No Bind has been taken; one is due.
    Fresh(Box<Fresh>),
    /// The first Bind is with the hub, or its challenge with the device.
    Asked(Box<Asked>),
    /// One device, and nothing on the way.
    Bound { device: DeviceRef, app_id: u32, name: u16, version: Version },
    /// The only device is being detached, or is.
    Leaving { app_id: u32, version: Version },
    /// Several devices (version 5).
    Many(Box<Many>),
}

struct Fresh {
    /// When the device must be bound.
    due: Instant,
    version: Option<Version>,
    /// The connection is on the shard of its device.
    homed: bool,
    /// Kept for the first Bind: an open connection forgets its peer's address.
    peer: Option<SocketAddr>,
}

struct Asked {
    version: Version,
    /// As the device wrote it, for the answer to a classic Bind.
    product: ProductKey,
    /// [`many::name_hash`] of a classic `u`.
    name: u16,
    /// When the device must be bound.
    due: Instant,
    /// The Bind, while it may have to be repeated after a challenge.
    bind: Option<Box<Bind>>,
    /// The device must answer this.
    nonce: Option<[u8; 16]>,
}

impl Server {
    /// A machine for a connection that was just accepted; a Bind must come within `bind_ms_max`.
    pub const fn new(bind_ms_max: u32) -> Server {
        Server(State::New { bind_ms_max })
    }

    /// The version the peer speaks, once it has said so.
    pub fn version(&self) -> Option<Version> {
        match &self.0 {
            State::New { .. } => None,
            State::Fresh(fresh) => fresh.version,
            State::Asked(asked) => Some(asked.version),
            State::Bound { version, .. } | State::Leaving { version, .. } => Some(*version),
            State::Many(_) => Some(Version::V5),
        }
    }

    /// The device that is bound to it, the first of several, for whoever looks on.
    pub fn first_device(&self) -> Option<DeviceRef> {
        match &self.0 {
            State::Many(many) => many.devices().next(),
            _ => self.device(0),
        }
    }

    /// Whether a device is bound, so that the larger frame limit holds.
    fn is_bound(&self) -> bool {
        matches!(self.0, State::Bound { .. } | State::Many(_))
    }

    /// Whether an answer of the hub is outstanding, so that no input is taken.
    fn waits(&self) -> bool {
        match &self.0 {
            State::New { .. } | State::Fresh(_) | State::Bound { .. } => false,
            State::Asked(asked) => asked.nonce.is_none(),
            State::Leaving { .. } => true,
            State::Many(many) => many.waits(),
        }
    }

    fn device(&self, term: u16) -> Option<DeviceRef> {
        match &self.0 {
            State::Bound { device, .. } if term == 0 => Some(*device),
            State::Many(many) => many.term(term).map(|term| term.device),
            _ => None,
        }
    }

    /// Forgets the device of `term`; true when no other is bound and none may become so.
    fn detach(&mut self, term: u16) -> bool {
        match &mut self.0 {
            State::Bound { app_id, version, .. } => {
                self.0 = State::Leaving { app_id: *app_id, version: *version };
                true
            }
            State::Many(many) => {
                many.remove(term);
                many.is_over()
            }
            _ => true,
        }
    }

    /// Takes frames as long as there are whole ones, and none of them has to wait.
    fn take_frames(&mut self, input: &mut Input<'_>, out: &mut Out) -> Result<(), CloseReason> {
        while !self.waits() {
            match self.step(input, out) {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) => return Err(self.fail(fault, out)),
            }
        }
        Ok(())
    }

    /// The hub has something for a device.
    fn tell(&mut self, down: PushDelivery, out: &mut Out) -> Result<(), CloseReason> {
        match down {
            PushDelivery::Bound(bound) => return self.bound(*bound, out),
            PushDelivery::Refused(refused) => return self.refused(*refused, out),
            PushDelivery::Challenge { term, nonce } => return self.challenge(term, nonce, out),
            PushDelivery::Push { term, push, again } => self.push(term, &push, again, out),
            PushDelivery::TellWritten { term } if self.device(term).is_some() => out.tell_drained(),
            PushDelivery::Unbound { term } => return self.unbound(term, out),
            PushDelivery::Kick(kick) => return self.kick(&kick, out),
            PushDelivery::GoAway { retry_after_ms, addrs } => {
                return self.go_away(retry_after_ms, &addrs, out);
            }
            PushDelivery::Configure { heartbeat_s, .. } if self.version() == Some(Version::V7) => {
                newest::answer(self.version(), &down, out.bytes());
                out.silence(patience_ms(heartbeat_s));
            }
            _ if self.is_bound() => newest::answer(self.version(), &down, out.bytes()),
            _ => {}
        }
        Ok(())
    }

    /// Takes one frame; false when there is no whole one, or it has to wait.
    fn step(&mut self, input: &mut Input<'_>, out: &mut Out) -> Result<bool, FrameFault> {
        let rest = input.rest();
        if self.skips_zeros() && rest.starts_with(&[0, 0]) {
            return classic::take_zeros(input);
        }
        let Some(version) = Version::sniff(rest)? else { return Ok(false) };
        if self.version().is_some_and(|first| first != version) {
            return Err(FrameFault::VersionChanged);
        }
        if let State::Fresh(fresh) = &mut self.0 {
            fresh.version = Some(version);
        }
        let limits = input.limits;
        let bytes_max =
            if self.is_bound() { limits.frame_bytes_max } else { limits.frame_bytes_unbound_max };
        if version == Version::V7 {
            self.step_newest(bytes_max as usize, input, out)
        } else {
            self.step_classic(version, bytes_max as usize, input, out)
        }
    }

    /// Classic devices may end a Bind with an empty data length, which may come in a later
    /// segment. No frame begins with two zeros, so it cannot be mistaken (MIOP 4.3).
    fn skips_zeros(&self) -> bool {
        !matches!(self.0, State::New { .. } | State::Fresh(_))
            && self.version().is_some_and(Version::is_classic)
    }

    /// Sends the fault, where the client can be told of it, and returns the reason to end with.
    fn fail(&self, fault: FrameFault, out: &mut Out) -> CloseReason {
        if self.version() == Some(Version::V7) || fault == FrameFault::NewerVersion {
            error(fault.result(), fault.name(), out.bytes());
        }
        fault.close_reason()
    }

    fn bound(&mut self, bound: Bound, out: &mut Out) -> Result<(), CloseReason> {
        let version = self.version().unwrap_or(Version::V7);
        match &mut self.0 {
            State::Asked(asked) => {
                if version.is_classic() {
                    let id = Some(asked.product.as_str());
                    wire::write_bind_ack(version, id, 0, &[], out.bytes());
                }
                let (device, app_id, name) = (bound.device, bound.app_id, asked.name);
                self.0 = State::Bound { device, app_id, name, version };
            }
            State::Many(many) => many.bound(&bound, out)?,
            _ => return Err(unexpected("Bound without a Bind")),
        }
        if version == Version::V7 {
            newest::write_bound(&bound, out.bytes());
        }
        out.silence(patience_ms(bound.heartbeat_s));
        Ok(())
    }

    fn refused(&mut self, refused: Refused, out: &mut Out) -> Result<(), CloseReason> {
        let code = ResultCode::of(refused.why);
        let mut last = true;
        match &mut self.0 {
            State::Asked(asked) if asked.version == Version::V7 => {
                newest::write_refused(code, &refused, out.bytes());
            }
            State::Asked(asked) => {
                let id = Some(asked.product.as_str());
                classic::write_no(asked.version, id, code, &refused.addrs, out.bytes());
            }
            State::Many(many) => {
                many.refused(code, &refused.addrs, out)?;
                last = many.is_over();
            }
            _ => return Err(unexpected("Refused without a Bind")),
        }
        if last { Err(refused.why.close_reason()) } else { Ok(()) }
    }

    fn challenge(&mut self, term: u16, nonce: [u8; 16], out: &mut Out) -> Result<(), CloseReason> {
        if let State::Asked(asked) = &mut self.0
            && asked.version == Version::V7
            && asked.bind.is_some()
        {
            asked.nonce = Some(nonce);
            let props = Props { server_nonce: Some(nonce), ..Props::default() };
            Frame::new(Opcode::Challenge, props).write(out.bytes());
            return Ok(());
        }
        // Nobody else can answer one: the proof did not suffice.
        let why = Refusal::AuthFailed;
        self.refused(Refused { term, why, retry_after_ms: 0, addrs: Vec::new(), who: None }, out)
    }

    fn push(&mut self, term: u16, push: &Arc<Push>, again: bool, out: &mut Out) {
        let (Some(device), Some(version)) = (self.device(term), self.version()) else { return };
        let encode = |bytes: &mut Vec<u8>| encode_push(version, push, again, bytes);
        let fits = !push.body.is_empty() && push.body.len() + 16 <= wire::DATA_BYTES_MAX;
        if version.is_classic() && !fits {
            let why = Rejection::TooLarge;
            out.say(PushRequest::Unsendable { device, id: push.id, why });
        } else if !again && Arc::strong_count(push) > 2 {
            // Several hold it: other connections of this shard are likely to send the same bytes.
            out.share_encoded(push.id.0, version as u8, encode);
        } else {
            encode(out.bytes());
        }
    }

    fn unbound(&mut self, term: u16, out: &mut Out) -> Result<(), CloseReason> {
        match &mut self.0 {
            State::Leaving { version: Version::V7, .. } => {
                Frame::new(Opcode::UnbindAck, Props::default()).write(out.bytes());
            }
            State::Leaving { app_id, version } => {
                wire::write_unbind_ack(*version, *app_id, out.bytes());
            }
            State::Many(many) => {
                many.unbound(term, out);
                return if many.is_over() { Err(CloseReason::Unbound) } else { Ok(()) };
            }
            _ => return Err(unexpected("Unbound without an Unbind")),
        }
        Err(CloseReason::Unbound)
    }

    fn kick(&mut self, kick: &Kick, out: &mut Out) -> Result<(), CloseReason> {
        if self.device(kick.term).is_none() {
            return Ok(()); // it has gone already
        }
        let code = ResultCode::of(kick.why);
        match &self.0 {
            State::Many(many) => many.write_kick(kick, code, out),
            State::Bound { version: Version::V7, .. } => {
                newest::write_kick(kick, code, out.bytes());
            }
            State::Bound { version, app_id, .. } => {
                let id = app_id.to_string();
                classic::write_no(*version, Some(&id), code, &kick.addrs, out.bytes());
            }
            _ => {}
        }
        if self.detach(kick.term) { Err(kick.why.close_reason()) } else { Ok(()) }
    }

    /// Classic devices know no such frame: they are let go as the server would end anyway, with
    /// the addresses if their version reads them.
    fn go_away(
        &mut self,
        retry_after_ms: u32,
        addrs: &[String],
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        match self.version() {
            Some(Version::V7) => {
                newest::write_go_away(retry_after_ms, addrs, out.bytes());
                Ok(())
            }
            Some(version) => {
                classic::write_no(version, None, ResultCode::Draining, addrs, out.bytes());
                Err(CloseReason::Draining)
            }
            None => Ok(()),
        }
    }
}

impl Machine for Server {
    type Up = Request;
    type Down = Delivery;

    fn opened(&mut self, now: Now, link: &Link, out: &mut Out) -> Result<(), CloseReason> {
        if let State::New { bind_ms_max } = self.0 {
            let due = now.after(Duration::from_millis(u64::from(bind_ms_max)));
            let peer = Some(link.peer).filter(|peer| peer.port() != 0);
            let fresh = Fresh { due, version: None, homed: false, peer };
            self.0 = State::Fresh(Box::new(fresh));
            out.wake(due);
        }
        Ok(())
    }

    fn receive(&mut self, _: Now, input: &mut Input<'_>, out: &mut Out) -> Result<(), CloseReason> {
        let before = input.rest();
        let result = self.take_frames(input, out);
        counted::taken(before, input, out);
        counted::sent(out);
        result
    }

    fn command(&mut self, _: Now, down: Delivery, out: &mut Out) -> Result<(), CloseReason> {
        let Delivery::Push(down) = down else {
            base::never!(true, "what is not about devices goes to other machines");
            return Ok(());
        };
        let result = self.tell(down, out);
        counted::sent(out);
        result
    }

    fn drained(&mut self, _: Now, out: &mut Out) -> Result<(), CloseReason> {
        match &self.0 {
            State::Bound { device, .. } => out.say(PushRequest::Written { device: *device }),
            State::Many(many) => {
                many.devices().for_each(|device| out.say(PushRequest::Written { device }))
            }
            _ => {}
        }
        Ok(())
    }

    fn wake(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        let due = match &self.0 {
            State::Fresh(fresh) => fresh.due,
            State::Asked(asked) => asked.due,
            _ => return Ok(()),
        };
        if now.mono < due {
            out.wake(due);
            return Ok(());
        }
        if self.version() == Some(Version::V7) {
            error(ResultCode::BindTimeout, "no_bind", out.bytes());
            counted::sent(out);
        }
        Err(CloseReason::BindTimeout)
    }

    fn silent(&mut self, _: Now, out: &mut Out) -> Result<(), CloseReason> {
        if self.version() == Some(Version::V7) {
            let result = Some(ResultCode::HeartbeatTimeout.number());
            let props = Props { result, ..Props::default() };
            Frame::new(Opcode::Kick, props).write(out.bytes());
            counted::sent(out);
        }
        Err(CloseReason::KeepAliveTimeout)
    }

    fn turn_away(&mut self, _: Now, away: TurnAway<'_>, out: &mut Out) {
        let TurnAway { why, retry_after_ms, server } = away;
        let addrs: Vec<String> = server.iter().map(|it| it.address.to_owned()).collect();
        let why = if addrs.is_empty() || self.is_bound() { why } else { Refusal::Redirect };
        let code = ResultCode::of(why);
        match self.version() {
            Some(Version::V7) if self.is_bound() => {
                newest::write_go_away(retry_after_ms, &addrs, out.bytes());
            }
            Some(Version::V7) => {
                let refused = Refused { term: 0, why, retry_after_ms, addrs, who: None };
                newest::write_refused(code, &refused, out.bytes());
            }
            Some(version) => classic::write_no(version, None, code, &addrs, out.bytes()),
            None => {}
        }
        counted::sent(out);
    }

    fn closed(&mut self, _: Now, reason: CloseReason, out: &mut Out) {
        match &self.0 {
            State::Bound { device, .. } => out.say(PushRequest::Closed { device: *device, reason }),
            State::Many(many) => {
                many.devices().for_each(|device| out.say(PushRequest::Closed { device, reason }));
            }
            _ => {}
        }
    }
}

/// How long a device may be silent: one and a half heartbeats, milliseconds (MIOP 5.7).
fn patience_ms(heartbeat_s: u16) -> u32 {
    u32::from(heartbeat_s) * 1_500
}

/// Appends a version 7 ERROR: `word` is for the device's log.
fn error(code: ResultCode, word: &'static str, out: &mut Vec<u8>) {
    let (result, reason) = (Some(code.number()), Some(word.as_bytes()));
    Frame::new(Opcode::Error, Props { result, reason, ..Props::default() }).write(out);
}

/// The hub said something that it cannot say in this state: a defect, and this connection's end.
fn unexpected(what: &'static str) -> CloseReason {
    base::never!(true, "{what}");
    CloseReason::Internal
}

fn encode_push(version: Version, push: &Push, again: bool, out: &mut Vec<u8>) {
    let (id, app_id, body) = (push.id.0, push.app_id, &*push.body);
    if version.is_classic() {
        return wire::write_msg(version, &ClassicRecord { id, app_id, body }, out);
    }
    let silent = if push.silent { PushRecord::SILENT } else { 0 };
    let high = if push.priority == model::push::Priority::High { PushRecord::HIGH } else { 0 };
    let collapse = push.collapse.as_deref().unwrap_or_default().as_bytes();
    let record =
        PushRecord { id, app_id, flags: silent | high, expire_at: push.expire_at, collapse, body };
    let mut msg = Frame::new(Opcode::Msg, Props::default());
    msg.flags = frame::flag::ACK_REQ | if again { frame::flag::DUP } else { 0 };
    frame::write(&msg, |out| record.write(out), out);
}

#[cfg(test)]
mod tests;

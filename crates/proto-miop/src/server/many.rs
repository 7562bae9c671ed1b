//! Several devices on one connection, which only version 5 has (MIOP 4.6).
//!
//! Terms are numbered in the order of arrival and a number is not used twice. One Bind or Unbind
//! is with the hub at a time. A device is found by its `u`; of the first one, bound before there
//! were several, only a hash was kept.

use super::{Out, classic, unexpected};
use crate::codec::Version;
use crate::codec::classic as wire;
use crate::codec::result::ResultCode;
use model::close::CloseReason;
use model::id::DeviceRef;
use model::request::{Bind, Bound, Kick, PushRequest};

const VERSION: Version = Version::V5;

/// The devices of a connection.
pub(super) struct Many {
    terms: Vec<Term>,
    next: u16,
    pending: Option<Pending>,
}

/// A bound device.
pub(super) struct Term {
    number: u16,
    pub device: DeviceRef,
    app_id: u32,
    name: Name,
    /// Whether the same device bound again over this connection, so that the kick of this term is
    /// ignored.
    succeeded: bool,
}

enum Name {
    Hash(u16),
    Text(Box<str>),
}

impl Name {
    fn is(&self, u: &str) -> bool {
        match self {
            Name::Hash(hash) => *hash == name_hash(u),
            Name::Text(text) => **text == *u,
        }
    }
}

/// Request that the hub has not answered.
enum Pending {
    Bind { number: u16, u: Box<str> },
    Unbind { number: u16, app_id: u32 },
}

impl Many {
    /// With the device that was bound so far.
    pub fn new(device: DeviceRef, app_id: u32, name: u16) -> Many {
        let name = Name::Hash(name);
        let first = Term { number: 0, device, app_id, name, succeeded: false };
        Many { terms: vec![first], next: 1, pending: None }
    }

    pub fn waits(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether no device is bound and none may become so.
    pub fn is_over(&self) -> bool {
        self.terms.is_empty() && self.pending.is_none()
    }

    pub fn devices(&self) -> impl Iterator<Item = DeviceRef> {
        self.terms.iter().map(|term| term.device)
    }

    pub fn term(&self, number: u16) -> Option<&Term> {
        self.terms.iter().find(|term| term.number == number)
    }

    pub fn remove(&mut self, number: u16) {
        self.terms.retain(|term| term.number != number);
    }

    /// Asks the hub, unless the connection has as many devices as it may.
    pub fn bind(&mut self, mut bind: Bind, u: &str, terms_max: usize, out: &mut Out) {
        if self.terms.len() >= terms_max || self.next == u16::MAX {
            let id = bind.product.as_str();
            wire::write_bind_ack(VERSION, Some(id), ResultCode::Quota.number(), &[], out.bytes());
            return;
        }
        self.terms.iter_mut().filter(|term| term.name.is(u)).for_each(|t| t.succeeded = true);
        bind.term = self.next;
        self.pending = Some(Pending::Bind { number: self.next, u: u.into() });
        self.next += 1;
        out.say(PushRequest::Bind(Box::new(bind)));
    }

    pub fn bound(&mut self, bound: &Bound, out: &mut Out) -> Result<(), CloseReason> {
        let Some((number, u)) = self.answered_bind() else {
            return Err(unexpected("Bound without a Bind"));
        };
        wire::write_bind_ack(VERSION, Some(app_id(&u)), 0, &[], out.bytes());
        let (device, app_id) = (bound.device, bound.app_id);
        self.terms.retain(|term| term.device != device);
        self.terms.push(Term { number, device, app_id, name: Name::Text(u), succeeded: false });
        Ok(())
    }

    pub fn refused(
        &mut self,
        code: ResultCode,
        addrs: &[String],
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        let Some((_, u)) = self.answered_bind() else {
            return Err(unexpected("Refused without a Bind"));
        };
        self.terms.iter_mut().filter(|term| term.name.is(&u)).for_each(|t| t.succeeded = false);
        classic::write_no(VERSION, Some(app_id(&u)), code, addrs, out.bytes());
        Ok(())
    }

    fn answered_bind(&mut self) -> Option<(u16, Box<str>)> {
        match self.pending.take() {
            Some(Pending::Bind { number, u }) => Some((number, u)),
            other => {
                self.pending = other;
                None
            }
        }
    }

    /// Asks the hub; a device that is not bound here is as it wishes to be, and told so.
    pub fn unbind(&mut self, u: &str, out: &mut Out) {
        let exact = |term: &Term| matches!(&term.name, Name::Text(text) if **text == *u);
        let found = self.terms.iter().position(exact);
        let found = found.or_else(|| self.terms.iter().position(|term| term.name.is(u)));
        let Some(at) = found else {
            let props = format!("id:{}\nr:0", app_id(u));
            return wire::write_props(
                VERSION,
                wire::ClassicOpcode::UnbindAck,
                props.as_bytes(),
                out.bytes(),
            );
        };
        let Term { number, device, app_id, .. } = self.terms.remove(at);
        self.pending = Some(Pending::Unbind { number, app_id });
        out.say(PushRequest::Unbind { term: number, device });
    }

    pub fn unbound(&mut self, number: u16, out: &mut Out) {
        match self.pending.take() {
            Some(Pending::Unbind { number: asked, app_id }) if asked == number => {
                wire::write_unbind_ack(VERSION, app_id, out.bytes());
            }
            other => self.pending = other,
        }
    }

    /// Appends what tells the device of a kick.
    pub fn write_kick(&self, kick: &Kick, code: ResultCode, out: &mut Out) {
        let Some(term) = self.term(kick.term).filter(|term| !term.succeeded) else { return };
        let id = term.app_id.to_string();
        classic::write_no(VERSION, Some(&id), code, &kick.addrs, out.bytes());
    }
}

/// The app id in a `u` that was taken once.
fn app_id(u: &str) -> &str {
    u.split_once('@').map_or("", |(_, app_id)| app_id)
}

/// Sixteen bits that tell a `u` from others: what a connection with one device keeps of it.
pub(super) fn name_hash(u: &str) -> u16 {
    let fnv = u
        .bytes()
        .fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (fnv ^ (fnv >> 16)) as u16
}

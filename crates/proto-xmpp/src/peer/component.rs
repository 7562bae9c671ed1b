//! A stream of a component (XEP-0114): who it is, by a secret that both know; and its stanzas.
//!
//! ```text
//!   header, for its domain ──► header, with an id
//!   handshake: SHA-1 of id and secret ──► handshake, or not-authorized
//!   stanzas ──►
//! ```

use super::wire::{check_namespace, new_id, sender, write_header};
use super::{Around, Next, Out, PeerEnd, PeerWord};
use crate::fault::StreamFault;
use crate::jid;
use crate::xml::scan::{CLIENT, COMPONENT, Element};
use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;

/// A stream of a component.
#[derive(Default)]
pub(super) struct ComponentStream {
    /// The domain that it says, and the id of its stream.
    begun: Option<(Box<str>, String)>,
    is_shown: bool,
}

impl ComponentStream {
    pub(super) fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// The domain that it was shown to be of.
    pub(super) fn domain(&self) -> Option<&str> {
        self.begun.as_ref().map(|(domain, _)| &**domain).filter(|_| self.is_shown)
    }

    pub(super) fn opened(&mut self, _: &Around<'_>, _: &mut Out) {}

    pub(super) fn header(
        &mut self,
        header: &Element<'_, '_>,
        around: &Around<'_>,
        out: &mut Out,
    ) -> Result<(), PeerEnd> {
        let id = new_id(out);
        let domain = header.attribute("to").and_then(|to| jid::domain(&to));
        write_header(COMPONENT, (domain.as_deref(), None, Some(&id)), false, out.bytes());
        check_namespace(header, COMPONENT)?;
        let known = &around.profile.components;
        let domain = domain.filter(|domain| known.iter().any(|(known, _)| known == domain));
        self.begun = Some((domain.ok_or(StreamFault::HostUnknown)?, id));
        Ok(())
    }

    pub(super) fn element(
        &mut self,
        element: &Element<'_, '_>,
        (around, number): (&Around<'_>, u64),
        out: &mut Out,
    ) -> Result<Next, PeerEnd> {
        let Some((domain, id)) = &self.begun else {
            return Err(StreamFault::NotAuthorized.into());
        };
        if element.is("handshake", CLIENT) && !self.is_shown {
            let mut known = around.profile.components.iter();
            let secret = known.find(|(known, _)| known == domain).map(|(_, secret)| &*secret.0);
            let expected = secret.map(|secret| handshake(id, secret)).unwrap_or_default();
            let shown = element.text();
            let is_right: bool = shown.trim().as_bytes().ct_eq(expected.as_bytes()).into();
            if expected.is_empty() || !is_right {
                return Err(PeerEnd::Fault(StreamFault::NotAuthorized));
            }
            self.is_shown = true;
            out.bytes().extend_from_slice(b"<handshake/>");
            out.say(PeerWord::Component(domain.clone(), number));
            return Ok(Next::Goes);
        }
        if !self.is_shown {
            return Err(StreamFault::NotAuthorized.into());
        }
        let from = sender(element)?;
        if from != *domain {
            return Err(StreamFault::InvalidFrom.into());
        }
        out.say(PeerWord::Stanza { from, xml: element.whole().as_bytes().into(), place: None });
        Ok(Next::Goes)
    }
}

/// Proof of a component that knows the secret (XEP-0114 3).
pub fn handshake(id: &str, secret: &str) -> String {
    base::hex::encode(&Sha1::digest(format!("{id}{secret}").as_bytes()))
}

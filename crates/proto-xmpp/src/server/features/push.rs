//! Push (XEP-0357): devices that are to be woken while they are away.
//!
//! ```text
//! <enable jid='push.DOMAIN' node='NAME'> <x type='submit'> app, token │ product, device, code
//! <disable jid='push.DOMAIN' node='NAME'/>                             without a node: all
//! ```
//! The push service is Holdline's own: a registration has the node for its name, and says in its
//! options by which way the device is reached (docs/push.md). Another's service is not reached. A
//! form without a token has the node for one.

use super::What;
use crate::fault::StanzaFault;
use crate::forms::{FORMS, fields};
use crate::jid::Jid;
use crate::server::Out;
use crate::server::session::Session;
use crate::xml::scan::Element;
use model::chat::{ChatRequest, PUSH_NAME_BYTES_MAX, PushRoute, PushWish};

pub(in crate::server) const PUSH: &str = "urn:xmpp:push:0";

/// What stands before the domain in the address of the push service.
const SERVICE: &str = "push.";

/// The options of a registration.
#[derive(Default)]
struct Options {
    app: Option<Box<str>>,
    token: Option<Box<str>>,
    product: Option<Box<str>>,
    device: Option<Box<str>>,
    code: Option<Box<str>>,
}

impl Session {
    /// A question about pushes of the own account, if it is one. False: it is another one.
    pub(in crate::server) fn asks_pushes(
        &mut self,
        asked: &Element<'_, '_>,
        (is_set, about): (bool, (Option<&str>, Option<&str>)),
        out: &mut Out,
    ) -> bool {
        if !is_set || asked.namespace() != PUSH {
            return false;
        }
        let wish = match asked.name() {
            "enable" => self.enables(asked),
            "disable" => self.disables(asked),
            _ => return false,
        };
        match wish {
            Ok(wish) => {
                let (number, session) = (self.asks((What::Order, about), 1), self.session);
                out.say(ChatRequest::Push { session, number, wish: Box::new(wish) });
            }
            Err(fault) => self.refuse("iq", about, fault, out),
        }
        true
    }

    /// A device is to be woken (5).
    fn enables(&self, asked: &Element<'_, '_>) -> Result<PushWish, StanzaFault> {
        self.is_own_service(asked)?;
        let node = node_of(asked)?.ok_or(StanzaFault::BadRequest)?;
        let form = asked.child("x", FORMS).ok_or(StanzaFault::NotAcceptable)?;
        let Options { app, token, product, device, code } = Options::of(&form)?;
        let route = match (app, product, device) {
            (Some(app), None, None) => PushRoute::gateway(&app, &token.unwrap_or(node.clone())),
            (None, Some(product), Some(device)) if token.is_none() => {
                PushRoute::miop(&product, &device)
            }
            _ => None,
        };
        let route = route.ok_or(StanzaFault::NotAcceptable)?;
        let is_gateway = matches!(route, PushRoute::Gateway { .. });
        if is_gateway && code.is_some() {
            return Err(StanzaFault::NotAcceptable);
        }
        Ok(PushWish::Register { name: Some(node), route, code })
    }

    /// It is to be woken no longer (6); without a node, none is.
    fn disables(&self, asked: &Element<'_, '_>) -> Result<PushWish, StanzaFault> {
        self.is_own_service(asked)?;
        Ok(PushWish::Remove { name: Some(node_of(asked)?.unwrap_or_default()) })
    }

    /// Whether the push service is the one that is here.
    fn is_own_service(&self, asked: &Element<'_, '_>) -> Result<(), StanzaFault> {
        let jid = asked.attribute("jid").ok_or(StanzaFault::BadRequest)?;
        let jid = Jid::parse(&jid).ok_or(StanzaFault::JidMalformed)?;
        match jid.account.is_none() && self.is_at(&jid, SERVICE) {
            true => Ok(()),
            false => Err(StanzaFault::RemoteServerNotFound),
        }
    }
}

/// The node that a stanza names; one without any bytes is none.
fn node_of(asked: &Element<'_, '_>) -> Result<Option<Box<str>>, StanzaFault> {
    let node = asked.attribute("node").filter(|node| !node.is_empty());
    if node.as_ref().is_some_and(|node| node.len() > PUSH_NAME_BYTES_MAX) {
        return Err(StanzaFault::PolicyViolation);
    }
    Ok(node.map(|node| node.into()))
}

impl Options {
    /// What a form says. What is not known here is for others (XEP-0060 7.1.5).
    fn of(form: &Element<'_, '_>) -> Result<Options, StanzaFault> {
        if form.attribute("type").as_deref() != Some("submit") {
            return Err(StanzaFault::BadRequest);
        }
        let mut options = Options::default();
        for (name, values) in fields(form) {
            let Some(value) = values.into_iter().next() else { continue };
            let value = Some(value.into());
            match &*name.unwrap_or_default() {
                "app" => options.app = value,
                "token" => options.token = value,
                "product" => options.product = value,
                "device" => options.device = value,
                "code" => options.code = value,
                _ => {}
            }
        }
        Ok(options)
    }
}

//! Topics that begin with `$im/` are chat's: requests go to the publisher's machine, which decodes
//! them, and events go only to the session whose client is the device.
//!
//! This module looks neither into requests nor at the form of events; it alone knows the device of
//! a client. Invariant: nothing is ever published to such a topic, so a subscription there holds a
//! place, outlives restarts as any other, and matches nothing; no body waits in a session's queue.

use super::principals::Principal;
use super::record::{Exchange, Session};
use crate::Broker;
use crate::Effects;
use crate::message::answers::Origin;
use base::slab::Key;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{
    AccountDevice, CHAT_ANSWERS, CHAT_EVENTS, CHAT_EVENTS_JSON, CHAT_REQUESTS, CHAT_TOPICS,
    ChatCall, EventsForm, EventsWanted, NoDevice,
};
use model::counters::TopicCounter;
use model::session::{Denial, SessionDelivery};
use model::topic::{Publication, Qos};
use std::sync::Arc;

/// Whether a topic or a filter is chat's.
pub(crate) fn is_of_chat(text: &str) -> bool {
    text.strip_prefix(CHAT_TOPICS).is_some() || text == CHAT_TOPICS.trim_end_matches('/')
}

impl Broker {
    /// A client has published something to a topic of chat.
    pub(crate) fn call_chat(
        &mut self,
        now: Now,
        exchange: Exchange,
        message: Arc<Publication>,
        fx: &mut Effects,
    ) {
        let (key, qos) = (exchange.session, message.qos);
        let Some(session) = self.sessions.at(key) else { return };
        let Some(conn) = session.online() else { return };
        if !message.is_under(CHAT_REQUESTS) {
            // Only the server speaks there.
            return match qos {
                Qos::AtMostOnce => fx.counters.count(TopicCounter::PublishesRefused),
                _ => self.refuse(now, Origin::Client(exchange, qos), Denial::NotAuthorized, fx),
            };
        }
        fx.counters.count(TopicCounter::ChatCalls);
        let call = ChatCall {
            id: exchange.id,
            qos,
            message,
            device: self.device_of(key),
            client_id: session.id().into(),
        };
        fx.deliveries.push((conn, SessionDelivery::Call(Box::new(call))));
    }

    /// Whether a session may have this filter, which is chat's: those that are its own alone.
    pub(crate) fn may_hear_chat(&self, session: &Session, filter: &str) -> Result<(), Denial> {
        let own = filter.strip_prefix(CHAT_ANSWERS);
        let is_own = own.is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix('/').is_some_and(|name| name == session.id())
        });
        let has_device = self.device_of_session(session).is_ok();
        match has_device && (is_own || [CHAT_EVENTS, CHAT_EVENTS_JSON].contains(&filter)) {
            true => Ok(()),
            false => Err(Denial::NotAuthorized),
        }
    }

    /// Sends a device's machine the events that it wants now, which may have changed.
    pub(crate) fn tell_device(&mut self, key: Key, fx: &mut Effects) {
        let (Some(conn), Ok(device)) = (self.sessions.online(key), self.device_of(key)) else {
            return;
        };
        fx.deliveries.push((conn, SessionDelivery::Device(Box::new(device))));
    }

    /// Sends the device of a returning client its events again, if it may have wanted some.
    pub(crate) fn tell_device_again(&mut self, key: Key, fx: &mut Effects) {
        if self.device_of(key).is_ok_and(|device| device.events.any()) {
            self.tell_device(key, fx);
        }
    }

    fn device_of(&self, key: Key) -> Result<AccountDevice, NoDevice> {
        let session = self.sessions.at(key).ok_or(NoDevice::NoAccount)?;
        let device = self.device_of_session(session)?;
        let wants = |filter| {
            let held = self.subscriptions.known(session, key.slot, filter)?;
            Some(EventsForm { subscription_id: session.subscription_id(held.number) })
        };
        let events = EventsWanted { plain: wants(CHAT_EVENTS), json: wants(CHAT_EVENTS_JSON) };
        Ok(AccountDevice { events, ..device })
    }

    /// The device of a session's client, whatever events it wants; or why it is none.
    fn device_of_session(&self, session: &Session) -> Result<AccountDevice, NoDevice> {
        let domain = self.settings.chat_domain.as_deref().ok_or(NoDevice::Off)?;
        let Principal { user: Some(user), account: Some(account), .. } =
            self.sessions.principal(session)
        else {
            return Err(NoDevice::NoAccount);
        };
        let address = AccountAddress::parse(user, domain).map_err(|_| NoDevice::NoAccount)?;
        let named = session.more.as_ref().and_then(|more| more.device.as_deref());
        Ok(AccountDevice {
            address,
            user: user.clone(),
            account: *account,
            until_s: session.until_s(),
            device: named.unwrap_or(session.id()).into(),
            protocol: self.sessions.protocol_name(session.protocol()),
            peer: session.peer(),
            events: EventsWanted::default(),
            limits: self.settings.limits.clone(),
        })
    }
}

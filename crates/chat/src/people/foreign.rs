//! Messages and presence for accounts of other domains ([`model::chat::foreign`]); those from them
//! are in [`arrivals`](super::arrivals).
//!
//! ```text
//! send ─► conversation (stored, answered) ─► inboxes ─► its own: appended
//!                                                └─────► a foreign one: queued, goes out
//! ```
//! A foreign account has a home by its address, and ties there like any other; but it has no
//! session, and no inbox: messages for its inbox are put into a queue ([`queue`]) and sent to its
//! server. So the protocol between homes holds for it, too: blocks, subscription requests,
//! visibility of presence. This module does not know stanzas and streams.

pub(crate) mod queue;

use crate::people::ProbeAsked;
use crate::people::stanzas::DirectedTo;
use crate::word::{Cargo, ChatWord};
use crate::{Chat, Effects};
use base::time::Now;
use model::account::{AccountAddress, AccountId};
use model::chat::foreign::ForeignWord;
use model::chat::{
    Availability, ChatDelivery, ChatMessage, Contact, ContactOrder, Half, HandingOn, Subscription,
    SubscriptionVerb,
};
use model::counters::ChatCounter;
use model::id::ConnRef;
use model::timeline::TimelineId;
use std::sync::Arc;

/// A device and its presence; none: it has gone offline.
type DeviceState = (Box<str>, Option<Arc<Availability>>);

/// Sends the presence of an account's devices to a foreign account.
pub(crate) fn tell(
    from: &AccountAddress,
    to: &AccountAddress,
    states: impl Iterator<Item = DeviceState>,
    fx: &mut Effects,
) {
    fx.foreign.extend(states.map(|(device, availability)| ForeignWord::Presence {
        from: from.clone(),
        device: Some(device),
        availability,
        to: to.clone(),
    }));
}

/// Notifies a foreign account that an account is offline on all devices.
pub(crate) fn tell_gone(from: &AccountAddress, to: &AccountAddress, fx: &mut Effects) {
    let (from, to, device, availability) = (from.clone(), to.clone(), None, None);
    fx.foreign.push(ForeignWord::Presence { from, device, availability, to });
}

/// Requests the presence of a foreign account for an account that may see it.
pub(crate) fn probe(from: &AccountAddress, to: &AccountAddress, fx: &mut Effects) {
    fx.foreign.push(ForeignWord::Probe { from: from.clone(), to: to.clone() });
}

/// Repeats the approval to a foreign account that requests a subscription which it has already: its
/// own server has lost it (RFC 6121 3.1.3).
pub(crate) fn answer_again(
    (foreign, contact): (AccountAddress, AccountAddress),
    (order, now): (&ContactOrder, Subscription),
    fx: &mut Effects,
) {
    if matches!(order, ContactOrder::Say(SubscriptionVerb::Subscribe, _))
        && now.to == Half::Subscribed
    {
        let (verb, greeting) = (SubscriptionVerb::Subscribed, Box::default());
        fx.foreign.push(ForeignWord::Subscription { from: contact, to: foreign, verb, greeting });
    }
}

impl Chat {
    /// The part of a parcel for a foreign account that is sent to its server: a message, unless the
    /// account itself sent it.
    pub(crate) fn goes_out<'a>(&self, own: bool, cargo: &'a Cargo) -> Option<&'a Arc<ChatMessage>> {
        let Cargo::Message(message) = cargo else { return None };
        (!own && self.settings.is_foreign(&message.to)).then_some(message)
    }

    /// Passes a change of a contact here on to a foreign account. `begins`: from now on it sees the
    /// contact's presence.
    pub(crate) fn foreign_heard(
        &mut self,
        (foreign, contact, peer): (AccountAddress, Arc<Contact>, Option<TimelineId>),
        said: Option<SubscriptionVerb>,
        begins: bool,
        fx: &mut Effects,
    ) {
        if let Some(verb) = said {
            let (from, to) = (contact.address.clone(), foreign.clone());
            let greeting = contact.greeting.clone();
            fx.foreign.push(ForeignWord::Subscription { from, to, verb, greeting });
        }
        let Some(peer) = peer.filter(|_| begins) else { return };
        let by = foreign.inbox(self.settings.home, AccountId::FOREIGN);
        let asked = ProbeAsked { number: 0, from: foreign, by, to: [peer].into() };
        let owner = self.settings.shard_at(peer);
        if owner == self.settings.shard {
            self.probe(owner, &asked, fx);
        } else {
            fx.peer_messages.push((owner, ChatWord::Probe(Box::new(asked))));
        }
    }

    /// Sends a device's stanza to another domain.
    pub(crate) fn hand_on(&mut self, now: Now, from: ConnRef, on: HandingOn, fx: &mut Effects) {
        let HandingOn { session, to, stanza, directed, refusal } = on;
        let Some(key) = self.sessions.bound(from, session) else { return };
        let Some(asker) = self.asker(from, session) else { return };
        let is_said = stanza.xml.starts_with(b"<message");
        if is_said && self.mutes.until(now, &asker.address) > 0 {
            return fx.counters.count(ChatCounter::Silenced);
        }
        if to.as_ref().is_some_and(|to| self.people.blocks(asker.inbox, to)) {
            let told = refusal.map(|xml| (from, ChatDelivery::Stanza(xml)));
            return fx.deliveries.extend(told);
        }
        if let Some((whom, is_there)) = directed {
            let whom = DirectedTo::Elsewhere(whom, stanza.domain.clone());
            self.directed_to((key, &asker), whom, is_there.then_some(None), fx);
        }
        fx.foreign.push(ForeignWord::Stanza(stanza));
    }
}

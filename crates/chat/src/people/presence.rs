//! Presence of people: sessions' own presence, and what they receive of others'.
//!
//! Presence is not stored, and contacts' presence is not kept: a session that comes online requests
//! it from their homes. A home answers with the presence of that moment, and its words arrive in
//! order; so the newest holds. Invariant: a session receives presence of its own account, and of
//! contacts that the account may see.

use super::words::{DeviceState, PresenceTold, ProbeAsked, Probed};
use super::{Here, Tie};
use crate::people::foreign;
use crate::sessions::Requester;
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::slab::Key;
use model::account::AccountAddress;
use model::chat::{
    Availability, ChatDelivery, ContactChange, Half, Presence, Show, Subscription, SubscriptionVerb,
};
use model::counters::ChatCounter;
use model::id::{ConnRef, ShardId};
use model::timeline::{Space, TimelineId};
use std::sync::Arc;

impl Chat {
    /// Sets a session's presence; none: unavailable.
    pub(super) fn present(
        &mut self,
        inbox: TimelineId,
        wait: Requester,
        availability: Option<Arc<Availability>>,
        fx: &mut Effects,
    ) {
        self.is_present(inbox, wait, availability, fx);
        self.answer_people(wait, Ok(()), fx);
    }

    /// Sets a session to available if it has never sent a presence.
    pub(super) fn is_here(&mut self, inbox: TimelineId, wait: Requester, fx: &mut Effects) {
        if self.here(inbox, wait).is_some_and(|(_, here)| !here.has_said) {
            self.is_present(inbox, wait, Some(Arc::default()), fx);
        }
    }

    fn is_present(
        &mut self,
        inbox: TimelineId,
        wait: Requester,
        availability: Option<Arc<Availability>>,
        fx: &mut Effects,
    ) {
        let availability = availability.map(|said| self.people.shared(said));
        let Some((key, here)) = self.here(inbox, wait) else { return };
        here.has_said = true;
        let before = std::mem::replace(&mut here.present, availability.clone());
        let (conn, device) = (here.conn, here.device.clone());
        let is_other = before != availability;
        let (comes, goes) = (before.is_none() && is_other, availability.is_none() && is_other);
        if is_other {
            fx.counters.count(ChatCounter::PresenceChanges);
            self.device_changed(inbox, device.clone(), availability, fx);
        }
        if comes || goes {
            self.device_came_or_went(inbox);
        }
        if comes {
            self.tell_who_waits(inbox, (conn, &device), fx);
            self.look_for_contacts(inbox, None, Some(key));
            if let Some(interests) = self.interests_at(key) {
                self.look_for_nodes(inbox, key, interests);
            }
        }
        if goes && let Some(person) = self.people.known.get_mut(&inbox) {
            person.walks.forget(key);
        }
    }

    /// Sends a session that comes online the presence of the account's other devices, and pending
    /// subscription requests.
    fn tell_who_waits(
        &mut self,
        inbox: TimelineId,
        (conn, device): (ConnRef, &str),
        fx: &mut Effects,
    ) {
        let Some(person) = self.people.known.get(&inbox) else { return };
        for here in person.sessions.values().filter(|here| *here.device != *device) {
            if here.present.is_some() {
                let state = (here.device.clone(), here.present.clone());
                tell(conn, &person.address, state, fx);
            }
        }
        for tie in person.ties.values() {
            let waits = tie.subscription().from == Half::Pending;
            if waits && !person.blocks(&tie.contact.address) {
                let said = Some(SubscriptionVerb::Subscribe);
                let contact = tie.contact.clone();
                let (is_news, is_block_news) = (false, false);
                let change = ContactChange { contact, said, is_news, is_block_news };
                fx.deliveries.push((conn, ChatDelivery::Contact(Box::new(change))));
            }
        }
    }

    /// Distributes a device's changed presence: to the account's own sessions at once (RFC 6121
    /// 4.2.2), to contacts by a walk.
    pub(super) fn device_changed(
        &mut self,
        inbox: TimelineId,
        device: Box<str>,
        availability: Option<Arc<Availability>>,
        fx: &mut Effects,
    ) {
        let Some(person) = self.people.known.get_mut(&inbox) else { return };
        for here in person.sessions.values().filter(|here| here.present.is_some()) {
            tell(here.conn, &person.address, (device.clone(), availability.clone()), fx);
        }
        if person.walks.device_changed(device) {
            self.people.ready.push_back(inbox);
        }
    }

    /// Changes the badge in the presence of each device that carries one.
    pub(crate) fn badge_changed(&mut self, inbox: TimelineId, badge: Box<str>, fx: &mut Effects) {
        let Some(person) = self.people.known.get_mut(&inbox) else { return };
        let mut changed = Vec::new();
        for here in person.sessions.values_mut() {
            let Some(present) = &mut here.present else { continue };
            if present.badge.as_ref().is_some_and(|before| *before != badge) {
                Arc::make_mut(present).badge = Some(badge.clone());
                changed.push((here.device.clone(), here.present.clone()));
            }
        }
        for (device, availability) in changed {
            self.device_changed(inbox, device, availability, fx);
        }
    }

    /// Handles that a foreign account, or a whole domain, was blocked or unblocked: its accounts
    /// that see this one's presence learn that it is gone, or how it is, and this account theirs.
    /// For a single contact the homes exchange the rest between them.
    pub(super) fn foreign_block_changed(
        &mut self,
        inbox: TimelineId,
        (whom, is_blocked): (&AccountAddress, bool),
        fx: &mut Effects,
    ) {
        if is_blocked && whom.is_domain() {
            self.parts_from_domain(inbox, whom.domain(), fx);
        }
        let Some(person) = self.people.known.get(&inbox) else { return };
        let Some(states) = person.states() else { return };
        let is_of_it = |tie: &&Tie| match whom.is_domain() {
            true => tie.contact.address.of_its_domain() == whom.as_str(),
            false => tie.contact.address == *whom && !person.blocks_domain_of(whom),
        };
        let is_foreign = |tie: &&Tie| tie.peer.is_some_and(|it| it.space() == Space::Foreign);
        let mut hidden = Vec::new();
        for tie in person.ties.values().filter(is_of_it).filter(is_foreign) {
            let (contact, by_itself) = (&tie.contact.address, tie.contact.address == *whom);
            if tie.contact.is_blocked && !by_itself {
                continue; // it was hidden before, and stays so
            }
            let Subscription { to, from, .. } = tie.subscription();
            if from == Half::Subscribed && is_blocked {
                foreign::tell_gone(&person.address, contact, fx);
            } else if from == Half::Subscribed && whom.is_domain() {
                foreign::tell(&person.address, contact, states.iter().cloned(), fx);
            }
            if to == Half::Subscribed && !by_itself {
                match is_blocked {
                    true => hidden.push(contact.clone()),
                    false => foreign::probe(&person.address, contact, fx),
                }
            }
        }
        hidden.iter().for_each(|contact| self.contact_is_hidden(inbox, contact, fx));
    }

    /// Reports a contact as offline on all devices, since the account may not see it any more.
    pub(super) fn contact_is_hidden(
        &mut self,
        inbox: TimelineId,
        contact: &AccountAddress,
        fx: &mut Effects,
    ) {
        let Some(person) = self.people.known.get(&inbox) else { return };
        for here in person.sessions.values().filter(|here| here.present.is_some()) {
            fx.counters.count(ChatCounter::PresenceDelivered);
            let from = contact.clone();
            let presence = Presence { from, device: None, availability: None };
            fx.deliveries.push((here.conn, ChatDelivery::Presence(Box::new(presence))));
        }
    }

    /// The show value of a session's presence, if it is available.
    pub(crate) fn shown_by(&self, inbox: TimelineId, session: Key) -> Option<Show> {
        let here = self.people.known.get(&inbox)?.sessions.at(&session)?;
        here.present.as_ref().map(|availability| availability.show)
    }

    /// Handles a home's word about an account's presence.
    pub(crate) fn presence_told(&mut self, from: ShardId, told: &PresenceTold, fx: &mut Effects) {
        for &inbox in &told.to {
            self.show(inbox, (&told.from, told.by), &told.states, None, fx);
        }
        self.heard(from, told.number, fx);
    }

    /// Handles a foreign account's presence; none: unavailable. Returns whether the account may see
    /// it.
    pub(crate) fn foreign_present(
        &mut self,
        inbox: TimelineId,
        (from, by): (&AccountAddress, TimelineId),
        (device, availability): (Option<Box<str>>, Option<Arc<Availability>>),
        fx: &mut Effects,
    ) -> bool {
        let Some(person) = self.people.known.get(&inbox) else { return false };
        let sees = |tie: &Tie| person.sees(tie) && tie.peer == Some(by);
        if !person.ties.get(from).is_some_and(sees) {
            return false;
        }
        match device {
            Some(device) => self.show(inbox, (from, by), &[(device, availability)], None, fx),
            None => self.contact_is_hidden(inbox, from, fx),
        }
        true
    }

    /// Sends a contact's presence to sessions of an account, or to one of them, if the account may
    /// see it.
    fn show(
        &mut self,
        inbox: TimelineId,
        (contact, by): (&AccountAddress, TimelineId),
        states: &[DeviceState],
        only: Option<Key>,
        fx: &mut Effects,
    ) {
        let Some(person) = self.people.known.get(&inbox) else { return };
        let sees = |tie: &Tie| person.sees(tie) && tie.peer == Some(by);
        if !person.ties.get(contact).is_some_and(sees) {
            return;
        }
        for (key, here) in person.sessions.iter() {
            if here.present.is_some() && only.is_none_or(|only| only == *key) {
                states.iter().for_each(|state| tell(here.conn, contact, state.clone(), fx));
            }
        }
    }

    /// Answers a home's request for the presence of accounts of this shard.
    pub(crate) fn probe(&mut self, from: ShardId, asked: &ProbeAsked, fx: &mut Effects) {
        let found = asked.to.iter().filter_map(|inbox: &TimelineId| {
            let person = self.people.known.get(inbox)?;
            let tie = person.ties.get(&asked.from)?;
            let is_seen = person.is_seen(tie) && tie.peer == Some(asked.by);
            let states = person.states().filter(|_| is_seen)?;
            Some((person.address.clone(), *inbox, states))
        });
        if asked.by.space() == Space::Foreign {
            let found: Vec<_> = found.collect();
            for (address, _, states) in found {
                foreign::tell(&address, &asked.from, states.iter().cloned(), fx);
            }
            return;
        }
        let probed = Box::new(Probed { number: asked.number, found: found.collect() });
        if from == self.settings.shard {
            self.probed(&probed, fx);
        } else {
            fx.peer_messages.push((from, ChatWord::Probed(probed)));
        }
    }

    /// Handles a home's answer about contacts' presence.
    pub(crate) fn probed(&mut self, probed: &Probed, fx: &mut Effects) {
        let Some((inbox, only)) = self.walk_asks(probed.number) else { return };
        for (address, by, states) in &probed.found {
            self.show(inbox, (address, *by), states, only, fx);
        }
        self.walk_heard(probed.number);
    }
}

impl super::Person {
    /// Presence of the account's devices, if any is online.
    fn states(&self) -> Option<Arc<[DeviceState]>> {
        let here = self.sessions.values().filter(|here| here.present.is_some());
        let states: Vec<DeviceState> =
            here.map(|Here { device, present, .. }| (device.clone(), present.clone())).collect();
        (!states.is_empty()).then(|| states.into())
    }

    /// Presence of a device.
    pub(super) fn state_of(&self, device: &str) -> Option<Arc<Availability>> {
        let mut here = self.sessions.values().filter(|here| *here.device == *device);
        here.find_map(|here| here.present.clone())
    }
}

fn tell(
    conn: ConnRef,
    from: &AccountAddress,
    (device, availability): DeviceState,
    fx: &mut Effects,
) {
    fx.counters.count(ChatCounter::PresenceDelivered);
    let presence = Presence { from: from.clone(), device: Some(device), availability };
    fx.deliveries.push((conn, ChatDelivery::Presence(Box::new(presence))));
}

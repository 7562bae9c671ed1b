//! Presence of people: what sessions say of themselves, and what they are told of others.
//!
//! Nothing of it is stored, and nothing is kept of contacts: whoever comes asks their homes. What a
//! home says is how it is when it says it, and what homes say comes in order; so the newest wins.
//! Invariant: a session is told of its own account, and of whom that sees.

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
    /// A session is there like this, or not any more.
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

    /// A session that never said how it is there, is there.
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

    /// Whoever comes is told of its account's other devices, and of wishes that wait.
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

    /// A device of an account is there otherwise: the account's own hear of it at once (RFC 6121
    /// 4.2.2), those who see it in a while.
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

    /// What an account shows of itself is something else: so it is on each device that says it.
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

    /// An account of another server, or a domain, was blocked or is no longer: whoever of it sees
    /// the account is told that it is gone, or how it is there, and the other way round. What
    /// follows for a contact by itself homes tell each other, but for the former.
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
                continue; // it was hidden before, and is
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

    /// The account sees a contact no longer: it is on no device any more.
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

    /// How a session says that its owner is there, if it does.
    pub(crate) fn shown_by(&self, inbox: TimelineId, session: Key) -> Option<Show> {
        let here = self.people.known.get(&inbox)?.sessions.at(&session)?;
        here.present.as_ref().map(|availability| availability.show)
    }

    /// The home of somebody says how that is there.
    pub(crate) fn presence_told(&mut self, from: ShardId, told: &PresenceTold, fx: &mut Effects) {
        for &inbox in &told.to {
            self.show(inbox, (&told.from, told.by), &told.states, None, fx);
        }
        self.heard(from, told.number, fx);
    }

    /// A foreign account is there like this, or not any more. Whether anybody here may know.
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

    /// Sessions of an account, or one of them, are told how a contact is there, if the account
    /// sees it.
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

    /// The home of somebody asks how accounts of this shard are there.
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

    /// Contacts are there like this.
    pub(crate) fn probed(&mut self, probed: &Probed, fx: &mut Effects) {
        let Some((inbox, only)) = self.walk_asks(probed.number) else { return };
        for (address, by, states) in &probed.found {
            self.show(inbox, (address, *by), states, only, fx);
        }
        self.walk_heard(probed.number);
    }
}

impl super::Person {
    /// How its devices are there, if any is.
    fn states(&self) -> Option<Arc<[DeviceState]>> {
        let here = self.sessions.values().filter(|here| here.present.is_some());
        let states: Vec<DeviceState> =
            here.map(|Here { device, present, .. }| (device.clone(), present.clone())).collect();
        (!states.is_empty()).then(|| states.into())
    }

    /// How a device is there.
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

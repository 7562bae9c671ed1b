//! Which listeners a configuration opens, changes and closes, given those that there are.
//!
//! Knows no socket. Invariant: a listener keeps its number as long as it has connections, and a
//! number belongs to one listener.

use super::super::doors::{self, TlsParts};
use super::listeners::Place;
use crate::config::{Config, ListenAddress, ListenSection};
use crate::start::bridges;
use guard::Method;
use net::layer::ListenEndpoint;

/// Most listeners, with those that were closed and still have connections. One more is refused.
const NUMBERS_MAX: usize = 256;

/// Changes to make.
pub(super) struct Draft {
    pub(super) steps: Vec<DraftStep>,
    /// Numbers of those that close.
    pub(super) closing: Vec<usize>,
    /// All listeners by their numbers, as they are afterwards.
    pub(super) sections: Vec<ListenSection>,
    /// Addresses whose sockets will close.
    pub(super) leaving: Vec<ListenEndpoint>,
}

/// A listener that opens or changes.
pub(super) struct DraftStep {
    pub(super) number: usize,
    pub(super) section: ListenSection,
    pub(super) tls: Option<TlsParts>,
    /// Whether the step needs new sockets.
    pub(super) opens: bool,
}

impl Draft {
    pub(super) fn of(places: &[Place], config: &Config) -> Result<Draft, String> {
        let mut draft = Draft {
            steps: Vec::new(),
            closing: Vec::new(),
            sections: places.iter().map(|place| place.section.clone()).collect(),
            leaving: Vec::new(),
        };
        let wanted = doors::all_served(config);
        let number_of = |section: &ListenSection| {
            places.iter().position(|place| is_same(&place.section, section))
        };
        let mut stays = vec![false; places.len()];
        wanted.iter().filter_map(number_of).for_each(|number| stays[number] = true);
        let mut free = (0..places.len()).filter(|&at| !stays[at] && places[at].is_free());
        for section in wanted {
            let number = match number_of(&section) {
                Some(number) => number,
                None => free.next().unwrap_or(draft.sections.len()),
            };
            if number >= NUMBERS_MAX {
                return Err(format!(
                    "[listen.{}]: {NUMBERS_MAX} listeners are open or have connections",
                    section.name
                ));
            }
            draft.set(number, section, (places, config))?;
        }
        for (number, place) in places.iter().enumerate().filter(|(number, _)| !stays[*number]) {
            let is_reused = draft.steps.iter().any(|step| step.number == number);
            if place.is_open {
                draft.closing.push(number);
                draft.leaving.push(place.address.clone());
            }
            if !is_reused {
                forget_methods(&mut draft.sections[number], config);
            }
        }
        Ok(draft)
    }

    fn set(
        &mut self,
        number: usize,
        section: ListenSection,
        (places, config): (&[Place], &Config),
    ) -> Result<(), String> {
        let told = |error| format!("[listen.{}]: {error}", section.name);
        let tls = TlsParts::of(config, &section).map_err(told)?;
        match self.sections.get_mut(number) {
            Some(found) => found.clone_from(&section),
            None => self.sections.push(section.clone()),
        }
        let place = places.get(number).filter(|place| place.is_open);
        // The sockets of listeners for other servers belong to another shard.
        let kind = |section: &ListenSection| section.protocol.peers().is_some();
        let moves = place.is_some_and(|place| {
            place.section.address != section.address || kind(&place.section) != kind(&section)
        });
        if let Some(place) = place.filter(|_| moves) {
            if place.is_handed() {
                return Err(format!(
                    "[listen.{}] address = {}: the service manager opened the socket of this \
                     listener; change the address in its socket unit (a change between a protocol \
                     for clients and one for other servers needs a restart)",
                    section.name, section.address
                ));
            }
            self.leaving.push(place.address.clone());
        }
        let is_as_before = place.is_some_and(|place| place.section == section && place.tls == tls);
        if !is_as_before {
            let opens = place.is_none() || moves;
            self.steps.push(DraftStep { number, section, tls, opens });
        }
        Ok(())
    }
}

/// Whether two sections are the same listener: a user's may have the name of that of bridges.
fn is_same(one: &ListenSection, other: &ListenSection) -> bool {
    one.name == other.name && is_inside(one) == is_inside(other)
}

fn is_inside(section: &ListenSection) -> bool {
    matches!(&section.address, ListenAddress::Unix(path) if path.ends_with(bridges::FILE))
}

/// A closed listener requires nothing that is not configured any more.
fn forget_methods(section: &mut ListenSection, config: &Config) {
    let access = &config.access;
    section.methods.retain(|method| match method {
        Method::Token => access.token.is_set(),
        Method::Ldap => access.ldap.is_on(),
        Method::Http => !access.http.url.is_empty(),
        _ => true,
    });
}

/// Whether a socket at one address is in the way of one at the other.
pub(super) fn overlap(one: &ListenEndpoint, other: &ListenEndpoint) -> bool {
    match (one, other) {
        (ListenEndpoint::Tcp(one), ListenEndpoint::Tcp(other)) => {
            let (a, b) = (one.ip().to_canonical(), other.ip().to_canonical());
            one.port() == other.port() && (a == b || a.is_unspecified() || b.is_unspecified())
        }
        (ListenEndpoint::Unix(one, _), ListenEndpoint::Unix(other, _)) => one == other,
        _ => false,
    }
}

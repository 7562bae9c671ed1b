//! Index of groups: the devices of each tag, of each user and of each time zone.
//!
//! A group belongs to a product and has a number while any device is in it; records hold numbers.
//! Members are kept by slot, in order, so that a fan-out can stop after any of them and continue
//! later, whichever devices came or went meanwhile.

use model::id::{DeviceUser, Tag};
use model::zone::Zone;
use std::collections::{BTreeMap, BTreeSet};

/// Name of a group of devices within their product.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Group {
    /// The devices with this tag.
    Tag(Tag),
    /// The devices of this user.
    User(DeviceUser),
    /// The devices in this time zone.
    Zone(Zone),
}

/// The groups of one shard.
#[derive(Default)]
pub(crate) struct Groups {
    numbers: BTreeMap<(u16, Group), u32>,
    places: Vec<Option<Place>>,
    free: Vec<u32>,
}

struct Place {
    product: u16,
    group: Group,
    members: BTreeSet<u32>,
}

impl Groups {
    /// Adds the device in `slot` to a group; returns the group's number.
    pub fn join(&mut self, product: u16, group: Group, slot: u32) -> u32 {
        let name = (product, group);
        if let Some(&number) = self.numbers.get(&name) {
            self.place_mut(number).members.insert(slot);
            return number;
        }
        let group = name.1.clone();
        let place = Place { product, group, members: BTreeSet::from([slot]) };
        let number = match self.free.pop() {
            Some(number) => {
                self.places[number as usize] = Some(place);
                number
            }
            None => {
                self.places.push(Some(place));
                self.places.len() as u32 - 1
            }
        };
        self.numbers.insert(name, number);
        number
    }

    /// Removes the device in `slot` from a group; the group ends with its last device.
    pub fn leave(&mut self, number: u32, slot: u32) {
        let place = self.place_mut(number);
        place.members.remove(&slot);
        if place.members.is_empty() {
            let name = (place.product, place.group.clone());
            self.numbers.remove(&name);
            self.places[number as usize] = None;
            self.free.push(number);
        }
    }

    /// The group with this number.
    pub fn name(&self, number: u32) -> &Group {
        &self.place(number).group
    }

    /// First member of a group whose slot is not below `from`.
    pub fn member(&self, product: u16, group: Group, from: u32) -> Option<u32> {
        let number = *self.numbers.get(&(product, group))?;
        self.place(number).members.range(from..).next().copied()
    }

    /// Number of members of a group.
    pub fn size(&self, product: u16, group: Group) -> usize {
        self.numbers.get(&(product, group)).map_or(0, |number| self.place(*number).members.len())
    }

    /// The time zones of a product's devices.
    pub fn zones(&self, product: u16) -> impl Iterator<Item = Zone> + '_ {
        let from = (product, Group::Zone(Zone::LEAST));
        self.numbers.range(from..).map_while(move |((of, group), _)| match group {
            Group::Zone(zone) if *of == product => Some(*zone),
            Group::Zone(_) | Group::Tag(_) | Group::User(_) => None,
        })
    }

    /// Number of memberships over all groups.
    pub fn memberships(&self) -> usize {
        self.places.iter().flatten().map(|place| place.members.len()).sum()
    }

    /// Whether the device in `slot` is in the group with this number.
    pub fn has(&self, number: u32, slot: u32) -> bool {
        self.place(number).members.contains(&slot)
    }

    fn place(&self, number: u32) -> &Place {
        self.places[number as usize].as_ref().expect("numbers in records are in use")
    }

    fn place_mut(&mut self, number: u32) -> &mut Place {
        self.places[number as usize].as_mut().expect("numbers in records are in use")
    }
}

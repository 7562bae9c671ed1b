//! Index of tags: the devices of each tag.
//!
//! A tag belongs to a product and has a number while any device carries it; records hold numbers.
//! Members are kept by slot, in order, so that a fan-out can stop after any of them and continue
//! later, whichever devices came or went meanwhile.

use model::id::Tag;
use std::collections::{BTreeMap, BTreeSet};

/// The tags of one shard.
#[derive(Default)]
pub(crate) struct Tags {
    numbers: BTreeMap<(u16, Tag), u32>,
    places: Vec<Option<Place>>,
    free: Vec<u32>,
}

struct Place {
    product: u16,
    tag: Tag,
    members: BTreeSet<u32>,
}

impl Tags {
    /// Adds the device in `slot` to a tag; returns the tag's number.
    pub fn join(&mut self, product: u16, tag: &Tag, slot: u32) -> u32 {
        let name = (product, tag.clone());
        if let Some(&number) = self.numbers.get(&name) {
            self.place_mut(number).members.insert(slot);
            return number;
        }
        let place = Place { product, tag: tag.clone(), members: BTreeSet::from([slot]) };
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

    /// Removes the device in `slot` from a tag; the tag ends with its last device.
    pub fn leave(&mut self, number: u32, slot: u32) {
        let place = self.place_mut(number);
        place.members.remove(&slot);
        if place.members.is_empty() {
            let name = (place.product, place.tag.clone());
            self.numbers.remove(&name);
            self.places[number as usize] = None;
            self.free.push(number);
        }
    }

    /// The tag with this number.
    pub fn tag(&self, number: u32) -> &Tag {
        &self.place(number).tag
    }

    /// First member of a tag whose slot is not below `from`.
    pub fn member(&self, product: u16, tag: &Tag, from: u32) -> Option<u32> {
        let number = *self.numbers.get(&(product, tag.clone()))?;
        self.place(number).members.range(from..).next().copied()
    }

    /// Number of memberships over all tags.
    pub fn memberships(&self) -> usize {
        self.places.iter().flatten().map(|place| place.members.len()).sum()
    }

    /// Whether the device in `slot` carries the tag with this number.
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

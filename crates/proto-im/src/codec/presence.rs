//! Presence: that of a device itself, and that of others (IM 12.4).

use super::WireFault;
use super::group::contact_address;
use super::protobuf::{Body, Sink, Value};
use model::chat::{Availability, Presence, Show};
use std::sync::Arc;

/// `SetPresence`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SetPresenceFields<'a> {
    /// Number that the answer repeats.
    pub number: u32,
    /// The number of how it is there.
    pub show: u32,
    /// In words.
    pub status: &'a str,
}

/// `Presence`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PresenceFields<'a> {
    /// Full address of the contact.
    pub from: &'a str,
    /// Device of the sender; empty: the account has no device online any more.
    pub device: &'a str,
    /// The number of how it is there.
    pub show: u32,
    /// In words.
    pub status: &'a str,
}

impl<'a> SetPresenceFields<'a> {
    /// Fields for a device's own presence; `None`: it is unavailable.
    pub fn of(number: u32, how: Option<&'a Availability>) -> SetPresenceFields<'a> {
        let status = how.map_or("", |how| &how.status);
        SetPresenceFields { number, show: how.map_or(OFFLINE, |how| show_number(how.show)), status }
    }

    pub(super) fn read(value: Value<'a>) -> Result<SetPresenceFields<'a>, WireFault> {
        let mut it = SetPresenceFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.show = value.u32()?,
                3 => it.status = value.text()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for SetPresenceFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.u32(2, self.show);
        sink.text(3, self.status);
    }
}

impl<'a> PresenceFields<'a> {
    /// Fields of a delivered presence.
    pub fn of(presence: &'a Presence) -> PresenceFields<'a> {
        let how = presence.availability.as_deref();
        PresenceFields {
            from: presence.from.as_str(),
            device: presence.device.as_deref().unwrap_or(""),
            show: how.map_or(OFFLINE, |how| show_number(how.show)),
            status: how.map_or("", |how| &how.status),
        }
    }

    /// Decodes the presence; an error: its fields are invalid.
    pub fn presence(&self) -> Result<Presence, WireFault> {
        let device = (!self.device.is_empty()).then(|| self.device.into());
        // Whoever is there in a way that a later version added is there.
        let show = show_of(self.show).unwrap_or_default();
        let status = self.status.into();
        let how = Availability { show, status, ..Availability::default() };
        let is_there = self.show != OFFLINE && device.is_some();
        let availability = is_there.then(|| Arc::new(how));
        Ok(Presence { from: contact_address(self.from)?, device, availability })
    }

    pub(super) fn read(value: Value<'a>) -> Result<PresenceFields<'a>, WireFault> {
        let mut it = PresenceFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.from = value.text()?,
                2 => it.device = value.text()?,
                3 => it.show = value.u32()?,
                4 => it.status = value.text()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for PresenceFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.text(1, self.from);
        sink.text(2, self.device);
        sink.u32(3, self.show);
        sink.text(4, self.status);
    }
}

/// The words of shows, by their numbers from 1 on (IM 8.9).
pub const SHOWS: [&str; 6] = ["online", "talkative", "away", "long_away", "busy", "offline"];

/// The number of not being there (IM 8.9).
pub const OFFLINE: u32 = 6;

/// The number of a show on the wire (IM 8.9).
pub const fn show_number(show: Show) -> u32 {
    match show {
        Show::Here => 1,
        Show::Chat => 2,
        Show::Away => 3,
        Show::ExtendedAway => 4,
        Show::DoNotDisturb => 5,
    }
}

/// The show with this number; `None`: it is that of nobody who is there.
pub const fn show_of(number: u32) -> Option<Show> {
    Some(match number {
        1 => Show::Here,
        2 => Show::Chat,
        3 => Show::Away,
        4 => Show::ExtendedAway,
        5 => Show::DoNotDisturb,
        _ => return None,
    })
}

//! A client that nobody looks at (XEP-0352): how others are there is kept back until somebody does.
//!
//! Of each resource the newest presence is kept, as many as [`KEPT_MAX`]; with one more all are
//! written. Messages, answers and what is said of subscriptions come as ever. Invariant: a user
//! that looks again gets the present state, in the order in which it came about.

use super::feature::{Feature, StreamElements};
use super::session::Session;
use super::{End, Out};
use crate::claims::Xep;
use crate::fault::StreamFault;
use crate::stream::CSI;
use crate::xml::scan::Element;
use model::account::AccountAddress;
use model::chat::{Presence, RoomEvent, RoomNews};
use model::limits::ChatLimits;
use std::sync::Arc;

pub(super) const FEATURE: Feature = Feature {
    claims: &[Xep::complete(
        352,
        ("Client State Indication", "1.0.0"),
        "",
        "server/tests/resumption.rs::presence_waits_until_somebody_looks_and_is_the_newest",
    )],
    inline: &[CSI],
    elements: Some(StreamElements { namespace: CSI, take: looks }),
    ..Feature::NONE
};

/// The client says whether its user looks at it.
fn looks(
    session: &mut Session,
    _: &ChatLimits,
    element: &Element<'_, '_>,
    out: &mut Out,
) -> Result<(), End> {
    match element.name() {
        "inactive" => session.set(Session::INACTIVE, true),
        "active" => {
            session.set(Session::INACTIVE, false);
            session.tells_kept(out);
        }
        _ => return Err(StreamFault::UnsupportedStanzaType.into()),
    }
    Ok(())
}

/// Presences that are kept back.
const KEPT_MAX: usize = 256;

impl Session {
    /// Handles presence of somebody: the device gets it now, or later.
    pub(super) fn hears_of(&mut self, presence: Presence, out: &mut Out) {
        if !self.has(Session::INACTIVE) {
            return self.write_presence(&presence, out);
        }
        let kept = &mut self.busy().quiet;
        kept.retain(|it| {
            let is_of_all = presence.device.is_none();
            it.from != presence.from || !is_of_all && it.device != presence.device
        });
        kept.push(presence);
        self.keeps_so_much(out);
    }

    /// Keeps news of a room back: of an occupant that is there, the newest.
    pub(super) fn keeps_news(&mut self, news: Arc<RoomNews>, out: &mut Out) {
        let nick = |it: &RoomNews| match &it.event {
            RoomEvent::Is(occupant, _) => Some(occupant.nick.clone()),
            _ => None,
        };
        let kept = &mut self.busy().quiet_rooms;
        if let Some(of) = nick(&news) {
            kept.retain(|it| it.group != news.group || nick(it).as_ref() != Some(&of));
        }
        kept.push(news);
        self.keeps_so_much(out);
    }

    /// Forgets the news of a room that were kept back: the device is in it no more, or anew.
    pub(super) fn forgets_kept(&mut self, room: &AccountAddress) {
        if let Some(busy) = &mut self.busy {
            busy.quiet_rooms.retain(|it| it.group != *room);
        }
    }

    fn keeps_so_much(&mut self, out: &mut Out) {
        let busy = self.busy();
        if busy.quiet.len() + busy.quiet_rooms.len() > KEPT_MAX {
            self.tells_kept(out);
        }
    }

    /// Writes what was kept back.
    pub(super) fn tells_kept(&mut self, out: &mut Out) {
        let kept = self.busy.as_mut().map(|busy| std::mem::take(&mut busy.quiet));
        for presence in kept.into_iter().flatten() {
            self.write_presence(&presence, out);
        }
        let kept = self.busy.as_mut().map(|busy| std::mem::take(&mut busy.quiet_rooms));
        for news in kept.into_iter().flatten() {
            self.write_news(&news, out);
        }
    }
}

//! Asides of a room to some occupants of other servers, and requests for voice (XEP-0045 7.8.2,
//! 7.13, 8.6): as in [`super::super::asides`], for seats.
//!
//! Invariant: requests for voice go to seats of moderators alone.

use super::asking::Who;
use super::{Asked, AskedWhat, RoomsAbroad};
use crate::fault::StanzaFault;
use crate::render::full_jid;
use crate::server::rooms::RoomWhat;
use crate::server::rooms::asides::{Voiced, put_aside};
use crate::xml::scan::Element;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::AsideWhat;
use model::chat::foreign::AsideWord;
use model::ports::chat::ErrandWhat;

impl RoomsAbroad {
    /// A form about voice is sent to a room; or something that no room takes.
    pub(super) fn says_of_voice(
        &mut self,
        now: Now,
        who: Who,
        room: &AccountAddress,
        stanza: &Element<'_, '_>,
    ) {
        let standing = self.seats.standing(room, (&who.0, &who.1));
        match Voiced::of(room, stanza, standing) {
            Ok(Voiced::Nothing) => {}
            Ok(Voiced::Asked) => {
                let ((account, device), room, since) = (who, room.clone(), now.mono);
                let errand = ErrandWhat::Voice(room.clone().into());
                let what = AskedWhat::Voice;
                if !self.ask(Asked { account, device, room, what, since }, errand) {
                    self.cannot(stanza, StanzaFault::ResourceConstraint);
                }
            }
            Ok(Voiced::Ordered(order)) => {
                let what = RoomWhat::Order(order);
                self.asks(now, (who, room.clone()), ("message", stanza), what);
            }
            Err(fault) => self.cannot(stanza, fault),
        }
    }

    /// A group tells some of its members something: whoever had invited, wherever it is; moderators
    /// where they are in the room.
    pub fn aside(&mut self, word: &AsideWord) {
        let (room, aside) = (&word.aside.group, &*word.aside);
        if *room.domain() != *self.service {
            return;
        }
        for account in word.to.iter() {
            let whom: Vec<String> = match aside.what {
                AsideWhat::Declined(_) => vec![account.as_str().into()],
                AsideWhat::Voice => {
                    let seats = self.seats.room(room);
                    let its = seats
                        .iter()
                        .filter(|seat| seat.account == *account && seat.own.is_moderator());
                    its.map(|seat| full_jid(account, &seat.device)).collect()
                }
            };
            for to in whom {
                let mut xml = Vec::new();
                put_aside(&to, aside, &mut xml);
                self.sends(account, xml);
            }
        }
    }
}

//! Moderation (XEP-0425): a moderator has a message of a room called back, whoever said it, and
//! says why.
//!
//! ```text
//! moderate ─► History (is it the message of that id?) ─► Recall ─► told by the inbox, as any
//! ```
//! Invariant: nothing is called back but the message that the room gave this id; who may is for the
//! group to say.

use super::administration::reason_of;
use super::{RoomAnswer, RoomRequest, Step, fault_of};
use crate::archive::read_id;
use crate::fault::StanzaFault;
pub(super) use crate::message::amend::MODERATE;
use crate::message::amend::RETRACT;
use crate::xml::scan::Element;
use model::account::AccountAddress;
use model::chat::{ArchiveId, ChatFault, HistoryRange, RecallOrder};

/// A message that is to be called back.
pub(super) struct Moderating {
    room: AccountAddress,
    id: ArchiveId,
    /// Why, in words for people.
    reason: Box<str>,
    /// Whether the message found is the wanted one.
    is_found: bool,
}

impl Moderating {
    /// The moderation that a `moderate` asks for.
    pub(super) fn of(
        room: &AccountAddress,
        asked: &Element<'_, '_>,
    ) -> Result<Moderating, StanzaFault> {
        if asked.child("retract", RETRACT).is_none() {
            return Err(StanzaFault::BadRequest);
        }
        let id = asked.attribute("id").ok_or(StanzaFault::BadRequest)?;
        let id = read_id(&id).ok_or(StanzaFault::ItemNotFound)?;
        let reason = reason_of(asked, MODERATE)?;
        Ok(Moderating { room: room.clone(), id, reason, is_found: false })
    }

    pub(super) fn request(&self) -> RoomRequest {
        let (with, seq) = (self.room.clone().into(), self.id.seq);
        match self.is_found {
            true => {
                let reason = self.reason.clone();
                RoomRequest::Recall(RecallOrder { with, seq, reason })
            }
            false => RoomRequest::History(HistoryRange {
                with,
                from: seq.saturating_sub(1),
                backwards: false,
                count: 1,
            }),
        }
    }

    pub(super) fn take(&mut self, answer: RoomAnswer<'_>) -> Step {
        match answer {
            RoomAnswer::History(page) => {
                self.is_found = page.messages.iter().any(|it| ArchiveId::of(it) == self.id);
                if self.is_found { Step::Ask } else { Step::Refused(StanzaFault::ItemNotFound) }
            }
            RoomAnswer::Changed(_) => Step::Done,
            RoomAnswer::Failed(ChatFault::NotMember) => Step::Refused(StanzaFault::Forbidden),
            RoomAnswer::Failed(why) => Step::Refused(fault_of(why)),
            _ => Step::Refused(StanzaFault::ResourceConstraint),
        }
    }
}

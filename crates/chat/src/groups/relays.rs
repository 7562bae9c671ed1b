//! What occupants of a room say and ask each other through it: private messages (XEP-0045 7.5), and
//! questions with their answers (17.4).
//!
//! ```text
//! Whisper ─► may it? ─► home ─► all devices of the other
//! Relay ─► home ─► one device of the other
//! ```
//! Nothing of it is stored. Invariant: both are in the room, and the receiver is shown the sender's
//! name there.

use crate::groups::rooms::RoomAsked;
use crate::sessions::Asker;
use crate::word::PeerReply;
use crate::{Chat, Effects};
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{
    ChatFault, ClientMessageId, Content, Relayed, RoomEvent, RoomNews, RoomRole, Whispers,
};
use model::timeline::TimelineId;
use std::sync::Arc;

impl Chat {
    /// Checks what an account says to one occupant as a message to the group: limits, mutes, rates
    /// and words.
    pub(super) fn may_whisper(
        &mut self,
        now: Now,
        (asker, group): (&Asker, &AccountAddress),
        content: &mut Content,
        fx: &mut Effects,
    ) -> Result<(), ChatFault> {
        self.may_say(content)?;
        if asker.is_operator {
            return Ok(());
        }
        // It is not stored: no message has this id.
        let said = (ClientMessageId([0; 16]), content);
        self.moderate(now, asker, group, said, fx).map(|_| ()).map_err(|rejected| rejected.why)
    }

    /// Hands what an occupant says to another one to the devices of that one (7.5).
    pub(super) fn whispers_in_room(
        &mut self,
        conversation: TimelineId,
        asked: &RoomAsked,
        (nick, content): (&str, &Content),
        fx: &mut Effects,
    ) -> Result<PeerReply, ChatFault> {
        let room = self.occupants.room(conversation).ok_or(ChatFault::NotMember)?;
        let own = room.at(asked.by, &asked.at).ok_or(ChatFault::NotMember)?;
        let may = match self.groups.state(conversation)?.rules().whispers {
            Whispers::Anyone => true,
            Whispers::Participants => own.room_role() >= RoomRole::Participant,
            Whispers::Moderators => own.is_moderator(),
            Whispers::Nobody => false,
        };
        if !may {
            return Err(ChatFault::Forbidden);
        }
        let (_, to) = room.seats_named(nick).ok_or(ChatFault::UnknownAccount)?;
        let event = RoomEvent::Whispered(own, Box::new(content.clone()));
        self.tell_room(RoomNews { group: asked.group.clone(), number: 0, event }, &to, fx);
        Ok(PeerReply::Done)
    }

    /// Relays a question, or an answer, to a device of another occupant (17.4).
    pub(super) fn relays_in_room(
        &mut self,
        conversation: TimelineId,
        asked: &RoomAsked,
        (nick, device, relayed): (&str, Option<&str>, &Arc<Relayed>),
        fx: &mut Effects,
    ) -> Result<PeerReply, ChatFault> {
        let room = self.occupants.room(conversation).ok_or(ChatFault::NotMember)?;
        let own = room.at(asked.by, &asked.at).ok_or(ChatFault::NotMember)?;
        let to = room.seat_named(nick, device).ok_or(ChatFault::UnknownAccount)?;
        let event = RoomEvent::Relayed(own, relayed.clone());
        self.tell_room(RoomNews { group: asked.group.clone(), number: 0, event }, &to, fx);
        Ok(PeerReply::Done)
    }

    pub(super) fn finds_in_room(
        &mut self,
        conversation: TimelineId,
        by: TimelineId,
        nick: &str,
    ) -> Result<PeerReply, ChatFault> {
        let is_in = self.occupants.one_of(conversation, by).is_some();
        self.groups
            .state(conversation)?
            .member(by)
            .map(|_| ())
            .or_else(|fault| if is_in { Ok(()) } else { Err(fault) })?;
        let room = self.occupants.room(conversation).ok_or(ChatFault::UnknownAccount)?;
        let (_, occupant) = room.named(nick).ok_or(ChatFault::UnknownAccount)?;
        Ok(PeerReply::Occupant(occupant))
    }
}

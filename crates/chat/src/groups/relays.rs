//! Relays between occupants of a room: private messages (XEP-0045 7.5), and questions with their
//! answers (17.4).
//!
//! ```text
//! Whisper ─► may it? ─► home ─► all devices of the other
//! Relay ─► home: the question waits ─► one device of the other
//! Answer, of that device ─► home: does its question wait? ─► the device that has asked
//! ```
//! Nothing of it is stored. Invariants: both are in the room, and the receiver is shown the name of
//! the sender there; a question has one answer, of the device that was asked.

use crate::groups::occupants::SeatAt;
use crate::groups::rooms::RoomAsked;
use crate::sessions::Asker;
use crate::word::PeerReply;
use crate::{Chat, Effects};
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::{
    ChatFault, ClientMessageId, Content, Relayed, RoomEvent, RoomNews, RoomRole, Whispers,
};
use model::counters::ChatCounter;
use model::timeline::TimelineId;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// Time for which a question waits for its answer.
const QUESTION_WAITS: Duration = Duration::from_secs(60);

/// Most questions of an account that wait in the rooms of a shard; more are refused.
const QUESTIONS_AN_ACCOUNT_MAX: u16 = 64;

/// Most questions that wait in the rooms of a shard; beyond, the oldest is forgotten.
const QUESTIONS_MAX: usize = 16_384;

/// A device in a room, and the inbox of its account.
type Seated = (TimelineId, SeatAt);

/// A question that waits for its answer.
struct Question {
    conversation: TimelineId,
    by: Seated,
    to: Seated,
    /// Id that the asker gave it.
    id: Box<str>,
    at: Instant,
}

/// Questions of occupants that wait for their answers, by the numbers under which they were
/// relayed: the oldest has the lowest.
#[derive(Default)]
pub(crate) struct Questions {
    waiting: BTreeMap<u64, Question>,
    /// How many are of an account.
    of: HashMap<TimelineId, u16>,
    last: u64,
}

impl Questions {
    /// Takes a question; returns its number.
    fn ask(&mut self, question: Question) -> Result<u64, ChatFault> {
        let is_over = |it: &Question| question.at.since(it.at) >= QUESTION_WAITS;
        while let Some((&number, it)) = self.waiting.first_key_value()
            && (is_over(it) || self.waiting.len() >= QUESTIONS_MAX)
        {
            self.take(number);
        }
        let of = self.of.entry(question.by.0).or_default();
        if *of >= QUESTIONS_AN_ACCOUNT_MAX {
            return Err(ChatFault::Busy);
        }
        *of += 1;
        self.last += 1;
        self.waiting.insert(self.last, question);
        Ok(self.last)
    }

    /// Takes out the question with a number that was relayed to this device of a room; none: no
    /// such question waits.
    fn answered(
        &mut self,
        at: Instant,
        number: u64,
        (room, by): (TimelineId, Seated),
    ) -> Option<Question> {
        let waits = self.waiting.get(&number).is_some_and(|it| {
            it.conversation == room && it.to == by && at.since(it.at) < QUESTION_WAITS
        });
        if waits { self.take(number) } else { None }
    }

    fn take(&mut self, number: u64) -> Option<Question> {
        let question = self.waiting.remove(&number)?;
        if let Some(of) = self.of.get_mut(&question.by.0) {
            *of -= 1;
            if *of == 0 {
                self.of.remove(&question.by.0);
            }
        }
        Some(question)
    }

    /// Panics when an invariant does not hold.
    pub(crate) fn audit(&self) {
        let of: usize = self.of.values().map(|of| usize::from(*of)).sum();
        assert_eq!(of, self.waiting.len());
    }
}

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

    /// Relays a question to a device of another occupant (17.4).
    pub(super) fn relays_in_room(
        &mut self,
        now: Now,
        conversation: TimelineId,
        asked: &RoomAsked,
        (nick, relayed): (&str, &Relayed),
        fx: &mut Effects,
    ) -> Result<PeerReply, ChatFault> {
        let room = self.occupants.room(conversation).ok_or(ChatFault::NotMember)?;
        let own = room.at(asked.by, &asked.at).ok_or(ChatFault::NotMember)?;
        let to = room.newest_seat(nick).ok_or(ChatFault::UnknownAccount)?;
        let hearer = room.seat(to.0, &to.1).ok_or(ChatFault::UnknownAccount)?;
        let (by, id) = ((asked.by, asked.at.clone()), relayed.id.clone());
        let question = Question { conversation, by, to, id, at: now.mono };
        let id = self.questions.ask(question)?.to_string().into();
        let event = RoomEvent::Relayed(own, Arc::new(Relayed { id, ..relayed.clone() }));
        self.tell_room(RoomNews { group: asked.group.clone(), number: 0, event }, &hearer, fx);
        Ok(PeerReply::Done)
    }

    /// Relays the answer of the device that was asked to the one that has asked.
    pub(super) fn answers_in_room(
        &mut self,
        now: Now,
        conversation: TimelineId,
        asked: &RoomAsked,
        relayed: &Relayed,
        fx: &mut Effects,
    ) -> Result<PeerReply, ChatFault> {
        let by = (conversation, (asked.by, asked.at.clone()));
        let number = relayed.id.parse().ok();
        let question = number.and_then(|it| self.questions.answered(now.mono, it, by));
        let found = question.and_then(|it| {
            let room = self.occupants.room(conversation)?;
            let hearer = room.seat(it.by.0, &it.by.1)?;
            Some((it.id, room.at(asked.by, &asked.at)?, hearer))
        });
        let Some((id, own, hearer)) = found else {
            fx.counters.count(ChatCounter::TransientsDropped);
            return Err(ChatFault::UnknownAccount);
        };
        let event = RoomEvent::Relayed(own, Arc::new(Relayed { id, ..relayed.clone() }));
        self.tell_room(RoomNews { group: asked.group.clone(), number: 0, event }, &hearer, fx);
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

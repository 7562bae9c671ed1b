//! Entries of the inbox from groups: of a room that was entered its stanzas, of another one an
//! invitation, if the account was added to it.
//!
//! The room's news tell who comes, goes, and has which role; changes of the group itself are
//! shown here. Invariant: each message of a room that was entered is shown once, what its history
//! had is not shown again; whatever is shown, its place in the inbox is taken.

use crate::render;
use crate::render::room::{Invitation, nick_in};
use crate::server::Out;
use crate::server::session::Session;
use crate::server::stream_management::resumption::Turn;
use model::chat::{ChatMessage, GroupChange, GroupVerb, RoomRule};
use model::timeline::Seq;

impl Session {
    /// Writes what the device is to see of a message of a group, at this place of its inbox.
    pub(in crate::server) fn write_of_room(
        &mut self,
        (seq, message): (Seq, &ChatMessage),
        (waited, turn): (bool, Turn),
        out: &mut Out,
    ) {
        let before = out.bytes().len();
        let changes = GroupChange::all_of(&message.content);
        let place = self.room(&message.to).map(|room| {
            let later = message.seq.max(room.place);
            std::mem::replace(&mut room.place, later)
        });
        match place {
            // Its history had this.
            Some(place) if message.seq <= place && turn == Turn::First => {}
            Some(_) if !changes.is_empty() => self.room_changes(message, &changes, out),
            Some(_) => {
                if self.put_in_room(message, waited, out.bytes()) {
                    return self.counts_placed(seq, out);
                }
            }
            None => {
                for change in &changes {
                    self.is_invited(message, (change, &key_of(&changes)), (waited, out));
                }
            }
        }
        if out.bytes().len() > before {
            self.expects_ack(seq);
        }
    }

    /// The account was added to a group by somebody else, or may become a member of it (7.8.2).
    fn is_invited(
        &mut self,
        message: &ChatMessage,
        (change, key): (&GroupChange, &str),
        (waited, out): (bool, &mut Out),
    ) {
        let own = self.account();
        let is_named = change.members.iter().any(|it| it.address.as_str() == own);
        let is_meant = change.verb.makes_members() || change.verb == GroupVerb::Invite;
        if !is_meant || !is_named || message.from.as_str() == own {
            return;
        }
        let mut delay = Vec::new();
        if waited {
            render::put_delay(message, message.to.as_str(), &mut delay);
        }
        let (id, delay) = (render::stanza_id(message), String::from_utf8_lossy(&delay));
        let invitation = Invitation {
            room: &message.to,
            by: &message.from,
            why: change.reason(),
            password: key,
        };
        self.write_invitation(&invitation, (&id, &delay), out);
    }

    /// Handles changes of a room that the session is in, which one message announces.
    pub(super) fn room_changes(
        &mut self,
        message: &ChatMessage,
        changes: &[GroupChange],
        out: &mut Out,
    ) {
        let room = &message.to;
        if let Some(change) = changes.iter().find(|it| it.verb == GroupVerb::Rename) {
            let by = nick_in(message);
            self.write_subject(room, (Some(by), &change.title), out);
        }
        // With its own result the device has seen that.
        let is_shown = self.room(room).is_some_and(|it| it.configured == message.seq);
        if !is_shown && changes.iter().any(is_of_settings) {
            self.write_configured(room, out);
        }
    }
}

/// Whether a change is one of settings of a group, which its room shows as a change of its
/// configuration (10.2.1).
pub(super) fn is_of_settings(change: &GroupChange) -> bool {
    use GroupVerb::{Close, Describe, Hide, Lock, Open, Persist, Reveal, Set, Unlock, Unpersist};
    match change.verb {
        Close | Open | Describe | Reveal | Hide | Persist | Unpersist | Lock | Unlock => true,
        Set => !matches!(change.rule(), Some(RoomRule::Key(_))),
        _ => false,
    }
}

/// The password that the invited need; empty: none.
pub(super) fn key_of(changes: &[GroupChange]) -> Box<str> {
    let key = changes.iter().find_map(|it| match it.rule() {
        Some(RoomRule::Key(key)) => Some(key),
        _ => None,
    });
    key.unwrap_or_default()
}

//! Rules of a group's room that have no verb of their own (XEP-0045 10.1.3).
//!
//! A change of one is a [`GroupVerb::Set`](super::GroupVerb::Set) whose text is the rule's word, a
//! blank and its value. The defaults are what every group has that sets none. Invariant: a text
//! that is no rule known here is never guessed at.

use base::encoding::Encoding;

/// Longest password of a room, bytes.
pub const ROOM_PASSWORD_BYTES_MAX: usize = 128;

/// Right to send private messages in a room (`allowpm`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Encoding)]
#[encoding(Anyone = 0, Participants = 1, Moderators = 2, Nobody = 3)]
pub enum Whispers {
    /// Every occupant.
    #[default]
    Anyone,
    /// Occupants that have a voice.
    Participants,
    /// Moderators.
    Moderators,
    /// No occupant.
    Nobody,
}

impl Whispers {
    /// All values.
    pub const ALL: [Whispers; 4] =
        [Whispers::Anyone, Whispers::Participants, Whispers::Moderators, Whispers::Nobody];

    /// The word in stanzas and the log.
    pub const fn word(self) -> &'static str {
        match self {
            Whispers::Anyone => "anyone",
            Whispers::Participants => "participants",
            Whispers::Moderators => "moderators",
            Whispers::Nobody => "none",
        }
    }

    /// The value with this word.
    pub fn of(word: &str) -> Option<Whispers> {
        Whispers::ALL.into_iter().find(|it| it.word() == word)
    }
}

/// A rule, and its value.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding[
    Password = 0, Key = 1, OccupantsMax = 2, MembersInvite = 3, OpenSubject = 4, Whispers = 5
]]
pub enum RoomRule {
    /// The password without which nobody enters the room; empty: none is needed.
    Password(Box<str>),
    /// The password as it is, for the accounts that the same message adds or invites. It changes
    /// nothing.
    Key(Box<str>),
    /// The maximum of occupants; 0: that of the server. Admins may exceed it.
    OccupantsMax(u32),
    /// Whether members may add and invite others, as admins may.
    MembersInvite(bool),
    /// Whether everybody with a voice may change the title.
    OpenSubject(bool),
    /// The right to send private messages.
    Whispers(Whispers),
}

impl RoomRule {
    const PASSWORD: &str = "password";
    const KEY: &str = "key";
    const OCCUPANTS_MAX: &str = "occupants-max";
    const MEMBERS_INVITE: &str = "members-invite";
    const OPEN_SUBJECT: &str = "open-subject";
    const WHISPERS: &str = "private-messages";

    /// The rule that a text is.
    pub fn of(text: &str) -> Option<RoomRule> {
        let (word, value) = text.split_once(' ')?;
        let truth = || match value {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        };
        let is_long = value.len() > ROOM_PASSWORD_BYTES_MAX;
        let password = Some(value).filter(|it| !is_long && !it.chars().any(char::is_control));
        Some(match word {
            RoomRule::PASSWORD => RoomRule::Password(password?.into()),
            RoomRule::KEY => RoomRule::Key(password?.into()),
            RoomRule::OCCUPANTS_MAX => RoomRule::OccupantsMax(value.parse().ok()?),
            RoomRule::MEMBERS_INVITE => RoomRule::MembersInvite(truth()?),
            RoomRule::OPEN_SUBJECT => RoomRule::OpenSubject(truth()?),
            RoomRule::WHISPERS => RoomRule::Whispers(Whispers::of(value)?),
            _ => return None,
        })
    }

    /// Its text.
    pub fn text(&self) -> Box<str> {
        let number = |is: bool| u32::from(is).to_string();
        let (word, value) = match self {
            RoomRule::Password(it) => (RoomRule::PASSWORD, it.to_string()),
            RoomRule::Key(it) => (RoomRule::KEY, it.to_string()),
            RoomRule::OccupantsMax(it) => (RoomRule::OCCUPANTS_MAX, it.to_string()),
            RoomRule::MembersInvite(it) => (RoomRule::MEMBERS_INVITE, number(*it)),
            RoomRule::OpenSubject(it) => (RoomRule::OPEN_SUBJECT, number(*it)),
            RoomRule::Whispers(it) => (RoomRule::WHISPERS, it.word().to_owned()),
        };
        format!("{word} {value}").into()
    }

    /// Whether the rule with this text has a password.
    pub(super) fn is_secret(text: &str) -> bool {
        let word = text.split(' ').next();
        word == Some(RoomRule::PASSWORD) || word == Some(RoomRule::KEY)
    }
}

/// The rules of a group's room.
#[derive(Clone, PartialEq, Eq, Default, Debug, Encoding)]
pub struct RoomRules {
    /// The password without which nobody enters the room; empty: none is needed, or the reader
    /// does not know it.
    pub password: Box<str>,
    /// The maximum of occupants; 0: that of the server.
    pub occupants_max: u32,
    /// Whether members may add and invite others.
    pub members_invite: bool,
    /// Whether everybody with a voice may change the title.
    pub open_subject: bool,
    /// The right to send private messages.
    pub whispers: Whispers,
}

impl RoomRules {
    /// Whether a rule is so already.
    pub fn has(&self, rule: &RoomRule) -> bool {
        match rule {
            RoomRule::Password(it) => self.password == *it,
            RoomRule::Key(_) => true,
            RoomRule::OccupantsMax(it) => self.occupants_max == *it,
            RoomRule::MembersInvite(it) => self.members_invite == *it,
            RoomRule::OpenSubject(it) => self.open_subject == *it,
            RoomRule::Whispers(it) => self.whispers == *it,
        }
    }

    /// Sets a rule.
    pub fn set(&mut self, rule: RoomRule) {
        match rule {
            RoomRule::Password(it) => self.password = it,
            RoomRule::Key(_) => {}
            RoomRule::OccupantsMax(it) => self.occupants_max = it,
            RoomRule::MembersInvite(it) => self.members_invite = it,
            RoomRule::OpenSubject(it) => self.open_subject = it,
            RoomRule::Whispers(it) => self.whispers = it,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_as_it_was_written_and_no_other_text_is_one() {
        let mut rules = RoomRules::default();
        for (rule, text) in [
            (RoomRule::Password("a b é".into()), "password a b é"),
            (RoomRule::Password("".into()), "password "),
            (RoomRule::Key("x".into()), "key x"),
            (RoomRule::OccupantsMax(30), "occupants-max 30"),
            (RoomRule::MembersInvite(true), "members-invite 1"),
            (RoomRule::OpenSubject(true), "open-subject 1"),
            (RoomRule::Whispers(Whispers::Nobody), "private-messages none"),
        ] {
            assert_eq!(&*rule.text(), text);
            assert_eq!(RoomRule::of(text), Some(rule.clone()));
            rules.set(rule.clone());
            assert!(rules.has(&rule));
        }
        assert_eq!((&*rules.password, rules.occupants_max), ("", 30));
        let long = format!("password {}", "x".repeat(ROOM_PASSWORD_BYTES_MAX + 1));
        for wrong in [
            "",
            "password",
            "password a\nb",
            &long,
            "open-subject 2",
            "occupants-max x",
            "colour 1",
        ] {
            assert_eq!(RoomRule::of(wrong), None, "{wrong:?}");
        }
    }
}

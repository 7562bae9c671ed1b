//! Fan-out of a group: whether what is said there is written into its members' inboxes, or read by
//! them from its conversation. A turn from the one to the other is a message of the group.

use super::Content;

/// How a group's messages reach its members.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum FanOut {
    /// Each takes a place in every member's inbox at once.
    #[default]
    Write,
    /// Members draw them from the conversation when they are here.
    Read,
}

impl FanOut {
    /// Both.
    pub const ALL: [FanOut; 2] = [FanOut::Write, FanOut::Read];

    /// The word in messages and the log.
    pub const fn word(self) -> &'static str {
        match self {
            FanOut::Write => "fan-out-on-write",
            FanOut::Read => "fan-out-on-read",
        }
    }

    /// What a message says that tells of the turn to it.
    pub fn content(self) -> Content {
        let extra = self.word().as_bytes().into();
        Content { kind: Content::GROUP, extra, ..Content::default() }
    }

    /// To what a message tells that its group turns, if it does.
    pub fn of(content: &Content) -> Option<FanOut> {
        let is_it = |fan_out: &FanOut| *content.extra == *fan_out.word().as_bytes();
        FanOut::ALL.into_iter().filter(|_| content.kind == Content::GROUP).find(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::GroupChange;

    #[test]
    fn what_tells_of_a_turn_says_to_what_and_is_no_change_of_members() {
        for fan_out in FanOut::ALL {
            let content = fan_out.content();
            assert_eq!(FanOut::of(&content), Some(fan_out));
            assert_eq!(GroupChange::of(&content), None);
            assert!(!content.counts, "nobody is told that it is unread");
            assert_eq!(FanOut::of(&Content { kind: Content::TEXT, ..content }), None);
        }
    }
}

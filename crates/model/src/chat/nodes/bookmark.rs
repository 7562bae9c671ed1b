//! Bookmarks of conversations, as clients of XMPP publish them (XEP-0402), and the settings of a
//! conversation that they contain: its notifications (XEP-0492) and whether it is pinned
//! (XEP-0469).
//!
//! The service keeps these settings and those of its conversations the same; the protocol reads and
//! edits the XML.

use super::NodeItem;
use crate::chat::MuteLevel;

/// The node of bookmarks. The id of an item is the JID of the conversation.
pub const BOOKMARKS_NODE: &str = "urn:xmpp:bookmarks:1";

/// The settings of a conversation in its bookmark.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BookmarkSettings {
    /// Whether it is pinned.
    pub pinned: bool,
    /// Notification level in the current version of the format, and in the one before; `None`: the
    /// bookmark does not say.
    pub mute: [Option<MuteLevel>; 2],
}

impl BookmarkSettings {
    /// The mute that a client has set by replacing a bookmark with these settings by one with
    /// `after`; `None`: it has not changed that. A setting that was removed is off.
    pub fn muted_by(&self, after: &BookmarkSettings) -> Option<MuteLevel> {
        let mut both = self.mute.iter().zip(after.mute);
        let changed = both.find(|(before, after)| **before != *after);
        changed.map(|(_, after)| after.unwrap_or_default())
    }

    /// Pin that the change to `after` sets; `None`: it does not change the pin.
    pub fn pinned_by(&self, after: &BookmarkSettings) -> Option<bool> {
        (self.pinned != after.pinned).then_some(after.pinned)
    }

    /// Whether the settings are these, in all versions of the format.
    pub fn are(&self, pinned: bool, mute: MuteLevel) -> bool {
        self.pinned == pinned && self.mute.iter().all(|it| it.unwrap_or_default() == mute)
    }
}

/// How bookmarks are read and edited.
#[derive(Clone, Copy, Debug)]
pub struct BookmarkFormat {
    /// The settings in a bookmark; `None`: the item is no bookmark.
    pub settings: fn(&NodeItem) -> Option<BookmarkSettings>,
    /// The bookmark with these settings and otherwise unchanged; `None`: it cannot be edited.
    pub with: fn(&NodeItem, bool, MuteLevel) -> Option<NodeItem>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_client_has_changed_in_a_bookmark_changes_the_conversation() {
        let of = |pinned, mute| BookmarkSettings { pinned, mute };
        let none = of(false, [None, None]);
        let muted = of(true, [Some(MuteLevel::ButMentions), Some(MuteLevel::ButMentions)]);
        assert_eq!((none.muted_by(&none), none.pinned_by(&none)), (None, None));
        assert_eq!((muted.muted_by(&muted), muted.pinned_by(&muted)), (None, None));
        assert_eq!(none.muted_by(&muted), Some(MuteLevel::ButMentions));
        assert_eq!(
            (muted.muted_by(&none), muted.pinned_by(&none)),
            (Some(MuteLevel::Off), Some(false))
        );
        // A client that knows one version changes that alone.
        let new = of(true, [Some(MuteLevel::Everything), Some(MuteLevel::ButMentions)]);
        let old = of(true, [Some(MuteLevel::ButMentions), Some(MuteLevel::Off)]);
        assert_eq!(muted.muted_by(&new), Some(MuteLevel::Everything));
        assert_eq!(muted.muted_by(&old), Some(MuteLevel::Off));
        assert!(none.are(false, MuteLevel::Off) && muted.are(true, MuteLevel::ButMentions));
        assert!(!new.are(true, MuteLevel::Everything) && !none.are(true, MuteLevel::Off));
    }
}

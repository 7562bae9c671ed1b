//! Transients: notices to whoever is online now that are stored nowhere, such as typing indicators.
//!
//! A transient has no place, is in no inbox, and no receiver acknowledges it. Its sender is
//! answered if it gave a number: that the server passed it on, or why not. Invariant: what is one
//! is never stored.

use super::Content;
use crate::account::{AccountAddress, Addressee};
use crate::id::SessionRef;
use base::encoding::Encoding;
use std::sync::Arc;

/// Declares the states once: variant, word, meaning.
macro_rules! states {
    ($($variant:ident $word:literal $meaning:literal;)+) => {
        /// Chat state of a participant, such as typing (XEP-0085 4).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum ChatState { $(#[doc = $meaning] $variant,)+ }

        impl ChatState {
            /// All of them, in the order of their numbers on the wire of IM.
            pub const ALL: &'static [ChatState] = &[$(ChatState::$variant,)+];

            /// The word on the wires.
            pub const fn word(self) -> &'static str {
                match self { $(ChatState::$variant => $word,)+ }
            }
        }
    };
}

states! {
    Composing "composing" "Writes something.";
    Paused "paused" "Wrote something, and has stopped.";
    Active "active" "Looks at the conversation.";
    Inactive "inactive" "Does not look at it any more.";
    Gone "gone" "Has left it.";
}

/// A transient as somebody says it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewTransient {
    /// Recipient.
    pub to: Addressee,
    /// Chat state of the sender, if it has one.
    pub state: Option<ChatState>,
    /// Further content; mostly empty.
    pub content: Content,
}

/// A transient on its way: made once, and shared.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct Transient {
    /// Sender of the transient.
    pub from: AccountAddress,
    /// Device of the sender.
    pub device: Box<str>,
    /// Recipient: an account or a group.
    pub to: AccountAddress,
    /// Chat state of the sender, if it has one.
    pub state: Option<ChatState>,
    /// Further content.
    pub content: Content,
}

/// An aside: a notice in the name of a group to some of its members, which is stored nowhere.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct GroupAside {
    /// Address of the group.
    pub group: AccountAddress,
    /// Account that the notice is about.
    pub who: AccountAddress,
    /// The notice itself.
    pub what: AsideWhat,
}

/// Kind of an aside.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding(Declined = 0, Voice = 1)]
pub enum AsideWhat {
    /// An invited account declined: for the inviter. The reason, in words for people; empty: none
    /// was given.
    Declined(Box<str>),
    /// A muted member asks to be unmuted: for owner and admins.
    Voice,
}

impl GroupAside {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let why = match &self.what {
            AsideWhat::Declined(why) => why.len(),
            AsideWhat::Voice => 0,
        };
        size_of::<GroupAside>() + self.group.as_str().len() + self.who.as_str().len() + why
    }
}

impl NewTransient {
    /// Bytes of what is said.
    pub fn bytes(&self) -> usize {
        self.content.text.len() + self.content.extra.len()
    }

    /// Whether it says anything.
    pub fn says(&self) -> bool {
        self.state.is_some() || self.bytes() > 0
    }
}

impl Transient {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let names = self.from.as_str().len() + self.device.len() + self.to.as_str().len();
        size_of::<Transient>() + names + self.content.text.len() + self.content.extra.len()
    }
}

/// A stanza of a device for devices of an account that is at home here, which is kept nowhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HandingTo {
    /// Session that hands it over.
    pub session: SessionRef,
    /// Number that the answer repeats.
    pub number: u32,
    /// Recipient.
    pub to: Addressee,
    /// Device of the recipient; `None`: all its devices that are online and want messages.
    pub device: Option<Box<str>>,
    /// The stanza, as it is written to a client; empty: it is asked whether the device is there,
    /// and nothing else.
    pub xml: Arc<[u8]>,
    /// Whether the stanza asks the device something: such stanzas are rate limited.
    pub is_question: bool,
    /// Directed presence that the stanza carries, if it does.
    pub directed: Option<DirectedPresence>,
}

/// Presence that a device sends to one address in particular (RFC 6121 4.6).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DirectedPresence {
    /// The device is available. This stanza is sent to the same address once the device no longer
    /// is.
    There(Arc<[u8]>),
    /// The device is unavailable.
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transient_says_a_state_or_something_else() {
        let to = Addressee::parse("bob").expect("right");
        let content = Content::default();
        let nothing = NewTransient { to, state: None, content };
        assert!(!nothing.says());
        let state = Some(ChatState::Composing);
        assert!(NewTransient { state, ..nothing.clone() }.says());
        let said = NewTransient { content: Content::text("hé"), ..nothing };
        assert!(said.says() && said.bytes() == 3);
    }
}

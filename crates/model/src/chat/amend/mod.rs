//! Amendments of a message: edits, reactions, recalls.
//!
//! Each of these is a message of its own in the conversation, which names its target: place and
//! number, and the name by which XMPP knows it. In `extra` that is ASCII, `seq id name`; behind a
//! newline may stand what XMPP said beside. The present state of a message comes with it wherever
//! it is read ([`Amended`]). Invariant: what is written of a target is read as it was.

mod emoji;

use super::{ClientMessageId, Content};
use crate::account::AccountAddress;
use crate::timeline::Seq;
use base::encoding::Encoding;
use emoji::is_emoji;

/// Longest emoji of a reaction, bytes: a family with skin tones has 41.
pub const EMOJI_BYTES_MAX: usize = 64;

/// Emoji of one person to one message, whatever the configuration says.
pub const EMOJI_HARD_MAX: u8 = 16;

/// People who react to one message, likewise.
pub const REACTORS_HARD_MAX: u16 = 64;

/// Bytes of a message that may be amended, its text and what stands beside, likewise.
pub const AMENDED_BYTES_HARD_MAX: u32 = 32 * 1024;

/// The message that another one is about.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct TargetMessage {
    /// Its place in their conversation.
    pub seq: Seq,
    /// The server's number for it.
    pub id: u64,
    /// The name by which XMPP knows it; empty: it is not known yet.
    pub name: Box<str>,
}

/// Amendments of a message.
#[derive(Clone, PartialEq, Eq, Default, Debug, Encoding)]
pub struct Amended {
    /// When it was edited last, Unix milliseconds; 0: it was not.
    pub edited_ms: u64,
    /// Accounts that react, in the order in which they did first.
    pub reactions: Vec<Reaction>,
}

/// How somebody reacts to a message.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct Reaction {
    /// Account that reacts.
    pub by: AccountAddress,
    /// The emoji, separated by blanks.
    pub emoji: Box<str>,
}

impl TargetMessage {
    /// Text of this target for a message's `extra`, followed by `beside`, which XMPP adds.
    pub fn extra(&self, beside: &[u8]) -> Box<[u8]> {
        let TargetMessage { seq, id, name } = self;
        let blank = if name.is_empty() { "" } else { " " };
        let head = format!("{seq} {id}{blank}{name}").into_bytes();
        match beside {
            [] => head.into(),
            beside => [&head[..], b"\n", beside].concat().into(),
        }
    }

    /// The target at the head of `extra`, and the bytes that XMPP put behind it; `None`: `extra`
    /// names no target.
    pub fn read(extra: &[u8]) -> Option<(TargetMessage, &[u8])> {
        let end = extra.iter().position(|byte| *byte == b'\n').unwrap_or(extra.len());
        let (head, beside) = extra.split_at(end);
        let mut words = std::str::from_utf8(head).ok()?.splitn(3, ' ');
        let (seq, id) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let name = words.next().unwrap_or("").into();
        Some((TargetMessage { seq, id, name }, beside.get(1..).unwrap_or(&[])))
    }
}

impl Content {
    /// The kind of a message that edits another one: the new text, and [`TargetMessage`].
    pub const EDIT: u16 = 6;

    /// The kind of a message by which somebody reacts to another one: emoji, and [`TargetMessage`].
    pub const REACTION: u16 = 7;

    /// Prefix of the `extra` of a stanza that came with an id.
    const NAMED: &'static str = "<message id=\"";

    /// Prefix of the `extra` of a stanza without an id.
    const UNNAMED: &'static str = "<message";

    /// Prefix of the device that a message was addressed to.
    const RESOURCE: &'static str = " to='";

    /// Whether it is about another message, and says nothing by itself.
    pub const fn is_amendment(&self) -> bool {
        matches!(self.kind, Content::EDIT | Content::REACTION)
    }

    /// The message that it edits or reacts to.
    pub fn target(&self) -> Option<TargetMessage> {
        TargetMessage::read(&self.extra).filter(|_| self.is_amendment()).map(|(target, _)| target)
    }

    /// The id that a message had as a stanza of XMPP, as it was written there; else the text form
    /// of the sender's id for it (RFC 9562 4).
    pub fn name(&self, client_id: ClientMessageId) -> String {
        let extra = std::str::from_utf8(&self.extra).ok().filter(|_| self.kind == Content::STANZA);
        let id = extra.and_then(|extra| extra.strip_prefix(Content::NAMED));
        match id.and_then(|id| id.split_once('"')).filter(|(id, _)| !id.contains('\n')) {
            Some((id, _)) => id.to_owned(),
            None => client_id.text(),
        }
    }

    /// The device that a message was addressed to, as it stands in its stanza of XMPP, behind the
    /// id.
    pub fn resource(&self) -> Option<&str> {
        let extra =
            std::str::from_utf8(&self.extra).ok().filter(|_| self.kind == Content::STANZA)?;
        let rest = match extra.strip_prefix(Content::NAMED) {
            Some(id) => id.split_once('"')?.1,
            None => extra.strip_prefix(Content::UNNAMED)?,
        };
        Some(rest.strip_prefix(Content::RESOURCE)?.split_once('\'')?.0)
    }

    /// A text that is shown as a stanza with this id.
    pub fn named_text(text: &str, name: &str) -> Content {
        let extra = format!("{}{name}\"></message>", Content::NAMED).into_bytes();
        Content { kind: Content::STANZA, extra: extra.into(), ..Content::text(text) }
    }
}

impl ClientMessageId {
    /// The id in the usual form of UUIDs (RFC 9562 4).
    pub fn text(self) -> String {
        let text = format!("{:032x}", u128::from_be_bytes(self.0));
        let parts = [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]];
        parts.join("-")
    }
}

/// The emoji of a reaction, each once, with blanks between; none: it is taken back. `None`: one of
/// them is no emoji, or there are more than `most`.
pub fn emoji_of(text: &str, most: u8) -> Option<Box<str>> {
    let mut all: Vec<&str> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if word.len() > EMOJI_BYTES_MAX || !is_emoji(word) {
            return None;
        }
        if !all.contains(&word) {
            all.push(word);
        }
    }
    (all.len() <= usize::from(most)).then(|| all.join(" ").into())
}

impl Amended {
    /// Whether nothing became of it.
    pub fn is_nothing(&self) -> bool {
        *self == Amended::default()
    }

    /// Stores that an account now reacts with `emoji`. Returns false if too many accounts react.
    pub fn reacts(&mut self, by: &AccountAddress, emoji: &str, most: usize) -> bool {
        let at = self.reactions.iter().position(|it| it.by == *by);
        match (at, emoji.is_empty()) {
            (Some(at), true) => drop(self.reactions.remove(at)),
            (Some(at), false) => self.reactions[at].emoji = emoji.into(),
            (None, true) => {}
            (None, false) if self.reactions.len() >= most => return false,
            (None, false) => {
                self.reactions.push(Reaction { by: by.clone(), emoji: emoji.into() });
            }
        }
        true
    }

    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let of = |it: &Reaction| size_of::<Reaction>() + it.by.as_str().len() + it.emoji.len();
        size_of::<Amended>() + self.reactions.iter().map(of).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_read_as_it_was_written_and_what_is_none_is_not_guessed_at() {
        for name in ["", "a", "an id of several words", "2f0c1b7e-0000-4000-8000-000000000001"] {
            let target = TargetMessage { seq: 1 << 40, id: u64::MAX, name: name.into() };
            for beside in [&b""[..], b"<message/>", b"two\nlines"] {
                let extra = target.extra(beside);
                assert_eq!(TargetMessage::read(&extra), Some((target.clone(), beside)));
            }
        }
        for extra in ["", "1", "1 ", "1 x", "-1 2", "x 2", " 1 2", "1\n2"] {
            assert_eq!(TargetMessage::read(extra.as_bytes()), None, "{extra}");
        }
        let target = TargetMessage { seq: 1, id: 2, name: "".into() };
        let content = |kind| Content { kind, extra: target.extra(b""), ..Content::text("") };
        assert_eq!(content(Content::EDIT).target(), Some(target.clone()));
        assert_eq!(content(Content::TEXT).target(), None);
    }

    #[test]
    fn a_message_has_the_name_that_its_stanza_had_or_that_of_its_sender() {
        let id = ClientMessageId([7; 16]);
        let uuid = "07070707-0707-0707-0707-070707070707";
        assert_eq!(Content::text("x").name(id), uuid);
        assert_eq!(Content::named_text("x", "n &amp; m").name(id), "n &amp; m");
        let stanza = |extra: &str| {
            let extra = extra.as_bytes().into();
            Content { kind: Content::STANZA, extra, ..Content::text("x") }.name(id)
        };
        assert_eq!(stanza("<message id=\"a1\" type=\"chat\"><x/></message>"), "a1");
        assert_eq!(stanza("<message type=\"chat\"></message>"), uuid);
        assert_eq!(stanza("<message id=\"a\nb\"></message>"), uuid);
        assert_eq!(stanza("<message id=\"a"), uuid);
    }

    #[test]
    fn a_reaction_is_a_few_emoji_each_once() {
        assert_eq!(emoji_of("👍 ❤️  👍", 2).as_deref(), Some("👍 ❤️"));
        assert_eq!(emoji_of(" ", 2).as_deref(), Some(""), "taken back");
        for text in ["👍 ❤️ 🎉", "lol", "👍 a", "👍\u{2003}👍", "👍👍"] {
            assert_eq!(emoji_of(text, 2), None, "{text}");
        }
        let family = |of: usize| vec!["👩"; of].join("\u{200d}");
        assert!(family(9).len() <= EMOJI_BYTES_MAX && emoji_of(&family(9), 1).is_some());
        assert!(family(10).len() > EMOJI_BYTES_MAX && emoji_of(&family(10), 1).is_none());
    }

    #[test]
    fn the_last_set_of_each_counts_and_there_are_as_many_as_may_be() {
        let name = |name| AccountAddress::parse(name, "a.example").expect("right");
        let mut it = Amended::default();
        assert!(it.reacts(&name("ann"), "👍", 2) && it.reacts(&name("bob"), "👍", 2));
        assert!(!it.reacts(&name("carol"), "👍", 2) && it.reacts(&name("carol"), "", 2));
        assert!(it.reacts(&name("ann"), "🎉", 2));
        let all: Vec<_> = it.reactions.iter().map(|it| (it.by.name(), &*it.emoji)).collect();
        assert_eq!(all, [("ann", "🎉"), ("bob", "👍")]);
        assert!(it.reacts(&name("ann"), "", 2) && it.reacts(&name("bob"), "", 2));
        assert!(it.is_nothing());
    }
}

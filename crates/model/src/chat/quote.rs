//! References of a message beside its text: the message that it quotes, the users it mentions.
//!
//! A quote names a message of the same conversation by place and number; it has no copy of its
//! text, so that what is called back is gone from where it was quoted, too. Only a live delivery
//! has the beginning of the text beside. A mention names accounts, or everybody of a group; where
//! in the text that is, nobody says. Invariant: neither changes when the message is edited.

use super::{Content, TargetMessage};
use crate::account::{AccountAddress, Addressee};
use base::encoding::Encoding;

/// Accounts that one message mentions, whatever the configuration says.
pub const MENTIONS_HARD_MAX: u8 = 128;

/// Bytes of a mention on a wire, beside its address.
const MENTION_BYTES: usize = 4;

/// The message that another one quotes.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct Quote {
    /// The quoted message.
    pub target: TargetMessage,
    /// Sender; unknown for a message that has not been stored.
    pub from: Option<AccountAddress>,
    /// The beginning of its text; empty, except in a live delivery.
    pub text: Box<str>,
}

/// Accounts that a message mentions.
#[derive(Clone, PartialEq, Eq, Default, Debug, Encoding)]
pub struct Mentions {
    /// Accounts; whole, in what is stored.
    pub accounts: Vec<Addressee>,
    /// Whether everybody in the conversation is mentioned.
    pub everybody: bool,
}

impl Quote {
    /// Quote of a message of which place and number are known.
    pub fn of(seq: u64, id: u64) -> Quote {
        let target = TargetMessage { seq, id, name: "".into() };
        Quote { target, from: None, text: "".into() }
    }

    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let from = self.from.as_ref().map_or(0, |from| from.as_str().len());
        size_of::<Quote>() + self.target.name.len() + from + self.text.len()
    }
}

impl Mentions {
    /// Mentions of these accounts; `None` if nobody is mentioned.
    pub fn of(accounts: Vec<Addressee>, everybody: bool) -> Option<Box<Mentions>> {
        let is_any = everybody || !accounts.is_empty();
        is_any.then(|| Box::new(Mentions { accounts, everybody }))
    }

    /// Each account once, and whole, as an account of `domain` means them.
    pub fn within(self, domain: &str) -> Mentions {
        let mut accounts = Vec::with_capacity(self.accounts.len());
        for account in self.accounts {
            let account = Addressee::from(account.within(domain));
            if !accounts.contains(&account) {
                accounts.push(account);
            }
        }
        Mentions { accounts, ..self }
    }

    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let of = |it: &Addressee| size_of::<Addressee>() + it.as_str().len();
        size_of::<Mentions>() + self.accounts.iter().map(of).sum::<usize>()
    }
}

impl Content {
    /// Approximate memory of the references, bytes.
    pub(super) fn weight_of_others(&self) -> usize {
        let quote = self.quote.as_deref().map_or(0, Quote::weight);
        quote + self.mentions.as_deref().map_or(0, Mentions::weight)
    }

    /// Bytes that stand beside the text: a mention is one of them.
    pub fn beside_bytes(&self) -> usize {
        let mentions = self.mentions.as_deref().map_or(&[][..], |it| &it.accounts);
        let of = |it: &Addressee| it.as_str().len() + MENTION_BYTES;
        self.extra.len() + mentions.iter().map(of).sum::<usize>()
    }

    /// The content without quote and mentions, and without a name that its sender gave itself.
    pub fn without_others(self) -> Content {
        Content { quote: None, mentions: None, nick: None, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_are_whole_and_each_is_there_once() {
        let name = |text| Addressee::parse(text).expect("right");
        let said = vec![name("bob"), name("ann@b.example"), name("bob@a.example")];
        let all = Mentions::of(said, false).expect("somebody").within("a.example");
        assert_eq!(all.accounts, [name("bob@a.example"), name("ann@b.example")]);
        assert_eq!(Mentions::of(Vec::new(), false), None);
        assert!(Mentions::of(Vec::new(), true).expect("everybody").everybody);
    }

    #[test]
    fn what_is_said_of_others_weighs_and_goes() {
        let name = Addressee::parse("bob").expect("right");
        let quote = Some(Box::new(Quote::of(1, 2)));
        let mentions = Mentions::of(vec![name], false);
        let content = Content { quote, mentions, ..Content::text("hi") };
        assert_eq!(content.beside_bytes(), 7);
        assert!(content.weight() > Content::text("hi").weight() + size_of::<Quote>());
        assert_eq!(content.without_others(), Content::text("hi"));
    }
}

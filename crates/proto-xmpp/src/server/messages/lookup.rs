//! A message that a stanza names is looked for, backwards from the end of its conversation, a page
//! at a time.
//!
//! Knows neither what a name is nor what is done with the message. Invariant: so many pages are
//! asked for as may be, and none behind the first that has it.

use model::account::AccountAddress;
use model::chat::{ChatMessage, HistoryPage, HistoryRange};
use model::timeline::Seq;

/// A message that is being looked for.
pub(in crate::server) struct Lookup {
    pub(in crate::server) with: AccountAddress,
    pub(in crate::server) name: Box<str>,
    /// Pages that were asked for.
    pages: u8,
}

/// Result of a page.
pub(in crate::server) enum Seen<'a> {
    Found(&'a ChatMessage),
    /// The message may be before this place.
    Before(Seq),
    /// The message is not among those that are searched.
    Nowhere,
}

impl Lookup {
    pub(in crate::server) fn new(with: AccountAddress, name: Box<str>) -> Lookup {
        Lookup { with, name, pages: 0 }
    }

    /// Memory beside its own size, bytes, roughly.
    pub(in crate::server) fn held(&self) -> usize {
        self.with.as_str().len() + self.name.len()
    }

    /// The page before a place, of so many messages.
    pub(in crate::server) fn page(&mut self, from: Seq, count: u16) -> Box<HistoryRange> {
        self.pages += 1;
        let with = self.with.clone().into();
        Box::new(HistoryRange { with, from, backwards: true, count })
    }

    /// Looks through a page, which is one of so many.
    pub(in crate::server) fn look<'a>(
        &self,
        page: &'a HistoryPage,
        pages_max: u8,
        is_it: impl Fn(&ChatMessage) -> bool,
    ) -> Seen<'a> {
        let found = page.messages.iter().find(|message| is_it(message));
        match (found, page.messages.last()) {
            (Some(message), _) => Seen::Found(message),
            (None, Some(last)) if page.more && self.pages < pages_max => Seen::Before(last.seq),
            _ => Seen::Nowhere,
        }
    }
}

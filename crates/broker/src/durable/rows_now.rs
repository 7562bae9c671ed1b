//! Rows as they are now: one that is asked for again must not undo a newer one.

use super::rows::{self, SubscriptionRow};
use crate::message::subscriptions::Subscriptions;
use crate::session::record::Session;
use crate::session::sessions::Sessions;
use crate::session::shares::Share;
use base::hash::HashKey;
use base::slab::Key;
use model::ports::log::{Table, Write};

/// The parts that a row is made from.
pub(crate) struct RowsNow<'r> {
    pub home: HashKey,
    pub sessions: &'r Sessions,
    pub subscriptions: &'r Subscriptions,
}

impl RowsNow<'_> {
    /// The write to ask for instead of a refused one: the row as it is now, or its deletion.
    pub fn as_it_is(&self, write: Write) -> Option<Write> {
        let (Write::Put { table, key, .. } | Write::Delete { table, key }) = &write else {
            return Some(write);
        };
        let (table, key) = (*table, key.clone());
        let value = match table {
            Table::Sessions => self.session_row_of(&key),
            Table::Wills => self.will_row_of(&key),
            Table::Subscriptions => self.subscription_row_of(&key),
            // Those that were refused with an answer are not retries, retained messages have a
            // pending call of their own; the others are as they were.
            _ => return Some(write),
        };
        Some(match value {
            Some(value) => Write::Put { table, key, value },
            None => Write::Delete { table, key },
        })
    }

    fn session_of(&self, id: &str) -> Option<(Key, &Session)> {
        let key = self.sessions.find(id)?;
        Some((key, self.sessions.at(key)?))
    }

    fn session_row_of(&self, key: &[u8]) -> Option<Box<[u8]>> {
        let session = self.session_of(rows::session_of(key)?);
        let (_, session) = session.filter(|(_, session)| session.is_durable())?;
        let protocol = self.sessions.protocol_name(session.protocol());
        Some(rows::session_row(session, self.sessions.principal(session), protocol))
    }

    fn will_row_of(&self, key: &[u8]) -> Option<Box<[u8]>> {
        let (_, session) = self.session_of(rows::subscriber(key)?)?;
        let (will, due_s) = session.will()?;
        let is_it = *rows::will_key(self.home, session.id(), will.message.id) == *key;
        is_it.then(|| rows::will_row(will, due_s))
    }

    fn subscription_row_of(&self, key: &[u8]) -> Option<Box<[u8]>> {
        let id = rows::subscriber(key)?;
        let (owner, session) = self.session_of(id)?;
        if !session.is_durable() {
            return None;
        }
        let home = self.home;
        let is_it = |filter: &str| *rows::subscription_key(home, id, filter) == *key;
        let own = session.filters().map(|filter| (filter, self.subscriptions.text(filter, id)));
        if let Some((filter, text)) = own.into_iter().find(|(_, text)| is_it(text)) {
            let options = self.subscriptions.options(filter, owner.slot)?;
            let subscription_id = session.subscription_id(filter);
            let row = SubscriptionRow { options, subscription_id, filter: text.into() };
            return Some(row.encode());
        }
        let share = session.more.as_ref()?.shares.iter().find(|share| is_it(&share.filter))?;
        let Share { filter, options, subscription_id, .. } = share;
        let (filter, options) = (filter.clone(), *options);
        Some(SubscriptionRow { options, subscription_id: *subscription_id, filter }.encode())
    }
}

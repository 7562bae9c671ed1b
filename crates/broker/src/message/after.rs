//! Actions deferred until a message of the server's own is durable.
//!
//! A will, a delayed message and one that a member of a shared group gave back stand in the log
//! until everybody who gets them has them there: a kill between publishes them again, under a
//! number that makes the repetition harmless, instead of losing them.

use super::queue::Entry;
use super::route::PendingAnswer;
use super::waits::{Origin, Wait, receipt_of};
use crate::Broker;
use crate::Effects;
use base::slab::Key;
use base::time::Now;
use model::ports::log::{Table, Write};
use model::session::Denial;
use model::topic::Publication;
use std::sync::Arc;

/// Action deferred until a message of the server's own is durable.
pub(crate) enum After {
    /// This row goes.
    Row(Table, Box<[u8]>),
    /// The session loses what it gave back; nobody could take it: it has it again.
    Moved(Key, Box<Entry>),
}

/// How the numbers of wills and of delayed messages begin.
const ONCE: &[u8] = b"mqtt-after";

impl Broker {
    /// Publishes a message that has a row; `number`: what it was called there, 0: nothing.
    pub(crate) fn publish_row(
        &mut self,
        now: Now,
        (message, number): (Arc<Publication>, u64),
        after: After,
        fx: &mut Effects,
    ) {
        let mut pending_answer = PendingAnswer::of(Origin::Server);
        if number != 0 {
            let high = self.settings.home.of(&[ONCE, &number.to_le_bytes()]);
            pending_answer.once = u128::from(high) << 64 | u128::from(number);
        }
        match self.publish_for(now, message, pending_answer, fx) {
            Some(wait) => _ = self.afterwards.insert(wait, after),
            None => self.after(now, after, None, fx),
        }
    }

    /// A session gives an entry of the log back: the number of the receipt for it.
    pub(crate) fn await_move(&mut self, key: Key, entry: Entry) -> Result<u64, Box<Entry>> {
        let entry = Box::new(Entry { message: None, id: 0, ..entry });
        let wait = Wait { origin: Origin::Server, left: 1, matched: true, error: None };
        match self.waits.insert(wait) {
            Ok(wait) => {
                self.afterwards.insert(wait, After::Moved(key, entry));
                Ok(receipt_of(wait))
            }
            Err(_) => Err(entry),
        }
    }

    /// The message is where it has to be, or could not be taken, and why not.
    pub(crate) fn after(&mut self, now: Now, after: After, why: Option<Denial>, fx: &mut Effects) {
        match after {
            After::Moved(key, entry) => self.offer_answered(now, (key, *entry), why, fx),
            // Those that were refused stay for the next start.
            After::Row(..) if why.is_some() => {}
            After::Row(table, key) => self.retry_write(Write::Delete { table, key }, fx),
        }
    }
}

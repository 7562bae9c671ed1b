//! Calls that are completed, and writes that are asked for again.
//!
//! Rows are written in the order in which they are handed over; one that is asked for again must
//! not undo a newer one, so it is written as it is by then.

use super::calls::{PendingCall, Retry};
use super::entries::timeline_of;
use super::rows::{self, SubscriptionRow};
use crate::Broker;
use crate::Effects;
use crate::message::answers::denial;
use crate::session::record::{Session, Share};
use base::slab::Key;
use base::time::{Instant, Now};
use model::ports::calls::RETRIES_A_TURN_MAX;
use model::ports::log::{Completion, Table, Write};

impl Broker {
    /// The log has completed a call.
    pub fn complete(&mut self, now: Now, (ticket, result): Completion, fx: &mut Effects) {
        self.units.begin();
        let Some(pending) = self.log.completed(ticket, &result, fx) else { return };
        let written = || result.as_ref().map(|_| ()).map_err(|error| denial(*error));
        match pending {
            PendingCall::Kept(kept) => self.kept(now, *kept, result, fx),
            PendingCall::Counted(wait) => self.arrived(now, wait, written(), fx),
            PendingCall::Marked(exchange, wait) => {
                self.marked(now, exchange, wait, result, fx);
            }
            PendingCall::Released(exchange) => self.release_written(now, exchange, result, fx),
            PendingCall::Unmarked(exchange) => self.unmarked(now, exchange, result, fx),
            PendingCall::Welcome(welcome) => {
                self.welcome_written(now, *welcome, result.is_ok(), fx);
            }
            PendingCall::Granted(granting, at) => {
                self.granted(now, (granting, at), written(), fx);
            }
            PendingCall::Bodies(first) => self.bodies_came(now, first, result, fx),
            PendingCall::Given(first) => self.given_came(now, first, result, fx),
            PendingCall::Retaining(retaining) => {
                self.retained_answered(now, *retaining, written(), fx);
            }
            PendingCall::Retained(topic) => {
                self.log.settle(now, Retry::Retained(topic), result, fx);
            }
            PendingCall::Retry(write) => self.log.settle(now, Retry::Write(*write), result, fx),
        }
    }

    /// Asks again for a slice of what was refused, if it is time.
    pub(crate) fn turn_retries(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        if self.log.retries() == 0 {
            return None;
        }
        if let Err(due) = self.log.is_due(now) {
            return Some(due);
        }
        for mark in self.log.take_marks() {
            match mark {
                Retry::Unmark(exchange) => self.unmark(exchange, fx),
                Retry::Received(exchange) => self.mark_received(now, exchange, fx),
                Retry::Write(_) | Retry::Retained(_) => {}
            }
        }
        for _ in 0..RETRIES_A_TURN_MAX {
            let Some(topic) = self.log.take_topic() else { break };
            self.write_retained(topic, fx);
        }
        for _ in 0..RETRIES_A_TURN_MAX {
            let Some(write) = self.log.take_write() else { break };
            if let Some(write) = self.as_it_is(write) {
                self.log.write(write, fx);
            }
        }
        (self.log.retries() > 0).then_some(now.mono)
    }

    /// What a refused write has become meanwhile: a row is written as it is now, or deleted.
    fn as_it_is(&self, write: Write) -> Option<Write> {
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

    fn session_of(&self, key: &[u8]) -> Option<(Key, &Session)> {
        let key = self.sessions.find(std::str::from_utf8(key).ok()?)?;
        Some((key, self.sessions.at(key)?))
    }

    fn session_row_of(&self, key: &[u8]) -> Option<Box<[u8]>> {
        let (_, session) = self.session_of(key).filter(|(_, session)| session.is_durable())?;
        let user = self.sessions.principal(session).user.as_deref();
        Some(rows::session_row(session, user, self.sessions.protocol_name(session.protocol)))
    }

    fn will_row_of(&self, key: &[u8]) -> Option<Box<[u8]>> {
        let (_, session) = self.session_of(rows::subscriber(key)?.as_bytes())?;
        let (will, due_s) = &**session.more.as_ref()?.will.as_ref()?;
        let is_it = *rows::will_key(&session.id, will.message.id) == *key;
        is_it.then(|| rows::will_row(will, *due_s))
    }

    fn subscription_row_of(&self, key: &[u8]) -> Option<Box<[u8]>> {
        let id = rows::subscriber(key)?;
        let (owner, session) = self.session_of(id.as_bytes())?;
        if !session.is_durable() {
            return None;
        }
        let home = self.settings.home;
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

    /// Takes what is over out of the log.
    pub(crate) fn turn_removals(&mut self, fx: &mut Effects) {
        let (sessions, home) = (&self.sessions, self.settings.home);
        self.log.remove_over(|key| Some(timeline_of(home, &sessions.at(key)?.id)), fx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::made::{HOME, NOW, broker};
    use model::ports::calls::RETRY_PAUSE;
    use model::ports::log::StoreError;

    #[test]
    fn what_was_refused_is_asked_for_again_after_a_pause_a_slice_a_turn() {
        let (mut broker, mut fx) = (broker(|_| {}), Effects::default());
        let mut refuse = |broker: &mut Broker, why| {
            let write = Retry::Write(Write::Forget(timeline_of(HOME, "a")));
            broker.log.settle(NOW, write, Err(why), &mut fx);
        };
        refuse(&mut broker, StoreError::Failed);
        assert_eq!(broker.log.retries(), 0, "it will not be otherwise");
        (0..RETRIES_A_TURN_MAX + 1).for_each(|_| refuse(&mut broker, StoreError::Busy));
        let (mut fx, due) = (Effects::default(), NOW.after(RETRY_PAUSE));
        assert_eq!(broker.turn_retries(NOW, &mut fx), Some(due));
        assert!(fx.calls.is_empty());
        let later = Now::new(due, NOW.wall_ms + 1_000);
        assert_eq!(broker.turn_retries(later, &mut fx), Some(due), "there is more");
        assert_eq!(fx.calls.len(), RETRIES_A_TURN_MAX);
        assert_eq!(broker.turn_retries(later, &mut fx), None);
        assert_eq!((fx.calls.len(), broker.log.retries()), (RETRIES_A_TURN_MAX + 1, 0));
    }
}

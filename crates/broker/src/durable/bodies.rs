//! Bodies come back from the log when a client can be sent them.
//!
//! One page a session at a time. Until the body of the next message is here the pump stands still,
//! so the order is that of the queue. A body that the log has no more is lost and counted; after an
//! answer that there is no reading now it is asked for again.

use super::calls::PendingCall;
use super::entries::timeline_of;
use crate::Broker;
use crate::Effects;
use crate::retained::decode;
use crate::session::record::EntryRef;
use base::slab::Key;
use base::time::{Instant, Now};
use model::event::Counter;
use model::ports::log::{Call, Done, Page, Pull, Read, StoreError};
use model::session::Drop;
use std::sync::Arc;
use std::time::Duration;

/// Messages fetched at once for a session.
const PAGE_COUNT: usize = 64;

/// Bytes of their bodies, but always one.
const PAGE_BYTES: usize = 256 * 1024;

/// How long to wait after a refusal.
const PAUSE: Duration = Duration::from_secs(1);

impl Broker {
    /// Fetches the bodies of what is to be sent next, if they are away.
    pub(crate) fn fetch(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let _ = now;
        let Some(session) = self.sessions.at_mut(key) else { return };
        let timeline = timeline_of(self.settings.home, &session.id);
        let Some(more) = session.more.as_mut() else { return };
        let Some(seq) = more.queue.missing(PAGE_COUNT).filter(|_| !more.pulling) else { return };
        more.pulling = true;
        let pull = Pull {
            timeline,
            from: seq - 1,
            backwards: false,
            count_max: PAGE_COUNT,
            bytes_max: PAGE_BYTES,
        };
        self.log.ask(
            PendingCall::Bodies(EntryRef { session: key, seq }),
            Call::Read(Read::Pull(pull)),
            fx,
        );
    }

    /// A page came, or did not.
    pub(crate) fn bodies_came(
        &mut self,
        now: Now,
        EntryRef { session: key, seq }: EntryRef,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        let Some(session) = self.sessions.at_mut(key) else { return };
        let Some(more) = session.more.as_mut() else { return };
        more.pulling = false;
        if session.online().is_none() {
            // Its client went again meanwhile: they are fetched when it is back.
            return self.sessions.rest(key);
        }
        match result {
            Ok(Done::Page(page)) => {
                self.attach_bodies(now, EntryRef { session: key, seq }, &page, fx)
            }
            Err(StoreError::Damaged) => {
                fx.counters.count(Counter::PullsFailed);
                self.lose_body(now, key, seq, fx);
            }
            Ok(_) | Err(_) => {
                fx.counters.count(Counter::PullsFailed);
                return self.pullers.push((now.after(PAUSE), key));
            }
        }
        self.pump(now, key, fx);
    }

    /// Asks again for bodies that could not be read.
    pub(crate) fn turn_bodies(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let (due, rest) =
            std::mem::take(&mut self.pullers).into_iter().partition(|(at, _)| *at <= now.mono);
        self.pullers = rest;
        let due: Vec<(Instant, Key)> = due;
        for (_, key) in due {
            self.pump(now, key, fx);
        }
        self.pullers.iter().map(|(at, _)| *at).min()
    }

    fn attach_bodies(&mut self, now: Now, first: EntryRef, page: &Page, fx: &mut Effects) {
        let EntryRef { session: key, seq: first } = first;
        let mut came = false;
        for placed in &page.messages {
            let Some(session) = self.sessions.at_mut(key) else { return };
            let Some(more) = session.more.as_mut() else { return };
            // Marks stand between the messages.
            let Some(message) = decode(&placed.message.body) else { continue };
            more.queue.attach(placed.seq, &Arc::new(message), &mut self.totals);
            came |= placed.seq == first;
        }
        if !came {
            fx.counters.count(Counter::PullsFailed);
            self.lose_body(now, key, first, fx);
        }
    }

    fn lose_body(&mut self, now: Now, key: Key, seq: u64, fx: &mut Effects) {
        let totals = &mut self.totals;
        let more = self.sessions.more_mut(key);
        if let Some(entry) = more.and_then(|more| more.queue.lose(seq, totals)) {
            self.share_over(key, &entry, fx);
            self.dropped(now, key, (Drop::StoreFull, 1), fx);
        }
    }
}

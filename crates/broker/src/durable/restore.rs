//! The start: rebuilds the broker's memory from the log.
//!
//! Rows come first, then timelines, which belong to sessions by their ids. Of a session's queued
//! messages the head is enough: the rest is read when its client is back, and sent again with DUP
//! where it may have been sent, under the packet identifier it had. Entries are read of exchanges,
//! and of members of shared groups: messages that they got from other members may still be in the
//! old place. All connections were lost: wills are published, with their delay. An unreadable row
//! or entry stays in the log.

use super::entries::{Label, Said, exchanges_of, timeline_of};
use super::rows::{self, SessionRow, SubscriptionRow};
use crate::Broker;
use crate::Effects;
use crate::message::groups::SHARE;
use crate::message::groups::share_of;
use crate::message::queue::{Release, RestoredHead};
use crate::message::subscriptions::Hold;
use crate::peer_message::OldPlace;
use crate::retained::decode;
use crate::session::inbound::Marker;
use crate::session::record::{EntryRef, SessionTerms};
use crate::session::shares::Share;
use base::slab::Key;
use base::time::Now;
use model::ports::access::{Grant, GrantedAccount};
use model::ports::log::{Restored, Table, Write};
use model::session::Will;
use model::timeline::{Seq, Space, TimelineId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Facts about a session until everything is restored.
struct Owner {
    key: Key,
    /// Whether the session was connected when the process died, or when the one before did: more
    /// may have been sent than is known.
    sent_more: bool,
    /// The highest place that was sent, as far as it was known.
    sent_upto: Seq,
}

/// State of a restore, until everything is there.
#[derive(Default)]
pub(crate) struct Restoring {
    owners: BTreeMap<TimelineId, Owner>,
    /// Wills of sessions that did not outlive their connections, and of connections before the
    /// last.
    wills: Vec<(Box<str>, Will)>,
    /// Rows without an owner.
    strays: Vec<Write>,
    /// Timelines without an owner.
    lost: BTreeSet<TimelineId>,
    /// Marks of exchanges that have ended.
    over: Vec<EntryRef>,
    /// Messages that clients said they have, and that may have left.
    released: Vec<EntryRef>,
    /// Where messages stood that have gone to other members of their groups.
    old_places: Vec<OldPlace>,
    /// A row could not be read, so entries without an owner may belong to its session.
    unreadable: bool,
}

impl Broker {
    /// Takes in what the log gives back (tables `Sessions` to `Delayed`, space `Sessions`), before
    /// anything else is asked. False when it could not be read; it stays in the log then.
    pub fn restore(&mut self, now: Now, restored: Restored<'_>) -> bool {
        let taken = match restored {
            Restored::Row { table: Table::Sessions, key, value } => {
                self.restore_session(now, key, value)
            }
            Restored::Row { table: Table::Subscriptions, key, value } => {
                self.restore_subscription(key, value)
            }
            Restored::Row { table: Table::Retained, value, .. } => self.restore_retained(value),
            Restored::Row { table: Table::Wills, key, value } => self.restore_will(key, value),
            Restored::Row { table: Table::Delayed, key, value } => {
                self.delayed.restore(key, value).then_some(())
            }
            Restored::Timeline { timeline, last, count, bytes } => {
                self.restore_head(timeline, (last, count, bytes));
                Some(())
            }
            Restored::Entry { timeline, seq, id, label } => {
                self.routing.observe(id);
                match timeline.space() {
                    Space::Sessions => self.restore_message(label),
                    Space::Exchanges => self.restore_exchange(timeline, seq, label),
                    _ => None,
                }
            }
            Restored::Row { .. } => return false,
        };
        self.restoring.unreadable |= taken.is_none();
        taken.is_some()
    }

    /// Whether the entries of a timeline are wanted, and not its head alone.
    pub fn wants_entries(&self, timeline: TimelineId) -> bool {
        if timeline.space() == Space::Exchanges {
            return true;
        }
        let owner = self.restoring.owners.get(&timeline);
        let more = owner.and_then(|owner| self.sessions.more(owner.key));
        more.is_some_and(|more| !more.shares.is_empty())
    }

    /// Handles the end of the start: the log has handed over everything.
    pub fn restored(&mut self, now: Now, fx: &mut Effects) {
        let restoring = std::mem::take(&mut self.restoring);
        if !restoring.unreadable {
            restoring.strays.into_iter().for_each(|write| self.log.write(write, fx));
            for timeline in restoring.lost {
                self.log.write(Write::Forget(timeline), fx);
            }
        }
        for mark in restoring.over {
            self.log.remove_mark(mark.session, mark.seq);
        }
        for entry in restoring.released {
            self.ask_doubt(entry, fx);
        }
        for place in restoring.old_places {
            self.leave_old_place(now, place, fx);
        }
        for (id, will) in restoring.wills {
            let message = self.will_message(now, &id, &will);
            self.delayed.push_will(id, message);
        }
        let keys: Vec<Key> = self.sessions.iter().map(|(key, _)| key).collect();
        for key in keys {
            // Each session has its own share of work, whatever the others have.
            self.units.begin();
            self.regrant_restored(now, key, fx);
            self.share_presence(now, key, false, fx);
            self.will_due(now, key, fx);
            self.time_end(now, key);
            self.sessions.rest(key);
        }
        self.turn_removals(fx);
    }

    fn restore_session(&mut self, now: Now, key: &[u8], value: &[u8]) -> Option<()> {
        let id = rows::session_of(key)?;
        let row = SessionRow::decode(value)?;
        let protocol = self.sessions.protocol(match &*row.protocol {
            "mqtt31" => "mqtt31",
            "mqtt311" => "mqtt311",
            "mqtt5" => "mqtt5",
            _ => "",
        });
        let key = self.sessions.insert(id)?;
        let user = row.user.as_deref().map(Arc::from);
        let account = row.account.map(|uid| GrantedAccount { uid, epoch: 0 });
        self.sessions.grant(key, &Grant { user, account, ..Grant::OPEN });
        let session = self.sessions.at_mut(key)?;
        let (expiry_s, is_bridge) = (row.expiry_s, row.bridge);
        let terms = SessionTerms { protocol, expiry_s, keep_alive_s: 0, window: 1, is_bridge };
        session.restore(if row.online { now.unix_s() } else { row.since_s }, &terms);
        let version = session.version();
        self.sessions.observe(version);
        let (sent_more, sent_upto) = (row.online || row.sent_more, row.sent_upto);
        for of in [timeline_of, exchanges_of] {
            let owner = Owner { key, sent_more, sent_upto };
            self.restoring.owners.insert(of(self.settings.home, id), owner);
        }
        Some(())
    }

    fn restore_subscription(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let row = SubscriptionRow::decode(value)?;
        let id = rows::subscriber(key)?;
        let Some(owner) = self.sessions.find(id) else {
            let key = key.into();
            self.restoring.strays.push(Write::Delete { table: Table::Subscriptions, key });
            return Some(());
        };
        let SubscriptionRow { options, subscription_id, filter } = row;
        if filter.starts_with(SHARE) {
            let session = self.sessions.at_mut(owner)?;
            let number = share_of(&filter);
            let share = Share { filter, number, options, subscription_id };
            let member = timeline_of(self.settings.home, id);
            if session.more().shares.set(member, share) {
                self.subscriptions.add_share();
            }
            return Some(());
        }
        let hold =
            Hold { filter: &filter, client_id: id, slot: owner.slot, options, durable: true };
        let number = self.subscriptions.restore(hold)?;
        let session = self.sessions.at_mut(owner)?;
        session.add_filter(number);
        session.set_subscription_id(number, subscription_id);
        Some(())
    }

    fn restore_retained(&mut self, value: &[u8]) -> Option<()> {
        let message = decode(value)?;
        self.routing.observe(message.id);
        self.retained.set(Arc::new(message)).ok()?;
        Some(())
    }

    fn restore_will(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let id = rows::subscriber(key)?;
        let (will, due_s) = rows::will_of(value)?;
        self.routing.observe(will.message.id);
        // Earlier wills were about to be published.
        let before = match self.sessions.find(id).and_then(|key| self.sessions.at_mut(key)) {
            Some(session) => {
                let last = session.will().map(|(last, _)| last.message.id);
                match last.is_none_or(|last| last < will.message.id) {
                    true => session.set_will(will, due_s),
                    false => Some(will),
                }
            }
            None => Some(will),
        };
        self.restoring.wills.extend(before.map(|will| (id.into(), will)));
        Some(())
    }

    fn restore_head(&mut self, timeline: TimelineId, (last, count, bytes): (Seq, u64, u64)) {
        let Some(owner) = self.restoring.owners.get(&timeline) else {
            self.restoring.lost.insert(timeline);
            return;
        };
        let (key, sent_upto) = (owner.key, owner.sent_upto);
        if timeline.space() != Space::Sessions {
            return;
        }
        let window = usize::from(self.settings.limits.topics.inflight_max);
        let window = if owner.sent_more { window } else { 0 };
        let Some(session) = self.sessions.at_mut(key) else { return };
        let head = RestoredHead { last, count, bytes, sent_upto, window };
        session.more().queue.restore(head, &mut self.totals);
    }

    /// A message that waits for a member of a group: where it stood before is what is wanted.
    fn restore_message(&mut self, label: &[u8]) -> Option<()> {
        let Said::Message(Label { old_place, .. }) = Said::decode(label)? else { return None };
        self.restoring.old_places.extend(old_place);
        Some(())
    }

    fn restore_exchange(&mut self, timeline: TimelineId, seq: Seq, label: &[u8]) -> Option<()> {
        let said = Said::decode(label)?;
        // Timelines without an owner are forgotten later.
        let Some(owner) = self.restoring.owners.get(&timeline) else { return Some(()) };
        let key = owner.key;
        let more = self.sessions.at_mut(key)?.more();
        let over = |seq| EntryRef { session: key, seq };
        let (id, marker) = match said {
            Said::Message(label) => (label.origin, Marker { seq, ..Marker::default() }),
            Said::Inbound(id) => (id, Marker { seq, alone: true, ..Marker::default() }),
            Said::Taken(id) => (id, Marker { seq, alone: true, taken: true, older: 0 }),
            Said::Released(id, of) => {
                // Of two that say the same the former was refused, or is over.
                let former = more.queue.drop_release(id);
                self.restoring.over.extend(former.map(|former| over(former.seq)));
                if more.queue.doubt(of) {
                    self.restoring.released.push(EntryRef { session: key, seq: of });
                }
                more.queue.add_release(Release { id, of, seq, marking: false });
                return Some(());
            }
        };
        let before = more.inbound.restore(id, marker);
        self.restoring.over.extend(before.map(over));
        Some(())
    }
}

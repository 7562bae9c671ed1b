//! The start: what the log kept becomes the broker's memory again.
//!
//! Rows come first, then entries, which know their sessions by their timelines. Every connection
//! was lost: wills are published, with their delay. What was sent before is sent again with DUP
//! where it may have been sent, under the packet identifier it had. What cannot be read stays in
//! the log.

use super::entries::{Said, low_half, timeline_of};
use super::rows::{self, SessionRow, SubscriptionRow};
use crate::Broker;
use crate::Effects;
use crate::message::groups::SHARE;
use crate::message::groups::share_of;
use crate::message::queue::{Entry, Release, id_of};
use crate::message::subscriptions::Hold;
use crate::peer_message::OldPlace;
use crate::retained::decode;
use crate::session::inbound::Marker;
use crate::session::record::{EntryRef, SessionTerms};
use crate::session::shares::Share;
use base::slab::Key;
use base::time::Now;
use model::ports::access::Grant;
use model::ports::log::{Restored, Table, Write};
use model::session::Will;
use model::timeline::{Seq, Space, TimelineId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is known of a session until everything is restored.
struct Owner {
    key: Key,
    /// It was connected when the process died.
    online: bool,
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
    /// Rows that belong to nobody.
    strays: Vec<Write>,
    /// Timelines that belong to nobody.
    lost: BTreeSet<TimelineId>,
    over: Vec<EntryRef>,
    /// Where messages stood that have gone to other members of their groups.
    old_places: Vec<OldPlace>,
    /// A row could not be read: what belongs to nobody may be its session's.
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
            Restored::Entry { timeline, seq, id, label } if timeline.space() == Space::Sessions => {
                self.routing.observe(id);
                self.restore_entry(timeline, seq, label)
            }
            Restored::Row { .. } | Restored::Entry { .. } => return false,
        };
        self.restoring.unreadable |= taken.is_none();
        taken.is_some()
    }

    /// Everything has come.
    pub fn restored(&mut self, now: Now, fx: &mut Effects) {
        let restoring = std::mem::take(&mut self.restoring);
        let online = restoring.owners.values().filter(|owner| owner.online);
        let online: BTreeSet<Key> = online.map(|owner| owner.key).collect();
        if !restoring.unreadable {
            restoring.strays.into_iter().for_each(|write| self.log.write(write, fx));
            for timeline in restoring.lost {
                self.log.write(Write::Forget(timeline), fx);
            }
        }
        for entry in restoring.over {
            self.log.remove(entry.session, entry.seq);
        }
        for place in restoring.old_places {
            self.leave_old_place(now, place, fx);
        }
        for (id, will) in restoring.wills {
            let message = self.will_message(now, &id, &will);
            self.delayed.push_will(id, message);
        }
        let keys: Vec<Key> = self.sessions.iter().map(|(key, _)| key).collect();
        let window = usize::from(self.settings.limits.topics.inflight_max);
        for key in keys {
            // What one session has does not wait for what others have.
            self.units.begin();
            if let Some(more) = self.sessions.at_mut(key).and_then(|it| it.more.as_mut())
                && online.contains(&key)
            {
                more.queue.sent_before(window);
            }
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
        self.sessions.grant(key, &Grant { user, rules: None, until_s: 0 });
        let session = self.sessions.at_mut(key)?;
        let (expiry_s, is_bridge) = (row.expiry_s, row.bridge);
        let terms = SessionTerms { protocol, expiry_s, keep_alive_s: 0, window: 1, is_bridge };
        session.restore(if row.online { now.unix_s() } else { row.since_s }, &terms);
        let version = session.version();
        self.sessions.observe(version);
        let timeline = timeline_of(self.settings.home, id);
        let (online, sent_upto) = (row.online, row.sent_upto);
        self.restoring.owners.insert(timeline, Owner { key, online, sent_upto });
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
        // Those before its last one were about to be published.
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

    fn restore_entry(&mut self, timeline: TimelineId, seq: Seq, label: &[u8]) -> Option<()> {
        let said = Said::decode(label)?;
        let Some(owner) = self.restoring.owners.get(&timeline) else {
            self.restoring.lost.insert(timeline);
            return Some(());
        };
        let key = owner.key;
        let totals = &mut self.totals;
        let more = self.sessions.at_mut(key)?.more();
        let over = &mut self.restoring.over;
        let mut mark = |id, alone| {
            let before = more.inbound.restore(id, Marker { seq, alone });
            over.extend(before.map(|seq| EntryRef { session: key, seq }));
        };
        match said {
            Said::Message(label) if label.origin.1 != 0 && label.origin.0 == low_half(timeline) => {
                mark(label.origin.1, false);
            }
            Said::Message(label) => {
                self.restoring.old_places.extend(label.old_place.clone());
                let mut entry = Entry::stub(&label, seq);
                let id = id_of(seq);
                if seq <= owner.sent_upto && more.queue.is_free(id) {
                    entry.set_again();
                    entry.id = id;
                    more.queue.push_sent(entry, totals);
                } else {
                    more.queue.push(entry, totals);
                }
            }
            Said::Inbound(id) => mark(id, true),
            Said::Released(id, of) => {
                let of = more.queue.lose(of, totals).map_or(0, |entry| entry.seq);
                more.queue.add_release(Release { id, of, seq, marking: false });
            }
        }
        Some(())
    }
}

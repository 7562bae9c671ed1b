//! Clients of a shard that do not keep up: one row each, while they are connected.
//!
//! A row begins when `net` finds a slow reader or when a service drops a message for a client that
//! is online. It ends with the connection, or when nothing waited and nothing was lost for
//! [`KEPT`]. The log has the first new row at once, then one line in [`QUIET`]. Invariant: at most
//! `slow_clients_max` rows.

use super::AnyService;
use base::text::escaped;
use base::time::{Instant, Now};
use model::id::{ConnRef, ShardId};
use model::link::Protocol;
use model::ports::control::slow_clients::{Loss, SlowClient, SlowReader};
use model::ports::trace::{TraceIdentity, TraceSubject};
use model::{event, tell};
use std::collections::BTreeMap;
use std::time::Duration;

/// A client that keeps up again stays in the list for so long.
const KEPT: Duration = Duration::from_secs(60);
/// Time between two lines of the log.
const QUIET: Duration = Duration::from_secs(10);
/// Time between two looks at the rows.
const EVERY: Duration = Duration::from_secs(1);

/// Slow clients of one shard.
pub(super) struct SlowList {
    shard: ShardId,
    rows: BTreeMap<u64, Row>,
    max: usize,
    due: Instant,
    /// Moment until which new rows are only counted.
    quiet_until: Instant,
    more: u64,
    /// The log says that somebody is slow.
    is_told: bool,
}

struct Row {
    conn: ConnRef,
    subject: TraceSubject,
    protocol: Protocol,
    since_ms: u64,
    /// When it was slow or lost something last.
    seen: Instant,
    /// As of the last look; absent before the first one.
    reader: Option<SlowReader>,
    /// Its peer read too slowly at the last look.
    is_slow: bool,
    dropped: u64,
    is_new: bool,
}

impl SlowList {
    /// An empty list of a shard, of so many rows at most.
    pub(super) fn new(shard: ShardId, max: u32) -> SlowList {
        let (rows, due, quiet_until, more, is_told) = Default::default();
        SlowList { shard, rows, max: max as usize, due, quiet_until, more, is_told }
    }

    /// Sets the most rows.
    pub(super) fn set_max(&mut self, max: u32) {
        self.max = max as usize;
    }

    /// Rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    fn row(
        &mut self,
        now: Now,
        conn: ConnRef,
        (subject, protocol): (TraceSubject, Protocol),
    ) -> Option<&mut Row> {
        let is_full = self.rows.len() >= self.max;
        if is_full && !self.rows.contains_key(&conn.bits()) {
            return None;
        }
        let new = || Row {
            conn,
            subject,
            protocol,
            since_ms: now.wall_ms,
            seen: now.mono,
            reader: None,
            is_slow: false,
            dropped: 0,
            is_new: true,
        };
        Some(self.rows.entry(conn.bits()).or_insert_with(new))
    }

    /// Takes the queued bytes of a connection, and whether its peer reads too slowly, which begins
    /// a row.
    pub(super) fn reads(
        &mut self,
        now: Now,
        conn: ConnRef,
        whose: (TraceSubject, Protocol),
        (reader, is_slow): (SlowReader, bool),
    ) {
        let row = match is_slow {
            true => self.row(now, conn, whose),
            false => self.rows.get_mut(&conn.bits()),
        };
        let Some(row) = row else { return };
        (row.reader, row.is_slow) = (Some(reader), is_slow);
        if is_slow {
            row.seen = now.mono;
        }
    }

    /// Messages for a client were dropped.
    pub(super) fn loses(&mut self, now: Now, loss: Loss) {
        // Only topics drop messages for clients that are online.
        if let Some(row) = self.row(now, loss.conn, (loss.subject, Protocol::Mqtt)) {
            (row.dropped, row.seen) = (row.dropped + loss.count, now.mono);
        }
    }

    /// A connection has ended.
    pub(super) fn ended(&mut self, conn: ConnRef) {
        self.rows.remove(&conn.bits());
    }

    /// The rows, with who they are.
    pub(super) fn clients(&self, services: &[Box<dyn AnyService>]) -> Vec<SlowClient> {
        let client = |row: &Row| {
            let who = identity(row, services)?;
            Some(SlowClient {
                client: who.client.into(),
                user: who.user.map(Into::into),
                peer: who.peer,
                protocol: row.protocol,
                since_ms: row.since_ms,
                reader: row.reader,
                dropped: row.dropped,
            })
        };
        self.rows.values().filter_map(client).collect()
    }

    /// Drops rows that are over, and logs new ones; when to come back.
    pub(super) fn turn(&mut self, now: Now, services: &[Box<dyn AnyService>]) -> Option<Instant> {
        if self.rows.is_empty() && !self.is_told {
            return None;
        }
        if now.mono < self.due {
            return Some(self.due);
        }
        self.due = now.after(EVERY);
        self.rows.retain(|_, row| row.is_slow || now.mono - row.seen < KEPT);
        let shard = self.shard.0;
        if self.more > 0 && now.mono >= self.quiet_until {
            tell!(event::MORE_SLOW_CLIENTS, shard, count = self.more);
            (self.more, self.quiet_until) = (0, now.after(QUIET));
        }
        let mut new: Vec<u64> = Vec::new();
        new.extend(self.rows.iter().filter(|(_, row)| row.is_new).map(|(conn, _)| *conn));
        for conn in new {
            let Some(row) = self.rows.get_mut(&conn) else { continue };
            row.is_new = false;
            match now.mono < self.quiet_until {
                true => self.more += 1,
                false => {
                    tell_slow(shard, row, services);
                    self.quiet_until = now.after(QUIET);
                }
            }
            self.is_told = true;
        }
        if self.rows.is_empty() && self.is_told {
            self.is_told = false;
            tell!(event::CLIENTS_KEEP_UP, shard);
        }
        (!self.rows.is_empty()).then_some(self.due)
    }
}

fn identity<'a>(row: &Row, services: &'a [Box<dyn AnyService>]) -> Option<TraceIdentity<'a>> {
    services.iter().find_map(|service| service.identity(row.conn, row.subject))
}

fn tell_slow(shard: u16, row: &Row, services: &[Box<dyn AnyService>]) {
    let Some(who) = identity(row, services) else { return };
    let (client, user) = (escaped(who.client), who.user.map(escaped));
    let reader = row.reader.unwrap_or_default();
    let SlowReader { queue_bytes, socket_bytes, bytes_per_s, .. } = reader;
    tell!(
        event::CLIENT_SLOW,
        shard,
        %client,
        user = user.as_deref(),
        peer = who.peer.map(tracing::field::display),
        queue_bytes,
        socket_bytes,
        bytes_per_s,
        dropped = row.dropped
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::slab::Key;
    use model::id::SessionRef;
    use model::service::ServiceKind;

    fn now(s: u64) -> Now {
        Now::new(Instant::default() + Duration::from_secs(s), s * 1_000)
    }

    fn conn(slot: u32) -> ConnRef {
        ConnRef::new(ShardId(0), Key { slot, generation: 1 })
    }

    fn whose(slot: u32) -> (TraceSubject, Protocol) {
        let session = SessionRef::new(ShardId(0), Key { slot, generation: 1 });
        (TraceSubject::Session(ServiceKind::Topics, session), Protocol::Mqtt)
    }

    fn loss(slot: u32, count: u64) -> Loss {
        Loss { conn: conn(slot), subject: whose(slot).0, count }
    }

    fn waiting(bytes: u64) -> SlowReader {
        SlowReader { socket_bytes: bytes, ..SlowReader::default() }
    }

    #[test]
    fn a_client_has_one_row_for_what_waits_and_what_it_lost() {
        let mut list = SlowList::new(ShardId(0), 10);
        list.reads(now(1), conn(1), whose(1), (waiting(900_000), true));
        list.loses(now(2), loss(1, 64));
        list.loses(now(3), loss(1, 6));
        assert_eq!(list.len(), 1);
        let row = list.rows.values().next().expect("one");
        assert_eq!((row.dropped, row.reader, row.since_ms), (70, Some(waiting(900_000)), 1_000));
        list.ended(conn(1));
        assert_eq!(list.len(), 0);
    }

    #[test]
    fn who_keeps_up_again_stays_for_a_minute() {
        let mut list = SlowList::new(ShardId(0), 10);
        list.loses(now(1), loss(1, 1));
        list.reads(now(1), conn(2), whose(2), (waiting(5), true));
        assert!(list.turn(now(2), &[]).is_some() && list.is_told);
        list.turn(now(61), &[]);
        assert_eq!(list.len(), 1, "the other one still has something waiting");
        list.reads(now(62), conn(2), whose(2), (SlowReader::default(), false));
        assert_eq!(list.turn(now(63), &[]), None);
        assert!(list.len() == 0 && !list.is_told, "and the log says so");
    }

    #[test]
    fn what_waits_for_a_client_that_lost_messages_is_unknown_until_the_first_look() {
        let mut list = SlowList::new(ShardId(0), 10);
        list.loses(now(1), loss(1, 1));
        let reader = |list: &SlowList| list.rows.values().next().expect("one").reader;
        assert_eq!(reader(&list), None);
        list.reads(now(2), conn(1), whose(1), (waiting(9), false));
        list.reads(now(2), conn(2), whose(2), (waiting(9), false));
        assert_eq!((reader(&list), list.len()), (Some(waiting(9)), 1), "the other one is not slow");
        list.turn(now(62), &[]);
        assert_eq!(list.len(), 0, "something waits for it, and it keeps up");
    }

    #[test]
    fn the_log_has_the_first_and_a_count_of_the_others() {
        let mut list = SlowList::new(ShardId(0), 1_000);
        (0..500).for_each(|slot| list.loses(now(1), loss(slot, 1)));
        list.turn(now(1), &[]);
        assert_eq!((list.more, list.quiet_until), (499, now(11).mono));
        list.turn(now(12), &[]);
        assert_eq!((list.more, list.quiet_until), (0, now(22).mono), "one line, and quiet again");
    }

    #[test]
    fn rows_are_bounded() {
        let mut list = SlowList::new(ShardId(0), 3);
        (0..9).for_each(|slot| list.loses(now(1), loss(slot, 1)));
        list.loses(now(1), loss(2, 1));
        assert_eq!((list.len(), list.rows.values().map(|row| row.dropped).sum::<u64>()), (3, 4));
    }
}

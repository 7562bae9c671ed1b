//! First bytes of connections, before it is known whose they are.
//!
//! While some trace goes on, the first words of a newcomer are kept until its login tells whether
//! it is followed, so that a login that fails is seen from its first byte. Invariant: of no more
//! newcomers than the limit allows more than nothing is kept, of each no more than [`BYTES_MAX`] or
//! one larger entry, and of all together no more than [`SHARD_BYTES_MAX`].

use super::seen::{LinkFacts, Seen, SeenWhat};
use model::id::ConnRef;
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes that are kept of a newcomer: more than any login has (a CONNECT with a large will is
/// shown, and what came before it is not).
const BYTES_MAX: usize = 16 * 1024;

/// Bytes that are kept of all newcomers of a shard. With no room for something only how much it was
/// is kept.
const SHARD_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A connection of which it is not known whose it is.
pub(super) struct Newcomer {
    pub(super) number: u64,
    pub(super) facts: LinkFacts,
    pub(super) seen: Vec<Arc<Seen>>,
    bytes: usize,
}

/// Newcomers of a shard.
#[derive(Default)]
pub(super) struct Newcomers {
    all: HashMap<ConnRef, Newcomer>,
    /// Bytes kept of all of them.
    bytes: usize,
}

impl Newcomers {
    /// One more comes; with no room it is not remembered.
    pub(super) fn come(&mut self, conn: ConnRef, number: u64, facts: LinkFacts, most: usize) {
        if self.all.len() < most {
            let (seen, bytes) = (Vec::new(), 0);
            self.all.insert(conn, Newcomer { number, facts, seen, bytes });
        }
    }

    /// One that came from another shard goes on here.
    pub(super) fn move_in(&mut self, conn: ConnRef, newcomer: Newcomer, most: usize) {
        if self.all.len() < most && self.bytes + newcomer.bytes <= SHARD_BYTES_MAX {
            self.bytes += newcomer.bytes;
            self.all.insert(conn, newcomer);
        }
    }

    /// The number of a connection, if it is one of them.
    pub(super) fn number(&self, conn: ConnRef) -> Option<u64> {
        self.all.get(&conn).map(|newcomer| newcomer.number)
    }

    /// Keeps bytes of a connection. The oldest make room.
    pub(super) fn keep(&mut self, conn: ConnRef, seen: &Arc<Seen>) {
        let Some(newcomer) = self.all.get_mut(&conn) else { return };
        let mut seen = seen.clone();
        let has_room = self.bytes + seen.weight() <= SHARD_BYTES_MAX;
        if let (false, SeenWhat::Bytes(direction, bytes)) = (has_room, &seen.what) {
            let (direction, count) = (*direction, bytes.len());
            seen = Arc::new(seen.with(SeenWhat::TooMany(direction, count)));
        }
        self.bytes -= newcomer.bytes;
        newcomer.bytes += seen.weight();
        newcomer.seen.push(seen);
        while newcomer.bytes > BYTES_MAX && newcomer.seen.len() > 1 {
            newcomer.bytes -= newcomer.seen.remove(0).weight();
        }
        self.bytes += newcomer.bytes;
    }

    /// Removes a connection whose identity is known, or that ended.
    pub(super) fn take(&mut self, conn: ConnRef) -> Option<Newcomer> {
        let newcomer = self.all.remove(&conn)?;
        self.bytes -= newcomer.bytes;
        Some(newcomer)
    }

    pub(super) fn clear(&mut self) {
        *self = Newcomers::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::seen::WireKind;
    use base::slab::Key;
    use model::id::ShardId;
    use model::ports::trace::TraceDirection;

    fn said(bytes: usize) -> Arc<Seen> {
        let what = SeenWhat::Bytes(TraceDirection::In, vec![0; bytes].into());
        Arc::new(Seen { connection: 1, at_ms: 1, wire: WireKind::Im, what })
    }

    #[test]
    fn what_newcomers_say_is_kept_up_to_bounds_of_each_and_of_all() {
        let mut newcomers = Newcomers::default();
        let conn = |n| ConnRef::new(ShardId(0), Key::unpack(n));
        let large = SHARD_BYTES_MAX / 16;
        for n in 0..32 {
            newcomers.come(conn(n), n, LinkFacts::default(), 64);
            newcomers.keep(conn(n), &said(100));
            newcomers.keep(conn(n), &said(large));
            assert!(newcomers.bytes <= SHARD_BYTES_MAX + 32 * 1024, "{}", newcomers.bytes);
        }
        let kept = |newcomers: &mut Newcomers, n| newcomers.take(conn(n)).expect("kept").seen;
        let first = kept(&mut newcomers, 0);
        assert_eq!(first.len(), 1, "a lone entry may be larger");
        assert!(matches!(&first[0].what, SeenWhat::Bytes(_, bytes) if bytes.len() == large));
        let last = kept(&mut newcomers, 31);
        let what = last.last().map(|it| &it.what);
        assert!(matches!(what, Some(SeenWhat::TooMany(_, count)) if *count == large));
        for n in 1..31 {
            newcomers.take(conn(n));
        }
        assert_eq!(newcomers.bytes, 0);
    }
}

//! What connections said before it is known whose they are.
//!
//! While some trace goes on, the first words of a newcomer are kept until its login tells whether
//! it is followed, so that a login that fails is seen from its first byte. Invariant: of each no
//! more than [`BYTES_MAX`] is kept, and of no more newcomers than the limit allows.

use super::seen::{LinkFacts, Seen};
use model::id::ConnRef;
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes that are kept of a newcomer: more than any login has (a CONNECT with a large will is
/// shown, and what came before it is not).
const BYTES_MAX: usize = 16 * 1024;

/// A connection of which it is not known whose it is.
pub(super) struct Newcomer {
    pub(super) number: u64,
    pub(super) facts: LinkFacts,
    pub(super) seen: Vec<Arc<Seen>>,
    bytes: usize,
}

/// Newcomers of a shard.
#[derive(Default)]
pub(super) struct Newcomers(HashMap<ConnRef, Newcomer>);

impl Newcomers {
    /// One more comes; with no room it is not remembered.
    pub(super) fn come(&mut self, conn: ConnRef, number: u64, facts: LinkFacts, most: usize) {
        if self.0.len() < most {
            let (seen, bytes) = (Vec::new(), 0);
            self.0.insert(conn, Newcomer { number, facts, seen, bytes });
        }
    }

    /// One that came from another shard goes on here.
    pub(super) fn move_in(&mut self, conn: ConnRef, newcomer: Newcomer, most: usize) {
        if self.0.len() < most {
            self.0.insert(conn, newcomer);
        }
    }

    /// The number of a connection, if it is one of them.
    pub(super) fn number(&self, conn: ConnRef) -> Option<u64> {
        self.0.get(&conn).map(|newcomer| newcomer.number)
    }

    /// It says something. The oldest of it makes room.
    pub(super) fn keep(&mut self, conn: ConnRef, seen: &Arc<Seen>) {
        let Some(newcomer) = self.0.get_mut(&conn) else { return };
        newcomer.bytes += seen.weight();
        newcomer.seen.push(seen.clone());
        while newcomer.bytes > BYTES_MAX && newcomer.seen.len() > 1 {
            newcomer.bytes -= newcomer.seen.remove(0).weight();
        }
    }

    /// It is one no more.
    pub(super) fn take(&mut self, conn: ConnRef) -> Option<Newcomer> {
        self.0.remove(&conn)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

//! Traffic of connections, shown to the logic while it wants that.
//!
//! Each place that calls into here looks at one flag of the shard first. It knows no protocol.

use super::{Shard, ShardMessageOf};
use crate::logic::ShardLogic;
use crate::logic::tap::{TapNotes, Tapped};
use crate::transport::Net;
use base::slab::Key;
use model::machine::Machine;

impl<N, S, H> Shard<N, H>
where
    H: ShardLogic,
    N: Net<Socket = S, Message = ShardMessageOf<H, S>>,
    S: Send,
{
    /// Shows traffic of a connection to the logic.
    pub(super) fn tap(&mut self, key: Key, tapped: Tapped<'_, <H::Machine as Machine>::Up>) {
        let from = self.conn_ref(key);
        let machine = self.conns.at_mut(key).and_then(|conn| conn.machine.as_mut());
        if let Some(machine) = machine {
            self.logic.tapped(self.now, from, machine, tapped);
        }
    }

    /// A machine has taken bytes of its peer; if it failed, what is behind them it never will.
    pub(super) fn tap_input(&mut self, key: Key, taken: &[u8], rest: &[u8], failed: bool) {
        if !taken.is_empty() {
            self.tap(key, Tapped::Received(taken));
        }
        if failed && !rest.is_empty() {
            self.tap(key, Tapped::Untaken(rest));
        }
    }

    /// A machine has acted: what it says, to the inside and to its peer, is in the outbox.
    pub(super) fn tap_output(&mut self, key: Key) {
        if self.outbox.wire_is_empty() && !self.outbox.has_words() {
            return;
        }
        let from = self.conn_ref(key);
        let machine = self.conns.at_mut(key).and_then(|conn| conn.machine.as_mut());
        if let Some(machine) = machine {
            self.logic.tapped(self.now, from, machine, Tapped::Says(&self.outbox));
        }
    }

    /// A connection leaves: what is noted of it.
    pub(super) fn tap_leaves(&mut self, key: Key) -> Option<TapNotes> {
        let from = self.conn_ref(key);
        self.handle.tapping.then(|| self.logic.tap_leaves(from)).flatten()
    }
}

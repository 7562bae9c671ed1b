//! Tells the logic of bytes that pass, of a sample of the reads and writes.

use super::{Shard, ShardMessageOf};
use crate::logic::{PassedBytes, ShardLogic};
use crate::transport::Net;
use base::slab::Key;

impl<N, S, H> Shard<N, H>
where
    H: ShardLogic,
    N: Net<Socket = S, Message = ShardMessageOf<H, S>>,
    S: Send,
{
    /// Bytes were received from, or sent to, a connection's peer.
    #[inline]
    pub(super) fn pass(&mut self, key: Key, received: usize, sent: usize) {
        let weight = (received + sent) as u64;
        if !H::WATCHES || weight == 0 {
            return;
        }
        let credit = self.passed.take(self.now.mono, weight);
        if credit > 0 {
            self.tell_passed(key, (received > 0, credit));
        }
    }

    fn tell_passed(&mut self, key: Key, (is_received, credit): (bool, u64)) {
        let conn_ref = self.conn_ref(key);
        let Some(conn) = self.conns.at_mut(key) else { return };
        let peer = self.net.peer(&conn.socket);
        let (received, sent) = if is_received { (credit, 0) } else { (0, credit) };
        if let Some(machine) = conn.machine.as_mut() {
            self.logic.passed(self.now, conn_ref, machine, PassedBytes { received, sent, peer });
        }
    }
}

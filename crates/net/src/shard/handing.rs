//! Connections that leave for somebody beside the shards.

use super::{Shard, ShardMessageOf};
use crate::layer::handing::{CensusPlace, HandedStream, StreamTaker};
use crate::logic::ShardLogic;
use crate::transport::Net;
use base::slab::Key;
use model::close::CloseReason;
use std::sync::Arc;

impl<N, S, H> Shard<N, H>
where
    H: ShardLogic,
    N: Net<Socket = S, Message = ShardMessageOf<H, S>>,
    S: Send,
{
    /// A connection asked for something that `taker` answers: it leaves, with all that is known of
    /// it. Here it is counted as ended; its place it keeps.
    pub(super) fn hand_over(&mut self, key: Key, taker: &Arc<dyn StreamTaker>) {
        let extra = self.conns.at(key).and_then(|conn| conn.extra.as_ref());
        let link = extra.and_then(|extra| extra.layers.as_ref()?.opening_link().cloned());
        // A proxy has told who it is: it is counted where it came from, as whoever begins is.
        if let Some(mut link) = link
            && let Err(reason) = self.count_told(key, &mut link).and(match link.crowded {
                true => Err(CloseReason::Full),
                false => Ok(()),
            })
        {
            return self.end(key, reason);
        }
        let Some(mut record) = self.conns.remove(key) else { return };
        self.net.release(&record.socket);
        self.let_bytes_go(&mut record);
        let bucket = self.take_bucket(key);
        drop(self.tap_leaves(key));
        self.tell_end(key, &record, CloseReason::HandedOver);
        let mut unsent = Vec::new();
        let mut layers = None;
        if let Some(mut extra) = record.extra.take() {
            while !extra.out.is_empty() {
                extra.out.write(|pieces| {
                    pieces.iter().for_each(|piece| unsent.extend_from_slice(piece));
                    pieces.iter().map(|piece| piece.len()).sum()
                });
            }
            layers = extra.layers.take();
            self.pool_extra(extra);
        }
        let door = &self.settings.doors[usize::from(record.door)];
        let (all, door) = (self.settings.census.clone(), door.open.clone());
        let place = CensusPlace { all, door, bucket };
        let known = layers.and_then(|layers| layers.leave());
        let taken = match (known, self.net.give_away(record.socket)) {
            (Some((said, peer, tls)), Some(socket)) => {
                taker.take(HandedStream { socket, tls, said, unsent, peer, place })
            }
            _ => false,
        };
        self.handle.counters.closed(match taken {
            true => CloseReason::HandedOver,
            false => CloseReason::Busy,
        });
    }
}

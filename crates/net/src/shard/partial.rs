//! Frames that have begun and are not whole: what they hold, and how long.
//!
//! A connection is asked what it holds whenever bytes came; the sums of all shards are bounded.
//! Beyond the bound a shard that holds more than its part ends those whose bytes, times the seconds
//! that they have been held, are the most: whoever sends a large frame quickly is the last. It
//! does not know what a frame is. Invariant: every byte that is counted is counted off once, when
//! the frame is whole, the connection ends, or it moves.

use super::{Conn, Shard, ShardMessageOf};
use crate::logic::ShardLogic;
use crate::transport::Net;
use base::slab::Key;
use model::close::CloseReason;
use model::machine::{Machine, TurnAway};
use model::request::Refusal;

/// Bytes by which a frame must have grown to count as going on.
const PROGRESS_BYTES: u32 = 4_096;

impl<N, S, H> Shard<N, H>
where
    H: ShardLogic,
    N: Net<Socket = S, Message = ShardMessageOf<H, S>>,
    S: Send,
{
    /// Bytes came: what does the connection hold now?
    pub(super) fn weigh(&mut self, key: Key) {
        let now_s = self.now.secs();
        let Some(conn) = self.conns.at_mut(key) else { return };
        if conn.has(Conn::<N, H>::DIALLED) {
            return;
        }
        let Some(extra) = conn.extra.as_mut() else { return };
        let (length, room) = extra.pieces();
        let piece = &mut extra.piece;
        let before = piece.held;
        piece.held = room;
        if length == 0 || before == 0 || piece.fresh || length >= piece.mark + PROGRESS_BYTES {
            (piece.since_s, piece.mark, piece.fresh) = (now_s, length, false);
        }
        self.hold_bytes(before, room);
        if room > before {
            self.shed();
        }
    }

    /// Part of what was held has become a frame: what is left is another, that begins now.
    pub(super) fn begin_piece(&mut self, key: Key) {
        let extra = self.conns.at_mut(key).and_then(|conn| conn.extra.as_mut());
        extra.into_iter().for_each(|extra| extra.piece.fresh = true);
    }

    /// Counts bytes on or off.
    pub(super) fn hold_bytes(&mut self, before: u32, now: u32) {
        self.partial_bytes = self.partial_bytes + u64::from(now) - u64::from(before);
        self.settings.census.holds(before, now);
    }

    /// A connection leaves this shard; it is weighed again where it arrives.
    pub(super) fn let_bytes_go(&mut self, conn: &mut Conn<N, H>) {
        if let Some(extra) = &mut conn.extra {
            let held = std::mem::take(&mut extra.piece.held);
            self.hold_bytes(held, 0);
        }
    }

    /// Whether a frame of this connection has begun and does not go on. A frame that is held back
    /// by our own will is not held against the peer.
    pub(super) fn is_stuck(&self, conn: &Conn<N, H>) -> bool {
        let ours = Conn::<N, H>::HELD | Conn::<N, H>::DEFERRED | Conn::<N, H>::DIALLED;
        let Some(extra) = conn.extra.as_ref().filter(|_| conn.flags & ours == 0) else {
            return false;
        };
        let span_s = self.settings.limits.frame_ms_max.div_ceil(1_000);
        let age_s = self.now.secs().saturating_sub(extra.piece.since_s);
        extra.piece.held > 0 && conn.machine.is_some() && age_s > span_s
    }

    /// Ends those that hold the most for the longest, when all hold too much and this shard more
    /// than its part.
    pub(super) fn shed(&mut self) {
        let most = self.settings.limits.partial_max();
        let part = most / u64::from(self.settings.shards.max(1));
        if self.settings.census.partial_bytes() <= most || self.partial_bytes <= part {
            return;
        }
        let now_s = self.now.secs();
        let mut holders = Vec::new();
        for slot in 0..self.conns.slots() {
            let Some((key, conn)) = self.conns.tenant(slot) else { continue };
            let Some(piece) = conn.extra.as_ref().map(|extra| &extra.piece) else { continue };
            if piece.held > 0 {
                let age_s = now_s.saturating_sub(piece.since_s);
                holders.push((u64::from(piece.held) * (u64::from(age_s) + 1), key));
            }
        }
        holders.sort_unstable_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        // An eighth is made room for, so that the walk is paid for by as many bytes.
        for (_, key) in holders {
            if self.partial_bytes <= part - part / 8 {
                break;
            }
            self.end_piece(key);
        }
        self.settle();
    }

    fn end_piece(&mut self, key: Key) {
        let why = CloseReason::PartialFull;
        let away = TurnAway::of(Refusal::Busy, self.retry_after_ms());
        if self.conns.at(key).is_some_and(|conn| conn.machine.is_some()) {
            return self.drive(key, |machine, now, out| {
                machine.turn_away(now, away, out);
                Err(why)
            });
        }
        self.end(key, why);
    }
}

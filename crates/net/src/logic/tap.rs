//! Traffic of connections as traces get it.
//!
//! A tap stands between a machine and the layers below it, so that what passes there is neither
//! encrypted nor framed. The shard shows what passes while the logic wants it
//! ([`ShardHandle::set_tapping`](crate::logic::ShardHandle::set_tapping)); otherwise all of this is
//! one branch. It does not know who follows whom, nor what bytes mean. Invariant: what is shown has
//! happened, in this order, and bytes of a peer are shown once: when its machine has taken them.

use model::close::CloseReason;
use model::link::Link;
use model::machine::Outbox;
use std::any::Any;

/// Traffic or event of a connection that is followed.
pub enum Tapped<'a, Up> {
    /// The protocol begins.
    Opened(&'a Link),
    /// The machine took these bytes of the peer.
    Received(&'a [u8]),
    /// The machine ended the connection in front of these.
    Untaken(&'a [u8]),
    /// Words of the machine, and what it sends, both still in the outbox.
    Says(&'a Outbox<Up>),
    /// The connection has ended.
    Ended(CloseReason),
}

/// Notes of the logic about a connection that moves to another shard, for the logic there.
pub type TapNotes = Box<dyn Any + Send>;

//! Listeners that open, change and close while the shard runs.
//!
//! A connection names its listener by a number, so a listener keeps its number while it has
//! connections, and its place in `Settings::doors` for good. Before sockets are closed, the
//! connections that wait in their queues are accepted: closing a socket resets them. Invariant:
//! changes of a shard are carried out in their order, each once, and none once it stops.

use super::{Shard, ShardMessageOf};
use crate::layer::ListenerSetup;
use crate::logic::ShardLogic;
use crate::transport::Net;
use model::{event, tell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

/// Change of one listener on one shard.
pub struct ListenerChange {
    /// Its number.
    pub door: u8,
    /// Its setup from now on. A listener that closes keeps its name and its count of connections.
    pub setup: Arc<ListenerSetup>,
    /// The sockets that replace those it has, none where it closes; `None`: it keeps its sockets.
    pub sockets: Option<Vec<OwnedFd>>,
    /// Dropped when the shard has carried out the change.
    pub done: SyncSender<Infallible>,
}

/// Changes that are still to be carried out.
#[derive(Default)]
pub(super) struct Changes {
    waiting: VecDeque<ListenerChange>,
    /// Connections accepted for the first of them. They are bounded: under a flood the queue of a
    /// socket never becomes empty.
    accepted: u64,
}

impl Changes {
    pub(super) fn add(&mut self, changes: Vec<ListenerChange>) {
        self.waiting.extend(changes);
    }

    pub(super) fn is_under_way(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl<N, S, H> Shard<N, H>
where
    H: ShardLogic,
    N: Net<Socket = S, Message = ShardMessageOf<H, S>>,
    S: Send,
{
    /// Carries out changes, as far as a turn's share of accepted connections reaches.
    pub(super) fn change_listeners(&mut self) {
        while let Some(change) = self.changes.waiting.front() {
            let (door, closes) = (change.door, change.sockets.is_some());
            let stops = self.is_stopping();
            if !stops && closes && !self.empties(door) {
                return;
            }
            self.changes.accepted = 0;
            if let Some(change) = self.changes.waiting.pop_front().filter(|_| !stops) {
                self.change_listener(change);
            }
        }
    }

    /// Accepts who waits at a listener whose sockets will close. True: nobody does any more, or as
    /// many were accepted as its queue holds.
    fn empties(&mut self, door: u8) -> bool {
        let Some(setup) = self.settings.doors.get(usize::from(door)) else { return true };
        let queue = u64::from(setup.backlog.unsigned_abs());
        if self.accept(door) {
            return true;
        }
        self.changes.accepted += u64::from(self.settings.limits.accepts_per_turn);
        self.changes.accepted > queue
    }

    fn change_listener(&mut self, change: ListenerChange) {
        let ListenerChange { door, setup, sockets, done } = change;
        let (at, doors) = (usize::from(door), &mut self.settings.doors);
        match doors.get_mut(at) {
            Some(found) => *found = setup,
            // Numbers are given one after the other.
            None => doors.push(setup),
        }
        base::never!(at >= self.settings.doors.len(), "a listener's number follows the last one");
        if let Some(sockets) = sockets
            && let Err(error) = self.net.listen(door, sockets)
        {
            let (shard, listener) = (self.settings.shard.0, &*self.settings.doors[at].name);
            tell!(event::LISTENER_UNWATCHED, shard, listener, %error);
        }
        drop(done);
    }
}

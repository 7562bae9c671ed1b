//! Bytes and calls on the way, ordered by the time of their arrival; of equal times the one sent
//! first arrives first.

use model::close::CloseReason;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::SocketAddr;

/// Data or event that arrives at an end of a link.
pub(super) enum Arrival {
    /// A call, at the end that was called.
    Call(SocketAddr),
    /// The call was taken.
    Answered,
    /// A segment.
    Bytes(Vec<u8>),
    /// The other end sends nothing more.
    End,
    /// The link is broken.
    Broken(CloseReason),
    /// The holder's output has room again.
    Room,
}

/// All data and events on the way.
#[derive(Default)]
pub(super) struct Arrivals {
    order: BinaryHeap<Reverse<(u64, u64)>>,
    what: BTreeMap<u64, (u32, u32, Arrival)>,
    count: u64,
}

impl Arrivals {
    /// `arrival` will reach the end `to`, of that generation, at `at`.
    pub fn put(&mut self, at: u64, to: u32, generation: u32, arrival: Arrival) {
        self.count += 1;
        self.order.push(Reverse((at, self.count)));
        self.what.insert(self.count, (to, generation, arrival));
    }

    /// When the next thing arrives.
    pub fn next(&self) -> Option<u64> {
        self.order.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the next arrival.
    pub fn take(&mut self) -> Option<(u32, u32, Arrival)> {
        let Reverse((_, number)) = self.order.pop()?;
        self.what.remove(&number)
    }
}

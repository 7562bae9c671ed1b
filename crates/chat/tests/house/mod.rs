//! One shard over a log in memory that answers at once, for requests of devices.

pub mod plain;

use base::slab::Key;
use base::time::{Instant, Now};
use chat::{ChatService, Effects, Settings};
use model::chat::{ChatDelivery, ChatRequest};
use model::id::{ConnRef, ShardId};
use model::ports::log::{Call, StoreError, Ticket};
use model::service::Service;
use testkit::log::{LogOptions, MemoryLog};

pub struct House {
    pub chat: ChatService,
    pub fx: Effects,
    log: MemoryLog,
    pub now: Now,
    conns: u32,
    /// The error with which the log answers every call.
    pub fails: Option<StoreError>,
}

impl House {
    pub fn of(settings: Settings) -> House {
        House {
            chat: ChatService::new(settings),
            fx: Effects::default(),
            log: MemoryLog::new(LogOptions::default()),
            now: Now::new(Instant::default(), 1_700_000_000_000),
            conns: 0,
            fails: None,
        }
    }

    /// A new connection of this shard.
    pub fn conn(&mut self, shard: ShardId) -> ConnRef {
        self.conns += 1;
        ConnRef::new(shard, Key { slot: self.conns, generation: 0 })
    }

    /// Makes a request, and lets everything come to rest; returns the deliveries.
    pub fn ask(&mut self, from: ConnRef, request: ChatRequest) -> Vec<(ConnRef, ChatDelivery)> {
        Service::request(&mut self.chat, self.now, from, request, &mut self.fx);
        self.rest()
    }

    /// Lets everything come to rest; returns the deliveries.
    pub fn rest(&mut self) -> Vec<(ConnRef, ChatDelivery)> {
        let mut delivered = Vec::new();
        loop {
            Service::turn(&mut self.chat, self.now, &mut self.fx);
            delivered.append(&mut self.fx.deliveries);
            if self.fx.calls.is_empty() {
                Service::audit(&self.chat);
                return delivered;
            }
            for asked in std::mem::take(&mut self.fx.calls) {
                self.answers(asked);
            }
        }
    }

    /// Answers one call to the log.
    pub fn answers(&mut self, (ticket, call): (Ticket, Call)) {
        let answer = match self.fails {
            Some(error) => Err(error),
            None => self.log.answer(&call),
        };
        Service::complete(&mut self.chat, self.now, (ticket, answer), &mut self.fx);
    }
}

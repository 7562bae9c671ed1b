//! The hub as a service of its shard.

use crate::orders::OrderMessage;
use crate::{Effects, Hub};
use base::hash::HashKey;
use base::time::{Instant, Now};
use model::event::DeviceEvent;
use model::id::{ConnRef, ShardId};
use model::ports::control::Status;
use model::ports::log::{Completion, Restored};
use model::ports::presence_queries::PresenceStatus;
use model::ports::pushes::{PushAnswer, PushCommand};
use model::presence::{PresenceVersion, Principal};
use model::pressure::Pressure;
use model::product::Product;
use model::request::{PushDelivery, PushRequest};
use model::service::{Service, ServiceKind, Weigh};
use std::sync::Arc;

impl Weigh for OrderMessage {
    fn weight(&self) -> usize {
        let order = match self {
            OrderMessage::Take(order) => order.push.body.len(),
            OrderMessage::Taken(..) | OrderMessage::Over(_) | OrderMessage::Close(_) => 0,
        };
        size_of::<OrderMessage>() + order
    }
}

impl Service for Hub {
    const KIND: ServiceKind = ServiceKind::Push;

    type Request = PushRequest;
    type Delivery = PushDelivery;
    type Event = DeviceEvent;
    type Command = PushCommand;
    type Answer = PushAnswer;
    type PeerMessage = OrderMessage;

    fn home_of(home: HashKey, restored: &Restored<'_>) -> Option<u64> {
        crate::home_of(home, restored)
    }

    fn restore(&mut self, now: Now, restored: Restored<'_>) -> bool {
        self.restore(now, restored)
    }

    fn restored(&mut self, now: Now, fx: &mut Effects) {
        self.restored(now, fx);
    }

    fn request(&mut self, now: Now, from: ConnRef, request: PushRequest, fx: &mut Effects) {
        self.request(now, from, request, fx);
    }

    fn undelivered(&mut self, _: Now, to: ConnRef, delivery: PushDelivery, fx: &mut Effects) {
        self.undelivered(to, delivery, fx);
    }

    fn command(&mut self, now: Now, ask: u64, command: PushCommand, fx: &mut Effects) {
        self.command(now, ask, command, fx);
    }

    fn complete(&mut self, now: Now, completion: Completion, fx: &mut Effects) {
        self.complete(now, completion, fx);
    }

    fn peer_message(&mut self, now: Now, from: ShardId, message: OrderMessage, fx: &mut Effects) {
        self.peer_message(now, from, message, fx);
    }

    fn turn(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.turn(now, fx)
    }

    fn unsettled(&self) -> usize {
        self.unsettled() as usize
    }

    fn press(&mut self, pressure: Pressure) {
        self.press(pressure);
    }

    fn drain(&mut self) {
        self.drain();
    }

    fn install(&mut self, products: &[Arc<Product>]) {
        for product in products {
            self.install(product.clone());
        }
    }

    fn status(&self, status: &mut Status) {
        status.add(&self.status());
    }

    fn find(&self, now: Now, who: &Principal) -> Option<PresenceStatus> {
        let Principal::Device(product, device) = who else { return None };
        self.find(now, product, device)
    }

    fn observe(&mut self, version: PresenceVersion) {
        self.observe(version);
    }

    fn outvoted(&mut self, now: Now, who: &Principal, fx: &mut Effects) {
        if let Principal::Device(product, device) = who {
            self.outvoted(now, product, device, fx);
        }
    }

    fn audit(&self) {
        self.audit();
    }
}

//! Orders of the API.
//!
//! The roof has split a command by shard: devices named here belong here, and what is about all
//! devices comes to every shard and is merged by the roof. Orders that must survive a restart
//! (products, blocks, tags) are carried out, and answered, when the log has them.

use crate::Effects;
use crate::Hub;
use crate::log::durable::product;
use crate::log::tickets::{Order, PendingCall};
use crate::registry::device::{BindState, Device};
use base::slab::Key;
use base::time::Now;
use model::id::{DeviceId, ProductKey};
use model::ports::log::{Call, Table, Write};
use model::ports::pushes::{PushAnswer, PushCommand};
use model::product::Product;
use model::request::Refusal;
use std::sync::Arc;

impl Hub {
    /// The API asks. The answer comes in `fx.answers` under `reply`, now or later, exactly once.
    pub fn command(&mut self, now: Now, reply: u64, command: PushCommand, fx: &mut Effects) {
        let answer = match command {
            PushCommand::Push(order) => return self.push(now, reply, order, fx),
            PushCommand::PutProduct(product) => return self.put_product(reply, *product, fx),
            PushCommand::DropProduct(key) => return self.drop_product(reply, key, fx),
            PushCommand::Block { product, device, blocked } => {
                let order = |key| Order::Block(reply, key, blocked);
                return self.order_device(now, reply, (product, device), order, fx);
            }
            PushCommand::Kick { product, device, addrs } => {
                return self.kick_by_name(now, reply, (product, device, addrs), fx);
            }
            PushCommand::SetTags { product, device, tags } => {
                if tags.len() > usize::from(self.settings.limits.tags_a_device_max) {
                    let known = self.registry.products.number(&product);
                    known.map_or(PushAnswer::UnknownProduct, |_| PushAnswer::Done(false))
                } else {
                    let order = |key| Order::Tags(reply, key, tags);
                    return self.order_device(now, reply, (product, device), order, fx);
                }
            }
            PushCommand::Configure { product } => match self.registry.products.number(&product) {
                Some(number) if self.configure(number) => PushAnswer::Done(true),
                Some(_) => PushAnswer::Busy,
                None => PushAnswer::UnknownProduct,
            },
            PushCommand::Token { product, device, until } => {
                let known = self.registry.products.number(&product);
                let token = known
                    .map(|_| self.access.bearer_token(product.as_str(), device.as_str(), until));
                PushAnswer::Token(token)
            }
            PushCommand::PushCounts(id) => PushAnswer::Counts(self.jobs.counts(id)),
            PushCommand::States { product, devices } => self.states(now, &product, &devices),
            PushCommand::List { product, online, tag, after, count } => {
                self.list(now, (product, online, tag), after, count)
            }
            PushCommand::Products => {
                PushAnswer::Products(self.registry.products.all().cloned().collect())
            }
        };
        fx.answers.push((reply, answer));
    }

    /// The log has an order: do it, and say so.
    pub(crate) fn carry_out(&mut self, now: Now, order: Order, fx: &mut Effects) {
        let reply = order.reply();
        let done = match order {
            Order::Put(_, product) => self.registry.products.put(product).is_some(),
            Order::Drop(_, key) => match self.registry.products.unname(&key) {
                Some(number) => {
                    self.drop_devices(number);
                    true
                }
                None => false,
            },
            Order::Block(_, key, blocked) => {
                self.order_over(key);
                self.set_blocked(now, key, blocked, fx)
            }
            Order::Tags(_, key, tags) => {
                self.order_over(key);
                let known = self.registry.at(key).is_some();
                self.go_ahead(now, key, fx);
                self.set_tags(now, key, &tags);
                self.release(now, key);
                known
            }
        };
        fx.answers.push((reply, PushAnswer::Done(done)));
    }

    fn put_product(&mut self, reply: u64, product: Product, fx: &mut Effects) {
        let product = Arc::new(product);
        let base = self.configured.get(&product.key).copied().unwrap_or(0);
        let (key, value) = (product::key(&product.key), product::encode(&product, base));
        let pending = PendingCall::Order(Box::new(Order::Put(reply, product)));
        let write = Write::Put { table: Table::Products, key, value };
        self.enter(pending, Call::Write(write), fx);
    }

    fn drop_product(&mut self, reply: u64, key: ProductKey, fx: &mut Effects) {
        if self.registry.products.number(&key).is_none() {
            return fx.answers.push((reply, PushAnswer::Done(false)));
        }
        // Not deleted: a start must tell a product that was dropped from one that is not configured
        // this time.
        let (row, value) = (product::key(&key), product::DROPPED.into());
        let write = Write::Put { table: Table::Products, key: row, value };
        let pending = PendingCall::Order(Box::new(Order::Drop(reply, key)));
        self.enter(pending, Call::Write(write), fx);
    }

    /// Hands the log what an order changes of a device, which is made known if it is not.
    fn order_device(
        &mut self,
        now: Now,
        reply: u64,
        (product, device): (ProductKey, DeviceId),
        order: impl FnOnce(Key) -> Order,
        fx: &mut Effects,
    ) {
        let Some(number) = self.registry.products.number(&product) else {
            return fx.answers.push((reply, PushAnswer::UnknownProduct));
        };
        match self.find_or_make(now, number, device.as_str()) {
            Some(key) => {
                let order = order(key);
                if matches!(order, Order::Tags(..)) {
                    self.go_ahead(now, key, fx);
                }
                self.order_row(order, fx);
            }
            None => fx.answers.push((reply, PushAnswer::Done(false))),
        }
    }

    /// The log does not have an order: nothing was done. The row may be there nevertheless, or
    /// another one that was ahead of the record with it, so it is written as it should be; a record
    /// that was made for the order alone goes.
    pub(crate) fn give_up(&mut self, now: Now, order: Order, fx: &mut Effects) {
        let (Order::Block(_, key, _) | Order::Tags(_, key, _)) = order else { return };
        self.order_over(key);
        self.release(now, key);
        let Some(device) = self.registry.at(key) else { return };
        let is_nothing = device.extra.is_none() && !device.blocked();
        match is_nothing && device.presence() == BindState::Never {
            true => self.forget(key, fx),
            false => self.soil(key),
        }
    }

    fn set_blocked(&mut self, now: Now, key: Key, blocked: bool, fx: &mut Effects) -> bool {
        let Some(device) = self.registry.at_mut(key) else { return false };
        device.set_blocked(blocked);
        if blocked {
            self.kick(now, key, (Refusal::DeviceBlocked, Vec::new()), fx);
            // Its row says that it is blocked, which bars it too.
            if self.registry.at_mut(key).is_some_and(Device::bar) {
                self.write_row(key, fx);
            }
        }
        self.release(now, key);
        true
    }

    /// Ends a device's session, and has nobody go on with it: that is answered when it is stored,
    /// for it is to hold after a restart too.
    fn kick_by_name(
        &mut self,
        now: Now,
        reply: u64,
        (product, device, addrs): (ProductKey, DeviceId, Vec<String>),
        fx: &mut Effects,
    ) {
        let Some(number) = self.registry.products.number(&product) else {
            return fx.answers.push((reply, PushAnswer::UnknownProduct));
        };
        let Some(key) = self.registry.find(number, device.as_str()) else {
            return fx.answers.push((reply, PushAnswer::Done(false)));
        };
        let why = if addrs.is_empty() { Refusal::AdminKick } else { Refusal::Redirect };
        let was_online = self.kick(now, key, (why, addrs), fx);
        match self.registry.at_mut(key).is_some_and(Device::bar) {
            true => self.put_row(key, PendingCall::Kicked(reply, key, was_online), fx),
            false => fx.answers.push((reply, PushAnswer::Done(was_online))),
        }
    }
}

//! Orders of the API.
//!
//! The roof has split a command by shard: devices named here belong here, and what is about all
//! devices comes to every shard and is merged by the roof. Orders that must survive a restart
//! (products, blocks) are carried out, and answered, when the store has them.

use crate::Hub;
use crate::effects::Effects;
use crate::tickets::{Order, Promise};
use base::slab::Key;
use base::time::Now;
use model::id::{DeviceId, ProductKey, Tag};
use model::ports::control::{Answer, Command};
use model::ports::journal::Entry;
use model::product::Product;
use model::request::Refusal;
use std::sync::Arc;

impl Hub {
    /// The API asks. The answer comes in `fx.answers` under `reply`, now or later, exactly once.
    pub fn control(&mut self, now: Now, reply: u64, command: Command, fx: &mut Effects) {
        let answer = match command {
            Command::Push(order) => return self.push(now, reply, order, fx),
            Command::PutProduct(product) => return self.put_product(reply, *product, fx),
            Command::DropProduct(key) => return self.drop_product(reply, key, fx),
            Command::Block { product, device, blocked } => {
                return self.block(reply, (product, device, blocked), fx);
            }
            Command::Kick { product, device, addrs } => {
                self.kick_by_name(now, (product, device), addrs, fx)
            }
            Command::SetTags { product, device, tags } => {
                self.set_tags_by_name(now, (product, device), &tags)
            }
            Command::Configure { product } => match self.registry.products.number(&product) {
                Some(number) if self.configure(number) => Answer::Done(true),
                Some(_) => Answer::Busy,
                None => Answer::UnknownProduct,
            },
            Command::Token { product, device, until } => {
                let known = self.registry.products.number(&product);
                let token = known
                    .map(|_| self.access.bearer_token(product.as_str(), device.as_str(), until));
                Answer::Token(token)
            }
            Command::PushCounts(id) => Answer::Counts(self.jobs.counts(id)),
            Command::States { product, devices } => self.states(&product, &devices),
            Command::List { product, online, tag, after, count } => {
                self.list((product, online, tag), after, count)
            }
            Command::Products => Answer::Products(self.registry.products.all().cloned().collect()),
            Command::Status => Answer::Status(Box::new(self.status())),
        };
        fx.answers.push((reply, answer));
    }

    /// The store has an order: do it, and say so.
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
            Order::Block(_, product, device, blocked) => {
                match self.find_or_insert(now, &product, &device) {
                    Some(key) => self.set_blocked(now, key, blocked, fx),
                    None => false,
                }
            }
        };
        fx.answers.push((reply, Answer::Done(done)));
    }

    fn put_product(&mut self, reply: u64, product: Product, fx: &mut Effects) {
        let product = Arc::new(product);
        let order = Order::Put(reply, product.clone());
        self.enter(Promise::Order(Box::new(order)), Entry::Product(product), fx);
    }

    fn drop_product(&mut self, reply: u64, key: ProductKey, fx: &mut Effects) {
        if self.registry.products.number(&key).is_none() {
            return fx.answers.push((reply, Answer::Done(false)));
        }
        let order = Order::Drop(reply, key.clone());
        self.enter(Promise::Order(Box::new(order)), Entry::NoProduct(key), fx);
    }

    fn block(
        &mut self,
        reply: u64,
        (product, device, blocked): (ProductKey, DeviceId, bool),
        fx: &mut Effects,
    ) {
        if self.registry.products.number(&product).is_none() {
            return fx.answers.push((reply, Answer::UnknownProduct));
        }
        let order = Order::Block(reply, product.clone(), device.clone(), blocked);
        let entry = Entry::Blocked { product, device, blocked };
        self.enter(Promise::Order(Box::new(order)), entry, fx);
    }

    fn set_blocked(&mut self, now: Now, key: Key, blocked: bool, fx: &mut Effects) -> bool {
        if let Some(device) = self.registry.at_mut(key) {
            device.set_blocked(blocked);
        }
        if blocked {
            self.kick(now, key, (Refusal::DeviceBlocked, Vec::new()), fx);
        }
        true
    }

    fn kick_by_name(
        &mut self,
        now: Now,
        (product, device): (ProductKey, DeviceId),
        addrs: Vec<String>,
        fx: &mut Effects,
    ) -> Answer {
        let Some(number) = self.registry.products.number(&product) else {
            return Answer::UnknownProduct;
        };
        let why = if addrs.is_empty() { Refusal::AdminKick } else { Refusal::Redirect };
        let key = self.registry.find(number, device.as_str());
        Answer::Done(key.is_some_and(|key| self.kick(now, key, (why, addrs), fx)))
    }

    /// Tags are not journaled: after a restart a device has those of its Bind, or of the next
    /// order.
    fn set_tags_by_name(
        &mut self,
        now: Now,
        (product, device): (ProductKey, DeviceId),
        tags: &[Tag],
    ) -> Answer {
        if self.registry.products.number(&product).is_none() {
            return Answer::UnknownProduct;
        }
        if tags.len() > usize::from(self.settings.limits.tags_a_device_max) {
            return Answer::Done(false);
        }
        let Some(key) = self.find_or_insert(now, &product, &device) else {
            return Answer::Done(false);
        };
        self.set_tags(now, key, tags);
        Answer::Done(true)
    }

    fn find_or_insert(&mut self, now: Now, key: &ProductKey, device: &DeviceId) -> Option<Key> {
        let number = self.registry.products.number(key)?;
        self.registry.find_or_insert(now.wall_ms, number, device.as_str())
    }
}

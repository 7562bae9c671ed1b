//! Commands of the API.
//!
//! The roof has already split a command by shard: a device named here has its home here, and a
//! command about all devices goes to every shard, whose answers the roof merges. Commands that must
//! survive a restart (products, blocks, tags) take effect, and are answered, once the log has
//! stored them.

use crate::log::durable::device::Cut;
use crate::log::durable::order::{Change as PushChange, ChangeKind};
use crate::log::durable::product;
use crate::log::pending::{Order, OrderWhat, PendingCall};
use crate::registry::device::{BindState, Device};
use crate::registry::pages::Selection;
use crate::registry::rows::{Change, ROWS_WAITING_MAX};
use crate::session::Farewell;
use crate::{Effects, Hub};
use base::slab::Key;
use base::time::Now;
use model::id::{DeviceId, DeviceUser, ProductKey};
use model::ports::log::{Table, Write};
use model::ports::pushes::{PushAnswer, PushCommand};
use model::product::Product;
use model::request::Refusal;
use model::zone::Zone;
use std::sync::Arc;

/// Most orders in one answer.
const ORDERS_MAX: usize = 1_000;

impl Hub {
    /// Ends the connection of a device, if it has one.
    fn end_device(
        &mut self,
        now: Now,
        reply: u64,
        (product, device): (&ProductKey, &DeviceId),
        farewell: Farewell,
        fx: &mut Effects,
    ) {
        match self.registry.products.number(product) {
            Some(number) => {
                let key = self.registry.find(number, device.as_str());
                self.kick_for_good(now, reply, key, farewell, fx);
            }
            None => fx.answers.push((reply, PushAnswer::UnknownProduct)),
        }
    }

    /// Executes a command of the API. The answer is pushed to `fx.answers` under `reply`, now or
    /// later, exactly once.
    pub fn command(&mut self, now: Now, reply: u64, command: PushCommand, fx: &mut Effects) {
        let answer = match command {
            PushCommand::Push(order) => return self.push(now, reply, order, fx),
            PushCommand::PutProduct(product) => return self.put_product(reply, *product, fx),
            PushCommand::DropProduct(key) => return self.drop_product(reply, key, fx),
            PushCommand::Block { product, device, blocked } => {
                match self.changeable(now, &product, &device) {
                    Ok(key) => return self.order_change(reply, key, Change::Block(blocked), fx),
                    Err(answer) => answer,
                }
            }
            PushCommand::Kick { product, device, addrs } => {
                let why = if addrs.is_empty() { Refusal::AdminKick } else { Refusal::Redirect };
                let name = (&product, &device);
                return self.end_device(now, reply, name, Farewell { why, addrs }, fx);
            }
            PushCommand::EndBanned { product, device } => {
                let name = (&product, &device);
                return self.end_device(now, reply, name, Farewell::of(Refusal::Banned), fx);
            }
            PushCommand::SetTags { product, device, tags } => {
                if tags.len() > usize::from(self.settings.limits.pushes.tags_a_device_max) {
                    let known = self.registry.products.number(&product);
                    known.map_or(PushAnswer::UnknownProduct, |_| PushAnswer::Done(false))
                } else {
                    match self.changeable(now, &product, &device) {
                        Ok(key) => {
                            self.go_ahead(now, key, fx);
                            return self.order_change(reply, key, Change::Tags(tags), fx);
                        }
                        Err(answer) => answer,
                    }
                }
            }
            PushCommand::SetUser { product, device, user } => {
                match self.user_change(now, (&product, &device), user.as_ref()) {
                    Ok(key) => return self.order_change(reply, key, Change::User(user), fx),
                    Err(answer) => answer,
                }
            }
            PushCommand::SetZone { product, device, zone } => {
                return self.order_zone(now, reply, (&product, &device), zone, fx);
            }
            PushCommand::SetPlatform { product, device, token } => {
                match self.changeable(now, &product, &device) {
                    Ok(key) => {
                        let change = Change::Platform(token.map(Arc::new));
                        return self.order_change(reply, key, change, fx);
                    }
                    Err(answer) => answer,
                }
            }
            PushCommand::UserDevices { product, user } => {
                self.registry.states_of_user(now, &product, &user)
            }
            PushCommand::Configure { product } => match self.registry.products.number(&product) {
                Some(number) if self.configure(number) => PushAnswer::Done(true),
                Some(_) => PushAnswer::Busy,
                None => PushAnswer::UnknownProduct,
            },
            PushCommand::Token { product, device, user, until } => {
                self.token((&product, &device), user.as_ref(), until)
            }
            PushCommand::Cancel { id, push, product } => {
                let change = PushChange { kind: ChangeKind::Cancel, push, product };
                return self.change_push(now, (reply, id), change, fx);
            }
            PushCommand::Pause { id, push, product, paused } => {
                let kind = if paused { ChangeKind::Pause } else { ChangeKind::Resume };
                return self.change_push(now, (reply, id), PushChange { kind, push, product }, fx);
            }
            PushCommand::Count { product, target } => {
                return self.count(now, reply, &product, &target, fx);
            }
            PushCommand::PutSegment { product, segment, tags } => {
                return self.order_segment(reply, (product, segment), Some(tags), fx);
            }
            PushCommand::DropSegment { product, segment } => {
                return self.order_segment(reply, (product, segment), None, fx);
            }
            PushCommand::Segments { product, names } => {
                self.known_segments(&product, names.as_deref())
            }
            PushCommand::Outcomes { push, product, after, kind, count } => {
                let of = (push, product.as_ref());
                return self.list_outcomes(reply, of, &after, (kind, count), fx);
            }
            PushCommand::Minutes { push, product } => self.minutes(push, product.as_ref()),
            PushCommand::ReportPush { product, device, token, push, report } => {
                let who = (&product, &device, &*token.0);
                return self.report_push(now, reply, who, (push, report), fx);
            }
            PushCommand::PutSchedule(_)
            | PushCommand::DropSchedule { .. }
            | PushCommand::PauseSchedule { .. } => {
                return self.command_schedule(now, reply, command, fx);
            }
            PushCommand::Schedules { product, schedule } => {
                self.known_schedules(product.as_ref(), schedule.as_ref())
            }
            PushCommand::PushCounts(id) => PushAnswer::Counts(self.jobs.counts(id)),
            PushCommand::Orders { product, before, count } => {
                let count = (count as usize).min(ORDERS_MAX);
                PushAnswer::Orders(self.jobs.list(product.as_ref(), before, count))
            }
            PushCommand::States { product, devices } => {
                self.registry.states(now, &product, &devices)
            }
            PushCommand::List { product, online, tag, after, count } => {
                let selection = Selection { product, online, tag };
                self.registry.list(now, selection, after, count)
            }
            PushCommand::Products => {
                PushAnswer::Products(self.registry.products.all().cloned().collect())
            }
        };
        fx.answers.push((reply, answer));
    }

    /// The bearer token of a device, until a Unix second.
    fn token(
        &self,
        (product, device): (&ProductKey, &DeviceId),
        user: Option<&DeviceUser>,
        until: u64,
    ) -> PushAnswer {
        let known = self.registry.products.number(product);
        let (of, device) = (product.as_str(), device.as_str());
        PushAnswer::Token(known.map(|_| self.access.bearer_token(of, device, user, until)))
    }

    /// Hands the log the time zone of a device.
    fn order_zone(
        &mut self,
        now: Now,
        reply: u64,
        (product, device): (&ProductKey, &DeviceId),
        zone: Option<Zone>,
        fx: &mut Effects,
    ) {
        match self.changeable(now, product, device) {
            Ok(key) => {
                self.go_ahead(now, key, fx);
                self.order_change(reply, key, Change::Zone(zone), fx);
            }
            Err(answer) => fx.answers.push((reply, answer)),
        }
    }

    /// Completes a command after the log's answer: the change was stored or refused.
    pub(crate) fn ordered(&mut self, now: Now, order: Order, is_stored: bool, fx: &mut Effects) {
        let Order { reply, what } = order;
        let answer = match (what, is_stored) {
            (OrderWhat::Put(product), true) => {
                PushAnswer::Done(self.registry.products.put(product).is_some())
            }
            (OrderWhat::Drop(key), true) => {
                let number = self.registry.products.unname(&key);
                number.into_iter().for_each(|number| self.drop_devices(number, fx));
                self.segments.forget(&key, &mut self.log, fx);
                self.schedules.forget(&key, &mut self.log, fx);
                PushAnswer::Done(number.is_some())
            }
            (OrderWhat::Change(key, change), is_stored) => {
                return self.changed(now, reply, (key, change), is_stored, fx);
            }
            (OrderWhat::Segment(name, tags), is_stored) => {
                self.segment_stored(name, tags, is_stored, fx)
            }
            (OrderWhat::Schedule(key, change), is_stored) => {
                self.schedule_stored(now, (key, change), is_stored, fx)
            }
            (OrderWhat::Put(_) | OrderWhat::Drop(_), false) => PushAnswer::StoreFailed,
        };
        fx.answers.push((reply, answer));
    }

    /// Applies the change of a device after the log's answer, or drops it if the log refused. Then
    /// writes the device's rows that were waiting for this answer.
    fn changed(
        &mut self,
        now: Now,
        reply: u64,
        (key, change): (Key, Change),
        is_stored: bool,
        fx: &mut Effects,
    ) {
        self.registry.row_answered(key, is_stored);
        let cut = self.registry.take_cut(key);
        let waiting = self.registry.change_over(key);
        let answer = match is_stored {
            true => PushAnswer::Done(self.change(now, key, (change, cut), fx)),
            false => PushAnswer::StoreFailed,
        };
        fx.answers.push((reply, answer));
        for pending in waiting {
            self.put_waiting_row(key, pending, fx);
        }
        self.registry.release(now, key);
        if self.registry.rows_waiting(key).is_none() && !is_stored {
            self.give_up(key, fx);
        } else if self.registry.at(key).is_some_and(Device::dirty) {
            self.write_row_now(key, fx);
        }
    }

    /// Writes a row that was waiting, or answers `Done(false)` if the device is gone.
    fn put_waiting_row(&mut self, key: Key, pending: PendingCall, fx: &mut Effects) {
        let is_gone = self.registry.at(key).is_none();
        let reply = match &pending {
            PendingCall::Order(order) => order.reply,
            PendingCall::Kicked { reply, .. } => *reply,
            _ => return,
        };
        match is_gone {
            true => fx.answers.push((reply, PushAnswer::Done(false))),
            false => self.put_row(key, pending, fx),
        }
    }

    /// Applies a stored change to a device. False if the device is gone.
    fn change(
        &mut self,
        now: Now,
        key: Key,
        (change, cut): (Change, Option<Cut>),
        fx: &mut Effects,
    ) -> bool {
        match change {
            Change::Block(blocked) => self.set_blocked(now, key, blocked, fx),
            Change::Tags(tags) => {
                let is_known = self.registry.at(key).is_some();
                self.go_ahead(now, key, fx);
                self.registry.set_tags(now, key, &tags);
                is_known
            }
            Change::User(user) => self.give(now, key, (user, cut), fx),
            Change::Zone(zone) => {
                let is_known = self.registry.at(key).is_some();
                self.move_to_zone(now, key, zone, fx);
                is_known
            }
            Change::Platform(token) => self.set_platform(now, key, token, fx),
        }
    }

    fn put_product(&mut self, reply: u64, product: Product, fx: &mut Effects) {
        let product = Arc::new(product);
        let base = self.registry.products.configured(&product.key).unwrap_or(0);
        let (key, value) = (product::key(&product.key), product::encode(&product, base));
        let order = Order { reply, what: OrderWhat::Put(product) };
        let write = Write::Put { table: Table::Products, key, value };
        self.log.write(PendingCall::Order(Box::new(order)), write, fx);
    }

    fn drop_product(&mut self, reply: u64, key: ProductKey, fx: &mut Effects) {
        if self.registry.products.number(&key).is_none() {
            return fx.answers.push((reply, PushAnswer::Done(false)));
        }
        // The row is not deleted: after a restart a dropped product must be told apart from one
        // that is not configured this time.
        let (row, value) = (product::key(&key), product::DROPPED.into());
        let write = Write::Put { table: Table::Products, key: row, value };
        let order = Order { reply, what: OrderWhat::Drop(key) };
        self.log.write(PendingCall::Order(Box::new(order)), write, fx);
    }

    /// The record of a device that is about to be changed; a new one for an unknown device.
    pub(crate) fn changeable(
        &mut self,
        now: Now,
        product: &ProductKey,
        device: &DeviceId,
    ) -> Result<Key, PushAnswer> {
        let number = self.registry.products.number(product).ok_or(PushAnswer::UnknownProduct)?;
        self.find_or_make(now, number, device.as_str()).ok_or(PushAnswer::Done(false))
    }

    /// Hands the log a row with a change, which takes effect when the row is stored.
    fn order_change(&mut self, reply: u64, key: Key, change: Change, fx: &mut Effects) {
        let waiting = self.registry.rows_waiting(key).map_or(0, |waiting| waiting.len());
        if waiting == ROWS_WAITING_MAX {
            return fx.answers.push((reply, PushAnswer::Busy));
        }
        let order = Order { reply, what: OrderWhat::Change(key, change) };
        self.put_row(key, PendingCall::Order(Box::new(order)), fx);
    }

    /// Cleans up after the log refused the change of a device. The row may have been written
    /// nevertheless, so it is written again as it should be; a record that was made for this
    /// command alone is forgotten.
    fn give_up(&mut self, key: Key, fx: &mut Effects) {
        let Some(device) = self.registry.at(key) else { return };
        let has_token = self.registry.platforms.has(key.slot);
        let is_nothing = device.extra.is_none() && !device.blocked() && !has_token;
        match is_nothing && device.presence() == BindState::Never {
            true => self.forget(key, fx),
            false => self.write_row_now(key, fx),
        }
    }

    fn set_blocked(&mut self, now: Now, key: Key, blocked: bool, fx: &mut Effects) -> bool {
        let Some(device) = self.registry.at_mut(key) else { return false };
        device.set_blocked(blocked);
        if blocked {
            self.withdraw(key, None);
            self.kick(now, key, Farewell::of(Refusal::DeviceBlocked), fx);
            // The device's row says that it is blocked, which also bars its last session.
            if self.registry.at_mut(key).is_some_and(Device::bar) {
                self.write_row(key, fx);
            }
        } else {
            self.reach(now, key, fx);
        }
        true
    }

    /// Ends a device's session and forbids resuming it. The command is answered once that is
    /// stored, because it must hold after a restart too.
    fn kick_for_good(
        &mut self,
        now: Now,
        reply: u64,
        key: Option<Key>,
        farewell: Farewell,
        fx: &mut Effects,
    ) {
        let Some(key) = key else {
            return fx.answers.push((reply, PushAnswer::Done(false)));
        };
        let was_online = self.kick(now, key, farewell, fx);
        match self.registry.at_mut(key).is_some_and(Device::bar) {
            true => self.put_row(key, PendingCall::Kicked { reply, key, was_online }, fx),
            false => fx.answers.push((reply, PushAnswer::Done(was_online))),
        }
    }
}

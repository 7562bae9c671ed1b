//! The API's way to the hubs.
//!
//! A command about one device goes to the shard that owns it; a list of devices is split among
//! their owners; what is about all goes to all, and the answers are merged into one. Devices are
//! listed shard after shard.

use super::{Switchboard, merge as merge_answers};
use crate::shard_logic::outside::Outside;
use base::hash;
use hub::{cancel_home, order_home};
use model::audience::{Audience, Unresolved};
use model::calendar::Schedule;
use model::id::{DeviceId, MessageId, ProductKey, ShardId};
use model::ports::control::{Answer, Command, Reply};
use model::ports::log::RowHome;
use model::ports::pushes::{
    DeviceState, OrderState, PushAnswer, PushCommand, PushCounts, PushMinute, PushOrder,
    PushTarget, UserTarget,
};
use model::push::{Outcome, Rejection};
use model::request::owner;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Devices by the shard that owns them.
type Split = BTreeMap<ShardId, Vec<DeviceId>>;

impl<O: Outside + Send> Switchboard<O> {
    pub(super) fn ask_pushes(&self, command: PushCommand, reply: Reply) {
        match command {
            PushCommand::Push(order) => self.push(order, reply),
            PushCommand::List { .. } => self.list(command, Vec::new(), reply),
            PushCommand::States { product, devices } => {
                let split = self.split(&product, devices);
                if split.is_empty() {
                    return reply(PushAnswer::Devices(Vec::new()).into());
                }
                let commands = split.into_iter().map(|(shard, devices)| {
                    (shard, PushCommand::States { product: product.clone(), devices }.into())
                });
                self.gather(commands.collect(), reply);
            }
            PushCommand::Kick { ref product, ref device, .. }
            | PushCommand::EndBanned { ref product, ref device }
            | PushCommand::Block { ref product, ref device, .. }
            | PushCommand::SetTags { ref product, ref device, .. }
            | PushCommand::SetUser { ref product, ref device, .. }
            | PushCommand::SetZone { ref product, ref device, .. }
            | PushCommand::SetPlatform { ref product, ref device, .. }
            | PushCommand::ReportPush { ref product, ref device, .. } => {
                let owner = self.owner(product, device);
                self.gather(vec![(owner, command.into())], reply);
            }
            PushCommand::Products | PushCommand::Token { .. } => {
                self.gather(vec![(ShardId(0), command.into())], reply);
            }
            PushCommand::Cancel { push, .. } | PushCommand::Pause { push, .. } => {
                self.change(command, push, reply);
            }
            PushCommand::PutSegment { .. }
            | PushCommand::DropSegment { .. }
            | PushCommand::DropSchedule { .. }
            | PushCommand::PauseSchedule { .. }
            | PushCommand::Schedules { .. }
            | PushCommand::Segments { .. } => {
                self.gather(vec![(self.of_segments(), command.into())], reply);
            }
            PushCommand::PutSchedule(schedule) => self.put_schedule(*schedule, reply),
            PushCommand::Count { product, target } => self.count(product, target, reply),
            PushCommand::Orders { count, .. } => self.orders(command, count as usize, reply),
            PushCommand::PushCounts(_)
            | PushCommand::Outcomes { .. }
            | PushCommand::Minutes { .. }
            | PushCommand::UserDevices { .. }
            | PushCommand::Configure { .. }
            | PushCommand::PutProduct(_)
            | PushCommand::DropProduct(_) => self.gather_from_all(command.into(), reply),
        }
    }

    fn owner(&self, product: &ProductKey, device: &DeviceId) -> ShardId {
        owner((self.hash_key, self.shards()), product, device)
    }

    fn split(&self, product: &ProductKey, devices: Vec<DeviceId>) -> Split {
        let mut split = Split::new();
        for device in devices {
            split.entry(self.owner(product, &device)).or_default().push(device);
        }
        split
    }

    fn push(&self, order: PushOrder, reply: Reply) {
        let devices = match &order.target {
            PushTarget::Devices(devices) if !(order.is_scheduled() || order.track) => devices,
            PushTarget::User(_) => return self.push_to_user(order, reply),
            PushTarget::Audience(of) if of.unresolved().is_some() => {
                return self.push_to_segments(order, reply);
            }
            _ => return self.push_to_many(order, reply),
        };
        let split = self.split(&order.product, devices.clone());
        if split.is_empty() && order.idempotency_key.is_some() {
            // The key alone is kept, by the shard that its hash chooses.
            let owner = hash::home(order_home(self.hash_key, &order), self.shards());
            let command = PushCommand::Push(order).into();
            return self.gather(vec![(ShardId(owner), command)], reply);
        }
        if split.is_empty() {
            let (outcomes, counts) = (Vec::new(), PushCounts::default());
            return reply(PushAnswer::Pushed { id: order.id, outcomes, counts }.into());
        }
        match order.idempotency_key.is_some() && split.len() > 1 {
            true => self.push_with_key(order, split, reply),
            false => self.gather(parts_of(&order, split), reply),
        }
    }

    /// All shards are asked for the user's devices; then these are pushed to by name, and each of
    /// them judges whether it still belongs to the user.
    fn push_to_user(&self, order: PushOrder, reply: Reply) {
        let PushTarget::User(UserTarget { user, tags, last_active }) = order.target.clone() else {
            return;
        };
        let this = self.clone();
        let (product, of) = (order.product.clone(), user.clone());
        let told = move |answer: Answer| {
            let Answer::Push(PushAnswer::Devices(mut devices)) = answer else {
                return reply(answer);
            };
            let wanted = |device: &DeviceState| {
                tags.as_ref().is_none_or(|tags| tags.holds(&|tag| device.tags.contains(tag)))
            };
            devices.retain(wanted);
            if last_active {
                let last =
                    devices.into_iter().max_by_key(|it| (it.online, it.seen_ms, it.since_ms));
                devices = last.into_iter().collect();
            }
            let devices = devices.into_iter().map(|state| state.device).collect();
            let target = PushTarget::Devices(devices);
            this.push(PushOrder { target, user: Some(user), ..order }, reply);
        };
        let command = PushCommand::UserDevices { product, user: of };
        self.gather_from_all(command.into(), Box::new(told));
    }

    /// The shard that has the saved segments.
    fn of_segments(&self) -> ShardId {
        ShardId(RowHome::PROCESS.of_log(self.shards()))
    }

    /// Hands on a target whose saved segments are put in, or the answer if one is unknown.
    fn resolve(
        &self,
        product: ProductKey,
        target: PushTarget,
        go_on: impl FnOnce(Result<PushTarget, Answer>) + Send + 'static,
    ) {
        let audience = match target {
            PushTarget::Audience(audience) if !audience.segments().is_empty() => audience,
            target => return go_on(Ok(target)),
        };
        let names = audience.segments().into_iter().cloned().collect();
        let resolved = move |answer: Answer| {
            let Answer::Push(PushAnswer::Segments(saved)) = answer else {
                return go_on(Err(answer));
            };
            let saved: BTreeMap<_, _> = saved.into_iter().collect();
            let mut audience = Audience::clone(&audience);
            go_on(match audience.resolve(&|name| saved.get(name).cloned()) {
                Ok(()) => Ok(PushTarget::Audience(Arc::new(audience))),
                Err(Unresolved::Unknown(name)) => Err(PushAnswer::UnknownSegment(name).into()),
                Err(Unresolved::TooLarge(terms)) => Err(PushAnswer::TooManyTerms(terms).into()),
            });
        };
        let command = PushCommand::Segments { product, names: Some(names) }.into();
        self.gather(vec![(self.of_segments(), command)], Box::new(resolved));
    }

    /// The segments of the push are put in first.
    fn put_schedule(&self, schedule: Schedule, reply: Reply) {
        let this = self.clone();
        let (product, target) = (schedule.product().clone(), schedule.push.target.clone());
        let go_on = move |resolved| match resolved {
            Ok(target) => {
                let push = PushOrder { target, ..schedule.push };
                let schedule = Box::new(Schedule { push, ..schedule });
                let command = PushCommand::PutSchedule(schedule).into();
                this.gather(vec![(this.of_segments(), command)], reply);
            }
            Err(answer) => reply(answer),
        };
        self.resolve(product, target, go_on);
    }

    /// Every shard counts its part.
    fn count(&self, product: ProductKey, target: PushTarget, reply: Reply) {
        let (this, of) = (self.clone(), product.clone());
        let go_on = move |resolved| match resolved {
            Ok(target) => {
                let command = PushCommand::Count { product: of, target };
                this.gather_from_all(command.into(), reply);
            }
            Err(answer) => reply(answer),
        };
        self.resolve(product, target, go_on);
    }

    /// The segments are put in first. An order with a key is shown to its owner before: a repeated
    /// one is answered as the first, whatever became of its segments since.
    fn push_to_segments(&self, order: PushOrder, reply: Reply) {
        let is_repeatable = order.idempotency_key.is_some();
        let (this, first) = (self.clone(), order.clone());
        let put_in = move |reply: Reply| {
            let (product, target) = (order.product.clone(), order.target.clone());
            let again = this.clone();
            let go_on = move |resolved| match resolved {
                Ok(target) => again.push_to_many(PushOrder { target, ..order }, reply),
                Err(answer) => reply(answer),
            };
            this.resolve(product, target, go_on);
        };
        if !is_repeatable {
            return put_in(reply);
        }
        let told = move |answer: Answer| match answer {
            Answer::Push(PushAnswer::UnknownSegment(_)) => put_in(reply),
            answer => reply(answer),
        };
        self.push_to_many(first, Box::new(told));
    }

    /// The order's owner takes it, for all; then all are asked how far they are.
    fn push_to_many(&self, order: PushOrder, reply: Reply) {
        let owner = hash::home(order_home(self.hash_key, &order), self.shards());
        let this = self.clone();
        let taken = move |answer: Answer| {
            let Answer::Push(PushAnswer::Pushed { id, outcomes, counts }) = answer else {
                return reply(answer);
            };
            let told = move |answer: Answer| {
                let counts = match answer {
                    Answer::Push(PushAnswer::Counts(Some(counts))) => counts,
                    _ => counts,
                };
                reply(PushAnswer::Pushed { id, outcomes, counts }.into());
            };
            this.ask_pushes(PushCommand::PushCounts(id), Box::new(told));
        };
        let command = PushCommand::Push(order).into();
        self.gather(vec![(ShardId(owner), command)], Box::new(taken));
    }

    /// The change's owner takes it, for all; then all are asked how far the push has come.
    fn change(&self, command: PushCommand, push: MessageId, reply: Reply) {
        let owner = hash::home(cancel_home(self.hash_key, push), self.shards());
        let this = self.clone();
        let told = move |answer: Answer| match answer {
            Answer::Push(PushAnswer::Done(true)) => {
                this.ask_pushes(PushCommand::PushCounts(push), reply);
            }
            Answer::Push(PushAnswer::Done(false)) => reply(PushAnswer::Counts(None).into()),
            answer => reply(answer),
        };
        self.gather(vec![(ShardId(owner), command.into())], Box::new(told));
    }

    /// Every shard has its part of each order; of all that they name the first ones are complete.
    fn orders(&self, command: PushCommand, count: usize, reply: Reply) {
        let cut = move |answer: Answer| match answer {
            Answer::Push(PushAnswer::Orders(mut orders)) => {
                orders.truncate(count);
                reply(PushAnswer::Orders(orders).into());
            }
            answer => reply(answer),
        };
        self.gather_from_all(command.into(), Box::new(cut));
    }

    /// One shard is asked first, and the others under the id it answers: so an order that was cut
    /// off between shards goes on under its first id when it is repeated. Each half may wait half
    /// as long.
    fn push_with_key(&self, order: PushOrder, mut split: Split, reply: Reply) {
        let order = PushOrder { wait_ms: order.wait_ms / 2, ..order };
        let first = split.pop_first().into_iter().collect();
        let (this, commands) = (self.clone(), parts_of(&order, first));
        let rest = move |answer: Answer| {
            let Answer::Push(PushAnswer::Pushed { id, .. }) = answer else { return reply(answer) };
            let commands = parts_of(&PushOrder { id, ..order }, split);
            this.gather(commands, Box::new(move |more| reply(merge_answers(answer, more))));
        };
        self.gather(commands, Box::new(rest));
    }

    /// A page is taken from one shard after the other.
    fn list(&self, list: PushCommand, so_far: Vec<DeviceState>, reply: Reply) {
        let PushCommand::List { product, online, tag, after, count } = list else { return };
        let (shard, inside) = Self::place(after);
        if shard >= self.shards() {
            return reply(PushAnswer::Page { devices: so_far, next: None }.into());
        }
        let again = (product.clone(), tag.clone());
        let command = PushCommand::List { product, online, tag, after: inside, count };
        let this = self.clone();
        let merge = move |answer: Answer| {
            let Answer::Push(PushAnswer::Page { devices, next }) = answer else {
                return reply(answer);
            };
            let left = count.saturating_sub(devices.len() as u32);
            let mut all = so_far;
            all.extend(devices);
            let next = this.cursor(shard, next);
            if left == 0 || next.is_none() {
                return reply(PushAnswer::Page { devices: all, next }.into());
            }
            let (product, tag) = again;
            let rest = PushCommand::List { product, online, tag, after: next, count: left };
            this.list(rest, all, reply);
        };
        self.gather(vec![(ShardId(shard), command.into())], Box::new(merge));
    }
}

/// An order for each shard's part of its devices.
fn parts_of(order: &PushOrder, split: Split) -> Vec<(ShardId, Command)> {
    let part = |devices| PushOrder { target: PushTarget::Devices(devices), ..order.clone() };
    let command = |devices| PushCommand::Push(part(devices)).into();
    split.into_iter().map(|(shard, devices)| (shard, command(devices))).collect()
}

/// Two shards' answers as one.
pub(super) fn merge(one: PushAnswer, other: PushAnswer) -> PushAnswer {
    match (one, other) {
        (
            PushAnswer::Pushed { id, mut outcomes, mut counts },
            PushAnswer::Pushed { id: other, outcomes: more, counts: others },
        ) => {
            outcomes.extend(more);
            counts.add(&others);
            // Where a repeated order was not known it was carried out now, under a new id: the
            // application is told the first one.
            PushAnswer::Pushed { id: id.min(other), outcomes, counts }
        }
        (PushAnswer::Counts(Some(mut counts)), PushAnswer::Counts(Some(others))) => {
            counts.add(&others);
            PushAnswer::Counts(Some(counts))
        }
        (PushAnswer::Counts(one), PushAnswer::Counts(other)) => PushAnswer::Counts(one.or(other)),
        (PushAnswer::Counted(mut counts), PushAnswer::Counted(others)) => {
            counts.add(&others);
            PushAnswer::Counted(counts)
        }
        (PushAnswer::Orders(one), PushAnswer::Orders(other)) => {
            PushAnswer::Orders(merge_orders(one, other))
        }
        (PushAnswer::Devices(mut devices), PushAnswer::Devices(more)) => {
            devices.extend(more);
            PushAnswer::Devices(devices)
        }
        (PushAnswer::Outcomes(one), PushAnswer::Outcomes(other)) => {
            let parts: Vec<_> = one.into_iter().chain(other).flatten().collect();
            PushAnswer::Outcomes((!parts.is_empty()).then_some(parts))
        }
        (PushAnswer::Minutes(Some(one)), PushAnswer::Minutes(Some(other))) => {
            PushAnswer::Minutes(Some(PushMinute::merge(one, other)))
        }
        (PushAnswer::Minutes(one), PushAnswer::Minutes(other)) => {
            PushAnswer::Minutes(one.or(other))
        }
        (PushAnswer::Done(one), PushAnswer::Done(other)) => PushAnswer::Done(one || other),
        // What went wrong somewhere is told, whatever went well elsewhere.
        (
            wrong @ (PushAnswer::UnknownProduct
            | PushAnswer::StoreFailed
            | PushAnswer::Conflict
            | PushAnswer::TooManyScheduled
            | PushAnswer::ListsFull
            | PushAnswer::TimePassed
            | PushAnswer::NotTracked
            | PushAnswer::Busy),
            _,
        ) => wrong,
        (_, other) => other,
    }
}

/// Two shards' parts of the orders that they remember, the highest id first.
fn merge_orders(one: Vec<OrderState>, other: Vec<OrderState>) -> Vec<OrderState> {
    let mut all = BTreeMap::<MessageId, OrderState>::new();
    for order in one.into_iter().chain(other) {
        match all.get_mut(&order.id) {
            Some(known) => {
                known.counts.add(&order.counts);
                known.product = known.product.take().or(order.product);
                known.send_at_ms = [known.send_at_ms, order.send_at_ms].into_iter().flatten().min();
            }
            None => drop(all.insert(order.id, order)),
        }
    }
    all.into_values().rev().collect()
}

/// The answer for a shard whose mailbox was full.
pub(super) fn busy(command: PushCommand) -> PushAnswer {
    match command {
        PushCommand::Push(PushOrder { id, target: PushTarget::Devices(devices), .. }) => {
            let rejected = |device| (device, Outcome::Rejected(Rejection::Busy));
            let outcomes = devices.into_iter().map(rejected).collect();
            PushAnswer::Pushed { id, outcomes, counts: PushCounts::default() }
        }
        _ => PushAnswer::Busy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ports::pushes::AudienceCounts;

    #[test]
    fn a_shard_whose_mailbox_was_full_makes_the_whole_answer_busy() {
        let counts = Some(PushCounts::default());
        let answers = [
            PushAnswer::Devices(Vec::new()),
            PushAnswer::Counted(AudienceCounts::default()),
            PushAnswer::Done(true),
            PushAnswer::Orders(Vec::new()),
            PushAnswer::Counts(counts),
            PushAnswer::Outcomes(Some(Vec::new())),
            PushAnswer::Minutes(None),
        ];
        for answer in answers {
            assert_eq!(merge(PushAnswer::Busy, answer.clone()), PushAnswer::Busy, "{answer:?}");
            assert_eq!(merge(answer.clone(), PushAnswer::Busy), PushAnswer::Busy, "{answer:?}");
        }
        assert_eq!(merge(PushAnswer::Done(false), PushAnswer::Done(true)), PushAnswer::Done(true));
    }
}

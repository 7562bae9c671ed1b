//! A hub with a clock that the test sets, and a log that answers when the test says.

use crate::log::{Did, Log};
use base::hash::HashKey;
use base::secret::ClusterSecret;
use base::slab::Key;
use base::time::{Instant, Now};
use hub::{Effects, Hub, Settings};
use model::counters::Counter;
use model::id::{ConnRef, DeviceId, DeviceRef, MessageId, NodeId, ProductKey, ShardId, Tag};
use model::limits::{Limits, PushLimits};
use model::ports::events::{DeviceEvent, DeviceWhat};
use model::ports::log::{Call, StoreError, Write};
use model::ports::pushes::{
    DeviceState, PushAnswer, PushCommand, PushCounts, PushOrder, PushTarget,
};
use model::presence::Principal;
use model::product::{AnonymousFrom, Product, Secret};
use model::push::Outcome;
use model::request::{Bind, Bound, HeartbeatWish, Proof, PushDelivery, PushRequest};
use model::service::Service;
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::transitions::Roll;

/// Time of the wall clock at the beginning, Unix milliseconds.
pub const WALL_MS: u64 = 1_800_000_000_000;

/// A secret of the product.
pub const SECRET: &[u8] = b"0123456789abcdef";

pub struct HubHarness {
    pub hub: Hub,
    pub fx: Effects,
    pub now: Now,
    /// The log completes calls at once.
    pub keeps: bool,
    pub log: Log,
    /// Presence of all devices, as reported by transitions; it lasts over restarts.
    pub roll: Roll,
    /// The devices of connections whose sockets write everything; `None`: no socket writes
    /// anything.
    pub written: Option<BTreeMap<ConnRef, DeviceRef>>,
    is_old: bool,
    settings: Settings,
    product: Arc<Product>,
    conns: u32,
    ids: u64,
    real: u64,
    replies: u64,
}

/// A bound device.
#[derive(Clone, Debug)]
pub struct Seat {
    pub conn: ConnRef,
    pub device: DeviceRef,
    pub bound: Bound,
}

pub fn limits() -> Limits {
    let pushes = PushLimits { fan_out_slice: 64, ..PushLimits::default() };
    Limits { pushes, retry_jitter_ms: 1_000, ..Limits::default() }
}

/// The tests' limits, with those of pushes edited.
pub fn limited(edit: impl FnOnce(&mut PushLimits)) -> Arc<Limits> {
    let mut limits = limits();
    edit(&mut limits.pushes);
    Arc::new(limits)
}

pub fn product() -> Product {
    let mut product = Product::new(ProductKey::parse("p").expect("a name"), 7);
    product.proofs.anonymous = AnonymousFrom::Everywhere;
    product.secrets = vec![Secret { key_id: 1, bytes: SECRET.into() }];
    product
}

pub fn settings() -> Settings {
    Settings {
        shard: ShardId(0),
        shards: 1,
        limits: Arc::new(limits()),
        devices_max: 100_000,
        offline_bytes_max: 1 << 30,
        binds_per_s: 1_000_000,
        secret: ClusterSecret::new([6; 32]),
        node_secret: [7; 32],
        hash_key: HashKey::new(11, 12),
        home: HashKey::new(21, 22),
        report_hooks: Vec::new(),
        platforms: [].into(),
        seed: 13,
    }
}

pub fn id(text: &str) -> DeviceId {
    DeviceId::parse(text).expect("a name")
}

pub fn tag(text: &str) -> Tag {
    Tag::parse(text).expect("a name")
}

pub fn order(id: MessageId, target: PushTarget) -> PushOrder {
    let product = ProductKey::parse("p").expect("a name");
    PushOrder {
        time_to_live_s: 3_600,
        wait_ms: 1_000,
        ..PushOrder::new(id, product, target, Box::from(*b"hello"))
    }
}

impl HubHarness {
    pub fn new() -> HubHarness {
        HubHarness::with(product(), settings())
    }

    pub fn with(product: Product, settings: Settings) -> HubHarness {
        let hub = Hub::new(settings.clone());
        let fx = Effects { events_wanted: true, ..Effects::default() };
        let now = Now::new(Instant::from_nanos(1_000_000_000), WALL_MS);
        let (log, product) = (Log::default(), Arc::new(product));
        let (conns, ids, real, replies) = (0, 0, 0, 0);
        let (keeps, roll, is_old) = (true, Roll::default(), false);
        let mut world = HubHarness {
            hub,
            fx,
            now,
            keeps,
            log,
            roll,
            written: Some(BTreeMap::new()),
            is_old,
            settings,
            product,
            conns,
            ids,
            real,
            replies,
        };
        world.restart();
        world.is_old = false;
        world
    }

    /// Kills the process, with all calls that the log has not completed, and starts it again.
    pub fn restart(&mut self) {
        self.crash();
        self.hub.restored(self.now, &mut self.fx);
        self.complete(Ok(()));
    }

    /// Kills the process and starts it again, up to the end of the restore; returns how many rows
    /// and entries were not restored.
    pub fn crash(&mut self) -> usize {
        self.call_roll();
        self.roll.die();
        self.is_old = true;
        self.hub = Hub::new(self.settings.clone());
        self.fx = Effects { events_wanted: true, ..Effects::default() };
        assert!(self.hub.install(self.product.clone()));
        let (hub, now, mut left) = (&mut self.hub, self.now, 0);
        self.log.restore(|restored| left += usize::from(!hub.restore(now, restored)));
        left
    }

    /// Changes the settings or the product, from the next start on.
    pub fn change(&mut self, change: impl FnOnce(&mut Settings, &mut Product)) {
        change(&mut self.settings, Arc::make_mut(&mut self.product));
    }

    /// Advances the clock, and lets the hub do everything that falls due.
    pub fn pass_ms(&mut self, ms: u64) {
        let nanos = self.now.mono.nanos() + ms * 1_000_000;
        self.now = Now::new(Instant::from_nanos(nanos), self.now.wall_ms + ms);
        self.turn();
    }

    /// Turns until nothing is due.
    pub fn turn(&mut self) {
        for _ in 0..100_000 {
            let next = self.hub.turn(self.now, &mut self.fx);
            self.write();
            self.store();
            if next.is_none_or(|next| next > self.now.mono) {
                return;
            }
        }
        panic!("the hub does not come to rest");
    }

    /// Takes in the reported transitions. The hub's state of each device must be the last of them.
    pub fn call_roll(&mut self) {
        self.roll.take(self.fx.transitions.drain(..));
        for told in self.roll.all() {
            assert!(matches!(told.who, Principal::Device(..)), "{told:?}");
            // The device was forgotten, or its product was dropped.
            let Some(found) = self.hub.find(self.now, &told.who) else { continue };
            assert!(found.since_ms <= found.seen_ms && found.seen_ms <= self.now.wall_ms);
            // The version and the close reason are not stored, so they are unknown after a restart.
            let is_restored = self.is_old && !told.state.is_online();
            match is_restored {
                true => assert!(!found.state.is_online(), "{found:?} {told:?}"),
                false => assert_eq!((found.version, found.state), (told.version, told.state)),
            }
        }
        assert_eq!(self.roll.online(), self.hub.status().online);
    }

    /// Completes the log calls, if the log keeps.
    pub fn store(&mut self) {
        self.call_roll();
        while self.keeps && !self.fx.calls.is_empty() {
            self.complete(Ok(()));
        }
    }

    /// Completes all open log calls with this result; returns what the calls did to pushes, or
    /// would have done.
    pub fn complete(&mut self, result: Result<(), StoreError>) -> Vec<Did> {
        self.complete_as(|_| result)
    }

    /// Completes all open log calls, each with its own result.
    pub fn complete_as(&mut self, answer: impl Fn(&Call) -> Result<(), StoreError>) -> Vec<Did> {
        let mut did = Vec::new();
        for (ticket, call) in std::mem::take(&mut self.fx.calls) {
            if !self.log.hears() {
                continue;
            }
            did.extend(self.log.does(&call));
            let done = answer(&call).and_then(|()| self.log.answer(&call));
            self.hub.complete(self.now, (ticket, done), &mut self.fx);
        }
        did
    }

    /// Completes log calls until the hub makes no more.
    pub fn settle(&mut self) {
        while !self.fx.calls.is_empty() {
            self.complete(Ok(()));
        }
    }

    /// Number of pushes that wait for the log; one for several devices counts several times.
    pub fn asked(&self) -> usize {
        let of = |call: &Call| match call {
            Call::Write(Write::Append(append)) => append.to.len(),
            _ => 0,
        };
        self.fx.calls.iter().map(|(_, call)| of(call)).sum()
    }

    pub fn conn(&mut self) -> ConnRef {
        self.conns += 1;
        ConnRef::new(ShardId(3), Key { slot: self.conns, generation: 1 })
    }

    pub fn message_id(&mut self) -> MessageId {
        self.ids += 1;
        MessageId(self.ids)
    }

    /// A new id that contains the current time, like ids of orders from outside.
    pub fn real_id(&mut self) -> MessageId {
        self.real = MessageId::after(self.real, self.now.wall_ms, NodeId::ALONE).0;
        MessageId(self.real)
    }

    pub fn ask(&mut self, from: ConnRef, request: PushRequest) {
        self.hub.request(self.now, from, request, &mut self.fx);
        self.store();
    }

    /// Reports sockets as written, unless `written` is `None`.
    pub fn write(&mut self) {
        let Some(device_of) = &self.written else { return };
        loop {
            let asks = |(_, delivery): &(ConnRef, PushDelivery)| {
                matches!(delivery, PushDelivery::TellWritten { .. })
            };
            let Some(at) = self.fx.deliveries.iter().position(asks) else { return };
            let (conn, _) = self.fx.deliveries.remove(at);
            let Some(device) = device_of.get(&conn).copied() else { continue };
            self.hub.request(self.now, conn, PushRequest::Written { device }, &mut self.fx);
        }
    }

    /// Sends a command to the hub without waiting for the answer.
    pub fn tell(&mut self, command: PushCommand) -> u64 {
        self.replies += 1;
        self.hub.command(self.now, self.replies, command, &mut self.fx);
        self.store();
        self.replies
    }

    /// The answer to a command, if it has arrived.
    pub fn answer(&mut self, reply: u64) -> Option<PushAnswer> {
        let at = self.fx.answers.iter().position(|(to, _)| *to == reply)?;
        Some(self.fx.answers.remove(at).1)
    }

    /// Sends a command and returns its answer, which must come at once.
    pub fn command(&mut self, command: PushCommand) -> PushAnswer {
        let reply = self.tell(command);
        self.answer(reply).expect("an answer at once")
    }

    /// A Bind without proof.
    pub fn bind(name: &str) -> Bind {
        Bind {
            term: 0,
            product: ProductKey::parse("p").expect("a name"),
            device: id(name),
            proof: Proof::None,
            protocol: "miop7",
            peer: Some("192.0.2.7:4711".parse().expect("an address")),
            from_loopback: true,
            crowded: false,
            heartbeat: HeartbeatWish::default(),
            inflight_max: 0,
            last_id: None,
            resume: None,
            pulls: false,
            tags: None,
        }
    }

    /// Sends a Bind; returns the hub's first delivery to that connection.
    pub fn try_bind(&mut self, from: ConnRef, bind: Bind) -> PushDelivery {
        let before = self.fx.deliveries.len();
        self.ask(from, PushRequest::Bind(Box::new(bind)));
        let mine = |(conn, delivery): &(ConnRef, PushDelivery)| {
            *conn == from && !matches!(delivery, PushDelivery::Push { .. })
        };
        let at = self.fx.deliveries[before..].iter().position(mine).expect("an answer");
        let answer = self.fx.deliveries.remove(before + at).1;
        if let (PushDelivery::Bound(bound), Some(written)) = (&answer, &mut self.written) {
            written.insert(from, bound.device);
        }
        answer
    }

    /// Binds a device over a connection of its own.
    pub fn seat_with(&mut self, bind: Bind) -> Seat {
        let conn = self.conn();
        match self.try_bind(conn, bind) {
            PushDelivery::Bound(bound) => Seat { conn, device: bound.device, bound: *bound },
            other => panic!("not bound: {other:?}"),
        }
    }

    pub fn seat(&mut self, name: &str) -> Seat {
        self.seat_with(HubHarness::bind(name))
    }

    pub fn close(&mut self, seat: &Seat) {
        let reason = model::close::CloseReason::PeerClosed;
        self.ask(seat.conn, PushRequest::Closed { device: seat.device, reason });
    }

    pub fn ack(&mut self, seat: &Seat, ids: &[MessageId]) {
        self.ask(
            seat.conn,
            PushRequest::Ack { device: seat.device, upto: None, ids: ids.to_vec() },
        );
    }

    /// Deliveries since the last look.
    pub fn deliveries(&mut self) -> Vec<(ConnRef, PushDelivery)> {
        std::mem::take(&mut self.fx.deliveries)
    }

    /// Pushes delivered since the last look: id, and whether it was a resend.
    pub fn pushes(&mut self) -> Vec<(MessageId, bool)> {
        let deliveries = self.deliveries().into_iter();
        let pushes = deliveries.filter_map(|(_, delivery)| match delivery {
            PushDelivery::Push { push, again, .. } => Some((push.id, again)),
            _ => None,
        });
        pushes.collect()
    }

    /// Events since the last look.
    pub fn events(&mut self) -> Vec<DeviceEvent> {
        std::mem::take(&mut self.fx.events)
    }

    /// Publications of pushes on topics since the last look: topic and body.
    pub fn mirrors(&mut self) -> Vec<(String, Vec<u8>)> {
        let messages = self.fx.publications.drain(..);
        messages.map(|message| (message.topic().to_owned(), message.payload().to_vec())).collect()
    }

    /// Receipts since the last look; other events are dropped.
    pub fn receipts(&mut self) -> Vec<(MessageId, Outcome)> {
        let events = self.events().into_iter();
        let receipts = events.filter_map(|event| match event.what {
            DeviceWhat::Pushed { id, outcome } => Some((id, outcome)),
            _ => None,
        });
        receipts.collect()
    }

    /// Orders a push to one device; returns its id and the number of the command.
    pub fn push(&mut self, name: &str, change: impl FnOnce(&mut PushOrder)) -> (MessageId, u64) {
        self.push_to(PushTarget::Devices(vec![id(name)]), change)
    }

    pub fn push_to(
        &mut self,
        target: PushTarget,
        change: impl FnOnce(&mut PushOrder),
    ) -> (MessageId, u64) {
        let message = self.message_id();
        let mut order = order(message, target);
        change(&mut order);
        (message, self.tell(PushCommand::Push(order)))
    }

    /// Orders a push for one device, whatever its outcome.
    pub fn give(&mut self, name: &str) -> MessageId {
        self.push(name, |order| order.wait_ms = 0).0
    }

    /// The outcomes in the answer to a push for a list, if the answer has arrived.
    pub fn outcomes(&mut self, reply: u64) -> Option<Vec<(DeviceId, Outcome)>> {
        match self.answer(reply)? {
            PushAnswer::Pushed { outcomes, .. } => Some(outcomes),
            other => panic!("not pushed: {other:?}"),
        }
    }

    /// The one outcome in the answer to a push for one device, if the answer has arrived.
    pub fn outcome(&mut self, reply: u64) -> Option<Outcome> {
        self.outcomes(reply).map(|outcomes| outcomes[0].1)
    }

    pub fn counts(&mut self, id: MessageId) -> PushCounts {
        match self.command(PushCommand::PushCounts(id)) {
            PushAnswer::Counts(counts) => counts.expect("a job that is remembered"),
            other => panic!("no counts: {other:?}"),
        }
    }

    pub fn state(&mut self, name: &str) -> Option<DeviceState> {
        let product = ProductKey::parse("p").expect("a name");
        match self.command(PushCommand::States { product, devices: vec![id(name)] }) {
            PushAnswer::Devices(mut states) => states.pop(),
            other => panic!("no states: {other:?}"),
        }
    }

    pub fn count(&self, counter: impl Into<Counter>) -> u64 {
        self.fx.counters.of(counter)
    }
}

//! Push notifications for offline devices: registrations, carriers, and checks that everything owed
//! was announced.

use super::knowledge::mentions_in;
use super::{Device, World, person};
use base::prng::Prng;
use chat::{PushDetail, PushPolicy, QuietPush};
use model::account::AccountAddress;
use model::chat::{
    ChatDelivery, ChatFault, ChatMessage, ChatRequest, Content, ConversationChange, InboxChange,
    Loudness, Notification, NotifiedMessage, PushRoute, PushService, PushStatus, PushWish,
    QuietHours,
};
use model::ports::notifications::{
    NotificationOrder, NotificationTargets, NotificationWhat, Notified,
};
use model::ports::requests::PortReply;
use model::service::Service;
use model::timeline::Seq;
use std::collections::{BTreeMap, BTreeSet, HashSet};

pub const POLICY: PushPolicy = PushPolicy {
    gateway: true,
    detail: PushDetail::Full,
    services: PushDetail::Nothing,
    muted: QuietPush::Low,
    quiet: QuietPush::Low,
};

/// The carriers of notifications.
#[derive(Default)]
pub struct Carrier {
    /// Orders that were accepted, in that order.
    pub told: Vec<NotificationOrder>,
    /// The gateway does not answer.
    pub is_down: bool,
    /// The gateway accepts orders and answers later: shards, numbers and answers.
    pub is_slow: bool,
    pub unanswered: Vec<(usize, u64, Notified)>,
    /// Tokens that the gateway reports as gone.
    pub gone: BTreeSet<Box<str>>,
    /// Answers of external services that do not accept notifications.
    pub services: BTreeMap<Box<str>, Notified>,
    /// Number of orders for each external service.
    pub asked: BTreeMap<Box<str>, usize>,
    /// Number of orders that were put off, and of those whose answer was lost in a crash.
    pub put_off: usize,
    pub lost: usize,
    away: BTreeSet<usize>,
}

impl Carrier {
    pub fn is_rarely_here(&self, at: usize) -> bool {
        self.away.contains(&at)
    }

    pub fn dies(&mut self) {
        self.lost += 1;
    }

    /// Notifications since the last call.
    pub fn take(&mut self) -> Vec<Notification> {
        let of = |order: NotificationOrder| match order.what {
            NotificationWhat::Notification(it) => Some(it),
            NotificationWhat::Code(_) | NotificationWhat::Push(..) => None,
        };
        self.told.drain(..).filter_map(of).collect()
    }

    fn carry(&mut self, rng: &mut Prng, is_calm: bool, order: &NotificationOrder) -> Notified {
        let is_gateway = matches!(order.targets, NotificationTargets::Gateway { .. });
        if self.is_down && is_gateway || !is_calm && rng.one_in(3) {
            self.put_off += 1;
            return Notified::Later { rest_ms: rng.below(3_000) as u32 };
        }
        if let NotificationTargets::Service(service) = &order.targets {
            *self.asked.entry(service.address.clone()).or_default() += 1;
            if let Some(what) = self.services.get(&service.address) {
                return what.clone();
            }
        }
        self.told.push(order.clone());
        let NotificationTargets::Gateway { tokens, .. } = &order.targets else {
            return Notified::Taken { gone: vec![] };
        };
        let gone = tokens.iter().filter(|token| self.gone.contains(*token)).cloned().collect();
        Notified::Taken { gone }
    }
}

impl World {
    /// Lets the carriers handle waiting notifications, unless that takes a while.
    pub(super) fn carries(&mut self) {
        for shard in 0..self.shards.len() {
            while let Some((number, order)) = self.shards[shard].notifications.pop_front() {
                let what = self.carrier.carry(&mut self.rng, self.calm, &order);
                if self.carrier.is_slow {
                    self.carrier.unanswered.push((shard, number, what));
                } else if self.calm || !self.rng.one_in(6) {
                    let one = &mut self.shards[shard];
                    let reply = PortReply::Notify(what);
                    Service::port_reply(&mut one.chat, self.now, number, reply, &mut one.fx);
                    self.collect(shard);
                } else {
                    self.shards[shard].notifications.push_back((number, order));
                    break;
                }
            }
        }
    }

    /// Lets a slow gateway answer.
    pub fn gateway_answers(&mut self) {
        self.carrier.is_slow = false;
        for (shard, number, what) in std::mem::take(&mut self.carrier.unanswered) {
            let one = &mut self.shards[shard];
            let reply = PortReply::Notify(what);
            Service::port_reply(&mut one.chat, self.now, number, reply, &mut one.fx);
            self.collect(shard);
        }
    }

    /// Makes a device's request about push registrations.
    pub fn wishes(&mut self, at: usize, wish: PushWish) -> Result<ChatDelivery, ChatFault> {
        let session = self.devices[at].session.expect("it is here");
        let number = self.devices[at].number();
        self.ask(at, ChatRequest::Push { session, number, wish: Box::new(wish) });
        self.rest();
        if let Some(why) = self.devices[at].failed.take() {
            return Err(why);
        }
        Ok(self.devices[at].push_answers.pop().expect("it was answered"))
    }

    /// Registers a device by a token.
    pub fn registers(&mut self, at: usize, token: &str) -> Result<(), ChatFault> {
        let route = PushRoute::gateway("app", token).expect("allowed");
        self.wishes(at, PushWish::Register { name: None, route, code: None, shared: false })
            .map(drop)
    }

    /// Registers a device with an external service.
    pub fn registers_at(&mut self, at: usize, service: &str, node: &str) -> Result<(), ChatFault> {
        let options = vec![("secret".into(), "s".into())];
        let service = Box::new(PushService::new(service, node, options).expect("allowed"));
        let (name, route) = (Some(service.name()), PushRoute::Service(service));
        self.wishes(at, PushWish::Register { name, route, code: None, shared: false }).map(drop)
    }

    pub fn push_status(&mut self, at: usize) -> PushStatus {
        match self.wishes(at, PushWish::Show).expect("it may ask") {
            ChatDelivery::PushStatus(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    pub fn is_quiet(&mut self, at: usize, from_min: u16, to_min: u16) {
        let hours = QuietHours::of(from_min, to_min, 0).expect("hours");
        self.wishes(at, PushWish::Quiet(Some(hours))).expect("it may");
    }

    /// Lets a device acknowledge all that it has.
    pub fn acknowledges_all(&mut self, at: usize) {
        let request = self.devices[at].acknowledges().expect("it is here");
        self.ask(at, request);
        self.rest();
    }

    pub fn leaves(&mut self, at: usize) {
        self.disconnect(at);
        self.rest();
    }

    /// Lets time pass while everything is at rest.
    pub fn passes(&mut self, ms: u64) {
        for _ in 0..20 {
            self.pass_ms(ms / 20);
            self.rest();
        }
    }

    /// Registers a device of the first person by each way; the person is rarely connected from now
    /// on.
    pub fn is_rarely_here(&mut self) {
        self.calm = true; // or its login might be refused
        self.connect(0);
        self.rest();
        self.registers(0, "token").expect("registered");
        let route = PushRoute::miop("shop", "phone").expect("allowed");
        let name: Option<Box<str>> = Some("other".into());
        let wish = |code| PushWish::Register {
            name: name.clone(),
            route: route.clone(),
            code,
            shared: false,
        };
        self.carrier.told.clear();
        let asked = self.wishes(0, wish(None)).expect("a code is pushed");
        assert!(matches!(asked, ChatDelivery::PushCode { .. }), "{asked:?}");
        let code = self.carrier.told.pop().map(|order| order.what);
        let Some(NotificationWhat::Code(code)) = code else { panic!("{code:?}") };
        self.wishes(0, wish(Some(code))).expect("registered");
        self.leaves(0);
        self.carrier.away = [0, 1].into();
        self.calm = false;
    }

    /// Registers the first person with an external service, too.
    pub fn has_a_service(&mut self) {
        self.calm = true;
        self.connect(0);
        self.rest();
        self.registers_at(0, "push.example", "n").expect("registered");
        self.leaves(0);
        self.calm = false;
    }

    /// Disconnects the first person's devices, and lets all owed notifications be sent. Returns the
    /// offset up to which one of the devices has ever had the whole inbox.
    pub fn tells_all(&mut self) -> Seq {
        self.calm = true;
        for at in 0..2 {
            if self.devices[at].conn.is_some() {
                self.disconnect(at);
            }
        }
        // These are more rounds than needed with a few conversations each, and a gateway that fails
        // now and then.
        for _ in 0..300 {
            self.round();
            self.pass_ms(3_000);
        }
        let had = |device: &Device| device.place.max(device.acknowledged);
        self.devices[..2].iter().map(had).max().unwrap_or(0)
    }

    /// Checks that unread messages that count were announced by both ways, unless a device had
    /// them. Returns the number of messages.
    pub fn check_told(&mut self, had: Seq, told: &[NotificationOrder]) -> usize {
        let whole = super::whole(&self.devices[..2].iter().collect::<Vec<&Device>>());
        let mut cursors: Vec<(AccountAddress, Seq)> =
            self.devices[..2].iter().flat_map(|device| device.cursors.clone()).collect();
        // A device that disconnected before the answer has moved its account's read position all
        // the same.
        let mut muted = HashSet::new();
        for event in self.devices[..2].iter().flat_map(|device| device.events.values()) {
            match &event.what {
                InboxChange::Read(upto) => cursors.push((event.with.clone(), *upto)),
                InboxChange::Set(ConversationChange::Mute(mute)) if mute.is_on() => {
                    muted.insert(event.with.clone());
                }
                _ => {}
            }
        }
        let mentions = |it: &ChatMessage| mentions_in([it].into_iter(), &person(0)) > 0;
        // In a muted conversation only mentions are announced.
        muted.retain(|of| whole.values().any(|it| with_of(it) == of && mentions(it)));
        let mut looked = 0;
        for (place, message) in &whole {
            let with = with_of(message);
            let is_read = cursors.iter().any(|(of, upto)| of == with && *upto >= message.seq);
            let counts = message.content.counts && message.content.kind != Content::RECALLED;
            // A device that reacts to a message has it, acknowledged or not.
            let reactions = message.amended.iter().flat_map(|it| &it.reactions);
            let has_it = *place <= had || reactions.into_iter().any(|it| it.by == person(0));
            let is_beside = muted.contains(with) && !mentions(message);
            if !counts || message.from == person(0) || is_read || has_it || is_beside {
                continue;
            }
            let is_of_service = |order: &NotificationOrder| {
                matches!(order.targets, NotificationTargets::Service(_))
            };
            assert!(told.iter().any(is_of_service), "no service was told of {message:?}");
            for is_gateway in [true, false] {
                let is_of_way = |order: &&NotificationOrder| {
                    matches!(order.targets, NotificationTargets::Gateway { .. }) == is_gateway
                };
                let covers = |said: &NotifiedMessage| {
                    said.conversation.as_ref() == Some(with) && said.seq >= message.seq
                };
                let all = told.iter().filter(is_of_way).filter_map(notified);
                let has = all.filter_map(|it| it.said.as_ref()).any(covers);
                assert!(has, "by the gateway: {is_gateway}: not told of {place}: {message:?}");
            }
            looked += 1;
        }
        looked
    }
}

/// The conversation of a message, for one of its receivers.
fn with_of(message: &ChatMessage) -> &AccountAddress {
    if message.to.is_group() { &message.to } else { &message.from }
}

pub fn notified(order: &NotificationOrder) -> Option<&Notification> {
    match &order.what {
        NotificationWhat::Notification(it) => Some(it),
        NotificationWhat::Code(_) | NotificationWhat::Push(..) => None,
    }
}

/// Loudness, unread count, number of announced messages, and text.
pub fn summary(it: &Notification) -> (Loudness, u32, u32, String) {
    let said = it.said.as_ref();
    let text = said.and_then(|said| said.text.as_deref()).unwrap_or_default();
    (it.loudness, it.badge, said.map_or(0, |said| said.count), text.into())
}

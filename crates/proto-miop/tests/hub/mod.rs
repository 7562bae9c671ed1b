//! A hub of a hundred lines, for conversations: one product, one secret, one queue.

use model::id::{DeviceRef, MessageId, ProductKey, ShardId};
use model::link::{Link, Protocol};
use model::machine::Machine;
use model::ports::virtual_client::Observation;
use model::push::{Priority, Push};
use model::request::{Bind, Bound, Proof, PushDelivery, PushRequest, Refusal, Refused};
use proto_miop::client::{Client, Profile, Prove};
use proto_miop::codec::Version;
use proto_miop::server::Server;
use proto_miop::sign;
use std::sync::Arc;
use testkit::pair::{Pair, PairSide, WALL_MS};

/// The product's secret.
pub const SECRET: &[u8] = b"sixteen byte key";

/// Token with which a device resumes its session.
pub const TOKEN: [u8; 32] = [5; 32];

/// A server machine and a device, joined.
pub type Conversation = Pair<Client, Server>;

/// State of the hub.
#[derive(Default)]
pub struct Hub {
    /// Demand a challenge of signed Binds.
    pub challenge: bool,
    /// Refuse Binds for this.
    pub refuse: Option<Refusal>,
    /// Pushes that are not acknowledged, in order.
    pub waiting: Vec<Arc<Push>>,
    /// Ids that were, in order.
    pub acked: Vec<u64>,
    /// Bodies of Reports.
    pub reports: Vec<Vec<u8>>,
    /// Binds taken, as they came.
    pub binds: Vec<Bind>,
    /// Epoch of the last session.
    pub epoch: u64,
    /// Ends that were told.
    pub closed: u32,
}

/// The device's record; the hub has one.
pub fn device() -> DeviceRef {
    DeviceRef::new(ShardId(1), base::slab::Key { slot: 2, generation: 3 })
}

/// A push that may wait.
pub fn push(id: u64, body: &[u8]) -> Arc<Push> {
    Arc::new(Push {
        id: MessageId(id),
        product: ProductKey::parse("1").expect("a name"),
        app_id: 1,
        body: body.into(),
        collapse: None,
        expire_at: u32::MAX,
        priority: Priority::Normal,
        silent: false,
        notifies: false,
    })
}

impl Hub {
    /// The hub's answer to a request.
    pub fn answer(&mut self, request: PushRequest) -> Vec<PushDelivery> {
        match request {
            PushRequest::Bind(bind) => self.bind(*bind),
            PushRequest::Unbind { term, .. } => vec![PushDelivery::Unbound { term }],
            PushRequest::Ack { upto, ids, .. } => {
                self.acknowledge(upto, &ids);
                Vec::new()
            }
            PushRequest::Pull { term, after, count, .. } => {
                let wanted = self.waiting.iter().filter(|push| push.id > after);
                let wanted: Vec<_> = wanted.take(usize::from(count)).cloned().collect();
                let remaining = (self.waiting.len() - wanted.len()) as u32;
                let push = |push| PushDelivery::Push { term, push, again: false };
                let mut answers: Vec<_> = wanted.into_iter().map(push).collect();
                answers.push(PushDelivery::Pulled { term, remaining });
                answers
            }
            PushRequest::Report { term, seq, body, .. } => {
                if body.starts_with(b"no") {
                    return vec![PushDelivery::ReportRefused { term, seq, why: Refusal::Quota }];
                }
                self.reports.push(body.into());
                vec![PushDelivery::ReportTaken { term, seq }]
            }
            PushRequest::Closed { .. } => {
                self.closed += 1;
                Vec::new()
            }
            PushRequest::Unsendable { .. } | PushRequest::Written { .. } => Vec::new(),
        }
    }

    fn acknowledge(&mut self, upto: Option<MessageId>, ids: &[MessageId]) {
        let has = |push: &Arc<Push>| Some(push.id) <= upto || ids.contains(&push.id);
        self.acked.extend(self.waiting.extract_if(.., |push| has(push)).map(|push| push.id.0));
    }

    fn bind(&mut self, bind: Bind) -> Vec<PushDelivery> {
        let term = bind.term;
        self.binds.push(bind.clone());
        let proven = match &bind.proof {
            Proof::None | Proof::Certificate(_) | Proof::Token(_) => true,
            Proof::Hmac { signed, mac, challenged, .. } => {
                if self.challenge && !challenged {
                    return vec![PushDelivery::Challenge { term, nonce: [9; 16] }];
                }
                sign::mac(SECRET, signed) == *mac
            }
            Proof::Classic { signed, sign, .. } => sign::classic_mac(SECRET, signed) == *sign,
        };
        let refuse = if proven { self.refuse } else { Some(Refusal::AuthFailed) };
        if let Some(why) = refuse {
            let (addrs, who) = (Vec::new(), None);
            let refused = Refused { term, why, retry_after_ms: 250, addrs, who };
            return vec![PushDelivery::Refused(Box::new(refused))];
        }
        self.epoch += 1;
        if let Some(id) = bind.last_id {
            self.acknowledge(Some(id), &[]);
        }
        let resumed = bind.resume.as_ref().is_some_and(|r| r.token == TOKEN);
        let mut answers = vec![PushDelivery::Bound(Box::new(Bound {
            term,
            device: device(),
            epoch: self.epoch,
            resumed,
            token: TOKEN,
            heartbeat_s: if bind.heartbeat.want_s == 0 { 300 } else { bind.heartbeat.want_s },
            inflight_max: 32,
            ack_ms: 10_000,
            offline_count: self.waiting.len() as u32,
            server_ms: WALL_MS,
            frame_bytes_max: 65_536,
            app_id: 1,
        }))];
        if !bind.pulls {
            let push =
                |push: &Arc<Push>| PushDelivery::Push { term, push: push.clone(), again: resumed };
            answers.extend(self.waiting.iter().map(push));
        }
        answers
    }
}

/// A profile of signed devices `dev-N` of product 1.
pub fn profile(version: Version) -> Profile {
    let product = ProductKey::parse("1").expect("a name");
    let mut profile = Profile::new(version, product, "dev");
    profile.prove = Prove::Secret { key_id: 1, bytes: SECRET.into() };
    profile
}

/// A device of `profile` and a server, not yet opened.
pub fn conversation(profile: Profile, seed: u64) -> Conversation {
    let client = Client::new(Arc::new(profile), 7);
    let link = Link::loopback(Protocol::Miop);
    Pair::new(PairSide::new(client, link.clone()), PairSide::new(Server::new(10_000), link), seed)
}

/// Moves bytes and words until there are none.
pub fn talk(pair: &mut Conversation, hub: &mut Hub) {
    loop {
        pair.settle();
        let words = pair.b.take_words_as::<PushRequest>();
        if words.is_empty() {
            return;
        }
        for delivery in words.into_iter().flat_map(|word| hub.answer(word)) {
            pair.tell_b(delivery);
        }
    }
}

/// The device sees a new connection; the server gets a new machine.
pub fn reconnect(pair: &mut Conversation, hub: &mut Hub) {
    let now = pair.now;
    pair.a.close(now, model::close::CloseReason::PeerReset);
    pair.b.close(now, model::close::CloseReason::PeerReset);
    talk(pair, hub);
    let reason = model::close::CloseReason::PeerReset;
    let mut out = model::machine::Outbox::new(base::hash::HashKey::new(1, 2), [0; 32]);
    pair.a.machine.closed(now, reason, &mut out);
    pair.b = PairSide::new(Server::new(10_000), Link::loopback(Protocol::Miop));
    pair.open();
    talk(pair, hub);
}

/// A message as a device observes it.
pub fn message(id: u64, body: &[u8], again: bool) -> Observation {
    Observation::Message { id: MessageId(id), body: body.into(), again }
}

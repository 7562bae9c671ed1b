//! A broker with sessions, for tests of limits that only the crate can reach.

use crate::{Broker, Effects, Settings, routes};
use base::hash::HashKey;
use base::slab::Key;
use base::time::{Instant, Now};
use model::id::{ConnRef, SessionRef, ShardId};
use model::limits::Limits;
use model::ports::access::AllowAll;
use model::ports::lead::LeadProof;
use model::session::{ConnectRequest, SessionDelivery, SessionRequest};
use std::sync::Arc;

/// When it is.
pub(crate) const NOW: Now = Now::new(Instant::from_nanos(1_000_000_000), 1_800_000_000_000);

/// The key of homes.
pub(crate) const HOME: HashKey = HashKey::new(21, 22);

/// The broker of the only shard, with these changes.
pub(crate) fn broker(change: impl FnOnce(&mut Settings)) -> Broker {
    let hash_key = HashKey::new(11, 12);
    let mut settings = Settings {
        shard: ShardId(0),
        shards: 1,
        limits: Arc::new(Limits { binds_per_s: 10_000_000, ..Limits::default() }),
        hash_key,
        home: HOME,
        access: Arc::new(AllowAll),
        summary: routes::RouteSummary::new(1, hash_key),
        exclusives: Arc::default(),
        rewrites: None,
        auto_subscribes: None,
        chat_domain: None,
        seed: 1,
        secrets: [1; 32],
        lead_proof: LeadProof::default(),
    };
    change(&mut settings);
    Broker::new(settings)
}

/// A connection to it.
pub(crate) fn conn(slot: u32) -> ConnRef {
    ConnRef::new(ShardId(0), Key { slot, generation: 1 })
}

/// CONNECT of a client of MQTT 5 whose session ends with its connection.
pub(crate) fn connect(id: &str) -> Box<ConnectRequest> {
    Box::new(ConnectRequest {
        protocol: "mqtt5",
        client_id: id.into(),
        clean_start: true,
        expiry_s: 0,
        keep_alive_s: 60,
        receive_max: 65_535,
        is_bridge: false,
        wants_response_information: false,
        will: None,
        user: None,
        password: None,
        device: None,
        method: None,
        certificate: None,
        peer: "10.0.0.7:1234".parse().expect("an address"),
        near: false,
        door: 0,
        tls: false,
        crowded: false,
    })
}

/// A client that is let in.
pub(crate) fn client(broker: &mut Broker, from: ConnRef, id: &str) -> SessionRef {
    let mut fx = Effects::default();
    broker.request(NOW, from, SessionRequest::Connect(connect(id)), &mut fx);
    match &fx.deliveries[..] {
        [(_, SessionDelivery::Connected(connected))] => connected.session,
        other => panic!("not connected: {other:?}"),
    }
}
